//! The verifier that a server stores in place of a password, and its derivation.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::pbkdf2;

use super::Hash;

/// A stored verifier of a password (RFC 5802, section 2.2): enough to check it, not enough to log
/// in.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// hash function of the keys
    pub hash: Hash,
    /// random bytes mixed into the password
    pub salt: Vec<u8>,
    /// rounds of PBKDF2
    pub iterations: NonZeroU32,
    /// H(ClientKey), `hash.length()` bytes
    pub stored_key: Vec<u8>,
    /// proves the server to the client, `hash.length()` bytes
    pub server_key: Vec<u8>,
}

impl fmt::Debug for Verifier {
    /// Shows no key: a verifier in a log would invite guessing passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("hash", &self.hash)
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

impl Verifier {
    /// Whether `password` is right. Derives keys, so the cost grows with `iterations`: never call
    /// it on a worker thread. The comparison takes constant time.
    #[must_use]
    pub fn check(&self, password: &str) -> bool {
        let Ok(derived) = derive(self.hash, password, &self.salt, self.iterations) else { return false };
        verify_slices_are_equal(&derived.stored_key, &self.stored_key).is_ok()
    }
}

/// A user name or password that SASLprep refuses (RFC 4013): it is empty or holds characters that
/// are not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a user name or password is empty or holds control, private or unassigned characters")]
pub struct Unusable;

/// Prepares user input, so that equal text gives equal bytes.
pub(super) fn prepare(text: &str) -> Result<Cow<'_, str>, Unusable> {
    stringprep::saslprep(text).ok().filter(|prepared| !prepared.is_empty()).ok_or(Unusable)
}

/// Derives the keys of a password (RFC 5802, section 3).
///
/// # Errors
/// A password that SASLprep refuses.
pub fn derive(hash: Hash, password: &str, salt: &[u8], iterations: NonZeroU32) -> Result<Verifier, Unusable> {
    let keys = Keys::derive(hash, &prepare(password)?, salt, iterations);
    Ok(Verifier {
        hash,
        salt: salt.to_vec(),
        iterations,
        stored_key: hash.digest(&keys.client_key),
        server_key: keys.server_key,
    })
}

/// The two secrets behind a verifier; only the client has them.
pub(super) struct Keys {
    pub(super) client_key: Vec<u8>,
    pub(super) server_key: Vec<u8>,
}

impl Keys {
    /// `password` must be prepared.
    pub(super) fn derive(hash: Hash, password: &str, salt: &[u8], iterations: NonZeroU32) -> Self {
        let mut salted = vec![0; hash.length()];
        pbkdf2::derive(hash.pbkdf2(), iterations, salt, password.as_bytes(), &mut salted);
        Self { client_key: hash.hmac(&salted, b"Client Key"), server_key: hash.hmac(&salted, b"Server Key") }
    }
}
