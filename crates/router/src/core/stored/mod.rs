//! Stored addresses: each message into the address's queue, and from there to one of the consumers.
//!
//! What a queue decides is in `enmasse_journal::queue`, what is on disk in `enmasse_journal::log`. Here both meet ports:
//! `incoming` brings messages in, `outgoing` takes them out, with `looking` for consumers that look before they
//! take, `settling` says what became of them, `changed` what consumers have said of them. `journal` gathers what
//! the log is to write and hands it over once a turn; when it is back, producers are answered. `bodies` knows where the
//! bytes of a message are, `manage` is what administrators do. A `topic` puts messages into the queues of its
//! `subscription`s. `transactions` holds what is part of one until `discharge` commits it or rolls it back.

mod bodies;
mod changed;
mod compact;
mod damaged;
mod digest;
mod discharge;
mod fence;
mod incoming;
mod journal;
mod looking;
mod manage;
mod outgoing;
mod plain;
mod reads;
mod restore;
mod resuming;
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
use enmasse_journal::queue::{Consume, ConsumerId, Effect, Figures, Item, Refused, Seq, Settings, Sharing, State};

use super::arena::Key;
use super::{AddressKey, Consuming, Declared, Links, PortId, Router};

pub(super) use bodies::Bodies;
use changed::Changed;
pub use damaged::Damaged;
pub use digest::Digests;
pub(super) use incoming::{Arriving, Assembly, Echo, refused};
pub use journal::Answer;
pub(super) use journal::{Journal, not_stored};
pub(super) use looking::Looking;
pub(super) use manage::Operations;
pub use manage::{Failed, Found, Operated, Operation, Work};
pub use reads::Read;
pub use restore::Shelf;
pub(super) use resuming::Resumed;
use resuming::Resuming;
pub use resuming::{Resume, Unsettled};
pub(super) use settling::Diverting;
pub use state::subscription_of;
pub(super) use subscription::KEYS as SUBSCRIPTION_KEYS;
use subscription::Subscription;
pub use subscription::{Subscribing, SubscriptionName};
use temporary::Temporary;
pub use temporary::{Budget, DYNAMIC_KEYS, TEMPORARY_BYTES, TEMPORARY_MESSAGES};
pub(super) use topic::Topic;
pub use topic::TopicShelf;
pub(super) use transactions::Transactions;
pub use transactions::{TRANSACTION_MESSAGES, TransactionId, rolled_back};

/// The stored side of an address.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) shelf: Shelf,
    /// messages taken out in their order, the first of which has its body still on disk
    fetching: VecDeque<Fetching>,
    fetching_bytes: u64,
    /// message annotations that consumers have changed, by the message's number
    changed: HashMap<u64, Changed>,
    /// duplicates that wait for their originals, by the original's number
    echoes: HashMap<u64, Vec<Echo>>,
    /// it is on the list of those that wait for bodies
    awaits: bool,
    /// it is on the list of those to be looked after before the turn ends
    touched: bool,
    /// counts choices of consumers
    turn: u32,
    /// counts choices among those who share what is nobody's own
    given: u32,
    /// consumers whose drain is not done
    draining: Vec<Key>,
    /// the earliest time that the router is to look after the queue
    armed_ms: Option<u64>,
    /// producers are told that there is room
    pub(super) open: bool,
    /// its messages come from a topic
    pub(super) subscription: Option<Box<Subscription>>,
    /// what is kept of links that may come back
    resuming: Resuming,
    /// it belongs to a connection
    temporary: Option<Box<Temporary>>,
}

/// Numbers of queues in the log, shared by all who give them out: none is given out twice.
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
    /// its body was asked for
    asked: bool,
    /// the number of its hold, which the disk is to know before it leaves
    hold: u64,
}

