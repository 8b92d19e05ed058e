//! The connection machine: bytes and time in, events and bytes out (part 2 of the standard).
//!
//! A driver feeds `poll_event` until it returns `None`, answers what asks for an answer, calls `flush` at the
//! end of its turn and writes `output`. Both sides are here: a server waits for the peer's header, a client
//! speaks first; after `open` they are the same.

mod config;
mod event;

use std::sync::Arc;

pub use config::{Config, SaslPolicy};
pub use event::{AttachReply, ClosedBy, Event, Incoming, LinkId, Outgoing, SendError, SessionId, UseError};

use crate::time::Time;
use crate::types::{Attach, Error, Open, Outcome, SaslCode, SaslInit, Symbol};

/// One AMQP connection, either side.
pub struct Connection {
    #[expect(dead_code)]
    config: Arc<Config>,
    output: Vec<u8>,
}

#[expect(unused_variables)]
impl Connection {
    /// The accepting side of a connection.
    #[must_use]
    pub fn server(config: Arc<Config>, now: Time, sasl: SaslPolicy) -> Self {
        Self { config, output: Vec::new() }
    }

    /// The side that connects: with `sasl` the header of SASL goes out, else that of AMQP and `open` at once.
    /// `open`'s frame size, channel-max and idle-time-out are replaced by those of `config`.
    #[must_use]
    pub fn client(config: Arc<Config>, now: Time, sasl: bool, open: Open) -> Self {
        Self { config, output: Vec::new() }
    }

    /// Consumes whole frames from the front of `input` until there is an event to report or no whole frame is
    /// left, or the driver owes an answer. The driver keeps what is left of `input` for the next call.
    #[inline]
    pub fn poll_event<'a>(&mut self, now: Time, input: &mut &'a [u8]) -> Option<Event<'a>> {
        None
    }

    /// Bytes to be written. The driver takes them off the front.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// When to call `handle_timeout`, if nothing else happens.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Sends a heartbeat that is due, or gives up on a silent peer: then `poll_event` returns `Closed`.
    pub fn handle_timeout(&mut self, now: Time) {}

    /// End of the driver's turn: writes the dispositions and flows that were put together.
    pub fn flush(&mut self, now: Time) {}

    /// Server, before the first input: the mechanisms offered, strongest first.
    pub fn sasl_mechanisms(&mut self, mechanisms: &[Symbol]) {}

    /// Server: the answer to `SaslInit` or `SaslResponse`, if there is more to ask.
    pub fn sasl_challenge(&mut self, challenge: Vec<u8>) {}

    /// Server: the verdict. Unless it is `Ok`, the connection is over and `Closed` follows.
    pub fn sasl_outcome(&mut self, code: SaslCode, additional_data: Option<Vec<u8>>) {}

    /// Client: the answer to `SaslMechanisms`.
    pub fn sasl_init(&mut self, init: SaslInit) {}

    /// Client: the answer to `SaslChallenge`.
    pub fn sasl_response(&mut self, response: Vec<u8>) {}

    /// Server: the answer to `Open`. Frame size, channel-max and idle-time-out are replaced by those of
    /// `Config`.
    pub fn open(&mut self, open: Open) {}

    /// Ends the connection: `Closed` follows with the peer's `close`, or when that does not come in time.
    pub fn close(&mut self, error: Option<Error>) {}

    /// Begins a session; frames on it may follow at once.
    ///
    /// # Errors
    /// `NotOpen` before the AMQP layer has begun (with SASL: before the `SaslOutcome`), `Limit` past `channel-max`.
    pub fn begin(&mut self) -> Result<SessionId, UseError> {
        Err(UseError::NotOpen)
    }

    /// Ends a session and its links: `Detach` of each and `End` follow.
    pub fn end(&mut self, session: SessionId, error: Option<Error>) {}

    /// Attaches a link of our own; `handle` is filled in.
    ///
    /// # Errors
    /// `NotOpen` if the session is not there, `Limit` past `handle-max`.
    pub fn attach(&mut self, session: SessionId, attach: Attach) -> Result<LinkId, UseError> {
        Err(UseError::NotOpen)
    }

    /// Answers `Event::Attach`: the link is up.
    pub fn accept(&mut self, link: LinkId, reply: AttachReply) {}

    /// Answers `Event::Attach` with an attach of null terminus and a closing detach (2.6.3). The link's id is
    /// gone; no event follows.
    pub fn refuse(&mut self, link: LinkId, error: Error) {}

    /// Detaches a link; `Detach` follows with the peer's answer.
    pub fn detach(&mut self, link: LinkId, closed: bool, error: Option<Error>) {}

    /// Receiving link: the sender may send `credit` deliveries from now on. Written at `flush`.
    pub fn grant(&mut self, link: LinkId, credit: u32) {}

    /// Receiving link: asks the sender to use its credit up or give it back (2.6.7); `Flow` answers.
    pub fn drain(&mut self, link: LinkId) {}

    /// Receiving link: the outcome of a delivery. Written at `flush`, in ranges.
    #[inline]
    pub fn settle(&mut self, link: LinkId, delivery_id: u32, outcome: &Outcome) {}

    /// Receiving link: closes the incoming window of its session while any link of the session is held.
    pub fn hold(&mut self, link: LinkId, hold: bool) {}

    /// Sending link: how many deliveries it may begin now. 0 without credit, while its session's window is
    /// closed or its unsettled deliveries are at their bound, and within a delivery of its own.
    #[inline]
    #[must_use]
    pub fn sendable(&self, link: LinkId) -> u32 {
        0
    }

    /// Sending link: whether the next piece of the delivery in progress may be handed in.
    #[inline]
    #[must_use]
    pub fn continuable(&self, link: LinkId) -> bool {
        false
    }

    /// Sending link: writes a piece of a delivery. Frames of one piece that the session's window has no room for
    /// are kept and written when it opens.
    ///
    /// # Errors
    /// Says why nothing was taken.
    #[inline]
    pub fn transfer(&mut self, link: LinkId, piece: Outgoing<'_>) -> Result<(), SendError> {
        Err(SendError::NotAttached)
    }

    /// Sending link, after `Credit` with `drain`: gives back what credit is left (2.6.7).
    pub fn drained(&mut self, link: LinkId) {}

    /// Takes each delivery of ours in `first..=last` out of the unsettled ones: `f(link, token)`, in order of ids.
    /// With `settled` false the peer is told that we settled them.
    pub fn take_settled(
        &mut self,
        session: SessionId,
        first: u32,
        last: u32,
        settled: bool,
        f: impl FnMut(LinkId, u64),
    ) {
    }

    /// Takes all unsettled deliveries of a link, in order of ids.
    pub fn take_unsettled(&mut self, link: LinkId, f: impl FnMut(u64)) {}

    /// The links there are.
    pub fn links(&self) -> impl Iterator<Item = LinkId> {
        std::iter::empty()
    }
}
