//! DISCONNECT (3.14) and AUTH (3.15).

use super::fixed::Frame;
use super::properties::{Allowed, PropertyId};
use super::reader::Reader;
use super::reason::Carrier;
use super::writer::{put_header, put_variable, variable_size};
use super::{DecodeError, EncodeError, Properties, ReasonCode, Version};

/// A DISCONNECT packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// success with 3.x
    pub code: ReasonCode,
    /// of 5.0
    pub properties: Properties<'a>,
}

/// An AUTH packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// success, continue or re-authenticate [5: 3.15.2-1]
    pub code: ReasonCode,
    /// method, data, reason string and user properties
    pub properties: Properties<'a>,
}

const DISCONNECT_ALLOWED: Allowed =
    Allowed::once(&[PropertyId::SessionExpiryInterval, PropertyId::ReasonString, PropertyId::ServerReference]);

const AUTH_ALLOWED: Allowed =
    Allowed::once(&[PropertyId::AuthenticationMethod, PropertyId::AuthenticationData, PropertyId::ReasonString]);

impl<'a> Disconnect<'a> {
    /// From its frame, of type 14, sent by either side.
    ///
    /// # Errors
    /// Malformed Packet or Protocol Error.
    pub fn decode(frame: &Frame<'a>, version: Version) -> Result<Self, DecodeError> {
        if frame.first != 0xe0 {
            // [5: 2.1.3-1, 3.14.1-1]
            return Err(DecodeError::malformed("DISCONNECT: a reserved flag is set"));
        }
        if !version.is_v5() && !frame.body.is_empty() {
            return Err(DecodeError::malformed("DISCONNECT: the packet is longer than its fields"));
        }
        let (code, properties) = read(frame.body, DISCONNECT_ALLOWED)?;
        match code.goes_with(Carrier::ClientDisconnect) || code.goes_with(Carrier::ServerDisconnect) {
            true => Ok(Self { code, properties }),
            // [5: 3.14.2-1]
            false => Err(DecodeError::protocol("DISCONNECT: the reason code is not of this packet")),
        }
    }
}

impl<'a> Auth<'a> {
    /// From its frame, of type 15, which exists with 5.0 only.
    ///
    /// # Errors
    /// Malformed Packet or Protocol Error.
    pub fn decode(frame: &Frame<'a>, version: Version) -> Result<Self, DecodeError> {
        if !version.is_v5() {
            return Err(DecodeError::protocol("packet type 15 is reserved"));
        }
        if frame.first != 0xf0 {
            // [5: 3.15.1-1]
            return Err(DecodeError::malformed("AUTH: a reserved flag is set"));
        }
        let (code, properties) = read(frame.body, AUTH_ALLOWED)?;
        use ReasonCode as R;
        match code {
            R::Success | R::ContinueAuthentication | R::ReAuthenticate => Ok(Self { code, properties }),
            // [5: 3.15.2-1]
            _ => Err(DecodeError::protocol("AUTH: the reason code is not of this packet")),
        }
    }

    /// Method of the authentication (4.12).
    #[must_use]
    pub fn method(&self) -> Option<&'a str> {
        self.properties.text(PropertyId::AuthenticationMethod)
    }

    /// Data of the method.
    #[must_use]
    pub fn data(&self) -> Option<&'a [u8]> {
        self.properties.binary(PropertyId::AuthenticationData)
    }
}

/// Code and properties, each of which may be left out.
fn read(body: &[u8], allowed: Allowed) -> Result<(ReasonCode, Properties<'_>), DecodeError> {
    let mut reader = Reader::new(body);
    if reader.is_empty() {
        return Ok((ReasonCode::Success, Properties::NONE));
    }
    let code = ReasonCode::from_u8(reader.u8()?).ok_or(DecodeError::protocol("the reason code is not defined"))?;
    if reader.is_empty() {
        return Ok((code, Properties::NONE));
    }
    let properties = Properties::read(&mut reader, allowed)?;
    match reader.is_empty() {
        true => Ok((code, properties)),
        false => Err(DecodeError::malformed("the packet is longer than its fields")),
    }
}

/// Appends a DISCONNECT; with 3.x without code and properties.
///
/// # Errors
/// The packet is larger than the standard can express; nothing was written.
pub fn encode_disconnect(out: &mut Vec<u8>, disconnect: &Disconnect<'_>, version: Version) -> Result<(), EncodeError> {
    match version {
        Version::V5 => put(out, 0xe0, disconnect.code, disconnect.properties),
        _ => {
            out.extend_from_slice(&[0xe0, 0]);
            Ok(())
        }
    }
}

/// Appends an AUTH.
///
/// # Errors
/// The packet is larger than the standard can express; nothing was written.
pub fn encode_auth(out: &mut Vec<u8>, auth: &Auth<'_>) -> Result<(), EncodeError> {
    put(out, 0xf0, auth.code, auth.properties)
}

fn put(out: &mut Vec<u8>, first: u8, code: ReasonCode, properties: Properties<'_>) -> Result<(), EncodeError> {
    let properties = properties.as_bytes();
    match (code, properties.len()) {
        (ReasonCode::Success, 0) => out.extend_from_slice(&[first, 0]),
        (code, 0) => out.extend_from_slice(&[first, 1, code.as_u8()]),
        (code, length) => {
            put_header(out, first, 1 + variable_size(length) + length)?;
            out.push(code.as_u8());
            put_variable(out, length);
            out.extend_from_slice(properties);
        }
    }
    Ok(())
}
