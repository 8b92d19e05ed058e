//! Reads of the disk: their results, and retries after failures.
//!
//! A failed read does not mean that the message is lost, because the disk may recover: it is
//! repeated with a growing pause. Messages may overtake one that cannot be read for [`OVERDUE_MS`],
//! if the queue's order allows that: see `Router::defer_first`.

use std::collections::{BTreeMap, HashMap};

use enmasse_journal::log::{ReadError, RecordLocation};

/// The pause after the first failed read; it doubles with each further one.
const FIRST_MS: u64 = 1000;
/// The longest pause.
const PAUSE_MAX_MS: u64 = 30_000;
/// Time after which messages may overtake one that cannot be read.
pub(in crate::core) const OVERDUE_MS: u64 = 10_000;
/// Bound of the failed locations. Beyond it, unused ones are forgotten, and their time-out starts
/// again.
const FAILING_MAX: usize = 65_536;

/// The result of reading one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// the encoded message, which may have no bytes
    Body(Vec<u8>),
    /// the bytes differ from what was written: the message is lost
    Damaged,
    /// the read failed; it may succeed later
    Unreadable,
}

impl From<Result<&[u8], ReadError>> for Read {
    fn from(result: Result<&[u8], ReadError>) -> Self {
        match result {
            Ok(body) => Self::Body(body.to_vec()),
            Err(ReadError::Damaged(_)) => Self::Damaged,
            Err(ReadError::Disk { .. }) => Self::Unreadable,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    since_ms: u64,
    pause_ms: u64,
    again_ms: u64,
}

/// Locations that could not be read.
#[derive(Debug, Default)]
pub(in crate::core) struct Retries {
    now_ms: u64,
    failing: HashMap<RecordLocation, Failing>,
    /// locations by the time of their next read
    due: BTreeMap<u64, Vec<RecordLocation>>,
}

impl Retries {
    pub(in crate::core) fn set_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Records a failed read. Returns whether the location has been unreadable for [`OVERDUE_MS`].
    pub(in crate::core) fn failed(
        &mut self,
        place: RecordLocation,
        is_wanted: impl Fn(RecordLocation) -> bool,
    ) -> bool {
        let now_ms = self.now_ms;
        if self.failing.len() >= FAILING_MAX {
            self.failing.retain(|place, _| is_wanted(*place));
        }
        let fresh = Failing { since_ms: now_ms, pause_ms: FIRST_MS, again_ms: 0 };
        let failing = self.failing.entry(place).or_insert(fresh);
        let overdue_at = failing.since_ms + OVERDUE_MS;
        let overdue = now_ms >= overdue_at;
        failing.again_ms = now_ms + failing.pause_ms;
        if !overdue {
            failing.again_ms = failing.again_ms.min(overdue_at);
        }
        failing.pause_ms = (failing.pause_ms * 2).min(PAUSE_MAX_MS);
        self.due.entry(failing.again_ms).or_default().push(place);
        overdue
    }

    /// Forgets a location that was read or is not needed any more.
    #[inline]
    pub(in crate::core) fn forget(&mut self, place: RecordLocation) {
        if !self.failing.is_empty() {
            self.failing.remove(&place);
        }
    }

    /// If the location has failed and its pause has not passed, schedules its next read and returns
    /// whether it is overdue.
    pub(in crate::core) fn overdue_if_paused(&mut self, place: RecordLocation) -> Option<bool> {
        if self.failing.is_empty() {
            return None;
        }
        let failing = *self.failing.get(&place).filter(|failing| failing.again_ms > self.now_ms)?;
        let due = self.due.entry(failing.again_ms).or_default();
        if !due.contains(&place) {
            due.push(place);
        }
        Some(self.now_ms >= failing.since_ms + OVERDUE_MS)
    }

    /// The time of the next retry.
    pub(in crate::core) fn next_ms(&self) -> Option<u64> {
        self.due.keys().next().copied()
    }

    /// Takes the locations whose pause has passed.
    pub(in crate::core) fn take_due(&mut self) -> Vec<RecordLocation> {
        let later = self.due.split_off(&(self.now_ms + 1));
        std::mem::replace(&mut self.due, later).into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: RecordLocation = RecordLocation { segment: 1, offset: 4096, len: 100 };

    #[test]
    fn read_retries_back_off_and_are_overdue_exactly_at_the_limit() {
        let mut retries = Retries::default();
        let (mut at, mut read_at) = (0, Vec::new());
        while at < 120_000 {
            retries.set_time(at);
            let overdue = retries.failed(PLACE, |_| true);
            assert_eq!(overdue, at >= OVERDUE_MS, "at {at}");
            read_at.push(at);
            at = retries.next_ms().expect("a retry is scheduled");
            retries.set_time(at);
            assert_eq!(retries.take_due(), [PLACE]);
        }
        assert_eq!(read_at, [0, 1000, 3000, 7000, 10_000, 26_000, 56_000, 86_000, 116_000]);
    }

    #[test]
    fn a_second_request_waits_for_the_pause() {
        let mut retries = Retries::default();
        retries.failed(PLACE, |_| true);
        assert_eq!(retries.overdue_if_paused(PLACE), Some(false));
        retries.set_time(1000);
        assert_eq!(retries.take_due(), [PLACE]);
        assert_eq!(retries.overdue_if_paused(PLACE), None, "the pause has passed");
        retries.failed(PLACE, |_| true);
        retries.forget(PLACE);
        assert_eq!(retries.overdue_if_paused(PLACE), None);
    }
}
