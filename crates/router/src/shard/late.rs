//! Parts of long deliveries that wait for room at their link. What came from another shard and found none: their home
//! stops sending once it hears of the first, so it is what was on the way. And the rest of what was too long to be
//! written at once.

use std::collections::{HashMap, VecDeque};

use crate::core::{Delivery, PortId};

/// Most of a delivery that is written at once: so no output grows far beyond `OUTPUT_HIGH_BYTES`, however much of a
/// message had gathered before its consumer took any.
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
pub(super) struct LateParts(HashMap<PortId, VecDeque<Part>>);

impl LateParts {
    pub(super) fn has(&self, port: PortId) -> bool {
        !self.0.is_empty() && self.0.contains_key(&port)
    }

    pub(super) fn push(&mut self, port: PortId, delivery: &Delivery<'_>) {
        let parts = self.0.entry(port).or_default();
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

    /// Takes the first part of a port.
    pub(super) fn front(&mut self, port: PortId) -> Option<Part> {
        let parts = self.0.get_mut(&port)?;
        let part = parts.pop_front();
        if parts.is_empty() {
            self.0.remove(&port);
        }
        part
    }

    pub(super) fn put_back(&mut self, port: PortId, part: Part) {
        self.0.entry(port).or_default().push_front(part);
    }

    pub(super) fn forget(&mut self, port: PortId) {
        self.0.remove(&port);
    }
}
