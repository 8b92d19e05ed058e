//! Messages a second and core that become columns: `cargo run --release -p enmasse-columns
//! --example column_rates`.

// The crate has no clock; what measures it needs one.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;
use std::time::Instant;

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::types::{Body, Header, Message, MessageId, Properties, Symbol, Value};
use enmasse_columns::{Batch, Declared, Format, Options, Origin};

const EIGHT: &str = "address, partition, offset, enqueued_time, message_id, subject, content_type, body";
const TYPED: &str = "offset, device string, value double, ts timestamp, _error";

const CASES: [(&str, &str, Option<Format>, &[u8]); 6] = [
    ("envelope of 8 columns, 100 B", EIGHT, None, &[b'x'; 100]),
    ("envelope of 8 columns, 1 KiB", EIGHT, None, &[b'x'; 1024]),
    ("offset only, 1 KiB", "offset", None, &[b'x'; 1024]),
    (
        "JSON into 3 typed columns",
        TYPED,
        Some(Format::Json),
        br#"{"device":"device-00042","value":21.5,"unit":"Cel","ts":"2026-11-21T10:00:00.123Z","seq":123456,"ok":true}"#,
    ),
    (
        "SenML into 3 typed columns",
        "offset, n string, v double, t timestamp, _error",
        Some(Format::SenmlJson),
        br#"[{"bn":"urn:dev:mac:0024befffe804ff1/","n":"temperature","u":"Cel","v":21.5,"t":1763719200}]"#,
    ),
    ("CSV into 3 typed columns", TYPED, Some(Format::Csv), b"device-00042,21.5,2026-11-21T10:00:00.123Z"),
];

fn message(offset: u64, body: &[u8]) -> Vec<u8> {
    let message = Message {
        header: Some(Header { durable: true, ..Header::default() }),
        message_annotations: vec![
            (Symbol::from("x-stream-offset"), Value::Ulong(offset)),
            (Symbol::from("x-opt-partition"), Value::Uint(0)),
            (Symbol::from("x-opt-enqueued-time"), Value::Timestamp(1_763_719_200_000)),
        ],
        properties: Some(Properties {
            message_id: Some(MessageId::String(format!("ID:8f3c-{offset}"))),
            to: Some("telemetry".to_owned()),
            subject: Some("device-00042".to_owned()),
            content_type: Some(Symbol::from("application/json")),
            ..Properties::default()
        }),
        body: Body::Data(vec![body.to_vec()]),
        ..Message::default()
    };
    let mut bytes = Vec::new();
    encode_message(&mut bytes, &message);
    bytes
}

fn main() {
    const COUNT: u64 = 20_000;
    let origin = Origin { space: Some("default"), address: "telemetry", ..Origin::default() };
    for (name, columns, decode, body) in CASES {
        let options = Options { columns: Some(columns.to_owned()), decode, ..Options::default() };
        let declared = Arc::new(Declared::new(&options).expect("the declaration is sound"));
        let messages: Vec<_> = (0..COUNT).map(|offset| message(offset, body)).collect();
        let run = || {
            let start = Instant::now();
            let mut batch = Batch::new(Arc::clone(&declared));
            messages.iter().for_each(|message| batch.push(&origin, message));
            assert_eq!((batch.finish().num_rows() as u64, batch.marked()), (COUNT, 0));
            start.elapsed().as_secs_f64()
        };
        // the best of many runs, each short enough to come between what else the machine does
        let best = (0..50).map(|_| run()).fold(f64::INFINITY, f64::min);
        #[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
        let rate = COUNT as f64 / best / 1e6;
        println!("{name:32} {rate:6.2} million messages a second and core");
    }
}
