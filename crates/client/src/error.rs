//! Errors of a client, classified by the party that must act.

use enmasse_amqp::ErrorKind;

/// An error of a client: its kind, and a sentence that names the problem and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// the party that must act
    pub kind: ErrorKind,
    /// the problem and the remedy
    pub message: String,
}

impl Error {
    /// The caller must change the request.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Invalid, message: message.into() }
    }

    /// The caller needs other credentials.
    #[must_use]
    pub fn denied(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Denied, message: message.into() }
    }

    /// Nothing is wrong with the request, but it cannot be served now.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unavailable, message: message.into() }
    }

    /// The remote broke its protocol.
    #[must_use]
    pub fn peer(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::PeerError, message: message.into() }
    }

    /// The caller broke a contract.
    #[must_use]
    pub fn misuse(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Misuse, message: message.into() }
    }

    /// The error with which the peer ended a link, session or connection, which `what` names.
    #[must_use]
    pub fn from_peer(what: &str, error: Option<&enmasse_amqp::types::Error>) -> Self {
        let Some(error) = error else {
            return Self::unavailable(format!("{what} by the server without a reason"));
        };
        let kind = ErrorKind::of(error.condition.as_str());
        let description = error.description.as_deref().unwrap_or("no description");
        Self { kind, message: format!("{what} by the server: {} ({description})", error.condition.as_str()) }
    }

    /// The standard's condition (part 2, 2.8.15 and following) closest in meaning.
    #[must_use]
    pub fn condition(&self) -> &'static str {
        match self.kind {
            ErrorKind::Invalid => "amqp:invalid-field",
            ErrorKind::Denied => "amqp:unauthorized-access",
            ErrorKind::Missing => "amqp:not-found",
            ErrorKind::Conflict => "amqp:precondition-failed",
            ErrorKind::Exhausted => "amqp:resource-limit-exceeded",
            ErrorKind::Unavailable => "amqp:connection:forced",
            ErrorKind::PeerError => "amqp:connection:framing-error",
            ErrorKind::Misuse => "amqp:internal-error",
        }
    }

    /// An I/O error of the operation `what`.
    #[must_use]
    pub fn io(what: &str, error: &std::io::Error) -> Self {
        Self::unavailable(format!("{what}: {error}"))
    }
}
