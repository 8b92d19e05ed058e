//! Sessions that outlive their connections (4.1).
//!
//! The messages of a session are in durable subscriptions, one for each filter and topic, as those
//! of JMS clients are. What else belongs to it (filters with options, expiry, will) is its
//! *record*: the last message of one more durable subscription, at a topic that no name resolves to.
//! Its name leads from user and client id to the record, so a session is found without a search, by
//! whatever shard its next connection is on, and after a restart. A new record is on disk before
//! the packet that caused it is answered; then the former one is settled.

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{
    Attach, Body, Error, Header, Message, Properties, Source, TerminusDurability, TerminusExpiryPolicy, condition,
};
use enmasse_mqtt::codec::{PacketId, ReasonCode};
use enmasse_mqtt::connection::{InFlight, Stage};
use enmasse_mqtt::session::{Session, StoredSubscription, StoredWill};
use enmasse_mqtt::topic::Filter;

use super::login::Login;
use super::sending::Fate;
use super::subscribing::FilterState;
use super::{MQTT_PREFIX, Mqtt, PUBLISHER, Publication, StepOf, message, subscribing};
use crate::core::{Delivery, Ending};
use crate::shard::departing::Departure;
use crate::shard::{ConnId, Shard};

/// The link to the record of the session.
pub(super) const RECORD: LinkId = LinkId(3);
/// Records requested at once; there are seldom more than two.
const BATCH: u32 = 64;
/// Bytes of the longest client id of a session.
const CLIENT_ID_BYTES_MAX: usize = 1_024;

/// What a connection knows of its session.
#[derive(Default)]
pub(super) struct SessionState {
    /// seconds for which it outlives the connection; 0: it ends with it
    pub(super) expiry_s: u32,
    /// deliveries of records, the last of which is in force
    tokens: Vec<u64>,
    /// deliveries of former records, to be settled
    superseded: Vec<u64>,
    /// the record in force, until it was read
    found: Option<Session>,
    /// the received parts of a record
    parts: Vec<u8>,
    /// records of the batch so far
    delivered: u32,
    /// the link to the record is attached
    is_recorded: bool,
    /// the subscriptions of a former session are about to be ended
    pub(super) discards: bool,
    /// published if the connection ends otherwise than by the client's DISCONNECT
    pub(super) will: Option<Box<StoredWill>>,
    /// the record has the will
    stored_will: bool,
    /// packet ids of QoS 2 that its last connection left behind
    pub(super) left: InFlight,
    /// those that this connection continues with
    pub(super) resumed: InFlight,
}

/// What waits until a record is on disk.
#[derive(Debug)]
pub(super) enum After {
    /// nothing
    Nothing,
    /// CONNACK
    Connect,
    /// SUBACK of the SUBSCRIBE in progress
    Subscribe,
    /// UNSUBACK
    Unsubscribe { packet_id: PacketId, codes: Vec<ReasonCode> },
}

impl SessionState {
    /// Whether its subscriptions are those of a session that has or will have a record.
    pub(super) fn is_durable(&self) -> bool {
        self.expiry_s > 0 || self.discards
    }

    /// Whether it is kept when the connection ends.
    pub(super) fn persists(&self) -> bool {
        self.expiry_s > 0 && self.is_recorded
    }

    pub(super) fn take_superseded(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.superseded)
    }

    pub(super) fn take_tokens(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.tokens)
    }

    pub(super) fn credit(&self) -> u32 {
        if self.is_recorded { BATCH } else { 0 }
    }
}

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

impl Mqtt {
    /// The present state of the session, for its record.
    fn record(&self) -> Session {
        let subscription = |(text, filter): (&std::sync::Arc<str>, &FilterState)| StoredSubscription {
            filter: text.to_string(),
            options: filter.options,
            subscription_id: filter.id,
        };
        Session {
            expiry_s: self.session.expiry_s,
            subscriptions: self.filters.iter().map(subscription).collect(),
            in_flight: self.session.left.clone(),
            will: self.session.will.as_deref().cloned(),
        }
    }

