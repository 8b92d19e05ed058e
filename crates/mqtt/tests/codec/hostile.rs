//! Packets that no decoder may accept.

use enmasse_mqtt::codec::fixed::{REMAINING_LENGTH_MAX, split};
use enmasse_mqtt::codec::{ReasonCode, Version, decode};

fn code(bytes: &[u8], version: Version) -> Option<ReasonCode> {
    let (frame, _) = split(bytes, u32::MAX).unwrap().unwrap();
    decode(&frame, version).err().map(|error| error.code)
}

#[test]
fn the_remaining_length_has_four_bytes_at_most() {
    assert_eq!(split(&[0x30, 0xff, 0xff, 0xff, 0x7f], u32::MAX), Ok(None));
    assert_eq!(REMAINING_LENGTH_MAX, 0x0fff_ffff);
    for bytes in [&[0x30, 0x80, 0x80, 0x80, 0x80][..], &[0x30, 0xff, 0xff, 0xff, 0xff, 0x01], &[0x30, 0x81, 0x00]] {
        assert_eq!(split(bytes, u32::MAX).unwrap_err().code, ReasonCode::MalformedPacket);
    }
    for bytes in [&[][..], &[0x30], &[0x30, 0x80], &[0x30, 0x80, 0x80, 0x80]] {
        assert_eq!(split(bytes, u32::MAX), Ok(None));
    }
}

#[test]
fn a_size_is_judged_before_its_bytes_are_there() {
    assert_eq!(split(&[0x30, 8], 10), Ok(None));
    assert_eq!(split(&[0x30, 9], 10).unwrap_err().code, ReasonCode::PacketTooLarge);
    assert_eq!(split(&[0x30, 0xff, 0xff, 0xff, 0x7f], 1_000_000).unwrap_err().code, ReasonCode::PacketTooLarge);
    let whole = [0x30, 3, 0, 1, b'a'];
    assert!(split(&whole, 5).unwrap().is_some());
    assert_eq!(split(&whole, 4).unwrap_err().code, ReasonCode::PacketTooLarge);
}

#[test]
fn bytes_behind_the_fields_are_malformed() {
    let malformed = Some(ReasonCode::MalformedPacket);
    assert_eq!(code(&[0x40, 3, 0, 1, 0], Version::V311), malformed);
    assert_eq!(code(&[0x40, 5, 0, 1, 0, 0, 7], Version::V5), malformed);
    assert_eq!(code(&[0x20, 3, 0, 0, 0], Version::V311), malformed);
    assert_eq!(code(&[0x20, 4, 0, 0, 0, 9], Version::V5), malformed);
    assert_eq!(code(&[0xd0, 1, 0], Version::V5), malformed);
}

#[test]
fn codes_of_other_packets_are_errors() {
    for (bytes, allowed) in [
        (&[0x40, 3, 0, 1, 0x97][..], true),
        (&[0x40, 3, 0, 1, 0x92], false),
        (&[0x62, 3, 0, 1, 0x92], true),
        (&[0x62, 3, 0, 1, 0x97], false),
        (&[0x70, 3, 0, 1, 0x04], false),
        (&[0x20, 3, 0, 0x8c, 0], true),
        (&[0x20, 3, 0, 0x03, 0], false),
        (&[0x90, 4, 0, 1, 0, 0x03], false),
        (&[0xe0, 1, 0x8e], true),
        (&[0xe0, 1, 0x92], false),
    ] {
        assert_eq!(code(bytes, Version::V5), (!allowed).then_some(ReasonCode::ProtocolError), "{bytes:x?}");
    }
}

#[test]
fn packet_types_of_other_versions_are_errors() {
    assert_eq!(code(&[0xf0, 0], Version::V311), Some(ReasonCode::ProtocolError));
    assert_eq!(code(&[0x00, 0], Version::V5), Some(ReasonCode::MalformedPacket));
}

#[test]
fn a_zero_identifier_is_an_error_everywhere() {
    for bytes in [&[0x40, 2, 0, 0][..], &[0x50, 2, 0, 0], &[0x62, 2, 0, 0], &[0x70, 2, 0, 0], &[0x90, 3, 0, 0, 0]] {
        assert_eq!(code(bytes, Version::V311), Some(ReasonCode::ProtocolError));
    }
}
