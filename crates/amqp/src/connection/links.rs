//! The driver's calls for links: attach, accept, refuse, detach, grant credit (2.6).

use std::sync::Arc;

use super::fault::Fault;
use super::receive::Received;
use super::{AttachReply, ClosedBy, Connection, Event, LinkId, LinkSummary, SessionId, UseError};
use crate::link::state::{State, Step};
use crate::link::{Link, Offered};
use crate::session::Session;
use crate::types::{Attach, Error, Outcome, Role, Source, condition};

/// Bytes of a link's name; one that is longer is refused.
const NAME_MAX: usize = 4096;

fn opposite(role: Role) -> Role {
    match role {
        Role::Sender => Role::Receiver,
        Role::Receiver => Role::Sender,
    }
}

fn default_outcome(source: Option<&Source>) -> Option<Outcome> {
    source.and_then(|source| source.default_outcome.clone())
}

impl Connection {
    /// Our link with the name of the peer's attach and the opposite role.
    pub(super) fn link_named(&self, attach: &Attach) -> Option<u32> {
        self.names[opposite(attach.role) as usize].get(attach.name.as_str()).copied()
    }

    /// Ends a link whose name the peer attaches again (2.6.1: a name belongs to one link of a
    /// direction).
    pub(super) fn steal(&mut self, place: u32) {
        if self.links.get(place as usize).is_some_and(|link| link.state == State::Attached) {
            let error = Error::new(condition::LINK_STOLEN, "a link of this name was attached again");
            self.write_detach(place, false, Some(error.clone()));
            self.queue_detached(place, false, Some(error), ClosedBy::Peer);
        }
    }

    fn add_link(&mut self, link: Link) -> u32 {
        if self.links.capacity() == 0 {
            self.links.reserve_exact(1);
        }
        let (role, name) = (link.role, Arc::clone(&link.name));
        let place = self.links.insert(link) as u32;
        self.names[role as usize].insert(name, place);
        place
    }

    /// A link that the peer attaches: for the driver to answer.
    pub(super) fn on_new_link(&mut self, index: u32, attach: Box<Attach>) -> Received {
        let place = self.links.vacant_key() as u32;
        let Some(session) = self.sessions.get_mut(index as usize) else { return Ok(None) };
        let Some(handle) = session.take_handle(place) else {
            let description = format!("attach: the peer's handle-max {} leaves no handle", session.remote_handle_max);
            return Err(Fault::session(index, condition::NOT_ALLOWED, description));
        };
        let too_long = attach.name.len() > NAME_MAX;
        let name = if too_long { Arc::from("") } else { Arc::from(attach.name.as_str()) };
        let mut link = Link::new(opposite(attach.role), index, handle, name);
        link.remote_handle = attach.handle;
        link.state = State::AttachReceived;
        match link.role {
            Role::Receiver => {
                link.start_counting(attach.initial_delivery_count.unwrap_or(0));
                link.offered = Offered::of(attach.source.as_deref());
            }
            Role::Sender => {
                link.count_from(self.config.first_id);
                link.limit_size(attach.max_message_size);
            }
        }
        let place = self.add_link(link);
        if let Some(session) = self.sessions.get_mut(index as usize) {
            session.links.insert(attach.handle, place);
        }
        self.unanswered = Some(place);
        let (link, session) = (LinkId(place), SessionId(index));
        if too_long {
            let description = format!("attach.name: more than {NAME_MAX} bytes");
            self.refuse(link, Error::new(condition::INVALID_FIELD, description));
        } else {
            self.queue_event(Event::Attach { link, session, attach });
        }
        Ok(None)
    }

    /// Answers `Event::Attach`: the link is up.
    pub fn accept(&mut self, link: LinkId, reply: AttachReply) {
        if self.unanswered != Some(link.0) {
            return;
        }
        if let Some(link) = self.links.get_mut(link.0 as usize) {
            link.snd_settle_mode = reply.snd_settle_mode;
            link.rcv_settle_mode = reply.rcv_settle_mode;
            match link.role {
                Role::Sender => link.default_outcome = default_outcome(reply.source.as_deref()),
                Role::Receiver => link.limit_size(reply.max_message_size),
            }
        }
        self.write_answer(link.0, reply);
    }

