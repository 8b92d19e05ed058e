//! Claims of a peer that this process alone cannot check, and verdicts on them.

use std::fmt;

use super::Mechanism;

/// A password or a token. No log ever shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The secret itself, for the party that checks it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// A peer's claim that another party has to check; the answer goes to [`super::Server::judged`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// PLAIN, OAUTHBEARER or XOAUTH2
    pub mechanism: Mechanism,
    /// the claimed user; a token may omit it
    pub user: Option<String>,
    /// the password or the token
    pub secret: Secret,
}

/// The verdict on a [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// the claim is true, and this is the peer's identity
    Right {
        /// user name
        user: String,
    },
    /// the claim is false
    Wrong,
    /// the claim cannot be checked at present: a retry may help
    Unknown,
}
