//! The fixed header (2.1): the type of a packet, its flags and its length.

use super::reader::variable;
use super::{DecodeError, ReasonCode};

/// The largest remaining length that the standard can express (2.1.4).
pub const REMAINING_LENGTH_MAX: usize = 268_435_455;

/// One packet of the stream, not yet decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// type in the upper four bits, flags in the lower
    pub first: u8,
    /// variable header and payload
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// The packet type, 0 to 15.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        self.first >> 4
    }
}

/// The packet at the front of `input` and its length in bytes; `None` until it is whole. Its size
/// is judged as soon as the remaining length is readable.
///
/// # Errors
/// Packet Too Large for more than `size_max_bytes` in all (5.0, 3.2.2.3.6), Malformed Packet for an
/// invalid remaining length.
#[inline]
pub fn split(input: &[u8], size_max_bytes: u32) -> Result<Option<(Frame<'_>, usize)>, DecodeError> {
    // Most packets are small: their length is one byte.
    if let [first, length @ 0..=0x7f, rest @ ..] = input
        && let Some(body) = rest.get(..usize::from(*length))
        && body.len() + 2 <= size_max_bytes as usize
    {
        return Ok(Some((Frame { first: *first, body }, body.len() + 2)));
    }
    split_any(input, size_max_bytes)
}

/// Bytes of the whole packet at the front of `input`; `None` until its length is readable, or if it
/// is invalid.
pub(crate) fn packet_size(input: &[u8]) -> Option<usize> {
    let (length, length_bytes) = variable(input.get(1..)?).ok()??;
    Some(1 + length_bytes + length as usize)
}

/// The topic name of the PUBLISH at the front of `input`, if the packet is whole and the name is
/// text. Nothing else of the packet is checked.
#[must_use]
pub fn publish_topic(input: &[u8]) -> Option<&str> {
    let (frame, _) = split(input, u32::MAX).ok()??;
    let length = u16::from_be_bytes(frame.body.get(..2)?.try_into().ok()?);
    std::str::from_utf8(frame.body.get(2..2 + usize::from(length))?).ok()
}

fn split_any(input: &[u8], size_max_bytes: u32) -> Result<Option<(Frame<'_>, usize)>, DecodeError> {
    let Some((first, rest)) = input.split_first() else { return Ok(None) };
    let Some((length, length_bytes)) = variable(rest)? else { return Ok(None) };
    let whole = 1 + length_bytes + length as usize;
    if whole > size_max_bytes as usize {
        let what = "the packet is larger than the maximum packet size";
        return Err(DecodeError { code: ReasonCode::PacketTooLarge, what });
    }
    Ok(input.get(1 + length_bytes..whole).map(|body| (Frame { first: *first, body }, whole)))
}
