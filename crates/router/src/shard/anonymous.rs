//! Links to the anonymous terminus: each message says where it goes (`contracts.md` 7). Such a link has a port at every
//! address it has used lately.
//!
//! A port is given up once its name leads elsewhere, or when there are many, but not before all that was sent through it
//! is answered; then it stays until the last word of its home, for what that says is for the link's window.

use enmasse_amqp::codec::scan::{self, Broken};
use enmasse_amqp::connection::{Incoming, LinkId};
use enmasse_amqp::types::{Error, condition};

use super::attach::{check_right, may_be_sent_to};
use super::batch::Entry;
use super::conn::{Anonymous, Beginning, Conn, Link, Route};
use super::links::full_name;
use super::management::MANAGEMENT;
use super::{ConnId, Shard};
use crate::core::{Ending, Hold, PortId, PortRole};
use crate::plan::Operation;

/// Addresses an anonymous link may have open at once before the ones nothing is outstanding on are given up.
const ROUTES_MAX: usize = 64;
/// Bytes of a delivery that are kept until its `to` is found: what stands before it, the annotations, may be large and
/// the frames small. One that does not say by then is rejected.
const TO_BYTES_MAX: usize = 256 * 1024;

/// Whether the properties may be in what follows: all before are sections that stand before them (3.2), or cut off.
fn may_still_come(beginning: &[u8]) -> bool {
    scan::sections(beginning).all(|section| match section {
        Ok(section) => section.code < 0x73,
        Err(broken) => broken == Broken::Cut,
    })
}

fn anonymous(conn: &mut Conn, link: LinkId) -> Option<&mut Anonymous> {
    match conn.links.get_mut(link.0 as usize) {
        Some(Link::Anonymous(anonymous)) => Some(anonymous),
        _ => None,
    }
}

impl Shard {
    /// A frame of a delivery. One that cannot go anywhere is answered here, and the link stays.
    pub(super) fn incoming_anonymous(&mut self, id: ConnId, incoming: &Incoming<'_>) {
        let now = self.fabric.now;
        let Some(anonymous) = self.anonymous(id, incoming.link) else { return };
        if incoming.first {
            anonymous.window.received(now);
            (anonymous.current, anonymous.beginning) = (None, None);
        } else if anonymous.beginning.is_none() {
            match anonymous.current {
                Some((port, home)) => self.deliver(port, home, incoming),
                None => self.posting_refused_before(id, incoming),
            }
            return;
        }
        let beginning = anonymous.beginning.take();
        if incoming.aborted {
            // Nobody has heard of it.
            return self.fabric.link_taken(id.key, incoming.link.0, 1);
        }
        let Some(mut beginning) = beginning else {
            if !self.begins(id, incoming) {
                let kept = Beginning {
                    bytes: incoming.payload.to_vec(),
                    look_at: 2 * incoming.payload.len(),
                    state: incoming.state.map(Into::into),
                    tag: incoming.tag.into(),
                };
                self.keep_beginning(id, incoming.link, kept);
            }
            return;
        };
        beginning.bytes.extend_from_slice(incoming.payload);
        beginning.state = beginning.state.or_else(|| incoming.state.map(Into::into));
        let length = beginning.bytes.len();
        if !incoming.more || length >= beginning.look_at.min(TO_BYTES_MAX) {
            let (state, tag) = (beginning.state.as_deref(), &*beginning.tag);
            if self.begins(id, &Incoming { first: true, payload: &beginning.bytes, state, tag, ..*incoming }) {
                return;
            }
            beginning.look_at = 2 * length;
        }
        self.keep_beginning(id, incoming.link, beginning);
    }

    fn keep_beginning(&mut self, id: ConnId, link: LinkId, beginning: Beginning) {
        if let Some(anonymous) = self.anonymous(id, link) {
            anonymous.beginning = Some(beginning);
        }
    }

    /// All that came so far of a delivery that goes nowhere yet. `false`: it has to be kept until more comes.
    fn begins(&mut self, id: ConnId, incoming: &Incoming<'_>) -> bool {
        let Route { port, home } = match self.route(id, incoming) {
            Ok(Some(route)) => route,
            Ok(None) => return false,
            Err(error) => {
                // OASIS anonymous terminus 1.0, 2.2.2: the sender of a message that it has settled already learns it by
                // the end of its link, unless a transaction tells it.
                let error = error.about_delivery(incoming.tag);
                if incoming.settled
                    && incoming.state.is_none()
                    && let Some(conn) = self.fabric.conns.get_mut(id.key())
                {
                    conn.machine.detach(incoming.link, true, Some(error.clone()));
                }
                self.refuse_incoming(id, incoming, error);
                return true;
            }
        };
        let Some(anonymous) = self.anonymous(id, incoming.link) else { return true };
        anonymous.current = Some((port, home));
        if !incoming.settled
            && let Some(port) = self.fabric.ports.get_mut(port)
        {
            port.unanswered += 1;
        }
        self.deliver(port, home, incoming);
        true
    }

    fn anonymous(&mut self, id: ConnId, link: LinkId) -> Option<&mut Anonymous> {
        anonymous(self.fabric.conns.get_mut(id.key())?, link)
    }

