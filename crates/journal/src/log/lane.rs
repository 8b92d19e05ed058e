//! Lanes of the commit schedule, and the answers for their batches.

use super::batch::WriteBatch;
use super::config::Refused;

/// The part of copies, which belong to no address space.
pub const COPIES_PART: u32 = u32::MAX;

/// Identifies a lane: a worker and one of its parts, an address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    /// The worker.
    pub worker: u16,
    /// Its part.
    pub part: u32,
}

/// A batch after its commit has succeeded or failed.
#[derive(Debug)]
pub struct Committed {
    /// Its lane.
    pub lane: Lane,
    /// The batch.
    pub batch: WriteBatch,
    /// Whether it is on disk.
    pub result: Result<(), Refused>,
}
