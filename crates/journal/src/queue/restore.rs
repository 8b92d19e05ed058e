//! A restart: rebuilds the index from the log, without reading bodies.

use super::Queue;
use super::effect::Effect;
use super::entry::{RecordLocation, Seq, Step};
use super::head::Record;
use super::settings::Settings;
use super::state::Marker;

/// A logged message without a logged removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// its number in the log
    pub id: Seq,
    /// the location of its body
    pub place: RecordLocation,
    /// its logged record, with `failures` updated from later state
    pub record: Record,
}

/// The log's messages are not in order, or one of them is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message {} comes after {}: messages are restored in order of their numbers", .0.0, .1.0)]
pub struct OutOfOrder(Seq, Seq);

impl Queue {
    /// Restores the queue at the time of the last log record. Messages that were held or leaving
    /// wait again. `next` is above every number ever assigned. Bounds and keys are applied again;
    /// effects report the messages that this removes. A scheduled message that was due before moves
    /// to the end, in the order of due times.
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
            queue.restore_available(at, entry, sink);
        }
        queue.next = queue.next.max(next.0);
        markers.into_iter().for_each(|marker| queue.duplicate_history.restore(marker));
        queue.duplicate_history.resume();
        Ok(queue)
    }

    fn restore_available(&mut self, at: u64, restored: Restored, sink: &mut impl FnMut(Effect)) {
        let Some(entry) = self.index.get_mut(at) else { return };
        entry.place = restored.place;
        self.uncommitted_bytes -= u64::from(entry.size);
        if restored.record.due.is_some() {
            self.await_time(at, Step::Schedule);
        } else {
            self.step(at, Step::Commit);
            self.make_available(at);
            self.make_room(at, sink);
        }
    }
}
