//! One worker's part of the node, without its sockets: connections, their links, and the addresses
//! whose home is this shard.
//!
//! [`Shard`] describes the calls of its driver. Calls never wait. Time is an argument and never
//! runs backwards; randomness comes from `Entropy`.
//!
//! An address lives on one shard, its home; only the home's router decides about it. `links`
//! connects protocol events with the router, `fabric` carries the router's answers to links here
//! and elsewhere.

mod anonymous;
mod apply;
mod attach;
mod attachments;
mod batch;
mod conn;
mod coordinator;
mod creating;
mod credit_window;
mod departing;
mod discharging;
mod dynamic;
mod errors;
mod event;
mod fabric;
mod greeting;
mod guesses;
mod inspection;
mod link_names;
mod links;
mod login;
mod machine;
mod management;
mod mqtt;
mod mqtt_clients;
mod names;
mod pacing;
mod partial_deliveries;
mod placement;
mod recovered_queues;
mod renewing;
mod resumable;
mod resuming;
mod retained;
mod revoking;
mod stored;
mod subscribing;
mod subscription_service;
mod terminus;
mod terms;
mod traffic;
mod transactions;
mod unit_homes;
mod wills;

mod work;

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use enmasse_amqp::connection::{Config, Connection, Event};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::Error;

pub use crate::plan::Protocol;
pub use batch::CommandBatch;
pub use conn::Peer;
pub use creating::CREATE_TIMEOUT_MS;
pub use dynamic::{DYNAMIC_PREFIX, DynamicNodes};
pub use event::{Fact, LoginSubject, Request, WantedAddress};
pub use guesses::{Attempt, Guesses};
pub use inspection::{ConnectionSummary, LinkState};
pub use link_names::LinkNames;
pub use mqtt_clients::{ConnectedSession, RecordedSession, SessionOwner};
pub use placement::Load;
pub use recovered_queues::{Changes, Openings, RecoveredQueues, Settled};
pub use stored::StoredAddressChange;
pub use work::InputProgress;

use crate::core::{
    AddressKey, AddressStats, Ending, Links, QueueNumbers, ReceiveBudget, Router, SubscriptionNames, ToHome, ToLink,
};
use crate::table::{SpaceKey, Table};
use batch::Command;
use conn::Conn;
use departing::{Departing, Departures, ending_by};
use discharging::Discharges;
use fabric::Fabric;
use link_names::LinkTakeover;
use machine::Machine;
use work::{ATTACH_NANOS, DELIVERY_NANOS, RELEASE_NANOS, Work};

/// Unwritten output, in bytes, above which a connection is congested: its consumers get no
/// deliveries.
pub const OUTPUT_HIGH_BYTES: usize = 512 * 1024;
/// Unwritten output, in bytes, below which its consumers get deliveries again.
pub const OUTPUT_LOW_BYTES: usize = 128 * 1024;
/// Bytes accepted on a connection with held-back links before reading its socket is paused.
const HELD_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Links of one connection, regardless of its space's limit.
const LINKS_MAX: usize = 131_072;

/// Identifies a connection on its shard; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnId {
    key: u32,
    serial: u32,
}

impl ConnId {
    /// Index below the highest number of connections the shard ever had at once.
    #[must_use]
    pub fn key(self) -> usize {
        self.key as usize
    }
}

/// Source of random bytes: the system's generator in the node, a seeded one in tests.
pub type Entropy = Box<dyn FnMut(&mut [u8]) + Send>;

