//! Records for the log, gathered during a turn, and the producers to answer when they are written.

use std::collections::HashMap;

use enmasse_amqp::types::{Error, Outcome, condition};
use enmasse_journal::log::{Freed, Refused, Removal, Target, WriteBatch};
use enmasse_journal::queue::{Item, Marker, Queue, RECORD_BYTES, Seq, Stored as Admitted};
use enmasse_journal::stream::{ENDED_KEY, FilledBlock, Merge};
use smallvec::SmallVec;

use super::super::arena::Key;
use super::super::incoming::WholeBody;
use super::super::message::SettlementTarget;
use super::super::queue::{ANNOTATIONS, BARRED, FAILURES, SUBSCRIPTION, state_key};
use super::super::received::Account;
use super::super::stream::InFlightBlock;
use super::super::{Links, Router, TransactionId};
use super::compact::Copied;
use super::lanes::{Growing, InFlightWrite, LaneId, Lanes, Spares};

/// The log's answer to a batch.
#[derive(Debug)]
pub struct Answer {
    /// the batch
    pub batch: WriteBatch,
    /// whether it is on disk
    pub result: Result<(), Refused>,
}

/// A message that was given to the log for one queue.
#[derive(Debug)]
pub(in crate::core) struct Commit {
    /// its number in the batch
    number: usize,
    /// its queue
    pub(in crate::core) at: Key,
    pub(in crate::core) seq: Seq,
    /// its completion; of a message for several queues one has it
    pub(in crate::core) completion: Completion,
    /// the tag of its delivery, to be written with it
    tag: Option<Box<Marker>>,
}

impl Commit {
    pub(in crate::core) fn new(at: Key, seq: Seq, completion: Completion) -> Self {
        Self { number: 0, at, seq, completion, tag: None }
    }

    pub(in crate::core) fn with_tag(self, tag: Option<Box<Marker>>) -> Self {
        Self { tag, ..self }
    }
}

/// The queues of the log for a message: their numbers, the records to write, and the completions.
pub(in crate::core) type Queues<'a> = SmallVec<[(u32, &'a Admitted, Commit); 2]>;

/// The action to take when a message is on disk, or was refused.
#[derive(Clone, Debug)]
pub(in crate::core) struct Completion {
    /// the producer whose window it occupies
    pub(in crate::core) producer: Key,
    pub(in crate::core) settlement: SettlementTarget,
    /// the address for which the outcome counts
    pub(in crate::core) address: Key,
    /// where its bytes are counted
    pub(in crate::core) account: Account,
    /// payload that waits for the producer, in bytes
    pub(in crate::core) bytes: usize,
    /// the queue it comes from, if it is moved
    pub(in crate::core) from: Option<(Key, Seq)>,
}

impl Completion {
    pub(in crate::core) const NONE: Self = Self {
        producer: Key::NONE,
        settlement: SettlementTarget::Nothing,
        address: Key::NONE,
        account: Account::NONE,
        bytes: 0,
        from: None,
    };
}

/// The log as a shard sees it.
#[derive(Debug, Default)]
pub(in crate::core) struct Journal {
    pub(in crate::core) lanes: Lanes,
    /// the lane of the group that is being written
    open: LaneId,
    /// the lane of the batch that is being answered
    answering: LaneId,
    spares: Spares,
    /// copies that are planned
    copying: Option<(WriteBatch, Copied)>,
    /// copies are planned, or with the log
    compacting: bool,
    /// copies are with the log
    copies_in_flight: bool,
    /// messages of deleted queues whose removals are in flight: their locations
    leaving: HashMap<(u64, Seq), enmasse_journal::log::RecordLocation>,
}

impl Journal {
    /// A queue of the log belongs to an address space.
    pub(in crate::core) fn join(&mut self, log: u32, space: u32) {
        self.lanes.join(log, LaneId::of_space(space));
    }

