//! Streams: ordered messages in the partitions of an address, for any number of readers, which do
//! not consume them.
//!
//! `enmasse_journal::stream` makes the decisions about partitions; this module connects it to
//! attachments. `incoming` receives messages, `journal` writes them to the log in blocks and
//! answers producers when these are on disk, `reading` dispatches them to readers. A reader has a
//! position in each partition that it reads, and copies messages out of blocks, which all readers
//! share.

mod incoming;
mod journal;
mod reading;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use enmasse_amqp::types::{Error, Fields, Symbol, Value, condition};
use enmasse_journal::log::{Freed, RecordLocation, RecoveredQueue};
use enmasse_journal::queue::{Cause, QueueStats};
use enmasse_journal::stream::{Lost, Partition, Restored, Settings};

use super::arena::Key;
use super::arriving::PendingDuplicate;
use super::message::SettlementTarget;
use super::received::{Account, Received};
use super::schedule::Schedule;
use super::storage::{KeptPacketId, Storage};
use super::{AddressKey, Declared, Links, Router};

use incoming::StreamPacketId;
pub(super) use incoming::Waiting;
use journal::received_totals;

/// Link property of an attach reply: the partitions of a stream (`docs/contracts.md` 9).
const PROPERTY: &str = "enmasse:stream";

/// The state of a stream.
#[derive(Debug)]
pub struct Stream {
    /// the name that clients use for the address
    name: Arc<str>,
    /// identity of the address
    uid: Box<str>,
    settings: Settings,
    parts: Vec<Part>,
    /// the partition of the last message that was assigned in turn
    turn: u32,
    producers: u32,
    /// partitions with messages for the log
    gathered: Vec<u32>,
    /// it is on the list of addresses that wait for bodies
    pub(super) awaits_bodies: bool,
    /// the time for which its timer is set
    armed_ms: Option<u64>,
    /// messages missing after the restart, by partition
    lost: Vec<(u32, Lost)>,
    /// logged blocks that no partition uses, by the partition's number in the log
    superfluous: Vec<(u32, u64, RecordLocation)>,
}

/// One partition.
#[derive(Debug)]
struct Part {
    /// its number in the log; `None`: its messages are in memory only
    log: Option<u32>,
    partition: Partition,
    /// producers that wait for messages to be on disk, in order
    waiting: VecDeque<Waiting>,
    /// packet identifiers of MQTT of messages in `waiting`
    packet_ids: Vec<StreamPacketId>,
    /// pending duplicates, by the ticket of their original
    pending_duplicates: HashMap<u64, Vec<PendingDuplicate>>,
    /// it is in `gathered` of the stream
    listed: bool,
    /// blocks that were fetched for a merge
    merging: Vec<RecordLocation>,
}

impl Stream {
    /// A stream without partitions.
    #[must_use]
    pub fn new(name: Arc<str>, uid: &str, settings: Settings) -> Self {
        Self {
            name,
            uid: uid.into(),
            settings,
            parts: Vec::new(),
            turn: 0,
            producers: 0,
            gathered: Vec::new(),
            awaits_bodies: false,
            armed_ms: None,
            lost: Vec::new(),
            superfluous: Vec::new(),
        }
    }

    /// Adds an empty partition. `log` is its number in the log; `None` keeps its messages in memory
    /// only.
    #[must_use]
    pub fn with_partition(mut self, log: Option<u32>) -> Self {
        let partition = Partition::new(&self.settings);
        self.add(log, partition);
        self
    }

    /// Adds a partition as recovered from the log.
    #[must_use]
    pub fn with_restored(mut self, recovered: &RecoveredQueue) -> Self {
        let Restored { partition, superfluous, lost } = Partition::restore(&self.settings, recovered);
        let number = self.parts.len() as u32;
        self.lost.extend(lost.into_iter().map(|lost| (number, lost)));
        self.superfluous.extend(superfluous.into_iter().map(|(record, place)| (recovered.queue, record, place)));
        self.add(Some(recovered.queue), partition);
        self
    }

    fn add(&mut self, log: Option<u32>, partition: Partition) {
        self.parts.push(Part {
            log,
            partition,
            waiting: VecDeque::new(),
            packet_ids: Vec::new(),
            pending_duplicates: HashMap::new(),
            listed: false,
            merging: Vec::new(),
        });
    }

