//! Transactions (part 4): postings and retirements are held until the discharge.
//!
//! A transaction is open from [`Router::declare`] until its discharge. Postings are validated one
//! by one and held in memory, invisible to their queues. Retired messages keep the tokens of their
//! consumers, which nothing else can close. A posting that cannot be held makes the transaction
//! rollback-only. An idle transaction is rolled back after [`IDLE_MS`] and is unknown from then on.

mod discharge;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use enmasse_amqp::codec::encode_state;
use enmasse_amqp::types::{DeliveryState, Error, Outcome, condition};
use enmasse_journal::queue::{Head, RecordLocation, Refusal};

use super::arena::Key;
use super::arriving::{Arriving, refused};
use super::ids::Joint;
use super::message::SettlementTarget;
use super::outcome::Retiring;
use super::posting::PostingTreatment;
use super::received::{Account, Received, share_used_up};
use super::storage::LaneId;
use super::{AddressKey, Ending, Links, Origin, Router, ToLink, TransactionId, home_of_token};
use discharge::Committing;

/// Bound of the messages posted, and of those retired, in one transaction.
pub const TRANSACTION_MESSAGES: usize = 100_000;
/// Bound of the bytes of a transaction; a single message may be as large as its address allows.
const TRANSACTION_BYTES: usize = 64 << 20;
/// Time without use after which a transaction is rolled back.
const IDLE_MS: u64 = 300_000;
/// Least time between two checks for idle transactions.
const CHECK_INTERVAL_MS: u64 = 1000;

/// The transactions of a shard that are not discharged.
#[derive(Debug, Default)]
pub(in crate::core) struct Transactions {
    pub(in crate::core) open: BTreeMap<TransactionId, Transaction>,
    /// time of the next check for idle transactions, if there are any
    check_ms: Option<u64>,
    /// commits that wait to begin
    pub(in crate::core) waiting: WaitingCommits,
    /// number of commits that are prepared or in flight to the log
    pub(in crate::core) committing: usize,
    /// number of prepared commits that are not written yet
    pub(in crate::core) prepared: usize,
    /// the segment to compact when no commit is in flight
    pub(in crate::core) compaction: Option<u32>,
}

/// Commits that wait to begin, in their order within each address space.
#[derive(Debug, Default)]
pub(in crate::core) struct WaitingCommits(BTreeMap<LaneId, VecDeque<TransactionId>>);

impl WaitingCommits {
    pub(in crate::core) fn push(&mut self, lane: LaneId, id: TransactionId) {
        self.0.entry(lane).or_default().push_back(id);
    }

    /// Removes the first commit of a lane.
    pub(in crate::core) fn pop(&mut self, lane: LaneId) {
        if let Some(waiting) = self.0.get_mut(&lane) {
            waiting.pop_front();
            if waiting.is_empty() {
                self.0.remove(&lane);
            }
        }
    }

    /// Removes a commit that is rolled back before it begins.
    pub(in crate::core) fn forget(&mut self, id: TransactionId) {
        self.0.retain(|_, waiting| {
            waiting.retain(|one| *one != id);
            !waiting.is_empty()
        });
    }

    pub(in crate::core) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether commits of a lane wait.
    pub(in crate::core) fn has(&self, lane: LaneId) -> bool {
        self.0.contains_key(&lane)
    }

    /// The first waiting commit of each lane.
    pub(in crate::core) fn firsts(&self) -> impl Iterator<Item = (LaneId, TransactionId)> {
        self.0.iter().filter_map(|(lane, waiting)| Some((*lane, *waiting.front()?)))
    }

    pub(in crate::core) fn iter(&self) -> impl Iterator<Item = &TransactionId> {
        self.0.values().flatten()
    }
}

impl Transactions {
    /// Whether an open transaction has a posting for this address.
    pub(in crate::core) fn posts_to(&self, key: AddressKey) -> bool {
        self.open.values().any(|transaction| transaction.postings.iter().any(|posting| posting.address == key))
    }

    pub(in crate::core) fn next_check(&self) -> Option<u64> {
        self.check_ms
    }

    /// Postpones compaction while commits are in flight, because the messages that they remove must
    /// not be copied. Returns whether it was postponed.
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
    /// bytes held for its messages and outcomes
    bytes: usize,
    /// the account that these bytes are counted for
    account: Option<Account>,
    pub(in crate::core) retirements: Vec<Retirement>,
    /// partitions of streams that it has messages for
    pub(in crate::core) partitions: BTreeSet<(AddressKey, u32)>,
    /// why it is rollback-only
    pub(in crate::core) refusal: Option<Error>,
    used_ms: u64,
    /// set while it is discharged: the state of its commit
    pub(in crate::core) committing: Option<Committing>,
    /// it is a prepared part: another part must be on disk before this one ends
    pub(in crate::core) is_prepared_part: bool,
}

/// A message to be stored.
#[derive(Debug)]
pub(in crate::core) struct Posting {
    pub(in crate::core) address: AddressKey,
    /// the full name that it was sent to, for addresses with filters
    pub(in crate::core) name: Option<Arc<str>>,
    pub(in crate::core) head: Head,
    pub(in crate::core) treatment: PostingTreatment,
    /// its origin, at a topic
    pub(in crate::core) origin: Option<Arc<Origin>>,
    pub(in crate::core) body: Box<[u8]>,
}

/// The pending outcome of a delivery.
#[derive(Debug)]
pub(in crate::core) struct Retirement {
    pub(in crate::core) token: u64,
    /// shared by all deliveries that one disposition settled
    pub(in crate::core) outcome: Arc<Outcome>,
    /// location of its message, if its removal was given to the log
    pub(in crate::core) logged: Option<RecordLocation>,
}

