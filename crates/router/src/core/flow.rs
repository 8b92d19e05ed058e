//! Credit one way, windows the other: what a consumer may be handed, and what of a producer waits.

use enmasse_amqp::types::Outcome;

use super::address::{Address, Consumer, Outgoing};
use super::arena::{Arena, Key};
use super::message::{Message, Owed};
use super::outcome::{Pending, Retiring, token_of};
use super::port::Tenant;
use super::{AddressKind, Arrival, Delivery, HOLD_BYTES, Hold, Links, PortId, Router};

/// The beginning of a delivery, or all of it.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    message_format: u32,
    more: bool,
    payload: &'a [u8],
}

impl<'a> Part<'a> {
    #[inline]
    pub(super) const fn whole(payload: &'a [u8]) -> Self {
        Self { message_format: 0, more: false, payload }
    }

    #[inline]
    pub(super) fn of(arrival: &Arrival<'a>) -> Self {
        Self { message_format: arrival.message_format, more: arrival.more, payload: arrival.payload }
    }
}

/// The consumer took nothing.
pub(super) struct NoRoom;

/// What a handing over changes of a router: not what the payload may lie in.
pub(super) struct Handing<'a> {
    pub(super) shard: u16,
    pub(super) now_ms: u64,
    pub(super) consumers: &'a mut Arena<Consumer>,
    pub(super) addresses: &'a mut Arena<Address>,
    pub(super) pending: &'a mut Arena<Pending>,
}

impl Handing<'_> {
    /// As [`Router::hand`].
    #[inline]
    pub(super) fn hand(
        self,
        to: Key,
        owed: Owed,
        part: Part<'_>,
        links: &mut impl Links,
    ) -> Result<Option<u64>, NoRoom> {
        let Part { message_format, more, payload } = part;
        let consumer = &mut self.consumers[to];
        let key = consumer.address;
        let pending = (owed != Owed::Nobody).then(|| {
            let owed = consumer.owes(owed);
            self.pending.insert(Pending { consumer: to, address: key, owed, retiring: Retiring::No })
        });
        let token = pending.map(|pending| token_of(self.shard, pending));
        let delivery = Delivery { token, message_format, first: true, more, aborted: false, payload };
        if !links.transfer(consumer.port, &delivery) {
            consumer.blocked = true;
            self.addresses[key].set_unready(to, self.consumers);
            if let Some(pending) = pending {
                self.pending.remove(pending);
            }
            return Err(NoRoom);
        }
        let unsettled = u32::from(token.is_some());
        consumer.unconfirmed = more && consumer.port.shard != self.shard;
        consumer.handed = consumer.handed.wrapping_add(1);
        consumer.credit -= 1;
        consumer.took_ms = self.now_ms;
        consumer.outstanding += unsettled;
        if let (Some(pending), Owed::Join(_) | Owed::Optional(_)) = (pending, owed) {
            consumer.note_copy(pending, self.now_ms, self.pending);
        }
        let full = consumer.credit == 0 || more;
        let address = &mut self.addresses[key];
        address.unsettled += unsettled;
        address.stats.delivered += 1;
        address.stats.bytes += payload.len() as u64;
        if full {
            address.set_unready(to, self.consumers);
        }
        Ok(token)
    }
}

impl Router {
    /// Hands a consumer with room the beginning of a delivery; its token, if somebody is owed the outcome.
    #[inline]
    pub(super) fn hand(
        &mut self,
        to: Key,
        owed: Owed,
        part: Part<'_>,
        links: &mut impl Links,
    ) -> Result<Option<u64>, NoRoom> {
        let Self { shard, now_ms, consumers, addresses, pending, .. } = self;
        Handing { shard: *shard, now_ms: *now_ms, consumers, addresses, pending }.hand(to, owed, part, links)
    }

