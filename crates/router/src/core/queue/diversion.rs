//! Diversion: messages that move to a dead-letter or expiry address, or elsewhere by an operation.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use enmasse_amqp::codec::envelope::{Changes, envelope, forget_expiry, put_changed};
use enmasse_amqp::types::{Fields, Symbol, Value};
use enmasse_journal::queue::{Cause, Item, Seq, Target};

use super::super::arena::Key;
use super::super::arriving::WholeBody;
use super::super::handover::HandoverReason;
use super::super::ids::Joint;
use super::super::storage::{Commit, Completion, Storage};
use super::super::{Links, Router};
use super::Queue;
use super::changed::merge;
use super::handover::{Departing, departed_from};

/// Annotations of a message that moved to a dead-letter or expiry address.
const CAUSE: &str = "x-opt-dead-letter-cause";
const DESCRIPTION: &str = "x-opt-dead-letter-description";
pub(in crate::core) const ORIGIN: &str = "x-opt-dead-letter-origin";
const TIME: &str = "x-opt-dead-letter-time";
const COUNT: &str = "x-opt-dead-letter-count";
/// Bound of the rejection reason that is kept in an annotation, in bytes; the rest is cut off.
const DESCRIPTION_BYTES: usize = 1024;
/// All dead-letter annotations.
pub(in crate::core) const DEAD_LETTER: [&str; 5] = [CAUSE, DESCRIPTION, ORIGIN, TIME, COUNT];

/// Messages on their way to another address.
#[derive(Debug, Default)]
pub(in crate::core) struct Diversions {
    /// messages whose bodies are being fetched
    reading: Vec<Diversion>,
    /// messages whose bodies are not requested yet
    waiting: VecDeque<Diversion>,
    /// messages that wait for the end of a compaction
    postponed: Vec<Diversion>,
    /// tokens of received messages that wait for it, with their joint groups and spaces
    removals: Vec<(u64, Joint, u32)>,
}

impl Diversions {
    /// Postpones the removal of a received message until the end of a compaction.
    pub(super) fn postpone_removal(&mut self, token: u64, joint: Joint, space: u32) {
        self.removals.push((token, joint, space));
    }
}

/// A message for another address whose body is on disk.
#[derive(Clone, Copy, Debug)]
struct Diversion {
    at: Key,
    item: Item,
    to: Target,
    cause: Cause,
}

impl Queue {
    /// Removes a message that the log has stored in another queue and removed from this one in the
    /// same group.
    pub(in crate::core) fn left(&mut self, seq: Seq, storage: &mut Storage) {
        let changed = self.changed.remove(&seq.0);
        let left = self.opened.messages.left(seq);
        left.iter().for_each(|item| self.forget_sent(item, storage));
        match (left, self.opened.log) {
            (Some(item), None) => storage.bodies.free(item.place),
            (Some(item), Some(log)) => {
                storage.bodies.forget(item.place);
                // After all state records of the message.
                storage.journal.forget_state(log, &item, changed.is_some_and(|changed| changed.on_disk));
            }
            // It was removed in the meantime, and its body freed.
            (None, _) => {}
        }
    }

    /// Removes a message for another address that is stored there in memory, or not at all.
    pub(super) fn drop_diverted(&mut self, item: &Item, storage: &mut Storage) {
        self.opened.messages.left(item.seq);
        self.forget(item, storage);
    }
}

impl Router {
    fn drop_diverted(&mut self, at: Key, item: Item) {
        self.addresses.queue_mut(at).drop_diverted(&item, &mut self.storage);
    }

    /// Moves a message to another address of this shard, which stores it before it is removed here.
    pub(in crate::core) fn divert(&mut self, at: Key, item: Item, to: Target, cause: Cause, links: &mut impl Links) {
        let queue = self.addresses.queue(at);
        // Compaction may have moved it while its body was fetched.
        let item = queue.opened.messages.get(item.seq).unwrap_or(item);
        let on_disk = queue.opened.log.is_some();
        let name = match to {
            Target::DeadLetter => queue.opened.dead_letter,
            Target::Expiry => queue.opened.expiry.or(queue.opened.dead_letter),
            Target::Elsewhere => None,
        };
        let elsewhere = name.filter(|name| name.home != self.shard);
        let here = name.and_then(|name| self.by_key.get(&name.key).copied());
        let here = here.filter(|target| self.addresses.find_queue(*target).is_some());
        if elsewhere.is_none() && here.is_none() {
            return self.drop_diverted(at, item);
        }
        // The record that stores it in the target also removes it here, so it must name the current
        // location.
        if on_disk && self.storage.journal.is_compacting() {
            return self.diversions.postponed.push(Diversion { at, item, to, cause });
        }
        if !self.storage.bodies.is_known(item.place, on_disk) {
            self.diversions.waiting.push_back(Diversion { at, item, to, cause });
            return self.fetch_diverting();
        }
        let Some(message) = self.diverted(at, &item, cause) else { return self.drop_diverted(at, item) };
        match (elsewhere, here) {
            (Some(target), _) => {
                let departing = Departing { at, removed: Some(&item), completion: departed_from(at, item.seq) };
                self.hand_over(departing, target, (HandoverReason::Diverted, &message), links);
            }
            (None, Some(target)) => self.store_diverted(at, item, target, &message, links),
            (None, None) => debug_assert!(false, "a message without a target was dropped above"),
        }
    }

