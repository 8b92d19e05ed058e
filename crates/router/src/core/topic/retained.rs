//! The retained message of a topic: the last one that its producers sent with the annotation
//! `x-opt-retain-message`.
//!
//! It is stored in a queue of the address space too, the last value of each name in `to`, in one
//! group with the copies of the subscriptions. A message without content removes it.

use enmasse_amqp::codec::envelope::Envelope;
use enmasse_amqp::codec::scan::{Scalar, has_empty_body, scalar, type_of};
use enmasse_amqp::types::{Error, condition};
use enmasse_journal::queue::Head;

use super::super::Router;
use super::super::arena::Key;
use super::super::posting::Retention;

/// How long the message without content is kept that removes another, in milliseconds.
const REMOVAL_TTL_MS: u64 = 1000;

/// What a message does to the retained message of its topic, with their queue.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Retaining {
    pub(in crate::core) queue: Key,
    retention: Retention,
}

impl Retaining {
    /// Whether it removes the retained message.
    pub(super) fn removes(self) -> bool {
        self.retention == Retention::Remove
    }

    /// Lets a message that removes another expire there.
    pub(super) fn limit_time(self, head: &mut Head) {
        if self.removes() {
            (head.ttl_ms, head.absolute_expiry) = (Some(REMOVAL_TTL_MS), None);
        }
    }
}

impl Router {
    /// What a message of a producer does to the retained message of its topic.
    ///
    /// # Errors
    /// `amqp:invalid-field`: the annotation is no boolean, or `to` is not the name that the message
    /// is sent to. Another `to` would replace the message of a topic that the right to send was not
    /// checked for; without it no receiver could find the message.
    pub(super) fn retention(
        &self,
        from: Key,
        envelope: &Envelope<'_>,
        body: &[u8],
    ) -> Result<Option<Retention>, Error> {
        let Some(encoded) = envelope.retain else { return Ok(None) };
        let producer = &self.producers[from];
        if self.retained_queue(producer.address).is_none() {
            return Ok(None);
        }
        match scalar(encoded) {
            Ok(Scalar::Bool(true)) => {}
            Ok(Scalar::Bool(false) | Scalar::Null) => return Ok(None),
            _ => {
                let found = type_of(encoded);
                let what = format!("message-annotations: x-opt-retain-message is {found}: set a boolean");
                return Err(Error::new(condition::INVALID_FIELD, what));
            }
        }
        let topic = self.addresses.topic(producer.address);
        let name = producer.name.as_deref().unwrap_or(&topic.opened.name);
        if envelope.to != Some(name) {
            let found = envelope.to.map_or_else(|| "missing".to_owned(), |to| format!("\"{to}\""));
            let what =
                format!("properties.to of a retained message is {found}: set \"{name}\", the name it is sent to");
            return Err(Error::new(condition::INVALID_FIELD, what));
        }
        Ok(Some(if has_empty_body(body) { Retention::Remove } else { Retention::Replace }))
    }

    /// The queue that stores a message of the topic `at`, if that is to be retained.
    pub(in crate::core) fn retaining(&self, at: Key, retention: Option<Retention>) -> Option<Retaining> {
        let retention = retention?;
        Some(Retaining { queue: self.retained_queue(at)?, retention })
    }

    fn retained_queue(&self, at: Key) -> Option<Key> {
        let declared = self.addresses.find_topic(at)?.opened.retained?;
        let queue = self.by_key.get(&declared).copied()?;
        self.addresses.find_queue(queue).is_some().then_some(queue)
    }
}
