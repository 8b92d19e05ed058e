//! The rate limit of a space's clients: arithmetic on a given time, shared by all shards of a node.
//!
//! A bound per second is a debt that time pays off: a message moves the time until which everything
//! is paid for by its cost, and after that a second's worth may come at once. Messages are charged
//! on arrival, so traffic beyond the bound was sent within granted credit, and it is paid for
//! before new credit is granted: over any time the traffic is at most the bound, a second's worth,
//! the input of a turn, and the outstanding credit.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use enmasse_amqp::time::Time;

use crate::plan::SpaceLimits;

const SECOND_NS: u64 = 1_000_000_000;
/// Waiting senders continue when this much is available: less would be a flow for every few
/// messages.
const REST_NS: u64 = SECOND_NS / 50;
/// The credit of one link is worth this part of a second, so that a few links do not use up what
/// all wait for.
const SHARES: u64 = 10;
/// Bytes that a message is taken to have before there was one.
const GUESS_BYTES: u64 = 1024;

/// The allowance of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// credit for so many deliveries at a time on each link
    Share(u32),
    /// none before that time; then ask again
    After(Time),
    /// none, until the plan changes
    Nothing,
}

/// The bounds of one space and their balance. A space that has none has no `Pace`.
#[derive(Debug)]
pub struct Pace {
    messages: Option<Bound>,
    bytes: Option<Bound>,
    exhausted: bool,
}

#[derive(Debug)]
pub(super) struct Bound {
    a_second: NonZeroU64,
    /// the time until which traffic is paid for, in nanoseconds after a second before the origin of
    /// time
    paid_ns: AtomicU64,
}

impl Bound {
    pub(super) const fn of(a_second: NonZeroU64) -> Self {
        Self { a_second, paid_ns: AtomicU64::new(0) }
    }

    fn new(a_second: Option<u64>) -> Option<Self> {
        a_second.and_then(NonZeroU64::new).map(Self::of)
    }

    fn charge(&self, now_ns: u64, count: u64) {
        let cost = (u128::from(count) * u128::from(SECOND_NS)).div_ceil(u128::from(self.a_second.get()));
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let put_off = |paid: u64| Some(paid.max(now_ns - SECOND_NS).saturating_add(cost));
        // Relaxed: the number carries no other memory with it. It cannot fail, for it always gives
        // a number.
        let _ = self.paid_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, put_off);
    }

    /// When there is something again; `None`: now.
    fn due_ns(&self, now_ns: u64) -> Option<u64> {
        let paid = self.paid_ns.load(Ordering::Relaxed);
        (paid > now_ns).then(|| paid.saturating_add(REST_NS))
    }

    /// Takes one, if there is one at that time.
    pub(super) fn take(&self, now: Time) -> bool {
        let there = self.due_ns(nanos(now)).is_none();
        if there {
            self.charge(nanos(now), 1);
        }
        there
    }

    fn share(&self, each: u64) -> u32 {
        u32::try_from(self.a_second.get() / SHARES / each.max(1)).unwrap_or(u32::MAX)
    }

    fn matches(&self, limit: Option<u64>) -> bool {
        limit == Some(self.a_second.get())
    }
}

/// So that the second's worth that may come at once is there from the beginning.
fn nanos(now: Time) -> u64 {
    now.as_micros().saturating_mul(1000).saturating_add(SECOND_NS)
}

impl Pace {
    /// The bounds in `limits`, if there are any.
    #[must_use]
    pub fn new(limits: &SpaceLimits) -> Option<Self> {
        let (messages, bytes) = (Bound::new(limits.messages_per_second), Bound::new(limits.bytes_per_second));
        let bounded = messages.is_some() || bytes.is_some() || limits.exhausted;
        bounded.then_some(Self { messages, bytes, exhausted: limits.exhausted })
    }

    /// Whether these are the bounds in `limits`.
    #[must_use]
    pub fn is_of(&self, limits: &SpaceLimits) -> bool {
        let same = |bound: &Option<Bound>, limit: Option<u64>| {
            bound.as_ref().map_or(limit.is_none(), |bound| bound.matches(limit))
        };
        same(&self.messages, limits.messages_per_second)
            && same(&self.bytes, limits.bytes_per_second)
            && self.exhausted == limits.exhausted
    }

    /// So much has come.
    pub fn charge(&self, now: Time, messages: u64, bytes: u64) {
        for (bound, count) in [(&self.messages, messages), (&self.bytes, bytes)] {
            if let Some(bound) = bound {
                bound.charge(nanos(now), count);
            }
        }
    }