    /// Hands a consumer with room a message that waits, or what has come of it. The caller takes it out of the queue.
    pub(super) fn begin(&mut self, to: Key, key: Key, links: &mut impl Links) -> bool {
        let message = &mut self.messages[key];
        let bytes = std::mem::take(&mut message.bytes);
        let part = Part { message_format: message.message_format, more: !message.complete, payload: &bytes };
        let owed = message.owed;
        let handed = self.hand(to, owed, part, links);
        let message = &mut self.messages[key];
        message.bytes = bytes;
        let Ok(token) = handed else { return false };
        let counts = !self.consumers[to].laggard;
        message.queued -= 1;
        if message.complete {
            message.forget_reader(to);
            if counts {
                self.take_one(key);
            }
            self.unref(key, links);
            return true;
        }
        if !message.readers.contains(&to) {
            message.readers.push(to);
        }
        let end = message.end;
        self.consumers[to].read(key, end, token);
        if counts {
            self.take_one(key);
        }
        self.weigh(key, links);
        true
    }

    /// So many messages have left their producer's window.
    #[inline]
    pub(super) fn taken(&mut self, producer: Key, count: i32) {
        let Some(state) = self.producers.get_mut(producer) else { return };
        state.taken += count;
        if !state.to_tell {
            state.to_tell = true;
            self.to_tell.push(producer);
        }
    }

    /// One of the consumers that a message waits for has taken it, or never will.
    pub(super) fn take_one(&mut self, key: Key) {
        let message = &mut self.messages[key];
        if message.untaken == 1 {
            self.leave_window(key);
        } else {
            message.untaken = message.untaken.saturating_sub(1);
        }
    }

    fn leave_window(&mut self, key: Key) {
        let message = &mut self.messages[key];
        if message.untaken > 0 {
            message.untaken = 0;
            let producer = message.producer;
            if let Some(state) = self.producers.get_mut(producer) {
                state.waiting -= 1;
                self.note_stall(producer);
            }
            self.taken(producer, 1);
        }
    }

    /// One holder of a message less; without any it is forgotten.
    pub(super) fn unref(&mut self, key: Key, links: &mut impl Links) {
        let message = &mut self.messages[key];
        message.refs -= 1;
        if message.refs == 0 {
            self.forget(key, links);
        } else {
            self.weigh(key, links);
        }
    }

    pub(super) fn forget(&mut self, key: Key, links: &mut impl Links) {
        self.leave_window(key);
        self.charge(key, 0, links);
        self.messages.remove(key);
    }

    /// Throws away bytes of a message that everybody has, and counts those that wait for its producer: what half of
    /// its readers do not have, or all of it until enough have begun.
    pub(super) fn weigh(&mut self, key: Key, links: &mut impl Links) {
        let Some(message) = self.messages.get_mut(key) else { return };
        let mut offsets = std::mem::take(&mut self.offsets);
        offsets.clear();
        let mut kept_from = message.end;
        for reader in &message.readers {
            let consumer = &self.consumers[*reader];
            let offset = match consumer.outgoing {
                Outgoing::Message { message, offset, .. } if message == key => offset,
                _ => 0,
            };
            kept_from = kept_from.min(offset);
            if !consumer.laggard {
                offsets.push(offset);
            }
        }
        offsets.sort_unstable_by(|a, b| b.cmp(a));
        if message.queued == 0 {
            trim(message, kept_from);
        }
        let waiting = if message.untaken > 0 {
            message.bytes.len()
        } else {
            let half = offsets.get(offsets.len().div_ceil(2).saturating_sub(1));
            half.map_or(0, |offset| (message.end - offset) as usize)
        };
        self.offsets = offsets;
        self.charge(key, waiting, links);
    }

    fn charge(&mut self, key: Key, bytes: usize, links: &mut impl Links) {
        let message = &mut self.messages[key];
        let before = std::mem::replace(&mut message.charged, bytes);
        let key = message.producer;
        self.received.waiting_bytes = self.received.waiting_bytes + bytes as u64 - before as u64;
        if let Some(producer) = self.producers.get(key) {
            self.weigh_producer(key, producer.waiting_bytes + bytes - before, links);
        }
    }

