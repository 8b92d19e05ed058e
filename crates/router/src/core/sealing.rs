//! An address that is not in use is sealed before it is deleted: no link attaches to it any more.
//! Whether a link comes first or the seal, its home decides.

use enmasse_amqp::types::{Error, condition};

use super::arena::Key;
use super::attachment::Occupant;
use super::{AddressKey, AttachmentId, Declared, Links, Router};

impl Router {
    /// Seals an address that has no messages, links, subscriptions or links that may be resumed,
    /// and on which nothing is being done. Whether it is sealed now.
    pub fn seal_unused(&mut self, declared: Declared) -> bool {
        let at = self.address(declared);
        let sealed = !self.is_used(at);
        self.addresses[at].sealed = sealed;
        sealed
    }

    /// Links may attach to an address again.
    pub fn unseal(&mut self, key: AddressKey) {
        if let Some(at) = self.by_key.get(&key) {
            self.addresses[*at].sealed = false;
        }
    }

    pub(super) fn is_sealed(&self, at: Key) -> bool {
        self.addresses[at].sealed
    }

    /// A link has come too late.
    pub(super) fn refuse_sealed(&mut self, attachment: AttachmentId, key: AddressKey, links: &mut impl Links) {
        self.attachments.set(attachment, Occupant::Left(key));
        let what = "the address was not in use and is being deleted: attach again";
        links.attached(attachment, Err(Error::new(condition::RESOURCE_DELETED, what)));
    }

    fn is_used(&self, at: Key) -> bool {
        let address = &self.addresses[at];
        let key = address.declared.key;
        !address.producers.is_empty()
            || !address.consumers.is_empty()
            || address.treatment.is_used()
            || self.transactions.posts_to(key)
            || self.operations.concern(key)
    }
}
