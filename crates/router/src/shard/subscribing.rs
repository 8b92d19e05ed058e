//! Subscriptions of topics as links request them (the mapping of JMS to AMQP; `docs/contracts.md`
//! 8).
//!
//! - durable: a source that is durable and never expires. Identified by container id and link name
//! - shared: source capability `shared`. Identified by container id and the link name before `|`;
//!   with the capability `global` by the latter alone
//! - filter `apache.org:no-local-filter:list`, if not shared: the subscription excludes messages of
//!   its own connection, or of its own container if it is durable
//! - a link without a source requests the durable subscription that its name identifies
//!
//! Any other link has a subscription of its own.

use std::sync::Arc;

use enmasse_amqp::codec::{decode_value, encode_value};
use enmasse_amqp::selector::Filters;
use enmasse_amqp::types::{Attach, Fields, Source, Symbol, TerminusDurability, TerminusExpiryPolicy, Value};

use crate::core::{Filter, NoLocal, Subscribing, SubscriptionName};
use crate::table::pattern::Pattern;
use crate::table::{AddressEntry, SpaceKey};

const SHARED: &str = "shared";
const GLOBAL: &str = "global";
const TOPIC: &str = "topic";
const DELIMITER: char = '|';
/// The filter of JMS clients that excludes messages of their own connection, the number of its
/// descriptor, and its keys if it has no descriptor.
const NO_LOCAL: &str = "apache.org:no-local-filter:list";
const NO_LOCAL_CODE: u64 = 0x0000_468C_0000_0003;
const NO_LOCAL_KEYS: [&str; 3] = [NO_LOCAL, "jms-no-local", "no-local"];

/// The request of a receiver to a topic in addition to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SubscriptionRequest {
    pub(super) durable: bool,
    pub(super) shared: bool,
    pub(super) global: bool,
}

impl SubscriptionRequest {
    pub(super) fn of(source: &Source) -> Self {
        let asks = |name: &str| source.capabilities.iter().any(|capability| capability.as_str() == name);
        let shared = asks(SHARED);
        let kept = source.durable != TerminusDurability::None;
        Self {
            durable: kept && source.expiry_policy == TerminusExpiryPolicy::Never,
            shared,
            global: shared && asks(GLOBAL),
        }
    }

    /// Whether other links can request the subscription by its name.
    pub(super) fn is_named(self) -> bool {
        self.durable || self.shared
    }

    fn capabilities(self) -> Vec<Symbol> {
        let holds = [(true, TOPIC), (self.shared, SHARED), (self.global, GLOBAL)];
        holds.iter().filter(|held| held.0).map(|held| Symbol::constant(held.1)).collect()
    }

    /// Writes the effective settings into a source.
    pub(super) fn answer(self, source: &mut Source) {
        if self.durable {
            source.durable = TerminusDurability::UnsettledState;
            source.expiry_policy = TerminusExpiryPolicy::Never;
        }
        source.capabilities = self.capabilities();
    }
}

/// The description that identifies a named subscription.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Description {
    topic_uid: String,
    container: Option<String>,
    name: String,
    /// the name of the source: the topic's, one below it, or one with wildcards
    pub(super) wanted: String,
    filters: Fields,
    shared: bool,
}

impl Description {
    /// The request of a link at a topic.
    pub(super) fn of(
        topic: &AddressEntry,
        attach: &Attach,
        requested: SubscriptionRequest,
        container: &str,
        filters: &Fields,
    ) -> Self {
        let wanted = attach.source.as_ref().and_then(|source| source.address.clone()).unwrap_or_default();
        let name =
            if requested.shared { attach.name.split(DELIMITER).next().unwrap_or_default() } else { &attach.name };
        Self {
            topic_uid: topic.uid.to_string(),
            container: (!requested.global).then(|| container.to_owned()),
            name: name.to_owned(),
            wanted,
            filters: filters.clone(),
            shared: requested.shared,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let filters = self.filters.iter().map(|(name, value)| (Value::Symbol(name.clone()), value.clone()));
        let container = self.container.clone().map_or(Value::Null, Value::String);
        let mut bytes = Vec::new();
        let fields = vec![
            Value::String(self.topic_uid.clone()),
            container,
            Value::String(self.name.clone()),
            Value::String(self.wanted.clone()),
            Value::Map(filters.collect()),
            Value::Bool(self.shared),
        ];
        encode_value(&mut bytes, &Value::List(fields));
        bytes
    }

    /// Decodes a description; `None`: it is not one of ours.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let Ok((Value::List(fields), _)) = decode_value(bytes) else { return None };
        let Ok([topic, container, name, wanted, filters, shared]) = <[Value; 6]>::try_from(fields) else { return None };
        let (Value::String(topic_uid), Value::String(name), Value::String(wanted)) = (topic, name, wanted) else {
            return None;
        };
        let container = match container {
            Value::String(container) => Some(container),
            Value::Null => None,
            _ => return None,
        };
        let (Value::Map(filters), Value::Bool(shared)) = (filters, shared) else { return None };
        let field = |(name, value)| if let Value::Symbol(name) = name { Some((name, value)) } else { None };
        let filters = filters.into_iter().map(field).collect::<Option<Fields>>()?;
        Some(Self { topic_uid, container, name, wanted, filters, shared })
    }

    /// The router's view of it.
    pub(super) fn subscribing(&self, space: SpaceKey, durable: bool) -> Subscribing {
        // The filters were valid at attach. If a later version does not support one, too many
        // messages are kept, but none is lost.
        let filters = Filters::compile(&self.filters).unwrap_or_default();
        Subscribing {
            name: Some(SubscriptionName {
                space: space.0,
                container: self.container.as_deref().map(Arc::from),
                name: self.name.as_str().into(),
                durable,
            }),
            shared: self.shared,
            selector: filters.selector.map(Arc::new),
            no_local: self.no_local(),
            wanted: self.wanted.as_str().into(),
            allowed: None,
            description: self.encode().into(),
        }
    }

