//! The coordinator of a connection's transactions (part 4): control links, and postings and
//! retirements.
//!
//! A transaction belongs to the connection that declared it. Its id is a number of that connection:
//! ids of other connections are unknown. The homes of its addresses hold its messages. A home
//! receives the declaration before the first message, and all commands in order.
//! This module holds the state of links and deliveries, `discharging` the commit over several
//! homes. A transaction ends with its discharge; it is rolled back when the link that declared it
//! ends.

use std::borrow::Cow;
use std::sync::Arc;

use enmasse_amqp::codec::{decode_state, decode_transaction_control, scan};
use enmasse_amqp::connection::{Incoming, LinkId, SessionId};
use enmasse_amqp::types::{
    self, Attach, Declared, DeliveryState, Discharge, Error, Outcome, Symbol, Target, TransactionControl, condition,
};

use super::conn::{Conn, Link};
use super::credit_window::CreditWindow;
use super::departing::Departure;
use super::errors::not_open;
use super::terminus::{Terminus, reply, settle_first};
use super::transactions::{Coordinator, Discharging, Homes, Transaction, Unsettled, transactional};
use super::work::SETTLED_NANOS;
use super::{ConnId, Request, Shard};
use crate::core::{
    Arrival, AttachmentId, Ending, TRANSACTION_MESSAGES, ToHome, TransactionId, home_of_token, rolled_back,
};

/// Control messages of one link that may wait for their outcomes.
const CONTROLS_MAX: u32 = 100;
/// Most bytes of a control message.
const CONTROL_BYTES: u64 = 4096;
/// Transactions of one connection that may be open at once.
const OPEN_MAX: usize = 1000;
/// Interval, in microseconds, of notifications to each of several homes that a transaction is in
/// use: a home rolls back an idle one.
const DIRTY_US: u64 = 60_000_000;
/// The section that holds a control: amqp-value (3.2.8).
const AMQP_VALUE: u64 = 0x77;
/// Capabilities of a coordinator (4.5.7).
const CAPABILITIES: [&str; 3] = ["amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"];

/// The number in a transaction id; `None`: the id was not created here.
fn number_of(txn_id: &[u8]) -> Option<u64> {
    txn_id.try_into().ok().map(u64::from_be_bytes)
}

fn unknown() -> Error {
    let what = "this connection has no such open transaction: declare one";
    Error::new(condition::TRANSACTION_UNKNOWN_ID, what)
}

/// Decodes a control message: the value of the amqp-value section; other sections are skipped
/// (4.2).
fn control_of(message: &[u8]) -> Result<TransactionControl, Error> {
    for section in scan::sections(message) {
        match section {
            Ok(section) if section.code == AMQP_VALUE => {
                return decode_transaction_control(section.value).map_err(Into::into);
            }
            Ok(_) => {}
            Err(_) => return Err(Error::new(condition::DECODE_ERROR, "a message to the coordinator is malformed")),
        }
    }
    let what = "a message to the coordinator must be an amqp-value section with declare or discharge";
    Err(Error::new(condition::INVALID_FIELD, what))
}

impl Conn {
    /// Whether an unsettled delivery has an outcome already. The first one is in force.
    fn has_outcome(&self, token: u64) -> bool {
        self.held_outcomes.as_ref().is_some_and(|held| held.has(token))
            || self.resuming.as_ref().is_some_and(|resuming| resuming.outgoing.contains_key(&token))
    }

    /// A transaction ends; its outcomes count if it is committed.
    fn end_outcomes(&mut self, number: u64, unsettled: &[Unsettled], is_committed: bool) {
        let Some(held) = &mut self.held_outcomes else { return };
        for (link, outcomes) in held.end(number, unsettled) {
            let is_attached = !matches!(self.links.get(link.0 as usize), None | Some(Link::Vacant));
            if is_committed && is_attached {
                self.machine.count_outcomes(link, &outcomes);
            }
        }
    }
}

