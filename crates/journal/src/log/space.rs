//! The live bytes of each segment, and the segments that may be deleted.
//!
//! A segment is reclaimed when it has no live message and no other live record. Live records are:
//! removals of messages in an older segment (otherwise the messages would return after a restart),
//! the newest value of each state, and declarations. Such records are small, so the log copies them
//! (`copy_live`) and reclaims the segment, unless they fill half of it. A copy replaces a message
//! of an older segment, so a segment with copies is reclaimed only after their source segments.

use std::collections::{BTreeMap, BTreeSet};

use super::place::Freed;
use super::segment::BLOCK_BYTES;

/// Whether the live records of a segment can be read, to be copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Readable {
    /// They were read, or not needed yet.
    #[default]
    Yes,
    /// The disk has failed: the segment stays until the owner allows another attempt.
    No,
    /// The owner allows another attempt.
    Retry,
}

/// One segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Segment {
    /// Bytes of the file.
    pub(super) size: u64,
    /// The end of its records.
    pub(super) end: u32,
    /// Live messages, counted once for each queue that has them.
    pub(super) messages: u64,
    /// Bytes of the live messages; a message of several queues counts for each.
    pub(super) bytes: u64,
    /// Number of newest states and declarations.
    pub(super) facts: u64,
    /// Segments whose messages are removed by records of this one.
    pub(super) removes_from: BTreeSet<u32>,
    /// Segments whose messages were copied to this one.
    pub(super) copies_from: BTreeSet<u32>,
    /// Live messages at the time when compaction could copy none of them.
    pub(super) passed_over: Option<u64>,
    /// Its live records were copied, and the copies wait for an fsync.
    pub(super) is_copied: bool,
    pub(super) readable: Readable,
    /// It has no live message, but too many other live records to be copied: their bytes, and its
    /// weight at that time.
    dense: Option<(u64, u64)>,
}

impl Segment {
    fn alive(&self) -> u64 {
        let needed = self.dense.map_or(0, |(bytes, _)| bytes);
        (self.bytes + needed).min(self.size)
    }

    /// Capacity for records in bytes.
    fn room(&self) -> u64 {
        self.size.saturating_sub(BLOCK_BYTES as u64)
    }

    /// A measure of the live records other than messages.
    fn weight(&self) -> u64 {
        self.facts + self.removes_from.len() as u64
    }

    /// Decides whether `bytes` bytes of live records are worth copying. If not, the segment stays
    /// until its weight has dropped by a quarter.
    pub(super) fn is_worth_copying(&mut self, bytes: u64) -> bool {
        // Records of two segments must fit into one, or the log would copy them repeatedly.
        let worth = bytes * 2 + 2 * BLOCK_BYTES as u64 <= self.size;
        self.dense = (!worth).then(|| (bytes, self.weight()));
        worth
    }

    /// Whether it has too many live records to be copied.
    fn is_too_dense(&self) -> bool {
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

    /// Whether any segment with a number of the range exists.
    pub(super) fn exists_in(&self, mut numbers: std::ops::Range<u32>) -> bool {
        numbers.start < numbers.end && self.segments.range(std::mem::take(&mut numbers)).next().is_some()
    }

    /// Applies freed messages. The caller guarantees that their segments exist.
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

    /// Records that removals in `by` concern messages of the segments `among`.
    pub(super) fn removes(&mut self, by: u32, among: impl Iterator<Item = u32>) {
        for segment in among.filter(|&segment| segment != by) {
            if self.exists(segment) {
                self.get(by).removes_from.insert(segment);
            }
        }
    }

    /// Removes a deleted segment.
    pub(super) fn remove_segment(&mut self, segment: u32) {
        self.segments.remove(&segment);
        for other in self.segments.values_mut() {
            other.removes_from.remove(&segment);
            other.copies_from.remove(&segment);
        }
    }

    /// The oldest segment except `active` that can be reclaimed: it has no live message, waits for
    /// no other segment, and is readable.
    pub(super) fn emptied(&self, active: Option<u32>) -> Option<u32> {
        let empty = |(&number, segment): (&u32, &Segment)| {
            let waits = segment.messages > 0 || !segment.copies_from.is_empty() || segment.is_too_dense();
            let waits = waits || segment.readable == Readable::No;
            (Some(number) != active && !waits).then_some(number)
        };
        self.segments.iter().find_map(empty)
    }

    /// The size of all segments in bytes, and their live bytes.
    pub(super) fn totals(&self) -> (u64, u64) {
        let add = |(used, alive): (u64, u64), segment: &Segment| (used + segment.size, alive + segment.alive());
        self.segments.values().fold((0, 0), add)
    }

    /// The segment with the smallest live share, if the log is larger than twice its live bytes
    /// plus `slack_bytes`. The share is relative to the capacity for records, and below one half by
    /// the index lines: two segments must fit into one, or the log would copy them repeatedly.
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
            .filter(|(_, segment)| share(segment) <= 480)
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
        assert_eq!(space(size, &[9122, 6103, 8000, 0]).sparsest(Some(4), size), None, "index lines need room, too");
        let large = alive.map(|bytes| bytes << 12);
        assert_eq!(space(size << 12, &large).sparsest(Some(4), size << 12), Some(2));
    }
}
