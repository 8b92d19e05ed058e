//! Digests of what clients choose: message ids, producers' names, groups. Keyed, so that nobody can aim at a collision,
//! and the same after a restart, because the key lies with the journal.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128 as _, SipHasher24 as SipHasher128};

/// A key for digests.
#[derive(Clone, Copy)]
pub struct Digests([u8; 16]);

impl std::fmt::Debug for Digests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digests")
    }
}

impl Digests {
    /// Digests under a secret key.
    #[must_use]
    pub const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    pub(super) fn short(&self, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(bytes);
        hasher.finish()
    }

    /// A digest of 128 bits.
    #[must_use]
    pub fn long(&self, bytes: &[u8]) -> u128 {
        let mut hasher = SipHasher128::new_with_key(&self.0);
        hasher.write(bytes);
        hasher.finish128().into()
    }
}
