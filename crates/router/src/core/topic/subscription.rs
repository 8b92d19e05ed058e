//! Subscriptions of a topic: queues that store its messages.
//!
//! - declared ones: addresses of their own, `topic::name`
//! - durable ones that clients make: known by container and name, in the log, until closed
//! - others: in memory, as long as their links
//!
//! A subscription without room closes the credit of the topic's producers. A link-scoped
//! subscription has as much room as may wait for its consumers, [`BACKLOG_MESSAGES`] and
//! [`BACKLOG_BYTES`], or less; at twice as much, producers are not read. Producers wait for it only
//! for a short time: if its consumers take nothing for [`STALL_MS`], plus the same again for each
//! MiB of its average message, it is slow. A slow subscription misses the messages for which it has
//! no room, until it has caught up.

use std::collections::HashMap;
use std::sync::Arc;

use enmasse_amqp::types::{Error, condition};
use enmasse_journal::log::Refused;
use enmasse_journal::queue::{Full, Settings};

use super::super::arena::Key;
use super::super::consumer::Consumer;
use super::super::queue::{BackPressure, Lifetime, Subscription};
use super::super::storage::not_stored;
use super::super::{
    AddressKey, AddressKind, AddressStats, AttachmentId, BACKLOG_BYTES, BACKLOG_MESSAGES, Consuming, Declared,
    Destination, Filter, Links, Router, STALL_MS, Subscribing, SubscriptionName, ToLink,
};
use super::super::{OpenQueue, Queue};
use super::names::{SubscriptionNames, WaitingLink, ended};

/// Address keys of undeclared subscriptions. Declared addresses count up from 0, dynamic nodes down
/// from the top.
const KEYS: std::ops::Range<u32> = 0x8000_0000..0xC000_0000;

/// Message bytes for which a consumer gets [`STALL_MS`].
const STALL_LIMIT_BYTES: u64 = 1 << 20;

/// The undeclared subscriptions of a shard.
#[derive(Debug)]
pub(in crate::core) struct Subscriptions {
    /// named subscriptions
    pub(super) by_name: HashMap<SubscriptionName, Key>,
    /// the names of those of all shards
    pub(super) names: SubscriptionNames,
    /// links that wait for other homes
    pub(super) waiting: HashMap<AttachmentId, Box<WaitingLink>>,
    /// the address key of the next subscription, if it is free
    next_key: u32,
}

impl Default for Subscriptions {
    fn default() -> Self {
        let (names, waiting) = (SubscriptionNames::default(), HashMap::new());
        Self { by_name: HashMap::new(), names, waiting, next_key: KEYS.start }
    }
}

impl OpenQueue {
    /// The queue of a declared subscription; `topic` is `None` while it is missing.
    #[must_use]
    pub fn of_topic(mut self, topic: Option<AddressKey>) -> Self {
        self.subscription = Some(Subscription::new(topic, Lifetime::Declared, Subscribing::default(), None));
        self
    }

    /// The queue of a durable subscription that a client created.
    #[must_use]
    pub fn subscribed(mut self, topic: AddressKey, subscribing: Subscribing, filter: Option<Filter>) -> Self {
        self.subscription = Some(Subscription::new(Some(topic), Lifetime::Durable, subscribing, filter));
        self
    }
}

impl Queue {
    /// Whether it is the queue of an undeclared subscription.
    pub(in crate::core) fn is_undeclared(&self) -> bool {
        self.subscription.as_ref().is_some_and(|subscription| subscription.lifetime != Lifetime::Declared)
    }

    /// Whether it is the queue of a link-scoped subscription, which exists as long as its links.
    pub(in crate::core) fn is_link_scoped(&self) -> bool {
        self.subscription.as_ref().is_some_and(|subscription| subscription.lifetime == Lifetime::Links)
    }

    /// The topic that its messages come from.
    pub(in crate::core) fn topic(&self) -> Option<AddressKey> {
        self.subscription.as_ref()?.topic
    }

