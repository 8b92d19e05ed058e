//! How a consumer of a queue chooses messages.

use std::sync::Arc;

use enmasse_amqp::codec::scan;
use enmasse_amqp::selector::{Selector, Subject};
use enmasse_journal::log::RecordLocation;
use enmasse_journal::queue::{Item, Seq};

use super::super::storage::Bodies;
use super::super::{Consuming, Filter};

/// The retained messages that a consumer requests.
#[derive(Debug)]
pub(in crate::core) struct RetainedSelection {
    /// their topics
    topics: Filter,
    /// later ones come through the consumer's subscription
    before: Seq,
}

/// The message selection of a consumer at a stored address.
#[derive(Debug, Default)]
pub(in crate::core) struct MessageSelection {
    pub(in crate::core) selector: Option<Arc<Selector>>,
    /// at the queue of retained messages
    pub(in crate::core) retained: Option<RetainedSelection>,
    pub(in crate::core) browses: bool,
    /// the body that it waits for
    pub(in crate::core) awaited_body: Option<RecordLocation>,
    /// bodies that were fetched for its selector
    pub(in crate::core) ahead: Vec<RecordLocation>,
    /// the turn in which it used up its share
    pub(in crate::core) deferred_in: u64,
}

impl MessageSelection {
    /// `next`: the number of the queue's next message.
    pub(in crate::core) fn of(consuming: Consuming, next: Seq) -> Self {
        let retained = consuming.retained.map(|topics| RetainedSelection { topics, before: next });
        Self { selector: consuming.selector, retained, browses: consuming.browses, ..Self::default() }
    }

    /// Whether it takes every message.
    #[inline]
    pub(in crate::core) fn takes_all(&self) -> bool {
        self.selector.is_none() && self.retained.is_none()
    }

    /// Whether it may take a message whose body is not known yet.
    pub(in crate::core) fn may_take(&self, item: &Item) -> bool {
        self.retained.as_ref().is_none_or(|retained| item.seq < retained.before)
    }

    /// Whether it takes a message. A retained one without content only removes another.
    pub(in crate::core) fn takes(&self, message: &[u8], item: &Item, now_ms: u64) -> bool {
        let is_retained = |retained: &RetainedSelection| {
            scan::to(message).is_some_and(|to| retained.topics.matches(to)) && !scan::has_empty_body(message)
        };
        let selects = |selector: &Arc<Selector>| {
            let subject = Subject::new(message).delivery_count(u32::from(item.failures));
            selector.selects(&subject.at(now_ms.cast_signed()))
        };
        self.retained.as_ref().is_none_or(is_retained) && self.selector.as_ref().is_none_or(selects)
    }

    /// Whether the consumer must wait before its selector can continue: for a body, or for the next
    /// turn.
    #[inline]
    pub(in crate::core) fn must_wait(&self, turn: u64, bodies: &Bodies) -> bool {
        let waits = |place| bodies.is_pending(place) && !bodies.is_overdue(place);
        self.deferred_in == turn || self.awaited_body.is_some_and(waits)
    }
}
