//! Messages: whole, and scanned in place.

use enmasse_amqp::codec::scan::{self, Broken};
use enmasse_amqp::codec::{decode_message, decode_value, encode_message};
use enmasse_amqp::types::{Body, Header, Message, MessageId, Properties, Symbol, Value, condition};
use proptest::prelude::*;

use crate::loose::{self, Choice};
use crate::strategies;

fn full_message() -> Message {
    Message {
        header: Some(Header {
            durable: true,
            priority: 7,
            ttl: Some(60_000),
            first_acquirer: true,
            delivery_count: 300,
        }),
        delivery_annotations: vec![(Symbol::from("x-opt-hop"), Value::Uint(3))],
        message_annotations: vec![(Symbol::from("x-opt-key"), Value::String("k".into()))],
        properties: Some(Properties {
            message_id: Some(MessageId::Uuid([7; 16])),
            user_id: Some(b"alice".to_vec()),
            to: Some("orders/eu".into()),
            subject: Some("new".into()),
            reply_to: Some("replies".into()),
            correlation_id: Some(MessageId::Ulong(9)),
            content_type: Some(Symbol::from("text/plain")),
            content_encoding: Some(Symbol::from("gzip")),
            absolute_expiry_time: Some(1_700_000_000_000),
            creation_time: Some(-1),
            group_id: Some("g".into()),
            group_sequence: Some(70_000),
            reply_to_group_id: Some("rg".into()),
        }),
        application_properties: vec![("colour".into(), Value::Bool(true)), ("n".into(), Value::Long(-5))],
        body: Body::Data(vec![vec![1; 300], vec![]]),
        footer: vec![(Symbol::from("crc"), Value::Ulong(u64::MAX))],
    }
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    encode_message(&mut out, message);
    out
}

#[test]
fn every_message_section_round_trips() {
    let message = full_message();
    assert_eq!(decode_message(&encoded(&message)).unwrap(), message);
}

#[test]
fn every_body_type_and_message_id_type_round_trips() {
    let bodies = [
        Body::Empty,
        Body::Value(Value::Null),
        Body::Value(Value::List(vec![Value::Char('x')])),
        Body::Sequence(vec![vec![Value::Null], vec![]]),
        Body::Data(vec![b"x".to_vec()]),
    ];
    let ids = [
        MessageId::Ulong(0),
        MessageId::Ulong(u64::MAX),
        MessageId::Uuid([1; 16]),
        MessageId::Binary(vec![0; 300]),
        MessageId::String("id".into()),
    ];
    for body in &bodies {
        for id in &ids {
            let properties = Properties { correlation_id: Some(id.clone()), ..Properties::default() };
            let message = Message { properties: Some(properties), body: body.clone(), ..Message::default() };
            assert_eq!(decode_message(&encoded(&message)).unwrap(), message);
        }
    }
}

#[test]
fn sections_out_of_order_are_refused() {
    let header: &[u8] = b"\x00\x53\x70\x45";
    let properties: &[u8] = b"\x00\x53\x73\x45";
    let data: &[u8] = b"\x00\x53\x75\xa0\x01x";
    let sequence: &[u8] = b"\x00\x53\x76\x45";
    let value: &[u8] = b"\x00\x53\x77\x40";
    let footer: &[u8] = b"\x00\x53\x78\xc1\x01\x00";
    let bad: [&[&[u8]]; 8] = [
        &[properties, header],
        &[header, header],
        &[data, properties],
        &[data, value],
        &[data, sequence],
        &[value, value],
        &[footer, value],
        &[footer, footer],
    ];
    for sections in bad {
        let error = decode_message(&sections.concat()).unwrap_err();
        assert_eq!(error.condition, condition::DECODE_ERROR);
        assert!(error.description.contains("cannot come after"), "{error}");
    }
    for sections in [&[data, data, footer][..], &[sequence, sequence], &[header, value], &[properties, footer]] {
        decode_message(&sections.concat()).unwrap();
    }
}

