//! The handling of returned messages, and the destination of messages that may not stay.

use super::Queue;
use super::consumers::ConsumerId;
use super::effect::{Cause, ConsumerOutcome, Effect, Item, Next, Target};
use super::entry::{Mark, Seq, State, Step};

impl Queue {
    /// A consumer has reported the outcome of a message it holds. `false`: it holds none of that
    /// name.
    ///
    /// Accepted: removed. Released: back at its place. Modified: a failed delivery if it is marked
    /// so. Rejected: to the dead letter; a failed delivery without one, or if the address is
    /// configured so. Failed deliveries wait according to `settings.redelivery` and end in the dead
    /// letter, or are dropped.
    #[inline]
    pub fn settle(&mut self, now: u64, seq: Seq, outcome: ConsumerOutcome, sink: &mut impl FnMut(Effect)) -> bool {
        let at = seq.0;
        let Some(entry) = self.index.get(at) else { return false };
        if !matches!(entry.state(), State::Acquired | State::Retiring) {
            return false;
        }
        let name = self.release_hold(ConsumerId(entry.holder), entry.group);
        match outcome {
            ConsumerOutcome::Accepted => self.finish(at, Cause::Accepted, sink),
            ConsumerOutcome::Released => self.put_back(now, at, sink),
            ConsumerOutcome::Modified { failed, undeliverable_here } => {
                if let Some(name) = name.filter(|_| undeliverable_here) {
                    self.bar(at, name);
                }
                if failed {
                    self.fail(now, at, sink);
                } else {
                    self.put_back(now, at, sink);
                }
            }
            ConsumerOutcome::Rejected if self.settings.dead_letter && !self.settings.reject_is_failure => {
                self.divert_to(at, Target::DeadLetter, Cause::Rejected, sink);
            }
            ConsumerOutcome::Rejected => self.fail(now, at, sink),
        }
        true
    }

    /// A dispatched message never left the node: it waits again, as if it had not been dispatched.
    pub fn give_back(&mut self, now: u64, seq: Seq, sink: &mut impl FnMut(Effect)) -> bool {
        self.settle(now, seq, ConsumerOutcome::Released, sink)
    }

    /// After a restart: a message is held still, by a link that may return. `false`: it is not
    /// available anyway. The next [`Queue::settle`] of it ends that.
    pub fn restore_hold(&mut self, seq: Seq) -> bool {
        let at = seq.0;
        if self.index.get(at).is_some_and(|entry| entry.state() == State::Scheduled) {
            // It had been due, or no consumer would hold it.
            self.step(at, Step::Due);
            if let Some(entry) = self.index.get_mut(at) {
                entry.set(Mark::Unseen, false);
            }
        }
        let held = matches!(self.acquire(at, ConsumerId::GONE), Next::Message(_));
        self.stats.delivered -= u64::from(held);
        held
    }

    /// After a restart: a message whose delivery has failed is unavailable until that time.
    /// `false`: it is not available anyway.
    pub fn delay(&mut self, seq: Seq, due: u64) -> bool {
        let at = seq.0;
        self.delay_marked(at, due, false)
    }

    /// The body of a message cannot be read: it is unavailable until that time, and so are later
    /// messages of its group. `false`: it is not available anyway.
    pub fn set_aside(&mut self, seq: Seq, due: u64) -> bool {
        self.delay_marked(seq.0, due, true)
    }

    fn delay_marked(&mut self, at: u64, due: u64, aside: bool) -> bool {
        let waits = self.index.get(at).is_some_and(|entry| entry.state() == State::Waiting);
        if !waits || !self.restore_hold(Seq(at)) {
            return false;
        }
        if let Some(entry) = self.index.get_mut(at).filter(|entry| aside && entry.grouped()) {
            entry.set(Mark::Aside, true);
            let group = entry.group;
            self.groups.count_aside(group, 1);
        }
        if let Some(entry) = self.index.get(at) {
            self.release_hold(ConsumerId::GONE, entry.group);
        }
        self.await_time(at, Step::Delay);
        self.timers.push(due, at);
        true
    }

    /// A message that is held goes over to another consumer. `false`: no consumer holds it.
    pub fn reassign(&mut self, seq: Seq, to: ConsumerId) -> bool {
        let Some(entry) = self.index.get_mut(seq.0).filter(|entry| entry.state() == State::Acquired) else {
            return false;
        };
        let before = ConsumerId(std::mem::replace(&mut entry.holder, to.0));
        let group = entry.group;
        self.consumers.count_held(before, -1);
        self.consumers.count_held(to, 1);
        self.consumers.choose_active();
        self.reassign_group(group, to);
        true
    }

