//! Multicast: every consumer receives a copy of each message; the outcomes of the copies are joined
//! into one (`outcome`).
//!
//! The copy for a consumer without room waits in the consumer's backlog, up to
//! [`BACKLOG_MESSAGES`](super::BACKLOG_MESSAGES) and [`BACKLOG_BYTES`](super::BACKLOG_BYTES);
//! beyond these, the consumer misses copies. A message occupies its producer's window until half of
//! the consumers that receive it have taken it. So a slow minority delays no other consumer, nor do
//! consumers that accept nothing (`slow_consumers`) or settle nothing (`overdue`).

mod overdue;
mod slow_consumers;

use super::arena::Key;
use super::consumer::Outgoing;
use super::delivery::Part;
use super::message::{Message, SettlementTarget};
use super::outcome::Join;
use super::producer::{Incoming, Producer};
use super::{Arrival, BACKLOG_BYTES, Delivery, Links, Router};

pub use overdue::{OVERDUE_PROBATION_MS, SETTLE_TIMEOUT_MS};
pub use slow_consumers::STALL_MS;

/// The state of a multicast address.
#[derive(Debug, Default)]
pub(super) struct Multicast {
    /// number of overdue consumers
    pub(super) overdue: u32,
    /// a check for slow consumers is scheduled
    pub(super) watched: bool,
}

impl Router {
    /// Dispatches a delivery that begins to all consumers.
    pub(super) fn deliver_to_all(&mut self, from: Key, arrival: &Arrival<'_>, links: &mut impl Links) {
        let mut audience = std::mem::take(&mut self.scratch.audience);
        self.gather_audience(from, &mut audience);
        let settlement = self.settlement_of_all(from, arrival, &audience);
        let fanout = self.fan_out(from, settlement, arrival, &audience, links);
        if fanout.awaited_count == 0 {
            self.taken(from, 1);
        }
        let address = self.producers[from].address;
        for to in &fanout.missed {
            self.drop_copy(self.consumers[*to].settlement_for(settlement), address, links);
        }
        self.scratch.readers = fanout.missed;
        if audience.is_empty() {
            self.drop_copy(settlement, address, links);
        }
        if audience.len() > 1 && !arrival.settled {
            self.watch(address);
        }
        self.scratch.audience = audience;
        if let Some(message) = fanout.message {
            self.watch(address);
            self.direct.messages[message].awaited_readers = fanout.awaited_count;
            self.producers[from].waiting += u32::from(fanout.awaited_count > 0);
            if arrival.more {
                self.unread(message, links);
            }
            self.update_back_pressure(message, links);
            self.note_stall(from);
        }
    }

    /// The settlement target of the copies. Without a copy it is the producer, which is answered at
    /// once.
    fn settlement_of_all(&mut self, from: Key, arrival: &Arrival<'_>, audience: &[Key]) -> SettlementTarget {
        let Producer { attachment, address, .. } = self.producers[from];
        let delivery_id = arrival.delivery_id;
        if arrival.settled {
            return SettlementTarget::Nothing;
        }
        if audience.is_empty() {
            return SettlementTarget::Producer { attachment, delivery_id };
        }
        let optional = match self.addresses.multicast(address).overdue {
            0 => 0,
            _ => audience.iter().filter(|key| self.consumers[**key].is_overdue()).count(),
        };
        let required = audience.len() - optional;
        SettlementTarget::Join(self.direct.joins.insert(Join::new(
            attachment,
            delivery_id,
            required as u32,
            optional as u32,
        )))
    }

    fn fan_out(
        &mut self,
        from: Key,
        settlement: SettlementTarget,
        arrival: &Arrival<'_>,
        audience: &[Key],
        links: &mut impl Links,
    ) -> Fanout {
        let producer = &self.producers[from];
        let address = producer.address;
        let state = &self.addresses[address];
        let may_wait = !producer.is_full(state.declared.link_capacity)
            && self.received.may_wait(state.account, arrival.payload.len());
        let mut missed = std::mem::take(&mut self.scratch.readers);
        missed.clear();
        let mut fanout = Fanout { message: None, awaited_count: 0, missed };
        let (mut sent, mut waiting) = (0, 0);
        if arrival.more {
            let message = self.direct.messages.insert(Message::begun(from, address, settlement, arrival));
            self.producers[from].incoming = Incoming::Message(message);
            fanout.message = Some(message);
        }
        for to in audience.iter().copied() {
            let consumer = &self.consumers[to];
            let consumer_lags = consumer.slow;
            if consumer.has_room()
                && consumer.backlog.is_empty()
                && let Ok(token) = self.dispatch(to, settlement, Part::of(arrival), links)
            {
                sent += 1;
                if arrival.more
                    && let Some(key) = fanout.message
                {
                    let message = &mut self.direct.messages[key];
                    message.refs += 1;
                    message.readers.push(to);
                    let end = message.end;
                    self.consumers[to].read(key, end, token);
                }
            } else if may_wait && self.consumers[to].may_wait(arrival.payload.len()) {
                waiting += u32::from(!consumer_lags);
                let message = *fanout.message.get_or_insert_with(|| {
                    self.direct.messages.insert(Message::begun(from, address, settlement, arrival))
                });
                self.wait_for(to, message, arrival);
            } else {
                fanout.missed.push(to);
            }
        }
        fanout.awaited_count = u32::div_ceil(sent + waiting, 2).saturating_sub(sent);
        fanout
    }

