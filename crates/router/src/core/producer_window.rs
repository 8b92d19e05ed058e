//! The windows of producers of direct addresses, and their back-pressure by waiting bytes.

use super::arena::Key;
use super::consumer::Outgoing;
use super::message::Message;
use super::received::Account;
use super::{CROWDED_HOLD_BYTES, HOLD_BYTES, Hold, Links, Router, ToLink};

impl Router {
    /// Counts messages that left their producer's window, for the notification at the end of the
    /// turn.
    #[inline]
    pub(super) fn taken(&mut self, producer: Key, count: i32) {
        let Some(state) = self.producers.get_mut(producer) else { return };
        state.taken += count;
        if !state.to_notify {
            state.to_notify = true;
            self.schedule.to_notify.push(producer);
        }
    }

    /// One of the consumers that hold the window of a message has taken it, or will not. The last
    /// one frees the window.
    pub(super) fn release_awaited_reader(&mut self, key: Key) {
        let message = &mut self.direct.messages[key];
        if message.awaited_readers == 1 {
            self.leave_producer_window(key);
        } else {
            message.awaited_readers = message.awaited_readers.saturating_sub(1);
        }
    }

    fn leave_producer_window(&mut self, key: Key) {
        let message = &mut self.direct.messages[key];
        if message.awaited_readers > 0 {
            message.awaited_readers = 0;
            let producer = message.producer;
            if let Some(state) = self.producers.get_mut(producer) {
                state.waiting -= 1;
                self.note_stall(producer);
            }
            self.taken(producer, 1);
        }
    }

    /// Drops one reference to a message. The last one removes the message.
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
        self.leave_producer_window(key);
        self.charge(key, 0, 0, links);
        self.direct.messages.remove(key);
    }

    /// Discards bytes that all readers have, and updates the bytes charged to the producer: those
    /// that half of the readers lack, or all bytes until enough readers have begun.
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
        let waiting = if message.awaited_readers > 0 {
            message.bytes.len()
        } else {
            let half = offsets.get(offsets.len().div_ceil(2).saturating_sub(1));
            half.map_or(0, |offset| (message.end - offset) as usize)
        };
        self.scratch.offsets = offsets;
        let kept = message.bytes.len();
        self.charge(key, waiting, kept, links);
    }

    /// Charges a message's waiting bytes to its producer, and its kept ones to its space.
    fn charge(&mut self, key: Key, bytes: usize, kept: usize, links: &mut impl Links) {
        let message = &mut self.direct.messages[key];
        let before = std::mem::replace(&mut message.charged, bytes);
        let account = self.addresses.get(message.address).map_or(Account::NONE, |address| address.account);
        self.received.set_waiting(&mut message.kept, account, kept);
        let key = message.producer;
        if let Some(producer) = self.producers.get(key) {
            self.update_producer_back_pressure(key, producer.waiting_bytes + bytes - before, links);
        }
    }

    /// Sets the waiting bytes of a producer, and holds it back or lets it continue.
    pub(super) fn update_producer_back_pressure(&mut self, key: Key, bytes: usize, links: &mut impl Links) {
        let Some(producer) = self.producers.get_mut(key) else { return };
        producer.waiting_bytes = bytes;
        let address = &self.addresses[producer.address];
        let stores = address.declared.kind.stores();
        let crowded = bytes > CROWDED_HOLD_BYTES / 2
            && !stores
            && self.received.is_crowded(address.account, producer.held == Hold::SendOnly);
        let most = if crowded { CROWDED_HOLD_BYTES } else { HOLD_BYTES };
        let most = if producer.held == Hold::No { most } else { most / 2 };
        let waits = producer.held == Hold::Connection;
        // Only the journal delays messages of a stored address. Elsewhere the unread bytes of a
        // connection with receivers may contain the credit of a consumer.
        let hold = if bytes > 0 && stores && self.received.is_over(address.account, waits) {
            Hold::Connection
        } else if bytes > most && crowded {
            Hold::SendOnly
        } else if bytes > most || address.treatment.is_holding(producer.anonymous && !producer.in_transaction) {
            Hold::Session
        } else {
            Hold::No
        };
        if producer.held != hold {
            producer.held = hold;
            links.send(ToLink::Hold { attachment: producer.attachment, hold });
            self.note_stall(key);
        }
    }

    /// Counts a stall of a producer whose window is used up or that is held back: once, until it
    /// may continue. Its window opens again when half of it is free.
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
}

/// Discards the bytes before `offset` if these are all bytes, or more than half of them: then
/// copying the rest is worth it.
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
    use super::super::Arrival;
    use super::super::arena::Arena;
    use super::super::message::SettlementTarget;
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
        assert_eq!(message.bytes.len(), 100, "half of the bytes are not worth a copy");
        trim(&mut message, 60);
        assert_eq!((message.base(), message.after(90)), (60, &[90, 91, 92, 93, 94, 95, 96, 97, 98, 99][..]));
        trim(&mut message, 100);
        assert_eq!((message.base(), message.after(100)), (100, &[][..]));
    }
}
