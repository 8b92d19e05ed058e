//! Links that end, alone or together, for any reason.
//!
//! Links that end together end in two phases. The first removes each link from its connection and
//! stalls its consumers at the homes of their addresses. The second returns deliveries and removes
//! attachments. In one phase, a delivery of the first link would be dispatched to the next link of
//! the same closing connection, and so on. Batches keep their order, so other shards also process
//! all stalls before the first returned delivery.
//!
//! The homes decide by `core::Ending` about deliveries without an outcome.

use std::borrow::Cow;
use std::collections::VecDeque;

use enmasse_amqp::connection::{ClosedBy, LinkId, SessionId};
use enmasse_amqp::types::{Error, condition};

use super::conn::{DynamicNode, Link};
use super::{ConnId, Shard};
use crate::core::{AttachmentId, Ending, Hold, Links, ToHome, ToLink, home_of_token};

/// How a link ends.
#[derive(Clone, Debug)]
pub(super) struct Departure {
    pub(super) ending: Ending,
    /// its terminus ends, too
    pub(super) closed: bool,
    /// the error of the detach to send; `None`: no detach
    pub(super) error: Option<Error>,
}

impl Departure {
    /// Of a link that its client, its session or its connection has already ended.
    pub(super) const fn silent(ending: Ending, closed: bool) -> Self {
        Self { ending, closed, error: None }
    }

    /// Of a link that ends now, with an error.
    pub(super) const fn with(ending: Ending, error: Error) -> Self {
        Self { ending, closed: true, error: Some(error) }
    }
}

/// Attachments removed from their addresses in one turn, a few microseconds each: a connection with
/// many links that breaks off does not delay others of its worker.
const TURN_DEPARTURES: usize = 512;

/// Attachments to be removed from their addresses.
pub(super) struct Departures {
    /// those for later turns, in order
    waiting: VecDeque<(AttachmentId, Ending, bool)>,
    /// number that may still be removed in this turn
    room: usize,
}

impl Departures {
    pub(super) const fn new() -> Self {
        Self { waiting: VecDeque::new(), room: TURN_DEPARTURES }
    }

    /// Whether one more may be removed now without overtaking another.
    fn are_due(&self) -> bool {
        self.room > 0 && self.waiting.is_empty()
    }
}

/// A link between the two phases.
pub(super) struct Departing {
    conn: ConnId,
    link: LinkId,
    state: Link,
    departure: Departure,
    /// it may be resumed: its home keeps its unsettled deliveries
    resumable: bool,
}

/// The ending of links that the peer, or its violation of the protocol, has ended.
pub(super) const fn ending_by(by: ClosedBy) -> Ending {
    match by {
        ClosedBy::Peer => Ending::ByClient,
        ClosedBy::Local | ClosedBy::Timeout => Ending::Lost,
    }
}

impl Shard {
    /// The machine has reported the end of a link. `ended`: its session, if that ended with all its
    /// links.
    pub(super) fn link_over(&mut self, id: ConnId, link: LinkId, closed: bool, by: ClosedBy, ended: Option<SessionId>) {
        let Some(conn) = self.fabric.conns.get(id.key()) else { return };
        let known = conn.links.get(link.0 as usize).is_some_and(|link| !matches!(link, Link::Vacant));
        let links = match ended {
            Some(session) if known => conn.machine.session_links(session).collect(),
            _ => vec![link],
        };
        self.release(id, &links, &Departure::silent(ending_by(by), closed));
    }

    /// Links of a connection end together.
    pub(super) fn release(&mut self, id: ConnId, links: &[LinkId], departure: &Departure) {
        let mut departing = Vec::with_capacity(links.len());
        for link in links {
            self.begin_departure(id, *link, departure.clone(), &mut departing);
        }
        self.finish_departures(departing);
    }

    /// Ends all links of a connection, and its dynamic nodes.
    pub(super) fn release_all(&mut self, id: ConnId, ending: Ending) {
        let mut departing = Vec::new();
        self.begin_all(id, ending, &mut departing);
        self.finish_departures(departing);
        self.finish_all(id);
    }

