//! How much of its limits a space uses on this node, counted across all shards.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::pace::Bound;

/// Logins per second that are processed although their space is at its connection limit: they get
/// the reason, others a temporary error.
const LOGIN_ATTEMPTS_PER_SECOND: NonZeroU64 = NonZeroU64::new(10).unwrap();

/// The counters of one space, shared by all tables with the space.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    pub(super) connections: Counter,
    pub(super) links: Counter,
    pub(super) traffic: Arc<Traffic>,
    pub(super) login_attempts: LoginAttempts,
}

/// The rate of logins while the space is at its connection limit.
#[derive(Clone, Debug)]
pub(super) struct LoginAttempts(pub(super) Arc<Bound>);

impl Default for LoginAttempts {
    fn default() -> Self {
        Self(Arc::new(Bound::of(LOGIN_ATTEMPTS_PER_SECOND)))
    }
}

/// Traffic counts: of one connection in one turn, or a sum of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounts {
    /// deliveries that clients began to send
    pub messages_in: u64,
    /// bytes of those
    pub bytes_in: u64,
    /// deliveries whose sending to clients began
    pub messages_out: u64,
    /// bytes of those
    pub bytes_out: u64,
}

impl TrafficCounts {
    /// A client has sent a part of a delivery.
    #[inline]
    pub fn count_received(&mut self, first: bool, bytes: usize) {
        self.messages_in += u64::from(first);
        self.bytes_in += bytes as u64;
    }

    /// A client was sent a part of a delivery.
    #[inline]
    pub fn count_sent(&mut self, first: bool, bytes: usize) {
        self.messages_out += u64::from(first);
        self.bytes_out += bytes as u64;
    }

    /// Adds other counts.
    pub(crate) fn add(&mut self, more: &Self) {
        self.messages_in += more.messages_in;
        self.bytes_in += more.bytes_in;
        self.messages_out += more.messages_out;
        self.bytes_out += more.bytes_out;
    }

    /// Whether all counts are zero.
    #[inline]
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The traffic of all connections of a space on this node, since the space was created.
#[derive(Debug, Default)]
pub struct Traffic {
    messages_in: AtomicU64,
    bytes_in: AtomicU64,
    messages_out: AtomicU64,
    bytes_out: AtomicU64,
}

impl Traffic {
    /// Counts the traffic of a connection.
    pub fn add(&self, carried: &TrafficCounts) {
        // Relaxed here and below: no other memory depends on the numbers.
        self.messages_in.fetch_add(carried.messages_in, Ordering::Relaxed);
        self.bytes_in.fetch_add(carried.bytes_in, Ordering::Relaxed);
        self.messages_out.fetch_add(carried.messages_out, Ordering::Relaxed);
        self.bytes_out.fetch_add(carried.bytes_out, Ordering::Relaxed);
    }

    /// The current counts.
    #[must_use]
    pub fn total(&self) -> TrafficCounts {
        TrafficCounts {
            messages_in: self.messages_in.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            messages_out: self.messages_out.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }

    /// Mean size of the messages that clients sent; 0: there was none.
    #[must_use]
    pub fn mean_bytes(&self) -> u64 {
        let messages = self.messages_in.load(Ordering::Relaxed);
        self.bytes_in.load(Ordering::Relaxed).checked_div(messages).unwrap_or(0)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Counter(Arc<AtomicU32>);

/// One connection or link that counts until it is dropped.
#[derive(Debug)]
pub struct CountGuard(Counter);

impl Counter {
    /// Counts one more, if fewer than `limit` are counted.
    pub(super) fn take(&self, limit: u32) -> Option<CountGuard> {
        // Relaxed: no other memory depends on the number.
        let more = |taken: u32| (taken < limit).then_some(taken + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| CountGuard(self.clone()))
    }

    /// The current count.
    pub(super) fn taken(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_count_guard_can_be_taken_again() {
        let counter = Counter::default();
        let first = counter.take(2);
        let second = counter.take(2);
        assert!(first.is_some() && second.is_some());
        assert!(counter.take(2).is_none());
        drop(first);
        assert_eq!(counter.taken(), 1);
        assert!(counter.take(2).is_some());
    }

    #[test]
    fn traffic_counts_each_message_once_and_the_bytes_of_all_its_parts() {
        let (traffic, mut carried) = (Traffic::default(), TrafficCounts::default());
        assert!(carried.is_nothing());
        carried.count_received(true, 100);
        carried.count_received(false, 50);
        carried.count_sent(true, 7);
        assert_eq!(traffic.mean_bytes(), 0);
        traffic.add(&carried);
        traffic.add(&TrafficCounts { messages_in: 2, ..TrafficCounts::default() });
        let total = TrafficCounts { messages_in: 3, bytes_in: 150, messages_out: 1, bytes_out: 7 };
        assert_eq!((traffic.total(), traffic.mean_bytes()), (total, 50));
    }
}
