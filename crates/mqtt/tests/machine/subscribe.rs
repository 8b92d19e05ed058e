//! SUBSCRIBE and UNSUBSCRIBE (3.8 to 3.11).

use enmasse_mqtt::codec::{ReasonCode, Version};
use enmasse_mqtt::connection::{AnswerError, Config, InFlight};

use crate::peer::{ALL, Peer, Seen, field, id, packet, text};

/// SUBSCRIBE or UNSUBSCRIBE with these bytes behind the properties.
fn request(version: Version, first: u8, id: u16, payload: &[&[u8]]) -> Vec<u8> {
    let properties: &[u8] = if version == Version::V5 { &[0] } else { &[] };
    packet(first, &[&id.to_be_bytes(), properties, &payload.concat()])
}

fn refused(version: Version, bytes: &[u8]) -> ReasonCode {
    Peer::open(version).closed_by(bytes).code
}

/// [5: 3.8.4-1] [5: 3.8.4-2] [5: 3.8.4-6] [5: 3.9.3-1] [5: 2.2.1-6] [3: 2.3.1-7] [3: 3.8.4-1] [3: 3.8.4-2] [3: 3.8.4-5] [3: 3.9.3-1] [5: 3.8.4-7] [3: 3.9.3-2]
#[test]
fn subscribe_is_answered_with_a_code_for_each_filter() {
    for version in ALL {
        let mut peer = Peer::open(version);
        let bytes = request(version, 0x82, 0x0102, &[&text("a/+"), &[1], &text("#"), &[2]]);
        let filters = vec![("a/+".to_owned(), 1), ("#".to_owned(), 2)];
        assert_eq!(peer.send(&bytes), [Seen::Subscribe(0x0102, filters)]);
        assert!(peer.output().is_empty());
        let codes = [ReasonCode::GrantedQoS1, ReasonCode::NotAuthorized];
        assert_eq!(peer.machine.answer_subscribe(id(0x0102), &codes[..1], ""), Err(AnswerError::Count));
        peer.machine.answer_subscribe(id(0x0102), &codes, "").unwrap();
        let expected: &[u8] = match version {
            Version::V5 => &[0x90, 5, 1, 2, 0, 1, 0x87],
            _ => &[0x90, 4, 1, 2, 1, 0x80],
        };
        assert_eq!(peer.output(), expected);
        assert_eq!(peer.machine.answer_subscribe(id(0x0102), &codes, ""), Err(AnswerError::NotFound));
    }
}

/// [5: 3.8.4-5] [3: 3.8.4-4]
#[test]
fn many_filters_have_one_answer() {
    let mut peer = Peer::open(Version::V5);
    let filters: Vec<u8> = (0..500).flat_map(|n| [text(&format!("filter/{n}")), vec![0]].concat()).collect();
    let seen = peer.send(&request(Version::V5, 0x82, 1, &[&filters]));
    assert!(matches!(&seen[..], [Seen::Subscribe(1, filters)] if filters.len() == 500));
    peer.machine.answer_subscribe(id(1), &[ReasonCode::Success; 500], "").unwrap();
    assert_eq!(peer.output(), packet(0x90, &[&[0, 1, 0], &[0; 500]]));
}

/// [5: 3.8.1-1] [3: 3.8.1-1] [5: 3.10.1-1] [3: 3.10.1-1] [5: 2.1.3-1]
#[test]
fn flags_are_fixed() {
    for version in [Version::V311, Version::V5] {
        for low in (0..16).filter(|low| *low != 2) {
            let subscribe = request(version, 0x80 | low, 1, &[&text("a"), &[0]]);
            assert_eq!(refused(version, &subscribe), ReasonCode::MalformedPacket);
            let unsubscribe = request(version, 0xa0 | low, 1, &[&text("a")]);
            assert_eq!(refused(version, &unsubscribe), ReasonCode::MalformedPacket);
        }
    }
    // 3.1 has a DUP flag there.
    let mut peer = Peer::open(Version::V31);
    assert_eq!(peer.send(&request(Version::V31, 0x8a, 1, &[&text("a"), &[0]])).len(), 1);
}

