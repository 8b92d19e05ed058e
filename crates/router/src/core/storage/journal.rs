//! Records for the log, gathered during a turn, and their completions once they are written.

use std::collections::HashMap;

use enmasse_amqp::types::{Error, Outcome, condition};
use enmasse_journal::log::{Freed, Refused, Removal, Target, WriteBatch};
use enmasse_journal::queue::{Item, Marker, Queue, RECORD_BYTES, Seq, Stored as Admitted};
use enmasse_journal::stream::{ENDED_KEY, FilledBlock, Merge};
use smallvec::SmallVec;

use super::super::arena::Key;
use super::super::arriving::WholeBody;
use super::super::ids::Joint;
use super::super::message::SettlementTarget;
use super::super::{Links, Router, TransactionId};
use super::block::InFlightBlock;
use super::commit::{Commit, CommitNote, Completion, KeptPacketId, Queues};
use super::compact::Copied;
use super::lanes::{Answer, Growing, InFlightWrite, LaneId, Lanes, Spares, Writes};
use super::notice::Dispatched;
use super::state::{ANNOTATIONS, BARRED, FAILURES, SUBSCRIPTION, state_key};

/// The log as a shard sees it.
#[derive(Debug, Default)]
pub(in crate::core) struct Journal {
    pub(in crate::core) lanes: Lanes,
    /// the lane of the group that is being built
    pub(super) open: LaneId,
    /// the lane of the batch that is being answered
    answering: LaneId,
    spares: Spares,
    /// planned copies
    copying: Option<(WriteBatch, Copied)>,
    /// copies are planned or in flight
    compacting: bool,
    /// copies are in flight
    copies_in_flight: bool,
    /// locations of messages of deleted queues whose removals are in flight
    leaving: HashMap<(u64, Seq), enmasse_journal::log::RecordLocation>,
    /// number of joint groups that this shard has begun
    pub(super) joints_begun: u64,
}

impl Journal {
    /// Assigns a queue of the log to an address space.
    pub(in crate::core) fn join(&mut self, log: u32, space: u32) {
        self.lanes.join(log, LaneId::of_space(space));
    }

    /// Writes a message for one queue, by its number in the log, and keeps its completion.
    pub(in crate::core) fn store_one(
        &mut self,
        log: u32,
        admitted: &Admitted,
        mut commit: Commit,
        body: WholeBody<'_>,
    ) {
        let growing = self.begin_group(log, body.bytes().len());
        if needs_group(admitted, &commit) {
            growing.batch.begin();
        }
        let head = admitted.record.encode();
        let target = target(log, admitted, &head);
        commit.number = match body {
            WholeBody::Read(body) => growing.batch.message(&[target], body),
            WholeBody::Assembled(body) => growing.batch.assembled(target, std::mem::take(body)),
        };
        put_markers(&mut growing.batch, log, admitted, &commit);
        growing.writes.commits.push(commit);
    }

    /// Writes a message once, for several queues.
    pub(in crate::core) fn store(&mut self, queues: Queues<'_>, body: &[u8]) {
        // It is for no queue.
        let Some((log, _, _)) = queues.first() else { return };
        let growing = self.begin_group(*log, body.len());
        if queues.iter().any(|(_, admitted, commit)| needs_group(admitted, commit)) {
            growing.batch.begin();
        }
        self.put(queues, body);
    }

    /// Begins a group of about this many bytes in the lane of a queue.
    fn begin_group(&mut self, log: u32, bytes: usize) -> &mut Growing {
        self.open = self.lanes.lane_of(log);
        self.lanes.at(self.open).begin_group(bytes)
    }

