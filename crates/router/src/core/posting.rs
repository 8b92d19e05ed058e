//! What the kinds of addresses know of a message that they have admitted, or that a transaction
//! holds for them.

use enmasse_journal::queue::{Seq, Stored as Admitted};
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
