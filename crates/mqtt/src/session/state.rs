//! The state of a session.

use crate::codec::{PublishProperties, QoS, SubscriptionOptions, Will};

/// All that a server keeps of a session (4.1), except for messages and their packet identifiers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// seconds after the end of a connection; `u32::MAX`: no end
    pub expiry_s: u32,
    /// by filter
    pub subscriptions: Vec<StoredSubscription>,
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
    /// properties in their encoding: `StoredWill::publish_properties` reads them
    pub properties: Vec<u8>,
    /// the payload is a whole message in an encoding of the node's own, of a client of another
    /// protocol
    pub is_message: bool,
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
            is_message: false,
        }
    }

    /// The properties of its message.
    #[must_use]
    pub fn publish_properties(&self) -> PublishProperties<'_> {
        PublishProperties::from_bytes(&self.properties)
    }
}
