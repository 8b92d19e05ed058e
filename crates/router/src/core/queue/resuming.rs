//! Resumable receivers (2.6.5, 2.6.13): after the link ends, its messages remain held for it, by
//! their numbers, which are the delivery tags. A hold is on disk before its message is dispatched,
//! and an outcome is on disk before its settlement is confirmed. `tags` keeps the state of senders.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use enmasse_amqp::types::{DeliveryState, Error, Fields, Outcome, Received, condition};
use enmasse_journal::log::RecoveredQueue;
use enmasse_journal::queue::{self, Item, Seq, State};

use super::super::arena::Key;
use super::super::attachment::Occupant;
use super::super::consumer::Resumed;
use super::super::storage::Notice;
use super::super::storage::{HELD, Storage, state_key};
use super::super::{AddressKind, AttachmentId, Ending, Links, Resume, Router, ToLink, Verdict};
use super::packet_ids::PacketIds;
use super::tags::{LINKS_MAX, Senders, end, too_many_links};
use super::{Fetching, Queue};

/// Only queues and declared subscriptions keep the state of links.
const KIND: AddressKind = AddressKind::Queue;

/// The resumable links of an address.
#[derive(Debug, Default)]
pub(in crate::core) struct Resuming {
    receivers: HashMap<u64, Receiver>,
    pub(in crate::core) senders: Senders,
    /// by message number: the link that holds the message, and its number in the log
    held: HashMap<u64, (u64, u64)>,
    /// number of holds that were given to the log, and of messages noted as sent
    holds: u64,
    /// number of those that are on disk
    on_disk: u64,
    /// the earliest expiry of the state of a link
    earliest_ms: Option<u64>,
    /// packet identifiers of the session whose record the queue has
    packet_ids: Option<Box<PacketIds>>,
}

/// The state of a resumable receiver.
#[derive(Debug, Default)]
struct Receiver {
    /// set while the link is attached
    consumer: Option<Key>,
    keep_s: u32,
    /// when its state expires, while the link is detached
    until_ms: Option<u64>,
    /// by the message's number in the log
    held: BTreeMap<u64, HeldMessage>,
}

#[derive(Clone, Copy, Debug)]
struct HeldMessage {
    seq: u64,
    /// number of the hold, which is the order of dispatch; 0: recovered after a restart
    order: u64,
    /// token of the delivery, after its dispatch
    token: Option<u64>,
    /// the peer received it in an earlier attachment
    known: bool,
}

impl Receiver {
    /// The number of its held message that was dispatched first.
    fn oldest(&self) -> Option<u64> {
        self.held.iter().min_by_key(|(id, held)| (held.order, **id)).map(|(id, _)| *id)
    }
}

impl Resuming {
    /// Restores the logged state. Returns it with the obsolete state keys, and marks held messages
    /// in `queue` as held.
    pub(in crate::core) fn restored(recovered: &RecoveredQueue, queue: &mut queue::Queue) -> (Self, Vec<Box<[u8]>>) {
        let packet_ids = Some(PacketIds::restored(recovered)).filter(|ids| *ids != PacketIds::default());
        let mut resuming = Self { packet_ids: packet_ids.map(Box::new), ..Self::default() };
        let mut stale = Vec::new();
        for (key, value) in &recovered.states {
            let Some((id, link, keep_s)) = held_of(key, value) else {
                resuming.senders.restore(key, value);
                continue;
            };
            if !queue.restore_hold(Seq(id)) {
                stale.push(key.clone());
                continue;
            }
            let receiver = resuming.receivers.entry(link).or_default();
            receiver.keep_s = keep_s;
            receiver.held.insert(id, HeldMessage { seq: id, order: 0, token: None, known: false });
            resuming.held.insert(id, (link, id));
        }
        (resuming, stale)
    }

    pub(super) fn packet_ids(&self) -> Option<&PacketIds> {
        self.packet_ids.as_deref()
    }

    pub(super) fn packet_ids_mut(&mut self) -> &mut PacketIds {
        self.packet_ids.get_or_insert_default()
    }

    /// Starts the expiry of the state of all links after a restart.
    pub(in crate::core) fn begin(&mut self, now_ms: u64) {
        for receiver in self.receivers.values_mut() {
            receiver.until_ms = Some(end(now_ms, receiver.keep_s));
        }
        self.senders.begin(now_ms);
        self.update_next_expiry();
    }

    /// The time of the next check for expired links.
    pub(in crate::core) fn next_timeout(&self) -> Option<u64> {
        self.earliest_ms
    }

