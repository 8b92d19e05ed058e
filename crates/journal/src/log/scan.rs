//! Reading a segment without its index: the active segment, or one whose index is damaged.
//!
//! Frames are read one after the other. Where no frame begins, the scan searches for the next one,
//! so a damaged length costs one record and not the rest. The frames also distinguish damage from
//! unfinished writes: each states how much of the segment was durable when it was written. Up to
//! the highest such position every record was once correct, so an error there is damage. Behind it,
//! the first error is the end of the log, and the group of that record is dropped. The exception is
//! a record with a single flipped bit, because torn writes do not look like that.

use super::disk::{Disk, Fault};
use super::frame::{ALIGN, DAMAGED, Flip, HEAD_BYTES, Head, MORE, Salt, check, flipped_bit, padded, repair};
use super::record::Line;
use super::segment::BLOCK_BYTES;

const CHUNK_BYTES: usize = 1 << 20;
/// Maximum meta of a frame that is searched for in damaged bytes; intact frames may have more.
const META_BYTES_MAX: u32 = 64 << 20;

/// How much of a segment is known to be durable before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it: its seal states its end, or a later segment exists.
    Whole,
    /// At least this many bytes; its frames may state more.
    UpTo(u32),
}

/// The result of a scan.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// A line for each valid record; offsets follow from the lengths.
    pub(super) index: Vec<u8>,
    /// The end of the records.
    pub(super) end: u32,
    /// Damaged bytes that were durable: offset and length.
    pub(super) gaps: Vec<(u32, u32)>,
    /// Records whose head was repaired.
    pub(super) repaired: u64,
}

struct FoundFrame {
    offset: u32,
    head: Head,
    /// The meta's range in `Scan::metas`.
    meta: std::ops::Range<usize>,
    body: BodyCheck,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyCheck {
    Right,
    OneBit,
    Wrong,
}

/// Read the records of a segment between its first block and `limit`.
///
/// # Errors
/// The disk cannot be read.
pub(super) fn scan<D: Disk + ?Sized>(
    disk: &D,
    segment: u32,
    salt: Salt,
    limit: u32,
    known: Extent,
) -> Result<Scanned, Fault> {
    let window = Window { disk, segment, limit, base: 0, buffer: Vec::new() };
    let mut scan = Scan { window, salt, found: Vec::new(), metas: Vec::new(), repaired: 0 };
    let mut at = BLOCK_BYTES as u32;
    while let Some(next) = scan.frame(at, true)? {
        at = next;
    }
    Ok(scan.accept_frames(known))
}

struct Scan<'a, D: Disk + ?Sized> {
    window: Window<'a, D>,
    salt: Salt,
    found: Vec<FoundFrame>,
    metas: Vec<u8>,
    repaired: u64,
}

