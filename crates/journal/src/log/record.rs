//! The meta of a frame, by kind.
//!
//! ```text
//! mark     -
//! declare  queue, uid (16 bytes), name
//! drop     queue
//! message  targets: count, then each queue, seq, head length (one byte), head; the body follows the meta
//! remove   queue, ranges: count, then each first less the one before's end, length less 1; segments: count, each
//! state    queue, key length, key, value
//! ```
//!
//! Numbers are varints unless stated otherwise. `segments` of a removal are the segments of the
//! removed messages: the removal is needed as long as one of them exists.

use super::wire::{Take, put_varint};

/// Maximum bytes that a queue may store with each message and read at a restart without its body.
pub const HEAD_BYTES_MAX: usize = 64;

/// The kind of a record. The numbers are part of the format and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Mark = 0,
    Declare = 1,
    Drop = 2,
    Message = 3,
    Remove = 4,
    State = 5,
}

/// A message in one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The queue's short number.
    pub queue: u32,
    /// The message's number in the queue: never used twice.
    pub seq: u64,
    /// The state that the queue needs after a restart, opaque here; at most `HEAD_BYTES_MAX` bytes.
    pub head: &'a [u8],
}

/// Consecutive numbers of one queue, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeqRange {
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
}

/// A record, decoded from its meta.
#[derive(Clone, Copy, Debug)]
pub(super) enum Record<'a> {
    Mark,
    Declare { queue: u32, uid: [u8; 16], name: &'a str },
    Drop { queue: u32 },
    Message(Targets<'a>),
    Remove(Removed<'a>),
    State { queue: u32, key: &'a [u8], value: &'a [u8] },
}

impl<'a> Record<'a> {
    /// Decodes a meta; `None` for an unknown kind or an invalid layout.
    #[inline]
    pub(super) fn decode(kind: u8, meta: &'a [u8]) -> Option<Self> {
        let mut take = Take::new(meta);
        Some(match kind {
            0 => Self::Mark,
            1 => {
                let queue = take.varint_u32()?;
                let uid = take.bytes(16)?.try_into().ok()?;
                Self::Declare { queue, uid, name: str::from_utf8(take.bytes(take.left())?).ok()? }
            }
            2 => Self::Drop { queue: take.varint_u32()? },
            3 => Self::Message(Targets { left: take.varint_u32()?, take }),
            4 => {
                let queue = take.varint_u32()?;
                let ranges = Ranges { left: take.varint_u32()?, end: 0, take };
                let mut after = ranges;
                after.by_ref().for_each(drop);
                let mut take = after.take;
                Self::Remove(Removed { queue, ranges, segments: Segments { left: take.varint_u32()?, take } })
            }
            5 => {
                let queue = take.varint_u32()?;
                let key = take.length_prefixed()?;
                Self::State { queue, key, value: take.bytes(take.left())? }
            }
            _ => return None,
        })
    }
}

/// The targets of a message. The iterator ends early at an invalid layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Targets<'a> {
    left: u32,
    take: Take<'a>,
}

impl<'a> Iterator for Targets<'a> {
    type Item = Target<'a>;

    #[inline]
    fn next(&mut self) -> Option<Target<'a>> {
        self.left = self.left.checked_sub(1)?;
        let queue = self.take.varint_u32()?;
        let seq = self.take.varint()?;
        let len = self.take.byte()?;
        Some(Target { queue, seq, head: self.take.bytes(usize::from(len))? })
    }
}

/// A removal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removed<'a> {
    pub(super) queue: u32,
    pub(super) ranges: Ranges<'a>,
    pub(super) segments: Segments<'a>,
}

/// The ranges of a removal, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranges<'a> {
    left: u32,
    end: u64,
    take: Take<'a>,
}

impl Iterator for Ranges<'_> {
    type Item = SeqRange;

    #[inline]
    fn next(&mut self) -> Option<SeqRange> {
        self.left = self.left.checked_sub(1)?;
        let first = self.end.checked_add(self.take.varint()?)?;
        let last = first.checked_add(self.take.varint()?)?;
        self.end = last;
        Some(SeqRange { first, last })
    }
}

/// The segments of a removal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segments<'a> {
    left: u32,
    take: Take<'a>,
}

impl Iterator for Segments<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        self.take.varint_u32()
    }
}

pub(super) fn put_declare(into: &mut Vec<u8>, queue: u32, uid: &[u8; 16], name: &str) {
    put_varint(into, queue.into());
    into.extend_from_slice(uid);
    into.extend_from_slice(name.as_bytes());
}

pub(super) fn put_drop(into: &mut Vec<u8>, queue: u32) {
    put_varint(into, queue.into());
}

