//! Stored addresses and their queue numbers in the journal.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::mqtt::filters::session_of;
use super::stored::StoredAddressChange;
use super::subscribing::{stored_subscription, topic_of_stored};
use super::unit_homes::{Placements, UnitHomes};
use crate::core::{
    AddressKey, AddressKind, Destination, Digests, Filter, OpenQueue, OpenTopic, QueueNumbers, Stream, Subscribing,
    SubscriptionName, SubscriptionNames, subscription_of,
};
use crate::table::{AddressEntry, Diff, Space, SpaceKey, Storage, Streaming, Table};
use enmasse_journal::log::{Freed, Recovered, RecoveredQueue, WriteBatch};

/// The recovered queues of the journal that no Plan has named yet, and the next queue numbers.
#[derive(Debug)]
pub struct RecoveredQueues {
    known: BTreeMap<[u8; 16], RecoveredQueue>,
    /// nothing of the log is damaged
    is_whole: bool,
    /// those whose uid was declared again, and whose drop the journal does not have
    replaced: Vec<RecoveredQueue>,
    numbers: QueueNumbers,
    names: SubscriptionNames,
    /// partitions of each stream
    streams: HashMap<AddressKey, u32>,
    homes: UnitHomes,
}

/// Addresses that the batch declares in the journal, by uid, with the number of partitions that
/// exist without it; 0: the address does not exist without it.
pub type Openings = BTreeMap<String, u32>;

/// The changes of a Plan to stored addresses.
#[derive(Debug, Default)]
pub struct Changes {
    /// for the journal, before all other batches
    pub batch: WriteBatch,
    /// for each worker
    pub address_changes: Vec<Vec<StoredAddressChange>>,
    /// for [`RecoveredQueues::settle`]
    pub settled: Settled,
    /// the addresses that are missing if the journal refuses `batch`
    pub openings: Openings,
}

/// What is known of stored addresses from a Plan on.
#[derive(Debug, Default)]
pub struct Settled {
    /// partitions of each new or changed stream
    streams: Vec<(AddressKey, u32)>,
    placements: Placements,
    /// recovered subscriptions, with their homes
    names: Vec<(SubscriptionName, u16)>,
    workers: u16,
}

/// The durable subscriptions that clients created, as recovered from the journal, by the uids of
/// their topics.
struct RecoveredSubscriptions<'a> {
    topics: HashMap<String, Vec<(&'a [u8; 16], &'a RecoveredQueue)>>,
    /// those that are not opened again
    obsolete: HashSet<[u8; 16]>,
}

/// One of them.
struct RecoveredSubscription<'a> {
    uid: &'a [u8; 16],
    known: &'a RecoveredQueue,
    subscribing: Subscribing,
    filter: Option<Filter>,
}

impl RecoveredSubscription<'_> {
    fn opened_queue(self, topic: &AddressEntry, storage: &Storage) -> OpenQueue {
        let name = self.known.declared.as_ref().map_or("", |(_, name)| name);
        let opened = OpenQueue::restored(name.into(), storage.settings.clone(), self.known);
        opened.subscribed(topic.key, self.subscribing, self.filter)
    }
}

impl<'a> RecoveredSubscriptions<'a> {
    /// `is_whole`: nothing of the log is damaged.
    fn new(known: &'a BTreeMap<[u8; 16], RecoveredQueue>, is_whole: bool, diff: &Diff, next: &Table) -> Self {
        let mut topics: HashMap<String, Vec<_>> = HashMap::new();
        for (uid, known) in known {
            if let Some(topic) = subscription_of(known).and_then(topic_of_stored) {
                topics.entry(topic).or_default().push((uid, known));
            }
        }
        let mut found = Self { topics, obsolete: HashSet::new() };
        if !found.topics.is_empty() {
            let mut obsolete = found.replaced(diff);
            // A record may be missing because it is damaged: then the messages of its client stay.
            if is_whole {
                obsolete.extend(found.without_session(diff, next));
            }
            found.obsolete = obsolete;
        }
        found
    }

