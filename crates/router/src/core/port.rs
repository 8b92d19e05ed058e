//! Ports: each is one link's place at one address.

use std::fmt;
use std::sync::Arc;

use enmasse_amqp::selector::Selector;

use super::arena::Key;
use super::{AddressKey, Resume, Start, Subscribing};

/// Names a port. The shard that owns the link gives indices out densely and a slot's next tenant the next
/// generation, so that what is said about an earlier tenant is recognised and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId {
    /// the shard that owns the link
    pub shard: u16,
    /// counts the tenants of the slot, wrapping
    pub generation: u16,
    /// slot among the ports of that shard
    pub index: u32,
}

/// What a link does at an address.
#[derive(Clone, Debug)]
pub enum PortRole {
    /// messages come from it
    Producer {
        /// one of the addresses of an anonymous link: it sends whether there is a consumer or not
        anonymous: bool,
        /// the name it sends to, for the filters of multicast consumers; without one no filter lets it through
        name: Option<Arc<str>>,
        /// what it calls itself where its messages are numbered (`docs/contracts.md` 8)
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

/// Whose messages a subscription does not want: those of its own side (JMS, no-local).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLocal {
    /// what comes over this connection
    Connection(u128),
    /// what comes from this container, over whichever connection
    Container(Arc<str>),
}

impl NoLocal {
    /// Whether it does not want what comes from there.
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
    /// at a topic, of a subscription of its own: whose messages it does not want
    pub no_local: Option<NoLocal>,
    /// at a topic: which subscription it asks for; `None` is one of its own
    pub subscribing: Option<Box<Subscribing>>,
    /// digest of container id and link name: whom `modified(undeliverable-here)` keeps a message from
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
    /// A filter that lets through the names for which `matches` is true: always the same answer for the same name.
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

/// Who has a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tenant {
    Nobody,
    Producer(Key),
    Consumer(Key),
    /// detached from this address
    Left(AddressKey),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u16,
    tenant: Tenant,
}

/// Which port is whose: a look-up is two steps into vectors.
#[derive(Debug, Default)]
pub(super) struct Ports {
    shards: Vec<Vec<Slot>>,
}

impl Ports {
    #[inline]
    pub(super) fn get(&self, port: PortId) -> Tenant {
        match self.shards.get(port.shard as usize).and_then(|slots| slots.get(port.index as usize)) {
            Some(slot) if slot.generation == port.generation => slot.tenant,
            _ => Tenant::Nobody,
        }
    }

    /// The tenant of a port's slot, whatever its generation.
    pub(super) fn occupant(&self, port: PortId) -> Option<PortId> {
        let slot = self.shards.get(port.shard as usize)?.get(port.index as usize)?;
        let attached = matches!(slot.tenant, Tenant::Producer(_) | Tenant::Consumer(_));
        attached.then_some(PortId { generation: slot.generation, ..port })
    }

    pub(super) fn set(&mut self, port: PortId, tenant: Tenant) {
        let (shard, index) = (port.shard as usize, port.index as usize);
        if self.shards.len() <= shard {
            self.shards.resize_with(shard + 1, Vec::new);
        }
        let slots = &mut self.shards[shard];
        if slots.len() <= index {
            slots.resize(index + 1, Slot { generation: 0, tenant: Tenant::Nobody });
        }
        slots[index] = Slot { generation: port.generation, tenant };
    }

    #[inline]
    pub(super) fn producer(&self, port: PortId) -> Option<Key> {
        match self.get(port) {
            Tenant::Producer(key) => Some(key),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn consumer(&self, port: PortId) -> Option<Key> {
        match self.get(port) {
            Tenant::Consumer(key) => Some(key),
            _ => None,
        }
    }
}
