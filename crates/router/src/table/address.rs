//! One declared address.

use std::sync::Arc;

use super::SpaceKey;
use super::home::Home;
use super::pattern::is_wildcard;
use super::storage::Storage;
use crate::core::{AddressKey, AddressKind, Declared};
use crate::plan::Protocol;

/// Bytes of the name of a declared address.
const NAME_BYTES: std::ops::RangeInclusive<usize> = 1..=1_024;

/// A declared address. Successive tables share its entry while it does not change.
#[derive(Debug)]
pub struct AddressEntry {
    /// the same for the same uid; never reused
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
    /// its storage, if it is a stored address
    pub storage: Option<Arc<Storage>>,
    /// the protocols whose clients may use it; `None`: all
    pub protocols: Option<Box<[Protocol]>>,
    /// the shard that makes its decisions
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

    /// Whether clients of a protocol may use it.
    #[must_use]
    pub fn serves(&self, protocol: Protocol) -> bool {
        self.protocols.as_ref().is_none_or(|served| served.contains(&protocol))
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
            protocols: None,
            home: Home::permanent(home),
        }
    }

    /// Whether nothing but the home differs.
    pub(super) fn same_settings(&self, other: &Self) -> bool {
        self.link_capacity == other.link_capacity
            && self.message_size == other.message_size
            && self.storage == other.storage
            && self.protocols == other.protocols
    }
}

/// Checks the name of a declared address; returns an error that names the fault.
pub(super) fn check_name(name: &str) -> Result<(), &'static str> {
    if !NAME_BYTES.contains(&name.len()) {
        return Err("is not 1 to 1,024 bytes long");
    }
    if name != "#" && (is_wildcard(name) || name.contains('*')) {
        return Err("contains a wildcard; only the name # alone, the open name space, may");
    }
    // Many JMS names contain spaces. Invisible characters, and those that look like a space, are
    // refused.
    let unseen = |c: char| c != ' ' && (c.is_whitespace() || c.is_control());
    if name.starts_with("_!") || name.trim() != name || name.contains(unseen) {
        return Err("begins with _!, begins or ends with a space, or contains other white space or control characters");
    }
    Ok(())
}
