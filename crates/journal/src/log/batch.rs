//! A shard's input for the log: records in order, laid out as on disk.
//!
//! A shard fills a batch and passes it to the log's owner, which returns it when it is committed.
//! Its messages then have locations, and it still holds their bodies, so a consumer that keeps up
//! never reads the disk. `clear` empties the batch for the next turn and keeps its allocations.
//!
//! The shard's thread does the work proportional to the size (copying and CRC); the owner stamps
//! the heads and writes.

use super::assembled::{AssembledBody, META_BYTES};
use super::frame::{COPY, HEAD_BYTES, Head, MORE, padded};
use super::joint::JointPart;
use super::place::{Freed, RecordLocation};
use super::record::{Kind, Line, SeqRange, Target, put_declare, put_drop, put_remove, put_state, put_targets};

/// Smallest assembled body whose buffer becomes the batch, instead of being copied.
const ADOPTED_BYTES_MIN: usize = 256 << 10;
/// Maximum ranges of one removal record; a larger removal becomes a group of records.
const RANGES_MAX: usize = 4096;

/// A frame in the batch's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Its offset in the batch's bytes.
    pub(super) at: u32,
    /// Bytes without the padding.
    pub(super) len: u32,
    pub(super) meta_len: u32,
    /// End of its index line in the batch's index.
    pub(super) index_end: u32,
    /// Number of queues that store it, if it is a message.
    pub(super) targets: u32,
    pub(super) kind: Kind,
    /// Whether it is the last of its group.
    pub(super) last: bool,
}

/// A message that compaction copies to a new location.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    pub(super) from: RecordLocation,
    /// Queue, seq, and the head's range in `WriteBatch::heads`.
    pub(super) targets: Vec<(u32, u64, std::ops::Range<usize>)>,
    /// The frame of the copy, once it is in the batch.
    pub(super) frame: Option<u32>,
    /// Queues of the copy: the targets whose queue still existed.
    pub(super) written: Vec<u32>,
}

/// Consecutive frames of the batch in one segment: from `first` up to the next run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) segment: u32,
    /// Offset in the segment of the run's first frame.
    pub(super) offset: u32,
}

/// Records for the log, in order; see the module. At most 2 GiB of them.
#[derive(Debug, Default)]
pub struct WriteBatch {
    pub(super) bytes: Vec<u8>,
    pub(super) index: Vec<u8>,
    pub(super) frames: Vec<Frame>,
    /// The frame of each message, in the order they were added.
    messages: Vec<u32>,
    pub(super) copies: Vec<Copy>,
    pub(super) heads: Vec<u8>,
    /// Removals: messages that are obsolete once this batch is in the log.
    pub(super) freed: Freed,
    pub(super) runs: Vec<Run>,
    grouping: bool,
    /// Whether it has new messages, which must not use the reserve segments.
    pub(super) has_new_messages: bool,
    /// See [`WriteBatch::part`].
    part: u32,
    /// Set if it is a part of a joint group.
    joint: Option<Box<JointPart>>,
}