/// State shared by the shards of one node.
#[derive(Debug)]
pub struct Shared {
    /// protocol settings of every connection of AMQP
    pub connection: Arc<Config>,
    /// protocol settings of every connection of MQTT
    pub mqtt: Arc<enmasse_mqtt::connection::Config>,
    /// the dynamic nodes
    pub dynamic: DynamicNodes,
    /// links by name
    pub link_names: LinkNames,
    /// the homes of subscriptions by name
    pub subscription_names: SubscriptionNames,
    /// the load of each shard
    pub loads: Vec<Load>,
    /// window of links to dynamic nodes and to the anonymous terminus, in deliveries
    pub link_capacity: u32,
    /// largest message in bytes, unless its address has a lower limit
    pub message_size_max: Option<u64>,
    /// how long the publications of a client of MQTT are not read while an address holds them back,
    /// in milliseconds
    pub mqtt_hold_ms: u64,
    /// how long a producer waits for outcomes of other multicast consumers after the first outcome,
    /// in milliseconds
    pub multicast_settle_timeout_ms: u64,
    /// source of queue numbers in the journal
    pub queue_numbers: QueueNumbers,
    /// PLAIN is offered to peers that are neither encrypted nor on this machine
    pub insecure: bool,
    /// bound of received bytes that are not stored yet
    pub receive_budget: Arc<ReceiveBudget>,
    /// recent wrong passwords; a login locks it once or twice, for a look-up
    pub guesses: Mutex<Guesses>,
    /// the node is cordoned: it refuses clients that log in, and keeps the others
    pub cordoned: AtomicBool,
}

/// A connection on its way to another shard.
pub struct Moved(Box<Conn>);

/// The driver's work for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionWork {
    /// the connection
    pub conn: ConnId,
    /// the machine has ended: close the socket once the output is written
    pub finished: bool,
    /// continue reading its socket
    pub wants_read: bool,
}

/// One shard: a state machine without I/O. Its driver, a worker, passes input and takes output.
///
/// The driver calls these kinds of methods, in this order in each turn:
///
/// 1. Clock: [`set_time_of_day`](Self::set_time_of_day), before all others.
/// 2. Input: [`input`](Self::input) with the bytes of each readable socket,
///    [`receive`](Self::receive) with each batch of another shard, [`journaled`](Self::journaled)
///    and [`fetched`](Self::fetched) with the answers of the journal, [`timeout`](Self::timeout)
///    for each connection whose [`next_timeout`](Self::next_timeout) has come. Any number of
///    calls, in any order; `journaled` keeps the order of `take_journal`.
/// 3. [`end_turn`](Self::end_turn), once: it does the work that the input marked.
/// 4. Output, each until it is empty: [`take_batch`](Self::take_batch) for every other shard,
///    [`take_journal`](Self::take_journal) and [`take_wanted`](Self::take_wanted) for the journal,
///    [`dirty`](Self::dirty) for connections, whose bytes are in [`output`](Self::output);
///    [`written`](Self::written) reports that a socket accepted them.
///    [`poll_request`](Self::poll_request) names what the shard needs from the node: logins to
///    decide, connections to move, events to report. [`take_operated`](Self::take_operated) has
///    the results of [`operate`](Self::operate), [`take_damaged`](Self::take_damaged) the messages
///    that the disk lost.
///
/// Between turns the driver waits no longer than [`next_timeout`](Self::next_timeout),
/// [`next_time_of_day`](Self::next_time_of_day) and [`next_share`](Self::next_share) allow.
///
/// Three more kinds of calls may come in any turn, before its `end_turn`. Connections:
/// [`connect`](Self::connect) begins one, [`closed`](Self::closed) ends it with its socket,
/// [`close`](Self::close) ends it with an error, [`extract`](Self::extract) and
/// [`adopt`](Self::adopt) move it to another shard. Configuration:
/// [`change_stored_addresses`](Self::change_stored_addresses), then [`apply`](Self::apply) with the
/// table that names these addresses. Answers to requests: [`plain_checked`](Self::plain_checked),
/// [`judged`](Self::judged), [`creation_refused`](Self::creation_refused).
pub struct Shard {
    shared: Arc<Shared>,
    table: Arc<Table>,
    router: Router,
    fabric: Fabric,
    departures: Departures,
    serials: Vec<u32>,
    requests: VecDeque<Request>,
    entropy: Entropy,
    /// buffer for the tokens of one disposition; a field to save the allocation
    settled: Vec<u64>,
    /// buffer for the sections of one message of MQTT; a field to save the allocation
    sections: Vec<u8>,
    /// discharges of transactions that were declared here
    discharges: Discharges,
    /// counter of transactions declared here
    transactions: u64,
    /// counter of questions sent to homes of addresses
    questions: u64,
    /// counter of attaches that took over a link of another shard
    thefts: u64,
    /// counter of attaches that waited for the creation of their address
    creations: u64,
    /// sessions of MQTT without a connection
    absent: mqtt_clients::AbsentSessions,
}

