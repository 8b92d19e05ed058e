//! A client: a real client machine, its links, and a behaviour. The ledger records everything it
//! sends and receives.

mod behavior;
mod receiving;
mod sending;
mod transactions;

use std::sync::Arc;

use enmasse_amqp::connection::{ClosedBy, Config, Connection, Event, LinkId, SessionId};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Attach, Error, Open, Target, condition};
use enmasse_router::core::AddressKind;

use crate::address::{EXPIRED, MOVING, space_name};
use crate::faults::Fault;
use crate::ledger::{Ledger, LinkNumber, OutcomeKind, Route, Source, source_of};
use crate::link::{Link, LinkSpec, Moving, State};
use crate::message::MessageNumber;
use crate::node::Node;
use crate::random::Random;
use crate::scenario::Scenario;
use behavior::Behavior;
use transactions::{CONTROL_TOKEN, OpenTransaction};

/// A connection that is open or being opened.
struct Live {
    machine: Connection,
    socket: usize,
    session: Option<SessionId>,
    unread: Vec<u8>,
    /// the client has sent `close`
    closing: bool,
}

/// One client machine.
pub(crate) struct Client {
    number: usize,
    space: usize,
    config: Arc<Config>,
    random: Random,
    behavior: Behavior,
    live: Option<Live>,
    links: Vec<Link>,
    /// nodes to reply to, with the link that created each, if it is a temporary queue
    replies: Vec<(String, Option<LinkNumber>)>,
    transaction: Option<OpenTransaction>,
    /// it is idle until this time
    paused_until: Time,
}

impl Client {
    /// Client number `number` of a scenario.
    #[must_use]
    pub(crate) fn new(number: usize, scenario: &Scenario, mut random: Random) -> Self {
        let (behavior, links) = Behavior::draw(number, scenario, &mut random);
        Self {
            number,
            space: random.below(scenario.spaces),
            config: scenario.client_config(&mut random),
            random,
            behavior,
            live: None,
            links: links.into_iter().map(Link::new).collect(),
            replies: Vec::new(),
            transaction: None,
            paused_until: Time::ZERO,
        }
    }

    /// The client that finally consumes the remaining messages of a space.
    #[must_use]
    pub(crate) fn collector(number: usize, space: usize, scenario: &Scenario, mut random: Random) -> Self {
        let (behavior, links) = Behavior::collector(scenario);
        Self {
            space,
            behavior,
            links: links.into_iter().map(Link::new).collect(),
            ..Self::new(number, scenario, random.fork())
        }
    }

    /// The socket in use.
    #[must_use]
    pub(crate) fn socket(&self) -> Option<usize> {
        self.live.as_ref().map(|live| live.socket)
    }

    /// Receives input, acts, and sends. `active`: it may start new work.
    pub(crate) fn step(&mut self, now: Time, scenario: &Scenario, node: &mut Node, ledger: &mut Ledger, active: bool) {
        if active && (self.paused_until > now || self.behavior.collects) {
            return;
        }
        match self.socket() {
            Some(socket) if !node.sockets[socket].is_open() => {
                let clean = node.sockets[socket].is_closed_cleanly();
                return self.disconnected(now, clean, ledger);
            }
            None => return self.connect(now, node),
            Some(_) => {}
        }
        self.receive(now, scenario, node, ledger);
        if self.live.as_ref().is_some_and(|live| live.session.is_some() && !live.closing) {
            for at in 0..self.links.len() {
                self.drive_link(at, now, scenario, ledger, active);
            }
            if active {
                self.end_at_random(now, ledger);
            }
        }
        self.flush(now, node);
        if active && self.random.below(1_000_000) < self.behavior.pauses {
            self.paused_until = now.plus_millis(self.random.between(1, 12_000));
            ledger.fault(Fault::Pause);
            ledger.log(&format!("client {} pauses", self.number));
        }
    }

