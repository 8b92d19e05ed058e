//! Maps a number that the peer chose (channel, handle) to the index of its state.

use std::collections::BTreeMap;

/// Marks a number without an entry.
const VACANT: u32 = u32::MAX;

/// The largest gap after the numbers in use within which a new number is still stored densely.
const DENSE_GAP_MAX: usize = 16;

/// A map from small numbers to indices: an array for dense numbers, a tree for scattered ones.
/// Memory depends on the count of numbers, not on the largest.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    dense: Vec<u32>,
    sparse: BTreeMap<u32, u32>,
}

impl Slots {
    /// The index stored for `number`.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<u32> {
        match self.dense.get(number as usize) {
            Some(&place) if place != VACANT => Some(place),
            _ if self.sparse.is_empty() => None,
            _ => self.sparse.get(&number).copied(),
        }
    }

    /// Stores `place` for `number`, which must be vacant.
    pub(crate) fn insert(&mut self, number: u32, place: u32) {
        let index = number as usize;
        if index >= self.dense.len() && index < self.dense.len() * 2 + DENSE_GAP_MAX {
            self.dense.resize(index + 1, VACANT);
        }
        match self.dense.get_mut(index) {
            Some(slot) => *slot = place,
            None => {
                self.sparse.insert(number, place);
            }
        }
    }

    /// Makes `number` vacant.
    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(slot) = self.dense.get_mut(number as usize) {
            *slot = VACANT;
            while self.dense.last() == Some(&VACANT) {
                self.dense.pop();
            }
        }
        self.sparse.remove(&number);
    }

    /// All indices, in no particular order.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        self.dense.iter().copied().filter(|place| *place != VACANT).chain(self.sparse.values().copied())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sparse_number_takes_one_entry() {
        let mut slots = Slots::default();
        slots.insert(16_383, 1);
        slots.insert(u32::MAX, 2);
        assert_eq!((slots.get(16_383), slots.get(u32::MAX), slots.get(0)), (Some(1), Some(2), None));
        assert!(slots.dense.is_empty());
        slots.remove(16_383);
        assert_eq!(slots.get(16_383), None);
        assert_eq!(slots.sparse.len(), 1);
    }

    #[test]
    fn consecutive_numbers_rarely_reallocate_the_array() {
        let mut slots = Slots::default();
        let mut moves = 0;
        for number in 0..10_000 {
            let before = slots.dense.capacity();
            slots.insert(number, number);
            moves += u32::from(slots.dense.capacity() != before);
        }
        assert!(moves < 20, "{moves} times for ten thousand numbers");
    }

    proptest! {
        #[test]
        fn slots_agree_with_a_map_model(steps in prop::collection::vec((0u32..100, any::<bool>()), 0..200)) {
            let mut slots = Slots::default();
            let mut model = BTreeMap::new();
            for (place, (number, insert)) in (0u32..).zip(steps) {
                if insert && !model.contains_key(&number) {
                    slots.insert(number, place);
                    model.insert(number, place);
                } else {
                    slots.remove(number);
                    model.remove(&number);
                }
                for probe in 0..100 {
                    prop_assert_eq!(slots.get(probe), model.get(&probe).copied());
                }
                let mut places: Vec<u32> = slots.places().collect();
                places.sort_unstable();
                let mut expected: Vec<u32> = model.values().copied().collect();
                expected.sort_unstable();
                prop_assert_eq!(places, expected);
            }
        }
    }
}
