//! Joint groups: one group of records from several workers.
//!
//! What passes between addresses with different homes, and a transaction at several homes, is on
//! disk as a whole or not at all. Each home contributes its records as a batch with the same
//! [`JointId`], its *part*. The owner of the log gathers the parts, writes them as one group, and
//! answers each worker with its part. A part does not wait for other batches of its lane, nor these
//! for it: a home waits for one of its joint groups only where it needs the order. So two groups
//! whose parts arrive in different orders never wait for each other.
//!
//! A home that cannot contribute declines. Then no part is written, and all are refused with its
//! reason.
//!
//! A part may belong to several groups: what a home can write only together, such as a block of a
//! stream, may have messages that others belong to. These groups are then written as one.

/// Identifies a joint group among those of a node since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JointId {
    /// The worker that has chosen the number.
    pub worker: u16,
    /// Its number, never reused.
    pub number: u64,
}

/// The part of a worker in a joint group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JointPart {
    /// The group.
    pub id: JointId,
    /// The number of its parts, the same in all of them.
    pub parts: u16,
    /// Why the worker declines; its batch is empty then.
    pub declined: Option<String>,
    /// Further groups that this part belongs to, with the numbers of their parts. No other part of
    /// these joins groups.
    pub joins: Vec<(JointId, u16)>,
}
