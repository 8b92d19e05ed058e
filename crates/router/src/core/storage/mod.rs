//! Storage: what all stored addresses of a shard use, the log, bodies, and the time of the turn.

mod block;
mod bodies;
mod commit;
mod compact;
mod damaged;
mod digest;
mod fence;
mod joint;
mod journal;
mod lanes;
mod memory;
mod notice;
mod reads;
mod state;

use enmasse_journal::queue::Effect;

use super::{AddressKey, Router};

pub(super) use block::{BlockWrite, CopiedBlock, InFlightBlock, MemoryBlock};
pub(super) use bodies::Bodies;
pub(super) use commit::{Commit, CommitNote, Completion, KeptPacketId, Queues, Received};
pub use damaged::Damaged;
use damaged::LossReports;
pub use digest::{Digests, LAST_VALUE_OF_TO};
pub(super) use journal::{Journal, not_stored};
pub use lanes::Answer;
pub(super) use lanes::LaneId;
pub(super) use notice::Notice;
pub use reads::Read;
pub use state::subscription_of;
pub(super) use state::{
    ANNOTATIONS, Failures, HELD, RECEIVED_FROM_CLIENT, RECEIVED_FROM_NODE, SENT, barred_of, failures_of, message_of,
    state_key,
};

/// The storage of a shard. A queue changes it together with its own state; effects on messages that
/// move to other addresses are left to the router.
#[derive(Debug)]
pub(in crate::core) struct Storage {
    /// the router's time, milliseconds since 1970
    pub(in crate::core) now_ms: u64,
    pub(in crate::core) digests: Digests,
    pub(in crate::core) journal: Journal,
    pub(in crate::core) bodies: Bodies,
    /// messages that the disk has lost, to be reported
    pub(in crate::core) damaged: LossReports,
    /// pending effects of a queue
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

    /// Drops the reports of lost messages of a deleted address.
    pub(in crate::core) fn forget_damaged(&mut self, key: AddressKey) {
        self.damaged.forget(key);
    }
}

impl Router {
    /// Sets the key of digests, which must survive restarts.
    pub fn set_digests(&mut self, digests: Digests) {
        self.storage.digests = digests;
    }

    /// The digest that identifies a link across attachments: of its container id and its name.
    #[must_use]
    pub fn link_digest(&self, container: &str, name: &str) -> u64 {
        self.storage.digests.short(&[container.as_bytes(), &[0xFF], name.as_bytes()].concat())
    }

    /// As [`Router::link_digest`], for a resumable link: includes the user, because only its own
    /// user may resume it.
    #[must_use]
    pub fn resume_digest(&self, user: Option<&str>, container: &str, name: &str) -> u64 {
        let Some(user) = user else { return self.link_digest(container, name) };
        self.storage.digests.short(&[user.as_bytes(), &[0xFF], container.as_bytes(), &[0xFF], name.as_bytes()].concat())
    }

    /// Bytes of fetched or requested bodies that are in use.
    #[must_use]
    pub fn fetched_bytes(&self) -> u64 {
        self.storage.bodies.fetched_bytes()
    }
}
