//! The router core against `docs/contracts.md` 7, sentence by sentence, and against a model.

mod anycast;
mod bench;
mod lifecycle;
mod model;
mod multicast;
mod overdue;
mod parts;
mod seeds;
mod slow_consumers;
mod statistics;
mod stored;
mod stream;

use enmasse_router::core::Arrival;

/// A message in one frame, not settled.
fn whole(delivery_id: u32, payload: &[u8]) -> Arrival<'_> {
    Arrival { delivery_id, settled: false, message_format: 0, first: true, more: false, aborted: false, payload }
}
