//! Transactions (part 4): postings and retirements are held until the discharge.
//!
//! A transaction is open from [`Router::declare`] until its discharge. Postings are validated one
//! by one and kept in memory: they are invisible, and no queue knows them. Messages that are
//! retired stay with their consumers' tokens, which nothing else can end. A posting that cannot be
//! kept makes the transaction rollback-only. An idle transaction is rolled back after a while, and
//! is unknown from then on.

mod discharge;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use enmasse_amqp::codec::encode_state;
use enmasse_amqp::types::{DeliveryState, Error, Outcome, condition};
use enmasse_journal::queue::{Head, RecordLocation, Refusal};

use super::arena::Key;
use super::incoming::{Arriving, refused};
use super::message::SettlementTarget;
use super::outcome::Retiring;
use super::received::{Account, Received, share_used_up};
use super::storage::LaneId;
use super::stream::PartitionIdentity;
use super::{AddressKey, Ending, Links, Origin, Router, home_of_token};
use discharge::Committing;

/// Messages posted, and messages retired, of one transaction at most.
pub const TRANSACTION_MESSAGES: usize = 100_000;
/// Bytes of the messages posted in one transaction at most; one message alone may be as large as
/// its address allows.
const TRANSACTION_BYTES: usize = 64 << 20;
/// After so long without use a transaction is rolled back.
const IDLE_MS: u64 = 300_000;
/// Time between two searches for those, at least.
const LOOK_MS: u64 = 1000;

/// Names a transaction. Its number is never used again by the shard of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId {
    /// the shard of the connection that declared it
    pub shard: u16,
    /// key of that connection there
    pub conn: u32,
    /// from 1 on
    pub number: u64,
}

impl TransactionId {
    /// Names none.
    pub const NONE: Self = Self { shard: u16::MAX, conn: u32::MAX, number: 0 };
}

/// The transactions of a shard that are not discharged.
#[derive(Debug, Default)]
pub(in crate::core) struct Transactions {
    pub(in crate::core) open: BTreeMap<TransactionId, Transaction>,
    /// when to look for idle ones, if there are any
    check_ms: Option<u64>,
    /// commits that wait to begin
    pub(in crate::core) waiting: WaitingCommits,
    /// commits that are with the log
    pub(in crate::core) committing: usize,
    /// the segment to compact when there are none
    pub(in crate::core) compaction: Option<u32>,
}

/// Commits that wait to begin, in their order within each address space.
#[derive(Debug, Default)]
pub(in crate::core) struct WaitingCommits(BTreeMap<LaneId, VecDeque<TransactionId>>);

impl WaitingCommits {
    pub(in crate::core) fn push(&mut self, lane: LaneId, id: TransactionId) {
        self.0.entry(lane).or_default().push_back(id);
    }

    /// The first of a lane goes.
    pub(in crate::core) fn pop(&mut self, lane: LaneId) {
        if let Some(waiting) = self.0.get_mut(&lane) {
            waiting.pop_front();
            if waiting.is_empty() {
                self.0.remove(&lane);
            }
        }
    }

    pub(in crate::core) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether some of a lane wait.
    pub(in crate::core) fn has(&self, lane: LaneId) -> bool {
        self.0.contains_key(&lane)
    }

    /// The first of each lane.
    pub(in crate::core) fn firsts(&self) -> impl Iterator<Item = (LaneId, TransactionId)> {
        self.0.iter().filter_map(|(lane, waiting)| Some((*lane, *waiting.front()?)))
    }

    pub(in crate::core) fn iter(&self) -> impl Iterator<Item = &TransactionId> {
        self.0.values().flatten()
    }
}

impl Transactions {
    /// Whether one of them has a message for this address.
    pub(in crate::core) fn posts_to(&self, key: AddressKey) -> bool {
        self.open.values().any(|transaction| transaction.postings.iter().any(|posting| posting.address == key))
    }

    pub(in crate::core) fn next_check(&self) -> Option<u64> {
        self.check_ms
    }

