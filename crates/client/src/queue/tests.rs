//! Queues, read from a test server: the test chooses its messages, its answers and its omissions.

use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use enmasse_amqp::codec::{decode_message, encode_message};
use enmasse_amqp::connection::{AttachReply, Config, Connection, Event as MachineEvent, LinkId, Outgoing, SaslPolicy};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{
    Attach, Body, Error as AmqpError, Fields, Message, Open, Outcome as AmqpOutcome, Role, Symbol, Value, condition,
};

use super::{PRODUCT, Queue};
use crate::ErrorKind;
use crate::blocking::SourceOptions;
use crate::client::ClientOptions;
use crate::testing::ScriptedServer;
use crate::url::Url;

/// The messages and the behaviour of a server.
#[derive(Default)]
struct Store {
    /// bodies of the waiting messages
    waiting: VecDeque<Vec<u8>>,
    accepted: Vec<Vec<u8>>,
    /// stored as soon as the first messages are sent
    meanwhile: Vec<Vec<u8>>,
    /// the product name that the server announces
    product: Option<&'static str>,
    /// the capability of the address
    kind: Kind,
    /// the server reports that it has no more even when all credit is used
    talkative: bool,
    /// the most credit at a time
    credit_most: u32,
    /// messages that it may send before the connection is cut
    life: Option<usize>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Kind {
    #[default]
    Queue,
    Topic,
    Stream,
    /// messages have an offset, the only sign of a stream
    ForeignStream,
    Absent,
}

type Shared = Arc<Mutex<Store>>;

struct Served {
    store: Shared,
    machine: Connection,
    queue: Option<LinkId>,
    replies: Option<LinkId>,
    /// answers that wait for credit
    answers: VecDeque<Vec<u8>>,
    /// unsettled deliveries, by number
    sent: Vec<Option<Vec<u8>>>,
    over: bool,
}

impl ScriptedServer for Served {
    fn machine(&mut self) -> &mut Connection {
        &mut self.machine
    }

    fn handle(&mut self, event: MachineEvent<'_>) {
        match event {
            MachineEvent::Open(_) => {
                let product = self.store.lock().unwrap().product;
                let entry = |product: &str| (Symbol::constant("product"), Value::String(product.to_owned()));
                let properties: Fields = product.into_iter().map(entry).collect();
                self.machine.open(Open { container_id: "queue".to_owned(), properties, ..Open::default() });
            }
            MachineEvent::Attach { link, attach, .. } => self.attach(link, *attach),
            MachineEvent::Credit { link, credit, drain } if Some(link) == self.queue => self.send(link, credit, drain),
            MachineEvent::Credit { link, .. } if Some(link) == self.replies => self.hand_over(),
            MachineEvent::Disposition { session, first, last, settled, outcome } => {
                let Self { machine, sent, store, .. } = self;
                machine.take_settled(session, first, last, settled, |_, token| {
                    let body = sent[token as usize].take().expect("one outcome");
                    let mut store = store.lock().unwrap();
                    match outcome {
                        AmqpOutcome::Accepted => store.accepted.push(body),
                        AmqpOutcome::Released => store.waiting.push_back(body),
                        ref other => panic!("{other:?}"),
                    }
                });
            }
            MachineEvent::Transfer(incoming) => {
                let request = decode_message(incoming.payload).unwrap();
                self.answer(&request);
            }
            _ => {}
        }
    }

    fn over(&self) -> bool {
        self.over
    }
}

impl Served {
    fn run(mut self, socket: TcpStream) {
        self.play(socket);
        // messages without an outcome are available again
        let mut store = self.store.lock().unwrap();
        for body in self.sent.into_iter().flatten().rev() {
            store.waiting.push_front(body);
        }
    }

    fn attach(&mut self, link: LinkId, attach: Attach) {
        let store = self.store.lock().unwrap();
        if store.kind == Kind::Absent {
            return self.machine.refuse(link, AmqpError::new(condition::NOT_FOUND, "orders is not declared"));
        }
        let (mut source, mut properties) = (attach.source, Fields::new());
        if attach.role == Role::Receiver {
            let source = source.as_deref_mut().unwrap();
            if source.dynamic {
                source.address = Some("answers".to_owned());
                self.replies = Some(link);
            } else {
                self.queue = Some(link);
                source.capabilities.retain(|_| store.kind == Kind::Queue);
            }
            source.filter.clear();
            if store.kind == Kind::Stream {
                let state = vec![
                    (Value::String("uid".to_owned()), Value::String("u".to_owned())),
                    (Value::String("partitions".to_owned()), Value::List(Vec::new())),
                ];
                properties.push((Symbol::constant("enmasse:stream"), Value::Map(state)));
            }
        }
        drop(store);
        let settle = attach.snd_settle_mode;
        let reply = AttachReply {
            source,
            target: attach.target,
            snd_settle_mode: settle,
            properties,
            ..AttachReply::default()
        };
        self.machine.accept(link, reply);
        if attach.role == Role::Sender {
            self.machine.grant(link, 10);
        }
    }

