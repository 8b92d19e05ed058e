//! The server's end of a network connection: bytes and time in, events and bytes out.
//!
//! A driver calls `poll_event` until it returns `None`, answers the events that need an answer,
//! and writes `output`. Packets are answered at once where no decision of the driver is necessary
//! (PINGREQ, duplicates, unknown packet ids).
//!
//! # Resume
//! `accept` takes the `InFlight` of the session. The driver then calls, in the order of the list
//! [5: 4.4.0-1, 4.6.0-1], `send_publish` with the packet id and DUP for deliveries that are
//! `Published` and `release` for those that are `Received`, before any new delivery.
//!
//! # Durable sessions
//! For a promise that holds across a crash, the driver stores: packet id and message before
//! `send_publish` (`reserve` gives the id in advance), the id of a QoS 2 message together with the
//! message before `answer_publish`, and progress before `release` and `complete`.

mod config;
mod event;

use std::sync::Arc;

pub use config::Config;
pub use event::{
    Accept, AnswerError, Closed, ClosedBy, Event, InFlight, Incoming, Outgoing, OutgoingDelivery, SendError, Stage,
    TopicName,
};

use crate::codec::{PacketId, ReasonCode, UserProperties, Version};
use crate::time::Time;

/// One network connection of a client.
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    output: Vec<u8>,
}

#[allow(unused_variables, clippy::missing_errors_doc)]
impl Connection {
    /// A connection on which nothing was received yet.
    #[must_use]
    pub fn new(config: Arc<Config>, now: Time) -> Self {
        unimplemented!()
    }

    /// Consumes whole packets from the front of `input` until there is an event to report or no
    /// whole packet is left, or the driver must answer or write `output` first. The driver keeps
    /// the rest of `input` for the next call; `wanted_bytes` says how long the next packet is.
    pub fn poll_event<'a>(&mut self, now: Time, input: &mut &'a [u8]) -> Option<Event<'a>> {
        unimplemented!()
    }

    /// Bytes of the packet at the front of `input`, once its length is readable, so that the driver
    /// can size its buffer. At most the maximum packet size: `poll_event` refuses a larger one as
    /// soon as its length is readable.
    #[must_use]
    pub fn wanted_bytes(&self, input: &[u8]) -> Option<usize> {
        unimplemented!()
    }

    /// Bytes to write. The driver removes them from the front.
    #[inline]
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// The version, once CONNECT was reported.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        unimplemented!()
    }

    /// Whether `accept` was called and the connection has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        unimplemented!()
    }

    /// Answers CONNECT with success; deliveries of the session are `in_flight`.
    pub fn accept(&mut self, now: Time, accept: &Accept<'_>, in_flight: &InFlight) -> Result<(), AnswerError> {
        unimplemented!()
    }

    /// Answers CONNECT with a refusal: `Closed` follows. With 3.x the closest return code is sent.
    /// `server_reference` goes with `UseAnotherServer` and `ServerMoved`.
    pub fn refuse(&mut self, code: ReasonCode, text: &str, server_reference: Option<&str>) -> Result<(), AnswerError> {
        unimplemented!()
    }

    /// Sends AUTH with Continue Authentication [5: 4.12.0-2], within CONNECT or a re-authentication.
    pub fn auth_continue(&mut self, data: &[u8]) -> Result<(), AnswerError> {
        unimplemented!()
    }

    /// Ends a re-authentication with success (4.12.1).
    pub fn auth_succeeded(&mut self, data: &[u8]) -> Result<(), AnswerError> {
        unimplemented!()
    }

    /// Answers a message of QoS 1 or 2: PUBACK or PUBREC. The text is sent if the client wants
    /// problem information. An error code with 3.x: the protocol has none, so call `disconnect`
    /// or answer success. `ReasonCode`s that PUBACK cannot carry become Unspecified Error.
    pub fn answer_publish(&mut self, packet_id: PacketId, code: ReasonCode, text: &str) -> Result<(), AnswerError> {
        unimplemented!()
    }

    /// Sends PUBCOMP after `Released`.
    pub fn complete(&mut self, packet_id: PacketId) -> Result<(), AnswerError> {
        unimplemented!()
    }

    /// Answers a SUBSCRIBE: one code for each filter, in order.
    pub fn answer_subscribe(
        &mut self,
        packet_id: PacketId,
        codes: &[ReasonCode],
        text: &str,
    ) -> Result<(), AnswerError> {
        unimplemented!()
    }

    /// Answers an UNSUBSCRIBE: one code for each filter, in order; also with 3.x, which sends none.
    pub fn answer_unsubscribe(
        &mut self,
        packet_id: PacketId,
        codes: &[ReasonCode],
        text: &str,
    ) -> Result<(), AnswerError> {
        unimplemented!()
    }

    /// Deliveries with QoS 1 and 2 that may be sent now.
    #[must_use]
    pub fn window(&self) -> u16 {
        unimplemented!()
    }

    /// Takes a packet id and a place in the window for a delivery that is stored before it is sent.
    pub fn reserve(&mut self, token: u64) -> Result<PacketId, SendError> {
        unimplemented!()
    }

    /// Gives back a packet id that `reserve` returned and that was never sent.
    pub fn unreserve(&mut self, packet_id: PacketId) -> Result<(), SendError> {
        unimplemented!()
    }

    /// Sends a message with QoS 0. The client never acknowledges it.
    pub fn send_at_most_once(&mut self, message: &Outgoing<'_>) -> Result<(), SendError> {
        unimplemented!()
    }

    /// Sends a message with QoS 1 or 2 under a new packet id; `token` comes back with its events.
    pub fn send_publish(&mut self, message: &Outgoing<'_>, token: u64) -> Result<PacketId, SendError> {
        unimplemented!()
    }

    /// Sends a message with QoS 1 or 2 under a packet id that was reserved or restored. On an error
    /// the id stays reserved.
    pub fn send_reserved(&mut self, message: &Outgoing<'_>, packet_id: PacketId) -> Result<(), SendError> {
        unimplemented!()
    }

    /// Sends PUBREL after `Received`, or for a delivery restored as `Received`.
    pub fn release(&mut self, packet_id: PacketId) -> Result<(), SendError> {
        unimplemented!()
    }

    /// Ends the connection: DISCONNECT with 5.0, nothing with 3.x; `Closed` follows.
    pub fn disconnect(
        &mut self,
        code: ReasonCode,
        text: &str,
        server_reference: Option<&str>,
        user: UserProperties<'_>,
    ) {
        unimplemented!()
    }

    /// The transport has ended: `Closed` follows, unless it was reported.
    pub fn transport_closed(&mut self) {
        unimplemented!()
    }

    /// When to call `handle_timeout`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        unimplemented!()
    }

    /// Ends the connection of a silent client: then `poll_event` returns `Closed`.
    pub fn handle_timeout(&mut self, now: Time) {
        unimplemented!()
    }

    /// Records whether the driver reads the client's input. The keep-alive of a connection whose
    /// input is paused does not run.
    pub fn set_reading(&mut self, now: Time, reading: bool) {
        unimplemented!()
    }

    /// What outlives the connection; empty afterwards. For a clean session it is of no use.
    pub fn take_in_flight(&mut self) -> InFlight {
        unimplemented!()
    }
}
