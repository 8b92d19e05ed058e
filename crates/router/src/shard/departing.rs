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
use super::link_names::LinkTheft;
use super::work::{RELEASE_NANOS, RETURN_NANOS};
use super::{ConnId, Shard};
use crate::core::{AttachmentId, Ending, Hold, Links, SubscriptionName, ToHome, ToLink, home_of_token};

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

/// Work of one turn on links that have ended: a connection with many links or deliveries that breaks
/// off does not delay others of its worker.
const TURN_NANOS: u64 = 2_000_000;

/// A step of a departure at the home of an address.
enum Step {
    /// deliveries of one link return, as of `Router::relinquish`
    Return { tokens: Vec<u64>, ending: Ending, oldest: bool },
    /// an attachment is removed
    Leave { attachment: AttachmentId, ending: Ending, closed: bool },
    /// a link recalls a durable subscription, which an earlier step may leave
    Recall { attachment: AttachmentId, names: Vec<SubscriptionName> },
    /// a link takes over another one, which an earlier step may end
    Confirm { theft: LinkTheft },
}

/// Steps of departures at this home.
pub(super) struct Departures {
    /// those for later turns, in order
    waiting: VecDeque<Step>,
    /// work that this turn may still do
    room_nanos: u64,
}

impl Departures {
    pub(super) const fn new() -> Self {
        Self { waiting: VecDeque::new(), room_nanos: TURN_NANOS }
    }

    /// Whether one more step may be done now without overtaking another.
    fn are_due(&self) -> bool {
        self.room_nanos > 0 && self.waiting.is_empty()
    }

    /// Delays the confirmation of a theft until all earlier steps are done. `false`: there are none.
    pub(super) fn delay_confirmation(&mut self, theft: LinkTheft) -> bool {
        let is_delayed = !self.waiting.is_empty();
        if is_delayed {
            self.waiting.push_back(Step::Confirm { theft });
        }
        is_delayed
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
        mut departure: Departure,
        departing: &mut Vec<Departing>,
    ) {
        self.release_name(id, link);
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        // A subscription of the service outlives its receivers.
        departure.closed &= conn.subscription_of(link).is_none();
        conn.release_count(link);
        let resumable = !departure.closed && conn.is_resumable(link);
        conn.set_resumable(link, false);
        let state = conn.take_link(link);
        if let Link::Consumer { attachments, .. } = &state {
            attachments.iter().for_each(|attachment| self.stall_permanently(*attachment));
        }
        departing.push(Departing { conn: id, link, state, departure, resumable });
    }

    /// The addresses of a link leave it, and the link stays.
    pub(super) fn release_addresses(&mut self, id: ConnId, link: LinkId) {
        let state = self.fabric.conns.get_mut(id.key()).and_then(|conn| conn.links.get_mut(link.0 as usize));
        let Some(Link::Consumer { attachments, .. }) = state else { return };
        let attachments = std::mem::take(attachments);
        attachments.iter().for_each(|attachment| self.fabric.interrupt(*attachment));
        attachments.iter().for_each(|attachment| self.stall_permanently(*attachment));
        let departure = Departure::silent(Ending::ByClient, false);
        let state = Link::Consumer { attachments, wildcard: None };
        self.finish_departures(vec![Departing { conn: id, link, state, departure, resumable: false }]);
    }

