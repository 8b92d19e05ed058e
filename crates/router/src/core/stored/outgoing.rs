//! Messages going out, in the order of the queue, to consumers with room.

use enmasse_amqp::codec::envelope::{Changes, put_changed};
use enmasse_journal::queue::{ConsumerId, Item, Next, Verdict};

use super::super::arena::Key;
use super::super::flow::Part;
use super::super::message::Owed;
use super::super::{Links, Router};
use super::Fetching;

/// Bytes of messages of one address that may be on their way from the disk to consumers.
const FETCH_BYTES: u64 = 1 << 20;
/// How many they may be.
const FETCH_MESSAGES: usize = 1024;
/// Up to this many candidates all are looked at; of more, two chosen at random, which balances nearly as well.
const SCAN_MAX: usize = 8;

impl Router {
    /// A consumer of a stored address may have got room, or lost it.
    pub(in crate::core) fn feed_from_queue(&mut self, key: Key, links: &mut impl Links) {
        let consumer = &self.consumers[key];
        let (at, id, has_room) = (consumer.address, consumer.in_queue, consumer.has_room());
        let has_room = has_room && consumer.credit > consumer.fetching;
        if let (Some(id), Some(stored)) = (id, self.addresses[at].stored.as_mut()) {
            stored.shelf.queue.set_credit(id, has_room);
            self.tend(at, links);
        }
    }

    /// Hands out what waits while anyone has room.
    pub(super) fn hand_out_stored(&mut self, at: Key, links: &mut impl Links) {
        self.hand_fetched(at, links);
        let now_ms = self.now_ms;
        loop {
            let Some(id) = self.choose(at) else { return };
            let address = &mut self.addresses[at];
            let Some(stored) = address.stored.as_mut() else { return };
            if stored.fetching_bytes >= FETCH_BYTES || stored.fetching.len() >= FETCH_MESSAGES {
                return;
            }
            let Some(to) = stored.shelf.queue.key_of(id).map(Key::unpack) else { return };
            match stored.shelf.queue.next(now_ms, id, |_| Verdict::Yes) {
                Next::Message(item) => self.bring(at, to, item, links),
                Next::Unread(item) => {
                    self.bodies.fetch(&item);
                    self.awaiting.push(at);
                    return;
                }
                Next::Nothing => {}
                Next::Later => {
                    self.later.push(at);
                    return;
                }
            }
        }
    }

    /// Of those the queue names, the consumer that holds the fewest deliveries.
    fn choose(&mut self, at: Key) -> Option<ConsumerId> {
        let stored = self.addresses[at].stored.as_ref()?;
        let candidates = stored.shelf.queue.candidates();
        if let Some(own) = candidates.own.first() {
            return Some(*own);
        }
        let common = candidates.common;
        let outstanding = |id: ConsumerId| {
            let key = stored.shelf.queue.key_of(id).map(Key::unpack);
            key.and_then(|key| self.consumers.get(key)).map_or(u32::MAX, |consumer| consumer.outstanding)
        };
        match common {
            [] | [_] => common.first().copied(),
            _ if common.len() <= SCAN_MAX => common.iter().copied().min_by_key(|id| outstanding(*id)),
            _ => {
                let one = common[self.random.below(common.len())];
                let other = common[self.random.below(common.len())];
                Some(if outstanding(other) < outstanding(one) { other } else { one })
            }
        }
    }

    /// A message is the consumer's: handed over at once if its body is here and nothing before it waits for its own.
    fn bring(&mut self, at: Key, to: Key, item: Item, links: &mut impl Links) {
        let Some(stored) = self.addresses[at].stored.as_mut() else { return };
        let on_disk = stored.shelf.log.is_some();
        if stored.fetching.is_empty() && self.bodies.get(item.place, on_disk).is_some() {
            return self.hand_item(at, to, &item, links);
        }
        stored.fetching.push_back(Fetching { to, item });
        stored.fetching_bytes += u64::from(item.size_bytes);
        if self.bodies.get(item.place, on_disk).is_none() {
            self.bodies.fetch(&item);
            self.awaiting.push(at);
        }
        let Some(consumer) = self.consumers.get_mut(to) else { return };
        consumer.fetching += 1;
        if consumer.credit <= consumer.fetching {
            self.tire(at, to);
        }
    }

