//! Merging of small blocks: without it, a producer that sends rarely has a block for each message.

use super::Partition;
use super::block::{BLOCK_HEAD_BYTES, BlockHead};
use super::index::Block;
use crate::log::RecordLocation;

/// A block smaller than the full size divided by this is small.
const SMALL_BLOCK_DIVISOR: usize = 4;
/// Adjacent small blocks of one merge.
const RUN_BLOCKS: u32 = 64;

/// Adjacent small blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    first: u64,
    end: u64,
    blocks: u32,
    bytes: u64,
}

impl Run {
    fn of(block: &Block) -> Self {
        Self { first: block.first, end: block.end(), blocks: 1, bytes: block.bytes.into() }
    }

    pub(super) fn covers(&self, block: &Block) -> bool {
        (self.first..self.end).contains(&block.first)
    }
}

/// A merge of blocks into a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// number of the new block in the log
    pub record: u64,
    /// encoded index entry of the new block
    pub head: [u8; BLOCK_HEAD_BYTES],
    /// numbers and locations of the merged blocks, in order; their concatenated bodies are the new
    /// body
    pub blocks: Vec<(u64, RecordLocation)>,
}

impl Partition {
    /// Updates the current run with an appended block.
    pub(super) fn note_run(&mut self, block: &Block) {
        if block.damaged || block.bytes as usize * SMALL_BLOCK_DIVISOR >= self.block_bytes {
            self.run = Run::default();
            return;
        }
        let run = self.run;
        let fits = run.bytes + u64::from(block.bytes) <= self.block_bytes as u64;
        if run.blocks == 0 || run.end != block.first {
            self.run = Run::of(block);
        } else if fits {
            let (end, blocks) = (block.end(), run.blocks + 1);
            self.run = Run { end, blocks, bytes: run.bytes + u64::from(block.bytes), ..run };
        } else {
            self.finish_run();
            self.run = Run::of(block);
        }
        if self.run.blocks >= RUN_BLOCKS {
            self.finish_run();
        }
    }

    fn finish_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if run.blocks > 1 && self.due.is_none() {
            self.due = Some(run);
        }
    }

    /// Drops runs with a block that retention removed.
    pub(super) fn forget_run(&mut self, block: &Block) {
        if self.run.covers(block) {
            self.run = Run::default();
        }
        self.due = self.due.filter(|run| !run.covers(block));
    }

    /// The locations of the blocks of a due merge, if there is one: [`Partition::merge`] needs
    /// their bodies.
    #[must_use]
    pub fn merge_due(&self) -> Option<impl Iterator<Item = RecordLocation>> {
        let run = self.due.filter(|_| self.merging.is_none())?;
        Some(self.blocks_of(run).map(|block| block.place))
    }

    fn blocks_of(&self, run: Run) -> impl Iterator<Item = &Block> {
        self.find(run.first).take_while(move |block| run.covers(block))
    }

    /// Begins the due merge; the old blocks stay until [`Partition::merged`]. `None`: a block is
    /// damaged or is being copied, so the blocks are not merged.
    pub fn merge(&mut self) -> Option<Merge> {
        let run = self.due.take().filter(|_| self.merging.is_none())?;
        let sound = |block: &Block| !block.damaged && !block.copying;
        let whole = self.blocks_of(run).filter(|block| sound(block)).count() == run.blocks as usize;
        let (first, last) = (self.blocks_of(run).next().copied()?, self.blocks_of(run).last().copied()?);
        if !whole {
            return None;
        }
        let blocks = self.blocks_of(run).map(|block| (block.record, block.place)).collect();
        let head = head_of(run, &first, &last).encode();
        self.merging = Some(run);
        Some(Merge { record: self.record(), head, blocks })
    }

    /// Ends the merge: the new block, at `place`, replaces the others. `None`: no merge is running,
    /// or the log has refused the new block.
    pub fn merged(&mut self, record: u64, place: Option<RecordLocation>) -> Option<()> {
        let run = self.merging.take()?;
        let place = place?;
        let at = self.position(run.first);
        let last = self.blocks.get(at + run.blocks as usize - 1).copied()?;
        let head = head_of(run, self.blocks.get(at)?, &last);
        let new = Block::new(record, head, place, run.bytes);
        self.blocks.drain(at + 1..at + run.blocks as usize);
        self.blocks[at] = new;
        self.lengthen_run(&new);
        Some(())
    }

    /// Adds a merged block that is still small to the run that begins behind it.
    fn lengthen_run(&mut self, block: &Block) {
        let small = block.bytes as usize * SMALL_BLOCK_DIVISOR < self.block_bytes;
        let bytes = self.run.bytes + u64::from(block.bytes);
        if small && self.run.blocks > 0 && self.run.first == block.end() && bytes <= self.block_bytes as u64 {
            self.run = Run { first: block.first, blocks: self.run.blocks + 1, bytes, ..self.run };
        } else if small && self.run.blocks == 0 && self.next == block.end() {
            self.run = Run::of(block);
        }
    }
}

fn head_of(run: Run, first: &Block, last: &Block) -> BlockHead {
    let count = (run.end - run.first) as u32;
    BlockHead { first: run.first, count, first_ms: first.first_ms, last_ms: last.last_ms }
}
