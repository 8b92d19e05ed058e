//! Sessions that outlive their connections (4.1).
//!
//! The messages of a session are in durable subscriptions, one for each filter and topic, as those
//! of JMS clients are. What else belongs to it (filters with options, expiry, will) is its
//! *record*: the last message of one more durable subscription, at a topic that no name resolves to.
//! Its name leads from user and client id to the record, so a session is found without a search, by
//! whatever shard its next connection is on, and after a restart. A new record is on disk before
//! the packet that caused it is answered; then the former one is settled.

use std::sync::Arc;

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::types::{
    Attach, Body, Error, Header, Message, MessageId, Properties, Source, TerminusDurability, TerminusExpiryPolicy,
    condition,
};

use crate::core::Ending;
use crate::shard::departing::Departure;
use crate::shard::mqtt::links::request;
use crate::shard::mqtt::record::{After, BATCH};
use crate::shard::mqtt::steps::Step;
use crate::shard::mqtt::{MQTT_PREFIX, PUBLISHER, Publication, RECORD};
use crate::shard::{ConnId, Shard};

/// Bytes of the longest client id of a session.
const CLIENT_ID_BYTES_MAX: usize = 1_024;

/// The name of the durable subscription with the record of a user's session.
pub(super) fn record_name(user: Option<&str>) -> String {
    format!("mqtt:{}", user.unwrap_or_default()).replace('%', "%25").replace('|', "%7C")
}

/// The user of such a name.
pub(super) fn user_of(name: &str) -> Option<String> {
    Some(name.strip_prefix("mqtt:")?.replace("%7C", "|").replace("%25", "%"))
}

/// The name to which the records of a session are sent.
fn record_address(sessions: &str, user: Option<&str>, client_id: &str) -> String {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    format!("{sessions}/{}/{}", encode(user.unwrap_or_default()), encode(client_id))
}

/// The space of a client keeps no sessions.
fn no_session() -> Error {
    Error::new(condition::NOT_FOUND, "the address space keeps no such session")
}

impl Shard {
    /// Looks for the session of a client.
    pub(super) fn recall_mqtt(&mut self, id: ConnId) {
        let conn = &self.fabric.conns[id.key()];
        let attach = request(record_name(conn.user()));
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        let has_store = space.is_some_and(|space| space.mqtt().is_some());
        let longest = conn.container.len() <= CLIENT_ID_BYTES_MAX;
        let recalled = if has_store && longest { self.recall(id, RECORD, &attach) } else { Err(no_session()) };
        if let (Err(error), Some(mqtt)) = (recalled, self.mqtt(id)) {
            mqtt.record_refused(&error);
        }
        self.refuse_attaches();
        self.fabric.mark(id.key);
    }

    pub(super) fn read_record(&mut self, id: ConnId) {
        if let Some(mqtt) = self.mqtt(id) {
            mqtt.session.delivered = 0;
        }
        self.granted(id, RECORD, BATCH, true);
    }

    /// Publishes the will of a connection that has ended with an earlier run of the node: the
    /// client is back before its session was visited. A delayed one is discarded [5: 3.1.3-9].
    fn publish_found_will(&mut self, id: ConnId) {
        let Some(mqtt) = self.mqtt(id).filter(|mqtt| !mqtt.is_visit()) else { return };
        let will = mqtt.session.found.as_mut().and_then(|record| record.will.take_if(|will| will.delay_s == 0));
        if let Some(will) = will {
            mqtt.session.will = Some(Box::new(will));
            self.publish_will(id);
        }
    }

