//! Lanes of the commit schedule, and the answers for their batches.

use super::batch::WriteBatch;
use super::config::Refused;

/// Identifies a lane: a worker and one of its parts.
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
