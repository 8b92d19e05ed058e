//! What the kinds of addresses know of a message that a transaction holds for them.

use enmasse_journal::stream::Identity;

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
