//! The index of blocks by offset and by time, and their retention.

use super::Partition;
use super::block::BlockHead;
use crate::log::RecordLocation;

/// A retained block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// its number in the log
    pub record: u64,
    /// offset of its first message
    pub first: u64,
    /// when its first message was received
    pub first_ms: u64,
    /// when its last message was received
    pub last_ms: u64,
    /// its location
    pub place: RecordLocation,
    /// messages in it
    pub count: u32,
    /// bytes of its body; a larger one counts as `u32::MAX`
    pub bytes: u32,
    /// its body is damaged
    pub damaged: bool,
    /// compaction is copying it
    pub(super) copying: bool,
}

impl Block {
    pub(super) fn new(record: u64, head: BlockHead, place: RecordLocation, bytes: u64) -> Self {
        let BlockHead { first, count, first_ms, last_ms } = head;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Self { record, first, first_ms, last_ms, place, count, bytes, damaged: false, copying: false }
    }

    /// The offset behind its last message.
    #[inline]
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.first + self.count as u64
    }
}

impl Partition {
    /// The index position of the block with `offset`, or of the first block behind it; the number
    /// of blocks if there is none.
    pub(super) fn position(&self, offset: u64) -> usize {
        self.blocks.partition_point(|block| block.end() <= offset)
    }

    /// The block with `offset`, or the first behind it, and all that follow it.
    pub fn find(&self, offset: u64) -> impl Iterator<Item = &Block> {
        self.blocks.range(self.position(offset)..)
    }

    /// The offset of the first block with a message received at or after a time;
    /// [`Partition::next`] if there is none.
    #[must_use]
    pub fn since(&self, at_ms: u64) -> u64 {
        let at = self.blocks.partition_point(|block| block.last_ms < at_ms);
        self.blocks.get(at).map_or(self.next, |block| block.first)
    }

    /// Marks the block with `offset` as damaged, and returns it if it was not marked before.
    pub fn damage(&mut self, offset: u64) -> Option<Block> {
        let at = self.position(offset);
        let block = self.blocks.get_mut(at).filter(|block| block.first <= offset)?;
        let before = *block;
        (!std::mem::replace(&mut block.damaged, true)).then_some(before)
    }

    pub(super) fn push(&mut self, block: Block) {
        self.bytes += u64::from(block.bytes);
        self.blocks.push_back(block);
        self.note_run(&block);
    }

    /// Removes the oldest block, if retention requires it. A block that is being copied or merged
    /// is removed only afterwards.
    pub fn overdue(&mut self, now_ms: u64) -> Option<Block> {
        let oldest = self.blocks.front()?;
        let merging = self.merging.is_some_and(|run| run.covers(oldest));
        if oldest.copying || merging || !(self.is_over() || self.is_old(oldest, now_ms)) {
            return None;
        }
        let oldest = self.blocks.pop_front()?;
        self.bytes -= u64::from(oldest.bytes);
        self.stats.retired += u64::from(oldest.count);
        self.forget_run(&oldest);
        Some(oldest)
    }

    /// The newest block always stays, so that accepted messages can be read.
    fn is_over(&self) -> bool {
        self.blocks.len() > 1 && self.retention.bytes.is_some_and(|bytes| self.bytes > bytes)
    }

    fn is_old(&self, block: &Block, now_ms: u64) -> bool {
        self.retention.age_ms.is_some_and(|age| block.last_ms.saturating_add(age) <= now_ms)
    }

    /// When [`Partition::overdue`] must be called again, milliseconds since 1970.
    #[must_use]
    pub fn next_timeout(&self) -> Option<u64> {
        let oldest = self.blocks.front()?;
        Some(oldest.last_ms.saturating_add(self.retention.age_ms?))
    }

    /// Marks at most `most` blocks of a segment as being copied, except those that are already
    /// being copied or merged. Returns record number and location of each.
    pub fn copying(&mut self, segment: u32, most: usize) -> Vec<(u64, RecordLocation)> {
        let merging = self.merging.unwrap_or_default();
        let here = self.blocks.iter_mut().filter(|block| block.place.segment == segment && !merging.covers(block));
        let here = here.filter(|block| !block.copying).take(most);
        here.map(|block| {
            block.copying = true;
            (block.record, block.place)
        })
        .collect()
    }

    /// Ends the copying of a block: it is now at `place`, or at its old location if that is `None`.
    /// `false`: there is no such block any more.
    pub fn moved(&mut self, record: u64, place: Option<RecordLocation>) -> bool {
        let Some(block) = self.blocks.iter_mut().find(|block| block.record == record && block.copying) else {
            return false;
        };
        block.copying = false;
        if let Some(place) = place {
            block.place = place;
        }
        true
    }
}
