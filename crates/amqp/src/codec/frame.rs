//! Frames and protocol headers (part 2, 2.2 and 2.3): where one ends, and what kind it is.

use super::error::DecodeError;
use crate::types::condition;

/// Bytes of a frame header without an extended header.
pub const HEADER_SIZE: usize = 8;
/// Every peer takes frames of this size; a SASL frame is never larger (5.3.1).
pub const MIN_MAX_FRAME_SIZE: u32 = 512;

/// Type byte of the frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// 0x00
    Amqp,
    /// 0x01
    Sasl,
}

/// One frame; its extended header is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// type
    pub kind: FrameKind,
    /// channel; 0 and without meaning for SASL frames
    pub channel: u16,
    /// performative and payload; empty in a heartbeat
    pub body: &'a [u8],
}

/// Splits off the frame at the front of `input`. Returns it with its size in bytes, or `None` while
/// it is incomplete. `max_frame_size` is in bytes, header included.
///
/// # Errors
/// `amqp:connection:framing-error`, as soon as the bytes that are there show it: a size below
/// [`HEADER_SIZE`] or above `max_frame_size`, a data offset below 2 or beyond the frame, an unknown
/// type.
#[inline]
pub fn split(input: &[u8], max_frame_size: u32) -> Result<Option<(Frame<'_>, usize)>, DecodeError> {
    let Some(header) = input.first_chunk::<HEADER_SIZE>() else {
        return check_partial(input, max_frame_size).map(|()| None);
    };
    let [s0, s1, s2, s3, doff, kind, c0, c1] = *header;
    let size = u32::from_be_bytes([s0, s1, s2, s3]);
    let start = usize::from(doff) * 4;
    let bad = size > max_frame_size || start < HEADER_SIZE || start > size as usize || kind > 1;
    if bad {
        return Err(framing_error(size, Some(doff), Some(kind), max_frame_size));
    }
    let Some(frame) = input.get(..size as usize) else {
        return Ok(None);
    };
    let kind = if kind == 0 { FrameKind::Amqp } else { FrameKind::Sasl };
    let frame = Frame { kind, channel: u16::from_be_bytes([c0, c1]), body: &frame[start..] };
    Ok(Some((frame, size as usize)))
}

/// Checks even an incomplete header, so that a peer of another protocol is refused at once.
#[cold]
fn check_partial(input: &[u8], max_frame_size: u32) -> Result<(), DecodeError> {
    let Some(size) = input.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes)) else {
        return Ok(());
    };
    let doff = input.get(4).copied();
    let kind = input.get(5).copied();
    let bad_size = (size as usize) < HEADER_SIZE || size > max_frame_size;
    let bad_doff = doff.is_some_and(|doff| doff < 2 || usize::from(doff) * 4 > size as usize);
    if bad_size || bad_doff || kind.is_some_and(|kind| kind > 1) {
        return Err(framing_error(size, doff, kind, max_frame_size));
    }
    Ok(())
}

#[cold]
fn framing_error(size: u32, doff: Option<u8>, kind: Option<u8>, max_frame_size: u32) -> DecodeError {
    let doff = doff.unwrap_or(2);
    let description = if (size as usize) < HEADER_SIZE {
        format!("frame header: size {size} is below {HEADER_SIZE}")
    } else if size > max_frame_size {
        format!("frame header: size {size} is above the max-frame-size {max_frame_size}")
    } else if doff < 2 {
        format!("frame header: data offset {doff} is below 2")
    } else if usize::from(doff) * 4 > size as usize {
        format!("frame header: data offset {doff} is beyond the frame of {size} bytes")
    } else {
        format!("frame header: type {} is neither 0 (AMQP) nor 1 (SASL)", kind.unwrap_or_default())
    };
    DecodeError::new(condition::FRAMING_ERROR, description)
}

/// The protocol of a protocol header (2.2, 5.2, 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// protocol id 0
    Amqp,
    /// protocol id 2
    Tls,
    /// protocol id 3
    Sasl,
}

/// The protocol header of version 1.0.0.
#[must_use]
pub const fn protocol_header(protocol: Protocol) -> [u8; 8] {
    let id = match protocol {
        Protocol::Amqp => 0,
        Protocol::Tls => 2,
        Protocol::Sasl => 3,
    };
    [b'A', b'M', b'Q', b'P', id, 1, 0, 0]
}

/// Reads the protocol header at the front of `input` (8 bytes), or `None` while it is incomplete.
///
/// # Errors
/// `amqp:connection:framing-error` as soon as the bytes cannot be the header of a protocol of
/// version 1.0.0. 2.2 requires us to answer with our own header and close.
pub fn decode_protocol_header(input: &[u8]) -> Result<Option<Protocol>, DecodeError> {
    let protocols = [Protocol::Amqp, Protocol::Tls, Protocol::Sasl];
    let seen = &input[..input.len().min(HEADER_SIZE)];
    let Some(protocol) = protocols.into_iter().find(|protocol| protocol_header(*protocol).starts_with(seen)) else {
        let seen: String = seen.escape_ascii().to_string();
        return Err(DecodeError::new(
            condition::FRAMING_ERROR,
            format!("protocol header: \"{seen}\" is not AMQP 1.0.0 (protocol id 0, 2 or 3)"),
        ));
    };
    Ok((seen.len() == HEADER_SIZE).then_some(protocol))
}

