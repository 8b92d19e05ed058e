//! The discharge of a transaction (4.4): it takes effect as a whole, or not at all.
//!
//! A commit offers every message to its queue. If all queues accept, messages and removals are
//! written to the log as one group. Once the group is on disk, all of it takes effect in one call,
//! so no intermediate state is visible. Until then, and if the log refuses the group, everything is
//! as before.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use enmasse_amqp::types::{Error, Outcome, condition};
use enmasse_journal::log::{Freed, Refused, Removal};
use enmasse_journal::queue::{Admission, RecordLocation, Seq};

use super::super::arena::Key;
use super::super::arriving::{address_deleted, refused};
use super::super::ids::Joint;
use super::super::message::SettlementTarget;
use super::super::outcome::Retiring;
use super::super::posting::{PartitionIdentity, Posted, PostingTreatment};
use super::super::storage::LaneId;
use super::super::storage::{Commit, Completion, MemoryBlock, Queues, not_stored};
use super::super::treatment::Treatment;
use super::super::{AddressKey, Links, Router, ToLink, TransactionId};
use super::{Posting, Retirement, Transaction, rolled_back, unknown};

/// Bound of the targets on disk of one commit, one for each message and queue: a commit is one
/// group of the log.
const COPIES: usize = 1_000_000;

/// A commit in progress.
#[derive(Debug, Default)]
pub(in crate::core) struct Committing {
    /// messages for in-memory queues, available once the log has written the others
    in_memory: Vec<(Key, Seq, RecordLocation)>,
    /// addresses of messages that are not logged
    unlogged: Vec<Key>,
    /// blocks of streams in memory
    blocks: Vec<MemoryBlock>,
    /// the content of a prepared part, which is not written yet
    admitted: Option<Admitted>,
}

/// The messages of a commit, which their queues have admitted.
#[derive(Debug)]
struct Admitted {
    postings: Vec<Posting>,
    offered: Vec<Offered>,
}

/// Messages and bytes that a commit removes from queues.
type Leaving = BTreeMap<Key, (u64, u64)>;

/// A message that its queues have admitted.
#[derive(Debug)]
struct Offered {
    /// its index among the postings
    posting: usize,
    at: Key,
    posted: Posted,
    /// its partition and identity in a stream, unless it is a duplicate
    place: Option<PartitionIdentity>,
}

impl Offered {
    /// Its queues on disk; one of the commits counts the outcome.
    fn on_disk(&self) -> Option<Queues<'_>> {
        let counted = Completion { settlement: SettlementTarget::Posted, address: self.at, ..Completion::NONE };
        let completions = std::iter::once(counted).chain(std::iter::repeat(Completion::NONE));
        let queues = self.posted.disk.iter().zip(completions);
        let queues = queues
            .map(|((at, log, admitted), completion)| (*log, admitted, Commit::new(*at, admitted.seq, completion)));
        (!self.posted.disk.is_empty()).then(|| queues.collect())
    }
}

impl Router {
    /// Commits a transaction, or rolls it back if `fail` is set. [`ToLink::Discharged`] answers.
    /// `parts`: the number of homes that write a part of it, if there are several.
    pub fn discharge(&mut self, id: TransactionId, fail: bool, parts: u16, links: &mut impl Links) {
        let Some(transaction) = self.transactions.open.get_mut(&id) else {
            return links
                .send(ToLink::Discharged { transaction: id, result: if fail { Ok(()) } else { Err(unknown()) } });
        };
        if transaction.is_prepared_part && transaction.committing.is_some() {
            return self.end_prepared(id, fail, parts, links);
        }
        if fail {
            self.roll_back(id, links);
            return links.send(ToLink::Discharged { transaction: id, result: Ok(()) });
        }
        self.await_commit(id, links);
    }

    /// Admits the messages of one part of a transaction without writing them, because other homes
    /// have parts of it. [`ToLink::Prepared`] answers; after a success, [`Router::discharge`] fails
    /// only if the log refuses the transaction. Until then other commits to the same partitions wait.
    pub fn prepare(&mut self, id: TransactionId, links: &mut impl Links) {
        let Some(transaction) = self.transactions.open.get_mut(&id) else {
            return links.send(ToLink::Prepared { transaction: id, result: Err(unknown()) });
        };
        transaction.is_prepared_part = true;
        self.await_commit(id, links);
    }

