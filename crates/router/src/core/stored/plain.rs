//! The short way of plain messages: those of which nothing is to be known but size, priority and durability, handed to
//! a consumer that takes whatever comes. The others, and queues that have more to look at, go the way of `incoming`,
//! `outgoing` and `settling`; order and outcome are the same.

use enmasse_amqp::codec::envelope::{Envelope, envelope};
use enmasse_amqp::types::Outcome;
use enmasse_journal::queue::{Candidates, Plain, Priority, Seq};

use super::super::address::Consumer;
use super::super::arena::Key;
use super::super::flow::{Handing, Part};
use super::super::message::Owed;
use super::super::{Links, Router};
use super::Arriving;

/// What there is to know of a message, if that is all.
#[inline]
fn plain_of(envelope: &Envelope<'_>, bytes: usize) -> Option<Plain> {
    let header = &envelope.header;
    let lives_on = header.ttl.is_none() && envelope.absolute_expiry_ms.is_none();
    let at_once = envelope.delivery_time_ms.is_none() && envelope.delivery_delay_ms.is_none();
    let alone = envelope.group_id.is_none() && envelope.producer_sequence.is_none();
    (lives_on && at_once && alone && header.delivery_count == 0).then(|| Plain {
        size_bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        priority: Priority::new(header.priority),
        durable: header.durable,
    })
}

/// What one holds whose link can be resumed is to be on disk first.
#[inline]
fn takes_any(consumer: &Consumer) -> bool {
    consumer.resumed.is_none() && consumer.has_room()
}

impl Router {
    /// A whole message for a queue in memory: stored and accepted, if it is plain. `false`: nothing was done.
    #[inline]
    pub(super) fn keep_plain(&mut self, from: Key, arriving: &Arriving, body: &[u8], links: &mut impl Links) -> bool {
        let at = self.producers[from].address;
        let Some(stored) = self.addresses[at].stored.as_mut() else { return false };
        let shelf = &stored.shelf;
        if shelf.log.is_some() || shelf.last_value_key.is_some() || !arriving.is_of_its_own() {
            return false;
        }
        if stored.temporary.is_some() && stored.beyond_budget(body.len()).is_some() {
            return false;
        }
        let shelf = &mut stored.shelf;
        let Ok(envelope) = &envelope(body) else { return false };
        let Some(plain) = plain_of(envelope, body.len()) else { return false };
        let taker = if stored.fetching.is_empty() && stored.changed.is_empty() { shelf.queue.taker() } else { None };
        let to = taker.and_then(|id| shelf.queue.key_of(id)).map(Key::unpack);
        let to = to.filter(|to| self.consumers.get(*to).is_some_and(takes_any));
        let bodies = &mut self.bodies;
        let kept = shelf.queue.keep_plain(self.now_ms, &plain, taker.filter(|_| to.is_some()), || bodies.put(body, 1));
        let Some(seq) = kept else { return false };
        if let Some(to) = to {
            // From where it was read: what was put away is for those to whom it may have to go again.
            let Self { shard, now_ms, consumers, addresses, pending, .. } = self;
            let handing = Handing { shard: *shard, now_ms: *now_ms, consumers, addresses, pending };
            let handed = handing.hand(to, Owed::Queue(seq), Part::whole(body), links);
            self.note_handed(at, to, seq, handed.is_ok());
        }
        self.answer(arriving.owed, at, &Outcome::Accepted, links);
        self.taken(from, 1);
        self.touch(at);
        true
    }

    /// Hands out plain messages in their order, as long as there is one consumer that may have them and has room.
    pub(super) fn hand_out_plain(&mut self, at: Key, links: &mut impl Links) {
        let Some(stored) = self.addresses[at].stored.as_ref() else { return };
        if !(stored.fetching.is_empty() && stored.changed.is_empty()) {
            return;
        }
        let on_disk = stored.shelf.log.is_some();
        let Candidates { common: [id], own: [] } = stored.shelf.queue.candidates() else { return };
        let (id, to) = (*id, stored.shelf.queue.key_of(*id).map(Key::unpack));
        let Some(to) = to.filter(|to| self.consumers.get(*to).is_some_and(takes_any)) else { return };
        loop {
            let Some(stored) = self.addresses[at].stored.as_mut() else { return };
            let Some((seq, place)) = stored.shelf.queue.hand_plain(id) else { return };
            let Some(body) = self.bodies.get(place, on_disk) else { return self.bring_seq(at, to, seq, links) };
            let Self { shard, now_ms, consumers, addresses, pending, .. } = self;
            let handing = Handing { shard: *shard, now_ms: *now_ms, consumers, addresses, pending };
            let handed = handing.hand(to, Owed::Queue(seq), Part::whole(body), links);
            if !self.note_handed(at, to, seq, handed.is_ok()) {
                return;
            }
        }
    }

    /// A message was handed to a consumer, which had room, or did not go. Whether it has room for another one.
    #[inline]
    fn note_handed(&mut self, at: Key, to: Key, seq: Seq, handed: bool) -> bool {
        if !handed {
            self.give_back(at, seq);
        }
        let has_room = self.consumers.get(to).is_some_and(Consumer::has_room);
        if !has_room {
            self.tire(at, to);
        }
        has_room
    }

    /// A message that was taken out and whose body is not here, or is damaged.
    #[cold]
    fn bring_seq(&mut self, at: Key, to: Key, seq: Seq, links: &mut impl Links) {
        let stored = self.addresses[at].stored.as_ref();
        if let Some(item) = stored.and_then(|stored| stored.shelf.queue.get(seq)) {
            self.bring(at, to, item, links);
        }
    }

    /// A message that never left the node waits again.
    #[cold]
    fn give_back(&mut self, at: Key, seq: Seq) {
        let (now_ms, effects) = (self.now_ms, &mut self.effects);
        if let Some(stored) = self.addresses[at].stored.as_mut() {
            stored.shelf.queue.give_back(now_ms, seq, &mut |effect| effects.push(effect));
        }
    }

    /// A consumer has accepted a message: it goes, if it is plain. `false`: nothing was done.
    #[inline]
    pub(super) fn accept_plain(&mut self, at: Key, seq: Seq) -> bool {
        let Some(stored) = self.addresses[at].stored.as_mut() else { return false };
        if !stored.changed.is_empty() || stored.resuming.holds_any() {
            return false;
        }
        let Some(place) = stored.shelf.queue.accept_plain(seq) else { return false };
        match stored.shelf.log {
            Some(log) => {
                self.bodies.forget(place);
                self.journal.remove_at(log, seq.0, place);
            }
            None => self.bodies.free(place),
        }
        self.touch(at);
        true
    }
}
