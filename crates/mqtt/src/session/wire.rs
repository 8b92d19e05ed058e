//! The encoding of sessions: a format byte, then fields in the manner of MQTT (texts with two bytes
//! of length, counts as variable byte integers).

use thiserror::Error as ThisError;

use super::{Session, StoredSubscription, StoredWill};
use crate::codec::fixed::REMAINING_LENGTH_MAX;
use crate::codec::reader::Reader;
use crate::codec::writer::{put_field, put_variable};
use crate::codec::{DecodeError, QoS, SubscriptionOptions};

/// Bytes that are no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[error("session record: {what}")]
pub struct SessionDecodeError {
    /// the field and what is wrong with it
    pub what: &'static str,
}

impl From<DecodeError> for SessionDecodeError {
    fn from(error: DecodeError) -> Self {
        Self { what: error.what }
    }
}

/// The only format.
const FORMAT: u8 = 2;

/// Bits of the options of a subscription or a will that name optional fields.
const PRESENT: u8 = 0x80;

impl Session {
    /// Appends the session. Filters, topic and payload have at most 65,535 bytes, as MQTT allows.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        out.extend_from_slice(&self.expiry_s.to_be_bytes());
        put_variable(out, self.subscriptions.len());
        self.subscriptions.iter().for_each(|subscription| put_subscription(out, subscription));
        out.push(u8::from(self.will.is_some()));
        if let Some(will) = &self.will {
            put_will(out, will);
        }
    }

    /// Reads a session that `encode` wrote.
    ///
    /// # Errors
    /// The bytes are no session, or more than one.
    pub fn decode(bytes: &[u8]) -> Result<Self, SessionDecodeError> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != FORMAT {
            return Err(SessionDecodeError { what: "the format is not known" });
        }
        let mut session = Self { expiry_s: reader.u32()?, ..Self::default() };
        for _ in 0..reader.variable()? {
            session.subscriptions.push(read_subscription(&mut reader)?);
        }
        session.will = match reader.u8()? {
            0 => None,
            1 => Some(read_will(&mut reader)?),
            _ => return Err(SessionDecodeError { what: "the will is neither there nor missing" }),
        };
        end(&reader)?;
        Ok(session)
    }
}

fn end(reader: &Reader<'_>) -> Result<(), SessionDecodeError> {
    match reader.is_empty() {
        true => Ok(()),
        false => Err(SessionDecodeError { what: "bytes follow the last field" }),
    }
}

fn put_subscription(out: &mut Vec<u8>, subscription: &StoredSubscription) {
    put_field(out, subscription.filter.as_bytes());
    let options = subscription.options.to_bits();
    match subscription.subscription_id {
        None => out.push(options),
        Some(id) => {
            out.push(options | PRESENT);
            put_variable(out, id as usize);
        }
    }
}

fn read_subscription(reader: &mut Reader<'_>) -> Result<StoredSubscription, SessionDecodeError> {
    let filter = reader.text()?.to_owned();
    let bits = reader.u8()?;
    let subscription_id = if bits & PRESENT == 0 { None } else { Some(reader.variable()?) };
    let unknown = SessionDecodeError { what: "the options of a subscription are not known" };
    let options = SubscriptionOptions::from_bits(bits & !PRESENT).ok_or(unknown)?;
    Ok(StoredSubscription { filter, options, subscription_id })
}

/// Bits of a will's first byte beside its QoS.
const RETAIN: u8 = 0x04;
const MESSAGE: u8 = 0x08;

fn put_will(out: &mut Vec<u8>, will: &StoredWill) {
    debug_assert!(will.properties.len() <= REMAINING_LENGTH_MAX);
    let flags = [(will.retain, RETAIN), (will.is_message, MESSAGE)];
    let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |bits, (_, bit)| bits | bit);
    out.push(will.qos as u8 | flags);
    out.extend_from_slice(&will.delay_s.to_be_bytes());
    put_field(out, will.topic.as_bytes());
    put_field(out, &will.payload);
    put_variable(out, will.properties.len());
    out.extend_from_slice(&will.properties);
}

fn read_will(reader: &mut Reader<'_>) -> Result<StoredWill, SessionDecodeError> {
    let bits = reader.u8()?;
    let qos = QoS::from_bits(bits & !(RETAIN | MESSAGE))
        .ok_or(SessionDecodeError { what: "the options of a will are not known" })?;
    let delay_s = reader.u32()?;
    let (topic, payload) = (reader.text()?.to_owned(), reader.binary()?.to_owned());
    let length = reader.variable()?;
    let properties = reader.bytes(length as usize)?.to_owned();
    let (retain, is_message) = (bits & RETAIN != 0, bits & MESSAGE != 0);
    Ok(StoredWill { topic, payload, qos, retain, delay_s, properties, is_message })
}
