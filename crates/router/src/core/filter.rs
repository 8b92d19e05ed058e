//! Tests of names.

use std::fmt;
use std::sync::Arc;

/// A predicate on names.
#[derive(Clone)]
pub struct Filter(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl Filter {
    /// A filter that accepts the names for which `matches` is true. `matches` must be
    /// deterministic.
    #[must_use]
    pub fn new(matches: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(matches))
    }

    /// Whether both are one filter.
    #[cfg(test)]
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether `name` is accepted.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        (self.0)(name)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Filter")
    }
}
