//! Stored addresses: each message into the address's queue, and from there to one of the consumers.
//!
//! `enmasse_journal::queue` decides about queues, `enmasse_journal::log` stores them. Here both
//! meet attachments: `incoming` takes messages in, `outgoing` dispatches them, with `selection` for
//! selectors and browsers, `settling` applies outcomes, `changed` keeps modified annotations.
//! `journal` gathers records for the log and passes them on once a turn; when they are written,
//! producers are answered. `bodies` knows where the bytes of a message are, `manage` is what
//! administrators do. A `topic` puts messages into the queues of its `subscription`s.
//! `transactions` holds the parts of a transaction until `discharge` commits it or rolls it back.

mod bodies;
mod changed;
mod compact;
mod damaged;
mod digest;
mod discharge;
mod fence;
mod incoming;
mod journal;
mod lanes;
mod manage;
mod memory;
mod outgoing;
mod plain;
mod reads;
mod restore;
mod resuming;
mod selection;
mod settling;
mod state;
mod subscription;
mod tags;
mod temporary;
mod topic;
mod transactions;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use enmasse_amqp::types::{Error, condition};
use enmasse_journal::queue::{Consume, ConsumerId, Effect, Item, QueueStats, Refused, Seq, Settings, Sharing, State};

use super::address::Consumer;
use super::arena::Key;
use super::treatment::Treatment;
use super::{AddressKey, AttachmentId, Consuming, Declared, Links, Router};

pub(super) use bodies::Bodies;
use changed::Changed;
pub use damaged::Damaged;
pub(in crate::core) use damaged::LossReports;
pub use digest::Digests;
pub(super) use incoming::{Arriving, Assembly, PendingDuplicate, refused};
pub use journal::Answer;
pub(super) use journal::{Journal, not_stored};
pub(super) use manage::Operations;
pub use manage::{ExaminedMessage, Failed, Operated, Operation, Work};
pub use reads::Read;
pub use restore::OpenQueue;
pub(super) use resuming::Resumed;
use resuming::Resuming;
pub use resuming::{Resume, Unsettled};
pub(super) use selection::MessageSelection;
pub(super) use settling::Diverting;
pub use state::subscription_of;
pub(super) use subscription::KEYS as SUBSCRIPTION_KEYS;
use subscription::Subscription;
pub use subscription::{Subscribing, SubscriptionName};
use temporary::Temporary;
pub use temporary::{Budget, DYNAMIC_KEYS, TEMPORARY_BYTES, TEMPORARY_MESSAGES};
pub use topic::OpenTopic;
pub(super) use topic::Topic;
pub(super) use transactions::Transactions;
pub use transactions::{TRANSACTION_MESSAGES, TransactionId, rolled_back};

/// The state of a queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) opened: OpenQueue,
    /// messages taken out in their order, the first of which has its body still on disk
    fetching: VecDeque<Fetching>,
    fetching_bytes: u64,
    /// message annotations that consumers have changed, by the message's number
    changed: HashMap<u64, Changed>,
    /// duplicates that wait for their originals, by the original's number
    pending_duplicates: HashMap<u64, Vec<PendingDuplicate>>,
    /// it is on the list of those that wait for bodies
    awaits: bool,
    /// it is on the list of addresses to process before the turn ends
    dirty: bool,
    /// counts choices of consumers
    turn: u32,
    /// counts choices among consumers that share messages
    given: u32,
    /// consumers whose drain is not done
    draining: Vec<Key>,
    /// the earliest time to process the queue
    armed_ms: Option<u64>,
    /// producers know that there is room
    pub(super) open: bool,
    /// its messages come from a topic
    pub(super) subscription: Option<Box<Subscription>>,
    /// the state of resumable links
    resuming: Resuming,
    /// it belongs to a connection
    temporary: Option<Box<Temporary>>,
}

/// Numbers of queues in the log, shared and never issued twice.
#[derive(Clone, Debug)]
pub struct QueueNumbers(Arc<AtomicU32>);

impl QueueNumbers {
    /// From `next` on.
    #[must_use]
    pub fn new(next: u32) -> Self {
        Self(Arc::new(AtomicU32::new(next)))
    }

