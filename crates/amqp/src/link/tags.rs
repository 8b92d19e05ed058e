//! Tags of the deliveries that a link has received and not settled (2.6.12): no two may be alike, and some errors name
//! them.

use std::collections::VecDeque;

use crate::codec::MAX_DELIVERY_TAG;

/// Unsettled deliveries among which a tag is looked for. Senders that count never cause a search.
const SEARCHED: usize = 1024;
/// Entries of settled deliveries that may stay beyond as many as there are unsettled ones.
const SETTLED_KEPT: usize = 64;
/// Entries for which memory is kept while nothing is unsettled.
const KEPT: usize = 256;

/// A tag in place. Tags are ordered by length and then by their bytes, which is the order of counters in all usual
/// encodings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Tag {
    length: u8,
    bytes: [u8; MAX_DELIVERY_TAG],
}

impl Tag {
    #[inline]
    fn new(tag: &[u8]) -> Self {
        let mut bytes = [0; MAX_DELIVERY_TAG];
        // The codec lets no longer tag pass.
        let length = tag.len().min(MAX_DELIVERY_TAG);
        bytes[..length].copy_from_slice(&tag[..length]);
        Self { length: length as u8, bytes }
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

#[derive(Debug)]
struct Entry {
    id: u32,
    settled: bool,
    tag: Tag,
}

/// Deliveries in the order of their ids, from the oldest unsettled one on.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    entries: VecDeque<Entry>,
    unsettled: usize,
    /// no tag of `entries` is higher
    highest: Tag,
}

impl Tags {
    /// A delivery begins. `false`: an unsettled one has the same tag.
    #[inline]
    pub(crate) fn insert(&mut self, id: u32, tag: &[u8]) -> bool {
        let tag = Tag::new(tag);
        if !self.entries.is_empty() && tag <= self.highest {
            if self.is_in_use(&tag) {
                return false;
            }
        } else {
            self.highest = tag;
        }
        self.entries.push_back(Entry { id, settled: false, tag });
        self.unsettled += 1;
        true
    }

    fn is_in_use(&self, tag: &Tag) -> bool {
        self.entries.iter().rev().filter(|entry| !entry.settled).take(SEARCHED).any(|entry| entry.tag == *tag)
    }

    /// The tag of an unsettled delivery.
    pub(crate) fn get(&self, id: u32) -> Option<&[u8]> {
        self.place(id).and_then(|at| self.entries.get(at)).map(|entry| entry.tag.as_slice())
    }

    fn place(&self, id: u32) -> Option<usize> {
        let first = self.entries.front()?.id;
        self.entries.binary_search_by_key(&id.wrapping_sub(first), |entry| entry.id.wrapping_sub(first)).ok()
    }

    /// A delivery is settled.
    #[inline]
    pub(crate) fn settle(&mut self, id: u32) {
        // Nearly always the oldest one: that needs no search.
        let at = if self.entries.front().is_some_and(|entry| entry.id == id) { Some(0) } else { self.place(id) };
        if let Some(at) = at {
            self.mark(at);
            self.drop_settled();
        }
    }

    /// Deliveries between two ids (serial numbers, 2.8.9) are settled.
    pub(crate) fn settle_range(&mut self, first: u32, last: u32) {
        for at in 0..self.entries.len() {
            if self.entries[at].id.wrapping_sub(first) <= last.wrapping_sub(first) {
                self.mark(at);
            }
        }
        self.drop_settled();
    }

    fn mark(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        self.unsettled -= usize::from(!entry.settled);
        entry.settled = true;
    }

    fn drop_settled(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.settled) {
            self.entries.pop_front();
        }
        if self.entries.len() > 2 * self.unsettled + SETTLED_KEPT {
            self.entries.retain(|entry| !entry.settled);
        }
        if self.entries.is_empty() && self.entries.capacity() > KEPT {
            self.entries = VecDeque::new();
        }
        debug_assert!(self.unsettled <= self.entries.len());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn section_2_6_12_a_tag_is_free_again_once_its_delivery_is_settled() {
        let mut tags = Tags::default();
        assert!(tags.insert(0, b"a") && tags.insert(1, b"b"));
        assert!(!tags.insert(2, b"a") && !tags.insert(2, b"b"));
        tags.settle(1);
        assert!(tags.insert(2, b"b"));
        assert_eq!((tags.get(0), tags.get(1), tags.get(2)), (Some(&b"a"[..]), Some(&b"b"[..]), Some(&b"b"[..])));
        tags.settle_range(0, 2);
        assert!(tags.entries.is_empty() && tags.insert(3, b"a"));
    }

    #[test]
    fn a_delivery_that_stays_unsettled_does_not_keep_those_behind_it() {
        let mut tags = Tags::default();
        assert!(tags.insert(0, b"first"));
        for id in 1..100_000_u32 {
            assert!(tags.insert(id, &id.to_be_bytes()));
            tags.settle(id);
        }
        assert!(tags.entries.len() <= 2 + SETTLED_KEPT, "{} entries", tags.entries.len());
        assert!(!tags.insert(100_000, b"first"));
    }

    proptest! {
        #[test]
        fn agrees_with_a_list(start in any::<u32>(), steps in prop::collection::vec((any::<bool>(), 0u8..12), 0..300)) {
            let (mut tags, mut model, mut next) = (Tags::default(), Vec::<(u32, u8)>::new(), start);
            for (begins, number) in steps {
                if begins {
                    let is_free = model.iter().all(|(_, tag)| *tag != number);
                    prop_assert_eq!(tags.insert(next, &[number]), is_free);
                    if is_free {
                        model.push((next, number));
                        next = next.wrapping_add(1);
                    }
                } else if !model.is_empty() {
                    let (id, _) = model.remove(usize::from(number) % model.len());
                    tags.settle(id);
                }
            }
        }
    }
}
