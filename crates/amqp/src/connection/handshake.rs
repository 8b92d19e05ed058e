//! Opening and closing a connection: protocol headers (2.2), the security layer (5.3), open and
//! close (2.4).

use super::fault::Fault;
use super::state::{Sasl, SaslStep, State, Step};
use super::{ClosedBy, Connection, Event, SaslPolicy};
use crate::codec::frame::{self, HEADER_SIZE, MIN_MAX_FRAME_SIZE, Protocol, protocol_header};
use crate::codec::{decode_sasl, encode_close, encode_open, encode_sasl};
use crate::types::{Error, Open, SaslCode, SaslFrame, SaslInit, SaslOutcome, SaslResponse, Symbol, condition};

/// Bytes of the largest frame accepted before the connection is open. More than the 512 of 2.4.1
/// and 5.3.1, because tokens and properties exceed that; less than later, because the peer is not
/// yet authenticated.
pub(super) const FRAME_MAX: u32 = 16_384;

/// State needed only until the connection is open.
#[derive(Debug)]
pub(super) struct Handshake {
    /// server: whether the security layer may be skipped; `None` once it is complete
    policy: Option<SaslPolicy>,
    /// server: the mechanisms to offer
    mechanisms: Vec<Symbol>,
    /// client: our open
    open: Option<Open>,
}

impl Handshake {
    pub(super) fn server(policy: SaslPolicy) -> Self {
        Self { policy: Some(policy), mechanisms: Vec::new(), open: None }
    }

    pub(super) fn client(open: Open) -> Self {
        Self { policy: None, mechanisms: Vec::new(), open: Some(open) }
    }
}

impl Connection {
    /// Changes the state of the connection; `false` where the standard does not allow it.
    fn step(&mut self, step: Step) -> bool {
        self.pending_work = true;
        let Some(next) = self.state.after(step) else { return false };
        self.state = next;
        true
    }

    fn sasl_step(&mut self, step: SaslStep) -> bool {
        let Some(next) = self.sasl.after(step) else { return false };
        self.sasl = next;
        true
    }

    /// Client: the first bytes of the connection.
    pub(super) fn write_first_header(&mut self, sasl: bool) {
        if sasl {
            self.sasl = Sasl::AwaitsHeader;
            self.output.extend_from_slice(&protocol_header(Protocol::Sasl));
        } else {
            self.begin_amqp();
        }
    }

    /// Client: the AMQP header and our open, at once.
    fn begin_amqp(&mut self) {
        self.output.extend_from_slice(&protocol_header(Protocol::Amqp));
        self.step(Step::SentHeader);
        if let Some(open) = self.handshake.as_mut().and_then(|handshake| handshake.open.take()) {
            self.write_open(open);
        }
    }

    /// Whether the next bytes of the peer are a protocol header.
    pub(super) fn awaits_header(&self) -> bool {
        match self.sasl {
            Sasl::AwaitsHeader => true,
            Sasl::Off => {
                matches!(self.state, State::Start | State::HeaderSent | State::OpenPipe | State::OpenClosePipe)
            }
            _ => false,
        }
    }

    /// Reads and answers a protocol header; `false` while bytes of it are missing.
    pub(super) fn read_header(&mut self, input: &mut &[u8]) -> bool {
        match frame::decode_protocol_header(input) {
            Ok(None) => return false,
            Ok(Some(protocol)) => {
                *input = &input[HEADER_SIZE..];
                self.timers.received = self.timers.now;
                self.on_header(protocol);
            }
            Err(error) => self.refuse_header(error.into()),
        }
        true
    }

    fn on_header(&mut self, protocol: Protocol) {
        let policy = self.handshake.as_ref().and_then(|handshake| handshake.policy);
        match (protocol, self.state, self.sasl) {
            (Protocol::Sasl, State::Start, Sasl::Off) if policy.is_some() => self.offer_sasl(),
            (Protocol::Sasl, _, Sasl::AwaitsHeader) => {
                self.sasl_step(SaslStep::Header);
            }
            (Protocol::Amqp, State::Start, Sasl::Off) if policy != Some(SaslPolicy::Required) => {
                self.output.extend_from_slice(&protocol_header(Protocol::Amqp));
                self.step(Step::ReceivedHeader);
                self.step(Step::SentHeader);
            }
            (Protocol::Amqp, State::HeaderSent | State::OpenPipe | State::OpenClosePipe, Sasl::Off) => {
                self.step(Step::ReceivedHeader);
            }
            _ => {
                let wanted = if self.awaits_sasl() { "SASL (protocol id 3)" } else { "AMQP (protocol id 0)" };
                let description = format!("protocol header: {wanted} is needed here, the peer asks for {protocol:?}");
                self.refuse_header(Error::new(condition::NOT_ALLOWED, description));
            }
        }
    }

