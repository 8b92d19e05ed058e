//! The encoding of sessions and changes: a format byte, then fields in the manner of MQTT (texts
//! with two bytes of length, counts as variable byte integers).

use thiserror::Error as ThisError;

use super::{Change, Session, StoredSubscription, StoredWill};
use crate::codec::fixed::REMAINING_LENGTH_MAX;
use crate::codec::reader::Reader;
use crate::codec::writer::{put_field, put_u16, put_variable};
use crate::codec::{DecodeError, PacketId, QoS, SubscriptionOptions};
use crate::connection::{OutgoingDelivery, Stage};

/// Bytes that are no session and no change.
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

/// The only format so far.
const FORMAT: u8 = 1;

/// Bits of the options of a subscription or a will that name optional fields.
const PRESENT: u8 = 0x80;

/// First byte of a change.
mod kind {
    pub(super) const EXPIRY: u8 = 1;
    pub(super) const SUBSCRIBED: u8 = 2;
    pub(super) const UNSUBSCRIBED: u8 = 3;
    pub(super) const WILL_SET: u8 = 4;
    pub(super) const WILL_CLEARED: u8 = 5;
    pub(super) const RESERVED: u8 = 6;
    pub(super) const DELIVERY_RECEIVED: u8 = 7;
    pub(super) const DELIVERY_ENDED: u8 = 8;
    pub(super) const RECEIVED: u8 = 9;
    pub(super) const RELEASED: u8 = 10;
}

impl Session {
    /// Appends the session. Filters, topic and payload have at most 65,535 bytes, as MQTT allows.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        out.extend_from_slice(&self.expiry_s.to_be_bytes());
        put_variable(out, self.subscriptions.len());
        self.subscriptions.iter().for_each(|subscription| put_subscription(out, subscription));
        put_variable(out, self.in_flight.outgoing.len());
        for delivery in &self.in_flight.outgoing {
            put_u16(out, delivery.packet_id.get());
            out.extend_from_slice(&delivery.token.to_be_bytes());
            out.push(delivery.stage as u8);
        }
        put_variable(out, self.in_flight.received.len());
        self.in_flight.received.iter().for_each(|id| put_u16(out, id.get()));
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
        for _ in 0..reader.variable()? {
            session.in_flight.outgoing.push(read_delivery(&mut reader)?);
        }
        for _ in 0..reader.variable()? {
            session.in_flight.received.push(reader.packet_id()?);
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

impl Change {
    /// Appends the change.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let with_id = |out: &mut Vec<u8>, kind: u8, id: PacketId| {
            out.push(kind);
            put_u16(out, id.get());
        };
        match self {
            Self::Expiry(seconds) => {
                out.push(kind::EXPIRY);
                out.extend_from_slice(&seconds.to_be_bytes());
            }
            Self::Subscribed(subscription) => {
                out.push(kind::SUBSCRIBED);
                put_subscription(out, subscription);
            }
            Self::Unsubscribed(filter) => {
                out.push(kind::UNSUBSCRIBED);
                put_field(out, filter.as_bytes());
            }
            Self::WillSet(will) => {
                out.push(kind::WILL_SET);
                put_will(out, will);
            }
            Self::WillCleared => out.push(kind::WILL_CLEARED),
            Self::Reserved { packet_id, token } => {
                with_id(out, kind::RESERVED, *packet_id);
                out.extend_from_slice(&token.to_be_bytes());
            }
            Self::DeliveryReceived(id) => with_id(out, kind::DELIVERY_RECEIVED, *id),
            Self::DeliveryEnded(id) => with_id(out, kind::DELIVERY_ENDED, *id),
            Self::Received(id) => with_id(out, kind::RECEIVED, *id),
            Self::Released(id) => with_id(out, kind::RELEASED, *id),
        }
    }

    /// Reads a change that `encode` wrote.
    ///
    /// # Errors
    /// The bytes are no change, or more than one.
    pub fn decode(bytes: &[u8]) -> Result<Self, SessionDecodeError> {
        let mut reader = Reader::new(bytes);
        let change = match reader.u8()? {
            kind::EXPIRY => Self::Expiry(reader.u32()?),
            kind::SUBSCRIBED => Self::Subscribed(read_subscription(&mut reader)?),
            kind::UNSUBSCRIBED => Self::Unsubscribed(reader.text()?.to_owned()),
            kind::WILL_SET => Self::WillSet(Box::new(read_will(&mut reader)?)),
            kind::WILL_CLEARED => Self::WillCleared,
            kind::RESERVED => Self::Reserved { packet_id: reader.packet_id()?, token: read_token(&mut reader)? },
            kind::DELIVERY_RECEIVED => Self::DeliveryReceived(reader.packet_id()?),
            kind::DELIVERY_ENDED => Self::DeliveryEnded(reader.packet_id()?),
            kind::RECEIVED => Self::Received(reader.packet_id()?),
            kind::RELEASED => Self::Released(reader.packet_id()?),
            _ => return Err(SessionDecodeError { what: "the kind of the change is not known" }),
        };
        end(&reader)?;
        Ok(change)
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

fn read_delivery(reader: &mut Reader<'_>) -> Result<OutgoingDelivery, SessionDecodeError> {
    let (packet_id, token) = (reader.packet_id()?, read_token(reader)?);
    let stage = match reader.u8()? {
        0 => Stage::Published,
        1 => Stage::Received,
        _ => return Err(SessionDecodeError { what: "the stage of a delivery is not known" }),
    };
    Ok(OutgoingDelivery { packet_id, token, stage })
}

fn read_token(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    Ok(u64::from(reader.u32()?) << 32 | u64::from(reader.u32()?))
}

/// Bit of a will's first byte beside its QoS.
const RETAIN: u8 = 0x04;

fn put_will(out: &mut Vec<u8>, will: &StoredWill) {
    debug_assert!(will.properties.len() <= REMAINING_LENGTH_MAX);
    out.push(will.qos as u8 | if will.retain { RETAIN } else { 0 });
    out.extend_from_slice(&will.delay_s.to_be_bytes());
    put_field(out, will.topic.as_bytes());
    put_field(out, &will.payload);
    put_variable(out, will.properties.len());
    out.extend_from_slice(&will.properties);
}

fn read_will(reader: &mut Reader<'_>) -> Result<StoredWill, SessionDecodeError> {
    let bits = reader.u8()?;
    let qos =
        QoS::from_bits(bits & !RETAIN).ok_or(SessionDecodeError { what: "the options of a will are not known" })?;
    let delay_s = reader.u32()?;
    let (topic, payload) = (reader.text()?.to_owned(), reader.binary()?.to_owned());
    let length = reader.variable()?;
    let properties = reader.bytes(length as usize)?.to_owned();
    Ok(StoredWill { topic, payload, qos, retain: bits & RETAIN != 0, delay_s, properties })
}
