//! SUBSCRIBE and UNSUBSCRIBE (3.8 to 3.11): filters as links.
//!
//! A filter has one link for each address that it covers, so that each address has its own order,
//! its own credit and, in a persistent session, its own subscription in the journal. The filters of
//! one packet are handled in order, and so are the links of one filter; later packets wait.

use std::collections::VecDeque;
use std::sync::Arc;

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{
    Attach, Error, Fields, Role, SenderSettleMode, Source, Symbol, TerminusDurability, TerminusExpiryPolicy, Value,
    condition,
};
use enmasse_mqtt::codec::{PacketId, PropertyId, QoS, ReasonCode, Subscribe, SubscriptionOptions, Unsubscribe};
use enmasse_mqtt::topic::Filter;

use super::codes::refused_subscription;
use super::sessions::{After, record_name};
use super::{FIRST_SUBSCRIPTION, Mqtt, StepOf, SubscriptionLink};
use crate::core::{AddressKind, Ending};
use crate::shard::departing::Departure;
use crate::shard::{ConnId, Shard};
use crate::table::AddressEntry;

/// Filters of one connection; a client with more has a link for each anyway.
const FILTERS_MAX: usize = 65_536;

/// One filter of a client.
pub(super) struct FilterState {
    pub(super) options: SubscriptionOptions,
    /// subscription identifier (5.0, 3.8.2.1.2)
    pub(super) id: Option<u32>,
    /// the same in the grammar of receivers, which has one more wildcard (`*`)
    pub(super) name: Arc<str>,
    /// the share name (5.0, 4.8.2)
    pub(super) group: Option<Arc<str>>,
    /// `name` matches more than the filter: each topic is checked again
    pub(super) is_checked: bool,
}

impl FilterState {
    pub(super) fn new(filter: &Filter<'_>, options: SubscriptionOptions, id: Option<u32>) -> Self {
        // `*` is a wildcard of receivers and a letter of MQTT: as `+` it matches itself and more.
        let stars = filter.as_str().contains('*');
        let level = |level| if stars && str::contains(level, '*') { "+" } else { level };
        let name: Vec<&str> = filter.levels().map(level).collect();
        Self {
            options,
            id,
            name: name.join("/").into(),
            group: filter.group().map(Arc::from),
            is_checked: stars || filter.as_str().starts_with(['+', '#']),
        }
    }

    /// The request of a link of this filter. `session`: the name of the session that it belongs to,
    /// if that outlives the connection.
    fn attach(&self, text: &str, entry: &AddressEntry, session: Option<&str>) -> Attach {
        let shared = self.group.as_deref().filter(|_| entry.kind == AddressKind::Topic);
        let mut filter = Fields::new();
        if self.options.no_local {
            filter.push((Symbol::constant("no-local"), Value::Null));
        }
        let capabilities = if shared.is_some() { &["shared", "global"][..] } else { &[] };
        let keeps = session.is_some() && entry.kind == AddressKind::Topic;
        let source = Source {
            address: Some(self.name.to_string()),
            durable: if keeps { TerminusDurability::UnsettledState } else { TerminusDurability::None },
            expiry_policy: if keeps { TerminusExpiryPolicy::Never } else { TerminusExpiryPolicy::LinkDetach },
            filter,
            capabilities: capabilities.iter().map(|name| Symbol::constant(name)).collect(),
            ..Source::default()
        };
        let name = match (shared, session) {
            (Some(group), _) => shared_name(group, &self.name),
            // A subscription for each topic that the filter covers.
            (None, Some(session)) => format!("{session}:{}:{text}", entry.uid).replace('|', "%7C"),
            (None, None) => format!("mqtt:{text}").replace('|', "%7C"),
        };
        let settled = self.options.qos == QoS::AtMostOnce;
        let mode = if settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled };
        Attach { source: Some(Box::new(source)), snd_settle_mode: mode, ..request(name) }
    }
}

