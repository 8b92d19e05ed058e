//! Deliveries we sent whose outcome is pending (2.6.12).

use std::collections::{BTreeMap, VecDeque};

/// Below this length the ring is never compacted.
const RING_MIN: usize = 64;

/// From this length on, a ring with at least 7/8 holes is compacted.
const RING_MAX_HOLES: usize = 1024;

/// Above every 32-bit id, so that ids just below the first one differ from later ones.
const EPOCH: u64 = 1 << 32;

#[derive(Clone, Copy, Debug)]
struct Entry {
    token: u64,
    link: Option<u32>,
}

const SETTLED: Entry = Entry { token: 0, link: None };

/// A session's unsettled deliveries: a ring indexed by delivery id, because ids are consecutive.
/// Deliveries that stay unsettled longer than their neighbours move to a tree, so that one late
/// outcome does not lengthen the ring. Internal ids have 64 bits; the low half is the id on the
/// wire.
#[derive(Debug)]
pub(crate) struct Unsettled {
    next: u64,
    /// the deliveries before `next`, the oldest first; settled ones are holes
    ring: VecDeque<Entry>,
    stragglers: BTreeMap<u64, Entry>,
    live: u32,
}

impl Unsettled {
    /// An empty map whose first delivery gets `first_id`.
    pub(crate) fn new(first_id: u32) -> Self {
        Self { next: EPOCH + u64::from(first_id), ring: VecDeque::new(), stragglers: BTreeMap::new(), live: 0 }
    }

    /// The id of the next delivery.
    #[inline]
    pub(crate) fn next_id(&self) -> u32 {
        self.next as u32
    }

