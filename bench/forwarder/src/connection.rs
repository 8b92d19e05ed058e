//! One connection: its socket, its buffers, and its one link.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::wire;

/// Bytes taken from a socket at once; a larger frame makes its connection's buffer grow.
const READ_SIZE: usize = 256 * 1024;
/// Largest frame, as announced in the open.
pub(crate) const FRAME_SIZE_MAX: usize = 1 << 20;
/// Deliveries to a consumer that may be unsettled at once; a power of two.
pub(crate) const UNSETTLED_MAX: usize = 1 << 16;

/// The role of the connection's link.
pub(crate) enum Link {
    None,
    Producer(Producer),
    Consumer(Consumer),
}

pub(crate) struct Producer {
    /// index of its address
    pub(crate) address: usize,
    /// deliveries it has sent
    pub(crate) received: u32,
    /// deliveries it may send in all: delivery-count plus credit
    pub(crate) granted: u32,
    /// deliveries taken by consumers and not yet reported: a range of its delivery-ids
    pub(crate) accepted: Option<(u32, u32)>,
    /// frames since the session window was last renewed
    pub(crate) since_flow: u32,
}

pub(crate) struct Consumer {
    /// index of its address
    pub(crate) address: usize,
    /// deliveries sent to it; also its next delivery-id
    pub(crate) sent: u32,
    /// deliveries it has requested in all: delivery-count plus credit
    pub(crate) limit: u32,
    /// by delivery-id: the sender (connection + 1, 0: none) and its delivery-id
    pub(crate) origins: Vec<u64>,
}

impl Consumer {
    pub(crate) fn new(address: usize) -> Self {
        Self { address, sent: 0, limit: 0, origins: vec![0; UNSETTLED_MAX] }
    }

    #[inline]
    pub(crate) fn credit(&self) -> u32 {
        // below zero after the consumer has reduced its credit: counts as none
        (self.limit.wrapping_sub(self.sent) as i32).max(0) as u32
    }
}

/// One whole frame of a connection's input.
pub(crate) enum Input {
    /// a protocol header; true: SASL
    Header(bool),
    /// frame type, and the position of its body in the buffer
    Frame { sasl: bool, start: usize, end: usize },
    /// not AMQP, or above the largest frame size
    Broken,
}

pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) link: Link,
    pub(crate) output: Vec<u8>,
    /// in the list of connections with pending output
    pub(crate) dirty: bool,
    /// whether the poller watches for writability
    pub(crate) blocked: bool,
    pub(crate) header_expected: bool,
    /// session: the peer's next transfer number
    pub(crate) next_incoming: u32,
    written: usize,
    input: Vec<u8>,
    parsed: usize,
    filled: usize,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            link: Link::None,
            output: Vec::new(),
            dirty: false,
            blocked: false,
            header_expected: true,
            next_incoming: 0,
            written: 0,
            input: Vec::new(),
            parsed: 0,
            filled: 0,
        }
    }

    /// Reads once. Returns false at the end of the stream.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        if self.input.is_empty() {
            self.input = vec![0; READ_SIZE];
        }
        match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.filled += count;
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Takes the buffer, to be returned with `restore`: frames borrow from it while output of other
    /// connections is written.
    pub(crate) fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    /// The next whole frame of `input`; `None`: more bytes are needed.
    #[inline]
    pub(crate) fn next(&mut self, input: &[u8]) -> Option<Input> {
        let rest = &input[self.parsed..self.filled];
        if rest.len() < 8 {
            return None;
        }
        if self.header_expected {
            self.header_expected = false;
            self.parsed += 8;
            return Some(if rest.starts_with(b"AMQP") { Input::Header(rest[4] == 3) } else { Input::Broken });
        }
        let size = wire::u32_at(rest, 0) as usize;
        let body = usize::from(rest[4]) * 4;
        if !(8..=FRAME_SIZE_MAX).contains(&size) || !(8..=size).contains(&body) {
            return Some(Input::Broken);
        }
        if rest.len() < size {
            return None;
        }
        let start = self.parsed;
        self.parsed += size;
        Some(Input::Frame { sasl: rest[5] == 1, start: start + body, end: start + size })
    }

    /// Returns the buffer, with a partial frame moved to its front and room for the rest of it.
    pub(crate) fn restore(&mut self, mut input: Vec<u8>) {
        input.copy_within(self.parsed..self.filled, 0);
        self.filled -= self.parsed;
        self.parsed = 0;
        if self.filled >= 4 {
            let size = wire::u32_at(&input, 0) as usize;
            if size > input.len() && size <= FRAME_SIZE_MAX {
                input.resize(2 * size, 0);
            }
        }
        self.input = input;
    }

    /// Writes as much as the socket takes; `blocked` is set if some output is left.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // moved only if that is cheap compared with the bytes written
                    if self.written >= self.output.len() / 2 {
                        self.output.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(false)
    }
}
