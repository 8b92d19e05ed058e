//! A session that goes on over another connection (4.1, 4.4, 4.6).

use enmasse_mqtt::codec::{QoS, ReasonCode, Version};
use enmasse_mqtt::connection::{Config, InFlight, Outgoing, OutgoingDelivery, SendError, Stage};

use crate::peer::{ALL, Peer, Seen, id, message, publish_v3, publish_v5};

fn delivery(packet_id: u16, token: u64, stage: Stage) -> OutgoingDelivery {
    OutgoingDelivery { packet_id: id(packet_id), token, stage }
}

fn resumed(version: Version, properties: &[u8], in_flight: &InFlight) -> Peer {
    Peer::open_with(Config::default(), version, properties, in_flight)
}

/// [5: 4.4.0-1] [3: 4.4.0-1] [5: 3.3.1-1] [3: 3.3.1-1] [5: 4.3.3-6] [5: 4.6.0-1] [3: 4.6.0-1] [3: 4.6.0-6] [5: 4.1.0-1] [3: 4.1.0-1] [3: 4.1.0-2]
#[test]
fn unacknowledged_packets_are_sent_again_under_their_identifiers() {
    for version in ALL {
        let mut peer = Peer::open(version);
        for (token, qos) in [(1, QoS::AtLeastOnce), (2, QoS::ExactlyOnce), (3, QoS::ExactlyOnce), (4, QoS::AtLeastOnce)]
        {
            peer.machine.send_publish(&message("a", qos, &[b"x"]), token).unwrap();
        }
        peer.send(&[0x40, 2, 0, 1]);
        peer.send(&[0x50, 2, 0, 3]);
        peer.machine.release(id(3)).unwrap();
        peer.machine.send_publish(&message("a", QoS::AtLeastOnce, &[b"x"]), 5).unwrap();
        peer.machine.transport_closed();
        let in_flight = peer.machine.take_in_flight();
        let left = [
            delivery(2, 2, Stage::Published),
            delivery(3, 3, Stage::Received),
            delivery(4, 4, Stage::Published),
            delivery(1, 5, Stage::Published),
        ];
        // The identifier 1 was used again: order is that of the sending.
        assert_eq!(in_flight.outgoing, left);

        let mut peer = resumed(version, &[], &in_flight);
        let again = |qos| Outgoing { dup: true, ..message("a", qos, &[b"x"]) };
        // What the client has received is not sent again as a message, before PUBREL either.
        assert_eq!(peer.machine.send_reserved(&again(QoS::ExactlyOnce), id(3)), Err(SendError::NotReserved));
        peer.machine.send_reserved(&again(QoS::ExactlyOnce), id(2)).unwrap();
        peer.machine.release(id(3)).unwrap();
        peer.machine.send_reserved(&again(QoS::AtLeastOnce), id(4)).unwrap();
        peer.machine.send_reserved(&again(QoS::AtLeastOnce), id(1)).unwrap();
        let publish = |first, id| match version {
            Version::V5 => publish_v5(first, "a", id, &[], b"x"),
            _ => publish_v3(first, "a", id, b"x"),
        };
        let expected = [publish(0x3c, 2), vec![0x62, 2, 0, 3], publish(0x3a, 4), publish(0x3a, 1)].concat();
        assert_eq!(peer.output(), expected);
        assert_eq!(peer.send(&[0x70, 2, 0, 3]), [Seen::Acknowledged(3, 3, ReasonCode::Success)]);
        assert_eq!(peer.send(&[0x40, 2, 0, 1]), [Seen::Acknowledged(1, 5, ReasonCode::Success)]);
    }
}

/// [5: 4.4.0-1]
#[test]
fn nothing_is_sent_again_on_an_open_connection() {
    let mut peer = Peer::open(Version::V5);
    let sent = peer.machine.send_publish(&message("a", QoS::AtLeastOnce, &[]), 1).unwrap();
    peer.output();
    peer.pass_millis(1_000_000);
    peer.machine.handle_timeout(peer.now);
    assert_eq!(peer.send(&[0xc0, 0]), []);
    assert_eq!(peer.output(), [0xd0, 0]);
    assert_eq!(peer.machine.send_reserved(&message("a", QoS::AtLeastOnce, &[]), sent), Err(SendError::NotReserved));
}

