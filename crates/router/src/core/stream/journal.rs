//! Records of streams for the log, and their completions.

use std::collections::BTreeSet;

use enmasse_amqp::types::Outcome;
use enmasse_journal::log::{Freed, RecordLocation, Refused, Target, WriteBatch};
use enmasse_journal::stream::FilledBlock;

use super::super::arena::Key;
use super::super::ids::Joint;
use super::super::queue::PacketIdOf;
use super::super::storage::{
    BlockWrite, Bodies, CopiedBlock, InFlightBlock, Journal, KeptPacketId, LaneId, MemoryBlock, Storage, not_stored,
};
use super::super::{Links, Router};
use super::incoming::{StreamPacketId, Waiting};
use super::{Part, Stream};

/// Blocks of streams that are copied in one batch.
const COPIES: usize = 16;

/// Writes the gathered messages of a partition as a block: to the log with `store`, or to memory.
fn write_gathered(
    at: Key,
    partition: u32,
    stream: &mut Stream,
    bodies: &mut Bodies,
    kept: &mut Vec<MemoryBlock>,
    mut store: impl FnMut(u32, &FilledBlock<'_>, InFlightBlock),
) {
    let part = &mut stream.parts[partition as usize];
    part.partition.flush(|block| {
        let bytes = block.body.len() as u64;
        match part.log {
            Some(log) => {
                store(log, block, InFlightBlock { number: 0, at, partition, write: BlockWrite::Store { bytes } })
            }
            None => kept.push(MemoryBlock { at, partition, place: bodies.put(block.body, 1), bytes }),
        }
    });
}

/// As [`write_gathered`], with the packet identifiers of messages: in one group, or as a part of the
/// joint groups in which other homes contribute them.
fn write_with_packet_ids(
    at: Key,
    partition: u32,
    log: u32,
    ids: &PacketIdsOfBlock,
    (stream, bodies, journal): (&mut Stream, &mut Bodies, &mut Journal),
) {
    // The partition is on disk.
    let mut no_memory = Vec::new();
    let Some((joint, joins)) = ids.joints.split_first() else {
        journal.begin_blocks(log);
        write_gathered(at, partition, stream, bodies, &mut no_memory, |log, block, in_flight| {
            journal.add_block(log, block, in_flight);
        });
        return journal.end_blocks(log, &ids.kept);
    };
    journal.begin_part_of(log);
    write_gathered(at, partition, stream, bodies, &mut no_memory, |log, block, in_flight| {
        journal.post_block(log, block, in_flight);
    });
    journal.post_packet_ids(&ids.kept);
    journal.end_joining_part(*joint, joins);
}

impl Stream {
    /// Merges adjacent small blocks: they are read, written again as one at the end, and removed
    /// from their old locations, in one group of records. Returns whether a partition waits for
    /// bodies.
    pub(super) fn merge_blocks(&mut self, at: Key, storage: &mut Storage) -> bool {
        let mut waits = false;
        for (number, part) in (0..).zip(&mut self.parts) {
            waits |= part.merge(at, number, storage);
        }
        waits
    }

    /// Adds the blocks in a segment to a batch of copies.
    fn copy_blocks(&mut self, at: Key, segment: u32, batch: &mut WriteBatch, copied: &mut Vec<CopiedBlock>) {
        for (partition, part) in (0..).zip(&mut self.parts) {
            let Some(log) = part.log else { continue };
            for (record, from) in part.partition.copying(segment, COPIES - copied.len()) {
                batch.copy(from, &[Target { queue: log, seq: record, head: &[] }]);
                copied.push(CopiedBlock { log, at, partition, record, from });
            }
            if copied.len() == COPIES {
                return;
            }
        }
    }
}

/// The packet identifiers of MQTT that are written with a block.
#[derive(Debug, Default)]
pub(in crate::core) struct PacketIdsOfBlock {
    /// those whose records live here
    kept: Vec<KeptPacketId>,
    /// the joint groups in which other homes contribute theirs
    joints: Vec<Joint>,
}

impl PacketIdsOfBlock {
    fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.joints.is_empty()
    }
}

