//! Outcomes: reported by consumers for a token, and passed to the producers.

use enmasse_amqp::types::Outcome;
use std::borrow::Cow;

use super::arena::Key;
use super::message::SettlementTarget;
use super::{AddressKind, AttachmentId, Ending, Links, Router, ToLink, Verdict, home_of_token};

/// An unsettled delivery of a consumer. Its key is part of the token.
#[derive(Debug)]
pub(super) struct Pending {
    /// may be detached
    pub(super) consumer: Key,
    pub(super) address: Key,
    pub(super) settlement: SettlementTarget,
    pub(super) retiring: Retiring,
}

/// Whether an outcome of the delivery is held in an open transaction (4.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retiring {
    No,
    /// the consumer has not settled the delivery; a rollback leaves it with the consumer
    Held,
    /// the consumer has settled or lost the delivery; this is its result after a rollback
    Relinquished(Verdict),
}

impl Retiring {
    /// The consumer has settled it within the transaction. Only stored addresses take part in
    /// transactions.
    pub(super) const SETTLED: Self = Self::Relinquished(Ending::RolledBack.verdict(AddressKind::Queue, false));
}

/// Joins the outcomes of the copies of one unsettled multicast message.
#[derive(Debug)]
pub(super) struct Join {
    attachment: AttachmentId,
    delivery_id: u32,
    /// unanswered copies that the producer waits for
    required: u32,
    /// unanswered copies of consumers that are overdue
    optional: u32,
    /// a consumer has answered
    answered: bool,
    /// the outcome of highest precedence so far
    outcome: Outcome,
}

impl Join {
    pub(super) fn new(attachment: AttachmentId, delivery_id: u32, required: u32, optional: u32) -> Self {
        Self { attachment, delivery_id, required, optional, answered: false, outcome: Outcome::Released }
    }

    /// Whether the producer's outcome is determined. It waits for overdue consumers only while no
    /// other consumer has answered.
    const fn is_decided(&self) -> bool {
        self.required == 0 && (self.answered || self.optional == 0)
    }

    /// The producer that receives the outcome of all copies.
    pub(super) fn settlement(&self) -> SettlementTarget {
        SettlementTarget::Producer { attachment: self.attachment, delivery_id: self.delivery_id }
    }
}

/// The precedence of an outcome: rejected, accepted, modified, released.
const fn weight(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Rejected(_) => 3,
        Outcome::Accepted => 2,
        Outcome::Modified(_) => 1,
        Outcome::Released => 0,
    }
}

/// The token of an unsettled delivery of a shard.
#[inline]
pub(super) const fn token_of(shard: u16, pending: Key) -> u64 {
    (shard as u64) << 48 | pending.pack()
}

impl Router {
    /// Applies the outcome of a delivery that a consumer has reported. A token that is no longer
    /// open is ignored; an outcome that an open transaction holds is not replaced.
    #[inline]
    pub fn outcome(&mut self, token: u64, outcome: &Outcome, links: &mut impl Links) {
        // The target is read in place: a copy of the whole enum is read back in other widths than
        // it was written, and each delivery would wait for the store buffer.
        let producer = match self.pending.get(Key::unpack(token)) {
            Some(Pending { settlement: SettlementTarget::Producer { attachment, delivery_id }, .. }) => {
                Some((*attachment, *delivery_id))
            }
            _ => None,
        };
        let Some(pending) = self.close_token(token) else { return };
        match producer {
            Some((attachment, delivery_id)) => self.settle(attachment, delivery_id, pending.address, outcome, links),
            None => self.answer(pending.settlement, pending.address, outcome, links),
        }
        if self.consumers.get(pending.consumer).is_some_and(|consumer| consumer.reads(Some(token))) {
            self.stop_reading(pending.consumer, links);
        }
    }

    /// Returns the unsettled deliveries `tokens` of a consumer whose link ends, in the order of
    /// dispatch. `oldest`: the first of them is the oldest of its link. All links that end together
    /// are stalled before the first of them returns deliveries ([`Router::stall`]).
    pub fn relinquish(&mut self, tokens: &[u64], ending: Ending, oldest: bool, links: &mut impl Links) {
        for (place, token) in tokens.iter().enumerate() {
            self.relinquish_one(*token, ending, oldest && place == 0, links);
        }
    }

    pub(super) fn relinquish_one(&mut self, token: u64, ending: Ending, oldest: bool, links: &mut impl Links) {
        if home_of_token(token) != self.shard {
            return;
        }
        let Some(pending) = self.pending.get_mut(Key::unpack(token)) else { return };
        let verdict = ending.verdict(self.addresses[pending.address].declared.kind, oldest);
        if pending.retiring != Retiring::No {
            // The outcome of the transaction takes precedence.
            pending.retiring = Retiring::Relinquished(verdict);
            return;
        }
        if let SettlementTarget::Queue(seq) = pending.settlement {
            let at = pending.address;
            self.keep_sent(at, seq);
        }
        self.outcome(token, &verdict.outcome(), links);
    }

