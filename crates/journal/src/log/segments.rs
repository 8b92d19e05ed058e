//! The life of segments: spares in reserve, the active one, sealed ones, and their release.

use std::collections::VecDeque;
use std::io::IoSlice;

use super::Log;
use super::active::Active;
use super::catalog::Listed;
use super::config::Refused;
use super::disk::{Disk, Fault};
use super::segment::{Seal, sealed_block};

impl<D: Disk> Log<D> {
    /// Creates the segments that the first message needs, so that a disk that is too small is
    /// reported at start and not by the first message.
    ///
    /// # Errors
    /// `NoRoom`; `Stopped` or `Unsure` when the disk fails.
    pub fn begin(&mut self) -> Result<(), Refused> {
        self.check()?;
        while self.space.segments.is_empty() && self.lacks_spare() {
            self.add_spare()?;
        }
        Ok(())
    }

    /// Whether there are too few spares for the reserve and the next segment.
    pub(super) fn lacks_spare(&self) -> bool {
        self.spares.len() <= self.config.reserve_segments
    }

    pub(super) fn take_spare(&mut self, keep: usize) -> Result<(u32, u32), Refused> {
        while self.spares.len() <= keep {
            self.add_spare()?;
        }
        let number = self.spares.pop_front().expect("there are more than are kept");
        Ok((number, self.config.segment_bytes))
    }

    /// Creates one more empty segment.
    pub(super) fn add_spare(&mut self) -> Result<(), Refused> {
        let number = self.number();
        self.disk.create(number, self.config.segment_bytes.into()).map_err(Refused::NoRoom)?;
        self.disk.sync_folder().map_err(|fault| self.stop("the folder cannot be synced", &fault))?;
        self.spares.push_back(number);
        Ok(())
    }

    /// Creates a segment for a group larger than a normal segment.
    pub(super) fn create_large(&mut self, bytes: u64) -> Result<(u32, u32), Refused> {
        let number = self.number();
        self.disk.create(number, bytes).map_err(Refused::NoRoom)?;
        self.raise_spares(number)?;
        Ok((number, bytes as u32))
    }

    /// Renumbers the spares above a segment that is used before them: segments are used in
    /// ascending order.
    pub(super) fn raise_spares(&mut self, above: u32) -> Result<(), Refused> {
        let raised = self.renumber_spares(above).and_then(|()| self.disk.sync_folder());
        raised.map_err(|fault| self.stop("the folder cannot be changed", &fault))
    }

    fn renumber_spares(&mut self, above: u32) -> Result<(), Fault> {
        while self.spares.front().is_some_and(|&spare| spare < above) {
            let number = self.number();
            let raised = self.disk.recycle(self.spares[0], number).map(|()| self.spares.push_back(number));
            raised.or_else(ignore_missing)?;
            self.spares.pop_front();
        }
        Ok(())
    }

    /// Returns prepared segments that are not used after all.
    pub(super) fn return_segments(&mut self, ready: VecDeque<(u32, u32)>) {
        for (number, size) in ready.into_iter().rev() {
            if size == self.config.segment_bytes {
                self.spares.push_front(number);
            } else if let Err(fault) = self.disk.remove(number) {
                self.stop("a segment cannot be removed", &fault);
            }
        }
    }

    /// Seals the active segment and begins another one. All earlier segments are then durable, so
    /// only the last segment can have a torn end.
    pub(super) fn roll(&mut self, number: u32, size: u32) -> Result<(), Refused> {
        self.complete_staged_below(number)?;
        self.close_active()?;
        self.space.get(number).size = size.into();
        self.active = Some(Active::new(number, size));
        Ok(())
    }

    pub(super) fn close_active(&mut self) -> Result<(), Refused> {
        if let Some(active) = self.active.take() {
            if let Err(fault) = self.seal(active.number, active.end, &active.index) {
                return Err(self.stop("a full segment cannot be closed", &fault));
            }
            if let Some(catalog) = &mut self.catalog {
                catalog.list(&Listed::full(active.number, active.end, &active.index));
            }
        }
        Ok(())
    }

    /// Writes the index and the seal of a segment, and makes all of it durable.
    pub(super) fn seal(&mut self, number: u32, end: u32, index: &[u8]) -> Result<(), Fault> {
        let size = self.disk.length(number)?;
        let fits = u64::from(end) + index.len() as u64 <= size;
        let index = if fits { index } else { &[] };
        let seal = Seal { end, index_at: end, index_len: index.len() as u32, index_crc: crc32c::crc32c(index) };
        if !index.is_empty() {
            self.disk.write(number, end.into(), &[IoSlice::new(index)])?;
        }
        let block = sealed_block(number, self.salt(number), seal);
        self.disk.write(number, 0, &[IoSlice::new(&block)])?;
        self.disk.sync(number)?;
        self.stats.syncs += 1;
        self.space.get(number).end = end;
        Ok(())
    }

    /// Releases a segment: it becomes a spare, or its file is removed.
    pub(super) fn release(&mut self, number: u32) -> Result<(), Refused> {
        if let Some(catalog) = &mut self.catalog {
            // Recovery must not report the segment as missing.
            catalog.release(number);
            self.write_catalog();
            self.check()?;
        }
        let size = self.space.get(number).size;
        let wanted = self.spares.len() < self.config.spare_segments_max;
        let changed = if wanted && size == u64::from(self.config.segment_bytes) {
            let spare = self.number();
            self.disk.recycle(number, spare).map(|()| self.spares.push_back(spare))
        } else {
            self.disk.remove(number)
        };
        let changed = changed.or_else(ignore_missing);
        // Removals in other segments are needed until this segment is deleted.
        let changed = changed.and_then(|()| self.disk.sync_folder());
        changed.map_err(|fault| self.stop("a segment cannot be released", &fault))?;
        self.space.remove_segment(number);
        Ok(())
    }

    pub(super) fn number(&mut self) -> u32 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }
}

/// A file that no message needs counts as released when it is missing.
fn ignore_missing(fault: Fault) -> Result<(), Fault> {
    match fault {
        Fault::Missing => Ok(()),
        fault => Err(fault),
    }
}
