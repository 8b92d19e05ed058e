//! Settlement: outcomes of consumers.

use enmasse_amqp::types::Outcome;
use enmasse_journal::queue::{self, Effect, Item, Seq, State};

use super::super::arena::Key;
use super::super::storage::Storage;
use super::super::{Links, Router};
use super::Queue;
use super::changed::merge;
use super::diversion::rejection_reason;

impl Queue {
    /// Applies the outcome of a message that a consumer has reported.
    pub(super) fn settle(&mut self, seq: Seq, outcome: &Outcome, storage: &mut Storage) {
        self.release_hold(seq, storage);
        if !matches!(outcome, Outcome::Accepted) {
            self.note_unsent(seq, storage);
        }
        let reported = match outcome {
            Outcome::Accepted => queue::ConsumerOutcome::Accepted,
            Outcome::Released => queue::ConsumerOutcome::Released,
            Outcome::Rejected(error) => {
                // Without a dead-letter address the message is removed, and no consumer could read
                // the reason.
                if let Some(error) = error.as_ref().filter(|_| self.opened.dead_letter.is_some()) {
                    let text = error.description.as_deref().unwrap_or(error.condition.as_str());
                    let changed = self.changed.entry(seq.0).or_default();
                    merge(&mut changed.annotations, &[rejection_reason(text)]);
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
        // A diverted message is written again elsewhere, where it is barred from no consumer.
        if matches!(reported, queue::ConsumerOutcome::Modified { undeliverable_here: true, .. })
            && let Some(log) = self.opened.log
            && let Some(item) = queue.get(seq).filter(|item| item.state != State::Leaving)
        {
            journal.keep_barred(log, item.id.0, queue.undeliverable_to(seq));
        }
    }

    /// Applies the outcome accepted to a message that the log has removed with a transaction.
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
            self.forget_sent(&item, storage);
            storage.journal.forget_state(log, &item, changed.is_some_and(|changed| changed.on_disk));
        }
    }

    /// Frees the body of a removed message, and removes the message from the log.
    pub(in crate::core) fn forget(&mut self, item: &Item, storage: &mut Storage) {
        self.release_hold(item.seq, storage);
        self.forget_sent(item, storage);
        // Fast path: mostly no message is changed, and a hash look-up is avoided.
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
}

impl Router {
    /// Applies the outcome of a queue's message that a consumer has reported.
    #[inline]
    pub(in crate::core) fn settle_in_queue(&mut self, at: Key, seq: Seq, outcome: &Outcome, links: &mut impl Links) {
        // Without a queue the address is being deleted, together with this message.
        let Some(queue) = self.addresses.find_queue_mut(at) else { return };
        if matches!(outcome, Outcome::Accepted) && queue.accept_plain(seq, &mut self.storage) {
            return self.mark_dirty(at);
        }
        queue.settle(seq, outcome, &mut self.storage);
        self.do_effects(at, links);
        self.mark_dirty(at);
    }
}
