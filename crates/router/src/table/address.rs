//! One declared address, as links see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use super::SpaceKey;
use super::storage::Storage;
use crate::core::{AddressKey, AddressKind, Declared};

/// A declared address. The same entry serves every table in which nothing of it changed.
#[derive(Debug)]
pub struct AddressEntry {
    /// stays for the same uid, never used again for another
    pub key: AddressKey,
    /// the space it belongs to
    pub space: SpaceKey,
    /// identity given by the control plane
    pub uid: Box<str>,
    /// the name that clients use
    pub name: Arc<str>,
    /// semantics
    pub kind: AddressKind,
    /// most credit a producer's link holds, in deliveries
    pub link_capacity: u32,
    /// largest message in bytes
    pub message_size: Option<u64>,
    /// how it stores, if it does
    pub storage: Option<Arc<Storage>>,
    /// the shard that decides for this address
    pub home: Home,
}

impl AddressEntry {
    /// The router's view of it.
    #[must_use]
    pub const fn declared(&self) -> Declared {
        Declared { key: self.key, kind: self.kind, link_capacity: self.link_capacity, space: self.space.0 }
    }

    /// Whether it also covers the names below it (`sensors` covers `sensors/7`) and may be received
    /// from with wildcards.
    #[must_use]
    pub fn covers_below(&self) -> bool {
        matches!(self.kind, AddressKind::Multicast | AddressKind::Topic | AddressKind::Stream)
    }

    /// An address that no plan declares: a dynamic node, which lives on shard `home`.
    #[must_use]
    pub fn dynamic(
        key: AddressKey,
        space: SpaceKey,
        name: &str,
        kind: AddressKind,
        link_capacity: u32,
        home: u16,
    ) -> Self {
        Self {
            key,
            space,
            uid: name.into(),
            name: name.into(),
            kind,
            link_capacity,
            message_size: None,
            storage: None,
            home: Home(Arc::new(AtomicU16::new(home))),
        }
    }

    /// Whether nothing but the home differs.
    pub(super) fn same_settings(&self, other: &Self) -> bool {
        self.link_capacity == other.link_capacity
            && self.message_size == other.message_size
            && self.storage == other.storage
    }
}

/// The shard that decides for an address: none at first, then permanently that of its first link.
/// Shared by all entries that ever stood for the address, so that a new table cannot give it a
/// second home.
#[derive(Clone, Debug)]
pub struct Home(Arc<AtomicU16>);

impl Home {
    const NOBODY: u16 = u16::MAX;

    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU16::new(Self::NOBODY)))
    }

    /// The shard, if there is one already.
    #[must_use]
    pub fn get(&self) -> Option<u16> {
        // Relaxed: the number carries no other memory with it; commands between shards travel in
        // their rings.
        Some(self.0.load(Ordering::Relaxed)).filter(|shard| *shard != Self::NOBODY)
    }

    /// Makes `shard` (below `u16::MAX`) the home if there is none; returns the home that holds from
    /// now on.
    #[must_use]
    pub fn claim(&self, shard: u16) -> u16 {
        match self.0.compare_exchange(Self::NOBODY, shard, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => shard,
            Err(earlier) => earlier,
        }
    }
}
