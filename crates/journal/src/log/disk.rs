//! Where segments lie: files by number, or a simulation of them.

use std::io::IoSlice;

/// Errors of a disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There is no room; nothing was made. Only `create` may return it without stopping the log.
    #[error("the disk is full")]
    Full,
    /// No segment of this number: it was never made, or has been let go. One that ought to be there
    /// and is not is a `Failed`: it may be back in a moment.
    #[error("there is no such segment")]
    Missing,
    /// Anything else, in the words of the system.
    #[error("{0}")]
    Failed(String),
}

/// A folder of segment files, each named by its number.
///
/// One owner calls everything that changes something; readers may call `read` from other threads at
/// the same time. Nothing is durable before `sync` (bytes of a segment) or `sync_folder` (which
/// segments there are, and their names) has returned without a fault.
pub trait Disk: Send + Sync {
    /// Numbers of all segments there are, in any order.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn list(&self) -> Result<Vec<u32>, Fault>;

    /// Length of a segment in bytes.
    ///
    /// # Errors
    /// `Missing`, or the existence cannot be determined.
    fn length(&self, segment: u32) -> Result<u64, Fault>;

    /// Make a segment with all its room allocated, so that no write within it can find the disk
    /// full. Its bytes read as anything. Where it fails, nothing is left behind.
    ///
    /// # Errors
    /// `Full` if there is no space; otherwise the system's error.
    fn create(&self, segment: u32, bytes: u64) -> Result<(), Fault>;

    /// Write all parts, one after the other, from an offset on. They lie within the segment's
    /// length.
    ///
    /// # Errors
    /// Some of it, or none, may have been written.
    fn write(&self, segment: u32, offset: u64, parts: &[IoSlice<'_>]) -> Result<(), Fault>;

    /// Read from an offset on until `into` is full or the segment ends; gives the number of bytes
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

    /// Give a segment another number, which is free. Its bytes stay as they are.
    ///
    /// # Errors
    /// `Missing`, or the system's error.
    fn recycle(&self, from: u32, to: u32) -> Result<(), Fault>;
}
