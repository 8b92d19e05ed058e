//! A message of MQTT as AMQP sections, and back (the table of `docs/guide/mqtt.md`).
//!
//! A message from a client of MQTT is encoded once, when it arrives: every address and every AMQP
//! receiver handles it like any other. On its way to a client of MQTT the sections are decoded.
//! Whatever one protocol has and the other lacks travels as a message annotation, or as a user
//! property whose name begins with `amqp.`, so that it returns unchanged.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use enmasse_amqp::codec::{decode_message, encode_message};
use enmasse_amqp::types::{Body, Fields, Header, Message, MessageId, Properties, Symbol, Value};
use enmasse_mqtt::codec::{Property, PublishProperties, QoS};
use enmasse_mqtt::connection::Incoming;
use enmasse_mqtt::topic::is_topic_name;
use smallvec::smallvec;

use super::outbound::{Outbound, QOS};
use super::plain;
use crate::shard::terms::whole;

/// Message annotation: the message is to be kept as the retained one of its topic (boolean). The
/// original's name.
pub(in crate::shard) const RETAIN: &str = "x-opt-retain-message";
/// Message annotation: its client states that the payload is UTF-8 text (ubyte 1).
const PAYLOAD_FORMAT: &str = "x-opt-mqtt-payload-format";
/// Message annotation: all user properties of MQTT as a list of names and values, if the message
/// without it does not have them in their order [5: 3.3.2-18]: application properties have one value
/// of each name, and properties of AMQP precede them.
const USER_PROPERTIES: &str = "x-opt-mqtt-user-properties";
/// Message annotation: a content type that is not ASCII, which a symbol cannot hold.
const CONTENT_TYPE: &str = "x-opt-mqtt-content-type";

/// User properties that stand for properties of an AMQP message.
const SUBJECT: &str = "amqp.subject";
const MESSAGE_ID: &str = "amqp.message-id";
const GROUP_ID: &str = "amqp.group-id";
const REPLY_TO: &str = "amqp.reply-to";
const PROPERTIES: [&str; 4] = [SUBJECT, MESSAGE_ID, GROUP_ID, REPLY_TO];

/// Bytes of a text or binary field of MQTT (1.5.4, 1.5.6).
const FIELD_BYTES_MAX: usize = 65_535;

/// Appends the AMQP sections of a message that is published at `now_ms`, milliseconds since 1970. An
/// expiry beyond the time to live of AMQP, 49 days, becomes an absolute one.
pub(in crate::shard) fn encode(out: &mut Vec<u8>, publish: &Incoming<'_>, now_ms: u64) {
    let properties = &publish.properties;
    if *properties == PublishProperties::default() && !publish.retain {
        return plain::encode(out, &publish.topic, publish.qos, publish.payload);
    }
    let expiry_ms = properties.message_expiry_s.map(|seconds| u64::from(seconds) * 1000);
    let ttl = expiry_ms.and_then(|ms| u32::try_from(ms).ok());
    let absolute_expiry_time = expiry_ms.filter(|_| ttl.is_none()).map(|ms| (now_ms + ms).cast_signed());
    let mut message = Message {
        header: Some(Header { durable: publish.qos != QoS::AtMostOnce, ttl, ..Header::default() }),
        message_annotations: vec![(Symbol::constant(QOS), Value::Ubyte(publish.qos as u8))],
        properties: Some(Properties {
            to: Some(publish.topic.to_string()),
            reply_to: properties.response_topic.map(str::to_owned),
            correlation_id: properties.correlation_data.map(correlation_id),
            absolute_expiry_time,
            ..Properties::default()
        }),
        body: Body::Data(vec![publish.payload.to_vec()]),
        ..Message::default()
    };
    if publish.retain {
        message.message_annotations.push((Symbol::constant(RETAIN), Value::Bool(true)));
    }
    if properties.payload_is_text {
        message.message_annotations.push((Symbol::constant(PAYLOAD_FORMAT), Value::Ubyte(1)));
    }
    if let (Some(name), Some(known)) = (properties.content_type, &mut message.properties) {
        if name.is_ascii() {
            known.content_type = Some(name.into());
        } else {
            message.message_annotations.push((Symbol::constant(CONTENT_TYPE), Value::String(name.to_owned())));
        }
    }
    take_user_properties(&mut message, publish);
    encode_message(out, &message);
}