    /// The open group; the queue must belong to the same space.
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
            growing.writes.commits.push(Commit { number, ..commit });
        }
    }

    /// Declares a subscription in the log, with its description.
    pub(in crate::core) fn declare(&mut self, at: Key, log: u32, uid: &[u8; 16], name: &str, description: &[u8]) {
        let growing = self.begin_group(log, description.len());
        growing.batch.begin();
        growing.batch.declare(log, uid, name);
        growing.batch.state(log, SUBSCRIPTION, description);
        growing.batch.end();
        growing.writes.declared.push(at);
    }

    /// Declares a subscription within the group that is being written.
    pub(in crate::core) fn declare_in_part(&mut self, log: u32, uid: &[u8; 16], name: &str, description: &[u8]) {
        let batch = &mut self.group(log).batch;
        batch.declare(log, uid, name);
        batch.state(log, SUBSCRIPTION, description);
    }

    /// Ends the group that [`Journal::store`] or [`Journal::store_one`] began, with the removal of
    /// a moved message from its queue.
    pub(in crate::core) fn seal(&mut self, removed: Option<(u32, &Item)>) {
        if let Some((log, item)) = removed {
            let mut removal = Removal::new(log);
            removal.add(item.id.0, item.place);
            self.group(log).batch.remove(&mut removal);
        }
        self.lanes.at(self.open).growing.batch.end();
    }

    /// Begins the group of a transaction, which is on disk as a whole or not at all:
    /// [`Journal::post`] and [`Journal::post_block`] add to it, [`Journal::end_transaction`] ends
    /// it. `log` is one of its queues, `bytes` its approximate size.
    pub(in crate::core) fn begin_transaction(&mut self, log: u32, bytes: usize) {
        self.begin_group(log, bytes).batch.begin();
    }

    /// Adds a message to the group of a transaction, for these queues of the log.
    pub(in crate::core) fn post(&mut self, queues: Queues<'_>, body: &[u8]) {
        self.put(queues, body);
    }

    /// Adds a block to the group of a transaction, for the partition `log` of a stream.
    pub(in crate::core) fn post_block(&mut self, log: u32, block: &FilledBlock<'_>, in_flight: InFlightBlock) {
        let growing = self.group(log);
        let number = put_block(&mut growing.batch, log, block);
        growing.writes.blocks.push(in_flight.numbered(number));
    }

    /// Ends the group of a transaction, with the removals from queues.
    pub(in crate::core) fn end_transaction(&mut self, transaction: TransactionId, removals: &mut [Removal]) {
        for removal in removals {
            self.group(removal.queue()).batch.remove(removal);
        }
        let growing = &mut self.lanes.at(self.open).growing;
        growing.writes.posting.push(transaction);
        growing.batch.end();
    }

    /// Ends this home's part of a joint transaction, with the removals from queues; or the part of a
    /// transaction with messages of other joint groups.
    pub(in crate::core) fn end_joint_transaction(
        &mut self,
        transaction: TransactionId,
        (joint, joins): (&Joint, &[Joint]),
        removals: &mut [Removal],
    ) {
        let growing = &mut self.lanes.at(self.open).growing;
        removals.iter_mut().for_each(|removal| growing.batch.remove(removal));
        growing.writes.posting.push(transaction);
        self.end_joining_part(*joint, joins);
    }

    /// Writes a transaction that consists of removals only.
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

    /// Deletes the logged state of a removed message.
    pub(in crate::core) fn forget_state(&mut self, log: u32, item: &Item, annotated: bool) {
        self.forget_counts(log, item);
        if annotated {
            self.forget_annotations(log, item.id.0);
        }
    }

    /// Deletes the logged failures of a message, and the links that it is barred from.
    fn forget_counts(&mut self, log: u32, item: &Item) {
        if item.failures > 0 {
            self.lanes.of(log).shrinking.state(log, &state_key(FAILURES, item.id.0), &[]);
        }
        if item.undeliverable_here {
            self.lanes.of(log).shrinking.state(log, &state_key(BARRED, item.id.0), &[]);
        }
    }

    /// Removes a message and its state from the log.
    pub(in crate::core) fn remove(&mut self, log: u32, item: &Item) {
        self.remove_at(log, item.id.0, item.place);
        self.forget_counts(log, item);
    }

    /// Removes a message at a location from the log, without its state.
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

    /// Logs how often the delivery of a message has failed, and the time of its next attempt.
    pub(in crate::core) fn count_failures(&mut self, log: u32, id: u64, failures: u16, due: Option<u64>) {
        let mut value: SmallVec<[u8; 10]> = SmallVec::from_slice(&failures.to_le_bytes());
        value.extend(due.iter().flat_map(|due| due.to_le_bytes()));
        self.lanes.of(log).shrinking.state(log, &state_key(FAILURES, id), &value);
    }

    /// Logs the links that a message is barred from.
    pub(in crate::core) fn keep_barred(&mut self, log: u32, id: u64, names: &[u64]) {
        let value: Vec<u8> = names.iter().flat_map(|name| name.to_le_bytes()).collect();
        self.lanes.of(log).shrinking.state(log, &state_key(BARRED, id), &value);
    }

    /// Logs the modified annotations of a message.
    pub(in crate::core) fn keep_annotations(&mut self, log: u32, id: u64, annotations: &[u8]) {
        self.lanes.of(log).shrinking.state(log, &state_key(ANNOTATIONS, id), annotations);
    }

    /// Deletes a logged state key whose message does not exist.
    pub(in crate::core) fn forget_orphan(&mut self, log: u32, key: &[u8]) {
        self.lanes.of(log).shrinking.state(log, key, &[]);
    }

    /// Logs other state of a queue, which a full disk must still accept.
    pub(in crate::core) fn note(&mut self, log: u32, key: &[u8], value: &[u8]) {
        let lane = self.lanes.of(log);
        if !lane.erased.is_empty() {
            lane.erased.remove(&(log, key.into()));
        }
        lane.shrinking.state(log, key, value);
    }

    /// As `note`, in one group with the removal of a message.
    pub(in crate::core) fn remove_and_note(&mut self, removal: &mut Removal, log: u32, key: &[u8], value: &[u8]) {
        let lane = self.lanes.of(log);
        lane.erased.remove(&(log, key.into()));
        lane.shrinking.begin();
        lane.shrinking.remove(removal);
        lane.shrinking.state(log, key, value);
        lane.shrinking.end();
    }

    /// Deletes a state key. The deletion is written after removals, so that a torn batch never
    /// makes a held message available to other consumers.
    pub(in crate::core) fn erase(&mut self, log: u32, key: &[u8]) {
        self.lanes.of(log).erased.insert((log, key.into()));
    }

    /// Writes a pending deletion of a state key before the message that sets the key again.
    pub(in crate::core) fn erase_before(&mut self, log: u32, key: &[u8]) {
        let lane = self.lanes.of(log);
        if !lane.erased.is_empty() && lane.erased.remove(&(log, key.into())) {
            lane.growing.batch.state(log, key, &[]);
        }
    }

    pub(in crate::core) fn forget_annotations(&mut self, log: u32, id: u64) {
        self.lanes.of(log).shrinking.state(log, &state_key(ANNOTATIONS, id), &[]);
    }

    /// Drops a queue with all its messages from the log, except for those in `gone`, whose removals
    /// are already in flight.
    pub(in crate::core) fn drop_queue(&mut self, log: u32, queue: &Queue, gone: impl Fn(&Item) -> bool) {
        let mut freed = self.take_freed(log);
        // A message in flight has no location yet: its record is freed when it has one.
        let here = queue.iter(Seq(0)).filter(|item| item.place.len > 0 && !gone(item));
        here.for_each(|item| freed.add(item.place));
        let lane = self.lanes.of(log);
        lane.erased.retain(|(queue, _)| *queue != log);
        lane.shrinking.drop_queue(log, &freed);
        self.lanes.leave(log);
    }

    /// Notes the locations of leaving messages of a deleted queue. The record that stores them
    /// elsewhere removes them; if the log refuses it, they are freed.
    pub(in crate::core) fn note_leaving(&mut self, at: Key, items: impl Iterator<Item = Item>) {
        self.leaving.extend(items.map(|item| ((at.pack(), item.seq), item.place)));
    }

    /// Takes the locations of pending removals of a queue that is dropped.
    fn take_freed(&mut self, log: u32) -> Freed {
        let mut freed = Freed::default();
        for (_, removal) in self.lanes.of(log).removals.extract_if(.., |(queue, _)| *queue == log) {
            freed.join(removal.freed());
        }
        freed
    }

    /// Frees the record of a message whose queue was deleted in the meantime.
    pub(super) fn free_orphan(&mut self, place: enmasse_journal::log::RecordLocation) {
        let mut freed = Freed::default();
        freed.add(place);
        self.free_orphans(&freed);
    }

    /// Frees several such records, in the lane whose batch is being answered: there they follow the
    /// record that dropped their queue.
    pub(in crate::core) fn free_orphans(&mut self, freed: &Freed) {
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

    /// Begins a group of blocks: [`Journal::add_block`] and [`Journal::end_blocks`] follow.
    pub(in crate::core) fn begin_blocks(&mut self, log: u32) {
        self.lanes.of(log).blocks.begin();
    }

    /// Adds a block to the group.
    pub(in crate::core) fn add_block(&mut self, log: u32, block: &FilledBlock<'_>, in_flight: InFlightBlock) {
        let lane = self.lanes.of(log);
        let number = put_block(&mut lane.blocks, log, block);
        lane.in_flight_blocks.push(in_flight.numbered(number));
    }

    /// Ends the group of blocks, with the packet identifiers of their messages.
    pub(in crate::core) fn end_blocks(&mut self, log: u32, ids: &[KeptPacketId]) {
        let blocks = &mut self.lanes.of(log).blocks;
        ids.iter().for_each(|kept| blocks.state(kept.log, &kept.key(), KeptPacketId::VALUE));
        blocks.end();
    }

    /// Adds packet identifiers to the group of a transaction.
    pub(in crate::core) fn post_packet_ids(&mut self, ids: &[KeptPacketId]) {
        let Some(first) = ids.first() else { return };
        let batch = &mut self.group(first.log).batch;
        ids.iter().for_each(|kept| batch.state(kept.log, &kept.key(), KeptPacketId::VALUE));
    }

    /// Writes one block that replaces others.
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

    /// Logs the state of a partition without blocks.
    pub(in crate::core) fn keep_ended(&mut self, log: u32, ended: &[u8]) {
        self.lanes.of(log).shrinking.state(log, &ENDED_KEY, ended);
    }

    /// Drops a partition with all its blocks from the log.
    pub(in crate::core) fn drop_partition(&mut self, log: u32, freed: &Freed) {
        let mut all = self.take_freed(log);
        all.join(freed);
        self.lanes.of(log).shrinking.drop_queue(log, &all);
        self.lanes.leave(log);
    }

    /// Removes and returns the producers of unwritten messages for an address: they receive no
    /// outcome for these any more.
    pub(in crate::core) fn take_settlements(&mut self, at: Key) -> Vec<SettlementTarget> {
        let mine = self.lanes.completions_mut().filter(|completion| {
            completion.address == at && matches!(completion.settlement, SettlementTarget::Producer { .. })
        });
        mine.map(|completion| std::mem::replace(&mut completion.settlement, SettlementTarget::Nothing)).collect()
    }

    /// Plans a batch of copies. Only one is planned or in flight at a time.
    pub(in crate::core) fn copy(&mut self, batch: WriteBatch, copied: Copied) {
        self.compacting = true;
        self.copying = Some((batch, copied));
    }

    pub(in crate::core) fn is_compacting(&self) -> bool {
        self.compacting
    }

    /// Ends the copies after the log has answered; the copied records in `freed` can be reclaimed.
    pub(in crate::core) fn end_copies(&mut self, freed: &Freed) {
        self.compacting = false;
        self.copies_in_flight = false;
        self.lanes.mark_all_ready();
        self.lanes.at(LaneId::COPIES).shrinking.free(freed);
    }

    /// Takes planned copies that are not in flight yet.
    pub(in crate::core) fn take_planned(&mut self) -> Option<(WriteBatch, Copied)> {
        self.copying.take()
    }

    /// Marks copies as in flight.
    pub(in crate::core) fn write_copies(&mut self, copied: Copied) {
        self.copies_in_flight = true;
        let lane = self.lanes.at(LaneId::COPIES);
        lane.in_flight.push_back(InFlightWrite::Copy(copied));
        lane.close_fences(Dispatched::Ordered, false);
    }

    /// The next batch for the log: takes the batches of each ready lane until it has none.
    fn next_batch(&mut self, mut spare: impl FnMut() -> WriteBatch) -> Option<WriteBatch> {
        while let Some(id) = self.lanes.next_ready() {
            let lane = self.lanes.at(id);
            let again = lane.has_refused_batch();
            let batch = lane.take(self.copies_in_flight, &mut self.spares, &mut spare);
            lane.close_fences(lane.dispatched(batch.as_ref()), again);
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

    /// The latest time to offer refused records again.
    pub(in crate::core) fn next_timeout(&self) -> Option<u64> {
        self.lanes.next_timeout()
    }

    /// Offers refused records again at that time.
    pub(in crate::core) fn offer_again(&mut self, now_ms: u64) {
        if self.lanes.next_timeout().is_some_and(|at| at <= now_ms) {
            self.lanes.offer_again();
        }
    }
}

fn target<'a>(log: u32, admitted: &Admitted, head: &'a [u8; RECORD_BYTES]) -> Target<'a> {
    Target { queue: log, seq: admitted.seq.0, head: &head[..admitted.record.encoded_len()] }
}

