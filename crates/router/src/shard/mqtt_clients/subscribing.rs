//! SUBSCRIBE and UNSUBSCRIBE (3.8 to 3.11): filters as links.
//!
//! A filter has one link for each address that it covers, so that each address has its own order,
//! its own credit and, in a persistent session, its own subscription in the journal. The filters of
//! one packet are handled in order, and so are the links of one filter; later packets wait.

use std::sync::Arc;

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Error, Role, condition};
use enmasse_mqtt::codec::{ReasonCode, Subscribe, Unsubscribe};
use enmasse_mqtt::topic::Filter;

use super::sessions::record_name;
use crate::core::{AddressKind, Ending, ToHome};
use crate::shard::conn::Link;
use crate::shard::departing::Departure;
use crate::shard::mqtt::codes::refused_subscription;
use crate::shard::mqtt::filters::{Answering, CurrentFilter, FilterState, is_of_system};
use crate::shard::mqtt::record::After;
use crate::shard::{ConnId, Shard};
use crate::table::AddressEntry;

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
            Ok(_) if !mqtt.filters.admits(&text) => Err(ReasonCode::QuotaExceeded),
            Ok(filter) if is_of_system(filter.as_str()) => {
                let state = FilterState::new(&filter, options, subscription_id);
                let subscribed = self.subscribe_system(id, &text.into(), state);
                return self.refuse_filter(id, subscribed.err().map(|error| refused_subscription(&error)));
            }
            Ok(filter) if !filter.has_wildcard() && self.creates(id, Role::Receiver, filter.as_str()) => {
                if let Some(answering) = self.mqtt(id).and_then(|mqtt| mqtt.answering.front_mut()) {
                    answering.filters.push_front((text, options));
                }
                return;
            }
            Ok(filter) => {
                let state = FilterState::new(&filter, options, subscription_id);
                self.covered(id, &state).map(|entries| (state, entries)).map_err(|error| refused_subscription(&error))
            }
            Err(_) => Err(ReasonCode::TopicFilterInvalid),
        };
        match covered {
            Ok((state, entries)) => self.attach_filter(id, &text.into(), state, &entries),
            Err(code) => self.refuse_filter(id, Some(code)),
        }
    }

    fn refuse_filter(&mut self, id: ConnId, refusal: Option<ReasonCode>) {
        let answering = self.mqtt(id).and_then(|mqtt| mqtt.answering.front_mut());
        if let Some((code, answering)) = refusal.zip(answering) {
            answering.codes.push(code);
        }
    }

    /// Attaches a filter to the addresses that it covers. A filter that is subscribed again has new
    /// options [5: 3.8.4-3]; its links stay, unless the options concern their addresses.
    pub(super) fn attach_filter(
        &mut self,
        id: ConnId,
        text: &Arc<str>,
        mut state: FilterState,
        entries: &[Arc<AddressEntry>],
    ) {
        let Some(mqtt) = self.mqtt(id) else { return };
        let before = mqtt.filters.get(text).map(|before| before.options);
        if before.is_some_and(|before| before.no_local != state.options.no_local) {
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
        state.links = mqtt.filters.remove(text).map(|before| before.links).unwrap_or_default();
        mqtt.filters.insert(Arc::clone(text), state);
        for entry in entries {
            if !mqtt.is_at(text, entry) {
                mqtt.add_link(text, entry);
            }
        }
        if before.is_some() {
            self.renew_guarantees(id, text);
        }
    }

    /// The links of a filter get deliveries of its present QoS. Those on their way keep theirs.
    fn renew_guarantees(&mut self, id: ConnId, text: &str) {
        let conn = &self.fabric.conns[id.key()];
        let Some(mqtt) = conn.machine.mqtt() else { return };
        let renewed = mqtt.links_of(text).into_iter().flat_map(|link| match conn.links.get(link.0 as usize) {
            Some(Link::Consumer { attachments, .. }) => {
                attachments.iter().map(|attachment| (*attachment, mqtt.guarantee(link))).collect()
            }
            // It is not attached yet, and will be with the new QoS.
            _ => Vec::new(),
        });
        for (attachment, guarantee) in renewed.collect::<Vec<_>>() {
            if let Some(home) = self.fabric.attachments.get(attachment).map(|state| state.home) {
                self.send_to_home(home, ToHome::Guarantee { attachment, guarantee });
            }
        }
    }

    /// The addresses that a filter covers, if the client may receive from it: topics, multicasts
    /// and streams by wildcards, any address by its exact name.
    pub(super) fn covered(&self, id: ConnId, state: &FilterState) -> Result<Vec<Arc<AddressEntry>>, Error> {
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
        self.resume_starved(id);
    }
}
