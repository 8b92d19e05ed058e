//! The frame of a record, its checksum, and the repair of a single flipped bit.
//!
//! ```text
//!  0  u32  head CRC   CRC-32C over 4..24 and meta, begun with the segment's salt and the frame's offset
//!  4  u16  magic      drawn from the salt
//!  6  u8   kind
//!  7  u8   flags      1 more of the group follows, 2 a copy
//!  8  u32  meta bytes
//! 12  u32  body bytes
//! 16  u32  body CRC   CRC-32C over the body, without salt: the sender's thread computes it
//! 20  u32  synced     durable bytes of this segment when the frame was written
//! 24  meta, body, zeros up to a multiple of 8
//! ```
//!
//! Numbers are little-endian. Each segment has its own salt, which is never reused, and the same
//! bytes have a different CRC under a different salt. Old bytes of a recycled segment therefore
//! never pass the check. Clients do not know the salt, so no message body can imitate a record
//! while a scan searches for frames.

use super::wire::{set_u32, u32_at};

/// Bytes of a frame before its meta.
pub(super) const HEAD_BYTES: usize = 24;
/// Frames begin at multiples of this.
pub(super) const ALIGN: usize = 8;
/// More of the group follows.
pub(super) const MORE: u8 = 1;
/// The message is a copy made by compaction.
pub(super) const COPY: u8 = 2;
/// Only in an index: the body is known to be damaged.
pub(super) const DAMAGED: u8 = 4;

const POLYNOMIAL: u32 = 0x82F6_3B78;

/// Length with padding.
pub(super) fn padded(len: usize) -> usize {
    len.next_multiple_of(ALIGN)
}

/// The contents of a frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) meta_len: u32,
    pub(super) body_len: u32,
    pub(super) body_crc: u32,
    pub(super) synced: u32,
}

impl Head {
    /// Bytes of the frame without padding; `None` if no segment could hold it.
    pub(super) fn frame_len(&self) -> Option<u32> {
        (HEAD_BYTES as u32).checked_add(self.meta_len)?.checked_add(self.body_len)
    }

    /// Appends the head without magic and CRC, which `stamp` adds.
    pub(super) fn put(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&[0; 6]);
        into.extend_from_slice(&[self.kind, self.flags]);
        into.extend_from_slice(&self.meta_len.to_le_bytes());
        into.extend_from_slice(&self.body_len.to_le_bytes());
        into.extend_from_slice(&self.body_crc.to_le_bytes());
        into.extend_from_slice(&self.synced.to_le_bytes());
    }

    fn take(bytes: &[u8]) -> Self {
        Self {
            kind: bytes[6],
            flags: bytes[7],
            meta_len: u32_at(bytes, 8),
            body_len: u32_at(bytes, 12),
            body_crc: u32_at(bytes, 16),
            synced: u32_at(bytes, 20),
        }
    }
}

/// The salt of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Salt(pub(super) u32);

impl Salt {
    /// The salt of a segment of a log with this secret: different for each number.
    pub(super) fn of(secret: u32, segment: u32) -> Self {
        Self(secret.wrapping_add(segment))
    }

    /// The magic number of the segment's frames.
    pub(super) fn magic(self) -> [u8; 2] {
        ((self.0.wrapping_mul(0x9E37_79B1) >> 16) as u16 | 1).to_le_bytes()
    }

    fn crc_seed(self, offset: u32) -> u32 {
        // The seed is unique by salt for each offset, and by offset for each salt.
        self.0 ^ (offset / ALIGN as u32).wrapping_mul(0x85EB_CA6B)
    }
}

/// Completes the head of a frame for its location. `frame` has at least head and meta.
pub(super) fn stamp(frame: &mut [u8], meta_len: usize, salt: Salt, offset: u32, synced: u32) {
    frame[4..6].copy_from_slice(&salt.magic());
    set_u32(frame, 20, synced);
    let crc = crc32c::crc32c_append(salt.crc_seed(offset), &frame[4..HEAD_BYTES + meta_len]);
    set_u32(frame, 0, crc);
}

/// The head of a complete frame, if its magic and CRC are valid. `bytes` begins at the frame and
/// may be longer.
pub(super) fn check(bytes: &[u8], salt: Salt, offset: u32) -> Option<Head> {
    if bytes.len() < HEAD_BYTES || bytes[4..6] != salt.magic() {
        return None;
    }
    let head = Head::take(bytes);
    let end = HEAD_BYTES.checked_add(head.meta_len as usize)?;
    let covered = bytes.get(4..end)?;
    (crc32c::crc32c_append(salt.crc_seed(offset), covered) == u32_at(bytes, 0)).then_some(head)
}

