//! The router proper: the addresses that live on one shard, and every decision about them.
//!
//! Inputs: links as attachments ([`Router::attach`]), messages as arrivals ([`Router::deliver`]),
//! credit and outcomes of consumers. Results leave through [`Links`]. The router has no I/O, no
//! clock and no threads: its owner calls it, and equal calls with an equal seed give equal results.
//! `docs/contracts.md` 7 states its guarantees.

mod address;
mod anycast;
mod arena;
mod arriving;
mod attachment;
mod command;
mod consumer;
mod consumer_credit;
mod delivery;
mod describe;
mod dispatch;
mod ending;
mod filter;
mod handover;
mod ids;
mod incoming;
mod lifecycle;
mod links;
mod message;
mod multicast;
mod outcome;
mod parts;
mod posting;
mod producer;
mod producer_window;
mod queue;
mod random;
mod received;
mod replacement;
mod role;
mod schedule;
mod sealing;
mod stats;
mod storage;
mod stream;
mod topic;
mod transactions;
mod treatment;
mod turn;
pub(crate) mod wire;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use enmasse_amqp::types::Outcome;

use address::Address;
use arena::{Arena, Key};
use attachment::{Attachments, Occupant};
use consumer::Consumer;
use message::Messages;
use outcome::{Join, Pending};
use producer::{Incoming, Producer};
use queue::{Diversions, Operations, PacketIdOf, Queue};
use random::Random;
use received::Received;
use schedule::Schedule;
use storage::{Bodies, Storage};
use stream::Waiting;
use topic::Subscriptions;
use transactions::Transactions;
use treatment::Treatment;

pub(crate) use command::ToHome;
pub use command::{Hold, ToLink};
pub use consumer::{BACKLOG_BYTES, BACKLOG_MESSAGES};
pub use delivery::{Arrival, Delivery};
pub use describe::AddressDescription;
pub use ending::{Ending, Verdict};
pub use filter::Filter;
pub use handover::{Handover, HandoverReason};
pub use ids::{AttachmentId, Flow, Joint, PacketFlow, QuestionId, TransactionId};
pub use links::Links;
pub use multicast::{OVERDUE_PROBATION_MS, SETTLE_TIMEOUT_MS, STALL_MS};
pub use queue::{
    Budget, DYNAMIC_KEYS, ExaminedMessage, Failed, OpenQueue, Operated, Operation, QueueNumbers, TEMPORARY_BYTES,
    TEMPORARY_MESSAGES, Work,
};
pub use received::{ReceiveBudget, SPACE_BYTES_MIN};
pub use replacement::Replacement;
pub use role::{
    AttachmentRole, Consuming, Guarantee, NoLocal, Origin, Resume, Start, Subscribing, SubscriptionName, Unsettled,
};
pub use stats::AddressStats;
pub use storage::{Answer, Damaged, Digests, LAST_VALUE_OF_TO, Read, subscription_of};
pub use stream::Stream;
pub use topic::{OpenTopic, SubscriptionNames};
pub use transactions::{TRANSACTION_MESSAGES, rolled_back};

/// Payload bytes of one producer that may wait before the producer is held back. It continues at
/// half of this.
pub const HOLD_BYTES: usize = 1 << 20;

/// The same for a producer of a direct address while its space uses half of its share of waiting
/// bytes.
pub const CROWDED_HOLD_BYTES: usize = 64 << 10;

/// The identity of an address, never reused for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressKey(pub u32);

/// An address that another one refers to, and its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// the address
    pub key: AddressKey,
    /// its home
    pub home: u16,
}

/// How an address treats messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// each message to one of the consumers
    Anycast,
    /// each message to every consumer
    Multicast,
    /// each message into a queue, and from there to one of the consumers
    Queue,
    /// each message into every subscription, which is a queue
    Topic,
    /// each message appended to an ordered log, for any number of readers
    Stream,
}

impl AddressKind {
    /// Whether messages are stored, on disk or in memory.
    #[must_use]
    pub const fn stores(self) -> bool {
        matches!(self, Self::Queue | Self::Topic | Self::Stream)
    }
}

/// The router's view of a declared address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// identity
    pub key: AddressKey,
    /// treatment
    pub kind: AddressKind,
    /// deliveries that may wait for one producer
    pub link_capacity: u32,
    /// the address space it belongs to
    pub space: u32,
}

/// The shard whose router issued `token`.
#[must_use]
pub const fn home_of_token(token: u64) -> u16 {
    (token >> 48) as u16
}

