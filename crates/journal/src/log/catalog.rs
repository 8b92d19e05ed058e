//! The catalog: a second copy of the queues and of the message numbers of each segment, so that one
//! damaged record does not lose them. It is a file of its own, with number 0, which no segment has.
//!
//! ```text
//!  0  magic "EnMasCat", u32 version
//! 12  entries: u32 CRC-32C of the rest, u32 bytes, then
//!       1  queue, uid (16 bytes), name                       declared
//!       2  segment, end, contents                            sealed: its messages
//!       3  segment                                           released: absent on purpose
//!       4  segment, end, contents                            active: durable since its last entry
//! ```
//!
//! Contents are described in `contents`. Recovery works without the file. With it, recovery
//! restores lost declarations, and reports the messages of a segment that is missing, short or
//! damaged. Without it, recovery checks nothing and rewrites it. A release that does not know the
//! file removes it as an empty segment; one that does not know a kind skips the entry.

use std::collections::BTreeMap;
use std::io::IoSlice;

use super::Log;
use super::active::ListedUpTo;
use super::contents::Contents;
use super::disk::{Disk, Fault};
use super::scan::Extent;
use super::wire::{Take, put_varint, u32_at};

/// The number of the catalog's file.
pub(super) const CATALOG: u32 = 0;
const MAGIC: &[u8; 8] = b"EnMasCat";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 12;
const ENTRY_BYTES: usize = 8;
/// Minimum space for new entries in a rewritten file.
const ROOM_BYTES: usize = 64 << 10;
/// The active segment gets this many entries while it is filled.
const ENTRIES_PER_SEGMENT: u32 = 4;

const QUEUE: u8 = 1;
const FULL: u8 = 2;
const RELEASED: u8 = 3;
const IN_USE: u8 = 4;

/// The catalog's entries of one segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    /// The end of its records when the last entry was made.
    end: u32,
    /// No record will follow.
    full: bool,
    /// Its entries; a full segment has one.
    payloads: Vec<Vec<u8>>,
}

impl Listed {
    /// A full segment with these lines.
    pub(super) fn full(segment: u32, end: u32, lines: &[u8]) -> Self {
        Self { end, full: true, payloads: vec![payload(FULL, segment, end, &Contents::of(lines))] }
    }

    /// Whether a segment whose records end at `found_end` has all records of the catalog.
    pub(super) fn is_whole(&self, found_end: u32) -> bool {
        if self.full { found_end == self.end } else { found_end >= self.end }
    }

    /// The end of its records.
    pub(super) fn end(&self) -> u32 {
        self.end
    }

    /// Whether it is sealed, so that no record follows.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    pub(super) fn contents(&self) -> Contents {
        let mut contents = Contents::default();
        for payload in &self.payloads {
            let mut take = Take::new(payload);
            let head = (take.byte(), take.varint(), take.varint());
            if let (Some(_), Some(_segment), Some(_end)) = head {
                contents.join(Contents::take(&mut take));
            }
        }
        contents
    }

    /// Joins its entries into one.
    fn joined(self, segment: u32) -> Self {
        if self.payloads.len() < 2 {
            return self;
        }
        let payload = payload(IN_USE, segment, self.end, &self.contents());
        Self { payloads: vec![payload], ..self }
    }
}

fn payload(kind: u8, segment: u32, end: u32, contents: &Contents) -> Vec<u8> {
    let mut payload = vec![kind];
    put_varint(&mut payload, segment.into());
    put_varint(&mut payload, end.into());
    contents.put(&mut payload);
    payload
}

/// The contents of the catalog when it was opened.
#[derive(Debug, Default)]
pub(super) struct CatalogEntries {
    pub(super) queues: BTreeMap<u32, ([u8; 16], String)>,
    /// segments that were not released; none if the end of the catalog is damaged, because later
    /// entries may then be missing
    pub(super) segments: BTreeMap<u32, Listed>,
}

impl CatalogEntries {
    /// Reads the catalog, if it exists.
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
            known.segments.clear();
        }
        Ok(known)
    }

    /// Applies the entries that the catalog has not written yet.
    pub(super) fn collect(&mut self, catalog: &Catalog) {
        let mut rest = &catalog.pending[..];
        while let Some(payload) = entry(rest) {
            self.apply(payload);
            rest = &rest[ENTRY_BYTES + payload.len()..];
        }
    }

    /// How much of a segment is known to be durable; `last`: no later segment has records.
    pub(super) fn extent(&self, segment: u32, last: bool) -> Extent {
        match self.segments.get(&segment) {
            Some(listed) if last && !listed.full => Extent::UpTo(listed.end),
            None if last => Extent::UpTo(0),
            _ => Extent::Whole,
        }
    }

    fn apply(&mut self, payload: &[u8]) -> Option<()> {
        let mut take = Take::new(payload);
        match take.byte()? {
            QUEUE => {
                let queue = take.varint_u32()?;
                let uid = take.bytes(16)?.try_into().ok()?;
                self.queues.insert(queue, (uid, str::from_utf8(take.bytes(take.left())?).ok()?.to_owned()));
            }
            FULL => {
                let (segment, end) = (take.varint_u32()?, take.varint_u32()?);
                self.segments.insert(segment, Listed { end, full: true, payloads: vec![payload.to_vec()] });
            }
            RELEASED => {
                self.segments.remove(&take.varint_u32()?);
            }
            IN_USE => {
                let listed = self.segments.entry(take.varint_u32()?).or_default();
                listed.end = listed.end.max(take.varint_u32()?);
                listed.payloads.push(payload.to_vec());
            }
            _ => {}
        }
        Some(())
    }
}

