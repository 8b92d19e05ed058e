//! How a consumer reads a stream.

use std::sync::Arc;

use enmasse_amqp::codec::stamp::Stamp;
use enmasse_amqp::selector::{Selector, Subject};
use enmasse_journal::log::RecordLocation;
use enmasse_journal::stream::Entry;

use super::super::Filter;
use super::super::storage::Bodies;

/// How a consumer reads a stream.
#[derive(Debug)]
pub(in crate::core) struct Reading {
    pub(in crate::core) selector: Option<Arc<Selector>>,
    /// the requested names of those that the address covers
    pub(in crate::core) filter: Option<Filter>,
    /// the address's own name is requested
    pub(in crate::core) matches_own_name: bool,
    /// its deliveries are sent settled
    pub(in crate::core) settled: bool,
    pub(in crate::core) positions: Vec<Position>,
    /// the partition whose turn it is
    pub(in crate::core) turn: usize,
}

/// The position of a reader in a partition.
#[derive(Debug)]
pub(in crate::core) struct Position {
    pub(in crate::core) partition: u32,
    /// offset of the next message
    pub(in crate::core) next: u64,
    /// older messages are skipped, milliseconds since 1970
    pub(in crate::core) since_ms: u64,
    /// it requested the oldest message and has examined none yet: retention may move it
    pub(in crate::core) from_oldest: bool,
    pub(in crate::core) within: Option<BlockPosition>,
    /// requested blocks, to be released
    pub(in crate::core) held: Vec<RecordLocation>,
}

/// The position of a reader within a block.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct BlockPosition {
    pub(in crate::core) place: RecordLocation,
    /// offset after the last message of the block
    pub(in crate::core) end: u64,
    /// index of the next message in the body
    pub(in crate::core) at: usize,
}

impl Reading {
    /// Whether its filter and its selector match a message.
    #[inline]
    pub(in crate::core) fn wants(&self, entry: &Entry<'_>, now_ms: u64) -> bool {
        if self.selector.is_none() && self.filter.is_none() {
            return true;
        }
        let named = match (&self.filter, entry.name) {
            (Some(filter), Some(name)) => filter.matches(name),
            _ => self.matches_own_name || entry.name.is_some(),
        };
        let selects =
            |selector: &Arc<Selector>| selector.selects(&Subject::new(entry.message).at(now_ms.cast_signed()));
        named && self.selector.as_ref().is_none_or(selects)
    }

    /// Releases the blocks that it requested.
    pub(in crate::core) fn release_blocks(&mut self, bodies: &mut Bodies) {
        for position in &mut self.positions {
            position.held.drain(..).for_each(|place| bodies.release(place));
        }
    }

    /// Moves the position back to a returned message.
    pub(in crate::core) fn rewind(&mut self, stamp: Stamp) {
        let position = self.positions.iter_mut().find(|position| position.partition == stamp.partition);
        if let Some(position) = position.filter(|position| position.next > stamp.offset) {
            (position.next, position.within) = (stamp.offset, None);
        }
    }

    /// The partition where retention overtook it: the current one.
    pub(in crate::core) fn overtaken(&self) -> u32 {
        self.positions.get(self.turn).map_or(0, |position| position.partition)
    }
}
