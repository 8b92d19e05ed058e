//! Waiting and partial messages: copied once, shared by all their readers.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use enmasse_journal::queue::Seq;

use super::arena::{Arena, Key};
use super::received::WaitingBytes;
use super::{Arrival, AttachmentId};

/// Buffers up to this size are recycled, so that a waiting message costs no allocation.
const SPARE_BYTES: usize = 4096;
/// Bound of recycled buffers: 4 MiB a shard with the bound above.
const SPARE_COUNT: usize = 1024;
/// A backlog with more capacity than this releases its memory when it is empty.
const QUEUE_KEPT: usize = 256;

/// The delivery that receives the outcome of one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettlementTarget {
    /// none: the delivery was sent settled
    Nothing,
    /// its producer
    Producer { attachment: AttachmentId, delivery_id: u32 },
    /// its producer, once all copies are answered
    Join(Key),
    /// its producer, which does not wait for this copy because its consumer is overdue
    Optional(Key),
    /// the queue that dispatched it
    Queue(Seq),
    /// none: the queue keeps the browsed message
    Browsed(Seq),
    /// none: its producer has a provisional outcome, and the discharge answers its transaction
    Posted,
    /// an operation of an administrator, for a message of this many bytes
    Operation { id: u32, bytes: u32 },
}

/// A message that waits for consumers or is incomplete.
#[derive(Debug)]
pub(super) struct Message {
    /// the producer whose window it occupies; may be detached
    pub(super) producer: Key,
    pub(super) address: Key,
    pub(super) settlement: SettlementTarget,
    pub(super) message_format: u32,
    /// the last received bytes; all of them while a reader has not begun
    pub(super) bytes: Vec<u8>,
    /// bytes received so far
    pub(super) end: u64,
    /// all parts are received
    pub(super) complete: bool,
    /// backlogs that contain it
    pub(super) queued: u32,
    /// references: backlogs that contain it, consumers that are receiving it, and its producer
    /// until it is complete
    pub(super) refs: u32,
    /// consumers that must begin before it leaves its producer's window; 0: it has left
    pub(super) awaited_readers: u32,
    /// multicast, once it is complete: since when it has been waiting, milliseconds since 1970
    pub(super) since_ms: u64,
    /// bytes counted as waiting for its producer
    pub(super) charged: usize,
    /// its kept bytes, as counted for its space
    pub(super) kept: WaitingBytes,
    /// of a partial delivery: the consumers that have received a part; at multicast addresses also
    /// those whose backlog contains it
    pub(super) readers: Vec<Key>,
}

impl Message {
    /// A message that begins with `arrival`, without its bytes. Its producer holds a reference if
    /// more parts follow.
    pub(super) fn begun(producer: Key, address: Key, settlement: SettlementTarget, arrival: &Arrival<'_>) -> Self {
        Self {
            producer,
            address,
            settlement,
            message_format: arrival.message_format,
            bytes: Vec::new(),
            end: arrival.payload.len() as u64,
            complete: !arrival.more,
            queued: 0,
            refs: u32::from(arrival.more),
            awaited_readers: 0,
            since_ms: 0,
            charged: 0,
            kept: WaitingBytes::NONE,
            readers: Vec::new(),
        }
    }

    /// The offset of `bytes` in the delivery.
    pub(super) fn base(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    /// The received bytes from `offset` on.
    pub(super) fn after(&self, offset: u64) -> &[u8] {
        &self.bytes[(offset - self.base()) as usize..]
    }

    /// Whether it has no readers and is in no backlog.
    pub(super) fn unread(&self) -> bool {
        self.queued == 0 && self.readers.is_empty()
    }

    pub(super) fn forget_reader(&mut self, consumer: Key) {
        if let Some(at) = self.readers.iter().position(|reader| *reader == consumer) {
            self.readers.swap_remove(at);
        }
    }
}

/// All messages of a router, and recycled buffers.
#[derive(Debug)]
pub(super) struct Messages {
    arena: Arena<Message>,
    spare: Vec<Vec<u8>>,
}

impl Messages {
    pub(super) const fn new() -> Self {
        Self { arena: Arena::new(), spare: Vec::new() }
    }

