//! A shard's input for the log: records in order, laid out as on disk.
//!
//! A batch is filled by its shard, goes to the log's owner, and returns as the answer: its messages
//! then have places, and their bodies are still in it, so that a consumer that keeps up never reads
//! the disk. `clear` makes it ready for the next turn and keeps what it has allocated.
//!
//! The shard's thread does the work that grows with bytes (the copy and its CRC); the owner stamps
//! heads and writes.

use super::assembled::{AssembledBody, META_BYTES};
use super::frame::{COPY, HEAD_BYTES, Head, MORE, padded};
use super::place::{Freed, RecordLocation};
use super::record::{Kind, Line, SeqRange, Target, put_declare, put_drop, put_remove, put_state, put_targets};

/// An assembled body of at least so many bytes becomes a batch.
const TAKEN_OVER_BYTES: usize = 256 << 10;
/// Ranges that one removal record holds; more of them become a group of records.
const RANGES_MAX: usize = 4096;

/// A frame in the batch's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Where it begins in the batch's bytes.
    pub(super) at: u32,
    /// Bytes without the zeros after it.
    pub(super) len: u32,
    pub(super) meta_len: u32,
    /// Where its line of the index ends in the batch's index.
    pub(super) index_end: u32,
    /// Queues that have it, if it is a message.
    pub(super) targets: u32,
    pub(super) kind: Kind,
    /// It is the last of its group.
    pub(super) last: bool,
}

/// A message that shall lie somewhere else.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    pub(super) from: RecordLocation,
    /// Queue, seq, and the head's range in `WriteBatch::heads`.
    pub(super) targets: Vec<(u32, u64, std::ops::Range<usize>)>,
    /// The frame it became.
    pub(super) frame: Option<u32>,
    /// Queues that have it there: those of its targets that existed still.
    pub(super) written: Vec<u32>,
}

/// Frames of the batch that lie in one segment: all from `first` on, up to the next run.
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
    /// It has new messages, which must leave the reserve alone.
    pub(super) grows: bool,
    /// See [`WriteBatch::part`].
    part: u32,
}

impl WriteBatch {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forget everything, keep the room.
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
        self.grows = false;
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

    /// Nothing in it that the log should know.
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

    /// A queue by this short number exists from here on. Numbers are never used again, nor are
    /// uids.
    pub fn declare(&mut self, queue: u32, uid: &[u8; 16], name: &str) {
        self.push(Kind::Declare, 0, 0, |meta| put_declare(meta, queue, uid, name), &[]);
    }

    /// A queue is deleted with all its messages and state; `freed` gets the locations of the
    /// messages it still had.
    pub fn drop_queue(&mut self, queue: u32, freed: &Freed) {
        self.push(Kind::Drop, 0, 0, |meta| put_drop(meta, queue), &[]);
        self.freed.join(freed);
    }

    /// One message for all its targets; gives its number in this batch, for `place` and `body`.
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

    /// As `message`, for one that takes the place of older messages of its queue: it is not the
    /// newest.
    pub fn merged(&mut self, target: Target<'_>, body: &[u8]) -> usize {
        self.put_message(COPY, &[target], &[body])
    }

