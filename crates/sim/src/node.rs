//! The node: real shards and a real journal, driven as the node's threads drive them, one turn at a
//! time. Batches and connections move from shard to shard with a delay.

use std::collections::VecDeque;
use std::sync::Arc;

use enmasse_amqp::time::Time;
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_router::core::{AddressKey, AddressKind, AddressStats, Digests, ReceiveBudget};
use enmasse_router::plan::Plan;
use enmasse_router::shard::{
    CommandBatch, ConnId, DynamicNodes, Fact, LinkNames, Load, Moved, OUTPUT_HIGH_BYTES, OUTPUT_LOW_BYTES, Peer,
    Protocol, RecoveredQueues, Request, Shard, Shared, StoredAddressChange,
};
use enmasse_router::table::{Space, Table};

use crate::journal::Journal;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::wire::Wire;

/// The most that may wait for one connection: the high-water mark and one transfer, which bounds
/// the lag of a slow multicast consumer within one long delivery.
const OUTPUT_MAX: usize = OUTPUT_HIGH_BYTES + enmasse_router::core::BACKLOG_BYTES + (1 << 20);

/// The location of the node's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
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
    location: Location,
    unread: Vec<u8>,
    wants_read: bool,
    finished: bool,
    /// the node has closed it because of an error
    failed: bool,
    dropped: bool,
}

impl Socket {
    /// Whether the node has finished with it.
    #[must_use]
    pub(crate) fn is_over(&self) -> bool {
        self.dropped || self.finished || self.location == Location::Closed
    }

    /// Whether both sides have closed it by the close handshake, without an error.
    #[must_use]
    pub(crate) fn is_closed_cleanly(&self) -> bool {
        self.finished && !self.dropped && !self.failed
    }

    /// Whether the client may still receive output of the node.
    #[must_use]
    pub(crate) fn is_open(&self) -> bool {
        !self.dropped && (self.location != Location::Closed || !self.down.is_empty())
    }
}

struct Worker {
    shard: Shard,
    /// tables that it has yet to apply, with the addresses that each removes and the stored
    /// addresses that each assigns to it
    tables: VecDeque<(Arc<Table>, Vec<AddressKey>, Vec<StoredAddressChange>)>,
    /// connections that move to this worker
    arrivals: VecDeque<(Moved, usize)>,
    /// batches in flight to this worker
    batches: VecDeque<(Time, CommandBatch)>,
}

/// A running node.
pub(crate) struct Node {
    workers: Vec<Worker>,
    table: Arc<Table>,
    recovered_queues: RecoveredQueues,
    pub(crate) journal: Journal,
    /// every connection since the start
    pub(crate) sockets: Vec<Socket>,
    latency_us: u64,
    wire_capacity: usize,
}

fn entropy(mut random: Random) -> enmasse_router::shard::Entropy {
    Box::new(move |bytes| random.fill(bytes))
}

impl Node {
    /// A node that has just started on a disk, with a Plan.
    ///
    /// # Errors
    /// The reason as text: the journal has lost durable records.
    pub(crate) fn start(
        scenario: &Scenario,
        disk: SimulatedDisk,
        plan: &Plan,
        random: &mut Random,
    ) -> Result<Self, String> {
        let (mut journal, recovered) = Journal::open(Arc::new(disk), scenario.journal, scenario.shards.into())?;
        let mut recovered_queues = RecoveredQueues::new(recovered);
        let empty = Table::empty([1; 32]);
        let table = compile(plan, &empty);
        let mut changes = recovered_queues.follow(&empty.diff(&table), &table, scenario.shards);
        journal.commit(&mut changes.batch).map_err(|refused| format!("an address cannot be opened: {refused}"))?;
        recovered_queues.settle(changes.settled);
        let shared = Arc::new(Shared {
            connection: Arc::clone(&scenario.server),
            dynamic: DynamicNodes::default(),
            mqtt: Arc::default(),
            link_names: LinkNames::default(),
            subscription_names: recovered_queues.subscription_names(),
            loads: (0..scenario.shards).map(|_| Load::default()).collect(),
            link_capacity: scenario.link_capacity,
            message_size_max: None,
            // The ledger expects every outcome to count, so the time-out is disabled.
            mqtt_hold_ms: 10_000,
            multicast_settle_timeout_ms: u64::MAX,
            queue_numbers: recovered_queues.numbers(),
            insecure: false,
            receive_budget: Arc::new(ReceiveBudget::new(1 << 30)),
            guesses: std::sync::Mutex::new(enmasse_router::shard::Guesses::new(7)),
            cordoned: std::sync::atomic::AtomicBool::new(false),
        });
        let worker = |(index, address_changes)| {
            let mut shard = Shard::new(index, Arc::clone(&shared), Arc::clone(&table), entropy(random.fork()));
            shard.set_digests(Digests::new([7; 16]));
            shard.change_stored_addresses(address_changes);
            Worker { shard, tables: VecDeque::new(), arrivals: VecDeque::new(), batches: VecDeque::new() }
        };
        Ok(Self {
            workers: (0..).zip(changes.address_changes).map(worker).collect(),
            table,
            recovered_queues,
            journal,
            sockets: Vec::new(),
            latency_us: scenario.latency_us,
            wire_capacity: scenario.wire_capacity,
        })
    }

