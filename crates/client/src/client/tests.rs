//! Clients against a real node: links, credit, outcomes, transports, logins.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use enmasse_amqp::types::{Fields, Value};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Client, ClientOptions, Event, Handle, LinkOptions, Outcome, Reason};
use crate::ErrorKind;
use crate::testing::{PASSWORD, Server, USER};
use crate::transport::TlsOptions;
use crate::url::Url;

/// How long an event may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client with blocking access to its events.
struct Peer {
    client: Client,
    seen: RefCell<VecDeque<Event>>,
}

/// Whether the properties of a server's open have a text.
fn announces(properties: &Fields, name: &str, text: &str) -> bool {
    properties.iter().any(|(key, value)| key.as_str() == name && *value == Value::String(text.to_owned()))
}

impl Peer {
    fn new(client: Client) -> Self {
        Self { client, seen: RefCell::default() }
    }

    fn connect(options: &ClientOptions) -> Self {
        Self::new(Client::connect(options).unwrap())
    }

    /// Connects and sees the connection open.
    fn open(options: &ClientOptions) -> Self {
        let peer = Self::connect(options);
        let Event::Opened { properties } = peer.next() else { panic!("it is not open") };
        assert!(announces(&properties, "product", "EnMasse"));
        assert!(announces(&properties, "enmasse:space", "default"), "{properties:?}");
        peer
    }

    fn at(url: &Url) -> Self {
        Self::open(&ClientOptions::new(url.clone()))
    }

    /// The next event.
    fn next(&self) -> Event {
        let start = Instant::now();
        loop {
            if let Some(event) = self.seen.borrow_mut().pop_front() {
                return event;
            }
            assert!(start.elapsed() < PATIENCE, "no event arrived");
            let mut ready = [PollFd::from_borrowed_fd(self.client.event_fd(), PollFlags::IN)];
            poll(&mut ready, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).unwrap();
            self.seen.borrow_mut().extend(self.client.poll(100));
        }
    }

    /// The next event that `pick` takes; others are dropped.
    fn find<T>(&self, pick: impl Fn(Event) -> Option<T>) -> T {
        loop {
            let event = self.next();
            assert!(!matches!(event, Event::Closed { .. }), "{event:?}");
            if let Some(found) = pick(event) {
                return found;
            }
        }
    }

    fn sender(&self, address: &str) -> Handle {
        let link = self.client.attach_sender(Some(address.to_owned()), LinkOptions::default()).unwrap();
        assert_eq!(self.next(), attached(link, Some(address)));
        link
    }

    fn receiver(&self, address: &str, credit: u32) -> Handle {
        let link = self.client.attach_receiver(Some(address.to_owned()), LinkOptions::default()).unwrap();
        assert_eq!(self.next(), attached(link, Some(address)));
        self.client.credit(link, credit);
        link
    }

    fn wait_credit(&self, link: Handle) -> u32 {
        self.find(|event| match event {
            Event::Credit { link: of, credit } if of == link => Some(credit),
            _ => None,
        })
    }

    fn send(&self, link: Handle, messages: &[Vec<u8>], settled: bool) -> u32 {
        self.client.send(link, &mut messages.iter().map(Vec::as_slice), settled).unwrap()
    }

    fn message(&self) -> (Handle, u64, bool, Vec<u8>) {
        self.find(|event| match event {
            Event::Message { link, delivery, settled, payload } => Some((link, delivery, settled, payload)),
            _ => None,
        })
    }

    /// The outcomes of the next `count` messages, by their numbers.
    fn outcomes(&self, count: usize) -> Vec<(u64, Outcome)> {
        let mut outcomes = Vec::new();
        while outcomes.len() < count {
            let (first, last, outcome) = self.find(|event| match event {
                Event::Settled { first, last, outcome, .. } => Some((first, last, outcome)),
                _ => None,
            });
            outcomes.extend((first..=last).map(|number| (number, outcome.clone())));
        }
        outcomes.sort_by_key(|(number, _)| *number);
        outcomes
    }

    fn closed(&self) -> Option<Reason> {
        loop {
            if let Event::Closed { reason } = self.next() {
                return reason;
            }
        }
    }
}

fn attached(link: Handle, address: Option<&str>) -> Event {
    Event::Attached {
        link,
        address: address.map(str::to_owned),
        filters: Vec::new(),
        capabilities: Vec::new(),
        stream: None,
    }
}

