//! One connection of a load: its setup by the ordinary codec, then raw frames for its traffic.
//!
//! Everything after the SASL outcome is pipelined: header, open, begin and all attaches leave in
//! one write. One session, on channel 0; the handle of a link is its index.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use enmasse_amqp::codec::fast::{self, DispositionView, TransferView};
use enmasse_amqp::codec::frame::{
    Frame, FrameKind, Protocol, decode_protocol_header, encode_heartbeat, protocol_header, split,
};
use enmasse_amqp::codec::{
    DecodeError, decode_performative, decode_sasl, encode_attach, encode_begin, encode_close, encode_flow, encode_open,
    encode_sasl,
};
use enmasse_amqp::types::{
    Attach, Begin, Fields, Flow, Open, Performative, ReceiverSettleMode, Role, SaslFrame, SaslResponse,
    SenderSettleMode, Source, Symbol, Target, Value,
};

use super::Plan;
use enmasse_client::Error;
use enmasse_client::login::{Credentials, Exchange};
use enmasse_client::poller::Poller;
use enmasse_client::transport::Transport;
use enmasse_client::wire::Wire;

/// Largest frame accepted, and written if the server accepts it: it fits the read buffers of this
/// tool.
const FRAME_SIZE_MAX: u32 = 131_072;
/// Session windows that never close.
const WINDOW: u32 = 0x7fff_ffff;

/// The state of the one session.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// number of the peer's next transfer frame
    pub(super) next_incoming: u32,
    /// number of our next transfer frame
    pub(super) next_outgoing: u32,
    /// transfer frames the peer accepts now
    pub(super) window: u32,
    /// largest frame the peer accepts
    pub(super) frame_size: u32,
}

impl Session {
    /// Appends a flow about a link: (handle, delivery-count, link-credit).
    pub(super) fn write_flow(&self, output: &mut Vec<u8>, link: Option<(u32, u32, u32)>) {
        let flow = Flow {
            next_incoming_id: Some(self.next_incoming),
            incoming_window: WINDOW,
            next_outgoing_id: self.next_outgoing,
            outgoing_window: WINDOW,
            handle: link.map(|(handle, _, _)| handle),
            delivery_count: link.map(|(_, delivery_count, _)| delivery_count),
            link_credit: link.map(|(_, _, credit)| credit),
            ..Flow::default()
        };
        encode_flow(output, 0, &flow);
    }
}