impl Shard {
    /// Shard `index` of `shared.loads.len()` shards.
    #[must_use]
    pub fn new(index: u16, shared: Arc<Shared>, table: Arc<Table>, mut entropy: Entropy) -> Self {
        let mut seed = [0; 8];
        entropy(&mut seed);
        let count = shared.loads.len() as u16;
        let mut router = Router::new(index, u64::from_le_bytes(seed));
        router.set_queue_numbers(shared.queue_numbers.clone());
        router.set_settle_timeout(shared.multicast_settle_timeout_ms);
        router.set_receive_budget(Arc::clone(&shared.receive_budget));
        router.set_subscription_names(shared.subscription_names.clone());
        Self {
            router,
            fabric: Fabric::new(index, count, shared.mqtt_hold_ms),
            shared,
            table,
            departures: Departures::new(),
            serials: Vec::new(),
            requests: VecDeque::new(),
            entropy,
            settled: Vec::new(),
            sections: Vec::new(),
            discharges: Discharges::default(),
            transactions: 0,
            questions: 0,
            thefts: 0,
            creations: 0,
            absent: mqtt_clients::AbsentSessions::default(),
        }
    }

    /// A peer has connected.
    pub fn connect(&mut self, now: Time, peer: &Peer) -> ConnId {
        let (sasl, authenticated, handshake) = self.begin_handshake(peer);
        let machine = match peer.protocol {
            Protocol::Amqp => {
                let mut machine = Connection::server(Arc::clone(&self.shared.connection), now, sasl);
                machine.sasl_mechanisms(&handshake.mechanisms());
                Machine::Amqp(machine)
            }
            Protocol::Mqtt => Machine::Mqtt(self.begin_mqtt(now)),
        };
        let conn = Conn::new(machine, handshake, authenticated);
        self.insert(Box::new(conn))
    }

    fn insert(&mut self, conn: Box<Conn>) -> ConnId {
        let key = self.fabric.conns.insert(conn);
        if self.serials.len() <= key {
            self.serials.resize(key + 1, 0);
        }
        self.publish_load();
        let id = self.id(key as u32);
        self.fabric.mark(id.key);
        id
    }

    fn publish_load(&self) {
        if let Some(load) = self.shared.loads.get(self.fabric.index as usize) {
            load.set_connections(self.fabric.conns.len() as u32);
        }
    }

    fn id(&self, key: u32) -> ConnId {
        ConnId { key, serial: self.serials[key as usize] }
    }

    fn knows(&self, id: ConnId) -> bool {
        self.serials.get(id.key()) == Some(&id.serial) && self.fabric.conns.contains(id.key())
    }

    /// The address space of a connection, once it is open.
    #[must_use]
    pub fn space_of(&self, id: ConnId) -> Option<SpaceKey> {
        let conn = self.fabric.conns.get(id.key()).filter(|_| self.knows(id))?;
        conn.access.as_ref().map(|(space, _)| *space)
    }

    /// Processes bytes received on a connection. Returns the number of bytes used. The rest is part
    /// of a frame, or waits for an answer or a move: the caller keeps it and passes it again, in
    /// front of later bytes.
    pub fn input(&mut self, now: Time, id: ConnId, bytes: &[u8]) -> usize {
        self.input_within(now, id, bytes, u64::MAX).used
    }

