//! Dummy credentials of nonexistent users, so that logins do not reveal which users exist.
//!
//! A login as a nonexistent user gets a salt and an iteration count like those of existing users,
//! the same each time, and its proof or password is checked and always wrong.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;

use aws_lc_rs::hmac;
use enmasse_amqp::sasl::{Hash, Verifier};

use super::user::User;

/// The common properties of the users of a space.
#[derive(Debug)]
pub(super) struct DummyCredentials {
    /// the most frequent shape for each hash
    shapes: BTreeMap<Hash, Shape>,
    /// the most frequent strongest hash of a user
    strongest: Hash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    iterations: NonZeroU32,
    salt_bytes: usize,
}

impl DummyCredentials {
    /// The shape in a space without users, which has nothing to reveal.
    const DEFAULT_SHAPE: Shape = Shape { iterations: NonZeroU32::new(10_000).unwrap(), salt_bytes: 16 };

    /// The most frequent shapes among these users; of equally frequent ones the greatest.
    pub(super) fn of_users(users: &HashMap<Box<str>, User>) -> Self {
        let mut shapes: BTreeMap<Hash, BTreeMap<Shape, usize>> = BTreeMap::new();
        let mut strongest: BTreeMap<Hash, usize> = BTreeMap::new();
        for user in users.values() {
            for verifier in &user.verifiers {
                let shape = Shape { iterations: verifier.iterations, salt_bytes: verifier.salt.len() };
                *shapes.entry(verifier.hash).or_default().entry(shape).or_default() += 1;
            }
            if let Some(verifier) = user.strongest() {
                *strongest.entry(verifier.hash).or_default() += 1;
            }
        }
        Self {
            shapes: shapes.into_iter().filter_map(|(hash, counts)| Some((hash, most_frequent(counts)?))).collect(),
            strongest: most_frequent(strongest).unwrap_or(Hash::Sha512),
        }
    }

    /// For a login whose space is unknown.
    pub(super) const fn without_space() -> Self {
        Self { shapes: BTreeMap::new(), strongest: Hash::Sha512 }
    }

    /// A dummy verifier for `user`, with the hash that most users have.
    pub(super) fn strongest(&self, secret: &[u8; 32], user: &str) -> Verifier {
        self.verifier(secret, user, self.strongest)
    }

    /// A dummy verifier for `user`: all bytes come from the secret and the name, so that its
    /// `stored_key` is the hash of no known key.
    pub(super) fn verifier(&self, secret: &[u8; 32], user: &str, hash: Hash) -> Verifier {
        let shape = self.shapes.get(&hash).unwrap_or(&Self::DEFAULT_SHAPE);
        let key = hmac::Key::new(hmac::HMAC_SHA512, secret);
        let bytes = |purpose: &str, length: usize| {
            let blocks = (0u8..).flat_map(|block| {
                let mut context = hmac::Context::with_key(&key);
                // The purposes contain no NUL, so different inputs never concatenate to the same
                // bytes.
                [purpose.as_bytes(), &[0, hash as u8, block], user.as_bytes()]
                    .iter()
                    .for_each(|part| context.update(part));
                context.sign().as_ref().to_vec()
            });
            blocks.take(length).collect()
        };
        Verifier {
            hash,
            salt: bytes("salt", shape.salt_bytes),
            iterations: shape.iterations,
            stored_key: bytes("stored key", hash.length()),
            server_key: bytes("server key", hash.length()),
        }
    }
}

fn most_frequent<T: Ord>(counts: BTreeMap<T, usize>) -> Option<T> {
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(item, _)| item)
}