    /// Writes a message for one queue, by its number in the log, with what is to be done then.
    pub(in crate::core) fn store_one(
        &mut self,
        log: u32,
        admitted: &Admitted,
        mut commit: Commit,
        body: WholeBody<'_>,
    ) {
        let growing = self.begin_group(log, body.bytes().len());
        if is_marked(admitted, &commit) {
            growing.batch.begin();
        }
        let head = admitted.record.encode();
        let target = target(log, admitted, &head);
        commit.number = match body {
            WholeBody::Read(body) => growing.batch.message(&[target], body),
            WholeBody::Assembled(body) => growing.batch.assembled(target, std::mem::take(body)),
        };
        put_markers(&mut growing.batch, log, admitted, &commit);
        growing.commits.push(commit);
    }

    /// Writes a message once, for several queues.
    pub(in crate::core) fn store(&mut self, queues: Queues<'_>, body: &[u8]) {
        // It is for no queue.
        let Some((log, _, _)) = queues.first() else { return };
        let growing = self.begin_group(*log, body.len());
        if queues.iter().any(|(_, admitted, commit)| is_marked(admitted, commit)) {
            growing.batch.begin();
        }
        self.put(queues, body);
    }

    /// A group of about this many bytes begins, in the lane of a queue.
    fn begin_group(&mut self, log: u32, bytes: usize) -> &mut Growing {
        self.open = self.lanes.lane_of(log);
        self.lanes.at(self.open).begin_group(bytes)
    }

    /// The group that is being written, to which a queue of its space is added.
    fn group(&mut self, log: u32) -> &mut Growing {
        assert_eq!(self.lanes.lane_of(log), self.open, "a group of records is of one address space");
        &mut self.lanes.at(self.open).growing
    }

