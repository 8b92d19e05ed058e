//! Tests of names.

use std::fmt;
use std::sync::Arc;

/// A predicate on names.
#[derive(Clone)]
pub struct Filter {
    matches: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// the name with wildcards that it stands for, if it does
    text: Option<Arc<str>>,
}

impl Filter {
    /// A filter that accepts the names for which `matches` is true. `matches` must be
    /// deterministic.
    #[must_use]
    pub fn new(matches: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { matches: Arc::new(matches), text: None }
    }

    /// As [`Filter::new`], of a name in which the levels `+` and `*` match one level and `#` zero or
    /// more. It accepts no name that `text` does not match.
    #[must_use]
    pub fn of_name(text: &str, matches: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { text: Some(text.into()), ..Self::new(matches) }
    }

    /// The name with wildcards that it stands for.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Whether both are one filter.
    #[cfg(test)]
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.matches, &other.matches)
    }

    /// Whether `name` is accepted.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        (self.matches)(name)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Filter")
    }
}
