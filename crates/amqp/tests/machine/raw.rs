//! A server machine against hand-written frames.

use std::sync::Arc;

use enmasse_amqp::codec::frame::{self, FrameKind, Protocol, protocol_header};
use enmasse_amqp::codec::{decode_performative, encode_performative};
use enmasse_amqp::connection::{ClosedBy, Config, Connection, Event, LinkId, SaslPolicy};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{
    Attach, Begin, Detach, Disposition, Error, Fields, Flow, Open, Performative, Role, Symbol, Transfer,
};

use crate::pair::{OwnedEvent, Side, attach};

pub(crate) struct Raw {
    pub(crate) side: Side,
    pub(crate) now: Time,
    unread: Vec<u8>,
}

impl Raw {
    /// A server that has not been spoken to.
    pub(crate) fn fresh(config: Config, policy: SaslPolicy) -> Self {
        let mut machine = Connection::server(Arc::new(config), Time::ZERO, policy);
        machine.sasl_mechanisms(&[Symbol::constant("PLAIN"), Symbol::constant("ANONYMOUS")]);
        Self { side: Side::new(machine), now: Time::ZERO, unread: Vec::new() }
    }

    /// A server with an open connection.
    pub(crate) fn open(config: Config) -> Self {
        let mut raw = Self::fresh(config, SaslPolicy::Optional);
        raw.bytes(&protocol_header(Protocol::Amqp));
        raw.send(0, open("client"));
        raw.clear();
        raw
    }

    /// A server with a session on channel 0.
    pub(crate) fn begun(config: Config) -> Self {
        let mut raw = Self::open(config);
        raw.send(0, begin());
        raw.clear();
        raw
    }

    /// A server with a link of handle 0 on which the peer has `role`.
    pub(crate) fn attached(config: Config, role: Role) -> (Self, LinkId) {
        let mut raw = Self::begun(config);
        raw.send(0, link("link", 0, role));
        raw.clear();
        let link = raw.side.machine.links().next().unwrap();
        (raw, link)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.side.unread.extend_from_slice(bytes);
        self.side.read(self.now);
        self.side.machine.flush(self.now);
    }

    pub(crate) fn send(&mut self, channel: u16, performative: Performative) {
        self.send_with(channel, performative, b"");
    }

    /// Sends a frame with a payload.
    pub(crate) fn send_with(&mut self, channel: u16, performative: Performative, payload: &[u8]) {
        let mut bytes = Vec::new();
        encode_performative(&mut bytes, channel, &performative);
        bytes.extend_from_slice(payload);
        let size = u32::try_from(bytes.len()).unwrap();
        bytes[..4].copy_from_slice(&size.to_be_bytes());
        self.bytes(&bytes);
    }

    pub(crate) fn clear(&mut self) {
        self.written();
        self.side.take();
    }

    /// The bytes written since the last call.
    pub(crate) fn output(&mut self) -> Vec<u8> {
        std::mem::take(self.side.machine.output())
    }

    /// The frames written since the last call; headers, SASL frames and heartbeats are skipped.
    pub(crate) fn written(&mut self) -> Vec<(u16, Performative)> {
        let output = self.output();
        self.unread.extend_from_slice(&output);
        let mut rest = &self.unread[..];
        let mut written = Vec::new();
        while !rest.is_empty() {
            if rest.starts_with(b"AMQP") {
                rest = &rest[8..];
                continue;
            }
            let (frame, length) = frame::split(rest, u32::MAX).unwrap().expect("whole frames are written");
            rest = &rest[length..];
            if frame.kind == FrameKind::Amqp && !frame.body.is_empty() {
                written.push((frame.channel, decode_performative(frame.body).unwrap().0));
            }
        }
        self.unread.clear();
        written
    }

    /// Asserts that the connection was closed with `condition` and a description that has `words`
    /// in it.
    pub(crate) fn assert_closed(&mut self, condition: &Symbol, words: &str) {
        let written = self.written();
        let Some((0, Performative::Close(close))) = written.last() else { panic!("no close: {written:?}") };
        assert_error(close.error.as_ref(), condition, words);
        let Some(OwnedEvent::Event(Event::Closed { error, by })) = self.side.take().pop() else {
            panic!("not notified")
        };
        assert_error(error.as_ref(), condition, words);
        assert_eq!(by, ClosedBy::Local);
    }

