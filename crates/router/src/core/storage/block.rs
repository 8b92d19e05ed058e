//! Blocks of streams on their way to the log.

use enmasse_journal::log::RecordLocation;

use super::super::arena::Key;

/// A block in flight to the log.
#[derive(Debug)]
pub(in crate::core) struct InFlightBlock {
    /// its number in the batch
    pub(in crate::core) number: usize,
    pub(in crate::core) at: Key,
    pub(in crate::core) partition: u32,
    pub(in crate::core) write: BlockWrite,
}

#[derive(Debug)]
pub(in crate::core) enum BlockWrite {
    /// messages, in this many bytes
    Store { bytes: u64 },
    /// one block that replaces others
    Merge { record: u64, blocks: Vec<(u64, RecordLocation)> },
}

impl InFlightBlock {
    pub(in crate::core) fn numbered(self, number: usize) -> Self {
        Self { number, ..self }
    }
}

/// A block in memory that belongs to a transaction in flight.
#[derive(Debug)]
pub(in crate::core) struct MemoryBlock {
    pub(in crate::core) at: Key,
    pub(in crate::core) partition: u32,
    pub(in crate::core) place: RecordLocation,
    pub(in crate::core) bytes: u64,
}

/// A copied block.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct CopiedBlock {
    /// number of its partition in the log
    pub(in crate::core) log: u32,
    pub(in crate::core) at: Key,
    pub(in crate::core) partition: u32,
    pub(in crate::core) record: u64,
    pub(in crate::core) from: RecordLocation,
}
