//! Records for the log by address space, each in a lane of its own.
//!
//! Batches of one lane keep their order. Those of several need none, so the log commits small
//! batches of one space between the chunks of another's large batch. A group of records, and what
//! removals name, is of one space. Copies are of all spaces and have a lane of their own: while
//! they are planned or in flight, nothing writes a removal of their messages.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use enmasse_journal::log::{Removal, WriteBatch};

use super::super::TransactionId;
use super::super::arena::Key;
use super::super::stream::InFlightBlock;
use super::compact::Copied;
use super::fence::{Fences, Notice};
use super::journal::Commit;

/// Bytes of records in a batch: what the log commits with one fsync. A larger group has a batch of
/// its own.
const BATCH_BYTES: usize = 4 << 20;
/// Time until records that a full disk refused are offered again, unless it accepts others before.
const AGAIN_MS: u64 = 1000;
/// Lanes without work that are kept for their memory.
const SPARE_LANES: usize = 8;

/// A lane of this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::core) struct LaneId(pub(in crate::core) u32);

impl LaneId {
    /// The lane of copies, which are of all spaces.
    pub(in crate::core) const COPIES: Self = Self(u32::MAX);

    /// The lane of an address space, by the number of the space.
    pub(in crate::core) fn of_space(space: u32) -> Self {
        debug_assert!(space != Self::COPIES.0, "a space has the number of the lane of copies");
        Self(space)
    }
}

impl Default for LaneId {
    fn default() -> Self {
        Self::COPIES
    }
}

/// The content of an in-flight batch.
#[derive(Debug)]
pub(in crate::core) enum InFlightWrite {
    /// messages, declared subscriptions, and transactions whose postings are among the messages,
    /// with their blocks
    Store(Vec<Commit>, Vec<Key>, Vec<TransactionId>, Vec<InFlightBlock>),
    Blocks(Vec<InFlightBlock>),
    /// removals and state
    Forget,
    /// transactions that consist of removals
    Retire(Vec<TransactionId>),
    Copy(Copied),
}

/// Messages for the log, and their completions.
#[derive(Debug, Default)]
pub(in crate::core) struct Growing {
    pub(in crate::core) batch: WriteBatch,
    pub(in crate::core) commits: Vec<Commit>,
    /// subscriptions that the log is to know of
    pub(in crate::core) declared: Vec<Key>,
    /// transactions of which there are groups
    pub(in crate::core) posting: Vec<TransactionId>,
    /// blocks of those
    pub(in crate::core) blocks: Vec<InFlightBlock>,
}

/// Emptied lists that are used again.
#[derive(Debug, Default)]
pub(in crate::core) struct Spares {
    pub(in crate::core) commits: Vec<Vec<Commit>>,
    pub(in crate::core) removals: Vec<Removal>,
}

/// Records of one lane: those to be written, and those in flight.
#[derive(Debug, Default)]
pub(in crate::core) struct Lane {
    pub(in crate::core) growing: Growing,
    /// full batches, before that one
    grown: VecDeque<Growing>,
    /// blocks of streams
    pub(in crate::core) blocks: WriteBatch,
    pub(in crate::core) in_flight_blocks: Vec<InFlightBlock>,
    /// removals and state: records that a full disk must still accept
    pub(in crate::core) shrinking: WriteBatch,
    /// transactions that post nothing
    pub(in crate::core) retiring: (WriteBatch, Vec<TransactionId>),
    pub(in crate::core) removals: Vec<(u32, Removal)>,
    /// keys of state that is to be forgotten
    pub(in crate::core) erased: BTreeSet<(u32, Box<[u8]>)>,
    /// removals and state that a full disk refused, to be offered again
    again: Option<WriteBatch>,
    /// the disk has accepted something since, or enough time has passed
    has_room: bool,
    /// a batch of removals and state is in flight: later ones wait
    forgetting: bool,
    /// the contents of the batches in flight
    pub(in crate::core) in_flight: VecDeque<InFlightWrite>,
    /// notices that wait for batches
    pub(in crate::core) fences: Fences,
    /// it is on the list of lanes to be asked for batches
    ready: bool,
}

impl Lane {
    /// A group of about this many bytes begins. It goes into the next batch if this one would
    /// become larger than one commit with it, so that what was written before need not wait for it.
    pub(in crate::core) fn begin_group(&mut self, bytes: usize) -> &mut Growing {
        let batch = &self.growing.batch;
        if !batch.is_empty() && batch.bytes() + bytes > BATCH_BYTES {
            self.grown.push_back(std::mem::take(&mut self.growing));
        }
        &mut self.growing
    }

