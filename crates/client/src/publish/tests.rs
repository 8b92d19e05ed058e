//! Posts, published to a test server: the test chooses what it accepts, refuses and returns.

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use enmasse_amqp::connection::{AttachReply, Config, Connection, Event as MachineEvent, LinkId, SaslPolicy};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Attach, Error as AmqpError, Open, Outcome as AmqpOutcome, Target, Value, condition};

use super::{LINKS_MAX, Post, Publisher, PublisherOptions};
use crate::ErrorKind;
use crate::client::ClientOptions;
use crate::testing::ScriptedServer;
use crate::url::Url;

/// Credit of a link.
const WINDOW: u32 = 10;

/// The behaviour of a server, and its messages by address.
#[derive(Default)]
struct Store {
    kept: BTreeMap<String, Vec<String>>,
    /// messages that are rejected, with the condition
    unwanted: Vec<(&'static str, &'static str)>,
    /// messages to return
    released: u32,
    /// messages after which the connection is closed without an outcome
    life: Option<u32>,
    /// names of producers
    producers: Vec<String>,
    links: usize,
    links_most: usize,
}

/// One connection of the server.
struct Served {
    store: Arc<Mutex<Store>>,
    machine: Connection,
    /// links with their address, producer, and whether they refuse further messages
    links: Vec<(LinkId, String, Option<String>, bool)>,
    over: bool,
}

impl ScriptedServer for Served {
    fn machine(&mut self) -> &mut Connection {
        &mut self.machine
    }

    fn handle(&mut self, event: MachineEvent<'_>) {
        match event {
            MachineEvent::Open(_) => self.machine.open(Open { container_id: "store".to_owned(), ..Open::default() }),
            MachineEvent::Attach { link, attach, .. } => self.attach(link, *attach),
            MachineEvent::Transfer(incoming) if !self.over => {
                let text = String::from_utf8_lossy(incoming.payload).into_owned();
                let (link, id) = (incoming.link, incoming.delivery_id);
                if let Some(outcome) = self.take(link, text) {
                    self.machine.settle(link, id, &outcome);
                    self.machine.grant(link, WINDOW);
                }
            }
            MachineEvent::Detach { link, .. } => {
                let before = self.links.len();
                self.links.retain(|(known, ..)| *known != link);
                self.store.lock().unwrap().links -= before - self.links.len();
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
        self.store.lock().unwrap().links -= self.links.len();
    }

    fn attach(&mut self, link: LinkId, attach: Attach) {
        let Some(Target::Node { address: Some(address), .. }) = attach.target.as_deref().cloned() else { panic!() };
        if address == "missing" {
            return self.machine.refuse(link, AmqpError::new(condition::NOT_FOUND, "missing is not there"));
        }
        let named = attach.properties.iter().find(|(name, _)| name.as_str() == "enmasse:producer");
        let producer = named.map(|(_, name)| match name {
            Value::String(name) => name.clone(),
            other => panic!("{other:?}"),
        });
        let mut store = self.store.lock().unwrap();
        store.producers.extend(producer.clone());
        store.links += 1;
        store.links_most = store.links_most.max(store.links);
        let reply = AttachReply { source: attach.source, target: attach.target, ..AttachReply::default() };
        let is_wanted = address != "absent";
        self.links.push((link, address, producer, false));
        self.machine.accept(link, reply);
        if is_wanted {
            self.machine.grant(link, WINDOW);
        }
    }

    /// The outcome of a message; `None`: the connection ends before it is answered.
    fn take(&mut self, link: LinkId, text: String) -> Option<AmqpOutcome> {
        let mut store = self.store.lock().unwrap();
        let (_, address, producer, halted) = self.links.iter_mut().find(|(known, ..)| *known == link)?;
        if *halted {
            return Some(AmqpOutcome::Released);
        }
        if let Some((_, why)) = store.unwanted.iter().find(|(unwanted, _)| text.ends_with(unwanted)) {
            *halted = producer.is_some();
            let error = AmqpError::new(condition_of(why), "it is not wanted");
            return Some(AmqpOutcome::Rejected(Some(Box::new(error))));
        }
        if store.released > 0 {
            store.released -= 1;
            return Some(AmqpOutcome::Released);
        }
        let kept = store.kept.entry(address.clone()).or_default();
        if producer.is_none() || !kept.contains(&text) {
            kept.push(text);
        }
        if let Some(life) = &mut store.life {
            *life -= 1;
            if *life == 0 {
                store.life = None;
                self.over = true;
                return None;
            }
        }
        Some(AmqpOutcome::Accepted)
    }
}

fn condition_of(name: &str) -> enmasse_amqp::types::Symbol {
    if name == "internal" { condition::INTERNAL_ERROR } else { condition::INVALID_FIELD }
}

fn serve(store: Store, producer: Option<&str>) -> (PublisherOptions, Arc<Mutex<Store>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("amqp://127.0.0.1:{}", listener.local_addr().unwrap().port())).unwrap();
    let store = Arc::new(Mutex::new(store));
    let shared = Arc::clone(&store);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let config = Arc::new(Config { idle_time_out_ms: None, ..Config::default() });
            let machine = Connection::server(config, Time::ZERO, SaslPolicy::Optional);
            let served = Served { store: Arc::clone(&shared), machine, links: Vec::new(), over: false };
            served.run(socket.unwrap());
        }
    });
    let server = ClientOptions { mechanisms: Some(Vec::new()), ..ClientOptions::new(url) };
    let producer = producer.map(str::to_owned);
    (PublisherOptions { servers: vec![server], producer, silence: Duration::from_secs(20) }, store)
}