    /// As [`Shard::input`], but stops when the resulting work has cost `budget_nanos`. The last
    /// frame may exceed it.
    pub fn input_within(&mut self, now: Time, id: ConnId, bytes: &[u8], budget_nanos: u64) -> InputProgress {
        if !self.knows(id) {
            return InputProgress { used: bytes.len(), work_nanos: 0, paused: false };
        }
        self.fabric.now = now;
        if let Some(conn) = self.fabric.conns.get_mut(id.key())
            && !bytes.is_empty()
            && std::mem::take(&mut conn.unread)
        {
            conn.machine.set_reading(now, true);
        }
        self.fabric.work = Work { reading: true, nanos: 0 };
        if self.fabric.conns[id.key()].machine.is_mqtt() {
            return self.input_mqtt(id, bytes, budget_nanos);
        }
        let mut rest = bytes;
        let mut paused = false;
        while let Some(conn) = self.fabric.conns.get_mut(id.key()) {
            if conn.moving.is_some() {
                break;
            }
            if self.fabric.work.nanos >= budget_nanos {
                paused = true;
                break;
            }
            // A transfer is used in place: reading a copy of it would wait for the store buffer.
            let Machine::Amqp(machine) = &mut conn.machine else { break };
            let event = machine.poll_event(now, &mut rest);
            if let Some(Event::Transfer(incoming)) = &event {
                self.fabric.charge(DELIVERY_NANOS);
                self.incoming(id, incoming);
                // The event owns no memory here: skip a drop that the compiler cannot elide.
                std::mem::forget(event);
                continue;
            }
            let Some(event) = event else { break };
            self.fabric.charge(DELIVERY_NANOS);
            self.handle(id, event);
        }
        self.fabric.mark(id.key);
        let work_nanos = std::mem::take(&mut self.fabric.work).nanos;
        InputProgress { used: bytes.len() - rest.len(), work_nanos, paused }
    }

    /// Handles one event. Out of line: `input_within` handles transfers, the hot path, itself.
    #[inline(never)]
    fn handle(&mut self, id: ConnId, event: Event<'_>) {
        match event {
            Event::Transfer(incoming) => self.incoming(id, &incoming),
            Event::Disposition { session, first, last, settled, outcome } => {
                self.disposition(id, session, first, last, settled, &outcome);
            }
            Event::Provisional { session, first, last, settled, txn_id, outcome } => {
                self.retire(id, session, (first, last), settled, &txn_id, &outcome);
            }
            Event::Declared { session, .. } => self.declared_by_receiver(id, session),
            Event::Credit { link, credit, drain } => self.granted(id, link, credit, drain),
            Event::Attach { link, attach, .. } => {
                self.fabric.charge(ATTACH_NANOS);
                self.attach(id, link, attach);
            }
            Event::Detach { link, closed, by, ended, error } => {
                if error.is_some() {
                    self.fail_wills(id, |one| one == link);
                }
                self.fabric.charge(RELEASE_NANOS);
                self.link_over(id, link, closed, by, ended);
            }
            Event::SaslInit(init) => self.sasl_init(id, &init),
            Event::SaslResponse(response) => self.sasl_response(id, &response.0),
            Event::Open(open) => self.opened(id, &open),
            Event::Closed { error, by } => {
                if error.is_some() {
                    self.fail_wills(id, |_| true);
                }
                self.finished(id, error, ending_by(by));
            }
            Event::PostingRefused { txn_id, error } => {
                self.mark_rollback_only(id.key, &txn_id, error);
            }
            Event::SenderSettled { session, first, last } => self.sender_settled(id, session, first, last),
            Event::Begin(_)
            | Event::End { .. }
            | Event::Flow { .. }
            | Event::Attached { .. }
            | Event::SaslMechanisms(_)
            | Event::SaslChallenge(_)
            | Event::SaslOutcome(_) => {}
        }
    }

    fn finished(&mut self, id: ConnId, error: Option<Error>, ending: Ending) {
        self.release_all(id, ending);
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        conn.finished = true;
        let fact = Fact::Closed {
            condition: error.as_ref().map(|error| error.condition.as_str().to_owned()),
            description: error.and_then(|error| error.description),
        };
        self.requests.push_back(Request::Fact { conn: id, fact });
        self.fabric.mark(id.key);
    }

    /// Bytes to be written to a connection: remove written bytes from the front, or take them all.
    pub fn output(&mut self, id: ConnId) -> Option<&mut Vec<u8>> {
        if !self.knows(id) {
            return None;
        }
        self.fabric.conns.get_mut(id.key()).map(|conn| conn.machine.output())
    }

