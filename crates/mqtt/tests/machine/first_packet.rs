//! The first packet of a connection and the form of CONNECT (3.1).

use enmasse_mqtt::codec::fixed::split;
use enmasse_mqtt::codec::{Connect, QoS, ReasonCode, Version};
use enmasse_mqtt::connection::{ClosedBy, Config};

use crate::peer::{ALL, Peer, Seen, connect, field, packet, text};

/// The fields of a CONNECT.
fn decoded(bytes: &[u8]) -> Result<Connect<'_>, ReasonCode> {
    let (frame, _) = split(bytes, u32::MAX).unwrap().unwrap();
    Connect::decode(&frame).map_err(|error| error.code)
}

/// The refusal of a CONNECT and the bytes that were sent.
fn refused(bytes: &[u8]) -> (ReasonCode, Vec<u8>) {
    let mut peer = Peer::new(Config::default());
    let closed = peer.closed_by(bytes);
    assert!(!closed.publish_will);
    (closed.code, peer.output())
}

/// [5: 3.1.0-1] [3: 3.1.0-1]
#[test]
fn the_first_packet_is_a_connect() {
    for first in (0x00..=0xff).filter(|first| first >> 4 != 1) {
        let mut peer = Peer::new(Config::default());
        // Its first byte is enough.
        let closed = peer.closed_by(&[first]);
        assert_eq!((closed.by, closed.code), (ClosedBy::Violation, ReasonCode::ProtocolError));
        assert!(peer.output().is_empty());
    }
}

/// [5: 3.1.0-2] [3: 3.1.0-2]
#[test]
fn a_second_connect_ends_the_connection() {
    for version in ALL {
        let mut peer = Peer::open(version);
        let closed = peer.closed_by(&connect(version, 0, 0, &[], &[&text("device")]));
        assert_eq!(closed.code, ReasonCode::ProtocolError);
        assert!(closed.publish_will);
        let sent = peer.output();
        assert_eq!(sent.first(), if version == Version::V5 { Some(&0xe0) } else { None });
    }
}

/// [5: 3.1.2-1] [3: 3.1.2-1]
#[test]
fn the_protocol_name_is_mqtt() {
    let other = packet(0x10, &[&text("MQTX"), &[5, 0, 0, 0, 0], &text("device")]);
    assert_eq!(refused(&other), (ReasonCode::ProtocolError, Vec::new()));
    let lower = packet(0x10, &[&text("mqtt"), &[4, 0, 0, 0], &text("device")]);
    assert_eq!(refused(&lower), (ReasonCode::ProtocolError, Vec::new()));
}

/// [5: 3.1.2-2] [3: 3.1.2-2]
#[test]
fn an_unsupported_level_is_refused_in_its_form() {
    let seven = packet(0x10, &[&text("MQTT"), &[7, 0, 0, 0, 0], &text("device")]);
    let (code, sent) = refused(&seven);
    assert_eq!(code, ReasonCode::UnsupportedProtocolVersion);
    assert_eq!(sent[..1], [0x20]);
    assert_eq!(sent[2..4], [0x00, 0x84]);
    let three = packet(0x10, &[&text("MQTT"), &[3, 0, 0, 0], &text("device")]);
    assert_eq!(refused(&three), (ReasonCode::UnsupportedProtocolVersion, vec![0x20, 2, 0, 1]));
}

/// [5: 3.1.2-3] [3: 3.1.2-3]
#[test]
fn the_reserved_connect_flag_is_zero() {
    assert_eq!(decoded(&connect(Version::V5, 0x01, 0, &[], &[&text("d")])), Err(ReasonCode::MalformedPacket));
    assert_eq!(decoded(&connect(Version::V311, 0x01, 0, &[], &[&text("d")])), Err(ReasonCode::MalformedPacket));
}

/// [5: 2.1.3-1] [3: 2.2.2-1] [3: 2.2.2-2]
#[test]
fn flags_of_connect_are_zero() {
    let mut bytes = connect(Version::V5, 0, 0, &[], &[&text("device")]);
    bytes[0] = 0x11;
    assert_eq!(decoded(&bytes), Err(ReasonCode::MalformedPacket));
    let (code, sent) = refused(&bytes);
    assert_eq!(code, ReasonCode::MalformedPacket);
    assert_eq!(sent[2..4], [0x00, 0x81]);
}

