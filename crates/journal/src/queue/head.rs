//! The properties of a message that the queue needs, and the part of them that is logged.

use super::entry::{Mark, TIME_MAX};

/// The properties of a message as its producer sent it. The router computes the digests. They are
/// keyed, so that clients cannot provoke collisions, and stable across restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// bytes of the encoded message
    pub size_bytes: u32,
    /// `header.priority`, 4 if there is none; above 9 counts as 9
    pub priority: Priority,
    /// `header.durable`
    pub durable: bool,
    /// `header.ttl`
    pub ttl_ms: Option<u64>,
    /// `properties.absolute-expiry-time`, milliseconds since 1970
    pub absolute_expiry: Option<u64>,
    /// `x-opt-delivery-time`, or now and `x-opt-delivery-delay`
    pub due: Option<u64>,
    /// `header.delivery-count`
    pub delivery_count: u16,
    /// `properties.group-id` and `group-sequence`
    pub group: Option<Group>,
    /// digest of the key under which a last-value queue keeps it
    pub key: Option<u128>,
    /// digest of `properties.message-id`
    pub message_id: Option<u128>,
    /// numbered producer: digest of its name, `x-opt-producer-sequence`
    pub producer: Option<(u128, u64)>,
}

impl Head {
    /// Whether only size, priority and durability matter.
    #[must_use]
    #[inline]
    pub const fn is_plain(&self) -> bool {
        let is_timeless = self.ttl_ms.is_none() && self.absolute_expiry.is_none() && self.due.is_none();
        is_timeless && self.delivery_count == 0 && self.group.is_none() && self.key.is_none()
    }
}

/// One of ten priorities; messages of a higher priority are delivered first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(u8);

impl Priority {
    /// number of priorities
    pub const COUNT: usize = 10;

    /// A value above 9 counts as 9, which the standard allows (part 3, 3.2.1).
    #[must_use]
    pub const fn new(priority: u8) -> Self {
        Self(if priority > 9 { 9 } else { priority })
    }

    /// 0 to 9
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self(4)
    }
}

/// The group of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// digest of `group-id`; a collision only makes two groups share their consumer
    pub digest: u64,
    /// `group-sequence`; [`Group::CLOSE`] ends the group's binding to its consumer
    pub sequence: u32,
}

impl Group {
    /// -1 as JMS writes it
    pub const CLOSE: u32 = u32::MAX;
}

/// The part of a message's state that a restart needs: logged beside its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// bytes of the encoded message
    pub size_bytes: u32,
    /// 0 to 9
    pub priority: Priority,
    /// `header.durable`
    pub durable: bool,
    /// milliseconds since 1970
    pub enqueued: u64,
    /// milliseconds since 1970, after clamping
    pub expires: Option<u64>,
    /// milliseconds since 1970
    pub due: Option<u64>,
    /// failed deliveries
    pub failures: u16,
    /// its group
    pub group: Option<Group>,
    /// last-value key
    pub key: Option<u128>,
}

/// Bytes of an encoded [`Record`].
///
/// ```text
///  0     1     2         4           8              14             20          26    28
///  +-----+-----+---------+-----------+--------------+--------------+-----------+-----+
///  |frmt | 0   | marks   | size      | enqueued     | expires      | due       | 0   |
///  +-----+-----+---------+-----------+--------------+--------------+-----------+-----+
///  28         32         40                  56
///  | group seq | group    | last-value key   |        all numbers little-endian
/// ```
///
/// `frmt` is the format version. `marks`: priority in 4 bits, durable, has group, has key. Failures
/// are in bytes 26 and 27. A time of 0 means none.
pub const RECORD_BYTES: usize = 56;

const FORMAT: u8 = 1;
const DURABLE: u16 = 1 << 4;
const GROUP: u16 = 1 << 5;
const KEY: u16 = 1 << 6;

