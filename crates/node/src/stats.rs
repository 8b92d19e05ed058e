//! Statistics of the node. Each worker counts in plain integers, which are summed on request.

use std::collections::BTreeMap;

use enmasse_amqp::connection::OutcomeCounts;
use enmasse_journal::log::{LogStats, Unnamed};
use enmasse_journal::queue::{Cause, QueueStats};
use enmasse_router::core::{AddressKey, AddressStats};
use enmasse_router::shard::RecordedSession;
use enmasse_router::table::Space;
use serde::Serialize;

/// User and client id.
pub(crate) type SessionKey = (Option<String>, String);

/// The sessions of a space that a worker knows.
#[derive(Debug, Default)]
pub(crate) struct WorkerSessions {
    /// of connected clients, with the connection
    pub(crate) connected: Vec<(SessionKey, u64)>,
    /// on disk
    pub(crate) recorded: Vec<RecordedSession>,
}

/// Statistics of the journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct JournalStats {
    /// the log's own
    pub(crate) log: LogStats,
    /// why it has stopped, if it has
    pub(crate) stopped: Option<String>,
    /// reads that failed
    pub(crate) read_errors: u64,
    /// a segment that is currently unreadable, and why
    pub(crate) unreadable: Option<String>,
    /// messages lost by damage since the start, by the uid of their address
    pub(crate) damaged: BTreeMap<String, u64>,
    /// messages without a declared address, since the start
    pub(crate) unnamed: Unnamed,
}

/// Counters of one worker since its start; the first two and the last are current values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerStats {
    /// connections on it now
    pub connections: u64,
    /// the busy share of its thread in the last measuring interval, 0 to 1000
    pub busy_permille: u32,
    /// connections assigned to it
    pub accepted: u64,
    /// ended connections
    pub closed: u64,
    /// connections that moved to another worker before their first link
    pub moved: u64,
    /// TLS or WebSocket handshakes that failed
    pub handshakes_failed: u64,
    /// connections that did not finish their handshake in time
    pub handshakes_timed_out: u64,
    /// connections closed because their output was not read
    pub cut_off: u64,
    /// turns of the loop
    pub turns: u64,
    /// number of sleeps
    pub sleeps: u64,
    /// system calls that read bytes
    pub reads: u64,
    /// system calls that wrote bytes
    pub writes: u64,
    /// bytes read from sockets
    pub bytes_in: u64,
    /// bytes written to sockets
    pub bytes_out: u64,
    /// batches sent to other workers
    pub batches: u64,
    /// passwords checked
    pub passwords_checked: u64,
    /// logins refused because too many waited
    pub checks_refused: u64,
    /// connections that are not read now because of the receive budget
    pub stopped: u64,
}