    /// The next connection that has changed since this method last returned it.
    pub fn dirty(&mut self) -> Option<ConnectionWork> {
        while let Some(key) = self.fabric.dirty.pop() {
            if let Some(conn) = self.fabric.conns.get_mut(key as usize) {
                conn.dirty = false;
                let (finished, wants_read) = (conn.finished, conn.wants_read());
                return Some(ConnectionWork { conn: self.id(key), finished, wants_read });
            }
        }
        None
    }

    /// Output of a connection was written and less than `OUTPUT_LOW_BYTES` is left.
    pub fn written(&mut self, id: ConnId) {
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        if let Some(mqtt) = conn.machine.mqtt_mut() {
            mqtt.written();
            self.fabric.mark(id.key);
        }
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        if !conn.congested || self.serials[id.key()] != id.serial {
            return;
        }
        self.resume_congested(id);
    }

    /// The socket is closed.
    pub fn closed(&mut self, id: ConnId) {
        if !self.knows(id) {
            return;
        }
        self.transport_closed_mqtt(id);
        self.release_all(id, Ending::Lost);
        self.charge_last_traffic(id);
        let conn = self.fabric.conns.remove(id.key());
        self.fabric.stopped -= usize::from(conn.stopped);
        if !conn.finished {
            let fact = Fact::Closed { condition: None, description: Some("the connection broke off".into()) };
            self.requests.push_back(Request::Fact { conn: id, fact });
        }
        self.forget(id);
    }

    fn forget(&mut self, id: ConnId) {
        self.serials[id.key()] = id.serial.wrapping_add(1);
        self.publish_load();
    }

    /// When `timeout` is due for a connection.
    #[must_use]
    pub fn next_timeout(&self, id: ConnId) -> Option<Time> {
        if !self.knows(id) {
            return None;
        }
        let conn = self.fabric.conns.get(id.key())?;
        let renewal = conn.renewal.as_ref().map(|renewal| renewal.at);
        let creating = conn.creating.as_ref().map(|creating| creating.until);
        [conn.machine.poll_timeout(), conn.expires, renewal, creating].into_iter().flatten().min()
    }

    /// Handles the time-outs of a connection that are due at `now`.
    pub fn timeout(&mut self, now: Time, id: ConnId) {
        if !self.knows(id) {
            return;
        }
        if let Some(conn) = self.fabric.conns.get_mut(id.key()) {
            // The idle time-out is suspended while reading is paused (2.4.5).
            conn.unread = !conn.wants_read();
            if conn.unread {
                conn.machine.set_reading(now, false);
            }
            conn.machine.handle_timeout(now);
            if conn.expires.take_if(|end| *end <= now).is_some() {
                self.expire(id);
            }
            self.renew(now, id);
            self.give_up_creation(now, id);
        }
        self.input(now, id, &[]);
    }

    /// A batch from another shard.
    ///
    /// # Panics
    /// If it holds anything that no shard has encoded, which is a defect.
    pub fn receive(&mut self, batch: &CommandBatch) {
        for command in batch.commands() {
            match command {
                Ok(Command::ToHome(command)) => self.receive_home(command),
                Ok(Command::ToLink(command)) => self.fabric.receive_link(command),
                Ok(Command::LinkTakeover(LinkTakeover::Steal { name, from, theft })) => {
                    self.confirm_theft(name, from, theft);
                }
                Ok(Command::LinkTakeover(LinkTakeover::Confirm { theft })) => self.confirm_taken(theft),
                Err(malformed) => panic!("{malformed}"),
            }
        }
    }

    /// A command for the home of an address: it is handled at once if that is here.
    #[inline(always)]
    fn send_to_home(&mut self, home: u16, command: ToHome<'_>) {
        if home == self.fabric.index {
            self.receive_home(command);
        } else {
            self.fabric.outboxes[home as usize].push_to_home(&command);
        }
    }

