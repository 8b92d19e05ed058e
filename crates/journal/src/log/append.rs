//! Writing: batches are divided among segments, written, accounted for, and synced.

use std::collections::VecDeque;
use std::io::IoSlice;

use super::Log;
use super::active::{Active, SLACK_BYTES};
use super::batch::{Frame, Run, WriteBatch};
use super::config::{GROUP_BYTES_MAX, Refused};
use super::disk::Disk;
use super::frame::{COPY, HEAD_BYTES, Salt, padded, stamp};
use super::record::{Kind, Record, Target, put_targets};
use super::segment::{BLOCK_BYTES, first_block};

/// Consecutive frames of a batch for one segment; for a new segment if `begins` is set.
struct Piece {
    frames: std::ops::Range<usize>,
    /// Bytes that a new segment needs.
    begins: Option<u64>,
}

impl<D: Disk> Log<D> {
    /// Writes a batch. Its messages have their locations from now on, and are durable once `sync`
    /// has returned.
    ///
    /// # Errors
    /// The batch is refused: `NoRoom` (the caller may retry), `TooLarge`, or `Stopped`. The outcome
    /// is unknown: `Unsure`.
    ///
    /// # Panics
    /// A group of the batch has no end.
    pub fn append(&mut self, batch: &mut WriteBatch) -> Result<(), Refused> {
        self.check()?;
        self.fetch(batch);
        batch.runs.clear();
        let pieces = self.plan(batch)?;
        let mut numbers = self.prepare(&pieces, batch.has_new_messages)?;
        for piece in pieces {
            if piece.begins.is_some()
                && let Some((number, size)) = numbers.pop_front()
            {
                self.roll(number, size)?;
            }
            self.write(batch, &piece)?;
        }
        self.account(batch);
        Ok(())
    }

    /// Makes all appended batches durable. Their outcomes may be sent once it has returned.
    ///
    /// # Errors
    /// `Unsure` for records appended since the last successful fsync; `Stopped` if there are none.
    pub fn sync(&mut self) -> Result<(), Refused> {
        if self.dirty
            && let Some(why) = &self.stopped
        {
            return Err(Refused::Unsure(why.clone()));
        }
        self.check()?;
        if !self.dirty {
            return Ok(());
        }
        if let Some(active) = &mut self.active {
            if let Err(fault) = self.disk.sync(active.number) {
                return Err(self.stop("a sync failed", &fault));
            }
            active.set_synced();
            self.stats.syncs += 1;
        }
        self.dirty = false;
        Ok(())
    }

    /// Syncs all records, seals the active segment and lists it in the catalog, so that the next
    /// start detects the loss of a file.
    ///
    /// # Errors
    /// `Unsure` when the disk fails, and `Stopped` from then on.
    pub fn close(&mut self) -> Result<(), Refused> {
        self.sync()?;
        self.close_active()?;
        self.write_catalog();
        self.check()
    }

    /// Records how much of the log is durable. Call it after some idle time (a second, for
    /// example). The next batch records the same, but until then damage to the last records would
    /// look like an unfinished write. Costs a small write, and a write with fsync of the catalog.
    ///
    /// # Errors
    /// `Unsure` when the disk fails, and `Stopped` from then on.
    pub fn rest(&mut self) -> Result<(), Refused> {
        self.check()?;
        if !self.dirty {
            self.list_active(1);
            self.write_catalog();
            self.check()?;
        }
        let secret = self.secret;
        let dirty = self.dirty;
        let Some(active) = self.active.as_mut() else { return Ok(()) };
        if dirty || active.marked == active.end || active.room() < 64 {
            return Ok(());
        }
        let mut batch = WriteBatch::new();
        batch.push(Kind::Mark, 0, 0, |_| {}, &[]);
        stamp(&mut batch.bytes, 0, Salt::of(secret, active.number), active.end, active.synced);
        let written = self.disk.write(active.number, active.end.into(), &[IoSlice::new(&batch.bytes)]);
        active.end += batch.bytes.len() as u32;
        active.marked = active.end;
        active.index.extend_from_slice(&batch.index);
        written.map_err(|fault| self.stop("a write failed", &fault))
    }

