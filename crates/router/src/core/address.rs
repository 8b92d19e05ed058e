//! One address, its producers and its consumers.

use std::sync::Arc;

use enmasse_journal::queue::ConsumerId;

use super::arena::Key;
use super::incoming::Assembly;
use super::message::Backlog;
use super::multicast::Copies;
use super::queue::{MessageSelection, Resumed};
use super::received::Account;
use super::stream::Reading;
use super::treatment::Treatment;
use super::{AddressStats, AttachmentId, Declared, Filter, Hold, Origin, TransactionId};

/// Payload that may wait for one multicast consumer, bytes.
pub const BACKLOG_BYTES: usize = 4 << 20;
/// Messages that may wait for one multicast consumer.
pub const BACKLOG_MESSAGES: usize = 4096;

/// The value of `ready_at` for a consumer that is not ready.
pub(super) const NOT_READY: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Address {
    pub(super) declared: Declared,
    /// the account of its address space
    pub(super) account: Account,
    pub(super) producers: Vec<Key>,
    pub(super) consumers: Vec<Key>,
    /// consumers without a filter
    pub(super) unfiltered: u32,
    /// counts changes of `consumers`
    pub(super) epoch: u32,
    /// unsettled copies that consumers hold
    pub(super) unsettled: u32,
    /// without the values that are computed on request
    pub(super) stats: AddressStats,
    /// the address is about to be deleted and accepts no link
    pub(super) sealed: bool,
    pub(super) treatment: Treatment,
}

#[derive(Debug)]
pub(super) struct Producer {
    pub(super) attachment: AttachmentId,
    pub(super) address: Key,
    /// index in the producers of the address
    pub(super) place: usize,
    pub(super) anonymous: bool,
    pub(super) name: Option<Arc<str>>,
    /// consumers whose filter matches its name
    pub(super) matching: u32,
    /// the matching and the unfiltered consumers, as of `audience_epoch`; used only where consumers
    /// have filters. At a topic: the subscriptions whose filters match its name
    pub(super) audience: Vec<Key>,
    pub(super) audience_epoch: u32,
    /// its waiting messages
    pub(super) waiting: u32,
    /// payload of its waiting messages, bytes
    pub(super) waiting_bytes: usize,
    pub(super) held: Hold,
    /// its stall was counted and has not ended
    pub(super) stalled: bool,
    /// messages that left its window and are not reported yet; negative if messages returned
    pub(super) taken: i32,
    /// it is on the list of producers to notify
    pub(super) to_notify: bool,
    pub(super) incoming: Incoming,
    /// the received parts of an incomplete message
    pub(super) assembly: Option<Box<Assembly>>,
    /// its last delivery was part of a transaction: a full queue refuses the commit instead of
    /// holding the producer back
    pub(super) in_transaction: bool,
    /// the transaction of the delivery that begins
    pub(super) transaction: Option<TransactionId>,
    /// its queue or stream counts it as a producer
    pub(super) counted: bool,
    /// its name, if its messages are numbered
    pub(super) producer_name: Option<Arc<str>>,
    /// at a topic: the origin of its messages
    pub(super) origin: Option<Arc<Origin>>,
    /// one of its numbered messages was rejected: later ones are released, so that no higher number
    /// is stored before the client has decided about that one
    pub(super) halted: bool,
    /// digest of its link, if that can be resumed
    pub(super) resumed: Option<u64>,
    /// the last delivery that was named on a resumable link: its id and the digest of its tag
    pub(super) tag: Option<(u32, u128)>,
}

/// The delivery in progress of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Nothing,
    /// an incomplete delivery
    Message(Key),
    /// an incomplete delivery to a stored address
    Assembly,
    /// a delivery whose remaining parts are discarded
    Discarded,
}

#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) attachment: AttachmentId,
    pub(super) address: Key,
    /// index in the consumers of the address
    pub(super) place: usize,
    pub(super) filter: Option<Filter>,
    /// its remaining credit
    pub(super) credit: u32,
    /// number of deliveries dispatched to it and not refused, wrapping
    pub(super) dispatched: u32,
    /// unsettled deliveries it holds
    pub(super) outstanding: u32,
    /// it refused a delivery and has granted no credit since
    pub(super) blocked: bool,
    /// it returned a delivery and has granted no credit since
    pub(super) halted: bool,
    /// the first part of its delivery in progress is in flight to its shard and may be refused
    /// there
    pub(super) unconfirmed: bool,
    pub(super) drain: bool,
    /// index in the ready consumers of the address
    pub(super) ready_at: u32,
    pub(super) outgoing: Outgoing,
    /// its id in the queue of a stored address
    pub(super) in_queue: Option<ConsumerId>,
    /// its messages whose bodies are being fetched
    pub(super) fetching: u32,
    /// its message selection at a stored address
    pub(super) selection: MessageSelection,
    /// how it reads a stream
    pub(super) reading: Option<Box<Reading>>,
    /// the state of its resumable link
    pub(super) resumed: Option<Box<Resumed>>,
    /// time of the last dispatch to it, milliseconds since 1970
    pub(super) dispatched_ms: u64,
    /// multicast: it is a slow consumer, and producers do not wait for it
    pub(super) slow: bool,
    /// multicast: unsettled copies dispatched to it
    pub(super) copies: Copies,
    /// multicast: when it last exceeded the settlement time-out, while no producer waits for its
    /// outcomes
    pub(super) overdue_ms: Option<u64>,
    /// multicast: copies that wait for it
    pub(super) backlog: Backlog,
    pub(super) backlog_bytes: usize,
}

