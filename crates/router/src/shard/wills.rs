//! The last-will service for AMQP clients (`$lwt`; `docs/guide/mqtt.md`).
//!
//! A client sends its will over a link to the service. The will is published when the link ends
//! otherwise than by a detach without an error, be it with its connection; a detach without an
//! error discards it, and a new will replaces it. It is accepted once it is on disk: after a crash
//! of the node it is published at the next start.
//!
//! Wills of MQTT clients are part of their sessions. So each link has an *agent*, a session of MQTT
//! without a client, which stores the will and publishes it with the rights of the link's user.

use enmasse_amqp::codec::{decode_message, decode_state, encode_message};
use enmasse_amqp::connection::{Incoming, LinkId};
use enmasse_amqp::types::{Attach, DeliveryState, Error, Message, Outcome, Properties, condition};
use enmasse_mqtt::session::StoredWill;
use enmasse_mqtt::topic::is_topic_name;

use super::conn::{Link, WillLink};
use super::credit_window::CreditWindow;
use super::mqtt::{WillOwner, message};
use super::terminus::{Terminus, reply};
use super::{ConnId, Shard};
use crate::core::Ending;
use crate::plan::Operation;

/// The names of the service: the present one, and those that the original has had.
pub(super) const WILL_SERVICES: [&str; 3] = ["$lwt", "$mqtt.willservice", "$mqtt.lwtservice"];
/// The subject of a message with a will.
const SUBJECT: &str = "will";
/// Bytes of a message with a will.
const WILL_BYTES: u64 = 65_000;
/// Bytes of container id and link name together, which identify the will.
const NAME_BYTES_MAX: usize = 900;

impl Shard {
    /// The peer attaches a link for its will.
    ///
    /// # Errors
    /// `amqp:not-allowed` for names that are too long to keep.
    pub(super) fn attach_wills(&mut self, id: ConnId, link: LinkId, attach: &Attach, name: &str) -> Result<(), Error> {
        let conn = &mut self.fabric.conns[id.key()];
        if conn.container.len() + attach.name.len() > NAME_BYTES_MAX {
            let what = format!("container id and link name have more than {NAME_BYTES_MAX} bytes: use shorter ones");
            return Err(Error::new(condition::NOT_ALLOWED, what));
        }
        conn.settled_here = true;
        conn.set_link(
            link,
            Link::Will(Box::new(WillLink {
                window: CreditWindow::new(1),
                name: attach.name.as_str().into(),
                bytes: Vec::new(),
                in_transaction: false,
                agent: None,
                fails: false,
            })),
        );
        let terminus = Terminus { name: Some(name), kind: None, dynamic: false, terms: None };
        conn.machine.accept(link, reply(attach, &terminus, Some(WILL_BYTES)));
        if let Some(credit) = conn.credit(link.0, CreditWindow::open) {
            self.fabric.grant(id.key, link.0, credit);
        }
        Ok(())
    }

    /// A frame of a will.
    pub(super) fn incoming_will(&mut self, id: ConnId, incoming: &Incoming<'_>) {
        let now = self.fabric.now;
        let Some(Link::Will(will)) = self.fabric.conns[id.key()].links.get_mut(incoming.link.0 as usize) else {
            return;
        };
        if incoming.first {
            will.window.received(now);
            (will.in_transaction, will.bytes) = (false, Vec::new());
        }
        if let Some(state) = incoming.state {
            will.in_transaction |= matches!(decode_state(state), Ok(DeliveryState::Transactional(_)));
        }
        if incoming.aborted {
            return self.fabric.link_taken(id.key, incoming.link.0, 1);
        }
        will.bytes.extend_from_slice(incoming.payload);
        if incoming.more {
            return;
        }
        let (bytes, in_transaction) = (std::mem::take(&mut will.bytes), will.in_transaction);
        let delivery_id = (!incoming.settled).then_some(incoming.delivery_id);
        match self.will_of(id, &bytes, in_transaction) {
            Ok(found) => self.keep_will(id, incoming.link, delivery_id, Box::new(found)),
            Err(error) => self.answer_will(id, incoming.link, delivery_id, Some(error)),
        }
    }

