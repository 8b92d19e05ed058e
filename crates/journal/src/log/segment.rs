//! The first 4 KiB of a segment: the header identifies the segment; the seal of a full segment
//! holds the end of its records and the offset of its index.
//!
//! ```text
//!    0, 2048  header  magic "EnMasLog", version, segment, salt, CRC
//! 1024, 3072  seal    magic "EnMasEnd", segment, salt, end, index offset, index bytes, index CRC, CRC
//! 4096        records up to `end`, then the index
//! ```
//!
//! Header and seal are each stored twice, so both survive one flipped bit or torn sector. The
//! header is written with the first records of the segment, once the previous segment is durable.
//! A segment with a header therefore proves that all earlier segments are complete. A file without
//! a header of its own number is a spare.

use super::wire::{set_u32, u32_at};

/// Version of the format that this code reads and writes.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes before the first record.
pub(super) const BLOCK_BYTES: usize = 4096;

const HEADER_MAGIC: &[u8; 8] = b"EnMasLog";
const HEADER_AT: [usize; 2] = [0, 2048];
const HEADER_BYTES: usize = 24;
const SEAL_MAGIC: &[u8; 8] = b"EnMasEnd";
const SEAL_AT: [usize; 2] = [1024, 3072];
const SEAL_BYTES: usize = 36;

/// The contents of a first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderState {
    /// A segment of this log, with its salt.
    Used { salt: u32 },
    /// A segment of another format.
    OtherVersion { version: u32 },
    /// No header for this number: a spare.
    Spare,
}

/// The end of the records of a full segment and the location of its index; `index_len` is 0 if the
/// segment has no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    pub(super) end: u32,
    pub(super) index_at: u32,
    pub(super) index_len: u32,
    pub(super) index_crc: u32,
}

/// The first block of a new segment.
pub(super) fn first_block(segment: u32, salt: u32) -> [u8; BLOCK_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(HEADER_MAGIC);
    set_u32(&mut header, 8, FORMAT_VERSION);
    set_u32(&mut header, 12, segment);
    set_u32(&mut header, 16, salt);
    let crc = crc32c::crc32c(&header[..20]);
    set_u32(&mut header, 20, crc);
    let mut block = [0; BLOCK_BYTES];
    for at in HEADER_AT {
        block[at..at + HEADER_BYTES].copy_from_slice(&header);
    }
    block
}

/// The first block of a sealed segment.
pub(super) fn sealed_block(segment: u32, salt: u32, seal: Seal) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; SEAL_BYTES];
    bytes[..8].copy_from_slice(SEAL_MAGIC);
    for (at, value) in (8..).step_by(4).zip([segment, salt, seal.end, seal.index_at, seal.index_len, seal.index_crc]) {
        set_u32(&mut bytes, at, value);
    }
    let crc = crc32c::crc32c(&bytes[..32]);
    set_u32(&mut bytes, 32, crc);
    let mut block = first_block(segment, salt);
    for at in SEAL_AT {
        block[at..at + SEAL_BYTES].copy_from_slice(&bytes);
    }
    block
}

/// Read the header of segment `segment`.
pub(super) fn open(block: &[u8; BLOCK_BYTES], segment: u32) -> HeaderState {
    let headers = HEADER_AT.map(|at| &block[at..at + HEADER_BYTES]);
    let is_valid =
        |header: &&&[u8]| header[..8] == *HEADER_MAGIC && crc32c::crc32c(&header[..20]) == u32_at(header, 20);
    for header in headers.iter().filter(is_valid) {
        if u32_at(header, 8) != FORMAT_VERSION {
            return HeaderState::OtherVersion { version: u32_at(header, 8) };
        }
        if u32_at(header, 12) == segment {
            return HeaderState::Used { salt: u32_at(header, 16) };
        }
    }
    // A later format may change the layout, but not the offsets of magic and version.
    let versions = headers.map(|header| (header[..8] == *HEADER_MAGIC).then(|| u32_at(header, 8)));
    match versions {
        [Some(one), Some(other)] if one == other && one != FORMAT_VERSION => HeaderState::OtherVersion { version: one },
        _ => HeaderState::Spare,
    }
}

/// Read the seal of a segment, if it has one.
pub(super) fn seal(block: &[u8; BLOCK_BYTES], segment: u32, salt: u32) -> Option<Seal> {
    SEAL_AT.iter().map(|&at| &block[at..at + SEAL_BYTES]).find_map(|bytes| {
        let is_valid = bytes[..8] == *SEAL_MAGIC
            && crc32c::crc32c(&bytes[..32]) == u32_at(bytes, 32)
            && u32_at(bytes, 8) == segment
            && u32_at(bytes, 12) == salt;
        is_valid.then(|| Seal {
            end: u32_at(bytes, 16),
            index_at: u32_at(bytes, 20),
            index_len: u32_at(bytes, 24),
            index_crc: u32_at(bytes, 28),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEAL: Seal = Seal { end: 9000, index_at: 9000, index_len: 77, index_crc: 5 };

    #[test]
    fn segment_header_holds_number_salt_and_seal() {
        let block = sealed_block(4, 99, SEAL);
        assert_eq!(open(&block, 4), HeaderState::Used { salt: 99 });
        assert_eq!(seal(&block, 4, 99), Some(SEAL));
        assert_eq!(open(&block, 5), HeaderState::Spare);
        assert_eq!(seal(&block, 5, 99), None);
        assert_eq!(seal(&first_block(4, 99), 4, 99), None);
    }

    #[test]
    fn segment_header_survives_any_flipped_bit() {
        for bit in 0..BLOCK_BYTES * 8 {
            let mut block = sealed_block(4, 99, SEAL);
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&block, 4), HeaderState::Used { salt: 99 });
            assert_eq!(seal(&block, 4, 99), Some(SEAL));
        }
    }

    #[test]
    fn unknown_segment_format_is_reported() {
        let mut block = first_block(4, 99);
        for at in HEADER_AT {
            set_u32(&mut block, at + 8, 2);
        }
        assert_eq!(open(&block, 4), HeaderState::OtherVersion { version: 2 });
    }
}