    /// Deliveries that wait for an outcome.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.live
    }

    /// Gives the next id to a delivery that is sent settled.
    #[inline]
    pub(crate) fn pass(&mut self) {
        if !self.ring.is_empty() {
            self.push(SETTLED);
        }
        self.next += 1;
    }

    /// Gives the next id to a delivery of `link`.
    #[inline]
    pub(crate) fn insert(&mut self, link: u32, token: u64) {
        self.push(Entry { token, link: Some(link) });
        self.next += 1;
        self.live += 1;
    }

    #[inline]
    fn push(&mut self, entry: Entry) {
        if self.ring.len() == self.ring.capacity() && self.ring.len() >= RING_MIN && self.holes() * 2 >= self.ring.len()
        {
            self.compact_ring();
        }
        self.ring.push_back(entry);
    }

    /// Settled deliveries in the ring.
    fn holes(&self) -> usize {
        self.ring.len() + self.stragglers.len() - self.live as usize
    }

    /// Compacts a ring that is mostly holes.
    #[cold]
    fn compact_ring(&mut self) {
        let base = self.next - self.ring.len() as u64;
        for (id, entry) in (base..).zip(self.ring.drain(..)) {
            if entry.link.is_some() {
                self.stragglers.insert(id, entry);
            }
        }
    }

    /// Takes the unsettled deliveries of `first..=last` (serial numbers): `f(id, link, token)` in
    /// order of ids.
    #[inline]
    pub(crate) fn take(&mut self, first: u32, last: u32, mut f: impl FnMut(u32, u32, u64)) {
        let (from, to) = self.span(first, last);
        if !self.stragglers.is_empty() {
            self.take_stragglers(from, to, &mut f);
        }
        let base = self.next - self.ring.len() as u64;
        let (start, end) = (from.max(base) - base, to.min(self.next).max(base) - base);
        let mut taken = 0;
        let entries = self.ring.range_mut(start.min(end) as usize..end as usize);
        for (id, entry) in (base + start..).zip(entries) {
            if let Some(link) = entry.link.take() {
                taken += 1;
                f(id as u32, link, entry.token);
            }
        }
        self.live -= taken;
        if start == 0 {
            self.advance();
        } else if self.ring.len() >= RING_MAX_HOLES && self.holes() * 8 >= self.ring.len() * 7 {
            // Without this, a peer could force repeated scans of all holes.
            self.compact_ring();
        }
    }

    /// The ids `first..=last` counted beyond 32 bits, as `from..to`: the latest ones that are
    /// already assigned.
    fn span(&self, first: u32, last: u32) -> (u64, u64) {
        let from = self.next - u64::from(self.next_id().wrapping_sub(first));
        (from, from + u64::from(last.wrapping_sub(first)) + 1)
    }

    #[cold]
    fn take_stragglers(&mut self, from: u64, to: u64, f: &mut impl FnMut(u32, u32, u64)) {
        while let Some((&id, &entry)) = self.stragglers.range(from..to).next() {
            self.stragglers.remove(&id);
            self.live -= 1;
            if let Some(link) = entry.link {
                f(id as u32, link, entry.token);
            }
        }
    }

    /// Drops the holes at the front of the ring.
    #[inline]
    fn advance(&mut self) {
        while self.ring.front().is_some_and(|entry| entry.link.is_none()) {
            self.ring.pop_front();
        }
    }

    /// Takes all deliveries of the links that `ends` selects, in one pass over all deliveries:
    /// `f(link, token)` in order of ids.
    pub(crate) fn take_links(&mut self, ends: impl Fn(u32) -> bool, mut f: impl FnMut(u32, u64)) {
        let mut taken = 0;
        let mut take = |entry: &mut Entry| {
            if let Some(link) = entry.link.filter(|link| ends(*link)) {
                taken += 1;
                entry.link = None;
                f(link, entry.token);
            }
        };
        self.stragglers.values_mut().for_each(&mut take);
        self.ring.iter_mut().for_each(&mut take);
        self.live -= taken;
        self.stragglers.retain(|_, entry| entry.link.is_some());
        self.advance();
    }

    /// Each unsettled delivery of `first..=last`: id, link and token, in order of ids.
    pub(crate) fn range(&self, first: u32, last: u32) -> impl Iterator<Item = (u32, u32, u64)> {
        let (from, to) = self.span(first, last);
        let base = self.next - self.ring.len() as u64;
        let (start, end) = (from.max(base) - base, to.min(self.next).max(base) - base);
        let ring = (base + start..).zip(self.ring.range(start.min(end) as usize..end as usize).copied());
        let stragglers = self.stragglers.range(from..to).map(|(id, entry)| (*id, *entry));
        stragglers.chain(ring).filter_map(|(id, entry)| Some((id as u32, entry.link?, entry.token)))
    }

    /// Releases spare memory.
    pub(crate) fn trim(&mut self) {
        self.ring.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(unsettled: &mut Unsettled, first: u32, last: u32) -> Vec<(u32, u64)> {
        let mut taken = Vec::new();
        unsettled.take(first, last, |_, link, token| taken.push((link, token)));
        taken
    }

    #[test]
    fn deliveries_can_be_settled_in_any_order() {
        let mut unsettled = Unsettled::new(0);
        for token in 0..5 {
            unsettled.insert(7, token);
        }
        assert_eq!(take(&mut unsettled, 3, 4), [(7, 3), (7, 4)]);
        assert_eq!(take(&mut unsettled, 0, 0), [(7, 0)]);
        assert_eq!(unsettled.range(0, 9).collect::<Vec<_>>(), [(1, 7, 1), (2, 7, 2)]);
        assert_eq!(take(&mut unsettled, 0, 9), [(7, 1), (7, 2)]);
        assert_eq!(take(&mut unsettled, 0, 9), []);
        assert_eq!((unsettled.len(), unsettled.next_id(), unsettled.ring.len()), (0, 5, 0));
    }

    #[test]
    fn ids_wrap_around() {
        let mut unsettled = Unsettled::new(u32::MAX - 1);
        for token in 0..4 {
            unsettled.insert(0, token);
        }
        assert_eq!(unsettled.next_id(), 2);
        assert_eq!(take(&mut unsettled, u32::MAX - 1, 0), [(0, 0), (0, 1), (0, 2)]);
        assert_eq!(take(&mut unsettled, 1, 1), [(0, 3)]);
    }

    #[test]
    fn range_beyond_the_sent_deliveries_takes_only_sent_ones() {
        let mut unsettled = Unsettled::new(0);
        unsettled.insert(0, 1);
        assert_eq!(take(&mut unsettled, 5, 9), []);
        assert_eq!(take(&mut unsettled, 0x8000_0000, 0x9000_0000), []);
        assert_eq!(take(&mut unsettled, u32::MAX - 5, u32::MAX), []);
        assert_eq!(take(&mut unsettled, u32::MAX - 5, 0x7000_0000), [(0, 1)]);
    }

    #[test]
    fn one_slow_outcome_does_not_grow_the_ring() {
        let mut unsettled = Unsettled::new(0);
        unsettled.insert(3, 42);
        for token in 0..100_000u32 {
            if token % 2 == 0 {
                unsettled.pass();
            } else {
                let id = unsettled.next_id();
                unsettled.insert(4, u64::from(token));
                assert_eq!(take(&mut unsettled, id, id).len(), 1);
            }
        }
        assert!(unsettled.ring.capacity() <= 2 * RING_MIN, "{} entries", unsettled.ring.capacity());
        assert!(unsettled.stragglers.len() <= 1);
        assert_eq!(take(&mut unsettled, 0, 0), [(3, 42)]);
        assert_eq!(unsettled.len(), 0);
    }

    #[test]
    fn settling_most_deliveries_empties_the_ring() {
        let mut unsettled = Unsettled::new(0);
        for token in 0..4096 {
            unsettled.insert(1, token);
        }
        assert_eq!(take(&mut unsettled, 1, 4094).len(), 4094);
        assert!(unsettled.ring.is_empty());
        assert_eq!(take(&mut unsettled, 0, 5000), [(1, 0), (1, 4095)]);
    }

    #[test]
    fn take_links_returns_only_deliveries_of_those_links() {
        let mut unsettled = Unsettled::new(0);
        for token in 0..200 {
            unsettled.insert(token as u32 % 2, token);
        }
        let mut taken = Vec::new();
        unsettled.take_links(|link| link == 1, |_, token| taken.push(token));
        assert_eq!(taken, (0..200).filter(|token| token % 2 == 1).collect::<Vec<_>>());
        assert_eq!(unsettled.len(), 100);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u32),
        Pass,
        Take(u32, u32),
        Links(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0u32..3).prop_map(Step::Insert),
            4 => Just(Step::Pass),
            3 => (0u32..400, 0u32..8).prop_map(|(back, length)| Step::Take(back, length)),
            1 => (0u32..3).prop_map(Step::Links),
        ]
    }

    proptest! {
        #[test]
        fn unsettled_agrees_with_a_map_model(
            first_id in prop_oneof![Just(0), Just(u32::MAX - 50)],
            steps in prop::collection::vec(step(), 0..800),
        ) {
            let mut unsettled = Unsettled::new(first_id);
            let mut model: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
            let mut next = 0u64;
            for step in steps {
                match step {
                    Step::Insert(link) => {
                        unsettled.insert(link, next);
                        model.insert(next, (link, next));
                        next += 1;
                    }
                    Step::Pass => {
                        unsettled.pass();
                        next += 1;
                    }
                    Step::Take(back, length) => {
                        let first = next.saturating_sub(u64::from(back));
                        let id = first_id.wrapping_add(first as u32);
                        let mut expected = Vec::new();
                        for id in first..=first + u64::from(length) {
                            expected.extend(model.remove(&id));
                        }
                        prop_assert_eq!(take(&mut unsettled, id, id.wrapping_add(length)), expected);
                    }
                    Step::Links(link) => {
                        let mut taken = Vec::new();
                        unsettled.take_links(|other| other >= link, |link, token| taken.push((link, token)));
                        let expected: Vec<(u32, u64)> =
                            model.values().filter(|entry| entry.0 >= link).copied().collect();
                        model.retain(|_, entry| entry.0 < link);
                        prop_assert_eq!(taken, expected);
                    }
                }
                prop_assert_eq!(unsettled.len() as usize, model.len());
                prop_assert_eq!(unsettled.next_id(), first_id.wrapping_add(next as u32));
            }
        }
    }
}
