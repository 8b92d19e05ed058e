//! Publications: the queues that want a message admit it, and store it together.

use enmasse_amqp::selector::Subject;
use enmasse_amqp::types::{Error, Outcome};
use enmasse_journal::queue::{Admission, Head, Item, Refusal, Seq};
use smallvec::SmallVec;

use super::super::arena::Key;
use super::super::arriving::{Arriving, read, refused};
use super::super::ids::Joint;
use super::super::posting::{Posted, PostingTreatment, Retaining, Retention};
use super::super::storage::{Commit, CommitNote, Completion, LaneId};
use super::super::{Links, Origin, Router};
use super::retained::RetainedElsewhere;

/// The queues of a message.
#[derive(Debug, Default)]
struct Wanted {
    /// they store it
    queues: SmallVec<[Key; 4]>,
    /// slow subscriptions that miss it
    missed: SmallVec<[Key; 2]>,
}

impl Router {
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
        let elsewhere = self.retaining_elsewhere(at, retention);
        self.addresses[at].stats.dropped += u64::from(posted.is_unwanted() && elsewhere.is_none());
        let account = self.addresses[at].account;
        let completion = Completion { producer: from, settlement, address: at, account, bytes: body.len(), from: None };
        if elsewhere.is_some() || self.is_joint() && !posted.disk.is_empty() {
            self.store_jointly(posted, body, completion, elsewhere, links);
            self.take_window(from, body.len(), links);
        } else if self.store_posted(posted, body, completion, None, links) {
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
        self.store_in_memory(memory, body, links);
        disk.iter().for_each(|(at, ..)| self.update_room(*at, links));
        !disk.is_empty()
    }

    /// As [`Router::store_posted`], as a part of joint groups: with the retained message at another
    /// home, and with the packet identifier of the publication there. Subscriptions in memory have the
    /// message at once, so that it is not overtaken by later ones of no group.
    fn store_jointly(
        &mut self,
        posted: Posted,
        body: &[u8],
        completion: Completion,
        retained: Option<RetainedElsewhere>,
        links: &mut impl Links,
    ) {
        let Posted { disk, memory, .. } = posted;
        let at = completion.address;
        let retained = retained.map(|retained| self.hand_over_retained(at, retained, body, links));
        let identified = self.take_joint().map(|(joint, _)| joint);
        debug_assert!(self.packet_id.is_none(), "records and retained messages have one home");
        let joints: SmallVec<[Joint; 2]> = retained.into_iter().chain(identified).collect();
        let Some((joint, joins)) = joints.split_first() else {
            debug_assert!(false, "the caller has found a group");
            return;
        };
        self.storage.journal.begin_part(LaneId::of_space(self.addresses[at].declared.space));
        if disk.is_empty() {
            self.storage.journal.add_departure(None, completion);
        } else {
            disk.iter().for_each(|(at, ..)| self.declare_in_part(*at));
            let completions = std::iter::once(completion).chain(std::iter::repeat(Completion::NONE));
            let queues = disk.iter().zip(completions);
            let queues = queues
                .map(|((at, log, admitted), completion)| (*log, admitted, Commit::new(*at, admitted.seq, completion)));
            self.storage.journal.post(queues.collect(), body);
        }
        self.storage.journal.end_joining_part(*joint, joins);
        self.store_in_memory(memory, body, links);
        disk.iter().for_each(|(at, ..)| self.update_room(*at, links));
    }

    /// Stores a message in the queues in memory that admitted it.
    fn store_in_memory(&mut self, memory: SmallVec<[(Key, Seq); 2]>, body: &[u8], links: &mut impl Links) {
        if memory.is_empty() {
            return;
        }
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
}
