//! From a ready socket to the shard.
//!
//! A plain socket is read into the worker's scratch buffer, behind the rest of its last frame, and
//! passed to the shard from there: no copy, and only a partial frame is kept. A wrapped one is read
//! into scratch too, and its decoded bytes go the same way.

use enmasse_amqp::time::Time;
use enmasse_router::shard::ConnId;

use super::Worker;
use crate::events::EventKind;
use crate::origin::Origin;
use crate::read_scheduler::{READ_BYTES, VISIT_NANOS, cost_of_micros, cost_of_nanos};
use crate::socket::Phase;
use crate::stream::Moved;
use crate::threads::cpu_micros;
use crate::transport::TransportError;

/// The read budget of one turn, in bytes (`read_scheduler`), which bounds latency under heavy load.
const TURN_COST: u64 = 2 * 1024 * 1024;

impl Worker {
    /// Reads each ready socket once, in the order of the scheduler, until the read budget of the
    /// turn is used up. Remaining sockets, and those with more data, wait for the next turn.
    pub(super) fn read_sockets(&mut self, now: Time) {
        let mut spent = 0;
        self.read_scheduler.begin_turn();
        while spent < TURN_COST
            && let Some((group, key)) = self.read_scheduler.next()
        {
            if self.is_worth_reading(key) {
                let is_handshaking = matches!(self.sockets[key as usize].phase, Phase::Handshaking(_));
                let before = self.stats.bytes_in;
                let began = is_handshaking.then(cpu_micros);
                let work = cost_of_nanos(self.read_socket(now, key));
                let bytes = self.stats.bytes_in - before;
                let cost = began.map_or(bytes + work, |began| cost_of_micros(cpu_micros() - began));
                self.read_scheduler.spend(group, cost);
                spent += cost;
            }
            let again = self.is_worth_reading(key);
            if let Some(socket) = self.sockets.get_mut(key as usize) {
                socket.queued = again;
                if again {
                    self.read_scheduler.push(socket.group, key);
                }
            }
        }
    }

    fn is_worth_reading(&self, key: u32) -> bool {
        let Some(socket) = self.sockets.get(key as usize) else { return false };
        if socket.stream_ended {
            return false;
        }
        if socket.paused {
            return socket.wanted;
        }
        let has_room = socket.tail.len() < self.shared.limits.max_frame_size_bytes as usize;
        socket.readable && ((socket.wanted && has_room) || matches!(socket.phase, Phase::HalfClosed(_)))
    }

    /// Reads a socket, or continues with bytes read before. Returns the work it led to, in
    /// nanoseconds.
    fn read_socket(&mut self, now: Time, key: u32) -> u64 {
        let socket = &mut self.sockets[key as usize];
        if socket.paused {
            return self.ingest_tail(now, key);
        }
        let plain = socket.wrapping.is_none();
        let held = if plain { socket.tail.len() } else { 0 };
        // A socket whose tail has the size of the largest frame is not read, so the buffer always
        // has room for a read after the tail.
        let room = &mut self.scratch.read[held..held + READ_BYTES];
        let count = match socket.stream.read(room) {
            Moved::Bytes(count) => count,
            Moved::Blocked => {
                socket.readable = socket.hung_up;
                return 0;
            }
            Moved::Ended => {
                socket.stream_ended = true;
                self.unwritten.push(key);
                return 0;
            }
        };
        // Fewer bytes than there was room for: the socket is empty, and an event follows when it is
        // not.
        socket.readable = count == READ_BYTES || socket.hung_up;
        self.stats.reads += 1;
        self.stats.bytes_in += count as u64;
        self.warm(key);
        let Some(count) = self.strip_proxy_header(now, key, count) else { return 0 };
        match self.sockets[key as usize].phase {
            Phase::HalfClosed(_) => 0,
            Phase::Live(conn) if plain => self.ingest_plain(now, key, conn, held, count),
            Phase::Finishing(..) if plain => 0,
            _ => self.ingest_wrapped(now, key, count),
        }
    }

    /// Takes the header of a proxy off the bytes that were read, and returns how many bytes of its
    /// client follow. `None`: there are none, or the connection is refused. From here on the
    /// connection is the client's for every bound, listing and event.
    fn strip_proxy_header(&mut self, now: Time, key: u32, count: usize) -> Option<usize> {
        let details = &mut self.sockets[key as usize].details;
        let Some(header) = &mut details.proxy_header else { return Some(count) };
        let taken = match header.receive(&self.scratch.read[..count]) {
            Ok(_) if !header.is_complete() => return None,
            Ok(taken) => taken,
            Err(error) => {
                details.proxy_header = None;
                self.transport_failed(now, key, &error.into());
                return None;
            }
        };
        let client = header.client().map(Origin::Tcp);
        details.proxy_header = None;
        details.origin = client.unwrap_or(details.origin);
        if !details.claim.move_to(details.origin.host()) {
            self.emit_event(key, EventKind::crowded());
            self.half_close(now, key);
            self.unwritten.push(key);
            return None;
        }
        self.register_connection(now, key);
        self.scratch.read.copy_within(taken..count, 0);
        (taken < count).then_some(count - taken)
    }

