//! The addresses of a run, and the node's Plan for them.

use enmasse_router::core::AddressKind;
use enmasse_router::plan::{Address, AddressLimits, AddressType, Redelivery, Retention, Subscription, Ttl};

use crate::random::Random;

/// The dead-letter address of `orders` and of the subscriptions.
pub(crate) const DEAD_LETTERS: &str = "dead";
/// The expiry address of `brief`.
pub(crate) const EXPIRED: &str = "expired";

/// The queue of clients of MQTT.
pub(crate) const QUEUE: &str = "orders";
/// Their topics, which may have different homes.
pub(crate) const TOPICS: [&str; 2] = ["events", "signals"];
/// Their stream.
pub(crate) const STREAM: &str = "log";

/// The topics of subscriptions that move from one to the other.
pub(crate) const MOVING: [&str; 2] = ["news", "sport"];

/// One declared address.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    /// its name; the same in every space
    pub(crate) name: &'static str,
    /// its treatment of messages
    pub(crate) kind: AddressKind,
    /// its type in the Plan
    address_type: AddressType,
    /// window of a producer, in deliveries
    pub(crate) capacity: u32,
    /// settings of messages stored in it or in its subscriptions
    pub(crate) terms: Terms,
    /// partitions of a stream
    partitions: Option<u32>,
    /// most messages stored
    messages_max: Option<u64>,
}

/// The settings of stored messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// failed attempts after which a message becomes a dead letter; 0: never
    pub(crate) attempts: u32,
    /// whether a failed message becomes a dead letter; otherwise it is dropped
    pub(crate) dead_letter: bool,
    /// time to live in milliseconds; an expired message goes to the expiry address
    pub(crate) ttl_ms: Option<u64>,
}

impl Declared {
    fn new(name: &'static str, address_type: AddressType, capacity: u32) -> Self {
        let kind = match address_type {
            AddressType::Anycast => AddressKind::Anycast,
            AddressType::Multicast => AddressKind::Multicast,
            AddressType::Topic => AddressKind::Topic,
            AddressType::Queue | AddressType::Subscription | AddressType::Deadletter => AddressKind::Queue,
        };
        let (terms, partitions, messages_max) = (Terms::default(), None, None);
        Self { name, kind, address_type, capacity, terms, partitions, messages_max }
    }

    /// The addresses of the direct profile.
    pub(crate) fn direct(random: &mut Random) -> Vec<Self> {
        let names = [
            ("one", AddressType::Anycast),
            ("two", AddressType::Anycast),
            ("all", AddressType::Multicast),
            ("each", AddressType::Multicast),
        ];
        names.into_iter().map(|(name, kind)| Self::new(name, kind, capacity(random))).collect()
    }

    /// The addresses of the stored profile.
    pub(crate) fn stored(random: &mut Random) -> Vec<Self> {
        let failing = Terms { attempts: 3, dead_letter: true, ttl_ms: None };
        let dropping = Terms { attempts: random.between(2, 3) as u32, dead_letter: false, ttl_ms: None };
        let expiring = Terms { ttl_ms: Some(random.between(20, 400)), ..Terms::default() };
        let mut address = |name, kind, terms| Self { terms, ..Self::new(name, kind, capacity(random)) };
        let mut addresses = vec![
            address("one", AddressType::Anycast, Terms::default()),
            address("all", AddressType::Multicast, Terms::default()),
            address("orders", AddressType::Queue, failing),
            address("jobs", AddressType::Queue, dropping),
            address("brief", AddressType::Queue, expiring),
            address("plain", AddressType::Queue, Terms::default()),
            address(DEAD_LETTERS, AddressType::Deadletter, Terms::default()),
            address(EXPIRED, AddressType::Deadletter, Terms::default()),
            address("news", AddressType::Topic, failing),
            address("news::all", AddressType::Subscription, failing),
            address("events", AddressType::Topic, Terms::default()),
            address("sport", AddressType::Topic, failing),
        ];
        addresses[5].messages_max = *random.pick(&[None, None, Some(20)]);
        addresses[10].kind = AddressKind::Stream;
        addresses[10].partitions = Some(random.between(1, 3) as u32);
        addresses
    }

    /// The addresses of clients of MQTT.
    pub(crate) fn devices(random: &mut Random) -> Vec<Self> {
        let mut addresses = vec![
            Self::new(QUEUE, AddressType::Queue, 1000),
            Self::new(TOPICS[0], AddressType::Topic, 1000),
            Self::new(STREAM, AddressType::Topic, 1000),
            Self::new(TOPICS[1], AddressType::Topic, 1000),
        ];
        addresses[2].kind = AddressKind::Stream;
        addresses[2].partitions = Some(random.between(1, 3) as u32);
        // With it the other queue has another home than the sessions.
        if random.chance(700) {
            addresses.push(Self::new("aside", AddressType::Queue, 1000));
        }
        addresses
    }

    /// The largest window of a producer, in deliveries.
    pub(crate) fn window(&self) -> u32 {
        self.messages_max.map_or(self.capacity, |most| self.capacity.min(most as u32))
    }

    /// Whether its number of stored messages is bounded.
    pub(crate) const fn is_bounded(&self) -> bool {
        self.messages_max.is_some()
    }

    /// Whether clients may send to it.
    pub(crate) fn takes_messages(&self) -> bool {
        !matches!(self.address_type, AddressType::Deadletter | AddressType::Subscription)
    }

    pub(crate) fn plan(&self, uid: String) -> Address {
        let terms = self.terms;
        let limits =
            AddressLimits { link_capacity: self.capacity, messages: self.messages_max, ..AddressLimits::default() };
        let topic = self.name.split_once("::").map(|(topic, _)| topic.to_owned());
        Address {
            limits,
            redelivery: (terms.attempts > 0)
                .then(|| Redelivery { attempts: Some(terms.attempts), ..Redelivery::default() }),
            deadletter: terms.dead_letter.then(|| DEAD_LETTERS.to_owned()),
            ttl: terms.ttl_ms.map(|ttl| Ttl { minimum_ms: None, maximum_ms: Some(ttl) }),
            expiry: terms.ttl_ms.map(|_| EXPIRED.to_owned()),
            retention: self.partitions.map(|_| Retention { bytes: Some(1 << 30), age_ms: None }),
            partitions: self.partitions,
            subscription: topic.map(|topic| Subscription { topic, max_consumers: 1000 }),
            ..Address::new(uid, self.name, self.address_type)
        }
    }
}

fn capacity(random: &mut Random) -> u32 {
    *random.pick(&[1, 3, 10, 1000])
}

/// The name of a space.
#[must_use]
pub(crate) fn space_name(space: usize) -> String {
    format!("space{space}")
}
