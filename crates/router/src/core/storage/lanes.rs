//! Records for the log by address space: each space has a lane of its own.
//!
//! Batches of one lane keep their order; those of different lanes may be reordered, so the log
//! commits small batches of one space between the chunks of another's large batch. A group of
//! records, and the messages that its removals name, belong to one space. Copies belong to all
//! spaces and have a lane of their own: while they are planned or in flight, no removal of their
//! messages is written.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use enmasse_journal::log::{COPIES_PART, JointId, JointPart, RecordLocation, Refused, Removal, WriteBatch};
use enmasse_journal::queue::Seq;

use super::super::TransactionId;
use super::super::arena::Key;
use super::block::InFlightBlock;
use super::commit::{Commit, Completion, KeptPacketId, Received};
use super::compact::Copied;
use super::notice::{Dispatched, Fences, Notice};

/// Bytes of records in a batch, which the log commits with one fsync. A larger group gets a batch
/// of its own.
const BATCH_BYTES: usize = 4 << 20;
/// Time until refused records are offered again, unless a full disk accepts others before.
const AGAIN_MS: u64 = 1000;
/// Number of unused lanes that are kept to avoid allocations.
const SPARE_LANES: usize = 8;

/// A lane of this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::core) struct LaneId(pub(in crate::core) u32);

impl LaneId {
    /// The lane of copies, which are of all spaces.
    pub(in crate::core) const COPIES: Self = Self(COPIES_PART);

    /// The lane of an address space, by the number of the space.
    pub(in crate::core) fn of_space(space: u32) -> Self {
        debug_assert!(space != Self::COPIES.0, "the number of a space is reserved for the lane of copies");
        Self(space)
    }
}

impl Default for LaneId {
    fn default() -> Self {
        Self::COPIES
    }
}

/// The result of a batch from the log.
#[derive(Debug)]
pub struct Answer {
    /// the batch
    pub batch: WriteBatch,
    /// whether it is on disk
    pub result: Result<(), Refused>,
}

/// The content of an in-flight batch.
#[derive(Debug)]
pub(in crate::core) enum InFlightWrite {
    /// messages, and what is written in their groups
    Store(Writes),
    Blocks(Vec<InFlightBlock>),
    /// removals and state
    Forget,
    /// transactions that consist of removals
    Retire(Vec<TransactionId>),
    Copy(Copied),
}

/// A batch that is being built, and its completions.
#[derive(Debug, Default)]
pub(in crate::core) struct Growing {
    pub(in crate::core) batch: WriteBatch,
    pub(in crate::core) writes: Writes,
}

/// The completions of a batch with messages.
#[derive(Debug, Default)]
pub(in crate::core) struct Writes {
    /// set if the batch is a part of a joint group
    pub(in crate::core) joint: Option<JointId>,
    /// it has no messages, and its answer is applied when it comes
    pub(in crate::core) is_unordered: bool,
    pub(in crate::core) commits: Vec<Commit>,
    /// subscriptions to declare in the log
    pub(in crate::core) declared: Vec<Key>,
    /// transactions whose groups it contains
    pub(in crate::core) posting: Vec<TransactionId>,
    /// blocks of these transactions
    pub(in crate::core) blocks: Vec<InFlightBlock>,
    /// messages that leave for another home
    pub(in crate::core) departures: Vec<Completion>,
    /// messages from another home for queues in memory
    pub(in crate::core) in_memory: Vec<(Key, Seq, RecordLocation)>,
    /// the packet identifier of a message at another home
    pub(in crate::core) packet_id: Option<KeptPacketId>,
    /// the message of a packet identifier at another home
    pub(in crate::core) received: Option<Received>,
}

impl Writes {
    /// Whether nothing but a packet identifier follows its answer.
    pub(super) fn has_only_packet_id(&self) -> bool {
        let Self { commits, declared, posting, blocks, departures, in_memory, received, .. } = self;
        let stores = !(commits.is_empty() && declared.is_empty() && blocks.is_empty() && in_memory.is_empty());
        !stores && posting.is_empty() && departures.is_empty() && received.is_none()
    }
}

/// Recycled lists.
#[derive(Debug, Default)]
pub(in crate::core) struct Spares {
    pub(in crate::core) commits: Vec<Vec<Commit>>,
    pub(in crate::core) removals: Vec<Removal>,
}