fn post(messages: impl IntoIterator<Item = (&'static str, String)>) -> Post {
    let mut post = Post::default();
    for (address, text) in messages {
        post.put(address, None, |out| out.extend_from_slice(text.as_bytes()));
    }
    post
}

/// Publishes a whole post; returns the rejected messages of each call.
fn publish(publisher: &mut Publisher, post: &mut Post) -> Vec<Vec<(usize, String, String)>> {
    let mut rejected = Vec::new();
    loop {
        let done = publisher.publish(post).unwrap();
        let mut found = Vec::new();
        post.take_rejected(!done, |number, address, _, cause| {
            found.push((number, address.to_owned(), format!("{}: {}", cause.condition, cause.description)));
        });
        rejected.extend((!found.is_empty()).then_some(found));
        if done {
            return rejected;
        }
    }
}

fn numbers(address: &'static str, range: std::ops::Range<u32>) -> Vec<(&'static str, String)> {
    range.map(|number| (address, format!("{number:04}"))).collect()
}

fn texts(messages: &[(&'static str, String)]) -> Vec<String> {
    messages.iter().map(|(_, text)| text.clone()).collect()
}

#[test]
fn messages_arrive_in_their_order_at_each_address() {
    let (options, store) = serve(Store::default(), None);
    let mut publisher = Publisher::connect(options).unwrap();
    for first in [0, 500] {
        let mut parts = [numbers("a", first..first + 500), numbers("b", first..first + 3)];
        // a separate post numbers its addresses from the start
        parts.rotate_left((first / 500) as usize);
        let messages = parts.concat();
        assert!(publish(&mut publisher, &mut post(messages)).is_empty());
    }
    let store = store.lock().unwrap();
    assert_eq!(store.kept["a"], texts(&numbers("a", 0..1000)));
    assert_eq!(store.kept["b"], texts(&[numbers("b", 0..3), numbers("b", 500..503)].concat()));
    assert_eq!(store.links_most, 2);
}

#[test]
fn rejected_messages_have_a_cause_and_the_others_arrive_in_order() {
    for producer in [None, Some("p")] {
        let unwanted = vec![("03", "field"), ("57", "field"), ("99", "field")];
        let (options, store) = serve(Store { unwanted, ..Store::default() }, producer);
        let messages = [numbers("a", 0..300), numbers("b", 0..50)].concat();
        let rejected = publish(&mut Publisher::connect(options).unwrap(), &mut post(messages.clone()));
        // each numbered message has its outcome before a later one is stored
        assert_eq!(rejected.len() > 1, producer.is_some(), "{rejected:?}");
        let mut found = rejected.concat();
        found.sort();
        let why = "amqp:invalid-field: it is not wanted".to_owned();
        let at = |address: &str, number| (number, address.to_owned(), why.clone());
        let mut wanted = [3, 57, 99, 103, 157, 199, 203, 257, 299].map(|n| at("a", n)).to_vec();
        wanted.push(at("b", 303));
        assert_eq!(found, wanted);
        let messages = numbers("a", 0..300);
        let mut kept = texts(&messages);
        kept.retain(|text| !["03", "57", "99"].iter().any(|end| text.ends_with(end)));
        assert_eq!(store.lock().unwrap().kept["a"], kept);
        assert!(store.lock().unwrap().producers.iter().all(|name| name == "p"));
    }
}

#[test]
fn published_messages_are_sent_again_when_released() {
    for producer in [None, Some("p")] {
        let (options, store) = serve(Store { released: 25, ..Store::default() }, producer);
        let messages = numbers("a", 0..100);
        publish(&mut Publisher::connect(options).unwrap(), &mut post(messages.clone()));
        let mut kept = store.lock().unwrap().kept["a"].clone();
        kept.sort();
        assert_eq!(kept, texts(&messages));
    }
}

#[test]
fn post_resumes_on_a_new_connection_after_a_disconnect() {
    let (options, store) = serve(Store { life: Some(137), ..Store::default() }, Some("p"));
    let messages = numbers("a", 0..400);
    let mut post = post(messages.clone());
    let error = Publisher::connect(options.clone()).unwrap().publish(&mut post).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    Publisher::connect(options).unwrap().publish(&mut post).unwrap();
    assert_eq!(store.lock().unwrap().kept["a"], texts(&messages));
}

#[test]
fn address_without_credit_is_named_in_the_error() {
    let (options, store) = serve(Store::default(), None);
    let options = PublisherOptions { silence: Duration::from_millis(200), ..options };
    let mut post = post([numbers("a", 0..1), numbers("absent", 0..1)].concat());
    let error = Publisher::connect(options).unwrap().publish(&mut post).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    let says = "absent accepts no messages now: it has no receiver or is full";
    assert!(error.message.ends_with(says), "{error}");
    assert_eq!(store.lock().unwrap().kept["a"], texts(&numbers("a", 0..1)));
}

#[test]
fn rejection_is_reported_before_a_later_message_is_stored() {
    let (options, store) = serve(Store { unwanted: vec![("0030", "field")], ..Store::default() }, Some("p"));
    let mut post = post(numbers("a", 0..100));
    let mut publisher = Publisher::connect(options).unwrap();
    assert!(!publisher.publish(&mut post).unwrap());
    assert_eq!(store.lock().unwrap().kept["a"], texts(&numbers("a", 0..30)));
    let mut notified = 0;
    post.take_rejected(true, |number, _, _, _| notified = number);
    assert_eq!(notified, 30);
    assert!(publisher.publish(&mut post).unwrap());
    assert_eq!(store.lock().unwrap().kept["a"].len(), 99);
}

#[test]
fn internal_error_of_the_server_does_not_reject_the_message() {
    let (options, _) = serve(Store { unwanted: vec![("7", "internal")], ..Store::default() }, Some("p"));
    let mut post = post(numbers("a", 0..10));
    let error = Publisher::connect(options).unwrap().publish(&mut post).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    post.take_rejected(false, |number, _, _, _| panic!("{number}"));
}

#[test]
fn messages_to_a_missing_address_are_rejected_with_not_found() {
    let (options, store) = serve(Store::default(), Some("p"));
    let mut post = post([numbers("missing", 0..3), numbers("a", 0..3)].concat());
    let rejected = publish(&mut Publisher::connect(options).unwrap(), &mut post);
    let why = "amqp:not-found: missing is not there".to_owned();
    assert_eq!(rejected, [[0, 1, 2].map(|number| (number, "missing".to_owned(), why.clone())).to_vec()]);
    assert_eq!(store.lock().unwrap().kept["a"].len(), 3);
}

#[test]
fn publisher_keeps_a_bounded_number_of_links() {
    let (options, store) = serve(Store::default(), None);
    let names: Vec<&'static str> = (0..300).map(|n| &*Box::leak(format!("a{n}").into_boxed_str())).collect();
    let mut publisher = Publisher::connect(options).unwrap();
    for round in 0..2 {
        let messages = names.iter().flat_map(|name| numbers(name, round * 5..round * 5 + 5)).collect::<Vec<_>>();
        publish(&mut publisher, &mut post(messages));
    }
    let store = store.lock().unwrap();
    assert!(store.kept.len() == 300 && store.kept.values().all(|kept| kept.len() == 10));
    assert!(store.links_most <= LINKS_MAX, "{}", store.links_most);
}

#[test]
fn message_with_a_cause_is_not_sent_and_sort_reorders_the_post() {
    let (options, store) = serve(Store::default(), None);
    let mut one = post([("b", "2".to_owned()), ("a", "9".to_owned()), ("a", "1".to_owned())]);
    let cause = super::Cause { condition: "c".to_owned(), description: "d".to_owned() };
    one.put("a", Some(cause.clone()), |out| out.push(b'5'));
    one.sort();
    let mut order = Vec::new();
    one.each(|place, bytes| order.push((place, bytes.to_vec())));
    assert_eq!(order, [(0, b"1".to_vec()), (1, b"5".to_vec()), (2, b"9".to_vec()), (3, b"2".to_vec())]);
    let rejected = publish(&mut Publisher::connect(options).unwrap(), &mut one);
    assert_eq!(store.lock().unwrap().kept["a"], ["1", "9"]);
    assert_eq!(rejected, [[(3, "a".to_owned(), "c: d".to_owned())]]);
    assert_eq!((one.len(), one.size(), one.is_empty()), (4, 4, false));
}