    /// A command for an address, or for a part of a transaction, of which this is the home.
    #[inline(always)]
    fn receive_home(&mut self, command: ToHome<'_>) {
        let Self { router, fabric, .. } = self;
        match command {
            ToHome::Attach { attachment, address, role } => router.attach(attachment, address, role, fabric),
            ToHome::Origin { attachment, origin } => router.set_origin(attachment, origin, fabric),
            ToHome::Recall { attachment, names } => self.recall_after_departures(attachment, names),
            ToHome::Detach { attachment, ending, closed } => self.leave_address(attachment, ending, closed),
            ToHome::Relinquish { tokens, ending, oldest } => self.receive_relinquished(tokens, ending, oldest),
            ToHome::Credit { attachment, limit, drain } => router.credit(attachment, limit, drain, fabric),
            ToHome::Deliver { attachment, arrival } => router.deliver(attachment, arrival, fabric),
            ToHome::DeliverOnce { attachment, arrival, record, packet } => {
                router.deliver_once(attachment, arrival, (record, packet), fabric);
            }
            ToHome::DeliverWith { attachment, arrival, joint, space } => {
                router.deliver_with(attachment, arrival, (joint, space), fabric);
            }
            ToHome::KeepWith { record, packet, joint, space } => router.keep_with(record, packet, (joint, space)),
            ToHome::RemoveWith { token, joint, space } => router.remove_with(token, (joint, space), fabric),
            ToHome::KeepPacketId { record, packet, token } => router.keep_packet_id(record, packet, token, fabric),
            ToHome::DropPacketId { record, packet } => router.drop_packet_id(record, packet, fabric),
            ToHome::Outcome { token, outcome } => router.outcome(token, &outcome, fabric),
            ToHome::Outcomes { tokens, outcome } => {
                tokens.iter().for_each(|token| router.outcome(*token, &outcome, fabric));
            }
            ToHome::OutcomeUnsettled { attachment, token, outcome } => {
                router.outcome_unsettled(attachment, token, &outcome, fabric);
            }
            ToHome::Refused { attachment, delivery } => router.refused(attachment, &delivery, fabric),
            ToHome::Begun { attachment } => router.begun(attachment, fabric),
            ToHome::Guarantee { attachment, guarantee } => router.set_guarantee(attachment, guarantee),
            ToHome::Stall { attachment } => router.stall(attachment),
            ToHome::DeleteAddress { address } => router.delete_address(address, &errors::deleted(), fabric),
            ToHome::Describe { question, address } => {
                let found = router.describe(address);
                fabric.send(ToLink::Described { question, found });
            }
            ToHome::NameDelivery { attachment, delivery_id, tag } => {
                router.name_delivery(attachment, delivery_id, tag);
            }
            ToHome::ForgetTag { attachment, tag } => router.forget_tag(attachment, tag),
            ToHome::Declare { transaction } => router.declare(transaction),
            ToHome::Post { attachment, transaction, arrival } => {
                router.post_delivery(attachment, transaction, arrival, fabric);
            }
            ToHome::RetireDelivery { transaction, token, outcome, settled } => {
                router.retire_delivery(transaction, token, &outcome, settled, fabric);
            }
            ToHome::MarkRollbackOnly { transaction, cause } => router.mark_rollback_only(Some(transaction), &cause),
            ToHome::NoteTransactionUse { transaction } => router.note_transaction_use(transaction),
            ToHome::Prepare { transaction } => router.prepare(transaction, fabric),
            ToHome::HandOver { handover } => router.receive_handover(&handover, fabric),
            ToHome::Replace { replacement } => router.replace_subscription(replacement, fabric),
            ToHome::Discharge { transaction, fail, parts } => router.discharge(transaction, fail, parts, fabric),
        }
    }

    /// The batch gathered for another shard since the last call, if any.
    pub fn take_batch(&mut self, shard: u16) -> Option<CommandBatch> {
        let outbox = self.fabric.outboxes.get_mut(shard as usize)?;
        if outbox.is_empty() { None } else { Some(std::mem::take(outbox)) }
    }

    /// Bytes of batches for other shards that were not taken: a driver that cannot send them stops
    /// reading once there are too many.
    #[must_use]
    pub fn gathered_bytes(&self) -> usize {
        self.fabric.outboxes.iter().map(CommandBatch::bytes).sum()
    }

