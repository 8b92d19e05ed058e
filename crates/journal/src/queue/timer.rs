//! Time-driven changes: scheduled messages, next attempts, and expiry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Queue;
use super::effect::Effect;
use super::entry::{Entry, Mark, Seq, State, Step};

/// Blocks examined for expiry, and messages that become due, in one call.
const WORK_MAX: usize = 256;

/// Messages that become available at a time, by time and number.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Timers {
    pub(super) fn push(&mut self, due: u64, at: u64) {
        self.heap.push(Reverse((due, at)));
    }

    #[inline]
    fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }

    fn pop_due(&mut self, now: u64) -> Option<u64> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, at))| at)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<Reverse<(u64, u64)>>()
    }
}

impl Queue {
    /// When [`Queue::timeout`] must be called next; a time in the past means at once.
    #[must_use]
    #[inline]
    pub fn next_timeout(&self) -> Option<u64> {
        [self.timers.next(), self.index.next_expiry()].into_iter().flatten().min()
    }

    /// Advances the time to `now`: due messages become available, expired ones are removed. The
    /// work of one call is bounded: call again while [`Queue::next_timeout`] is in the past.
    pub fn timeout(&mut self, now: u64, sink: &mut impl FnMut(Effect)) {
        // Expired messages are removed first, to free space.
        for _ in 0..WORK_MAX / 64 {
            let Some(block) = self.index.take_expiring(now) else { break };
            self.expire_in(now, block, sink);
        }
        for _ in 0..WORK_MAX {
            let Some(at) = self.timers.pop_due(now) else { break };
            self.become_due(at, sink);
        }
        self.forget_stale_timers();
    }

    /// Makes a message unavailable until its timer fires.
    pub(super) fn await_time(&mut self, at: u64, step: Step) {
        self.step(at, step);
        self.make_unavailable(at);
        let Some(entry) = self.index.get_mut(at) else { return };
        let expires = entry.expires();
        entry.set(Mark::Timed, true);
        if expires != 0 {
            self.index.note_expiry(at, expires);
        }
    }

    /// Lets a message never expire. Returns when it would have, if it would.
    pub fn clear_expiry(&mut self, seq: Seq) -> Option<u64> {
        // The block keeps a time that is too early: it is examined once in vain.
        self.index.get_mut(seq.0).map(Entry::clear_expiry).filter(|expires| *expires != 0)
    }

    fn become_due(&mut self, at: u64, sink: &mut impl FnMut(Effect)) {
        let Some(entry) = self.index.get_mut(at) else { return };
        entry.set(Mark::Timed, false);
        entry.set(Mark::DueWhileLeaving, entry.state() == State::Leaving);
        match entry.state() {
            State::Delayed => {
                self.step(at, Step::Due);
                self.make_available(at);
            }
            State::Scheduled => {
                entry.set(Mark::NeverAvailable, false);
                let at = self.move_to_end(at);
                self.step(at, Step::Due);
                self.make_available(at);
                self.make_room(at, sink);
            }
            // Offered or leaving: it becomes available when it is committed, or when it stays.
            _ => {}
        }
    }

    fn expire_in(&mut self, now: u64, block: std::ops::Range<u64>, sink: &mut impl FnMut(Effect)) {
        let mut from = block.start;
        while let Some(at) = self.index.next_live(from).filter(|at| *at < block.end) {
            from = at + 1;
            let Some(entry) = self.index.get(at) else { continue };
            let expires = entry.expires();
            // A message held by a consumer is checked when it returns.
            let may_expire =
                matches!(entry.state(), State::Waiting | State::Scheduled | State::Delayed | State::Expired);
            if expires == 0 || !may_expire {
                continue;
            }
            if expires <= now {
                self.expire(at, sink);
            } else {
                self.index.note_expiry(at, expires);
            }
        }
    }

    /// Drops the timers of purged and moved messages once they are the majority.
    fn forget_stale_timers(&mut self) {
        if self.timers.heap.len() > 2 * self.len() + 1024 {
            let index = &self.index;
            let is_timed = |at: u64| index.get(at).is_some_and(|entry| entry.has(Mark::Timed));
            self.timers.heap.retain(|Reverse((_, at))| is_timed(*at));
        }
    }
}
