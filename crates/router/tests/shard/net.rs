//! Client machines joined to shards by lossless wires: each side reads the other's output at once.

mod surroundings;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use enmasse_amqp::codec::describe;
use enmasse_amqp::connection::{Config, Connection, Event, LinkId, OutcomeCounts, Outgoing, SessionId, Tag};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{
    Attach, Body, DeliveryState, Error, Message, Open, Outcome, Properties, ReceiverSettleMode, Role, SaslInit,
    SenderSettleMode, Source, Symbol, Target, condition,
};
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{CommitSchedule, Committed, Lane, Log};
use enmasse_router::core::{
    AddressKey, Answer, QueueNumbers, Read, ReceiveBudget, SETTLE_TIMEOUT_MS, SubscriptionNames,
};
use enmasse_router::plan::Plan;
use enmasse_router::shard::{
    ConnId, DynamicNodes, Entropy, Fact, InputProgress, LinkNames, Load, LoginSubject, Peer, Protocol, Request, Shard,
    Shared, WantedAddress,
};
use enmasse_router::table::{AddressEntry, Judged, Question, Space, Table};

/// The events of a client, in order, without their borrowed parts.
#[derive(Debug, PartialEq)]
pub(crate) enum ClientEvent {
    Open,
    Attached { link: LinkId, attach: Box<Attach> },
    Message { link: LinkId, delivery_id: u32, settled: bool, payload: Vec<u8>, tag: Vec<u8>, resume: bool },
    Credit { link: LinkId, credit: u32 },
    Outcome { first: u32, last: u32, outcome: Outcome },
    Declared(Vec<u8>),
    Provisional { first: u32, last: u32, txn_id: Vec<u8>, outcome: Outcome },
    Ended(Option<Error>),
    SenderSettled { first: u32, last: u32 },
    Flow { link: LinkId, credit: u32, drain: bool },
    Detach { link: LinkId, error: Option<Error> },
    Closed(Option<Error>),
}

pub(crate) struct Client {
    machine: Connection,
    pub(crate) session: Option<SessionId>,
    server: (usize, ConnId),
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    partial: Vec<u8>,
    pub(crate) received: VecDeque<ClientEvent>,
    /// the server's output, described
    pub(crate) frames: Vec<String>,
    sasl: Option<SaslInit>,
    gone: bool,
    /// its shard takes bytes
    pub(crate) wanted: bool,
    /// reads nothing
    pub(crate) deaf: bool,
    /// settles nothing that it has sent
    pub(crate) keeps: bool,
}

/// A client of MQTT, as bytes.
pub(crate) struct Device {
    server: (usize, ConnId),
    to_server: Vec<u8>,
    pub(crate) received: Vec<u8>,
    wanted: bool,
    pub(crate) finished: bool,
    /// reads nothing
    pub(crate) deaf: bool,
}

pub(crate) struct Net {
    pub(crate) shards: Vec<Shard>,
    pub(crate) clients: Vec<Client>,
    pub(crate) devices: Vec<Device>,
    pub(crate) facts: Vec<Fact>,
    /// the service's answer to every request
    pub(crate) judge: Judged,
    pub(crate) requested: Vec<(LoginSubject, Question)>,
    /// addresses that links want created, with the number of the attach and who asks
    pub(crate) wanted: Vec<(usize, ConnId, u64, WantedAddress, Option<String>)>,
    table: Arc<Table>,
    /// addresses that the last plan has no more
    removed: Vec<AddressKey>,
    /// the most output of one connection that was ever seen
    pub(crate) output_max_bytes: usize,
    now: Time,
    paused: bool,
    pub(crate) receive_budget: Arc<ReceiveBudget>,
    shared: Arc<Shared>,
    /// the store of the shards
    pub(crate) log: Option<Log<SimulatedDisk>>,
    /// parts of joint groups until the others come
    commits: CommitSchedule,
}

/// A seeded generator, so that every run is the same.
fn entropy(mut state: u64) -> Entropy {
    Box::new(move |bytes| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 33) as u8;
        }
    })
}

