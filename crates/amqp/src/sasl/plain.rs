//! PLAIN (RFC 4616): one message, `[authzid] NUL authcid NUL passwd`.

use std::fmt;

use super::Verifier;
use super::verifier::prepare;

/// A password to be checked off the worker thread: owned, may be sent to another thread.
pub struct PlainCheck {
    password: String,
    verifier: Verifier,
}

impl PlainCheck {
    pub(super) const fn new(password: String, verifier: Verifier) -> Self {
        Self { password, verifier }
    }

    /// Whether the password is right. Takes the time of the key derivation, which is the same for a
    /// nonexistent user; pass the result to [`super::Server::plain_checked`].
    #[must_use]
    pub fn verify(&self) -> bool {
        self.verifier.check(&self.password)
    }
}

impl fmt::Debug for PlainCheck {
    /// Shows the verifier's parameters but not the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainCheck").field("verifier", &self.verifier).finish_non_exhaustive()
    }
}

/// The parsed message of a client.
#[derive(PartialEq, Eq)]
pub(super) struct PlainMessage<'a> {
    /// prepared
    pub(super) user: String,
    /// as received; may be empty, which only an open space accepts
    pub(super) password: &'a str,
}

impl fmt::Debug for PlainMessage<'_> {
    /// Shows no password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainMessage").field("user", &self.user).finish_non_exhaustive()
    }
}

impl<'a> PlainMessage<'a> {
    /// Parses a message. Acting as another user (an authzid that is not the user) is not supported.
    pub(super) fn parse(message: &'a [u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(message).map_err(|_| "PLAIN: the message is not UTF-8")?;
        let mut parts = text.split('\0');
        let (Some(authzid), Some(user), Some(password), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("PLAIN: the message is not three parts separated by NUL");
        };
        if !authzid.is_empty() && authzid != user {
            return Err("PLAIN: acting as another user is not supported");
        }
        let user = prepare(user).map_err(|_| "PLAIN: the user name is not valid text")?;
        Ok(Self { user: user.into_owned(), password })
    }

    /// Formats a message; both texts must be prepared.
    pub(super) fn write(user: &str, password: &str) -> Vec<u8> {
        [b"\0", user.as_bytes(), b"\0", password.as_bytes()].concat()
    }
}
