//! The fast path of plain messages (only size, priority and durability matter) to a consumer that
//! accepts any message. `incoming`, `outgoing` and `settling` process all others; order and
//! outcomes are the same.

use enmasse_amqp::codec::envelope::{Envelope, envelope};
use enmasse_amqp::types::Outcome;
use enmasse_journal::queue::{Candidates, Plain, Priority, Seq};

use super::super::arena::Key;
use super::super::arriving::Arriving;
use super::super::consumer::Consumer;
use super::super::delivery::Part;
use super::super::dispatch::Dispatcher;
use super::super::message::SettlementTarget;
use super::super::storage::Storage;
use super::super::{Links, Router};
use super::Queue;

/// The properties of a plain message; `None` if it is not plain.
#[inline]
fn plain_of(envelope: &Envelope<'_>, bytes: usize) -> Option<Plain> {
    let header = &envelope.header;
    let never_expires = header.ttl.is_none() && envelope.absolute_expiry_ms.is_none();
    let undelayed = envelope.delivery_time_ms.is_none() && envelope.delivery_delay_ms.is_none();
    let ungrouped = envelope.group_id.is_none() && envelope.producer_sequence.is_none();
    (never_expires && undelayed && ungrouped && header.delivery_count == 0).then(|| Plain {
        size_bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        priority: Priority::new(header.priority),
        durable: header.durable,
    })
}

/// Whether a consumer can receive a message at once. A resumable link cannot: its hold must be on
/// disk first.
#[inline]
fn accepts_any(consumer: &Consumer) -> bool {
    consumer.resumed.is_none() && consumer.has_room()
}

impl Queue {
    /// Whether some of its messages have state that is not in their entries.
    #[inline]
    fn has_exceptions(&self) -> bool {
        !self.changed.is_empty() || !self.sent.is_empty()
    }

    /// Whether no message is on its way from its place in the queue to a consumer.
    #[inline]
    pub(in crate::core) fn is_at_rest(&self) -> bool {
        self.fetching.is_empty() && !self.has_exceptions()
    }

    /// Removes a plain message that a consumer has accepted. `false`: it is not plain, and nothing
    /// was done.
    #[inline]
    pub(super) fn accept_plain(&mut self, seq: Seq, storage: &mut Storage) -> bool {
        if self.has_exceptions() || self.resuming.holds_any() {
            return false;
        }
        // It has more to it than its bytes.
        let Some(place) = self.opened.messages.accept_plain(seq) else { return false };
        match self.opened.log {
            Some(log) => {
                storage.bodies.forget(place);
                storage.journal.remove_at(log, seq.0, place);
            }
            None => storage.bodies.free(place),
        }
        true
    }

    /// Makes a message available again that was not sent.
    #[cold]
    pub(super) fn undo_dispatch(&mut self, seq: Seq, storage: &mut Storage) {
        let Storage { now_ms, effects, .. } = storage;
        self.opened.messages.undo_dispatch(*now_ms, seq, &mut |effect| effects.push(effect));
    }
}

impl Router {
    /// Stores and accepts a plain message for a queue in memory. `false`: it is not plain, and
    /// nothing was done.
    #[inline]
    pub(in crate::core) fn keep_plain(
        &mut self,
        from: Key,
        arriving: &Arriving,
        body: &[u8],
        links: &mut impl Links,
    ) -> bool {
        let at = self.producers[from].address;
        let queue = self.addresses.queue_mut(at);
        let opened = &queue.opened;
        if opened.log.is_some()
            || self.packet_id.is_some()
            || opened.last_value_key.is_some()
            || !arriving.is_standard_and_untransacted()
        {
            return false;
        }
        if queue.temporary.is_some() && queue.beyond_budget(body.len()).is_some() {
            return false;
        }
        let is_at_rest = queue.is_at_rest();
        let opened = &mut queue.opened;
        // Its error is found, and answered, on the common path.
        let Ok(envelope) = &envelope(body) else { return false };
        let Some(plain) = plain_of(envelope, body.len()) else { return false };
        let taker = if is_at_rest { opened.messages.taker() } else { None };
        let to = taker.and_then(|id| opened.messages.key_of(id)).map(Key::unpack);
        let to = to.filter(|to| self.consumers.get(*to).is_some_and(accepts_any));
        let bodies = &mut self.storage.bodies;
        let kept =
            opened.messages.keep_plain(self.now_ms, &plain, taker.filter(|_| to.is_some()), || bodies.put(body, 1));
        let Some(seq) = kept else { return false };
        if let Some(to) = to {
            // Dispatched from the receive buffer; the stored copy serves a later delivery.
            let Self { shard, now_ms, consumers, addresses, pending, .. } = self;
            let (unsettled, stats) = addresses[at].counts();
            let dispatcher = Dispatcher { shard: *shard, now_ms: *now_ms, consumers, pending, unsettled, stats };
            let dispatched = dispatcher.dispatch(to, SettlementTarget::Queue(seq), Part::whole(body), links);
            self.note_dispatched(at, to, seq, dispatched.is_ok());
        }
        self.answer(arriving.settlement, at, &Outcome::Accepted, links);
        self.taken(from, 1);
        self.mark_dirty(at);
        true
    }