    /// Number of shards.
    #[must_use]
    pub(crate) fn shards(&self) -> usize {
        self.workers.len()
    }

    /// Connects a client; returns the number of the socket.
    pub(crate) fn connect(&mut self, now: Time, random: &mut Random) -> usize {
        self.connect_peer(now, Protocol::Amqp, random)
    }

    /// Connects a client of MQTT; returns the number of the socket.
    pub(crate) fn connect_device(&mut self, now: Time, random: &mut Random) -> usize {
        self.connect_peer(now, Protocol::Mqtt, random)
    }

    fn connect_peer(&mut self, now: Time, protocol: Protocol, random: &mut Random) -> usize {
        let shard = random.below(self.workers.len());
        let conn = self.workers[shard].shard.connect(now, &Peer { loopback: true, protocol, ..Peer::default() });
        let mut wire = || Wire::new(self.wire_capacity, random.between(1, self.latency_us));
        self.sockets.push(Socket {
            up: wire(),
            down: wire(),
            location: Location::At { shard, conn },
            unread: Vec::new(),
            wants_read: true,
            finished: false,
            failed: false,
            dropped: false,
        });
        self.sockets.len() - 1
    }

    /// Drops a connection in the network: the client notices at once, the node on its next turn.
    pub(crate) fn drop_connection(&mut self, socket: usize) {
        self.sockets[socket].dropped = true;
    }

    /// Applies a new Plan; every shard uses it from its next turn on.
    ///
    /// # Errors
    /// The reason as text: the journal refuses the resulting changes.
    pub(crate) fn apply(&mut self, plan: &Plan) -> Result<(), String> {
        let table = compile(plan, &self.table);
        let diff = self.table.diff(&table);
        let mut changes = self.recovered_queues.follow(&diff, &table, self.workers.len() as u16);
        self.journal.commit(&mut changes.batch).map_err(|refused| format!("an address cannot be opened: {refused}"))?;
        self.recovered_queues.settle(changes.settled);
        let removed: Vec<AddressKey> = diff.removed.iter().map(|entry| entry.key).collect();
        for (worker, address_changes) in self.workers.iter_mut().zip(changes.address_changes) {
            worker.tables.push_back((Arc::clone(&table), removed.clone(), address_changes));
        }
        self.table = table;
        Ok(())
    }

    /// Whether all shards have applied the newest table.
    #[must_use]
    pub(crate) fn has_applied_plan(&self) -> bool {
        self.workers.iter().all(|worker| worker.tables.is_empty())
    }

    /// Runs one turn of one shard; returns its violation, if any.
    pub(crate) fn turn(&mut self, at: usize, now: Time, random: &mut Random) -> Option<String> {
        let worker = &mut self.workers[at];
        worker.shard.set_time_of_day(now.as_micros() / 1000);
        if let Some((table, removed, address_changes)) = worker.tables.pop_front() {
            worker.shard.change_stored_addresses(address_changes);
            worker.shard.apply(table, &removed);
        }
        while let Some((moved, socket)) = worker.arrivals.pop_front() {
            let conn = worker.shard.adopt(moved);
            self.sockets[socket].location = Location::At { shard: at, conn };
            self.sockets[socket].wants_read = true;
        }
        self.read(at, now, random);
        let worker = &mut self.workers[at];
        while worker.batches.front().is_some_and(|(arrival, _)| *arrival <= now) {
            if let Some((_, batch)) = worker.batches.pop_front() {
                worker.shard.receive(&batch);
            }
        }
        self.journal.deliver(at, now, &mut self.workers[at].shard);
        self.requests(at);
        let shard = &mut self.workers[at].shard;
        shard.end_turn(now);
        self.journal.collect(at, shard);
        let damaged = shard.take_damaged();
        let violation = self.write(at, now);
        self.process_transfers(at, now, random);
        if damaged.is_empty() { violation } else { Some(format!("reported as damaged: {damaged:?}")) }
    }

    fn sockets_at(&self, at: usize) -> Vec<(usize, ConnId)> {
        let here = |(number, socket): (usize, &Socket)| match socket.location {
            Location::At { shard, conn } if shard == at => Some((number, conn)),
            _ => None,
        };
        self.sockets.iter().enumerate().filter_map(here).collect()
    }

