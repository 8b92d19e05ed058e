//! A message that is received in parts, in the layout of a batch. Once it is complete it needs no
//! further copy or pass, whatever its size.

use super::frame::HEAD_BYTES;
use super::record::HEAD_BYTES_MAX;

/// Space for the meta of a message of one queue: a count, the queue, a number, and the head.
pub(super) const META_BYTES: usize = (1 + 5 + 10 + 1 + HEAD_BYTES_MAX).next_multiple_of(8);
/// Bytes before the body.
const ROOM_BYTES: usize = HEAD_BYTES + META_BYTES;

/// The parts received so far, behind space for the head of the record. The checksum is updated with
/// each part.
#[derive(Debug, Default)]
pub struct AssembledBody {
    bytes: Vec<u8>,
    crc: u32,
}

impl AssembledBody {
    /// The next part.
    pub fn push(&mut self, part: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes.reserve(ROOM_BYTES + part.len());
            self.bytes.resize(ROOM_BYTES, 0);
        }
        self.crc = crc32c::crc32c_append(self.crc, part);
        self.bytes.extend_from_slice(part);
    }

    /// All parts.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        self.bytes.get(ROOM_BYTES..).unwrap_or_default()
    }

    pub(super) fn crc(&self) -> u32 {
        self.crc
    }

    /// Space for head and meta, then the body.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
