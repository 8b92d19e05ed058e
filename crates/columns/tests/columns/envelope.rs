//! The columns that every message has.

use enmasse_amqp::types::{Body, Header, Message, MessageId, Properties, Symbol, Value};
use enmasse_columns::{Batch, Declared, Options, Origin};
use std::sync::Arc;

use super::{ORIGIN, batch_of, encoded, options, rows, text, with_body};

fn full() -> Message {
    Message {
        header: Some(Header { durable: true, priority: 7, ttl: Some(5000), first_acquirer: true, delivery_count: 2 }),
        message_annotations: vec![
            (Symbol::from("x-stream-offset"), Value::Ulong(41)),
            (Symbol::from("x-opt-partition"), Value::Uint(1)),
            (Symbol::from("x-opt-enqueued-time"), Value::Timestamp(1000)),
            (Symbol::from("x-opt-list"), Value::List(vec![Value::Int(1), text("a\"b"), Value::Null])),
        ],
        properties: Some(Properties {
            message_id: Some(MessageId::Uuid([0x11; 16])),
            to: Some("readings/7".into()),
            subject: Some("s".into()),
            reply_to: Some("answers".into()),
            correlation_id: Some(MessageId::Ulong(9)),
            user_id: Some(b"eve".to_vec()),
            content_type: Some(Symbol::from("text/plain")),
            content_encoding: Some(Symbol::from("identity")),
            absolute_expiry_time: Some(3000),
            creation_time: Some(2000),
            group_id: Some("g".into()),
            group_sequence: Some(6),
            reply_to_group_id: Some("h".into()),
        }),
        application_properties: vec![
            ("a".into(), text("x")),
            ("b".into(), Value::Double(1.5)),
            ("c".into(), Value::Null),
            ("d".into(), Value::Binary(vec![1, 2, 3])),
            ("e".into(), Value::Timestamp(1500)),
        ],
        body: Body::Data(vec![b"one".to_vec(), b"two".to_vec()]),
        ..Message::default()
    }
}

#[test]
fn origin_overrides_the_partition_and_offset_annotations() {
    let mut batch = Batch::new(Arc::new(Declared::new(&options("partition, offset, subject", None)).unwrap()));
    for offset in [7, 8] {
        batch.push(&Origin { partition: Some(0), offset: Some(offset), ..ORIGIN }, &encoded(&full()));
    }
    assert_eq!(rows(&batch.finish()), [["0", "7", "s"], ["0", "8", "s"]]);
}

#[test]
fn annotations_that_became_columns_are_not_repeated() {
    let message = encoded(&full());
    let of = |origin: &Origin<'_>, message: &[u8]| {
        let mut batch = Batch::new(Arc::new(Declared::new(&options("annotations", None)).unwrap()));
        batch.push(origin, message);
        rows(&batch.finish())[0][0].clone()
    };
    assert_eq!(of(&ORIGIN, &message), "x-opt-list=[1,\"a\\\"b\",null]");
    // offset and partition are of another stream than the columns
    let spooled = Origin { partition: Some(0), offset: Some(7), ..ORIGIN };
    assert!(of(&spooled, &message).starts_with("x-stream-offset=41,x-opt-partition=1,x-opt-list="));
    let none_of_ours =
        Message { message_annotations: vec![(Symbol::from("x-stream-offset"), Value::Ulong(1))], ..Message::default() };
    let not_a_number =
        Message { message_annotations: vec![(Symbol::from("x-stream-offset"), text("1"))], ..Message::default() };
    assert_eq!(of(&ORIGIN, &encoded(&none_of_ours)), "null");
    assert_eq!(of(&ORIGIN, &encoded(&not_a_number)), "x-stream-offset=1");
}

#[test]
fn every_message_part_has_its_column() {
    let batch = batch_of(&Options::default(), &[encoded(&full())]);
    let names: Vec<_> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(
        names.join(" "),
        "space address partition offset enqueued_time message_id correlation_id subject to reply_to content_type group_id \
         durable priority ttl delivery_count application_properties annotations body body_kind user_id content_encoding \
         creation_time absolute_expiry_time group_sequence reply_to_group_id application_property_types"
    );
    assert_eq!(
        rows(&batch)[0],
        [
            "default",
            "readings",
            "1",
            "41",
            "1000000",
            "11111111-1111-1111-1111-111111111111",
            "9",
            "s",
            "readings/7",
            "answers",
            "text/plain",
            "g",
            "true",
            "7",
            "5000",
            "2",
            "a=x,b=1.5,c=null,d=AQID,e=1970-01-01T00:00:01.500Z",
            "x-opt-list=[1,\"a\\\"b\",null]",
            "\"onetwo\"",
            "data",
            "\"eve\"",
            "identity",
            "2000000",
            "3000000",
            "6",
            "h",
            "a=string,b=double,c=null,d=binary,e=timestamp",
        ]
    );
}