impl Part {
    /// The packet identifiers that are written with the next block, if it can be written now.
    fn written_packet_ids(&mut self) -> PacketIdsOfBlock {
        let mut ids = PacketIdsOfBlock::default();
        if self.packet_ids.is_empty() || !self.partition.may_flush() {
            return ids;
        }
        for id in self.packet_ids.iter_mut().filter(|id| !id.is_written) {
            id.is_written = true;
            match id.kept {
                PacketIdOf::Here(kept) => ids.kept.push(kept),
                PacketIdOf::Elsewhere(joint, _) => ids.joints.push(joint),
            }
        }
        ids
    }

    /// Whether the next block is a part of joint groups, if it can be written now.
    fn joins_groups(&self) -> bool {
        let joins = |id: &StreamPacketId| !id.is_written && matches!(id.kept, PacketIdOf::Elsewhere(..));
        self.partition.may_flush() && self.packet_ids.iter().any(joins)
    }

    /// The packet identifiers of messages that are not in flight, whose records live here.
    pub(super) fn gathered_packet_ids(&self) -> impl Iterator<Item = KeptPacketId> {
        let gathered = self.packet_ids.iter().filter(|id| !id.is_written);
        gathered.filter_map(|id| if let PacketIdOf::Here(kept) = id.kept { Some(kept) } else { None })
    }

    /// The joint groups of messages that are not in flight.
    pub(super) fn gathered_joints(&self) -> impl Iterator<Item = (Joint, LaneId)> {
        let gathered = self.packet_ids.iter().filter(|id| !id.is_written);
        gathered
            .filter_map(|id| if let PacketIdOf::Elsewhere(joint, lane) = id.kept { Some((joint, lane)) } else { None })
    }

    /// Merges its small blocks, if that is due. Returns whether it waits for their bodies.
    fn merge(&mut self, at: Key, number: u32, storage: &mut Storage) -> bool {
        let Storage { bodies, journal, .. } = storage;
        // Too few small blocks stand together.
        let Some(places) = self.partition.merge_due() else { return false };
        let on_disk = self.log.is_some();
        let mut complete = true;
        for place in places {
            if !bodies.is_known(place, on_disk) {
                complete = false;
                if !self.merging.contains(&place) {
                    bodies.fetch(place);
                    self.merging.push(place);
                }
            }
        }
        if !complete {
            return true;
        }
        if let Some(merge) = self.partition.merge() {
            let parts: Vec<&[u8]> = merge.blocks.iter().filter_map(|(_, place)| bodies.get(*place, on_disk)).collect();
            let body = parts.concat();
            match self.log {
                // One of them is damaged; a reader detects and counts that.
                _ if parts.len() < merge.blocks.len() => {
                    self.partition.merged(merge.record, None);
                }
                Some(log) => {
                    let write = BlockWrite::Merge { record: merge.record, blocks: merge.blocks.clone() };
                    let in_flight = InFlightBlock { number: 0, at, partition: number, write };
                    journal.store_merged(log, &merge, &body, in_flight);
                }
                None => {
                    let place = bodies.put(&body, 1);
                    self.partition.merged(merge.record, Some(place));
                    merge.blocks.iter().for_each(|(_, place)| bodies.free(*place));
                }
            }
        }
        std::mem::take(&mut self.merging).into_iter().for_each(|place| bodies.release(place));
        false
    }
}