    fn put(&mut self, queues: Queues<'_>, body: &[u8]) {
        // It is for no queue.
        let Some((log, _, _)) = queues.first() else { return };
        let heads: SmallVec<[[u8; RECORD_BYTES]; 1]> =
            queues.iter().map(|(_, admitted, _)| admitted.record.encode()).collect();
        let targets = queues.iter().zip(&heads).map(|((log, admitted, _), head)| target(*log, admitted, head));
        let targets: SmallVec<[Target<'_>; 1]> = targets.collect();
        let number = self.group(*log).batch.message(&targets, body);
        for (log, admitted, commit) in queues {
            let growing = self.group(log);
            put_markers(&mut growing.batch, log, admitted, &commit);
            growing.commits.push(Commit { number, ..commit });
        }
    }

    /// Declares a subscription in the log, with its description.
    pub(in crate::core) fn declare(&mut self, at: Key, log: u32, uid: &[u8; 16], name: &str, description: &[u8]) {
        let growing = self.begin_group(log, description.len());
        growing.batch.begin();
        growing.batch.declare(log, uid, name);
        growing.batch.state(log, SUBSCRIPTION, description);
        growing.batch.end();
        growing.declared.push(at);
    }

    /// Ends what [`Journal::store`] began, with the removal from where the message comes from.
    pub(in crate::core) fn seal(&mut self, removed: Option<(u32, &Item)>) {
        if let Some((log, item)) = removed {
            let mut removal = Removal::new(log);
            removal.add(item.id.0, item.place);
            self.group(log).batch.remove(&mut removal);
        }
        self.lanes.at(self.open).growing.batch.end();
    }

    /// A transaction that has messages for the log is on disk as a whole or not at all: these, by
    /// [`Journal::post`] and [`Journal::post_block`], then [`Journal::end_transaction`]. `log` is
    /// one of its queues, `bytes` about its size.
    pub(in crate::core) fn begin_transaction(&mut self, log: u32, bytes: usize) {
        self.begin_group(log, bytes).batch.begin();
    }

    /// A message of it, with the queues of the log it is for.
    pub(in crate::core) fn post(&mut self, queues: Queues<'_>, body: &[u8]) {
        self.put(queues, body);
    }

    /// A block of it, for the partition `log` of a stream.
    pub(in crate::core) fn post_block(&mut self, log: u32, block: &FilledBlock<'_>, in_flight: InFlightBlock) {
        let growing = self.group(log);
        let number = put_block(&mut growing.batch, log, block);
        growing.blocks.push(in_flight.numbered(number));
    }

    /// That is all of it, with the messages that leave their queues.
    pub(in crate::core) fn end_transaction(&mut self, transaction: TransactionId, removals: &mut [Removal]) {
        for removal in removals {
            self.group(removal.queue()).batch.remove(removal);
        }
        let growing = &mut self.lanes.at(self.open).growing;
        growing.posting.push(transaction);
        growing.batch.end();
    }

    /// A transaction in which messages leave their queues and none come.
    pub(in crate::core) fn retire(&mut self, transaction: TransactionId, removals: &mut [Removal]) {
        // The caller has found removals.
        let Some(first) = removals.first().map(|removal| self.lanes.lane_of(removal.queue())) else { return };
        let mut lanes = removals.iter().map(|removal| self.lanes.lane_of(removal.queue()));
        assert!(lanes.all(|lane| lane == first), "a group of records is of one address space");
        let (batch, transactions) = &mut self.lanes.at(first).retiring;
        batch.begin();
        removals.iter_mut().for_each(|removal| batch.remove(removal));
        batch.end();
        transactions.push(transaction);
    }

    /// The log forgets the state of a removed message.
    pub(in crate::core) fn forget_state(&mut self, log: u32, item: &Item, annotated: bool) {
        self.forget_counts(log, item);
        if annotated {
            self.forget_annotations(log, item.id.0);
        }
    }

    /// The log forgets the failures of a message, and the consumers it is barred from.
    fn forget_counts(&mut self, log: u32, item: &Item) {
        if item.failures > 0 {
            self.lanes.of(log).shrinking.state(log, &state_key(FAILURES, item.id.0), &[]);
        }
        if item.barred {
            self.lanes.of(log).shrinking.state(log, &state_key(BARRED, item.id.0), &[]);
        }
    }

    /// The log forgets a message.
    pub(in crate::core) fn remove(&mut self, log: u32, item: &Item) {
        self.remove_at(log, item.id.0, item.place);
        self.forget_counts(log, item);
    }

    /// As above, one that its queue has never known.
    pub(in crate::core) fn remove_at(&mut self, log: u32, seq: u64, place: enmasse_journal::log::RecordLocation) {
        let removals = &mut self.lanes.of(log).removals;
        let at = removals.iter().rposition(|(queue, _)| *queue == log).unwrap_or_else(|| {
            let mut removal = self.spares.removals.pop().unwrap_or_else(|| Removal::new(log));
            removal.reset(log);
            removals.push((log, removal));
            removals.len() - 1
        });
        removals[at].1.add(seq, place);
    }

    /// The log keeps how often the delivery of a message has failed, and until when it waits.
    pub(in crate::core) fn count_failures(&mut self, log: u32, id: u64, failures: u16, due: Option<u64>) {
        let mut value: SmallVec<[u8; 10]> = SmallVec::from_slice(&failures.to_le_bytes());
        value.extend(due.iter().flat_map(|due| due.to_le_bytes()));
        self.lanes.of(log).shrinking.state(log, &state_key(FAILURES, id), &value);
    }

    /// The log keeps which links a message is kept from.
    pub(in crate::core) fn keep_barred(&mut self, log: u32, id: u64, names: &[u64]) {
        let value: Vec<u8> = names.iter().flat_map(|name| name.to_le_bytes()).collect();
        self.lanes.of(log).shrinking.state(log, &state_key(BARRED, id), &value);
    }

    /// The log stores the modified annotations of a message.
    pub(in crate::core) fn keep_annotations(&mut self, log: u32, id: u64, annotations: &[u8]) {
        self.lanes.of(log).shrinking.state(log, &state_key(ANNOTATIONS, id), annotations);
    }

    /// The log forgets a state key of a queue whose message does not exist.
    pub(in crate::core) fn forget_orphan(&mut self, log: u32, key: &[u8]) {
        self.lanes.of(log).shrinking.state(log, key, &[]);
    }

    /// The log keeps something else of a queue, which a full disk must still take.
    pub(in crate::core) fn note(&mut self, log: u32, key: &[u8], value: &[u8]) {
        let lane = self.lanes.of(log);
        if !lane.erased.is_empty() {
            lane.erased.remove(&(log, key.into()));
        }
        lane.shrinking.state(log, key, value);
    }

    /// Deletes a state key. It is written after removals, so that a torn batch never makes a held
    /// message available to other consumers.
    pub(in crate::core) fn erase(&mut self, log: u32, key: &[u8]) {
        self.lanes.of(log).erased.insert((log, key.into()));
    }

    /// A message is to be written with state under this key: a pending deletion of the key goes
    /// first.
    pub(in crate::core) fn erase_before(&mut self, log: u32, key: &[u8]) {
        let lane = self.lanes.of(log);
        if !lane.erased.is_empty() && lane.erased.remove(&(log, key.into())) {
            lane.growing.batch.state(log, key, &[]);
        }
    }

    pub(in crate::core) fn forget_annotations(&mut self, log: u32, id: u64) {
        self.lanes.of(log).shrinking.state(log, &state_key(ANNOTATIONS, id), &[]);
    }

    /// The log drops a queue with all its messages; the log has been notified to remove those in
    /// `gone`.
    pub(in crate::core) fn drop_queue(&mut self, log: u32, queue: &Queue, gone: impl Fn(&Item) -> bool) {
        let mut freed = self.take_freed(log);
        // A message in flight has no location yet: it is freed when it has one.
        let here = queue.iter(Seq(0)).filter(|item| item.place.len > 0 && !gone(item));
        here.for_each(|item| freed.add(item.place));
        let lane = self.lanes.of(log);
        lane.erased.retain(|(queue, _)| *queue != log);
        lane.shrinking.drop_queue(log, &freed);
        self.lanes.leave(log);
    }

    /// These go with the messages that they become, or, if the log does not take those, with their
    /// queue.
    pub(in crate::core) fn note_leaving(&mut self, at: Key, items: impl Iterator<Item = Item>) {
        self.leaving.extend(items.map(|item| ((at.pack(), item.seq), item.place)));
    }

    /// Locations whose removals are not written any more because the queue is dropped.
    fn take_freed(&mut self, log: u32) -> Freed {
        let mut freed = Freed::default();
        for (_, removal) in self.lanes.of(log).removals.extract_if(.., |(queue, _)| *queue == log) {
            freed.join(removal.freed());
        }
        freed
    }

    /// A message was written whose queue is gone.
    fn forget_misplaced(&mut self, place: enmasse_journal::log::RecordLocation) {
        let mut freed = Freed::default();
        freed.add(place);
        self.free_misplaced(&freed);
    }

    /// The same of several. Their queue was dropped in the lane whose batch is being answered, and
    /// they are freed behind that.
    pub(in crate::core) fn free_misplaced(&mut self, freed: &Freed) {
        self.lanes.at(self.answering).shrinking.free(freed);
    }

    /// Writes a block for the partition `log` of a stream.
    pub(in crate::core) fn store_block(&mut self, log: u32, block: &FilledBlock<'_>, in_flight: InFlightBlock) {
        let lane = self.lanes.of(log);
        if !block.markers.is_empty() {
            lane.blocks.begin();
        }
        let number = put_block(&mut lane.blocks, log, block);
        lane.blocks.end();
        lane.in_flight_blocks.push(in_flight.numbered(number));
    }

    /// Writes one block in the place of others.
    pub(in crate::core) fn store_merged(&mut self, log: u32, merge: &Merge, body: &[u8], in_flight: InFlightBlock) {
        let lane = self.lanes.of(log);
        lane.blocks.begin();
        let number = lane.blocks.merged(Target { queue: log, seq: merge.record, head: &merge.head }, body);
        let mut removal = Removal::new(log);
        merge.blocks.iter().for_each(|(record, place)| removal.add(*record, *place));
        lane.blocks.remove(&mut removal);
        lane.blocks.end();
        lane.in_flight_blocks.push(in_flight.numbered(number));
    }

    /// The log stores the state of a partition that has no block.
    pub(in crate::core) fn keep_ended(&mut self, log: u32, ended: &[u8]) {
        self.lanes.of(log).shrinking.state(log, &ENDED_KEY, ended);
    }

    /// The log forgets a partition with all its blocks.
    pub(in crate::core) fn drop_partition(&mut self, log: u32, freed: &Freed) {
        let mut all = self.take_freed(log);
        all.join(freed);
        self.lanes.of(log).shrinking.drop_queue(log, &all);
        self.lanes.leave(log);
    }

    /// The producers of unwritten messages for an address: they are not notified about these any
    /// more.
    pub(in crate::core) fn take_settlements(&mut self, at: Key) -> Vec<SettlementTarget> {
        let completions = self.lanes.commits_mut().map(|commit| &mut commit.completion);
        let mine = completions.filter(|completion| {
            completion.address == at && matches!(completion.settlement, SettlementTarget::Producer { .. })
        });
        mine.map(|completion| std::mem::replace(&mut completion.settlement, SettlementTarget::Nothing)).collect()
    }

    /// Copies are planned; only one such batch is on its way at a time.
    pub(in crate::core) fn copy(&mut self, batch: WriteBatch, copied: Copied) {
        self.compacting = true;
        self.copying = Some((batch, copied));
    }

    pub(in crate::core) fn is_compacting(&self) -> bool {
        self.compacting
    }

    /// The log has answered for the copies, which take the place of what lay in `freed`.
    pub(in crate::core) fn end_copies(&mut self, freed: &Freed) {
        self.compacting = false;
        self.copies_in_flight = false;
        self.lanes.wake_all();
        self.lanes.at(LaneId::COPIES).shrinking.free(freed);
    }

    /// Planned copies that are not in flight yet.
    pub(in crate::core) fn take_planned(&mut self) -> Option<(WriteBatch, Copied)> {
        self.copying.take()
    }

    /// The batch of these copies goes to the log.
    pub(in crate::core) fn write_copies(&mut self, copied: Copied) {
        self.copies_in_flight = true;
        let lane = self.lanes.at(LaneId::COPIES);
        lane.in_flight.push_back(InFlightWrite::Copy(copied));
        lane.close_fences(true, false);
    }

    /// The next batch: each lane with records is asked until it has no more.
    fn next_batch(&mut self, mut spare: impl FnMut() -> WriteBatch) -> Option<WriteBatch> {
        while let Some(id) = self.lanes.next_ready() {
            let lane = self.lanes.at(id);
            let again = lane.offers_again();
            let batch = lane.take(self.copies_in_flight, &mut self.spares, &mut spare);
            lane.close_fences(batch.is_some(), again);
            match batch {
                Some(mut batch) => {
                    batch.set_part(id.0);
                    return Some(batch);
                }
                None => self.lanes.rest(),
            }
        }
        None
    }

    /// The latest time to offer records again that a full disk refused.
    pub(in crate::core) fn next_timeout(&self) -> Option<u64> {
        self.lanes.next_timeout()
    }

    /// Offers that again once its time has come.
    pub(in crate::core) fn offer_again(&mut self, now_ms: u64) {
        if self.lanes.next_timeout().is_some_and(|at| at <= now_ms) {
            self.lanes.offer_again();
        }
    }
}

fn target<'a>(log: u32, admitted: &Admitted, head: &'a [u8; RECORD_BYTES]) -> Target<'a> {
    Target { queue: log, seq: admitted.seq.0, head: &head[..admitted.record.encoded_len()] }
}