    fn offer_sasl(&mut self) {
        self.sasl_step(SaslStep::Header);
        self.output.extend_from_slice(&protocol_header(Protocol::Sasl));
        if let Some(handshake) = &mut self.handshake {
            handshake.policy = None;
            let mechanisms = std::mem::take(&mut handshake.mechanisms);
            encode_sasl(&mut self.output, &SaslFrame::Mechanisms(mechanisms));
        }
    }

    fn awaits_sasl(&self) -> bool {
        let required = self.handshake.as_ref().is_some_and(|handshake| handshake.policy == Some(SaslPolicy::Required));
        required || self.sasl == Sasl::AwaitsHeader
    }

    /// Refuses a header: a server answers with the one it expects (2.2).
    fn refuse_header(&mut self, error: Error) {
        if self.state == State::Start && self.sasl == Sasl::Off {
            let wanted = if self.awaits_sasl() { Protocol::Sasl } else { Protocol::Amqp };
            self.output.extend_from_slice(&protocol_header(wanted));
        }
        self.state = State::End;
        self.finish(Some(error), ClosedBy::Local);
    }

    /// Server, before the first input: the mechanisms offered, strongest first.
    pub fn sasl_mechanisms(&mut self, mechanisms: &[Symbol]) {
        if let Some(handshake) = &mut self.handshake {
            handshake.mechanisms = mechanisms.to_vec();
        }
    }

    /// Server: answers `SaslInit` or `SaslResponse` with a further challenge.
    pub fn sasl_challenge(&mut self, challenge: Vec<u8>) {
        if self.sasl_step(SaslStep::Challenge) {
            encode_sasl(&mut self.output, &SaslFrame::Challenge(challenge));
        }
    }

    /// Server: the outcome. Unless it is `Ok`, the connection ends and `Closed` follows.
    pub fn sasl_outcome(&mut self, code: SaslCode, additional_data: Option<Vec<u8>>) {
        if !self.sasl_step(SaslStep::Outcome) {
            return;
        }
        encode_sasl(&mut self.output, &SaslFrame::Outcome(SaslOutcome { code, additional_data }));
        if code != SaslCode::Ok {
            self.end_unauthenticated(code, ClosedBy::Local);
        }
    }

    /// Client: the answer to `SaslMechanisms`.
    pub fn sasl_init(&mut self, init: SaslInit) {
        if self.sasl == Sasl::SendsInit && self.sasl_step(SaslStep::Init) {
            encode_sasl(&mut self.output, &SaslFrame::Init(init));
        }
    }

    /// Client: the answer to `SaslChallenge`.
    pub fn sasl_response(&mut self, response: Vec<u8>) {
        if self.sasl == Sasl::SendsResponse && self.sasl_step(SaslStep::Response) {
            encode_sasl(&mut self.output, &SaslFrame::Response(SaslResponse(response)));
        }
    }

    fn end_unauthenticated(&mut self, code: SaslCode, by: ClosedBy) {
        let description = format!("the security layer ended with the outcome {code:?}");
        self.state = State::End;
        self.finish(Some(Error::new(condition::UNAUTHORIZED_ACCESS, description)), by);
    }

