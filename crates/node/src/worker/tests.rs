//! Workers that run only when the test calls their turn.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use enmasse_amqp::connection::{Config, Connection, Event, LinkId, Outgoing, SessionId};
use enmasse_amqp::types::{Attach, Open, ReceiverSettleMode, Role, SenderSettleMode, Source, Target};
use enmasse_router::core::QueueNumbers;
use enmasse_router::plan::Plan;
use enmasse_router::shard::Protocol;
use enmasse_router::table::Table;

use super::*;
use crate::checks::Checker;
use crate::config::NodeConfig;
use crate::creations::Creations;
use crate::events::EventQueue;
use crate::logins::Logins;
use crate::mesh::RING_BYTES;
use crate::node::common;
use crate::origin::Origin;
use crate::stream::Stream;

const PLAN: &str = include_str!("../../../../vectors/plans/open.json");
const MESSAGE_BYTES: usize = 60_000;
/// Turns without progress after which the sender counts as stopped.
const PATIENCE_TURNS: usize = 200;

fn workers(count: u16, plan: &str) -> Vec<Worker> {
    let worker_slots: Vec<WorkerSlot> = (0..count).map(|_| WorkerSlot::new().unwrap()).collect();
    let mailboxes = worker_slots.iter().map(|worker_slot| Arc::clone(&worker_slot.mailbox)).collect();
    let config = NodeConfig::default();
    let clock = Clock::start();
    let (events, checker) = (Arc::new(EventQueue::new().unwrap()), Checker::start(clock).unwrap());
    let questions = (Logins::new().unwrap(), Creations::new().unwrap());
    let shared = Arc::new(Shared::new(&config, events, clock, checker, questions, mailboxes, None));
    let common = Arc::new(common(&config, count, QueueNumbers::new(1)));
    let plan: Plan = serde_json::from_str(plan).unwrap();
    let table = Arc::new(Table::compile(&plan, &Table::empty([7; 32])).unwrap());
    let made = (0..count).zip(worker_slots).zip(Mesh::build(count)).map(|((index, worker_slot), mesh)| {
        let shard = Shard::new(index, Arc::clone(&common), Arc::clone(&table), Box::new(|bytes| bytes.fill(9)));
        Worker::new(index, worker_slot, mesh, Arc::clone(&shared), Arc::clone(&common), shard)
    });
    made.collect()
}

fn take_turn(worker: &mut Worker) {
    // With work left the worker does not park.
    worker.again = true;
    worker.wait(&mut Events::with_capacity(EVENTS));
    worker.turn();
}

/// A client that never blocks.
struct Peer {
    machine: Connection,
    stream: UnixStream,
    session: Option<SessionId>,
    input: Vec<u8>,
    output: Vec<u8>,
    attached: u32,
    received_bytes: usize,
    sent_bytes: usize,
}

impl Peer {
    fn connect(worker: &mut Worker, space: &str) -> Self {
        let (stream, ours) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        ours.set_nonblocking(true).unwrap();
        let stream_of_worker = Stream::Unix(mio::net::UnixStream::from_std(ours));
        let mut accepted_socket = worker
            .shared
            .count_connection(stream_of_worker, Origin::Process, None, (Protocol::Amqp, false), None)
            .unwrap();
        accepted_socket.vouched = Some((space.to_owned(), None));
        worker.mailbox.post([Command::Serve(accepted_socket)]);
        let config = Config { idle_time_out_ms: None, ..Config::default() };
        let open = Open { container_id: "peer".to_owned(), ..Open::default() };
        let machine = Connection::client(Arc::new(config), Time::ZERO, false, open);
        let (input, output) = (Vec::new(), Vec::new());
        let mut peer =
            Self { machine, stream, session: None, input, output, attached: 0, received_bytes: 0, sent_bytes: 0 };
        while peer.session.is_none() {
            peer.pump();
            take_turn(worker);
            peer.session = peer.machine.begin().ok();
        }
        peer
    }

    fn attach(&mut self, role: Role, address: Option<&str>) -> LinkId {
        let address = address.map(str::to_owned);
        let mut attach = Attach {
            name: format!("link to {address:?}"),
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
        };
        match role {
            Role::Sender => attach.target = Some(Box::new(Target::node(address))),
            Role::Receiver => attach.source = Some(Box::new(Source { address, ..Source::default() })),
        }
        self.machine.attach(self.session.unwrap(), attach).unwrap()
    }

