//! The driver's calls for sessions: begin and end (2.5).

use super::fault::Fault;
use super::{ClosedBy, Connection, Event, LinkId, SessionId, UseError};
use crate::codec::encode_begin;
use crate::link::state::State as LinkState;
use crate::session::Session;
use crate::session::state::{State, Step};
use crate::types::{Error, condition};

impl Connection {
    /// Begins a session; frames on it may follow at once.
    ///
    /// # Errors
    /// `NotOpen` before the AMQP layer has begun (with SASL: before the `SaslOutcome`), `Limit`
    /// past `channel-max`.
    pub fn begin(&mut self) -> Result<SessionId, UseError> {
        if !self.state.writes() {
            return Err(UseError::NotOpen);
        }
        let index = self.add_session().ok_or(UseError::Limit)?;
        self.write_begin(index);
        Ok(SessionId(index))
    }

    /// A session that the peer begins.
    pub(super) fn new_session(&mut self) -> Result<u32, Box<Fault>> {
        self.add_session().ok_or_else(|| {
            let description = format!("begin: the peer's channel-max {} leaves no channel", self.remote_channel_max);
            Fault::connection(condition::NOT_ALLOWED, description)
        })
    }

    /// Adds a session with the lowest free channel; `None` if the peer's channel-max is reached.
    fn add_session(&mut self) -> Option<u32> {
        let place = self.sessions.vacant_key();
        let channel = u16::try_from(place).ok().filter(|channel| *channel <= self.remote_channel_max)?;
        if self.sessions.capacity() == 0 {
            self.sessions.reserve_exact(1);
        }
        Some(self.sessions.insert(Session::new(channel, &self.config)) as u32)
    }

    pub(super) fn write_begin(&mut self, index: u32) {
        let Some(session) = self.sessions.get_mut(index as usize) else { return };
        encode_begin(&mut self.output, session.channel, &session.begin(&self.config));
        let begun = session.state.take(Step::SentBegin);
        debug_assert!(begun.is_ok(), "a session begins once: {begun:?}");
    }

    /// Ends a session and its links: `Detach` of each and `End` follow with the peer's answer.
    pub fn end(&mut self, session: SessionId, error: Option<Error>) {
        self.write_end(session.0, error.as_ref(), Step::SentEnd);
    }

    /// Writes the pending output of the session, then its end.
    pub(super) fn write_end(&mut self, index: u32, error: Option<&Error>, step: Step) {
        self.flush_session(index);
        let Some(session) = self.sessions.get_mut(index as usize) else { return };
        let Some(next) = session.state.after(step) else { return };
        session.state = next;
        let channel = session.channel;
        if self.state.writes() {
            self.put_end(channel, error);
        }
    }

    /// Queues the end of a session, after each of its links.
    pub(super) fn queue_ended(&mut self, index: u32, error: Option<Error>, by: ClosedBy) {
        let places: Vec<u32> =
            self.sessions.get(index as usize).map(|session| session.places().collect()).unwrap_or_default();
        for place in places {
            if let Some(link) = self.links.get_mut(place as usize) {
                link.state = LinkState::Detached;
            }
            let (link, ended) = (LinkId(place), Some(SessionId(index)));
            self.queue_link_end(Event::Detach { link, closed: false, error: None, by, ended }, place);
        }
        match self.sessions.get_mut(index as usize) {
            Some(session) if !session.notified => {
                session.notified = true;
                self.queue_event(Event::End { session: SessionId(index), error });
            }
            _ => self.forget_session(index),
        }
    }

    /// Removes a session once its end was reported and the peer has sent its end. Pending output of
    /// its links is dropped at once.
    pub(super) fn forget_session(&mut self, index: u32) {
        let Some(session) = self.sessions.get_mut(index as usize) else { return };
        if session.state == State::Unmapped {
            self.sessions.remove(index as usize);
        } else {
            session.forget(&self.config);
        }
        if self.sessions.is_empty() {
            self.sessions = slab::Slab::new();
        }
    }
}
