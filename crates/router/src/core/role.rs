//! What links request of an address.

use std::collections::HashMap;
use std::sync::Arc;

use enmasse_amqp::selector::Selector;
use enmasse_amqp::types::DeliveryState;

use super::filter::Filter;

/// The role of a link at an address.
#[derive(Clone, Debug)]
pub enum AttachmentRole {
    /// it sends messages
    Producer {
        /// the link is anonymous and has several addresses: it may send without a consumer
        anonymous: bool,
        /// the name it sends to, which filters of multicast consumers match; `None` matches no
        /// filter
        name: Option<Arc<str>>,
        /// its name, if its messages are numbered (`docs/contracts.md` 8)
        producer_name: Option<Arc<str>>,
        /// set if its link can be resumed
        resume: Option<Box<Resume>>,
    },
    /// it receives messages
    Consumer {
        /// the requested names of those that a multicast address covers; `None` is all
        filter: Option<Filter>,
        /// how it consumes from a stored address
        consuming: Consuming,
    },
}

/// The origin of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// identifies one connection; never reused
    pub connection: u128,
    /// the container id of the client
    pub container: Arc<str>,
}

/// The messages that a subscription excludes because its own client sends them (JMS noLocal).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLocal {
    /// messages from this connection
    Connection(u128),
    /// messages from this container, over any connection
    Container(Arc<str>),
}

impl NoLocal {
    /// Whether messages from `origin` are excluded.
    #[must_use]
    pub fn covers(&self, origin: &Origin) -> bool {
        match self {
            Self::Connection(connection) => *connection == origin.connection,
            Self::Container(container) => *container == origin.container,
        }
    }
}

/// How a link consumes from a stored address, or from its subscription of a topic.
#[derive(Clone, Debug, Default)]
pub struct Consuming {
    /// the messages it requests; `None` is all
    pub selector: Option<Arc<Selector>>,
    /// it browses (3.5.3, distribution-mode `copy`)
    pub browses: bool,
    /// consumers of higher priority are served first while they have credit
    pub priority: i32,
    /// it requests exclusive access
    pub exclusive: bool,
    /// at a topic, for a subscription of its own, and at a multicast: the origin whose messages are
    /// excluded
    pub no_local: Option<NoLocal>,
    /// at a topic: the requested subscription; `None` is a new one of its own
    pub subscribing: Option<Box<Subscribing>>,
    /// digest of container id and link name: the consumer excluded by
    /// `modified(undeliverable-here)`
    pub name: u64,
    /// where it begins to read a stream
    pub start: Start,
    /// the requested partition of a stream; `None` is all
    pub partition: Option<u32>,
    /// all deliveries to it are sent settled
    pub settled: bool,
    /// what its deliveries are due
    pub guarantee: Guarantee,
    /// at the queue of retained messages: the topics whose messages it requests. It gets those that
    /// the queue has when it attaches
    pub retained: Option<Filter>,
    /// set if its link can be resumed
    pub resume: Option<Box<Resume>>,
}

/// What the deliveries to a link are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guarantee {
    /// an outcome; without one the message returns to its address
    #[default]
    Outcome,
    /// nothing: each counts as accepted once its link has it (QoS 0 of MQTT)
    AtMostOnce,
    /// as `Outcome`, and what was sent does not expire any more (QoS 1 and 2 of MQTT 5.0, 4.3.3)
    Kept,
}

/// Where a reader begins: `rabbitmq:stream-offset-spec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// the oldest retained message
    First,
    /// the newest message
    Last,
    /// behind the newest message
    #[default]
    Next,
    /// an offset
    Offset(u64),
    /// the first message that is not older than a time, milliseconds since 1970
    Time(u64),
}

/// The undeclared subscription of a topic that a link requests.
#[derive(Clone, Debug, Default)]
pub struct Subscribing {
    /// its name; `None`: a new one for this link alone
    pub name: Option<SubscriptionName>,
    /// other links may use it too
    pub shared: bool,
    /// the messages that it stores; `None` is all
    pub selector: Option<Arc<Selector>>,
    /// the origin whose messages are excluded
    pub no_local: Option<NoLocal>,
    /// the requested name: that of the topic, one below it, or one with wildcards
    pub wanted: Arc<str>,
    /// the names that the client may receive from; `None` is all
    pub allowed: Option<Filter>,
    /// identifies what the link requests: a link with another description under the same name
    /// requests another subscription. It is stored for a durable subscription
    pub description: Arc<[u8]>,
}

/// The name of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SubscriptionName {
    /// the address space
    pub space: u32,
    /// the container that owns it; `None`: shared by all
    pub container: Option<Arc<str>>,
    /// the name that clients use
    pub name: Arc<str>,
    /// it outlives its links
    pub durable: bool,
}

/// Unsettled deliveries at one end of a link, by tag, and their states there (2.7.3).
pub type Unsettled = Vec<(Vec<u8>, Option<DeliveryState>)>;

/// The request of a link to be resumable.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    /// digest of user, container id and link name
    pub link: u64,
    /// seconds for which its state is kept after the link ended
    pub keep_s: u32,
    /// the unsettled map of the peer; `None`: the peer has no state
    pub unsettled: Option<Unsettled>,
    /// the map is incomplete (`incomplete-unsettled`)
    pub incomplete: bool,
}

impl Resume {
    pub(in crate::core) fn states(&self) -> HashMap<&[u8], Option<&DeliveryState>> {
        let reported = self.unsettled.iter().flatten();
        reported.map(|(tag, state)| (tag.as_slice(), state.as_ref())).collect()
    }
}
