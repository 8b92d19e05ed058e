//! One connection: drives the machine with bytes, commands and time.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

use enmasse_amqp::connection::{ClosedBy, Config, Connection, Event as MachineEvent, LinkId, SessionId};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Attach, Error as AmqpError, Open, Outcome as AmqpOutcome, Role, Symbol, Target, condition};

use super::Setup;
use super::event::{Event, Handle, LinkOptions, Outcome, Reason, StreamState};
use super::links::{Direction, Links, Receiver, Sender, attach};
use super::mailbox::{Command, Mailbox};
use super::waker::Waker;
use crate::error::Error;
use crate::login::Exchange;
use crate::poller::Poller;
use crate::transport::Transport;
use crate::wire::Wire;

/// Bytes of pending output above which no further message is passed to the machine.
const OUTPUT_MAX: usize = 512 * 1024;

/// See the module.
pub(super) struct Driver {
    key: u64,
    setup: Arc<Setup>,
    mailbox: Arc<Mailbox>,
    waker: Waker,
    config: Arc<Config>,
    machine: Connection,
    /// `None`: not connected yet
    wire: Option<Wire>,
    /// the poller watches for writability
    blocked: bool,
    /// the server has sent something
    received: bool,
    /// further addresses to try
    addresses: VecDeque<SocketAddr>,
    exchange: Option<Box<Exchange>>,
    /// `Some` once links may be attached
    session: Option<SessionId>,
    /// commands that wait for the session
    early: Vec<Command>,
    links: Links,
    /// the link that keeps the session's incoming window closed until the owner has taken pending
    /// messages
    held: Option<LinkId>,
    /// outcomes of this turn that may still be merged
    settled: Option<(Handle, u64, u64, Outcome)>,
    /// the owner has called `close`
    closing: bool,
    ended: bool,
}

impl Driver {
    /// A connection whose server address is being resolved.
    pub(super) fn new(key: u64, setup: Arc<Setup>, mailbox: Arc<Mailbox>, waker: Waker, now: Time) -> Self {
        let config = Arc::new(setup.config());
        Self {
            key,
            machine: machine(&setup, &config, now),
            setup,
            mailbox,
            waker,
            config,
            wire: None,
            blocked: false,
            received: false,
            addresses: VecDeque::new(),
            exchange: None,
            session: None,
            early: Vec::new(),
            links: Links::default(),
            held: None,
            settled: None,
            closing: false,
            ended: false,
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn timeout(&self) -> Option<Time> {
        if self.ended { None } else { self.machine.poll_timeout() }
    }

    /// Starts the protocol on a stream that is connected or connecting.
    pub(super) fn connected(&mut self, transport: Transport, poller: &Poller, now: Time) {
        let wire = Wire::new(transport);
        if let Err(error) = poller.watch(&wire, self.key, true) {
            return self.lost(&Error::io("epoll", &error));
        }
        self.wire = Some(wire);
        self.blocked = true;
        if self.setup.credentials.is_none() {
            self.begin();
        }
        self.end_turn(poller, now);
    }

    /// Begins to connect to the next address.
    fn connect(&mut self, poller: &Poller, now: Time) {
        let Some(address) = self.addresses.pop_front() else { return };
        match self.setup.route.connect(address) {
            Ok(transport) => self.connected(transport, poller, now),
            Err(error) => self.broken(&error, poller, now),
        }
    }

    /// Handles a readable socket.
    pub(super) fn read(&mut self, buffer: &mut [u8], poller: &Poller, now: Time) {
        while let Some(wire) = &mut self.wire {
            let count = match wire.fill(buffer) {
                Ok(Some(count)) => count,
                Ok(None) => break,
                Err(error) => return self.broken(&error, poller, now),
            };
            self.received = true;
            let holds_input = wire.holds_input();
            let rest = self.parse(&buffer[..count], now);
            if let Some(wire) = &mut self.wire {
                wire.keep(rest);
            }
            if !holds_input || self.ended {
                break;
            }
        }
        self.end_turn(poller, now);
    }

    /// Handles a writable socket.
    pub(super) fn write(&mut self, poller: &Poller, now: Time) {
        self.end_turn(poller, now);
    }

    /// Handles an expired deadline of the machine.
    pub(super) fn expire(&mut self, poller: &Poller, now: Time) {
        self.machine.handle_timeout(now);
        self.resume(now);
        self.end_turn(poller, now);
    }

    /// Runs the commands of the owner or a helper thread.
    pub(super) fn command(&mut self, poller: &Poller, now: Time) {
        for command in self.mailbox.take_commands() {
            match command {
                Command::Resolved(addresses) => match addresses {
                    Ok(addresses) => {
                        self.addresses = addresses.into();
                        self.connect(poller, now);
                    }
                    Err(error) => self.lost(&error),
                },
                Command::Answered(exchange, response) => match response {
                    Ok(response) => {
                        self.exchange = Some(exchange);
                        self.machine.sasl_response(response);
                        self.resume(now);
                    }
                    Err(error) => self.lost(&error),
                },
                Command::Close => self.close(now),
                other if self.session.is_some() => self.run_command(other),
                other => self.early.push(other),
            }
        }
        self.end_turn(poller, now);
    }

    fn close(&mut self, now: Time) {
        self.closing = true;
        if self.wire.is_none() {
            return self.finish(None);
        }
        self.send_waiting(None, usize::MAX);
        self.machine.close(None);
        self.resume(now);
    }

    /// Lets the machine process the input it already has.
    fn resume(&mut self, now: Time) {
        let rest = self.wire.as_mut().map(Wire::take_rest).unwrap_or_default();
        let left = self.parse(&rest, now).len();
        if let Some(wire) = &mut self.wire {
            wire.keep(&rest[rest.len() - left..]);
        }
    }

    /// Passes bytes to the machine and handles its events; returns the rest.
    fn parse<'a>(&mut self, mut input: &'a [u8], now: Time) -> &'a [u8] {
        while !self.ended
            && let Some(event) = self.machine.poll_event(now, &mut input)
        {
            self.handle(event);
        }
        input
    }

