//! The storage of an address, translated from the Plan to the queue's settings.

use enmasse_journal::queue::{Duplicates, Full, Grouping, Limits, Redelivery, Settings, Sharing, Ttl};
use enmasse_journal::stream;

use crate::plan::{self, AddressType, Durability, Groups, OnFull};

/// How a stored address treats its messages. For a topic: how its undeclared subscriptions do.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// the settings of its queue
    pub settings: Settings,
    /// accepted messages are on disk; otherwise in memory only
    pub on_disk: bool,
    /// address for messages that failed finally
    pub dead_letter: Option<Box<str>>,
    /// address for expired messages
    pub expiry: Option<Box<str>>,
    /// application property of which only the last message of each value is kept
    pub last_value_key: Option<Box<str>>,
    /// clients may not send to it
    pub read_only: bool,
    /// of a subscription: the name of its topic
    pub topic: Option<Box<str>>,
    /// the settings of a stream, if it is one
    pub stream: Option<Streaming>,
}

/// The storage of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Streaming {
    /// the settings of each partition
    pub settings: stream::Settings,
    /// at least one
    pub partitions: u32,
}

impl Storage {
    /// The storage of a stored address of the Plan.
    #[must_use]
    pub fn of(address: &plan::Address) -> Self {
        let topic = address.kind == AddressType::Topic;
        Self {
            settings: settings(address),
            on_disk: address.durability != Some(Durability::Memory),
            dead_letter: address.deadletter.as_deref().map(Into::into),
            expiry: address.expiry.as_deref().map(Into::into),
            last_value_key: address.last_value_key.as_deref().map(Into::into),
            read_only: matches!(address.kind, AddressType::Deadletter | AddressType::Subscription),
            topic: address.subscription.as_ref().map(|subscription| subscription.topic.as_str().into()),
            stream: address.retention.as_ref().filter(|_| topic).map(|retention| streaming(address, retention)),
        }
    }
}

fn streaming(address: &plan::Address, retention: &plan::Retention) -> Streaming {
    let settings = stream::Settings {
        retention: stream::Retention { bytes: retention.bytes, age_ms: retention.age_ms },
        duplicates: duplicates(address),
        limits: limits(&address.limits),
    };
    Streaming { settings, partitions: address.partitions.unwrap_or(1) }
}

fn duplicates(address: &plan::Address) -> Option<Duplicates> {
    let detection = address.duplicate_detection.as_ref()?;
    Some(Duplicates { ids: detection.ids, window_ms: detection.window_ms })
}

fn settings(address: &plan::Address) -> Settings {
    let ttl = address.ttl.clone().unwrap_or_default();
    let redelivery = address.redelivery.clone().unwrap_or_default();
    let mut limits = limits(&address.limits);
    if let Some(subscription) = &address.subscription {
        limits.consumers = limits.consumers.min(subscription.max_consumers);
    }
    Settings {
        limits,
        full: match address.limits.on_full {
            None | Some(OnFull::Block) => Full::Block,
            Some(OnFull::Reject) => Full::Reject,
            Some(OnFull::DropOldest) => Full::DropOldest,
        },
        last_value: address.last_value_key.is_some(),
        ttl: Ttl { minimum_ms: ttl.minimum_ms, maximum_ms: ttl.maximum_ms },
        reject_is_failure: redelivery.reject_is_failure.unwrap_or(false),
        redelivery: Redelivery {
            attempts_max: redelivery.attempts.map_or(0, |attempts| u16::try_from(attempts).unwrap_or(u16::MAX)),
            delay_ms: redelivery.delay_ms.unwrap_or(0),
            multiplier: redelivery.delay_multiplier.unwrap_or(1.0),
            delay_max_ms: redelivery.delay_maximum_ms.unwrap_or(0),
        },
        dead_letter: address.deadletter.is_some(),
        expiry: address.expiry.is_some() || address.deadletter.is_some(),
        sharing: if address.single_active_consumer == Some(true) { Sharing::SingleActive } else { Sharing::Competing },
        grouping: match address.groups {
            Some(Groups::Off) => Grouping::Off,
            None | Some(Groups::Sticky) => Grouping::Sticky,
            Some(Groups::PerKey) => Grouping::PerKey,
        },
        duplicates: duplicates(address),
    }
}

fn limits(limits: &plan::AddressLimits) -> Limits {
    let default = Limits::default();
    Limits {
        messages: limits.messages.unwrap_or(default.messages),
        bytes: limits.bytes.unwrap_or(default.bytes),
        message_bytes: limits
            .message_size
            .map_or(MESSAGE_BYTES_MAX, |size| u32::try_from(size).unwrap_or(MESSAGE_BYTES_MAX).min(MESSAGE_BYTES_MAX)),
        consumers: limits.consumers.unwrap_or(default.consumers),
        producers: limits.producers.unwrap_or(default.producers),
        subscriptions: limits.subscriptions.unwrap_or(default.subscriptions),
    }
}

/// The largest stored message: it is received whole, in memory, before it is stored.
pub(crate) const MESSAGE_BYTES_MAX: u32 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_omitted_by_the_plan_are_unbounded() {
        let storage = Storage::of(&plan::Address::new("u", "orders", AddressType::Queue));
        let limits = Limits { message_bytes: MESSAGE_BYTES_MAX, ..Limits::default() };
        assert_eq!(storage.settings, Settings { limits, ..Settings::default() });
        assert!(storage.on_disk && !storage.read_only);
    }

    #[test]
    fn dead_letter_address_receives_expired_messages_and_refuses_clients() {
        let address = plan::Address {
            deadletter: Some("dlq".into()),
            durability: Some(Durability::Memory),
            ..plan::Address::new("u", "orders", AddressType::Queue)
        };
        let storage = Storage::of(&address);
        assert!(storage.settings.dead_letter && storage.settings.expiry && !storage.on_disk);
        assert!(Storage::of(&plan::Address::new("d", "dlq", AddressType::Deadletter)).read_only);
    }
}