impl Net {
    pub(crate) fn new(shards: u16, plan: &str) -> Self {
        Self::with_budget(shards, plan, 1 << 30)
    }

    /// A node that may have so many received bytes that are not stored.
    pub(crate) fn with_budget(shards: u16, plan: &str, budget_bytes: u64) -> Self {
        let plan: Plan = serde_json::from_str(plan).expect("the plan is in order");
        let table = Arc::new(Table::compile(&plan, &Table::empty([7; 32])).expect("the plan compiles"));
        let receive_budget = Arc::new(ReceiveBudget::new(budget_bytes));
        let shared = Arc::new(Shared {
            connection: Arc::new(Config::default()),
            dynamic: DynamicNodes::default(),
            mqtt: Arc::default(),
            link_names: LinkNames::default(),
            subscription_names: SubscriptionNames::default(),
            loads: (0..shards).map(|_| Load::default()).collect(),
            link_capacity: 1000,
            message_size_max: None,
            mqtt_hold_ms: 10_000,
            multicast_settle_timeout_ms: SETTLE_TIMEOUT_MS,
            queue_numbers: QueueNumbers::new(1),
            insecure: false,
            receive_budget: Arc::clone(&receive_budget),
            guesses: std::sync::Mutex::new(enmasse_router::shard::Guesses::new(7)),
            cordoned: AtomicBool::new(false),
        });
        let shards = (0..shards)
            .map(|index| Shard::new(index, Arc::clone(&shared), Arc::clone(&table), entropy(u64::from(index) + 1)))
            .collect();
        Self {
            shards,
            clients: Vec::new(),
            devices: Vec::new(),
            facts: Vec::new(),
            judge: Judged::Wrong("no answer".to_owned()),
            requested: Vec::new(),
            wanted: Vec::new(),
            table,
            removed: Vec::new(),
            output_max_bytes: 0,
            now: Time::ZERO,
            paused: false,
            receive_budget,
            shared,
            log: None,
            commits: CommitSchedule::new(4 << 20),
        }
    }

    /// The node refuses new clients, or admits them again.
    pub(crate) fn cordon(&self, cordoned: bool) {
        self.shared.cordoned.store(cordoned, Ordering::Relaxed);
    }

    /// A new plan, which every shard takes over.
    pub(crate) fn apply(&mut self, plan: &str) {
        self.plan(plan);
        for shard in 0..self.shards.len() {
            self.take_over(shard);
        }
        self.run();
    }

    /// A new plan, which the shards have yet to take over.
    pub(crate) fn plan(&mut self, plan: &str) {
        let plan: Plan = serde_json::from_str(plan).expect("the plan is in order");
        let table = Table::compile(&plan, &self.table).expect("the plan compiles");
        self.removed = self.table.diff(&table).removed.iter().map(|entry| entry.key).collect();
        self.table = Arc::new(table);
    }

    /// The first pending attach gets no address.
    pub(crate) fn refuse_wanted(&mut self, why: &str) {
        let (shard, conn, number, ..) = self.wanted.remove(0);
        self.shards[shard].creation_refused(conn, number, Error::new(condition::NOT_FOUND, why));
        self.run();
    }

    /// A declared address of the open space.
    pub(crate) fn entry(&self, name: &str) -> Arc<AddressEntry> {
        let space = self.table.spaces().next().expect("a space");
        Arc::clone(space.resolve(name).expect("an address"))
    }

    /// The table of the last plan.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The first space there is.
    pub(crate) fn space(&self) -> &Space {
        self.table.spaces().next().expect("a space")
    }

    pub(crate) fn take_over(&mut self, shard: usize) {
        self.shards[shard].apply(Arc::clone(&self.table), &self.removed);
    }

    /// Time passes, and the due work is done.
    pub(crate) fn pass(&mut self, millis: u64) {
        self.now = self.now.plus_millis(millis);
        for client in 0..self.clients.len() {
            let (shard, id) = self.clients[client].server;
            if self.shards[shard].next_timeout(id).is_some_and(|due| due <= self.now) {
                self.shards[shard].timeout(self.now, id);
            }
        }
        for device in 0..self.devices.len() {
            let (shard, id) = self.devices[device].server;
            if self.shards[shard].next_timeout(id).is_some_and(|due| due <= self.now) {
                self.shards[shard].timeout(self.now, id);
            }
        }
        self.run();
    }

