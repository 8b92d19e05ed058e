//! A restart: rebuilds the index from the index entries of the blocks, without reading messages.

use super::block::BlockHead;
use super::index::Block;
use super::{Partition, Settings};
use crate::log::{RecordLocation, RecoveredQueue};
use crate::queue::Marker;

/// The state key under which the log keeps the end of a partition without blocks.
pub const ENDED_KEY: [u8; 1] = [0x90];
const ENDED_BYTES: usize = 16;

/// Stored messages that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// offset of the first
    pub first: u64,
    /// offset of the last
    pub last: u64,
}

/// A partition restored from the log.
#[derive(Debug)]
pub struct Restored {
    /// the partition
    pub partition: Partition,
    /// unneeded records of the log, which the caller removes
    pub superfluous: Vec<(u64, RecordLocation)>,
    /// messages that are missing
    pub lost: Vec<Lost>,
}

impl Restored {
    /// Adds the lost blocks behind the last one. Their offsets are not reused.
    fn note_lost_end(&mut self, recovered: &RecoveredQueue) {
        let newest = recovered.newest_listed.as_deref().and_then(BlockHead::decode);
        let Some(newest) = newest else { return };
        let (end, partition) = (newest.first.saturating_add(newest.count.into()), &mut self.partition);
        if end > partition.next {
            if !partition.blocks.is_empty() {
                self.lost.push(Lost { first: partition.next, last: end - 1 });
            }
            (partition.next, partition.newest_ms) = (end, partition.newest_ms.max(newest.last_ms));
        }
    }

    /// Adds the lost blocks before the first one, which leave no gap between offsets. If the head
    /// of the oldest is unknown, the number of messages is too, and each block counts as one.
    fn note_lost_front(&mut self, first: u64, recovered: &RecoveredQueue) {
        let blocks: u64 = recovered.lost.iter().map(|range| range.last - range.first + 1).sum();
        let end = if self.partition.blocks.is_empty() { self.partition.next } else { first };
        let oldest = recovered.oldest_lost.as_deref().and_then(BlockHead::decode);
        let from = match oldest {
            Some(oldest) => oldest.first,
            None if self.lost.is_empty() => end.saturating_sub(blocks),
            None => end,
        };
        if from < end {
            self.lost.push(Lost { first: from, last: end - 1 });
        }
    }
}

impl Partition {
    /// The state to log under [`ENDED_KEY`] when no block is left, so that no offset is used again.
    #[must_use]
    pub fn ended(&self) -> Option<[u8; ENDED_BYTES]> {
        if !self.blocks.is_empty() {
            return None;
        }
        let mut value = [0; ENDED_BYTES];
        value[..8].copy_from_slice(&self.next.to_le_bytes());
        value[8..].copy_from_slice(&self.newest_ms.to_le_bytes());
        Some(value)
    }

    /// Restores a partition from the log. A block whose messages are in other blocks too is
    /// superfluous; a crash during compaction may leave such blocks. Messages missing between
    /// two blocks are lost.
    #[must_use]
    pub fn restore(settings: &Settings, recovered: &RecoveredQueue) -> Restored {
        let mut restored = Restored { partition: Self::new(settings), superfluous: Vec::new(), lost: Vec::new() };
        let mut blocks = Vec::with_capacity(recovered.len());
        for message in recovered.messages() {
            match BlockHead::decode(message.head) {
                Some(head) => blocks.push((head, message)),
                None => restored.superfluous.push((message.seq, message.place)),
            }
        }
        blocks.sort_by_key(|(head, message)| (head.first, std::cmp::Reverse(head.count), message.seq));
        let partition = &mut restored.partition;
        partition.next_record = recovered.next_seq;
        let first = blocks.first().map_or(0, |(head, _)| head.first);
        for (head, message) in blocks {
            let bytes = message.place.len.saturating_sub(message.head.len() as u32);
            let block =
                Block { damaged: message.damaged, ..Block::new(message.seq, head, message.place, bytes.into()) };
            let known = partition.blocks.back().is_some();
            if known && block.end() <= partition.next {
                restored.superfluous.push((message.seq, message.place));
                continue;
            }
            if known && block.first > partition.next {
                restored.lost.push(Lost { first: partition.next, last: block.first - 1 });
            }
            if block.damaged {
                restored.lost.push(Lost { first: block.first, last: block.end() - 1 });
            }
            partition.next = block.end();
            partition.newest_ms = partition.newest_ms.max(block.last_ms);
            partition.push(block);
        }
        restored.partition.restore_states(recovered);
        restored.note_lost_end(recovered);
        restored.note_lost_front(first, recovered);
        restored
    }

    fn restore_states(&mut self, recovered: &RecoveredQueue) {
        let ended = recovered.states.get(&ENDED_KEY[..]).and_then(|value| value.first_chunk::<ENDED_BYTES>());
        if let Some(ended) = ended {
            let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n: u64, byte| n << 8 | u64::from(*byte));
            self.next = self.next.max(number(&ended[..8]));
            self.newest_ms = self.newest_ms.max(number(&ended[8..]));
        }
        for (key, value) in &recovered.states {
            if let Some(marker) = Marker::decode(key, value) {
                self.duplicate_history.restore(marker);
            }
        }
        self.duplicate_history.resume();
    }
}
