//! What a message costs a shard, with its protocol and without sockets. `cargo run --release -p
//! enmasse-router --example shard_cost -- presettled 1000000` prints nanoseconds a message; the
//! client is not in the figure. One producer, one consumer. Loads: `presettled` and `unsettled`,
//! 100 bytes over an anycast address; `durable`, 1 KiB over a queue on a disk that keeps nothing.
//! `paced` behind the number of messages: the space has a pace, which is never reached.
//!
//! `make bench-instructions` counts the instructions of [`serve`] and [`append`] with it.

#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::connection::{Config, Connection, Event, LinkId, Outgoing, SessionId};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{
    Attach, Body, Header, Message, Open, Outcome, ReceiverSettleMode, Role, SenderSettleMode, Source, Target,
};
use enmasse_journal::log::{Config as LogConfig, Disk, Fault, Log};
use enmasse_journal::queue::Settings;
use enmasse_router::core::{Answer, OpenQueue, QueueNumbers, ReceiveBudget, SETTLE_TIMEOUT_MS, SubscriptionNames};
use enmasse_router::plan::Plan;
use enmasse_router::shard::{ConnId, DynamicNodes, Guesses, LinkNames, Load, Peer, Shard, Shared, StoredAddressChange};
use enmasse_router::table::Table;

const PLAN: &str = include_str!("../../../vectors/plans/open.json");
const PACE: &str = "\"links\": null, \"messagesPerSecond\": 1000000000000";
const QUEUE: &str =
    "\"addresses\": [{\"uid\": \"q\", \"name\": \"queue\", \"type\": \"queue\", \"durability\": \"disk\"},";
/// Messages of a turn, at most: a read of a socket brings as many.
const BATCH: u32 = 500;
/// Credit of the consumer, renewed when half of it is used.
const CREDIT: u32 = 2000;

/// A load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Presettled,
    Unsettled,
    Durable,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        match name {
            "presettled" => Some(Self::Presettled),
            "unsettled" => Some(Self::Unsettled),
            "durable" => Some(Self::Durable),
            _ => None,
        }
    }

    fn address(self) -> &'static str {
        if self == Self::Durable { "queue" } else { "anycast" }
    }

    fn payload(self) -> Vec<u8> {
        let header = Header { durable: true, ..Header::default() };
        let (header, size) = if self == Self::Durable { (Some(header), 1024) } else { (None, 100) };
        let mut payload = Vec::new();
        encode_message(&mut payload, &Message { header, body: Body::Data(vec![vec![7; size]]), ..Message::default() });
        payload
    }
}

/// Segments of which only the length is known.
#[derive(Default)]
struct Nowhere(Mutex<BTreeMap<u32, u64>>);

impl Disk for Nowhere {
    fn list(&self) -> Result<Vec<u32>, Fault> {
        Ok(self.0.lock().expect("no panic").keys().copied().collect())
    }
    fn length(&self, segment: u32) -> Result<u64, Fault> {
        self.0.lock().expect("no panic").get(&segment).copied().ok_or(Fault::Missing)
    }
    fn create(&self, segment: u32, bytes: u64) -> Result<(), Fault> {
        self.0.lock().expect("no panic").insert(segment, bytes);
        Ok(())
    }
    fn write(&self, _: u32, _: u64, _: &[IoSlice<'_>]) -> Result<(), Fault> {
        Ok(())
    }
    fn read(&self, segment: u32, _: u64, _: &mut [u8]) -> Result<usize, Fault> {
        self.length(segment).map(|_| 0)
    }
    fn sync(&self, _: u32) -> Result<(), Fault> {
        Ok(())
    }
    fn sync_folder(&self) -> Result<(), Fault> {
        Ok(())
    }
    fn remove(&self, segment: u32) -> Result<(), Fault> {
        self.0.lock().expect("no panic").remove(&segment).map(|_| ()).ok_or(Fault::Missing)
    }
    fn recycle(&self, from: u32, to: u32) -> Result<(), Fault> {
        let bytes = self.length(from)?;
        self.remove(from)?;
        self.create(to, bytes)
    }
}

struct Client {
    machine: Connection,
    id: ConnId,
    session: Option<SessionId>,
    unread: Vec<u8>,
    messages: u64,
    settled: u64,
}

impl Client {
    fn new(shard: &mut Shard, name: &str) -> Self {
        let id = shard.connect(Time::ZERO, &Peer { loopback: true, ..Peer::default() });
        let open = Open { container_id: name.to_owned(), ..Open::default() };
        let machine = Connection::client(Arc::new(Config::default()), Time::ZERO, false, open);
        Self { machine, id, session: None, unread: Vec::new(), messages: 0, settled: 0 }
    }