    /// Writes and reads as much as possible now.
    fn pump(&mut self) {
        self.machine.flush(Time::ZERO);
        self.output.append(self.machine.output());
        match self.stream.write(&self.output) {
            Ok(count) => {
                self.output.drain(..count);
                self.sent_bytes += count;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        let mut bytes = vec![0; 1 << 20];
        if let Ok(count) = self.stream.read(&mut bytes) {
            self.input.extend_from_slice(&bytes[..count]);
        }
        let mut rest = &self.input[..];
        while let Some(event) = self.machine.poll_event(Time::ZERO, &mut rest) {
            match event {
                Event::Attached { .. } => self.attached += 1,
                Event::Transfer(piece) => self.received_bytes += piece.payload.len(),
                Event::Closed { error, .. } => panic!("closed: {error:?}"),
                _ => {}
            }
        }
        self.input = rest.to_vec();
    }

    /// Queues one message if the link has credit and all output is written.
    fn send(&mut self, link: LinkId) -> bool {
        if !self.output.is_empty() || self.machine.sendable(link) == 0 {
            return false;
        }
        let payload = &[b'x'; MESSAGE_BYTES];
        let piece = Outgoing { token: None, message_format: 0, first: true, more: false, aborted: false, payload };
        self.machine.transfer(link, piece).is_ok()
    }
}

#[test]
fn worker_stops_reading_while_its_ring_to_another_worker_is_full() {
    let mut workers = workers(2, PLAN);
    let [here, there] = &mut workers[..] else { unreachable!() };
    let mut receiver = Peer::connect(there, "default");
    let from = receiver.attach(Role::Receiver, Some("anycast"));
    receiver.machine.grant(from, 1_000_000);
    while receiver.attached < 1 {
        receiver.pump();
        take_turn(there);
    }
    let mut sender = Peer::connect(here, "default");
    // A link without an address keeps the connection on its worker.
    sender.attach(Role::Sender, None);
    let out = sender.attach(Role::Sender, Some("anycast"));
    while sender.machine.sendable(out) == 0 {
        sender.pump();
        receiver.pump();
        take_turn(here);
        take_turn(there);
    }
    let (mut sent, mut idle) = (0, 0);
    while idle < PATIENCE_TURNS {
        let before = sender.sent_bytes;
        sent += usize::from(sender.send(out));
        sender.pump();
        take_turn(here);
        idle = if sender.sent_bytes == before { idle + 1 } else { 0 };
    }
    assert!(here.rings_full);
    let taken = sender.sent_bytes;
    assert!(taken > RING_BYTES, "{taken} bytes");
    assert!(taken < RING_BYTES + GATHERED_BYTES + (2 << 20), "{taken} bytes beyond the bounds");
    assert_eq!(receiver.received_bytes, 0);
    while sent < 1000 || receiver.received_bytes < sent * MESSAGE_BYTES {
        sent += usize::from(sent < 1000 && sender.send(out));
        sender.pump();
        receiver.pump();
        take_turn(here);
        take_turn(there);
    }
    assert!(!here.rings_full, "reading resumes once the ring has room");
    assert_eq!(receiver.received_bytes, sent * MESSAGE_BYTES);
}

/// Sends heartbeats until the socket is full; returns the bytes sent.
fn fill(peer: &mut Peer) -> usize {
    const HEARTBEAT: [u8; 8] = [0, 0, 0, 8, 2, 0, 0, 0];
    let mut sent = 0;
    loop {
        let heartbeats = HEARTBEAT.repeat(4096);
        // Continues within a heartbeat where the last write ended.
        match peer.stream.write(&heartbeats[(peer.sent_bytes + sent) % 8..]) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    peer.sent_bytes += sent;
    sent
}

#[test]
fn space_with_forty_connections_is_read_no_more_than_one_with_two() {
    let space = |name: &str| {
        format!(
            r#"{{"uid": "{name}", "names": ["{name}"], "addresses": [],
            "authentication": {{"type": "none", "anonymous": true, "mechanisms": ["ANONYMOUS"]}}}}"#
        )
    };
    let plan = format!(r#"{{"version": 1, "spaces": [{}, {}]}}"#, space("crowd"), space("couple"));
    let mut workers = workers(1, &plan);
    let worker = &mut workers[0];
    let mut crowd: Vec<Peer> = (0..40).map(|_| Peer::connect(worker, "crowd")).collect();
    let mut couple: Vec<Peer> = (0..2).map(|_| Peer::connect(worker, "couple")).collect();
    let (mut of_crowd, mut of_couple) = (0, 0);
    for _ in 0..50 {
        of_crowd += crowd.iter_mut().map(fill).sum::<usize>();
        of_couple += couple.iter_mut().map(fill).sum::<usize>();
        take_turn(worker);
    }
    assert!(of_couple > 50 * 100_000, "{of_couple} bytes of the couple");
    assert!(of_crowd < 3 * of_couple, "{of_crowd} bytes of the crowd, {of_couple} of the couple");
}
