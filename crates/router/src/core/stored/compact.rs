//! Messages that are written again, so that the segment of the log where they lie can go.

use std::collections::HashMap;

use enmasse_journal::log::{Batch, Freed, Target};
use enmasse_journal::queue::{Place, Seq, State};

use smallvec::SmallVec;

use super::super::Router;
use super::super::arena::Key;

/// Messages written again in one batch.
const SHARE: usize = 256;

/// Messages by where they lie, with all their queues: the queue's number in the log, its address, and its message.
type Share = HashMap<Place, SmallVec<[(u32, Key, Seq, Seq); 1]>>;

/// A message that was written again, as one queue knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied {
    /// its number among the copies of the batch
    number: usize,
    at: Key,
    seq: Seq,
    id: Seq,
    from: Place,
}

impl Router {
    /// Writes a share of the messages that lie in `segment` again, each once for all its queues; to be said until none is
    /// left there.
    pub fn compact(&mut self, segment: u32) {
        if self.journal.is_compacting() || self.transactions.postpone_compaction(segment) {
            return;
        }
        let mut share: Share = HashMap::with_capacity(SHARE);
        for (key, address) in self.addresses.iter() {
            let Some(stored) = address.stored.as_ref() else { continue };
            let Some(log) = stored.shelf.log else { continue };
            let queue = &stored.shelf.queue;
            let here = queue.iter(Seq(0)).filter(|item| item.place.segment == segment && item.place.len > 0);
            // What is on its way to another address goes from here with the removal that is written for it.
            let here = here.filter(|item| item.state != State::Leaving);
            for item in here {
                // A full share takes no more messages, and all the queues of those it has.
                if share.len() < SHARE || share.contains_key(&item.place) {
                    share.entry(item.place).or_default().push((log, key, item.seq, item.id));
                } else if stored.subscription.is_none() {
                    break;
                }
            }
        }
        if share.is_empty() {
            return;
        }
        let (mut batch, mut copied) = (self.bodies.recent.spare(), Vec::new());
        let mut share: Vec<_> = share.into_iter().collect();
        share.sort_unstable_by_key(|(place, _)| *place);
        for (from, queues) in share {
            let targets = queues.iter().map(|(log, _, _, id)| Target { queue: *log, seq: id.0, head: &[] });
            let number = batch.copy(from, &targets.collect::<SmallVec<[_; 1]>>());
            copied.extend(queues.into_iter().map(|(_, at, seq, id)| Copied { number, at, seq, id, from }));
        }
        self.journal.copy(batch, copied);
    }

    /// Messages lie elsewhere now: what was removed in the meantime is removed there too.
    pub(super) fn moved(&mut self, batch: &Batch, copied: Vec<Copied>) {
        let mut freed = Freed::default();
        for copy in copied {
            let Some(place) = batch.copied(copy.number) else { continue };
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
