//! The cost of a message in the router, without protocol and sockets: `cargo run --release -p
//! enmasse-router --example message_cost -- memory 10000000` prints nanoseconds a message for
//! `direct` or `memory` addresses. One producer, one consumer, 100 bytes, unsettled; one turn has
//! as many messages as a socket read, the next one their outcomes.

#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::hint::black_box;
use std::time::Instant;

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::types::{Body, Message, Outcome};
use enmasse_journal::queue::Settings;
use enmasse_router::core::{
    AddressKey, AddressKind, Arrival, AttachmentId, AttachmentRole, Consuming, Declared, Delivery, Handover, Links,
    OpenQueue, Replacement, Router, ToLink,
};

const PRODUCER: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 0 };
const CONSUMER: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 1 };
/// Messages of a turn, and the window of either link.
const WINDOW: u32 = 1000;

/// Links that accept everything, as cheaply as possible.
#[derive(Default)]
struct Sink {
    output: Vec<u8>,
    tokens: Vec<u64>,
    settled: u64,
}

impl Links for Sink {
    fn hand_over(&mut self, _: u16, _: Handover<'_>) {
        unreachable!("all addresses have this home");
    }

    fn replace(&mut self, _: u16, _: Replacement) {
        unreachable!("all addresses have this home");
    }

    fn transfer(&mut self, _: AttachmentId, delivery: &Delivery<'_>) -> bool {
        self.output.extend_from_slice(delivery.payload);
        self.tokens.extend(delivery.token);
        true
    }

    fn send(&mut self, command: ToLink<'_>) {
        if let ToLink::Settle { outcome, .. } = command {
            self.settled += u64::from(*black_box(outcome) == Outcome::Accepted);
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = match arguments.next().as_deref() {
        Some("direct") => AddressKind::Anycast,
        Some("memory") => AddressKind::Queue,
        _ => panic!("usage: message_cost direct|memory [messages]"),
    };
    let count: u64 = arguments.next().map_or(10_000_000, |text| text.parse().expect("a number of messages"));
    let (mut router, mut links) = (Router::new(0, 1), Sink::default());
    let declared = Declared { key: AddressKey(1), kind, link_capacity: WINDOW, space: 1 };
    if kind == AddressKind::Queue {
        router.open_queue(declared, OpenQueue::new("q".into(), Settings::default(), None), &mut links);
    }
    let consumer = AttachmentRole::Consumer { filter: None, consuming: Consuming::default() };
    let producer = AttachmentRole::Producer { anonymous: false, name: None, producer_name: None, resume: None };
    router.attach(CONSUMER, declared, consumer, &mut links);
    router.attach(PRODUCER, declared, producer, &mut links);
    let mut payload = Vec::new();
    encode_message(&mut payload, &Message { body: Body::Data(vec![vec![7; 100]]), ..Message::default() });
    let (begun, mut sent, mut granted) = (Instant::now(), 0_u64, 0_u32);
    while sent < count {
        granted = granted.wrapping_add(WINDOW);
        router.set_time(1_760_000_000_000 + sent / 1000);
        router.credit(CONSUMER, granted, false, &mut links);
        for _ in 0..WINDOW {
            let delivery_id = sent as u32;
            let payload = black_box(&payload[..]);
            let arrival = Arrival {
                delivery_id,
                settled: false,
                message_format: 0,
                first: true,
                more: false,
                aborted: false,
                payload,
            };
            router.deliver(PRODUCER, arrival, &mut links);
            sent += 1;
        }
        router.process_dirty(&mut links);
        router.turn(&mut links);
        let mut tokens = std::mem::take(&mut links.tokens);
        assert_eq!(tokens.len(), WINDOW as usize, "the consumer has room for all");
        for token in tokens.drain(..) {
            router.outcome(token, &Outcome::Accepted, &mut links);
        }
        links.tokens = tokens;
        black_box(&mut links.output).clear();
        router.process_dirty(&mut links);
        router.turn(&mut links);
    }
    assert_eq!(links.settled, sent, "every producer was answered");
    println!("{:.1} ns a message", begun.elapsed().as_nanos() as f64 / sent as f64);
}
