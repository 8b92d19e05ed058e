//! What the router says to links, and what links say to the router.

use enmasse_amqp::types::{Error, Fields, Outcome};

use super::{PortId, TransactionId, Unsettled};

/// How far a producer is held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// It is read.
    #[default]
    No,
    /// Payload of it waits beyond [`HOLD_BYTES`](super::HOLD_BYTES): its session takes no transfers. Its connection is
    /// still read, for what it says as a receiver.
    Session,
    /// Its space has more with the journal than the [`ReceiveBudget`](super::ReceiveBudget) lets it have, and some of that
    /// is its own: its connection is not read either, until the journal has stored that.
    Connection,
}

/// The links behind the ports, as the router sees them. Nothing is ever said about a port after its
/// [`Router::detach`](super::Router::detach), and no call may come back into the router.
pub trait Links {
    /// Answers [`Router::attach`](super::Router::attach), before anything else is said to the port and once, unless it
    /// detaches before: the address has the link now, and these are properties of it; or why it will not, and then
    /// the port is detached already.
    fn attached(&mut self, port: PortId, answer: Result<Fields, Error>);

    /// Said before [`Links::attached`] to a link that has named a durable subscription and no address: what is kept of the
    /// subscription, in the words of [`Subscribing::description`](super::Subscribing::description).
    fn recalled(&mut self, port: PortId, description: &[u8]);

    /// Said before [`Links::attached`] to a link that can be resumed: its deliveries that are unsettled at this end.
    fn unsettled(&mut self, port: PortId, unsettled: Unsettled);

    /// Names the delivery that is handed to a consumer next, whose link can be resumed: by `number`, which is its tag for
    /// ever. `again`: the link knows it from an earlier attachment.
    fn name(&mut self, consumer: PortId, number: u64, again: bool);

    /// Answers [`Router::outcome_unsettled`](super::Router::outcome_unsettled): the outcome counts for good.
    fn settled(&mut self, consumer: PortId, token: u64);

    /// Hands a delivery, or the next part of one, to a consumer. `false`: no room now; the router then counts the
    /// consumer as having no credit, keeps the part, and offers it again after the next
    /// [`Router::credit`](super::Router::credit). A consumer of another shard is always `true`: what then finds no
    /// room there comes back through [`Router::refused`](super::Router::refused); that it took the first of several
    /// parts is told by [`Router::begun`](super::Router::begun), and the others follow only then.
    fn transfer(&mut self, consumer: PortId, delivery: &Delivery<'_>) -> bool;

    /// The outcome of an unsettled delivery: exactly one each, unless its producer detached or aborted it. It may
    /// come before the last part of a delivery; what still arrives of it is thrown away.
    fn settle(&mut self, producer: PortId, delivery_id: u32, outcome: &Outcome);

    /// The outcome of an unsettled posting, as a transactional state (4.4.1): accepted if it is held until the discharge;
    /// anything else if it was refused, and then the transaction can only be rolled back. Said in place of
    /// [`Links::settle`], after which nothing more is said of the delivery.
    fn provisional(&mut self, producer: PortId, delivery_id: u32, transaction: TransactionId, outcome: &Outcome);

    /// Answers [`Router::discharge`](super::Router::discharge), once: what was asked for is done; or the transaction was
    /// rolled back instead of committed, and why (4.5.8).
    fn discharged(&mut self, transaction: TransactionId, result: Result<(), Error>);

    /// `count` more deliveries of this producer wait no longer: its window moves on. Said once a turn.
    fn taken(&mut self, producer: PortId, count: u32);

    /// Whether the address has a consumer. Said at attach and at every change, never to anonymous producers.
    fn open(&mut self, producer: PortId, open: bool);

    /// So many more deliveries of this producer fit into the address. Said to named producers of temporary queues, at
    /// attach before [`Links::open`] and at every change; others may send what their windows allow.
    fn room(&mut self, producer: PortId, room: u32);

    /// How far this producer is held back from now on.
    fn hold(&mut self, producer: PortId, hold: Hold);

    /// A drain asked for in [`Router::credit`](super::Router::credit) is done: nothing waits that credit is left for.
    fn drained(&mut self, consumer: PortId);

    /// A consumer of another shard has sent a delivery back, and will be handed nothing more until it states its
    /// credit. Told where it lives, in order with the transfers: what it was handed before has arrived, so it may
    /// state its credit now.
    fn halted(&mut self, consumer: PortId);

    /// The address is gone: the link is to be closed. The port is detached already.
    fn close(&mut self, port: PortId, error: &Error);
}

/// A delivery on its way to a consumer, or one part of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// names it in [`Router::outcome`](super::Router::outcome); `None`: settled. The same on all parts
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
}

/// A delivery coming from a producer, or one part of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// names it in [`Links::settle`]
    pub delivery_id: u32,
    /// nobody waits for its outcome; the first part counts
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
