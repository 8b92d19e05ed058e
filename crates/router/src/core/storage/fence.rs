//! Fences: notices that are sent once all earlier records are on disk.

use enmasse_amqp::types::{Error, condition};
use enmasse_journal::log::JointId;

use super::super::arena::Key;
use super::super::{AttachmentId, Links, Router, ToLink};
use super::lanes::LaneId;
use super::notice::Notice;

impl Router {
    /// Adds a notice of an address, which waits for the records of its space that are pending or in
    /// flight, except for unordered parts of other addresses.
    pub(in crate::core) fn raise_fence(&mut self, at: Key, notice: Notice) {
        let lane = self.addresses.get(at).map(|address| LaneId::of_space(address.declared.space));
        self.storage.journal.lanes.at(lane.unwrap_or_default()).fences.raise(at, notice);
    }

    /// Sends the notices whose last batch was this one, which returned from the log; `unordered`: it
    /// is that part of a joint group.
    pub(in crate::core) fn release_fences(
        &mut self,
        lane: LaneId,
        unordered: Option<JointId>,
        stopped: bool,
        links: &mut impl Links,
    ) {
        let lane = self.storage.journal.lanes.at(lane);
        let again = lane.has_refused_batch();
        for notice in lane.fences.returned(unordered, again) {
            if stopped {
                self.abandon_notices(notice, links);
            } else {
                self.send_notice(notice, links);
            }
        }
    }

    /// Sends the notices that wait for no batch, at the end of the turn.
    pub(in crate::core) fn release_open_fences(&mut self, links: &mut impl Links) {
        let due = self.storage.journal.lanes.take_due();
        due.into_iter().for_each(|notice| self.send_notice(notice, links));
    }

    fn send_notice(&mut self, notice: Notice, links: &mut impl Links) {
        match notice {
            Notice::Attached(attachment) => self.answer_resumed(attachment, links),
            Notice::Held { at, up_to } => self.release_held(at, up_to, links),
            Notice::Settled { attachment, token } => links.send(ToLink::Settled { attachment, token }),
            Notice::PacketId { record, packet, kept } => links.send(ToLink::PacketId { record, packet, kept }),
            Notice::Removed { operation } => self.operation_removed(operation, None),
        }
    }

    /// Fails a notice because the log has stopped.
    fn abandon_notices(&mut self, notice: Notice, links: &mut impl Links) {
        match notice {
            Notice::Removed { operation } => {
                self.operation_removed(operation, Some("the log has stopped: removed messages may return"));
            }
            // The message of a client of MQTT may leave: no outcome is durable either. Otherwise it
            // would block its queue.
            Notice::Held { at, up_to } => {
                self.close_unrecorded(at, up_to, &stopped_error(), links);
                self.release_held(at, up_to, links);
            }
            Notice::Attached(attachment) if self.is_link_of_memory(attachment) => {
                self.answer_resumed(attachment, links);
            }
            Notice::Attached(attachment)
                if self.attachments.consumer(attachment).is_some()
                    || self.attachments.producer(attachment).is_some() =>
            {
                self.detach(attachment, links);
                links.send(ToLink::Attached { attachment, answer: Err(stopped_error()) });
            }
            // The link has ended, or its peer repeats the step after a restart.
            Notice::Attached(_) | Notice::Settled { .. } | Notice::PacketId { .. } => {}
        }
    }

    /// Whether a link has no state on disk: the consumer of a subscription in memory.
    fn is_link_of_memory(&self, attachment: AttachmentId) -> bool {
        let consumer = self.attachments.consumer(attachment).map(|key| &self.consumers[key]);
        let consumer = consumer.filter(|consumer| !consumer.recalls && consumer.resumed.is_none());
        let queue = consumer.and_then(|consumer| self.addresses.find_queue(consumer.address));
        queue.is_some_and(|queue| queue.is_undeclared() && queue.opened.log.is_none())
    }
}

/// The error of a link whose state is on disk.
fn stopped_error() -> Error {
    Error::new(condition::INTERNAL_ERROR, "the log has stopped: the state of the link cannot be stored")
}
