//! The interface of the node: start, listen, apply, query, stop. Calls may wait for the workers, at
//! most `ANSWER_TIMEOUT`; none is made once per message.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use enmasse_amqp::connection::Config;
use enmasse_amqp::types::{Symbol, Value};
use enmasse_journal::log::Recovered;
use enmasse_router::core::{AddressKey, QueueNumbers, ReceiveBudget, SubscriptionNames};
use enmasse_router::shard::{self, DynamicNodes, Guesses, LinkNames, Load, Protocol, RecoveredQueues, Shard};
use enmasse_router::table::{Space, Table};

use crate::accept::{self, Acceptor, Bound, Order};
use crate::certificates::{Certificates, SpaceCertificates, UnusableCertificate};
use crate::checks::Checker;
use crate::clock::Clock;
use crate::command::{Command, Pending};
use crate::config::{DummyCredentialSecret, Listener, ListenerKind, NodeConfig};
use crate::confirmation::Unopened;
use crate::creations::{CreationAnswer, CreationQuestion, Creations, refused};
use crate::error::NodeError;
use crate::events::{EventKind, EventQueue, NodeEvent};
use crate::journal::Opened;
use crate::logins::{LoginAnswer, LoginQuestion, Logins};
use crate::mailbox::Mailbox;
use crate::manage::{ManageRequest, Managed, declared};
use crate::mesh::Mesh;
use crate::origin::Origin;
use crate::shared::Shared;
use crate::stats::{ConnectionLine, JournalLine, LinkLine, NodeStats, SpaceLine};
use crate::stream::Stream;
use crate::threads;
use crate::tls_files::TlsSource;
use crate::web_access::WebRules;
use crate::worker::{Worker, WorkerSlot};