    /// Where a delivery of which this is the beginning goes; `None`: that is in a frame still to come.
    fn route(&mut self, id: ConnId, incoming: &Incoming<'_>) -> Result<Option<Route>, Error> {
        let Some(to) = scan::to(incoming.payload) else {
            if incoming.more && incoming.payload.len() < TO_BYTES_MAX && may_still_come(incoming.payload) {
                return Ok(None);
            }
            let what = format!(
                "a message to the anonymous terminus needs its address in properties.to, within its first {TO_BYTES_MAX} \
                 bytes"
            );
            return Err(Error::new(condition::INVALID_FIELD, what));
        };
        self.route_to(id, incoming.link, to).map(Some)
    }

    /// The place of an anonymous link at the address that `to` names.
    pub(super) fn route_to(&mut self, id: ConnId, link: LinkId, to: &str) -> Result<Route, Error> {
        let conn = &self.fabric.conns[id.key()];
        if let Some(Link::Anonymous(anonymous)) = conn.links.get(link.0 as usize)
            && let Some(route) = anonymous.routes.get(to)
        {
            return Ok(*route);
        }
        if to == MANAGEMENT {
            let what = format!("\"{MANAGEMENT}\" takes requests over links with this target only: attach one");
            return Err(Error::new(condition::NOT_IMPLEMENTED, what));
        }
        check_right(conn, Operation::Send, to)?;
        let entry = self.find(conn, to).ok_or_else(|| self.unknown(conn, to))?;
        may_be_sent_to(&entry)?;
        self.give_up_routes(id, link);
        let home = self.home_of(&entry);
        let port = self.fabric.ports.insert(id.key, link.0, entry.declared(), home);
        let producer_name = self.anonymous(id, link).and_then(|anonymous| anonymous.producer_name.clone());
        let role = PortRole::Producer { anonymous: true, name: full_name(&entry, to), producer_name, resume: None };
        self.attach_port(port, home, &entry, role);
        let route = Route { port, home };
        if let Some(anonymous) = self.anonymous(id, link) {
            anonymous.routes.insert(to.into(), route);
        }
        Ok(route)
    }

    /// Makes room among the routes of an anonymous link. Those with deliveries outstanding stay: their number is
    /// bounded by the link's window.
    fn give_up_routes(&mut self, id: ConnId, link: LinkId) {
        let Some(anonymous) = anonymous(&mut self.fabric.conns[id.key()], link) else { return };
        if anonymous.routes.len() >= ROUTES_MAX {
            let ports = &self.fabric.ports;
            let current = anonymous.current.map(|(port, _)| port);
            let idle = |port| ports.get(port).is_some_and(|port| port.unanswered == 0 && port.held == Hold::No);
            anonymous.give_up(|_, route| idle(route.port) && Some(route.port) != current);
        }
        self.part_with_past(id, link);
    }

    /// A new table is in force: names that lead elsewhere now, or that the peer may not send to any more, are looked up
    /// anew when a message names them.
    pub(super) fn reroute(&mut self, id: ConnId) {
        for link in (0..self.fabric.conns[id.key()].links.len() as u32).map(LinkId) {
            let conn = &self.fabric.conns[id.key()];
            let Some(Link::Anonymous(anonymous_link)) = conn.links.get(link.0 as usize) else { continue };
            let leads_there = |name: &str, port: PortId| {
                let entry = self.find(conn, name).filter(|_| check_right(conn, Operation::Send, name).is_ok());
                let address = self.fabric.ports.get(port).map(|port| port.address);
                entry.is_some_and(|entry| Some(entry.key) == address)
            };
            let routes = anonymous_link.routes.iter();
            let stale: Vec<PortId> =
                routes.filter(|(name, route)| !leads_there(name, route.port)).map(|(_, route)| route.port).collect();
            if let Some(anonymous) = anonymous(&mut self.fabric.conns[id.key()], link) {
                anonymous.give_up(|_, route| stale.contains(&route.port));
            }
            self.part_with_past(id, link);
        }
    }

    /// Takes leave of the ports that are no routes any more and through which nothing is outstanding.
    fn part_with_past(&mut self, id: ConnId, link: LinkId) {
        let Some(anonymous) = anonymous(&mut self.fabric.conns[id.key()], link) else { return };
        let current = anonymous.current.map(|(port, _)| port);
        let ports = &self.fabric.ports;
        let done = |port: &PortId| {
            let idle =
                ports.get(*port).is_some_and(|port| port.unanswered == 0 && port.held == Hold::No && !port.parting);
            idle && Some(*port) != current
        };
        let done: Vec<PortId> = anonymous.past.iter().copied().filter(done).collect();
        for port in done {
            let Some(state) = self.fabric.ports.get_mut(port) else { continue };
            let home = state.home;
            if home == self.fabric.index {
                self.router.detach(port, &mut self.fabric);
                self.fabric.last_word(port);
            } else {
                state.parting = true;
                let entry = Entry::Detach { port, ending: Ending::ByNode, closed: false };
                self.fabric.outboxes[home as usize].push(entry);
            }
        }
    }

    /// The link has gone. Another may have its place soon: what is said to its ports from now on is for nobody.
    pub(super) fn release_anonymous(&mut self, id: ConnId, anonymous: &Anonymous, ending: Ending) {
        if let Some(state) = anonymous.beginning.as_ref().and_then(|beginning| beginning.state.as_deref()) {
            let what = "a link ended before the last transfer of a message";
            self.refuse_posting(id, state, Error::new(condition::PRECONDITION_FAILED, what));
        }
        let routes = anonymous.routes.values().map(|route| route.port);
        for port in routes.chain(anonymous.past.iter().copied()) {
            self.detach_port(port, ending, false);
        }
    }
}
