//! Streams, with a log on a simulated disk: promises to producers, deliveries to readers, and the
//! state after a restart.

mod crash;
mod exactly_once;
mod life;
mod random;
mod transactions;

use std::collections::HashMap;
use std::sync::Arc;

use enmasse_amqp::codec::stamp::Stamp;
use enmasse_amqp::codec::{decode_message, encode_message};
use enmasse_amqp::types::{Body, Error, Fields, Message, Outcome, Symbol, Value};
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{Config, Log, Recovered, WriteBatch};
use enmasse_journal::queue;
use enmasse_journal::stream::{Retention, Settings};
use enmasse_router::core::{
    AddressKey, AddressKind, Answer, AttachmentId, AttachmentRole, Consuming, Declared, Delivery, Handover, Links,
    OpenQueue, Read, Replacement, Router, Start, Stream, ToLink, TransactionId,
};

use crate::whole;

const STREAM: AddressKey = AddressKey(1);
/// A queue on the same node.
const QUEUE: AddressKey = AddressKey(50);
const PRODUCER: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 0 };

/// The notifications of the links.
#[derive(Default)]
struct Recorded {
    got: Vec<Got>,
    settled: Vec<(u32, Outcome)>,
    closed: HashMap<AttachmentId, Error>,
    properties: HashMap<AttachmentId, Fields>,
    drained: Vec<AttachmentId>,
    taken: u32,
    provisional: Vec<u32>,
    /// outcomes of postings that were refused
    refused_postings: Vec<(u32, Outcome)>,
    discharged: Vec<(TransactionId, Result<(), Error>)>,
    /// attachments without room
    full: Vec<AttachmentId>,
    /// those of a recalled record, from its client
    packet_ids: Option<Vec<u16>>,
    /// those that are on disk, by the records of their sessions
    kept: Vec<(AttachmentId, u16)>,
}

#[derive(Clone, Debug)]
struct Got {
    attachment: AttachmentId,
    token: Option<u64>,
    partition: u32,
    offset: u64,
    at_ms: i64,
    text: String,
    payload: Vec<u8>,
}

impl Links for Recorded {
    fn hand_over(&mut self, _: u16, _: Handover<'_>) {
        unreachable!("all addresses have this home");
    }

    fn replace(&mut self, _: u16, _: Replacement) {
        unreachable!("all addresses have this home");
    }

    fn transfer(&mut self, attachment: AttachmentId, delivery: &Delivery<'_>) -> bool {
        if self.full.contains(&attachment) {
            return false;
        }
        // Deliveries of the queue have none.
        let nowhere = Stamp { partition: u32::MAX, offset: 0, enqueued_ms: 0 };
        let stamp = Stamp::of(delivery.payload).unwrap_or(nowhere);
        let Body::Data(data) = decode_message(delivery.payload).expect("a message").body else { panic!("no data") };
        self.got.push(Got {
            attachment,
            token: delivery.token,
            partition: stamp.partition,
            offset: stamp.offset,
            at_ms: stamp.enqueued_ms,
            text: String::from_utf8(data.concat()).expect("text"),
            payload: delivery.payload.to_vec(),
        });
        true
    }

    fn send(&mut self, command: ToLink<'_>) {
        match command {
            ToLink::Provisional { delivery_id, outcome, .. } => match outcome.into_owned() {
                Outcome::Accepted => self.provisional.push(delivery_id),
                refused => self.refused_postings.push((delivery_id, refused)),
            },
            ToLink::Discharged { transaction, result } => self.discharged.push((transaction, result)),
            ToLink::Attached { attachment, answer: Ok(properties) } => {
                self.properties.insert(attachment, properties);
            }
            ToLink::Attached { attachment, answer: Err(error) } => {
                self.closed.insert(attachment, error);
            }
            ToLink::Settle { delivery_id, outcome, .. } => self.settled.push((delivery_id, outcome.into_owned())),
            ToLink::Taken { count, .. } => self.taken += count,
            ToLink::Open { open, .. } => assert!(open, "a stream takes what comes"),
            ToLink::Drained { attachment } => self.drained.push(attachment),
            ToLink::Close { attachment, error } => {
                self.closed.insert(attachment, error.into_owned());
            }
            ToLink::PacketIds { from_client, .. } => self.packet_ids = Some(from_client),
            ToLink::PacketId { record, packet, kept: true } => self.kept.push((record, packet.id)),
            ToLink::Hold { .. } | ToLink::Halted { .. } | ToLink::Recalled { .. } => {}
            other => panic!("unexpected command of a stream: {other:?}"),
        }
    }
}