/// Whether a group is needed: more than the message itself is written for its queue, or it is
/// removed from another queue.
fn needs_group(admitted: &Admitted, commit: &Commit) -> bool {
    commit.completion.from.is_some() || commit.note.is_some() || admitted.markers.iter().any(Option::is_some)
}

fn put_markers(batch: &mut WriteBatch, log: u32, admitted: &Admitted, commit: &Commit) {
    admitted.markers.iter().flatten().for_each(|marker| put_marker(batch, log, marker));
    match commit.note.as_deref() {
        None => {}
        Some(CommitNote::Tag(marker)) => put_marker(batch, log, marker),
        Some(CommitNote::PacketId(kept)) => batch.state(kept.log, &kept.key(), KeptPacketId::VALUE),
    }
}

/// The error for something that the log has not stored.
pub(in crate::core) fn not_stored(what: &str, refused: &Refused) -> Error {
    match refused {
        // Clients understand every outcome except for rejected as a success or as a promise that
        // the message is not stored.
        Refused::Unsure(_) => {
            Error::new(condition::INTERNAL_ERROR, format!("{what} may or may not be stored: {refused}"))
        }
        Refused::Stopped(_) => Error::new(condition::INTERNAL_ERROR, format!("{what} cannot be stored: {refused}")),
        Refused::Declined(_) => Error::new(condition::RESOURCE_LIMIT_EXCEEDED, refused.to_string()),
        Refused::NoRoom(_) | Refused::TooLarge { .. } => {
            Error::new(condition::RESOURCE_LIMIT_EXCEEDED, format!("{what} cannot be stored: {refused}"))
        }
    }
}

