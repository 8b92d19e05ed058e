//! The message annotations that a stream adds to each message (`docs/contracts.md` 9): offset,
//! partition and arrival time. Their widths are fixed, so that the offset can be filled in later.

use super::code;
use super::descriptor;
use super::reader::Reader;
use super::scan::{self, Elements, Scalar, sections};
use super::writer::{put_descriptor, put_length};

/// Annotation: the offset of the message in its partition.
const OFFSET: &str = "x-stream-offset";
/// Annotation: the partition it is in.
const PARTITION: &str = "x-opt-partition";
/// Annotation: arrival time, milliseconds since 1970.
const ENQUEUED_TIME: &str = "x-opt-enqueued-time";

/// Bytes of the three annotations.
const STAMP_BYTES: usize = 3 * 2 + OFFSET.len() + PARTITION.len() + ENQUEUED_TIME.len() + 9 + 5 + 9;
/// Position of the offset within the annotations.
const OFFSET_AT: usize = 2 + OFFSET.len() + 1;
/// The most bytes that the annotations add to a message.
pub const STAMP_BYTES_MAX: usize = 3 + 9 + STAMP_BYTES;

/// The annotations of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// its partition
    pub partition: u32,
    /// its offset there
    pub offset: u64,
    /// arrival time, milliseconds since 1970
    pub enqueued_ms: i64,
}

impl Stamp {
    /// Appends `message` with the annotations of the stream, then those of the message that have
    /// other names. All other bytes stay the same. Returns the position of the offset in `out`
    /// (eight bytes, big-endian). `None`: the bytes are not a message, and nothing was appended.
    pub fn put(&self, out: &mut Vec<u8>, message: &[u8]) -> Option<usize> {
        let start = out.len();
        let at = self.try_put(out, message);
        if at.is_none() {
            out.truncate(start);
        }
        at
    }

    fn try_put(&self, out: &mut Vec<u8>, message: &[u8]) -> Option<usize> {
        let (mut before, mut after) = (message.len(), message.len());
        let mut own: &[u8] = &[];
        for section in sections(message) {
            let section = section.ok()?;
            if section.code < descriptor::MESSAGE_ANNOTATIONS {
                continue;
            }
            (before, after) = (section.range.start, section.range.start);
            if section.code == descriptor::MESSAGE_ANNOTATIONS {
                (after, own) = (section.range.end, section.value);
            }
            break;
        }
        out.reserve(message.len() + STAMP_BYTES_MAX);
        out.extend_from_slice(&message[..before]);
        put_descriptor(out, descriptor::MESSAGE_ANNOTATIONS);
        let at = match own {
            [] | [code::NULL] => {
                out.extend_from_slice(&[code::MAP_8, STAMP_BYTES as u8 + 1, 6]);
                self.put_stamp(out)
            }
            own => self.put_merged(out, own)?,
        };
        out.extend_from_slice(&message[after..]);
        Some(at)
    }

    /// Writes the three annotations; returns the position of the offset.
    fn put_stamp(&self, out: &mut Vec<u8>) -> usize {
        let at = out.len() + OFFSET_AT;
        put_key(out, OFFSET);
        out.push(code::ULONG);
        out.extend_from_slice(&self.offset.to_be_bytes());
        put_key(out, PARTITION);
        out.push(code::UINT);
        out.extend_from_slice(&self.partition.to_be_bytes());
        put_key(out, ENQUEUED_TIME);
        out.push(code::TIMESTAMP);
        out.extend_from_slice(&self.enqueued_ms.to_be_bytes());
        at
    }

    /// Writes the three annotations, then the entries of `map` with other names.
    fn put_merged(&self, out: &mut Vec<u8>, map: &[u8]) -> Option<usize> {
        let (count, mut entries) = Reader::new(map).map().ok()?;
        let size_at = out.len() + 1;
        out.push(code::MAP_32);
        put_length(out, true, 0);
        put_length(out, true, 0);
        let at = self.put_stamp(out);
        let mut kept: u32 = 6;
        for _ in 0..count / 2 {
            let (mut key, before) = (entries, entries.rest());
            let name = key.symbol().unwrap_or_default();
            entries.skip().ok()?;
            entries.skip().ok()?;
            if ![OFFSET, PARTITION, ENQUEUED_TIME].contains(&name) {
                out.extend_from_slice(&before[..before.len() - entries.rest().len()]);
                kept += 2;
            }
        }
        let size = (out.len() - size_at - 4) as u32;
        out[size_at..size_at + 4].copy_from_slice(&size.to_be_bytes());
        out[size_at + 4..size_at + 8].copy_from_slice(&kept.to_be_bytes());
        Some(at)
    }

    /// The stamp of a message that a stream has annotated.
    #[must_use]
    pub fn of(message: &[u8]) -> Option<Self> {
        let mut entries = Elements::of_map(scan::head(message).ok()?.message_annotations?).ok()?;
        let (mut offset, mut partition, mut enqueued_ms) = (None, None, None);
        while entries.left() > 0 {
            let key = entries.key().ok()?;
            let value = entries.scalar().ok()?;
            match (key, value) {
                (key, Scalar::Unsigned(value)) if key == OFFSET.as_bytes() => offset = Some(value),
                (key, Scalar::Unsigned(value)) if key == PARTITION.as_bytes() => partition = u32::try_from(value).ok(),
                (key, Scalar::Timestamp(value)) if key == ENQUEUED_TIME.as_bytes() => enqueued_ms = Some(value),
                _ => {}
            }
        }
        Some(Self { partition: partition?, offset: offset?, enqueued_ms: enqueued_ms? })
    }
}

fn put_key(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(&[code::SYM_8, key.len() as u8]);
    out.extend_from_slice(key.as_bytes());
}
