//! The driver's answers to messages and requests of the client.

use super::requests::Request;
use super::state::State;
use super::{AnswerError, ClosedBy, Connection};
use crate::codec::{AckKind, Carrier, EncodeError, PacketId, ReasonCode, encode_ack, encode_suback, encode_unsuback};

impl Connection {
    /// Answers a message with QoS 1 or 2: PUBACK or PUBREC, in the order of the calls. A code that
    /// they cannot carry becomes Unspecified Error; the text is sent if the client wants it
    /// [5: 3.1.2-29]. As 3.x has no codes, an error ends the connection [3: 3.3.5-2].
    ///
    /// # Errors
    /// `NotFound` if no message waits under that identifier.
    pub fn answer_publish(&mut self, packet_id: PacketId, code: ReasonCode, text: &str) -> Result<(), AnswerError> {
        self.require_open()?;
        let kind = match self.requests.get(packet_id) {
            Some(Request::PublishQoS1) => AckKind::PubAck,
            Some(Request::PublishQoS2) => AckKind::PubRec,
            _ => return Err(AnswerError::NotFound),
        };
        let code = code.for_carrier(Carrier::PublishAnswer);
        match kind == AckKind::PubRec && !code.is_error() {
            true => self.requests.set(packet_id, Request::Received { counted: true }),
            // [5: 4.3.3-9]
            false => self.requests.remove(packet_id),
        }
        if code.is_error() && !self.version.is_v5() {
            let text = format!("PUBLISH was refused with {code:?}: {text}");
            self.end_with_disconnect(ClosedBy::Server, code, text);
            return Ok(());
        }
        self.put_ack(kind, packet_id, code, text);
        Ok(())
    }

    /// Sends PUBCOMP after `Released`; the identifier is free [5: 4.3.3-11].
    ///
    /// # Errors
    /// `NotFound` if no PUBREL waits under that identifier.
    pub fn complete(&mut self, packet_id: PacketId) -> Result<(), AnswerError> {
        self.require_open()?;
        match self.requests.get(packet_id) {
            Some(Request::Released { .. }) => self.requests.remove(packet_id),
            _ => return Err(AnswerError::NotFound),
        }
        self.put_ack(AckKind::PubComp, packet_id, ReasonCode::Success, "");
        Ok(())
    }

    /// Answers a SUBSCRIBE: one code for each filter, in order [5: 3.8.4-1, 3.8.4-6, 3.9.3-1]. A
    /// code that SUBACK cannot carry becomes Unspecified Error.
    ///
    /// # Errors
    /// `NotFound` if no SUBSCRIBE waits under that identifier, `Count` if there are more or fewer
    /// codes than filters, `TooLarge` if SUBACK is too large for the client: `Closed` follows.
    pub fn answer_subscribe(
        &mut self,
        packet_id: PacketId,
        codes: &[ReasonCode],
        text: &str,
    ) -> Result<(), AnswerError> {
        self.require_open()?;
        let Some(Request::Subscribe(count)) = self.requests.get(packet_id) else { return Err(AnswerError::NotFound) };
        if codes.len() != count as usize {
            return Err(AnswerError::Count);
        }
        self.requests.remove(packet_id);
        self.put_suback(packet_id, codes, text)
    }

    /// Answers an UNSUBSCRIBE: one code for each filter, in order; also with 3.x, which sends none
    /// [5: 3.10.4-4, 3.10.4-5, 3.11.3-1].
    ///
    /// # Errors
    /// As `answer_subscribe`.
    pub fn answer_unsubscribe(
        &mut self,
        packet_id: PacketId,
        codes: &[ReasonCode],
        text: &str,
    ) -> Result<(), AnswerError> {
        self.require_open()?;
        let Some(Request::Unsubscribe(count)) = self.requests.get(packet_id) else {
            return Err(AnswerError::NotFound);
        };
        if codes.len() != count as usize {
            return Err(AnswerError::Count);
        }
        self.requests.remove(packet_id);
        self.put_unsuback(packet_id, codes, text)
    }

    fn require_open(&self) -> Result<(), AnswerError> {
        match self.state {
            State::Open => Ok(()),
            _ => Err(AnswerError::NotOpen),
        }
    }

    /// The text, if the client wants it [5: 3.1.2-29].
    fn wanted<'t>(&self, text: &'t str) -> &'t str {
        // A longer one has no encoding.
        if self.problem_information && text.len() <= usize::from(u16::MAX) { text } else { "" }
    }

    pub(super) fn put_ack(&mut self, kind: AckKind, packet_id: PacketId, code: ReasonCode, text: &str) {
        let text = self.wanted(text);
        let (version, max) = (self.version, self.remote_size_max_bytes);
        // Four or five bytes may be more than the client accepts [5: 3.1.2-24].
        if max < 5 && (max < 4 || (version.is_v5() && code != ReasonCode::Success)) {
            return self.answer_too_large("an acknowledgement is larger than the client's maximum packet size");
        }
        let encoded = encode_ack(&mut self.output, kind, packet_id, (code, text), version, max);
        debug_assert_eq!(encoded, Ok(()), "the text has at most 65,535 bytes");
    }

    pub(super) fn put_suback(
        &mut self,
        packet_id: PacketId,
        codes: &[ReasonCode],
        text: &str,
    ) -> Result<(), AnswerError> {
        let codes: Vec<_> = codes.iter().map(|code| code.for_carrier(Carrier::SubAck)).collect();
        let (text, max) = (self.wanted(text), self.remote_size_max_bytes);
        let encoded = encode_suback(&mut self.output, packet_id, &codes, text, self.version, max);
        self.answered(encoded)
    }

    pub(super) fn put_unsuback(
        &mut self,
        packet_id: PacketId,
        codes: &[ReasonCode],
        text: &str,
    ) -> Result<(), AnswerError> {
        let codes: Vec<_> = codes.iter().map(|code| code.for_carrier(Carrier::UnsubAck)).collect();
        let (text, max) = (self.wanted(text), self.remote_size_max_bytes);
        let encoded = encode_unsuback(&mut self.output, packet_id, &codes, text, self.version, max);
        self.answered(encoded)
    }

    fn answered(&mut self, encoded: Result<(), EncodeError>) -> Result<(), AnswerError> {
        encoded.map_err(|_| {
            self.answer_too_large("SUBACK or UNSUBACK is larger than the client's maximum packet size");
            AnswerError::TooLarge
        })
    }

    /// Ends a connection on which an answer that is due cannot be sent [5: 3.1.2-24].
    pub(super) fn answer_too_large(&mut self, text: &str) {
        let publish_will = self.state == State::Open;
        if publish_will {
            self.end_with_disconnect(ClosedBy::Server, ReasonCode::PacketTooLarge, text.to_owned());
        } else if self.state != State::Ended {
            let (by, code) = (ClosedBy::Server, ReasonCode::PacketTooLarge);
            self.end(super::Closed { by, code, text: text.to_owned(), publish_will, session_expiry_s: None });
        }
    }
}
