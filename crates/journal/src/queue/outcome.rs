//! The outcomes of deliveries.

use super::Queue;
use super::consumer_id::ConsumerId;
use super::effect::{Cause, ConsumerOutcome, Effect, Next, Target};
use super::entry::{Mark, Seq, State, Step};

impl Queue {
    /// Applies the outcome that a consumer reported for a message. `false`: no consumer holds it.
    ///
    /// Accepted: removed. Released: waits again at its position. Modified: a failed delivery if it
    /// is marked so. Rejected: diverted to the dead letter address; without one, or if the address
    /// is configured so, a failed delivery. Failed deliveries are repeated according to
    /// `settings.redelivery`, and then diverted to the dead letter address or dropped.
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
            ConsumerOutcome::Released => self.requeue(now, at, sink),
            ConsumerOutcome::Modified { failed, undeliverable_here } => {
                if let Some(name) = name.filter(|_| undeliverable_here) {
                    self.mark_undeliverable(at, name);
                }
                if failed {
                    self.fail(now, at, sink);
                } else {
                    self.requeue(now, at, sink);
                }
            }
            ConsumerOutcome::Rejected if self.settings.dead_letter && !self.settings.reject_is_failure => {
                self.divert_to(at, Target::DeadLetter, Cause::Rejected, sink);
            }
            ConsumerOutcome::Rejected => self.fail(now, at, sink),
        }
        true
    }

    /// Returns a dispatched message that never left the node: it waits again.
    pub fn undo_dispatch(&mut self, now: u64, seq: Seq, sink: &mut impl FnMut(Effect)) -> bool {
        self.settle(now, seq, ConsumerOutcome::Released, sink)
    }

    /// After a restart: marks a message as held by a link that may be resumed, until the next
    /// [`Queue::settle`] of it. `false`: it is not available.
    pub fn restore_hold(&mut self, seq: Seq) -> bool {
        let at = seq.0;
        if self.index.get(at).is_some_and(|entry| entry.state() == State::Scheduled) {
            // Only a message that was due can be held.
            self.step(at, Step::Due);
            if let Some(entry) = self.index.get_mut(at) {
                entry.set(Mark::NeverAvailable, false);
            }
        }
        let held = matches!(self.acquire(at, ConsumerId::DETACHED), Next::Message(_));
        self.stats.delivered -= u64::from(held);
        held
    }

    /// After a restart: makes a message whose delivery failed unavailable until `due`. `false`: it
    /// is not available.
    pub fn delay(&mut self, seq: Seq, due: u64) -> bool {
        let at = seq.0;
        self.delay_marked(at, due, false)
    }

    /// Makes a message whose body cannot be read unavailable until `due`, with the later messages
    /// of its group. `false`: it is not available.
    pub fn set_aside(&mut self, seq: Seq, due: u64) -> bool {
        self.delay_marked(seq.0, due, true)
    }

    fn delay_marked(&mut self, at: u64, due: u64, is_unreadable: bool) -> bool {
        let waits = self.index.get(at).is_some_and(|entry| entry.state() == State::Waiting);
        if !waits || !self.restore_hold(Seq(at)) {
            return false;
        }
        if let Some(entry) = self.index.get_mut(at).filter(|entry| is_unreadable && entry.grouped()) {
            entry.set(Mark::Unreadable, true);
            let group = entry.group;
            self.groups.count_unreadable(group, 1);
        }
        if let Some(entry) = self.index.get(at) {
            self.release_hold(ConsumerId::DETACHED, entry.group);
        }
        self.await_time(at, Step::Delay);
        self.timers.push(due, at);
        true
    }

    /// Assigns a held message to another consumer. `false`: no consumer holds it.
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

    /// Retires a message that a consumer settled within a transaction, until [`Queue::settle`] at
    /// the commit or [`Queue::unretire`] at the rollback. `false`: no consumer holds it, or a
    /// transaction has retired it already.
    pub fn retire(&mut self, seq: Seq) -> bool {
        self.step(seq.0, Step::Retire)
    }

    /// Rolls back a retirement: the consumer holds the message as before.
    pub fn unretire(&mut self, seq: Seq) -> bool {
        self.step(seq.0, Step::Unretire)
    }

    /// Restores the waiting state of a message before its diversion.
    pub(super) fn resume_waiting(&mut self, at: u64) {
        let Some(entry) = self.index.get_mut(at) else { return };
        let missed = entry.has(Mark::DueWhileLeaving);
        entry.set(Mark::DueWhileLeaving, false);
        let step = if entry.has(Mark::NeverAvailable) { Step::Schedule } else { Step::Delay };
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
            return self.requeue(now, at, sink);
        }
        let delay = self.settings.redelivery.delay_after(failures);
        let due = (delay > 0).then(|| now.saturating_add(delay));
        match due {
            Some(due) => {
                self.await_time(at, Step::Delay);
                self.timers.push(due, at);
            }
            None => self.requeue(now, at, sink),
        }
        if let Some(item) = self.item(at) {
            sink(Effect::Retry { item, due });
        }
    }

    /// Returns a message to its position, unless it is expired or outdated.
    pub(super) fn requeue(&mut self, now: u64, at: u64, sink: &mut impl FnMut(Effect)) {
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
}
