//! The format of a block in the log: consecutive messages, each as it will be sent.
//!
//! ```text
//! body, for each message          head of the record
//!  0        4            12        0      1       9       13       19        25
//!  +--------+------------+----     +------+-------+-------+--------+---------+
//!  | marks, | enqueued   | ..      | frmt | first | count | oldest | newest  |
//!  | length | ms         |         +------+-------+-------+--------+---------+
//!  +--------+------------+----
//! ```
//!
//! `frmt` is the format version. The upper bit of the length marks a name before the message: two
//! bytes of length, then the name to which it was sent, if that is not the address's own. Numbers
//! are little-endian, times milliseconds since 1970. Concatenated bodies form a larger block.

const NAMED: u32 = 1 << 31;
const PREFIX_BYTES: usize = 12;
const FORMAT: u8 = 1;
const TIME_MAX: u64 = (1 << 48) - 1;

/// Bytes of an encoded [`BlockHead`].
pub const BLOCK_HEAD_BYTES: usize = 25;

/// The index entry of a block, logged with it, so that a restart reads no bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// offset of its first message
    pub first: u64,
    /// messages in it, at least one
    pub count: u32,
    /// when its first message was received
    pub first_ms: u64,
    /// when its last message was received
    pub last_ms: u64,
}

impl BlockHead {
    /// Encodes it for the log.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_HEAD_BYTES] {
        let mut bytes = [FORMAT; BLOCK_HEAD_BYTES];
        bytes[1..9].copy_from_slice(&self.first.to_le_bytes());
        bytes[9..13].copy_from_slice(&self.count.to_le_bytes());
        bytes[13..19].copy_from_slice(&self.first_ms.min(TIME_MAX).to_le_bytes()[..6]);
        bytes[19..25].copy_from_slice(&self.last_ms.min(TIME_MAX).to_le_bytes()[..6]);
        bytes
    }

    /// Decodes it; `None` for an unknown format version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BLOCK_HEAD_BYTES] = bytes.try_into().ok()?;
        let number =
            |at: std::ops::Range<usize>| bytes[at].iter().rev().fold(0, |n: u64, byte| n << 8 | u64::from(*byte));
        let head = Self {
            first: number(1..9),
            count: number(9..13) as u32,
            first_ms: number(13..19),
            last_ms: number(19..25),
        };
        (bytes[0] == FORMAT && head.count > 0).then_some(head)
    }
}

/// One message of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// when it was received
    pub enqueued_ms: u64,
    /// the name to which it was sent, if that is not the address's own
    pub name: Option<&'a str>,
    /// the encoded message, as it will be sent
    pub message: &'a [u8],
}

/// The message at byte `at` of a block's body, and the offset of the next one. `None` at the end or
/// at an invalid layout.
#[inline]
#[must_use]
pub fn entry(body: &[u8], at: usize) -> Option<(Entry<'_>, usize)> {
    let rest = body.get(at..)?;
    let (prefix, rest) = rest.split_first_chunk::<PREFIX_BYTES>()?;
    let [l0, l1, l2, l3, t @ ..] = *prefix;
    let length = u32::from_le_bytes([l0, l1, l2, l3]);
    let enqueued_ms = u64::from_le_bytes(t);
    let bytes = (length & !NAMED) as usize;
    if length & NAMED != 0 {
        return named(rest, bytes, enqueued_ms, at);
    }
    let message = rest.get(..bytes)?;
    Some((Entry { enqueued_ms, name: None, message }, at + PREFIX_BYTES + bytes))
}

#[cold]
fn named(rest: &[u8], bytes: usize, enqueued_ms: u64, at: usize) -> Option<(Entry<'_>, usize)> {
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (name, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
    let message = rest.get(..bytes)?;
    let end = at + PREFIX_BYTES + 2 + name.len() + bytes;
    Some((Entry { enqueued_ms, name: Some(str::from_utf8(name).ok()?), message }, end))
}

/// Begins a message; its bytes follow, and then [`end`]. A name is cut to 65,535 bytes; names of
/// addresses have at most 1,024.
pub(super) fn begin(out: &mut Vec<u8>, enqueued_ms: u64, name: Option<&str>) {
    let marks = if name.is_some() { NAMED } else { 0 };
    out.extend_from_slice(&marks.to_le_bytes());
    out.extend_from_slice(&enqueued_ms.to_le_bytes());
    if let Some(name) = name {
        let name = &name.as_bytes()[..name.len().min(u16::MAX.into())];
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(name);
    }
}

/// Ends the message of `bytes` bytes that was begun at `start`.
pub(super) fn end(out: &mut [u8], start: usize, bytes: usize) {
    let marks = u32::from_le_bytes([out[start], out[start + 1], out[start + 2], out[start + 3]]);
    out[start..start + 4].copy_from_slice(&(marks | bytes as u32).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(out: &mut Vec<u8>, at_ms: u64, name: Option<&str>, message: &[u8]) {
        let start = out.len();
        begin(out, at_ms, name);
        out.extend_from_slice(message);
        end(out, start, message.len());
    }

    #[test]
    fn block_messages_round_trip() {
        let mut body = Vec::new();
        let all = [(7, None, &b"one"[..]), (8, Some("a/b"), b""), (1 << 47, None, b"three")];
        for (at_ms, name, message) in all {
            put(&mut body, at_ms, name, message);
        }
        let mut at = 0;
        for (enqueued_ms, name, message) in all {
            let (found, next) = entry(&body, at).expect("one more");
            assert_eq!(found, Entry { enqueued_ms, name, message });
            at = next;
        }
        assert_eq!((at, entry(&body, at)), (body.len(), None));
        for cut in 0..body.len() {
            let mut at = 0;
            while let Some((_, next)) = entry(&body[..cut], at) {
                at = next;
            }
            assert!(at <= cut);
        }
    }

    #[test]
    fn block_heads_round_trip() {
        let head = BlockHead { first: u64::MAX - 5, count: 5, first_ms: 1_760_000_000_000, last_ms: TIME_MAX };
        assert_eq!(BlockHead::decode(&head.encode()), Some(head));
        assert_eq!(BlockHead::decode(&BlockHead { count: 0, ..head }.encode()), None);
        assert_eq!(BlockHead::decode(&head.encode()[1..]), None);
        let mut unknown = head.encode();
        unknown[0] = 2;
        assert_eq!(BlockHead::decode(&unknown), None);
    }
}
