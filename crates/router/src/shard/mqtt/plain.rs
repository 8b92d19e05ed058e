//! The plain message of MQTT, with a topic and a payload only: encoded and decoded in place, as most
//! are. `message` handles all others, and is the judge of this file in its tests.

use std::borrow::Cow;

use enmasse_amqp::codec::scan::{Elements, Scalar, sections};
use enmasse_mqtt::codec::QoS;
use enmasse_mqtt::topic::is_topic_name;
use smallvec::smallvec;

use super::outbound::{Outbound, QOS};

/// Numbers of sections (3.2).
mod section {
    pub(in crate::shard) const HEADER: u64 = 0x70;
    pub(in crate::shard) const MESSAGE_ANNOTATIONS: u64 = 0x72;
    pub(in crate::shard) const PROPERTIES: u64 = 0x73;
    pub(in crate::shard) const DATA: u64 = 0x75;
}

/// Constructors of the encodings that are written here (part 1, 1.6).
mod code {
    pub(in crate::shard) const TRUE: u8 = 0x41;
    pub(in crate::shard) const NULL: u8 = 0x40;
    pub(in crate::shard) const UBYTE: u8 = 0x50;
    pub(in crate::shard) const BINARY_8: u8 = 0xa0;
    pub(in crate::shard) const BINARY_32: u8 = 0xb0;
    pub(in crate::shard) const STRING_8: u8 = 0xa1;
    pub(in crate::shard) const STRING_32: u8 = 0xb1;
    pub(in crate::shard) const SYMBOL_8: u8 = 0xa3;
    pub(in crate::shard) const LIST_8: u8 = 0xc0;
    pub(in crate::shard) const LIST_32: u8 = 0xd0;
    pub(in crate::shard) const MAP_8: u8 = 0xc1;
}

/// Appends the sections of a plain message.
pub(in crate::shard) fn encode(out: &mut Vec<u8>, topic: &str, qos: QoS, payload: &[u8]) {
    out.reserve(topic.len() + payload.len() + 64);
    if qos != QoS::AtMostOnce {
        out.extend_from_slice(&[0, 0x53, section::HEADER as u8, code::LIST_8, 2, 1, code::TRUE]);
    }
    let name = QOS.as_bytes();
    let size = (1 + 2 + name.len() + 2) as u8;
    out.extend_from_slice(&[0, 0x53, section::MESSAGE_ANNOTATIONS as u8, code::MAP_8, size, 2]);
    out.extend_from_slice(&[code::SYMBOL_8, name.len() as u8]);
    out.extend_from_slice(name);
    out.extend_from_slice(&[code::UBYTE, qos as u8]);
    out.extend_from_slice(&[0, 0x53, section::PROPERTIES as u8]);
    let text_size = topic.len() + if topic.len() <= 255 { 2 } else { 5 };
    match u8::try_from(1 + 2 + text_size) {
        Ok(size) => out.extend_from_slice(&[code::LIST_8, size, 3]),
        Err(_) => {
            out.push(code::LIST_32);
            out.extend_from_slice(&(4 + 2 + text_size as u32).to_be_bytes());
            out.extend_from_slice(&3_u32.to_be_bytes());
        }
    }
    out.extend_from_slice(&[code::NULL, code::NULL]);
    match u8::try_from(topic.len()) {
        Ok(length) => out.extend_from_slice(&[code::STRING_8, length]),
        Err(_) => {
            out.push(code::STRING_32);
            out.extend_from_slice(&(topic.len() as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(topic.as_bytes());
    out.extend_from_slice(&[0, 0x53, section::DATA as u8]);
    match u8::try_from(payload.len()) {
        Ok(length) => out.extend_from_slice(&[code::BINARY_8, length]),
        Err(_) => {
            out.push(code::BINARY_32);
            out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

/// Decodes a message that has nothing but durability, expiry, QoS, `to` and one data section.
/// `None`: it has more, or is none.
pub(in crate::shard) fn decode(message: &[u8]) -> Option<Outbound<'_>> {
    let mut found = Outbound::default();
    let mut qos = None;
    let (mut durable, mut has_body) = (false, false);
    for section in sections(message) {
        let section = section.ok().filter(|_| !has_body)?;
        match section.code {
            section::HEADER => (durable, found.expiry_s) = header(section.value)?,
            section::MESSAGE_ANNOTATIONS => qos = Some(annotations(section.value)?),
            section::PROPERTIES => found.topic = to(section.value)?.filter(|to| is_topic_name(to)).map(Cow::Borrowed),
            section::DATA => {
                found.payload = smallvec![Cow::Borrowed(binary(section.value)?)];
                has_body = true;
            }
            _ => return None,
        }
    }
    found.qos = qos.unwrap_or(if durable { QoS::AtLeastOnce } else { QoS::AtMostOnce });
    has_body.then_some(found)
}

/// Durability, and the time to live in seconds.
fn header(value: &[u8]) -> Option<(bool, Option<u32>)> {
    let mut fields = Elements::of_list(value).ok()?;
    let mut next = || if fields.left() > 0 { fields.scalar().ok() } else { Some(Scalar::Null) };
    let durable = matches!(next()?, Scalar::Bool(true));
    next()?;
    let ttl_ms = match next()? {
        Scalar::Null => None,
        Scalar::Unsigned(ttl_ms) => Some(u32::try_from(ttl_ms).ok()?),
        _ => return None,
    };
    Some((durable, ttl_ms.map(|ttl_ms| ttl_ms.div_ceil(1000))))
}

/// The QoS of the publication, which is the only annotation.
fn annotations(value: &[u8]) -> Option<QoS> {
    let mut entries = Elements::of_map(value).ok().filter(|entries| entries.left() == 2)?;
    match (entries.key().ok()? == QOS.as_bytes(), entries.scalar().ok()?) {
        (true, Scalar::Unsigned(qos)) => QoS::from_bits(u8::try_from(qos).ok()?),
        _ => None,
    }
}

/// `to`, which is the only property.
fn to(value: &[u8]) -> Option<Option<&str>> {
    let mut fields = Elements::of_list(value).ok()?;
    let mut to = None;
    for index in 0..fields.left() {
        let encoded = fields.encoded().ok()?;
        if encoded == [code::NULL] {
            continue;
        }
        if index != 2 {
            return None;
        }
        to = Some(match encoded {
            [code::STRING_8, _, text @ ..] | [code::STRING_32, _, _, _, _, text @ ..] => {
                std::str::from_utf8(text).ok()?
            }
            _ => return None,
        });
    }
    Some(to)
}

fn binary(value: &[u8]) -> Option<&[u8]> {
    match value {
        [code::BINARY_8, _, bytes @ ..] | [code::BINARY_32, _, _, _, _, bytes @ ..] => Some(bytes),
        _ => None,
    }
}
