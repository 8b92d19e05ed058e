//! From the shard to the socket, and how a connection ends.
//!
//! A plain connection's output is written directly from the machine. Output of a wrapped one is
//! encoded piece by piece, as fast as the socket accepts it, so that the shard still counts the
//! rest as pending output.
//!
//! A connection ends in steps: its last output is written, the transport closes, our direction is
//! shut down, and input is discarded until the peer has ended its own. Closing with unread input
//! would reset the connection, and the peer might not receive the error.

use enmasse_amqp::time::Time;
use enmasse_router::shard::{ConnId, ConnectionWork, OUTPUT_LOW_BYTES, Protocol};

use super::{Worker, mqtt_trace};
use crate::events::{EventKind, NodeEvent};
use crate::read_scheduler::cost_of_nanos;
use crate::socket::{Phase, Socket};
use crate::stream::Moved;

/// The most output that a transport encodes at once.
const SEAL_BYTES: usize = 64 * 1024;
/// An empty buffer larger than this is released.
const KEPT_BYTES: usize = 1024 * 1024;

impl Worker {
    /// Writes every connection that the shard names, and every one whose socket is writable again.
    pub(super) fn write_sockets(&mut self, now: Time) {
        let mut connection_work_items = std::mem::take(&mut self.connection_work_items);
        while let Some(connection_work) = self.shard.dirty() {
            connection_work_items.push(connection_work);
        }
        for connection_work in connection_work_items.drain(..) {
            self.service_connection(now, connection_work);
        }
        self.connection_work_items = connection_work_items;
        let mut unwritten = std::mem::take(&mut self.unwritten);
        for key in unwritten.drain(..) {
            if self.sockets.contains(key as usize) {
                self.write_socket(now, key);
            }
        }
        // Keeps the capacity of the list for the next turn.
        unwritten.append(&mut self.unwritten);
        self.unwritten = unwritten;
    }

    fn service_connection(&mut self, now: Time, connection_work: ConnectionWork) {
        let Some(key) = self.socket_of(connection_work.conn) else { return };
        let work = self.shard.take_work(connection_work.conn);
        let socket = &mut self.sockets[key as usize];
        if work > 0 {
            self.read_scheduler.charge(socket.group, cost_of_nanos(work));
        }
        if connection_work.wants_read && !socket.wanted {
            socket.wanted = true;
            self.ingest_again(now, key);
        }
        let socket = &mut self.sockets[key as usize];
        socket.wanted = connection_work.wants_read;
        if connection_work.finished
            && let Phase::Live(conn) = socket.phase
        {
            socket.phase = Phase::Finishing(conn, now.plus_millis(self.shared.limits.linger_ms));
        }
        self.write_socket(now, key);
    }

    /// Writes the output, and handles the consequences.
    fn write_socket(&mut self, now: Time, key: u32) {
        if let Some(conn) = self.sockets[key as usize].phase.conn() {
            self.write_output(now, key, conn);
        }
        let socket = &mut self.sockets[key as usize];
        if matches!(socket.phase, Phase::Handshaking(_) | Phase::HalfClosed(_)) {
            let open = write_wire(socket, &mut self.stats.bytes_out, &mut self.stats.writes);
            socket.stream_ended |= !open;
        }
        if socket.stream_ended {
            return self.drop_socket(key);
        }
        if matches!(socket.phase, Phase::HalfClosed(_)) && socket.wire().is_none_or(|wire| wire.is_empty()) {
            socket.stream.finish();
        }
        self.arm(key);
    }

    fn write_output(&mut self, now: Time, key: u32, conn: ConnId) {
        self.trace_output(key, conn);
        let Some(output) = self.shard.output(conn) else { return };
        let socket = &mut self.sockets[key as usize];
        let before = output.len();
        let stats = &mut self.stats;
        let open = if socket.wrapping.is_none() {
            write_front(socket, output, &mut stats.bytes_out, &mut stats.writes)
        } else {
            write_sealed(socket, output, &mut self.scratch.stage, &mut stats.bytes_out, &mut stats.writes)
        };
        let left = output.len();
        if output.is_empty() && output.capacity() > KEPT_BYTES {
            *output = Vec::new();
        }
        if let Some(traced) = &mut socket.details.traced {
            *traced -= before - left;
        }
        socket.stream_ended |= !open;
        let finished = matches!(socket.phase, Phase::Finishing(..));
        let was_above_low_water =
            std::mem::replace(&mut socket.above_low_water, left >= OUTPUT_LOW_BYTES) || before >= OUTPUT_LOW_BYTES;
        if before > 0 {
            self.warm(key);
        }
        if left > self.shared.limits.output_hard_bytes {
            self.stats.cut_off += 1;
            self.emit_event(key, EventKind::CutOff { waiting_bytes: left });
            self.sockets[key as usize].stream_ended = true;
        } else if left == 0 && finished && open {
            self.finish(now, key);
        } else if was_above_low_water && left < OUTPUT_LOW_BYTES {
            self.shard.written(conn);
            self.again = true;
        }
    }

