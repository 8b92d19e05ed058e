//! Attachments: each is one link at one address.

use std::fmt;
use std::sync::Arc;

use enmasse_amqp::selector::Selector;

use super::arena::Key;
use super::{AddressKey, Resume, Start, Subscribing};

/// The identity of an attachment. The shard that owns the link assigns indices densely and
/// increments the generation for each occupant of a slot, so that commands for an earlier occupant
/// are detected and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttachmentId {
    /// the shard that owns the link
    pub shard: u16,
    /// generation of the slot: counts its occupants, wrapping
    pub generation: u16,
    /// slot among the attachments of that shard
    pub index: u32,
}

/// The role of a link at an address.
#[derive(Clone, Debug)]
pub enum AttachmentRole {
    /// it sends messages
    Producer {
        /// the link is anonymous and has several addresses: it may send without a consumer
        anonymous: bool,
        /// the name it sends to, which filters of multicast consumers match; `None` matches no
        /// filter
        name: Option<Arc<str>>,
        /// its name, if its messages are numbered (`docs/contracts.md` 8)
        producer_name: Option<Arc<str>>,
        /// set if its link can be resumed
        resume: Option<Box<Resume>>,
    },
    /// it receives messages
    Consumer {
        /// the requested names of those that a multicast address covers; `None` is all
        filter: Option<Filter>,
        /// how it consumes from a stored address
        consuming: Consuming,
    },
}

/// The origin of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// identifies one connection; never reused
    pub connection: u128,
    /// the container id of the client
    pub container: Arc<str>,
}

/// The messages that a subscription excludes because its own client sends them (JMS noLocal).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLocal {
    /// messages from this connection
    Connection(u128),
    /// messages from this container, over any connection
    Container(Arc<str>),
}

impl NoLocal {
    /// Whether messages from `origin` are excluded.
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
    /// the messages it requests; `None` is all
    pub selector: Option<Arc<Selector>>,
    /// it browses (3.5.3, distribution-mode `copy`)
    pub browses: bool,
    /// consumers of higher priority are served first while they have credit
    pub priority: i32,
    /// it requests exclusive access
    pub exclusive: bool,
    /// at a topic, for a subscription of its own: the origin whose messages are excluded
    pub no_local: Option<NoLocal>,
    /// at a topic: the requested subscription; `None` is a new one of its own
    pub subscribing: Option<Box<Subscribing>>,
    /// digest of container id and link name: the consumer excluded by
    /// `modified(undeliverable-here)`
    pub name: u64,
    /// where it begins to read a stream
    pub start: Start,
    /// the requested partition of a stream; `None` is all
    pub partition: Option<u32>,
    /// all deliveries to it are sent settled
    pub settled: bool,
    /// set if its link can be resumed
    pub resume: Option<Box<Resume>>,
}

/// A predicate on names.
#[derive(Clone)]
pub struct Filter(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl Filter {
    /// A filter that accepts the names for which `matches` is true. `matches` must be
    /// deterministic.
    #[must_use]
    pub fn new(matches: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(matches))
    }

    /// Whether `name` is accepted.
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
