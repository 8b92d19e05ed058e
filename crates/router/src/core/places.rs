//! Links that come and go, and addresses that are deleted.

use enmasse_amqp::types::{Error, Fields, Outcome};
use enmasse_journal::queue::Refused;

use super::address::{Address, Consumer, Incoming, Outgoing, Producer};
use super::arena::Key;
use super::message::Owed;
use super::outcome::{Retiring, token_of};
use super::port::Tenant;
use super::stored::{Looking, refusal};
use super::{AddressKey, AddressKind, Consuming, Declared, Ending, Filter, Links, PortId, PortRole, Resume, Router};

impl Router {
    /// A link takes its place at an address, which is made on first use: [`Links::attached`] tells when it has. Who had
    /// the port's slot until now is detached.
    pub fn attach(&mut self, port: PortId, address: Declared, role: PortRole, links: &mut impl Links) {
        if let Some(before) = self.ports.occupant(port) {
            self.detach(before, links);
        }
        if self.has_ended(address.key) {
            return self.refuse_late(port, address.key, links);
        }
        let key = self.address(address);
        if self.is_sealed(key) {
            return self.refuse_sealed(port, address.key, links);
        }
        match role {
            PortRole::Producer { anonymous, name, producer_name, resume } => {
                let resume = resume.filter(|_| self.keeps_links(key));
                self.oust_sender(key, resume.as_deref(), links);
                let place = self.addresses[key].producers.len();
                let producer = Producer { producer_name, ..Producer::new(port, key, place, anonymous, name) };
                self.attach_producer(key, producer, resume, links);
            }
            PortRole::Consumer { filter, mut consuming } => {
                let at = match address.kind {
                    AddressKind::Topic => match self.subscribe(key, filter.clone(), &mut consuming, links) {
                        Ok(at) => at,
                        Err(error) => return links.attached(port, Err(error)),
                    },
                    _ => key,
                };
                consuming.resume = consuming.resume.filter(|_| self.keeps_links(at));
                self.oust_receiver(at, consuming.resume.as_deref(), links);
                let place = self.addresses[at].consumers.len();
                let filter = filter.filter(|_| matches!(address.kind, AddressKind::Multicast | AddressKind::Stream));
                self.attach_consumer(at, Consumer::new(port, at, place, filter), consuming, links);
            }
        }
    }

    pub(super) fn address(&mut self, declared: Declared) -> Key {
        let Self { by_key, addresses, received, .. } = self;
        let key = *by_key
            .entry(declared.key)
            .or_insert_with(|| addresses.insert(Address::new(declared, received.open(declared.space))));
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
        let mut turned_away = None;
        let address = &mut self.addresses[at];
        let filters = address.consumers.iter().filter_map(|key| self.consumers[*key].filter.as_ref());
        producer.matching = filters.filter(|filter| producer.passes(filter)).count() as u32;
        // Its list of consumers is as old as can be.
        producer.audience_epoch = address.epoch.wrapping_sub(1);
        if let Some(stored) = address.stored.as_mut() {
            turned_away = stored.shelf.queue.attach_producer().err().map(|refused| refusal(&refused));
            producer.counted = turned_away.is_none();
        } else if let Some(stream) = address.stream.as_mut() {
            turned_away = stream.attach_producer().err();
            producer.counted = turned_away.is_none();
        }
        if let Some(most) = address.topic.as_ref().map(|topic| topic.settings().limits.producers) {
            let is_full = address.producers.len() >= most as usize;
            turned_away = is_full.then(|| refusal(&Refused::Producers(most)));
        }
        let properties = address.stream.as_ref().map(|stream| stream.properties()).unwrap_or_default();
        let (port, open) = (producer.port, address.open_to(&producer));
        let anonymous = producer.anonymous;
        let key = self.producers.insert(producer);
        address.producers.push(key);
        self.ports.set(port, Tenant::Producer(key));
        if let Some(refused) = turned_away {
            return self.turn_away(port, refused, links);
        }
        if let Some(resume) = resume {
            return self.resume_producer(key, *resume, links);
        }
        links.attached(port, Ok(properties));
        if !anonymous {
            self.tell_new_producer(at, port, links);
            links.open(port, open);
        }
        self.weigh_producer(key, 0, links);
    }

