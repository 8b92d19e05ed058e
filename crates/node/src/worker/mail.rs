//! Runs commands of other threads, and requests of the shard.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use enmasse_amqp::time::Time;
use enmasse_amqp::types::{Error, condition};
use enmasse_mqtt::session::Session;
use enmasse_router::shard::{ConnId, Fact, Moved, Request};
use enmasse_router::table::{Judged, Refusal, SpaceKey};
use mio::Token;

use super::{TURN_ACCEPTED_SOCKETS, Worker};
use crate::checks::{Check, Host};
use crate::command::{Command, Pending};
use crate::creations::{Waiter, too_many};
use crate::events::EventKind;
use crate::origin::Origin;
use crate::read_scheduler::ReadScheduler;
use crate::socket::{AcceptedSocket, Phase, Socket};
use crate::stats::{ConnectionLine, LinkLine, OutcomesLine, SessionKey, WorkerAnswer, WorkerLinks, WorkerSessions};

/// Answers a command; the caller may have timed out.
fn reply<T>(answer: &Sender<T>, value: T) {
    let _ = answer.send(value);
}

impl Worker {
    pub(super) fn run_commands(&mut self, now: Time) {
        if !self.mailbox.is_filled() {
            return;
        }
        let mut commands = std::mem::take(&mut self.commands);
        self.mailbox.take(&mut commands);
        for command in commands.drain(..) {
            self.run_command(now, command);
        }
        self.commands = commands;
    }

    fn run_command(&mut self, now: Time, command: Command) {
        match command {
            Command::Serve(accepted_socket) => self.accepted_sockets.push_back(accepted_socket),
            Command::Adopt(socket, moved) => self.adopt(now, *socket, *moved),
            Command::PasswordChecked(conn, right) => {
                match right {
                    Some(_) => self.stats.passwords_checked += 1,
                    None => self.stats.checks_refused += 1,
                }
                self.shard.plain_checked(conn, right);
                if let Some(key) = self.socket_of(conn) {
                    self.ingest_again(now, key);
                }
            }
            Command::LoginJudged(conn, subject, judged) => {
                self.shard.judged(conn, subject, *judged);
                if let Some(key) = self.socket_of(conn) {
                    self.ingest_again(now, key);
                }
            }
            Command::CreationRefused(conn, number, error) => {
                self.shard.creation_refused(conn, number, error);
                if let Some(key) = self.socket_of(conn) {
                    self.ingest_again(now, key);
                }
            }
            Command::Seal(entry, seal, answer) => {
                let sealed = seal && self.shard.seal_unused(&entry);
                if !seal {
                    self.shard.unseal(&entry);
                }
                let _ = answer.send(sealed);
            }
            Command::Apply(table, removed, done) => {
                self.shard.apply(table, &removed);
                // The caller may have timed out; the table is in force anyway.
                let _ = done.send(());
            }
            Command::ChangeStoredAddresses(address_changes) => self.shard.change_stored_addresses(address_changes),
            Command::Journaled(answers) => self.shard.journaled(answers),
            Command::Fetched(bodies) => self.shard.fetched(bodies),
            Command::Compact(segment) => self.shard.compact(segment),
            Command::Operate(operation, answer) => {
                self.operations.insert(operation.id, answer);
                self.shard.operate(*operation);
            }
            Command::Stats(answer) => {
                let mut stats = self.stats.clone();
                stats.connections = self.sockets.len() as u64;
                stats.stopped = self.shard.stopped_count() as u64;
                let addresses = self.shard.address_stats().collect();
                let queues = self.shard.queue_stats().collect();
                let _ = answer.send(WorkerAnswer { worker: stats, addresses, queues });
            }
            Command::List(answer) => reply(&answer, self.list()),
            Command::ListLinks(id, answer) => reply(&answer, self.list_links(id)),
            Command::Sessions(space, answer) => reply(&answer, self.list_sessions(space)),
            Command::SessionStates(space, wanted, answer) => reply(&answer, self.session_states(space, &wanted)),
            Command::EndSession(space, session, done) => self.end_session(space, &session, &done),
            Command::Close(id, answer) => reply(&answer, self.close_connection(id)),
            Command::Trace(id, on) => self.set_trace(id, on),
            Command::Drain(answer) => {
                self.draining = true;
                let busy = self.shard.is_storing() || self.held_back || self.mesh.has_incoming();
                // The caller may have timed out.
                let _ = answer.send(Pending { sent: self.stats.batches, received: self.received, busy });
            }
            Command::Stop(end) => self.stop(end),
        }
    }

    /// Adds a few new connections per turn, so that connected clients do not wait for all of them.
    pub(super) fn take_accepted_sockets(&mut self, now: Time) {
        let count = self.accepted_sockets.len().min(TURN_ACCEPTED_SOCKETS);
        for _ in 0..count {
            let Some(accepted_socket) = self.accepted_sockets.pop_front() else { return };
            self.add_accepted_socket(now, accepted_socket);
        }
    }

