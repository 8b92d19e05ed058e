//! Attach and detach of links, and deletion of addresses.

use enmasse_amqp::types::{Error, Fields, Outcome};
use std::borrow::Cow;
use std::sync::Arc;

use super::address::Address;
use super::arena::{Arena, Key};
use super::attachment::Occupant;
use super::consumer::{Consumer, Outgoing};
use super::message::SettlementTarget;
use super::outcome::{Retiring, token_of};
use super::producer::{Incoming, Producer};
use super::treatment::Treatment;
use super::{
    AddressKey, AddressKind, AttachmentId, AttachmentRole, Consuming, Declared, Ending, Guarantee, Links, Origin,
    Resume, Router, ToLink,
};

impl Router {
    /// Attaches a link to an address, which is created on first use. [`ToLink::Attached`] confirms
    /// it. The previous occupant of the attachment's slot is detached.
    pub fn attach(
        &mut self,
        attachment: AttachmentId,
        address: Declared,
        role: AttachmentRole,
        links: &mut impl Links,
    ) {
        if let Some(before) = self.attachments.occupant(attachment) {
            self.detach(before, links);
        }
        if self.has_ended(address.key) {
            return self.refuse_deleted(attachment, address.key, links);
        }
        let key = self.address(address);
        if self.is_sealed(key) {
            return self.refuse_sealed(attachment, address.key, links);
        }
        match role {
            AttachmentRole::Producer { anonymous, name, producer_name, resume } => {
                let resume = resume.filter(|_| self.resumes_links(key));
                self.steal_sender(key, resume.as_deref(), links);
                let place = self.addresses[key].producers.len();
                let producer = Producer { producer_name, ..Producer::new(attachment, key, place, anonymous, name) };
                self.attach_producer(key, producer, resume, links);
            }
            AttachmentRole::Consumer { filter, mut consuming } => {
                let at = match address.kind {
                    AddressKind::Topic => {
                        let topic = (address, key);
                        // The link is refused, or waits for another home.
                        let Some(at) = self.attach_to_topic(attachment, topic, filter.as_ref(), &mut consuming, links)
                        else {
                            return;
                        };
                        at
                    }
                    _ => key,
                };
                consuming.resume = consuming.resume.filter(|_| self.resumes_links(at));
                self.steal_receiver(at, consuming.resume.as_deref(), links);
                let place = self.addresses[at].consumers.len();
                let filter = filter.filter(|_| matches!(address.kind, AddressKind::Multicast | AddressKind::Stream));
                let mut consumer = Consumer::new(attachment, at, place, filter);
                consumer.guarantee = consuming.guarantee;
                if address.kind == AddressKind::Multicast {
                    consumer.no_local = consuming.no_local.take().map(Box::new);
                }
                self.attach_consumer(at, consumer, consuming, links);
            }
        }
    }

    pub(super) fn address(&mut self, declared: Declared) -> Key {
        let Self { by_key, addresses, received, .. } = self;
        let key = *by_key
            .entry(declared.key)
            .or_insert_with(|| addresses.insert(Address::new(declared, received.open(declared.space))));
        debug_assert_eq!(self.addresses[key].declared.kind, declared.kind, "another kind is another address");
        self.addresses[key].declared = declared;
        key
    }

    fn attach_producer(
        &mut self,
        at: Key,
        mut producer: Producer,
        resume: Option<Box<Resume>>,
        links: &mut impl Links,
    ) {
        producer.matching = self.matching(at, &producer);
        let address = &mut self.addresses[at];
        // The previous epoch forces the first message to build the audience.
        producer.audience_epoch = address.epoch.wrapping_sub(1);
        let admitted = address.treatment.attach_producer(address.producers.len());
        producer.counted = admitted == Ok(true);
        let properties = address.treatment.properties();
        let (attachment, open) = (producer.attachment, address.open_to(&producer));
        let anonymous = producer.anonymous;
        let key = self.producers.insert(producer);
        address.producers.push(key);
        self.attachments.set(attachment, Occupant::Producer(key));
        if let Err(refused) = admitted {
            return self.refuse_attachment(attachment, refused, links);
        }
        if let Some(resume) = resume {
            return self.resume_producer(key, *resume, links);
        }
        links.send(ToLink::Attached { attachment, answer: Ok(properties) });
        if !anonymous {
            self.report_room(at, attachment, links);
            links.send(ToLink::Open { attachment, open });
        }
        self.update_producer_back_pressure(key, 0, links);
    }