    /// The subscriptions of a topic, except for those that are not opened again.
    fn of(&self, topic: &AddressEntry) -> impl Iterator<Item = RecoveredSubscription<'a>> {
        let known = self.topics.get(&*topic.uid).into_iter().flatten();
        known.filter(|(uid, _)| !self.obsolete.contains(*uid)).filter_map(|(uid, known)| {
            let (subscribing, filter) = stored_subscription(topic, subscription_of(known)?)?;
            Some(RecoveredSubscription { uid, known, subscribing, filter })
        })
    }

    /// The messages of these subscriptions.
    fn messages(&self, topic: &AddressEntry) -> usize {
        self.of(topic).map(|subscription| subscription.known.len()).sum()
    }

    /// The subscriptions that a later one of the same name has replaced. The declaration of the later
    /// one may precede the drop of the former one in the log: records that free space wait for earlier
    /// ones, and the two may have had different homes.
    fn replaced(&self, diff: &Diff) -> HashSet<[u8; 16]> {
        let topics = diff.added.iter().filter(|entry| entry.kind == AddressKind::Topic);
        let mut newest: HashMap<SubscriptionName, (u32, [u8; 16])> = HashMap::new();
        let mut replaced = HashSet::new();
        for RecoveredSubscription { uid, known, subscribing, .. } in topics.flat_map(|topic| self.of(topic)) {
            let Some(name) = subscribing.name else { continue };
            let found = (known.queue, *uid);
            let best = newest.entry(name).or_insert(found);
            if *best != found {
                replaced.insert(found.min(*best).1);
                *best = found.max(*best);
            }
        }
        replaced
    }

    /// The subscriptions of sessions of MQTT that have ended: the removal of a record may precede
    /// those of its subscriptions in the log, because they have other homes.
    fn without_session(&self, diff: &Diff, next: &Table) -> HashSet<[u8; 16]> {
        let (mut records, mut subscriptions, mut read) = (HashSet::new(), Vec::new(), HashSet::new());
        for topic in diff.added.iter().filter(|entry| entry.kind == AddressKind::Topic) {
            let store = next.space(topic.space).and_then(Space::mqtt);
            let has_records = store.is_some_and(|store| store.sessions.key == topic.key);
            if has_records {
                read.insert(topic.space.0);
            }
            for RecoveredSubscription { uid, subscribing, .. } in self.of(topic) {
                let Some(SubscriptionName { space, container, name, .. }) = subscribing.name else { continue };
                if has_records {
                    records.insert((space, container, name.to_string()));
                } else if let Some(session) = session_of(&name, &topic.uid) {
                    subscriptions.push((*uid, (space, container, session.to_owned())));
                }
            }
        }
        let has_ended = |session: &(u32, _, _)| read.contains(&session.0) && !records.contains(session);
        subscriptions.into_iter().filter(|(_, session)| has_ended(session)).map(|(uid, _)| uid).collect()
    }
}

impl RecoveredQueues {
    /// From the recovered state of a log.
    pub fn new(recovered: Recovered) -> Self {
        let numbers = QueueNumbers::new(recovered.next_queue.max(1));
        let is_whole = recovered.gaps.is_empty() && recovered.unnamed_queues().next().is_none();
        let (mut known, mut replaced) = (BTreeMap::new(), Vec::new());
        // In the order of their numbers: the one declared last is the address.
        for queue in recovered.queues {
            let Some((uid, _)) = queue.declared else { continue };
            replaced.extend(known.insert(uid, queue));
        }
        let (names, streams, homes) = (SubscriptionNames::default(), HashMap::new(), UnitHomes::default());
        Self { known, is_whole, replaced, numbers, names, streams, homes }
    }

    /// The directory of the names of subscriptions, for all shards.
    pub fn subscription_names(&self) -> SubscriptionNames {
        self.names.clone()
    }

    /// The source of queue numbers.
    pub fn numbers(&self) -> QueueNumbers {
        self.numbers.clone()
    }

