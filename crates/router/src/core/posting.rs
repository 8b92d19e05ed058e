//! What the kinds of addresses know of a message that they have admitted, or that a transaction
//! holds for them.

use enmasse_journal::queue::{Head, Seq, Stored as Admitted};
use enmasse_journal::stream::Identity;
use smallvec::SmallVec;

use super::arena::Key;

/// The partition of a message in a stream, and its identity there.
pub(super) type PartitionIdentity = (u32, Identity);

/// What a message does to the retained message of its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retention {
    /// it takes its place
    Replace,
    /// it has no content
    Remove,
}

/// How long the message without content is kept that removes another, in milliseconds.
const REMOVAL_TTL_MS: u64 = 1000;

/// What a message does to the retained message of its topic, with their queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retaining {
    pub(super) queue: Key,
    retention: Retention,
}

impl Retaining {
    pub(super) const fn new(queue: Key, retention: Retention) -> Self {
        Self { queue, retention }
    }

    /// Whether it removes the retained message.
    pub(super) fn removes(self) -> bool {
        self.retention == Retention::Remove
    }

    /// Lets a message that removes another expire there.
    pub(super) fn limit_time(self, head: &mut Head) {
        if self.removes() {
            (head.ttl_ms, head.absolute_expiry) = (Some(REMOVAL_TTL_MS), None);
        }
    }
}

/// How the kind of its address treats a posting.
#[derive(Clone, Copy, Debug)]
pub(super) enum PostingTreatment {
    Queue,
    Topic(Option<Retention>),
    Stream(PartitionIdentity),
}

/// A message that queues have admitted and not stored yet.
#[derive(Debug, Default)]
pub(super) struct Posted {
    pub(super) disk: SmallVec<[(Key, u32, Admitted); 2]>,
    pub(super) memory: SmallVec<[(Key, Seq); 2]>,
    /// queues whose consumers have it already
    pub(super) passed: usize,
    /// number of slow subscriptions that missed it, already counted
    pub(super) missed: usize,
}

impl Posted {
    pub(super) fn is_empty(&self) -> bool {
        self.disk.is_empty() && self.memory.is_empty()
    }

    /// Whether no subscription matched it.
    pub(super) fn is_unwanted(&self) -> bool {
        self.is_empty() && self.missed == 0 && self.passed == 0
    }
}