    /// Answers `Event::Attach` with an attach of null termini and a closing detach (2.6.3). The
    /// link's id becomes invalid; no event follows.
    pub fn refuse(&mut self, link: LinkId, error: Error) {
        if self.unanswered != Some(link.0) {
            return;
        }
        if let Some(link) = self.links.get_mut(link.0 as usize) {
            link.notified = true;
        }
        self.write_answer(link.0, AttachReply::default());
        self.write_detach(link.0, true, Some(error));
        self.forget_link(link.0);
    }

    fn write_answer(&mut self, place: u32, reply: AttachReply) {
        self.unanswered = None;
        let attach = Attach {
            name: String::new(),
            handle: 0,
            role: Role::Sender,
            snd_settle_mode: reply.snd_settle_mode,
            rcv_settle_mode: reply.rcv_settle_mode,
            source: reply.source,
            target: reply.target,
            unsettled: reply.unsettled,
            incomplete_unsettled: false,
            initial_delivery_count: None,
            max_message_size: reply.max_message_size,
            offered_capabilities: reply.offered_capabilities,
            desired_capabilities: reply.desired_capabilities,
            properties: reply.properties,
        };
        self.write_attach(place, attach);
    }

    /// Writes an attach; the machine fills in its own fields.
    fn write_attach(&mut self, place: u32, mut attach: Attach) {
        let Some(link) = self.links.get_mut(place as usize) else { return };
        let index = link.session;
        let Some(session) = self.sessions.get(index as usize) else { return };
        let Some(next) = link.state.after(Step::SentAttach) else { return };
        link.state = next;
        link.name.as_ref().clone_into(&mut attach.name);
        attach.handle = link.handle;
        attach.role = link.role;
        attach.initial_delivery_count = (link.role == Role::Sender).then_some(link.delivery_count);
        let channel = session.channel;
        if session.state.writes() && self.state.writes() {
            self.put_attach(index, channel, &mut attach);
        }
        if let Some(link) = self.links.get_mut(place as usize).filter(|link| link.role == Role::Receiver) {
            link.incomplete = attach.incomplete_unsettled;
            link.resumable = attach.unsettled.into_iter().flatten().map(|(tag, _)| tag.into()).collect();
        }
    }

    /// Attaches a link of our own; `handle` and the delivery-count are filled in.
    ///
    /// # Errors
    /// `NotOpen` if the session does not exist, `Limit` past the peer's handle-max.
    pub fn attach(&mut self, session: SessionId, attach: Attach) -> Result<LinkId, UseError> {
        let index = session.0;
        let session = self.sessions.get_mut(index as usize).filter(|session| session.state.writes());
        let session = session.filter(|_| self.state.writes()).ok_or(UseError::NotOpen)?;
        let handle = session.take_handle(self.links.vacant_key() as u32).ok_or(UseError::Limit)?;
        let mut link = Link::new(attach.role, index, handle, Arc::from(attach.name.as_str()));
        link.snd_settle_mode = attach.snd_settle_mode;
        link.rcv_settle_mode = attach.rcv_settle_mode;
        match attach.role {
            Role::Sender => {
                link.count_from(self.config.first_id);
                link.default_outcome = default_outcome(attach.source.as_deref());
            }
            Role::Receiver => link.limit_size(attach.max_message_size),
        }
        let place = self.add_link(link);
        self.write_attach(place, attach);
        Ok(LinkId(place))
    }

    /// Detaches a link; `Detach` follows with the peer's answer.
    pub fn detach(&mut self, link: LinkId, closed: bool, error: Option<Error>) {
        self.write_detach(link.0, closed, error);
    }

    /// Writes the pending output of the session, then a detach.
    pub(super) fn write_detach(&mut self, place: u32, closed: bool, error: Option<Error>) {
        let Some(link) = self.links.get(place as usize) else { return };
        let (index, handle) = (link.session, link.handle);
        let Some(next) = link.state.after(Step::SentDetach) else { return };
        self.set_held(LinkId(place), false);
        self.flush_session(index);
        if let Some(link) = self.links.get_mut(place as usize) {
            link.state = next;
        }
        let Some(session) = self.sessions.get_mut(index as usize) else { return };
        session.held.forget(place);
        if session.state.writes() && self.state.writes() {
            let channel = session.channel;
            self.put_detach(channel, handle, closed, error.as_ref());
        }
    }

