//! Anycast: each message is dispatched to one consumer, whose outcome is passed to the producer.

use super::arena::{Arena, Key};
use super::consumer::{Consumer, NOT_READY};
use super::delivery::Part;
use super::message::{Backlog, Message, SettlementTarget};
use super::producer::Incoming;
use super::random::Random;
use super::{Arrival, Delivery, Links, Router};

/// Up to this many ready consumers are compared. Of more, two are chosen at random, which balances
/// nearly as well.
const SCAN_MAX: usize = 8;

/// The state of an anycast address.
#[derive(Debug, Default)]
pub(super) struct Anycast {
    /// consumers with room; empty between calls while messages wait
    ready: Vec<Key>,
    /// index in `ready` where the next scan begins, modulo its length
    turn: usize,
    /// messages that wait for a consumer with room
    pub(super) waiting: Backlog,
}

impl Anycast {
    /// The ready consumer with the fewest unsettled deliveries. Equal ones take turns.
    #[inline]
    pub(super) fn pick(&mut self, consumers: &Arena<Consumer>, random: &mut Random) -> Option<Key> {
        match self.ready.len() {
            0 => None,
            1 => Some(self.ready[0]),
            count => Some(self.pick_among(count, consumers, random)),
        }
    }

    fn pick_among(&mut self, count: usize, consumers: &Arena<Consumer>, random: &mut Random) -> Key {
        self.turn = self.turn.wrapping_add(1);
        let outstanding = |key: &Key| consumers[*key].outstanding;
        if count > SCAN_MAX {
            let one = self.ready[random.below(count)];
            let other = self.ready[random.below(count)];
            return if outstanding(&other) < outstanding(&one) { other } else { one };
        }
        let start = self.turn % count;
        let mut best = self.ready[start];
        for step in 1..count {
            let other = self.ready[(start + step) % count];
            if outstanding(&other) < outstanding(&best) {
                best = other;
            }
        }
        best
    }

    /// Adds a consumer to the ready ones.
    pub(super) fn set_ready(&mut self, key: Key, consumer: &mut Consumer) {
        if consumer.ready_at == NOT_READY {
            consumer.ready_at = self.ready.len() as u32;
            self.ready.push(key);
        }
    }

    /// Removes a consumer from the ready ones.
    #[inline]
    pub(super) fn set_unready(&mut self, key: Key, consumers: &mut Arena<Consumer>) {
        let at = std::mem::replace(&mut consumers[key].ready_at, NOT_READY);
        if at != NOT_READY {
            self.ready.swap_remove(at as usize);
            if let Some(moved) = self.ready.get(at as usize) {
                consumers[*moved].ready_at = at;
            }
        }
    }
}

impl Router {
    /// Dispatches a delivery that begins, or queues it. No consumer is ready while messages wait,
    /// so a dispatched delivery overtakes none.
    #[inline]
    pub(super) fn deliver_to_one(&mut self, from: Key, arrival: &Arrival<'_>, links: &mut impl Links) {
        let producer = &self.producers[from];
        let (address, delivery_id) = (producer.address, arrival.delivery_id);
        let settlement = if arrival.settled {
            SettlementTarget::Nothing
        } else {
            SettlementTarget::Producer { attachment: producer.attachment, delivery_id }
        };
        while let Some(to) = self.addresses.anycast_mut(address).pick(&self.consumers, &mut self.random) {
            if let Ok(token) = self.dispatch(to, settlement, Part::of(arrival), links) {
                self.taken(from, 1);
                if arrival.more {
                    let mut message = Message::begun(from, address, settlement, arrival);
                    message.refs += 1;
                    message.readers.push(to);
                    let end = message.end;
                    let message = self.direct.messages.insert(message);
                    self.consumers[to].read(message, end, token);
                    self.producers[from].incoming = Incoming::Message(message);
                }
                return;
            }
        }
        self.queue_for_one(from, settlement, arrival, links);
    }

    #[cold]
    fn queue_for_one(
        &mut self,
        from: Key,
        settlement: SettlementTarget,
        arrival: &Arrival<'_>,
        links: &mut impl Links,
    ) {
        let producer = &mut self.producers[from];
        let key = producer.address;
        let address = &self.addresses[key];
        let may_wait = self.received.may_wait(address.account, arrival.payload.len());
        if address.consumers.is_empty() || producer.is_full(address.declared.link_capacity) || !may_wait {
            if arrival.more {
                producer.incoming = Incoming::Discarded;
            }
            self.taken(from, 1);
            self.drop_copy(settlement, key, links);
            return;
        }
        let mut message = Message::begun(from, key, settlement, arrival);
        message.bytes = self.direct.messages.buffer(arrival.payload);
        message.queued = 1;
        message.refs += 1;
        message.awaited_readers = 1;
        let message = self.direct.messages.insert(message);
        self.addresses.anycast_mut(key).waiting.push_back(message);
        let producer = &mut self.producers[from];
        producer.waiting += 1;
        if arrival.more {
            producer.incoming = Incoming::Message(message);
        }
        self.update_back_pressure(message, links);
        self.note_stall(from);
    }

