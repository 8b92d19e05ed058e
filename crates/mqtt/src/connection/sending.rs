//! Messages to the client (3.3.4), with their packet identifiers, window and aliases.

use super::alias::OutgoingTopic;
use super::deliveries::{Next, State as DeliveryState, Step};
use super::state::State;
use super::{Connection, Outgoing, SendError};
use crate::codec::{AckKind, EncodeError, PacketId, Publish, QoS, ReasonCode, encode_publish};
use crate::topic::is_topic_name;

impl Connection {
    /// Deliveries with QoS 1 and 2 that may be sent now.
    #[must_use]
    pub fn window(&self) -> u16 {
        self.deliveries.window()
    }

    /// Takes a packet identifier and a place in the window for a delivery that is stored before it
    /// is sent. Order of resending is that of these calls.
    ///
    /// # Errors
    /// `NotOpen`, `WindowFull`.
    pub fn reserve(&mut self, token: u64) -> Result<PacketId, SendError> {
        self.check_open()?;
        self.deliveries.reserve(token).ok_or(SendError::WindowFull)
    }

    /// Gives back a packet identifier that `reserve` returned and that was not sent.
    ///
    /// # Errors
    /// `NotReserved`.
    pub fn unreserve(&mut self, packet_id: PacketId) -> Result<(), SendError> {
        if !matches!(self.deliveries.state(packet_id), DeliveryState::Reserved | DeliveryState::Restored) {
            return Err(SendError::NotReserved);
        }
        self.deliveries.end(packet_id);
        Ok(())
    }

    /// Sends a message with QoS 0, whatever its `qos`. The client never acknowledges it.
    ///
    /// # Errors
    /// `NotOpen`, `TooLarge`, `Unencodable`: nothing was sent.
    #[inline]
    pub fn send_at_most_once(&mut self, message: &Outgoing<'_>) -> Result<(), SendError> {
        self.check_open()?;
        self.put_publish(message, QoS::AtMostOnce, None, false)
    }

    /// Sends a message with QoS 1 or 2 under a new packet identifier; `token` comes back with its
    /// events.
    ///
    /// # Errors
    /// `NotOpen`, `WindowFull`, `TooLarge`, `Unencodable`, or `NotReserved` for QoS 0: nothing was
    /// sent, and no identifier is taken.
    #[inline]
    pub fn send_publish(&mut self, message: &Outgoing<'_>, token: u64) -> Result<PacketId, SendError> {
        self.check_open()?;
        if message.qos == QoS::AtMostOnce {
            return Err(SendError::NotReserved);
        }
        let packet_id = self.deliveries.reserve(token).ok_or(SendError::WindowFull)?;
        // [5: 4.3.2-2, 4.3.3-2]: a first sending is no duplicate
        match self.put_publish(message, message.qos, Some(packet_id), false) {
            Ok(()) => {
                self.deliveries.set(packet_id, published(message.qos));
                Ok(packet_id)
            }
            Err(error) => {
                self.deliveries.end(packet_id);
                Err(error)
            }
        }
    }

    /// Sends a message with QoS 1 or 2 under a packet identifier that was reserved or restored, with
    /// DUP as the message says [5: 3.3.1-1].
    ///
    /// # Errors
    /// As `send_publish`, and `NotReserved` for any other identifier. The identifier stays reserved.
    pub fn send_reserved(&mut self, message: &Outgoing<'_>, packet_id: PacketId) -> Result<(), SendError> {
        self.check_open()?;
        let step = match message.qos {
            QoS::AtMostOnce => return Err(SendError::NotReserved),
            QoS::AtLeastOnce => Step::SendQoS1,
            QoS::ExactlyOnce => Step::SendQoS2,
        };
        let Next::To(next) = self.deliveries.state(packet_id).after(step) else { return Err(SendError::NotReserved) };
        if !self.deliveries.count(packet_id) {
            return Err(SendError::WindowFull);
        }
        self.put_publish(message, message.qos, Some(packet_id), message.dup)?;
        self.deliveries.set(packet_id, next);
        Ok(())
    }

    /// From now on packet identifiers of deliveries with QoS 2 stay in use after `Acknowledged` until
    /// `reuse`.
    pub const fn retain_identifiers(&mut self) {
        self.retains_identifiers = true;
    }

    /// Frees the packet identifier of a delivery with QoS 2 after `Acknowledged`.
    ///
    /// # Errors
    /// `NotReserved` for any other identifier.
    pub fn reuse(&mut self, packet_id: PacketId) -> Result<(), SendError> {
        if self.deliveries.state(packet_id) != DeliveryState::Completed {
            return Err(SendError::NotReserved);
        }
        self.deliveries.reuse(packet_id);
        Ok(())
    }

    /// Sends PUBREL after `Received`, or for a delivery that was restored as `Received`
    /// [5: 4.3.3-4, 4.4.0-1]. PUBREL packets leave in the order of these calls.
    ///
    /// # Errors
    /// `NotOpen`, or `NotReserved` if the client has not received the delivery.
    pub fn release(&mut self, packet_id: PacketId) -> Result<(), SendError> {
        self.check_open()?;
        let Next::To(next) = self.deliveries.state(packet_id).after(Step::SendPubRel) else {
            return Err(SendError::NotReserved);
        };
        self.deliveries.set(packet_id, next);
        self.put_ack(AckKind::PubRel, packet_id, ReasonCode::Success, "");
        Ok(())
    }

    #[inline]
    fn check_open(&self) -> Result<(), SendError> {
        match self.state {
            State::Open => Ok(()),
            _ => Err(SendError::NotOpen),
        }
    }

    /// Writes a PUBLISH, with a topic alias where the client takes one.
    #[inline]
    fn put_publish(
        &mut self,
        message: &Outgoing<'_>,
        qos: QoS,
        packet_id: Option<PacketId>,
        dup: bool,
    ) -> Result<(), SendError> {
        if !is_topic_name(message.topic) {
            // [5: 3.3.2-2, 4.7.3-1]
            return Err(SendError::Unencodable);
        }
        let mut properties = message.properties;
        properties.topic_alias = None;
        let retain = message.retain;
        let mut publish = Publish { dup, qos, retain, topic: message.topic, packet_id, properties, payload: &[] };
        let chosen = self.outgoing_aliases.choose(message.topic);
        match chosen {
            OutgoingTopic::Name => {}
            OutgoingTopic::NameAndAlias(alias) => publish.properties.topic_alias = Some(alias),
            OutgoingTopic::Alias(alias) => {
                publish.topic = "";
                publish.properties.topic_alias = Some(alias);
            }
        }
        let max = self.remote_size_max_bytes;
        encode_publish(&mut self.output, &publish, message.payload, self.version, max).map_err(
            |error| match error {
                EncodeError::PacketTooLarge => SendError::TooLarge,
                EncodeError::FieldTooLong => SendError::Unencodable,
            },
        )?;
        if let OutgoingTopic::NameAndAlias(alias) = chosen {
            self.outgoing_aliases.commit(alias, message.topic);
        }
        Ok(())
    }
}

/// The state of a delivery after its PUBLISH.
const fn published(qos: QoS) -> DeliveryState {
    match qos {
        QoS::ExactlyOnce => DeliveryState::PublishedQoS2,
        _ => DeliveryState::PublishedQoS1,
    }
}
