//! A consumer whose link can be resumed.

use std::collections::VecDeque;

/// A consumer whose link can be resumed.
#[derive(Debug)]
pub(in crate::core) struct Resumed {
    pub(in crate::core) link: u64,
    /// numbers of messages to deliver to it again
    pub(in crate::core) again: VecDeque<u64>,
    /// only these are delivered, because its unsettled map is incomplete
    pub(in crate::core) only_redeliver: bool,
}
