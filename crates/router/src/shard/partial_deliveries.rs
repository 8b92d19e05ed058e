//! Parts of long deliveries that wait for room at their link. Some are from another shard: their
//! home stops sending when it is notified of the first, so only parts in flight arrive. The others
//! are the rest of a delivery that was too long to be written at once. Small deliveries whose home
//! counts them as accepted wait here as a whole.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::core::{AttachmentId, Delivery};

/// Most bytes of a delivery that are written at once: this bounds an output to little more than
/// `OUTPUT_HIGH_BYTES`, even if a whole large message waits for its consumer.
pub(super) const PIECE_BYTES: usize = 256 * 1024;

/// A later part of a delivery, kept or shared with its home; at most [`PIECE_BYTES`].
#[derive(Debug)]
pub(super) struct Part {
    token: Option<u64>,
    message_format: u32,
    first: bool,
    more: bool,
    aborted: bool,
    payload: Payload,
}

/// Bytes of a part.
#[derive(Debug)]
enum Payload {
    Own(Box<[u8]>),
    /// a range of shared memory
    Shared(Arc<Vec<u8>>, Range<usize>),
}

impl Payload {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(all, range) => &all[range.clone()],
        }
    }
}

impl Part {
    pub(super) fn delivery(&self) -> Delivery<'_> {
        Delivery {
            token: self.token,
            message_format: self.message_format,
            first: self.first,
            more: self.more,
            aborted: self.aborted,
            payload: self.payload.bytes(),
            shared: None,
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
        let (mut rest, mut first) = (delivery.payload, delivery.first);
        loop {
            let (payload, after) = rest.split_at(rest.len().min(PIECE_BYTES));
            rest = after;
            parts.push_back(Part {
                token: delivery.token,
                message_format: delivery.message_format,
                first: std::mem::take(&mut first),
                more: delivery.more || !rest.is_empty(),
                aborted: delivery.aborted,
                payload: match (Delivery { payload, ..*delivery }).shared_range() {
                    Some((all, range)) => Payload::Shared(Arc::clone(all), range),
                    None => Payload::Own(payload.into()),
                },
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

#[cfg(test)]
mod tests {
    use super::*;

    const CONSUMER: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 3 };

    fn taken(parts: &mut PartialDeliveries) -> Vec<(Vec<u8>, bool)> {
        let mut taken = Vec::new();
        while let Some(part) = parts.front(CONSUMER) {
            let delivery = part.delivery();
            taken.push((delivery.payload.to_vec(), delivery.more));
        }
        taken
    }

    #[test]
    fn the_rest_of_a_shared_delivery_is_not_copied() {
        let all: Arc<Vec<u8>> = Arc::new((0..3 * PIECE_BYTES + 5).map(|at| at as u8).collect());
        let whole = Delivery {
            token: None,
            message_format: 0,
            first: false,
            more: false,
            aborted: false,
            payload: &all[5..],
            shared: None,
        };
        for shared in [None, Some(&all)] {
            let mut parts = PartialDeliveries::default();
            parts.push(CONSUMER, &Delivery { shared, ..whole });
            assert_eq!(Arc::strong_count(&all), if shared.is_some() { 4 } else { 1 });
            let taken = taken(&mut parts);
            assert_eq!(taken.iter().map(|(_, more)| *more).collect::<Vec<_>>(), [true, true, false]);
            let bytes: Vec<u8> = taken.into_iter().flat_map(|(bytes, _)| bytes).collect();
            assert_eq!(bytes, all[5..]);
            assert_eq!(Arc::strong_count(&all), 1);
        }
    }

    #[test]
    fn a_payload_elsewhere_is_not_taken_for_shared() {
        let (all, other) = (Arc::new(vec![1; 100]), vec![2; 10]);
        let elsewhere = Delivery {
            token: None,
            message_format: 0,
            first: false,
            more: false,
            aborted: false,
            payload: &other,
            shared: Some(&all),
        };
        let mut parts = PartialDeliveries::default();
        parts.push(CONSUMER, &elsewhere);
        assert_eq!(taken(&mut parts), [(other.clone(), false)]);
    }
}
