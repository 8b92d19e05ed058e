//! Changes of a session, one record each.

use super::state::{Session, StoredSubscription, StoredWill};
use crate::codec::PacketId;
use crate::connection::{OutgoingDelivery, Stage};

/// A change of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// the session expiry interval in seconds
    Expiry(u32),
    /// a new or replaced subscription
    Subscribed(StoredSubscription),
    /// a filter that was unsubscribed
    Unsubscribed(String),
    /// the will of a new connection
    WillSet(Box<StoredWill>),
    /// no will: discarded or published
    WillCleared,
    /// a packet id belongs to a delivery from now
    Reserved {
        /// of the delivery
        packet_id: PacketId,
        /// the driver's name of the message
        token: u64,
    },
    /// PUBREC of the client: its message is no longer necessary
    DeliveryReceived(PacketId),
    /// the delivery has ended
    DeliveryEnded(PacketId),
    /// a QoS 2 message of the client is stored
    Received(PacketId),
    /// PUBREL of the client
    Released(PacketId),
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