    /// Notes the expiry time of the state of a link that ended.
    pub(in crate::core) fn note_end(&mut self, until_ms: u64) {
        self.earliest_ms = Some(self.earliest_ms.map_or(until_ms, |earliest_ms| earliest_ms.min(until_ms)));
    }

    fn update_next_expiry(&mut self) {
        let receivers = self.receivers.values().filter_map(|receiver| receiver.until_ms);
        self.earliest_ms = receivers.chain(self.senders.next_timeout()).min();
    }

    /// Whether links hold messages.
    #[inline]
    pub(in crate::core) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    pub(in crate::core) fn is_empty(&self) -> bool {
        self.receivers.is_empty() && self.senders.is_empty()
    }

    /// The number of a hold that is given to the log now.
    pub(super) fn next_hold(&mut self) -> u64 {
        self.holds += 1;
        self.holds
    }

    /// Whether the message of a hold may be dispatched: the hold is on disk.
    pub(in crate::core) fn may_leave(&self, hold: u64) -> bool {
        hold <= self.on_disk
    }

    fn entry(&mut self, seq: u64) -> Option<&mut HeldMessage> {
        let (link, id) = *self.held.get(&seq)?;
        self.receivers.get_mut(&link)?.held.get_mut(&id)
    }
}

/// Decodes the state of a hold: message number, link, seconds to keep; `None`: it is another state.
fn held_of(key: &[u8], value: &[u8]) -> Option<(u64, u64, u32)> {
    let (&HELD, id) = key.split_first()? else { return None };
    let (link, keep_s) = value.split_first_chunk()?;
    let keep_s = u32::from_le_bytes(keep_s.try_into().ok()?);
    Some((u64::from_le_bytes(id.try_into().ok()?), u64::from_le_bytes(*link), keep_s))
}

impl Queue {
    /// Logs that the link of a consumer holds a message. The message is dispatched when that is on
    /// disk. Returns the number of the hold; 0: the message needs no new hold.
    pub(super) fn record_hold(&mut self, at: Key, link: u64, item: &Item, storage: &mut Storage) -> u64 {
        let (Some(log), resuming) = (self.opened.log, &mut self.resuming) else { return 0 };
        if resuming.held.contains_key(&item.seq.0) {
            return 0;
        }
        let Some(receiver) = resuming.receivers.get_mut(&link) else { return 0 };
        resuming.holds += 1;
        let order = resuming.holds;
        let held = HeldMessage { seq: item.seq.0, order, token: None, known: false };
        receiver.held.insert(item.id.0, held);
        resuming.held.insert(item.seq.0, (link, item.id.0));
        let mut value = [0; 12];
        value[..8].copy_from_slice(&link.to_le_bytes());
        value[8..].copy_from_slice(&receiver.keep_s.to_le_bytes());
        storage.journal.note(log, &state_key(HELD, item.id.0), &value);
        storage.journal.lanes.of(log).fences.raise(at, Notice::Held { at, up_to: order });
        order
    }

    /// Releases the hold of a message.
    #[inline]
    pub(super) fn release_hold(&mut self, seq: Seq, storage: &mut Storage) {
        // Fast path: mostly no message is held, and a hash look-up is avoided.
        if self.resuming.held.is_empty() {
            return;
        }
        let Some((link, id)) = self.resuming.held.remove(&seq.0) else { return };
        if let Some(receiver) = self.resuming.receivers.get_mut(&link) {
            receiver.held.remove(&id);
            if receiver.held.is_empty() && receiver.consumer.is_none() {
                self.resuming.receivers.remove(&link);
            }
        }
        if let Some(log) = self.opened.log {
            storage.journal.erase(log, &state_key(HELD, id));
        }
    }

    /// Whether the link of a held message received it in an earlier attachment; `None`: it is not
    /// held.
    pub(super) fn is_known_to_link(&mut self, seq: Seq) -> Option<bool> {
        self.resuming.entry(seq.0).map(|held| held.known)
    }

    /// Sets the token of a held message after its dispatch.
    pub(super) fn set_token(&mut self, seq: Seq, token: Option<u64>) {
        if let Some(held) = self.resuming.entry(seq.0) {
            held.token = token;
        }
    }

