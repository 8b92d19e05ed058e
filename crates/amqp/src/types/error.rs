//! Part 2, 2.8.14 to 2.8.18: errors and their conditions.

use super::{Fields, Symbol, Value};

/// 2.8.14
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Error {
    /// one of `condition`, or the peer's own
    pub condition: Symbol,
    /// the error and its remedy
    pub description: Option<String>,
    /// details
    pub info: Fields,
}

impl Error {
    /// This error with the tag of its delivery in the info (OASIS anonymous terminus 1.0, 2.2.2).
    #[must_use]
    pub fn about_delivery(mut self, tag: &[u8]) -> Self {
        let key = Symbol::constant("delivery-tag");
        self.info.retain(|(name, _)| *name != key);
        self.info.push((key, Value::Binary(tag.to_vec())));
        self
    }

    /// An error with a description.
    #[must_use]
    pub fn new(condition: Symbol, description: impl Into<String>) -> Self {
        Self { condition, description: Some(description.into()), info: Fields::new() }
    }
}

/// The error conditions of 2.8.15 to 2.8.18 and of transactions (4.5.8).
pub mod condition {
    use super::Symbol;

    macro_rules! conditions {
        ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
            $($(#[$doc])* pub const $name: Symbol = Symbol::constant($text);)*
        };
    }

    conditions! {
        /// 2.8.15
        INTERNAL_ERROR = "amqp:internal-error";
        /// 2.8.15
        NOT_FOUND = "amqp:not-found";
        /// 2.8.15
        UNAUTHORIZED_ACCESS = "amqp:unauthorized-access";
        /// 2.8.15
        DECODE_ERROR = "amqp:decode-error";
        /// 2.8.15
        RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded";
        /// 2.8.15
        NOT_ALLOWED = "amqp:not-allowed";
        /// 2.8.15
        INVALID_FIELD = "amqp:invalid-field";
        /// 2.8.15
        NOT_IMPLEMENTED = "amqp:not-implemented";
        /// 2.8.15
        RESOURCE_LOCKED = "amqp:resource-locked";
        /// 2.8.15
        PRECONDITION_FAILED = "amqp:precondition-failed";
        /// 2.8.15
        RESOURCE_DELETED = "amqp:resource-deleted";
        /// 2.8.15
        ILLEGAL_STATE = "amqp:illegal-state";
        /// 2.8.15
        FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small";
        /// 2.8.16
        CONNECTION_FORCED = "amqp:connection:forced";
        /// 2.8.16
        FRAMING_ERROR = "amqp:connection:framing-error";
        /// 2.8.16
        CONNECTION_REDIRECT = "amqp:connection:redirect";
        /// 2.8.17
        WINDOW_VIOLATION = "amqp:session:window-violation";
        /// 2.8.17
        ERRANT_LINK = "amqp:session:errant-link";
        /// 2.8.17
        HANDLE_IN_USE = "amqp:session:handle-in-use";
        /// 2.8.17
        UNATTACHED_HANDLE = "amqp:session:unattached-handle";
        /// 4.5.8
        TRANSACTION_UNKNOWN_ID = "amqp:transaction:unknown-id";
        /// 4.5.8
        TRANSACTION_ROLLBACK = "amqp:transaction:rollback";
        /// 2.8.18
        DETACH_FORCED = "amqp:link:detach-forced";
        /// 2.8.18
        TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded";
        /// 2.8.18
        MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded";
        /// 2.8.18
        LINK_REDIRECT = "amqp:link:redirect";
        /// 2.8.18
        LINK_STOLEN = "amqp:link:stolen";
    }
}