    /// After the last output: closes the transport and removes the connection from the shard.
    fn finish(&mut self, now: Time, key: u32) {
        self.forget(key);
        if let Some(wrapping) = &mut self.sockets[key as usize].wrapping {
            wrapping.finish();
        }
        self.half_close(now, key);
    }

    /// Removes the connection from the shard; its socket stays.
    pub(super) fn forget(&mut self, key: u32) {
        if let Some(conn) = self.sockets[key as usize].phase.conn() {
            self.shard.closed(conn);
            // Emits the shard's events while its socket is still known.
            self.serve_requests();
            self.again = true;
        }
    }

    /// Lets the peer read our last bytes. Its further input is discarded.
    pub(super) fn half_close(&mut self, now: Time, key: u32) {
        let socket = &mut self.sockets[key as usize];
        socket.phase = Phase::HalfClosed(now.plus_millis(self.shared.limits.linger_ms));
        (socket.tail, socket.paused) = (Vec::new(), false);
        self.queue_if_readable(key);
    }

    /// Closes the socket at once.
    pub(super) fn drop_socket(&mut self, key: u32) {
        self.forget(key);
        let mut socket = self.sockets.remove(key as usize);
        self.read_scheduler.leave(socket.group);
        // Closing the descriptor would end the watch too; deregistering first avoids stale events
        // in this turn's list.
        let _ = socket.stream.deregister(self.poll.registry());
        self.stats.closed += 1;
    }

    /// Emits an event of a connection.
    pub(super) fn emit_event(&self, key: u32, what: EventKind) {
        let details = &self.sockets[key as usize].details;
        let peer = details.origin.address().map(|peer| peer.to_string());
        self.shared.events.push(NodeEvent { connection: Some(details.id), peer, ..NodeEvent::new(what) });
    }

    /// Traces frames, if tracing is on for the connection.
    pub(super) fn trace(&self, key: u32, direction: &'static str, bytes: &[u8]) {
        let details = &self.sockets[key as usize].details;
        if details.traced.is_some() && !bytes.is_empty() {
            let frames = match details.protocol {
                Protocol::Amqp => enmasse_amqp::codec::describe(bytes),
                Protocol::Mqtt => mqtt_trace::describe(bytes),
            };
            self.emit_event(key, EventKind::Trace { direction, frames });
        }
    }

    /// Traces the output since the last call, which is always whole frames.
    fn trace_output(&mut self, key: u32, conn: ConnId) {
        let Some(traced) = self.sockets[key as usize].details.traced else { return };
        let Some(output) = self.shard.output(conn) else { return };
        let length = output.len();
        let news = output[traced.min(length)..].to_vec();
        self.trace(key, "out", &news);
        self.sockets[key as usize].details.traced = Some(length);
    }
}

/// Writes from the front of `bytes` with one system call; `false` if the stream has ended.
fn write_front(socket: &mut Socket, bytes: &mut Vec<u8>, bytes_out: &mut u64, writes: &mut u64) -> bool {
    if bytes.is_empty() || !socket.writable {
        return true;
    }
    match socket.stream.write(bytes) {
        Moved::Bytes(count) => {
            *bytes_out += count as u64;
            *writes += 1;
            if count == bytes.len() {
                bytes.clear();
            } else {
                // The socket is full: an event follows when it is writable.
                socket.writable = false;
                bytes.drain(..count);
            }
            true
        }
        Moved::Blocked => {
            socket.writable = false;
            true
        }
        Moved::Ended => false,
    }
}

/// Writes the output of the transport.
fn write_wire(socket: &mut Socket, bytes_out: &mut u64, writes: &mut u64) -> bool {
    let Some(wire) = socket.wire() else { return true };
    let mut wire = std::mem::take(wire);
    let open = write_front(socket, &mut wire, bytes_out, writes);
    if let Some(place) = socket.wire() {
        *place = wire;
    }
    open
}

/// Encodes output piece by piece and writes it, as long as the socket accepts it.
fn write_sealed(
    socket: &mut Socket,
    output: &mut Vec<u8>,
    stage: &mut Vec<u8>,
    bytes_out: &mut u64,
    writes: &mut u64,
) -> bool {
    let mut sealed = 0;
    let open = loop {
        if !write_wire(socket, bytes_out, writes) {
            break false;
        }
        let Some(wrapping) = &mut socket.wrapping else { break true };
        if !wrapping.wire.is_empty() || sealed == output.len() {
            break true;
        }
        let piece = &output[sealed..output.len().min(sealed + SEAL_BYTES)];
        sealed += piece.len();
        wrapping.send(piece, stage);
    };
    output.drain(..sealed);
    open
}