    /// The bound of the bytes of one message.
    pub(super) const fn message_bytes(&self) -> u32 {
        self.settings.limits.message_bytes
    }

    /// `{uid, partitions: [{partition, first, next}]}`: the attach reply (`docs/contracts.md` 9).
    fn described(&self) -> Value {
        let text = |text: &str| Value::String(text.to_owned());
        Value::Map(vec![(text("uid"), text(&self.uid)), (text("partitions"), self.partitions())])
    }

    /// `[{partition, first, next}]`.
    pub(super) fn partitions(&self) -> Value {
        let text = |text: &str| Value::String(text.to_owned());
        let partitions = self.parts.iter().enumerate().map(|(number, part)| {
            Value::Map(vec![
                (text("partition"), Value::Uint(number as u32)),
                (text("first"), Value::Ulong(part.partition.first())),
                (text("next"), Value::Ulong(part.partition.next())),
            ])
        });
        Value::List(partitions.collect())
    }

    /// The description as properties of an attach reply.
    pub(super) fn properties(&self) -> Fields {
        vec![(Symbol::constant(PROPERTY), self.described())]
    }

    /// The number in the log of a partition with gathered messages for it.
    pub(super) fn gathered_for_log(&self, number: u32) -> Option<u32> {
        let part = &self.parts[number as usize];
        part.log.filter(|_| part.partition.may_flush())
    }

    /// Whether a block of a partition is in flight.
    pub(super) fn is_under_way(&self, number: u32) -> bool {
        self.parts.get(number as usize).is_some_and(|part| part.partition.is_under_way())
    }

    /// Counts a producer, unless the bound is reached.
    pub(super) fn attach_producer(&mut self) -> Result<(), Error> {
        let most = self.settings.limits.producers;
        if self.producers >= most {
            return Err(exceeded(&format!("the address has {most} senders, its limit")));
        }
        self.producers += 1;
        Ok(())
    }

    pub(super) fn detach_producer(&mut self) {
        self.producers -= 1;
    }

    /// Removes and returns the settlement targets of waiting messages and pending duplicates.
    pub(super) fn take_settlements(&mut self) -> Vec<SettlementTarget> {
        let mut settlement = Vec::new();
        for part in &mut self.parts {
            settlement.extend(part.waiting.drain(..).map(|waiting| waiting.settlement));
            settlement.extend(
                part.pending_duplicates
                    .drain()
                    .flat_map(|(_, pending_duplicates)| pending_duplicates)
                    .map(|pending_duplicate| pending_duplicate.settlement),
            );
        }
        settlement
    }

    /// Removes the blocks that exceed retention.
    fn retire_blocks(&mut self, storage: &mut Storage) {
        for part in &mut self.parts {
            let mut any = false;
            while let Some(block) = part.partition.overdue(storage.now_ms) {
                any = true;
                match part.log {
                    Some(log) => {
                        storage.bodies.forget(block.place);
                        storage.journal.remove_at(log, block.record, block.place);
                    }
                    None => storage.bodies.free(block.place),
                }
            }
            if let (true, Some(log), Some(ended)) = (any, part.log, part.partition.ended()) {
                storage.journal.keep_ended(log, &ended);
            }
        }
    }

    fn arm(&mut self, schedule: &mut Schedule, key: AddressKey, at: Key) {
        let next = self.parts.iter().filter_map(|part| part.partition.next_timeout()).min();
        schedule.rearm(&mut self.armed_ms, next, key, at);
    }

    /// Ends the count of received messages that wait for the log.
    pub(super) fn release_waiting_bytes(&self, account: Account, received: &mut Received) {
        let (messages, bytes) = received_totals(self.parts.iter().flat_map(|part| &part.waiting));
        received.remove(account, messages, bytes);
    }

