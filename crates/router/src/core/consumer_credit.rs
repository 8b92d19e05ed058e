//! Dispatch within the credit of consumers, and deliveries that find no room on their links.

use enmasse_amqp::types::Outcome;

use super::address::Address;
use super::arena::Key;
use super::attachment::Occupant;
use super::consumer::Outgoing;
use super::delivery::Part;
use super::dispatch::{Dispatcher, NoRoom};
use super::message::{Message, SettlementTarget};
use super::received::WaitingBytes;
use super::treatment::Treatment;
use super::{AttachmentId, Delivery, Links, Router, ToLink};

impl Router {
    /// Dispatches the first part of a delivery to a consumer with room. Returns its token if there
    /// is a settlement target.
    #[inline]
    pub(super) fn dispatch(
        &mut self,
        to: Key,
        settlement: SettlementTarget,
        part: Part<'_>,
        links: &mut impl Links,
    ) -> Result<Option<u64>, NoRoom> {
        let Self { shard, now_ms, consumers, addresses, pending, .. } = self;
        let Address { unsettled, stats, treatment, .. } = &mut addresses[consumers[to].address];
        let dispatcher = Dispatcher { shard: *shard, now_ms: *now_ms, consumers, pending, unsettled, stats };
        let dispatched = dispatcher.dispatch(to, settlement, part, links);
        if dispatched.is_err() || consumers[to].credit == 0 || part.more {
            treatment.set_unready(to, consumers);
        }
        dispatched
    }

