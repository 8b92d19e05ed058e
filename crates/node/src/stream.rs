//! The sockets the node reads and writes: TCP, and Unix sockets of clients and of sessions in this
//! process.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

/// A connected, non-blocking byte stream.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The result of one read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// bytes moved; fewer than requested means that the socket is empty, or full, for now
    Bytes(usize),
    /// nothing now: an event follows
    Blocked,
    /// the stream has ended: the peer ended it, or it failed
    Ended,
}

impl Stream {
    /// Reads once.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Moved {
        loop {
            let read = match self {
                Self::Tcp(stream) => stream.read(into),
                Self::Unix(stream) => stream.read(into),
            };
            if let Some(moved) = moved_of(read) {
                return moved;
            }
        }
    }

    /// Writes once.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Moved {
        loop {
            let written = match self {
                Self::Tcp(stream) => stream.write(bytes),
                Self::Unix(stream) => stream.write(bytes),
            };
            if let Some(moved) = moved_of(written) {
                return moved;
            }
        }
    }

    /// Shuts down writing; written bytes still arrive.
    pub(crate) fn finish(&self) {
        // Fails only if the peer has disconnected; the next read reports that.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }

    /// Watches both directions, edge-triggered, which costs one system call per connection.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.source().register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Stops watching.
    pub(crate) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}

/// Converts a system call's result; `None`: it was interrupted and must be repeated.
fn moved_of(result: io::Result<usize>) -> Option<Moved> {
    match result {
        Ok(0) => Some(Moved::Ended),
        Ok(count) => Some(Moved::Bytes(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(Moved::Blocked),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
        Err(_) => Some(Moved::Ended),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_distinguish_bytes_blocked_and_over() {
        let (left, right) = UnixStream::pair().unwrap();
        let (mut left, mut right) = (Stream::Unix(left), Stream::Unix(right));
        let mut bytes = [0; 16];
        assert_eq!(right.read(&mut bytes), Moved::Blocked);
        assert_eq!(left.write(b"hello"), Moved::Bytes(5));
        assert_eq!(right.read(&mut bytes), Moved::Bytes(5));
        while let Moved::Bytes(_) = left.write(&[0; 65_536]) {}
        assert_eq!(left.write(b"more"), Moved::Blocked);
        drop(right);
        assert_eq!(left.write(b"more"), Moved::Ended);
    }

    #[test]
    fn peer_reads_the_last_bytes_of_a_finished_stream_and_then_its_end() {
        let (left, right) = UnixStream::pair().unwrap();
        let (mut left, mut right) = (Stream::Unix(left), Stream::Unix(right));
        left.write(b"last");
        left.finish();
        let mut bytes = [0; 16];
        assert_eq!(right.read(&mut bytes), Moved::Bytes(4));
        assert_eq!(right.read(&mut bytes), Moved::Ended);
    }
}