fn message(text: &str) -> Vec<u8> {
    let mut bytes = vec![0, 0x53, 0x75, 0xa0, text.len() as u8];
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn tls(server: &Server) -> TlsOptions {
    TlsOptions { ca: Some(server.ca()), ..TlsOptions::default() }
}

fn with_user(url: &Url, password: &str) -> Url {
    Url { user: Some(USER.to_owned()), password: Some(password.to_owned()), ..url.clone() }
}

#[test]
fn sender_receives_every_outcome_of_the_receiver() {
    let server = Server::open();
    let url = server.listen("amqp");
    let (consumer, producer) = (Peer::at(&url), Peer::at(&url));
    let receiver = consumer.receiver("anycast", 10);
    let sender = producer.sender("anycast");
    assert_eq!(producer.wait_credit(sender), 10);
    let outcomes = [
        Outcome::Accepted,
        Outcome::Released,
        Outcome::Rejected { error: Some(("my:condition".to_owned(), Some("it is so".to_owned()))) },
        Outcome::Rejected { error: None },
        Outcome::Modified { delivery_failed: true, undeliverable_here: false },
        Outcome::Modified { delivery_failed: false, undeliverable_here: true },
    ];
    let messages: Vec<_> = (0..outcomes.len()).map(|number| message(&number.to_string())).collect();
    assert_eq!(producer.send(sender, &messages, false), 6);
    for (number, outcome) in (0..).zip(&outcomes) {
        assert_eq!(consumer.message(), (receiver, number, false, messages[number as usize].clone()));
        consumer.client.settle(receiver, number, number, outcome.clone());
    }
    assert_eq!(producer.outcomes(6), (0..).zip(outcomes).collect::<Vec<_>>());
}

#[test]
fn settled_messages_arrive_settled_and_have_no_outcome() {
    let server = Server::open();
    let url = server.listen("amqp");
    let peer = Peer::at(&url);
    let receiver = peer.receiver("anycast", 10);
    let sender = peer.sender("anycast");
    peer.wait_credit(sender);
    assert_eq!(peer.send(sender, &[message("a")], true), 1);
    assert_eq!(peer.message(), (receiver, 0, true, message("a")));
    assert_eq!(peer.send(sender, &[message("b")], false), 1);
    assert_eq!(peer.message(), (receiver, 1, false, message("b")));
    peer.client.settle(receiver, 0, 1, Outcome::Accepted);
    assert_eq!(peer.outcomes(1), [(1, Outcome::Accepted)]);
}

#[test]
fn presettled_messages_are_sent_before_detach_or_close() {
    let server = Server::open();
    let url = server.listen("amqp");
    let consumer = Peer::at(&url);
    let receiver = consumer.receiver("anycast", 1000);
    for round in 0..20 {
        let producer = Peer::at(&url);
        let sender = producer.sender("anycast");
        producer.wait_credit(sender);
        let messages: Vec<_> = (0..5).map(|number| message(&number.to_string())).collect();
        assert_eq!(producer.send(sender, &messages, true), 5);
        if round % 2 == 0 {
            producer.client.detach(sender);
        }
        producer.client.close();
        for (number, sent) in (round * 5..).zip(messages) {
            assert_eq!(consumer.message(), (receiver, number, true, sent));
        }
        producer.closed();
    }
}

#[test]
fn send_is_limited_by_credit_and_a_range_settles_at_once() {
    let server = Server::open();
    let peer = Peer::at(&server.listen("amqp"));
    let receiver = peer.receiver("anycast", 0);
    let sender = peer.sender("anycast");
    assert_eq!(peer.wait_credit(sender), 10);
    let messages: Vec<_> = (0..15).map(|number| message(&number.to_string())).collect();
    assert_eq!(peer.send(sender, &messages, false), 10);
    assert_eq!(peer.send(sender, &messages[10..], false), 0);
    peer.client.credit(receiver, 10);
    for number in 0..10 {
        assert_eq!(peer.message().1, number);
    }
    peer.client.settle(receiver, 0, 9, Outcome::Accepted);
    assert_eq!(peer.outcomes(10).len(), 10);
    assert_eq!(peer.send(sender, &messages[10..], false), 5);
    peer.client.credit(receiver, 5);
    for number in 10..15 {
        assert_eq!(peer.message(), (receiver, number, false, messages[number as usize].clone()));
    }
}

#[test]
fn drain_returns_unused_credit() {
    let server = Server::open();
    let peer = Peer::at(&server.listen("amqp"));
    let receiver = peer.receiver("anycast", 5);
    peer.client.drain(receiver);
    assert!(matches!(peer.next(), Event::Drained { link, credit: 1.. } if link == receiver));
    let sender = peer.sender("anycast");
    peer.wait_credit(sender);
    assert_eq!(peer.send(sender, &[message("late")], true), 1);
    // nothing arrives until there is new credit
    peer.client.credit(receiver, 1);
    assert_eq!(peer.message(), (receiver, 0, true, message("late")));
}

#[test]
fn reply_arrives_at_a_dynamic_address() {
    let server = Server::open();
    let url = server.listen("amqp");
    let (requester, responder) = (Peer::at(&url), Peer::at(&url));
    let replies = requester.client.attach_receiver(None, LinkOptions::default()).unwrap();
    let Event::Attached { link, address: Some(reply_to), .. } = requester.next() else { panic!("no address") };
    assert_eq!(link, replies);
    requester.client.credit(replies, 1);
    let back = responder.sender(&reply_to);
    responder.wait_credit(back);
    assert_eq!(responder.send(back, &[message("pong")], false), 1);
    assert_eq!(requester.message(), (replies, 0, false, message("pong")));
    requester.client.settle(replies, 0, 0, Outcome::Accepted);
    assert_eq!(responder.outcomes(1), [(0, Outcome::Accepted)]);
}

#[test]
fn anonymous_terminus_routes_by_the_to_field() {
    let server = Server::open();
    let peer = Peer::at(&server.listen("amqp"));
    let receiver = peer.receiver("anycast", 5);
    let link = peer.client.attach_sender(None, LinkOptions::default()).unwrap();
    assert_eq!(peer.next(), attached(link, None));
    peer.wait_credit(link);
    // properties with `to`, then the body
    let to = |name: &str| {
        let mut bytes = vec![0, 0x53, 0x73, 0xc0, name.len() as u8 + 5, 3, 0x40, 0x40, 0xa1, name.len() as u8];
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend(message("x"));
        bytes
    };
    assert_eq!(peer.send(link, &[to("anycast"), to("nowhere")], false), 2);
    let (_, delivery, _, payload) = peer.message();
    assert_eq!(payload, to("anycast"));
    peer.client.settle(receiver, delivery, delivery, Outcome::Accepted);
    let outcomes = peer.outcomes(2);
    assert_eq!(outcomes[0].1, Outcome::Accepted);
    assert!(
        matches!(&outcomes[1].1, Outcome::Rejected { error: Some((condition, _)) } if condition == "amqp:not-found")
    );
}

#[test]
fn refused_link_reports_the_reason_and_others_continue() {
    let server = Server::open();
    let peer = Peer::at(&server.listen("amqp"));
    for link in [
        peer.client.attach_sender(Some("nowhere".to_owned()), LinkOptions::default()).unwrap(),
        peer.client.attach_receiver(Some("nowhere".to_owned()), LinkOptions::default()).unwrap(),
    ] {
        let Event::Refused { link: refused, reason: Some(reason) } = peer.next() else { panic!("not refused") };
        assert_eq!((refused, reason.condition.as_str()), (link, "amqp:not-found"));
        assert!(reason.description.contains("nowhere"), "{reason:?}");
        assert!(peer.client.send(link, &mut [&b"x"[..]].into_iter(), true).is_err());
    }
    let receiver = peer.receiver("anycast", 1);
    let sender = peer.sender("anycast");
    peer.wait_credit(sender);
    peer.send(sender, &[message("x")], true);
    assert_eq!(peer.message().0, receiver);
}

#[test]
fn detached_link_ends_and_its_messages_are_released() {
    let server = Server::open();
    let peer = Peer::at(&server.listen("amqp"));
    let first = peer.receiver("anycast", 1);
    let sender = peer.sender("anycast");
    peer.wait_credit(sender);
    peer.send(sender, &[message("x")], false);
    assert_eq!(peer.message().0, first);
    peer.client.detach(first);
    let mut events = vec![peer.next(), peer.next()];
    events.retain(|event| !matches!(event, Event::Credit { .. }));
    assert!(events.contains(&Event::Detached { link: first, reason: None }), "{events:?}");
    let gone = Outcome::Released;
    let settled = Event::Settled { link: sender, first: 0, last: 0, outcome: gone };
    assert!(events.contains(&settled) || peer.next() == settled, "{events:?}");
    peer.client.detach(sender);
    peer.find(|event| (event == Event::Detached { link: sender, reason: None }).then_some(()));
    assert!(peer.client.send(sender, &mut [&b"x"[..]].into_iter(), true).is_err());
}

#[test]
fn message_of_many_frames_arrives_intact() {
    let server = Server::open();
    let peer = Peer::at(&server.listen("amqp"));
    let receiver = peer.receiver("anycast", 3);
    let sender = peer.sender("anycast");
    peer.wait_credit(sender);
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at ^ (at >> 8)) as u8).collect();
    assert_eq!(peer.send(sender, &[large.clone(), message("small")], false), 2);
    let (_, _, _, payload) = peer.message();
    assert!(payload == large);
    assert_eq!(peer.message().3, message("small"));
    peer.client.settle(receiver, 0, 1, Outcome::Accepted);
    assert_eq!(peer.outcomes(2).len(), 2);
}

