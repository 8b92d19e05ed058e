//! Input that no correct peer sends: it gets the right condition and a helpful description, and
//! takes memory in proportion to its bytes.

use enmasse_amqp::codec::{
    DecodeError, MAX_DEPTH, decode_message, decode_performative, decode_sasl, decode_value, describe, encode_message,
    encode_performative, encode_sasl, fast, frame, scan,
};
use enmasse_amqp::types::{Performative, Symbol, Value, condition};
use proptest::prelude::*;

use crate::{fuzz, strategies};

fn value_error(bytes: &[u8]) -> DecodeError {
    let error = decode_value(bytes).unwrap_err();
    assert_eq!(error.condition, condition::DECODE_ERROR, "{error}");
    error
}

/// Bytes on the heap that a value holds.
fn weight(value: &Value) -> usize {
    let list = |values: &Vec<Value>| values.capacity() * size_of::<Value>() + values.iter().map(weight).sum::<usize>();
    match value {
        Value::Binary(bytes) => bytes.capacity(),
        Value::String(text) => text.capacity(),
        Value::Symbol(symbol) => symbol.as_str().len(),
        Value::List(values) | Value::Array(values) => list(values),
        Value::Map(map) => {
            let pairs = map.iter().map(|(key, value)| weight(key) + weight(value)).sum::<usize>();
            map.capacity() * size_of::<(Value, Value)>() + pairs
        }
        Value::Described(pair) => size_of::<(Value, Value)>() + weight(&pair.0) + weight(&pair.1),
        _ => 0,
    }
}

#[test]
fn declared_counts_and_sizes_beyond_the_input_are_refused() {
    let cases: [(&[u8], &str); 12] = [
        (b"\xd0\0\0\0\x05\xff\xff\xff\xff\x40", "the element count exceeds"),
        (b"\xd1\0\0\0\x05\xff\xff\xff\xfe\x40", "the element count exceeds"),
        (b"\xd0\xff\xff\xff\xff\0\0\0\x01\x40", "ends beyond the bytes"),
        (b"\xb0\xff\xff\xff\xff", "ends beyond the bytes"),
        (b"\xb1\x7f\xff\xff\xff1", "ends beyond the bytes"),
        (b"\xf0\0\0\0\x06\xff\xff\xff\xff\x70\x01", "the element count exceeds"),
        (b"\xf0\0\0\0\x05\xff\xff\xff\xff\x40", "array elements of a type without bytes"),
        (b"\xe0\x02\x11\x41", "array elements of a type without bytes"),
        (b"\xe0\x02\x11\x45", "array elements of a type without bytes"),
        (b"\xc0\x00", "ends beyond the bytes"),
        (b"\xd0\0\0\0\x03\0\0\0", "ends beyond the bytes"),
        (b"\xe0\x02\x01\xd0", "the element count exceeds"),
    ];
    for (bytes, text) in cases {
        let error = value_error(bytes);
        assert!(error.description.contains(text), "{bytes:02x?}: {error}");
    }
}

#[test]
fn malformed_value_error_names_the_defect() {
    let cases: [(&[u8], &str); 14] = [
        (b"", "ends beyond the bytes"),
        (b"\x3f", "0x3f is not a constructor"),
        (b"\x46", "0x46 is not a constructor"),
        (b"\xc2\x00\x00", "0xc2 is not a constructor"),
        (b"\xa1\x02\xc3\x28", "not UTF-8"),
        (b"\xb1\0\0\0\x03\xed\xa0\x80", "not UTF-8"),
        (b"\xa3\x02\xc3\xa9", "not ASCII"),
        (b"\x56\x02", "neither 0x00 nor 0x01"),
        (b"\x73\0\0\xd8\0", "not a Unicode scalar value"),
        (b"\x73\0\x11\0\0", "not a Unicode scalar value"),
        (b"\xc1\x02\x01\x40", "a key without a value"),
        (b"\xc0\x03\x01\x40\x40", "left after the last element"),
        (b"\xc1\x04\x02\x40\x40\x40", "left after the last element"),
        (b"\xe0\x04\x01\x50\x01\x02", "left after the last element"),
    ];
    for (bytes, text) in cases {
        let error = value_error(bytes);
        assert!(error.description.contains(text), "{bytes:02x?}: {error}");
    }
}

/// `depth` lists, each the only element of the one before.
fn nested_lists(depth: u32) -> Vec<u8> {
    let mut bytes = vec![0x40];
    for _ in 0..depth {
        let size = (bytes.len() + 4) as u32;
        let mut outer = vec![0xd0];
        outer.extend(size.to_be_bytes());
        outer.extend([0, 0, 0, 1]);
        outer.extend(&bytes);
        bytes = outer;
    }
    bytes
}

