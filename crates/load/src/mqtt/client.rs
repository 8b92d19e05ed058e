//! One connection of a load, and the connections of a thread.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use enmasse_client::Error;
use enmasse_client::poller::{Poller, Ready};
use enmasse_client::wire::{READ_SIZE, Wire};
use enmasse_mqtt::codec::fixed::{Frame, split};
use enmasse_mqtt::codec::{
    Connect, DecodeError, Packet, PacketId, Properties, Property, PropertyBuffer, PropertyId, Subscription,
    SubscriptionOptions, decode, encode_connect, encode_disconnect, encode_ping_request, encode_subscribe,
};

use super::Plan;

/// Largest packet accepted.
const PACKET_MAX: u32 = 2 << 20;
/// Seconds; pings leave at half of that.
const KEEP_ALIVE_S: u16 = 60;
/// Filters of one SUBSCRIBE.
const FILTERS_MAX: usize = 500;
/// The longest sleep of a thread before it checks the phase again.
pub(super) const TURN_MAX: Duration = Duration::from_millis(5);

/// The role of a connection.
pub(super) trait Role {
    /// Its number among those of its role, and the first letter of its client identifier.
    fn name(&self) -> (char, u32);
    /// The filters to subscribe to.
    fn filters(&self) -> Vec<String>;
    /// A packet of the server on a connection that is up.
    fn packet(&mut self, frame: &Frame<'_>, now: u64, output: &mut Vec<u8>) -> Result<(), Error>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    Subscribing,
    Up,
}

/// See the module.
pub(super) struct Client<R> {
    pub(super) role: R,
    pub(super) wire: Wire,
    plan: Arc<Plan>,
    stage: Stage,
    key: u64,
    /// filters that are not subscribed yet
    filters: Vec<String>,
    blocked: bool,
    last_write: u64,
}

impl<R: Role> Client<R> {
    /// Starts to connect, watched under `key`.
    pub(super) fn start(plan: &Arc<Plan>, role: R, key: u64, poller: &Poller) -> Result<Self, Error> {
        let wire = Wire::new(plan.connect()?);
        let (filters, plan_of) = (role.filters(), Arc::clone(plan));
        let (stage, blocked, last_write) = (Stage::Connecting, true, 0);
        let mut client = Self { role, wire, plan: plan_of, stage, key, filters, blocked, last_write };
        let options = &plan.options;
        let (letter, number) = client.role.name();
        // Persistent sessions keep their name, so that a later run resumes them.
        let run = if options.persistent { 0 } else { plan.run };
        let mut properties = PropertyBuffer::default();
        if options.persistent && options.version.is_v5() {
            put(&mut properties, Property::Number(PropertyId::SessionExpiryInterval, u32::MAX))?;
        }
        let connect = Connect {
            version: options.version,
            clean_start: !options.persistent,
            keep_alive_s: KEEP_ALIVE_S,
            client_id: &format!("load-{run:08x}-{letter}{number}"),
            will: None,
            user: options.url.user.as_deref(),
            password: options.url.password.as_deref().map(str::as_bytes),
            properties: properties.as_properties(),
        };
        encode_connect(&mut client.wire.output, &connect).map_err(|error| Error::invalid(error.to_string()))?;
        poller.watch(&client, key, true).map_err(|error| Error::io("epoll", &error))?;
        Ok(client)
    }

    pub(super) fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Reads and handles the available input.
    pub(super) fn read(&mut self, buffer: &mut [u8], now: u64) -> Result<(), Error> {
        loop {
            let count = match self.wire.fill(buffer) {
                Ok(Some(count)) => count,
                Ok(None) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(Error::unavailable("the server closed the socket"));
                }
                Err(error) => return Err(Error::io(&self.plan.server, &error)),
            };
            let mut input = &buffer[..count];
            while let Some((frame, length)) = split(input, PACKET_MAX).map_err(broken)? {
                input = &input[length..];
                match self.stage {
                    Stage::Up if frame.kind() != 13 => self.role.packet(&frame, now, &mut self.wire.output)?,
                    Stage::Up => {}
                    _ => self.handshake(&frame)?,
                }
            }
            self.wire.keep(input);
            if !self.wire.holds_input() {
                return Ok(());
            }
        }
    }

    fn handshake(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        let version = self.plan.options.version;
        match (self.stage, decode(frame, version).map_err(broken)?) {
            (Stage::Connecting, Packet::ConnAck(connack)) if connack.code == 0 => self.subscribe(),
            (Stage::Connecting, Packet::ConnAck(connack)) => {
                Err(Error::denied(format!("CONNECT was answered with {:#04x}", connack.code)))
            }
            (Stage::Subscribing, Packet::SubAck(suback)) => match suback.codes().find(|code| code.is_error()) {
                None => self.subscribe(),
                Some(code) => Err(Error::denied(format!("SUBSCRIBE was answered with {code:?}"))),
            },
            // Retained messages may precede SUBACK (3.8.4).
            (Stage::Subscribing, Packet::Publish(_)) => Ok(()),
            (_, packet) => Err(Error::peer(format!("unexpected packet {packet:?}"))),
        }
    }

