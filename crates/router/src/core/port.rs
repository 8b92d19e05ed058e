//! Ports: each is one link's place at one address.

use std::fmt;
use std::sync::Arc;

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
        /// the name it sends to where that is not the address's own (`sensors/7` below `sensors`)
        name: Option<Arc<str>>,
    },
    /// messages go to it
    Consumer {
        /// the names below a multicast address it wants; `None` is everything
        filter: Option<Filter>,
    },
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
