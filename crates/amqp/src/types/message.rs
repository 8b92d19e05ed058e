//! Part 3, 3.2: the sections of a message.

use super::{Fields, Symbol, Value};

/// 3.2.1
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// default false
    pub durable: bool,
    /// default 4
    pub priority: u8,
    /// milliseconds
    pub ttl: Option<u32>,
    /// default false
    pub first_acquirer: bool,
    /// default 0
    pub delivery_count: u32,
}

impl Default for Header {
    fn default() -> Self {
        Self { durable: false, priority: 4, ttl: None, first_acquirer: false, delivery_count: 0 }
    }
}

/// 3.2.11 to 3.2.14
#[derive(Clone, Debug, PartialEq)]
pub enum MessageId {
    /// ulong
    Ulong(u64),
    /// uuid
    Uuid([u8; 16]),
    /// binary
    Binary(Vec<u8>),
    /// string
    String(String),
}

/// 3.2.4
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Properties {
    /// message-id
    pub message_id: Option<MessageId>,
    /// user-id
    pub user_id: Option<Vec<u8>>,
    /// to
    pub to: Option<String>,
    /// subject
    pub subject: Option<String>,
    /// reply-to
    pub reply_to: Option<String>,
    /// correlation-id
    pub correlation_id: Option<MessageId>,
    /// content-type
    pub content_type: Option<Symbol>,
    /// content-encoding
    pub content_encoding: Option<Symbol>,
    /// milliseconds since the Unix epoch
    pub absolute_expiry_time: Option<i64>,
    /// milliseconds since the Unix epoch
    pub creation_time: Option<i64>,
    /// group-id
    pub group_id: Option<String>,
    /// group-sequence
    pub group_sequence: Option<u32>,
    /// reply-to-group-id
    pub reply_to_group_id: Option<String>,
}

/// 3.2.6 to 3.2.8
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Body {
    /// one or more data sections
    Data(Vec<Vec<u8>>),
    /// one or more amqp-sequence sections
    Sequence(Vec<Vec<Value>>),
    /// one amqp-value section
    Value(Value),
    /// no body section: illegal, but some clients send it
    #[default]
    Empty,
}

/// A whole message, decoded (format 0, 3.2).
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Message {
    /// 3.2.1
    pub header: Option<Header>,
    /// 3.2.2
    pub delivery_annotations: Fields,
    /// 3.2.3; keys may also be ulong on the wire: those are refused
    pub message_annotations: Fields,
    /// 3.2.4
    pub properties: Option<Properties>,
    /// 3.2.5
    pub application_properties: Vec<(String, Value)>,
    /// 3.2.6 to 3.2.8
    pub body: Body,
    /// 3.2.9
    pub footer: Fields,
}
