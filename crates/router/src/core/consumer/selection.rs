//! How a consumer of a queue chooses messages.

use std::sync::Arc;

use enmasse_amqp::selector::Selector;
use enmasse_journal::log::RecordLocation;

use super::super::Consuming;
use super::super::storage::Bodies;

/// The message selection of a consumer at a stored address.
#[derive(Debug, Default)]
pub(in crate::core) struct MessageSelection {
    pub(in crate::core) selector: Option<Arc<Selector>>,
    pub(in crate::core) browses: bool,
    /// the body that it waits for
    pub(in crate::core) awaited_body: Option<RecordLocation>,
    /// bodies that were fetched for its selector
    pub(in crate::core) ahead: Vec<RecordLocation>,
    /// the turn in which it used up its share
    pub(in crate::core) deferred_in: u64,
}

impl MessageSelection {
    pub(in crate::core) fn of(consuming: Consuming) -> Self {
        Self { selector: consuming.selector, browses: consuming.browses, ..Self::default() }
    }

    /// Whether the consumer must wait before its selector can continue: for a body, or for the next
    /// turn.
    #[inline]
    pub(in crate::core) fn must_wait(&self, turn: u64, bodies: &Bodies) -> bool {
        let waits = |place| bodies.is_pending(place) && !bodies.is_overdue(place);
        self.deferred_in == turn || self.awaited_body.is_some_and(waits)
    }
}
