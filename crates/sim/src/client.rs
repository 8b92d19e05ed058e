//! A client: a real client machine, links it wishes to have, and a temper. It checks what it is told against what it
//! knows itself, and writes everything into the ledger.

use std::sync::Arc;

use enmasse_amqp::connection::{ClosedBy, Config, Connection, Event, Incoming, LinkId, Outgoing, SessionId};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Error, Modified, Open, Outcome, Symbol, condition};

use crate::ledger::{Ledger, MessageNumber, Progress, Route, Told};
use crate::link::{Held, Link, Sending, State, Wish};
use crate::message;
use crate::node::Node;
use crate::random::Random;
use crate::scenario::{NOWHERE, Scenario};

/// Output past which a client sends no more for now, in bytes.
const OUTPUT_ENOUGH: usize = 100_000;
/// Replies a client puts off at most.
const REPLIES_MAX: usize = 50;
/// What consumers of the simulation reject with; anything else is the node's word.
const REJECTION: Symbol = Symbol::constant("sim:rejected");

/// A connection that is up, or coming up.
struct Live {
    machine: Connection,
    socket: usize,
    session: Option<SessionId>,
    unread: Vec<u8>,
}

/// How a client behaves.
#[derive(Clone, Copy, Debug)]
struct Temper {
    /// bytes it reads at a time
    reads: usize,
    /// permille of its messages that are settled
    settles: u64,
    /// credit it gives
    credit: u32,
    /// permille of its messages that are long
    long: u64,
    /// chances out of a million a step, if it is unruly
    detaches: usize,
    freezes: usize,
    aborts: usize,
}

/// One client machine.
pub(crate) struct Client {
    number: usize,
    space: usize,
    config: Arc<Config>,
    random: Random,
    temper: Temper,
    live: Option<Live>,
    links: Vec<Link>,
    /// nodes to answer to
    replies: Vec<String>,
    /// it does nothing before
    frozen_until: Time,
}

impl Client {
    /// Client number `number` of a scenario.
    #[must_use]
    pub(crate) fn new(number: usize, scenario: &Scenario, mut random: Random) -> Self {
        let unruly = |random: &mut Random, chance| if scenario.unruly { *random.pick(&[0, chance]) } else { 0 };
        let temper = Temper {
            reads: *random.pick(&[200, 5_000, 1_000_000]),
            settles: *random.pick(&[0, 500, 1000]),
            credit: *random.pick(&[1, 10, 500]),
            long: *random.pick(&[0, 0, 20, 200]),
            detaches: unruly(&mut random, 2000),
            freezes: unruly(&mut random, 2000),
            aborts: unruly(&mut random, 50_000),
        };
        let wishes = random.between(1, 4);
        let links = (0..wishes).map(|_| Link::new(wish(scenario, &mut random))).collect();
        Self {
            number,
            space: random.below(scenario.spaces),
            config: scenario.client_config(&mut random),
            random,
            temper,
            live: None,
            links,
            replies: Vec::new(),
            frozen_until: Time::ZERO,
        }
    }

    /// The socket in use.
    #[must_use]
    pub(crate) fn socket(&self) -> Option<usize> {
        self.live.as_ref().map(|live| live.socket)
    }

    /// Hears what has come, thinks, and says something. `active`: it begins new things.
    pub(crate) fn step(&mut self, now: Time, scenario: &Scenario, node: &mut Node, ledger: &mut Ledger, active: bool) {
        if active && self.frozen_until > now {
            return;
        }
        match self.socket() {
            Some(socket) if !node.sockets[socket].is_open() => return self.lose(now, ledger),
            None => return self.connect(now, node),
            Some(_) => {}
        }
        self.hear(now, scenario, node, ledger);
        if self.live.as_ref().is_some_and(|live| live.session.is_some()) {
            for at in 0..self.links.len() {
                self.tend(at, now, scenario, ledger, active);
            }
        }
        self.say(now, node);
        if active && self.random.below(1_000_000) < self.temper.freezes {
            self.frozen_until = now.plus_millis(self.random.between(1, 12_000));
            ledger.note(&format!("client {} freezes", self.number));
        }
    }

