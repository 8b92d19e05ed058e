//! The result of a run.

use crate::faults::FaultCounts;
use crate::ledger::RunStats;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// the counters of the run
    pub stats: RunStats,
    /// the faults that were injected
    pub faults: FaultCounts,
    /// digest of the log, equal for every run of the seed
    pub digest: u64,
}