/// [5: 4.3.3-10]
#[test]
fn a_received_message_stays_a_duplicate_over_connections() {
    for version in ALL {
        let publish = |first| match version {
            Version::V5 => publish_v5(first, "a", 9, &[], b"x"),
            _ => publish_v3(first, "a", 9, b"x"),
        };
        let mut peer = Peer::open(version);
        peer.send(&publish(0x34));
        peer.machine.answer_publish(id(9), ReasonCode::Success, "").unwrap();
        peer.machine.transport_closed();
        let in_flight = peer.machine.take_in_flight();
        assert_eq!(in_flight.received, [id(9)]);
        let mut peer = resumed(version, &[], &in_flight);
        assert_eq!(peer.send(&publish(0x3c)), []);
        assert_eq!(peer.output(), [0x50, 2, 0, 9]);
        assert_eq!(peer.send(&[0x62, 2, 0, 9]), [Seen::Released(9)]);
        peer.machine.complete(id(9)).unwrap();
        assert_eq!(peer.output(), [0x70, 2, 0, 9]);
        assert_eq!(peer.machine.take_in_flight(), InFlight::default());
    }
}

#[test]
fn a_message_without_an_answer_is_new_on_the_next_connection() {
    let mut peer = Peer::open(Version::V5);
    peer.send(&publish_v5(0x34, "a", 9, &[], b"x"));
    peer.machine.transport_closed();
    assert_eq!(peer.machine.take_in_flight(), InFlight::default());
}

#[test]
fn a_message_that_was_released_and_not_completed_is_kept() {
    let mut peer = Peer::open(Version::V5);
    peer.send(&publish_v5(0x34, "a", 9, &[], b"x"));
    peer.machine.answer_publish(id(9), ReasonCode::Success, "").unwrap();
    peer.send(&[0x62, 2, 0, 9]);
    assert_eq!(peer.machine.take_in_flight().received, [id(9)]);
}

/// [5: 3.3.4-9]
#[test]
fn a_smaller_receive_maximum_holds_for_what_is_sent_again() {
    let outgoing = (1..=3).map(|id| delivery(id, u64::from(id), Stage::Published)).collect();
    let in_flight = InFlight { outgoing, received: Vec::new() };
    let mut peer = resumed(Version::V5, &[0x21, 0, 2], &in_flight);
    let again = Outgoing { dup: true, ..message("a", QoS::AtLeastOnce, &[]) };
    peer.machine.send_reserved(&again, id(1)).unwrap();
    peer.machine.send_reserved(&again, id(2)).unwrap();
    assert_eq!(peer.machine.send_reserved(&again, id(3)), Err(SendError::WindowFull));
    peer.send(&[0x40, 2, 0, 1]);
    peer.machine.send_reserved(&again, id(3)).unwrap();
    assert_eq!(peer.machine.window(), 0);
}

/// A PUBREL takes no place in the window, and gives none (4.9).
#[test]
fn a_released_delivery_of_an_earlier_connection_has_no_place_in_the_window() {
    let in_flight = InFlight { outgoing: vec![delivery(5, 5, Stage::Received)], received: Vec::new() };
    let mut peer = resumed(Version::V5, &[0x21, 0, 1], &in_flight);
    let sent = peer.machine.send_publish(&message("a", QoS::AtLeastOnce, &[]), 1).unwrap();
    assert_ne!(sent, id(5));
    peer.machine.release(id(5)).unwrap();
    peer.send(&[0x70, 2, 0, 5]);
    assert_eq!(peer.machine.window(), 0);
}

#[test]
fn messages_of_an_earlier_connection_do_not_count_against_the_receive_maximum() {
    let config = Config { receive_maximum: 1, ..Config::default() };
    let in_flight = InFlight { outgoing: Vec::new(), received: vec![id(1), id(2)] };
    let mut peer = Peer::open_with(config, Version::V5, &[], &in_flight);
    assert_eq!(peer.send(&publish_v5(0x34, "a", 3, &[], b"")).len(), 1);
    peer.send(&[0x62, 2, 0, 1]);
    peer.machine.complete(id(1)).unwrap();
    assert_eq!(peer.closed_by(&publish_v5(0x34, "a", 4, &[], b"")).code, ReasonCode::ReceiveMaximumExceeded);
}