/// Encodes targets. Panics on a head longer than `HEAD_BYTES_MAX`.
pub(super) fn put_targets(into: &mut Vec<u8>, targets: &[Target<'_>]) {
    put_varint(into, targets.len() as u64);
    for target in targets {
        assert!(target.head.len() <= HEAD_BYTES_MAX, "a message's head has at most {HEAD_BYTES_MAX} bytes");
        put_varint(into, target.queue.into());
        put_varint(into, target.seq);
        into.push(target.head.len() as u8);
        into.extend_from_slice(target.head);
    }
}

/// `ranges` are in order and do not overlap.
pub(super) fn put_remove(into: &mut Vec<u8>, queue: u32, ranges: &[SeqRange], segments: impl Iterator<Item = u32>) {
    put_varint(into, queue.into());
    put_varint(into, ranges.len() as u64);
    let mut end = 0;
    for range in ranges {
        put_varint(into, range.first - end);
        put_varint(into, range.last - range.first);
        end = range.last;
    }
    let segments: Vec<u32> = segments.collect();
    put_varint(into, segments.len() as u64);
    for segment in segments {
        put_varint(into, segment.into());
    }
}

pub(super) fn put_state(into: &mut Vec<u8>, queue: u32, key: &[u8], value: &[u8]) {
    put_varint(into, queue.into());
    put_varint(into, key.len() as u64);
    into.extend_from_slice(key);
    into.extend_from_slice(value);
}

/// One line of a segment's index. Frames follow each other, so lines carry lengths and no offsets.
///
/// ```text
/// u8 kind + 16 * flags   varint meta bytes   varint body bytes   meta
/// u8 15                  varint bytes of the segment without a readable record (only after damage)
/// ```
pub(super) enum Line<'a> {
    Frame { kind: u8, flags: u8, body_len: u32, meta: &'a [u8] },
    Gap { bytes: u32 },
}

const GAP: u8 = 15;

impl<'a> Line<'a> {
    pub(super) fn put(&self, into: &mut Vec<u8>) {
        match *self {
            Self::Frame { kind, flags, body_len, meta } => {
                into.push(kind | flags << 4);
                put_varint(into, meta.len() as u64);
                put_varint(into, body_len.into());
                into.extend_from_slice(meta);
            }
            Self::Gap { bytes } => {
                into.push(GAP);
                put_varint(into, bytes.into());
            }
        }
    }

    /// The next line; `None` at the end or at an invalid layout.
    #[inline]
    pub(super) fn take(take: &mut Take<'a>) -> Option<Self> {
        let first = take.byte()?;
        if first == GAP {
            return Some(Self::Gap { bytes: take.varint_u32()? });
        }
        let meta_len = take.varint_u32()?;
        let body_len = take.varint_u32()?;
        let meta = take.bytes(meta_len as usize)?;
        Some(Self::Frame { kind: first & 15, flags: first >> 4, body_len, meta })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn declare_drop_and_state_records_round_trip() {
        let mut meta = Vec::new();
        put_declare(&mut meta, 300, &[7; 16], "orders/é");
        assert!(
            matches!(Record::decode(1, &meta), Some(Record::Declare { queue: 300, uid, name: "orders/é" }) if uid == [7; 16])
        );
        meta.clear();
        put_drop(&mut meta, 9);
        assert!(matches!(Record::decode(2, &meta), Some(Record::Drop { queue: 9 })));
        meta.clear();
        put_state(&mut meta, 1, b"key", b"");
        assert!(matches!(Record::decode(5, &meta), Some(Record::State { queue: 1, key: b"key", value: b"" })));
    }

    proptest! {
        #[test]
        fn message_targets_round_trip(targets in prop::collection::vec((any::<u32>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..=HEAD_BYTES_MAX)), 0..20)) {
            let targets: Vec<Target<'_>> = targets.iter().map(|(queue, seq, head)| Target { queue: *queue, seq: *seq, head }).collect();
            let mut meta = Vec::new();
            put_targets(&mut meta, &targets);
            let Some(Record::Message(found)) = Record::decode(3, &meta) else { panic!("no message") };
            prop_assert_eq!(found.collect::<Vec<_>>(), targets);
        }

        #[test]
        fn removals_round_trip(steps in prop::collection::vec((1u64..1000, 0u64..1000), 0..20), segments in prop::collection::vec(any::<u32>(), 0..5)) {
            let mut end = 0;
            let ranges: Vec<SeqRange> = steps.iter().map(|(gap, len)| { let first = end + gap; end = first + len; SeqRange { first, last: end } }).collect();
            let mut meta = Vec::new();
            put_remove(&mut meta, 8, &ranges, segments.iter().copied());
            let Some(Record::Remove(found)) = Record::decode(4, &meta) else { panic!("no removal") };
            prop_assert_eq!(found.ranges.collect::<Vec<_>>(), ranges);
            prop_assert_eq!(found.segments.collect::<Vec<_>>(), segments);
        }

        #[test]
        fn record_decoder_handles_arbitrary_bytes(kind in 0u8..8, meta in prop::collection::vec(any::<u8>(), 0..200)) {
            match Record::decode(kind, &meta) {
                Some(Record::Message(targets)) => prop_assert!(targets.count() <= meta.len()),
                Some(Record::Remove(removed)) => prop_assert!(removed.ranges.count() + removed.segments.count() <= meta.len()),
                _ => {}
            }
            let mut take = Take::new(&meta);
            while Line::take(&mut take).is_some() {}
        }
    }
}