    fn connect(&mut self, now: Time, node: &mut Node) {
        if self.paused_until > now {
            return;
        }
        let open = Open {
            container_id: format!("client{}", self.number),
            hostname: Some(space_name(self.space)),
            ..Open::default()
        };
        let machine = Connection::client(Arc::clone(&self.config), now, false, open);
        let socket = node.connect(now, &mut self.random);
        self.live = Some(Live { machine, socket, session: None, unread: Vec::new(), closing: false });
        self.flush(now, node);
    }

    /// The connection has ended, with its sessions and links. `clean`: by the close handshake.
    pub(crate) fn disconnected(&mut self, now: Time, clean: bool, ledger: &mut Ledger) {
        if self.live.take().is_none() {
            return;
        }
        ledger.log(&format!("client {} is disconnected, cleanly: {clean}", self.number));
        ledger.disconnected(self.number, clean);
        self.lose_transaction(ledger);
        for link in &mut self.links {
            link.reset(now);
        }
        self.paused_until = now.plus_millis(self.random.between(0, 50));
    }

    /// Ends a session or the connection at random.
    fn end_at_random(&mut self, now: Time, ledger: &mut Ledger) {
        let Some(live) = &mut self.live else { return };
        let Some(session) = live.session else { return };
        if self.behavior.closes > 0 && self.random.below(1_000_000) < self.behavior.closes {
            ledger.fault(Fault::Close);
            live.machine.flush(now);
            live.machine.close(None);
            live.closing = true;
        } else if self.behavior.ends > 0 && self.random.below(1_000_000) < self.behavior.ends {
            ledger.fault(Fault::End);
            live.machine.flush(now);
            live.machine.end(session, None);
            live.session = None;
        } else {
            return;
        }
        self.lose_transaction(ledger);
        for link in &mut self.links {
            link.detach(false, ledger);
        }
    }

    fn receive(&mut self, now: Time, scenario: &Scenario, node: &mut Node, ledger: &mut Ledger) {
        let Some(live) = &mut self.live else { return };
        node.sockets[live.socket].down.read(now, self.behavior.reads, &mut live.unread);
        let unread = std::mem::take(&mut live.unread);
        let mut rest = &unread[..];
        while let Some(live) = &mut self.live
            && let Some(event) = live.machine.poll_event(now, &mut rest)
        {
            self.handle(now, event, scenario, ledger);
        }
        let Some(live) = &mut self.live else { return };
        live.unread = rest.to_vec();
        if live.machine.poll_timeout().is_some_and(|due| due <= now) {
            live.machine.handle_timeout(now);
        }
    }

    fn flush(&mut self, now: Time, node: &mut Node) {
        if let Some(live) = &mut self.live {
            live.machine.flush(now);
            node.sockets[live.socket].up.write(now, live.machine.output());
        }
    }

    fn handle(&mut self, now: Time, event: Event<'_>, scenario: &Scenario, ledger: &mut Ledger) {
        let Some(live) = &mut self.live else { return };
        ledger.count_event();
        match event {
            Event::Open(_) => live.session = live.machine.begin().ok(),
            Event::Attached { link, attach } => self.attached(link, &attach, scenario, ledger),
            Event::Transfer(incoming) => self.incoming(&incoming, ledger),
            Event::Credit { link, credit, .. } => self.credited(link, credit, scenario, ledger),
            Event::Flow { link, credit, drain, .. } => {
                if let Some(link) = self.links.iter_mut().find(|other| other.id() == Some(link)) {
                    link.credit = credit;
                    link.draining &= !drain;
                }
            }
            Event::Disposition { session, first, last, settled, outcome } => {
                let mut tokens = Vec::new();
                live.machine.take_settled(session, first, last, settled, |_, token| tokens.push(token));
                self.settled(&tokens, OutcomeKind::of(&outcome), false, ledger);
            }
            Event::Provisional { session, first, last, settled, outcome, .. } => {
                let mut tokens = Vec::new();
                live.machine.take_settled(session, first, last, settled, |_, token| tokens.push(token));
                self.settled(&tokens, OutcomeKind::of(&outcome), true, ledger);
            }
            Event::Declared { session, first, last, settled, txn_id } => {
                live.machine.take_settled(session, first, last, settled, |_, _| ());
                self.transaction_declared(txn_id, ledger);
            }
            Event::Detach { link, error, .. } => self.detached(now, link, error.as_ref(), ledger),
            Event::End { error, .. } => {
                if let Some(error) = error {
                    ledger.violation(format!("a session was ended: {error:?}"));
                }
                live.session = live.machine.begin().ok();
            }
            Event::Closed { error, by } => {
                if let Some(what) = unexpected_close(error.as_ref(), by) {
                    ledger.violation(format!("client {}: {what}", self.number));
                }
                let clean = error.is_none();
                self.disconnected(now, clean, ledger);
            }
            _ => {}
        }
    }

