//! Messages stored in a table are decoded like received messages.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use enmasse_amqp::types::{Body, Header, Message, MessageId, Properties, Symbol, Value};
use enmasse_columns::{Batch, Declared, Format, Options, Replay};
use proptest::prelude::*;

use super::gzip::gzip;
use super::{batch_of, encoded, options, rows, text, with_body, with_content_type};

const ENVELOPE: &str = "space, address, partition, offset, enqueued_time, message_id, correlation_id, subject, to, reply_to, \
    content_type, group_id, durable, priority, ttl, delivery_count, application_properties, annotations, body, body_kind, \
    user_id, content_encoding, creation_time, absolute_expiry_time, group_sequence, reply_to_group_id, \
    application_property_types";

fn replayed(kept: &RecordBatch, wanted: &Options) -> RecordBatch {
    let messages = Replay::new(kept).unwrap();
    let mut batch = Batch::new(Arc::new(Declared::new(wanted).unwrap()));
    (0..messages.rows()).for_each(|row| batch.replay(&messages, row));
    batch.finish()
}

/// Received messages and stored ones give the same rows.
fn check(messages: &[Vec<u8>], fields: &str, format: Format) {
    let wanted = options(&format!("{ENVELOPE}, {fields}, _index, _error"), Some(format));
    let kept = batch_of(&Options::default(), messages);
    assert_eq!(rows(&replayed(&kept, &wanted)), rows(&batch_of(&wanted, messages)));
}

fn full(body: Body) -> Message {
    let properties = Properties {
        message_id: Some(MessageId::Ulong(7)),
        correlation_id: Some(MessageId::Binary(vec![0, 255])),
        content_type: Some(Symbol::from("application/senml+json; x=1")),
        group_id: Some("g".into()),
        creation_time: Some(1_700_000_000_000),
        group_sequence: Some(3),
        ..Properties::default()
    };
    Message {
        header: Some(Header { durable: true, priority: 9, ttl: Some(5), delivery_count: 2, ..Header::default() }),
        message_annotations: vec![
            (Symbol::from("x-stream-offset"), Value::Ulong(4)),
            (Symbol::from("x-opt-partition"), Value::Uint(1)),
            (Symbol::from("x-opt-enqueued-time"), Value::Timestamp(1_800_000_000_123)),
            (Symbol::from("mine"), Value::List(vec![Value::Int(1)])),
        ],
        properties: Some(properties),
        application_properties: vec![("a".into(), text("x")), ("b".into(), Value::Null), ("c".into(), Value::Int(-1))],
        body,
        ..Message::default()
    }
}

#[test]
fn stored_bodies_of_every_type_decode_like_received_ones() {
    let json = br#"[{"a":1,"s":"x"},{"a":"no"},{"s":[1]}]"#;
    let bodies = [
        Body::Data(vec![json.to_vec()]),
        Body::Data(vec![json[..9].to_vec(), json[9..].to_vec()]),
        Body::Data(vec![]),
        Body::Data(vec![vec![]]),
        Body::Value(text("{\"a\":2}")),
        Body::Value(Value::Binary(b"{\"a\":3}".to_vec())),
        Body::Value(Value::List(vec![Value::Int(1)])),
        Body::Sequence(vec![vec![Value::Int(1)]]),
        Body::Empty,
    ];
    let mut messages: Vec<_> = bodies.into_iter().map(|body| encoded(&full(body))).collect();
    messages.push(b"no message".to_vec());
    messages.push(encoded(&with_body(b"{\"a\":4}")));
    check(&messages, "a int, s string", Format::Json);
    check(&messages, "a int, s string", Format::Auto);
    check(&messages, "a int, s string", Format::Csv);
}

#[test]
fn stored_content_type_and_time_decode_like_received_ones() {
    let pack = br#"[{"bn":"d:","n":"t","v":1,"t":-5},{"n":"u","v":2}]"#.to_vec();
    let relative = encoded(&full(Body::Data(vec![pack.clone()])));
    check(std::slice::from_ref(&relative), "n string, t timestamp, v double", Format::SenmlJson);
    check(&[relative], "n string, t timestamp, v double", Format::Auto);
    let unknown = encoded(&with_content_type("text/plain", Body::Data(vec![pack])));
    check(&[unknown], "n string", Format::Auto);
}

#[test]
fn table_without_the_message_columns_is_refused() {
    let kept = batch_of(&Options::default(), &[encoded(&with_body(b"{}"))]);
    let fields = kept.schema();
    let some = kept.project(&(1..fields.fields().len()).collect::<Vec<_>>()).unwrap();
    let error = Replay::new(&some).err().unwrap().to_string();
    assert_eq!(error, "space: this column is missing, and whole messages are required");
    let columns = fields.fields().iter().zip(kept.columns()).map(|(field, column)| {
        let other: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let column = if field.name() == "priority" { other } else { Arc::clone(column) };
        (field.name().clone(), column, true)
    });
    let other = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let error = Replay::new(&other).err().unwrap().to_string();
    assert_eq!(error, "priority: it is Int64, and int is required");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stored_arbitrary_bytes_decode_like_received_ones(
        bodies in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                "\\[?\\{\"[ab]\":(1|null|\"x\"|\\[1\\])\\}(,\\{\\})?\\]?".prop_map(String::into_bytes),
            ],
            1..6,
        ),
        whole in any::<bool>(),
    ) {
        let made = |body: &Vec<u8>| if whole { encoded(&with_body(body)) } else { body.clone() };
        let messages: Vec<_> = bodies.iter().map(made).collect();
        for format in [Format::Json, Format::Cbor, Format::Csv] {
            check(&messages, "a int, b string", format);
        }
    }
}

#[test]
fn stored_gzip_body_decodes_like_a_received_one() {
    let mut message = full(Body::Data(vec![gzip(br#"[{"a":1},{"a":2}]"#)]));
    message.properties.as_mut().unwrap().content_encoding = Some(Symbol::from("gzip"));
    check(&[encoded(&message)], "a int", Format::Json);
}
