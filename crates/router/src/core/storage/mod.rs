//! What the code of stored addresses works with: the log, bodies, and the clock of the turn.

mod bodies;
mod compact;
mod damaged;
mod digest;
mod fence;
mod journal;
mod lanes;
mod memory;
mod reads;

use enmasse_journal::queue::Effect;

use super::{AddressKey, Router};

pub(super) use bodies::Bodies;
pub use damaged::Damaged;
use damaged::LossReports;
pub use digest::Digests;
pub(super) use fence::Notice;
pub use journal::Answer;
use journal::Journal;
pub(super) use journal::{Commit, Completion, Queues, not_stored};
pub(super) use lanes::LaneId;
pub use reads::Read;

/// The context of every stored address of a shard. A queue changes its state with it, and leaves
/// effects on messages that go to other addresses to the router.
#[derive(Debug)]
pub(in crate::core) struct Storage {
    /// the router's time, milliseconds since 1970
    pub(in crate::core) now_ms: u64,
    pub(in crate::core) digests: Digests,
    pub(in crate::core) journal: Journal,
    pub(in crate::core) bodies: Bodies,
    /// messages that the disk has lost, to be reported
    pub(in crate::core) damaged: LossReports,
    /// effects of a queue on its messages that have not been carried out
    pub(in crate::core) effects: Vec<Effect>,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            now_ms: 0,
            digests: Digests::new([0; 16]),
            journal: Journal::default(),
            bodies: Bodies::default(),
            damaged: LossReports::default(),
            effects: Vec::new(),
        }
    }
}

impl Storage {
    /// The time of this turn.
    pub(in crate::core) fn set_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.bodies.set_time(now_ms);
    }

    /// An address is deleted: its lost messages are not reported any more.
    pub(in crate::core) fn forget_damaged(&mut self, key: AddressKey) {
        self.damaged.forget(key);
    }
}

impl Router {
    /// The key of digests: the same as before the restart.
    pub fn set_digests(&mut self, digests: Digests) {
        self.storage.digests = digests;
    }

    /// Stands for a link wherever it attaches again: its name and its container's.
    #[must_use]
    pub fn link_digest(&self, container: &str, name: &str) -> u64 {
        self.storage.digests.short(&[container.as_bytes(), &[0xFF], name.as_bytes()].concat())
    }

    /// As [`Router::link_digest`], of a link that can be resumed: only its own user takes it over.
    #[must_use]
    pub fn resume_digest(&self, user: Option<&str>, container: &str, name: &str) -> u64 {
        let Some(user) = user else { return self.link_digest(container, name) };
        self.storage.digests.short(&[user.as_bytes(), &[0xFF], container.as_bytes(), &[0xFF], name.as_bytes()].concat())
    }

    /// Bytes of bodies that were read from the disk, or requested, and are needed still.
    #[must_use]
    pub fn fetched_bytes(&self) -> u64 {
        self.storage.bodies.fetched_bytes()
    }
}
