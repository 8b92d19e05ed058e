//! Subscriptions of a topic: queues that messages come into from there.
//!
//! - declared ones: addresses of their own, `topic::name`
//! - durable ones that clients make: known by container and name, in the log, until closed
//! - others: in memory, as long as their links
//!
//! A subscription without room keeps the topic's producers from sending. One that lives with its
//! links has as much room as may wait for its consumers: [`BACKLOG_MESSAGES`] and
//! [`BACKLOG_BYTES`], or less; at twice as much producers are not read. Producers wait for it only
//! for a short time: when its consumers have taken nothing for [`STALL_MS`], and as long again for
//! each MiB of its average message, it counts as slow, and misses messages for which it has no room
//! until it has caught up.

use std::collections::HashMap;
use std::sync::Arc;

use enmasse_amqp::selector::Selector;
use enmasse_amqp::types::{Error, condition};
use enmasse_journal::log::Refused;
use enmasse_journal::queue::{Full, Settings};

use super::super::address::{Address, Consumer};
use super::super::arena::{Arena, Key};
use super::super::storage::not_stored;
use super::super::treatment::Treatment;
use super::super::{
    AddressKey, AddressKind, AddressStats, AttachmentId, BACKLOG_BYTES, BACKLOG_MESSAGES, Consuming, Declared, Filter,
    Links, NoLocal, Origin, Router, STALL_MS,
};
use super::super::{OpenQueue, Queue};

/// Durable subscriptions that clients may have made of one topic: a message for all of them is
/// written once, but with a target for each.
const DURABLE_MAX: usize = 10_000;

/// Keys of addresses of subscriptions that are not declared: declared addresses count up from 0,
/// dynamic nodes down from the top.
const KEYS: std::ops::Range<u32> = 0x8000_0000..0xC000_0000;

/// Bytes of a message that a consumer may be [`STALL_MS`] about.
const PATIENCE_BYTES: u64 = 1 << 20;

/// Which subscription of a topic a link requests, of those that are not declared.
#[derive(Clone, Debug, Default)]
pub struct Subscribing {
    /// its name; `None`: it is the link's own
    pub name: Option<SubscriptionName>,
    /// other links may be there, too
    pub shared: bool,
    /// which messages come into it; `None` is all
    pub selector: Option<Arc<Selector>>,
    /// whose messages are excluded
    pub no_local: Option<NoLocal>,
    /// the name of the topic, below it, or with wildcards, that it is of
    pub wanted: Arc<str>,
    /// the names that the client may receive from; `None` is all
    pub allowed: Option<Filter>,
    /// the description that identifies it, as requested: a link with another description under the
    /// same name requests another subscription. A durable one has it after a restart
    pub description: Arc<[u8]>,
}

/// The name of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SubscriptionName {
    /// the address space
    pub space: u32,
    /// the container that owns it; `None`: shared by all
    pub container: Option<Arc<str>>,
    /// the name that clients use
    pub name: Arc<str>,
    /// it outlives its links
    pub durable: bool,
}

/// Subscriptions of a shard that are not declared.
#[derive(Debug)]
pub(in crate::core) struct Subscriptions {
    /// those that clients know by a name
    by_name: HashMap<SubscriptionName, Key>,
    /// the key of the address of the next one
    next_key: u32,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self { by_name: HashMap::new(), next_key: KEYS.start }
    }
}

/// How long a subscription is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// as long as it is declared
    Declared,
    /// until a link to it is closed
    Durable,
    /// as long as its links
    Links,
}

/// The state of a subscription's queue in addition to that of every queue.
#[derive(Debug)]
pub(in crate::core) struct Subscription {
    /// where its messages come from; `None`: the topic is missing
    pub(in crate::core) topic: Option<AddressKey>,
    life: Life,
    name: Option<SubscriptionName>,
    shared: bool,
    wanted: Arc<str>,
    /// the names it wants; `None` is all
    pub(in crate::core) filter: Option<Filter>,
    pub(in crate::core) selector: Option<Arc<Selector>>,
    no_local: Option<NoLocal>,
    description: Arc<[u8]>,
    /// the log knows it, or need not
    known: bool,
    /// links to be answered when the log knows it
    waiting: Vec<AttachmentId>,
    back_pressure: BackPressure,
}

