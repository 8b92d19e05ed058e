//! The cost of connections: an estimate in nanoseconds of processor time, by which the driver
//! bounds a turn and shares turns between address spaces.
//!
//! The estimates were measured with one worker on a 3 GHz core; only their ratios matter. Work
//! while a connection is read is charged to that connection, even if it serves another one: a
//! multicast message costs its sender one delivery for each consumer. Other work (a dispatched
//! stored message, a batch of another shard) is charged to the connection that it serves.

use super::{ConnId, Shard};

/// A frame that was parsed and routed, and a delivery written to a connection.
pub(super) const DELIVERY_NANOS: u64 = 250;
/// An attach: names, rights, the attachment at its address, and the answer.
pub(super) const ATTACH_NANOS: u64 = 8_000;
/// A link that is released.
pub(super) const RELEASE_NANOS: u64 = 4_000;
/// A delivery of a link that has ended, returned to its address.
pub(super) const RETURN_NANOS: u64 = 500;
/// A delivery covered by a disposition.
pub(super) const SETTLED_NANOS: u64 = 100;
/// A link that is checked when back-pressure of a connection is updated.
pub(super) const LINK_CHECK_NANOS: u64 = 10;

/// The result of a call of [`Shard::input_within`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputProgress {
    /// bytes that were used
    pub used: usize,
    /// its cost, in nanoseconds
    pub work_nanos: u64,
    /// the budget is spent, and there is more to do: call again, with the rest of the bytes
    pub paused: bool,
}

/// Work of one shard that has not been charged yet.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// a connection is being read: work is charged to it
    pub(super) reading: bool,
    /// the cost of its work
    pub(super) nanos: u64,
}

impl Shard {
    /// The work for a connection outside of `input_within` since the last call, in nanoseconds.
    pub fn take_work(&mut self, id: ConnId) -> u64 {
        if !self.knows(id) {
            return 0;
        }
        self.fabric.conns.get_mut(id.key()).map_or(0, |conn| std::mem::take(&mut conn.work_nanos))
    }
}