    /// A consumer has settled a message within a transaction: it is held until [`Queue::settle`] at
    /// the commit, or [`Queue::unretire`] at the rollback. `false`: no consumer holds it, or a
    /// transaction does already.
    pub fn retire(&mut self, seq: Seq) -> bool {
        self.step(seq.0, Step::Retire)
    }

    /// The transaction in which a message was settled is rolled back: its consumer holds it as
    /// before.
    pub fn unretire(&mut self, seq: Seq) -> bool {
        self.step(seq.0, Step::Unretire)
    }

    /// An administrator stores a message elsewhere: one that no consumer holds. [`Effect::Divert`]
    /// follows.
    pub fn divert(&mut self, seq: Seq, sink: &mut impl FnMut(Effect)) -> bool {
        let held = |state| matches!(state, State::Acquired | State::Retiring);
        if self.index.get(seq.0).is_none_or(|entry| held(entry.state())) {
            return false;
        }
        self.divert_to(seq.0, Target::Elsewhere, Cause::Moved, sink)
    }

    /// The other address has stored a diverted message: it is removed here, and the log forgets the
    /// returned item.
    pub fn left(&mut self, seq: Seq) -> Option<Item> {
        self.index.get(seq.0).filter(|entry| entry.state() == State::Leaving)?;
        self.take_out(seq.0)
    }

    /// The other address would not have a diverted message: it waits here again, at its place. A
    /// message that waited for its time continues to wait.
    pub fn stay(&mut self, seq: Seq) -> bool {
        if self.index.get(seq.0).is_none_or(|entry| entry.state() != State::Leaving) {
            return false;
        }
        self.wait_on(seq.0);
        true
    }

    /// It waits as it did before it was to leave.
    fn wait_on(&mut self, at: u64) {
        let Some(entry) = self.index.get_mut(at) else { return };
        let missed = entry.has(Mark::Missed);
        entry.set(Mark::Missed, false);
        let step = if entry.has(Mark::Unseen) { Step::Schedule } else { Step::Delay };
        if !missed && !entry.has(Mark::Timed) {
            self.step(at, Step::Return);
            return self.make_available(at);
        }
        self.await_time(at, step);
        if missed {
            self.timers.push(0, at);
        }
    }

    fn fail(&mut self, now: u64, at: u64, sink: &mut impl FnMut(Effect)) {
        let Some(entry) = self.index.get_mut(at) else { return };
        let failures = entry.failures().saturating_add(1);
        entry.set_failures(failures);
        let expired = entry.is_expired(now);
        self.stats.redelivered += 1;
        if self.settings.redelivery.is_exhausted(failures) {
            return self.dead_letter(at, Cause::Attempts, sink);
        }
        if expired || self.is_outdated(at) {
            return self.put_back(now, at, sink);
        }
        let delay = self.settings.redelivery.delay_after(failures);
        let due = (delay > 0).then(|| now.saturating_add(delay));
        match due {
            Some(due) => {
                self.await_time(at, Step::Delay);
                self.timers.push(due, at);
            }
            None => self.put_back(now, at, sink),
        }
        if let Some(item) = self.item(at) {
            sink(Effect::Retry { item, due });
        }
    }

    /// Back at its place, unless it may not live any more.
    pub(super) fn put_back(&mut self, now: u64, at: u64, sink: &mut impl FnMut(Effect)) {
        let Some(entry) = self.index.get(at) else { return };
        if entry.is_expired(now) {
            return self.expire(at, sink);
        }
        if self.is_outdated(at) {
            return self.finish(at, Cause::Replaced, sink);
        }
        self.step(at, Step::Return);
        self.make_available(at);
    }

    /// Its time to live has ended.
    pub(super) fn expire(&mut self, at: u64, sink: &mut impl FnMut(Effect)) {
        if self.settings.expiry {
            self.divert_to(at, Target::Expiry, Cause::Expired, sink);
        } else {
            self.finish(at, Cause::Expired, sink);
        }
    }

    /// To the dead letter; without one it is dropped.
    fn dead_letter(&mut self, at: u64, cause: Cause, sink: &mut impl FnMut(Effect)) {
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

    /// Gone from here.
    #[inline]
    pub(super) fn finish(&mut self, at: u64, cause: Cause, sink: &mut impl FnMut(Effect)) {
        let Some(item) = self.take_out(at) else { return };
        self.stats.removed[cause as usize] += 1;
        sink(Effect::Remove { item, cause });
    }
}
