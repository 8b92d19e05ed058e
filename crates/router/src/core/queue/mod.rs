//! Queues: each message is stored in the queue of its address and dispatched to one of the
//! consumers.
//!
//! `enmasse_journal::queue` makes the decisions about a queue; this module connects it to
//! attachments. `incoming` stores messages, `outgoing` dispatches them, with `selection` for
//! selectors and browsers, `settling` applies outcomes, `diversion` moves messages to
//! dead-letter and expiry addresses, `handover` those with other homes, `changed` keeps modified annotations,
//! `resuming` and `tags` keep the state of resumable links, `packet_ids` that of sessions of MQTT,
//! `sent` what was sent to their clients.
//! `plain` is the fast path of most messages, `manage` contains the operations of administrators,
//! `restore` the recovery, `temporary` the queues of a connection.

mod changed;
mod diversion;
mod handover;
mod incoming;
mod manage;
mod outgoing;
mod packet_ids;
mod plain;
mod restore;
mod resuming;
mod selection;
mod sent;
mod settling;
mod subscription;
mod tags;
mod temporary;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use enmasse_amqp::types::{Error, condition};
use enmasse_journal::queue::{
    Consume, ConsumerId, Effect, Item, Next, QueueStats, Refused, Seq, Settings, Sharing, State,
};

use super::arena::Key;
use super::arriving::PendingDuplicate;
use super::consumer::{Consumer, MessageSelection};
use super::storage::{Notice, Storage};
use super::{AddressKey, Consuming, Declared, Destination, Links, Router, ToLink};

pub(super) use changed::Changed;
pub(super) use diversion::Diversions;
pub(super) use manage::Operations;
pub use manage::{ExaminedMessage, Failed, Operated, Operation, Work};
pub(super) use packet_ids::PacketIdOf;
pub use restore::OpenQueue;
use restore::Opened;
use resuming::Resuming;
use sent::Sent;
pub(super) use subscription::{BackPressure, Lifetime, Subscription};
use temporary::Temporary;
pub(super) use temporary::temporary_settings;
pub use temporary::{Budget, DYNAMIC_KEYS, TEMPORARY_BYTES, TEMPORARY_MESSAGES};

/// The state of a queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) opened: Opened,
    /// messages assigned to consumers, in their order; the first waits for its body from disk
    fetching: VecDeque<Fetching>,
    fetching_bytes: u64,
    /// modified message annotations, by the message's number
    changed: HashMap<u64, Changed>,
    /// messages with a time to live that were sent to a client of MQTT, by the message's number
    sent: HashMap<u64, Sent>,
    /// pending duplicates, by the number of their original
    pending_duplicates: HashMap<u64, Vec<PendingDuplicate>>,
    /// it is on the list of addresses that wait for bodies
    pub(super) awaits_bodies: bool,
    /// it is on the list of addresses to process before the turn ends
    pub(super) dirty: bool,
    /// number of consumer choices
    turn: u32,
    /// number of choices among consumers that share messages
    shared_turn: u32,
    /// consumers whose drain is not done
    draining: Vec<Key>,
    /// the time for which its timer is set
    armed_ms: Option<u64>,
    /// producers have credit because there is room
    pub(super) open: bool,
    /// set if its messages come from a topic
    pub(super) subscription: Option<Box<Subscription>>,
    /// the state of resumable links
    resuming: Resuming,
    /// set if the queue belongs to a connection
    temporary: Option<Box<Temporary>>,
}

/// The source of queue numbers in the log, shared by all shards; a number is never issued twice.
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

/// A message assigned to a consumer that is not dispatched yet.
#[derive(Clone, Copy, Debug)]
struct Fetching {
    to: Key,
    item: Item,
    /// the consumer browses, so it does not hold the message
    browsed: bool,
    /// its body was requested
    requested: bool,
    /// the number of its hold, which must be on disk before the message is dispatched
    hold: u64,
}

