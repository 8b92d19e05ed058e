//! The node: real shards, driven as worker threads drive them, one turn at a time. Batches and connections that
//! go from shard to shard are on their way for a while.

use std::collections::VecDeque;
use std::sync::Arc;

use enmasse_amqp::time::Time;
use enmasse_router::core::{AddressKey, AddressStats, QueueNumbers};
use enmasse_router::shard::{
    Batch, ConnId, DynamicNodes, LinkNames, Load, Moved, OUTPUT_HIGH_BYTES, OUTPUT_LOW_BYTES, Peer, Request, Shard,
    Shared,
};
use enmasse_router::table::Table;

use crate::random::Random;
use crate::scenario::Scenario;
use crate::wire::Wire;

/// The most that may wait for one connection: the high-water mark and what one transfer may add to it, which is all
/// that a slow multicast consumer may lag behind within one long delivery.
const OUTPUT_MAX: usize = OUTPUT_HIGH_BYTES + enmasse_router::core::BACKLOG_BYTES + (1 << 20);

/// Where the node's end of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    At { shard: usize, conn: ConnId },
    Moving,
    Closed,
}

/// Both directions of a connection, and the node's end of it.
#[derive(Debug)]
pub(crate) struct Socket {
    /// from the client
    pub(crate) up: Wire,
    /// to the client
    pub(crate) down: Wire,
    place: Place,
    unread: Vec<u8>,
    wants_read: bool,
    finished: bool,
    cut: bool,
}

impl Socket {
    /// The node wants no more of it.
    #[must_use]
    pub(crate) fn is_given_up(&self) -> bool {
        self.cut || self.finished || self.place == Place::Closed
    }

    /// Whether the client may still hear from the node.
    #[must_use]
    pub(crate) fn is_open(&self) -> bool {
        !self.cut && (self.place != Place::Closed || !self.down.is_empty())
    }
}

struct Worker {
    shard: Shard,
    /// tables it has yet to take over, with the addresses that each removes
    tables: VecDeque<(Arc<Table>, Vec<AddressKey>)>,
    /// connections on their way here
    arrivals: VecDeque<(Moved, usize)>,
    /// batches on their way here
    batches: VecDeque<(Time, Batch)>,
}

/// A node that is up.
pub(crate) struct Node {
    workers: Vec<Worker>,
    table: Arc<Table>,
    /// every connection there ever was since the start
    pub(crate) sockets: Vec<Socket>,
    latency_us: u64,
    wire_capacity: usize,
}

fn entropy(mut random: Random) -> enmasse_router::shard::Entropy {
    Box::new(move |bytes| random.fill(bytes))
}

impl Node {
    /// A node that has just started.
    #[must_use]
    pub(crate) fn start(scenario: &Scenario, table: Arc<Table>, random: &mut Random) -> Self {
        let shared = Arc::new(Shared {
            connection: Arc::clone(&scenario.server),
            dynamic: DynamicNodes::default(),
            link_names: LinkNames::default(),
            loads: (0..scenario.shards).map(|_| Load::default()).collect(),
            link_capacity: scenario.link_capacity,
            message_size_max: None,
            queue_numbers: QueueNumbers::new(1),
            insecure: false,
        });
        let worker = |index| Worker {
            shard: Shard::new(index, Arc::clone(&shared), Arc::clone(&table), entropy(random.fork())),
            tables: VecDeque::new(),
            arrivals: VecDeque::new(),
            batches: VecDeque::new(),
        };
        Self {
            workers: (0..scenario.shards).map(worker).collect(),
            table,
            sockets: Vec::new(),
            latency_us: scenario.latency_us,
            wire_capacity: scenario.wire_capacity,
        }
    }

    /// Number of shards.
    #[must_use]
    pub(crate) fn shards(&self) -> usize {
        self.workers.len()
    }

    /// A client connects; the number of the socket.
    pub(crate) fn connect(&mut self, now: Time, random: &mut Random) -> usize {
        let shard = random.below(self.workers.len());
        let conn = self.workers[shard].shard.connect(now, &Peer { loopback: true, ..Peer::default() });
        let mut wire = || Wire::new(self.wire_capacity, random.between(1, self.latency_us));
        self.sockets.push(Socket {
            up: wire(),
            down: wire(),
            place: Place::At { shard, conn },
            unread: Vec::new(),
            wants_read: true,
            finished: false,
            cut: false,
        });
        self.sockets.len() - 1
    }

    /// The network breaks a connection: the client knows at once, the node on its next turn.
    pub(crate) fn cut(&mut self, socket: usize) {
        self.sockets[socket].cut = true;
    }

    /// A new table, which every shard takes over on its next turn.
    pub(crate) fn apply(&mut self, table: Arc<Table>) {
        let removed: Vec<AddressKey> = self.table.diff(&table).removed.iter().map(|entry| entry.key).collect();
        for worker in &mut self.workers {
            worker.tables.push_back((Arc::clone(&table), removed.clone()));
        }
        self.table = table;
    }

    /// Whether all shards have taken over the newest table.
    #[must_use]
    pub(crate) fn knows_plan(&self) -> bool {
        self.workers.iter().all(|worker| worker.tables.is_empty())
    }

