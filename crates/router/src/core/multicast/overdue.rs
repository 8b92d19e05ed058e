//! Multicast consumers that settle nothing: no producer waits for their outcomes.
//!
//! A producer learns the outcome of a message once every consumer has answered its copy. A consumer
//! that leaves a copy unsettled for [`SETTLE_TIMEOUT_MS`] (a setting) is overdue: from then on its
//! copies are optional. A message is settled when all other consumers have answered, and the
//! overdue one counts as released unless it answered before. Where no other consumer has answered,
//! the producer still waits: an outcome must not be accepted that no consumer gave.
//!
//! Without the state a producer with N deliveries in flight would send N messages a timeout, not
//! wait once. The consumer is waited for again when it has left nothing unsettled for too long
//! during [`OVERDUE_PROBATION_MS`], so one that is overdue again and again costs a producer at most
//! a tenth of its time.

use std::collections::VecDeque;

use super::super::address::{Consumer, Outgoing};
use super::super::arena::{Arena, Key};
use super::super::message::SettlementTarget;
use super::super::outcome::{Pending, token_of};
use super::super::{Links, Router};

/// How long a producer waits by default for a consumer's outcome while another consumer has
/// answered.
pub const SETTLE_TIMEOUT_MS: u64 = 1_000;
/// How long an overdue consumer has to settle in time before producers wait for it again.
pub const OVERDUE_PROBATION_MS: u64 = 10_000;

/// Entries of settled copies that may stay in [`Copies`] beyond as many as there are unsettled
/// ones.
const SETTLED_KEPT: usize = 64;

/// Unsettled copies in the order of dispatch to a consumer. A settled copy stays until it is at the
/// front or most entries are settled ones, so that settling needs no search.
#[derive(Debug, Default)]
pub(in crate::core) struct Copies {
    /// the token's key, and when all of the copy was dispatched
    items: VecDeque<(Key, u64)>,
}

impl Copies {
    /// One more copy was dispatched, which makes `outstanding` unsettled ones.
    fn push(&mut self, key: Key, now_ms: u64, outstanding: u32, pending: &Arena<Pending>) {
        self.drop_settled(pending);
        if self.items.len() > 2 * outstanding as usize + SETTLED_KEPT {
            self.items.retain(|(key, _)| pending.get(*key).is_some());
        }
        self.items.push_back((key, now_ms));
    }

    fn drop_settled(&mut self, pending: &Arena<Pending>) {
        while self.items.front().is_some_and(|(key, _)| pending.get(*key).is_none()) {
            self.items.pop_front();
        }
    }

    /// The last part of the copy begun last was dispatched: its settlement timeout starts here.
    pub(in crate::core) fn completed(&mut self, token: u64, now_ms: u64) {
        if let Some((key, since_ms)) = self.items.back_mut()
            && *key == Key::unpack(token)
        {
            *since_ms = now_ms;
        }
    }
}

impl Consumer {
    /// No producer waits for its outcomes.
    #[inline]
    pub(in crate::core) fn is_overdue(&self) -> bool {
        self.overdue_ms.is_some()
    }

    /// The settlement target of this consumer's copy of a message, derived from that of the
    /// message's copies.
    #[inline]
    pub(in crate::core) fn settlement_for(&self, settlement: SettlementTarget) -> SettlementTarget {
        match settlement {
            SettlementTarget::Join(key) if self.is_overdue() => SettlementTarget::Optional(key),
            settlement => settlement,
        }
    }

    /// An unsettled copy was dispatched to it.
    pub(in crate::core) fn note_copy(&mut self, key: Key, now_ms: u64, pending: &Arena<Pending>) {
        self.copies.push(key, now_ms, self.outstanding, pending);
    }
}

impl Router {
    /// How long producers wait for a multicast consumer's outcome while another has answered.
    pub fn set_settle_timeout(&mut self, timeout_ms: u64) {
        self.direct.settle_timeout_ms = timeout_ms;
    }

    /// Looks whether a consumer of a multicast address settles in time; when to look again, if
    /// there is need.
    pub(in crate::core) fn check_overdue(&mut self, to: Key, links: &mut impl Links) -> Option<u64> {
        let unsettled_ms = self.unsettled_since(to);
        let (now_ms, timeout_ms) = (self.now_ms, self.direct.settle_timeout_ms);
        let due_ms = unsettled_ms.map(|since_ms| since_ms.saturating_add(timeout_ms));
        let is_late = due_ms.is_some_and(|due_ms| due_ms <= now_ms);
        let consumer = &mut self.consumers[to];
        match consumer.overdue_ms {
            None if is_late => {
                consumer.overdue_ms = Some(now_ms);
                self.make_copies_optional(to, links);
                None
            }
            // A timer for a copy that is not overdue yet; otherwise the next message sets one.
            None => due_ms,
            Some(_) if is_late || consumer.has_backlog() => {
                consumer.overdue_ms = Some(now_ms);
                None
            }
            Some(since_ms) if now_ms >= since_ms + OVERDUE_PROBATION_MS => {
                consumer.overdue_ms = None;
                let at = consumer.address;
                self.addresses.multicast_mut(at).overdue -= 1;
                due_ms
            }
            Some(_) => None,
        }
    }

    /// Since when the oldest copy of a consumer has been unsettled, dispatched or waiting.
    fn unsettled_since(&mut self, to: Key) -> Option<u64> {
        let consumer = &mut self.consumers[to];
        consumer.copies.drop_settled(&self.pending);
        if let Some(&(key, since_ms)) = consumer.copies.items.front()
            && !consumer.reads(Some(token_of(self.shard, key)))
        {
            return Some(since_ms);
        }
        // It settles a delivery in parts when it has all of it.
        let next = match consumer.outgoing {
            Outgoing::Message { message, .. } => Some(message),
            _ => consumer.backlog.front(),
        };
        let message = self.direct.messages.get(next?)?;
        let awaited =
            message.complete && matches!(message.settlement, SettlementTarget::Join(_) | SettlementTarget::Optional(_));
        awaited.then_some(message.since_ms)
    }

    /// All unsettled copies of a consumer that is overdue become optional.
    fn make_copies_optional(&mut self, to: Key, links: &mut impl Links) {
        let consumer = &self.consumers[to];
        let at = consumer.address;
        self.addresses.multicast_mut(at).overdue += 1;
        let waiting = consumer.backlog.iter().map(|message| self.direct.messages[message].settlement);
        let mut joins: Vec<Key> = waiting.filter_map(awaited).collect();
        for (key, _) in &self.consumers[to].copies.items {
            let Some(pending) = self.pending.get_mut(*key) else { continue };
            if let SettlementTarget::Join(join) = pending.settlement {
                pending.settlement = SettlementTarget::Optional(join);
                joins.push(join);
            }
        }
        for join in joins {
            self.make_optional(join, at, links);
        }
    }
}

const fn awaited(settlement: SettlementTarget) -> Option<Key> {
    match settlement {
        SettlementTarget::Join(key) => Some(key),
        _ => None,
    }
}
