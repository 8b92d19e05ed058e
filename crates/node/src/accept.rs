//! The thread that accepts the connections of all listeners and distributes them to the workers in
//! turn.
//!
//! This thread reads no data. At the bound of connections, or without free descriptors, accepting
//! pauses: new connections wait in the listener's backlog, and management clients that are already
//! connected are still served.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Events, Interest, Poll, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

use crate::command::Command;
use crate::config::{Listener, ListenerKind};
use crate::connection_limits::{HALF_OPEN_MAX, HalfOpen};
use crate::error::NodeError;
use crate::events::{EventKind, NodeEvent};
use crate::mailbox::Mailbox;
use crate::origin::Origin;
use crate::shared::Shared;
use crate::socket::AcceptedSocket;
use crate::stream::Stream;
use crate::tls_files::TlsSource;
use crate::unix_listener::{self, SocketFile};

const WAKE: Token = Token(usize::MAX);
/// Connections accepted from one listener before the workers are notified.
const BATCH: usize = 256;
/// Connections that the system queues while the acceptor is busy or paused.
const BACKLOG: i32 = 4096;
/// How long accepting pauses at a bound before the next attempt.
const PAUSE: Duration = Duration::from_millis(20);

/// Commands for the acceptor.
#[derive(Debug)]
pub(crate) enum Order {
    /// accept connections of this listener
    Listen { listener: Bound, kind: ListenerKind, tls: Option<TlsSource> },
    /// close all listeners and end
    Stop,
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) enum Bound {
    Tcp(TcpListener),
    /// dropped in this order
    Unix {
        listener: UnixListener,
        _file: SocketFile,
    },
}

impl Bound {
    /// The next connection of the backlog.
    fn accept(&self) -> io::Result<(Stream, Origin)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                // Nagle's algorithm may delay small frames by 40 ms. The first read reports a
                // closed peer, so the error is ignored.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Origin::Tcp(peer)))
            }
            Self::Unix { listener, .. } => {
                let (stream, _) = listener.accept()?;
                Ok((Stream::Unix(stream), Origin::UnixSocket))
            }
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(listener) => listener,
            Self::Unix { listener, .. } => listener,
        }
    }
}

impl AsFd for Bound {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix { listener, .. } => listener.as_fd(),
        }
    }
}

/// Listens on a Unix socket.
///
/// # Errors
/// `Socket` if another process listens there, another file is there, or the system refuses it.
pub(crate) fn bind_unix(path: &Path) -> Result<Bound, NodeError> {
    let (listener, file) = unix_listener::bind(path, BACKLOG)?;
    Ok(Bound::Unix { listener, _file: file })
}

