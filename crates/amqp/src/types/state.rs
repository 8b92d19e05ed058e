//! Part 3, 3.4, and part 4, 4.5.5 and 4.5.6: the states of a delivery.

use super::{Error, Fields};

/// 3.4.1
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Received {
    /// section the receiver has reached
    pub section_number: u32,
    /// offset within it
    pub section_offset: u64,
}

/// 3.4.5
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Modified {
    /// counts as a failed attempt
    pub delivery_failed: bool,
    /// not to this link again
    pub undeliverable_here: bool,
    /// merged into the message annotations
    pub message_annotations: Fields,
}

/// A terminal delivery state (3.4.2 to 3.4.5).
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// 3.4.2
    Accepted,
    /// 3.4.3
    Rejected(Option<Box<Error>>),
    /// 3.4.4
    Released,
    /// 3.4.5
    Modified(Box<Modified>),
}

/// Any delivery state.
#[derive(Clone, Debug, PartialEq)]
pub enum DeliveryState {
    /// 3.4.1, not terminal
    Received(Received),
    /// terminal
    Outcome(Outcome),
    /// 4.5.5
    Declared(Declared),
    /// 4.5.6
    Transactional(Box<TransactionalState>),
}

/// 4.5.5
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Declared {
    /// transaction
    pub txn_id: Vec<u8>,
}

/// 4.5.6
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionalState {
    /// transaction
    pub txn_id: Vec<u8>,
    /// provisional
    pub outcome: Option<Outcome>,
}