    /// The will in a message.
    ///
    /// # Errors
    /// It has none, or the user may not send to its topic.
    fn will_of(&self, id: ConnId, bytes: &[u8], in_transaction: bool) -> Result<StoredWill, Error> {
        if in_transaction {
            let what = "wills take no part in transactions: send them outside of one";
            return Err(Error::new(condition::NOT_IMPLEMENTED, what));
        }
        let mut published: Message = decode_message(bytes).map_err(Error::from)?;
        let invalid = |what: &str| Error::new(condition::INVALID_FIELD, what);
        let Some(Properties { subject, to, .. }) = &mut published.properties else {
            return Err(invalid("properties are missing: set subject and to"));
        };
        if subject.take().as_deref() != Some(SUBJECT) {
            return Err(invalid("properties.subject must be \"will\""));
        }
        let Some(topic) = to.clone().filter(|to| is_topic_name(to) && !to.starts_with('$')) else {
            return Err(invalid("properties.to must name the address that the will is published to"));
        };
        self.fabric.conns[id.key()].check_right(Operation::Send, &topic)?;
        let outbound = message::decode(bytes);
        let mut payload = Vec::new();
        encode_message(&mut payload, &published);
        if payload.len() as u64 > WILL_BYTES {
            // Another encoding of the same message may be shorter.
            let what = format!("the will has more than {WILL_BYTES} bytes as it is stored: send a smaller one");
            return Err(Error::new(condition::MESSAGE_SIZE_EXCEEDED, what));
        }
        let (qos, retain) = (outbound.qos, outbound.retain);
        Ok(StoredWill { topic, payload, qos, retain, delay_s: 0, properties: Vec::new(), is_message: true })
    }

    /// Gives a will to the agent of its link.
    fn keep_will(&mut self, id: ConnId, link: LinkId, delivery_id: Option<u32>, will: Box<StoredWill>) {
        let Some(Link::Will(state)) = self.fabric.conns[id.key()].links.get(link.0 as usize) else { return };
        let (agent, name) = (state.agent, state.name.clone());
        let owner = WillOwner { conn: id, link, unanswered: Some(delivery_id), left: None };
        let has_session = |agent: &ConnId| {
            let conn = self.fabric.conns.get(agent.key()).filter(|_| self.knows(*agent));
            conn.and_then(|conn| conn.machine.mqtt()).is_some_and(|mqtt| !mqtt.ended)
        };
        if let Some(agent) = agent.filter(has_session) {
            return self.replace_will(agent, owner, will);
        }
        let agent = self.begin_agent(id, &name, owner, will);
        if let Some(Link::Will(state)) = self.fabric.conns[id.key()].links.get_mut(link.0 as usize) {
            state.agent = Some(agent);
        }
    }

    /// Answers a will: it is on disk, or refused.
    pub(super) fn answer_will(&mut self, id: ConnId, link: LinkId, delivery_id: Option<u32>, refusal: Option<Error>) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        if let Some(delivery_id) = delivery_id {
            let refused = |error| Outcome::Rejected(Some(Box::new(error)));
            conn.machine.settle(link, delivery_id, &refusal.map_or(Outcome::Accepted, refused));
        }
        self.fabric.link_taken(id.key, link.0, 1);
        self.fabric.mark(id.key);
    }

    /// Links of a connection end with an error: their wills are published.
    pub(super) fn fail_wills(&mut self, id: ConnId, is_one: impl Fn(LinkId) -> bool) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        for (number, link) in (0..).map(LinkId).zip(&mut conn.links) {
            if let Link::Will(will) = link
                && is_one(number)
            {
                will.fails = true;
            }
        }
    }

    /// A link to the service has ended.
    pub(super) fn release_will(&mut self, will: &WillLink, ending: Ending) {
        let publishes = will.fails || ending != Ending::ByClient;
        if let Some(agent) = will.agent.filter(|agent| self.knows(*agent)) {
            self.dismiss_agent(agent, publishes);
        }
    }
}
