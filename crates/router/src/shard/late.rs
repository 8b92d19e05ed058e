//! Parts of long deliveries that came from another shard and found no room at their link. Their home stops sending
//! once it hears of the first, so what gathers here is what was on the way.

use std::collections::{HashMap, VecDeque};

use crate::core::{Delivery, PortId};

/// A later part of a delivery, kept.
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
        let part = Part {
            token: delivery.token,
            message_format: delivery.message_format,
            more: delivery.more,
            aborted: delivery.aborted,
            payload: delivery.payload.into(),
        };
        self.0.entry(port).or_default().push_back(part);
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
