//! Agents: sessions of MQTT without a client, which have the wills of AMQP clients (`wills`).
//!
//! An agent is a connection without a socket. It logs in as the user of its link, under a client id
//! that no client of MQTT can have, and has a session as long as its link. So its will is on disk
//! before it is accepted, and is published by the rules for wills, also after a crash.

use enmasse_amqp::types::{Error, condition};
use enmasse_mqtt::session::StoredWill;

use crate::shard::mqtt::WillOwner;
use crate::shard::mqtt::login::Login;
use crate::shard::mqtt::record::After;
use crate::shard::{ConnId, Shard};

/// Client ids of agents begin so. Text of MQTT has no U+0000 [5: 1.5.4-2].
const PREFIX: char = '\0';

/// What has a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOwner {
    /// a client of MQTT: its client id
    Client(String),
    /// a subscription of an AMQP client: its name (`subscription_service`)
    Subscription(String),
    /// a link with a will of an AMQP client (`wills`)
    Will {
        /// the container of the client
        container: String,
        /// the name of the link
        link: String,
    },
}

impl SessionOwner {
    /// The owner with a client id, as sessions are recorded.
    #[must_use]
    pub fn of(client_id: &str) -> Self {
        let Some(agent) = client_id.strip_prefix(PREFIX) else { return Self::Client(client_id.to_owned()) };
        match agent.split_once(PREFIX) {
            Some((container, link)) => Self::Will { container: container.to_owned(), link: link.to_owned() },
            None => Self::Subscription(agent.to_owned()),
        }
    }

    /// Its client id: that of an agent is no client id of MQTT.
    #[must_use]
    pub fn client_id(&self) -> String {
        match self {
            Self::Client(client_id) => client_id.clone(),
            Self::Subscription(name) => format!("{PREFIX}{name}"),
            Self::Will { container, link } => format!("{PREFIX}{container}{PREFIX}{link}"),
        }
    }
}

impl Shard {
    /// Begins the agent of a link. Its login ends in [`Shard::agent_ready`], or with a refusal.
    pub(in crate::shard) fn begin_agent(
        &mut self,
        id: ConnId,
        link_name: &str,
        owner: WillOwner,
        will: Box<StoredWill>,
    ) -> ConnId {
        let client = &self.fabric.conns[id.key()];
        let owner_of_session =
            SessionOwner::Will { container: client.container.to_string(), link: link_name.to_owned() };
        let client_id = owner_of_session.client_id();
        let (authenticated, access) = (client.authenticated.clone(), client.access.clone());
        let login = Login { clean_start: true, will: Some(will), ..Login::new(client_id, false) };
        let mut conn = self.without_client(login, authenticated);
        conn.access = access;
        let agent = self.insert(Box::new(conn));
        if let Some(mqtt) = self.mqtt(agent) {
            mqtt.owner = Some(owner);
        }
        self.log_in(agent);
        agent
    }

    /// A new will takes the place of the one that an agent has.
    pub(in crate::shard) fn replace_will(&mut self, agent: ConnId, owner: WillOwner, will: Box<StoredWill>) {
        let Some(mqtt) = self.mqtt(agent) else { return };
        debug_assert!(mqtt.login.is_none(), "a link has credit for one will at a time");
        mqtt.owner = Some(owner);
        mqtt.session.will = Some(will);
        if mqtt.session.is_recorded {
            self.store_record(agent, After::Will);
        } else {
            self.agent_ready(agent);
        }
    }

    /// The will of an agent is on disk, or kept in memory where its space keeps no sessions.
    pub(super) fn agent_ready(&mut self, agent: ConnId) {
        self.answer_owner(agent, None);
        if let Some(publishes) = self.mqtt(agent).and_then(|mqtt| mqtt.owner?.left) {
            self.end_agent(agent, publishes);
        }
    }

    /// The will of an agent cannot be kept: its link learns why.
    pub(super) fn agent_refused(&mut self, agent: ConnId, why: &str) {
        self.answer_owner(agent, Some(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, why)));
        self.end_agent(agent, false);
    }

    /// The connection of an agent was closed: its login was refused, or the node ends it with the
    /// rights of its user, or another link of the same name takes over.
    pub(super) fn agent_closed(&mut self, agent: ConnId) {
        if self.mqtt(agent).is_some_and(|mqtt| mqtt.session.is_decided) {
            // One that is being replaced is published instead of kept.
            self.answer_owner(agent, None);
            return self.end_agent(agent, true);
        }
        self.agent_refused(agent, "the will cannot be kept: the address space has no room for it");
    }

    fn answer_owner(&mut self, agent: ConnId, refusal: Option<Error>) {
        let Some(owner) = self.mqtt(agent).and_then(|mqtt| mqtt.owner.as_mut()) else { return };
        let (conn, link, is_there) = (owner.conn, owner.link, owner.left.is_none());
        if let Some(delivery_id) = owner.unanswered.take().filter(|_| is_there && self.knows(conn)) {
            self.answer_will(conn, link, delivery_id, refusal);
        }
    }

    /// The link of an agent has ended. A will that is being stored is published or discarded after
    /// that.
    pub(in crate::shard) fn dismiss_agent(&mut self, agent: ConnId, publishes: bool) {
        let Some(mqtt) = self.mqtt(agent) else { return };
        if mqtt.login.is_some() {
            if let Some(owner) = &mut mqtt.owner {
                owner.left = Some(publishes);
            }
            return;
        }
        self.end_agent(agent, publishes);
    }

    /// Publishes or discards the will of an agent, and ends its session.
    pub(super) fn end_agent(&mut self, agent: ConnId, publishes: bool) {
        let Some(mqtt) = self.mqtt(agent).filter(|mqtt| !mqtt.ended) else { return };
        (mqtt.ended, mqtt.login) = (true, None);
        if publishes {
            self.publish_will(agent);
        } else {
            mqtt.session.will = None;
        }
        self.leave_session(agent, None);
        self.remove_later(agent);
    }
}
