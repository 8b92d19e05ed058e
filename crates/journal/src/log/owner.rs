//! The log's owner: appends and commits batches, and manages segments.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

use super::batch::{Frame, Run, WriteBatch};
use super::catalog::{CATALOG, Catalog, CatalogEntries, Listed, losses};
use super::config::{Config, GROUP_BYTES_MAX, LogStats, OpenError, Refused};
use super::disk::{Disk, Fault};
use super::facts::Facts;
use super::frame::{COPY, Salt, stamp};
use super::read::Reader;
use super::record::{Kind, Record, Target, put_targets};
use super::recover::{Lines, Recovered, Replay, lines};
use super::scan::Extent;
use super::segment::{BLOCK_BYTES, FORMAT_VERSION, HeaderState, Seal, first_block, open, sealed_block};
use super::space::Space;
use super::staged::Staged;

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

/// Consecutive frames of a batch for one segment; for a new segment if `begins` is set.
struct Piece {
    frames: std::ops::Range<usize>,
    /// Bytes that a new segment needs.
    begins: Option<u64>,
}

/// The log; see the module.
pub struct Log<D> {
    pub(super) disk: Arc<D>,
    pub(super) config: Config,
    pub(super) secret: u32,
    pub(super) active: Option<Active>,
    /// The batch that is written chunk by chunk, if there is one.
    pub(super) staged: Option<Staged>,
    /// Empty segments, in rising order, all above the active one.
    pub(super) spares: VecDeque<u32>,
    next_number: u32,
    pub(super) space: Space,
    pub(super) facts: Facts,
    /// Something was appended since the last sync.
    pub(super) dirty: bool,
    stopped: Option<String>,
    pub(super) stats: LogStats,
    scratch: Vec<u8>,
    pub(super) read_fault: Option<(u32, Fault)>,
    compacting: Option<u32>,
    /// The catalog; none if the disk had no space for it.
    pub(super) catalog: Option<Catalog>,
}

impl<D> std::fmt::Debug for Log<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let active = self.active.as_ref().map(|active| active.number);
        let mut log = f.debug_struct("Log");
        log.field("active", &active).field("spares", &self.spares).field("segments", &self.space.segments);
        log.field("stopped", &self.stopped).finish_non_exhaustive()
    }
}

impl<D: Disk> Log<D> {
    /// Opens the log of a disk, or creates one on an empty disk. Reads the indexes of sealed
    /// segments, and the records of the last segment with their bodies.
    ///
    /// # Errors
    /// `Version` if another format is found, `Disk` if the disk cannot be read. If it cannot be
    /// written, the log opens and has stopped.
    pub fn open(disk: Arc<D>, config: Config) -> Result<(Self, Recovered), OpenError> {
        let config = config.checked();
        // The log opens without the catalog, so an unreadable one is ignored.
        let catalogued = CatalogEntries::on(&*disk).unwrap_or_default();
        let mut found = DiskContents::on(&*disk)?;
        found.apply_catalog(&catalogued);
        let secret = found.secret.unwrap_or(config.secret);
        let mut replay = Replay::default();
        let (mut tail, mut segments) = (None, BTreeMap::new());
        let mut suspects: BTreeSet<u32> = catalogued.segments.keys().copied().collect();
        for (at, &number) in found.used.iter().enumerate() {
            let extent = catalogued.extent(number, at + 1 == found.used.len());
            let lines = lines(&*disk, number, Salt::of(secret, number).0, extent)?;
            let listed = catalogued.segments.get(&number);
            let listed = listed.filter(|listed| listed.is_whole(lines.end) && lines.gaps.is_empty());
            if listed.is_some() {
                suspects.remove(&number);
            }
            let full = listed.filter(|listed| listed.is_full()).cloned();
            segments.insert(number, full.unwrap_or_else(|| Listed::full(number, lines.end, &lines.index)));
            replay.segment(number, disk.length(number)?, &lines);
            if extent != Extent::Whole {
                tail = Some((number, lines));
            }
        }
        let losses = losses(&*disk, &found.used, secret, &suspects, &catalogued)?;
        for (segment, lost) in suspects.iter().filter_map(|it| Some((it, catalogued.segments.get(it)?))) {
            replay.add_missing_end(*segment, lost.end());
        }
        let (recovered, space, facts) = replay.finish(&catalogued, &losses);
        let mut log = Self {
            disk,
            config,
            secret,
            active: None,
            staged: None,
            spares: VecDeque::new(),
            next_number: found.next_number,
            space,
            facts,
            dirty: false,
            stopped: None,
            stats: LogStats::default(),
            scratch: Vec::new(),
            read_fault: None,
            compacting: None,
            catalog: None,
        };
        if let Err(fault) = log.seal_and_renumber(tail, &found.spares) {
            log.stop("the last segment cannot be closed", &fault);
            return Ok((log, recovered));
        }
        let named = recovered.queues.iter().filter_map(|queue| Some((queue.queue, queue.declared.as_ref()?)));
        log.create_catalog(named.map(|(queue, (uid, name))| (queue, uid, name.as_str())), &segments);
        log.rewrite_declarations(&recovered);
        Ok((log, recovered))
    }

