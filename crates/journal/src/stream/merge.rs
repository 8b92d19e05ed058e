//! Small blocks become large ones: a producer that sends a message now and then has a block for
//! each.

use super::Partition;
use super::block::{BLOCK_HEAD_BYTES, BlockHead};
use super::index::Block;
use crate::log::RecordLocation;

/// A block of this part of the full size is not small.
const SMALL_PART: usize = 4;
/// Small blocks side by side that become one.
const RUN_BLOCKS: u32 = 64;

/// Small blocks side by side.
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

/// Blocks that shall become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// the number by which the log will know the new block
    pub record: u64,
    /// the record beside it
    pub head: [u8; BLOCK_HEAD_BYTES],
    /// numbers and places of those it takes the place of, in order: their bodies in a row are its
    /// body
    pub blocks: Vec<(u64, RecordLocation)>,
}

impl Partition {
    /// Appends a block.
    pub(super) fn note_run(&mut self, block: &Block) {
        if block.damaged || block.bytes as usize * SMALL_PART >= self.block_bytes {
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

    /// A block has left the front.
    pub(super) fn forget_run(&mut self, block: &Block) {
        if self.run.covers(block) {
            self.run = Run::default();
        }
        self.due = self.due.filter(|run| !run.covers(block));
    }

    /// The places of blocks that shall become one, if there are such: their bodies are needed for
    /// [`Partition::merge`].
    #[must_use]
    pub fn merge_due(&self) -> Option<impl Iterator<Item = RecordLocation>> {
        let run = self.due.filter(|_| self.merging.is_none())?;
        Some(self.blocks_of(run).map(|block| block.place))
    }

    fn blocks_of(&self, run: Run) -> impl Iterator<Item = &Block> {
        self.find(run.first).take_while(move |block| run.covers(block))
    }

    /// Makes one block of those; they stay until [`Partition::merged`]. `None`: some are damaged,
    /// or being written again, and stay as they are.
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

    /// The log has the new block in the place of the others, or has not taken it. `None`: no merge
    /// is under way.
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

    /// A merged block is small still: it takes part in the next run, if that begins behind it.
    fn lengthen_run(&mut self, block: &Block) {
        let small = block.bytes as usize * SMALL_PART < self.block_bytes;
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
