//! Links to the anonymous terminus: each message says where it goes (`contracts.md` 7). Such a link has a port at every
//! address it has used lately.
//!
//! A port is given up once its name leads elsewhere, or when there are many, but not before all that was sent through it
//! is answered; then it stays until the last word of its home, for what that says is for the link's window.

use enmasse_amqp::codec::scan;
use enmasse_amqp::connection::{Incoming, LinkId};
use enmasse_amqp::types::{Error, Outcome, condition};

use super::attach::{check_right, may_be_sent_to};
use super::batch::Entry;
use super::conn::{Anonymous, Conn, Link, Route};
use super::links::{full_name, not_found};
use super::{ConnId, Shard};
use crate::core::{PortId, PortRole};
use crate::plan::Operation;

/// Addresses an anonymous link may have open at once before the ones nothing is outstanding on are given up.
const ROUTES_MAX: usize = 64;

fn anonymous(conn: &mut Conn, link: LinkId) -> Option<&mut Anonymous> {
    match conn.links.get_mut(link.0 as usize) {
        Some(Link::Anonymous(anonymous)) => Some(anonymous),
        _ => None,
    }
}

impl Shard {
    /// A frame of a delivery. One that cannot go anywhere is answered here, and the link stays.
    pub(super) fn incoming_anonymous(&mut self, id: ConnId, incoming: &Incoming<'_>) {
        if incoming.first {
            let route = match self.route(id, incoming) {
                Ok(route) => Some((route.port, route.home)),
                Err(error) => {
                    self.answer(id, incoming, Outcome::Rejected(Some(Box::new(error))));
                    None
                }
            };
            let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
            let Some(Link::Anonymous(anonymous)) = conn.links.get_mut(incoming.link.0 as usize) else { return };
            if route.is_some() {
                anonymous.window.received();
            }
            anonymous.current = route;
            if let Some((port, _)) = route
                && !incoming.settled
                && let Some(port) = self.fabric.ports.get_mut(port)
            {
                port.unanswered += 1;
            }
        }
        if let Some((port, home)) = self.current_route(id, incoming.link) {
            self.deliver(port, home, incoming);
        }
    }

    fn current_route(&self, id: ConnId, link: LinkId) -> Option<(PortId, u16)> {
        match self.fabric.conns.get(id.key())?.links.get(link.0 as usize)? {
            Link::Anonymous(anonymous) => anonymous.current,
            _ => None,
        }
    }

    fn answer(&mut self, id: ConnId, incoming: &Incoming<'_>, outcome: Outcome) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        if let Some(window) = conn.window(incoming.link.0) {
            window.received();
        }
        if !incoming.settled {
            conn.machine.settle(incoming.link, incoming.delivery_id, &outcome);
        }
        self.fabric.link_taken(id.key, incoming.link.0, 1);
        self.fabric.mark(id.key);
    }

    fn route(&mut self, id: ConnId, incoming: &Incoming<'_>) -> Result<Route, Error> {
        let to = scan::to(incoming.payload).ok_or_else(|| {
            let what = "a message to the anonymous terminus needs its address in properties.to, within its first frame";
            Error::new(condition::INVALID_FIELD, what)
        })?;
        let conn = &self.fabric.conns[id.key()];
        if let Some(Link::Anonymous(anonymous)) = conn.links.get(incoming.link.0 as usize)
            && let Some(route) = anonymous.routes.get(to)
        {
            return Ok(*route);
        }
        check_right(conn, Operation::Send, to)?;
        let entry = self.find(conn, to).ok_or_else(|| not_found(to))?;
        may_be_sent_to(&entry)?;
        self.give_up_routes(id, incoming.link);
        let home = self.home_of(&entry);
        let port = self.fabric.ports.insert(id.key, incoming.link.0, entry.key, home);
        self.attach_port(port, home, &entry, PortRole::Producer { anonymous: true, name: full_name(&entry, to) });
        let route = Route { port, home };
        if let Some(Link::Anonymous(anonymous)) = self.fabric.conns[id.key()].links.get_mut(incoming.link.0 as usize) {
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
            let idle = |port| ports.get(port).is_some_and(|port| port.unanswered == 0 && !port.held);
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
            let idle = ports.get(*port).is_some_and(|port| port.unanswered == 0 && !port.held && !port.parting);
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
                self.fabric.outboxes[home as usize].push(Entry::Detach { port });
            }
        }
    }

    /// The link has gone. Another may have its place soon: what is said to its ports from now on is for nobody.
    pub(super) fn release_anonymous(&mut self, anonymous: &Anonymous) {
        let routes = anonymous.routes.values().map(|route| route.port);
        for port in routes.chain(anonymous.past.iter().copied()) {
            self.detach_port(port);
        }
    }
}
