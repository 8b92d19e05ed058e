//! Compaction: copies live messages out of a segment of the log, so that the segment can be
//! deleted.

use std::collections::HashMap;

use enmasse_journal::log::{Freed, Target, WriteBatch};
use enmasse_journal::queue::{RecordLocation, Seq, State};

use smallvec::SmallVec;

use super::super::arena::Key;
use super::super::{Links, Router};
use super::block::CopiedBlock;

/// Bounds of the messages and bytes copied in one batch: one commit of the journal, or one message.
const SHARE: usize = 256;
const SHARE_BYTES: u64 = 4 << 20;

/// A message to copy, for one of its queues.
#[derive(Clone, Copy, Debug)]
struct PlannedCopy {
    /// number of its queue in the log
    log: u32,
    at: Key,
    seq: Seq,
    id: Seq,
    /// it is scheduled: it gets another `seq` when it becomes due
    renames: bool,
}

/// Messages to copy by location, with all their queues.
type Share = HashMap<RecordLocation, SmallVec<[PlannedCopy; 1]>>;

/// Copied records: messages of queues, or blocks of streams.
#[derive(Debug)]
pub(in crate::core) enum Copied {
    Messages(Vec<CopiedMessage>),
    Blocks(Vec<CopiedBlock>),
}

/// A copied message, for one of its queues.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct CopiedMessage {
    /// its number among the copies of the batch
    number: usize,
    planned: PlannedCopy,
    from: RecordLocation,
}

impl Router {
    /// Plans copies of a share of the messages in `segment`, one copy of a message for all its
    /// queues. The log's owner repeats the call until the segment has no live messages.
    ///
    /// Until [`Router::moved`], nothing else writes a removal of these messages: commits, dead
    /// letters and moves are postponed, and removals are held back while the copies are in flight.
    /// Otherwise a removal could name the old segment only and be dropped with it, while the copy
    /// remains.
    pub fn compact(&mut self, segment: u32) {
        if self.storage.journal.is_compacting() || self.transactions.postpone_compaction(segment) {
            return;
        }
        let mut share: Share = HashMap::with_capacity(SHARE);
        let mut bytes = 0;
        for (key, address) in self.addresses.iter() {
            let Some(queue) = address.as_queue() else { continue };
            let Some(log) = queue.opened.log else { continue };
            let messages = &queue.opened.messages;
            let here = messages.iter(Seq(0)).filter(|item| item.place.segment == segment && item.place.len > 0);
            // A leaving message is removed by the record that stores it in its target.
            let here = here.filter(|item| item.state != State::Leaving);
            for item in here {
                // A full share accepts no more messages, but all queues of its messages.
                let is_full = share.len() >= SHARE || bytes >= SHARE_BYTES;
                if !is_full || share.contains_key(&item.place) {
                    bytes += u64::from(item.place.len);
                    let renames = item.state == State::Scheduled;
                    let planned = PlannedCopy { log, at: key, seq: item.seq, id: item.id, renames };
                    share.entry(item.place).or_default().push(planned);
                } else if queue.subscription.is_none() {
                    break;
                }
            }
        }
        if share.is_empty() {
            let mut batch = self.storage.bodies.recent.spare();
            let blocks = self.copy_blocks(segment, &mut batch);
            return match blocks.is_empty() {
                true => self.storage.bodies.recent.recycle_batch(batch),
                false => self.storage.journal.copy(batch, Copied::Blocks(blocks)),
            };
        }
        let mut share: Vec<_> = share.into_iter().collect();
        share.sort_unstable_by_key(|(place, _)| *place);
        let copied = share.into_iter().flat_map(|(from, planned)| {
            planned.into_iter().map(move |planned| CopiedMessage { number: 0, planned, from })
        });
        let copied = Copied::Messages(copied.collect());
        self.storage.journal.copy(self.storage.bodies.recent.spare(), copied);
    }

    /// Takes the batch of the planned copies. Messages that were removed since are skipped: their
    /// removals may be on disk, and a copy behind a removal would restore the message after a
    /// crash.
    pub(in crate::core) fn take_copies(&mut self) -> Option<WriteBatch> {
        let (mut batch, copied) = self.storage.journal.take_planned()?;
        let copied = match copied {
            Copied::Messages(mut messages) => {
                messages.retain(|copy| self.is_still_at(copy));
                for same in messages.chunk_by_mut(|one, other| one.from == other.from) {
                    let target =
                        |copy: &CopiedMessage| Target { queue: copy.planned.log, seq: copy.planned.id.0, head: &[] };
                    let targets: SmallVec<[_; 1]> = same.iter().map(target).collect();
                    let number = batch.copy(same[0].from, &targets);
                    same.iter_mut().for_each(|copy| copy.number = number);
                }
                Copied::Messages(messages)
            }
            blocks @ Copied::Blocks(_) => blocks,
        };
        self.storage.journal.write_copies(copied);
        Some(batch)
    }

    /// Whether the message is still in its queue, at the location of the plan.
    fn is_still_at(&self, copy: &CopiedMessage) -> bool {
        let queue = self.addresses.find_queue(copy.planned.at);
        let item = queue.and_then(|queue| queue.opened.messages.get(copy.planned.seq));
        item.is_some_and(|item| item.place == copy.from && item.state != State::Leaving)
    }

    /// Applies the result of the copies; `batch` is `None` if they were refused. For a message that
    /// was removed in the meantime, a record also removes the copy.
    pub(in crate::core) fn moved(&mut self, batch: Option<&WriteBatch>, copied: Copied, links: &mut impl Links) {
        let mut freed = Freed::default();
        let copied = match copied {
            Copied::Messages(messages) => messages,
            Copied::Blocks(blocks) => {
                self.blocks_moved(batch, &blocks, &mut freed);
                Vec::new()
            }
        };
        for CopiedMessage { number, planned, from } in copied {
            let Some(place) = batch.and_then(|batch| batch.copied(number, planned.log)) else { continue };
            let queue = self.addresses.find_queue_mut(planned.at);
            let Some(queue) = queue else {
                // The record that drops its queue covers both locations, and has freed the old one.
                freed.add(place);
                continue;
            };
            let queue = &mut queue.opened.messages;
            let renamed = || queue.renamed(planned.id).filter(|_| planned.renames);
            let seq = if queue.get(planned.seq).is_some() { Some(planned.seq) } else { renamed() };
            if seq.is_some_and(|seq| queue.moved(seq, place)) {
                freed.add(from);
            } else {
                self.storage.journal.remove_at(planned.log, planned.id.0, place);
            }
        }
        self.storage.journal.end_copies(&freed);
        self.resume_diversions(links);
        self.begin_waiting_commits(links);
    }
}