#[test]
fn nesting_beyond_16_levels_is_refused() {
    assert!(decode_value(&nested_lists(MAX_DEPTH)).is_ok());
    assert!(value_error(&nested_lists(MAX_DEPTH + 1)).description.contains("deeper than 16 levels"));
    assert!(value_error(&nested_lists(5_000)).description.contains("deeper than 16 levels"));
    // Descriptors of descriptors, and described values of described values.
    assert!(decode_value(&vec![0; 1_000_000]).is_err());
    assert!(decode_value(&b"\x00\x40".repeat(500_000)).is_err());
    assert!(scan::sections(&vec![0; 1_000_000]).any(|section| section.is_err()));
    // An array of arrays of arrays.
    let mut array = vec![0xf0];
    for _ in 0..40 {
        array = [&b"\xf0\0\0\0\x40\0\0\0\x01"[..], &array].concat();
    }
    assert!(decode_value(&array).is_err());
    // Inside of a field of a performative.
    let properties = [&b"\x00\x53\x18\xd0"[..], &9_000_u32.to_be_bytes(), &[0, 0, 0, 1], &nested_lists(900)].concat();
    assert!(decode_performative(&properties).is_err());
}

#[test]
fn long_descriptor_of_an_array_is_refused() {
    let mut bytes = vec![0x00, 0xb3];
    bytes.extend(60_000_u32.to_be_bytes());
    bytes.extend(vec![b'x'; 60_000]);
    bytes.push(0x50);
    bytes.extend(vec![1; 60_000]);
    let mut array = vec![0xf0];
    array.extend((bytes.len() as u32 + 4).to_be_bytes());
    array.extend(60_000_u32.to_be_bytes());
    array.extend(bytes);
    assert!(value_error(&array).description.contains("descriptor of an array"));
    assert!(value_error(b"\xe0\x05\x01\x00\x40\x50\x01").description.contains("descriptor of an array"));
}

#[test]
fn decoded_memory_is_proportional_to_the_input() {
    let list = |element: &[u8], count: usize| {
        let content = element.repeat(count);
        let mut bytes = vec![0xd0];
        bytes.extend((content.len() as u32 + 4).to_be_bytes());
        bytes.extend((count as u32).to_be_bytes());
        bytes.extend(content);
        bytes
    };
    let mut described = b"\x00\xa3\x40".to_vec();
    described.extend([b'd'; 64]);
    described.push(0x50);
    described.extend([1; 10_000]);
    let mut array = vec![0xf0];
    array.extend((described.len() as u32 + 4).to_be_bytes());
    array.extend(10_000_u32.to_be_bytes());
    array.extend(described);
    let worst = [
        array,
        list(b"\x40", 100_000),
        list(b"\x45", 100_000),
        list(b"\x00\x40\x40", 30_000),
        list(b"\xc1\x01\x00", 30_000),
        list(b"\xe0\x02\x10\x40", 25_000),
        list(b"\xe0\x0b\x07\x00\x44\x50\x01\x02\x03\x04\x05\x06\x07", 8_000),
        list(b"\xc0\x03\x02\x40\x40", 20_000),
    ];
    for bytes in worst {
        let (value, _) = decode_value(&bytes).unwrap();
        let factor = weight(&value) / bytes.len();
        assert!(factor <= 256, "{factor} bytes of memory for each byte of input: {:02x?}", &bytes[..20]);
    }
}

fn performative_error(body: &[u8]) -> (Symbol, String) {
    let error = decode_performative(body).unwrap_err();
    (error.condition, error.description)
}

/// A described list: its `count` fields are `fields`.
fn composite(code: u8, count: u8, fields: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x00, 0x53, code, 0xc0, fields.len() as u8 + 1, count];
    bytes.extend(fields);
    bytes
}

/// A receiver's attach that continues with `fields` after its role.
fn attach(count: u8, fields: &[u8]) -> Vec<u8> {
    composite(0x12, 3 + count, &[b"\xa1\x01l\x43\x41", fields].concat())
}

fn source(count: u8, fields: &[u8]) -> Vec<u8> {
    attach(3, &[b"\x40\x40", &composite(0x28, count, fields)[..]].concat())
}

