//! The terms of a link to a stored address or a topic: its requests besides the name, and the
//! answer (2.6.3, 3.5.3).
//!
//! - selector: the filters of the source that `enmasse_amqp::selector` supports
//! - browsing: distribution-mode `copy` of the source; no effect at a topic, which copies anyway
//! - topic: the subscription, and whether it excludes messages of its own connection
//!   (`subscribing`)
//! - priority of a consumer: link property `priority`, or `rabbitmq:priority`: an integer, default
//!   0
//! - exclusive: link property `exclusive`: a boolean, or source capability `exclusive`
//! - retained messages of a topic first: filter `enmasse:retained`, a boolean (`retained`)
//! - numbered producer: link property `enmasse:producer`: a string
//! - stream: the start position and the partition, by the filters `rabbitmq:stream-offset-spec` and
//!   `enmasse:stream-partition`, with or without descriptors (`docs/contracts.md` 9)

use std::sync::Arc;

use enmasse_amqp::selector::Filters;
use enmasse_amqp::types::{Attach, Error, Fields, Role, SenderSettleMode, Source, Symbol, Value, condition};

use super::subscribing::{Description, SubscriptionRequest, no_local};
use crate::core::{AddressKind, Consuming, DYNAMIC_KEYS, Guarantee, NoLocal, Start};
use crate::table::AddressEntry;

const PRIORITIES: [&str; 2] = ["priority", "rabbitmq:priority"];
const EXCLUSIVE: &str = "exclusive";
const PRODUCER: &str = "enmasse:producer";
const OFFSET_SPEC: &str = "rabbitmq:stream-offset-spec";
const PARTITION: &str = "enmasse:stream-partition";
/// Of a receiver of a topic: it gets the retained messages first (boolean).
pub(super) const RETAINED: &str = "enmasse:retained";
const QUEUE: &str = "queue";
const TOPIC: &str = "topic";
const COPY: &str = "copy";
const MOVE: &str = "move";

/// Outcomes that a queue supports.
const OUTCOMES: [&str; 4] = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"];

/// The request of a link.
#[derive(Debug, Default)]
pub(super) struct Terms {
    /// of a receiver
    pub(super) consuming: Consuming,
    /// filters in force
    filters: Fields,
    /// of a sender: its name, if its messages are numbered
    pub(super) producer_name: Option<Arc<str>>,
    /// of a receiver of a topic
    topic: Option<Topic>,
    /// it reads a stream
    reads: bool,
    /// the queue of retained messages, if it gets them first
    pub(super) retained: Option<Arc<AddressEntry>>,
}

#[derive(Clone, Copy, Debug)]
struct Topic {
    requested: SubscriptionRequest,
    /// it requested `copy`, as JMS clients do
    copies: bool,
}