    /// The next batch, in the order in which they go to the log. `copying`: copies are in flight.
    pub(in crate::core) fn take(
        &mut self,
        copying: bool,
        spares: &mut Spares,
        mut spare: impl FnMut() -> WriteBatch,
    ) -> Option<WriteBatch> {
        if let Some(batch) = self.take_growing(spares, &mut spare) {
            return Some(batch);
        }
        if !self.blocks.is_empty() {
            self.in_flight.push_back(InFlightWrite::Blocks(std::mem::take(&mut self.in_flight_blocks)));
            return Some(std::mem::replace(&mut self.blocks, spare()));
        }
        if !self.retiring.0.is_empty() {
            let (batch, transactions) = std::mem::take(&mut self.retiring);
            self.in_flight.push_back(InFlightWrite::Retire(transactions));
            return Some(batch);
        }
        // One at a time: a later batch may concern the same keys, and must not be written before.
        // While copies are in flight, a removal does not know every place of its message.
        if self.forgetting || copying {
            return None;
        }
        let batch = if self.again.is_some() { self.take_again() } else { self.take_shrinking(spares, spare) }?;
        self.forgetting = true;
        self.in_flight.push_back(InFlightWrite::Forget);
        Some(batch)
    }

    fn take_growing(&mut self, spares: &mut Spares, spare: impl FnOnce() -> WriteBatch) -> Option<WriteBatch> {
        let Growing { batch, commits, declared, posting, blocks } = match self.grown.pop_front() {
            Some(grown) => grown,
            None if self.growing.batch.is_empty() => return None,
            None => {
                let commits = spares.commits.pop().unwrap_or_default();
                std::mem::replace(&mut self.growing, Growing { batch: spare(), commits, ..Growing::default() })
            }
        };
        self.in_flight.push_back(InFlightWrite::Store(commits, declared, posting, blocks));
        Some(batch)
    }

    fn take_shrinking(&mut self, spares: &mut Spares, spare: impl FnOnce() -> WriteBatch) -> Option<WriteBatch> {
        for (_, mut removal) in self.removals.drain(..) {
            self.shrinking.remove(&mut removal);
            spares.removals.push(removal);
        }
        for (log, key) in std::mem::take(&mut self.erased) {
            self.shrinking.state(log, &key, &[]);
        }
        (!self.shrinking.is_empty()).then(|| std::mem::replace(&mut self.shrinking, spare()))
    }

    fn take_again(&mut self) -> Option<WriteBatch> {
        if std::mem::take(&mut self.has_room) { self.again.take() } else { None }
    }

    /// The batch of removals and state that was in flight is back, and was not refused by a full
    /// disk.
    pub(in crate::core) fn forgotten(&mut self) {
        self.forgetting = false;
    }

    /// There is a batch that a full disk did not take.
    pub(in crate::core) fn offers_again(&self) -> bool {
        self.again.is_some()
    }

    fn has_removals(&self) -> bool {
        !(self.shrinking.is_empty() && self.removals.is_empty() && self.erased.is_empty())
    }

    fn has_messages(&self) -> bool {
        !(self.growing.batch.is_empty() && self.grown.is_empty() && self.retiring.0.is_empty())
    }

    /// A batch was passed to the log, or there was none; `again`: an earlier one had to be offered
    /// again.
    pub(in crate::core) fn close_fences(&mut self, dispatched: bool, again: bool) {
        let left = self.has_removals() || self.has_messages();
        self.fences.dispatched(dispatched, again && self.again.is_none(), !left && self.again.is_none());
    }

    /// Nothing is pending for the log, and nothing is in flight. Records that a full disk refused
    /// do not count.
    fn is_idle(&self) -> bool {
        let written = !self.has_messages() && self.blocks.is_empty() && self.in_flight.is_empty();
        written && (!self.has_removals() || self.again.is_some())
    }

    fn is_spent(&self) -> bool {
        self.is_idle() && self.again.is_none() && self.fences.is_empty()
    }
}

/// The lanes with records for the log, or in flight.
#[derive(Debug, Default)]
pub(in crate::core) struct Lanes {
    lanes: BTreeMap<LaneId, Box<Lane>>,
    /// lanes to be asked for batches
    ready: Vec<LaneId>,
    /// lanes with a batch that a full disk refused, and when they are offered again at the latest
    refused: Vec<LaneId>,
    again_ms: Option<u64>,
    /// notices that wait for nothing
    due: Vec<Notice>,
    /// the lanes of queues, by their numbers in the log
    queues: HashMap<u32, LaneId>,
    /// the queue asked for last: mostly the next one is the same
    last: Cell<Option<(u32, LaneId)>>,
    #[expect(clippy::vec_box, reason = "a lane moves between the map and the spares without a copy")]
    spares: Vec<Box<Lane>>,
}

