//! A stream with unparsed input and unwritten output.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use crate::transport::Transport;

/// Bytes of a thread's read buffer; twice the max-frame-size that a client announces.
pub const READ_SIZE: usize = 256 * 1024;

/// The read buffer of a thread, shared by all of its connections: an idle connection holds none.
pub fn read_buffer() -> Box<[u8]> {
    vec![0; READ_SIZE].into_boxed_slice()
}

/// One connection's bytes.
pub struct Wire {
    transport: Transport,
    /// to be written; append only
    pub output: Vec<u8>,
    written: usize,
    /// an incomplete frame
    rest: Vec<u8>,
}

impl Wire {
    /// A connection without bytes, over a transport.
    pub fn new(transport: Transport) -> Self {
        Self { transport, output: Vec::new(), written: 0, rest: Vec::new() }
    }

    /// Reads once: returns how many bytes the front of `buffer` then holds, including those of
    /// `keep`. `None`: nothing new.
    ///
    /// # Errors
    /// Of the socket; `UnexpectedEof` at the end of the stream.
    #[inline]
    pub fn fill(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let kept = self.rest.len();
        buffer[..kept].copy_from_slice(&self.rest);
        match self.transport.read(&mut buffer[kept..]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.rest.clear();
                Ok(Some(kept + count))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether to call `fill` again before waiting for the socket.
    #[inline]
    pub fn holds_input(&self) -> bool {
        self.transport.holds_input()
    }

    /// Keeps unparsed bytes for the next `fill`: less than a frame, so they always fit.
    #[inline]
    pub fn keep(&mut self, rest: &[u8]) {
        self.rest.extend_from_slice(rest);
        if rest.is_empty() {
            self.rest = Vec::new();
        }
    }

    /// The bytes kept by `keep`, for a parser that can continue now.
    pub fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest)
    }

    /// Bytes that wait to be written.
    #[inline]
    pub fn pending(&self) -> usize {
        self.output.len() - self.written
    }

    /// Writes as much as the socket accepts. Returns whether bytes remain, so that the caller must
    /// watch for writability.
    #[inline]
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.written < self.output.len() {
            match self.transport.write(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.shrink();
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.written = 0;
        if !self.transport.holds_output() {
            return Ok(false);
        }
        match self.transport.flush() {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Drops written bytes once moving the remaining ones is cheap.
    fn shrink(&mut self) {
        if self.written >= self.output.len() / 2 {
            self.output.drain(..self.written);
            self.written = 0;
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}
