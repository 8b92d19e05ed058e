//! From a number that the peer chose (channel, handle) to the place of its state.

use std::collections::BTreeMap;

/// Nothing is kept under this number.
const VACANT: u32 = u32::MAX;

/// How far beyond the numbers in use a new one may lie and still be found by indexing.
const REACH: usize = 16;

/// A map from small numbers to places: an array for the dense run of numbers that every peer uses,
/// a tree for those a peer scatters, so that memory follows the count of numbers and not the
/// largest of them.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    dense: Vec<u32>,
    sparse: BTreeMap<u32, u32>,
}

impl Slots {
    /// The place kept under `number`.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<u32> {
        match self.dense.get(number as usize) {
            Some(&place) if place != VACANT => Some(place),
            _ if self.sparse.is_empty() => None,
            _ => self.sparse.get(&number).copied(),
        }
    }

    /// Keeps `place` under `number`, which is vacant.
    pub(crate) fn insert(&mut self, number: u32, place: u32) {
        let index = number as usize;
        if index >= self.dense.len() && index < self.dense.len() * 2 + REACH {
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

    /// All places, in no promised order.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        self.dense.iter().copied().filter(|place| *place != VACANT).chain(self.sparse.values().copied())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_scattered_number_costs_one_entry() {
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
    fn numbers_in_a_row_move_the_array_seldom() {
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
        fn agrees_with_a_map(steps in prop::collection::vec((0u32..100, any::<bool>()), 0..200)) {
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
