//! Packets of MQTT as text, for the trace of a connection: one line each, without payloads and
//! secrets.

use std::fmt::Write as _;

use enmasse_mqtt::codec::fixed;

/// The packet types by number (2.1.2).
const NAMES: [&str; 16] = [
    "reserved",
    "CONNECT",
    "CONNACK",
    "PUBLISH",
    "PUBACK",
    "PUBREC",
    "PUBREL",
    "PUBCOMP",
    "SUBSCRIBE",
    "SUBACK",
    "UNSUBSCRIBE",
    "UNSUBACK",
    "PINGREQ",
    "PINGRESP",
    "DISCONNECT",
    "AUTH",
];
const PUBLISH: u8 = 3;

/// The whole packets of `bytes`, and how many bytes follow them.
pub(super) fn describe(bytes: &[u8]) -> String {
    let (mut text, mut rest) = (String::new(), bytes);
    while let Ok(Some((frame, length))) = fixed::split(rest, u32::MAX) {
        let name = NAMES[usize::from(frame.kind())];
        // Writing into a string cannot fail.
        let _ = match topic(&frame) {
            Some(topic) => {
                let (qos, retain) = (frame.first >> 1 & 3, frame.first & 1);
                writeln!(text, "{name} topic={topic:?} qos={qos} retain={retain} bytes={length}")
            }
            None => writeln!(text, "{name} bytes={length}"),
        };
        rest = &rest[length..];
    }
    if !rest.is_empty() {
        let _ = writeln!(text, "the beginning of a packet, bytes={}", rest.len());
    }
    text
}

/// The topic of a PUBLISH (3.3.2.1).
fn topic<'a>(frame: &fixed::Frame<'a>) -> Option<&'a str> {
    let (length, rest) = frame.body.split_first_chunk::<2>().filter(|_| frame.kind() == PUBLISH)?;
    std::str::from_utf8(rest.get(..usize::from(u16::from_be_bytes(*length)))?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_is_one_line_without_its_payload() {
        let publish = [0x33, 9, 0, 3, b'a', b'/', b'b', 0, 7, b'x', b'y'];
        let text = describe(&[&publish[..], &[0xc0, 0], &[0x30]].concat());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            ["PUBLISH topic=\"a/b\" qos=1 retain=1 bytes=11", "PINGREQ bytes=2", "the beginning of a packet, bytes=1"]
        );
    }
}
