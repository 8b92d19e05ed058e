//! Agents of the subscription service: sessions of MQTT without a client, whose filters AMQP clients
//! change and whose messages their receivers get (`subscription_service`).
//!
//! An agent is a connection without a socket, as those with wills (`agents`). It logs in as the user
//! of its AMQP connection, serves the requests and the receiver of that connection, and leaves: the
//! session stays. It attaches filters like a client, but asks for no messages. While there is a
//! receiver, it hands over the attachments: the link of the receiver has them, with credit, outcomes
//! and return of deliveries like any receiver of several addresses.
//!
//! A session has one agent. A request on another connection takes the session over; the former agent
//! waits until it is free, and continues.

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Error, condition};
use enmasse_mqtt::codec::{QoS, RetainHandling, SubscriptionOptions};
use enmasse_mqtt::topic::Filter;

use super::absent::{AGAIN_MS, CLIENT_ID};
use super::agents::SessionOwner;
use crate::core::Ending;
use crate::shard::conn::Link;
use crate::shard::departing::Departure;
use crate::shard::mqtt::filters::{Answering, FilterState};
use crate::shard::mqtt::links::request;
use crate::shard::mqtt::login::Login;
use crate::shard::mqtt::record::After;
use crate::shard::mqtt::serving::{ReceiverState, ServiceOperation, ServiceRequest, Serving, ServingPhase};
use crate::shard::{ConnId, Shard};

/// How long requests wait for a session that another connection has, in milliseconds; then they take
/// it over.
const PATIENCE_MS: u64 = 1_000;

/// A filter is a subscription to what is published from now on: retained messages are asked for with
/// a receiver of the topic.
fn options(qos: QoS) -> SubscriptionOptions {
    SubscriptionOptions { qos, no_local: false, retain_as_published: true, retain_handling: RetainHandling::DoNotSend }
}

fn no_sessions() -> Error {
    let what = "the address space keeps no sessions of MQTT, which subscriptions are: allow them in its plan";
    Error::new(condition::NOT_ALLOWED, what)
}

fn no_room() -> Error {
    let what = "the subscription cannot be kept: the address space has no room for it";
    Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what)
}

fn closed() -> Error {
    Error::new(condition::RESOURCE_DELETED, "the subscription was closed")
}

impl Shard {
    pub(in crate::shard) fn serving(&mut self, agent: ConnId) -> Option<&mut Serving> {
        if !self.knows(agent) {
            return None;
        }
        self.mqtt(agent)?.serving.as_deref_mut()
    }

    /// Begins the agent of a subscription. `waits`: it takes the session once that is free.
    pub(in crate::shard) fn begin_service_agent(&mut self, serving: Serving, waits: bool) {
        let (id, now) = (serving.conn, self.fabric.now);
        let Some(client) = self.fabric.conns.get(id.key()).filter(|_| self.knows(id)) else { return };
        let (authenticated, access) = (client.authenticated.clone(), client.access.clone());
        let name = serving.name.clone();
        let login = Login::new(SessionOwner::Subscription(name.to_string()).client_id(), false);
        let mut conn = self.without_client(login, authenticated);
        conn.access = access;
        let agent = self.insert(Box::new(conn));
        if let Some(mqtt) = self.mqtt(agent) {
            mqtt.serving = Some(Box::new(serving));
        }
        self.use_subscription(id, &name, agent);
        if waits {
            self.absent.log_in_at(now, agent);
        } else {
            self.log_in(agent);
        }
    }

    /// Logs in the agents that wait for their sessions. One with a receiver only waits as long as
    /// another connection has the session.
    pub(super) fn log_in_agents(&mut self) {
        let now = self.fabric.now;
        for agent in self.absent.take_logins(now) {
            let Some(serving) = self.serving(agent) else { continue };
            let takes_over = !serving.requests.is_empty() && serving.since.plus_millis(PATIENCE_MS) <= now;
            let conn = &self.fabric.conns[agent.key()];
            let Some((space, _)) = &conn.access else { continue };
            let attach = request(CLIENT_ID.to_owned());
            let name = self.shared.link_names.digest(space.0, conn.user(), &conn.container, &attach);
            if self.shared.link_names.is_held(name) && !takes_over {
                self.absent.log_in_at(now.plus_millis(AGAIN_MS), agent);
            } else {
                self.log_in(agent);
            }
        }
    }