    /// The allowance of a sender whose messages had `mean_bytes` so far; 0: there was none. A share
    /// is a power of two, so that a mean that moves a little does not change it.
    #[must_use]
    pub fn allowance(&self, now: Time, mean_bytes: u64) -> Allowance {
        if self.exhausted {
            return Allowance::Nothing;
        }
        let bounds = || [&self.messages, &self.bytes].into_iter().flatten();
        if let Some(due) = bounds().filter_map(|bound| bound.due_ns(nanos(now))).max() {
            return Allowance::After(Time::from_micros((due - SECOND_NS).div_ceil(1000)));
        }
        let each = if mean_bytes == 0 { GUESS_BYTES } else { mean_bytes };
        let shares =
            [self.messages.as_ref().map(|bound| bound.share(1)), self.bytes.as_ref().map(|bound| bound.share(each))];
        let share = shares.into_iter().flatten().min().unwrap_or(u32::MAX).max(1);
        Allowance::Share(1 << share.ilog2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(messages: Option<u64>, bytes: Option<u64>) -> Pace {
        let limits = SpaceLimits { messages_per_second: messages, bytes_per_second: bytes, ..SpaceLimits::default() };
        Pace::new(&limits).expect("it has a bound")
    }

    fn at(millis: u64) -> Time {
        Time::ZERO.plus_millis(millis)
    }

    #[test]
    fn space_without_rate_limits_has_no_pace() {
        assert!(Pace::new(&SpaceLimits::default()).is_none());
    }

    #[test]
    fn burst_of_one_second_is_allowed_and_any_excess_delays_the_next_share() {
        let pace = pace(Some(100), None);
        for start in [0, 10_000] {
            pace.charge(at(start), 100, 0);
            assert_eq!(pace.allowance(at(start), 0), Allowance::Share(8));
            pace.charge(at(start), 50, 0);
            assert_eq!(pace.allowance(at(start), 0), Allowance::After(at(start + 520)));
            assert_eq!(pace.allowance(at(start + 499), 0), Allowance::After(at(start + 520)));
            assert_eq!(pace.allowance(at(start + 520), 0), Allowance::Share(8));
        }
    }

    #[test]
    fn average_rate_meets_the_stricter_of_two_bounds() {
        let pace = pace(Some(50), Some(10_000));
        let (mut now, mut sent) = (Time::ZERO, 0);
        while now < at(100_000) {
            match pace.allowance(now, 1000) {
                Allowance::Share(share) => {
                    pace.charge(now, u64::from(share), 1000 * u64::from(share));
                    sent += share;
                }
                Allowance::After(due) => now = due,
                Allowance::Nothing => panic!("the space is not exhausted"),
            }
        }
        assert!((1000..=1012).contains(&sent), "{sent}: ten a second by their bytes");
    }

    #[test]
    fn charges_of_several_shards_add_up_despite_clock_differences() {
        let pace = pace(Some(1000), None);
        for shard in 0..4 {
            (0..1000).for_each(|_| pace.charge(at(5000 - shard), 1, 0));
        }
        assert_eq!(pace.allowance(at(5000), 0), Allowance::After(at(5000 + 3000 + 20)));
    }

    #[test]
    fn byte_share_depends_on_the_message_size_and_is_at_least_one() {
        let pace = pace(None, Some(1 << 20));
        assert_eq!(pace.allowance(Time::ZERO, 0), Allowance::Share(64));
        assert_eq!(pace.allowance(Time::ZERO, 100), Allowance::Share(1024));
        assert_eq!(pace.allowance(Time::ZERO, 10 << 20), Allowance::Share(1));
    }

    #[test]
    fn maximal_charge_saturates_instead_of_overflowing() {
        let pace = pace(Some(1), Some(u64::MAX));
        pace.charge(at(1), u64::MAX, u64::MAX);
        assert!(matches!(pace.allowance(at(2), 0), Allowance::After(end) if end > at(u64::MAX / 10_000_000)));
    }

    #[test]
    fn bound_allows_a_burst_and_then_one_unit_per_interval() {
        let bound = Bound::new(Some(10)).expect("it is a bound");
        // The units of one second, and the one that creates a debt.
        assert_eq!((0..100).filter(|_| bound.take(at(5000))).count(), 11);
        assert!(!bound.take(at(5099)) && bound.take(at(5100)) && !bound.take(at(5100)));
        assert_eq!((0..100).filter(|_| bound.take(at(60_000))).count(), 11);
    }

    #[test]
    fn exhausted_space_gets_no_allowance() {
        let limits = SpaceLimits { exhausted: true, ..SpaceLimits::default() };
        let pace = Pace::new(&limits).expect("it is a bound");
        assert!(pace.is_of(&limits) && !pace.is_of(&SpaceLimits::default()));
        assert_eq!(pace.allowance(at(u64::MAX / 10_000), 0), Allowance::Nothing);
    }
}
