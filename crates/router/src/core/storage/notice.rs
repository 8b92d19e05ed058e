//! Notices that wait until everything logged before for their address is on disk: the ordered batches
//! of the space, and those unordered parts that have state of the address. Other unordered parts have
//! nothing that the notice confirms, and may wait for another home.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
    /// an unordered part of a joint group, with state of this address
    Unordered(JointId, Key),
}

/// A notice of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Raised {
    at: Key,
    notice: Notice,
}

/// Notices that wait for batches in flight.
#[derive(Debug)]
struct Closed {
    /// the number of the last ordered batch that they wait for
    last: u64,
    /// the unordered parts of their address that were in flight with it
    unordered: BTreeSet<JointId>,
    notices: Vec<Raised>,
}

/// Notices of a lane, in the order of the batches that they wait for.
#[derive(Debug, Default)]
pub(in crate::core) struct Fences {
    /// notices that also wait for records that are not in flight yet
    open: Vec<Raised>,
    /// in the order of `last`
    closed: VecDeque<Closed>,
    /// number of ordered batches passed to the log
    dispatched: u64,
    /// number of ordered batches that returned
    returned: u64,
    /// unordered parts in flight, with their addresses
    unordered: BTreeMap<JointId, Key>,
    /// number of the last batch that was offered again
    offered_again: u64,
}

impl Fences {
    /// Adds a notice that waits for all records of its address that are pending or in flight.
    pub(in crate::core) fn raise(&mut self, at: Key, notice: Notice) {
        if let (Notice::Held { up_to, .. }, Some(Raised { at: last, notice: Notice::Held { up_to: before, .. } })) =
            (notice, self.open.last_mut())
            && at == *last
        {
            *before = up_to;
            return;
        }
        self.open.push(Raised { at, notice });
    }

    /// A batch was passed to the log, or there was none. `again`: it had returned before. `all`: no
    /// record is left to pass on.
    pub(in crate::core) fn dispatched(&mut self, batch: Dispatched, again: bool, all: bool) {
        match batch {
            Dispatched::Nothing => {}
            Dispatched::Ordered => self.dispatched += 1,
            Dispatched::Unordered(id, at) => {
                self.unordered.insert(id, at);
            }
        }
        if again {
            self.offered_again = self.dispatched;
        }
        if all && !self.open.is_empty() {
            self.close();
        }
    }

