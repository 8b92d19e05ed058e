//! Dispatching the beginning of a delivery to a consumer.

use super::arena::{Arena, Key};
use super::consumer::Consumer;
use super::delivery::{Delivery, Part};
use super::links::Links;
use super::message::SettlementTarget;
use super::outcome::{Pending, Retiring, token_of};
use super::stats::AddressStats;

/// The link had no room for the delivery.
pub(super) struct NoRoom;

/// The fields of a router that a dispatch changes, borrowed apart from the memory of the payload.
pub(super) struct Dispatcher<'a> {
    pub(super) shard: u16,
    pub(super) now_ms: u64,
    pub(super) consumers: &'a mut Arena<Consumer>,
    pub(super) pending: &'a mut Arena<Pending>,
    /// unsettled deliveries of the address
    pub(super) unsettled: &'a mut u32,
    /// those of the address
    pub(super) stats: &'a mut AddressStats,
}

impl Dispatcher<'_> {
    /// As [`Router::dispatch`](super::Router::dispatch), for an address whose treatment does not
    /// note which consumers are ready.
    #[inline]
    pub(super) fn dispatch(
        self,
        to: Key,
        settlement: SettlementTarget,
        part: Part<'_>,
        links: &mut impl Links,
    ) -> Result<Option<u64>, NoRoom> {
        let Part { message_format, more, payload, shared } = part;
        let consumer = &mut self.consumers[to];
        let address = consumer.address;
        let pending = (settlement != SettlementTarget::Nothing).then(|| {
            let settlement = consumer.settlement_for(settlement);
            self.pending.insert(Pending { consumer: to, address, settlement, retiring: Retiring::No })
        });
        let token = pending.map(|pending| token_of(self.shard, pending));
        let delivery = Delivery { token, message_format, first: true, more, aborted: false, payload, shared };
        if !links.transfer(consumer.attachment, &delivery) {
            consumer.blocked = true;
            if let Some(pending) = pending {
                self.pending.remove(pending);
            }
            return Err(NoRoom);
        }
        let unsettled = u32::from(token.is_some());
        consumer.unconfirmed = more && consumer.attachment.shard != self.shard;
        consumer.dispatched = consumer.dispatched.wrapping_add(1);
        consumer.credit -= 1;
        consumer.dispatched_ms = self.now_ms;
        consumer.outstanding += unsettled;
        if let (Some(pending), SettlementTarget::Join(_) | SettlementTarget::Optional(_)) = (pending, settlement) {
            consumer.note_copy(pending, self.now_ms, self.pending);
        }
        *self.unsettled += unsettled;
        self.stats.delivered += 1;
        self.stats.bytes += payload.len() as u64;
        Ok(token)
    }
}