/// Records of one lane, pending and in flight.
#[derive(Debug, Default)]
pub(in crate::core) struct Lane {
    pub(in crate::core) growing: Growing,
    /// full batches, which precede `growing`
    full_batches: VecDeque<Growing>,
    /// blocks of streams
    pub(in crate::core) blocks: WriteBatch,
    pub(in crate::core) in_flight_blocks: Vec<InFlightBlock>,
    /// removals and state: records that a full disk must still accept
    pub(in crate::core) shrinking: WriteBatch,
    /// transactions without postings
    pub(in crate::core) retiring: (WriteBatch, Vec<TransactionId>),
    pub(in crate::core) removals: Vec<(u32, Removal)>,
    /// state keys to delete
    pub(in crate::core) erased: BTreeSet<(u32, Box<[u8]>)>,
    /// removals and state that a full disk refused, to be offered again
    again: Option<WriteBatch>,
    /// refused records can be offered again: the disk has accepted others, or the time has passed
    has_room: bool,
    /// a batch of removals and state is in flight, and the next one waits for it
    removals_in_flight: bool,
    /// the contents of the batches in flight
    pub(in crate::core) in_flight: VecDeque<InFlightWrite>,
    /// answers that wait for the answer of an earlier part of a joint group
    early: VecDeque<Answer>,
    /// answers of parts of joint groups that wait for earlier batches
    early_joints: HashMap<JointId, Answer>,
    /// unordered parts in flight, which have a packet identifier and nothing else
    unordered: HashMap<JointId, Writes>,
    /// those that were answered
    answered_unordered: VecDeque<(Writes, Answer)>,
    /// notices that wait for batches
    pub(in crate::core) fences: Fences,
    /// it is in the list of ready lanes
    ready: bool,
}

impl Lane {
    /// Begins a group of about this many bytes. It starts a new batch if the current one would
    /// exceed one commit, so that earlier records need not wait for it.
    pub(in crate::core) fn begin_group(&mut self, bytes: usize) -> &mut Growing {
        let batch = &self.growing.batch;
        if !batch.is_empty() && batch.bytes() + bytes > BATCH_BYTES {
            self.full_batches.push_back(std::mem::take(&mut self.growing));
        }
        &mut self.growing
    }

    /// Begins a part of a joint group, in a batch of its own.
    pub(in crate::core) fn begin_part(&mut self) -> &mut Growing {
        if !self.growing.batch.is_empty() {
            self.full_batches.push_back(std::mem::take(&mut self.growing));
        }
        &mut self.growing
    }

    /// Ends the part.
    pub(in crate::core) fn end_part(&mut self, part: JointPart) {
        let mut growing = std::mem::take(&mut self.growing);
        growing.writes.joint = Some(part.id);
        growing.batch.end();
        growing.batch.set_joint(part);
        self.full_batches.push_back(growing);
    }

    /// Takes an answer of the log. The log may answer a part of a joint group and other batches in any
    /// order; answers are applied in the order of the batches, except for those of unordered parts.
    pub(in crate::core) fn answered(&mut self, answer: Answer) {
        let Some(id) = answer.batch.joint().map(|part| part.id) else { return self.early.push_back(answer) };
        match self.unordered.remove(&id) {
            Some(writes) => self.answered_unordered.push_back((writes, answer)),
            None => {
                self.early_joints.insert(id, answer);
            }
        }
    }

    /// The first batch in flight and its answer, once that has come, or an unordered part and its.
    pub(in crate::core) fn next_answered(&mut self) -> Option<(InFlightWrite, Answer)> {
        if let Some((writes, answer)) = self.answered_unordered.pop_front() {
            return Some((InFlightWrite::Store(writes), answer));
        }
        let answer = match self.in_flight.front()? {
            InFlightWrite::Store(Writes { joint: Some(id), .. }) => self.early_joints.remove(id)?,
            _ => self.early.pop_front()?,
        };
        Some((self.in_flight.pop_front()?, answer))
    }