    /// Reads the messages to copy, and appends them to the batch.
    fn fetch(&mut self, batch: &mut WriteBatch) {
        let reader = self.reader();
        let mut buffer = std::mem::take(&mut self.scratch);
        let mut copies = std::mem::take(&mut batch.copies);
        for copy in copies.iter_mut().filter(|copy| copy.frame.is_none()) {
            let heads = std::mem::take(&mut batch.heads);
            let alive = copy.targets.iter().filter(|(queue, _, _)| self.facts.exists(*queue));
            let alive: Vec<_> = alive.collect();
            let mut targets: Vec<Target<'_>> = Vec::new();
            if !alive.is_empty()
                && let Ok((known, body)) = reader.message(copy.from, &mut buffer)
            {
                let had = |queue, seq| known.clone().find(|target| target.queue == queue && target.seq == seq);
                targets.extend(alive.iter().map(|(queue, seq, head)| {
                    let head = match &heads[head.clone()] {
                        [] => had(*queue, *seq).map_or(&[][..], |target| target.head),
                        head => head,
                    };
                    Target { queue: *queue, seq: *seq, head }
                }));
                copy.written = targets.iter().map(|target| target.queue).collect();
                copy.frame = Some(batch.frames.len() as u32);
                let count = targets.len() as u32;
                batch.push(Kind::Message, COPY, count, |meta| put_targets(meta, &targets), &[body]);
                self.stats.copied += 1;
            }
            drop(targets);
            batch.heads = heads;
        }
        batch.copies = copies;
        self.scratch = buffer;
    }

    /// Divides a batch among segments. Groups are not divided, and each piece fits its segment
    /// together with its index lines.
    fn plan(&self, batch: &WriteBatch) -> Result<Vec<Piece>, Refused> {
        let mut pieces = vec![Piece { frames: 0..0, begins: None }];
        let mut room = self.active.as_ref().map_or(0, Active::room);
        let all = batch.bytes.len() as u64 + batch.index.len() as u64;
        if all <= room {
            pieces[0].frames = 0..batch.frames.len();
            return Ok(pieces);
        }
        let mut start = 0;
        while start < batch.frames.len() {
            let group = &batch.frames[start..];
            let len = group.iter().position(|frame| frame.last).expect("a group of the batch has no end") + 1;
            let bytes = span_bytes(batch, start..start + len);
            if bytes > u64::from(GROUP_BYTES_MAX) {
                return Err(Refused::TooLarge { bytes });
            }
            if bytes > room {
                let needs = bytes + BLOCK_BYTES as u64 + u64::from(SLACK_BYTES);
                pieces.push(Piece { frames: start..start, begins: Some(needs) });
                room = u64::from(self.config.segment_bytes).max(needs) - BLOCK_BYTES as u64 - u64::from(SLACK_BYTES);
            }
            let piece = pieces.last_mut().expect("there is a first one");
            piece.frames.end = start + len;
            room -= bytes;
            start += len;
        }
        pieces.retain(|piece| !piece.frames.is_empty());
        Ok(pieces)
    }

    /// Prepares all segments that a batch begins, before any part of it is written.
    fn prepare(&mut self, pieces: &[Piece], has_new_messages: bool) -> Result<VecDeque<(u32, u32)>, Refused> {
        let mut ready = VecDeque::new();
        let keep = if has_new_messages { self.config.reserve_segments } else { 0 };
        for needs in pieces.iter().filter_map(|piece| piece.begins) {
            let taken = if needs > u64::from(self.config.segment_bytes) {
                self.create_large(needs)
            } else {
                self.take_spare(keep)
            };
            match taken {
                Ok(number) => ready.push_back(number),
                Err(refused) => {
                    self.return_segments(ready);
                    return Err(refused);
                }
            }
        }
        Ok(ready)
    }

