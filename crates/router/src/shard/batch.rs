//! Commands between shards: a batch of entries and one run of bytes that holds their payloads.
//!
//! A batch is filled during a turn, sent whole at its end and drained in order by the other side,
//! so everything between two shards arrives in order. Credit travels as a limit (deliveries ever
//! dispatched plus credit left), which stays correct whatever is in flight.

use std::num::NonZeroU32;
use std::sync::Arc;

use enmasse_amqp::types::{Error, Fields, Outcome};

use super::management::QuestionId;
use super::names::{LinkHolder, LinkName, LinkTheft};
use crate::core::{
    AddressDescription, AddressKey, Arrival, AttachmentId, AttachmentRole, Delivery, Ending, Hold, Origin,
    SubscriptionName, TransactionId, Unsettled,
};
use crate::table::AddressEntry;

/// Where a payload lies in the batch's bytes, or in shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    start: u32,
    len: u32,
}

impl Range {
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..][..self.len as usize]
    }
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
    /// the memory that the payload lies in, counted from 1
    shared: Option<NonZeroU32>,
}

/// A command for another shard.
#[derive(Debug)]
pub(super) enum Command {
    // to the home of an address
    Attach {
        attachment: AttachmentId,
        address: Arc<AddressEntry>,
        role: AttachmentRole,
    },
    /// where the messages of a producer come from
    Origin {
        attachment: AttachmentId,
        origin: Origin,
    },
    /// as `Attach`, of a link that requests a durable subscription
    Recall {
        attachment: AttachmentId,
        names: Vec<SubscriptionName>,
    },
    Detach {
        attachment: AttachmentId,
        ending: Ending,
        /// its client has closed it: it will not return
        closed: bool,
    },
    /// deliveries of one link that ends, as of `Router::relinquish`
    GiveBack {
        tokens: Vec<u64>,
        ending: Ending,
        oldest: bool,
    },
    Credit {
        attachment: AttachmentId,
        limit: u32,
        drain: bool,
    },
    Deliver {
        attachment: AttachmentId,
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
        attachment: AttachmentId,
        delivery: DeliveryHead,
    },
    Begun {
        attachment: AttachmentId,
    },
    Stall {
        attachment: AttachmentId,
    },
    Retire {
        address: AddressKey,
    },
    /// to the shard of a link that another takes over
    Steal {
        name: LinkName,
        from: LinkHolder,
        theft: LinkTheft,
    },
    /// from there to every shard, and from each to the shard of the link that takes over: earlier
    /// commands have been handled
    Confirm {
        theft: LinkTheft,
    },
    Declare {
        transaction: TransactionId,
    },
    Describe {
        question: QuestionId,
        address: AddressKey,
    },
    Post {
        attachment: AttachmentId,
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
        attachment: AttachmentId,
        delivery_id: u32,
        tag: Box<[u8]>,
    },
    /// its sender has settled a delivery
    ForgetTag {
        attachment: AttachmentId,
        tag: Box<[u8]>,
    },
    OutcomeUnsettled {
        attachment: AttachmentId,
        token: u64,
        outcome: Outcome,
    },
    // to the owner of an attachment
    Unsettled {
        attachment: AttachmentId,
        unsettled: Unsettled,
    },
    Name {
        attachment: AttachmentId,
        number: u64,
        again: bool,
    },
    Settled {
        attachment: AttachmentId,
        token: u64,
    },
    Recalled {
        attachment: AttachmentId,
        description: Arc<[u8]>,
    },
    Attached {
        attachment: AttachmentId,
        answer: Result<Fields, Box<Error>>,
    },
    Transfer {
        attachment: AttachmentId,
        delivery: DeliveryHead,
    },
    Settle {
        attachment: AttachmentId,
        delivery_id: u32,
        outcome: Outcome,
    },
    Provisional {
        attachment: AttachmentId,
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
        attachment: AttachmentId,
        count: u32,
    },
    Open {
        attachment: AttachmentId,
        open: bool,
    },
    /// deliveries that the address has room for
    Room {
        attachment: AttachmentId,
        room: u32,
    },
    Hold {
        attachment: AttachmentId,
        hold: Hold,
    },
    Drained {
        attachment: AttachmentId,
    },
    Halted {
        attachment: AttachmentId,
    },
    /// the last word about an attachment that was detached
    Left {
        attachment: AttachmentId,
    },
    /// the last word about one that its home detaches, as is a refusal in `Attached`
    Close {
        attachment: AttachmentId,
        error: Box<Error>,
    },
}

/// Entries for one other shard, in order.
#[derive(Debug, Default)]
pub struct CommandBatch {
    pub(super) commands: Vec<Command>,
    bytes: Vec<u8>,
    /// memory of large payloads that are not copied
    shared: Vec<Arc<Vec<u8>>>,
}

impl CommandBatch {
    /// Nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Its size in bytes, payload and entries, by which a driver bounds what is in flight.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let shared: usize = self.shared.iter().map(|shared| shared.len()).sum();
        self.bytes.len() + shared + self.commands.len() * size_of::<Command>()
    }

    pub(super) fn push(&mut self, command: Command) {
        self.commands.push(command);
    }

    pub(super) fn push_arrival(&mut self, attachment: AttachmentId, arrival: &Arrival<'_>) {
        let arrival = self.arrival_head(arrival);
        self.commands.push(Command::Deliver { attachment, arrival });
    }

    pub(super) fn push_posting(&mut self, attachment: AttachmentId, transaction: TransactionId, arrival: &Arrival<'_>) {
        let arrival = self.arrival_head(arrival);
        self.commands.push(Command::Post { attachment, transaction, arrival });
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

    pub(super) fn push_transfer(&mut self, attachment: AttachmentId, delivery: &Delivery<'_>) {
        let delivery = self.head(delivery);
        self.commands.push(Command::Transfer { attachment, delivery });
    }

    pub(super) fn push_refused(&mut self, attachment: AttachmentId, delivery: &Delivery<'_>) {
        let delivery = self.head(delivery);
        self.commands.push(Command::Refused { attachment, delivery });
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
        let shared = head.shared.map(|number| &self.shared[number.get() as usize - 1]);
        Delivery {
            token: head.token,
            message_format: head.message_format,
            first: head.first,
            more: head.more,
            aborted: head.aborted,
            payload: shared.map_or_else(|| self.load(head.payload), |shared| head.payload.of(shared)),
            shared,
        }
    }

    fn head(&mut self, delivery: &Delivery<'_>) -> DeliveryHead {
        let (payload, shared) = match delivery.shared_range() {
            Some((shared, range)) => {
                self.shared.push(Arc::clone(shared));
                let payload = Range { start: range.start as u32, len: range.len() as u32 };
                (payload, NonZeroU32::new(self.shared.len() as u32))
            }
            None => (self.store(delivery.payload), None),
        };
        DeliveryHead {
            token: delivery.token,
            message_format: delivery.message_format,
            first: delivery.first,
            more: delivery.more,
            aborted: delivery.aborted,
            payload,
            shared,
        }
    }

    fn store(&mut self, payload: &[u8]) -> Range {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(payload);
        Range { start, len: payload.len() as u32 }
    }

    fn load(&self, range: Range) -> &[u8] {
        range.of(&self.bytes)
    }
}
