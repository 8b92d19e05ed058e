//! A cache of recently committed batches, so that a consumer that keeps up never reads the disk.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::batch::WriteBatch;
use super::frame::HEAD_BYTES;
use super::place::RecordLocation;

/// Messages of at least this size are dispatched without copying their memory.
pub const SHARED_BYTES: usize = 1 << 20;
/// The overhead of a batch in addition to its bytes.
const BATCH_BYTES: usize = 1024;
/// Empty batches kept for their allocations.
const SPARES: usize = 8;

/// The location of a run of frames in a batch and in its segment.
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

/// A batch, and the number of references of queues to its messages.
#[derive(Debug)]
struct CachedBatch {
    batch: WriteBatch,
    /// The bytes of a batch with a large message, which dispatched deliveries share.
    shared: Option<Arc<Vec<u8>>>,
    bytes: usize,
    needed: u64,
}

/// The newest batches of the log in memory, bounded in bytes. A batch without live messages is
/// dropped first, then the oldest.
#[derive(Debug)]
pub struct Recent {
    batches: VecDeque<CachedBatch>,
    /// Number of the oldest batch.
    first: u64,
    /// By segment and offset.
    runs: BTreeMap<(u32, u32), Run>,
    /// The last used run for reading, and for forgetting.
    last: [Cell<Option<Run>>; 2],
    bytes: usize,
    bytes_max: usize,
    spares: Vec<WriteBatch>,
}

impl Recent {
    /// An empty cache, which holds at most `bytes_max` bytes and one batch.
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

    /// An empty batch, with recycled allocations if available.
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
        // Deliveries share the memory of a batch with a large message, so it is not recycled.
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

    /// Removes the messages of the batch at an index, and recycles its allocations.
    fn empty(&mut self, index: usize) {
        let Some(kept) = self.batches.get_mut(index) else { return };
        let batch = std::mem::take(&mut kept.batch);
        kept.shared = None;
        self.bytes -= std::mem::take(&mut kept.bytes);
        for (segment, offset) in batch.run_locations() {
            // A newer batch may have a run at this location, in a recycled segment.
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

    /// The body of the message at a location, if it is cached.
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

    /// The memory that holds the message at a location, if it can be shared.
    #[must_use]
    pub fn shared(&self, place: RecordLocation) -> Option<&Arc<Vec<u8>>> {
        let run = self.run(place, &self.last[0])?;
        self.batches.get((run.batch - self.first) as usize)?.shared.as_ref()
    }

    /// Releases the message at a location for one queue. A batch without live messages is dropped
    /// at once, so that the next batch is written to warm memory.
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
