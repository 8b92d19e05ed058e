//! Consumers that look before they take, and those that only look: selectors and browsers.

use std::sync::Arc;

use enmasse_amqp::codec::envelope::{Changes, put_changed};
use enmasse_amqp::selector::{Selector, Subject};
use enmasse_amqp::types::Fields;
use enmasse_journal::queue::{ConsumerId, Item, Next, Place, Seq, State, Verdict};

use super::super::arena::Key;
use super::super::{Consuming, Router};
use super::Bodies;

/// Most that is read ahead of what one consumer looks at.
const AHEAD_MESSAGES: usize = 64;
/// The same in bytes; one message is read whatever its size.
const AHEAD_BYTES: u64 = 128 << 10;
/// Messages looked through for what to read ahead.
const AHEAD_SHARE: usize = 256;

/// How a consumer of a stored address looks at its messages.
#[derive(Debug, Default)]
pub(in crate::core) struct Looking {
    selector: Option<Arc<Selector>>,
    pub(super) browses: bool,
    /// it cannot go on before that body has come
    awaits: Option<Place>,
    /// bodies that were read for it to look at
    ahead: Vec<Place>,
    /// the turn in which it has looked at its share
    rested: u64,
}

impl Looking {
    pub(in crate::core) fn of(consuming: Consuming) -> Self {
        Self { selector: consuming.selector, browses: consuming.browses, ..Self::default() }
    }

    /// Whether the consumer has to wait before it can look on: for a body, or for the turn after this one.
    #[inline]
    pub(super) fn rests(&self, turn: u64, bodies: &Bodies) -> bool {
        let waits = |place| bodies.is_pending(place) && !bodies.is_overdue(place);
        self.rested == turn || self.awaits.is_some_and(waits)
    }
}

/// What a message that is handed out says anew.
pub(super) fn changes<'a>(item: &Item, annotations: Option<&'a Fields>, now_ms: u64) -> Changes<'a> {
    let left = item.expires.map(|at| u32::try_from(at.saturating_sub(now_ms)).unwrap_or(u32::MAX));
    Changes { delivery_count: u32::from(item.failures), ttl_ms: left, annotations, without: &[] }
}

impl Router {
    /// The next message for a consumer, whose selector is asked about it.
    #[inline]
    pub(super) fn next_for(&mut self, at: Key, id: ConsumerId, to: Key) -> Next {
        let now_ms = self.now_ms;
        let Some(stored) = self.addresses[at].stored.as_mut() else { return Next::Nothing };
        let Some(looking) = self.consumers.get(to).map(|consumer| &consumer.looking) else { return Next::Nothing };
        let queue = &mut stored.shelf.queue;
        let Some(selector) = looking.selector.as_deref() else { return queue.next(now_ms, id, |_| Verdict::Yes) };
        let on_disk = stored.shelf.log.is_some();
        let (bodies, changed, scratch) = (&self.bodies, &stored.changed, &mut self.scratch);
        queue.next(now_ms, id, |item| {
            let Some(body) = bodies.get(item.place, on_disk) else {
                // Who takes messages is given one that the disk has lost, so that it is counted and goes.
                return match on_disk && bodies.is_damaged(item.place) {
                    true if looking.browses => Verdict::No,
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
            let subject = Subject::new(message).delivery_count(u32::from(item.failures)).at(now_ms.cast_signed());
            if selector.selects(&subject) { Verdict::Yes } else { Verdict::No }
        })
    }

    /// The consumer has looked at its share: it goes on in the next turn.
    pub(super) fn rest(&mut self, at: Key, to: Key) {
        let turns = self.turns;
        if let Some(consumer) = self.consumers.get_mut(to) {
            consumer.looking.rested = turns;
        }
        if self.later.last() != Some(&at) {
            self.later.push(at);
        }
    }

    /// The consumer goes on when that body has come; those that it comes to next are read with it.
    pub(super) fn look_ahead(&mut self, at: Key, to: Key, item: &Item) {
        self.stop_looking(to);
        let Some(stored) = self.addresses[at].stored.as_ref() else { return };
        let Some(looking) = self.consumers.get_mut(to).map(|consumer| &mut consumer.looking) else { return };
        looking.awaits = Some(item.place);
        looking.ahead.push(item.place);
        self.bodies.fetch(item.place);
        let mut bytes = u64::from(item.size_bytes);
        for next in stored.shelf.queue.iter(Seq(item.seq.0 + 1)).take(AHEAD_SHARE) {
            bytes += u64::from(next.size_bytes);
            if looking.ahead.len() == AHEAD_MESSAGES || bytes > AHEAD_BYTES || self.bodies.is_full() {
                break;
            }
            let wanted = next.state == State::Waiting && next.priority == item.priority;
            if wanted && !self.bodies.is_known(next.place, true) {
                looking.ahead.push(next.place);
                self.bodies.fetch(next.place);
            }
        }
        self.await_bodies(at);
    }

    /// Nobody can go on now: whoever waits for a body is to be asked again when it has come.
    pub(super) fn await_looking(&mut self, at: Key) {
        let Some(stored) = self.addresses[at].stored.as_ref() else { return };
        let waits = |id: &ConsumerId| {
            let to = stored.shelf.queue.key_of(*id).map(Key::unpack);
            let awaits = to.and_then(|to| self.consumers.get(to)).and_then(|consumer| consumer.looking.awaits);
            awaits.is_some_and(|place| self.bodies.is_pending(place))
        };
        if stored.shelf.queue.candidates().own.iter().any(waits) {
            self.await_bodies(at);
        }
    }

    /// What was read for a consumer to look at is not needed for it any more.
    pub(in crate::core) fn stop_looking(&mut self, to: Key) {
        let Some(looking) = self.consumers.get_mut(to).map(|consumer| &mut consumer.looking) else { return };
        looking.awaits = None;
        for place in looking.ahead.drain(..) {
            self.bodies.unfetch(place);
        }
    }

    /// A browser was shown a message that never left the node: it comes to it again.
    pub(in crate::core) fn show_again(&mut self, at: Key, to: Option<Key>, seq: Seq) {
        let id = to.and_then(|to| self.consumers.get(to)).and_then(|consumer| consumer.in_queue);
        if let (Some(id), Some(stored)) = (id, self.addresses[at].stored.as_mut()) {
            stored.shelf.queue.look_again(id, seq);
        }
    }
}
