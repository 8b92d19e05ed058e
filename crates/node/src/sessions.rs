//! Sessions of MQTT, as management lists and ends them: those of clients, and those that are
//! subscriptions or wills of AMQP clients.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use enmasse_amqp::codec::decode_message;
use enmasse_amqp::types::Body;
use enmasse_mqtt::session::{Session, StoredSubscription, StoredWill};
use enmasse_router::core::{AddressKey, Operated, Operation, Work};
use enmasse_router::shard::SessionOwner;
use enmasse_router::table::SpaceKey;
use serde::{Deserialize, Serialize};

use crate::command::Command;
use crate::error::NodeError;
use crate::manage::next_id;
use crate::node::{ANSWER_TIMEOUT, Node, lock, no_answer};
use crate::stats::SessionKey;

/// Subscriptions of a session that are listed.
const SUBSCRIPTIONS_MAX: usize = 1000;
/// Interval of looking whether a session has ended.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// What names a session of a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionName {
    /// its user, unless anonymous
    pub user: Option<String>,
    /// what has it
    pub kind: SessionKind,
    /// the client id of the client, the name of the subscription, or the container with the will
    pub client_id: String,
    /// the link with the will
    pub link: Option<String>,
}

/// What has a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionKind {
    /// a client of MQTT
    Client,
    /// a subscription of an AMQP client
    Subscription,
    /// a will of an AMQP client
    Will,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionLine {
    /// its name
    #[serde(flatten)]
    pub name: SessionName,
    /// the connection of its client, if it is connected
    pub connection: Option<u64>,
    /// seconds that it outlives a connection; `None`: no end
    pub expiry_s: Option<u32>,
    /// number of its subscriptions
    pub subscription_count: usize,
    /// the first 1,000 of them, in the order of their filters
    pub subscriptions: Vec<SubscriptionLine>,
    /// its will, without the payload
    pub will: Option<WillLine>,
}

/// A subscription of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionLine {
    /// with `$share/GROUP/`, if shared
    pub filter: String,
    /// highest QoS of its messages
    pub qos: u8,
    /// not those of the client itself
    pub no_local: bool,
}

/// A will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WillLine {
    /// its topic name
    pub topic: String,
    /// its QoS
    pub qos: u8,
    /// it is retained
    pub retain: bool,
    /// seconds after the end of the connection
    pub delay_s: u32,
    /// bytes of its payload
    pub bytes: usize,
}

/// Where the state of a session is.
enum Found {
    /// at the client's connection
    Connected(u64),
    /// the queue with its record, at this worker
    Recorded(u16, AddressKey),
}

impl Node {
    /// Sessions of a space, by user and client id, those after `after`, and the number of the
    /// others.
    ///
    /// # Errors
    /// `NoSuchSpace`, `Busy`, `Stopped`.
    pub fn sessions(
        &self,
        space_uid: &str,
        after: Option<SessionName>,
        max: usize,
    ) -> Result<(Vec<SessionLine>, usize), NodeError> {
        let space = self.space_of(space_uid)?;
        let after = after.map(SessionName::into_key);
        let mut found = self.find_sessions(space)?;
        found.retain(|key, _| after.as_ref().is_none_or(|after| key > after));
        let more = found.len().saturating_sub(max);
        // All records are requested before the first one is awaited.
        let requested: Vec<_> = found.into_iter().take(max).map(|(key, found)| (key, self.request(found))).collect();
        let connected = requested.iter().filter(|(_, state)| matches!(state, State::Connected(_)));
        let connected: Arc<HashSet<SessionKey>> = Arc::new(connected.map(|(key, _)| key.clone()).collect());
        let states = self.ask(|answer| Command::SessionStates(space, Arc::clone(&connected), answer))?;
        let mut states: HashMap<SessionKey, Session> = states.into_iter().flatten().collect();
        let mut lines = Vec::with_capacity(requested.len());
        for (key, state) in requested {
            let (connection, session) = match state {
                State::Connected(connection) => (Some(connection), states.remove(&key)),
                State::Requested(worker, answered) => {
                    let done = answered.recv_timeout(ANSWER_TIMEOUT);
                    (None, record(done.map_err(|error| no_answer(worker, error))?))
                }
            };
            // One without a state has ended in the meantime, or its client has left.
            lines.extend(session.map(|session| SessionLine::of(key, connection, session)));
        }
        Ok((lines, more))
    }

    /// Ends a session with its subscriptions; its client gets 0x98. Returns once it is removed;
    /// `false`: there is no such session.
    ///
    /// # Errors
    /// `NoSuchSpace`, `Stopped`; `Busy` if it has not ended within the time of an answer, for
    /// instance because its client connects.
    pub fn end_session(&self, space_uid: &str, name: SessionName) -> Result<bool, NodeError> {
        let space = self.space_of(space_uid)?;
        let key = Arc::new(name.into_key());
        let Some(before) = self.find_sessions(space)?.remove(&key) else { return Ok(false) };
        let recorded = self.record_of(space, &key)?;
        self.ask(|done| Command::EndSession(space, Arc::clone(&key), done))?;
        let begun = Instant::now();
        while begun.elapsed() < ANSWER_TIMEOUT {
            // The client may connect again at once: its new session has another record.
            let is_there = match (&before, recorded) {
                (_, Some(record)) => self.record_of(space, &key)? == Some(record),
                (Found::Connected(connection), None) => {
                    let now = self.find_sessions(space)?;
                    matches!(now.get(&*key), Some(Found::Connected(other)) if other == connection)
                }
                (Found::Recorded(..), None) => false,
            };
            if !is_there {
                return Ok(true);
            }
            std::thread::sleep(END_CHECK_INTERVAL);
        }
        Err(NodeError::Busy { worker: 0, waited_s: ANSWER_TIMEOUT.as_secs() })
    }

