//! The end of a message in its queue: expiry, dead-lettering and moves to other addresses.

use super::Queue;
use super::effect::{Cause, Effect, Item, Target};
use super::entry::{Seq, State, Step};

impl Queue {
    /// Moves a message that no consumer holds to another address, for an administrator.
    /// [`Effect::Divert`] follows.
    pub fn divert(&mut self, seq: Seq, sink: &mut impl FnMut(Effect)) -> bool {
        let held = |state| matches!(state, State::Acquired | State::Retiring);
        if self.index.get(seq.0).is_none_or(|entry| held(entry.state())) {
            return false;
        }
        self.divert_to(seq.0, Target::Elsewhere, Cause::Moved, sink)
    }

    /// Removes a diverted message that the other address has stored. The caller logs the removal of
    /// the returned item.
    pub fn left(&mut self, seq: Seq) -> Option<Item> {
        self.index.get(seq.0).filter(|entry| entry.state() == State::Leaving)?;
        self.take_out(seq.0)
    }

    /// Keeps a diverted message that the other address refused: it waits again at its position. A
    /// scheduled or delayed message continues to wait for its time.
    pub fn stay(&mut self, seq: Seq) -> bool {
        if self.index.get(seq.0).is_none_or(|entry| entry.state() != State::Leaving) {
            return false;
        }
        self.resume_waiting(seq.0);
        true
    }

    /// Diverts or drops an expired message.
    pub(super) fn expire(&mut self, at: u64, sink: &mut impl FnMut(Effect)) {
        if self.settings.expiry {
            self.divert_to(at, Target::Expiry, Cause::Expired, sink);
        } else {
            self.finish(at, Cause::Expired, sink);
        }
    }

    /// Diverts a message to the dead letter address, or drops it without one.
    pub(super) fn dead_letter(&mut self, at: u64, cause: Cause, sink: &mut impl FnMut(Effect)) {
        if self.settings.dead_letter {
            self.divert_to(at, Target::DeadLetter, cause, sink);
        } else {
            self.finish(at, cause, sink);
        }
    }

    pub(super) fn divert_to(&mut self, at: u64, to: Target, cause: Cause, sink: &mut impl FnMut(Effect)) -> bool {
        if !self.step(at, Step::Divert) {
            return false;
        }
        self.make_unavailable(at);
        self.stats.diverted[cause as usize] += 1;
        if let Some(item) = self.item(at) {
            sink(Effect::Divert { item, to, cause });
        }
        true
    }

    /// Removes a message, with its effect.
    #[inline]
    pub(super) fn finish(&mut self, at: u64, cause: Cause, sink: &mut impl FnMut(Effect)) {
        let Some(item) = self.take_out(at) else { return };
        self.stats.removed[cause as usize] += 1;
        sink(Effect::Remove { item, cause });
    }
}