/// The addresses that live on one shard: a state machine without I/O or clock.
///
/// Its owner, a [`Shard`](crate::shard::Shard), calls these kinds of methods:
///
/// - Addresses: [`open_queue`](Self::open_queue), [`open_topic`](Self::open_topic) and
///   [`open_stream`](Self::open_stream) before the first link; the first link opens a direct
///   address. [`delete_address`](Self::delete_address) ends all links of an address.
/// - Links: [`attach`](Self::attach), then any of the calls below, then
///   [`detach`](Self::detach) or [`depart`](Self::depart), after which the attachment is unknown.
///   Links that end together are all stalled ([`stall`](Self::stall)) before the first of them
///   gives deliveries back ([`relinquish`](Self::relinquish)).
/// - Producers: [`deliver`](Self::deliver) for each part of a delivery, in order;
///   [`post_delivery`](Self::post_delivery) within a transaction.
/// - Consumers: [`credit`](Self::credit), then [`outcome`](Self::outcome) for each unsettled
///   delivery, or [`refused`](Self::refused) for a part without room.
/// - Transactions: [`declare`](Self::declare), postings and retirements,
///   [`prepare`](Self::prepare), [`discharge`](Self::discharge).
/// - Time: [`set_time`](Self::set_time) at the beginning of a turn;
///   [`next_timeout`](Self::next_timeout) is the latest time of the next one.
/// - Turn: [`process_dirty`](Self::process_dirty) and then [`turn`](Self::turn), at the end of each
///   turn of the owner.
/// - Journal: after the turn [`take_journal`](Self::take_journal) until it is empty and
///   [`take_wanted`](Self::take_wanted); the answers come back through
///   [`journaled`](Self::journaled), in the same order, and [`fetched`](Self::fetched).
///
/// Results for links leave through [`Links`], within the call that causes them.
///
/// Every look-up is by index: an attachment leads to its producer or consumer, these to their
/// address, and a token to the copy that it identifies. A message that finds a consumer with room
/// is not copied here and allocates nothing.
#[derive(Debug)]
pub struct Router {
    shard: u16,
    random: Random,
    attachments: Attachments,
    by_key: HashMap<AddressKey, Key>,
    addresses: Arena<Address>,
    producers: Arena<Producer>,
    consumers: Arena<Consumer>,
    pending: Arena<Pending>,
    direct: Direct,
    scratch: Scratch,
    /// milliseconds since 1970
    now_ms: u64,
    /// turns so far
    turns: u64,
    schedule: Schedule,
    /// received bytes that are not stored yet
    received: Received,
    storage: Storage,
    diversions: Diversions,
    /// operations of administrators
    operations: Operations,
    subscriptions: Subscriptions,
    queue_numbers: QueueNumbers,
    transactions: Transactions,
    /// the packet identifier of the message that is being delivered, until it is stored
    packet_id: Option<PacketIdOf>,
}

/// Waiting messages of direct addresses, and the outcomes of their copies.
#[derive(Debug)]
struct Direct {
    messages: Messages,
    joins: Arena<Join>,
    /// how long producers wait for a multicast consumer's outcome after another consumer has
    /// answered, milliseconds
    settle_timeout_ms: u64,
}

/// Buffers used within one call and kept to avoid allocations.
#[derive(Debug, Default)]
struct Scratch {
    audience: Vec<Key>,
    readers: Vec<Key>,
    offsets: Vec<u64>,
    bytes: Vec<u8>,
    answered: Vec<Waiting>,
}

impl Router {
    /// A router without addresses for shard `shard`. `seed` determines the random choices among
    /// equal consumers.
    #[must_use]
    pub fn new(shard: u16, seed: u64) -> Self {
        Self {
            shard,
            random: Random::new(seed),
            attachments: Attachments::default(),
            by_key: HashMap::new(),
            addresses: Arena::new(),
            producers: Arena::new(),
            consumers: Arena::new(),
            pending: Arena::new(),
            direct: Direct { messages: Messages::new(), joins: Arena::new(), settle_timeout_ms: SETTLE_TIMEOUT_MS },
            scratch: Scratch::default(),
            now_ms: 0,
            turns: 1,
            schedule: Schedule::default(),
            received: Received::new(Arc::new(ReceiveBudget::new(u64::MAX))),
            storage: Storage::default(),
            diversions: Diversions::default(),
            operations: Operations::default(),
            subscriptions: Subscriptions::default(),
            queue_numbers: QueueNumbers::new(1),
            transactions: Transactions::default(),
            packet_id: None,
        }
    }

