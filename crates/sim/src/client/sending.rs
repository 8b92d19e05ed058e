//! The senders of a client.

use enmasse_amqp::connection::{LinkId, Outgoing};
use enmasse_amqp::types::{DeliveryState, TransactionalState};
use enmasse_router::core::AddressKind;

use super::Client;
use crate::faults::Fault;
use crate::ledger::{Ledger, LinkNumber, Progress, Route};
use crate::link::{LinkSpec, Sending, State};
use crate::message;
use crate::scenario::{Profile, Scenario, UNKNOWN_NAME};

/// Bytes of pending output above which a client sends no more messages.
const PENDING_OUTPUT_MAX: usize = 100_000;

impl Client {
    /// No producer window exceeds that of the address.
    pub(super) fn credited(&self, id: LinkId, credit: u32, scenario: &Scenario, ledger: &mut Ledger) {
        let Some(link) = self.links.iter().find(|link| link.id() == Some(id)) else { return };
        let capacity = match &link.spec {
            LinkSpec::Sender(name) => scenario.resolve(name).map_or(0, |declared| declared.window()),
            LinkSpec::Coordinator => u32::MAX,
            _ => scenario.link_capacity,
        };
        if credit > capacity {
            ledger.violation(format!("credit {credit} beyond the capacity {capacity} of {:?}", link.spec));
        }
    }

    pub(super) fn drive_sender(
        &mut self,
        at: usize,
        id: LinkId,
        number: LinkNumber,
        scenario: &Scenario,
        ledger: &mut Ledger,
        active: bool,
    ) {
        let burst = self.random.between(1, 8);
        for _ in 0..burst {
            let Some(live) = &mut self.live else { return };
            if live.machine.output().len() > PENDING_OUTPUT_MAX {
                return;
            }
            if self.links[at].sending.is_some() {
                self.continue_sending(at, id, ledger, active);
                return;
            }
            if live.machine.sendable(id) == 0 {
                return;
            }
            let Some((name, creator)) = self.target(at, scenario, active) else { return };
            self.begin_sending(at, id, number, (name, creator), scenario, ledger);
        }
    }

    /// The address of the next message on a link; `None`: no message is left.
    fn target(&mut self, at: usize, scenario: &Scenario, active: bool) -> Option<(String, Option<LinkNumber>)> {
        let declared = |name: String| Some((name, None));
        match &self.links[at].spec {
            LinkSpec::Sender(_) if self.behavior.slow && !self.random.chance(50) => None,
            LinkSpec::Sender(name) => active.then(|| (name.clone(), None)),
            LinkSpec::TemporaryQueue => None,
            _ if !self.replies.is_empty() => self.replies.pop(),
            _ if !active => None,
            _ if self.random.chance(20) => declared(UNKNOWN_NAME.to_owned()),
            _ if scenario.profile == Profile::Direct => declared(scenario.target(&mut self.random)),
            _ if self.behavior.slow && !self.random.chance(50) => None,
            _ => declared(scenario.destination(&mut self.random)),
        }
    }

    fn begin_sending(
        &mut self,
        at: usize,
        id: LinkId,
        number: LinkNumber,
        (name, creator): (String, Option<LinkNumber>),
        scenario: &Scenario,
        ledger: &mut Ledger,
    ) {
        let long = self.random.chance(self.behavior.long);
        let size =
            if long { self.random.between(1_000, self.behavior.longest) } else { self.random.between(0, 200) } as usize;
        let settled = self.random.chance(self.behavior.presettles);
        let dynamic = message::is_dynamic(&name);
        let kind = if dynamic { Some(AddressKind::Anycast) } else { None };
        let kind = kind.or_else(|| scenario.resolve(&name).map(|declared| declared.kind));
        let reply_to = self.reply_to(dynamic);
        let route = Route { space: self.space, name, kind, may_be_deleted: dynamic, temporary: creator };
        let open = self.open_transaction().filter(|_| !dynamic);
        let transaction = open.filter(|_| self.random.chance(600)).map(|(transaction, _)| transaction);
        let message = ledger.sends(number, route.clone(), settled, transaction);
        let stores = matches!(kind, Some(AddressKind::Queue | AddressKind::Topic));
        let empty = stores && transaction.is_none() && !settled && self.random.chance(self.behavior.empties);
        let bytes = if empty && ledger.may_send_empty(self.space, &route.name) {
            ledger.sends_empty(self.space, &route.name, message);
            Vec::new()
        } else {
            message::write(message, &route.name, reply_to, size)
        };
        ledger.contains(message, bytes.clone());
        self.links[at].sending = Some(Sending { message, bytes, offset: 0, settled, transaction });
        self.piece(at, id, ledger);
    }

    /// Some messages request a reply, if there is a node for it; replies do not.
    fn reply_to(&mut self, is_reply: bool) -> Option<String> {
        let nodes = self.links.iter().filter(|link| matches!(link.state, State::Attached(..)));
        let node = nodes.filter_map(|link| link.node.clone()).next();
        node.filter(|_| !is_reply && self.random.chance(500))
    }

    fn continue_sending(&mut self, at: usize, id: LinkId, ledger: &mut Ledger, active: bool) {
        let Some(live) = &mut self.live else { return };
        let aborts = active && self.random.below(1_000_000) < self.behavior.aborts;
        if aborts && let Some(sending) = self.links[at].sending.take() {
            let void =
                Outgoing { token: None, message_format: 0, first: false, more: false, aborted: true, payload: &[] };
            ledger.fault(Fault::Abort);
            match live.machine.transfer(id, void) {
                Ok(()) => ledger.progress(sending.message, Progress::Aborted),
                Err(error) => ledger.violation(format!("no abort of {}: {error}", sending.message)),
            }
        } else if live.machine.continuable(id) {
            self.piece(at, id, ledger);
        }
    }

    /// Passes the next piece to the machine.
    fn piece(&mut self, at: usize, id: LinkId, ledger: &mut Ledger) {
        let txn_id = self.open_transaction().map(|(_, txn_id)| txn_id);
        let Some(live) = &mut self.live else { return };
        let Some(sending) = &mut self.links[at].sending else { return };
        let (message, left) = (sending.message, sending.bytes.len() - sending.offset);
        let size = left.min(self.random.between(500, 50_000) as usize);
        let piece = Outgoing {
            token: (!sending.settled).then_some(message as u64),
            message_format: 0,
            first: sending.offset == 0,
            more: size < left,
            aborted: false,
            payload: &sending.bytes[sending.offset..sending.offset + size],
        };
        let result = match txn_id.filter(|_| sending.transaction.is_some()) {
            Some(txn_id) => {
                let state = TransactionalState { txn_id, outcome: None };
                live.machine.transfer_with(id, piece, &DeliveryState::Transactional(Box::new(state)))
            }
            None => live.machine.transfer(id, piece),
        };
        if let Err(error) = result {
            return ledger.violation(format!("message {message} cannot be sent: {error}"));
        }
        sending.offset += size;
        if size == left {
            self.links[at].sending = None;
            ledger.progress(message, Progress::Sent);
        }
    }
}
