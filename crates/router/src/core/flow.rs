//! Credit of consumers, windows of producers: how much may be dispatched, and how much may wait.

use std::sync::Arc;

use enmasse_amqp::types::Outcome;

use super::address::{Address, Consumer, Outgoing};
use super::arena::{Arena, Key};
use super::attachment::Occupant;
use super::message::{Message, SettlementTarget};
use super::outcome::{Pending, Retiring, token_of};
use super::treatment::Treatment;
use super::{Arrival, AttachmentId, Delivery, HOLD_BYTES, Hold, Links, Router};

/// The beginning of a delivery, or all of it.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    message_format: u32,
    more: bool,
    payload: &'a [u8],
    /// as in [`Delivery`]
    shared: Option<&'a Arc<Vec<u8>>>,
}

impl<'a> Part<'a> {
    #[inline]
    pub(super) const fn whole(payload: &'a [u8]) -> Self {
        Self { message_format: 0, more: false, payload, shared: None }
    }

    /// With the memory that the payload lies in, if others may keep it.
    #[inline]
    pub(super) const fn with_shared(self, shared: Option<&'a Arc<Vec<u8>>>) -> Self {
        Self { shared, ..self }
    }

    #[inline]
    pub(super) fn of(arrival: &Arrival<'a>) -> Self {
        Self { message_format: arrival.message_format, more: arrival.more, payload: arrival.payload, shared: None }
    }
}

/// The consumer took nothing.
pub(super) struct NoRoom;

/// The part of a router that a dispatch changes, which excludes the memory of the payload.
pub(super) struct Dispatcher<'a> {
    pub(super) shard: u16,
    pub(super) now_ms: u64,
    pub(super) consumers: &'a mut Arena<Consumer>,
    pub(super) addresses: &'a mut Arena<Address>,
    pub(super) pending: &'a mut Arena<Pending>,
}

impl Dispatcher<'_> {
    /// As [`Router::dispatch`].
    #[inline]
    pub(super) fn dispatch(
        self,
        to: Key,
        settlement: SettlementTarget,
        part: Part<'_>,
        links: &mut impl Links,
    ) -> Result<Option<u64>, NoRoom> {
        let Part { message_format, more, payload, shared } = part;
        let consumer = &mut self.consumers[to];
        let key = consumer.address;
        let pending = (settlement != SettlementTarget::Nothing).then(|| {
            let settlement = consumer.settlement_for(settlement);
            self.pending.insert(Pending { consumer: to, address: key, settlement, retiring: Retiring::No })
        });
        let token = pending.map(|pending| token_of(self.shard, pending));
        let delivery = Delivery { token, message_format, first: true, more, aborted: false, payload, shared };
        if !links.transfer(consumer.attachment, &delivery) {
            consumer.blocked = true;
            self.addresses[key].treatment.set_unready(to, self.consumers);
            if let Some(pending) = pending {
                self.pending.remove(pending);
            }
            return Err(NoRoom);
        }
        let unsettled = u32::from(token.is_some());
        consumer.unconfirmed = more && consumer.attachment.shard != self.shard;
        consumer.dispatched = consumer.dispatched.wrapping_add(1);
        consumer.credit -= 1;
        consumer.dispatched_ms = self.now_ms;
        consumer.outstanding += unsettled;
        if let (Some(pending), SettlementTarget::Join(_) | SettlementTarget::Optional(_)) = (pending, settlement) {
            consumer.note_copy(pending, self.now_ms, self.pending);
        }
        let full = consumer.credit == 0 || more;
        let address = &mut self.addresses[key];
        address.unsettled += unsettled;
        address.stats.delivered += 1;
        address.stats.bytes += payload.len() as u64;
        if full {
            address.treatment.set_unready(to, self.consumers);
        }
        Ok(token)
    }
}

impl Router {
    /// Dispatches the beginning of a delivery to a consumer with room; its token, if there is a
    /// settlement target.
    #[inline]
    pub(super) fn dispatch(
        &mut self,
        to: Key,
        settlement: SettlementTarget,
        part: Part<'_>,
        links: &mut impl Links,
    ) -> Result<Option<u64>, NoRoom> {
        let Self { shard, now_ms, consumers, addresses, pending, .. } = self;
        Dispatcher { shard: *shard, now_ms: *now_ms, consumers, addresses, pending }
            .dispatch(to, settlement, part, links)
    }

