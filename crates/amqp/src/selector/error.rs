//! The error in a selector's text, its position, and the remedy.

use crate::types::{Error, condition};

/// A selector that cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("selector, line {line}, column {column}: {problem}; {remedy}")]
pub struct SelectorError {
    /// byte of the text where the problem begins
    pub offset: usize,
    /// line of that byte, from 1
    pub line: usize,
    /// characters from the start of the line, from 1
    pub column: usize,
    /// the error; quotes at most 32 characters of the text
    pub problem: String,
    /// the remedy
    pub remedy: String,
}

impl From<SelectorError> for Error {
    fn from(error: SelectorError) -> Self {
        Self::new(condition::INVALID_FIELD, error.to_string())
    }
}

/// A problem without line and column.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) at: usize,
    problem: String,
    remedy: String,
}

impl Problem {
    #[cold]
    pub(super) fn new(at: usize, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { at, problem: problem.into(), remedy: remedy.into() }
    }

    /// The error, with its position in `text`.
    pub(super) fn within(self, text: &str) -> SelectorError {
        let before = text.get(..self.at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        SelectorError {
            offset: self.at,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            problem: self.problem,
            remedy: self.remedy,
        }
    }
}

/// A part of the text, fit for an error: printable and short.
pub(super) fn quote(text: &str) -> String {
    const CHARACTERS_MAX: usize = 32;
    let mut short: String = text.chars().take(CHARACTERS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        short.push_str("..");
    }
    short
}
