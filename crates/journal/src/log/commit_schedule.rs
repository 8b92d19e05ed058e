//! Scheduling of commits: parts take turns, and batches of one lane keep their order.
//!
//! Deficit round robin (Shreedhar and Varghese, 1995) over parts, by bytes. A part is an address
//! space, with the lanes of all workers and of its joint groups: a space does not get a larger share
//! because its addresses are spread over more workers. The quantum of a part is one
//! [`QUANTA_PER_COMMIT`]th of a commit; bytes beyond it are a debt of its next visits. The lanes of a
//! part take turns by batches.
//!
//! One step is one commit of at most `Config::commit_bytes`, or one chunk of a staged batch. A
//! chunk always uses a whole visit, so a small batch waits for at most one chunk, whatever the size
//! of the staged batch. Only one batch is staged at a time; further large batches wait, and so do
//! the batches behind them in their lanes.
//!
//! Batches whose order matters share a lane: those of one address space on one worker. Copies are of
//! no space: those of each worker have a turn of their own.

use std::collections::{HashMap, VecDeque};

use super::Log;
use super::batch::WriteBatch;
use super::disk::Disk;
use super::joints::{Gathered, Joints};
use super::lane::{COPIES_PART, Committed, Lane};

/// The worker of the lanes of joint groups, one lane for each part of a worker.
const JOINT_WORKER: u16 = u16::MAX - 1;
/// Quanta of one commit.
const QUANTA_PER_COMMIT: u64 = 16;
/// The cost of a batch in addition to its bytes.
const BATCH_COST: u64 = 1024;

/// Identifies what takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Turn {
    /// The lanes of a part on all workers.
    Part(u32),
    /// One lane: copies of a worker, or callers that wait.
    Lane(Lane),
}

impl Turn {
    fn of(lane: Lane) -> Self {
        let is_of_space = lane.worker <= JOINT_WORKER && lane.part != COPIES_PART;
        if is_of_space { Self::Part(lane.part) } else { Self::Lane(lane) }
    }
}

/// The batches of one lane.
#[derive(Debug)]
struct LaneQueue {
    lane: Lane,
    batches: VecDeque<WriteBatch>,
    /// The batch before these is staged.
    staged: bool,
}

impl LaneQueue {
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && !self.staged
    }

    /// The cost of the next batch.
    fn cost(&self) -> u64 {
        self.batches.front().map_or(0, |batch| batch.cost() + BATCH_COST)
    }
}

/// The lanes of one turn; the first one is next.
#[derive(Debug, Default)]
struct TurnQueue {
    lanes: VecDeque<LaneQueue>,
    /// The rest of the quantum in bytes; a debt if negative.
    left: i64,
}

impl TurnQueue {
    fn push(&mut self, lane: Lane, batch: WriteBatch) {
        match self.lanes.iter_mut().find(|queue| queue.lane == lane) {
            Some(queue) => queue.batches.push_back(batch),
            None => self.lanes.push_back(LaneQueue { lane, batches: VecDeque::from([batch]), staged: false }),
        }
    }

    /// The next lane with a batch of at most this cost, or with the staged batch.
    fn next(&mut self, most: u64) -> Option<&mut LaneQueue> {
        let at = self.lanes.iter().position(|queue| queue.staged || queue.cost() <= most)?;
        self.lanes.rotate_left(at);
        self.lanes.front_mut()
    }

    /// The visit of the first lane is over.
    fn end_visit(&mut self) {
        if let Some(visited) = self.lanes.pop_front().filter(|visited| !visited.is_empty()) {
            self.lanes.push_back(visited);
        }
    }

    fn set_staged(&mut self, lane: Lane, staged: bool) {
        match self.lanes.iter_mut().find(|queue| queue.lane == lane) {
            Some(queue) => queue.staged = staged,
            None => self.lanes.push_back(LaneQueue { lane, batches: VecDeque::new(), staged }),
        }
        self.lanes.retain(|queue| !queue.is_empty());
    }
}

/// Batches that wait for their commit.
#[derive(Debug)]
pub struct CommitSchedule {
    turns: HashMap<Turn, TurnQueue>,
    /// Turns with batches or a debt; the first one's visit has begun.
    order: VecDeque<Turn>,
    /// The lane whose batch is staged.
    staged: Option<Lane>,
    commit_bytes: u64,
    joints: Joints,
    /// Answers for joint groups that a worker has declined.
    declined: Vec<Committed>,
}

/// The next step.
#[derive(Debug)]
enum Step {
    /// Append these batches with one fsync. Empty if none waits.
    Together(Vec<(Lane, WriteBatch)>),
    /// Commit this batch alone, or stage it.
    Alone(Lane, WriteBatch),
    /// Write one more chunk of the staged batch.
    Chunk(Lane),
}

