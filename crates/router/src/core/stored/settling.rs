//! Settlement: outcomes of consumers, and messages that go to another address.

use std::collections::HashSet;
use std::sync::Arc;

use enmasse_amqp::codec::envelope::{Changes, envelope, forget_expiry, put_changed};
use enmasse_amqp::types::{Fields, Outcome, Symbol, Value};
use enmasse_journal::queue::{self, Cause, Item, Seq, State, Target};

use super::super::arena::Key;
use super::super::{Links, Router};
use super::changed::merge;
use super::journal::{Commit, Completion};

/// Annotations of a message that went to a dead letter or expiry address.
const CAUSE: &str = "x-opt-dead-letter-cause";
const DESCRIPTION: &str = "x-opt-dead-letter-description";
pub(super) const ORIGIN: &str = "x-opt-dead-letter-origin";
const TIME: &str = "x-opt-dead-letter-time";
const COUNT: &str = "x-opt-dead-letter-count";
/// Bytes of a consumer's reason that go with a message; the rest is cut off.
const DESCRIPTION_BYTES: usize = 1024;
/// All of them.
pub(super) const DEAD_LETTER: [&str; 5] = [CAUSE, DESCRIPTION, ORIGIN, TIME, COUNT];

/// A message for another address whose body is on disk.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Diverting {
    at: Key,
    item: Item,
    to: Target,
    cause: Cause,
}

impl Router {
    /// A consumer has reported the outcome of a queue's message.
    pub(in crate::core) fn settle_in_queue(&mut self, at: Key, seq: Seq, outcome: &Outcome, links: &mut impl Links) {
        if self.addresses.find_queue(at).is_none() {
            // It is being deleted, with this message.
            return;
        }
        if matches!(outcome, Outcome::Accepted) && self.accept_plain(at, seq) {
            return;
        }
        let now_ms = self.now_ms;
        self.release_hold(at, seq);
        let stored = self.addresses.queue_mut(at);
        let reported = match outcome {
            Outcome::Accepted => queue::ConsumerOutcome::Accepted,
            Outcome::Released => queue::ConsumerOutcome::Released,
            Outcome::Rejected(error) => {
                // Without a dead-letter address no consumer could read it.
                if let Some(error) = error.as_ref().filter(|_| stored.opened.dead_letter.is_some()) {
                    let text = error.description.as_deref().unwrap_or(error.condition.as_str());
                    let changed = stored.changed.entry(seq.0).or_default();
                    merge(&mut changed.annotations, &[annotation(DESCRIPTION, beginning(text))]);
                }
                queue::ConsumerOutcome::Rejected
            }
            Outcome::Modified(modified) => {
                if !modified.message_annotations.is_empty() {
                    self.change_annotations(at, seq, &modified.message_annotations);
                }
                let (failed, undeliverable_here) = (modified.delivery_failed, modified.undeliverable_here);
                queue::ConsumerOutcome::Modified { failed, undeliverable_here }
            }
        };
        let stored = self.addresses.queue_mut(at);
        let (effects, queue) = (&mut self.effects, &mut stored.opened.queue);
        queue.settle(now_ms, seq, reported, &mut |effect| effects.push(effect));
        // A diverted message is rewritten elsewhere, and is barred from no consumer there.
        if matches!(reported, queue::ConsumerOutcome::Modified { undeliverable_here: true, .. })
            && let Some(log) = stored.opened.log
            && let Some(item) = queue.get(seq).filter(|item| item.state != State::Leaving)
        {
            self.journal.keep_barred(log, item.id.0, queue.barred_from(seq));
        }
        self.do_effects(at, links);
        self.mark_dirty(at);
    }

    /// A message goes to another address of this shard, which stores it before it is forgotten
    /// here.
    pub(super) fn divert(&mut self, at: Key, item: Item, to: Target, cause: Cause, links: &mut impl Links) {
        let stored = self.addresses.queue(at);
        // While it was being read the log may have moved it.
        let item = stored.opened.queue.get(item.seq).unwrap_or(item);
        let on_disk = stored.opened.log.is_some();
        let name = match to {
            Target::DeadLetter => stored.opened.dead_letter,
            Target::Expiry => stored.opened.expiry.or(stored.opened.dead_letter),
            Target::Elsewhere => None,
        };
        let target = name.and_then(|name| self.by_key.get(&name).copied());
        let Some(target) = target.filter(|target| self.addresses.find_queue(*target).is_some()) else {
            return self.drop_diverted(at, item);
        };
        // The record that stores it there removes it here, and has to name the place where it lies.
        if on_disk && self.journal.is_compacting() {
            return self.postponed.push(Diverting { at, item, to, cause });
        }
        if !self.bodies.is_known(item.place, on_disk) {
            self.to_divert.push_back(Diverting { at, item, to, cause });
            return self.fetch_diverting();
        }
        self.store_diverted(at, item, target, cause, links);
    }

