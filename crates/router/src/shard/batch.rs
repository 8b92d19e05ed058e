//! Commands between shards: a batch has the commands and one buffer with their payloads.
//!
//! A shard fills a batch during a turn and sends it at the end of the turn. The receiver processes
//! it in order, so all commands between two shards keep their order. Credit is sent as a limit
//! (deliveries dispatched so far plus remaining credit), which stays correct while deliveries are
//! in flight.

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

/// The range of a payload in the batch's bytes, or in shared memory.
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
    /// number of the shared memory that holds the payload, from 1
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
    /// the connection and container of a producer
    Origin {
        attachment: AttachmentId,
        origin: Origin,
    },
    /// as `Attach`, for a link that requests a durable subscription by its name
    Recall {
        attachment: AttachmentId,
        names: Vec<SubscriptionName>,
    },
    Detach {
        attachment: AttachmentId,
        ending: Ending,
        /// its client has closed it: the link is not resumed
        closed: bool,
    },
    /// unsettled deliveries of a link that ends (`Router::relinquish`)
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
    /// one outcome of several deliveries
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
    /// from that shard to every other, and from each to the shard of the new link: all earlier
    /// commands were processed
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
    /// the shard of a link refused a part of a transaction
    MarkRollbackOnly {
        transaction: TransactionId,
        cause: Box<Error>,
    },
    /// a transaction is in use at another home
    Touch {
        transaction: TransactionId,
    },
    /// requests a home to admit its part of a transaction with several homes
    Prepare {
        transaction: TransactionId,
    },
    Discharge {
        transaction: TransactionId,
        fail: bool,
    },
    /// the tag of the next delivery on a resumable link
    NameDelivery {
        attachment: AttachmentId,
        delivery_id: u32,
        tag: Box<[u8]>,
    },
    /// the sender has settled the delivery with this tag
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
    /// the number of deliveries that the address has room for
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
    /// the last command about an attachment that was detached
    Left {
        attachment: AttachmentId,
    },
    /// the last command about an attachment that its home detaches; a refusal in `Attached` is one
    /// too
    Close {
        attachment: AttachmentId,
        error: Box<Error>,
    },
}

/// Commands for one other shard, in order.
#[derive(Debug, Default)]
pub struct CommandBatch {
    pub(super) commands: Vec<Command>,
    bytes: Vec<u8>,
    /// memory of large payloads that are not copied
    shared: Vec<Arc<Vec<u8>>>,
}

impl CommandBatch {
    /// Whether it has no commands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Its size in bytes, payloads and commands: a driver bounds the bytes in flight by it.
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
