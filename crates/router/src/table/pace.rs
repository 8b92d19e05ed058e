//! The rate limit of a space's clients, shared by all shards of a node. Pure: time is an argument.
//!
//! A bound is a virtual scheduling algorithm (GCRA, ITU-T I.371): each message advances the paid
//! time by its cost, and a burst of one second is allowed. Messages are charged on arrival. Traffic
//! beyond the bound was sent within granted credit, and no new credit is granted until it is paid
//! for. So in any period the traffic is at most the bound, plus a burst of one second, the input of
//! one turn, and the outstanding credit.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use enmasse_amqp::time::Time;

use crate::plan::SpaceLimits;

const SECOND_NS: u64 = 1_000_000_000;
/// Waiting senders continue this time after the debt is paid: without it a flow would be sent for
/// every few messages.
const RESUME_NS: u64 = SECOND_NS / 50;
/// One grant of a link is at most this fraction of a second's traffic, so that a few links do not
/// use up the budget of all.
const SHARES: u64 = 10;
/// Assumed size of a message before the first one.
const ASSUMED_BYTES: u64 = 1024;

/// The allowance of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// the most deliveries that one grant may give to each link
    Share(u32),
    /// none before that time
    After(Time),
    /// none until the plan changes
    Nothing,
}

/// The bounds of one space and their balance. A space without bounds has no `Pace`.
#[derive(Debug)]
pub struct Pace {
    messages: Option<Bound>,
    bytes: Option<Bound>,
    exhausted: bool,
}

#[derive(Debug)]
pub(super) struct Bound {
    per_second: NonZeroU64,
    /// the time until which traffic is paid for, in nanoseconds (see `nanos`)
    paid_ns: AtomicU64,
}

impl Bound {
    pub(super) const fn of(per_second: NonZeroU64) -> Self {
        Self { per_second, paid_ns: AtomicU64::new(0) }
    }

    fn new(per_second: Option<u64>) -> Option<Self> {
        per_second.and_then(NonZeroU64::new).map(Self::of)
    }

    fn charge(&self, now_ns: u64, count: u64) {
        let cost = (u128::from(count) * u128::from(SECOND_NS)).div_ceil(u128::from(self.per_second.get()));
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let add_cost = |paid: u64| Some(paid.max(now_ns - SECOND_NS).saturating_add(cost));
        // Relaxed: no other memory depends on the number. The update never fails: `add_cost` never
        // returns `None`.
        let _ = self.paid_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add_cost);
    }

    /// When traffic is allowed again; `None`: now.
    fn due_ns(&self, now_ns: u64) -> Option<u64> {
        let paid = self.paid_ns.load(Ordering::Relaxed);
        (paid > now_ns).then(|| paid.saturating_add(RESUME_NS))
    }

    /// Charges one unit if the bound allows it now.
    pub(super) fn take(&self, now: Time) -> bool {
        let is_allowed = self.due_ns(nanos(now)).is_none();
        if is_allowed {
            self.charge(nanos(now), 1);
        }
        is_allowed
    }

    fn share(&self, each: u64) -> u32 {
        u32::try_from(self.per_second.get() / SHARES / each.max(1)).unwrap_or(u32::MAX)
    }

    fn matches(&self, limit: Option<u64>) -> bool {
        limit == Some(self.per_second.get())
    }
}

/// A time in nanoseconds, plus one second: a whole burst is available from time zero on.
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

    /// Charges traffic to the bounds.
    pub fn charge(&self, now: Time, messages: u64, bytes: u64) {
        for (bound, count) in [(&self.messages, messages), (&self.bytes, bytes)] {
            if let Some(bound) = bound {
                bound.charge(nanos(now), count);
            }
        }
    }

    /// The allowance of a sender whose messages have `mean_bytes` on average; 0: there was none. A
    /// share is a power of two, so that a small change of the mean does not change it.
    #[must_use]
    pub fn allowance(&self, now: Time, mean_bytes: u64) -> Allowance {
        if self.exhausted {
            return Allowance::Nothing;
        }
        let bounds = || [&self.messages, &self.bytes].into_iter().flatten();
        if let Some(due) = bounds().filter_map(|bound| bound.due_ns(nanos(now))).max() {
            return Allowance::After(Time::from_micros((due - SECOND_NS).div_ceil(1000)));
        }
        let each = if mean_bytes == 0 { ASSUMED_BYTES } else { mean_bytes };
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
