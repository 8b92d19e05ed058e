//! The messages of a part of a segment, for the catalog.
//!
//! ```text
//! messages  queues: count, then each queue, ranges
//! removed   queues: count, then each queue, ranges
//! newest    queues: count, then each queue, head length, head
//! oldest    queues: count, then each queue, head length, head
//! ranges    count, then each first, length less 1
//! ```
//!
//! Numbers are varints. Older releases write and read only the messages.

use std::collections::BTreeMap;

use super::frame::COPY;
use super::record::{Line, Record, SeqRange, Target};
use super::wire::{Take, put_varint};

/// Numbers of one queue.
pub(super) type Ranges = BTreeMap<u64, u64>;

/// The messages of one queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// Messages of this part that it does not also remove, in order.
    pub(super) messages: Vec<SeqRange>,
    /// Messages that this part removes, from any segment, in order.
    pub(super) removed: Vec<SeqRange>,
    /// Head of the newest message of this part, copies excluded.
    pub(super) newest: Vec<u8>,
    /// Head of the first of `messages`; empty if it is unknown.
    pub(super) oldest: Vec<u8>,
}

/// The contents of a part of a segment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) queues: BTreeMap<u32, Listing>,
}

impl Contents {
    /// The contents that follow from some lines of a segment's index.
    ///
    /// It runs on the journal's thread for each stored message, so each line is decoded once.
    pub(super) fn of(lines: &[u8]) -> Self {
        let mut contents = Self::default();
        let mut stored = Vec::new();
        let mut newest: BTreeMap<u32, &[u8]> = BTreeMap::new();
        // Consecutive messages usually belong to one queue, which is then looked up once.
        let mut current = (0, Listing::default(), &[][..]);
        let mut take = Take::new(lines);
        while let Some(line) = Line::take(&mut take) {
            let Line::Frame { kind, flags, meta, .. } = line else { continue };
            match Record::decode(kind, meta) {
                Some(Record::Message(targets)) => {
                    for target in targets {
                        contents.switch_to(target.queue, &mut current, &mut newest);
                        append(&mut current.1.messages, SeqRange { first: target.seq, last: target.seq });
                        if flags & COPY == 0 && !target.head.is_empty() {
                            current.2 = target.head;
                        }
                        stored.push(target);
                    }
                }
                Some(Record::Remove(removed)) => {
                    contents.switch_to(removed.queue, &mut current, &mut newest);
                    removed.ranges.for_each(|range| append(&mut current.1.removed, range));
                }
                Some(Record::Drop { queue }) => {
                    contents.switch_to(queue, &mut current, &mut newest);
                    (current.1, current.2) = (Listing::default(), &[]);
                    newest.remove(&queue);
                }
                _ => {}
            }
        }
        let (last, listing, head) = current;
        contents.queues.insert(last, listing);
        if !head.is_empty() {
            newest.insert(last, head);
        }
        contents.queues.retain(|_, listing| !(listing.messages.is_empty() && listing.removed.is_empty()));
        for (queue, listing) in &mut contents.queues {
            listing.normalize();
            listing.newest = newest.get(queue).map_or_else(Vec::new, |head| head.to_vec());
        }
        contents.find_oldest(&stored);
        contents
    }

    /// Makes the listing of another queue the current one.
    #[inline]
    fn switch_to<'a>(
        &mut self,
        queue: u32,
        current: &mut (u32, Listing, &'a [u8]),
        newest: &mut BTreeMap<u32, &'a [u8]>,
    ) {
        if current.0 == queue {
            return;
        }
        let listing = std::mem::take(self.queues.entry(queue).or_default());
        let (before, known, head) = std::mem::replace(current, (queue, listing, &[]));
        self.queues.insert(before, known);
        if !head.is_empty() {
            newest.insert(before, head);
        }
    }