    /// Closes a token. `None`: it is closed already, or a transaction holds it.
    #[inline]
    pub(super) fn close_token(&mut self, token: u64) -> Option<Pending> {
        if home_of_token(token) != self.shard {
            return None;
        }
        let key = Key::unpack(token);
        let retiring = &mut self.pending.get_mut(key)?.retiring;
        if *retiring != Retiring::No {
            *retiring = Retiring::SETTLED;
            return None;
        }
        let pending = self.pending.remove(key)?;
        if let Some(consumer) = self.consumers.get_mut(pending.consumer) {
            consumer.outstanding -= 1;
        }
        self.addresses[pending.address].unsettled -= 1;
        Some(pending)
    }

    /// Passes the outcome of one copy to its settlement target.
    #[inline]
    pub(super) fn answer(
        &mut self,
        settlement: SettlementTarget,
        address: Key,
        outcome: &Outcome,
        links: &mut impl Links,
    ) {
        match settlement {
            SettlementTarget::Nothing | SettlementTarget::Browsed(_) => {}
            SettlementTarget::Posted => {
                self.addresses[address].stats.accepted += u64::from(*outcome == Outcome::Accepted)
            }
            SettlementTarget::Producer { attachment, delivery_id } => {
                self.settle(attachment, delivery_id, address, outcome, links)
            }
            SettlementTarget::Join(_) | SettlementTarget::Optional(_) => {
                self.join(settlement, address, Some(outcome), links)
            }
            SettlementTarget::Queue(seq) => self.settle_in_queue(address, seq, outcome, links),
            SettlementTarget::Operation { id, bytes } => self.operation_stored(id, bytes, outcome),
        }
    }

    /// Joins the outcome of a copy; `None`: no consumer receives the copy.
    fn join(&mut self, settlement: SettlementTarget, address: Key, outcome: Option<&Outcome>, links: &mut impl Links) {
        let (SettlementTarget::Join(key) | SettlementTarget::Optional(key)) = settlement else { return };
        let Some(join) = self.direct.joins.get_mut(key) else { return };
        if let Some(outcome) = outcome {
            join.answered = true;
            if weight(outcome) > weight(&join.outcome) {
                join.outcome = outcome.clone();
            }
        }
        match settlement {
            SettlementTarget::Optional(_) => join.optional -= 1,
            _ => join.required -= 1,
        }
        self.decide(key, address, links);
    }

    /// Makes a required copy optional because its consumer is overdue.
    pub(super) fn make_optional(&mut self, key: Key, address: Key, links: &mut impl Links) {
        let Some(join) = self.direct.joins.get_mut(key) else { return };
        join.required -= 1;
        join.optional += 1;
        self.decide(key, address, links);
    }

    fn decide(&mut self, key: Key, address: Key, links: &mut impl Links) {
        if self.direct.joins.get(key).is_some_and(Join::is_decided)
            && let Some(join) = self.direct.joins.remove(key)
        {
            self.settle(join.attachment, join.delivery_id, address, &join.outcome, links);
        }
    }

    /// Drops the outcomes of the copies of an aborted message.
    pub(super) fn remove_join(&mut self, settlement: SettlementTarget) {
        if let SettlementTarget::Join(key) | SettlementTarget::Optional(key) = settlement {
            self.direct.joins.remove(key);
        }
    }

    /// Settles a delivery of a producer. If the producer is detached, the outcome is only counted.
    #[inline]
    fn settle(
        &mut self,
        attachment: AttachmentId,
        delivery_id: u32,
        address: Key,
        outcome: &Outcome,
        links: &mut impl Links,
    ) {
        self.count_outcome(address, outcome);
        if self.attachments.producer(attachment).is_some() {
            links.send(ToLink::Settle { attachment, delivery_id, outcome: Cow::Borrowed(outcome) });
        }
    }

    #[inline]
    pub(super) fn count_outcome(&mut self, address: Key, outcome: &Outcome) {
        let stats = &mut self.addresses[address].stats;
        match outcome {
            Outcome::Accepted => stats.accepted += 1,
            Outcome::Rejected(_) => stats.rejected += 1,
            Outcome::Released => stats.released += 1,
            Outcome::Modified(_) => stats.modified += 1,
        }
    }

    /// Answers for a copy that no consumer receives.
    pub(super) fn drop_copy(&mut self, settlement: SettlementTarget, address: Key, links: &mut impl Links) {
        if !matches!(settlement, SettlementTarget::Producer { .. }) {
            self.addresses[address].stats.dropped += 1;
        }
        match settlement {
            SettlementTarget::Join(_) | SettlementTarget::Optional(_) => self.join(settlement, address, None, links),
            _ => self.answer(settlement, address, &Outcome::Released, links),
        }
    }
}