    /// The next batch, in the order of the log. `copying`: copies are in flight.
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
        // One at a time, because a later batch may contain the same keys and must not be written
        // first. A removal during a copy would not name the new location of its message.
        if self.removals_in_flight || copying {
            return None;
        }
        let batch = if self.again.is_some() { self.take_again() } else { self.take_shrinking(spares, spare) }?;
        self.removals_in_flight = true;
        self.in_flight.push_back(InFlightWrite::Forget);
        Some(batch)
    }

    fn take_growing(&mut self, spares: &mut Spares, spare: impl FnOnce() -> WriteBatch) -> Option<WriteBatch> {
        let Growing { batch, writes } = match self.full_batches.pop_front() {
            Some(full_batch) => full_batch,
            None if self.growing.batch.is_empty() => return None,
            None => {
                let commits = spares.commits.pop().unwrap_or_default();
                let writes = Writes { commits, ..Writes::default() };
                std::mem::replace(&mut self.growing, Growing { batch: spare(), writes })
            }
        };
        match writes.joint.filter(|_| writes.is_unordered) {
            Some(id) => {
                self.unordered.insert(id, writes);
            }
            None => self.in_flight.push_back(InFlightWrite::Store(writes)),
        }
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

    /// The batch of removals and state in flight returned, and a full disk has not refused it.
    pub(in crate::core) fn forgotten(&mut self) {
        self.removals_in_flight = false;
    }

    /// Whether a batch that a full disk refused waits to be offered again.
    pub(in crate::core) fn has_refused_batch(&self) -> bool {
        self.again.is_some()
    }

    fn has_removals(&self) -> bool {
        !(self.shrinking.is_empty() && self.removals.is_empty() && self.erased.is_empty())
    }

    fn has_messages(&self) -> bool {
        let has_batches = !(self.growing.batch.is_empty() && self.full_batches.is_empty());
        has_batches || !self.blocks.is_empty() || !self.retiring.0.is_empty()
    }

    /// What [`Lane::take`] has taken.
    pub(in crate::core) fn dispatched(&self, taken: Option<&WriteBatch>) -> Dispatched {
        let Some(batch) = taken else { return Dispatched::Nothing };
        let Some((id, writes)) = batch.joint().and_then(|part| Some((part.id, self.unordered.get(&part.id)?))) else {
            return Dispatched::Ordered;
        };
        // Without a packet identifier the session was discarded, and no notice waits for the part.
        Dispatched::Unordered(id, writes.packet_id.map_or(Key::NONE, |kept| kept.at))
    }

    /// Notes for the fences what was passed to the log. `again`: an earlier batch had to be offered
    /// again.
    pub(in crate::core) fn close_fences(&mut self, dispatched: Dispatched, again: bool) {
        let left = self.has_removals() || self.has_messages();
        self.fences.dispatched(dispatched, again && self.again.is_none(), !left && self.again.is_none());
    }

    /// The parts of joint groups that are pending or in flight, without unordered ones, which have
    /// no messages.
    fn ordered_parts(&self) -> Vec<JointId> {
        let in_flight = self.in_flight.iter().filter_map(|write| match write {
            InFlightWrite::Store(writes) => writes.joint,
            _ => None,
        });
        let pending = self.full_batches.iter().filter(|growing| !growing.writes.is_unordered);
        in_flight.chain(pending.filter_map(|growing| growing.writes.joint)).collect()
    }

    /// Whether no record is pending or in flight. Records that a full disk refused do not count.
    fn is_idle(&self) -> bool {
        let written = !self.has_messages() && self.in_flight.is_empty();
        written && self.unordered.is_empty() && (!self.has_removals() || self.again.is_some())
    }

    fn is_removable(&self) -> bool {
        self.is_idle() && self.again.is_none() && self.fences.is_empty()
    }
}

/// The lanes with records for the log, or in flight.
#[derive(Debug, Default)]
pub(in crate::core) struct Lanes {
    lanes: BTreeMap<LaneId, Box<Lane>>,
    /// ready lanes: those that may have batches
    ready: Vec<LaneId>,
    /// lanes with a batch that a full disk refused, and the latest time to offer these again
    refused: Vec<LaneId>,
    again_ms: Option<u64>,
    /// notices that wait for no batch
    due: Vec<Notice>,
    /// the lanes of queues, by their numbers in the log
    queues: HashMap<u32, LaneId>,
    /// cache of the last look-up: mostly the next one is for the same queue
    last: Cell<Option<(u32, LaneId)>>,
    #[expect(clippy::vec_box, reason = "a lane moves between the map and the spares without a copy")]
    spares: Vec<Box<Lane>>,
}

impl Lanes {
    /// Assigns a queue of the log to a lane.
    pub(in crate::core) fn join(&mut self, log: u32, lane: LaneId) {
        self.queues.insert(log, lane);
        self.last.set(None);
    }

    /// Removes a dropped queue of the log.
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

    /// The lane of a queue, for writing.
    #[inline]
    pub(in crate::core) fn of(&mut self, log: u32) -> &mut Lane {
        self.at(self.lane_of(log))
    }

    /// A lane, for writing; marks it as ready.
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

    /// The next ready lane.
    pub(in crate::core) fn next_ready(&self) -> Option<LaneId> {
        self.ready.last().copied()
    }

