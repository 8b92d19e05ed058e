//! Packets of the client after CONNECT.

use super::deliveries::{Next, Step};
use super::handshake::Received;
use super::requests::{Arrival, Request};
use super::state::State;
use super::{Closed, Connection, Event, Incoming, TopicName};
use crate::codec::fixed::Frame;
use crate::codec::{
    Ack, AckKind, Carrier, DecodeError, Disconnect, PacketId, PropertyId, Publish, QoS, ReasonCode, Subscribe,
    SubscriptionIds, Unsubscribe, encode_ping_response,
};

impl Connection {
    /// Handles a packet in any state.
    #[inline]
    pub(super) fn on_frame<'a>(&mut self, frame: &Frame<'a>) -> Received<'a> {
        match (self.state, frame.kind()) {
            (State::Open, 3) => self.on_publish(frame),
            (State::Open, 4..=7) => self.on_ack(frame),
            _ => self.on_other_frame(frame),
        }
    }

    #[inline(never)]
    fn on_other_frame<'a>(&mut self, frame: &Frame<'a>) -> Received<'a> {
        match (self.state, frame.kind()) {
            (State::AwaitConnect, _) => self.on_first_frame(frame),
            (State::Open | State::AwaitAuth, 14) => self.on_disconnect(frame),
            (State::Open | State::AwaitAuth, 15) => self.on_auth(frame),
            // [5: 3.1.2-30]
            (State::AwaitAuth, _) => Err(DecodeError::protocol("only AUTH and DISCONNECT may precede CONNACK")),
            (State::Open, 8) => self.on_subscribe(frame),
            (State::Open, 10) => self.on_unsubscribe(frame),
            (State::Open, 12) => self.on_ping(frame),
            // [5: 3.1.0-2]
            (State::Open, 1) => Err(DecodeError::protocol("a second CONNECT")),
            (State::Open, 0) => Err(DecodeError::malformed("packet type 0 is reserved")),
            _ => Err(DecodeError::protocol("a packet that only servers send")),
        }
    }

    /// PUBLISH (3.3.4): reported unless it is a duplicate.
    #[inline]
    fn on_publish<'a>(&mut self, frame: &Frame<'a>) -> Received<'a> {
        let publish = Publish::decode(frame, self.version)?;
        if publish.properties.subscription_ids != SubscriptionIds::None {
            // [5: 3.3.4-6]
            return Err(DecodeError::protocol("PUBLISH: a client sends a subscription identifier"));
        }
        let Publish { dup, qos, retain, packet_id, mut properties, payload, .. } = publish;
        let topic = match properties.topic_alias.take() {
            None => TopicName::Named(publish.topic),
            Some(alias) => self.resolve_alias(alias, publish.topic)?,
        };
        if let Some(packet_id) = packet_id
            && !self.admit(packet_id, qos, dup)?
        {
            return Ok(None);
        }
        Ok(Some(Event::Publish(Incoming { topic, dup, qos, retain, packet_id, properties, payload })))
    }

    /// The topic of a PUBLISH with an alias [5: 3.3.2-8 to 3.3.2-12].
    fn resolve_alias<'a>(&mut self, alias: u16, topic: &'a str) -> Result<TopicName<'a>, DecodeError> {
        if alias > self.config.topic_alias_maximum {
            let what = "PUBLISH: the topic alias is above the topic alias maximum";
            return Err(DecodeError { code: ReasonCode::TopicAliasInvalid, what });
        }
        if topic.is_empty() {
            let unknown = DecodeError::protocol("PUBLISH: the topic alias has no topic");
            return self.incoming_aliases.get(alias).map(TopicName::Aliased).ok_or(unknown);
        }
        self.incoming_aliases.set(alias, topic);
        Ok(TopicName::Named(topic))
    }

    /// Whether a message with QoS 1 or 2 is new; a duplicate is answered as its original.
    #[inline]
    fn admit(&mut self, id: PacketId, qos: QoS, dup: bool) -> Result<bool, DecodeError> {
        match self.requests.arrival(id, qos, dup) {
            Arrival::New => {}
            Arrival::Pending => return Ok(false),
            Arrival::Again => {
                // [5: 4.3.3-10, 4.3.3-12]
                self.put_ack(AckKind::PubRec, id, ReasonCode::Success, "");
                return Ok(false);
            }
            Arrival::InUse if self.version.is_v5() => {
                let kind = if qos == QoS::AtLeastOnce { AckKind::PubAck } else { AckKind::PubRec };
                self.put_ack(kind, id, ReasonCode::PacketIdentifierInUse, "");
                return Ok(false);
            }
            // [3: 2.3.1-2]
            Arrival::InUse => return Err(DecodeError::protocol("PUBLISH: the packet identifier is in use")),
        }
        if self.version.is_v5() && self.requests.messages() >= self.config.receive_maximum.max(1) {
            // [5: 3.3.4-7, 3.3.4-8]; 3.x is not read while answers are owed
            let what = "PUBLISH: more unacknowledged messages than the receive maximum";
            return Err(DecodeError { code: ReasonCode::ReceiveMaximumExceeded, what });
        }
        self.requests.insert(
            id,
            match qos {
                QoS::ExactlyOnce => Request::PublishQoS2,
                _ => Request::PublishQoS1,
            },
        );
        Ok(true)
    }

    /// PUBACK, PUBREC, PUBCOMP for our deliveries, PUBREL for the client's.
    #[inline]
    fn on_ack<'a>(&mut self, frame: &Frame<'a>) -> Received<'a> {
        let ack = Ack::decode(frame, self.version)?;
        let step = match ack.kind {
            AckKind::PubRel => return self.on_release(ack.packet_id),
            AckKind::PubAck => Step::PubAck,
            AckKind::PubRec if ack.code.is_error() => Step::PubRecError,
            AckKind::PubRec => Step::PubRec,
            AckKind::PubComp => Step::PubComp,
        };
        let packet_id = ack.packet_id;
        match self.deliveries.state(packet_id).after(step) {
            Next::End => {
                let retains = self.retains_identifiers && step == Step::PubComp;
                let token = if retains { self.deliveries.retain(packet_id) } else { self.deliveries.end(packet_id) };
                let (code, properties) = (ack.code, ack.properties);
                Ok(Some(Event::Acknowledged { packet_id, token, code, properties }))
            }
            Next::To(state) => {
                self.deliveries.set(packet_id, state);
                Ok(Some(Event::Received { packet_id, token: self.deliveries.token(packet_id) }))
            }
            Next::Again => {
                self.put_ack(AckKind::PubRel, packet_id, ReasonCode::Success, "");
                Ok(None)
            }
            Next::Unknown => {
                // The client has a delivery that we do not know: let it end [5: 4.3.3-4].
                self.put_ack(AckKind::PubRel, packet_id, ReasonCode::PacketIdentifierNotFound, "");
                Ok(None)
            }
            Next::Ignore => Ok(None),
            Next::Violation => Err(DecodeError::protocol("an acknowledgement is not the next of its delivery")),
        }
    }

    /// PUBREL [5: 4.3.3-11, 3: 4.3.3-2].
    fn on_release<'a>(&mut self, packet_id: PacketId) -> Received<'a> {
        match self.requests.get(packet_id) {
            Some(Request::Received { counted }) => {
                self.requests.set(packet_id, Request::Released { counted });
                Ok(Some(Event::Released { packet_id }))
            }
            Some(Request::Released { .. }) => Ok(None),
            None => {
                self.put_ack(AckKind::PubComp, packet_id, ReasonCode::PacketIdentifierNotFound, "");
                Ok(None)
            }
            Some(_) => Err(DecodeError::protocol("PUBREL: no PUBREC was sent for this packet identifier")),
        }
    }

    fn on_subscribe<'a>(&mut self, frame: &Frame<'a>) -> Received<'a> {
        let subscribe = Subscribe::decode(frame, self.version)?;
        let count = subscribe.subscriptions().count();
        if self.requests.get(subscribe.packet_id).is_some() {
            let codes = vec![ReasonCode::PacketIdentifierInUse; count];
            let _ = self.put_suback(subscribe.packet_id, &codes, "");
            return Ok(None);
        }
        self.requests.insert(subscribe.packet_id, Request::Subscribe(count as u32));
        Ok(Some(Event::Subscribe(subscribe)))
    }

    fn on_unsubscribe<'a>(&mut self, frame: &Frame<'a>) -> Received<'a> {
        let unsubscribe = Unsubscribe::decode(frame, self.version)?;
        let count = unsubscribe.filters().count();
        if self.requests.get(unsubscribe.packet_id).is_some() {
            let codes = vec![ReasonCode::PacketIdentifierInUse; count];
            let _ = self.put_unsuback(unsubscribe.packet_id, &codes, "");
            return Ok(None);
        }
        self.requests.insert(unsubscribe.packet_id, Request::Unsubscribe(count as u32));
        Ok(Some(Event::Unsubscribe(unsubscribe)))
    }

    /// PINGREQ [5: 3.12.4-1].
    fn on_ping<'a>(&mut self, frame: &Frame<'a>) -> Received<'a> {
        if frame.first != 0xc0 || !frame.body.is_empty() {
            return Err(DecodeError::malformed("PINGREQ: flags or a body"));
        }
        self.trim();
        // [5: 3.1.2-24]
        if self.remote_size_max_bytes >= 2 {
            encode_ping_response(&mut self.output);
        }
        Ok(None)
    }

    /// DISCONNECT (3.14.4).
    fn on_disconnect<'a>(&mut self, frame: &Frame<'a>) -> Received<'a> {
        let Disconnect { code, properties } = Disconnect::decode(frame, self.version)?;
        if !code.goes_with(Carrier::ClientDisconnect) || properties.text(PropertyId::ServerReference).is_some() {
            return Err(DecodeError::protocol("DISCONNECT: a code or a property that only servers send"));
        }
        let expiry = properties.number(PropertyId::SessionExpiryInterval);
        if self.session_expiry_s == 0 && expiry.is_some_and(|seconds| seconds > 0) {
            // 3.14.2.2.2
            return Err(DecodeError::protocol("DISCONNECT: a session expiry, but that of CONNECT was 0"));
        }
        let was_open = self.state == State::Open;
        self.end(Closed::by_client(code, properties, was_open));
        Ok(None)
    }
}