    /// Dispatches a waiting message, or its received parts, to a consumer with room. Returns
    /// whether the link took it; the caller then removes it from the backlog.
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
                self.release_awaited_reader(key);
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
            self.release_awaited_reader(key);
        }
        self.update_back_pressure(key, links);
        true
    }

    /// A consumer may receive deliveries up to `limit`: the deliveries dispatched and not refused
    /// since its attach, plus its credit, wrapping. Call it with an unchanged limit when a part
    /// that found no room may be offered again. `drain`: [`ToLink::Drained`] is sent after waiting
    /// messages were dispatched as far as credit allows.
    pub fn credit(&mut self, attachment: AttachmentId, limit: u32, drain: bool, links: &mut impl Links) {
        let Some(key) = self.attachments.consumer(attachment) else { return };
        let consumer = &mut self.consumers[key];
        // A limit below `dispatched` was lowered while deliveries were in flight.
        consumer.credit = u32::try_from(limit.wrapping_sub(consumer.dispatched).cast_signed()).unwrap_or(0);
        consumer.blocked = false;
        consumer.drain |= drain;
        if std::mem::take(&mut consumer.halted) {
            // Deliveries from now on that return precede all waiting ones.
            consumer.backlog.close_returned();
            self.addresses[consumer.address].treatment.close_returned();
        }
        self.resume(key, links);
        self.dispatch_backlog(key, links);
    }

    /// Suspends dispatch to a consumer until it grants credit: parts of a delivery found no room on
    /// its shard, or its link has ended and is about to be detached.
    pub fn stall(&mut self, attachment: AttachmentId) {
        let Some(key) = self.attachments.consumer(attachment) else { return };
        let consumer = &mut self.consumers[key];
        consumer.blocked = true;
        let at = consumer.address;
        self.mark_not_ready(at, key);
    }

    /// Dispatches waiting messages to a consumer that may have room.
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
            Treatment::Multicast(_) => self.dispatch_copies(key, links),
            Treatment::Queue(_) => self.dispatch_from_queue(key, links),
            Treatment::Stream(_) => self.dispatch_to_reader(key, links),
            Treatment::Topic(_) => debug_assert!(false, "consumers of a topic are at its subscriptions"),
            // Its messages are deleted; its consumers are detached next.
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
            // A drain does not wait for the remaining parts of a delivery: they use no further
            // credit.
            Outgoing::Message { .. } => address.treatment.waiting() == 0 && consumer.backlog.is_empty(),
            Outgoing::Aborted => false,
        };
        if done {
            consumer.drain = false;
            consumer.credit = 0;
            let (attachment, at) = (consumer.attachment, consumer.address);
            self.mark_not_ready(at, key);
            links.send(ToLink::Drained { attachment });
        } else if let Treatment::Queue(queue) = &mut address.treatment {
            queue.drain_later(key);
        }
    }

    /// A consumer of another shard had no room for a delivery or its first part, or has no link any
    /// more. The delivery returns to the front of the waiting ones, in the order of the refusals.
    /// To keep that order, a shard that refuses one delivery refuses all that follow at that
    /// attachment until [`ToLink::Halted`], and grants no credit before. A later part is never
    /// refused (see [`Router::begun`] and [`Router::stall`]).
    pub fn refused(&mut self, attachment: AttachmentId, delivery: &Delivery<'_>, links: &mut impl Links) {
        if !delivery.first {
            return;
        }
        let (consumer, address) = match self.attachments.get(attachment) {
            Occupant::Consumer(key) => (Some(key), Some(self.consumers[key].address)),
            Occupant::Detached(address) => (None, self.by_key.get(&address).copied()),
            Occupant::Vacant | Occupant::Producer(_) => return,
        };
        let Some(address) = address else { return };
        if let Some(key) = consumer {
            let consumer = &mut self.consumers[key];
            consumer.blocked = true;
            consumer.dispatched = consumer.dispatched.wrapping_sub(1);
            if !std::mem::replace(&mut consumer.halted, true) {
                links.send(ToLink::Halted { attachment });
            }
            self.mark_not_ready(address, key);
            if self.addresses.find_queue(address).is_some() {
                // Later messages must not overtake it once the consumer has room again.
                self.return_fetching(address, key);
            }
        }
        match consumer {
            _ if !delivery.more => self.return_refused(consumer, address, delivery, links),
            Some(key) => self.undo_begin(key, address, delivery, links),
            // The remaining parts were discarded when the consumer detached.
            None => match delivery.token {
                Some(token) => self.outcome(token, &Outcome::Released, links),
                None => self.addresses[address].stats.dropped += 1,
            },
        }
    }

    fn return_refused(&mut self, consumer: Option<Key>, address: Key, delivery: &Delivery<'_>, links: &mut impl Links) {
        let settlement = match delivery.token.map(|token| self.close_token(token)) {
            None => SettlementTarget::Nothing,
            Some(Some(pending)) => pending.settlement,
            Some(None) => return,
        };
        let state = &mut self.addresses[address];
        state.stats.delivered -= 1;
        state.stats.bytes -= delivery.payload.len() as u64;
        match state.treatment {
            Treatment::Anycast(_) => self.requeue_refused(address, settlement, delivery, links),
            Treatment::Multicast(_) => self.requeue_refused_copy(consumer, address, settlement, delivery, links),
            Treatment::Queue(_) => self.requeue_into_queue(address, consumer, settlement, links),
            Treatment::Stream(_) => self.rewind_reader(consumer, delivery.payload),
            Treatment::Topic(_) | Treatment::Closed => debug_assert!(false, "it has no deliveries of its own"),
        }
    }

    /// Marks a consumer as not ready.
    pub(super) fn mark_not_ready(&mut self, at: Key, to: Key) {
        match &mut self.addresses[at].treatment {
            Treatment::Anycast(anycast) => anycast.set_unready(to, &mut self.consumers),
            Treatment::Queue(queue) => {
                if let Some(id) = self.consumers.get(to).and_then(|consumer| consumer.in_queue) {
                    queue.opened.messages.set_credit(id, false);
                }
            }
            // These examine their consumers for each message.
            Treatment::Multicast(_) | Treatment::Topic(_) | Treatment::Stream(_) | Treatment::Closed => {}
        }
    }

    /// Stores a returned delivery as a message. If its settlement target is its producer, it
    /// occupies the producer's window again.
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
            awaited_readers: u32::from(from.is_some()),
            since_ms: self.now_ms,
            charged: 0,
            kept: WaitingBytes::NONE,
            readers: Vec::new(),
        };
        self.direct.messages.insert(message)
    }

    /// The first part of a partial delivery was refused: the delivery waits again, with that part
    /// before later ones.
    fn undo_begin(&mut self, key: Key, address: Key, delivery: &Delivery<'_>, links: &mut impl Links) {
        let consumer = &mut self.consumers[key];
        consumer.unconfirmed = false;
        // An aborted delivery has no settlement target.
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
            Treatment::Multicast(_) => self.requeue_partial_copy(key, back, links),
            Treatment::Anycast(_) => self.requeue_partial(key, back, address, links),
            Treatment::Queue(_) | Treatment::Topic(_) | Treatment::Stream(_) | Treatment::Closed => {
                debug_assert!(false, "stored messages are dispatched whole");
            }
        }
    }

    /// A consumer of another shard has taken the first part of a partial delivery: later parts may
    /// follow.
    pub fn begun(&mut self, attachment: AttachmentId, links: &mut impl Links) {
        let Some(key) = self.attachments.consumer(attachment) else { return };
        self.consumers[key].unconfirmed = false;
        self.resume(key, links);
        self.dispatch_backlog(key, links);
    }
}
