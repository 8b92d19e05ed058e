//! The connection machine: bytes and time in, events and bytes out (part 2 of the standard).
//!
//! A driver calls `poll_event` until it returns `None`, answers the events that need an answer,
//! calls `flush` at the end of its turn and writes `output`. A server waits for the peer's header
//! and a client sends first; after `open` both sides are the same.
//!
//! `handshake` opens and closes the connection, `receive` decodes frames, `sessions` and `links`
//! carry out the driver's calls, `transfers` is the hot path both ways, `settlement` the way back,
//! `timers` the time-outs. `state` holds the tables.

mod event;
mod fault;
mod fitting;
mod handshake;
mod links;
mod receive;
mod sessions;
mod settlement;
mod state;
mod timers;
mod transfers;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

pub use crate::link::OutcomeCounts;
pub use event::{
    AttachReply, ClosedBy, Event, Incoming, LinkId, LinkSummary, Outgoing, SendError, SessionId, Tag, UseError,
};
use fault::Fault;
use slab::Slab;
use state::{Sasl, State};
use timers::Timers;

use crate::codec::frame::{self, Frame, FrameKind, MIN_MAX_FRAME_SIZE};
use crate::codec::{encode_flow, fast};
pub use crate::config::{Config, SaslPolicy};
use crate::link::Link;
use crate::session::Session;
use crate::slots::Slots;
use crate::time::Time;
use crate::types::{Open, Role};

/// One AMQP connection, either side.
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    output: Vec<u8>,
    /// work precedes reading the next frame: see `prepare_for_frame`
    pending_work: bool,
    state: State,
    sasl: Sasl,
    /// bytes of the largest frame that is taken now
    max_frame_size: u32,
    /// bytes of the largest frame that the peer takes
    remote_max_frame_size: usize,
    remote_channel_max: u16,
    /// by our channel
    sessions: Slab<Session>,
    /// by the peer's channel
    channels: Slots,
    links: Slab<Link>,
    /// receiving links on which a delivery has begun and not ended
    partial: BTreeSet<u32>,
    /// sessions with something to write at the end of the turn, each once
    due: Vec<u32>,
    timers: Timers,
    /// events to return before anything more is read
    events: VecDeque<Event<'static>>,
    /// an ended link or session that was reported; the next `poll_event` forgets it
    reported_end: Option<Ended>,
    /// the attach that the driver has not answered
    unanswered: Option<u32>,
    /// `Closed` was reported to the driver
    closed_reported: bool,
    /// links by their name, as our end sends or receives
    names: [HashMap<Arc<str>, u32>; 2],
    /// state needed only before `open`
    handshake: Option<Box<handshake::Handshake>>,
}

#[derive(Clone, Copy, Debug)]
enum Ended {
    Link(u32),
    Session(u32),
}

/// Work before reading a frame.
enum PendingWork {
    Event(Event<'static>),
    Wait,
    Read,
}

impl Connection {
    /// The accepting side of a connection.
    #[must_use]
    pub fn server(config: Arc<Config>, now: Time, sasl: SaslPolicy) -> Self {
        Self::new(config, now, handshake::Handshake::server(sasl))
    }

    /// The side that connects. With `sasl` it sends the header of SASL, else that of AMQP and
    /// `open` at once. `open`'s frame size, channel-max and idle-time-out are replaced by those of
    /// `config`.
    #[must_use]
    pub fn client(config: Arc<Config>, now: Time, sasl: bool, open: Open) -> Self {
        let mut connection = Self::new(config, now, handshake::Handshake::client(open));
        connection.write_first_header(sasl);
        connection
    }

    fn new(config: Arc<Config>, now: Time, handshake: handshake::Handshake) -> Self {
        Self {
            output: Vec::new(),
            pending_work: true,
            state: State::Start,
            sasl: Sasl::Off,
            max_frame_size: config.frame_limit().min(handshake::FRAME_MAX),
            remote_max_frame_size: MIN_MAX_FRAME_SIZE as usize,
            remote_channel_max: u16::MAX,
            sessions: Slab::new(),
            channels: Slots::default(),
            links: Slab::new(),
            partial: BTreeSet::new(),
            due: Vec::new(),
            timers: Timers::new(&config, now),
            events: VecDeque::new(),
            reported_end: None,
            unanswered: None,
            closed_reported: false,
            names: [HashMap::new(), HashMap::new()],
            handshake: Some(Box::new(handshake)),
            config,
        }
    }