#[test]
fn every_transport_carries_messages() {
    let server = Server::open();
    for scheme in ["amqp", "amqps", "ws", "wss"] {
        let url = server.listen(scheme);
        let peer = Peer::open(&ClientOptions { tls: tls(&server), ..ClientOptions::new(url) });
        let receiver = peer.receiver("anycast", 10);
        let sender = peer.sender("anycast");
        peer.wait_credit(sender);
        let large = vec![7; 400_000];
        assert_eq!(peer.send(sender, &[message(scheme), large.clone()], false), 2, "{scheme}");
        assert_eq!(peer.message().3, message(scheme));
        assert!(peer.message().3 == large, "{scheme}");
        peer.client.settle(receiver, 0, 1, Outcome::Accepted);
        assert_eq!(peer.outcomes(2).len(), 2);
        peer.client.close();
        assert_eq!(peer.closed(), None);
    }
}

#[test]
fn in_process_socket_needs_no_login() {
    let server = Server::closed();
    let socket = server.node.connect_in_process("default", Some(USER)).unwrap();
    let peer = Peer::new(Client::in_process(socket.into(), Some("inside".to_owned())).unwrap());
    assert!(matches!(peer.next(), Event::Opened { properties } if announces(&properties, "product", "EnMasse")));
    let receiver = peer.receiver("anycast", 1);
    let sender = peer.sender("anycast");
    peer.wait_credit(sender);
    peer.send(sender, &[message("x")], true);
    assert_eq!(peer.message().0, receiver);
}

