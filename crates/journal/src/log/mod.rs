//! The segment log: one for all queues of a node. Records, group commit, recovery, space.
//!
//! Roles:
//!
//! - A *shard* fills a [`WriteBatch`] (declare, message, remove, state, copy, groups) and passes it
//!   to the log's owner, as it passes batches to other shards. The shard knows the live messages:
//!   it keeps a [`RecordLocation`] for each and names it again on removal ([`Removal`]).
//! - The *owner* is one thread of the node with the [`Log`]. It passes all received batches to
//!   [`Commits`]. One step of it [`Log::append`]s some batches, [`Log::sync`]s once, and returns
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

mod assembled;
mod batch;
mod catalog;
mod commits;
mod config;
mod contents;
mod disk;
mod entries;
mod facts;
mod frame;
mod owner;
mod place;
mod read;
mod recent;
mod reclaim;
mod record;
mod recover;
mod scan;
mod segment;
pub mod simulated;
mod space;
mod staged;
mod wire;

pub use assembled::AssembledBody;
pub use batch::{Removal, WriteBatch};
pub use commits::{Commits, Committed, Lane};
pub use config::{Config, GROUP_BYTES_MAX, LogStats, OpenError, Refused};
pub use disk::{Disk, Fault};
pub use owner::Log;
pub use place::{Freed, RecordLocation};
pub use read::{ReadError, Reader};
pub use recent::{Recent, SHARED_BYTES};
pub use record::{HEAD_BYTES_MAX, SeqRange, Target};
pub use recover::{Gap, Recovered, RecoveredMessage, RecoveredQueue, Unnamed};
pub use segment::FORMAT_VERSION;
