//! What crosses from one shard to another: a batch of entries and one run of bytes that holds their payloads.
//!
//! A batch is filled during a turn, handed over whole at its end and drained in order by the other side, so
//! everything between two shards arrives in the order it was said. Credit travels as a limit (deliveries ever
//! handed over plus credit left), which stays right whatever is on the way.

use std::sync::Arc;

use enmasse_amqp::types::{Error, Fields, Outcome};

use super::management::QuestionId;
use super::names::{Holder, LinkName, Thief};
use crate::core::{
    AddressDescription, AddressKey, Arrival, Delivery, Ending, Hold, Origin, PortId, PortRole, SubscriptionName,
    TransactionId, Unsettled,
};
use crate::table::AddressEntry;

/// Where a payload lies in the batch's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    start: u32,
    len: u32,
}

/// An `Arrival` without its payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrivalHead {
    delivery_id: u32,
    message_format: u32,
    settled: bool,
    first: bool,
    more: bool,
    aborted: bool,
    payload: Range,
}

/// A `Delivery` without its payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliveryHead {
    token: Option<u64>,
    message_format: u32,
    first: bool,
    more: bool,
    aborted: bool,
    payload: Range,
}

/// One thing said to another shard.
#[derive(Debug)]
pub(super) enum Entry {
    // to the home of an address
    Attach {
        port: PortId,
        address: Arc<AddressEntry>,
        role: PortRole,
    },
    /// where the messages of a producer come from
    Origin {
        port: PortId,
        origin: Origin,
    },
    /// as `Attach`, of a link that asks for a durable subscription
    Recall {
        port: PortId,
        names: Vec<SubscriptionName>,
    },
    Detach {
        port: PortId,
        ending: Ending,
        /// its client has closed it: it will not come back
        closed: bool,
    },
    /// deliveries of one link that ends, as of `Router::relinquish`
    GiveBack {
        tokens: Vec<u64>,
        ending: Ending,
        oldest: bool,
    },
    Credit {
        port: PortId,
        limit: u32,
        drain: bool,
    },
    Deliver {
        port: PortId,
        arrival: ArrivalHead,
    },
    Outcome {
        token: u64,
        outcome: Outcome,
    },
    /// the same outcome of several
    Outcomes {
        tokens: Vec<u64>,
        outcome: Outcome,
    },
    Refused {
        port: PortId,
        delivery: DeliveryHead,
    },
    Begun {
        port: PortId,
    },
    Stall {
        port: PortId,
    },
    Retire {
        address: AddressKey,
    },
    /// to the shard of a link that another takes over
    Steal {
        name: LinkName,
        from: Holder,
        thief: Thief,
    },
    /// from there to every shard, and from each to the shard of the link that takes over: what was said before has been
    /// handled
    Confirm {
        thief: Thief,
    },
    Declare {
        transaction: TransactionId,
    },
    Describe {
        question: QuestionId,
        address: AddressKey,
    },
    Post {
        port: PortId,
        transaction: TransactionId,
        arrival: ArrivalHead,
    },
    RetireDelivery {
        transaction: TransactionId,
        token: u64,
        outcome: Arc<Outcome>,
        settled: bool,
    },
    /// something that belongs to a transaction was refused where it came from
    MarkRollbackOnly {
        transaction: TransactionId,
        cause: Box<Error>,
    },
    /// a transaction is in use at another home
    Touch {
        transaction: TransactionId,
    },
    /// a home is to admit its part of a transaction, which other homes have parts of
    Prepare {
        transaction: TransactionId,
    },
    Discharge {
        transaction: TransactionId,
        fail: bool,
    },
    /// the tag of the delivery that begins next on a link that can be resumed
    NameDelivery {
        port: PortId,
        delivery_id: u32,
        tag: Box<[u8]>,
    },
    /// its sender has settled a delivery
    ForgetTag {
        port: PortId,
        tag: Box<[u8]>,
    },
    OutcomeUnsettled {
        port: PortId,
        token: u64,
        outcome: Outcome,
    },
    // to the owner of a port
    Unsettled {
        port: PortId,
        unsettled: Unsettled,
    },
    Name {
        port: PortId,
        number: u64,
        again: bool,
    },
    Settled {
        port: PortId,
        token: u64,
    },
    Recalled {
        port: PortId,
        description: Arc<[u8]>,
    },
    Attached {
        port: PortId,
        answer: Result<Fields, Box<Error>>,
    },
    Transfer {
        port: PortId,
        delivery: DeliveryHead,
    },
    Settle {
        port: PortId,
        delivery_id: u32,
        outcome: Outcome,
    },
    Provisional {
        port: PortId,
        delivery_id: u32,
        transaction: TransactionId,
        outcome: Outcome,
    },
    Described {
        question: QuestionId,
        found: Option<Box<AddressDescription>>,
    },
    Discharged {
        transaction: TransactionId,
        error: Option<Box<Error>>,
    },
    Taken {
        port: PortId,
        count: u32,
    },
    Open {
        port: PortId,
        open: bool,
    },
    /// deliveries that the address has room for
    Room {
        port: PortId,
        room: u32,
    },
    Hold {
        port: PortId,
        hold: Hold,
    },
    Drained {
        port: PortId,
    },
    Halted {
        port: PortId,
    },
    /// the last word about a port that was detached
    Left {
        port: PortId,
    },
    /// the last word about one that its home detaches, as is a refusal in `Attached`
    Close {
        port: PortId,
        error: Box<Error>,
    },
}