    /// Dispatches a waiting message, or the parts of it that have arrived, to a consumer with room.
    /// The caller takes it out of the queue.
    pub(super) fn begin(&mut self, to: Key, key: Key, links: &mut impl Links) -> bool {
        let message = &mut self.direct.messages[key];
        let bytes = std::mem::take(&mut message.bytes);
        let part =
            Part { message_format: message.message_format, more: !message.complete, payload: &bytes, shared: None };
        let settlement = message.settlement;
        let dispatched = self.dispatch(to, settlement, part, links);
        let message = &mut self.direct.messages[key];
        message.bytes = bytes;
        let Ok(token) = dispatched else { return false };
        let counts = !self.consumers[to].slow;
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
        self.update_back_pressure(key, links);
        true
    }

    /// This many messages have left their producer's window.
    #[inline]
    pub(super) fn taken(&mut self, producer: Key, count: i32) {
        let Some(state) = self.producers.get_mut(producer) else { return };
        state.taken += count;
        if !state.to_notify {
            state.to_notify = true;
            self.schedule.to_notify.push(producer);
        }
    }

    /// One of the consumers that a message waits for has taken it, or never will.
    pub(super) fn take_one(&mut self, key: Key) {
        let message = &mut self.direct.messages[key];
        if message.untaken == 1 {
            self.leave_window(key);
        } else {
            message.untaken = message.untaken.saturating_sub(1);
        }
    }