    /// The consumer gets nothing more for now.
    pub(in crate::core) fn tire(&mut self, at: Key, to: Key) {
        let id = self.consumers.get(to).and_then(|consumer| consumer.in_queue);
        if let (Some(id), Some(stored)) = (id, self.addresses[at].stored.as_mut()) {
            stored.shelf.queue.set_credit(id, false);
        }
    }

    /// Hands over those whose bodies have come, up to the first whose has not.
    fn hand_fetched(&mut self, at: Key, links: &mut impl Links) {
        loop {
            let Some(stored) = self.addresses[at].stored.as_mut() else { return };
            let on_disk = stored.shelf.log.is_some();
            let Some(Fetching { to, item }) = stored.fetching.front().copied() else { return };
            if self.bodies.get(item.place, on_disk).is_none() {
                // It may have left the recent part of the log since it was asked for nowhere.
                self.bodies.fetch(&item);
                self.awaiting.push(at);
                return;
            }
            stored.fetching.pop_front();
            stored.fetching_bytes -= u64::from(item.size_bytes);
            let has_room = match self.consumers.get_mut(to) {
                Some(consumer) => {
                    consumer.fetching -= 1;
                    consumer.has_room()
                }
                None => false,
            };
            if has_room {
                self.hand_item(at, to, &item, links);
            } else {
                self.return_item(at, &item);
            }
            self.bodies.unfetch(item.place);
        }
    }

    /// A message that never left the node waits again.
    fn return_item(&mut self, at: Key, item: &Item) {
        let now_ms = self.now_ms;
        let Some(stored) = self.addresses[at].stored.as_mut() else { return };
        let effects = &mut self.effects;
        stored.shelf.queue.give_back(now_ms, item.seq, &mut |effect| effects.push(effect));
    }

    fn hand_item(&mut self, at: Key, to: Key, item: &Item, links: &mut impl Links) {
        let Some(stored) = self.addresses[at].stored.as_ref() else { return };
        let (on_disk, changes) = (stored.shelf.log.is_some(), stored.changed.get(&item.seq.0));
        let now_ms = self.now_ms;
        let mut scratch = std::mem::take(&mut self.scratch);
        let bodies = std::mem::take(&mut self.bodies);
        let body = bodies.get(item.place, on_disk).unwrap_or_default();
        let left = item.expires.map(|at| u32::try_from(at.saturating_sub(now_ms)).unwrap_or(u32::MAX));
        let payload = if item.failures > 0 || changes.is_some() || left.is_some() {
            scratch.clear();
            let delivery_count = u32::from(item.failures);
            put_changed(&mut scratch, body, &Changes { delivery_count, ttl_ms: left, annotations: changes });
            &scratch[..]
        } else {
            body
        };
        let damaged = payload.is_empty();
        let handed = !damaged && {
            let owed = Owed::Queue(item.seq);
            self.hand(to, owed, Part::whole(payload), links).is_ok()
        };
        self.bodies = bodies;
        self.scratch = scratch;
        if damaged {
            return self.discard_damaged(at, item);
        }
        if !handed {
            self.return_item(at, item);
        }
        if !handed || !self.consumers.get(to).is_some_and(|consumer| consumer.has_room()) {
            self.tire(at, to);
        }
    }

    /// The disk has lost the body: the message is counted and goes.
    fn discard_damaged(&mut self, at: Key, item: &Item) {
        let now_ms = self.now_ms;
        let address = &mut self.addresses[at];
        address.stats.damaged += 1;
        let Some(stored) = address.stored.as_mut() else { return };
        let effects = &mut self.effects;
        let done = enmasse_journal::queue::Outcome::Accepted;
        stored.shelf.queue.settle(now_ms, item.seq, done, &mut |effect| effects.push(effect));
    }
}
