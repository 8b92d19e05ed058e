//! Notices that wait until everything logged before is on disk.

use std::collections::VecDeque;

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

/// Notices of a lane, in the order of the batches that they wait for.
#[derive(Debug, Default)]
pub(in crate::core) struct Fences {
    /// notices that also wait for records that are not in flight yet
    open: Vec<Notice>,
    /// notices by the number of the last batch that they wait for
    closed: VecDeque<(u64, Vec<Notice>)>,
    /// number of batches passed to the log
    dispatched: u64,
    /// number of batches that returned
    returned: u64,
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

    /// A batch was passed to the log, or (`batch` is false) there was none. `again`: it had
    /// returned before. `all`: no record is left to pass on.
    pub(in crate::core) fn dispatched(&mut self, batch: bool, again: bool, all: bool) {
        self.dispatched += u64::from(batch);
        if again {
            self.offered_again = self.dispatched;
        }
        if all && !self.open.is_empty() {
            self.closed.push_back((self.dispatched, std::mem::take(&mut self.open)));
        }
    }

    /// A batch returned. `refused`: a batch will be offered again, so its notices continue to wait.
    pub(super) fn returned(&mut self, refused: bool) -> Vec<Notice> {
        self.returned += 1;
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
        self.open.is_empty() && self.closed.is_empty() && self.dispatched == self.returned
    }

    /// Takes the notices whose batches have all returned.
    pub(in crate::core) fn take_due(&mut self) -> Vec<Notice> {
        let mut due = Vec::new();
        while self.closed.front().is_some_and(|(last, _)| *last <= self.returned) {
            due.extend(self.closed.pop_front().into_iter().flat_map(|(_, notices)| notices));
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
        fences.dispatched(true, false, false);
        fences.raise(notice(1));
        fences.dispatched(true, false, true);
        fences.raise(notice(2));
        fences.dispatched(true, false, true);
        assert_eq!(fences.returned(false), []);
        assert_eq!(fences.returned(false), [notice(1)]);
        assert_eq!(fences.returned(false), [notice(2)]);
        fences.raise(notice(3));
        fences.dispatched(false, false, true);
        assert_eq!(fences.take_due(), [notice(3)], "no batch is in flight");
    }

    #[test]
    fn notice_waits_for_a_batch_that_a_full_disk_refused() {
        let mut fences = Fences::default();
        fences.raise(notice(1));
        fences.dispatched(true, false, true);
        assert_eq!(fences.returned(true), [], "the batch must be offered again");
        fences.dispatched(true, false, false);
        assert_eq!(fences.returned(true), []);
        fences.raise(notice(2));
        fences.dispatched(true, false, false);
        fences.dispatched(true, true, true);
        assert_eq!(fences.returned(false), []);
        assert_eq!(fences.returned(false), [notice(1), notice(2)]);
    }

    #[test]
    fn notice_waits_for_a_batch_that_is_offered_again() {
        let mut fences = Fences::default();
        fences.raise(notice(1));
        fences.dispatched(true, false, true);
        fences.dispatched(true, true, true);
        assert_eq!(fences.returned(false), [], "an earlier batch is in flight again");
        fences.dispatched(false, false, true);
        assert_eq!(fences.returned(false), [notice(1)]);
    }

    #[test]
    fn messages_of_one_address_share_a_notice() {
        let mut fences = Fences::default();
        let at = Key::NONE;
        fences.raise(Notice::Held { at, up_to: 1 });
        fences.raise(Notice::Held { at, up_to: 2 });
        fences.dispatched(true, false, true);
        assert_eq!(fences.returned(false), [Notice::Held { at, up_to: 2 }]);
    }
}