/// The effect of a subscription on the producers of its topic.
#[derive(Clone, Copy, Debug, Default)]
struct BackPressure {
    blocks: bool,
    holds: bool,
    /// it is not waited for
    slow: bool,
    /// since when its consumers have taken nothing while it has no room, milliseconds since 1970
    since_ms: u64,
    /// messages they had taken by then
    taken: u64,
}

impl Subscription {
    fn new(topic: Option<AddressKey>, life: Life, subscribing: Subscribing, filter: Option<Filter>) -> Box<Self> {
        let Subscribing { name, shared, selector, no_local, wanted, description, .. } = subscribing;
        let (known, waiting, back_pressure) = (true, Vec::new(), BackPressure::default());
        Box::new(Self {
            topic,
            life,
            name,
            shared,
            wanted,
            filter,
            selector,
            no_local,
            description,
            known,
            waiting,
            back_pressure,
        })
    }

    /// Whether it may match messages sent to `name` from `origin`.
    pub(in crate::core) fn wants_from(&self, name: Option<&str>, origin: Option<&Origin>) -> bool {
        let named = self.filter.as_ref().is_none_or(|filter| name.is_some_and(|name| filter.matches(name)));
        named && self.no_local.as_ref().zip(origin).is_none_or(|(own, origin)| !own.covers(origin))
    }
}

impl Arena<Address> {
    /// The subscription of a queue that belongs to a topic.
    pub(in crate::core) fn subscription(&self, at: Key) -> Option<&Subscription> {
        self.find_queue(at)?.subscription.as_deref()
    }

    pub(in crate::core) fn subscription_mut(&mut self, at: Key) -> Option<&mut Subscription> {
        self.find_queue_mut(at)?.subscription.as_deref_mut()
    }
}

impl OpenQueue {
    /// The queue of a declared subscription; `topic` is `None` while it is missing.
    #[must_use]
    pub fn of_topic(mut self, topic: Option<AddressKey>) -> Self {
        self.subscription = Some(Subscription::new(topic, Life::Declared, Subscribing::default(), None));
        self
    }

    /// The queue of a durable subscription that clients have made.
    #[must_use]
    pub fn subscribed(mut self, topic: AddressKey, subscribing: Subscribing, filter: Option<Filter>) -> Self {
        self.subscription = Some(Subscription::new(Some(topic), Life::Durable, subscribing, filter));
        self
    }
}

impl Queue {
    /// It is the queue of a subscription that is not declared.
    pub(in crate::core) fn is_undeclared(&self) -> bool {
        self.subscription.as_ref().is_some_and(|subscription| subscription.life != Life::Declared)
    }

    /// It is the queue of a subscription that exists as long as its links.
    pub(in crate::core) fn is_link_scoped(&self) -> bool {
        self.subscription.as_ref().is_some_and(|subscription| subscription.life == Life::Links)
    }

    /// The topic that its messages come from.
    pub(in crate::core) fn topic(&self) -> Option<AddressKey> {
        self.subscription.as_ref()?.topic
    }

    /// It misses messages from now on.
    pub(in crate::core) fn is_slow(&self) -> bool {
        let slow = self.subscription.as_ref().is_some_and(|subscription| subscription.back_pressure.slow);
        slow && self.has_waiting(1, 1)
    }

    /// `parts` in `whole` of its bounds wait, in messages or in bytes; messages held by consumers
    /// are bounded by their credit.
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

    /// How long its consumers may take nothing before it counts as slow: progress within a large
    /// message is not visible before all of it has gone.
    fn patience_ms(&self) -> u64 {
        STALL_MS * (1 + self.mean_bytes() / PATIENCE_BYTES)
    }

    /// Whether it lets its topic's producers continue; `closed`: it did not before.
    fn admits_producers(&self, live: bool, closed: bool) -> bool {
        if !live || self.opened.messages.settings().full == Full::DropOldest {
            return self.open;
        }
        if closed { !self.has_waiting(3, 4) } else { !self.has_waiting(1, 1) }
    }

