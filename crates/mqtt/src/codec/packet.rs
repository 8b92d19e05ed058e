//! Any packet.

use super::fixed::Frame;
use super::{Ack, Auth, ConnAck, Connect, DecodeError, Disconnect, Publish, SubAck, Subscribe, Unsubscribe, Version};

/// A decoded packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the standard")]
pub enum Packet<'a> {
    Connect(Connect<'a>),
    ConnAck(ConnAck<'a>),
    Publish(Publish<'a>),
    /// PUBACK, PUBREC, PUBREL or PUBCOMP
    Ack(Ack<'a>),
    Subscribe(Subscribe<'a>),
    SubAck(SubAck<'a>),
    Unsubscribe(Unsubscribe<'a>),
    UnsubAck(SubAck<'a>),
    PingReq,
    PingResp,
    Disconnect(Disconnect<'a>),
    Auth(Auth<'a>),
}

/// Decodes a packet of either direction. `version` is that of the CONNECT, which decides for
/// itself.
///
/// # Errors
/// The code of the standard for a malformed packet.
pub fn decode<'a>(frame: &Frame<'a>, version: Version) -> Result<Packet<'a>, DecodeError> {
    Ok(match frame.kind() {
        1 => Packet::Connect(Connect::decode(frame)?),
        2 => Packet::ConnAck(ConnAck::decode(frame, version)?),
        3 => Packet::Publish(Publish::decode(frame, version)?),
        4..=7 => Packet::Ack(Ack::decode(frame, version)?),
        8 => Packet::Subscribe(Subscribe::decode(frame, version)?),
        9 => Packet::SubAck(SubAck::decode(frame, version)?),
        10 => Packet::Unsubscribe(Unsubscribe::decode(frame, version)?),
        11 => Packet::UnsubAck(SubAck::decode(frame, version)?),
        12 => ping(frame, Packet::PingReq)?,
        13 => ping(frame, Packet::PingResp)?,
        14 => Packet::Disconnect(Disconnect::decode(frame, version)?),
        15 => Packet::Auth(Auth::decode(frame, version)?),
        _ => return Err(DecodeError::malformed("packet type 0 is reserved")),
    })
}

fn ping<'a>(frame: &Frame<'a>, packet: Packet<'a>) -> Result<Packet<'a>, DecodeError> {
    match frame.first & 0x0f == 0 && frame.body.is_empty() {
        true => Ok(packet),
        false => Err(DecodeError::malformed("PINGREQ or PINGRESP: flags or a body")),
    }
}

/// Appends a PINGREQ (3.12).
pub fn encode_ping_request(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0xc0, 0]);
}

/// Appends a PINGRESP (3.13).
pub fn encode_ping_response(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0xd0, 0]);
}
