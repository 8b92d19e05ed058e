//! Messages that wait, or that arrive in parts: copied once, shared by all their readers.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use enmasse_journal::queue::Seq;

use super::arena::{Arena, Key};
use super::{Arrival, AttachmentId};

/// Buffers of this size and less are kept for the next message, so that a message that waits costs
/// no allocation.
const SPARE_BYTES: usize = 4096;
/// Most buffers kept: with the bound above, 4 MiB a shard.
const SPARE_COUNT: usize = 1024;
/// A queue that has grown beyond this gives its memory back when it is empty.
const QUEUE_KEPT: usize = 256;

/// The delivery that receives the outcome of one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettlementTarget {
    /// it came settled
    Nothing,
    /// its producer
    Producer { attachment: AttachmentId, delivery_id: u32 },
    /// its producer, once all copies are answered
    Join(Key),
    /// its producer, which does not wait for this copy: its consumer is overdue
    Optional(Key),
    /// the queue it was taken from
    Queue(Seq),
    /// none: the queue keeps the browsed message
    Browsed(Seq),
    /// none: its producer has a provisional outcome, and its transaction is answered
    Posted,
    /// an operation of an administrator, for a message of this many bytes
    Operation { id: u32, bytes: u32 },
}

/// A message that waits for consumers, or of which more parts are to come.
#[derive(Debug)]
pub(super) struct Message {
    /// the producer whose window it occupies; it may have gone
    pub(super) producer: Key,
    pub(super) address: Key,
    pub(super) settlement: SettlementTarget,
    pub(super) message_format: u32,
    /// the end of the received bytes; complete while a reader has yet to begin
    pub(super) bytes: Vec<u8>,
    /// bytes that have come
    pub(super) end: u64,
    /// nothing more is to come
    pub(super) complete: bool,
    /// queues it is in
    pub(super) queued: u32,
    /// queues it is in, consumers in the middle of it, and its producer until it is complete
    pub(super) refs: u32,
    /// consumers that have yet to begin before its producer's window moves on; 0: it has
    pub(super) untaken: u32,
    /// multicast, once it is complete: since when it has been waiting, milliseconds since 1970
    pub(super) since_ms: u64,
    /// bytes counted as waiting for its producer
    pub(super) charged: usize,
    /// of a partial delivery: the consumers that have received a part, with multicast also those it
    /// waits for
    pub(super) readers: Vec<Key>,
}

impl Message {
    /// A message whose first part, or all, is `arrival`, without its bytes: referenced by its
    /// producer if more parts follow.
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
            untaken: 0,
            since_ms: 0,
            charged: 0,
            readers: Vec::new(),
        }
    }

    /// Where in the delivery `bytes` begins.
    pub(super) fn base(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    /// The received bytes from `offset` on.
    pub(super) fn after(&self, offset: u64) -> &[u8] {
        &self.bytes[(offset - self.base()) as usize..]
    }

    /// It has no readers and is in no queue.
    pub(super) fn unread(&self) -> bool {
        self.queued == 0 && self.readers.is_empty()
    }

    pub(super) fn forget_reader(&mut self, consumer: Key) {
        if let Some(at) = self.readers.iter().position(|reader| *reader == consumer) {
            self.readers.swap_remove(at);
        }
    }
}

/// All messages of a router, and buffers to be used again.
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

    pub(super) fn insert(&mut self, message: Message) -> Key {
        self.arena.insert(message)
    }

    /// Forgets a message and keeps its buffer if it is a small one.
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

/// Messages in the order they are to leave in.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    items: VecDeque<Key>,
    /// how many at the front returned from a consumer that had no room: the next to return goes
    /// behind them
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

    /// Puts a message in that had left: before all that never did, behind those that returned
    /// before it.
    pub(super) fn push_returned(&mut self, message: Key) {
        self.items.insert(self.returned, message);
        self.returned += 1;
    }

    /// Returned messages stay where they are: one that returns later left after them, so it goes
    /// before them.
    pub(super) fn close_returned(&mut self) {
        self.returned = 0;
    }

    pub(super) fn pop_front(&mut self) -> Option<Key> {
        let message = self.items.pop_front();
        self.returned = self.returned.saturating_sub(1);
        self.give_back();
        message
    }

    /// Takes a message out of the middle; whether it was there.
    pub(super) fn remove(&mut self, message: Key) -> bool {
        // Removed messages are still being received, so they are near the end.
        let Some(at) = self.items.iter().rposition(|item| *item == message) else { return false };
        self.items.remove(at);
        self.returned -= usize::from(at < self.returned);
        self.give_back();
        true
    }

    fn give_back(&mut self) {
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