    /// Dispatches plain messages in order, while exactly one consumer may receive them and has
    /// room.
    pub(in crate::core) fn dispatch_plain(&mut self, at: Key, links: &mut impl Links) {
        let queue = self.addresses.queue(at);
        if !queue.is_at_rest() {
            return;
        }
        let (on_disk, shard) = (queue.opened.log.is_some(), self.shard);
        // Several consumers take turns, on the common path.
        let Candidates { common: [id], own: [] } = queue.opened.messages.candidates() else { return };
        let (id, to) = (*id, queue.opened.messages.key_of(*id).map(Key::unpack));
        let Some(to) = to.filter(|to| self.consumers.get(*to).is_some_and(accepts_any)) else { return };
        loop {
            let queue = self.addresses.queue_mut(at);
            // The next one is not plain, or there is none.
            let Some((seq, place)) = queue.opened.messages.take_plain(id) else { return };
            let Some(body) = self.storage.bodies.get(place, on_disk) else {
                return self.redeliver_seq(at, to, seq, links);
            };
            let settles = self.consumers.get(to).is_some_and(|to| to.settles_at_once(shard, body.len()));
            let part = Part::whole(body).with_shared(self.storage.bodies.shared(place, on_disk));
            let Self { shard, now_ms, consumers, addresses, pending, .. } = self;
            let (unsettled, stats) = addresses[at].counts();
            let dispatcher = Dispatcher { shard: *shard, now_ms: *now_ms, consumers, pending, unsettled, stats };
            let settlement = if settles { SettlementTarget::Nothing } else { SettlementTarget::Queue(seq) };
            let dispatched = dispatcher.dispatch(to, settlement, part, links);
            if settles && dispatched.is_ok() {
                self.accept_at_once(at, seq);
            }
            if !self.note_dispatched(at, to, seq, dispatched.is_ok()) {
                return;
            }
        }
    }

    /// Removes a dispatched message whose consumer settles at once.
    #[inline]
    fn accept_at_once(&mut self, at: Key, seq: Seq) {
        let Self { addresses, storage, .. } = self;
        let queue = addresses.queue_mut(at);
        if !queue.accept_plain(seq, storage) {
            queue.settle(seq, &Outcome::Accepted, storage);
        }
    }

    /// Processes the result of a dispatch. Returns whether the consumer has room for another
    /// message.
    #[inline]
    fn note_dispatched(&mut self, at: Key, to: Key, seq: Seq, dispatched: bool) -> bool {
        if !dispatched {
            self.addresses.queue_mut(at).undo_dispatch(seq, &mut self.storage);
        }
        let has_room = self.consumers.get(to).is_some_and(Consumer::has_room);
        if !has_room {
            self.mark_not_ready(at, to);
        }
        has_room
    }

    /// Fetches an assigned message whose body is not in memory, or is damaged.
    #[cold]
    fn redeliver_seq(&mut self, at: Key, to: Key, seq: Seq, links: &mut impl Links) {
        if let Some(item) = self.addresses.queue(at).opened.messages.get(seq) {
            self.fetch_or_dispatch(at, to, item, links);
        }
    }
}
