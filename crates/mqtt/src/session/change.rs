//! Changes of a session, one record each.

use super::{StoredSubscription, StoredWill};
use crate::codec::PacketId;

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
