//! A batch too large for one commit is written in chunks, each with its own fsync. Other batches
//! are committed in between.
//!
//! The batch is written to an empty segment. The header of that segment is written last, when the
//! whole batch and all earlier segments are durable. The header makes the batch part of the log, so
//! the format does not need to describe chunks. A crash before that leaves a spare.
//!
//! Segments are used in the order of their numbers, so other batches use the spares with lower
//! numbers in the meantime. When those are used up, or a group needs a segment of its own, the
//! staged batch is completed first.

use std::io::IoSlice;

use super::Log;
use super::active::{Active, SLACK_BYTES};
use super::batch::{Run, WriteBatch};
use super::config::{GROUP_BYTES_MAX, Refused};
use super::disk::Disk;
use super::frame::{Salt, stamp};
use super::record::Kind;
use super::segment::{BLOCK_BYTES, first_block};

/// A batch of at least one fourth of a segment is staged even if it fits the active segment, whose
/// remaining space is then unused. A smaller batch is not, because it would waste more space than
/// it needs.
const STAGED_SEGMENT_DIVISOR: u64 = 4;

/// The batch that is being written.
pub(super) struct Staged {
    batch: WriteBatch,
    number: u32,
    size: u32,
    /// Bytes of the batch that are durable.
    written: usize,
    /// Its segment has a header, so the batch is part of the log.
    complete: bool,
}

impl<D: Disk> Log<D> {
    /// Whether [`Log::stage`] should write a batch, if none is staged. A batch with copies is not
    /// staged: its segment would have so much unused space that it is compacted next.
    #[must_use]
    pub fn stages(&self, batch: &WriteBatch) -> bool {
        let bytes = batch.cost();
        let room = self.active.as_ref().map_or(0, Active::room);
        let wasteful = bytes <= room && bytes < u64::from(self.config.segment_bytes) / STAGED_SEGMENT_DIVISOR;
        let large = bytes > u64::from(self.config.commit_bytes) && bytes <= u64::from(GROUP_BYTES_MAX);
        large && !wasteful && batch.copies.is_empty()
    }

    /// Stages a batch, which [`Log::write_chunk`] then writes; one at a time. All its space is
    /// allocated here, so the disk cannot become full between chunks. After a crash either all of
    /// the batch is in the log or none of it.
    ///
    /// # Errors
    /// The batch is not staged: `NoRoom`, or `Stopped`; `Unsure` when the disk fails.
    ///
    /// # Panics
    /// Another batch is staged, or this one has copies.
    pub fn stage(&mut self, batch: &mut WriteBatch) -> Result<(), Refused> {
        assert!(self.staged.is_none() && batch.copies.is_empty(), "one batch is staged at a time, without copies");
        self.check()?;
        batch.runs.clear();
        let room = u64::from(SLACK_BYTES) + BLOCK_BYTES as u64;
        let needs = batch.bytes.len() as u64 + batch.index.len() as u64 + room;
        let keep = if batch.has_new_messages { self.config.reserve_segments } else { 0 };
        let (number, size) = if needs > u64::from(self.config.segment_bytes) {
            let number = self.number();
            self.disk.create(number, needs).map_err(Refused::NoRoom)?;
            (number, needs as u32)
        } else {
            while self.spares.len() <= keep {
                self.add_spare()?;
            }
            // The last one: other batches use those before it.
            (self.spares.pop_back().expect("there are more than are kept"), self.config.segment_bytes)
        };
        let salt = Salt::of(self.secret, number);
        for frame in &batch.frames {
            let offset = BLOCK_BYTES as u32 + frame.at;
            stamp(&mut batch.bytes[frame.at as usize..], frame.meta_len as usize, salt, offset, BLOCK_BYTES as u32);
        }
        self.staged = Some(Staged { batch: std::mem::take(batch), number, size, written: 0, complete: false });
        Ok(())
    }