    fn send(&mut self, link: LinkId, credit: u32, drain: bool) {
        let mut store = self.store.lock().unwrap();
        store.credit_most = store.credit_most.max(credit);
        while self.machine.sendable(link) > 0 && !self.over {
            let Some(body) = store.waiting.pop_front() else { break };
            let annotations = vec![(Symbol::constant("x-stream-offset"), Value::Ulong(0))];
            let message = Message {
                message_annotations: if store.kind == Kind::ForeignStream { annotations } else { Fields::new() },
                body: Body::Data(vec![body.clone()]),
                ..Message::default()
            };
            let mut payload = Vec::new();
            encode_message(&mut payload, &message);
            let token = Some(self.sent.len() as u64);
            let piece =
                Outgoing { token, message_format: 0, first: true, more: false, aborted: false, payload: &payload };
            self.machine.transfer(link, piece).unwrap();
            self.sent.push(Some(body));
            if let Some(life) = &mut store.life {
                *life -= 1;
                self.over = *life == 0;
            }
        }
        let more = std::mem::take(&mut store.meanwhile);
        store.waiting.extend(more);
        if drain && !self.over && (store.talkative || self.machine.sendable(link) > 0) {
            self.machine.drained(link);
        }
    }

    /// Answers a request of AMQP Management. Messages arrive in between if there is credit.
    fn answer(&mut self, request: &Message) {
        let named = |name: &str| request.application_properties.iter().find(|(key, _)| key == name).unwrap().1.clone();
        assert_eq!(named("operation"), Value::String("READ".to_owned()));
        let found = named("name") == Value::String("orders".to_owned());
        assert_eq!(request.properties.as_ref().unwrap().reply_to.as_deref(), Some("answers"));
        let depth = self.store.lock().unwrap().waiting.len() as u64;
        let entries = vec![(Value::String("depth".to_owned()), Value::Ulong(depth))];
        let body = if found { Body::Value(Value::Map(entries)) } else { Body::Value(Value::Null) };
        let mut payload = Vec::new();
        encode_message(&mut payload, &Message { body, ..Message::default() });
        self.answers.push_back(payload);
        self.hand_over();
    }

    fn hand_over(&mut self) {
        let link = self.replies.unwrap();
        while self.machine.sendable(link) > 0
            && let Some(payload) = &self.answers.pop_front()
        {
            let piece = Outgoing { token: None, message_format: 0, first: true, more: false, aborted: false, payload };
            self.machine.transfer(link, piece).unwrap();
        }
    }
}

fn serve(store: Store) -> (SourceOptions, Shared) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("amqp://127.0.0.1:{}", listener.local_addr().unwrap().port())).unwrap();
    let store = Arc::new(Mutex::new(store));
    let shared = Arc::clone(&store);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let config = Arc::new(Config { idle_time_out_ms: None, ..Config::default() });
            let machine = Connection::server(config, Time::ZERO, SaslPolicy::Optional);
            let store = Arc::clone(&shared);
            Served {
                store,
                machine,
                queue: None,
                replies: None,
                answers: VecDeque::new(),
                sent: Vec::new(),
                over: false,
            }
            .run(socket.unwrap());
        }
    });
    let server = ClientOptions { mechanisms: Some(Vec::new()), ..ClientOptions::new(url) };
    let (address, silence) = ("orders".to_owned(), Duration::from_secs(20));
    (SourceOptions { servers: vec![server], address, selector: None, silence }, store)
}

fn bodies(numbers: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    numbers.map(|number| number.to_string().into_bytes()).collect()
}

fn body(message: &[u8]) -> Vec<u8> {
    match decode_message(message).unwrap().body {
        Body::Data(parts) => parts.concat(),
        other => panic!("{other:?}"),
    }
}

/// The messages of one pull, and whether more may wait.
fn pull(queue: &mut Queue, count: u32, size: usize) -> (Vec<Vec<u8>>, bool) {
    let mut found = Vec::new();
    let more = queue.pull(count, size, &mut |message| found.push(body(message))).unwrap();
    (found, more)
}

