//! Dispositions merged until the end of a turn (2.6.12).

use crate::types::{DeliveryState, Outcome};

static ACCEPTED_STATE: DeliveryState = DeliveryState::Outcome(Outcome::Accepted);
static RELEASED_STATE: DeliveryState = DeliveryState::Outcome(Outcome::Released);

/// A disposition of a delivery: whether it is settled, and the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedDisposition(u32);

const ACCEPTED: u32 = 0;
const RELEASED: u32 = 1;
const NO_STATE: u32 = 2;
const FIRST_OTHER: u32 = 3;

impl PackedDisposition {
    fn new(state: u32, settled: bool) -> Self {
        Self(state << 1 | u32::from(settled))
    }

    fn settled(self) -> bool {
        self.0 & 1 == 1
    }

    fn state(self) -> u32 {
        self.0 >> 1
    }
}

#[derive(Clone, Copy, Debug)]
struct Range {
    first: u32,
    last: u32,
    disposition: PackedDisposition,
}

/// Deliveries and their dispositions. Deliveries pushed in order of their ids extend the range
/// before them; others are sorted in when the ranges are taken.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    ranges: Vec<Range>,
    /// states with content, which a disposition refers to by index
    others: Vec<DeliveryState>,
    sorted: bool,
}

impl Ranges {
    /// Adds a delivery; `None` is settled without a state.
    #[inline]
    pub(crate) fn push(&mut self, id: u32, outcome: Option<&Outcome>, settled: bool) {
        let state = match outcome {
            Some(Outcome::Accepted) => ACCEPTED,
            Some(Outcome::Released) => RELEASED,
            None => NO_STATE,
            Some(other) => self.other(DeliveryState::Outcome(other.clone())),
        };
        self.add(id, id, PackedDisposition::new(state, settled));
    }

    /// Adds a delivery with any state.
    #[cold]
    pub(crate) fn push_state(&mut self, id: u32, state: &DeliveryState, settled: bool) {
        let state = self.other(state.clone());
        self.add(id, id, PackedDisposition::new(state, settled));
    }

    /// Adds `first..=last`, settled without a state.
    pub(crate) fn push_settled(&mut self, first: u32, last: u32) {
        self.add(first, last, PackedDisposition::new(NO_STATE, true));
    }

    #[inline]
    fn add(&mut self, first: u32, last: u32, disposition: PackedDisposition) {
        match self.ranges.last_mut() {
            Some(range) if range.disposition == disposition && range.last.wrapping_add(1) == first => range.last = last,
            Some(range) => {
                let behind = first.wrapping_sub(range.last) as i32 <= 0;
                self.sorted &= !behind;
                self.ranges.push(Range { first, last, disposition });
            }
            None => {
                self.sorted = true;
                self.ranges.push(Range { first, last, disposition });
            }
        }
    }

    #[cold]
    fn other(&mut self, state: DeliveryState) -> u32 {
        if self.others.last() != Some(&state) {
            self.others.push(state);
        }
        FIRST_OTHER + self.others.len() as u32 - 1
    }

    /// Empties this: `write(first, last, state, settled)` for each range, in order of ids.
    #[inline]
    pub(crate) fn take(&mut self, mut write: impl FnMut(u32, u32, Option<&DeliveryState>, bool)) {
        if !self.sorted {
            self.sort();
        }
        for range in &self.ranges {
            let state = match range.disposition.state() {
                ACCEPTED => Some(&ACCEPTED_STATE),
                RELEASED => Some(&RELEASED_STATE),
                NO_STATE => None,
                other => self.others.get((other - FIRST_OTHER) as usize),
            };
            write(range.first, range.last, state, range.disposition.settled());
        }
        self.ranges.clear();
        self.others.clear();
    }

    /// Sorts by serial number (RFC 1982; all ids lie within half of the number space) and joins
    /// neighbours.
    #[cold]
    fn sort(&mut self) {
        let Some(anchor) = self.ranges.first().map(|range| range.first) else { return };
        self.ranges.sort_by_key(|range| range.first.wrapping_sub(anchor) as i32);
        self.ranges.dedup_by(|next, range| {
            let joins = next.disposition == range.disposition && range.last.wrapping_add(1) == next.first;
            if joins {
                range.last = next.last;
            }
            joins
        });
        self.sorted = true;
    }

    /// Releases spare memory.
    pub(crate) fn trim(&mut self) {
        self.ranges.shrink_to_fit();
        self.others.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::{Error, condition};

    fn taken(ranges: &mut Ranges) -> Vec<(u32, u32, Option<Outcome>, bool)> {
        let mut all = Vec::new();
        ranges.take(|first, last, state, settled| {
            let outcome = state.map(|state| match state {
                DeliveryState::Outcome(outcome) => outcome.clone(),
                other => panic!("no outcome: {other:?}"),
            });
            all.push((first, last, outcome, settled));
        });
        all
    }

    fn rejected(text: &str) -> Outcome {
        Outcome::Rejected(Some(Box::new(Error::new(condition::NOT_FOUND, text))))
    }

    #[test]
    fn deliveries_in_order_make_one_range() {
        let mut ranges = Ranges::default();
        for id in [u32::MAX - 1, u32::MAX, 0, 1] {
            ranges.push(id, Some(&Outcome::Accepted), true);
        }
        assert_eq!(ranges.ranges.len(), 1);
        assert_eq!(taken(&mut ranges), [(u32::MAX - 1, 1, Some(Outcome::Accepted), true)]);
        assert!(ranges.ranges.is_empty());
    }

    #[test]
    fn ranges_split_where_state_or_settled_changes() {
        let mut ranges = Ranges::default();
        ranges.push(1, Some(&Outcome::Accepted), true);
        ranges.push(2, Some(&rejected("a")), true);
        ranges.push(3, Some(&rejected("a")), true);
        ranges.push(4, Some(&rejected("b")), true);
        ranges.push(5, Some(&Outcome::Accepted), false);
        ranges.push(6, None, true);
        let expected = [
            (1, 1, Some(Outcome::Accepted), true),
            (2, 3, Some(rejected("a")), true),
            (4, 4, Some(rejected("b")), true),
            (5, 5, Some(Outcome::Accepted), false),
            (6, 6, None, true),
        ];
        assert_eq!(taken(&mut ranges), expected);
    }

    proptest! {
        #[test]
        fn deliveries_in_any_order_yield_the_fewest_ranges(
            start in prop_oneof![Just(0), Just(u32::MAX - 20), any::<u32>()],
            order in Just((0u32..64).collect::<Vec<_>>()).prop_shuffle(),
            missing in 0u32..64,
        ) {
            let mut ranges = Ranges::default();
            for offset in order.iter().filter(|offset| **offset != missing) {
                let outcome = if offset % 16 < 12 { Outcome::Accepted } else { Outcome::Released };
                ranges.push(start.wrapping_add(*offset), Some(&outcome), true);
            }
            let taken = taken(&mut ranges);
            let mut reported = Vec::new();
            for (first, last, outcome, _) in &taken {
                for offset in 0..=last.wrapping_sub(*first) {
                    reported.push((first.wrapping_add(offset).wrapping_sub(start), outcome.clone().unwrap()));
                }
            }
            let expected: Vec<_> = (0..64).filter(|offset| *offset != missing)
                .map(|offset| (offset, if offset % 16 < 12 { Outcome::Accepted } else { Outcome::Released }))
                .collect();
            prop_assert_eq!(reported, expected);
            prop_assert!(taken.len() <= 9);
        }
    }
}
