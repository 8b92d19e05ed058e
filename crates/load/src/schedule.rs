//! When messages of a fixed rate are due.
//!
//! Messages are due in bursts, one burst per tick, and are stamped with the time of their tick, so
//! that late wake-ups of the tool count as latency. A message that cannot be sent when it is due
//! stays due, so that a server that delays a sender does not hide the delay (no coordinated
//! omission).

use std::time::Duration;

/// Shortest time between two bursts, in nanoseconds: below it a sleeping thread cannot keep the
/// rate.
const TICK_MIN: u64 = 100_000;

/// A schedule of messages; times are nanoseconds of the run's clock.
pub(super) struct SendSchedule {
    start: u64,
    tick: u64,
    /// messages a nanosecond
    rate: f64,
    /// the tick whose messages are being sent
    current: u64,
    /// messages sent so far
    taken: u64,
}

impl SendSchedule {
    /// `rate` messages a second from `start` on.
    pub(super) fn new(rate: f64, start: u64) -> Self {
        let tick = (1e9 / rate).round().max(TICK_MIN as f64) as u64;
        Self { start, tick, rate: rate / 1e9, current: 0, taken: 0 }
    }

    fn due_by(&self, tick: u64) -> u64 {
        ((tick * self.tick) as f64 * self.rate).round() as u64
    }

    /// The due time of the next message, if it is due by `now`. It stays the next until `take`.
    pub(super) fn due(&mut self, now: u64) -> Option<u64> {
        let last = now.saturating_sub(self.start) / self.tick;
        while self.current < last && self.due_by(self.current) <= self.taken {
            self.current += 1;
        }
        (self.due_by(self.current) > self.taken).then(|| self.start + self.current * self.tick)
    }

    /// Advances past the due message, which was sent.
    pub(super) fn take(&mut self) {
        self.taken += 1;
    }

    /// How long until the next tick.
    pub(super) fn wait(&self, now: u64) -> Duration {
        let next = self.start + (now.saturating_sub(self.start) / self.tick + 1) * self.tick;
        Duration::from_nanos(next.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::SendSchedule;

    /// Takes all that is due at `now`.
    fn take_all(schedule: &mut SendSchedule, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| schedule.due(now).inspect(|_| schedule.take())).collect()
    }

    #[test]
    fn slow_rate_sends_one_message_per_tick() {
        let mut schedule = SendSchedule::new(1000.0, 500);
        assert_eq!(take_all(&mut schedule, 500), [0; 0]);
        assert_eq!(take_all(&mut schedule, 1_000_499), [0; 0]);
        assert_eq!(take_all(&mut schedule, 1_000_500), [1_000_500]);
        assert_eq!(schedule.wait(1_000_600), Duration::from_nanos(999_900));
    }

    #[test]
    fn fast_rate_sends_bursts() {
        let mut schedule = SendSchedule::new(50_000.0, 0);
        assert_eq!(take_all(&mut schedule, 100_000), [100_000; 5]);
        assert_eq!(take_all(&mut schedule, 199_999), [0; 0]);
    }

    #[test]
    fn late_message_keeps_its_due_time() {
        let mut schedule = SendSchedule::new(20_000.0, 0);
        assert_eq!(take_all(&mut schedule, 300_000), [100_000, 100_000, 200_000, 200_000, 300_000, 300_000]);
        // not taken: it stays due
        assert_eq!((schedule.due(400_000), schedule.due(900_000)), (Some(400_000), Some(400_000)));
    }

    #[test]
    fn schedule_sends_the_configured_rate_over_time() {
        for rate in [3.0, 999.9, 12_345.6, 1_000_000.0] {
            let mut schedule = SendSchedule::new(rate, 7);
            let mut sent = 0;
            for now in (7..=10_000_000_007_u64).step_by(333_333) {
                sent += take_all(&mut schedule, now).len();
            }
            assert!((sent as f64 - rate * 10.0).abs() <= rate / 1000.0 + 2.0, "{rate}: {sent}");
        }
    }
}
