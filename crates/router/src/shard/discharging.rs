//! The discharge of a transaction (4.4) at all of its homes.
//!
//! A transaction with one home is committed there. With several, each home first prepares its part:
//! it admits the messages and can commit from then on. The homes prepare one after another, in the
//! order of their numbers, so that two transactions never wait for each other's partitions. Then the
//! homes with something to write contribute to one joint group of the log, and the others follow
//! its result. So no message is available before the commit is on disk, and one refusal rolls all
//! homes back.

use std::collections::BTreeMap;

use enmasse_amqp::connection::LinkId;

use super::transactions::{Discharging, Homes};
use super::{ConnId, Shard};
use crate::core::{ToHome, TransactionId};

/// The answer of a home to the last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HomeAnswer {
    /// it is prepared, and has something to write or not
    Prepared { writes: bool },
    /// it has committed, or rolled back
    Done,
}

/// The last request to the homes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// the home with this index prepares; those before it have, and the listed ones write
    Prepare(usize, Homes),
    /// these homes write their parts
    Write(Homes),
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
    pub(super) fn begin_discharge(&mut self, mut discharging: Discharging) {
        discharging.homes.sort_unstable();
        let Discharging { number, fail, control, refusal, homes, .. } = &discharging;
        let number = *number;
        let rolls_back = *fail || refusal.is_some();
        let (Some(first), homes) = (homes.first().copied(), homes.clone()) else {
            return self.end_discharge(discharging);
        };
        let prepares = !rolls_back && homes.len() > 1;
        let transaction = TransactionId { shard: self.fabric.index, conn: discharging.conn.key, number };
        if control.is_some() || prepares {
            let step = if prepares { Step::Prepare(0, Homes::new()) } else { Step::End };
            let waits_for = if prepares { 1 } else { homes.len() };
            self.discharges.0.insert(number, Pending { discharging, step, waits_for });
        }
        if prepares {
            return self.send_to_home(first, ToHome::Prepare { transaction });
        }
        self.discharge_at(&homes, transaction, rolls_back, 1);
    }

    fn discharge_at(&mut self, homes: &[u16], transaction: TransactionId, fail: bool, parts: u16) {
        for home in homes {
            self.send_to_home(*home, ToHome::Discharge { transaction, fail, parts });
        }
    }

    /// Homes have answered the last request.
    pub(super) fn answer_discharges(&mut self) {
        for (transaction, result) in std::mem::take(&mut self.fabric.discharged) {
            let Some(pending) = self.discharges.0.get_mut(&transaction.number) else { continue };
            pending.waits_for = pending.waits_for.saturating_sub(1);
            match (result, &mut pending.step) {
                (Ok(HomeAnswer::Prepared { writes: true }), Step::Prepare(at, writing)) => {
                    writing.push(pending.discharging.homes[*at]);
                }
                (Ok(_), _) => {}
                (Err(error), _) => {
                    pending.discharging.refusal.get_or_insert(error);
                }
            }
            if pending.waits_for == 0 {
                self.continue_discharge(transaction);
            }
        }
    }

    /// Takes the next step of a discharge whose last request was answered by all homes.
    fn continue_discharge(&mut self, transaction: TransactionId) {
        let Some(pending) = self.discharges.0.get_mut(&transaction.number) else { return };
        let Discharging { refusal, homes, .. } = &pending.discharging;
        let (fail, all) = (refusal.is_some(), homes.clone());
        let step = std::mem::replace(&mut pending.step, Step::End);
        match step {
            Step::Prepare(at, writing) if !fail && at + 1 < all.len() => {
                (pending.step, pending.waits_for) = (Step::Prepare(at + 1, writing), 1);
                self.send_to_home(all[at + 1], ToHome::Prepare { transaction });
            }
            Step::Prepare(_, writing) if !fail && !writing.is_empty() => {
                (pending.step, pending.waits_for) = (Step::Write(writing.clone()), writing.len());
                self.discharge_at(&writing, transaction, false, writing.len() as u16);
            }
            // A home that refused has no state of the transaction, and confirms the rollback, as do
            // those that were not asked to prepare.
            Step::Prepare(..) => {
                pending.waits_for = all.len();
                self.discharge_at(&all, transaction, fail, 1);
            }
            Step::Write(written) => {
                let others: Homes = all.into_iter().filter(|home| !written.contains(home)).collect();
                pending.waits_for = others.len();
                if others.is_empty() {
                    return self.complete_discharge(transaction);
                }
                self.discharge_at(&others, transaction, fail, 1);
            }
            Step::End => self.complete_discharge(transaction),
        }
    }

    fn complete_discharge(&mut self, transaction: TransactionId) {
        if let Some(pending) = self.discharges.0.remove(&transaction.number) {
            self.end_discharge(pending.discharging);
        }
    }

    fn end_discharge(&mut self, mut discharging: Discharging) {
        let result = discharging.refusal.take().map_or(Ok(()), Err);
        self.discharged(discharging, result);
    }
}
