//! PUBLISH of the client (3.3).

use enmasse_mqtt::codec::fixed::split;
use enmasse_mqtt::codec::{Publish, QoS, ReasonCode, Version};
use enmasse_mqtt::connection::{ClosedBy, Event};

use crate::peer::{ALL, Peer, Seen, field, packet, publish_v3, publish_v5, text};

fn published(topic: &str, qos: u8, id: u16, payload: &[u8]) -> Seen {
    Seen::Publish { topic: topic.to_owned(), dup: false, qos, retain: false, id, payload: payload.to_owned() }
}

/// The code with which the machine ends the connection on these bytes.
fn refused(version: Version, bytes: &[u8]) -> ReasonCode {
    let mut peer = Peer::open(version);
    let closed = peer.closed_by(bytes);
    assert_eq!(closed.by, ClosedBy::Violation);
    assert!(closed.publish_will);
    let sent = peer.output();
    match version {
        Version::V5 => assert_eq!((sent[0], sent[2]), (0xe0, closed.code.as_u8())),
        _ => assert!(sent.is_empty()),
    }
    closed.code
}

/// [5: 3.3.2-1] [3: 3.3.2-1]
#[test]
fn messages_of_each_qos_are_reported() {
    for version in [Version::V31, Version::V311] {
        let mut peer = Peer::open(version);
        assert_eq!(peer.send(&publish_v3(0x30, "a/b", 0, b"x")), [published("a/b", 0, 0, b"x")]);
        assert_eq!(peer.send(&publish_v3(0x32, "a/b", 7, b"")), [published("a/b", 1, 7, b"")]);
        assert_eq!(peer.send(&publish_v3(0x34, "a/b", 8, b"yz")), [published("a/b", 2, 8, b"yz")]);
    }
    let mut peer = Peer::open(Version::V5);
    assert_eq!(peer.send(&publish_v5(0x30, "a/b", 0, &[], b"x")), [published("a/b", 0, 0, b"x")]);
    assert_eq!(peer.send(&publish_v5(0x32, "a/b", 7, &[], b"")), [published("a/b", 1, 7, b"")]);
    let retained = publish_v5(0x31, "a/b", 0, &[], b"");
    assert!(matches!(peer.send(&retained)[..], [Seen::Publish { retain: true, .. }]));
}

/// [5: 3.3.1-4] [3: 3.3.1-4]
#[test]
fn qos_three_is_malformed() {
    assert_eq!(refused(Version::V5, &publish_v5(0x36, "a", 1, &[], b"")), ReasonCode::MalformedPacket);
    assert_eq!(refused(Version::V311, &publish_v3(0x36, "a", 1, b"")), ReasonCode::MalformedPacket);
}

/// [5: 3.3.1-2] [3: 3.3.1-2]
#[test]
fn dup_with_qos_zero_is_malformed() {
    assert_eq!(refused(Version::V5, &publish_v5(0x38, "a", 0, &[], b"")), ReasonCode::MalformedPacket);
    assert_eq!(refused(Version::V311, &publish_v3(0x38, "a", 0, b"")), ReasonCode::MalformedPacket);
}

/// [5: 3.3.2-2] [3: 3.3.2-2] [5: 4.7.0-1] [3: 4.7.1-1]
#[test]
fn a_topic_name_has_no_wildcard() {
    for topic in ["a/+", "#", "a#", "+"] {
        assert_eq!(refused(Version::V5, &publish_v5(0x30, topic, 0, &[], b"")), ReasonCode::MalformedPacket);
        assert_eq!(refused(Version::V311, &publish_v3(0x30, topic, 0, b"")), ReasonCode::MalformedPacket);
    }
}

/// [5: 4.7.3-1] [3: 4.7.3-1] [5: 4.7.3-2] [3: 4.7.3-2] [3: 4.8.0-1]
#[test]
fn a_topic_name_is_not_empty_and_has_no_null() {
    assert_eq!(refused(Version::V5, &publish_v5(0x30, "", 0, &[], b"")), ReasonCode::ProtocolError);
    assert_eq!(refused(Version::V311, &publish_v3(0x30, "", 0, b"")), ReasonCode::ProtocolError);
    assert_eq!(refused(Version::V5, &publish_v5(0x30, "a\0", 0, &[], b"")), ReasonCode::MalformedPacket);
    assert_eq!(refused(Version::V311, &packet(0x30, &[&field(b"\xff")])), ReasonCode::MalformedPacket);
}

/// [5: 4.7.3-3] [3: 4.7.3-3]
#[test]
fn a_topic_name_of_the_longest_length_passes() {
    let long = "t".repeat(65_535);
    for version in ALL {
        let mut peer = Peer::open(version);
        let bytes = match version {
            Version::V5 => publish_v5(0x30, &long, 0, &[], b""),
            _ => publish_v3(0x30, &long, 0, b""),
        };
        assert_eq!(peer.send(&bytes), [published(&long, 0, 0, b"")]);
    }
}