    /// The next one.
    #[must_use]
    pub fn take(&self) -> u32 {
        // Relaxed: the number carries no other memory with it.
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A message on its way to a consumer.
#[derive(Clone, Copy, Debug)]
struct Fetching {
    to: Key,
    item: Item,
    /// the consumer, which may have gone, does not hold it
    browsed: bool,
    /// its body was requested
    requested: bool,
    /// the number of its hold, which the disk is to know before it leaves
    hold: u64,
}

impl Queue {
    fn new(mut opened: OpenQueue) -> Self {
        let changed = std::mem::take(&mut opened.changed);
        let subscription = opened.subscription.take();
        let resuming = std::mem::take(&mut opened.resuming);
        let temporary = opened.temporary.take();
        Self {
            opened,
            fetching: VecDeque::new(),
            fetching_bytes: 0,
            changed,
            pending_duplicates: HashMap::new(),
            awaits: false,
            dirty: false,
            turn: 0,
            given: 0,
            draining: Vec::new(),
            armed_ms: None,
            open: true,
            subscription,
            resuming,
            temporary,
        }
    }
}

impl Queue {
    /// It has messages, or links that may be resumed.
    pub(super) fn is_used(&self) -> bool {
        !self.opened.queue.is_empty() || !self.resuming.is_empty()
    }

    /// A consumer attaches, unless the queue refuses it.
    pub(super) fn attach(&mut self, key: Key, consuming: &Consuming) -> Result<ConsumerId, Refused> {
        self.opened.queue.attach(&Consume {
            key: key.pack(),
            name: consuming.name,
            priority: consuming.priority,
            selects: consuming.selector.is_some(),
            browses: consuming.browses,
            exclusive: consuming.exclusive,
        })
    }

    /// Whether there may be an undispatched message for a consumer.
    pub(super) fn has_for(&self, id: ConsumerId) -> bool {
        self.opened.queue.has_for(id)
    }

    /// Messages may pass one that cannot be read.
    fn may_be_passed(&self) -> bool {
        let settings = self.opened.queue.settings();
        !settings.last_value && settings.sharing != Sharing::SingleActive
    }

    /// A drain is answered after messages in flight have arrived.
    pub(super) fn drain_later(&mut self, key: Key) {
        if !self.draining.contains(&key) {
            self.draining.push(key);
        }
    }
}

/// Why a queue has no place for a link.
pub(super) fn refusal(refused: &Refused) -> Error {
    let condition = match refused {
        Refused::Exclusive => condition::NOT_ALLOWED,
        Refused::Consumers(_) | Refused::Producers(_) => condition::RESOURCE_LIMIT_EXCEEDED,
    };
    Error::new(condition, refused.to_string())
}

impl Router {
    /// A stored address lives here from now on. One that is known by that key keeps its messages.
    pub fn open_queue(&mut self, declared: Declared, mut opened: OpenQueue, links: &mut impl Links) {
        let key = self.address(declared);
        if self.addresses.find_queue(key).is_some() {
            return;
        }
        let (effects, damaged) = (std::mem::take(&mut opened.effects), std::mem::take(&mut opened.damaged));
        let (orphans, lost) = (std::mem::take(&mut opened.orphans), std::mem::take(&mut opened.lost));
        let (name, log) = (Arc::clone(&opened.name), opened.log);
        if let Some(log) = log {
            self.journal.join(log, declared.space);
        }
        opened.resuming.begin(self.now_ms);
        self.addresses[key].treatment = Treatment::Queue(Box::new(Queue::new(opened)));
        for (first, count) in lost {
            self.count_lost(key, &name, None, first, count);
        }
        for (seq, place) in damaged {
            self.count_damaged(key, &name, seq);
            if let Some(log) = log {
                self.journal.remove_at(log, seq, place);
            }
        }
        if let Some(log) = log {
            orphans.iter().for_each(|state| self.journal.forget_orphan(log, state));
        }
        self.effects.extend(effects);
        self.process(key, links);
        self.join_topic(key, links);
    }

    /// A consumer attaches to a queue, unless that refuses it.
    pub(super) fn attach_to_queue(&mut self, at: Key, key: Key, mut consuming: Consuming, links: &mut impl Links) {
        let resume = consuming.resume.take();
        let attachment = self.consumers[key].attachment;
        match self.addresses.queue_mut(at).attach(key, &consuming) {
            Ok(id) => {
                let consumer = &mut self.consumers[key];
                (consumer.in_queue, consumer.selection) = (Some(id), MessageSelection::of(consuming));
            }
            Err(refused) => return self.refuse_attachment(attachment, refusal(&refused), links),
        }
        match resume {
            Some(resume) => self.resume_consumer(key, &resume, links),
            None => self.answer_subscriber(at, attachment, links),
        }
    }

    /// The settings of a stored address change.
    pub fn reconfigure_queue(
        &mut self,
        key: AddressKey,
        settings: Settings,
        dead_letter: Option<AddressKey>,
        expiry: Option<AddressKey>,
        last_value_key: Option<Box<str>>,
        links: &mut impl Links,
    ) {
        let Some(key) = self.by_key.get(&key).copied() else { return };
        let Some(stored) = self.addresses.find_queue_mut(key) else { return };
        stored.opened.queue.reconfigure(settings);
        (stored.opened.dead_letter, stored.opened.expiry) = (dead_letter, expiry);
        stored.opened.last_value_key = last_value_key;
        self.process(key, links);
    }

    /// The statistics of every stored address that lives here. Those of a topic are those of its
    /// subscriptions that are not declared.
    pub fn queue_stats(&self) -> impl Iterator<Item = (AddressKey, QueueStats)> {
        let stats = |key: Key| match &self.addresses[key].treatment {
            Treatment::Queue(queue) => Some(queue.opened.queue.stats()),
            Treatment::Topic(topic) => Some(topic.past),
            Treatment::Anycast(_) | Treatment::Multicast(_) | Treatment::Stream(_) | Treatment::Closed => None,
        };
        let join = |sum: &mut Option<QueueStats>, more: &Option<QueueStats>| {
            if let (Some(sum), Some(more)) = (sum, more) {
                sum.join(more);
            }
        };
        self.sum(stats, join).into_iter().filter_map(|(key, stats)| Some((key, stats?)))
    }

    /// Where numbers of queues in the log come from.
    pub fn set_queue_numbers(&mut self, numbers: QueueNumbers) {
        self.queue_numbers = numbers;
    }

    /// The key of digests: the same as before the restart.
    pub fn set_digests(&mut self, digests: Digests) {
        self.digests = digests;
    }

    /// Stands for a link wherever it attaches again: its name and its container's.
    #[must_use]
    pub fn link_digest(&self, container: &str, name: &str) -> u64 {
        self.digests.short(&[container.as_bytes(), &[0xFF], name.as_bytes()].concat())
    }

    /// As [`Router::link_digest`], of a link that can be resumed: only its own user takes it over.
    #[must_use]
    pub fn resume_digest(&self, user: Option<&str>, container: &str, name: &str) -> u64 {
        let Some(user) = user else { return self.link_digest(container, name) };
        self.digests.short(&[user.as_bytes(), &[0xFF], container.as_bytes(), &[0xFF], name.as_bytes()].concat())
    }

    /// Bytes of bodies that were read from the disk, or requested, and are needed still.
    #[must_use]
    pub fn fetched_bytes(&self) -> u64 {
        self.bodies.fetched_bytes()
    }

    /// The time of day, in milliseconds since 1970; what runs backwards is skipped.
    pub fn set_time(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        self.bodies.set_time(self.now_ms);
    }

    /// When [`Router::turn`] has time-driven work, in milliseconds since 1970.
    #[must_use]
    pub fn next_timeout(&self) -> Option<u64> {
        let starving = !self.starving.is_empty() && !self.bodies.is_full();
        if !self.later.is_empty() || self.operations.is_due(self.journal.is_compacting()) || starving {
            return Some(self.now_ms);
        }
        let timer = self.timers.keys().next().map(|(at, _)| *at);
        let others = [self.transactions.next_check(), self.journal.next_timeout(), self.bodies.next_retry()];
        others.into_iter().flatten().chain(timer).min()
    }

    /// Runs time-driven work, and work of stored addresses that an earlier turn postponed.
    pub(super) fn turn_timed(&mut self, links: &mut impl Links) {
        while let Some((&(at_ms, address), &key)) = self.timers.first_key_value() {
            if at_ms > self.now_ms {
                break;
            }
            self.timers.remove(&(at_ms, address));
            let Some(address) = self.addresses.get(key) else { continue };
            match address.treatment {
                Treatment::Multicast(_) => self.check_slow_consumers(key, links),
                Treatment::Queue(_) => self.queue_timeout(key, links),
                Treatment::Stream(_) => self.stream_timeout(key, links),
                Treatment::Anycast(_) | Treatment::Topic(_) | Treatment::Closed => {
                    debug_assert!(false, "it has no timer");
                }
            }
        }
        self.end_idle_transactions(links);
        self.journal.offer_again(self.now_ms);
        self.bodies.retry_reads();
        for key in std::mem::take(&mut self.later) {
            if self.addresses.get(key).is_some() {
                self.process(key, links);
            }
        }
    }

    fn queue_timeout(&mut self, at: Key, links: &mut impl Links) {
        let queue = self.addresses.queue_mut(at);
        queue.armed_ms = None;
        let (now_ms, effects) = (self.now_ms, &mut self.effects);
        queue.opened.queue.timeout(now_ms, &mut |effect| effects.push(effect));
        self.expire_links(at, links);
        self.process(at, links);
    }

    /// A stored address has changed: it is processed before the turn ends, once for all changes.
    #[inline]
    pub(super) fn mark_dirty(&mut self, key: Key) {
        if let Some(stored) = self.addresses.find_queue_mut(key)
            && !std::mem::replace(&mut stored.dirty, true)
        {
            self.dirty.push(key);
        }
    }

    /// Processes the stored addresses that have changed; called before the turn ends.
    pub fn process_dirty(&mut self, links: &mut impl Links) {
        while !self.dirty.is_empty() {
            for key in std::mem::take(&mut self.dirty) {
                let stored = self.addresses.find_queue_mut(key);
                if let Some(stored) = stored {
                    stored.dirty = false;
                    self.process(key, links);
                }
            }
        }
    }

    /// After any change of an address that stores messages.
    pub(super) fn process(&mut self, key: Key, links: &mut impl Links) {
        match self.addresses[key].treatment {
            Treatment::Queue(_) => self.process_queue(key, links),
            Treatment::Stream(_) => self.process_stream(key, links),
            // A topic stores nothing itself, and a deleted address nothing any more.
            Treatment::Anycast(_) | Treatment::Multicast(_) | Treatment::Topic(_) | Treatment::Closed => {}
        }
    }

    /// After any change of a queue: carries out its effects, dispatches, notifies producers, sets
    /// the timer.
    fn process_queue(&mut self, key: Key, links: &mut impl Links) {
        self.do_effects(key, links);
        self.dispatch_stored(key, links);
        self.do_effects(key, links);
        self.finish_drains(key, links);
        self.update_room(key, links);
        self.arm(key);
    }

    fn finish_drains(&mut self, key: Key, links: &mut impl Links) {
        let stored = self.addresses.queue_mut(key);
        for consumer in std::mem::take(&mut stored.draining) {
            if self.consumers.get(consumer).is_some() {
                self.finish_drain(consumer, links);
            }
        }
    }

    /// The address waits for bodies from the disk.
    pub(super) fn await_bodies(&mut self, key: Key) {
        let awaits = match &mut self.addresses[key].treatment {
            Treatment::Queue(queue) => &mut queue.awaits,
            Treatment::Stream(stream) => &mut stream.awaits,
            Treatment::Anycast(_) | Treatment::Multicast(_) | Treatment::Topic(_) | Treatment::Closed => {
                return debug_assert!(false, "it has no bodies");
            }
        };
        if !std::mem::replace(awaits, true) {
            self.awaiting.push(key);
        }
    }

    #[inline]
    pub(super) fn do_effects(&mut self, key: Key, links: &mut impl Links) {
        while !self.effects.is_empty() {
            let mut effects = std::mem::take(&mut self.effects);
            for effect in effects.drain(..) {
                self.do_effect(key, effect, links);
            }
            // Further effects are in a new list, if there are any.
            if self.effects.is_empty() {
                self.effects = effects;
                return;
            }
        }
    }

    fn do_effect(&mut self, key: Key, effect: Effect, links: &mut impl Links) {
        match effect {
            Effect::Remove { item, .. } => self.forget_stored(key, &item),
            Effect::Divert { item, to, cause } => self.divert(key, item, to, cause, links),
            Effect::Retry { item, due } => {
                if let Some(log) = self.addresses.queue(key).opened.log {
                    self.journal.count_failures(log, item.id.0, item.failures, due);
                }
            }
        }
    }

    /// A message was removed from its queue: its body is freed, and the log forgets it.
    fn forget_stored(&mut self, key: Key, item: &Item) {
        self.release_hold(key, item.seq);
        let stored = self.addresses.queue_mut(key);
        // As a rule none is, and then not even a hash is worth its time.
        let changed = if stored.changed.is_empty() { None } else { stored.changed.remove(&item.seq.0) };
        match stored.opened.log {
            Some(log) => {
                self.bodies.forget(item.place);
                self.journal.remove(log, item);
                if changed.is_some_and(|changed| changed.on_disk) {
                    self.journal.forget_annotations(log, item.id.0);
                }
            }
            None => self.bodies.free(item.place),
        }
    }

    /// Producers hold back when the queue is full, and continue at three quarters.
    fn update_room(&mut self, key: Key, links: &mut impl Links) {
        let stored = self.addresses.queue_mut(key);
        let (room, here) = (stored.opened.queue.room(0), stored.opened.queue.len() as u64);
        // Whatever the bound is in, the messages and the room are all that fits.
        let open = if stored.open { room > 0 } else { room.saturating_mul(3) > here };
        if open != stored.open {
            stored.open = open;
            self.update_producer_credit(key, open, links);
        }
        if self.addresses.queue(key).temporary.is_some() {
            self.share_room(key, links);
        }
        self.update_topic_back_pressure(key, links);
    }

    /// The credit of an address opens or closes; those that send without it are held instead.
    pub(super) fn update_producer_credit(&mut self, key: Key, open: bool, links: &mut impl Links) {
        for at in 0..self.addresses[key].producers.len() {
            let key = self.addresses[key].producers[at];
            let producer = &self.producers[key];
            if producer.anonymous {
                self.update_producer_back_pressure(key, producer.waiting_bytes, links);
            } else {
                links.open(producer.attachment, open);
            }
        }
    }

    pub(super) fn arm(&mut self, key: Key) {
        let address_key = self.addresses[key].declared.key;
        let stored = self.addresses.queue_mut(key);
        let next = [stored.opened.queue.next_timeout(), stored.stall_timeout(), stored.resuming.next_timeout()]
            .into_iter()
            .flatten()
            .min();
        if next == stored.armed_ms {
            return;
        }
        if let Some(before) = stored.armed_ms {
            self.timers.remove(&(before, address_key));
        }
        stored.armed_ms = next;
        if let Some(next) = next {
            self.timers.insert((next, address_key), key);
        }
    }

    /// The address has no place for a link.
    pub(super) fn refuse_attachment(&mut self, attachment: AttachmentId, refused: Error, links: &mut impl Links) {
        self.detach(attachment, links);
        links.attached(attachment, Err(refused));
    }

    /// A consumer has detached; messages it held were settled before, messages on their way to it
    /// wait again.
    pub(super) fn leave_queue(&mut self, to: Key) {
        let Consumer { address, in_queue, .. } = self.consumers[to];
        // A queue that is being deleted has gone with its consumers.
        if let (Some(id), Some(queue)) = (in_queue, self.addresses.find_queue_mut(address)) {
            queue.opened.queue.detach(id);
        }
    }

    /// The address is deleted: so are its messages.
    pub(super) fn clear_queue(&mut self, key: Key, stored: &Queue) {
        if let Some(armed) = stored.armed_ms {
            self.timers.remove(&(armed, self.addresses[key].declared.key));
        }
        for Fetching { item, .. } in stored.fetching.iter().filter(|fetching| fetching.requested) {
            self.bodies.release_body(item.place);
        }
        match stored.opened.log {
            Some(log) => {
                let (waits, retired) = (self.waiting_to_leave(key), self.retired_in(key));
                // The removal of a leaving message is written with the message it becomes, that of
                // a retired one with its commit.
                let gone = |item: &Item| match item.state {
                    State::Leaving => !waits.contains(&item.seq),
                    State::Retiring => retired.contains(&item.seq),
                    _ => false,
                };
                let queue = &stored.opened.queue;
                let leaving = queue.iter(Seq(0)).filter(|item| item.state == State::Leaving && gone(item));
                self.journal.note_leaving(key, leaving);
                self.journal.drop_queue(log, queue, gone);
            }
            None => {
                // Messages of a pending commit have no location yet.
                let here = stored.opened.queue.iter(Seq(0)).filter(|item| item.state != State::Offered);
                here.for_each(|item| self.bodies.free(item.place));
            }
        }
    }
}