    fn needs_journal(&self, transaction: &Transaction) -> bool {
        let posted = transaction.postings.iter().filter_map(|posting| self.by_key.get(&posting.address).copied());
        let pending = |it: &Retirement| self.pending.get(Key::unpack(it.token)).map(|pending| pending.address);
        let mut addresses = posted.chain(transaction.retirements.iter().filter_map(pending));
        let is_retained = |posting: &Posting| matches!(posting.treatment, PostingTreatment::Topic(Some(_)));
        transaction.postings.iter().any(is_retained)
            || addresses.any(|at| self.addresses.get(at).is_some_and(|address| address.treatment.is_on_disk()))
    }

    fn await_commit(&mut self, id: TransactionId, links: &mut impl Links) {
        let Some(transaction) = self.transactions.open.get_mut(&id) else { return };
        transaction.committing = Some(Committing::default());
        let lane = self.lane_of_commit(id);
        if !self.may_begin(id) || self.transactions.waiting.has(lane) {
            self.transactions.waiting.push(lane, id);
        } else {
            self.begin_commit(id, links);
        }
    }

    /// Whether a commit can begin. It waits during compaction, and while blocks of its partitions
    /// are in flight: offsets of its messages depend on whether these are stored.
    fn may_begin(&self, id: TransactionId) -> bool {
        let partitions = self.transactions.open.get(&id).into_iter().flat_map(|transaction| &transaction.partitions);
        let is_busy = |(key, number): &(AddressKey, u32)| {
            let stream = self.by_key.get(key).and_then(|at| self.addresses.find_stream(*at));
            stream.is_some_and(|stream| stream.is_under_way(*number))
        };
        let prepared = self.prepared_partitions(id);
        let busy = partitions.into_iter().any(|partition| is_busy(partition) || prepared.contains(partition));
        !(busy || self.storage.journal.is_compacting() || self.transactions.compaction.is_some())
    }

    /// The partitions of commits that wait to begin, and of prepared ones. Messages gathered there are
    /// written with these commits.
    pub(in crate::core) fn awaited_partitions(&self) -> BTreeSet<(AddressKey, u32)> {
        let waiting = self.transactions.waiting.iter().filter_map(|id| self.transactions.open.get(id));
        let waiting = waiting.flat_map(|transaction| &transaction.partitions).copied();
        waiting.chain(self.prepared_partitions(TransactionId::NONE)).collect()
    }

    /// The partitions of prepared commits, except for `id`.
    fn prepared_partitions(&self, id: TransactionId) -> BTreeSet<(AddressKey, u32)> {
        if self.transactions.prepared == 0 {
            return BTreeSet::new();
        }
        let is_prepared = |transaction: &Transaction| {
            transaction.committing.as_ref().is_some_and(|committing| committing.admitted.is_some())
        };
        let open = self.transactions.open.iter();
        let prepared = open.filter(|(other, transaction)| **other != id && is_prepared(transaction));
        prepared.flat_map(|(_, transaction)| &transaction.partitions).copied().collect()
    }

    /// The lane of the address space of a transaction.
    fn lane_of_commit(&self, id: TransactionId) -> LaneId {
        let Some(transaction) = self.transactions.open.get(&id) else { return LaneId::default() };
        let posted = transaction.postings.iter().filter_map(|posting| self.by_key.get(&posting.address).copied());
        let retired = |it: &Retirement| self.pending.get(Key::unpack(it.token)).map(|pending| pending.address);
        let mut addresses = posted.chain(transaction.retirements.iter().filter_map(retired));
        let address = addresses.find_map(|at| self.addresses.get(at));
        address.map_or_else(LaneId::default, |address| LaneId::of_space(address.declared.space))
    }

    /// Begins waiting commits, in their order within each address space, as far as they can begin.
    pub(in crate::core) fn begin_waiting_commits(&mut self, links: &mut impl Links) {
        while let Some(id) = self.next_waiting_commit() {
            self.begin_commit(id, links);
        }
    }

    fn next_waiting_commit(&mut self) -> Option<TransactionId> {
        let (lane, id) = self.transactions.waiting.firsts().find(|(_, id)| self.may_begin(*id))?;
        self.transactions.waiting.pop(lane);
        Some(id)
    }