/// One address and its message counters.
///
/// Numbers that are 0 are left out of its JSON: most are, and a node may have 100,000 addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressLine {
    /// uid of the address in the Plan
    pub uid: String,
    /// its address space
    pub space: String,
    /// its name
    pub name: String,
    /// links that send to it now
    #[serde(skip_serializing_if = "is_zero")]
    pub senders: u32,
    /// links that receive from it now
    #[serde(skip_serializing_if = "is_zero")]
    pub receivers: u32,
    /// deliveries sent to receivers
    #[serde(skip_serializing_if = "is_zero")]
    pub delivered: u64,
    /// bytes of those
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// outcomes of receivers
    #[serde(skip_serializing_if = "is_zero")]
    pub accepted: u64,
    /// outcomes of receivers
    #[serde(skip_serializing_if = "is_zero")]
    pub rejected: u64,
    /// outcomes of receivers
    #[serde(skip_serializing_if = "is_zero")]
    pub released: u64,
    /// outcomes of receivers
    #[serde(skip_serializing_if = "is_zero")]
    pub modified: u64,
    /// deliveries that were settled when they were sent
    #[serde(skip_serializing_if = "is_zero")]
    pub presettled: u64,
    /// presettled deliveries without a consumer
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped: u64,
    /// deliveries that wait for a receiver now
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting: u64,
    /// times at which messages waited and no receiver had credit
    #[serde(skip_serializing_if = "is_zero")]
    pub credit_stalls: u64,
    /// stored messages, in any state
    #[serde(skip_serializing_if = "is_zero")]
    pub stored: u64,
    /// bytes of those
    #[serde(skip_serializing_if = "is_zero")]
    pub stored_bytes: u64,
    /// stored messages that are dispatched to receivers
    #[serde(skip_serializing_if = "is_zero")]
    pub in_flight: u64,
    /// stored messages that wait for their delivery time
    #[serde(skip_serializing_if = "is_zero")]
    pub scheduled: u64,
    /// arrival time of the oldest available message, milliseconds since 1970; 0: there is none
    #[serde(skip_serializing_if = "is_zero")]
    pub oldest_ms: u64,
    /// messages stored since the start
    #[serde(skip_serializing_if = "is_zero")]
    pub enqueued: u64,
    /// failed deliveries
    #[serde(skip_serializing_if = "is_zero")]
    pub redelivered: u64,
    /// duplicates, accepted and not stored
    #[serde(skip_serializing_if = "is_zero")]
    pub duplicates: u64,
    /// expired messages
    #[serde(skip_serializing_if = "is_zero")]
    pub expired: u64,
    /// messages replaced by a newer one with their key
    #[serde(skip_serializing_if = "is_zero")]
    pub replaced: u64,
    /// messages removed to make room: by a ring buffer, or by the retention of a stream
    #[serde(skip_serializing_if = "is_zero")]
    pub overrun: u64,
    /// dead letters because a receiver rejected them
    #[serde(skip_serializing_if = "is_zero")]
    pub dead_rejected: u64,
    /// dead letters because their attempts were used up
    #[serde(skip_serializing_if = "is_zero")]
    pub dead_attempts: u64,
    /// messages sent to a dead-letter or expiry address because their time to live ended
    #[serde(skip_serializing_if = "is_zero")]
    pub dead_expired: u64,
    /// messages lost by damage of the journal
    #[serde(skip_serializing_if = "is_zero")]
    pub damaged: u64,
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

/// The whole node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStats {
    /// version of the Plan in force
    pub plan_version: u64,
    /// open connections
    pub connections: u64,
    /// the bound of connections
    pub connections_max: u64,
    /// how often accepting paused at a bound
    pub accept_pauses: u64,
    /// received bytes that are not stored or passed on now
    pub received_bytes: u64,
    /// the bound of those
    pub receive_budget_bytes: u64,
    /// one per worker
    pub workers: Vec<WorkerStats>,
    /// the journal, if there is one
    pub journal: Option<JournalLine>,
    /// every declared address, by space and name
    pub addresses: Vec<AddressLine>,
}

/// One address space: counters of its traffic, available without asking a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpaceLine {
    /// uid of the space in the Plan
    pub uid: String,
    /// its name
    pub name: String,
    /// connections now
    pub connections: u32,
    /// links now
    pub links: u32,
    /// deliveries that clients began to send since the space was declared or the node started
    pub messages_in: u64,
    /// bytes of those
    pub bytes_in: u64,
    /// deliveries whose sending to clients began
    pub messages_out: u64,
    /// bytes of those
    pub bytes_out: u64,
}

impl SpaceLine {
    pub(crate) fn of(space: &Space) -> Self {
        let ((connections, links), carried) = (space.taken(), space.traffic().total());
        Self {
            uid: space.uid().to_owned(),
            name: space.name().to_owned(),
            connections,
            links,
            messages_in: carried.messages_in,
            bytes_in: carried.bytes_in,
            messages_out: carried.messages_out,
            bytes_out: carried.bytes_out,
        }
    }
}

/// Statistics of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalLine {
    /// bytes of the segments with records
    pub used_bytes: u64,
    /// bytes of live messages
    pub alive_bytes: u64,
    /// bytes appended since the start
    pub appended_bytes: u64,
    /// fsync calls since the start
    pub syncs: u64,
    /// why it has stopped, if it has
    pub stopped: Option<String>,
    /// reads that failed since the start
    pub read_errors: u64,
    /// a segment that is currently unreadable, and why
    pub unreadable: Option<String>,
    /// messages lost by damage since the start, by the uid of their address
    pub damaged: BTreeMap<String, u64>,
    /// messages without a declared address, since the start
    pub unnamed_messages: u64,
    /// segments that have some of them
    pub unnamed_segments: u64,
}

