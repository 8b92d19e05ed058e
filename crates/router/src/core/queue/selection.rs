//! Message selection: consumers with selectors, and browsers.

use enmasse_amqp::codec::envelope::{Changes, put_changed};
use enmasse_amqp::types::Fields;
use enmasse_journal::queue::{ConsumerId, Item, Next, Seq, State, Verdict};

use super::super::Router;
use super::super::arena::Key;

/// Most messages read ahead for one consumer's selector.
const AHEAD_MESSAGES: usize = 64;
/// The same in bytes; one message is read regardless of its size.
const AHEAD_BYTES: u64 = 128 << 10;
/// Messages examined to find those to read ahead.
const AHEAD_SHARE: usize = 256;

/// The header fields and annotations that change in a dispatched message.
pub(in crate::core) fn changes<'a>(item: &Item, annotations: Option<&'a Fields>, now_ms: u64) -> Changes<'a> {
    let left = item.expires.map(|at| u32::try_from(at.saturating_sub(now_ms)).unwrap_or(u32::MAX));
    Changes { delivery_count: u32::from(item.failures), ttl_ms: left, annotations, without: &[] }
}

impl Router {
    /// The next message for a consumer, filtered by its selection.
    #[inline]
    pub(in crate::core) fn next_for(&mut self, at: Key, id: ConsumerId, to: Key) -> Next {
        let now_ms = self.now_ms;
        let queue = self.addresses.queue_mut(at);
        // It has gone, and the queue forgets it.
        let Some(selection) = self.consumers.get(to).map(|consumer| &consumer.selection) else { return Next::Nothing };
        let messages = &mut queue.opened.messages;
        if selection.takes_all() {
            return messages.next(now_ms, id, |_| Verdict::Yes);
        }
        let on_disk = queue.opened.log.is_some();
        let (bodies, changed, scratch) = (&self.storage.bodies, &queue.changed, &mut self.scratch.bytes);
        messages.next(now_ms, id, |item| {
            if !selection.may_take(item) {
                return Verdict::No;
            }
            let Some(body) = bodies.get(item.place, on_disk) else {
                // A damaged message is assigned, so that the dispatch counts and removes it.
                return match on_disk && bodies.is_damaged(item.place) {
                    true if selection.browses => Verdict::No,
                    true => Verdict::Yes,
                    false => Verdict::Unread,
                };
            };
            let changed = changed.get(&item.seq.0).map(|changed| changes(item, Some(&changed.annotations), now_ms));
            let message = match changed {
                Some(changes) => {
                    scratch.clear();
                    put_changed(scratch, body, &changes);
                    &scratch[..]
                }
                None => body,
            };
            if selection.takes(message, item, now_ms) { Verdict::Yes } else { Verdict::No }
        })
    }

    /// Postpones a consumer that used up its share to the next turn.
    pub(in crate::core) fn defer_to_next_turn(&mut self, at: Key, to: Key) {
        let turns = self.turns;
        if let Some(consumer) = self.consumers.get_mut(to) {
            consumer.selection.deferred_in = turns;
        }
        self.schedule.continue_later(at);
    }

    /// Fetches the body that a selector has to examine, and those behind it. The consumer continues
    /// when the body has arrived.
    pub(in crate::core) fn read_ahead_for_selection(&mut self, at: Key, to: Key, item: &Item) {
        self.end_selection(to);
        let queue = self.addresses.queue(at);
        let Some(selection) = self.consumers.get_mut(to).map(|consumer| &mut consumer.selection) else { return };
        selection.awaited_body = Some(item.place);
        selection.ahead.push(item.place);
        self.storage.bodies.fetch(item.place);
        let mut bytes = u64::from(item.size_bytes);
        for next in queue.opened.messages.iter(Seq(item.seq.0 + 1)).take(AHEAD_SHARE) {
            bytes += u64::from(next.size_bytes);
            if selection.ahead.len() == AHEAD_MESSAGES || bytes > AHEAD_BYTES || self.storage.bodies.is_full() {
                break;
            }
            let wanted = next.state == State::Waiting && next.priority == item.priority;
            if wanted && !self.storage.bodies.is_known(next.place, true) {
                selection.ahead.push(next.place);
                self.storage.bodies.fetch(next.place);
            }
        }
        self.await_bodies(at);
    }

    /// No consumer can continue now: the queue is processed again when a body arrives for which one
    /// waits.
    pub(in crate::core) fn await_selection(&mut self, at: Key) {
        let queue = self.addresses.queue(at);
        let waits = |id: &ConsumerId| {
            let to = queue.opened.messages.key_of(*id).map(Key::unpack);
            let awaited_body =
                to.and_then(|to| self.consumers.get(to)).and_then(|consumer| consumer.selection.awaited_body);
            awaited_body.is_some_and(|place| self.storage.bodies.is_pending(place))
        };
        if queue.opened.messages.candidates().own.iter().any(waits) {
            self.await_bodies(at);
        }
    }

    /// Releases the bodies that were fetched for a consumer's selector.
    pub(in crate::core) fn end_selection(&mut self, to: Key) {
        let Some(selection) = self.consumers.get_mut(to).map(|consumer| &mut consumer.selection) else { return };
        selection.awaited_body = None;
        for place in selection.ahead.drain(..) {
            self.storage.bodies.release_body(place);
        }
    }

    /// Moves the cursor of a browser back to a message that was not sent.
    pub(in crate::core) fn offer_again_to_browser(&mut self, at: Key, to: Option<Key>, seq: Seq) {
        let id = to.and_then(|to| self.consumers.get(to)).and_then(|consumer| consumer.in_queue);
        if let Some(id) = id {
            self.addresses.queue_mut(at).opened.messages.revisit(id, seq);
        }
    }
}