    /// A client of MQTT, connected to `shard`.
    pub(crate) fn device(&mut self, shard: usize) -> usize {
        let peer = Peer { loopback: true, protocol: Protocol::Mqtt, ..Peer::default() };
        let id = self.shards[shard].connect(self.now, &peer);
        let server = (shard, id);
        self.devices.push(Device {
            server,
            to_server: Vec::new(),
            received: Vec::new(),
            wanted: true,
            finished: false,
            deaf: false,
        });
        self.devices.len() - 1
    }

    /// A client of MQTT sends bytes.
    pub(crate) fn tell(&mut self, device: usize, bytes: &[u8]) {
        self.devices[device].to_server.extend_from_slice(bytes);
        self.run();
    }

    /// A client of MQTT that read nothing reads again.
    pub(crate) fn hear(&mut self, device: usize) {
        self.devices[device].deaf = false;
        let (shard, id) = self.devices[device].server;
        if let Some(output) = self.shards[shard].output(id) {
            self.devices[device].received.append(output);
        }
        self.shards[shard].written(id);
        self.run();
    }

    /// The socket of a client of MQTT breaks.
    pub(crate) fn cut_device(&mut self, device: usize) {
        let (shard, id) = self.devices[device].server;
        self.devices[device].finished = true;
        self.shards[shard].closed(id);
        self.run();
    }

    /// A client that speaks no SASL, connected to `shard`.
    pub(crate) fn plain(&mut self, shard: usize, open: Open) -> usize {
        self.client(shard, Peer { loopback: true, ..Peer::default() }, None, open)
    }

    pub(crate) fn client(&mut self, shard: usize, peer: Peer, sasl: Option<SaslInit>, open: Open) -> usize {
        let machine = Connection::client(Arc::new(Config::default()), self.now, sasl.is_some(), open);
        let id = self.shards[shard].connect(self.now, &peer);
        self.clients.push(Client {
            machine,
            session: None,
            server: (shard, id),
            to_client: Vec::new(),
            to_server: Vec::new(),
            partial: Vec::new(),
            received: VecDeque::new(),
            frames: Vec::new(),
            sasl,
            gone: false,
            wanted: true,
            deaf: false,
            keeps: false,
        });
        self.run();
        self.clients.len() - 1
    }

    /// A connected client with a session on the first space there is.
    pub(crate) fn simple(&mut self, shard: usize) -> usize {
        let client = self.plain(shard, Open { container_id: format!("c{}", self.clients.len()), ..Open::default() });
        self.begin(client);
        client
    }

    pub(crate) fn begin(&mut self, client: usize) {
        let session = self.clients[client].machine.begin().expect("the connection is open");
        self.clients[client].session = Some(session);
        self.run();
    }

    pub(crate) fn sender(&mut self, client: usize, address: Option<&str>) -> LinkId {
        let mut attach = blank(Role::Sender, format!("s{}", self.clients[client].received.len()));
        attach.target = Some(Box::new(Target::node(address.map(str::to_owned))));
        self.attach(client, attach)
    }

    pub(crate) fn receiver(&mut self, client: usize, address: &str, credit: u32) -> LinkId {
        let mut attach = blank(Role::Receiver, format!("r{address}"));
        attach.source = Some(Box::new(Source { address: Some(address.to_owned()), ..Source::default() }));
        let link = self.attach(client, attach);
        self.grant(client, link, credit);
        link
    }

    /// A receiver that wants its deliveries settled.
    pub(crate) fn settled_receiver(&mut self, client: usize, address: &str, credit: u32) {
        let mut attach = blank(Role::Receiver, "settled".to_owned());
        attach.snd_settle_mode = SenderSettleMode::Settled;
        attach.source = Some(Box::new(Source { address: Some(address.to_owned()), ..Source::default() }));
        let link = self.attach(client, attach);
        self.grant(client, link, credit);
    }

