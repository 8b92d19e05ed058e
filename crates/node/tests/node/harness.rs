//! A node on free ports, and clients that block: the client machine over real sockets of each kind.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use enmasse_amqp::codec::encode_transaction_control;
use enmasse_amqp::connection::{Config, Connection, Event, LinkId, Outgoing, SessionId, Tag};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{
    Attach, Coordinator, Declare, DeliveryState, Discharge, Error, Open, Outcome, ReceiverSettleMode, Role, SaslCode,
    SaslInit, SenderSettleMode, Source, Symbol, Target, TerminusDurability, TerminusExpiryPolicy, TransactionControl,
    TransactionalState,
};
use enmasse_node::{EventKind, Listener, ListenerKind, Node, NodeConfig, NodeEvent, NodeStats, TlsFiles};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Bytes, Message};

use crate::testing::{Authority, Folder};

pub(crate) const OPEN_SPACE: &str = include_str!("../../../../vectors/plans/open.json");

/// What any blocking call of a client waits at most: longer means that something is lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A node with one listener of each kind.
pub(crate) struct Site {
    pub(crate) node: Node,
    pub(crate) authority: Authority,
    pub(crate) files: TlsFiles,
    pub(crate) folder: Folder,
    pub(crate) ports: [u16; 4],
}

pub(crate) const KINDS: [ListenerKind; 4] =
    [ListenerKind::Amqp, ListenerKind::Amqps, ListenerKind::Ws, ListenerKind::Wss];

impl Site {
    /// A node with an open space.
    pub(crate) fn open(config: &NodeConfig) -> Self {
        Self::new(config, OPEN_SPACE)
    }

    pub(crate) fn new(config: &NodeConfig, plan: &str) -> Self {
        let node = Node::start(config).unwrap();
        node.apply(&serde_json::from_str(plan).unwrap()).unwrap();
        let (authority, folder) = (Authority::new(), Folder::new("node"));
        let mut files = authority.server_files(&folder, "localhost");
        files.client_ca = Some(folder.path("ca.pem"));
        let ports = KINDS.map(|kind| {
            let tls = kind.is_secure().then(|| files.clone());
            node.listen(Listener { kind, host: "127.0.0.1".to_owned(), port: 0, tls }).unwrap()
        });
        Self { node, authority, files, folder, ports }
    }

    pub(crate) fn port(&self, kind: ListenerKind) -> u16 {
        self.ports[KINDS.iter().position(|one| *one == kind).unwrap()]
    }

    /// A bare socket to the listener of that kind.
    pub(crate) fn socket(&self, kind: ListenerKind) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port(kind))).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// A stream over the transport of that kind.
    pub(crate) fn stream(&self, kind: ListenerKind) -> Box<dyn Stream> {
        self.stream_on(self.socket(kind), kind)
    }

    /// The same on a socket that is connected already.
    pub(crate) fn stream_on(&self, socket: TcpStream, kind: ListenerKind) -> Box<dyn Stream> {
        let trust = self.authority.client(None, &[&rustls::version::TLS13]);
        match kind {
            ListenerKind::Amqp | ListenerKind::Mqtt => Box::new(socket),
            ListenerKind::Amqps | ListenerKind::Mqtts => Box::new(tls(socket, trust)),
            ListenerKind::Ws => Box::new(WebSocket::new(socket)),
            ListenerKind::Wss => Box::new(WebSocket::new(tls(socket, trust))),
        }
    }

    /// A connected client with a session, without SASL.
    pub(crate) fn client(&self, kind: ListenerKind) -> Client {
        Client::start(self.stream(kind), None)
    }

    pub(crate) fn stats(&self) -> NodeStats {
        self.node.stats().unwrap()
    }

    /// Waits for an event for which `pick` returns a value.
    pub(crate) fn event<T>(&self, pick: impl Fn(&NodeEvent) -> Option<T>) -> T {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let start = Instant::now();
        loop {
            if let Some(found) = self.node.events(usize::MAX).iter().find_map(&pick) {
                return found;
            }
            assert!(start.elapsed() < PATIENCE, "the event never came");
            let mut set = [PollFd::from_borrowed_fd(self.node.event_fd(), PollFlags::IN)];
            poll(&mut set, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).unwrap();
        }
    }

    pub(crate) fn wait_for_close(&self) -> (Option<String>, Option<String>) {
        self.event(|event| match &event.what {
            EventKind::Closed { condition, description } => Some((condition.clone(), description.clone())),
            _ => None,
        })
    }
}