/// [5: 3.8.3-2] [3: 3.8.3-3] [5: 3.10.3-2] [3: 3.10.3-2]
#[test]
fn a_request_without_a_filter_is_an_error() {
    for version in ALL {
        assert_eq!(refused(version, &request(version, 0x82, 1, &[])), ReasonCode::ProtocolError);
        assert_eq!(refused(version, &request(version, 0xa2, 1, &[])), ReasonCode::ProtocolError);
    }
}

/// [5: 3.8.3-1] [3: 3.8.3-1] [5: 3.10.3-1] [3: 3.10.3-1] [5: 4.7.3-2]
#[test]
fn filters_are_utf_8_without_null() {
    for version in ALL {
        for bytes in [&b"\xff"[..], b"a\0"] {
            let subscribe = request(version, 0x82, 1, &[&field(bytes), &[0]]);
            assert_eq!(refused(version, &subscribe), ReasonCode::MalformedPacket);
            let unsubscribe = request(version, 0xa2, 1, &[&field(bytes)]);
            assert_eq!(refused(version, &unsubscribe), ReasonCode::MalformedPacket);
        }
        // The last filter is cut, or has no options.
        assert_eq!(refused(version, &request(version, 0x82, 1, &[&text("a")])), ReasonCode::MalformedPacket);
        assert_eq!(refused(version, &request(version, 0xa2, 1, &[&[0, 2, b'a']])), ReasonCode::MalformedPacket);
    }
}

/// [5: 3.8.3-5] [3: 3-8.3-4]
#[test]
fn reserved_bits_of_the_options_are_zero() {
    for bits in [0x03, 0x40, 0x80, 0x30] {
        let bytes = request(Version::V5, 0x82, 1, &[&text("a"), &[bits]]);
        assert_eq!(refused(Version::V5, &bytes), ReasonCode::MalformedPacket, "{bits:#x}");
    }
    for bits in [0x03, 0x04, 0x08, 0x10, 0x80] {
        let bytes = request(Version::V311, 0x82, 1, &[&text("a"), &[bits]]);
        assert_eq!(refused(Version::V311, &bytes), ReasonCode::MalformedPacket, "{bits:#x}");
    }
    let mut peer = Peer::open(Version::V5);
    let seen = peer.send(&request(Version::V5, 0x82, 1, &[&text("a"), &[0x2e]]));
    assert_eq!(seen, [Seen::Subscribe(1, vec![("a".to_owned(), 0x2e)])]);
}

/// [5: 3.8.3-4]
#[test]
fn no_local_with_a_shared_subscription_is_an_error() {
    let bytes = request(Version::V5, 0x82, 1, &[&text("$share/group/a"), &[0x04]]);
    assert_eq!(refused(Version::V5, &bytes), ReasonCode::ProtocolError);
}

/// [5: 2.2.1-3] [3: 2.3.1-1]
#[test]
fn an_identifier_is_not_zero() {
    for version in ALL {
        assert_eq!(refused(version, &request(version, 0x82, 0, &[&text("a"), &[0]])), ReasonCode::ProtocolError);
        assert_eq!(refused(version, &request(version, 0xa2, 0, &[&text("a")])), ReasonCode::ProtocolError);
    }
}

#[test]
fn the_subscription_identifier_is_in_range_and_once() {
    let with = |properties: &[u8]| {
        let length = [properties.len() as u8];
        packet(0x82, &[&[0, 1], &length, properties, &text("a"), &[0]])
    };
    assert_eq!(refused(Version::V5, &with(&[0x0b, 0])), ReasonCode::ProtocolError);
    assert_eq!(refused(Version::V5, &with(&[0x0b, 1, 0x0b, 2])), ReasonCode::ProtocolError);
    assert_eq!(refused(Version::V5, &with(&[0x03, 0, 0])), ReasonCode::ProtocolError);
    assert_eq!(Peer::open(Version::V5).send(&with(&[0x0b, 0xff, 0xff, 0xff, 0x7f])).len(), 1);
}