    /// Stamp the frames of a piece and write them.
    fn write(&mut self, batch: &mut WriteBatch, piece: &Piece) -> Result<(), Refused> {
        let (Some(first), Some(last)) = (batch.frames.get(piece.frames.start), batch.frames[..piece.frames.end].last())
        else {
            return Ok(());
        };
        let start = first.at as usize;
        let end = last.at as usize + padded(last.len as usize);
        let active = self.active.as_mut().expect("a piece is planned for a segment");
        let salt = Salt::of(self.secret, active.number);
        for frame in &batch.frames[piece.frames.clone()] {
            let at = frame.at as usize;
            let offset = active.end + (at - start) as u32;
            stamp(&mut batch.bytes[at..], frame.meta_len as usize, salt, offset, active.synced);
        }
        let bytes = IoSlice::new(&batch.bytes[start..end]);
        let written = if active.begun {
            self.disk.write(active.number, active.end.into(), &[bytes])
        } else {
            let block = first_block(active.number, salt.0);
            self.disk.write(active.number, 0, &[IoSlice::new(&block), bytes])
        };
        let run = Run { first: piece.frames.start as u32, segment: active.number, offset: active.end };
        active.begun = true;
        active.end += (end - start) as u32;
        active.index.extend_from_slice(&batch.index[index_span(batch, &piece.frames)]);
        self.dirty = true;
        self.stats.records += piece.frames.len() as u64;
        self.stats.appended_bytes += (end - start) as u64;
        if let Err(fault) = written {
            return Err(self.stop("a write failed", &fault));
        }
        batch.runs.push(run);
        Ok(())
    }

    /// Accounts for the bytes that a written batch added and freed.
    pub(super) fn account(&mut self, batch: &WriteBatch) {
        let mut runs = batch.runs.iter().peekable();
        let mut segment = 0;
        for (at, frame) in batch.frames.iter().enumerate() {
            if let Some(run) = runs.next_if(|run| run.first as usize == at) {
                segment = run.segment;
            }
            match frame.kind {
                Kind::Message => {
                    let known = self.space.get(segment);
                    known.messages += u64::from(frame.targets);
                    known.bytes += u64::from(frame.targets) * u64::from(frame.len);
                }
                Kind::Mark => {}
                Kind::Remove | Kind::State | Kind::Declare | Kind::Drop => self.apply_record(batch, frame, segment),
            }
        }
        for copy in batch.copies.iter().filter_map(|copy| copy.frame.map(|frame| (copy.from.segment, frame))) {
            let to = batch.runs.iter().rev().find(|run| run.first <= copy.1).map(|run| run.segment);
            if let Some(to) = to.filter(|&to| to != copy.0 && self.space.exists(copy.0)) {
                self.space.get(to).copies_from.insert(copy.0);
            }
        }
        self.space.free(&batch.freed);
    }

    fn apply_record(&mut self, batch: &WriteBatch, frame: &Frame, segment: u32) {
        let start = frame.at as usize + HEAD_BYTES;
        let meta = &batch.bytes[start..start + frame.meta_len as usize];
        match Record::decode(frame.kind as u8, meta) {
            Some(Record::Remove(removed)) => self.space.removes(segment, removed.segments),
            Some(record @ Record::Declare { queue, uid, name }) => {
                if let Some(catalog) = &mut self.catalog {
                    catalog.declare(queue, &uid, name);
                }
                self.facts.apply(&record, segment, &mut self.space);
            }
            Some(record) => self.facts.apply(&record, segment, &mut self.space),
            None => debug_assert!(false, "a record of this batch cannot be decoded"),
        }
    }
}

fn index_span(batch: &WriteBatch, frames: &std::ops::Range<usize>) -> std::ops::Range<usize> {
    let end = |at: usize| at.checked_sub(1).map_or(0, |before| batch.frames[before].index_end as usize);
    end(frames.start)..end(frames.end)
}

/// The size of some frames in a segment, with their index lines.
fn span_bytes(batch: &WriteBatch, frames: std::ops::Range<usize>) -> u64 {
    let end = batch.frames.get(frames.end).map_or(batch.bytes.len(), |frame| frame.at as usize);
    (end - batch.frames[frames.start].at as usize + index_span(batch, &frames).len()) as u64
}