/// The request of a receiving link.
pub(super) fn request(name: String) -> Attach {
    Attach {
        name,
        handle: 0,
        role: Role::Receiver,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: enmasse_amqp::types::ReceiverSettleMode::First,
        source: None,
        target: None,
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Fields::new(),
    }
}

/// The name of a shared subscription: `|` would end it, as in the link names of JMS clients.
fn shared_name(group: &str, filter: &str) -> String {
    format!("mqtt:{group}/{filter}").replace('%', "%25").replace('|', "%7C")
}

/// A SUBSCRIBE in progress.
pub(super) struct Answering {
    packet_id: PacketId,
    id: Option<u32>,
    filters: VecDeque<(String, SubscriptionOptions)>,
    codes: Vec<ReasonCode>,
    current: Option<CurrentFilter>,
    /// the record of the session is being stored
    stores: bool,
}

/// The filter whose links are being attached.
struct CurrentFilter {
    text: Arc<str>,
    granted: QoS,
    /// it was not subscribed before
    is_new: bool,
    accepted: bool,
    refusal: Option<ReasonCode>,
}

impl Answering {
    fn new(subscribe: &Subscribe<'_>) -> Self {
        Self {
            packet_id: subscribe.packet_id,
            id: subscribe.properties.number(PropertyId::SubscriptionIdentifier),
            filters: subscribe.subscriptions().map(|one| (one.filter.to_owned(), one.options)).collect(),
            codes: Vec::new(),
            current: None,
            stores: false,
        }
    }

    pub(super) fn accepted(&mut self) {
        if let Some(current) = &mut self.current {
            current.accepted = true;
        }
    }

    pub(super) fn refused(&mut self, error: &Error) {
        if let Some(current) = &mut self.current {
            current.refusal.get_or_insert(refused_subscription(error));
        }
    }
}

const fn granted_code(qos: QoS) -> ReasonCode {
    match qos {
        QoS::AtMostOnce => ReasonCode::Success,
        QoS::AtLeastOnce => ReasonCode::GrantedQoS1,
        QoS::ExactlyOnce => ReasonCode::GrantedQoS2,
    }
}

impl Mqtt {
    /// Ends the filter in progress, all of whose links have answered. After the last one the record
    /// of the session is stored, if it outlives the connection, and the packet is answered.
    pub(super) fn next_filter(&mut self) -> Option<StepOf> {
        let answering = self.answering.front_mut()?;
        if let Some(current) = answering.current.take() {
            let failed = !current.accepted && current.is_new;
            let refusal = current.refusal.filter(|_| failed);
            if let Some(filter) = self.filters.get(&current.text).filter(|_| !failed) {
                self.reads.subscribed(&current.text, filter.options.retain_handling, current.is_new);
            }
            answering.codes.push(refusal.unwrap_or_else(|| granted_code(current.granted)));
            if failed {
                self.filters.remove(&current.text);
            }
        }
        let persists = self.session.persists();
        let answering = self.answering.front_mut()?;
        if !answering.filters.is_empty() {
            return Some(StepOf::Filter);
        }
        if persists {
            return (!std::mem::replace(&mut answering.stores, true)).then_some(StepOf::StoreSubscriptions);
        }
        self.answer_subscribe(true);
        None
    }

    /// Answers the SUBSCRIBE in progress. `stored`: the record of the session has its filters.
    pub(super) fn answer_subscribe(&mut self, stored: bool) {
        let Some(mut answering) = self.answering.pop_front() else { return };
        if !stored {
            answering.codes.fill(ReasonCode::UnspecifiedError);
        }
        // An error means that the connection has ended in the meantime.
        let _ = self.machine.answer_subscribe(answering.packet_id, &answering.codes, "");
    }

