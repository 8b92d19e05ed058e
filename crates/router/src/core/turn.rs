//! Turns: the clock, timers, and changed addresses.

use super::arena::Key;
use super::treatment::Treatment;
use super::{Links, Router, ToLink};

impl Router {
    /// Ends a turn: runs pending work, and notifies producers of the deliveries that left their
    /// windows.
    pub fn turn(&mut self, links: &mut impl Links) {
        self.turns += 1;
        self.run_timed_work(links);
        self.dispatch_to_memory_starved(links);
        self.write_gathered_streams(links);
        self.release_open_fences(links);
        self.run_operations(links);
        self.process_dirty(links);
        self.received.report();
        for key in self.schedule.to_notify.drain(..) {
            let Some(producer) = self.producers.get_mut(key) else { continue };
            producer.to_notify = false;
            if let Ok(count @ 1..) = u32::try_from(producer.taken) {
                producer.taken = 0;
                links.send(ToLink::Taken { attachment: producer.attachment, count });
            }
        }
    }

    /// Sets the time of day, in milliseconds since 1970. The router's time never runs backwards.
    pub fn set_time(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        self.storage.set_time(self.now_ms);
    }

    /// The router's time, in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The next time at which [`Router::turn`] has work, in milliseconds since 1970.
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

    /// Runs expired timers, and work that an earlier turn postponed.
    pub(super) fn run_timed_work(&mut self, links: &mut impl Links) {
        while let Some(key) = self.schedule.take_expired(self.now_ms) {
            let Some(address) = self.addresses.get(key) else { continue };
            match address.treatment {
                Treatment::Multicast(_) => self.check_slow_consumers(key, links),
                Treatment::Queue(_) => self.queue_timeout(key, links),
                Treatment::Stream(_) => self.stream_timeout(key, links),
                Treatment::Anycast(_) | Treatment::Topic(_) | Treatment::Closed => {
                    debug_assert!(false, "only multicast, queues and streams have timers");
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

    /// Marks a changed queue as dirty: it is processed once before the turn ends.
    #[inline]
    pub(super) fn mark_dirty(&mut self, key: Key) {
        if let Some(queue) = self.addresses.find_queue_mut(key)
            && !std::mem::replace(&mut queue.dirty, true)
        {
            self.schedule.dirty.push(key);
        }
    }

    /// Processes the dirty queues. Call it before the turn ends.
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

    /// Processes a stored address after any change.
    pub(super) fn process(&mut self, key: Key, links: &mut impl Links) {
        match self.addresses[key].treatment {
            Treatment::Queue(_) => self.process_queue(key, links),
            Treatment::Stream(_) => self.process_stream(key, links),
            // A topic stores nothing itself, and a deleted address stores nothing any more.
            Treatment::Anycast(_) | Treatment::Multicast(_) | Treatment::Topic(_) | Treatment::Closed => {}
        }
    }

    /// Lists an address that waits for bodies from disk.
    pub(super) fn await_bodies(&mut self, key: Key) {
        let awaits_bodies = match &mut self.addresses[key].treatment {
            Treatment::Queue(queue) => &mut queue.awaits_bodies,
            Treatment::Stream(stream) => &mut stream.awaits_bodies,
            Treatment::Anycast(_) | Treatment::Multicast(_) | Treatment::Topic(_) | Treatment::Closed => {
                return debug_assert!(false, "only stored addresses have bodies");
            }
        };
        if !std::mem::replace(awaits_bodies, true) {
            self.schedule.awaiting.push(key);
        }
    }
}
