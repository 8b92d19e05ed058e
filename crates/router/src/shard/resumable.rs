//! The links of one connection that can be resumed, and their unsettled deliveries.

use std::collections::{BTreeMap, HashMap, HashSet};

use enmasse_amqp::connection::{LinkId, OutcomeCounts, SessionId};

/// Deliveries that a sender may leave unsettled; at this number it gets no credit until it settles
/// some.
const UNSETTLED_MAX: u32 = 10_000;

/// The resumable links of one connection.
#[derive(Default)]
pub(super) struct Resuming {
    pub(super) links: HashSet<u32>,
    senders: HashMap<u32, SenderUnsettled>,
    /// deliveries that their senders have not settled: link and tag
    incoming: BTreeMap<(SessionId, u32), (u32, Vec<u8>)>,
    /// deliveries whose outcome the home has yet to confirm, by token
    pub(super) outgoing: HashMap<u64, Reported>,
}

/// A delivery whose receiver has reported an outcome and waits for our settlement.
#[derive(Clone, Copy)]
pub(super) struct Reported {
    pub(super) link: LinkId,
    pub(super) session: SessionId,
    pub(super) delivery_id: u32,
    /// what counts when it is settled: its first outcome, unless that is one of a transaction
    pub(super) outcome: OutcomeCounts,
}

/// The unsettled deliveries of a sender.
#[derive(Clone, Copy, Default)]
struct SenderUnsettled {
    deliveries: u32,
    /// credit to grant when it has settled some
    withheld: u32,
}

impl Resuming {
    pub(super) fn forget(&mut self, link: u32) {
        if self.links.remove(&link) {
            self.senders.remove(&link);
            self.incoming.retain(|_, (of, _)| *of != link);
            self.outgoing.retain(|_, reported| reported.link.0 != link);
        }
    }

    /// Records a delivery that its sender has to settle.
    pub(super) fn note(&mut self, session: SessionId, id: u32, link: u32, tag: &[u8]) {
        if self.incoming.insert((session, id), (link, tag.to_vec())).is_none() {
            self.senders.entry(link).or_default().deliveries += 1;
        }
    }

    /// A sender has settled a delivery. Returns its link, its tag, and the credit to grant.
    pub(super) fn settled(&mut self, session: SessionId, id: u32) -> Option<(u32, Vec<u8>, u32)> {
        let (link, tag) = self.incoming.remove(&(session, id))?;
        let sender = self.senders.entry(link).or_default();
        sender.deliveries = sender.deliveries.saturating_sub(1);
        let credit = if sender.deliveries < UNSETTLED_MAX { std::mem::take(&mut sender.withheld) } else { 0 };
        Some((link, tag, credit))
    }

    /// The number of those `count` deliveries, which have left the window of a link, for which it
    /// gets credit now.
    pub(super) fn credited(&mut self, link: u32, count: u32) -> u32 {
        match self.senders.get_mut(&link).filter(|sender| sender.deliveries >= UNSETTLED_MAX) {
            Some(sender) => {
                sender.withheld += count;
                0
            }
            None => count,
        }
    }

    /// Deliveries of a session between two ids (serial numbers, 2.8.9) that their sender has not
    /// settled.
    pub(super) fn between(&self, session: SessionId, first: u32, last: u32) -> Vec<u32> {
        let ids = |from: u32, to: u32| self.incoming.range((session, from)..=(session, to)).map(|((_, id), _)| *id);
        if first <= last { ids(first, last).collect() } else { ids(first, u32::MAX).chain(ids(0, last)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(0);

    #[test]
    fn a_sender_that_settles_nothing_gets_no_more_credit() {
        let mut resuming = Resuming::default();
        for id in 0..UNSETTLED_MAX {
            assert_eq!(resuming.credited(7, 1), 1);
            resuming.note(SESSION, id, 7, &id.to_be_bytes());
        }
        assert_eq!((resuming.credited(7, 3), resuming.credited(8, 3)), (0, 3), "other links keep their credit");
        assert_eq!(resuming.settled(SESSION, 0), Some((7, vec![0; 4], 3)));
        assert_eq!(resuming.settled(SESSION, 0), None);
        assert_eq!(resuming.credited(7, 1), 1);
    }

    #[test]
    fn ids_of_deliveries_wrap_around() {
        let mut resuming = Resuming::default();
        for id in [u32::MAX - 1, u32::MAX, 0, 1, 5] {
            resuming.note(SESSION, id, 7, b"t");
        }
        assert_eq!(resuming.between(SESSION, u32::MAX, 1), [u32::MAX, 0, 1]);
        assert_eq!(resuming.between(SESSION, 1, 4), [1]);
        assert!(resuming.between(SessionId(1), 0, u32::MAX).is_empty());
    }

    #[test]
    fn forgotten_link_leaves_no_unsettled_state() {
        let mut resuming = Resuming::default();
        resuming.links.insert(7);
        resuming.note(SESSION, 1, 7, b"t");
        let outcome = OutcomeCounts::default();
        resuming.outgoing.insert(9, Reported { link: LinkId(7), session: SESSION, delivery_id: 3, outcome });
        resuming.forget(7);
        assert!(resuming.incoming.is_empty() && resuming.outgoing.is_empty() && resuming.senders.is_empty());
    }
}
