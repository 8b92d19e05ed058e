//! The thread that owns the log.

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use enmasse_journal::log::{CommitSchedule, Committed, Disk, Lane, Log, Refused};
use enmasse_router::core::Answer;

use super::backoff::Backoff;
use super::reports::ReadReports;
use super::{JournalRequest, Mailboxes};
use crate::command::Command;
use crate::stats::JournalStats;

/// Idle time after which the journal records how far it is durable.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// Time for workers to copy a part of a segment that is being compacted. If none is copied in this
/// time, the workers have no messages in the segment.
const COPY_TIMEOUT: Duration = Duration::from_secs(60);

/// The lane of requests with a waiting caller, which come from Plans. A Plan declares queues before
/// a worker uses them and drops queues that no worker has, so its order relative to other lanes
/// does not matter.
const WAITING_CALLERS: Lane = Lane { worker: u16::MAX, part: 0 };

pub(super) struct Owner<D> {
    log: Log<D>,
    commits: CommitSchedule,
    /// callers that wait for their batches
    waiting: VecDeque<Sender<Result<(), Refused>>>,
    mailboxes: Mailboxes,
    stats: Arc<Mutex<JournalStats>>,
    reports: Arc<ReadReports>,
    /// the last segment whose compaction was requested, the messages copied until then, and the
    /// time of the request
    requested: Option<(u32, u64, Instant)>,
    /// segments whose read failed when they were to be reclaimed
    unreadable: BTreeSet<u32>,
    /// when their reads are retried
    again: Backoff,
}

impl<D: Disk> Owner<D> {
    pub(super) fn new(
        log: Log<D>,
        mailboxes: Mailboxes,
        stats: Arc<Mutex<JournalStats>>,
        reports: Arc<ReadReports>,
    ) -> Self {
        let commits = CommitSchedule::new(log.config().commit_bytes);
        let waiting = VecDeque::new();
        let (unreadable, again) = (BTreeSet::new(), Backoff::default());
        Self { log, commits, waiting, mailboxes, stats, reports, requested: None, unreadable, again }
    }

    pub(super) fn run(mut self, post: &Receiver<JournalRequest>) {
        let mut wait = Duration::ZERO;
        let mut stop = false;
        loop {
            let first = if self.commits.is_empty() && !stop {
                match post.recv_timeout(wait) {
                    Ok(request) => Some(request),
                    // A stopped log has no statistics.
                    Err(RecvTimeoutError::Timeout) if !wait.is_zero() && !self.again.is_due(Instant::now()) => {
                        let _ = self.log.rest();
                        wait = self.again.wait(Instant::now()).unwrap_or(Duration::MAX);
                        continue;
                    }
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            } else {
                None
            };
            for request in first.into_iter().chain(post.try_iter()) {
                stop |= self.take(request);
            }
            self.commit();
            if stop && self.commits.is_empty() {
                // A stopped log has nothing to list.
                let _ = self.log.close();
                return;
            }
            wait = if self.maintain(Instant::now()) { Duration::ZERO } else { IDLE_TIME };
        }
    }

    /// Handles a request; returns whether it is `Stop`.
    fn take(&mut self, request: JournalRequest) -> bool {
        match request {
            JournalRequest::Append(lane, batch) => self.commits.push(lane, batch),
            JournalRequest::Commit(batch, answer) => {
                self.waiting.push_back(answer);
                self.commits.push(WAITING_CALLERS, batch);
            }
            JournalRequest::Stop => return true,
        }
        false
    }

    /// Writes and syncs the next batches, and answers.
    fn commit(&mut self) {
        let mut done = Vec::new();
        self.commits.step(&mut self.log, &mut done);
        let mut answers: Vec<Vec<Answer>> = self.mailboxes.iter().map(|_| Vec::new()).collect();
        for Committed { lane, batch, result } in done {
            if lane == WAITING_CALLERS {
                // The caller may have stopped waiting.
                let _ = self.waiting.pop_front().map(|answer| answer.send(result));
            } else if let Some(answers) = answers.get_mut(usize::from(lane.worker)) {
                answers.push(Answer { batch, result });
            }
        }
        for (mailbox, answers) in self.mailboxes.iter().zip(answers) {
            if !answers.is_empty() {
                mailbox.post([Command::Journaled(answers)]);
            }
        }
    }

    /// One step of background work; returns whether more is pending. A stopped log has none.
    fn maintain(&mut self, now: Instant) -> bool {
        if self.again.take_due(now) {
            self.log.retry_reads();
        }
        let more = self.log.turn().unwrap_or(false);
        if let Some((segment, fault)) = self.log.take_read_fault() {
            self.reports.failed(segment, &fault);
            self.unreadable.insert(segment);
            self.again.failed(now);
        }
        self.report_readable();
        self.request_compaction(now);
        self.publish();
        more
    }

    /// Reports segments that are readable again.
    fn report_readable(&mut self) {
        if self.unreadable.is_empty() {
            return;
        }
        let unreadable: BTreeSet<u32> = self.log.unreadable().collect();
        self.unreadable.difference(&unreadable).for_each(|segment| self.reports.read(*segment));
        self.unreadable.retain(|segment| unreadable.contains(segment));
        if self.unreadable.is_empty() {
            self.again.succeeded();
        }
    }

    fn request_compaction(&mut self, now: Instant) {
        // Requested once, and again after each copied part, because workers then search all their
        // queues.
        let Some(segment) = self.log.wants_compacted() else { return self.requested = None };
        let copied = self.log.stats().copied;
        match self.requested {
            Some((before, until, at)) if (before, until) == (segment, copied) => {
                if now.duration_since(at) >= COPY_TIMEOUT {
                    self.log.pass_over(segment);
                }
            }
            _ => {
                for mailbox in &self.mailboxes {
                    mailbox.post([Command::Compact(segment)]);
                }
                self.requested = Some((segment, copied, now));
            }
        }
    }

    fn publish(&self) {
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        stats.log = self.log.stats();
        stats.stopped = self.log.stopped().map(str::to_owned);
    }
}
