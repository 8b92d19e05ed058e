//! QoS 1 and 2 of messages of the client (3.4 to 3.7, 4.3).

use enmasse_mqtt::codec::{ReasonCode, Version};
use enmasse_mqtt::connection::{AnswerError, ClosedBy, Config, InFlight};

use crate::peer::{ALL, Peer, Seen, V3, id, packet, publish_v3, publish_v5, text};

fn publish(version: Version, first: u8, id: u16) -> Vec<u8> {
    match version {
        Version::V5 => publish_v5(first, "a", id, &[], b"x"),
        _ => publish_v3(first, "a", id, b"x"),
    }
}

fn is_message(seen: &[Seen]) -> bool {
    matches!(seen, [Seen::Publish { .. }])
}

/// [5: 3.3.4-1] [3: 3.3.4-1] [5: 4.3.2-4] [3: 4.3.2-2] [5: 2.2.1-5] [3: 2.3.1-6]
#[test]
fn qos_1_is_answered_with_puback() {
    for version in ALL {
        let mut peer = Peer::open(version);
        assert!(is_message(&peer.send(&publish(version, 0x32, 0x1234))));
        assert!(peer.output().is_empty());
        peer.machine.answer_publish(id(0x1234), ReasonCode::Success, "").unwrap();
        assert_eq!(peer.output(), [0x40, 2, 0x12, 0x34]);
        let again = peer.machine.answer_publish(id(0x1234), ReasonCode::Success, "");
        assert_eq!(again, Err(AnswerError::NotFound));
    }
}

/// [5: 4.3.2-5]
#[test]
fn after_puback_the_identifier_names_a_new_message() {
    for version in ALL {
        let mut peer = Peer::open(version);
        for first in [0x32, 0x3a, 0x32] {
            assert!(is_message(&peer.send(&publish(version, first, 5))));
            peer.machine.answer_publish(id(5), ReasonCode::Success, "").unwrap();
        }
    }
}

/// [5: 4.3.3-8] [5: 4.3.3-11] [3: 4.3.3-2] [5: 4.3.3-12]
#[test]
fn qos_2_has_four_packets() {
    for version in ALL {
        let mut peer = Peer::open(version);
        for _ in 0..2 {
            assert!(is_message(&peer.send(&publish(version, 0x34, 9))));
            peer.machine.answer_publish(id(9), ReasonCode::Success, "").unwrap();
            assert_eq!(peer.output(), [0x50, 2, 0, 9]);
            assert_eq!(peer.send(&[0x62, 2, 0, 9]), [Seen::Released(9)]);
            assert!(peer.output().is_empty());
            peer.machine.complete(id(9)).unwrap();
            assert_eq!(peer.output(), [0x70, 2, 0, 9]);
            assert_eq!(peer.machine.complete(id(9)), Err(AnswerError::NotFound));
        }
    }
}

/// [5: 4.3.3-10] [3: 4.3.3-2]
#[test]
fn a_duplicate_of_qos_2_is_answered_and_not_reported() {
    for version in ALL {
        let mut peer = Peer::open(version);
        peer.send(&publish(version, 0x34, 9));
        // Before the answer and after it, with DUP and without.
        assert_eq!(peer.send(&publish(version, 0x3c, 9)), []);
        assert!(peer.output().is_empty());
        peer.machine.answer_publish(id(9), ReasonCode::Success, "").unwrap();
        peer.output();
        for first in [0x3c, 0x34] {
            assert_eq!(peer.send(&publish(version, first, 9)), []);
            assert_eq!(peer.output(), [0x50, 2, 0, 9]);
        }
    }
}

/// [5: 4.3.3-9]
#[test]
fn after_a_refusal_the_identifier_names_a_new_message() {
    let mut peer = Peer::open(Version::V5);
    for _ in 0..2 {
        assert!(is_message(&peer.send(&publish(Version::V5, 0x34, 9))));
        peer.machine.answer_publish(id(9), ReasonCode::QuotaExceeded, "").unwrap();
        assert_eq!(peer.output(), [0x50, 3, 0, 9, 0x97]);
    }
}

/// [5: 3.4.2-1] [5: 3.5.2-1]
#[test]
fn answers_carry_a_code_of_their_packet_and_a_text() {
    let cases = [
        (ReasonCode::NoMatchingSubscribers, 0x10),
        (ReasonCode::NotAuthorized, 0x87),
        (ReasonCode::TopicNameInvalid, 0x90),
        (ReasonCode::ServerBusy, 0x80),
    ];
    for (code, sent) in cases {
        let mut peer = Peer::open(Version::V5);
        peer.send(&publish(Version::V5, 0x32, 1));
        peer.machine.answer_publish(id(1), code, "").unwrap();
        assert_eq!(peer.output(), [0x40, 3, 0, 1, sent]);
        peer.send(&publish(Version::V5, 0x32, 1));
        peer.machine.answer_publish(id(1), code, "why").unwrap();
        assert_eq!(peer.output(), packet(0x40, &[&[0, 1, sent, 6, 0x1f], &text("why")]));
    }
}