#[test]
fn each_mechanism_accepts_the_correct_password_and_refuses_a_wrong_one() {
    let server = Server::closed();
    let url = server.listen("amqp");
    for mechanism in [None, Some("PLAIN"), Some("SCRAM-SHA-256"), Some("SCRAM-SHA-512")] {
        let mechanisms = mechanism.map(|name| vec![name.to_owned()]);
        let options = |password| ClientOptions {
            mechanisms: mechanisms.clone(),
            ..ClientOptions::new(with_user(&url, password))
        };
        let peer = Peer::open(&options(PASSWORD));
        peer.sender("anycast");
        let reason = Peer::connect(&options("wrong")).closed().unwrap();
        assert_eq!(reason.condition, "amqp:unauthorized-access", "{mechanism:?}: {reason:?}");
    }
    let reason = Peer::connect(&ClientOptions::new(url)).closed().unwrap();
    assert_eq!(reason.condition, "amqp:unauthorized-access");
    assert!(reason.description.contains("SCRAM-SHA-512"), "{reason:?}");
}

#[test]
fn link_without_the_required_right_is_refused() {
    let server = Server::closed();
    let peer = Peer::open(&ClientOptions::new(with_user(&server.listen("amqp"), PASSWORD)));
    peer.client.attach_sender(Some("multicast".to_owned()), LinkOptions::default()).unwrap();
    let Event::Refused { reason: Some(reason), .. } = peer.next() else { panic!("not refused") };
    assert_eq!(reason.condition, "amqp:unauthorized-access");
}

#[test]
fn untrusted_certificate_is_refused_unless_insecure_is_set() {
    let (server, stranger) = (Server::open(), Server::open());
    let url = server.listen("amqps");
    let reason = Peer::connect(&ClientOptions { tls: tls(&stranger), ..ClientOptions::new(url.clone()) }).closed();
    assert!(reason.unwrap().description.contains("certificate"));
    // The certificate does not contain this name.
    let numbered = Url { host: "127.0.0.1".to_owned(), ..url.clone() };
    let reason = Peer::connect(&ClientOptions { tls: tls(&server), ..ClientOptions::new(numbered.clone()) }).closed();
    assert!(reason.unwrap().description.contains("certificate"));
    let named = TlsOptions { server_name: Some("localhost".to_owned()), ..tls(&server) };
    Peer::open(&ClientOptions { tls: named, ..ClientOptions::new(numbered.clone()) });
    let insecure = TlsOptions { insecure: true, ..TlsOptions::default() };
    Peer::open(&ClientOptions { tls: insecure, ..ClientOptions::new(numbered) });
}