    /// When to check whether its consumers take messages.
    pub(in crate::core) fn stall_timeout(&self) -> Option<u64> {
        let subscription = self.subscription.as_ref().filter(|subscription| subscription.life == Life::Links)?;
        subscription.back_pressure.blocks.then(|| subscription.back_pressure.since_ms + self.patience_ms())
    }
}

/// The settings of an undeclared subscription.
fn settings_of(topic: &Settings, life: Life) -> Settings {
    let mut settings = topic.clone();
    settings.limits.consumers = u32::MAX;
    if life == Life::Links {
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

/// Why links at a subscription that is no more are closed.
fn ended() -> Error {
    Error::new(condition::RESOURCE_DELETED, "the subscription has ended")
}

impl Router {
    /// A link subscribes: finds its subscription, or makes it. The consumer takes its messages
    /// unfiltered.
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
        let Some(topic) = self.addresses.find_topic(at) else {
            return Err(Error::new(condition::NOT_FOUND, "the topic was deleted"));
        };
        let most = topic.settings().limits.consumers;
        let subscriptions = topic.subscriptions.iter().map(|key| &self.addresses[*key]);
        let mine = subscriptions.filter(|address| address.treatment.is_undeclared());
        if mine.map(|address| address.consumers.len()).sum::<usize>() >= most as usize {
            let what = format!("the topic has {most} consumers, its limit");
            return Err(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what));
        }
        let known = subscribing.name.as_ref().and_then(|name| self.subscriptions.by_name.get(name).copied());
        if let Some(known) = known {
            if self.accepts_more(known, &subscribing)? {
                return Ok(known);
            }
            let key = self.addresses[known].declared.key;
            self.delete_address(key, &ended(), links);
        } else if subscribing.name.as_ref().is_some_and(|name| name.durable) {
            self.check_durable(at)?;
        }
        Ok(self.make_subscription(at, subscribing, filter, links))
    }

    /// Whether a topic may have one durable subscription more.
    fn check_durable(&self, at: Key) -> Result<(), Error> {
        let subscriptions = &self.addresses.topic(at).subscriptions;
        let durable = subscriptions.iter().filter(|key| self.life_of(**key) == Some(Life::Durable));
        if durable.count() < DURABLE_MAX {
            return Ok(());
        }
        let what = format!("the topic has {DURABLE_MAX} durable subscriptions, its limit: end an unused one");
        Err(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what))
    }

    fn life_of(&self, at: Key) -> Option<Life> {
        self.addresses.subscription(at).map(|subscription| subscription.life)
    }

    /// Whether a link may attach to an existing subscription; `false`: it requests another one,
    /// which replaces it. That ends the one before, with its messages: only a user who may receive
    /// from it may do so, for names are free to choose.
    fn accepts_more(&self, at: Key, requested: &Subscribing) -> Result<bool, Error> {
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
        let life = if durable { Life::Durable } else { Life::Links };
        let mut opened = OpenQueue::new(Arc::clone(&name), Settings::default(), log);
        let description = Arc::clone(&subscribing.description);
        let mut subscription = Subscription::new(Some(topic_key), life, subscribing, filter);
        subscription.known = log.is_none();
        opened.subscription = Some(subscription);
        let made = self.open_subscription(at, opened, links);
        if let Some(log) = log {
            let uid = self.storage.digests.long(&[&log.to_le_bytes(), &*description].concat());
            self.storage.journal.declare(made, log, &uid.to_be_bytes(), &name, &description);
        }
        made
    }

    /// A subscription of a topic that is not declared.
    pub(in crate::core) fn open_subscription(&mut self, topic: Key, opened: OpenQueue, links: &mut impl Links) -> Key {
        let number = self.subscription_number();
        let Declared { link_capacity, space, .. } = self.addresses[topic].declared;
        let declared = Declared { key: AddressKey(number), kind: AddressKind::Queue, link_capacity, space };
        let name = opened.subscription.as_ref().and_then(|subscription| subscription.name.clone());
        let life = opened.subscription.as_ref().map_or(Life::Links, |subscription| subscription.life);
        let (settings, dead_letter, expiry) = self.undeclared_rules(topic, life);
        self.open_queue(declared, opened.with_settings(settings).with_targets(dead_letter, expiry), links);
        let at = self.by_key[&declared.key];
        if let Some(name) = name {
            self.subscriptions.by_name.insert(name, at);
        }
        at
    }

    /// A key that no subscription has: durable ones may be older than a billion others.
    fn subscription_number(&mut self) -> u32 {
        loop {
            let number = self.subscriptions.next_key;
            self.subscriptions.next_key = if number + 1 == KEYS.end { KEYS.start } else { number + 1 };
            if !self.by_key.contains_key(&AddressKey(number)) {
                return number;
            }
        }
    }

    fn undeclared_rules(&self, topic: Key, life: Life) -> (Settings, Option<AddressKey>, Option<AddressKey>) {
        let topic = self.addresses.topic(topic);
        (settings_of(&topic.opened.settings, life), topic.opened.dead_letter, topic.opened.expiry)
    }

    /// The settings of the topic change, and so do those of its undeclared subscriptions.
    pub(in crate::core) fn resettle_subscriptions(&mut self, topic: Key, links: &mut impl Links) {
        for at in self.addresses.topic(topic).subscriptions.clone() {
            let (key, life) = (self.addresses[at].declared.key, self.life_of(at));
            if let Some(life) = life.filter(|life| *life != Life::Declared) {
                let (settings, dead_letter, expiry) = self.undeclared_rules(topic, life);
                self.reconfigure_queue(key, settings, dead_letter, expiry, None, links);
            }
        }
    }

    /// A declared subscription belongs to that topic from now on; `None`: its topic is missing.
    pub fn move_subscription(&mut self, key: AddressKey, topic: Option<AddressKey>, links: &mut impl Links) {
        // It is not open yet, and joins its topic then.
        let Some(at) = self.by_key.get(&key).copied() else { return };
        self.leave_topic(at, links);
        if let Some(subscription) = self.addresses.subscription_mut(at) {
            subscription.topic = topic;
        }
        self.join_topic(at, links);
    }

    fn topic_of(&self, at: Key) -> Option<Key> {
        let topic = self.addresses.subscription(at)?.topic?;
        let topic = self.by_key.get(&topic).copied()?;
        self.addresses.find_topic(topic).map(|_| topic)
    }

    /// Messages of its topic come into a subscription from now on.
    pub(in crate::core) fn join_topic(&mut self, at: Key, links: &mut impl Links) {
        // It is no subscription, or its topic is missing.
        let Some(topic) = self.topic_of(at) else { return };
        let address = &mut self.addresses[topic];
        address.epoch = address.epoch.wrapping_add(1);
        self.addresses.topic_mut(topic).subscriptions.push(at);
        self.update_topic_back_pressure(at, links);
    }

    /// Nothing more comes into a subscription.
    fn leave_topic(&mut self, at: Key, links: &mut impl Links) {
        // It is no subscription, or its topic is missing.
        let Some(topic) = self.topic_of(at) else { return };
        if let Some(subscription) = self.addresses.subscription_mut(at) {
            let before = std::mem::take(&mut subscription.back_pressure);
            self.propagate_back_pressure(topic, before, BackPressure::default(), links);
        }
        let address = &mut self.addresses[topic];
        address.epoch = address.epoch.wrapping_add(1);
        self.addresses.topic_mut(topic).subscriptions.retain(|key| *key != at);
    }

    /// The address is deleted: its relations to topics and subscriptions end. Subscriptions that
    /// are declared outlive their topic.
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
            self.subscriptions.by_name.remove(name);
        }
        if let Some(topic) = topic {
            self.addresses[topic].stats.join(&AddressStats { consumers: 0, waiting: 0, ..stats });
            self.addresses.topic_mut(topic).past.join(&past);
        }
    }

    /// A topic is deleted, and with it its subscriptions, but for the declared ones.
    fn end_topic(&mut self, at: Key, error: &Error, links: &mut impl Links) {
        let topic = std::mem::replace(&mut self.addresses[at].treatment, Treatment::Closed);
        // The caller has found a topic.
        let Treatment::Topic(topic) = topic else { return };
        for subscription in topic.subscriptions {
            let key = self.addresses[subscription].declared.key;
            match self.addresses.subscription_mut(subscription) {
                Some(it) if it.life == Life::Declared => it.back_pressure = BackPressure::default(),
                _ => self.delete_address(key, error, links),
            }
        }
    }

    /// A link has gone: subscriptions that live with their links end with the last one.
    pub(in crate::core) fn end_with_links(&mut self, at: Key, closed: bool, links: &mut impl Links) {
        // It ended with its consumer, or others are left.
        let Some(address) = self.addresses.get(at).filter(|address| address.consumers.is_empty()) else { return };
        let life = self.life_of(at);
        if life == Some(Life::Links) || closed && life == Some(Life::Durable) {
            let key = address.declared.key;
            self.delete_address(key, &ended(), links);
        }
    }

    /// A link requests a durable subscription by one of these names, without naming a topic.
    /// [`Links::recalled`] gives it the description of the subscription.
    pub fn recall(&mut self, attachment: AttachmentId, names: &[SubscriptionName], links: &mut impl Links) {
        if let Some(before) = self.attachments.occupant(attachment) {
            self.detach(before, links);
        }
        let Some(at) = names.iter().find_map(|name| self.subscriptions.by_name.get(name).copied()) else {
            let what = "attach.source is null and there is no subscription of that name";
            return links.attached(attachment, Err(Error::new(condition::NOT_FOUND, what)));
        };
        let address = &self.addresses[at];
        if !address.consumers.is_empty() {
            let what = "the subscription is in use: detach its consumers first";
            return links.attached(attachment, Err(Error::new(condition::RESOURCE_LOCKED, what)));
        }
        if let Some(subscription) = self.addresses.subscription(at) {
            links.recalled(attachment, &subscription.description);
        }
        self.attach_consumer(at, Consumer::new(attachment, at, 0, None), Consuming::default(), links);
    }

    /// Answers a link once the log knows its subscription.
    pub(in crate::core) fn answer_subscriber(&mut self, at: Key, attachment: AttachmentId, links: &mut impl Links) {
        match self.addresses.subscription_mut(at).filter(|subscription| !subscription.known) {
            Some(subscription) => subscription.waiting.push(attachment),
            None => links.attached(attachment, Ok(Vec::new())),
        }
    }

    /// The log knows a subscription, or will not.
    pub(in crate::core) fn subscription_declared(
        &mut self,
        at: Key,
        refused: Option<&Refused>,
        links: &mut impl Links,
    ) {
        // It was deleted in the meantime, with its links.
        let Some(subscription) = self.addresses.subscription_mut(at) else { return };
        subscription.known = true;
        let waiting = std::mem::take(&mut subscription.waiting);
        let waiting = waiting.into_iter().filter(|attachment| self.attachments.consumer(*attachment).is_some());
        let waiting: Vec<AttachmentId> = waiting.collect();
        let Some(refused) = refused else {
            return waiting.into_iter().for_each(|attachment| links.attached(attachment, Ok(Vec::new())));
        };
        let error = not_stored("the subscription", refused);
        for attachment in waiting {
            self.detach(attachment, links);
            links.attached(attachment, Err(error.clone()));
        }
        let key = self.addresses[at].declared.key;
        self.delete_address(key, &error, links);
    }

    /// The room of a subscription may have changed: its topic's producers are notified.
    pub(in crate::core) fn update_topic_back_pressure(&mut self, at: Key, links: &mut impl Links) {
        // It is no subscription, or its topic is missing.
        let Some(topic) = self.topic_of(at) else { return };
        let now_ms = self.now_ms;
        let taken = self.addresses[at].stats.delivered;
        let queue = self.addresses.queue_mut(at);
        let Some(subscription) = queue.subscription.as_ref() else { return };
        let (before, live) = (subscription.back_pressure, subscription.life == Life::Links);
        let open = queue.admits_producers(live, before.blocks || before.slow);
        let mut now = before;
        now.slow &= !open;
        if open || taken != before.taken || !before.blocks && !before.slow {
            (now.since_ms, now.taken) = (now_ms, taken);
        } else if live && now_ms >= before.since_ms + queue.patience_ms() {
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