    fn collect(&mut self) {
        let mut rest = &self.unread[..];
        let mut held = Vec::new();
        while let Some(event) = self.machine.poll_event(Time::ZERO, &mut rest) {
            match event {
                Event::Transfer(transfer) => {
                    self.messages += 1;
                    if !transfer.settled {
                        held.push((transfer.link, transfer.delivery_id));
                    }
                }
                Event::Disposition { session, first, last, settled, .. } => {
                    let count = &mut self.settled;
                    self.machine.take_settled(session, first, last, settled, |_, _| *count += 1);
                }
                _ => {}
            }
        }
        let left = rest.len();
        self.unread.drain(..self.unread.len() - left);
        for (link, delivery_id) in held {
            self.machine.settle(link, delivery_id, &Outcome::Accepted);
        }
    }

    fn attach(&mut self, role: Role, address: &str) -> LinkId {
        let attach = Attach {
            name: "link".to_owned(),
            handle: 0,
            role,
            snd_settle_mode: SenderSettleMode::Mixed,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: Some(Box::new(Source { address: Some(address.to_owned()), ..Source::default() })),
            target: Some(Box::new(Target::node(Some(address.to_owned())))),
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: (role == Role::Sender).then_some(0),
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Vec::new(),
        };
        let session = self.session.expect("it has a session");
        self.machine.attach(session, attach).expect("the session is open")
    }
}

/// A turn of a worker, without its sockets.
#[inline(never)]
fn serve(shard: &mut Shard, inputs: [(ConnId, &[u8]); 2]) {
    for (id, bytes) in inputs {
        let progress = shard.input_within(Time::ZERO, id, bytes, u64::MAX);
        assert_eq!(progress.used, bytes.len(), "the shard takes all");
    }
    shard.end_turn(Time::ZERO);
    while shard.dirty().is_some() {}
}

/// The shard learns what the log has.
#[inline(never)]
fn answer(shard: &mut Shard, answers: Vec<Answer>) {
    shard.journaled(answers);
    shard.end_turn(Time::ZERO);
    while shard.dirty().is_some() {}
}

/// What the thread of the journal does.
#[inline(never)]
fn append(shard: &mut Shard, log: &mut Log<Nowhere>) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some(mut batch) = shard.take_journal() {
        let result = log.append(&mut batch).and_then(|()| log.sync());
        answers.push(Answer { batch, result });
    }
    log.turn().expect("the log goes on");
    answers
}

struct Bench {
    shard: Shard,
    log: Log<Nowhere>,
    both: [Client; 2],
    spent: Duration,
}

