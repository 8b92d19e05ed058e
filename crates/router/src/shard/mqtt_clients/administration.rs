//! Sessions as management sees them, and their end on behalf of an administrator.

use enmasse_amqp::types::{Error, condition};
use enmasse_mqtt::codec::ReasonCode;
use enmasse_mqtt::session::Session;

use super::absent::Absent;
use super::sessions::user_of;
use crate::core::AddressKey;
use crate::shard::mqtt::{Mqtt, Visit};
use crate::shard::{ConnId, Shard};
use crate::table::{MqttStore, SpaceKey};

/// A session in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectedSession {
    /// its user, unless anonymous
    pub user: Option<String>,
    /// its client id
    pub client_id: String,
    /// the connection of its client
    pub conn: ConnId,
    /// the connection that has it: of its client, or of the agent of an AMQP client
    holder: ConnId,
}

/// A session on disk: its user, its client id, and the queue with its record.
pub type RecordedSession = (Option<String>, String, AddressKey);

impl Shard {
    /// The sessions of a space whose clients are connected to this shard.
    #[must_use]
    pub fn connected_sessions(&self, space: SpaceKey) -> Vec<ConnectedSession> {
        let clients = self.fabric.conns.iter().filter_map(|(key, conn)| {
            let is_within = conn.access.as_ref().is_some_and(|(within, _)| *within == space);
            let mqtt = conn.machine.mqtt().filter(|mqtt| is_within && has_session(mqtt))?;
            let (user, client_id) = (conn.user().map(str::to_owned), conn.container.to_string());
            let holder = self.id(key as u32);
            Some(ConnectedSession { user, client_id, conn: mqtt.client_of_agent().unwrap_or(holder), holder })
        });
        clients.collect()
    }

    /// The filters, expiry and will of a session that [`Shard::connected_sessions`] has listed in
    /// the same turn.
    #[must_use]
    pub fn session_of(&self, session: &ConnectedSession) -> Option<Session> {
        self.fabric.conns.get(session.holder.key())?.machine.mqtt().map(Mqtt::record)
    }

    /// The sessions on disk of a space, if they live here.
    #[must_use]
    pub fn recorded_sessions_of(&self, space: SpaceKey) -> Vec<RecordedSession> {
        let store = self.table.space(space).and_then(|space| space.mqtt());
        store.map(|store| self.recorded_sessions(store)).unwrap_or_default()
    }

    pub(super) fn recorded_sessions(&self, store: &MqttStore) -> Vec<RecordedSession> {
        let found = self.router.durable_subscriptions(store.sessions.key).into_iter();
        let sessions = found.filter_map(|(name, record)| {
            let user = Some(user_of(&name.name)?).filter(|user| !user.is_empty());
            Some((user, name.container?.to_string(), record))
        });
        sessions.collect()
    }

    /// Ends the session of a client that is connected here, or one on disk that lives here, with
    /// its subscriptions; its will is published (3.1.2.5). A client of MQTT gets 0x98
    /// (administrative action), the receiver of a subscription an error.
    pub fn end_session(&mut self, space: SpaceKey, user: Option<&str>, client_id: &str) {
        let sessions = self.connected_sessions(space).into_iter();
        let mut connected = sessions.filter(|one| one.user.as_deref() == user && one.client_id == client_id);
        if let Some(ConnectedSession { holder, .. }) = connected.next() {
            if let Some(mqtt) = self.mqtt(holder) {
                let what = "an administrator has ended the session";
                mqtt.session.expiry_s = 0;
                if let Some(serving) = &mut mqtt.serving {
                    serving.failure = Some(Error::new(condition::RESOURCE_DELETED, what));
                }
                mqtt.disconnect(ReasonCode::AdministrativeAction, what);
            }
            return self.fabric.mark(holder.key);
        }
        let recorded = self.recorded_sessions_of(space);
        if recorded.iter().any(|(owner, id, _)| owner.as_deref() == user && id == client_id) {
            let now = self.fabric.now;
            let visit = Visit { since: now, connection: None, ends: true };
            let absent = Absent { space, user: user.map(str::to_owned), client_id: client_id.to_owned(), visit };
            self.wait_for_visit(now, absent);
        }
    }
}

/// Whether it is a client, or the agent of one, that knows its session.
fn has_session(mqtt: &Mqtt) -> bool {
    mqtt.session.is_decided && mqtt.login.is_none() && !mqtt.ended && !mqtt.is_visit()
}
