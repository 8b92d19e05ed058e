//! One user of an address space.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use enmasse_amqp::sasl::{Hash, Verifier};

use super::rights::Rights;

#[derive(Debug)]
pub(super) struct User {
    pub(super) verifiers: Vec<Verifier>,
    pub(super) rights: Rights,
    /// a hash of the password's verifiers: it changes with the password
    pub(super) stamp: u64,
}

impl User {
    /// A user with a password, if there are verifiers of it.
    pub(super) fn new(verifiers: Vec<Verifier>, rights: Rights) -> Self {
        let mut hasher = DefaultHasher::new();
        verifiers.iter().for_each(|verifier| verifier.stored_key.hash(&mut hasher));
        Self { stamp: hasher.finish(), verifiers, rights }
    }

    pub(super) fn verifier(&self, hash: Hash) -> Option<&Verifier> {
        self.verifiers.iter().find(|verifier| verifier.hash == hash)
    }

    /// The verifier that checks a password: the one with the strongest hash.
    pub(super) fn strongest(&self) -> Option<&Verifier> {
        self.verifiers.iter().max_by_key(|verifier| verifier.hash)
    }
}
