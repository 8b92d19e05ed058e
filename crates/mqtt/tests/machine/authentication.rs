//! Enhanced authentication (3.15, 4.12).

use enmasse_mqtt::codec::{ReasonCode, Version};
use enmasse_mqtt::connection::{Accept, AnswerError, Config, InFlight};

use crate::peer::{Peer, Seen, connect, field, packet, text};

fn method(name: &str) -> Vec<u8> {
    [&[0x15][..], &text(name)].concat()
}

/// AUTH with a code, a method and data.
fn auth(code: u8, name: &str, data: &[u8]) -> Vec<u8> {
    let properties = [method(name), [&[0x16][..], &field(data)].concat()].concat();
    packet(0xf0, &[&[code, properties.len() as u8], &properties])
}

/// A connection whose CONNECT has named a method.
fn waiting() -> Peer {
    let mut peer = Peer::new(Config::default());
    let properties = [method("SCRAM"), [&[0x16][..], &field(b"first")].concat()].concat();
    assert_eq!(peer.send(&connect(Version::V5, 2, 0, &properties, &[&text("d")])), [Seen::Connect("d".to_owned())]);
    peer
}

fn open() -> Peer {
    let mut peer = waiting();
    peer.machine.accept(peer.now, &Accept::default(), &InFlight::default()).unwrap();
    peer.output();
    peer
}

/// [5: 4.12.0-2] [5: 4.12.0-3] [5: 4.12.0-5] [5: 3.15.2-1]
#[test]
fn an_exchange_ends_with_connack() {
    let mut peer = waiting();
    peer.machine.auth_continue(b"server-first").unwrap();
    assert_eq!(peer.output(), auth(0x18, "SCRAM", b"server-first"));
    assert_eq!(peer.send(&auth(0x18, "SCRAM", b"final")), [Seen::Auth(false, b"final".to_vec())]);
    let accept = Accept { authentication_data: Some(b"server-final"), ..Accept::default() };
    peer.machine.accept(peer.now, &accept, &InFlight::default()).unwrap();
    let sent = peer.output();
    let properties = [method("SCRAM"), [&[0x16][..], &field(b"server-final")].concat()].concat();
    assert_eq!(sent[0], 0x20);
    assert!(sent.windows(properties.len()).any(|bytes| bytes == properties));
}

/// [5: 4.12.0-1] [5: 4.12.0-4]
#[test]
fn an_exchange_can_be_refused_at_any_point() {
    for rounds in 0..3 {
        let mut peer = waiting();
        for _ in 0..rounds {
            peer.machine.auth_continue(b"more").unwrap();
            peer.send(&auth(0x18, "SCRAM", b"x"));
        }
        peer.output();
        peer.machine.refuse(ReasonCode::BadAuthenticationMethod, "", None).unwrap();
        assert_eq!(peer.output(), [0x20, 3, 0, 0x8c, 0]);
        assert_eq!(peer.closed_by(&[]).code, ReasonCode::BadAuthenticationMethod);
    }
}

/// [5: 3.1.2-30]
#[test]
fn only_auth_and_disconnect_precede_connack() {
    for bytes in [&[0xc0, 0][..], &packet(0x30, &[&text("a"), &[0]]), &packet(0x82, &[&[0, 1, 0], &text("a"), &[0]])] {
        let mut peer = waiting();
        peer.machine.auth_continue(b"").unwrap();
        peer.output();
        assert_eq!(peer.closed_by(bytes).code, ReasonCode::ProtocolError);
        let sent = peer.output();
        assert_eq!((sent[0], sent[3]), (0x20, 0x82));
    }
    let mut peer = waiting();
    peer.machine.auth_continue(b"").unwrap();
    let closed = peer.closed_by(&[0xe0, 1, 0x04]);
    assert!(!closed.publish_will);
}

/// [5: 4.12.0-5] [5: 4.12.1-1]
#[test]
fn the_method_does_not_change() {
    let (other, missing) = (ReasonCode::BadAuthenticationMethod, ReasonCode::ProtocolError);
    for (bytes, code) in
        [(auth(0x18, "OTHER", b""), other), (packet(0xf0, &[&[0x18, 0]]), missing), (packet(0xf0, &[&[0x18]]), missing)]
    {
        let mut peer = waiting();
        peer.machine.auth_continue(b"").unwrap();
        peer.output();
        assert_eq!(peer.closed_by(&bytes).code, code);
        let sent = peer.output();
        assert_eq!((sent[0], sent[3]), (0x20, code.as_u8()));
    }
    let mut peer = open();
    assert_eq!(peer.closed_by(&auth(0x19, "OTHER", b"")).code, other);
    let sent = peer.output();
    assert_eq!((sent[0], sent[2]), (0xe0, 0x8c));
}

