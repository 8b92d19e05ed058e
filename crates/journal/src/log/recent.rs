//! Batches that came back, kept for a while: a consumer that keeps up never reads the disk.

use std::collections::{BTreeMap, VecDeque};

use super::batch::Batch;
use super::frame::HEAD_BYTES;
use super::place::Place;

/// What one more batch costs beside its bytes.
const BATCH_BYTES: usize = 1024;
/// Emptied batches that are kept for their room.
const SPARES: usize = 4;

/// Where a run of frames begins in a batch, and how long it is.
#[derive(Clone, Copy, Debug)]
struct Run {
    batch: u64,
    at: u32,
    len: u32,
}

/// The newest part of the log, in memory, up to a bound in bytes: the oldest batches make room.
#[derive(Debug)]
pub struct Recent {
    batches: VecDeque<Batch>,
    /// Number of the oldest batch.
    first: u64,
    /// By segment and offset.
    runs: BTreeMap<(u32, u32), Run>,
    bytes: usize,
    bytes_max: usize,
    spares: Vec<Batch>,
}

impl Recent {
    /// Nothing yet, and never more than `bytes_max` and one batch.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { batches: VecDeque::new(), first: 0, runs: BTreeMap::new(), bytes: 0, bytes_max, spares: Vec::new() }
    }

    /// An empty batch, one with room if there is one.
    pub fn spare(&mut self) -> Batch {
        self.spares.pop().unwrap_or_default()
    }

    /// Keeps a batch that the log has appended.
    pub fn keep(&mut self, batch: Batch) {
        if batch.messages() == 0 {
            return self.lay_aside(batch);
        }
        let number = self.first + self.batches.len() as u64;
        for (at, len, segment, offset) in batch.laid_out() {
            self.runs.insert((segment, offset), Run { batch: number, at, len });
        }
        self.bytes += batch.heap_bytes() + BATCH_BYTES;
        self.batches.push_back(batch);
        while self.bytes > self.bytes_max && self.batches.len() > 1 {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let Some(batch) = self.batches.pop_front() else { return };
        for (_, _, segment, offset) in batch.laid_out() {
            // A recycled segment may have put another run there.
            if self.runs.get(&(segment, offset)).is_some_and(|run| run.batch == self.first) {
                self.runs.remove(&(segment, offset));
            }
        }
        self.first += 1;
        self.bytes -= batch.heap_bytes() + BATCH_BYTES;
        self.lay_aside(batch);
    }

    /// Keeps the room of a batch whose records are not needed.
    pub fn lay_aside(&mut self, mut batch: Batch) {
        if self.spares.len() < SPARES {
            batch.clear();
            self.spares.push(batch);
        }
    }

    /// The body of the message at a place, if it is here.
    #[must_use]
    pub fn body(&self, place: Place) -> Option<&[u8]> {
        let (&(segment, offset), run) = self.runs.range(..=(place.segment, place.offset)).next_back()?;
        let within = place.offset - offset;
        if segment != place.segment || within + place.len > run.len {
            return None;
        }
        let batch = self.batches.get((run.batch - self.first) as usize)?;
        let frame = &batch.bytes.get((run.at + within) as usize..)?.get(..place.len as usize)?;
        let meta_len = u32::from_le_bytes(frame.get(8..12)?.try_into().ok()?);
        frame.get(HEAD_BYTES + meta_len as usize..)
    }
}