impl JournalLine {
    pub(crate) fn of(counted: &JournalStats) -> Self {
        Self {
            used_bytes: counted.log.used_bytes,
            alive_bytes: counted.log.alive_bytes,
            appended_bytes: counted.log.appended_bytes,
            syncs: counted.log.syncs,
            stopped: counted.stopped.clone(),
            read_errors: counted.read_errors,
            unreadable: counted.unreadable.clone(),
            damaged: counted.damaged.clone(),
            unnamed_messages: counted.unnamed.messages,
            unnamed_segments: counted.unnamed.segments,
        }
    }
}

/// One open connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionLine {
    /// number, unique in the life of the node
    pub id: u64,
    /// the address space, once known
    pub space: Option<String>,
    /// the user, unless anonymous
    pub user: Option<String>,
    /// its container id, once open
    pub container: Option<String>,
    /// name and version of the client's software, as its open states them
    pub product: Option<String>,
    /// address of its peer; `None`: in this process
    pub address: Option<String>,
    /// `amqp`, `amqps`, `mqtt`, `mqtts`, `mqtt-unix`, `ws`, `wss` or `local`
    pub transport: &'static str,
    /// number of its links
    pub links: usize,
    /// deliveries it began to send in its space
    pub messages_in: u64,
    /// bytes of those
    pub bytes_in: u64,
    /// deliveries whose sending to it began
    pub messages_out: u64,
    /// bytes of those
    pub bytes_out: u64,
    /// index of its worker
    pub worker: u16,
}

/// One link of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkLine {
    /// number of its connection
    pub connection: u64,
    /// its name
    pub name: String,
    /// `sender` or `receiver`: the role of the client
    pub role: &'static str,
    /// uids of its addresses; several with wildcards or without a fixed target
    pub addresses: Vec<String>,
    /// deliveries that its sender may begin
    pub credit: u32,
    /// deliveries since its attach
    pub deliveries: u32,
    /// deliveries without an outcome
    pub unsettled: u32,
    /// outcomes of its deliveries since its attach; `None` for MQTT, which has no outcomes
    pub outcomes: Option<OutcomesLine>,
}

/// Outcomes of the deliveries of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OutcomesLine {
    /// accepted
    pub accepted: u32,
    /// rejected
    pub rejected: u32,
    /// released
    pub released: u32,
    /// modified
    pub modified: u32,
}

impl From<OutcomeCounts> for OutcomesLine {
    fn from(counts: OutcomeCounts) -> Self {
        let OutcomeCounts { accepted, rejected, released, modified } = counts;
        Self { accepted, rejected, released, modified }
    }
}

/// The links of a worker, with the keys of their addresses.
pub(crate) type WorkerLinks = Vec<(LinkLine, Vec<AddressKey>)>;

/// The answer of one worker: its own statistics, and those of the addresses of its shard.
pub(crate) struct WorkerAnswer {
    pub(crate) worker: WorkerStats,
    pub(crate) addresses: Vec<(AddressKey, AddressStats)>,
    pub(crate) queues: Vec<(AddressKey, QueueStats)>,
}

impl AddressLine {
    pub(crate) fn new(uid: &str, space: &str, name: &str, stats: &AddressStats) -> Self {
        Self {
            uid: uid.to_owned(),
            space: space.to_owned(),
            name: name.to_owned(),
            senders: stats.producers,
            receivers: stats.consumers,
            delivered: stats.delivered,
            bytes: stats.bytes,
            accepted: stats.accepted,
            rejected: stats.rejected,
            released: stats.released,
            modified: stats.modified,
            presettled: stats.presettled,
            dropped: stats.dropped,
            waiting: stats.waiting,
            credit_stalls: stats.credit_stalls,
            damaged: stats.damaged,
            ..Self::default()
        }
    }

    pub(crate) fn with_queue(self, queue: &QueueStats) -> Self {
        let left = |cause: Cause| queue.removed[cause as usize] + queue.diverted[cause as usize];
        Self {
            stored: queue.ready + queue.scheduled + queue.acquired + queue.leaving,
            stored_bytes: queue.bytes,
            in_flight: queue.acquired,
            scheduled: queue.scheduled,
            oldest_ms: queue.oldest.unwrap_or(0),
            enqueued: queue.enqueued,
            redelivered: queue.redelivered,
            duplicates: queue.duplicates,
            expired: left(Cause::Expired),
            replaced: left(Cause::Replaced),
            overrun: left(Cause::Overrun),
            dead_rejected: left(Cause::Rejected),
            dead_attempts: left(Cause::Attempts),
            dead_expired: queue.diverted[Cause::Expired as usize],
            ..self
        }
    }
}
