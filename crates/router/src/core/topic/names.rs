//! The homes of subscriptions by their names: a directory that the shards of a node share.
//!
//! A name (container id and link name) identifies one subscription of its address space, whichever
//! topic it is of. A home claims the name before it makes the subscription. If another home has it,
//! that one decides whether the link may replace its subscription, and ends it (mapping of JMS to AMQP:
//! a durable subscription with another topic or selector replaces the former one); the link waits for
//! that. A link that names no topic goes to the home that has the name.
//!
//! The directory has one entry for each named subscription. Those of recovered subscriptions are in it
//! before any client can attach ([`RecoveredQueues::settle`](crate::shard::RecoveredQueues::settle)).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use enmasse_amqp::types::{Error, condition};

use super::super::arena::Key;
use super::super::replacement::Replacement;
use super::super::{
    AttachmentId, AttachmentRole, Consuming, Declared, Filter, Links, Router, Subscribing, SubscriptionName, ToLink,
};

/// The names of the undeclared subscriptions of a node, and their homes.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionNames(Arc<Names>);

#[derive(Debug, Default)]
struct Names {
    /// by a digest: the names are with the subscriptions
    homes: Mutex<HashMap<u128, u16>>,
    keys: [RandomState; 2],
}

impl SubscriptionNames {
    fn digest(&self, name: &SubscriptionName) -> u128 {
        let [high, low] = [0, 1].map(|key: usize| self.0.keys[key].hash_one(name));
        u128::from(high) << 64 | u128::from(low)
    }

    fn homes(&self) -> MutexGuard<'_, HashMap<u128, u16>> {
        self.0.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The home of the subscription with this name.
    #[must_use]
    pub fn home_of(&self, name: &SubscriptionName) -> Option<u16> {
        self.homes().get(&self.digest(name)).copied()
    }

    /// Claims a name for a home. `Err`: another home has it.
    pub(crate) fn claim(&self, name: &SubscriptionName, home: u16) -> Result<(), u16> {
        let has = *self.homes().entry(self.digest(name)).or_insert(home);
        if has == home { Ok(()) } else { Err(has) }
    }

    pub(super) fn release(&self, name: &SubscriptionName, home: u16) {
        let before = self.homes().remove(&self.digest(name));
        debug_assert_eq!(before, Some(home), "a home releases a name that it has");
    }
}

/// A link that waits until another home has ended the subscription with its name.
#[derive(Debug)]
pub(super) struct WaitingLink {
    address: Declared,
    filter: Option<Filter>,
    consuming: Consuming,
}

/// The error for links at a subscription that has ended.
pub(super) fn ended() -> Error {
    Error::new(condition::RESOURCE_DELETED, "the subscription has ended")
}

impl Router {
    /// Sets the directory of the names of subscriptions. Call it before the first address is opened.
    pub fn set_subscription_names(&mut self, names: SubscriptionNames) {
        self.subscriptions.names = names;
    }

    /// Attaches a consumer to a subscription of a topic. Returns its queue; `None`: the link is refused,
    /// or waits for another home.
    pub(in crate::core) fn attach_to_topic(
        &mut self,
        attachment: AttachmentId,
        (address, at): (Declared, Key),
        filter: Option<&Filter>,
        consuming: &mut Consuming,
        links: &mut impl Links,
    ) -> Option<Key> {
        let name = consuming.subscribing.as_ref().and_then(|subscribing| subscribing.name.clone());
        let name = name.filter(|name| !self.subscriptions.by_name.contains_key(name));
        if let Some(name) = &name
            && let Err(home) = self.subscriptions.names.claim(name, self.shard)
        {
            // The other home ends its subscription, with all its messages: not for a link that is
            // refused afterwards.
            match self.check_requested(at, consuming) {
                Ok(()) => self.ask_for_name(attachment, home, (address, filter, consuming), links),
                Err(error) => links.send(ToLink::Attached { attachment, answer: Err(error) }),
            }
            return None;
        }
        match self.subscribe(at, filter.cloned(), consuming, links) {
            Ok(queue) => Some(queue),
            Err(error) => {
                if let Some(name) = name {
                    self.subscriptions.names.release(&name, self.shard);
                }
                links.send(ToLink::Attached { attachment, answer: Err(error) });
                None
            }
        }
    }

    fn check_requested(&self, at: Key, consuming: &Consuming) -> Result<(), Error> {
        self.check_consumers(at)?;
        consuming.subscribing.as_ref().map_or(Ok(()), |requested| self.check_subscriptions(at, requested))
    }

    /// Asks the home with the name of a requested subscription to end its own.
    #[cold]
    fn ask_for_name(
        &mut self,
        attachment: AttachmentId,
        home: u16,
        (address, filter, consuming): (Declared, Option<&Filter>, &Consuming),
        links: &mut impl Links,
    ) {
        let Some(requested) = consuming.subscribing.clone() else { return };
        let waiting = WaitingLink { address, filter: filter.cloned(), consuming: consuming.clone() };
        self.subscriptions.waiting.insert(attachment, Box::new(waiting));
        links.replace(home, Replacement::Ask { by: self.shard, attachment, requested });
    }

    /// Handles a command of another home about a name.
    pub fn replace_subscription(&mut self, replacement: Replacement, links: &mut impl Links) {
        match replacement {
            Replacement::Ask { by, attachment, requested } => {
                let answer = self.end_named(&requested, links);
                links.replace(by, Replacement::Answer { attachment, answer });
            }
            Replacement::Answer { attachment, answer } => {
                // Its client has ended it in the meantime.
                let Some(waiting) = self.subscriptions.waiting.remove(&attachment) else { return };
                let WaitingLink { address, filter, consuming } = *waiting;
                let at = self.by_key.get(&address.key);
                let answer = answer.and_then(|()| match at.and_then(|at| self.addresses.find_topic(*at)) {
                    Some(_) => Ok(()),
                    None => Err(Error::new(condition::NOT_FOUND, "the topic was deleted")),
                });
                match answer {
                    Ok(()) => {
                        let role = AttachmentRole::Consumer { filter, consuming };
                        self.attach(attachment, address, role, links);
                    }
                    Err(error) => links.send(ToLink::Attached { attachment, answer: Err(error) }),
                }
            }
        }
    }

    /// Ends the subscription with the name of a requested one, which is of another topic.
    fn end_named(&mut self, requested: &Subscribing, links: &mut impl Links) -> Result<(), Error> {
        let known = requested.name.as_ref().and_then(|name| self.subscriptions.by_name.get(name).copied());
        // It has ended in the meantime.
        let Some(known) = known else { return Ok(()) };
        self.accepts_more(known, requested)?;
        let key = self.addresses[known].declared.key;
        self.delete_address(key, &ended(), links);
        Ok(())
    }

    /// Forgets a link that has ended while it waited.
    pub(in crate::core) fn forget_waiting_link(&mut self, attachment: AttachmentId) {
        self.subscriptions.waiting.remove(&attachment);
    }
}
