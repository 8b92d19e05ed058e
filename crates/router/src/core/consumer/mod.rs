//! A link that receives from an address.

mod copies;
mod reading;
mod resumed;
mod selection;

use enmasse_journal::queue::ConsumerId;

use super::arena::Key;
use super::message::Backlog;
use super::{AttachmentId, Filter, Guarantee, NoLocal};

pub(super) use copies::Copies;
pub(super) use reading::{BlockPosition, Position, Reading};
pub(super) use resumed::Resumed;
pub(super) use selection::MessageSelection;

/// Payload that may wait for one multicast consumer, bytes.
pub const BACKLOG_BYTES: usize = 4 << 20;

/// Messages that may wait for one multicast consumer.
pub const BACKLOG_MESSAGES: usize = 4096;

/// Largest delivery that a link of another shard keeps if it has no room, bytes. Its home stops at the
/// first one, and the credit of the link bounds their number.
const KEPT_BYTES: usize = 4 << 10;

/// The value of `ready_at` for a consumer that is not ready.
pub(super) const NOT_READY: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) attachment: AttachmentId,
    pub(super) address: Key,
    /// index in the consumers of the address
    pub(super) place: usize,
    pub(super) filter: Option<Filter>,
    /// at a multicast: the origin whose messages it does not get
    pub(super) no_local: Option<Box<NoLocal>>,
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
    /// what its deliveries are due
    pub(super) guarantee: Guarantee,
    /// its link has recalled a durable subscription by its name
    pub(super) recalls: bool,
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

impl Consumer {
    pub(super) fn new(attachment: AttachmentId, address: Key, place: usize, filter: Option<Filter>) -> Self {
        Self {
            attachment,
            address,
            place,
            filter,
            no_local: None,
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
            guarantee: Guarantee::default(),
            recalls: false,
            resumed: None,
            dispatched_ms: 0,
            slow: false,
            copies: Copies::default(),
            overdue_ms: None,
            backlog: Backlog::default(),
            backlog_bytes: 0,
        }
    }

    /// Whether it gets the messages of every producer.
    pub(super) const fn takes_all(&self) -> bool {
        self.filter.is_none() && self.no_local.is_none()
    }

    /// Whether a delivery of `bytes` to it counts as accepted at once. A link of another shard returns
    /// none of these: it keeps small ones that it has no room for, and they must not overtake one that
    /// it may return.
    #[inline]
    pub(super) const fn settles_at_once(&self, shard: u16, bytes: usize) -> bool {
        let is_kept = self.attachment.shard == shard || bytes <= KEPT_BYTES && self.outstanding == 0;
        matches!(self.guarantee, Guarantee::AtMostOnce) && is_kept
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