    /// Continues the work of an agent that has its session: attaches its receiver, then handles its
    /// requests in order. Without work it leaves.
    pub(in crate::shard) fn serve(&mut self, agent: ConnId) {
        loop {
            self.attach_receiver(agent);
            let Some(mqtt) = self.mqtt(agent).filter(|mqtt| mqtt.login.is_none() && !mqtt.ended) else { return };
            let persists = mqtt.session.persists();
            let Some(serving) = mqtt.serving.as_deref_mut().filter(|serving| serving.phase != ServingPhase::Busy)
            else {
                return;
            };
            let Some(next) = serving.requests.front() else {
                if serving.receiver.is_none() {
                    self.end_service_agent(agent);
                }
                return;
            };
            let subscribes = matches!(next.operation, ServiceOperation::Subscribe(_));
            let lacks_session = subscribes && !persists && serving.phase != ServingPhase::Creates;
            if serving.phase == ServingPhase::Closed || lacks_session {
                return self.begin_again(agent);
            }
            let Some(next) = serving.requests.pop_front() else { return };
            if subscribes && !persists {
                self.answer_and_go_on(agent, &next, Some(no_sessions()));
                continue;
            }
            if !self.begin_request(agent, next, persists) {
                return;
            }
        }
    }

    /// Begins a request. Returns whether it is answered already; otherwise it is the first again.
    fn begin_request(&mut self, agent: ConnId, request: ServiceRequest, persists: bool) -> bool {
        let refusal = match &request.operation {
            ServiceOperation::List { .. } => {
                let Some(mqtt) = self.mqtt(agent) else { return false };
                let filters = mqtt.filters.iter().map(|(text, state)| (text.to_string(), state.options.qos)).collect();
                let Some(conn) = mqtt.serving.as_ref().map(|serving| serving.conn) else { return false };
                self.answer_list(conn, &request, filters);
                return true;
            }
            _ if !persists => None,
            ServiceOperation::Subscribe(filters) => match self.begin_subscribe(agent, filters) {
                Ok(()) => return self.wait_for(agent, request),
                Err(error) => Some(error),
            },
            ServiceOperation::Unsubscribe(filters) => {
                filters.iter().for_each(|filter| self.drop_filter(agent, filter));
                self.store_record(agent, After::Service);
                return self.wait_for(agent, request);
            }
            ServiceOperation::Close => {
                self.return_subscriptions(agent);
                self.end_filters(agent);
                if let Some(mqtt) = self.mqtt(agent) {
                    mqtt.session.expiry_s = 0;
                }
                self.store_record(agent, After::Service);
                return self.wait_for(agent, request);
            }
        };
        self.answer_and_go_on(agent, &request, refusal);
        true
    }

    /// A request is in progress.
    fn wait_for(&mut self, agent: ConnId, request: ServiceRequest) -> bool {
        if let Some(serving) = self.serving(agent) {
            debug_assert!(matches!(serving.phase, ServingPhase::Continues | ServingPhase::Creates));
            serving.phase = ServingPhase::Busy;
            serving.requests.push_front(request);
        }
        self.fabric.mark(agent.key);
        false
    }

    /// Begins to subscribe filters, if the user may receive from all of them.
    fn begin_subscribe(&mut self, agent: ConnId, filters: &[(String, QoS)]) -> Result<(), Error> {
        for (text, qos) in filters {
            let Ok(filter) = Filter::parse(text) else { continue };
            self.covered(agent, &FilterState::new(&filter, options(*qos), None))?;
        }
        let Some(mqtt) = self.mqtt(agent) else { return Ok(()) };
        let is_new = |text: &&String| !mqtt.filters.contains_key(text.as_str());
        let added = filters.iter().map(|(text, _)| text).filter(is_new).map(|text| text.as_str().into()).collect();
        let filters = filters.iter().map(|(text, qos)| (text.clone(), options(*qos))).collect();
        mqtt.answering.push_back(Answering::of_agent(filters));
        if let Some(serving) = &mut mqtt.serving {
            serving.added = added;
        }
        Ok(())
    }

    /// The request in progress has its outcome.
    pub(super) fn answer_request(&mut self, agent: ConnId) {
        let Some(serving) = self.serving(agent) else { return };
        let (outcome, added) = (serving.outcome.take(), std::mem::take(&mut serving.added));
        let (Some(outcome), Some(request)) = (outcome, serving.requests.pop_front()) else { return };
        serving.phase = ServingPhase::Continues;
        let refusal = outcome.err().map(|code| {
            let what = format!("the subscription cannot be changed ({code:?}): send the request again later");
            Error::new(condition::RESOURCE_LIMIT_EXCEEDED, what)
        });
        if refusal.is_some() && !added.is_empty() {
            added.iter().for_each(|filter| self.drop_filter(agent, filter));
            self.store_record(agent, After::Nothing);
        }
        self.answer_and_go_on(agent, &request, refusal);
        self.serve(agent);
    }

