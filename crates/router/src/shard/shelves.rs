//! Which stored addresses live where, and under which number the log knows them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::stored::Shelving;
use super::subscribing::kept_subscription;
use crate::core::{
    AddressKey, AddressKind, Digests, Filter, QueueNumbers, Shelf, Stream, Subscribing, TopicShelf, subscription_of,
};
use crate::table::{AddressEntry, Diff, Space, Storage, Streaming, Table};
use enmasse_journal::log::{Batch, Freed, Recovered, RecoveredQueue};

/// What the log knew at the start and no Plan has asked for yet, and the numbers to give out.
#[derive(Debug)]
pub struct Shelves {
    known: BTreeMap<[u8; 16], RecoveredQueue>,
    numbers: QueueNumbers,
    /// partitions of each stream
    streams: HashMap<AddressKey, u32>,
}

/// Addresses that need a new place in the log, by uid, and how many partitions each has without it; 0: it has none at
/// all.
pub type Openings = BTreeMap<String, u32>;

/// What follows from a Plan for stored addresses.
#[derive(Debug, Default)]
pub struct Changes {
    /// for the log, before anything else
    pub batch: Batch,
    /// for each worker
    pub shelvings: Vec<Vec<Shelving>>,
    /// partitions of each stream, for [`Shelves::settle`]
    pub streams: Vec<(AddressKey, u32)>,
    /// what is not there if the log does not take `batch`
    pub openings: Openings,
}

/// A durable subscription that clients have made, as the log knows it.
struct Kept<'a> {
    uid: &'a [u8; 16],
    known: &'a RecoveredQueue,
    subscribing: Subscribing,
    filter: Option<Filter>,
}

impl Kept<'_> {
    fn shelf(self, topic: &AddressEntry, storage: &Storage) -> Shelf {
        let name = self.known.declared.as_ref().map_or("", |(_, name)| name);
        let shelf = Shelf::restored(name.into(), storage.settings.clone(), self.known);
        shelf.subscribed(topic.key, self.subscribing, self.filter)
    }
}

impl Shelves {
    /// What a log knew.
    pub fn new(recovered: Recovered) -> Self {
        let numbers = QueueNumbers::new(recovered.next_queue.max(1));
        let known = recovered.queues.into_iter().filter_map(|queue| Some((queue.declared.as_ref()?.0, queue)));
        Self { known: known.collect(), numbers, streams: HashMap::new() }
    }

    /// Where the numbers of queues come from.
    pub fn numbers(&self) -> QueueNumbers {
        self.numbers.clone()
    }

