//! This home's parts of joint groups: what it stores or removes together with other homes
//! ([`enmasse_journal::log::JointPart`]).
//!
//! A part is a batch of its own in the lane of its space. Its answer is applied in the order of the
//! lane, although the log does not keep that order: so messages of a part are available neither
//! before earlier ones nor after later ones. A part without messages may be *unordered*: its answer
//! is applied when it comes. It may wait for a part that another home contributes only later, and no
//! other answer of the lane may wait for that.

use enmasse_amqp::types::Outcome;
use enmasse_journal::log::{JointPart, Refused};
use enmasse_journal::queue::{Item, RecordLocation, Seq};

use super::super::arena::Key;
use super::super::ids::Joint;
use super::super::{Links, Router};
use super::commit::{Completion, KeptPacketId, Received};
use super::journal::{Journal, not_stored};
use super::lanes::LaneId;

fn part_of(joint: Joint) -> JointPart {
    JointPart { id: joint.id(), parts: joint.parts, declined: None, joins: Vec::new() }
}

impl Journal {
    /// A new joint group of this shard, the worker of its number.
    pub(in crate::core) fn next_joint(&mut self, worker: u16, parts: u16) -> Joint {
        self.joints_begun += 1;
        Joint { worker, number: self.joints_begun << 1 | 1, parts }
    }

    /// Begins a part; [`Journal::end_part`] follows. The methods that add to the group of a transaction
    /// add to it.
    pub(in crate::core) fn begin_part(&mut self, lane: LaneId) {
        self.open = lane;
        self.lanes.at(lane).begin_part().batch.begin();
    }

    /// As [`Journal::begin_part`], in the lane of a queue.
    pub(in crate::core) fn begin_part_of(&mut self, log: u32) {
        self.begin_part(self.lanes.lane_of(log));
    }

    /// Adds a message that another home stores: it leaves its queue here, or comes from a producer.
    /// `logged`: the number of its queue in the log, if it is removed from there.
    pub(in crate::core) fn add_departure(&mut self, logged: Option<(u32, &Item)>, completion: Completion) {
        let growing = &mut self.lanes.at(self.open).growing;
        if let Some((log, item)) = logged {
            let mut removal = enmasse_journal::log::Removal::new(log);
            removal.add(item.id.0, item.place);
            growing.batch.remove(&mut removal);
        }
        growing.writes.departures.push(completion);
    }

    /// Adds a message for a queue in memory.
    pub(in crate::core) fn add_in_memory(&mut self, at: Key, seq: Seq, place: RecordLocation) {
        self.lanes.at(self.open).growing.writes.in_memory.push((at, seq, place));
    }

    /// Adds the packet identifier of a message at another home.
    pub(in crate::core) fn add_packet_id(&mut self, kept: KeptPacketId) {
        let lane = self.lanes.at(self.open);
        lane.erased.remove(&(kept.log, Box::from(kept.key())));
        lane.growing.batch.state(kept.log, &kept.key(), KeptPacketId::VALUE);
        lane.growing.writes.packet_id = Some(kept);
    }

    /// Adds the removal of a message that a client has received.
    pub(in crate::core) fn add_received(&mut self, received: Received) {
        let growing = &mut self.lanes.at(self.open).growing;
        growing.batch.remove(&mut received.removal());
        growing.writes.received = Some(received);
    }

    /// Ends the part.
    pub(in crate::core) fn end_part(&mut self, joint: Joint) {
        self.lanes.at(self.open).end_part(part_of(joint));
    }

    /// Ends the part, which belongs to all of these groups: they are written as one.
    pub(in crate::core) fn end_joining_part(&mut self, joint: Joint, joins: &[Joint]) {
        let joins = joins.iter().map(|joined| (joined.id(), joined.parts)).collect();
        self.lanes.at(self.open).end_part(JointPart { joins, ..part_of(joint) });
    }

    /// Ends the part, which has no messages, and whose answer is applied when it comes: only notices
    /// of the address with its packet identifier wait for it.
    pub(in crate::core) fn end_unordered_part(&mut self, joint: Joint) {
        let lane = self.lanes.at(self.open);
        debug_assert!(lane.growing.writes.has_only_packet_id(), "what follows it may come in any order");
        lane.growing.writes.is_unordered = true;
        lane.end_part(part_of(joint));
    }

    /// Declines a group: none of its parts is written.
    pub(in crate::core) fn decline(&mut self, joint: Joint, lane: LaneId, reason: String) {
        let lane = self.lanes.at(lane);
        lane.begin_part();
        lane.end_part(JointPart { declined: Some(reason), ..part_of(joint) });
    }
}

impl Router {
    /// Ends the departure of a message: the other home has stored it, or it stays.
    pub(super) fn end_departure(
        &mut self,
        departure: &Completion,
        result: &Result<(), Refused>,
        links: &mut impl Links,
    ) {
        self.free_window(departure, links);
        let deleted = self.take_deleted_location(departure);
        let outcome = match result {
            Ok(()) => Outcome::Accepted,
            Err(refused) => Outcome::Rejected(Some(Box::new(not_stored("the message", refused)))),
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
    }
}