    /// Messages that a commit removes must not be copied in the meantime: whether compaction has to
    /// wait.
    pub(in crate::core) fn postpone_compaction(&mut self, segment: u32) -> bool {
        let wait = self.committing > 0;
        self.compaction = wait.then_some(segment);
        wait
    }
}

/// The contents of a transaction.
#[derive(Debug, Default)]
pub(in crate::core) struct Transaction {
    pub(in crate::core) postings: Vec<Posting>,
    /// of its messages and outcomes
    bytes: usize,
    /// whose bytes these are
    account: Option<Account>,
    pub(in crate::core) retirements: Vec<Retirement>,
    /// partitions of streams that it has messages for
    pub(in crate::core) partitions: BTreeSet<(AddressKey, u32)>,
    /// why it can only be rolled back
    pub(in crate::core) refusal: Option<Error>,
    used_ms: u64,
    /// it is being discharged: the progress of its messages
    pub(in crate::core) committing: Option<Committing>,
    /// it has a part elsewhere, which is to be on disk before this one ends
    pub(in crate::core) prepares: bool,
}

/// A message to be stored.
#[derive(Debug)]
pub(in crate::core) struct Posting {
    pub(in crate::core) address: AddressKey,
    /// the full name it was sent to, where receivers may request some names only
    pub(in crate::core) name: Option<Arc<str>>,
    pub(in crate::core) head: Head,
    /// of a message for a stream: where it goes there
    pub(in crate::core) place: Option<PartitionIdentity>,
    /// where it comes from
    pub(in crate::core) origin: Option<Arc<Origin>>,
    pub(in crate::core) body: Box<[u8]>,
}

/// The pending outcome of a delivery.
#[derive(Debug)]
pub(in crate::core) struct Retirement {
    pub(in crate::core) token: u64,
    /// one for all that were settled with the same words
    pub(in crate::core) outcome: Arc<Outcome>,
    /// where its message lies, if the log has been given its removal
    pub(in crate::core) logged: Option<RecordLocation>,
}

impl Transaction {
    /// Why a message of this many bytes cannot be held, if so; `received`: what else is held.
    fn refusal_of(&self, bytes: usize, account: Account, received: &Received) -> Option<Error> {
        if let Some(refusal) = &self.refusal {
            return Some(rolled_back(refusal));
        }
        if self.postings.len() >= TRANSACTION_MESSAGES {
            let what = format!("a transaction may hold {TRANSACTION_MESSAGES} messages: commit more often");
            return Some(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what));
        }
        self.excess_of(bytes, account, received)
    }

    /// Why no delivery more can be settled in it, with an outcome that takes this many bytes, if
    /// so.
    fn refusal_to_settle(&self, bytes: usize, account: Account, received: &Received) -> Option<Error> {
        if self.retirements.len() >= TRANSACTION_MESSAGES {
            let what = format!("a transaction may settle {TRANSACTION_MESSAGES} deliveries: commit more often");
            return Some(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what));
        }
        if bytes == 0 { None } else { self.excess_of(bytes, account, received) }
    }

    fn excess_of(&self, bytes: usize, account: Account, received: &Received) -> Option<Error> {
        let what = if self.bytes > 0 && self.bytes + bytes > TRANSACTION_BYTES {
            format!("a transaction may hold {TRANSACTION_BYTES} bytes of messages and outcomes: commit more often")
        } else if !received.may_hold(account, bytes) {
            return Some(share_used_up());
        } else {
            return None;
        };
        Some(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what))
    }

    /// More bytes belong to it. All are of one space, that of its connection.
    fn hold(&mut self, bytes: usize, account: Account, received: &mut Received) {
        if bytes == 0 {
            return;
        }
        let account = *self.account.get_or_insert(account);
        self.bytes += bytes;
        received.hold(account, bytes);
    }

    /// None of its bytes are held any longer.
    fn release(&mut self, received: &mut Received) {
        if let Some(account) = self.account.take() {
            received.release(account, std::mem::take(&mut self.bytes));
        }
    }

    /// Bytes that an outcome takes which is held, unless that of the delivery before is the same
    /// one.
    fn more_to_hold(&self, outcome: &Arc<Outcome>) -> usize {
        let is_small = match &**outcome {
            Outcome::Accepted | Outcome::Released | Outcome::Rejected(None) => true,
            Outcome::Rejected(Some(_)) | Outcome::Modified(_) => false,
        };
        if is_small || self.retirements.last().is_some_and(|last| Arc::ptr_eq(&last.outcome, outcome)) {
            return 0;
        }
        let mut encoded = Vec::new();
        encode_state(&mut encoded, &DeliveryState::Outcome((**outcome).clone()));
        encoded.len()
    }
}

