//! Selectors among the filters of a source (part 3, 3.5.8).

use super::parser::parse_all;
use super::{Dialect, Selector, SelectorError};
use crate::types::{Error, Fields, Symbol, Value, condition};

/// Descriptor and key of a filter that holds a selector.
struct FilterId {
    name: &'static str,
    code: u64,
    /// keys of clients that omit the descriptor, although 3.5.8 requires it
    keys: &'static [&'static str],
    dialect: Dialect,
}

const KNOWN: [FilterId; 2] = [
    FilterId {
        name: "apache.org:selector-filter:string",
        code: 0x0000_468c_0000_0004,
        keys: &["apache.org:selector-filter:string", "jms-selector", "selector"],
        dialect: Dialect::Jms,
    },
    FilterId {
        name: "amqp:sql-filter",
        code: 0x120,
        keys: &["amqp:sql-filter", "sql-filter"],
        dialect: Dialect::AmqpSql,
    },
];

/// The selector in a source's filters.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Filters {
    /// `None`: every message
    pub selector: Option<Selector>,
    /// the effective filters, unchanged: for the source of the answering attach, which shows the
    /// client its filters (3.5.3)
    pub understood: Fields,
}

/// A known filter with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter '{filter}': {fault}")]
pub struct FilterError {
    /// its key in the filter set, at most 64 characters of it
    pub filter: String,
    /// the error in it
    pub fault: FilterFault,
}

/// The error in a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterFault {
    /// the value is not of the type that the descriptor stands for
    #[error("a selector is a string")]
    NoText,
    /// the text is not a valid selector
    #[error(transparent)]
    Selector(#[from] SelectorError),
}

impl From<FilterError> for Error {
    fn from(error: FilterError) -> Self {
        Self::new(condition::INVALID_FIELD, error.to_string())
    }
}

impl Filters {
    /// Compiles the selectors among `filters`. A message must match all of them. Filters of other
    /// kinds are omitted from `understood`.
    ///
    /// Bounds: those of one [`Selector`], for each selector and for all together.
    ///
    /// # Errors
    /// [`FilterError`] if a selector is not a string or cannot be compiled: the attach is to be
    /// refused with it.
    pub fn compile(filters: &Fields) -> Result<Self, FilterError> {
        let mut understood = Fields::new();
        let mut program = None;
        for (key, value) in filters {
            let Some((known, value_inside)) = known(key, value) else { continue };
            let fail = |fault| FilterError { filter: key.as_str().chars().take(64).collect(), fault };
            let Value::String(text) = value_inside else { return Err(fail(FilterFault::NoText)) };
            let more = parse_all(program, text, known.dialect).map_err(|problem| problem.within(text));
            program = more.map_err(|error| fail(error.into()))?;
            understood.push((key.clone(), value.clone()));
        }
        Ok(Self { selector: program.map(|program| Selector { program }), understood })
    }
}

/// The kind of a filter, and its value without the descriptor.
fn known<'f>(key: &Symbol, value: &'f Value) -> Option<(&'static FilterId, &'f Value)> {
    if let Value::Described(pair) = value {
        let known = KNOWN.iter().find(|known| match &pair.0 {
            Value::Ulong(code) => *code == known.code,
            Value::Symbol(name) => name.as_str() == known.name,
            _ => false,
        });
        return known.map(|known| (known, &pair.1));
    }
    let known = KNOWN.iter().find(|known| known.keys.contains(&key.as_str()));
    known.map(|known| (known, value))
}
