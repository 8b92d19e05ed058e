//! Errors of decoding and encoding.

use thiserror::Error as ThisError;

use super::ReasonCode;

/// A packet that is malformed, contradicts the protocol or is too large. The connection ends with
/// `code` (5.0, 4.13) or is closed (3.x).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[error("{what}")]
pub struct DecodeError {
    /// the code of the standard
    pub code: ReasonCode,
    /// the packet, the field and what is wrong with it
    pub what: &'static str,
}

impl DecodeError {
    /// Malformed Packet, 0x81.
    #[cold]
    pub(crate) const fn malformed(what: &'static str) -> Self {
        Self { code: ReasonCode::MalformedPacket, what }
    }

    /// Protocol Error, 0x82.
    #[cold]
    pub(crate) const fn protocol(what: &'static str) -> Self {
        Self { code: ReasonCode::ProtocolError, what }
    }
}

/// A value that has no encoding; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum EncodeError {
    /// a text or binary field is longer than 65,535 bytes (1.5.4, 1.5.6)
    #[error("a field is longer than 65,535 bytes")]
    FieldTooLong,
    /// the packet is longer than the remaining length can say (2.1.4) or than the peer accepts
    #[error("the packet is larger than its receiver accepts")]
    PacketTooLarge,
}
