//! Dispatch of messages, in the order of the queue, to consumers with room.

use std::sync::Arc;

use std::collections::VecDeque;

use enmasse_amqp::codec::envelope::put_changed;
use enmasse_amqp::types::Outcome;
use enmasse_journal::queue::{Candidates, ConsumerId, Item};

use super::super::arena::{Arena, Key};
use super::super::consumer::Consumer;
use super::super::delivery::Part;
use super::super::dispatch::Dispatcher;
use super::super::message::SettlementTarget;
use super::super::random::Random;
use super::super::storage::{Bodies, Storage};
use super::super::{Guarantee, Links, Router, ToLink};
use super::selection::changes;
use super::{Fetching, Queue};

/// Bytes of messages of one address that may be in flight from the disk to consumers.
const FETCH_BYTES: u64 = 1 << 20;
/// Number of these messages.
const FETCH_MESSAGES: usize = 1024;
/// How long a message that cannot be read is set aside before it is tried again.
const SET_ASIDE_MS: u64 = 30_000;
/// Up to this many candidates are compared. Of more, two are chosen at random, which balances
/// nearly as well.
const SCAN_MAX: usize = 8;

impl Queue {
    /// Whether one more body may be fetched: within the bound of the queue, and, unless this is its
    /// only one, within the bound of the shard.
    pub(super) fn may_fetch(&self, bodies: &Bodies) -> bool {
        let within = self.fetching_bytes < FETCH_BYTES && self.fetching.len() < FETCH_MESSAGES;
        self.fetching.is_empty() || within && !bodies.is_full()
    }

    /// Chooses the next consumer among the queue's candidates. Consumers that may have messages of
    /// their own take turns with the others. Of these the one with the fewest deliveries is chosen;
    /// equal ones take turns, so that consumers which settle at once also share messages and
    /// groups.
    pub(super) fn choose(
        &mut self,
        consumers: &Arena<Consumer>,
        bodies: &Bodies,
        turns: u64,
        random: &mut Random,
    ) -> Option<(ConsumerId, Key)> {
        self.turn = self.turn.wrapping_add(1);
        let (turn, queue) = (self.turn, &self.opened.messages);
        let free = |id: &ConsumerId| {
            let to = Key::unpack(queue.key_of(*id)?);
            (!consumers.get(to)?.selection.must_wait(turns, bodies)).then_some((*id, to))
        };
        let Candidates { common, own } = queue.candidates();
        if let ([only], []) = (common, own) {
            return free(only);
        }
        let count = common.len();
        let chance = if count > SCAN_MAX { [random.below(count), random.below(count)] } else { [0, 0] };
        let fewest = |(_, to): &(ConsumerId, Key)| consumers[*to].outstanding;
        let of_own = || {
            let (before, after) = own.split_at(turn as usize / 2 % own.len().max(1));
            after.iter().chain(before).find_map(free)
        };
        let of_common = || {
            if count <= SCAN_MAX {
                let (before, after) = common.split_at(self.shared_turn as usize % count.max(1));
                return after.iter().chain(before).filter_map(free).min_by_key(fewest);
            }
            let two = chance.iter().filter_map(|at| free(&common[*at]));
            two.min_by_key(fewest).or_else(|| common.iter().find_map(free))
        };
        let own = || Some((of_own()?, 0));
        let common = || Some((of_common()?, 1));
        let (chosen, shared) = if turn & 1 == 0 { own().or_else(common) } else { common().or_else(own) }?;
        // Only turns of the shared ones count, or one of two equal consumers would always be
        // chosen.
        self.shared_turn = self.shared_turn.wrapping_add(shared);
        Some(chosen)
    }

    /// Like `defer_first`, for an available message that a consumer's selector has to examine.
    pub(super) fn defer_unread(&mut self, item: &Item, storage: &Storage) -> bool {
        let due = storage.now_ms + SET_ASIDE_MS;
        storage.bodies.is_overdue(item.place)
            && self.may_be_overtaken()
            && self.opened.messages.set_aside(item.seq, due)
    }

