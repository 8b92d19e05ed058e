//! Stored addresses, with a log on a simulated disk: promises to producers, deliveries to
//! consumers, and the state after a restart.

mod bounds;
mod compacting;
mod consuming;
mod crash;
mod deleting;
mod lanes;
mod life;
mod manage;
mod plain;
mod reading;
mod resuming;
mod retained;
mod sending;
mod sent;
mod subscriptions;
mod topics;
mod transactions;
mod transactions_model;
mod transactions_refused;
mod transactions_topics;

use std::sync::Arc;

use enmasse_amqp::codec::{decode_message, encode_message};
use enmasse_amqp::types::{Body, Error, Message, Modified, Outcome, Value};
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{Config, Fault, Log, Recovered, Refused, WriteBatch};
use enmasse_journal::queue::{Settings, Ttl};
use enmasse_router::core::{
    AddressKey, AddressKind, Answer, AttachmentId, AttachmentRole, Consuming, Declared, Delivery, Destination,
    Handover, Hold, LAST_VALUE_OF_TO, Links, OpenQueue, OpenTopic, QueueNumbers, Read, ReceiveBudget, Replacement,
    Router, ToLink, TransactionId, Unsettled,
};

use crate::whole;

/// An address as the destination of another one with the same home.
const fn here(key: AddressKey) -> Destination {
    Destination { key, home: 0 }
}

const QUEUE: AddressKey = AddressKey(1);
const DEAD: AddressKey = AddressKey(2);
const TOPIC: AddressKey = AddressKey(3);
/// A declared subscription of the topic.
const DECLARED: AddressKey = AddressKey(4);
/// The queue of retained messages.
const RETAINED: AddressKey = AddressKey(5);
/// A queue in memory of another address space.
const OTHER: AddressKey = AddressKey(31);
/// The application property of last-value queues here.
const KEY: &str = "key";

/// The notifications of the links.
#[derive(Default)]
struct Recorded {
    got: Vec<Got>,
    settled: Vec<(u32, Outcome)>,
    /// deliveries with a provisional outcome
    provisional: Vec<u32>,
    /// outcomes of postings that were refused
    refused_postings: Vec<(u32, Outcome)>,
    discharged: Vec<(TransactionId, Result<(), Error>)>,
    open: Option<bool>,
    room: Vec<(AttachmentId, u32)>,
    held: Option<bool>,
    closed: usize,
    /// of the last durable subscription that was requested by its name
    recalled: Option<Vec<u8>>,
    /// links that were answered
    attached: Vec<AttachmentId>,
    /// links that were turned away
    refused: usize,
    drained: usize,
    full: bool,
    /// what links were notified of unsettled deliveries
    maps: Vec<(AttachmentId, Unsettled)>,
    /// deliveries whose outcome counts for good
    confirmed: Vec<(AttachmentId, u64)>,
    /// the name of the delivery that comes next
    name: Option<(u64, bool)>,
}

#[derive(Clone, Debug)]
struct Got {
    attachment: AttachmentId,
    token: u64,
    /// of a link that can be resumed: its number, and whether it comes again
    name: Option<(u64, bool)>,
    message: Message,
}

impl Got {
    fn text(&self) -> String {
        match &self.message.body {
            Body::Data(data) => String::from_utf8(data.concat()).expect("text"),
            other => panic!("no text: {other:?}"),
        }
    }

    fn annotation(&self, name: &str) -> Option<&Value> {
        let mut all = self.message.message_annotations.iter();
        all.find(|(key, _)| key.as_str() == name).map(|(_, value)| value)
    }
}

impl Links for Recorded {
    fn hand_over(&mut self, _: u16, _: Handover<'_>) {
        unreachable!("all addresses have this home");
    }

    fn replace(&mut self, _: u16, _: Replacement) {
        unreachable!("all addresses have this home");
    }

    fn transfer(&mut self, attachment: AttachmentId, delivery: &Delivery<'_>) -> bool {
        if self.full {
            return false;
        }
        let message = decode_message(delivery.payload).expect("a message");
        let (token, name) = (delivery.token.expect("an unsettled delivery"), self.name.take());
        self.got.push(Got { attachment, token, name, message });
        true
    }