#[test]
fn nested_map_keys_are_not_quoted_again_at_each_level() {
    let mut deep = text(&"\"".repeat(1000));
    for _ in 0..13 {
        deep = Value::Map(vec![(deep, Value::Null)]);
    }
    let annotations = [("deep", deep), ("list", Value::Map(vec![(Value::List(vec![]), Value::Int(1))]))];
    let message_annotations = annotations.map(|(name, value)| (Symbol::from(name), value)).to_vec();
    let message = encoded(&Message { message_annotations, ..Message::default() });
    let got = rows(&batch_of(&options("annotations", None), std::slice::from_ref(&message)));
    assert!(got[0][0].ends_with("list={\"RQ==\":1}"), "{} bytes", got[0][0].len());
    assert!(got[0][0].len() < 2 * message.len(), "{} bytes", got[0][0].len());
}

#[test]
fn absent_message_fields_are_default_or_null() {
    let bare = encoded(&Message { body: Body::Value(text("t")), ..Message::default() });
    let wanted =
        options("partition, offset, durable, priority, ttl, delivery_count, message_id, annotations, body_kind", None);
    assert_eq!(rows(&batch_of(&wanted, &[bare])), [["3", "null", "false", "4", "null", "0", "null", "null", "string"]]);
}

#[test]
fn body_column_holds_bytes_and_body_kind_their_type() {
    let values = [
        (Body::Value(text("text")), "\"text\"", "string"),
        (Body::Value(Value::Binary(b"bin".to_vec())), "\"bin\"", "binary"),
        (Body::Value(Value::Ubyte(65)), "\"PA\"", "value"),
        (Body::Sequence(vec![vec![]]), "\"E\"", "sequence"),
        (Body::Sequence(vec![vec![], vec![], vec![]]), "\"EEE\"", "sequence"),
        (Body::Empty, "null", "none"),
    ];
    for (body, bytes, kind) in values {
        let message = encoded(&Message { body, ..Message::default() });
        assert_eq!(rows(&batch_of(&options("body, body_kind", None), &[message])), [[bytes, kind]]);
    }
}

#[test]
fn malformed_message_is_a_row_with_its_bytes_and_the_reason() {
    let wanted = options("address, body, body_kind, _error, _index", None);
    let good = encoded(&with_body(b"x"));
    assert_eq!(
        rows(&batch_of(&wanted, &[b"\x00\x53".to_vec(), good])),
        [
            ["readings", "\"\\0S\"", "malformed", "the bytes are not an AMQP message", "0"],
            ["readings", "\"x\"", "data", "null", "0"]
        ]
    );
}

#[test]
fn finished_batch_can_be_reused() {
    let mut batch = Batch::new(Arc::new(Declared::new(&options("body", None)).unwrap()));
    batch.push(&ORIGIN, &encoded(&with_body(b"one")));
    assert!(batch.size() >= 3);
    assert_eq!(rows(&batch.finish()), [["\"one\""]]);
    assert_eq!(batch.rows(), 0);
    batch.push(&ORIGIN, &encoded(&with_body(b"two")));
    assert_eq!(rows(&batch.finish()), [["\"two\""]]);
}

#[test]
fn message_without_enqueued_time_gets_the_time_of_receipt() {
    let wanted = options("enqueued_time", None);
    let mut batch = Batch::new(Arc::new(Declared::new(&wanted).unwrap()));
    for message in [full(), Message::default()] {
        batch.push(&Origin { taken_ms: Some(5), ..ORIGIN }, &encoded(&message));
    }
    let times = rows(&batch.finish());
    assert_ne!(times[0], ["5000"]);
    assert_eq!(times[1], ["5000"]);
}

#[test]
fn application_property_types_are_the_names_of_the_standard() {
    let described = Value::Described(Box::new((Value::Ulong(1), Value::Short(2))));
    let values = [
        (Value::Null, "null"),
        (Value::Bool(true), "boolean"),
        (Value::Ubyte(1), "ubyte"),
        (Value::Ulong(0), "ulong"),
        (Value::Long(-1), "long"),
        (Value::Char('c'), "char"),
        (Value::Decimal64([0; 8]), "decimal64"),
        (Value::Uuid([0; 16]), "uuid"),
        (Value::Symbol(Symbol::from("s")), "symbol"),
        (Value::List(vec![]), "list"),
        (Value::Map(vec![(text("k"), Value::Int(1))]), "map"),
        (Value::Array(vec![Value::Int(1)]), "array"),
        (described, "short"),
    ];
    for (value, name) in values {
        let message = Message { application_properties: vec![("p".into(), value)], ..Message::default() };
        let wanted = options("application_property_types", None);
        assert_eq!(rows(&batch_of(&wanted, &[encoded(&message)])), [[format!("p={name}")]]);
    }
    let none = rows(&batch_of(&options("application_property_types", None), &[encoded(&Message::default())]));
    assert_eq!(none, [["null"]]);
}