    /// Removes a message whose body is damaged.
    fn discard_damaged(&mut self, item: &Item, storage: &mut Storage) {
        self.release_hold(item.seq, storage);
        let Storage { now_ms, effects, .. } = storage;
        let done = enmasse_journal::queue::ConsumerOutcome::Accepted;
        self.opened.messages.settle(*now_ms, item.seq, done, &mut |effect| effects.push(effect));
    }
}

impl Router {
    /// Updates the credit of a consumer of a queue, and dispatches messages.
    pub(in crate::core) fn dispatch_from_queue(&mut self, key: Key, links: &mut impl Links) {
        let at = self.consumers[key].address;
        let others = self.redeliver_unsettled(at, key, links);
        let consumer = &self.consumers[key];
        let (id, has_room) = (consumer.in_queue, consumer.has_room() && others);
        let has_room = has_room && consumer.credit > consumer.fetching;
        if let Some(id) = id {
            self.addresses.queue_mut(at).opened.messages.set_credit(id, has_room);
            self.process(at, links);
        }
    }

    /// Dispatches a message that was assigned to a consumer, or fetches it first: it is dispatched
    /// at once if its body is in memory and no earlier message waits for its own.
    pub(in crate::core) fn fetch_or_dispatch(&mut self, at: Key, to: Key, item: Item, links: &mut impl Links) {
        let queue = self.addresses.queue_mut(at);
        let hold = match self.consumers.get(to) {
            Some(Consumer { resumed: Some(resumed), .. }) => {
                queue.record_hold(at, resumed.link, &item, &mut self.storage)
            }
            Some(consumer) if consumer.guarantee == Guarantee::Kept => queue.note_sending(at, &item, &mut self.storage),
            _ => 0,
        };
        let queue = self.addresses.queue_mut(at);
        if hold == 0 && queue.fetching.is_empty() && self.dispatch_item(at, to, &item, links) {
            return;
        }
        let queue = self.addresses.queue_mut(at);
        let here = self.storage.bodies.is_known(item.place, queue.opened.log.is_some());
        let browsed = self.consumers.get(to).is_some_and(|consumer| consumer.selection.browses);
        queue.fetching.push_back(Fetching { to, item, browsed, requested: !here, hold });
        queue.fetching_bytes += u64::from(item.size_bytes);
        if !here {
            self.storage.bodies.fetch(item.place);
            self.await_bodies(at);
        }
        // Its consumer has gone: the message is taken back when its body arrives.
        let Some(consumer) = self.consumers.get_mut(to) else { return };
        consumer.fetching += 1;
        if consumer.credit <= consumer.fetching {
            self.mark_not_ready(at, to);
        }
        if self.storage.bodies.is_overdue(item.place) {
            self.dispatch_fetched(at, links);
        }
    }

    /// Returns a message whose delivery was refused by the shard of its consumer.
    pub(in crate::core) fn requeue_into_queue(
        &mut self,
        at: Key,
        to: Option<Key>,
        settlement: SettlementTarget,
        links: &mut impl Links,
    ) {
        match settlement {
            SettlementTarget::Queue(seq) if self.resume_later(at, to, seq) => {}
            SettlementTarget::Queue(seq) => {
                if let Some(queue) = self.addresses.find_queue_mut(at) {
                    queue.note_unsent(seq, &mut self.storage);
                }
                self.settle_in_queue(at, seq, &Outcome::Released, links);
            }
            SettlementTarget::Browsed(seq) => self.offer_again_to_browser(at, to, seq),
            // It counts as accepted, and its link has ended.
            SettlementTarget::Nothing => self.addresses[at].stats.dropped += 1,
            _ => debug_assert!(false, "a queue has no other settlement targets"),
        }
    }