impl WriteBatch {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all records and keeps the allocations.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.index.clear();
        self.frames.clear();
        self.messages.clear();
        self.copies.clear();
        self.heads.clear();
        self.freed.clear();
        self.runs.clear();
        self.grouping = false;
        self.has_new_messages = false;
        self.joint = None;
    }

    /// The part of its worker that it comes from: batches of different parts need no order among
    /// each other ([`Lane`](super::Lane)).
    #[must_use]
    pub const fn part(&self) -> u32 {
        self.part
    }

    /// Sets the part. `clear` keeps it.
    pub const fn set_part(&mut self, part: u32) {
        self.part = part;
    }

    /// The joint group that it is a part of ([`JointPart`]), if any.
    #[must_use]
    pub fn joint(&self) -> Option<&JointPart> {
        self.joint.as_deref()
    }

    /// Makes it a part of a joint group.
    pub fn set_joint(&mut self, joint: JointPart) {
        self.joint = Some(Box::new(joint));
    }

    /// The records of several batches without copies, as one group.
    pub(super) fn one_group<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        let mut whole = Self::new();
        for part in parts {
            debug_assert!(part.copies.is_empty(), "a part of a joint group has no copies");
            let (at, index) = (whole.bytes.len() as u32, whole.index.len() as u32);
            whole.bytes.extend_from_slice(&part.bytes);
            whole.index.extend_from_slice(&part.index);
            let shifted =
                |frame: &Frame| Frame { at: frame.at + at, index_end: frame.index_end + index, last: false, ..*frame };
            whole.frames.extend(part.frames.iter().map(shifted));
            whole.freed.join(&part.freed);
            whole.has_new_messages |= part.has_new_messages;
        }
        for frame in &whole.frames {
            whole.bytes[frame.at as usize + 7] |= MORE;
        }
        whole.end();
        whole
    }

    /// Whether it has neither records, copies nor removals.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.copies.is_empty() && self.freed.is_empty()
    }

    /// Bytes it will take on disk, copies omitted.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes it will take on disk, with the messages that it copies.
    #[must_use]
    pub fn cost(&self) -> u64 {
        let copied = self.copies.iter().filter(|copy| copy.frame.is_none()).map(|copy| u64::from(copy.from.len));
        (self.bytes.len() + self.index.len()) as u64 + copied.sum::<u64>()
    }

    /// Messages in it, copies omitted.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.messages.len()
    }

    /// All records up to `end` become one group: after a crash all of them are there or none.
    /// Groups do not nest.
    pub fn begin(&mut self) {
        assert!(!self.grouping, "groups do not nest");
        self.grouping = true;
    }

    /// End the group.
    pub fn end(&mut self) {
        self.grouping = false;
        if let Some(frame) = self.frames.last_mut()
            && !frame.last
        {
            frame.last = true;
            self.bytes[frame.at as usize + 7] &= !MORE;
        }
    }

    /// Declares a queue under a short number. Neither numbers nor uids are ever reused.
    pub fn declare(&mut self, queue: u32, uid: &[u8; 16], name: &str) {
        self.push(Kind::Declare, 0, 0, |meta| put_declare(meta, queue, uid, name), &[]);
    }

    /// Deletes a queue with all its messages and state; `freed` names the space of its remaining
    /// messages.
    pub fn drop_queue(&mut self, queue: u32, freed: &Freed) {
        self.push(Kind::Drop, 0, 0, |meta| put_drop(meta, queue), &[]);
        self.freed.join(freed);
    }

    /// Adds one message for all its targets. Returns its number in this batch, for `place` and
    /// `body`.
    ///
    /// # Panics
    /// A head has more than `HEAD_BYTES_MAX` bytes.
    pub fn message(&mut self, targets: &[Target<'_>], body: &[u8]) -> usize {
        self.message_of(targets, &[body])
    }

    /// As `message`, with a body in several parts.
    pub fn message_of(&mut self, targets: &[Target<'_>], body: &[&[u8]]) -> usize {
        self.put_message(0, targets, body)
    }

    /// As `message`, for a message that replaces older messages of its queue and so is not its
    /// newest.
    pub fn merged(&mut self, target: Target<'_>, body: &[u8]) -> usize {
        self.put_message(COPY, &[target], &[body])
    }

    fn put_message(&mut self, flags: u8, targets: &[Target<'_>], body: &[&[u8]]) -> usize {
        self.has_new_messages = true;
        self.messages.push(self.frames.len() as u32);
        self.push(Kind::Message, flags, targets.len() as u32, |meta| put_targets(meta, targets), body);
        self.messages.len() - 1
    }

    /// As `message`, for one queue. If the batch is empty, a large body becomes its buffer without
    /// a copy; the meta is then padded with zeros behind the target, which readers ignore.
    pub fn assembled(&mut self, target: Target<'_>, body: AssembledBody) -> usize {
        self.has_new_messages = true;
        self.messages.push(self.frames.len() as u32);
        let (crc, len) = (body.crc(), body.body().len());
        let put = |meta: &mut Vec<u8>| put_targets(meta, &[target]);
        if self.bytes.is_empty() && len >= ADOPTED_BYTES_MIN {
            self.adopt_body(put, body);
        } else {
            self.push_summed(Kind::Message, 0, 1, put, &[body.body()], crc);
        }
        self.messages.len() - 1
    }

    fn adopt_body(&mut self, put: impl FnOnce(&mut Vec<u8>), body: AssembledBody) {
        let mut head = Vec::with_capacity(HEAD_BYTES + META_BYTES);
        let (body_crc, body_len) = (body.crc(), body.body().len() as u32);
        let grouped = if self.grouping { MORE } else { 0 };
        let meta_len = META_BYTES as u32;
        let kind = Kind::Message as u8;
        Head { kind, flags: grouped, meta_len, body_len, body_crc, synced: 0 }.put(&mut head);
        put(&mut head);
        head.resize(HEAD_BYTES + META_BYTES, 0);
        Line::Frame { kind, flags: 0, body_len, meta: &head[HEAD_BYTES..] }.put(&mut self.index);
        self.bytes = body.into_bytes();
        self.bytes[..head.len()].copy_from_slice(&head);
        let len = self.bytes.len();
        self.bytes.resize(padded(len), 0);
        // Up to half of the buffer may be reserved for parts that were never received.
        self.bytes.shrink_to_fit();
        self.end_frame(Frame {
            at: 0,
            len: len as u32,
            meta_len,
            index_end: self.index.len() as u32,
            targets: 1,
            kind: Kind::Message,
            last: !self.grouping,
        });
    }

    /// Records that a queue has removed messages.
    pub fn remove(&mut self, removal: &mut Removal) {
        removal.normalize();
        let needs_group = !self.grouping && removal.ranges.len() > RANGES_MAX;
        if needs_group {
            self.begin();
        }
        for ranges in removal.ranges.chunks(RANGES_MAX) {
            let segments = removal.freed.segments();
            self.push(Kind::Remove, 0, 0, |meta| put_remove(meta, removal.queue, ranges, segments), &[]);
        }
        if needs_group {
            self.end();
        }
        self.freed.join(&removal.freed);
    }

    /// Stores a value under a key of a queue, until another value replaces it or the queue is
    /// dropped. An empty value deletes the key.
    pub fn state(&mut self, queue: u32, key: &[u8], value: &[u8]) {
        self.push(Kind::State, 0, 0, |meta| put_state(meta, queue, key, value), &[]);
    }

    /// Copies a message to the end of the log, so that its segment can be reclaimed. Returns the
    /// number for `copied`. `targets` are the caller's queues that still have the message; their
    /// message numbers do not change. An empty head keeps the stored one.
    ///
    /// After the batch is written: for a target that still exists, `free` the old location and
    /// adopt the new one; for a target removed in the meantime, remove it again with the new
    /// location; for a target whose queue was dropped in the meantime, `free` the new location.
    pub fn copy(&mut self, from: RecordLocation, targets: &[Target<'_>]) -> usize {
        let targets = targets.iter().map(|target| {
            let start = self.heads.len();
            self.heads.extend_from_slice(target.head);
            (target.queue, target.seq, start..self.heads.len())
        });
        let targets = targets.collect();
        self.copies.push(Copy { from, targets, frame: None, written: Vec::new() });
        self.copies.len() - 1
    }

    /// Frees records that a copy has replaced. Writes no record.
    pub fn free(&mut self, freed: &Freed) {
        self.freed.join(freed);
    }

    /// The location of a message, once the log has appended the batch.
    ///
    /// # Panics
    /// The batch has not been appended, or has no such message.
    #[must_use]
    pub fn place(&self, message: usize) -> RecordLocation {
        self.place_of(self.messages[message])
    }

    /// The body of a message.
    ///
    /// # Panics
    /// The batch has no such message.
    #[must_use]
    pub fn body(&self, message: usize) -> &[u8] {
        let frame = self.frames[self.messages[message] as usize];
        let end = frame.at as usize + frame.len as usize;
        &self.bytes[frame.at as usize + HEAD_BYTES + frame.meta_len as usize..end]
    }

    /// The location of a copy for a queue, once the log has appended the batch. `None` if the
    /// message was damaged, or the queue no longer existed.
    #[must_use]
    pub fn copied(&self, copy: usize, queue: u32) -> Option<RecordLocation> {
        let copy = &self.copies[copy];
        copy.frame.filter(|_| copy.written.contains(&queue)).map(|frame| self.place_of(frame))
    }

    /// Its runs, once it has been appended: offset in the batch, length, segment, and offset in the
    /// segment.
    pub(super) fn layout(&self) -> impl Iterator<Item = (u32, u32, u32, u32)> {
        self.runs.iter().enumerate().map(|(n, run)| {
            let at = self.frames[run.first as usize].at;
            let next = self.runs.get(n + 1).map(|next| self.frames[next.first as usize].at);
            (at, next.unwrap_or(self.bytes.len() as u32) - at, run.segment, run.offset)
        })
    }

    /// Segment and offset of each of its runs. Unlike `layout` it does not need the bytes, which may
    /// be shared with deliveries.
    pub(super) fn run_locations(&self) -> impl Iterator<Item = (u32, u32)> {
        self.runs.iter().map(|run| (run.segment, run.offset))
    }

    /// Approximate heap size in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.index.capacity() + self.frames.capacity() * size_of::<Frame>()
    }

    fn place_of(&self, frame: u32) -> RecordLocation {
        let run = self.runs.iter().rev().find(|run| run.first <= frame).expect("the batch has been appended");
        let start = self.frames[run.first as usize].at;
        let frame = self.frames[frame as usize];
        RecordLocation { segment: run.segment, offset: run.offset + (frame.at - start), len: frame.len }
    }

    /// Add one frame and its line of the index.
    pub(super) fn push(&mut self, kind: Kind, flags: u8, targets: u32, put: impl FnOnce(&mut Vec<u8>), body: &[&[u8]]) {
        let body_crc = body.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part));
        self.push_summed(kind, flags, targets, put, body, body_crc);
    }

    fn push_summed(
        &mut self,
        kind: Kind,
        flags: u8,
        targets: u32,
        put: impl FnOnce(&mut Vec<u8>),
        body: &[&[u8]],
        body_crc: u32,
    ) {
        let at = self.bytes.len();
        let mut head = Head {
            kind: kind as u8,
            flags: flags | if self.grouping { MORE } else { 0 },
            meta_len: 0,
            body_len: body.iter().map(|part| part.len() as u32).sum(),
            body_crc,
            synced: 0,
        };
        head.put(&mut self.bytes);
        put(&mut self.bytes);
        let meta = at + HEAD_BYTES;
        head.meta_len = (self.bytes.len() - meta) as u32;
        self.bytes[at + 8..at + 12].copy_from_slice(&head.meta_len.to_le_bytes());
        Line::Frame { kind: head.kind, flags, body_len: head.body_len, meta: &self.bytes[meta..] }.put(&mut self.index);
        for part in body {
            self.bytes.extend_from_slice(part);
        }
        let len = self.bytes.len() - at;
        self.bytes.resize(at + padded(len), 0);
        self.end_frame(Frame {
            at: at as u32,
            len: len as u32,
            meta_len: head.meta_len,
            index_end: self.index.len() as u32,
            targets,
            kind,
            last: !self.grouping,
        });
    }

    fn end_frame(&mut self, frame: Frame) {
        assert!(self.bytes.len() <= i32::MAX as usize, "a batch holds at most 2 GiB");
        self.frames.push(frame);
    }
}