    fn send(&mut self, command: ToLink<'_>) {
        match command {
            ToLink::Unsettled { attachment, unsettled } => self.maps.push((attachment, unsettled)),
            ToLink::Name { number, again, .. } => self.name = Some((number, again)),
            ToLink::Settled { attachment, token } => self.confirmed.push((attachment, token)),
            ToLink::Recalled { description, .. } => self.recalled = Some(description.to_vec()),
            ToLink::Attached { attachment, answer } => {
                self.refused += usize::from(answer.is_err());
                self.attached.extend(answer.is_ok().then_some(attachment));
            }
            ToLink::Settle { delivery_id, outcome, .. } => self.settled.push((delivery_id, outcome.into_owned())),
            ToLink::Provisional { delivery_id, outcome, .. } => match outcome.into_owned() {
                Outcome::Accepted => self.provisional.push(delivery_id),
                refused => self.refused_postings.push((delivery_id, refused)),
            },
            ToLink::Discharged { transaction, result } => self.discharged.push((transaction, result)),
            ToLink::Open { open, .. } => self.open = Some(open),
            ToLink::Room { attachment, room } => self.room.push((attachment, room)),
            ToLink::Hold { hold, .. } => self.held = Some(hold != Hold::No),
            ToLink::Drained { .. } => self.drained += 1,
            ToLink::Close { .. } => self.closed += 1,
            ToLink::Taken { .. } | ToLink::Halted { .. } | ToLink::PacketId { .. } => {}
            other => panic!("unexpected command of a router: {other:?}"),
        }
    }
}

/// A router with a queue, a dead letter, and a log.
struct House {
    router: Router,
    recorded: Recorded,
    disk: Arc<SimulatedDisk>,
    log: Log<SimulatedDisk>,
    settings: Settings,
    /// of the topic
    topic: Settings,
    /// of the queue of retained messages, if there is one
    retained: Option<Settings>,
    attachments: u32,
    sent: u32,
    /// most bodies that were requested at once
    most_wanted: usize,
    now_ms: u64,
    /// the log has not accepted a batch
    refused: bool,
}

const PRODUCER: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 0 };
const PUBLISHER: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 1 };
/// Of the queue of another address space.
const OTHER_PRODUCER: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 400 };

impl House {
    fn new(settings: Settings) -> Self {
        Self::on(Arc::new(SimulatedDisk::new(512, 7)), settings)
    }

    fn on(disk: Arc<SimulatedDisk>, settings: Settings) -> Self {
        Self::with_topic(disk, settings, Settings::default())
    }

    /// With a budget for received bytes, and a queue in memory of another address space.
    fn with_budget(budget_bytes: u64) -> Self {
        let disk = Arc::new(SimulatedDisk::new(512, 7));
        let mut house = Self::built(disk, Settings::default(), Settings::default(), None, budget_bytes);
        let queue = OpenQueue::new("other".into(), Settings::default(), None);
        house.router.open_queue(of_other_space(), queue, &mut house.recorded);
        house.router.attach(OTHER_PRODUCER, of_other_space(), producer(), &mut house.recorded);
        house.recorded = Recorded::default();
        house
    }

    fn with_topic(disk: Arc<SimulatedDisk>, settings: Settings, topic: Settings) -> Self {
        Self::built(disk, settings, topic, None, u64::MAX)
    }

    fn built(
        disk: Arc<SimulatedDisk>,
        settings: Settings,
        topic: Settings,
        retained: Option<Settings>,
        budget_bytes: u64,
    ) -> Self {
        let config = Config { segment_bytes: 64 << 10, secret: 1, ..Config::default() };
        let (log, recovered) = Log::open(Arc::clone(&disk), config).expect("a log");
        let (router, recorded) = (Router::new(0, 42), Recorded::default());
        let mut house = Self {
            router,
            recorded,
            disk,
            log,
            settings,
            topic,
            retained,
            attachments: 2,
            sent: 0,
            most_wanted: 0,
            now_ms: 1_000_000,
            refused: false,
        };
        house.router.set_receive_budget(Arc::new(ReceiveBudget::new(budget_bytes)));
        house.router.set_time(house.now_ms);
        house.open(&recovered);
        house.router.attach(PRODUCER, declared(QUEUE), producer(), &mut house.recorded);
        house.router.attach(PUBLISHER, news(), publisher("news"), &mut house.recorded);
        house.recorded = Recorded::default();
        house
    }

