//! Tags of the deliveries that a link has received and not settled (2.6.12). They must be unique,
//! and some errors name them.
//!
//! Most senders use consecutive big-endian numbers as tags. Such deliveries share a [`Run`]: adding
//! one costs a comparison, and settling it clears a bit.

use std::collections::VecDeque;
use std::ops::Range;

use crate::codec::MAX_DELIVERY_TAG;

/// The most unsettled deliveries that are searched for a duplicate tag. Consecutive tags need no
/// search.
const SEARCHED: u32 = 1024;
/// Deliveries of a run, at most: one for each bit of [`Run::unsettled`].
const RUN: u32 = u64::BITS;
/// Runs of settled deliveries that may stay between unsettled ones.
const SETTLED_KEPT: usize = 64;
/// Runs for which memory is kept while nothing is unsettled.
const KEPT: usize = 64;

/// A tag stored inline, right-aligned. Tags are ordered by length and then by their bytes, which is
/// the order of counters in all usual encodings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Tag {
    length: u8,
    bytes: [u8; MAX_DELIVERY_TAG],
}

impl Tag {
    fn new(tag: &[u8]) -> Self {
        let mut bytes = [0; MAX_DELIVERY_TAG];
        // The codec rejects longer tags.
        let length = tag.len().min(MAX_DELIVERY_TAG);
        bytes[MAX_DELIVERY_TAG - length..].copy_from_slice(&tag[..length]);
        Self { length: length as u8, bytes }
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[MAX_DELIVERY_TAG - usize::from(self.length)..]
    }

    /// This tag plus `count`; `count` is 0 unless the tag is a number.
    fn plus(mut self, count: u32) -> Self {
        if let Some(number) = number(self.as_slice()) {
            let (_, low) = self.bytes.split_at_mut(MAX_DELIVERY_TAG - 8);
            low.copy_from_slice(&(number + u64::from(count)).to_be_bytes());
        }
        self
    }
}

/// A tag as a number, if it is short enough for one.
#[inline]
fn number(tag: &[u8]) -> Option<u64> {
    match *tag {
        [a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d]).into()),
        [a, b, c, d, e, f, g, h] => Some(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
        _ => unusual_number(tag),
    }
}

