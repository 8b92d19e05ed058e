//! A client that speaks bytes, and the machine at the other end.

use std::sync::Arc;

use enmasse_mqtt::codec::{PacketId, PublishProperties, QoS, ReasonCode, UserProperties, Version};
use enmasse_mqtt::connection::{Accept, Closed, Config, Connection, Event, InFlight, Outgoing};
use enmasse_mqtt::time::Time;

/// An event without borrowed parts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Connect(String),
    Auth(bool, Vec<u8>),
    Publish { topic: String, dup: bool, qos: u8, retain: bool, id: u16, payload: Vec<u8> },
    Released(u16),
    Received(u16, u64),
    Acknowledged(u16, u64, ReasonCode),
    Subscribe(u16, Vec<(String, u8)>),
    Unsubscribe(u16, Vec<String>),
    Closed(Closed),
}

impl Seen {
    pub(crate) fn of(event: Event<'_>) -> Self {
        match event {
            Event::Connect(connect) => Self::Connect(connect.client_id.to_owned()),
            Event::Auth { reauthenticate, data } => Self::Auth(reauthenticate, data.unwrap_or_default().to_owned()),
            Event::Publish(message) => Self::Publish {
                topic: message.topic.to_string(),
                dup: message.dup,
                qos: message.qos as u8,
                retain: message.retain,
                id: message.packet_id.map_or(0, PacketId::get),
                payload: message.payload.to_owned(),
            },
            Event::Released { packet_id } => Self::Released(packet_id.get()),
            Event::Received { packet_id, token } => Self::Received(packet_id.get(), token),
            Event::Acknowledged { packet_id, token, code, .. } => Self::Acknowledged(packet_id.get(), token, code),
            Event::Subscribe(subscribe) => {
                let filters = subscribe.subscriptions();
                let filters = filters.map(|one| (one.filter.to_owned(), one.options.to_bits())).collect();
                Self::Subscribe(subscribe.packet_id.get(), filters)
            }
            Event::Unsubscribe(unsubscribe) => {
                let filters = unsubscribe.filters().map(str::to_owned).collect();
                Self::Unsubscribe(unsubscribe.packet_id.get(), filters)
            }
            Event::Closed(closed) => Self::Closed(closed),
        }
    }
}

/// The machine, its clock, and what the client has sent and not seen consumed.
pub(crate) struct Peer {
    pub(crate) machine: Connection,
    pub(crate) now: Time,
    pub(crate) unread: Vec<u8>,
}

impl Peer {
    pub(crate) fn new(config: Config) -> Self {
        let now = Time::from_micros(1_000_000);
        Self { machine: Connection::new(Arc::new(config), now), now, unread: Vec::new() }
    }

    /// An open connection without keep-alive and properties; its CONNACK is read.
    pub(crate) fn open(version: Version) -> Self {
        Self::open_with(Config::default(), version, &[], &InFlight::default())
    }

    /// An open connection of 5.0, whose CONNECT has these properties.
    pub(crate) fn open_v5(properties: &[u8]) -> Self {
        Self::open_with(Config::default(), Version::V5, properties, &InFlight::default())
    }

    pub(crate) fn open_with(config: Config, version: Version, properties: &[u8], in_flight: &InFlight) -> Self {
        let mut peer = Self::new(config);
        let seen = peer.send(&connect(version, 0x00, 0, properties, &[&text("device")]));
        assert_eq!(seen, [Seen::Connect("device".to_owned())]);
        let session_present = *in_flight != InFlight::default();
        let accept = Accept { session_present, ..Accept::default() };
        peer.machine.accept(peer.now, &accept, in_flight).unwrap();
        peer.output();
        peer
    }

    /// All events of these bytes, and of those sent before.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Vec<Seen> {
        self.unread.extend_from_slice(bytes);
        let mut input = self.unread.as_slice();
        let mut seen = Vec::new();
        while let Some(event) = self.machine.poll_event(self.now, &mut input) {
            seen.push(Seen::of(event));
        }
        self.unread = input.to_owned();
        seen
    }

    /// What the machine has written.
    pub(crate) fn output(&mut self) -> Vec<u8> {
        std::mem::take(self.machine.output())
    }

    /// The end of the connection, which these bytes cause.
    pub(crate) fn closed_by(&mut self, bytes: &[u8]) -> Closed {
        let mut seen = self.send(bytes);
        match (seen.pop(), seen.is_empty()) {
            (Some(Seen::Closed(closed)), true) => closed,
            other => panic!("expected the end of the connection, got {other:?} after {seen:?}"),
        }
    }

    pub(crate) fn pass_millis(&mut self, millis: u64) {
        self.now = self.now.plus_millis(millis);
    }

    pub(crate) fn disconnect(&mut self, code: ReasonCode, text: &str) {
        self.machine.disconnect(code, text, None, UserProperties::NONE);
    }
}

/// A packet with its remaining length.
pub(crate) fn packet(first: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut bytes = vec![first];
    bytes.extend(variable(body.len()));
    bytes.extend(body);
    bytes
}

pub(crate) fn variable(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field of text or binary data.
pub(crate) fn field(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    field(text.as_bytes())
}

/// CONNECT: flags, keep-alive, properties of 5.0 and the fields of the payload.
pub(crate) fn connect(version: Version, flags: u8, keep_alive: u16, properties: &[u8], payload: &[&[u8]]) -> Vec<u8> {
    let mut body = text(version.name());
    body.extend([version.level(), flags]);
    body.extend(keep_alive.to_be_bytes());
    if version == Version::V5 {
        body.extend(variable(properties.len()));
        body.extend(properties);
    }
    body.extend(payload.concat());
    packet(0x10, &[&body])
}

/// PUBLISH of 3.1.1.
pub(crate) fn publish_v3(first: u8, topic: &str, id: u16, payload: &[u8]) -> Vec<u8> {
    let id = if first & 0x06 == 0 { Vec::new() } else { id.to_be_bytes().to_vec() };
    packet(first, &[&text(topic), &id, payload])
}

/// PUBLISH of 5.0.
pub(crate) fn publish_v5(first: u8, topic: &str, id: u16, properties: &[u8], payload: &[u8]) -> Vec<u8> {
    let id = if first & 0x06 == 0 { Vec::new() } else { id.to_be_bytes().to_vec() };
    packet(first, &[&text(topic), &id, &variable(properties.len()), properties, payload])
}

pub(crate) fn id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}

/// A message to the client without properties.
pub(crate) fn message<'a>(topic: &'a str, qos: QoS, payload: &'a [&'a [u8]]) -> Outgoing<'a> {
    Outgoing { topic, qos, retain: false, dup: false, properties: PublishProperties::default(), payload }
}

/// Both protocols that have packets of the same form.
pub(crate) const V3: [Version; 2] = [Version::V31, Version::V311];

/// All versions.
pub(crate) const ALL: [Version; 3] = [Version::V31, Version::V311, Version::V5];
