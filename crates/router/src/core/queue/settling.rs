//! Settlement: outcomes of consumers, and messages that go to another address.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use enmasse_amqp::codec::envelope::{Changes, envelope, forget_expiry, put_changed};
use enmasse_amqp::types::{Fields, Outcome, Symbol, Value};
use enmasse_journal::queue::{self, Cause, Effect, Item, Seq, State, Target};

use super::super::arena::Key;
use super::super::incoming::WholeBody;
use super::super::storage::{Commit, Completion, Storage};
use super::super::{Links, Router};
use super::Queue;
use super::changed::merge;

/// Annotations of a message that went to a dead letter or expiry address.
const CAUSE: &str = "x-opt-dead-letter-cause";
const DESCRIPTION: &str = "x-opt-dead-letter-description";
pub(in crate::core) const ORIGIN: &str = "x-opt-dead-letter-origin";
const TIME: &str = "x-opt-dead-letter-time";
const COUNT: &str = "x-opt-dead-letter-count";
/// Bytes of a consumer's reason that go with a message; the rest is cut off.
const DESCRIPTION_BYTES: usize = 1024;
/// All of them.
pub(in crate::core) const DEAD_LETTER: [&str; 5] = [CAUSE, DESCRIPTION, ORIGIN, TIME, COUNT];

/// Messages on their way to another address.
#[derive(Debug, Default)]
pub(in crate::core) struct Diversions {
    /// those whose bodies are being read
    reading: Vec<Diverting>,
    /// those whose bodies are yet to be requested
    waiting: VecDeque<Diverting>,
    /// those that wait for the end of a compaction
    postponed: Vec<Diverting>,
}

/// A message for another address whose body is on disk.
#[derive(Clone, Copy, Debug)]
struct Diverting {
    at: Key,
    item: Item,
    to: Target,
    cause: Cause,
}

impl Queue {
    /// A consumer has reported the outcome of a message.
    fn settle(&mut self, seq: Seq, outcome: &Outcome, storage: &mut Storage) {
        self.release_hold(seq, storage);
        let reported = match outcome {
            Outcome::Accepted => queue::ConsumerOutcome::Accepted,
            Outcome::Released => queue::ConsumerOutcome::Released,
            Outcome::Rejected(error) => {
                // Without a dead-letter address no consumer could read it.
                if let Some(error) = error.as_ref().filter(|_| self.opened.dead_letter.is_some()) {
                    let text = error.description.as_deref().unwrap_or(error.condition.as_str());
                    let changed = self.changed.entry(seq.0).or_default();
                    merge(&mut changed.annotations, &[annotation(DESCRIPTION, beginning(text))]);
                }
                queue::ConsumerOutcome::Rejected
            }
            Outcome::Modified(modified) => {
                if !modified.message_annotations.is_empty() {
                    self.change_annotations(seq, &modified.message_annotations, storage);
                }
                let (failed, undeliverable_here) = (modified.delivery_failed, modified.undeliverable_here);
                queue::ConsumerOutcome::Modified { failed, undeliverable_here }
            }
        };
        let Storage { now_ms, effects, journal, .. } = storage;
        let queue = &mut self.opened.messages;
        queue.settle(*now_ms, seq, reported, &mut |effect| effects.push(effect));
        // A diverted message is rewritten elsewhere, and is barred from no consumer there.
        if matches!(reported, queue::ConsumerOutcome::Modified { undeliverable_here: true, .. })
            && let Some(log) = self.opened.log
            && let Some(item) = queue.get(seq).filter(|item| item.state != State::Leaving)
        {
            journal.keep_barred(log, item.id.0, queue.barred_from(seq));
        }
    }

    /// A consumer has accepted a message, which the log has removed in the group of a transaction.
    pub(in crate::core) fn settle_logged(&mut self, seq: Seq, storage: &mut Storage) {
        self.release_hold(seq, storage);
        let mut removed = None;
        self.opened.messages.settle(storage.now_ms, seq, queue::ConsumerOutcome::Accepted, &mut |effect| {
            if let Effect::Remove { item, .. } = effect {
                removed = Some(item);
            }
        });
        if let (Some(item), Some(log)) = (removed, self.opened.log) {
            let changed = self.changed.remove(&seq.0);
            storage.bodies.forget(item.place);
            storage.journal.forget_state(log, &item, changed.is_some_and(|changed| changed.on_disk));
        }
    }

