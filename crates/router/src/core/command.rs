//! Commands: the only seam between the shard of a link and the home of an address.
//!
//! Each command is declared here once and handled once, whether both are on one shard or not: a
//! [`ToHome`] by `Shard::receive_home`, a [`ToLink`] by `Fabric::receive_link`. On one shard that is
//! a call with a command that borrows the payload; between shards the command is encoded into the
//! batch of the turn ([`wire`](super::wire)) and decoded there. A command holds no shared mutable
//! state.
//!
//! Credit travels as a limit (deliveries ever dispatched plus credit left): deliveries in flight do
//! not change it.

use std::borrow::Cow;
use std::sync::Arc;

use enmasse_amqp::types::{Error, Fields, Outcome};

use super::delivery::{Arrival, Delivery};
use super::describe::AddressDescription;
use super::ending::Ending;
use super::handover::{Handover, HandoverReason};
use super::ids::{AttachmentId, Flow, Joint, PacketFlow, QuestionId, TransactionId};
use super::replacement::Replacement;
use super::role::{
    AttachmentRole, Consuming, Guarantee, NoLocal, Origin, Resume, Start, Subscribing, SubscriptionName, Unsettled,
};
use super::wire::{Decoder, Encoder, Malformed, Wire, commands, wire_structs, wire_units};
use super::{AddressKey, AddressKind, Declared};

/// How a producer is held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// The producer is not held back.
    #[default]
    No,
    /// More than [`HOLD_BYTES`](super::HOLD_BYTES) of its payload wait: its session accepts no
    /// transfers. Its connection is still read, because the same connection may also receive.
    Session,
    /// More than [`CROWDED_HOLD_BYTES`](super::CROWDED_HOLD_BYTES) of its payload wait at a direct
    /// address of a space that uses half of its share of waiting bytes: its session accepts no
    /// transfers. Its connection is not read either, unless it also receives.
    SendOnly,
    /// Its address space has more bytes in flight to the journal than the
    /// [`ReceiveBudget`](super::ReceiveBudget) allows, some of them from this producer: its
    /// connection is not read until the journal has stored these.
    Connection,
}

