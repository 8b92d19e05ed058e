//! The view of a message that the queue returns, and the effects it requests.

use super::entry::{RecordLocation, Seq, State};
use super::head::{Priority, Record};
use super::state::Marker;

/// A view of a message of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// its number in the queue
    pub seq: Seq,
    /// its number in the log: the `seq` under which it was offered. A scheduled message gets a new
    /// `seq` when it is due
    pub id: Seq,
    /// the location of its body
    pub place: RecordLocation,
    /// bytes of the encoded message
    pub size_bytes: u32,
    /// 0 to 9
    pub priority: Priority,
    /// `header.durable`
    pub durable: bool,
    /// milliseconds since 1970
    pub enqueued: u64,
    /// milliseconds since 1970
    pub expires: Option<u64>,
    /// `delivery-count`: failed deliveries
    pub failures: u16,
    /// undeliverable to some consumers: [`undeliverable_to`](super::Queue::undeliverable_to)
    pub undeliverable_here: bool,
    /// digest of its group
    pub group: Option<u64>,
    /// its state
    pub state: State,
}

/// Why a message was removed or moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Cause {
    /// a consumer accepted it
    Accepted,
    /// a consumer rejected it
    Rejected,
    /// its failed deliveries reached `maximumDeliveryAttempts`
    Attempts,
    /// its time to live ended
    Expired,
    /// last-value queue: a newer message of its key replaced it
    Replaced,
    /// ring: it was the oldest when the bound was exceeded
    Overrun,
    /// an administrator removed it
    Purged,
    /// an administrator moved it
    Moved,
}

impl Cause {
    /// number of causes
    pub const COUNT: usize = 8;

    /// The name of the cause, for annotations and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Attempts => "maximum-delivery-attempts",
            Self::Expired => "expired",
            Self::Replaced => "replaced",
            Self::Overrun => "overrun",
            Self::Purged => "purged",
            Self::Moved => "moved",
        }
    }
}

/// The destination of a diverted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `spec.deadletter`
    DeadLetter,
    /// `spec.expiry`
    Expiry,
    /// named by an administrator
    Elsewhere,
}

/// An effect of a call. The queue's own state is updated before it is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The message is removed: its removal must be logged.
    Remove {
        /// the message
        item: Item,
        /// why
        cause: Cause,
    },
    /// The message must be stored at another address. It counts here until
    /// [`left`](super::Queue::left) or [`stay`](super::Queue::stay) is called.
    Divert {
        /// the message
        item: Item,
        /// where
        to: Target,
        /// why
        cause: Cause,
    },
    /// The delivery failed and the message waits for another: the log may store the count.
    Retry {
        /// the message, with its new count
        item: Item,
        /// the earliest time of the next delivery
        due: Option<u64>,
    },
}

/// The result of [`offer`](super::Queue::offer).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Admission {
    /// Write it, then call [`committed`](super::Queue::committed), or
    /// [`withdraw`](super::Queue::withdraw).
    Store(Stored),
    /// Accept it, store nothing.
    Duplicate {
        /// the original, if it is not committed: accept the duplicate only after it
        of: Option<Seq>,
    },
    /// Refuse it.
    Refuse(Refusal),
}

/// The record to write for a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stored {
    /// its number in the queue and in the log
    pub seq: Seq,
    /// stored with the body
    pub record: Record,
    /// written atomically with it
    pub markers: [Option<Marker>; 2],
}

/// Why a message is refused: `amqp:resource-limit-exceeded`, or `amqp:link:message-size-exceeded`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// `limits.messages`
    #[error("the address is full: it holds {0} messages")]
    Messages(u64),
    /// `limits.bytes`
    #[error("the address is full: it holds {0} bytes")]
    Bytes(u64),
    /// [`NUMBERED_PRODUCERS_MAX`](super::NUMBERED_PRODUCERS_MAX)
    #[error("the address has its maximum of numbered producers")]
    NumberedProducers,
    /// `limits.message_bytes`
    #[error("a message of this address may have at most {0} bytes")]
    MessageSize(u32),
    /// `limits.bytes`: the message exceeds it alone
    #[error("the message exceeds the {0} bytes of the address: send a smaller one, or raise limits.bytes")]
    LargerThanQueue(u64),
}

/// The result of [`next`](super::Queue::next).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The consumer holds this message until it is settled; a browser does not acquire it.
    Message(Item),
    /// The selector needs the body of this message: read it and call again.
    Unread(Item),
    /// There is no message for the consumer now.
    Nothing,
    /// The work of one call was done: call again next turn.
    Later,
}

/// The result of a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// it matches
    Yes,
    /// it does not
    No,
    /// its body must be read first
    Unread,
}

/// The outcome that a consumer reports (part 3, 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerOutcome {
    /// consumed
    Accepted,
    /// not processed
    Released,
    /// returned with changes; the caller applies the annotations
    Modified {
        /// counts as a failed delivery
        failed: bool,
        /// not delivered again to consumers of this name
        undeliverable_here: bool,
    },
    /// invalid
    Rejected,
}