/// How long a caller waits for a worker. A worker answers within a turn unless the machine is
/// overloaded.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between checks whether workers are idle before a stop.
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// A running node. Dropping it stops it without waiting.
pub struct Node {
    pub(crate) shared: Arc<Shared>,
    common: Arc<shard::Shared>,
    orders: Arc<Mailbox<Order>>,
    pub(crate) table: Mutex<Arc<Table>>,
    pub(crate) recovered_queues: Mutex<RecoveredQueues>,
    pub(crate) unopened: Mutex<Unopened>,
    pub(crate) certificates: Arc<Certificates>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) journal_threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Node {
    /// Starts the threads of a node without listeners and with an empty Plan.
    ///
    /// # Errors
    /// `Config` for a value out of bounds; `System` if threads or descriptors are not available.
    pub fn start(config: &NodeConfig) -> Result<Self, NodeError> {
        config.check()?;
        let failed = |reason| NodeError::System { what: "the node cannot start", reason };
        let count = config.worker_count();
        let worker_slots = (0..count).map(|_| WorkerSlot::new()).collect::<io::Result<Vec<_>>>().map_err(failed)?;
        let mailboxes = worker_slots.iter().map(|worker_slot| Arc::clone(&worker_slot.mailbox)).collect();
        let events = Arc::new(EventQueue::new().map_err(failed)?);
        let clock = Clock::start();
        let checker = Checker::start(clock).map_err(failed)?;
        let questions = (Logins::new().map_err(failed)?, Creations::new().map_err(failed)?);
        let opened = config.journal.as_deref().map(|folder| open_journal(folder, config)).transpose()?;
        let digests = opened.as_ref().map(|opened| opened.digests);
        let (mut journal, mut recovered_queues, mut journal_threads) =
            (None, RecoveredQueues::new(Recovered::default()), Vec::new());
        if let Some(mut opened) = opened {
            report_damage(&opened.recovered, config.discard_unnamed, &events);
            recovered_queues = RecoveredQueues::new(std::mem::take(&mut opened.recovered));
            let (running, threads) = opened.start(&mailboxes, &events).map_err(failed)?;
            (journal, journal_threads) = (Some(running), threads);
        }
        let shared = Arc::new(Shared::new(config, events, clock, checker, questions, mailboxes, journal));
        let subscription_names = recovered_queues.subscription_names();
        let common = common(config, count, recovered_queues.numbers());
        let common = Arc::new(shard::Shared { subscription_names, ..common });
        let table =
            Arc::new(Table::empty(config.decoy_secret.as_ref().map_or_else(random, DummyCredentialSecret::bytes)));
        let certificates = Arc::new(Certificates::new(Arc::clone(&table)));
        let (acceptor, orders) = Acceptor::new(Arc::clone(&shared)).map_err(failed)?;
        let mut handles = Vec::with_capacity(usize::from(count) + 1);
        for ((index, worker_slot), mesh) in (0..count).zip(worker_slots).zip(Mesh::build(count)) {
            let mut shard = Shard::new(index, Arc::clone(&common), Arc::clone(&table), Box::new(fill_random));
            if let Some(digests) = digests {
                shard.set_digests(digests);
            }
            let worker = Worker::new(index, worker_slot, mesh, Arc::clone(&shared), Arc::clone(&common), shard);
            handles.push(threads::spawn(&format!("worker-{index}"), move || worker.run()).map_err(failed)?);
        }
        handles.push(threads::spawn("accept", move || acceptor.run()).map_err(failed)?);
        let (table, recovered_queues, unopened) = (Mutex::new(table), Mutex::new(recovered_queues), Mutex::default());
        let (threads, journal_threads) = (Mutex::new(handles), Mutex::new(journal_threads));
        Ok(Self { shared, common, orders, table, recovered_queues, unopened, certificates, threads, journal_threads })
    }

    /// Listens on one more address; returns the port.
    ///
    /// # Errors
    /// `Config` if TLS files are missing for a secure kind or given for another; `Tls` if they
    /// cannot be used; `Bind` if the address is taken.
    pub fn listen(&self, listener: Listener) -> Result<u16, NodeError> {
        self.running()?;
        let tls = match (listener.kind.is_secure(), &listener.tls) {
            (true, Some(files)) => Some(TlsSource::load(files.clone(), Arc::clone(&self.certificates))?),
            (false, None) => None,
            (true, None) => {
                let reason = "a secure listener needs the files of a certificate and its key".to_owned();
                return Err(NodeError::Config { field: "tls", reason });
            }
            (false, Some(_)) => {
                let reason = "given for a listener without TLS: remove it, or use amqps or wss".to_owned();
                return Err(NodeError::Config { field: "tls", reason });
            }
        };
        let (bound, address) = accept::bind(&listener)?;
        self.orders.post([Order::Listen { listener: Bound::Tcp(bound), kind: listener.kind, tls }]);
        Ok(address.port())
    }

    /// Listens for MQTT on a Unix socket, whose file owner and group may use. The file of a process
    /// that no longer listens is replaced; `stop` removes it.
    ///
    /// # Errors
    /// `Socket` if another process listens there, another file is there, or the system refuses it.
    pub fn listen_unix(&self, path: &Path) -> Result<(), NodeError> {
        self.running()?;
        let bound = accept::bind_unix(path)?;
        self.orders.post([Order::Listen { listener: bound, kind: ListenerKind::Mqtt, tls: None }]);
        Ok(())
    }

    /// Installs these certificates of spaces from the next handshake on, on all secure listeners.
    /// Existing connections and other spaces are not affected. Returns the certificates that cannot
    /// be presented. Does not block.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn show_certificates(&self, spaces: Vec<SpaceCertificates>) -> Result<Vec<UnusableCertificate>, NodeError> {
        self.running()?;
        Ok(self.certificates.show(spaces))
    }

    /// Admits web pages by these rules and by the Plan, from the next WebSocket handshake on.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn allow_web(&self, rules: &WebRules) -> Result<(), NodeError> {
        self.running()?;
        self.shared.web_access.allow(rules);
        Ok(())
    }

    /// Refuses clients that log in from now on, and keeps the connected ones; `false` lifts it.
    /// Connections within this process are not affected. Does not block.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn cordon(&self, cordoned: bool) -> Result<(), NodeError> {
        self.running()?;
        self.common.cordoned.store(cordoned, Ordering::Relaxed);
        Ok(())
    }

    /// Counters.
    ///
    /// # Errors
    /// `Busy`, `Stopped`.
    pub fn stats(&self) -> Result<NodeStats, NodeError> {
        self.running()?;
        let table = Arc::clone(&lock(&self.table));
        let answers = self.ask(Command::Stats)?;
        Ok(NodeStats::assemble(&self.shared, &self.common.receive_budget, &table, answers))
    }

    /// The traffic of every space that has or had clients, in any order. Does not block: a worker
    /// counts the traffic of a turn at its end.
    #[must_use]
    pub fn usage(&self) -> Vec<SpaceLine> {
        let table = Arc::clone(&lock(&self.table));
        let was_used = |line: &SpaceLine| line.connections > 0 || line.messages_in > 0 || line.messages_out > 0;
        let notified = table.spaces().filter(|space| !space.is_internal());
        notified.map(SpaceLine::of).filter(was_used).collect()
    }

    /// Statistics of the journal, if there is one. Does not block.
    #[must_use]
    pub fn journal(&self) -> Option<JournalLine> {
        self.shared.journal.as_ref().map(|journal| JournalLine::of(&journal.stats()))
    }

    /// Runs one slice of an operation on the messages of an address that no consumer holds.
    ///
    /// # Errors
    /// `NoSuchAddress`; `Request` for a field that cannot be used; `FullAddress` if the target has
    /// no room; `Journal` if the disk is full or fails; `Busy`, `Stopped`.
    pub fn manage(&self, request: &ManageRequest) -> Result<Managed, NodeError> {
        self.running()?;
        let targeted = request.compile(&Arc::clone(&lock(&self.table)))?;
        let (answer, answered) = channel();
        self.shared.mailboxes[usize::from(targeted.home)]
            .post([Command::Operate(Box::new(targeted.operation), answer)]);
        let done = answered.recv_timeout(ANSWER_TIMEOUT).map_err(|error| no_answer(targeted.home, error))?;
        Managed::of(request, done)
    }

    /// The open connections, oldest first.
    ///
    /// # Errors
    /// `Busy`, `Stopped`.
    pub fn connections(&self) -> Result<Vec<ConnectionLine>, NodeError> {
        self.running()?;
        let table = Arc::clone(&lock(&self.table));
        let within = |line: &ConnectionLine| {
            let space = line.space.as_deref().and_then(|name| table.space(table.space_within(name)?));
            space.is_some_and(Space::is_internal)
        };
        let mut lines: Vec<ConnectionLine> = self.ask(Command::List)?.into_iter().flatten().collect();
        lines.retain(|line| !within(line));
        lines.sort_by_key(|line| line.id);
        Ok(lines)
    }

    /// The links of one connection, or of all: those of an address, if its uid is given, and at most
    /// `max`; and the number of the others.
    ///
    /// # Errors
    /// `Busy`, `Stopped`.
    pub fn links(
        &self,
        connection: Option<u64>,
        address: Option<&str>,
        max: usize,
    ) -> Result<(Vec<LinkLine>, usize), NodeError> {
        self.running()?;
        let table = Arc::clone(&lock(&self.table));
        let wanted = address.map(|uid| declared(&table).find(|entry| &*entry.uid == uid).map(|entry| entry.key));
        let answers = self.ask(|answer| Command::ListLinks(connection, answer))?;
        let fits = |keys: &[AddressKey]| wanted.is_none_or(|key| key.is_some_and(|key| keys.contains(&key)));
        let mut found: Vec<_> = answers.into_iter().flatten().filter(|(_, keys)| fits(keys)).collect();
        found.sort_by(|(a, _), (b, _)| (a.connection, &a.name).cmp(&(b.connection, &b.name)));
        let rest = found.len().saturating_sub(max);
        found.truncate(max);
        let named: HashSet<AddressKey> = found.iter().flat_map(|(_, keys)| keys.iter().copied()).collect();
        let uids: HashMap<AddressKey, &str> =
            declared(&table).filter(|entry| named.contains(&entry.key)).map(|entry| (entry.key, &*entry.uid)).collect();
        let lines = found.into_iter().map(|(mut line, keys)| {
            line.addresses = keys.iter().filter_map(|key| uids.get(key).map(|uid| (*uid).to_owned())).collect();
            line
        });
        Ok((lines.collect(), rest))
    }

    /// Closes a connection with `amqp:connection:forced`. `false`: there is no such connection.
    ///
    /// # Errors
    /// `Busy`, `Stopped`.
    pub fn close_connection(&self, connection: u64) -> Result<bool, NodeError> {
        self.running()?;
        Ok(self.ask(|answer| Command::Close(connection, answer))?.contains(&true))
    }

    /// Up to `max` events, oldest first; at most 10,000 are kept, and a loss is reported.
    #[must_use]
    pub fn events(&self, max: usize) -> Vec<NodeEvent> {
        self.shared.events.take(max)
    }

    /// A descriptor that is readable while there are events. It lives as long as the node.
    #[must_use]
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.shared.events.readable()
    }

    /// Up to `max` logins for an external decision: first those of connected clients, then new
    /// logins, oldest first; at most 1,024 of each are unanswered at one time.
    #[must_use]
    pub fn logins(&self, max: usize) -> Vec<LoginQuestion> {
        self.shared.logins.take(max)
    }

    /// A descriptor that is readable while there are logins to decide. It lives as long as the
    /// node.
    #[must_use]
    pub fn login_fd(&self) -> BorrowedFd<'_> {
        self.shared.logins.readable()
    }

    /// Decides a login. A question without a waiting connection is skipped.
    ///
    /// # Errors
    /// `Request` or `Plan` for an invalid answer: the peer then waits until it times out.
    pub fn answer_login(&self, answer: LoginAnswer) -> Result<(), NodeError> {
        let id = answer.id;
        let judged = answer.judged(self.shared.clock.now(), Clock::time_of_day_ms())?;
        if let Some((worker, conn, subject)) = self.shared.logins.answered(id) {
            let command = Command::LoginJudged(conn, subject, Box::new(judged));
            self.shared.mailboxes[usize::from(worker)].post([command]);
        }
        Ok(())
    }

    /// Up to `max` addresses to create for attaching links, the oldest first; at most 256 are
    /// unanswered at one time.
    #[must_use]
    pub fn creations(&self, max: usize) -> Vec<CreationQuestion> {
        self.shared.creations.take(max)
    }

    /// A descriptor that is readable while there are addresses to create. It lives as long as the
    /// node.
    #[must_use]
    pub fn creation_fd(&self) -> BorrowedFd<'_> {
        self.shared.creations.readable()
    }

    /// Ends the question about an address: links that wait for it are refused, or continue with the
    /// Plan that has it. A question without a waiting connection is skipped.
    pub fn answer_creation(&self, answer: CreationAnswer) {
        let waiters = self.shared.creations.answered(answer.id);
        let Some(reason) = answer.refused else { return };
        for waiter in waiters {
            let command = Command::CreationRefused(waiter.conn, waiter.number, refused(reason.clone()));
            self.shared.mailboxes[usize::from(waiter.worker)].post([command]);
        }
    }

    /// Seals an address that has no messages, links or subscriptions, so that no link attaches
    /// until it is deleted; or unseals it. Returns whether it is sealed now: `false` if it is not
    /// in the Plan.
    ///
    /// # Errors
    /// `Busy`, `Stopped`.
    pub fn seal_unused(&self, uid: &str, seal: bool) -> Result<bool, NodeError> {
        self.running()?;
        let table = Arc::clone(&lock(&self.table));
        let Some(entry) = declared(&table).find(|entry| *entry.uid == *uid) else { return Ok(false) };
        let home = entry.home.claim(0);
        let (answer, answered) = channel();
        self.shared.mailboxes[usize::from(home)].post([Command::Seal(Arc::clone(entry), seal, answer)]);
        answered.recv_timeout(ANSWER_TIMEOUT).map_err(|error| no_answer(home, error))
    }

    /// Switches the protocol trace of one connection on or off: its frames become events, one line
    /// each, payloads and secrets omitted. An unknown connection is ignored.
    pub fn trace(&self, connection: u64, on: bool) {
        for mailbox in &self.shared.mailboxes {
            mailbox.post([Command::Trace(connection, on)]);
        }
    }

    /// A connection from within this process to `space` as `user` (`None`: anonymous), already
    /// authenticated: the socket speaks AMQP without a SASL layer.
    ///
    /// # Errors
    /// `NoSuchSpace`; `Full` at the bound of connections; `System`; `Stopped`.
    pub fn connect_in_process(&self, space: &str, user: Option<&str>) -> Result<UnixStream, NodeError> {
        self.running()?;
        if lock(&self.table).space_within(space).is_none() {
            return Err(NodeError::NoSuchSpace(space.to_owned()));
        }
        let full = || NodeError::Full(self.shared.connection_limits.count_max);
        if !self.shared.connection_limits.has_room() {
            return Err(full());
        }
        let failed = |reason| NodeError::System { what: "no socket for a session in this process", reason };
        let (theirs, ours) = UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let stream = Stream::Unix(mio::net::UnixStream::from_std(ours));
        let mut accepted_socket = self
            .shared
            .count_connection(stream, Origin::Process, None, (Protocol::Amqp, false), None)
            .ok_or_else(full)?;
        accepted_socket.vouched = Some((space.to_owned(), user.map(str::to_owned)));
        let worker = accepted_socket.id as usize % self.shared.mailboxes.len();
        self.shared.mailboxes[worker].post([Command::Serve(accepted_socket)]);
        Ok(theirs)
    }

    /// Stops: listeners close, every connection is closed with `amqp:connection:forced`, output is
    /// written, threads end; at `deadline` the remaining connections are cut off. A second call
    /// does nothing.
    pub fn stop(&self, deadline: Duration) {
        let handles = std::mem::take(&mut *lock(&self.threads));
        let begun = Instant::now();
        if !handles.is_empty() {
            self.drain(deadline / 2);
        }
        self.begin_stop(deadline.saturating_sub(begun.elapsed()));
        for handle in handles {
            // A thread that panicked has ended the process already.
            let _ = handle.join();
        }
        // Batches from workers are on disk before the journal ends.
        if let Some(journal) = &self.shared.journal {
            journal.stop();
        }
        for handle in std::mem::take(&mut *lock(&self.journal_threads)) {
            let _ = handle.join();
        }
    }

    /// Waits until the journal has answered all received messages and the workers have passed the
    /// answers on, so that a stored message is accepted before its connection is closed. Input is
    /// paused in the meantime. Complete when, in two consecutive checks, every worker is idle and
    /// no batch is in flight between workers.
    fn drain(&self, time_limit: Duration) {
        self.orders.post([Order::Stop]);
        let (begun, mut before) = (Instant::now(), None);
        while begun.elapsed() < time_limit {
            let Ok(pending) = self.ask(Command::Drain) else { return };
            let sum = |of: fn(&Pending) -> u64| pending.iter().map(of).sum::<u64>();
            let (sent, received) = (sum(|one| one.sent), sum(|one| one.received));
            let quiet = sent == received && !pending.iter().any(|one| one.busy);
            if quiet && before == Some(sent) {
                return;
            }
            before = quiet.then_some(sent);
            std::thread::sleep(DRAIN_CHECK_INTERVAL);
        }
    }

    fn begin_stop(&self, deadline: Duration) {
        self.orders.post([Order::Stop]);
        let end = self.shared.clock.now().plus_millis(deadline.as_millis() as u64);
        for mailbox in &self.shared.mailboxes {
            mailbox.post([Command::Stop(end)]);
        }
    }

    pub(crate) fn running(&self) -> Result<(), NodeError> {
        if lock(&self.threads).is_empty() { Err(NodeError::Stopped) } else { Ok(()) }
    }

    /// Sends a command to every worker and waits for all answers, in the order of the workers.
    pub(crate) fn ask<T>(&self, command: impl Fn(Sender<T>) -> Command) -> Result<Vec<T>, NodeError> {
        let waiting: Vec<Receiver<T>> = self
            .shared
            .mailboxes
            .iter()
            .map(|mailbox| {
                let (answer, answered) = channel();
                mailbox.post([command(answer)]);
                answered
            })
            .collect();
        let answer = |(worker, one): (u16, Receiver<T>)| {
            one.recv_timeout(ANSWER_TIMEOUT).map_err(|error| no_answer(worker, error))
        };
        (0..).zip(waiting).map(answer).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if !lock(&self.threads).is_empty() {
            self.begin_stop(Duration::ZERO);
            if let Some(journal) = &self.shared.journal {
                journal.stop();
            }
        }
    }
}

