//! PINGREQ, DISCONNECT and the end of a connection (3.12 to 3.14, 4.13).

use enmasse_mqtt::codec::{Property, PropertyBuffer, ReasonCode, UserProperties, Version};
use enmasse_mqtt::connection::{Closed, ClosedBy};

use crate::peer::{ALL, Peer, Seen, V3, packet, publish_v3, text};

/// [5: 3.12.4-1] [3: 3.12.4-1]
#[test]
fn a_ping_is_answered() {
    for version in ALL {
        let mut peer = Peer::open(version);
        assert_eq!(peer.send(&[0xc0, 0, 0xc0, 0]), []);
        assert_eq!(peer.output(), [0xd0, 0, 0xd0, 0]);
        assert_eq!(peer.closed_by(&[0xc1, 0]).code, ReasonCode::MalformedPacket);
        assert_eq!(Peer::open(version).closed_by(&[0xc0, 1, 0]).code, ReasonCode::MalformedPacket);
    }
}

/// [5: 3.14.4-3] [3: 3.14.4-3] [5: 3.1.2-8] [3: 3.1.2-8]
#[test]
fn the_will_is_discarded_by_a_normal_disconnect_only() {
    for version in ALL {
        let closed = Peer::open(version).closed_by(&[0xe0, 0]);
        assert_eq!((closed.by, closed.code, closed.publish_will), (ClosedBy::Client, ReasonCode::Success, false));
    }
    for code in [0x04, 0x80, 0x81, 0x93] {
        let closed = Peer::open(Version::V5).closed_by(&[0xe0, 1, code]);
        assert_eq!((closed.by, closed.code.as_u8(), closed.publish_will), (ClosedBy::Client, code, true));
    }
    let mut peer = Peer::open(Version::V311);
    peer.machine.transport_closed();
    let closed = peer.closed_by(&[]);
    assert_eq!((closed.by, closed.publish_will), (ClosedBy::Transport, true));
}

#[test]
fn nothing_is_published_before_the_connection_was_accepted() {
    let mut peer = Peer::new(enmasse_mqtt::connection::Config::default());
    peer.send(&crate::peer::connect(Version::V5, 2, 0, &[], &[&text("d")]));
    peer.machine.transport_closed();
    assert!(!peer.closed_by(&[]).publish_will);
}

/// [5: 3.14.1-1] [3: 3.14.1-1] [5: 3.14.2-1]
#[test]
fn the_form_of_disconnect_is_checked() {
    let wrong = |version, bytes: &[u8]| Peer::open(version).closed_by(bytes).code;
    for version in ALL {
        assert_eq!(wrong(version, &[0xe1, 0]), ReasonCode::MalformedPacket);
    }
    for version in V3 {
        assert_eq!(wrong(version, &[0xe0, 1, 0]), ReasonCode::MalformedPacket);
    }
    // No code; a code of servers; of PUBACK; a property of servers; bytes behind the properties.
    assert_eq!(wrong(Version::V5, &[0xe0, 1, 0x03]), ReasonCode::ProtocolError);
    assert_eq!(wrong(Version::V5, &[0xe0, 1, 0x8b]), ReasonCode::ProtocolError);
    assert_eq!(wrong(Version::V5, &[0xe0, 1, 0x10]), ReasonCode::ProtocolError);
    assert_eq!(wrong(Version::V5, &packet(0xe0, &[&[0, 4, 0x1c], &text("s")])), ReasonCode::ProtocolError);
    assert_eq!(wrong(Version::V5, &[0xe0, 3, 0, 0, 0]), ReasonCode::MalformedPacket);
}

#[test]
fn disconnect_can_change_the_session_expiry_unless_it_was_zero() {
    let bytes = [0xe0, 7, 0, 5, 0x11, 0, 0, 0, 60];
    let mut peer = Peer::open_v5(&[0x11, 0, 0, 0, 1]);
    let closed = peer.closed_by(&bytes);
    assert_eq!((closed.session_expiry_s, closed.publish_will), (Some(60), false));
    let closed = Peer::open(Version::V5).closed_by(&bytes);
    assert_eq!((closed.code, closed.publish_will), (ReasonCode::ProtocolError, true));
    let zero = [0xe0, 7, 0, 5, 0x11, 0, 0, 0, 0];
    assert_eq!(Peer::open(Version::V5).closed_by(&zero).session_expiry_s, Some(0));
}