impl Router {
    /// Writes gathered messages at the end of a turn, except for partitions that have messages in
    /// flight.
    pub(in crate::core) fn write_gathered_streams(&mut self, links: &mut impl Links) {
        if self.schedule.gathering.is_empty() {
            return;
        }
        // A commit that waits for a block in flight is written before later messages.
        let awaited = self.awaited_partitions();
        for at in std::mem::take(&mut self.schedule.gathering) {
            // The stream was deleted in the meantime.
            let Some(key) = self.addresses.get(at).map(|address| address.declared.key) else { continue };
            let stream = self.addresses.stream_mut(at);
            let (mut kept, mut written) = (Vec::new(), Vec::new());
            for number in std::mem::take(&mut stream.gathered) {
                if awaited.contains(&(key, number)) {
                    stream.gathered.push(number);
                    continue;
                }
                stream.parts[number as usize].listed = false;
                let ids = stream.parts[number as usize].written_packet_ids();
                let (bodies, journal) = (&mut self.storage.bodies, &mut self.storage.journal);
                if let Some(log) = stream.parts[number as usize].log.filter(|_| !ids.is_empty()) {
                    write_with_packet_ids(at, number, log, &ids, (stream, bodies, journal));
                    written.extend(ids.kept);
                    continue;
                }
                write_gathered(at, number, stream, bodies, &mut kept, |log, block, in_flight| {
                    journal.store_block(log, block, in_flight);
                });
            }
            if !stream.gathered.is_empty() {
                self.schedule.gathering.push(at);
            }
            written.iter().for_each(|kept| self.packet_id_written(kept));
            self.keep_blocks(kept, links);
        }
    }

    /// Writes all gathered messages of the partitions of a transaction: those on disk with its
    /// group. Returns the blocks in memory, and the joint groups that it belongs to.
    pub(in crate::core) fn write_posted(
        &mut self,
        partitions: &BTreeSet<(Key, u32)>,
    ) -> (Vec<MemoryBlock>, Vec<Joint>) {
        let (mut kept, mut joints) = (Vec::new(), Vec::new());
        for (at, number) in partitions {
            let Some(stream) = self.addresses.find_stream_mut(*at) else {
                continue;
            };
            let ids = stream.parts[*number as usize].written_packet_ids();
            write_gathered(*at, *number, stream, &mut self.storage.bodies, &mut kept, |log, block, in_flight| {
                self.storage.journal.post_block(log, block, in_flight);
            });
            self.storage.journal.post_packet_ids(&ids.kept);
            ids.kept.iter().for_each(|kept| self.packet_id_written(kept));
            joints.extend(ids.joints);
        }
        (kept, joints)
    }

    /// Whether the gathered messages of the partitions of a transaction belong to joint groups.
    pub(in crate::core) fn joins_groups(&self, partitions: &BTreeSet<(Key, u32)>) -> bool {
        let joins = |(at, number): &(Key, u32)| {
            let stream = self.addresses.find_stream(*at);
            stream.is_some_and(|stream| stream.parts[*number as usize].joins_groups())
        };
        partitions.iter().any(joins)
    }

    /// Makes blocks in memory readable.
    pub(in crate::core) fn keep_blocks(&mut self, kept: Vec<MemoryBlock>, links: &mut impl Links) {
        let mut dirty: Vec<Key> = Vec::new();
        for MemoryBlock { at, partition, place, bytes } in kept {
            if self.addresses.find_stream(at).is_none() {
                self.storage.bodies.free(place);
                continue;
            }
            self.block_stored(at, partition, place, bytes, links);
            dirty.push(at);
        }
        self.process_streams(dirty, links);
    }

    /// Drops blocks in memory whose transaction the log has refused.
    pub(in crate::core) fn refuse_blocks(&mut self, kept: Vec<MemoryBlock>, refused: &Refused, links: &mut impl Links) {
        for MemoryBlock { at, partition, place, .. } in kept {
            self.storage.bodies.free(place);
            if self.addresses.find_stream(at).is_some() {
                self.block_refused(at, partition, refused, links);
            }
        }
    }

    pub(in crate::core) fn process_streams(&mut self, mut dirty: Vec<Key>, links: &mut impl Links) {
        dirty.sort_unstable_by_key(|key| key.pack());
        dirty.dedup();
        for at in dirty {
            if self.addresses.get(at).is_some() {
                self.process_stream(at, links);
            }
        }
    }