pub(crate) fn no_answer(worker: u16, error: RecvTimeoutError) -> NodeError {
    match error {
        RecvTimeoutError::Timeout => NodeError::Busy { worker, waited_s: ANSWER_TIMEOUT.as_secs() },
        RecvTimeoutError::Disconnected => NodeError::Stopped,
    }
}

/// The damage of a segment is one event, and so are all repairs; the affected messages are reported
/// by their addresses.
fn report_damage(recovered: &Recovered, discarded: bool, events: &EventQueue) {
    for gaps in recovered.gaps.chunk_by(|one, next| one.segment == next.segment) {
        let (segment, offset) = (gaps[0].segment, gaps[0].offset);
        let bytes = gaps.iter().map(|gap| gap.bytes).fold(0, u32::saturating_add);
        events.push(NodeEvent::new(EventKind::JournalDamaged { segment, offset, bytes }));
    }
    for queue in recovered.unnamed_queues() {
        let messages = queue.messages_with_lost();
        events.push(NodeEvent::new(EventKind::JournalUnnamed { queue: queue.queue, messages, discarded }));
    }
    if recovered.repaired > 0 {
        events.push(NodeEvent::new(EventKind::JournalMended { records: recovered.repaired }));
    }
}

fn open_journal(folder: &Path, config: &NodeConfig) -> Result<Opened, NodeError> {
    let mut secret = [0; 20];
    fill_random(&mut secret);
    let opened = Opened::at(folder, config.journal_segment_bytes, secret);
    let opened = if config.discard_unnamed { opened.and_then(Opened::without_unnamed) } else { opened };
    opened.map_err(NodeError::Journal)
}

