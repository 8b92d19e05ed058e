//! Part 4, Transactions: the coordinator and what clients send to it.

use super::Symbol;

/// 4.5.1
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Coordinator {
    /// `amqp:local-transactions` and others
    pub capabilities: Vec<Symbol>,
}

/// 4.5.2
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Declare {
    /// distributed transactions only
    pub global_id: Option<Vec<u8>>,
}

/// 4.5.3
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Discharge {
    /// transaction
    pub txn_id: Vec<u8>,
    /// roll back
    pub fail: bool,
}

/// The messages of a client to a coordinator.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionControl {
    /// begin
    Declare(Declare),
    /// commit or roll back
    Discharge(Discharge),
}