    /// Begins a commit: offers its messages, and writes them unless it is a part to be prepared.
    fn begin_commit(&mut self, id: TransactionId, links: &mut impl Links) {
        let Some(transaction) = self.transactions.open.get_mut(&id) else { return };
        let is_prepared_part = transaction.is_prepared_part;
        let writes = self.transactions.open.get(&id).is_some_and(|transaction| self.needs_journal(transaction));
        let Some(transaction) = self.transactions.open.get_mut(&id) else { return };
        let postings = std::mem::take(&mut transaction.postings);
        let offered = match transaction.refusal.clone() {
            Some(refusal) => Err(refusal),
            None => self.offer_all(&postings, &self.removed_by_commit(id)),
        };
        let offered = match offered {
            Ok(offered) => offered,
            Err(reason) => {
                self.roll_back(id, links);
                let reason = rolled_back(&reason);
                return links.send(match is_prepared_part {
                    true => ToLink::Prepared { transaction: id, result: Err(reason) },
                    false => ToLink::Discharged { transaction: id, result: Err(reason) },
                });
            }
        };
        self.transactions.committing += 1;
        let admitted = Admitted { postings, offered };
        if !is_prepared_part {
            return self.write_commit(id, admitted, None, links);
        }
        self.transactions.prepared += 1;
        if let Some(transaction) = self.transactions.open.get_mut(&id) {
            transaction.committing = Some(Committing { admitted: Some(admitted), ..Committing::default() });
        }
        links.send(ToLink::Prepared { transaction: id, result: Ok(writes) });
    }

    /// Writes the admitted messages of a commit and its removals as one group, or as this home's part
    /// of a joint group. What has nothing to write takes effect at once.
    fn write_commit(
        &mut self,
        id: TransactionId,
        Admitted { postings, mut offered }: Admitted,
        joint: Option<Joint>,
        links: &mut impl Links,
    ) {
        // The messages of an address that was deleted since are dropped with it.
        offered.retain(|offered| self.addresses.get(offered.at).is_some());
        let unlogged = |offered: &&Offered| offered.posted.disk.is_empty() && offered.place.is_none();
        let unlogged = offered.iter().filter(unlogged).map(|offered| offered.at).collect();
        let mut partitions = BTreeSet::new();
        for Offered { posting, at, place, .. } in &offered {
            let posting = &postings[*posting];
            let PostingTreatment::Stream((number, _)) = posting.treatment else { continue };
            partitions.insert((*at, number));
            if let Some(place) = place {
                self.gather_posted(*at, *place, posting.name.as_deref(), &posting.body);
            }
        }
        let mut in_memory = Vec::new();
        for Offered { posting, posted, .. } in offered.iter().filter(|offered| !offered.posted.memory.is_empty()) {
            let place = self.storage.bodies.put(&postings[*posting].body, posted.memory.len() as u32);
            in_memory.extend(posted.memory.iter().map(|(key, seq)| (*key, *seq, place)));
        }
        let mut removals = self.removals_of(id);
        let lane = self.lane_of_written(&offered, id);
        let mut on_disk = offered.iter().filter_map(|it| Some((it.on_disk()?, &*postings[it.posting].body))).peekable();
        let first = on_disk.peek().and_then(|(queues, _)| Some(queues.first()?.0));
        let first = first.or_else(|| self.gathered_for_log(&partitions));
        let retained = self.hand_over_posted(&postings, &offered, links);
        // Messages gathered before it are written with it, and may belong to joint groups themselves.
        let is_part = joint.is_some() || !retained.is_empty() || self.joins_groups(&partitions);
        match first {
            _ if is_part => {
                self.storage.journal.begin_part(lane);
                let disk = offered.iter().flat_map(|offered| &offered.posted.disk);
                disk.for_each(|(at, ..)| self.declare_in_part(*at));
            }
            Some(log) => {
                let bytes = postings.iter().map(|posting| posting.body.len()).sum();
                self.storage.journal.begin_transaction(log, bytes);
            }
            None => {}
        }
        on_disk.for_each(|(queues, body)| self.storage.journal.post(queues, body));
        let (blocks, joins) = self.write_posted(&partitions);
        let joints: Vec<Joint> = joint.into_iter().chain(joins).chain(retained).collect();
        debug_assert_eq!(is_part, !joints.is_empty(), "a part belongs to a group");
        if let Some(transaction) = self.transactions.open.get_mut(&id) {
            transaction.committing = Some(Committing { in_memory, unlogged, blocks, admitted: None });
        }
        match (joints.split_first(), first.is_some(), removals.is_empty()) {
            (Some(joints), ..) => self.storage.journal.end_joint_transaction(id, joints, &mut removals),
            (None, true, _) => self.storage.journal.end_transaction(id, &mut removals),
            (None, false, false) => self.storage.journal.retire(id, &mut removals),
            (None, false, true) => self.end_commit(id, &Ok(()), links),
        }
    }

