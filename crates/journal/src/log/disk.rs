//! The storage of segments: numbered files, or a simulation of them.

use std::io::IoSlice;

/// Errors of a disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The disk has no space left, and no segment was created. The log continues only if `create`
    /// returned it.
    #[error("the disk is full")]
    Full,
    /// The segment was never created, or was deleted. An expected segment that is absent is
    /// `Failed`, because it may be back later.
    #[error("there is no such segment")]
    Missing,
    /// Any other error, with the message of the operating system.
    #[error("{0}")]
    Failed(String),
}

/// A folder of segment files, each named by its number.
///
/// Only one owner calls the methods that write; readers may call `read` from other threads at the
/// same time. Bytes of a segment are durable once `sync` has succeeded. Creations, removals and
/// renames of segments are durable once `sync_folder` has succeeded.
pub trait Disk: Send + Sync {
    /// The numbers of all existing segments, in any order.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn list(&self) -> Result<Vec<u32>, Fault>;

    /// Length of a segment in bytes.
    ///
    /// # Errors
    /// `Missing`, or the existence cannot be determined.
    fn length(&self, segment: u32) -> Result<u64, Fault>;

    /// Creates a segment with all its space allocated, so that later writes to it cannot fail on a
    /// full disk. Its contents are undefined. A failed call leaves no file behind.
    ///
    /// # Errors
    /// `Full` if there is no space; otherwise the system's error.
    fn create(&self, segment: u32, bytes: u64) -> Result<(), Fault>;

    /// Writes all parts consecutively from an offset. They must fit the segment's length.
    ///
    /// # Errors
    /// The system's error. Any part of the bytes may have been written.
    fn write(&self, segment: u32, offset: u64, parts: &[IoSlice<'_>]) -> Result<(), Fault>;

    /// Reads from an offset until `into` is full or the segment ends. Returns the number of bytes
    /// read.
    ///
    /// # Errors
    /// `Missing`, or the system's error.
    fn read(&self, segment: u32, offset: u64, into: &mut [u8]) -> Result<usize, Fault>;

    /// Make everything written to a segment durable.
    ///
    /// # Errors
    /// Writes since the last successful fsync may be lost, even if a later call succeeds.
    fn sync(&self, segment: u32) -> Result<(), Fault>;

    /// Make creations, removals and new names durable.
    ///
    /// # Errors
    /// As `sync`.
    fn sync_folder(&self) -> Result<(), Fault>;

    /// Remove a segment.
    ///
    /// # Errors
    /// `Missing`, or the system's error.
    fn remove(&self, segment: u32) -> Result<(), Fault>;

    /// Renames a segment to an unused number. Its bytes do not change.
    ///
    /// # Errors
    /// `Missing`, or the system's error.
    fn recycle(&self, from: u32, to: u32) -> Result<(), Fault>;
}