    fn handle(&mut self, event: MachineEvent<'_>) {
        match event {
            MachineEvent::SaslMechanisms(offered) => self.log_in(&offered),
            MachineEvent::SaslChallenge(challenge) => self.answer(challenge),
            MachineEvent::SaslOutcome(outcome) => {
                let Some(mut exchange) = self.exchange.take() else { return };
                match exchange.outcome(&outcome) {
                    Ok(()) => self.begin(),
                    Err(error) => self.lost(&error),
                }
            }
            MachineEvent::Open(open) => {
                self.mailbox.notify_owner(Event::Opened { properties: open.properties });
            }
            MachineEvent::Attached { link, attach } => self.attached(link, &attach),
            MachineEvent::Transfer(incoming) => {
                if let Some((handle, link)) = self.links.by_id(incoming.link)
                    && let Direction::Receives(receiver) = &mut link.way
                    && let Some(message) = receiver.receive(handle, &incoming)
                    && self.mailbox.deliver(message)
                    && self.held.is_none()
                    && !link.leaving
                {
                    self.held = Some(incoming.link);
                    self.machine.set_held(incoming.link, true);
                }
            }
            MachineEvent::Credit { link, credit, drain } => self.credit(link, credit, drain),
            MachineEvent::Flow { link, drain: true, .. } => {
                if let Some((handle, link)) = self.links.by_id(link)
                    && let Direction::Receives(receiver) = &mut link.way
                {
                    let credit = receiver.drained();
                    self.mailbox.notify_owner(Event::Drained { link: handle, credit });
                }
            }
            MachineEvent::Disposition { session, first, last, settled, outcome } => {
                self.disposition(session, first, last, settled, outcome);
            }
            MachineEvent::Detach { link, error, .. } => self.detached(link, error),
            MachineEvent::End { error, .. } => {
                if !self.closing {
                    self.finish(Some(reason(error, "the server ended the session")));
                    self.machine.close(None);
                }
            }
            MachineEvent::Closed { error, by } => self.closed(error, by),
            // events of the server side, and events that do not concern an owner events of
            // transactions, which this client does not use
            MachineEvent::Provisional { .. }
            | MachineEvent::Declared { .. }
            | MachineEvent::PostingRefused { .. }
            | MachineEvent::SenderSettled { .. } => {}
            MachineEvent::Begin(_)
            | MachineEvent::Flow { .. }
            | MachineEvent::SaslInit(_)
            | MachineEvent::SaslResponse(_) => {}
            MachineEvent::Attach { link, .. } => {
                let error = AmqpError::new(condition::NOT_ALLOWED, "this client accepts no links from the server");
                self.machine.refuse(link, error);
            }
        }
    }