    /// Continues diversions that were postponed until the end of a compaction.
    pub(in crate::core) fn resume_diversions(&mut self, links: &mut impl Links) {
        for Diversion { at, item, to, cause } in std::mem::take(&mut self.diversions.postponed) {
            if self.addresses.get(at).is_some() {
                self.divert(at, item, to, cause, links);
            }
        }
        for (token, joint, space) in std::mem::take(&mut self.diversions.removals) {
            self.remove_with(token, (joint, space), links);
        }
    }

    /// Requests bodies of messages for other addresses, within the bound of the shard, but at least
    /// one.
    fn fetch_diverting(&mut self) {
        while self.diversions.reading.is_empty() || !self.storage.bodies.is_full() {
            // All are being read.
            let Some(diverting) = self.diversions.waiting.pop_front() else { return };
            self.storage.bodies.fetch(diverting.item.place);
            self.diversions.reading.push(diverting);
        }
    }

    /// Leaving messages of an address that are not written to their targets yet.
    pub(in crate::core) fn unwritten_diversions(&self, at: Key) -> HashSet<Seq> {
        let waiting = self.diversions.waiting.iter().chain(&self.diversions.reading).chain(&self.diversions.postponed);
        waiting.filter(|diverting| diverting.at == at).map(|diverting| diverting.item.seq).collect()
    }

    /// Continues the diversion of messages whose bodies have arrived.
    pub(in crate::core) fn divert_fetched(&mut self, links: &mut impl Links) {
        for diverting in std::mem::take(&mut self.diversions.reading) {
            let Diversion { at, item, to, cause } = diverting;
            if self.storage.bodies.is_pending(item.place) {
                self.diversions.reading.push(diverting);
                continue;
            }
            if self.addresses.get(at).is_some() {
                self.divert(at, item, to, cause, links);
            }
            self.storage.bodies.release_body(item.place);
        }
        self.fetch_diverting();
    }

    /// The encoded message as a dead letter; `None`: it is damaged.
    fn diverted(&mut self, at: Key, item: &Item, cause: Cause) -> Option<Vec<u8>> {
        let queue = self.addresses.queue(at);
        let changed = queue.changed.get(&item.seq.0);
        let mut annotations = changed.map_or_else(Fields::new, |changed| changed.annotations.clone());
        let added = [
            annotation(CAUSE, cause.name()),
            annotation(ORIGIN, &queue.opened.name),
            (Symbol::constant(TIME), Value::Timestamp(self.now_ms.cast_signed())),
            (Symbol::constant(COUNT), Value::Uint(u32::from(item.failures))),
        ];
        merge(&mut annotations, &added);
        let Some(body) = self.storage.bodies.get(item.place, queue.opened.log.is_some()) else {
            let name = Arc::clone(&queue.opened.name);
            self.count_damaged(at, &name, item.id.0);
            return None;
        };
        let mut changed = Vec::with_capacity(body.len() + 256);
        let changes = Changes {
            delivery_count: u32::from(item.failures),
            ttl_ms: None,
            annotations: Some(&annotations),
            without: &[],
        };
        put_changed(&mut changed, body, &changes);
        forget_expiry(&mut changed);
        Some(changed)
    }

    fn store_diverted(&mut self, at: Key, item: Item, target: Key, message: &[u8], links: &mut impl Links) {
        let now_ms = self.now_ms;
        let from_log = self.addresses.queue(at).opened.log;
        // It was readable when it came in: the disk has changed it.
        let Ok(envelope) = envelope(message) else { return self.drop_diverted(at, item) };
        let mut head = self.head_of_envelope(&envelope, message.len(), None);
        HandoverReason::Diverted.apply(&mut head);
        let destination = self.addresses.queue_mut(target);
        // A full dead-letter queue drops its oldest message if so configured, and otherwise exceeds
        // its bound: no message is lost silently.
        let admitted = destination.opened.messages.admit(now_ms, &head);
        match destination.opened.log {
            Some(log) => {
                let completion = Completion { from: Some((at, item.seq)), ..Completion::NONE };
                self.storage.journal.store_one(
                    log,
                    &admitted,
                    Commit::new(target, admitted.seq, completion),
                    WholeBody::Read(message),
                );
                self.storage.journal.seal(from_log.map(|log| (log, &item)));
            }
            None => {
                let place = self.storage.bodies.put(message, 1);
                let mut effects = Vec::new();
                destination.opened.messages.committed(admitted.seq, place, &mut |effect| effects.push(effect));
                self.drop_diverted(at, item);
                let before = std::mem::replace(&mut self.storage.effects, effects);
                self.process(target, links);
                self.storage.effects = before;
            }
        }
    }
}

/// The annotation with the reason of a rejection, kept until the message moves.
pub(super) fn rejection_reason(text: &str) -> (Symbol, Value) {
    annotation(DESCRIPTION, beginning(text))
}

/// The text up to [`DESCRIPTION_BYTES`], cut at a character boundary.
fn beginning(text: &str) -> &str {
    let most = text.len().min(DESCRIPTION_BYTES);
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

fn annotation(name: &'static str, text: &str) -> (Symbol, Value) {
    (Symbol::constant(name), Value::String(text.to_owned()))
}
