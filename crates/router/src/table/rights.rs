//! What a user may do.

use std::sync::Arc;

use super::pattern::{Pattern, is_wildcard};
use crate::plan::Operation;

/// The rights of one user, cheap to clone: a link keeps a copy.
#[derive(Clone, Debug)]
pub struct Rights(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Everything,
    Listed(Arc<[Right]>),
}

#[derive(Debug)]
pub(super) struct Right {
    pub(super) pattern: Pattern,
    pub(super) operations: Vec<Operation>,
}

impl Rights {
    pub(super) const EVERYTHING: Self = Self(Kind::Everything);

    pub(super) fn listed(rights: Vec<Right>) -> Self {
        Self(Kind::Listed(rights.into()))
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
