//! The transactions of a client: one at a time, over all its links.

use enmasse_amqp::codec::encode_transaction_control;
use enmasse_amqp::connection::{LinkId, Outgoing};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Declare, Discharge, TransactionControl};

use super::Client;
use crate::ledger::{Ledger, OutcomeKind, TransactionNumber};

/// Token of messages to the coordinator; no other message has it.
pub(super) const CONTROL_TOKEN: u64 = u64::MAX;

/// The transaction of a client.
#[derive(Debug)]
pub(super) enum OpenTransaction {
    Declaring,
    Open(TransactionNumber, Vec<u8>),
    Discharging(TransactionNumber),
}

impl Client {
    /// The open transaction, for postings and retirements.
    pub(super) fn open_transaction(&self) -> Option<(TransactionNumber, Vec<u8>)> {
        match &self.transaction {
            Some(OpenTransaction::Open(number, txn_id)) => Some((*number, txn_id.clone())),
            _ => None,
        }
    }

    /// Declares a transaction, or discharges the one that is open.
    pub(super) fn drive_coordinator(&mut self, now: Time, id: LinkId, ledger: &mut Ledger, active: bool) {
        let Some(live) = &mut self.live else { return };
        if live.machine.sendable(id) == 0 {
            return;
        }
        let control = match &self.transaction {
            None if active && self.random.chance(200) => {
                self.transaction = Some(OpenTransaction::Declaring);
                TransactionControl::Declare(Declare::default())
            }
            Some(OpenTransaction::Open(number, txn_id)) if !active || self.random.chance(60) => {
                // Postings of several frames are complete before the discharge.
                if self.links.iter().any(|link| link.sending.as_ref().is_some_and(|one| one.transaction.is_some())) {
                    return;
                }
                let (number, txn_id, fail) = (*number, txn_id.clone(), self.random.chance(250));
                ledger.discharges(number, !fail);
                self.transaction = Some(OpenTransaction::Discharging(number));
                // Retirements precede the discharge.
                live.machine.flush(now);
                TransactionControl::Discharge(Discharge { txn_id, fail })
            }
            _ => return,
        };
        let mut bytes = b"\0\x53\x77".to_vec();
        encode_transaction_control(&mut bytes, &control);
        let whole = Outgoing {
            token: Some(CONTROL_TOKEN),
            message_format: 0,
            first: true,
            more: false,
            aborted: false,
            payload: &bytes,
        };
        if let Err(error) = live.machine.transfer(id, whole) {
            ledger.violation(format!("a transaction cannot be controlled: {error}"));
        }
    }

    pub(super) fn transaction_declared(&mut self, txn_id: Vec<u8>, ledger: &mut Ledger) {
        if matches!(self.transaction, Some(OpenTransaction::Declaring)) {
            self.transaction = Some(OpenTransaction::Open(ledger.declared(self.number), txn_id));
        }
    }

    /// Handles the outcome of a request to the coordinator: a discharge, or an error.
    pub(super) fn control_settled(&mut self, outcome: OutcomeKind, ledger: &mut Ledger) {
        match self.transaction.take() {
            Some(OpenTransaction::Discharging(number)) => {
                ledger.discharged(number, outcome == OutcomeKind::Accepted);
            }
            Some(before) => {
                ledger.violation(format!("a declare was settled as {outcome:?}"));
                self.transaction = Some(before);
            }
            // Its link is being detached.
            None => {}
        }
    }

    /// The control link has ended, and the transaction with it.
    pub(super) fn lose_transaction(&mut self, ledger: &mut Ledger) {
        if let Some(OpenTransaction::Open(number, _) | OpenTransaction::Discharging(number)) = self.transaction.take() {
            ledger.transaction_lost(number);
        }
    }
}
