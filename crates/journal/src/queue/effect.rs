//! The view of a message that the queue returns, and the effects it requests.

use super::entry::{RecordLocation, Seq, State};
use super::head::{Priority, Record};
use super::state::Marker;

/// A message of the queue, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// names it here
    pub seq: Seq,
    /// names it in the log: the `seq` it was offered under, which a scheduled message changes when
    /// it is due
    pub id: Seq,
    /// where its body lies
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
    /// there are consumers that it is kept from: [`barred_from`](super::Queue::barred_from)
    pub barred: bool,
    /// digest of its group
    pub group: Option<u64>,
    /// where it is in its life
    pub state: State,
}

/// Why a message left, was moved, or did not come in.
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
    /// last-value queue: a newer one of its key has come
    Replaced,
    /// ring: it was the oldest when the bound was reached
    Overrun,
    /// an administrator removed it
    Purged,
    /// an administrator moved it
    Moved,
}

impl Cause {
    /// how many there are
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

/// Where a message goes that may not stay.
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
    /// The message is removed: the log forgets it.
    Remove {
        /// the message
        item: Item,
        /// why
        cause: Cause,
    },
    /// The message is to be stored elsewhere; it counts here until [`left`](super::Queue::left) or
    /// [`stay`](super::Queue::stay) is called.
    Divert {
        /// the message
        item: Item,
        /// where
        to: Target,
        /// why
        cause: Cause,
    },
    /// Its delivery failed and it waits for another: the log may keep the count.
    Retry {
        /// the message, with its new count
        item: Item,
        /// not before then
        due: Option<u64>,
    },
}

/// The answer to [`offer`](super::Queue::offer).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Admission {
    /// Write it, then call [`committed`](super::Queue::committed), or
    /// [`withdraw`](super::Queue::withdraw).
    Store(Stored),
    /// Accept it, store nothing.
    Duplicate {
        /// the original, if it is not committed: do not accept before
        of: Option<Seq>,
    },
    /// Refuse it.
    Refuse(Refusal),
}

/// The record to write for a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stored {
    /// names it here and in the log
    pub seq: Seq,
    /// to lie beside the body
    pub record: Record,
    /// to be written with it, atomically
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
    /// `limits.bytes`: not even alone
    #[error("the address holds at most {0} bytes, and the message has more: make it smaller, or limits.bytes larger")]
    LargerThanQueue(u64),
}

/// The answer to [`next`](super::Queue::next).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is this consumer's, until settled; a browser only looks.
    Message(Item),
    /// Whether the selector matches is not known without its body: read it and ask again.
    Unread(Item),
    /// There is nothing for it now.
    Nothing,
    /// A turn's share of messages was examined: call again next turn.
    Later,
}

/// The result of a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// it matches
    Yes,
    /// it does not
    No,
    /// its body has to be read first
    Unread,
}

/// The outcome that a consumer reports (part 3, 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerOutcome {
    /// done
    Accepted,
    /// not evaluated
    Released,
    /// something is to change; annotations are the caller's business
    Modified {
        /// counts as a failed delivery
        failed: bool,
        /// this consumer's name does not get it again
        undeliverable_here: bool,
    },
    /// invalid
    Rejected,
}
