//! The interface from the router to links.

use std::ops::Range;
use std::sync::Arc;

use enmasse_amqp::types::{Error, Fields, Outcome};

use super::{AttachmentId, TransactionId, Unsettled};

/// How a producer is held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// The producer is not held back.
    #[default]
    No,
    /// More than [`HOLD_BYTES`](super::HOLD_BYTES) of its payload wait: its session accepts no
    /// transfers. Its connection is still read, because the same connection may also receive.
    Session,
    /// Its address space has more bytes in flight to the journal than the
    /// [`ReceiveBudget`](super::ReceiveBudget) allows, some of them from this producer: its
    /// connection is not read until the journal has stored these.
    Connection,
}

/// The links of the attachments, as the router sees them. No call follows
/// [`Router::detach`](super::Router::detach) of an attachment, and no call may re-enter the router.
pub trait Links {
    /// Answers [`Router::attach`](super::Router::attach) once, before any other call, unless the
    /// attachment is detached first. `Ok`: the link is attached, with these properties. `Err`: it
    /// was refused and is detached.
    fn attached(&mut self, attachment: AttachmentId, answer: Result<Fields, Error>);

    /// Called before [`Links::attached`] for a link that named a durable subscription and no
    /// address: the stored description of the subscription
    /// ([`Subscribing::description`](super::Subscribing::description)).
    fn recalled(&mut self, attachment: AttachmentId, description: &[u8]);

    /// Called before [`Links::attached`] for a link that can be resumed: its deliveries that are
    /// unsettled at this end.
    fn unsettled(&mut self, attachment: AttachmentId, unsettled: Unsettled);

    /// Names the next delivery to a consumer with a resumable link: `number` is its permanent tag.
    /// `again`: the link received it in an earlier attachment.
    fn name(&mut self, consumer: AttachmentId, number: u64, again: bool);

    /// Answers [`Router::outcome_unsettled`](super::Router::outcome_unsettled): the outcome is
    /// durable.
    fn settled(&mut self, consumer: AttachmentId, token: u64);

    /// Dispatches a delivery, or its next part, to a consumer. `false`: the link has no room. The
    /// router then counts the consumer as having no credit, keeps the part, and offers it again
    /// after the next [`Router::credit`](super::Router::credit). The result is always `true` for a
    /// consumer of another shard: a delivery without room there returns through
    /// [`Router::refused`](super::Router::refused). [`Router::begun`](super::Router::begun)
    /// confirms the first of several parts; the others follow only then.
    fn transfer(&mut self, consumer: AttachmentId, delivery: &Delivery<'_>) -> bool;

    /// The outcome of an unsettled delivery: exactly one, unless its producer detached or aborted
    /// it. It may precede the last part of the delivery; later parts are discarded.
    fn settle(&mut self, producer: AttachmentId, delivery_id: u32, outcome: &Outcome);

    /// The outcome of an unsettled posting, as a transactional state (4.4.1): accepted if it is
    /// held until the discharge; otherwise it was refused, and its transaction is rollback-only.
    /// Replaces [`Links::settle`], and is the last call for the delivery.
    fn provisional(&mut self, producer: AttachmentId, delivery_id: u32, transaction: TransactionId, outcome: &Outcome);

    /// Answers [`Router::discharge`](super::Router::discharge) once. `Err`: why the transaction was
    /// rolled back instead of committed (4.5.8).
    fn discharged(&mut self, transaction: TransactionId, result: Result<(), Error>);

    /// `count` more deliveries of this producer left its window. Called once a turn.
    fn taken(&mut self, producer: AttachmentId, count: u32);

    /// Whether the producer may send: the address has a consumer, or room. Called at attach and at
    /// every change, never for anonymous producers.
    fn open(&mut self, producer: AttachmentId, open: bool);

    /// The number of further deliveries of this producer that fit into the address. Called for
    /// named producers of temporary queues, at attach before [`Links::open`] and at every change.
    /// Other producers may send what their windows allow.
    fn room(&mut self, producer: AttachmentId, room: u32);

    /// Sets how this producer is held back.
    fn set_held(&mut self, producer: AttachmentId, hold: Hold);

    /// A drain requested in [`Router::credit`](super::Router::credit) is complete: no message waits
    /// for the remaining credit.
    fn drained(&mut self, consumer: AttachmentId);

    /// A consumer of another shard returned a delivery, and receives nothing until it grants
    /// credit. Called on its shard, in order with the transfers: all earlier deliveries have
    /// arrived, so it may grant credit now.
    fn halted(&mut self, consumer: AttachmentId);

    /// Close the link: its address is deleted. The attachment is already detached.
    fn close(&mut self, attachment: AttachmentId, error: &Error);
}

/// A delivery to a consumer, or one part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// identifies it in [`Router::outcome`](super::Router::outcome), equal on all parts; `None` if
    /// it is settled
    pub token: Option<u64>,
    /// 2.8.11
    pub message_format: u32,
    /// this is the first part
    pub first: bool,
    /// more parts follow
    pub more: bool,
    /// the delivery is aborted (2.6.14); its token is no longer valid
    pub aborted: bool,
    /// bytes of the message
    pub payload: &'a [u8],
    /// the memory that contains the payload, if others may keep it instead of a copy
    pub shared: Option<&'a Arc<Vec<u8>>>,
}

impl<'a> Delivery<'a> {
    /// The memory that others may keep, and the range of the payload in it.
    pub(crate) fn shared_range(&self) -> Option<(&'a Arc<Vec<u8>>, Range<usize>)> {
        let shared = self.shared?;
        let start = (self.payload.as_ptr() as usize).checked_sub(shared.as_ptr() as usize)?;
        let end = start.checked_add(self.payload.len())?;
        (end <= shared.len()).then_some((shared, start..end))
    }
}

/// A delivery from a producer, or one part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// identifies it in [`Links::settle`]
    pub delivery_id: u32,
    /// it is settled; only the first part's value counts
    pub settled: bool,
    /// 2.8.11; only the first part's value counts
    pub message_format: u32,
    /// this is the first part
    pub first: bool,
    /// more parts follow
    pub more: bool,
    /// the delivery is aborted (2.6.14)
    pub aborted: bool,
    /// bytes of the message
    pub payload: &'a [u8],
}
