//! From a ready socket to the shard.
//!
//! A plain socket is read into the worker's scratch buffer, behind what was left of its last frame, and the shard is
//! fed from there: no copy, and nothing is kept but the part of a frame at the end. A wrapped one is read into
//! scratch too; what its transport makes of it goes the same way.

use enmasse_amqp::time::Time;
use enmasse_router::shard::ConnId;

use super::rounds::{VISIT_NANOS, cost_of_micros, cost_of_nanos};
use super::socket::Phase;
use super::{READ_BYTES, Worker};
use crate::events::Happening;
use crate::stream::Moved;
use crate::threads::cpu_micros;
use crate::transport::TransportError;

/// What reading may cost in one turn before what it led to is written, in bytes (`rounds`): what latency under heavy load
/// is made of.
const TURN_COST: u64 = 2 * 1024 * 1024;

impl Worker {
    /// Reads ready sockets by the turns of their spaces, each once, until the turn has its share. The rest, and
    /// those that have more, wait for the next turn.
    pub(super) fn read_sockets(&mut self, now: Time) {
        let mut spent = 0;
        self.rounds.begin_turn();
        while spent < TURN_COST
            && let Some((party, key)) = self.rounds.next()
        {
            if self.is_worth_reading(key) {
                let shakes_hands = matches!(self.sockets[key as usize].phase, Phase::Greeting(_));
                let before = self.stats.bytes_in;
                let began = shakes_hands.then(cpu_micros);
                let work = cost_of_nanos(self.read_socket(now, key));
                let bytes = self.stats.bytes_in - before;
                let cost = began.map_or(bytes + work, |began| cost_of_micros(cpu_micros() - began));
                self.rounds.spend(party, cost);
                spent += cost;
            }
            let again = self.is_worth_reading(key);
            if let Some(socket) = self.sockets.get_mut(key as usize) {
                socket.queued = again;
                if again {
                    self.rounds.push(socket.party, key);
                }
            }
        }
    }

    fn is_worth_reading(&self, key: u32) -> bool {
        let Some(socket) = self.sockets.get(key as usize) else { return false };
        if socket.over {
            return false;
        }
        if socket.paused {
            return socket.wanted;
        }
        let has_room = socket.tail.len() < self.shared.limits.max_frame_size_bytes as usize;
        socket.readable && ((socket.wanted && has_room) || matches!(socket.phase, Phase::Lingering(_)))
    }

    /// Reads a socket, or goes on with what was read before. Returns the work it led to, in nanoseconds.
    fn read_socket(&mut self, now: Time, key: u32) -> u64 {
        let socket = &mut self.sockets[key as usize];
        if socket.paused {
            return self.feed_tail(now, key);
        }
        let plain = socket.wrapping.is_none();
        let held = if plain { socket.tail.len() } else { 0 };
        // Where a tail of a whole frame waits, nothing is read: there is always room for a piece behind it.
        let room = &mut self.scratch.read[held..held + READ_BYTES];
        let count = match socket.stream.read(room) {
            Moved::Bytes(count) => count,
            Moved::Blocked => {
                socket.readable = socket.hung_up;
                return 0;
            }
            Moved::Over => {
                socket.over = true;
                self.unwritten.push(key);
                return 0;
            }
        };
        // Fewer bytes than there was room for: the socket is empty, and an event will tell when it no longer is.
        socket.readable = count == READ_BYTES || socket.hung_up;
        self.stats.reads += 1;
        self.stats.bytes_in += count as u64;
        self.warm(key);
        match self.sockets[key as usize].phase {
            Phase::Lingering(_) => 0,
            Phase::Live(conn) if plain => self.feed_plain(now, key, conn, held, count),
            Phase::Finishing(..) if plain => 0,
            _ => self.feed_wrapped(now, key, count),
        }
    }

    /// Feeds the shard from the scratch buffer: `held` bytes of the tail, then `count` that were read.
    fn feed_plain(&mut self, now: Time, key: u32, conn: ConnId, held: usize, count: usize) -> u64 {
        let socket = &mut self.sockets[key as usize];
        self.scratch.read[..held].copy_from_slice(&socket.tail);
        let bytes = &self.scratch.read[..held + count];
        let fed = self.shard.input_within(now, conn, bytes, VISIT_NANOS);
        socket.paused = fed.paused;
        socket.tail.clear();
        socket.tail.extend_from_slice(&bytes[fed.used..]);
        if socket.about.traced.is_some() {
            let frames = bytes[..fed.used].to_vec();
            self.trace(key, "in", &frames);
        }
        fed.work_nanos
    }

