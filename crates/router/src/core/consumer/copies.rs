//! Unsettled copies of multicast messages.

use std::collections::VecDeque;

use super::super::arena::{Arena, Key};
use super::super::outcome::Pending;

/// Entries of settled copies that [`Copies`] may keep in addition to twice the number of unsettled
/// ones.
const SETTLED_KEPT: usize = 64;

/// Unsettled copies of a consumer in the order of dispatch. A settled copy is removed when it
/// reaches the front or when most entries are settled, so that settling needs no search.
#[derive(Debug, Default)]
pub(in crate::core) struct Copies {
    /// key of the token, and when the last part of the copy was dispatched
    pub(in crate::core) items: VecDeque<(Key, u64)>,
}

impl Copies {
    /// Adds a dispatched copy; the consumer now has `outstanding` unsettled ones.
    pub(in crate::core) fn push(&mut self, key: Key, now_ms: u64, outstanding: u32, pending: &Arena<Pending>) {
        self.drop_settled(pending);
        if self.items.len() > 2 * outstanding as usize + SETTLED_KEPT {
            self.items.retain(|(key, _)| pending.get(*key).is_some());
        }
        self.items.push_back((key, now_ms));
    }

    pub(in crate::core) fn drop_settled(&mut self, pending: &Arena<Pending>) {
        while self.items.front().is_some_and(|(key, _)| pending.get(*key).is_none()) {
            self.items.pop_front();
        }
    }

    /// Restarts the settlement time-out of the newest copy, whose last part was dispatched.
    pub(in crate::core) fn completed(&mut self, token: u64, now_ms: u64) {
        if let Some((key, since_ms)) = self.items.back_mut()
            && *key == Key::unpack(token)
        {
            *since_ms = now_ms;
        }
    }
}