    /// Deletes all messages of a stream whose address is deleted, and ends the count of those that
    /// wait for the log.
    pub(super) fn clear(&self, key: AddressKey, account: Account, parts: (&mut Schedule, &mut Received, &mut Storage)) {
        let (schedule, received, storage) = parts;
        self.release_waiting_bytes(account, received);
        schedule.disarm(self.armed_ms, key);
        for part in &self.parts {
            part.merging.iter().for_each(|place| storage.bodies.release(*place));
            for (joint, lane) in part.gathered_joints() {
                storage.journal.decline(joint, lane, "the address of the message was deleted".to_owned());
            }
            let Some(log) = part.log else {
                part.partition.places().for_each(|place| storage.bodies.free(place));
                continue;
            };
            let mut freed = Freed::default();
            part.partition.places().for_each(|place| freed.add(place));
            storage.journal.drop_partition(log, &freed);
        }
    }

    /// The packet identifiers of messages that were never given to the log.
    pub(super) fn gathered_packet_ids(&self) -> impl Iterator<Item = KeptPacketId> {
        self.parts.iter().flat_map(Part::gathered_packet_ids)
    }

    pub(super) fn stats(&self) -> QueueStats {
        let mut all = QueueStats { producers: self.producers, ..QueueStats::default() };
        for Part { partition, .. } in &self.parts {
            let stats = partition.stats();
            all.ready += partition.next() - partition.first();
            all.uncommitted += partition.uncommitted();
            all.bytes += partition.bytes();
            all.oldest = match (all.oldest, partition.oldest_ms()) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            all.enqueued += stats.enqueued;
            all.duplicates += stats.duplicates;
            all.refused += stats.refused;
            all.removed[Cause::Overrun as usize] += stats.retired;
        }
        all
    }
}

fn exceeded(what: &str) -> Error {
    Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what.to_owned())
}

impl Router {
    /// Opens a stream on this shard. An open one with this key keeps its messages.
    pub fn open_stream(&mut self, declared: Declared, mut stream: Stream, links: &mut impl Links) {
        let key = self.address(declared);
        if self.addresses.find_stream(key).is_some() {
            return;
        }
        for log in stream.parts.iter().filter_map(|part| part.log) {
            self.storage.journal.join(log, declared.space);
        }
        for (log, record, place) in stream.superfluous.drain(..) {
            self.storage.journal.remove_at(log, record, place);
        }
        for (partition, Lost { first, last }) in std::mem::take(&mut stream.lost) {
            self.count_lost(key, &stream.name, Some(partition), first, last - first + 1);
        }
        self.addresses[key].open_stream(stream);
        self.process_stream(key, links);
    }

    /// Changes the settings of a stream, and adds partitions by their numbers in the log.
    pub fn change_stream(
        &mut self,
        key: AddressKey,
        settings: Settings,
        more: Vec<Option<u32>>,
        links: &mut impl Links,
    ) {
        // It is opened with its settings when its first link attaches.
        let Some(key) = self.by_key.get(&key).copied() else { return };
        let space = self.addresses[key].declared.space;
        let Some(stream) = self.addresses.find_stream_mut(key) else { return };
        stream.settings = settings;
        for part in &mut stream.parts {
            part.partition.reconfigure(&stream.settings);
        }
        for log in more {
            if let Some(log) = log {
                self.storage.journal.join(log, space);
            }
            let partition = Partition::new(&stream.settings);
            stream.add(log, partition);
        }
        self.process_stream(key, links);
    }

    /// The statistics of every stream of this shard.
    pub fn stream_stats(&self) -> impl Iterator<Item = (AddressKey, QueueStats)> {
        self.addresses.iter().filter_map(|(key, address)| {
            let stream = self.addresses.find_stream(key)?;
            let consumers = address.consumers.len() as u32;
            Some((address.declared.key, QueueStats { consumers, ..stream.stats() }))
        })
    }

    /// After any change of a stream: serves readers, applies retention, and sets the timer.
    pub(super) fn process_stream(&mut self, at: Key, links: &mut impl Links) {
        self.serve_readers(at, links);
        let key = self.addresses[at].declared.key;
        let stream = self.addresses.stream_mut(at);
        stream.retire_blocks(&mut self.storage);
        let waits = stream.merge_blocks(at, &mut self.storage);
        stream.arm(&mut self.schedule, key, at);
        if waits {
            self.await_bodies(at);
        }
    }

    /// Processes a stream whose timer expired.
    pub(super) fn stream_timeout(&mut self, at: Key, links: &mut impl Links) {
        let stream = self.addresses.stream_mut(at);
        stream.armed_ms = None;
        self.process_stream(at, links);
    }
}