/// [5: 2.2.1-2] [3: 2.3.1-5] [5: 2.2.1-3] [3: 2.3.1-1]
#[test]
fn a_packet_identifier_is_there_with_qos_only_and_not_zero() {
    // Without QoS the two bytes belong to the payload.
    let mut peer = Peer::open(Version::V311);
    let bytes = packet(0x30, &[&text("a"), &[0, 7], b"x"]);
    assert_eq!(peer.send(&bytes), [published("a", 0, 0, b"\0\x07x")]);
    assert_eq!(refused(Version::V5, &publish_v5(0x32, "a", 0, &[], b"")), ReasonCode::ProtocolError);
    assert_eq!(refused(Version::V311, &publish_v3(0x34, "a", 0, b"")), ReasonCode::ProtocolError);
    assert_eq!(refused(Version::V311, &packet(0x32, &[&text("a"), &[0]])), ReasonCode::MalformedPacket);
}

/// [5: 3.3.2-14] [5: 3.3.2-13] [5: 3.3.2-19]
#[test]
fn properties_of_publish_are_checked() {
    let wrong = |properties: &[u8]| refused(Version::V5, &publish_v5(0x30, "a", 0, properties, b""));
    let response = |topic: &str| [&[0x08][..], &text(topic)].concat();
    assert_eq!(wrong(&response("a/+")), ReasonCode::ProtocolError);
    assert_eq!(wrong(&response("")), ReasonCode::ProtocolError);
    assert_eq!(wrong(&[0x08, 0, 1, 0xff]), ReasonCode::MalformedPacket);
    assert_eq!(wrong(&[0x03, 0, 1, 0xff]), ReasonCode::MalformedPacket);
    assert_eq!(wrong(&[0x01, 2]), ReasonCode::ProtocolError);
    assert_eq!(wrong(&[0x01, 1, 0x01, 1]), ReasonCode::ProtocolError);
    assert_eq!(wrong(&[0x11, 0, 0, 0, 1]), ReasonCode::ProtocolError);
    // The properties are longer than the packet.
    assert_eq!(refused(Version::V5, &packet(0x30, &[&text("a"), &[5, 1]])), ReasonCode::MalformedPacket);
}

/// [5: 3.3.4-6]
#[test]
fn a_client_sends_no_subscription_identifier() {
    assert_eq!(refused(Version::V5, &publish_v5(0x30, "a", 0, &[0x0b, 1], b"")), ReasonCode::ProtocolError);
    assert_eq!(refused(Version::V5, &publish_v5(0x30, "a", 0, &[0x0b, 0], b"")), ReasonCode::ProtocolError);
}

/// [5: 1.5.5-1]
#[test]
fn a_variable_byte_integer_has_its_shortest_form() {
    assert_eq!(refused(Version::V5, &packet(0x30, &[&text("a"), &[0x80, 0x00]])), ReasonCode::MalformedPacket);
    assert_eq!(refused(Version::V5, &[0x30, 0x80, 0x00]), ReasonCode::MalformedPacket);
    assert_eq!(refused(Version::V5, &[0x30, 0xff, 0xff, 0xff, 0xff]), ReasonCode::MalformedPacket);
}

/// [5: 3.3.2-18]
#[test]
fn properties_of_publish_reach_the_driver() {
    let mut properties = vec![0x01, 1, 0x02, 0, 0, 0, 9];
    properties.extend([&[0x08][..], &text("re/ply"), &[0x09], &field(b"\x00\x01"), &[0x03], &text("c/t")].concat());
    properties.extend([&[0x26][..], &text("z"), &text("1"), &[0x26], &text("a"), &text("2")].concat());
    let bytes = publish_v5(0x30, "a", 0, &properties, b"x");
    let mut peer = Peer::open(Version::V5);
    let mut input = bytes.as_slice();
    let Some(Event::Publish(message)) = peer.machine.poll_event(peer.now, &mut input) else { panic!("no message") };
    let read = message.properties;
    assert!(read.payload_is_text);
    assert_eq!((read.message_expiry_s, read.response_topic), (Some(9), Some("re/ply")));
    assert_eq!((read.correlation_data, read.content_type), (Some(&b"\x00\x01"[..]), Some("c/t")));
    assert_eq!(read.user.iter().collect::<Vec<_>>(), [("z", "1"), ("a", "2")]);
    // The payload is borrowed from the input.
    assert_eq!(message.payload.as_ptr_range().end, bytes.as_ptr_range().end);
}

#[test]
fn a_publish_is_decoded_as_a_client_receives_it() {
    let bytes = publish_v5(0x3d, "a", 3, &[0x0b, 1, 0x0b, 0x80, 1], b"x");
    let (frame, _) = split(&bytes, u32::MAX).unwrap().unwrap();
    let publish = Publish::decode(&frame, Version::V5).unwrap();
    assert_eq!((publish.dup, publish.qos, publish.retain), (true, QoS::ExactlyOnce, true));
    assert_eq!(publish.properties.subscription_ids.to_vec(), [1, 128]);
}
