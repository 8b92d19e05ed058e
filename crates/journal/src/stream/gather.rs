//! Incoming messages: they are gathered in blocks, and get their offsets when a block is passed to
//! the log.

use super::Partition;
use super::block::{self, BLOCK_HEAD_BYTES, BlockHead};
use super::index::Block;
use crate::log::RecordLocation;
use crate::queue::{Head, Marker, NUMBERED_PRODUCERS_MAX};

/// Empty blocks kept for their allocations.
const SPARE_BLOCKS: usize = 4;

/// The identity by which duplicates are recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// digest of its message id
    pub message_id: Option<u128>,
    /// digest of its producer's name, and the sequence number of the message
    pub producer: Option<(u128, u64)>,
}

/// The result of offering a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// it is new: gather it
    New,
    /// accept it, store nothing
    Duplicate {
        /// the ticket of the original, if it is not committed: accept the duplicate only after it
        of: Option<u64>,
    },
    /// the limit of numbered producers is reached
    TooManyProducers,
}

/// A block that is being filled.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    /// positions in the bytes for the offset of each message
    offsets_at: Vec<u32>,
    markers: Vec<Marker>,
    first_ms: u64,
    last_ms: u64,
}

/// A block that was passed to the log and is not yet on disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlightBlock {
    record: u64,
    head: BlockHead,
}

/// A block for the log.
#[derive(Clone, Copy, Debug)]
pub struct FilledBlock<'a> {
    /// its number in the log
    pub record: u64,
    /// its encoded index entry
    pub head: [u8; BLOCK_HEAD_BYTES],
    /// the messages
    pub body: &'a [u8],
    /// written atomically with it
    pub markers: &'a [Marker],
}

impl Partition {
    /// Checks whether a received message is a duplicate.
    pub fn offer(&mut self, now_ms: u64, identity: Identity) -> Offer {
        if identity == Identity::default() {
            return Offer::New;
        }
        let head = head_of(identity);
        if let Some(original) = self.duplicate_history.original(now_ms, &head) {
            self.stats.duplicates += 1;
            let pending = (self.answered..self.tickets).contains(&original.0);
            return Offer::Duplicate { of: pending.then_some(original.0) };
        }
        match identity.producer {
            Some((name, _)) if !self.duplicate_history.accepts_producer(name, NUMBERED_PRODUCERS_MAX) => {
                self.stats.refused += 1;
                Offer::TooManyProducers
            }
            _ => Offer::New,
        }
    }

    /// Appends a message to the gathered ones, and returns its ticket. `put` receives the arrival
    /// time, appends the message with eight bytes for its big-endian offset, and returns their
    /// position; `None` withdraws the message.
    pub fn gather(
        &mut self,
        now_ms: u64,
        identity: Identity,
        name: Option<&str>,
        bytes_estimate: usize,
        put: impl FnOnce(&mut Vec<u8>, u64) -> Option<usize>,
    ) -> Option<u64> {
        let at_ms = now_ms.max(self.newest_ms);
        let full =
            |block: &Gathered| block.bytes.len() + bytes_estimate > self.block_bytes && !block.offsets_at.is_empty();
        if self.gathered.back().is_none_or(full) {
            let block = self.spare.pop().unwrap_or_default();
            self.gathered.push_back(Gathered { first_ms: at_ms, ..block });
        }
        let block = self.gathered.back_mut()?;
        let start = block.bytes.len();
        block::begin(&mut block.bytes, at_ms, name);
        let from = block.bytes.len();
        let Some(offset_at) = put(&mut block.bytes, at_ms) else {
            block.bytes.truncate(start);
            if block.offsets_at.is_empty() {
                self.gathered.pop_back();
            }
            return None;
        };
        let bytes = block.bytes.len() - from;
        block::end(&mut block.bytes, start, bytes);
        block.offsets_at.push(offset_at as u32);
        block.last_ms = at_ms;
        self.newest_ms = at_ms;
        let ticket = self.tickets;
        self.tickets += 1;
        if identity != Identity::default() {
            block.markers.extend(self.duplicate_history.add(now_ms, ticket, &head_of(identity)).into_iter().flatten());
        }
        Some(ticket)
    }

    /// Whether messages are gathered and no block is in flight.
    #[must_use]
    pub fn may_flush(&self) -> bool {
        self.in_flight.is_empty() && !self.gathered.is_empty()
    }

    /// Whether a block is in flight.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Assigns offsets to all gathered messages and passes their blocks to the log, if
    /// [`Partition::may_flush`]. The caller puts the blocks into one batch, because they must be
    /// stored all or not at all.
    pub fn flush(&mut self, mut put: impl FnMut(&FilledBlock<'_>)) {
        if !self.may_flush() {
            return;
        }
        let mut next = self.next;
        while let Some(mut block) = self.gathered.pop_front() {
            let first = next;
            for at in &block.offsets_at {
                let at = *at as usize;
                block.bytes[at..at + 8].copy_from_slice(&next.to_be_bytes());
                next += 1;
            }
            let head = BlockHead {
                first,
                count: block.offsets_at.len() as u32,
                first_ms: block.first_ms,
                last_ms: block.last_ms,
            };
            let record = self.record();
            put(&FilledBlock { record, head: head.encode(), body: &block.bytes, markers: &block.markers });
            self.in_flight.push_back(InFlightBlock { record, head });
            if self.spare.len() < SPARE_BLOCKS {
                block.bytes.clear();
                block.offsets_at.clear();
                block.markers.clear();
                self.spare.push(block);
            }
        }
    }

    pub(super) fn record(&mut self) -> u64 {
        let record = self.next_record;
        self.next_record += 1;
        record
    }

    /// Commits the oldest block in flight, which the log has written, and returns its number of
    /// messages. Readers can read them from now on.
    pub fn committed(&mut self, place: RecordLocation, bytes: u64) -> u32 {
        let Some(InFlightBlock { record, head }) = self.in_flight.pop_front() else { return 0 };
        debug_assert_eq!(head.first, self.next, "blocks are committed in order");
        for _ in 0..head.count {
            self.duplicate_history.commit(self.answered);
            self.answered += 1;
        }
        self.next = head.first + u64::from(head.count);
        self.stats.enqueued += u64::from(head.count);
        self.push(Block::new(record, head, place, bytes));
        head.count
    }

    /// Withdraws the oldest block in flight, which the log has refused, and returns the number of
    /// withdrawn messages. Their offsets are reused. If a numbered producer has later messages, all
    /// gathered messages are withdrawn too, because a refused message could not be sent again after
    /// a stored later one.
    pub fn refused(&mut self) -> u32 {
        let Some(InFlightBlock { head, .. }) = self.in_flight.pop_front() else { return 0 };
        let mut count = self.withdraw(head.count);
        if self.in_flight.is_empty() && self.duplicate_history.has_gaps() {
            while let Some(block) = self.gathered.pop_front() {
                count += self.withdraw(block.offsets_at.len() as u32);
            }
        }
        count
    }

    fn withdraw(&mut self, count: u32) -> u32 {
        for _ in 0..count {
            self.duplicate_history.withdraw(self.answered);
            self.answered += 1;
        }
        self.stats.refused += u64::from(count);
        count
    }

    /// The number of messages committed or withdrawn, which is the ticket of the next one.
    #[must_use]
    pub const fn answered(&self) -> u64 {
        self.answered
    }
}

fn head_of(identity: Identity) -> Head {
    Head { message_id: identity.message_id, producer: identity.producer, ..Head::default() }
}
