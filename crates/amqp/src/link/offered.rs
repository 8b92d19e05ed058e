//! Outcomes that the source of a link offers (3.5.3): its receiver may choose no other.

use crate::types::{Outcome, Source};

const ACCEPTED: u8 = 1;
const REJECTED: u8 = 2;
const RELEASED: u8 = 4;
const MODIFIED: u8 = 8;
const ALL: u8 = ACCEPTED | REJECTED | RELEASED | MODIFIED;

const NAMES: [(&str, u8); 4] = [
    ("amqp:accepted:list", ACCEPTED),
    ("amqp:rejected:list", REJECTED),
    ("amqp:released:list", RELEASED),
    ("amqp:modified:list", MODIFIED),
];

const fn bit(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Accepted => ACCEPTED,
        Outcome::Rejected(_) => REJECTED,
        Outcome::Released => RELEASED,
        Outcome::Modified(_) => MODIFIED,
    }
}

/// A set of outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offered(u8);

impl Offered {
    /// The outcomes of a source that lists none.
    pub(crate) const ALL: Self = Self(ALL);

    /// The outcomes that a source lists. A source without an outcome of the standard, as many
    /// clients send, offers all.
    pub(crate) fn of(source: Option<&Source>) -> Self {
        let Some(source) = source else { return Self::ALL };
        let listed = source.outcomes.iter().fold(0, |set, name| {
            let known = NAMES.iter().find(|(known, _)| *known == name.as_str());
            set | known.map_or(0, |(_, bit)| *bit)
        });
        match listed {
            0 => Self::ALL,
            listed => Self(listed | source.default_outcome.as_ref().map_or(0, bit)),
        }
    }

    /// Whether some outcomes are not offered.
    #[inline]
    pub(crate) fn is_limited(self) -> bool {
        self.0 != ALL
    }

    /// The outcome if it is offered, or an equivalent one: released and a bare modified both return
    /// a message. `None` if there is none.
    pub(crate) fn fit(self, outcome: &Outcome) -> Option<Outcome> {
        let has = |bit| self.0 & bit != 0;
        match outcome {
            outcome if has(bit(outcome)) => Some(outcome.clone()),
            Outcome::Released if has(MODIFIED) => Some(Outcome::Modified(Box::default())),
            Outcome::Modified(_) if has(RELEASED) => Some(Outcome::Released),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Symbol;

    fn source(outcomes: &[&str], default_outcome: Option<Outcome>) -> Source {
        let outcomes = outcomes.iter().map(|name| Symbol::from(*name)).collect();
        Source { outcomes, default_outcome, ..Source::default() }
    }

    #[test]
    fn section_3_5_3_source_without_outcomes_allows_any_outcome() {
        for source in [None, Some(source(&[], None)), Some(source(&["x:other:list"], None))] {
            assert!(!Offered::of(source.as_ref()).is_limited());
        }
    }

    #[test]
    fn section_3_5_3_outcome_that_is_not_listed_is_not_chosen() {
        let rejected = Outcome::Rejected(None);
        let offered = Offered::of(Some(&source(&["amqp:accepted:list"], None)));
        assert_eq!(offered.fit(&Outcome::Accepted), Some(Outcome::Accepted));
        assert_eq!((offered.fit(&rejected), offered.fit(&Outcome::Released)), (None, None));
        let offered = Offered::of(Some(&source(&["amqp:accepted:list"], Some(rejected.clone()))));
        assert_eq!(offered.fit(&rejected), Some(rejected), "the default outcome can be chosen");
    }

    #[test]
    fn released_and_modified_stand_for_each_other() {
        let bare = Outcome::Modified(Box::default());
        let offered = Offered::of(Some(&source(&["amqp:accepted:list", "amqp:modified:list"], None)));
        assert_eq!(offered.fit(&Outcome::Released), Some(bare.clone()));
        let offered = Offered::of(Some(&source(&["amqp:accepted:list", "amqp:released:list"], None)));
        assert_eq!(offered.fit(&bare), Some(Outcome::Released));
    }
}