/// [5: 4.12.0-6] [5: 4.12.0-7]
#[test]
fn without_a_method_there_is_no_auth() {
    let mut peer = Peer::new(Config::default());
    peer.send(&connect(Version::V5, 2, 0, &[], &[&text("d")]));
    assert_eq!(peer.machine.auth_continue(b""), Err(AnswerError::NotOpen));
    let accept = Accept { authentication_data: Some(b"x"), ..Accept::default() };
    peer.machine.accept(peer.now, &accept, &InFlight::default()).unwrap();
    assert!(!peer.output().contains(&0x15));
    assert_eq!(peer.machine.auth_succeeded(b""), Err(AnswerError::NotOpen));
    assert_eq!(peer.closed_by(&auth(0x19, "SCRAM", b"")).code, ReasonCode::ProtocolError);
}

/// [5: 3.15.1-1] [5: 3.15.2-1]
#[test]
fn the_form_of_auth_is_checked() {
    let mut bytes = auth(0x19, "SCRAM", b"");
    bytes[0] = 0xf2;
    assert_eq!(open().closed_by(&bytes).code, ReasonCode::MalformedPacket);
    for code in [0x00, 0x18, 0x80, 0x03] {
        assert_eq!(open().closed_by(&auth(code, "SCRAM", b"")).code, ReasonCode::ProtocolError);
    }
}

#[test]
fn a_client_authenticates_again_while_messages_pass() {
    let mut peer = open();
    assert_eq!(peer.send(&auth(0x19, "SCRAM", b"first")), [Seen::Auth(true, b"first".to_vec())]);
    assert!(matches!(peer.send(&packet(0x30, &[&text("a"), &[0]]))[..], [Seen::Publish { .. }]));
    peer.machine.auth_continue(b"more").unwrap();
    assert_eq!(peer.output(), auth(0x18, "SCRAM", b"more"));
    assert_eq!(peer.send(&auth(0x18, "SCRAM", b"final")), [Seen::Auth(false, b"final".to_vec())]);
    peer.machine.auth_succeeded(b"done").unwrap();
    assert_eq!(peer.output(), auth(0x00, "SCRAM", b"done"));
    assert_eq!(peer.machine.auth_succeeded(b""), Err(AnswerError::NotOpen));
    // And again.
    assert_eq!(peer.send(&auth(0x19, "SCRAM", b"")), [Seen::Auth(true, Vec::new())]);
    // Not twice at a time.
    assert_eq!(peer.closed_by(&auth(0x19, "SCRAM", b"")).code, ReasonCode::ProtocolError);
}

/// Its old rights must not last by a client that says nothing more.
#[test]
fn a_reauthentication_may_take_as_long_as_a_handshake() {
    let mut peer = open();
    assert_eq!(peer.machine.poll_timeout(), None);
    peer.send(&auth(0x19, "SCRAM", b"first"));
    peer.machine.auth_continue(b"more").unwrap();
    peer.output();
    let due = peer.now.plus_millis(u64::from(Config::default().handshake_ms));
    assert_eq!(peer.machine.poll_timeout(), Some(due));
    peer.now = due;
    peer.machine.handle_timeout(due);
    let closed = peer.closed_by(&[]);
    assert_eq!((closed.code, closed.publish_will), (ReasonCode::NotAuthorized, true));
    assert_eq!(peer.output()[..1], [0xe0]);

    let mut peer = open();
    peer.send(&auth(0x19, "SCRAM", b"first"));
    peer.machine.auth_succeeded(b"").unwrap();
    assert_eq!(peer.machine.poll_timeout(), None);
}

/// [5: 4.12.1-2]
#[test]
fn a_failed_reauthentication_ends_the_connection() {
    let mut peer = open();
    peer.send(&auth(0x19, "SCRAM", b"first"));
    peer.disconnect(ReasonCode::NotAuthorized, "");
    assert_eq!(peer.output(), [0xe0, 1, 0x87]);
    assert!(peer.closed_by(&[]).publish_will);
}