    /// A message was removed: its body is freed, and the log forgets it.
    pub(in crate::core) fn forget(&mut self, item: &Item, storage: &mut Storage) {
        self.release_hold(item.seq, storage);
        // As a rule none is, and then not even a hash is worth its time.
        let changed = if self.changed.is_empty() { None } else { self.changed.remove(&item.seq.0) };
        match self.opened.log {
            Some(log) => {
                storage.bodies.forget(item.place);
                storage.journal.remove(log, item);
                if changed.is_some_and(|changed| changed.on_disk) {
                    storage.journal.forget_annotations(log, item.id.0);
                }
            }
            None => storage.bodies.free(item.place),
        }
    }

    /// The log has a message elsewhere, and has removed it here in the same group.
    pub(in crate::core) fn left(&mut self, seq: Seq, storage: &mut Storage) {
        let changed = self.changed.remove(&seq.0);
        match (self.opened.messages.left(seq), self.opened.log) {
            (Some(item), None) => storage.bodies.free(item.place),
            (Some(item), Some(log)) => {
                storage.bodies.forget(item.place);
                // Behind all that was to be kept of it.
                storage.journal.forget_state(log, &item, changed.is_some_and(|changed| changed.on_disk));
            }
            // It was removed in the meantime, with its body.
            (None, _) => {}
        }
    }

    /// A message for another address goes without having been stored there, or is in memory there.
    pub(super) fn drop_diverted(&mut self, item: &Item, storage: &mut Storage) {
        self.opened.messages.left(item.seq);
        self.forget(item, storage);
    }
}

impl Router {
    /// A consumer has reported the outcome of a queue's message.
    #[inline]
    pub(in crate::core) fn settle_in_queue(&mut self, at: Key, seq: Seq, outcome: &Outcome, links: &mut impl Links) {
        // Without a queue, the address is being deleted, and this message with it.
        let Some(queue) = self.addresses.find_queue_mut(at) else { return };
        if matches!(outcome, Outcome::Accepted) && queue.accept_plain(seq, &mut self.storage) {
            return self.mark_dirty(at);
        }
        queue.settle(seq, outcome, &mut self.storage);
        self.do_effects(at, links);
        self.mark_dirty(at);
    }

    fn drop_diverted(&mut self, at: Key, item: Item) {
        self.addresses.queue_mut(at).drop_diverted(&item, &mut self.storage);
    }

    /// A message goes to another address of this shard, which stores it before it is forgotten
    /// here.
    pub(in crate::core) fn divert(&mut self, at: Key, item: Item, to: Target, cause: Cause, links: &mut impl Links) {
        let queue = self.addresses.queue(at);
        // While it was being read the log may have moved it.
        let item = queue.opened.messages.get(item.seq).unwrap_or(item);
        let on_disk = queue.opened.log.is_some();
        let name = match to {
            Target::DeadLetter => queue.opened.dead_letter,
            Target::Expiry => queue.opened.expiry.or(queue.opened.dead_letter),
            Target::Elsewhere => None,
        };
        let target = name.and_then(|name| self.by_key.get(&name).copied());
        let Some(target) = target.filter(|target| self.addresses.find_queue(*target).is_some()) else {
            return self.drop_diverted(at, item);
        };
        // The record that stores it there removes it here, and has to name the place where it lies.
        if on_disk && self.storage.journal.is_compacting() {
            return self.diversions.postponed.push(Diverting { at, item, to, cause });
        }
        if !self.storage.bodies.is_known(item.place, on_disk) {
            self.diversions.waiting.push_back(Diverting { at, item, to, cause });
            return self.fetch_diverting();
        }
        self.store_diverted(at, item, target, cause, links);
    }

