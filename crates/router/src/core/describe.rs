//! The description of an address that clients can read (`docs/contracts.md` 9).

use enmasse_amqp::types::Value;
use enmasse_journal::queue::QueueStats;

use super::arena::Key;
use super::{AddressKey, AddressStats, Router};

/// The current state of an address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddressDescription {
    /// all its messages, acquired ones included; those of a topic are those of its undeclared
    /// subscriptions
    pub depth: u64,
    /// links that receive from it
    pub consumers: u32,
    /// links that send to it
    pub producers: u32,
    /// of a stream: `[{partition, first, next}]`
    pub partitions: Option<Value>,
}

impl Router {
    /// The description of an address; `None` if it does not live here.
    #[must_use]
    pub fn describe(&self, key: AddressKey) -> Option<AddressDescription> {
        let at = *self.by_key.get(&key)?;
        let stats = self.with_subscriptions(at, |key| self.stats_of(key), AddressStats::join);
        Some(AddressDescription {
            depth: self.with_subscriptions(at, |key| self.depth_of(key), |sum, more| *sum += more),
            consumers: stats.consumers,
            producers: stats.producers,
            partitions: self.addresses[at].treatment.partitions(),
        })
    }

    fn depth_of(&self, at: Key) -> u64 {
        let all = |it: QueueStats| it.ready + it.scheduled + it.acquired + it.leaving + it.uncommitted;
        self.addresses[at].treatment.stored_stats().map_or_else(|| self.stats_of(at).waiting, all)
    }
}
