//! This home's parts of joint groups: what it stores or removes together with other homes
//! ([`enmasse_journal::log::JointPart`]).
//!
//! A part is built like the group of a transaction, and its answer is applied by
//! [`Router::journaled`] like that of any batch: all homes learn the same result.

use std::collections::{BTreeMap, VecDeque};

use enmasse_amqp::types::Outcome;
use enmasse_journal::log::{JointId, JointPart, Refused, WriteBatch};
use enmasse_journal::queue::{Item, RecordLocation, Seq};

use super::super::arena::Key;
use super::super::{Links, Router, TransactionId};
use super::commit::Completion;
use super::journal::{Answer, not_stored};
use super::lanes::{Growing, LaneId};

/// A joint group, as a command to one of its homes names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joint {
    /// the worker of the number
    pub worker: u16,
    /// its number
    pub number: u64,
    /// the number of its parts
    pub parts: u16,
}

impl Joint {
    /// The group of a transaction with parts at several homes.
    pub(in crate::core) fn of_transaction(id: TransactionId, parts: u16) -> Self {
        Self { worker: id.shard, number: id.number << 1, parts }
    }

    const fn id(&self) -> JointId {
        JointId { worker: self.worker, number: self.number }
    }
}

/// What follows the answer for a part.
#[derive(Debug, Default)]
pub(in crate::core) struct JointWrite {
    growing: Growing,
    /// messages that leave for another home
    departures: Vec<Completion>,
    /// messages for queues in memory
    in_memory: Vec<(Key, Seq, RecordLocation)>,
}

/// The joint groups of a shard.
#[derive(Debug, Default)]
pub(in crate::core) struct Joints {
    /// the part that is being built
    building: Option<JointWrite>,
    /// finished parts for the log
    ready: VecDeque<WriteBatch>,
    /// parts in flight
    in_flight: BTreeMap<JointId, JointWrite>,
    /// number of groups that this shard has begun
    begun: u64,
}

impl Joints {
    /// A new group of this shard.
    pub(in crate::core) fn next(&mut self, worker: u16, parts: u16) -> Joint {
        self.begun += 1;
        Joint { worker, number: self.begun << 1 | 1, parts }
    }

    /// Begins a part; [`Joints::end`] or a transaction's end follows.
    pub(in crate::core) fn begin(&mut self) {
        debug_assert!(self.building.is_none(), "one part is built at a time");
        self.building = Some(JointWrite::default());
    }

    /// The records of the part that is being built.
    pub(super) fn growing(&mut self) -> Option<&mut Growing> {
        self.building.as_mut().map(|building| &mut building.growing)
    }

    /// Adds a message that leaves its queue for another home. `logged`: the number of its queue in
    /// the log, if it is removed from there.
    pub(in crate::core) fn depart(&mut self, logged: Option<(u32, &Item)>, completion: Completion) {
        let Some(building) = &mut self.building else { return debug_assert!(false, "no part is being built") };
        if let Some((log, item)) = logged {
            let mut removal = enmasse_journal::log::Removal::new(log);
            removal.add(item.id.0, item.place);
            building.growing.batch.remove(&mut removal);
        }
        building.departures.push(completion);
    }

    /// Adds a message for a queue in memory.
    pub(in crate::core) fn add_in_memory(&mut self, at: Key, seq: Seq, place: RecordLocation) {
        let Some(building) = &mut self.building else { return debug_assert!(false, "no part is being built") };
        building.in_memory.push((at, seq, place));
    }

    /// Ends the part: it goes to the log.
    pub(in crate::core) fn end(&mut self, joint: Joint, lane: LaneId) {
        let Some(mut write) = self.building.take() else { return debug_assert!(false, "no part is being built") };
        let mut batch = std::mem::take(&mut write.growing.batch);
        batch.end();
        batch.set_part(lane.0);
        batch.set_joint(JointPart { id: joint.id(), parts: joint.parts, declined: None });
        self.ready.push_back(batch);
        let before = self.in_flight.insert(joint.id(), write);
        debug_assert!(before.is_none(), "a home has one part of a joint group");
    }

    /// Declines a group: none of its parts is written.
    pub(in crate::core) fn decline(&mut self, joint: Joint, lane: LaneId, reason: String) {
        let mut batch = WriteBatch::new();
        batch.set_part(lane.0);
        batch.set_joint(JointPart { id: joint.id(), parts: joint.parts, declined: Some(reason) });
        self.ready.push_back(batch);
        self.in_flight.insert(joint.id(), JointWrite::default());
    }

    pub(super) fn take_ready(&mut self) -> Option<WriteBatch> {
        self.ready.pop_front()
    }

    /// Whether no part is pending or in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// The messages of parts in flight.
    pub(super) fn commits_mut(&mut self) -> impl Iterator<Item = &mut super::commit::Commit> {
        self.in_flight.values_mut().flat_map(|write| &mut write.growing.commits)
    }
}

impl Router {
    /// Applies the answer for this home's part of a joint group.
    pub(super) fn take_joint_answer(&mut self, id: JointId, answer: Answer, links: &mut impl Links) {
        let Answer { batch, result } = answer;
        let Some(write) = self.storage.journal.joints.in_flight.remove(&id) else {
            return debug_assert!(false, "a part of a joint group is not in flight");
        };
        let JointWrite { growing, departures, in_memory } = write;
        let Growing { commits, posting, blocks, .. } = growing;
        for commit in &commits {
            match &result {
                Ok(()) => self.commit(commit, batch.place(commit.number), links),
                Err(refused) => self.uncommit(commit, &not_stored_outcome(refused), links),
            }
        }
        match &result {
            Ok(()) => in_memory.into_iter().for_each(|(at, seq, place)| self.end_posting(at, seq, place, links)),
            Err(refused) => self.withdraw_from_memory(in_memory, &not_stored("the message", refused), links),
        }
        for departure in &departures {
            self.end_departure(departure, &result, links);
        }
        let dirty = self.blocks_journaled(&batch, &result, blocks, links);
        self.retain_body(batch, &result);
        for transaction in posting {
            self.end_commit(transaction, &result, links);
        }
        self.begin_waiting_commits(links);
        self.process_streams(dirty, links);
    }

    /// Ends the departure of a message: the other home has stored it, or it stays.
    fn end_departure(&mut self, departure: &Completion, result: &Result<(), Refused>, links: &mut impl Links) {
        let deleted = self.take_deleted_location(departure);
        let outcome = match result {
            Ok(()) => Outcome::Accepted,
            Err(refused) => not_stored_outcome(refused),
        };
        if let Some(place) = deleted.filter(|_| result.is_err()) {
            self.storage.journal.free_orphan(place);
        }
        if let Some((from, seq)) = departure.from
            && let Some(queue) = self.addresses.find_queue_mut(from)
        {
            match result {
                Ok(()) => queue.left(seq, &mut self.storage),
                Err(_) => {
                    queue.opened.messages.stay(seq);
                }
            }
            self.mark_dirty(from);
        }
        self.run_completion(departure, &outcome, links);
        self.commit_ended(links);
    }
}

fn not_stored_outcome(refused: &Refused) -> Outcome {
    Outcome::Rejected(Some(Box::new(not_stored("the message", refused))))
}
