//! The segment log: one for all queues of a node. Records, group commit, recovery, space.
//!
//! Roles:
//!
//! - A *shard* fills a [`WriteBatch`] (declare, message, remove, state, copy, groups) and passes it
//!   to the log's owner, as it passes batches to other shards. The shard knows the live messages:
//!   it keeps a [`RecordLocation`] for each and names it again on removal ([`Removal`]).
//! - The *owner* is one thread of the node with the [`Log`]. It passes all received batches to
//!   [`CommitSchedule`]. One step of it [`Log::append`]s some batches, [`Log::sync`]s once, and returns
//!   the batches. That is group commit without a timer: batches accumulate while an fsync runs. A
//!   larger batch is staged in chunks ([`Log::stage`]), with other batches in between. The owner
//!   calls [`Log::turn`] after each step to reclaim space, and [`Log::rest`] after some idle time.
//! - A [`Reader`] reads bodies by their record locations, from any thread.
//! - [`Disk`] abstracts the file system.
//!
//! ```text
//! let (mut log, recovered) = Log::open(disk, config)?;       // recovered.queues: messages in order, state, next_seq
//! batch.declare(7, &uid, "orders");
//! let n = batch.message(&[Target { queue: 7, seq: 0, head: &[4] }], body);
//! log.append(&mut batch)?;                                   // written
//! log.sync()?;                                               // committed: answer the producer
//! let place = batch.place(n);                                // for the queue's index
//! let mut removal = Removal::new(7);
//! removal.add(0, place);
//! batch.clear();
//! batch.remove(&mut removal);
//! ```
//!
//! The catalog (`catalog`) holds a second copy of the declarations and of the message numbers of
//! each segment. Recovery can therefore name the lost queues and messages when a declaration or a
//! segment is lost. For the active segment the catalog is complete after [`Log::close`], and after
//! a crash up to its last entry.
//!
//! After a crash or power loss the log is a prefix of what was appended, at least up to the last
//! successful fsync, with whole groups, in order. A flipped bit costs at most its own record. A
//! failed write or fsync stops the log permanently; reads continue. A full disk refuses new
//! messages and still takes removals, state and drops, from a reserve.
//!
//! The module deliberately has no threads, no clock and no index of live messages; the queues keep
//! that index.

mod active;
mod append;
mod assembled;
mod batch;
mod catalog;
mod commit_schedule;
mod config;
mod contents;
mod disk;
mod entries;
mod facts;
mod frame;
mod joint;
mod joints;
mod lane;
mod lines;
mod losses;
mod open;
mod place;
mod read;
mod recent;
mod reclaim;
mod record;
mod recover;
mod scan;
mod segment;
mod segments;
pub mod simulated;
mod space;
mod staged;
mod wire;

use std::collections::VecDeque;
use std::sync::Arc;

use active::Active;
use catalog::Catalog;
use facts::Facts;
use frame::Salt;
use space::Space;
use staged::Staged;

pub use assembled::AssembledBody;
pub use batch::{Removal, WriteBatch};
pub use commit_schedule::CommitSchedule;
pub use config::{Config, GROUP_BYTES_MAX, LogStats, OpenError, Refused};
pub use disk::{Disk, Fault};
pub use joint::{JointId, JointPart};
pub use lane::{COPIES_PART, Committed, Lane};
pub use place::{Freed, RecordLocation};
pub use read::{ReadError, Reader};
pub use recent::{Recent, SHARED_BYTES};
pub use record::{HEAD_BYTES_MAX, SeqRange, Target};
pub use recover::{Gap, Recovered, RecoveredMessage, RecoveredQueue, Unnamed};
pub use segment::FORMAT_VERSION;

/// The log; see the module. `open` opens it, `append` writes batches, `segments` has the life of
/// its files, `staged` writes large batches in chunks, `catalog` keeps the second copy, and
/// `reclaim` frees space.
pub struct Log<D> {
    disk: Arc<D>,
    config: Config,
    secret: u32,
    active: Option<Active>,
    /// The batch that is written chunk by chunk, if there is one.
    staged: Option<Staged>,
    /// Empty segments, in rising order, all above the active one.
    spares: VecDeque<u32>,
    next_number: u32,
    space: Space,
    facts: Facts,
    /// Something was appended since the last sync.
    dirty: bool,
    stopped: Option<String>,
    stats: LogStats,
    scratch: Vec<u8>,
    read_fault: Option<(u32, Fault)>,
    compacting: Option<u32>,
    /// The catalog; none if the disk had no space for it.
    catalog: Option<Catalog>,
}

impl<D> std::fmt::Debug for Log<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let active = self.active.as_ref().map(|active| active.number);
        let mut log = f.debug_struct("Log");
        log.field("active", &active).field("spares", &self.spares).field("segments", &self.space.segments);
        log.field("stopped", &self.stopped).finish_non_exhaustive()
    }
}

impl<D: Disk> Log<D> {
    /// A reader of messages, for any thread.
    #[must_use]
    pub fn reader(&self) -> Reader<D> {
        Reader::new(Arc::clone(&self.disk), self.secret)
    }

    /// The disk of the log.
    #[must_use]
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Why the log has stopped, if it has.
    #[must_use]
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Statistics of the log.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        let (used_bytes, alive_bytes) = self.space.totals();
        let segments = self.space.segments.len() as u64;
        let alive_messages = self.space.segments.values().map(|segment| segment.messages).sum();
        let spares = self.spares.len() as u64;
        LogStats { segments, spares, used_bytes, alive_messages, alive_bytes, ..self.stats }
    }

    pub(super) fn check(&self) -> Result<(), Refused> {
        self.stopped.as_ref().map_or(Ok(()), |why| Err(Refused::Stopped(why.clone())))
    }

    pub(super) fn stop(&mut self, what: &str, fault: &Fault) -> Refused {
        let why = format!("{what}: {fault}");
        self.stopped = Some(why.clone());
        Refused::Unsure(why)
    }

    pub(super) fn active(&self) -> Option<u32> {
        self.active.as_ref().map(|active| active.number)
    }

    pub(super) fn salt(&self, segment: u32) -> u32 {
        Salt::of(self.secret, segment).0
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty
    }
}