    /// Continues the session that was found, or discards it.
    pub(super) fn resume_mqtt(&mut self, id: ConnId) {
        self.publish_found_will(id);
        let store = self.session_bounds(id);
        let Some(mqtt) = self.mqtt(id) else { return };
        if mqtt.is_visit() {
            let found = mqtt.session.found.take();
            return self.decide_absent(id, found);
        }
        let Some(login) = &mut mqtt.login else { return };
        let is_kept = mqtt.session.found.as_ref().is_some_and(|record| record.expiry_s > 0);
        // A subscription of an AMQP client stays until that closes it, as durable ones do.
        let kept_s = mqtt.serving.as_mut().map(|serving| serving.session_expiry_s(is_kept));
        let (asked, store) = match kept_s {
            Some(kept_s) => (kept_s, store.filter(|most| *most > 0).map(|_| u32::MAX)),
            None => (login.session_expiry_s, store),
        };
        mqtt.session.is_decided = true;
        let (expiry_s, clean) = (store.map_or(0, |most| asked.min(most)), login.clean_start);
        let found = mqtt.session.found.take();
        mqtt.session.expiry_s = expiry_s;
        mqtt.session.will = mqtt.login.as_mut().and_then(|login| login.will.take());
        // Without an expiry it was kept for the sake of its will only.
        let present = found.as_ref().is_some_and(|record| record.expiry_s > 0) && !clean;
        if let Some(record) = &found {
            mqtt.restore(record);
        }
        let (is_recorded, keeps) = (mqtt.session.is_recorded, expiry_s > 0 || mqtt.session.will.is_some());
        let discards = found.is_some() && !present;
        mqtt.session.discards = discards;
        let Some(login) = mqtt.login.as_mut() else { return };
        login.session_present = present;
        login.set_step(match (discards, is_recorded) {
            (true, _) => Step::Discard,
            (false, _) if !keeps || store.is_none() => Step::Accept,
            (false, true) => Step::StoreRecord,
            (false, false) => Step::CreateRecord,
        });
        match found {
            Some(_) => self.widen_filters(id),
            // Without its record, which may be damaged, the session is a new one: its identifiers would
            // make new messages duplicates.
            None => self.drop_packet_ids(id),
        }
    }

    /// The subscriptions of a session that its client discards are attached: ends them.
    pub(super) fn discard_mqtt(&mut self, id: ConnId) {
        self.end_filters(id);
        self.drop_packet_ids(id);
        let Some(mqtt) = self.mqtt(id) else { return };
        mqtt.session.discards = false;
        let keeps = !mqtt.is_visit() && (mqtt.session.expiry_s > 0 || mqtt.session.will.is_some());
        if let Some(login) = &mut mqtt.login {
            login.set_step(if keeps { Step::StoreRecord } else { Step::Accept });
        }
        if !keeps {
            self.end_record(id);
        }
        if self.mqtt(id).is_some_and(|mqtt| mqtt.is_visit()) {
            self.end_visit(id);
        }
    }

    pub(super) fn end_filters(&mut self, id: ConnId) {
        let filters: Vec<_> = self.mqtt(id).map(|mqtt| mqtt.filters.keys().cloned().collect()).unwrap_or_default();
        for filter in filters {
            self.end_links(id, &filter);
        }
        if let Some(mqtt) = self.mqtt(id) {
            mqtt.filters.clear();
        }
    }

    fn end_record(&mut self, id: ConnId) {
        let record = self.record_attachment(id);
        self.forget_absent(id);
        self.release(id, &[RECORD], &Departure::silent(Ending::ByClient, true));
        if let Some(mqtt) = self.mqtt(id) {
            (mqtt.session.is_recorded, mqtt.session.ended_record) = (false, record);
        }
    }

    /// The longest time for which the client's space keeps a session.
    fn session_bounds(&self, id: ConnId) -> Option<u32> {
        let (space, _) = self.fabric.conns.get(id.key())?.access.as_ref()?;
        self.table.space(*space)?.mqtt().map(|store| store.session_expiry_s)
    }

