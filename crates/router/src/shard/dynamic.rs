//! Dynamic nodes (part 3, 3.5.3; `contracts.md` 6): addresses made at attach, gone with their connection.
//!
//! Their names are 128 random bits, so knowing one is the right to send to it; only the connection that made it
//! may receive. The registry is shared by all shards and touched at attach, or when an anonymous sender
//! first names a node: never once a message.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::core::{AddressKey, AddressKind};
use crate::table::{AddressEntry, SpaceKey};

/// What the name of every dynamic node begins with.
pub const DYNAMIC_PREFIX: &str = "$temp/";

/// Keys of dynamic nodes count down from the top: the table's count up from 0.
const FIRST_KEY: u32 = u32::MAX - 1;

type Nodes = HashMap<(SpaceKey, String), Arc<AddressEntry>>;

/// All dynamic nodes of a node.
#[derive(Debug)]
pub struct DynamicNodes {
    nodes: RwLock<Nodes>,
    next_key: AtomicU32,
}

impl Default for DynamicNodes {
    fn default() -> Self {
        Self { nodes: RwLock::default(), next_key: AtomicU32::new(FIRST_KEY) }
    }
}

impl DynamicNodes {
    /// Makes a node that lives on shard `home`. `random`: 16 bytes nobody can guess.
    pub(super) fn create(
        &self,
        space: SpaceKey,
        home: u16,
        random: [u8; 16],
        kind: AddressKind,
        link_capacity: u32,
    ) -> Arc<AddressEntry> {
        let mut name = String::with_capacity(DYNAMIC_PREFIX.len() + 32);
        name.push_str(DYNAMIC_PREFIX);
        for byte in random {
            name.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            name.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        }
        let key = AddressKey(self.next_key.fetch_sub(1, Ordering::Relaxed));
        let entry = Arc::new(AddressEntry::dynamic(key, space, &name, kind, link_capacity, home));
        self.write().insert((space, name), Arc::clone(&entry));
        entry
    }

    pub(super) fn find(&self, space: SpaceKey, name: &str) -> Option<Arc<AddressEntry>> {
        if !name.starts_with(DYNAMIC_PREFIX) {
            return None;
        }
        self.read().get(&(space, name.to_owned())).cloned()
    }

    pub(super) fn remove(&self, space: SpaceKey, name: &str) {
        self.write().remove(&(space, name.to_owned()));
    }

    // A poisoned lock means a thread died while it held it, and then the process is ending.
    fn read(&self) -> RwLockReadGuard<'_, Nodes> {
        self.nodes.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Nodes> {
        self.nodes.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