    /// Stops the fetches for a consumer. Their messages are available again, except for those that
    /// its link received before. Returns the number of fetches.
    fn stop_fetching(&mut self, to: Key, storage: &mut Storage) -> u32 {
        let (recalled, kept) = std::mem::take(&mut self.fetching).into_iter().partition(|fetching| fetching.to == to);
        self.fetching = kept;
        let recalled: VecDeque<Fetching> = recalled;
        for fetching in &recalled {
            let item = &fetching.item;
            self.fetching_bytes -= u64::from(item.size_bytes);
            if self.is_known_to_link(item.seq) != Some(true) {
                self.undo_dispatch(item.seq, storage);
                self.release_hold(item.seq, storage);
            }
            if fetching.requested {
                storage.bodies.release_body(item.place);
            }
        }
        recalled.len() as u32
    }
}

impl Router {
    /// Attaches a consumer with a resumable link. The messages that the link held are settled as
    /// its map states, delivered again, or made available again. Its attach is answered when that
    /// is on disk.
    pub(in crate::core) fn resume_consumer(&mut self, key: Key, resume: &Resume, links: &mut impl Links) {
        let (at, attachment, id) =
            (self.consumers[key].address, self.consumers[key].attachment, self.consumers[key].in_queue);
        let Some(id) = id else { return };
        let queue = self.addresses.queue_mut(at);
        let receivers = &mut queue.resuming.receivers;
        if receivers.len() >= LINKS_MAX && !receivers.contains_key(&resume.link) {
            self.detach(attachment, links);
            return links.send(ToLink::Attached { attachment, answer: Err(too_many_links()) });
        }
        let receiver = receivers.entry(resume.link).or_default();
        (receiver.consumer, receiver.keep_s, receiver.until_ms) = (Some(key), resume.keep_s, None);
        let reported = resume.states();
        let oldest = receiver.oldest();
        let (mut again, mut outcomes) = (VecDeque::new(), Vec::new());
        for (number, held) in &mut receiver.held {
            match reported.get(&number.to_be_bytes()[..]) {
                Some(Some(DeliveryState::Outcome(outcome))) => outcomes.push((held.seq, outcome.clone())),
                // The received part is discarded. A resumed delivery would need the same bytes, and
                // a header may have changed.
                Some(Some(DeliveryState::Received(received))) if *received != Received::default() => {
                    outcomes.push((held.seq, Outcome::Released));
                }
                Some(_) => {
                    held.known = true;
                    again.push_back(held.seq);
                }
                None if resume.incomplete => {}
                // The peer never received it.
                None if resume.unsettled.is_some() => outcomes.push((held.seq, Outcome::Released)),
                // The peer has no state, so it may have failed with this message.
                None => outcomes.push((held.seq, Ending::Lost.verdict(KIND, oldest == Some(*number)).outcome())),
            }
        }
        for seq in again.iter().chain(outcomes.iter().map(|(seq, _)| seq)) {
            queue.opened.messages.reassign(Seq(*seq), id);
        }
        let resumed = Resumed { link: resume.link, again, only_redeliver: resume.incomplete };
        self.consumers[key].resumed = Some(Box::new(resumed));
        for (seq, outcome) in outcomes {
            self.settle_in_queue(at, Seq(seq), &outcome, links);
        }
        self.raise_fence(at, Notice::Attached(attachment));
    }

    /// Whether an address keeps the state of links: its messages are on disk.
    pub(in crate::core) fn resumes_links(&self, at: Key) -> bool {
        self.addresses.find_queue(at).is_some_and(|queue| queue.opened.log.is_some())
    }

    /// Detaches the same link from another connection whose end was not noticed (link theft).
    pub(in crate::core) fn steal_receiver(&mut self, at: Key, resume: Option<&Resume>, links: &mut impl Links) {
        let Some(resume) = resume else { return };
        let receiver =
            self.addresses.queue(at).resuming.receivers.get(&resume.link).and_then(|receiver| receiver.consumer);
        if let Some(attachment) = receiver.and_then(|key| self.consumers.get(key)).map(|consumer| consumer.attachment) {
            self.steal(attachment, links);
        }
    }

    pub(in crate::core) fn steal(&mut self, attachment: AttachmentId, links: &mut impl Links) {
        self.detach(attachment, links);
        links.send(ToLink::Close {
            attachment,
            error: Cow::Borrowed(&Error::new(
                condition::LINK_STOLEN,
                "the link was attached again on another connection",
            )),
        });
    }