/// Corrects a single flipped bit in a frame's head or meta, if that makes the checksum valid.
///
/// Changes `bytes` only where it succeeds. Random bytes pass with a chance of about 1 in 2^40, so
/// call this only where a frame must lie, never while searching for one.
pub(super) fn repair(bytes: &mut [u8], salt: Salt, offset: u32) -> Option<Head> {
    if bytes.len() < HEAD_BYTES {
        return None;
    }
    let magic = u16::from_le_bytes([bytes[4], bytes[5]]) ^ u16::from_le_bytes(salt.magic());
    if magic.count_ones() > 1 {
        return None;
    }
    if magic != 0 {
        let found = [bytes[4], bytes[5]];
        bytes[4..6].copy_from_slice(&salt.magic());
        let head = check(bytes, salt, offset);
        if head.is_none() {
            bytes[4..6].copy_from_slice(&found);
        }
        return head;
    }
    // A flipped bit of the length changes the range of the CRC, so each bit is tried.
    let meta_len = u32_at(bytes, 8);
    for bit in 0..32 {
        set_u32(bytes, 8, meta_len ^ (1 << bit));
        if let Some(head) = check(bytes, salt, offset) {
            return Some(head);
        }
    }
    set_u32(bytes, 8, meta_len);
    let end = HEAD_BYTES.checked_add(meta_len as usize)?;
    let covered = bytes.get(4..end)?;
    let wrong = crc32c::crc32c_append(salt.crc_seed(offset), covered) ^ u32_at(bytes, 0);
    match flipped_bit(covered.len(), wrong)? {
        Flip::InCrc => set_u32(bytes, 0, u32_at(bytes, 0) ^ wrong),
        Flip::At { byte, mask } => bytes[4 + byte] ^= mask,
    }
    check(bytes, salt, offset)
}

/// The position of the flipped bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flip {
    InCrc,
    At { byte: usize, mask: u8 },
}

/// The single bit among `len` bytes, or in their CRC, that changes the CRC by `wrong` (actual xor
/// expected), if there is one. Takes some nanoseconds a byte.
pub(super) fn flipped_bit(len: usize, wrong: u32) -> Option<Flip> {
    if wrong.count_ones() == 1 {
        return Some(Flip::InCrc);
    }
    // The effect of each bit of the last byte on the CRC. The effect of the same bit one byte
    // earlier is that after eight more steps.
    let mut effects: [u32; 8] = std::array::from_fn(|bit| eight_steps(1 << bit));
    for byte in (0..len).rev() {
        if let Some(bit) = effects.iter().position(|&effect| effect == wrong) {
            return Some(Flip::At { byte, mask: 1 << bit });
        }
        effects = effects.map(eight_steps);
    }
    None
}

/// The CRC register after one byte of zeros.
fn eight_steps(register: u32) -> u32 {
    (register >> 8) ^ STEPS[(register & 0xFF) as usize]
}

const STEPS: [u32; 256] = {
    let mut steps = [0; 256];
    let mut at = 0;
    while at < steps.len() {
        let mut register = at as u32;
        let mut bit = 0;
        while bit < 8 {
            register = (register >> 1) ^ (POLYNOMIAL & (register & 1).wrapping_neg());
            bit += 1;
        }
        steps[at] = register;
        at += 1;
    }
    steps
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(meta: &[u8], salt: Salt, offset: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let head =
            Head { kind: 3, flags: 0, meta_len: meta.len() as u32, body_len: 100, body_crc: 0x1234_5678, synced: 0 };
        head.put(&mut bytes);
        bytes.extend_from_slice(meta);
        stamp(&mut bytes, meta.len(), salt, offset, 4096);
        bytes
    }

    proptest! {
        #[test]
        fn single_flipped_bit_is_detected_and_repaired(meta in prop::collection::vec(any::<u8>(), 0..80), at in any::<prop::sample::Index>(), bit in 0..8, salt: u32) {
            let right = frame(&meta, Salt(salt), 8192);
            let mut wrong = right.clone();
            let at = at.index(right.len());
            wrong[at] ^= 1u8 << bit;
            prop_assert_eq!(check(&wrong, Salt(salt), 8192), None);
            prop_assert!(repair(&mut wrong, Salt(salt), 8192).is_some());
            prop_assert_eq!(wrong, right);
        }

        #[test]
        fn record_with_another_salt_or_offset_fails_its_check(meta in prop::collection::vec(any::<u8>(), 0..80), salt: u32, other: u32, offset in 1u32..1 << 20) {
            let bytes = frame(&meta, Salt(salt), 0);
            prop_assert!(salt == other || check(&bytes, Salt(other), 0).is_none());
            prop_assert_eq!(check(&bytes, Salt(salt), offset * 8), None);
        }

        #[test]
        fn frame_check_and_repair_handle_arbitrary_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..200), salt: u32, offset: u32) {
            check(&bytes, Salt(salt), offset);
            repair(&mut bytes, Salt(salt), offset);
        }

        #[test]
        fn flipped_bit_of_a_body_is_located_from_its_crc(body in prop::collection::vec(any::<u8>(), 1..3000), at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut wrong = body.clone();
            let at = at.index(body.len());
            wrong[at] ^= 1u8 << bit;
            let difference = crc32c::crc32c(&wrong) ^ crc32c::crc32c(&body);
            prop_assert_eq!(flipped_bit(body.len(), difference), Some(Flip::At { byte: at, mask: 1u8 << bit }));
        }
    }
}