    fn put_message(&mut self, flags: u8, targets: &[Target<'_>], body: &[&[u8]]) -> usize {
        self.grows = true;
        self.messages.push(self.frames.len() as u32);
        self.push(Kind::Message, flags, targets.len() as u32, |meta| put_targets(meta, targets), body);
        self.messages.len() - 1
    }

    /// As `message`, for one queue. A large body becomes the batch, if that is empty, and is not
    /// copied: then its meta has zeros behind the target, which no reader looks at.
    pub fn assembled(&mut self, target: Target<'_>, body: AssembledBody) -> usize {
        self.grows = true;
        self.messages.push(self.frames.len() as u32);
        let (crc, len) = (body.crc(), body.body().len());
        let put = |meta: &mut Vec<u8>| put_targets(meta, &[target]);
        if self.bytes.is_empty() && len >= TAKEN_OVER_BYTES {
            self.take_over(put, body);
        } else {
            self.push_summed(Kind::Message, 0, 1, put, &[body.body()], crc);
        }
        self.messages.len() - 1
    }

    fn take_over(&mut self, put: impl FnOnce(&mut Vec<u8>), body: AssembledBody) {
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
        // Half of it may be room for parts that did not come.
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

    /// Messages that a queue no longer has.
    pub fn remove(&mut self, removal: &mut Removal) {
        removal.tidy();
        let own = !self.grouping && removal.ranges.len() > RANGES_MAX;
        if own {
            self.begin();
        }
        for ranges in removal.ranges.chunks(RANGES_MAX) {
            let segments = removal.freed.segments();
            self.push(Kind::Remove, 0, 0, |meta| put_remove(meta, removal.queue, ranges, segments), &[]);
        }
        if own {
            self.end();
        }
        self.freed.join(&removal.freed);
    }

    /// Keep a value under a key of a queue, until another one replaces it or the queue is dropped.
    /// An empty value deletes the key.
    pub fn state(&mut self, queue: u32, key: &[u8], value: &[u8]) {
        self.push(Kind::State, 0, 0, |meta| put_state(meta, queue, key, value), &[]);
    }

    /// Write a message again further on, so that the segment where it lies can go; gives the number
    /// for `copied`. `targets` are those of the caller's queues that still have it; it keeps their
    /// numbers. An empty head stands for the one it has.
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

    /// A copy has replaced the records at these locations. Writes nothing.
    pub fn free(&mut self, freed: &Freed) {
        self.freed.join(freed);
    }

    /// Where a message lies: only after the log has appended the batch.
    ///
    /// # Panics
    /// The batch has not been appended, or has no such message.
    #[must_use]
    pub fn place(&self, message: usize) -> RecordLocation {
        self.place_of(self.messages[message])
    }

    /// The body of a message, as it was put.
    ///
    /// # Panics
    /// The batch has no such message.
    #[must_use]
    pub fn body(&self, message: usize) -> &[u8] {
        let frame = self.frames[self.messages[message] as usize];
        let end = frame.at as usize + frame.len as usize;
        &self.bytes[frame.at as usize + HEAD_BYTES + frame.meta_len as usize..end]
    }

    /// Where a copy lies that a queue has: only after the log has appended the batch. `None` if the
    /// message was damaged, or the queue did not exist any more.
    #[must_use]
    pub fn copied(&self, copy: usize, queue: u32) -> Option<RecordLocation> {
        let copy = &self.copies[copy];
        copy.frame.filter(|_| copy.written.contains(&queue)).map(|frame| self.place_of(frame))
    }

    /// Its runs, once it has been appended: where each begins in its bytes, how many they are, and
    /// where they lie.
    pub(super) fn layout(&self) -> impl Iterator<Item = (u32, u32, u32, u32)> {
        self.runs.iter().enumerate().map(|(n, run)| {
            let at = self.frames[run.first as usize].at;
            let next = self.runs.get(n + 1).map(|next| self.frames[next.first as usize].at);
            (at, next.unwrap_or(self.bytes.len() as u32) - at, run.segment, run.offset)
        })
    }

    /// Bytes it takes on the heap, nearly.
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

/// Messages that one queue no longer has: numbers on one side, places on the other.
#[derive(Clone, Debug)]
pub struct Removal {
    queue: u32,
    ranges: Vec<SeqRange>,
    tidy: bool,
    freed: Freed,
}

impl Removal {
    /// None yet.
    #[must_use]
    pub fn new(queue: u32) -> Self {
        Self { queue, ranges: Vec::new(), tidy: true, freed: Freed::default() }
    }

    /// Their queue.
    #[must_use]
    pub const fn queue(&self) -> u32 {
        self.queue
    }

    /// Records of the log that become obsolete with them.
    #[must_use]
    pub const fn freed(&self) -> &Freed {
        &self.freed
    }

    /// None of them, of another queue perhaps; keeps the room.
    pub fn reset(&mut self, queue: u32) {
        self.queue = queue;
        self.ranges.clear();
        self.tidy = true;
        self.freed.clear();
    }

    /// One more, in any order; best in rising order. Each number once.
    pub fn add(&mut self, seq: u64, place: RecordLocation) {
        self.freed.add(place);
        match self.ranges.last_mut() {
            Some(range) if range.last.checked_add(1) == Some(seq) => range.last = seq,
            last => {
                self.tidy &= last.is_none_or(|range| range.last < seq);
                self.ranges.push(SeqRange { first: seq, last: seq });
            }
        }
    }

    /// Nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bring the ranges into order and join neighbours.
    fn tidy(&mut self) {
        if self.tidy {
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
        self.tidy = true;
    }
}
