//! Stored addresses, with a log on a simulated disk: what is promised to producers, what consumers get, what is left
//! after a restart.

use std::sync::Arc;

use enmasse_amqp::codec::{decode_message, encode_message};
use enmasse_amqp::types::{Body, Error, Header, Message, Modified, Outcome, Symbol, Value, condition};
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{Batch, Config, Log, Recovered};
use enmasse_journal::queue::{Full, Limits, Redelivery, Settings, Ttl};
use enmasse_router::core::{
    AddressKey, AddressKind, Answer, Arrival, Declared, Delivery, Links, PortId, PortRole, Router, Shelf,
};

const QUEUE: AddressKey = AddressKey(1);
const DEAD: AddressKey = AddressKey(2);

/// What the links were told.
#[derive(Default)]
struct Told {
    got: Vec<Got>,
    settled: Vec<(u32, Outcome)>,
    open: Option<bool>,
    closed: usize,
    full: bool,
}

#[derive(Clone, Debug)]
struct Got {
    token: u64,
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

impl Links for Told {
    fn transfer(&mut self, _: PortId, delivery: &Delivery<'_>) -> bool {
        if self.full {
            return false;
        }
        let message = decode_message(delivery.payload).expect("a message");
        self.got.push(Got { token: delivery.token.expect("an unsettled delivery"), message });
        true
    }

    fn settle(&mut self, _: PortId, delivery_id: u32, outcome: &Outcome) {
        self.settled.push((delivery_id, outcome.clone()));
    }

    fn taken(&mut self, _: PortId, _: u32) {}
    fn open(&mut self, _: PortId, open: bool) {
        self.open = Some(open);
    }
    fn hold(&mut self, _: PortId, _: bool) {}
    fn drained(&mut self, _: PortId) {}
    fn halted(&mut self, _: PortId) {}
    fn close(&mut self, _: PortId, _: &Error) {
        self.closed += 1;
    }
}

/// A router with a queue, a dead letter, and a log.
struct House {
    router: Router,
    told: Told,
    disk: Arc<SimulatedDisk>,
    log: Log<SimulatedDisk>,
    settings: Settings,
    ports: u32,
    sent: u32,
    now_ms: u64,
}

const PRODUCER: PortId = PortId { shard: 0, generation: 0, index: 0 };

impl House {
    fn new(settings: Settings) -> Self {
        Self::on(Arc::new(SimulatedDisk::new(512, 7)), settings)
    }

    fn on(disk: Arc<SimulatedDisk>, settings: Settings) -> Self {
        let config = Config { segment_bytes: 64 << 10, secret: 1, ..Config::default() };
        let (log, recovered) = Log::open(Arc::clone(&disk), config).expect("a log");
        let (router, told) = (Router::new(0, 42), Told::default());
        let mut house = Self { router, told, disk, log, settings, ports: 1, sent: 0, now_ms: 1_000_000 };
        house.router.set_time(house.now_ms);
        house.open(&recovered);
        house.router.attach(PRODUCER, declared(QUEUE), producer(), &mut house.told);
        house
    }

    fn open(&mut self, recovered: &Recovered) {
        if recovered.queues.is_empty() {
            let mut batch = Batch::new();
            batch.declare(1, &[1; 16], "orders");
            batch.declare(2, &[2; 16], "dead");
            self.log.append(&mut batch).expect("room");
            self.log.sync().expect("a disk that works");
        }
        let shelf = |number: u32, name: &str, settings: Settings| {
            let known = recovered.queues.iter().find(|queue| queue.queue == number);
            known.map_or_else(
                || Shelf::new(name.into(), settings.clone(), Some(number)),
                |known| Shelf::restored(name.into(), settings.clone(), known),
            )
        };
        let orders = shelf(1, "orders", self.settings.clone()).with_targets(Some(DEAD), None);
        self.router.shelve(declared(DEAD), shelf(2, "dead", Settings::default()), &mut self.told);
        self.router.shelve(declared(QUEUE), orders, &mut self.told);
    }

