//! The rights of a user.

use std::collections::HashMap;
use std::sync::Arc;

use super::pattern::{Pattern, is_wildcard};
use crate::plan::{self, Operation};

/// Longest name that a right with wildcards matches, in bytes: no declared address has a longer
/// one.
const NAME_BYTES_MAX: usize = 1_024;

/// The rights of one user, cheap to clone: a link keeps a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Everything,
    Listed(Arc<Listed>),
}

/// Rights without wildcards are in a map, so that only rights with wildcards are searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Listed {
    names: HashMap<Box<str>, Operations>,
    patterns: Vec<(Pattern, Operations)>,
    /// the operations allowed on any address
    all: Operations,
}

/// A set of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Operations(u8);

impl Operations {
    fn of(listed: &[Operation]) -> Self {
        Self(listed.iter().fold(0, |set, one| set | 1 << *one as u8))
    }

    const fn contains(self, one: Operation) -> bool {
        self.0 & (1 << one as u8) != 0
    }

    const fn insert(&mut self, others: Self) {
        self.0 |= others.0;
    }
}

impl Listed {
    fn add_name(&mut self, name: Box<str>, operations: Operations) {
        self.all.insert(operations);
        self.names.entry(name).or_default().insert(operations);
    }

    fn add_pattern(&mut self, pattern: Pattern, operations: Operations) {
        self.all.insert(operations);
        self.patterns.push((pattern, operations));
    }

    fn patterns_for(&self, operation: Operation) -> impl Iterator<Item = &Pattern> {
        self.patterns.iter().filter(move |(_, allowed)| allowed.contains(operation)).map(|(pattern, _)| pattern)
    }
}

impl Rights {
    pub(super) const EVERYTHING: Self = Self(Kind::Everything);

    pub(super) fn listed(rights: impl IntoIterator<Item = (Pattern, plan::Right)>) -> Self {
        let mut listed = Listed::default();
        for (pattern, plan::Right { pattern: text, operations }) in rights {
            let operations = Operations::of(&operations);
            if pattern.is_name() {
                listed.add_name(text.into(), operations);
            } else {
                listed.add_pattern(pattern, operations);
            }
        }
        Self(Kind::Listed(Arc::new(listed)))
    }

    /// The union of two rights.
    pub(super) fn together(&self, other: &Self) -> Self {
        let (Kind::Listed(one), Kind::Listed(more)) = (&self.0, &other.0) else { return Self::EVERYTHING };
        if more.all == Operations::default() {
            return self.clone();
        }
        let mut both = Listed::clone(one);
        more.names.iter().for_each(|(name, operations)| both.add_name(name.clone(), *operations));
        more.patterns.iter().for_each(|(pattern, operations)| both.add_pattern(pattern.clone(), *operations));
        Self(Kind::Listed(Arc::new(both)))
    }

    /// Whether all operations on all addresses are allowed.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        matches!(self.0, Kind::Everything)
    }

    /// Rights that allow nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self(Kind::Listed(Arc::default()))
    }

    /// Whether the user may do `operation` on `name`. For `Recv` the name may be a filter with
    /// wildcards: then one single right has to cover all names that the filter matches. For `View`
    /// and `Manage` the name is ignored.
    ///
    /// Costs a look-up, and one run over the levels of the name for each right with wildcards.
    #[must_use]
    pub fn may(&self, operation: Operation, name: &str) -> bool {
        let Kind::Listed(listed) = &self.0 else { return true };
        match operation {
            _ if !listed.all.contains(operation) => false,
            Operation::View | Operation::Manage => true,
            // A right without wildcards never covers a filter.
            Operation::Recv if is_wildcard(name) => Pattern::filter(name)
                .is_ok_and(|filter| listed.patterns_for(operation).any(|pattern| pattern.covers(&filter))),
            Operation::Send | Operation::Recv | Operation::Create => {
                listed.names.get(name).is_some_and(|allowed| allowed.contains(operation))
                    || name.len() <= NAME_BYTES_MAX
                        && listed.patterns_for(operation).any(|pattern| pattern.matches(name))
            }
        }
    }
}