/// Adds a block of a stream to a batch; returns its number there.
fn put_block(batch: &mut WriteBatch, log: u32, block: &FilledBlock<'_>) -> usize {
    let number = batch.message(&[Target { queue: log, seq: block.record, head: &block.head }], block.body);
    block.markers.iter().for_each(|marker| put_marker(batch, log, marker));
    number
}

fn put_marker(batch: &mut WriteBatch, log: u32, marker: &Marker) {
    batch.state(log, &marker.key(), &marker.value());
}

impl Router {
    /// The next batch for the log after the turn, if any. Pass the batches on in this order;
    /// batches of different [parts](WriteBatch::part) may be reordered.
    pub fn take_journal(&mut self) -> Option<WriteBatch> {
        let recent = &mut self.storage.bodies.recent;
        let batch = self.storage.journal.next_batch(|| recent.spare());
        batch.or_else(|| {
            let mut copies = self.take_copies()?;
            copies.set_part(LaneId::COPIES.0);
            Some(copies)
        })
    }

    /// Whether received messages are pending for the log or in flight to it.
    #[must_use]
    pub fn is_storing(&self) -> bool {
        let written = self.storage.journal.lanes.is_idle() && self.storage.journal.copying.is_none();
        !written || !self.schedule.gathering.is_empty() || !self.transactions.waiting.is_empty()
    }