/// Messages that one queue has removed: their numbers, and the space that they free.
#[derive(Clone, Debug)]
pub struct Removal {
    queue: u32,
    ranges: Vec<SeqRange>,
    /// The ranges are in order, and no two of them touch.
    is_normalized: bool,
    freed: Freed,
}

impl Removal {
    /// An empty removal.
    #[must_use]
    pub fn new(queue: u32) -> Self {
        Self { queue, ranges: Vec::new(), is_normalized: true, freed: Freed::default() }
    }

    /// The queue of the messages.
    #[must_use]
    pub const fn queue(&self) -> u32 {
        self.queue
    }

    /// The space that the removal frees.
    #[must_use]
    pub const fn freed(&self) -> &Freed {
        &self.freed
    }

    /// Empties the removal for a queue, and keeps the allocations.
    pub fn reset(&mut self, queue: u32) {
        self.queue = queue;
        self.ranges.clear();
        self.is_normalized = true;
        self.freed.clear();
    }

    /// Adds a message. Any order is allowed, and ascending is fastest; no number may repeat.
    pub fn add(&mut self, seq: u64, place: RecordLocation) {
        self.freed.add(place);
        match self.ranges.last_mut() {
            Some(range) if range.last.checked_add(1) == Some(seq) => range.last = seq,
            last => {
                self.is_normalized &= last.is_none_or(|range| range.last < seq);
                self.ranges.push(SeqRange { first: seq, last: seq });
            }
        }
    }

    /// Whether it has no messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Sorts the ranges and joins adjacent ones.
    fn normalize(&mut self) {
        if self.is_normalized {
            return;
        }
        self.ranges.sort_unstable_by_key(|range| range.first);
        self.ranges.dedup_by(|next, kept| {
            let joined = next.first <= kept.last.saturating_add(1);
            if joined {
                kept.last = kept.last.max(next.last);
            }
            joined
        });
        self.is_normalized = true;
    }
}