/// Binds a listener and returns its address with the port.
///
/// # Errors
/// `Bind` if no address of the host can be bound.
pub(crate) fn bind(listener: &Listener) -> Result<(TcpListener, SocketAddr), NodeError> {
    let failed = |reason| NodeError::Bind { endpoint: format!("{}:{}", listener.host, listener.port), reason };
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address");
    for address in (listener.host.as_str(), listener.port).to_socket_addrs().map_err(failed)? {
        match bind_to(address) {
            Ok(bound) => return Ok(bound),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

fn bind_to(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from_std(socket.into());
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

struct Listening {
    listener: Bound,
    kind: ListenerKind,
    tls: Option<TlsSource>,
    half_open: Arc<HalfOpen>,
    /// an edge was reported and the backlog may still hold connections
    ready: bool,
}

/// The result of one accept call.
enum AcceptOutcome {
    AcceptedSocket(AcceptedSocket),
    /// the backlog is empty, or the peer has closed the connection
    BacklogEmpty,
    /// a bound was reached
    Bound,
}

/// The acceptor's own state.
pub(crate) struct Acceptor {
    poll: Poll,
    orders: Arc<Mailbox<Order>>,
    shared: Arc<Shared>,
    listening: Vec<Listening>,
    next_worker: usize,
    /// a bound was reached in this turn
    paused: bool,
    /// a bound is reached and no connection was accepted since: one event reports it
    pause_reported: bool,
}

impl Acceptor {
    /// An acceptor without listeners, and the mailbox of its commands.
    pub(crate) fn new(shared: Arc<Shared>) -> io::Result<(Self, Arc<Mailbox<Order>>)> {
        let poll = Poll::new()?;
        let orders = Arc::new(Mailbox::new(poll.registry(), WAKE)?);
        let posted = Arc::clone(&orders);
        Ok((
            Self { poll, orders, shared, listening: Vec::new(), next_worker: 0, paused: false, pause_reported: false },
            posted,
        ))
    }

    /// Accepts until it is stopped.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(64);
        let mut orders = Vec::new();
        loop {
            self.orders.thread_waker().park();
            let busy = self.orders.is_filled() || (!self.paused && self.listening.iter().any(|one| one.ready));
            let timeout = if busy { Some(Duration::ZERO) } else { self.paused.then_some(PAUSE) };
            // Once a poll exists, only an interrupted call can fail; the next turn repeats it.
            let _ = self.poll.poll(&mut events, timeout);
            self.orders.thread_waker().unpark();
            for event in events.iter().filter(|event| event.token() != WAKE) {
                self.listening[event.token().0].ready = true;
            }
            self.orders.take(&mut orders);
            for order in orders.drain(..) {
                match order {
                    Order::Listen { listener, kind, tls } => self.listen(listener, kind, tls),
                    Order::Stop => return,
                }
            }
            self.paused = false;
            for index in 0..self.listening.len() {
                self.accept(index);
            }
        }
    }

    fn listen(&mut self, mut listener: Bound, kind: ListenerKind, tls: Option<TlsSource>) {
        let token = Token(self.listening.len());
        // Only a lack of memory can make this fail, and a node that cannot watch its listener
        // cannot work.
        if let Err(error) = self.poll.registry().register(listener.source(), token, Interest::READABLE) {
            panic!("cannot watch a listener: {error}");
        }
        self.listening.push(Listening { listener, kind, tls, half_open: Arc::default(), ready: true });
    }

    /// Accepts a batch of connections of one listener.
    fn accept(&mut self, index: usize) {
        let workers = self.shared.mailboxes.len();
        let mut dealt: Vec<Vec<Command>> = Vec::new();
        dealt.resize_with(workers, Vec::new);
        for _ in 0..BATCH {
            if !self.listening[index].ready {
                break;
            }
            match self.accept_one(index) {
                AcceptOutcome::AcceptedSocket(accepted_socket) => {
                    dealt[self.next_worker].push(Command::Serve(accepted_socket));
                    self.next_worker = (self.next_worker + 1) % workers;
                }
                AcceptOutcome::BacklogEmpty => {}
                // Other listeners continue.
                AcceptOutcome::Bound => break,
            }
        }
        for (mailbox, commands) in self.shared.mailboxes.iter().zip(dealt) {
            if !commands.is_empty() {
                mailbox.post(commands);
            }
        }
    }

    fn accept_one(&mut self, index: usize) -> AcceptOutcome {
        if let Some(reason) = self.bound_met(index) {
            // A bound is reported as a pause only if a connection waits.
            self.listening[index].ready = has_waiting(&self.listening[index].listener);
            if self.listening[index].ready {
                self.pause(reason);
            }
            return AcceptOutcome::Bound;
        }
        let one = &mut self.listening[index];
        match one.listener.accept() {
            Ok((stream, origin)) => {
                self.pause_reported = false;
                let tls = one.tls.as_mut().map(|source| {
                    let (config, failure) = source.current();
                    if let Some(failure) = failure {
                        let reason = failure.to_string();
                        self.shared.events.push(NodeEvent::new(EventKind::CertificateUnusable { reason }));
                    }
                    config
                });
                let protocol = (one.kind.protocol(), one.kind.is_web_socket());
                let half_open = Some(&one.half_open);
                let accepted_socket = self.shared.count_connection(stream, origin, tls, protocol, half_open);
                accepted_socket.map_or_else(|| self.refuse_connection(origin), AcceptOutcome::AcceptedSocket)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                one.ready = false;
                AcceptOutcome::BacklogEmpty
            }
            Err(error) if is_exhausted(&error) => {
                self.pause(error.to_string());
                AcceptOutcome::Bound
            }
            // The peer has closed this connection: the error concerns no other one.
            Err(_) => AcceptOutcome::BacklogEmpty,
        }
    }

    /// The bound that stops a listener from accepting now, if any.
    fn bound_met(&self, index: usize) -> Option<String> {
        if !self.shared.connection_limits.has_room() {
            return Some(format!("{} connections are open, the bound", self.shared.connection_limits.count_max));
        }
        let one = &self.listening[index];
        one.half_open.is_full().then(|| {
            format!(
                "{HALF_OPEN_MAX} connections to a listener ({:?}) have not finished their handshakes, the bound",
                one.kind
            )
        })
    }

    /// Closes a connection at once, because its source address has used up its share of the node.
    fn refuse_connection(&self, origin: Origin) -> AcceptOutcome {
        let peer = origin.address().map(|peer| peer.to_string());
        self.shared.events.push(NodeEvent { peer, ..NodeEvent::new(EventKind::crowded()) });
        AcceptOutcome::BacklogEmpty
    }

    fn pause(&mut self, reason: String) {
        self.paused = true;
        if !std::mem::replace(&mut self.pause_reported, true) {
            self.shared.accept_pauses.fetch_add(1, Ordering::Relaxed);
            self.shared.events.push(NodeEvent::new(EventKind::AcceptPaused { reason }));
        }
    }
}

/// Whether a connection waits to be accepted.
fn has_waiting(listener: &Bound) -> bool {
    let mut set = [PollFd::new(listener, PollFlags::IN)];
    poll(&mut set, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

/// Out of descriptors or of kernel memory, which is temporary.
fn is_exhausted(error: &io::Error) -> bool {
    use rustix::io::Errno;
    error
        .raw_os_error()
        .map(Errno::from_raw_os_error)
        .is_some_and(|errno| matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}
