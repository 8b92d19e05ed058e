//! Byte streams to a server: TCP, TLS over it, a Unix socket, and AMQP in WebSocket frames over any
//! of them.
//!
//! No call blocks: `WouldBlock` means "not now". A stream may be written to before it is connected;
//! the bytes are sent once it is.

mod tls;
mod websocket;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use socket2::{Domain, Socket, Type};

pub use tls::TlsOptions;
use tls::TlsStream;
use websocket::WebSocketStream;

use crate::error::Error;
use crate::url::Url;

/// The addresses of a URL's host, in the order to try. Blocks on the name service, unless the host
/// is an address.
///
/// # Errors
/// `Unavailable` if the name cannot be resolved.
pub fn resolve(url: &Url) -> Result<Vec<SocketAddr>, Error> {
    let unknown = |detail: &str| Error::unavailable(format!("host {}: {detail}", url.host));
    let addresses = (url.host.as_str(), url.port).to_socket_addrs().map_err(|error| unknown(&error.to_string()))?;
    let addresses: Vec<_> = addresses.collect();
    if addresses.is_empty() { Err(unknown("the name has no address")) } else { Ok(addresses) }
}

/// The settings to reach one server: created once, used for any number of connections.
#[derive(Clone)]
pub struct Route {
    tls: Option<tls::Connector>,
    websocket: Option<String>,
}

impl Route {
    /// Reads the TLS files.
    ///
    /// # Errors
    /// `Invalid` for a TLS file that cannot be used, or a host that TLS cannot name.
    pub fn new(url: &Url, options: &TlsOptions) -> Result<Self, Error> {
        let tls = if url.scheme.is_tls() { Some(options.connector(&url.host)?) } else { None };
        let websocket = url.scheme.is_websocket().then(|| websocket::uri(url));
        Ok(Self { tls, websocket })
    }

    /// Starts to connect to one of the addresses.
    pub fn connect(&self, address: SocketAddr) -> io::Result<Transport> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
                return Err(error);
            }
            _ => {}
        }
        let stream = match &self.tls {
            Some(connector) => Stream::Tls(Box::new(connector.start(socket.into())?)),
            None => Stream::Tcp(socket.into()),
        };
        Ok(match &self.websocket {
            Some(uri) => Transport::WebSocket(Box::new(WebSocketStream::start(uri, stream)?)),
            None => Transport::Bytes(stream),
        })
    }
}

/// The transport of AMQP.
pub enum Transport {
    /// frames directly on the stream
    Bytes(Stream),
    /// frames in binary messages of a WebSocket
    WebSocket(Box<WebSocketStream>),
}

impl Transport {
    /// A connected socket pair within this process.
    pub fn in_process(fd: OwnedFd) -> io::Result<Self> {
        let socket = UnixStream::from(fd);
        socket.set_nonblocking(true)?;
        Ok(Self::Bytes(Stream::Unix(socket)))
    }

    /// Whether bytes accepted by `write` are still buffered.
    pub fn holds_output(&self) -> bool {
        match self {
            Self::Bytes(stream) => stream.holds_output(),
            Self::WebSocket(stream) => stream.holds_output(),
        }
    }

    /// Whether received bytes may be buffered that the poller does not report: then `read` until it
    /// would block.
    pub fn holds_input(&self) -> bool {
        !matches!(self, Self::Bytes(Stream::Tcp(_) | Stream::Unix(_)))
    }
}

impl Read for Transport {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Bytes(stream) => stream.read(buffer),
            Self::WebSocket(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Bytes(stream) => stream.write(bytes),
            Self::WebSocket(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Bytes(stream) => stream.flush(),
            Self::WebSocket(stream) => stream.flush(),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Bytes(stream) => stream.as_fd(),
            Self::WebSocket(stream) => stream.as_fd(),
        }
    }
}

/// A stream of bytes, below WebSocket where that is used.
pub enum Stream {
    /// without TLS
    Tcp(TcpStream),
    /// within this machine or process
    Unix(UnixStream),
    /// TLS over TCP
    Tls(Box<TlsStream>),
}

impl Stream {
    fn holds_output(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => false,
            Self::Tls(stream) => stream.holds_output(),
        }
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.as_fd(),
        }
    }
}
