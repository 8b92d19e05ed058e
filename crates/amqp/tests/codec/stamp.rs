//! The annotations that a stream adds to its messages.

use enmasse_amqp::codec::stamp::{STAMP_BYTES_MAX, Stamp};
use enmasse_amqp::codec::{decode_message, encode_message};
use enmasse_amqp::types::{Body, Header, Message, Symbol, Value};
use proptest::prelude::*;

use super::strategies::message;

const NAMES: [&str; 3] = ["x-stream-offset", "x-opt-partition", "x-opt-enqueued-time"];
const STAMP: Stamp = Stamp { partition: 7, offset: 5, enqueued_ms: 1_760_000_000_000 };

fn stamped(bytes: &[u8], stamp: Stamp) -> (Vec<u8>, usize) {
    let mut out = b"before".to_vec();
    let at = stamp.put(&mut out, bytes).expect("a message");
    (out.split_off(6), at - 6)
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    encode_message(&mut out, message);
    out
}

#[test]
fn stamp_precedes_own_annotations_and_replaces_those_of_its_names() {
    let own =
        [("x-opt-partition", Value::Uint(3)), ("x-stream-offset", Value::String("mine".into())), ("a", Value::Null)];
    let message_annotations = own.into_iter().map(|(name, value)| (Symbol::from(name), value)).collect();
    let message = Message {
        header: Some(Header { durable: true, ..Header::default() }),
        message_annotations,
        body: Body::Data(vec![b"x".to_vec()]),
        ..Message::default()
    };
    let (bytes, _) = stamped(&encoded(&message), STAMP);
    let found = decode_message(&bytes).expect("a message");
    let names: Vec<&str> = found.message_annotations.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["x-stream-offset", "x-opt-partition", "x-opt-enqueued-time", "a"]);
    let values: Vec<&Value> = found.message_annotations.iter().map(|(_, value)| value).collect();
    assert_eq!(values[..3], [&Value::Ulong(5), &Value::Uint(7), &Value::Timestamp(1_760_000_000_000)]);
    assert_eq!((found.header, found.body), (message.header, message.body));
}

#[test]
fn stamp_of_a_malformed_message_writes_nothing() {
    let mut out = b"before".to_vec();
    // The annotations are a list; the annotations are cut off.
    for broken in [&b"\x00\x53\x72\x45"[..], b"\x00\x53\x72\xc1\x09", b"junk"] {
        assert_eq!(STAMP.put(&mut out, broken), None);
    }
    assert_eq!(out, b"before");
}

#[test]
fn message_without_a_stamp_has_none() {
    assert_eq!(Stamp::of(&encoded(&Message::default())), None);
}

proptest! {
    #[test]
    fn stamp_leaves_the_rest_of_a_message_unchanged(message in message()) {
        let bytes = encoded(&message);
        let (mut out, at) = stamped(&bytes, STAMP);
        prop_assert!(out.len() <= bytes.len() + STAMP_BYTES_MAX);
        prop_assert_eq!(Stamp::of(&out), Some(STAMP));
        let mut found = decode_message(&out).expect("a message");
        found.message_annotations.retain(|(name, _)| !NAMES.contains(&name.as_str()));
        prop_assert_eq!(&found, &message);
        out[at..at + 8].copy_from_slice(&u64::MAX.to_be_bytes());
        prop_assert_eq!(Stamp::of(&out).map(|stamp| stamp.offset), Some(u64::MAX));
        // Once more, from the stream into another one.
        let (again, _) = stamped(&out, STAMP);
        let first = stamped(&bytes, STAMP).0;
        prop_assert_eq!(decode_message(&again).expect("a message"), decode_message(&first).expect("a message"));
    }
}
