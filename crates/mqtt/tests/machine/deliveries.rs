//! Messages to the client: QoS 0, 1 and 2, window and sizes (3.3.4, 4.3, 4.9).

use enmasse_mqtt::codec::{Property, PropertyBuffer, PublishProperties, QoS, ReasonCode, SubscriptionIds, Version};
use enmasse_mqtt::connection::{Config, InFlight, Outgoing, SendError};

use crate::peer::{ALL, Peer, Seen, V3, field, id, message, packet, publish_v3, publish_v5, text};

fn small(window: u16) -> Config {
    Config { send_window_max: window, ..Config::default() }
}

/// [5: 4.3.1-1] [3: 4.3.1-1] [5: 2.2.1-2]
#[test]
fn qos_0_has_no_identifier_and_no_dup() {
    for version in V3 {
        let mut peer = Peer::open(version);
        let outgoing = Outgoing { dup: true, ..message("a/b", QoS::AtMostOnce, &[b"x", b"yz"]) };
        peer.machine.send_at_most_once(&outgoing).unwrap();
        assert_eq!(peer.output(), publish_v3(0x30, "a/b", 0, b"xyz"));
    }
    let mut peer = Peer::open(Version::V5);
    peer.machine.send_at_most_once(&Outgoing { retain: true, ..message("a/b", QoS::AtMostOnce, &[]) }).unwrap();
    assert_eq!(peer.output(), publish_v5(0x31, "a/b", 0, &[], b""));
}

/// [5: 4.3.2-1] [5: 4.3.2-2] [5: 4.3.2-3] [3: 4.3.2-1] [5: 2.2.1-4] [3: 2.3.1-4] [5: 3.3.1-3] [3: 3.3.1-3]
#[test]
fn qos_1_is_unacknowledged_until_puback() {
    for version in ALL {
        let mut peer = Peer::open(version);
        let outgoing = Outgoing { dup: true, ..message("a", QoS::AtLeastOnce, &[b"x"]) };
        let first = peer.machine.send_publish(&outgoing, 70).unwrap();
        let second = peer.machine.send_publish(&outgoing, 71).unwrap();
        assert_ne!(first, second);
        // A first sending is no duplicate, whatever the message was before.
        assert_eq!(peer.output()[0], 0x32);
        assert_eq!(peer.send(&[0x40, 2, 0, 2]), [Seen::Acknowledged(2, 71, ReasonCode::Success)]);
        assert_eq!(peer.send(&[0x40, 2, 0, 2]), []);
        let left = peer.machine.take_in_flight();
        assert_eq!(left.outgoing.iter().map(|delivery| delivery.token).collect::<Vec<_>>(), [70]);
    }
}

/// [3: 2.3.1-3]
#[test]
fn identifiers_are_used_again_in_the_order_of_their_release() {
    let mut peer = Peer::open_with(small(3), Version::V311, &[], &InFlight::default());
    let mut send = |token| peer.machine.send_publish(&message("a", QoS::AtLeastOnce, &[]), token).map(|id| id.get());
    assert_eq!((send(1), send(2), send(3)), (Ok(1), Ok(2), Ok(3)));
    assert_eq!(send(4), Err(SendError::WindowFull));
    peer.send(&[0x40, 2, 0, 3, 0x40, 2, 0, 1]);
    let mut send = |token| peer.machine.send_publish(&message("a", QoS::AtLeastOnce, &[]), token).map(|id| id.get());
    assert_eq!((send(5), send(6), send(7)), (Ok(3), Ok(1), Err(SendError::WindowFull)));
}

