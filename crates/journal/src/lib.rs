//! Stored messages, without I/O: the records on disk and the order of delivery.
//!
//! `log` keeps records in checksummed, append-only segments behind a `Disk`. `queue` orders the
//! messages of one address, assigns them to consumers and handles returned ones. `stream` keeps
//! messages under offsets for any number of readers.

pub mod log;
pub mod queue;
pub mod stream;
