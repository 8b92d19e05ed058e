//! A client of MQTT with a session: it keeps what the standard asks of it over broken connections
//! (4.1, 4.3, 4.4), and sends again what was not acknowledged.

use std::collections::BTreeMap;

use enmasse_amqp::time::Time;
use enmasse_mqtt::codec::{
    Ack, AckKind, Connect, Disconnect, Packet, PacketId, Properties, Property, PropertyBuffer, Publish,
    PublishProperties, QoS, ReasonCode, Subscription, SubscriptionOptions, Version, Will, decode, encode_ack,
    encode_connect, encode_disconnect, encode_publish, encode_subscribe, fixed,
};

use super::promises::{Progress, Promises};
use crate::address::{QUEUE, STREAM, TOPICS};
use crate::node::Node;
use crate::random::Random;

/// Messages that a client has in flight at most.
const WINDOW: usize = 8;
/// Topics to which one client publishes retained messages.
const RETAINED_TOPICS: usize = 2;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// sends to all addresses, and leaves wills
    Publisher,
    /// receives the messages of the topics in a persistent session
    Subscriber(QoS),
    /// consumes the queue
    Consumer,
    /// reads the retained messages of the topics
    Reader,
}

/// A message of the client that is not complete.
#[derive(Clone, Copy, Debug)]
struct Flight {
    packet_id: PacketId,
    number: usize,
    /// PUBREC came
    is_released: bool,
}

#[derive(Debug)]
pub(super) struct Device {
    number: usize,
    role: Role,
    version: Version,
    random: Random,
    socket: Option<usize>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// CONNACK came on this connection
    is_open: bool,
    /// it has had a session that the node must have, too
    has_session: bool,
    is_subscribed: bool,
    flights: Vec<Flight>,
    /// packet identifiers and payloads of messages with QoS 2 that were not released; empty: of a
    /// retained one
    stored: BTreeMap<PacketId, Vec<u8>>,
    /// the will of the connection
    will: Option<usize>,
    /// retained messages, by topic
    pub(super) retained: BTreeMap<String, usize>,
    /// refused connections
    pub(super) refused: u64,
    /// input since the last call
    pub(super) heard: bool,
}

impl Device {
    pub(super) fn new(number: usize, role: Role, mut random: Random) -> Self {
        Self {
            number,
            role,
            version: *random.pick(&[Version::V5, Version::V311]),
            random,
            socket: None,
            input: Vec::new(),
            output: Vec::new(),
            is_open: false,
            has_session: false,
            is_subscribed: false,
            flights: Vec::new(),
            stored: BTreeMap::new(),
            will: None,
            retained: BTreeMap::new(),
            refused: 0,
            heard: false,
        }
    }

    pub(super) fn socket(&self) -> Option<usize> {
        self.socket
    }