impl Terms {
    /// The terms in the `attach` of a link at these addresses. `container` and `connection` are
    /// those of its connection, `name` is the digest of the link.
    pub(super) fn of(
        attach: &Attach,
        entries: &[Arc<AddressEntry>],
        (container, connection): (&str, u128),
        name: u64,
    ) -> Result<Self, Error> {
        let topic = entries.iter().find(|entry| entry.kind == AddressKind::Topic);
        let streams = entries.iter().any(|entry| entry.kind == AddressKind::Stream);
        if attach.role == Role::Sender {
            let producer_name = producer_name(attach)?;
            if topic.is_some() && producer_name.is_some() {
                let what = format!("link property \"{PRODUCER}\": messages of a topic are not numbered; omit it");
                return Err(Error::new(condition::NOT_IMPLEMENTED, what));
            }
            return Ok(Self { producer_name, ..Self::default() });
        }
        let Some(source) = attach.source.as_deref() else { return Ok(Self::default()) };
        let mut filters = Filters::compile(&source.filter)?;
        let reads = streams && topic.is_none();
        let (start, partition) =
            if streams { reading(&source.filter, &mut filters.understood)? } else { Default::default() };
        let mut requested = SubscriptionRequest::of(source);
        // A subscription of a temporary topic ends with its links: the answer is not durable.
        requested.durable &= !topic.is_some_and(|topic| DYNAMIC_KEYS.contains(&topic.key.0));
        let no_local = topic.is_some() && !requested.shared && no_local(&source.filter, &mut filters.understood);
        let asks = source.capabilities.iter().any(|capability| capability.as_str() == EXCLUSIVE);
        let copies = source.distribution_mode.as_ref().is_some_and(|mode| mode.as_str() == COPY);
        let mut consuming = Consuming {
            selector: filters.selector.map(Arc::new),
            browses: copies && topic.is_none(),
            priority: priority(attach)?,
            exclusive: asks || exclusive(attach)?,
            no_local: no_local.then_some(NoLocal::Connection(connection)),
            subscribing: None,
            resume: None,
            name,
            start,
            partition,
            settled: attach.snd_settle_mode == SenderSettleMode::Settled,
            guarantee: Guarantee::Outcome,
            retained: None,
        };
        if let Some(topic) = topic.filter(|_| requested.is_named()) {
            if entries.len() > 1 {
                let what =
                    "attach.source.address names several addresses: a durable or shared subscription needs one topic";
                return Err(Error::new(condition::NOT_IMPLEMENTED, what));
            }
            let description = Description::of(topic, attach, requested, container, &filters.understood);
            consuming.subscribing = Some(Box::new(description.subscribing(topic.space, requested.durable)));
        }
        let topic = topic.map(|_| Topic { requested, copies });
        Ok(Self { consuming, filters: filters.understood, producer_name: None, topic, reads, retained: None })
    }

    /// Adds the request for the retained messages in `queue`, and its filter. That is none of the
    /// subscription, which does not change with it.
    pub(super) fn request_retained(&mut self, queue: Arc<AddressEntry>, filter: (Symbol, Value)) {
        self.retained = Some(queue);
        self.filters.push(filter);
    }

    /// Writes the effective settings into the peer's source.
    pub(super) fn answer(&self, source: &mut Source) {
        source.filter = self.filters.clone();
        if let Some(Topic { requested, copies }) = self.topic {
            source.distribution_mode = copies.then(|| Symbol::constant(COPY));
            requested.answer(source);
        } else {
            let copies = self.consuming.browses || self.reads;
            source.distribution_mode = Some(Symbol::constant(if copies { COPY } else { MOVE }));
            let holds = [(!self.reads, QUEUE), (self.reads, TOPIC), (self.consuming.exclusive, EXCLUSIVE)];
            source.capabilities = holds.iter().filter(|held| held.0).map(|held| Symbol::constant(held.1)).collect();
        }
        // A peer without outcomes leaves the choice to us; otherwise it supports only those listed.
        if source.outcomes.is_empty() {
            source.outcomes = OUTCOMES.map(Symbol::constant).to_vec();
        } else {
            source.outcomes.retain(|outcome| OUTCOMES.contains(&outcome.as_str()));
        }
    }
}

/// A filter's name and its value: those of its descriptor, or its key and its value without one.
fn named((key, value): &(Symbol, Value)) -> (&str, &Value) {
    match value {
        Value::Described(pair) => match &pair.0 {
            Value::Symbol(name) => (name.as_str(), &pair.1),
            _ => (key.as_str(), &pair.1),
        },
        value => (key.as_str(), value),
    }
}

/// The filter that requests retained messages, if there is one.
///
/// # Errors
/// `amqp:invalid-field` if it is no boolean.
pub(super) fn retained_filter(filters: &Fields) -> Result<Option<&(Symbol, Value)>, Error> {
    let Some(found) = filters.iter().find(|filter| named(filter).0 == RETAINED) else { return Ok(None) };
    match named(found).1 {
        Value::Bool(requests) => Ok(requests.then_some(found)),
        _ => Err(wrong_filter(RETAINED, "a boolean")),
    }
}

