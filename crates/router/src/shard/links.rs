//! Links in use: deliveries, credit and outcomes between the protocol machine and the router.

use std::sync::Arc;

use enmasse_amqp::connection::{Incoming, LinkId, SessionId};
use enmasse_amqp::types::{Error, Modified, Outcome, condition};

use super::batch::Entry;
use super::conn::Link;
use super::work::SETTLED_NANOS;
use super::{ConnId, Shard};
use crate::core::{AddressKind, Arrival, Delivery, Links, Origin, PortId, PortRole, home_of_token};
use crate::table::AddressEntry;

impl Shard {
    /// A frame of a delivery has come in.
    #[inline]
    pub(super) fn incoming(&mut self, id: ConnId, incoming: &Incoming<'_>) {
        if self.fabric.conns.get_mut(id.key()).is_some_and(|conn| conn.holds > 0) {
            return self.incoming_held(id, incoming);
        }
        self.pass_on(id, incoming);
    }

    /// The same on a connection of which a link is held back.
    #[cold]
    fn incoming_held(&mut self, id: ConnId, incoming: &Incoming<'_>) {
        self.fabric.count_held(id.key, incoming.link.0, incoming.payload.len());
        self.pass_on(id, incoming);
        if incoming.first == incoming.more {
            self.fabric.weigh_holds(id.key);
        }
    }

    #[inline(always)]
    fn pass_on(&mut self, id: ConnId, incoming: &Incoming<'_>) {
        let now = self.fabric.now;
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        match conn.links.get_mut(incoming.link.0 as usize) {
            Some(Link::Producer { port, home, window }) => {
                if incoming.first {
                    window.received(now);
                }
                conn.pacing.carried.came(incoming.first, incoming.payload.len());
                let (port, home) = (*port, *home);
                if conn.resuming.is_none() || !self.incoming_resumable(id, port, home, incoming) {
                    self.deliver(port, home, incoming);
                }
            }
            Some(Link::Anonymous(node)) if node.requests.is_some() => self.incoming_request(id, incoming),
            Some(Link::Anonymous(_)) => {
                conn.pacing.carried.came(incoming.first, incoming.payload.len());
                self.incoming_anonymous(id, incoming);
            }
            Some(Link::Coordinator(_)) => self.control(id, incoming),
            _ => {}
        }
    }

    #[inline]
    pub(super) fn deliver(&mut self, port: PortId, home: u16, incoming: &Incoming<'_>) {
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
            && self.post(port, home, state, arrival)
        {
            return;
        }
        if home == self.fabric.index {
            self.router.deliver(port, arrival, &mut self.fabric);
        } else {
            self.fabric.outboxes[home as usize].push_arrival(port, &arrival);
        }
    }

