//! The interface from the router to links.

use std::ops::Range;
use std::sync::Arc;

use enmasse_amqp::types::{Error, Fields, Outcome};

use super::{AttachmentId, TransactionId, Unsettled};

/// How far a producer is held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// It is read.
    #[default]
    No,
    /// Payload of it waits beyond [`HOLD_BYTES`](super::HOLD_BYTES): its session takes no
    /// transfers. Its connection is still read, for what it says as a receiver.
    Session,
    /// Its space has more with the journal than the [`ReceiveBudget`](super::ReceiveBudget) lets it
    /// have, and some of that is its own: its connection is not read either, until the journal has
    /// stored that.
    Connection,
}

/// The links of the attachments, as the router sees them. It is never called for an attachment
/// after [`Router::detach`](super::Router::detach), and no call may re-enter the router.
pub trait Links {
    /// Answers [`Router::attach`](super::Router::attach) once, before any other call, unless the
    /// attachment is detached before: either the address has the link now, with these properties,
    /// or the error for which it was refused and detached.
    fn attached(&mut self, attachment: AttachmentId, answer: Result<Fields, Error>);

    /// Called before [`Links::attached`] for a link that named a durable subscription and no
    /// address: the stored description of the subscription
    /// ([`Subscribing::description`](super::Subscribing::description)).
    fn recalled(&mut self, attachment: AttachmentId, description: &[u8]);

    /// Called before [`Links::attached`] for a link that can be resumed: its deliveries that are
    /// unsettled at this end.
    fn unsettled(&mut self, attachment: AttachmentId, unsettled: Unsettled);

    /// Names the next delivery to a consumer whose link can be resumed: `number` is its permanent
    /// tag. `again`: the link knows it from an earlier attachment.
    fn name(&mut self, consumer: AttachmentId, number: u64, again: bool);

    /// Answers [`Router::outcome_unsettled`](super::Router::outcome_unsettled): the outcome counts
    /// for good.
    fn settled(&mut self, consumer: AttachmentId, token: u64);

    /// Dispatches a delivery, or the next part of one, to a consumer. `false`: no room now; the
    /// router then counts the consumer as having no credit, keeps the part, and offers it again
    /// after the next [`Router::credit`](super::Router::credit). For a consumer of another shard it
    /// is always `true`: a delivery that finds no room there returns through
    /// [`Router::refused`](super::Router::refused); [`Router::begun`](super::Router::begun)
    /// confirms the first of several parts, and the others follow only then.
    fn transfer(&mut self, consumer: AttachmentId, delivery: &Delivery<'_>) -> bool;

    /// The outcome of an unsettled delivery: exactly one each, unless its producer detached or
    /// aborted it. It may come before the last part of a delivery; what still arrives of it is
    /// discarded.
    fn settle(&mut self, producer: AttachmentId, delivery_id: u32, outcome: &Outcome);

    /// The outcome of an unsettled posting, as a transactional state (4.4.1): accepted if it is
    /// held until the discharge; anything else if it was refused, and then the transaction can only
    /// be rolled back. Called in place of [`Links::settle`], and the last call for the delivery.
    fn provisional(&mut self, producer: AttachmentId, delivery_id: u32, transaction: TransactionId, outcome: &Outcome);

    /// Answers [`Router::discharge`](super::Router::discharge) once: it is done, or the transaction
    /// was rolled back instead of committed, and why (4.5.8).
    fn discharged(&mut self, transaction: TransactionId, result: Result<(), Error>);

    /// `count` more deliveries of this producer wait no longer: its window moves on. Called once a
    /// turn.
    fn taken(&mut self, producer: AttachmentId, count: u32);

    /// Whether the address has a consumer. Called at attach and at every change, never for
    /// anonymous producers.
    fn open(&mut self, producer: AttachmentId, open: bool);

    /// So many more deliveries of this producer fit into the address. Called for named producers of
    /// temporary queues, at attach before [`Links::open`] and at every change; others may send what
    /// their windows allow.
    fn room(&mut self, producer: AttachmentId, room: u32);

    /// How far this producer is held back from now on.
    fn set_held(&mut self, producer: AttachmentId, hold: Hold);

    /// A drain requested in [`Router::credit`](super::Router::credit) is done: nothing waits that
    /// credit is left for.
    fn drained(&mut self, consumer: AttachmentId);

    /// A consumer of another shard has returned a delivery, and receives nothing more until it
    /// states its credit. Called on its shard, in order with the transfers: everything dispatched
    /// before has arrived, so it may state its credit now.
    fn halted(&mut self, consumer: AttachmentId);

    /// The address is deleted: the link is to be closed. The attachment is detached already.
    fn close(&mut self, attachment: AttachmentId, error: &Error);
}

/// A delivery on its way to a consumer, or one part of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// names it in [`Router::outcome`](super::Router::outcome); `None`: settled. The same on all
    /// parts
    pub token: Option<u64>,
    /// 2.8.11
    pub message_format: u32,
    /// it begins here
    pub first: bool,
    /// it does not end here
    pub more: bool,
    /// it ends here and is void (2.6.14); the token means nothing any more
    pub aborted: bool,
    /// bytes of the message
    pub payload: &'a [u8],
    /// the memory that they lie in, if others may keep it instead of a copy
    pub shared: Option<&'a Arc<Vec<u8>>>,
}

impl<'a> Delivery<'a> {
    /// The memory that others may keep, and where the payload lies in it.
    pub(crate) fn shared_range(&self) -> Option<(&'a Arc<Vec<u8>>, Range<usize>)> {
        let shared = self.shared?;
        let start = (self.payload.as_ptr() as usize).checked_sub(shared.as_ptr() as usize)?;
        let end = start.checked_add(self.payload.len())?;
        (end <= shared.len()).then_some((shared, start..end))
    }
}

/// A delivery coming from a producer, or one part of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// names it in [`Links::settle`]
    pub delivery_id: u32,
    /// it has no outcome; the first part counts
    pub settled: bool,
    /// 2.8.11; the first part counts
    pub message_format: u32,
    /// it begins here
    pub first: bool,
    /// it does not end here
    pub more: bool,
    /// it ends here and is void (2.6.14)
    pub aborted: bool,
    /// bytes of the message
    pub payload: &'a [u8],
}
