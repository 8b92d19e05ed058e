//! Outcomes: from the consumers, by token, back to the producers.

use enmasse_amqp::types::Outcome;

use super::arena::Key;
use super::message::SettlementTarget;
use super::{AddressKind, AttachmentId, Ending, Links, Router, Verdict, home_of_token};

/// An unsettled copy that a consumer holds. Its key is the token.
#[derive(Debug)]
pub(super) struct Pending {
    /// it may have gone
    pub(super) consumer: Key,
    pub(super) address: Key,
    pub(super) settlement: SettlementTarget,
    pub(super) retiring: Retiring,
}

/// Whether a copy was settled within a transaction that is open (4.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retiring {
    No,
    /// its consumer holds it again after a rollback
    Held,
    /// its consumer has let go of it, and this holds after a rollback
    LetGo(Verdict),
}

impl Retiring {
    /// Its consumer has settled it within the transaction. Only stored addresses take part in any.
    pub(super) const SETTLED: Self = Self::LetGo(Ending::RolledBack.verdict(AddressKind::Queue, false));
}

/// The outcomes of the copies of one unsettled multicast message, on their way to becoming one.
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
    /// of the answers so far the one that counts most
    outcome: Outcome,
}

impl Join {
    pub(super) fn new(attachment: AttachmentId, delivery_id: u32, required: u32, optional: u32) -> Self {
        Self { attachment, delivery_id, required, optional, answered: false, outcome: Outcome::Released }
    }

    /// The producer's outcome can be determined: an overdue consumer is waited for only while no
    /// other has answered.
    const fn is_decided(&self) -> bool {
        self.required == 0 && (self.answered || self.optional == 0)
    }

    /// The producer that receives the outcome of all copies.
    pub(super) fn settlement(&self) -> SettlementTarget {
        SettlementTarget::Producer { attachment: self.attachment, delivery_id: self.delivery_id }
    }
}

/// Rejected if any rejected, else accepted if any accepted, else modified, else released.
const fn weight(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Rejected(_) => 3,
        Outcome::Accepted => 2,
        Outcome::Modified(_) => 1,
        Outcome::Released => 0,
    }
}

/// An unsettled copy of a shard.
#[inline]
pub(super) const fn token_of(shard: u16, pending: Key) -> u64 {
    (shard as u64) << 48 | pending.pack()
}

impl Router {
    /// A consumer has reported the outcome of a delivery. A token that is no longer open is
    /// ignored; an outcome within an open transaction stands.
    #[inline]
    pub fn outcome(&mut self, token: u64, outcome: &Outcome, links: &mut impl Links) {
        let Some(pending) = self.close_token(token) else { return };
        self.answer(pending.settlement, pending.address, outcome, links);
        if self.consumers.get(pending.consumer).is_some_and(|consumer| consumer.reads(Some(token))) {
            self.stop_reading(pending.consumer, links);
        }
    }

    /// The link of a consumer ends, with deliveries for which it gave no outcome: `tokens`, in the
    /// order of dispatch. `oldest`: the first of them is the oldest that its link holds. All links
    /// that end together are stalled before the first of them gives anything back
    /// ([`Router::stall`]).
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
            // Its transaction decides first.
            pending.retiring = Retiring::LetGo(verdict);
            return;
        }
        self.outcome(token, &verdict.outcome(), links);
    }

    /// Ends the life of a token; `None` if it has ended, or a transaction has it.
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

    /// One copy has found its end.
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

    /// A copy has been answered, or (`None`) will reach no consumer.
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

    /// The producer waits no longer for one copy of those it waited for: its consumer is overdue.
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

    /// The message was withdrawn: the outcomes of its copies are dropped.
    pub(super) fn forget_join(&mut self, settlement: SettlementTarget) {
        if let SettlementTarget::Join(key) | SettlementTarget::Optional(key) = settlement {
            self.direct.joins.remove(key);
        }
    }

    /// A producer that has gone receives nothing; the statistics count its outcome.
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
            links.settle(attachment, delivery_id, outcome);
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

    /// One copy will reach no consumer.
    pub(super) fn lose(&mut self, settlement: SettlementTarget, address: Key, links: &mut impl Links) {
        if !matches!(settlement, SettlementTarget::Producer { .. }) {
            self.addresses[address].stats.dropped += 1;
        }
        match settlement {
            SettlementTarget::Join(_) | SettlementTarget::Optional(_) => self.join(settlement, address, None, links),
            _ => self.answer(settlement, address, &Outcome::Released, links),
        }
    }
}
