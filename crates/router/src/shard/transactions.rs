//! What a connection knows of its transactions.

use std::collections::{BTreeMap, HashSet};

use enmasse_amqp::connection::{LinkId, OutcomeCounts, SessionId};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{DeliveryState, Error, Outcome, TransactionalState};
use smallvec::SmallVec;

use super::ConnId;
use super::credit_window::CreditWindow;

/// A link that controls transactions.
pub(super) struct Coordinator {
    pub(super) window: CreditWindow,
    /// the received parts of a control message
    pub(super) beginning: Vec<u8>,
    /// its source supports the outcome rejected
    pub(super) rejects: bool,
}

/// A transaction that is open.
pub(super) struct Transaction {
    /// the link that declared it
    pub(super) link: LinkId,
    /// the homes that hold its messages
    pub(super) homes: Homes,
    /// when all of several homes were last notified that it is in use
    pub(super) used: Time,
    /// set: it can only be rolled back, for this reason
    pub(super) refusal: Option<Error>,
    pub(super) unsettled: Vec<Unsettled>,
}

/// A retired delivery that its receiver has not settled: the commit settles it.
pub(super) struct Unsettled {
    pub(super) session: SessionId,
    pub(super) delivery_id: u32,
    pub(super) token: u64,
}

/// Outcomes within the transactions of a connection. Links count them at the commit; after a rollback
/// they had no effect.
#[derive(Default)]
pub(super) struct HeldOutcomes {
    /// by the numbers of the transactions that are not discharged, and of the links
    counts: BTreeMap<u64, BTreeMap<LinkId, OutcomeCounts>>,
    /// deliveries with such an outcome that their receivers had not settled then
    unsettled: HashSet<u64>,
}

impl HeldOutcomes {
    /// A transaction begins.
    pub(super) fn begin(&mut self, number: u64) {
        self.counts.insert(number, BTreeMap::new());
    }

    /// A transaction holds an outcome of a link, unless it is being rolled back.
    pub(super) fn hold(&mut self, number: u64, link: LinkId, outcome: &Outcome) {
        if let Some(counts) = self.counts.get_mut(&number) {
            counts.entry(link).or_default().add(outcome);
        }
    }

    /// The receiver has not settled a delivery whose outcome a transaction holds.
    pub(super) fn hold_unsettled(&mut self, token: u64) {
        self.unsettled.insert(token);
    }

    /// Whether transactions hold outcomes of unsettled deliveries.
    pub(super) fn has_any(&self) -> bool {
        !self.unsettled.is_empty()
    }

    /// Whether a transaction holds the outcome of an unsettled delivery.
    pub(super) fn has(&self, token: u64) -> bool {
        self.unsettled.contains(&token)
    }

    /// The number of a link belongs to another one now.
    pub(super) fn forget_link(&mut self, link: LinkId) {
        for counts in self.counts.values_mut() {
            counts.remove(&link);
        }
    }

    /// A transaction ends. Returns its outcomes by link.
    pub(super) fn end(&mut self, number: u64, unsettled: &[Unsettled]) -> BTreeMap<LinkId, OutcomeCounts> {
        for Unsettled { token, .. } in unsettled {
            self.unsettled.remove(token);
        }
        self.counts.remove(&number).unwrap_or_default()
    }
}

/// A state within a transaction.
pub(super) fn transactional(number: u64, outcome: Outcome) -> DeliveryState {
    let (txn_id, outcome) = (number.to_be_bytes().to_vec(), Some(outcome));
    DeliveryState::Transactional(Box::new(TransactionalState { txn_id, outcome }))
}

/// The homes of a transaction, in the order in which they were added.
pub(super) type Homes = SmallVec<[u16; 1]>;

/// A transaction during its discharge.
pub(super) struct Discharging {
    pub(super) conn: ConnId,
    pub(super) number: u64,
    /// the client requested a rollback
    pub(super) fail: bool,
    /// the control message to answer, unless its link has ended
    pub(super) control: Option<(LinkId, u32)>,
    /// set: a commit is rolled back instead, for this reason
    pub(super) refusal: Option<Error>,
    pub(super) unsettled: Vec<Unsettled>,
    pub(super) homes: Homes,
}
