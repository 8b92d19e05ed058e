//! Outcomes: from the consumers, by token, back to the producers.

use enmasse_amqp::types::Outcome;

use super::arena::Key;
use super::message::Owed;
use super::{AddressKind, Ending, Links, PortId, Router, Verdict, home_of_token};

/// An unsettled copy that a consumer holds. Its key is the token.
#[derive(Debug)]
pub(super) struct Pending {
    /// it may have gone
    pub(super) consumer: Key,
    pub(super) address: Key,
    pub(super) owed: Owed,
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
    pub(super) const SETTLED: Self = Self::LetGo(Ending::RolledBack.verdict(AddressKind::Stored, false));
}

/// The outcomes of the copies of one unsettled multicast message, on their way to becoming one.
#[derive(Debug)]
pub(super) struct Join {
    port: PortId,
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
    pub(super) fn new(port: PortId, delivery_id: u32, required: u32, optional: u32) -> Self {
        Self { port, delivery_id, required, optional, answered: false, outcome: Outcome::Released }
    }

    /// The producer can be told: an overdue consumer is waited for only while no other has answered.
    const fn is_decided(&self) -> bool {
        self.required == 0 && (self.answered || self.optional == 0)
    }

    /// Who is told of all copies together.
    pub(super) fn owed(&self) -> Owed {
        Owed::Producer { port: self.port, delivery_id: self.delivery_id }
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

/// What stands for an unsettled copy of a shard's.
#[inline]
pub(super) const fn token_of(shard: u16, pending: Key) -> u64 {
    (shard as u64) << 48 | pending.pack()
}

impl Router {
    /// A consumer has said what became of a delivery. A token that is not open any more is ignored; what was said of it
    /// in a transaction that is open stands.
    #[inline]
    pub fn outcome(&mut self, token: u64, outcome: &Outcome, links: &mut impl Links) {
        let Some(pending) = self.close_token(token) else { return };
        self.answer(pending.owed, pending.address, outcome, links);
        if self.consumers.get(pending.consumer).is_some_and(|consumer| consumer.reads(Some(token))) {
            self.stop_reading(pending.consumer, links);
        }
    }

    /// The link of a consumer ends, and with it go deliveries of which it said nothing: `tokens`, in the order in which
    /// they were handed out. `oldest`: the first of them is the oldest that its link holds. All links that end together
    /// are stalled before the first of them gives anything back ([`Router::stall`]).
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
    pub(super) fn answer(&mut self, owed: Owed, address: Key, outcome: &Outcome, links: &mut impl Links) {
        match owed {
            Owed::Nobody | Owed::Browsed(_) => {}
            Owed::Posted => self.addresses[address].stats.accepted += u64::from(*outcome == Outcome::Accepted),
            Owed::Producer { port, delivery_id } => self.settle(port, delivery_id, address, outcome, links),
            Owed::Join(_) | Owed::Optional(_) => self.join(owed, address, Some(outcome), links),
            Owed::Queue(seq) => self.settle_in_queue(address, seq, outcome, links),
            Owed::Operation { id, bytes } => self.operation_stored(id, bytes, outcome),
        }
    }

    /// A copy has been answered, or (`None`) will reach nobody.
    fn join(&mut self, owed: Owed, address: Key, outcome: Option<&Outcome>, links: &mut impl Links) {
        let (Owed::Join(key) | Owed::Optional(key)) = owed else { return };
        let Some(join) = self.joins.get_mut(key) else { return };
        if let Some(outcome) = outcome {
            join.answered = true;
            if weight(outcome) > weight(&join.outcome) {
                join.outcome = outcome.clone();
            }
        }
        match owed {
            Owed::Optional(_) => join.optional -= 1,
            _ => join.required -= 1,
        }
        self.decide(key, address, links);
    }

    /// The producer waits no longer for one copy of those it waited for: its consumer is overdue.
    pub(super) fn make_optional(&mut self, key: Key, address: Key, links: &mut impl Links) {
        let Some(join) = self.joins.get_mut(key) else { return };
        join.required -= 1;
        join.optional += 1;
        self.decide(key, address, links);
    }

    fn decide(&mut self, key: Key, address: Key, links: &mut impl Links) {
        if self.joins.get(key).is_some_and(Join::is_decided)
            && let Some(join) = self.joins.remove(key)
        {
            self.settle(join.port, join.delivery_id, address, &join.outcome, links);
        }
    }

    /// The message was taken back: its copies' outcomes are for nobody.
    pub(super) fn forget_join(&mut self, owed: Owed) {
        if let Owed::Join(key) | Owed::Optional(key) = owed {
            self.joins.remove(key);
        }
    }

    /// A producer that has gone is told nothing; the figures count what it would have been told.
    #[inline]
    fn settle(&mut self, port: PortId, delivery_id: u32, address: Key, outcome: &Outcome, links: &mut impl Links) {
        self.count_outcome(address, outcome);
        if self.ports.producer(port).is_some() {
            links.settle(port, delivery_id, outcome);
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

    /// One copy will reach nobody.
    pub(super) fn lose(&mut self, owed: Owed, address: Key, links: &mut impl Links) {
        if !matches!(owed, Owed::Producer { .. }) {
            self.addresses[address].stats.dropped += 1;
        }
        match owed {
            Owed::Join(_) | Owed::Optional(_) => self.join(owed, address, None, links),
            _ => self.answer(owed, address, &Outcome::Released, links),
        }
    }
}
