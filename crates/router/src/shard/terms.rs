//! What a link asks of a stored address or a topic beside its name, and what it is answered (2.6.3, 3.5.3).
//!
//! - selector: the filters of the source that `enmasse_amqp::selector` knows
//! - browsing: distribution-mode `copy` of the source; of a topic every receiver has a copy anyhow
//! - of a topic: which subscription (`subscribing`)
//! - priority of a consumer: link property `priority`, or `rabbitmq:priority`: an integer, default 0
//! - exclusive: link property `exclusive`: a boolean, or source capability `exclusive`
//! - numbered producer: link property `enmasse:producer`: a string

use std::sync::Arc;

use enmasse_amqp::selector::Filters;
use enmasse_amqp::types::{Attach, Error, Fields, Role, Source, Symbol, Value, condition};

use super::subscribing::{Asked, Description};
use crate::core::{AddressKind, Consuming};
use crate::table::AddressEntry;

const PRIORITIES: [&str; 2] = ["priority", "rabbitmq:priority"];
const EXCLUSIVE: &str = "exclusive";
const PRODUCER: &str = "enmasse:producer";
const QUEUE: &str = "queue";
const COPY: &str = "copy";
const MOVE: &str = "move";

/// Outcomes that a queue knows what to do with.
const OUTCOMES: [&str; 4] = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"];

/// What a link asks for.
#[derive(Debug, Default)]
pub(super) struct Terms {
    /// of a receiver
    pub(super) consuming: Consuming,
    /// filters in force
    filters: Fields,
    /// of a sender: what it calls itself where its messages are numbered
    pub(super) producer_name: Option<Arc<str>>,
    /// of a receiver of a topic
    topic: Option<Topic>,
}

#[derive(Clone, Copy, Debug)]
struct Topic {
    asked: Asked,
    /// it said `copy`, as JMS clients do
    copies: bool,
}

impl Terms {
    /// What `attach` of a link in `container` asks for at these addresses; `name` is the digest of the link.
    pub(super) fn of(
        attach: &Attach,
        entries: &[Arc<AddressEntry>],
        container: &str,
        name: u64,
    ) -> Result<Self, Error> {
        let topic = entries.iter().find(|entry| entry.kind == AddressKind::Topic);
        if attach.role == Role::Sender {
            let producer_name = producer_name(attach)?;
            if topic.is_some() && producer_name.is_some() {
                let what = format!("link property \"{PRODUCER}\": messages of a topic are not numbered, leave it out");
                return Err(Error::new(condition::NOT_IMPLEMENTED, what));
            }
            return Ok(Self { producer_name, ..Self::default() });
        }
        let Some(source) = attach.source.as_deref() else { return Ok(Self::default()) };
        let filters = Filters::compile(&source.filter)?;
        let asks = source.capabilities.iter().any(|capability| capability.as_str() == EXCLUSIVE);
        let copies = source.distribution_mode.as_ref().is_some_and(|mode| mode.as_str() == COPY);
        let mut consuming = Consuming {
            selector: filters.selector.map(Arc::new),
            browses: copies && topic.is_none(),
            priority: priority(attach)?,
            exclusive: asks || exclusive(attach)?,
            subscribing: None,
            name,
        };
        let asked = Asked::of(source);
        if let Some(topic) = topic.filter(|_| asked.is_named()) {
            if entries.len() > 1 {
                let what =
                    "attach.source.address reaches several addresses: a durable or shared subscription is of one topic";
                return Err(Error::new(condition::NOT_IMPLEMENTED, what));
            }
            let description = Description::of(topic, attach, asked, container, &filters.understood);
            consuming.subscribing = Some(Box::new(description.subscribing(topic.space, asked.durable)));
        }
        let topic = topic.map(|_| Topic { asked, copies });
        Ok(Self { consuming, filters: filters.understood, producer_name: None, topic })
    }

    /// Writes into the peer's source what is in force.
    pub(super) fn answer(&self, source: &mut Source) {
        source.filter = self.filters.clone();
        if let Some(Topic { asked, copies }) = self.topic {
            source.distribution_mode = copies.then(|| Symbol::constant(COPY));
            asked.answer(source);
        } else {
            source.distribution_mode = Some(Symbol::constant(if self.consuming.browses { COPY } else { MOVE }));
            let holds = [(true, QUEUE), (self.consuming.exclusive, EXCLUSIVE)];
            source.capabilities = holds.iter().filter(|held| held.0).map(|held| Symbol::constant(held.1)).collect();
        }
        // One that names none leaves the choice to us; one that names some knows no others.
        if source.outcomes.is_empty() {
            source.outcomes = OUTCOMES.map(Symbol::constant).to_vec();
        } else {
            source.outcomes.retain(|outcome| OUTCOMES.contains(&outcome.as_str()));
        }
    }
}

fn property<'a>(attach: &'a Attach, name: &str) -> Option<&'a Value> {
    attach.properties.iter().find(|(key, _)| key.as_str() == name).map(|(_, value)| value)
}

fn wrong(name: &str, wanted: &str) -> Error {
    Error::new(condition::INVALID_FIELD, format!("link property \"{name}\" is to be {wanted}"))
}

/// What a producer calls itself where its messages are numbered (`docs/contracts.md` 8).
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
