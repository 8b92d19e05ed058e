//! The Plan: the control plane's input for a node, as plain data.
//!
//! The JSON form is camelCase, knows no other members than these, and is described by
//! `vectors/plans/schema.json`; the tests of both planes read the golden examples next to it.
//! Parsing checks the shape only; [`crate::table::Table::compile`] checks the meaning (names that
//! collide, keys of a wrong length).

use serde::{Deserialize, Serialize};

/// Everything a node serves. Applying a plan twice is the same as applying it once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Plan {
    /// grows with every change; a node refuses a plan older than its own
    pub version: u64,
    /// full name of the default space, for connections that name none. If the plan has no such
    /// space, these connections are refused. Omitted: the only space of the plan, if it has one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_space: Option<String>,
    /// host names of the platform: they select no space
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// the address spaces, in any order
    pub spaces: Vec<Space>,
}

/// One address space: the addresses and users of a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Space {
    /// identity; a space that is deleted and created again gets a new one
    pub uid: String,
    /// its names: the last is its full name (`NAME.NAMESPACE`), unique in the plan; the others
    /// (`NAME`) select it only if no other space has them
    pub names: Vec<String>,
    /// the checks of a login
    pub authentication: Authentication,
    /// the users, for authentication of type `standard`
    #[serde(default)]
    pub users: Vec<User>,
    /// bounds of the whole space
    #[serde(default)]
    pub limits: SpaceLimits,
    /// the addresses, in any order
    pub addresses: Vec<Address>,
    /// patterns, as in rights. A link to a name that matches one, and that no address has, makes
    /// the control plane create the address
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auto_create: Vec<String>,
    /// only sessions within this process may connect, and no metrics show it
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub internal: bool,
    /// what it keeps for clients of MQTT; omitted: neither retained messages nor sessions
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mqtt: Option<MqttStorage>,
}

/// Bounds of what a space keeps for clients of MQTT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MqttStorage {
    /// most retained messages, one for each topic
    pub retained_messages: u64,
    /// most bytes of retained messages
    pub retained_bytes: u64,
    /// most sessions
    #[serde(default = "MqttStorage::default_sessions")]
    pub sessions: u32,
    /// longest time that a session is kept without a connection, in seconds
    pub session_expiry_s: u32,
}

impl MqttStorage {
    const fn default_sessions() -> u32 {
        10_000
    }
}

/// The authentication of a space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Authentication {
    /// how a user name and password are checked
    #[serde(rename = "type")]
    pub kind: AuthenticationType,
    /// clients may connect without a user name: by mechanism ANONYMOUS, or without a SASL header
    pub anonymous: bool,
    /// SASL mechanisms offered in addition to ANONYMOUS, best first
    pub mechanisms: Vec<String>,
    /// the service that checks tokens, and passwords of other systems. The value changes with every
    /// setting that its answers depend on: connections that another service admitted are closed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// How a user name and password are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AuthenticationType {
    /// no check: every password is accepted, and every client has all rights
    None,
    /// against the verifiers of the plan's users
    Standard,
    /// by asking the `service`
    Delegated,
}

/// A user who may log in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct User {
    /// the name at login, without `@space`
    pub name: String,
    /// one for each hash function
    #[serde(default)]
    pub verifiers: Vec<Verifier>,
    /// the user's rights; an empty list allows nothing
    #[serde(default)]
    pub rights: Vec<Right>,
}

/// A stored password verifier (RFC 5802): binary members are standard base64.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Verifier {
    /// `SCRAM-SHA-256`, `SCRAM-SHA-512` or `SCRAM-SHA-1`
    pub mechanism: String,
    /// 8 to 128 bytes
    pub salt: String,
    /// rounds of PBKDF2, 4,096 to 1,000,000
    pub iterations: u32,
    /// H(ClientKey)
    pub stored_key: String,
    /// ServerKey
    pub server_key: String,
}

impl std::fmt::Debug for Verifier {
    /// Shows no key: a plan in a log would invite guessing passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier")
            .field("mechanism", &self.mechanism)
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// Permission for operations on the addresses that a pattern covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Right {
    /// a name or a pattern; see [`crate::table::pattern::Pattern`]
    pub pattern: String,
    /// at least one
    pub operations: Vec<Operation>,
}

/// Operations that a right allows. `view` and `manage` are for the whole space, regardless of the
/// pattern of the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// send messages to the address
    Send,
    /// receive messages from the address
    Recv,
    /// see the space's addresses and statistics
    View,
    /// change the space's addresses
    Manage,
    /// create the address by attaching a link, if the space's `autoCreate` covers its name
    Create,
}

/// Bounds of a space; `null`: no bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SpaceLimits {
    /// connections at one time, on this node
    #[serde(default)]
    pub connections: Option<u32>,
    /// links at one time, on this node, all connections together
    #[serde(default)]
    pub links: Option<u32>,
    /// links of one connection at one time
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links_per_connection: Option<u32>,
    /// messages that clients may send per second, over all links of this node; at least 1
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_per_second: Option<u64>,
    /// bytes of messages that clients may send per second, over all links of this node; at least 1
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// the quota of the period is used up: senders have no credit
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exhausted: bool,
}