    /// Takes a record of the session.
    pub(super) fn take_record(&mut self, delivery: &Delivery<'_>) -> Fate {
        let session = &mut self.session;
        if delivery.first {
            session.delivered += 1;
            session.parts.clear();
        }
        if delivery.aborted {
            return Fate::Pending;
        }
        session.parts.extend_from_slice(delivery.payload);
        if delivery.more {
            return Fate::Pending;
        }
        let parts = std::mem::take(&mut session.parts);
        let message = message::decode(&parts);
        let Ok(found) = Session::decode(&message.payload.concat()) else { return Fate::Done };
        session.found = Some(found);
        session.superseded.append(&mut session.tokens);
        session.tokens.extend(delivery.token);
        Fate::Pending
    }

    /// The link to the record is attached.
    pub(super) fn record_accepted(&mut self) {
        self.session.is_recorded = true;
        if let Some(login) = &mut self.login {
            login.record_accepted();
        }
    }

    /// There is no record, or it cannot be kept.
    pub(super) fn record_refused(&mut self, error: &Error) {
        let Some(login) = &mut self.login else { return };
        match login.is_recalling() {
            true if error.condition == condition::NOT_FOUND => login.set_step(StepOf::Resume),
            true => self.refuse_login(ReasonCode::ServerBusy),
            false => self.refuse_login(super::codes::closed(error)),
        }
    }

    /// All records are read.
    pub(super) fn record_drained(&mut self) {
        if let Some(login) = &mut self.login {
            login.set_step(if self.session.delivered >= BATCH { StepOf::ReadRecord } else { StepOf::Resume });
        }
    }

    /// A record is on disk, or was refused.
    pub(super) fn recorded(&mut self, after: After, stored: bool) {
        match after {
            After::Nothing => {}
            After::Connect if stored => {
                if let Some(login) = &mut self.login {
                    login.set_step(StepOf::Accept);
                }
            }
            After::Connect => self.refuse_login(ReasonCode::ServerUnavailable),
            After::Subscribe => self.answer_subscribe(stored),
            After::Unsubscribe { packet_id, codes } => {
                // An error means that the connection has ended in the meantime.
                let _ = self.machine.answer_unsubscribe(packet_id, &codes, "");
            }
        }
    }

    /// Adds the filters of a record.
    pub(super) fn restore(&mut self, record: &Session) {
        for subscription in &record.subscriptions {
            if let Ok(filter) = Filter::parse(&subscription.filter) {
                let state = FilterState::new(&filter, subscription.options, subscription.subscription_id);
                self.filters.insert(subscription.filter.as_str().into(), state);
            }
        }
    }
}

