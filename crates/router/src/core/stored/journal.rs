//! Records for the log, gathered during a turn, and the producers to answer when they are written.

use std::collections::{BTreeSet, HashMap, VecDeque};

use enmasse_amqp::types::{Error, Outcome, condition};
use enmasse_journal::log::{Freed, Refused, Removal, Target, WriteBatch};
use enmasse_journal::queue::{Item, Marker, Queue, RECORD_BYTES, Seq, Stored as Admitted};
use enmasse_journal::stream::{ENDED_KEY, FilledBlock, Merge};
use smallvec::SmallVec;

use super::super::arena::Key;
use super::super::message::SettlementTarget;
use super::super::received::Account;
use super::super::stream::InFlightBlock;
use super::super::{Links, Router, TransactionId};
use super::compact::Copied;
use super::fence::Fences;
use super::state::{ANNOTATIONS, BARRED, FAILURES, SUBSCRIPTION, state_key};

/// A batch of messages of this many bytes is closed, and further records go into the next one: the
/// log accepts at most 2 GiB.
const PART_BYTES: usize = 64 << 20;
/// Time until records that a full disk refused are offered again, unless it accepts others before.
const AGAIN_MS: u64 = 1000;

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
pub(super) struct Commit {
    /// its number in the batch
    number: usize,
    /// its queue
    pub(super) at: Key,
    pub(super) seq: Seq,
    /// its completion; of a message for several queues one has it
    pub(super) completion: Completion,
    /// the tag of its delivery, to be written with it
    tag: Option<Box<Marker>>,
}

impl Commit {
    pub(super) fn new(at: Key, seq: Seq, completion: Completion) -> Self {
        Self { number: 0, at, seq, completion, tag: None }
    }

    pub(super) fn with_tag(self, tag: Option<Box<Marker>>) -> Self {
        Self { tag, ..self }
    }
}

/// The queues of the log for a message: their numbers, the records to write, and the completions.
pub(super) type Queues<'a> = SmallVec<[(u32, &'a Admitted, Commit); 2]>;

/// The action to take when a message is on disk, or was refused.
#[derive(Clone, Debug)]
pub(super) struct Completion {
    /// the producer whose window it occupies
    pub(super) producer: Key,
    pub(super) settlement: SettlementTarget,
    /// the address for which the outcome counts
    pub(super) address: Key,
    /// where its bytes are counted
    pub(super) account: Account,
    /// payload that waits for the producer, in bytes
    pub(super) bytes: usize,
    /// the queue it comes from, if it is moved
    pub(super) from: Option<(Key, Seq)>,
}

impl Completion {
    pub(super) const NONE: Self = Self {
        producer: Key::NONE,
        settlement: SettlementTarget::Nothing,
        address: Key::NONE,
        account: Account::NONE,
        bytes: 0,
        from: None,
    };
}

/// The content of an in-flight batch.
#[derive(Debug)]
enum InFlightWrite {
    /// messages, declared subscriptions, and transactions whose postings are among the messages,
    /// with their blocks
    Store(Vec<Commit>, Vec<Key>, Vec<TransactionId>, Vec<InFlightBlock>),
    Blocks(Vec<InFlightBlock>),
    /// removals and state
    Forget,
    /// transactions that consist of removals
    Retire(Vec<TransactionId>),
    Copy(Copied),
}

/// Messages for the log, and their completions.
#[derive(Debug, Default)]
struct Growing {
    batch: WriteBatch,
    commits: Vec<Commit>,
    /// subscriptions that the log is to know of
    declared: Vec<Key>,
    /// transactions of which there are groups
    posting: Vec<TransactionId>,
    /// blocks of those
    blocks: Vec<InFlightBlock>,
}

/// The log as a shard sees it.
#[derive(Debug, Default)]
pub(in crate::core) struct Journal {
    growing: Growing,
    /// full batches, before that one
    grown: VecDeque<Growing>,
    /// blocks of streams
    blocks: WriteBatch,
    in_flight_blocks: Vec<InFlightBlock>,
    /// removals and state: records that a full disk must still accept
    shrinking: WriteBatch,
    /// transactions that post nothing
    retiring: (WriteBatch, Vec<TransactionId>),
    removals: Vec<(u32, Removal)>,
    spare_removals: Vec<Removal>,
    /// removals and state that a full disk did not take, to be offered again when it has taken
    /// something, or at that time.
    again: Option<WriteBatch>,
    again_ms: Option<u64>,
    /// a batch of them is in flight: later ones wait
    forgetting: bool,
    has_room: bool,
    /// copies that are planned
    copying: Option<(WriteBatch, Copied)>,
    /// copies are planned, or with the log
    compacting: bool,
    /// copies are with the log
    copies_in_flight: bool,
    /// the contents of the batches in flight
    in_flight: VecDeque<InFlightWrite>,
    spare_commits: Vec<Vec<Commit>>,
    /// messages of deleted queues whose removals are in flight: their locations
    leaving: HashMap<(u64, Seq), enmasse_journal::log::RecordLocation>,
    /// keys of state that is to be forgotten
    erased: BTreeSet<(u32, Box<[u8]>)>,
    /// notices that wait for batches
    pub(super) fences: Fences,
}