    fn open(&mut self, recovered: &Recovered) {
        if recovered.queues.is_empty() {
            let mut batch = WriteBatch::new();
            batch.declare(1, &[1; 16], "orders");
            batch.declare(2, &[2; 16], "dead");
            batch.declare(3, &[3; 16], "news::all");
            if self.retained.is_some() {
                batch.declare(4, &[4; 16], "retained");
            }
            self.log.append(&mut batch).expect("room");
            self.log.sync().expect("a disk that works");
        }
        let opened = |number: u32, name: &str, settings: Settings| {
            let known = recovered.queues.iter().find(|queue| queue.queue == number);
            known.map_or_else(
                || OpenQueue::new(name.into(), settings.clone(), Some(number)),
                |known| OpenQueue::restored(name.into(), settings.clone(), known),
            )
        };
        let orders = opened(1, "orders", self.settings.clone()).with_targets(Some(here(DEAD)), None);
        let orders = orders.with_last_value_key(self.settings.last_value.then(|| KEY.into()));
        self.router.open_queue(declared(DEAD), opened(2, "dead", Settings::default()), &mut self.recorded);
        self.router.open_queue(declared(QUEUE), orders, &mut self.recorded);
        let all = opened(3, "news::all", self.topic.clone()).of_topic(Some(TOPIC));
        self.router.open_queue(declared(DECLARED), all.with_targets(Some(here(DEAD)), None), &mut self.recorded);
        let kept = recovered.queues.iter().filter_map(|queue| subscriptions::kept(queue, &self.topic));
        let retained = self.retained.clone().map(|settings| opened(4, "retained", settings));
        let first_number = if retained.is_some() { 5 } else { 4 };
        let topic = OpenTopic::new("news".into(), self.topic.clone(), true).with_targets(Some(here(DEAD)), None);
        let opened = topic.with_retained(retained.is_some().then_some(Destination { key: RETAINED, home: 0 }));
        if let Some(retained) = retained {
            let retained = retained.with_last_value_key(Some(LAST_VALUE_OF_TO.into()));
            self.router.open_queue(declared(RETAINED), retained, &mut self.recorded);
        }
        self.router.set_queue_numbers(QueueNumbers::new(recovered.next_queue.max(first_number)));
        self.router.open_topic(news(), opened.with_known(kept.collect()), &mut self.recorded);
    }

    /// The process is killed and started again.
    fn restarted(self) -> Self {
        Self::built(Arc::new(self.disk.as_seen()), self.settings, self.topic, self.retained, u64::MAX)
    }

    fn consumer(&mut self, address: AddressKey, credit: u32) -> AttachmentId {
        self.consumer_that(address, credit, Consuming::default())
    }

    fn consumer_that(&mut self, address: AddressKey, credit: u32, consuming: Consuming) -> AttachmentId {
        let attachment = AttachmentId { shard: 0, generation: 0, index: self.attachments };
        self.attachments += 1;
        self.router.attach(
            attachment,
            declared(address),
            AttachmentRole::Consumer { filter: None, consuming },
            &mut self.recorded,
        );
        self.router.credit(attachment, credit, false, &mut self.recorded);
        attachment
    }

