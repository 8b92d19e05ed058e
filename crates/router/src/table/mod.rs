//! The Plan, compiled for fast look-ups: immutable, shared by all shards, and replaced as a whole.
//!
//! [`Table::compile`] compiles a [`Plan`] and the previous table into the next one. It keeps keys,
//! homes and unchanged entries, so that other links are unaffected. [`Table::space_for`] selects
//! the space of a connection (contracts 4), [`Handshake`] authenticates it (contracts 5),
//! [`Space::resolve`] and [`Space::resolve_receiver`] resolve names (contracts 6), [`Rights::may`]
//! checks rights. Dynamic nodes are not in the table: the shard of their connection has them.

mod address;
mod authenticated;
mod compile;
mod diff;
mod dummy_credentials;
mod handshake;
mod home;
mod lookup;
mod pace;
pub mod pattern;
mod rights;
mod space;
mod storage;
#[cfg(test)]
mod tests;
mod usage;
mod user;

use std::collections::{HashMap, HashSet};

use enmasse_amqp::sasl::Mechanism;

pub use address::AddressEntry;
pub use authenticated::{Authenticated, Granted, Proof};
pub use compile::{LINK_CAPACITY_MAX, PlanError, retained_uid};
pub use diff::Diff;
pub use handshake::{Attempted, Handshake, Judged, Peer, Question, Refusal};
pub use home::{Home, Occupancy};
pub use lookup::{NoSpace, SpaceHints};
pub use pace::{Allowance, Pace};
pub use rights::Rights;
pub use space::{MqttStore, Resolved, Space};
pub(crate) use storage::MESSAGE_BYTES_MAX;
pub use storage::{Storage, Streaming};
pub use usage::{CountGuard, Traffic, TrafficCounts};

use crate::core::{AddressKey, AddressKind};
#[cfg(doc)]
use crate::plan::Plan;

/// Identifies a space: the same for the same uid, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceKey(pub u32);

impl SpaceKey {
    /// The home of the records of MQTT sessions and of the retained messages of the space, among
    /// `shards` shards (`docs/decisions/0083-homes-of-queues.md`).
    #[must_use]
    pub fn stored_home(self, shards: u16) -> u16 {
        (self.0 % u32::from(shards.max(1))) as u16
    }
}

/// The compiled Plan of a node.
pub struct Table {
    version: u64,
    spaces: HashMap<SpaceKey, Space>,
    /// the names of spaces, in lower case
    names: HashMap<Box<str>, SpaceKey>,
    /// the space of connections that name none
    default: Option<SpaceKey>,
    /// host names of the platform, in lower case
    hosts: HashSet<Box<str>>,
    /// the mechanisms of all spaces, strongest first
    mechanisms: Vec<Mechanism>,
    /// several closed spaces admit certificates, which one authority signs: each certificate has to
    /// name its space
    certificates_name_space: bool,
    /// the next free keys
    next: NextKeys,
    secret: [u8; 32],
}

#[derive(Clone, Copy)]
struct NextKeys {
    space: u32,
    address: u32,
}

impl Table {
    /// The table of a node without a plan. `secret` is random, and the same for the whole process:
    /// the salts of nonexistent users derive from it, so that they stay the same.
    #[must_use]
    pub fn empty(secret: [u8; 32]) -> Self {
        let next = NextKeys { space: 0, address: 0 };
        Self {
            version: 0,
            spaces: HashMap::new(),
            names: HashMap::new(),
            default: None,
            hosts: HashSet::new(),
            mechanisms: Vec::new(),
            certificates_name_space: false,
            next,
            secret,
        }
    }

    /// The version of the plan it was compiled from; 0 before the first.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The space of that key; `None` once it was removed.
    #[must_use]
    pub fn space(&self, key: SpaceKey) -> Option<&Space> {
        self.spaces.get(&key)
    }

    /// All spaces, in no order.
    pub fn spaces(&self) -> impl Iterator<Item = &Space> {
        self.spaces.values()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("version", &self.version).field("spaces", &self.spaces).finish_non_exhaustive()
    }
}
