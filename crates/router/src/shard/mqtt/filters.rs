//! Filters of a client, and SUBSCRIBE packets in progress (3.8, 3.9).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{
    Attach, Error, Fields, SenderSettleMode, Source, Symbol, TerminusDurability, TerminusExpiryPolicy, Value,
};
use enmasse_mqtt::codec::{PacketId, PropertyId, QoS, ReasonCode, Subscribe, SubscriptionOptions};
use enmasse_mqtt::topic::Filter;
use smallvec::SmallVec;

use super::codes::refused_subscription;
use super::links::{FIRST_SUBSCRIPTION, request};
use super::steps::Step;
use super::{Mqtt, SubscriptionLink};
use crate::core::AddressKind;
use crate::table::AddressEntry;

/// Filters of one connection; a client with more has a link for each anyway.
const FILTERS_MAX: usize = 131_072;
/// Bytes of their texts in all.
const FILTER_BYTES_MAX: usize = 16 << 20;

/// Whether a filter is one of the node's own topics. No other filter matches these [5: 4.7.2-1].
pub(in crate::shard) fn is_of_system(filter: &str) -> bool {
    filter.starts_with("$SYS/")
}

/// One filter of a client.
pub(in crate::shard) struct FilterState {
    pub(in crate::shard) options: SubscriptionOptions,
    /// subscription identifier (5.0, 3.8.2.1.2)
    pub(in crate::shard) id: Option<u32>,
    /// the same in the grammar of receivers, which has one more wildcard (`*`)
    pub(in crate::shard) name: Arc<str>,
    /// the share name (5.0, 4.8.2)
    pub(in crate::shard) group: Option<Arc<str>>,
    /// `name` matches more than the filter: each topic is checked again
    pub(in crate::shard) is_checked: bool,
    /// its links, one for each address that it covers
    pub(in crate::shard) links: SmallVec<[LinkId; 1]>,
}

/// The filters of a client, as it sent them; boxed, because a node of the map has room for eleven.
#[derive(Default)]
pub(in crate::shard) struct Filters {
    by_text: BTreeMap<Arc<str>, Box<FilterState>>,
    /// bytes of their texts
    bytes: usize,
}

impl Deref for Filters {
    type Target = BTreeMap<Arc<str>, Box<FilterState>>;

    fn deref(&self) -> &Self::Target {
        &self.by_text
    }
}

impl Filters {
    /// Whether there is room for a filter, or it is there already.
    pub(in crate::shard) fn admits(&self, text: &str) -> bool {
        let has_room = self.len() < FILTERS_MAX && self.bytes + text.len() <= FILTER_BYTES_MAX;
        has_room || self.contains_key(text)
    }

    pub(in crate::shard) fn insert(&mut self, text: Arc<str>, state: FilterState) {
        if !self.contains_key(&text) {
            self.bytes += text.len();
        }
        self.by_text.insert(text, Box::new(state));
    }

    pub(in crate::shard) fn remove(&mut self, text: &str) -> Option<Box<FilterState>> {
        let state = self.by_text.remove(text)?;
        self.bytes -= text.len();
        Some(state)
    }

    pub(in crate::shard) fn clear(&mut self) {
        *self = Self::default();
    }

    fn get_mut(&mut self, text: &str) -> Option<&mut FilterState> {
        self.by_text.get_mut(text).map(|state| &mut **state)
    }
}

impl FilterState {
    pub(in crate::shard) fn new(filter: &Filter<'_>, options: SubscriptionOptions, id: Option<u32>) -> Self {
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
            links: SmallVec::new(),
        }
    }

    /// The request of a link of this filter. `session`: the name of the session that it belongs to,
    /// if that outlives the connection.
    pub(in crate::shard) fn attach(&self, text: &str, entry: &AddressEntry, session: Option<&str>) -> Attach {
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
        // Also for QoS 0, so that a link stays when its filter is subscribed again with another QoS: no
        // message may be lost then [5: 3.8.4-4].
        let snd_settle_mode = SenderSettleMode::Unsettled;
        Attach { source: Some(Box::new(source)), snd_settle_mode, ..request(name) }
    }
}

/// The name of the record of the session to which a subscription of this name belongs, by the uid of
/// its topic; `None`: it belongs to no session.
pub(in crate::shard) fn session_of<'a>(name: &'a str, topic_uid: &str) -> Option<&'a str> {
    let (session, _) = name.split_once(&format!(":{topic_uid}:"))?;
    session.starts_with("mqtt:").then_some(session)
}

/// The name of a shared subscription: `|` would end it, as in the link names of JMS clients.
fn shared_name(group: &str, filter: &str) -> String {
    format!("mqtt:{group}/{filter}").replace('%', "%25").replace('|', "%7C")
}

/// A SUBSCRIBE in progress.
pub(in crate::shard) struct Answering {
    /// `None`: an agent changes its filters
    pub(in crate::shard) packet_id: Option<PacketId>,
    pub(in crate::shard) id: Option<u32>,
    pub(in crate::shard) filters: VecDeque<(String, SubscriptionOptions)>,
    pub(in crate::shard) codes: Vec<ReasonCode>,
    pub(in crate::shard) current: Option<CurrentFilter>,
    /// the record of the session is being stored
    pub(in crate::shard) stores: bool,
}

/// The filter whose links are being attached.
pub(in crate::shard) struct CurrentFilter {
    pub(in crate::shard) text: Arc<str>,
    pub(in crate::shard) granted: QoS,
    /// it was not subscribed before
    pub(in crate::shard) is_new: bool,
    pub(in crate::shard) accepted: bool,
    pub(in crate::shard) refusal: Option<ReasonCode>,
}

