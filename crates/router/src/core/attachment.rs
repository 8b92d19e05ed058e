//! The table of attachments: each is one link at one address.

use super::arena::Key;
use super::{AddressKey, AttachmentId};

/// The occupant of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Occupant {
    Vacant,
    Producer(Key),
    Consumer(Key),
    /// detached from this address
    Detached(AddressKey),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u16,
    occupant: Occupant,
}

/// The attachments by id. A look-up costs two vector accesses.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    shards: Vec<Vec<Slot>>,
}

impl Attachments {
    #[inline]
    pub(super) fn get(&self, attachment: AttachmentId) -> Occupant {
        match self.shards.get(attachment.shard as usize).and_then(|slots| slots.get(attachment.index as usize)) {
            Some(slot) if slot.generation == attachment.generation => slot.occupant,
            _ => Occupant::Vacant,
        }
    }

    /// The attachment that occupies the slot now, of any generation.
    pub(super) fn occupant(&self, attachment: AttachmentId) -> Option<AttachmentId> {
        let slot = self.shards.get(attachment.shard as usize)?.get(attachment.index as usize)?;
        let attached = matches!(slot.occupant, Occupant::Producer(_) | Occupant::Consumer(_));
        attached.then_some(AttachmentId { generation: slot.generation, ..attachment })
    }

    pub(super) fn set(&mut self, attachment: AttachmentId, occupant: Occupant) {
        let (shard, index) = (attachment.shard as usize, attachment.index as usize);
        if self.shards.len() <= shard {
            self.shards.resize_with(shard + 1, Vec::new);
        }
        let slots = &mut self.shards[shard];
        if slots.len() <= index {
            slots.resize(index + 1, Slot { generation: 0, occupant: Occupant::Vacant });
        }
        slots[index] = Slot { generation: attachment.generation, occupant };
    }

    #[inline]
    pub(super) fn producer(&self, attachment: AttachmentId) -> Option<Key> {
        match self.get(attachment) {
            Occupant::Producer(key) => Some(key),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn consumer(&self, attachment: AttachmentId) -> Option<Key> {
        match self.get(attachment) {
            Occupant::Consumer(key) => Some(key),
            _ => None,
        }
    }
}
