//! Names of what lives on a shard and is known on others.

use enmasse_journal::log::JointId;

/// The identity of an attachment. The shard that owns the link assigns indices densely and
/// increments the generation for each occupant of a slot, so that commands for an earlier occupant
/// are detected and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttachmentId {
    /// the shard that owns the link
    pub shard: u16,
    /// generation of the slot: counts its occupants, wrapping
    pub generation: u16,
    /// slot among the attachments of that shard
    pub index: u32,
}

/// The identity of a transaction. The shard of its connection never reuses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId {
    /// the shard of the connection that declared it
    pub shard: u16,
    /// key of that connection there
    pub conn: u32,
    /// from 1 on
    pub number: u64,
}

impl TransactionId {
    /// No transaction.
    pub const NONE: Self = Self { shard: u16::MAX, conn: u32::MAX, number: 0 };
}

/// A joint group, as a command to one of its homes names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joint {
    /// the worker of the number
    pub worker: u16,
    /// its number
    pub number: u64,
    /// the number of its parts
    pub parts: u16,
}

impl Joint {
    /// Its identity in the log.
    pub(in crate::core) const fn id(&self) -> JointId {
        JointId { worker: self.worker, number: self.number }
    }
}

impl Joint {
    /// The group of a transaction with parts at several homes.
    pub(in crate::core) const fn of_transaction(id: TransactionId, parts: u16) -> Self {
        Self { worker: id.shard, number: id.number << 1, parts }
    }
}

/// The side of a client of MQTT that sends a message with QoS 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// the client
    FromClient,
    /// the node
    FromNode,
}

/// The packet identifier of a message with QoS 2, in the session of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketFlow {
    /// who sends the message
    pub flow: Flow,
    /// the packet identifier
    pub id: u16,
}

/// Names a question of a connection to the home of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionId {
    /// the shard of the connection
    pub shard: u16,
    /// key of the connection there
    pub conn: u32,
    /// never reused by that shard
    pub number: u64,
}