    /// Opens new and changed stored addresses at their homes (`docs/decisions/0083-homes-of-queues.md`).
    /// Changes only the next queue number here; [`RecoveredQueues::settle`] changes the rest once
    /// the journal has the batch.
    pub fn follow(&self, diff: &Diff, next: &Table, workers: u16) -> Changes {
        let address_changes = (0..workers).map(|_| Vec::new()).collect();
        let mut changes = Changes { address_changes, ..Changes::default() };
        let mut declared_uids = HashSet::new();
        let subscriptions = RecoveredSubscriptions::new(&self.known, self.is_whole, diff, next);
        let messages = |entry: &AddressEntry| self.recovered_messages(entry, &subscriptions);
        changes.settled.placements = self.homes.place(diff, next, workers, messages);
        changes.settled.workers = workers;
        for entry in &diff.added {
            let (Some(storage), Some(home)) = (&entry.storage, entry.home.get()) else { continue };
            let address_change = if entry.kind == AddressKind::Topic {
                declared_uids.extend(subscriptions.of(entry).map(|kept| *kept.uid));
                let names = subscriptions.of(entry).filter_map(|kept| kept.subscribing.name);
                changes.settled.names.extend(names.map(|name| (name, home)));
                topic(entry, storage, next, &subscriptions)
            } else if let Some(streaming) = &storage.stream {
                declared_uids.extend((0..streaming.partitions).map(|number| partition_uid(&entry.uid, number)));
                let stream = self.stream(entry, storage, streaming, &mut changes);
                StoredAddressChange::OpenStream(entry.declared(), Box::new(stream))
            } else {
                declared_uids.extend(storage.on_disk.then(|| uid_bytes(&entry.uid)));
                let (dead_letter, expiry) = targets(entry, storage, next);
                let opened = self.opened_queue(entry, storage, &mut changes).with_targets(dead_letter, expiry);
                let opened = opened.with_last_value_key(storage.last_value_key.clone());
                let subscribes = storage.topic.is_some();
                let opened = if subscribes { opened.of_topic(topic_of(entry, storage, next)) } else { opened };
                StoredAddressChange::Open(entry.declared(), Box::new(opened))
            };
            changes.address_changes[usize::from(home)].push(address_change);
        }
        for entry in diff.changed.iter().chain(redirected(diff, next)) {
            let (Some(storage), Some(home)) = (&entry.storage, entry.home.get()) else { continue };
            if let Some(streaming) = &storage.stream {
                let more = self.more_partitions(entry, storage, streaming, &mut changes);
                let change = StoredAddressChange::ChangeStream(entry.key, Box::new(streaming.settings.clone()), more);
                changes.address_changes[usize::from(home)].push(change);
                continue;
            }
            let address_changes = &mut changes.address_changes[usize::from(home)];
            if entry.kind == AddressKind::Topic {
                address_changes.push(topic(entry, storage, next, &subscriptions));
                continue;
            }
            let (dead_letter, expiry) = targets(entry, storage, next);
            let (settings, last_value_key) = (Box::new(storage.settings.clone()), storage.last_value_key.clone());
            address_changes.push(StoredAddressChange::Change(entry.key, settings, dead_letter, expiry, last_value_key));
            if storage.topic.is_some() {
                address_changes.push(StoredAddressChange::Move(entry.key, topic_of(entry, storage, next)));
            }
        }
        let gone = self.known.iter().filter(|(uid, _)| !declared_uids.contains(*uid)).map(|(_, gone)| gone);
        for gone in gone.chain(&self.replaced) {
            let mut freed = Freed::default();
            gone.messages().for_each(|message| freed.add(message.place));
            changes.batch.drop_queue(gone.queue, &freed);
        }
        changes
    }

    /// The journal has written the changes of a Plan: each recovered queue has a home, or is
    /// deleted.
    pub fn settle(&mut self, settled: Settled) {
        let Settled { streams, placements, names, workers } = settled;
        for (name, home) in names {
            let claimed = self.names.claim(&name, home);
            debug_assert_eq!(claimed, Ok(()), "one subscription of a name is recovered");
        }
        self.known.clear();
        self.replaced.clear();
        self.streams.extend(streams);
        self.homes.settle(placements, workers);
    }

