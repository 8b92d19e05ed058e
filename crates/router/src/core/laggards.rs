//! Multicast consumers that take nothing: nobody waits for them.
//!
//! A producer's window moves on, and its bytes count as gone, when half of the consumers have taken a message: that is
//! what makes fan-out lose nothing while consumers keep up. A consumer that has something waiting and takes none of it
//! for [`STALL_MS`] is a laggard: it does not count until it has caught up. Its copies go on waiting up to its own
//! bounds, and beyond them it misses copies.

use super::address::Outgoing;
use super::arena::Key;
use super::{AddressKind, Links, Router};

/// How long a multicast consumer may take nothing of what waits for it before producers go on without it.
pub const STALL_MS: u64 = 250;

impl Router {
    /// Consumers of a multicast address were handed something, or have something waiting: in a while it is seen
    /// whether they still do.
    pub(super) fn watch(&mut self, at: Key) {
        let address = &mut self.addresses[at];
        if address.declared.kind == AddressKind::Multicast && !address.watched {
            address.watched = true;
            let look_ms = self.now_ms + STALL_MS.min(self.settle_timeout_ms);
            self.timers.insert((look_ms, address.declared.key), at);
        }
    }

    /// Looks whether consumers of a multicast address have taken and settled something lately.
    pub(super) fn look_for_laggards(&mut self, at: Key, links: &mut impl Links) {
        self.addresses[at].watched = false;
        let mut next_ms = None;
        for to in self.addresses[at].consumers.clone() {
            let Some(consumer) = self.consumers.get(to) else { continue };
            if !consumer.laggard && consumer.lags() {
                if consumer.took_ms + STALL_MS > self.now_ms {
                    next_ms = earlier(next_ms, Some(self.now_ms + STALL_MS));
                } else {
                    self.leave_behind(to, links);
                }
            }
            next_ms = earlier(next_ms, self.look_for_overdue(to, links));
        }
        if let Some(next_ms) = next_ms {
            let address = &mut self.addresses[at];
            address.watched = true;
            // No later than this, for one that has nothing waiting yet.
            self.timers.insert((next_ms.min(self.now_ms + STALL_MS), address.declared.key), at);
        }
    }

    fn leave_behind(&mut self, to: Key, links: &mut impl Links) {
        self.consumers[to].laggard = true;
        let mut messages: Vec<Key> = self.consumers[to].backlog.iter().collect();
        for key in &messages {
            self.take_one(*key);
        }
        if let Outgoing::Message { message, .. } = self.consumers[to].outgoing {
            messages.push(message);
        }
        for key in messages {
            self.weigh(key, links);
        }
    }

    /// A consumer has been handed something, or part of it.
    #[inline]
    pub(super) fn took(&mut self, to: Key) {
        let now_ms = self.now_ms;
        let consumer = &mut self.consumers[to];
        consumer.took_ms = now_ms;
        if consumer.laggard && !consumer.lags() {
            consumer.laggard = false;
        }
    }
}

/// The earlier of two moments, if there is any.
fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}