    /// A frame of the security layer.
    pub(super) fn on_sasl(&mut self, body: &[u8]) -> Result<Option<Event<'static>>, Box<Fault>> {
        let frame = decode_sasl(body)?;
        let (step, waits) = match &frame {
            SaslFrame::Mechanisms(_) => (SaslStep::Mechanisms, Sasl::AwaitsMechanisms),
            SaslFrame::Init(_) => (SaslStep::Init, Sasl::AwaitsInit),
            SaslFrame::Challenge(_) => (SaslStep::Challenge, Sasl::AwaitsOutcome),
            SaslFrame::Response(_) => (SaslStep::Response, Sasl::AwaitsResponse),
            SaslFrame::Outcome(_) => (SaslStep::Outcome, Sasl::AwaitsOutcome),
        };
        if self.sasl != waits || !self.sasl_step(step) {
            return Err(Fault::connection(condition::ILLEGAL_STATE, format!("unexpected SASL frame: {step:?}")));
        }
        Ok(Some(match frame {
            SaslFrame::Mechanisms(mechanisms) => Event::SaslMechanisms(mechanisms),
            SaslFrame::Init(init) => Event::SaslInit(init),
            SaslFrame::Challenge(challenge) => Event::SaslChallenge(challenge),
            SaslFrame::Response(response) => Event::SaslResponse(response),
            SaslFrame::Outcome(outcome) => {
                match outcome.code {
                    SaslCode::Ok => self.begin_amqp(),
                    code => self.end_unauthenticated(code, ClosedBy::Peer),
                }
                Event::SaslOutcome(outcome)
            }
        }))
    }

    /// The peer's open.
    pub(super) fn on_open(&mut self, channel: u16, open: Box<Open>) -> Result<Option<Event<'static>>, Box<Fault>> {
        if channel != 0 {
            // 2.7.1 names this error for a channel that cannot be used; before open there is only
            // channel 0 (2.4.1).
            return Err(Fault::connection(condition::FRAMING_ERROR, format!("open on channel {channel}: must be 0")));
        }
        if !self.step(Step::ReceivedOpen) {
            return Err(Fault::connection(condition::ILLEGAL_STATE, "a second open"));
        }
        if open.max_frame_size < MIN_MAX_FRAME_SIZE {
            let description = format!("open.max-frame-size: {} is below {MIN_MAX_FRAME_SIZE}", open.max_frame_size);
            return Err(Fault::connection(condition::INVALID_FIELD, description));
        }
        self.remote_max_frame_size = open.max_frame_size as usize;
        self.remote_channel_max = open.channel_max;
        self.timers.heartbeat(open.idle_time_out).map_err(|error| Box::new(Fault::Connection(error)))?;
        self.finish_handshake();
        Ok((!self.state.closing()).then_some(Event::Open(open)))
    }

    /// Server: the answer to `Open`. Frame size, channel-max and idle-time-out are replaced by
    /// those of `Config`.
    pub fn open(&mut self, open: Open) {
        if self.state == State::OpenReceived {
            self.write_open(open);
            self.finish_handshake();
        }
    }

    fn write_open(&mut self, mut open: Open) {
        open.max_frame_size = self.config.frame_limit();
        open.channel_max = self.config.channel_max;
        open.idle_time_out = self.config.idle_time_out_ms;
        encode_open(&mut self.output, 0, &open);
        self.step(Step::SentOpen);
    }

    /// Once the connection is open, drops the state of the handshake.
    fn finish_handshake(&mut self) {
        if self.state == State::Opened {
            self.handshake = None;
            self.max_frame_size = self.config.frame_limit();
            self.timers.deadline = None;
            self.timers.sent = self.timers.now;
        }
    }

    /// Ends the connection: `Closed` follows with the peer's `close`, or at the time-out.
    pub fn close(&mut self, error: Option<Error>) {
        match self.state {
            State::HeaderExchanged | State::OpenReceived => self.write_open(self.config.open()),
            State::OpenPipe | State::OpenSent | State::Opened => {}
            state if state.closing() || state == State::End => return,
            _ => {
                self.state = State::End;
                return self.finish(error, ClosedBy::Local);
            }
        }
        self.write_close(error.as_ref());
        self.step(Step::SentClose);
        self.timers.deadline = Some(self.timers.now.plus_millis(u64::from(self.config.handshake_ms)));
    }

    /// Writes the pending output of the sessions, then a close.
    fn write_close(&mut self, error: Option<&Error>) {
        self.flush(self.timers.now);
        self.put_close(error);
    }

    /// The peer's close: answered, unless it is an answer itself.
    pub(super) fn on_close(&mut self, error: Option<Error>) -> Result<Option<Event<'static>>, Box<Fault>> {
        let by = if self.state.closing() { ClosedBy::Local } else { ClosedBy::Peer };
        if by == ClosedBy::Peer {
            self.flush(self.timers.now);
        }
        if !self.step(Step::ReceivedClose) {
            return Err(Fault::connection(condition::ILLEGAL_STATE, "close before open"));
        }
        if by == ClosedBy::Peer {
            encode_close(&mut self.output, 0, None);
            self.step(Step::SentClose);
        }
        self.finish(error, by);
        Ok(None)
    }

    /// Aborts the connection: sends the reason if the state allows it, and notifies the driver at
    /// once. Whatever comes after is dropped.
    pub(super) fn abandon(&mut self, error: Error, by: ClosedBy) {
        if matches!(self.state, State::HeaderExchanged | State::OpenReceived) {
            self.write_open(self.config.open());
        }
        if matches!(self.state, State::Opened | State::OpenSent) {
            self.write_close(Some(&error));
            self.step(Step::Failed);
        } else {
            self.state = State::End;
        }
        self.finish(Some(error), by);
    }

    /// Queues the last event and stops all timers.
    fn finish(&mut self, error: Option<Error>, by: ClosedBy) {
        self.timers.deadline = None;
        self.handshake = None;
        self.queue_event(Event::Closed { error, by });
    }
}
