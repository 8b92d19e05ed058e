//! A second copy of the facts that one damaged record must not destroy: the queues, and the
//! messages of each full segment. It lies in a file of its own, number 0, which no segment has.
//!
//! ```text
//!  0  magic "EnMasCat", u32 version
//! 12  entries: u32 CRC-32C of the rest, u32 bytes, then
//!       1  queue, uid (16 bytes), name                       declared
//!       2  segment, end, queues: count, each with ranges     full: these messages lie in it
//!       3  segment                                           let go on purpose
//! ```
//!
//! Recovery never needs it. With it a lost declaration is found again, and a segment that is
//! missing, short or damaged is known by the messages it had. A release that does not know the file
//! takes it for an empty segment and removes it; without it nothing is checked, and it is
//! rewritten.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;

use super::batch::WriteBatch;
use super::disk::{Disk, Fault};
use super::frame::Salt;
use super::owner::Log;
use super::record::{Kind, Line, Record, SeqRange};
use super::recover::{Recovered, lines};
use super::scan::Known as Extent;
use super::wire::{Take, put_varint, u32_at};

/// The number of the catalog's file.
pub(super) const CATALOG: u32 = 0;
const MAGIC: &[u8; 8] = b"EnMasCat";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 12;
const ENTRY_BYTES: usize = 8;
/// Room for new entries in a file that is rewritten, at least.
const ROOM_BYTES: usize = 64 << 10;

const QUEUE: u8 = 1;
const FULL: u8 = 2;
const GONE: u8 = 3;

/// Numbers of one queue.
pub(super) type Ranges = BTreeMap<u64, u64>;

/// A full segment as the catalog knows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Full {
    /// where its records ended
    pub(super) end: u32,
    /// its entry
    payload: Vec<u8>,
}

impl Full {
    /// The contents of a segment with these lines.
    pub(super) fn of(segment: u32, end: u32, lines: &[u8]) -> Self {
        let mut messages: BTreeMap<u32, Vec<SeqRange>> = BTreeMap::new();
        let mut take = Take::new(lines);
        while let Some(line) = Line::take(&mut take) {
            let Line::Frame { kind, meta, .. } = line else { continue };
            if kind != Kind::Message as u8 {
                continue;
            }
            let Some(Record::Message(targets)) = Record::decode(kind, meta) else { continue };
            for target in targets {
                let ranges = messages.entry(target.queue).or_default();
                match ranges.last_mut() {
                    Some(range) if range.last.checked_add(1) == Some(target.seq) => range.last = target.seq,
                    _ => ranges.push(SeqRange { first: target.seq, last: target.seq }),
                }
            }
        }
        let mut payload = vec![FULL];
        put_varint(&mut payload, segment.into());
        put_varint(&mut payload, end.into());
        put_varint(&mut payload, messages.len() as u64);
        for (queue, ranges) in &messages {
            put_varint(&mut payload, (*queue).into());
            put_varint(&mut payload, ranges.len() as u64);
            for range in ranges {
                put_varint(&mut payload, range.first);
                put_varint(&mut payload, range.last - range.first);
            }
        }
        Self { end, payload }
    }

    /// Its messages, queue by queue.
    pub(super) fn messages(&self) -> BTreeMap<u32, Ranges> {
        let mut messages = BTreeMap::new();
        let mut take = Take::new(&self.payload);
        let mut read = || {
            take.byte()?;
            let (_segment, _end) = (take.varint()?, take.varint()?);
            for _ in 0..take.varint()? {
                let queue = take.small()?;
                let ranges: &mut Ranges = messages.entry(queue).or_default();
                for _ in 0..take.varint()? {
                    let first = take.varint()?;
                    ranges.insert(first, first.checked_add(take.varint()?)?);
                }
            }
            Some(())
        };
        read();
        messages
    }
}

/// The contents of the catalog when it was opened.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) queues: BTreeMap<u32, ([u8; 16], String)>,
    /// full segments that were not let go; none if the catalog has no whole end, for then it may
    /// lack what followed
    pub(super) full: BTreeMap<u32, Full>,
}