    /// A receiver of messages of at most `size` bytes.
    pub(crate) fn small_receiver(&mut self, client: usize, address: &str, credit: u32, size: u64) -> LinkId {
        let mut attach = blank(Role::Receiver, "small".to_owned());
        attach.max_message_size = Some(size);
        attach.source = Some(Box::new(Source { address: Some(address.to_owned()), ..Source::default() }));
        let link = self.attach(client, attach);
        self.grant(client, link, credit);
        link
    }

    pub(crate) fn attach(&mut self, client: usize, attach: Attach) -> LinkId {
        let state = &mut self.clients[client];
        let session = state.session.expect("the client has a session");
        let link = state.machine.attach(session, attach).expect("the session is open");
        self.run();
        link
    }

    pub(crate) fn grant(&mut self, client: usize, link: LinkId, credit: u32) {
        self.clients[client].machine.grant(link, credit);
        self.run();
    }

    /// A deaf client reads again, all there is.
    pub(crate) fn listen(&mut self, client: usize) {
        let state = &mut self.clients[client];
        state.deaf = false;
        let (shard, id) = state.server;
        if let Some(output) = self.shards[shard].output(id) {
            state.to_client.append(output);
        }
        self.shards[shard].written(id);
        self.run();
    }

    pub(crate) fn drain(&mut self, client: usize, link: LinkId) {
        self.clients[client].machine.drain(link);
        self.run();
    }

    /// Detaches a link that may return.
    pub(crate) fn leave(&mut self, client: usize, link: LinkId) {
        self.clients[client].machine.detach(link, false, None);
        self.run();
    }

    pub(crate) fn detach(&mut self, client: usize, link: LinkId) {
        self.clients[client].machine.detach(link, true, None);
        self.run();
    }

    /// A client sends bytes that its machine did not produce.
    pub(crate) fn say(&mut self, client: usize, bytes: &[u8]) {
        self.clients[client].to_server.extend_from_slice(bytes);
        self.run();
    }

    /// A client closes its connection.
    pub(crate) fn close(&mut self, client: usize) {
        self.clients[client].machine.close(None);
        self.run();
    }

    /// The node shuts down.
    pub(crate) fn shut_down(&mut self) {
        let error = Error::new(condition::CONNECTION_FORCED, "the node is shutting down");
        self.shards.iter_mut().for_each(|shard| shard.close_all(&error));
        self.run();
    }

    /// The socket breaks.
    pub(crate) fn cut(&mut self, client: usize) {
        let (shard, id) = self.clients[client].server;
        self.clients[client].gone = true;
        self.shards[shard].closed(id);
        self.run();
    }

    pub(crate) fn sendable(&self, client: usize, link: LinkId) -> u32 {
        self.clients[client].machine.sendable(link)
    }

    pub(crate) fn send(&mut self, client: usize, link: LinkId, payload: &[u8], settled: bool) {
        self.piece(client, link, payload, settled, true, false);
    }

    pub(crate) fn piece(&mut self, client: usize, link: LinkId, bytes: &[u8], settled: bool, first: bool, more: bool) {
        let token = (!settled).then_some(0);
        let piece = Outgoing { token, message_format: 0, first, more, aborted: false, payload: bytes };
        self.clients[client].machine.transfer(link, piece).expect("the link may send");
        self.run();
    }

    pub(crate) fn send_named(&mut self, client: usize, link: LinkId, payload: &[u8], settled: bool, tag: Tag<'_>) {
        let token = (!settled).then_some(0);
        let piece = Outgoing { token, message_format: 0, first: true, more: false, aborted: false, payload };
        self.clients[client].machine.transfer_named(link, piece, tag).expect("the link may send");
        self.run();
    }

    pub(crate) fn settle(&mut self, client: usize, link: LinkId, delivery_id: u32, outcome: &Outcome) {
        self.clients[client].machine.settle(link, delivery_id, outcome);
        self.run();
    }

