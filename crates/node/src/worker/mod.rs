//! One worker: a thread with its own readiness loop, sockets, timers, and a shard.
//!
//! A turn: wait for events; take commands of other threads; read ready sockets by turns and pass
//! the bytes to the shard; take batches of other workers; fire timers; end the shard's turn; write
//! each connection that has output with one system call; send batches. Latency under light load is
//! one turn, and under heavy load the batches grow.
//!
//! `crate::read_scheduler` chooses the next socket to read, `reading` passes bytes to the shard, `writing`
//! writes output and closes, `mail` runs commands. This file has the order of the steps.

mod mail;
mod mqtt_trace;
mod reading;
#[cfg(test)]
mod tests;
mod writing;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use enmasse_amqp::time::Time;
use enmasse_journal::log::Lane;
use enmasse_router::core::{Damaged, Operated};
use enmasse_router::shard::{self, CommandBatch, ConnId, ConnectionWork, Load, Shard};
use mio::{Events, Poll, Token};
use slab::Slab;

use crate::clock::Clock;
use crate::command::Command;
use crate::events::{EventKind, NodeEvent};
use crate::mailbox::Mailbox;
use crate::mesh::Mesh;
use crate::read_scheduler::{READ_BYTES, ReadScheduler};
use crate::shared::Shared;
use crate::socket::{AcceptedSocket, Phase, Socket};
use crate::stats::WorkerStats;
use crate::timers::{Tick, Wheel};

const WAKE: Token = Token(usize::MAX);
/// Events taken from the system at once; more ready sockets than this wait for the next turn.
const EVENTS: usize = 1024;
/// New connections added in one turn, at about 10 us each without TLS and SASL. Others wait; the
/// connection limit bounds them.
const TURN_ACCEPTED_SOCKETS: usize = 32;
/// How long a connection may be idle before its buffers are released.
const SWEEP_MICROS: u64 = 1_000_000;
/// How long to sleep at most while another worker's ring is full.
const FULL_RING_MICROS: u64 = 500;
/// Bytes pending for workers with full rings above which sockets are not read. One turn may exceed
/// it by its input and its batches. Batches are always received, because otherwise two workers that
/// wait for each other would deadlock.
const GATHERED_BYTES: usize = 8 * 1024 * 1024;
/// The interval over which the thread's load is measured.
const LOAD_MICROS: u64 = 500_000;

/// The parts that must exist before a worker is created, because other threads use them.
pub(crate) struct WorkerSlot {
    poll: Poll,
    pub(crate) mailbox: Arc<Mailbox<Command>>,
}

impl WorkerSlot {
    /// A poll and the mailbox that wakes it.
    pub(crate) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let mailbox = Arc::new(Mailbox::new(poll.registry(), WAKE)?);
        Ok(Self { poll, mailbox })
    }
}

/// Buffers of the worker, used by the current connection.
struct Scratch {
    /// a partial frame and the bytes read after it
    read: Box<[u8]>,
    /// bytes of AMQP that a transport has decoded
    inner: Vec<u8>,
    /// between two layers of a transport
    stage: Vec<u8>,
}

/// One worker.
pub(crate) struct Worker {
    index: u16,
    poll: Poll,
    mailbox: Arc<Mailbox<Command>>,
    mesh: Mesh<CommandBatch>,
    shared: Arc<Shared>,
    common: Arc<shard::Shared>,
    shard: Shard,
    sockets: Slab<Socket>,
    /// socket of each connection of the shard, by `ConnId::key`
    socket_of: Vec<u32>,
    /// connections that are not admitted yet
    accepted_sockets: VecDeque<AcceptedSocket>,
    /// sockets to read
    read_scheduler: ReadScheduler,
    /// sockets to write, in addition to those that the shard names
    unwritten: Vec<u32>,
    /// sockets that may hold buffers
    swept: Vec<u32>,
    next_sweep: Time,
    wheel: Wheel,
    due: Vec<(u32, Tick)>,
    connection_work_items: Vec<ConnectionWork>,
    commands: Vec<Command>,
    scratch: Scratch,
    meter: Meter,
    stats: WorkerStats,
    /// shutdown: the time by which the last connection has to end
    stop_at: Option<Time>,
    /// reading has stopped, because the node is about to stop
    draining: bool,
    /// batches received from other workers
    received: u64,
    /// a batch waits for room in a ring
    held_back: bool,
    /// more than `GATHERED_BYTES` wait for room in rings, so sockets are not read
    rings_full: bool,
    /// callers waiting for operations on stored messages, by id
    operations: HashMap<u32, Sender<Operated>>,
    /// work after the end of the shard's turn requires another turn
    again: bool,
}

