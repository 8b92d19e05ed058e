//! The identity of a consumer.

/// Identifies a consumer of one queue; reused only after 16,384 other consumers of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConsumerId(pub(super) u32);

impl ConsumerId {
    /// A consumer that has detached.
    pub(super) const DETACHED: Self = Self(u32::MAX - 1);
}