    /// Hands the messages over that are to be retained at another home; returns their groups.
    fn hand_over_posted(&mut self, postings: &[Posting], offered: &[Offered], links: &mut impl Links) -> Vec<Joint> {
        let retained = offered.iter().filter_map(|Offered { posting, at, .. }| {
            let PostingTreatment::Topic(retention) = postings[*posting].treatment else { return None };
            let elsewhere = self.retaining_elsewhere(*at, retention)?;
            Some(self.hand_over_retained(*at, elsewhere, &postings[*posting].body, links))
        });
        retained.collect()
    }

    /// The lane of the address space of a commit that is being written.
    fn lane_of_written(&self, offered: &[Offered], id: TransactionId) -> LaneId {
        let address = offered.first().and_then(|offered| self.addresses.get(offered.at));
        address.map_or_else(|| self.lane_of_commit(id), |address| LaneId::of_space(address.declared.space))
    }

    /// The number in the log of a partition that has gathered something for it.
    fn gathered_for_log(&self, partitions: &BTreeSet<(Key, u32)>) -> Option<u32> {
        let gathered = |(at, number): &(Key, u32)| {
            let stream = self.addresses.find_stream(*at);
            stream.and_then(|stream| stream.gathered_for_log(*number))
        };
        partitions.iter().find_map(gathered)
    }

    /// Offers messages to their queues: all of them, or none.
    fn offer_all(&mut self, postings: &[Posting], leaving: &Leaving) -> Result<Vec<Offered>, Error> {
        let mut offered: Vec<Offered> = Vec::with_capacity(postings.len());
        let (mut copies, mut firsts) = (0, BTreeMap::new());
        for number in 0..postings.len() {
            let refusal = match self.offer_one(postings, number, &mut firsts) {
                Ok(one) => {
                    copies += one.posted.disk.len();
                    let overfull = self.overfull(&one.posted, leaving);
                    offered.push(one);
                    if copies <= COPIES && overfull.is_none() {
                        continue;
                    }
                    let too_many = || format!("its messages make more than {COPIES} copies: commit more often");
                    Error::new(condition::RESOURCE_LIMIT_EXCEEDED, overfull.unwrap_or_else(too_many))
                }
                Err(refusal) => refusal,
            };
            for Offered { posted, .. } in offered.iter().rev() {
                let on_disk = posted.disk.iter().map(|(at, _, admitted)| (*at, admitted.seq));
                on_disk.chain(posted.memory.iter().copied()).for_each(|(at, seq)| self.withdraw(at, seq));
            }
            return Err(refusal);
        }
        Ok(offered)
    }

    /// `firsts`: for each queue, the first number that was assigned in this commit.
    fn offer_one(
        &mut self,
        postings: &[Posting],
        number: usize,
        firsts: &mut BTreeMap<Key, Seq>,
    ) -> Result<Offered, Error> {
        let posting = &postings[number];
        let at = self.by_key.get(&posting.address).copied();
        let at = at.ok_or_else(address_deleted)?;
        match (&self.addresses[at].treatment, posting.treatment) {
            (Treatment::Stream(_), PostingTreatment::Stream(place)) => {
                let place = self.offer_to_stream(at, place)?.then_some(place);
                Ok(Offered { posting: number, at, posted: Posted::default(), place })
            }
            (Treatment::Topic(_), PostingTreatment::Topic(retention)) => {
                let audience = self.audience_named(at, posting.name.as_deref(), posting.origin.as_deref());
                let posted = self.post(&audience, &posting.head, &posting.body, self.retaining(at, retention));
                let posted = posted.map_err(refused)?;
                let is_retained = self.retaining_elsewhere(at, retention).is_some();
                self.addresses[at].stats.dropped += u64::from(posted.is_unwanted() && !is_retained);
                Ok(Offered { posting: number, at, posted, place: None })
            }
            (Treatment::Queue(_), PostingTreatment::Queue) => {
                let posted = self.offer_to_queue(at, posting, firsts)?;
                Ok(Offered { posting: number, at, posted, place: None })
            }
            // The address with this key was deleted, and opened again with another treatment.
            _ => Err(address_deleted()),
        }
    }

