//! The differences between two tables.

use std::collections::HashMap;
use std::sync::Arc;

use super::{AddressEntry, AddressKey, Space, SpaceKey, Table};

/// The changes between two tables, in the order of keys.
#[derive(Debug, Default)]
pub struct Diff {
    /// addresses of the new table only
    pub added: Vec<Arc<AddressEntry>>,
    /// addresses of the old table only: their links are closed with `amqp:resource-deleted`
    pub removed: Vec<Arc<AddressEntry>>,
    /// addresses of both with other settings, as the new table has them
    pub changed: Vec<Arc<AddressEntry>>,
    /// spaces of the old table only: their connections are closed
    pub spaces_removed: Vec<SpaceKey>,
}

impl Table {
    /// The differences between this table and the one that follows it.
    #[must_use]
    pub fn diff(&self, next: &Self) -> Diff {
        let (old, new) = (self.by_key(), next.by_key());
        let mut diff = Diff::default();
        for (key, entry) in &new {
            match old.get(key) {
                None => diff.added.push(Arc::clone(entry)),
                Some(before) if !before.same_settings(entry) => diff.changed.push(Arc::clone(entry)),
                Some(_) => {}
            }
        }
        let gone = old.iter().filter(|(key, _)| !new.contains_key(key));
        diff.removed = gone.map(|(_, entry)| Arc::clone(entry)).collect();
        diff.spaces_removed = self.spaces.keys().filter(|key| !next.spaces.contains_key(key)).copied().collect();
        for list in [&mut diff.added, &mut diff.removed, &mut diff.changed] {
            list.sort_by_key(|entry| entry.key);
        }
        diff.spaces_removed.sort();
        diff
    }

    fn by_key(&self) -> HashMap<AddressKey, &Arc<AddressEntry>> {
        self.spaces.values().flat_map(Space::all_addresses).map(|entry| (entry.key, entry)).collect()
    }
}
