//! The fields of a message that a store reads, and those that it changes.

use enmasse_amqp::codec::envelope::{Changes, Envelope, envelope, forget_expiry, put_changed};
use enmasse_amqp::codec::{decode_message, encode_message};
use enmasse_amqp::types::{Body, Header, Message, Symbol, Value, condition};
use proptest::prelude::*;

use super::strategies::message;

fn encoded(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    encode_message(&mut out, message);
    out
}

fn annotated(annotations: Vec<(&str, Value)>) -> Vec<u8> {
    let message_annotations = annotations.into_iter().map(|(key, value)| (Symbol::from(key), value)).collect();
    encoded(&Message { message_annotations, body: Body::Data(vec![b"x".to_vec()]), ..Message::default() })
}

#[test]
fn a_message_without_a_header_has_the_defaults() {
    let bytes = encoded(&Message { body: Body::Value(Value::Null), ..Message::default() });
    assert_eq!(envelope(&bytes).unwrap(), Envelope::default());
    assert_eq!(envelope(&bytes).unwrap().header.priority, 4);
}

#[test]
fn delivery_times_are_read_from_any_integer_type() {
    let whole = [Value::Timestamp(100), Value::Ulong(100), Value::Long(100), Value::Uint(100), Value::Int(100)];
    for value in whole {
        let bytes = annotated(vec![("x-opt-delivery-time", value)]);
        assert_eq!(envelope(&bytes).unwrap().delivery_time_ms, Some(100));
    }
    for value in [Value::Ulong(300), Value::Long(300), Value::Int(300)] {
        let bytes = annotated(vec![("x-opt-delivery-delay", value)]);
        assert_eq!(envelope(&bytes).unwrap().delivery_delay_ms, Some(300));
    }
}

#[test]
fn negative_delivery_delay_is_read_as_zero() {
    let bytes = annotated(vec![("x-opt-delivery-delay", Value::Long(-5))]);
    assert_eq!(envelope(&bytes).unwrap().delivery_delay_ms, Some(0));
}

#[test]
fn an_annotation_of_the_wrong_type_is_named() {
    for (key, value) in [
        ("x-opt-delivery-time", Value::String("soon".into())),
        ("x-opt-producer-sequence", Value::Int(1)),
        ("x-opt-partition", Value::Ulong(1)),
    ] {
        let error = envelope(&annotated(vec![(key, value)])).unwrap_err();
        assert_eq!(error.condition, condition::DECODE_ERROR);
        assert!(error.to_string().contains(key), "{error}");
    }
}

#[test]
fn producer_sequence_and_partition_are_read() {
    let bytes = annotated(vec![
        ("x-opt-producer-sequence", Value::Ulong(u64::MAX)),
        ("x-opt-partition", Value::Uint(3)),
        ("x-other", Value::Map(vec![(Value::Null, Value::Null)])),
    ]);
    let envelope = envelope(&bytes).unwrap();
    assert_eq!((envelope.producer_sequence, envelope.partition), (Some(u64::MAX), Some(3)));
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    for bytes in [&b"\x00"[..], b"hello", b"\x00\x53\x73\xc0\xff", b"\x00\x53\x70\xc0\x02\x01\xa1"] {
        assert_eq!(envelope(bytes).unwrap_err().condition, condition::DECODE_ERROR, "{bytes:?}");
    }
}

#[test]
fn annotations_replace_those_of_the_same_name() {
    let bytes = annotated(vec![("a", Value::Int(1)), ("b", Value::Int(2))]);
    let annotations = vec![(Symbol::from("b"), Value::Int(3)), (Symbol::from("c"), Value::Null)];
    let mut out = Vec::new();
    put_changed(&mut out, &bytes, &Changes { annotations: Some(&annotations), ..Changes::default() });
    let mut expected = vec![(Symbol::from("a"), Value::Int(1))];
    expected.extend(annotations);
    assert_eq!(decode_message(&out).unwrap().message_annotations, expected);
}

#[test]
fn unreadable_message_is_copied_unchanged() {
    let mut out = b"before".to_vec();
    put_changed(&mut out, b"\x00\x53\x70garbage", &Changes { delivery_count: 3, ..Changes::default() });
    assert_eq!(out, b"before\x00\x53\x70garbage");
}

proptest! {
    #[test]
    fn forget_expiry_changes_only_the_absolute_expiry_time(message in message()) {
        let mut bytes = encoded(&message);
        forget_expiry(&mut bytes);
        let mut expected = message;
        if let Some(properties) = &mut expected.properties {
            properties.absolute_expiry_time = None;
        }
        prop_assert_eq!(decode_message(&bytes).unwrap(), decode_message(&encoded(&expected)).unwrap());
    }

    #[test]
    fn envelope_agrees_with_the_decoded_message(message in message()) {
        let bytes = encoded(&message);
        let read = envelope(&bytes).unwrap();
        let properties = message.properties.clone().unwrap_or_default();
        prop_assert_eq!(&read.header, &message.header.clone().unwrap_or_default());
        prop_assert_eq!(read.to, properties.to.as_deref());
        prop_assert_eq!(read.group_id, properties.group_id.as_deref());
        prop_assert_eq!(read.group_sequence, properties.group_sequence);
        prop_assert_eq!(read.absolute_expiry_ms, properties.absolute_expiry_time);
        prop_assert_eq!(read.message_id.is_some(), properties.message_id.is_some());
    }

    #[test]
    fn new_header_leaves_the_rest_of_the_message_unchanged(message in message(), delivery_count in 0_u32..9, left in 0_u32..99) {
        let mut out = Vec::new();
        put_changed(&mut out, &encoded(&message), &Changes { delivery_count, ttl_ms: Some(left), ..Changes::default() });
        let before = message.header.clone().unwrap_or_default();
        let header = Header { delivery_count, ttl: before.ttl.map(|_| left), ..before };
        prop_assert_eq!(decode_message(&out).unwrap(), Message { header: Some(header), ..message });
    }
}
