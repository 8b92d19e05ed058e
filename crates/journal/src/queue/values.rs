//! Queues that remove older messages: a last-value queue keeps the newest message of each key, a
//! ring the newest of all.

use std::collections::HashMap;

use super::Queue;
use super::effect::{Cause, Effect};
use super::entry::{Mark, State};
use super::head::Head;
use super::settings::Full;

/// The newest message of each key.
#[derive(Debug, Default)]
pub(super) struct LastValues {
    newest: HashMap<u128, u64>,
    key_of: HashMap<u64, u128>,
}

impl LastValues {
    pub(super) fn insert(&mut self, at: u64, key: u128) {
        self.key_of.insert(at, key);
    }

    /// Makes a message available. Returns the message that is outdated by that: the newest of its
    /// key until now, or the message itself.
    fn publish(&mut self, at: u64) -> Option<u64> {
        let newest = self.newest.entry(*self.key_of.get(&at)?).or_insert(at);
        let older = at.min(*newest);
        *newest = at.max(*newest);
        Some(older).filter(|older| *older != *newest)
    }

    fn is_outdated(&self, at: u64) -> bool {
        let newest = self.key_of.get(&at).and_then(|key| self.newest.get(key));
        newest.is_some_and(|newest| *newest != at)
    }

    pub(super) fn forget(&mut self, at: u64) {
        if let Some(key) = self.key_of.remove(&at)
            && self.newest.get(&key) == Some(&at)
        {
            self.newest.remove(&key);
        }
    }

    /// The message has a new number; it was never published under the old one.
    pub(super) fn rename(&mut self, at: u64, new: u64) {
        if let Some(key) = self.key_of.remove(&at) {
            self.key_of.insert(new, key);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.newest.capacity() * 32 + self.key_of.capacity() * 32
    }
}

impl Queue {
    /// Bytes of the available message that a new one replaces at once: its arrival makes the queue
    /// no longer, so a full queue takes it. Until it is committed both count.
    pub(super) fn replaced_bytes(&self, head: &Head) -> Option<u32> {
        let key = head.key.filter(|_| self.settings.last_value && head.due.is_none())?;
        let newest = self.index.get(*self.values.newest.get(&key)?)?;
        matches!(newest.state(), State::Waiting | State::Delayed).then_some(newest.size)
    }

    /// Whether no message has the key of a message, nor is one with it about to be available.
    #[must_use]
    pub fn lacks_value(&self, head: &Head) -> bool {
        let Some(key) = head.key.filter(|_| self.settings.last_value) else { return true };
        let is_offered =
            || self.depths[State::Offered as usize] > 0 && self.values.key_of.values().any(|other| *other == key);
        !self.values.newest.contains_key(&key) && !is_offered()
    }

    /// Removes older messages when a message becomes available for the first time.
    #[inline]
    pub(super) fn make_room(&mut self, at: u64, sink: &mut impl FnMut(Effect)) {
        if self.settings.last_value
            && let Some(older) = self.values.publish(at)
            && self.index.get(older).is_some_and(|entry| matches!(entry.state(), State::Waiting | State::Delayed))
        {
            self.finish(older, Cause::Replaced, sink);
        }
        if self.settings.full == Full::DropOldest {
            // The last waiting message stays even if held messages fill the ring.
            while self.depth_in(State::Waiting) > 1 && self.is_overrun() {
                let Some(oldest) = self.oldest() else { return };
                self.finish(oldest, Cause::Overrun, sink);
            }
        }
    }

    fn is_overrun(&self) -> bool {
        let limits = &self.settings.limits;
        let stored = self.len() as u64 - self.depth_in(State::Offered);
        stored > limits.messages || self.bytes - self.uncommitted_bytes > limits.bytes
    }

    /// Whether a newer message of its key is available, received while a consumer held this one.
    pub(super) fn is_outdated(&self, at: u64) -> bool {
        self.index.get(at).is_some_and(|entry| entry.has(Mark::Keyed)) && self.values.is_outdated(at)
    }
}