    /// Whether it misses messages: it is slow and has no room.
    pub(in crate::core) fn is_slow(&self) -> bool {
        let slow = self.subscription.as_ref().is_some_and(|subscription| subscription.back_pressure.slow);
        slow && self.has_waiting(1, 1)
    }

    /// Whether its waiting messages or their bytes reach `parts` / `whole` of its bounds. Messages
    /// that consumers hold are not counted, because credit bounds them.
    fn has_waiting(&self, parts: u64, whole: u64) -> bool {
        let (queue, limits) = (&self.opened.messages, &self.opened.messages.settings().limits);
        let waiting = queue.at_rest();
        let mean_bytes = self.mean_bytes();
        let reaches = |waiting: u64, bound: u64| waiting.saturating_mul(whole) >= bound.saturating_mul(parts);
        reaches(waiting, limits.messages) || reaches(waiting * mean_bytes, limits.bytes)
    }

    fn mean_bytes(&self) -> u64 {
        let queue = &self.opened.messages;
        queue.bytes().checked_div(queue.len() as u64).unwrap_or(0)
    }

    /// How long its consumers may take nothing before it is slow. Large messages get more time,
    /// because progress within a message is not visible.
    fn stall_limit_ms(&self) -> u64 {
        STALL_MS * (1 + self.mean_bytes() / STALL_LIMIT_BYTES)
    }

    /// Whether the producers of its topic may continue. `live`: it is link-scoped. `closed`: they
    /// could not before.
    fn admits_producers(&self, live: bool, closed: bool) -> bool {
        if !live || self.opened.messages.settings().full == Full::DropOldest {
            return self.open;
        }
        if closed { !self.has_waiting(3, 4) } else { !self.has_waiting(1, 1) }
    }

    /// The time of the next check whether its consumers take messages.
    pub(in crate::core) fn stall_timeout(&self) -> Option<u64> {
        let subscription =
            self.subscription.as_ref().filter(|subscription| subscription.lifetime == Lifetime::Links)?;
        subscription.back_pressure.blocks.then(|| subscription.back_pressure.since_ms + self.stall_limit_ms())
    }
}

/// The settings of an undeclared subscription.
fn settings_of(topic: &Settings, lifetime: Lifetime) -> Settings {
    let mut settings = topic.clone();
    settings.limits.consumers = u32::MAX;
    if lifetime == Lifetime::Links {
        settings.limits.messages = settings.limits.messages.min(BACKLOG_MESSAGES as u64);
        settings.limits.bytes = settings.limits.bytes.min(BACKLOG_BYTES as u64);
        if settings.full != Full::DropOldest {
            settings.full = Full::Block;
        }
    }
    settings
}

/// The name of an undeclared subscription in the origin of its messages.
fn full_name(topic: &str, name: Option<&SubscriptionName>) -> String {
    match name {
        Some(SubscriptionName { container: Some(container), name, .. }) => format!("{topic}::{container}/{name}"),
        Some(SubscriptionName { container: None, name, .. }) => format!("{topic}::{name}"),
        None => format!("{topic}::"),
    }
}

impl Router {
    /// Finds or creates the subscription of a link. The subscription filters messages, so its
    /// consumer needs no filter.
    pub(in crate::core) fn subscribe(
        &mut self,
        at: Key,
        filter: Option<Filter>,
        consuming: &mut Consuming,
        links: &mut impl Links,
    ) -> Result<Key, Error> {
        (consuming.browses, consuming.exclusive) = (false, false);
        let selector = consuming.selector.take();
        let no_local = consuming.no_local.take();
        let own = || Subscribing { selector, no_local, ..Subscribing::default() };
        let subscribing = consuming.subscribing.take().map_or_else(own, |subscribing| *subscribing);
        self.check_consumers(at)?;
        let known = subscribing.name.as_ref().and_then(|name| self.subscriptions.by_name.get(name).copied());
        if let Some(known) = known {
            if self.accepts_more(known, &subscribing)? {
                return Ok(known);
            }
            if self.addresses.subscription(known).is_none_or(|it| it.topic != Some(self.addresses[at].declared.key)) {
                self.check_subscriptions(at, &subscribing)?;
            }
            let key = self.addresses[known].declared.key;
            if let Some(name) = &subscribing.name {
                self.subscriptions.by_name.remove(name);
            }
            self.delete_address(key, &ended(), links);
        } else {
            self.check_subscriptions(at, &subscribing)?;
        }
        Ok(self.make_subscription(at, subscribing, filter, links))
    }

