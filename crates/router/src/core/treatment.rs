//! Treatments: how an address handles messages, each with its state.
//!
//! A new treatment is a module, and a line in each match on [`Treatment`]: those here, and those of
//! [`Router`](super::Router) that dispatch a link, a delivery, an outcome or a timer to the
//! treatment of its address. The code of one treatment gets its state from the addresses
//! ([`Arena::queue_mut`] and the like) and never tests which treatment it has.

use enmasse_amqp::types::{Error, Fields, Value};
use enmasse_journal::queue::{QueueStats, Refused};

use super::AddressKind;
use super::anycast::Anycast;
use super::arena::{Arena, Key};
use super::consumer::Consumer;
use super::multicast::Multicast;
use super::queue::{Queue, refusal};
use super::stream::Stream;
use super::topic::Topic;

/// The treatment of an address, with its state.
#[derive(Debug)]
pub(super) enum Treatment {
    Anycast(Anycast),
    Multicast(Multicast),
    Queue(Box<Queue>),
    Topic(Box<Topic>),
    Stream(Box<Stream>),
    /// a stored address before it is opened, and while it is deleted
    Closed,
}

impl Treatment {
    /// The treatment of a declared address. One that stores messages is closed until it is opened.
    pub(super) fn new(kind: AddressKind) -> Self {
        match kind {
            AddressKind::Anycast => Self::Anycast(Anycast::default()),
            AddressKind::Multicast => Self::Multicast(Multicast::default()),
            AddressKind::Queue | AddressKind::Topic | AddressKind::Stream => Self::Closed,
        }
    }

    /// Attaches a producer unless the bound is reached. `others`: producers attached already.
    /// Returns whether the treatment counts the producer until [`Treatment::detach_producer`].
    pub(super) fn attach_producer(&mut self, others: usize) -> Result<bool, Error> {
        match self {
            Self::Queue(queue) => match queue.opened.messages.attach_producer() {
                Ok(()) => Ok(true),
                Err(refused) => Err(refusal(&refused)),
            },
            Self::Stream(stream) => stream.attach_producer().map(|()| true),
            Self::Topic(topic) => {
                let most = topic.settings().limits.producers;
                if others >= most as usize { Err(refusal(&Refused::Producers(most))) } else { Ok(false) }
            }
            Self::Anycast(_) | Self::Multicast(_) | Self::Closed => Ok(false),
        }
    }

    /// Detaches a counted producer.
    pub(super) fn detach_producer(&mut self) {
        match self {
            Self::Queue(queue) => queue.opened.messages.detach_producer(),
            Self::Stream(stream) => stream.detach_producer(),
            // The counter was dropped with the state of the address.
            Self::Closed => {}
            Self::Anycast(_) | Self::Multicast(_) | Self::Topic(_) => {
                debug_assert!(false, "only queues and streams count producers")
            }
        }
    }

    /// Properties of the attach reply to a producer.
    pub(super) fn properties(&self) -> Fields {
        match self {
            Self::Stream(stream) => stream.properties(),
            Self::Anycast(_) | Self::Multicast(_) | Self::Queue(_) | Self::Topic(_) | Self::Closed => Fields::new(),
        }
    }

    /// The bound of the bytes of one message.
    pub(super) fn message_bytes(&self) -> u32 {
        match self {
            Self::Queue(queue) => queue.opened.messages.settings().limits.message_bytes,
            Self::Topic(topic) => topic.settings().limits.message_bytes,
            Self::Stream(stream) => stream.message_bytes(),
            Self::Anycast(_) | Self::Multicast(_) | Self::Closed => u32::MAX,
        }
    }

    /// Whether its messages may need the journal.
    pub(super) fn is_on_disk(&self) -> bool {
        match self {
            Self::Queue(queue) => queue.is_on_disk(),
            Self::Topic(topic) => topic.is_on_disk(),
            Self::Stream(_) => true,
            Self::Anycast(_) | Self::Multicast(_) | Self::Closed => false,
        }
    }

    /// Whether it, or its subscriptions, store messages one by one.
    pub(super) const fn takes_messages(&self) -> bool {
        matches!(self, Self::Queue(_) | Self::Topic(_))
    }

    /// Whether it is an undeclared subscription.
    pub(super) fn is_undeclared(&self) -> bool {
        matches!(self, Self::Queue(queue) if queue.is_undeclared())
    }

    /// Whether its producers are held back regardless of their waiting bytes: all, or only the
    /// anonymous ones, which send without its credit.
    pub(super) fn is_holding(&self, anonymous: bool) -> bool {
        match self {
            Self::Queue(queue) => anonymous && !queue.open && !queue.refuses_when_full(),
            Self::Topic(topic) => topic.is_held() || anonymous && !topic.is_open(),
            Self::Anycast(_) | Self::Multicast(_) | Self::Stream(_) | Self::Closed => false,
        }
    }