    /// Whether it is connected and waits for nothing.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_open && self.flights.is_empty() && self.output.is_empty() && (self.is_subscribed || !self.subscribes())
    }

    fn subscribes(&self) -> bool {
        self.role != Role::Publisher
    }

    /// The connection is lost. The will is to be published, unless the client has disconnected.
    pub(super) fn disconnected(&mut self, promises: &mut Promises) {
        if self.socket.take().is_some() {
            promises.note(|| format!("client {} is disconnected", self.number));
        }
        self.heard = true;
        self.input.clear();
        self.output.clear();
        let was_open = std::mem::take(&mut self.is_open);
        // Without CONNACK the node may not have the will.
        if let Some(will) = self.will.take().filter(|_| was_open) {
            promises.sent[will].progress = Progress::Promised;
        }
    }

    /// One step: reads, answers, and sends something new if `active`.
    pub(super) fn step(&mut self, now: Time, node: &mut Node, promises: &mut Promises, active: bool) {
        let Some(socket) = self.socket else {
            if self.random.chance(300) {
                self.connect(now, node, promises);
            }
            return;
        };
        let most = self.random.between(1, 4_000) as usize;
        self.heard |= node.sockets[socket].down.read(now, most, &mut self.input);
        self.read(promises);
        if self.is_open && active && self.role == Role::Publisher {
            while self.flights.len() < WINDOW && self.random.chance(300) {
                self.publish(promises);
            }
        }
        if self.is_open && active && self.random.chance(2) {
            return self.leave(now, node, promises);
        }
        node.sockets[socket].up.write(now, &mut self.output);
        if node.sockets[socket].is_over() {
            self.disconnected(promises);
        }
    }

    fn connect(&mut self, now: Time, node: &mut Node, promises: &mut Promises) {
        let socket = node.connect_device(now, &mut self.random);
        self.socket = Some(socket);
        promises.note(|| format!("client {} connects over {socket}", self.number));
        let mut properties = PropertyBuffer::default();
        if self.version.is_v5() {
            let _ = properties.push(Property::Number(enmasse_mqtt::codec::PropertyId::SessionExpiryInterval, 100_000));
        }
        let will = (self.role == Role::Publisher && self.random.chance(300))
            .then(|| promises.send(format!("{}/will", TOPICS[0]), QoS::AtLeastOnce, false));
        self.will = will;
        let payload = (will.unwrap_or_default() as u64).to_be_bytes();
        let topic = format!("{}/will", TOPICS[0]);
        let client_id = format!("device-{}", self.number);
        let connect = Connect {
            version: self.version,
            clean_start: self.role == Role::Reader,
            keep_alive_s: 0,
            client_id: &client_id,
            will: will.map(|_| Will {
                topic: &topic,
                payload: &payload,
                qos: QoS::AtLeastOnce,
                retain: false,
                delay_s: 0,
                properties: PublishProperties::default(),
            }),
            user: None,
            password: None,
            properties: properties.as_properties(),
        };
        encode_connect(&mut self.output, &connect).expect("it has an encoding");
    }

    /// Disconnects: the session stays, and the will is discarded.
    fn leave(&mut self, now: Time, node: &mut Node, promises: &mut Promises) {
        let disconnect = Disconnect { code: ReasonCode::Success, properties: Properties::NONE };
        encode_disconnect(&mut self.output, &disconnect, self.version).expect("it has an encoding");
        if let Some(socket) = self.socket {
            node.sockets[socket].up.write(now, &mut self.output);
        }
        if let Some(will) = self.will.take() {
            promises.sent[will].progress = Progress::Optional;
        }
        self.disconnected(promises);
    }

    fn read(&mut self, promises: &mut Promises) {
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        loop {
            match fixed::split(rest, u32::MAX) {
                Ok(Some((frame, length))) => {
                    match decode(&frame, self.version) {
                        Ok(packet) => self.handle(&packet, promises),
                        Err(error) => promises.violation(format!("client {}: {error:?}", self.number)),
                    }
                    rest = &rest[length..];
                }
                Ok(None) => break,
                Err(error) => return promises.violation(format!("client {}: {error:?}", self.number)),
            }
        }
        self.input = rest.to_vec();
    }

    fn handle(&mut self, packet: &Packet<'_>, promises: &mut Promises) {
        match packet {
            Packet::ConnAck(connack) if connack.code == 0 => self.opened(connack.session_present, promises),
            Packet::ConnAck(_) => self.refused += 1,
            Packet::SubAck(suback) => {
                if let Some(code) = suback.codes().find(|code| code.is_error()) {
                    promises.violation(format!("client {} may not subscribe: {code:?}", self.number));
                }
                self.is_subscribed = true;
                if let Role::Subscriber(_) = self.role {
                    promises.subscribed(self.number);
                }
            }
            Packet::Publish(publish) => self.receive(publish, promises),
            Packet::Ack(ack) => self.acknowledged(ack, promises),
            Packet::Disconnect(disconnect) => {
                promises.note(|| format!("client {} receives DISCONNECT with {:?}", self.number, disconnect.code));
            }
            other => promises.violation(format!("client {} received {other:?}", self.number)),
        }
    }

    /// Sends again what was not acknowledged, in order (4.4, 4.6).
    fn opened(&mut self, session_present: bool, promises: &mut Promises) {
        promises.note(|| format!("client {} has its session: {session_present}", self.number));
        self.is_open = true;
        if self.has_session && !session_present {
            promises.violation(format!("the session of client {} is lost", self.number));
        }
        self.has_session = self.role != Role::Reader;
        for flight in self.flights.clone() {
            match flight.is_released {
                true => self.answer(AckKind::PubRel, flight.packet_id),
                false => self.put(&flight, true, promises),
            }
        }
        if !self.is_subscribed && self.subscribes() {
            let of_topics = TOPICS.map(|topic| format!("{topic}/#")).to_vec();
            let (filters, qos) = match self.role {
                Role::Subscriber(qos) => (of_topics, qos),
                Role::Reader => (of_topics, QoS::AtLeastOnce),
                Role::Consumer | Role::Publisher => (vec![QUEUE.to_owned()], QoS::ExactlyOnce),
            };
            let options = SubscriptionOptions { qos, ..SubscriptionOptions::default() };
            let filters = filters.iter().map(|filter| Subscription { filter, options });
            let id = PacketId::new(u16::MAX).expect("not 0");
            encode_subscribe(&mut self.output, id, Properties::NONE, filters, self.version).expect("an encoding");
        }
    }

    fn receive(&mut self, publish: &Publish<'_>, promises: &mut Promises) {
        if self.role == Role::Reader {
            let number = publish.payload.try_into().map(u64::from_be_bytes).unwrap_or(u64::MAX);
            if publish.retain {
                self.retained.insert(publish.topic.to_owned(), number as usize);
            }
        }
        promises.note(|| format!("client {} < {:?} {:?}", self.number, publish.packet_id, publish.payload));
        match (publish.qos, publish.packet_id) {
            (QoS::AtLeastOnce, Some(packet_id)) => {
                if !publish.retain {
                    promises.receive(self.number, publish.payload, QoS::AtLeastOnce);
                }
                self.answer(AckKind::PubAck, packet_id);
            }
            (QoS::ExactlyOnce, Some(packet_id)) => {
                // A retained message greets a subscription; it may also come as a new one.
                let payload = if publish.retain { Vec::new() } else { publish.payload.to_owned() };
                self.stored.insert(packet_id, payload);
                self.answer(AckKind::PubRec, packet_id);
            }
            _ => promises.violation(format!("client {} received a message with QoS 0", self.number)),
        }
    }

    fn acknowledged(&mut self, ack: &Ack<'_>, promises: &mut Promises) {
        let packet_id = ack.packet_id;
        if ack.kind == AckKind::PubRel {
            if let Some(payload) = self.stored.remove(&packet_id).filter(|payload| !payload.is_empty()) {
                promises.receive(self.number, &payload, QoS::ExactlyOnce);
            }
            return self.answer(AckKind::PubComp, packet_id);
        }
        let Some(at) = self.flights.iter().position(|flight| flight.packet_id == packet_id) else {
            return promises.violation(format!("client {} has no message {packet_id:?}", self.number));
        };
        let number = self.flights[at].number;
        promises.note(|| format!("client {} < {:?} {packet_id:?} of {number}", self.number, ack.kind));
        if ack.code.is_error() && ack.kind != AckKind::PubComp {
            return promises.violation(format!("message {number} is refused: {:?}", ack.code));
        }
        if ack.kind == AckKind::PubRec {
            self.flights[at].is_released = true;
            promises.acknowledged(number);
            return self.answer(AckKind::PubRel, packet_id);
        }
        self.flights.remove(at);
        promises.acknowledged(number);
    }

    fn answer(&mut self, kind: AckKind, packet_id: PacketId) {
        let success = (ReasonCode::Success, "");
        encode_ack(&mut self.output, kind, packet_id, success, self.version, u32::MAX).expect("it has an encoding");
    }

    /// Sends a new message.
    fn publish(&mut self, promises: &mut Promises) {
        let (topic, retained) = (*self.random.pick(&TOPICS), self.random.below(RETAINED_TOPICS));
        let (topic, qos, retain) = match self.random.below(8) {
            0 | 1 => (QUEUE.to_owned(), QoS::AtLeastOnce, false),
            2 | 3 => (QUEUE.to_owned(), QoS::ExactlyOnce, false),
            4 => (STREAM.to_owned(), QoS::ExactlyOnce, false),
            5 => (format!("{topic}/{}", self.number), QoS::AtLeastOnce, false),
            6 => (format!("{topic}/{}", self.number), QoS::ExactlyOnce, false),
            _ => (format!("{topic}/{}/kept/{retained}", self.number), QoS::ExactlyOnce, true),
        };
        let free = (1..).find(|id| self.flights.iter().all(|flight| flight.packet_id.get() != *id));
        let packet_id = free.and_then(PacketId::new).expect("few are in use");
        let number = promises.send(topic, qos, retain);
        let flight = Flight { packet_id, number, is_released: false };
        self.flights.push(flight);
        self.put(&flight, false, promises);
    }

    fn put(&mut self, flight: &Flight, dup: bool, promises: &mut Promises) {
        let Flight { packet_id, number, .. } = *flight;
        promises.note(|| format!("client {} > {packet_id:?} {number}, again: {dup}", self.number));
        let sent = &promises.sent[number];
        let publish = Publish {
            dup,
            qos: sent.qos,
            retain: sent.retain,
            topic: &sent.topic,
            packet_id: Some(packet_id),
            properties: PublishProperties::default(),
            payload: &(number as u64).to_be_bytes(),
        };
        encode_publish(&mut self.output, &publish, &[], self.version, u32::MAX).expect("it has an encoding");
    }
}
