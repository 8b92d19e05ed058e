//! Which batches are committed next: lanes take turns, and within a lane batches keep their order.
//!
//! Deficit round robin (Shreedhar and Varghese, 1995) over lanes, by bytes. A visit to a lane is
//! worth a [`VISITS_OF_COMMIT`]th of a commit; what it took beyond that is a debt, which its next
//! visits pay. One step is one commit of at most `Config::commit_bytes`, or one chunk of a larger
//! batch, and a chunk is always a whole visit: a small batch waits for one chunk, however large the
//! batch is. One batch is written in chunks at a time; further large ones wait, with what is behind
//! them in their lanes.
//!
//! Batches whose order matters share a lane: those of one address space on one worker.

use std::collections::{HashMap, VecDeque};

use super::batch::WriteBatch;
use super::config::Refused;
use super::disk::Disk;
use super::owner::Log;

/// So many visits to lanes make a commit.
const VISITS_OF_COMMIT: u64 = 16;
/// What a batch costs beside its bytes.
const BATCH_COST: u64 = 1024;

/// Names a lane: a worker, and what it tells apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    /// The worker.
    pub worker: u16,
    /// Its part.
    pub part: u32,
}

/// A batch that is on disk, or is not.
#[derive(Debug)]
pub struct Committed {
    /// Its lane.
    pub lane: Lane,
    /// The batch.
    pub batch: WriteBatch,
    /// Whether it is on disk.
    pub result: Result<(), Refused>,
}

#[derive(Debug, Default)]
struct Waiting {
    batches: VecDeque<WriteBatch>,
    /// The rest of the visit; below zero: a debt.
    left: i64,
    /// The batch before these is being written in chunks.
    staged: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && !self.staged
    }
}

/// Batches that wait for the log.
#[derive(Debug)]
pub struct Commits {
    lanes: HashMap<Lane, Waiting>,
    /// Lanes with batches or a debt; the first one's visit has begun.
    order: VecDeque<Lane>,
    /// The lane whose batch is being written in chunks.
    staged: Option<Lane>,
    commit_bytes: u64,
}

/// What is done next.
#[derive(Debug)]
enum Step {
    /// These are appended, with one sync for all. None: nothing waits.
    Together(Vec<(Lane, WriteBatch)>),
    /// This one has a commit of its own, or is written in chunks.
    Alone(Lane, WriteBatch),
    /// One more chunk.
    Chunk(Lane),
}

impl Commits {
    /// None wait; `commit_bytes` as in `Config`.
    #[must_use]
    pub fn new(commit_bytes: u32) -> Self {
        let commit_bytes = commit_bytes.into();
        Self { lanes: HashMap::new(), order: VecDeque::new(), staged: None, commit_bytes }
    }

    /// One more batch.
    pub fn push(&mut self, lane: Lane, batch: WriteBatch) {
        let waiting = self.lanes.entry(lane).or_insert_with(|| {
            self.order.push_back(lane);
            Waiting::default()
        });
        waiting.batches.push_back(batch);
    }

    /// Nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.values().all(Waiting::is_empty)
    }

    /// Writes and syncs one commit, or one chunk; adds the batches that are done to `done`.
    pub fn step<D: Disk>(&mut self, log: &mut Log<D>, done: &mut Vec<Committed>) {
        match self.next(log.chunk_bytes()) {
            Step::Together(batches) => {
                let from = done.len();
                done.extend(batches.into_iter().map(|(lane, mut batch)| {
                    let result = log.append(&mut batch);
                    Committed { lane, batch, result }
                }));
                sync(log, &mut done[from..]);
            }
            Step::Alone(lane, mut batch) if log.stages(&batch) => match log.stage(&mut batch) {
                Ok(()) => self.begin_chunks(lane),
                Err(refused) => done.push(Committed { lane, batch, result: Err(refused) }),
            },
            Step::Alone(lane, mut batch) => {
                self.charge(lane, batch.cost());
                let result = log.append(&mut batch);
                done.push(Committed { lane, batch, result });
                let last = done.len() - 1;
                sync(log, &mut done[last..]);
            }
            Step::Chunk(lane) => {
                if let Some((batch, result)) = log.write_chunk() {
                    self.end_chunks(lane);
                    done.push(Committed { lane, batch, result });
                }
            }
        }
    }

    fn next(&mut self, chunk_bytes: u64) -> Step {
        let mut taken = Vec::new();
        let mut room = self.commit_bytes;
        let quantum = (self.commit_bytes / VISITS_OF_COMMIT).max(1) as i64;
        // So many lanes in turn wait for the batch that is written in chunks.
        let mut held = 0;
        while held < self.order.len()
            && let Some(&lane) = self.order.front()
            && let Some(waiting) = self.lanes.get_mut(&lane)
        {
            if waiting.left <= 0 {
                waiting.left += quantum;
            }
            if waiting.left > 0 && waiting.is_empty() {
                self.lanes.remove(&lane);
                self.order.pop_front();
                continue;
            }
            if waiting.left <= 0 {
                self.order.rotate_left(1);
                held = 0;
                continue;
            }
            if waiting.staged {
                if !taken.is_empty() {
                    break;
                }
                let visit = waiting.left as u64;
                self.charge(lane, chunk_bytes.max(visit));
                return Step::Chunk(lane);
            }
            let cost = waiting.batches.front().map_or(0, |batch| batch.cost() + BATCH_COST);
            if cost > self.commit_bytes + BATCH_COST {
                if self.staged.is_some() {
                    self.order.rotate_left(1);
                    held += 1;
                    continue;
                }
                if taken.is_empty()
                    && let Some(batch) = waiting.batches.pop_front()
                {
                    return Step::Alone(lane, batch);
                }
                break;
            }
            if cost > room && !taken.is_empty() {
                break;
            }
            held = 0;
            room = room.saturating_sub(cost);
            taken.extend(waiting.batches.pop_front().map(|batch| (lane, batch)));
            self.charge(lane, cost);
        }
        Step::Together(taken)
    }

    /// The first lane has used so much of its visit; with nothing left it goes to the end.
    fn charge(&mut self, lane: Lane, cost: u64) {
        let Some(waiting) = self.lanes.get_mut(&lane) else { return };
        waiting.left -= cost as i64;
        if waiting.left <= 0 {
            debug_assert_eq!(self.order.front(), Some(&lane));
            self.order.rotate_left(1);
        }
    }

    fn begin_chunks(&mut self, lane: Lane) {
        self.staged = Some(lane);
        if let Some(waiting) = self.lanes.get_mut(&lane) {
            waiting.staged = true;
            let visit = waiting.left as u64;
            self.charge(lane, visit);
        }
    }

    fn end_chunks(&mut self, lane: Lane) {
        self.staged = None;
        if let Some(waiting) = self.lanes.get_mut(&lane) {
            waiting.staged = false;
        }
    }
}

/// One sync for batches that were appended.
fn sync<D: Disk>(log: &mut Log<D>, appended: &mut [Committed]) {
    if appended.is_empty() {
        return;
    }
    let synced = log.sync();
    for committed in appended {
        committed.result = std::mem::replace(&mut committed.result, Ok(())).and_then(|()| synced.clone());
    }
}