    fn add_accepted_socket(&mut self, now: Time, accepted_socket: AcceptedSocket) {
        let end = now.plus_millis(self.shared.limits.handshake_timeout_ms);
        let Ok(socket) = Socket::new(accepted_socket, end) else { return };
        let Some(key) = self.add_socket(socket) else { return };
        self.stats.accepted += 1;
        self.register_connection(now, key);
        self.arm(key);
    }

    /// Adds a socket to the slab and watches it; `None` if it cannot be watched and is dropped.
    fn add_socket(&mut self, mut socket: Socket) -> Option<u32> {
        let entry = self.sockets.vacant_entry();
        let key = entry.key();
        if self.stop_at.is_some() || socket.stream.register(self.poll.registry(), Token(key)).is_err() {
            return None;
        }
        entry.insert(socket);
        Some(key as u32)
    }

    fn adopt(&mut self, now: Time, mut socket: Socket, moved: Moved) {
        (socket.queued, socket.swept, socket.wanted, socket.paused) = (false, false, true, false);
        socket.timer = crate::timers::Tick::NEVER;
        let Some(key) = self.add_socket(socket) else { return };
        let conn = self.shard.adopt(moved);
        self.go_live(key, conn);
        self.join_space_group(key, conn);
        self.warm(key);
        self.ingest_again(now, key);
    }

    /// Processes the shard's requests.
    pub(super) fn serve_requests(&mut self) {
        while let Some(request) = self.shard.poll_request() {
            match request {
                Request::CheckPlain { conn, space, known, check } => {
                    let mailbox = Arc::clone(&self.mailbox);
                    let check = Check {
                        verify: Box::new(move || check.verify()),
                        report: Box::new(move |right| mailbox.post([Command::PasswordChecked(conn, right)])),
                    };
                    let origin = self.socket_of(conn).map(|key| self.sockets[key as usize].details.origin);
                    let host = origin.map_or(Host::of(None), Origin::host);
                    self.shared.checker.offer(space, host, known, check);
                }
                Request::Ask { conn, subject, question } => {
                    let now = self.shared.clock.now();
                    let until = now.plus_millis(self.shared.limits.handshake_timeout_ms);
                    if !self.shared.logins.ask(self.index, conn, subject, question, now, until) {
                        self.stats.checks_refused += 1;
                        let why = "too many logins wait for an external decision".to_owned();
                        self.shard.judged(conn, subject, Judged::Unknown(why));
                        self.again = true;
                    }
                }
                Request::Create { conn, number, wanted, user, until } => {
                    let waiter = Waiter { worker: self.index, conn, number, until };
                    if !self.shared.creations.ask(wanted, user, waiter, self.shared.clock.now()) {
                        self.shard.creation_refused(conn, number, too_many());
                        self.again = true;
                    }
                }
                Request::Move { conn, to } => self.move_connection(conn, to),
                Request::Fact { conn, fact } => self.emit_fact(conn, fact),
            }
        }
    }

    /// Moves a connection with its socket to another worker.
    fn move_connection(&mut self, conn: ConnId, to: u16) {
        let Some(key) = self.socket_of(conn) else { return };
        let Some(moved) = self.shard.extract(conn) else { return };
        let mut socket = self.sockets.remove(key as usize);
        self.read_scheduler.leave(std::mem::replace(&mut socket.group, ReadScheduler::UNAUTHENTICATED));
        // Fails only for a stream that was never watched.
        let _ = socket.stream.deregister(self.poll.registry());
        self.stats.moved += 1;
        self.shared.mailboxes[usize::from(to)].post([Command::Adopt(Box::new(socket), Box::new(moved))]);
    }

    /// Moves the connection from the unauthenticated read group to that of its space.
    fn join_space_group(&mut self, key: u32, conn: ConnId) {
        let Some(space) = self.shard.space_of(conn) else { return };
        let group = self.read_scheduler.join(space);
        let before = std::mem::replace(&mut self.sockets[key as usize].group, group);
        self.read_scheduler.leave(before);
    }

    fn emit_fact(&mut self, conn: ConnId, fact: Fact) {
        let Some(&key) = self.socket_of.get(conn.key()) else { return };
        let Some(socket) = self.sockets.get_mut(key as usize) else { return };
        let transport = socket.transport();
        let what = match fact {
            Fact::Opened { container, space, user, mechanism } => {
                self.join_space_group(key, conn);
                let socket = &mut self.sockets[key as usize];
                socket.details.container = Some(container.as_str().into());
                socket.details.claim.opened();
                EventKind::Opened { container, space, user, mechanism, transport }
            }
            Fact::LoginRefused(Refusal { reason, user, space, mechanism }) => {
                EventKind::LoginRefused { reason, user, space, mechanism }
            }
            Fact::AttachRefused { address, condition, reason, space, user } => {
                EventKind::AttachRefused { address, condition, reason, space, user }
            }
            Fact::Closed { condition, description } => EventKind::Closed { condition, description },
        };
        self.emit_event(key, what);
    }