    fn log_in(&mut self, offered: &[Symbol]) {
        let Some(credentials) = &self.setup.credentials else { return };
        let started = credentials.begin().and_then(|mut exchange| Ok((exchange.start(offered)?, exchange)));
        match started {
            Ok((init, exchange)) => {
                self.exchange = Some(Box::new(exchange));
                self.machine.sasl_init(init);
            }
            Err(error) => self.lost(&error),
        }
    }

    /// Derives keys on another thread, because it is slow and this thread serves other connections.
    fn answer(&mut self, challenge: Vec<u8>) {
        let Some(mut exchange) = self.exchange.take() else { return };
        let (mailbox, waker, key) = (Arc::clone(&self.mailbox), self.waker.clone(), self.key);
        std::thread::spawn(move || {
            let response = exchange.challenge(&challenge);
            if mailbox.command(Command::Answered(exchange, response)) {
                waker.wake(key);
            }
        });
    }

    /// Starts the AMQP layer: frames may be sent before the server's `open` arrives.
    fn begin(&mut self) {
        match self.machine.begin() {
            Ok(session) => self.session = Some(session),
            Err(error) => return self.lost(&Error::misuse(error.to_string())),
        }
        for command in std::mem::take(&mut self.early) {
            self.run_command(command);
        }
    }

    fn run_command(&mut self, command: Command) {
        match command {
            Command::AttachSender { link, address, options } => {
                self.attach(link, Role::Sender, address, &options, Direction::Sends(Sender::new(options.settled)));
            }
            Command::AttachReceiver { link, address, options } => {
                self.attach(link, Role::Receiver, address, &options, Direction::Receives(Receiver::default()));
            }
            Command::Send { link, messages, settled } => match self.links.by_handle(link).map(|link| &mut link.way) {
                Some(Direction::Sends(sender)) => sender.queue(messages, settled),
                _ => self.mailbox.sent(messages.iter().map(Vec::len).sum()),
            },
            Command::Grant { link, more } => {
                if let Some(link) = self.links.by_handle(link)
                    && let Direction::Receives(receiver) = &mut link.way
                {
                    self.machine.grant(link.id, receiver.grant(more));
                }
            }
            Command::Drain { link } => {
                if let Some(link) = self.links.by_handle(link) {
                    self.machine.drain(link.id);
                }
            }
            Command::Settle { link, first, last, outcome } => {
                if let Some(link) = self.links.by_handle(link)
                    && let Direction::Receives(receiver) = &mut link.way
                {
                    let outcome = AmqpOutcome::from(outcome);
                    for id in receiver.settle(first, last) {
                        self.machine.settle(link.id, id, &outcome);
                    }
                }
            }
            Command::Detach { link } => {
                self.send_waiting(Some(link), usize::MAX);
                if let Some(link) = self.links.by_handle(link) {
                    link.leaving = true;
                    // an ended link no longer holds the window; the next message of another link
                    // may
                    self.held.take_if(|held| *held == link.id);
                    self.machine.detach(link.id, true, None);
                }
            }
            Command::Resume => {
                if let Some(link) = self.held.take() {
                    self.machine.set_held(link, false);
                }
            }
            Command::Close | Command::Resolved(_) | Command::Answered(..) => {}
        }
    }