#[test]
fn message_decode_error_names_the_field() {
    let cases: [(&[u8], &str, Symbol); 7] = [
        (b"\x00\x53\x70\xc0\x03\x01\xa1\x00", "header.durable: expected boolean", condition::DECODE_ERROR),
        (b"\x00\x53\x73\xc0\x03\x01\x50\x00", "properties.message-id: expected a message id", condition::DECODE_ERROR),
        (
            b"\x00\x53\x72\xc1\x03\x02\x44\x40",
            "message-annotations: expected symbol as a key, found ulong",
            condition::DECODE_ERROR,
        ),
        (
            b"\x00\x53\x74\xc1\x05\x02\xa3\x01a\x40",
            "application-properties: expected string, found symbol",
            condition::DECODE_ERROR,
        ),
        (b"\x00\x53\x75\xa1\x00", "data: expected binary, found string", condition::DECODE_ERROR),
        (b"\x00\x53\x79\x40", "message.section: the type 0x79 is unknown", condition::NOT_IMPLEMENTED),
        (b"\x53\x70\x45", "message.section: expected a described type, found ulong", condition::DECODE_ERROR),
    ];
    for (bytes, text, condition) in cases {
        let error = decode_message(bytes).unwrap_err();
        assert!(error.description.contains(text), "{error}");
        assert_eq!(error.condition, condition);
    }
}

#[test]
fn scan_finds_every_section() {
    let bytes = encoded(&full_message());
    let sections: Vec<_> = scan::sections(&bytes).map(Result::unwrap).collect();
    let codes: Vec<_> = sections.iter().map(|section| section.code).collect();
    assert_eq!(codes, [0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x75, 0x78]);
    assert_eq!(sections.iter().map(|section| section.range.len()).sum::<usize>(), bytes.len());
    for section in &sections {
        assert!(bytes[section.range.clone()].ends_with(section.value));
    }
    assert_eq!(scan::to(&bytes), Some("orders/eu"));
}

#[test]
fn scan_distinguishes_present_absent_cut_and_malformed_to() {
    let bytes = encoded(&full_message());
    let properties = scan::sections(&bytes).map(Result::unwrap).find(|section| section.code == 0x73).unwrap();
    for end in 0..=bytes.len() {
        let expected = if end >= properties.range.end {
            Ok(Some("orders/eu"))
        } else if scan::sections(&bytes[..end]).all(|section| section.is_ok()) {
            Ok(None) // cut exactly between two sections
        } else {
            Err(Broken::Cut)
        };
        assert_eq!(scan::find_to(&bytes[..end]), expected, "{end} bytes");
        assert_eq!(scan::to(&bytes[..end]), expected.unwrap_or(None));
    }
    assert_eq!(scan::find_to(b"\x00\x53\x75\xb0\x00\x10\x00\x00first frame"), Ok(None));
    assert_eq!(scan::find_to(b"\x00\x53\x73\xc0\x03\x02\x40\x40"), Ok(None));
    assert_eq!(scan::find_to(b"\x00\x53\x73\xc0\x04\x03\x40\x40\x40"), Ok(None));
    assert_eq!(scan::find_to(b"\x00\x53\x73\xc0\x04\x03\x40\x40\x44"), Err(Broken::Malformed));
    assert_eq!(scan::find_to(b"\x00\x53\x73\xc0\x06\x03\x40\x40\xa1\x01\xff"), Err(Broken::Malformed));
    assert_eq!(scan::find_to(b"hello"), Err(Broken::Malformed));
}

/// The same message in another legal encoding.
fn loosely(message: &[u8], seed: u64) -> Vec<u8> {
    let mut choice = Choice::new(seed);
    let (mut bytes, mut rest) = (Vec::new(), message);
    while !rest.is_empty() {
        let (section, after) = decode_value(rest).unwrap();
        loose::encode(&mut bytes, &section, &mut choice);
        rest = after;
    }
    bytes
}

proptest! {
    #[test]
    fn messages_are_decoded_from_every_legal_encoding(message in strategies::message(), seed in any::<u64>()) {
        let to = message.properties.as_ref().and_then(|properties| properties.to.as_deref());
        for bytes in [encoded(&message), loosely(&encoded(&message), seed)] {
            prop_assert_eq!(scan::find_to(&bytes), Ok(to));
            prop_assert_eq!(&decode_message(&bytes).unwrap(), &message);
        }
    }
}