/// Why a transaction was not committed (4.5.8).
#[must_use]
pub fn rolled_back(reason: &Error) -> Error {
    let text = reason.description.as_deref().unwrap_or_default();
    let what = format!("the transaction is rolled back: {text} ({})", reason.condition.as_str());
    Error::new(condition::TRANSACTION_ROLLBACK, what)
}

/// That a transaction is not known, or not any more (4.5.8).
pub(in crate::core) fn unknown() -> Error {
    let what = format!(
        "this connection has no such transaction: declare one; one that is not used for {} s is rolled back",
        IDLE_MS / 1000
    );
    Error::new(condition::TRANSACTION_UNKNOWN_ID, what)
}

impl Router {
    /// A transaction begins here: it is named before anything is part of it.
    pub fn declare(&mut self, id: TransactionId) {
        let transaction = Transaction { used_ms: self.now_ms, ..Transaction::default() };
        self.transactions.open.insert(id, transaction);
        self.transactions.check_ms.get_or_insert(self.now_ms.saturating_add(IDLE_MS));
    }

    /// A transaction is over here: its bytes are no longer held.
    pub(in crate::core) fn remove_transaction(&mut self, id: TransactionId) -> Option<Transaction> {
        let mut transaction = self.transactions.open.remove(&id)?;
        transaction.release(&mut self.received);
        if self.transactions.open.is_empty() {
            self.transactions.check_ms = None;
        }
        Some(transaction)
    }

    /// A transaction is in use at another of its homes, and so is not idle here.
    pub fn note_transaction_use(&mut self, id: TransactionId) {
        if let Some(transaction) = self.transactions.open.get_mut(&id) {
            transaction.used_ms = self.now_ms;
        }
    }

    /// A whole message is posted in a transaction: its queue is asked at the commit.
    pub(in crate::core) fn add_posting(
        &mut self,
        from: Key,
        arriving: &Arriving,
        (head, place, body): (&Head, Option<PartitionIdentity>, &[u8]),
        links: &mut impl Links,
    ) {
        let id = arriving.transaction.unwrap_or(TransactionId::NONE);
        let address = &self.addresses[self.producers[from].address];
        let (key, account) = (address.declared.key, address.account);
        let limit = address.treatment.message_bytes();
        let (name, origin) = (self.producers[from].name.clone(), self.producers[from].origin.clone());
        if head.size_bytes > limit {
            return self.refuse(from, arriving, refused(Refusal::MessageSize(limit)), links);
        }
        let now_ms = self.now_ms;
        let open = self.transactions.open.get_mut(&id);
        let Some(transaction) = open.filter(|transaction| transaction.committing.is_none()) else {
            // It is part of no transaction: its outcome is not a transactional state.
            return self.refuse(from, &arriving.without_transaction(), unknown(), links);
        };
        transaction.used_ms = now_ms;
        if let Some(error) = transaction.refusal_of(body.len(), account, &self.received) {
            return self.refuse(from, arriving, error, links);
        }
        transaction.partitions.extend(place.map(|(number, _)| (key, number)));
        transaction.postings.push(Posting { address: key, name, head: *head, place, origin, body: body.into() });
        transaction.hold(body.len() + size_of::<Posting>(), account, &mut self.received);
        if let SettlementTarget::Producer { attachment, delivery_id } = arriving.settlement {
            links.provisional(attachment, delivery_id, id, &Outcome::Accepted);
        }
        self.taken(from, 1);
    }

