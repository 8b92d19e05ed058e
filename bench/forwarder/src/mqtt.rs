//! A minimal MQTT 3.1.1 server: the limit of the MQTT load tool.
//!
//! One thread. Every PUBLISH goes as it is, packet identifier included, to every connection that
//! has subscribed to anything, and one with QoS 1 is acknowledged at once. Topics, sessions, checks
//! and limits do not exist, so that it is an upper bound and not a server. It shares no code with
//! the node.

use std::convert::Infallible;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use slab::Slab;

/// Ready sockets taken in one turn.
const EVENTS_MAX: usize = 256;
/// Bytes taken from a socket at once; a larger packet ends its connection.
const READ_SIZE: usize = 256 * 1024;
/// Bytes of unwritten output that end a connection.
const OUTPUT_MAX: usize = 16 << 20;
const LISTENER: u64 = u64::MAX;

struct Client {
    stream: TcpStream,
    output: Vec<u8>,
    written: usize,
    /// a partial packet
    rest: Vec<u8>,
    subscribed: bool,
    blocked: bool,
    /// in the list of connections with output
    dirty: bool,
}

/// The echo: one listening socket and its connections.
pub struct MqttEcho {
    poll: OwnedFd,
    listener: TcpListener,
    clients: Slab<Client>,
    subscribers: Vec<usize>,
    dirty: Vec<usize>,
    buffer: Vec<u8>,
}

impl MqttEcho {
    /// Listens on loopback; port 0 is a free one.
    ///
    /// # Errors
    /// If the port is in use, or the poller cannot be created.
    pub fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let (clients, subscribers, dirty) = (Slab::new(), Vec::new(), Vec::new());
        Ok(Self { poll, listener, clients, subscribers, dirty, buffer: vec![0; READ_SIZE] })
    }

    /// The address of the listener.
    ///
    /// # Errors
    /// The error of the socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the poller itself fails.
    ///
    /// # Errors
    /// That of the poller.
    pub fn run(&mut self) -> io::Result<Infallible> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            match epoll::wait(&self.poll, spare_capacity(&mut events), None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    key => self.ready(key as usize, event.flags),
                }
            }
            self.flush();
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() || stream.set_nodelay(true).is_err() {
                continue;
            }
            let key = self.clients.vacant_key();
            if epoll::add(&self.poll, &stream, EventData::new_u64(key as u64), EventFlags::IN).is_ok() {
                let (output, rest) = (Vec::new(), Vec::new());
                let (written, subscribed, blocked, dirty) = (0, false, false, false);
                self.clients.insert(Client { stream, output, written, rest, subscribed, blocked, dirty });
            }
        }
    }

    fn ready(&mut self, key: usize, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            self.mark_dirty(key);
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            let mut buffer = std::mem::take(&mut self.buffer);
            if self.read(key, &mut buffer).is_none() {
                self.remove(key);
            }
            self.buffer = buffer;
        }
    }

    /// Reads once and answers; `None`: the connection has ended, or must.
    fn read(&mut self, key: usize, buffer: &mut [u8]) -> Option<()> {
        let client = self.clients.get_mut(key)?;
        let kept = client.rest.len();
        buffer[..kept].copy_from_slice(&client.rest);
        let count = match client.stream.read(&mut buffer[kept..]) {
            Ok(0) => return None,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Some(()),
            Err(_) => return None,
        };
        client.rest.clear();
        let mut input = &buffer[..kept + count];
        while let Some(size) = packet_size(input) {
            let (packet, rest) = input.split_at_checked(size)?;
            self.packet(key, packet)?;
            input = rest;
        }
        (input.len() < READ_SIZE).then(|| self.clients[key].rest.extend_from_slice(input))
    }

    fn packet(&mut self, key: usize, packet: &[u8]) -> Option<()> {
        let body = packet.iter().skip(1).position(|byte| byte & 0x80 == 0)? + 2;
        match packet[0] >> 4 {
            1 => self.write(key, &[0x20, 2, 0, 0]),
            3 => self.forward(key, packet, body)?,
            8 => {
                let [high, low] = *packet.get(body..body + 2)?.first_chunk()?;
                self.write(key, &[0x90, 3, high, low, packet[packet.len() - 1] & 1]);
                if !std::mem::replace(&mut self.clients[key].subscribed, true) {
                    self.subscribers.push(key);
                }
            }
            12 => self.write(key, &[0xd0, 0]),
            14 => return None,
            _ => {}
        }
        Some(())
    }

    /// Copies a PUBLISH to all subscribers.
    fn forward(&mut self, key: usize, packet: &[u8], body: usize) -> Option<()> {
        if packet[0] & 0x06 == 2 {
            let topic = packet.get(body..body + 2)?;
            let at = body + 2 + (usize::from(topic[0]) << 8 | usize::from(topic[1]));
            let [high, low] = *packet.get(at..at + 2)?.first_chunk()?;
            self.write(key, &[0x40, 2, high, low]);
        }
        for place in 0..self.subscribers.len() {
            self.write(self.subscribers[place], packet);
        }
        Some(())
    }

    fn write(&mut self, key: usize, bytes: &[u8]) {
        self.clients[key].output.extend_from_slice(bytes);
        self.mark_dirty(key);
    }

    fn mark_dirty(&mut self, key: usize) {
        if let Some(client) = self.clients.get_mut(key)
            && !std::mem::replace(&mut client.dirty, true)
        {
            self.dirty.push(key);
        }
    }

    fn flush(&mut self) {
        for key in std::mem::take(&mut self.dirty) {
            let Some(client) = self.clients.get_mut(key) else { continue };
            client.dirty = false;
            match client.flush() {
                Ok(blocked) if client.output.len() <= OUTPUT_MAX => {
                    if blocked != client.blocked {
                        client.blocked = blocked;
                        let flags = if blocked { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
                        let _ = epoll::modify(&self.poll, &client.stream, EventData::new_u64(key as u64), flags);
                    }
                }
                _ => self.remove(key),
            }
        }
    }

    /// Ends a connection; closing its socket ends the watch.
    fn remove(&mut self, key: usize) {
        if self.clients.try_remove(key).is_some_and(|client| client.subscribed) {
            self.subscribers.retain(|subscriber| *subscriber != key);
        }
    }
}

