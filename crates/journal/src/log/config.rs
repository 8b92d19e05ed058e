//! The configuration of the log, and its errors.

use super::disk::Fault;
use super::segment::BLOCK_BYTES;

/// How the log uses its disk.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Size of a segment, from 16 KiB to 1 GiB. A larger group of records gets a segment of its
    /// own. Small segments are reclaimed sooner; large ones cause fewer pauses (an fsync and an
    /// index each).
    pub segment_bytes: u32,
    /// Empty segments that new messages never use, so that removals, state, drops and compaction
    /// continue when the disk is full.
    pub reserve_segments: usize,
    /// Empty segments kept for reuse: commits to a segment that was written before are cheaper. At
    /// least one more than the reserve.
    pub spare_segments_max: usize,
    /// Compaction starts when the log is larger than twice its live bytes plus this many segments.
    pub slack_segments: u32,
    /// Maximum bytes of one commit, except for a batch that cannot be divided. Larger batches are
    /// written in chunks of this size ([`Log::stage`](super::Log::stage)).
    pub commit_bytes: u32,
    /// A random number for a new log, so that no message body can imitate a record.
    pub secret: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            reserve_segments: 2,
            spare_segments_max: 6,
            slack_segments: 4,
            commit_bytes: 4 << 20,
            secret: 0,
        }
    }
}

impl Config {
    pub(super) fn checked(self) -> Self {
        let segment_bytes = self.segment_bytes.clamp(4 * BLOCK_BYTES as u32, GROUP_BYTES_MAX);
        let spare_segments_max = self.spare_segments_max.max(self.reserve_segments + 1);
        Self { segment_bytes, spare_segments_max, commit_bytes: self.commit_bytes.max(1), ..self }
    }
}

/// Maximum bytes of a group of records.
pub const GROUP_BYTES_MAX: u32 = 1 << 30;

/// Why the log cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It was written by another version of this program.
    #[error("segment {segment} has format {found}, this version reads {known}: use the version that wrote it")]
    Version {
        /// The segment with the unknown format.
        segment: u32,
        /// Its format.
        found: u32,
        /// The format that can be read.
        known: u32,
    },
    /// The disk cannot be read.
    #[error("the log cannot be read: {0}")]
    Disk(#[from] Fault),
}

/// Why a batch was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The disk has no space for another segment; no part of the batch is in the log. The caller
    /// may retry when there is space.
    #[error("no room for another segment: {0}")]
    NoRoom(Fault),
    /// A group of records exceeds the limit.
    #[error("a group of {bytes} bytes is over the limit of {GROUP_BYTES_MAX}")]
    TooLarge {
        /// Its bytes.
        bytes: u64,
    },
    /// A write or an fsync of the batch failed, and the log has stopped: the batch may or may not
    /// be there after the next start.
    #[error("the batch may or may not be on disk: {0}")]
    Unsure(String),
    /// An earlier write or fsync failed: the log accepts no writes until it is reopened; reads
    /// continue.
    #[error("the log has stopped: {0}")]
    Stopped(String),
    /// Another part of its joint group was declined for this reason; no part is in the log.
    #[error("{0}")]
    Declined(String),
}

/// Statistics of the log, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Segments with records.
    pub segments: u64,
    /// Empty segments ready for use.
    pub spares: u64,
    /// Bytes of all segments with records.
    pub used_bytes: u64,
    /// Live messages, counted once for each queue that has them.
    pub alive_messages: u64,
    /// Live bytes: of those messages (once for each queue, but at most the size of their segment),
    /// and of state and removals where they fill a segment.
    pub alive_bytes: u64,
    /// Records appended since the log was opened.
    pub records: u64,
    /// Bytes appended since then.
    pub appended_bytes: u64,
    /// fsync calls since then.
    pub syncs: u64,
    /// Messages copied by compaction.
    pub copied: u64,
}
