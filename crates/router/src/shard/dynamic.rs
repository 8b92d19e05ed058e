//! Dynamic nodes (part 3, 3.5.3; `contracts.md` 6): temporary queues, temporary topics and direct
//! nodes, created at attach and deleted with the link or the connection that created them.
//!
//! Their names are 128 random bits: a client that knows one may send to it. Only the connection
//! that created a node may receive from it. All shards share the registry. It is used at attach,
//! and when an anonymous sender first names a node, never per message.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::core::{AddressKey, AddressKind, DYNAMIC_KEYS};
use crate::table::{AddressEntry, SpaceKey};

/// Prefix of the names of dynamic nodes.
pub const DYNAMIC_PREFIX: &str = "$temp/";

/// Credit that the platform keeps open for one named producer of a temporary queue or topic, in
/// deliveries.
const TEMPORARY_WINDOW: u32 = 100;

/// All dynamic nodes of a node.
#[derive(Debug, Default)]
pub struct DynamicNodes {
    nodes: RwLock<Nodes>,
}

#[derive(Debug, Default)]
struct Nodes {
    by_name: HashMap<(SpaceKey, String), Arc<AddressEntry>>,
    keys: HashSet<AddressKey>,
    /// where the search for a free key starts
    next_key: u32,
    spaces: HashMap<SpaceKey, Use>,
}

/// The resources of the dynamic nodes of one space.
#[derive(Debug, Default)]
struct Use {
    nodes: usize,
    bytes: Arc<AtomicU64>,
}

impl Nodes {
    /// A free key. The counter wraps around, so keys of old nodes are skipped.
    fn take_key(&mut self) -> AddressKey {
        loop {
            let key = AddressKey(DYNAMIC_KEYS.start + self.next_key % DYNAMIC_KEYS.len() as u32);
            self.next_key = self.next_key.wrapping_add(1);
            if self.keys.insert(key) {
                return key;
            }
        }
    }
}

impl DynamicNodes {
    /// Creates a node whose home is shard `home`. Returns it with the counter of bytes in temporary
    /// queues of the space. `random`: 16 unpredictable bytes.
    pub(super) fn create(
        &self,
        space: SpaceKey,
        home: u16,
        random: [u8; 16],
        kind: AddressKind,
        link_capacity: u32,
    ) -> (Arc<AddressEntry>, Arc<AtomicU64>) {
        let mut name = String::with_capacity(DYNAMIC_PREFIX.len() + 32);
        name.push_str(DYNAMIC_PREFIX);
        for byte in random {
            name.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            name.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        }
        let link_capacity = if kind.stores() { link_capacity.min(TEMPORARY_WINDOW) } else { link_capacity };
        let mut nodes = self.write();
        let key = nodes.take_key();
        let entry = Arc::new(AddressEntry::dynamic(key, space, &name, kind, link_capacity, home));
        nodes.by_name.insert((space, name), Arc::clone(&entry));
        let used = nodes.spaces.entry(space).or_default();
        used.nodes += 1;
        (entry, Arc::clone(&used.bytes))
    }

    pub(super) fn find(&self, space: SpaceKey, name: &str) -> Option<Arc<AddressEntry>> {
        if !name.starts_with(DYNAMIC_PREFIX) {
            return None;
        }
        self.read().by_name.get(&(space, name.to_owned())).cloned()
    }

    pub(super) fn remove(&self, space: SpaceKey, name: &str) {
        let mut nodes = self.write();
        let Some(entry) = nodes.by_name.remove(&(space, name.to_owned())) else { return };
        nodes.keys.remove(&entry.key);
        if let Some(used) = nodes.spaces.get_mut(&space) {
            used.nodes -= 1;
            if used.nodes == 0 {
                nodes.spaces.remove(&space);
            }
        }
    }

    // A poisoned lock means a thread died while it held it, and then the process is ending.
    fn read(&self) -> RwLockReadGuard<'_, Nodes> {
        self.nodes.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Nodes> {
        self.nodes.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_key_counter_skips_keys_of_existing_nodes() {
        let nodes = DynamicNodes::default();
        let make = |space, random| nodes.create(SpaceKey(space), 0, [random; 16], AddressKind::Queue, 1000).0;
        let old = make(1, 1);
        nodes.write().next_key = DYNAMIC_KEYS.len() as u32 - 1;
        let (last, next) = (make(1, 2), make(2, 3));
        assert_eq!(
            [old.key, last.key, next.key].map(|key| key.0 - DYNAMIC_KEYS.start),
            [0, DYNAMIC_KEYS.len() as u32 - 1, 1]
        );
        nodes.remove(SpaceKey(1), &old.name);
        nodes.remove(SpaceKey(2), &next.name);
        let nodes = nodes.read();
        assert_eq!((nodes.keys.len(), nodes.by_name.len(), nodes.spaces.len()), (1, 1, 1));
    }
}
