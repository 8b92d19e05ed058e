//! Digests of values that clients choose: message ids, producer names, groups. They are keyed, so
//! that clients cannot provoke collisions, and stable across restarts, because the key is stored
//! with the journal.

use std::hash::Hasher as _;

use enmasse_amqp::codec::scan::{self, Elements, Scalar};
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128 as _, SipHasher24 as SipHasher128};

/// As the property of a last-value queue: the address in `to` (3.2.4) identifies the value. No
/// resource has it; it is that of the queue of retained messages.
pub const LAST_VALUE_OF_TO: &str = "$to";

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

    pub(in crate::core) fn short(&self, bytes: &[u8]) -> u64 {
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

    /// A digest of the value of an application property (3.2.5). Equal values of one type have
    /// equal digests in every encoding. `None`: the property is absent, null or invalid.
    pub(in crate::core) fn property(&self, message: &[u8], name: &str) -> Option<u128> {
        if name == LAST_VALUE_OF_TO {
            return scan::to(message).map(|to| self.long(to.as_bytes()));
        }
        let mut properties = Elements::of_map(scan::head(message).ok()?.application_properties?).ok()?;
        while properties.left() > 0 {
            if properties.key().ok()? == name.as_bytes() {
                return self.scalar(properties.scalar().ok()?);
            }
            properties.skip().ok()?;
        }
        None
    }

    fn scalar(&self, scalar: Scalar<'_>) -> Option<u128> {
        let (kind, number, bytes): (u8, u64, &[u8]) = match scalar {
            // Only simple types are allowed (3.2.5).
            Scalar::Null | Scalar::Compound => return None,
            Scalar::Bool(value) => (0, value.into(), &[]),
            // Equal signed and unsigned numbers have equal digests, because languages differ in
            // integer types.
            Scalar::Unsigned(value) => (1, value, &[]),
            Scalar::Signed(value) => (if value < 0 { 2 } else { 1 }, value.cast_unsigned(), &[]),
            Scalar::Float(value) => (3, value.to_bits(), &[]),
            Scalar::Decimal(bytes) => (4, 0, bytes),
            Scalar::Char(value) => (5, value.into(), &[]),
            Scalar::Timestamp(value) => (6, value.cast_unsigned(), &[]),
            Scalar::Uuid(bytes) => (7, 0, bytes),
            Scalar::Binary(bytes) => (8, 0, bytes),
            Scalar::Text(text) | Scalar::Symbol(text) => (9, 0, text.as_bytes()),
        };
        let mut hasher = SipHasher128::new_with_key(&self.0);
        hasher.write_u8(kind);
        hasher.write_u64(number);
        hasher.write(bytes);
        Some(hasher.finish128().into())
    }
}
