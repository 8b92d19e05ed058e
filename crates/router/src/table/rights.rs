//! What a user may do.

use std::sync::Arc;

use super::pattern::{Pattern, is_wildcard};
use crate::plan::Operation;

/// The rights of one user, cheap to clone: a link keeps a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Everything,
    Listed(Arc<[Right]>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Right {
    pub(super) pattern: Pattern,
    pub(super) operations: Vec<Operation>,
}

impl Rights {
    pub(super) const EVERYTHING: Self = Self(Kind::Everything);

    pub(super) fn listed(rights: Vec<Right>) -> Self {
        Self(Kind::Listed(rights.into()))
    }

    /// Everything that one of the two allows.
    pub(super) fn together(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Kind::Listed(one), Kind::Listed(more)) if more.is_empty() => Self(Kind::Listed(Arc::clone(one))),
            (Kind::Listed(one), Kind::Listed(more)) if one.is_empty() => Self(Kind::Listed(Arc::clone(more))),
            (Kind::Listed(one), Kind::Listed(more)) => Self::listed(one.iter().chain(&**more).cloned().collect()),
            _ => Self::EVERYTHING,
        }
    }

    /// Whether nothing is out of reach.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        matches!(self.0, Kind::Everything)
    }

    /// May do nothing at all.
    #[must_use]
    pub fn nothing() -> Self {
        Self::listed(Vec::new())
    }

    /// Whether the user may do `operation` on `name`. For `Recv` the name may be a filter with wildcards: then one
    /// single right has to cover everything the filter stands for. For `View` and `Manage` the name plays no part.
    #[must_use]
    pub fn may(&self, operation: Operation, name: &str) -> bool {
        let Kind::Listed(rights) = &self.0 else { return true };
        let mut given = rights.iter().filter(|right| right.operations.contains(&operation));
        match operation {
            Operation::View | Operation::Manage => given.next().is_some(),
            Operation::Recv if is_wildcard(name) => {
                Pattern::filter(name).is_ok_and(|filter| given.any(|right| right.pattern.covers(&filter)))
            }
            Operation::Send | Operation::Recv => given.any(|right| right.pattern.matches(name)),
        }
    }
}
