//! The configuration of the log, and its errors.

use super::disk::Fault;
use super::segment::BLOCK_BYTES;

/// How the log uses its disk.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Size of a segment. A group of records that is larger gets a segment of its own. From 16 KiB
    /// to 1 GiB; smaller ones give space back sooner, larger ones have fewer pauses (a sync and an
    /// index each).
    pub segment_bytes: u32,
    /// Empty segments that new messages never use, so that removals, state, drops and compaction
    /// continue when the disk is full.
    pub reserve_segments: usize,
    /// Empty segments kept for use: those written once before make cheaper commits than fresh ones.
    /// At least the reserve and one.
    pub spare_segments_max: usize,
    /// Compaction starts when the log is larger than twice its live bytes plus this many segments.
    pub slack_segments: u32,
    /// What one sync makes durable at most, but for a batch that cannot be divided. Larger ones are
    /// written in chunks of this size ([`Log::stage`](super::Log::stage)).
    pub commit_bytes: u32,
    /// A random number for a new log: it prevents messages that imitate records.
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

/// Bytes of a group of records at most.
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

/// Why a batch was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no room for another segment: nothing of it is in the log. The batch may be offered
    /// again when there is.
    #[error("no room for another segment: {0}")]
    NoRoom(Fault),
    /// A group of records is too large ever to be taken.
    #[error("a group of {bytes} bytes is over the limit of {GROUP_BYTES_MAX}")]
    TooLarge {
        /// Its bytes.
        bytes: u64,
    },
    /// A write or a sync of it has failed, and the log has stopped: it may be there after the next
    /// start, or not.
    #[error("it may or may not be on disk: {0}")]
    Unsure(String),
    /// An earlier write or fsync failed: the log accepts no writes; reads continue. Only opening
    /// the log again helps.
    #[error("the log has stopped: {0}")]
    Stopped(String),
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
    /// Messages that are alive, counted once for each queue that has them.
    pub alive_messages: u64,
    /// Bytes that are needed: of those messages (once for each queue, yet never more than their
    /// segment has), and of state and removals where they fill a segment.
    pub alive_bytes: u64,
    /// Records appended since the log was opened.
    pub records: u64,
    /// Bytes appended since then.
    pub appended_bytes: u64,
    /// Syncs since then.
    pub syncs: u64,
    /// Messages written again so that their segment can go.
    pub copied: u64,
}
