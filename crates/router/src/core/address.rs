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

/// A consumer that is not among the ready ones.
pub(super) const NOT_READY: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Address {
    pub(super) declared: Declared,
    /// that of its space
    pub(super) account: Account,
    pub(super) producers: Vec<Key>,
    pub(super) consumers: Vec<Key>,
    /// consumers without a filter
    pub(super) unfiltered: u32,
    /// counts changes of `consumers`
    pub(super) epoch: u32,
    /// unsettled copies that consumers hold
    pub(super) unsettled: u32,
    /// without the statistics that are counted when requested
    pub(super) stats: AddressStats,
    /// it is about to be deleted, and no link attaches
    pub(super) sealed: bool,
    pub(super) treatment: Treatment,
}

#[derive(Debug)]
pub(super) struct Producer {
    pub(super) attachment: AttachmentId,
    pub(super) address: Key,
    /// among the address's producers
    pub(super) place: usize,
    pub(super) anonymous: bool,
    pub(super) name: Option<Arc<str>>,
    /// consumers whose filter matches its name
    pub(super) matching: u32,
    /// those and the unfiltered ones, as of `audience_epoch`; kept only where there are filters. At
    /// a topic: the subscriptions that let its name through
    pub(super) audience: Vec<Key>,
    pub(super) audience_epoch: u32,
    /// messages of its that wait
    pub(super) waiting: u32,
    /// payload of its that waits, bytes
    pub(super) waiting_bytes: usize,
    pub(super) held: Hold,
    /// it had to wait, was counted, and may not continue yet
    pub(super) stalled: bool,
    /// messages that left its window and are not reported yet; negative if some returned
    pub(super) taken: i32,
    /// it is on the list of producers to notify
    pub(super) to_notify: bool,
    pub(super) incoming: Incoming,
    /// the parts that have arrived
    pub(super) assembly: Option<Box<Assembly>>,
    /// its last delivery was part of a transaction: a full queue refuses the commit, and holds back
    /// no producer
    pub(super) posts: bool,
    /// the transaction of the delivery that begins
    pub(super) transaction: Option<TransactionId>,
    /// the queue of a stored address, or the stream, counts it
    pub(super) counted: bool,
    /// its name, if its messages are numbered
    pub(super) producer_name: Option<Arc<str>>,
    /// at a topic: where its messages come from
    pub(super) origin: Option<Arc<Origin>>,
    /// one of its numbered messages was rejected: later ones are released, so that no higher number
    /// is stored before the client has decided about that one
    pub(super) halted: bool,
    /// digest of its link, if that can be resumed
    pub(super) resumed: Option<u64>,
    /// its delivery that was named last then: id, and digest of its tag
    pub(super) tag: Option<(u32, u128)>,
}

/// The delivery in progress of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Nothing,
    /// a delivery of which more parts are to come
    Message(Key),
    /// a delivery for a queue, of which more parts are to come
    Assembly,
    /// a delivery whose rest is discarded
    Discarded,
}

#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) attachment: AttachmentId,
    pub(super) address: Key,
    /// among the address's consumers
    pub(super) place: usize,
    pub(super) filter: Option<Filter>,
    /// deliveries that it may receive
    pub(super) credit: u32,
    /// deliveries dispatched to it and not refused, wrapping
    pub(super) dispatched: u32,
    /// unsettled deliveries it holds
    pub(super) outstanding: u32,
    /// it had no room, and has not stated its credit since
    pub(super) blocked: bool,
    /// it has sent something back, and has not stated its credit since
    pub(super) halted: bool,
    /// the first part of the delivery it is in the middle of is on its way to its shard, and may
    /// return
    pub(super) unconfirmed: bool,
    pub(super) drain: bool,
    /// among the address's ready ones
    pub(super) ready_at: u32,
    pub(super) outgoing: Outgoing,
    /// its id in the queue of a stored address
    pub(super) in_queue: Option<ConsumerId>,
    /// messages for it that are on their way from the disk
    pub(super) fetching: u32,
    /// its message selection at a stored address
    pub(super) selection: MessageSelection,
    /// how it reads a stream
    pub(super) reading: Option<Box<Reading>>,
    /// its link can be resumed
    pub(super) resumed: Option<Box<Resumed>>,
    /// when something was last dispatched to it, milliseconds since 1970
    pub(super) dispatched_ms: u64,
    /// multicast: producers do not wait for it
    pub(super) slow: bool,
    /// multicast: unsettled copies dispatched to it
    pub(super) copies: Copies,
    /// multicast: when it last left a copy unsettled for too long, if no producer waits for its
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
    /// a delivery that is void, which could not be sent yet
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
            posts: false,
            transaction: None,
            counted: false,
            producer_name: None,
            origin: None,
            halted: false,
            resumed: None,
            tag: None,
        }
    }

    /// As much of its as may wait does. Messages that returned after they were reported as gone do
    /// not count: the producer may have its window back.
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

    /// It could begin a delivery now.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.credit > 0 && !self.blocked && self.outgoing == Outgoing::Nothing
    }

    /// Something waits for it.
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty() || self.outgoing != Outgoing::Nothing
    }

    /// It is in the middle of a message from now on.
    pub(super) fn read(&mut self, message: Key, offset: u64, token: Option<u64>) {
        self.outgoing = Outgoing::Message { message, offset, token };
    }

    /// A copy of `bytes` may wait for it.
    pub(super) fn may_wait(&self, bytes: usize) -> bool {
        self.backlog.len() < BACKLOG_MESSAGES && self.backlog_bytes + bytes <= BACKLOG_BYTES
    }

    /// Whether this is the delivery it is in the middle of.
    #[inline]
    pub(super) fn reads(&self, token: Option<u64>) -> bool {
        matches!(self.outgoing, Outgoing::Message { token: current, .. } if current == token)
    }
}

/// Chance from a seed (xorshift64*): the same seed, the same choices.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9E37_79B9_7F4A_7C15 | 1)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        (((mixed >> 32) * bound as u64) >> 32) as usize
    }
}
