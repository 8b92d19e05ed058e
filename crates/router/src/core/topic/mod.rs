//! Topics: every matching subscription stores a message, which is kept at most once on disk and
//! once in memory for all of them.
//!
//! A subscription is a queue (`subscription`). A producer is answered when the subscriptions on
//! disk have stored the message; it is accepted at once if all are in memory, or none matches. If
//! one subscription refuses the message (`onFull: reject`), none stores it (`posting`). A topic and its
//! subscriptions have one home; the names of the subscriptions of all homes are in one directory
//! (`names`).

mod filter_tree;
mod names;
mod passing;
mod posting;
mod retained;
mod subscription;

use std::collections::BTreeSet;
use std::sync::Arc;

use enmasse_journal::queue::{Full, QueueStats, Settings};

use super::OpenQueue;
use super::arena::Key;
use super::queue::temporary_settings;
use super::{AddressKey, AddressStats, Declared, Destination, Links, Router};

use filter_tree::FilterTree;
pub use names::SubscriptionNames;
pub(super) use subscription::Subscriptions;

/// The state of a topic in addition to that of every address.
#[derive(Debug)]
pub struct OpenTopic {
    /// the name that clients use
    pub(in crate::core) name: Arc<str>,
    /// the settings of its undeclared subscriptions
    pub(in crate::core) settings: Settings,
    /// its durable subscriptions are on disk
    pub(in crate::core) on_disk: bool,
    /// the dead-letter address of their messages
    pub(in crate::core) dead_letter: Option<Destination>,
    /// the address for their expired messages
    pub(in crate::core) expiry: Option<Destination>,
    /// the queue of retained messages of its address space
    pub(in crate::core) retained: Option<Destination>,
    /// subscriptions recovered from the log
    known: Vec<OpenQueue>,
}

impl OpenTopic {
    /// A topic without subscriptions.
    #[must_use]
    pub fn new(name: Arc<str>, settings: Settings, on_disk: bool) -> Self {
        Self { name, settings, on_disk, dead_letter: None, expiry: None, retained: None, known: Vec::new() }
    }

    /// Sets the dead-letter and expiry addresses.
    #[must_use]
    pub fn with_targets(mut self, dead_letter: Option<Destination>, expiry: Option<Destination>) -> Self {
        (self.dead_letter, self.expiry) = (dead_letter, expiry);
        self
    }

    /// Sets the queue that keeps the retained messages of the address space; `None`: a message is
    /// not retained.
    #[must_use]
    pub fn with_retained(mut self, retained: Option<Destination>) -> Self {
        self.retained = retained;
        self
    }

    /// Adds subscriptions recovered from the log: [`OpenQueue::subscribed`].
    #[must_use]
    pub fn with_known(mut self, known: Vec<OpenQueue>) -> Self {
        self.known = known;
        self
    }

    /// The recovered subscriptions, by their numbers in the log.
    #[cfg(test)]
    pub(crate) fn known_logs(&self) -> Vec<u32> {
        self.known.iter().filter_map(|known| known.opened.log).collect()
    }
}

/// The state of a topic.
#[derive(Debug)]
pub(in crate::core) struct Topic {
    pub(in crate::core) opened: OpenTopic,
    /// addresses of its subscriptions
    pub(in crate::core) subscriptions: BTreeSet<Key>,
    /// the same by their filters
    filters: FilterTree,
    /// number of consumers of its undeclared subscriptions
    consumers: u32,
    /// number of its durable undeclared subscriptions
    durable: u32,
    /// number of subscriptions without room: producers get no credit while there are any
    pub(in crate::core) blocked: u32,
    /// number of subscriptions far beyond their bound: producers are not read while there are any
    pub(in crate::core) held: u32,
    /// the counters of deleted undeclared subscriptions
    pub(in crate::core) past: QueueStats,
}

impl Topic {
    pub(in crate::core) fn is_open(&self) -> bool {
        self.blocked == 0
    }

    pub(in crate::core) fn is_held(&self) -> bool {
        self.held > 0
    }

    pub(in crate::core) fn has_subscriptions(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    pub(in crate::core) fn is_on_disk(&self) -> bool {
        self.opened.on_disk
    }

    pub(in crate::core) fn settings(&self) -> &Settings {
        &self.opened.settings
    }
}

impl Router {
    /// Opens a topic on this shard, or changes its settings.
    pub fn open_topic(&mut self, declared: Declared, mut opened: OpenTopic, links: &mut impl Links) {
        let at = self.address(declared);
        let known = std::mem::take(&mut opened.known);
        if let Some(topic) = self.addresses.find_topic_mut(at) {
            topic.opened = opened;
            return self.reconfigure_subscriptions(at, links);
        }
        let topic = Topic {
            opened,
            subscriptions: BTreeSet::new(),
            filters: FilterTree::default(),
            consumers: 0,
            durable: 0,
            blocked: 0,
            held: 0,
            past: QueueStats::default(),
        };
        self.addresses[at].open_topic(topic);
        let waits = |key: &Key| {
            let subscription = self.addresses.subscription(*key);
            subscription.is_some_and(|subscription| subscription.topic == Some(declared.key))
        };
        let waiting: Vec<Key> = self.addresses.iter().map(|(key, _)| key).filter(waits).collect();
        waiting.into_iter().for_each(|subscription| self.join_topic(subscription, links));
        for opened in known {
            self.open_subscription(at, opened, links);
        }
    }

    /// The statistics of all declared addresses; those of a topic include its undeclared
    /// subscriptions.
    pub(in crate::core) fn sum<T>(
        &self,
        of: impl Fn(Key) -> T,
        mut join: impl FnMut(&mut T, &T),
    ) -> Vec<(AddressKey, T)> {
        let declared = self.addresses.iter().filter(|(_, address)| !address.treatment.is_undeclared());
        let stats = declared.map(|(key, address)| (address.declared.key, self.with_subscriptions(key, &of, &mut join)));
        stats.collect()
    }

    /// The statistics of an address; those of a topic include its undeclared subscriptions.
    pub(in crate::core) fn with_subscriptions<T>(
        &self,
        at: Key,
        of: impl Fn(Key) -> T,
        mut join: impl FnMut(&mut T, &T),
    ) -> T {
        let mut sum = of(at);
        let subscriptions = self.addresses.find_topic(at).into_iter().flat_map(|topic| &topic.subscriptions);
        let mine = subscriptions.filter(|key| self.addresses[**key].treatment.is_undeclared());
        mine.for_each(|key| join(&mut sum, &of(*key)));
        sum
    }
}

impl AddressStats {
    /// Adds the statistics of a subscription of the address.
    pub(in crate::core) fn join(&mut self, other: &Self) {
        self.consumers += other.consumers;
        self.waiting += other.waiting;
        self.delivered += other.delivered;
        self.bytes += other.bytes;
        self.dropped += other.dropped;
        self.damaged += other.damaged;
    }
}

impl OpenTopic {
    /// A temporary topic. Its subscriptions live with their links; each holds as much as a
    /// temporary queue.
    #[must_use]
    pub fn temporary(name: Arc<str>, message_bytes: u32) -> Self {
        Self::new(name, Settings { full: Full::Block, ..temporary_settings(message_bytes) }, false)
    }
}