    pub(super) fn attach_consumer(
        &mut self,
        at: Key,
        consumer: Consumer,
        consuming: Consuming,
        links: &mut impl Links,
    ) {
        let filter = consumer.filter.clone();
        let port = consumer.port;
        let key = self.consumers.insert(consumer);
        let address = &mut self.addresses[at];
        address.consumers.push(key);
        address.epoch = address.epoch.wrapping_add(1);
        self.ports.set(port, Tenant::Consumer(key));
        if let Some(stored) = address.stored.as_mut() {
            let mut consuming = consuming;
            let resume = consuming.resume.take();
            match stored.attach(key, &consuming) {
                Ok(id) => {
                    let consumer = &mut self.consumers[key];
                    (consumer.in_queue, consumer.looking) = (Some(id), Looking::of(consuming));
                }
                Err(refused) => return self.turn_away(port, refusal(&refused), links),
            }
            if let Some(resume) = resume {
                return self.resume_consumer(key, &resume, links);
            }
            return self.answer_subscriber(at, port, links);
        }
        if let Some(stream) = address.stream.as_ref() {
            match stream.attach(&consuming, filter, address.consumers.len() - 1) {
                Ok(reading) => self.consumers[key].reading = Some(Box::new(reading)),
                Err(refused) => return self.turn_away(port, refused, links),
            }
            return links.attached(port, Ok(stream.properties()));
        }
        links.attached(port, Ok(Fields::new()));
        self.audience_changed(at, filter.as_ref(), 1, links);
    }

    /// A consumer came (`change` is 1) or went (-1): producers that have their first one now, or none any more, are
    /// told.
    fn audience_changed(&mut self, at: Key, filter: Option<&Filter>, change: i32, links: &mut impl Links) {
        let address = &mut self.addresses[at];
        let before = address.unfiltered;
        if filter.is_none() {
            address.unfiltered = before.wrapping_add_signed(change);
            if before.min(address.unfiltered) > 0 {
                return;
            }
        }
        for key in &address.producers {
            let producer = &mut self.producers[*key];
            let was_open = before > 0 || producer.matching > 0;
            if filter.is_some_and(|filter| producer.passes(filter)) {
                producer.matching = producer.matching.wrapping_add_signed(change);
            }
            let open = address.open_to(producer);
            if open != was_open && !producer.anonymous {
                links.open(producer.port, open);
            }
        }
    }

    /// As [`Router::depart`], of a link that holds nothing or is ended by the node.
    pub fn detach(&mut self, port: PortId, links: &mut impl Links) {
        self.depart(port, Ending::ByNode, links);
    }

    /// A link goes. A producer's delivery in progress is aborted; what it sent and waits is still delivered, and its
    /// outcome goes nowhere. A consumer's unsettled deliveries are given back first ([`Router::relinquish`]), but for those
    /// of a link that can be resumed, which are kept for it.
    pub fn depart(&mut self, port: PortId, ending: Ending, links: &mut impl Links) {
        match self.ports.get(port) {
            Tenant::Producer(key) => {
                self.leave_sender(key, false);
                self.detach_producer(key, links);
            }
            Tenant::Consumer(key) => {
                let at = self.consumers[key].address;
                self.suspend(key, ending, links);
                self.detach_consumer(key, links);
                self.end_with_links(at, false, links);
            }
            Tenant::Nobody | Tenant::Left(_) => {}
        }
    }

    /// As [`Router::depart`], of a link that will not come back, since its client closed it: what is kept for it is given
    /// back, and the durable subscription it was at ends with it, unless others are there.
    pub fn unsubscribe(&mut self, port: PortId, links: &mut impl Links) {
        let at = self.ports.consumer(port).map(|key| self.consumers[key].address);
        match self.ports.get(port) {
            Tenant::Producer(key) => self.leave_sender(key, true),
            Tenant::Consumer(key) => self.forsake(key, links),
            Tenant::Nobody | Tenant::Left(_) => {}
        }
        self.depart(port, Ending::ByClient, links);
        if let Some(at) = at {
            self.end_with_links(at, true, links);
        }
    }

    fn detach_producer(&mut self, key: Key, links: &mut impl Links) {
        if let Incoming::Message(message) = self.producers[key].incoming {
            self.abort(message, links);
        }
        self.drop_assembly(key);
        let Some(producer) = self.producers.remove(key) else { return };
        let address = &mut self.addresses[producer.address];
        match (address.stored.as_mut(), address.stream.as_mut()) {
            (Some(stored), _) if producer.counted => stored.shelf.queue.detach_producer(),
            (_, Some(stream)) if producer.counted => stream.detach_producer(),
            _ => {}
        }
        address.producers.swap_remove(producer.place);
        if let Some(moved) = address.producers.get(producer.place) {
            self.producers[*moved].place = producer.place;
        }
        self.ports.set(producer.port, Tenant::Left(address.declared.key));
        // An anonymous link lives on, and its window is shared by all its ports.
        if producer.anonymous
            && let Ok(count @ 1..) = u32::try_from(i64::from(producer.taken) + i64::from(producer.waiting))
        {
            links.taken(producer.port, count);
        }
    }

