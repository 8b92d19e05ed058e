//! Messages that pass through a subscription without being stored: its only consumer has received
//! everything before, and wants no guarantee (QoS 0 of MQTT).

use super::super::arena::Key;
use super::super::delivery::Part;
use super::super::dispatch::Dispatcher;
use super::super::message::SettlementTarget;
use super::super::{Links, Router};

impl Router {
    /// Passes a plain message to the consumer of a subscription that settles at once. `false`: the
    /// subscription has to store it.
    #[inline]
    pub(super) fn pass_on(&mut self, at: Key, body: &[u8], links: &mut impl Links) -> bool {
        let queue = self.addresses.queue(at);
        if queue.opened.log.is_some() || !queue.is_at_rest() {
            return false;
        }
        let size_bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let messages = &queue.opened.messages;
        let to = messages.passes_to(size_bytes).and_then(|id| messages.key_of(id)).map(Key::unpack);
        let takes = |to: &Key| {
            self.consumers.get(*to).is_some_and(|to| to.settles_at_once(self.shard, body.len()) && to.has_room())
        };
        let Some(to) = to.filter(takes) else { return false };
        let Self { shard, now_ms, consumers, addresses, pending, .. } = self;
        let (unsettled, stats) = addresses[at].counts();
        let dispatcher = Dispatcher { shard: *shard, now_ms: *now_ms, consumers, pending, unsettled, stats };
        let passed = dispatcher.dispatch(to, SettlementTarget::Nothing, Part::whole(body), links).is_ok();
        if passed {
            self.addresses.queue_mut(at).opened.messages.count_passed();
        }
        if !self.consumers[to].has_room() {
            self.mark_not_ready(at, to);
        }
        passed
    }
}