/// Entries for one other shard, in order.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Batch {
    /// Nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes in it, payload and entries: what a driver weighs when it bounds what is on the way.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Entry>()
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    pub(super) fn push_arrival(&mut self, port: PortId, arrival: &Arrival<'_>) {
        let arrival = self.arrival_head(arrival);
        self.entries.push(Entry::Deliver { port, arrival });
    }

    pub(super) fn push_posting(&mut self, port: PortId, transaction: TransactionId, arrival: &Arrival<'_>) {
        let arrival = self.arrival_head(arrival);
        self.entries.push(Entry::Post { port, transaction, arrival });
    }

    fn arrival_head(&mut self, arrival: &Arrival<'_>) -> ArrivalHead {
        ArrivalHead {
            delivery_id: arrival.delivery_id,
            message_format: arrival.message_format,
            settled: arrival.settled,
            first: arrival.first,
            more: arrival.more,
            aborted: arrival.aborted,
            payload: self.store(arrival.payload),
        }
    }

    pub(super) fn push_transfer(&mut self, port: PortId, delivery: &Delivery<'_>) {
        let delivery = self.head(delivery);
        self.entries.push(Entry::Transfer { port, delivery });
    }

    pub(super) fn push_refused(&mut self, port: PortId, delivery: &Delivery<'_>) {
        let delivery = self.head(delivery);
        self.entries.push(Entry::Refused { port, delivery });
    }

    pub(super) fn arrival(&self, head: &ArrivalHead) -> Arrival<'_> {
        Arrival {
            delivery_id: head.delivery_id,
            settled: head.settled,
            message_format: head.message_format,
            first: head.first,
            more: head.more,
            aborted: head.aborted,
            payload: self.load(head.payload),
        }
    }

    pub(super) fn delivery(&self, head: &DeliveryHead) -> Delivery<'_> {
        Delivery {
            token: head.token,
            message_format: head.message_format,
            first: head.first,
            more: head.more,
            aborted: head.aborted,
            payload: self.load(head.payload),
        }
    }

    fn head(&mut self, delivery: &Delivery<'_>) -> DeliveryHead {
        DeliveryHead {
            token: delivery.token,
            message_format: delivery.message_format,
            first: delivery.first,
            more: delivery.more,
            aborted: delivery.aborted,
            payload: self.store(delivery.payload),
        }
    }

    fn store(&mut self, payload: &[u8]) -> Range {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(payload);
        Range { start, len: payload.len() as u32 }
    }

    fn load(&self, range: Range) -> &[u8] {
        &self.bytes[range.start as usize..][..range.len as usize]
    }
}