    fn detach_consumer(&mut self, key: Key, links: &mut impl Links) {
        self.stop_looking(key);
        self.leave_stream(key);
        if let Some(id) = self.consumers[key].in_queue {
            self.leave_queue(self.consumers[key].address, id);
        }
        let consumer = &mut self.consumers[key];
        let (port, at, place) = (consumer.port, consumer.address, consumer.place);
        let filter = consumer.filter.take();
        let address = &mut self.addresses[at];
        address.set_unready(key, &mut self.consumers);
        address.consumers.swap_remove(place);
        address.epoch = address.epoch.wrapping_add(1);
        address.overdue -= u32::from(self.consumers[key].is_overdue());
        if let Some(moved) = address.consumers.get(place) {
            self.consumers[*moved].place = place;
        }
        self.ports.set(port, Tenant::Left(address.declared.key));
        self.leave_message(key, links);
        while let Some(message) = self.consumers[key].backlog.pop_front() {
            self.forgo(key, message, links);
        }
        self.consumers.remove(key);
        if self.addresses[at].stored.is_some() {
            return self.tend(at, links);
        }
        if self.addresses[at].stream.is_some() {
            return;
        }
        if self.addresses[at].consumers.is_empty() {
            self.release_waiting(at, links);
        }
        self.audience_changed(at, filter.as_ref(), -1, links);
    }

    /// The consumer goes in the middle of a delivery. One with a token is answered when that is reported.
    fn leave_message(&mut self, key: Key, links: &mut impl Links) {
        let Outgoing::Message { message, token, .. } = self.consumers[key].outgoing else { return };
        let state = &mut self.messages[message];
        state.forget_reader(key);
        let address = state.address;
        if token.is_none() {
            self.lose(Owed::Nobody, address, links);
        }
        self.unread(message, links);
        self.unref(message, links);
    }

    /// The address is deleted: what waits and what consumers hold is released, all its ports are detached and told to
    /// close with `error`. A producer's delivery that comes later is released.
    pub fn retire(&mut self, key: AddressKey, error: &Error, links: &mut impl Links) {
        let Some(at) = self.by_key.get(&key).copied() else { return };
        self.end_subscriptions(at, error, links);
        self.by_key.remove(&key);
        self.damaged.retain(|damaged| damaged.address != key);
        self.release_anonymous(at, links);
        self.clear_shelf(at);
        self.clear_stream(at);
        let address = &self.addresses[at];
        let consumers: Vec<PortId> = address.consumers.iter().map(|key| self.consumers[*key].port).collect();
        let producers: Vec<PortId> = address.producers.iter().map(|key| self.producers[*key].port).collect();
        for key in &address.consumers {
            // Nothing new is handed out while the rest is answered.
            self.consumers[*key].blocked = true;
        }
        self.release_unsettled(at, links);
        for port in consumers.iter().chain(&producers) {
            self.detach(*port, links);
            links.close(*port, error);
        }
        self.received.close(self.addresses[at].account);
        self.addresses.remove(at);
    }

    /// What anonymous links have sent here and wait for is released: they stay, and nobody else would answer.
    fn release_anonymous(&mut self, at: Key, links: &mut impl Links) {
        let producers = self.addresses[at].producers.iter().copied();
        let anonymous: Vec<Key> = producers.filter(|key| self.producers[*key].anonymous).collect();
        if anonymous.is_empty() {
            return;
        }
        let mut owed = self.journal.take_owed(at);
        owed.extend(self.echoes_of(at));
        for from in anonymous {
            if let Some(assembly) = self.take_assembly(from) {
                self.release_assembly(at, &assembly, links);
                self.taken(from, 1);
            }
        }
        for owed in owed {
            if let Owed::Producer { port, .. } = owed
                && self.ports.producer(port).is_some_and(|from| self.producers[from].anonymous)
            {
                self.answer(owed, at, &Outcome::Released, links);
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
            // There is nothing left that a transaction could decide about.
            if let Some(pending) = self.pending.get_mut(Key::unpack(token)) {
                pending.retiring = Retiring::No;
            }
            self.relinquish_one(token, Ending::ByNode, false, links);
        }
    }
}