/// The role of a connection: its links, and the handling of their frames.
pub(super) trait Traffic {
    /// Our end of every link.
    fn role(&self) -> Role;
    /// Numbers of the links among all of their kind; the index is the handle.
    fn links(&self) -> &[u32];
    /// The server answered the attach of a link.
    fn attached(&mut self, link: usize, attach: &Attach, session: &Session, output: &mut Vec<u8>);
    /// A transfer arrived.
    fn transfer(&mut self, link: usize, transfer: &TransferView<'_>, now: u64, session: &Session, output: &mut Vec<u8>);
    /// A disposition arrived.
    fn disposition(&mut self, disposition: &DispositionView<'_>, now: u64, output: &mut Vec<u8>);
    /// A flow for one of the links arrived.
    fn flow(&mut self, link: usize, flow: &Flow, session: &Session, output: &mut Vec<u8>);
    /// All that was read is parsed.
    fn end_of_input(&mut self, session: &Session, output: &mut Vec<u8>);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    SaslHeader,
    Sasl,
    Header,
    /// until every link is attached
    Opening,
    Up,
    Closing,
    Closed,
}

/// See the module.
pub(super) struct Connection<T> {
    pub(super) traffic: T,
    pub(super) session: Session,
    pub(super) wire: Wire,
    plan: Arc<Plan>,
    stage: Stage,
    key: u64,
    /// links not yet attached
    missing: usize,
    /// our link by the handle that the server chose for it
    handles: Vec<usize>,
    /// `None`: no SASL layer, or it is complete
    exchange: Option<Exchange>,
    /// the poller watches for writability
    blocked: bool,
    /// nanoseconds of silence after which a heartbeat is due
    heartbeat: Option<u64>,
    last_write: u64,
}

impl<T: Traffic> Connection<T> {
    /// Starts to connect, watched under `key`.
    pub(super) fn start(plan: &Arc<Plan>, traffic: T, key: u64, poller: &Poller) -> Result<Self, Error> {
        let transport: Transport = plan.connect()?;
        let mut connection = Self {
            missing: traffic.links().len(),
            handles: Vec::new(),
            traffic,
            session: Session::default(),
            wire: Wire::new(transport),
            plan: Arc::clone(plan),
            stage: Stage::SaslHeader,
            key,
            exchange: plan.credentials.as_ref().map(Credentials::begin).transpose()?,
            blocked: true,
            heartbeat: None,
            last_write: 0,
        };
        if connection.exchange.is_some() {
            connection.wire.output.extend_from_slice(&protocol_header(Protocol::Sasl));
        } else {
            connection.open();
        }
        poller.watch(&connection, key, true).map_err(|error| Error::io("epoll", &error))?;
        Ok(connection)
    }

    pub(super) fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }

    pub(super) fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// Whether the socket is full.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Reads and handles the available input.
    ///
    /// # Errors
    /// If the connection is lost, or the server ends it or violates the protocol.
    pub(super) fn read(&mut self, buffer: &mut [u8], now: u64) -> Result<(), Error> {
        while !self.is_closed() {
            let count = match self.wire.fill(buffer) {
                Ok(Some(count)) => count,
                Ok(None) => break,
                Err(_) if self.stage == Stage::Closing => {
                    self.stage = Stage::Closed;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(Error::unavailable("the server closed the socket"));
                }
                Err(error) => return Err(Error::io(&self.plan.server, &error)),
            };
            let mut input = &buffer[..count];
            while let Some(size) = self.step(input, now)? {
                input = &input[size..];
            }
            self.wire.keep(input);
            if !self.wire.holds_input() {
                break;
            }
        }
        self.traffic.end_of_input(&self.session, &mut self.wire.output);
        Ok(())
    }

    /// Handles the frame at the front of the input; returns its size, or `None` for a partial one.
    #[inline]
    fn step(&mut self, input: &[u8], now: u64) -> Result<Option<usize>, Error> {
        if matches!(self.stage, Stage::SaslHeader | Stage::Header) {
            return self.header(input);
        }
        let Some((frame, size)) = split(input, FRAME_SIZE_MAX).map_err(broken)? else { return Ok(None) };
        if fast::is_transfer(frame.body) {
            let transfer = fast::transfer(frame.body).map_err(broken)?;
            self.session.next_incoming = self.session.next_incoming.wrapping_add(1);
            let link = self.link(transfer.handle)?;
            let output = &mut self.wire.output;
            self.traffic.transfer(link, &transfer, now, &self.session, output);
        } else if fast::is_disposition(frame.body) {
            let disposition = fast::disposition(frame.body).map_err(broken)?;
            self.traffic.disposition(&disposition, now, &mut self.wire.output);
        } else if !frame.body.is_empty() {
            self.control_frame(&frame)?;
        }
        Ok(Some(size))
    }

    fn header(&mut self, input: &[u8]) -> Result<Option<usize>, Error> {
        let Some(protocol) = decode_protocol_header(input).map_err(broken)? else { return Ok(None) };
        self.stage = match (self.stage, protocol) {
            (Stage::SaslHeader, Protocol::Sasl) => Stage::Sasl,
            (Stage::Header, Protocol::Amqp) => Stage::Opening,
            (_, other) => {
                return Err(Error::peer(format!("the server answered with the protocol header of {other:?}")));
            }
        };
        Ok(Some(8))
    }

    fn control_frame(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        if frame.kind == FrameKind::Sasl {
            return self.sasl(decode_sasl(frame.body).map_err(broken)?);
        }
        match decode_performative(frame.body).map_err(broken)?.0 {
            Performative::Open(open) => self.opened(&open),
            Performative::Begin(begin) => {
                self.session.next_incoming = begin.next_outgoing_id;
                self.session.window = begin.incoming_window;
            }
            Performative::Attach(attach) => self.attached(&attach)?,
            Performative::Flow(flow) => self.flow(&flow)?,
            Performative::Detach(detach) => return Err(Error::from_peer("link detached", detach.error.as_ref())),
            Performative::End(end) => return Err(Error::from_peer("session ended", end.error.as_ref())),
            Performative::Close(_) if self.stage == Stage::Closing => self.stage = Stage::Closed,
            Performative::Close(close) => {
                encode_close(&mut self.wire.output, 0, None);
                return Err(Error::from_peer("connection closed", close.error.as_ref()));
            }
            Performative::Transfer(_) | Performative::Disposition(_) => {
                return Err(Error::peer("a transfer or disposition in an encoding that the load tool does not read"));
            }
        }
        Ok(())
    }

    fn sasl(&mut self, frame: SaslFrame) -> Result<(), Error> {
        let Some(exchange) = &mut self.exchange else {
            return Err(Error::peer("an unexpected SASL frame"));
        };
        match frame {
            SaslFrame::Mechanisms(offered) => {
                let init = exchange.start(&offered)?;
                encode_sasl(&mut self.wire.output, &SaslFrame::Init(init));
            }
            SaslFrame::Challenge(challenge) => {
                let response = exchange.challenge(&challenge)?;
                encode_sasl(&mut self.wire.output, &SaslFrame::Response(SaslResponse(response)));
            }
            SaslFrame::Outcome(outcome) => {
                exchange.outcome(&outcome)?;
                self.exchange = None;
                self.open();
            }
            SaslFrame::Init(_) | SaslFrame::Response(_) => return Err(Error::peer("a SASL frame of a client")),
        }
        Ok(())
    }

    /// Writes the attaches of the links.
    fn open(&mut self) {
        self.stage = Stage::Header;
        let plan = Arc::clone(&self.plan);
        let output = &mut self.wire.output;
        output.extend_from_slice(&protocol_header(Protocol::Amqp));
        let open = Open {
            container_id: format!("enmasse-load-{:08x}-{}", plan.run, self.key),
            hostname: Some(plan.hostname.clone()),
            max_frame_size: FRAME_SIZE_MAX,
            channel_max: 0,
            ..Open::default()
        };
        encode_open(output, 0, &open);
        if self.traffic.links().is_empty() {
            return;
        }
        let begin = Begin {
            remote_channel: None,
            next_outgoing_id: 0,
            incoming_window: WINDOW,
            outgoing_window: WINDOW,
            handle_max: u32::MAX,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Fields::new(),
        };
        encode_begin(output, 0, &begin);
        for (handle, number) in self.traffic.links().iter().enumerate() {
            encode_attach(output, 0, &plan.attach(self.traffic.role(), handle as u32, *number));
        }
    }

    fn opened(&mut self, open: &Open) {
        self.session.frame_size = open.max_frame_size.clamp(512, FRAME_SIZE_MAX);
        // a third of the peer's time-out, so that a heartbeat that is late by one turn is still in
        // time
        self.heartbeat = open.idle_time_out.map(|limit| u64::from(limit) * 1_000_000 / 3);
        if self.missing == 0 {
            self.stage = Stage::Up;
        }
    }

    fn attached(&mut self, attach: &Attach) -> Result<(), Error> {
        let refused = match self.traffic.role() {
            Role::Sender => attach.target.is_none(),
            Role::Receiver => attach.source.is_none(),
        };
        // a detach with the reason follows
        if refused {
            return Ok(());
        }
        let link = attach.name.rsplit('-').next().and_then(|text| text.parse().ok());
        let Some(link) = link.filter(|link| *link < self.traffic.links().len()) else {
            return Err(Error::peer(format!("attach of a link {:?} that was not requested", attach.name)));
        };
        let handle = attach.handle as usize;
        if handle > usize::from(u16::MAX) {
            return Err(Error::peer(format!("attach with handle {handle}: the load tool takes up to 65535")));
        }
        if handle >= self.handles.len() {
            self.handles.resize(handle + 1, usize::MAX);
        }
        self.handles[handle] = link;
        self.traffic.attached(link, attach, &self.session, &mut self.wire.output);
        self.missing = self.missing.saturating_sub(1);
        if self.missing == 0 && self.stage == Stage::Opening {
            self.stage = Stage::Up;
        }
        Ok(())
    }

    #[inline]
    fn link(&self, handle: u32) -> Result<usize, Error> {
        match self.handles.get(handle as usize) {
            Some(link) if *link != usize::MAX => Ok(*link),
            _ => Err(Error::peer(format!("handle {handle} belongs to no link"))),
        }
    }

    fn flow(&mut self, flow: &Flow) -> Result<(), Error> {
        let limit = flow.next_incoming_id.unwrap_or(0).wrapping_add(flow.incoming_window);
        self.session.window = (limit.wrapping_sub(self.session.next_outgoing) as i32).max(0) as u32;
        if let Some(handle) = flow.handle {
            let link = self.link(handle)?;
            self.traffic.flow(link, flow, &self.session, &mut self.wire.output);
        }
        if flow.echo {
            self.session.write_flow(&mut self.wire.output, None);
        }
        Ok(())
    }

    /// Writes pending output, and watches for writability if some remains.
    ///
    /// # Errors
    /// If the socket has failed.
    pub(super) fn flush(&mut self, poller: &Poller, now: u64) -> Result<(), Error> {
        if self.wire.pending() > 0 {
            self.last_write = now;
        }
        let result = self.wire.flush().and_then(|blocked| {
            if blocked != self.blocked {
                self.blocked = blocked;
                poller.rewatch(&self.wire, self.key, blocked)?;
            }
            Ok(())
        });
        match result {
            Err(_) if self.stage == Stage::Closing => {
                self.stage = Stage::Closed;
                Ok(())
            }
            other => other.map_err(|error| Error::io(&self.plan.server, &error)),
        }
    }

    /// Sends a heartbeat to a server with an idle time-out.
    pub(super) fn keep_alive(&mut self, now: u64) {
        let due = self.heartbeat.is_some_and(|limit| now.saturating_sub(self.last_write) >= limit);
        if due && self.is_up() && self.wire.pending() == 0 {
            encode_heartbeat(&mut self.wire.output);
        }
    }

    /// Closes the connection; `is_closed` once the server has answered, or at once if the links
    /// were never attached.
    pub(super) fn close(&mut self) {
        self.stage = match self.stage {
            Stage::Up => {
                encode_close(&mut self.wire.output, 0, None);
                Stage::Closing
            }
            Stage::Closing => Stage::Closing,
            _ => Stage::Closed,
        };
    }
}

impl<T> AsFd for Connection<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

/// The filter for the start position in a stream.
fn offset_filter(offset: &str) -> (Symbol, Value) {
    let name = Symbol::constant("rabbitmq:stream-offset-spec");
    let described = Value::Described(Box::new((Value::Symbol(name.clone()), Value::String(offset.to_owned()))));
    (name, described)
}

fn broken(error: DecodeError) -> Error {
    Error::peer(error.to_string())
}

impl Plan {
    /// The attach of a link; its name ends in its handle.
    fn attach(&self, role: Role, handle: u32, number: u32) -> Attach {
        let options = &self.options;
        let sends = role == Role::Sender;
        let name = format!("load-{:08x}-{}-{number}-{handle}", self.run, if sends { "sender" } else { "receiver" });
        let capabilities: Vec<Symbol> = options.capability.iter().map(|name| Symbol::from(name.as_str())).collect();
        let address = Some(options.address_of(number));
        let mut source = Source { address: Some(name.clone()), ..Source::default() };
        let mut target = Target::node(Some(name.clone()));
        if sends {
            if let Target::Node { address: place, capabilities: wanted, .. } = &mut target {
                (*place, *wanted) = (address, capabilities);
            }
        } else {
            (source.address, source.capabilities) = (address, capabilities);
            source.filter = options.offset.iter().map(|offset| offset_filter(offset)).collect();
        }
        Attach {
            name,
            handle,
            role,
            snd_settle_mode: match (options.presettled, sends) {
                (true, _) => SenderSettleMode::Settled,
                (false, true) => SenderSettleMode::Unsettled,
                (false, false) => SenderSettleMode::Mixed,
            },
            rcv_settle_mode: ReceiverSettleMode::First,
            source: Some(Box::new(source)),
            target: Some(Box::new(target)),
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: sends.then_some(0),
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Fields::new(),
        }
    }
}
