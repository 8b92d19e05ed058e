//! SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK (3.8 to 3.11).

use super::fixed::Frame;
use super::properties::{Allowed, PropertyId};
use super::reader::Reader;
use super::writer::{field_size, put_field, put_header, put_u16, put_variable, variable_size};
use super::{DecodeError, EncodeError, PacketId, Properties, QoS, ReasonCode, Version};

/// A SUBSCRIBE packet: at least one filter [5: 3.8.3-2].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// of the SUBACK
    pub packet_id: PacketId,
    /// of 5.0: subscription identifier and user properties
    pub properties: Properties<'a>,
    version: Version,
    payload: &'a [u8],
}

/// One filter of a SUBSCRIBE and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// UTF-8; `topic::Filter::parse` judges it
    pub filter: &'a str,
    /// what is wanted of its messages
    pub options: SubscriptionOptions,
}

/// Subscription options (3.8.3.1). With 3.x only the QoS is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SubscriptionOptions {
    /// the highest QoS of messages to the client
    pub qos: QoS,
    /// not those that the client itself has published
    pub no_local: bool,
    /// keep the RETAIN flag of forwarded messages
    pub retain_as_published: bool,
    /// when to send retained messages
    pub retain_handling: RetainHandling,
}

/// When to send retained messages (3.8.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RetainHandling {
    /// at each SUBSCRIBE [5: 3.3.1-9]
    #[default]
    Send = 0,
    /// if the subscription is new [5: 3.3.1-10]
    SendIfNew = 1,
    /// never [5: 3.3.1-11]
    DoNotSend = 2,
}

impl SubscriptionOptions {
    /// Bits of the options as in the packet.
    #[must_use]
    pub const fn to_bits(self) -> u8 {
        self.qos as u8
            | (self.no_local as u8) << 2
            | (self.retain_as_published as u8) << 3
            | (self.retain_handling as u8) << 4
    }

    /// From the bits of the packet, as of 5.0; `None` if they have no meaning [5: 3.8.3-5].
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        let Some(qos) = QoS::from_bits(bits & 3) else { return None };
        let retain_handling = match bits >> 4 {
            0 => RetainHandling::Send,
            1 => RetainHandling::SendIfNew,
            2 => RetainHandling::DoNotSend,
            _ => return None,
        };
        Some(Self { qos, no_local: bits & 4 != 0, retain_as_published: bits & 8 != 0, retain_handling })
    }
}

/// The name of filters of shared subscriptions begins so (4.8.2).
const SHARE: &str = "$share/";

const SUBSCRIBE_ALLOWED: Allowed = Allowed::once(&[PropertyId::SubscriptionIdentifier]);
const UNSUBSCRIBE_ALLOWED: Allowed = Allowed::once(&[]);
const ANSWER_ALLOWED: Allowed = Allowed::once(&[PropertyId::ReasonString]);

impl<'a> Subscribe<'a> {
    /// From its frame, of type 8.
    ///
    /// # Errors
    /// Malformed Packet or Protocol Error, by the statement named at each check.
    pub fn decode(frame: &Frame<'a>, version: Version) -> Result<Self, DecodeError> {
        check_flags(frame, version)?;
        let mut reader = Reader::new(frame.body);
        let packet_id = reader.packet_id()?;
        let properties = match version {
            Version::V5 => Properties::read(&mut reader, SUBSCRIBE_ALLOWED)?,
            _ => Properties::NONE,
        };
        let payload = reader.rest();
        if payload.is_empty() {
            // [5: 3.8.3-2]
            return Err(DecodeError::protocol("SUBSCRIBE: there is no topic filter"));
        }
        while !reader.is_empty() {
            let subscription = read_subscription(&mut reader, version)?;
            if subscription.options.no_local && subscription.filter.starts_with(SHARE) {
                // [5: 3.8.3-4]
                return Err(DecodeError::protocol("SUBSCRIBE: no local with a shared subscription"));
            }
        }
        Ok(Self { packet_id, properties, version, payload })
    }

    /// The subscription identifier of all its filters (3.8.2.1.2).
    #[must_use]
    pub fn subscription_id(&self) -> Option<u32> {
        self.properties.number(PropertyId::SubscriptionIdentifier)
    }

    /// Its filters in order.
    pub fn subscriptions(&self) -> impl Iterator<Item = Subscription<'a>> + use<'a> {
        let (mut reader, version) = (Reader::new(self.payload), self.version);
        std::iter::from_fn(move || match reader.is_empty() {
            true => None,
            false => read_subscription(&mut reader, version).ok(),
        })
    }
}

