//! Files of a spool: messages taken from a queue, or their identities. Pure: bytes in, bytes out.
//!
//! A file is a header, records, and a checksum of both, all numbers little-endian:
//!
//! | bytes | |
//! |---|---|
//! | 8 | `enmspool` |
//! | 2 | version of the format, 1 |
//! | 2 | kind of records: 1 messages as received, 2 identities of messages |
//! | 4 | number of records |
//! | 8, 8 | offsets of the first message and after the last |
//! | 8 | bytes of all records |
//! | 4 + n each | a record: its length and its bytes |
//! | 4 | CRC-32C of all preceding bytes |

use std::collections::{HashSet, VecDeque};
use std::hash::Hasher as _;
use std::ops::Range;

use enmasse_amqp::codec::scan::{Elements, Scalar, head, sections};
use siphasher::sip128::{Hasher128 as _, SipHasher24};

use crate::ErrorKind;
use crate::error::Error;

const MAGIC: &[u8; 8] = b"enmspool";
const VERSION: u16 = 1;
const HEADER: usize = 40;
const CHECKSUM: usize = 4;
/// Codes of the sections that no server changes (3.2): properties to body.
const BARE: Range<u64> = 0x73..0x78;

/// The identity of a message: a digest of its bare message (3.2), which has a message-id.
pub type Id = [u8; 16];

/// The identity of an encoded message under a key; `None`: it has no message-id, or is no message.
#[must_use]
pub fn identity(message: &[u8], key: &[u8; 16]) -> Option<Id> {
    let mut properties = Elements::of_list(head(message).ok()?.properties?).ok()?;
    if properties.left() == 0 || properties.scalar().ok()? == Scalar::Null {
        return None;
    }
    let mut hasher = SipHasher24::new_with_key(key);
    for section in sections(message) {
        let section = section.ok()?;
        if BARE.contains(&section.code) {
            hasher.write(&message[section.range]);
        }
    }
    Some(hasher.finish128().as_bytes())
}

/// Whether the server reports an earlier delivery of the message, to any receiver.
#[must_use]
pub fn was_delivered_before(message: &[u8]) -> bool {
    let header = head(message).ok().and_then(|head| Elements::of_list(head.header?).ok());
    let Some(mut fields) = header else { return false };
    let mut field = |skipped: usize| {
        (0..skipped).try_for_each(|_| fields.skip()).ok()?;
        fields.scalar().ok()
    };
    // first-acquirer, delivery-count (3.2.1)
    let (first, count) = (field(3), field(0));
    first == Some(Scalar::Bool(false)) || matches!(count, Some(Scalar::Unsigned(1..)))
}

/// The kind of records in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// encoded messages, one for each offset
    Messages,
    /// identities of some of the removed messages
    Ids,
}

/// A file under construction.
#[derive(Debug)]
pub struct Packing {
    bytes: Vec<u8>,
    count: u32,
}

impl Default for Packing {
    fn default() -> Self {
        Self { bytes: vec![0; HEADER], count: 0 }
    }
}

impl Packing {
    /// Records so far.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Appends a record of less than 4 GiB.
    pub fn push(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(record);
        self.count += 1;
    }

    /// The file for messages `first..next`.
    #[must_use]
    pub fn finish(self, kind: Kind, offsets: Range<u64>) -> Vec<u8> {
        let Self { mut bytes, count } = self;
        let size = (bytes.len() - HEADER) as u64;
        let kind: u16 = if kind == Kind::Messages { 1 } else { 2 };
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&kind.to_le_bytes());
        header.extend_from_slice(&count.to_le_bytes());
        header.extend_from_slice(&offsets.start.to_le_bytes());
        header.extend_from_slice(&offsets.end.to_le_bytes());
        header.extend_from_slice(&size.to_le_bytes());
        bytes[..HEADER].copy_from_slice(&header);
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// A whole file, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// the kind of its records
    pub kind: Kind,
    /// offsets of its messages
    pub offsets: Range<u64>,
    /// its records
    pub count: u32,
}

impl Packed {
    /// Checks a file.
    ///
    /// # Errors
    /// `Conflict`: it is truncated or damaged, not a spool file, or of a newer version.
    pub fn open(bytes: &[u8]) -> Result<Self, Error> {
        let unreadable = |what: &str| Error { kind: ErrorKind::Conflict, message: what.to_owned() };
        let field = |at: usize, size: usize| {
            let mut number = [0; 8];
            number[..size].copy_from_slice(&bytes[at..at + size]);
            u64::from_le_bytes(number)
        };
        if bytes.len() < HEADER + CHECKSUM {
            return Err(unreadable("the file is truncated"));
        }
        if &bytes[..8] != MAGIC {
            return Err(unreadable("the file is not a spool file"));
        }
        if field(8, 2) != u64::from(VERSION) {
            return Err(unreadable("the file is of another version of the format"));
        }
        let end = bytes.len() - CHECKSUM;
        if field(32, 8) != (end - HEADER) as u64 || field(end, 4) != u64::from(crc32c::crc32c(&bytes[..end])) {
            return Err(unreadable("the file is damaged: its checksum is wrong"));
        }
        let kind = if field(10, 2) == 1 { Kind::Messages } else { Kind::Ids };
        Ok(Self { kind, offsets: field(16, 8)..field(24, 8), count: field(12, 4) as u32 })
    }

    /// The records of the same file.
    #[must_use]
    pub fn records<'a>(&self, bytes: &'a [u8]) -> Records<'a> {
        Records { rest: bytes.get(HEADER..bytes.len().saturating_sub(CHECKSUM)).unwrap_or_default() }
    }
}

/// The records of a file, in their order.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk::<4>()?;
        let (record, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.rest = rest;
        Some(record)
    }
}

/// Identities of recently pulled messages. The owner bounds it by `keep`.
#[derive(Debug, Default)]
pub struct RecentIds {
    order: VecDeque<Id>,
    set: HashSet<Id>,
}

impl RecentIds {
    /// Adds an identity as the newest, unless it is present.
    pub fn add(&mut self, id: Id) {
        if self.set.insert(id) {
            self.order.push_back(id);
        }
    }

    /// Whether it contains an identity.
    #[must_use]
    pub fn has(&self, id: &Id) -> bool {
        self.set.contains(id)
    }

    /// The number of identities.
    #[must_use]
    pub fn count(&self) -> usize {
        self.order.len()
    }

    /// Removes the oldest identities beyond `count`.
    pub fn keep(&mut self, count: usize) {
        while self.order.len() > count
            && let Some(id) = self.order.pop_front()
        {
            self.set.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests;
