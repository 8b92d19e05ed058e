//! Attachments: each is one link at one address. A slot is reused with the next generation, so that
//! commands for the old attachment are recognised and dropped. If the home is another shard, the
//! slot is reused only after the last command of that shard: deliveries that arrive before are
//! returned.

use super::greeting::Greeting;
use crate::core::{AddressKey, AddressKind, AttachmentId, Declared, Hold};
use crate::table::{AddressEntry, Occupancy};

/// An attachment on the shard that owns its link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attachment {
    /// key of the connection
    pub(super) conn: u32,
    /// key of the link within it
    pub(super) link: u32,
    /// the address of the attachment
    pub(super) address: AddressKey,
    /// the kind of the address
    pub(super) kind: AddressKind,
    /// the home of the address
    pub(super) home: u16,
    /// deliveries dispatched to this consumer so far: the base of its credit limit
    pub(super) dispatched: u32,
    /// unsettled deliveries sent through this producer attachment and not answered
    pub(super) unanswered: u32,
    /// the back-pressure on this producer attachment
    pub(super) held: Hold,
    /// this consumer returns the deliveries of another shard, until that has halted
    pub(super) refusing: bool,
    /// a drain was requested while `refusing`
    pub(super) drain: bool,
    /// its home received a drain and has not answered
    pub(super) draining: bool,
    /// the link is in the middle of a long delivery of this consumer attachment
    pub(super) sending: bool,
    /// the number of the next delivery of a resumable link, and whether the link knows it
    pub(super) name: Option<(u64, bool)>,
    /// its home has confirmed the attach
    pub(super) attached: bool,
    /// this consumer attachment found no room on its connection and is in
    /// `Conn::waiting_for_room`
    pub(super) waits_for_room: bool,
    /// its home was asked to detach this producer, and has not confirmed
    pub(super) detaching: bool,
    /// its link ends: this consumer attachment is stalled permanently
    pub(super) leaving: bool,
    /// it reads retained messages, before the other attachments of its link get credit
    pub(super) greeting: Option<Greeting>,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u16,
    attachment: Option<Attachment>,
    /// keeps the address at its home until the slot is freed
    occupancy: Option<Occupancy>,
    /// of an attachment that its link has left: the home that sends the last command
    left: Option<u16>,
}

/// The attachments of one shard.
#[derive(Debug)]
pub(super) struct Attachments {
    shard: u16,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Attachments {
    pub(super) fn new(shard: u16) -> Self {
        Self { shard, slots: Vec::new(), free: Vec::new() }
    }

    /// Attaches a link to an address; also returns the home of the address, which is this shard if
    /// there was none.
    pub(super) fn insert(&mut self, conn: u32, link: u32, address: &AddressEntry) -> (AttachmentId, u16) {
        let occupancy = address.home.occupy(self.shard);
        let home = occupancy.shard();
        let id = self.insert_at(conn, link, address.declared(), home);
        self.slots[id.index as usize].occupancy = Some(occupancy);
        (id, home)
    }

    /// Attaches a link to an address at a permanent home.
    pub(super) fn insert_at(&mut self, conn: u32, link: u32, address: Declared, home: u16) -> AttachmentId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.attachment = Some(Attachment {
            conn,
            link,
            address: address.key,
            kind: address.kind,
            home,
            dispatched: 0,
            unanswered: 0,
            held: Hold::No,
            refusing: false,
            drain: false,
            draining: false,
            sending: false,
            name: None,
            attached: false,
            waits_for_room: false,
            detaching: false,
            leaving: false,
            greeting: None,
        });
        AttachmentId { shard: self.shard, generation: slot.generation, index }
    }

    #[inline]
    pub(super) fn get(&self, id: AttachmentId) -> Option<&Attachment> {
        let slot = self.slots.get(id.index as usize)?;
        if slot.generation == id.generation { slot.attachment.as_ref() } else { None }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: AttachmentId) -> Option<&mut Attachment> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation == id.generation { slot.attachment.as_mut() } else { None }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Attachment> {
        self.slots.iter().filter_map(|slot| slot.attachment.as_ref())
    }

    /// Removes the link's side of an attachment. The slot stays until its home has confirmed.
    pub(super) fn leave(&mut self, id: AttachmentId) -> Option<Attachment> {
        let slot = self.slots.get_mut(id.index as usize)?;
        let attachment = if slot.generation == id.generation { slot.attachment.take() } else { None };
        slot.left = slot.left.or(attachment.map(|attachment| attachment.home));
        attachment
    }

    /// The home of an attachment that its link has left, until the last command of that home.
    pub(super) fn left(&self, id: AttachmentId) -> Option<u16> {
        self.slots.get(id.index as usize).filter(|slot| slot.generation == id.generation)?.left
    }

    /// Frees the slot of an attachment: no command for it is in flight any more.
    pub(super) fn remove(&mut self, id: AttachmentId) -> Option<Attachment> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        slot.generation = slot.generation.wrapping_add(1);
        slot.left = None;
        slot.occupancy = None;
        self.free.push(id.index);
        slot.attachment.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::SpaceKey;

    fn address(home: u16) -> AddressEntry {
        AddressEntry::dynamic(AddressKey(9), SpaceKey(1), "jobs", AddressKind::Anycast, 1, home)
    }

    #[test]
    fn reused_slot_does_not_resolve_the_old_attachment() {
        let mut attachments = Attachments::new(3);
        let (old, _) = attachments.insert(1, 2, &address(0));
        assert_eq!(attachments.remove(old).map(|attachment| attachment.conn), Some(1));
        let (new, _) = attachments.insert(7, 8, &address(0));
        assert_eq!(new.index, old.index);
        assert!(attachments.get(old).is_none());
        assert!(attachments.remove(old).is_none());
        assert_eq!(attachments.get(new).map(|attachment| attachment.link), Some(8));
    }

    #[test]
    fn slot_is_reused_only_after_its_attachment_was_removed() {
        let mut attachments = Attachments::new(3);
        let (left, home) = attachments.insert(1, 2, &address(1));
        assert_eq!(home, 1);
        assert_eq!(attachments.leave(left).map(|attachment| attachment.home), Some(1));
        assert!(attachments.get(left).is_none() && attachments.leave(left).is_none());
        assert_eq!(attachments.left(left), Some(1));
        assert_ne!(attachments.insert(7, 8, &address(1)).0.index, left.index);
        assert!(attachments.remove(left).is_none());
        assert_eq!(attachments.insert(7, 8, &address(1)).0.index, left.index);
        attachments.remove(left);
        assert_ne!(attachments.insert(7, 8, &address(1)).0.index, left.index, "free once");
    }
}