impl CommitSchedule {
    /// An empty schedule; `commit_bytes` as in `Config`.
    #[must_use]
    pub fn new(commit_bytes: u32) -> Self {
        let commit_bytes = commit_bytes.into();
        let (joints, declined) = (Joints::default(), Vec::new());
        Self { turns: HashMap::new(), order: VecDeque::new(), staged: None, commit_bytes, joints, declined }
    }

    /// Adds a batch to its lane, or a part to its joint group.
    pub fn push(&mut self, lane: Lane, batch: WriteBatch) {
        let Some(part) = batch.joint().cloned() else { return self.enqueue(lane, batch) };
        match self.joints.add(lane, batch, &part) {
            Gathered::Incomplete => {}
            Gathered::Declined(answers) => self.declined.extend(answers),
            Gathered::Complete(whole) => self.enqueue(Lane { worker: JOINT_WORKER, part: lane.part }, whole),
        }
    }

    fn enqueue(&mut self, lane: Lane, batch: WriteBatch) {
        let turn = Turn::of(lane);
        let waiting = self.turns.entry(turn).or_insert_with(|| {
            self.order.push_back(turn);
            TurnQueue::default()
        });
        waiting.push(lane, batch);
    }

    /// Whether no batch waits. Parts of a joint group that has no others yet do not count.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.declined.is_empty() && self.turns.values().all(|waiting| waiting.lanes.is_empty())
    }

    /// Writes and syncs one commit or one chunk, and adds the completed batches to `done`.
    pub fn step<D: Disk>(&mut self, log: &mut Log<D>, done: &mut Vec<Committed>) {
        done.append(&mut self.declined);
        let mut written = Vec::new();
        self.write(log, &mut written);
        written.into_iter().for_each(|committed| self.joints.divide(committed, done));
    }

    fn write<D: Disk>(&mut self, log: &mut Log<D>, done: &mut Vec<Committed>) {
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
                self.charge(Turn::of(lane), batch.cost());
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
        let quantum = (self.commit_bytes / QUANTA_PER_COMMIT).max(1) as i64;
        let small = self.commit_bytes + BATCH_COST;
        // A large batch waits while another one is staged.
        let most = if self.staged.is_some() { small } else { u64::MAX };
        // Consecutive turns whose batches all wait for the staged batch.
        let mut skipped = 0;
        while skipped < self.order.len()
            && let Some(&turn) = self.order.front()
            && let Some(waiting) = self.turns.get_mut(&turn)
        {
            if waiting.left <= 0 {
                waiting.left += quantum;
            }
            if waiting.left > 0 && waiting.lanes.is_empty() {
                self.turns.remove(&turn);
                self.order.pop_front();
                continue;
            }
            if waiting.left <= 0 {
                self.order.rotate_left(1);
                skipped = 0;
                continue;
            }
            let visit = waiting.left as u64;
            let Some(next) = waiting.next(most) else {
                self.order.rotate_left(1);
                skipped += 1;
                continue;
            };
            let (lane, cost) = (next.lane, next.cost());
            if next.staged {
                if !taken.is_empty() {
                    break;
                }
                waiting.end_visit();
                self.charge(turn, chunk_bytes.max(visit));
                return Step::Chunk(lane);
            }
            if !taken.is_empty() && (cost > small || cost > room) {
                break;
            }
            let Some(batch) = next.batches.pop_front() else { break };
            waiting.end_visit();
            if cost > small {
                return Step::Alone(lane, batch);
            }
            skipped = 0;
            room = room.saturating_sub(cost);
            taken.push((lane, batch));
            self.charge(turn, cost);
        }
        Step::Together(taken)
    }

    /// Charges `cost` to the first turn; one without a rest of its quantum moves to the end.
    fn charge(&mut self, turn: Turn, cost: u64) {
        let Some(waiting) = self.turns.get_mut(&turn) else { return };
        waiting.left -= cost as i64;
        if waiting.left <= 0 {
            debug_assert_eq!(self.order.front(), Some(&turn));
            self.order.rotate_left(1);
        }
    }

    fn begin_chunks(&mut self, lane: Lane) {
        self.staged = Some(lane);
        if let Some(waiting) = self.turns.get_mut(&Turn::of(lane)) {
            waiting.set_staged(lane, true);
            let visit = waiting.left as u64;
            self.charge(Turn::of(lane), visit);
        }
    }

    fn end_chunks(&mut self, lane: Lane) {
        self.staged = None;
        if let Some(waiting) = self.turns.get_mut(&Turn::of(lane)) {
            waiting.set_staged(lane, false);
        }
    }
}

/// Syncs appended batches at once.
fn sync<D: Disk>(log: &mut Log<D>, appended: &mut [Committed]) {
    if appended.is_empty() {
        return;
    }
    let synced = log.sync();
    for committed in appended {
        committed.result = std::mem::replace(&mut committed.result, Ok(())).and_then(|()| synced.clone());
    }
}