impl Stored {
    fn new(mut shelf: Shelf) -> Self {
        let changed = std::mem::take(&mut shelf.changed);
        let subscription = shelf.subscription.take();
        let resuming = std::mem::take(&mut shelf.resuming);
        let temporary = shelf.temporary.take();
        Self {
            shelf,
            fetching: VecDeque::new(),
            fetching_bytes: 0,
            changed,
            echoes: HashMap::new(),
            awaits: false,
            touched: false,
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

impl Stored {
    /// It has messages, or links that may be resumed.
    pub(super) fn is_used(&self) -> bool {
        !self.shelf.queue.is_empty() || !self.resuming.is_empty()
    }

    /// A consumer attaches, unless the queue refuses it.
    pub(super) fn attach(&mut self, key: Key, consuming: &Consuming) -> Result<ConsumerId, Refused> {
        self.shelf.queue.attach(&Consume {
            key: key.pack(),
            name: consuming.name,
            priority: consuming.priority,
            selects: consuming.selector.is_some(),
            browses: consuming.browses,
            exclusive: consuming.exclusive,
        })
    }

    /// Whether there may be something for a consumer that was not handed out yet.
    pub(super) fn has_for(&self, id: ConsumerId) -> bool {
        self.shelf.queue.has_for(id)
    }

    /// Messages may pass one that cannot be read.
    fn may_be_passed(&self) -> bool {
        let settings = self.shelf.queue.settings();
        !settings.last_value && settings.sharing != Sharing::SingleActive
    }

    /// A drain cannot be answered before what is under way has come.
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
    pub fn shelve(&mut self, declared: Declared, mut shelf: Shelf, links: &mut impl Links) {
        let key = self.address(declared);
        if self.addresses[key].stored.is_some() {
            return;
        }
        let (effects, damaged) = (std::mem::take(&mut shelf.effects), std::mem::take(&mut shelf.damaged));
        let (orphans, lost) = (std::mem::take(&mut shelf.orphans), std::mem::take(&mut shelf.lost));
        let (name, log) = (Arc::clone(&shelf.name), shelf.log);
        shelf.resuming.begin(self.now_ms);
        self.addresses[key].stored = Some(Box::new(Stored::new(shelf)));
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
        self.tend(key, links);
        self.join_topic(key, links);
    }

    /// A stored address goes by other settings from now on.
    pub fn reshelve(
        &mut self,
        key: AddressKey,
        settings: Settings,
        dead_letter: Option<AddressKey>,
        expiry: Option<AddressKey>,
        last_value_key: Option<Box<str>>,
        links: &mut impl Links,
    ) {
        let Some(key) = self.by_key.get(&key).copied() else { return };
        let Some(stored) = self.addresses[key].stored.as_mut() else { return };
        stored.shelf.queue.reconfigure(settings);
        (stored.shelf.dead_letter, stored.shelf.expiry) = (dead_letter, expiry);
        stored.shelf.last_value_key = last_value_key;
        self.tend(key, links);
    }

    /// The figures of every stored address that lives here. Those of a topic are those of its subscriptions that are not
    /// declared.
    pub fn queue_figures(&self) -> impl Iterator<Item = (AddressKey, Figures)> {
        let figures = |key: Key| {
            let address = &self.addresses[key];
            let queue = address.stored.as_ref().map(|stored| stored.shelf.queue.figures());
            queue.or_else(|| address.topic.as_ref().map(|topic| topic.past))
        };
        let join = |sum: &mut Option<Figures>, more: &Option<Figures>| {
            if let (Some(sum), Some(more)) = (sum, more) {
                sum.join(more);
            }
        };
        self.sum(figures, join).into_iter().filter_map(|(key, figures)| Some((key, figures?)))
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

    /// Bytes of bodies that were read from the disk, or asked for, and are needed still.
    #[must_use]
    pub fn fetched_bytes(&self) -> u64 {
        self.bodies.fetched_bytes()
    }

    /// The time of day, in milliseconds since 1970; what runs backwards is passed over.
    pub fn set_time(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        self.bodies.set_time(self.now_ms);
    }

    /// When [`Router::turn`] has something to do that nobody else asks for, in milliseconds since 1970.
    #[must_use]
    pub fn next_timeout(&self) -> Option<u64> {
        let starving = !self.starving.is_empty() && !self.bodies.is_full();
        if !self.later.is_empty() || self.operations.is_due(self.journal.is_compacting()) || starving {
            return Some(self.now_ms);
        }
        let timer = self.timers.keys().next().map(|(at, _)| *at);
        let others = [self.transactions.next_look(), self.journal.next_timeout(), self.bodies.next_retry()];
        others.into_iter().flatten().chain(timer).min()
    }

    /// Does what time has brought, and for stored addresses what a turn before had no time for.
    pub(super) fn turn_timed(&mut self, links: &mut impl Links) {
        while let Some((&(at_ms, address), &key)) = self.timers.first_key_value() {
            if at_ms > self.now_ms {
                break;
            }
            self.timers.remove(&(at_ms, address));
            let Some(address) = self.addresses.get_mut(key) else { continue };
            let Some(stored) = address.stored.as_mut() else {
                if address.stream.is_some() {
                    self.stream_timeout(key, links);
                } else {
                    self.look_for_laggards(key, links);
                }
                continue;
            };
            stored.armed_ms = None;
            let mut effects = std::mem::take(&mut self.effects);
            stored.shelf.queue.timeout(self.now_ms, &mut |effect| effects.push(effect));
            self.effects = effects;
            self.give_links_up(key, links);
            self.tend(key, links);
        }
        self.end_idle_transactions(links);
        self.journal.offer_again(self.now_ms);
        self.bodies.retry_reads();
        for key in std::mem::take(&mut self.later) {
            if self.addresses.get(key).is_some() {
                self.tend(key, links);
            }
        }
    }

    /// Something has happened to a stored address: it is looked after before the turn ends, once for all that happens
    /// until then.
    #[inline]
    pub(super) fn touch(&mut self, key: Key) {
        if let Some(stored) = self.addresses.get_mut(key).and_then(|address| address.stored.as_mut())
            && !std::mem::replace(&mut stored.touched, true)
        {
            self.touched.push(key);
        }
    }

    /// Looks after the stored addresses to which something has happened; to be said before the turn ends.
    pub fn tend_touched(&mut self, links: &mut impl Links) {
        while !self.touched.is_empty() {
            for key in std::mem::take(&mut self.touched) {
                let stored = self.addresses.get_mut(key).and_then(|address| address.stored.as_mut());
                if let Some(stored) = stored {
                    stored.touched = false;
                    self.tend(key, links);
                }
            }
        }
    }

    /// After anything that may have changed a queue: does what it said, hands out, tells producers, sets the clock.
    pub(super) fn tend(&mut self, key: Key, links: &mut impl Links) {
        if self.addresses[key].stream.is_some() {
            return self.tend_stream(key, links);
        }
        self.do_effects(key, links);
        self.hand_out_stored(key, links);
        self.do_effects(key, links);
        self.finish_drains(key, links);
        self.tell_room(key, links);
        self.arm(key);
    }

    fn finish_drains(&mut self, key: Key, links: &mut impl Links) {
        let Some(stored) = self.addresses[key].stored.as_mut() else { return };
        for consumer in std::mem::take(&mut stored.draining) {
            if self.consumers.get(consumer).is_some() {
                self.finish_drain(consumer, links);
            }
        }
    }

    /// The address waits for bodies from the disk.
    pub(super) fn await_bodies(&mut self, key: Key) {
        let address = &mut self.addresses[key];
        let stored = address.stored.as_mut().map(|stored| &mut stored.awaits);
        let awaits = stored.or(address.stream.as_mut().map(|stream| &mut stream.awaits));
        if let Some(awaits) = awaits
            && !std::mem::replace(awaits, true)
        {
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
            // What followed from them is in a new list, unless nothing did.
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
                if let Some(log) = self.addresses[key].stored.as_ref().and_then(|stored| stored.shelf.log) {
                    self.journal.count_failures(log, item.id.0, item.failures, due);
                }
            }
        }
    }

    /// A message is gone from its queue: its body goes, and the log forgets it.
    fn forget_stored(&mut self, key: Key, item: &Item) {
        self.unhold(key, item.seq);
        let Some(stored) = self.addresses[key].stored.as_mut() else { return };
        // As a rule none is, and then not even a hash is worth its time.
        let changed = if stored.changed.is_empty() { None } else { stored.changed.remove(&item.seq.0) };
        match stored.shelf.log {
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

    /// Producers hold back when the queue is full, and go on at three quarters.
    fn tell_room(&mut self, key: Key, links: &mut impl Links) {
        let address = &mut self.addresses[key];
        let Some(stored) = address.stored.as_mut() else { return };
        let (room, here) = (stored.shelf.queue.room(0), stored.shelf.queue.len() as u64);
        // Whatever the bound is in, what is here and the room are all that fits.
        let open = if stored.open { room > 0 } else { room.saturating_mul(3) > here };
        if open != stored.open {
            stored.open = open;
            self.tell_producers(key, open, links);
        }
        if self.addresses[key].stored.as_ref().is_some_and(|stored| stored.temporary.is_some()) {
            self.share_room(key, links);
        }
        self.press(key, links);
    }

    /// The credit of an address opens or closes; those that send without it are held instead.
    pub(super) fn tell_producers(&mut self, key: Key, open: bool, links: &mut impl Links) {
        for at in 0..self.addresses[key].producers.len() {
            let key = self.addresses[key].producers[at];
            let producer = &self.producers[key];
            if producer.anonymous {
                self.weigh_producer(key, producer.waiting_bytes, links);
            } else {
                links.open(producer.port, open);
            }
        }
    }

    pub(super) fn arm(&mut self, key: Key) {
        let address = &mut self.addresses[key];
        let Some(stored) = address.stored.as_mut() else { return };
        let next = [stored.shelf.queue.next_timeout(), stored.stall_timeout(), stored.resuming.next_timeout()]
            .into_iter()
            .flatten()
            .min();
        if next == stored.armed_ms {
            return;
        }
        if let Some(before) = stored.armed_ms {
            self.timers.remove(&(before, address.declared.key));
        }
        stored.armed_ms = next;
        if let Some(next) = next {
            self.timers.insert((next, address.declared.key), key);
        }
    }

    /// The address has no place for a link.
    pub(super) fn turn_away(&mut self, port: PortId, refused: Error, links: &mut impl Links) {
        self.detach(port, links);
        links.attached(port, Err(refused));
    }

    /// A consumer has gone; what it held was settled before, what was on its way to it waits again.
    pub(super) fn leave_queue(&mut self, at: Key, id: ConsumerId) {
        let Some(stored) = self.addresses[at].stored.as_mut() else { return };
        stored.shelf.queue.detach(id);
    }

    /// The address is deleted: so are its messages.
    pub(super) fn clear_shelf(&mut self, key: Key) {
        let address = &mut self.addresses[key];
        let Some(stored) = address.stored.take() else { return };
        if let Some(armed) = stored.armed_ms {
            self.timers.remove(&(armed, address.declared.key));
        }
        for Fetching { item, .. } in stored.fetching.iter().filter(|fetching| fetching.asked) {
            self.bodies.unfetch(item.place);
        }
        match stored.shelf.log {
            Some(log) => {
                let (waits, retired) = (self.waiting_to_leave(key), self.retired_in(key));
                // The removal of what leaves is written with the message it becomes, that of what is retired with its commit.
                let gone = |item: &Item| match item.state {
                    State::Leaving => !waits.contains(&item.seq),
                    State::Retiring => retired.contains(&item.seq),
                    _ => false,
                };
                let queue = &stored.shelf.queue;
                let leaving = queue.iter(Seq(0)).filter(|item| item.state == State::Leaving && gone(item));
                self.journal.note_leaving(key, leaving);
                self.journal.drop_queue(log, queue, gone);
            }
            None => {
                // What a commit is about to bring has no place here yet.
                let here = stored.shelf.queue.iter(Seq(0)).filter(|item| item.state != State::Offered);
                here.for_each(|item| self.bodies.free(item.place));
            }
        }
    }
}
