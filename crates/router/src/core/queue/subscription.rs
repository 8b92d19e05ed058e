//! What the queue of a subscription has in addition.

use std::sync::Arc;

use enmasse_amqp::selector::Selector;

use super::super::{AddressKey, AttachmentId, Filter, NoLocal, Origin, Subscribing, SubscriptionName};

/// The lifetime of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Lifetime {
    /// as long as it is declared
    Declared,
    /// until a client closes a link to it
    Durable,
    /// as long as its links
    Links,
}

/// The state of a subscription's queue in addition to that of every queue.
#[derive(Debug)]
pub(in crate::core) struct Subscription {
    /// its topic; `None`: the topic is missing
    pub(in crate::core) topic: Option<AddressKey>,
    pub(in crate::core) lifetime: Lifetime,
    pub(in crate::core) name: Option<SubscriptionName>,
    pub(in crate::core) shared: bool,
    pub(in crate::core) wanted: Arc<str>,
    /// the requested names; `None` is all
    pub(in crate::core) filter: Option<Filter>,
    pub(in crate::core) selector: Option<Arc<Selector>>,
    pub(in crate::core) no_local: Option<NoLocal>,
    pub(in crate::core) description: Arc<[u8]>,
    /// it is declared in the log, or needs no declaration
    pub(in crate::core) known: bool,
    /// links to answer once it is declared in the log
    pub(in crate::core) waiting: Vec<AttachmentId>,
    pub(in crate::core) back_pressure: BackPressure,
}

/// The effect of a subscription on the producers of its topic.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::core) struct BackPressure {
    pub(in crate::core) blocks: bool,
    pub(in crate::core) holds: bool,
    /// it is slow: producers do not wait for it
    pub(in crate::core) slow: bool,
    /// since when its consumers have taken nothing while it has no room, milliseconds since 1970
    pub(in crate::core) since_ms: u64,
    /// messages that they had taken at that time
    pub(in crate::core) taken: u64,
}

impl Subscription {
    pub(in crate::core) fn new(
        topic: Option<AddressKey>,
        lifetime: Lifetime,
        subscribing: Subscribing,
        filter: Option<Filter>,
    ) -> Box<Self> {
        let Subscribing { name, shared, selector, no_local, wanted, description, .. } = subscribing;
        let (known, waiting, back_pressure) = (true, Vec::new(), BackPressure::default());
        Box::new(Self {
            topic,
            lifetime,
            name,
            shared,
            wanted,
            filter,
            selector,
            no_local,
            description,
            known,
            waiting,
            back_pressure,
        })
    }

    /// Whether it may match messages sent to `name` from `origin`.
    pub(in crate::core) fn wants_from(&self, name: Option<&str>, origin: Option<&Origin>) -> bool {
        let named = self.filter.as_ref().is_none_or(|filter| name.is_some_and(|name| filter.matches(name)));
        named && self.no_local.as_ref().zip(origin).is_none_or(|(own, origin)| !own.covers(origin))
    }
}
