//! A bounded number of slots, shared fairly.
//!
//! A key may hold as many slots as are free (Choudhury and Hahne, "Dynamic queue length
//! thresholds", 1998): a single key gets half of them, two keys get a third each, and a key without
//! slots gets one while any is free. So no share has to be configured, and no key takes all slots.

use std::collections::HashMap;
use std::hash::Hash;

/// The slots held by each key. It never waits: the caller refuses a key without room.
#[derive(Debug)]
pub(crate) struct FairQuota<K> {
    free: usize,
    /// the number of slots of one key may be this many times the number of free slots
    share: usize,
    taken: HashMap<K, usize>,
}

impl<K: Eq + Hash> FairQuota<K> {
    /// A quota of `free` slots, all of them free. Memory is bounded by the same number.
    pub(crate) fn new(free: usize) -> Self {
        Self::sharing(free, 1)
    }

    /// As `new`, but a key may have `share` times the number of free slots: a single key gets
    /// `share / (share + 1)` of all.
    pub(crate) fn sharing(free: usize, share: usize) -> Self {
        Self { free, share, taken: HashMap::new() }
    }

    /// The number of slots that `who` may still take.
    pub(crate) fn room_for(&self, who: &K) -> usize {
        (self.free * self.share).saturating_sub(self.taken.get(who).copied().unwrap_or(0))
    }

    /// Whether `who` may have one more.
    pub(crate) fn has_room_for(&self, who: &K) -> bool {
        self.room_for(who) > 0
    }

    /// Takes one slot if there is room for `who`.
    pub(crate) fn take(&mut self, who: K) -> bool {
        let has_room = self.has_room_for(&who);
        if has_room {
            self.free -= 1;
            *self.taken.entry(who).or_default() += 1;
        }
        has_room
    }

    /// Returns one slot of `who`.
    pub(crate) fn release(&mut self, who: &K) {
        let Some(count) = self.taken.get_mut(who) else { return };
        *count -= 1;
        self.free += 1;
        if *count == 0 {
            self.taken.remove(who);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_holder_gets_half_of_the_quota_and_two_get_a_third_each() {
        let mut places = FairQuota::new(12);
        let fill = |places: &mut FairQuota<char>, who| (0..100).filter(|_| places.take(who)).count();
        assert_eq!(fill(&mut places, 'a'), 6);
        assert_eq!(fill(&mut places, 'b'), 3, "half of the free slots");
        (0..2).for_each(|_| places.release(&'a'));
        assert_eq!((fill(&mut places, 'b'), fill(&mut places, 'a')), (1, 0));
    }

    proptest! {
        #[test]
        fn new_holder_has_room_while_any_place_is_free(steps in prop::collection::vec((0u8..6, any::<bool>()), 0..300)) {
            const PLACES: usize = 16;
            let mut places = FairQuota::new(PLACES);
            let mut model = [0usize; 6];
            for (who, takes) in steps {
                let held = &mut model[usize::from(who)];
                if takes {
                    *held += usize::from(places.take(who));
                } else if *held > 0 {
                    *held -= 1;
                    places.release(&who);
                }
                let taken: usize = model.iter().sum();
                prop_assert!(taken <= PLACES);
                prop_assert_eq!(places.has_room_for(&99), taken < PLACES);
                prop_assert_eq!(places.taken.len(), model.iter().filter(|held| **held > 0).count());
            }
        }

        #[test]
        fn single_holder_gets_at_most_half_of_the_places(places in 1usize..300) {
            let mut all = FairQuota::new(places);
            let held = (0..2 * places).filter(|_| all.take(())).count();
            prop_assert_eq!(held, places.div_ceil(2));
        }
    }
}