fn unusual_number(tag: &[u8]) -> Option<u64> {
    (tag.len() < 8).then(|| tag.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Deliveries with consecutive ids and tags.
#[derive(Debug, Default)]
struct Run {
    id: u32,
    count: u32,
    /// one bit per delivery; the lowest is the first delivery
    unsettled: u64,
    /// the first tag as a number; 0 if it is not a number, and then the run has one delivery
    number: u64,
    tag: Tag,
}

impl Run {
    /// Whether a delivery is the next one of the run.
    #[inline]
    fn is_next(&self, id: u32, tag: &[u8]) -> bool {
        let follows = id == self.id.wrapping_add(self.count) && self.count < RUN;
        let steps = |number: u64| number.checked_sub(self.number) == Some(self.count.into());
        follows && tag.len() == usize::from(self.tag.length) && number(tag).is_some_and(steps)
    }

    #[inline]
    fn extend(&mut self) {
        self.unsettled |= 1 << self.count;
        self.count += 1;
    }

    /// The index of a delivery in the run.
    fn offset(&self, id: u32) -> Option<u32> {
        Some(id.wrapping_sub(self.id)).filter(|offset| *offset < self.count)
    }

    fn last(&self) -> Tag {
        self.tag.plus(self.count.saturating_sub(1))
    }

    fn has(&self, tag: &Tag, number: Option<u64>) -> bool {
        let same = || (self.tag.bytes == tag.bytes).then_some(0);
        let offset = number.map_or_else(same, |number| number.checked_sub(self.number));
        let is_unsettled = |offset| offset < u64::from(self.count) && self.unsettled >> offset & 1 == 1;
        self.tag.length == tag.length && offset.is_some_and(is_unsettled)
    }

    /// Settles up to `count` deliveries from `offset` on, which is within the run. Returns their
    /// number.
    fn settle(&mut self, offset: u32, count: u32) -> u32 {
        let count = count.min(self.count - offset);
        self.unsettled &= !(u64::MAX >> (RUN - count) << offset);
        count
    }

    /// Settles those between two ids (serial numbers, 2.8.9).
    fn settle_range(&mut self, first: u32, last: u32) {
        for offset in 0..self.count {
            if self.id.wrapping_add(offset).wrapping_sub(first) <= last.wrapping_sub(first) {
                self.unsettled &= !(1 << offset);
            }
        }
    }
}

/// Deliveries in the order of their ids, from the oldest unsettled one on.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    last: Run,
    older: VecDeque<Run>,
    /// consecutive settled deliveries that the runs do not record yet
    settled: Range<u32>,
    /// the last tag is the highest
    rising: bool,
    /// unless rising: no tag is higher than this
    highest: Tag,
    /// length of `older` at which settled runs are removed
    sweep_at: usize,
}

impl Tags {
    /// Adds a delivery. `false`: an unsettled one has the same tag.
    #[inline(always)]
    pub(crate) fn insert(&mut self, id: u32, tag: &[u8]) -> bool {
        if self.rising && self.last.is_next(id, tag) {
            self.last.extend();
            return true;
        }
        self.insert_unordered(id, tag)
    }

    /// Adds a delivery whose tag does not follow the highest one.
    #[inline(never)]
    fn insert_unordered(&mut self, id: u32, bytes: &[u8]) -> bool {
        self.apply_settled();
        let (tag, number) = (Tag::new(bytes), number(bytes));
        if self.older.is_empty() && self.last.unsettled == 0 {
            self.clear();
            self.rising = true;
        } else {
            if self.rising {
                self.highest = self.last.last();
            }
            self.rising = tag > self.highest;
            if !self.rising && self.is_in_use(&tag, number) {
                return false;
            }
        }
        if self.last.count > 0 && self.last.is_next(id, bytes) {
            self.last.extend();
        } else {
            self.push(Run { id, count: 1, unsettled: 1, number: number.unwrap_or(0), tag });
        }
        true
    }

    fn push(&mut self, run: Run) {
        let before = std::mem::replace(&mut self.last, run);
        if before.unsettled == 0 {
            return;
        }
        if self.older.len() >= self.sweep_at.max(SETTLED_KEPT) {
            self.older.retain(|run| run.unsettled != 0);
            self.sweep_at = 2 * self.older.len();
        }
        self.older.push_back(before);
    }

    fn is_in_use(&self, tag: &Tag, number: Option<u64>) -> bool {
        let mut seen = 0;
        for run in std::iter::once(&self.last).chain(self.older.iter().rev()) {
            if run.has(tag, number) {
                return true;
            }
            seen += run.unsettled.count_ones();
            if seen >= SEARCHED {
                break;
            }
        }
        false
    }

    /// The tag of a delivery, which has not been settled.
    pub(crate) fn get(&self, id: u32) -> Option<Vec<u8>> {
        let run = if self.last.offset(id).is_some() { &self.last } else { self.older.get(self.place(id)?)? };
        Some(run.tag.plus(run.offset(id)?).as_slice().to_vec())
    }

    /// The index of the older run that may contain a delivery.
    fn place(&self, id: u32) -> Option<usize> {
        let first = self.older.front()?.id;
        let behind = self.older.partition_point(|run| run.id.wrapping_sub(first) <= id.wrapping_sub(first));
        behind.checked_sub(1)
    }

    /// Records a settled delivery. Usually it follows the one settled before.
    #[inline]
    pub(crate) fn settle(&mut self, id: u32) {
        if id != self.settled.end {
            self.apply_settled();
            self.settled.start = id;
        }
        self.settled.end = id.wrapping_add(1);
    }

    /// Applies the recorded settled deliveries to the runs.
    fn apply_settled(&mut self) {
        let Range { start: mut id, end } = self.settled;
        while id != end {
            let at = if self.last.offset(id).is_some() { None } else { self.place(id) };
            let run = at.map_or(&mut self.last, |at| &mut self.older[at]);
            id = id.wrapping_add(run.offset(id).map_or(1, |offset| run.settle(offset, end.wrapping_sub(id))));
        }
        self.settled.start = end;
        self.drop_settled();
    }

    /// Deliveries between two ids (serial numbers, 2.8.9) are settled.
    pub(crate) fn settle_range(&mut self, first: u32, last: u32) {
        self.last.settle_range(first, last);
        self.older.iter_mut().for_each(|run| run.settle_range(first, last));
        self.drop_settled();
    }

    fn drop_settled(&mut self) {
        while self.older.front().is_some_and(|run| run.unsettled == 0) {
            self.older.pop_front();
        }
    }

    fn clear(&mut self) {
        self.last = Run::default();
        self.sweep_at = 0;
        if self.older.capacity() > KEPT {
            self.older = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Tags {
        fn unsettled(&mut self) -> u32 {
            self.apply_settled();
            self.older.iter().chain([&self.last]).map(|run| run.unsettled.count_ones()).sum()
        }
    }

    #[test]
    fn section_2_6_12_a_tag_is_free_again_once_its_delivery_is_settled() {
        let mut tags = Tags::default();
        assert!(tags.insert(0, b"a") && tags.insert(1, b"b"));
        assert!(!tags.insert(2, b"a") && !tags.insert(2, b"b"));
        tags.settle(1);
        assert!(tags.insert(2, b"b"));
        let got = [0, 1, 2].map(|id| tags.get(id).unwrap_or_default());
        assert_eq!(got, [b"a", b"b", b"b"]);
        tags.settle_range(0, 2);
        assert!(tags.unsettled() == 0 && tags.insert(3, b"a"));
    }

    #[test]
    fn unsettled_delivery_does_not_retain_later_settled_ones() {
        let scattered = |id: u32| id.wrapping_mul(0x9E37_79B9).to_le_bytes();
        for tag_of in [u32::to_be_bytes, u32::to_le_bytes, scattered] {
            let mut tags = Tags::default();
            assert!(tags.insert(0, b"first"));
            for id in 1..100_000_u32 {
                assert!(tags.insert(id, &tag_of(id)));
                tags.settle(id);
            }
            assert!(tags.older.len() <= 2 + SETTLED_KEPT, "{} runs", tags.older.len());
            assert!(!tags.insert(100_000, b"first"));
        }
    }

    #[test]
    fn counting_tags_use_one_run_per_64_deliveries_and_return_memory() {
        let mut tags = Tags::default();
        let start = u32::MAX - 1000;
        for count in 0..100_000_u32 {
            assert!(tags.insert(start.wrapping_add(count), &u64::from(count).to_be_bytes()));
        }
        assert!(tags.older.len() <= 100_000 / 64 + 1, "{} runs", tags.older.len());
        assert!(!tags.insert(start.wrapping_add(100_000), &99_999_u64.to_be_bytes()));
        assert_eq!(tags.get(start.wrapping_add(2000)), Some(2000_u64.to_be_bytes().to_vec()));
        tags.settle_range(start, start.wrapping_add(99_999));
        assert!(tags.insert(start.wrapping_add(100_000), b"another"));
        assert!(tags.older.capacity() <= KEPT);
    }

    #[test]
    fn restarted_tag_counter_is_not_mistaken_for_a_continued_one() {
        let mut tags = Tags::default();
        assert!(tags.insert(0, &[255]) && tags.insert(1, &[1, 0]) && tags.insert(2, &[0]));
        assert!(tags.insert(3, &u64::MAX.to_be_bytes()) && tags.insert(4, &0_u64.to_be_bytes()));
        assert!(!tags.insert(5, &[255]) && !tags.insert(5, &[1, 0]) && !tags.insert(5, &0_u64.to_be_bytes()));
        assert!(tags.insert(5, &[0, 255]), "the same number in another length is another tag");
    }

    /// The next step of a sender or its receiver.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// the next tag of the counter
        Next,
        Begin(u8),
        /// an unsettled delivery, by its place
        Settle(usize),
        Skip(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => Just(Step::Next),
            1 => any::<u8>().prop_map(Step::Begin),
            5 => (0..300_usize).prop_map(Step::Settle),
            1 => (1..100_u32).prop_map(Step::Skip),
        ]
    }

    proptest! {
        #[test]
        fn tags_agree_with_a_list_model(start in any::<u32>(), length in 1..12_usize, steps in prop::collection::vec(step(), 0..600)) {
            let (mut tags, mut model, mut id) = (Tags::default(), Vec::<(u32, Vec<u8>)>::new(), start);
            let mut counter = 0_u8;
            for step in steps {
                match step {
                    Step::Next | Step::Begin(_) => {
                        counter = if let Step::Begin(at) = step { at } else { counter.wrapping_add(1) };
                        let mut tag = vec![7; length];
                        tag[length - 1] = counter;
                        let is_free = model.iter().all(|(_, other)| *other != tag);
                        prop_assert_eq!(tags.insert(id, &tag), is_free);
                        if is_free {
                            prop_assert_eq!(tags.get(id), Some(tag.clone()));
                            model.push((id, tag));
                            id = id.wrapping_add(1);
                        }
                    }
                    Step::Settle(at) if !model.is_empty() => {
                        let (settled, _) = model.remove(at % model.len().min(1 + at / 4));
                        tags.settle(settled);
                    }
                    Step::Settle(_) => {}
                    Step::Skip(count) => id = id.wrapping_add(count),
                }
                prop_assert_eq!(tags.unsettled() as usize, model.len());
            }
            for (id, tag) in &model {
                prop_assert_eq!(tags.get(*id), Some(tag.clone()));
            }
        }
    }
}