fn read_subscription<'a>(reader: &mut Reader<'a>, version: Version) -> Result<Subscription<'a>, DecodeError> {
    let filter = reader.text()?;
    let bits = reader.u8()?;
    let options = match version {
        Version::V5 => SubscriptionOptions::from_bits(bits),
        // [3: 3-8.3-4]
        _ => QoS::from_bits(bits).map(|qos| SubscriptionOptions { qos, ..SubscriptionOptions::default() }),
    };
    let options = options.ok_or(DecodeError::malformed("SUBSCRIBE: invalid subscription options"))?;
    Ok(Subscription { filter, options })
}

/// Flags of SUBSCRIBE and UNSUBSCRIBE [5: 2.1.3-1, 3.8.1-1, 3.10.1-1]. 3.1 has a DUP flag there.
fn check_flags(frame: &Frame<'_>, version: Version) -> Result<(), DecodeError> {
    match frame.first & 0x0f {
        0x02 => Ok(()),
        0x0a if version == Version::V31 => Ok(()),
        _ => Err(DecodeError::malformed("SUBSCRIBE or UNSUBSCRIBE: invalid flags")),
    }
}

/// An UNSUBSCRIBE packet: at least one filter [5: 3.10.3-2].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// of the UNSUBACK
    pub packet_id: PacketId,
    /// of 5.0: user properties
    pub properties: Properties<'a>,
    payload: &'a [u8],
}

impl<'a> Unsubscribe<'a> {
    /// From its frame, of type 10.
    ///
    /// # Errors
    /// Malformed Packet or Protocol Error.
    pub fn decode(frame: &Frame<'a>, version: Version) -> Result<Self, DecodeError> {
        check_flags(frame, version)?;
        let mut reader = Reader::new(frame.body);
        let packet_id = reader.packet_id()?;
        let properties = match version {
            Version::V5 => Properties::read(&mut reader, UNSUBSCRIBE_ALLOWED)?,
            _ => Properties::NONE,
        };
        let payload = reader.rest();
        if payload.is_empty() {
            // [5: 3.10.3-2]
            return Err(DecodeError::protocol("UNSUBSCRIBE: there is no topic filter"));
        }
        while !reader.is_empty() {
            reader.text()?;
        }
        Ok(Self { packet_id, properties, payload })
    }

    /// Its filters in order.
    pub fn filters(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut reader = Reader::new(self.payload);
        std::iter::from_fn(move || if reader.is_empty() { None } else { reader.text().ok() })
    }
}

/// A SUBACK or an UNSUBACK packet, as clients receive it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubAck<'a> {
    /// of the request
    pub packet_id: PacketId,
    /// reason string and user properties
    pub properties: Properties<'a>,
    codes: &'a [u8],
}

impl<'a> SubAck<'a> {
    /// From its frame, of type 9 or 11.
    ///
    /// # Errors
    /// Malformed Packet or Protocol Error.
    pub fn decode(frame: &Frame<'a>, version: Version) -> Result<Self, DecodeError> {
        if frame.first & 0x0f != 0 {
            return Err(DecodeError::malformed("SUBACK or UNSUBACK: a reserved flag is set"));
        }
        let mut reader = Reader::new(frame.body);
        let packet_id = reader.packet_id()?;
        let properties = match version {
            Version::V5 => Properties::read(&mut reader, ANSWER_ALLOWED)?,
            _ => Properties::NONE,
        };
        let codes = reader.rest();
        match codes.iter().all(|code| ReasonCode::from_u8(*code).is_some()) {
            true => Ok(Self { packet_id, properties, codes }),
            false => Err(DecodeError::protocol("SUBACK or UNSUBACK: a reason code is not defined")),
        }
    }

    /// One code for each filter; none in an UNSUBACK of 3.x.
    pub fn codes(&self) -> impl Iterator<Item = ReasonCode> + use<'a> {
        self.codes.iter().filter_map(|code| ReasonCode::from_u8(*code))
    }
}

/// Appends a SUBSCRIBE, as clients send.
///
/// # Errors
/// A filter is longer than 65,535 bytes; nothing was written.
pub fn encode_subscribe<'a>(
    out: &mut Vec<u8>,
    packet_id: PacketId,
    properties: Properties<'_>,
    subscriptions: impl Iterator<Item = Subscription<'a>> + Clone,
    version: Version,
) -> Result<(), EncodeError> {
    let mut body = 0;
    for subscription in subscriptions.clone() {
        body += field_size(subscription.filter.as_bytes())? + 1;
    }
    put_request(out, 0x82, packet_id, properties, body, version)?;
    for subscription in subscriptions {
        put_field(out, subscription.filter.as_bytes());
        out.push(match version {
            Version::V5 => subscription.options.to_bits(),
            _ => subscription.options.qos as u8,
        });
    }
    Ok(())
}

