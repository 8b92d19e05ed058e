//! A client and a server machine, joined by a wire that cuts the bytes anywhere.

use std::sync::Arc;

use enmasse_amqp::codec::decode_performative;
use enmasse_amqp::codec::frame::{self, FrameKind};
use enmasse_amqp::connection::{
    AttachReply, Config, Connection, Event, Incoming, LinkId, Outgoing, SaslPolicy, SendError, SessionId,
};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{
    Attach, Fields, Outcome, Performative, ReceiverSettleMode, Role, SaslCode, SaslInit, SenderSettleMode, Source,
    Symbol, Target,
};

/// An event that has outlived its input.
#[derive(Debug, PartialEq)]
pub(crate) enum OwnedEvent {
    Event(Event<'static>),
    Piece(Piece),
}

/// An `Incoming` with its bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) link: LinkId,
    pub(crate) id: u32,
    pub(crate) first: bool,
    pub(crate) more: bool,
    pub(crate) aborted: bool,
    pub(crate) settled: bool,
    pub(crate) message_format: u32,
    pub(crate) payload: Vec<u8>,
    pub(crate) tag: Vec<u8>,
    pub(crate) resume: bool,
    /// the sender's state, encoded
    pub(crate) state: Option<Vec<u8>>,
}

impl OwnedEvent {
    pub(crate) fn own(event: Event<'_>) -> Self {
        Self::Event(match event {
            Event::Transfer(incoming) => return Self::Piece(Piece::own(&incoming)),
            Event::SaslMechanisms(mechanisms) => Event::SaslMechanisms(mechanisms),
            Event::SaslInit(init) => Event::SaslInit(init),
            Event::SaslChallenge(bytes) => Event::SaslChallenge(bytes),
            Event::SaslResponse(bytes) => Event::SaslResponse(bytes),
            Event::SaslOutcome(outcome) => Event::SaslOutcome(outcome),
            Event::Open(open) => Event::Open(open),
            Event::Begin(session) => Event::Begin(session),
            Event::Attach { link, session, attach } => Event::Attach { link, session, attach },
            Event::Attached { link, attach } => Event::Attached { link, attach },
            Event::Credit { link, credit, drain } => Event::Credit { link, credit, drain },
            Event::Flow { link, credit, available, drain, properties } => {
                Event::Flow { link, credit, available, drain, properties }
            }
            Event::Disposition { session, first, last, settled, outcome } => {
                Event::Disposition { session, first, last, settled, outcome }
            }
            Event::PostingRefused { txn_id, error } => Event::PostingRefused { txn_id, error },
            Event::Provisional { session, first, last, settled, txn_id, outcome } => {
                Event::Provisional { session, first, last, settled, txn_id, outcome }
            }
            Event::Declared { session, first, last, settled, txn_id } => {
                Event::Declared { session, first, last, settled, txn_id }
            }
            Event::SenderSettled { session, first, last } => Event::SenderSettled { session, first, last },
            Event::Detach { link, closed, error, by, ended } => Event::Detach { link, closed, error, by, ended },
            Event::End { session, error } => Event::End { session, error },
            Event::Closed { error, by } => Event::Closed { error, by },
        })
    }
}

impl Piece {
    fn own(incoming: &Incoming<'_>) -> Self {
        Self {
            link: incoming.link,
            id: incoming.delivery_id,
            first: incoming.first,
            more: incoming.more,
            aborted: incoming.aborted,
            settled: incoming.settled,
            message_format: incoming.message_format,
            payload: incoming.payload.to_vec(),
            tag: incoming.tag.to_vec(),
            resume: incoming.resume,
            state: incoming.state.map(<[u8]>::to_vec),
        }
    }
}

/// One machine with the state of its driver: unread bytes and received events.
pub(crate) struct Side {
    pub(crate) machine: Connection,
    pub(crate) unread: Vec<u8>,
    pub(crate) seen: Vec<OwnedEvent>,
    /// answers opens, attaches and SASL by itself
    pub(crate) answers: bool,
    /// credit that it grants as it answers the attach of a sender
    pub(crate) grants: u32,
}

