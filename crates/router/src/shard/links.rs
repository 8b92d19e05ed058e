//! Links in use: deliveries, credit and outcomes between the protocol machine and the router.

use std::borrow::Cow;
use std::sync::Arc;

use enmasse_amqp::connection::{Incoming, LinkId, OutcomeCounts, SessionId};
use enmasse_amqp::types::{Modified, Outcome};

use super::conn::{Conn, Link};
use super::work::SETTLED_NANOS;
use super::{ConnId, Shard};
use crate::core::{AddressKind, Arrival, AttachmentId, AttachmentRole, Origin, ToHome, home_of_token};
use crate::table::AddressEntry;

impl Conn {
    /// Takes deliveries of ours that are settled now, by the peer (`settled`) or by us; `f` gets their
    /// tokens. `outcome` counts for those without an earlier one: the first outcome is in force, and
    /// that of a transaction counts at its commit. `None`: all of them have one.
    #[inline]
    pub(super) fn take_answered(
        &mut self,
        session: SessionId,
        (first, last): (u32, u32),
        settled: bool,
        outcome: Option<&Outcome>,
        mut f: impl FnMut(u64),
    ) {
        let holds = self.held_outcomes.as_ref().is_some_and(|held| held.has_any());
        let confirms = self.resuming.as_ref().is_some_and(|resuming| !resuming.outgoing.is_empty());
        match outcome {
            // Fast path: mostly no delivery has an earlier outcome.
            Some(outcome) if !holds && !confirms => {
                self.machine.take_answered(session, (first, last), settled, outcome, |_, token| f(token));
            }
            _ => self.take_answered_before(session, (first, last), settled, outcome, &mut f),
        }
    }

    #[cold]
    fn take_answered_before(
        &mut self,
        session: SessionId,
        (first, last): (u32, u32),
        settled: bool,
        outcome: Option<&Outcome>,
        f: &mut dyn FnMut(u64),
    ) {
        let Self { machine, held_outcomes, resuming, .. } = self;
        let new = outcome.map(OutcomeCounts::of).unwrap_or_default();
        let mut counted = Vec::new();
        machine.take_settled(session, first, last, settled, |link, token| {
            let reported = resuming.as_mut().and_then(|resuming| resuming.outgoing.remove(&token));
            let is_held = || held_outcomes.as_ref().is_some_and(|held| held.has(token));
            match reported {
                Some(reported) => counted.push((link, reported.outcome)),
                None if is_held() => {}
                None => counted.push((link, new)),
            }
            f(token);
        });
        counted.into_iter().for_each(|(link, outcome)| machine.count_outcomes(link, &outcome));
    }
}

impl Shard {
    /// Processes a frame of a delivery.
    #[inline]
    pub(super) fn incoming(&mut self, id: ConnId, incoming: &Incoming<'_>) {
        if self.fabric.conns.get_mut(id.key()).is_some_and(|conn| conn.holds > 0) {
            return self.incoming_held(id, incoming);
        }
        self.pass_on(id, incoming);
    }

    /// As `incoming`, on a connection with a held-back link.
    #[cold]
    fn incoming_held(&mut self, id: ConnId, incoming: &Incoming<'_>) {
        self.fabric.count_held(id.key, incoming.link.0, incoming.payload.len());
        self.pass_on(id, incoming);
        if incoming.first == incoming.more {
            self.fabric.update_hold_back_pressure(id.key);
        }
    }

    #[inline(always)]
    fn pass_on(&mut self, id: ConnId, incoming: &Incoming<'_>) {
        let now = self.fabric.now;
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        match conn.links.get_mut(incoming.link.0 as usize) {
            Some(Link::Producer { attachment, home, window }) => {
                if incoming.first {
                    window.received(now);
                }
                conn.pacing.carried.count_received(incoming.first, incoming.payload.len());
                let (attachment, home) = (*attachment, *home);
                if conn.resuming.is_none() || !self.incoming_resumable(id, attachment, home, incoming) {
                    self.deliver(attachment, home, incoming);
                }
            }
            Some(Link::Anonymous(node)) if node.requests.is_some() => self.incoming_request(id, incoming),
            Some(Link::Anonymous(_)) => {
                conn.pacing.carried.count_received(incoming.first, incoming.payload.len());
                self.incoming_anonymous(id, incoming);
            }
            Some(Link::Coordinator(_)) => self.control(id, incoming),
            Some(Link::Will(_)) => self.incoming_will(id, incoming),
            _ => {}
        }
    }