impl Journal {
    /// Writes a message for one queue, by its number in the log, with what is to be done then.
    pub(super) fn store_one(&mut self, log: u32, admitted: &Admitted, mut commit: Commit, body: &[u8]) {
        if is_marked(admitted, &commit) {
            self.growing.batch.begin();
        }
        let head = admitted.record.encode();
        let growing = &mut self.growing;
        commit.number = growing.batch.message(&[target(log, admitted, &head)], body);
        put_markers(&mut growing.batch, log, admitted, &commit);
        growing.commits.push(commit);
    }

    /// Writes a message once, for several queues.
    pub(super) fn store(&mut self, queues: Queues<'_>, body: &[u8]) {
        if queues.iter().any(|(_, admitted, commit)| is_marked(admitted, commit)) {
            self.growing.batch.begin();
        }
        self.put(queues, body);
    }

    fn put(&mut self, queues: Queues<'_>, body: &[u8]) {
        let heads: SmallVec<[[u8; RECORD_BYTES]; 1]> =
            queues.iter().map(|(_, admitted, _)| admitted.record.encode()).collect();
        let targets = queues.iter().zip(&heads).map(|((log, admitted, _), head)| target(*log, admitted, head));
        let targets: SmallVec<[Target<'_>; 1]> = targets.collect();
        let growing = &mut self.growing;
        let number = growing.batch.message(&targets, body);
        for (log, admitted, commit) in queues {
            put_markers(&mut growing.batch, log, admitted, &commit);
            growing.commits.push(Commit { number, ..commit });
        }
    }

    /// Declares a subscription in the log, with its description.
    pub(super) fn declare(&mut self, at: Key, log: u32, uid: &[u8; 16], name: &str, description: &[u8]) {
        let batch = &mut self.growing.batch;
        batch.begin();
        batch.declare(log, uid, name);
        batch.state(log, SUBSCRIPTION, description);
        batch.end();
        self.growing.declared.push(at);
    }

    /// Ends what [`Journal::store`] began, with the removal from where the message comes from.
    pub(super) fn seal(&mut self, removed: Option<(u32, &Item)>) {
        if let Some((log, item)) = removed {
            let mut removal = Removal::new(log);
            removal.add(item.id.0, item.place);
            self.growing.batch.remove(&mut removal);
        }
        self.end_group();
    }

    fn end_group(&mut self) {
        self.growing.batch.end();
        if self.growing.batch.bytes() >= PART_BYTES {
            self.grown.push_back(std::mem::take(&mut self.growing));
        }
    }

    /// A transaction that has messages for the log is on disk as a whole or not at all: these, by
    /// [`Journal::post`] and [`Journal::post_block`], then [`Journal::end_transaction`].
    pub(super) fn begin_transaction(&mut self) {
        self.growing.batch.begin();
    }

    /// A message of it, with the queues of the log it is for.
    pub(super) fn post(&mut self, queues: Queues<'_>, body: &[u8]) {
        self.put(queues, body);
    }

    /// A block of it, for the partition `log` of a stream.
    pub(in crate::core) fn post_block(&mut self, log: u32, block: &FilledBlock<'_>, in_flight: InFlightBlock) {
        let number = put_block(&mut self.growing.batch, log, block);
        self.growing.blocks.push(in_flight.numbered(number));
    }

    /// That is all of it, with the messages that leave their queues.
    pub(super) fn end_transaction(&mut self, transaction: TransactionId, removals: &mut [Removal]) {
        removals.iter_mut().for_each(|removal| self.growing.batch.remove(removal));
        self.growing.posting.push(transaction);
        self.end_group();
    }

    /// A transaction in which messages leave their queues and none come.
    pub(super) fn retire(&mut self, transaction: TransactionId, removals: &mut [Removal]) {
        let (batch, transactions) = &mut self.retiring;
        batch.begin();
        removals.iter_mut().for_each(|removal| batch.remove(removal));
        batch.end();
        transactions.push(transaction);
    }

    /// The log forgets the state of a removed message.
    pub(super) fn forget_state(&mut self, log: u32, item: &Item, annotated: bool) {
        self.forget_counts(log, item);
        if annotated {
            self.forget_annotations(log, item.id.0);
        }
    }

    /// The log forgets the failures of a message, and the consumers it is barred from.
    fn forget_counts(&mut self, log: u32, item: &Item) {
        if item.failures > 0 {
            self.shrinking.state(log, &state_key(FAILURES, item.id.0), &[]);
        }
        if item.barred {
            self.shrinking.state(log, &state_key(BARRED, item.id.0), &[]);
        }
    }

    /// The log forgets a message.
    pub(super) fn remove(&mut self, log: u32, item: &Item) {
        self.remove_at(log, item.id.0, item.place);
        self.forget_counts(log, item);
    }

    /// As above, one that its queue has never known.
    pub(in crate::core) fn remove_at(&mut self, log: u32, seq: u64, place: enmasse_journal::log::RecordLocation) {
        let removal = match self.removals.iter_mut().rev().find(|(queue, _)| *queue == log) {
            Some((_, removal)) => removal,
            None => {
                let mut removal = self.spare_removals.pop().unwrap_or_else(|| Removal::new(log));
                removal.reset(log);
                self.removals.push((log, removal));
                let last = self.removals.len() - 1;
                &mut self.removals[last].1
            }
        };
        removal.add(seq, place);
    }

    /// The log keeps how often the delivery of a message has failed, and until when it waits.
    pub(super) fn count_failures(&mut self, log: u32, id: u64, failures: u16, due: Option<u64>) {
        let mut value: SmallVec<[u8; 10]> = SmallVec::from_slice(&failures.to_le_bytes());
        value.extend(due.iter().flat_map(|due| due.to_le_bytes()));
        self.shrinking.state(log, &state_key(FAILURES, id), &value);
    }

    /// The log keeps which links a message is kept from.
    pub(super) fn keep_barred(&mut self, log: u32, id: u64, names: &[u64]) {
        let value: Vec<u8> = names.iter().flat_map(|name| name.to_le_bytes()).collect();
        self.shrinking.state(log, &state_key(BARRED, id), &value);
    }

    /// The log stores the modified annotations of a message.
    pub(super) fn keep_annotations(&mut self, log: u32, id: u64, annotations: &[u8]) {
        self.shrinking.state(log, &state_key(ANNOTATIONS, id), annotations);
    }

    /// The log forgets a state key of a queue whose message does not exist.
    pub(super) fn forget_orphan(&mut self, log: u32, key: &[u8]) {
        self.shrinking.state(log, key, &[]);
    }

    /// The log keeps something else of a queue, which a full disk must still take.
    pub(super) fn note(&mut self, log: u32, key: &[u8], value: &[u8]) {
        if !self.erased.is_empty() {
            self.erased.remove(&(log, key.into()));
        }
        self.shrinking.state(log, key, value);
    }

    /// Deletes a state key. It is written after removals, so that a torn batch never makes a held
    /// message available to other consumers.
    pub(super) fn erase(&mut self, log: u32, key: &[u8]) {
        self.erased.insert((log, key.into()));
    }

    /// A message is to be written with state under this key: a pending deletion of the key goes
    /// first.
    pub(super) fn erase_before(&mut self, log: u32, key: &[u8]) {
        if !self.erased.is_empty() && self.erased.remove(&(log, key.into())) {
            self.growing.batch.state(log, key, &[]);
        }
    }

    /// There are batches that a full disk did not take.
    pub(super) fn offers_again(&self) -> bool {
        self.again.is_some()
    }

    /// A batch was passed to the log, or there was none; `again`: an earlier one had to be offered
    /// again.
    pub(in crate::core) fn close_fences(&mut self, dispatched: bool, again: bool) {
        let shrinks = !(self.shrinking.is_empty() && self.removals.is_empty() && self.erased.is_empty());
        let left = shrinks || !(self.growing.batch.is_empty() && self.grown.is_empty() && self.retiring.0.is_empty());
        self.fences.dispatched(dispatched, again && self.again.is_none(), !left && self.again.is_none());
    }

    pub(super) fn forget_annotations(&mut self, log: u32, id: u64) {
        self.shrinking.state(log, &state_key(ANNOTATIONS, id), &[]);
    }

    /// The log drops a queue with all its messages; the log has been notified to remove those in
    /// `gone`.
    pub(super) fn drop_queue(&mut self, log: u32, queue: &Queue, gone: impl Fn(&Item) -> bool) {
        let mut freed = self.take_freed(log);
        // A message in flight has no location yet: it is freed when it has one.
        let here = queue.iter(Seq(0)).filter(|item| item.place.len > 0 && !gone(item));
        here.for_each(|item| freed.add(item.place));
        self.erased.retain(|(queue, _)| *queue != log);
        self.shrinking.drop_queue(log, &freed);
    }

    /// These go with the messages that they become, or, if the log does not take those, with their
    /// queue.
    pub(super) fn note_leaving(&mut self, at: Key, items: impl Iterator<Item = Item>) {
        self.leaving.extend(items.map(|item| ((at.pack(), item.seq), item.place)));
    }

    /// Locations whose removals are not written any more because the queue is dropped.
    fn take_freed(&mut self, log: u32) -> Freed {
        let mut freed = Freed::default();
        for (_, removal) in self.removals.extract_if(.., |(queue, _)| *queue == log) {
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

    /// The same of several.
    pub(in crate::core) fn free_misplaced(&mut self, freed: &Freed) {
        self.shrinking.free(freed);
    }

    /// Writes a block for the partition `log` of a stream.
    pub(in crate::core) fn store_block(&mut self, log: u32, block: &FilledBlock<'_>, in_flight: InFlightBlock) {
        if !block.markers.is_empty() {
            self.blocks.begin();
        }
        let number = put_block(&mut self.blocks, log, block);
        self.blocks.end();
        self.in_flight_blocks.push(in_flight.numbered(number));
    }

    /// Writes one block in the place of others.
    pub(in crate::core) fn store_merged(&mut self, log: u32, merge: &Merge, body: &[u8], in_flight: InFlightBlock) {
        self.blocks.begin();
        let number = self.blocks.message(&[Target { queue: log, seq: merge.record, head: &merge.head }], body);
        let mut removal = Removal::new(log);
        merge.blocks.iter().for_each(|(record, place)| removal.add(*record, *place));
        self.blocks.remove(&mut removal);
        self.blocks.end();
        self.in_flight_blocks.push(in_flight.numbered(number));
    }

    /// The log stores the state of a partition that has no block.
    pub(in crate::core) fn keep_ended(&mut self, log: u32, ended: &[u8]) {
        self.shrinking.state(log, &ENDED_KEY, ended);
    }

    /// The log forgets a partition with all its blocks.
    pub(in crate::core) fn drop_partition(&mut self, log: u32, freed: &Freed) {
        let mut all = self.take_freed(log);
        all.join(freed);
        self.shrinking.drop_queue(log, &all);
    }

    /// The producers of unwritten messages for an address: they are not notified about these any
    /// more.
    pub(in crate::core) fn take_settlements(&mut self, at: Key) -> Vec<SettlementTarget> {
        let with_log = self.in_flight.iter_mut().filter_map(|in_flight| match in_flight {
            InFlightWrite::Store(commits, ..) => Some(commits),
            _ => None,
        });
        let to_come = self.grown.iter_mut().chain([&mut self.growing]).map(|growing| &mut growing.commits);
        let completions = with_log.chain(to_come).flatten().map(|commit| &mut commit.completion);
        let mine = completions.filter(|completion| {
            completion.address == at && matches!(completion.settlement, SettlementTarget::Producer { .. })
        });
        mine.map(|completion| std::mem::replace(&mut completion.settlement, SettlementTarget::Nothing)).collect()
    }

    fn take_blocks(&mut self, spare: WriteBatch) -> Option<WriteBatch> {
        if self.blocks.is_empty() {
            return None;
        }
        self.in_flight.push_back(InFlightWrite::Blocks(std::mem::take(&mut self.in_flight_blocks)));
        Some(std::mem::replace(&mut self.blocks, spare))
    }

    fn take_growing(&mut self, spare: WriteBatch) -> Option<WriteBatch> {
        let Growing { batch, commits, declared, posting, blocks } = match self.grown.pop_front() {
            Some(grown) => grown,
            None if self.growing.batch.is_empty() => return None,
            None => {
                let commits = self.spare_commits.pop().unwrap_or_default();
                std::mem::replace(&mut self.growing, Growing { batch: spare, commits, ..Growing::default() })
            }
        };
        self.in_flight.push_back(InFlightWrite::Store(commits, declared, posting, blocks));
        Some(batch)
    }

    fn take_retiring(&mut self) -> Option<WriteBatch> {
        if self.retiring.0.is_empty() {
            return None;
        }
        let (batch, transactions) = std::mem::take(&mut self.retiring);
        self.in_flight.push_back(InFlightWrite::Retire(transactions));
        Some(batch)
    }

    fn take_shrinking(&mut self, spare: WriteBatch) -> Option<WriteBatch> {
        // One at a time: a later batch may concern the same keys, and must not be written before.
        // While copies are with the log, a removal does not know every place of its message.
        if self.forgetting || self.copies_in_flight {
            return None;
        }
        if self.again.is_some() {
            return self.take_again();
        }
        for (_, mut removal) in self.removals.drain(..) {
            self.shrinking.remove(&mut removal);
            self.spare_removals.push(removal);
        }
        for (log, key) in std::mem::take(&mut self.erased) {
            self.shrinking.state(log, &key, &[]);
        }
        if self.shrinking.is_empty() {
            return None;
        }
        self.forgetting = true;
        self.in_flight.push_back(InFlightWrite::Forget);
        Some(std::mem::replace(&mut self.shrinking, spare))
    }

    fn take_again(&mut self) -> Option<WriteBatch> {
        if !std::mem::take(&mut self.has_room) {
            return None;
        }
        self.forgetting = true;
        self.in_flight.push_back(InFlightWrite::Forget);
        self.again.take()
    }

    /// The latest time to offer records again that a full disk refused.
    pub(super) fn next_timeout(&self) -> Option<u64> {
        self.again_ms
    }

    /// Offers that again once its time has come.
    pub(super) fn offer_again(&mut self, now_ms: u64) {
        if self.again_ms.is_some_and(|at| at <= now_ms) {
            self.again_ms = None;
            self.has_room = true;
        }
    }

    /// Nothing is pending for the log, and nothing is in flight. Records that a full disk refused
    /// do not count.
    fn is_idle(&self) -> bool {
        let stored = self.growing.batch.is_empty() && self.grown.is_empty() && self.blocks.is_empty();
        let removed = self.shrinking.is_empty() && self.removals.is_empty() && self.erased.is_empty();
        let written = stored && self.retiring.0.is_empty() && (removed || self.again.is_some());
        written && self.in_flight.is_empty() && self.copying.is_none()
    }

    /// Copies are planned; only one such batch is on its way at a time.
    pub(super) fn copy(&mut self, batch: WriteBatch, copied: Copied) {
        self.compacting = true;
        self.copying = Some((batch, copied));
    }

    pub(super) fn is_compacting(&self) -> bool {
        self.compacting
    }

    /// The log has answered for the copies, which take the place of what lay in `freed`.
    pub(super) fn end_copies(&mut self, freed: &Freed) {
        self.compacting = false;
        self.copies_in_flight = false;
        self.shrinking.free(freed);
    }

    /// Planned copies that are not in flight yet.
    pub(super) fn take_planned(&mut self) -> Option<(WriteBatch, Copied)> {
        self.copying.take()
    }

    /// The batch of these copies goes to the log.
    pub(super) fn write_copies(&mut self, copied: Copied) {
        self.copies_in_flight = true;
        self.in_flight.push_back(InFlightWrite::Copy(copied));
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
    /// The next batch for the log after the turn, if any: to be passed on in this order.
    pub fn take_journal(&mut self) -> Option<WriteBatch> {
        let again = self.journal.offers_again();
        let batch = self.next_batch();
        self.journal.close_fences(batch.is_some(), again);
        batch
    }

    /// Messages came in that the log has not answered for.
    #[must_use]
    pub fn is_storing(&self) -> bool {
        !self.journal.is_idle() || !self.gathering.is_empty() || !self.transactions.waiting.is_empty()
    }

    fn next_batch(&mut self) -> Option<WriteBatch> {
        let spare = self.bodies.recent.spare();
        if let Some(batch) = self.journal.take_growing(spare) {
            return Some(batch);
        }
        let spare = self.bodies.recent.spare();
        if let Some(batch) = self.journal.take_blocks(spare) {
            return Some(batch);
        }
        if let Some(batch) = self.journal.take_retiring() {
            return Some(batch);
        }
        let spare = self.bodies.recent.spare();
        let shrinking = self.journal.take_shrinking(spare);
        shrinking.or_else(|| self.take_copies())
    }

    /// A batch is back from the log, in the order of dispatch: its messages are available, and
    /// their producers are answered.
    pub fn journaled(&mut self, answer: Answer, links: &mut impl Links) {
        let stopped = matches!(answer.result, Err(Refused::Stopped(_) | Refused::Unsure(_)));
        self.take_answer(answer, links);
        self.release_fences(stopped, links);
    }

    fn take_answer(&mut self, answer: Answer, links: &mut impl Links) {
        let Answer { batch, result } = answer;
        self.journal.has_room |= result.is_ok();
        let (mut commits, declared, transactions, blocks) = match self.journal.in_flight.pop_front() {
            Some(InFlightWrite::Store(commits, declared, posting, blocks)) => (commits, declared, posting, blocks),
            Some(InFlightWrite::Blocks(in_flight_blocks)) => {
                let dirty = self.blocks_journaled(&batch, &result, in_flight_blocks, links);
                self.retain_body(batch, &result);
                self.begin_waiting_commits(links);
                return self.process_streams(dirty, links);
            }
            Some(InFlightWrite::Forget) => return self.forgotten(batch, &result),
            Some(InFlightWrite::Retire(transactions)) => {
                self.bodies.recent.recycle_batch(batch);
                transactions.into_iter().for_each(|id| self.end_commit(id, &result, links));
                return self.begin_waiting_commits(links);
            }
            Some(InFlightWrite::Copy(copied)) => {
                self.moved(result.is_ok().then_some(&batch), copied, links);
                return self.bodies.recent.recycle_batch(batch);
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
        self.journal.spare_commits.push(commits);
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
            Ok(()) => self.bodies.recent.keep(batch),
            Err(_) => self.bodies.recent.recycle_batch(batch),
        }
    }

    /// Records that a full disk refused are offered again, before later ones.
    fn forgotten(&mut self, batch: WriteBatch, result: &Result<(), Refused>) {
        self.journal.forgetting = false;
        if matches!(result, Err(Refused::NoRoom(_))) {
            self.journal.again = Some(batch);
            self.journal.again_ms = Some(self.now_ms.saturating_add(AGAIN_MS));
        } else {
            self.bodies.recent.recycle_batch(batch);
        }
    }

    fn commit(&mut self, commit: &Commit, place: enmasse_journal::queue::RecordLocation, links: &mut impl Links) {
        let stored = self.addresses.get(commit.at).and_then(|address| address.stored.as_ref());
        if let Some(stored) = stored.filter(|stored| stored.opened.queue.is_behind_gap(commit.seq)) {
            if let Some(log) = stored.opened.log {
                self.journal.remove_at(log, commit.seq.0, place);
            }
            return self.uncommit(commit, &Outcome::Released, links);
        }
        self.free_window(&commit.completion, links);
        self.left_deleted(&commit.completion);
        if let Some((from, seq)) = commit.completion.from
            && let Some(stored) = self.addresses.get_mut(from).and_then(|address| address.stored.as_mut())
        {
            let changed = stored.changed.remove(&seq.0);
            match (stored.opened.queue.left(seq), stored.opened.log) {
                (Some(item), None) => self.bodies.free(item.place),
                (Some(item), Some(log)) => {
                    self.bodies.forget(item.place);
                    // Behind all that was to be kept of it.
                    self.journal.forget_state(log, &item, changed.is_some_and(|changed| changed.on_disk));
                }
                (None, _) => {}
            }
        }
        if let Some(stored) = self.addresses.get_mut(commit.at).and_then(|address| address.stored.as_mut()) {
            let mut effects = std::mem::take(&mut self.effects);
            stored.opened.queue.committed(commit.seq, place, &mut |effect| effects.push(effect));
            self.effects = effects;
        } else {
            // Deleted in the meantime, with all its messages.
            self.journal.forget_misplaced(place);
        }
        self.resolve_tag(commit.at, commit.seq, true);
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
            self.journal.forget_misplaced(place);
        }
        if let Some((from, seq)) = commit.completion.from
            && let Some(stored) = self.addresses.get_mut(from).and_then(|address| address.stored.as_mut())
        {
            stored.opened.queue.stay(seq);
        }
        if let Some(stored) = self.addresses.get_mut(commit.at).and_then(|address| address.stored.as_mut()) {
            stored.opened.queue.withdraw(commit.seq);
            self.mark_dirty(commit.at);
        }
        self.resolve_tag(commit.at, commit.seq, false);
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
        let (from, seq) = completion.from.filter(|_| !self.journal.leaving.is_empty())?;
        self.journal.leaving.remove(&(from.pack(), seq))
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