impl Known {
    /// Read the catalog, if there is one.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub(super) fn on<D: Disk + ?Sized>(disk: &D) -> Result<Self, Fault> {
        let mut known = Self::default();
        let bytes = match disk.length(CATALOG) {
            Ok(bytes) => bytes as usize,
            Err(Fault::Missing) => return Ok(known),
            Err(fault) => return Err(fault),
        };
        let mut content = vec![0; bytes];
        let read = disk.read(CATALOG, 0, &mut content)?;
        content.truncate(read);
        if content.len() < HEADER_BYTES || content[..8] != *MAGIC || u32_at(&content, 8) != VERSION {
            return Ok(known);
        }
        let mut rest = &content[HEADER_BYTES..];
        while let Some(payload) = entry(rest) {
            known.apply(payload);
            rest = &rest[ENTRY_BYTES + payload.len()..];
        }
        if rest.iter().take(ENTRY_BYTES).any(|byte| *byte != 0) {
            known.full.clear();
        }
        Ok(known)
    }

    /// The entries that the catalog has not written yet.
    pub(super) fn collect(&mut self, catalog: &Catalog) {
        let mut rest = &catalog.pending[..];
        while let Some(payload) = entry(rest) {
            self.apply(payload);
            rest = &rest[ENTRY_BYTES + payload.len()..];
        }
    }

    fn apply(&mut self, payload: &[u8]) -> Option<()> {
        let mut take = Take::new(payload);
        match take.byte()? {
            QUEUE => {
                let queue = take.small()?;
                let uid = take.bytes(16)?.try_into().ok()?;
                self.queues.insert(queue, (uid, str::from_utf8(take.bytes(take.left())?).ok()?.to_owned()));
            }
            FULL => {
                let (segment, end) = (take.small()?, take.small()?);
                self.full.insert(segment, Full { end, payload: payload.to_vec() });
            }
            GONE => {
                self.full.remove(&take.small()?);
            }
            _ => {}
        }
        Some(())
    }
}

/// The payload of the entry at the front.
fn entry(bytes: &[u8]) -> Option<&[u8]> {
    let head = bytes.get(..ENTRY_BYTES)?;
    let len = u32_at(head, 4) as usize;
    let covered = bytes.get(4..ENTRY_BYTES.checked_add(len)?)?;
    (len > 0 && crc32c::crc32c(covered) == u32_at(head, 0)).then(|| &covered[4..])
}

fn put_entry(into: &mut Vec<u8>, payload: &[u8]) {
    let start = into.len();
    into.extend_from_slice(&[0; 4]);
    into.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    into.extend_from_slice(payload);
    let crc = crc32c::crc32c(&into[start + 4..]);
    into[start..start + 4].copy_from_slice(&crc.to_le_bytes());
}

fn queue_payload(queue: u32, uid: &[u8; 16], name: &str) -> Vec<u8> {
    let mut payload = vec![QUEUE];
    put_varint(&mut payload, queue.into());
    payload.extend_from_slice(uid);
    payload.extend_from_slice(name.as_bytes());
    payload
}

/// The catalog while the log is open.
#[derive(Debug)]
pub(super) struct Catalog {
    size: usize,
    end: usize,
    /// entries to be written
    pending: Vec<u8>,
}

