//! Ports: each is one link's place at one address. A slot is used again with the next generation, so that what
//! is still on the way to the old port is recognised and dropped. One whose address lives elsewhere is used again
//! only after the last word from there: what is on its way to it until then goes back, and is known there.

use crate::core::{AddressKey, AddressKind, Declared, Hold, PortId};

/// What a port stands for on the shard that owns its link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    /// key of the connection
    pub(super) conn: u32,
    /// key of the link within it
    pub(super) link: u32,
    /// where messages come from or go to
    pub(super) address: AddressKey,
    /// what that does with messages
    pub(super) kind: AddressKind,
    /// the shard where the address lives
    pub(super) home: u16,
    /// deliveries handed to this consumer port so far: the base of its credit limit
    pub(super) handed: u32,
    /// unsettled deliveries sent through this producer port and not answered
    pub(super) unanswered: u32,
    /// how far this producer port is held back
    pub(super) held: Hold,
    /// this consumer port sends back what it is handed by another shard, until that has halted
    pub(super) refusing: bool,
    /// a drain was asked for while it did
    pub(super) drain: bool,
    /// its home was asked for a drain and has not answered
    pub(super) draining: bool,
    /// the link is in the middle of a long delivery of this consumer port
    pub(super) sending: bool,
    /// what the next delivery of a link that can be resumed is called, and whether the link knows it
    pub(super) name: Option<(u64, bool)>,
    /// its home has it
    pub(super) attached: bool,
    /// this consumer port found no room on its connection and is asked again in its turn
    pub(super) short: bool,
    /// its home was told that nothing more comes from this producer port, and has yet to say its last word
    pub(super) parting: bool,
    /// its link ends: this consumer port is stalled for good
    pub(super) leaving: bool,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u16,
    port: Option<Port>,
    /// of a port that was left: where its last word comes from
    left: Option<u16>,
}

/// The ports of one shard.
#[derive(Debug)]
pub(super) struct Ports {
    shard: u16,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Ports {
    pub(super) fn new(shard: u16) -> Self {
        Self { shard, slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, conn: u32, link: u32, address: Declared, home: u16) -> PortId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.port = Some(Port {
            conn,
            link,
            address: address.key,
            kind: address.kind,
            home,
            handed: 0,
            unanswered: 0,
            held: Hold::No,
            refusing: false,
            drain: false,
            draining: false,
            sending: false,
            name: None,
            attached: false,
            short: false,
            parting: false,
            leaving: false,
        });
        PortId { shard: self.shard, generation: slot.generation, index }
    }

    #[inline]
    pub(super) fn get(&self, id: PortId) -> Option<&Port> {
        let slot = self.slots.get(id.index as usize)?;
        if slot.generation == id.generation { slot.port.as_ref() } else { None }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: PortId) -> Option<&mut Port> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation == id.generation { slot.port.as_mut() } else { None }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Port> {
        self.slots.iter().filter_map(|slot| slot.port.as_ref())
    }

    /// The link has left the port; its home has yet to say its last word to it.
    pub(super) fn leave(&mut self, id: PortId) -> Option<Port> {
        let slot = self.slots.get_mut(id.index as usize)?;
        let port = if slot.generation == id.generation { slot.port.take() } else { None };
        slot.left = slot.left.or(port.map(|port| port.home));
        port
    }

    /// The home of a port that was left, until its last word.
    pub(super) fn left(&self, id: PortId) -> Option<u16> {
        self.slots.get(id.index as usize).filter(|slot| slot.generation == id.generation)?.left
    }

    /// Nothing is on its way to the port any more.
    pub(super) fn remove(&mut self, id: PortId) -> Option<Port> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        slot.generation = slot.generation.wrapping_add(1);
        slot.left = None;
        self.free.push(id.index);
        slot.port.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: Declared = Declared { key: AddressKey(9), kind: AddressKind::Anycast, link_capacity: 1, space: 1 };

    #[test]
    fn a_used_again_slot_does_not_answer_to_the_old_port() {
        let mut ports = Ports::new(3);
        let old = ports.insert(1, 2, ADDRESS, 0);
        assert_eq!(ports.remove(old).map(|port| port.conn), Some(1));
        let new = ports.insert(7, 8, ADDRESS, 0);
        assert_eq!(new.index, old.index);
        assert!(ports.get(old).is_none());
        assert!(ports.remove(old).is_none());
        assert_eq!(ports.get(new).map(|port| port.link), Some(8));
    }

    #[test]
    fn a_slot_is_used_again_after_the_last_word() {
        let mut ports = Ports::new(3);
        let left = ports.insert(1, 2, ADDRESS, 1);
        assert_eq!(ports.leave(left).map(|port| port.home), Some(1));
        assert!(ports.get(left).is_none() && ports.leave(left).is_none());
        assert_eq!(ports.left(left), Some(1));
        assert_ne!(ports.insert(7, 8, ADDRESS, 1).index, left.index);
        assert!(ports.remove(left).is_none());
        assert_eq!(ports.insert(7, 8, ADDRESS, 1).index, left.index);
        ports.remove(left);
        assert_ne!(ports.insert(7, 8, ADDRESS, 1).index, left.index, "free once");
    }
}
