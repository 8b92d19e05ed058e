//! From a ready socket to the shard.
//!
//! A plain socket is read into the worker's scratch buffer, behind what was left of its last frame, and the shard is
//! fed from there: no copy, and nothing is kept but the part of a frame at the end. A wrapped one is read into
//! scratch too; what its transport makes of it goes the same way.

use enmasse_amqp::time::Time;
use enmasse_router::shard::ConnId;

use super::rounds::cost_of_micros;
use super::socket::Phase;
use super::{READ_BYTES, Worker};
use crate::events::Happening;
use crate::stream::Moved;
use crate::threads::cpu_micros;
use crate::transport::TransportError;

/// Bytes read in one turn before what they led to is written: what latency under heavy load is made of.
const TURN_BYTES: u64 = 2 * 1024 * 1024;

impl Worker {
    /// Reads ready sockets by the turns of their spaces, each once, until the turn has its share of bytes. The rest,
    /// and those that have more, wait for the next turn.
    pub(super) fn read_sockets(&mut self, now: Time) {
        let bytes_before = self.stats.bytes_in;
        self.rounds.begin_turn();
        while self.stats.bytes_in - bytes_before < TURN_BYTES
            && let Some((party, key)) = self.rounds.next()
        {
            if self.is_worth_reading(key) {
                let shakes_hands = matches!(self.sockets[key as usize].phase, Phase::Greeting(_));
                let before = self.stats.bytes_in;
                let began = shakes_hands.then(cpu_micros);
                self.read_socket(now, key);
                let bytes = self.stats.bytes_in - before;
                self.rounds.spend(party, began.map_or(bytes, |began| cost_of_micros(cpu_micros() - began)));
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
        let has_room = socket.tail.len() < self.shared.limits.max_frame_size_bytes as usize;
        socket.readable && !socket.over && ((socket.wanted && has_room) || matches!(socket.phase, Phase::Lingering(_)))
    }

    fn read_socket(&mut self, now: Time, key: u32) {
        let socket = &mut self.sockets[key as usize];
        let plain = socket.wrapping.is_none();
        let held = if plain { socket.tail.len() } else { 0 };
        // Where a tail of a whole frame waits, nothing is read: there is always room for a piece behind it.
        let room = &mut self.scratch.read[held..held + READ_BYTES];
        let count = match socket.stream.read(room) {
            Moved::Bytes(count) => count,
            Moved::Blocked => {
                socket.readable = socket.hung_up;
                return;
            }
            Moved::Over => {
                socket.over = true;
                self.unwritten.push(key);
                return;
            }
        };
        // Fewer bytes than there was room for: the socket is empty, and an event will tell when it no longer is.
        socket.readable = count == READ_BYTES || socket.hung_up;
        self.stats.reads += 1;
        self.stats.bytes_in += count as u64;
        self.warm(key);
        match self.sockets[key as usize].phase {
            Phase::Lingering(_) => {}
            Phase::Live(conn) if plain => self.feed_plain(now, key, conn, held, count),
            Phase::Finishing(..) if plain => {}
            _ => self.feed_wrapped(now, key, count),
        }
    }

    /// Feeds the shard from the scratch buffer: `held` bytes of the tail, then `count` that were read.
    fn feed_plain(&mut self, now: Time, key: u32, conn: ConnId, held: usize, count: usize) {
        let socket = &mut self.sockets[key as usize];
        self.scratch.read[..held].copy_from_slice(&socket.tail);
        let bytes = &self.scratch.read[..held + count];
        let used = self.shard.input(now, conn, bytes);
        socket.tail.clear();
        socket.tail.extend_from_slice(&bytes[used..]);
        if socket.about.traced.is_some() {
            let frames = bytes[..used].to_vec();
            self.trace(key, "in", &frames);
        }
    }

    /// Lets the transport open what was read, then feeds the shard with what came out.
    fn feed_wrapped(&mut self, now: Time, key: u32, count: usize) {
        let socket = &mut self.sockets[key as usize];
        let Some(wrapping) = &mut socket.wrapping else { return };
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
        if let Phase::Live(conn) = self.sockets[key as usize].phase {
            let used = self.shard.input(now, conn, &inner);
            self.trace(key, "in", &inner[..used]);
            self.sockets[key as usize].tail.extend_from_slice(&inner[used..]);
        }
        inner.clear();
        inner.shrink_to(READ_BYTES);
        self.scratch.inner = inner;
        if let Err(error) = opened {
            self.transport_failed(now, key, &error);
        }
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
        let socket = &mut self.sockets[key as usize];
        let Phase::Live(conn) = socket.phase else { return };
        // Also without bytes: what the shard was told may have an event of its own behind it.
        let mut tail = std::mem::take(&mut socket.tail);
        let used = self.shard.input(now, conn, &tail);
        self.trace(key, "in", &tail[..used]);
        tail.drain(..used);
        self.sockets[key as usize].tail = tail;
        self.queue_if_readable(key);
        self.again = true;
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