impl Record {
    /// Length of the encoded record without its trailing zeros, which are not written.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        if self.key.is_some() {
            RECORD_BYTES
        } else if self.group.is_some() {
            40
        } else {
            28
        }
    }

    /// Encodes the record for the log.
    #[must_use]
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let marks = u16::from(self.priority.get())
            | if self.durable { DURABLE } else { 0 }
            | if self.group.is_some() { GROUP } else { 0 }
            | if self.key.is_some() { KEY } else { 0 };
        let group = self.group.unwrap_or_default();
        bytes[0] = FORMAT;
        bytes[2..4].copy_from_slice(&marks.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.size_bytes.to_le_bytes());
        put_time(&mut bytes[8..14], self.enqueued);
        put_time(&mut bytes[14..20], self.expires.map_or(0, |at| at.max(1)));
        put_time(&mut bytes[20..26], self.due.map_or(0, |at| at.max(1)));
        bytes[26..28].copy_from_slice(&self.failures.to_le_bytes());
        bytes[28..32].copy_from_slice(&group.sequence.to_le_bytes());
        bytes[32..40].copy_from_slice(&group.digest.to_le_bytes());
        bytes[40..56].copy_from_slice(&self.key.unwrap_or(0).to_le_bytes());
        bytes
    }

    /// Decodes a record, with or without its trailing zeros; `None` for an unknown format version.
    #[must_use]
    pub fn decode(written: &[u8]) -> Option<Self> {
        let mut bytes = [0; RECORD_BYTES];
        bytes.get_mut(..written.len())?.copy_from_slice(written);
        let marks = u16::from_le_bytes([bytes[2], bytes[3]]);
        if bytes[0] != FORMAT || marks & 15 > 9 {
            return None;
        }
        let group = Group { sequence: number(&bytes[28..32]) as u32, digest: number(&bytes[32..40]) as u64 };
        let time = |at: std::ops::Range<usize>| Some(number(&bytes[at]) as u64).filter(|at| *at != 0);
        Some(Self {
            size_bytes: number(&bytes[4..8]) as u32,
            priority: Priority::new((marks & 15) as u8),
            durable: marks & DURABLE != 0,
            enqueued: number(&bytes[8..14]) as u64,
            expires: time(14..20),
            due: time(20..26),
            failures: number(&bytes[26..28]) as u16,
            group: (marks & GROUP != 0).then_some(group),
            key: (marks & KEY != 0).then(|| number(&bytes[40..56])),
        })
    }

    #[inline]
    pub(super) fn entry(&self) -> super::entry::Entry {
        let mut entry =
            super::entry::Entry::new(self.size_bytes, self.priority.get(), self.enqueued, self.expires, self.failures);
        entry.set(Mark::Durable, self.durable);
        entry.set(Mark::ClosesGroup, self.group.is_some_and(|group| group.sequence == Group::CLOSE));
        entry
    }
}

fn put_time(bytes: &mut [u8], at: u64) {
    bytes.copy_from_slice(&at.min(TIME_MAX).to_le_bytes()[..6]);
}

/// At most 16 bytes.
fn number(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_record_round_trips() {
        let plain = Record { size_bytes: u32::MAX, enqueued: 1_760_000_000_000, ..Record::default() };
        let full = Record {
            size_bytes: 1,
            priority: Priority::new(200),
            durable: true,
            enqueued: TIME_MAX,
            expires: Some(7),
            due: Some(TIME_MAX),
            failures: u16::MAX,
            group: Some(Group { digest: u64::MAX, sequence: 5 }),
            key: Some(u128::MAX - 1),
        };
        for record in [plain, full, Record { group: None, ..full }, Record { key: None, ..full }] {
            let encoded = record.encode();
            assert_eq!(Record::decode(&encoded), Some(record));
            assert_eq!(Record::decode(&encoded[..record.encoded_len()]), Some(record));
        }
    }

    #[test]
    fn queue_record_of_unknown_form_is_refused() {
        let mut bytes = Record::default().encode();
        bytes[0] = 2;
        assert_eq!(Record::decode(&bytes), None);
        bytes[0] = FORMAT;
        bytes[2] = 10;
        assert_eq!(Record::decode(&bytes), None);
        assert_eq!(Record::decode(&[FORMAT; RECORD_BYTES + 1]), None);
        assert_eq!(Record::decode(&[]), None);
    }
}