    /// Consumes whole frames from the front of `input` until there is an event to report or no
    /// whole frame is left, or the driver must answer first. The driver keeps the rest of `input`
    /// for the next call.
    pub fn poll_event<'a>(&mut self, now: Time, input: &mut &'a [u8]) -> Option<Event<'a>> {
        self.timers.now = now;
        loop {
            if self.pending_work {
                match self.prepare_for_frame(input) {
                    PendingWork::Event(event) => return Some(event),
                    PendingWork::Wait => return None,
                    PendingWork::Read => {}
                }
            }
            let bytes: &'a [u8] = input;
            let Frame { kind, channel, body } = match frame::split(bytes, self.max_frame_size) {
                Ok(Some((frame, length))) => {
                    *input = &bytes[length..];
                    self.timers.received = now;
                    frame
                }
                Ok(None) => return None,
                Err(error) => {
                    self.fail(Fault::Connection(error.into()));
                    continue;
                }
            };
            if !self.pending_work
                && kind == FrameKind::Amqp
                && let Some(fields) = fast::transfer_fields(body)
            {
                match self.on_transfer(channel, &fast::transfer_of(fields)) {
                    Ok(Some(event)) => return Some(event),
                    Ok(None) => {}
                    Err(fault) => self.fail(*fault),
                }
            } else {
                match self.on_frame(Frame { kind, channel, body }) {
                    Ok(Some(event)) => return Some(event),
                    Ok(None) => {}
                    Err(fault) => self.fail(*fault),
                }
            }
        }
    }

    /// Work before the next frame is read.
    #[cold]
    fn prepare_for_frame(&mut self, input: &mut &[u8]) -> PendingWork {
        match self.reported_end.take() {
            Some(Ended::Link(link)) => self.forget_link(link),
            Some(Ended::Session(session)) => self.forget_session(session),
            None => {}
        }
        if let Some(event) = self.events.pop_front() {
            match &event {
                Event::Detach { link, .. } => self.reported_end = Some(Ended::Link(link.0)),
                Event::End { session, .. } => self.reported_end = Some(Ended::Session(session.0)),
                Event::Closed { .. } => self.closed_reported = true,
                _ => {}
            }
            return PendingWork::Event(event);
        }
        self.events = VecDeque::new();
        if self.closed_reported {
            *input = &[];
            return PendingWork::Wait;
        }
        let unanswered = self.unanswered.is_some() && !self.state.closing();
        if unanswered || self.state == State::OpenReceived || self.sasl.awaits_driver() {
            return PendingWork::Wait;
        }
        if self.awaits_header() {
            return match self.read_header(input) {
                true => self.prepare_for_frame(input),
                false => PendingWork::Wait,
            };
        }
        self.pending_work = self.state != State::Opened;
        PendingWork::Read
    }

    /// Queues an event; it is returned before anything more is read.
    fn queue_event(&mut self, event: Event<'static>) {
        self.events.push_back(event);
        self.pending_work = true;
    }

    /// Bytes to write. The driver removes them from the front.
    #[inline]
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// End of the driver's turn: writes the collected dispositions and flows.
    pub fn flush(&mut self, now: Time) {
        self.timers.now = now;
        while let Some(index) = self.due.pop() {
            if let Some(session) = self.sessions.get_mut(index as usize) {
                session.due = false;
                self.flush_session(index);
            }
        }
        if !self.output.is_empty() {
            self.timers.sent = now;
        }
    }

    /// Writes the pending output of a session: dispositions before flows, so that a sender learns
    /// the outcomes of its deliveries before it gets new credit.
    fn flush_session(&mut self, index: u32) {
        let Some(session) = self.sessions.get_mut(index as usize) else { return };
        if !session.state.writes() || !self.state.writes() {
            session.due_links.clear();
            return;
        }
        let (channel, output, max) = (session.channel, &mut self.output, self.remote_max_frame_size);
        session.received.take(|first, last, state, settled| {
            fitting::disposition(output, max, channel, Role::Receiver, (first, last), settled, state);
        });
        session.sent.take(|first, last, state, settled| {
            fitting::disposition(output, max, channel, Role::Sender, (first, last), settled, state);
        });
        while let Some(place) = session.due_links.pop() {
            let Some(link) = self.links.get_mut(place as usize).filter(|link| link.session == index) else { continue };
            if std::mem::take(&mut link.flow_due) && link.state.writes() {
                let mut flow = session.flow_state();
                link.fill_flow(&mut flow);
                encode_flow(output, channel, &flow);
            }
        }
        if session.take_flow_due() {
            encode_flow(output, channel, &session.flow_state());
        }
    }

    /// Adds a session to the list of those to flush.
    #[inline]
    fn mark_due(due: &mut Vec<u32>, index: u32, session: &mut Session) {
        if !session.due {
            session.due = true;
            due.push(index);
        }
    }

    /// Marks the flow of a link as due at the next flush.
    fn mark_flow(&mut self, place: u32) {
        let Some(link) = self.links.get_mut(place as usize) else { return };
        let Some(session) = self.sessions.get_mut(link.session as usize) else { return };
        if !link.flow_due {
            link.flow_due = true;
            session.due_links.push(place);
        }
        Self::mark_due(&mut self.due, link.session, session);
    }

    /// All links.
    pub fn links(&self) -> impl Iterator<Item = LinkId> {
        self.links.iter().filter(|(_, link)| !link.notified).map(|(place, _)| LinkId(place as u32))
    }

    /// Releases memory that a burst of work had needed.
    fn trim(&mut self) {
        self.due.shrink_to_fit();
        self.sessions.shrink_to_fit();
        self.links.shrink_to_fit();
        for names in &mut self.names {
            names.shrink_to_fit();
        }
        if self.output.is_empty() {
            self.output = Vec::new();
        }
        for (_, session) in &mut self.sessions {
            session.trim();
        }
    }
}