/// The payload of the first entry.
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
    /// Rewrites the catalog. A partial catalog after a crash is incomplete but never wrong, because
    /// only later entries revoke earlier ones.
    ///
    /// # Errors
    /// `Full` without space for it; otherwise the error of the disk.
    pub(super) fn create<'a, D: Disk + ?Sized>(
        disk: &D,
        queues: impl Iterator<Item = (u32, &'a [u8; 16], &'a str)>,
        segments: &BTreeMap<u32, Listed>,
    ) -> Result<Self, Fault> {
        let mut content = Vec::new();
        content.extend_from_slice(MAGIC);
        content.extend_from_slice(&VERSION.to_le_bytes());
        queues.for_each(|(queue, uid, name)| put_entry(&mut content, &queue_payload(queue, uid, name)));
        let payloads = segments.values().flat_map(|listed| &listed.payloads);
        payloads.for_each(|payload| put_entry(&mut content, payload));
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

    pub(super) fn list(&mut self, listed: &Listed) {
        listed.payloads.iter().for_each(|payload| put_entry(&mut self.pending, payload));
    }

    pub(super) fn release(&mut self, segment: u32) {
        let mut payload = vec![RELEASED];
        put_varint(&mut payload, segment.into());
        put_entry(&mut self.pending, &payload);
    }

    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes the new entries durably. `false`: the file has no space left and must be rewritten.
    pub(super) fn write<D: Disk + ?Sized>(&mut self, disk: &D) -> Result<bool, Fault> {
        // Zeros behind the last entry prove that the end is complete.
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

impl<D: Disk> Log<D> {
    pub(super) fn create_catalog<'a>(
        &mut self,
        queues: impl Iterator<Item = (u32, &'a [u8; 16], &'a str)>,
        segments: &BTreeMap<u32, Listed>,
    ) {
        self.catalog = Catalog::create(&*self.disk, queues, segments).ok();
        if self.catalog.is_none() {
            self.drop_catalog();
        }
    }

    /// Removes the catalog: a stale one would report losses that did not happen.
    fn drop_catalog(&mut self) {
        self.catalog = None;
        let removed = match self.disk.remove(CATALOG) {
            Ok(()) => self.disk.sync_folder(),
            Err(Fault::Missing) => Ok(()),
            Err(fault) => Err(fault),
        };
        if let Err(fault) = removed {
            self.stop("the catalog cannot be removed", &fault);
        }
    }

    /// Adds an entry for the durable records of the active segment that have none, if they have at
    /// least `bytes` bytes.
    pub(super) fn list_active(&mut self, bytes: u32) {
        let (Some(active), Some(catalog)) = (&mut self.active, &mut self.catalog) else { return };
        if active.synced - active.listed.end >= bytes.max(1) {
            let (segment, end) = (active.number, active.synced);
            let contents = Contents::of(&active.index[active.listed.lines..active.synced_lines]);
            catalog.list(&Listed { end, full: false, payloads: vec![payload(IN_USE, segment, end, &contents)] });
            active.listed = ListedUpTo { end, lines: active.synced_lines };
        }
    }

    /// Lists the records of the active segment if the catalog is about to be written anyway, or if
    /// a large part of the segment is not listed.
    pub(super) fn list_active_if_due(&mut self) {
        let is_due = self.catalog.as_ref().is_some_and(Catalog::has_pending);
        self.list_active(if is_due { 1 } else { self.config.segment_bytes / ENTRIES_PER_SEGMENT });
    }

    /// Writes the new entries to the catalog, durably.
    pub(super) fn write_catalog(&mut self) {
        let Some(catalog) = self.catalog.as_mut().filter(|catalog| catalog.has_pending()) else { return };
        match catalog.write(&*self.disk) {
            Ok(true) => {}
            Ok(false) => self.rewrite_catalog(),
            Err(_) => self.drop_catalog(),
        }
    }

    fn rewrite_catalog(&mut self) {
        let Some(catalog) = self.catalog.take() else { return };
        let Ok(mut known) = CatalogEntries::on(&*self.disk) else { return self.drop_catalog() };
        known.collect(&catalog);
        let segments = known.segments.into_iter().filter(|(segment, _)| self.space.exists(*segment));
        let segments = segments.map(|(segment, listed)| (segment, listed.joined(segment))).collect();
        let queues: Vec<_> = known.queues.iter().filter(|(queue, _)| self.facts.exists(**queue)).collect();
        self.create_catalog(queues.into_iter().map(|(queue, (uid, name))| (*queue, uid, name.as_str())), &segments);
    }
}