    fn connect(&mut self, now: Time, node: &mut Node) {
        if self.frozen_until > now {
            return;
        }
        let open = Open {
            container_id: format!("client{}", self.number),
            hostname: Some(Scenario::space_name(self.space)),
            ..Open::default()
        };
        let machine = Connection::client(Arc::clone(&self.config), now, false, open);
        let socket = node.connect(now, &mut self.random);
        self.live = Some(Live { machine, socket, session: None, unread: Vec::new() });
        self.say(now, node);
    }

    /// The connection is gone, and all it carried.
    pub(crate) fn lose(&mut self, now: Time, ledger: &mut Ledger) {
        if self.live.take().is_none() {
            return;
        }
        ledger.note(&format!("client {} lost its connection", self.number));
        for link in &mut self.links {
            link.over(now, ledger);
        }
        self.frozen_until = now.plus_millis(self.random.between(0, 50));
    }

    fn hear(&mut self, now: Time, scenario: &Scenario, node: &mut Node, ledger: &mut Ledger) {
        let Some(live) = &mut self.live else { return };
        node.sockets[live.socket].down.read(now, self.temper.reads, &mut live.unread);
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

    fn say(&mut self, now: Time, node: &mut Node) {
        if let Some(live) = &mut self.live {
            live.machine.flush(now);
            node.sockets[live.socket].up.write(now, live.machine.output());
        }
    }

    fn handle(&mut self, now: Time, event: Event<'_>, scenario: &Scenario, ledger: &mut Ledger) {
        let Some(live) = &mut self.live else { return };
        ledger.heard();
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
                let mut messages = Vec::new();
                live.machine.take_settled(session, first, last, settled, |_, token| messages.push(token));
                for message in messages {
                    ledger.told(message as MessageNumber, told(&outcome));
                }
            }
            Event::Detach { link, error, .. } => self.detached(now, link, error.as_ref(), ledger),
            Event::End { error: Some(error), .. } => ledger.blame(format!("a session was ended: {error:?}")),
            Event::Closed { error, by } => {
                if let Some(fault) = unexpected_close(error.as_ref(), by) {
                    ledger.blame(format!("client {}: {fault}", self.number));
                }
                self.lose(now, ledger);
            }
            _ => {}
        }
    }

    fn attached(&mut self, id: LinkId, attach: &enmasse_amqp::types::Attach, scenario: &Scenario, ledger: &mut Ledger) {
        let Some(link) = self.links.iter_mut().find(|link| link.id() == Some(id)) else { return };
        let refused = if link.wish.sends() { attach.target.is_none() } else { attach.source.is_none() };
        if refused || !matches!(link.state, State::Attaching(_)) {
            return;
        }
        if link.wish == Wish::Replies {
            link.node = attach.source.as_ref().and_then(|source| source.address.clone());
        }
        let name = match &link.wish {
            Wish::Send(name) | Wish::Receive(name) => name.clone(),
            Wish::Anywhere => String::new(),
            Wish::Replies => link.node.clone().unwrap_or_default(),
        };
        let kind = scenario.resolve(&name).map(|declared| declared.kind);
        let number = ledger.attached(self.number, Route { space: self.space, name, kind, fleeting: false });
        link.state = State::Attached(id, number);
    }

    fn detached(&mut self, now: Time, id: LinkId, error: Option<&Error>, ledger: &mut Ledger) {
        let fair = [condition::RESOURCE_DELETED, condition::NOT_FOUND];
        if let Some(error) = error.filter(|error| !fair.contains(&error.condition)) {
            ledger.blame(format!("client {}: a link was detached: {error:?}", self.number));
        }
        if let Some(link) = self.links.iter_mut().find(|link| link.id() == Some(id)) {
            link.over(now, ledger);
            link.retry_at = now.plus_millis(self.random.between(1, 100));
        }
    }

    /// No producer window beyond what the address gives.
    fn credited(&self, id: LinkId, credit: u32, scenario: &Scenario, ledger: &mut Ledger) {
        let Some(link) = self.links.iter().find(|link| link.id() == Some(id)) else { return };
        let capacity = match &link.wish {
            Wish::Send(name) => scenario.resolve(name).map_or(0, |declared| declared.capacity),
            _ => scenario.link_capacity,
        };
        if credit > capacity {
            ledger.blame(format!("credit {credit} beyond the capacity {capacity} of {:?}", link.wish));
        }
    }

    fn incoming(&mut self, incoming: &Incoming<'_>, ledger: &mut Ledger) {
        let Some(link) = self.links.iter_mut().find(|link| link.id() == Some(incoming.link)) else { return };
        let State::Attached(_, number) = link.state else { return };
        if incoming.first {
            match link.credit.checked_sub(1) {
                Some(left) => {
                    link.credit = left;
                    // A drain that deliveries use up is answered by them.
                    link.draining &= left > 0;
                }
                None => ledger.blame(format!("link {number}: a transfer beyond its credit")),
            }
            link.partial.clear();
        }
        link.partial.extend_from_slice(incoming.payload);
        if incoming.aborted {
            link.partial.clear();
            ledger.note(&format!("link {number}: a delivery was aborted"));
        }
        if incoming.more || incoming.aborted {
            return;
        }
        let bytes = std::mem::take(&mut link.partial);
        let Some((message, reply_to)) = message::read(&bytes) else {
            return ledger.blame(format!("link {number}: {} bytes that are no message of ours", bytes.len()));
        };
        ledger.received(number, message, incoming.settled, &bytes);
        if !incoming.settled {
            link.unanswered.push(Held { delivery_id: incoming.delivery_id, message });
        }
        if let Some(reply_to) = reply_to.filter(|_| self.replies.len() < REPLIES_MAX) {
            self.replies.push(reply_to);
        }
    }

    /// Does something about one link.
    fn tend(&mut self, at: usize, now: Time, scenario: &Scenario, ledger: &mut Ledger, active: bool) {
        let Some(live) = &mut self.live else { return };
        let Some(session) = live.session else { return };
        let link = &mut self.links[at];
        match link.state {
            State::Idle if now >= link.retry_at => {
                let name = format!("{at}-{}", self.random.number());
                let attach = link.wish.attach(name, self.random.chance(100));
                match live.machine.attach(session, attach) {
                    Ok(id) => link.state = State::Attaching(id),
                    Err(error) => ledger.blame(format!("client {}: {error}", self.number)),
                }
            }
            State::Attached(id, number) => {
                if active && self.random.below(1_000_000) < self.temper.detaches {
                    ledger.note(&format!("link {number} is detached by its client"));
                    live.machine.detach(id, self.random.chance(500), None);
                    link.leave(ledger);
                } else if link.wish.sends() {
                    self.tend_sender(at, id, number, scenario, ledger, active);
                } else {
                    self.tend_receiver(at, id, number, ledger, active);
                }
            }
            _ => {}
        }
    }

    fn tend_sender(
        &mut self,
        at: usize,
        id: LinkId,
        number: usize,
        scenario: &Scenario,
        ledger: &mut Ledger,
        active: bool,
    ) {
        let burst = self.random.between(1, 8);
        for _ in 0..burst {
            let Some(live) = &mut self.live else { return };
            if live.machine.output().len() > OUTPUT_ENOUGH {
                return;
            }
            if self.links[at].sending.is_some() {
                self.continue_sending(at, id, ledger, active);
                return;
            }
            if live.machine.sendable(id) == 0 {
                return;
            }
            let Some(name) = self.target(at, scenario, active) else { return };
            self.begin_sending(at, id, number, name, scenario, ledger);
        }
    }

    /// Where the next message on a link goes; `None`: there is none to be sent.
    fn target(&mut self, at: usize, scenario: &Scenario, active: bool) -> Option<String> {
        match &self.links[at].wish {
            Wish::Send(name) => active.then(|| name.clone()),
            _ if !self.replies.is_empty() => self.replies.pop(),
            _ if !active => None,
            _ if self.random.chance(20) => Some(NOWHERE.to_owned()),
            _ => Some(scenario.target(&mut self.random)),
        }
    }

    fn begin_sending(
        &mut self,
        at: usize,
        id: LinkId,
        number: usize,
        name: String,
        scenario: &Scenario,
        ledger: &mut Ledger,
    ) {
        let long = self.random.chance(self.temper.long);
        let size = if long { self.random.between(1_000, 300_000) } else { self.random.between(0, 200) } as usize;
        let settled = self.random.chance(self.temper.settles);
        let dynamic = message::is_dynamic(&name);
        let kind = if dynamic { Some(enmasse_router::core::AddressKind::Anycast) } else { None };
        let kind = kind.or_else(|| scenario.resolve(&name).map(|declared| declared.kind));
        let reply_to = self.reply_to(dynamic);
        let route = Route { space: self.space, name, kind, fleeting: dynamic };
        let message = ledger.sends(number, route.clone(), settled);
        let bytes = message::write(message, &route.name, reply_to, size);
        ledger.contains(message, bytes.clone());
        self.links[at].sending = Some(Sending { message, bytes, offset: 0, settled });
        self.piece(at, id, ledger);
    }

    /// Some messages ask for a reply, if there is a node for it; replies do not.
    fn reply_to(&mut self, is_reply: bool) -> Option<String> {
        let nodes = self.links.iter().filter(|link| matches!(link.state, State::Attached(..)));
        let node = nodes.filter_map(|link| link.node.clone()).next();
        node.filter(|_| !is_reply && self.random.chance(500))
    }

    fn continue_sending(&mut self, at: usize, id: LinkId, ledger: &mut Ledger, active: bool) {
        let Some(live) = &mut self.live else { return };
        let aborts = active && self.random.below(1_000_000) < self.temper.aborts;
        if aborts && let Some(sending) = self.links[at].sending.take() {
            let void =
                Outgoing { token: None, message_format: 0, first: false, more: false, aborted: true, payload: &[] };
            match live.machine.transfer(id, void) {
                Ok(()) => ledger.progress(sending.message, Progress::Aborted),
                Err(error) => ledger.blame(format!("no abort of {}: {error}", sending.message)),
            }
        } else if live.machine.continuable(id) {
            self.piece(at, id, ledger);
        }
    }

    /// Hands the next piece to the machine.
    fn piece(&mut self, at: usize, id: LinkId, ledger: &mut Ledger) {
        let Some(live) = &mut self.live else { return };
        let Some(sending) = &mut self.links[at].sending else { return };
        let (message, left) = (sending.message, sending.bytes.len() - sending.offset);
        let size = left.min(self.random.between(500, 50_000) as usize);
        let piece = Outgoing {
            token: (!sending.settled).then_some(message as u64),
            message_format: 0,
            first: sending.offset == 0,
            more: size < left,
            aborted: false,
            payload: &sending.bytes[sending.offset..sending.offset + size],
        };
        if let Err(error) = live.machine.transfer(id, piece) {
            return ledger.blame(format!("message {message} cannot be sent: {error}"));
        }
        sending.offset += size;
        if size == left {
            self.links[at].sending = None;
            ledger.progress(message, Progress::Sent);
        }
    }

    fn tend_receiver(&mut self, at: usize, id: LinkId, number: usize, ledger: &mut Ledger, active: bool) {
        let Some(live) = &mut self.live else { return };
        let link = &mut self.links[at];
        let patience = if active { 300 } else { 1000 };
        while !link.unanswered.is_empty() && self.random.chance(patience) {
            let which = self.random.below(link.unanswered.len());
            let held = link.unanswered.remove(which);
            let outcome = answer(&mut self.random);
            ledger.answers(number, held.message, told(&outcome));
            live.machine.settle(id, held.delivery_id, &outcome);
        }
        if link.draining {
            return;
        }
        if link.credit <= self.temper.credit / 2 && (!active || self.random.chance(300)) {
            link.credit = self.temper.credit;
            live.machine.grant(id, link.credit);
        } else if active && link.credit > 0 && self.random.chance(10) {
            link.draining = true;
            live.machine.drain(id);
        }
    }

    /// Nothing is left to be done: links at rest, every byte handed to the network, every whole frame read.
    #[must_use]
    pub(crate) fn is_quiet(&mut self) -> bool {
        let Some(live) = &mut self.live else { return false };
        if !live.machine.output().is_empty() || !live.unread.is_empty() {
            return false;
        }
        let at_rest = |link: &Link| {
            let attached = matches!(link.state, State::Attached(..));
            attached && link.sending.is_none() && link.unanswered.is_empty() && !link.draining
        };
        let answers = self.links.iter().any(|link| link.wish == Wish::Anywhere);
        self.links.iter().all(at_rest) && (!answers || self.replies.is_empty())
    }

    /// How its links stand, for people.
    pub(crate) fn describe(&self) -> String {
        let links: Vec<String> = self.links.iter().map(|link| format!("  {link:?}")).collect();
        format!("client {} (connected: {})\n{}", self.number, self.live.is_some(), links.join("\n"))
    }

    /// Names it receives from, while nothing happens.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (usize, &str)> {
        self.links.iter().filter_map(|link| match &link.wish {
            Wish::Receive(name) => Some((self.space, name.as_str())),
            _ => None,
        })
    }

    /// Names it sends to, with the credit it has.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (usize, &str, u32)> {
        let machine = self.live.as_ref().map(|live| &live.machine);
        self.links.iter().filter_map(move |link| match (&link.wish, link.id(), machine) {
            (Wish::Send(name), Some(id), Some(machine)) => Some((self.space, name.as_str(), machine.sendable(id))),
            _ => None,
        })
    }
}