    /// Frees the numbers of a link that both ends have detached.
    pub(super) fn unmap_link(&mut self, place: u32) {
        let Some(link) = self.links.get(place as usize) else { return };
        if let Some(session) = self.sessions.get_mut(link.session as usize) {
            session.links.remove(link.remote_handle);
            session.free_handle(link.handle);
        }
    }

    /// Queues the end of a link, unless it was already reported.
    pub(super) fn queue_detached(&mut self, place: u32, closed: bool, error: Option<Error>, by: ClosedBy) {
        self.queue_link_end(Event::Detach { link: LinkId(place), closed, error, by, ended: None }, place);
    }

    /// As `queue_detached`, with the event to queue.
    pub(super) fn queue_link_end(&mut self, event: Event<'static>, place: u32) {
        match self.links.get_mut(place as usize) {
            Some(link) if !link.notified => {
                link.notified = true;
                self.queue_event(event);
            }
            _ => self.forget_link(place),
        }
    }

    /// Forgets a link whose end was reported: its name and deliveries at once, its index when the
    /// peer has detached too.
    pub(super) fn forget_link(&mut self, place: u32) {
        self.partial.remove(&place);
        self.take_unsettled(LinkId(place), |_| {});
        let Some(link) = self.links.get(place as usize) else { return };
        let names = &mut self.names[link.role as usize];
        if names.get(&link.name) == Some(&place) {
            names.remove(&link.name);
        }
        if link.state == State::Detached {
            self.links.remove(place as usize);
        }
        if self.links.is_empty() {
            self.links = slab::Slab::new();
        }
    }

    fn receiver(&mut self, link: LinkId) -> Option<&mut Link> {
        self.links.get_mut(link.0 as usize).filter(|link| link.role == Role::Receiver && link.state.writes())
    }

    /// Receiving link: the sender may send `credit` deliveries from now on. Written at `flush`.
    pub fn grant(&mut self, link: LinkId, credit: u32) {
        if self.receiver(link).is_some_and(|link| link.grant(credit)) {
            self.mark_flow(link.0);
        }
    }

    /// Receiving link: asks the sender to use or return its credit (2.6.7). `Flow` answers, unless
    /// deliveries use all of it. Written at `flush`.
    pub fn drain(&mut self, link: LinkId) {
        if let Some(receiver) = self.receiver(link) {
            receiver.drain = true;
            self.mark_flow(link.0);
        }
    }

    /// Receiving link: closes the incoming window of its session while any link of the session is
    /// held. Written at `flush`.
    pub fn set_held(&mut self, link: LinkId, hold: bool) {
        let Some(link) = self.links.get_mut(link.0 as usize).filter(|link| link.held != hold) else { return };
        link.held = hold;
        let index = link.session;
        let Some(session) = self.sessions.get_mut(index as usize) else { return };
        if session.set_held(hold) {
            Self::mark_due(&mut self.due, index, session);
        }
    }

    /// The state of a link, for management; `None` if the link has ended.
    #[must_use]
    pub fn link_summary(&self, link: LinkId) -> Option<LinkSummary<'_>> {
        let link = self.links.get(link.0 as usize).filter(|link| !link.notified)?;
        Some(LinkSummary {
            name: &link.name,
            credit: link.credit,
            deliveries: link.counted(),
            unsettled: link.unsettled,
            outcomes: Some(link.outcomes),
        })
    }

    /// The session of a link.
    #[must_use]
    pub fn link_session(&self, link: LinkId) -> Option<SessionId> {
        self.links.get(link.0 as usize).map(|link| SessionId(link.session))
    }

    /// The links of a session, while the session is known: until the call of `poll_event` that
    /// follows its `End`.
    pub fn session_links(&self, session: SessionId) -> impl Iterator<Item = LinkId> {
        let session = self.sessions.get(session.0 as usize);
        session.into_iter().flat_map(Session::places).map(LinkId)
    }

    /// Receiving links on which a delivery has begun and not ended.
    pub fn receiving(&self) -> impl Iterator<Item = LinkId> {
        self.partial.iter().map(|place| LinkId(*place))
    }

    /// Sending link, after `Credit` with `drain`: returns what credit is left (2.6.7). Written at
    /// `flush`.
    pub fn drained(&mut self, link: LinkId) {
        if let Some(sender) = self.links.get_mut(link.0 as usize).filter(|link| link.sends()) {
            sender.return_credit();
            self.mark_flow(link.0);
        }
    }
}