    fn attach(&mut self, handle: Handle, role: Role, address: Option<String>, options: &LinkOptions, way: Direction) {
        let Some(session) = self.session else { return };
        let name = options.name.clone().unwrap_or_else(|| format!("{}-{handle}", self.setup.unique));
        match self.machine.attach(session, attach(name, role, address, options)) {
            Ok(id) => self.links.insert(handle, id, way),
            Err(error) => {
                let reason =
                    Reason { condition: "amqp:resource-limit-exceeded".into(), description: error.to_string() };
                self.mailbox.notify_owner(Event::Refused { link: handle, reason: Some(reason) });
            }
        }
    }

    fn attached(&mut self, id: LinkId, answer: &Attach) {
        let Some((handle, link)) = self.links.by_id(id) else { return };
        // a null terminus is a refusal: a detach with the reason follows
        let node = match &link.way {
            Direction::Sends(_) => answer.target.as_deref().map(|target| match target {
                Target::Node { address, capabilities, .. } => (address.clone(), &capabilities[..]),
                Target::Coordinator(_) => (None, &[][..]),
            }),
            Direction::Receives(_) => {
                answer.source.as_deref().map(|source| (source.address.clone(), &source.capabilities[..]))
            }
        };
        link.attached = node.is_some();
        if let Some((address, capabilities)) = node {
            let capabilities = capabilities.iter().map(|name| name.as_str().to_owned()).collect();
            let filters = match (&link.way, answer.source.as_deref()) {
                (Direction::Receives(_), Some(source)) => {
                    source.filter.iter().map(|(name, _)| name.as_str().to_owned()).collect()
                }
                _ => Vec::new(),
            };
            let stream = StreamState::of(answer);
            self.mailbox.notify_owner(Event::Attached { link: handle, address, filters, capabilities, stream });
        }
    }

    fn credit(&mut self, id: LinkId, credit: u32, drain: bool) {
        let Some((handle, link)) = self.links.by_id(id) else { return };
        let Direction::Sends(sender) = &mut link.way else { return };
        let more = sender.set_credit(credit);
        let size = sender.send(handle, id, &mut self.machine, &self.mailbox, usize::MAX);
        if drain {
            // returns the credit: the owner's next messages wait for new credit
            let less = sender.set_credit(0);
            self.mailbox.grant(handle, more + less);
            self.machine.drained(id);
        } else {
            self.mailbox.grant(handle, more);
        }
        if size > 0 {
            self.mailbox.sent(size);
        }
    }

    fn disposition(&mut self, session: SessionId, first: u32, last: u32, settled: bool, outcome: AmqpOutcome) {
        let outcome = Outcome::from(outcome);
        let Self { links, mailbox, settled: gathered, .. } = self;
        self.machine.take_settled(session, first, last, settled, |id, number| {
            let Some(link) = links.handle(id) else { return };
            match gathered {
                Some((of, _, last, same)) if *of == link && *last + 1 == number && *same == outcome => *last = number,
                _ => {
                    notify_settled(mailbox, gathered.take());
                    *gathered = Some((link, number, number, outcome.clone()));
                }
            }
        });
    }

    fn detached(&mut self, id: LinkId, error: Option<AmqpError>) {
        notify_settled(&self.mailbox, self.settled.take());
        self.machine.take_unsettled(id, |_| {});
        let Some((handle, link)) = self.links.remove(id) else { return };
        self.held.take_if(|held| *held == id);
        if let Direction::Sends(sender) = &link.way {
            self.mailbox.sent(sender.waiting_size());
        }
        let reason = error.map(Reason::from);
        self.mailbox.notify_owner(if link.attached || link.leaving {
            Event::Detached { link: handle, reason }
        } else {
            Event::Refused { link: handle, reason }
        });
    }

    fn closed(&mut self, error: Option<AmqpError>, by: ClosedBy) {
        if by == ClosedBy::Timeout {
            let reported = error.and_then(|error| error.description).unwrap_or_default();
            return self.lost(&Error::unavailable(format!("{}: no answer: {reported}", self.setup.server)));
        }
        let requested = self.closing && error.is_none();
        self.finish((!requested).then(|| reason(error, "the server closed the connection")));
    }

