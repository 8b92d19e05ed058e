//! Links to the anonymous terminus: each message names its destination (`contracts.md` 7). Such a
//! link has an attachment at every address it has used lately.
//!
//! A route is dropped when its name resolves to another address, or when a link has many routes,
//! but not before all messages sent through it have outcomes. Its attachment stays until its home
//! has confirmed, because outcomes open the link's window.

use std::sync::Arc;

use enmasse_amqp::codec::scan::{self, Broken};
use enmasse_amqp::connection::{Incoming, LinkId};
use enmasse_amqp::types::{Error, condition};

use super::attach::may_be_sent_to;
use super::conn::{Anonymous, Beginning, Conn, Link, Route};
use super::links::full_name;
use super::management::MANAGEMENT;
use super::{ConnId, Shard};
use crate::core::{AttachmentId, AttachmentRole, Ending, Hold, ToHome};
use crate::plan::Operation;
use crate::table::AddressEntry;

/// Routes of an anonymous link; at this number those without outstanding deliveries are dropped.
const ROUTES_MAX: usize = 64;
/// Bytes of a delivery that are kept until its `to` is found: annotations before it may be large
/// and span several frames. A message without `to` in these bytes is rejected.
const TO_BYTES_MAX: usize = 256 * 1024;

/// Whether the properties may be in later frames: all sections so far precede them (3.2), or are
/// incomplete.
fn may_have_properties(beginning: &[u8]) -> bool {
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
    /// Processes a frame of a delivery. One without a valid destination is rejected here, and the
    /// link stays.
    pub(super) fn incoming_anonymous(&mut self, id: ConnId, incoming: &Incoming<'_>) {
        let now = self.fabric.now;
        let Some(anonymous) = self.anonymous(id, incoming.link) else { return };
        if incoming.first {
            anonymous.window.received(now);
            (anonymous.current, anonymous.beginning) = (None, None);
        } else if anonymous.beginning.is_none() {
            match anonymous.current {
                Some((attachment, home)) => self.deliver(attachment, home, incoming),
                None => self.posting_refused_before(id, incoming),
            }
            return;
        }
        let beginning = anonymous.beginning.take();
        if incoming.aborted {
            // The delivery was not passed on yet.
            return self.fabric.link_taken(id.key, incoming.link.0, 1);
        }
        let Some(mut beginning) = beginning else {
            if !self.begins(id, incoming) {
                let kept = Beginning {
                    bytes: incoming.payload.to_vec(),
                    next_scan: 2 * incoming.payload.len(),
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
        if !incoming.more || length >= beginning.next_scan.min(TO_BYTES_MAX) {
            let (state, tag) = (beginning.state.as_deref(), &*beginning.tag);
            if self.begins(id, &Incoming { first: true, payload: &beginning.bytes, state, tag, ..*incoming }) {
                return;
            }
            beginning.next_scan = 2 * length;
        }
        self.keep_beginning(id, incoming.link, beginning);
    }

    fn keep_beginning(&mut self, id: ConnId, link: LinkId, beginning: Beginning) {
        if let Some(anonymous) = self.anonymous(id, link) {
            anonymous.beginning = Some(beginning);
        }
    }

    /// Routes a delivery by the bytes received so far. `false`: `to` is missing in them, and the
    /// caller keeps them until more arrive.
    fn begins(&mut self, id: ConnId, incoming: &Incoming<'_>) -> bool {
        let Route { attachment, home } = match self.route(id, incoming) {
            Ok(Some(route)) => route,
            Ok(None) => return false,
            Err(error) => {
                // OASIS anonymous terminus 1.0, 2.2.2: the sender of a presettled message is
                // notified by a detach, unless a transaction reports the error.
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
        anonymous.current = Some((attachment, home));
        if !incoming.settled
            && let Some(attachment) = self.fabric.attachments.get_mut(attachment)
        {
            attachment.unanswered += 1;
        }
        self.deliver(attachment, home, incoming);
        true
    }

    fn anonymous(&mut self, id: ConnId, link: LinkId) -> Option<&mut Anonymous> {
        anonymous(self.fabric.conns.get_mut(id.key())?, link)
    }

    /// The route of a delivery that begins with these bytes; `None`: `to` is in a later frame.
    fn route(&mut self, id: ConnId, incoming: &Incoming<'_>) -> Result<Option<Route>, Error> {
        let Some(to) = scan::to(incoming.payload) else {
            if incoming.more && incoming.payload.len() < TO_BYTES_MAX && may_have_properties(incoming.payload) {
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

    /// The route of an anonymous link to the address that `to` names.
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
        conn.check_right(Operation::Send, to)?;
        let entry = self.find(conn, to).ok_or_else(|| self.unknown(conn, to))?;
        may_be_sent_to(&entry)?;
        Ok(self.route_at(id, link, to, &entry))
    }

    /// The route of an anonymous link to an address under a name.
    pub(super) fn route_at(&mut self, id: ConnId, link: LinkId, to: &str, entry: &Arc<AddressEntry>) -> Route {
        if let Some(route) = self.anonymous(id, link).and_then(|anonymous| anonymous.routes.get(to).copied()) {
            return route;
        }
        self.drop_routes(id, link);
        let (attachment, home) = self.fabric.attachments.insert(id.key, link.0, entry);
        let producer_name = self.anonymous(id, link).and_then(|anonymous| anonymous.producer_name.clone());
        let role =
            AttachmentRole::Producer { anonymous: true, name: full_name(entry, to), producer_name, resume: None };
        self.attach_link(attachment, home, entry, role);
        let route = Route { attachment, home };
        if let Some(anonymous) = self.anonymous(id, link) {
            anonymous.routes.insert(to.into(), route);
        }
        route
    }

    /// Drops routes of an anonymous link that has too many. Those with outstanding deliveries stay:
    /// the link's window bounds their number.
    fn drop_routes(&mut self, id: ConnId, link: LinkId) {
        let Some(anonymous) = anonymous(&mut self.fabric.conns[id.key()], link) else { return };
        if anonymous.routes.len() >= ROUTES_MAX {
            let attachments = &self.fabric.attachments;
            let current = anonymous.current.map(|(attachment, _)| attachment);
            let idle = |attachment| {
                attachments
                    .get(attachment)
                    .is_some_and(|attachment| attachment.unanswered == 0 && attachment.held == Hold::No)
            };
            anonymous.drop_routes(|_, route| idle(route.attachment) && Some(route.attachment) != current);
        }
        self.drop_past_routes(id, link);
    }

    /// Follows a new table: drops the routes of names that resolve to another address now, or that
    /// the peer may no longer send to. The next message to such a name resolves it again.
    pub(super) fn reroute(&mut self, id: ConnId) {
        for link in (0..self.fabric.conns[id.key()].links.len() as u32).map(LinkId) {
            let conn = &self.fabric.conns[id.key()];
            let Some(Link::Anonymous(anonymous_link)) = conn.links.get(link.0 as usize) else { continue };
            let resolves_to = |name: &str, attachment: AttachmentId| {
                let entry = self.find(conn, name).filter(|_| conn.check_right(Operation::Send, name).is_ok());
                let address = self.fabric.attachments.get(attachment).map(|attachment| attachment.address);
                entry.is_some_and(|entry| Some(entry.key) == address)
            };
            let routes = anonymous_link.routes.iter();
            let stale: Vec<AttachmentId> = routes
                .filter(|(name, route)| !resolves_to(name, route.attachment))
                .map(|(_, route)| route.attachment)
                .collect();
            if let Some(anonymous) = anonymous(&mut self.fabric.conns[id.key()], link) {
                anonymous.drop_routes(|_, route| stale.contains(&route.attachment));
            }
            self.drop_past_routes(id, link);
        }
    }

    /// Detaches former routes without outstanding deliveries.
    fn drop_past_routes(&mut self, id: ConnId, link: LinkId) {
        let Some(anonymous) = anonymous(&mut self.fabric.conns[id.key()], link) else { return };
        let current = anonymous.current.map(|(attachment, _)| attachment);
        let attachments = &self.fabric.attachments;
        let done = |attachment: &AttachmentId| {
            let idle = attachments.get(*attachment).is_some_and(|attachment| {
                attachment.unanswered == 0 && attachment.held == Hold::No && !attachment.detaching
            });
            idle && Some(*attachment) != current
        };
        let done: Vec<AttachmentId> = anonymous.past.iter().copied().filter(done).collect();
        for attachment in done {
            let Some(state) = self.fabric.attachments.get_mut(attachment) else { continue };
            state.detaching = true;
            let home = state.home;
            self.send_to_home(home, ToHome::Detach { attachment, ending: Ending::ByNode, closed: false });
        }
    }

    /// Detaches all attachments of a link that has ended. Another link may reuse its number: later
    /// calls for these attachments are dropped.
    pub(super) fn release_anonymous(&mut self, id: ConnId, anonymous: &Anonymous, ending: Ending) {
        if let Some(state) = anonymous.beginning.as_ref().and_then(|beginning| beginning.state.as_deref()) {
            let what = "a link ended before the last transfer of a message";
            self.refuse_posting(id, state, Error::new(condition::PRECONDITION_FAILED, what));
        }
        let routes = anonymous.routes.values().map(|route| route.attachment);
        for attachment in routes.chain(anonymous.past.iter().copied()) {
            self.detach_attachment(attachment, ending, false);
        }
    }
}
