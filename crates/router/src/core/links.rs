//! The interface from the router to links.

use super::command::ToLink;
use super::delivery::Delivery;
use super::handover::Handover;
use super::ids::AttachmentId;
use super::replacement::Replacement;

/// The links of the attachments, as the router sees them. No call follows
/// [`Router::detach`](super::Router::detach) of an attachment, and no call may re-enter the router.
pub trait Links {
    /// Dispatches a delivery, or its next part, to a consumer. `false`: the link has no room. The
    /// router then counts the consumer as having no credit, keeps the part, and offers it again
    /// after the next [`Router::credit`](super::Router::credit). The result is always `true` for a
    /// consumer of another shard: a delivery without room there returns through
    /// [`Router::refused`](super::Router::refused). [`Router::begun`](super::Router::begun)
    /// confirms the first of several parts; the others follow only then.
    fn transfer(&mut self, consumer: AttachmentId, delivery: &Delivery<'_>) -> bool;

    /// Everything else that a link is to know.
    fn send(&mut self, command: ToLink<'_>);

    /// Passes a message to the home of another address, where
    /// [`Router::receive_handover`](super::Router::receive_handover) takes it.
    fn hand_over(&mut self, home: u16, handover: Handover<'_>);

    /// Passes a command about the name of a subscription to another home, where
    /// [`Router::replace_subscription`](super::Router::replace_subscription) takes it.
    fn replace(&mut self, home: u16, replacement: Replacement);
}