/// The start position and the partition of a reader. Adds their filters to `understood`.
fn reading(filters: &Fields, understood: &mut Fields) -> Result<(Start, Option<u32>), Error> {
    let (mut start, mut partition) = (Start::default(), None);
    for filter in filters {
        let (name, value_inside) = named(filter);
        match name {
            OFFSET_SPEC => {
                start = start_of(value_inside).ok_or_else(|| {
                    wrong_filter(OFFSET_SPEC, "\"first\", \"last\", \"next\", an offset (ulong) or a timestamp")
                })?;
            }
            PARTITION => {
                let number = whole(value_inside).and_then(|number| u32::try_from(number).ok());
                partition = Some(number.ok_or_else(|| wrong_filter(PARTITION, "the number of a partition (uint)"))?);
            }
            _ => continue,
        }
        understood.push(filter.clone());
    }
    Ok((start, partition))
}

fn start_of(value: &Value) -> Option<Start> {
    let word = match value {
        Value::String(word) => word.as_str(),
        Value::Symbol(word) => word.as_str(),
        Value::Timestamp(at_ms) => return Some(Start::Time(u64::try_from(*at_ms).unwrap_or(0))),
        number => return whole(number).map(Start::Offset),
    };
    match word {
        "first" => Some(Start::First),
        "last" => Some(Start::Last),
        "next" => Some(Start::Next),
        _ => None,
    }
}

/// A number that is not negative, of any integer type: client languages prefer different ones.
pub(super) fn whole(value: &Value) -> Option<u64> {
    match *value {
        Value::Ubyte(number) => Some(number.into()),
        Value::Ushort(number) => Some(number.into()),
        Value::Uint(number) => Some(number.into()),
        Value::Ulong(number) => Some(number),
        Value::Byte(number) => u64::try_from(number).ok(),
        Value::Short(number) => u64::try_from(number).ok(),
        Value::Int(number) => u64::try_from(number).ok(),
        Value::Long(number) => u64::try_from(number).ok(),
        _ => None,
    }
}

fn wrong_filter(name: &str, wanted: &str) -> Error {
    Error::new(condition::INVALID_FIELD, format!("filter \"{name}\" must be {wanted}"))
}

fn property<'a>(attach: &'a Attach, name: &str) -> Option<&'a Value> {
    attach.properties.iter().find(|(key, _)| key.as_str() == name).map(|(_, value)| value)
}

fn wrong(name: &str, wanted: &str) -> Error {
    Error::new(condition::INVALID_FIELD, format!("link property \"{name}\" must be {wanted}"))
}

/// The name of a producer whose messages are numbered (`docs/contracts.md` 8).
pub(super) fn producer_name(attach: &Attach) -> Result<Option<Arc<str>>, Error> {
    match property(attach, PRODUCER) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) if !name.is_empty() => Ok(Some(name.as_str().into())),
        Some(_) => Err(wrong(PRODUCER, "a string that is not empty")),
    }
}

fn priority(attach: &Attach) -> Result<i32, Error> {
    for name in PRIORITIES {
        let number = match property(attach, name) {
            None | Some(Value::Null) => continue,
            Some(Value::Byte(number)) => i64::from(*number),
            Some(Value::Short(number)) => i64::from(*number),
            Some(Value::Int(number)) => i64::from(*number),
            Some(Value::Long(number)) => *number,
            Some(Value::Ubyte(number)) => i64::from(*number),
            Some(Value::Ushort(number)) => i64::from(*number),
            Some(Value::Uint(number)) => i64::from(*number),
            Some(Value::Ulong(number)) => i64::try_from(*number).unwrap_or(i64::MAX),
            Some(_) => return Err(wrong(name, "an integer")),
        };
        return i32::try_from(number).map_err(|_| wrong(name, "an integer of 32 bits"));
    }
    Ok(0)
}

fn exclusive(attach: &Attach) -> Result<bool, Error> {
    match property(attach, EXCLUSIVE) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(exclusive)) => Ok(*exclusive),
        Some(_) => Err(wrong(EXCLUSIVE, "a boolean")),
    }
}
