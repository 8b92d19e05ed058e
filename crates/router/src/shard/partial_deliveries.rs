//! Parts of long deliveries that wait for room at their link. Parts from another shard that found
//! no room: their home stops sending once it is notified of the first, so these are the ones that
//! were in flight. The rest of a delivery that was too long to write at once is kept here, too.

use std::collections::{HashMap, VecDeque};

use crate::core::{AttachmentId, Delivery};

/// Most of a delivery that is written at once: so no output grows far beyond `OUTPUT_HIGH_BYTES`,
/// however much of a message had gathered before its consumer took any.
pub(super) const PIECE_BYTES: usize = 256 * 1024;

/// A later part of a delivery, kept; at most [`PIECE_BYTES`].
#[derive(Debug)]
pub(super) struct Part {
    token: Option<u64>,
    message_format: u32,
    more: bool,
    aborted: bool,
    payload: Box<[u8]>,
}

impl Part {
    pub(super) fn delivery(&self) -> Delivery<'_> {
        Delivery {
            token: self.token,
            message_format: self.message_format,
            first: false,
            more: self.more,
            aborted: self.aborted,
            payload: &self.payload,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct PartialDeliveries(HashMap<AttachmentId, VecDeque<Part>>);

impl PartialDeliveries {
    pub(super) fn has(&self, attachment: AttachmentId) -> bool {
        !self.0.is_empty() && self.0.contains_key(&attachment)
    }

    pub(super) fn push(&mut self, attachment: AttachmentId, delivery: &Delivery<'_>) {
        let parts = self.0.entry(attachment).or_default();
        let mut rest = delivery.payload;
        loop {
            let (payload, after) = rest.split_at(rest.len().min(PIECE_BYTES));
            rest = after;
            parts.push_back(Part {
                token: delivery.token,
                message_format: delivery.message_format,
                more: delivery.more || !rest.is_empty(),
                aborted: delivery.aborted,
                payload: payload.into(),
            });
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Takes the first part of an attachment.
    pub(super) fn front(&mut self, attachment: AttachmentId) -> Option<Part> {
        let parts = self.0.get_mut(&attachment)?;
        let part = parts.pop_front();
        if parts.is_empty() {
            self.0.remove(&attachment);
        }
        part
    }

    pub(super) fn put_back(&mut self, attachment: AttachmentId, part: Part) {
        self.0.entry(attachment).or_default().push_front(part);
    }

    pub(super) fn forget(&mut self, attachment: AttachmentId) {
        self.0.remove(&attachment);
    }
}
