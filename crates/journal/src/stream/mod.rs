//! The stream of one address: retained messages under dense offsets, which readers read and do not
//! consume.
//!
//! A state machine without I/O, as the queue. A [`Partition`] has its messages in *blocks*: one
//! record of the log holds many messages, as they will be sent. The index is by block, so a stored
//! message needs no memory.
//!
//! # A message
//!
//! 1. [`Partition::offer`] detects duplicates; [`Partition::gather`] appends the message to the
//!    gathered ones.
//! 2. [`Partition::flush`] assigns offsets to the gathered messages and passes them to the log,
//!    unless a block is in flight already, so that blocks become large under load.
//! 3. [`Partition::committed`] when the log has written a block, [`Partition::refused`] when it has
//!    refused it: its offsets are then reused.
//! 4. [`Partition::find`] and [`block::entry`] for readers, whose positions are offsets.
//!
//! # Others
//!
//! - retention: [`Partition::overdue`] until it returns `None`, [`Partition::next_timeout`];
//!   [`Partition::ended`] is the state to log when no block is left, so that offsets continue
//! - small blocks: [`Partition::merge`] begins a merge, [`Partition::merged`] replaces the blocks
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
use crate::queue::{DuplicateHistory, Duplicates, Limits};

pub use block::{BlockHead, Entry};
pub use gather::{FilledBlock, Identity, Offer};
pub use index::Block;
pub use merge::Merge;
pub use restore::{ENDED_KEY, Lost, Restored};

use gather::{Gathered, InFlightBlock};
use merge::Run;

/// Size of a block, unless one message is larger: large enough for sequential reads, small enough
/// for read-ahead by many readers.
pub const BLOCK_BYTES: usize = 256 << 10;
/// Minimum size of a block.
const BLOCK_BYTES_MIN: u64 = 4 << 10;
/// Minimum number of blocks of the retained bytes.
const BLOCKS_MIN: u64 = 8;

/// Bounds of retention; older or excess messages are removed, a block at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// bytes of a partition
    pub bytes: Option<u64>,
    /// age of a message, milliseconds
    pub age_ms: Option<u64>,
}

/// The declared settings of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// retention of each partition
    pub retention: Retention,
    /// detection of duplicates by `message-id`, in each partition
    pub duplicates: Option<Duplicates>,
    /// limits of links and of one message
    pub limits: Limits,
}

/// Counters of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// messages stored
    pub enqueued: u64,
    /// accepted but not stored, because they are duplicates
    pub duplicates: u64,
    /// refused
    pub refused: u64,
    /// removed by retention
    pub retired: u64,
}

/// One partition.
#[derive(Debug)]
pub struct Partition {
    retention: Retention,
    block_bytes: usize,
    duplicate_history: DuplicateHistory,
    blocks: VecDeque<Block>,
    /// bytes of the bodies of the blocks
    bytes: u64,
    /// the offset of the next message
    next: u64,
    /// number of the next block in the log
    next_record: u64,
    /// when the newest message was received; times never decrease with offsets
    newest_ms: u64,
    /// number of gathered messages; a ticket identifies a message until it has an offset
    tickets: u64,
    /// number of messages committed or withdrawn
    answered: u64,
    gathered: VecDeque<Gathered>,
    in_flight: VecDeque<InFlightBlock>,
    spare: Vec<Gathered>,
    run: Run,
    /// a complete run, ready to be merged
    due: Option<Run>,
    merging: Option<Run>,
    stats: StreamStats,
}

impl Partition {
    /// An empty partition.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let mut partition = Self {
            retention: Retention::default(),
            block_bytes: BLOCK_BYTES,
            duplicate_history: DuplicateHistory::default(),
            blocks: VecDeque::new(),
            bytes: 0,
            next: 0,
            next_record: 0,
            newest_ms: 0,
            tickets: 0,
            answered: 0,
            gathered: VecDeque::new(),
            in_flight: VecDeque::new(),
            spare: Vec::new(),
            run: Run::default(),
            due: None,
            merging: None,
            stats: StreamStats::default(),
        };
        partition.reconfigure(settings);
        partition
    }

    /// Applies new settings.
    pub fn reconfigure(&mut self, settings: &Settings) {
        self.retention = settings.retention;
        let part = settings.retention.bytes.map_or(u64::MAX, |bytes| bytes / BLOCKS_MIN);
        self.block_bytes = part.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES as u64) as usize;
        self.duplicate_history.configure(settings.duplicates);
    }

    /// The offset of the oldest retained message; [`Partition::next`] if there is none.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.blocks.front().map_or(self.next, |block| block.first)
    }

    /// The offset that the next message will have.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Bytes of the retained blocks.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the oldest retained message was received, milliseconds since 1970.
    #[must_use]
    pub fn oldest_ms(&self) -> Option<u64> {
        self.blocks.front().map(|block| block.first_ms)
    }

    /// The number of messages that are not on disk.
    #[must_use]
    pub const fn uncommitted(&self) -> u64 {
        self.tickets - self.answered
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> StreamStats {
        self.stats
    }

    /// Locations of all retained blocks, except those that a running merge will free.
    pub fn places(&self) -> impl Iterator<Item = RecordLocation> {
        let merging = self.merging.unwrap_or_default();
        self.blocks.iter().filter(move |block| !merging.covers(block)).map(|block| block.place)
    }
}
