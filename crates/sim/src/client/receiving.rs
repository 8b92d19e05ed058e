//! The receivers of a client.

use enmasse_amqp::connection::{Incoming, LinkId};
use enmasse_amqp::types::{DeliveryState, Modified, Outcome, TransactionalState};

use super::Client;
use crate::ledger::{Ledger, OutcomeKind};
use crate::link::{LinkSpec, State, Unsettled};
use crate::message::Content;
use crate::random::Random;

/// The most replies that a client defers.
const REPLIES_MAX: usize = 50;

impl Client {
    pub(super) fn incoming(&mut self, incoming: &Incoming<'_>, ledger: &mut Ledger) {
        let Some(link) = self.links.iter_mut().find(|link| link.id() == Some(incoming.link)) else { return };
        let State::Attached(_, number) = link.state else { return };
        if incoming.first {
            match link.credit.checked_sub(1) {
                Some(left) => {
                    link.credit = left;
                    // If deliveries use all credit, they complete the drain.
                    link.draining &= left > 0;
                }
                None => ledger.violation(format!("link {number}: a transfer beyond its credit")),
            }
            link.partial.clear();
        }
        link.partial.extend_from_slice(incoming.payload);
        if incoming.aborted {
            link.partial.clear();
            ledger.log(&format!("link {number}: a delivery was aborted"));
        }
        if incoming.more || incoming.aborted {
            return;
        }
        let bytes = std::mem::take(&mut link.partial);
        let Some(content) = Content::read(&bytes) else {
            return ledger
                .violation(format!("link {number}: {} bytes that are not a message of the simulation", bytes.len()));
        };
        let Some(received) = ledger.received(number, &content, incoming.settled, &bytes) else { return };
        if !incoming.settled {
            link.unsettled.push(Unsettled { delivery_id: incoming.delivery_id, received });
        }
        if let Some(reply_to) = content.reply_to.filter(|_| self.replies.len() < REPLIES_MAX) {
            let creator = ledger.creator_of(&reply_to);
            self.replies.push((reply_to, creator));
        }
    }

    pub(super) fn drive_receiver(&mut self, at: usize, id: LinkId, number: usize, ledger: &mut Ledger, active: bool) {
        let temporary = matches!(self.links[at].spec, LinkSpec::TemporaryReceiver(_));
        let direct = !temporary && !ledger.consumes(number);
        let patience = if active { self.behavior.settles_at_once } else { 1000 };
        while !self.links[at].unsettled.is_empty() && self.random.chance(patience) {
            let which = self.random.below(self.links[at].unsettled.len());
            let delivery = self.links[at].unsettled.remove(which);
            if active && self.retire(at, id, number, delivery, ledger) {
                continue;
            }
            let Some(live) = &mut self.live else { return };
            let outcome = match outcome(&mut self.random) {
                _ if self.behavior.collects => Outcome::Accepted,
                // The only link to a subscription or a temporary queue must not refuse a message
                // for itself.
                Outcome::Modified(modified) if !direct && !modified.delivery_failed => Outcome::Released,
                outcome => outcome,
            };
            ledger.consumer_outcome(number, delivery.received, OutcomeKind::of(&outcome), None);
            live.machine.settle(id, delivery.delivery_id, &outcome);
        }
        let Some(live) = &mut self.live else { return };
        let link = &mut self.links[at];
        if link.draining {
            return;
        }
        // The requester of a reply consumes it some time later.
        let waits = temporary && active && !self.random.chance(20);
        if waits {
            return;
        }
        if link.credit <= self.behavior.credit / 2 && (!active || self.random.chance(300)) {
            link.credit = self.behavior.credit;
            live.machine.grant(id, link.credit);
        } else if active && link.credit > 0 && self.random.chance(10) {
            link.draining = true;
            live.machine.drain(id);
        }
    }

    /// Retires a delivery in the open transaction, with some probability.
    fn retire(&mut self, at: usize, id: LinkId, number: usize, delivery: Unsettled, ledger: &mut Ledger) -> bool {
        let Some((transaction, txn_id)) = self.open_transaction() else { return false };
        if !ledger.consumes(number) || !self.random.chance(400) {
            return false;
        }
        let Some(live) = &mut self.live else { return false };
        // On a link that settles second the delivery would stay unsettled until the node settles
        // it.
        if !live.machine.settles_at_once(id, delivery.delivery_id) {
            return false;
        }
        debug_assert!(self.links[at].is_attached(), "only deliveries of attached links are retired");
        ledger.consumer_outcome(number, delivery.received, OutcomeKind::Accepted, Some(transaction));
        let state = TransactionalState { txn_id, outcome: Some(Outcome::Accepted) };
        live.machine.settle_with(id, delivery.delivery_id, &DeliveryState::Transactional(Box::new(state)), true);
        true
    }
}

fn outcome(random: &mut Random) -> Outcome {
    match random.below(20) {
        0 => OutcomeKind::rejection(),
        1 => Outcome::Released,
        2 => Outcome::Modified(Box::new(Modified { undeliverable_here: true, ..Modified::default() })),
        3 => Outcome::Modified(Box::new(Modified { delivery_failed: true, ..Modified::default() })),
        _ => Outcome::Accepted,
    }
}