    /// Processes a batch that returned from the log, in the order of dispatch within each
    /// [part](WriteBatch::part), except for parts of joint groups. Its messages become available, and
    /// their producers are answered.
    pub fn journaled(&mut self, answer: Answer, links: &mut impl Links) {
        let lane = LaneId(answer.batch.part());
        self.storage.journal.lanes.at(lane).answered(answer);
        while let Some((write, answer)) = self.storage.journal.lanes.at(lane).next_answered() {
            let stopped = matches!(answer.result, Err(Refused::Stopped(_) | Refused::Unsure(_)));
            self.storage.journal.answering = lane;
            if answer.result.is_ok() {
                self.storage.journal.lanes.offer_again();
            }
            let unordered = match &write {
                InFlightWrite::Store(writes) => writes.joint.filter(|_| writes.is_unordered),
                _ => None,
            };
            self.take_answer(lane, write, answer, links);
            self.release_fences(lane, unordered, stopped, links);
        }
    }

    fn take_answer(&mut self, lane: LaneId, write: InFlightWrite, answer: Answer, links: &mut impl Links) {
        let Answer { batch, result } = answer;
        match write {
            InFlightWrite::Store(writes) => self.stored(writes, batch, &result, links),
            InFlightWrite::Blocks(in_flight_blocks) => {
                let dirty = self.blocks_journaled(&batch, &result, in_flight_blocks, links);
                self.retain_body(batch, &result);
                self.begin_waiting_commits(links);
                self.process_streams(dirty, links);
            }
            InFlightWrite::Forget => self.forgotten(lane, batch, &result),
            InFlightWrite::Retire(transactions) => {
                self.storage.bodies.recent.recycle_batch(batch);
                transactions.into_iter().for_each(|id| self.end_commit(id, &result, links));
                self.begin_waiting_commits(links);
            }
            InFlightWrite::Copy(copied) => {
                self.moved(result.is_ok().then_some(&batch), copied, links);
                self.storage.bodies.recent.recycle_batch(batch);
            }
        }
    }

