//! Time-outs: keep-alive (3.1.2.10) and handshake.

use enmasse_mqtt::codec::{ReasonCode, Version};
use enmasse_mqtt::connection::{Accept, ClosedBy, Config, InFlight};

use crate::peer::{ALL, Peer, Seen, connect, publish_v3, text};

/// An open connection with a keep-alive.
fn open(config: Config, version: Version, keep_alive_s: u16, server: Option<u16>) -> Peer {
    let mut peer = Peer::new(config);
    peer.send(&connect(version, 2, keep_alive_s, &[], &[&text("d")]));
    let accept = Accept { server_keep_alive_s: server, ..Accept::default() };
    peer.machine.accept(peer.now, &accept, &InFlight::default()).unwrap();
    peer
}

/// Whether the connection ends when so much time has passed.
fn ends_after(peer: &mut Peer, millis: u64) -> bool {
    peer.output();
    peer.pass_millis(millis);
    peer.machine.handle_timeout(peer.now);
    !peer.machine.is_open()
}

/// [5: 3.1.2-22] [3: 3.1.2-24]
#[test]
fn a_silent_client_is_disconnected_after_one_and_a_half_keep_alives() {
    for version in ALL {
        let mut peer = open(Config::default(), version, 10, None);
        assert_eq!(peer.machine.poll_timeout(), Some(peer.now.plus_millis(15_000)));
        assert!(!ends_after(&mut peer, 14_999));
        assert!(ends_after(&mut peer, 1));
        let sent = peer.output();
        if version == Version::V5 {
            assert_eq!((sent[0], sent[2]), (0xe0, 0x8d));
        } else {
            assert!(sent.is_empty());
        }
        let closed = peer.closed_by(&[]);
        assert_eq!((closed.by, closed.code), (ClosedBy::Timeout, ReasonCode::KeepAliveTimeout));
        assert!(closed.publish_will);
        assert_eq!(peer.machine.poll_timeout(), None);
    }
}

#[test]
fn every_packet_extends_the_keep_alive_and_half_a_packet_does_not() {
    let mut peer = open(Config::default(), Version::V311, 10, None);
    peer.pass_millis(14_000);
    assert_eq!(peer.send(&[0xc0, 0]), []);
    assert!(!ends_after(&mut peer, 14_000));
    assert_eq!(peer.send(&publish_v3(0x30, "a", 0, b"x")[..3]), []);
    assert!(ends_after(&mut peer, 1_000));
}

#[test]
fn keep_alive_zero_has_no_limit() {
    let mut peer = open(Config::default(), Version::V311, 0, None);
    assert_eq!(peer.machine.poll_timeout(), None);
    assert!(!ends_after(&mut peer, u64::from(u32::MAX)));
}

/// [5: 3.1.2-21] [5: 3.2.2-21] [5: 3.2.2-22]
#[test]
fn the_keep_alive_of_the_server_replaces_that_of_the_client() {
    let mut peer = open(Config::default(), Version::V5, 60, Some(4));
    assert_eq!(peer.machine.poll_timeout(), Some(peer.now.plus_millis(6_000)));
    assert!(peer.output().windows(3).any(|bytes| bytes == [0x13, 0, 4]));
    // The operator's longest applies to more, and to none.
    let config = || Config { keep_alive_max_s: 30, ..Config::default() };
    for (asked, told, used) in [(0, true, 30), (31, true, 30), (30, false, 30), (10, false, 10)] {
        let mut peer = open(config(), Version::V5, asked, None);
        assert_eq!(peer.machine.poll_timeout(), Some(peer.now.plus_millis(used * 1500)), "asked {asked}");
        assert_eq!(peer.output().windows(3).any(|bytes| bytes == [0x13, 0, 30]), told, "asked {asked}");
    }
    let peer = open(config(), Version::V311, 60, None);
    assert_eq!(peer.machine.poll_timeout(), Some(peer.now.plus_millis(90_000)));
}

#[test]
fn a_client_that_is_not_read_is_not_silent() {
    let mut peer = open(Config::default(), Version::V5, 10, None);
    peer.machine.set_reading(peer.now, false);
    assert_eq!(peer.machine.poll_timeout(), None);
    assert!(!ends_after(&mut peer, 100_000));
    peer.machine.set_reading(peer.now, true);
    assert!(!ends_after(&mut peer, 14_999));
    assert!(ends_after(&mut peer, 1));
}

#[test]
fn a_client_whose_answer_is_owed_is_not_silent() {
    let config = Config { receive_maximum: 1, ..Config::default() };
    let mut peer = open(config, Version::V311, 10, None);
    let seen = peer.send(&publish_v3(0x32, "a", 1, b"x"));
    assert!(matches!(seen[..], [Seen::Publish { .. }]));
    assert_eq!(peer.send(&[]), []);
    assert_eq!(peer.machine.poll_timeout(), None);
    peer.machine.answer_publish(crate::peer::id(1), ReasonCode::Success, "").unwrap();
    // The answer alone begins it again, though nothing is read.
    peer.pass_millis(100_000);
    assert!(!ends_after(&mut peer, 0));
    assert_eq!(peer.machine.poll_timeout(), Some(peer.now.plus_millis(15_000)));
}

#[test]
fn the_handshake_has_a_limit() {
    let mut peer = Peer::new(Config::default());
    assert_eq!(peer.machine.poll_timeout(), Some(peer.now.plus_millis(10_000)));
    peer.pass_millis(10_000);
    peer.machine.handle_timeout(peer.now);
    let closed = peer.closed_by(&[]);
    assert_eq!((closed.by, closed.publish_will), (ClosedBy::Timeout, false));
    assert!(peer.output().is_empty());
    // While the driver decides, the client learns why.
    let mut peer = Peer::new(Config::default());
    peer.send(&connect(Version::V311, 2, 10, &[], &[&text("d")]));
    peer.pass_millis(9_999);
    peer.machine.handle_timeout(peer.now);
    assert!(peer.output().is_empty());
    peer.pass_millis(1);
    peer.machine.handle_timeout(peer.now);
    assert_eq!(peer.output(), [0x20, 2, 0, 3]);
}