    /// A buffer that holds `payload`.
    pub(super) fn buffer(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(payload);
        buffer
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, message: Message) -> Key {
        self.arena.insert(message)
    }

    /// Removes a message and recycles its buffer if that is small.
    pub(super) fn remove(&mut self, key: Key) {
        let Some(message) = self.arena.remove(key) else { return };
        let mut buffer = message.bytes;
        if (1..=SPARE_BYTES).contains(&buffer.capacity()) && self.spare.len() < SPARE_COUNT {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

impl Deref for Messages {
    type Target = Arena<Message>;

    fn deref(&self) -> &Arena<Message> {
        &self.arena
    }
}

impl DerefMut for Messages {
    fn deref_mut(&mut self) -> &mut Arena<Message> {
        &mut self.arena
    }
}

/// Messages in the order of their dispatch.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    items: VecDeque<Key>,
    /// number of messages at the front that a consumer refused: the next one to return goes behind
    /// them
    returned: usize,
}

impl Backlog {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Key> {
        self.items.iter().copied()
    }

    pub(super) fn front(&self) -> Option<Key> {
        self.items.front().copied()
    }

    pub(super) fn push_back(&mut self, message: Key) {
        self.items.push_back(message);
    }

    /// Inserts a message that returned: behind those that returned before it, ahead of all others.
    pub(super) fn push_returned(&mut self, message: Key) {
        self.items.insert(self.returned, message);
        self.returned += 1;
    }

    /// Messages that return from now on go ahead of those that returned before, because they were
    /// taken from the front.
    pub(super) fn close_returned(&mut self) {
        self.returned = 0;
    }

    pub(super) fn pop_front(&mut self) -> Option<Key> {
        let message = self.items.pop_front();
        self.returned = self.returned.saturating_sub(1);
        self.shrink();
        message
    }

    /// Removes a message; returns whether it was present.
    pub(super) fn remove(&mut self, message: Key) -> bool {
        // Removed messages are still being received, so they are near the end.
        let Some(at) = self.items.iter().rposition(|item| *item == message) else { return false };
        self.items.remove(at);
        self.returned -= usize::from(at < self.returned);
        self.shrink();
        true
    }

    fn shrink(&mut self) {
        if self.items.is_empty() && self.items.capacity() > QUEUE_KEPT {
            self.items = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<const N: usize>() -> [Key; N] {
        let mut arena = Arena::new();
        std::array::from_fn(|_| arena.insert(()))
    }

    fn all(queue: &mut Backlog) -> Vec<Key> {
        std::iter::from_fn(|| queue.pop_front()).collect()
    }

    #[test]
    fn returned_messages_go_to_the_front_in_their_own_order() {
        let [a, b, c, d] = keys();
        let mut queue = Backlog::default();
        queue.push_back(c);
        queue.push_back(d);
        queue.push_returned(a);
        queue.push_returned(b);
        assert_eq!(all(&mut queue), [a, b, c, d]);
    }

    #[test]
    fn returned_message_goes_first_after_earlier_returned_ones_left() {
        let [a, b, c, d] = keys();
        let mut queue = Backlog::default();
        queue.push_back(d);
        queue.push_returned(a);
        queue.push_returned(b);
        assert_eq!(queue.pop_front(), Some(a));
        assert!(queue.remove(b));
        assert!(!queue.remove(b));
        queue.push_returned(c);
        assert_eq!(all(&mut queue), [c, d]);
    }

    #[test]
    fn message_returned_twice_precedes_messages_returned_once() {
        let [a, b, c, _] = keys();
        let mut queue = Backlog::default();
        queue.push_returned(a);
        queue.push_returned(b);
        queue.push_returned(c);
        queue.close_returned();
        assert_eq!(queue.pop_front(), Some(a));
        queue.push_returned(a);
        assert_eq!(all(&mut queue), [a, b, c]);
    }

    #[test]
    fn emptied_long_queue_releases_its_memory() {
        let [a] = keys();
        let mut queue = Backlog::default();
        for _ in 0..=QUEUE_KEPT {
            queue.push_back(a);
        }
        assert_eq!(all(&mut queue).len(), QUEUE_KEPT + 1);
        assert!(queue.items.capacity() <= QUEUE_KEPT);
    }
}
