//! Frames of the peer, decoded and passed to their endpoints (2.3, 2.7).

use super::fault::Fault;
use super::state::{Sasl, State};
use super::{ClosedBy, Connection, Event, LinkId, SessionId};
use crate::codec::frame::{Frame, FrameKind};
use crate::codec::{decode_performative, fast};
use crate::link::state::{State as LinkState, Step as LinkStep};
use crate::link::{Link, Offered};
use crate::session::state::{State as SessionState, Step as SessionStep};
use crate::types::{Attach, Begin, Detach, Error, Flow, Performative, Role, condition};

/// Property of a flow that requests that deliveries be acquired within a transaction (4.4.3).
const TXN_ID: &str = "txn-id";

/// The result of a frame: an event, nothing to report, or a violation.
pub(super) type Received = Result<Option<Event<'static>>, Box<Fault>>;

impl Connection {
    /// Handles any frame but a transfer on an open connection, which is for `on_transfer`.
    #[inline(never)]
    pub(super) fn on_frame<'a>(
        &mut self,
        Frame { kind, channel, body }: Frame<'a>,
    ) -> Result<Option<Event<'a>>, Box<Fault>> {
        match kind {
            FrameKind::Sasl if self.sasl != Sasl::Off => return self.on_sasl(body),
            FrameKind::Amqp if self.sasl == Sasl::Off => {}
            kind => {
                let description = format!("{kind:?} frame outside of its layer");
                return Err(Fault::connection(condition::FRAMING_ERROR, description));
            }
        }
        if body.is_empty() {
            return Ok(None);
        }
        if self.state == State::Opened {
            if fast::is_disposition(body) {
                return self.on_disposition(channel, &fast::disposition(body)?);
            }
            if fast::is_flow(body) {
                return self.on_flow(channel, &mut fast::flow(body)?);
            }
        }
        match decode_performative(body)?.0 {
            // A transfer whose descriptor has an unusual encoding.
            Performative::Transfer(_) if self.state == State::Opened => {
                self.on_transfer(channel, &fast::transfer(body))
            }
            performative => self.on_performative(channel, performative, body),
        }
    }

    fn on_performative(&mut self, channel: u16, performative: Performative, body: &[u8]) -> Received {
        match performative {
            Performative::Open(open) => return self.on_open(channel, open),
            Performative::Close(close) => return self.on_close(close.error),
            _ if self.state.closing() => return Ok(None),
            _ if self.state != State::Opened => {
                return Err(Fault::connection(condition::ILLEGAL_STATE, "the first frame must be an open"));
            }
            _ => {}
        }
        match performative {
            Performative::Begin(begin) => self.on_begin(channel, &begin),
            Performative::Attach(attach) => self.on_attach(channel, attach),
            Performative::Flow(mut flow) => self.on_flow(channel, &mut flow),
            Performative::Disposition(_) => self.on_disposition(channel, &fast::disposition(body)?),
            Performative::Detach(detach) => self.on_detach(channel, detach),
            Performative::End(end) => self.on_end(channel, end.error),
            Performative::Transfer(_) | Performative::Open(_) | Performative::Close(_) => Ok(None),
        }
    }

    /// The session of a channel. `None`: its frames are dropped, because it has ended on our side.
    pub(super) fn session_of(&self, channel: u16, what: &str) -> Result<Option<u32>, Box<Fault>> {
        let session = self.channels.get(u32::from(channel));
        let state = session.and_then(|index| self.sessions.get(index as usize)).map(|session| session.state);
        match (session, state) {
            (Some(index), Some(SessionState::Mapped)) => Ok(Some(index)),
            (Some(_), Some(_)) => Ok(None),
            _ => Err(Fault::connection(
                condition::ILLEGAL_STATE,
                format!("{what} on channel {channel} without a session"),
            )),
        }
    }

    fn on_begin(&mut self, channel: u16, begin: &Begin) -> Received {
        if channel > self.config.channel_max {
            let description = format!("begin on channel {channel}: channel-max is {}", self.config.channel_max);
            return Err(Fault::connection(condition::FRAMING_ERROR, description));
        }
        if self.channels.get(u32::from(channel)).is_some() {
            let description = format!("begin on channel {channel}, which already has a session");
            return Err(Fault::connection(condition::ILLEGAL_STATE, description));
        }
        let index = match begin.remote_channel {
            None => self.new_session()?,
            Some(ours) => self.begun_session(ours)?,
        };
        let Some(session) = self.sessions.get_mut(index as usize) else { return Ok(None) };
        self.channels.insert(u32::from(channel), index);
        session.begun(channel, begin);
        session.state.take(SessionStep::ReceivedBegin).map_err(|error| Fault::Session(index, error))?;
        match session.state {
            SessionState::BeginReceived => self.write_begin(index),
            SessionState::Mapped => {}
            _ => return Ok(None),
        }
        Ok(Some(Event::Begin(SessionId(index))))
    }

    /// The session of ours that a begin of the peer answers.
    fn begun_session(&self, channel: u16) -> Result<u32, Box<Fault>> {
        let waits = |session: &&crate::session::Session| {
            matches!(session.state, SessionState::BeginSent | SessionState::BeginEndSent)
        };
        if self.sessions.get(usize::from(channel)).filter(waits).is_none() {
            let description = format!("begin.remote-channel: {channel} names no session with a pending begin");
            return Err(Fault::connection(condition::INVALID_FIELD, description));
        }
        Ok(u32::from(channel))
    }

    fn on_attach(&mut self, channel: u16, attach: Box<Attach>) -> Received {
        let Some(index) = self.session_of(channel, "attach")? else { return Ok(None) };
        let Some(session) = self.sessions.get(index as usize) else { return Ok(None) };
        let handle = attach.handle;
        if handle > self.config.handle_max {
            let description = format!("attach.handle: {handle} is above the handle-max {}", self.config.handle_max);
            return Err(Fault::connection(condition::FRAMING_ERROR, description));
        }
        if session.links.get(handle).is_some() {
            let description = format!("attach.handle: {handle} is in use by another link");
            return Err(Fault::session(index, condition::HANDLE_IN_USE, description));
        }
        if let Some(place) = self.link_named(&attach) {
            let answers = |link: &Link| {
                link.session == index && matches!(link.state, LinkState::AttachSent | LinkState::AttachDetachSent)
            };
            if self.links.get(place as usize).is_some_and(answers) {
                return self.on_attach_answer(place, attach);
            }
            self.steal(place);
        }
        self.on_new_link(index, attach)
    }

    /// The peer's end of a link that we attached.
    fn on_attach_answer(&mut self, place: u32, attach: Box<Attach>) -> Received {
        let Some(link) = self.links.get_mut(place as usize) else { return Ok(None) };
        let Some(session) = self.sessions.get_mut(link.session as usize) else { return Ok(None) };
        session.links.insert(attach.handle, place);
        link.remote_handle = attach.handle;
        link.state.take(LinkStep::ReceivedAttach).map_err(|error| Fault::Link(place, error))?;
        match link.role {
            Role::Receiver => {
                link.start_counting(attach.initial_delivery_count.unwrap_or(0));
                link.offered = Offered::of(attach.source.as_deref());
            }
            Role::Sender => link.limit_size(attach.max_message_size),
        }
        link.snd_settle_mode = attach.snd_settle_mode;
        link.rcv_settle_mode = attach.rcv_settle_mode;
        if link.state != LinkState::Attached {
            return Ok(None);
        }
        Ok(Some(Event::Attached { link: LinkId(place), attach }))
    }

    fn on_flow(&mut self, channel: u16, flow: &mut Flow) -> Received {
        let Some(index) = self.session_of(channel, "flow")? else { return Ok(None) };
        let Some(session) = self.sessions.get_mut(index as usize) else { return Ok(None) };
        let opened = session.flow(flow, &mut self.output).map_err(|error| Box::new(Fault::Session(index, error)))?;
        let Some(handle) = flow.handle else {
            if flow.echo {
                session.request_flow();
                Self::mark_due(&mut self.due, index, session);
            }
            self.queue_window_reopened(index, opened, None);
            return Ok(None);
        };
        let Some(place) = session.links.get(handle) else {
            let description = format!("flow.handle: {handle} is not attached");
            return Err(Fault::session(index, condition::UNATTACHED_HANDLE, description));
        };
        self.queue_window_reopened(index, opened, Some(place));
        self.on_link_flow(place, flow)
    }

    /// The link part of a flow.
    fn on_link_flow(&mut self, place: u32, flow: &mut Flow) -> Received {
        let link = self.links.get_mut(place as usize).filter(|link| link.state == LinkState::Attached);
        let Some(link) = link else { return Ok(None) };
        let id = LinkId(place);
        let event = match link.role {
            Role::Sender if flow.properties.iter().any(|(name, _)| name.as_str() == TXN_ID) => {
                let description = "flow.properties: txn-id asks for transactional acquisition; acknowledge in the \
                                   transaction instead";
                return Err(Fault::link(place, condition::NOT_IMPLEMENTED, description));
            }
            Role::Sender => {
                link.receiver_flow(flow);
                Event::Credit { link: id, credit: link.credit, drain: link.drain }
            }
            Role::Receiver => {
                link.sender_flow(flow);
                let properties = std::mem::take(&mut flow.properties);
                let drain = flow.drain && link.drain && link.credit == 0;
                link.drain &= !drain;
                Event::Flow { link: id, credit: link.credit, available: flow.available, drain, properties }
            }
        };
        if flow.echo {
            self.mark_flow(place);
        }
        Ok(Some(event))
    }

    /// Queues the reopening of a session's window for its sending links; `except` gets another
    /// event anyway.
    fn queue_window_reopened(&mut self, index: u32, opened: bool, except: Option<u32>) {
        let Some(session) = self.sessions.get(index as usize).filter(|_| opened) else { return };
        for place in session.links.places().filter(|place| Some(*place) != except) {
            let sends = |link: &&Link| link.sends() && (link.credit > 0 || link.delivery.in_progress);
            if let Some(link) = self.links.get(place as usize).filter(sends) {
                let event = Event::Credit { link: LinkId(place), credit: link.credit, drain: link.drain };
                self.events.push_back(event);
                self.pending_work = true;
            }
        }
    }

    fn on_detach(&mut self, channel: u16, detach: Detach) -> Received {
        let Some(index) = self.session_of(channel, "detach")? else { return Ok(None) };
        let place = self.sessions.get(index as usize).and_then(|session| session.links.get(detach.handle));
        let Some(place) = place else {
            let description = format!("detach.handle: {} is not attached", detach.handle);
            return Err(Fault::session(index, condition::UNATTACHED_HANDLE, description));
        };
        let Some(link) = self.links.get_mut(place as usize) else { return Ok(None) };
        // A peer may detach before its attach is answered: the link ends with the driver's answer.
        if link.state != LinkState::AttachReceived {
            link.state.take(LinkStep::ReceivedDetach).map_err(|error| Fault::Link(place, error))?;
        }
        let mut by = ClosedBy::Local;
        if link.state == LinkState::DetachReceived {
            by = ClosedBy::Peer;
            self.write_detach(place, detach.closed, None);
        }
        self.unmap_link(place);
        self.queue_detached(place, detach.closed, detach.error, by);
        Ok(None)
    }

    fn on_end(&mut self, channel: u16, error: Option<Error>) -> Received {
        let index = self.channels.get(u32::from(channel));
        let Some((index, session)) = index.and_then(|i| Some((i, self.sessions.get_mut(i as usize)?))) else {
            let description = format!("end on channel {channel} without a session");
            return Err(Fault::connection(condition::ILLEGAL_STATE, description));
        };
        session.state.take(SessionStep::ReceivedEnd).map_err(|error| Fault::Session(index, error))?;
        let mut by = ClosedBy::Local;
        if session.state == SessionState::EndReceived {
            by = ClosedBy::Peer;
            self.write_end(index, None, SessionStep::SentEnd);
        }
        self.channels.remove(u32::from(channel));
        self.queue_ended(index, error, by);
        Ok(None)
    }

    /// Answers a violation at its endpoint.
    #[cold]
    pub(super) fn fail(&mut self, fault: Fault) {
        match fault {
            Fault::Link(place, error) => {
                self.write_detach(place, true, Some(error.clone()));
                self.queue_detached(place, true, Some(error), ClosedBy::Local);
            }
            Fault::Session(index, error) => {
                self.write_end(index, Some(&error), SessionStep::Failed);
                self.queue_ended(index, Some(error), ClosedBy::Local);
            }
            Fault::Connection(error) => self.abandon(error, ClosedBy::Local),
        }
    }
}