    /// Outcomes of the client's messages.
    fn settled(&mut self, tokens: &[u64], outcome: OutcomeKind, provisional: bool, ledger: &mut Ledger) {
        for token in tokens {
            if *token == CONTROL_TOKEN {
                self.control_settled(outcome, ledger);
            } else {
                ledger.sender_outcome(*token as MessageNumber, outcome, provisional);
            }
        }
    }

    fn attached(&mut self, id: LinkId, attach: &Attach, scenario: &Scenario, ledger: &mut Ledger) {
        let Some(at) = self.links.iter().position(|link| link.id() == Some(id)) else { return };
        let link = &mut self.links[at];
        let refused = if link.spec.sends() { attach.target.is_none() } else { attach.source.is_none() };
        if refused || !matches!(link.state, State::Attaching(_)) {
            return;
        }
        link.node = dynamic_node(&link.spec, attach);
        self.check_moved(at, attach, ledger);
        let link = &mut self.links[at];
        let spec = link.spec.clone();
        let name = self.name_of(at);
        let kind = scenario.resolve(&name).map(|declared| declared.kind);
        let source = self.source(&spec, &name, kind, ledger);
        let route = Route { space: self.space, name, kind, may_be_deleted: false, temporary: None };
        let number = ledger.attached(self.number, route, source);
        if let (LinkSpec::TemporaryQueue, Some(node)) = (&spec, &self.links[at].node) {
            ledger.created(number, node.clone());
        }
        self.links[at].state = State::Attached(id, number);
    }

    /// The name that a link was attached to.
    fn name_of(&self, at: usize) -> String {
        match &self.links[at].spec {
            LinkSpec::Sender(name) | LinkSpec::Receiver(name) | LinkSpec::StreamReader(name) => name.clone(),
            LinkSpec::Subscriber { topic, .. } => topic.clone(),
            LinkSpec::MovingSubscriber(moving) => moving.topic.to_owned(),
            LinkSpec::AnonymousSender | LinkSpec::Coordinator => String::new(),
            LinkSpec::DynamicReceiver | LinkSpec::TemporaryQueue => self.links[at].node.clone().unwrap_or_default(),
            LinkSpec::TemporaryReceiver(of) => self.links[*of].node.clone().unwrap_or_default(),
        }
    }

    /// The stored source of a link.
    fn source(&self, spec: &LinkSpec, name: &str, kind: Option<AddressKind>, ledger: &Ledger) -> Option<Source> {
        match spec {
            LinkSpec::Receiver(_) if kind == Some(AddressKind::Topic) => {
                // A subscription of the link's own, which no other link can have.
                Some(Source::Subscription { name: format!("{name}::live {}", ledger.links()), outlives: false })
            }
            LinkSpec::Receiver(_) => source_of(name, kind, EXPIRED),
            LinkSpec::Subscriber { name: own, shared: false, .. }
            | LinkSpec::MovingSubscriber(Moving { name: own, .. }) => {
                Some(Source::Subscription { name: self.subscription(name, own), outlives: true })
            }
            LinkSpec::Subscriber { name: own, shared: true, .. } => {
                Some(Source::Subscription { name: format!("{name}::{own}"), outlives: true })
            }
            LinkSpec::StreamReader(_) => Some(Source::Stream(name.to_owned())),
            _ => None,
        }
    }

    /// The full name of a subscription of this client.
    fn subscription(&self, topic: &str, own: &str) -> String {
        format!("{topic}::client{}/{own}", self.number)
    }

