//! Partial deliveries: each part is dispatched as it arrives, to consumers that are receiving the
//! delivery.
//!
//! A consumer that has all earlier parts receives the next one directly from the producer; a
//! consumer of another shard only after it has taken the first part. As soon as one consumer lags
//! (it had no room, or has not begun), the parts that it lacks are kept, once for all consumers. A
//! multicast consumer that lags by more than [`BACKLOG_BYTES`] does not get the message.

use super::arena::Key;
use super::consumer::Outgoing;
use super::producer::Incoming;
use super::treatment::Treatment;
use super::{Arrival, Delivery, Links, Router};

impl Router {
    /// Processes a later part of a delivery, or its abort.
    pub(super) fn part(&mut self, from: Key, arrival: &Arrival<'_>, links: &mut impl Links) {
        let producer = &mut self.producers[from];
        let incoming = producer.incoming;
        if arrival.aborted || !arrival.more {
            producer.incoming = Incoming::Nothing;
        }
        let key = match incoming {
            Incoming::Message(key) => key,
            Incoming::Assembly => return self.assemble(from, arrival, links),
            Incoming::Nothing | Incoming::Discarded => return,
        };
        if arrival.aborted {
            return self.abort(key, links);
        }
        let mut readers = std::mem::take(&mut self.scratch.readers);
        readers.clone_from(&self.direct.messages[key].readers);
        self.dispatch_part(key, arrival, &mut readers, links);
        self.drop_slow_consumers(key, arrival.payload.len(), links);
        if arrival.more {
            self.update_back_pressure(key, links);
            self.drop_excess(from, key, links);
        } else {
            for reader in &readers {
                self.finish(*reader, key, links);
            }
            let at = self.direct.messages[key].address;
            if let Treatment::Multicast(_) = self.addresses[at].treatment {
                self.watch(at);
            }
            self.unref(key, links);
            for reader in readers.drain(..) {
                self.dispatch_backlog(reader, links);
            }
        }
        self.scratch.readers = readers;
    }

    /// Drops an incomplete delivery whose parts wait if its space has used up its share.
    fn drop_excess(&mut self, from: Key, key: Key, links: &mut impl Links) {
        let Some(message) = self.direct.messages.get(key) else { return };
        let (at, waits) = (message.address, !message.bytes.is_empty());
        if waits && !self.received.may_wait(self.addresses[at].account, 0) {
            let settlement = self.settlement_of(key);
            self.abort(key, links);
            self.producers[from].incoming = Incoming::Discarded;
            self.drop_copy(settlement, at, links);
        }
    }

    /// Dispatches a part to the readers that have all earlier ones, and leaves only these in
    /// `readers`. The part is kept for the other readers.
    fn dispatch_part(&mut self, key: Key, arrival: &Arrival<'_>, readers: &mut Vec<Key>, links: &mut impl Links) {
        let message = &mut self.direct.messages[key];
        let (address, message_format, start) = (message.address, message.message_format, message.end);
        let mut lag = message.queued > 0;
        readers.retain(|reader| {
            let consumer = &mut self.consumers[*reader];
            let Outgoing::Message { message, offset, token } = &mut consumer.outgoing else { return false };
            if *message != key {
                return false;
            }
            if !consumer.blocked && !consumer.unconfirmed && *offset == start {
                let (more, payload) = (arrival.more, arrival.payload);
                let delivery = Delivery {
                    token: *token,
                    message_format,
                    first: false,
                    more,
                    aborted: false,
                    payload,
                    shared: None,
                };
                if links.transfer(consumer.attachment, &delivery) {
                    *offset += payload.len() as u64;
                    self.addresses[address].stats.bytes += payload.len() as u64;
                    return true;
                }
                consumer.blocked = true;
            }
            lag = true;
            false
        });
        let message = &mut self.direct.messages[key];
        message.end += arrival.payload.len() as u64;
        message.complete = !arrival.more;
        message.since_ms = self.now_ms;
        if lag {
            message.bytes.extend_from_slice(arrival.payload);
        }
    }