impl Lanes {
    /// A queue of the log belongs to this lane.
    pub(in crate::core) fn join(&mut self, log: u32, lane: LaneId) {
        self.queues.insert(log, lane);
        self.last.set(None);
    }

    /// A queue of the log is dropped.
    pub(in crate::core) fn leave(&mut self, log: u32) {
        self.queues.remove(&log);
        self.last.set(None);
    }

    /// The lane of a queue.
    pub(in crate::core) fn lane_of(&self, log: u32) -> LaneId {
        if let Some((_, lane)) = self.last.get().filter(|(last, _)| *last == log) {
            return lane;
        }
        let lane = self.queues.get(&log).copied();
        debug_assert!(lane.is_some(), "queue {log} of the log belongs to no lane");
        let lane = lane.unwrap_or_default();
        self.last.set(Some((log, lane)));
        lane
    }

    /// The lane of a queue, to be written to.
    #[inline]
    pub(in crate::core) fn of(&mut self, log: u32) -> &mut Lane {
        self.at(self.lane_of(log))
    }

    /// A lane, to be written to: it will be asked for batches.
    #[inline]
    pub(in crate::core) fn at(&mut self, id: LaneId) -> &mut Lane {
        let spares = &mut self.spares;
        let lane = self.lanes.entry(id).or_insert_with(|| spares.pop().unwrap_or_default());
        if !lane.ready {
            lane.ready = true;
            self.ready.push(id);
        }
        lane
    }

    /// A lane to be asked for batches.
    pub(in crate::core) fn next_ready(&self) -> Option<LaneId> {
        self.ready.last().copied()
    }

    /// The lane that was asked last has no more batches for now.
    pub(in crate::core) fn rest(&mut self) {
        // None was asked.
        let Some(id) = self.ready.pop() else { return };
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        lane.ready = false;
        self.due.append(&mut lane.fences.take_due());
        if lane.is_spent()
            && let Some(lane) = self.lanes.remove(&id)
            && self.spares.len() < SPARE_LANES
        {
            self.spares.push(lane);
        }
    }

    /// Copies are no longer in flight: removals may be.
    pub(in crate::core) fn wake_all(&mut self) {
        for (id, lane) in self.lanes.iter_mut().filter(|(_, lane)| !lane.ready) {
            lane.ready = true;
            self.ready.push(*id);
        }
    }

    /// Messages that are not on disk.
    pub(in crate::core) fn commits_mut(&mut self) -> impl Iterator<Item = &mut Commit> {
        self.lanes.values_mut().flat_map(|lane| {
            let with_log = lane.in_flight.iter_mut().filter_map(|in_flight| match in_flight {
                InFlightWrite::Store(commits, ..) => Some(commits),
                _ => None,
            });
            let to_come = lane.grown.iter_mut().chain([&mut lane.growing]).map(|growing| &mut growing.commits);
            with_log.chain(to_come).flatten()
        })
    }

    /// A full disk refused a batch of removals and state: it is offered again before later ones.
    pub(in crate::core) fn refuse(&mut self, id: LaneId, batch: WriteBatch, now_ms: u64) {
        let lane = self.at(id);
        (lane.forgetting, lane.again, lane.has_room) = (false, Some(batch), false);
        self.refused.push(id);
        self.again_ms.get_or_insert(now_ms.saturating_add(AGAIN_MS));
    }

    /// The latest time to offer records again that a full disk refused.
    pub(in crate::core) fn next_timeout(&self) -> Option<u64> {
        self.again_ms
    }

    /// The disk has room, or may have: all lanes offer again what it refused.
    pub(in crate::core) fn offer_again(&mut self) {
        self.again_ms = None;
        for id in std::mem::take(&mut self.refused) {
            self.at(id).has_room = true;
        }
    }

    /// Nothing is pending for the log, and nothing is in flight.
    pub(in crate::core) fn is_idle(&self) -> bool {
        self.lanes.values().all(|lane| lane.is_idle())
    }

    /// Notices that wait for nothing: of lanes that were written to since they were asked, and of
    /// those that had nothing to pass on.
    pub(in crate::core) fn take_due(&mut self) -> Vec<Notice> {
        let mut due = std::mem::take(&mut self.due);
        for id in &self.ready {
            let Some(lane) = self.lanes.get_mut(id) else { continue };
            lane.close_fences(false, false);
            due.append(&mut lane.fences.take_due());
        }
        due
    }
}