    /// Dispatches messages whose bodies have arrived, up to the first whose body has not.
    pub(super) fn dispatch_fetched(&mut self, at: Key, links: &mut impl Links) {
        loop {
            let queue = self.addresses.queue_mut(at);
            let on_disk = queue.opened.log.is_some();
            let Some(Fetching { to, item, browsed, requested, hold }) = queue.fetching.front_mut() else { return };
            if !queue.resuming.may_leave(*hold) {
                return;
            }
            if !self.storage.bodies.is_known(item.place, on_disk) {
                if !self.storage.bodies.is_pending(item.place) {
                    // It has left the recent part of the log in the meantime.
                    self.storage.bodies.fetch(item.place);
                    *requested = true;
                }
                if self.storage.bodies.is_overdue(item.place) && self.defer_first(at) {
                    continue;
                }
                return self.await_bodies(at);
            }
            let (to, item, browsed, requested) = (*to, *item, *browsed, *requested);
            queue.fetching.pop_front();
            queue.fetching_bytes -= u64::from(item.size_bytes);
            let has_room = |consumer: Option<&Consumer>| consumer.is_some_and(Consumer::has_room);
            if let Some(consumer) = self.consumers.get_mut(to) {
                consumer.fetching -= 1;
            }
            let mut refused = !has_room(self.consumers.get(to));
            if refused {
                self.return_item(at, to, &item, browsed);
            } else {
                self.dispatch_item(at, to, &item, links);
                refused = self.consumers.get(to).is_some_and(|consumer| consumer.blocked);
            }
            match requested {
                true if refused => self.storage.bodies.retain_body(item.place),
                true => self.storage.bodies.release_body(item.place),
                false => {}
            }
            if !has_room(self.consumers.get(to)) {
                self.return_fetching(at, to);
            }
        }
    }

    /// Sets the first message in flight to a consumer aside because it cannot be read: it waits as
    /// if its delivery had failed, and others overtake it. `false`: none may, because the queue
    /// guarantees order or keeps last values only. The other messages of its group wait with it.
    fn defer_first(&mut self, at: Key) -> bool {
        let queue = self.addresses.queue_mut(at);
        if !queue.may_be_overtaken() {
            return false;
        }
        let Some(Fetching { to, item, browsed, requested, .. }) = queue.fetching.pop_front() else { return false };
        queue.fetching_bytes -= u64::from(item.size_bytes);
        if let Some(consumer) = self.consumers.get_mut(to) {
            consumer.fetching -= 1;
        }
        if requested {
            self.storage.bodies.release_body(item.place);
        }
        // A browser does not hold the message, and continues without it.
        if !browsed {
            self.return_item(at, to, &item, false);
        }
        let due = self.now_ms + SET_ASIDE_MS;
        let queue = self.addresses.queue_mut(at);
        if queue.opened.messages.set_aside(item.seq, due) {
            self.return_group(at, &item);
        }
        let queue = self.addresses.queue_mut(at);
        let has_room = |consumer: &Consumer| consumer.has_room() && consumer.credit > consumer.fetching;
        if let Some(id) = self.consumers.get(to).filter(|consumer| has_room(consumer)).and_then(|it| it.in_queue) {
            queue.opened.messages.set_credit(id, true);
        }
        true
    }

    /// Returns the messages in flight that belong to the group of one that was set aside, so that
    /// they do not overtake it.
    fn return_group(&mut self, at: Key, aside: &Item) {
        if aside.group.is_none() {
            return;
        }
        let queue = self.addresses.queue_mut(at);
        let of_group = |fetching: &Fetching| fetching.item.group == aside.group && !fetching.browsed;
        let (back, kept) = std::mem::take(&mut queue.fetching).into_iter().partition(of_group);
        queue.fetching = kept;
        let back: VecDeque<Fetching> = back;
        queue.fetching_bytes -= back.iter().map(|fetching| u64::from(fetching.item.size_bytes)).sum::<u64>();
        for Fetching { to, item, requested, .. } in back {
            if let Some(consumer) = self.consumers.get_mut(to) {
                consumer.fetching -= 1;
            }
            self.return_item(at, to, &item, false);
            if requested {
                self.storage.bodies.retain_body(item.place);
            }
        }
    }

    /// Returns all messages in flight to a consumer without room, so that later ones do not
    /// overtake an earlier one.
    pub(in crate::core) fn return_fetching(&mut self, at: Key, to: Key) {
        let queue = self.addresses.queue_mut(at);
        let (back, kept) = std::mem::take(&mut queue.fetching).into_iter().partition(|fetching| fetching.to == to);
        queue.fetching = kept;
        let back: VecDeque<Fetching> = back;
        for Fetching { item, browsed, requested, .. } in back {
            let queue = self.addresses.queue_mut(at);
            queue.fetching_bytes -= u64::from(item.size_bytes);
            if let Some(consumer) = self.consumers.get_mut(to) {
                consumer.fetching -= 1;
            }
            self.return_item(at, to, &item, browsed);
            if requested {
                // It is requested again as soon as there is room.
                self.storage.bodies.retain_body(item.place);
            }
        }
    }

