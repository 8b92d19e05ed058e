//! Errors that several parts of a shard answer.

use enmasse_amqp::types::{Error, condition};

/// The error of an open of a cordoned node.
pub(super) fn cordoned() -> Error {
    Error::new(condition::CONNECTION_FORCED, "this node is cordoned and admits no new connections")
}

/// The error of an attach before open.
pub(super) fn not_open() -> Error {
    Error::new(condition::NOT_ALLOWED, "open the connection before a link")
}

/// The error of a name that stands for no address.
pub(super) fn not_found(name: &str) -> Error {
    let shown: String = name.chars().take(200).collect();
    Error::new(condition::NOT_FOUND, format!("no address \"{shown}\" in this address space: declare it first"))
}

/// The error of a receiver whose source is a subscription without its topic.
pub(super) fn short_subscription_name(name: &str, full_name: &str) -> Error {
    let what = format!("no address \"{name}\" in this address space: receive from the subscription \"{full_name}\"");
    Error::new(condition::NOT_FOUND, what)
}

/// The error of links at a deleted address.
pub(super) fn deleted() -> Error {
    Error::new(condition::RESOURCE_DELETED, "the address was deleted")
}