    /// Processes blocks that returned from the log in a batch. Returns the streams to process.
    pub(in crate::core) fn blocks_journaled(
        &mut self,
        batch: &WriteBatch,
        result: &Result<(), Refused>,
        in_flight_blocks: Vec<InFlightBlock>,
        links: &mut impl Links,
    ) -> Vec<Key> {
        let mut dirty: Vec<Key> = Vec::new();
        for InFlightBlock { number, at, partition, write } in in_flight_blocks {
            if self.addresses.find_stream(at).is_none() {
                self.forget_block(result.is_ok().then(|| batch.place(number)), write);
                continue;
            }
            if dirty.last() != Some(&at) {
                dirty.push(at);
            }
            match (write, result) {
                (BlockWrite::Store { bytes }, Ok(())) => {
                    self.block_stored(at, partition, batch.place(number), bytes, links)
                }
                (BlockWrite::Store { .. }, Err(refused)) => self.block_refused(at, partition, refused, links),
                (BlockWrite::Merge { record, blocks }, result) => {
                    let place = result.is_ok().then(|| batch.place(number));
                    let stream = self.addresses.stream_mut(at);
                    if stream.parts[partition as usize].partition.merged(record, place).is_some() {
                        blocks.iter().for_each(|(_, place)| self.storage.bodies.forget(*place));
                    }
                }
            }
        }
        dirty
    }

    /// Frees the records of a block whose stream was deleted in the meantime.
    fn forget_block(&mut self, place: Option<RecordLocation>, write: BlockWrite) {
        let mut freed = Freed::default();
        match (place, write) {
            (Some(place), _) => freed.add(place),
            // The merge would have removed them.
            (None, BlockWrite::Merge { blocks, .. }) => blocks.iter().for_each(|(_, place)| freed.add(*place)),
            (None, BlockWrite::Store { .. }) => {}
        }
        self.storage.journal.free_orphans(&freed);
    }

    fn block_stored(&mut self, at: Key, number: u32, place: RecordLocation, bytes: u64, links: &mut impl Links) {
        let stream = self.addresses.stream_mut(at);
        let count = stream.parts[number as usize].partition.committed(place, bytes);
        self.answer_waiting(at, number, count, &Outcome::Accepted, links);
        self.continue_gathering(at, number);
    }

    fn block_refused(&mut self, at: Key, number: u32, refused: &Refused, links: &mut impl Links) {
        let stream = self.addresses.stream_mut(at);
        let part = &mut stream.parts[number as usize];
        let count = part.partition.refused();
        let refusing: Vec<Key> = part.waiting.iter().take(count as usize).map(|waiting| waiting.producer).collect();
        refusing.into_iter().for_each(|producer| self.halt_numbered(producer));
        let outcome = Outcome::Rejected(Some(Box::new(not_stored("the message", refused))));
        self.answer_waiting(at, number, count, &outcome, links);
        self.continue_gathering(at, number);
    }

    fn continue_gathering(&mut self, at: Key, number: u32) {
        if self.addresses.stream(at).parts[number as usize].partition.may_flush() {
            self.list_gathered(at, number);
        }
    }

    /// Answers the longest-waiting producers of a partition for `count` messages.
    fn answer_waiting(&mut self, at: Key, number: u32, count: u32, outcome: &Outcome, links: &mut impl Links) {
        let stream = self.addresses.stream_mut(at);
        let part = &mut stream.parts[number as usize];
        let mut answered = std::mem::take(&mut self.scratch.answered);
        answered.extend(part.waiting.drain(..(count as usize).min(part.waiting.len())));
        let tickets = part.partition.answered() - u64::from(count)..part.partition.answered();
        let duplicates_answered = !part.pending_duplicates.is_empty();
        self.free_windows(at, &answered, links);
        self.end_packet_ids(at, number, &answered, *outcome == Outcome::Accepted);
        for waiting in answered.drain(..) {
            self.answer(waiting.settlement, at, outcome, links);
        }
        self.scratch.answered = answered;
        if !duplicates_answered {
            return;
        }
        for ticket in tickets {
            let stream = self.addresses.stream_mut(at);
            for pending_duplicate in
                stream.parts[number as usize].pending_duplicates.remove(&ticket).unwrap_or_default()
            {
                self.answer_pending_duplicate(at, &pending_duplicate, outcome, links);
            }
        }
    }