    /// Seals the last segment, so that bytes behind its end are never read as records, and
    /// renumbers the spares, so that unfinished records in them never are either.
    fn seal_and_renumber(&mut self, tail: Option<(u32, Lines)>, spares: &[u32]) -> Result<(), Fault> {
        if let Some((number, lines)) = tail {
            self.seal(number, lines.end, &lines.index)?;
        }
        for &spare in spares {
            let usable = self.disk.length(spare)? == u64::from(self.config.segment_bytes);
            if usable && self.spares.len() < self.config.spare_segments_max {
                let number = self.number();
                self.disk.recycle(spare, number)?;
                self.spares.push_back(number);
            } else {
                self.disk.remove(spare)?;
            }
        }
        if spares.is_empty() { Ok(()) } else { self.disk.sync_folder() }
    }

    /// Creates the segments that the first message needs, so that a disk that is too small is
    /// reported at start and not by the first message.
    ///
    /// # Errors
    /// `NoRoom`; `Stopped` or `Unsure` when the disk fails.
    pub fn begin(&mut self) -> Result<(), Refused> {
        self.check()?;
        while self.space.segments.is_empty() && self.lacks_spare() {
            self.add_spare()?;
        }
        Ok(())
    }

    /// A reader of messages, for any thread.
    #[must_use]
    pub fn reader(&self) -> Reader<D> {
        Reader::new(Arc::clone(&self.disk), self.secret)
    }