    /// As `piece`, with a state.
    pub(crate) fn piece_with(
        &mut self,
        client: usize,
        link: LinkId,
        (bytes, state): (&[u8], &DeliveryState),
        settled: bool,
        first: bool,
        more: bool,
    ) {
        let token = (!settled).then_some(0);
        let piece = Outgoing { token, message_format: 0, first, more, aborted: false, payload: bytes };
        self.clients[client].machine.transfer_with(link, piece, state).expect("the link may send");
        self.run();
    }

    pub(crate) fn settle_with(
        &mut self,
        client: usize,
        link: LinkId,
        delivery_id: u32,
        state: &DeliveryState,
        settled: bool,
    ) {
        self.clients[client].machine.settle_with(link, delivery_id, state, settled);
        self.run();
    }

    pub(crate) fn end(&mut self, client: usize) {
        let session = self.clients[client].session.take().expect("the client has a session");
        self.clients[client].machine.end(session, None);
        self.run();
    }

    /// Payloads that arrived since the last look, with their delivery ids.
    pub(crate) fn messages(&mut self, client: usize) -> Vec<(u32, Vec<u8>)> {
        let mut found = Vec::new();
        self.clients[client].received.retain_mut(|received| match received {
            ClientEvent::Message { delivery_id, payload, .. } => {
                found.push((*delivery_id, std::mem::take(payload)));
                false
            }
            _ => true,
        });
        found
    }

    /// Outcomes that the node has counted at links of a client: those that send, or receive.
    pub(crate) fn counted(&self, client: usize, client_sends: bool) -> OutcomeCounts {
        let (shard, id) = self.clients[client].server;
        let mut counts = OutcomeCounts::default();
        let links = self.shards[shard].links_of(id).into_iter();
        let links = links.filter(|link| link.client_sends == client_sends && link.name != "control");
        links.filter_map(|link| link.outcomes).for_each(|outcomes| counts.join(&outcomes));
        counts
    }

    /// Outcomes received since the last call, one for each delivery.
    pub(crate) fn outcomes(&mut self, client: usize) -> Vec<(u32, Outcome)> {
        let mut found = Vec::new();
        self.clients[client].received.retain(|received| match received {
            ClientEvent::Outcome { first, last, outcome } => {
                found.extend((*first..=*last).map(|id| (id, outcome.clone())));
                false
            }
            _ => true,
        });
        found
    }

    pub(crate) fn detached(&mut self, client: usize) -> Option<Error> {
        self.clients[client].received.iter().find_map(|received| match received {
            ClientEvent::Detach { error, .. } => error.clone(),
            _ => None,
        })
    }

    pub(crate) fn closed(&self, client: usize) -> Option<Option<Error>> {
        self.clients[client].received.iter().find_map(|received| match received {
            ClientEvent::Closed(error) => Some(error.clone()),
            _ => None,
        })
    }

    /// The operations of `what` happen before any side reads output.
    pub(crate) fn at_once(&mut self, what: impl FnOnce(&mut Self)) {
        self.paused = true;
        what(self);
        self.paused = false;
        self.run();
    }

    /// The output of a client reaches its shard, and for one turn nothing goes further. Whether the
    /// shard has an answer.
    pub(crate) fn reaches_its_shard(&mut self, client: usize, what: impl FnOnce(&mut Self)) -> bool {
        self.paused = true;
        what(self);
        self.clients[client].speak(self.now);
        self.dispatch_backlog(client);
        let (shard, id) = self.clients[client].server;
        self.shards[shard].end_turn(self.now);
        self.paused = false;
        self.shards[shard].output(id).is_some_and(|output| !output.is_empty())
    }

    /// The output of a client reaches its shard, which processes it for `budget_nanos` and keeps
    /// the rest.
    pub(crate) fn feed_within(
        &mut self,
        client: usize,
        budget_nanos: u64,
        what: impl FnOnce(&mut Self),
    ) -> InputProgress {
        self.paused = true;
        what(self);
        self.paused = false;
        self.clients[client].speak(self.now);
        let (shard, id) = self.clients[client].server;
        let bytes = std::mem::take(&mut self.clients[client].to_server);
        let progress = self.shards[shard].input_within(self.now, id, &bytes, budget_nanos);
        self.clients[client].to_server = bytes[progress.used..].to_vec();
        progress
    }