    /// Something that belongs to a transaction was refused: a commit is answered with a rollback
    /// that names the first cause. The postings of the transaction are dropped.
    pub fn mark_rollback_only(&mut self, id: Option<TransactionId>, cause: &Error) {
        let open = id.and_then(|id| self.transactions.open.get_mut(&id));
        let Some(transaction) = open.filter(|transaction| transaction.committing.is_none()) else { return };
        transaction.refusal.get_or_insert_with(|| cause.clone());
        transaction.postings = Vec::new();
        transaction.release(&mut self.received);
    }

    /// The outcome of a posting that was refused; a transactional state if it names a transaction
    /// (4.4.1).
    pub(in crate::core) fn answer_posting(
        &mut self,
        settlement: SettlementTarget,
        at: Key,
        transaction: Option<TransactionId>,
        outcome: &Outcome,
        links: &mut impl Links,
    ) {
        match (settlement, transaction.filter(|id| *id != TransactionId::NONE)) {
            (SettlementTarget::Producer { attachment, delivery_id }, Some(id)) => {
                self.count_outcome(at, outcome);
                if self.attachments.producer(attachment).is_some() {
                    links.provisional(attachment, delivery_id, id, outcome);
                }
            }
            _ => self.answer(settlement, at, outcome, links),
        }
    }

    /// A consumer has reported an outcome within a transaction (4.4.2), and `settled` if it has
    /// settled the delivery. In a transaction that is not known the delivery is as after a
    /// rollback: still with its consumer, or failed.
    pub fn retire_delivery(
        &mut self,
        id: TransactionId,
        token: u64,
        outcome: &Arc<Outcome>,
        settled: bool,
        links: &mut impl Links,
    ) {
        if home_of_token(token) != self.shard {
            return;
        }
        let now_ms = self.now_ms;
        let Some(pending) = self.pending.get_mut(Key::unpack(token)) else { return };
        let transaction = self.transactions.open.get_mut(&id).filter(|it| it.committing.is_none());
        let account = self.addresses[pending.address].account;
        let queue = self.addresses.find_queue_mut(pending.address);
        let (SettlementTarget::Queue(_) | SettlementTarget::Browsed(_), Some(transaction)) =
            (pending.settlement, transaction)
        else {
            return if settled {
                self.relinquish_one(token, Ending::RolledBack, false, links)
            };
        };
        transaction.used_ms = now_ms;
        let held = transaction.more_to_hold(outcome);
        if let Some(error) = transaction.refusal_to_settle(held, account, &self.received) {
            self.mark_rollback_only(Some(id), &error);
            return if settled {
                self.relinquish_one(token, Ending::RolledBack, false, links)
            };
        }
        let retires = || match pending.settlement {
            SettlementTarget::Queue(seq) => queue.is_some_and(|queue| queue.opened.messages.retire(seq)),
            // An outcome for a browsed message has no effect, and is settled with the others.
            _ => true,
        };
        if pending.retiring == Retiring::No && retires() {
            pending.retiring = Retiring::Held;
            transaction.retirements.push(Retirement { token, outcome: Arc::clone(outcome), logged: None });
            transaction.hold(held, account, &mut self.received);
        }
        if settled && pending.retiring == Retiring::Held {
            pending.retiring = Retiring::SETTLED;
        }
    }

    /// Rolls back idle transactions.
    pub(in crate::core) fn end_idle_transactions(&mut self, links: &mut impl Links) {
        if self.transactions.check_ms.is_none_or(|at| at > self.now_ms) {
            return;
        }
        let now_ms = self.now_ms;
        let ends = |transaction: &Transaction| transaction.used_ms.saturating_add(IDLE_MS);
        let open = || self.transactions.open.iter().filter(|(_, transaction)| transaction.committing.is_none());
        let idle: Vec<TransactionId> = open().filter(|(_, idle)| ends(idle) <= now_ms).map(|(id, _)| *id).collect();
        let next = open().map(|(_, transaction)| ends(transaction)).filter(|at| *at > now_ms).min();
        // One more may have begun its commit, and be refused it.
        let next = next.unwrap_or(now_ms.saturating_add(IDLE_MS));
        self.transactions.check_ms = Some(next.max(now_ms.saturating_add(LOOK_MS)));
        for id in idle {
            self.roll_back(id, links);
        }
    }
}
