//! Selectors on messages of every shape: each type of property, sections that are missing, cut or
//! malformed.

use enmasse_amqp::selector::{Dialect, Selector, Subject};
use enmasse_amqp::types::{Body, Message, Properties, Symbol, Value};

use super::Outcome::{self, No, Unknown, Yes};
use super::{check, encoded, selects, with_properties};

#[test]
fn every_property_type_can_be_compared() {
    let cases: Vec<(Value, &str, Outcome)> = vec![
        (Value::Null, "x = x", Unknown),
        (Value::Bool(true), "x = TRUE AND x", Yes),
        (Value::Ubyte(255), "x = 255", Yes),
        (Value::Ushort(65535), "x = 65535", Yes),
        (Value::Uint(0), "x = 0", Yes),
        (Value::Uint(7), "x = 7", Yes),
        (Value::Uint(u32::MAX), "x = 4294967295", Yes),
        (Value::Ulong(0), "x = 0", Yes),
        (Value::Ulong(7), "x = 7", Yes),
        (Value::Ulong(i64::MAX as u64), "x = 9223372036854775807", Yes),
        (Value::Ulong(u64::MAX), "x > 9223372036854775807 AND x = 18446744073709551615.", Yes),
        (Value::Byte(-128), "x = -128", Yes),
        (Value::Short(-32768), "x = -32768", Yes),
        (Value::Int(-7), "x = -7", Yes),
        (Value::Int(70_000), "x = 70000", Yes),
        (Value::Long(-7), "x = -7", Yes),
        (Value::Long(i64::MIN), "x = -9223372036854775808", Yes),
        (Value::Float(0.1), "x = 0.1f AND x <> 0.1", Yes),
        (Value::Double(0.1), "x = 0.1", Yes),
        (Value::Double(f64::NAN), "x = x", No),
        (Value::Decimal32([0x32, 0x80, 0, 15]), "x = 15", Yes),
        (Value::Decimal64([0x31, 0xc0, 0, 0, 0, 0, 0, 7]), "x = 7.", Yes),
        (Value::Decimal128([0x30, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]), "x = 9", Yes),
        (Value::Char('a'), "x = 'a'", No),
        (Value::Char('a'), "x IS NOT NULL", Yes),
        (Value::Timestamp(-1), "x = -1", Yes),
        (Value::Uuid([1; 16]), "x = x", Yes),
        (Value::Uuid([1; 16]), "x = 'a'", No),
        (Value::Binary(b"ab".to_vec()), "x = 'ab'", No),
        (Value::Binary(b"ab".to_vec()), "x = x", Yes),
        (Value::String("ü".repeat(200)), "x LIKE 'ü%ü'", Yes),
        (Value::Symbol(Symbol::from("sym")), "x = 'sym'", Yes),
        (Value::List(vec![Value::Int(1)]), "x = 1", No),
        (Value::Map(vec![]), "x IS NOT NULL", Yes),
        (Value::Array(vec![Value::Int(1)]), "x = x", No),
        (Value::Described(Box::new((Value::Ulong(1), Value::Int(1)))), "x = 1", No),
    ];
    for (value, selector, expected) in cases {
        let others = [("w", Value::String("before".to_owned())), ("x", value.clone()), ("y", Value::Int(9))];
        let message = encoded(&with_properties(&others));
        check(selector, Dialect::Jms, &message, expected);
        assert!(selects("y = 9", Dialect::Jms, &message), "after {value:?}");
    }
}

#[test]
fn missing_or_short_sections_are_read_as_null_or_default() {
    for message in [vec![], encoded(&Message { body: Body::Data(vec![vec![1]]), ..Message::default() })] {
        for selector in ["a IS NULL", "JMSPriority = 4", "JMSType IS NULL", "TRUE"] {
            assert!(selects(selector, Dialect::Jms, &message), "{selector}");
        }
    }
    // Lists end with the last field that has a value.
    let short = encoded(&Message {
        properties: Some(Properties { to: Some("a".to_owned()), ..Properties::default() }),
        ..Message::default()
    });
    assert!(selects("JMSXGroupID IS NULL AND JMSTimestamp = 0 AND amqp.to = 'a'", Dialect::Jms, &short));
}