/// [5: 4.3.3-1] [5: 4.3.3-2] [5: 4.3.3-3] [5: 4.3.3-4] [5: 4.3.3-5] [3: 4.3.3-1]
#[test]
fn qos_2_is_released_and_completed() {
    for version in ALL {
        let mut peer = Peer::open(version);
        let sent = peer.machine.send_publish(&message("a", QoS::ExactlyOnce, &[b"x"]), 7).unwrap();
        assert_eq!((sent, peer.output()[0]), (id(1), 0x34));
        assert_eq!(peer.send(&[0x50, 2, 0, 1]), [Seen::Received(1, 7)]);
        assert!(peer.output().is_empty());
        peer.machine.release(id(1)).unwrap();
        assert_eq!(peer.output(), [0x62, 2, 0, 1]);
        // A repeated PUBREC has its PUBREL again.
        assert_eq!(peer.send(&[0x50, 2, 0, 1]), []);
        assert_eq!(peer.output(), [0x62, 2, 0, 1]);
        assert_eq!(peer.machine.release(id(1)), Err(SendError::NotReserved));
        assert_eq!(peer.send(&[0x70, 2, 0, 1]), [Seen::Acknowledged(1, 7, ReasonCode::Success)]);
        assert_eq!(peer.machine.take_in_flight(), InFlight::default());
    }
}

/// An identifier whose removal is not stored yet must not name another delivery.
#[test]
fn a_retained_identifier_is_used_again_after_its_release_only() {
    let mut peer = Peer::open(Version::V5);
    peer.machine.retain_identifiers();
    let send = |peer: &mut Peer, qos| {
        let sent = peer.machine.send_publish(&message("a", qos, &[]), 1).unwrap();
        peer.output();
        sent
    };
    assert_eq!(send(&mut peer, QoS::ExactlyOnce), id(1));
    peer.send(&[0x50, 2, 0, 1]);
    peer.machine.release(id(1)).unwrap();
    assert_eq!(peer.machine.reuse(id(1)), Err(SendError::NotReserved), "it is not complete");
    peer.output();
    assert_eq!(peer.send(&[0x70, 2, 0, 1]), [Seen::Acknowledged(1, 1, ReasonCode::Success)]);
    assert_eq!(send(&mut peer, QoS::AtLeastOnce), id(2));
    // A late PUBREC of the complete delivery is answered, and changes nothing.
    assert_eq!(peer.send(&[0x50, 2, 0, 1]), []);
    assert_eq!(peer.output(), [0x62, 3, 0, 1, 0x92]);
    peer.machine.reuse(id(1)).unwrap();
    assert_eq!(peer.machine.reuse(id(1)), Err(SendError::NotReserved));
    assert_eq!(send(&mut peer, QoS::AtLeastOnce), id(1));
}

/// [5: 4.4.0-2]
#[test]
fn a_refusal_of_the_client_ends_the_delivery() {
    let mut peer = Peer::open(Version::V5);
    peer.machine.send_publish(&message("a", QoS::AtLeastOnce, &[]), 1).unwrap();
    peer.machine.send_publish(&message("a", QoS::ExactlyOnce, &[]), 2).unwrap();
    let refused = ReasonCode::QuotaExceeded;
    assert_eq!(peer.send(&[0x40, 3, 0, 1, 0x97]), [Seen::Acknowledged(1, 1, refused)]);
    assert_eq!(peer.send(&[0x50, 3, 0, 2, 0x97]), [Seen::Acknowledged(2, 2, refused)]);
    assert_eq!(peer.machine.take_in_flight(), InFlight::default());
}

/// [5: 4.3.3-4] [5: 3.6.2-1]
#[test]
fn unknown_identifiers_of_acknowledgements_change_nothing() {
    let mut peer = Peer::open(Version::V5);
    assert_eq!(peer.send(&[0x40, 2, 0, 9, 0x70, 2, 0, 9, 0x50, 3, 0, 9, 0x80]), []);
    assert!(peer.output().is_empty());
    assert_eq!(peer.send(&[0x50, 2, 0, 9]), []);
    assert_eq!(peer.output(), [0x62, 3, 0, 9, 0x92]);
    let mut peer = Peer::open(Version::V311);
    assert_eq!(peer.send(&[0x50, 2, 0, 9]), []);
    assert_eq!(peer.output(), [0x62, 2, 0, 9]);
}