    /// Closes the open notices: those of each address with unordered parts in flight wait for these.
    fn close(&mut self) {
        let last = self.dispatched;
        let mut notices = std::mem::take(&mut self.open);
        if !self.unordered.is_empty() {
            let mut parts: BTreeMap<Key, BTreeSet<JointId>> = BTreeMap::new();
            for (id, at) in &self.unordered {
                parts.entry(*at).or_default().insert(*id);
            }
            let mut waiting: BTreeMap<Key, Vec<Raised>> = BTreeMap::new();
            for raised in notices.extract_if(.., |raised| parts.contains_key(&raised.at)) {
                waiting.entry(raised.at).or_default().push(raised);
            }
            for (at, notices) in waiting {
                let unordered = parts.remove(&at).unwrap_or_default();
                self.closed.push_back(Closed { last, unordered, notices });
            }
        }
        if !notices.is_empty() {
            self.closed.push_back(Closed { last, unordered: BTreeSet::new(), notices });
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
        let mut due = self.take_returned();
        if waits {
            due.append(&mut self.open);
            self.open = due;
            return Vec::new();
        }
        due.into_iter().map(|raised| raised.notice).collect()
    }

    /// Whether no notice waits and no batch is in flight.
    pub(in crate::core) fn is_empty(&self) -> bool {
        let returned = self.dispatched == self.returned && self.unordered.is_empty();
        self.open.is_empty() && self.closed.is_empty() && returned
    }

    /// Takes the notices whose batches have all returned.
    pub(in crate::core) fn take_due(&mut self) -> Vec<Notice> {
        self.take_returned().into_iter().map(|raised| raised.notice).collect()
    }

    fn take_returned(&mut self) -> Vec<Raised> {
        let (mut due, mut place) = (Vec::new(), 0);
        while let Some(closed) = self.closed.get(place).filter(|closed| closed.last <= self.returned) {
            if closed.unordered.iter().any(|id| self.unordered.contains_key(id)) {
                place += 1;
            } else {
                due.extend(self.closed.remove(place).into_iter().flat_map(|closed| closed.notices));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Key = Key::unpack(1);
    const OTHER: Key = Key::unpack(2);

    fn notice(token: u64) -> Notice {
        Notice::Settled { attachment: AttachmentId { shard: 0, generation: 0, index: 0 }, token }
    }

    #[test]
    fn a_notice_waits_for_the_last_batch_before_it() {
        let mut fences = Fences::default();
        fences.dispatched(Dispatched::Ordered, false, false);
        fences.raise(AT, notice(1));
        fences.dispatched(Dispatched::Ordered, false, true);
        fences.raise(AT, notice(2));
        fences.dispatched(Dispatched::Ordered, false, true);
        assert_eq!(fences.returned(None, false), []);
        assert_eq!(fences.returned(None, false), [notice(1)]);
        assert_eq!(fences.returned(None, false), [notice(2)]);
        fences.raise(AT, notice(3));
        fences.dispatched(Dispatched::Nothing, false, true);
        assert_eq!(fences.take_due(), [notice(3)], "no batch is in flight");
    }

    #[test]
    fn notice_waits_for_a_batch_that_a_full_disk_refused() {
        let mut fences = Fences::default();
        fences.raise(AT, notice(1));
        fences.dispatched(Dispatched::Ordered, false, true);
        assert_eq!(fences.returned(None, true), [], "the batch must be offered again");
        fences.dispatched(Dispatched::Ordered, false, false);
        assert_eq!(fences.returned(None, true), []);
        fences.raise(AT, notice(2));
        fences.dispatched(Dispatched::Ordered, false, false);
        fences.dispatched(Dispatched::Ordered, true, true);
        assert_eq!(fences.returned(None, false), []);
        assert_eq!(fences.returned(None, false), [notice(1), notice(2)]);
    }

    #[test]
    fn notice_waits_for_a_batch_that_is_offered_again() {
        let mut fences = Fences::default();
        fences.raise(AT, notice(1));
        fences.dispatched(Dispatched::Ordered, false, true);
        fences.dispatched(Dispatched::Ordered, true, true);
        assert_eq!(fences.returned(None, false), [], "an earlier batch is in flight again");
        fences.dispatched(Dispatched::Nothing, false, true);
        assert_eq!(fences.returned(None, false), [notice(1)]);
    }

    #[test]
    fn messages_of_one_address_share_a_notice() {
        let mut fences = Fences::default();
        fences.raise(AT, Notice::Held { at: AT, up_to: 1 });
        fences.raise(AT, Notice::Held { at: AT, up_to: 2 });
        fences.dispatched(Dispatched::Ordered, false, true);
        assert_eq!(fences.returned(None, false), [Notice::Held { at: AT, up_to: 2 }]);
    }

    #[test]
    fn notice_waits_for_the_unordered_parts_before_it_and_no_other_batch_does() {
        let mut fences = Fences::default();
        let parts = [1, 2].map(|number| JointId { worker: 0, number });
        fences.dispatched(Dispatched::Unordered(parts[0], AT), false, true);
        fences.raise(AT, notice(1));
        fences.dispatched(Dispatched::Ordered, false, true);
        fences.dispatched(Dispatched::Unordered(parts[1], AT), false, true);
        assert_eq!(fences.returned(None, false), [], "an earlier part is in flight");
        assert!(!fences.is_empty());
        assert_eq!(fences.returned(Some(parts[0]), false), [notice(1)], "a later one may be");
        assert_eq!(fences.returned(Some(parts[1]), false), []);
        assert!(fences.is_empty());
    }
    #[test]
    fn notice_waits_for_no_unordered_part_of_another_address() {
        let mut fences = Fences::default();
        let parts = [1, 2].map(|number| JointId { worker: 0, number });
        fences.dispatched(Dispatched::Unordered(parts[0], AT), false, true);
        fences.dispatched(Dispatched::Unordered(parts[1], OTHER), false, true);
        fences.raise(AT, notice(1));
        fences.raise(OTHER, notice(2));
        fences.raise(Key::NONE, notice(3));
        fences.dispatched(Dispatched::Ordered, false, true);
        assert_eq!(fences.returned(None, false), [notice(3)], "the others wait for their own part");
        fences.raise(Key::NONE, notice(4));
        fences.dispatched(Dispatched::Nothing, false, true);
        assert_eq!(fences.take_due(), [notice(4)], "later ones do not wait for them");
        assert_eq!(fences.returned(Some(parts[1]), false), [notice(2)]);
        assert_eq!(fences.returned(Some(parts[0]), false), [notice(1)]);
        assert!(fences.is_empty());
    }

    #[test]
    fn notice_behind_an_unordered_part_waits_for_a_batch_that_a_full_disk_refused_meanwhile() {
        let mut fences = Fences::default();
        let part = JointId { worker: 0, number: 1 };
        fences.dispatched(Dispatched::Unordered(part, AT), false, true);
        fences.raise(AT, notice(1));
        fences.dispatched(Dispatched::Ordered, false, true);
        assert_eq!(fences.returned(None, true), [], "the batch must be offered again");
        assert_eq!(fences.returned(Some(part), true), []);
        fences.dispatched(Dispatched::Ordered, true, true);
        assert_eq!(fences.returned(None, false), [notice(1)]);
    }
}