impl Shard {
    /// The peer requests a link to the coordinator.
    pub(super) fn attach_coordinator(&mut self, id: ConnId, link: LinkId, attach: Box<Attach>) -> Result<(), Error> {
        let conn = &self.fabric.conns[id.key()];
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        let space = space.ok_or_else(not_open)?;
        if let Some(to) = space.storage_home()
            && self.moves_to(id, to)
        {
            self.fabric.conns[id.key()].moving = Some((link, attach));
            self.requests.push_back(Request::Move { conn: id, to });
            return Ok(());
        }
        let outcomes = attach.source.as_ref().map_or(&[][..], |source| &source.outcomes[..]);
        let rejects = outcomes.is_empty() || outcomes.iter().any(|outcome| outcome.as_str() == "amqp:rejected:list");
        let terminus = Terminus { name: None, kind: None, dynamic: false, terms: None };
        let mut answer = reply(&attach, &terminus, Some(CONTROL_BYTES));
        let capabilities = CAPABILITIES.map(Symbol::constant).to_vec();
        answer.target = Some(Box::new(Target::Coordinator(types::Coordinator { capabilities })));
        let conn = &mut self.fabric.conns[id.key()];
        settle_first(&mut answer, attach.role, conn.insists_on_settle_mode);
        conn.settled_here = true;
        let window = CreditWindow::new(CONTROLS_MAX);
        conn.set_link(link, Link::Coordinator(Box::new(Coordinator { window, beginning: Vec::new(), rejects })));
        conn.machine.accept(link, answer);
        if let Some(credit) = conn.credit(link.0, CreditWindow::open) {
            self.fabric.grant(id.key, link.0, credit);
        }
        Ok(())
    }

    /// Processes a frame of a control message.
    pub(super) fn control(&mut self, id: ConnId, incoming: &Incoming<'_>) {
        let now = self.fabric.now;
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let Some(Link::Coordinator(coordinator)) = conn.links.get_mut(incoming.link.0 as usize) else { return };
        if incoming.first {
            coordinator.window.received(now);
            coordinator.beginning.clear();
        }
        coordinator.beginning.extend_from_slice(incoming.payload);
        if incoming.aborted {
            return self.fabric.link_taken(id.key, incoming.link.0, 1);
        }
        if incoming.settled {
            // The sender of a settled discharge never learns its result (4.3).
            let what =
                "transfer.settled: a message to the coordinator must be sent unsettled: its outcome is the answer";
            return self.detach_with_error(id, incoming.link, Error::new(condition::NOT_ALLOWED, what));
        }
        if incoming.more {
            return;
        }
        let message = std::mem::take(&mut coordinator.beginning);
        let (link, delivery_id) = (incoming.link, incoming.delivery_id);
        match control_of(&message) {
            Ok(TransactionControl::Declare(declare)) => {
                let number = self.declare(id, link, declare.global_id.is_some());
                let declared = |number: u64| Declared { txn_id: number.to_be_bytes().to_vec() };
                self.answer_control(
                    id,
                    (link, delivery_id),
                    number.map(|number| DeliveryState::Declared(declared(number))),
                );
            }
            Ok(TransactionControl::Discharge(Discharge { txn_id, fail })) => {
                let conn = self.fabric.conns.get_mut(id.key());
                let found = conn.zip(number_of(&txn_id)).and_then(|(conn, number)| {
                    conn.transactions.remove(&number).map(|transaction| (number, transaction))
                });
                match found {
                    Some((number, transaction)) => {
                        self.discharge(id, number, transaction, Some((link, delivery_id)), fail);
                    }
                    None => self.answer_control(id, (link, delivery_id), Err(unknown())),
                }
            }
            Err(error) => self.answer_control(id, (link, delivery_id), Err(error)),
        }
    }

