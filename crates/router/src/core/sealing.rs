//! Sealing: an unused address accepts no link before its deletion. Its home decides the order of
//! the seal and of a link that attaches.

use enmasse_amqp::types::{Error, condition};

use super::arena::Key;
use super::attachment::Occupant;
use super::{AddressKey, AttachmentId, Declared, Links, Router, ToLink};

impl Router {
    /// Seals an address without messages, links, subscriptions, resumable links and pending
    /// operations. Returns whether it is sealed.
    pub fn seal_unused(&mut self, declared: Declared) -> bool {
        let at = self.address(declared);
        let sealed = !self.is_used(at);
        self.addresses[at].sealed = sealed;
        sealed
    }

    /// Allows links to attach to an address again.
    pub fn unseal(&mut self, key: AddressKey) {
        if let Some(at) = self.by_key.get(&key) {
            self.addresses[*at].sealed = false;
        }
    }

    pub(super) fn is_sealed(&self, at: Key) -> bool {
        self.addresses[at].sealed
    }

    /// Refuses a link to a sealed address.
    pub(super) fn refuse_sealed(&mut self, attachment: AttachmentId, key: AddressKey, links: &mut impl Links) {
        self.attachments.set(attachment, Occupant::Detached(key));
        let what = "the address was not in use and is being deleted: attach again";
        links.send(ToLink::Attached { attachment, answer: Err(Error::new(condition::RESOURCE_DELETED, what)) });
    }

    fn is_used(&self, at: Key) -> bool {
        let address = &self.addresses[at];
        let key = address.declared.key;
        !address.producers.is_empty()
            || !address.consumers.is_empty()
            || address.treatment.is_used()
            || self.transactions.posts_to(key)
            || self.operations.involves(key)
    }
}
