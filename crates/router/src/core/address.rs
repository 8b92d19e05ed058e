//! One address, its producers and its consumers.

use super::anycast::Anycast;
use super::arena::{Arena, Key};
use super::multicast::Multicast;
use super::producer::Producer;
use super::queue::{Queue, Subscription};
use super::received::Account;
use super::stream::Stream;
use super::topic::Topic;
use super::treatment::Treatment;
use super::{AddressStats, Declared};

#[derive(Debug)]
pub(super) struct Address {
    pub(super) declared: Declared,
    /// the account of its address space
    pub(super) account: Account,
    pub(super) producers: Vec<Key>,
    pub(super) consumers: Vec<Key>,
    /// consumers without a filter
    pub(super) takers_of_all: u32,
    /// counts changes of `consumers`
    pub(super) epoch: u32,
    /// unsettled copies that consumers hold
    pub(super) unsettled: u32,
    /// without the values that are computed on request
    pub(super) stats: AddressStats,
    /// the address is about to be deleted and accepts no link
    pub(super) sealed: bool,
    pub(super) treatment: Treatment,
}

impl Address {
    pub(super) fn new(declared: Declared, account: Account) -> Self {
        Self {
            treatment: Treatment::new(declared.kind),
            declared,
            account,
            producers: Vec::new(),
            consumers: Vec::new(),
            takers_of_all: 0,
            epoch: 0,
            unsettled: 0,
            stats: AddressStats::default(),
            sealed: false,
        }
    }
}

impl Address {
    /// The counts that a dispatch changes.
    #[inline]
    pub(super) fn counts(&mut self) -> (&mut u32, &mut AddressStats) {
        (&mut self.unsettled, &mut self.stats)
    }

    /// It has messages from now on: it was closed.
    pub(super) fn open_queue(&mut self, queue: Queue) {
        self.treatment = Treatment::Queue(Box::new(queue));
    }

    pub(super) fn open_topic(&mut self, topic: Topic) {
        self.treatment = Treatment::Topic(Box::new(topic));
    }

    pub(super) fn open_stream(&mut self, stream: Stream) {
        self.treatment = Treatment::Stream(Box::new(stream));
    }

    /// It is a topic no more.
    pub(super) fn close_topic(&mut self) -> Option<Box<Topic>> {
        match std::mem::replace(&mut self.treatment, Treatment::Closed) {
            Treatment::Topic(topic) => Some(topic),
            other => {
                self.treatment = other;
                None
            }
        }
    }

    /// The queue that it is.
    pub(super) fn as_queue(&self) -> Option<&Queue> {
        match &self.treatment {
            Treatment::Queue(queue) => Some(queue),
            Treatment::Anycast(_)
            | Treatment::Multicast(_)
            | Treatment::Topic(_)
            | Treatment::Stream(_)
            | Treatment::Closed => None,
        }
    }

    /// Whether there is a consumer, or room, for messages of this producer.
    pub(super) fn open_to(&self, producer: &Producer) -> bool {
        match &self.treatment {
            Treatment::Queue(queue) => queue.open,
            Treatment::Topic(topic) => topic.is_open(),
            Treatment::Stream(_) => true,
            Treatment::Anycast(_) | Treatment::Multicast(_) | Treatment::Closed => {
                self.takers_of_all > 0 || producer.matching > 0
            }
        }
    }
}

/// Accessors for the state of one treatment. `$find` and `$find_mut` accept any key: the address
/// may be deleted or have another treatment. `$get` and `$get_mut` require an address with this
/// treatment.
macro_rules! states {
    ($($variant:ident: $state:ty, $get:ident, $get_mut:ident, $find:ident, $find_mut:ident;)*) => {
        #[allow(dead_code, reason = "every treatment has the same four")]
        impl Arena<Address> {
            $(
                #[inline]
                pub(super) fn $find(&self, at: Key) -> Option<&$state> {
                    match &self.get(at)?.treatment {
                        Treatment::$variant(state) => Some(state),
                        _ => None,
                    }
                }

                #[inline]
                pub(super) fn $find_mut(&mut self, at: Key) -> Option<&mut $state> {
                    match &mut self.get_mut(at)?.treatment {
                        Treatment::$variant(state) => Some(state),
                        _ => None,
                    }
                }

                #[inline]
                pub(super) fn $get(&self, at: Key) -> &$state {
                    match &self[at].treatment {
                        Treatment::$variant(state) => state,
                        other => other.is_not(stringify!($variant)),
                    }
                }

                #[inline]
                pub(super) fn $get_mut(&mut self, at: Key) -> &mut $state {
                    match &mut self[at].treatment {
                        Treatment::$variant(state) => state,
                        other => other.is_not(stringify!($variant)),
                    }
                }
            )*
        }
    };
}

states! {
    Anycast: Anycast, anycast, anycast_mut, find_anycast, find_anycast_mut;
    Multicast: Multicast, multicast, multicast_mut, find_multicast, find_multicast_mut;
    Queue: Queue, queue, queue_mut, find_queue, find_queue_mut;
    Topic: Topic, topic, topic_mut, find_topic, find_topic_mut;
    Stream: Stream, stream, stream_mut, find_stream, find_stream_mut;
}

impl Arena<Address> {
    /// The subscription of a queue that belongs to a topic.
    pub(in crate::core) fn subscription(&self, at: Key) -> Option<&Subscription> {
        self.find_queue(at)?.subscription.as_deref()
    }

    pub(in crate::core) fn subscription_mut(&mut self, at: Key) -> Option<&mut Subscription> {
        self.find_queue_mut(at)?.subscription.as_deref_mut()
    }
}
