//! From the shard to the socket, and how a connection ends.
//!
//! A plain connection's output is written as it lies in the machine. A wrapped one's is sealed piece by piece, only
//! as fast as the socket takes it, so that what waits is always seen by the shard as waiting output.
//!
//! A connection ends in steps: its last output goes out, the transport says goodbye, our direction is shut, and input
//! is thrown away until the peer has ended its own. Closing with input unread would reset the connection, and the
//! peer might never see why.

use enmasse_amqp::time::Time;
use enmasse_router::shard::{Attention, ConnId, OUTPUT_LOW_BYTES};

use super::Worker;
use super::rounds::cost_of_nanos;
use super::socket::{Phase, Socket};
use crate::events::{Happening, NodeEvent};
use crate::stream::Moved;

/// Output sealed at once into a transport.
const SEAL_BYTES: usize = 64 * 1024;
/// A buffer larger than this does not stay with its connection once it is empty.
const KEPT_BYTES: usize = 1024 * 1024;

impl Worker {
    /// Writes every connection that the shard names, and every one whose socket takes bytes again.
    pub(super) fn write_sockets(&mut self, now: Time) {
        let mut attentions = std::mem::take(&mut self.attentions);
        while let Some(attention) = self.shard.dirty() {
            attentions.push(attention);
        }
        for attention in attentions.drain(..) {
            self.attend(now, attention);
        }
        self.attentions = attentions;
        let mut unwritten = std::mem::take(&mut self.unwritten);
        for key in unwritten.drain(..) {
            if self.sockets.contains(key as usize) {
                self.write_socket(now, key);
            }
        }
        // The list keeps its room for the next turn.
        unwritten.append(&mut self.unwritten);
        self.unwritten = unwritten;
    }

    fn attend(&mut self, now: Time, attention: Attention) {
        let Some(key) = self.socket_of(attention.conn) else { return };
        let work = self.shard.take_work(attention.conn);
        let socket = &mut self.sockets[key as usize];
        if work > 0 {
            self.rounds.charge(socket.party, cost_of_nanos(work));
        }
        if attention.wants_read && !socket.wanted {
            socket.wanted = true;
            self.feed_again(now, key);
        }
        let socket = &mut self.sockets[key as usize];
        socket.wanted = attention.wants_read;
        if attention.finished
            && let Phase::Live(conn) = socket.phase
        {
            socket.phase = Phase::Finishing(conn, now.plus_millis(self.shared.limits.linger_ms));
        }
        self.write_socket(now, key);
    }

    /// Writes what there is, and sees to what follows from it.
    fn write_socket(&mut self, now: Time, key: u32) {
        if let Some(conn) = self.sockets[key as usize].phase.conn() {
            self.write_output(now, key, conn);
        }
        let socket = &mut self.sockets[key as usize];
        if matches!(socket.phase, Phase::Greeting(_) | Phase::Lingering(_)) {
            let open = write_wire(socket, &mut self.stats.bytes_out, &mut self.stats.writes);
            socket.over |= !open;
        }
        if socket.over {
            return self.drop_socket(key);
        }
        if matches!(socket.phase, Phase::Lingering(_)) && socket.wire().is_none_or(|wire| wire.is_empty()) {
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
        if let Some(traced) = &mut socket.about.traced {
            *traced -= before - left;
        }
        socket.over |= !open;
        let finished = matches!(socket.phase, Phase::Finishing(..));
        let was_swollen =
            std::mem::replace(&mut socket.swollen, left >= OUTPUT_LOW_BYTES) || before >= OUTPUT_LOW_BYTES;
        if before > 0 {
            self.warm(key);
        }
        if left > self.shared.limits.output_hard_bytes {
            self.stats.cut_off += 1;
            self.tell(key, Happening::CutOff { waiting_bytes: left });
            self.sockets[key as usize].over = true;
        } else if left == 0 && finished && open {
            self.finish(now, key);
        } else if was_swollen && left < OUTPUT_LOW_BYTES {
            self.shard.written(conn);
            self.again = true;
        }
    }

    /// The last output is written: the transport says goodbye and the shard forgets the connection.
    fn finish(&mut self, now: Time, key: u32) {
        self.forget(key);
        if let Some(wrapping) = &mut self.sockets[key as usize].wrapping {
            wrapping.finish();
        }
        self.linger(now, key);
    }

    /// Takes the connection from the shard; its socket stays.
    pub(super) fn forget(&mut self, key: u32) {
        if let Some(conn) = self.sockets[key as usize].phase.conn() {
            self.shard.closed(conn);
            // What the shard has to say about it is told while its socket is known.
            self.serve_requests();
            self.again = true;
        }
    }

    /// Lets the peer read our last bytes. Nothing of it is used any more.
    pub(super) fn linger(&mut self, now: Time, key: u32) {
        let socket = &mut self.sockets[key as usize];
        socket.phase = Phase::Lingering(now.plus_millis(self.shared.limits.linger_ms));
        (socket.tail, socket.paused) = (Vec::new(), false);
        self.queue_if_readable(key);
    }

    /// Closes the socket at once.
    pub(super) fn drop_socket(&mut self, key: u32) {
        self.forget(key);
        let mut socket = self.sockets.remove(key as usize);
        self.rounds.leave(socket.party);
        // A watch ends with its descriptor; ending it first keeps stale events of this turn's list away.
        let _ = socket.stream.deregister(self.poll.registry());
        self.stats.closed += 1;
    }

    /// An event about a connection.
    pub(super) fn tell(&self, key: u32, what: Happening) {
        let about = &self.sockets[key as usize].about;
        let peer = about.peer.map(|peer| peer.to_string());
        self.shared.events.push(NodeEvent { connection: Some(about.id), peer, ..NodeEvent::new(what) });
    }

    /// Tells of frames, if the connection is traced.
    pub(super) fn trace(&self, key: u32, direction: &'static str, bytes: &[u8]) {
        if self.sockets[key as usize].about.traced.is_some() && !bytes.is_empty() {
            self.tell(key, Happening::Trace { direction, frames: enmasse_amqp::codec::describe(bytes) });
        }
    }

    /// Tells of output that came since the last time, which is always whole frames.
    fn trace_output(&mut self, key: u32, conn: ConnId) {
        let Some(traced) = self.sockets[key as usize].about.traced else { return };
        let Some(output) = self.shard.output(conn) else { return };
        let length = output.len();
        let news = output[traced.min(length)..].to_vec();
        self.trace(key, "out", &news);
        self.sockets[key as usize].about.traced = Some(length);
    }
}

/// Writes from the front of `bytes` with one system call; `false` if the stream is over.
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
                // The socket is full: an event tells when it takes more.
                socket.writable = false;
                bytes.drain(..count);
            }
            true
        }
        Moved::Blocked => {
            socket.writable = false;
            true
        }
        Moved::Over => false,
    }
}

/// Writes what the transport holds.
fn write_wire(socket: &mut Socket, bytes_out: &mut u64, writes: &mut u64) -> bool {
    let Some(wire) = socket.wire() else { return true };
    let mut wire = std::mem::take(wire);
    let open = write_front(socket, &mut wire, bytes_out, writes);
    if let Some(place) = socket.wire() {
        *place = wire;
    }
    open
}

/// Seals output piece by piece and writes it, for as long as the socket takes it.
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
