//! The names of the mechanisms and of their hash functions.

use aws_lc_rs::{digest, hmac, pbkdf2};

use crate::types::Symbol;

/// The hash functions of the SCRAM mechanisms, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hash {
    /// SHA-1; only where an operator switched it on
    Sha1,
    /// SHA-256
    Sha256,
    /// SHA-512
    Sha512,
}

impl Hash {
    /// Length of a digest in bytes.
    #[must_use]
    pub const fn length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    pub(super) fn digest(self, data: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, data).as_ref().to_vec()
    }

    pub(super) fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), data).as_ref().to_vec()
    }

    pub(super) const fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha1 => pbkdf2::PBKDF2_HMAC_SHA1,
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }
}

/// The supported mechanisms, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// RFC 4505
    Anonymous,
    /// RFC 4616
    Plain,
    /// a bearer token in the form used before RFC 7628
    XOAuth2,
    /// RFC 7628
    OAuthBearer,
    /// RFC 5802 and RFC 7677
    Scram(Hash),
    /// RFC 4422, appendix A
    External,
}

impl Mechanism {
    /// All of them, weakest first.
    pub const ALL: [Self; 8] = [
        Self::Anonymous,
        Self::Plain,
        Self::XOAuth2,
        Self::OAuthBearer,
        Self::Scram(Hash::Sha1),
        Self::Scram(Hash::Sha256),
        Self::Scram(Hash::Sha512),
        Self::External,
    ];

    /// The registered name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "ANONYMOUS",
            Self::Plain => "PLAIN",
            Self::XOAuth2 => "XOAUTH2",
            Self::OAuthBearer => "OAUTHBEARER",
            Self::Scram(Hash::Sha1) => "SCRAM-SHA-1",
            Self::Scram(Hash::Sha256) => "SCRAM-SHA-256",
            Self::Scram(Hash::Sha512) => "SCRAM-SHA-512",
            Self::External => "EXTERNAL",
        }
    }

    /// Whether it sends a token of another issuer.
    #[must_use]
    pub const fn is_bearer(self) -> bool {
        matches!(self, Self::XOAuth2 | Self::OAuthBearer)
    }

    /// Whether it sends the secret itself: only for confidential connections.
    #[must_use]
    pub const fn shows_secret(self) -> bool {
        matches!(self, Self::Plain) || self.is_bearer()
    }

    /// The name as an AMQP symbol.
    #[must_use]
    pub const fn symbol(self) -> Symbol {
        Symbol::constant(self.name())
    }

    /// The mechanism of that name; `None` if it is not supported.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }
}