    /// Asserts that the session was ended with `condition` and that the connection continues.
    pub(crate) fn assert_ended(&mut self, condition: &Symbol, words: &str) {
        let written = self.written();
        let Some((_, Performative::End(end))) = written.last() else { panic!("no end: {written:?}") };
        assert_error(end.error.as_ref(), condition, words);
        let Some(OwnedEvent::Event(Event::End { error, .. })) = self.side.take().pop() else { panic!("not notified") };
        assert_error(error.as_ref(), condition, words);
        self.send(9, begin());
        assert!(matches!(self.written()[..], [(_, Performative::Begin(_))]), "the connection goes on");
    }

    /// Asserts that the link was detached with `condition` and that the session continues.
    pub(crate) fn assert_detached(&mut self, condition: &Symbol, words: &str) {
        let written = self.written();
        let Some((_, Performative::Detach(detach))) = written.last() else { panic!("no detach: {written:?}") };
        assert!(detach.closed);
        assert_error(detach.error.as_ref(), condition, words);
        let Some(OwnedEvent::Event(Event::Detach { error, .. })) = self.side.take().pop() else {
            panic!("not notified")
        };
        assert_error(error.as_ref(), condition, words);
        self.send(0, link("another", 9, Role::Sender));
        assert!(matches!(self.written()[..], [(_, Performative::Attach(_)), ..]), "the session goes on");
    }

    /// Asserts that an attach was answered with null termini and a detach, and that the driver
    /// received no event.
    pub(crate) fn assert_refused(&mut self, condition: &Symbol, words: &str) {
        let written = self.written();
        let [(_, Performative::Attach(refusal)), (_, Performative::Detach(detach))] = &written[..] else {
            panic!("{written:?}")
        };
        assert!(refusal.source.is_none() && refusal.target.is_none() && detach.closed);
        assert_error(detach.error.as_ref(), condition, words);
        assert!(self.side.take().is_empty() && self.side.machine.links().next().is_none());
    }
}

fn assert_error(error: Option<&Error>, condition: &Symbol, words: &str) {
    let error = error.expect("an error");
    assert_eq!(&error.condition, condition, "{error:?}");
    let description = error.description.as_deref().unwrap_or_default();
    assert!(description.contains(words), "{description}");
}

pub(crate) fn open(container_id: &str) -> Performative {
    Performative::Open(Box::new(Open { container_id: container_id.to_owned(), ..Open::default() }))
}

pub(crate) fn begin() -> Performative {
    Performative::Begin(Box::new(Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 100,
        outgoing_window: 100,
        handle_max: u32::MAX,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Fields::new(),
    }))
}

/// An attach of `handle`, `role` being the peer's.
pub(crate) fn link(name: &str, handle: u32, role: Role) -> Performative {
    let initial_delivery_count = (role == Role::Sender).then_some(0);
    Performative::Attach(Box::new(Attach { handle, initial_delivery_count, ..attach(name, role) }))
}

/// The first and only frame of a delivery.
pub(crate) fn transfer(handle: u32, id: u32) -> Transfer {
    Transfer { handle, delivery_id: Some(id), delivery_tag: Some(id.to_be_bytes().to_vec()), ..Transfer::default() }
}

/// A flow of the session, with no window used.
pub(crate) fn flow() -> Flow {
    Flow {
        next_incoming_id: Some(0),
        incoming_window: 100,
        next_outgoing_id: 0,
        outgoing_window: 100,
        ..Flow::default()
    }
}

/// A disposition of the peer as receiver.
pub(crate) fn disposition(first: u32, last: Option<u32>) -> Disposition {
    Disposition { role: Role::Receiver, first, last, settled: true, state: None, batchable: false }
}

pub(crate) fn detach(handle: u32, closed: bool) -> Performative {
    Performative::Detach(Detach { handle, closed, error: None })
}