    /// Messages are on disk or refused, with all that was written in their groups.
    fn stored(&mut self, writes: Writes, batch: WriteBatch, result: &Result<(), Refused>, links: &mut impl Links) {
        let Writes { mut commits, declared, posting, blocks, departures, in_memory, packet_id, received, .. } = writes;
        let group = writes.joint;
        for at in declared {
            self.subscription_declared(at, result.as_ref().err(), links);
        }
        for commit in commits.drain(..) {
            match result {
                Ok(()) => self.commit(&commit, batch.place(commit.number), links),
                Err(refused) => {
                    let outcome = Outcome::Rejected(Some(Box::new(not_stored("the message", refused))));
                    self.uncommit(&commit, &outcome, links);
                }
            }
        }
        self.storage.journal.spares.commits.push(commits);
        match result {
            Ok(()) => in_memory.into_iter().for_each(|(at, seq, place)| self.end_posting(at, seq, place, links)),
            Err(refused) => self.withdraw_from_memory(in_memory, &not_stored("the message", refused), links),
        }
        departures.iter().for_each(|departure| self.end_departure(departure, result, links));
        if let Some(kept) = packet_id {
            self.end_joint_packet_id(&kept, group, result);
        }
        if let Some(received) = received.filter(|_| result.is_err()) {
            self.remove_received_alone(received);
        }
        let dirty = self.blocks_journaled(&batch, result, blocks, links);
        self.retain_body(batch, result);
        for transaction in posting {
            self.end_commit(transaction, result, links);
        }
        self.begin_waiting_commits(links);
        self.process_streams(dirty, links);
        if let Some(id) = group {
            self.joint_group_applied(id);
        }
    }