    /// Removes the last ready lane from the list: it has no more batches for now.
    pub(in crate::core) fn rest(&mut self) {
        // None was asked.
        let Some(id) = self.ready.pop() else { return };
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        lane.ready = false;
        self.due.append(&mut lane.fences.take_due());
        if lane.is_removable()
            && let Some(lane) = self.lanes.remove(&id)
            && self.spares.len() < SPARE_LANES
        {
            self.spares.push(lane);
        }
    }

    /// Marks all lanes as ready, because removals may be in flight again after copies.
    pub(in crate::core) fn mark_all_ready(&mut self) {
        for (id, lane) in self.lanes.iter_mut().filter(|(_, lane)| !lane.ready) {
            lane.ready = true;
            self.ready.push(*id);
        }
    }

    /// The parts of joint groups of a lane whose answers are still to be applied in its order.
    pub(in crate::core) fn ordered_parts(&self, id: LaneId) -> Vec<JointId> {
        self.lanes.get(&id).map(|lane| lane.ordered_parts()).unwrap_or_default()
    }

    /// The completions of messages that are pending or in flight.
    pub(in crate::core) fn completions_mut(&mut self) -> impl Iterator<Item = &mut Completion> {
        self.lanes.values_mut().flat_map(|lane| {
            let with_log = lane.in_flight.iter_mut().filter_map(|in_flight| match in_flight {
                InFlightWrite::Store(writes) => Some(writes),
                _ => None,
            });
            let to_come = lane.full_batches.iter_mut().chain([&mut lane.growing]).map(|growing| &mut growing.writes);
            with_log.chain(to_come).flat_map(|writes| {
                writes.commits.iter_mut().map(|commit| &mut commit.completion).chain(&mut writes.departures)
            })
        })
    }

    /// Keeps a batch of removals and state that a full disk refused, to offer it again before later
    /// ones.
    pub(in crate::core) fn refuse(&mut self, id: LaneId, batch: WriteBatch, now_ms: u64) {
        let lane = self.at(id);
        (lane.removals_in_flight, lane.again, lane.has_room) = (false, Some(batch), false);
        self.refused.push(id);
        self.again_ms.get_or_insert(now_ms.saturating_add(AGAIN_MS));
    }

    /// The latest time to offer refused records again.
    pub(in crate::core) fn next_timeout(&self) -> Option<u64> {
        self.again_ms
    }

    /// Lets all lanes offer refused records again, because the disk may have room.
    pub(in crate::core) fn offer_again(&mut self) {
        self.again_ms = None;
        for id in std::mem::take(&mut self.refused) {
            self.at(id).has_room = true;
        }
    }

    /// Whether no record is pending or in flight.
    pub(in crate::core) fn is_idle(&self) -> bool {
        self.lanes.values().all(|lane| lane.is_idle())
    }

    /// Takes the notices that wait for no batch, also those of ready lanes without pending records.
    pub(in crate::core) fn take_due(&mut self) -> Vec<Notice> {
        let mut due = std::mem::take(&mut self.due);
        for id in &self.ready {
            let Some(lane) = self.lanes.get_mut(id) else { continue };
            lane.close_fences(Dispatched::Nothing, false);
            due.append(&mut lane.fences.take_due());
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u64) -> JointPart {
        JointPart { id: JointId { worker: 0, number }, parts: 2, declined: None, joins: Vec::new() }
    }

    fn take(lane: &mut Lane) -> WriteBatch {
        let batch = lane.take(false, &mut Spares::default(), WriteBatch::new).expect("a batch");
        lane.close_fences(lane.dispatched(Some(&batch)), false);
        batch
    }

    /// A block of a stream waits for the decision of a transaction, and a packet identifier for that
    /// block. The transaction may wait for another answer of the lane with the identifier: if that
    /// waited for the identifier, all three would wait for ever.
    #[test]
    fn only_an_ordered_part_delays_later_answers() {
        for is_unordered in [true, false] {
            let mut lane = Lane::default();
            lane.begin_part().batch.begin();
            lane.growing.writes.is_unordered = is_unordered;
            lane.end_part(part(1));
            let identifier = take(&mut lane);
            lane.begin_group(1).batch.state(7, b"key", b"value");
            let later = take(&mut lane);
            lane.answered(Answer { batch: later, result: Ok(()) });
            assert_eq!(lane.next_answered().is_some(), is_unordered);
            assert!(!lane.is_idle(), "a part is in flight");
            lane.answered(Answer { batch: identifier, result: Ok(()) });
            let left = std::iter::from_fn(|| lane.next_answered()).count();
            assert_eq!(left, if is_unordered { 1 } else { 2 });
            assert!(lane.is_idle());
        }
    }
}
