//! A link that sends to an address.

use std::sync::Arc;

use super::arena::Key;
use super::arriving::Assembly;
use super::consumer::Consumer;
use super::{AttachmentId, Filter, Hold, NoLocal, Origin, TransactionId};

#[derive(Debug)]
pub(super) struct Producer {
    pub(super) attachment: AttachmentId,
    pub(super) address: Key,
    /// index in the producers of the address
    pub(super) place: usize,
    pub(super) anonymous: bool,
    pub(super) name: Option<Arc<str>>,
    /// consumers of some messages that get its own
    pub(super) matching: u32,
    /// these and the consumers of all messages, as of `audience_epoch`; used only where some
    /// consumers do not get all. At a topic: the subscriptions whose filters match its name
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
    /// at a topic or multicast: the origin of its messages
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

    /// Whether a consumer gets its messages. One that excludes an origin gets none before that of
    /// the producer is known.
    pub(super) fn reaches(&self, consumer: &Consumer) -> bool {
        let passes = |filter: &Filter| self.name.as_deref().is_some_and(|name| filter.matches(name));
        let is_other = |own: &NoLocal| self.origin.as_deref().is_some_and(|origin| !own.covers(origin));
        consumer.filter.as_ref().is_none_or(passes) && consumer.no_local.as_deref().is_none_or(is_other)
    }
}