/// [5: 3.1.2-9] [5: 3.1.3-1] [3: 3.1.2-9] [3: 3.1.3-1] [3: 3.1.2-19] [3: 3.1.2-21] [5: 3.1.2-17] [5: 3.1.2-19]
#[test]
fn fields_are_present_as_the_flags_say_in_their_order() {
    let payload: [&[u8]; 6] =
        [&text("device"), &[0], &text("gone/device"), &field(b"bye"), &text("user"), &field(b"secret")];
    let bytes = connect(Version::V5, 0xee, 30, &[], &payload);
    let connect_v5 = decoded(&bytes).unwrap();
    let will = connect_v5.will.unwrap();
    assert_eq!((will.topic, will.payload, will.qos, will.retain), ("gone/device", &b"bye"[..], QoS::AtLeastOnce, true));
    assert_eq!((connect_v5.user, connect_v5.password), (Some("user"), Some(&b"secret"[..])));
    assert!(connect_v5.clean_start);
    assert_eq!((connect_v5.client_id, connect_v5.keep_alive_s), ("device", 30));
    for left in 1..payload.len() {
        let cut = connect(Version::V5, 0xee, 30, &[], &payload[..left]);
        assert_eq!(decoded(&cut), Err(ReasonCode::MalformedPacket), "{left} fields");
    }
}

/// [5: 3.1.2-16] [5: 3.1.2-18] [3: 3.1.2-18] [3: 3.1.2-20] [3: 3.1.2-11]
#[test]
fn fields_that_the_flags_exclude_are_malformed() {
    for version in [Version::V311, Version::V5] {
        let bytes = connect(version, 0x00, 0, &[], &[&text("device"), &text("user")]);
        assert_eq!(decoded(&bytes), Err(ReasonCode::MalformedPacket));
    }
}

/// [5: 3.1.2-11] [5: 3.1.2-13] [3: 3.1.2-13] [3: 3.1.2-15] [3: 3.1.2-11]
#[test]
fn will_options_without_a_will_are_malformed() {
    for flags in [0x08, 0x10, 0x18, 0x20] {
        for version in ALL {
            assert_eq!(
                decoded(&connect(version, flags, 0, &[], &[&text("d")])),
                Err(ReasonCode::MalformedPacket),
                "flags {flags:#x} of {version:?}"
            );
        }
    }
}

/// [5: 3.1.2-12] [3: 3.1.2-14]
#[test]
fn will_qos_three_is_malformed() {
    let payload: [&[u8]; 4] = [&text("d"), &[0], &text("t"), &field(b"")];
    assert_eq!(decoded(&connect(Version::V5, 0x1c, 0, &[], &payload)), Err(ReasonCode::MalformedPacket));
    for (flags, qos) in [(0x04, QoS::AtMostOnce), (0x0c, QoS::AtLeastOnce), (0x14, QoS::ExactlyOnce)] {
        assert_eq!(decoded(&connect(Version::V5, flags, 0, &[], &payload)).unwrap().will.unwrap().qos, qos);
    }
}

/// [3: 3.1.2-22]
#[test]
fn a_password_needs_a_user_name_in_3_only() {
    let payload: [&[u8]; 2] = [&text("d"), &field(b"token")];
    assert_eq!(decoded(&connect(Version::V311, 0x40, 0, &[], &payload)), Err(ReasonCode::MalformedPacket));
    assert_eq!(decoded(&connect(Version::V5, 0x40, 0, &[], &payload)).unwrap().password, Some(&b"token"[..]));
}

/// [5: 3.1.3-3] [3: 3.1.3-3] [5: 3.1.3-4] [3: 3.1.3-4] [5: 1.5.4-1] [3: 1.5.3-1]
#[test]
fn the_client_identifier_is_present_and_utf_8() {
    assert_eq!(decoded(&connect(Version::V5, 0, 0, &[], &[])), Err(ReasonCode::MalformedPacket));
    for bytes in [&b"\xff"[..], b"\xc0\x80", b"\xed\xa0\x80", b"a\xf8"] {
        let invalid = connect(Version::V5, 0, 0, &[], &[&field(bytes)]);
        assert_eq!(decoded(&invalid), Err(ReasonCode::MalformedPacket));
    }
}