    /// The socket failed: the next address may work, if the server has not answered yet.
    fn broken(&mut self, error: &io::Error, poller: &Poller, now: Time) {
        if !self.received && !self.closing && !self.addresses.is_empty() {
            self.wire = None;
            self.machine = machine(&self.setup, &self.config, now);
            (self.session, self.exchange) = (None, None);
            return self.connect(poller, now);
        }
        if self.closing {
            return self.finish(None);
        }
        let server = &self.setup.server;
        self.lost(&match error.kind() {
            ErrorKind::UnexpectedEof => Error::unavailable(format!("{server}: the server closed the socket")),
            ErrorKind::InvalidData => Error::peer(format!("{server}: {error}")),
            _ => Error::unavailable(format!("{server}: {error}")),
        });
    }

    /// Ends the connection for a reason other than a frame of the server.
    fn lost(&mut self, error: &Error) {
        self.finish(Some(Reason { condition: error.condition().to_owned(), description: error.message.clone() }));
    }

    fn finish(&mut self, reason: Option<Reason>) {
        if !std::mem::replace(&mut self.ended, true) {
            notify_settled(&self.mailbox, self.settled.take());
            self.mailbox.notify_owner(Event::Closed { reason });
        }
    }

    /// Sends waiting messages, writes the output, and watches for writability if some output
    /// remains.
    fn end_turn(&mut self, poller: &Poller, now: Time) {
        notify_settled(&self.mailbox, self.settled.take());
        loop {
            let sent = if self.blocked { 0 } else { self.send_waiting(None, OUTPUT_MAX) };
            self.machine.flush(now);
            let Some(wire) = &mut self.wire else { return };
            let output = self.machine.output();
            if wire.pending() == 0 {
                std::mem::swap(&mut wire.output, output);
            } else {
                wire.output.append(output);
            }
            let blocked = match wire.flush() {
                Ok(blocked) => blocked,
                // a read reports more detail, and reads the server's output before the end
                Err(_) if self.received => false,
                Err(error) => return self.broken(&error, poller, now),
            };
            if blocked != self.blocked {
                self.blocked = blocked;
                if let Err(error) = poller.rewatch(&*wire, self.key, blocked) {
                    return self.lost(&Error::io("epoll", &error));
                }
            }
            if sent == 0 || blocked {
                return;
            }
        }
    }

    /// Passes waiting messages of one link or all to the machine, while its output is below
    /// `output_max`. Returns their bytes. Before the end of a link or connection the only bound is
    /// that of waiting messages.
    fn send_waiting(&mut self, of: Option<Handle>, output_max: usize) -> usize {
        let mut size = 0;
        for (handle, id, sender) in self.links.senders() {
            if sender.is_waiting() && of.is_none_or(|of| of == handle) {
                size += sender.send(handle, id, &mut self.machine, &self.mailbox, output_max);
            }
        }
        if size > 0 {
            self.mailbox.sent(size);
        }
        size
    }
}

fn machine(setup: &Setup, config: &Arc<Config>, now: Time) -> Connection {
    let open = Open {
        hostname: setup.hostname.clone(),
        desired_capabilities: setup.desired_capabilities.clone(),
        ..config.open()
    };
    Connection::client(Arc::clone(config), now, setup.credentials.is_some(), open)
}

fn notify_settled(mailbox: &Mailbox, settled: Option<(Handle, u64, u64, Outcome)>) {
    if let Some((link, first, last, outcome)) = settled {
        mailbox.notify_owner(Event::Settled { link, first, last, outcome });
    }
}

fn reason(error: Option<AmqpError>, otherwise: &str) -> Reason {
    error.map_or_else(
        || Reason { condition: "amqp:connection:forced".to_owned(), description: otherwise.to_owned() },
        Reason::from,
    )
}

#[cfg(test)]
mod tests;