impl Queue {
    fn new(open: OpenQueue) -> Self {
        let OpenQueue { opened, changed, sent, subscription, resuming, temporary, .. } = open;
        Self {
            opened,
            fetching: VecDeque::new(),
            fetching_bytes: 0,
            changed,
            sent,
            pending_duplicates: HashMap::new(),
            awaits_bodies: false,
            dirty: false,
            turn: 0,
            shared_turn: 0,
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
    /// Whether it has messages or the state of resumable links.
    pub(super) fn is_used(&self) -> bool {
        !self.opened.messages.is_empty() || !self.resuming.is_empty()
    }

    /// A consumer attaches, unless the queue refuses it.
    pub(super) fn attach(&mut self, key: Key, consuming: &Consuming) -> Result<ConsumerId, Refused> {
        self.opened.messages.attach(&Consume {
            key: key.pack(),
            name: consuming.name,
            priority: consuming.priority,
            selects: consuming.selector.is_some() || consuming.retained.is_some(),
            browses: consuming.browses,
            exclusive: consuming.exclusive,
        })
    }

    /// Whether there may be an undispatched message for a consumer.
    pub(super) fn has_for(&self, id: ConsumerId) -> bool {
        self.opened.messages.has_for(id)
    }

    /// Removes and returns all pending duplicates.
    pub(super) fn take_pending_duplicates(&mut self) -> impl Iterator<Item = PendingDuplicate> {
        self.pending_duplicates.drain().flat_map(|(_, duplicates)| duplicates)
    }

    /// Removes and returns the pending duplicates of one original.
    #[inline]
    pub(super) fn duplicates_of(&mut self, original: Seq) -> Vec<PendingDuplicate> {
        if self.pending_duplicates.is_empty() {
            return Vec::new();
        }
        self.pending_duplicates.remove(&original.0).unwrap_or_default()
    }

    /// Whether messages may overtake one that cannot be read.
    fn may_be_overtaken(&self) -> bool {
        let settings = self.opened.messages.settings();
        !settings.last_value && settings.sharing != Sharing::SingleActive
    }

    /// Postpones the answer to a drain until bodies in flight have arrived.
    pub(super) fn drain_later(&mut self, key: Key) {
        if !self.draining.contains(&key) {
            self.draining.push(key);
        }
    }
}

/// The error for a link that a queue refuses.
pub(super) fn refusal(refused: &Refused) -> Error {
    let condition = match refused {
        Refused::Exclusive => condition::NOT_ALLOWED,
        Refused::Consumers(_) | Refused::Producers(_) => condition::RESOURCE_LIMIT_EXCEEDED,
    };
    Error::new(condition, refused.to_string())
}

impl Router {
    /// Opens a stored address on this shard. An address with this key that is open already keeps
    /// its messages.
    pub fn open_queue(&mut self, declared: Declared, mut open: OpenQueue, links: &mut impl Links) {
        let key = self.address(declared);
        if self.addresses.find_queue(key).is_some() {
            return;
        }
        let (effects, damaged) = (std::mem::take(&mut open.effects), std::mem::take(&mut open.damaged));
        let (orphans, lost) = (std::mem::take(&mut open.orphans), std::mem::take(&mut open.lost));
        let (name, log) = (Arc::clone(&open.opened.name), open.opened.log);
        if let Some(log) = log {
            self.storage.journal.join(log, declared.space);
        }
        open.resuming.begin(self.now_ms);
        self.addresses[key].open_queue(Queue::new(open));
        for (first, count) in lost {
            self.count_lost(key, &name, None, first, count);
        }
        for (seq, place) in damaged {
            self.count_damaged(key, &name, seq);
            if let Some(log) = log {
                self.storage.journal.remove_at(log, seq, place);
            }
        }
        if let Some(log) = log {
            orphans.iter().for_each(|state| self.storage.journal.forget_orphan(log, state));
        }
        self.storage.effects.extend(effects);
        self.process(key, links);
        self.join_topic(key, links);
    }

    /// Attaches a consumer to a queue, or refuses it.
    pub(super) fn attach_to_queue(&mut self, at: Key, key: Key, mut consuming: Consuming, links: &mut impl Links) {
        let resume = consuming.resume.take();
        let attachment = self.consumers[key].attachment;
        let next = self.addresses.queue(at).opened.messages.next_seq();
        match self.addresses.queue_mut(at).attach(key, &consuming) {
            Ok(id) => {
                let consumer = &mut self.consumers[key];
                (consumer.in_queue, consumer.selection) = (Some(id), MessageSelection::of(consuming, next));
            }
            Err(refused) => return self.refuse_attachment(attachment, refusal(&refused), links),
        }
        match resume {
            Some(resume) => self.resume_consumer(key, &resume, links),
            None if self.waits_for_disk(at, key) => self.raise_fence(at, Notice::Attached(attachment)),
            None => self.answer_subscriber(at, attachment, links),
        }
    }

    /// Whether an attach is answered after all earlier messages are on disk: a durable subscription
    /// may have just begun, and the retained messages are those before a certain one. The link of a new
    /// subscription may go on to read them at another home, which must have those from before the
    /// subscription; one on disk is answered in that order anyway.
    fn waits_for_disk(&self, at: Key, key: Key) -> bool {
        let consumer = &self.consumers[key];
        let queue = self.addresses.queue(at);
        let begins = queue.is_undeclared() && queue.opened.log.is_none();
        consumer.recalls || consumer.selection.retained.is_some() || begins && self.retains_elsewhere(at)
    }

    /// Changes the settings of a stored address.
    pub fn reconfigure_queue(
        &mut self,
        key: AddressKey,
        settings: Settings,
        dead_letter: Option<Destination>,
        expiry: Option<Destination>,
        last_value_key: Option<Box<str>>,
        links: &mut impl Links,
    ) {
        // It is opened with its settings when its first link attaches.
        let Some(key) = self.by_key.get(&key).copied() else { return };
        let Some(queue) = self.addresses.find_queue_mut(key) else { return };
        queue.opened.messages.reconfigure(settings);
        (queue.opened.dead_letter, queue.opened.expiry) = (dead_letter, expiry);
        queue.opened.last_value_key = last_value_key;
        self.process(key, links);
    }

    /// The statistics of every stored address of this shard. Those of a topic are those of its
    /// undeclared subscriptions.
    pub fn queue_stats(&self) -> impl Iterator<Item = (AddressKey, QueueStats)> {
        let stats = |key: Key| self.addresses[key].treatment.queue_stats();
        let join = |sum: &mut Option<QueueStats>, more: &Option<QueueStats>| {
            if let (Some(sum), Some(more)) = (sum, more) {
                sum.join(more);
            }
        };
        self.sum(stats, join).into_iter().filter_map(|(key, stats)| Some((key, stats?)))
    }

    /// Sets the source of queue numbers in the log.
    pub fn set_queue_numbers(&mut self, numbers: QueueNumbers) {
        self.queue_numbers = numbers;
    }

    pub(super) fn queue_timeout(&mut self, at: Key, links: &mut impl Links) {
        let queue = self.addresses.queue_mut(at);
        queue.armed_ms = None;
        let Storage { now_ms, effects, .. } = &mut self.storage;
        queue.opened.messages.timeout(*now_ms, &mut |effect| effects.push(effect));
        self.expire_links(at, links);
        self.process(at, links);
    }

    /// After any change of a queue: carries out its effects, dispatches, notifies producers, sets
    /// the timer.
    pub(super) fn process_queue(&mut self, key: Key, links: &mut impl Links) {
        self.do_effects(key, links);
        self.dispatch_waiting_in_queue(key, links);
        self.do_effects(key, links);
        self.finish_drains(key, links);
        self.update_room(key, links);
        self.arm(key);
    }

    /// Dispatches waiting messages while a consumer has room.
    fn dispatch_waiting_in_queue(&mut self, at: Key, links: &mut impl Links) {
        self.dispatch_fetched(at, links);
        while self.addresses.queue(at).may_fetch(&self.storage.bodies) {
            self.dispatch_plain(at, links);
            let Self { addresses, consumers, storage, turns, random, .. } = self;
            let chosen = addresses.queue_mut(at).choose(consumers, &storage.bodies, *turns, random);
            let Some((id, to)) = chosen else { return self.await_selection(at) };
            match self.next_for(at, id, to) {
                Next::Message(item) => self.fetch_or_dispatch(at, to, item, links),
                Next::Unread(item) if self.addresses.queue_mut(at).defer_unread(&item, &self.storage) => {}
                Next::Unread(item) => self.read_ahead_for_selection(at, to, &item),
                Next::Nothing => self.end_selection(to),
                Next::Later => self.defer_to_next_turn(at, to),
            }
        }
    }

    fn finish_drains(&mut self, key: Key, links: &mut impl Links) {
        let queue = self.addresses.queue_mut(key);
        for consumer in std::mem::take(&mut queue.draining) {
            if self.consumers.get(consumer).is_some() {
                self.finish_drain(consumer, links);
            }
        }
    }

    #[inline]
    pub(super) fn do_effects(&mut self, key: Key, links: &mut impl Links) {
        while !self.storage.effects.is_empty() {
            let mut effects = std::mem::take(&mut self.storage.effects);
            for effect in effects.drain(..) {
                self.do_effect(key, effect, links);
            }
            // Effects of these effects are in the new list.
            if self.storage.effects.is_empty() {
                self.storage.effects = effects;
                return;
            }
        }
    }

    fn do_effect(&mut self, key: Key, effect: Effect, links: &mut impl Links) {
        let queue = self.addresses.queue_mut(key);
        match effect {
            Effect::Remove { item, .. } => queue.forget(&item, &mut self.storage),
            Effect::Divert { item, to, cause } => self.divert(key, item, to, cause, links),
            Effect::Retry { item, due } => {
                if let Some(log) = queue.opened.log {
                    self.storage.journal.count_failures(log, item.id.0, item.failures, due);
                }
            }
        }
    }

    /// Closes the credit of producers when the queue is full, and opens it again at three quarters.
    pub(super) fn update_room(&mut self, key: Key, links: &mut impl Links) {
        let queue = self.addresses.queue_mut(key);
        let (room, here) = (queue.opened.messages.room(0), queue.opened.messages.len() as u64);
        // The messages and the room together are the capacity, whether the bound is in messages or
        // bytes.
        let open = if queue.open { room > 0 } else { room.saturating_mul(3) > here };
        if open != queue.open {
            queue.open = open;
            self.update_producer_credit(key, open, links);
        }
        if self.addresses.queue(key).temporary.is_some() {
            self.share_room(key, links);
        }
        self.update_topic_back_pressure(key, links);
    }

    /// Opens or closes the credit of an address. Anonymous producers, which send without its
    /// credit, are held back instead.
    pub(super) fn update_producer_credit(&mut self, key: Key, open: bool, links: &mut impl Links) {
        for at in 0..self.addresses[key].producers.len() {
            let key = self.addresses[key].producers[at];
            let producer = &self.producers[key];
            if producer.anonymous {
                self.update_producer_back_pressure(key, producer.waiting_bytes, links);
            } else {
                links.send(ToLink::Open { attachment: producer.attachment, open });
            }
        }
    }

    pub(super) fn arm(&mut self, key: Key) {
        let address_key = self.addresses[key].declared.key;
        let queue = self.addresses.queue_mut(key);
        let next = [queue.opened.messages.next_timeout(), queue.stall_timeout(), queue.resuming.next_timeout()]
            .into_iter()
            .flatten()
            .min();
        self.schedule.rearm(&mut queue.armed_ms, next, address_key, key);
    }

    /// Detaches a consumer from its queue. Its acquired messages were settled before; messages that
    /// were being fetched for it are available again.
    pub(super) fn leave_queue(&mut self, to: Key) {
        let Consumer { address, in_queue, .. } = self.consumers[to];
        // A queue that is being deleted has removed its consumers.
        if let (Some(id), Some(queue)) = (in_queue, self.addresses.find_queue_mut(address)) {
            queue.opened.messages.detach(id);
        }
    }

    /// Deletes all messages of a queue whose address is deleted.
    pub(super) fn clear_queue(&mut self, key: Key, queue: &Queue) {
        self.schedule.disarm(queue.armed_ms, self.addresses[key].declared.key);
        for Fetching { item, .. } in queue.fetching.iter().filter(|fetching| fetching.requested) {
            self.storage.bodies.release_body(item.place);
        }
        match queue.opened.log {
            Some(log) => {
                let (waits, retired) = (self.unwritten_diversions(key), self.retired_in(key));
                // The removal of a leaving message is written together with its copy, that of a
                // retired one with its commit.
                let gone = |item: &Item| match item.state {
                    State::Leaving => !waits.contains(&item.seq),
                    State::Retiring => retired.contains(&item.seq),
                    _ => false,
                };
                let queue = &queue.opened.messages;
                let leaving = queue.iter(Seq(0)).filter(|item| item.state == State::Leaving && gone(item));
                self.storage.journal.note_leaving(key, leaving);
                let here = queue.iter(Seq(0)).filter(|item| item.place.len > 0 && !gone(item));
                here.for_each(|item| self.storage.bodies.forget(item.place));
                self.storage.journal.drop_queue(log, queue, gone);
            }
            None => {
                // Messages of a pending commit have no location yet.
                let here = queue.opened.messages.iter(Seq(0)).filter(|item| item.state != State::Offered);
                here.for_each(|item| self.storage.bodies.free(item.place));
            }
        }
    }
}