/// [5: 1.5.4-2] [3: 1.5.3-2] [5: 3.1.3-12] [3: 3.1.3-11] [5: 3.1.3-11] [3: 3.1.3-10]
#[test]
fn texts_contain_no_null_and_are_utf_8() {
    let invalid: [&[u8]; 2] = [b"a\0b", b"\xff"];
    for bytes in invalid {
        let user = connect(Version::V5, 0x80, 0, &[], &[&text("d"), &field(bytes)]);
        assert_eq!(decoded(&user), Err(ReasonCode::MalformedPacket));
        let will = connect(Version::V5, 0x04, 0, &[], &[&text("d"), &[0], &field(bytes), &field(b"")]);
        assert_eq!(decoded(&will), Err(ReasonCode::MalformedPacket));
    }
}

/// [5: 1.5.4-3] [3: 1.5.3-3]
#[test]
fn a_byte_order_mark_is_part_of_the_text() {
    let bytes = connect(Version::V5, 0, 0, &[], &[&field(b"\xef\xbb\xbfdevice")]);
    assert_eq!(decoded(&bytes).unwrap().client_id, "\u{feff}device");
}

/// [5: 3.1.3-5] [3: 3.1.3-5]
#[test]
fn any_client_identifier_of_text_is_possible() {
    let letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for id in [&letters[..1], &letters[..23], letters, "a/b c", "Gerät"] {
        for version in ALL {
            let mut peer = Peer::new(Config::default());
            let seen = peer.send(&connect(version, 2, 0, &[], &[&text(id)]));
            assert_eq!(seen, [Seen::Connect(id.to_owned())]);
        }
    }
}

/// [5: 3.1.3-6] [3: 3.1.3-6] [3: 3.1.3-7] [3: 3.1.3-8]
#[test]
fn an_empty_client_identifier_needs_a_clean_session_in_3() {
    let mut peer = Peer::new(Config::default());
    assert_eq!(peer.send(&connect(Version::V5, 0, 0, &[], &[&text("")])), [Seen::Connect(String::new())]);
    let mut peer = Peer::new(Config::default());
    assert_eq!(peer.send(&connect(Version::V311, 2, 0, &[], &[&text("")])), [Seen::Connect(String::new())]);
    for (version, flags) in [(Version::V311, 0), (Version::V31, 0), (Version::V31, 2)] {
        let (code, sent) = refused(&connect(version, flags, 0, &[], &[&text("")]));
        assert_eq!((code, sent), (ReasonCode::ClientIdentifierNotValid, vec![0x20, 2, 0, 2]));
    }
}

/// [5: 3.1.4-1] [3: 3.1.4-1] [3: 3.2.2-6]
#[test]
fn a_malformed_connect_is_answered_in_5_and_closed_in_3() {
    let long = |version| connect(version, 0, 0, &[], &[&text("device"), b"more"]);
    let (code, sent) = refused(&long(Version::V5));
    assert_eq!(code, ReasonCode::MalformedPacket);
    assert_eq!((sent[0], sent[2], sent[3]), (0x20, 0, 0x81));
    assert_eq!(refused(&long(Version::V311)), (ReasonCode::MalformedPacket, Vec::new()));
    assert_eq!(refused(&packet(0x10, &[&text("MQTT")])), (ReasonCode::MalformedPacket, Vec::new()));
}

/// [5: 2.2.2-1]
#[test]
fn properties_are_allowed_once_and_in_range() {
    let with = |properties: &[u8]| decoded(&connect(Version::V5, 0, 0, properties, &[&text("d")])).map(|_| ());
    assert_eq!(with(&[]), Ok(()));
    assert_eq!(with(&[0x21, 0, 1]), Ok(()));
    // Receive maximum 0, twice; maximum packet size 0; a flag of 2.
    assert_eq!(with(&[0x21, 0, 0]), Err(ReasonCode::ProtocolError));
    assert_eq!(with(&[0x21, 0, 1, 0x21, 0, 1]), Err(ReasonCode::ProtocolError));
    assert_eq!(with(&[0x27, 0, 0, 0, 0]), Err(ReasonCode::ProtocolError));
    assert_eq!(with(&[0x17, 2]), Err(ReasonCode::ProtocolError));
    assert_eq!(with(&[0x19, 2]), Err(ReasonCode::ProtocolError));
    // Authentication data without a method; a property of PUBLISH; an unknown one; a cut one.
    assert_eq!(with(&[0x16, 0, 1, 7]), Err(ReasonCode::ProtocolError));
    assert_eq!(with(&[0x23, 0, 1]), Err(ReasonCode::ProtocolError));
    assert_eq!(with(&[0x04, 0]), Err(ReasonCode::MalformedPacket));
    assert_eq!(with(&[0x21, 0]), Err(ReasonCode::MalformedPacket));
}