/// The state shared by shards, from the configuration.
pub(crate) fn common(config: &NodeConfig, count: u16, queue_numbers: QueueNumbers) -> shard::Shared {
    let limits = &config.limits;
    let connection = Config {
        container_id: config.container_id.as_str().into(),
        max_frame_size: limits.max_frame_size_bytes,
        idle_time_out_ms: limits.idle_timeout_ms,
        handshake_ms: u32::try_from(limits.handshake_timeout_ms).unwrap_or(u32::MAX),
        // The anonymous terminus, and what JMS clients request (contracts 7 and 8).
        offered_capabilities: ["ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS"].map(Symbol::constant).to_vec(),
        properties: vec![
            (Symbol::constant("product"), Value::String("EnMasse".to_owned())),
            (Symbol::constant("version"), Value::String(env!("CARGO_PKG_VERSION").to_owned())),
        ],
        ..Config::default()
    };
    let mqtt = enmasse_mqtt::connection::Config {
        handshake_ms: limits.handshake_timeout_ms.min(u64::from(u32::MAX)) as u32,
        ..enmasse_mqtt::connection::Config::default()
    };
    shard::Shared {
        connection: Arc::new(connection),
        mqtt: Arc::new(mqtt),
        dynamic: DynamicNodes::default(),
        link_names: LinkNames::default(),
        subscription_names: SubscriptionNames::default(),
        loads: (0..count).map(|_| Load::default()).collect(),
        link_capacity: limits.link_capacity,
        queue_numbers,
        message_size_max: None,
        mqtt_hold_ms: limits.mqtt_hold_ms,
        multicast_settle_timeout_ms: limits.multicast_settle_timeout_ms,
        insecure: config.insecure,
        receive_budget: Arc::new(ReceiveBudget::new(limits.receive_budget_bytes)),
        guesses: Mutex::new(Guesses::new(u64::from_le_bytes(random()[..8].try_into().unwrap_or_default()))),
        cordoned: AtomicBool::new(false),
    }
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    fill_random(&mut bytes);
    bytes
}

fn fill_random(bytes: &mut [u8]) {
    // The system's generator fails only on a system where no process can run safely.
    if aws_lc_rs::rand::fill(bytes).is_err() {
        panic!("the random number generator of the system failed");
    }
}

// A poisoned lock means that a caller panicked; the guarded value is always consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