    /// Adds a message to the backlog of one consumer.
    fn wait_for(&mut self, to: Key, key: Key, arrival: &Arrival<'_>) {
        if self.direct.messages[key].queued == 0 {
            self.direct.messages[key].bytes = self.direct.messages.buffer(arrival.payload);
        }
        let now_ms = self.now_ms;
        let message = &mut self.direct.messages[key];
        message.since_ms = now_ms;
        message.queued += 1;
        message.refs += 1;
        if arrival.more {
            message.readers.push(to);
        }
        let consumer = &mut self.consumers[to];
        consumer.backlog.push_back(key);
        consumer.backlog_bytes += arrival.payload.len();
    }

    /// Dispatches waiting copies to a consumer while it has room.
    pub(super) fn dispatch_copies(&mut self, to: Key, links: &mut impl Links) {
        loop {
            let consumer = &self.consumers[to];
            // It has all, or has no room: the next credit continues.
            let Some(message) = consumer.backlog.front().filter(|_| consumer.has_room()) else { return };
            let bytes = self.direct.messages[message].bytes.len();
            if !self.begin(to, message, links) {
                return;
            }
            let consumer = &mut self.consumers[to];
            consumer.backlog.pop_front();
            consumer.backlog_bytes -= bytes;
            self.note_dispatch_time(to);
        }
    }

    /// Drops a waiting copy because its consumer detached or exceeds its bound. The caller has
    /// removed it from the backlog.
    pub(super) fn skip_copy(&mut self, to: Key, key: Key, links: &mut impl Links) {
        let message = &mut self.direct.messages[key];
        let (address, settlement) = (message.address, self.consumers[to].settlement_for(message.settlement));
        message.queued -= 1;
        message.forget_reader(to);
        self.drop_copy(settlement, address, links);
        if !self.consumers[to].slow {
            self.release_awaited_reader(key);
        }
        self.unread(key, links);
        self.unref(key, links);
    }

    /// Checks the bounds of slow consumers after the message grew by `grown` bytes. A consumer
    /// beyond its bound does not get the message.
    pub(super) fn drop_slow_consumers(&mut self, key: Key, grown: usize, links: &mut impl Links) {
        let message = &self.direct.messages[key];
        let (address, settlement, end) = (message.address, message.settlement, message.end);
        if message.bytes.is_empty() || self.addresses.find_multicast(address).is_none() {
            return;
        }
        for reader in message.readers.clone() {
            let consumer = &mut self.consumers[reader];
            match consumer.outgoing {
                Outgoing::Message { message, offset, token } if message == key => {
                    if end - offset > BACKLOG_BYTES as u64 {
                        let closed = token.and_then(|token| self.close_token(token));
                        self.drop_copy(closed.map_or(settlement, |pending| pending.settlement), address, links);
                        self.stop_reading(reader, links);
                    }
                }
                _ => {
                    consumer.backlog_bytes += grown;
                    if consumer.backlog_bytes > BACKLOG_BYTES {
                        consumer.backlog_bytes -= end as usize;
                        consumer.backlog.remove(key);
                        self.skip_copy(reader, key, links);
                    }
                }
            }
            if self.direct.messages.get(key).is_none() {
                return;
            }
        }
    }

    /// A consumer of another shard refused a copy: the copy waits for it again.
    pub(super) fn requeue_refused_copy(
        &mut self,
        consumer: Option<Key>,
        at: Key,
        settlement: SettlementTarget,
        delivery: &Delivery<'_>,
        links: &mut impl Links,
    ) {
        // A copy is for its consumer only, and that has gone.
        let Some(to) = consumer else { return self.drop_copy(settlement, at, links) };
        let message = self.returned(settlement, at, delivery);
        self.consumers[to].backlog.push_returned(message);
        self.consumers[to].backlog_bytes += delivery.payload.len();
        self.update_back_pressure(message, links);
    }

    /// A consumer of another shard refused the first part of a copy, which is stored in the message
    /// again.
    pub(super) fn requeue_partial_copy(&mut self, to: Key, message: Key, links: &mut impl Links) {
        let consumer = &mut self.consumers[to];
        consumer.backlog.push_returned(message);
        consumer.backlog_bytes += self.direct.messages[message].bytes.len();
        self.update_back_pressure(message, links);
    }

    /// Collects the consumers that receive a message of this producer.
    fn gather_audience(&mut self, from: Key, audience: &mut Vec<Key>) {
        audience.clear();
        let producer = &mut self.producers[from];
        let address = &self.addresses[producer.address];
        if address.takers_of_all as usize == address.consumers.len() {
            audience.extend_from_slice(&address.consumers);
            return;
        }
        if producer.audience_epoch != address.epoch {
            producer.audience_epoch = address.epoch;
            let mut wanted = std::mem::take(&mut producer.audience);
            wanted.clear();
            let wants = |key: &&Key| producer.reaches(&self.consumers[**key]);
            wanted.extend(address.consumers.iter().filter(wants));
            producer.audience = wanted;
        }
        audience.extend_from_slice(&producer.audience);
    }
}

/// The result of dispatching the copies of a message.
struct Fanout {
    /// the shared message, if a consumer has to wait or parts follow
    message: Option<Key>,
    /// number of consumers that must take it before it leaves the producer's window
    awaited_count: u32,
    /// consumers that do not get their copy
    missed: Vec<Key>,
}