impl<D: Disk + ?Sized> Scan<'_, D> {
    /// Reads the frame at an offset, or the first one after it. Returns the expected offset of the
    /// next one.
    fn frame(&mut self, at: u32, expected: bool) -> Result<Option<u32>, Fault> {
        if let Some(head) = self.head(at, expected)? {
            let body = self.body(at, &head)?;
            if let Some(body) = body {
                return Ok(Some(self.take(at, head, body)));
            }
        }
        // No frame begins here: search for the next one.
        let mut at = at + ALIGN as u32;
        while let Some(bytes) = self.window.bytes(at, HEAD_BYTES)? {
            if bytes[4..6] == self.salt.magic()
                && let Some(head) = self.head(at, false)?
                && let Some(body) = self.body(at, &head)?
            {
                return Ok(Some(self.take(at, head, body)));
            }
            at += ALIGN as u32;
        }
        Ok(None)
    }

    fn take(&mut self, offset: u32, head: Head, body: BodyCheck) -> u32 {
        let start = self.metas.len();
        let meta = self.window.buffered(offset + HEAD_BYTES as u32, head.meta_len as usize);
        self.metas.extend_from_slice(meta);
        self.found.push(FoundFrame { offset, head, meta: start..self.metas.len(), body });
        offset + padded(head.frame_len().unwrap_or(0) as usize) as u32
    }

    /// The head of the frame at an offset. Its meta is in the window afterwards.
    fn head(&mut self, at: u32, repairing: bool) -> Result<Option<Head>, Fault> {
        let Some(bytes) = self.window.bytes(at, HEAD_BYTES)? else { return Ok(None) };
        let meta_len = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes"));
        let salt = self.salt;
        if meta_len <= META_BYTES_MAX
            && let Some(bytes) = self.window.bytes(at, HEAD_BYTES + meta_len as usize)?
            && let Some(head) = check(bytes, salt, at)
        {
            return Ok(Some(head));
        }
        if !repairing {
            return Ok(None);
        }
        // The length may be wrong, so the repair gets all available bytes.
        let Some(bytes) = self.window.up_to(at, CHUNK_BYTES)? else { return Ok(None) };
        let head = repair(bytes, salt, at);
        self.repaired += u64::from(head.is_some());
        Ok(head)
    }

    /// Whether the body matches its checksum; `None` if the segment is too short for it.
    fn body(&mut self, at: u32, head: &Head) -> Result<Option<BodyCheck>, Fault> {
        let start = at + HEAD_BYTES as u32 + head.meta_len;
        let fits = start.checked_add(head.body_len).is_some_and(|end| end <= self.window.limit);
        if !fits {
            return Ok(None);
        }
        let mut crc = 0;
        let mut done = 0;
        while done < head.body_len {
            let step = (head.body_len - done).min(CHUNK_BYTES as u32);
            let Some(bytes) = self.window.bytes(start + done, step as usize)? else { return Ok(None) };
            crc = crc32c::crc32c_append(crc, bytes);
            done += step;
        }
        let wrong = crc ^ head.body_crc;
        let flip = if wrong == 0 { None } else { flipped_bit(head.body_len as usize, wrong) };
        let check = match flip {
            _ if wrong == 0 => BodyCheck::Right,
            Some(Flip::At { byte, .. }) if !self.ends_in_zeros(start + byte as u32, start + head.body_len)? => {
                BodyCheck::OneBit
            }
            Some(_) | None => BodyCheck::Wrong,
        };
        // The window must hold the meta again for the caller.
        self.window.bytes(at, HEAD_BYTES + head.meta_len as usize)?;
        Ok(Some(check))
    }

    /// Whether a body has only zeros from an offset on: its end was never written, although that may
    /// differ in one bit only.
    fn ends_in_zeros(&mut self, mut at: u32, end: u32) -> Result<bool, Fault> {
        while at < end {
            let step = (end - at).min(CHUNK_BYTES as u32);
            let Some(bytes) = self.window.bytes(at, step as usize)? else { return Ok(false) };
            if bytes.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += step;
        }
        Ok(true)
    }

    /// Determines which of the found frames are part of the log.
    fn accept_frames(self, known: Extent) -> Scanned {
        let durable = match known {
            Extent::Whole => u32::MAX,
            Extent::UpTo(end) => self.found.iter().map(|found| found.head.synced).max().unwrap_or(0).max(end),
        };
        let mut scanned = Scanned { end: BLOCK_BYTES as u32, repaired: self.repaired, ..Scanned::default() };
        // The end of the index and of the records if the current group is incomplete.
        let mut whole = (0, scanned.end);
        let mut expected = scanned.end;
        for found in &self.found {
            let past_durable = expected >= durable;
            if found.offset > expected {
                if past_durable {
                    break;
                }
                let bytes = found.offset - expected;
                scanned.gaps.push((expected, bytes));
                Line::Gap { bytes }.put(&mut scanned.index);
            }
            if found.body == BodyCheck::Wrong && past_durable && found.offset >= durable {
                break;
            }
            expected = found.offset + padded(found.head.frame_len().unwrap_or(0) as usize) as u32;
            let damaged = if found.body == BodyCheck::Right { 0 } else { DAMAGED };
            Line::Frame {
                kind: found.head.kind,
                flags: found.head.flags & !MORE | damaged,
                body_len: found.head.body_len,
                meta: &self.metas[found.meta.clone()],
            }
            .put(&mut scanned.index);
            if found.head.flags & MORE == 0 || expected <= durable {
                whole = (scanned.index.len(), expected);
            }
        }
        scanned.index.truncate(whole.0);
        scanned.end = whole.1;
        scanned
    }
}

/// A part of a segment buffered in memory.
struct Window<'a, D: Disk + ?Sized> {
    disk: &'a D,
    segment: u32,
    limit: u32,
    base: u32,
    buffer: Vec<u8>,
}

impl<D: Disk + ?Sized> Window<'_, D> {
    /// `len` bytes from an offset; `None` if the segment ends before.
    fn bytes(&mut self, at: u32, len: usize) -> Result<Option<&[u8]>, Fault> {
        if u64::from(at) + len as u64 > u64::from(self.limit) {
            return Ok(None);
        }
        self.fill(at, len)?;
        let start = (at - self.base) as usize;
        Ok(self.buffer.get(start..start + len))
    }

    /// At most `len` mutable bytes from an offset; `None` at the end.
    fn up_to(&mut self, at: u32, len: usize) -> Result<Option<&mut [u8]>, Fault> {
        let len = len.min(self.limit.saturating_sub(at) as usize);
        if len == 0 {
            return Ok(None);
        }
        self.fill(at, len)?;
        let start = (at - self.base) as usize;
        Ok(self.buffer.get_mut(start..start + len))
    }

    /// Bytes that are in the window.
    fn buffered(&self, at: u32, len: usize) -> &[u8] {
        let start = (at - self.base) as usize;
        &self.buffer[start..start + len]
    }

    fn fill(&mut self, at: u32, len: usize) -> Result<(), Fault> {
        let buffered = at >= self.base && (at - self.base) as usize + len <= self.buffer.len();
        if buffered {
            return Ok(());
        }
        let room = len.max(CHUNK_BYTES).min((self.limit - at) as usize);
        self.buffer.resize(room, 0);
        self.base = at;
        let read = self.disk.read(self.segment, at.into(), &mut self.buffer)?;
        self.buffer.truncate(read);
        Ok(())
    }
}