impl Worker {
    /// A worker with the parts of its slot.
    pub(crate) fn new(
        index: u16,
        worker_slot: WorkerSlot,
        mesh: Mesh<CommandBatch>,
        shared: Arc<Shared>,
        common: Arc<shard::Shared>,
        shard: Shard,
    ) -> Self {
        let now = shared.clock.now();
        let frame = shared.limits.max_frame_size_bytes as usize;
        Self {
            index,
            poll: worker_slot.poll,
            mailbox: worker_slot.mailbox,
            mesh,
            shared,
            common,
            shard,
            sockets: Slab::new(),
            socket_of: Vec::new(),
            accepted_sockets: VecDeque::new(),
            read_scheduler: ReadScheduler::new(),
            unwritten: Vec::new(),
            swept: Vec::new(),
            next_sweep: now,
            wheel: Wheel::new(now),
            due: Vec::new(),
            connection_work_items: Vec::new(),
            commands: Vec::new(),
            scratch: Scratch { read: vec![0; READ_BYTES + frame].into(), inner: Vec::new(), stage: Vec::new() },
            meter: Meter::new(now),
            stats: WorkerStats::default(),
            stop_at: None,
            draining: false,
            received: 0,
            held_back: false,
            rings_full: false,
            operations: HashMap::new(),
            again: false,
        }
    }