    /// So many bytes wait for a producer now: it is held back, or let go on.
    pub(super) fn weigh_producer(&mut self, key: Key, bytes: usize, links: &mut impl Links) {
        let Some(producer) = self.producers.get_mut(key) else { return };
        producer.waiting_bytes = bytes;
        let address = &self.addresses[producer.address];
        let most = if producer.held == Hold::No { HOLD_BYTES } else { HOLD_BYTES / 2 };
        let waits = producer.held == Hold::Connection;
        // Only the journal is waited for there: a consumer's credit may be behind what is not read.
        let hold = if bytes > 0 && address.declared.kind.stores() && self.received.is_over(address.account, waits) {
            Hold::Connection
        } else if bytes > most || address.holds(producer.anonymous && !producer.posts) {
            Hold::Session
        } else {
            Hold::No
        };
        if producer.held != hold {
            producer.held = hold;
            links.hold(producer.port, hold);
            self.note_stall(key);
        }
    }

    /// Counts a producer that has to wait, because its window is used up or it is held: once, until it may go on. Its
    /// window opens again when half of it is free.
    pub(super) fn note_stall(&mut self, key: Key) {
        let Some(producer) = self.producers.get_mut(key) else { return };
        let address = &mut self.addresses[producer.address];
        let capacity = address.declared.link_capacity;
        if producer.held != Hold::No || producer.waiting >= capacity {
            address.stats.credit_stalls += u64::from(!producer.stalled);
            producer.stalled = true;
        } else if producer.waiting <= capacity / 2 {
            producer.stalled = false;
        }
    }

    /// A consumer may be handed deliveries up to `limit`, counted from its attach and wrapping: those it was handed
    /// and did not refuse, plus its credit. Say it too, with an unchanged limit, when a part that found no room may be
    /// offered again. `drain`: what waits is delivered as far as credit goes, then [`Links::drained`] is said.
    pub fn credit(&mut self, port: PortId, limit: u32, drain: bool, links: &mut impl Links) {
        let Some(key) = self.ports.consumer(port) else { return };
        let consumer = &mut self.consumers[key];
        // More handed than the limit allows: it was lowered while deliveries were on their way.
        consumer.credit = u32::try_from(limit.wrapping_sub(consumer.handed).cast_signed()).unwrap_or(0);
        consumer.blocked = false;
        consumer.drain |= drain;
        if std::mem::take(&mut consumer.halted) {
            // What it is handed from now on stands before all that is left, should it come back.
            consumer.backlog.close_returned();
            self.addresses[consumer.address].waiting.close_returned();
        }
        self.resume(key, links);
        self.feed(key, links);
    }

    /// A consumer is handed nothing more until it states its credit: parts of a delivery found no room on its shard, or
    /// its link has gone and it is about to be detached.
    pub fn stall(&mut self, port: PortId) {
        let Some(key) = self.ports.consumer(port) else { return };
        let consumer = &mut self.consumers[key];
        consumer.blocked = true;
        let address = consumer.address;
        self.addresses[address].set_unready(key, &mut self.consumers);
        self.tire(address, key);
    }

    /// A consumer may have room: hands it what waits.
    pub(super) fn feed(&mut self, key: Key, links: &mut impl Links) {
        let consumer = &mut self.consumers[key];
        let at = consumer.address;
        let address = &mut self.addresses[at];
        match address.declared.kind {
            AddressKind::Stored => self.feed_from_queue(key, links),
            AddressKind::Topic => {}
            AddressKind::Stream => self.feed_reader(key, links),
            AddressKind::Multicast => self.catch_up(key, links),
            AddressKind::Anycast => {
                if consumer.has_room() {
                    address.set_ready(key, consumer);
                    self.hand_out(at, links);
                } else {
                    address.set_unready(key, &mut self.consumers);
                }
            }
        }
        if self.consumers.get(key).is_some() {
            self.finish_drain(key, links);
        }
    }