/// A router with a stream, and a log.
struct Site {
    router: Router,
    recorded: Recorded,
    disk: Arc<SimulatedDisk>,
    log: Log<SimulatedDisk>,
    settings: Settings,
    partitions: u32,
    on_disk: bool,
    attachments: u32,
    sent: u32,
    now_ms: u64,
    /// bodies that were read
    read: Vec<enmasse_journal::log::RecordLocation>,
    /// batches that the log has not answered are held back
    slow: bool,
    held: Vec<Answer>,
}

impl Site {
    fn new(partitions: u32, settings: Settings) -> Self {
        Self::on(Arc::new(SimulatedDisk::new(512, 7)), partitions, settings, true)
    }

    fn on(disk: Arc<SimulatedDisk>, partitions: u32, settings: Settings, on_disk: bool) -> Self {
        let config = Config { segment_bytes: 64 << 10, secret: 1, ..Config::default() };
        let (log, recovered) = Log::open(Arc::clone(&disk), config).expect("a log");
        let mut site = Self {
            router: Router::new(0, 42),
            recorded: Recorded::default(),
            disk,
            log,
            settings,
            partitions,
            on_disk,
            attachments: 1,
            sent: 0,
            now_ms: 1_000_000,
            read: Vec::new(),
            slow: false,
            held: Vec::new(),
        };
        site.router.set_time(site.now_ms);
        site.open(&recovered);
        site.router.attach(PRODUCER, declared(), producer(None), &mut site.recorded);
        site
    }

    fn open(&mut self, recovered: &Recovered) {
        let mut stream = Stream::new("events".into(), "u-1", self.settings.clone());
        let mut batch = WriteBatch::new();
        for number in 1..=self.partitions {
            let known = recovered.queues.iter().find(|queue| queue.queue == number);
            stream = match known.filter(|_| self.on_disk) {
                Some(known) => stream.with_restored(known),
                None => stream.with_partition(self.on_disk.then_some(number)),
            };
            if known.is_none() {
                batch.declare(number, &[number as u8; 16], "events");
            }
        }
        if !batch.is_empty() {
            self.log.append(&mut batch).expect("room");
            self.log.sync().expect("a disk that works");
        }
        self.router.open_stream(declared(), stream, &mut self.recorded);
        let known = recovered.queues.iter().find(|queue| queue.queue == QUEUE.0);
        let settings = queue::Settings::default();
        let opened = match known {
            Some(known) => OpenQueue::restored("orders".into(), settings, known),
            None => {
                batch.declare(QUEUE.0, &[QUEUE.0 as u8; 16], "orders");
                self.log.append(&mut batch).expect("room");
                self.log.sync().expect("a disk that works");
                OpenQueue::new("orders".into(), settings, Some(QUEUE.0))
            }
        };
        self.router.open_queue(
            Declared { key: QUEUE, kind: AddressKind::Queue, ..declared() },
            opened,
            &mut self.recorded,
        );
    }

    /// The process is killed and started again, later.
    fn restarted(self) -> Self {
        let disk = self.disk.as_seen();
        self.restarted_on(disk)
    }

    /// The same, with the content of another disk.
    fn restarted_on(self, disk: SimulatedDisk) -> Self {
        let now_ms = self.now_ms;
        let mut site = Self::on(Arc::new(disk), self.partitions, self.settings, self.on_disk);
        site.now_ms = now_ms;
        site.router.set_time(now_ms);
        site
    }

    fn reader(&mut self, start: Start, credit: u32) -> AttachmentId {
        self.reader_that(Consuming { start, ..Consuming::default() }, credit)
    }

    fn reader_that(&mut self, consuming: Consuming, credit: u32) -> AttachmentId {
        let attachment = AttachmentId { shard: 0, generation: 0, index: self.attachments };
        self.attachments += 1;
        self.router.attach(
            attachment,
            declared(),
            AttachmentRole::Consumer { filter: None, consuming },
            &mut self.recorded,
        );
        self.router.credit(attachment, credit, false, &mut self.recorded);
        attachment
    }

    fn send(&mut self, text: &str) -> u32 {
        self.send_message(&Message { body: Body::Data(vec![text.into()]), ..Message::default() })
    }

    /// To one partition.
    fn send_to(&mut self, partition: u32, text: &str) -> u32 {
        let message_annotations = vec![(Symbol::from("x-opt-partition"), Value::Uint(partition))];
        self.send_message(&Message { message_annotations, body: Body::Data(vec![text.into()]), ..Message::default() })
    }

