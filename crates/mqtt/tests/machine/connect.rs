//! Answers to CONNECT (3.1.4, 3.2).

use enmasse_mqtt::codec::fixed::split;
use enmasse_mqtt::codec::{ConnAck, Property, PropertyBuffer, PropertyId, ReasonCode, Version};
use enmasse_mqtt::connection::{Accept, AnswerError, ClosedBy, Config, InFlight};

use crate::peer::{ALL, Peer, Seen, connect, id, packet, publish_v3, publish_v5, text};

fn waiting(version: Version, properties: &[u8]) -> Peer {
    let mut peer = Peer::new(Config::default());
    peer.send(&connect(version, 2, 0, properties, &[&text("device")]));
    peer
}

/// The properties of a CONNACK that accepts.
fn accepted(peer: &mut Peer, accept: &Accept<'_>) -> Vec<(PropertyId, String)> {
    peer.machine.accept(peer.now, accept, &InFlight::default()).unwrap();
    let bytes = peer.output();
    let (frame, length) = split(&bytes, u32::MAX).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    let connack = ConnAck::decode(&frame, Version::V5).unwrap();
    assert_eq!(connack.code, 0);
    connack.properties.iter().map(|property| (property.id(), format!("{property:?}"))).collect()
}

fn has(properties: &[(PropertyId, String)], id: PropertyId) -> bool {
    properties.iter().any(|(found, _)| *found == id)
}

/// [5: 3.2.0-1] [5: 3.2.0-2] [3: 3.2.0-1] [5: 3.1.4-5] [3: 3.1.4-4] [5: 3.2.2-1]
#[test]
fn an_accepted_connect_has_one_connack() {
    for version in ALL {
        let mut peer = waiting(version, &[]);
        assert!(peer.output().is_empty());
        peer.machine.accept(peer.now, &Accept::default(), &InFlight::default()).unwrap();
        let sent = peer.output();
        assert_eq!((sent[0], sent[2], sent[3]), (0x20, 0, 0));
        if version != Version::V5 {
            assert_eq!(sent.len(), 4);
        }
        let again = peer.machine.accept(peer.now, &Accept::default(), &InFlight::default());
        assert_eq!(again, Err(AnswerError::NotOpen));
        assert_eq!(peer.machine.refuse(ReasonCode::Banned, "", None), Err(AnswerError::NotOpen));
        assert!(peer.output().is_empty());
    }
}

/// [5: 3.2.2-2] [5: 3.2.2-3] [3: 3.2.2-1] [3: 3.2.2-2] [3: 3.2.2-3]
#[test]
fn session_present_is_as_the_driver_says() {
    for (version, flag) in [(Version::V31, 0), (Version::V311, 1), (Version::V5, 1)] {
        let mut peer = waiting(version, &[]);
        let accept = Accept { session_present: true, ..Accept::default() };
        peer.machine.accept(peer.now, &accept, &InFlight::default()).unwrap();
        // 3.1 has no such flag.
        assert_eq!(peer.output()[2], flag);
    }
}

/// [5: 3.2.2-6] [5: 3.2.2-7] [5: 3.2.2-8] [5: 3.1.4-2] [3: 3.2.2-4] [3: 3.2.2-5] [5: 4.13.2-1] [5: 3.1.3-8] [3: 3.1.3-9]
#[test]
fn a_refusal_closes_without_a_session() {
    let cases = [
        (ReasonCode::BadUserNameOrPassword, 4),
        (ReasonCode::NotAuthorized, 5),
        (ReasonCode::ClientIdentifierNotValid, 2),
        (ReasonCode::ServerBusy, 3),
        (ReasonCode::QuotaExceeded, 3),
    ];
    for (code, return_code) in cases {
        let mut peer = waiting(Version::V5, &[]);
        peer.machine.refuse(code, "why", None).unwrap();
        assert_eq!(peer.output(), packet(0x20, &[&[0, code.as_u8(), 6, 0x1f], &text("why")]));
        let closed = peer.closed_by(&[]);
        assert_eq!((closed.by, closed.code, closed.publish_will), (ClosedBy::Server, code, false));
        let mut peer = waiting(Version::V311, &[]);
        peer.machine.refuse(code, "why", None).unwrap();
        assert_eq!(peer.output(), [0x20, 2, 0, return_code]);
    }
    // A code that CONNACK does not have.
    let mut peer = waiting(Version::V5, &[]);
    peer.machine.refuse(ReasonCode::SessionTakenOver, "", None).unwrap();
    assert_eq!(peer.output(), [0x20, 3, 0, 0x80, 0]);
}

/// [5: 3.1.4-6] [3: 3.1.4-5]
#[test]
fn nothing_after_a_refused_connect_is_processed() {
    for version in [Version::V311, Version::V5] {
        let mut peer = waiting(version, &[]);
        let more =
            if version == Version::V5 { publish_v5(0x30, "a", 0, &[], b"x") } else { publish_v3(0x30, "a", 0, b"x") };
        assert_eq!(peer.send(&more), []);
        peer.machine.refuse(ReasonCode::NotAuthorized, "", None).unwrap();
        let seen = peer.send(&more);
        assert!(matches!(seen[..], [Seen::Closed(_)]), "{seen:?}");
        assert_eq!(peer.send(&more), []);
    }
}

