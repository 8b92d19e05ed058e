//! A seeded random number generator (splitmix64): the same seed gives the same run.

/// A random number generator.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator with this seed.
    #[must_use]
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.number()) * bound as u128) >> 64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high - low + 1) as usize) as u64
    }

    /// True `permille` times out of a thousand.
    pub(crate) fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille as usize
    }

    /// One of several.
    ///
    /// # Panics
    /// If `choices` is empty.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// A separate generator, so that the choices of one do not affect the other.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.number())
    }

    /// Fills `bytes`.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.number() as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_the_same_random_numbers() {
        let draw = |seed| (0..100).scan(Random::new(seed), |random, _| Some(random.below(10))).collect::<Vec<_>>();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!((0..10).all(|digit| draw(1).contains(&digit)));
    }

    #[test]
    fn random_numbers_stay_within_bounds() {
        let mut random = Random::new(3);
        for _ in 0..1000 {
            assert!((5..=7).contains(&random.between(5, 7)));
        }
        assert!(!random.chance(0) && random.chance(1000));
    }
}