    pub(super) fn finish_drain(&mut self, key: Key, links: &mut impl Links) {
        let consumer = &mut self.consumers[key];
        if !consumer.drain || consumer.blocked {
            return;
        }
        let address = &mut self.addresses[consumer.address];
        let done = match consumer.outgoing {
            Outgoing::Nothing => consumer.fetching == 0 && !address.has_for(consumer),
            // The rest of a long delivery may take its time; credit cannot be used before, nor is it wanted.
            Outgoing::Message { .. } => address.waiting.is_empty() && consumer.backlog.is_empty(),
            Outgoing::Aborted => false,
        };
        if done {
            consumer.drain = false;
            consumer.credit = 0;
            let (port, at) = (consumer.port, consumer.address);
            address.set_unready(key, &mut self.consumers);
            self.tire(at, key);
            links.drained(port);
        } else if let Some(stored) = address.stored.as_mut() {
            stored.drain_later(key);
        }
    }

    /// A delivery, or the first part of one, handed to a consumer of another shard found no room, or no link, there.
    /// It goes back to the front of those waiting, in the order of the refusals. Whoever refuses one refuses all that
    /// follow on that port until it hears [`Links::halted`], and states no credit before: so the order is kept. A
    /// later part is never refused (see [`Router::begun`] and [`Router::stall`]).
    pub fn refused(&mut self, port: PortId, delivery: &Delivery<'_>, links: &mut impl Links) {
        if !delivery.first {
            return;
        }
        let (consumer, address) = match self.ports.get(port) {
            Tenant::Consumer(key) => (Some(key), Some(self.consumers[key].address)),
            Tenant::Left(address) => (None, self.by_key.get(&address).copied()),
            Tenant::Nobody | Tenant::Producer(_) => return,
        };
        let Some(address) = address else { return };
        if let Some(key) = consumer {
            let consumer = &mut self.consumers[key];
            consumer.blocked = true;
            consumer.handed = consumer.handed.wrapping_sub(1);
            if !std::mem::replace(&mut consumer.halted, true) {
                links.halted(port);
            }
            self.addresses[address].set_unready(key, &mut self.consumers);
            self.tire(address, key);
        }
        match consumer {
            _ if !delivery.more => self.take_back(consumer, address, delivery, links),
            Some(key) => self.unbegin(key, address, delivery, links),
            // What had come of it was thrown away when its consumer went.
            None => match delivery.token {
                Some(token) => self.outcome(token, &Outcome::Released, links),
                None => self.addresses[address].stats.dropped += 1,
            },
        }
    }

    fn take_back(&mut self, consumer: Option<Key>, address: Key, delivery: &Delivery<'_>, links: &mut impl Links) {
        let owed = match delivery.token.map(|token| self.close_token(token)) {
            None => Owed::Nobody,
            Some(Some(pending)) => pending.owed,
            Some(None) => return,
        };
        let state = &mut self.addresses[address];
        state.stats.delivered -= 1;
        state.stats.bytes -= delivery.payload.len() as u64;
        if state.declared.kind == AddressKind::Stream {
            return self.reread(consumer, delivery.payload);
        }
        if let Owed::Queue(seq) = owed {
            if self.resume_later(address, consumer, seq) {
                return;
            }
            return self.settle_in_queue(address, seq, &Outcome::Released, links);
        }
        if let Owed::Browsed(seq) = owed {
            return self.show_again(address, consumer, seq);
        }
        let anycast = state.declared.kind == AddressKind::Anycast;
        if anycast && state.consumers.is_empty() || !anycast && consumer.is_none() {
            return self.lose(owed, address, links);
        }
        let message = self.returned(owed, address, delivery);
        if anycast {
            self.addresses[address].waiting.push_returned(message);
            self.weigh(message, links);
            self.hand_out(address, links);
        } else if let Some(key) = consumer {
            self.consumers[key].backlog.push_returned(message);
            self.consumers[key].backlog_bytes += delivery.payload.len();
        }
    }

