//! Encoding of numbers: fixed-size little-endian, and varints (seven bits a byte, low bits first,
//! at most ten bytes).

/// Append a varint.
pub(super) fn put_varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// Decodes values from the front of a byte slice. Every method returns `None` if the slice is too
/// short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Take<'a> {
    rest: &'a [u8],
}

impl<'a> Take<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not taken yet.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    #[inline]
    pub(super) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        // Most numbers have one byte.
        if let [byte @ 0..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Some((*byte).into());
        }
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A varint that fits a `u32`.
    #[inline]
    pub(super) fn varint_u32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    /// Bytes with their length before them as a varint.
    pub(super) fn length_prefixed(&mut self) -> Option<&'a [u8]> {
        let len = self.varint_u32()?;
        self.bytes(len as usize)
    }
}

/// The `u32` at an offset; the caller has checked the length.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Write a `u32` at an offset.
pub(super) fn set_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}