    /// Answers an attach that waited until all earlier records are on disk.
    pub(in crate::core) fn answer_resumed(&mut self, attachment: AttachmentId, links: &mut impl Links) {
        match self.attachments.get(attachment) {
            Occupant::Producer(key) => self.answer_sender(key, links),
            Occupant::Consumer(key) => {
                let consumer = &self.consumers[key];
                if consumer.recalls {
                    return self.answer_recalled(key, links);
                }
                if consumer.selection.retained.is_some() {
                    return links.send(ToLink::Attached { attachment, answer: Ok(Fields::new()) });
                }
                let (at, resumed) = (consumer.address, consumer.resumed.as_ref());
                let Some(resumed) = resumed else {
                    // A new subscription waits as well. The link of any other queue was answered before.
                    if self.addresses.queue(at).is_undeclared() {
                        self.answer_subscriber(at, attachment, links);
                    }
                    return;
                };
                let queue = self.addresses.queue(at);
                let item = |seq: &u64| queue.opened.messages.get(Seq(*seq));
                let numbers = resumed.again.iter().filter_map(item).map(|item| item.id.0);
                links.send(ToLink::Unsettled {
                    attachment,
                    unsettled: numbers.map(|number| (number.to_be_bytes().to_vec(), None)).collect(),
                });
                links.send(ToLink::Attached { attachment, answer: Ok(Fields::new()) });
            }
            Occupant::Vacant | Occupant::Detached(_) => {}
        }
    }

    /// Allows the dispatch of messages whose holds are on disk.
    pub(in crate::core) fn release_held(&mut self, at: Key, up_to: u64, links: &mut impl Links) {
        let queue = self.addresses.find_queue_mut(at);
        let Some(queue) = queue else { return };
        queue.resuming.on_disk = queue.resuming.on_disk.max(up_to);
        self.process(at, links);
    }

    /// Ends the resumable links with messages whose holds up to this number cannot be stored: these
    /// messages are available again, because a link that resumed after a restart would not have them.
    pub(in crate::core) fn close_unrecorded(&mut self, at: Key, up_to: u64, error: &Error, links: &mut impl Links) {
        let Some(queue) = self.addresses.find_queue(at) else { return };
        let unrecorded = queue.fetching.iter().filter(|it| it.hold <= up_to && !queue.resuming.may_leave(it.hold));
        let consumers = unrecorded.filter_map(|fetching| self.consumers.get(fetching.to));
        let resumable = consumers.filter(|consumer| consumer.resumed.is_some());
        let ended: BTreeSet<AttachmentId> = resumable.map(|consumer| consumer.attachment).collect();
        for attachment in ended {
            self.detach(attachment, links);
            links.send(ToLink::Close { attachment, error: Cow::Borrowed(error) });
        }
    }

    /// Keeps a refused message for its link if the link received it in an earlier attachment.
    /// `false`: it did not.
    pub(in crate::core) fn resume_later(&mut self, at: Key, to: Option<Key>, seq: Seq) -> bool {
        let Some(resumed) = to.and_then(|to| self.consumers.get_mut(to)).and_then(|to| to.resumed.as_mut()) else {
            return false;
        };
        let held = self.addresses.queue_mut(at).resuming.entry(seq.0);
        let Some(held) = held.filter(|held| held.known) else {
            return false;
        };
        held.token = None;
        let place = resumed.again.partition_point(|other| *other < seq.0);
        resumed.again.insert(place, seq.0);
        true
    }

    /// Delivers messages to a consumer again that its link has not settled. Returns whether it may
    /// receive other messages.
    pub(in crate::core) fn redeliver_unsettled(&mut self, at: Key, to: Key, links: &mut impl Links) -> bool {
        loop {
            let Some(consumer) = self.consumers.get_mut(to) else { return false };
            let has_room = consumer.has_room() && consumer.credit > consumer.fetching;
            let Some(resumed) = consumer.resumed.as_mut() else { return true };
            let next = if has_room { resumed.again.pop_front() } else { None };
            let Some(next) = next else { return resumed.again.is_empty() && !resumed.only_redeliver };
            if let Some(item) = self.addresses.queue(at).opened.messages.get(Seq(next)) {
                self.fetch_or_dispatch(at, to, item, links);
            }
        }
    }

    /// Applies an outcome whose settlement the consumer expects to be confirmed. The confirmation
    /// is sent when the outcome is on disk.
    pub fn outcome_unsettled(
        &mut self,
        attachment: AttachmentId,
        token: u64,
        outcome: &Outcome,
        links: &mut impl Links,
    ) {
        let at = self.attachments.consumer(attachment).map_or(Key::NONE, |key| self.consumers[key].address);
        self.outcome(token, outcome, links);
        self.raise_fence(at, Notice::Settled { attachment, token });
    }