    /// Compaction has ended: postponed messages continue.
    pub(in crate::core) fn divert_postponed(&mut self, links: &mut impl Links) {
        for Diverting { at, item, to, cause } in std::mem::take(&mut self.diversions.postponed) {
            if self.addresses.get(at).is_some() {
                self.divert(at, item, to, cause, links);
            }
        }
    }

    /// Requests bodies of messages for other addresses: as many as may be, and one in any case.
    fn fetch_diverting(&mut self) {
        while self.diversions.reading.is_empty() || !self.storage.bodies.is_full() {
            // All are being read.
            let Some(diverting) = self.diversions.waiting.pop_front() else { return };
            self.storage.bodies.fetch(diverting.item.place);
            self.diversions.reading.push(diverting);
        }
    }

    /// Messages of an address that are to leave for another and have not been written there.
    pub(in crate::core) fn waiting_to_leave(&self, at: Key) -> HashSet<Seq> {
        let waiting = self.diversions.waiting.iter().chain(&self.diversions.reading).chain(&self.diversions.postponed);
        waiting.filter(|diverting| diverting.at == at).map(|diverting| diverting.item.seq).collect()
    }

    /// Those whose bodies have arrived in the meantime.
    pub(in crate::core) fn divert_fetched(&mut self, links: &mut impl Links) {
        for diverting in std::mem::take(&mut self.diversions.reading) {
            let Diverting { at, item, to, cause } = diverting;
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

    fn store_diverted(&mut self, at: Key, item: Item, target: Key, cause: Cause, links: &mut impl Links) {
        let now_ms = self.now_ms;
        let queue = self.addresses.queue(at);
        let changed = queue.changed.get(&item.seq.0);
        let mut annotations = changed.map_or_else(Fields::new, |changed| changed.annotations.clone());
        let notified = [
            annotation(CAUSE, cause.name()),
            annotation(ORIGIN, &queue.opened.name),
            (Symbol::constant(TIME), Value::Timestamp(now_ms.cast_signed())),
            (Symbol::constant(COUNT), Value::Uint(u32::from(item.failures))),
        ];
        merge(&mut annotations, &notified);
        let Some(body) = self.storage.bodies.get(item.place, queue.opened.log.is_some()) else {
            let name = Arc::clone(&queue.opened.name);
            self.count_damaged(at, &name, item.id.0);
            return self.drop_diverted(at, item);
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
        let from_log = queue.opened.log;
        // It was readable when it came in: the disk has changed it.
        let Ok(envelope) = envelope(&changed) else { return self.drop_diverted(at, item) };
        let mut head = self.head_of_envelope(&envelope, changed.len(), None);
        // It lived as long as it was to live where it came from.
        (head.ttl_ms, head.absolute_expiry, head.due) = (None, None, None);
        let there = self.addresses.queue_mut(target);
        // A dead letter that is full drops its oldest, if it is to, and has one more otherwise:
        // none is lost in silence.
        let admitted = there.opened.messages.admit(now_ms, &head);
        match there.opened.log {
            Some(log) => {
                let completion = Completion { from: Some((at, item.seq)), ..Completion::NONE };
                self.storage.journal.store_one(
                    log,
                    &admitted,
                    Commit::new(target, admitted.seq, completion),
                    WholeBody::Read(&changed),
                );
                self.storage.journal.seal(from_log.map(|log| (log, &item)));
            }
            None => {
                let place = self.storage.bodies.put(&changed, 1);
                let mut effects = Vec::new();
                there.opened.messages.committed(admitted.seq, place, &mut |effect| effects.push(effect));
                self.drop_diverted(at, item);
                let before = std::mem::replace(&mut self.storage.effects, effects);
                self.process(target, links);
                self.storage.effects = before;
            }
        }
    }
}

/// As much of a text as goes with a message, in whole characters.
fn beginning(text: &str) -> &str {
    let most = text.len().min(DESCRIPTION_BYTES);
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

fn annotation(name: &'static str, text: &str) -> (Symbol, Value) {
    (Symbol::constant(name), Value::String(text.to_owned()))
}