fn take_user_properties(message: &mut Message, publish: &Incoming<'_>) {
    let mut is_ordered = true;
    let Some(known) = &mut message.properties else { return };
    for (name, value) in publish.properties.user.iter() {
        is_ordered &= !PROPERTIES.contains(&name);
        let place = match name {
            SUBJECT => &mut known.subject,
            GROUP_ID => &mut known.group_id,
            REPLY_TO => &mut known.reply_to,
            MESSAGE_ID => {
                known.message_id.get_or_insert_with(|| MessageId::String(value.to_owned()));
                continue;
            }
            _ if message.application_properties.iter().any(|(known, _)| known == name) => {
                is_ordered = false;
                continue;
            }
            _ => {
                message.application_properties.push((name.to_owned(), Value::String(value.to_owned())));
                continue;
            }
        };
        place.get_or_insert_with(|| value.to_owned());
    }
    // A single one has its order.
    if !is_ordered && publish.properties.user.iter().nth(1).is_some() {
        let texts = publish.properties.user.iter().flat_map(|(name, value)| [name, value]);
        let pairs = texts.map(|text| Value::String(text.to_owned())).collect();
        message.message_annotations.push((Symbol::constant(USER_PROPERTIES), Value::List(pairs)));
    }
}

/// Clients of AMQP compare correlation ids by type, and most use text.
fn correlation_id(data: &[u8]) -> MessageId {
    match std::str::from_utf8(data) {
        Ok(text) if !text.contains(char::is_control) => MessageId::String(text.to_owned()),
        _ => MessageId::Binary(data.to_vec()),
    }
}

/// Decodes AMQP sections. Bytes that are no message become the payload: direct addresses carry
/// them unread.
pub(in crate::shard) fn decode(sections: &[u8]) -> Outbound<'_> {
    plain::decode(sections).unwrap_or_else(|| decode_any(sections))
}

fn decode_any(sections: &[u8]) -> Outbound<'_> {
    let Ok(message) = decode_message(sections) else {
        return Outbound { payload: smallvec![Cow::Borrowed(sections)], ..Outbound::default() };
    };
    let header = message.header.unwrap_or_default();
    let annotation = |name: &str| value_of(&message.message_annotations, name);
    let mut out = Outbound {
        qos: match annotation(QOS) {
            // Clients of AMQP often write any integer as a long.
            Some(qos) => whole(qos).and_then(|qos| QoS::from_bits(qos.try_into().ok()?)).unwrap_or_default(),
            _ if header.durable => QoS::AtLeastOnce,
            _ => QoS::AtMostOnce,
        },
        retain: annotation(RETAIN) == Some(&Value::Bool(true)),
        // Rounded up: 0 would be expired.
        expiry_s: header.ttl.map(|ttl_ms| ttl_ms.div_ceil(1000)),
        payload_is_text: matches!(annotation(PAYLOAD_FORMAT), Some(Value::Ubyte(1))),
        content_type: match annotation(CONTENT_TYPE) {
            Some(Value::String(name)) => Some(name.clone()),
            _ => None,
        },
        ..Outbound::default()
    };
    let pairs = match annotation(USER_PROPERTIES) {
        Some(Value::List(pairs)) => &pairs[..],
        _ => &[],
    };
    out.take_properties(message.properties.unwrap_or_default());
    for (name, value) in &message.application_properties {
        out.add_user(name, &text_of(value));
    }
    out.take_ordered(pairs);
    out.take_body(message.body);
    out
}

fn value_of<'a>(fields: &'a Fields, name: &str) -> Option<&'a Value> {
    fields.iter().find(|(key, _)| key.as_str() == name).map(|(_, value)| value)
}