    fn offer_to_queue(&mut self, at: Key, posting: &Posting, firsts: &mut BTreeMap<Key, Seq>) -> Result<Posted, Error> {
        let now_ms = self.now_ms;
        let mut posted = Posted::default();
        let queue = self.addresses.queue_mut(at);
        if let Some(error) = queue.beyond_budget(posting.body.len()) {
            return Err(error);
        }
        let first = *firsts.entry(at).or_insert_with(|| queue.opened.messages.next_seq());
        match (queue.opened.messages.offer(now_ms, &posting.head), queue.opened.log) {
            (Admission::Store(admitted), Some(log)) => posted.disk.push((at, log, admitted)),
            (Admission::Store(admitted), None) => posted.memory.push((at, admitted.seq)),
            // The original may still be refused; accepting the duplicate now could lose the
            // message.
            (Admission::Duplicate { of: Some(original) }, _) if original < first => {
                let what = "a message repeats one that is being stored: send both again";
                return Err(Error::new(condition::RESOURCE_LOCKED, what));
            }
            (Admission::Duplicate { .. }, _) => {}
            (Admission::Refuse(refusal), _) => return Err(refused(refusal)),
        }
        Ok(posted)
    }

    /// The messages that a commit removes from queues, which makes room for those that it adds.
    fn removed_by_commit(&self, id: TransactionId) -> Leaving {
        let mut leaving = Leaving::new();
        let Some(transaction) = self.transactions.open.get(&id) else { return leaving };
        for retirement in transaction.retirements.iter().filter(|one| *one.outcome == Outcome::Accepted) {
            let Some(pending) = self.pending.get(Key::unpack(retirement.token)) else { continue };
            let SettlementTarget::Queue(seq) = pending.settlement else { continue };
            if let Some(item) = self.addresses.queue(pending.address).opened.messages.get(seq) {
                let (messages, bytes) = leaving.entry(pending.address).or_default();
                *messages += 1;
                *bytes += u64::from(item.size_bytes);
            }
        }
        leaving
    }

    /// The reason if a queue would exceed its bound with the messages of a commit. Credit cannot
    /// prevent that, because these messages were sent before they were stored. Link-scoped
    /// subscriptions are excluded: they delay a commit for a short time only, and miss messages for
    /// which they have no room.
    fn overfull(&self, posted: &Posted, leaving: &Leaving) -> Option<String> {
        let on_disk = posted.disk.iter().map(|(at, ..)| *at);
        let queues = on_disk.chain(posted.memory.iter().map(|(at, _)| *at));
        let mut queues = queues.map(|at| (at, self.addresses.queue(at)));
        let (_, full) = queues.find(|(at, queue)| {
            let leaving = leaving.get(at).copied().unwrap_or_default();
            !queue.is_link_scoped() && queue.opened.messages.is_overfull(leaving)
        })?;
        let (name, limits) = (&full.opened.name, &full.opened.messages.settings().limits);
        let bound = match limits.messages {
            u64::MAX => format!("{} bytes", limits.bytes),
            messages => format!("{messages} messages"),
        };
        Some(format!(
            "\"{name}\" has no room for all of it, and at most {bound}: commit fewer messages at once, or later"
        ))
    }

    /// Withdraws an admitted message that will not be stored.
    fn withdraw(&mut self, at: Key, seq: Seq) {
        if let Some(queue) = self.addresses.find_queue_mut(at) {
            queue.opened.messages.withdraw(seq);
        }
    }

