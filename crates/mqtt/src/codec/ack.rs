//! PUBACK, PUBREC, PUBREL, PUBCOMP (3.4 to 3.7): packets of one form.

use super::fixed::Frame;
use super::properties::{Allowed, PropertyId};
use super::reader::Reader;
use super::reason::Carrier;
use super::writer::{field_size, put_field, put_header, put_u16, put_variable, variable_size};
use super::{DecodeError, EncodeError, PacketId, Properties, ReasonCode, Version};

/// Which of the four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AckKind {
    /// answers QoS 1
    PubAck = 4,
    /// first answer to QoS 2
    PubRec = 5,
    /// its sender's release
    PubRel = 6,
    /// last answer to QoS 2
    PubComp = 7,
}

impl AckKind {
    /// Type and flags of the fixed header (2.1.2, 2.1.3).
    const fn first(self) -> u8 {
        (self as u8) << 4 | if matches!(self, Self::PubRel) { 2 } else { 0 }
    }

    /// Whose codes it carries.
    const fn carrier(self) -> Carrier {
        match self {
            Self::PubAck | Self::PubRec => Carrier::PublishAnswer,
            Self::PubRel | Self::PubComp => Carrier::Release,
        }
    }
}

/// An acknowledgement of a PUBLISH or of another acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// which packet
    pub kind: AckKind,
    /// of the PUBLISH
    pub packet_id: PacketId,
    /// success with 3.x
    pub code: ReasonCode,
    /// reason string and user properties
    pub properties: Properties<'a>,
}

const ALLOWED: Allowed = Allowed::once(&[PropertyId::ReasonString]);

impl<'a> Ack<'a> {
    /// From its frame, of type 4 to 7.
    ///
    /// # Errors
    /// Malformed Packet or Protocol Error.
    #[inline]
    pub fn decode(frame: &Frame<'a>, version: Version) -> Result<Self, DecodeError> {
        let kind = match frame.kind() {
            4 => AckKind::PubAck,
            5 => AckKind::PubRec,
            6 => AckKind::PubRel,
            _ => AckKind::PubComp,
        };
        // 3.1 has a DUP flag, and QoS 1, in the header of PUBREL (3.1, 2.1).
        let flags_differ = frame.first != kind.first();
        if flags_differ && !(version == Version::V31 && kind == AckKind::PubRel && frame.first & !0x08 == kind.first())
        {
            // [5: 2.1.3-1, 3.6.1-1]
            return Err(DecodeError::malformed("an acknowledgement has invalid flags"));
        }
        let mut reader = Reader::new(frame.body);
        let packet_id = reader.packet_id()?;
        let (mut code, mut properties) = (ReasonCode::Success, Properties::NONE);
        if version.is_v5() && !reader.is_empty() {
            code = ReasonCode::from_u8(reader.u8()?)
                .filter(|code| code.goes_with(kind.carrier()))
                .ok_or(DecodeError::protocol("an acknowledgement has an undefined reason code"))?;
            if !reader.is_empty() {
                properties = Properties::read(&mut reader, ALLOWED)?;
            }
        }
        match reader.is_empty() {
            true => Ok(Self { kind, packet_id, code, properties }),
            false => Err(DecodeError::malformed("an acknowledgement is longer than its fields")),
        }
    }
}

/// Appends an acknowledgement. With 3.x code and text are left out; with 5.0 the text is left out
/// if the packet would be larger than `size_max_bytes` [5: 3.4.2-2, 3.5.2-2, 3.6.2-2, 3.7.2-2].
///
/// # Errors
/// The text is longer than 65,535 bytes; nothing was written.
#[inline]
pub fn encode_ack(
    out: &mut Vec<u8>,
    kind: AckKind,
    packet_id: PacketId,
    (code, text): (ReasonCode, &str),
    version: Version,
    size_max_bytes: u32,
) -> Result<(), EncodeError> {
    let [high, low] = packet_id.get().to_be_bytes();
    if !version.is_v5() || (code == ReasonCode::Success && text.is_empty()) {
        // The code and the properties may be left out (3.4.2.1).
        out.extend_from_slice(&[kind.first(), 2, high, low]);
        return Ok(());
    }
    debug_assert!(code.goes_with(kind.carrier()), "{kind:?} with {code:?}");
    let properties = 1 + field_size(text.as_bytes())?;
    let body = 3 + variable_size(properties) + properties;
    if text.is_empty() || 1 + variable_size(body) + body > size_max_bytes as usize {
        out.extend_from_slice(&[kind.first(), 3, high, low, code.as_u8()]);
        return Ok(());
    }
    put_header(out, kind.first(), body)?;
    put_u16(out, packet_id.get());
    out.push(code.as_u8());
    put_variable(out, properties);
    out.push(PropertyId::ReasonString as u8);
    put_field(out, text.as_bytes());
    Ok(())
}