/// Whether more than the message itself is written for a queue, or its removal from another: a
/// group.
fn is_marked(admitted: &Admitted, commit: &Commit) -> bool {
    commit.completion.from.is_some() || commit.tag.is_some() || admitted.markers.iter().any(Option::is_some)
}

fn put_markers(batch: &mut WriteBatch, log: u32, admitted: &Admitted, commit: &Commit) {
    for marker in admitted.markers.iter().flatten().chain(commit.tag.as_deref()) {
        put_marker(batch, log, marker);
    }
}

/// Why the log has not taken something.
pub(in crate::core) fn not_stored(what: &str, refused: &Refused) -> Error {
    match refused {
        // Clients take any outcome but rejected for a success, or for a promise that it is not
        // stored.
        Refused::Unsure(_) => {
            Error::new(condition::INTERNAL_ERROR, format!("{what} may or may not be stored: {refused}"))
        }
        Refused::Stopped(_) => Error::new(condition::INTERNAL_ERROR, format!("{what} cannot be stored: {refused}")),
        Refused::NoRoom(_) | Refused::TooLarge { .. } => {
            Error::new(condition::RESOURCE_LIMIT_EXCEEDED, format!("{what} cannot be stored: {refused}"))
        }
    }
}

/// Puts a block of a stream into a batch; its number there.
fn put_block(batch: &mut WriteBatch, log: u32, block: &FilledBlock<'_>) -> usize {
    let number = batch.message(&[Target { queue: log, seq: block.record, head: &block.head }], block.body);
    block.markers.iter().for_each(|marker| put_marker(batch, log, marker));
    number
}

