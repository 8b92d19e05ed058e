//! Batches that returned, kept for a while: a consumer that keeps up never reads the disk.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::batch::WriteBatch;
use super::frame::HEAD_BYTES;
use super::place::RecordLocation;

/// Messages of at least so many bytes share their memory with those who dispatch them.
pub const SHARED_BYTES: usize = 1 << 20;
/// The overhead of a batch in addition to its bytes.
const BATCH_BYTES: usize = 1024;
/// Emptied batches that are kept for their room.
const SPARES: usize = 8;

/// Where a run of frames begins in a batch, and how long it is.
#[derive(Clone, Copy, Debug)]
struct Run {
    batch: u64,
    segment: u32,
    offset: u32,
    at: u32,
    len: u32,
}

impl Run {
    #[inline]
    fn has(&self, place: RecordLocation) -> bool {
        let within = place.offset.wrapping_sub(self.offset);
        self.segment == place.segment && within < self.len && place.len <= self.len - within
    }
}

/// A batch, and for how many queues its messages are still there.
#[derive(Debug)]
struct CachedBatch {
    batch: WriteBatch,
    /// The bytes of a batch with a large message, which others may keep.
    shared: Option<Arc<Vec<u8>>>,
    bytes: usize,
    needed: u64,
}

/// The newest part of the log, in memory, up to a bound in bytes: the oldest batches make room, and
/// before them those of which no message is needed any more.
#[derive(Debug)]
pub struct Recent {
    batches: VecDeque<CachedBatch>,
    /// Number of the oldest batch.
    first: u64,
    /// By segment and offset.
    runs: BTreeMap<(u32, u32), Run>,
    /// The runs requested last, for reading and for forgetting.
    last: [Cell<Option<Run>>; 2],
    bytes: usize,
    bytes_max: usize,
    spares: Vec<WriteBatch>,
}

impl Recent {
    /// Nothing yet, and never more than `bytes_max` and one batch.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            batches: VecDeque::new(),
            first: 0,
            runs: BTreeMap::new(),
            last: Default::default(),
            bytes: 0,
            bytes_max,
            spares: Vec::new(),
        }
    }

    /// An empty batch, one with room if there is one.
    pub fn spare(&mut self) -> WriteBatch {
        self.spares.pop().unwrap_or_default()
    }

    /// Keeps a batch that the log has appended.
    pub fn keep(&mut self, mut batch: WriteBatch) {
        if batch.messages() == 0 {
            return self.recycle_batch(batch);
        }
        let number = self.first + self.batches.len() as u64;
        for (at, len, segment, offset) in batch.layout() {
            self.runs.insert((segment, offset), Run { batch: number, segment, offset, at, len });
        }
        self.last = Default::default();
        let bytes = batch.heap_bytes() + BATCH_BYTES;
        let needed = batch.frames.iter().map(|frame| u64::from(frame.targets)).sum();
        self.bytes += bytes;
        // The room of other batches is used again.
        let is_large = batch.frames.iter().any(|frame| frame.len as usize >= SHARED_BYTES);
        let shared = is_large.then(|| Arc::new(std::mem::take(&mut batch.bytes)));
        self.batches.push_back(CachedBatch { batch, shared, bytes, needed });
        while self.bytes > self.bytes_max && self.batches.len() > 1 {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        self.empty(0);
        self.batches.pop_front();
        self.first += 1;
    }

    /// Takes the messages out of the batch at an index, and keeps its room for another.
    fn empty(&mut self, index: usize) {
        let Some(kept) = self.batches.get_mut(index) else { return };
        let batch = std::mem::take(&mut kept.batch);
        kept.shared = None;
        self.bytes -= std::mem::take(&mut kept.bytes);
        for (_, _, segment, offset) in batch.layout() {
            // A recycled segment may have put another run there.
            if self.runs.get(&(segment, offset)).is_some_and(|run| run.batch == self.first + index as u64) {
                self.runs.remove(&(segment, offset));
            }
        }
        self.last = Default::default();
        self.recycle_batch(batch);
    }

    /// Recycles the memory of a batch whose records are not needed.
    pub fn recycle_batch(&mut self, mut batch: WriteBatch) {
        if self.spares.len() < SPARES {
            batch.clear();
            self.spares.push(batch);
        }
    }

    /// The body of the message at a place, if it is here.
    #[must_use]
    #[inline]
    pub fn body(&self, place: RecordLocation) -> Option<&[u8]> {
        let run = self.run(place, &self.last[0])?;
        let kept = self.batches.get((run.batch - self.first) as usize)?;
        let bytes = kept.shared.as_deref().unwrap_or(&kept.batch.bytes);
        let at = run.at + (place.offset - run.offset);
        let frame = &bytes.get(at as usize..)?.get(..place.len as usize)?;
        let meta_len = u32::from_le_bytes(frame.get(8..12)?.try_into().ok()?);
        frame.get(HEAD_BYTES + meta_len as usize..)
    }

    /// The memory in which the message at a place lies, if others may keep it.
    #[must_use]
    pub fn shared(&self, place: RecordLocation) -> Option<&Arc<Vec<u8>>> {
        let run = self.run(place, &self.last[0])?;
        self.batches.get((run.batch - self.first) as usize)?.shared.as_ref()
    }

    /// One queue no longer needs the message at a place. A batch without live messages is dropped
    /// at once, so that the next one is written to warm memory.
    #[inline]
    pub fn forget(&mut self, place: RecordLocation) {
        let Some(run) = self.run(place, &self.last[1]) else { return };
        let index = (run.batch - self.first) as usize;
        let Some(kept) = self.batches.get_mut(index) else { return };
        kept.needed = kept.needed.saturating_sub(1);
        if kept.needed == 0 {
            self.empty(index);
            while self.batches.front().is_some_and(|kept| kept.bytes == 0) {
                self.drop_oldest();
            }
        }
    }

    #[inline]
    fn run(&self, place: RecordLocation, last: &Cell<Option<Run>>) -> Option<Run> {
        if let Some(run) = last.get().filter(|run| run.has(place)) {
            return Some(run);
        }
        let (_, run) = self.runs.range(..=(place.segment, place.offset)).next_back()?;
        let run = *run;
        run.has(place).then(|| {
            last.set(Some(run));
            run
        })
    }
}