    /// Keeps the bodies of a written batch in the recent part of the log.
    fn retain_body(&mut self, batch: WriteBatch, result: &Result<(), Refused>) {
        match result {
            Ok(()) => self.storage.bodies.recent.keep(batch),
            Err(_) => self.storage.bodies.recent.recycle_batch(batch),
        }
    }

    /// Processes a batch of removals and state that returned. If a full disk refused it, it is
    /// offered again before later ones.
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
        self.take_deleted_location(&commit.completion);
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
            // The queue was deleted in the meantime, with all its messages.
            self.storage.journal.free_orphan(place);
        }
        self.run_completion(&commit.completion, &Outcome::Accepted, links);
        self.answer_pending_duplicates(commit.at, commit.seq, &Outcome::Accepted, links);
        self.do_effects(commit.at, links);
        self.mark_dirty(commit.at);
    }

    /// Processes a message that was not stored. A numbered producer is halted until its link
    /// attaches again.
    fn uncommit(&mut self, commit: &Commit, outcome: &Outcome, links: &mut impl Links) {
        self.free_window(&commit.completion, links);
        self.halt_numbered(commit.completion.producer);
        if let Some(place) = self.take_deleted_location(&commit.completion) {
            self.storage.journal.free_orphan(place);
        }
        if let Some((from, seq)) = commit.completion.from
            && let Some(queue) = self.addresses.find_queue_mut(from)
        {
            queue.opened.messages.stay(seq);
        }
        if let Some(CommitNote::PacketId(kept)) = commit.note.as_deref() {
            self.forget_packet_id(kept);
        }
        if let Some(queue) = self.addresses.find_queue_mut(commit.at) {
            queue.opened.messages.withdraw(commit.seq);
            queue.resolve_tag(commit.seq, false, &mut self.storage);
            self.mark_dirty(commit.at);
        }
        self.run_completion(&commit.completion, outcome, links);
        self.answer_pending_duplicates(commit.at, commit.seq, outcome, links);
    }

    /// Halts a numbered producer whose message was not stored, until its link attaches again.
    pub(in crate::core) fn halt_numbered(&mut self, producer: Key) {
        if let Some(producer) = self.producers.get_mut(producer) {
            producer.halted |= producer.producer_name.is_some();
        }
    }

    /// Takes the location of a moved message whose queue was deleted in the meantime.
    pub(super) fn take_deleted_location(
        &mut self,
        completion: &Completion,
    ) -> Option<enmasse_journal::log::RecordLocation> {
        let (from, seq) = completion.from.filter(|_| !self.storage.journal.leaving.is_empty())?;
        self.storage.journal.leaving.remove(&(from.pack(), seq))
    }

    /// Answers for a message, unless the address of its producer was deleted. Then the links of
    /// producers were closed, and anonymous links were answered.
    pub(super) fn run_completion(&mut self, completion: &Completion, outcome: &Outcome, links: &mut impl Links) {
        if self.addresses.get(completion.address).is_some() {
            self.answer(completion.settlement, completion.address, outcome, links);
        }
    }

    pub(super) fn free_window(&mut self, completion: &Completion, links: &mut impl Links) {
        self.received.remove(completion.account, 1, completion.bytes);
        if let Some(producer) = self.producers.get_mut(completion.producer) {
            producer.waiting -= 1;
            let bytes = producer.waiting_bytes - completion.bytes;
            self.update_producer_back_pressure(completion.producer, bytes, links);
            self.taken(completion.producer, 1);
        }
    }
}