impl Outbound<'_> {
    fn take_properties(&mut self, properties: Properties) {
        self.topic = properties.to.filter(|to| is_topic_name(to)).map(Cow::Owned);
        match properties.reply_to {
            Some(reply_to) if is_topic_name(&reply_to) => self.response_topic = Some(reply_to),
            Some(reply_to) => self.add_user(REPLY_TO, &reply_to),
            None => {}
        }
        if let Some(content_type) = properties.content_type {
            self.content_type.get_or_insert_with(|| content_type.to_string());
        }
        // A responder copies the message id where the request has no correlation id.
        let answers = self.response_topic.is_some();
        let message_id = properties.message_id;
        let correlation = properties.correlation_id.or_else(|| message_id.clone().filter(|_| answers));
        self.correlation_data = correlation.map(bytes_of).filter(|data| data.len() <= FIELD_BYTES_MAX);
        if let Some(id) = message_id {
            self.add_user(MESSAGE_ID, &String::from_utf8_lossy(&bytes_of(id)));
        }
        for (name, value) in [(SUBJECT, properties.subject), (GROUP_ID, properties.group_id)] {
            if let Some(value) = value {
                self.add_user(name, &value);
            }
        }
    }

    /// Puts the user properties in the order of the list. Those that it lacks follow: the message
    /// may have changed since.
    fn take_ordered(&mut self, pairs: &[Value]) {
        if pairs.is_empty() {
            return;
        }
        let found = std::mem::take(&mut self.user);
        let mut listed = HashSet::new();
        for pair in pairs.chunks_exact(2) {
            if let [Value::String(name), Value::String(value)] = pair {
                listed.insert((&name[..], &value[..]));
                self.add_user(name, value);
            }
        }
        for (name, value) in found.as_user().iter().filter(|pair| !listed.contains(pair)) {
            self.add_user(name, value);
        }
    }

    /// Adds a user property, unless MQTT has no encoding for it: a text holds no NUL [5: 1.5.4-2]
    /// and at most 65,535 bytes.
    fn add_user(&mut self, name: &str, value: &str) {
        if !name.contains('\0') && !value.contains('\0') {
            // An error means that a text is too long, and nothing was added.
            let _ = self.user.push(Property::User(name, value));
        }
    }

    fn take_body(&mut self, body: Body) {
        match body {
            Body::Data(parts) => self.payload = parts.into_iter().map(Cow::Owned).collect(),
            Body::Value(Value::Binary(bytes)) => self.payload = smallvec![Cow::Owned(bytes)],
            Body::Value(Value::Null) | Body::Empty => {}
            Body::Value(value @ (Value::List(_) | Value::Map(_) | Value::Array(_))) => self.take_json(&value),
            Body::Value(value) => {
                self.payload_is_text = true;
                self.payload = smallvec![Cow::Owned(text_of(&value).into_bytes())];
            }
            Body::Sequence(sections) => self.take_json(&Value::List(sections.into_iter().flatten().collect())),
        }
    }

    fn take_json(&mut self, value: &Value) {
        self.payload_is_text = true;
        self.content_type.get_or_insert_with(|| "application/json".to_owned());
        self.payload = smallvec![Cow::Owned(json_of(value).to_string().into_bytes())];
    }
}

fn bytes_of(id: MessageId) -> Vec<u8> {
    match id {
        MessageId::String(text) => text.into_bytes(),
        MessageId::Binary(bytes) => bytes,
        MessageId::Ulong(number) => number.to_string().into_bytes(),
        MessageId::Uuid(bytes) => uuid_text(&bytes).into_bytes(),
    }
}