    /// Stored addresses that are new or have changed get their homes: those of one space one shard, so that what goes
    /// from one to the other crosses nothing (`docs/decisions/0018-stored-home.md`).
    /// Changes nothing here but the next number: [`Shelves::settle`] does, once the log has the batch.
    pub fn follow(&self, diff: &Diff, next: &Table, workers: u16) -> Changes {
        let shelvings = (0..workers).map(|_| Vec::new()).collect();
        let mut changes = Changes { shelvings, ..Changes::default() };
        let mut asked_for = HashSet::new();
        for entry in &diff.added {
            let Some(storage) = &entry.storage else { continue };
            let home = entry.home.claim(entry.space.stored_home(workers));
            let shelving = if entry.kind == AddressKind::Topic {
                asked_for.extend(self.kept(entry).map(|kept| *kept.uid));
                self.topic(entry, storage, next)
            } else if let Some(streaming) = &storage.stream {
                asked_for.extend((0..streaming.partitions).map(|number| partition_uid(&entry.uid, number)));
                let stream = self.stream(entry, storage, streaming, &mut changes);
                Shelving::OpenStream(entry.declared(), Box::new(stream))
            } else {
                asked_for.extend(storage.on_disk.then(|| uid_bytes(&entry.uid)));
                let (dead_letter, expiry) = targets(entry, storage, next);
                let shelf = self.shelf(entry, storage, &mut changes).with_targets(dead_letter, expiry);
                let shelf = shelf.with_last_value_key(storage.last_value_key.clone());
                let subscribes = storage.topic.is_some();
                let shelf = if subscribes { shelf.of_topic(topic_of(entry, storage, next)) } else { shelf };
                Shelving::Open(entry.declared(), Box::new(shelf))
            };
            changes.shelvings[usize::from(home)].push(shelving);
        }
        for entry in diff.changed.iter().chain(redirected(diff, next)) {
            let (Some(storage), Some(home)) = (&entry.storage, entry.home.get()) else { continue };
            if let Some(streaming) = &storage.stream {
                let more = self.more_partitions(entry, storage, streaming, &mut changes);
                let change = Shelving::ChangeStream(entry.key, Box::new(streaming.settings.clone()), more);
                changes.shelvings[usize::from(home)].push(change);
                continue;
            }
            let shelvings = &mut changes.shelvings[usize::from(home)];
            if entry.kind == AddressKind::Topic {
                shelvings.push(self.topic(entry, storage, next));
                continue;
            }
            let (dead_letter, expiry) = targets(entry, storage, next);
            let (settings, last_value_key) = (Box::new(storage.settings.clone()), storage.last_value_key.clone());
            shelvings.push(Shelving::Change(entry.key, settings, dead_letter, expiry, last_value_key));
            if storage.topic.is_some() {
                shelvings.push(Shelving::Move(entry.key, topic_of(entry, storage, next)));
            }
        }
        for (_, gone) in self.known.iter().filter(|(uid, _)| !asked_for.contains(*uid)) {
            let mut freed = Freed::default();
            gone.messages().for_each(|message| freed.add(message.place));
            changes.batch.drop_queue(gone.queue, &freed);
        }
        changes
    }

    /// The log has what follows from a Plan: what it knew at the start has found its home, or is gone.
    pub fn settle(&mut self, streams: Vec<(AddressKey, u32)>) {
        self.known.clear();
        self.streams.extend(streams);
    }

    /// The durable subscriptions of a topic that the log knows.
    fn kept(&self, topic: &AddressEntry) -> impl Iterator<Item = Kept<'_>> {
        self.known.iter().filter_map(|(uid, known)| {
            let (subscribing, filter) = kept_subscription(topic, subscription_of(known)?)?;
            Some(Kept { uid, known, subscribing, filter })
        })
    }

    fn topic(&self, entry: &AddressEntry, storage: &Storage, next: &Table) -> Shelving {
        let (dead_letter, expiry) = targets(entry, storage, next);
        let shelf = TopicShelf::new(entry.name.clone(), storage.settings.clone(), storage.on_disk);
        let known = self.kept(entry).map(|kept| kept.shelf(entry, storage)).collect();
        Shelving::Topic(entry.declared(), Box::new(shelf.with_targets(dead_letter, expiry).with_known(known)))
    }

    /// A stream with all its partitions.
    fn stream(&self, entry: &AddressEntry, storage: &Storage, streaming: &Streaming, changes: &mut Changes) -> Stream {
        let mut stream = Stream::new(entry.name.clone(), &entry.uid, streaming.settings.clone());
        for number in 0..streaming.partitions {
            let known = self.known.get(&partition_uid(&entry.uid, number)).filter(|_| storage.on_disk);
            stream = match known {
                Some(known) => stream.with_restored(known),
                None => stream.with_partition(self.declare_partition(entry, storage, number, changes)),
            };
        }
        changes.streams.push((entry.key, streaming.partitions));
        stream
    }

    /// The numbers in the log of partitions that a stream has more than before.
    fn more_partitions(
        &self,
        entry: &AddressEntry,
        storage: &Storage,
        streaming: &Streaming,
        changes: &mut Changes,
    ) -> Vec<Option<u32>> {
        let before = self.streams.get(&entry.key).copied().unwrap_or(streaming.partitions);
        changes.streams.push((entry.key, streaming.partitions.max(before)));
        (before..streaming.partitions).map(|number| self.declare_partition(entry, storage, number, changes)).collect()
    }

    /// The number in the log of a new partition, if it is to be on disk.
    fn declare_partition(
        &self,
        entry: &AddressEntry,
        storage: &Storage,
        number: u32,
        changes: &mut Changes,
    ) -> Option<u32> {
        let uid = partition_uid(&entry.uid, number);
        storage.on_disk.then(|| self.declare(&uid, entry, number, changes))
    }

    /// The next number in the log, for what it knows by this uid: an address, or the partition of one that has as many
    /// `before` it.
    fn declare(&self, uid: &[u8; 16], entry: &AddressEntry, before: u32, changes: &mut Changes) -> u32 {
        let number = self.numbers.take();
        changes.batch.declare(number, uid, &entry.name);
        changes.openings.entry(entry.uid.to_string()).or_insert(before);
        number
    }

    fn shelf(&self, entry: &AddressEntry, storage: &Storage, changes: &mut Changes) -> Shelf {
        let (name, settings) = (entry.name.clone(), storage.settings.clone());
        if !storage.on_disk {
            return Shelf::new(name, settings, None);
        }
        let uid = uid_bytes(&entry.uid);
        match self.known.get(&uid) {
            Some(known) => Shelf::restored(name, settings, known),
            None => Shelf::new(name, settings, Some(self.declare(&uid, entry, 0, changes))),
        }
    }
}