    /// The second phase, after the first phase of all links that end together.
    pub(super) fn finish_departures(&mut self, departing: Vec<Departing>) {
        departing.chunk_by(|one, other| one.conn == other.conn).for_each(|links| self.relinquish_deliveries(links));
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

    /// Returns the unsettled deliveries of the consumers among links of one connection to their
    /// homes. The home of a resumable link keeps them.
    fn relinquish_deliveries(&mut self, links: &[Departing]) {
        let Some(conn) = links.first().and_then(|first| self.fabric.conns.get_mut(first.conn.key())) else { return };
        let mut consumers: Vec<&Departing> =
            links.iter().filter(|departing| matches!(departing.state, Link::Consumer { .. })).collect();
        consumers.sort_unstable_by_key(|departing| departing.link);
        let numbers: Vec<LinkId> = consumers.iter().map(|departing| departing.link).collect();
        let mut unsettled = Vec::new();
        conn.machine.take_unsettled_of(&numbers, |link, token| unsettled.push((link, token)));
        // Stable: the deliveries of a link stay in the order in which they were sent.
        unsettled.sort_by_key(|(link, _)| *link);
        for deliveries in unsettled.chunk_by(|(one, _), (other, _)| one == other) {
            let at = consumers.binary_search_by_key(&deliveries[0].0, |departing| departing.link);
            debug_assert!(at.is_ok(), "a delivery belongs to a link that did not end");
            if let Some(departing) = at.ok().map(|at| consumers[at]).filter(|departing| !departing.resumable) {
                self.relinquish_link(deliveries, departing.departure.ending);
            }
        }
    }

    /// Returns the unsettled deliveries of one link to their homes.
    fn relinquish_link(&mut self, deliveries: &[(LinkId, u64)], ending: Ending) {
        let mut oldest = true;
        for deliveries in deliveries.chunk_by(|(_, one), (_, other)| home_of_token(*one) == home_of_token(*other)) {
            let home = home_of_token(deliveries[0].1);
            let tokens = deliveries.iter().map(|(_, token)| *token).collect();
            self.send_to_home(home, ToHome::Relinquish { tokens, ending, oldest });
            oldest = false;
        }
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
                self.forget_requests(id, link);
                self.release_anonymous(id, &anonymous, ending);
            }
            Link::Coordinator(_) => self.release_coordinator(id, link),
            Link::Will(will) => self.release_will(&will, ending),
            Link::Consumer { attachments, .. } => {
                attachments.into_iter().for_each(|attachment| self.detach_attachment(attachment, ending, closed));
                self.receiver_left(id, link);
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

    /// Deliveries of a link that has ended return to their addresses, which live here: at once, or
    /// in later turns where this one has done too much.
    pub(super) fn receive_relinquished(&mut self, tokens: Cow<'_, [u64]>, ending: Ending, oldest: bool) {
        if self.departures.are_due() {
            self.relinquish_now(&tokens, ending, oldest);
        } else {
            self.departures.waiting.push_back(Step::Return { tokens: tokens.into_owned(), ending, oldest });
        }
    }

    /// Takes back what this turn has room for; the rest waits before all other steps.
    fn relinquish_now(&mut self, tokens: &[u64], ending: Ending, oldest: bool) {
        let room = usize::try_from(self.departures.room_nanos.div_ceil(RETURN_NANOS)).unwrap_or(usize::MAX);
        let (now, later) = tokens.split_at(room.min(tokens.len()));
        self.departures.room_nanos = self.departures.room_nanos.saturating_sub(now.len() as u64 * RETURN_NANOS);
        self.router.relinquish(now, ending, oldest, &mut self.fabric);
        if !later.is_empty() {
            self.departures.waiting.push_front(Step::Return { tokens: later.to_vec(), ending, oldest: false });
        }
    }

    /// An attachment leaves its address, which lives here: at once, or in a later turn where this
    /// one has done too much. Nothing is dispatched to it in the meantime.
    pub(super) fn leave_address(&mut self, attachment: AttachmentId, ending: Ending, closed: bool) {
        if self.departures.are_due() {
            self.leave_address_now(attachment, ending, closed);
        } else {
            self.departures.waiting.push_back(Step::Leave { attachment, ending, closed });
        }
    }

    /// A link recalls a durable subscription, after all earlier steps of departures.
    pub(super) fn recall_after_departures(&mut self, attachment: AttachmentId, names: Vec<SubscriptionName>) {
        if self.departures.waiting.is_empty() {
            self.router.recall(attachment, &names, &mut self.fabric);
        } else {
            self.departures.waiting.push_back(Step::Recall { attachment, names });
        }
    }

    fn leave_address_now(&mut self, attachment: AttachmentId, ending: Ending, closed: bool) {
        self.departures.room_nanos = self.departures.room_nanos.saturating_sub(RELEASE_NANOS);
        if closed {
            self.router.unsubscribe(attachment, &mut self.fabric);
        } else {
            self.router.depart(attachment, ending, &mut self.fabric);
        }
        self.fabric.send(ToLink::Left { attachment });
    }

    /// Takes the waiting steps that one turn has room for.
    pub(super) fn leave_addresses(&mut self) {
        self.departures.room_nanos = TURN_NANOS;
        while self.departures.room_nanos > 0
            && let Some(step) = self.departures.waiting.pop_front()
        {
            match step {
                Step::Return { tokens, ending, oldest } => self.relinquish_now(&tokens, ending, oldest),
                Step::Leave { attachment, ending, closed } => self.leave_address_now(attachment, ending, closed),
                Step::Recall { attachment, names } => self.router.recall(attachment, &names, &mut self.fabric),
                Step::Confirm { theft } => self.pass_confirmation(theft),
            }
        }
    }

    /// Whether work waits for the next turn: deliveries or attachments of links that have ended, or
    /// packets of MQTT.
    #[must_use]
    pub fn has_departures(&self) -> bool {
        !self.departures.waiting.is_empty() || !self.fabric.unfinished.is_empty() || self.absent.has_left()
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
