//! Faults and disturbances of a run, with counts of each and of each pair: a run in which no
//! dropped connection coincides with a compaction does not test that pair.

use std::fmt;

use enmasse_amqp::time::Time;

/// Virtual time within which two faults count as a pair, in microseconds.
const PAIR_US: u64 = 50_000;

/// The faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// the network drops a connection, without `close`
    Drop,
    /// a client closes its connection
    Close,
    /// a client ends a session
    End,
    /// a client detaches a link
    Detach,
    /// a client does nothing for a while
    Pause,
    /// a client aborts a delivery
    Abort,
    /// a delivery is refused, released or modified by its consumer
    Negative,
    /// a transaction is rolled back, or ends with its link
    Rollback,
    /// an address is deleted or declared again
    Plan,
    /// a segment of the journal is compacted
    Compact,
    /// a chunk of a large batch is written, and others are committed before the next
    Chunk,
    /// the node's process is killed: written data is kept
    Kill,
    /// the power fails: any unsynced data may be lost
    Power,
}

impl Fault {
    const ALL: [Self; 13] = [
        Self::Drop,
        Self::Close,
        Self::End,
        Self::Detach,
        Self::Pause,
        Self::Abort,
        Self::Negative,
        Self::Rollback,
        Self::Plan,
        Self::Compact,
        Self::Chunk,
        Self::Kill,
        Self::Power,
    ];
}

/// How often each fault and each pair of faults happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    counts: [u64; Fault::ALL.len()],
    /// by the later fault, then the earlier one
    pairs: [[u64; Fault::ALL.len()]; Fault::ALL.len()],
    last: [Option<Time>; Fault::ALL.len()],
}

impl FaultCounts {
    /// Records a fault, and its pairs with the faults of the last 50 ms.
    pub(crate) fn record(&mut self, now: Time, fault: Fault) {
        let fault = fault as usize;
        self.counts[fault] += 1;
        for (other, last) in self.last.iter().enumerate() {
            if last.is_some_and(|last| now.as_micros() - last.as_micros() <= PAIR_US) {
                self.pairs[fault.max(other)][fault.min(other)] += 1;
            }
        }
        self.last[fault] = Some(now);
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (fault, count) in other.counts.iter().enumerate() {
            self.counts[fault] += count;
            for (earlier, pairs) in other.pairs[fault].iter().enumerate() {
                self.pairs[fault][earlier] += pairs;
            }
        }
    }

    /// How often one fault happened.
    #[must_use]
    pub fn count(&self, fault: Fault) -> u64 {
        self.counts[fault as usize]
    }

    /// How often two faults happened within 50 ms of each other.
    #[must_use]
    pub fn pair(&self, one: Fault, other: Fault) -> u64 {
        let (one, other) = (one as usize, other as usize);
        self.pairs[one.max(other)][one.min(other)]
    }
}

/// A triangular table: one line per fault, with its count and the counts of its pairs.
impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<9}{:>9}", "fault", "total")?;
        for fault in Fault::ALL {
            write!(f, "{:>9}", format!("{fault:?}"))?;
        }
        for (row, fault) in Fault::ALL.into_iter().enumerate() {
            write!(f, "\n{:<9}{:>9}", format!("{fault:?}"), self.counts[row])?;
            for count in &self.pairs[row][..=row] {
                write!(f, "{count:>9}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_within_a_short_interval_are_counted_as_pairs() {
        let mut counts = FaultCounts::default();
        counts.record(Time::from_micros(0), Fault::Drop);
        counts.record(Time::from_micros(PAIR_US), Fault::Compact);
        counts.record(Time::from_micros(2 * PAIR_US + 1), Fault::Drop);
        let mut sum = FaultCounts::default();
        sum.add(&counts);
        sum.add(&counts);
        assert_eq!((sum.count(Fault::Drop), sum.count(Fault::Compact)), (4, 2));
        assert_eq!((sum.pair(Fault::Drop, Fault::Compact), sum.pair(Fault::Compact, Fault::Drop)), (2, 2));
        assert_eq!(sum.pair(Fault::Drop, Fault::Drop), 0);
        assert_eq!(sum.to_string().lines().count(), 1 + Fault::ALL.len());
    }
}
