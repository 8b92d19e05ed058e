//! Outcomes (3.4) as the ledger distinguishes them.

use enmasse_amqp::types::{Error, Outcome, Symbol, condition};

/// The rejection of consumers in the simulation; any other error is the node's.
const REJECTION: Symbol = Symbol::constant("sim:rejected");

/// The kind of outcome of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutcomeKind {
    /// accepted
    Accepted,
    /// rejected by a consumer
    Rejected,
    /// rejected by the node
    Refused,
    /// rejected by the node because the address is full
    Full,
    /// released
    Released,
    /// modified with delivery-failed
    Failed,
    /// modified without it
    Modified,
}

impl OutcomeKind {
    /// Classifies an outcome of the protocol.
    pub(crate) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Accepted => Self::Accepted,
            Outcome::Rejected(Some(error)) if error.condition == REJECTION => Self::Rejected,
            Outcome::Rejected(Some(error)) if error.condition == condition::RESOURCE_LIMIT_EXCEEDED => Self::Full,
            Outcome::Rejected(_) => Self::Refused,
            Outcome::Released => Self::Released,
            Outcome::Modified(modified) if modified.delivery_failed => Self::Failed,
            Outcome::Modified(_) => Self::Modified,
        }
    }

    /// The rejection of a consumer of the simulation.
    pub(crate) fn rejection() -> Outcome {
        Outcome::Rejected(Some(Box::new(Error::new(REJECTION, "the simulation rejects it"))))
    }
}
