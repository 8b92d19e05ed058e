//! Rows as messages.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, MapBuilder, StringBuilder};
use arrow_array::{ArrayRef, BinaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use enmasse_amqp::codec::{decode_message, encode_message, encode_value};
use enmasse_amqp::types::{Body, Message, MessageId, Properties, Symbol, Value};
use enmasse_columns::{Options, Outgoing, number_message};

use super::{batch_of, encoded, text, with_body};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

#[test]
fn message_read_into_a_row_can_be_written_again() {
    let properties = Properties {
        message_id: Some(MessageId::String("m1".into())),
        subject: Some("s".into()),
        to: Some("t".into()),
        reply_to: Some("r".into()),
        correlation_id: Some(MessageId::String("c".into())),
        user_id: Some(vec![0, 0xff]),
        content_type: Some(Symbol::from("text/plain")),
        content_encoding: Some(Symbol::from("gzip")),
        absolute_expiry_time: Some(1_800_000_000_001),
        creation_time: Some(-1),
        group_id: Some("g".into()),
        group_sequence: Some(u32::MAX),
        reply_to_group_id: Some("h".into()),
    };
    let first = Message {
        message_annotations: vec![
            (Symbol::from("x-stream-offset"), Value::Ulong(4)),
            (Symbol::from("x-opt-own"), text("kept")),
            (Symbol::from("x-opt-producer-sequence"), Value::Ulong(9)),
        ],
        properties: Some(properties.clone()),
        application_properties: vec![("a".into(), text("x")), ("b".into(), Value::Null)],
        ..with_body(b"body")
    };
    let mut second = with_body(b"");
    second.body = Body::Value(text("words"));
    let third = Message { body: Body::Value(Value::List(vec![Value::Int(1)])), ..Message::default() };
    let messages = [first, second, third, Message::default()];
    let read = batch_of(&Options::default(), &messages.each_ref().map(encoded));
    let rows = Outgoing::new(&read).unwrap();
    assert_eq!((rows.rows(), rows.address(0)), (4, Some("readings")));
    let (again, fault) = rows.message(0, false);
    assert_eq!(fault, None);
    assert_eq!(again.properties, Some(properties));
    assert_eq!(again.message_annotations, [(Symbol::from("x-opt-own"), text("kept"))]);
    assert_eq!(again.application_properties, messages[0].application_properties);
    for (row, message) in messages.iter().enumerate() {
        assert_eq!(rows.message(row, false).0.body, message.body, "row {row}");
    }
}

#[test]
fn producer_sequence_is_written_into_its_placeholder() {
    let rows = batch(vec![("body", texts(&[Some("x")])), ("delay", Arc::new(Int32Array::from(vec![1500])))]);
    let (message, _) = Outgoing::new(&rows).unwrap().message(0, true);
    let mut bytes = Vec::new();
    encode_message(&mut bytes, &message);
    for number in [0, 7, u64::from(u32::MAX) << 31, u64::MAX - 1] {
        number_message(&mut bytes, number);
        let annotations = decode_message(&bytes).unwrap().message_annotations;
        assert_eq!(annotations[0], (Symbol::from("x-opt-producer-sequence"), Value::Ulong(number)));
        assert_eq!(annotations[1], (Symbol::from("x-opt-delivery-delay"), Value::Ulong(1500)));
    }
}

#[test]
fn columns_of_compatible_types_are_converted() {
    let mut keys = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    keys.keys().append_value("n");
    keys.values().append_value(-3);
    keys.append(true).unwrap();
    keys.append(false).unwrap();
    let rows = batch(vec![
        ("message_id", Arc::new(Int64Array::from(vec![Some(7), None]))),
        ("correlation_id", Arc::new(BinaryArray::from_opt_vec(vec![Some(b"ab"), None]))),
        ("priority", Arc::new(Int32Array::from(vec![Some(9), None]))),
        ("ttl", Arc::new(Int64Array::from(vec![Some(60_000), None]))),
        ("application_properties", Arc::new(keys.finish())),
        ("offset", Arc::new(Int64Array::from(vec![1, 2]))),
    ]);
    let rows = Outgoing::new(&rows).unwrap();
    let (message, fault) = rows.message(0, false);
    assert_eq!(fault, None);
    let header = message.header.unwrap();
    assert_eq!((header.durable, header.priority, header.ttl), (true, 9, Some(60_000)));
    assert_eq!(message.application_properties, [("n".to_owned(), Value::Long(-3))]);
    let properties = message.properties.unwrap();
    assert_eq!(properties.message_id, Some(MessageId::Ulong(7)));
    assert_eq!(properties.correlation_id, Some(MessageId::Binary(b"ab".to_vec())));
    let (message, fault) = rows.message(1, false);
    assert_eq!((fault, message.properties, message.body), (None, None, Body::Empty));
}

#[test]
fn value_that_no_message_can_carry_is_reported() {
    let mut value = Vec::new();
    encode_value(&mut value, &Value::Int(1));
    value.push(0);
    let rows = batch(vec![
        ("body", Arc::new(BinaryArray::from_vec(vec![b"\xff", b"x", &value, b"x"]))),
        ("body_kind", texts(&[Some("string"), Some("sequence"), Some("value"), None])),
        ("ttl", Arc::new(Int64Array::from(vec![None, None, None, Some(-1)]))),
    ]);
    let rows = Outgoing::new(&rows).unwrap();
    let said = [
        "it is not UTF-8",
        "sequence cannot be sent",
        "not an encoded AMQP value",
        "ttl: -1 is not from 0 to 4294967295",
    ];
    for (row, said) in said.iter().enumerate() {
        let fault = rows.message(row, false).1.unwrap();
        assert!(fault.contains(said), "{fault}");
    }
}

#[test]
fn unknown_or_mistyped_column_is_refused_by_name() {
    let wrong = [
        ("devise", texts(&[None]), "column devise is not part of a message: use address, body"),
        ("ttl", texts(&[None]), "column ttl is Utf8: it must be an integer"),
        ("body", Arc::new(Float64Array::from(vec![1.0])), "it must be string or binary"),
        ("annotations", texts(&[None]), "it must be map<string"),
    ];
    for (name, column, said) in wrong {
        let error = Outgoing::new(&batch(vec![(name, column)])).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
