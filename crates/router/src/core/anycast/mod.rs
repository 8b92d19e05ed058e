//! Anycast: each message goes to one of the consumers, whose outcome is the producer's.

use super::address::{Consumer, Incoming, NOT_READY, Random};
use super::arena::{Arena, Key};
use super::flow::Part;
use super::message::{Backlog, Message, SettlementTarget};
use super::{Arrival, Delivery, Links, Router};

/// Up to this many consumers with room are compared; of more, two chosen at random, which balances
/// nearly as well.
const SCAN_MAX: usize = 8;

/// The state of an anycast address.
#[derive(Debug, Default)]
pub(super) struct Anycast {
    /// consumers with room. Empty whenever `waiting` is not, between calls
    ready: Vec<Key>,
    /// where the next look at `ready` begins
    turn: usize,
    /// messages no consumer had room for
    pub(super) waiting: Backlog,
}

impl Anycast {
    /// The consumer with room that holds the fewest deliveries; among equals they take
    /// turns.
    #[inline]
    pub(super) fn pick(&mut self, consumers: &Arena<Consumer>, random: &mut Random) -> Option<Key> {
        match self.ready.len() {
            0 => None,
            1 => Some(self.ready[0]),
            count => Some(self.pick_of(count, consumers, random)),
        }
    }

    fn pick_of(&mut self, count: usize, consumers: &Arena<Consumer>, random: &mut Random) -> Key {
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

    /// Counts a consumer among those with room.
    pub(super) fn set_ready(&mut self, key: Key, consumer: &mut Consumer) {
        if consumer.ready_at == NOT_READY {
            consumer.ready_at = self.ready.len() as u32;
            self.ready.push(key);
        }
    }

    /// Counts it no longer.
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
    /// A delivery begins. While messages wait no consumer is ready, so one that finds a consumer
    /// overtakes nothing.
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
        self.wait_for_one(from, settlement, arrival, links);
    }

    #[cold]
    fn wait_for_one(&mut self, from: Key, settlement: SettlementTarget, arrival: &Arrival<'_>, links: &mut impl Links) {
        let producer = &mut self.producers[from];
        let key = producer.address;
        let address = &self.addresses[key];
        if address.consumers.is_empty() || producer.is_full(address.declared.link_capacity) {
            if arrival.more {
                producer.incoming = Incoming::Discarded;
            }
            self.taken(from, 1);
            self.lose(settlement, key, links);
            return;
        }
        let mut message = Message::begun(from, key, settlement, arrival);
        message.bytes = self.direct.messages.buffer(arrival.payload);
        message.queued = 1;
        message.refs += 1;
        message.untaken = 1;
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

    /// A message returned from its consumer: it goes to the next one with room.
    pub(super) fn take_back_to_one(
        &mut self,
        at: Key,
        settlement: SettlementTarget,
        delivery: &Delivery<'_>,
        links: &mut impl Links,
    ) {
        if self.addresses[at].consumers.is_empty() {
            return self.lose(settlement, at, links);
        }
        let message = self.returned(settlement, at, delivery);
        self.wait_again(message, at, links);
    }

    /// The first part of a long message returned, and is with the message again.
    pub(super) fn unbegin_to_one(&mut self, to: Key, back: Key, at: Key, links: &mut impl Links) {
        let message = &mut self.direct.messages[back];
        message.forget_reader(to);
        if let Some(producer) = self.producers.get_mut(message.producer) {
            message.untaken = 1;
            producer.waiting += 1;
            producer.taken -= 1;
        }
        self.wait_again(back, at, links);
    }

    fn wait_again(&mut self, message: Key, at: Key, links: &mut impl Links) {
        self.addresses.anycast_mut(at).waiting.push_returned(message);
        self.update_back_pressure(message, links);
        self.dispatch_waiting(at, links);
    }

    /// The last consumer has detached: waiting messages are released.
    pub(super) fn release_waiting(&mut self, key: Key, links: &mut impl Links) {
        while let Some(waiting) = self.addresses.anycast_mut(key).waiting.pop_front() {
            let message = &mut self.direct.messages[waiting];
            message.queued -= 1;
            let settlement = message.settlement;
            self.lose(settlement, key, links);
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
