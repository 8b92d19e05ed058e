//! The cost of one evaluation of a selector: `cargo run --release -p enmasse-amqp --example
//! selector_cost`.

// The crate has no clock; what measures it needs one.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::hint::black_box;
use std::time::Instant;

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::selector::{Dialect, Selector, Subject};
use enmasse_amqp::types::{Body, Header, Message, MessageId, Properties, Value};

const SELECTORS: [&str; 7] = [
    "color = 'red' AND weight > 2500",
    "color = 'blue' AND weight > 2500",
    "JMSPriority > 3",
    "JMSCorrelationID = 'request-17'",
    "color IN ('green', 'red', 'yellow') AND shape LIKE 'ro%d' AND weight BETWEEN 1000 AND 3000",
    "shape LIKE '%o_nd%'",
    "missing IS NULL",
];

fn message() -> Vec<u8> {
    let text = |text: &str| Value::String(text.to_owned());
    let message = Message {
        header: Some(Header { durable: true, ..Header::default() }),
        properties: Some(Properties {
            message_id: Some(MessageId::String("ID:8f3c-1".to_owned())),
            to: Some("orders".to_owned()),
            correlation_id: Some(MessageId::String("request-17".to_owned())),
            ..Properties::default()
        }),
        application_properties: vec![
            ("region".to_owned(), text("emea")),
            ("color".to_owned(), text("red")),
            ("shape".to_owned(), text("round")),
            ("weight".to_owned(), Value::Int(2600)),
        ],
        body: Body::Data(vec![vec![7; 100]]),
        ..Message::default()
    };
    let mut bytes = Vec::new();
    encode_message(&mut bytes, &message);
    bytes
}

/// The best of many runs, each short enough to come between what else the machine does.
fn nanoseconds(mut once: impl FnMut() -> bool) -> f64 {
    const COUNT: u32 = 10_000;
    let run = |once: &mut dyn FnMut() -> bool| {
        let start = Instant::now();
        for _ in 0..COUNT {
            black_box(once());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(COUNT)
    };
    (0..200).map(|_| run(&mut once)).fold(f64::INFINITY, f64::min)
}

fn main() {
    let message = message();
    println!("message of {} bytes; ns per evaluation with its sections to find, and with them found", message.len());
    let found = Subject::new(&message);
    for text in SELECTORS {
        let selector = Selector::compile(text, Dialect::Jms).expect("good").expect("not blank");
        let whole = nanoseconds(|| selector.selects(&Subject::new(black_box(&message))));
        let again = nanoseconds(|| selector.selects(black_box(&found)));
        println!("{whole:6.0} {again:6.0}  {text}");
    }
}