/// Clients need not wait for CONNACK (3.1.4).
#[test]
fn packets_behind_connect_are_read_once_it_is_accepted() {
    let mut peer = Peer::new(Config::default());
    let both = [connect(Version::V311, 2, 0, &[], &[&text("d")]), publish_v3(0x30, "a", 0, b"x")].concat();
    assert_eq!(peer.send(&both), [Seen::Connect("d".to_owned())]);
    peer.machine.accept(peer.now, &Accept::default(), &InFlight::default()).unwrap();
    assert!(matches!(peer.send(&[])[..], [Seen::Publish { .. }]));
}

/// [5: 3.1.3-7] [5: 3.2.2-16]
#[test]
fn an_assigned_identifier_is_in_connack() {
    let mut peer = Peer::new(Config::default());
    peer.send(&connect(Version::V5, 2, 0, &[], &[&text("")]));
    let properties = accepted(&mut peer, &Accept { assigned_client_id: Some("auto-7"), ..Accept::default() });
    assert!(
        properties.iter().any(|(id, value)| *id == PropertyId::AssignedClientIdentifier && value.contains("auto-7"))
    );
}

/// [5: 3.1.2-28]
#[test]
fn response_information_is_sent_on_request_only() {
    let accept = Accept { response_information: Some("reply/device"), ..Accept::default() };
    for (properties, sent) in [(&[][..], false), (&[0x19, 0], false), (&[0x19, 1], true)] {
        let mut peer = waiting(Version::V5, properties);
        assert_eq!(has(&accepted(&mut peer, &accept), PropertyId::ResponseInformation), sent);
    }
}

/// [5: 3.2.2-19] [5: 3.2.2-20] [5: 3.1.2-24]
#[test]
fn connack_stays_within_the_maximum_packet_size() {
    let long = "r".repeat(200);
    let mut user = PropertyBuffer::default();
    user.push(Property::User("k", "v")).unwrap();
    let accept = Accept { reason: &long, user: user.as_user(), ..Accept::default() };
    let mut peer = waiting(Version::V5, &[0x27, 0, 0, 0, 100]);
    let properties = accepted(&mut peer, &accept);
    assert!(!has(&properties, PropertyId::ReasonString) && has(&properties, PropertyId::UserProperty));
    let mut peer = waiting(Version::V5, &[]);
    assert!(has(&accepted(&mut peer, &accept), PropertyId::ReasonString));
    // Even the shortest CONNACK is too large.
    let mut peer = waiting(Version::V5, &[0x27, 0, 0, 0, 4]);
    let result = peer.machine.accept(peer.now, &Accept::default(), &InFlight::default());
    assert_eq!(result, Err(AnswerError::TooLarge));
    assert!(peer.output().is_empty());
    assert_eq!(peer.closed_by(&[]).code, ReasonCode::PacketTooLarge);
}

/// [5: 4.9.0-1]
#[test]
fn limits_of_the_server_are_in_connack() {
    let config =
        Config { receive_maximum: 7, packet_size_max_bytes: 5000, topic_alias_maximum: 3, ..Config::default() };
    let mut peer = Peer::new(config);
    peer.send(&connect(Version::V5, 2, 0, &[0x21, 0, 9], &[&text("d")]));
    let properties = accepted(&mut peer, &Accept::default());
    let values: Vec<_> = properties.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(
        values,
        ["Number(ReceiveMaximum, 7)", "Number(MaximumPacketSize, 5000)", "Number(TopicAliasMaximum, 3)"]
    );
    assert_eq!(peer.machine.window(), 9);
}

#[test]
fn session_expiry_and_server_reference_are_sent() {
    let mut peer = waiting(Version::V5, &[0x11, 0xff, 0xff, 0xff, 0xff]);
    let properties = accepted(&mut peer, &Accept { session_expiry_s: Some(60), ..Accept::default() });
    assert!(has(&properties, PropertyId::SessionExpiryInterval));
    let mut peer = waiting(Version::V5, &[]);
    peer.machine.refuse(ReasonCode::ServerMoved, "", Some("other:1883")).unwrap();
    assert_eq!(peer.output(), packet(0x20, &[&[0, 0x9d, 13, 0x1c], &text("other:1883")]));
}

#[test]
fn answers_of_an_open_connection_are_refused_before() {
    let mut peer = waiting(Version::V5, &[]);
    assert_eq!(peer.machine.answer_publish(id(1), ReasonCode::Success, ""), Err(AnswerError::NotOpen));
    assert_eq!(peer.machine.complete(id(1)), Err(AnswerError::NotOpen));
    assert_eq!(peer.machine.auth_continue(b""), Err(AnswerError::NotOpen));
    assert!(!peer.machine.is_open());
    assert_eq!(peer.machine.version(), Some(Version::V5));
}