    /// Suspends a resumable link that ended: its messages remain held. Messages of a transaction
    /// are excluded.
    pub(in crate::core) fn suspend(&mut self, key: Key, ending: Ending, links: &mut impl Links) {
        let consumer = &mut self.consumers[key];
        let at = consumer.address;
        let Some(link) = consumer.resumed.take().map(|resumed| resumed.link) else { return };
        // A deleted queue has dropped the state of its links.
        let Some(queue) = self.addresses.find_queue_mut(at) else { return };
        let now_ms = self.now_ms;
        consumer.fetching -= queue.stop_fetching(key, &mut self.storage);
        let Some(receiver) = queue.resuming.receivers.get_mut(&link) else { return };
        let until_ms = end(now_ms, receiver.keep_s);
        (receiver.consumer, receiver.until_ms) = (None, Some(until_ms));
        let oldest = receiver.oldest().and_then(|id| receiver.held.get(&id)).map(|held| held.seq);
        let mut held = Vec::new();
        for one in receiver.held.values_mut() {
            let state = queue.opened.messages.get(Seq(one.seq)).map(|item| item.state);
            held.extend(one.token.take().map(|token| (token, state == Some(State::Retiring), one.seq)));
        }
        if receiver.held.is_empty() {
            queue.resuming.receivers.remove(&link);
        } else {
            queue.resuming.note_end(until_ms);
        }
        for (token, retiring, seq) in held {
            if retiring {
                self.addresses.queue_mut(at).release_hold(Seq(seq), &mut self.storage);
                self.relinquish_one(token, ending, oldest == Some(seq), links);
            } else {
                self.close_token(token);
            }
        }
    }

    /// Drops the state of a link that its client closed: its held messages are returned.
    pub(in crate::core) fn release_resumable(&mut self, key: Key, links: &mut impl Links) {
        let consumer = &mut self.consumers[key];
        let at = consumer.address;
        let Some(link) = consumer.resumed.take().map(|resumed| resumed.link) else { return };
        let queue = self.addresses.queue_mut(at);
        consumer.fetching -= queue.stop_fetching(key, &mut self.storage);
        if let Some(receiver) = queue.resuming.receivers.get_mut(&link) {
            receiver.consumer = None;
            self.return_held(at, link, Ending::ByClient, links);
        }
    }

    /// Drops the state of a link and returns its held messages.
    fn return_held(&mut self, at: Key, link: u64, ending: Ending, links: &mut impl Links) {
        let queue = self.addresses.queue_mut(at);
        let Some(receiver) = queue.resuming.receivers.remove(&link) else { return };
        let oldest = receiver.oldest();
        for (id, held) in receiver.held {
            let queue = self.addresses.queue_mut(at);
            queue.resuming.held.remove(&held.seq);
            if let Some(log) = queue.opened.log {
                self.storage.journal.erase(log, &state_key(HELD, id));
            }
            match held.token {
                Some(token) => self.relinquish_one(token, ending, oldest == Some(id), links),
                None => {
                    let now_ms = self.now_ms;
                    let outcome = match ending.verdict(KIND, oldest == Some(id)) {
                        Verdict::Released => queue::ConsumerOutcome::Released,
                        Verdict::Failed => queue::ConsumerOutcome::Modified { failed: true, undeliverable_here: false },
                    };
                    let effects = &mut self.storage.effects;
                    queue.opened.messages.settle(now_ms, Seq(held.seq), outcome, &mut |effect| effects.push(effect));
                }
            }
        }
    }

    /// Drops links whose state has expired.
    pub(in crate::core) fn expire_links(&mut self, at: Key, links: &mut impl Links) {
        let now_ms = self.now_ms;
        let queue = self.addresses.queue_mut(at);
        if queue.resuming.is_empty() {
            return;
        }
        let log = queue.opened.log;
        let gone: Vec<u64> = queue
            .resuming
            .receivers
            .iter()
            .filter_map(|(link, receiver)| {
                receiver.until_ms.is_some_and(|until_ms| until_ms <= now_ms).then_some(*link)
            })
            .collect();
        for key in queue.resuming.senders.give_up(now_ms) {
            if let Some(log) = log {
                self.storage.journal.erase(log, &key);
            }
        }
        for link in gone {
            self.return_held(at, link, Ending::NotResumed, links);
        }
        self.addresses.queue_mut(at).resuming.update_next_expiry();
    }
}