    /// The recovered messages of a queue or of the durable subscriptions of a topic, or the recovered
    /// blocks of a stream.
    fn recovered_messages(&self, entry: &AddressEntry, subscriptions: &RecoveredSubscriptions<'_>) -> usize {
        if self.known.is_empty() {
            return 0;
        }
        if entry.kind == AddressKind::Topic {
            return subscriptions.messages(entry);
        }
        let stream = entry.storage.as_ref().and_then(|storage| storage.stream.as_ref());
        let uids = match stream {
            Some(stream) => (0..stream.partitions).map(|number| partition_uid(&entry.uid, number)).collect(),
            None => vec![uid_bytes(&entry.uid)],
        };
        uids.iter().filter_map(|uid| self.known.get(uid)).map(RecoveredQueue::len).sum()
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
        changes.settled.streams.push((entry.key, streaming.partitions));
        stream
    }

    /// The queue numbers of the partitions that are added to a stream.
    fn more_partitions(
        &self,
        entry: &AddressEntry,
        storage: &Storage,
        streaming: &Streaming,
        changes: &mut Changes,
    ) -> Vec<Option<u32>> {
        let before = self.streams.get(&entry.key).copied().unwrap_or(streaming.partitions);
        changes.settled.streams.push((entry.key, streaming.partitions.max(before)));
        (before..streaming.partitions).map(|number| self.declare_partition(entry, storage, number, changes)).collect()
    }

    /// The queue number of a new partition, if it is stored on disk.
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

    /// Declares a uid under the next queue number. The uid is that of an address, or of its
    /// partition after `before` existing ones.
    fn declare(&self, uid: &[u8; 16], entry: &AddressEntry, before: u32, changes: &mut Changes) -> u32 {
        let number = self.numbers.take();
        changes.batch.declare(number, uid, &entry.name);
        changes.openings.entry(entry.uid.to_string()).or_insert(before);
        number
    }

    fn opened_queue(&self, entry: &AddressEntry, storage: &Storage, changes: &mut Changes) -> OpenQueue {
        let (name, settings) = (entry.name.clone(), storage.settings.clone());
        if !storage.on_disk {
            return OpenQueue::new(name, settings, None);
        }
        let uid = uid_bytes(&entry.uid);
        match self.known.get(&uid) {
            Some(known) => OpenQueue::restored(name, settings, known),
            None => OpenQueue::new(name, settings, Some(self.declare(&uid, entry, 0, changes))),
        }
    }
}

/// A topic with its recovered subscriptions.
fn topic(
    entry: &AddressEntry,
    storage: &Storage,
    next: &Table,
    subscriptions: &RecoveredSubscriptions<'_>,
) -> StoredAddressChange {
    let (dead_letter, expiry) = targets(entry, storage, next);
    let opened = OpenTopic::new(entry.name.clone(), storage.settings.clone(), storage.on_disk);
    let known = subscriptions.of(entry).map(|kept| kept.opened_queue(entry, storage)).collect();
    let opened = opened.with_targets(dead_letter, expiry).with_retained(retained_of(entry, next)).with_known(known);
    StoredAddressChange::Topic(entry.declared(), Box::new(opened))
}

