//! The commands between two homes about the name of a subscription (`topic::names`).

use enmasse_amqp::types::Error;

use super::ids::AttachmentId;
use super::role::Subscribing;

/// Between two homes, of which one makes a subscription with the name of one at the other.
#[derive(Debug)]
pub enum Replacement {
    /// May a link have the name? The other home then ends its subscription.
    Ask {
        /// the home that asks
        by: u16,
        /// the link, which waits there
        attachment: AttachmentId,
        /// the subscription that it requests
        requested: Box<Subscribing>,
    },
    /// The answer.
    Answer {
        /// the link
        attachment: AttachmentId,
        /// whether the name is free
        answer: Result<(), Error>,
    },
}
