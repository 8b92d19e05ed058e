//! Anycast: each message goes to one of the consumers, whose outcome is the producer's.

use super::address::Incoming;
use super::arena::Key;
use super::flow::Part;
use super::message::{Message, SettlementTarget};
use super::{Arrival, Links, Router};

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
        while let Some(to) = self.addresses[address].pick(&self.consumers, &mut self.random) {
            if let Ok(token) = self.dispatch(to, settlement, Part::of(arrival), links) {
                self.taken(from, 1);
                if arrival.more {
                    let mut message = Message::begun(from, address, settlement, arrival);
                    message.refs += 1;
                    message.readers.push(to);
                    let end = message.end;
                    let message = self.messages.insert(message);
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
        let address = &mut self.addresses[key];
        if address.consumers.is_empty() || producer.is_full(address.declared.link_capacity) {
            if arrival.more {
                producer.incoming = Incoming::Discarded;
            }
            self.taken(from, 1);
            self.lose(settlement, key, links);
            return;
        }
        let mut message = Message::begun(from, key, settlement, arrival);
        message.bytes = self.messages.buffer(arrival.payload);
        message.queued = 1;
        message.refs += 1;
        message.untaken = 1;
        let message = self.messages.insert(message);
        address.waiting.push_back(message);
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
            let address = &mut self.addresses[key];
            let Some(message) = address.waiting.front() else { return };
            let Some(to) = address.pick(&self.consumers, &mut self.random) else { return };
            if self.begin(to, message, links) {
                self.addresses[key].waiting.pop_front();
            }
        }
    }

    /// The last consumer has detached: waiting messages are released.
    pub(super) fn release_waiting(&mut self, key: Key, links: &mut impl Links) {
        while let Some(waiting) = self.addresses[key].waiting.pop_front() {
            let message = &mut self.messages[waiting];
            message.queued -= 1;
            let settlement = message.settlement;
            self.lose(settlement, key, links);
            self.unread(waiting, links);
            self.unref(waiting, links);
        }
    }
}
