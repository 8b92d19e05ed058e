//! The stream of one address: retained messages under dense offsets, which readers read and do not
//! consume.
//!
//! A machine without I/O, as the queue is. A [`Partition`] has its messages in *blocks*: one record
//! of the log holds many messages, as they will go out. Offsets and index are by block, so a
//! message costs nothing at rest but its bytes.
//!
//! # A message
//!
//! 1. [`Partition::offer`] detects duplicates; [`Partition::gather`] appends the message to those
//!    that wait.
//! 2. [`Partition::flush`] assigns offsets to the gathered messages and passes them to the log,
//!    unless a block is in flight already: so blocks become large under load.
//! 3. [`Partition::committed`] when the log has written a block, [`Partition::refused`] when it has
//!    not: then its offsets go to the next messages.
//! 4. [`Partition::find`] and [`block::entry`] for readers, whose positions are offsets.
//!
//! # Others
//!
//! - retention: [`Partition::overdue`] until there is nothing, [`Partition::next_timeout`];
//!   [`Partition::ended`] is the state to log when no block is left, so that offsets continue
//! - small blocks: [`Partition::merge`] makes one of many, [`Partition::merged`] puts it in their
//!   place
//! - a restart: [`Partition::restore`]; the log's compaction: [`Partition::copying`],
//!   [`Partition::moved`]
//!
//! # Bounds
//!
//! The index takes 56 bytes a block. Gathered messages are bounded by the producers' windows.

pub mod block;
mod gather;
mod index;
mod merge;
mod restore;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::log::RecordLocation;
use crate::queue::{Duplicates, Limits, Seen};

pub use block::{BlockHead, Entry};
pub use gather::{FilledBlock, Identity, Offer};
pub use index::Block;
pub use merge::Merge;
pub use restore::{ENDED_KEY, Lost, Restored};

use gather::{Gathered, UnderWay};
use merge::Run;

/// Bytes of a block, unless one message is larger: large enough that reading is sequential, small
/// enough to be read ahead for many.
pub const BLOCK_BYTES: usize = 256 << 10;
/// No smaller blocks, however little is retained.
const BLOCK_BYTES_MIN: u64 = 4 << 10;
/// Of the bytes retained a block is at most this part.
const BLOCKS_MIN: u64 = 8;

/// How much is kept; older or excess messages are removed, a block at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// bytes of a partition
    pub bytes: Option<u64>,
    /// age of a message, milliseconds
    pub age_ms: Option<u64>,
}

/// All that is declared about a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// how much each partition keeps
    pub retention: Retention,
    /// by `message-id`, in each partition
    pub duplicates: Option<Duplicates>,
    /// those of links and of one message
    pub limits: Limits,
}

/// Counters. It counts up while the partition lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// messages stored
    pub enqueued: u64,
    /// accepted and not stored, because they were here before
    pub duplicates: u64,
    /// refused
    pub refused: u64,
    /// taken by retention
    pub retired: u64,
}

/// One partition.
#[derive(Debug)]
pub struct Partition {
    retention: Retention,
    block_bytes: usize,
    seen: Seen,
    blocks: VecDeque<Block>,
    /// of the bodies of those
    bytes: u64,
    /// the offset of the next message
    next: u64,
    /// the number by which the log will know the next block
    next_record: u64,
    /// when the newest message came: none is older than one before it
    newest_ms: u64,
    /// counts messages gathered; names them until they have offsets
    tickets: u64,
    /// how many of those are answered
    answered: u64,
    gathered: VecDeque<Gathered>,
    under_way: VecDeque<UnderWay>,
    spare: Vec<Gathered>,
    run: Run,
    /// a run that is long enough
    due: Option<Run>,
    merging: Option<Run>,
    stats: StreamStats,
}

impl Partition {
    /// An empty one.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let mut partition = Self {
            retention: Retention::default(),
            block_bytes: BLOCK_BYTES,
            seen: Seen::default(),
            blocks: VecDeque::new(),
            bytes: 0,
            next: 0,
            next_record: 0,
            newest_ms: 0,
            tickets: 0,
            answered: 0,
            gathered: VecDeque::new(),
            under_way: VecDeque::new(),
            spare: Vec::new(),
            run: Run::default(),
            due: None,
            merging: None,
            stats: StreamStats::default(),
        };
        partition.reconfigure(settings);
        partition
    }

    /// Goes by other settings from now on.
    pub fn reconfigure(&mut self, settings: &Settings) {
        self.retention = settings.retention;
        let part = settings.retention.bytes.map_or(u64::MAX, |bytes| bytes / BLOCKS_MIN);
        self.block_bytes = part.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES as u64) as usize;
        self.seen.configure(settings.duplicates);
    }

    /// The offset of the oldest message kept; [`Partition::next`] if there is none.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.blocks.front().map_or(self.next, |block| block.first)
    }

    /// The offset that the next message will have.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Bytes of the blocks kept.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the oldest message kept came, milliseconds since 1970.
    #[must_use]
    pub fn oldest_ms(&self) -> Option<u64> {
        self.blocks.front().map(|block| block.first_ms)
    }

    /// Messages that are not on disk.
    #[must_use]
    pub const fn uncommitted(&self) -> u64 {
        self.tickets - self.answered
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> StreamStats {
        self.stats
    }

    /// Locations of everything that is kept, except for what a merge in flight will free.
    pub fn places(&self) -> impl Iterator<Item = RecordLocation> {
        let merging = self.merging.unwrap_or_default();
        self.blocks.iter().filter(move |block| !merging.covers(block)).map(|block| block.place)
    }
}