#[test]
fn an_acknowledgement_of_another_qos_is_an_error() {
    for (qos, bytes) in
        [(QoS::ExactlyOnce, [0x40, 2, 0, 1]), (QoS::AtLeastOnce, [0x50, 2, 0, 1]), (QoS::ExactlyOnce, [0x70, 2, 0, 1])]
    {
        let mut peer = Peer::open(Version::V5);
        peer.machine.send_publish(&message("a", qos, &[]), 1).unwrap();
        assert_eq!(peer.closed_by(&bytes).code, ReasonCode::ProtocolError);
    }
}

/// [5: 3.3.4-9] [5: 4.9.0-2]
#[test]
fn no_more_than_the_clients_receive_maximum_is_sent() {
    let mut peer = Peer::open_v5(&[0x21, 0, 2]);
    let qos_2 = message("a", QoS::ExactlyOnce, &[]);
    assert_eq!(peer.machine.window(), 2);
    peer.machine.send_publish(&qos_2, 1).unwrap();
    peer.machine.send_publish(&qos_2, 2).unwrap();
    assert_eq!(peer.machine.send_publish(&qos_2, 3), Err(SendError::WindowFull));
    assert_eq!(peer.machine.reserve(3), Err(SendError::WindowFull));
    // PUBREC gives no place, PUBCOMP does.
    peer.send(&[0x50, 2, 0, 1]);
    peer.machine.release(id(1)).unwrap();
    assert_eq!(peer.machine.send_publish(&qos_2, 3), Err(SendError::WindowFull));
    peer.send(&[0x70, 2, 0, 1]);
    assert_eq!(peer.machine.window(), 1);
    peer.machine.send_publish(&qos_2, 3).unwrap();
}

/// [5: 3.3.4-10] [5: 4.9.0-3]
#[test]
fn a_full_window_delays_nothing_else() {
    let mut peer = Peer::open_v5(&[0x21, 0, 1]);
    peer.machine.send_publish(&message("a", QoS::AtLeastOnce, &[]), 1).unwrap();
    peer.output();
    assert_eq!(peer.send(&[0xc0, 0]), []);
    assert_eq!(peer.output(), [0xd0, 0]);
    peer.machine.send_at_most_once(&message("a", QoS::AtMostOnce, &[])).unwrap();
    assert_eq!(peer.output(), publish_v5(0x30, "a", 0, &[], b""));
    peer.send(&publish_v5(0x32, "b", 1, &[], b""));
    peer.machine.answer_publish(id(1), ReasonCode::Success, "").unwrap();
    assert_eq!(peer.output(), [0x40, 2, 0, 1]);
}

/// [5: 3.1.2-24] [5: 3.1.2-25]
#[test]
fn a_message_that_is_too_large_is_reported_and_not_sent() {
    let mut peer = Peer::open_v5(&[0x27, 0, 0, 0, 20]);
    let payload = [0; 20];
    // Header 2, topic 3, properties 1, and with QoS 1 an identifier.
    peer.machine.send_at_most_once(&message("a", QoS::AtMostOnce, &[&payload[..14]])).unwrap();
    assert_eq!(peer.output().len(), 20);
    let parts = [&payload[..15]];
    let large = message("a", QoS::AtMostOnce, &parts);
    assert_eq!(peer.machine.send_at_most_once(&large), Err(SendError::TooLarge));
    let parts = [&payload[..13]];
    let large = message("a", QoS::AtLeastOnce, &parts);
    assert_eq!(peer.machine.send_publish(&large, 1), Err(SendError::TooLarge));
    assert!(peer.output().is_empty());
    assert_eq!(peer.machine.take_in_flight(), InFlight::default());
}