    /// The disk of the log.
    #[must_use]
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Why the log has stopped, if it has.
    #[must_use]
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Statistics of the log.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        let (used_bytes, alive_bytes) = self.space.totals();
        let segments = self.space.segments.len() as u64;
        let alive_messages = self.space.segments.values().map(|segment| segment.messages).sum();
        let spares = self.spares.len() as u64;
        LogStats { segments, spares, used_bytes, alive_messages, alive_bytes, ..self.stats }
    }

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

    /// The segment to compact: the queues should copy its live messages (`WriteBatch::copy`), some
    /// each turn. It is the same segment until it has no live message. `None` while the log is
    /// smaller than twice its live bytes.
    pub fn wants_compacted(&mut self) -> Option<u32> {
        let alive = |number: u32| self.space.segments.get(&number).is_some_and(|segment| segment.messages > 0);
        if !self.compacting.is_some_and(alive) {
            let slack = u64::from(self.config.slack_segments) * u64::from(self.config.segment_bytes);
            self.compacting = self.space.sparsest(self.active.as_ref().map(|active| active.number), slack);
        }
        self.compacting
    }

    /// Skips a segment in compaction, because no queue can copy its remaining live messages: they
    /// cannot be read. It is skipped until its number of live messages changes.
    pub fn pass_over(&mut self, segment: u32) {
        if let Some(segment) = self.space.segments.get_mut(&segment) {
            segment.passed_over = Some(segment.messages);
        }
        self.compacting = self.compacting.filter(|compacting| *compacting != segment);
    }

    pub(super) fn check(&self) -> Result<(), Refused> {
        self.stopped.as_ref().map_or(Ok(()), |why| Err(Refused::Stopped(why.clone())))
    }

    pub(super) fn stop(&mut self, what: &str, fault: &Fault) -> Refused {
        let why = format!("{what}: {fault}");
        self.stopped = Some(why.clone());
        Refused::Unsure(why)
    }

    pub(super) fn active(&self) -> Option<u32> {
        self.active.as_ref().map(|active| active.number)
    }

    pub(super) fn salt(&self, segment: u32) -> u32 {
        Salt::of(self.secret, segment).0
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Whether there are too few spares for the reserve and the next segment.
    pub(super) fn lacks_spare(&self) -> bool {
        self.spares.len() <= self.config.reserve_segments
    }

    /// Releases a segment: it becomes a spare, or its file is removed.
    pub(super) fn release(&mut self, number: u32) -> Result<(), Refused> {
        if let Some(catalog) = &mut self.catalog {
            // Recovery must not report the segment as missing.
            catalog.release(number);
            self.write_catalog();
            self.check()?;
        }
        let size = self.space.get(number).size;
        let wanted = self.spares.len() < self.config.spare_segments_max;
        let changed = if wanted && size == u64::from(self.config.segment_bytes) {
            let spare = self.number();
            self.disk.recycle(number, spare).map(|()| self.spares.push_back(spare))
        } else {
            self.disk.remove(number)
        };
        let changed = changed.or_else(ignore_missing);
        // Removals in other segments are needed until this segment is deleted.
        let changed = changed.and_then(|()| self.disk.sync_folder());
        changed.map_err(|fault| self.stop("a segment cannot be released", &fault))?;
        self.space.remove_segment(number);
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

    pub(super) fn number(&mut self) -> u32 {
        let number = self.next_number;
        self.next_number += 1;
        number
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

    fn take_spare(&mut self, keep: usize) -> Result<(u32, u32), Refused> {
        while self.spares.len() <= keep {
            self.add_spare()?;
        }
        let number = self.spares.pop_front().expect("there are more than are kept");
        Ok((number, self.config.segment_bytes))
    }

    /// Creates one more empty segment.
    pub(super) fn add_spare(&mut self) -> Result<(), Refused> {
        let number = self.number();
        self.disk.create(number, self.config.segment_bytes.into()).map_err(Refused::NoRoom)?;
        self.disk.sync_folder().map_err(|fault| self.stop("the folder cannot be synced", &fault))?;
        self.spares.push_back(number);
        Ok(())
    }

    /// Creates a segment for a group larger than a normal segment.
    fn create_large(&mut self, bytes: u64) -> Result<(u32, u32), Refused> {
        let number = self.number();
        self.disk.create(number, bytes).map_err(Refused::NoRoom)?;
        self.raise_spares(number)?;
        Ok((number, bytes as u32))
    }

    /// Renumbers the spares above a segment that is used before them: segments are used in
    /// ascending order.
    pub(super) fn raise_spares(&mut self, above: u32) -> Result<(), Refused> {
        let raised = self.renumber_spares(above).and_then(|()| self.disk.sync_folder());
        raised.map_err(|fault| self.stop("the folder cannot be changed", &fault))
    }

    fn renumber_spares(&mut self, above: u32) -> Result<(), Fault> {
        while self.spares.front().is_some_and(|&spare| spare < above) {
            let number = self.number();
            let raised = self.disk.recycle(self.spares[0], number).map(|()| self.spares.push_back(number));
            raised.or_else(ignore_missing)?;
            self.spares.pop_front();
        }
        Ok(())
    }

    /// Returns prepared segments that are not used after all.
    fn return_segments(&mut self, ready: VecDeque<(u32, u32)>) {
        for (number, size) in ready.into_iter().rev() {
            if size == self.config.segment_bytes {
                self.spares.push_front(number);
            } else if let Err(fault) = self.disk.remove(number) {
                self.stop("a segment cannot be removed", &fault);
            }
        }
    }

    /// Seals the active segment and begins another one. All earlier segments are then durable, so
    /// only the last segment can have a torn end.
    fn roll(&mut self, number: u32, size: u32) -> Result<(), Refused> {
        self.complete_staged_below(number)?;
        self.close_active()?;
        self.space.get(number).size = size.into();
        self.active = Some(Active::new(number, size));
        Ok(())
    }

    pub(super) fn close_active(&mut self) -> Result<(), Refused> {
        if let Some(active) = self.active.take() {
            if let Err(fault) = self.seal(active.number, active.end, &active.index) {
                return Err(self.stop("a full segment cannot be closed", &fault));
            }
            if let Some(catalog) = &mut self.catalog {
                catalog.list(&Listed::full(active.number, active.end, &active.index));
            }
        }
        Ok(())
    }

    /// Writes the index and the seal of a segment, and makes all of it durable.
    fn seal(&mut self, number: u32, end: u32, index: &[u8]) -> Result<(), Fault> {
        let size = self.disk.length(number)?;
        let fits = u64::from(end) + index.len() as u64 <= size;
        let index = if fits { index } else { &[] };
        let seal = Seal { end, index_at: end, index_len: index.len() as u32, index_crc: crc32c::crc32c(index) };
        if !index.is_empty() {
            self.disk.write(number, end.into(), &[IoSlice::new(index)])?;
        }
        let block = sealed_block(number, self.salt(number), seal);
        self.disk.write(number, 0, &[IoSlice::new(&block)])?;
        self.disk.sync(number)?;
        self.stats.syncs += 1;
        self.space.get(number).end = end;
        Ok(())
    }

    /// Stamp the frames of a piece and write them.
    fn write(&mut self, batch: &mut WriteBatch, piece: &Piece) -> Result<(), Refused> {
        let (Some(first), Some(last)) = (batch.frames.get(piece.frames.start), batch.frames[..piece.frames.end].last())
        else {
            return Ok(());
        };
        let start = first.at as usize;
        let end = last.at as usize + super::frame::padded(last.len as usize);
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
        let start = frame.at as usize + super::frame::HEAD_BYTES;
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

/// The contents of a disk.
#[derive(Default)]
struct DiskContents {
    /// Segments with records, in rising order.
    used: Vec<u32>,
    spares: Vec<u32>,
    secret: Option<u32>,
    next_number: u32,
}

impl DiskContents {
    fn on<D: Disk + ?Sized>(disk: &D) -> Result<Self, OpenError> {
        let mut numbers = disk.list()?;
        numbers.retain(|number| *number != CATALOG);
        numbers.sort_unstable();
        let mut found = Self { next_number: numbers.last().map_or(1, |&last| last + 1), ..Self::default() };
        for number in numbers {
            let mut block = [0; BLOCK_BYTES];
            disk.read(number, 0, &mut block)?;
            match open(&block, number) {
                HeaderState::Used { salt } => {
                    found.secret.get_or_insert(salt.wrapping_sub(number));
                    // Segments are used in the order of their numbers, so earlier ones were used
                    // too, regardless of their first blocks.
                    found.used.append(&mut found.spares);
                    found.used.push(number);
                }
                HeaderState::OtherVersion { version } => {
                    return Err(OpenError::Version { segment: number, found: version, known: FORMAT_VERSION });
                }
                HeaderState::Spare => found.spares.push(number),
            }
        }
        Ok(found)
    }

    /// Counts a spare that the catalog lists as a used segment: it has lost its first block. New
    /// numbers are above all numbers of the catalog, so that even the number of a missing file is
    /// not reused.
    fn apply_catalog(&mut self, catalogued: &CatalogEntries) {
        let listed = self.spares.extract_if(.., |spare| catalogued.segments.contains_key(spare));
        self.used.extend(listed);
        self.used.sort_unstable();
        let last = catalogued.segments.last_key_value();
        self.next_number = last.map_or(0, |(&last, _)| last + 1).max(self.next_number);
    }
}

/// A file that no message needs counts as released when it is missing.
fn ignore_missing(fault: Fault) -> Result<(), Fault> {
    match fault {
        Fault::Missing => Ok(()),
        fault => Err(fault),
    }
}