    fn list(&self) -> Vec<ConnectionLine> {
        let known = self.shard.connections().filter_map(|summary| {
            let socket = &self.sockets[self.socket_of(summary.conn)? as usize];
            Some(ConnectionLine {
                id: socket.details.id,
                space: summary.space,
                user: summary.user,
                container: socket.details.container.as_deref().map(str::to_owned),
                product: summary.product,
                address: socket.details.origin.address().map(|peer| peer.to_string()),
                transport: socket.transport(),
                links: summary.links,
                messages_in: summary.carried.messages_in,
                bytes_in: summary.carried.bytes_in,
                messages_out: summary.carried.messages_out,
                bytes_out: summary.carried.bytes_out,
                worker: self.index,
            })
        });
        known.collect()
    }

    fn list_links(&self, id: Option<u64>) -> WorkerLinks {
        let sockets = self.sockets.iter().map(|(_, socket)| socket);
        let wanted = sockets.filter(|socket| id.is_none_or(|id| socket.details.id == id));
        let links =
            wanted.filter_map(|socket| Some((socket.details.id, socket.phase.conn()?))).flat_map(|(id, conn)| {
                self.shard.links_of(conn).into_iter().map(move |link| {
                    let line = LinkLine {
                        connection: id,
                        name: link.name,
                        role: if link.client_sends { "sender" } else { "receiver" },
                        addresses: Vec::new(),
                        credit: link.credit,
                        deliveries: link.deliveries,
                        unsettled: link.unsettled,
                        outcomes: link.outcomes.map(OutcomesLine::from),
                    };
                    (line, link.addresses)
                })
            });
        links.collect()
    }

    fn end_session(&mut self, space: SpaceKey, (user, client_id): &SessionKey, done: &Sender<()>) {
        self.shard.end_session(space, user.as_deref(), client_id);
        self.again = true;
        reply(done, ());
    }

    fn session_states(&self, space: SpaceKey, wanted: &HashSet<SessionKey>) -> Vec<(SessionKey, Session)> {
        let states = self.shard.connected_sessions(space).into_iter().filter_map(|found| {
            let state = self.shard.session_of(&found);
            let key = (found.user, found.client_id);
            wanted.contains(&key).then_some((key, state?))
        });
        states.collect()
    }

    fn list_sessions(&self, space: SpaceKey) -> WorkerSessions {
        let connected = self.shard.connected_sessions(space).into_iter().filter_map(|found| {
            let socket = &self.sockets[self.socket_of(found.conn)? as usize];
            Some(((found.user, found.client_id), socket.details.id))
        });
        WorkerSessions { connected: connected.collect(), recorded: self.shard.recorded_sessions_of(space) }
    }

    /// Closes a connection on behalf of an administrator. The socket ends as after every close.
    fn close_connection(&mut self, id: u64) -> bool {
        let Some((key, socket)) = self.sockets.iter().find(|(_, socket)| socket.details.id == id) else { return false };
        let (key, conn) = (key as u32, socket.phase.conn());
        match conn {
            Some(conn) => {
                let why = "an administrator closed the connection";
                self.shard.close(conn, Error::new(condition::CONNECTION_FORCED, why));
            }
            None => self.drop_socket(key),
        }
        self.again = true;
        true
    }

    fn set_trace(&mut self, id: u64, on: bool) {
        let Some((key, socket)) = self.sockets.iter_mut().find(|(_, socket)| socket.details.id == id) else { return };
        let waiting = socket.phase.conn().and_then(|conn| self.shard.output(conn)).map_or(0, |output| output.len());
        self.sockets[key].details.traced = on.then_some(waiting);
    }

    /// Closes every connection. Those still in their handshake are dropped; the others may answer
    /// until the time-out of a closing connection.
    fn stop(&mut self, end: Time) {
        self.stop_at = Some(end);
        let error = Error::new(condition::CONNECTION_FORCED, "the node is shutting down; connect again later");
        self.shard.close_all(&error);
        let keys: Vec<u32> = self.sockets.iter().map(|(key, _)| key as u32).collect();
        for key in keys {
            match self.sockets[key as usize].phase {
                Phase::Handshaking(_) => self.drop_socket(key),
                // The output contains our close: once it is written, our direction is shut down.
                Phase::Live(conn) => self.sockets[key as usize].phase = Phase::Finishing(conn, end),
                Phase::Finishing(..) | Phase::HalfClosed(_) => {}
            }
        }
        self.again = true;
    }
}