/// One declared address. The members from `durability` on belong to stored addresses. They are
/// effective values: defaults are filled in, and a subscription inherits the values of its topic
/// that it does not set. On a topic they apply to its undeclared subscriptions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Address {
    /// identity; an address that is deleted and created again gets a new one
    pub uid: String,
    /// the name that clients use, `topic::name` for a subscription: 1 to 1,024 bytes. Spaces are
    /// allowed inside, other white space is not; nor are `*`, `+` or `#` as a whole level, or `_!`
    /// at the beginning. The single exception is `#`, the open name space
    pub name: String,
    /// semantics
    #[serde(rename = "type")]
    pub kind: AddressType,
    /// bounds of each link and message, and of stored messages
    #[serde(default)]
    pub limits: AddressLimits,
    /// where accepted messages are stored. A subscription inherits it from its topic; while the
    /// topic is missing the value is omitted, and the previous one stays in force
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// how long messages live
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Ttl>,
    /// limits and delays of delivery attempts
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redelivery: Option<Redelivery>,
    /// name of the address of type `deadletter` for messages that failed for good; always one of
    /// this space
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadletter: Option<String>,
    /// name of the address of type `deadletter` for expired messages; always one of this space.
    /// Without it they move to the dead letter address; without that one they are dropped
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<String>,
    /// retention of a stream; a topic with it is a stream
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// partitions of a stream
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// detection of messages that were sent twice
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_detection: Option<DuplicateDetection>,
    /// the topic of a subscription; other addresses have none
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<Subscription>,
    /// application property of which only the last message of each value is kept
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_value_key: Option<String>,
    /// only one consumer at a time gets messages; the others are stand-bys
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_active_consumer: Option<bool>,
    /// the distribution of messages with one `group-id`; default: [`Groups::Sticky`]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,
    /// the protocols whose clients may use it; to those of others it does not exist. Default: all
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocols: Option<Vec<Protocol>>,
}

/// A protocol of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Protocol {
    /// AMQP 1.0
    #[default]
    Amqp,
    /// MQTT 3.1, 3.1.1 or 5.0
    Mqtt,
}

impl Address {
    /// An address with a name and semantics only.
    #[must_use]
    pub fn new(uid: impl Into<String>, name: impl Into<String>, kind: AddressType) -> Self {
        Self {
            uid: uid.into(),
            name: name.into(),
            kind,
            limits: AddressLimits::default(),
            durability: None,
            ttl: None,
            redelivery: None,
            deadletter: None,
            expiry: None,
            retention: None,
            partitions: None,
            duplicate_detection: None,
            subscription: None,
            last_value_key: None,
            single_active_consumer: None,
            groups: None,
            protocols: None,
        }
    }
}

/// The semantics of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AddressType {
    /// direct, to one of the consumers
    Anycast,
    /// direct, to every consumer
    Multicast,
    /// stored, to one of the consumers
    Queue,
    /// stored, to every subscription
    Topic,
    /// a declared subscription of a topic
    Subscription,
    /// messages that failed or expired
    Deadletter,
}

/// Bounds of an address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AddressLimits {
    /// most credit a producer's link holds, in deliveries, 1 to 100,000
    #[serde(default = "AddressLimits::default_link_capacity")]
    pub link_capacity: u32,
    /// largest message in bytes; `null`: no bound
    #[serde(default)]
    pub message_size: Option<u64>,
    /// most messages stored, in any state
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// most bytes stored
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// most receivers at a time
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumers: Option<u32>,
    /// most senders at a time
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producers: Option<u32>,
    /// most durable subscriptions of a topic that clients create; default: 10,000
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscriptions: Option<u32>,
    /// the behaviour at the limits `messages` and `bytes`; default: [`OnFull::Block`]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_full: Option<OnFull>,
}

impl AddressLimits {
    const fn default_link_capacity() -> u32 {
        1000
    }
}

impl Default for AddressLimits {
    fn default() -> Self {
        Self {
            link_capacity: Self::default_link_capacity(),
            message_size: None,
            messages: None,
            bytes: None,
            consumers: None,
            producers: None,
            subscriptions: None,
            on_full: None,
        }
    }
}

/// The behaviour of a full address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnFull {
    /// withholds credit from senders
    Block,
    /// refuses messages
    Reject,
    /// drops the oldest waiting message for the new one
    DropOldest,
}

/// Where accepted messages are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Durability {
    /// on disk before they are accepted
    Disk,
    /// in memory: a restart loses them
    Memory,
}

/// How long messages live, in milliseconds; a message's own ttl is limited to this range.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Ttl {
    /// shortest life
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_ms: Option<u64>,
    /// longest life
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum_ms: Option<u64>,
}

/// The limits and delays of delivery attempts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Redelivery {
    /// delivery attempts in all, at least 1; omitted: no bound
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// wait before the second attempt; omitted: none
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// factor of each delay to the one before, at least 1; default: 1
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_multiplier: Option<f64>,
    /// longest wait; omitted: no bound
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_maximum_ms: Option<u64>,
    /// a rejected message counts as a failed delivery and stays, instead of going to the dead
    /// letter at once
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reject_is_failure: Option<bool>,
}

/// The retention of a stream; older or excess messages are dropped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Retention {
    /// bytes of each partition
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// age of a message
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
}

/// Remembers message ids, so that a message sent twice is stored once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DuplicateDetection {
    /// most ids remembered
    pub ids: u32,
    /// how long an id is remembered
    pub window_ms: u64,
}

/// The topic of a subscription, and its limit of consumers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Subscription {
    /// name of its topic. While no topic has that name, stored messages stay and none are added
    pub topic: String,
    /// most consumers at a time
    pub max_consumers: u32,
}

/// How the messages of one group are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Groups {
    /// like messages without a group
    #[serde(rename = "none")]
    Off,
    /// to one consumer, as long as it is attached and the group has messages
    Sticky,
    /// in order: while a consumer has unsettled messages of a group no other consumer gets any, and
    /// a message to be redelivered holds back the rest
    PerKey,
}