fn put_marker(batch: &mut WriteBatch, log: u32, marker: &Marker) {
    batch.state(log, &marker.key(), &marker.value());
}

impl Router {
    /// The next batch for the log after the turn, if any: to be passed on in this order. Batches of
    /// different [parts](WriteBatch::part) need no order among each other.
    pub fn take_journal(&mut self) -> Option<WriteBatch> {
        let recent = &mut self.storage.bodies.recent;
        let batch = self.storage.journal.next_batch(|| recent.spare());
        batch.or_else(|| {
            let mut copies = self.take_copies()?;
            copies.set_part(LaneId::COPIES.0);
            Some(copies)
        })
    }

    /// Messages came in that the log has not answered for.
    #[must_use]
    pub fn is_storing(&self) -> bool {
        let written = self.storage.journal.lanes.is_idle() && self.storage.journal.copying.is_none();
        !written || !self.schedule.gathering.is_empty() || !self.transactions.waiting.is_empty()
    }

    /// A batch is back from the log, those of one [part](WriteBatch::part) in the order of
    /// dispatch: its messages are available, and their producers are answered.
    pub fn journaled(&mut self, answer: Answer, links: &mut impl Links) {
        let stopped = matches!(answer.result, Err(Refused::Stopped(_) | Refused::Unsure(_)));
        let lane = LaneId(answer.batch.part());
        self.take_answer(lane, answer, links);
        self.release_fences(lane, stopped, links);
    }