impl Side {
    pub(crate) fn new(machine: Connection) -> Self {
        Self { machine, unread: Vec::new(), seen: Vec::new(), answers: true, grants: 0 }
    }

    /// Reads all input; sends the answers that need no decision.
    pub(crate) fn read(&mut self, now: Time) {
        loop {
            let mut input = &self.unread[..];
            let seen = self.machine.poll_event(now, &mut input).map(OwnedEvent::own);
            let consumed = self.unread.len() - input.len();
            self.unread.drain(..consumed);
            let Some(seen) = seen else { return };
            if self.answers {
                self.answer(&seen);
            }
            self.seen.push(seen);
        }
    }

    fn answer(&mut self, seen: &OwnedEvent) {
        match seen {
            OwnedEvent::Event(Event::Open(_)) => self.machine.open(Config::default().open()),
            OwnedEvent::Event(Event::Attach { link, attach, .. }) => {
                self.machine.accept(*link, echo(attach));
                self.machine.grant(*link, self.grants);
            }
            OwnedEvent::Event(Event::SaslMechanisms(mechanisms)) => self.machine.sasl_init(SaslInit {
                mechanism: mechanisms[0].clone(),
                initial_response: None,
                hostname: None,
            }),
            OwnedEvent::Event(Event::SaslInit(_)) => self.machine.sasl_outcome(SaslCode::Ok, None),
            _ => {}
        }
    }

    /// Takes the frames seen since the last call.
    pub(crate) fn take(&mut self) -> Vec<OwnedEvent> {
        std::mem::take(&mut self.seen)
    }

    /// Takes the pieces of deliveries seen since the last call; other events are dropped.
    pub(crate) fn pieces(&mut self) -> Vec<Piece> {
        let pieces = |seen| match seen {
            OwnedEvent::Piece(piece) => Some(piece),
            OwnedEvent::Event(_) => None,
        };
        self.take().into_iter().filter_map(pieces).collect()
    }

    /// Takes the only event seen since the last call.
    pub(crate) fn only(&mut self) -> Event<'static> {
        let mut seen = self.take();
        assert_eq!(seen.len(), 1, "{seen:?}");
        match seen.remove(0) {
            OwnedEvent::Event(event) => event,
            OwnedEvent::Piece(piece) => panic!("{piece:?}"),
        }
    }

    /// Sends a whole message, unsettled unless `token` is `None`.
    pub(crate) fn send(&mut self, link: LinkId, token: Option<u64>, payload: &[u8]) -> Result<(), SendError> {
        self.machine.transfer(link, piece(token, payload))
    }
}

/// A message in one piece.
pub(crate) fn piece(token: Option<u64>, payload: &[u8]) -> Outgoing<'_> {
    Outgoing { token, message_format: 0, first: true, more: false, aborted: false, payload }
}

/// The answer that agrees to everything.
pub(crate) fn echo(attach: &Attach) -> AttachReply {
    AttachReply {
        source: attach.source.clone(),
        target: attach.target.clone(),
        snd_settle_mode: attach.snd_settle_mode,
        rcv_settle_mode: attach.rcv_settle_mode,
        ..AttachReply::default()
    }
}

/// An attach of a link named `name` between two nodes.
pub(crate) fn attach(name: &str, role: Role) -> Attach {
    Attach {
        name: name.to_owned(),
        handle: 0,
        role,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(Box::new(Source { address: Some("from".to_owned()), ..Source::default() })),
        target: Some(Box::new(Target::node(Some("to".to_owned())))),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Fields::new(),
    }
}

/// A frame seen on the wire: its author (`true`: the client), channel, performative and payload
/// size.
pub(crate) type Sighting = (bool, u16, Performative, usize);