fn wish(scenario: &Scenario, random: &mut Random) -> Wish {
    match random.below(10) {
        0..=3 => Wish::Send(scenario.target(random)),
        4..=7 => Wish::Receive(scenario.source(random)),
        8 => Wish::Anywhere,
        _ => Wish::Replies,
    }
}

fn answer(random: &mut Random) -> Outcome {
    match random.below(20) {
        0 => Outcome::Rejected(Some(Box::new(Error::new(REJECTION, "the simulation says no")))),
        1 => Outcome::Released,
        2 => Outcome::Modified(Box::new(Modified { undeliverable_here: true, ..Modified::default() })),
        3 => Outcome::Modified(Box::new(Modified { delivery_failed: true, ..Modified::default() })),
        _ => Outcome::Accepted,
    }
}

/// An outcome as the ledger knows it. A rejection that no consumer of ours made is the node's.
fn told(outcome: &Outcome) -> Told {
    match outcome {
        Outcome::Accepted => Told::Accepted,
        Outcome::Rejected(Some(error)) if error.condition == REJECTION => Told::Rejected,
        Outcome::Rejected(_) => Told::Refused,
        Outcome::Released => Told::Released,
        Outcome::Modified(modified) if modified.delivery_failed => Told::Failed,
        Outcome::Modified(_) => Told::Modified,
    }
}

/// What is wrong with the end of a connection. Silence is punished, and rightly so: clients freeze.
fn unexpected_close(error: Option<&Error>, by: ClosedBy) -> Option<String> {
    let error = error?;
    let idle = error.condition == condition::RESOURCE_LIMIT_EXCEEDED;
    (by != ClosedBy::Timeout && !idle).then(|| format!("closed by {by:?}: {error:?}"))
}
