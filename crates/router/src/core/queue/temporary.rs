//! Temporary queues and topics: queues in memory that belong to a connection and end with it
//! (`docs/contracts.md` 6).
//!
//! A temporary queue holds [`TEMPORARY_MESSAGES`] or [`TEMPORARY_BYTES`]. Its reader may be dead,
//! so producers do not wait for it: a full queue gives named producers no credit and refuses
//! further messages. The same applies while all queues of its connection, or of its address space,
//! hold more than their [`Budget`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use enmasse_amqp::types::{Error, condition};
use enmasse_journal::queue::{Full, Limits, Redelivery, Settings};

use super::super::Queue;
use super::super::arena::Key;
use super::super::attachment::Occupant;
use super::super::{AddressKey, AttachmentId, Declared, Links, Router, ToLink};

/// Messages that one temporary queue holds.
pub const TEMPORARY_MESSAGES: u64 = 1000;
/// Bytes that one temporary queue holds; a single message may be larger.
pub const TEMPORARY_BYTES: u64 = 1 << 20;
/// Bytes in the temporary queues of one connection.
const CONNECTION_BYTES: u64 = 16 << 20;
/// Bytes in the temporary queues of one address space, on a node.
const SPACE_BYTES: u64 = 256 << 20;
/// The overhead of one message in addition to its body.
const MESSAGE_BYTES: u64 = 128;
/// Delivery attempts after which a message is dropped, because there is no dead-letter address.
const ATTEMPTS: u16 = 10;

/// Keys of temporary and other dynamic nodes. The address of one exists from
/// [`Router::open_queue`], [`Router::open_topic`] or [`Router::open_direct`] until
/// [`Router::retire`]: a link that attaches later is refused.
pub const DYNAMIC_KEYS: std::ops::Range<u32> = 0xC000_0000..u32::MAX;

/// Bytes in the temporary queues of a connection and of its address space, on this node.
#[derive(Debug)]
pub struct Budget {
    connection: AtomicU64,
    space: Arc<AtomicU64>,
}

impl Budget {
    /// A budget for a new connection; `space` counts the bytes of its address space.
    #[must_use]
    pub fn new(space: Arc<AtomicU64>) -> Self {
        Self { connection: AtomicU64::new(0), space }
    }

    /// The error if a message has no room. A single message always has room.
    fn excess(&self, size_bytes: usize) -> Option<Error> {
        // Relaxed: the numbers carry no other memory with them.
        let over = |used: &AtomicU64, most: u64| {
            let used = used.load(Ordering::Relaxed);
            used > 0 && used + size_bytes as u64 > most
        };
        let (whose, most) = if over(&self.connection, CONNECTION_BYTES) {
            ("connection", CONNECTION_BYTES)
        } else if over(&self.space, SPACE_BYTES) {
            ("address space", SPACE_BYTES)
        } else {
            return None;
        };
        let what = format!(
            "the temporary queues of its {whose} hold {} MiB, their limit: receive messages, or delete a queue",
            most >> 20
        );
        Some(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what))
    }

    fn change(&self, before: u64, after: u64) {
        let change = after.wrapping_sub(before);
        self.connection.fetch_add(change, Ordering::Relaxed);
        self.space.fetch_add(change, Ordering::Relaxed);
    }
}

/// The state of a temporary queue.
#[derive(Debug)]
pub(in crate::core) struct Temporary {
    budget: Arc<Budget>,
    /// bytes of this queue that the budget has counted
    charged: u64,
    /// the room last reported to each named producer
    reported_room: u32,
}

impl Temporary {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        Self { budget, charged: 0, reported_room: u32::MAX }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.budget.change(self.charged, 0);
    }
}

/// The settings of a temporary queue.
pub(in crate::core) fn temporary_settings(message_bytes: u32) -> Settings {
    let limits = Limits { messages: TEMPORARY_MESSAGES, bytes: TEMPORARY_BYTES, message_bytes, ..Limits::default() };
    let redelivery = Redelivery { attempts_max: ATTEMPTS, ..Redelivery::default() };
    Settings { limits, redelivery, full: Full::Strict, ..Settings::default() }
}

impl Queue {
    /// The error if the budget of a temporary queue has no room for a message.
    #[inline]
    pub(in crate::core) fn beyond_budget(&self, size_bytes: usize) -> Option<Error> {
        self.temporary.as_ref().and_then(|temporary| temporary.budget.excess(size_bytes))
    }

    pub(in crate::core) fn is_on_disk(&self) -> bool {
        self.opened.log.is_some()
    }

    /// Whether a full queue refuses messages instead of holding anonymous producers.
    pub(in crate::core) fn refuses_when_full(&self) -> bool {
        self.temporary.is_some()
    }
}

impl Router {
    /// Opens a dynamic node without storage on this shard.
    pub fn open_direct(&mut self, declared: Declared) {
        self.address(declared);
    }

    /// Whether the dynamic node of an address was deleted. Shards of its links may not know it yet.
    pub(in crate::core) fn has_ended(&self, key: AddressKey) -> bool {
        DYNAMIC_KEYS.contains(&key.0) && !self.by_key.contains_key(&key)
    }

    /// Refuses a link to a deleted dynamic node; messages from it are released.
    pub(in crate::core) fn refuse_deleted(
        &mut self,
        attachment: AttachmentId,
        key: AddressKey,
        links: &mut impl Links,
    ) {
        self.attachments.set(attachment, Occupant::Detached(key));
        let what = "the dynamic node was deleted with the link or the connection that created it";
        links.send(ToLink::Attached { attachment, answer: Err(Error::new(condition::NOT_FOUND, what)) });
    }

    /// Divides the room of a temporary queue among its named producers, and notifies them of
    /// changes.
    pub(in crate::core) fn share_room(&mut self, at: Key, links: &mut impl Links) {
        let address = &mut self.addresses[at];
        let capacity = address.declared.link_capacity;
        let Some(queue) = address.treatment.as_queue_mut() else { return };
        let Some(temporary) = queue.temporary.as_mut() else { return };
        let queue = &queue.opened.messages;
        let (room, bytes) = (queue.room(0), queue.bytes() + MESSAGE_BYTES * queue.len() as u64);
        if bytes != temporary.charged {
            temporary.budget.change(temporary.charged, bytes);
            temporary.charged = bytes;
        }
        let named = address.producers.iter().map(|key| &self.producers[*key]).filter(|producer| !producer.anonymous);
        let share = match room {
            0 => 0,
            room => (room / (named.clone().count() as u64).max(1)).max(1),
        };
        let share = u32::try_from(share).unwrap_or(u32::MAX).min(capacity);
        if share != temporary.reported_room {
            temporary.reported_room = share;
            named.for_each(|producer| links.send(ToLink::Room { attachment: producer.attachment, room: share }));
        }
    }

    /// Reports the room of a temporary queue to a named producer, before its credit opens.
    pub(in crate::core) fn report_room(&mut self, at: Key, attachment: AttachmentId, links: &mut impl Links) {
        self.share_room(at, links);
        if let Some(temporary) = self.addresses.find_queue(at).and_then(|queue| queue.temporary.as_ref()) {
            links.send(ToLink::Room { attachment, room: temporary.reported_room });
        }
    }
}