    /// Chooses the topic of a moving subscription, or to name none: the subscription of another topic
    /// may end from now on.
    fn move_subscription(&mut self, at: usize, ledger: &mut Ledger) {
        let LinkSpec::MovingSubscriber(moving) = &mut self.links[at].spec else { return };
        moving.recalls = moving.exists && self.random.chance(300);
        if !moving.recalls && self.random.chance(300) {
            let topic = *self.random.pick(&MOVING);
            moving.exists &= topic == moving.topic;
            moving.topic = topic;
        }
        let Moving { topic, name, .. } = moving.clone();
        for other in MOVING.into_iter().filter(|other| *other != topic) {
            ledger.unsubscribed(self.space, &self.subscription(other, &name));
        }
    }

    /// A moving subscription exists once its link is attached. One that was recalled has its topic.
    fn check_moved(&mut self, at: usize, attach: &Attach, ledger: &mut Ledger) {
        let LinkSpec::MovingSubscriber(moving) = &mut self.links[at].spec else { return };
        moving.exists = true;
        let found = attach.source.as_ref().and_then(|source| source.address.as_deref());
        if moving.recalls && found != Some(moving.topic) {
            ledger.violation(format!("client {}: {moving:?} was recalled as one of {found:?}", self.number));
        }
    }

    fn detached(&mut self, now: Time, id: LinkId, error: Option<&Error>, ledger: &mut Ledger) {
        let Some(at) = self.links.iter().position(|link| link.id() == Some(id)) else { return };
        // For the node, the previous connection may still be open.
        let in_use = matches!(
            self.links[at].spec,
            LinkSpec::Subscriber { .. } | LinkSpec::MovingSubscriber(_) | LinkSpec::TemporaryReceiver(_)
        );
        let is_recalled = matches!(self.links[at].spec, LinkSpec::MovingSubscriber(Moving { recalls: true, .. }));
        if is_recalled && error.is_some_and(|error| error.condition == condition::NOT_FOUND) {
            ledger.violation(format!("client {}: {:?} is lost", self.number, self.links[at].spec));
        }
        let expected = |error: &&Error| {
            let gone = [condition::RESOURCE_DELETED, condition::NOT_FOUND].contains(&error.condition);
            gone || in_use && error.condition == condition::RESOURCE_LOCKED
        };
        if let Some(error) = error.filter(|error| !expected(error)) {
            ledger.violation(format!("client {}: a link was detached: {error:?}", self.number));
        }
        let retry_at = now.plus_millis(self.random.between(1, 100));
        self.links[at].detached(retry_at, ledger);
        if self.links[at].spec == LinkSpec::Coordinator {
            self.lose_transaction(ledger);
        }
    }

    /// Advances one link.
    fn drive_link(&mut self, at: usize, now: Time, scenario: &Scenario, ledger: &mut Ledger, active: bool) {
        let Some(live) = &mut self.live else { return };
        let Some(session) = live.session else { return };
        match self.links[at].state {
            State::Idle if now >= self.links[at].retry_at => self.attach(at, session, ledger),
            State::Attached(id, number) => {
                let stays = self.links[at].spec == LinkSpec::TemporaryQueue && self.random.chance(800);
                if active && !stays && self.random.below(1_000_000) < self.behavior.detaches {
                    self.detach(at, now, id, ledger);
                } else if self.links[at].spec == LinkSpec::Coordinator {
                    self.drive_coordinator(now, id, ledger, active);
                } else if self.links[at].spec.sends() {
                    self.drive_sender(at, id, number, scenario, ledger, active);
                } else {
                    self.drive_receiver(at, id, number, ledger, active);
                }
            }
            _ => {}
        }
    }

