//! The registry of link names, which all shards of a node share (`names`).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Attach, Role};

use super::ConnId;
use crate::core::wire::{commands, wire_structs};

/// Parts of the registry. Each has its own lock, so that shards seldom contend.
const PARTS: usize = 64;

/// The digest of the identity of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LinkName(u128);

/// The link that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkHolder {
    pub(super) shard: u16,
    pub(super) conn: ConnId,
    pub(super) link: LinkId,
}

/// An attach that takes a link over, distinguished from others of the same link by a number of its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkTheft {
    pub(super) holder: LinkHolder,
    pub(super) number: u64,
}

commands! {
    /// Between the shards of two links of one name, of which one takes over the other.
    #[derive(Debug)]
    pub(super) enum LinkTakeover {
        /// To the shard of the older link.
        Steal { name: LinkName, from: LinkHolder, theft: LinkTheft },
        /// From there to every shard, and from each to the shard of the newer link: earlier
        /// commands have been handled.
        Confirm { theft: LinkTheft },
    }
}

wire_structs! {
    LinkId { 0 }
    LinkName { 0 }
    ConnId { key, serial }
    LinkHolder { shard, conn, link }
    LinkTheft { holder, number }
}

/// The place where a session of MQTT without a client waits: a shard, and the number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AbsentAt {
    pub(super) shard: u16,
    pub(super) number: u64,
}

/// What is known by name.
#[derive(Debug, Default)]
struct Part {
    holders: HashMap<LinkName, LinkHolder>,
    absent: HashMap<LinkName, AbsentAt>,
}

/// The links of all shards by name, and the sessions of MQTT that wait for a visit: one of them at
/// most, whichever shards its connections were on.
#[derive(Debug)]
pub struct LinkNames {
    parts: Vec<Mutex<Part>>,
    keys: [RandomState; 2],
}

impl Default for LinkNames {
    fn default() -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Self { parts, keys: [RandomState::new(), RandomState::new()] }
    }
}

impl LinkNames {
    pub(super) fn digest(&self, space: u32, user: Option<&str>, container: &str, attach: &Attach) -> LinkName {
        let sends = attach.role == Role::Sender;
        let [high, low] = &self.keys;
        let digest = |key: &RandomState| key.hash_one((space, user, container, attach.name.as_str(), sends));
        LinkName(u128::from(digest(high)) << 64 | u128::from(digest(low)))
    }

    // A poisoned lock means a thread died while it held it, and then the process is ending.
    fn part(&self, name: LinkName) -> MutexGuard<'_, Part> {
        self.parts[name.0 as usize % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a link under a name; returns the earlier holder.
    pub(super) fn take(&self, name: LinkName, holder: LinkHolder) -> Option<LinkHolder> {
        self.part(name).holders.insert(name, holder)
    }

    /// Whether a link has a name.
    pub(super) fn is_held(&self, name: LinkName) -> bool {
        self.part(name).holders.contains_key(&name)
    }

    /// Removes a name, if this link still has it.
    pub(super) fn unregister(&self, name: LinkName, holder: LinkHolder) {
        let mut part = self.part(name);
        if part.holders.get(&name) == Some(&holder) {
            part.holders.remove(&name);
        }
    }

    /// A session waits at this place, and no longer at an earlier one.
    pub(super) fn note_absent(&self, name: LinkName, at: AbsentAt) {
        self.part(name).absent.insert(name, at);
    }

    /// As [`LinkNames::note_absent`], unless the session waits already; whether it does now.
    pub(super) fn note_absent_once(&self, name: LinkName, at: AbsentAt) -> bool {
        *self.part(name).absent.entry(name).or_insert(at) == at
    }

    /// Whether a session waits at this place.
    pub(super) fn is_absent(&self, name: LinkName, at: AbsentAt) -> bool {
        self.part(name).absent.get(&name) == Some(&at)
    }

    /// A session does not wait any more.
    pub(super) fn forget_absent(&self, name: LinkName) {
        self.part(name).absent.remove(&name);
    }
}

/// A name that its link has left, until all shards have processed the last commands of the link.
pub(super) struct LeftName {
    pub(super) name: LinkName,
    pub(super) holder: LinkHolder,
    /// shards that have not confirmed
    pub(super) waits_for: usize,
}

/// An attach that waits until all shards have processed the end of the link that it takes over.
pub(super) struct Stealing {
    pub(super) link: LinkId,
    pub(super) number: u64,
    pub(super) attach: Box<Attach>,
    /// the link it takes over
    pub(super) from: LinkHolder,
    /// shards that have not confirmed
    pub(super) waits_for: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::wire::{Encoder, tests as samples};

    #[test]
    fn link_name_belongs_to_its_last_holder_which_alone_can_release_it() {
        let names = LinkNames::default();
        let holder = |link| LinkHolder { shard: 0, conn: ConnId { key: 1, serial: 2 }, link: LinkId(link) };
        let name = LinkName(7);
        assert_eq!(names.take(name, holder(1)), None);
        assert_eq!(names.take(name, holder(2)), Some(holder(1)));
        names.unregister(name, holder(1));
        assert_eq!(names.take(name, holder(3)), Some(holder(2)));
        names.unregister(name, holder(3));
        assert_eq!(names.take(name, holder(4)), None);
    }

    #[test]
    fn every_takeover_command_survives_its_encoding() {
        for seed in 0..100 {
            for command in LinkTakeover::samples(&mut samples::Random(seed)) {
                samples::survives(&command, &mut Encoder::default());
            }
        }
    }
}