    pub(super) fn attach_consumer(
        &mut self,
        at: Key,
        consumer: Consumer,
        consuming: Consuming,
        links: &mut impl Links,
    ) {
        let filter = consumer.filter.clone();
        let attachment = consumer.attachment;
        let key = self.consumers.insert(consumer);
        let address = &mut self.addresses[at];
        address.consumers.push(key);
        address.epoch = address.epoch.wrapping_add(1);
        self.attachments.set(attachment, Occupant::Consumer(key));
        self.count_consumers(at, 1);
        match &self.addresses[at].treatment {
            Treatment::Queue(_) => self.attach_to_queue(at, key, consuming, links),
            Treatment::Stream(_) => self.attach_to_stream(at, key, &consuming, filter, links),
            Treatment::Anycast(_) | Treatment::Multicast(_) | Treatment::Topic(_) | Treatment::Closed => {
                links.send(ToLink::Attached { attachment, answer: Ok(Fields::new()) });
                let Self { addresses, producers, consumers, .. } = self;
                audience_changed(&mut addresses[at], producers, &consumers[key], 1, links);
            }
        }
    }

    /// Changes what the deliveries to a consumer are due; those before are not concerned.
    pub fn set_guarantee(&mut self, attachment: AttachmentId, guarantee: Guarantee) {
        if let Some(key) = self.attachments.consumer(attachment) {
            self.consumers[key].guarantee = guarantee;
        }
    }

    /// The number of consumers of an address that do not get all messages and get those of a producer.
    fn matching(&self, at: Key, producer: &Producer) -> u32 {
        let consumers = self.addresses[at].consumers.iter().map(|key| &self.consumers[*key]);
        consumers.filter(|consumer| !consumer.takes_all() && producer.reaches(consumer)).count() as u32
    }

    /// Sets the origin of the messages of a producer of a topic or multicast, before the first of
    /// them.
    pub fn set_origin(&mut self, attachment: AttachmentId, origin: Origin, links: &mut impl Links) {
        let Some(key) = self.attachments.producer(attachment) else { return };
        self.producers[key].origin = Some(Arc::new(origin));
        let at = self.producers[key].address;
        let matching = self.matching(at, &self.producers[key]);
        let (producer, address) = (&mut self.producers[key], &self.addresses[at]);
        let was_open = address.open_to(producer);
        producer.matching = matching;
        let open = address.open_to(producer);
        if open != was_open && !producer.anonymous {
            links.send(ToLink::Open { attachment, open });
        }
    }

    /// Refuses a link, and detaches it.
    pub(super) fn refuse_attachment(&mut self, attachment: AttachmentId, refused: Error, links: &mut impl Links) {
        self.detach(attachment, links);
        links.send(ToLink::Attached { attachment, answer: Err(refused) });
    }

    /// As [`Router::depart`], for a link without unsettled deliveries or one that the node ends.
    pub fn detach(&mut self, attachment: AttachmentId, links: &mut impl Links) {
        self.depart(attachment, Ending::ByNode, links);
    }

    /// Ends a link. A producer's incomplete delivery is aborted; its waiting messages are still
    /// delivered, and their outcomes are dropped. The caller first returns a consumer's unsettled
    /// deliveries ([`Router::relinquish`]), except for those of a resumable link, which are kept
    /// for it.
    pub fn depart(&mut self, attachment: AttachmentId, ending: Ending, links: &mut impl Links) {
        match self.attachments.get(attachment) {
            Occupant::Producer(key) => {
                self.suspend_sender(key, false);
                self.detach_producer(key, links);
            }
            Occupant::Consumer(key) => {
                let at = self.consumers[key].address;
                self.suspend(key, ending, links);
                self.detach_consumer(key, links);
                self.end_link_scoped(at, false, links);
            }
            Occupant::Vacant | Occupant::Detached(_) => self.forget_waiting_link(attachment),
        }
    }