impl Catalog {
    /// Write the catalog again. A partial catalog after a crash is incomplete but never wrong: only
    /// later entries revoke earlier ones.
    ///
    /// # Errors
    /// `Full`: there is no room for it. Anything else: the disk fails.
    pub(super) fn create<'a, D: Disk + ?Sized>(
        disk: &D,
        queues: impl Iterator<Item = (u32, &'a [u8; 16], &'a str)>,
        full: &BTreeMap<u32, Full>,
    ) -> Result<Self, Fault> {
        let mut content = Vec::new();
        content.extend_from_slice(MAGIC);
        content.extend_from_slice(&VERSION.to_le_bytes());
        queues.for_each(|(queue, uid, name)| put_entry(&mut content, &queue_payload(queue, uid, name)));
        full.values().for_each(|full| put_entry(&mut content, &full.payload));
        let end = content.len();
        let size = end * 2 + ROOM_BYTES;
        content.resize(size, 0);
        match disk.remove(CATALOG) {
            Ok(()) => disk.sync_folder()?,
            Err(Fault::Missing) => {}
            Err(fault) => return Err(fault),
        }
        disk.create(CATALOG, size as u64)?;
        disk.write(CATALOG, 0, &[IoSlice::new(&content)])?;
        disk.sync(CATALOG)?;
        disk.sync_folder()?;
        Ok(Self { size, end, pending: Vec::new() })
    }

    pub(super) fn declare(&mut self, queue: u32, uid: &[u8; 16], name: &str) {
        put_entry(&mut self.pending, &queue_payload(queue, uid, name));
    }

    pub(super) fn fill(&mut self, full: &Full) {
        put_entry(&mut self.pending, &full.payload);
    }

    pub(super) fn release(&mut self, segment: u32) {
        let mut payload = vec![GONE];
        put_varint(&mut payload, segment.into());
        put_entry(&mut self.pending, &payload);
    }

    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes the new entries durably. `false`: there is no room, it has to be rewritten.
    pub(super) fn write<D: Disk + ?Sized>(&mut self, disk: &D) -> Result<bool, Fault> {
        // Behind the last entry there are zeros, by which a whole end is known.
        if self.end + self.pending.len() + ENTRY_BYTES > self.size {
            return Ok(false);
        }
        disk.write(CATALOG, self.end as u64, &[IoSlice::new(&self.pending)])?;
        disk.sync(CATALOG)?;
        self.end += self.pending.len();
        self.pending.clear();
        Ok(true)
    }
}

/// Messages that segments had which are missing, short or damaged, less those that are found
/// elsewhere or were removed.
#[derive(Debug, Default)]
pub(super) struct Losses {
    pub(super) queues: BTreeMap<u32, Ranges>,
}

impl Losses {
    pub(super) fn of(suspects: &BTreeSet<u32>, known: &Known) -> Self {
        let mut losses = Self::default();
        for full in suspects.iter().filter_map(|segment| known.full.get(segment)) {
            for (queue, ranges) in full.messages() {
                let all = losses.queues.entry(queue).or_default();
                ranges.into_iter().for_each(|(first, last)| add(all, first, last));
            }
        }
        losses
    }

    /// The catalog entries that follow from the lines of a segment.
    pub(super) fn collect(&mut self, lines: &[u8]) {
        let mut take = Take::new(lines);
        while let Some(line) = Line::take(&mut take) {
            let Line::Frame { kind, meta, .. } = line else { continue };
            match Record::decode(kind, meta) {
                Some(Record::Message(targets)) => {
                    for target in targets {
                        self.queues.entry(target.queue).and_modify(|lost| cut(lost, target.seq, target.seq));
                    }
                }
                Some(Record::Remove(removed)) => {
                    if let Some(lost) = self.queues.get_mut(&removed.queue) {
                        removed.ranges.for_each(|range| cut(lost, range.first, range.last));
                    }
                }
                Some(Record::Drop { queue }) => {
                    self.queues.remove(&queue);
                }
                _ => {}
            }
        }
    }
}

fn add(ranges: &mut Ranges, first: u64, last: u64) {
    // The same message may be in two of them: it was copied from one to the other.
    cut(ranges, first, last);
    ranges.insert(first, last);
}

/// Take numbers out.
fn cut(ranges: &mut Ranges, first: u64, last: u64) {
    let before = ranges.range(..first).next_back().map(|(from, to)| (*from, *to));
    if let Some((from, to)) = before.filter(|(_, to)| *to >= first) {
        ranges.insert(from, first - 1);
        if to > last {
            ranges.insert(last + 1, to);
        }
    }
    while let Some((from, to)) = ranges.range(first..=last).next().map(|(from, to)| (*from, *to)) {
        ranges.remove(&from);
        if to > last {
            ranges.insert(last + 1, to);
        }
    }
}