    /// The peer has said what became of deliveries of ours.
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
            return self.feed_starved(id);
        }
        let mut tokens = std::mem::take(&mut self.settled);
        conn.machine.take_settled(session, first, last, settled, |_, token| tokens.push(token));
        self.fabric.charge(tokens.len() as u64 * SETTLED_NANOS);
        // Group tokens by home: clone a large outcome once per shard.
        for tokens in tokens.chunk_by(|one, other| home_of_token(*one) == home_of_token(*other)) {
            self.report_outcomes(tokens, outcome);
        }
        tokens.clear();
        self.settled = tokens;
        self.feed_starved(id);
    }

    #[inline]
    fn report_outcomes(&mut self, tokens: &[u64], outcome: &Outcome) {
        let home = tokens.first().map_or(self.fabric.index, |token| home_of_token(*token));
        if home == self.fabric.index || tokens.len() == 1 {
            tokens.iter().for_each(|token| self.report_outcome(*token, outcome));
        } else {
            let entry = Entry::Outcomes { tokens: tokens.to_vec(), outcome: outcome.clone() };
            self.fabric.outboxes[home as usize].push(entry);
        }
    }

    /// Room for unsettled deliveries has come about.
    pub(super) fn feed_starved(&mut self, id: ConnId) {
        if let Some(conn) = self.fabric.conns.get(id.key())
            && conn.starved
        {
            self.feed_short(id);
        }
    }

    /// Accepts for those receivers that take settled deliveries only, and says which deliveries receivers cannot take.
    pub(super) fn answer_for_receivers(&mut self) {
        while let Some(token) = self.fabric.sent_settled.pop() {
            self.report_outcome(token, &Outcome::Accepted);
        }
        while let Some(token) = self.fabric.too_large.pop() {
            let modified = Modified { undeliverable_here: true, ..Modified::default() };
            self.report_outcome(token, &Outcome::Modified(Box::new(modified)));
        }
    }

    /// Long deliveries have ended on links that listen to several addresses: the others may go on.
    pub(super) fn feed_freed(&mut self) {
        while let Some((key, link)) = self.fabric.freed.pop() {
            let Some(conn) = self.fabric.conns.get(key as usize) else { continue };
            let credit = conn.machine.credit(LinkId(link));
            self.credit(self.id(key), LinkId(link), credit, false);
        }
    }

    #[inline]
    pub(super) fn report_outcome(&mut self, token: u64, outcome: &Outcome) {
        let home = home_of_token(token);
        if home == self.fabric.index {
            self.router.outcome(token, outcome, &mut self.fabric);
        } else {
            self.fabric.outboxes[home as usize].push(Entry::Outcome { token, outcome: outcome.clone() });
        }
    }

    /// The peer has said what a link of ours may send. Without `drain` it calls off what it asked for before.
    pub(super) fn granted(&mut self, id: ConnId, link: LinkId, credit: u32, drain: bool) {
        if let Some(conn) = self.fabric.conns.get(id.key())
            && let Some(Link::Consumer { ports, .. }) = conn.links.get(link.0 as usize)
        {
            // All before the first is asked: it may answer at once, and does not answer for the others.
            for port in ports {
                if let Some(state) = self.fabric.ports.get_mut(*port) {
                    state.draining = drain;
                    state.drain &= drain;
                }
            }
        }
        self.credit(id, link, credit, drain);
    }

    /// A link of ours may send `credit` more. Every address it listens to hears of all of it: who comes first
    /// uses it, and one that comes late finds no room and waits for the next word.
    fn credit(&mut self, id: ConnId, link: LinkId, credit: u32, drain: bool) {
        let Some(conn) = self.fabric.conns.get(id.key()) else { return };
        let Some(Link::Consumer { ports, .. }) = conn.links.get(link.0 as usize) else { return };
        if let [port] = ports[..] {
            self.port_credit(port, credit, drain);
        } else {
            for port in ports.clone() {
                self.port_credit(port, credit, drain);
            }
        }
    }

    pub(super) fn port_credit(&mut self, port: PortId, credit: u32, drain: bool) {
        let waits = self.fabric.late.has(port) && !self.offer_late(port);
        let Some(state) = self.fabric.ports.get_mut(port) else { return };
        state.drain |= drain;
        if waits || state.refusing || state.leaving {
            return;
        }
        let drain = std::mem::take(&mut state.drain);
        state.draining |= drain;
        let (home, limit) = (state.home, state.handed.wrapping_add(credit));
        if home == self.fabric.index {
            self.router.credit(port, limit, drain, &mut self.fabric);
        } else {
            self.fabric.outboxes[home as usize].push(Entry::Credit { port, limit, drain });
        }
    }

    /// The home of a port has heard that it sends deliveries back: none is on its way any more.
    pub(super) fn halted(&mut self, port: PortId) {
        let Some(state) = self.fabric.ports.get_mut(port) else { return };
        state.refusing = false;
        let drain = std::mem::take(&mut state.drain);
        let (conn, link) = (state.conn, LinkId(state.link));
        let Some(conn) = self.fabric.conns.get(conn as usize) else { return };
        let credit = conn.machine.credit(link);
        self.port_credit(port, credit, drain);
    }

    /// There is room on a connection again: those of its ports that found none are asked in turn, until there is none.
    pub(super) fn feed_short(&mut self, id: ConnId) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        (conn.congested, conn.starved) = (false, false);
        while let Some(conn) = self.fabric.conns.get_mut(id.key())
            && !conn.congested
            && !conn.starved
            && let Some(port) = conn.short.pop_front()
        {
            let Some(state) = self.fabric.ports.get_mut(port) else { continue };
            state.short = false;
            let credit = conn.machine.credit(LinkId(state.link));
            self.port_credit(port, credit, false);
        }
    }

    /// The home of an address hands a delivery to a link of this shard. One that finds no room goes back, and so
    /// does all that follows it until the home has halted: so the order is kept. A later part of a
    /// long one cannot go back: it waits here, and its home is told to send no more for now.
    pub(super) fn hand_over(&mut self, port: PortId, delivery: &Delivery<'_>) {
        let Some(state) = self.fabric.ports.get_mut(port) else {
            // Its home did not know that the consumer went.
            let Some(home) = self.fabric.ports.left(port) else { return };
            return self.send_back(home, port, delivery);
        };
        let home = state.home;
        if !delivery.first {
            if self.fabric.late.has(port) || !self.fabric.transfer(port, delivery) {
                self.fabric.late.push(port, delivery);
                self.fabric.outboxes[home as usize].push(Entry::Stall { port });
            }
        } else if state.refusing || !self.fabric.transfer(port, delivery) {
            if let Some(state) = self.fabric.ports.get_mut(port) {
                state.refusing = true;
            }
            self.send_back(home, port, delivery);
        } else if delivery.more {
            self.fabric.outboxes[home as usize].push(Entry::Begun { port });
        }
    }

    /// Parts that waited for room on this shard are offered again. Whether none is left.
    fn offer_late(&mut self, port: PortId) -> bool {
        while let Some(part) = self.fabric.late.front(port) {
            if !self.fabric.write(port, &part.delivery()) {
                self.fabric.late.put_back(port, part);
                return false;
            }
        }
        true
    }

    fn send_back(&mut self, home: u16, port: PortId, delivery: &Delivery<'_>) {
        self.fabric.outboxes[home as usize].push_refused(port, delivery);
    }

    pub(super) fn attach_port(&mut self, port: PortId, home: u16, entry: &Arc<AddressEntry>, role: PortRole) {
        let sends = matches!(role, PortRole::Producer { .. });
        if home == self.fabric.index {
            self.router.attach(port, entry.declared(), role, &mut self.fabric);
        } else {
            let address = Arc::clone(entry);
            self.fabric.outboxes[home as usize].push(Entry::Attach { port, address, role });
        }
        if sends
            && entry.kind == AddressKind::Topic
            && let Some(origin) = self.fabric.ports.get(port).map(|port| self.origin(self.id(port.conn)))
        {
            if home == self.fabric.index {
                self.router.set_origin(port, origin);
            } else {
                self.fabric.outboxes[home as usize].push(Entry::Origin { port, origin });
            }
        }
    }

    /// Where messages of a connection come from.
    fn origin(&self, id: ConnId) -> Origin {
        let container = self.fabric.conns.get(id.key()).map(|conn| &*conn.container).unwrap_or_default();
        Origin { connection: self.connection_number(id), container: container.into() }
    }

    /// Stands for a connection on all shards, and never for another.
    pub(super) fn connection_number(&self, id: ConnId) -> u128 {
        u128::from(self.fabric.index) << 64 | u128::from(id.key) << 32 | u128::from(id.serial)
    }
}

/// The full name a producer sends to, where receivers may ask for some names of the address only.
pub(super) fn full_name(entry: &AddressEntry, name: &str) -> Option<Arc<str>> {
    entry.covers_below().then(|| Arc::from(name))
}

pub(super) fn not_found(name: &str) -> Error {
    let shown: String = name.chars().take(200).collect();
    Error::new(condition::NOT_FOUND, format!("no address \"{shown}\" in this address space: declare it first"))
}