    /// As [`Router::depart`], for a link that its client closed: its resumable state is released,
    /// and its durable subscription ends with it, unless other links use it.
    pub fn unsubscribe(&mut self, attachment: AttachmentId, links: &mut impl Links) {
        let at = self.attachments.consumer(attachment).map(|key| self.consumers[key].address);
        match self.attachments.get(attachment) {
            Occupant::Producer(key) => self.suspend_sender(key, true),
            Occupant::Consumer(key) => self.release_resumable(key, links),
            Occupant::Vacant | Occupant::Detached(_) => {}
        }
        self.depart(attachment, Ending::ByClient, links);
        if let Some(at) = at {
            self.end_link_scoped(at, true, links);
        }
    }

    fn detach_producer(&mut self, key: Key, links: &mut impl Links) {
        if let Incoming::Message(message) = self.producers[key].incoming {
            self.abort(message, links);
        }
        self.drop_assembly(key);
        let Some(producer) = self.producers.remove(key) else { return };
        let address = &mut self.addresses[producer.address];
        if producer.counted {
            address.treatment.detach_producer();
        }
        address.producers.swap_remove(producer.place);
        if let Some(moved) = address.producers.get(producer.place) {
            self.producers[*moved].place = producer.place;
        }
        self.attachments.set(producer.attachment, Occupant::Detached(address.declared.key));
        // The anonymous link itself remains, and all its attachments share its window.
        if producer.anonymous
            && let Ok(count @ 1..) = u32::try_from(i64::from(producer.taken) + i64::from(producer.waiting))
        {
            links.send(ToLink::Taken { attachment: producer.attachment, count });
        }
    }

    fn detach_consumer(&mut self, key: Key, links: &mut impl Links) {
        self.end_selection(key);
        self.leave_stream(key);
        self.leave_queue(key);
        let consumer = &mut self.consumers[key];
        let (attachment, at, place) = (consumer.attachment, consumer.address, consumer.place);
        let address = &mut self.addresses[at];
        address.treatment.set_unready(key, &mut self.consumers);
        address.consumers.swap_remove(place);
        self.count_consumers(at, -1);
        let address = &mut self.addresses[at];
        address.epoch = address.epoch.wrapping_add(1);
        if let Treatment::Multicast(multicast) = &mut address.treatment {
            multicast.overdue -= u32::from(self.consumers[key].is_overdue());
        }
        if let Some(moved) = address.consumers.get(place) {
            self.consumers[*moved].place = place;
        }
        self.attachments.set(attachment, Occupant::Detached(address.declared.key));
        self.abandon_delivery(key, links);
        while let Some(message) = self.consumers[key].backlog.pop_front() {
            self.skip_copy(key, message, links);
        }
        let Some(gone) = self.consumers.remove(key) else { return };
        match self.addresses[at].treatment {
            Treatment::Queue(_) => return self.process(at, links),
            Treatment::Stream(_) => return,
            Treatment::Anycast(_) if self.addresses[at].consumers.is_empty() => self.release_waiting(at, links),
            Treatment::Anycast(_) | Treatment::Multicast(_) | Treatment::Topic(_) | Treatment::Closed => {}
        }
        audience_changed(&mut self.addresses[at], &mut self.producers, &gone, -1, links);
    }

    /// Ends the incomplete delivery of a consumer that detaches. A delivery with a token is
    /// answered when its outcome is reported.
    fn abandon_delivery(&mut self, key: Key, links: &mut impl Links) {
        let Outgoing::Message { message, token, .. } = self.consumers[key].outgoing else { return };
        let state = &mut self.direct.messages[message];
        state.forget_reader(key);
        let address = state.address;
        if token.is_none() {
            self.drop_copy(SettlementTarget::Nothing, address, links);
        }
        self.unread(message, links);
        self.unref(message, links);
    }