    #[inline]
    pub(super) fn deliver(&mut self, attachment: AttachmentId, home: u16, incoming: &Incoming<'_>) {
        let arrival = Arrival {
            delivery_id: incoming.delivery_id,
            settled: incoming.settled,
            message_format: incoming.message_format,
            first: incoming.first,
            more: incoming.more,
            aborted: incoming.aborted,
            payload: incoming.payload,
        };
        if let Some(state) = incoming.state
            && self.post(attachment, home, state, arrival)
        {
            return;
        }
        if home == self.fabric.index {
            // Not as a command: the fields would go through the stack, which costs 7 ns a message.
            return self.router.deliver(attachment, arrival, &mut self.fabric);
        }
        self.send_to_home(home, ToHome::Deliver { attachment, arrival });
    }

    /// Handles outcomes that the peer reports for our deliveries.
    pub(super) fn disposition(
        &mut self,
        id: ConnId,
        session: SessionId,
        first: u32,
        last: u32,
        settled: bool,
        outcome: &Outcome,
    ) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        if !settled && conn.resuming.is_some() {
            self.disposition_unsettled(id, (session, first, last), outcome);
            return self.resume_starved(id);
        }
        let mut tokens = std::mem::take(&mut self.settled);
        conn.take_answered(session, (first, last), settled, Some(outcome), |token| tokens.push(token));
        self.fabric.charge(tokens.len() as u64 * SETTLED_NANOS);
        // Group tokens by home: clone a large outcome once per shard.
        for tokens in tokens.chunk_by(|one, other| home_of_token(*one) == home_of_token(*other)) {
            self.report_outcomes(tokens, outcome);
        }
        tokens.clear();
        self.settled = tokens;
        self.resume_starved(id);
    }

    #[inline]
    fn report_outcomes(&mut self, tokens: &[u64], outcome: &Outcome) {
        let home = tokens.first().map_or(self.fabric.index, |token| home_of_token(*token));
        if home == self.fabric.index || tokens.len() == 1 {
            tokens.iter().for_each(|token| self.report_outcome(*token, outcome));
        } else {
            let (tokens, outcome) = (Cow::Borrowed(tokens), Cow::Borrowed(outcome));
            self.send_to_home(home, ToHome::Outcomes { tokens, outcome });
        }
    }

    /// Continues a connection that had too many unsettled deliveries, after some were settled.
    pub(super) fn resume_starved(&mut self, id: ConnId) {
        if let Some(conn) = self.fabric.conns.get(id.key())
            && conn.starved
        {
            self.resume_congested(id);
        }
    }

    /// Reports accepted for deliveries that were sent settled, and undeliverable for those larger
    /// than their receivers allow.
    pub(super) fn report_pending_outcomes(&mut self) {
        while let Some(token) = self.fabric.sent_settled.pop() {
            self.report_outcome(token, &Outcome::Accepted);
        }
        while let Some(token) = self.fabric.too_large.pop() {
            let modified = Modified { undeliverable_here: true, ..Modified::default() };
            self.report_outcome(token, &Outcome::Modified(Box::new(modified)));
        }
    }

    /// Continues links of several addresses on which a long delivery of one address has ended, and the
    /// links that wait for its place.
    pub(super) fn resume_freed(&mut self) {
        while let Some((key, link)) = self.fabric.freed.pop() {
            self.resume_starved(self.id(key));
            let Some(conn) = self.fabric.conns.get(key as usize) else { continue };
            let credit = conn.machine.credit(LinkId(link));
            self.credit(self.id(key), LinkId(link), credit, false);
        }
    }

    #[inline]
    pub(super) fn report_outcome(&mut self, token: u64, outcome: &Outcome) {
        self.send_to_home(home_of_token(token), ToHome::Outcome { token, outcome: Cow::Borrowed(outcome) });
    }

    /// Handles a flow of the peer for a link that we send to. A flow without `drain` cancels an
    /// earlier drain.
    pub(super) fn granted(&mut self, id: ConnId, link: LinkId, credit: u32, drain: bool) {
        if let Some(conn) = self.fabric.conns.get(id.key())
            && let Some(Link::Consumer { attachments, .. }) = conn.links.get(link.0 as usize)
        {
            // Mark all attachments first: a home may answer at once, before the others have the
            // drain.
            for attachment in attachments {
                if let Some(state) = self.fabric.attachments.get_mut(*attachment) {
                    state.draining = drain;
                    state.drain &= drain;
                }
            }
            if drain && attachments.is_empty() {
                return self.fabric.finish_drain(id.key, link.0);
            }
        }
        self.credit(id, link, credit, drain);
    }

    /// Passes `credit` of a link to its addresses. Each address gets all of it: the first delivery
    /// uses it, and a later one finds no credit and waits for the next flow. While the link reads
    /// retained messages, only that gets it.
    pub(super) fn credit(&mut self, id: ConnId, link: LinkId, credit: u32, drain: bool) {
        let Some(conn) = self.fabric.conns.get(id.key()) else { return };
        let Some(Link::Consumer { attachments, .. }) = conn.links.get(link.0 as usize) else { return };
        if let [attachment] = attachments[..] {
            self.attachment_credit(attachment, credit, drain);
        } else if let Some(greeting) = self.greeting_of(attachments) {
            self.attachment_credit(greeting, credit, drain);
        } else {
            for attachment in attachments.clone() {
                self.attachment_credit(attachment, credit, drain);
            }
        }
    }

    pub(super) fn attachment_credit(&mut self, attachment: AttachmentId, credit: u32, drain: bool) {
        let waits = self.fabric.partial_deliveries.has(attachment) && !self.retry_parts(attachment);
        let Some(state) = self.fabric.attachments.get_mut(attachment) else { return };
        let greets = state.greeting.is_some();
        state.drain |= drain && !greets;
        if waits || state.refusing || state.leaving {
            return;
        }
        if greets {
            return self.greeting_credit(attachment, credit);
        }
        let drain = std::mem::take(&mut state.drain);
        state.draining |= drain;
        let (home, limit) = (state.home, state.dispatched.wrapping_add(credit));
        self.send_to_home(home, ToHome::Credit { attachment, limit, drain });
    }

    /// The homes of attachments that returned deliveries have halted them.
    pub(super) fn restart_halted(&mut self) {
        while let Some(attachment) = self.fabric.halted.pop() {
            self.restart(attachment);
        }
    }

    /// The home has stopped sending to an attachment that returns deliveries: none is in flight.
    fn restart(&mut self, attachment: AttachmentId) {
        let Some(state) = self.fabric.attachments.get_mut(attachment) else { return };
        state.refusing = false;
        if state.waits_for_room {
            // It would return the next deliveries, too. `resume_congested` continues it.
            return;
        }
        let drain = std::mem::take(&mut state.drain);
        let (conn, link) = (state.conn, LinkId(state.link));
        let Some(conn) = self.fabric.conns.get(conn as usize) else { return };
        let credit = conn.machine.credit(link);
        self.attachment_credit(attachment, credit, drain);
    }

    /// A connection has room again: its waiting attachments continue in turn, until it is full.
    pub(super) fn resume_congested(&mut self, id: ConnId) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        (conn.congested, conn.starved) = (false, false);
        while let Some(conn) = self.fabric.conns.get_mut(id.key())
            && !conn.congested
            && !conn.starved
            && let Some(attachment) = conn.waiting_for_room.pop_front()
        {
            let Some(state) = self.fabric.attachments.get_mut(attachment) else { continue };
            state.waits_for_room = false;
            let credit = conn.machine.credit(LinkId(state.link));
            self.attachment_credit(attachment, credit, false);
        }
    }

    /// Writes waiting parts of a delivery while there is room. Returns whether none is left.
    fn retry_parts(&mut self, attachment: AttachmentId) -> bool {
        while let Some(part) = self.fabric.partial_deliveries.front(attachment) {
            if !self.fabric.write(attachment, &part.delivery()) {
                self.fabric.partial_deliveries.put_back(attachment, part);
                return false;
            }
        }
        true
    }

    pub(super) fn attach_link(
        &mut self,
        attachment: AttachmentId,
        home: u16,
        entry: &Arc<AddressEntry>,
        role: AttachmentRole,
    ) {
        let sends = matches!(role, AttachmentRole::Producer { .. });
        self.send_to_home(home, ToHome::Attach { attachment, address: entry.declared(), role });
        if sends
            && matches!(entry.kind, AddressKind::Topic | AddressKind::Multicast)
            && let Some(origin) =
                self.fabric.attachments.get(attachment).map(|attachment| self.origin(self.id(attachment.conn)))
        {
            self.send_to_home(home, ToHome::Origin { attachment, origin });
        }
    }

    /// The origin of messages of a connection.
    fn origin(&self, id: ConnId) -> Origin {
        let container = self.fabric.conns.get(id.key()).map(|conn| &*conn.container).unwrap_or_default();
        Origin { connection: self.connection_number(id), container: container.into() }
    }

    /// A number that identifies a connection on all shards; never reused.
    pub(super) fn connection_number(&self, id: ConnId) -> u128 {
        u128::from(self.fabric.index) << 64 | u128::from(id.key) << 32 | u128::from(id.serial)
    }
}

/// The full name that a producer sends to, if receivers of the address may filter by name.
pub(super) fn full_name(entry: &AddressEntry, name: &str) -> Option<Arc<str>> {
    entry.covers_below().then(|| Arc::from(name))
}