impl Bench {
    fn new(paced: bool) -> Self {
        let plan = PLAN.replacen("\"addresses\": [", QUEUE, 1);
        let text = if paced { plan.replace("\"links\": null", PACE) } else { plan };
        let plan: Plan = serde_json::from_str(&text).expect("the plan is in order");
        let table = Arc::new(Table::compile(&plan, &Table::empty([7; 32])).expect("the plan compiles"));
        let shared = Shared {
            connection: Arc::new(Config::default()),
            dynamic: DynamicNodes::default(),
            mqtt: Arc::default(),
            link_names: LinkNames::default(),
            subscription_names: SubscriptionNames::default(),
            loads: vec![Load::default()],
            link_capacity: 1000,
            message_size_max: None,
            mqtt_hold_ms: 10_000,
            multicast_settle_timeout_ms: SETTLE_TIMEOUT_MS,
            queue_numbers: QueueNumbers::new(1),
            insecure: false,
            receive_budget: Arc::new(ReceiveBudget::new(1 << 30)),
            guesses: Mutex::new(Guesses::new(7)),
            cordoned: std::sync::atomic::AtomicBool::new(false),
        };
        let mut shard = Shard::new(0, Arc::new(shared), Arc::clone(&table), Box::new(|bytes| bytes.fill(7)));
        let space = table.spaces().next().expect("a space");
        let queue = space.resolve("queue").expect("the queue");
        assert_eq!(queue.home.claim(0), 0);
        let opened = OpenQueue::new("queue".into(), Settings::default(), Some(1));
        shard.change_stored_addresses(vec![StoredAddressChange::Open(queue.declared(), Box::new(opened))]);
        let (log, _) = Log::open(Arc::new(Nowhere::default()), LogConfig::default()).expect("the log opens");
        let both = [Client::new(&mut shard, "to"), Client::new(&mut shard, "from")];
        Self { shard, log, both, spent: Duration::ZERO }
    }

    /// The clients say what there is to say, and hear the answers of the shard.
    fn turn(&mut self) {
        let inputs = self.both.each_mut().map(|client| {
            client.machine.flush(Time::ZERO);
            (client.id, std::mem::take(client.machine.output()))
        });
        let begun = Instant::now();
        serve(&mut self.shard, inputs.each_ref().map(|(id, bytes)| (*id, &bytes[..])));
        self.spent += begun.elapsed();
        while self.shard.poll_request().is_some() {}
        let answers = append(&mut self.shard, &mut self.log);
        if !answers.is_empty() {
            let begun = Instant::now();
            answer(&mut self.shard, answers);
            self.spent += begun.elapsed();
        }
        for client in &mut self.both {
            if let Some(output) = self.shard.output(client.id) {
                client.unread.append(output);
            }
            self.shard.written(client.id);
            client.collect();
        }
    }

    /// Attaches the consumer and the producer.
    fn set_up(&mut self, kind: Kind) -> [LinkId; 2] {
        self.turn();
        self.both.iter_mut().for_each(|client| client.session = client.machine.begin().ok());
        self.turn();
        let into = self.both[0].attach(Role::Receiver, kind.address());
        self.turn();
        self.both[0].machine.grant(into, CREDIT);
        let out = self.both[1].attach(Role::Sender, kind.address());
        for _ in 0..3 {
            self.turn();
        }
        [into, out]
    }

    fn run(&mut self, kind: Kind, count: u64) {
        let [into, out] = self.set_up(kind);
        let payload = kind.payload();
        let mut idle = 0;
        self.spent = Duration::ZERO;
        while self.both[0].messages < count {
            let before = self.both[0].messages;
            let sender = &mut self.both[1].machine;
            let mut tokens = 0..;
            for _ in 0..sender.sendable(out).min(BATCH) {
                let token = if kind == Kind::Presettled { None } else { tokens.next() };
                let message =
                    Outgoing { token, message_format: 0, first: true, more: false, aborted: false, payload: &payload };
                sender.transfer(out, message).expect("there is credit");
            }
            self.turn();
            if self.both[0].machine.credit(into) < CREDIT / 2 {
                self.both[0].machine.grant(into, CREDIT);
            }
            idle = if self.both[0].messages == before { idle + 1 } else { 0 };
            assert!(idle < 10, "messages go on");
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: shard_cost presettled|unsettled|durable [messages] [paced]";
    let kind = arguments.next().and_then(|name| Kind::named(&name)).expect(usage);
    let count: u64 = arguments.next().map_or(1_000_000, |text| text.parse().expect("a number of messages"));
    let mut bench = Bench::new(arguments.next().is_some_and(|word| word == "paced"));
    bench.run(kind, count);
    let [to, from] = &bench.both;
    assert!(kind == Kind::Presettled || from.settled + 2 * u64::from(BATCH) >= to.messages, "producers are answered");
    println!("{:.1} ns a message", bench.spent.as_nanos() as f64 / to.messages as f64);
}