    /// The removals that are logged with a transaction: those of accepted messages of queues on
    /// disk. Other outcomes are applied once the transaction is on disk; if they are lost in a
    /// crash, the message is delivered again.
    fn removals_of(&mut self, id: TransactionId) -> Vec<Removal> {
        let mut removals: BTreeMap<u32, Removal> = BTreeMap::new();
        let Some(transaction) = self.transactions.open.get_mut(&id) else { return Vec::new() };
        let accepted = |retirement: &&mut Retirement| *retirement.outcome == Outcome::Accepted;
        for retirement in transaction.retirements.iter_mut().filter(accepted) {
            let Some(pending) = self.pending.get(Key::unpack(retirement.token)) else { continue };
            let SettlementTarget::Queue(seq) = pending.settlement else { continue };
            let queue = self.addresses.queue(pending.address);
            if let (Some(log), Some(item)) = (queue.opened.log, queue.opened.messages.get(seq)) {
                removals.entry(log).or_insert_with(|| Removal::new(log)).add(item.id.0, item.place);
                retirement.logged = Some(item.place);
            }
        }
        removals.into_values().collect()
    }

    /// Messages of an address whose removals were logged with open transactions.
    pub(in crate::core) fn retired_in(&self, at: Key) -> HashSet<Seq> {
        let logged = self.transactions.open.values().flat_map(|transaction| &transaction.retirements);
        let pending = logged.filter(|it| it.logged.is_some()).filter_map(|it| self.pending.get(Key::unpack(it.token)));
        let here = pending.filter(|pending| pending.address == at);
        here.filter_map(|pending| if let SettlementTarget::Queue(seq) = pending.settlement { Some(seq) } else { None })
            .collect()
    }

    /// Ends a commit: the log has written or refused it, or nothing had to be written.
    pub(in crate::core) fn end_commit(
        &mut self,
        id: TransactionId,
        result: &Result<(), Refused>,
        links: &mut impl Links,
    ) {
        let Some(transaction) = self.remove_transaction(id) else { return };
        let Committing { in_memory, unlogged, blocks, .. } = transaction.committing.unwrap_or_default();
        match result {
            Ok(()) => {
                for at in unlogged {
                    if let Some(address) = self.addresses.get_mut(at) {
                        address.stats.accepted += 1;
                    }
                }
                for (at, seq, place) in in_memory {
                    self.end_posting(at, seq, place, links);
                }
                self.keep_blocks(blocks, links);
                for retirement in &transaction.retirements {
                    self.end_retirement(retirement, links);
                }
                links.send(ToLink::Discharged { transaction: id, result: Ok(()) });
            }
            Err(refused) => {
                self.withdraw_from_memory(in_memory, &not_stored("the message", refused), links);
                self.refuse_blocks(blocks, refused, links);
                self.free_deleted(&transaction.retirements);
                self.return_retirements(&transaction.retirements, links);
                links.send(ToLink::Discharged {
                    transaction: id,
                    result: Err(rolled_back(&not_stored("the content of the transaction", refused))),
                });
            }
        }
        self.commit_ended(links);
    }

    /// Ends a prepared part: it is written, with the parts of other homes if there are several, or
    /// (`fail`) the transaction is rolled back.
    fn end_prepared(&mut self, id: TransactionId, fail: bool, parts: u16, links: &mut impl Links) {
        let Some(transaction) = self.transactions.open.get_mut(&id) else { return };
        let Some(admitted) = transaction.committing.as_mut().and_then(|committing| committing.admitted.take()) else {
            // It waits for its turn to be prepared: only a rollback comes before the answer.
            debug_assert!(fail, "a part is committed after it is prepared");
            self.transactions.waiting.forget(id);
            self.roll_back(id, links);
            return links.send(ToLink::Discharged { transaction: id, result: Ok(()) });
        };
        self.transactions.prepared -= 1;
        if !fail {
            let joint = (parts > 1).then(|| Joint::of_transaction(id, parts));
            return self.write_commit(id, admitted, joint, links);
        }
        let Some(transaction) = self.remove_transaction(id) else { return };
        let what = "the transaction of the message that it repeats was rolled back: send it again";
        let rejected = Outcome::Rejected(Some(Box::new(Error::new(condition::RESOURCE_LOCKED, what))));
        for Offered { posted, .. } in admitted.offered.iter().rev() {
            let on_disk = posted.disk.iter().map(|(at, _, admitted)| (*at, admitted.seq));
            for (at, seq) in on_disk.chain(posted.memory.iter().copied()) {
                self.withdraw(at, seq);
                self.answer_pending_duplicates(at, seq, &rejected, links);
                self.mark_dirty(at);
            }
        }
        self.return_retirements(&transaction.retirements, links);
        links.send(ToLink::Discharged { transaction: id, result: Ok(()) });
        self.commit_ended(links);
        self.begin_waiting_commits(links);
    }

