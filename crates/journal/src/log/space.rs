//! The live bytes of each segment, and the segments that may be deleted.
//!
//! A segment may go when no message in it is alive and nothing else in it is needed. Live are:
//! removals whose messages still lie in an older segment (otherwise the messages would return after
//! a restart), the newest value of each state, declarations. Such records are small, and the log
//! writes them again (`copy_live`) to let the segment go, unless they are half of it. A copy takes
//! the place of a message in an older segment, so a segment with copies waits for the ones they
//! came from.

use std::collections::{BTreeMap, BTreeSet};

use super::place::Freed;
use super::segment::BLOCK_BYTES;

/// Whether the records of a segment could be read when they were to be written again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Legible {
    /// They could, or were not requested.
    #[default]
    Yes,
    /// The disk has failed: the segment stays until the owner allows another attempt.
    No,
    /// Another attempt is due.
    Again,
}

/// One segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Segment {
    /// Bytes of the file.
    pub(super) size: u64,
    /// Where its index lies, if it has one.
    pub(super) end: u32,
    /// Messages alive in it, counted once for each queue that has them.
    pub(super) messages: u64,
    /// Bytes of those; a message of several queues counts for each.
    pub(super) bytes: u64,
    /// State and declarations in it that are the newest.
    pub(super) facts: u64,
    /// Segments with messages whose removals are in this one.
    pub(super) removes_in: BTreeSet<u32>,
    /// Segments that messages were copied from to here.
    pub(super) copies_from: BTreeSet<u32>,
    /// This many messages were alive in it when nothing of it could be written again.
    pub(super) passed_over: Option<u64>,
    /// Its live records were copied, and wait for an fsync.
    pub(super) carried: bool,
    pub(super) legible: Legible,
    /// No message is alive in it, but so much else that it stays for now: how many bytes, and its
    /// weight then.
    dense: Option<(u64, u64)>,
}

impl Segment {
    fn alive(&self) -> u64 {
        let needed = self.dense.map_or(0, |(bytes, _)| bytes);
        (self.bytes + needed).min(self.size)
    }

    /// Bytes of records that fit into it.
    fn room(&self) -> u64 {
        self.size.saturating_sub(BLOCK_BYTES as u64)
    }

    /// Grows with what keeps it besides messages.
    fn weight(&self) -> u64 {
        self.facts + self.removes_in.len() as u64
    }

    /// This many bytes of it are needed: worth writing again, or to be left until much less is?
    pub(super) fn is_worth_copying(&mut self, bytes: u64) -> bool {
        // Two of them must fit one, or the log would write them again and again.
        let worth = bytes * 2 + 2 * BLOCK_BYTES as u64 <= self.size;
        self.dense = (!worth).then(|| (bytes, self.weight()));
        worth
    }

    /// It is known to hold too much to be written again.
    fn stays(&self) -> bool {
        self.dense.is_some_and(|(_, weight)| self.weight() * 4 > weight * 3)
    }
}

/// All segments with records, by number.
#[derive(Debug, Default)]
pub(super) struct Space {
    pub(super) segments: BTreeMap<u32, Segment>,
}

impl Space {
    pub(super) fn get(&mut self, segment: u32) -> &mut Segment {
        self.segments.entry(segment).or_default()
    }

    pub(super) fn exists(&self, segment: u32) -> bool {
        self.segments.contains_key(&segment)
    }

    /// Whether a segment of some numbers exists.
    pub(super) fn exists_in(&self, mut numbers: std::ops::Range<u32>) -> bool {
        numbers.start < numbers.end && self.segments.range(std::mem::take(&mut numbers)).next().is_some()
    }

    /// A batch in segment `by` no longer needs these. Not knowing a segment is a mistake of the
    /// caller.
    pub(super) fn free(&mut self, freed: &Freed) {
        for freed in freed.iter() {
            let Some(segment) = self.segments.get_mut(&freed.segment) else {
                debug_assert!(false, "segment {} was removed, and it had live records", freed.segment);
                continue;
            };
            debug_assert!(segment.messages >= freed.messages, "segment {}: freed twice", freed.segment);
            segment.messages = segment.messages.saturating_sub(freed.messages);
            segment.bytes = segment.bytes.saturating_sub(freed.bytes);
        }
    }

    pub(super) fn fact_moves(&mut self, from: Option<u32>, to: Option<u32>) {
        if let Some(segment) = from.and_then(|from| self.segments.get_mut(&from)) {
            segment.facts = segment.facts.saturating_sub(1);
        }
        if let Some(to) = to {
            self.get(to).facts += 1;
        }
    }

    /// Note that removals in `by` are about messages in other segments.
    pub(super) fn removes(&mut self, by: u32, among: impl Iterator<Item = u32>) {
        for segment in among.filter(|&segment| segment != by) {
            if self.exists(segment) {
                self.get(by).removes_in.insert(segment);
            }
        }
    }

    /// A segment is deleted.
    pub(super) fn gone(&mut self, segment: u32) {
        self.segments.remove(&segment);
        for other in self.segments.values_mut() {
            other.removes_in.remove(&segment);
            other.copies_from.remove(&segment);
        }
    }

    /// The oldest segment but `active` in which no message is alive and that waits for no other
    /// one, nor for the disk.
    pub(super) fn emptied(&self, active: Option<u32>) -> Option<u32> {
        let empty = |(&number, segment): (&u32, &Segment)| {
            let waits = segment.messages > 0 || !segment.copies_from.is_empty() || segment.stays();
            let waits = waits || segment.legible == Legible::No;
            (Some(number) != active && !waits).then_some(number)
        };
        self.segments.iter().find_map(empty)
    }

    /// Bytes that all segments take, and bytes alive in them.
    pub(super) fn totals(&self) -> (u64, u64) {
        let add = |(used, alive): (u64, u64), segment: &Segment| (used + segment.size, alive + segment.alive());
        self.segments.values().fold((0, 0), add)
    }

    /// The segment with the smallest live share, if the log is larger than twice its live bytes
    /// plus `slack`. The share is that of the room for records: two segments must fit into one, or
    /// the log would write them again and again.
    pub(super) fn sparsest(&self, active: Option<u32>, slack_bytes: u64) -> Option<u32> {
        let (used, alive) = self.totals();
        if used <= alive * 2 + slack_bytes {
            return None;
        }
        let share = |segment: &Segment| segment.alive() * 1024 / segment.room().max(1);
        self.segments
            .iter()
            .filter(|&(&number, segment)| Some(number) != active && segment.messages > 0)
            .filter(|(_, segment)| segment.passed_over != Some(segment.messages))
            .min_by_key(|(_, segment)| share(segment))
            .filter(|(_, segment)| share(segment) <= 512)
            .map(|(&number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(size: u64, alive: &[u64]) -> Space {
        let segment = |bytes: &u64| Segment { size, messages: *bytes, bytes: *bytes, ..Segment::default() };
        Space { segments: (1..).zip(alive.iter().map(segment)).collect() }
    }

    #[test]
    fn segments_that_do_not_fit_pairwise_are_not_compacted() {
        let (size, alive) = (16 << 10, [9122, 6344, 8000, 0]);
        assert_eq!(space(size, &alive).sparsest(Some(4), size), None, "headers fill a quarter");
        let large = alive.map(|bytes| bytes << 12);
        assert_eq!(space(size << 12, &large).sparsest(Some(4), size << 12), Some(2));
    }
}
