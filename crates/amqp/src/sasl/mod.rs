//! Part 5, Security: both sides of the SASL mechanisms, without I/O.
//!
//! A [`Server`] and a [`Client`] each take part in one exchange; their messages travel in the SASL
//! frames that the connection machine frames and parses. Random bytes are an input, and nothing
//! here waits: the server gets a user's verifier from [`Credentials`]. Slow work is returned to the
//! driver: key derivation from a password as a [`PlainCheck`], and the check of a token by another
//! party as a [`Claim`].
//!
//! Supported are ANONYMOUS (RFC 4505), PLAIN (RFC 4616), EXTERNAL (RFC 4422), SCRAM with SHA-1,
//! SHA-256 and SHA-512 (RFC 5802, RFC 7677), OAUTHBEARER (RFC 7628) and XOAUTH2. Channel binding is
//! not, so the `-PLUS` names are never offered. User input is prepared by SASLprep (RFC 4013) on
//! both sides.

mod bearer;
mod claim;
mod client;
mod mechanism;
mod plain;
mod scram;
mod server;
#[cfg(test)]
mod tests;
mod verifier;

pub use claim::{Claim, Secret, Verdict};
pub use client::{Client, ClientError, Login};
pub use mechanism::{Hash, Mechanism};
pub use plain::PlainCheck;
pub use scram::DerivedKeys;
pub use server::{Credentials, Identity, PlainRule, Server, Step};
pub use verifier::{Unusable, Verifier, derive};

/// Random bytes, unique to one exchange, from a cryptographically secure source.
pub type Nonce = [u8; 18];
