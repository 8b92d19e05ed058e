//! Notices that wait until everything logged before is on disk.

use std::collections::{BTreeSet, VecDeque};

use enmasse_journal::log::JointId;

use super::super::AttachmentId;
use super::super::arena::Key;
use super::super::ids::PacketFlow;

/// A notice that waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Notice {
    /// the attach of a resumable link can be answered
    Attached(AttachmentId),
    /// holds up to this number are durable: their messages may be dispatched
    Held { at: Key, up_to: u64 },
    /// a consumer's outcome is durable: its settlement may be answered
    Settled { attachment: AttachmentId, token: u64 },
    /// a packet identifier is durable, or (`kept` is false) its removal
    PacketId { record: AttachmentId, packet: PacketFlow, kept: bool },
    /// the removals of an administrator's operation are durable
    Removed { operation: u32 },
}

/// What was passed to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Dispatched {
    Nothing,
    /// a batch that is answered after all batches before it
    Ordered,
    /// an unordered part of a joint group
    Unordered(JointId),
}

/// Notices that wait for batches in flight.
#[derive(Debug)]
struct Closed {
    /// the number of the last ordered batch that they wait for
    last: u64,
    /// the unordered parts that were in flight with it
    unordered: BTreeSet<JointId>,
    notices: Vec<Notice>,
}

/// Notices of a lane, in the order of the batches that they wait for.
#[derive(Debug, Default)]
pub(in crate::core) struct Fences {
    /// notices that also wait for records that are not in flight yet
    open: Vec<Notice>,
    closed: VecDeque<Closed>,
    /// number of ordered batches passed to the log
    dispatched: u64,
    /// number of ordered batches that returned
    returned: u64,
    /// unordered parts in flight
    unordered: BTreeSet<JointId>,
    /// number of the last batch that was offered again
    offered_again: u64,
}

impl Fences {
    /// Adds a notice that waits for all records that are pending or in flight.
    pub(in crate::core) fn raise(&mut self, notice: Notice) {
        if let (Notice::Held { at, up_to }, Some(Notice::Held { at: last, up_to: before })) =
            (notice, self.open.last_mut())
            && at == *last
        {
            *before = up_to;
            return;
        }
        self.open.push(notice);
    }

    /// A batch was passed to the log, or there was none. `again`: it had returned before. `all`: no
    /// record is left to pass on.
    pub(in crate::core) fn dispatched(&mut self, batch: Dispatched, again: bool, all: bool) {
        match batch {
            Dispatched::Nothing => {}
            Dispatched::Ordered => self.dispatched += 1,
            Dispatched::Unordered(id) => {
                self.unordered.insert(id);
            }
        }
        if again {
            self.offered_again = self.dispatched;
        }
        if all && !self.open.is_empty() {
            let (last, unordered) = (self.dispatched, self.unordered.clone());
            self.closed.push_back(Closed { last, unordered, notices: std::mem::take(&mut self.open) });
        }
    }

    /// A batch returned; `unordered`: it is that part. `refused`: a batch will be offered again, so
    /// its notices continue to wait.
    pub(super) fn returned(&mut self, unordered: Option<JointId>, refused: bool) -> Vec<Notice> {
        match unordered {
            Some(id) => {
                self.unordered.remove(&id);
            }
            None => self.returned += 1,
        }
        let waits = refused || self.returned < self.offered_again;
        let mut due = self.take_due();
        if waits {
            due.append(&mut self.open);
            self.open = due;
            return Vec::new();
        }
        due
    }

    /// Whether no notice waits and no batch is in flight.
    pub(in crate::core) fn is_empty(&self) -> bool {
        let returned = self.dispatched == self.returned && self.unordered.is_empty();
        self.open.is_empty() && self.closed.is_empty() && returned
    }

    /// Takes the notices whose batches have all returned.
    pub(in crate::core) fn take_due(&mut self) -> Vec<Notice> {
        let mut due = Vec::new();
        let has_returned =
            |closed: &Closed| closed.last <= self.returned && closed.unordered.is_disjoint(&self.unordered);
        while self.closed.front().is_some_and(has_returned) {
            due.extend(self.closed.pop_front().into_iter().flat_map(|closed| closed.notices));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(token: u64) -> Notice {
        Notice::Settled { attachment: AttachmentId { shard: 0, generation: 0, index: 0 }, token }
    }

    #[test]
    fn a_notice_waits_for_the_last_batch_before_it() {
        let mut fences = Fences::default();
        fences.dispatched(Dispatched::Ordered, false, false);
        fences.raise(notice(1));
        fences.dispatched(Dispatched::Ordered, false, true);
        fences.raise(notice(2));
        fences.dispatched(Dispatched::Ordered, false, true);
        assert_eq!(fences.returned(None, false), []);
        assert_eq!(fences.returned(None, false), [notice(1)]);
        assert_eq!(fences.returned(None, false), [notice(2)]);
        fences.raise(notice(3));
        fences.dispatched(Dispatched::Nothing, false, true);
        assert_eq!(fences.take_due(), [notice(3)], "no batch is in flight");
    }

    #[test]
    fn notice_waits_for_a_batch_that_a_full_disk_refused() {
        let mut fences = Fences::default();
        fences.raise(notice(1));
        fences.dispatched(Dispatched::Ordered, false, true);
        assert_eq!(fences.returned(None, true), [], "the batch must be offered again");
        fences.dispatched(Dispatched::Ordered, false, false);
        assert_eq!(fences.returned(None, true), []);
        fences.raise(notice(2));
        fences.dispatched(Dispatched::Ordered, false, false);
        fences.dispatched(Dispatched::Ordered, true, true);
        assert_eq!(fences.returned(None, false), []);
        assert_eq!(fences.returned(None, false), [notice(1), notice(2)]);
    }

    #[test]
    fn notice_waits_for_a_batch_that_is_offered_again() {
        let mut fences = Fences::default();
        fences.raise(notice(1));
        fences.dispatched(Dispatched::Ordered, false, true);
        fences.dispatched(Dispatched::Ordered, true, true);
        assert_eq!(fences.returned(None, false), [], "an earlier batch is in flight again");
        fences.dispatched(Dispatched::Nothing, false, true);
        assert_eq!(fences.returned(None, false), [notice(1)]);
    }

    #[test]
    fn messages_of_one_address_share_a_notice() {
        let mut fences = Fences::default();
        let at = Key::NONE;
        fences.raise(Notice::Held { at, up_to: 1 });
        fences.raise(Notice::Held { at, up_to: 2 });
        fences.dispatched(Dispatched::Ordered, false, true);
        assert_eq!(fences.returned(None, false), [Notice::Held { at, up_to: 2 }]);
    }

    #[test]
    fn notice_waits_for_the_unordered_parts_before_it_and_no_other_batch_does() {
        let mut fences = Fences::default();
        let parts = [1, 2].map(|number| JointId { worker: 0, number });
        fences.dispatched(Dispatched::Unordered(parts[0]), false, true);
        fences.raise(notice(1));
        fences.dispatched(Dispatched::Ordered, false, true);
        fences.dispatched(Dispatched::Unordered(parts[1]), false, true);
        assert_eq!(fences.returned(None, false), [], "an earlier part is in flight");
        assert!(!fences.is_empty());
        assert_eq!(fences.returned(Some(parts[0]), false), [notice(1)], "a later one may be");
        assert_eq!(fences.returned(Some(parts[1]), false), []);
        assert!(fences.is_empty());
    }
}
