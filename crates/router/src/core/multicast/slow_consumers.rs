//! Slow consumers: multicast consumers that take nothing, for which producers do not wait.
//!
//! A message leaves its producer's window, and its bytes no longer count, when half of the
//! consumers have taken it: so fan-out loses nothing while consumers keep up. A consumer with
//! waiting copies that takes none for [`STALL_MS`] is a slow consumer: it is not counted until it
//! has caught up. Its copies still wait up to its own bounds; beyond them it misses copies.

use super::super::arena::Key;
use super::super::consumer::Outgoing;
use super::super::{Links, Router};

/// How long a multicast consumer may take nothing before producers continue without it.
pub const STALL_MS: u64 = 250;

impl Router {
    /// Schedules a check of the consumers of a multicast address, to which copies were dispatched
    /// or for which they wait.
    pub(in crate::core) fn watch(&mut self, at: Key) {
        if !std::mem::replace(&mut self.addresses.multicast_mut(at).watched, true) {
            let check_ms = self.now_ms + STALL_MS.min(self.direct.settle_timeout_ms);
            self.schedule.set_timer(check_ms, self.addresses[at].declared.key, at);
        }
    }

    /// Checks whether the consumers of a multicast address take and settle their copies.
    pub(in crate::core) fn check_slow_consumers(&mut self, at: Key, links: &mut impl Links) {
        self.addresses.multicast_mut(at).watched = false;
        let mut next_ms = None;
        for to in self.addresses[at].consumers.clone() {
            let Some(consumer) = self.consumers.get(to) else { continue };
            if !consumer.slow && consumer.has_backlog() {
                if consumer.dispatched_ms + STALL_MS > self.now_ms {
                    next_ms = earlier(next_ms, Some(self.now_ms + STALL_MS));
                } else {
                    self.mark_slow(to, links);
                }
            }
            next_ms = earlier(next_ms, self.check_overdue(to, links));
        }
        if let Some(next_ms) = next_ms {
            self.addresses.multicast_mut(at).watched = true;
            // Not later, because a consumer without waiting copies may get some before the next
            // check.
            let check_ms = next_ms.min(self.now_ms + STALL_MS);
            self.schedule.set_timer(check_ms, self.addresses[at].declared.key, at);
        }
    }

    fn mark_slow(&mut self, to: Key, links: &mut impl Links) {
        self.consumers[to].slow = true;
        let mut messages: Vec<Key> = self.consumers[to].backlog.iter().collect();
        for key in &messages {
            self.release_awaited_reader(*key);
        }
        if let Outgoing::Message { message, .. } = self.consumers[to].outgoing {
            messages.push(message);
        }
        for key in messages {
            self.update_back_pressure(key, links);
        }
    }

    /// Records a dispatch to a consumer, which ends its slow state once nothing waits for it.
    #[inline]
    pub(in crate::core) fn note_dispatch_time(&mut self, to: Key) {
        let now_ms = self.now_ms;
        let consumer = &mut self.consumers[to];
        consumer.dispatched_ms = now_ms;
        if consumer.slow && !consumer.has_backlog() {
            consumer.slow = false;
        }
    }
}

/// The earlier of two moments, if there is any.
fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}
