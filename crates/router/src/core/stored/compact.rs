//! Messages that are written again, so that the segment of the log where they lie can go.

use enmasse_journal::log::{Batch, Freed, Target};
use enmasse_journal::queue::{Place, Seq, State};

use super::super::Router;
use super::super::arena::Key;

/// Messages written again in one batch.
const SHARE: usize = 256;

/// A message that was written again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied {
    at: Key,
    seq: Seq,
    id: Seq,
    from: Place,
}

impl Router {
    /// Writes a share of the messages that lie in `segment` again; to be said until none is left there.
    pub fn compact(&mut self, segment: u32) {
        if self.journal.is_compacting() {
            return;
        }
        let mut copied = Vec::new();
        let mut batch = self.bodies.recent.spare();
        for (key, address) in self.addresses.iter() {
            let Some(stored) = address.stored.as_ref() else { continue };
            let Some(log) = stored.shelf.log else { continue };
            let queue = &stored.shelf.queue;
            let here = queue.iter(Seq(0)).filter(|item| item.place.segment == segment && item.place.len > 0);
            // What is on its way to another address goes from here with the removal that is written for it.
            let here = here.filter(|item| item.state != State::Leaving);
            for item in here.take(SHARE - copied.len()) {
                batch.copy(item.place, &[Target { queue: log, seq: item.id.0, head: &[] }]);
                copied.push(Copied { at: key, seq: item.seq, id: item.id, from: item.place });
            }
            if copied.len() == SHARE {
                break;
            }
        }
        if copied.is_empty() {
            self.bodies.recent.lay_aside(batch);
        } else {
            self.journal.copy(batch, copied);
        }
    }

    /// Messages lie elsewhere now: what was removed in the meantime is removed there too.
    pub(super) fn moved(&mut self, batch: &Batch, copied: Vec<Copied>) {
        let mut freed = Freed::default();
        for (number, copy) in copied.into_iter().enumerate() {
            let Some(place) = batch.copied(number) else { continue };
            let stored = self.addresses.get_mut(copy.at).and_then(|address| address.stored.as_mut());
            let Some(stored) = stored else { continue };
            if stored.shelf.queue.moved(copy.seq, place) {
                freed.add(copy.from);
            } else if let Some(log) = stored.shelf.log {
                self.journal.remove_at(log, copy.id.0, place);
            }
        }
        self.journal.free(&freed);
    }
}
