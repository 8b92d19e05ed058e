//! What is to be said once all that the log was given before is on disk.

use std::collections::VecDeque;

use enmasse_amqp::types::{Error, condition};

use super::super::arena::Key;
use super::super::{Links, PortId, Router};

/// What waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// the attach of a link that can be resumed is to be answered
    Attached(PortId),
    /// the first so many messages that links hold may leave
    Held { at: Key, up_to: u64 },
    /// what a consumer has said of a delivery counts for good: its settlement may be answered
    Settled { port: PortId, token: u64 },
    /// what an administrator's operation removed is gone for good
    Removed { operation: u32 },
}

/// Notices, in the order of the batches that they wait for.
#[derive(Debug, Default)]
pub(super) struct Fences {
    /// what they wait for is not all with the log
    open: Vec<Notice>,
    /// by the number of the last batch that they wait for
    closed: VecDeque<(u64, Vec<Notice>)>,
    /// batches that went to the log
    handed: u64,
    /// batches that came back
    returned: u64,
    /// the last batch that was offered again
    offered_again: u64,
}

impl Fences {
    /// `notice` waits for all that the log has been given, or is to be given.
    pub(super) fn raise(&mut self, notice: Notice) {
        if let (Notice::Held { at, up_to }, Some(Notice::Held { at: last, up_to: before })) =
            (notice, self.open.last_mut())
            && at == *last
        {
            *before = up_to;
            return;
        }
        self.open.push(notice);
    }

    /// A batch went to the log, or there was none. `again`: it had come back before; `all`: nothing is left to hand over.
    pub(super) fn handed(&mut self, batch: bool, again: bool, all: bool) {
        self.handed += u64::from(batch);
        if again {
            self.offered_again = self.handed;
        }
        if all && !self.open.is_empty() {
            self.closed.push_back((self.handed, std::mem::take(&mut self.open)));
        }
    }

    /// A batch came back. `refused`: some batch is to be offered again, and who waits for it goes on waiting.
    fn returned(&mut self, refused: bool) -> Vec<Notice> {
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

    /// Those that wait for nothing that is not back.
    pub(super) fn take_due(&mut self) -> Vec<Notice> {
        let mut due = Vec::new();
        while self.closed.front().is_some_and(|(last, _)| *last <= self.returned) {
            due.extend(self.closed.pop_front().into_iter().flat_map(|(_, notices)| notices));
        }
        due
    }
}

impl Router {
    /// A batch is back from the log: what waited for it and nothing else is said.
    pub(super) fn pass_fences(&mut self, stopped: bool, links: &mut impl Links) {
        let again = self.journal.offers_again();
        for notice in self.journal.fences.returned(again) {
            if stopped {
                self.give_notice_up(notice, links);
            } else {
                self.give_notice(notice, links);
            }
        }
    }

    /// What waits for nothing is said in the next turn.
    pub(in crate::core) fn pass_open_fences(&mut self, links: &mut impl Links) {
        self.journal.close_fences(false, false);
        let due = self.journal.fences.take_due();
        due.into_iter().for_each(|notice| self.give_notice(notice, links));
    }

    fn give_notice(&mut self, notice: Notice, links: &mut impl Links) {
        match notice {
            Notice::Attached(port) => self.answer_resumed(port, links),
            Notice::Held { at, up_to } => self.let_held_leave(at, up_to, links),
            Notice::Settled { port, token } => links.settled(port, token),
            Notice::Removed { operation } => self.operation_removed(operation, None),
        }
    }

    /// The log takes nothing any more.
    fn give_notice_up(&mut self, notice: Notice, links: &mut impl Links) {
        if let Notice::Removed { operation } = notice {
            return self.operation_removed(operation, Some("the log has stopped: what was removed may come back"));
        }
        let error = Error::new(condition::INTERNAL_ERROR, "the log has stopped: what the link holds cannot be kept");
        if let Notice::Attached(port) = notice
            && (self.ports.consumer(port).is_some() || self.ports.producer(port).is_some())
        {
            self.detach(port, links);
            links.attached(port, Err(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(token: u64) -> Notice {
        Notice::Settled { port: PortId { shard: 0, generation: 0, index: 0 }, token }
    }

    #[test]
    fn a_notice_waits_for_the_last_batch_before_it() {
        let mut fences = Fences::default();
        fences.handed(true, false, false);
        fences.raise(notice(1));
        fences.handed(true, false, true);
        fences.raise(notice(2));
        fences.handed(true, false, true);
        assert_eq!(fences.returned(false), []);
        assert_eq!(fences.returned(false), [notice(1)]);
        assert_eq!(fences.returned(false), [notice(2)]);
        fences.raise(notice(3));
        fences.handed(false, false, true);
        assert_eq!(fences.take_due(), [notice(3)], "nothing is with the log");
    }

    #[test]
    fn what_a_full_disk_did_not_take_is_waited_for() {
        let mut fences = Fences::default();
        fences.raise(notice(1));
        fences.handed(true, false, true);
        assert_eq!(fences.returned(true), [], "the batch is to be offered again");
        fences.handed(true, false, false);
        assert_eq!(fences.returned(true), []);
        fences.raise(notice(2));
        fences.handed(true, false, false);
        fences.handed(true, true, true);
        assert_eq!(fences.returned(false), []);
        assert_eq!(fences.returned(false), [notice(1), notice(2)]);
    }

    #[test]
    fn a_batch_that_is_on_its_way_again_is_waited_for() {
        let mut fences = Fences::default();
        fences.raise(notice(1));
        fences.handed(true, false, true);
        fences.handed(true, true, true);
        assert_eq!(fences.returned(false), [], "one that came before it is with the log again");
        fences.handed(false, false, true);
        assert_eq!(fences.returned(false), [notice(1)]);
    }

    #[test]
    fn messages_of_one_address_share_a_notice() {
        let mut fences = Fences::default();
        let at = Key::NONE;
        fences.raise(Notice::Held { at, up_to: 1 });
        fences.raise(Notice::Held { at, up_to: 2 });
        fences.handed(true, false, true);
        assert_eq!(fences.returned(false), [Notice::Held { at, up_to: 2 }]);
    }
}
