//! Topics: every matching subscription stores a message, which is kept at most once on disk and
//! once in memory for all of them.
//!
//! A subscription is a queue (`subscription`). A producer is answered when the subscriptions on
//! disk have stored the message; it is accepted at once if all are in memory, or none matches. If
//! one subscription refuses the message (`onFull: reject`), none stores it.

mod filter_tree;
mod passing;
mod retained;
mod subscription;

use std::collections::BTreeSet;
use std::sync::Arc;

use enmasse_amqp::selector::Subject;
use enmasse_amqp::types::{Error, Outcome};
use enmasse_journal::queue::{Admission, Full, Head, Item, QueueStats, Refusal, Settings};
use smallvec::SmallVec;

use super::OpenQueue;
use super::arena::Key;
use super::arriving::{Arriving, read, refused};
use super::posting::{Posted, PostingTreatment, Retention};
use super::queue::temporary_settings;
use super::storage::{Commit, CommitNote, Completion};
use super::{AddressKey, AddressStats, Declared, Destination, Links, Origin, Router};

use filter_tree::FilterTree;
use retained::Retaining;
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
    pub(in crate::core) retained: Option<AddressKey>,
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
    pub fn with_retained(mut self, retained: Option<AddressKey>) -> Self {
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

/// The queues of a message.
#[derive(Debug, Default)]
struct Wanted {
    /// they store it
    queues: SmallVec<[Key; 4]>,
    /// slow subscriptions that miss it
    missed: SmallVec<[Key; 2]>,
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

    /// Processes a whole message for a topic.
    pub(in crate::core) fn receive_into_topic(
        &mut self,
        from: Key,
        arriving: &Arriving,
        body: &[u8],
        links: &mut impl Links,
    ) {
        match &self.head_for_topic(from, arriving.message_format, body) {
            Ok((head, retention)) if arriving.transaction.is_some() => {
                let treatment = PostingTreatment::Topic(*retention);
                self.add_posting(from, arriving, (head, treatment, body), links);
            }
            Ok((head, retention)) => self.publish(from, arriving, (head, *retention, body), links),
            Err(error) => self.refuse(from, arriving, error.clone(), links),
        }
    }

    /// The properties of a message that any subscription may need, and whether it is retained.
    fn head_for_topic(&self, from: Key, message_format: u32, body: &[u8]) -> Result<(Head, Option<Retention>), Error> {
        let envelope = &read(message_format, body)?;
        let retention = self.retention(from, envelope, body)?;
        let producer_name = self.producers[from].producer_name.as_deref();
        let message_id = envelope.message_id.map(|id| self.storage.digests.long(id));
        Ok((Head { message_id, ..self.head_of_envelope(envelope, body.len(), producer_name) }, retention))
    }

    /// Publishes a message to the subscriptions of its topic.
    fn publish(
        &mut self,
        from: Key,
        arriving: &Arriving,
        (head, retention, body): (&Head, Option<Retention>, &[u8]),
        links: &mut impl Links,
    ) {
        let (at, settlement) = (self.producers[from].address, arriving.settlement);
        let audience = self.audience_by_name(from);
        let posted = self.post_or_pass(&audience, (head, body), self.retaining(at, retention), links);
        self.producers[from].audience = audience;
        let posted = match posted {
            Ok(posted) => posted,
            Err(refusal) => return self.refuse(from, arriving, refused(refusal), links),
        };
        self.addresses[at].stats.dropped += u64::from(posted.is_unwanted());
        let account = self.addresses[at].account;
        let completion = Completion { producer: from, settlement, address: at, account, bytes: body.len(), from: None };
        if self.store_posted(posted, body, completion, None, links) {
            self.take_window(from, body.len(), links);
        } else {
            self.store_packet_id();
            self.answer(settlement, at, &Outcome::Accepted, links);
            self.taken(from, 1);
        }
    }

    /// Takes the cached subscriptions whose filters match the messages of a producer. The caller
    /// puts the list back.
    fn audience_by_name(&mut self, from: Key) -> Vec<Key> {
        let mut audience = std::mem::take(&mut self.producers[from].audience);
        let producer = &self.producers[from];
        let address = &self.addresses[producer.address];
        if producer.audience_epoch != address.epoch {
            audience.clear();
            let (name, origin) = (producer.name.as_deref(), producer.origin.as_deref());
            let topic = self.addresses.topic(producer.address);
            topic.filters.find(name, |key| audience.extend(self.wants_from(key, name, origin).then_some(key)));
            self.producers[from].audience_epoch = address.epoch;
        }
        audience
    }

    /// The queues that store a message sent to the own name of `at`: itself, or its subscriptions.
    pub(in crate::core) fn audience_of(&self, at: Key) -> Vec<Key> {
        self.audience_named(at, self.addresses.find_topic(at).map(|topic| &*topic.opened.name), None)
    }

    /// As above, for a message sent to `name` from `origin`.
    pub(in crate::core) fn audience_named(&self, at: Key, name: Option<&str>, origin: Option<&Origin>) -> Vec<Key> {
        // A queue is its own audience.
        let Some(topic) = self.addresses.find_topic(at) else { return vec![at] };
        let mut audience = Vec::new();
        topic.filters.find(name, |key| audience.extend(self.wants_from(key, name, origin).then_some(key)));
        audience
    }

    /// Whether a subscription may want a message.
    fn wants_from(&self, at: Key, name: Option<&str>, origin: Option<&Origin>) -> bool {
        self.addresses.subscription(at).is_none_or(|subscription| subscription.wants_from(name, origin))
    }

    /// Lets every matching queue of `audience` admit a message, and the queue that retains it: all
    /// of them, or none if one refuses it. [`Router::store_posted`] must follow.
    pub(in crate::core) fn post(
        &mut self,
        audience: &[Key],
        head: &Head,
        body: &[u8],
        retaining: Option<Retaining>,
    ) -> Result<Posted, Refusal> {
        // Numbered producers exist for queues and streams only.
        let head = &Head { producer: None, ..*head };
        let wanted = self.wanted(audience, head, body, retaining)?;
        Ok(self.admit(wanted, (head, body), retaining))
    }

    /// As [`Router::post`], except for subscriptions that need not store the message: their consumers
    /// have it already.
    fn post_or_pass(
        &mut self,
        audience: &[Key],
        (head, body): (&Head, &[u8]),
        retaining: Option<Retaining>,
        links: &mut impl Links,
    ) -> Result<Posted, Refusal> {
        let head = &Head { producer: None, ..*head };
        let mut wanted = self.wanted(audience, head, body, retaining)?;
        let all = wanted.queues.len();
        if head.is_plain() {
            wanted.queues.retain(|key| !self.pass_on(*key, body, links));
        }
        let passed = all - wanted.queues.len();
        Ok(Posted { passed, ..self.admit(wanted, (head, body), retaining) })
    }

    /// Lets the queues that want a message admit it.
    fn admit(
        &mut self,
        Wanted { queues, missed }: Wanted,
        (head, body): (&Head, &[u8]),
        retaining: Option<Retaining>,
    ) -> Posted {
        let now_ms = self.now_ms;
        let mut posted = Posted { missed: missed.len(), ..Posted::default() };
        missed.into_iter().for_each(|key| self.addresses[key].stats.dropped += 1);
        for key in queues {
            let head = self.head_in(key, head, body, retaining);
            let queue = self.addresses.queue_mut(key);
            let messages = &mut queue.opened.messages;
            let admitted = match messages.refusal(&head) {
                // Only a link-scoped subscription gets here, where one message always fits.
                Some(_) => messages.admit(now_ms, &head),
                None => match messages.offer(now_ms, &head) {
                    Admission::Store(admitted) => admitted,
                    Admission::Duplicate { .. } | Admission::Refuse(_) => continue,
                },
            };
            match queue.opened.log {
                Some(log) => posted.disk.push((key, log, admitted)),
                None => posted.memory.push((key, admitted.seq)),
            }
        }
        posted
    }

    /// The queues that store a message; or why one of them refuses it.
    fn wanted(
        &self,
        audience: &[Key],
        head: &Head,
        body: &[u8],
        retaining: Option<Retaining>,
    ) -> Result<Wanted, Refusal> {
        let subject = Subject::new(body).delivery_count(u32::from(head.delivery_count)).at(self.now_ms.cast_signed());
        let Wanted { mut queues, mut missed } = Wanted::default();
        for key in audience.iter().copied().chain(retaining.map(|retaining| retaining.queue)) {
            let queue = self.addresses.queue(key);
            let selector = queue.subscription.as_ref().and_then(|subscription| subscription.selector.as_deref());
            if selector.is_some_and(|selector| !selector.selects(&subject)) {
                continue;
            }
            if queue.is_slow() {
                missed.push(key);
                continue;
            }
            let removes_nothing = |messages: &enmasse_journal::queue::Queue| {
                retaining.is_some_and(|retaining| retaining.queue == key && retaining.removes())
                    && messages.lacks_value(&self.head_in(key, head, body, retaining))
            };
            let refusal = match queue.opened.last_value_key {
                Some(_) => queue.opened.messages.refusal(&self.head_in(key, head, body, retaining)),
                None => queue.opened.messages.refusal(head),
            };
            match refusal {
                // The platform sets the bound of a link-scoped subscription: one message always
                // fits.
                Some(Refusal::LargerThanQueue(_)) if queue.is_link_scoped() => {}
                // There is nothing to remove, and so nothing to store.
                Some(_) if removes_nothing(&queue.opened.messages) => continue,
                Some(refusal) => return Err(refusal),
                None => {}
            }
            queues.push(key);
        }
        Ok(Wanted { queues, missed })
    }

    /// The head of a message in one of its queues.
    fn head_in(&self, at: Key, head: &Head, body: &[u8], retaining: Option<Retaining>) -> Head {
        let mut head = *head;
        if let Some(property) = self.addresses.queue(at).opened.last_value_key.as_deref() {
            head.key = self.storage.digests.property(body, property);
        }
        if let Some(retaining) = retaining.filter(|retaining| retaining.queue == at) {
            retaining.limit_time(&mut head);
        }
        head
    }

    /// Stores a message in the queues that admitted it. Returns whether the log stores it, in one
    /// group with the removal of `removed`; `completion` follows once it is on disk.
    pub(in crate::core) fn store_posted(
        &mut self,
        posted: Posted,
        body: &[u8],
        completion: Completion,
        removed: Option<(u32, &Item)>,
        links: &mut impl Links,
    ) -> bool {
        let Posted { disk, memory, .. } = posted;
        if !disk.is_empty() {
            let mut completion = Some(completion);
            let mut note = self.take_packet_id().map(|kept| Box::new(CommitNote::PacketId(kept)));
            let queues = disk.iter().map(|(at, log, admitted)| {
                let commit = Commit::new(*at, admitted.seq, completion.take().unwrap_or(Completion::NONE));
                (*log, admitted, commit.with_note(note.take()))
            });
            self.storage.journal.store(queues.collect(), body);
            self.storage.journal.seal(removed);
        }
        if !memory.is_empty() {
            let place = self.storage.bodies.put(body, memory.len() as u32);
            for (at, seq) in memory {
                let before = std::mem::take(&mut self.storage.effects);
                let effects = &mut self.storage.effects;
                let queue = self.addresses.queue_mut(at);
                queue.opened.messages.committed(seq, place, &mut |effect| effects.push(effect));
                self.do_effects(at, links);
                self.storage.effects = before;
                self.mark_dirty(at);
            }
        }
        disk.iter().for_each(|(at, ..)| self.update_room(*at, links));
        !disk.is_empty()
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
