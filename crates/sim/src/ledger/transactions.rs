//! Checks that transactions are atomic, and have no effect before the discharge
//! (`docs/contracts.md` 8).

use enmasse_amqp::time::Time;

use super::QueueNumber;
use super::{Ledger, MessageNumber, OutcomeKind};
use crate::faults::Fault;

/// Identifies a transaction permanently.
pub(crate) type TransactionNumber = usize;

/// An unused transaction is rolled back after this time, in microseconds.
const TIME_OUT_US: u64 = 300_000_000;

/// Clients' view of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// the discharge was sent
    Discharging {
        commit: bool,
    },
    Committed,
    RolledBack,
    /// a commit was sent, and its answer was lost
    Unknown,
}

#[derive(Debug)]
pub(super) struct Transaction {
    client: usize,
    state: State,
    declared_at: Time,
    posted: Vec<MessageNumber>,
    retired: Vec<(MessageNumber, QueueNumber)>,
    /// a posting that was refused, or must be
    refused: Option<MessageNumber>,
    /// postings without an outcome of links that had ended at the discharge: the last of them may
    /// be incomplete
    incomplete: Vec<MessageNumber>,
}

impl Transaction {
    /// Whether a posting of it is certainly stored.
    pub(super) fn has_stored(&self, number: MessageNumber) -> bool {
        self.state == State::Committed && !self.incomplete.contains(&number)
    }

    pub(super) fn is_rolled_back(&self) -> bool {
        self.state == State::RolledBack
    }
}

impl Ledger {
    /// Records a declared transaction.
    pub(crate) fn declared(&mut self, client: usize) -> TransactionNumber {
        self.transactions.push(Transaction {
            client,
            state: State::Open,
            declared_at: self.now,
            posted: Vec::new(),
            retired: Vec::new(),
            refused: None,
            incomplete: Vec::new(),
        });
        self.transactions.len() - 1
    }

    /// Records a posting. A direct or nonexistent address refuses it.
    pub(super) fn posted(&mut self, transaction: TransactionNumber, number: MessageNumber, stored: bool) {
        let transaction = &mut self.transactions[transaction];
        transaction.posted.push(number);
        if !stored {
            transaction.refused.get_or_insert(number);
        }
    }

    /// Records a retirement.
    pub(super) fn retired(&mut self, transaction: TransactionNumber, number: MessageNumber, queue: QueueNumber) {
        self.transactions[transaction].retired.push((number, queue));
    }

    /// Records the outcome of a posting at its sender.
    pub(super) fn posting_outcome(
        &mut self,
        transaction: TransactionNumber,
        number: MessageNumber,
        outcome: OutcomeKind,
    ) {
        if outcome != OutcomeKind::Accepted {
            self.transactions[transaction].refused.get_or_insert(number);
            self.check_commit(transaction);
        }
    }

    /// Records a sent discharge.
    pub(crate) fn discharges(&mut self, transaction: TransactionNumber, commit: bool) {
        self.log(&format!("transaction {transaction} is discharged, commit: {commit}"));
        let (links, messages) = (&self.links, &self.messages);
        let transaction = &mut self.transactions[transaction];
        transaction.state = State::Discharging { commit };
        let incomplete = |number: &&MessageNumber| {
            let message = &messages[**number];
            message.outcome.is_none() && !links[message.from].is_attached()
        };
        transaction.incomplete = transaction.posted.iter().filter(incomplete).copied().collect();
    }

    /// Records the answer to a discharge.
    pub(crate) fn discharged(&mut self, transaction: TransactionNumber, accepted: bool) {
        self.log(&format!("the discharge of transaction {transaction} is accepted: {accepted}"));
        match self.transactions[transaction].state {
            State::Discharging { commit: true } if accepted => {
                self.stats.commits += 1;
                self.end_transaction(transaction, State::Committed);
                self.check_commit(transaction);
            }
            State::Discharging { commit } => {
                if !commit && !accepted {
                    self.violation(format!("the rollback of transaction {transaction} was rejected"));
                }
                self.end_transaction(transaction, State::RolledBack);
            }
            // The control link was lost in the meantime.
            _ => {}
        }
    }

    /// Records that the connection of a client has ended, and its transactions with it.
    pub(super) fn lose_transactions(&mut self, client: usize) {
        for number in 0..self.transactions.len() {
            if self.transactions[number].client == client {
                self.transaction_lost(number);
            }
        }
    }

    /// Records that the control link of a transaction has ended.
    pub(crate) fn transaction_lost(&mut self, transaction: TransactionNumber) {
        match self.transactions[transaction].state {
            State::Open | State::Discharging { commit: false } => {
                self.end_transaction(transaction, State::RolledBack);
            }
            State::Discharging { commit: true } => {
                self.transactions[transaction].state = State::Unknown;
            }
            State::Committed | State::RolledBack | State::Unknown => {}
        }
    }

    fn end_transaction(&mut self, transaction: TransactionNumber, state: State) {
        if state == State::RolledBack {
            self.fault(Fault::Rollback);
        }
        self.transactions[transaction].state = state;
        if state == State::Committed {
            for (number, queue) in self.transactions[transaction].retired.clone() {
                self.retirement_committed(number, queue);
            }
        }
    }

    fn check_commit(&mut self, transaction: TransactionNumber) {
        let Transaction { state, refused, .. } = self.transactions[transaction];
        if let Some(number) = refused.filter(|_| state == State::Committed) {
            let what = self.describe(number);
            self.violation(format!("transaction {transaction} was committed without a refused posting, {what}"));
        }
    }

    /// Checks a posting that a consumer has received. A transaction in an unknown state is then
    /// committed.
    pub(super) fn check_visible(&mut self, number: MessageNumber) -> Result<(), String> {
        let Some(transaction) = self.messages[number].transaction else { return Ok(()) };
        match self.transactions[transaction].state {
            State::Open => Err(format!("it is seen before transaction {transaction} is discharged")),
            State::RolledBack | State::Discharging { commit: false } => {
                Err(format!("it is seen though transaction {transaction} was rolled back"))
            }
            State::Unknown => {
                self.end_transaction(transaction, State::Committed);
                self.check_commit(transaction);
                Ok(())
            }
            State::Committed | State::Discharging { commit: true } => Ok(()),
        }
    }

    /// Checks a retired message that is delivered again. A transaction in an unknown state is then
    /// rolled back.
    pub(super) fn explain_return_of_retired(&mut self, transaction: TransactionNumber) -> Result<(), String> {
        let age_us = self.now.as_micros() - self.transactions[transaction].declared_at.as_micros();
        match self.transactions[transaction].state {
            State::RolledBack => Ok(()),
            State::Open if age_us >= TIME_OUT_US => Ok(()),
            // The answer to the discharge may not have reached the client.
            State::Discharging { .. } => Ok(()),
            State::Unknown => {
                self.transactions[transaction].state = State::RolledBack;
                Ok(())
            }
            state => Err(format!("it was retired in transaction {transaction}, which is {state:?}")),
        }
    }
}