/// [5: 3.1.2-29]
#[test]
fn no_text_is_sent_to_a_client_that_wants_none() {
    let mut peer = Peer::open_v5(&[0x17, 0]);
    peer.send(&publish(Version::V5, 0x32, 1));
    peer.machine.answer_publish(id(1), ReasonCode::NotAuthorized, "why").unwrap();
    assert_eq!(peer.output(), [0x40, 3, 0, 1, 0x87]);
    peer.send(&packet(0x82, &[&[0, 2, 0], &text("a"), &[0]]));
    peer.machine.answer_subscribe(id(2), &[ReasonCode::NotAuthorized], "why").unwrap();
    assert_eq!(peer.output(), [0x90, 4, 0, 2, 0, 0x87]);
    // DISCONNECT may have one.
    peer.disconnect(ReasonCode::NotAuthorized, "why");
    assert_eq!(peer.output(), packet(0xe0, &[&[0x87, 6, 0x1f], &text("why")]));
}

/// [5: 3.4.2-2] [5: 3.5.2-2]
#[test]
fn a_text_that_does_not_fit_is_left_out() {
    for (first, answer) in [(0x32, 0x40), (0x34, 0x50)] {
        let mut peer = Peer::open_v5(&[0x27, 0, 0, 0, 30]);
        peer.send(&publish(Version::V5, first, 1));
        peer.machine.answer_publish(id(1), ReasonCode::NotAuthorized, &"w".repeat(21)).unwrap();
        assert_eq!(peer.output().len(), 30);
        peer.send(&publish(Version::V5, first, 1));
        peer.machine.answer_publish(id(1), ReasonCode::NotAuthorized, &"w".repeat(22)).unwrap();
        assert_eq!(peer.output(), [answer, 3, 0, 1, 0x87]);
    }
}

/// [3: 3.3.5-2]
#[test]
fn a_refusal_closes_a_connection_of_3() {
    for version in V3 {
        let mut peer = Peer::open(version);
        peer.send(&publish(version, 0x32, 1));
        peer.machine.answer_publish(id(1), ReasonCode::NotAuthorized, "no right").unwrap();
        assert!(peer.output().is_empty());
        let closed = peer.closed_by(&[]);
        assert_eq!((closed.by, closed.code), (ClosedBy::Server, ReasonCode::NotAuthorized));
        assert!(closed.publish_will);
    }
}

/// [5: 3.3.4-7]
#[test]
fn more_than_the_receive_maximum_is_an_error_in_5() {
    let config = || Config { receive_maximum: 2, ..Config::default() };
    let mut peer = Peer::open_with(config(), Version::V5, &[], &InFlight::default());
    peer.send(&publish(Version::V5, 0x32, 1));
    peer.send(&publish(Version::V5, 0x34, 2));
    // QoS 0 does not count, nor does a duplicate.
    assert!(is_message(&peer.send(&publish_v5(0x30, "a", 0, &[], b"x"))));
    assert_eq!(peer.send(&publish(Version::V5, 0x3c, 2)), []);
    assert_eq!(peer.closed_by(&publish(Version::V5, 0x32, 3)).code, ReasonCode::ReceiveMaximumExceeded);
    let sent = peer.output();
    assert_eq!((sent[0], sent[2]), (0xe0, 0x93));
    // A QoS 2 message counts until it is completed.
    let mut peer = Peer::open_with(config(), Version::V5, &[], &InFlight::default());
    peer.send(&publish(Version::V5, 0x34, 1));
    peer.send(&publish(Version::V5, 0x34, 2));
    peer.machine.answer_publish(id(1), ReasonCode::Success, "").unwrap();
    peer.send(&[0x62, 2, 0, 1]);
    peer.machine.complete(id(1)).unwrap();
    assert!(is_message(&peer.send(&publish(Version::V5, 0x34, 3))));
    assert_eq!(peer.closed_by(&publish(Version::V5, 0x34, 4)).code, ReasonCode::ReceiveMaximumExceeded);
}

#[test]
fn more_than_the_receive_maximum_is_not_read_in_3() {
    let config = Config { receive_maximum: 2, ..Config::default() };
    let mut peer = Peer::open_with(config, Version::V311, &[], &InFlight::default());
    let all: Vec<u8> = (1..=4).flat_map(|id| publish(Version::V311, 0x32, id)).collect();
    assert_eq!(peer.send(&all).len(), 2);
    assert!(!peer.unread.is_empty());
    peer.machine.answer_publish(id(2), ReasonCode::Success, "").unwrap();
    assert!(is_message(&peer.send(&[])));
    peer.machine.answer_publish(id(1), ReasonCode::Success, "").unwrap();
    assert!(is_message(&peer.send(&[])));
    // Answers leave in the order of the driver's calls.
    assert_eq!(peer.output(), [0x40, 2, 0, 2, 0x40, 2, 0, 1]);
}

