//! Fields appended to a buffer. Lengths are checked before anything is written, by `Size`.

use super::EncodeError;
use super::fixed::REMAINING_LENGTH_MAX;

/// Bytes of a variable byte integer.
#[inline]
pub(crate) const fn variable_size(value: usize) -> usize {
    match value {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        _ => 4,
    }
}

/// Appends a variable byte integer; at most 268,435,455.
#[inline]
pub(crate) fn put_variable(out: &mut Vec<u8>, mut value: usize) {
    debug_assert!(value <= REMAINING_LENGTH_MAX);
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
pub(crate) fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a text or binary field, whose length `field_size` has checked.
#[inline]
pub(crate) fn put_field(out: &mut Vec<u8>, field: &[u8]) {
    debug_assert!(field.len() <= usize::from(u16::MAX));
    put_u16(out, field.len() as u16);
    out.extend_from_slice(field);
}

/// Bytes of a text or binary field with its length.
///
/// # Errors
/// It is longer than 65,535 bytes.
#[inline]
pub(crate) const fn field_size(field: &[u8]) -> Result<usize, EncodeError> {
    match field.len() <= u16::MAX as usize {
        true => Ok(2 + field.len()),
        false => Err(EncodeError::FieldTooLong),
    }
}

/// Appends the fixed header for a body of `length` bytes.
///
/// # Errors
/// The body is longer than the standard can express.
#[inline]
pub(crate) fn put_header(out: &mut Vec<u8>, first: u8, length: usize) -> Result<(), EncodeError> {
    if length > REMAINING_LENGTH_MAX {
        return Err(EncodeError::PacketTooLarge);
    }
    out.reserve(5 + length);
    out.push(first);
    put_variable(out, length);
    Ok(())
}