    fn leave_window(&mut self, key: Key) {
        let message = &mut self.direct.messages[key];
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

    /// Drops one reference to a message, and the message with the last one.
    pub(super) fn unref(&mut self, key: Key, links: &mut impl Links) {
        let message = &mut self.direct.messages[key];
        message.refs -= 1;
        if message.refs == 0 {
            self.forget(key, links);
        } else {
            self.update_back_pressure(key, links);
        }
    }

    pub(super) fn forget(&mut self, key: Key, links: &mut impl Links) {
        self.leave_window(key);
        self.charge(key, 0, links);
        self.direct.messages.remove(key);
    }

    /// Discards bytes that all readers have, and counts those that wait for the producer: bytes
    /// that half of the readers lack, or all of them until enough have begun.
    pub(super) fn update_back_pressure(&mut self, key: Key, links: &mut impl Links) {
        let Some(message) = self.direct.messages.get_mut(key) else { return };
        let mut offsets = std::mem::take(&mut self.scratch.offsets);
        offsets.clear();
        let mut kept_from = message.end;
        for reader in &message.readers {
            let consumer = &self.consumers[*reader];
            let offset = match consumer.outgoing {
                Outgoing::Message { message, offset, .. } if message == key => offset,
                _ => 0,
            };
            kept_from = kept_from.min(offset);
            if !consumer.slow {
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
        self.scratch.offsets = offsets;
        self.charge(key, waiting, links);
    }

    fn charge(&mut self, key: Key, bytes: usize, links: &mut impl Links) {
        let message = &mut self.direct.messages[key];
        let before = std::mem::replace(&mut message.charged, bytes);
        let key = message.producer;
        self.received.waiting_bytes = self.received.waiting_bytes + bytes as u64 - before as u64;
        if let Some(producer) = self.producers.get(key) {
            self.update_producer_back_pressure(key, producer.waiting_bytes + bytes - before, links);
        }
    }

    /// The number of bytes that wait for a producer changes: it is held back, or continues.
    pub(super) fn update_producer_back_pressure(&mut self, key: Key, bytes: usize, links: &mut impl Links) {
        let Some(producer) = self.producers.get_mut(key) else { return };
        producer.waiting_bytes = bytes;
        let address = &self.addresses[producer.address];
        let most = if producer.held == Hold::No { HOLD_BYTES } else { HOLD_BYTES / 2 };
        let waits = producer.held == Hold::Connection;
        // Only the journal delays them there: a consumer's credit may be in the unread bytes.
        let hold = if bytes > 0 && address.declared.kind.stores() && self.received.is_over(address.account, waits) {
            Hold::Connection
        } else if bytes > most || address.treatment.is_holding(producer.anonymous && !producer.posts) {
            Hold::Session
        } else {
            Hold::No
        };
        if producer.held != hold {
            producer.held = hold;
            links.set_held(producer.attachment, hold);
            self.note_stall(key);
        }
    }

    /// Counts a producer that has to wait, because its window is used up or it is held: once, until
    /// it may continue. Its window opens again when half of it is free.
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

    /// A consumer may receive deliveries up to `limit`, counted from its attach and wrapping: those
    /// dispatched and not refused, plus its credit. Call it too, with an unchanged limit, when a
    /// part that found no room may be offered again. `drain`: waiting messages are dispatched as
    /// far as credit goes, then [`Links::drained`] is called.
    pub fn credit(&mut self, attachment: AttachmentId, limit: u32, drain: bool, links: &mut impl Links) {
        let Some(key) = self.attachments.consumer(attachment) else { return };
        let consumer = &mut self.consumers[key];
        // More dispatched than the limit allows: it was lowered while deliveries were in flight.
        consumer.credit = u32::try_from(limit.wrapping_sub(consumer.dispatched).cast_signed()).unwrap_or(0);
        consumer.blocked = false;
        consumer.drain |= drain;
        if std::mem::take(&mut consumer.halted) {
            // Deliveries from now on precede all that is left, should they return.
            consumer.backlog.close_returned();
            self.addresses[consumer.address].treatment.close_returned();
        }
        self.resume(key, links);
        self.dispatch_backlog(key, links);
    }

    /// Nothing more is dispatched to a consumer until it states its credit: parts of a delivery
    /// found no room on its shard, or its link has gone and it is about to be detached.
    pub fn stall(&mut self, attachment: AttachmentId) {
        let Some(key) = self.attachments.consumer(attachment) else { return };
        let consumer = &mut self.consumers[key];
        consumer.blocked = true;
        let at = consumer.address;
        self.mark_not_ready(at, key);
    }

    /// A consumer may have room: dispatches waiting messages to it.
    pub(super) fn dispatch_backlog(&mut self, key: Key, links: &mut impl Links) {
        let consumer = &mut self.consumers[key];
        let at = consumer.address;
        match &mut self.addresses[at].treatment {
            Treatment::Anycast(anycast) => {
                if consumer.has_room() {
                    anycast.set_ready(key, consumer);
                    self.dispatch_waiting(at, links);
                } else {
                    anycast.set_unready(key, &mut self.consumers);
                }
            }
            Treatment::Multicast(_) => self.catch_up(key, links),
            Treatment::Queue(_) => self.dispatch_from_queue(key, links),
            Treatment::Stream(_) => self.dispatch_to_reader(key, links),
            Treatment::Topic(_) => debug_assert!(false, "consumers of a topic are at its subscriptions"),
            // Its messages have gone, and its consumers go next.
            Treatment::Closed => {}
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
            Outgoing::Nothing => consumer.fetching == 0 && !address.treatment.has_for(consumer),
            // The rest of a long delivery may take its time; credit cannot be used before, nor is
            // it wanted.
            Outgoing::Message { .. } => address.treatment.waiting() == 0 && consumer.backlog.is_empty(),
            Outgoing::Aborted => false,
        };
        if done {
            consumer.drain = false;
            consumer.credit = 0;
            let (attachment, at) = (consumer.attachment, consumer.address);
            self.mark_not_ready(at, key);
            links.drained(attachment);
        } else if let Treatment::Queue(queue) = &mut address.treatment {
            queue.drain_later(key);
        }
    }

    /// A delivery, or the first part of one, dispatched to a consumer of another shard found no
    /// room, or no link, there. It returns to the front of those waiting, in the order of the
    /// refusals. A shard that refuses one refuses all that follow at that attachment until
    /// [`Links::halted`], and states no credit before: this keeps the order. A later part is never
    /// refused (see [`Router::begun`] and [`Router::stall`]).
    pub fn refused(&mut self, attachment: AttachmentId, delivery: &Delivery<'_>, links: &mut impl Links) {
        if !delivery.first {
            return;
        }
        let (consumer, address) = match self.attachments.get(attachment) {
            Occupant::Consumer(key) => (Some(key), Some(self.consumers[key].address)),
            Occupant::Left(address) => (None, self.by_key.get(&address).copied()),
            Occupant::Vacant | Occupant::Producer(_) => return,
        };
        let Some(address) = address else { return };
        if let Some(key) = consumer {
            let consumer = &mut self.consumers[key];
            consumer.blocked = true;
            consumer.dispatched = consumer.dispatched.wrapping_sub(1);
            if !std::mem::replace(&mut consumer.halted, true) {
                links.halted(attachment);
            }
            self.mark_not_ready(address, key);
        }
        match consumer {
            _ if !delivery.more => self.take_back(consumer, address, delivery, links),
            Some(key) => self.unbegin(key, address, delivery, links),
            // Its parts were discarded when its consumer detached.
            None => match delivery.token {
                Some(token) => self.outcome(token, &Outcome::Released, links),
                None => self.addresses[address].stats.dropped += 1,
            },
        }
    }

    fn take_back(&mut self, consumer: Option<Key>, address: Key, delivery: &Delivery<'_>, links: &mut impl Links) {
        let settlement = match delivery.token.map(|token| self.close_token(token)) {
            None => SettlementTarget::Nothing,
            Some(Some(pending)) => pending.settlement,
            Some(None) => return,
        };
        let state = &mut self.addresses[address];
        state.stats.delivered -= 1;
        state.stats.bytes -= delivery.payload.len() as u64;
        match state.treatment {
            Treatment::Anycast(_) => self.take_back_to_one(address, settlement, delivery, links),
            Treatment::Multicast(_) => self.take_back_copy(consumer, address, settlement, delivery, links),
            Treatment::Queue(_) => self.take_back_into_queue(address, consumer, settlement, links),
            Treatment::Stream(_) => self.reread(consumer, delivery.payload),
            Treatment::Topic(_) | Treatment::Closed => debug_assert!(false, "it dispatches nothing"),
        }
    }

    /// The consumer gets nothing more for now.
    pub(super) fn mark_not_ready(&mut self, at: Key, to: Key) {
        match &mut self.addresses[at].treatment {
            Treatment::Anycast(anycast) => anycast.set_unready(to, &mut self.consumers),
            Treatment::Queue(queue) => {
                if let Some(id) = self.consumers.get(to).and_then(|consumer| consumer.in_queue) {
                    queue.opened.messages.set_credit(id, false);
                }
            }
            // They look at their consumers when they have a message.
            Treatment::Multicast(_) | Treatment::Topic(_) | Treatment::Stream(_) | Treatment::Closed => {}
        }
    }

    /// The returned message. One with its producer as settlement target occupies the producer's
    /// window again.
    pub(super) fn returned(&mut self, settlement: SettlementTarget, address: Key, delivery: &Delivery<'_>) -> Key {
        let from = match settlement {
            SettlementTarget::Producer { attachment, .. } => self.attachments.producer(attachment),
            _ => None,
        };
        if let Some(producer) = from.and_then(|key| self.producers.get_mut(key)) {
            producer.waiting += 1;
            producer.taken -= 1;
        }
        let message = Message {
            producer: from.unwrap_or(Key::NONE),
            address,
            settlement,
            message_format: delivery.message_format,
            bytes: self.direct.messages.buffer(delivery.payload),
            end: delivery.payload.len() as u64,
            complete: true,
            queued: 1,
            refs: 1,
            untaken: u32::from(from.is_some()),
            since_ms: self.now_ms,
            charged: 0,
            readers: Vec::new(),
        };
        self.direct.messages.insert(message)
    }

    /// The first part of a long delivery has returned: the delivery waits again, with that part
    /// before later ones.
    fn unbegin(&mut self, key: Key, address: Key, delivery: &Delivery<'_>, links: &mut impl Links) {
        let consumer = &mut self.consumers[key];
        consumer.unconfirmed = false;
        // If it was aborted in the meantime, there is no settlement target.
        let outgoing = std::mem::replace(&mut consumer.outgoing, Outgoing::Nothing);
        let Outgoing::Message { message: back, .. } = outgoing else { return };
        if let Some(token) = delivery.token {
            self.close_token(token);
        }
        let message = &mut self.direct.messages[back];
        let missing = &delivery.payload[..message.base() as usize];
        message.bytes.splice(..0, missing.iter().copied());
        message.queued += 1;
        let state = &mut self.addresses[address];
        state.stats.delivered -= 1;
        state.stats.bytes -= delivery.payload.len() as u64;
        match state.treatment {
            Treatment::Multicast(_) => self.unbegin_copy(key, back, links),
            Treatment::Anycast(_) => self.unbegin_to_one(key, back, address, links),
            Treatment::Queue(_) | Treatment::Topic(_) | Treatment::Stream(_) | Treatment::Closed => {
                debug_assert!(false, "its messages have one part");
            }
        }
    }

    /// A consumer of another shard has taken the first part of a long delivery: the others may
    /// follow.
    pub fn begun(&mut self, attachment: AttachmentId, links: &mut impl Links) {
        let Some(key) = self.attachments.consumer(attachment) else { return };
        self.consumers[key].unconfirmed = false;
        self.resume(key, links);
        self.dispatch_backlog(key, links);
    }
}

/// Discards the bytes before `offset`: all of them at once, or once copying the rest is worth it.
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
    fn trim_drops_consumed_bytes_once_they_exceed_half() {
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
        let mut message = Message::begun(key, key, SettlementTarget::Nothing, &head);
        message.bytes = (0..100).collect();
        trim(&mut message, 50);
        assert_eq!(message.bytes.len(), 100, "half is not worth the copying");
        trim(&mut message, 60);
        assert_eq!((message.base(), message.after(90)), (60, &[90, 91, 92, 93, 94, 95, 96, 97, 98, 99][..]));
        trim(&mut message, 100);
        assert_eq!((message.base(), message.after(100)), (100, &[][..]));
    }
}
