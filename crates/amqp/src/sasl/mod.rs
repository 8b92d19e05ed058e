//! Part 5, Security: both sides of the SASL mechanisms, without I/O.
//!
//! A [`Server`] and a [`Client`] each take part in one exchange; what they say travels in the SASL frames that the
//! connection machine frames and parses. Random bytes are handed in, and nothing here waits: the server asks
//! [`Credentials`] for what it knows of a user. What takes long is given back to the driver: deriving keys from a
//! password as a [`PlainCheck`], and what only somebody else can tell, whether a token is good, as a [`Claim`].
//!
//! ANONYMOUS (RFC 4505), PLAIN (RFC 4616), EXTERNAL (RFC 4422) and SCRAM with SHA-1, SHA-256 and SHA-512 (RFC 5802, RFC 7677)
//! are spoken, and OAUTHBEARER (RFC 7628) and XOAUTH2; channel binding is not, so the `-PLUS` names are never offered. What a user typed is prepared by
//! SASLprep (RFC 4013) on both sides.

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

/// Random bytes that make one exchange unlike any other; from a cryptographically secure source.
pub type Nonce = [u8; 18];