    fn declare(&mut self, id: ConnId, link: LinkId, global: bool) -> Result<u64, Error> {
        if global {
            let what = "declare.global-id: distributed transactions are not supported: omit it";
            return Err(Error::new(condition::NOT_IMPLEMENTED, what));
        }
        let conn = &mut self.fabric.conns[id.key()];
        if conn.transactions.len() >= OPEN_MAX {
            let what = format!("this connection has {OPEN_MAX} transactions open, its limit: discharge one first");
            return Err(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what));
        }
        self.transactions += 1;
        let number = self.transactions;
        let (homes, used) = (Homes::new(), self.fabric.now);
        let transaction = Transaction { link, homes, used, refusal: None, unsettled: Vec::new() };
        conn.transactions.insert(number, transaction);
        conn.held_outcomes.get_or_insert_default().begin(number);
        Ok(number)
    }

    /// Answers a control message: an error by the outcome rejected if the source supports it,
    /// otherwise by a detach (4.2, 4.3).
    pub(super) fn answer_control(
        &mut self,
        id: ConnId,
        (link, delivery_id): (LinkId, u32),
        answer: Result<DeliveryState, Error>,
    ) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let Some(Link::Coordinator(coordinator)) = conn.links.get(link.0 as usize) else { return };
        let state = match answer {
            Ok(state) => state,
            Err(error) if coordinator.rejects => DeliveryState::Outcome(Outcome::Rejected(Some(Box::new(error)))),
            Err(error) => return self.detach_with_error(id, link, error),
        };
        conn.machine.settle_with(link, delivery_id, &state, true);
        self.fabric.link_taken(id.key, link.0, 1);
        self.fabric.mark(id.key);
    }

    /// Detaches a link whose client violates the protocol with an error, after releasing its
    /// deliveries.
    fn detach_with_error(&mut self, id: ConnId, link: LinkId, error: Error) {
        self.release(id, &[link], &Departure::with(Ending::Lost, error));
    }

    /// Ends a session with an error, after releasing the deliveries of its links.
    fn end_session_with_error(&mut self, id: ConnId, session: SessionId, error: Error) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let links: Vec<LinkId> = conn.machine.session_links(session).collect();
        conn.machine.end(session, Some(error));
        self.release(id, &links, &Departure::silent(Ending::Lost, false));
        self.fabric.mark(id.key);
    }

    /// Discharges a transaction at its homes.
    fn discharge(
        &mut self,
        id: ConnId,
        number: u64,
        transaction: Transaction,
        control: Option<(LinkId, u32)>,
        fail: bool,
    ) {
        let Transaction { homes, refusal, unsettled, .. } = transaction;
        let refusal = refusal.filter(|_| !fail).map(|cause| rolled_back(&cause));
        if fail && let Some(conn) = self.fabric.conns.get_mut(id.key()) {
            conn.end_outcomes(number, &unsettled, false);
        }
        self.begin_discharge(Discharging { conn: id, number, fail, control, refusal, unsettled, homes });
    }

    /// A discharge is done, or a commit was rolled back instead.
    pub(super) fn discharged(&mut self, discharging: Discharging, result: Result<(), Error>) {
        let Discharging { conn: id, number, fail, control, unsettled, .. } = discharging;
        if !self.knows(id) {
            return;
        }
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let is_committed = result.is_ok() && !fail;
        conn.end_outcomes(number, &unsettled, is_committed);
        if is_committed {
            for Unsettled { session, delivery_id, token } in unsettled {
                // The receiver may have settled it since, and a later delivery may have its id.
                let mut known = conn.machine.unsettled(session, delivery_id, delivery_id);
                if known.any(|(_, _, known)| known == token) {
                    drop(known);
                    conn.machine.take_settled(session, delivery_id, delivery_id, false, |_, _| ());
                }
            }
            self.resume_starved(id);
        }
        if let Some(control) = control {
            self.answer_control(id, control, result.map(|()| DeliveryState::Outcome(Outcome::Accepted)));
        }
        self.fabric.mark(id.key);
    }

    /// A control link has ended: rolls back the transactions that it declared (4.4).
    pub(super) fn release_coordinator(&mut self, id: ConnId, link: LinkId) {
        self.discharges.forget_control(id, link);
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let of_it = conn.transactions.iter().filter(|(_, transaction)| transaction.link == link);
        let numbers: Vec<u64> = of_it.map(|(number, _)| *number).collect();
        for number in numbers {
            let conn = self.fabric.conns.get_mut(id.key());
            if let Some(transaction) = conn.and_then(|conn| conn.transactions.remove(&number)) {
                self.discharge(id, number, transaction, None, true);
            }
        }
    }

    /// Adds `home` to the homes of a transaction; `TransactionId::NONE`: the id is unknown.
    fn enlist(&mut self, conn: u32, txn_id: &[u8], home: u16) -> TransactionId {
        let here = self.fabric.index;
        let number = number_of(txn_id).unwrap_or_default();
        let state = self.fabric.conns.get_mut(conn as usize);
        let Some(known) = state.and_then(|state| state.transactions.get_mut(&number)) else {
            return TransactionId::NONE;
        };
        let transaction = TransactionId { shard: here, conn, number };
        let now = self.fabric.now;
        let is_new = !known.homes.contains(&home);
        if is_new {
            known.homes.push(home);
        }
        // Without this, a home would treat a transaction as idle that is in use at another home.
        let stale = known.homes.len() > 1 && now.micros_since(known.used) >= DIRTY_US;
        let dirty = if stale { known.homes.clone() } else { Homes::new() };
        known.used = if stale || is_new { now } else { known.used };
        for home in dirty {
            self.send_to_home(home, ToHome::NoteTransactionUse { transaction });
        }
        if is_new {
            self.send_to_home(home, ToHome::Declare { transaction });
        }
        transaction
    }

    /// Handles a transfer with a state. If that is transactional (4.4.1), the frame is a posting.
    /// `false`: it is not.
    #[cold]
    pub(super) fn post(&mut self, attachment: AttachmentId, home: u16, state: &[u8], arrival: Arrival<'_>) -> bool {
        let txn_id = match decode_state(state) {
            Ok(DeliveryState::Transactional(state)) => state.txn_id,
            // Other states are ignored; a malformed state counts as an unknown transaction.
            Err(error) if error.condition != condition::NOT_IMPLEMENTED => Vec::new(),
            _ => return false,
        };
        let Some((conn, kind)) =
            self.fabric.attachments.get(attachment).map(|attachment| (attachment.conn, attachment.kind))
        else {
            return false;
        };
        let transaction = if kind.stores() {
            self.enlist(conn, &txn_id, home)
        } else {
            let what = "a message was sent to an address that takes no part in transactions";
            self.mark_rollback_only(conn, &txn_id, Error::new(condition::NOT_IMPLEMENTED, what))
        };
        self.send_to_home(home, ToHome::Post { attachment, transaction, arrival });
        true
    }

    /// Rejects a delivery without a destination, at the link's own shard. If it is a posting, its
    /// outcome is a transactional state (4.4.1), and its transaction can only be rolled back.
    pub(super) fn refuse_incoming(&mut self, id: ConnId, incoming: &Incoming<'_>, error: Error) {
        let transaction = match incoming.state {
            Some(state) => self.refuse_posting(id, state, error.clone()),
            None => TransactionId::NONE,
        };
        let rejected = Outcome::Rejected(Some(Box::new(error)));
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        match transaction {
            _ if incoming.settled => {}
            TransactionId::NONE => conn.machine.settle(incoming.link, incoming.delivery_id, &rejected),
            TransactionId { number, .. } => {
                conn.machine.settle_with(incoming.link, incoming.delivery_id, &transactional(number, rejected), true);
            }
        }
        self.fabric.link_taken(id.key, incoming.link.0, 1);
        self.fabric.mark(id.key);
    }

    /// Handles a later transfer of a refused delivery, which may be the first with a transaction.
    pub(super) fn posting_refused_before(&mut self, id: ConnId, incoming: &Incoming<'_>) {
        if let Some(state) = incoming.state.filter(|_| !incoming.aborted) {
            let what = "a message of the transaction was refused before its last transfer";
            self.refuse_posting(id, state, Error::new(condition::PRECONDITION_FAILED, what));
        }
    }

    /// Handles the state of a refused delivery: if it is a posting, its transaction can only be
    /// rolled back.
    pub(super) fn refuse_posting(&mut self, id: ConnId, state: &[u8], error: Error) -> TransactionId {
        match decode_state(state) {
            Ok(DeliveryState::Transactional(state)) => self.mark_rollback_only(id.key, &state.txn_id, error),
            _ => TransactionId::NONE,
        }
    }

    /// Makes a transaction fail: its commit becomes a rollback that reports the first cause. If the
    /// transaction has a home, that keeps the cause, so that causes keep their order. Returns the
    /// transaction; `TransactionId::NONE`: the id is unknown.
    pub(super) fn mark_rollback_only(&mut self, conn: u32, txn_id: &[u8], cause: Error) -> TransactionId {
        let number = number_of(txn_id).unwrap_or_default();
        let state = self.fabric.conns.get_mut(conn as usize);
        let Some(known) = state.and_then(|state| state.transactions.get_mut(&number)) else {
            return TransactionId::NONE;
        };
        let transaction = TransactionId { shard: self.fabric.index, conn, number };
        match known.homes.first().copied() {
            _ if known.refusal.is_some() => {}
            None => known.refusal = Some(cause),
            Some(home) => {
                self.send_to_home(home, ToHome::MarkRollbackOnly { transaction, cause: Cow::Owned(cause) });
            }
        }
        transaction
    }

    /// Handles outcomes within a transaction (4.4.2). Direct addresses do not support transactions:
    /// links at them are detached.
    pub(super) fn retire(
        &mut self,
        id: ConnId,
        session: SessionId,
        (first, last): (u32, u32),
        settled: bool,
        txn_id: &[u8],
        outcome: &Outcome,
    ) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        if number_of(txn_id).is_none_or(|number| !conn.transactions.contains_key(&number)) {
            // A disposition belongs to a session, not to a link.
            return self.end_session_with_error(id, session, unknown());
        }
        let Some(conn) = self.fabric.conns.get(id.key()) else { return };
        let (mut direct, mut retired): (Vec<LinkId>, Vec<(u32, LinkId, u64)>) = (Vec::new(), Vec::new());
        for (delivery_id, link, token) in conn.machine.unsettled(session, first, last) {
            if self.is_stored(conn, link) {
                retired.push((delivery_id, link, token));
            } else if direct.last() != Some(&link) {
                direct.push(link);
            }
        }
        self.fabric.charge((direct.len() + retired.len()) as u64 * SETTLED_NANOS);
        for link in direct {
            let what = "disposition.state: only deliveries of addresses that store messages take part in transactions";
            let error = Error::new(condition::NOT_IMPLEMENTED, what);
            self.mark_rollback_only(id.key, txn_id, error.clone());
            self.detach_with_error(id, link, error);
        }
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let first_outcomes = retired.iter().filter(|(.., token)| !conn.has_outcome(*token));
        let first_outcomes: Vec<(LinkId, u64)> = first_outcomes.map(|(_, link, token)| (*link, *token)).collect();
        if let Some((held, number)) = conn.held_outcomes.as_mut().zip(number_of(txn_id)) {
            first_outcomes.iter().for_each(|(link, _)| held.hold(number, *link, outcome));
        }
        if settled {
            conn.take_answered(session, (first, last), true, None, |_| ());
        }
        let outcome = Arc::new(outcome.clone());
        let mut first_outcomes = first_outcomes.into_iter().map(|(_, token)| token).peekable();
        for (delivery_id, _, token) in retired {
            let home = home_of_token(token);
            let transaction = self.enlist(id.key, txn_id, home);
            if first_outcomes.next_if_eq(&token).is_some() && !settled {
                self.settle_at_commit(id, transaction, Unsettled { session, delivery_id, token });
            }
            let outcome = Arc::clone(&outcome);
            self.send_to_home(home, ToHome::RetireDelivery { transaction, token, outcome, settled });
        }
        self.resume_starved(id);
    }

    fn is_stored(&self, conn: &Conn, link: LinkId) -> bool {
        let Some(Link::Consumer { attachments, .. }) = conn.links.get(link.0 as usize) else { return false };
        attachments.iter().all(|attachment| {
            self.fabric.attachments.get(*attachment).is_some_and(|attachment| attachment.kind.stores())
        })
    }

    fn settle_at_commit(&mut self, id: ConnId, transaction: TransactionId, unsettled: Unsettled) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let held = conn.held_outcomes.as_mut();
        let Some(known) = conn.transactions.get_mut(&transaction.number) else { return };
        if known.unsettled.len() < TRANSACTION_MESSAGES {
            if let Some(held) = held {
                held.hold_unsettled(unsettled.token);
            }
            return known.unsettled.push(unsettled);
        }
        let what = format!("a transaction may settle {TRANSACTION_MESSAGES} deliveries: commit more often");
        known.refusal.get_or_insert(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what));
    }

    /// The peer reported the outcome declared, which only a coordinator may (4.5.5): ends its
    /// session.
    pub(super) fn declared_by_receiver(&mut self, id: ConnId, session: SessionId) {
        let what = "disposition.state: declared is for messages to a coordinator";
        self.end_session_with_error(id, session, Error::new(condition::NOT_ALLOWED, what));
    }
}
