//! Opening a log: what its disk has, and which of it the catalog lists.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::Log;
use super::catalog::{CATALOG, CatalogEntries, Listed};
use super::config::{Config, LogStats, OpenError};
use super::disk::{Disk, Fault};
use super::frame::Salt;
use super::lines::{Lines, lines};
use super::losses::losses;
use super::recover::{Recovered, Replay};
use super::scan::Extent;
use super::segment::{BLOCK_BYTES, FORMAT_VERSION, HeaderState, open};

impl<D: Disk> Log<D> {
    /// Opens the log of a disk, or creates one on an empty disk. Reads the indexes of sealed
    /// segments, and the records of the last segment with their bodies.
    ///
    /// # Errors
    /// `Version` if another format is found, `Disk` if the disk cannot be read. If it cannot be
    /// written, the log opens and has stopped.
    pub fn open(disk: Arc<D>, config: Config) -> Result<(Self, Recovered), OpenError> {
        let config = config.checked();
        // The log opens without the catalog, so an unreadable one is ignored.
        let catalogued = CatalogEntries::on(&*disk).unwrap_or_default();
        let mut found = DiskContents::on(&*disk)?;
        found.apply_catalog(&catalogued);
        let secret = found.secret.unwrap_or(config.secret);
        let mut replay = Replay::default();
        let (mut tail, mut segments) = (None, BTreeMap::new());
        let mut suspects: BTreeSet<u32> = catalogued.segments.keys().copied().collect();
        for (at, &number) in found.used.iter().enumerate() {
            let extent = catalogued.extent(number, at + 1 == found.used.len());
            let lines = lines(&*disk, number, Salt::of(secret, number).0, extent)?;
            let listed = catalogued.segments.get(&number);
            let listed = listed.filter(|listed| listed.is_whole(lines.end) && lines.gaps.is_empty());
            if listed.is_some() {
                suspects.remove(&number);
            }
            let full = listed.filter(|listed| listed.is_full()).cloned();
            segments.insert(number, full.unwrap_or_else(|| Listed::full(number, lines.end, &lines.index)));
            replay.segment(number, disk.length(number)?, &lines);
            if extent != Extent::Whole {
                tail = Some((number, lines));
            }
        }
        let losses = losses(&*disk, &found.used, secret, &suspects, &catalogued)?;
        for (segment, lost) in suspects.iter().filter_map(|it| Some((it, catalogued.segments.get(it)?))) {
            replay.add_missing_end(*segment, lost.end());
        }
        let (recovered, space, facts) = replay.finish(&catalogued, &losses);
        let mut log = Self {
            disk,
            config,
            secret,
            active: None,
            staged: None,
            spares: VecDeque::new(),
            next_number: found.next_number,
            space,
            facts,
            dirty: false,
            stopped: None,
            stats: LogStats::default(),
            scratch: Vec::new(),
            read_fault: None,
            compacting: None,
            catalog: None,
        };
        if let Err(fault) = log.seal_and_renumber(tail, &found.spares) {
            log.stop("the last segment cannot be closed", &fault);
            return Ok((log, recovered));
        }
        let named = recovered.queues.iter().filter_map(|queue| Some((queue.queue, queue.declared.as_ref()?)));
        log.create_catalog(named.map(|(queue, (uid, name))| (queue, uid, name.as_str())), &segments);
        log.rewrite_declarations(&recovered);
        Ok((log, recovered))
    }

    /// Seals the last segment, so that bytes behind its end are never read as records, and
    /// renumbers the spares, so that unfinished records in them never are either.
    fn seal_and_renumber(&mut self, tail: Option<(u32, Lines)>, spares: &[u32]) -> Result<(), Fault> {
        if let Some((number, lines)) = tail {
            self.seal(number, lines.end, &lines.index)?;
        }
        for &spare in spares {
            let usable = self.disk.length(spare)? == u64::from(self.config.segment_bytes);
            if usable && self.spares.len() < self.config.spare_segments_max {
                let number = self.number();
                self.disk.recycle(spare, number)?;
                self.spares.push_back(number);
            } else {
                self.disk.remove(spare)?;
            }
        }
        if spares.is_empty() { Ok(()) } else { self.disk.sync_folder() }
    }
}

/// The contents of a disk.
#[derive(Default)]
struct DiskContents {
    /// Segments with records, in rising order.
    used: Vec<u32>,
    spares: Vec<u32>,
    secret: Option<u32>,
    next_number: u32,
}

impl DiskContents {
    fn on<D: Disk + ?Sized>(disk: &D) -> Result<Self, OpenError> {
        let mut numbers = disk.list()?;
        numbers.retain(|number| *number != CATALOG);
        numbers.sort_unstable();
        let mut found = Self { next_number: numbers.last().map_or(1, |&last| last + 1), ..Self::default() };
        for number in numbers {
            let mut block = [0; BLOCK_BYTES];
            disk.read(number, 0, &mut block)?;
            match open(&block, number) {
                HeaderState::Used { salt } => {
                    found.secret.get_or_insert(salt.wrapping_sub(number));
                    // Segments are used in the order of their numbers, so earlier ones were used
                    // too, regardless of their first blocks.
                    found.used.append(&mut found.spares);
                    found.used.push(number);
                }
                HeaderState::OtherVersion { version } => {
                    return Err(OpenError::Version { segment: number, found: version, known: FORMAT_VERSION });
                }
                HeaderState::Spare => found.spares.push(number),
            }
        }
        Ok(found)
    }

    /// Counts a spare that the catalog lists as a used segment: it has lost its first block. New
    /// numbers are above all numbers of the catalog, so that even the number of a missing file is
    /// not reused.
    fn apply_catalog(&mut self, catalogued: &CatalogEntries) {
        let listed = self.spares.extract_if(.., |spare| catalogued.segments.contains_key(spare));
        self.used.extend(listed);
        self.used.sort_unstable();
        let last = catalogued.segments.last_key_value();
        self.next_number = last.map_or(0, |(&last, _)| last + 1).max(self.next_number);
    }
}