    /// Feeds the shard from the scratch buffer: `held` bytes of the tail, then `count` that were
    /// read.
    fn ingest_plain(&mut self, now: Time, key: u32, conn: ConnId, held: usize, count: usize) -> u64 {
        let socket = &mut self.sockets[key as usize];
        self.scratch.read[..held].copy_from_slice(&socket.tail);
        let bytes = &self.scratch.read[..held + count];
        let ingested = self.shard.input_within(now, conn, bytes, VISIT_NANOS);
        socket.paused = ingested.paused;
        socket.tail.clear();
        socket.tail.extend_from_slice(&bytes[ingested.used..]);
        if socket.details.traced.is_some() {
            let frames = bytes[..ingested.used].to_vec();
            self.trace(key, "in", &frames);
        }
        ingested.work_nanos
    }

    /// Lets the transport decode the bytes, then passes the result to the shard.
    fn ingest_wrapped(&mut self, now: Time, key: u32, count: usize) -> u64 {
        let socket = &mut self.sockets[key as usize];
        let Some(wrapping) = &mut socket.wrapping else { return 0 };
        let mut inner = std::mem::take(&mut self.scratch.inner);
        inner.append(&mut socket.tail);
        let opened = wrapping.receive(&self.scratch.read[..count], &mut self.scratch.stage, &mut inner);
        if !wrapping.wire.is_empty() {
            self.unwritten.push(key);
        }
        socket.stream_ended |= wrapping.is_ended();
        if socket.stream_ended {
            self.unwritten.push(key);
        }
        if opened.is_ok() {
            self.register_connection(now, key);
        }
        let mut work_nanos = 0;
        if let Phase::Live(conn) = self.sockets[key as usize].phase {
            // Bytes before the end of the stream are all processed, because the socket is closed at
            // the end of this turn.
            let budget = if self.sockets[key as usize].stream_ended { u64::MAX } else { VISIT_NANOS };
            let ingested = self.shard.input_within(now, conn, &inner, budget);
            work_nanos = ingested.work_nanos;
            self.trace(key, "in", &inner[..ingested.used]);
            let socket = &mut self.sockets[key as usize];
            socket.paused = ingested.paused;
            socket.tail.extend_from_slice(&inner[ingested.used..]);
        }
        inner.clear();
        inner.shrink_to(READ_BYTES);
        self.scratch.inner = inner;
        if let Err(error) = opened {
            self.transport_failed(now, key, &error);
        }
        work_nanos
    }

    /// Registers a connection with the shard once its handshakes are done.
    pub(super) fn register_connection(&mut self, now: Time, key: u32) {
        let socket = &mut self.sockets[key as usize];
        if !matches!(socket.phase, Phase::Handshaking(_)) {
            return;
        }
        let Some(handshake_result) = socket.handshake_result() else { return };
        let conn = self.shard.connect(now, &socket.report_handshake(handshake_result));
        self.go_live(key, conn);
    }

    /// Records the id of the connection in the shard.
    pub(super) fn go_live(&mut self, key: u32, conn: ConnId) {
        self.sockets[key as usize].phase = Phase::Live(conn);
        if self.socket_of.len() <= conn.key() {
            self.socket_of.resize(conn.key() + 1, u32::MAX);
        }
        self.socket_of[conn.key()] = key;
        self.arm(key);
    }

    fn transport_failed(&mut self, now: Time, key: u32, error: &TransportError) {
        if matches!(self.sockets[key as usize].phase, Phase::Handshaking(_)) {
            self.stats.handshakes_failed += 1;
            self.emit_event(key, EventKind::HandshakeFailed { reason: error.to_string() });
        }
        self.forget(key);
        self.half_close(now, key);
        self.unwritten.push(key);
    }

    /// Passes kept bytes to the shard when it accepts input again.
    pub(super) fn ingest_again(&mut self, now: Time, key: u32) {
        let group = self.sockets[key as usize].group;
        let work = self.ingest_tail(now, key);
        self.read_scheduler.charge(group, cost_of_nanos(work));
        self.queue_if_readable(key);
        self.again = true;
    }

    /// Feeds the shard from the tail, within one visit. Returns the work it caused, in nanoseconds.
    fn ingest_tail(&mut self, now: Time, key: u32) -> u64 {
        let socket = &mut self.sockets[key as usize];
        let Phase::Live(conn) = socket.phase else {
            socket.paused = false;
            return 0;
        };
        // Called without bytes too: the shard may have a pending event.
        let mut tail = std::mem::take(&mut socket.tail);
        let ingested = self.shard.input_within(now, conn, &tail, VISIT_NANOS);
        self.trace(key, "in", &tail[..ingested.used]);
        tail.drain(..ingested.used);
        let socket = &mut self.sockets[key as usize];
        (socket.tail, socket.paused) = (tail, ingested.paused);
        ingested.work_nanos
    }

    /// Queues a socket for reading next turn, if it may have data and reading is allowed.
    pub(super) fn queue_if_readable(&mut self, key: u32) {
        let worth = self.is_worth_reading(key);
        let socket = &mut self.sockets[key as usize];
        if worth && !socket.queued {
            socket.queued = true;
            self.read_scheduler.push(socket.group, key);
        }
    }
}
