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
    #[inline]
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        let count = match outcome {
            Outcome::Accepted => &mut self.accepted,
            Outcome::Rejected(_) => &mut self.rejected,
            Outcome::Released => &mut self.released,
            Outcome::Modified(_) => &mut self.modified,
        };
        *count = count.wrapping_add(1);
    }
}