/// Addresses that are as before, and name one for their dead letters, for what expires or as their topic that is another
/// now.
fn redirected<'a>(diff: &'a Diff, next: &'a Table) -> impl Iterator<Item = &'a Arc<AddressEntry>> {
    let added: HashSet<AddressKey> =
        diff.added.iter().filter(|entry| entry.storage.is_some()).map(|entry| entry.key).collect();
    let told: HashSet<AddressKey> = diff.changed.iter().map(|entry| entry.key).collect();
    let stored = (!added.is_empty()).then(|| next.spaces().flat_map(Space::addresses)).into_iter().flatten();
    stored.filter(move |entry| {
        let Some(storage) = entry.storage.as_ref() else { return false };
        let (dead_letter, expiry) = targets(entry, storage, next);
        let named = [dead_letter, expiry, topic_of(entry, storage, next)];
        let names_added = named.into_iter().flatten().any(|key| added.contains(&key));
        !added.contains(&entry.key) && !told.contains(&entry.key) && names_added
    })
}

/// The addresses that an address names; one that is not declared is none.
fn targets(entry: &AddressEntry, storage: &Storage, table: &Table) -> (Option<AddressKey>, Option<AddressKey>) {
    let find = |name: &Option<Box<str>>| {
        let found = table.space(entry.space)?.resolve(name.as_deref()?)?;
        (found.kind == AddressKind::Stored).then_some(found.key)
    };
    (find(&storage.dead_letter), find(&storage.expiry))
}

/// The topic of a subscription, if there is one of that name.
fn topic_of(entry: &AddressEntry, storage: &Storage, table: &Table) -> Option<AddressKey> {
    let name = storage.topic.as_deref()?;
    let found = table.space(entry.space)?.resolve(name)?;
    (found.kind == AddressKind::Topic && *found.name == *name).then_some(found.key)
}

/// What the log knows a partition of a stream by.
fn partition_uid(uid: &str, number: u32) -> [u8; 16] {
    Digests::new([0; 16]).long(format!("{uid}/{number}").as_bytes()).to_be_bytes()
}

/// A UUID as its bytes; any other uid by a digest of 128 bits.
fn uid_bytes(uid: &str) -> [u8; 16] {
    let digits: Vec<u8> = uid.bytes().filter(|byte| *byte != b'-').collect();
    let hex = std::str::from_utf8(&digits).ok().filter(|digits| digits.len() == 32);
    if let Some(number) = hex.and_then(|digits| u128::from_str_radix(digits, 16).ok()) {
        return number.to_be_bytes();
    }
    Digests::new([0; 16]).long(uid.as_bytes()).to_be_bytes()
}