pub(crate) struct Pair {
    pub(crate) client: Side,
    pub(crate) server: Side,
    pub(crate) now: Time,
    /// bytes carried at a time
    pub(crate) chunk: usize,
    /// every AMQP frame but heartbeats, as it was written
    pub(crate) wire: Vec<Sighting>,
    tap: [Vec<u8>; 2],
}

impl Pair {
    /// Two machines that have not spoken yet.
    pub(crate) fn apart(client: Config, server: Config, sasl: bool) -> Self {
        let open = client.open();
        let client = Connection::client(Arc::new(client), Time::ZERO, sasl, open);
        let mut server = Connection::server(Arc::new(server), Time::ZERO, SaslPolicy::Optional);
        server.sasl_mechanisms(&[Symbol::constant("ANONYMOUS")]);
        Self {
            client: Side::new(client),
            server: Side::new(server),
            now: Time::ZERO,
            chunk: usize::MAX,
            wire: Vec::new(),
            tap: [Vec::new(), Vec::new()],
        }
    }

    /// Two machines whose connection is open.
    pub(crate) fn open(client: Config, server: Config) -> Self {
        let mut pair = Self::apart(client, server, false);
        pair.run();
        pair.client.take();
        pair.server.take();
        pair.wire.clear();
        pair
    }

    /// Two machines with a session and a link on which the client sends (or receives): client's
    /// session and link, server's link.
    pub(crate) fn linked(client: Config, server: Config, role: Role) -> (Self, SessionId, LinkId, LinkId) {
        let mut pair = Self::open(client, server);
        let session = pair.client.machine.begin().unwrap();
        let link = pair.client.machine.attach(session, attach("link", role)).unwrap();
        pair.run();
        let theirs = pair.server.machine.links().next().unwrap();
        pair.client.take();
        pair.server.take();
        pair.wire.clear();
        (pair, session, link, theirs)
    }

    /// Carries bytes both ways until neither side has output.
    pub(crate) fn run(&mut self) {
        loop {
            let forth = Self::carry(self.now, self.chunk, &mut self.client, &mut self.server, &mut self.tap[0]);
            let back = Self::carry(self.now, self.chunk, &mut self.server, &mut self.client, &mut self.tap[1]);
            for (from, tap) in self.tap.iter_mut().enumerate() {
                sight(from == 0, tap, &mut self.wire);
            }
            if !forth && !back {
                return;
            }
        }
    }

    fn carry(now: Time, chunk: usize, from: &mut Side, to: &mut Side, tap: &mut Vec<u8>) -> bool {
        from.machine.flush(now);
        let bytes = std::mem::take(from.machine.output());
        tap.extend_from_slice(&bytes);
        for part in bytes.chunks(chunk) {
            to.unread.extend_from_slice(part);
            to.read(now);
        }
        to.read(now);
        !bytes.is_empty()
    }

    /// The performatives written by one side since `wire` was cleared.
    pub(crate) fn written(&self, client: bool) -> Vec<&Performative> {
        self.wire.iter().filter(|sighting| sighting.0 == client).map(|sighting| &sighting.2).collect()
    }
}

/// Takes whole frames off the tap; protocol headers and SASL frames are skipped.
fn sight(client: bool, tap: &mut Vec<u8>, wire: &mut Vec<Sighting>) {
    let mut rest = &tap[..];
    loop {
        if rest.starts_with(b"AMQP") {
            rest = &rest[8..];
            continue;
        }
        let Some((frame, length)) = frame::split(rest, u32::MAX).expect("a machine writes whole, sound frames") else {
            break;
        };
        rest = &rest[length..];
        if frame.kind == FrameKind::Amqp && !frame.body.is_empty() {
            let (performative, payload) = decode_performative(frame.body).expect("a machine writes sound frames");
            wire.push((client, frame.channel, performative, payload.len()));
        }
    }
    let consumed = tap.len() - rest.len();
    tap.drain(..consumed);
}

/// The outcome that carries nothing.
pub(crate) const ACCEPTED: Outcome = Outcome::Accepted;
