//! Fields that several performatives have, and the rule for the bytes after one.

use super::MAX_DELIVERY_TAG;
use super::error::{DecodeError, Fault};
use super::reader::Reader;
use crate::types::{ReceiverSettleMode, Role, condition};

/// Only a transfer is followed by a payload.
#[inline]
pub(super) fn no_payload(reader: &Reader<'_>, owner: impl std::fmt::Display) -> Result<(), DecodeError> {
    if reader.is_empty() {
        return Ok(());
    }
    let excess = reader.rest().len();
    Err(DecodeError::new(condition::DECODE_ERROR, format!("{owner}: {excess} bytes follow it in the frame")))
}

/// A settle mode by its number.
pub(super) fn read_rcv_settle_mode(reader: &mut Reader<'_>) -> Result<ReceiverSettleMode, Fault> {
    match reader.ubyte()? {
        0 => Ok(ReceiverSettleMode::First),
        1 => Ok(ReceiverSettleMode::Second),
        _ => Err(Fault::Range("a rcv-settle-mode is 0 (first) or 1 (second)")),
    }
}

/// A role: true is the receiver.
#[inline]
pub(super) fn read_role(reader: &mut Reader<'_>) -> Result<Role, Fault> {
    Ok(if reader.bool()? { Role::Receiver } else { Role::Sender })
}

/// A delivery tag.
#[inline]
pub(super) fn read_delivery_tag<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Fault> {
    let tag = reader.binary()?;
    if tag.len() <= MAX_DELIVERY_TAG { Ok(tag) } else { Err(Fault::Range("a delivery tag has at most 32 bytes")) }
}