    fn read(&mut self, at: usize, now: Time, random: &mut Random) {
        for (number, conn) in self.sockets_at(at) {
            let (socket, shard) = (&mut self.sockets[number], &mut self.workers[at].shard);
            if socket.dropped {
                socket.location = Location::Closed;
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
            let (conn, to) = match request {
                Request::Move { conn, to } => (conn, Some(to)),
                Request::Fact { conn, fact: Fact::Closed { condition: Some(_), .. } } => (conn, None),
                _ => continue,
            };
            let socket = self.sockets.iter().position(|socket| socket.location == Location::At { shard: at, conn });
            let Some(number) = socket else { continue };
            match to {
                None => self.sockets[number].failed = true,
                Some(to) => {
                    let Some(moved) = self.workers[at].shard.extract(conn) else { continue };
                    self.sockets[number].location = Location::Moving;
                    self.workers[usize::from(to)].arrivals.push_back((moved, number));
                }
            }
        }
    }

    fn write(&mut self, at: usize, now: Time) -> Option<String> {
        while let Some(attention) = self.workers[at].shard.dirty() {
            let location = Location::At { shard: at, conn: attention.conn };
            if let Some(socket) = self.sockets.iter_mut().find(|socket| socket.location == location) {
                socket.finished = attention.finished;
                socket.wants_read = attention.wants_read;
            }
        }
        let mut violation = None;
        for (number, conn) in self.sockets_at(at) {
            let (socket, shard) = (&mut self.sockets[number], &mut self.workers[at].shard);
            let Some(output) = shard.output(conn) else { continue };
            if output.len() > OUTPUT_MAX {
                violation = Some(format!("{} bytes wait for one connection", output.len()));
            }
            socket.down.write(now, output);
            let left = output.len();
            if left < OUTPUT_LOW_BYTES {
                shard.written(conn);
            }
            if socket.finished && left == 0 {
                socket.location = Location::Closed;
                shard.closed(conn);
            }
        }
        violation
    }

    fn process_transfers(&mut self, at: usize, now: Time, random: &mut Random) {
        for to in 0..self.workers.len() {
            if let Some(batch) = self.workers[at].shard.take_batch(to as u16) {
                // Rings between threads are fast and ordered; only the turn that reads them adds a
                // delay.
                let arrival = Time::from_micros(now.as_micros() + random.between(0, 50));
                self.workers[to].batches.push_back((arrival, batch));
            }
        }
    }

    /// Whether nothing is in flight to it, from it or within it. A slow reader may need long for
    /// one long frame.
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
            && self.sockets.iter().filter(|socket| !socket.is_over()).all(still)
            && self.journal.is_idle()
            && self.stored() == 0
    }

    /// The statistics of all addresses, of all shards.
    pub(crate) fn stats(&self) -> impl Iterator<Item = (AddressKey, AddressStats)> {
        self.workers.iter().flat_map(|worker| worker.shard.address_stats())
    }

    /// The remaining messages of queues and subscriptions, for reports.
    pub(crate) fn describe_stored(&self) -> String {
        let stats = self.workers.iter().flat_map(|worker| worker.shard.queue_stats());
        let name_of = |key: AddressKey| {
            let mut entries = self.table.spaces().flat_map(Space::addresses);
            entries.find(|entry| entry.key == key).map(|entry| entry.name.to_string())
        };
        let busy = stats.filter(|(_, of)| of.ready + of.scheduled + of.acquired + of.leaving + of.uncommitted > 0);
        busy.map(|(key, of)| format!("{:?} {of:?}", name_of(key))).collect::<Vec<_>>().join("\n")
    }

    /// Messages in an address, in any state.
    pub(crate) fn stored_in(&self, name: &str) -> u64 {
        let key =
            self.table.spaces().flat_map(Space::addresses).find(|entry| *entry.name == *name).map(|entry| entry.key);
        let stats = self.workers.iter().flat_map(|worker| worker.shard.queue_stats());
        stats.filter(|(of, _)| Some(*of) == key).map(|(_, of)| of.ready).sum()
    }

    /// Messages in queues and subscriptions, in any state.
    fn stored(&self) -> u64 {
        let kind_of = |key: AddressKey| {
            let mut entries = self.table.spaces().flat_map(Space::addresses);
            entries.find(|entry| entry.key == key).map(|entry| entry.kind)
        };
        let stats = self.workers.iter().flat_map(|worker| worker.shard.queue_stats());
        // A dynamic node is not in the table, and its messages end with it.
        let stores = |key| kind_of(key).is_some_and(|kind| kind != AddressKind::Stream);
        let queues = stats.filter(|(key, _)| stores(*key));
        queues.map(|(_, of)| of.ready + of.scheduled + of.acquired + of.leaving + of.uncommitted).sum()
    }
}

fn compile(plan: &Plan, before: &Table) -> Arc<Table> {
    Arc::new(Table::compile(plan, before).expect("a plan of the simulation compiles"))
}