    /// Whether it may have an undispatched stored message for a consumer.
    pub(super) fn has_for(&self, consumer: &Consumer) -> bool {
        match self {
            Self::Queue(queue) => consumer.in_queue.is_some_and(|id| queue.has_for(id)),
            Self::Stream(stream) => {
                consumer.credit > 0 && consumer.reading.as_ref().is_some_and(|reading| stream.has_unread(reading))
            }
            Self::Anycast(_) | Self::Multicast(_) | Self::Topic(_) | Self::Closed => false,
        }
    }

    /// Number of messages that wait for any consumer.
    pub(super) fn waiting(&self) -> usize {
        match self {
            Self::Anycast(anycast) => anycast.waiting.len(),
            // Their messages wait for a specific consumer, or are counted by the queue.
            Self::Multicast(_) | Self::Queue(_) | Self::Topic(_) | Self::Stream(_) | Self::Closed => 0,
        }
    }

    /// Whether its deletion would lose anything apart from links.
    pub(super) fn is_used(&self) -> bool {
        match self {
            Self::Queue(queue) => queue.is_used(),
            Self::Topic(topic) => topic.has_subscriptions(),
            Self::Stream(_) => true,
            Self::Anycast(_) | Self::Multicast(_) | Self::Closed => false,
        }
    }

    /// The statistics of a queue or a stream.
    pub(super) fn stored_stats(&self) -> Option<QueueStats> {
        match self {
            Self::Queue(queue) => Some(queue.opened.messages.stats()),
            Self::Stream(stream) => Some(stream.stats()),
            Self::Anycast(_) | Self::Multicast(_) | Self::Topic(_) | Self::Closed => None,
        }
    }

    /// `[{partition, first, next}]`, of a stream.
    pub(super) fn partitions(&self) -> Option<Value> {
        match self {
            Self::Stream(stream) => Some(stream.partitions()),
            Self::Anycast(_) | Self::Multicast(_) | Self::Queue(_) | Self::Topic(_) | Self::Closed => None,
        }
    }

    /// Marks a consumer without room as not ready.
    #[inline]
    pub(super) fn set_unready(&mut self, key: Key, consumers: &mut Arena<Consumer>) {
        match self {
            Self::Anycast(anycast) => anycast.set_unready(key, consumers),
            // The others examine their consumers for each message.
            Self::Multicast(_) | Self::Queue(_) | Self::Topic(_) | Self::Stream(_) | Self::Closed => {}
        }
    }

    #[inline]
    pub(super) fn as_queue_mut(&mut self) -> Option<&mut Queue> {
        if let Self::Queue(queue) = self { Some(queue) } else { None }
    }

    #[inline]
    pub(super) fn as_stream_mut(&mut self) -> Option<&mut Stream> {
        if let Self::Stream(stream) = self { Some(stream) } else { None }
    }

    /// The statistics of the messages that it has stored, with those of undeclared subscriptions that
    /// ended.
    pub(super) fn queue_stats(&self) -> Option<QueueStats> {
        match self {
            Self::Queue(queue) => Some(queue.opened.messages.stats()),
            Self::Topic(topic) => Some(topic.past),
            Self::Anycast(_) | Self::Multicast(_) | Self::Stream(_) | Self::Closed => None,
        }
    }

    /// Bodies that it waited for have come.
    pub(super) fn end_wait(&mut self) {
        match self {
            Self::Queue(queue) => queue.awaits_bodies = false,
            Self::Stream(stream) => stream.awaits_bodies = false,
            Self::Anycast(_) | Self::Multicast(_) | Self::Topic(_) | Self::Closed => {
                debug_assert!(false, "only stored addresses have bodies");
            }
        }
    }

    /// Messages that return from now on go ahead of those that returned before.
    pub(super) fn close_returned(&mut self) {
        match self {
            Self::Anycast(anycast) => anycast.waiting.close_returned(),
            Self::Multicast(_) | Self::Queue(_) | Self::Topic(_) | Self::Stream(_) | Self::Closed => {}
        }
    }
}

impl Treatment {
    /// Panics, like the index of an arena: the address does not have the required treatment.
    #[cold]
    #[inline(never)]
    pub(super) fn is_not(&self, expected: &str) -> ! {
        let found = match self {
            Self::Anycast(_) => "Anycast",
            Self::Multicast(_) => "Multicast",
            Self::Queue(_) => "Queue",
            Self::Topic(_) => "Topic",
            Self::Stream(_) => "Stream",
            Self::Closed => "Closed",
        };
        panic!("the treatment of the address is {found}, expected {expected}")
    }
}