    /// Dispatches waiting messages while a consumer has room.
    pub(super) fn dispatch_waiting(&mut self, key: Key, links: &mut impl Links) {
        loop {
            let anycast = self.addresses.anycast_mut(key);
            // Nothing waits, or no consumer has room: the next message or credit continues.
            let Some(message) = anycast.waiting.front() else { return };
            let Some(to) = anycast.pick(&self.consumers, &mut self.random) else { return };
            if self.begin(to, message, links) {
                self.addresses.anycast_mut(key).waiting.pop_front();
            }
        }
    }

    /// A consumer of another shard refused a message: the next ready consumer gets it.
    pub(super) fn requeue_refused(
        &mut self,
        at: Key,
        settlement: SettlementTarget,
        delivery: &Delivery<'_>,
        links: &mut impl Links,
    ) {
        if self.addresses[at].consumers.is_empty() {
            return self.drop_copy(settlement, at, links);
        }
        let message = self.returned(settlement, at, delivery);
        self.requeue(message, at, links);
    }

    /// A consumer of another shard refused the first part of a partial delivery, which is stored in
    /// the message again.
    pub(super) fn requeue_partial(&mut self, to: Key, back: Key, at: Key, links: &mut impl Links) {
        let message = &mut self.direct.messages[back];
        message.forget_reader(to);
        if let Some(producer) = self.producers.get_mut(message.producer) {
            message.awaited_readers = 1;
            producer.waiting += 1;
            producer.taken -= 1;
        }
        self.requeue(back, at, links);
    }

    fn requeue(&mut self, message: Key, at: Key, links: &mut impl Links) {
        self.addresses.anycast_mut(at).waiting.push_returned(message);
        self.update_back_pressure(message, links);
        self.dispatch_waiting(at, links);
    }

    /// Releases all waiting messages after the last consumer detached.
    pub(super) fn release_waiting(&mut self, key: Key, links: &mut impl Links) {
        while let Some(waiting) = self.addresses.anycast_mut(key).waiting.pop_front() {
            let message = &mut self.direct.messages[waiting];
            message.queued -= 1;
            let settlement = message.settlement;
            self.drop_copy(settlement, key, links);
            self.unread(waiting, links);
            self.unref(waiting, links);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::AttachmentId;
    use super::*;

    fn with_consumers(count: u32) -> (Anycast, Arena<Consumer>, Vec<Key>) {
        let mut anycast = Anycast::default();
        let mut addresses = Arena::new();
        let key = addresses.insert(());
        let mut consumers = Arena::new();
        let keys: Vec<Key> = (0..count)
            .map(|index| {
                let attachment = AttachmentId { shard: 0, generation: 0, index };
                consumers.insert(Consumer::new(attachment, key, index as usize, None))
            })
            .collect();
        for key in &keys {
            anycast.set_ready(*key, &mut consumers[*key]);
        }
        (anycast, consumers, keys)
    }

    fn picks(anycast: &mut Anycast, consumers: &mut Arena<Consumer>, rounds: usize) {
        let mut random = Random::new(7);
        for _ in 0..rounds {
            let Some(picked) = anycast.pick(consumers, &mut random) else { return };
            consumers[picked].outstanding += 1;
        }
    }

    #[test]
    fn equally_loaded_consumers_are_picked_in_turn() {
        let (mut anycast, mut consumers, keys) = with_consumers(3);
        picks(&mut anycast, &mut consumers, 9);
        assert!(keys.iter().all(|key| consumers[*key].outstanding == 3));
    }

    #[test]
    fn least_loaded_consumer_of_few_is_picked() {
        let (mut anycast, mut consumers, keys) = with_consumers(4);
        for key in &keys {
            consumers[*key].outstanding = 5;
        }
        consumers[keys[2]].outstanding = 1;
        picks(&mut anycast, &mut consumers, 4);
        assert_eq!(consumers[keys[2]].outstanding, 5);
    }

    #[test]
    fn many_consumers_are_balanced_within_six_messages() {
        let (mut anycast, mut consumers, keys) = with_consumers(100);
        picks(&mut anycast, &mut consumers, 10_000);
        let most = keys.iter().map(|key| consumers[*key].outstanding).max();
        assert!(most.is_some_and(|most| most <= 106), "{most:?}");
    }

    #[test]
    fn unready_consumer_is_never_picked() {
        let (mut anycast, mut consumers, keys) = with_consumers(3);
        anycast.set_unready(keys[0], &mut consumers);
        anycast.set_unready(keys[0], &mut consumers);
        picks(&mut anycast, &mut consumers, 20);
        assert_eq!(consumers[keys[0]].outstanding, 0);
        anycast.set_unready(keys[2], &mut consumers);
        anycast.set_unready(keys[1], &mut consumers);
        assert_eq!(anycast.pick(&consumers, &mut Random::new(1)), None);
        anycast.set_ready(keys[1], &mut consumers[keys[1]]);
        assert_eq!(anycast.pick(&consumers, &mut Random::new(1)), Some(keys[1]));
    }
}