/// Unchanged addresses whose dead letter address, expiry address, topic or queue of retained messages
/// is a new address now.
fn redirected<'a>(diff: &'a Diff, next: &'a Table) -> impl Iterator<Item = &'a Arc<AddressEntry>> {
    let added: HashSet<AddressKey> =
        diff.added.iter().filter(|entry| entry.storage.is_some()).map(|entry| entry.key).collect();
    let notified: HashSet<AddressKey> = diff.changed.iter().map(|entry| entry.key).collect();
    // References stay within a space.
    let spaces: BTreeSet<SpaceKey> =
        diff.added.iter().filter(|entry| entry.storage.is_some()).map(|entry| entry.space).collect();
    let stored = spaces.into_iter().filter_map(|space| next.space(space)).flat_map(Space::addresses);
    stored.filter(move |entry| {
        let Some(storage) = entry.storage.as_ref() else { return false };
        let (dead_letter, expiry) = targets(entry, storage, next);
        let retained = (entry.kind == AddressKind::Topic).then(|| retained_of(entry, next)).flatten();
        let targets = [dead_letter, expiry, retained].map(|target| target.map(|target| target.key));
        let named = targets.into_iter().chain([topic_of(entry, storage, next)]);
        let names_added = named.flatten().any(|key| added.contains(&key));
        !added.contains(&entry.key) && !notified.contains(&entry.key) && names_added
    })
}

/// The declared dead letter and expiry addresses of an address.
fn targets(entry: &AddressEntry, storage: &Storage, table: &Table) -> (Option<Destination>, Option<Destination>) {
    let find = |name: &Option<Box<str>>| {
        let found = table.space(entry.space)?.resolve(name.as_deref()?)?;
        let home = found.home.get().filter(|_| found.kind == AddressKind::Queue)?;
        Some(Destination { key: found.key, home })
    };
    (find(&storage.dead_letter), find(&storage.expiry))
}

/// The queue with the retained messages of a topic's address space. The records of its sessions are
/// not retained.
fn retained_of(topic: &AddressEntry, table: &Table) -> Option<Destination> {
    let store = table.space(topic.space)?.mqtt().filter(|store| store.sessions.key != topic.key)?;
    Some(Destination { key: store.retained.key, home: store.retained.home.get()? })
}

/// The topic of a subscription, if it is declared.
fn topic_of(entry: &AddressEntry, storage: &Storage, table: &Table) -> Option<AddressKey> {
    let name = storage.topic.as_deref()?;
    let found = table.space(entry.space)?.resolve(name)?;
    (found.kind == AddressKind::Topic && *found.name == *name).then_some(found.key)
}