    /// Ends the wait of packet identifiers for their messages, which are stored or refused.
    fn end_packet_ids(&mut self, at: Key, number: u32, answered: &[Waiting], are_stored: bool) {
        let ids = &mut self.addresses.stream_mut(at).parts[number as usize].packet_ids;
        if ids.is_empty() {
            return;
        }
        let is_answered = |id: &mut StreamPacketId| answered.iter().any(|one| one.settlement == id.settlement);
        let ended: Vec<StreamPacketId> = ids.extract_if(.., is_answered).collect();
        let kept_here =
            ended.iter().filter_map(|id| if let PacketIdOf::Here(kept) = &id.kept { Some(kept) } else { None });
        if !are_stored {
            kept_here.for_each(|kept| self.forget_packet_id(kept));
        }
    }

    /// Frees the windows of producers. Messages of one producer are mostly adjacent.
    fn free_windows(&mut self, at: Key, answered: &[Waiting], links: &mut impl Links) {
        self.release_answered_bytes(at, answered.iter());
        for run in answered.chunk_by(|one, other| one.producer == other.producer) {
            let key = run[0].producer;
            let Some(producer) = self.producers.get_mut(key) else { continue };
            producer.waiting -= run.len() as u32;
            let bytes = producer.waiting_bytes - run.iter().map(|waiting| waiting.bytes as usize).sum::<usize>();
            self.update_producer_back_pressure(key, bytes, links);
            self.taken(key, run.len() as i32);
        }
    }

    /// Ends the count of received messages that the log has answered for.
    fn release_answered_bytes<'a>(&mut self, at: Key, answered: impl Iterator<Item = &'a Waiting>) {
        let (messages, bytes) = received_totals(answered);
        self.received.remove(self.addresses[at].account, messages, bytes);
    }

    /// Adds the blocks in a segment to a batch of copies.
    pub(in crate::core) fn copy_blocks(&mut self, segment: u32, batch: &mut WriteBatch) -> Vec<CopiedBlock> {
        let mut copied = Vec::new();
        for (at, address) in self.addresses.iter_mut() {
            if let Some(stream) = address.treatment.as_stream_mut()
                && copied.len() < COPIES
            {
                stream.copy_blocks(at, segment, batch, &mut copied);
            }
        }
        copied
    }

    /// Applies the result of copies of blocks; without a batch they were refused.
    pub(in crate::core) fn blocks_moved(
        &mut self,
        batch: Option<&WriteBatch>,
        copied: &[CopiedBlock],
        freed: &mut Freed,
    ) {
        for (number, copy) in copied.iter().enumerate() {
            let place = batch.and_then(|batch| batch.copied(number, copy.log));
            let stream = self.addresses.find_stream_mut(copy.at);
            let known =
                stream.is_some_and(|stream| stream.parts[copy.partition as usize].partition.moved(copy.record, place));
            match place {
                Some(_) if known => freed.add(copy.from),
                // The stream was deleted in the meantime, and has freed the old location.
                Some(place) => freed.add(place),
                None => {}
            }
        }
    }
}

/// The number of messages that were received from producers, and their bytes.
pub(super) fn received_totals<'a>(waiting: impl Iterator<Item = &'a Waiting>) -> (usize, usize) {
    let received = waiting.filter(|waiting| waiting.producer != Key::NONE);
    received.fold((0, 0), |(messages, bytes), waiting| (messages + 1, bytes + waiting.bytes as usize))
}