/// [5: 3.3.2-4] [5: 3.3.2-15] [5: 3.3.2-16] [5: 3.3.2-17] [5: 3.3.2-18] [5: 3.3.2-20] [5: 3.3.4-3] [5: 3.3.4-4]
#[test]
fn properties_are_sent_unaltered_in_5_and_left_out_in_3() {
    let mut user = PropertyBuffer::default();
    user.push(Property::User("z", "1")).unwrap();
    user.push(Property::User("a", "2")).unwrap();
    let properties = PublishProperties {
        payload_is_text: true,
        message_expiry_s: Some(300),
        topic_alias: Some(9),
        response_topic: Some("re/ply"),
        correlation_data: Some(b"\x00\x01"),
        content_type: Some("c/t"),
        user: user.as_user(),
        subscription_ids: SubscriptionIds::List(&[1, 300]),
    };
    let outgoing = Outgoing { properties, ..message("a", QoS::AtMostOnce, &[b"x"]) };
    let mut peer = Peer::open(Version::V5);
    peer.machine.send_at_most_once(&outgoing).unwrap();
    let mut bytes = vec![0x01, 1, 0x02, 0, 0, 1, 44, 0x08];
    bytes.extend([&text("re/ply")[..], &[0x09], &field(b"\x00\x01"), &[0x03], &text("c/t")].concat());
    bytes.extend([0x0b, 1, 0x0b, 0xac, 2]);
    bytes.extend([&[0x26][..], &text("z"), &text("1"), &[0x26], &text("a"), &text("2")].concat());
    assert_eq!(peer.output(), publish_v5(0x30, "a", 0, &bytes, b"x"));
    let mut peer = Peer::open(Version::V311);
    peer.machine.send_at_most_once(&outgoing).unwrap();
    assert_eq!(peer.output(), publish_v3(0x30, "a", 0, b"x"));
}

/// [5: 3.3.2-2] [5: 4.7.3-1]
#[test]
fn only_topic_names_are_sent() {
    let mut peer = Peer::open(Version::V5);
    let long = "t".repeat(65_536);
    for topic in ["", "a/+", "#", "a\0", &long] {
        let result = peer.machine.send_at_most_once(&message(topic, QoS::AtMostOnce, &[]));
        assert_eq!(result, Err(SendError::Unencodable));
        let result = peer.machine.send_publish(&message(topic, QoS::AtLeastOnce, &[]), 1);
        assert_eq!(result, Err(SendError::Unencodable));
    }
    assert!(peer.output().is_empty());
}

#[test]
fn a_reserved_identifier_is_sent_once_or_given_back() {
    let mut peer = Peer::open_with(small(2), Version::V5, &[], &InFlight::default());
    let first = peer.machine.reserve(1).unwrap();
    let second = peer.machine.reserve(2).unwrap();
    assert_eq!(peer.machine.reserve(3), Err(SendError::WindowFull));
    peer.machine.unreserve(first).unwrap();
    assert_eq!(peer.machine.unreserve(first), Err(SendError::NotReserved));
    assert_eq!(peer.machine.window(), 1);
    let qos_1 = message("a", QoS::AtLeastOnce, &[b"x"]);
    peer.machine.send_reserved(&qos_1, second).unwrap();
    assert_eq!(peer.output(), publish_v5(0x32, "a", 2, &[], b"x"));
    assert_eq!(peer.machine.send_reserved(&qos_1, second), Err(SendError::NotReserved));
    assert_eq!(peer.machine.unreserve(second), Err(SendError::NotReserved));
    assert_eq!(peer.machine.send_reserved(&qos_1, id(9)), Err(SendError::NotReserved));
    let qos_0 = message("a", QoS::AtMostOnce, &[b"x"]);
    assert_eq!(peer.machine.send_publish(&qos_0, 3), Err(SendError::NotReserved));
}

#[test]
fn a_reserved_identifier_cannot_be_acknowledged() {
    let mut peer = Peer::open(Version::V5);
    peer.machine.reserve(1).unwrap();
    assert_eq!(peer.send(&[0x40, 2, 0, 1]), []);
    assert_eq!(peer.send(&packet(0x50, &[&[0, 1]])), []);
    assert_eq!(peer.output(), [0x62, 3, 0, 1, 0x92]);
    assert_eq!(peer.machine.take_in_flight().outgoing.len(), 1);
}