#[test]
fn the_clients_reason_is_kept_for_the_log() {
    let closed = Peer::open(Version::V5).closed_by(&packet(0xe0, &[&[0x80, 6, 0x1f], &text("why")]));
    assert_eq!(closed.text, "why");
}

/// [5: 3.14.0-1] [5: 3.14.4-1] [5: 3.14.4-2] [5: 3.14.2-2] [3: 3.14.4-1] [3: 3.14.4-2]
#[test]
fn the_server_disconnects_and_is_silent_afterwards() {
    for version in ALL {
        let mut peer = Peer::open(version);
        peer.disconnect(ReasonCode::SessionTakenOver, "again");
        let sent = peer.output();
        match version {
            Version::V5 => assert_eq!(sent, packet(0xe0, &[&[0x8e, 8, 0x1f], &text("again")])),
            _ => assert!(sent.is_empty()),
        }
        let closed = Closed {
            by: ClosedBy::Server,
            code: ReasonCode::SessionTakenOver,
            text: "again".to_owned(),
            publish_will: true,
            session_expiry_s: None,
        };
        assert_eq!(peer.send(&publish_v3(0x30, "a", 0, b"")), [Seen::Closed(closed)]);
        assert_eq!(peer.send(&[0xc0, 0]), []);
        peer.disconnect(ReasonCode::ServerBusy, "");
        peer.machine.transport_closed();
        assert_eq!(peer.send(&[]), []);
        assert!(peer.output().is_empty());
    }
    // Before CONNACK there is no DISCONNECT.
    let mut peer = Peer::new(enmasse_mqtt::connection::Config::default());
    peer.send(&crate::peer::connect(Version::V5, 2, 0, &[], &[&text("d")]));
    peer.disconnect(ReasonCode::ServerShuttingDown, "");
    assert!(peer.output().is_empty());
    assert!(!peer.closed_by(&[]).publish_will);
}

/// [5: 3.14.2-3] [5: 3.14.2-4]
#[test]
fn properties_of_disconnect_that_do_not_fit_are_left_out() {
    let mut user = PropertyBuffer::default();
    user.push(Property::User("key", &"v".repeat(40))).unwrap();
    for (max, expected) in [
        (u8::MAX, packet(0xe0, &[&[0x98, 54, 0x1f], &text("why"), &[0x26], &text("key"), &text(&"v".repeat(40))])),
        (20, packet(0xe0, &[&[0x98, 6, 0x1f], &text("why")])),
        (3, vec![0xe0, 1, 0x98]),
        (2, Vec::new()),
    ] {
        let properties = [0x27, 0, 0, 0, max];
        let config = enmasse_mqtt::connection::Config::default();
        let mut peer = Peer::new(config);
        peer.send(&crate::peer::connect(Version::V5, 2, 0, &properties, &[&text("d")]));
        let accept = enmasse_mqtt::connection::Accept::default();
        let accepted = peer.machine.accept(peer.now, &accept, &enmasse_mqtt::connection::InFlight::default());
        if accepted.is_err() {
            // CONNACK was too large already.
            continue;
        }
        peer.output();
        peer.machine.disconnect(ReasonCode::AdministrativeAction, "why", None, user.as_user());
        assert_eq!(peer.output(), expected, "at most {max} bytes");
    }
}

#[test]
fn a_server_reference_goes_with_disconnect() {
    let mut peer = Peer::open(Version::V5);
    peer.machine.disconnect(ReasonCode::UseAnotherServer, "", Some("other:1883"), UserProperties::NONE);
    assert_eq!(peer.output(), packet(0xe0, &[&[0x9c, 13, 0x1c], &text("other:1883")]));
}

/// [5: 4.13.1-1] [3: 4.8.0-1] [3: 4.8.0-2]
#[test]
fn packets_that_only_servers_send_end_the_connection() {
    for version in ALL {
        for bytes in [&[0x20, 2, 0, 0][..], &[0x90, 3, 0, 1, 0], &[0xb0, 2, 0, 1], &[0xd0, 0]] {
            assert_eq!(Peer::open(version).closed_by(bytes).code, ReasonCode::ProtocolError);
        }
        assert_eq!(Peer::open(version).closed_by(&[0x00, 0]).code, ReasonCode::MalformedPacket);
    }
    for version in V3 {
        assert_eq!(Peer::open(version).closed_by(&[0xf0, 0]).code, ReasonCode::ProtocolError);
    }
}