#[test]
fn errors_name_the_performative_and_the_field() {
    let cases = [
        (composite(0x10, 0, b""), "open.container-id: this mandatory field is missing"),
        (composite(0x10, 1, b"\x40"), "open.container-id: this mandatory field is missing"),
        (composite(0x11, 2, b"\x40\x43"), "begin.incoming-window: this mandatory field is missing"),
        (composite(0x12, 2, b"\xa1\x01l\x43"), "attach.role: this mandatory field is missing"),
        (
            composite(0x12, 3, b"\xa1\x01l\x43\x42"),
            "attach.initial-delivery-count (role sender): this mandatory field is missing",
        ),
        (attach(1, b"\x50\x03"), "attach.snd-settle-mode: a snd-settle-mode is 0"),
        (attach(2, b"\x40\x50\x02"), "attach.rcv-settle-mode: a rcv-settle-mode is 0"),
        (source(2, b"\x40\x52\x03"), "attach.source: source.durable: a durability is 0"),
        (source(3, b"\x40\x40\xa3\x02no"), "attach.source: source.expiry-policy: an expiry-policy is link-detach"),
        (composite(0x13, 1, b"\x43"), "flow.incoming-window: this mandatory field is missing"),
        (composite(0x14, 1, b"\x40"), "transfer.handle: this mandatory field is missing"),
        (composite(0x15, 1, b"\x41"), "disposition.first: this mandatory field is missing"),
        (composite(0x18, 1, &composite(0x1d, 1, b"\x40")), "close.error: error.condition: this mandatory field"),
    ];
    for (body, text) in cases {
        let (condition, description) = performative_error(&body);
        assert!(description.starts_with(text), "{description:?} is not {text:?}");
        assert_eq!(condition, condition::INVALID_FIELD, "{description}");
    }
}

#[test]
fn field_of_a_wrong_type_is_named() {
    let cases = [
        (composite(0x10, 1, b"\xa3\x00"), "open.container-id: expected string, found symbol (0xa3)"),
        (composite(0x10, 3, b"\xa1\x00\x40\x60\0\x01"), "open.max-frame-size: expected uint, found ushort (0x60)"),
        (
            composite(0x10, 8, b"\xa1\x00\x40\x40\x40\x40\x40\x40\xe0\x03\x01\xa1\x00"),
            "open.offered-capabilities: expected an array of symbols",
        ),
        (
            composite(0x11, 8, b"\x40\x43\x43\x43\x40\x40\x40\xc1\x03\x02\x43\x40"),
            "begin.properties: expected symbol as a key, found uint",
        ),
        (source(1, b"\x41"), "attach.source: source.address: expected string, found boolean (0x41)"),
        (
            source(9, b"\x40\x40\x40\x40\x40\x40\x40\x40\x45"),
            "attach.source: source.default-outcome: outcome: expected a described type",
        ),
        (
            attach(5, b"\x40\x40\x40\x40\xc1\x03\x02\x43\x40"),
            "attach.unsettled: unsettled: expected binary, found uint",
        ),
        (composite(0x14, 2, b"\x43\x80\x00"), "transfer.delivery-id: expected uint, found ulong (0x80)"),
        (
            composite(0x14, 8, b"\x43\x40\x40\x40\x40\x40\x40\x41"),
            "transfer.state: delivery-state: expected a described type",
        ),
        (composite(0x16, 2, b"\x43\x56\x07"), "detach.closed: the boolean is neither 0x00 nor 0x01"),
        (
            composite(0x17, 1, &composite(0x24, 0, b"")),
            "end.error: error: expected the type amqp:error:list, found amqp:accepted:list",
        ),
        (b"\x00\x53\x10\xa1\x00".to_vec(), "open: expected list, found string (0xa1)"),
    ];
    for (body, text) in cases {
        let (condition, description) = performative_error(&body);
        assert!(description.starts_with(text), "{description:?} is not {text:?}");
        assert_eq!(condition, condition::DECODE_ERROR, "{description}");
    }
}

#[test]
fn body_that_is_no_performative_is_described() {
    let cases: [(&[u8], &str); 6] = [
        (b"", "performative: the value ends beyond"),
        (b"\x45", "performative: expected a described type, found list"),
        (b"\x00\x40\x45", "performative: expected a descriptor (ulong or symbol), found null"),
        (b"\x00\x53\x70\x45", "performative: the type amqp:header:list is not a performative"),
        (b"\x00\x80\0\0\0\x01\0\0\0\x02\x45", "performative: the type 0x100000002 is not a performative"),
        (b"\x00\xa3\x04open\x45", "performative: the type open is not a performative"),
    ];
    for (body, text) in cases {
        let (found, description) = performative_error(body);
        assert!(description.starts_with(text), "{description:?} is not {text:?}");
        assert_eq!(found, condition::DECODE_ERROR);
    }
    let long = [&b"\x00\xa3\xff"[..], &[b'\n'; 255], b"\x45"].concat();
    let (_, description) = performative_error(&long);
    assert!(description.len() < 150 && !description.contains('\n'), "{description}");
}