    /// The first phase, for all links of a connection; `finish_all` follows the second.
    pub(super) fn begin_all(&mut self, id: ConnId, ending: Ending, departing: &mut Vec<Departing>) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        (conn.attaching, conn.stealing, conn.creating) = (None, None, None);
        for link in 0..conn.link_numbers() {
            self.begin_departure(id, LinkId(link), Departure::silent(ending, false), departing);
        }
    }

    pub(super) fn finish_all(&mut self, id: ConnId) {
        self.delete_dynamic(id, |_| true);
        if let Some(conn) = self.fabric.conns.get_mut(id.key()) {
            (conn.count_guard, conn.expires, conn.renewal) = (None, None, None);
        }
    }

    /// The first phase: the link is removed from its connection, and nothing more is dispatched to
    /// it.
    pub(super) fn begin_departure(
        &mut self,
        id: ConnId,
        link: LinkId,
        departure: Departure,
        departing: &mut Vec<Departing>,
    ) {
        self.release_name(id, link);
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        conn.release_count(link);
        let resumable = !departure.closed && conn.is_resumable(link);
        conn.set_resumable(link, false);
        let state = conn.take_link(link);
        if let Link::Consumer { attachments, .. } = &state {
            attachments.iter().for_each(|attachment| self.stall_permanently(*attachment));
        }
        departing.push(Departing { conn: id, link, state, departure, resumable });
    }

    /// The second phase, after the first phase of all links that end together.
    pub(super) fn finish_departures(&mut self, departing: Vec<Departing>) {
        for Departing { conn, link, state, departure, resumable } in &departing {
            if matches!(state, Link::Consumer { .. }) {
                self.give_back(*conn, *link, departure.ending, *resumable);
            }
        }
        let mut conns: Vec<ConnId> = departing.iter().map(|departing| departing.conn).collect();
        conns.dedup();
        departing.into_iter().for_each(|departing| self.leave(departing));
        for id in conns {
            self.resume_starved(id);
            if self.fabric.conns.get(id.key()).is_some_and(|conn| conn.holds > 0) {
                self.fabric.update_hold_back_pressure(id.key);
            }
        }
    }

    /// Returns the unsettled deliveries of a consumer to their homes; `kept`: the home keeps them
    /// for the resumed link.
    fn give_back(&mut self, id: ConnId, link: LinkId, ending: Ending, kept: bool) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let mut tokens = std::mem::take(&mut self.settled);
        conn.machine.take_unsettled(link, |token| tokens.push(token));
        if kept {
            tokens.clear();
        }
        let mut oldest = true;
        for tokens in tokens.chunk_by(|one, other| home_of_token(*one) == home_of_token(*other)) {
            let home = tokens.first().map_or(self.fabric.index, |token| home_of_token(*token));
            self.send_to_home(home, ToHome::Relinquish { tokens: Cow::Borrowed(tokens), ending, oldest });
            oldest = false;
        }
        tokens.clear();
        self.settled = tokens;
    }

    /// Removes a link from its addresses.
    fn leave(&mut self, Departing { conn: id, link, state, departure, .. }: Departing) {
        let Departure { ending, closed, error } = departure;
        match state {
            Link::Vacant => {}
            Link::Producer { attachment, .. } => self.detach_attachment(attachment, ending, closed),
            Link::Anonymous(anonymous) => {
                if let Some(conn) = self.fabric.conns.get_mut(id.key()) {
                    conn.questions.retain(|question| question.link != link);
                }
                self.release_anonymous(id, &anonymous, ending);
            }
            Link::Coordinator(_) => self.release_coordinator(id, link),
            Link::Consumer { attachments, .. } => {
                attachments.into_iter().for_each(|attachment| self.detach_attachment(attachment, ending, closed));
            }
        }
        self.delete_dynamic(id, |node| node.link == link && (closed || node.called.is_some()));
        if let (Some(error), Some(conn)) = (error, self.fabric.conns.get_mut(id.key())) {
            // A stolen link continues on another connection with the same terminus.
            let closed = error.condition != condition::LINK_STOLEN;
            conn.machine.detach(link, closed, Some(error));
            self.fabric.mark(id.key);
        }
    }

    /// Makes the home of a consumer dispatch no more deliveries to it, even after later credit.
    fn stall_permanently(&mut self, attachment: AttachmentId) {
        let Some(state) = self.fabric.attachments.get_mut(attachment) else { return };
        state.leaving = true;
        let home = state.home;
        self.send_to_home(home, ToHome::Stall { attachment });
    }

    /// Removes an attachment from its home; `closed`: its link is not resumed.
    pub(super) fn detach_attachment(&mut self, attachment: AttachmentId, ending: Ending, closed: bool) {
        let Some(gone) = self.fabric.attachments.get(attachment).copied() else { return };
        if let Some(attachment) = self.fabric.attachments.get_mut(attachment) {
            attachment.held = Hold::No;
        }
        if gone.held != Hold::No {
            self.fabric.link_held(gone.conn, gone.link, gone.held, Hold::No);
        }
        let home = gone.home;
        // A violation closes the link only; the client alone ends a subscription.
        let closed = closed && ending == Ending::ByClient;
        self.fabric.partial_deliveries.forget(attachment);
        self.fabric.attachments.leave(attachment);
        if !gone.detaching {
            self.send_to_home(home, ToHome::Detach { attachment, ending, closed });
        }
    }

    /// An attachment leaves its address, which lives here: at once, or in a later turn where too
    /// many have left in this one. Nothing is dispatched to it in the meantime.
    pub(super) fn leave_address(&mut self, attachment: AttachmentId, ending: Ending, closed: bool) {
        if self.departures.are_due() {
            self.leave_address_now(attachment, ending, closed);
        } else {
            self.departures.waiting.push_back((attachment, ending, closed));
        }
    }

    fn leave_address_now(&mut self, attachment: AttachmentId, ending: Ending, closed: bool) {
        self.departures.room = self.departures.room.saturating_sub(1);
        if closed {
            self.router.unsubscribe(attachment, &mut self.fabric);
        } else {
            self.router.depart(attachment, ending, &mut self.fabric);
        }
        self.fabric.send(ToLink::Left { attachment });
    }

    /// Removes waiting attachments from their addresses, as many as one turn may.
    pub(super) fn leave_addresses(&mut self) {
        self.departures.room = TURN_DEPARTURES;
        while self.departures.room > 0
            && let Some((attachment, ending, closed)) = self.departures.waiting.pop_front()
        {
            self.leave_address_now(attachment, ending, closed);
        }
    }

    /// Whether attachments wait to be removed in the next turn.
    #[must_use]
    pub fn has_departures(&self) -> bool {
        !self.departures.waiting.is_empty()
    }

    /// Ends the dynamic nodes of a connection that `which` selects.
    fn delete_dynamic(&mut self, id: ConnId, which: impl Fn(&DynamicNode) -> bool) {
        let error = Error::new(condition::RESOURCE_DELETED, "the dynamic node ended with the link that created it");
        while let Some(conn) = self.fabric.conns.get_mut(id.key())
            && let Some(at) = conn.dynamic.iter().position(&which)
        {
            let DynamicNode { entry, .. } = conn.dynamic.swap_remove(at);
            self.end_node(&entry, &error);
        }
    }
}