/// [5: 3.9.3-2] [5: 3.11.3-2]
#[test]
fn answers_carry_codes_of_their_packet() {
    let mut peer = Peer::open(Version::V5);
    peer.send(&request(Version::V5, 0x82, 1, &[&text("a"), &[0], &text("b"), &[0]]));
    peer.machine.answer_subscribe(id(1), &[ReasonCode::TopicFilterInvalid, ReasonCode::ServerBusy], "").unwrap();
    assert_eq!(peer.output(), [0x90, 5, 0, 1, 0, 0x8f, 0x80]);
    peer.send(&request(Version::V5, 0xa2, 1, &[&text("a"), &text("b")]));
    peer.machine
        .answer_unsubscribe(id(1), &[ReasonCode::NoSubscriptionExisted, ReasonCode::QuotaExceeded], "")
        .unwrap();
    assert_eq!(peer.output(), [0xb0, 5, 0, 1, 0, 0x11, 0x80]);
}

/// [5: 3.10.4-4] [5: 3.10.4-5] [5: 3.10.4-6] [5: 3.11.3-1] [3: 3.10.4-4] [3: 3.10.4-5] [3: 3.10.4-6]
#[test]
fn unsubscribe_has_one_answer() {
    for version in ALL {
        let mut peer = Peer::open(version);
        let seen = peer.send(&request(version, 0xa2, 0x0102, &[&text("a"), &text("b/#")]));
        assert_eq!(seen, [Seen::Unsubscribe(0x0102, vec!["a".to_owned(), "b/#".to_owned()])]);
        let codes = [ReasonCode::Success, ReasonCode::NoSubscriptionExisted];
        assert_eq!(peer.machine.answer_unsubscribe(id(0x0102), &[], ""), Err(AnswerError::Count));
        peer.machine.answer_unsubscribe(id(0x0102), &codes, "").unwrap();
        let expected: &[u8] = match version {
            Version::V5 => &[0xb0, 5, 1, 2, 0, 0, 0x11],
            _ => &[0xb0, 2, 1, 2],
        };
        assert_eq!(peer.output(), expected);
        assert_eq!(peer.machine.answer_unsubscribe(id(0x0102), &codes, ""), Err(AnswerError::NotFound));
    }
}

/// [5: 3.9.2-1] [5: 3.11.2-1]
#[test]
fn a_text_that_does_not_fit_is_left_out() {
    for (text_bytes, sent) in [(10, 19), (11, 6)] {
        let mut peer = Peer::open_v5(&[0x27, 0, 0, 0, 19]);
        peer.send(&request(Version::V5, 0x82, 1, &[&text("a"), &[0]]));
        peer.machine.answer_subscribe(id(1), &[ReasonCode::NotAuthorized], &"w".repeat(text_bytes)).unwrap();
        assert_eq!(peer.output().len(), sent);
        peer.send(&request(Version::V5, 0xa2, 1, &[&text("a")]));
        peer.machine.answer_unsubscribe(id(1), &[ReasonCode::NotAuthorized], &"w".repeat(text_bytes)).unwrap();
        assert_eq!(peer.output().len(), sent);
    }
}

/// [5: 3.1.2-24]
#[test]
fn an_answer_that_is_too_large_ends_the_connection() {
    let mut peer = Peer::open_v5(&[0x27, 0, 0, 0, 19]);
    let filters: Vec<u8> = (0..15).flat_map(|_| [text("a"), vec![0]].concat()).collect();
    peer.send(&request(Version::V5, 0x82, 1, &[&filters]));
    let answer = peer.machine.answer_subscribe(id(1), &[ReasonCode::Success; 15], "");
    assert_eq!(answer, Err(AnswerError::TooLarge));
    // DISCONNECT without its text fits.
    assert_eq!(peer.output(), [0xe0, 1, 0x95]);
    assert_eq!(peer.closed_by(&[]).code, ReasonCode::PacketTooLarge);
}

#[test]
fn requests_without_an_answer_are_bounded() {
    let config = Config { requests_max: 2, ..Config::default() };
    let mut peer = Peer::open_with(config, Version::V311, &[], &InFlight::default());
    let all: Vec<u8> = (1..=3).flat_map(|id| request(Version::V311, 0x82, id, &[&text("a"), &[0]])).collect();
    assert_eq!(peer.send(&all).len(), 2);
    peer.machine.answer_subscribe(id(1), &[ReasonCode::Success], "").unwrap();
    assert_eq!(peer.send(&[]).len(), 1);
}
