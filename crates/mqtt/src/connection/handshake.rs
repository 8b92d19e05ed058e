//! CONNECT and its answers (3.1, 3.2), and AUTH (3.15, 4.12).

use super::closing::push_fitting;
use super::state::{Reauthentication, State, Step};
use super::{Accept, AnswerError, Closed, ClosedBy, Connection, Event, InFlight};
use crate::codec::fixed::Frame;
use crate::codec::{
    Auth, Carrier, ConnAck, Connect, DecodeError, EncodeError, Property, PropertyBuffer, PropertyId, ReasonCode,
    Version, encode_auth, encode_connack, peek_level,
};
use crate::time::Time;

/// The result of a packet: an event, nothing to report, or a violation.
pub(super) type Received<'a> = Result<Option<Event<'a>>, DecodeError>;

/// Takes a step of the connection's state.
fn step(state: State, step: Step) -> Result<State, AnswerError> {
    state.after(step).ok_or(AnswerError::NotOpen)
}

impl Connection {
    /// The first packet must be a CONNECT [5: 3.1.0-1]: anything else is refused at its first byte.
    pub(super) fn check_first_byte(&self, input: &[u8]) -> Result<(), DecodeError> {
        match input {
            [first, ..] if self.state == State::AwaitConnect && *first != 0x10 => {
                Err(DecodeError::protocol("the first packet is not a CONNECT"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn on_first_frame<'a>(&mut self, frame: &Frame<'a>) -> Received<'a> {
        if frame.kind() != 1 {
            return Err(DecodeError::protocol("the first packet is not a CONNECT"));
        }
        let connect = match Connect::decode(frame) {
            Ok(connect) => connect,
            Err(error) => {
                self.refuse_undecoded(frame.body, error);
                return Ok(None);
            }
        };
        self.version = connect.version;
        self.state = self.state.after(Step::ReceivedConnect).unwrap_or(self.state);
        if connect.client_id.is_empty() && !connect.version.is_v5() && !(connect.clean_start && self.is_v311()) {
            // [3: 3.1.3-8, 3.1.3-9]; 3.1 has no empty identifier
            let text = "CONNECT: the client identifier is empty";
            let code = ReasonCode::ClientIdentifierNotValid;
            self.put_refusal(code, text, None);
            self.end(Closed {
                by: ClosedBy::Violation,
                code,
                text: text.to_owned(),
                publish_will: false,
                session_expiry_s: None,
            });
            return Ok(None);
        }
        self.remote_size_max_bytes = connect.maximum_packet_size_bytes();
        self.problem_information = connect.wants_problem_information();
        self.wants_response_information = connect.wants_response_information();
        self.session_expiry_s = connect.session_expiry_s();
        self.authentication_method = connect.authentication_method().map(Box::from);
        self.outgoing_aliases.begin(connect.topic_alias_maximum().min(self.config.outgoing_alias_max));
        self.deliveries.begin(connect.receive_maximum().min(self.config.send_window_max.max(1)), &[]);
        self.timers.ask(connect.keep_alive_s);
        Ok(Some(Event::Connect(Box::new(connect))))
    }

    fn is_v311(&self) -> bool {
        self.version == Version::V311
    }

    /// Answers a CONNECT that cannot be decoded, in the version that it states [5: 3.1.2-2,
    /// 3.1.4-1; 3: 3.1.2-2]. Other first packets are not answered.
    fn refuse_undecoded(&mut self, body: &[u8], error: DecodeError) {
        let level = peek_level(body);
        let unsupported = error.code == ReasonCode::UnsupportedProtocolVersion;
        self.version = match level {
            Some(5..) => Version::V5,
            _ => Version::V311,
        };
        if level.is_some() && (self.version.is_v5() || unsupported) {
            self.state = State::Deciding;
            self.put_refusal(error.code, error.what, None);
        }
        let (by, text) = (ClosedBy::Violation, error.what.to_owned());
        self.end(Closed { by, code: error.code, text, publish_will: false, session_expiry_s: None });
    }

    /// Answers CONNECT with success (3.2); deliveries and packet identifiers of the session are
    /// `in_flight`, which must be empty without `session_present`.
    ///
    /// # Errors
    /// `NotOpen` unless CONNECT or AUTH waits for its answer; `TooLarge` if the client's maximum
    /// packet size has no room for the answer: `Closed` follows.
    pub fn accept(&mut self, now: Time, accept: &Accept<'_>, in_flight: &InFlight) -> Result<(), AnswerError> {
        let next = step(self.state, Step::SentConnAck)?;
        debug_assert!(accept.session_present || *in_flight == InFlight::default());
        self.timers.now = now;
        let keep_alive_s = accept.server_keep_alive_s.or_else(|| self.imposed_keep_alive_s());
        let properties = match self.version {
            Version::V5 => self.accept_properties(accept, keep_alive_s)?,
            _ => PropertyBuffer::default(),
        };
        let connack = ConnAck {
            // 3.1 has no such flag.
            session_present: accept.session_present && self.version != Version::V31,
            code: 0,
            properties: properties.as_properties(),
        };
        let before = self.output.len();
        let encoded = encode_connack(&mut self.output, &connack, self.version);
        if encoded.is_err() || self.output.len() - before > self.remote_size_max_bytes as usize {
            // [5: 3.1.2-24]
            self.output.truncate(before);
            let text = "CONNACK is larger than the client's maximum packet size".to_owned();
            let code = ReasonCode::PacketTooLarge;
            self.end(Closed { by: ClosedBy::Server, code, text, publish_will: false, session_expiry_s: None });
            return Err(AnswerError::TooLarge);
        }
        self.state = next;
        self.packet_size_max_bytes = self.config.packet_size_max_bytes;
        self.session_expiry_s = accept.session_expiry_s.unwrap_or(self.session_expiry_s);
        self.deliveries.begin(self.deliveries.window(), &in_flight.outgoing);
        self.requests.begin(&in_flight.received);
        self.timers.open(keep_alive_s);
        Ok(())
    }

    /// The operator's longest keep-alive, where the client of 5.0 asks for more or for none.
    fn imposed_keep_alive_s(&self) -> Option<u16> {
        let (max, asked) = (self.config.keep_alive_max_s, self.timers.asked_keep_alive_s());
        (self.version.is_v5() && max > 0 && (asked == 0 || asked > max)).then_some(max)
    }

    /// Properties of a CONNACK with success (3.2.2.3): what the client must know, then what fits.
    fn accept_properties(&self, accept: &Accept<'_>, keep_alive_s: Option<u16>) -> Result<PropertyBuffer, AnswerError> {
        use PropertyId as P;
        let config = &self.config;
        let numbers = [
            accept.session_expiry_s.map(|seconds| (P::SessionExpiryInterval, seconds)),
            (config.receive_maximum != u16::MAX).then_some((P::ReceiveMaximum, config.receive_maximum.max(1).into())),
            Some((P::MaximumPacketSize, config.packet_size_max_bytes.max(1))),
            (config.topic_alias_maximum > 0).then_some((P::TopicAliasMaximum, config.topic_alias_maximum.into())),
            keep_alive_s.map(|seconds| (P::ServerKeepAlive, seconds.into())),
        ];
        let numbers = numbers.into_iter().flatten().map(|(id, value)| Property::Number(id, value));
        let assigned = accept.assigned_client_id.map(|id| Property::Text(P::AssignedClientIdentifier, id));
        // [5: 3.1.2-28]
        let information = accept.response_information.filter(|_| self.wants_response_information);
        let information = information.map(|base| Property::Text(P::ResponseInformation, base));
        let method = self.authentication_method.as_deref();
        let method = method.map(|method| Property::Text(P::AuthenticationMethod, method));
        let data = accept.authentication_data.filter(|_| method.is_some());
        let data = data.map(|data| Property::Binary(P::AuthenticationData, data));
        let mut properties = PropertyBuffer::default();
        for property in numbers.chain(assigned).chain(method).chain(data).chain(information) {
            properties.push(property).map_err(|_: EncodeError| AnswerError::TooLarge)?;
        }
        // [5: 3.2.2-19, 3.2.2-20]
        let reason = (!accept.reason.is_empty()).then_some(Property::Text(P::ReasonString, accept.reason));
        let user = accept.user.iter().map(|(name, value)| Property::User(name, value));
        let room = (self.remote_size_max_bytes as usize).saturating_sub(11);
        push_fitting(&mut properties, reason.into_iter().chain(user), room);
        Ok(properties)
    }

    /// Answers CONNECT with a refusal: `Closed` follows [5: 3.1.4-2, 3.2.2-7]. With 3.x the closest
    /// return code is sent. `server_reference` goes with `UseAnotherServer` and `ServerMoved`.
    ///
    /// # Errors
    /// `NotOpen` unless CONNECT or AUTH waits for its answer.
    pub fn refuse(&mut self, code: ReasonCode, text: &str, server_reference: Option<&str>) -> Result<(), AnswerError> {
        if self.state != State::Deciding {
            return Err(AnswerError::NotOpen);
        }
        let code = match code.is_error() {
            true => code.for_carrier(Carrier::ConnAck),
            false => ReasonCode::UnspecifiedError,
        };
        self.put_refusal(code, text, server_reference);
        let text = text.to_owned();
        self.end(Closed { by: ClosedBy::Server, code, text, publish_will: false, session_expiry_s: None });
        Ok(())
    }

    /// Writes a CONNACK with an error, without a session [5: 3.2.2-6].
    pub(super) fn put_refusal(&mut self, code: ReasonCode, text: &str, server_reference: Option<&str>) {
        let code = code.for_carrier(Carrier::ConnAck);
        let mut properties = PropertyBuffer::default();
        let reference = server_reference.map(|reference| Property::Text(PropertyId::ServerReference, reference));
        let reason = (!text.is_empty()).then_some(Property::Text(PropertyId::ReasonString, text));
        let room = (self.remote_size_max_bytes as usize).saturating_sub(11);
        push_fitting(&mut properties, reference.into_iter().chain(reason), room);
        let code = match self.version {
            Version::V5 => code.as_u8(),
            _ => code.connect_return_code(),
        };
        let connack = ConnAck { session_present: false, code, properties: properties.as_properties() };
        let before = self.output.len();
        let encoded = encode_connack(&mut self.output, &connack, self.version);
        debug_assert_eq!(encoded, Ok(()), "the properties are bounded by the room");
        if self.output.len() - before > self.remote_size_max_bytes as usize {
            self.output.truncate(before);
        }
    }

    /// AUTH of the client, within CONNECT or later.
    pub(super) fn on_auth<'a>(&mut self, frame: &Frame<'a>) -> Received<'a> {
        let auth = Auth::decode(frame, self.version)?;
        let Some(method) = self.authentication_method.as_deref() else {
            return Err(DecodeError::protocol("AUTH: CONNECT named no authentication method"));
        };
        match auth.method() {
            Some(named) if named == method => {}
            // [5: 4.12.0-5, 4.12.1-1]
            Some(_) => {
                let what = "AUTH: the authentication method is not that of CONNECT";
                return Err(DecodeError { code: ReasonCode::BadAuthenticationMethod, what });
            }
            // 3.15.2.2.2
            None => return Err(DecodeError::protocol("AUTH: the authentication method is missing")),
        }
        let (code, data) = (auth.code, auth.data());
        if self.state == State::AwaitAuth && code == ReasonCode::ContinueAuthentication {
            self.state = self.state.after(Step::ReceivedAuth).unwrap_or(self.state);
            return Ok(Some(Event::Auth { reauthenticate: false, data }));
        }
        let reauthenticate = match (self.state, self.reauthentication, code) {
            (State::Open, Reauthentication::Idle, ReasonCode::ReAuthenticate) => true,
            (State::Open, Reauthentication::AwaitAuth, ReasonCode::ContinueAuthentication) => false,
            // [5: 4.12.0-3]
            _ => return Err(DecodeError::protocol("AUTH: the reason code is not the next of the exchange")),
        };
        self.reauthentication = Reauthentication::Deciding;
        if reauthenticate {
            self.timers.begin_reauthentication(self.config.handshake_ms);
        }
        Ok(Some(Event::Auth { reauthenticate, data }))
    }

    /// Sends AUTH with Continue Authentication [5: 4.12.0-2], within CONNECT or a re-authentication.
    ///
    /// # Errors
    /// `NotOpen` unless an authentication with a method waits for this; `TooLarge`: `Closed` follows.
    pub fn auth_continue(&mut self, data: &[u8]) -> Result<(), AnswerError> {
        if self.authentication_method.is_none() {
            return Err(AnswerError::NotOpen);
        }
        if self.reauthentication == Reauthentication::Deciding {
            self.put_auth(ReasonCode::ContinueAuthentication, data)?;
            self.reauthentication = Reauthentication::AwaitAuth;
            return Ok(());
        }
        let next = step(self.state, Step::SentAuth)?;
        self.put_auth(ReasonCode::ContinueAuthentication, data)?;
        self.state = next;
        Ok(())
    }

    /// Ends a re-authentication with success (4.12.1).
    ///
    /// # Errors
    /// `NotOpen` unless a re-authentication waits for its answer; `TooLarge`: `Closed` follows.
    pub fn auth_succeeded(&mut self, data: &[u8]) -> Result<(), AnswerError> {
        if self.state != State::Open || self.reauthentication != Reauthentication::Deciding {
            return Err(AnswerError::NotOpen);
        }
        self.put_auth(ReasonCode::Success, data)?;
        self.reauthentication = Reauthentication::Idle;
        self.timers.end_reauthentication();
        Ok(())
    }

    fn put_auth(&mut self, code: ReasonCode, data: &[u8]) -> Result<(), AnswerError> {
        let mut properties = PropertyBuffer::default();
        let method = self.authentication_method.as_deref().unwrap_or_default();
        let method = Some(Property::Text(PropertyId::AuthenticationMethod, method));
        let data = (!data.is_empty()).then_some(Property::Binary(PropertyId::AuthenticationData, data));
        let pushed: Result<Vec<()>, EncodeError> =
            method.into_iter().chain(data).map(|property| properties.push(property)).collect();
        let before = self.output.len();
        let packet = Auth { code, properties: properties.as_properties() };
        let encoded = pushed.and_then(|_| encode_auth(&mut self.output, &packet));
        if encoded.is_err() || self.output.len() - before > self.remote_size_max_bytes as usize {
            self.output.truncate(before);
            self.answer_too_large("AUTH is larger than the client's maximum packet size");
            return Err(AnswerError::TooLarge);
        }
        Ok(())
    }
}
