//! The vectors in `vectors/frames`: bytes and their meaning, for this codec and for any other.

use enmasse_amqp::codec::frame::{self, FrameKind};
use enmasse_amqp::codec::{
    DecodeError, decode_message, decode_performative, decode_sasl, decode_value, describe, encode_message,
    encode_performative, encode_sasl, encode_value, fast,
};
use enmasse_amqp::types::{Performative, Symbol, Value};
use serde::Deserialize;

const VALUES: &str = include_str!("../../../../vectors/frames/values.json");
const REFUSED: &str = include_str!("../../../../vectors/frames/refused.json");
const RECORDED: [&str; 3] = [
    include_str!("../../../../vectors/frames/qpid-proton-python.json"),
    include_str!("../../../../vectors/frames/rhea.json"),
    include_str!("../../../../vectors/frames/go-amqp.json"),
];

fn bytes(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "{hex}");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[derive(Deserialize)]
struct Values {
    values: Vec<ValueVector>,
}

#[derive(Deserialize)]
struct ValueVector {
    name: String,
    hex: String,
    value: serde_json::Value,
    #[serde(default)]
    canonical: bool,
}

/// A value written as `{"type": content}`; 64-bit numbers are strings, bytes are hex.
fn value(json: &serde_json::Value) -> Value {
    let (kind, json) = json.as_object().unwrap().iter().next().unwrap();
    let text = || json.as_str().unwrap();
    let number = || json.as_i64().unwrap();
    let list = || json.as_array().unwrap().iter().map(value).collect::<Vec<_>>();
    match kind.as_str() {
        "null" => Value::Null,
        "boolean" => Value::Bool(json.as_bool().unwrap()),
        "ubyte" => Value::Ubyte(number().try_into().unwrap()),
        "ushort" => Value::Ushort(number().try_into().unwrap()),
        "uint" => Value::Uint(number().try_into().unwrap()),
        "ulong" => Value::Ulong(text().parse().unwrap()),
        "byte" => Value::Byte(number().try_into().unwrap()),
        "short" => Value::Short(number().try_into().unwrap()),
        "int" => Value::Int(number().try_into().unwrap()),
        "long" => Value::Long(text().parse().unwrap()),
        "float" => Value::Float(json.as_f64().unwrap() as f32),
        "double" => Value::Double(json.as_f64().unwrap()),
        "decimal32" => Value::Decimal32(bytes(text()).try_into().unwrap()),
        "decimal64" => Value::Decimal64(bytes(text()).try_into().unwrap()),
        "decimal128" => Value::Decimal128(bytes(text()).try_into().unwrap()),
        "char" => Value::Char(text().chars().next().unwrap()),
        "timestamp" => Value::Timestamp(text().parse().unwrap()),
        "uuid" => Value::Uuid(bytes(text()).try_into().unwrap()),
        "binary" => Value::Binary(bytes(text())),
        "string" => Value::String(text().to_owned()),
        "symbol" => Value::Symbol(Symbol::from(text())),
        "list" => Value::List(list()),
        "array" => Value::Array(list()),
        "map" => {
            Value::Map(json.as_array().unwrap().iter().map(|entry| (value(&entry[0]), value(&entry[1]))).collect())
        }
        "described" => Value::Described(Box::new((value(&json[0]), value(&json[1])))),
        other => panic!("no type {other}"),
    }
}

#[test]
fn value_vectors_decode_in_each_encoding() {
    let vectors: Values = serde_json::from_str(VALUES).unwrap();
    assert!(vectors.values.len() > 60);
    for vector in vectors.values {
        let ValueVector { name, hex, value: json, canonical } = vector;
        let (bytes, expected) = (bytes(&hex), value(&json));
        assert_eq!(decode_value(&bytes), Ok((expected.clone(), &[][..])), "{name}");
        let mut encoded = Vec::new();
        encode_value(&mut encoded, &expected);
        assert_eq!(encoded == bytes, canonical, "{name}: encoded as {encoded:02x?}");
        for end in 0..bytes.len() {
            assert!(decode_value(&bytes[..end]).is_err(), "{name}, cut at {end}");
        }
    }
}

#[derive(Deserialize)]
struct Recorded {
    about: String,
    frames: Vec<RecordedFrame>,
}

#[derive(Deserialize)]
struct RecordedFrame {
    hex: String,
    trace: String,
}

#[test]
fn recorded_client_frames_are_decoded() {
    for text in RECORDED {
        let recorded: Recorded = serde_json::from_str(text).unwrap();
        assert!(recorded.frames.len() > 10);
        for RecordedFrame { hex, trace } in recorded.frames {
            let bytes = bytes(&hex);
            assert_eq!(describe(&bytes), trace, "{}", recorded.about);
            if !bytes.starts_with(b"AMQP") {
                check_recorded(&bytes, &trace);
            }
        }
    }
}

/// A recorded frame is still the same after it was decoded and encoded here.
fn check_recorded(bytes: &[u8], trace: &str) {
    let (frame, _) = frame::split(bytes, 512).unwrap().unwrap();
    let mut again = Vec::new();
    if frame.kind == FrameKind::Sasl {
        let sasl = decode_sasl(frame.body).unwrap();
        encode_sasl(&mut again, &sasl);
        assert_eq!(decode_sasl(&again[frame::HEADER_SIZE..]), Ok(sasl), "{trace}");
        return;
    }
    let (performative, payload) = decode_performative(frame.body).unwrap();
    encode_performative(&mut again, frame.channel, &performative);
    assert_eq!(decode_performative(&again[frame::HEADER_SIZE..]), Ok((performative.clone(), &[][..])), "{trace}");
    match &performative {
        Performative::Transfer(transfer) => {
            assert!(fast::is_transfer(frame.body));
            assert_eq!(fast::transfer(frame.body).unwrap().delivery_tag, transfer.delivery_tag.as_deref());
            let message = decode_message(payload).unwrap();
            again.clear();
            encode_message(&mut again, &message);
            assert_eq!(decode_message(&again), Ok(message), "{trace}");
        }
        Performative::Disposition(disposition) => {
            assert!(fast::is_disposition(frame.body));
            assert_eq!(fast::disposition(frame.body).unwrap().first, disposition.first);
        }
        Performative::Flow(flow) => {
            assert!(fast::is_flow(frame.body));
            assert_eq!(&fast::flow(frame.body).unwrap(), flow);
        }
        _ => {}
    }
}

#[derive(Deserialize)]
struct Refused {
    frames: Vec<RefusedFrame>,
}

#[derive(Deserialize)]
struct RefusedFrame {
    name: String,
    hex: String,
    condition: String,
    description: String,
}

/// The frame as a peer with a max-frame-size of 131072 decodes it.
fn receive(bytes: &[u8]) -> Result<(), DecodeError> {
    let Some((frame, _)) = frame::split(bytes, 131_072)? else { return Ok(()) };
    match frame.kind {
        FrameKind::Amqp => decode_performative(frame.body).map(|_| ()),
        FrameKind::Sasl => decode_sasl(frame.body).map(|_| ()),
    }
}

#[test]
fn refused_vectors_give_the_expected_condition_and_description() {
    let refused: Refused = serde_json::from_str(REFUSED).unwrap();
    assert!(refused.frames.len() > 20);
    for frame in refused.frames {
        let error = receive(&bytes(&frame.hex)).expect_err(&frame.name);
        assert_eq!(
            (error.condition.as_str(), error.description),
            (&*frame.condition, frame.description),
            "{}",
            frame.name
        );
    }
}
