//! The retained message of a topic: the last one that its producers sent with the annotation
//! `x-opt-retain-message`.
//!
//! It is stored in a queue of the address space too, the last value of each name in `to`, in one
//! group with the copies of the subscriptions: a joint one if that queue has another home. A message
//! without content removes it.

use enmasse_amqp::codec::envelope::Envelope;
use enmasse_amqp::codec::scan::{Scalar, has_empty_body, scalar, type_of};
use enmasse_amqp::types::{Error, condition};

use super::super::arena::Key;
use super::super::ids::Joint;
use super::super::posting::{Retaining, Retention};
use super::super::{Destination, Handover, HandoverReason, Links, Router};

/// What a message does to the retained message of its topic, whose queue has another home.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct RetainedElsewhere {
    to: Destination,
    retention: Retention,
}

/// The queue with the retained messages of a topic's address space.
enum RetainedPlace {
    Here(Key),
    Elsewhere(Destination),
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
        if self.retained_place(producer.address).is_none() {
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

    /// The queue here that stores a message of the topic `at`, if that is to be retained.
    pub(in crate::core) fn retaining(&self, at: Key, retention: Option<Retention>) -> Option<Retaining> {
        let retention = retention?;
        match self.retained_place(at)? {
            RetainedPlace::Here(queue) => Some(Retaining::new(queue, retention)),
            RetainedPlace::Elsewhere(_) => None,
        }
    }

    /// The same for a queue at another home.
    pub(in crate::core) fn retaining_elsewhere(
        &self,
        at: Key,
        retention: Option<Retention>,
    ) -> Option<RetainedElsewhere> {
        let retention = retention?;
        match self.retained_place(at)? {
            RetainedPlace::Here(_) => None,
            RetainedPlace::Elsewhere(to) => Some(RetainedElsewhere { to, retention }),
        }
    }

    /// Whether the retained messages of the topic of a subscription have another home.
    pub(in crate::core) fn retains_elsewhere(&self, subscription: Key) -> bool {
        let topic = self.topic_of(subscription).and_then(|topic| self.retained_place(topic));
        matches!(topic, Some(RetainedPlace::Elsewhere(_)))
    }

    /// Hands a message of a topic over to the home of the retained ones. This home contributes to the
    /// returned group.
    pub(in crate::core) fn hand_over_retained(
        &mut self,
        at: Key,
        RetainedElsewhere { to, retention }: RetainedElsewhere,
        message: &[u8],
        links: &mut impl Links,
    ) -> Joint {
        let space = self.addresses[at].declared.space;
        let joint = self.storage.journal.next_joint(self.shard, 2);
        let reason = HandoverReason::Retained { removes: retention == Retention::Remove };
        links.hand_over(to.home, Handover { joint, space, to: to.key, reason, message });
        joint
    }

    fn retained_place(&self, at: Key) -> Option<RetainedPlace> {
        let declared = self.addresses.find_topic(at)?.opened.retained?;
        if declared.home != self.shard {
            return Some(RetainedPlace::Elsewhere(declared));
        }
        let queue = self.by_key.get(&declared.key).copied()?;
        self.addresses.find_queue(queue).is_some().then_some(RetainedPlace::Here(queue))
    }
}