    /// Withdraws messages that in-memory queues have admitted, and refuses their duplicates.
    pub(in crate::core) fn withdraw_from_memory(
        &mut self,
        in_memory: Vec<(Key, Seq, RecordLocation)>,
        why: &Error,
        links: &mut impl Links,
    ) {
        let rejected = Outcome::Rejected(Some(Box::new(why.clone())));
        for (at, seq, place) in in_memory.into_iter().rev() {
            self.withdraw(at, seq);
            self.storage.bodies.free(place);
            self.answer_pending_duplicates(at, seq, &rejected, links);
        }
    }

    /// Counts an ended commit. After the last one, a postponed compaction continues.
    fn commit_ended(&mut self, links: &mut impl Links) {
        self.transactions.committing -= 1;
        if self.transactions.committing == 0
            && let Some(segment) = self.transactions.compaction.take()
        {
            self.compact(segment);
            self.begin_waiting_commits(links);
        }
    }

    /// Frees the records of retired messages whose address was deleted in the meantime, because the
    /// log has refused their removals.
    fn free_deleted(&mut self, retirements: &[Retirement]) {
        let deleted = retirements.iter().filter(|it| self.pending.get(Key::unpack(it.token)).is_none());
        let mut freed = Freed::default();
        deleted.filter_map(|retirement| retirement.logged).for_each(|place| freed.add(place));
        self.storage.journal.free_orphans(&freed);
    }

    /// Makes a message of an in-memory queue available.
    pub(in crate::core) fn end_posting(&mut self, at: Key, seq: Seq, place: RecordLocation, links: &mut impl Links) {
        let Some(queue) = self.addresses.find_queue_mut(at) else {
            // The queue was deleted in the meantime.
            return self.storage.bodies.free(place);
        };
        let effects = &mut self.storage.effects;
        queue.opened.messages.committed(seq, place, &mut |effect| effects.push(effect));
        self.answer_pending_duplicates(at, seq, &Outcome::Accepted, links);
        self.do_effects(at, links);
        self.mark_dirty(at);
    }

    /// Applies the outcome of a delivery that a committed transaction held.
    fn end_retirement(&mut self, retirement: &Retirement, links: &mut impl Links) {
        let Some(pending) = self.pending.get_mut(Key::unpack(retirement.token)) else { return };
        if std::mem::replace(&mut pending.retiring, Retiring::No) == Retiring::No {
            return;
        }
        if retirement.logged.is_none() {
            return self.outcome(retirement.token, &retirement.outcome, links);
        }
        let Some(pending) = self.close_token(retirement.token) else { return };
        let at = pending.address;
        let SettlementTarget::Queue(seq) = pending.settlement else { return };
        self.addresses.queue_mut(at).settle_logged(seq, &mut self.storage);
        self.mark_dirty(at);
    }

    /// Rolls back a transaction.
    pub(in crate::core) fn roll_back(&mut self, id: TransactionId, links: &mut impl Links) {
        if let Some(transaction) = self.remove_transaction(id) {
            self.return_retirements(&transaction.retirements, links);
        }
    }

    /// Returns the deliveries of a transaction that was not committed: unsettled ones to their
    /// consumers, settled ones as after a failure.
    fn return_retirements(&mut self, retirements: &[Retirement], links: &mut impl Links) {
        for Retirement { token, .. } in retirements {
            let Some(pending) = self.pending.get_mut(Key::unpack(*token)) else { continue };
            let (at, settlement) = (pending.address, pending.settlement);
            match std::mem::replace(&mut pending.retiring, Retiring::No) {
                Retiring::No => {}
                Retiring::Relinquished(verdict) => self.outcome(*token, &verdict.outcome(), links),
                Retiring::Held => {
                    let queue = self.addresses.find_queue_mut(at);
                    if let (SettlementTarget::Queue(seq), Some(queue)) = (settlement, queue) {
                        queue.opened.messages.unretire(seq);
                    }
                }
            }
        }
    }
}
