//! The names of the mechanisms and what a server keeps instead of a password.

use crate::types::Symbol;

/// The hash functions of the SCRAM mechanisms (RFC 5802, RFC 7677).
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
    pub const fn len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

/// The mechanisms spoken here, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// RFC 4505
    Anonymous,
    /// RFC 4616
    Plain,
    /// RFC 5802 and RFC 7677
    Scram(Hash),
    /// RFC 4422, appendix A
    External,
}

impl Mechanism {
    /// All of them, weakest first.
    pub const ALL: [Self; 6] = [
        Self::Anonymous,
        Self::Plain,
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
            Self::Scram(Hash::Sha1) => "SCRAM-SHA-1",
            Self::Scram(Hash::Sha256) => "SCRAM-SHA-256",
            Self::Scram(Hash::Sha512) => "SCRAM-SHA-512",
            Self::External => "EXTERNAL",
        }
    }

    /// The name as it travels.
    #[must_use]
    pub const fn symbol(self) -> Symbol {
        Symbol::constant(self.name())
    }

    /// The mechanism of that name; `None` for a name not spoken here.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }
}

/// What a server keeps of a password (RFC 5802, section 2.2): enough to check it, not enough to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// hash function of the keys
    pub hash: Hash,
    /// random bytes mixed into the password
    pub salt: Vec<u8>,
    /// rounds of PBKDF2
    pub iterations: u32,
    /// H(ClientKey), `hash.len()` bytes
    pub stored_key: Vec<u8>,
    /// proves the server to the client, `hash.len()` bytes
    pub server_key: Vec<u8>,
}

impl std::fmt::Debug for Verifier {
    /// Shows no key: a verifier in a log would invite guessing passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier")
            .field("hash", &self.hash)
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}
