//! The Plan: the control plane's input for a node, as plain data.
//!
//! The JSON form is camelCase, knows no other members than these, and is described by
//! `vectors/plans/schema.json`; the tests of both planes read the golden examples next to it.
//! Parsing checks the shape only; [`crate::table::Table::compile`] checks the sense (names that
//! collide, keys of a wrong length).

use serde::{Deserialize, Serialize};

/// Everything a node serves. Applying a plan twice is the same as applying it once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Plan {
    /// grows with every change; a node refuses a plan older than its own
    pub version: u64,
    /// full name of the space of connections that name none; it need not be in the plan, and then
    /// they are refused. Omitted: the only space of the plan, if there is exactly one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_space: Option<String>,
    /// host names of the platform: to name one of them is to name no space
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// the address spaces, in any order
    pub spaces: Vec<Space>,
}

/// One address space: a tenant's own world of names and users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Space {
    /// identity; a space deleted and made again has another
    pub uid: String,
    /// its names: the last is its full name (`NAME.NAMESPACE`), unique in the plan; the others
    /// (`NAME`) count only if no other space has them
    pub names: Vec<String>,
    /// who may log in
    pub authentication: Authentication,
    /// the users, for authentication of type `standard`
    #[serde(default)]
    pub users: Vec<User>,
    /// bounds of the whole space
    #[serde(default)]
    pub limits: SpaceLimits,
    /// the addresses, in any order
    pub addresses: Vec<Address>,
    /// patterns, as those of rights: a link to a name that one of them covers and that is no
    /// address asks the control plane to create the address
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auto_create: Vec<String>,
    /// only sessions within this process may connect, and no metrics show it
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub internal: bool,
}

/// The authentication of a space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Authentication {
    /// how a user name and password are checked
    #[serde(rename = "type")]
    pub kind: AuthenticationType,
    /// also without a name: mechanism ANONYMOUS and connections without a SASL header
    pub anonymous: bool,
    /// SASL mechanisms offered in addition to ANONYMOUS, best first
    pub mechanisms: Vec<String>,
    /// the service that checks what the plan alone cannot: tokens and passwords of other systems.
    /// It changes with everything that such an answer depends on: connections admitted by another
    /// one are closed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// How a user name and password are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AuthenticationType {
    /// not at all: any password will do and everybody has every right
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
    /// as typed at login, without any `@space`
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

/// Leave to do some operations on the addresses that a pattern covers.
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
    /// have the address created by attaching a link, where the space does that
    Create,
}

/// Bounds of a space; `null` is no bound of its own.
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
    /// messages that may be sent a second, on this node, all links together; at least 1
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_per_second: Option<u64>,
    /// bytes of messages that may be sent a second, on this node, all links together; at least 1
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// the quota of the period is used up: senders have no credit
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exhausted: bool,
}

/// One declared address. The members from `durability` on belong to stored addresses. They are
/// effective values: defaults are filled in, and a subscription has the values of its topic where
/// it sets none. On a topic they hold for the subscriptions that are not declared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Address {
    /// identity; an address deleted and made again has another
    pub uid: String,
    /// what clients use, for a subscription `topic::name`: 1 to 1,024 bytes, spaces within it and
    /// no other white space, no `*`, no `+` or `#` as a whole level, not beginning with `_!`; the
    /// single exception is `#`, the open name space
    pub name: String,
    /// semantics
    #[serde(rename = "type")]
    pub kind: AddressType,
    /// bounds of each link and message, and of stored messages
    #[serde(default)]
    pub limits: AddressLimits,
    /// where accepted messages are kept; a subscription has it from its topic, and none while the
    /// topic is missing: then it stays as it was
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// how long messages live
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Ttl>,
    /// how often and when a message is tried again
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redelivery: Option<Redelivery>,
    /// name of the address of type `deadletter` for messages that failed for good; always one of
    /// this space
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadletter: Option<String>,
    /// name of the address of type `deadletter` for messages that lived too long; always one of
    /// this space. Without it they go to the dead letter, without that they are dropped
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<String>,
    /// makes a topic a stream
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// partitions of a stream
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// messages sent twice are stored once
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_detection: Option<DuplicateDetection>,
    /// the topic of a subscription; on these and no others
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<Subscription>,
    /// application property of which only the last message of each value is kept
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_value_key: Option<String>,
    /// one consumer at a time gets messages, the others wait to take over
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_active_consumer: Option<bool>,
    /// what messages of one `group-id` share; omitted it is [`Groups::Sticky`]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,
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
    /// a named place in a topic
    Subscription,
    /// messages that failed or lived too long
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
    /// what happens at `messages` and `bytes`; omitted it is [`OnFull::Block`]
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
            on_full: None,
        }
    }
}

/// The behaviour of a full address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnFull {
    /// gives senders no more credit
    Block,
    /// refuses messages
    Reject,
    /// drops the oldest waiting message for the new one
    DropOldest,
}

/// Where accepted messages are kept.
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

/// How often and when a message is tried again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Redelivery {
    /// deliveries in all, at least 1; omitted: no bound
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// wait before the second attempt; omitted: none
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// each wait is this many times the one before, at least 1; omitted it is 1
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

/// Where a subscription belongs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Subscription {
    /// name of its topic. The topic may be missing, or have another type: stored messages stay, and
    /// none are added until there is a topic of that name
    pub topic: String,
    /// most consumers at a time
    pub max_consumers: u32,
}

/// What the messages of one group share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Groups {
    /// nothing
    #[serde(rename = "none")]
    Off,
    /// their consumer, as long as it lives and the group has messages
    Sticky,
    /// their order: while a consumer holds messages of a group no other gets any, and a failed one
    /// holds back the rest
    PerKey,
}