    fn send_message(&mut self, message: &Message) -> u32 {
        self.send_from(PRODUCER, message)
    }

    fn send_from(&mut self, attachment: AttachmentId, message: &Message) -> u32 {
        let mut payload = Vec::new();
        encode_message(&mut payload, message);
        let id = self.sent;
        self.sent += 1;
        self.router.deliver(attachment, whole(id, &payload), &mut self.recorded);
        id
    }

    /// A turn, with one answer of the log for each batch, unless the log is slow.
    fn turn(&mut self) -> bool {
        self.router.turn(&mut self.recorded);
        let mut idle = true;
        while let Some(mut batch) = self.router.take_journal() {
            idle = false;
            let result = self.log.append(&mut batch).and_then(|()| self.log.sync());
            self.held.push(Answer { batch, result });
        }
        if !self.slow {
            for answer in std::mem::take(&mut self.held) {
                self.router.journaled(answer, &mut self.recorded);
            }
        }
        if let Some(segment) = self.log.wants_compacted() {
            self.router.compact(segment);
        }
        // The disk works if it accepts a write.
        while !self.slow && self.log.turn().unwrap_or(false) && self.log.sync().is_ok() {}
        let wanted = self.router.take_wanted();
        idle &= wanted.is_empty();
        self.read.extend(&wanted);
        let reader = self.log.reader();
        let read = wanted.into_iter().map(|place| {
            let mut buffer = Vec::new();
            (place, Read::from(reader.read(place, &mut buffer)))
        });
        let read: Vec<_> = read.collect();
        self.router.fetched(read, &mut self.recorded);
        let due = self.router.next_timeout().is_some_and(|at| at <= self.now_ms);
        idle && !due
    }

    /// Turns until nothing is left to do.
    fn pump(&mut self) {
        for _ in 0..100_000 {
            if self.turn() {
                return;
            }
        }
        panic!("there is work for ever");
    }

    /// The log answers all batches at once.
    fn answer(&mut self) {
        for answer in std::mem::take(&mut self.held) {
            self.router.journaled(answer, &mut self.recorded);
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.router.set_time(self.now_ms);
        self.pump();
    }

    fn got(&mut self) -> Vec<Got> {
        std::mem::take(&mut self.recorded.got)
    }

    /// The deliveries: offset and text.
    fn texts(&mut self) -> Vec<(u64, String)> {
        self.got().into_iter().map(|got| (got.offset, got.text)).collect()
    }

    /// Everything that is kept, by partition: offset and text.
    fn all(&mut self) -> Vec<Vec<(u64, String)>> {
        let reader = self.reader(Start::First, 1_000_000);
        self.pump();
        let mut all = vec![Vec::new(); self.partitions as usize];
        for got in self.got().into_iter().filter(|got| got.attachment == reader) {
            all[got.partition as usize].push((got.offset, got.text));
        }
        self.router.detach(reader, &mut self.recorded);
        all
    }

    fn accepted(&self) -> Vec<u32> {
        let accepted = self.recorded.settled.iter().filter(|(_, outcome)| *outcome == Outcome::Accepted);
        accepted.map(|(delivery, _)| *delivery).collect()
    }

    /// First and next offset of a partition, as reported to links.
    fn bounds(&self, partition: u32) -> (u64, u64) {
        let described = self.router.describe(STREAM).expect("it is here");
        let Some(Value::List(partitions)) = described.partitions else { panic!("no list") };
        let Value::Map(fields) = &partitions[partition as usize] else { panic!("no map") };
        match fields.iter().map(|(_, value)| value).collect::<Vec<_>>()[..] {
            [Value::Uint(number), Value::Ulong(first), Value::Ulong(next)] if *number == partition => (*first, *next),
            ref other => panic!("{other:?}"),
        }
    }
}

fn declared() -> Declared {
    Declared { key: STREAM, kind: AddressKind::Stream, link_capacity: 100, space: 1 }
}

fn producer(name: Option<&str>) -> AttachmentRole {
    AttachmentRole::Producer { anonymous: false, name: None, producer_name: name.map(Into::into), resume: None }
}

fn keeping(bytes: u64) -> Settings {
    Settings { retention: Retention { bytes: Some(bytes), age_ms: None }, ..Settings::default() }
}

fn lines(texts: &[(u64, &str)]) -> Vec<(u64, String)> {
    texts.iter().map(|(offset, text)| (*offset, (*text).to_owned())).collect()
}
