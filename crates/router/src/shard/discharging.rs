//! The discharge of a transaction (4.4) at all of its homes.
//!
//! A transaction usually has one home, which commits it. With temporary queues it may have several,
//! of which at most one writes to the journal. Then all others prepare first: each admits its
//! messages in memory and can commit from then on. After that the home with the journal commits,
//! and its result applies to all. So no message is available before the commit is on disk, and one
//! refusal rolls all homes back.

use std::collections::BTreeMap;

use enmasse_amqp::connection::LinkId;

use super::transactions::{Discharging, Homes};
use super::{ConnId, Shard};
use crate::core::{ToHome, TransactionId};

/// The last request to the homes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// all but the home with the journal prepare
    Prepare,
    /// the home with the journal commits
    Journal,
    /// all remaining homes commit, or roll back
    End,
}

struct Pending {
    discharging: Discharging,
    step: Step,
    /// homes that have not answered
    waits_for: usize,
}

/// The discharges in progress of a shard's connections, by the numbers of their transactions. They
/// outlive their connections: homes that have prepared need the decision.
#[derive(Default)]
pub(super) struct Discharges(BTreeMap<u64, Pending>);

impl Discharges {
    /// Drops the answers for a control link that has ended.
    pub(super) fn forget_control(&mut self, conn: ConnId, link: LinkId) {
        for Pending { discharging, .. } in self.0.values_mut().filter(|pending| pending.discharging.conn == conn) {
            discharging.control = discharging.control.filter(|(of, _)| *of != link);
        }
    }
}

impl Shard {
    pub(super) fn begin_discharge(&mut self, number: u64, discharging: Discharging) {
        let Discharging { fail, control, refusal, homes, journal, .. } = &discharging;
        let rolls_back = *fail || refusal.is_some();
        let step = if rolls_back || homes.len() < 2 { Step::End } else { Step::Prepare };
        let requested: Homes =
            homes.iter().copied().filter(|home| step == Step::End || Some(*home) != *journal).collect();
        if requested.is_empty() {
            return self.end_discharge(discharging);
        }
        let command = |transaction| match step {
            Step::Prepare => ToHome::Prepare { transaction },
            Step::Journal | Step::End => ToHome::Discharge { transaction, fail: rolls_back },
        };
        let transaction = TransactionId { shard: self.fabric.index, conn: discharging.conn.key, number };
        if control.is_some() || step == Step::Prepare {
            self.discharges.0.insert(number, Pending { discharging, step, waits_for: requested.len() });
        }
        for home in requested {
            self.send_to_home(home, command(transaction));
        }
    }

    /// Homes have answered the last request.
    pub(super) fn answer_discharges(&mut self) {
        for (transaction, result) in std::mem::take(&mut self.fabric.discharged) {
            let Some(pending) = self.discharges.0.get_mut(&transaction.number) else { continue };
            pending.waits_for = pending.waits_for.saturating_sub(1);
            if let Err(error) = result {
                pending.discharging.refusal.get_or_insert(error);
            }
            if pending.waits_for == 0 {
                self.continue_discharge(transaction);
            }
        }
    }

    fn continue_discharge(&mut self, transaction: TransactionId) {
        let Some(pending) = self.discharges.0.get_mut(&transaction.number) else { return };
        let Discharging { refusal, homes, journal, .. } = &pending.discharging;
        let fail = refusal.is_some();
        let with_journal = homes.iter().copied().filter(|home| Some(*home) == *journal);
        let others = homes.iter().copied().filter(|home| Some(*home) != *journal);
        let (step, requested): (Step, Homes) = match pending.step {
            // A home that refused has no state of the transaction, and confirms the rollback.
            Step::Prepare if fail => (Step::End, homes.clone()),
            Step::Prepare if with_journal.clone().next().is_some() => (Step::Journal, with_journal.collect()),
            Step::Prepare | Step::Journal => (Step::End, others.collect()),
            Step::End => {
                if let Some(pending) = self.discharges.0.remove(&transaction.number) {
                    self.end_discharge(pending.discharging);
                }
                return;
            }
        };
        (pending.step, pending.waits_for) = (step, requested.len());
        for home in requested {
            self.send_to_home(home, ToHome::Discharge { transaction, fail });
        }
    }

    fn end_discharge(&mut self, mut discharging: Discharging) {
        let result = discharging.refusal.take().map_or(Ok(()), Err);
        self.discharged(discharging, result);
    }
}
