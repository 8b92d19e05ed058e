//! A restart: the index is made again from what the log kept, without a look at the bodies.

use super::Queue;
use super::effect::Effect;
use super::entry::{Place, Seq, Step};
use super::head::Record;
use super::settings::Settings;
use super::state::Marker;

/// A message that the log has and whose removal it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// what the log calls it
    pub id: Seq,
    /// where its body lies
    pub place: Place,
    /// what was written beside it; `failures` may have been counted on since
    pub record: Record,
}

/// The log's messages are not in order, or one is there twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message {} comes after {}: messages are restored in order of their numbers", .0.0, .1.0)]
pub struct OutOfOrder(Seq, Seq);

impl Queue {
    /// The queue as it was when the log was written: what consumers held waits again, and so does what was on its way
    /// to another address. `next` is above every number ever given out. Bounds and keys are applied again, effects
    /// say what that removes. A scheduled message that was due before goes to the end, in order of time.
    ///
    /// # Errors
    ///
    /// [`OutOfOrder`]: `entries` do not ascend.
    pub fn restore(
        settings: Settings,
        next: Seq,
        entries: impl IntoIterator<Item = Restored>,
        markers: impl IntoIterator<Item = Marker>,
        sink: &mut impl FnMut(Effect),
    ) -> Result<Self, OutOfOrder> {
        let mut queue = Self::new(settings, Seq(0));
        for entry in entries {
            let at = entry.id.0;
            if at < queue.next {
                return Err(OutOfOrder(entry.id, Seq(queue.next - 1)));
            }
            queue.next = at + 1;
            queue.insert(at, &entry.record);
            queue.reappear(at, entry, sink);
        }
        queue.next = queue.next.max(next.0);
        markers.into_iter().for_each(|marker| queue.seen.restore(marker));
        queue.seen.resume();
        Ok(queue)
    }

    fn reappear(&mut self, at: u64, restored: Restored, sink: &mut impl FnMut(Effect)) {
        let Some(entry) = self.index.get_mut(at) else { return };
        entry.place = restored.place;
        self.uncommitted_bytes -= u64::from(entry.size);
        if restored.record.due.is_some() {
            self.await_time(at, Step::Schedule);
        } else {
            self.step(at, Step::Commit);
            self.appear(at);
            self.make_room(at, sink);
        }
    }
}