    fn send(&mut self, text: &str) -> u32 {
        self.send_message(&Message { body: Body::Data(vec![text.into()]), ..Message::default() })
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

    /// Writes the batches of the log, and holds its answers back for [`House::answered`].
    fn written(&mut self) -> Vec<Answer> {
        self.router.turn(&mut self.recorded);
        let mut answers = Vec::new();
        while let Some(mut batch) = self.router.take_journal() {
            let result = self.log.append(&mut batch).and_then(|()| self.log.sync());
            answers.push(Answer { batch, result });
        }
        answers
    }

    /// As [`House::written`], on a full disk: the log takes no batch.
    fn refused(&mut self) -> Vec<Answer> {
        self.router.turn(&mut self.recorded);
        let batches = std::iter::from_fn(|| self.router.take_journal());
        batches.map(|batch| Answer { batch, result: Err(Refused::NoRoom(Fault::Full)) }).collect()
    }

    /// As [`House::written`], after the disk has failed: the log takes no batch any more.
    fn stopped(&mut self) -> Vec<Answer> {
        self.router.turn(&mut self.recorded);
        let batches = std::iter::from_fn(|| self.router.take_journal());
        batches.map(|batch| Answer { batch, result: Err(Refused::Stopped("it is broken".to_owned())) }).collect()
    }

    fn answered(&mut self, answers: Vec<Answer>) {
        answers.into_iter().for_each(|answer| self.router.journaled(answer, &mut self.recorded));
        self.pump();
    }

    /// Writes and answers the batches of the log, and performs its reads, until nothing is left.
    fn pump(&mut self) {
        let mut rounds = 0;
        loop {
            self.router.turn(&mut self.recorded);
            let mut idle = true;
            while let Some(mut batch) = self.router.take_journal() {
                idle = false;
                let result = self.log.append(&mut batch).and_then(|()| self.log.sync());
                rounds += 1;
                self.refused |= result.is_err();
                assert!(rounds < 10_000, "the log is offered work for ever: {result:?}");
                self.router.journaled(Answer { batch, result }, &mut self.recorded);
            }
            let wanted = self.router.take_wanted();
            idle &= wanted.is_empty();
            self.most_wanted = self.most_wanted.max(wanted.len());
            let reader = self.log.reader();
            let read = wanted.into_iter().map(|place| {
                let mut buffer = Vec::new();
                (place, Read::from(reader.read(place, &mut buffer)))
            });
            let read: Vec<_> = read.collect();
            self.router.fetched(read, &mut self.recorded);
            if idle {
                return;
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.router.set_time(self.now_ms);
        self.pump();
    }

    fn answer(&mut self, got: &Got, outcome: &Outcome) {
        self.router.outcome(got.token, outcome, &mut self.recorded);
        self.pump();
    }

    fn got(&mut self) -> Vec<Got> {
        std::mem::take(&mut self.recorded.got)
    }

    fn texts(&mut self) -> Vec<String> {
        self.got().iter().map(Got::text).collect()
    }
}

/// How many entries of a kind the log keeps as state of the queue.
fn states_on(disk: &SimulatedDisk, kind: u8) -> usize {
    let config = Config { segment_bytes: 64 << 10, secret: 1, ..Config::default() };
    let (_, recovered) = Log::open(Arc::new(disk.as_seen()), config).expect("a log");
    let queue = recovered.queues.iter().find(|queue| queue.queue == QUEUE.0).expect("the queue");
    queue.states.keys().filter(|key| key[0] == kind).count()
}

fn of_other_space() -> Declared {
    Declared { space: 2, ..declared(OTHER) }
}

fn declared(key: AddressKey) -> Declared {
    Declared { key, kind: AddressKind::Queue, link_capacity: 100, space: 1 }
}

fn news() -> Declared {
    Declared { key: TOPIC, kind: AddressKind::Topic, link_capacity: 100, space: 1 }
}

fn publisher(name: &str) -> AttachmentRole {
    AttachmentRole::Producer { anonymous: false, name: Some(name.into()), producer_name: None, resume: None }
}

fn producer() -> AttachmentRole {
    AttachmentRole::Producer { anonymous: false, name: None, producer_name: None, resume: None }
}

fn ttl(maximum_ms: u64) -> Ttl {
    Ttl { minimum_ms: None, maximum_ms: Some(maximum_ms) }
}

fn failed() -> Outcome {
    Outcome::Modified(Box::new(Modified { delivery_failed: true, ..Modified::default() }))
}