    /// Runs turns until the node stops.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        while !self.is_done() {
            self.wait(&mut events);
            self.turn();
        }
        self.mailbox.close();
    }

    fn is_done(&self) -> bool {
        self.stop_at.is_some_and(|end| self.sockets.is_empty() || self.shared.clock.now() >= end)
    }

    /// Sleeps until there is something to do, and notes which sockets are ready.
    fn wait(&mut self, events: &mut Events) {
        self.mailbox.thread_waker().park();
        let now = self.shared.clock.now();
        let timeout = self.timeout(now);
        self.stats.sleeps += u64::from(timeout != Some(Duration::ZERO));
        self.meter.sleeps(now);
        // Once a poll exists, only an interrupted call can fail; then there are no events.
        if self.poll.poll(events, timeout).is_err() {
            events.clear();
        }
        self.mailbox.thread_waker().unpark();
        for event in events.iter().filter(|event| event.token() != WAKE) {
            let key = event.token().0;
            let Some(socket) = self.sockets.get_mut(key) else { continue };
            socket.hung_up |= event.is_read_closed() || event.is_error();
            socket.readable |= event.is_readable() || socket.hung_up;
            if event.is_writable() && !socket.writable {
                socket.writable = true;
                self.unwritten.push(key as u32);
            }
            if socket.readable && !socket.queued {
                socket.queued = true;
                self.read_scheduler.push(socket.group, key as u32);
            }
        }
    }

    /// How long to sleep: not at all while there is work, else until the next timer.
    fn timeout(&mut self, now: Time) -> Option<Duration> {
        let busy = self.again
            || (!self.read_scheduler.is_empty() && !self.rings_full && !self.draining)
            || (!self.accepted_sockets.is_empty() && !self.draining)
            || !self.unwritten.is_empty()
            || self.mailbox.is_filled()
            || self.shard.has_departures()
            || self.mesh.has_incoming();
        self.again = false;
        if busy {
            return Some(Duration::ZERO);
        }
        let sweep = (!self.swept.is_empty()).then_some(self.next_sweep);
        let retry = self.held_back.then_some(Time::from_micros(now.as_micros() + FULL_RING_MICROS));
        let stored =
            self.shard.next_time_of_day().map(|at_ms| now.plus_millis(at_ms.saturating_sub(Clock::time_of_day_ms())));
        let share = self.shard.next_share();
        let times = [self.wheel.next_due(), sweep, retry, self.meter.next(), self.stop_at, stored, share];
        let next = times.into_iter().flatten().min()?;
        // Rounded up, because rounding down would spin for the last microseconds.
        Some(Duration::from_micros(next.micros_since(now) + 1))
    }

    /// One turn.
    fn turn(&mut self) {
        let now = self.shared.clock.now();
        self.stats.turns += 1;
        self.stats.busy_permille = self.meter.wakes(now, &self.common.loads[usize::from(self.index)]);
        self.shard.set_time_of_day(Clock::time_of_day_ms());
        self.run_commands(now);
        if !self.draining {
            self.take_accepted_sockets(now);
        }
        if !self.rings_full && !self.draining {
            self.read_sockets(now);
        }
        let (shard, received) = (&mut self.shard, &mut self.received);
        self.mesh.receive(|batch| {
            *received += 1;
            shard.receive(&batch);
        });
        self.fire_timers(now);
        self.shard.end_turn(now);
        self.serve_requests();
        self.serve_journal();
        self.write_sockets(now);
        self.send_batches();
        self.sweep(now);
    }

    /// Sends the batches gathered for other workers. A batch that finds a full ring waits.
    fn send_batches(&mut self) {
        self.held_back = false;
        for to in (0..self.shared.mailboxes.len() as u16).filter(|&to| to != self.index) {
            if !self.mesh.has_room(to) {
                self.held_back = true;
                continue;
            }
            let Some(batch) = self.shard.take_batch(to) else { continue };
            let bytes = batch.bytes();
            if self.mesh.send(to, batch, bytes).is_ok() {
                self.stats.batches += 1;
                self.shared.mailboxes[usize::from(to)].thread_waker().wake();
            }
        }
        self.rings_full = self.held_back && self.shard.gathered_bytes() > GATHERED_BYTES;
    }

    /// Passes the batches and read requests of stored addresses to the journal.
    fn serve_journal(&mut self) {
        for (id, operated) in self.shard.take_operated() {
            if let Some(answer) = self.operations.remove(&id) {
                // The caller may have timed out; it can ask again.
                let _ = answer.send(operated);
            }
        }
        for ((space, uid), Damaged { name, message, partition, count, .. }) in self.shard.take_damaged() {
            if let Some(journal) = &self.shared.journal {
                journal.note_damaged(uid, count);
            }
            let what = EventKind::MessageDamaged { address: name.to_string(), space, message, partition, count };
            self.shared.events.push(NodeEvent::new(what));
        }
        let Some(journal) = &self.shared.journal else { return };
        while let Some(batch) = self.shard.take_journal() {
            journal.append(Lane { worker: self.index, part: batch.part() }, batch);
        }
        let wanted = self.shard.take_wanted();
        if !wanted.is_empty() {
            journal.read(self.index, wanted);
        }
    }

    fn fire_timers(&mut self, now: Time) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.turn(now, &mut due);
        for (key, tick) in due.drain(..) {
            let Some(socket) = self.sockets.get_mut(key as usize) else { continue };
            if socket.timer != tick {
                continue;
            }
            socket.timer = Tick::NEVER;
            if self.deadline(key).is_some_and(|deadline| deadline <= now) {
                self.time_out(now, key);
            }
            self.arm(key);
        }
        self.due = due;
    }

    fn time_out(&mut self, now: Time, key: u32) {
        let socket = &mut self.sockets[key as usize];
        if socket.details.claim.due().is_some_and(|due| due <= now) {
            let silent = !(socket.warm || socket.readable || socket.queued);
            if socket.details.claim.must_close(now, silent) {
                self.stats.handshakes_timed_out += 1;
                return self.drop_socket(key);
            }
        }
        if self.phase_ends(key).is_none_or(|end| end > now) {
            return;
        }
        match self.sockets[key as usize].phase {
            Phase::Live(conn) => self.shard.timeout(now, conn),
            Phase::Handshaking(_) => {
                self.stats.handshakes_timed_out += 1;
                self.drop_socket(key);
            }
            Phase::Finishing(..) | Phase::HalfClosed(_) => self.drop_socket(key),
        }
    }

    /// The next deadline of a socket.
    fn deadline(&self, key: u32) -> Option<Time> {
        let claim_check = self.sockets.get(key as usize)?.details.claim.due();
        [claim_check, self.phase_ends(key)].into_iter().flatten().min()
    }

    fn phase_ends(&self, key: u32) -> Option<Time> {
        match self.sockets.get(key as usize)?.phase {
            Phase::Live(conn) => self.shard.next_timeout(conn),
            Phase::Handshaking(end) | Phase::Finishing(_, end) | Phase::HalfClosed(end) => Some(end),
        }
    }

    /// Arms the timer for the socket's next deadline.
    fn arm(&mut self, key: u32) {
        let Some(deadline) = self.deadline(key) else { return };
        let socket = &mut self.sockets[key as usize];
        socket.timer = self.wheel.arm(key, socket.timer, deadline);
    }

    /// The socket of a connection that the shard still knows.
    fn socket_of(&self, conn: ConnId) -> Option<u32> {
        let key = *self.socket_of.get(conn.key())?;
        let socket = self.sockets.get(key as usize)?;
        (socket.phase.conn() == Some(conn)).then_some(key)
    }

    /// Marks a socket that may hold buffers.
    fn warm(&mut self, key: u32) {
        let socket = &mut self.sockets[key as usize];
        socket.warm = true;
        if !socket.swept {
            socket.swept = true;
            self.swept.push(key);
        }
    }

    /// Releases the buffers of connections that were idle for a while.
    fn sweep(&mut self, now: Time) {
        if now < self.next_sweep || self.swept.is_empty() {
            return;
        }
        self.next_sweep = Time::from_micros(now.as_micros() + SWEEP_MICROS);
        let (sockets, shard) = (&mut self.sockets, &mut self.shard);
        self.swept.retain(|&key| {
            let Some(socket) = sockets.get_mut(key as usize) else { return false };
            if std::mem::take(&mut socket.warm) {
                return true;
            }
            socket.swept = false;
            socket.tail.shrink_to_fit();
            if let Some(wire) = socket.wire() {
                wire.shrink_to_fit();
            }
            if let Some(output) = socket.phase.conn().and_then(|conn| shard.output(conn)) {
                output.shrink_to_fit();
            }
            false
        });
    }
}

/// How busy the thread is.
struct Meter {
    since: Time,
    woke_at: Time,
    busy_micros: u64,
    permille: u32,
}

impl Meter {
    fn new(now: Time) -> Self {
        Self { since: now, woke_at: now, busy_micros: 0, permille: 0 }
    }

    fn sleeps(&mut self, now: Time) {
        self.busy_micros += now.micros_since(self.woke_at);
    }

    /// Publishes the load once per interval.
    fn wakes(&mut self, now: Time, load: &Load) -> u32 {
        self.woke_at = now;
        let span = now.micros_since(self.since);
        if span >= LOAD_MICROS {
            self.permille = (self.busy_micros * 1000 / span) as u32;
            load.set_busy_permille(self.permille);
            (self.since, self.busy_micros) = (now, 0);
        }
        self.permille
    }

    /// When to wake so that a past load does not stay published.
    fn next(&self) -> Option<Time> {
        (self.permille > 0).then_some(Time::from_micros(self.since.as_micros() + LOAD_MICROS))
    }
}