    /// Work done for a client while it was not read, since the last look.
    pub(crate) fn work(&mut self, client: usize) -> u64 {
        let (shard, id) = self.clients[client].server;
        self.shards[shard].take_work(id)
    }

    /// Exchanges all output until no side has any.
    pub(crate) fn run(&mut self) {
        while !self.paused {
            let mut moved = false;
            for client in &mut self.clients {
                moved |= client.speak(self.now);
            }
            for index in 0..self.clients.len() {
                moved |= self.dispatch_backlog(index);
            }
            for index in 0..self.devices.len() {
                moved |= self.dispatch_device(index);
            }
            moved |= self.turn();
            if !moved {
                return;
            }
        }
    }

    fn dispatch_backlog(&mut self, index: usize) -> bool {
        let client = &mut self.clients[index];
        let (shard, id) = client.server;
        if client.gone || !client.wanted || client.to_server.is_empty() {
            return false;
        }
        let bytes = std::mem::take(&mut client.to_server);
        let used = self.shards[shard].input(self.now, id, &bytes);
        self.clients[index].to_server.splice(0..0, bytes[used..].iter().copied());
        used > 0
    }

    fn dispatch_device(&mut self, index: usize) -> bool {
        let device = &mut self.devices[index];
        let (shard, id) = device.server;
        if device.finished || !device.wanted || device.to_server.is_empty() {
            return false;
        }
        let bytes = std::mem::take(&mut device.to_server);
        let used = self.shards[shard].input(self.now, id, &bytes);
        self.devices[index].to_server.splice(0..0, bytes[used..].iter().copied());
        used > 0
    }

    fn turn(&mut self) -> bool {
        let mut moved = false;
        for from in 0..self.shards.len() {
            for to in 0..self.shards.len() {
                if let Some(batch) = self.shards[from].take_batch(to as u16) {
                    self.shards[to].receive(&batch);
                    moved = true;
                }
            }
        }
        for shard in 0..self.shards.len() {
            moved |= self.requests(shard);
            self.shards[shard].end_turn(self.now);
            while self.journal(shard) {
                moved = true;
                self.shards[shard].end_turn(self.now);
            }
            // All at once: connections marked while output is written are flushed at the end of the
            // next turn.
            let attentions: Vec<_> = std::iter::from_fn(|| self.shards[shard].dirty()).collect();
            for attention in attentions {
                let Some(output) = self.shards[shard].output(attention.conn) else { continue };
                let device = self.devices.iter_mut().find(|device| device.server == (shard, attention.conn));
                if let Some(device) = device {
                    moved |= attention.wants_read && !device.wanted;
                    device.wanted = attention.wants_read;
                    device.finished = attention.finished;
                    if device.deaf {
                        continue;
                    }
                    moved |= !output.is_empty();
                    device.received.append(output);
                    self.shards[shard].written(attention.conn);
                    continue;
                }
                let Some(client) = self.clients.iter_mut().find(|client| client.server == (shard, attention.conn))
                else {
                    continue;
                };
                moved |= attention.wants_read && !client.wanted;
                client.wanted = attention.wants_read;
                self.output_max_bytes = self.output_max_bytes.max(output.len());
                if client.deaf {
                    continue;
                }
                let bytes = std::mem::take(output);
                moved |= !bytes.is_empty();
                client.to_client.extend(bytes);
                self.shards[shard].written(attention.conn);
            }
        }
        moved
    }
}

