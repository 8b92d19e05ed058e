//! The state of a session.

use super::Change;
use crate::codec::{PacketId, PublishProperties, QoS, SubscriptionOptions, Will};
use crate::connection::{InFlight, OutgoingDelivery, Stage};

/// All that a server keeps of a session (4.1), but the messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// seconds after the end of a connection; `u32::MAX`: no end
    pub expiry_s: u32,
    /// by filter
    pub subscriptions: Vec<StoredSubscription>,
    /// deliveries and packet ids
    pub in_flight: InFlight,
    /// published when the connection or the session ends
    pub will: Option<StoredWill>,
}

/// A subscription of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSubscription {
    /// as the client named it, with `$share/GROUP/`
    pub filter: String,
    /// of its SUBSCRIBE
    pub options: SubscriptionOptions,
    /// of its SUBSCRIBE
    pub subscription_id: Option<u32>,
}

/// The will of a session (3.1.2.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredWill {
    /// a topic name
    pub topic: String,
    /// any bytes
    pub payload: Vec<u8>,
    /// QoS of its publication
    pub qos: QoS,
    /// publish it as a retained message
    pub retain: bool,
    /// seconds after the end of the connection
    pub delay_s: u32,
    /// properties in their encoding: `StoredWill::properties` reads them
    pub properties: Vec<u8>,
}

impl Session {
    /// Takes a change; one that does not apply is without effect.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Expiry(seconds) => self.expiry_s = *seconds,
            Change::Subscribed(subscription) => self.subscribe(subscription.clone()),
            Change::Unsubscribed(filter) => self.subscriptions.retain(|known| known.filter != *filter),
            Change::WillSet(will) => self.will = Some((**will).clone()),
            Change::WillCleared => self.will = None,
            Change::Reserved { packet_id, token } => {
                let stage = Stage::Published;
                self.in_flight.outgoing.push(OutgoingDelivery { packet_id: *packet_id, token: *token, stage });
            }
            Change::DeliveryReceived(packet_id) => {
                if let Some(delivery) = self.delivery(*packet_id) {
                    delivery.stage = Stage::Received;
                }
            }
            Change::DeliveryEnded(packet_id) => {
                self.in_flight.outgoing.retain(|delivery| delivery.packet_id != *packet_id);
            }
            Change::Received(packet_id) => {
                if !self.in_flight.received.contains(packet_id) {
                    self.in_flight.received.push(*packet_id);
                }
            }
            Change::Released(packet_id) => self.in_flight.received.retain(|known| known != packet_id),
        }
    }

    /// Adds a subscription or replaces that with the same filter [5: 3.8.4-3].
    fn subscribe(&mut self, subscription: StoredSubscription) {
        match self.subscriptions.iter_mut().find(|known| known.filter == subscription.filter) {
            Some(known) => *known = subscription,
            None => self.subscriptions.push(subscription),
        }
    }

    fn delivery(&mut self, packet_id: PacketId) -> Option<&mut OutgoingDelivery> {
        self.in_flight.outgoing.iter_mut().find(|delivery| delivery.packet_id == packet_id)
    }
}

impl StoredWill {
    /// The will of a CONNECT.
    #[must_use]
    pub fn from_connect(will: &Will<'_>) -> Self {
        Self {
            topic: will.topic.to_owned(),
            payload: will.payload.to_owned(),
            qos: will.qos,
            retain: will.retain,
            delay_s: will.delay_s,
            properties: will.properties.to_bytes(),
        }
    }

    /// The properties of its message.
    #[must_use]
    pub fn publish_properties(&self) -> PublishProperties<'_> {
        PublishProperties::from_bytes(&self.properties)
    }
}
