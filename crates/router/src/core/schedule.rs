//! The addresses of a shard that have work to do, and when.

use std::collections::BTreeMap;

use super::AddressKey;
use super::arena::Key;

/// The addresses and producers that the next turns process.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// timers of addresses
    timers: BTreeMap<(u64, AddressKey), Key>,
    /// queues to process before the end of this turn
    pub(super) dirty: Vec<Key>,
    /// addresses to continue with in the next turn
    pub(super) later: Vec<Key>,
    /// addresses that wait for bodies from the disk
    pub(super) awaiting: Vec<Key>,
    /// streams that have messages for the log
    pub(super) gathering: Vec<Key>,
    /// streams whose readers wait for memory
    pub(super) starving: Vec<Key>,
    /// producers with messages that left their window since the last turn
    pub(super) to_notify: Vec<Key>,
}

impl Schedule {
    /// Sets a timer for an address, in milliseconds since 1970.
    pub(super) fn set_timer(&mut self, at_ms: u64, address: AddressKey, at: Key) {
        self.timers.insert((at_ms, address), at);
    }

    /// Changes the timer of an address from `armed` to `next`, if they differ.
    pub(super) fn rearm(&mut self, armed: &mut Option<u64>, next: Option<u64>, address: AddressKey, at: Key) {
        if *armed == next {
            return;
        }
        self.disarm(*armed, address);
        *armed = next;
        if let Some(next) = next {
            self.set_timer(next, address, at);
        }
    }

    /// Removes the timer of an address, if it is set.
    pub(super) fn disarm(&mut self, armed: Option<u64>, address: AddressKey) {
        if let Some(armed) = armed {
            self.timers.remove(&(armed, address));
        }
    }

    /// The earliest timer.
    pub(super) fn next_timer(&self) -> Option<u64> {
        self.timers.keys().next().map(|(at_ms, _)| *at_ms)
    }

    /// Removes and returns the address whose timer expired first, if any.
    pub(super) fn take_expired(&mut self, now_ms: u64) -> Option<Key> {
        let first = self.timers.first_entry().filter(|first| first.key().0 <= now_ms)?;
        Some(first.remove())
    }

    /// Postpones an address that used up its share of a turn.
    pub(super) fn continue_later(&mut self, at: Key) {
        if self.later.last() != Some(&at) {
            self.later.push(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arena::Arena;
    use super::*;

    #[test]
    fn timers_expire_in_their_order_and_an_address_has_one() {
        let mut keys = Arena::new();
        let (one, other) = (keys.insert(()), keys.insert(()));
        let (mut schedule, mut armed) = (Schedule::default(), None);
        schedule.rearm(&mut armed, Some(30), AddressKey(1), one);
        schedule.set_timer(20, AddressKey(2), other);
        schedule.rearm(&mut armed, Some(10), AddressKey(1), one);
        assert_eq!((armed, schedule.next_timer()), (Some(10), Some(10)));
        assert_eq!(schedule.take_expired(9), None);
        assert_eq!([schedule.take_expired(30), schedule.take_expired(30)], [Some(one), Some(other)]);
        assert_eq!(schedule.take_expired(30), None, "the timer at 30 was replaced");
        schedule.rearm(&mut armed, None, AddressKey(1), one);
        assert_eq!(schedule.next_timer(), None);
    }
}
