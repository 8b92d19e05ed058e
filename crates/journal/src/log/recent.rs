//! A cache of recently committed batches, so that a consumer that keeps up never reads the disk.

use std::cell::Cell;
use std::collections::BTreeMap;
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
    /// By their numbers, in the order of appending. A map, because one batch may stay for long
    /// while those after it come and go.
    batches: BTreeMap<u64, CachedBatch>,
    /// Number of the next batch.
    next: u64,
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
            batches: BTreeMap::new(),
            next: 0,
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
        let number = self.next;
        self.next += 1;
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
        self.batches.insert(number, CachedBatch { batch, shared, bytes, needed });
        while self.bytes > self.bytes_max && self.batches.len() > 1 {
            let Some(oldest) = self.batches.first_key_value().map(|(number, _)| *number) else { return };
            self.remove(oldest);
        }
    }

    /// Removes a batch, and recycles its allocations.
    fn remove(&mut self, number: u64) {
        let Some(CachedBatch { batch, bytes, .. }) = self.batches.remove(&number) else { return };
        self.bytes -= bytes;
        for (segment, offset) in batch.run_locations() {
            // A newer batch may have a run at this location, in a recycled segment.
            if self.runs.get(&(segment, offset)).is_some_and(|run| run.batch == number) {
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

    /// Number of batches in memory.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// The body of the message at a location, if it is cached.
    #[must_use]
    #[inline]
    pub fn body(&self, place: RecordLocation) -> Option<&[u8]> {
        let run = self.run(place, &self.last[0])?;
        let kept = self.batches.get(&run.batch)?;
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
        self.batches.get(&run.batch)?.shared.as_ref()
    }

    /// Releases the message at a location for one queue. A batch without live messages is dropped
    /// at once, so that the next batch is written to warm memory.
    #[inline]
    pub fn forget(&mut self, place: RecordLocation) {
        let Some(run) = self.run(place, &self.last[1]) else { return };
        let Some(kept) = self.batches.get_mut(&run.batch) else { return };
        kept.needed = kept.needed.saturating_sub(1);
        if kept.needed == 0 {
            self.remove(run.batch);
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