pub(crate) fn workers(workers: u16) -> NodeConfig {
    NodeConfig { workers, journal_segment_bytes: 1 << 20, ..NodeConfig::default() }
}

pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

pub(crate) fn tls(socket: TcpStream, config: Arc<ClientConfig>) -> StreamOwned<ClientConnection, TcpStream> {
    tls_to("localhost", socket, config)
}

/// TLS to a server of that name.
pub(crate) fn tls_to(
    name: &'static str,
    socket: TcpStream,
    config: Arc<ClientConfig>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let session = ClientConnection::new(config, ServerName::try_from(name).unwrap()).unwrap();
    StreamOwned::new(session, socket)
}

/// Bytes over tungstenite's client.
struct WebSocket<S: Read + Write> {
    socket: tungstenite::WebSocket<S>,
    rest: Bytes,
}

impl<S: Read + Write> WebSocket<S> {
    fn new(stream: S) -> Self {
        let mut request = "ws://localhost/amqp".into_client_request().unwrap();
        request.headers_mut().insert("Sec-WebSocket-Protocol", "amqp".parse().unwrap());
        let (socket, _) = tungstenite::client(request, stream).expect("the node refused the upgrade");
        Self { socket, rest: Bytes::new() }
    }
}

impl<S: Read + Write> Read for WebSocket<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.socket.read() {
                Ok(Message::Binary(bytes)) => self.rest = bytes,
                Ok(Message::Close(_)) => return Ok(0),
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) => return Err(error),
                Err(_) => return Ok(0),
            }
        }
        let count = self.rest.len().min(into.len());
        into[..count].copy_from_slice(&self.rest.split_to(count));
        Ok(count)
    }
}

