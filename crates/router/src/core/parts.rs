//! Deliveries in parts: handed on as they come, to consumers in the middle of them.
//!
//! A consumer that has what came so far is handed the next part straight from the producer (one of another shard only
//! once that has taken the first). As soon as one lags (it had no room, or has not begun) what it lacks is kept, once
//! for all; a multicast consumer that lags by more than [`BACKLOG_BYTES`] is given up.

use super::address::{BACKLOG_BYTES, Incoming, Outgoing};
use super::arena::Key;
use super::{AddressKind, Arrival, Delivery, Links, Router};

impl Router {
    /// A later part has come, or word that the delivery is void.
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
        let mut readers = std::mem::take(&mut self.readers);
        readers.clone_from(&self.messages[key].readers);
        self.hand_on(key, arrival, &mut readers, links);
        self.give_up_laggards(key, arrival.payload.len(), links);
        if arrival.more {
            self.weigh(key, links);
        } else {
            for reader in &readers {
                self.finish(*reader, key, links);
            }
            self.watch(self.messages[key].address);
            self.unref(key, links);
            for reader in readers.drain(..) {
                self.feed(reader, links);
            }
        }
        self.readers = readers;
    }

    /// Hands a part to those readers that have all before it; they remain in `readers`. Keeps it for the others.
    fn hand_on(&mut self, key: Key, arrival: &Arrival<'_>, readers: &mut Vec<Key>, links: &mut impl Links) {
        let message = &mut self.messages[key];
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
                let delivery = Delivery { token: *token, message_format, first: false, more, aborted: false, payload };
                if links.transfer(consumer.port, &delivery) {
                    *offset += payload.len() as u64;
                    self.addresses[address].stats.bytes += payload.len() as u64;
                    return true;
                }
                consumer.blocked = true;
            }
            lag = true;
            false
        });
        let message = &mut self.messages[key];
        message.end += arrival.payload.len() as u64;
        message.complete = !arrival.more;
        message.since_ms = self.now_ms;
        if lag {
            message.bytes.extend_from_slice(arrival.payload);
        }
    }

    /// A part of `grown` bytes waits now: multicast consumers that lag too far do not get the message.
    fn give_up_laggards(&mut self, key: Key, grown: usize, links: &mut impl Links) {
        let message = &self.messages[key];
        let (address, owed, end) = (message.address, message.owed, message.end);
        if message.bytes.is_empty() || self.addresses[address].declared.kind != AddressKind::Multicast {
            return;
        }
        for reader in message.readers.clone() {
            let consumer = &mut self.consumers[reader];
            match consumer.outgoing {
                Outgoing::Message { message, offset, token } if message == key => {
                    if end - offset > BACKLOG_BYTES as u64 {
                        let closed = token.and_then(|token| self.close_token(token));
                        self.lose(closed.map_or(owed, |pending| pending.owed), address, links);
                        self.stop_reading(reader, links);
                    }
                }
                _ => {
                    consumer.backlog_bytes += grown;
                    if consumer.backlog_bytes > BACKLOG_BYTES {
                        consumer.backlog_bytes -= end as usize;
                        consumer.backlog.remove(key);
                        self.forgo(reader, key, links);
                    }
                }
            }
            if self.messages.get(key).is_none() {
                return;
            }
        }
    }

    /// A consumer has room again: hands it what it lacks of the delivery it is in the middle of.
    pub(super) fn resume(&mut self, reader: Key, links: &mut impl Links) {
        let consumer = &mut self.consumers[reader];
        match consumer.outgoing {
            _ if consumer.unconfirmed || consumer.blocked => {}
            Outgoing::Nothing => {}
            Outgoing::Aborted => self.void(reader, links),
            Outgoing::Message { message: key, offset, token } => {
                let message = &self.messages[key];
                let payload = message.after(offset);
                if payload.is_empty() && !message.complete {
                    return;
                }
                let (message_format, more) = (message.message_format, !message.complete);
                let delivery = Delivery { token, message_format, first: false, more, aborted: false, payload };
                if !links.transfer(consumer.port, &delivery) {
                    consumer.blocked = true;
                    return;
                }
                self.addresses[message.address].stats.bytes += payload.len() as u64;
                let (end, complete) = (message.end, message.complete);
                consumer.read(key, end, token);
                if complete {
                    self.finish(reader, key, links);
                } else {
                    self.weigh(key, links);
                }
                self.took(reader);
            }
        }
    }

    /// A reader has all of a message.
    fn finish(&mut self, reader: Key, key: Key, links: &mut impl Links) {
        let now_ms = self.now_ms;
        let consumer = &mut self.consumers[reader];
        let outgoing = std::mem::replace(&mut consumer.outgoing, Outgoing::Nothing);
        if let Outgoing::Message { token: Some(token), .. } = outgoing {
            consumer.copies.completed(token, now_ms);
        }
        self.messages[key].forget_reader(reader);
        self.unref(key, links);
    }

    /// A consumer gets no more of the delivery it is in the middle of, whose outcome is known.
    pub(super) fn stop_reading(&mut self, reader: Key, links: &mut impl Links) {
        let Outgoing::Message { message, .. } = self.consumers[reader].outgoing else { return };
        self.consumers[reader].outgoing = Outgoing::Aborted;
        self.messages[message].forget_reader(reader);
        self.unread(message, links);
        self.unref(message, links);
        self.void(reader, links);
        self.feed(reader, links);
    }

    /// Tells a consumer that what it has of a delivery is void.
    fn void(&mut self, reader: Key, links: &mut impl Links) {
        let consumer = &mut self.consumers[reader];
        if consumer.unconfirmed {
            return;
        }
        let delivery =
            Delivery { token: None, message_format: 0, first: false, more: false, aborted: true, payload: &[] };
        if links.transfer(consumer.port, &delivery) {
            consumer.outgoing = Outgoing::Nothing;
        } else {
            consumer.blocked = true;
        }
    }

    /// If nobody wants a message of which more is to come, the rest is thrown away as it comes.
    pub(super) fn unread(&mut self, key: Key, links: &mut impl Links) {
        let message = &self.messages[key];
        if message.complete || !message.unread() {
            return;
        }
        if let Some(producer) = self.producers.get_mut(message.producer) {
            producer.incoming = Incoming::Discarded;
        }
        self.unref(key, links);
    }

    /// The producer takes a delivery back: nobody is owed anything for it.
    pub(super) fn abort(&mut self, key: Key, links: &mut impl Links) {
        let message = &mut self.messages[key];
        let (address, owed) = (message.address, message.owed);
        let readers = std::mem::take(&mut message.readers);
        let bytes = message.end as usize;
        if readers.is_empty() {
            self.addresses[address].waiting.remove(key);
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
        self.forget_join(owed);
        self.forget(key, links);
        for reader in readers {
            self.feed(reader, links);
        }
    }
}
