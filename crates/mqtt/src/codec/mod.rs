//! Packets as bytes and back.
//!
//! Decoding borrows everything from the input and checks everything that the standard lets a
//! receiver check without state, in one pass; encoding appends to a caller's buffer. `fixed`
//! splits a stream into packets, and decides about their size before they are complete.

mod ack;
mod connack;
mod connect;
mod error;
pub mod fixed;
mod packet;
mod properties;
mod publish;
pub(crate) mod reader;
mod reason;
mod subscribe;
mod terminal;
mod values;
pub(crate) mod writer;

pub use ack::{Ack, AckKind, encode_ack};
pub use connack::{ConnAck, encode_connack};
pub(crate) use connect::peek_level;
pub use connect::{Connect, Will, encode_connect};
pub use error::{DecodeError, EncodeError};
pub use fixed::publish_topic;
pub use packet::{Packet, decode, encode_ping_request, encode_ping_response};
pub use properties::{Properties, Property, PropertyBuffer, PropertyId, UserProperties};
pub use publish::{Publish, PublishProperties, SubscriptionIds, encode_publish, publish_size};
pub(crate) use reason::Carrier;
pub use reason::ReasonCode;
pub use subscribe::{
    RetainHandling, SubAck, Subscribe, Subscription, SubscriptionOptions, Unsubscribe, encode_suback, encode_subscribe,
    encode_unsuback, encode_unsubscribe,
};
pub use terminal::{Auth, Disconnect, encode_auth, encode_disconnect};
pub use values::{PacketId, QoS, Version};
