//! The segment that is written to.

use super::segment::BLOCK_BYTES;

/// Extra space for an index that becomes larger than estimated.
pub(super) const SLACK_BYTES: u32 = 256;

/// The segment that is written to.
pub(super) struct Active {
    pub(super) number: u32,
    size: u32,
    /// Its first block is written.
    pub(super) begun: bool,
    /// Offset of the next frame.
    pub(super) end: u32,
    /// End of the durable bytes.
    pub(super) synced: u32,
    /// `end` after the last mark.
    pub(super) marked: u32,
    pub(super) index: Vec<u8>,
    /// Bytes of the index whose records are durable.
    pub(super) synced_lines: usize,
    pub(super) listed: ListedUpTo,
}

/// The part of a segment that the catalog lists.
pub(super) struct ListedUpTo {
    pub(super) end: u32,
    /// Bytes of the index.
    pub(super) lines: usize,
}

impl Active {
    pub(super) fn new(number: u32, size: u32) -> Self {
        let first = BLOCK_BYTES as u32;
        Self {
            number,
            size,
            begun: false,
            end: first,
            synced: first,
            marked: first,
            index: Vec::new(),
            synced_lines: 0,
            listed: ListedUpTo { end: first, lines: 0 },
        }
    }

    /// Records that all of it is durable.
    pub(super) fn set_synced(&mut self) {
        (self.synced, self.synced_lines) = (self.end, self.index.len());
    }

    /// Bytes that frames and their lines may still take.
    pub(super) fn room(&self) -> u64 {
        let taken = u64::from(self.end) + self.index.len() as u64 + u64::from(SLACK_BYTES);
        u64::from(self.size).saturating_sub(taken)
    }
}