    /// Deletes an address. Waiting and unsettled messages are released, and all its attachments are
    /// detached and closed with `error`. Later deliveries of its producers are released.
    pub fn delete_address(&mut self, key: AddressKey, error: &Error, links: &mut impl Links) {
        let Some(at) = self.by_key.get(&key).copied() else { return };
        self.end_subscriptions(at, error, links);
        self.by_key.remove(&key);
        self.storage.forget_damaged(key);
        self.release_anonymous(at, links);
        match std::mem::replace(&mut self.addresses[at].treatment, Treatment::Closed) {
            Treatment::Queue(queue) => self.clear_queue(at, &queue),
            Treatment::Stream(stream) => {
                let Address { declared, account, .. } = &self.addresses[at];
                stream.clear(declared.key, *account, (&mut self.schedule, &mut self.received, &mut self.storage));
                stream.gathered_packet_ids().for_each(|kept| self.packet_id_abandoned(&kept));
            }
            // A topic has no messages of its own. Those of a direct address are released with its
            // consumers.
            direct => self.addresses[at].treatment = direct,
        }
        let address = &self.addresses[at];
        let consumers: Vec<AttachmentId> =
            address.consumers.iter().map(|key| self.consumers[*key].attachment).collect();
        let producers: Vec<AttachmentId> =
            address.producers.iter().map(|key| self.producers[*key].attachment).collect();
        for key in &address.consumers {
            // Releasing a delivery must not dispatch another one.
            self.consumers[*key].blocked = true;
        }
        self.release_unsettled(at, links);
        for attachment in consumers.iter().chain(&producers) {
            self.detach(*attachment, links);
            links.send(ToLink::Close { attachment: *attachment, error: Cow::Borrowed(error) });
        }
        self.received.close(self.addresses[at].account);
        self.addresses.remove(at);
    }

    /// Releases the waiting messages of anonymous links. Those links remain, and would get no other
    /// answer.
    fn release_anonymous(&mut self, at: Key, links: &mut impl Links) {
        let producers = self.addresses[at].producers.iter().copied();
        let anonymous: Vec<Key> = producers.filter(|key| self.producers[*key].anonymous).collect();
        if anonymous.is_empty() {
            return;
        }
        let mut settlement = self.storage.journal.take_settlements(at);
        settlement.extend(self.take_waiting_settlements(at));
        for from in anonymous {
            if let Some(assembly) = self.take_assembly(from) {
                self.release_assembly(at, &assembly, links);
                self.taken(from, 1);
            }
        }
        for settlement in settlement {
            if let SettlementTarget::Producer { attachment, .. } = settlement
                && self.attachments.producer(attachment).is_some_and(|from| self.producers[from].anonymous)
            {
                self.answer(settlement, at, &Outcome::Released, links);
            }
        }
    }

    fn release_unsettled(&mut self, at: Key, links: &mut impl Links) {
        if self.addresses[at].unsettled == 0 {
            return;
        }
        let mine = self.pending.iter().filter(|(_, pending)| pending.address == at);
        let tokens: Vec<u64> = mine.map(|(key, _)| token_of(self.shard, key)).collect();
        for token in tokens {
            // The message is deleted, so a transaction cannot decide about it any more.
            if let Some(pending) = self.pending.get_mut(Key::unpack(token)) {
                pending.retiring = Retiring::No;
            }
            self.relinquish_one(token, Ending::ByNode, false, links);
        }
    }
}

/// A consumer attached (`change` is 1) or detached (-1): notifies the producers that got their first
/// consumer or lost their last one.
fn audience_changed(
    address: &mut Address,
    producers: &mut Arena<Producer>,
    consumer: &Consumer,
    change: i32,
    links: &mut impl Links,
) {
    let before = address.takers_of_all;
    let takes_all = consumer.takes_all();
    if takes_all {
        address.takers_of_all = before.wrapping_add_signed(change);
        if before.min(address.takers_of_all) > 0 {
            return;
        }
    }
    for key in &address.producers {
        let producer = &mut producers[*key];
        let was_open = before > 0 || producer.matching > 0;
        if !takes_all && producer.reaches(consumer) {
            producer.matching = producer.matching.wrapping_add_signed(change);
        }
        let open = address.open_to(producer);
        if open != was_open && !producer.anonymous {
            links.send(ToLink::Open { attachment: producer.attachment, open });
        }
    }
}
