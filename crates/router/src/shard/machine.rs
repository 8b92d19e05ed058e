//! The protocol machine of a connection: AMQP 1.0, or MQTT in the terms of AMQP links.
//!
//! The rest of the shard handles links, deliveries and outcomes by these calls, and does not know
//! which protocol its peer speaks. The calls are matched statically; AMQP comes first, because it is
//! the hot path. Sessions, transactions and resumption exist in AMQP only: a client of MQTT never
//! causes a call about them.

use enmasse_amqp::connection::{
    AttachReply, Connection, LinkId, LinkSummary, OutcomeCounts, Outgoing, SendError, SessionId, Tag,
};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{DeliveryState, Error, Open, Outcome, SaslCode};

use super::mqtt::Mqtt;
use crate::plan::Protocol;

/// The machine of one connection.
#[expect(clippy::large_enum_variant, reason = "AMQP is the hot path: its machine is not behind a pointer")]
pub(super) enum Machine {
    Amqp(Connection),
    Mqtt(Box<Mqtt>),
}

impl Machine {
    #[inline]
    pub(super) fn mqtt(&self) -> Option<&Mqtt> {
        match self {
            Self::Amqp(_) => None,
            Self::Mqtt(machine) => Some(machine),
        }
    }

    #[inline]
    pub(super) fn mqtt_mut(&mut self) -> Option<&mut Mqtt> {
        match self {
            Self::Amqp(_) => None,
            Self::Mqtt(machine) => Some(machine),
        }
    }

    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Self::Amqp(_) => Protocol::Amqp,
            Self::Mqtt(_) => Protocol::Mqtt,
        }
    }

    #[inline]
    pub(super) fn is_mqtt(&self) -> bool {
        matches!(self, Self::Mqtt(_))
    }

    #[inline]
    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Amqp(machine) => machine.output(),
            Self::Mqtt(machine) => machine.output(),
        }
    }

    pub(super) fn sasl_challenge(&mut self, challenge: Vec<u8>) {
        match self {
            Self::Amqp(machine) => machine.sasl_challenge(challenge),
            Self::Mqtt(machine) => machine.sasl_challenge(challenge),
        }
    }

    pub(super) fn sasl_outcome(&mut self, code: SaslCode, data: Option<Vec<u8>>) {
        match self {
            Self::Amqp(machine) => machine.sasl_outcome(code, data),
            Self::Mqtt(machine) => machine.sasl_outcome(code, data),
        }
    }

    pub(super) fn open(&mut self, answer: Open) {
        match self {
            Self::Amqp(machine) => machine.open(answer),
            Self::Mqtt(machine) => machine.open(),
        }
    }

    pub(super) fn close(&mut self, error: Option<Error>) {
        match self {
            Self::Amqp(machine) => machine.close(error),
            Self::Mqtt(machine) => machine.close(error),
        }
    }

    pub(super) fn accept(&mut self, link: LinkId, reply: AttachReply) {
        match self {
            Self::Amqp(machine) => machine.accept(link, reply),
            Self::Mqtt(machine) => machine.accept(link),
        }
    }

    pub(super) fn refuse(&mut self, link: LinkId, error: Error) {
        match self {
            Self::Amqp(machine) => machine.refuse(link, error),
            Self::Mqtt(machine) => machine.refuse(link, &error),
        }
    }

    pub(super) fn detach(&mut self, link: LinkId, closed: bool, error: Option<Error>) {
        match self {
            Self::Amqp(machine) => machine.detach(link, closed, error),
            Self::Mqtt(machine) => machine.detach(link, error),
        }
    }

    #[inline]
    pub(super) fn grant(&mut self, link: LinkId, credit: u32) {
        match self {
            Self::Amqp(machine) => machine.grant(link, credit),
            // A client of MQTT publishes without credit; `Mqtt::set_held` pauses it.
            Self::Mqtt(_) => {}
        }
    }

    #[inline]
    pub(super) fn credit(&self, link: LinkId) -> u32 {
        match self {
            Self::Amqp(machine) => machine.credit(link),
            Self::Mqtt(machine) => machine.credit(link),
        }
    }

    pub(super) fn link_summary(&self, link: LinkId) -> Option<LinkSummary<'_>> {
        match self {
            Self::Amqp(machine) => machine.link_summary(link),
            Self::Mqtt(machine) => machine.link_summary(link),
        }
    }

    pub(super) fn drained(&mut self, link: LinkId) {
        match self {
            Self::Amqp(machine) => machine.drained(link),
            Self::Mqtt(machine) => machine.drained(link),
        }
    }

    #[inline]
    pub(super) fn sends_settled(&self, link: LinkId) -> bool {
        match self {
            Self::Amqp(machine) => machine.sends_settled(link),
            Self::Mqtt(_) => false,
        }
    }

    #[inline]
    pub(super) fn transfer(&mut self, link: LinkId, piece: Outgoing<'_>) -> Result<(), SendError> {
        match self {
            Self::Amqp(machine) => machine.transfer(link, piece),
            Self::Mqtt(machine) => machine.transfer(link, piece),
        }
    }

    pub(super) fn transfer_named(&mut self, link: LinkId, piece: Outgoing<'_>, tag: Tag<'_>) -> Result<(), SendError> {
        match self {
            Self::Amqp(machine) => machine.transfer_named(link, piece, tag),
            Self::Mqtt(machine) => machine.transfer(link, piece),
        }
    }

    #[inline]
    pub(super) fn settle(&mut self, link: LinkId, delivery_id: u32, outcome: &Outcome) {
        match self {
            Self::Amqp(machine) => machine.settle(link, delivery_id, outcome),
            Self::Mqtt(machine) => machine.settle(delivery_id, outcome),
        }
    }

    pub(super) fn settle_with(&mut self, link: LinkId, delivery_id: u32, state: &DeliveryState, settled: bool) {
        if let Self::Amqp(machine) = self {
            machine.settle_with(link, delivery_id, state, settled);
        }
    }

    /// `hold_ms`: how long the publications of a client of MQTT are not read.
    pub(super) fn set_held(&mut self, link: LinkId, held: bool, hold_ms: u64) {
        match self {
            Self::Amqp(machine) => machine.set_held(link, held),
            Self::Mqtt(machine) => machine.set_held(held, hold_ms),
        }
    }

    pub(super) fn set_reading(&mut self, now: Time, reading: bool) {
        match self {
            Self::Amqp(machine) => machine.set_reading(now, reading),
            Self::Mqtt(machine) => machine.set_reading(now, reading),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        match self {
            Self::Amqp(machine) => machine.poll_timeout(),
            Self::Mqtt(machine) => machine.poll_timeout(),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Amqp(machine) => machine.handle_timeout(now),
            Self::Mqtt(machine) => machine.handle_timeout(now),
        }
    }

    /// Takes each of our deliveries in a range of a session.
    #[inline]
    pub(super) fn take_settled(
        &mut self,
        session: SessionId,
        first: u32,
        last: u32,
        settled: bool,
        f: impl FnMut(LinkId, u64),
    ) {
        if let Self::Amqp(machine) = self {
            machine.take_settled(session, first, last, settled, f);
        }
    }

    /// As `take_settled`, for deliveries with an outcome of the peer.
    #[inline]
    pub(super) fn take_answered(
        &mut self,
        session: SessionId,
        (first, last): (u32, u32),
        settled: bool,
        outcome: &Outcome,
        f: impl FnMut(LinkId, u64),
    ) {
        if let Self::Amqp(machine) = self {
            machine.take_answered(session, first, last, settled, outcome, f);
        }
    }

    /// Counts outcomes of deliveries that are settled apart from them.
    pub(super) fn count_outcomes(&mut self, link: LinkId, outcomes: &OutcomeCounts) {
        if let Self::Amqp(machine) = self {
            machine.count_outcomes(link, outcomes);
        }
    }

    pub(super) fn take_unsettled(&mut self, link: LinkId, mut f: impl FnMut(u64)) {
        self.take_unsettled_of(&[link], |_, token| f(token));
    }

    pub(super) fn take_unsettled_of(&mut self, links: &[LinkId], f: impl FnMut(LinkId, u64)) {
        match self {
            Self::Amqp(machine) => machine.take_unsettled_of(links, f),
            Self::Mqtt(machine) => machine.take_unsettled_of(links, f),
        }
    }

    pub(super) fn unsettled(
        &self,
        session: SessionId,
        first: u32,
        last: u32,
    ) -> impl Iterator<Item = (u32, LinkId, u64)> {
        let machine = if let Self::Amqp(machine) = self { Some(machine) } else { None };
        machine.into_iter().flat_map(move |machine| machine.unsettled(session, first, last))
    }

    pub(super) fn receiving(&self) -> impl Iterator<Item = LinkId> {
        let machine = if let Self::Amqp(machine) = self { Some(machine) } else { None };
        machine.into_iter().flat_map(Connection::receiving)
    }

    pub(super) fn link_session(&self, link: LinkId) -> Option<SessionId> {
        match self {
            Self::Amqp(machine) => machine.link_session(link),
            Self::Mqtt(_) => None,
        }
    }

    pub(super) fn session_links(&self, session: SessionId) -> impl Iterator<Item = LinkId> {
        let machine = if let Self::Amqp(machine) = self { Some(machine) } else { None };
        machine.into_iter().flat_map(move |machine| machine.session_links(session))
    }

    pub(super) fn settles_at_once(&self, link: LinkId, delivery_id: u32) -> bool {
        match self {
            Self::Amqp(machine) => machine.settles_at_once(link, delivery_id),
            Self::Mqtt(_) => true,
        }
    }

    pub(super) fn end(&mut self, session: SessionId, error: Option<Error>) {
        if let Self::Amqp(machine) = self {
            machine.end(session, error);
        }
    }
}