    /// Sets the node's bound of received bytes that are not stored yet. Call it before the first
    /// address is opened.
    pub fn set_receive_budget(&mut self, budget: Arc<ReceiveBudget>) {
        self.received = Received::new(budget);
    }

    /// Processes a delivery from a producer, or a part of one.
    #[inline]
    pub fn deliver(&mut self, attachment: AttachmentId, arrival: Arrival<'_>, links: &mut impl Links) {
        let Some(from) = self.attachments.producer(attachment) else {
            return self.release_arrival(attachment, &arrival, None, links);
        };
        if !arrival.first {
            return self.part(from, &arrival, links);
        }
        let producer = &mut self.producers[from];
        if producer.incoming != Incoming::Nothing || arrival.aborted {
            return self.restart_delivery(from, &arrival, links);
        }
        self.begin_delivery(from, &arrival, links);
    }

    #[inline]
    fn begin_delivery(&mut self, from: Key, arrival: &Arrival<'_>, links: &mut impl Links) {
        let address = &mut self.addresses[self.producers[from].address];
        address.stats.presettled += u64::from(arrival.settled);
        match address.treatment {
            Treatment::Anycast(_) => self.deliver_to_one(from, arrival, links),
            Treatment::Multicast(_) => self.deliver_to_all(from, arrival, links),
            Treatment::Queue(_) | Treatment::Topic(_) | Treatment::Stream(_) => {
                self.deliver_whole(from, arrival, links);
            }
            Treatment::Closed => debug_assert!(false, "a stored address is opened before its first link"),
        }
    }

    /// A first part that arrives while another delivery is incomplete: the incomplete one is
    /// aborted. A first part that is itself aborted is dropped.
    #[cold]
    fn restart_delivery(&mut self, from: Key, arrival: &Arrival<'_>, links: &mut impl Links) {
        self.abort_incoming(from, links);
        if arrival.aborted {
            self.taken(from, 1);
        } else {
            self.begin_delivery(from, arrival, links);
        }
    }

    /// Aborts the incomplete delivery of a producer.
    fn abort_incoming(&mut self, from: Key, links: &mut impl Links) {
        if let Incoming::Message(message) = std::mem::replace(&mut self.producers[from].incoming, Incoming::Nothing) {
            self.abort(message, links);
        }
        self.take_assembly(from);
    }

    /// Releases a delivery that arrives after its address was deleted. It is a posting if it names
    /// a transaction.
    #[cold]
    fn release_arrival(
        &mut self,
        attachment: AttachmentId,
        arrival: &Arrival<'_>,
        transaction: Option<TransactionId>,
        links: &mut impl Links,
    ) {
        if arrival.first && matches!(self.attachments.get(attachment), Occupant::Detached(_)) {
            links.send(ToLink::Taken { attachment, count: 1 });
            if arrival.settled || arrival.aborted {
                return;
            }
            match transaction.filter(|id| *id != TransactionId::NONE) {
                Some(id) => links.send(ToLink::Provisional {
                    attachment,
                    delivery_id: arrival.delivery_id,
                    transaction: id,
                    outcome: Cow::Borrowed(&Outcome::Released),
                }),
                None => links.send(ToLink::Settle {
                    attachment,
                    delivery_id: arrival.delivery_id,
                    outcome: Cow::Borrowed(&Outcome::Released),
                }),
            }
        }
    }

    /// The number of waiting or incomplete messages and of unsettled copies. 0: no work is in
    /// progress.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.direct.messages.len() + self.pending.len() + self.direct.joins.len()
    }

    /// The statistics of every address that was used here and is not deleted. Those of a topic
    /// include its undeclared subscriptions.
    pub fn stats(&self) -> impl Iterator<Item = (AddressKey, AddressStats)> {
        self.sum(|key| self.stats_of(key), AddressStats::join).into_iter()
    }

    fn stats_of(&self, key: Key) -> AddressStats {
        let address = &self.addresses[key];
        let backlogs: usize = address.consumers.iter().map(|key| self.consumers[*key].backlog.len()).sum();
        AddressStats {
            producers: address.producers.len() as u32,
            consumers: address.consumers.len() as u32,
            waiting: (address.treatment.waiting() + backlogs) as u64,
            ..address.stats
        }
    }
}