    /// Lets the transport open what was read, then feeds the shard with what came out.
    fn feed_wrapped(&mut self, now: Time, key: u32, count: usize) -> u64 {
        let socket = &mut self.sockets[key as usize];
        let Some(wrapping) = &mut socket.wrapping else { return 0 };
        let mut inner = std::mem::take(&mut self.scratch.inner);
        inner.append(&mut socket.tail);
        let opened = wrapping.receive(&self.scratch.read[..count], &mut self.scratch.stage, &mut inner);
        if !wrapping.wire.is_empty() {
            self.unwritten.push(key);
        }
        socket.over |= wrapping.is_ended();
        if socket.over {
            self.unwritten.push(key);
        }
        if opened.is_ok() {
            self.welcome(now, key);
        }
        let mut work_nanos = 0;
        if let Phase::Live(conn) = self.sockets[key as usize].phase {
            // What came before the end of the stream counts: it is closed at the end of this turn.
            let budget = if self.sockets[key as usize].over { u64::MAX } else { VISIT_NANOS };
            let fed = self.shard.input_within(now, conn, &inner, budget);
            work_nanos = fed.work_nanos;
            self.trace(key, "in", &inner[..fed.used]);
            let socket = &mut self.sockets[key as usize];
            socket.paused = fed.paused;
            socket.tail.extend_from_slice(&inner[fed.used..]);
        }
        inner.clear();
        inner.shrink_to(READ_BYTES);
        self.scratch.inner = inner;
        if let Err(error) = opened {
            self.transport_failed(now, key, &error);
        }
        work_nanos
    }

    /// Tells the shard about a connection once its handshakes are done.
    pub(super) fn welcome(&mut self, now: Time, key: u32) {
        let socket = &mut self.sockets[key as usize];
        if !matches!(socket.phase, Phase::Greeting(_)) {
            return;
        }
        let Some(introduction) = socket.introduction() else { return };
        let conn = self.shard.connect(now, &socket.introduce(introduction));
        self.go_live(key, conn);
    }

    /// The shard has the connection under this id.
    pub(super) fn go_live(&mut self, key: u32, conn: ConnId) {
        self.sockets[key as usize].phase = Phase::Live(conn);
        if self.socket_of.len() <= conn.key() {
            self.socket_of.resize(conn.key() + 1, u32::MAX);
        }
        self.socket_of[conn.key()] = key;
        self.arm(key);
    }

    fn transport_failed(&mut self, now: Time, key: u32, error: &TransportError) {
        if matches!(self.sockets[key as usize].phase, Phase::Greeting(_)) {
            self.stats.handshakes_failed += 1;
            self.tell(key, Happening::HandshakeFailed { reason: error.to_string() });
        }
        self.forget(key);
        self.linger(now, key);
        self.unwritten.push(key);
    }

    /// Feeds what was kept while the shard took nothing: it does again.
    pub(super) fn feed_again(&mut self, now: Time, key: u32) {
        let party = self.sockets[key as usize].party;
        let work = self.feed_tail(now, key);
        self.rounds.charge(party, cost_of_nanos(work));
        self.queue_if_readable(key);
        self.again = true;
    }

    /// Feeds the shard from the tail, as far as one visit goes. Returns the work it led to, in nanoseconds.
    fn feed_tail(&mut self, now: Time, key: u32) -> u64 {
        let socket = &mut self.sockets[key as usize];
        let Phase::Live(conn) = socket.phase else {
            socket.paused = false;
            return 0;
        };
        // Also without bytes: what the shard was told may have an event of its own behind it.
        let mut tail = std::mem::take(&mut socket.tail);
        let fed = self.shard.input_within(now, conn, &tail, VISIT_NANOS);
        self.trace(key, "in", &tail[..fed.used]);
        tail.drain(..fed.used);
        let socket = &mut self.sockets[key as usize];
        (socket.tail, socket.paused) = (tail, fed.paused);
        fed.work_nanos
    }

    /// Reads a socket next turn if it has anything and nothing speaks against it.
    pub(super) fn queue_if_readable(&mut self, key: u32) {
        let worth = self.is_worth_reading(key);
        let socket = &mut self.sockets[key as usize];
        if worth && !socket.queued {
            socket.queued = true;
            self.rounds.push(socket.party, key);
        }
    }
}