impl<S: Read + Write> Write for WebSocket<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.socket.send(Message::Binary(Bytes::copy_from_slice(bytes))) {
            Ok(()) => Ok(bytes.len()),
            Err(tungstenite::Error::Io(error)) => Err(error),
            Err(other) => Err(io::Error::other(other)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Deliveries by tag, with their states (2.7.3).
pub(crate) type Unsettled = Vec<(Vec<u8>, Option<DeliveryState>)>;

/// An event of a client, without its borrowed parts.
#[derive(Debug, PartialEq)]
pub(crate) enum ClientEvent {
    Open,
    Begun,
    Attached(LinkId),
    /// the node's unsettled map, reported before `Attached`
    Unsettled(Unsettled),
    Message {
        link: LinkId,
        delivery_id: u32,
        payload: Vec<u8>,
        complete: bool,
        tag: Vec<u8>,
        resume: bool,
    },
    SenderSettled(u32),
    Credit(u32),
    Outcome(Outcome),
    Declared(Vec<u8>),
    Provisional(Outcome),
    Detached(Option<Error>),
    Challenge(Vec<u8>),
    Sasl(SaslCode),
    Closed(Option<Error>),
}

/// Clients of this process so far.
static CLIENTS: AtomicU32 = AtomicU32::new(0);

/// A client that blocks.
pub(crate) struct Client {
    machine: Connection,
    stream: Box<dyn Stream>,
    input: Vec<u8>,
    received: VecDeque<ClientEvent>,
    sasl: Option<SaslInit>,
    session: Option<SessionId>,
    /// names its links; all clients share one container id, where equal link names would steal
    /// links (2.6.1)
    number: u32,
    links: u32,
}

impl Client {
    /// Connects, opens and begins.
    pub(crate) fn start(stream: Box<dyn Stream>, sasl: Option<SaslInit>) -> Self {
        let mut client = Self::bare(stream, sasl);
        client.wait(|received| matches!(received, ClientEvent::Open).then_some(()));
        client.session = Some(client.machine.begin().expect("the connection is open"));
        client.wait(|received| matches!(received, ClientEvent::Begun).then_some(()));
        client
    }

    /// Sends the first bytes only.
    pub(crate) fn bare(stream: Box<dyn Stream>, sasl: Option<SaslInit>) -> Self {
        let config = Config { idle_time_out_ms: None, ..Config::default() };
        let open = Open { container_id: "a-test".to_owned(), ..Open::default() };
        let machine = Connection::client(Arc::new(config), Time::ZERO, sasl.is_some(), open);
        let number = CLIENTS.fetch_add(1, Ordering::Relaxed);
        Self { machine, stream, input: Vec::new(), received: VecDeque::new(), sasl, session: None, number, links: 0 }
    }

    pub(crate) fn sender(&mut self, address: Option<&str>) -> LinkId {
        let mut attach = self.blank(Role::Sender);
        attach.target = Some(Box::new(Target::node(address.map(str::to_owned))));
        self.attach(attach)
    }

    pub(crate) fn receiver(&mut self, address: &str, credit: u32) -> LinkId {
        self.receiver_of(Source { address: Some(address.to_owned()), ..Source::default() }, credit)
    }

    pub(crate) fn receiver_of(&mut self, source: Source, credit: u32) -> LinkId {
        let mut attach = self.blank(Role::Receiver);
        attach.source = Some(Box::new(source));
        let link = self.attach(attach);
        self.grant(link, credit);
        link
    }

    /// A receiver of a durable subscription, which is known by the name of the link.
    pub(crate) fn durable(&mut self, name: &str, address: &str, credit: u32) -> LinkId {
        let mut attach = Attach { name: name.to_owned(), ..self.blank(Role::Receiver) };
        attach.source = Some(Box::new(Source {
            address: Some(address.to_owned()),
            durable: TerminusDurability::UnsettledState,
            expiry_policy: TerminusExpiryPolicy::Never,
            ..Source::default()
        }));
        let link = self.attach(attach);
        self.grant(link, credit);
        link
    }

    /// Detaches a link; `closed`: for good.
    pub(crate) fn detach(&mut self, link: LinkId, closed: bool) {
        self.machine.detach(link, closed, None);
        assert_eq!(self.detached(), None);
    }

    /// A link that controls transactions.
    pub(crate) fn coordinator(&mut self) -> LinkId {
        let mut attach = self.blank(Role::Sender);
        attach.target = Some(Box::new(Target::Coordinator(Coordinator::default())));
        self.attach(attach)
    }

    pub(crate) fn declare(&mut self, link: LinkId) -> Vec<u8> {
        self.control(link, &TransactionControl::Declare(Declare::default()));
        self.wait(
            |received| if let ClientEvent::Declared(txn_id) = received { Some(std::mem::take(txn_id)) } else { None },
        )
    }

    /// Commits, or with `fail` rolls back; the answer.
    pub(crate) fn discharge(&mut self, link: LinkId, txn_id: &[u8], fail: bool) -> Outcome {
        self.ask_discharge(link, txn_id, fail);
        self.outcome()
    }

    /// The same without waiting for the answer.
    pub(crate) fn ask_discharge(&mut self, link: LinkId, txn_id: &[u8], fail: bool) {
        self.control(link, &TransactionControl::Discharge(Discharge { txn_id: txn_id.to_vec(), fail }));
    }

    fn control(&mut self, link: LinkId, control: &TransactionControl) {
        let mut bytes = b"\0\x53\x77".to_vec();
        encode_transaction_control(&mut bytes, control);
        self.send(link, &bytes, false);
    }

    /// Sends a message in a transaction and waits for its provisional outcome.
    pub(crate) fn post(&mut self, link: LinkId, txn_id: &[u8], payload: &[u8]) -> Outcome {
        self.wait_for_credit(link);
        let outgoing =
            Outgoing { token: Some(0), message_format: 0, first: true, more: false, aborted: false, payload };
        self.machine.transfer_with(link, outgoing, &within(txn_id, None)).expect("the link may send");
        self.write_pending();
        self.wait(
            |received| if let ClientEvent::Provisional(outcome) = received { Some(outcome.clone()) } else { None },
        )
    }

    /// Accepts a message in a transaction.
    pub(crate) fn retire(&mut self, link: LinkId, txn_id: &[u8], delivery_id: u32, settled: bool) {
        self.machine.settle_with(link, delivery_id, &within(txn_id, Some(Outcome::Accepted)), settled);
        self.write_pending();
    }

    /// Attaches a link that can be resumed and settles second, with this end's unsettled map;
    /// returns that of the other end.
    pub(crate) fn resume(&mut self, role: Role, address: &str, unsettled: Unsettled) -> (LinkId, Unsettled) {
        let (durable, expiry_policy) = (TerminusDurability::UnsettledState, TerminusExpiryPolicy::Never);
        let address = Some(address.to_owned());
        let mut attach = Attach { name: "resumed".to_owned(), unsettled: Some(unsettled), ..self.blank(role) };
        attach.rcv_settle_mode = ReceiverSettleMode::Second;
        if role == Role::Receiver {
            attach.source = Some(Box::new(Source { address, durable, expiry_policy, ..Source::default() }));
        } else {
            attach.target = Some(Box::new(Target::Node {
                address,
                durable,
                expiry_policy,
                timeout_s: 0,
                dynamic: false,
                dynamic_node_properties: Vec::new(),
                capabilities: Vec::new(),
            }));
        }
        let link = self.attach(attach);
        let unsettled = self.wait(|received| match received {
            ClientEvent::Unsettled(unsettled) => Some(std::mem::take(unsettled)),
            _ => None,
        });
        (link, unsettled)
    }

    /// Sends one message under a tag when there is credit.
    pub(crate) fn send_named(&mut self, link: LinkId, payload: &[u8], settled: bool, tag: Tag<'_>) {
        self.wait_for_credit(link);
        let token = (!settled).then_some(0);
        let outgoing = Outgoing { token, message_format: 0, first: true, more: false, aborted: false, payload };
        self.machine.transfer_named(link, outgoing, tag).expect("the link may send");
        self.write_pending();
    }

    /// The next message: its delivery id, its tag, and whether it is resumed.
    pub(crate) fn receive_named(&mut self) -> (u32, Vec<u8>, bool) {
        self.wait(|received| match received {
            ClientEvent::Message { delivery_id, tag, resume, complete: true, .. } => {
                Some((*delivery_id, std::mem::take(tag), *resume))
            }
            _ => None,
        })
    }

    fn attach(&mut self, attach: Attach) -> LinkId {
        let link = self.machine.attach(self.session.unwrap(), attach).expect("the session is open");
        self.wait(|received| (*received == ClientEvent::Attached(link)).then_some(()));
        link
    }

    fn blank(&mut self, role: Role) -> Attach {
        self.links += 1;
        Attach {
            name: format!("link-{}-{}", self.number, self.links),
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

    pub(crate) fn grant(&mut self, link: LinkId, credit: u32) {
        self.machine.grant(link, credit);
        self.write_pending();
    }

    /// Waits until the link may send.
    pub(crate) fn wait_for_credit(&mut self, link: LinkId) {
        while self.machine.sendable(link) == 0 {
            self.receive_event();
        }
    }

    /// Queues one message without waiting for anything; `write_pending` writes it.
    pub(crate) fn queue(&mut self, link: LinkId, payload: &[u8], settled: bool) {
        let token = (!settled).then_some(0);
        let outgoing = Outgoing { token, message_format: 0, first: true, more: false, aborted: false, payload };
        self.machine.transfer(link, outgoing).expect("the link may send");
    }

    /// Sends one message when there is credit.
    pub(crate) fn send(&mut self, link: LinkId, payload: &[u8], settled: bool) {
        self.wait_for_credit(link);
        self.queue(link, payload, settled);
        self.write_pending();
    }

    /// The same, or an error of the stream: a time-out, if it has one.
    pub(crate) fn try_send(&mut self, link: LinkId, payload: &[u8]) -> io::Result<()> {
        while self.machine.sendable(link) == 0 {
            self.try_receive_event()?;
        }
        self.queue(link, payload, true);
        self.try_write_pending()
    }

    /// The next whole message.
    pub(crate) fn receive(&mut self) -> (LinkId, u32, Vec<u8>) {
        self.wait(|received| match received {
            ClientEvent::Message { link, delivery_id, payload, complete: true, .. } => {
                Some((*link, *delivery_id, std::mem::take(payload)))
            }
            _ => None,
        })
    }

    pub(crate) fn settle(&mut self, link: LinkId, delivery_id: u32, outcome: &Outcome) {
        self.machine.settle(link, delivery_id, outcome);
        self.write_pending();
    }

    pub(crate) fn outcome(&mut self) -> Outcome {
        self.wait(|received| if let ClientEvent::Outcome(outcome) = received { Some(outcome.clone()) } else { None })
    }

    pub(crate) fn detached(&mut self) -> Option<Error> {
        self.wait(|received| if let ClientEvent::Detached(error) = received { Some(error.clone()) } else { None })
    }

    pub(crate) fn closed(&mut self) -> Option<Error> {
        self.wait(|received| if let ClientEvent::Closed(error) = received { Some(error.clone()) } else { None })
    }

    pub(crate) fn sasl_challenge(&mut self) -> Vec<u8> {
        self.wait(
            |received| if let ClientEvent::Challenge(challenge) = received { Some(challenge.clone()) } else { None },
        )
    }

    pub(crate) fn sasl_code(&mut self) -> SaslCode {
        self.wait(|received| if let ClientEvent::Sasl(code) = received { Some(*code) } else { None })
    }

    pub(crate) fn close(&mut self) {
        self.machine.close(None);
        self.closed();
    }

    /// Reads until the stream ends; a stream that was reset ends too.
    pub(crate) fn read_to_end(&mut self) {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("the stream does not end"),
                Err(_) => return,
            }
        }
    }

    /// Waits for an event that `pick` takes; the others stay.
    pub(crate) fn wait<T>(&mut self, mut pick: impl FnMut(&mut ClientEvent) -> Option<T>) -> T {
        loop {
            for index in 0..self.received.len() {
                if let Some(picked) = pick(&mut self.received[index]) {
                    self.received.remove(index);
                    return picked;
                }
            }
            self.receive_event();
        }
    }

    /// Writes all output.
    pub(crate) fn write_pending(&mut self) {
        self.try_write_pending().expect("the node reads");
    }

    fn try_write_pending(&mut self) -> io::Result<()> {
        self.machine.flush(Time::ZERO);
        let output = std::mem::take(self.machine.output());
        if output.is_empty() { Ok(()) } else { self.stream.write_all(&output) }
    }

    /// Writes all output, then reads the next input.
    fn receive_event(&mut self) {
        self.try_receive_event().unwrap_or_else(|error| panic!("{error}; heard {:?}", self.received));
    }

    fn try_receive_event(&mut self) -> io::Result<()> {
        self.try_write_pending()?;
        let mut bytes = vec![0; 65_536];
        let count = self.stream.read(&mut bytes)?;
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the node has ended the stream"));
        }
        self.input.extend_from_slice(&bytes[..count]);
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        while let Some(event) = self.machine.poll_event(Time::ZERO, &mut rest) {
            note(&mut self.received, &mut self.machine, self.sasl.as_ref(), event);
        }
        self.input = rest.to_vec();
        self.try_write_pending()
    }
}

fn within(txn_id: &[u8], outcome: Option<Outcome>) -> DeliveryState {
    DeliveryState::Transactional(Box::new(TransactionalState { txn_id: txn_id.to_vec(), outcome }))
}

fn note(received: &mut VecDeque<ClientEvent>, machine: &mut Connection, sasl: Option<&SaslInit>, event: Event<'_>) {
    match event {
        Event::SaslMechanisms(_) => machine.sasl_init(sasl.expect("the client has SASL").clone()),
        Event::SaslChallenge(challenge) => received.push_back(ClientEvent::Challenge(challenge)),
        Event::SaslOutcome(outcome) => received.push_back(ClientEvent::Sasl(outcome.code)),
        Event::Open(_) => received.push_back(ClientEvent::Open),
        Event::Begin(_) => received.push_back(ClientEvent::Begun),
        Event::Attached { link, attach } => {
            received.extend(attach.unsettled.map(ClientEvent::Unsettled));
            received.push_back(ClientEvent::Attached(link));
        }
        Event::SenderSettled { first, last, .. } => received.extend((first..=last).map(ClientEvent::SenderSettled)),
        Event::Transfer(piece) => {
            let unfinished = received.iter_mut().rev().find_map(|received| match received {
                ClientEvent::Message { link, payload, complete, .. } if *link == piece.link && !*complete => {
                    Some((payload, complete))
                }
                _ => None,
            });
            if let Some((payload, complete)) = unfinished {
                payload.extend_from_slice(piece.payload);
                *complete = !piece.more;
            } else {
                received.push_back(ClientEvent::Message {
                    link: piece.link,
                    delivery_id: piece.delivery_id,
                    payload: piece.payload.to_vec(),
                    complete: !piece.more,
                    tag: piece.tag.to_vec(),
                    resume: piece.resume,
                });
            }
        }
        Event::Credit { credit, .. } => received.push_back(ClientEvent::Credit(credit)),
        Event::Disposition { session, first, last, settled, outcome } => {
            machine.take_settled(session, first, last, settled, |_, _| ());
            received.extend((first..=last).map(|_| ClientEvent::Outcome(outcome.clone())));
        }
        Event::Declared { session, first, last, settled, txn_id } => {
            machine.take_settled(session, first, last, settled, |_, _| ());
            received.push_back(ClientEvent::Declared(txn_id));
        }
        Event::Provisional { session, first, last, settled, outcome, .. } => {
            machine.take_settled(session, first, last, settled, |_, _| ());
            received.extend((first..=last).map(|_| ClientEvent::Provisional(outcome.clone())));
        }
        Event::Detach { error, .. } => received.push_back(ClientEvent::Detached(error)),
        Event::Closed { error, .. } => received.push_back(ClientEvent::Closed(error)),
        _ => {}
    }
}

pub(crate) fn plain(user: &str, password: &str) -> SaslInit {
    SaslInit {
        mechanism: Symbol::constant("PLAIN"),
        initial_response: Some(format!("\0{user}\0{password}").into_bytes()),
        hostname: None,
    }
}

/// Sends until nothing lets it send more for half a second; how many messages went out whole, and
/// the sender.
pub(crate) fn send_until_stuck(site: &Site, payload: &[u8]) -> (usize, Client) {
    let socket = site.socket(ListenerKind::Amqp);
    let mut from = Client::start(Box::new(socket.try_clone().unwrap()), None);
    let out = from.sender(Some("anycast"));
    let stuck = Some(Duration::from_millis(500));
    socket.set_read_timeout(stuck).unwrap();
    socket.set_write_timeout(stuck).unwrap();
    let mut sent = 0;
    while from.try_send(out, payload).is_ok() {
        sent += 1;
        assert!(sent * payload.len() < 200 << 20, "nothing holds the sender back");
    }
    (sent, from)
}