    /// Subscribes to the next filters; without any the connection is up.
    fn subscribe(&mut self) -> Result<(), Error> {
        if self.filters.is_empty() {
            (self.stage, self.filters) = (Stage::Up, Vec::new());
            return Ok(());
        }
        self.stage = Stage::Subscribing;
        let rest = self.filters.split_off(self.filters.len().min(FILTERS_MAX));
        let chunk = std::mem::replace(&mut self.filters, rest);
        let options = SubscriptionOptions { qos: self.plan.options.qos, ..SubscriptionOptions::default() };
        let subscriptions = chunk.iter().map(|filter| Subscription { filter, options });
        let id = PacketId::new(1).ok_or_else(|| Error::misuse("an identifier is not 0"))?;
        encode_subscribe(&mut self.wire.output, id, Properties::NONE, subscriptions, self.plan.options.version)
            .map_err(|error| Error::invalid(error.to_string()))
    }

    /// Writes pending output, and watches for writability if some remains.
    pub(super) fn flush(&mut self, poller: &Poller, now: u64) -> Result<(), Error> {
        if self.wire.pending() > 0 {
            self.last_write = now;
        }
        let blocked = self.wire.flush().map_err(|error| Error::io(&self.plan.server, &error))?;
        if blocked != self.blocked {
            self.blocked = blocked;
            poller.rewatch(&self.wire, self.key, blocked).map_err(|error| Error::io("epoll", &error))?;
        }
        Ok(())
    }

    /// Pings a server that has heard nothing for half of the keep-alive.
    pub(super) fn keep_alive(&mut self, now: u64) {
        let silent = now.saturating_sub(self.last_write);
        if self.is_up() && self.wire.pending() == 0 && silent >= u64::from(KEEP_ALIVE_S) * 500_000_000 {
            encode_ping_request(&mut self.wire.output);
        }
    }

    /// Says goodbye; the socket closes with the client.
    pub(super) fn close(&mut self) {
        let code = enmasse_mqtt::codec::ReasonCode::Success;
        let packet = enmasse_mqtt::codec::Disconnect { code, properties: Properties::NONE };
        let _ = encode_disconnect(&mut self.wire.output, &packet, self.plan.options.version);
        let _ = self.wire.flush();
    }
}

impl<R> AsFd for Client<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

fn put(properties: &mut PropertyBuffer, property: Property<'_>) -> Result<(), Error> {
    properties.push(property).map_err(|error| Error::misuse(error.to_string()))
}

pub(super) fn broken(error: DecodeError) -> Error {
    Error::peer(format!("a packet of the server: {error}"))
}

/// Connections of one role, owned by one thread.
pub(super) struct Clients<R> {
    pub(super) plan: Arc<Plan>,
    pub(super) all: Vec<Client<R>>,
    poller: Poller,
    ready: Vec<Ready>,
    buffer: Box<[u8]>,
}

impl<R: Role> Clients<R> {
    /// Starts to connect all of them.
    pub(super) fn start(plan: &Arc<Plan>, roles: Vec<R>) -> Result<Self, Error> {
        let poller = Poller::new().map_err(|error| Error::io("epoll", &error))?;
        let all = roles.into_iter().zip(0..).map(|(role, key)| Client::start(plan, role, key, &poller));
        let all = all.collect::<Result<_, _>>()?;
        // It holds a whole packet.
        let size = if plan.options.body * 2 > READ_SIZE { PACKET_MAX as usize } else { READ_SIZE };
        let buffer = vec![0; size].into_boxed_slice();
        Ok(Self { plan: Arc::clone(plan), all, poller, ready: Vec::new(), buffer })
    }

    /// Waits for input, at most `timeout`, and handles it.
    pub(super) fn turn(&mut self, timeout: Duration) -> Result<(), Error> {
        self.ready.clear();
        self.poller.wait(Some(timeout), &mut self.ready).map_err(|error| Error::io("epoll", &error))?;
        let now = self.plan.clock.now();
        for ready in &self.ready {
            let client = &mut self.all[ready.key as usize];
            if ready.readable {
                client.read(&mut self.buffer, now)?;
            }
            client.flush(&self.poller, now)?;
        }
        Ok(())
    }

    /// Writes the pending output of all connections.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        let now = self.plan.clock.now();
        for client in &mut self.all {
            if client.wire.pending() > 0 && !client.is_blocked() {
                client.flush(&self.poller, now)?;
            }
        }
        Ok(())
    }

    pub(super) fn are_up(&self) -> bool {
        self.all.iter().all(Client::is_up)
    }

    pub(super) fn close(&mut self) {
        self.all.iter_mut().for_each(Client::close);
    }
}
