//! Commits of a number of records of 1 KiB, each on disk before the next begins.
//!
//! `Growing` only adds records: every segment is a new file. `Recycled` also removes, in the same
//! commit, the records of 50 commits before, so that segments are reused.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use enmasse_journal::log::{Config, Log, RecordLocation, Removal, Target, WriteBatch};
use rustix::time::{ClockId, clock_gettime};

use crate::disk::FolderDisk;

/// Bytes of a message.
pub(crate) const BODY_BYTES: usize = 1024;
/// Bytes that a queue stores with a message.
pub(crate) const HEAD_BYTES: usize = 16;
/// Bytes written before a run on recycled segments begins.
const WARM_BYTES: u64 = 10 * (64 << 20);
const REMOVED_AFTER: usize = 50;

/// The kind of segments to write to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Segments {
    Growing,
    Recycled,
}

/// The error.
pub(crate) type Failed = Box<dyn std::error::Error>;

/// Statistics of one run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Results {
    /// Commits a second.
    pub(crate) commits: f64,
    /// Bytes of one commit.
    pub(crate) commit_bytes: usize,
    p50_us: f64,
    p99_us: f64,
    /// Processor time of a commit.
    cpu_us: f64,
    /// Processor time of the shard before a commit: copying and checking bodies, counting removals.
    shard_us: f64,
}

impl Results {
    pub(crate) const HEADING: &str = "| group | segments | records/s | syncs/s | MB/s | p50 us | p99 us | cpu us/record | shard's cpu us/record | bare syncs/s | bare p50 us | bare cpu us/record | of bare |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|";

    /// A row of the table, with the results of the control.
    pub(crate) fn row(&self, group: usize, segments: Segments, bare: &Self) -> String {
        let segments = if segments == Segments::Growing { "growing" } else { "recycled" };
        format!(
            "| {group} | {segments} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {:.0} | {:.0} | {:.2} | {:.2} |",
            self.commits * group as f64,
            self.commits,
            self.commits * self.commit_bytes as f64 / 1e6,
            self.p50_us,
            self.p99_us,
            self.cpu_us / group as f64,
            self.shard_us / group as f64,
            bare.commits,
            bare.p50_us,
            bare.cpu_us / group as f64,
            self.commits / bare.commits,
        )
    }
}

/// A subject of the benchmark. Preparation runs on another thread in the node and is not counted.
pub(crate) trait Commits {
    fn prepare(&mut self) {}

    fn commit(&mut self) -> Result<(), Failed>;
}

/// Measures the time of commits.
#[derive(Default)]
pub(crate) struct Stopwatch {
    ran: Duration,
    processor: Duration,
    preparing: Duration,
    each_us: Vec<f64>,
}

impl Stopwatch {
    /// Prepares and commits repeatedly for a while.
    pub(crate) fn slice(&mut self, length: Duration, subject: &mut impl Commits) -> Result<(), Failed> {
        let mut ran = Duration::ZERO;
        while ran < length {
            let before = processor();
            subject.prepare();
            let prepared = processor();
            let begun = Instant::now();
            subject.commit()?;
            let took = begun.elapsed();
            self.preparing += prepared - before;
            self.processor += processor() - prepared;
            self.each_us.push(took.as_secs_f64() * 1e6);
            ran += took;
        }
        self.ran += ran;
        Ok(())
    }

    pub(crate) fn line(mut self, commit_bytes: usize) -> Results {
        let count = self.each_us.len();
        let each_us = |spent: Duration| spent.as_secs_f64() * 1e6 / count as f64;
        let (cpu_us, shard_us) = (each_us(self.processor), each_us(self.preparing));
        let commits = count as f64 / self.ran.as_secs_f64();
        self.each_us.sort_by(f64::total_cmp);
        let at = |share: usize| self.each_us[count * share / 100];
        Results { commits, commit_bytes, p50_us: at(50), p99_us: at(99), cpu_us, shard_us }
    }
}

fn processor() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

/// Bytes that do not compress.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(next).collect()
}

