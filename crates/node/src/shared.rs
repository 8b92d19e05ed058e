//! State shared by all threads of one node.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use enmasse_router::shard::Protocol;
use ipnet::IpNet;
use rustls::ServerConfig;

use crate::checks::Checker;
use crate::clock::Clock;
use crate::command::Command;
use crate::config::{Limits, NodeConfig};
use crate::connection_limits::{ConnectionLimits, HalfOpen};
use crate::creations::Creations;
use crate::events::EventQueue;
use crate::journal::Journal;
use crate::logins::Logins;
use crate::mailbox::Mailbox;
use crate::origin::Origin;
use crate::socket::AcceptedSocket;
use crate::stream::Stream;
use crate::web_access::WebAccess;

/// Shared by acceptor, workers and the node itself.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) connection_limits: Arc<ConnectionLimits>,
    /// how often accepting paused at a bound
    pub(crate) accept_pauses: AtomicU64,
    pub(crate) events: Arc<EventQueue>,
    pub(crate) checker: Checker,
    pub(crate) logins: Logins,
    pub(crate) creations: Creations,
    /// one per worker
    pub(crate) mailboxes: Vec<Arc<Mailbox<Command>>>,
    pub(crate) clock: Clock,
    pub(crate) journal: Option<Journal>,
    pub(crate) web_access: Arc<WebAccess>,
    proxies: Vec<IpNet>,
    next_id: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        config: &NodeConfig,
        events: Arc<EventQueue>,
        clock: Clock,
        checker: Checker,
        (logins, creations): (Logins, Creations),
        mailboxes: Vec<Arc<Mailbox<Command>>>,
        journal: Option<Journal>,
    ) -> Self {
        Self {
            connection_limits: ConnectionLimits::new(config.limits.connection_count_max()),
            limits: config.limits.clone(),
            accept_pauses: AtomicU64::new(0),
            events,
            checker,
            logins,
            creations,
            mailboxes,
            clock,
            journal,
            web_access: Arc::new(WebAccess::new()),
            proxies: config.proxies.clone(),
            next_id: AtomicU64::new(1),
        }
    }

    /// Counts and numbers a new connection; `None` if its source address has its share. A connection
    /// of a listener counts as half-open there.
    pub(crate) fn count_connection(
        &self,
        stream: Stream,
        origin: Origin,
        tls: Option<Arc<ServerConfig>>,
        (protocol, web_socket): (Protocol, bool),
        half_open: Option<&Arc<HalfOpen>>,
    ) -> Option<AcceptedSocket> {
        let host = half_open.map(|_| origin.host());
        let at = half_open.map(|listener| (listener, self.clock.now()));
        let claim = self.connection_limits.claim(host, at)?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let web_socket = web_socket.then(|| Arc::clone(&self.web_access));
        let is_proxied = origin.address().is_some_and(|peer| self.is_proxy(peer.ip().to_canonical()));
        Some(AcceptedSocket { id, stream, origin, is_proxied, tls, protocol, web_socket, vouched: None, claim })
    }

    fn is_proxy(&self, peer: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(&peer))
    }
}