impl Answering {
    pub(in crate::shard) fn new(subscribe: &Subscribe<'_>) -> Self {
        Self {
            packet_id: Some(subscribe.packet_id),
            id: subscribe.properties.number(PropertyId::SubscriptionIdentifier),
            filters: subscribe.subscriptions().map(|one| (one.filter.to_owned(), one.options)).collect(),
            codes: Vec::new(),
            current: None,
            stores: false,
        }
    }

    /// A change of an agent's filters.
    pub(in crate::shard) fn of_agent(filters: VecDeque<(String, SubscriptionOptions)>) -> Self {
        Self { packet_id: None, id: None, filters, codes: Vec::new(), current: None, stores: false }
    }

    pub(in crate::shard) fn accepted(&mut self) {
        if let Some(current) = &mut self.current {
            current.accepted = true;
        }
    }

    pub(in crate::shard) fn refused(&mut self, error: &Error) {
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
    pub(in crate::shard) fn next_filter(&mut self) -> Option<Step> {
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
            return Some(Step::Filter);
        }
        if persists {
            return (!std::mem::replace(&mut answering.stores, true)).then_some(Step::StoreSubscriptions);
        }
        self.answer_subscribe(true);
        None
    }

    /// Answers the SUBSCRIBE in progress. `stored`: the record of the session has its filters.
    pub(in crate::shard) fn answer_subscribe(&mut self, stored: bool) {
        let Some(mut answering) = self.answering.pop_front() else { return };
        if self.answering.is_empty() {
            // Most clients subscribe once.
            self.answering = VecDeque::new();
        }
        if !stored {
            answering.codes.fill(ReasonCode::UnspecifiedError);
        }
        let Some(packet_id) = answering.packet_id else {
            let refused = answering.codes.iter().find(|code| code.is_error());
            return self.note_outcome(refused.map_or(Ok(()), |code| Err(*code)));
        };
        // An error means that the connection has ended in the meantime.
        let _ = self.machine.answer_subscribe(packet_id, &answering.codes, "");
    }

    /// Adds a link of a filter to an address.
    pub(in crate::shard) fn add_link(&mut self, filter: &Arc<str>, entry: &Arc<AddressEntry>) {
        let Some(state) = self.filters.get_mut(filter) else { return };
        let at = self.free_links.pop().unwrap_or(self.links.len());
        if at == self.links.len() {
            // Most clients have one subscription: the usual growth reserves four places.
            self.links.reserve_exact(usize::from(at == 0));
            self.links.push(None);
        }
        let link = LinkId((at + FIRST_SUBSCRIPTION) as u32);
        state.links.push(link);
        self.links[at] = Some(SubscriptionLink {
            filter: Arc::clone(filter),
            entry: Arc::clone(entry),
            parts: None,
            delivered: 0,
            credited_at: 0,
            attached: false,
        });
        self.attaches.push_back(link);
    }

    /// Forgets a link; its number may be used again.
    pub(in crate::shard) fn take_link(&mut self, link: LinkId) -> Option<SubscriptionLink> {
        let at = (link.0 as usize).checked_sub(FIRST_SUBSCRIPTION)?;
        self.end_parts(link);
        let taken = self.links.get_mut(at)?.take()?;
        self.free_links.push(at);
        if let Some(state) = self.filters.get_mut(&taken.filter) {
            state.links.retain(|known| *known != link);
        }
        Some(taken)
    }

    /// The links of a filter.
    pub(in crate::shard) fn links_of(&self, filter: &str) -> Vec<LinkId> {
        self.filters.get(filter).map(|state| state.links.to_vec()).unwrap_or_default()
    }

    pub(in crate::shard) fn is_at(&self, filter: &str, entry: &AddressEntry) -> bool {
        let mut links = self.filters.get(filter).into_iter().flat_map(|state| &state.links);
        links.any(|link| self.link(*link).is_some_and(|link| link.entry.key == entry.key))
    }
}

#[cfg(test)]
mod tests {
    use enmasse_amqp::time::Time;

    use super::*;
    use crate::core::{AddressKey, AddressKind};
    use crate::table::SpaceKey;

    fn insert(filters: &mut Filters, text: &str) {
        let filter = Filter::parse(text).expect("a filter");
        filters.insert(text.into(), FilterState::new(&filter, SubscriptionOptions::default(), None));
    }

    /// The next connection of the client, which has taken over, expects its subscriptions to be free.
    #[test]
    fn closing_connection_attaches_to_no_other_address() {
        for closes in [false, true] {
            let mut mqtt = Mqtt::new(Arc::default(), Time::ZERO);
            insert(&mut mqtt.filters, "news");
            let entry = AddressEntry::dynamic(AddressKey(1), SpaceKey(1), "news", AddressKind::Topic, 1, 0);
            mqtt.add_link(&Arc::from("news"), &Arc::new(entry));
            if closes {
                mqtt.close(None);
            }
            let attaches = matches!(mqtt.next_step(), Some(Step::Attach(_)));
            assert_eq!(attaches, !closes);
        }
    }

    #[test]
    fn long_filters_are_bounded_by_their_bytes() {
        let mut filters = Filters::default();
        let text = |number: usize| format!("{number:0>65000}");
        let count = (0..).take_while(|number| {
            let admits = filters.admits(&text(*number));
            if admits {
                insert(&mut filters, &text(*number));
                insert(&mut filters, &text(*number));
            }
            admits
        });
        assert_eq!(count.count(), FILTER_BYTES_MAX / 65_000);
        assert!(filters.admits(&text(0)), "it is there");
        filters.remove(&text(0)).expect("it was there");
        assert!(filters.admits(&text(1_000)));
        filters.clear();
        assert_eq!((filters.len(), filters.bytes), (0, 0));
    }
}
