//! Losses: messages that the catalog lists in segments that are missing, short or damaged.

use std::collections::{BTreeMap, BTreeSet};

use super::catalog::CatalogEntries;
use super::contents::{Ranges, add, cut};
use super::disk::{Disk, Fault};
use super::frame::Salt;
use super::lines::lines;
use super::record::{Line, Record};
use super::wire::Take;

/// Messages of missing, short or damaged segments, except those found elsewhere or removed.
#[derive(Debug, Default)]
pub(super) struct Losses {
    pub(super) queues: BTreeMap<u32, Ranges>,
    /// For each queue of those segments, a number above all of its messages there.
    pub(super) next_seqs: BTreeMap<u32, u64>,
    /// For each queue of those segments, the head of its newest message there.
    pub(super) newest: BTreeMap<u32, Vec<u8>>,
    /// The head of each queue's first message in each of those segments, by queue and number.
    oldest: BTreeMap<(u32, u64), Vec<u8>>,
}

impl Losses {
    pub(super) fn of(suspects: &BTreeSet<u32>, known: &CatalogEntries) -> Self {
        let mut losses = Self::default();
        let mut removed = BTreeMap::new();
        for listed in suspects.iter().filter_map(|segment| known.segments.get(segment)) {
            for (queue, listing) in listed.contents().queues {
                let all = losses.queues.entry(queue).or_default();
                listing.messages.iter().for_each(|range| add(all, range.first, range.last));
                let last = listing.messages.iter().chain(&listing.removed).map(|range| range.last).max();
                let next = losses.next_seqs.entry(queue).or_default();
                *next = last.map_or(*next, |last| last.saturating_add(1).max(*next));
                removed.entry(queue).or_insert_with(Vec::new).extend(listing.removed);
                if let Some(first) = listing.messages.first().filter(|_| !listing.oldest.is_empty()) {
                    losses.oldest.insert((queue, first.first), listing.oldest);
                }
                if !listing.newest.is_empty() {
                    losses.newest.insert(queue, listing.newest);
                }
            }
        }
        for (queue, lost) in &mut losses.queues {
            removed.get(queue).into_iter().flatten().for_each(|range| cut(lost, range.first, range.last));
        }
        losses
    }

    /// The head of the first lost message of a queue, if it is known.
    pub(super) fn oldest(&self, queue: u32) -> Option<&Vec<u8>> {
        let (&first, _) = self.queues.get(&queue)?.first_key_value()?;
        self.oldest.get(&(queue, first))
    }

    /// Removes the messages that the lines of a segment contain or remove.
    pub(super) fn collect(&mut self, lines: &[u8]) {
        let mut take = Take::new(lines);
        while let Some(line) = Line::take(&mut take) {
            let Line::Frame { kind, meta, .. } = line else { continue };
            match Record::decode(kind, meta) {
                Some(Record::Message(targets)) => {
                    for target in targets {
                        self.queues.entry(target.queue).and_modify(|lost| cut(lost, target.seq, target.seq));
                    }
                }
                Some(Record::Remove(removed)) => {
                    if let Some(lost) = self.queues.get_mut(&removed.queue) {
                        removed.ranges.for_each(|range| cut(lost, range.first, range.last));
                    }
                }
                Some(Record::Drop { queue }) => {
                    self.queues.remove(&queue);
                }
                _ => {}
            }
        }
    }
}

/// The messages of suspect segments that are in no segment and were not removed.
pub(super) fn losses<D: Disk + ?Sized>(
    disk: &D,
    used: &[u32],
    secret: u32,
    suspects: &BTreeSet<u32>,
    catalogued: &CatalogEntries,
) -> Result<Losses, Fault> {
    let mut losses = Losses::of(suspects, catalogued);
    if !losses.queues.is_empty() {
        for (at, &number) in used.iter().enumerate() {
            let extent = catalogued.extent(number, at + 1 == used.len());
            losses.collect(&lines(disk, number, Salt::of(secret, number).0, extent)?.index);
        }
    }
    Ok(losses)
}