/// The delivery in progress to a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    Nothing,
    /// a delivery in parts, dispatched up to `offset`
    Message {
        message: Key,
        offset: u64,
        token: Option<u64>,
    },
    /// an aborted delivery; the abort could not be sent yet
    Aborted,
}

impl Address {
    pub(super) fn new(declared: Declared, account: Account) -> Self {
        Self {
            treatment: Treatment::new(declared.kind),
            declared,
            account,
            producers: Vec::new(),
            consumers: Vec::new(),
            unfiltered: 0,
            epoch: 0,
            unsettled: 0,
            stats: AddressStats::default(),
            sealed: false,
        }
    }
}

impl Producer {
    pub(super) fn new(
        attachment: AttachmentId,
        address: Key,
        place: usize,
        anonymous: bool,
        name: Option<Arc<str>>,
    ) -> Self {
        Self {
            attachment,
            address,
            place,
            anonymous,
            name,
            matching: 0,
            audience: Vec::new(),
            audience_epoch: 0,
            waiting: 0,
            waiting_bytes: 0,
            held: Hold::No,
            stalled: false,
            taken: 0,
            to_notify: false,
            incoming: Incoming::Nothing,
            assembly: None,
            in_transaction: false,
            transaction: None,
            counted: false,
            producer_name: None,
            origin: None,
            halted: false,
            resumed: None,
            tag: None,
        }
    }

    /// Whether as many of its messages wait as may. Messages that returned after they were reported
    /// as taken do not count, because the producer may have used that window again.
    pub(super) fn is_full(&self, capacity: u32) -> bool {
        i64::from(self.waiting) + i64::from(self.taken.min(0)) >= i64::from(capacity)
    }

    /// Whether a filter lets its messages through.
    pub(super) fn passes(&self, filter: &Filter) -> bool {
        self.name.as_deref().is_some_and(|name| filter.matches(name))
    }
}

impl Consumer {
    pub(super) fn new(attachment: AttachmentId, address: Key, place: usize, filter: Option<Filter>) -> Self {
        Self {
            attachment,
            address,
            place,
            filter,
            credit: 0,
            dispatched: 0,
            outstanding: 0,
            blocked: false,
            halted: false,
            unconfirmed: false,
            drain: false,
            ready_at: NOT_READY,
            outgoing: Outgoing::Nothing,
            in_queue: None,
            fetching: 0,
            selection: MessageSelection::default(),
            reading: None,
            resumed: None,
            dispatched_ms: 0,
            slow: false,
            copies: Copies::default(),
            overdue_ms: None,
            backlog: Backlog::default(),
            backlog_bytes: 0,
        }
    }

    /// Whether it can begin a delivery now.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.credit > 0 && !self.blocked && self.outgoing == Outgoing::Nothing
    }

    /// Whether a message waits for it or is in progress.
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty() || self.outgoing != Outgoing::Nothing
    }

    /// Records that it has received `message` up to `offset`.
    pub(super) fn read(&mut self, message: Key, offset: u64, token: Option<u64>) {
        self.outgoing = Outgoing::Message { message, offset, token };
    }

    /// Whether a copy of `bytes` fits into its backlog.
    pub(super) fn may_wait(&self, bytes: usize) -> bool {
        self.backlog.len() < BACKLOG_MESSAGES && self.backlog_bytes + bytes <= BACKLOG_BYTES
    }

    /// Whether `token` is that of its delivery in progress.
    #[inline]
    pub(super) fn reads(&self, token: Option<u64>) -> bool {
        matches!(self.outgoing, Outgoing::Message { token: current, .. } if current == token)
    }
}

/// Seeded pseudo-random numbers (xorshift64*).
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9E37_79B9_7F4A_7C15 | 1)
    }

    /// A number below `bound`; `bound` is not 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        (((mixed >> 32) * bound as u64) >> 32) as usize
    }
}
