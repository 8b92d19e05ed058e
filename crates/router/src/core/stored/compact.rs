//! Messages that are written again, so that the segment of the log where they lie can go.

use std::collections::HashMap;

use enmasse_journal::log::{Batch, Freed, Target};
use enmasse_journal::queue::{Place, Seq, State};

use smallvec::SmallVec;

use super::super::Router;
use super::super::arena::Key;
use super::super::stream::CopiedBlock;

/// Messages written again in one batch.
const SHARE: usize = 256;

/// Messages by where they lie, with all their queues: the queue's number in the log, its address, and its message.
type Share = HashMap<Place, SmallVec<[(u32, Key, Seq, Seq); 1]>>;

/// What was written again: messages of queues, or blocks of streams.
#[derive(Debug)]
pub(super) enum Copied {
    Messages(Vec<CopiedMessage>),
    Blocks(Vec<CopiedBlock>),
}

/// A message that was written again, as one queue knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopiedMessage {
    /// its number among the copies of the batch
    number: usize,
    /// its queue, as the log knows it
    log: u32,
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
            let mut batch = self.bodies.recent.spare();
            let blocks = self.copy_blocks(segment, &mut batch);
            return match blocks.is_empty() {
                true => self.bodies.recent.lay_aside(batch),
                false => self.journal.copy(batch, Copied::Blocks(blocks)),
            };
        }
        let (mut batch, mut copied) = (self.bodies.recent.spare(), Vec::new());
        let mut share: Vec<_> = share.into_iter().collect();
        share.sort_unstable_by_key(|(place, _)| *place);
        for (from, queues) in share {
            let targets = queues.iter().map(|(log, _, _, id)| Target { queue: *log, seq: id.0, head: &[] });
            let number = batch.copy(from, &targets.collect::<SmallVec<[_; 1]>>());
            copied.extend(queues.into_iter().map(|(log, at, seq, id)| CopiedMessage {
                number,
                log,
                at,
                seq,
                id,
                from,
            }));
        }
        self.journal.copy(batch, Copied::Messages(copied));
    }

    /// Messages lie elsewhere now, unless there is no batch: what was removed in the meantime is removed there too.
    pub(super) fn moved(&mut self, batch: Option<&Batch>, copied: Copied) {
        let mut freed = Freed::default();
        let copied = match copied {
            Copied::Messages(messages) => messages,
            Copied::Blocks(blocks) => {
                self.blocks_moved(batch, &blocks, &mut freed);
                Vec::new()
            }
        };
        for copy in copied {
            let Some(place) = batch.and_then(|batch| batch.copied(copy.number, copy.log)) else { continue };
            let stored = self.addresses.get_mut(copy.at).and_then(|address| address.stored.as_mut());
            let Some(stored) = stored else {
                // Its queue was deleted, which has freed where it lay.
                freed.add(place);
                continue;
            };
            // What has begun to leave since then goes from where it lay: that is what its removal names.
            if stored.shelf.queue.get(copy.seq).is_some_and(|item| item.state == State::Leaving) {
                freed.add(place);
            } else if stored.shelf.queue.moved(copy.seq, place) {
                freed.add(copy.from);
            } else {
                self.journal.remove_at(copy.log, copy.id.0, place);
            }
        }
        self.journal.free(&freed);
    }
}
