//! What a peer claims that this process alone cannot check, and what whoever can says of it.

use std::fmt;

use super::Mechanism;

/// A password or a token. No log ever shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a secret in.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The secret itself: for whoever checks it.
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

/// What a peer has said and somebody else has to check; the answer goes to [`super::Server::judged`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// PLAIN, OAUTHBEARER or XOAUTH2
    pub mechanism: Mechanism,
    /// who it says it is; a token need not be told
    pub user: Option<String>,
    /// the password or the token
    pub secret: Secret,
}

/// What there is to say of a [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// it is true, and this is who the peer is
    Right {
        /// user name
        user: String,
    },
    /// it is not
    Wrong,
    /// nobody can tell at present: trying again may help
    Unknown,
}
