//! Decode errors, with the field at fault.

use std::fmt;

use super::code::type_name;
use super::{MAX_ARRAY_DESCRIPTOR, MAX_DEPTH, MAX_ZERO_WIDTH_ELEMENTS};
use crate::types::{Error, Symbol, condition};

/// A decode error as the peer receives it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{condition}: {description}")]
pub struct DecodeError {
    /// `amqp:decode-error`, `amqp:invalid-field`, `amqp:not-implemented` or
    /// `amqp:connection:framing-error`
    pub condition: Symbol,
    /// names the performative (or section) and the field; holds no value of the input
    pub description: String,
}

impl DecodeError {
    /// An error with its condition.
    #[cold]
    pub(super) fn new(condition: Symbol, description: impl Into<String>) -> Self {
        Self { condition, description: description.into() }
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Error::new(error.condition, error.description)
    }
}

/// The error in one encoded value. Small and `Copy`: the text is formatted only when the error is
/// attributed to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// the value ends after the bytes do
    Truncated,
    /// no such constructor
    UnknownCode(u8),
    /// another type
    Expected { wanted: &'static str, found: u8 },
    /// a mandatory field that is null or omitted
    Missing,
    /// the right type with a value that the field does not have
    Range(&'static str),
    /// a string that is not UTF-8
    Utf8,
    /// a symbol that is not ASCII
    NotAscii,
    /// a boolean that is neither 0 nor 1
    Boolean,
    /// a char that is not a Unicode scalar value
    Char,
    /// nested beyond `MAX_DEPTH`
    TooDeep,
    /// an element count that exceeds the bytes
    Count,
    /// beyond `MAX_ZERO_WIDTH_ELEMENTS`
    ZeroWidth,
    /// beyond `MAX_ARRAY_DESCRIPTOR`, or neither ulong nor symbol
    ArrayDescriptor,
    /// a map with a key and no value
    OddMap,
    /// bytes of a compound after its last element
    Leftover,
}

impl Fault {
    fn condition(self) -> Symbol {
        match self {
            Self::Missing | Self::Range(_) => condition::INVALID_FIELD,
            _ => condition::DECODE_ERROR,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated => f.write_str("the value ends beyond the bytes that hold it"),
            Self::UnknownCode(code) => write!(f, "0x{code:02x} is not a constructor of any type"),
            Self::Expected { wanted, found } => {
                write!(f, "expected {wanted}, found {} (0x{found:02x})", type_name(found))
            }
            Self::Missing => f.write_str("this mandatory field is missing"),
            Self::Range(rule) => f.write_str(rule),
            Self::Utf8 => f.write_str("the string is not UTF-8"),
            Self::NotAscii => f.write_str("the symbol is not ASCII"),
            Self::Boolean => f.write_str("the boolean is neither 0x00 nor 0x01"),
            Self::Char => f.write_str("the char is not a Unicode scalar value"),
            Self::TooDeep => write!(f, "the value nests deeper than {MAX_DEPTH} levels"),
            Self::Count => f.write_str("the element count exceeds the remaining bytes"),
            Self::ZeroWidth => {
                write!(f, "more than {MAX_ZERO_WIDTH_ELEMENTS} array elements of a type without bytes")
            }
            Self::ArrayDescriptor => write!(
                f,
                "the descriptor of an array is neither ulong nor a symbol of at most {MAX_ARRAY_DESCRIPTOR} bytes"
            ),
            Self::OddMap => f.write_str("the map has a key without a value"),
            Self::Leftover => f.write_str("bytes are left after the last element"),
        }
    }
}

/// An error that can be attributed to a field of a composite type.
pub(super) trait FieldError {
    /// The error as `owner.field: ..`.
    fn on(self, owner: &str, field: &str) -> DecodeError;
}

impl FieldError for Fault {
    #[cold]
    fn on(self, owner: &str, field: &str) -> DecodeError {
        let dot = if field.is_empty() { "" } else { "." };
        DecodeError::new(self.condition(), format!("{owner}{dot}{field}: {self}"))
    }
}

impl FieldError for DecodeError {
    #[cold]
    fn on(self, owner: &str, field: &str) -> DecodeError {
        DecodeError::new(self.condition, format!("{owner}.{field}: {}", self.description))
    }
}

/// Why the sections end before the message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// the section continues beyond the bytes: the rest may be in later frames
    Cut,
    /// the bytes are no section
    Malformed,
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        if fault == Fault::Truncated { Self::Cut } else { Self::Malformed }
    }
}
