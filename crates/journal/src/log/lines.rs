//! Index lines: the records of a segment without their bodies, from its index or from a scan.

use super::disk::{Disk, Fault};
use super::frame::Salt;
use super::scan::{Extent, scan};
use super::segment::{BLOCK_BYTES, Seal, seal};

/// The records of a segment, as lines.
pub(super) struct Lines {
    pub(super) index: Vec<u8>,
    /// The end of its records.
    pub(super) end: u32,
    /// Its seal, if it has one and the lines were read from its index.
    pub(super) sealed: Option<Seal>,
    pub(super) gaps: Vec<(u32, u32)>,
    pub(super) repaired: u64,
}

/// Reads the lines of a segment from its index, or from its records if the index is damaged.
///
/// # Errors
/// The disk cannot be read.
pub(super) fn lines<D: Disk + ?Sized>(disk: &D, segment: u32, salt: u32, known: Extent) -> Result<Lines, Fault> {
    let limit = u32::try_from(disk.length(segment)?).unwrap_or(u32::MAX);
    let mut block = [0; BLOCK_BYTES];
    disk.read(segment, 0, &mut block)?;
    let sealed = seal(&block, segment, salt);
    let cut_off = sealed.filter(|seal| seal.end > limit).map(|seal| (limit, seal.end - limit));
    let seal = sealed.filter(|seal| seal.end <= limit && known == Extent::Whole);
    if let Some(seal) = seal
        .filter(|seal| seal.index_len > 0 && seal.index_at.checked_add(seal.index_len).is_some_and(|end| end <= limit))
    {
        let mut index = vec![0; seal.index_len as usize];
        let read = disk.read(segment, seal.index_at.into(), &mut index)?;
        if read == index.len() && crc32c::crc32c(&index) == seal.index_crc {
            return Ok(Lines { index, end: seal.end, sealed: Some(seal), gaps: Vec::new(), repaired: 0 });
        }
    }
    let limit = seal.map_or(limit, |seal| seal.end);
    let mut scanned = scan(disk, segment, Salt(salt), limit, known)?;
    scanned.gaps.extend(cut_off);
    Ok(Lines { index: scanned.index, end: scanned.end, sealed: None, gaps: scanned.gaps, repaired: scanned.repaired })
}