    fn take_answer(&mut self, lane: LaneId, answer: Answer, links: &mut impl Links) {
        let Answer { batch, result } = answer;
        self.storage.journal.answering = lane;
        if result.is_ok() {
            self.storage.journal.lanes.offer_again();
        }
        let (mut commits, declared, transactions, blocks) =
            match self.storage.journal.lanes.at(lane).in_flight.pop_front() {
                Some(InFlightWrite::Store(commits, declared, posting, blocks)) => (commits, declared, posting, blocks),
                Some(InFlightWrite::Blocks(in_flight_blocks)) => {
                    let dirty = self.blocks_journaled(&batch, &result, in_flight_blocks, links);
                    self.retain_body(batch, &result);
                    self.begin_waiting_commits(links);
                    return self.process_streams(dirty, links);
                }
                Some(InFlightWrite::Forget) => return self.forgotten(lane, batch, &result),
                Some(InFlightWrite::Retire(transactions)) => {
                    self.storage.bodies.recent.recycle_batch(batch);
                    transactions.into_iter().for_each(|id| self.end_commit(id, &result, links));
                    return self.begin_waiting_commits(links);
                }
                Some(InFlightWrite::Copy(copied)) => {
                    self.moved(result.is_ok().then_some(&batch), copied, links);
                    return self.storage.bodies.recent.recycle_batch(batch);
                }
                None => return,
            };
        for at in declared {
            self.subscription_declared(at, result.as_ref().err(), links);
        }
        for commit in commits.drain(..) {
            match &result {
                Ok(()) => self.commit(&commit, batch.place(commit.number), links),
                Err(refused) => {
                    let outcome = Outcome::Rejected(Some(Box::new(not_stored("the message", refused))));
                    self.uncommit(&commit, &outcome, links);
                }
            }
        }
        self.storage.journal.spares.commits.push(commits);
        let dirty = self.blocks_journaled(&batch, &result, blocks, links);
        self.retain_body(batch, &result);
        for transaction in transactions {
            self.end_commit(transaction, &result, links);
        }
        self.begin_waiting_commits(links);
        self.process_streams(dirty, links);
    }

    /// Bodies of a written batch stay in memory for a while.
    fn retain_body(&mut self, batch: WriteBatch, result: &Result<(), Refused>) {
        match result {
            Ok(()) => self.storage.bodies.recent.keep(batch),
            Err(_) => self.storage.bodies.recent.recycle_batch(batch),
        }
    }

