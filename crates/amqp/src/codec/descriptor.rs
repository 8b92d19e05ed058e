//! The descriptors of parts 2 to 5: each type has a number and a symbol, and both are legal on the
//! wire.

use std::fmt;

use super::code;
use super::error::{DecodeError, Fault};
use super::reader::Reader;
use crate::types::condition;

macro_rules! descriptors {
    ($($name:ident = $number:literal, $symbol:literal;)*) => {
        $(pub(super) const $name: u64 = $number;)*
        const TABLE: &[(u64, &str)] = &[$(($number, $symbol)),*];
    };
}

descriptors! {
    OPEN = 0x10, "amqp:open:list";
    BEGIN = 0x11, "amqp:begin:list";
    ATTACH = 0x12, "amqp:attach:list";
    FLOW = 0x13, "amqp:flow:list";
    TRANSFER = 0x14, "amqp:transfer:list";
    DISPOSITION = 0x15, "amqp:disposition:list";
    DETACH = 0x16, "amqp:detach:list";
    END = 0x17, "amqp:end:list";
    CLOSE = 0x18, "amqp:close:list";
    ERROR = 0x1d, "amqp:error:list";
    RECEIVED = 0x23, "amqp:received:list";
    ACCEPTED = 0x24, "amqp:accepted:list";
    REJECTED = 0x25, "amqp:rejected:list";
    RELEASED = 0x26, "amqp:released:list";
    MODIFIED = 0x27, "amqp:modified:list";
    SOURCE = 0x28, "amqp:source:list";
    TARGET = 0x29, "amqp:target:list";
    DELETE_ON_CLOSE = 0x2b, "amqp:delete-on-close:list";
    DELETE_ON_NO_LINKS = 0x2c, "amqp:delete-on-no-links:list";
    DELETE_ON_NO_MESSAGES = 0x2d, "amqp:delete-on-no-messages:list";
    DELETE_ON_NO_LINKS_OR_MESSAGES = 0x2e, "amqp:delete-on-no-links-or-messages:list";
    COORDINATOR = 0x30, "amqp:coordinator:list";
    DECLARE = 0x31, "amqp:declare:list";
    DISCHARGE = 0x32, "amqp:discharge:list";
    DECLARED = 0x33, "amqp:declared:list";
    TRANSACTIONAL_STATE = 0x34, "amqp:transactional-state:list";
    SASL_MECHANISMS = 0x40, "amqp:sasl-mechanisms:list";
    SASL_INIT = 0x41, "amqp:sasl-init:list";
    SASL_CHALLENGE = 0x42, "amqp:sasl-challenge:list";
    SASL_RESPONSE = 0x43, "amqp:sasl-response:list";
    SASL_OUTCOME = 0x44, "amqp:sasl-outcome:list";
    HEADER = 0x70, "amqp:header:list";
    DELIVERY_ANNOTATIONS = 0x71, "amqp:delivery-annotations:map";
    MESSAGE_ANNOTATIONS = 0x72, "amqp:message-annotations:map";
    PROPERTIES = 0x73, "amqp:properties:list";
    APPLICATION_PROPERTIES = 0x74, "amqp:application-properties:map";
    DATA = 0x75, "amqp:data:binary";
    AMQP_SEQUENCE = 0x76, "amqp:amqp-sequence:list";
    AMQP_VALUE = 0x77, "amqp:amqp-value:*";
    FOOTER = 0x78, "amqp:footer:map";
}

/// A decoded descriptor: a known symbol is replaced by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Descriptor<'a> {
    /// a number, known here or not
    Number(u64),
    /// an unknown symbol
    Symbol(&'a str),
}

impl<'a> Descriptor<'a> {
    /// The descriptor that `symbol` stands for.
    pub(super) fn named(symbol: &'a str) -> Self {
        match TABLE.iter().find(|(_, name)| *name == symbol) {
            Some((number, _)) => Self::Number(*number),
            None => Self::Symbol(symbol),
        }
    }

    /// The number, if there is one.
    #[inline]
    pub(super) fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Symbol(_) => None,
        }
    }

    /// The error for a type that `place` cannot hold.
    #[cold]
    pub(super) fn unknown(self, place: &str) -> DecodeError {
        DecodeError::new(condition::NOT_IMPLEMENTED, format!("{place}: the type {self} is unknown"))
    }
}

impl fmt::Display for Descriptor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => match TABLE.iter().find(|(known, _)| known == number) {
                Some((_, name)) => f.write_str(name),
                None => write!(f, "0x{number:x}"),
            },
            // A peer's text goes into an error that is logged and sent back: keep it short and
            // printable.
            Self::Symbol(symbol) => write!(f, "{:.64}", symbol.escape_debug().to_string()),
        }
    }
}

impl<'a> Reader<'a> {
    /// The descriptor of a described value; its value follows.
    #[inline]
    pub(super) fn descriptor(&mut self) -> Result<Descriptor<'a>, Fault> {
        match self.byte()? {
            code::DESCRIBED => {}
            found => return Err(Fault::Expected { wanted: "a described type", found }),
        }
        self.descriptor_value()
    }

    /// The descriptor after the byte 0x00.
    #[inline]
    pub(super) fn descriptor_value(&mut self) -> Result<Descriptor<'a>, Fault> {
        match self.peek()? {
            code::SMALL_ULONG | code::ULONG | code::ULONG_0 => self.ulong().map(Descriptor::Number),
            code::SYM_8 | code::SYM_32 => self.symbol().map(Descriptor::named),
            found => Err(Fault::Expected { wanted: "a descriptor (ulong or symbol)", found }),
        }
    }
}