fn uuid_text(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The text of a simple value; JSON of a compound one.
fn text_of(value: &Value) -> String {
    match json_of(value) {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}

fn json_of(value: &Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Ubyte(number) => (*number).into(),
        Value::Ushort(number) => (*number).into(),
        Value::Uint(number) => (*number).into(),
        Value::Ulong(number) => (*number).into(),
        Value::Byte(number) => (*number).into(),
        Value::Short(number) => (*number).into(),
        Value::Int(number) => (*number).into(),
        Value::Long(number) | Value::Timestamp(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Double(number) => (*number).into(),
        Value::Decimal32(bytes) => hex(bytes).into(),
        Value::Decimal64(bytes) => hex(bytes).into(),
        Value::Decimal128(bytes) => hex(bytes).into(),
        Value::Char(character) => character.to_string().into(),
        Value::Uuid(bytes) => uuid_text(bytes).into(),
        Value::Binary(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => hex(bytes).into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Symbol(symbol) => symbol.as_str().into(),
        Value::List(values) | Value::Array(values) => values.iter().map(json_of).collect::<Vec<_>>().into(),
        Value::Map(entries) => {
            Json::Object(entries.iter().map(|(key, value)| (text_of(key), json_of(value))).collect())
        }
        Value::Described(pair) => json_of(&pair.1),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use enmasse_mqtt::codec::PropertyBuffer;
    use enmasse_mqtt::connection::TopicName;
    use proptest::prelude::*;

    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn publish<'a>(topic: &'a str, qos: QoS, payload: &'a [u8]) -> Incoming<'a> {
        let (topic, properties) = (TopicName::Named(topic), PublishProperties::default());
        Incoming { topic, dup: false, qos, retain: false, packet_id: None, properties, payload }
    }

    /// The sections of a message, by the encoder of the standard.
    fn standard(publish: &Incoming<'_>) -> Vec<u8> {
        let durable = publish.qos != QoS::AtMostOnce;
        let message = Message {
            header: durable.then(|| Header { durable, ..Header::default() }),
            message_annotations: vec![(Symbol::constant(QOS), Value::Ubyte(publish.qos as u8))],
            properties: Some(Properties { to: Some(publish.topic.to_string()), ..Properties::default() }),
            body: Body::Data(vec![publish.payload.to_vec()]),
            ..Message::default()
        };
        let mut bytes = Vec::new();
        encode_message(&mut bytes, &message);
        bytes
    }

    proptest! {
        #[test]
        fn plain_message_is_encoded_and_decoded_like_any_other(
            topic in "[a-z/]{1,300}",
            qos in 0_u8..3,
            payload in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let publish = publish(&topic, QoS::from_bits(qos).unwrap(), &payload);
            let mut bytes = Vec::new();
            encode(&mut bytes, &publish, NOW_MS);
            prop_assert_eq!(&bytes, &standard(&publish));
            prop_assert_eq!(plain::decode(&bytes), Some(decode_any(&bytes)));
        }

        #[test]
        fn message_that_is_not_plain_is_left_to_the_general_decoder(
            subject in prop::option::of("[a-z]{1,9}"),
            ttl in prop::option::of(any::<u32>()),
            count in 0_u32..3,
            value in any::<bool>(),
        ) {
            let body = if value { Body::Value(Value::Uint(7)) } else { Body::Data(vec![b"x".to_vec()]) };
            let message = Message {
                header: Some(Header { ttl, delivery_count: count, ..Header::default() }),
                properties: Some(Properties { to: Some("a".to_owned()), subject, ..Properties::default() }),
                body,
                ..Message::default()
            };
            let mut bytes = Vec::new();
            encode_message(&mut bytes, &message);
            if let Some(found) = plain::decode(&bytes) {
                prop_assert_eq!(found, decode_any(&bytes));
            }
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            decode(&bytes);
        }
    }

    #[test]
    fn topic_of_any_length_has_the_shortest_encoding() {
        for length in 1..=300 {
            let topic = "a".repeat(length);
            let publish = publish(&topic, QoS::AtLeastOnce, b"x");
            let mut bytes = Vec::new();
            encode(&mut bytes, &publish, NOW_MS);
            assert_eq!(bytes, standard(&publish), "length {length}");
        }
    }

    /// [5: 3.3.2-17] [5: 3.3.2-18]
    #[test]
    fn properties_of_mqtt_return_unchanged() {
        let mut user = PropertyBuffer::default();
        let sent = [("unit", "C"), ("amqp.subject", "reading"), ("unit", "F"), ("", ""), ("amqp.subject", "2")];
        for (name, value) in sent {
            user.push(Property::User(name, value)).unwrap();
        }
        let properties = PublishProperties {
            payload_is_text: true,
            message_expiry_s: Some(60),
            response_topic: Some("replies/1"),
            correlation_data: Some(b"\x00\x01"),
            content_type: Some("text/plain; charset=\u{fc}"),
            user: user.as_user(),
            ..PublishProperties::default()
        };
        let publish = Incoming { retain: true, properties, ..publish("a/b", QoS::ExactlyOnce, b"x") };
        let mut bytes = Vec::new();
        encode(&mut bytes, &publish, NOW_MS);
        let found = decode(&bytes);
        assert_eq!((found.qos, found.topic.as_deref(), found.retain), (QoS::ExactlyOnce, Some("a/b"), true));
        let told = found.properties(&[]);
        assert_eq!((told.payload_is_text, told.message_expiry_s), (true, Some(60)));
        assert_eq!((told.response_topic, told.correlation_data), (Some("replies/1"), Some(&b"\x00\x01"[..])));
        assert_eq!(told.content_type, publish.properties.content_type);
        assert_eq!(told.user.iter().collect::<Vec<_>>(), sent);
    }
    #[test]
    fn message_expires_when_its_client_says_however_late() {
        for (seconds, ttl, absolute) in [
            (60, Some(60_000), None),
            (4_294_967, Some(4_294_967_000), None),
            (u32::MAX, None, Some(1_700_000_000_000 + 4_294_967_295_000)),
        ] {
            let properties = PublishProperties { message_expiry_s: Some(seconds), ..PublishProperties::default() };
            let mut bytes = Vec::new();
            encode(&mut bytes, &Incoming { properties, ..publish("a", QoS::AtLeastOnce, b"x") }, NOW_MS);
            let message = decode_message(&bytes).unwrap();
            let found = message.properties.and_then(|properties| properties.absolute_expiry_time);
            assert_eq!((message.header.and_then(|header| header.ttl), found), (ttl, absolute));
        }
    }
}