    /// Adds a link of a filter to an address.
    fn add_link(&mut self, filter: &Arc<str>, entry: &Arc<AddressEntry>) {
        let at = self.links.iter().position(Option::is_none).unwrap_or(self.links.len());
        if at == self.links.len() {
            self.links.push(None);
        }
        self.links[at] = Some(SubscriptionLink {
            filter: Arc::clone(filter),
            entry: Arc::clone(entry),
            parts: Vec::new(),
            delivered: 0,
            attached: false,
        });
        self.attaches.push_back(LinkId((at + FIRST_SUBSCRIPTION) as u32));
    }

    /// The links of a filter.
    fn links_of(&self, filter: &str) -> Vec<LinkId> {
        let numbered = self.links.iter().enumerate();
        let of_it = numbered.filter(|(_, link)| link.as_ref().is_some_and(|link| *link.filter == *filter));
        of_it.map(|(at, _)| LinkId((at + FIRST_SUBSCRIPTION) as u32)).collect()
    }

    fn is_at(&self, filter: &str, entry: &AddressEntry) -> bool {
        let mut links = self.links.iter().flatten();
        links.any(|link| *link.filter == *filter && link.entry.key == entry.key)
    }
}

impl Shard {
    pub(super) fn subscribe_mqtt(&mut self, id: ConnId, subscribe: &Subscribe<'_>) {
        if let Some(mqtt) = self.mqtt(id) {
            mqtt.answering.push_back(Answering::new(subscribe));
        }
    }

    /// Begins the next filter of the SUBSCRIBE in progress.
    pub(super) fn begin_filter(&mut self, id: ConnId) {
        let Some(mqtt) = self.mqtt(id) else { return };
        let Some(answering) = mqtt.answering.front_mut() else { return };
        let Some((text, options)) = answering.filters.pop_front() else { return };
        let subscription_id = answering.id;
        let covered = match Filter::parse(&text) {
            Ok(filter) => {
                let state = FilterState::new(&filter, options, subscription_id);
                self.covered(id, &state).map(|entries| (state, entries)).map_err(|error| refused_subscription(&error))
            }
            Err(_) => Err(ReasonCode::TopicFilterInvalid),
        };
        let Some(mqtt) = self.mqtt(id) else { return };
        let known = mqtt.filters.contains_key(&*text);
        let covered = covered.and_then(|covered| {
            let full = !known && mqtt.filters.len() >= FILTERS_MAX;
            if full { Err(ReasonCode::QuotaExceeded) } else { Ok(covered) }
        });
        match covered {
            Ok((state, entries)) => self.attach_filter(id, &text.into(), state, &entries),
            Err(code) => {
                if let Some(answering) = mqtt.answering.front_mut() {
                    answering.codes.push(code);
                }
            }
        }
    }

    /// Attaches a filter to the addresses that it covers. A filter that is subscribed again has new
    /// options [5: 3.8.4-3]; its links stay, unless the options concern their addresses.
    fn attach_filter(&mut self, id: ConnId, text: &Arc<str>, state: FilterState, entries: &[Arc<AddressEntry>]) {
        let Some(mqtt) = self.mqtt(id) else { return };
        let before = mqtt.filters.get(text).map(|before| before.options);
        let moved = before.filter(|before| {
            before.no_local != state.options.no_local
                || (before.qos == QoS::AtMostOnce) != (state.options.qos == QoS::AtMostOnce)
        });
        if moved.is_some() {
            self.end_links(id, text);
        }
        let Some(mqtt) = self.mqtt(id) else { return };
        if let Some(answering) = mqtt.answering.front_mut() {
            answering.current = Some(CurrentFilter {
                text: Arc::clone(text),
                granted: state.options.qos,
                is_new: before.is_none(),
                accepted: false,
                refusal: None,
            });
        }
        mqtt.filters.insert(Arc::clone(text), state);
        for entry in entries {
            if !mqtt.is_at(text, entry) {
                mqtt.add_link(text, entry);
            }
        }
    }