    /// Dispatches the missing parts of the delivery in progress to a consumer that has room again.
    pub(super) fn resume(&mut self, reader: Key, links: &mut impl Links) {
        let consumer = &mut self.consumers[reader];
        match consumer.outgoing {
            _ if consumer.unconfirmed || consumer.blocked => {}
            Outgoing::Nothing => {}
            Outgoing::Aborted => self.void(reader, links),
            Outgoing::Message { message: key, offset, token } => {
                let message = &self.direct.messages[key];
                let payload = message.after(offset);
                if payload.is_empty() && !message.complete {
                    return;
                }
                let (message_format, more) = (message.message_format, !message.complete);
                let delivery =
                    Delivery { token, message_format, first: false, more, aborted: false, payload, shared: None };
                if !links.transfer(consumer.attachment, &delivery) {
                    consumer.blocked = true;
                    return;
                }
                self.addresses[message.address].stats.bytes += payload.len() as u64;
                let (end, complete) = (message.end, message.complete);
                consumer.read(key, end, token);
                if complete {
                    self.finish(reader, key, links);
                } else {
                    self.update_back_pressure(key, links);
                }
                self.note_dispatch_time(reader);
            }
        }
    }

    /// Ends the delivery in progress of a reader that has all parts.
    fn finish(&mut self, reader: Key, key: Key, links: &mut impl Links) {
        let now_ms = self.now_ms;
        let consumer = &mut self.consumers[reader];
        let outgoing = std::mem::replace(&mut consumer.outgoing, Outgoing::Nothing);
        if let Outgoing::Message { token: Some(token), .. } = outgoing {
            consumer.copies.completed(token, now_ms);
        }
        self.direct.messages[key].forget_reader(reader);
        self.unref(key, links);
    }

    /// Aborts the delivery in progress of a consumer, because its outcome is known.
    pub(super) fn stop_reading(&mut self, reader: Key, links: &mut impl Links) {
        let Outgoing::Message { message, .. } = self.consumers[reader].outgoing else { return };
        self.consumers[reader].outgoing = Outgoing::Aborted;
        self.direct.messages[message].forget_reader(reader);
        self.unread(message, links);
        self.unref(message, links);
        self.void(reader, links);
        self.dispatch_backlog(reader, links);
    }

    /// Sends the abort of a partial delivery to its consumer.
    fn void(&mut self, reader: Key, links: &mut impl Links) {
        let consumer = &mut self.consumers[reader];
        if consumer.unconfirmed {
            return;
        }
        let delivery = Delivery {
            token: None,
            message_format: 0,
            first: false,
            more: false,
            aborted: true,
            payload: &[],
            shared: None,
        };
        if links.transfer(consumer.attachment, &delivery) {
            consumer.outgoing = Outgoing::Nothing;
        } else {
            consumer.blocked = true;
        }
    }

    /// Discards the remaining parts of an incomplete message that has no readers.
    pub(super) fn unread(&mut self, key: Key, links: &mut impl Links) {
        let message = &self.direct.messages[key];
        if message.complete || !message.unread() {
            return;
        }
        if let Some(producer) = self.producers.get_mut(message.producer) {
            producer.incoming = Incoming::Discarded;
        }
        self.unref(key, links);
    }

    /// Aborts a delivery for its producer, which needs no outcome.
    pub(super) fn abort(&mut self, key: Key, links: &mut impl Links) {
        let message = &mut self.direct.messages[key];
        let (address, settlement) = (message.address, message.settlement);
        let readers = std::mem::take(&mut message.readers);
        let bytes = message.end as usize;
        if let Treatment::Anycast(anycast) = &mut self.addresses[address].treatment
            && readers.is_empty()
        {
            anycast.waiting.remove(key);
        }
        for reader in &readers {
            let consumer = &mut self.consumers[*reader];
            match consumer.outgoing {
                Outgoing::Message { message, token, .. } if message == key => {
                    consumer.outgoing = Outgoing::Aborted;
                    if let Some(token) = token {
                        self.close_token(token);
                    }
                    self.void(*reader, links);
                }
                _ => {
                    consumer.backlog.remove(key);
                    consumer.backlog_bytes -= bytes;
                }
            }
        }
        self.remove_join(settlement);
        self.forget(key, links);
        for reader in readers {
            self.dispatch_backlog(reader, links);
        }
    }
}
