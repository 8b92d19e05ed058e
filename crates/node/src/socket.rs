//! One connection of a worker: its socket, the layers around its bytes, and its phase.

use std::sync::Arc;

use enmasse_amqp::time::Time;
use enmasse_router::shard::{ConnId, Peer, Protocol};
use rustls::ServerConfig;

use crate::connection_limits::Claim;
use crate::origin::Origin;
use crate::proxy_header::ProxyHeader;
use crate::read_scheduler::{ReadGroup, ReadScheduler};
use crate::stream::Stream;
use crate::timers::Tick;
use crate::transport::{HandshakeResult, TransportError, Wrapping};
use crate::web_access::WebAccess;

/// A connection on its way to the worker that will serve it.
#[derive(Debug)]
pub(crate) struct AcceptedSocket {
    pub(crate) id: u64,
    pub(crate) stream: Stream,
    pub(crate) origin: Origin,
    /// its peer is a proxy, which states the address of its client first
    pub(crate) is_proxied: bool,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// that of the listener
    pub(crate) protocol: Protocol,
    /// the rules for web pages, if it speaks WebSocket
    pub(crate) web_socket: Option<Arc<WebAccess>>,
    /// in this process: space and user, which the caller has authenticated
    pub(crate) vouched: Option<(String, Option<String>)>,
    pub(crate) claim: Claim,
}

/// The phase of a connection. It only moves down this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// header of a proxy, TLS or WebSocket handshake, until this deadline
    Handshaking(Time),
    /// registered with the shard
    Live(ConnId),
    /// the shard has produced its last output; the deadline to write it
    Finishing(ConnId, Time),
    /// removed from the shard: the transport writes its last bytes, and input is discarded, until
    /// this deadline
    HalfClosed(Time),
}

impl Phase {
    pub(super) fn conn(self) -> Option<ConnId> {
        match self {
            Self::Live(conn) | Self::Finishing(conn, _) => Some(conn),
            Self::Handshaking(_) | Self::HalfClosed(_) => None,
        }
    }
}

/// A connection. Kept small, because 10,000 idle ones must cost little: rarely used state is behind
/// a box.
pub(crate) struct Socket {
    pub(super) stream: Stream,
    pub(super) phase: Phase,
    /// `None`: plain, the fast path
    pub(super) wrapping: Option<Box<Wrapping>>,
    /// bytes of AMQP that were read and not processed: a partial frame
    pub(super) tail: Vec<u8>,
    pub(super) details: Box<ConnectionDetails>,
    pub(super) timer: Tick,
    /// the group that shares its read turns
    pub(super) group: ReadGroup,
    /// the socket may have bytes for us
    pub(super) readable: bool,
    /// the socket may accept bytes
    pub(super) writable: bool,
    /// the peer has ended its direction: read until the end of the stream
    pub(super) hung_up: bool,
    /// the stream has ended or failed: the socket is closed at the end of the turn
    pub(super) stream_ended: bool,
    /// the shard accepts bytes
    pub(super) wanted: bool,
    /// its last visit ended early: the bytes in `tail` are processed before the next read
    pub(super) paused: bool,
    /// in the list of sockets to read
    pub(super) queued: bool,
    /// was used since the last sweep, and may hold buffers
    pub(super) warm: bool,
    /// in the list of sockets to sweep
    pub(super) swept: bool,
    /// pending output exceeds the low-water mark
    pub(super) above_low_water: bool,
}

/// Rarely used state.
pub(crate) struct ConnectionDetails {
    pub(super) id: u64,
    pub(super) origin: Origin,
    /// until it is complete
    pub(super) proxy_header: Option<Box<ProxyHeader>>,
    pub(super) protocol: Protocol,
    pub(super) vouched: Option<(String, Option<String>)>,
    pub(super) container: Option<Box<str>>,
    /// bytes of pending output that are already traced; `None`: no trace
    pub(super) traced: Option<usize>,
    pub(super) claim: Claim,
}

impl Socket {
    pub(super) fn new(accepted_socket: AcceptedSocket, deadline: Time) -> Result<Self, TransportError> {
        let AcceptedSocket { id, stream, origin, is_proxied, tls, protocol, web_socket, vouched, claim } =
            accepted_socket;
        let proxy_header = is_proxied.then(Box::default);
        let wrapping = if tls.is_some() || web_socket.is_some() {
            Some(Box::new(Wrapping::server(tls, web_socket)?))
        } else {
            None
        };
        Ok(Self {
            stream,
            phase: Phase::Handshaking(deadline),
            wrapping,
            tail: Vec::new(),
            details: Box::new(ConnectionDetails {
                id,
                origin,
                proxy_header,
                protocol,
                vouched,
                container: None,
                traced: None,
                claim,
            }),
            timer: Tick::NEVER,
            group: ReadScheduler::UNAUTHENTICATED,
            readable: false,
            writable: true,
            hung_up: false,
            stream_ended: false,
            wanted: true,
            paused: false,
            queued: false,
            warm: false,
            swept: false,
            above_low_water: false,
        })
    }

    /// The properties of the peer, for the shard.
    pub(super) fn report_handshake(&mut self, handshake_result: HandshakeResult) -> Peer {
        if handshake_result.mqtt {
            self.details.protocol = Protocol::Mqtt;
        }
        Peer {
            protocol: self.details.protocol,
            server_name: handshake_result.server_name,
            certificate_subject: handshake_result.subject,
            encrypted: handshake_result.secure,
            loopback: self.details.origin.is_loopback(),
            source: self.details.origin.host().address(),
            vouched: self.details.vouched.take(),
        }
    }

    /// The result of the handshakes, once they are done; at once for a plain connection without a
    /// proxy.
    pub(super) fn handshake_result(&self) -> Option<HandshakeResult> {
        if self.details.proxy_header.is_some() {
            return None;
        }
        match &self.wrapping {
            Some(wrapping) => wrapping.handshake_result(),
            None => Some(HandshakeResult::default()),
        }
    }

    /// The name of its transport in listings and events.
    pub(super) fn transport(&self) -> &'static str {
        match (&self.wrapping, &self.stream) {
            (Some(wrapping), _) => wrapping.name(self.details.protocol),
            (None, Stream::Tcp(_)) if self.details.protocol == Protocol::Mqtt => "mqtt",
            (None, Stream::Tcp(_)) => "amqp",
            (None, Stream::Unix(_)) if self.details.origin == Origin::UnixSocket => "mqtt-unix",
            (None, Stream::Unix(_)) => "local",
        }
    }

    /// Bytes of the transport that wait to be written.
    pub(super) fn wire(&mut self) -> Option<&mut Vec<u8>> {
        self.wrapping.as_mut().map(|wrapping| &mut wrapping.wire)
    }
}
