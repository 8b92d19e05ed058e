//! The journal of the node on a simulated disk, driven as the node's journal threads drive it: one
//! turn commits a batch or a chunk of a large one, answers, reads bodies, and compacts a segment
//! with few live records.

use std::collections::VecDeque;
use std::sync::Arc;

use enmasse_amqp::time::Time;
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{
    CommitSchedule, Committed, Config, Lane, Log, Reader, RecordLocation, Recovered, Refused, WriteBatch,
};
use enmasse_router::core::{Answer, Read};
use enmasse_router::shard::Shard;

use crate::faults::{Fault, FaultCounts};
use crate::random::Random;

/// How long shards have to copy a part of a segment that is being compacted, in microseconds.
const COMPACTION_US: u64 = 200_000;

/// The journal's output for a shard.
enum Reply {
    Journaled(Vec<Answer>),
    Fetched(Vec<(RecordLocation, Read)>),
    Compact(u32),
}

/// The log, and the batches in flight.
pub(crate) struct Journal {
    disk: Arc<SimulatedDisk>,
    log: Log<SimulatedDisk>,
    reader: Reader<SimulatedDisk>,
    commits: CommitSchedule,
    wanted: Vec<(usize, Vec<RecordLocation>)>,
    /// for each shard
    replies: Vec<VecDeque<(Time, Reply)>>,
    /// the segment to be compacted, the messages copied until then, and when it was requested
    compacting: Option<(u32, u64, Time)>,
}

impl Journal {
    /// Opens the journal of a disk.
    ///
    /// # Errors
    /// The reason as text: it cannot be opened, or a durable record is missing.
    pub(crate) fn open(disk: Arc<SimulatedDisk>, config: Config, shards: usize) -> Result<(Self, Recovered), String> {
        let (log, recovered) = Log::open(Arc::clone(&disk), config).map_err(|error| error.to_string())?;
        if !recovered.gaps.is_empty() {
            return Err(format!("the journal has lost durable records: {:?}", recovered.gaps));
        }
        let unnamed = recovered.unnamed();
        if unnamed.messages > 0 {
            return Err(format!("the journal has {} messages of queues without a name", unnamed.messages));
        }
        let replies = (0..shards).map(|_| VecDeque::new()).collect();
        let reader = log.reader();
        let commits = CommitSchedule::new(config.commit_bytes);
        Ok((Self { disk, log, reader, commits, wanted: Vec::new(), replies, compacting: None }, recovered))
    }

    /// The disk.
    pub(crate) fn disk(&self) -> &SimulatedDisk {
        &self.disk
    }

    /// Appends a batch and syncs at once, as a Plan does.
    pub(crate) fn commit(&mut self, batch: &mut WriteBatch) -> Result<(), Refused> {
        if batch.is_empty() {
            return Ok(());
        }
        self.log.append(batch).and_then(|()| self.log.sync())
    }

    /// Takes a shard's batches for the journal.
    pub(crate) fn collect(&mut self, at: usize, shard: &mut Shard) {
        while let Some(batch) = shard.take_journal() {
            self.commits.push(Lane { worker: at as u16, part: batch.part() }, batch);
        }
        let wanted = shard.take_wanted();
        if !wanted.is_empty() {
            self.wanted.push((at, wanted));
        }
    }

    /// Passes arrived input to a shard.
    pub(crate) fn deliver(&mut self, at: usize, now: Time, shard: &mut Shard) {
        while self.replies[at].front().is_some_and(|(arrival, _)| *arrival <= now) {
            match self.replies[at].pop_front() {
                Some((_, Reply::Journaled(answers))) => shard.journaled(answers),
                Some((_, Reply::Fetched(bodies))) => shard.fetched(bodies),
                Some((_, Reply::Compact(segment))) => shard.compact(segment),
                None => {}
            }
        }
    }

    /// Whether no batch or answer is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.commits.is_empty() && self.wanted.is_empty() && self.replies.iter().all(VecDeque::is_empty)
    }

    /// One turn of the journal's threads.
    pub(crate) fn turn(&mut self, now: Time, random: &mut Random, counts: &mut FaultCounts) {
        let arrival = Time::from_micros(now.as_micros() + random.between(50, 2_000));
        self.append(arrival);
        if self.log.chunk_bytes() > 0 {
            counts.record(now, Fault::Chunk);
        }
        self.read(arrival);
        // A log that has stopped reclaims nothing.
        let _ = self.log.turn();
        self.compact(now, arrival, counts);
    }

    fn append(&mut self, arrival: Time) {
        let mut done = Vec::new();
        self.commits.step(&mut self.log, &mut done);
        let mut answers: Vec<Vec<Answer>> = self.replies.iter().map(|_| Vec::new()).collect();
        for Committed { lane, batch, result } in done {
            answers[usize::from(lane.worker)].push(Answer { batch, result });
        }
        for (at, answers) in answers.into_iter().enumerate().filter(|(_, answers)| !answers.is_empty()) {
            self.replies[at].push_back((arrival, Reply::Journaled(answers)));
        }
    }

    fn read(&mut self, arrival: Time) {
        let mut buffer = Vec::new();
        for (at, mut places) in std::mem::take(&mut self.wanted) {
            let mut reads = Vec::with_capacity(places.len());
            let reader = self.reader.clone();
            reader.read_all(&mut places, &mut buffer, |place, read| reads.push((place, Read::from(read))));
            self.replies[at].push_back((arrival, Reply::Fetched(reads)));
        }
    }

    /// Requests compaction once for each segment, and again after each copied part.
    fn compact(&mut self, now: Time, arrival: Time, counts: &mut FaultCounts) {
        let Some(segment) = self.log.wants_compacted() else { return self.compacting = None };
        let copied = self.log.stats().copied;
        match self.compacting {
            Some((before, until, at)) if (before, until) == (segment, copied) => {
                if now.as_micros() - at.as_micros() >= COMPACTION_US {
                    self.log.pass_over(segment);
                }
            }
            _ => {
                counts.record(now, Fault::Compact);
                for replies in &mut self.replies {
                    replies.push_back((arrival, Reply::Compact(segment)));
                }
                self.compacting = Some((segment, copied, now));
            }
        }
    }
}