impl<D: Disk> Log<D> {
    /// Declarations that damage took, and the catalog had: the log has them again if there is room.
    pub(super) fn declare_again(&mut self, recovered: &Recovered) {
        let mut batch = WriteBatch::new();
        for queue in recovered.queues.iter().filter(|queue| queue.lost_declaration) {
            if let Some((uid, name)) = &queue.declared {
                batch.declare(queue.queue, uid, name);
            }
        }
        if !batch.is_empty() {
            // A full or failing disk is reported when a message is to be stored.
            let _ = self.append(&mut batch).and_then(|()| self.sync());
        }
    }

    pub(super) fn create_catalog<'a>(
        &mut self,
        queues: impl Iterator<Item = (u32, &'a [u8; 16], &'a str)>,
        full: &BTreeMap<u32, Full>,
    ) {
        self.catalog = Catalog::create(&*self.disk, queues, full).ok();
        if self.catalog.is_none() {
            self.drop_catalog();
        }
    }

    /// A stale catalog would report losses that did not happen.
    fn drop_catalog(&mut self) {
        self.catalog = None;
        let gone = match self.disk.remove(CATALOG) {
            Ok(()) => self.disk.sync_folder(),
            Err(Fault::Missing) => Ok(()),
            Err(fault) => Err(fault),
        };
        if let Err(fault) = gone {
            self.stop("the catalog cannot be removed", &fault);
        }
    }

    /// Writes the new entries to the catalog, durably.
    pub(super) fn keep_catalog(&mut self) {
        let Some(catalog) = self.catalog.as_mut().filter(|catalog| catalog.has_pending()) else { return };
        match catalog.write(&*self.disk) {
            Ok(true) => {}
            Ok(false) => self.rewrite_catalog(),
            Err(_) => self.drop_catalog(),
        }
    }

    fn rewrite_catalog(&mut self) {
        let Some(catalog) = self.catalog.take() else { return };
        let Ok(mut known) = Known::on(&*self.disk) else { return self.drop_catalog() };
        known.collect(&catalog);
        known.full.retain(|segment, _| self.space.exists(*segment));
        let queues: Vec<_> = known.queues.iter().filter(|(queue, _)| self.facts.exists(**queue)).collect();
        self.create_catalog(queues.into_iter().map(|(queue, (uid, name))| (*queue, uid, name.as_str())), &known.full);
    }
}

/// Which messages of suspect segments are found nowhere, and were not removed.
pub(super) fn losses<D: Disk + ?Sized>(
    disk: &D,
    used: &[u32],
    secret: u32,
    suspects: &BTreeSet<u32>,
    catalogued: &Known,
) -> Result<Losses, Fault> {
    let mut losses = Losses::of(suspects, catalogued);
    if !losses.queues.is_empty() {
        for (at, &number) in used.iter().enumerate() {
            let known = if at + 1 == used.len() { Extent::ByMarks } else { Extent::Whole };
            losses.collect(&lines(disk, number, Salt::of(secret, number).0, known)?.index);
        }
    }
    Ok(losses)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_put_in_and_taken_out(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..40)) {
            let mut ranges = Ranges::new();
            let mut model = BTreeSet::new();
            for (put, first, len) in steps {
                if put {
                    add(&mut ranges, first, first + len);
                    model.extend(first..=first + len);
                } else {
                    cut(&mut ranges, first, first + len);
                    model.retain(|seq| !(first..=first + len).contains(seq));
                }
                let found: BTreeSet<u64> = ranges.iter().flat_map(|(first, last)| *first..=*last).collect();
                prop_assert_eq!(&found, &model);
                let count: u64 = ranges.iter().map(|(first, last)| last - first + 1).sum();
                prop_assert_eq!(count, model.len() as u64);
            }
        }
    }
}
