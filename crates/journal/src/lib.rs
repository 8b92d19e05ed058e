//! Messages at rest, without I/O of its own: what is on disk and what order it leaves in.
//!
//! `log` keeps records in checksummed, append-only segments behind a `Disk`; `queue` decides about the messages of
//! one address: their order, who may have them, what becomes of those that come back; `stream` keeps messages under
//! offsets for anybody to read.

pub mod log;
pub mod queue;
pub mod stream;