    /// Records that a full disk refused are offered again, before later ones.
    fn forgotten(&mut self, lane: LaneId, batch: WriteBatch, result: &Result<(), Refused>) {
        if matches!(result, Err(Refused::NoRoom(_))) {
            return self.storage.journal.lanes.refuse(lane, batch, self.now_ms);
        }
        self.storage.journal.lanes.at(lane).forgotten();
        self.storage.bodies.recent.recycle_batch(batch);
    }

    fn commit(&mut self, commit: &Commit, place: enmasse_journal::queue::RecordLocation, links: &mut impl Links) {
        let queue = self.addresses.find_queue(commit.at);
        if let Some(queue) = queue.filter(|queue| queue.opened.messages.is_behind_gap(commit.seq)) {
            if let Some(log) = queue.opened.log {
                self.storage.journal.remove_at(log, commit.seq.0, place);
            }
            return self.uncommit(commit, &Outcome::Released, links);
        }
        self.free_window(&commit.completion, links);
        self.left_deleted(&commit.completion);
        if let Some((from, seq)) = commit.completion.from
            && let Some(queue) = self.addresses.find_queue_mut(from)
        {
            queue.left(seq, &mut self.storage);
        }
        if let Some(queue) = self.addresses.find_queue_mut(commit.at) {
            let effects = &mut self.storage.effects;
            queue.opened.messages.committed(commit.seq, place, &mut |effect| effects.push(effect));
            queue.resolve_tag(commit.seq, true, &mut self.storage);
        } else {
            // Deleted in the meantime, with all its messages.
            self.storage.journal.forget_misplaced(place);
        }
        self.run_completion(&commit.completion, &Outcome::Accepted, links);
        self.answer_pending_duplicates(commit.at, commit.seq, &Outcome::Accepted, links);
        self.do_effects(commit.at, links);
        self.mark_dirty(commit.at);
    }

    /// A message is not stored; a numbered producer sends no other until its link is attached
    /// again.
    fn uncommit(&mut self, commit: &Commit, outcome: &Outcome, links: &mut impl Links) {
        self.free_window(&commit.completion, links);
        self.halt_numbered(commit.completion.producer);
        if let Some(place) = self.left_deleted(&commit.completion) {
            self.storage.journal.forget_misplaced(place);
        }
        if let Some((from, seq)) = commit.completion.from
            && let Some(queue) = self.addresses.find_queue_mut(from)
        {
            queue.opened.messages.stay(seq);
        }
        if let Some(queue) = self.addresses.find_queue_mut(commit.at) {
            queue.opened.messages.withdraw(commit.seq);
            queue.resolve_tag(commit.seq, false, &mut self.storage);
            self.mark_dirty(commit.at);
        }
        self.run_completion(&commit.completion, outcome, links);
        self.answer_pending_duplicates(commit.at, commit.seq, outcome, links);
    }

    /// A message of a producer was not taken: one that numbers them has to start again.
    pub(in crate::core) fn halt_numbered(&mut self, producer: Key) {
        if let Some(producer) = self.producers.get_mut(producer) {
            producer.halted |= producer.producer_name.is_some();
        }
    }

    /// The location of a message whose queue was deleted in the meantime.
    fn left_deleted(&mut self, completion: &Completion) -> Option<enmasse_journal::log::RecordLocation> {
        let (from, seq) = completion.from.filter(|_| !self.storage.journal.leaving.is_empty())?;
        self.storage.journal.leaving.remove(&(from.pack(), seq))
    }

    /// Answers for a message, unless the address for which that counts was deleted: its producers'
    /// links were closed, and those that stay were answered then.
    fn run_completion(&mut self, completion: &Completion, outcome: &Outcome, links: &mut impl Links) {
        if self.addresses.get(completion.address).is_some() {
            self.answer(completion.settlement, completion.address, outcome, links);
        }
    }

    fn free_window(&mut self, completion: &Completion, links: &mut impl Links) {
        self.received.remove(completion.account, 1, completion.bytes);
        if let Some(producer) = self.producers.get_mut(completion.producer) {
            producer.waiting -= 1;
            let bytes = producer.waiting_bytes - completion.bytes;
            self.update_producer_back_pressure(completion.producer, bytes, links);
            self.taken(completion.producer, 1);
        }
    }
}