#[test]
fn pull_returns_all_messages_in_order_and_settle_accepts_them() {
    for talkative in [false, true] {
        let waiting = bodies(0..20_000);
        let (options, store) = serve(Store { waiting: waiting.clone().into(), talkative, ..Store::default() });
        let mut queue = Queue::connect(options).unwrap();
        let mut found = Vec::new();
        loop {
            let (part, more) = pull(&mut queue, 3000, usize::MAX);
            assert!(part.len() <= 3000);
            found.extend(part);
            queue.settle(true);
            if !more {
                break;
            }
        }
        assert_eq!(found, waiting);
        // the server has received the last outcome once it has answered a later request
        assert_eq!(pull(&mut queue, 10, usize::MAX), (vec![], false));
        let store = store.lock().unwrap();
        assert_eq!(store.accepted, waiting);
        assert!(store.credit_most <= 3000);
    }
}

#[test]
fn messages_that_arrive_during_a_pull_are_returned() {
    for talkative in [false, true] {
        let (waiting, meanwhile) = (bodies(0..16).into(), bodies(16..300));
        let (options, _) = serve(Store { waiting, meanwhile, talkative, ..Store::default() });
        let mut queue = Queue::connect(options).unwrap();
        // as many as the first credit: another pull must check for more
        assert_eq!(pull(&mut queue, 1000, usize::MAX), (bodies(0..300), false));
    }
}

#[test]
fn released_messages_are_pulled_again() {
    let (options, store) = serve(Store { waiting: bodies(0..5).into(), ..Store::default() });
    let mut queue = Queue::connect(options.clone()).unwrap();
    assert_eq!(pull(&mut queue, 3, usize::MAX).0, bodies(0..3));
    queue.settle(false);
    assert_eq!(pull(&mut queue, 10, usize::MAX).0.len(), 5);
    assert_eq!(store.lock().unwrap().accepted.len(), 0);
    // Messages without an outcome are released when the connection ends.
    drop(queue);
    let mut queue = Queue::connect(options).unwrap();
    let (mut found, mut want) = (pull(&mut queue, 10, usize::MAX).0, bodies(0..5));
    found.sort();
    want.sort();
    assert_eq!(found, want);
}

#[test]
fn pull_ends_near_its_byte_limit() {
    let waiting = (0..3000).map(|_| vec![7; 10_000]).collect();
    let (options, _) = serve(Store { waiting, ..Store::default() });
    let mut queue = Queue::connect(options).unwrap();
    let (found, more) = pull(&mut queue, 10_000, 5_000_000);
    assert!(more);
    assert!((499..=510).contains(&found.len()), "{}", found.len());
    assert!((49..=51).contains(&pull(&mut queue, 10_000, 500_000).0.len()));
    assert_eq!(pull(&mut queue, 10_000, 1).0.len(), 1);
}

#[test]
fn address_that_is_not_a_queue_is_refused() {
    let cases = [
        (Kind::Topic, Some(PRODUCT), ErrorKind::Invalid, "name a queue"),
        (Kind::Stream, Some(PRODUCT), ErrorKind::Invalid, "remove the option spool"),
        (Kind::Absent, None, ErrorKind::Missing, "orders is not declared"),
    ];
    for (kind, product, error, text) in cases {
        let (options, _) = serve(Store { kind, product, ..Store::default() });
        let found = Queue::connect(options).err().unwrap();
        assert_eq!(found.kind, error, "{found}");
        assert!(found.message.contains(text), "{found}");
    }
    let (waiting, kind) = (bodies(0..1).into(), Kind::ForeignStream);
    let (options, _) = serve(Store { kind, waiting, ..Store::default() });
    let mut queue = Queue::connect(options).unwrap();
    let error = queue.pull(1, 1, &mut |_| {}).unwrap_err();
    assert!(error.message.contains("remove the option spool"), "{error}");
    let (options, _) = serve(Store::default());
    let selecting = SourceOptions { selector: Some("a = 1".to_owned()), ..options };
    assert!(Queue::connect(selecting).err().unwrap().message.contains("does not apply it"));
}

#[test]
fn depth_is_read_only_from_a_server_that_reports_it() {
    let (options, store) = serve(Store { waiting: bodies(0..7).into(), product: Some(PRODUCT), ..Store::default() });
    let mut queue = Queue::connect(options).unwrap();
    assert_eq!(queue.depth().unwrap(), Some(7));
    assert_eq!(pull(&mut queue, 3, usize::MAX).0.len(), 3);
    queue.settle(true);
    assert_eq!(queue.depth().unwrap(), Some(4));
    assert_eq!(store.lock().unwrap().accepted.len(), 3);
    let (options, _) = serve(Store { product: Some("RabbitMQ"), ..Store::default() });
    assert_eq!(Queue::connect(options).unwrap().depth().unwrap(), None);
}

#[test]
fn disconnect_during_a_pull_is_an_unavailable_error() {
    let (options, _) = serve(Store { waiting: bodies(0..100).into(), life: Some(40), ..Store::default() });
    let mut queue = Queue::connect(options).unwrap();
    let error = queue.pull(100, usize::MAX, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
}
