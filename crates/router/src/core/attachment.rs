//! Attachments: each is one link at one address.

use std::fmt;
use std::sync::Arc;

use enmasse_amqp::selector::Selector;

use super::arena::Key;
use super::{AddressKey, Resume, Start, Subscribing};

/// Names an attachment. The shard that owns the link assigns indices densely and increments the
/// generation for the next occupant of a slot, so that messages about an earlier one are recognised
/// and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttachmentId {
    /// the shard that owns the link
    pub shard: u16,
    /// counts the tenants of the slot, wrapping
    pub generation: u16,
    /// slot among the attachments of that shard
    pub index: u32,
}

/// The role of a link at an address.
#[derive(Clone, Debug)]
pub enum AttachmentRole {
    /// messages come from it
    Producer {
        /// one of the addresses of an anonymous link: it sends whether there is a consumer or not
        anonymous: bool,
        /// the name it sends to, for the filters of multicast consumers; without one no filter lets
        /// it through
        name: Option<Arc<str>>,
        /// its name, if its messages are numbered (`docs/contracts.md` 8)
        producer_name: Option<Arc<str>>,
        /// its link can be resumed
        resume: Option<Box<Resume>>,
    },
    /// messages go to it
    Consumer {
        /// the names it wants of those that a multicast address covers; `None` is all
        filter: Option<Filter>,
        /// how it consumes from a stored address
        consuming: Consuming,
    },
}

/// Where messages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// stands for a connection, and never for another
    pub connection: u128,
    /// its container id
    pub container: Arc<str>,
}

/// The messages that a subscription excludes: those of its own side (JMS, no-local).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLocal {
    /// messages from this connection
    Connection(u128),
    /// messages from this container, over any connection
    Container(Arc<str>),
}

impl NoLocal {
    /// Whether messages from there are excluded.
    #[must_use]
    pub fn covers(&self, origin: &Origin) -> bool {
        match self {
            Self::Connection(connection) => *connection == origin.connection,
            Self::Container(container) => *container == origin.container,
        }
    }
}

/// How a link consumes from a stored address, or from its subscription of a topic.
#[derive(Clone, Debug, Default)]
pub struct Consuming {
    /// which messages it wants; `None` is all
    pub selector: Option<Arc<Selector>>,
    /// it looks and takes nothing (3.5.3, distribution-mode `copy`)
    pub browses: bool,
    /// the higher is served first while it has credit
    pub priority: i32,
    /// it wants to be the only one
    pub exclusive: bool,
    /// at a topic, for a subscription of its own: whose messages are excluded
    pub no_local: Option<NoLocal>,
    /// at a topic: which subscription it requests; `None` is one of its own
    pub subscribing: Option<Box<Subscribing>>,
    /// digest of container id and link name: the consumer excluded by
    /// `modified(undeliverable-here)`
    pub name: u64,
    /// where it begins in a stream
    pub start: Start,
    /// the partition of a stream that it reads; `None` is all
    pub partition: Option<u32>,
    /// it is sent settled deliveries only
    pub settled: bool,
    /// its link can be resumed
    pub resume: Option<Box<Resume>>,
}

/// A test of names.
#[derive(Clone)]
pub struct Filter(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl Filter {
    /// A filter that lets through the names for which `matches` is true: always the same answer for
    /// the same name.
    #[must_use]
    pub fn new(matches: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(matches))
    }

    /// Whether `name` is let through.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        (self.0)(name)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Filter")
    }
}

/// The occupant of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Occupant {
    Vacant,
    Producer(Key),
    Consumer(Key),
    /// detached from this address
    Left(AddressKey),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u16,
    occupant: Occupant,
}

/// The attachments by id: a look-up is two vector accesses.
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

    /// The occupant of an attachment's slot, of any generation.
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
