//! A message on its way to a client.

use std::borrow::Cow;

use enmasse_mqtt::codec::{PropertyBuffer, PublishProperties, QoS, SubscriptionIds};
use smallvec::SmallVec;

/// Message annotation: the QoS with which a client of MQTT has published the message (ubyte). The
/// original's name.
pub(in crate::shard) const QOS: &str = "x-opt-mqtt-qos";

/// A message on its way to a client of MQTT.
#[derive(Debug, Default, PartialEq)]
pub(in crate::shard) struct Outbound<'a> {
    /// the QoS with which it was published
    pub(in crate::shard) qos: QoS,
    /// `to`, if a topic may have that name
    pub(in crate::shard) topic: Option<Cow<'a, str>>,
    /// its publisher has set RETAIN
    pub(in crate::shard) retain: bool,
    pub(in crate::shard) expiry_s: Option<u32>,
    pub(in crate::shard) payload_is_text: bool,
    pub(in crate::shard) content_type: Option<String>,
    pub(in crate::shard) response_topic: Option<String>,
    pub(in crate::shard) correlation_data: Option<Vec<u8>>,
    pub(in crate::shard) user: PropertyBuffer,
    /// its parts
    pub(in crate::shard) payload: SmallVec<[Cow<'a, [u8]>; 1]>,
}

impl Outbound<'_> {
    /// The properties of its PUBLISH, with the identifiers of the subscriptions that match.
    pub(in crate::shard) fn properties<'b>(&'b self, subscription_ids: &'b [u32]) -> PublishProperties<'b> {
        PublishProperties {
            payload_is_text: self.payload_is_text,
            message_expiry_s: self.expiry_s,
            topic_alias: None,
            response_topic: self.response_topic.as_deref(),
            correlation_data: self.correlation_data.as_deref(),
            content_type: self.content_type.as_deref(),
            user: self.user.as_user(),
            subscription_ids: match subscription_ids {
                [] => SubscriptionIds::None,
                ids => SubscriptionIds::List(ids),
            },
        }
    }
}
