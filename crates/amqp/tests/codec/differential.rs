//! Against another implementation of the standard (`serde_amqp`, `fe2o3-amqp-types`): it decodes
//! our encoding, and its encoding of the result decodes to the same value.

use enmasse_amqp::codec::{
    decode_message, decode_performative, decode_sasl, decode_value, encode_message, encode_performative, encode_sasl,
    encode_value, frame,
};
use enmasse_amqp::types::{Body, SaslFrame, Value};
use fe2o3_amqp_types::messaging::message::__private::{Deserializable, Serializable};
use fe2o3_amqp_types::{messaging, performatives, sasl};
use proptest::prelude::*;
use serde::de::DeserializeOwned;

use crate::strategies;

/// Decoded and encoded by the other implementation as its type `T`.
fn through<T: DeserializeOwned + serde::Serialize>(bytes: &[u8]) -> Vec<u8> {
    let theirs: T = serde_amqp::from_slice(bytes).unwrap_or_else(|error| panic!("they refuse {bytes:02x?}: {error}"));
    serde_amqp::to_vec(&theirs).unwrap()
}

/// Whether the other implementation can read the arrays in the values of `bytes`: it refuses empty
/// ones, and arrays of nulls, compounds and described values, and counts the characters of a string
/// in an array as bytes.
fn known_arrays(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let (value, rest) = decode_value(bytes).unwrap();
        if !known(&value) {
            return false;
        }
        bytes = rest;
    }
    true
}

fn known(value: &Value) -> bool {
    match value {
        Value::Array(array) => match array.first() {
            None | Some(Value::Null | Value::List(_) | Value::Map(_) | Value::Array(_) | Value::Described(_)) => false,
            Some(_) => array.iter().all(|element| !matches!(element, Value::String(text) if !text.is_ascii())),
        },
        Value::List(list) => list.iter().all(known),
        Value::Map(map) => map.iter().all(|(key, value)| simple_key(key) && known(value)),
        Value::Described(pair) => known(&pair.0) && known(&pair.1),
        _ => true,
    }
}

/// Whether the other implementation can read a map with this key: after a timestamp or an array
/// it decodes the value with the type of the key.
fn simple_key(key: &Value) -> bool {
    matches!(key, Value::String(_) | Value::Symbol(_) | Value::Int(_) | Value::Uint(_) | Value::Ulong(_) | Value::Null)
}

proptest! {
    #[test]
    fn values(value in strategies::value()) {
        let mut bytes = Vec::new();
        encode_value(&mut bytes, &value);
        prop_assume!(known(&value));
        let theirs = through::<serde_amqp::Value>(&bytes);
        prop_assert_eq!(decode_value(&theirs).unwrap(), (value, &[][..]), "{:02x?}", theirs);
    }

    #[test]
    fn performatives(performative in strategies::performative()) {
        let mut bytes = Vec::new();
        encode_performative(&mut bytes, 0, &performative);
        let body = &bytes[frame::HEADER_SIZE..];
        prop_assume!(known_arrays(body));
        let theirs = through::<performatives::Performative>(body);
        prop_assert_eq!(decode_performative(&theirs).unwrap().0, performative, "{:02x?}", theirs);
    }

    #[test]
    fn sasl_frames(ours in strategies::sasl_frame()) {
        let mut bytes = Vec::new();
        encode_sasl(&mut bytes, &ours);
        let body = &bytes[frame::HEADER_SIZE..];
        let theirs = match ours {
            SaslFrame::Mechanisms(_) => through::<sasl::SaslMechanisms>(body),
            SaslFrame::Init(_) => through::<sasl::SaslInit>(body),
            SaslFrame::Challenge(_) => through::<sasl::SaslChallenge>(body),
            SaslFrame::Response(_) => through::<sasl::SaslResponse>(body),
            SaslFrame::Outcome(_) => through::<sasl::SaslOutcome>(body),
        };
        prop_assert_eq!(decode_sasl(&theirs).unwrap(), ours, "{:02x?}", theirs);
    }

    #[test]
    fn messages(message in strategies::message()) {
        prop_assume!(message.body != Body::Empty); // they give it the value null
        let mut bytes = Vec::new();
        encode_message(&mut bytes, &message);
        prop_assume!(known_arrays(&bytes));
        let theirs: Deserializable<messaging::Message<messaging::Body<serde_amqp::Value>>> =
            serde_amqp::from_slice(&bytes).unwrap_or_else(|error| panic!("they refuse {bytes:02x?}: {error}"));
        let theirs = serde_amqp::to_vec(&Serializable(theirs.0)).unwrap();
        prop_assert_eq!(decode_message(&theirs).unwrap(), message, "{:02x?}", theirs);
    }
}