    /// Refuses a link beyond the bound of the topic, or if there is no topic any more.
    pub(super) fn check_consumers(&self, at: Key) -> Result<(), Error> {
        let Some(topic) = self.addresses.find_topic(at) else {
            return Err(Error::new(condition::NOT_FOUND, "the topic was deleted"));
        };
        let most = topic.settings().limits.consumers;
        if topic.consumers < most {
            return Ok(());
        }
        let what = format!("the topic has {most} consumers, its limit");
        Err(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what))
    }

    /// Refuses one more durable subscription beyond the bound of the topic.
    pub(super) fn check_subscriptions(&self, at: Key, requested: &Subscribing) -> Result<(), Error> {
        let topic = self.addresses.topic(at);
        let most = topic.settings().limits.subscriptions;
        if topic.durable < most || requested.name.as_ref().is_none_or(|name| !name.durable) {
            return Ok(());
        }
        let what = format!("the topic has {most} durable subscriptions, its limit: end an unused one");
        Err(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what))
    }

    /// The names of the durable subscriptions of a topic that lives here, and the keys of their
    /// queues.
    #[must_use]
    pub fn durable_subscriptions(&self, topic: AddressKey) -> Vec<(SubscriptionName, AddressKey)> {
        let found = self.by_key.get(&topic).and_then(|at| self.addresses.find_topic(*at));
        let subscriptions = found.into_iter().flat_map(|topic| &topic.subscriptions);
        let durable = subscriptions.filter(|key| self.lifetime_of(**key) == Some(Lifetime::Durable));
        let named = durable.filter_map(|key| {
            let name = self.addresses.subscription(*key)?.name.clone()?;
            Some((name, self.addresses[*key].declared.key))
        });
        named.collect()
    }

    fn lifetime_of(&self, at: Key) -> Option<Lifetime> {
        self.addresses.subscription(at).map(|subscription| subscription.lifetime)
    }

    /// Whether a link may attach to an existing subscription. `false`: it requests another one,
    /// which replaces the existing one and its messages. Names are free to choose, so only a user
    /// who may receive from the existing one may replace it.
    pub(super) fn accepts_more(&self, at: Key, requested: &Subscribing) -> Result<bool, Error> {
        let address = &self.addresses[at];
        let Some(subscription) = self.addresses.subscription(at) else {
            return Ok(false);
        };
        let name = subscription.name.as_ref().map_or("", |name| &name.name);
        let refuse = |condition, what: &str| Err(Error::new(condition, format!("subscription {name:?} {what}")));
        let is_same = subscription.description == requested.description;
        if requested.allowed.as_ref().is_some_and(|allowed| !allowed.matches(&subscription.wanted)) {
            let what = "belongs to an address that the user may not receive from: use another container id or name";
            return refuse(condition::UNAUTHORIZED_ACCESS, what);
        }
        match (address.consumers.is_empty(), subscription.shared, requested.shared) {
            (_, true, false) => refuse(condition::NOT_ALLOWED, "is shared: ask for the capability \"shared\""),
            (_, false, true) => refuse(condition::NOT_ALLOWED, "is not shared: omit the capability \"shared\""),
            (false, false, _) => refuse(condition::RESOURCE_LOCKED, "is in use: detach its consumer first"),
            (false, true, _) if !is_same => {
                refuse(condition::RESOURCE_LOCKED, "is in use with another topic, filter or selector")
            }
            _ => Ok(is_same),
        }
    }

    fn make_subscription(
        &mut self,
        at: Key,
        subscribing: Subscribing,
        filter: Option<Filter>,
        links: &mut impl Links,
    ) -> Key {
        let durable = subscribing.name.as_ref().is_some_and(|name| name.durable);
        let topic_key = self.addresses[at].declared.key;
        let topic = self.addresses.topic(at);
        let name: Arc<str> = full_name(&topic.opened.name, subscribing.name.as_ref()).into();
        let log = (durable && topic.opened.on_disk).then(|| self.queue_numbers.take());
        let lifetime = if durable { Lifetime::Durable } else { Lifetime::Links };
        let mut opened = OpenQueue::new(Arc::clone(&name), Settings::default(), log);
        let description = Arc::clone(&subscribing.description);
        let mut subscription = Subscription::new(Some(topic_key), lifetime, subscribing, filter);
        subscription.known = log.is_none();
        opened.subscription = Some(subscription);
        let made = self.open_subscription(at, opened, links);
        if let Some(log) = log {
            let uid = self.uid_of_subscription(log, &description);
            self.storage.journal.declare(made, log, &uid, &name, &description);
        }
        made
    }

    fn uid_of_subscription(&self, log: u32, description: &[u8]) -> [u8; 16] {
        self.storage.digests.long(&[&log.to_le_bytes(), description].concat()).to_be_bytes()
    }

    /// Declares a subscription within the part of a joint group that is being written, if its
    /// declaration is not on disk: the log may write the part before that, and the queue of a message
    /// must have a name after a crash.
    pub(in crate::core) fn declare_in_part(&mut self, at: Key) {
        let Some(queue) = self.addresses.find_queue(at) else { return };
        let unknown = queue.subscription.as_ref().filter(|subscription| !subscription.known);
        let Some((log, subscription)) = queue.opened.log.zip(unknown) else { return };
        let (name, description) = (Arc::clone(&queue.opened.name), Arc::clone(&subscription.description));
        let uid = self.uid_of_subscription(log, &description);
        self.storage.journal.declare_in_part(log, &uid, &name, &description);
    }

    /// Opens an undeclared subscription of a topic.
    pub(in crate::core) fn open_subscription(&mut self, topic: Key, opened: OpenQueue, links: &mut impl Links) -> Key {
        let number = self.subscription_number();
        let Declared { link_capacity, space, .. } = self.addresses[topic].declared;
        let declared = Declared { key: AddressKey(number), kind: AddressKind::Queue, link_capacity, space };
        let name = opened.subscription.as_ref().and_then(|subscription| subscription.name.clone());
        let lifetime = opened.subscription.as_ref().map_or(Lifetime::Links, |subscription| subscription.lifetime);
        let (settings, dead_letter, expiry) = self.undeclared_settings(topic, lifetime);
        self.open_queue(declared, opened.with_settings(settings).with_targets(dead_letter, expiry), links);
        let at = self.by_key[&declared.key];
        if let Some(name) = name {
            let claimed = self.subscriptions.names.claim(&name, self.shard);
            debug_assert_eq!(claimed, Ok(()), "no two subscriptions have the same name");
            self.subscriptions.by_name.insert(name, at);
        }
        at
    }

    /// The next free key. The counter may wrap around to keys of durable subscriptions.
    fn subscription_number(&mut self) -> u32 {
        loop {
            let number = self.subscriptions.next_key;
            self.subscriptions.next_key = if number + 1 == KEYS.end { KEYS.start } else { number + 1 };
            if !self.by_key.contains_key(&AddressKey(number)) {
                return number;
            }
        }
    }

    fn undeclared_settings(
        &self,
        topic: Key,
        lifetime: Lifetime,
    ) -> (Settings, Option<Destination>, Option<Destination>) {
        let topic = self.addresses.topic(topic);
        (settings_of(&topic.opened.settings, lifetime), topic.opened.dead_letter, topic.opened.expiry)
    }

    /// Applies changed settings of a topic to its undeclared subscriptions.
    pub(in crate::core) fn reconfigure_subscriptions(&mut self, topic: Key, links: &mut impl Links) {
        for at in self.addresses.topic(topic).subscriptions.clone() {
            let (key, lifetime) = (self.addresses[at].declared.key, self.lifetime_of(at));
            if let Some(lifetime) = lifetime.filter(|lifetime| *lifetime != Lifetime::Declared) {
                let (settings, dead_letter, expiry) = self.undeclared_settings(topic, lifetime);
                self.reconfigure_queue(key, settings, dead_letter, expiry, None, links);
            }
        }
    }

    /// Moves a declared subscription to another topic; `None`: its topic is missing.
    pub fn move_subscription(&mut self, key: AddressKey, topic: Option<AddressKey>, links: &mut impl Links) {
        // It is not open yet, and joins its topic then.
        let Some(at) = self.by_key.get(&key).copied() else { return };
        self.leave_topic(at, links);
        if let Some(subscription) = self.addresses.subscription_mut(at) {
            subscription.topic = topic;
        }
        self.join_topic(at, links);
    }

    pub(super) fn topic_of(&self, at: Key) -> Option<Key> {
        let topic = self.addresses.subscription(at)?.topic?;
        let topic = self.by_key.get(&topic).copied()?;
        self.addresses.find_topic(topic).map(|_| topic)
    }

    /// Adds a subscription to its topic.
    pub(in crate::core) fn join_topic(&mut self, at: Key, links: &mut impl Links) {
        // It is no subscription, or its topic is missing.
        let Some(topic) = self.topic_of(at) else { return };
        let address = &mut self.addresses[topic];
        address.epoch = address.epoch.wrapping_add(1);
        let filter = self.addresses.subscription(at).and_then(|subscription| subscription.filter.clone());
        let is_durable = self.lifetime_of(at) == Some(Lifetime::Durable);
        let topic = self.addresses.topic_mut(topic);
        topic.subscriptions.insert(at);
        topic.filters.insert(filter.as_ref().and_then(Filter::text), at);
        topic.durable += u32::from(is_durable);
        self.count_consumers(at, self.addresses[at].consumers.len() as i32);
        self.update_topic_back_pressure(at, links);
    }

    /// Removes a subscription from its topic.
    fn leave_topic(&mut self, at: Key, links: &mut impl Links) {
        // It is no subscription, or its topic is missing.
        let Some(topic) = self.topic_of(at) else { return };
        if let Some(subscription) = self.addresses.subscription_mut(at) {
            let before = std::mem::take(&mut subscription.back_pressure);
            self.propagate_back_pressure(topic, before, BackPressure::default(), links);
        }
        let address = &mut self.addresses[topic];
        address.epoch = address.epoch.wrapping_add(1);
        self.count_consumers(at, -(self.addresses[at].consumers.len() as i32));
        let is_durable = self.lifetime_of(at) == Some(Lifetime::Durable);
        let filter = self.addresses.subscription(at).and_then(|subscription| subscription.filter.clone());
        let topic = self.addresses.topic_mut(topic);
        if topic.subscriptions.remove(&at) {
            topic.filters.remove(filter.as_ref().and_then(Filter::text), at);
            topic.durable -= u32::from(is_durable);
        }
    }

    /// The number of consumers of a subscription changes.
    pub(in crate::core) fn count_consumers(&mut self, at: Key, change: i32) {
        if self.lifetime_of(at).is_none_or(|lifetime| lifetime == Lifetime::Declared) {
            return;
        }
        if let Some(topic) = self.topic_of(at) {
            let topic = self.addresses.topic_mut(topic);
            topic.consumers = topic.consumers.wrapping_add_signed(change);
        }
    }

    /// Ends the relations of a deleted address to its topic and its subscriptions. Declared
    /// subscriptions outlive their topic.
    pub(in crate::core) fn end_subscriptions(&mut self, at: Key, error: &Error, links: &mut impl Links) {
        if self.addresses.find_topic(at).is_some() {
            return self.end_topic(at, error, links);
        }
        let topic = self.topic_of(at);
        self.leave_topic(at, links);
        let stats = self.stats_of(at);
        // The rest concerns subscriptions that end with their topic.
        let Some(queue) = self.addresses.find_queue(at).filter(|queue| queue.is_undeclared()) else { return };
        let past = queue.opened.messages.stats().past();
        if let Some(name) = queue.subscription.as_ref().and_then(|subscription| subscription.name.as_ref()) {
            // If it was replaced, the name belongs to the new subscription.
            if self.subscriptions.by_name.get(name) == Some(&at) {
                self.subscriptions.by_name.remove(name);
                self.subscriptions.names.release(name, self.shard);
            }
        }
        if let Some(topic) = topic {
            self.addresses[topic].stats.join(&AddressStats { consumers: 0, waiting: 0, ..stats });
            self.addresses.topic_mut(topic).past.join(&past);
        }
    }

    /// Deletes the undeclared subscriptions of a deleted topic.
    fn end_topic(&mut self, at: Key, error: &Error, links: &mut impl Links) {
        // The caller has found a topic.
        let Some(topic) = self.addresses[at].close_topic() else { return };
        for subscription in topic.subscriptions {
            let key = self.addresses[subscription].declared.key;
            match self.addresses.subscription_mut(subscription) {
                Some(it) if it.lifetime == Lifetime::Declared => it.back_pressure = BackPressure::default(),
                _ => self.delete_address(key, error, links),
            }
        }
    }

    /// Ends a link-scoped subscription after its last link. `closed`: the client closed the link,
    /// which also ends a durable subscription.
    pub(in crate::core) fn end_link_scoped(&mut self, at: Key, closed: bool, links: &mut impl Links) {
        // It ended with its consumer, or others are left.
        let Some(address) = self.addresses.get(at).filter(|address| address.consumers.is_empty()) else { return };
        let lifetime = self.lifetime_of(at);
        if lifetime == Some(Lifetime::Links) || closed && lifetime == Some(Lifetime::Durable) {
            let key = address.declared.key;
            self.delete_address(key, &ended(), links);
        }
    }

    /// Attaches a link to the durable subscription that has one of these names, without naming a
    /// topic. [`ToLink::Recalled`] passes it the description of the subscription.
    pub fn recall(&mut self, attachment: AttachmentId, names: &[SubscriptionName], links: &mut impl Links) {
        if let Some(before) = self.attachments.occupant(attachment) {
            self.detach(before, links);
        }
        let Some(at) = names.iter().find_map(|name| self.subscriptions.by_name.get(name).copied()) else {
            let answer = Err(self.not_recalled(names));
            return links.send(ToLink::Attached { attachment, answer });
        };
        let address = &self.addresses[at];
        if !address.consumers.is_empty() {
            let what = "the subscription is in use: detach its consumers first";
            return links
                .send(ToLink::Attached { attachment, answer: Err(Error::new(condition::RESOURCE_LOCKED, what)) });
        }
        if let Some(subscription) = self.addresses.subscription(at) {
            links.send(ToLink::Recalled { attachment, description: &subscription.description });
        }
        let consumer = Consumer { recalls: true, ..Consumer::new(attachment, at, 0, None) };
        self.attach_consumer(at, consumer, Consuming::default(), links);
    }

    /// The error for a link without a source whose subscription is not here.
    fn not_recalled(&self, names: &[SubscriptionName]) -> Error {
        if names.iter().any(|name| self.subscriptions.names.home_of(name).is_some()) {
            // It had this home when the link looked it up.
            let what = "another link has just replaced the subscription: attach again";
            return Error::new(condition::RESOURCE_LOCKED, what);
        }
        Error::new(condition::NOT_FOUND, "attach.source is null and there is no subscription of that name")
    }

    /// Answers a link once its subscription is declared in the log.
    pub(in crate::core) fn answer_subscriber(&mut self, at: Key, attachment: AttachmentId, links: &mut impl Links) {
        match self.addresses.subscription_mut(at).filter(|subscription| !subscription.known) {
            Some(subscription) => subscription.waiting.push(attachment),
            None => links.send(ToLink::Attached { attachment, answer: Ok(Vec::new()) }),
        }
    }

    /// Processes the result of the declaration of a subscription in the log.
    pub(in crate::core) fn subscription_declared(
        &mut self,
        at: Key,
        refused: Option<&Refused>,
        links: &mut impl Links,
    ) {
        // The subscription was deleted in the meantime, with its links.
        let Some(subscription) = self.addresses.subscription_mut(at) else { return };
        subscription.known = true;
        let waiting = std::mem::take(&mut subscription.waiting);
        let waiting = waiting.into_iter().filter(|attachment| self.attachments.consumer(*attachment).is_some());
        let waiting: Vec<AttachmentId> = waiting.collect();
        let Some(refused) = refused else {
            return waiting
                .into_iter()
                .for_each(|attachment| links.send(ToLink::Attached { attachment, answer: Ok(Vec::new()) }));
        };
        let error = not_stored("the subscription", refused);
        for attachment in waiting {
            self.detach(attachment, links);
            links.send(ToLink::Attached { attachment, answer: Err(error.clone()) });
        }
        let key = self.addresses[at].declared.key;
        self.delete_address(key, &error, links);
    }

    /// Updates the back-pressure of a subscription whose room may have changed, and notifies the
    /// producers of its topic.
    pub(in crate::core) fn update_topic_back_pressure(&mut self, at: Key, links: &mut impl Links) {
        // It is no subscription, or its topic is missing.
        let Some(topic) = self.topic_of(at) else { return };
        let now_ms = self.now_ms;
        let taken = self.addresses[at].stats.delivered;
        let queue = self.addresses.queue_mut(at);
        let Some(subscription) = queue.subscription.as_ref() else { return };
        let (before, live) = (subscription.back_pressure, subscription.lifetime == Lifetime::Links);
        let open = queue.admits_producers(live, before.blocks || before.slow);
        let mut now = before;
        now.slow &= !open;
        if open || taken != before.taken || !before.blocks && !before.slow {
            (now.since_ms, now.taken) = (now_ms, taken);
        } else if live && now_ms >= before.since_ms + queue.stall_limit_ms() {
            now.slow = true;
        }
        now.blocks = !open && !now.slow;
        now.holds = live && now.blocks && queue.has_waiting(if before.holds { 1 } else { 2 }, 1);
        if let Some(subscription) = queue.subscription.as_mut() {
            subscription.back_pressure = now;
        }
        self.propagate_back_pressure(topic, before, now, links);
    }

    fn propagate_back_pressure(&mut self, at: Key, before: BackPressure, now: BackPressure, links: &mut impl Links) {
        let change = |before: bool, now: bool| i32::from(now) - i32::from(before);
        let topic = self.addresses.topic_mut(at);
        let (was_open, was_held) = (topic.is_open(), topic.is_held());
        topic.blocked = topic.blocked.wrapping_add_signed(change(before.blocks, now.blocks));
        topic.held = topic.held.wrapping_add_signed(change(before.holds, now.holds));
        let (open, held) = (topic.is_open(), topic.is_held());
        if (open, held) == (was_open, was_held) {
            return;
        }
        if held != was_held {
            for key in self.addresses[at].producers.clone() {
                self.update_producer_back_pressure(key, self.producers[key].waiting_bytes, links);
            }
        }
        if open != was_open {
            self.update_producer_credit(at, open, links);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_in_use_is_not_assigned_to_another_subscription() {
        let mut router = Router::new(0, 1);
        for number in [KEYS.end - 1, KEYS.start, KEYS.start + 1] {
            let key = AddressKey(number);
            router.address(Declared { key, kind: AddressKind::Queue, link_capacity: 1, space: 1 });
        }
        router.subscriptions.next_key = KEYS.end - 2;
        assert_eq!([router.subscription_number(), router.subscription_number()], [KEYS.end - 2, KEYS.start + 2]);
    }
}