    /// Writes the next chunk of the staged batch and syncs it. Returns the batch once it and all
    /// batches appended before it are durable, or once the log has stopped. `None`: more chunks
    /// follow, or no batch is staged.
    pub fn write_chunk(&mut self) -> Option<(WriteBatch, Result<(), Refused>)> {
        self.staged.as_ref()?;
        let result = self.check().and_then(|()| self.advance());
        let staged = self.staged.take_if(|staged| staged.complete || result.is_err())?;
        Some((staged.batch, result))
    }

    /// Bytes of the next chunk.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        let left = |staged: &Staged| staged.batch.bytes.len().saturating_sub(staged.written) as u64;
        self.staged.as_ref().map_or(0, left).min(self.config.commit_bytes.into())
    }

    fn advance(&mut self) -> Result<(), Refused> {
        let chunk = self.chunk_bytes() as usize;
        let Some(staged) = self.staged.as_mut().filter(|staged| !staged.complete) else { return Ok(()) };
        let bytes = &staged.batch.bytes[staged.written..staged.written + chunk];
        let at = (BLOCK_BYTES + staged.written) as u64;
        let written = self.disk.write(staged.number, at, &[IoSlice::new(bytes)]);
        let synced = written.and_then(|()| self.disk.sync(staged.number));
        staged.written += chunk;
        self.stats.syncs += 1;
        let whole = staged.written == staged.batch.bytes.len();
        if let Err(fault) = synced {
            self.stop("a write failed", &fault);
            // The segment has no header, so recovery ignores it.
            return self.check();
        }
        if whole { self.complete() } else { Ok(()) }
    }

    /// Makes the staged batch part of the log: its segment follows all others.
    fn complete(&mut self) -> Result<(), Refused> {
        let Some(mut staged) = self.staged.take() else { return Ok(()) };
        let completed = self.begin_segment_of(&staged);
        if completed.is_ok() {
            staged.batch.runs.push(Run { first: 0, segment: staged.number, offset: BLOCK_BYTES as u32 });
            self.account(&staged.batch);
            staged.complete = true;
        }
        self.staged = Some(staged);
        completed
    }

    fn begin_segment_of(&mut self, staged: &Staged) -> Result<(), Refused> {
        self.raise_spares(staged.number)?;
        self.close_active()?;
        self.space.get(staged.number).size = staged.size.into();
        let mut active = Active::new(staged.number, staged.size);
        active.begun = true;
        active.end += staged.batch.bytes.len() as u32;
        active.index.extend_from_slice(&staged.batch.index);
        // A mark at the end records that all of it is durable, so an error before it is damage.
        let salt = Salt::of(self.secret, staged.number);
        let mut mark = WriteBatch::new();
        mark.push(Kind::Mark, 0, 0, |_| {}, &[]);
        stamp(&mut mark.bytes, 0, salt, active.end, active.end);
        let marked = self.disk.write(staged.number, active.end.into(), &[IoSlice::new(&mark.bytes)]);
        active.end += mark.bytes.len() as u32;
        active.marked = active.end;
        active.index.extend_from_slice(&mark.index);
        let block = first_block(staged.number, salt.0);
        let written = marked.and_then(|()| self.disk.write(staged.number, 0, &[IoSlice::new(&block)]));
        let synced = written.and_then(|()| self.disk.sync(staged.number));
        active.set_synced();
        self.active = Some(active);
        self.dirty = synced.is_err();
        self.stats.syncs += 1;
        self.stats.records += staged.batch.frames.len() as u64;
        self.stats.appended_bytes += staged.batch.bytes.len() as u64;
        synced.map_err(|fault| self.stop("a staged batch cannot be completed", &fault))
    }

    /// Completes the staged batch before a segment with a higher number begins.
    pub(super) fn complete_staged_below(&mut self, number: u32) -> Result<(), Refused> {
        while self.staged.as_ref().is_some_and(|staged| !staged.complete && staged.number < number) {
            self.advance()?;
        }
        Ok(())
    }
}