    /// The message that came back. One that is owed to its producer takes up the producer's window again.
    fn returned(&mut self, owed: Owed, address: Key, delivery: &Delivery<'_>) -> Key {
        let from = match owed {
            Owed::Producer { port, .. } => self.ports.producer(port),
            _ => None,
        };
        if let Some(producer) = from.and_then(|key| self.producers.get_mut(key)) {
            producer.waiting += 1;
            producer.taken -= 1;
        }
        let message = Message {
            producer: from.unwrap_or(Key::NONE),
            address,
            owed,
            message_format: delivery.message_format,
            bytes: self.messages.buffer(delivery.payload),
            end: delivery.payload.len() as u64,
            complete: true,
            queued: 1,
            refs: 1,
            untaken: u32::from(from.is_some()),
            since_ms: self.now_ms,
            charged: 0,
            readers: Vec::new(),
        };
        self.messages.insert(message)
    }

    /// The first part of a long delivery has come back: it waits again, with that part before what came since.
    fn unbegin(&mut self, key: Key, address: Key, delivery: &Delivery<'_>, links: &mut impl Links) {
        let consumer = &mut self.consumers[key];
        consumer.unconfirmed = false;
        // If it was aborted meanwhile, there is nobody left to be told.
        let outgoing = std::mem::replace(&mut consumer.outgoing, Outgoing::Nothing);
        let Outgoing::Message { message: back, .. } = outgoing else { return };
        if let Some(token) = delivery.token {
            self.close_token(token);
        }
        let message = &mut self.messages[back];
        let missing = &delivery.payload[..message.base() as usize];
        message.bytes.splice(..0, missing.iter().copied());
        message.queued += 1;
        let state = &mut self.addresses[address];
        state.stats.delivered -= 1;
        state.stats.bytes -= delivery.payload.len() as u64;
        if state.declared.kind == AddressKind::Multicast {
            let consumer = &mut self.consumers[key];
            consumer.backlog.push_returned(back);
            consumer.backlog_bytes += self.messages[back].bytes.len();
            return self.weigh(back, links);
        }
        message.forget_reader(key);
        state.waiting.push_returned(back);
        if let Some(producer) = self.producers.get_mut(message.producer) {
            message.untaken = 1;
            producer.waiting += 1;
            producer.taken -= 1;
        }
        self.weigh(back, links);
        self.hand_out(address, links);
    }

    /// A consumer of another shard has taken the first part of a long delivery: the others may follow.
    pub fn begun(&mut self, port: PortId, links: &mut impl Links) {
        let Some(key) = self.ports.consumer(port) else { return };
        self.consumers[key].unconfirmed = false;
        self.resume(key, links);
        self.feed(key, links);
    }
}

/// Throws away what lies before `offset`; all at once when that is everything, else not before it is worth the copying.
fn trim(message: &mut Message, offset: u64) {
    let passed = (offset - message.base()) as usize;
    if passed == message.bytes.len() {
        message.bytes.clear();
    } else if passed > message.bytes.len() / 2 {
        message.bytes.drain(..passed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::arena::Arena;
    use super::*;

    #[test]
    fn trimming_keeps_what_somebody_still_needs() {
        let key = Arena::new().insert(());
        let head = Arrival {
            delivery_id: 0,
            settled: true,
            message_format: 0,
            first: true,
            more: true,
            aborted: false,
            payload: &[0; 100],
        };
        let mut message = Message::begun(key, key, Owed::Nobody, &head);
        message.bytes = (0..100).collect();
        trim(&mut message, 50);
        assert_eq!(message.bytes.len(), 100, "half is not worth the copying");
        trim(&mut message, 60);
        assert_eq!((message.base(), message.after(90)), (60, &[90, 91, 92, 93, 94, 95, 96, 97, 98, 99][..]));
        trim(&mut message, 100);
        assert_eq!((message.base(), message.after(100)), (100, &[][..]));
    }
}