    /// Sets the head of each queue's first message. Most of them are near the beginning.
    fn find_oldest(&mut self, stored: &[Target<'_>]) {
        let firsts = self.queues.iter().filter_map(|(queue, listing)| Some((*queue, listing.messages.first()?.first)));
        let mut missing: BTreeMap<u32, u64> = firsts.collect();
        for target in stored {
            if missing.is_empty() {
                break;
            }
            if missing.get(&target.queue) == Some(&target.seq) {
                missing.remove(&target.queue);
                self.queues.entry(target.queue).or_default().oldest = target.head.to_vec();
            }
        }
    }

    /// Appends the contents of the following part.
    pub(super) fn join(&mut self, next: Self) {
        for (queue, next) in next.queues {
            let listing = self.queues.entry(queue).or_default();
            let first = |listing: &Listing| listing.messages.first().map(|range| range.first);
            let firsts = [first(listing), first(&next)];
            listing.messages.extend(next.messages);
            listing.removed.extend(next.removed);
            if !next.newest.is_empty() {
                listing.newest = next.newest;
            }
            listing.normalize();
            match first(listing) {
                Some(oldest) if firsts[0] == Some(oldest) => {}
                Some(oldest) if firsts[1] == Some(oldest) => listing.oldest = next.oldest,
                _ => listing.oldest.clear(),
            }
        }
    }

    pub(super) fn put(&self, into: &mut Vec<u8>) {
        self.put_ranges(into, |listing| &listing.messages);
        self.put_ranges(into, |listing| &listing.removed);
        self.put_heads(into, |listing| &listing.newest);
        self.put_heads(into, |listing| &listing.oldest);
    }

    fn put_heads(&self, into: &mut Vec<u8>, head: impl Fn(&Listing) -> &Vec<u8>) {
        let queues = self.queues.iter().filter(|(_, listing)| !head(listing).is_empty());
        put_varint(into, queues.clone().count() as u64);
        for (queue, listing) in queues {
            put_varint(into, (*queue).into());
            put_varint(into, head(listing).len() as u64);
            into.extend_from_slice(head(listing));
        }
    }

    fn put_ranges(&self, into: &mut Vec<u8>, ranges: impl Fn(&Listing) -> &Vec<SeqRange>) {
        let queues = self.queues.iter().filter(|(_, listing)| !ranges(listing).is_empty());
        put_varint(into, queues.clone().count() as u64);
        for (queue, listing) in queues {
            put_varint(into, (*queue).into());
            put_varint(into, ranges(listing).len() as u64);
            for range in ranges(listing) {
                put_varint(into, range.first);
                put_varint(into, range.last - range.first);
            }
        }
    }

    /// Decodes all parts that are present: an older release has written only the messages.
    pub(super) fn take(take: &mut Take<'_>) -> Self {
        let mut contents = Self::default();
        let _ = contents.take_parts(take);
        contents
    }

    fn take_parts(&mut self, take: &mut Take<'_>) -> Option<()> {
        self.take_ranges(take, |listing| &mut listing.messages)?;
        self.take_ranges(take, |listing| &mut listing.removed)?;
        self.take_heads(take, |listing| &mut listing.newest)?;
        self.take_heads(take, |listing| &mut listing.oldest)
    }

    fn take_heads(&mut self, take: &mut Take<'_>, head: impl Fn(&mut Listing) -> &mut Vec<u8>) -> Option<()> {
        for _ in 0..take.varint()? {
            let listing = self.queues.entry(take.varint_u32()?).or_default();
            *head(listing) = take.length_prefixed()?.to_vec();
        }
        Some(())
    }

    fn take_ranges(&mut self, take: &mut Take<'_>, ranges: impl Fn(&mut Listing) -> &mut Vec<SeqRange>) -> Option<()> {
        for _ in 0..take.varint()? {
            let ranges = ranges(self.queues.entry(take.varint_u32()?).or_default());
            for _ in 0..take.varint()? {
                let first = take.varint()?;
                ranges.push(SeqRange { first, last: first.checked_add(take.varint()?)? });
            }
        }
        Some(())
    }
}

impl Listing {
    fn normalize(&mut self) {
        normalize(&mut self.messages);
        normalize(&mut self.removed);
        if !self.removed.is_empty() && !self.messages.is_empty() {
            self.messages = difference(&self.messages, &self.removed);
        }
    }
}

/// Appends a range. Numbers usually ascend, so the last range is extended.
#[inline]
fn append(ranges: &mut Vec<SeqRange>, range: SeqRange) {
    match ranges.last_mut() {
        Some(last) if last.last.checked_add(1) == Some(range.first) => last.last = range.last,
        _ => ranges.push(range),
    }
}

/// Puts ranges in order and joins those without a gap.
fn normalize(ranges: &mut Vec<SeqRange>) {
    if ranges.is_sorted_by(|one, next| one.last.checked_add(1).is_some_and(|end| end < next.first)) {
        return;
    }
    ranges.sort_unstable_by_key(|range| range.first);
    ranges.dedup_by(|next, range| {
        let joins = range.last.checked_add(1).is_none_or(|end| next.first <= end);
        if joins {
            range.last = range.last.max(next.last);
        }
        joins
    });
}

/// `ranges` minus `others`; both are in order.
fn difference(ranges: &[SeqRange], others: &[SeqRange]) -> Vec<SeqRange> {
    let mut left = Vec::new();
    let mut from = 0;
    for range in ranges {
        from += others[from..].iter().take_while(|other| other.last < range.first).count();
        let mut first = Some(range.first);
        for other in others[from..].iter().take_while(|other| other.first <= range.last) {
            if let Some(start) = first.filter(|start| *start < other.first) {
                left.push(SeqRange { first: start, last: other.first - 1 });
            }
            first = other.last.checked_add(1).filter(|next| *next <= range.last);
        }
        left.extend(first.map(|first| SeqRange { first, last: range.last }));
    }
    left
}

/// Adds numbers.
pub(super) fn add(ranges: &mut Ranges, first: u64, last: u64) {
    // Two segments can list the same message, because compaction copied it.
    cut(ranges, first, last);
    ranges.insert(first, last);
}

/// Removes numbers.
pub(super) fn cut(ranges: &mut Ranges, first: u64, last: u64) {
    let before = ranges.range(..first).next_back().map(|(from, to)| (*from, *to));
    if let Some((from, to)) = before.filter(|(_, to)| *to >= first) {
        ranges.insert(from, first - 1);
        if to > last {
            ranges.insert(last + 1, to);
        }
    }
    while let Some((from, to)) = ranges.range(first..=last).next().map(|(from, to)| (*from, *to)) {
        ranges.remove(&from);
        if to > last {
            ranges.insert(last + 1, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_match_a_set_after_additions_and_removals(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..40)) {
            let mut ranges = Ranges::new();
            let mut model = BTreeSet::new();
            for (put, first, len) in steps {
                if put {
                    add(&mut ranges, first, first + len);
                    model.extend(first..=first + len);
                } else {
                    cut(&mut ranges, first, first + len);
                    model.retain(|seq| !(first..=first + len).contains(seq));
                }
                let found: BTreeSet<u64> = ranges.iter().flat_map(|(first, last)| *first..=*last).collect();
                prop_assert_eq!(&found, &model);
                let count: u64 = ranges.iter().map(|(first, last)| last - first + 1).sum();
                prop_assert_eq!(count, model.len() as u64);
            }
        }

        #[test]
        fn contents_return_and_removed_messages_are_not_listed(
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..6), 0..60),
            parts in 1usize..5,
        ) {
            let mut model = (BTreeSet::new(), BTreeSet::new());
            let mut joined = Contents::default();
            for part in steps.chunks(steps.len().max(1).div_ceil(parts)) {
                let mut listing = Listing::default();
                for &(message, first, len) in part {
                    let into = if message { &mut listing.messages } else { &mut listing.removed };
                    append(into, SeqRange { first, last: first + len });
                    if message { &mut model.0 } else { &mut model.1 }.extend(first..=first + len);
                }
                listing.normalize();
                listing.newest = vec![part.len() as u8];
                listing.oldest = listing.messages.iter().map(|range| range.first as u8).take(1).collect();
                let contents = Contents { queues: BTreeMap::from([(7, listing)]) };
                let mut bytes = Vec::new();
                contents.put(&mut bytes);
                let taken = Contents::take(&mut Take::new(&bytes));
                prop_assert_eq!(&taken, &contents);
                joined.join(taken);
            }
            let listing = joined.queues.remove(&7).unwrap_or_default();
            let found: Vec<u64> = listing.messages.iter().flat_map(|range| range.first..=range.last).collect();
            prop_assert!(listing.oldest.is_empty() || u64::from(listing.oldest[0]) == found[0]);
            prop_assert_eq!(found, model.0.difference(&model.1).copied().collect::<Vec<_>>());
            let removed: Vec<u64> = listing.removed.iter().flat_map(|range| range.first..=range.last).collect();
            prop_assert_eq!(removed, model.1.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_taken_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let contents = Contents::take(&mut Take::new(&bytes));
            let ranges = contents.queues.values().map(|listing| listing.messages.len() + listing.removed.len());
            prop_assert!(ranges.sum::<usize>() <= bytes.len());
        }
    }
}
