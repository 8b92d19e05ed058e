//! The server's end of a network connection: bytes and time in, events and bytes out.
//!
//! A driver calls `poll_event` until it returns `None`, answers the events that need an answer,
//! and writes `output`. Packets are answered at once where no decision of the driver is necessary
//! (PINGREQ, duplicates, unknown packet identifiers).
//!
//! `handshake` is about CONNECT and AUTH, `receive` decodes packets, `answers` carries out the
//! driver's answers, `sending` its messages, `closing` the end, `timers` the time-outs. `state`
//! holds the tables.
//!
//! # Resume
//! `accept` takes the `InFlight` of the session. The driver then calls, in the order of the list
//! [5: 4.4.0-1, 4.6.0-1], `send_reserved` with DUP for deliveries that are `Published` and
//! `release` for those that are `Received`, before any new delivery.
//!
//! # Durable sessions
//! For a promise that holds across a crash, the driver stores: packet identifier and message before
//! `send_reserved` (`reserve` gives the identifier in advance), the identifier of a QoS 2 message
//! together with the message before `answer_publish`, and progress before `release` and `complete`.
//! After `retain_identifiers`, one of a complete delivery with QoS 2 is used again after `reuse`
//! only: its removal is stored by then.

mod alias;
mod answers;
mod closing;
mod config;
mod deliveries;
mod event;
mod handshake;
mod receive;
mod requests;
mod sending;
mod state;
mod timers;

use std::sync::Arc;

use alias::{IncomingAliases, OutgoingAliases};
pub use config::Config;
use deliveries::Deliveries;
pub use event::{
    Accept, AnswerError, Closed, ClosedBy, Event, InFlight, Incoming, Outgoing, OutgoingDelivery, SendError, Stage,
    TopicName,
};
use requests::Requests;
use state::{Reauthentication, State};
use timers::Timers;

use crate::codec::{Version, fixed};
use crate::time::Time;

/// One network connection of a client.
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    output: Vec<u8>,
    state: State,
    /// of CONNECT; 3.1.1 before
    version: Version,
    /// bytes of the largest packet that is taken now
    packet_size_max_bytes: u32,
    /// bytes of the largest packet that the client takes
    remote_size_max_bytes: u32,
    /// the client wants reason strings
    problem_information: bool,
    deliveries: Deliveries,
    /// packet identifiers of QoS 2 stay in use after PUBCOMP until `reuse`
    retains_identifiers: bool,
    requests: Requests,
    incoming_aliases: IncomingAliases,
    outgoing_aliases: OutgoingAliases,
    timers: Timers,
    /// of the client's CONNECT or our answer, in seconds
    session_expiry_s: u32,
    reauthentication: Reauthentication,
    /// method of the enhanced authentication
    authentication_method: Option<Box<str>>,
    /// what CONNECT asked for and CONNACK answers
    wants_response_information: bool,
    /// the end, until it is reported
    closed: Option<Box<Closed>>,
}

impl Connection {
    /// A connection on which nothing was received yet.
    #[must_use]
    pub fn new(config: Arc<Config>, now: Time) -> Self {
        Self {
            output: Vec::new(),
            state: State::AwaitConnect,
            version: Version::V311,
            packet_size_max_bytes: config.connect_size_max_bytes,
            remote_size_max_bytes: u32::MAX,
            problem_information: true,
            deliveries: Deliveries::default(),
            retains_identifiers: false,
            requests: Requests::default(),
            incoming_aliases: IncomingAliases::default(),
            outgoing_aliases: OutgoingAliases::default(),
            timers: Timers::new(&config, now),
            session_expiry_s: 0,
            reauthentication: Reauthentication::Idle,
            authentication_method: None,
            wants_response_information: false,
            closed: None,
            config,
        }
    }

    /// Consumes whole packets from the front of `input` until there is an event to report or no
    /// whole packet is left, or the driver must answer or write `output` first. The driver keeps
    /// the rest of `input` for the next call; `wanted_bytes` says how long the next packet is.
    pub fn poll_event<'a>(&mut self, now: Time, input: &mut &'a [u8]) -> Option<Event<'a>> {
        self.timers.now = now;
        loop {
            if self.state == State::Ended {
                *input = &[];
                return self.closed.take().map(|closed| Event::Closed(*closed));
            }
            if !self.may_read() {
                return None;
            }
            let bytes: &'a [u8] = input;
            let received = match fixed::split(bytes, self.packet_size_max_bytes) {
                Ok(Some((frame, length))) => {
                    *input = &bytes[length..];
                    self.timers.received = now;
                    self.on_frame(&frame)
                }
                Ok(None) => match self.check_first_byte(bytes) {
                    Ok(()) => return None,
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            match received {
                Ok(Some(event)) => return Some(event),
                Ok(None) => {}
                Err(error) => self.violation(error),
            }
        }
    }

    /// Whether the next packet may be read: not while the driver owes an answer, nor while output
    /// waits to be written.
    #[inline]
    fn may_read(&mut self) -> bool {
        let owed = self.owes_answer();
        self.timers.set_owed(owed);
        !owed && self.output.len() < self.config.output_max_bytes
    }

    /// Whether the driver owes an answer to CONNECT or AUTH, or to as many requests as are allowed.
    #[inline]
    fn owes_answer(&self) -> bool {
        match self.state {
            State::Open => {
                self.requests.others() >= self.config.requests_max.max(1)
                    // Not while the client owes PUBREL, which has to be read.
                    || (self.requests.owed() >= self.config.receive_maximum.max(1) && !self.version.is_v5())
            }
            state => state == State::Deciding,
        }
    }

    /// Bytes of the packet at the front of `input`, once its length is readable, so that the driver
    /// can size its buffer. At most the maximum packet size: `poll_event` refuses a larger one as
    /// soon as its length is readable.
    #[must_use]
    pub fn wanted_bytes(&self, input: &[u8]) -> Option<usize> {
        let whole = fixed::packet_size(input)?;
        (whole <= self.packet_size_max_bytes as usize).then_some(whole)
    }

    /// Bytes to write. The driver removes them from the front.
    #[inline]
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// The version, once CONNECT was reported.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        (self.state != State::AwaitConnect).then_some(self.version)
    }

    /// Whether `accept` was called and the connection has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// What outlives the connection; empty afterwards. For a session that ends with its connection
    /// it is of no use.
    pub fn take_in_flight(&mut self) -> InFlight {
        InFlight { outgoing: self.deliveries.take(), received: self.requests.take_received() }
    }

    /// Releases memory that a burst of work had needed.
    fn trim(&mut self) {
        if self.output.is_empty() {
            self.output = Vec::new();
        }
    }
}
