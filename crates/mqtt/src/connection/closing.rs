//! The end of a connection (3.14, 4.13).

use super::state::State;
use super::{Closed, ClosedBy, Connection};
use crate::codec::{
    Carrier, DecodeError, Disconnect, Properties, Property, PropertyBuffer, PropertyId, ReasonCode, UserProperties,
    encode_disconnect,
};

impl Connection {
    /// Ends the connection: DISCONNECT with 5.0 [5: 3.14.0-1], nothing with 3.x, as before
    /// `accept`; `Closed` follows. A `server_reference` goes with `UseAnotherServer` and
    /// `ServerMoved`. Reason, reference and user properties are left out if the client's maximum
    /// packet size has no room for them.
    pub fn disconnect(
        &mut self,
        code: ReasonCode,
        text: &str,
        server_reference: Option<&str>,
        user: UserProperties<'_>,
    ) {
        if self.state == State::Ended {
            return;
        }
        let code = code.for_carrier(Carrier::ServerDisconnect);
        self.put_disconnect(code, text, server_reference, user);
        let publish_will = self.state == State::Open;
        let text = text.to_owned();
        self.end(Closed { by: ClosedBy::Server, code, text, publish_will, session_expiry_s: None });
    }

    /// The transport has ended: `Closed` follows, unless it was reported.
    pub fn transport_closed(&mut self) {
        if self.state == State::Ended {
            return;
        }
        let publish_will = self.state == State::Open;
        let text = "the transport was closed without a DISCONNECT".to_owned();
        let code = ReasonCode::UnspecifiedError;
        self.end(Closed { by: ClosedBy::Transport, code, text, publish_will, session_expiry_s: None });
    }

    /// Ends the connection because of a packet that is malformed or contradicts the protocol
    /// (4.13.1) [5: 4.13.1-1, 4.8.0-1].
    #[cold]
    pub(super) fn violation(&mut self, error: DecodeError) {
        match self.state {
            State::Open => self.end_with_disconnect(ClosedBy::Violation, error.code, error.what.to_owned()),
            State::Ended => {}
            state => {
                // Nothing but a CONNECT is answered: the peer may not speak MQTT at all.
                if state != State::AwaitConnect {
                    self.put_refusal(error.code, error.what, None);
                }
                let (by, text) = (ClosedBy::Violation, error.what.to_owned());
                self.end(Closed { by, code: error.code, text, publish_will: false, session_expiry_s: None });
            }
        }
    }

    /// Ends an open connection; the will is published [5: 3.1.2-8].
    pub(super) fn end_with_disconnect(&mut self, by: ClosedBy, code: ReasonCode, text: String) {
        self.put_disconnect(code, &text, None, UserProperties::NONE);
        self.end(Closed { by, code, text, publish_will: true, session_expiry_s: None });
    }

    pub(super) fn end(&mut self, closed: Closed) {
        debug_assert_ne!(self.state, State::Ended);
        self.state = State::Ended;
        self.closed = Some(Box::new(closed));
    }

    /// Writes DISCONNECT, with what fits of its properties [5: 3.14.2-3, 3.14.2-4].
    fn put_disconnect(
        &mut self,
        code: ReasonCode,
        text: &str,
        server_reference: Option<&str>,
        user: UserProperties<'_>,
    ) {
        // [5: 3.14.0-1]; 3.x has no DISCONNECT of the server.
        if self.state != State::Open || !self.version.is_v5() {
            return;
        }
        let reference = server_reference.map(|reference| Property::Text(PropertyId::ServerReference, reference));
        let reason = (!text.is_empty()).then_some(Property::Text(PropertyId::ReasonString, text));
        let user = user.iter().map(|(name, value)| Property::User(name, value));
        let mut properties = PropertyBuffer::default();
        // Header and code take at most 10 bytes.
        let room = (self.remote_size_max_bytes as usize).saturating_sub(10);
        push_fitting(&mut properties, reference.into_iter().chain(reason).chain(user), room);
        let packet = Disconnect { code, properties: properties.as_properties() };
        let before = self.output.len();
        let encoded = encode_disconnect(&mut self.output, &packet, self.version);
        debug_assert_eq!(encoded, Ok(()), "the properties are bounded by the room");
        // Even the shortest form may be too large for the client [5: 3.1.2-24].
        if self.output.len() - before > self.remote_size_max_bytes as usize {
            self.output.truncate(before);
        }
    }
}

/// Appends the properties that fit into `room` bytes in all; others are left out.
pub(super) fn push_fitting<'a>(
    buffer: &mut PropertyBuffer,
    properties: impl Iterator<Item = Property<'a>>,
    room: usize,
) {
    for property in properties {
        let size = match property {
            Property::Number(..) => 5,
            Property::Text(_, text) => 3 + text.len(),
            Property::Binary(_, bytes) => 3 + bytes.len(),
            Property::User(name, value) => 5 + name.len() + value.len(),
        };
        if buffer.as_properties().as_bytes().len() + size <= room {
            // A field that is too long is left out as well.
            let _ = buffer.push(property);
        }
    }
}

impl Closed {
    /// The client's DISCONNECT (3.14) [5: 3.1.2-10, 3.14.4-3].
    pub(super) fn by_client(code: ReasonCode, properties: Properties<'_>, was_open: bool) -> Self {
        Self {
            by: ClosedBy::Client,
            code,
            text: properties.text(PropertyId::ReasonString).unwrap_or_default().to_owned(),
            publish_will: was_open && code != ReasonCode::Success,
            session_expiry_s: properties.number(PropertyId::SessionExpiryInterval),
        }
    }
}
