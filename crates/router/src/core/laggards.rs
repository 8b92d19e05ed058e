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
    /// Something waits for a consumer of a multicast address: in a while it is seen whether it still does.
    pub(super) fn watch(&mut self, at: Key) {
        let address = &mut self.addresses[at];
        if address.declared.kind == AddressKind::Multicast && !address.watched {
            address.watched = true;
            self.timers.insert((self.now_ms + STALL_MS, address.declared.key), at);
        }
    }

    /// Looks whether consumers of a multicast address have taken something lately.
    pub(super) fn look_for_laggards(&mut self, at: Key, links: &mut impl Links) {
        self.addresses[at].watched = false;
        let mut waits = false;
        for to in self.addresses[at].consumers.clone() {
            let Some(consumer) = self.consumers.get(to) else { continue };
            if consumer.laggard || !consumer.lags() {
                continue;
            }
            if consumer.took_ms + STALL_MS > self.now_ms {
                waits = true;
            } else {
                self.leave_behind(to, links);
            }
        }
        if waits {
            self.watch(at);
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
