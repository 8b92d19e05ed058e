//! Counts of the outcomes of a link.

use crate::types::Outcome;

/// Outcomes of the deliveries of a link since its attach, by kind (3.4). They wrap around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts {
    /// accepted
    pub accepted: u32,
    /// rejected
    pub rejected: u32,
    /// released
    pub released: u32,
    /// modified
    pub modified: u32,
}

impl OutcomeCounts {
    /// The count of one outcome.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        let mut counts = Self::default();
        counts.add(outcome);
        counts
    }

    /// Adds the counts of other deliveries.
    pub fn join(&mut self, others: &Self) {
        let Self { accepted, rejected, released, modified } = others;
        self.accepted = self.accepted.wrapping_add(*accepted);
        self.rejected = self.rejected.wrapping_add(*rejected);
        self.released = self.released.wrapping_add(*released);
        self.modified = self.modified.wrapping_add(*modified);
    }

    /// Counts an outcome.
    #[inline]
    pub fn add(&mut self, outcome: &Outcome) {
        let count = match outcome {
            Outcome::Accepted => &mut self.accepted,
            Outcome::Rejected(_) => &mut self.rejected,
            Outcome::Released => &mut self.released,
            Outcome::Modified(_) => &mut self.modified,
        };
        *count = count.wrapping_add(1);
    }
}