impl Shard {
    /// Looks for the session of a client.
    pub(super) fn recall_mqtt(&mut self, id: ConnId) {
        let conn = &self.fabric.conns[id.key()];
        let attach = subscribing::request(record_name(conn.user()));
        let space = conn.access.as_ref().and_then(|(space, _)| self.table.space(*space));
        let has_store = space.is_some_and(|space| space.mqtt().is_some());
        let longest = conn.container.len() <= CLIENT_ID_BYTES_MAX;
        let recalled = if has_store && longest { self.recall(id, RECORD, &attach) } else { Err(super::no_session()) };
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

    /// Continues the session that was found, or discards it.
    pub(super) fn resume_mqtt(&mut self, id: ConnId) {
        let store = self.session_bounds(id);
        let Some(mqtt) = self.mqtt(id) else { return };
        if mqtt.is_visit() {
            let found = mqtt.session.found.take();
            return self.decide_absent(id, found);
        }
        let Some(login) = &mut mqtt.login else { return };
        let asked = login.session_expiry_s;
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
        if let Some(record) = found.as_ref().filter(|_| present) {
            mqtt.session.resumed = record.in_flight.clone();
        }
        let discards = found.is_some() && !present;
        mqtt.session.discards = discards;
        let Some(login) = mqtt.login.as_mut() else { return };
        login.session_present = present;
        login.set_step(match (discards, is_recorded) {
            (true, _) => StepOf::Discard,
            (false, _) if !keeps || store.is_none() => StepOf::Accept,
            (false, true) => StepOf::StoreRecord,
            (false, false) => StepOf::CreateRecord,
        });
        if found.is_some() {
            self.widen_filters(id);
        }
    }

    /// The subscriptions of a session that its client discards are attached: ends them.
    pub(super) fn discard_mqtt(&mut self, id: ConnId) {
        self.end_filters(id);
        let Some(mqtt) = self.mqtt(id) else { return };
        mqtt.session.discards = false;
        let keeps = !mqtt.is_visit() && (mqtt.session.expiry_s > 0 || mqtt.session.will.is_some());
        if let Some(login) = &mut mqtt.login {
            login.set_step(if keeps { StepOf::StoreRecord } else { StepOf::Accept });
        }
        if !keeps {
            self.end_record(id);
        }
        if self.mqtt(id).is_some_and(|mqtt| mqtt.is_visit()) {
            self.end_visit(id);
        }
    }

    fn end_filters(&mut self, id: ConnId) {
        let filters: Vec<_> = self.mqtt(id).map(|mqtt| mqtt.filters.keys().cloned().collect()).unwrap_or_default();
        for filter in filters {
            self.end_links(id, &filter);
        }
        if let Some(mqtt) = self.mqtt(id) {
            mqtt.filters.clear();
        }
    }

    fn end_record(&mut self, id: ConnId) {
        self.release(id, &[RECORD], &Departure::silent(Ending::ByClient, true));
        if let Some(mqtt) = self.mqtt(id) {
            mqtt.session.is_recorded = false;
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
        let Some(entry) = space.and_then(|space| space.mqtt()).map(|store| std::sync::Arc::clone(&store.sessions))
        else {
            return;
        };
        let address = record_address(&entry.name, conn.user(), &conn.container);
        debug_assert!(address.starts_with(MQTT_PREFIX), "records have names of their own");
        let attach = Attach {
            source: Some(Box::new(durable_source(&address))),
            ..subscribing::request(record_name(conn.user()))
        };
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
        let entry = space.and_then(|space| space.mqtt()).map(|store| std::sync::Arc::clone(&store.sessions));
        let (Some(entry), Some(mqtt)) = (entry, conn.machine.mqtt()) else { return };
        let address = record_address(&entry.name, conn.user(), &conn.container);
        let mut bytes = Vec::new();
        mqtt.record().encode(&mut bytes);
        let record = Message {
            header: Some(Header { durable: true, ..Header::default() }),
            properties: Some(Properties { to: Some(address.clone()), ..Properties::default() }),
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
        self.pass_publication(id, (route.attachment, route.home), delivery_id, false, &sections);
    }

    /// The connection ends: keeps its session, or ends that too.
    pub(in crate::shard) fn leave_session(&mut self, id: ConnId, expiry_s: Option<u32>) {
        let bounds = self.session_bounds(id);
        let Some(mqtt) = self.mqtt(id).filter(|mqtt| mqtt.session.is_recorded) else { return };
        let session = &mut mqtt.session;
        let before = session.expiry_s;
        if let Some(expiry_s) = expiry_s {
            session.expiry_s = expiry_s.min(bounds.unwrap_or(0));
        }
        // A message that the client has not confirmed returns to its subscription; of one that it has
        // confirmed, and of those that it has sent, the packet ids stay in use (4.4).
        let mut left = mqtt.machine.take_in_flight();
        left.outgoing.retain(|delivery| delivery.stage == Stage::Received);
        let has_left = !left.outgoing.is_empty() || !left.received.is_empty();
        session.left = left;
        let changed = session.expiry_s != before || session.stored_will && session.will.is_none() || has_left;
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

impl Login {
    fn record_accepted(&mut self) {
        self.set_step(if self.is_recalling() { StepOf::ReadRecord } else { StepOf::StoreRecord });
    }
}