/// A client of 3.x knows no receive maximum: it may publish on before it releases what was received.
#[test]
fn pubrel_is_read_however_many_messages_wait_for_it_in_3() {
    for version in [Version::V31, Version::V311] {
        let config = Config { receive_maximum: 2, ..Config::default() };
        let mut peer = Peer::open_with(config, version, &[], &InFlight::default());
        for number in 1..=5 {
            assert!(is_message(&peer.send(&publish(version, 0x34, number))), "{number}");
            peer.machine.answer_publish(id(number), ReasonCode::Success, "").unwrap();
        }
        // PUBCOMP is the driver's: no more than two may be owed.
        let releases: Vec<u8> = (1..=5).flat_map(|number| [0x62, 2, 0, number]).collect();
        assert_eq!(peer.send(&releases), [Seen::Released(1), Seen::Released(2)]);
        peer.machine.complete(id(1)).unwrap();
        assert_eq!(peer.send(&[]), [Seen::Released(3)]);
    }
}

/// [3: 2.3.1-2]
#[test]
fn an_identifier_in_use_is_refused() {
    let mut peer = Peer::open(Version::V5);
    peer.send(&publish(Version::V5, 0x34, 1));
    peer.machine.answer_publish(id(1), ReasonCode::Success, "").unwrap();
    peer.output();
    assert_eq!(peer.send(&publish(Version::V5, 0x32, 1)), []);
    assert_eq!(peer.output(), [0x40, 3, 0, 1, 0x91]);
    let subscribe = packet(0x82, &[&[0, 1, 0], &text("a"), &[0]]);
    assert_eq!(peer.send(&subscribe), []);
    assert_eq!(peer.output(), [0x90, 4, 0, 1, 0, 0x91]);
    let mut peer = Peer::open(Version::V311);
    peer.send(&publish(Version::V311, 0x32, 1));
    assert_eq!(peer.closed_by(&publish(Version::V311, 0x34, 1)).code, ReasonCode::ProtocolError);
}

/// [5: 3.6.1-1] [3: 3.6.1-1] [5: 2.1.3-1]
#[test]
fn flags_of_pubrel_are_fixed() {
    for version in [Version::V311, Version::V5] {
        for first in [0x60, 0x61, 0x63, 0x6a, 0x41, 0x52, 0x78] {
            let mut peer = Peer::open(version);
            assert_eq!(peer.closed_by(&[first, 2, 0, 1]).code, ReasonCode::MalformedPacket, "{first:#x}");
        }
    }
    // 3.1 has a DUP flag there.
    let mut peer = Peer::open(Version::V31);
    peer.send(&publish(Version::V31, 0x34, 1));
    peer.machine.answer_publish(id(1), ReasonCode::Success, "").unwrap();
    assert_eq!(peer.send(&[0x6a, 2, 0, 1]), [Seen::Released(1)]);
}

/// [5: 3.7.2-1] [5: 3.6.2-1] [5: 4.3.3-11]
#[test]
fn pubrel_of_an_unknown_identifier_is_completed() {
    let mut peer = Peer::open(Version::V5);
    assert_eq!(peer.send(&[0x62, 2, 0, 1]), []);
    assert_eq!(peer.output(), [0x70, 3, 0, 1, 0x92]);
    assert_eq!(peer.send(&[0x62, 3, 0, 1, 0x92]), []);
    peer.output();
    assert_eq!(peer.closed_by(&[0x62, 3, 0, 1, 0x80]).code, ReasonCode::ProtocolError);
    let mut peer = Peer::open(Version::V311);
    assert_eq!(peer.send(&[0x62, 2, 0, 1]), []);
    assert_eq!(peer.output(), [0x70, 2, 0, 1]);
}

#[test]
fn pubrel_before_pubrec_is_an_error() {
    for version in ALL {
        let mut peer = Peer::open(version);
        peer.send(&publish(version, 0x34, 1));
        assert_eq!(peer.closed_by(&[0x62, 2, 0, 1]).code, ReasonCode::ProtocolError);
    }
}

/// [5: 4.3.3-13]
#[test]
fn a_repeated_pubrel_is_completed_once() {
    let mut peer = Peer::open(Version::V5);
    peer.send(&publish(Version::V5, 0x34, 1));
    peer.machine.answer_publish(id(1), ReasonCode::Success, "").unwrap();
    assert_eq!(peer.send(&[0x62, 2, 0, 1, 0x62, 2, 0, 1]), [Seen::Released(1)]);
    peer.output();
    peer.machine.complete(id(1)).unwrap();
    assert_eq!(peer.output(), [0x70, 2, 0, 1]);
}