impl Client {
    /// Writes as much as the socket takes; true if some output is left.
    fn flush(&mut self) -> io::Result<bool> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // Moved only if that is cheap compared with the bytes written.
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

/// Bytes of the whole packet at the front of the input; `None` until it is there.
#[inline]
fn packet_size(input: &[u8]) -> Option<usize> {
    let mut length = 0;
    for (place, byte) in input.get(1..)?.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            let size = place + 2 + length;
            return (size <= input.len()).then_some(size);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::thread;

    use super::{MqttEcho, packet_size};

    fn exchange(stream: &mut TcpStream, sent: &[u8], expected: &[u8]) {
        stream.write_all(sent).unwrap();
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, expected);
    }

    #[test]
    fn packets_are_measured() {
        assert_eq!(packet_size(&[0xc0, 0]), Some(2));
        assert_eq!(packet_size(&[0x30, 2, 0]), None);
        assert_eq!(packet_size(&[[0x30, 0x80, 1].as_slice(), &[0; 200]].concat()), Some(131));
        assert_eq!(packet_size(&[0x30]), None);
    }

    #[test]
    fn a_message_reaches_every_subscriber_and_is_acknowledged() {
        let mut echo = MqttEcho::bind(0).unwrap();
        let address = echo.local_addr().unwrap();
        thread::spawn(move || echo.run());
        let connect = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a";
        let [mut one, mut two, mut publisher] = [(); 3].map(|()| {
            let mut stream = TcpStream::connect(address).unwrap();
            exchange(&mut stream, connect, &[0x20, 2, 0, 0]);
            stream
        });
        for stream in [&mut one, &mut two] {
            exchange(stream, b"\x82\x06\x00\x07\x00\x01t\x01", &[0x90, 3, 0, 7, 1]);
        }
        let message = b"\x32\x06\x00\x01t\x00\x05x";
        exchange(&mut publisher, message, &[0x40, 2, 0, 5]);
        exchange(&mut one, b"", message);
        exchange(&mut two, b"", message);
        exchange(&mut publisher, &[0xc0, 0], &[0xd0, 0]);
    }
}