    /// The exclusion of messages from its own container, if requested.
    fn no_local(&self) -> Option<NoLocal> {
        let container = self.container.as_deref().filter(|_| no_local(&self.filters, &mut Fields::new()))?;
        Some(NoLocal::Container(container.into()))
    }

    /// The source in the answer to a link that requests it by its name only.
    pub(super) fn source(&self) -> Source {
        let requested =
            SubscriptionRequest { durable: true, shared: self.shared, global: self.shared && self.container.is_none() };
        let mut source =
            Source { address: Some(self.wanted.clone()), filter: self.filters.clone(), ..Source::default() };
        requested.answer(&mut source);
        source
    }
}

/// Whether the filters of a source exclude messages of its own connection.
pub(super) fn excludes_own(source: &Source) -> bool {
    no_local(&source.filter, &mut Fields::new())
}

/// As above; adds such filters to `understood`.
pub(super) fn no_local(filters: &Fields, understood: &mut Fields) -> bool {
    let is_no_local = |(key, value): &&(Symbol, Value)| match value {
        Value::Described(pair) => match &pair.0 {
            Value::Symbol(name) => name.as_str() == NO_LOCAL,
            code => *code == Value::Ulong(NO_LOCAL_CODE),
        },
        _ => NO_LOCAL_KEYS.contains(&key.as_str()),
    };
    let found: Fields = filters.iter().filter(is_no_local).cloned().collect();
    understood.extend_from_slice(&found);
    !found.is_empty()
}

/// The uid of the topic of a durable subscription, by its stored state.
pub(super) fn topic_of_stored(description: &[u8]) -> Option<String> {
    Some(Description::decode(description)?.topic_uid)
}

/// The stored state of a durable subscription of that topic.
#[must_use]
pub(super) fn stored_subscription(topic: &AddressEntry, description: &[u8]) -> Option<(Subscribing, Option<Filter>)> {
    let kept = Description::decode(description).filter(|kept| *kept.topic_uid == *topic.uid)?;
    Some((kept.subscribing(topic.space, true), filter(topic, &kept.wanted)))
}

/// The name filter of a receiver at an address that covers names below it. A receiver of the
/// address's own name gets messages to that name only, not to names below.
pub(super) fn filter(entry: &AddressEntry, name: &str) -> Option<Filter> {
    if !entry.covers_below() {
        return None;
    }
    let pattern = Pattern::filter(name).ok()?;
    Some(Filter::of_name(name, move |name| pattern.matches(name)))
}

/// The subscription names that the name of a link without a source may mean.
pub(super) fn names(space: SpaceKey, container: &str, link: &str) -> Vec<SubscriptionName> {
    let name = |container: Option<&str>, name: &str| SubscriptionName {
        space: space.0,
        container: container.map(Arc::from),
        name: name.into(),
        durable: true,
    };
    let mut names = vec![name(Some(container), link)];
    if let Some((before, after)) = link.split_once(DELIMITER) {
        names.push(name((!after.starts_with(GLOBAL)).then_some(container), before));
    }
    names
}

/// The encoded description of a durable subscription of a topic.
#[cfg(test)]
pub(super) fn description_of(topic_uid: &str, container: &str, name: &str) -> Vec<u8> {
    let (topic_uid, wanted) = (topic_uid.to_owned(), topic_uid.to_owned());
    let (container, name) = (Some(container.to_owned()), name.to_owned());
    Description { topic_uid, container, name, wanted, filters: Fields::new(), shared: false }.encode()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_survives_encode_and_decode() {
        let selector = Value::Described(Box::new((Value::Ulong(0x0000_468C_0000_0004), Value::String("n > 1".into()))));
        for container in [None, Some("client".to_owned())] {
            let description = Description {
                topic_uid: "u".into(),
                container,
                name: "sub".into(),
                wanted: "t/+".into(),
                filters: vec![(Symbol::constant("jms-selector"), selector.clone())],
                shared: true,
            };
            assert_eq!(Description::decode(&description.encode()), Some(description.clone()));
            let subscribing = description.subscribing(SpaceKey(3), true);
            assert!(subscribing.selector.is_some() && subscribing.shared);
        }
        assert_eq!(Description::decode(b"\x45"), None);
    }

    #[test]
    fn subscription_with_an_invalid_selector_is_kept_without_a_selector() {
        let description = Description {
            topic_uid: "u".into(),
            container: None,
            name: "sub".into(),
            wanted: "t".into(),
            filters: vec![(Symbol::constant("jms-selector"), Value::String("n = = 1".into()))],
            shared: true,
        };
        let subscribing = description.subscribing(SpaceKey(3), true);
        assert!(subscribing.selector.is_none() && subscribing.name.is_some());
    }

    #[test]
    fn jms_link_name_maps_to_its_candidate_subscription_names() {
        let found = |link: &str| -> Vec<(Option<String>, String)> {
            let names = names(SpaceKey(0), "c", link).into_iter();
            names.map(|name| (name.container.map(|name| name.to_string()), name.name.to_string())).collect()
        };
        let own = |name: &str| (Some("c".to_owned()), name.to_owned());
        assert_eq!(found("sub"), [own("sub")]);
        assert_eq!(found("sub|2"), [own("sub|2"), own("sub")]);
        assert_eq!(found("sub|global"), [own("sub|global"), (None, "sub".to_owned())]);
    }
}