#[test]
fn unusable_tls_option_is_named_in_the_error() {
    let url = Url::parse("amqps://localhost").unwrap();
    let missing = TlsOptions { ca: Some("no-such-ca.pem".into()), ..TlsOptions::default() };
    let half = TlsOptions { insecure: true, key: Some("k.pem".into()), ..TlsOptions::default() };
    let no_name = TlsOptions { server_name: Some("no name".into()), ..TlsOptions::default() };
    for (tls, part) in [(missing, "no-such-ca.pem"), (half, "together"), (no_name, "server name \"no name\"")] {
        let error = Client::connect(&ClientOptions { tls, ..ClientOptions::new(url.clone()) }).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn absent_or_silent_server_is_reported_with_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = Url::parse(&format!("amqp://127.0.0.1:{port}")).unwrap();
    let time_limit = Duration::from_millis(200);
    let silent = Peer::connect(&ClientOptions { connect_time_out: time_limit, ..ClientOptions::new(url.clone()) });
    let reason = silent.closed().unwrap();
    assert_eq!(reason.condition, "amqp:connection:forced", "wait and try again: no limit of ours was reached");
    assert!(reason.description.contains(&port.to_string()), "{reason:?}");
    drop(listener);
    let absent = Peer::connect(&ClientOptions::new(url)).closed().unwrap();
    assert!(absent.description.contains(&port.to_string()), "{absent:?}");
    let nowhere = Peer::connect(&ClientOptions::new(Url::parse("amqp://no.such.host.invalid").unwrap())).closed();
    assert!(nowhere.unwrap().description.contains("no.such.host.invalid"));
}

#[test]
fn client_closes_when_the_server_stops() {
    let server = Server::open();
    let peer = Peer::at(&server.listen("amqp"));
    peer.receiver("anycast", 1);
    server.node.stop(Duration::from_secs(5));
    assert!(peer.closed().is_some());
    assert_eq!(peer.client.attach_sender(None, LinkOptions::default()).unwrap_err().kind, ErrorKind::Unavailable);
}

#[test]
fn close_before_open_reports_no_error() {
    let server = Server::open();
    let peer = Peer::connect(&ClientOptions::new(server.listen("amqp")));
    peer.client.close();
    assert_eq!(peer.closed(), None);
}

#[test]
fn operations_requested_before_open_run_after_it() {
    let server = Server::open();
    let peer = Peer::connect(&ClientOptions::new(server.listen("amqp")));
    let receiver = peer.client.attach_receiver(Some("anycast".to_owned()), LinkOptions::default()).unwrap();
    peer.client.credit(receiver, 1);
    let sender = peer.client.attach_sender(Some("anycast".to_owned()), LinkOptions::default()).unwrap();
    peer.wait_credit(sender);
    peer.send(sender, &[message("early")], true);
    assert_eq!(peer.message(), (receiver, 0, true, message("early")));
}

#[test]
fn thousands_of_messages_keep_their_order_and_are_all_settled() {
    const COUNT: u64 = 20_000;
    let server = Server::open();
    let url = server.listen("amqp");
    let (consumer, producer) = (Peer::at(&url), Peer::at(&url));
    let receiver = consumer.receiver("anycast", 1000);
    let sender = producer.sender("anycast");
    let mut sent = 0_u64;
    let mut settled = 0_u64;
    let mut received = 0_u64;
    while settled < COUNT {
        let batch: Vec<_> = (sent..COUNT.min(sent + 100)).map(|number| number.to_be_bytes().to_vec()).collect();
        sent += u64::from(producer.send(sender, &batch, false));
        let first = received;
        for event in consumer.client.poll(1000) {
            if let Event::Message { delivery, payload, .. } = event {
                assert_eq!((delivery, payload), (received, received.to_be_bytes().to_vec()));
                received += 1;
            }
        }
        if received > first {
            consumer.client.settle(receiver, first, received - 1, Outcome::Accepted);
            consumer.client.credit(receiver, (received - first) as u32);
        }
        for event in producer.client.poll(1000) {
            if let Event::Settled { first, last, outcome, .. } = event {
                assert_eq!((first, outcome), (settled, Outcome::Accepted));
                settled = last + 1;
            }
        }
        std::thread::yield_now();
    }
    assert_eq!((sent, received), (COUNT, COUNT));
}