impl Client {
    /// Reads all input and writes all output.
    fn speak(&mut self, now: Time) -> bool {
        let mut moved = !self.to_client.is_empty();
        self.frames.extend(describe(&self.to_client).lines().map(str::to_owned));
        self.partial.append(&mut self.to_client);
        let bytes = std::mem::take(&mut self.partial);
        let mut rest = &bytes[..];
        while let Some(event) = self.machine.poll_event(now, &mut rest) {
            moved = true;
            match event {
                Event::SaslMechanisms(_) => self.machine.sasl_init(self.sasl.clone().expect("the client has SASL")),
                Event::Open(_) => self.received.push_back(ClientEvent::Open),
                Event::Attached { link, attach } => self.received.push_back(ClientEvent::Attached { link, attach }),
                Event::Transfer(incoming) => {
                    let (link, delivery_id, settled) = (incoming.link, incoming.delivery_id, incoming.settled);
                    if incoming.first {
                        let payload = incoming.payload.to_vec();
                        let (tag, resume) = (incoming.tag.to_vec(), incoming.resume);
                        self.received.push_back(ClientEvent::Message {
                            link,
                            delivery_id,
                            settled,
                            payload,
                            tag,
                            resume,
                        });
                    } else if let Some(ClientEvent::Message { payload, .. }) = self
                        .received
                        .iter_mut()
                        .rev()
                        .find(|received| matches!(received, ClientEvent::Message { link: l, .. } if *l == link))
                    {
                        payload.extend_from_slice(incoming.payload);
                    }
                }
                Event::Credit { link, credit, .. } => self.received.push_back(ClientEvent::Credit { link, credit }),
                Event::Flow { link, credit, drain, .. } => {
                    self.received.push_back(ClientEvent::Flow { link, credit, drain })
                }
                Event::Disposition { session, first, last, settled, outcome } => {
                    if !self.keeps {
                        self.machine.take_settled(session, first, last, settled, |_, _| ());
                    }
                    self.received.push_back(ClientEvent::Outcome { first, last, outcome });
                }
                Event::Declared { session, first, last, settled, txn_id } => {
                    self.machine.take_settled(session, first, last, settled, |_, _| ());
                    self.received.push_back(ClientEvent::Declared(txn_id));
                }
                Event::Provisional { session, first, last, settled, txn_id, outcome } => {
                    self.machine.take_settled(session, first, last, settled, |_, _| ());
                    self.received.push_back(ClientEvent::Provisional { first, last, txn_id, outcome });
                }
                Event::End { error, .. } => self.received.push_back(ClientEvent::Ended(error)),
                Event::SenderSettled { first, last, .. } => {
                    self.received.push_back(ClientEvent::SenderSettled { first, last })
                }
                Event::Detach { link, error, .. } => self.received.push_back(ClientEvent::Detach { link, error }),
                Event::Closed { error, .. } => self.received.push_back(ClientEvent::Closed(error)),
                _ => {}
            }
        }
        self.partial = rest.to_vec();
        self.machine.flush(now);
        let output = self.machine.output();
        moved |= !output.is_empty();
        self.to_server.append(output);
        moved
    }
}

pub(crate) fn blank(role: Role, name: String) -> Attach {
    Attach {
        name,
        handle: 0,
        role,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(Box::default()),
        target: Some(Box::new(Target::node(None))),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: (role == Role::Sender).then_some(0),
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Vec::new(),
    }
}

/// An encoded message to `to`.
pub(crate) fn message_to(to: &str, reply_to: Option<&str>, body: &[u8]) -> Vec<u8> {
    let message = Message {
        header: None,
        delivery_annotations: Vec::new(),
        message_annotations: Vec::new(),
        properties: Some(Properties {
            to: Some(to.to_owned()),
            reply_to: reply_to.map(str::to_owned),
            ..Properties::default()
        }),
        application_properties: Vec::new(),
        body: Body::Data(vec![body.to_vec()]),
        footer: Vec::new(),
    };
    let mut bytes = Vec::new();
    enmasse_amqp::codec::encode_message(&mut bytes, &message);
    bytes
}

/// The attach of a receiver on a node to be made.
pub(crate) fn dynamic_receiver() -> Attach {
    let mut attach = blank(Role::Receiver, "reply".to_owned());
    attach.source = Some(Box::new(Source { dynamic: true, ..Source::default() }));
    attach
}

pub(crate) fn plain_init(user: &str, password: &str) -> SaslInit {
    SaslInit {
        mechanism: Symbol::constant("PLAIN"),
        initial_response: Some(format!("\0{user}\0{password}").into_bytes()),
        hostname: None,
    }
}