    /// Compaction has ended: postponed messages continue.
    pub(super) fn divert_postponed(&mut self, links: &mut impl Links) {
        for Diverting { at, item, to, cause } in std::mem::take(&mut self.postponed) {
            if self.addresses.get(at).is_some() {
                self.divert(at, item, to, cause, links);
            }
        }
    }

    /// Requests bodies of messages for other addresses: as many as may be, and one in any case.
    fn fetch_diverting(&mut self) {
        while self.diverting.is_empty() || !self.bodies.is_full() {
            let Some(diverting) = self.to_divert.pop_front() else { return };
            self.bodies.fetch(diverting.item.place);
            self.diverting.push(diverting);
        }
    }

    /// Messages of an address that are to leave for another and have not been written there.
    pub(super) fn waiting_to_leave(&self, at: Key) -> HashSet<Seq> {
        let waiting = self.to_divert.iter().chain(&self.diverting).chain(&self.postponed);
        waiting.filter(|diverting| diverting.at == at).map(|diverting| diverting.item.seq).collect()
    }

    /// Those whose bodies have arrived in the meantime.
    pub(in crate::core) fn divert_fetched(&mut self, links: &mut impl Links) {
        for diverting in std::mem::take(&mut self.diverting) {
            let Diverting { at, item, to, cause } = diverting;
            if self.bodies.is_pending(item.place) {
                self.diverting.push(diverting);
                continue;
            }
            if self.addresses.get(at).is_some() {
                self.divert(at, item, to, cause, links);
            }
            self.bodies.release_body(item.place);
        }
        self.fetch_diverting();
    }

    pub(super) fn drop_diverted(&mut self, at: Key, item: Item) {
        let stored = self.addresses.queue_mut(at);
        stored.opened.queue.left(item.seq);
        self.forget_stored(at, &item);
    }

    fn store_diverted(&mut self, at: Key, item: Item, target: Key, cause: Cause, links: &mut impl Links) {
        let now_ms = self.now_ms;
        let stored = self.addresses.queue(at);
        let changed = stored.changed.get(&item.seq.0);
        let mut annotations = changed.map_or_else(Fields::new, |changed| changed.annotations.clone());
        let notified = [
            annotation(CAUSE, cause.name()),
            annotation(ORIGIN, &stored.opened.name),
            (Symbol::constant(TIME), Value::Timestamp(now_ms.cast_signed())),
            (Symbol::constant(COUNT), Value::Uint(u32::from(item.failures))),
        ];
        merge(&mut annotations, &notified);
        let Some(body) = self.bodies.get(item.place, stored.opened.log.is_some()) else {
            let name = Arc::clone(&stored.opened.name);
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
        let from_log = stored.opened.log;
        let Ok(envelope) = envelope(&changed) else { return self.drop_diverted(at, item) };
        let mut head = self.head_of_envelope(&envelope, changed.len(), None);
        // It lived as long as it was to live where it came from.
        (head.ttl_ms, head.absolute_expiry, head.due) = (None, None, None);
        let there = self.addresses.queue_mut(target);
        // A dead letter that is full drops its oldest, if it is to, and has one more otherwise:
        // none is lost in silence.
        let admitted = there.opened.queue.admit(now_ms, &head);
        match there.opened.log {
            Some(log) => {
                let completion = Completion { from: Some((at, item.seq)), ..Completion::NONE };
                self.journal.store_one(log, &admitted, Commit::new(target, admitted.seq, completion), &changed);
                self.journal.seal(from_log.map(|log| (log, &item)));
            }
            None => {
                let place = self.bodies.put(&changed, 1);
                let mut effects = Vec::new();
                there.opened.queue.committed(admitted.seq, place, &mut |effect| effects.push(effect));
                self.drop_diverted(at, item);
                let before = std::mem::replace(&mut self.effects, effects);
                self.process(target, links);
                self.effects = before;
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
