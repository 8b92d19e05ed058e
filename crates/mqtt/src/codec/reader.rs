//! A cursor over the bytes of one packet.

use std::num::NonZeroU16;

use super::{DecodeError, PacketId};

/// Reads fields from the front of a packet's body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

/// The end of the packet was reached within a field.
const TRUNCATED: DecodeError = DecodeError::malformed("the packet ends within a field");

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All that is left.
    #[inline]
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.bytes.split_at_checked(length).ok_or(TRUNCATED)?;
        self.bytes = rest;
        Ok(head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.bytes.split_first().ok_or(TRUNCATED)?;
        self.bytes = rest;
        Ok(*first)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        let (head, rest) = self.bytes.split_first_chunk().ok_or(TRUNCATED)?;
        self.bytes = rest;
        Ok(u16::from_be_bytes(*head))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        let (head, rest) = self.bytes.split_first_chunk().ok_or(TRUNCATED)?;
        self.bytes = rest;
        Ok(u32::from_be_bytes(*head))
    }

    /// A packet identifier [5: 2.2.1-2, 2.2.1-3].
    #[inline]
    pub(crate) fn packet_id(&mut self) -> Result<PacketId, DecodeError> {
        PacketId::new(self.u16()?).ok_or(DecodeError::protocol("the packet identifier is 0"))
    }

    /// Binary data (1.5.6).
    #[inline]
    pub(crate) fn binary(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.u16()?;
        self.bytes(usize::from(length))
    }

    /// A UTF-8 encoded string (1.5.4) [5: 1.5.4-1, 1.5.4-2]. U+FEFF is kept [5: 1.5.4-3].
    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        text_of(self.binary()?)
    }

    /// A variable byte integer (1.5.5).
    #[inline]
    pub(crate) fn variable(&mut self) -> Result<u32, DecodeError> {
        // Identifiers and lengths of properties have one byte in practice.
        if let [byte @ 0..=0x7f, rest @ ..] = self.bytes {
            self.bytes = rest;
            return Ok(u32::from(*byte));
        }
        match variable(self.bytes)? {
            Some((value, length)) => {
                self.bytes = &self.bytes[length..];
                Ok(value)
            }
            None => Err(TRUNCATED),
        }
    }
}

/// A text without ill-formed sequences and without U+0000.
#[inline]
pub(crate) fn text_of(bytes: &[u8]) -> Result<&str, DecodeError> {
    let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::malformed("a string is not UTF-8"))?;
    match contains_any(bytes, [0]) {
        true => Err(DecodeError::malformed("a string contains U+0000")),
        false => Ok(text),
    }
}

/// Whether any of these bytes occurs. Eight bytes at a time, as topics are too short for a search
/// that has to be called.
#[inline]
pub(crate) fn contains_any<const N: usize>(bytes: &[u8], wanted: [u8; N]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (words, rest) = bytes.as_chunks();
    let mut found = 0;
    for word in words {
        let word = u64::from_ne_bytes(*word);
        for byte in wanted {
            // The lowest byte that becomes 0 sets its upper bit here; no other sets one before it.
            let differs = word ^ (ONES * u64::from(byte));
            found |= differs.wrapping_sub(ONES) & !differs & ONES << 7;
        }
    }
    found != 0 || rest.iter().any(|byte| wanted.contains(byte))
}

/// A variable byte integer at the front of `bytes`, and its length; `None`: more bytes are
/// necessary. The shortest encoding is required [5: 1.5.5-1].
#[inline]
pub(crate) fn variable(bytes: &[u8]) -> Result<Option<(u32, usize)>, DecodeError> {
    let mut value = 0;
    for (place, byte) in bytes.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return match *byte == 0 && place > 0 {
                true => Err(DecodeError::malformed("a variable byte integer is longer than necessary")),
                false => Ok(Some((value, place + 1))),
            };
        }
    }
    match bytes.len() < 4 {
        true => Ok(None),
        false => Err(DecodeError::malformed("a variable byte integer has more than four bytes")),
    }
}

const _: () = assert!(size_of::<Option<PacketId>>() == size_of::<NonZeroU16>());