    fn attach(&mut self, at: usize, session: SessionId, ledger: &mut Ledger) {
        self.move_subscription(at, ledger);
        let Some(live) = &mut self.live else { return };
        let spec = match self.links[at].spec.clone() {
            LinkSpec::TemporaryReceiver(of) => match &self.links[of].node {
                Some(node) => LinkSpec::Receiver(node.clone()),
                None => return,
            },
            spec => spec,
        };
        let name = match &spec {
            // The identity of a subscription.
            LinkSpec::Subscriber { name, shared: false, .. } | LinkSpec::MovingSubscriber(Moving { name, .. }) => {
                name.clone()
            }
            LinkSpec::Subscriber { name, .. } => format!("{name}|{at}-{}", self.random.number()),
            _ => format!("{at}-{}", self.random.number()),
        };
        let attach = spec.attach(name, self.random.chance(100));
        match live.machine.attach(session, attach) {
            Ok(id) => self.links[at].state = State::Attaching(id),
            Err(error) => ledger.violation(format!("client {}: {error}", self.number)),
        }
    }

    fn detach(&mut self, at: usize, now: Time, id: LinkId, ledger: &mut Ledger) {
        let Some(live) = &mut self.live else { return };
        let link = &mut self.links[at];
        let closed = match link.spec {
            // A shared subscription is not closed: other clients use it.
            LinkSpec::Subscriber { shared: true, .. } => false,
            LinkSpec::Subscriber { .. } | LinkSpec::MovingSubscriber(_) => self.random.chance(100),
            LinkSpec::TemporaryQueue => true,
            _ => self.random.chance(500),
        };
        ledger.fault(Fault::Detach);
        // Outcomes must precede the detach.
        live.machine.flush(now);
        live.machine.detach(id, closed, None);
        let coordinator = link.spec == LinkSpec::Coordinator;
        link.detach(closed, ledger);
        if coordinator {
            self.lose_transaction(ledger);
        }
    }

    /// Quiescent: links at rest, every byte passed to the network, every whole frame read.
    #[must_use]
    pub(crate) fn is_quiet(&mut self) -> bool {
        let Some(live) = &mut self.live else { return false };
        if !live.machine.output().is_empty() || !live.unread.is_empty() || self.transaction.is_some() {
            return false;
        }
        let at_rest = |link: &Link| {
            let waits = matches!(link.spec, LinkSpec::TemporaryReceiver(of) if self.links[of].node.is_none());
            let idle = link.sending.is_none() && link.unsettled.is_empty() && !link.draining;
            waits || link.is_attached() && idle
        };
        let replies = self.links.iter().any(|link| link.spec == LinkSpec::AnonymousSender);
        self.links.iter().all(at_rest) && (!replies || self.replies.is_empty())
    }

    /// The state of its links, as text.
    pub(crate) fn describe(&self) -> String {
        let links: Vec<String> = self.links.iter().map(|link| format!("  {link:?}")).collect();
        format!("client {} (connected: {})\n{}", self.number, self.live.is_some(), links.join("\n"))
    }

    /// Names it receives from, while nothing happens.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (usize, &str)> {
        self.links.iter().filter_map(|link| match &link.spec {
            LinkSpec::Receiver(name) => Some((self.space, name.as_str())),
            _ => None,
        })
    }

    /// Names it sends to, with the credit it has.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (usize, &str, u32)> {
        let machine = self.live.as_ref().map(|live| &live.machine);
        self.links.iter().filter_map(move |link| match (&link.spec, link.id(), machine) {
            (LinkSpec::Sender(name), Some(id), Some(machine)) => {
                Some((self.space, name.as_str(), machine.sendable(id)))
            }
            _ => None,
        })
    }
}

/// The name of the dynamic node that an attach has made.
fn dynamic_node(spec: &LinkSpec, attach: &Attach) -> Option<String> {
    match (spec, attach.target.as_deref()) {
        (LinkSpec::DynamicReceiver, _) => attach.source.as_ref()?.address.clone(),
        (LinkSpec::TemporaryQueue, Some(Target::Node { address, .. })) => address.clone(),
        _ => None,
    }
}

/// Checks the end of a connection. An idle time-out is expected, because clients pause.
fn unexpected_close(error: Option<&Error>, by: ClosedBy) -> Option<String> {
    let error = error?;
    let idle = error.condition == condition::RESOURCE_LIMIT_EXCEEDED;
    (by != ClosedBy::Timeout && !idle).then(|| format!("closed by {by:?}: {error:?}"))
}
