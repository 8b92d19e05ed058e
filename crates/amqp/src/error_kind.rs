//! The eight kinds of errors of EnMasse, by the party that must act.

/// The party that must act on an error; the one list of all crates and of `enmasse.base.errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// the caller must change the request
    Invalid,
    /// the caller needs other credentials
    Denied,
    /// it does not exist
    Missing,
    /// read again, then retry
    Conflict,
    /// slow down; a stated limit was reached
    Exhausted,
    /// wait; nothing is wrong with the request
    Unavailable,
    /// the remote broke a protocol
    PeerError,
    /// our own caller broke a contract
    Misuse,
}

impl ErrorKind {
    /// The party that must act on a condition of the standard.
    #[must_use]
    pub fn of(condition: &str) -> Self {
        match condition {
            "amqp:not-found" | "amqp:resource-deleted" => Self::Missing,
            "amqp:unauthorized-access" => Self::Denied,
            "amqp:resource-limit-exceeded" | "amqp:link:message-size-exceeded" => Self::Exhausted,
            "amqp:resource-locked" | "amqp:precondition-failed" | "amqp:link:stolen" => Self::Conflict,
            "amqp:not-allowed" | "amqp:invalid-field" | "amqp:not-implemented" => Self::Invalid,
            "amqp:decode-error" | "amqp:connection:framing-error" => Self::PeerError,
            _ => Self::Unavailable,
        }
    }

    /// The name that `enmasse.base.errors` gives it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::Denied => "Denied",
            Self::Missing => "Missing",
            Self::Conflict => "Conflict",
            Self::Exhausted => "Exhausted",
            Self::Unavailable => "Unavailable",
            Self::PeerError => "PeerError",
            Self::Misuse => "Misuse",
        }
    }
}