    fn space_of(&self, uid: &str) -> Result<SpaceKey, NodeError> {
        self.running()?;
        let table = Arc::clone(&lock(&self.table));
        let found = table.spaces().find(|space| space.uid() == uid && space.mqtt().is_some());
        found.map(|space| space.key()).ok_or_else(|| NodeError::NoSuchSpace(uid.to_owned()))
    }

    fn find_sessions(&self, space: SpaceKey) -> Result<BTreeMap<SessionKey, Found>, NodeError> {
        let mut found = BTreeMap::new();
        let answers = self.ask(|answer| Command::Sessions(space, answer))?;
        let mut connected = Vec::new();
        for (worker, answer) in (0..).zip(answers) {
            let recorded = answer.recorded.into_iter();
            found.extend(recorded.map(|(user, id, record)| ((user, id), Found::Recorded(worker, record))));
            connected.extend(answer.connected);
        }
        // The record of a connected client may be on its way to the disk: its own state counts.
        let connected = connected.into_iter();
        found.extend(connected.map(|(key, number)| (key, Found::Connected(number))));
        Ok(found)
    }

    fn record_of(&self, space: SpaceKey, key: &SessionKey) -> Result<Option<AddressKey>, NodeError> {
        let answers = self.ask(|answer| Command::Sessions(space, answer))?;
        let mut recorded = answers.into_iter().flat_map(|answer| answer.recorded);
        let found = recorded.find(|(user, id, _)| (user, id) == (&key.0, &key.1));
        Ok(found.map(|(_, _, record)| record))
    }

    fn request(&self, found: Found) -> State {
        let (worker, record) = match found {
            Found::Connected(connection) => return State::Connected(connection),
            Found::Recorded(worker, record) => (worker, record),
        };
        let operation = Operation {
            id: next_id(),
            address: record,
            work: Work::Peek(u32::MAX),
            selector: None,
            names: None,
            dry_run: false,
            limit: usize::MAX,
            rest: None,
            edited: None,
        };
        let (answer, answered) = channel();
        self.shared.mailboxes[usize::from(worker)].post([Command::Operate(Box::new(operation), answer)]);
        State::Requested(worker, answered)
    }
}

enum State {
    Connected(u64),
    Requested(u16, Receiver<Operated>),
}

/// The session of its last record.
fn record(done: Operated) -> Option<Session> {
    let message = decode_message(done.found.last()?.message.as_deref()?).ok()?;
    let Body::Data(parts) = message.body else { return None };
    Session::decode(&parts.concat()).ok()
}

impl SessionName {
    fn of((user, client_id): SessionKey) -> Self {
        let (kind, client_id, link) = match SessionOwner::of(&client_id) {
            SessionOwner::Client(client_id) => (SessionKind::Client, client_id, None),
            SessionOwner::Subscription(name) => (SessionKind::Subscription, name, None),
            SessionOwner::Will { container, link } => (SessionKind::Will, container, Some(link)),
        };
        Self { user, kind, client_id, link }
    }

    fn into_key(self) -> SessionKey {
        let owner = match self.kind {
            SessionKind::Client => SessionOwner::Client(self.client_id),
            SessionKind::Subscription => SessionOwner::Subscription(self.client_id),
            SessionKind::Will => SessionOwner::Will { container: self.client_id, link: self.link.unwrap_or_default() },
        };
        (self.user, owner.client_id())
    }
}

impl SessionLine {
    fn of(key: SessionKey, connection: Option<u64>, session: Session) -> Self {
        let listed = session.subscriptions.iter().take(SUBSCRIPTIONS_MAX);
        Self {
            name: SessionName::of(key),
            connection,
            expiry_s: (session.expiry_s != u32::MAX).then_some(session.expiry_s),
            subscription_count: session.subscriptions.len(),
            subscriptions: listed.map(SubscriptionLine::of).collect(),
            will: session.will.as_ref().map(WillLine::of),
        }
    }
}

impl SubscriptionLine {
    fn of(subscription: &StoredSubscription) -> Self {
        let options = subscription.options;
        Self { filter: subscription.filter.clone(), qos: options.qos as u8, no_local: options.no_local }
    }
}

impl WillLine {
    fn of(will: &StoredWill) -> Self {
        let (topic, bytes) = (will.topic.clone(), will.payload.len());
        Self { topic, qos: will.qos as u8, retain: will.retain, delay_s: will.delay_s, bytes }
    }
}
