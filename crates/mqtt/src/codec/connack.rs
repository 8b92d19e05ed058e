//! CONNACK (3.2).

use super::fixed::Frame;
use super::properties::{Allowed, PropertyId};
use super::reader::Reader;
use super::writer::{put_header, put_variable, variable_size};
use super::{DecodeError, EncodeError, Properties, ReasonCode, Version};

/// A CONNACK packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnAck<'a> {
    /// the server has the session of this client id
    pub session_present: bool,
    /// a reason code with 5.0; a return code with 3.x
    pub code: u8,
    /// of 5.0
    pub properties: Properties<'a>,
}

const ALLOWED: Allowed = Allowed::once(&[
    PropertyId::SessionExpiryInterval,
    PropertyId::ReceiveMaximum,
    PropertyId::MaximumQoS,
    PropertyId::RetainAvailable,
    PropertyId::MaximumPacketSize,
    PropertyId::AssignedClientIdentifier,
    PropertyId::TopicAliasMaximum,
    PropertyId::ReasonString,
    PropertyId::WildcardSubscriptionAvailable,
    PropertyId::SubscriptionIdentifierAvailable,
    PropertyId::SharedSubscriptionAvailable,
    PropertyId::ServerKeepAlive,
    PropertyId::ResponseInformation,
    PropertyId::ServerReference,
    PropertyId::AuthenticationMethod,
    PropertyId::AuthenticationData,
]);

impl<'a> ConnAck<'a> {
    /// From its frame, of type 2, as clients receive it.
    ///
    /// # Errors
    /// Malformed Packet or Protocol Error.
    pub fn decode(frame: &Frame<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(frame.body);
        let (flags, code) = (reader.u8()?, reader.u8()?);
        if frame.first != 0x20 || flags > 1 {
            // [5: 2.1.3-1, 3.2.2-1]
            return Err(DecodeError::malformed("CONNACK: a reserved flag is set"));
        }
        if version.is_v5() && ReasonCode::from_u8(code).is_none() || !version.is_v5() && code > 5 {
            return Err(DecodeError::protocol("CONNACK: the reason code is not defined"));
        }
        let properties = match version {
            Version::V5 if !reader.is_empty() => Properties::read(&mut reader, ALLOWED)?,
            _ => Properties::NONE,
        };
        match reader.is_empty() {
            true => Ok(Self { session_present: flags == 1, code, properties }),
            false => Err(DecodeError::malformed("CONNACK: the packet is longer than its fields")),
        }
    }
}

/// Appends a CONNACK; its properties are left out with 3.x.
///
/// # Errors
/// The packet is larger than the standard can express; nothing was written.
pub fn encode_connack(out: &mut Vec<u8>, connack: &ConnAck<'_>, version: Version) -> Result<(), EncodeError> {
    let properties = connack.properties.as_bytes();
    let body = match version {
        Version::V5 => 2 + variable_size(properties.len()) + properties.len(),
        _ => 2,
    };
    put_header(out, 0x20, body)?;
    out.extend_from_slice(&[u8::from(connack.session_present), connack.code]);
    if version.is_v5() {
        put_variable(out, properties.len());
        out.extend_from_slice(properties);
    }
    Ok(())
}
