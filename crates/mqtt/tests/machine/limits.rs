//! Bounds of a connection, whatever the client sends.

use enmasse_mqtt::codec::{QoS, ReasonCode, Version};
use enmasse_mqtt::connection::{Config, InFlight};

use crate::peer::{Peer, Seen, connect, message, packet, publish_v3, publish_v5, text};

fn small() -> Config {
    Config { packet_size_max_bytes: 1000, connect_size_max_bytes: 200, ..Config::default() }
}

/// The size is judged from the fixed header: nothing has to be buffered.
#[test]
fn a_packet_above_the_maximum_is_refused_by_its_header() {
    let mut peer = Peer::open_with(small(), Version::V5, &[], &InFlight::default());
    assert_eq!(peer.machine.wanted_bytes(&[0x30, 0xe5, 0x07]), Some(1000));
    assert_eq!(peer.machine.wanted_bytes(&[0x30, 0xe6, 0x07]), None);
    assert_eq!(peer.machine.wanted_bytes(&[0x30, 0xe6]), None);
    let payload = vec![0; 1000 - 3 - 4];
    assert_eq!(peer.send(&publish_v5(0x30, "a", 0, &[], &payload)).len(), 1);
    assert_eq!(peer.closed_by(&[0x30, 0xe6, 0x07]).code, ReasonCode::PacketTooLarge);
    let sent = peer.output();
    assert_eq!((sent[0], sent[2]), (0xe0, 0x95));
}

#[test]
fn connect_has_a_maximum_of_its_own() {
    let mut peer = Peer::new(small());
    let long = "d".repeat(200);
    assert_eq!(peer.closed_by(&connect(Version::V5, 2, 0, &[], &[&text(&long)])[..3]).code, ReasonCode::PacketTooLarge);
    assert!(peer.output().is_empty());
}

#[test]
fn a_client_that_reads_no_answers_is_not_read() {
    let config = Config { output_max_bytes: 64, ..Config::default() };
    let mut peer = Peer::open_with(config, Version::V311, &[], &InFlight::default());
    let pings = [0xc0, 0].repeat(1000);
    assert_eq!(peer.send(&pings), []);
    assert_eq!(peer.machine.output().len(), 64);
    assert_eq!(peer.unread.len(), 2000 - 64);
    assert_eq!(peer.output(), [0xd0, 0].repeat(32));
    assert_eq!(peer.send(&[]), []);
    assert_eq!(peer.unread.len(), 2000 - 128);
}

/// Answers and releases leave nothing behind, in whatever order they come.
#[test]
fn a_long_connection_forgets_what_has_ended() {
    let mut peer = Peer::open(Version::V5);
    for round in 0..2000_u16 {
        for number in 1..=20_u16 {
            let id = (round * 20 + number).max(1);
            peer.send(&publish_v5(0x34, "a", id, &[], b""));
            peer.machine.answer_publish(crate::peer::id(id), ReasonCode::Success, "").unwrap();
            let [high, low] = id.to_be_bytes();
            assert_eq!(peer.send(&[0x62, 2, high, low]), [Seen::Released(id)]);
            peer.machine.complete(crate::peer::id(id)).unwrap();
            let sent = peer.machine.send_publish(&message("a", QoS::AtLeastOnce, &[]), 1).unwrap();
            assert!(sent.get() <= 1000);
            let [high, low] = sent.get().to_be_bytes();
            peer.send(&[0x40, 2, high, low]);
        }
        peer.output();
    }
    assert_eq!(peer.machine.take_in_flight(), InFlight::default());
}

#[test]
fn a_topic_of_a_thousand_levels_passes() {
    let deep = "a/".repeat(1000);
    let mut peer = Peer::open(Version::V311);
    assert!(matches!(peer.send(&publish_v3(0x30, &deep, 0, b""))[..], [Seen::Publish { .. }]));
    let filter = "+/".repeat(1000);
    assert_eq!(peer.send(&packet(0x82, &[&[0, 1], &text(&filter), &[0]])).len(), 1);
}