    /// Makes a message available again that was not sent.
    fn return_item(&mut self, at: Key, to: Key, item: &Item, browsed: bool) {
        if browsed {
            return self.offer_again_to_browser(at, Some(to), item.seq);
        }
        if self.resume_later(at, Some(to), item.seq) {
            return;
        }
        let queue = self.addresses.queue_mut(at);
        queue.release_hold(item.seq, &mut self.storage);
        queue.note_unsent(item.seq, &mut self.storage);
        queue.undo_dispatch(item.seq, &mut self.storage);
    }

    /// Dispatches a message; `false` if its body is not in memory.
    fn dispatch_item(&mut self, at: Key, to: Key, item: &Item, links: &mut impl Links) -> bool {
        let is_resumable = self.consumers.get(to).is_some_and(|consumer| consumer.resumed.is_some());
        let name = if is_resumable {
            let known = self.addresses.queue_mut(at).is_known_to_link(item.seq);
            known.map(|again| (item.id.0, again))
        } else {
            None
        };
        let queue = self.addresses.queue(at);
        let on_disk = queue.opened.log.is_some();
        let body = self.storage.bodies.get(item.place, on_disk);
        let damaged = body.is_none();
        if damaged && !(on_disk && self.storage.bodies.is_damaged(item.place)) {
            return false;
        }
        let body = body.unwrap_or_default();
        let changed = if queue.changed.is_empty() { None } else { queue.changed.get(&item.seq.0) };
        let changed = changed.map(|changed| &changed.annotations);
        let browses = self.consumers.get(to).is_some_and(|consumer| consumer.selection.browses);
        let item = &queue.with_expiry(item);
        let part = if item.failures > 0 || changed.is_some() || item.expires.is_some() {
            self.scratch.bytes.clear();
            put_changed(&mut self.scratch.bytes, body, &changes(item, changed, self.now_ms));
            Part::whole(&self.scratch.bytes)
        } else {
            Part::whole(body).with_shared(self.storage.bodies.shared(item.place, on_disk))
        };
        // A browser does not hold the message: it may have been removed, and its location reused.
        let gone =
            (damaged || browses) && queue.opened.messages.get(item.seq).map(|item| item.place) != Some(item.place);
        let settlement = if browses { SettlementTarget::Browsed(item.seq) } else { SettlementTarget::Queue(item.seq) };
        if let (Some((number, again)), Some(consumer)) = (name, self.consumers.get(to)) {
            links.send(ToLink::Name { attachment: consumer.attachment, number, again });
        }
        let token = if damaged || gone {
            None
        } else {
            let Self { shard, now_ms, consumers, addresses, pending, .. } = self;
            let (unsettled, stats) = addresses[at].counts();
            let dispatcher = Dispatcher { shard: *shard, now_ms: *now_ms, consumers, pending, unsettled, stats };
            dispatcher.dispatch(to, settlement, part, links).ok()
        };
        let dispatched = token.is_some();
        if name.is_some() {
            self.addresses.queue_mut(at).set_token(item.seq, token.flatten());
        }
        match (gone, damaged, dispatched) {
            (false, true, _) if !browses => {
                self.discard_damaged(at, item);
                return true;
            }
            (false, false, false) | (true, ..) => self.return_item(at, to, item, browses),
            _ => {}
        }
        let full = !self.consumers.get(to).is_some_and(|consumer| consumer.has_room());
        if full || !dispatched && !gone && !damaged {
            self.mark_not_ready(at, to);
        }
        true
    }

    /// Counts a message whose body is damaged, and removes it.
    fn discard_damaged(&mut self, at: Key, item: &Item) {
        let name = Arc::clone(&self.addresses.queue(at).opened.name);
        self.count_damaged(at, &name, item.id.0);
        self.addresses.queue_mut(at).discard_damaged(item, &mut self.storage);
    }
}
