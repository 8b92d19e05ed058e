//! The time of the next attempt after a failure: after one second, doubling up to 30 s.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The time of the next attempt, if something has failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    pause: Duration,
    due: Option<Instant>,
}

impl Backoff {
    /// Records a failure. Failures before the next attempt share that attempt.
    pub(super) fn failed(&mut self, now: Instant) {
        if self.due.is_none() {
            self.pause = (self.pause * 2).clamp(FIRST, PAUSE_MAX);
            self.due = Some(now + self.pause);
        }
    }

    /// Records success: the next failure starts at the first delay.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Whether the next attempt is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// As [`Backoff::is_due`]; true once for each attempt.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let due = self.is_due(now);
        if due {
            self.due = None;
        }
        due
    }

    /// Time until the next attempt, if there is one.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delay_doubles_up_to_30_seconds_and_resets_after_success() {
        let start = Instant::now();
        let mut now = start;
        let mut backoff = Backoff::default();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            backoff.failed(now);
            backoff.failed(now);
            let wait = backoff.wait(now).unwrap();
            assert!(!backoff.take_due(now + wait - Duration::from_millis(1)));
            now += wait;
            assert!(backoff.take_due(now) && !backoff.take_due(now), "one attempt");
            pauses.push(wait.as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        backoff.succeeded();
        assert_eq!(backoff.wait(now), None);
        backoff.failed(now);
        assert_eq!(backoff.wait(now), Some(FIRST));
    }
}