/// The uid of a stream's partition in the journal.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use enmasse_journal::log::simulated::SimulatedDisk;
    use enmasse_journal::log::{Config, Log};

    use super::*;
    use crate::plan::Plan;
    use crate::shard::subscribing::description_of;

    /// The state key of the description of a subscription.
    const SUBSCRIPTION: &[u8] = &[0x82];

    const PLAN: &str = r#"{"version": 1, "spaces": [{"uid": "s", "names": ["s"],
        "authentication": {"type": "none", "anonymous": true, "mechanisms": []},
        "addresses": [{"uid": "news", "name": "news", "type": "topic"},
            {"uid": "else", "name": "else", "type": "topic"}]}]}"#;

    /// The subscriptions that open after a restart, and those that the log has from then on, by
    /// their queue numbers. The log declares subscription `sub` of these topics, by topic and uid,
    /// under rising numbers.
    fn opened_after(declared: &[(&str, u8)]) -> (Vec<u32>, Vec<u32>) {
        restarted(PLAN, |batch| {
            for (queue, (topic, uid)) in (1..).zip(declared) {
                batch.declare(queue, &[*uid; 16], topic);
                batch.state(queue, SUBSCRIPTION, &description_of(topic, "client", "sub"));
            }
        })
    }

    /// The same after a restart with this Plan and the records that `write` puts into the log.
    fn restarted(plan: &str, write: impl FnOnce(&mut WriteBatch)) -> (Vec<u32>, Vec<u32>) {
        let disk = Arc::new(SimulatedDisk::new(512, 1));
        let (mut log, _) = Log::open(Arc::clone(&disk), Config::default()).unwrap();
        let mut batch = WriteBatch::new();
        write(&mut batch);
        log.append(&mut batch).and_then(|()| log.sync()).unwrap();
        let empty = Table::empty([1; 32]);
        let plan: Plan = serde_json::from_str(plan).unwrap();
        let table = Table::compile(&plan, &empty).unwrap();
        let (mut log, recovered) = Log::open(Arc::new(disk.as_seen()), Config::default()).unwrap();
        let mut changes = RecoveredQueues::new(recovered).follow(&empty.diff(&table), &table, 1);
        let opened = changes.address_changes[0].iter().flat_map(|change| match change {
            StoredAddressChange::Topic(_, opened) => opened.known_logs(),
            _ => Vec::new(),
        });
        let mut opened: Vec<u32> = opened.collect();
        opened.sort_unstable();
        log.append(&mut changes.batch).and_then(|()| log.sync()).unwrap();
        let disk = log.disk().as_seen();
        let (_, left) = Log::open(Arc::new(disk), Config::default()).unwrap();
        let left = left.queues.iter().filter(|queue| queue.declared.is_some()).map(|queue| queue.queue);
        (opened, left.collect())
    }

    /// An address that a Plan deletes and a later one adds again is declared before the record that
    /// drops its former queue is written, because records that free space wait for earlier ones.
    #[test]
    fn former_queue_of_an_address_that_was_added_again_is_dropped() {
        let plan = PLAN.replace(r#""name": "news", "type": "topic""#, r#""name": "news", "type": "queue""#);
        let uid = uid_bytes("news");
        let (opened, left) = restarted(&plan, |batch| {
            (1..=3).for_each(|queue| batch.declare(queue, &uid, "news"));
        });
        assert_eq!((opened, left), (Vec::new(), vec![3]));
    }

    /// The subscriptions of clients of MQTT that open after a restart, by their queue numbers: the log
    /// has the records of these sessions, by client id, and a subscription of each of clients 1 and 2.
    fn opened_of_sessions(recorded: &[&str]) -> Vec<u32> {
        let mqtt = r#""mqtt": {"retainedMessages": 10, "retainedBytes": 1000, "sessionExpiryS": 60}, "addresses""#;
        let plan = PLAN.replace(r#""addresses""#, mqtt);
        let empty = Table::empty([1; 32]);
        let table = Table::compile(&serde_json::from_str(&plan).unwrap(), &empty).unwrap();
        let records = table.spaces().next().and_then(Space::mqtt).expect("it keeps sessions").sessions.uid.to_string();
        let (opened, left) = restarted(&plan, |batch| {
            let mut write = |queue: u32, topic: &str, client: &str, name: &str| {
                batch.declare(queue, &[queue as u8; 16], topic);
                batch.state(queue, SUBSCRIPTION, &description_of(topic, client, name));
            };
            for (queue, client) in (10..).zip(recorded) {
                write(queue, &records, client, "mqtt:ann");
            }
            for (queue, client) in [(1, "1"), (2, "2")] {
                write(queue, "news", client, "mqtt:ann:news:news/#");
            }
            write(3, "news", "1", "mqtt of an AMQP client");
        });
        let of_topics = |queues: Vec<u32>| queues.into_iter().filter(|queue| *queue <= 3).collect();
        let (opened, left): (Vec<u32>, Vec<u32>) = (of_topics(opened), of_topics(left));
        assert_eq!(opened, left);
        opened
    }

    #[test]
    fn subscriptions_of_a_session_whose_record_is_gone_are_dropped() {
        assert_eq!(opened_of_sessions(&["1", "2"]), [1, 2, 3]);
        assert_eq!(opened_of_sessions(&["2"]), [2, 3]);
        assert_eq!(opened_of_sessions(&[]), [3]);
    }

    /// The uid decides the order in which subscriptions are recovered, so both orders are tried.
    #[test]
    fn subscription_created_again_before_the_drop_of_the_former_one_replaces_it() {
        for (former, later) in [(1, 2), (2, 1)] {
            assert_eq!(opened_after(&[("news", former), ("news", later)]), (vec![2], vec![2]));
            assert_eq!(opened_after(&[("news", former), ("else", later)]), (vec![2], vec![2]));
        }
        assert_eq!(opened_after(&[("news", 2), ("news", 3), ("news", 1)]), (vec![3], vec![3]));
    }
}
