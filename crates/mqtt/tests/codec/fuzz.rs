//! Fuzz targets, one a decoder. Under `cargo test` each runs for a moment on random input; `cargo
//! bolero test` runs them under a coverage-guided engine for a chosen time.

use bolero::check;
use enmasse_mqtt::codec::fixed::{Frame, split};
use enmasse_mqtt::codec::{Packet, Version, decode, encode_connect, encode_publish};
use enmasse_mqtt::session::Session;
use enmasse_mqtt::topic::{Filter, is_topic_name, matches};

const VERSIONS: [Version; 3] = [Version::V31, Version::V311, Version::V5];

#[test]
fn frames() {
    check!().for_each(|input: &[u8]| {
        if let Ok(Some((frame, consumed))) = split(input, 4096) {
            assert!(consumed <= input.len() && consumed <= 4096);
            assert!(frame.body.len() + 2 <= consumed);
            for end in 0..consumed {
                assert_eq!(split(&input[..end], 4096), Ok(None));
            }
        }
    });
}

#[test]
fn packets() {
    check!().for_each(|input: &[u8]| {
        let Some((first, body)) = input.split_first() else { return };
        for version in VERSIONS {
            for first in [*first, first & 0x0f | 0x30, first & 0xf0, first & 0xf0 | 2] {
                check_packet(&Frame { first, body }, version);
            }
        }
    });
}

/// CONNECT with a valid head, as random bytes seldom have one.
#[test]
fn connects() {
    check!().for_each(|input: &[u8]| {
        for head in [&b"\0\x04MQTT\x05"[..], b"\0\x04MQTT\x04", b"\0\x06MQIsdp\x03"] {
            let body = [head, input].concat();
            check_packet(&Frame { first: 0x10, body: &body }, Version::V5);
        }
    });
}

/// An accepted packet is encoded, and decoded to an equal one.
fn check_packet(frame: &Frame<'_>, version: Version) {
    let mut bytes = Vec::new();
    match decode(frame, version) {
        Ok(Packet::Connect(connect)) => encode_connect(&mut bytes, &connect).unwrap(),
        Ok(Packet::Publish(publish)) => encode_publish(&mut bytes, &publish, &[], version, u32::MAX).unwrap(),
        Ok(Packet::Subscribe(subscribe)) => assert!(subscribe.subscriptions().count() > 0),
        Ok(Packet::Unsubscribe(unsubscribe)) => assert!(unsubscribe.filters().count() > 0),
        _ => return,
    }
    if !bytes.is_empty() {
        let (again, _) = split(&bytes, u32::MAX).unwrap().unwrap();
        let mut twice = Vec::new();
        match decode(&again, version).unwrap() {
            Packet::Connect(connect) => encode_connect(&mut twice, &connect).unwrap(),
            Packet::Publish(publish) => encode_publish(&mut twice, &publish, &[], version, u32::MAX).unwrap(),
            other => panic!("another packet: {other:?}"),
        }
        assert_eq!(bytes, twice);
    }
}

#[test]
fn filters() {
    check!().for_each(|input: &[u8]| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        if is_topic_name(text) {
            assert!(matches("#", text) != text.starts_with('$'));
            let filter = Filter::parse(text);
            assert!(filter.is_err() || filter.is_ok_and(|filter| filter.group().is_some() || filter.matches(text)));
        }
    });
}

#[test]
fn session_records() {
    check!().for_each(|input: &[u8]| {
        if let Ok(session) = Session::decode(input) {
            let mut bytes = Vec::new();
            session.encode(&mut bytes);
            assert_eq!(Session::decode(&bytes).as_ref(), Ok(&session));
        }
    });
}
