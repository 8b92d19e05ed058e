//! Every primitive in each of its encodings (part 1, 1.6).

use enmasse_amqp::codec::{decode_value, encode_value};
use enmasse_amqp::types::{Symbol, Value};
use proptest::prelude::*;

use crate::loose::{self, Choice};
use crate::strategies;

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    encode_value(&mut out, value);
    out
}

fn decoded(bytes: &[u8]) -> Value {
    let (value, rest) = decode_value(bytes).unwrap();
    assert!(rest.is_empty(), "{rest:02x?} left");
    value
}

#[test]
fn decode_value_returns_the_remaining_bytes() {
    assert_eq!(decode_value(b"\x52\x07\x40").unwrap(), (Value::Uint(7), &b"\x40"[..]));
}

#[test]
fn nan_keeps_its_bits() {
    let bits = 0x7fc0_1234_u32;
    match decoded(&encoded(&Value::Float(f32::from_bits(bits)))) {
        Value::Float(value) => assert_eq!(value.to_bits(), bits),
        other => panic!("{other:?}"),
    }
    let bits = 0xfff8_0000_dead_beef_u64;
    match decoded(&encoded(&Value::Double(f64::from_bits(bits)))) {
        Value::Double(value) => assert_eq!(value.to_bits(), bits),
        other => panic!("{other:?}"),
    }
}

#[test]
fn compound_uses_the_32_bit_form_only_above_255_bytes() {
    // 254 bytes of elements and the count make a size of 255, the last that fits into one byte.
    for (elements, code) in [(254, 0xc0), (255, 0xd0)] {
        let list = Value::List(vec![Value::Null; elements]);
        let bytes = encoded(&list);
        assert_eq!(bytes[0], code, "{elements} elements");
        assert_eq!(decoded(&bytes), list);
    }
    for (length, code) in [(255, 0xa1), (256, 0xb1)] {
        let text = Value::String("x".repeat(length));
        let bytes = encoded(&text);
        assert_eq!(bytes[0], code);
        assert_eq!(decoded(&bytes), text);
    }
}

#[test]
fn invalid_array_is_encoded_as_a_list() {
    let mixed = vec![Value::Uint(1), Value::Null];
    let described = |number| Value::Described(Box::new((Value::Ulong(number), Value::Uint(1))));
    let long = |text: &str| Value::Described(Box::new((Value::Symbol(Symbol::from(text)), Value::Uint(1))));
    let cases = [
        mixed.clone(),
        vec![described(1), described(2)],
        vec![described(1), Value::Uint(1)],
        vec![long(&"d".repeat(65))],
        vec![Value::Null; 17],
        vec![Value::Array(vec![Value::Uint(1)]), Value::Array(mixed)],
    ];
    for elements in cases {
        let decoded = decoded(&encoded(&Value::Array(elements.clone())));
        match decoded {
            Value::List(list) => assert_eq!(list.len(), elements.len()),
            other => panic!("{other:?}"),
        }
    }
    for array in [vec![described(1), described(1)], vec![long(&"d".repeat(64))], vec![Value::Null; 16]] {
        assert_eq!(decoded(&encoded(&Value::Array(array.clone()))), Value::Array(array));
    }
}

#[test]
fn empty_array_without_a_constructor_is_decoded() {
    for bytes in [&b"\xe0\x01\x00"[..], b"\xf0\0\0\0\x04\0\0\0\0", b"\xe0\x02\x00\xa3"] {
        assert_eq!(decoded(bytes), Value::Array(vec![]));
    }
}

proptest! {
    #[test]
    fn values_round_trip(value in strategies::value()) {
        prop_assert_eq!(decoded(&encoded(&value)), value);
    }

    #[test]
    fn values_are_decoded_from_every_legal_encoding(value in strategies::value(), seed in any::<u64>()) {
        let mut bytes = Vec::new();
        loose::encode(&mut bytes, &value, &mut Choice::new(seed));
        prop_assert_eq!(decoded(&bytes), value);
    }
}