/// Selectors that read each section, both positive and negative.
const ASKING: [&str; 6] =
    ["a = 1", "a <> 1", "a IS NULL", "JMSPriority >= 0", "JMSType IS NULL", "JMSXDeliveryCount = 1"];

#[test]
fn message_with_a_malformed_section_is_not_selected() {
    let cases: &[(&str, &[u8])] = &[
        ("a IS NULL", b"\x00\x53\x74\xc1\x05\x02\x52\x01\x52\x01"), // a key that is a number
        ("a IS NULL", b"\x00\x53\x74\xc1\x04\x01\xa1\x01b"),        // a key without a value
        ("a IS NULL", b"\x00\x53\x74\xc1\x06\x04\xa1\x01b\x52\x01"), // fewer entries than claimed
        ("a IS NULL", b"\x00\x53\x74\xc1\x20\x02\xa1\x01b\x52\x01"), // longer than the bytes
        ("a IS NOT NULL", b"\x00\x53\x74\xc1\x07\x02\xa1\x01a\xa1\x01\xff"), // no UTF-8
        ("a IS NOT NULL", b"\x00\x53\x74\xc1\x06\x02\xa1\x01a\x56\x07"), // no boolean
        ("a IS NOT NULL", b"\x00\x53\x74\xc1\x05\x02\xa1\x01a\x3f"), // no type
        ("a IS NULL", b"\x00\x53\x74\xa1\x01x"),                    // no map
        ("a IS NULL", b"\x00\x53\x74"),                             // no value
        ("JMSType IS NULL", b"\x00\x53\x73\xa1\x01x"),              // no list
        ("JMSType IS NULL", b"\x00\x53\x73\xc0\x02\x04\x40"),       // fewer fields than claimed
        ("JMSPriority = 4", b"\x00\x53\x70\xc0\x03\x02\x41\xa1"),   // a field beyond the list
        ("TRUE", b"no message at all"),
        ("TRUE", b"\x00"),
    ];
    for (selector, message) in cases {
        assert!(!selects(selector, Dialect::Jms, message), "{selector} {message:02x?}");
        assert!(!selects(&format!("NOT ({selector})"), Dialect::Jms, message), "{selector} {message:02x?}");
    }
    // Fields that are not requested are not examined.
    assert!(selects("JMSPriority = 4", Dialect::Jms, cases[0].1));
}

#[test]
fn messages_cut_before_the_body_are_not_selected() {
    let message = Message {
        header: Some(enmasse_amqp::types::Header { durable: true, priority: 9, ..Default::default() }),
        properties: Some(Properties { subject: Some("s".to_owned()), ..Properties::default() }),
        ..with_properties(&[("a", Value::Int(1)), ("b", Value::String("text".to_owned()))])
    };
    let bytes = encoded(&message);
    let ends: Vec<_> = enmasse_amqp::codec::scan::sections(&bytes).map(|section| section.unwrap().range.end).collect();
    for end in (1..bytes.len()).filter(|end| !ends.contains(end)) {
        for selector in ASKING {
            assert!(!selects(selector, Dialect::Jms, &bytes[..end]), "{selector} {end}");
        }
    }
}

#[test]
fn first_of_equal_property_keys_is_used() {
    let message = encoded(&with_properties(&[("a", Value::Int(1)), ("a", Value::Int(2)), ("b", Value::Int(3))]));
    assert!(selects("a = 1 AND b = 3", Dialect::Jms, &message));
}

#[test]
fn names_of_the_same_field_give_the_same_value() {
    let message = encoded(&Message {
        properties: Some(Properties { subject: Some("s".to_owned()), ..Properties::default() }),
        ..Message::default()
    });
    assert!(selects("JMSType = 's' AND amqp.subject = JMSType AND amqp.to IS NULL", Dialect::Jms, &message));
}

/// One message, many selectors: its sections are found once.
#[test]
fn subject_can_be_tested_by_many_selectors() {
    let message = encoded(&with_properties(&[("n", Value::Int(5))]));
    let subject = Subject::new(&message);
    let chosen = (0..10)
        .filter(|number| Selector::compile(&format!("n = {number}"), Dialect::Jms).unwrap().unwrap().selects(&subject));
    assert_eq!(chosen.collect::<Vec<_>>(), [5]);
}