commands! {
    /// To the home of an address, or of a part of a transaction.
    #[derive(Debug)]
    pub(crate) enum ToHome<'a> {
        /// As of [`Router::attach`](super::Router::attach).
        Attach { attachment: AttachmentId, address: Declared, role: AttachmentRole },
        /// The connection and container of a producer.
        Origin { attachment: AttachmentId, origin: Origin },
        /// As `Attach`, of a link that requests a durable subscription by one of these names.
        Recall { attachment: AttachmentId, names: Vec<SubscriptionName> },
        /// A link ends; `closed`: its client has closed it, so it is not resumed.
        Detach { attachment: AttachmentId, ending: Ending, closed: bool },
        /// Deliveries of one link that ends, as of
        /// [`Router::relinquish`](super::Router::relinquish).
        Relinquish { tokens: Cow<'a, [u64]>, ending: Ending, oldest: bool },
        Credit { attachment: AttachmentId, limit: u32, drain: bool },
        Deliver { attachment: AttachmentId, arrival: Arrival<'a> },
        /// As of [`Router::deliver_once`](super::Router::deliver_once).
        DeliverOnce { attachment: AttachmentId, arrival: Arrival<'a>, record: AttachmentId, packet: PacketFlow },
        /// As of [`Router::deliver_with`](super::Router::deliver_with).
        DeliverWith { attachment: AttachmentId, arrival: Arrival<'a>, joint: Joint, space: u32 },
        /// As of [`Router::keep_with`](super::Router::keep_with).
        KeepWith { record: AttachmentId, packet: PacketFlow, joint: Joint, space: u32 },
        /// As of [`Router::remove_with`](super::Router::remove_with).
        RemoveWith { token: u64, joint: Joint, space: u32 },
        /// As of [`Router::keep_packet_id`](super::Router::keep_packet_id).
        KeepPacketId { record: AttachmentId, packet: PacketFlow, token: Option<u64> },
        /// As of [`Router::drop_packet_id`](super::Router::drop_packet_id).
        DropPacketId { record: AttachmentId, packet: PacketFlow },
        Outcome { token: u64, outcome: Cow<'a, Outcome> },
        /// The same outcome of several deliveries.
        Outcomes { tokens: Cow<'a, [u64]>, outcome: Cow<'a, Outcome> },
        /// The outcome of a delivery that its consumer has not settled, on a link that can be
        /// resumed.
        OutcomeUnsettled { attachment: AttachmentId, token: u64, outcome: Cow<'a, Outcome> },
        /// A delivery found no room on its link.
        Refused { attachment: AttachmentId, delivery: Delivery<'a> },
        /// The link has the first part of a long delivery.
        Begun { attachment: AttachmentId },
        /// As of [`Router::set_guarantee`](super::Router::set_guarantee).
        Guarantee { attachment: AttachmentId, guarantee: Guarantee },
        /// Dispatch no more deliveries to the link until it states its credit.
        Stall { attachment: AttachmentId },
        /// The address is deleted: ends links whose `Attach` arrived after its home deleted it.
        DeleteAddress { address: AddressKey },
        Describe { question: QuestionId, address: AddressKey },
        /// The tag of the next delivery of a link that can be resumed.
        NameDelivery { attachment: AttachmentId, delivery_id: u32, tag: &'a [u8] },
        /// Its sender has settled a delivery.
        ForgetTag { attachment: AttachmentId, tag: &'a [u8] },
        Declare { transaction: TransactionId },
        Post { attachment: AttachmentId, transaction: TransactionId, arrival: Arrival<'a> },
        RetireDelivery { transaction: TransactionId, token: u64, outcome: Arc<Outcome>, settled: bool },
        /// The shard of a link refused a posting or an outcome of the transaction.
        MarkRollbackOnly { transaction: TransactionId, cause: Cow<'a, Error> },
        /// Another home has a part of the transaction.
        NoteTransactionUse { transaction: TransactionId },
        /// Admit this home's part of a transaction that also has parts at other homes.
        Prepare { transaction: TransactionId },
        /// A message of an address with another home.
        HandOver { handover: Handover<'a> },
        /// As of [`Router::replace_subscription`](super::Router::replace_subscription).
        Replace { replacement: Replacement },
        /// `parts`: the number of homes that write a part of it, if there are several.
        Discharge { transaction: TransactionId, fail: bool, parts: u16 },
    }
}

commands! {
    /// To the shard of a link, from the home of its address.
    #[derive(Debug)]
    #[allow(missing_docs, reason = "the fields have the names of their types")]
    pub enum ToLink<'a> {
        /// Answers [`Router::attach`](super::Router::attach) once, before any other command, unless
        /// the attachment is detached first. `Ok`: the link is attached, with these properties.
        /// `Err`: it was refused and is detached.
        Attached { attachment: AttachmentId, answer: Result<Fields, Error> },
        /// Comes before `Attached` for a link that named a durable subscription and no address:
        /// the stored description of the subscription ([`Subscribing::description`]).
        Recalled { attachment: AttachmentId, description: &'a [u8] },
        /// Comes before `Attached` for a link that has recalled the record of a session of MQTT: the
        /// packet identifiers of messages with QoS 2 that the client has sent and not released, and
        /// of those that it has received and not completed.
        PacketIds { attachment: AttachmentId, from_client: Vec<u16>, from_node: Vec<u16> },
        /// Answers [`Router::keep_packet_id`](super::Router::keep_packet_id), or (`kept` is false)
        /// [`Router::drop_packet_id`](super::Router::drop_packet_id): it is on disk.
        PacketId { record: AttachmentId, packet: PacketFlow, kept: bool },
        /// Comes before `Attached` for a link that can be resumed: its deliveries that are
        /// unsettled at this end.
        Unsettled { attachment: AttachmentId, unsettled: Unsettled },
        /// Names the next delivery to a consumer with a resumable link: `number` is its permanent
        /// tag. `again`: the link received it in an earlier attachment.
        Name { attachment: AttachmentId, number: u64, again: bool },
        /// As of [`Links::transfer`](super::Links::transfer), for a link of another shard.
        Transfer { attachment: AttachmentId, delivery: Delivery<'a> },
        /// Answers [`Router::outcome_unsettled`](super::Router::outcome_unsettled): the outcome is
        /// durable.
        Settled { attachment: AttachmentId, token: u64 },
        /// The outcome of an unsettled delivery: exactly one, unless its producer detached or
        /// aborted it. It may precede the last part of the delivery; later parts are discarded.
        Settle { attachment: AttachmentId, delivery_id: u32, outcome: Cow<'a, Outcome> },
        /// The outcome of an unsettled posting, as a transactional state (4.4.1): accepted if it is
        /// held until the discharge; otherwise it was refused, and its transaction is rollback-only.
        /// Replaces `Settle`, and is the last command for the delivery.
        Provisional {
            attachment: AttachmentId,
            delivery_id: u32,
            transaction: TransactionId,
            outcome: Cow<'a, Outcome>,
        },
        /// Answers [`Router::prepare`](super::Router::prepare) once. `Ok`: whether the part must be
        /// written to the log.
        Prepared { transaction: TransactionId, result: Result<bool, Error> },
        /// Answers [`Router::discharge`](super::Router::discharge) once. `Err`: why the
        /// transaction was rolled back instead of committed (4.5.8).
        Discharged { transaction: TransactionId, result: Result<(), Error> },
        /// `count` more deliveries of this producer left its window. Comes once a turn.
        Taken { attachment: AttachmentId, count: u32 },
        /// Whether the producer may send: the address has a consumer, or room. Comes at attach and
        /// at every change, never for anonymous producers.
        Open { attachment: AttachmentId, open: bool },
        /// The number of further deliveries of this producer that fit into the address. Comes for
        /// named producers of temporary queues, at attach before `Open` and at every change. Other
        /// producers may send what their windows allow.
        Room { attachment: AttachmentId, room: u32 },
        /// Sets how this producer is held back.
        Hold { attachment: AttachmentId, hold: Hold },
        /// A drain requested in [`Router::credit`](super::Router::credit) is complete: no message
        /// waits for the remaining credit.
        Drained { attachment: AttachmentId },
        /// A consumer of another shard returned a delivery, and receives nothing until it grants
        /// credit. Comes in order with the transfers: all earlier deliveries have arrived, so it may
        /// grant credit now.
        Halted { attachment: AttachmentId },
        /// The last command for an attachment that was detached.
        Left { attachment: AttachmentId },
        /// Close the link: its address is deleted. The attachment is already detached, and this is
        /// the last command for it, as is a refusal in `Attached`.
        Close { attachment: AttachmentId, error: Cow<'a, Error> },
        /// Answers `ToHome::Describe`; `None`: the address is not open there.
        Described { question: QuestionId, found: Option<AddressDescription> },
    }
}

impl ToLink<'_> {
    /// The shard that receives it.
    #[inline(always)]
    pub(crate) fn shard(&self) -> u16 {
        match self {
            Self::Attached { attachment, .. }
            | Self::Recalled { attachment, .. }
            | Self::PacketIds { attachment, .. }
            | Self::PacketId { record: attachment, .. }
            | Self::Unsettled { attachment, .. }
            | Self::Name { attachment, .. }
            | Self::Transfer { attachment, .. }
            | Self::Settled { attachment, .. }
            | Self::Settle { attachment, .. }
            | Self::Provisional { attachment, .. }
            | Self::Taken { attachment, .. }
            | Self::Open { attachment, .. }
            | Self::Room { attachment, .. }
            | Self::Hold { attachment, .. }
            | Self::Drained { attachment }
            | Self::Halted { attachment }
            | Self::Left { attachment }
            | Self::Close { attachment, .. } => attachment.shard,
            Self::Prepared { transaction, .. } | Self::Discharged { transaction, .. } => transaction.shard,
            Self::Described { question, .. } => question.shard,
        }
    }
}

wire_structs! {
    AttachmentId { shard, generation, index }
    AddressKey { 0 }
    Declared { key, kind, link_capacity, space }
    Origin { connection, container }
    SubscriptionName { space, container, name, durable }
    Subscribing { name, shared, selector, no_local, wanted, allowed, description }
    Resume { link, keep_s, unsettled, incomplete }
    TransactionId { shard, conn, number }
    Joint { worker, number, parts }
    QuestionId { shard, conn, number }
    PacketFlow { flow, id }
    AddressDescription { depth, consumers, producers, partitions }
    Consuming {
        selector, browses, priority, exclusive, no_local, subscribing, name, start, partition, settled, guarantee,
        retained, resume
    }
}

wire_units! {
    AddressKind { Anycast, Multicast, Queue, Topic, Stream }
    Ending { ByClient, ByNode, Lost, NotResumed, RolledBack }
    Flow { FromClient, FromNode }
    Guarantee { Outcome, AtMostOnce, Kept }
    Hold { No, Session, SendOnly, Connection }
}

impl<'a> Wire<'a> for Handover<'a> {
    fn encode(&self, to: &mut Encoder) {
        let (kind, expires, due) = match self.reason {
            HandoverReason::Diverted => (0_u8, None, None),
            HandoverReason::Operation { expires, due } => (1, expires, due),
            HandoverReason::Retained { removes: false } => (2, None, None),
            HandoverReason::Retained { removes: true } => (3, None, None),
        };
        self.joint.encode(to);
        self.space.encode(to);
        self.to.encode(to);
        kind.encode(to);
        expires.encode(to);
        due.encode(to);
        self.message.encode(to);
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        let (joint, space, key) = (Wire::decode(from)?, Wire::decode(from)?, Wire::decode(from)?);
        let reason = match (u8::decode(from)?, Wire::decode(from)?, Wire::decode(from)?) {
            (0, None, None) => HandoverReason::Diverted,
            (1, expires, due) => HandoverReason::Operation { expires, due },
            (2, None, None) => HandoverReason::Retained { removes: false },
            (3, None, None) => HandoverReason::Retained { removes: true },
            _ => return Err(Malformed("a message is handed over for no known reason")),
        };
        Ok(Self { joint, space, to: key, reason, message: Wire::decode(from)? })
    }
}

impl<'a> Wire<'a> for Replacement {
    fn encode(&self, to: &mut Encoder) {
        match self {
            Self::Ask { by, attachment, requested } => {
                0_u8.encode(to);
                by.encode(to);
                attachment.encode(to);
                requested.encode(to);
            }
            Self::Answer { attachment, answer } => {
                1_u8.encode(to);
                attachment.encode(to);
                answer.encode(to);
            }
        }
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        match u8::decode(from)? {
            0 => Ok(Self::Ask {
                by: Wire::decode(from)?,
                attachment: Wire::decode(from)?,
                requested: Wire::decode(from)?,
            }),
            1 => Ok(Self::Answer { attachment: Wire::decode(from)?, answer: Wire::decode(from)? }),
            _ => Err(Malformed("a command about a name neither asks nor answers")),
        }
    }
}

impl<'a> Wire<'a> for NoLocal {
    fn encode(&self, to: &mut Encoder) {
        match self {
            Self::Connection(connection) => {
                0_u8.encode(to);
                connection.encode(to);
            }
            Self::Container(container) => {
                1_u8.encode(to);
                container.encode(to);
            }
        }
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        match u8::decode(from)? {
            0 => Wire::decode(from).map(Self::Connection),
            1 => Wire::decode(from).map(Self::Container),
            _ => Err(Malformed("no-local is neither of a connection nor of a container")),
        }
    }
}

impl<'a> Wire<'a> for Start {
    fn encode(&self, to: &mut Encoder) {
        let (kind, number) = match *self {
            Self::First => (0_u8, 0),
            Self::Last => (1, 0),
            Self::Next => (2, 0),
            Self::Offset(offset) => (3, offset),
            Self::Time(time_ms) => (4, time_ms),
        };
        kind.encode(to);
        number.encode(to);
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        match (u8::decode(from)?, u64::decode(from)?) {
            (0, 0) => Ok(Self::First),
            (1, 0) => Ok(Self::Last),
            (2, 0) => Ok(Self::Next),
            (3, offset) => Ok(Self::Offset(offset)),
            (4, time_ms) => Ok(Self::Time(time_ms)),
            _ => Err(Malformed("the start in a stream is unknown")),
        }
    }
}

impl<'a> Wire<'a> for AttachmentRole {
    fn encode(&self, to: &mut Encoder) {
        match self {
            Self::Producer { anonymous, name, producer_name, resume } => {
                0_u8.encode(to);
                anonymous.encode(to);
                name.encode(to);
                producer_name.encode(to);
                resume.encode(to);
            }
            Self::Consumer { filter, consuming } => {
                1_u8.encode(to);
                filter.encode(to);
                consuming.encode(to);
            }
        }
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self, Malformed> {
        match u8::decode(from)? {
            0 => Ok(Self::Producer {
                anonymous: Wire::decode(from)?,
                name: Wire::decode(from)?,
                producer_name: Wire::decode(from)?,
                resume: Wire::decode(from)?,
            }),
            1 => Ok(Self::Consumer { filter: Wire::decode(from)?, consuming: Wire::decode(from)? }),
            _ => Err(Malformed("a link is neither a producer nor a consumer")),
        }
    }
}