    /// The addresses that a filter covers, if the client may receive from it: topics, multicasts
    /// and streams by wildcards, any address by its exact name.
    fn covered(&self, id: ConnId, state: &FilterState) -> Result<Vec<Arc<AddressEntry>>, Error> {
        let conn = &self.fabric.conns[id.key()];
        let entries = self.permitted(conn, Role::Receiver, &state.name)?;
        if state.group.is_some()
            && entries.iter().any(|entry| matches!(entry.kind, AddressKind::Multicast | AddressKind::Stream))
        {
            let what = "a shared subscription needs a topic, a queue or an anycast address";
            return Err(Error::new(condition::NOT_IMPLEMENTED, what));
        }
        Ok(entries)
    }

    /// Attaches a link of a filter to its address.
    pub(super) fn begin_attach(&mut self, id: ConnId, link: LinkId) {
        let conn = &self.fabric.conns[id.key()];
        let Some(mqtt) = conn.machine.mqtt() else { return };
        let Some(state) = mqtt.link(link) else { return };
        let Some(filter) = mqtt.filters.get(&state.filter) else { return };
        let session = mqtt.session.is_durable().then(|| record_name(conn.user()));
        let attach = filter.attach(&state.filter, &state.entry, session.as_deref());
        self.attach_mqtt(id, link, Box::new(attach));
    }

    /// Attaches the links of filters with wildcards to addresses of a new table.
    pub(in crate::shard) fn widen_mqtt(&mut self, id: ConnId) {
        if self.mqtt(id).is_some_and(|mqtt| mqtt.login.is_none()) {
            self.widen_filters(id);
        }
    }

    /// Attaches each filter to the addresses that it covers and is not attached to.
    pub(super) fn widen_filters(&mut self, id: ConnId) {
        let Some(mqtt) = self.mqtt(id).filter(|mqtt| !mqtt.filters.is_empty()) else { return };
        let filters: Vec<Arc<str>> = mqtt.filters.keys().cloned().collect();
        for text in filters {
            let Some(state) = self.mqtt(id).and_then(|mqtt| mqtt.filters.get(&text)) else { continue };
            let name = Arc::clone(&state.name);
            let conn = &self.fabric.conns[id.key()];
            let entries = self.permitted(conn, Role::Receiver, &name).unwrap_or_default();
            let Some(mqtt) = self.mqtt(id) else { return };
            for entry in &entries {
                if !mqtt.is_at(&text, entry) {
                    mqtt.add_link(&text, entry);
                }
            }
        }
        self.fabric.mark(id.key);
    }

    pub(super) fn unsubscribe_mqtt(&mut self, id: ConnId, unsubscribe: &Unsubscribe<'_>) {
        let mut codes = Vec::new();
        for text in unsubscribe.filters() {
            let known = self.mqtt(id).is_some_and(|mqtt| mqtt.filters.contains_key(text));
            if known {
                self.end_links(id, text);
                if let Some(mqtt) = self.mqtt(id) {
                    mqtt.filters.remove(text);
                }
            }
            let invalid = Filter::parse(text).is_err();
            codes.push(match known {
                true => ReasonCode::Success,
                false if invalid => ReasonCode::TopicFilterInvalid,
                false => ReasonCode::NoSubscriptionExisted,
            });
        }
        let Some(mqtt) = self.mqtt(id) else { return };
        if mqtt.session.persists() {
            return self.store_record(id, After::Unsubscribe { packet_id: unsubscribe.packet_id, codes });
        }
        // An error means that the connection has ended in the meantime.
        let _ = mqtt.machine.answer_unsubscribe(unsubscribe.packet_id, &codes, "");
    }

    /// Ends the links of a filter, and their subscriptions.
    pub(super) fn end_links(&mut self, id: ConnId, filter: &str) {
        let Some(mqtt) = self.mqtt(id) else { return };
        let links = mqtt.links_of(filter);
        self.release(id, &links, &Departure::silent(Ending::ByClient, true));
        if let Some(mqtt) = self.mqtt(id) {
            mqtt.attaches.retain(|link| !links.contains(link));
            mqtt.grants.retain(|link| !links.contains(link));
            for link in links {
                mqtt.take_link(link);
            }
        }
    }
}