#[test]
fn only_a_transfer_has_a_payload() {
    let (condition, description) = performative_error(b"\x00\x53\x18\x45\x40\x40");
    assert_eq!(condition, condition::DECODE_ERROR);
    assert_eq!(description, "amqp:close:list: 2 bytes follow it in the frame");
    assert_eq!(decode_performative(b"\x00\x53\x14\xc0\x02\x01\x43payload").unwrap().1, b"payload");
    assert!(decode_sasl(b"\x00\x53\x43\xc0\x03\x01\xa0\x00\x40").is_err());
    assert!(fast::disposition(b"\x00\x53\x15\xc0\x03\x02\x41\x43\x40").is_err());
}

#[test]
fn a_delivery_tag_has_at_most_32_bytes() {
    let transfer = |length: u8| {
        let mut body = vec![0x00, 0x53, 0x14, 0xc0, length + 5, 3, 0x43, 0x43, 0xa0, length];
        body.extend(vec![7; usize::from(length)]);
        body
    };
    assert_eq!(fast::transfer(&transfer(32)).unwrap().delivery_tag, Some(&[7; 32][..]));
    let error = fast::transfer(&transfer(33)).unwrap_err();
    assert_eq!(error.condition, condition::INVALID_FIELD);
    assert_eq!(error.description, "transfer.delivery-tag: a delivery tag has at most 32 bytes");
}

#[test]
fn sasl_errors_name_the_field_and_no_secret() {
    let cases = [
        (composite(0x40, 1, b"\xe0\x02\x00\xa3"), "sasl-mechanisms.sasl-server-mechanisms: this mandatory field"),
        (composite(0x41, 0, b""), "sasl-init.mechanism: this mandatory field is missing"),
        (composite(0x41, 2, b"\xa3\x00\xa1\x06secret"), "sasl-init.initial-response: expected binary, found string"),
        (composite(0x43, 1, b"\xa1\x06secret"), "sasl-response.response: expected binary, found string (0xa1)"),
        (composite(0x44, 1, b"\x50\x09"), "sasl-outcome.code: a sasl-code is 0 (ok)"),
        (b"\x00\xa3\x06secret\x45".to_vec(), "SASL frame: its type is none of 0x40 to 0x44"),
    ];
    for (body, text) in cases {
        let error = decode_sasl(&body).unwrap_err();
        assert!(error.description.starts_with(text), "{error}");
        assert!(!error.description.contains("secret"));
    }
}

/// The length of a frame's body without its payload.
fn performative_length(body: &[u8]) -> usize {
    body.len() - decode_performative(body).unwrap().1.len()
}

proptest! {
    #[test]
    fn truncated_performative_is_an_error(performative in strategies::performative()) {
        let mut bytes = Vec::new();
        encode_performative(&mut bytes, 0, &performative);
        for end in frame::HEADER_SIZE..bytes.len() {
            prop_assert!(decode_performative(&bytes[frame::HEADER_SIZE..end]).is_err(), "cut at {}", end);
        }
        for end in 0..bytes.len() {
            prop_assert_eq!(frame::split(&bytes[..end], u32::MAX), Ok(None));
        }
    }

    #[test]
    fn truncated_sasl_frame_is_an_error(sasl in strategies::sasl_frame()) {
        let mut bytes = Vec::new();
        encode_sasl(&mut bytes, &sasl);
        for end in frame::HEADER_SIZE..bytes.len() {
            prop_assert!(decode_sasl(&bytes[frame::HEADER_SIZE..end]).is_err());
        }
    }

    #[test]
    fn message_truncated_inside_a_section_is_an_error(message in strategies::message()) {
        let mut bytes = Vec::new();
        encode_message(&mut bytes, &message);
        let ends: Vec<_> = scan::sections(&bytes).map(|section| section.unwrap().range.end).collect();
        for end in 1..bytes.len() {
            prop_assert_eq!(decode_message(&bytes[..end]).is_ok(), ends.contains(&end), "cut at {}", end);
        }
    }

    /// A changed byte may still be legal. A refusal must have a description, without a panic; an
    /// accepted value must survive a round trip.
    #[test]
    fn performative_with_a_changed_byte_is_refused_or_round_trips(
        performative in strategies::performative(),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = Vec::new();
        encode_performative(&mut bytes, 0, &performative);
        let place = frame::HEADER_SIZE + place.index(bytes.len() - frame::HEADER_SIZE);
        bytes[place] = byte;
        let body = &bytes[frame::HEADER_SIZE..];
        match decode_performative(body) {
            Ok((Performative::Transfer(_), _)) => prop_assert!(performative_length(body) <= body.len()),
            Ok((changed, rest)) => {
                prop_assert!(rest.is_empty());
                let mut again = Vec::new();
                encode_performative(&mut again, 0, &changed);
                prop_assert!(decode_performative(&again[frame::HEADER_SIZE..]).is_ok());
            }
            Err(error) => prop_assert!(error.condition.as_str().starts_with("amqp:") && !error.description.is_empty()),
        }
        fuzz::check_views(body);
        let _ = describe(&bytes);
    }
}