/// [5: 1.5.7-1]
#[test]
fn user_properties_are_pairs_of_texts_in_their_order() {
    let properties =
        [&[0x26][..], &text("b"), &text("1"), &[0x26], &text("a"), &text("2"), &[0x26], &text("b"), &text("3")]
            .concat();
    let bytes = connect(Version::V5, 0, 0, &properties, &[&text("d")]);
    let pairs: Vec<_> = decoded(&bytes).unwrap().properties.user().iter().collect();
    assert_eq!(pairs, [("b", "1"), ("a", "2"), ("b", "3")]);
    let invalid = [&[0x26][..], &text("b"), &field(b"\xff")].concat();
    assert_eq!(decoded(&connect(Version::V5, 0, 0, &invalid, &[&text("d")])), Err(ReasonCode::MalformedPacket));
}

#[test]
fn values_of_connect_have_the_defaults_of_the_standard() {
    let bytes = connect(Version::V5, 0, 0, &[], &[&text("d")]);
    let plain = decoded(&bytes).unwrap();
    assert_eq!((plain.session_expiry_s(), plain.receive_maximum(), plain.topic_alias_maximum()), (0, 65_535, 0));
    assert_eq!((plain.maximum_packet_size_bytes(), plain.wants_response_information()), (u32::MAX, false));
    assert!(plain.wants_problem_information());
    for (flags, expiry) in [(0, u32::MAX), (2, 0)] {
        let bytes = connect(Version::V311, flags, 0, &[], &[&text("d")]);
        assert_eq!(decoded(&bytes).unwrap().session_expiry_s(), expiry);
    }
}

/// 3.1 has no reserved flag, and lets the fields of a user be missing at the end (3.1, 3.1).
#[test]
fn the_connect_of_3_1_may_lack_its_last_fields() {
    let bytes = connect(Version::V31, 0xc3, 0, &[], &[&text("device")]);
    let connect_v31 = decoded(&bytes).unwrap();
    assert_eq!((connect_v31.user, connect_v31.password), (None, None));
    let bytes = connect(Version::V31, 0xc2, 0, &[], &[&text("device"), &text("user")]);
    let connect_v31 = decoded(&bytes).unwrap();
    assert_eq!((connect_v31.user, connect_v31.password), (Some("user"), None));
}

#[test]
fn the_will_has_its_properties() {
    let properties =
        [&[0x18, 0, 0, 0, 9, 0x01, 1, 0x02, 0, 0, 0, 60, 0x03][..], &text("t/p"), &[0x26], &text("k"), &text("v")]
            .concat();
    let payload = [&text("d")[..], &[properties.len() as u8], &properties, &text("gone"), &field(b"x")].concat();
    let bytes = connect(Version::V5, 0x04, 0, &[], &[&payload]);
    let will = decoded(&bytes).unwrap().will.unwrap();
    assert_eq!(will.delay_s, 9);
    assert!(will.properties.payload_is_text);
    assert_eq!((will.properties.message_expiry_s, will.properties.content_type), (Some(60), Some("t/p")));
    assert_eq!(will.properties.user.iter().collect::<Vec<_>>(), [("k", "v")]);
}

/// [5: 4.7.3-1] [5: 4.7.0-1] [3: 4.7.1-1]
#[test]
fn the_will_topic_is_a_topic_name() {
    for topic in ["", "a/+", "#"] {
        let bytes = connect(Version::V5, 0x04, 0, &[], &[&text("d"), &[0], &text(topic), &field(b"")]);
        assert_eq!(decoded(&bytes), Err(ReasonCode::MalformedPacket), "{topic:?}");
    }
}