    /// Makes the durable subscription with the record of a new session.
    pub(super) fn create_record(&mut self, id: ConnId) {
        let conn = &self.fabric.conns[id.key()];
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        let Some(entry) = space.and_then(|space| space.mqtt()).map(|store| Arc::clone(&store.sessions)) else {
            return;
        };
        let address = record_address(&entry.name, conn.user(), &conn.container);
        debug_assert!(address.starts_with(MQTT_PREFIX), "records have names of their own");
        let attach = Attach { source: Some(Box::new(durable_source(&address))), ..request(record_name(conn.user())) };
        let entries = [entry];
        match self.terms(id, &attach, &entries) {
            Ok(mut terms) => {
                // The names of records are the node's: the rights of the user do not cover them.
                if let Some(subscribing) = terms.as_mut().and_then(|terms| terms.consuming.subscribing.as_deref_mut()) {
                    subscribing.allowed = None;
                }
                self.attach_at(id, RECORD, &attach, &entries, &address, &terms);
            }
            Err(error) => self.refuse_attach(id, RECORD, String::new(), error),
        }
        self.refuse_attaches();
        self.fabric.mark(id.key);
    }

    /// Stores the present record of the session.
    pub(super) fn store_record(&mut self, id: ConnId, after: After) {
        let conn = &self.fabric.conns[id.key()];
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        let entry = space.and_then(|space| space.mqtt()).map(|store| Arc::clone(&store.sessions));
        let (Some(entry), Some(mqtt)) = (entry, conn.machine.mqtt()) else { return };
        let address = record_address(&entry.name, conn.user(), &conn.container);
        let mut bytes = Vec::new();
        mqtt.record().encode(&mut bytes);
        // A visit changes the record on behalf of the connection that has left it.
        let stored_by = mqtt.session.stored_by.filter(|_| mqtt.is_visit());
        let stored_by = stored_by.unwrap_or_else(|| self.connection_number(id));
        let record = Message {
            header: Some(Header { durable: true, ..Header::default() }),
            properties: Some(Properties {
                to: Some(address.clone()),
                correlation_id: Some(MessageId::Binary(stored_by.to_be_bytes().to_vec())),
                ..Properties::default()
            }),
            body: Body::Data(vec![bytes]),
            ..Message::default()
        };
        let mut sections = Vec::new();
        encode_message(&mut sections, &record);
        let route = self.route_at(id, PUBLISHER, &address, &entry);
        if let Some(attachment) = self.fabric.attachments.get_mut(route.attachment) {
            attachment.unanswered += 1;
        }
        if let Some(mqtt) = self.mqtt(id) {
            mqtt.session.stored_will = mqtt.session.will.is_some();
        }
        let delivery_id = self.note_publication(id, Some(Publication::of_record(after)));
        self.pass_publication(id, (route.attachment, route.home), (delivery_id, None), false, &sections);
    }

    /// The connection ends: keeps its session, or ends that too. A session that it has not read yet
    /// is as before.
    pub(in crate::shard) fn leave_session(&mut self, id: ConnId, expiry_s: Option<u32>) {
        let bounds = self.session_bounds(id);
        if self.mqtt(id).is_some_and(|mqtt| !mqtt.session.is_decided) {
            return self.note_undecided(id);
        }
        let Some(mqtt) = self.mqtt(id).filter(|mqtt| mqtt.session.is_recorded) else { return };
        let session = &mut mqtt.session;
        let before = session.expiry_s;
        if let Some(expiry_s) = expiry_s {
            session.expiry_s = expiry_s.min(bounds.unwrap_or(0));
        }
        let changed = session.expiry_s != before || session.stored_will && session.will.is_none();
        let noted = std::mem::take(&mut mqtt.packet_ids);
        noted.into_iter().for_each(|(packet_id, kept)| self.note_packet_id(id, packet_id, kept));
        let Some(mqtt) = self.mqtt(id) else { return };
        let session = &mut mqtt.session;
        if session.expiry_s == 0 {
            self.end_filters(id);
            return self.end_record(id);
        }
        if changed {
            self.store_record(id, After::Nothing);
        }
        self.note_absent(id);
    }
}

/// The source of a durable subscription.
fn durable_source(address: &str) -> Source {
    Source {
        address: Some(address.to_owned()),
        durable: TerminusDurability::UnsettledState,
        expiry_policy: TerminusExpiryPolicy::Never,
        ..Source::default()
    }
}