impl Transaction {
    /// The error if a message of this many bytes cannot be held. `received` counts the other held
    /// bytes.
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

    /// The error if no further delivery can be settled in it, with an outcome of this many bytes.
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

    /// Counts further bytes of the transaction. All belong to one space, that of its connection.
    fn hold(&mut self, bytes: usize, account: Account, received: &mut Received) {
        if bytes == 0 {
            return;
        }
        let account = *self.account.get_or_insert(account);
        self.bytes += bytes;
        received.hold(account, bytes);
    }

    /// Ends the count of its bytes.
    fn release(&mut self, received: &mut Received) {
        if let Some(account) = self.account.take() {
            received.release(account, std::mem::take(&mut self.bytes));
        }
    }

    /// Bytes needed to hold an outcome; 0 if the previous retirement shares it.
    fn additional_bytes(&self, outcome: &Arc<Outcome>) -> usize {
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

/// The error of a transaction that was not committed (4.5.8).
#[must_use]
pub fn rolled_back(reason: &Error) -> Error {
    let text = reason.description.as_deref().unwrap_or_default();
    let what = format!("the transaction is rolled back: {text} ({})", reason.condition.as_str());
    Error::new(condition::TRANSACTION_ROLLBACK, what)
}

/// The error of an unknown transaction (4.5.8).
pub(in crate::core) fn unknown() -> Error {
    let what = format!(
        "this connection has no such transaction: declare one; one that is not used for {} s is rolled back",
        IDLE_MS / 1000
    );
    Error::new(condition::TRANSACTION_UNKNOWN_ID, what)
}

impl Router {
    /// A new joint group of two homes, numbered by this shard.
    pub fn next_joint(&mut self) -> Joint {
        self.storage.journal.next_joint(self.shard, 2)
    }

    /// Begins a transaction on this shard, before any posting or retirement names it.
    pub fn declare(&mut self, id: TransactionId) {
        let transaction = Transaction { used_ms: self.now_ms, ..Transaction::default() };
        self.transactions.open.insert(id, transaction);
        self.transactions.check_ms.get_or_insert(self.now_ms.saturating_add(IDLE_MS));
    }

    /// Removes a transaction, and ends the count of its bytes.
    pub(in crate::core) fn remove_transaction(&mut self, id: TransactionId) -> Option<Transaction> {
        let mut transaction = self.transactions.open.remove(&id)?;
        transaction.release(&mut self.received);
        if self.transactions.open.is_empty() {
            self.transactions.check_ms = None;
        }
        Some(transaction)
    }

    /// Notes the use of a transaction on another shard, so that it is not idle here.
    pub fn note_transaction_use(&mut self, id: TransactionId) {
        if let Some(transaction) = self.transactions.open.get_mut(&id) {
            transaction.used_ms = self.now_ms;
        }
    }

    /// Adds a whole message to its transaction. Its queue decides about it at the commit.
    pub(in crate::core) fn add_posting(
        &mut self,
        from: Key,
        arriving: &Arriving,
        (head, treatment, body): (&Head, PostingTreatment, &[u8]),
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
            // Without a known transaction its outcome is not a transactional state.
            return self.refuse(from, &arriving.without_transaction(), unknown(), links);
        };
        transaction.used_ms = now_ms;
        if let Some(error) = transaction.refusal_of(body.len(), account, &self.received) {
            return self.refuse(from, arriving, error, links);
        }
        if let PostingTreatment::Stream((number, _)) = treatment {
            transaction.partitions.insert((key, number));
        }
        transaction.postings.push(Posting { address: key, name, head: *head, treatment, origin, body: body.into() });
        transaction.hold(body.len() + size_of::<Posting>(), account, &mut self.received);
        if let SettlementTarget::Producer { attachment, delivery_id } = arriving.settlement {
            links.send(ToLink::Provisional {
                attachment,
                delivery_id,
                transaction: id,
                outcome: Cow::Borrowed(&Outcome::Accepted),
            });
        }
        self.taken(from, 1);
    }

    /// Makes a transaction rollback-only: a commit is answered with a rollback that names the first
    /// cause. Its postings are dropped.
    pub fn mark_rollback_only(&mut self, id: Option<TransactionId>, cause: &Error) {
        let open = id.and_then(|id| self.transactions.open.get_mut(&id));
        let Some(transaction) = open.filter(|transaction| transaction.committing.is_none()) else { return };
        transaction.refusal.get_or_insert_with(|| cause.clone());
        transaction.postings = Vec::new();
        transaction.release(&mut self.received);
    }

    /// Sends the outcome of a refused posting: a transactional state if it names a transaction
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
                    links.send(ToLink::Provisional {
                        attachment,
                        delivery_id,
                        transaction: id,
                        outcome: Cow::Borrowed(outcome),
                    });
                }
            }
            _ => self.answer(settlement, at, outcome, links),
        }
    }

    /// Holds an outcome that a consumer has reported within a transaction (4.4.2). `settled`: the
    /// consumer has settled the delivery. If the transaction is unknown, the delivery is treated as
    /// after a rollback: it remains with its consumer, or has failed.
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
        let held = transaction.additional_bytes(outcome);
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
        // A transaction whose commit has begun must be checked again if that fails.
        let next = next.unwrap_or(now_ms.saturating_add(IDLE_MS));
        self.transactions.check_ms = Some(next.max(now_ms.saturating_add(CHECK_INTERVAL_MS)));
        for id in idle {
            self.roll_back(id, links);
        }
    }
}
