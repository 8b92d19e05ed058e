//! What a connection knows of its transactions.

use enmasse_amqp::connection::{LinkId, SessionId};
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
    /// the client requested a rollback
    pub(super) fail: bool,
    /// the control message to answer, unless its link has ended
    pub(super) control: Option<(LinkId, u32)>,
    /// set: a commit is rolled back instead, for this reason
    pub(super) refusal: Option<Error>,
    pub(super) unsettled: Vec<Unsettled>,
    pub(super) homes: Homes,
}
