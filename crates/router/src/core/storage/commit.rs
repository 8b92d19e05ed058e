//! Messages on their way to the log, and what follows.

use enmasse_journal::queue::{Marker, Seq, Stored as Admitted};
use smallvec::SmallVec;

use super::super::arena::Key;
use super::super::message::SettlementTarget;
use super::super::received::Account;

/// A message in flight to the log, for one queue.
#[derive(Debug)]
pub(in crate::core) struct Commit {
    /// its number in the batch
    pub(super) number: usize,
    /// its queue
    pub(in crate::core) at: Key,
    pub(in crate::core) seq: Seq,
    /// its completion; for a message of several queues, only one commit has it
    pub(in crate::core) completion: Completion,
    /// the tag of its delivery, which is written with it
    pub(super) tag: Option<Box<Marker>>,
}

impl Commit {
    pub(in crate::core) fn new(at: Key, seq: Seq, completion: Completion) -> Self {
        Self { number: 0, at, seq, completion, tag: None }
    }

    pub(in crate::core) fn with_tag(self, tag: Option<Box<Marker>>) -> Self {
        Self { tag, ..self }
    }
}

/// The queues that a message is logged for: their numbers, their records and their commits.
pub(in crate::core) type Queues<'a> = SmallVec<[(u32, &'a Admitted, Commit); 2]>;

/// What follows once a message is on disk or refused.
#[derive(Clone, Debug)]
pub(in crate::core) struct Completion {
    /// the producer whose window it occupies
    pub(in crate::core) producer: Key,
    pub(in crate::core) settlement: SettlementTarget,
    /// the address for which the outcome counts
    pub(in crate::core) address: Key,
    /// the account that its bytes are counted for
    pub(in crate::core) account: Account,
    /// payload charged to the producer, bytes
    pub(in crate::core) bytes: usize,
    /// the queue that it is moved from, if any
    pub(in crate::core) from: Option<(Key, Seq)>,
}

impl Completion {
    pub(in crate::core) const NONE: Self = Self {
        producer: Key::NONE,
        settlement: SettlementTarget::Nothing,
        address: Key::NONE,
        account: Account::NONE,
        bytes: 0,
        from: None,
    };
}