    /// Answers a request. After `close` the receiver ends with the subscription.
    fn answer_and_go_on(&mut self, agent: ConnId, request: &ServiceRequest, refusal: Option<Error>) {
        let Some(serving) = self.serving(agent) else { return };
        let (conn, receiver) = (serving.conn, serving.attached_receiver());
        let closes = matches!(request.operation, ServiceOperation::Close);
        if closes {
            serving.phase = ServingPhase::Closed;
        }
        self.answer_service(conn, request, refusal);
        if let Some((conn, link)) = receiver.filter(|_| closes) {
            self.release(conn, &[link], &Departure::with(Ending::ByNode, closed()));
        }
    }

    /// Answers the attach of a receiver: there is such a subscription, or not. One that was attached
    /// before continues, unless the subscription has ended since.
    fn attach_receiver(&mut self, agent: ConnId) {
        let Some(mqtt) = self.mqtt(agent).filter(|mqtt| mqtt.login.is_none() && !mqtt.ended) else { return };
        let is_found = !mqtt.filters.is_empty();
        let Some(serving) = mqtt.serving.as_deref_mut() else { return };
        let id = serving.conn;
        let Some(receiver) = &mut serving.receiver else { return };
        let (link, refusal) = (receiver.link, receiver.refusal.clone());
        match std::mem::replace(&mut receiver.state, ReceiverState::Checked) {
            ReceiverState::Attached if !is_found => {
                return self.release(id, &[link], &Departure::with(Ending::ByNode, closed()));
            }
            ReceiverState::Attaching if !self.answer_receiver(id, link, (!is_found).then_some(refusal)) => {
                if let Some(serving) = self.serving(agent) {
                    serving.receiver = None;
                }
                return;
            }
            ReceiverState::Attaching | ReceiverState::Attached | ReceiverState::Checked => {}
        }
        self.hand_over_all(agent);
    }

    /// Answers the attach of a receiver. `false`: it is refused, or was ended in the meantime.
    fn answer_receiver(&mut self, id: ConnId, link: LinkId, refusal: Option<Error>) -> bool {
        let Some(conn) = self.fabric.conns.get_mut(id.key()).filter(|_| self.serials[id.key()] == id.serial) else {
            return false;
        };
        let attaching = conn.attaching.as_deref_mut().filter(|attaching| attaching.link == link);
        let is_accepted = attaching.is_some_and(|attaching| {
            attaching.waits_for = 0;
            attaching.refusal = attaching.refusal.take().or(refusal);
            attaching.refusal.is_none()
        });
        if !is_accepted && let Some(used) = conn.subscription_of(link) {
            used.receiver = None;
        }
        self.fabric.answer_attach(id.key);
        is_accepted
    }

    /// Hands over the attachments of all filters to the receiver.
    pub(super) fn hand_over_all(&mut self, agent: ConnId) {
        let Some(mqtt) = self.mqtt(agent) else { return };
        let links: Vec<LinkId> = mqtt.filters.values().flat_map(|state| state.links.to_vec()).collect();
        links.into_iter().for_each(|link| self.hand_over(agent, link));
    }

    /// Hands over the attachment of a link of an agent to its receiver, with the credit that this
    /// has.
    pub(super) fn hand_over(&mut self, agent: ConnId, link: LinkId) {
        let is_attached = self.mqtt(agent).and_then(|mqtt| mqtt.link(link)).is_some_and(|link| link.attached);
        let receiver = self.serving(agent).and_then(|serving| serving.attached_receiver());
        let Some((id, receiver)) = receiver.filter(|(id, _)| is_attached && self.knows(*id)) else { return };
        let moved = match self.fabric.conns[agent.key()].links.get_mut(link.0 as usize) {
            Some(Link::Consumer { attachments, .. }) => std::mem::take(attachments),
            _ => return,
        };
        let conn = &mut self.fabric.conns[id.key()];
        let Some(Link::Consumer { attachments, .. }) = conn.links.get_mut(receiver.0 as usize) else { return };
        attachments.extend_from_slice(&moved);
        let credit = conn.machine.credit(receiver);
        for attachment in &moved {
            if let Some(state) = self.fabric.attachments.get_mut(*attachment) {
                (state.conn, state.link) = (id.key, receiver.0);
            }
            if let Some(serving) = self.serving(agent) {
                serving.handed.push((link, *attachment));
            }
            self.attachment_credit(*attachment, credit, false);
        }
    }

