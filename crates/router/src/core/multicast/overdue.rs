//! Overdue consumers: multicast consumers that settle nothing, for whose outcomes no producer
//! waits.
//!
//! A producer receives the outcome of a message once every consumer has answered its copy. A
//! consumer that leaves a copy unsettled for [`SETTLE_TIMEOUT_MS`] (a setting) is overdue, and its
//! copies become optional. A message is settled when all other consumers have answered. The overdue
//! one counts as released unless it answered before. If no other consumer has answered, the
//! producer still waits, because the router must not invent an outcome.
//!
//! The overdue state makes a producer with N deliveries in flight wait once, not N times. Producers
//! wait for the consumer again when it has exceeded no time-out during [`OVERDUE_PROBATION_MS`]. So
//! a consumer that becomes overdue repeatedly costs a producer at most a tenth of its time.

use super::super::arena::{Arena, Key};
use super::super::consumer::{Consumer, Outgoing};
use super::super::message::SettlementTarget;
use super::super::outcome::{Pending, token_of};
use super::super::{Links, Router};

/// The default time for which a producer waits for a consumer's outcome after another consumer has
/// answered.
pub const SETTLE_TIMEOUT_MS: u64 = 1_000;
/// How long an overdue consumer must settle in time before producers wait for it again.
pub const OVERDUE_PROBATION_MS: u64 = 10_000;

impl Consumer {
    /// Whether it is overdue: no producer waits for its outcomes.
    #[inline]
    pub(in crate::core) fn is_overdue(&self) -> bool {
        self.overdue_ms.is_some()
    }

    /// The settlement target of this consumer's copy, derived from that of the message.
    #[inline]
    pub(in crate::core) fn settlement_for(&self, settlement: SettlementTarget) -> SettlementTarget {
        match settlement {
            SettlementTarget::Join(key) if self.is_overdue() => SettlementTarget::Optional(key),
            settlement => settlement,
        }
    }

    /// Records an unsettled copy that was dispatched to it.
    pub(in crate::core) fn note_copy(&mut self, key: Key, now_ms: u64, pending: &Arena<Pending>) {
        self.copies.push(key, now_ms, self.outstanding, pending);
    }
}

impl Router {
    /// Sets how long producers wait for a multicast consumer's outcome after another has answered.
    pub fn set_settle_timeout(&mut self, timeout_ms: u64) {
        self.direct.settle_timeout_ms = timeout_ms;
    }

    /// Checks whether a consumer settles in time. Returns the time of the next check, if one is
    /// needed.
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
            // Checks again when the oldest copy becomes overdue; without one the next message
            // schedules a check.
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

    /// Since when the oldest copy of a consumer, dispatched or waiting, has been unsettled.
    fn unsettled_since(&mut self, to: Key) -> Option<u64> {
        let consumer = &mut self.consumers[to];
        consumer.copies.drop_settled(&self.pending);
        if let Some(&(key, since_ms)) = consumer.copies.items.front()
            && !consumer.reads(Some(token_of(self.shard, key)))
        {
            return Some(since_ms);
        }
        // A consumer can settle a delivery only after it has received all parts.
        let next = match consumer.outgoing {
            Outgoing::Message { message, .. } => Some(message),
            _ => consumer.backlog.front(),
        };
        let message = self.direct.messages.get(next?)?;
        let awaited =
            message.complete && matches!(message.settlement, SettlementTarget::Join(_) | SettlementTarget::Optional(_));
        awaited.then_some(message.since_ms)
    }

    /// Makes all unsettled copies of an overdue consumer optional.
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