    /// The end of a turn: output gathered per link is written.
    pub fn end_turn(&mut self, now: Time) {
        self.fabric.now = now;
        // Charge the traffic first, so that grants of this turn follow the rate limit.
        for index in 0..self.fabric.dirty.len() {
            self.fabric.update_pacing(now, self.fabric.dirty[index]);
        }
        self.fabric.resume_paced(now);
        self.visit_absent();
        self.leave_addresses();
        self.release_left_names();
        self.router.process_dirty(&mut self.fabric);
        self.continue_mqtt();
        while self.fabric.has_deferred_work() {
            self.refuse_attaches();
            self.report_pending_outcomes();
            self.resume_freed();
            self.attach_greetings();
            self.continue_greetings();
            self.answer_discharges();
            self.restart_halted();
            self.answer_questions();
            self.router.process_dirty(&mut self.fabric);
            self.continue_mqtt();
        }
        self.router.turn(&mut self.fabric);
        for index in 0..self.fabric.dirty.len() {
            let key = self.fabric.dirty[index];
            self.fabric.update_pacing(now, key);
            if let Some(conn) = self.fabric.conns.get_mut(key as usize) {
                match &mut conn.machine {
                    Machine::Amqp(machine) => machine.flush(now),
                    Machine::Mqtt(_) => self.note_unfinished(key),
                }
            }
        }
    }

    /// The next request to the driver.
    pub fn poll_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// Removes a connection, to be moved to another shard.
    pub fn extract(&mut self, id: ConnId) -> Option<Moved> {
        if !self.knows(id) {
            return None;
        }
        self.fabric.stop_waiting(id.key);
        let conn = self.fabric.conns.remove(id.key());
        self.forget(id);
        Some(Moved(conn))
    }

    /// Adds a connection that was moved here. Pass its unread bytes to `input` afterwards.
    pub fn adopt(&mut self, moved: Moved) -> ConnId {
        let Moved(mut conn) = moved;
        conn.dirty = false;
        conn.settled_here = true;
        let waiting = conn.moving.take();
        let id = self.insert(conn);
        // A new table may have been applied here during the move.
        self.apply_to(&[id]);
        if let Some((link, attach)) = waiting {
            self.attach(id, link, attach);
        }
        id
    }

    /// Closes a connection with an error; `dirty` names it until its output is written.
    pub fn close(&mut self, id: ConnId, error: Error) {
        if self.knows(id) {
            self.close_together(vec![(id, error)]);
        }
    }

    /// Closes every connection, because the node stops.
    pub fn close_all(&mut self, error: &Error) {
        let conns = self.fabric.conns.iter().map(|(key, _)| (self.id(key as u32), error.clone()));
        self.close_together(conns.collect());
    }

    /// Closes several connections. Deliveries that one of them returns are not dispatched to the
    /// others.
    fn close_together(&mut self, conns: Vec<(ConnId, Error)>) {
        let mut departing = Vec::new();
        let ids: Vec<ConnId> = conns.iter().map(|(id, _)| *id).collect();
        for (id, error) in conns {
            self.begin_close(id, error, &mut departing);
        }
        self.finish_departures(departing);
        ids.into_iter().for_each(|id| self.finish_all(id));
    }

    /// The first phase of closing a connection (`departing`); `finish_all` follows the second.
    fn begin_close(&mut self, id: ConnId, error: Error, departing: &mut Vec<Departing>) {
        self.publish_will(id);
        self.leave_session(id, None);
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        conn.machine.close(Some(error));
        self.fabric.mark(id.key);
        self.begin_all(id, Ending::ByNode, departing);
    }

    /// Connections that live here.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.fabric.conns.len()
    }

    /// Connections whose input is paused because of the receive budget.
    #[must_use]
    pub fn stopped_count(&self) -> usize {
        self.fabric.stopped
    }

    /// The statistics of the addresses that live here.
    pub fn address_stats(&self) -> impl Iterator<Item = (AddressKey, AddressStats)> + '_ {
        self.router.stats()
    }
}