/// The log under load, with one shard.
pub(crate) struct Loaded {
    log: Log<FolderDisk>,
    feed: Feed,
    batch: WriteBatch,
    waiting: bool,
}

impl Loaded {
    pub(crate) fn new(folder: &Path, group: usize, segments: Segments) -> Result<Self, Failed> {
        let (mut log, _) = Log::open(Arc::new(FolderDisk::open(folder)?), Config { secret: 1, ..Config::default() })?;
        let mut batch = WriteBatch::new();
        batch.declare(1, &[1; 16], "bench");
        log.append(&mut batch)?;
        log.sync()?;
        if segments == Segments::Recycled {
            warm(&mut log)?;
        }
        while log.turn()? {
            log.sync()?;
        }
        let mut loaded = Self { log, feed: Feed::new(group, segments), batch, waiting: false };
        for _ in 0..REMOVED_AFTER + 2 {
            loaded.prepare();
            loaded.commit()?;
        }
        Ok(loaded)
    }

    pub(crate) fn commit_bytes(&self) -> usize {
        self.batch.bytes()
    }
}

impl Commits for Loaded {
    fn prepare(&mut self) {
        if self.waiting {
            self.feed.take_locations(&self.batch);
        }
        self.feed.fill(&mut self.batch);
        self.waiting = true;
    }

    fn commit(&mut self) -> Result<(), Failed> {
        self.log.append(&mut self.batch)?;
        self.log.sync()?;
        self.log.turn()?;
        Ok(())
    }
}

/// Writes through more segments than the log keeps spare, in large commits.
fn warm(log: &mut Log<FolderDisk>) -> Result<(), Failed> {
    let mut feed = Feed::new(4000, Segments::Recycled);
    (feed.seq, feed.back) = (1 << 40, 1 << 40);
    let mut batch = WriteBatch::new();
    while log.stats().appended_bytes < WARM_BYTES {
        feed.fill(&mut batch);
        log.append(&mut batch)?;
        log.sync()?;
        feed.take_locations(&batch);
        while log.turn()? {
            log.sync()?;
        }
    }
    batch.clear();
    while !feed.stored.is_empty() {
        feed.remove_oldest(&mut batch);
    }
    log.append(&mut batch)?;
    log.sync()?;
    Ok(())
}

/// The records of a shard with one queue.
struct Feed {
    bodies: Vec<u8>,
    group: usize,
    seq: u64,
    removes: bool,
    /// Number and location of each message, by commit.
    stored: VecDeque<Vec<(u64, RecordLocation)>>,
    spare: Vec<(u64, RecordLocation)>,
    /// The first number in a batch that is not yet committed.
    back: u64,
}

impl Feed {
    fn new(group: usize, segments: Segments) -> Self {
        Self {
            bodies: noise(BODY_BYTES * 64 + 4096),
            group,
            seq: 0,
            removes: segments == Segments::Recycled,
            stored: VecDeque::new(),
            spare: Vec::new(),
            back: 0,
        }
    }

    fn fill(&mut self, batch: &mut WriteBatch) {
        batch.clear();
        for _ in 0..self.group {
            let start = (self.seq * 61 % 65_536) as usize;
            let target = Target { queue: 1, seq: self.seq, head: &[4; HEAD_BYTES] };
            batch.message(&[target], &self.bodies[start..start + BODY_BYTES]);
            self.seq += 1;
        }
        if self.stored.len() >= REMOVED_AFTER {
            self.remove_oldest(batch);
        }
    }

    fn take_locations(&mut self, batch: &WriteBatch) {
        if self.removes {
            let first = self.back;
            let mut places = std::mem::take(&mut self.spare);
            places.clear();
            places.extend((0..self.group).map(|at| (first + at as u64, batch.place(at))));
            self.back += self.group as u64;
            self.stored.push_back(places);
        }
    }

    fn remove_oldest(&mut self, batch: &mut WriteBatch) {
        let mut removal = Removal::new(1);
        let places = self.stored.pop_front().unwrap_or_default();
        places.iter().for_each(|&(seq, place)| removal.add(seq, place));
        self.spare = places;
        batch.remove(&mut removal);
    }
}
