//! Turns: the time, what has become due, and the addresses that have changed.

use super::arena::Key;
use super::treatment::Treatment;
use super::{Links, Router};

impl Router {
    /// The end of a turn: producers are notified how many of their deliveries no longer wait.
    pub fn turn(&mut self, links: &mut impl Links) {
        self.turns += 1;
        self.turn_timed(links);
        self.dispatch_to_starving(links);
        self.write_gathered_streams(links);
        self.release_open_fences(links);
        self.turn_operations(links);
        self.process_dirty(links);
        self.received.report();
        for key in self.schedule.to_notify.drain(..) {
            let Some(producer) = self.producers.get_mut(key) else { continue };
            producer.to_notify = false;
            if let Ok(count @ 1..) = u32::try_from(producer.taken) {
                producer.taken = 0;
                links.taken(producer.attachment, count);
            }
        }
    }

    /// The time of day, in milliseconds since 1970; what runs backwards is skipped.
    pub fn set_time(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        self.storage.set_time(self.now_ms);
    }

    /// When [`Router::turn`] has time-driven work, in milliseconds since 1970.
    #[must_use]
    pub fn next_timeout(&self) -> Option<u64> {
        let starving = !self.schedule.starving.is_empty() && !self.storage.bodies.is_full();
        if !self.schedule.later.is_empty() || self.operations.is_due(self.storage.journal.is_compacting()) || starving {
            return Some(self.now_ms);
        }
        let timer = self.schedule.next_timer();
        let others =
            [self.transactions.next_check(), self.storage.journal.next_timeout(), self.storage.bodies.next_retry()];
        others.into_iter().flatten().chain(timer).min()
    }

    /// Runs time-driven work, and work of stored addresses that an earlier turn postponed.
    pub(super) fn turn_timed(&mut self, links: &mut impl Links) {
        while let Some(key) = self.schedule.take_expired(self.now_ms) {
            let Some(address) = self.addresses.get(key) else { continue };
            match address.treatment {
                Treatment::Multicast(_) => self.check_slow_consumers(key, links),
                Treatment::Queue(_) => self.queue_timeout(key, links),
                Treatment::Stream(_) => self.stream_timeout(key, links),
                Treatment::Anycast(_) | Treatment::Topic(_) | Treatment::Closed => {
                    debug_assert!(false, "it has no timer");
                }
            }
        }
        self.end_idle_transactions(links);
        self.storage.journal.offer_again(self.now_ms);
        self.storage.bodies.retry_reads();
        for key in std::mem::take(&mut self.schedule.later) {
            if self.addresses.get(key).is_some() {
                self.process(key, links);
            }
        }
    }

    /// A stored address has changed: it is processed before the turn ends, once for all changes.
    #[inline]
    pub(super) fn mark_dirty(&mut self, key: Key) {
        if let Some(queue) = self.addresses.find_queue_mut(key)
            && !std::mem::replace(&mut queue.dirty, true)
        {
            self.schedule.dirty.push(key);
        }
    }

    /// Processes the stored addresses that have changed; called before the turn ends.
    pub fn process_dirty(&mut self, links: &mut impl Links) {
        while !self.schedule.dirty.is_empty() {
            for key in std::mem::take(&mut self.schedule.dirty) {
                let queue = self.addresses.find_queue_mut(key);
                if let Some(queue) = queue {
                    queue.dirty = false;
                    self.process(key, links);
                }
            }
        }
    }

    /// After any change of an address that stores messages.
    pub(super) fn process(&mut self, key: Key, links: &mut impl Links) {
        match self.addresses[key].treatment {
            Treatment::Queue(_) => self.process_queue(key, links),
            Treatment::Stream(_) => self.process_stream(key, links),
            // A topic stores nothing itself, and a deleted address nothing any more.
            Treatment::Anycast(_) | Treatment::Multicast(_) | Treatment::Topic(_) | Treatment::Closed => {}
        }
    }

    /// The address waits for bodies from the disk.
    pub(super) fn await_bodies(&mut self, key: Key) {
        let awaits = match &mut self.addresses[key].treatment {
            Treatment::Queue(queue) => &mut queue.awaits,
            Treatment::Stream(stream) => &mut stream.awaits,
            Treatment::Anycast(_) | Treatment::Multicast(_) | Treatment::Topic(_) | Treatment::Closed => {
                return debug_assert!(false, "it has no bodies");
            }
        };
        if !std::mem::replace(awaits, true) {
            self.schedule.awaiting.push(key);
        }
    }
}
