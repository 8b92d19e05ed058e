//! The segment log: one for all queues of a node. Records, group commit, recovery, space.
//!
//! Roles:
//!
//! - A *shard* fills a [`WriteBatch`] (declare, message, remove, state, copy, groups) and passes it
//!   to the log's owner, as it passes batches to other shards. The shard knows the live messages:
//!   it keeps a [`RecordLocation`] for each and names it again on removal ([`Removal`]).
//! - The *owner* is one thread of the node with the [`Log`]: it gives all batches that have come to
//!   [`Commits`], whose step [`Log::append`]s some, [`Log::sync`]s once, and gives them back. That
//!   is group commit without a timer: while one sync runs, the next batches come together. A batch
//!   too large for that is written in chunks ([`Log::stage`]), with other batches between. After
//!   each step one [`Log::turn`], which gives space back; [`Log::rest`] when nothing has come for a
//!   while.
//! - A [`Reader`] reads bodies by their places, from any thread.
//! - [`Disk`] is all the log knows of files.
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
//! Declarations and the numbers of the messages of each segment are written a second time
//! (`catalog`), so that the loss of a declaration or of a segment is known by queue and number: for
//! the segment in use up to [`Log::close`], or to the last entry before a crash.
//!
//! After a crash or power loss the log is a prefix of what was appended, at least up to the last
//! successful fsync, with whole groups, in order. A flipped bit costs at most its own record. A
//! failed write or fsync stops the log permanently; reads continue. A full disk refuses new
//! messages and still takes removals, state and drops, from a reserve.
//!
//! Absent on purpose: threads, time, and the index of live messages, which belongs to the queues.

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
pub use recover::{Gap, Recovered, RecoveredMessage, RecoveredQueue};
pub use segment::FORMAT_VERSION;