    /// The process is killed and started again.
    fn restarted(self) -> Self {
        Self::on(Arc::new(self.disk.as_seen()), self.settings)
    }

    fn consumer(&mut self, address: AddressKey, credit: u32) -> PortId {
        let port = PortId { shard: 0, generation: 0, index: self.ports };
        self.ports += 1;
        self.router.attach(port, declared(address), PortRole::Consumer { filter: None }, &mut self.told);
        self.router.credit(port, credit, false, &mut self.told);
        port
    }

    fn send(&mut self, text: &str) -> u32 {
        self.send_message(&Message { body: Body::Data(vec![text.into()]), ..Message::default() })
    }

    fn send_message(&mut self, message: &Message) -> u32 {
        let mut payload = Vec::new();
        encode_message(&mut payload, message);
        let id = self.sent;
        self.sent += 1;
        let arrival = Arrival {
            delivery_id: id,
            settled: false,
            message_format: 0,
            first: true,
            more: false,
            aborted: false,
            payload: &payload,
        };
        self.router.deliver(PRODUCER, arrival, &mut self.told);
        id
    }

    /// What the log is given is written and answered, what is asked of the disk is read, until nothing is left.
    fn pump(&mut self) {
        loop {
            self.router.turn(&mut self.told);
            let mut idle = true;
            while let Some(mut batch) = self.router.take_journal() {
                idle = false;
                let result = self.log.append(&mut batch).and_then(|()| self.log.sync());
                self.router.journaled(Answer { batch, result }, &mut self.told);
            }
            let wanted = self.router.take_wanted();
            idle &= wanted.is_empty();
            let reader = self.log.reader();
            let read = wanted.into_iter().map(|place| {
                let mut buffer = Vec::new();
                (place, reader.read(place, &mut buffer).ok().map(<[u8]>::to_vec))
            });
            let read: Vec<_> = read.collect();
            self.router.fetched(read, &mut self.told);
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
        self.router.outcome(got.token, outcome, &mut self.told);
        self.pump();
    }

    fn got(&mut self) -> Vec<Got> {
        std::mem::take(&mut self.told.got)
    }

    fn texts(&mut self) -> Vec<String> {
        self.got().iter().map(Got::text).collect()
    }
}

fn declared(key: AddressKey) -> Declared {
    Declared { key, kind: AddressKind::Stored, link_capacity: 100 }
}

fn producer() -> PortRole {
    PortRole::Producer { anonymous: false, name: None }
}

fn failed() -> Outcome {
    Outcome::Modified(Box::new(Modified { delivery_failed: true, ..Modified::default() }))
}

#[test]
fn a_message_is_accepted_when_it_is_on_disk_and_not_before() {
    let mut house = House::new(Settings::default());
    house.consumer(QUEUE, 10);
    let id = house.send("a");
    assert!(house.told.settled.is_empty() && house.told.got.is_empty());
    house.pump();
    assert_eq!(house.told.settled, [(id, Outcome::Accepted)]);
    assert_eq!(house.texts(), ["a"]);
}

#[test]
fn producers_have_credit_without_a_consumer() {
    let house = House::new(Settings::default());
    assert_eq!(house.told.open, Some(true));
}

#[test]
fn messages_wait_for_consumers_and_leave_in_order() {
    let mut house = House::new(Settings::default());
    for n in 0..20 {
        house.send(&n.to_string());
    }
    house.pump();
    let consumer = house.consumer(QUEUE, 5);
    assert_eq!(house.texts(), ["0", "1", "2", "3", "4"]);
    house.router.credit(consumer, 7, false, &mut house.told);
    assert_eq!(house.texts(), ["5", "6"]);
}

#[test]
fn a_released_message_returns_to_its_place() {
    let mut house = House::new(Settings::default());
    for text in ["a", "b", "c", "d"] {
        house.send(text);
    }
    house.pump();
    house.consumer(QUEUE, 2);
    let got = house.got();
    house.answer(&got[1], &Outcome::Released);
    house.answer(&got[0], &Outcome::Released);
    house.consumer(QUEUE, 4);
    assert_eq!(house.texts(), ["a", "b", "c", "d"]);
    assert!(got.iter().all(|got| got.message.header.is_none()));
}

#[test]
fn what_a_lost_consumer_held_goes_to_the_next_and_counts_as_failed() {
    let mut house = House::new(Settings::default());
    house.send("a");
    house.pump();
    let first = house.consumer(QUEUE, 1);
    let held = house.got();
    house.answer(&held[0], &failed());
    house.router.detach(first, &mut house.told);
    house.consumer(QUEUE, 1);
    let again = house.got();
    assert_eq!(again[0].message.header.as_ref().map(|header| header.delivery_count), Some(1));
}

#[test]
fn after_a_restart_what_was_not_accepted_is_there_and_read_from_the_disk() {
    let mut house = House::new(Settings::default());
    for n in 0..200 {
        house.send(&format!("{n:>500}"));
    }
    house.pump();
    house.consumer(QUEUE, 3);
    let got = house.got();
    house.answer(&got[0], &Outcome::Accepted);
    house.answer(&got[2], &failed());
    let mut house = house.restarted();
    house.consumer(QUEUE, 500);
    house.pump();
    let got = house.got();
    let numbers: Vec<usize> = got.iter().map(|got| got.text().trim().parse().expect("a number")).collect();
    assert_eq!(numbers, (1..200).collect::<Vec<_>>());
    assert_eq!(got[1].message.header.as_ref().map(|header| header.delivery_count), Some(1));
}

#[test]
fn what_was_accepted_by_consumers_does_not_come_back() {
    let mut house = House::new(Settings::default());
    house.consumer(QUEUE, 100);
    for round in 0..10 {
        house.send(&round.to_string());
        house.pump();
        for got in house.got() {
            house.answer(&got, &Outcome::Accepted);
        }
    }
    let mut house = house.restarted();
    house.consumer(QUEUE, 100);
    house.pump();
    assert!(house.got().is_empty());
}

#[test]
fn a_consumer_that_finds_no_room_gets_the_message_later_and_in_order() {
    let mut house = House::new(Settings::default());
    house.told.full = true;
    let consumer = house.consumer(QUEUE, 10);
    house.send("a");
    house.send("b");
    house.pump();
    house.told.full = false;
    house.router.credit(consumer, 10, false, &mut house.told);
    assert_eq!(house.texts(), ["a", "b"]);
}

#[test]
fn a_rejected_message_goes_to_the_dead_letter_with_its_cause() {
    let settings = Settings { dead_letter: true, ..Settings::default() };
    let mut house = House::new(settings);
    house.consumer(QUEUE, 1);
    house.send("bad");
    house.pump();
    let got = house.got();
    let error = Error::new(condition::DECODE_ERROR, "no json");
    house.answer(&got[0], &Outcome::Rejected(Some(Box::new(error))));
    house.consumer(DEAD, 1);
    let dead = house.got();
    assert_eq!(dead[0].text(), "bad");
    assert_eq!(dead[0].annotation("x-opt-dead-letter-cause"), Some(&Value::String("rejected".into())));
    assert_eq!(dead[0].annotation("x-opt-dead-letter-description"), Some(&Value::String("no json".into())));
    assert_eq!(dead[0].annotation("x-opt-dead-letter-origin"), Some(&Value::String("orders".into())));
    let mut house = house.restarted();
    house.consumer(QUEUE, 1);
    house.pump();
    assert!(house.got().is_empty(), "it is in one place only");
    house.consumer(DEAD, 1);
    house.pump();
    assert_eq!(house.texts(), ["bad"]);
}

#[test]
fn attempts_end_in_the_dead_letter() {
    let redelivery = Redelivery { attempts_max: 3, ..Redelivery::default() };
    let mut house = House::new(Settings { dead_letter: true, redelivery, ..Settings::default() });
    house.consumer(QUEUE, 10);
    house.send("m");
    house.pump();
    for attempt in 0..3 {
        let got = house.got();
        assert_eq!(got[0].message.header.as_ref().map_or(0, |header| header.delivery_count), attempt);
        house.answer(&got[0], &failed());
    }
    house.consumer(DEAD, 1);
    assert_eq!(
        house.got()[0].annotation("x-opt-dead-letter-cause"),
        Some(&Value::String("maximum-delivery-attempts".into()))
    );
}

#[test]
fn annotations_that_a_consumer_changes_are_there_the_next_time() {
    let mut house = House::new(Settings::default());
    house.consumer(QUEUE, 5);
    house.send("m");
    house.pump();
    let got = house.got();
    let message_annotations = vec![(Symbol::from("seen"), Value::Uint(1))];
    house.answer(&got[0], &Outcome::Modified(Box::new(Modified { message_annotations, ..Modified::default() })));
    assert_eq!(house.got()[0].annotation("seen"), Some(&Value::Uint(1)));
}

#[test]
fn a_message_expires_without_a_consumer() {
    let mut house = House::new(Settings::default());
    let header = Some(Header { ttl: Some(5_000), ..Header::default() });
    house.send_message(&Message { header, body: Body::Data(vec![b"old".to_vec()]), ..Message::default() });
    house.send("new");
    house.pump();
    assert!(house.router.next_timeout().is_some_and(|at| at <= house.now_ms + 6_000));
    house.pass(6_000);
    house.consumer(QUEUE, 5);
    assert_eq!(house.texts(), ["new"]);
}

#[test]
fn what_is_left_of_its_life_is_told_with_the_message() {
    let mut house =
        House::new(Settings { ttl: Ttl { minimum_ms: None, maximum_ms: Some(4_000) }, ..Settings::default() });
    let header = Some(Header { ttl: Some(60_000), ..Header::default() });
    house.send_message(&Message { header, body: Body::Data(vec![b"m".to_vec()]), ..Message::default() });
    house.pass(1_000);
    house.consumer(QUEUE, 1);
    assert_eq!(house.got()[0].message.header.as_ref().and_then(|header| header.ttl), Some(3_000));
}

#[test]
fn a_full_queue_that_blocks_takes_credit_away_and_gives_it_again() {
    let limits = Limits { messages: 4, ..Limits::default() };
    let mut house = House::new(Settings { limits, full: Full::Block, ..Settings::default() });
    for _ in 0..4 {
        house.send("m");
    }
    house.pump();
    assert_eq!(house.told.open, Some(false));
    house.consumer(QUEUE, 4);
    for got in house.got() {
        house.answer(&got, &Outcome::Accepted);
    }
    assert_eq!(house.told.open, Some(true));
}

#[test]
fn a_full_queue_that_rejects_says_so() {
    let limits = Limits { messages: 1, ..Limits::default() };
    let mut house = House::new(Settings { limits, full: Full::Reject, ..Settings::default() });
    house.send("a");
    house.send("b");
    house.pump();
    let [(0, Outcome::Accepted) | (1, _), ..] = &house.told.settled[..] else { panic!("{:?}", house.told.settled) };
    let refused = house.told.settled.iter().find(|(id, _)| *id == 1).expect("an answer");
    let Outcome::Rejected(Some(error)) = &refused.1 else { panic!("{refused:?}") };
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
}

#[test]
fn a_full_disk_refuses_and_removals_go_on() {
    let mut house = House::new(Settings::default());
    house.consumer(QUEUE, 1000);
    house.disk.set_capacity_bytes(house.disk.used_bytes() + (256 << 10));
    let text = "x".repeat(30_000);
    let mut refused = None;
    for _ in 0..40 {
        let id = house.send(&text);
        house.pump();
        if let Some((_, Outcome::Rejected(Some(error)))) = house.told.settled.iter().find(|settled| settled.0 == id) {
            refused = Some(error.condition.clone());
            break;
        }
    }
    assert_eq!(refused, Some(condition::RESOURCE_LIMIT_EXCEEDED));
    for got in house.got() {
        house.answer(&got, &Outcome::Accepted);
    }
    for _ in 0..8 {
        house.log.turn().expect("the disk works");
        house.pump();
    }
    let id = house.send("after");
    house.pump();
    assert!(house.told.settled.contains(&(id, Outcome::Accepted)), "space has come back");
}

#[test]
fn bytes_that_are_no_message_are_rejected() {
    let mut house = House::new(Settings::default());
    let arrival = Arrival {
        delivery_id: 9,
        settled: false,
        message_format: 0,
        first: true,
        more: false,
        aborted: false,
        payload: b"hello",
    };
    house.router.deliver(PRODUCER, arrival, &mut house.told);
    let [(9, Outcome::Rejected(Some(error)))] = &house.told.settled[..] else { panic!("{:?}", house.told.settled) };
    assert_eq!(error.condition, condition::DECODE_ERROR);
}

#[test]
fn a_message_in_parts_is_stored_whole_and_a_void_one_not_at_all() {
    let mut house = House::new(Settings::default());
    house.consumer(QUEUE, 5);
    let mut payload = Vec::new();
    encode_message(&mut payload, &Message { body: Body::Data(vec![vec![b'p'; 1000]]), ..Message::default() });
    let mut part = |from: usize, to: usize, more: bool, aborted: bool| {
        let payload = &payload[from..to];
        let first = from == 0;
        let arrival = Arrival { delivery_id: 3, settled: false, message_format: 0, first, more, aborted, payload };
        house.router.deliver(PRODUCER, arrival, &mut house.told);
    };
    part(0, 400, true, false);
    part(400, 500, false, true);
    part(0, 400, true, false);
    part(400, 700, true, false);
    part(700, payload.len(), false, false);
    house.pump();
    assert_eq!(house.texts(), ["p".repeat(1000)]);
    assert_eq!(house.told.settled, [(3, Outcome::Accepted)]);
}

#[test]
fn a_deleted_address_loses_its_messages_for_good() {
    let mut house = House::new(Settings::default());
    house.send("m");
    house.pump();
    house.router.retire(QUEUE, &Error::new(condition::RESOURCE_DELETED, "deleted"), &mut house.told);
    house.pump();
    assert_eq!(house.told.closed, 1);
    let (_, recovered) = Log::open(Arc::new(house.disk.as_seen()), Config::default()).expect("a log");
    assert!(recovered.queues.iter().all(|queue| queue.queue != 1));
}

#[test]
fn one_consumer_more_than_the_limit_is_turned_away() {
    let limits = Limits { consumers: 1, ..Limits::default() };
    let mut house = House::new(Settings { limits, ..Settings::default() });
    house.consumer(QUEUE, 1);
    assert_eq!(house.told.closed, 0);
    house.consumer(QUEUE, 1);
    assert_eq!(house.told.closed, 1);
}

#[test]
fn one_producer_more_than_the_limit_is_turned_away() {
    let limits = Limits { producers: 1, ..Limits::default() };
    let mut house = House::new(Settings { limits, ..Settings::default() });
    let port = PortId { shard: 0, generation: 0, index: 77 };
    house.router.attach(port, declared(QUEUE), producer(), &mut house.told);
    assert_eq!(house.told.closed, 1);
    house.router.detach(PRODUCER, &mut house.told);
    house.router.attach(port, declared(QUEUE), producer(), &mut house.told);
    assert_eq!(house.told.closed, 1);
}
