//! The forwarder: one thread, one readiness loop, anycast addresses created on first use.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use slab::Slab;

use crate::connection::{Connection, Consumer, Input, Link, Producer, UNSETTLED_MAX};
use crate::wire::{self, List, code};

/// Ready sockets taken in one turn.
const EVENTS_MAX: usize = 256;
/// Frames of a producer after which its session window is renewed; the initial window is 2^31 - 1.
const WINDOW_RENEWAL: u32 = 1 << 20;
const LISTENER: u64 = u64::MAX;

/// Senders and receivers of one name; members are keys of connections.
#[derive(Default)]
struct Address {
    producers: Vec<usize>,
    consumers: Vec<usize>,
    /// the consumer whose turn it is
    turn: usize,
}

/// The forwarder: one listening socket and its connections.
pub struct Forwarder {
    poll: OwnedFd,
    listener: TcpListener,
    connections: Slab<Connection>,
    addresses: Vec<Address>,
    names: HashMap<String, usize>,
    /// connections with pending output at the end of the turn
    dirty: Vec<usize>,
    /// credit of every producer in sink mode, where nothing is forwarded
    sink: Option<u32>,
}

/// A connection must be closed: its peer has disconnected, or uses an unsupported feature.
struct Disconnect;

impl Forwarder {
    /// Listens on loopback; port 0 is a free one. With `sink`, producers get that much credit and
    /// are settled at once.
    ///
    /// # Errors
    /// If the port is in use, or the poller cannot be created.
    pub fn bind(port: u16, sink: Option<u32>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Self {
            poll,
            listener,
            connections: Slab::new(),
            addresses: Vec::new(),
            names: HashMap::new(),
            dirty: Vec::new(),
            sink,
        })
    }

    /// The address of the listener.
    ///
    /// # Errors
    /// The error of the socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Forwards until the poller itself fails.
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
            let key = self.connections.insert(Connection::new(stream));
            let stream = &self.connections[key].stream;
            if epoll::add(&self.poll, stream, EventData::new_u64(key as u64), EventFlags::IN).is_err() {
                self.connections.remove(key);
            }
        }
    }

    fn ready(&mut self, key: usize, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            self.mark_dirty(key);
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) && self.read(key).is_err() {
            self.disconnect(key);
        }
    }

    fn read(&mut self, key: usize) -> Result<(), Disconnect> {
        let Some(connection) = self.connections.get_mut(key) else { return Ok(()) };
        if !connection.fill().map_err(|_| Disconnect)? {
            return Err(Disconnect);
        }
        let buffer = connection.take_input();
        while let Some(input) = self.connections[key].next(&buffer) {
            match input {
                Input::Header(true) => self.output(key).extend_from_slice(&wire::SASL_HELLO),
                Input::Header(false) => self.output(key).extend_from_slice(&wire::AMQP_HEADER),
                Input::Frame { start, end, .. } if start == end => {}
                Input::Frame { sasl, start, end } => self.frame(key, sasl, &buffer[start..end])?,
                Input::Broken => return Err(Disconnect),
            }
        }
        self.connections[key].restore(buffer);
        Ok(())
    }

    #[inline]
    fn frame(&mut self, key: usize, sasl: bool, body: &[u8]) -> Result<(), Disconnect> {
        let mut list = wire::list(body).ok_or(Disconnect)?;
        if sasl {
            if list.descriptor == code::SASL_INIT {
                self.output(key).extend_from_slice(&wire::SASL_OK);
                self.connections[key].header_expected = true;
            }
            return Ok(());
        }
        match list.descriptor {
            code::TRANSFER => self.transfer(key, &mut list)?,
            code::DISPOSITION => self.disposition(key, &mut list),
            code::FLOW => self.flow(key, &mut list),
            code::OPEN => self.output(key).extend_from_slice(&wire::OPEN),
            code::BEGIN => {
                self.connections[key].next_incoming = list.fields.skip(1).number().unwrap_or(0);
                self.output(key).extend_from_slice(&wire::BEGIN);
            }
            code::ATTACH => self.attach(key, &mut list)?,
            code::CLOSE => {
                self.output(key).extend_from_slice(&wire::CLOSE);
                // errors are ignored: the peer has already closed
                let _ = self.connections[key].flush();
                return Err(Disconnect);
            }
            _ => {}
        }
        Ok(())
    }

    fn attach(&mut self, key: usize, list: &mut List<'_>) -> Result<(), Disconnect> {
        let fields = &mut list.fields;
        let name = fields.take().ok_or(Disconnect)?;
        let receiver = fields.skip(1).number() == Some(1);
        let (source, target) = (fields.skip(2).take(), fields.take());
        let terminus = if receiver { source } else { target };
        let address = terminus.and_then(wire::list).and_then(|mut list| list.fields.take()).and_then(wire::text);
        let address = self.address(address.unwrap_or_default());
        if !matches!(self.connections[key].link, Link::None) {
            return Err(Disconnect);
        }
        wire::write_attach(self.output(key), name, !receiver, source, target);
        if receiver {
            self.connections[key].link = Link::Consumer(Consumer::new(address));
            self.addresses[address].consumers.push(key);
            return Ok(());
        }
        let granted = self.sink.unwrap_or(0);
        self.connections[key].link =
            Link::Producer(Producer { address, received: 0, granted, accepted: None, since_flow: 0 });
        if self.sink.is_some() {
            self.grant(key, 0);
        } else {
            self.addresses[address].producers.push(key);
            self.distribute_credit(address);
        }
        Ok(())
    }

    fn address(&mut self, name: &str) -> usize {
        if let Some(index) = self.names.get(name) {
            return *index;
        }
        self.addresses.push(Address::default());
        self.names.insert(name.to_owned(), self.addresses.len() - 1);
        self.addresses.len() - 1
    }

    fn flow(&mut self, key: usize, list: &mut List<'_>) {
        let Link::Consumer(consumer) = &mut self.connections[key].link else { return };
        let fields = &mut list.fields;
        if fields.skip(4).take().is_none() {
            return;
        }
        let delivery_count = fields.number().unwrap_or(0);
        let limit = delivery_count.wrapping_add(fields.number().unwrap_or(0));
        if limit.wrapping_sub(consumer.limit) as i32 > 0 {
            consumer.limit = limit;
            let address = consumer.address;
            self.distribute_credit(address);
        }
    }

    /// Distributes unassigned credit of an address's consumers to its producers, evenly.
    fn distribute_credit(&mut self, address: usize) {
        let Address { producers, consumers, .. } = &self.addresses[address];
        let credit = |key: &usize| match &self.connections[*key].link {
            Link::Consumer(consumer) => consumer.credit(),
            Link::Producer(producer) => producer.granted.wrapping_sub(producer.received),
            Link::None => 0,
        };
        let asked: u32 = consumers.iter().map(credit).sum();
        let given: u32 = producers.iter().map(credit).sum();
        let count = producers.len() as u32;
        let spare = asked.saturating_sub(given);
        // small shares cause many flows: waits for more credit, unless a producer has none
        if count == 0 || spare < count || (given > 0 && spare < 32 * count) {
            return;
        }
        for index in 0..producers.len() {
            self.grant(self.addresses[address].producers[index], spare / count);
        }
    }

    /// Grants credit to a producer.
    fn grant(&mut self, key: usize, more: u32) {
        let next_incoming = self.connections[key].next_incoming;
        let Link::Producer(producer) = &mut self.connections[key].link else { return };
        producer.granted = producer.granted.wrapping_add(more);
        let link = (producer.received, producer.granted.wrapping_sub(producer.received));
        wire::write_flow(self.output(key), next_incoming, 0, Some(link));
    }

    #[inline]
    fn transfer(&mut self, key: usize, list: &mut List<'_>) -> Result<(), Disconnect> {
        let transfer = wire::transfer(list).ok_or(Disconnect)?;
        let connection = &mut self.connections[key];
        connection.next_incoming = connection.next_incoming.wrapping_add(1);
        let Link::Producer(producer) = &mut connection.link else { return Err(Disconnect) };
        producer.received = producer.received.wrapping_add(1);
        producer.since_flow += 1;
        if producer.since_flow >= WINDOW_RENEWAL {
            producer.since_flow = 0;
            let next_incoming = connection.next_incoming;
            wire::write_flow(&mut connection.output, next_incoming, 0, None);
        }
        let address = producer.address;
        if let Some(credit) = self.sink {
            self.sink_transfer(key, credit, &transfer);
            return Ok(());
        }
        let Some(to) = self.next_consumer(address) else { return Ok(()) };
        let connection = &mut self.connections[to];
        let Link::Consumer(consumer) = &mut connection.link else { return Err(Disconnect) };
        let id = consumer.sent;
        consumer.sent = id.wrapping_add(1);
        if !transfer.settled {
            consumer.origins[id as usize % UNSETTLED_MAX] = (key as u64 + 1) << 32 | u64::from(transfer.delivery_id);
        }
        wire::write_transfer(&mut connection.output, id, transfer.settled, transfer.payload);
        if !connection.dirty {
            self.mark_dirty(to);
        }
        Ok(())
    }

    /// The consumer with credit whose turn it is.
    #[inline]
    fn next_consumer(&mut self, address: usize) -> Option<usize> {
        let Address { consumers, turn, .. } = &mut self.addresses[address];
        for _ in 0..consumers.len() {
            if *turn >= consumers.len() {
                *turn = 0;
            }
            let key = consumers[*turn];
            *turn += 1;
            if matches!(&self.connections[key].link, Link::Consumer(consumer) if consumer.credit() > 0) {
                return Some(key);
            }
        }
        None
    }

    /// Handles a transfer in sink mode.
    fn sink_transfer(&mut self, key: usize, credit: u32, transfer: &wire::Transfer<'_>) {
        if !transfer.settled {
            self.accept_delivery(key, transfer.delivery_id);
        }
        let Link::Producer(producer) = &self.connections[key].link else { return };
        let left = producer.granted.wrapping_sub(producer.received);
        if left <= credit / 2 {
            self.grant(key, credit - left);
        }
    }

    #[inline]
    fn disposition(&mut self, key: usize, list: &mut List<'_>) {
        let fields = &mut list.fields;
        let Some(first) = fields.skip(1).number() else { return };
        let last = fields.number().unwrap_or(first);
        let count = last.wrapping_sub(first).wrapping_add(1).min(UNSETTLED_MAX as u32);
        for step in 0..count {
            let Link::Consumer(consumer) = &mut self.connections[key].link else { return };
            let slot = first.wrapping_add(step) as usize % UNSETTLED_MAX;
            let origin = std::mem::take(&mut consumer.origins[slot]);
            if origin != 0 {
                self.accept_delivery((origin >> 32) as usize - 1, origin as u32);
            }
        }
    }

    /// Notes that a producer's delivery was taken; written as a range at the end of the turn.
    #[inline]
    fn accept_delivery(&mut self, key: usize, id: u32) {
        let connection = &mut self.connections[key];
        let Link::Producer(producer) = &mut connection.link else { return };
        match &mut producer.accepted {
            Some((_, last)) if id == last.wrapping_add(1) => *last = id,
            Some((first, last)) => {
                wire::write_accepted(&mut connection.output, *first, *last);
                producer.accepted = Some((id, id));
            }
            None => producer.accepted = Some((id, id)),
        }
        if !connection.dirty {
            self.mark_dirty(key);
        }
    }

    /// The output of a connection, which will be written at the end of the turn.
    fn output(&mut self, key: usize) -> &mut Vec<u8> {
        self.mark_dirty(key);
        &mut self.connections[key].output
    }

    fn mark_dirty(&mut self, key: usize) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(key);
        }
    }

    fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            connection.dirty = false;
            if let Link::Producer(Producer { accepted, .. }) = &mut connection.link
                && let Some((first, last)) = accepted.take()
            {
                wire::write_accepted(&mut connection.output, first, last);
            }
            match connection.flush() {
                Ok(blocked) if blocked == connection.blocked => {}
                Ok(blocked) => {
                    connection.blocked = blocked;
                    let flags = if blocked { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
                    if epoll::modify(&self.poll, &connection.stream, EventData::new_u64(key as u64), flags).is_err() {
                        self.disconnect(key);
                    }
                }
                Err(_) => self.disconnect(key),
            }
        }
        self.dirty = dirty;
    }

    /// Removes a connection and all references to it.
    fn disconnect(&mut self, key: usize) {
        let Some(connection) = self.connections.try_remove(key) else { return };
        match connection.link {
            Link::None => {}
            Link::Producer(producer) => {
                let address = &mut self.addresses[producer.address];
                address.producers.retain(|other| *other != key);
                for consumer in &address.consumers {
                    if let Link::Consumer(consumer) = &mut self.connections[*consumer].link {
                        consumer
                            .origins
                            .iter_mut()
                            .filter(|origin| (**origin >> 32) as usize == key + 1)
                            .for_each(|origin| *origin = 0);
                    }
                }
            }
            Link::Consumer(consumer) => {
                self.addresses[consumer.address].consumers.retain(|other| *other != key);
            }
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