    /// One turn of one shard. What is wrong with it, if anything.
    pub(crate) fn turn(&mut self, at: usize, now: Time, random: &mut Random) -> Option<String> {
        let worker = &mut self.workers[at];
        worker.shard.set_time_of_day(now.as_micros() / 1000);
        if let Some((table, removed)) = worker.tables.pop_front() {
            worker.shard.apply(table, &removed);
        }
        while let Some((moved, socket)) = worker.arrivals.pop_front() {
            let conn = worker.shard.adopt(moved);
            self.sockets[socket].place = Place::At { shard: at, conn };
            self.sockets[socket].wants_read = true;
        }
        self.read(at, now, random);
        let worker = &mut self.workers[at];
        while worker.batches.front().is_some_and(|(arrival, _)| *arrival <= now) {
            if let Some((_, batch)) = worker.batches.pop_front() {
                worker.shard.receive(&batch);
            }
        }
        self.requests(at);
        self.workers[at].shard.end_turn(now);
        let fault = self.write(at, now);
        self.hand_over(at, now, random);
        fault
    }

    fn sockets_at(&self, at: usize) -> Vec<(usize, ConnId)> {
        let here = |(number, socket): (usize, &Socket)| match socket.place {
            Place::At { shard, conn } if shard == at => Some((number, conn)),
            _ => None,
        };
        self.sockets.iter().enumerate().filter_map(here).collect()
    }

    fn read(&mut self, at: usize, now: Time, random: &mut Random) {
        for (number, conn) in self.sockets_at(at) {
            let (socket, shard) = (&mut self.sockets[number], &mut self.workers[at].shard);
            if socket.cut {
                socket.place = Place::Closed;
                shard.closed(conn);
                continue;
            }
            if socket.wants_read {
                socket.up.read(now, random.between(100, 60_000) as usize, &mut socket.unread);
            }
            if !socket.unread.is_empty() {
                let used = shard.input(now, conn, &socket.unread);
                socket.unread.drain(..used);
            }
            if shard.next_timeout(conn).is_some_and(|due| due <= now) {
                shard.timeout(now, conn);
            }
        }
    }

    fn requests(&mut self, at: usize) {
        while let Some(request) = self.workers[at].shard.poll_request() {
            if let Request::Move { conn, to } = request
                && let Some(moved) = self.workers[at].shard.extract(conn)
            {
                let socket = self.sockets.iter().position(|socket| socket.place == Place::At { shard: at, conn });
                if let Some(number) = socket {
                    self.sockets[number].place = Place::Moving;
                    self.workers[usize::from(to)].arrivals.push_back((moved, number));
                }
            }
        }
    }

    fn write(&mut self, at: usize, now: Time) -> Option<String> {
        while let Some(attention) = self.workers[at].shard.dirty() {
            let place = Place::At { shard: at, conn: attention.conn };
            if let Some(socket) = self.sockets.iter_mut().find(|socket| socket.place == place) {
                socket.finished = attention.finished;
                socket.wants_read = attention.wants_read;
            }
        }
        let mut fault = None;
        for (number, conn) in self.sockets_at(at) {
            let (socket, shard) = (&mut self.sockets[number], &mut self.workers[at].shard);
            let Some(output) = shard.output(conn) else { continue };
            if output.len() > OUTPUT_MAX {
                fault = Some(format!("{} bytes wait for one connection", output.len()));
            }
            socket.down.write(now, output);
            let left = output.len();
            if left < OUTPUT_LOW_BYTES {
                shard.written(conn);
            }
            if socket.finished && left == 0 {
                socket.place = Place::Closed;
                shard.closed(conn);
            }
        }
        fault
    }

    fn hand_over(&mut self, at: usize, now: Time, random: &mut Random) {
        for to in 0..self.workers.len() {
            if let Some(batch) = self.workers[at].shard.take_batch(to as u16) {
                // Rings between threads are quick and in order; only the turn that reads them is late.
                let arrival = Time::from_micros(now.as_micros() + random.between(0, 50));
                self.workers[to].batches.push_back((arrival, batch));
            }
        }
    }

    /// Nothing is on its way, to it, from it or within it. A slow reader may take long for one long frame.
    #[must_use]
    pub(crate) fn is_idle(&mut self) -> bool {
        for at in 0..self.workers.len() {
            for (_, conn) in self.sockets_at(at) {
                if self.workers[at].shard.output(conn).is_some_and(|output| !output.is_empty()) {
                    return false;
                }
            }
        }
        let still = |socket: &Socket| socket.up.is_empty() && socket.down.is_empty() && socket.unread.is_empty();
        self.workers.iter().all(|worker| worker.batches.is_empty() && worker.arrivals.is_empty())
            && self.sockets.iter().filter(|socket| !socket.is_given_up()).all(still)
    }

    /// The figures of all addresses, of all shards.
    pub(crate) fn figures(&self) -> impl Iterator<Item = (AddressKey, AddressStats)> {
        self.workers.iter().flat_map(|worker| worker.shard.address_stats())
    }
}