/// Appends an UNSUBSCRIBE, as clients send.
///
/// # Errors
/// A filter is longer than 65,535 bytes; nothing was written.
pub fn encode_unsubscribe<'a>(
    out: &mut Vec<u8>,
    packet_id: PacketId,
    properties: Properties<'_>,
    filters: impl Iterator<Item = &'a str> + Clone,
    version: Version,
) -> Result<(), EncodeError> {
    let mut body = 0;
    for filter in filters.clone() {
        body += field_size(filter.as_bytes())?;
    }
    put_request(out, 0xa2, packet_id, properties, body, version)?;
    for filter in filters {
        put_field(out, filter.as_bytes());
    }
    Ok(())
}

/// Header, packet identifier and properties in front of `payload` bytes.
fn put_request(
    out: &mut Vec<u8>,
    first: u8,
    packet_id: PacketId,
    properties: Properties<'_>,
    payload: usize,
    version: Version,
) -> Result<(), EncodeError> {
    let properties = properties.as_bytes();
    let mut body = 2 + payload;
    if version.is_v5() {
        body += variable_size(properties.len()) + properties.len();
    }
    put_header(out, first, body)?;
    put_u16(out, packet_id.get());
    if version.is_v5() {
        put_variable(out, properties.len());
        out.extend_from_slice(properties);
    }
    Ok(())
}

/// Appends a SUBACK: one code for each filter [5: 3.8.4-6]. With 3.x every failure is 0x80
/// [3: 3.9.3-2] and the text is left out; with 5.0 it is left out if the packet would be larger
/// than `size_max_bytes` [5: 3.9.2-1].
///
/// # Errors
/// The packet is larger than `size_max_bytes` even without the text, or the text than 65,535 bytes;
/// nothing was written.
pub fn encode_suback(
    out: &mut Vec<u8>,
    packet_id: PacketId,
    codes: &[ReasonCode],
    text: &str,
    version: Version,
    size_max_bytes: u32,
) -> Result<(), EncodeError> {
    put_answer(out, 0x90, packet_id, codes.len(), text, version, size_max_bytes)?;
    out.extend(codes.iter().map(|code| match version {
        Version::V5 => code.as_u8(),
        _ if code.is_error() => ReasonCode::UnspecifiedError.as_u8(),
        _ => code.as_u8(),
    }));
    Ok(())
}

/// Appends an UNSUBACK; with 3.x without codes.
///
/// # Errors
/// As `encode_suback` [5: 3.11.2-1].
pub fn encode_unsuback(
    out: &mut Vec<u8>,
    packet_id: PacketId,
    codes: &[ReasonCode],
    text: &str,
    version: Version,
    size_max_bytes: u32,
) -> Result<(), EncodeError> {
    let count = if version.is_v5() { codes.len() } else { 0 };
    put_answer(out, 0xb0, packet_id, count, text, version, size_max_bytes)?;
    out.extend(codes.iter().take(count).map(|code| code.as_u8()));
    Ok(())
}

/// All of an answer but its codes.
fn put_answer(
    out: &mut Vec<u8>,
    first: u8,
    packet_id: PacketId,
    codes: usize,
    text: &str,
    version: Version,
    size_max_bytes: u32,
) -> Result<(), EncodeError> {
    let fits = |body: usize| 1 + variable_size(body) + body <= size_max_bytes as usize;
    let text_size = field_size(text.as_bytes())?;
    let mut properties = if text.is_empty() || !version.is_v5() { 0 } else { 1 + text_size };
    let length = if version.is_v5() { 1 } else { 0 };
    if !fits(2 + variable_size(properties) + properties + codes) {
        properties = 0;
    }
    if !fits(2 + length + codes) {
        return Err(EncodeError::PacketTooLarge);
    }
    let body = 2 + length * variable_size(properties) + properties + codes;
    put_header(out, first, body)?;
    put_u16(out, packet_id.get());
    if version.is_v5() {
        put_variable(out, properties);
    }
    if properties > 0 {
        out.push(PropertyId::ReasonString as u8);
        put_field(out, text.as_bytes());
    }
    Ok(())
}