    /// Takes the attachment of a link back from the receiver, as it is: its deliveries go with its
    /// subscription.
    fn take_back(&mut self, agent: ConnId, link: LinkId) {
        let Some(serving) = self.serving(agent) else { return };
        let receiver = serving.attached_receiver();
        let moved: Vec<_> = serving.handed.extract_if(.., |(of, _)| *of == link).map(|(_, moved)| moved).collect();
        let Some((id, receiver)) = receiver else { return };
        for attachment in moved {
            self.fabric.interrupt(attachment);
            let state = self.fabric.conns.get_mut(id.key()).and_then(|conn| conn.links.get_mut(receiver.0 as usize));
            if let Some(Link::Consumer { attachments, .. }) = state {
                attachments.retain(|other| *other != attachment);
            }
            let Some(state) = self.fabric.attachments.get_mut(attachment) else { continue };
            let drains = state.drain || state.draining;
            (state.conn, state.link, state.drain, state.draining) = (agent.key, link.0, false, false);
            let own = self.fabric.conns[agent.key()].links.get_mut(link.0 as usize);
            if let Some(Link::Consumer { attachments, .. }) = own {
                attachments.push(attachment);
            }
            if drains {
                self.fabric.finish_drain(id.key, receiver.0);
            }
        }
    }

    /// Ends a filter and its subscriptions.
    fn drop_filter(&mut self, agent: ConnId, filter: &str) {
        let links = self.mqtt(agent).map(|mqtt| mqtt.links_of(filter)).unwrap_or_default();
        links.into_iter().for_each(|link| self.take_back(agent, link));
        self.end_links(agent, filter);
        if let Some(mqtt) = self.mqtt(agent) {
            mqtt.filters.remove(filter);
        }
    }

    /// The session of an agent is about to leave it: what its receiver has not settled returns to the
    /// subscriptions.
    pub(in crate::shard) fn return_subscriptions(&mut self, agent: ConnId) {
        let Some(serving) = self.serving(agent) else { return };
        serving.handed.clear();
        if let Some((id, link)) = serving.attached_receiver().filter(|(id, _)| self.knows(*id)) {
            self.release_addresses(id, link);
        }
    }

    /// An agent has no more work. A subscription without filters ends.
    fn end_service_agent(&mut self, agent: ConnId) {
        let Some(mqtt) = self.mqtt(agent) else { return };
        if mqtt.filters.is_empty() {
            mqtt.session.expiry_s = 0;
        }
        if let Some(conn) = mqtt.serving.take().map(|serving| serving.conn) {
            self.leave_subscription(conn, agent);
        }
        self.end_agent(agent, false);
    }

    /// Another agent continues the work of this one.
    fn begin_again(&mut self, agent: ConnId) {
        let now = self.fabric.now;
        self.return_subscriptions(agent);
        let Some(mqtt) = self.mqtt(agent) else { return };
        let Some(serving) = mqtt.serving.take() else { return };
        if mqtt.filters.is_empty() {
            mqtt.session.expiry_s = 0;
        }
        self.end_agent(agent, false);
        self.begin_service_agent(serving.again(now), true);
    }

    /// The connection of an agent was closed. If another connection has the session, the work
    /// continues after that; otherwise the node has ended it, and its client learns why.
    pub(super) fn service_agent_closed(&mut self, agent: ConnId) {
        let now = self.fabric.now;
        self.return_subscriptions(agent);
        let Some(mut serving) = self.mqtt(agent).and_then(|mqtt| mqtt.serving.take()) else { return };
        let failure = serving.failure.take().unwrap_or_else(no_room);
        self.end_agent(agent, false);
        if failure.condition.as_str() == condition::LINK_STOLEN.as_str() && serving.has_work() {
            return self.begin_service_agent(serving.again(now), true);
        }
        let id = serving.conn;
        self.leave_subscription(id, agent);
        for request in &serving.requests {
            self.answer_service(id, request, Some(failure.clone()));
        }
        match serving.receiver {
            Some(receiver) if !receiver.is_attached() => {
                self.answer_receiver(id, receiver.link, Some(failure));
            }
            Some(receiver) if self.knows(id) => {
                self.release(id, &[receiver.link], &Departure::with(Ending::ByNode, failure));
            }
            _ => {}
        }
    }
}