/// Appends a frame: the header, then what `body` writes; the size is filled in at the end.
pub(super) fn encode(out: &mut Vec<u8>, kind: FrameKind, channel: u16, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    let [c0, c1] = channel.to_be_bytes();
    out.extend_from_slice(&[0, 0, 0, 0, 2, kind as u8, c0, c1]);
    body(out);
    let size = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

/// Appends an empty AMQP frame (2.4.5).
pub fn encode_heartbeat(out: &mut Vec<u8>) {
    encode(out, FrameKind::Amqp, 0, |_| {});
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 12] = [0, 0, 0, 12, 2, 0, 0, 7, 1, 2, 3, 4];

    #[test]
    fn frame_is_returned_only_when_complete() {
        let mut input = FRAME.to_vec();
        input.extend_from_slice(&[0, 0, 0, 8, 2, 1, 0, 0]);
        let (frame, consumed) = split(&input, 512).unwrap().unwrap();
        assert_eq!(frame, Frame { kind: FrameKind::Amqp, channel: 7, body: &[1, 2, 3, 4] });
        let (frame, more) = split(&input[consumed..], 512).unwrap().unwrap();
        assert_eq!(frame, Frame { kind: FrameKind::Sasl, channel: 0, body: &[] });
        assert_eq!(consumed + more, input.len());
        for end in 0..FRAME.len() {
            assert_eq!(split(&FRAME[..end], 512), Ok(None), "{end} bytes");
        }
    }

    #[test]
    fn an_extended_header_is_skipped() {
        let input = [0, 0, 0, 14, 3, 0, 0, 1, 9, 9, 9, 9, 5, 6];
        assert_eq!(split(&input, 512).unwrap().unwrap().0.body, &[5, 6]);
        let only_header = [0, 0, 0, 12, 3, 0, 0, 1, 9, 9, 9, 9];
        assert_eq!(split(&only_header, 512).unwrap().unwrap().0.body, &[] as &[u8]);
    }

    #[test]
    fn bad_frame_header_is_refused_at_the_first_invalid_byte() {
        let cases: [(&[u8], &str); 6] = [
            (&[0, 0, 0, 7], "size 7 is below 8"),
            (&[0, 0, 2, 1], "size 513 is above the max-frame-size 512"),
            (&[0xff, 0xff, 0xff, 0xff], "size 4294967295 is above the max-frame-size 512"),
            (&[0, 0, 0, 8, 1], "data offset 1 is below 2"),
            (&[0, 0, 0, 8, 3], "data offset 3 is beyond the frame of 8 bytes"),
            (&[0, 0, 0, 8, 2, 2], "type 2 is neither 0 (AMQP) nor 1 (SASL)"),
        ];
        for (bytes, text) in cases {
            assert_eq!(split(&bytes[..bytes.len() - 1], 512), Ok(None), "one byte less than {bytes:?}");
            for length in bytes.len()..=12 {
                let mut input = bytes.to_vec();
                input.resize(length, if length > 4 && bytes.len() == 4 { 2 } else { 0 });
                let error = split(&input, 512).unwrap_err();
                assert_eq!(error.condition, condition::FRAMING_ERROR);
                assert!(error.description.contains(text), "{input:?}: {error}");
            }
        }
        assert!(split(&[0, 0, 2, 0, 2, 0, 0, 0], 512).unwrap().is_none());
    }

    #[test]
    fn protocol_header_is_decoded_once_complete_and_refused_when_invalid() {
        for protocol in [Protocol::Amqp, Protocol::Tls, Protocol::Sasl] {
            let header = protocol_header(protocol);
            for end in 0..8 {
                assert_eq!(decode_protocol_header(&header[..end]), Ok(None));
            }
            let mut input = header.to_vec();
            input.push(0);
            assert_eq!(decode_protocol_header(&input), Ok(Some(protocol)));
        }
        for bad in [&b"GET "[..], b"AMQP\x01", b"AMQP\x00\x00\x09\x01", b"AMQP\x03\x01\x00\x01", b"AN"] {
            let error = decode_protocol_header(bad).unwrap_err();
            assert_eq!(error.condition, condition::FRAMING_ERROR);
        }
    }

    #[test]
    fn a_heartbeat_is_an_empty_frame() {
        let mut out = Vec::new();
        encode_heartbeat(&mut out);
        assert_eq!(out, [0, 0, 0, 8, 2, 0, 0, 0]);
    }
}
