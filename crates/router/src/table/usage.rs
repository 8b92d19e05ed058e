//! How much of its limits a space uses on this node, counted across all shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The counters of one space; the same for every table in which the space stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    pub(super) connections: Counter,
    pub(super) links: Counter,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Counter(Arc<AtomicU32>);

/// One connection or link that counts until it is dropped.
#[derive(Debug)]
pub struct Place(Counter);

impl Counter {
    /// A place, if fewer than `limit` are taken.
    pub(super) fn take(&self, limit: u32) -> Option<Place> {
        // Relaxed: the number carries no other memory with it.
        let more = |taken: u32| (taken < limit).then_some(taken + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Place(self.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_given_back_can_be_taken_again() {
        let counter = Counter::default();
        let first = counter.take(2);
        let second = counter.take(2);
        assert!(first.is_some() && second.is_some());
        assert!(counter.take(2).is_none());
        drop(first);
        assert!(counter.take(2).is_some());
    }
}
