//! Messages on their way to the log, and what follows.

use enmasse_journal::log::{RecordLocation, Removal};
use enmasse_journal::queue::{Marker, Seq, Stored as Admitted};
use smallvec::SmallVec;

use super::super::arena::Key;
use super::super::ids::{Flow, PacketFlow};
use super::super::message::SettlementTarget;
use super::super::received::Account;
use super::state::{RECEIVED_FROM_CLIENT, RECEIVED_FROM_NODE};

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
    /// what is written with it, in one group
    pub(super) note: Option<Box<CommitNote>>,
}

/// What is written with a message.
#[derive(Debug)]
pub(in crate::core) enum CommitNote {
    /// the tag of its delivery
    Tag(Marker),
    /// the packet identifier of its publication
    PacketId(KeptPacketId),
}

/// A packet identifier of MQTT that is on disk with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) struct KeptPacketId {
    /// the queue with the record of its session
    pub(in crate::core) at: Key,
    /// the number of that queue in the log
    pub(in crate::core) log: u32,
    pub(in crate::core) packet: PacketFlow,
}

impl KeptPacketId {
    /// The value of its state key, which only has to exist.
    pub(in crate::core) const VALUE: &[u8] = &[1];

    /// Its state key.
    pub(in crate::core) fn key(&self) -> [u8; 3] {
        let kind = match self.packet.flow {
            Flow::FromClient => RECEIVED_FROM_CLIENT,
            Flow::FromNode => RECEIVED_FROM_NODE,
        };
        let [low, high] = self.packet.id.to_le_bytes();
        [kind, low, high]
    }
}

impl Commit {
    pub(in crate::core) fn new(at: Key, seq: Seq, completion: Completion) -> Self {
        Self { number: 0, at, seq, completion, note: None }
    }

    pub(in crate::core) fn with_note(self, note: Option<Box<CommitNote>>) -> Self {
        Self { note, ..self }
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

/// A message that is removed in one joint group with the packet identifier of its delivery.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Received {
    pub(in crate::core) at: Key,
    pub(in crate::core) log: u32,
    pub(in crate::core) number: u64,
    pub(in crate::core) place: RecordLocation,
}

impl Received {
    /// The record that removes it.
    pub(in crate::core) fn removal(&self) -> Removal {
        let mut removal = Removal::new(self.log);
        removal.add(self.number, self.place);
        removal
    }
}
