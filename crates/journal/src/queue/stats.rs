//! Statistics of queues.

use super::effect::Cause;

/// The statistics of a queue. Its counters never decrease while the queue exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// messages available now
    pub ready: u64,
    /// messages that wait for their delivery time or their next attempt
    pub scheduled: u64,
    /// messages that consumers hold
    pub acquired: u64,
    /// messages being moved to another address
    pub leaving: u64,
    /// messages offered and not committed
    pub uncommitted: u64,
    /// bytes of all these messages
    pub bytes: u64,
    /// when the oldest available message was enqueued, milliseconds since 1970
    pub oldest: Option<u64>,
    /// message groups that have messages
    pub groups: u64,
    /// consumers attached
    pub consumers: u32,
    /// producers attached
    pub producers: u32,
    /// messages stored
    pub enqueued: u64,
    /// dispatched to consumers, counted each time
    pub delivered: u64,
    /// failed deliveries
    pub redelivered: u64,
    /// accepted but not stored, because they are duplicates
    pub duplicates: u64,
    /// refused
    pub refused: u64,
    /// removed, by [`Cause`]
    pub removed: [u64; Cause::COUNT],
    /// sent to another address, by [`Cause`]
    pub diverted: [u64; Cause::COUNT],
}

impl QueueStats {
    /// Adds the statistics of another queue.
    pub fn join(&mut self, other: &Self) {
        self.ready += other.ready;
        self.scheduled += other.scheduled;
        self.acquired += other.acquired;
        self.leaving += other.leaving;
        self.uncommitted += other.uncommitted;
        self.bytes += other.bytes;
        self.oldest = [self.oldest, other.oldest].into_iter().flatten().min();
        self.groups += other.groups;
        self.consumers += other.consumers;
        self.producers += other.producers;
        self.enqueued += other.enqueued;
        self.delivered += other.delivered;
        self.redelivered += other.redelivered;
        self.duplicates += other.duplicates;
        self.refused += other.refused;
        for (sum, more) in self.removed.iter_mut().zip(other.removed) {
            *sum += more;
        }
        for (sum, more) in self.diverted.iter_mut().zip(other.diverted) {
            *sum += more;
        }
    }

    /// The counters of a deleted queue, without its gauges.
    #[must_use]
    pub fn past(&self) -> Self {
        Self {
            ready: 0,
            scheduled: 0,
            acquired: 0,
            leaving: 0,
            uncommitted: 0,
            bytes: 0,
            oldest: None,
            groups: 0,
            consumers: 0,
            producers: 0,
            ..*self
        }
    }
}
