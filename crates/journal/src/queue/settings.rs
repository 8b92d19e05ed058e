//! The queue settings of an address.

/// The declared settings of one queue. The default has no bounds, and no limit of attempts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// bounds, each with its refusal
    pub limits: Limits,
    /// what happens at `limits.messages` and `limits.bytes`
    pub full: Full,
    /// a message replaces the waiting one of the same key
    pub last_value: bool,
    /// how long a message may live
    pub ttl: Ttl,
    /// failed deliveries
    pub redelivery: Redelivery,
    /// whether there is an address for dead letters (its own or the space's)
    pub dead_letter: bool,
    /// whether there is an address for expired messages; without it they are dropped
    pub expiry: bool,
    /// `treatRejectAsUnmodifiedDeliveryFailed`: a rejected message counts as a failed delivery and
    /// stays
    pub reject_is_failure: bool,
    /// how messages are shared among several consumers
    pub sharing: Sharing,
    /// what messages of one `group-id` share
    pub grouping: Grouping,
    /// detection of duplicates by `message-id`
    pub duplicates: Option<Duplicates>,
}

/// Bounds of a queue or a topic; by default a topic has 10,000 durable subscriptions, and the rest
/// is unbounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// messages stored, in any state
    pub messages: u64,
    /// their bytes
    pub bytes: u64,
    /// bytes of one message
    pub message_bytes: u32,
    /// consumers at a time
    pub consumers: u32,
    /// producers at a time
    pub producers: u32,
    /// durable subscriptions that clients create of a topic: a message for all of them is one record
    /// with a target for each
    pub subscriptions: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            messages: u64::MAX,
            bytes: u64::MAX,
            message_bytes: u32::MAX,
            consumers: u32::MAX,
            producers: u32::MAX,
            subscriptions: 10_000,
        }
    }
}

/// The behaviour of a full queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Full {
    /// grants no more credit; messages sent within the granted credit are still stored, so that the
    /// bound is exceeded by at most the producers' windows
    #[default]
    Block,
    /// refuses the message
    Reject,
    /// grants credit for the available space, and refuses messages beyond it. A message that is
    /// alone may be larger than `limits.bytes`; otherwise no bound is ever exceeded
    Strict,
    /// drops its oldest waiting messages for the new one: a ring. Held messages and the new one
    /// stay, so that the bound is exceeded by at most the held messages; a message larger than
    /// `limits.bytes` is refused
    DropOldest,
}

/// `messageTtl` in milliseconds. A minimum above the maximum makes both void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ttl {
    /// lower bound of the time to live
    pub minimum_ms: Option<u64>,
    /// upper bound of the time to live, and the default of messages without one
    pub maximum_ms: Option<u64>,
}

impl Ttl {
    /// The expiry of a message that arrives now: the earlier of the header's `ttl` and
    /// `absolute-expiry-time`, within the bounds.
    #[must_use]
    pub fn expires(&self, now: u64, ttl_ms: Option<u64>, absolute: Option<u64>) -> Option<u64> {
        let by_ttl = ttl_ms.map(|ttl| now.saturating_add(ttl));
        let requested = match (by_ttl, absolute) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let (minimum, maximum) = match (self.minimum_ms, self.maximum_ms) {
            (Some(minimum), Some(maximum)) if minimum > maximum => (None, None),
            bounds => bounds,
        };
        let earliest = minimum.map_or(0, |ms| now.saturating_add(ms));
        let latest = maximum.map(|ms| now.saturating_add(ms));
        match (requested.map(|at| at.max(earliest)), latest) {
            (Some(at), Some(latest)) => Some(at.min(latest)),
            (at, latest) => at.or(latest),
        }
    }
}

/// The policy after a failed delivery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Redelivery {
    /// failed deliveries after which a message goes to the dead letter, or is dropped; 0: no limit
    pub attempts_max: u16,
    /// delay before the second attempt
    pub delay_ms: u64,
    /// factor between consecutive delays
    pub multiplier: f64,
    /// upper bound of a delay; 0: no limit
    pub delay_max_ms: u64,
}

impl Default for Redelivery {
    fn default() -> Self {
        Self { attempts_max: 0, delay_ms: 0, multiplier: 1.0, delay_max_ms: 0 }
    }
}

impl Redelivery {
    /// Whether a message with `failures` failed deliveries has no attempt left.
    #[must_use]
    pub fn is_exhausted(&self, failures: u16) -> bool {
        self.attempts_max > 0 && failures >= self.attempts_max
    }

    /// Milliseconds until the next attempt after `failures` failed ones; at most 100 years.
    #[must_use]
    pub fn delay_after(&self, failures: u16) -> u64 {
        const CENTURY_MS: f64 = 3_155_760_000_000.0;
        let exponent = i32::from(failures.saturating_sub(1));
        // A factor below 1, or NaN, would shrink delays to zero: it counts as 1.
        let factor = if self.multiplier >= 1.0 { self.multiplier.powi(exponent) } else { 1.0 };
        let delay = (self.delay_ms as f64 * factor).min(CENTURY_MS) as u64;
        if self.delay_max_ms > 0 { delay.min(self.delay_max_ms) } else { delay }
    }
}

/// How messages are shared among several consumers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// all consumers, those of a higher priority first
    #[default]
    Competing,
    /// one consumer at a time; another takes over when it detaches, or when it holds no message and
    /// a consumer of a higher priority is attached
    SingleActive,
}

/// What the messages of one group share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// nothing
    Off,
    /// the consumer: it keeps the group while it is attached
    #[default]
    Sticky,
    /// the order: while a consumer holds messages of a group, no other consumer gets any, and a
    /// failed message holds back the rest
    PerKey,
}

/// The number of remembered message ids, and the time for which they are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicates {
    /// ids remembered; about 100 bytes of memory each
    pub ids: u32,
    /// milliseconds; 0: no limit
    pub window_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttl_is_clamped_from_both_sides() {
        let ttl = Ttl { minimum_ms: Some(550), maximum_ms: Some(5000) };
        let expires = |requested| ttl.expires(1000, requested, None);
        assert_eq!(
            [expires(Some(1)), expires(Some(600)), expires(Some(9000)), expires(None)],
            [Some(1550), Some(1600), Some(6000), Some(6000)]
        );
        assert_eq!(Ttl::default().expires(1000, None, None), None);
        assert_eq!(Ttl { minimum_ms: Some(5), maximum_ms: None }.expires(1000, None, None), None);
        let void = Ttl { minimum_ms: Some(10), maximum_ms: Some(5) };
        assert_eq!(void.expires(1000, Some(1), None), Some(1001));
    }

    #[test]
    fn earlier_of_ttl_and_absolute_expiry_applies() {
        assert_eq!(Ttl::default().expires(1000, Some(50), Some(1020)), Some(1020));
        assert_eq!(Ttl::default().expires(1000, Some(10), Some(1020)), Some(1010));
    }

    #[test]
    fn redelivery_delay_grows_up_to_its_maximum() {
        let redelivery = Redelivery { attempts_max: 4, delay_ms: 100, multiplier: 2.0, delay_max_ms: 350 };
        assert_eq!([1, 2, 3, 4].map(|failures| redelivery.delay_after(failures)), [100, 200, 350, 350]);
        assert!(!redelivery.is_exhausted(3) && redelivery.is_exhausted(4));
        assert!(!Redelivery::default().is_exhausted(u16::MAX));
        let steep = Redelivery { multiplier: 1e9, delay_max_ms: 0, ..redelivery };
        assert!(steep.delay_after(u16::MAX) < 1 << 42);
    }
}
