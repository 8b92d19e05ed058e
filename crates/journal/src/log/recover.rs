//! Recovery: reads the live messages and the state of all queues from the disk.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Log;
use super::batch::WriteBatch;
use super::catalog::CatalogEntries;
use super::config::Refused;
use super::disk::Disk;
use super::entries::Entries;
use super::facts::{Fact, Facts};
use super::frame::{DAMAGED, HEAD_BYTES, padded};
use super::lines::Lines;
use super::losses::Losses;
use super::place::{Freed, RecordLocation};
use super::record::{Line, Record, SeqRange};
use super::segment::BLOCK_BYTES;
use super::space::Space;
use super::wire::Take;

/// The result of recovery.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Every queue that was declared and not dropped, in the order of their numbers.
    pub queues: Vec<RecoveredQueue>,
    /// Damaged ranges of durable bytes. A damaged message is reported in its queue instead.
    pub gaps: Vec<Gap>,
    /// Records with one corrected bit; none of them is lost.
    pub repaired: u64,
    /// Segments read record by record, because they were active or their index was damaged.
    pub scanned_segments: u32,
    /// A number above every queue number ever seen.
    pub next_queue: u32,
}

/// The messages of queues whose declarations are all damaged, in the log and in the catalog. They
/// cannot be delivered, because their address is unknown; their segments stay until
/// [`Log::discard_unnamed`](super::Log::discard_unnamed).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unnamed {
    /// Number of messages, lost ones included.
    pub messages: u64,
    /// Segments with at least one of them.
    pub segments: u64,
}

/// Damaged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The segment they lie in.
    pub segment: u32,
    /// Their offset.
    pub offset: u32,
    /// Their number.
    pub bytes: u32,
}

impl Recovered {
    /// The queues that no readable record declares and that have or had messages.
    pub fn unnamed_queues(&self) -> impl Iterator<Item = &RecoveredQueue> {
        self.queues.iter().filter(|queue| queue.declared.is_none() && queue.messages_with_lost() > 0)
    }

    /// The messages of those queues.
    #[must_use]
    pub fn unnamed(&self) -> Unnamed {
        let segments: BTreeSet<u32> =
            self.unnamed_queues().flat_map(RecoveredQueue::messages).map(|message| message.place.segment).collect();
        let messages = self.unnamed_queues().map(RecoveredQueue::messages_with_lost).sum();
        Unnamed { messages, segments: segments.len() as u64 }
    }
}

/// A recovered queue.
#[derive(Debug)]
pub struct RecoveredQueue {
    /// Its short number.
    pub queue: u32,
    /// Its uid and name; `None` only if every record that declares it is damaged.
    pub declared: Option<([u8; 16], String)>,
    /// A number above that of every message it ever had, as far as the log still knows.
    pub next_seq: u64,
    /// Its state, key by key.
    pub states: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// Lost messages, in order: their segment is missing, short or damaged. None of them is in
    /// `messages`.
    pub lost: Vec<SeqRange>,
    /// Head of its newest message in the last one of those segments, copies excluded. The message
    /// may be in `messages`, or may have been removed.
    pub newest_listed: Option<Vec<u8>>,
    /// Head of the first message of `lost`, if it is known.
    pub oldest_lost: Option<Vec<u8>>,
    /// Its declaration was damaged, and was restored from the catalog.
    pub(super) lost_declaration: bool,
    entries: Entries,
}

impl RecoveredQueue {
    /// The number of its messages, damaged ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of its messages, lost ones included.
    #[must_use]
    pub fn messages_with_lost(&self) -> u64 {
        self.len() as u64 + self.lost.iter().map(|range| range.last - range.first + 1).sum::<u64>()
    }

    /// Its messages, in the order of their numbers.
    pub fn messages(&self) -> impl Iterator<Item = RecoveredMessage<'_>> {
        self.entries.iter().map(|(seq, place, head, damaged)| RecoveredMessage { seq, place, head, damaged })
    }
}

/// A message of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredMessage<'a> {
    /// Its number in the queue.
    pub seq: u64,
    /// Its location.
    pub place: RecordLocation,
    /// The state that the queue stored with it.
    pub head: &'a [u8],
    /// Its body is known to be lost. The queue reports, counts and removes it as any other.
    pub damaged: bool,
}

/// The combined contents of all records.
#[derive(Default)]
pub(super) struct Replay {
    queues: HashMap<u32, Replayed>,
    pub(super) space: Space,
    pub(super) gaps: Vec<Gap>,
    pub(super) repaired: u64,
    pub(super) scanned_segments: u32,
}

/// The newest value of a state, and its location.
type StateOf = (Box<[u8]>, Fact);

#[derive(Default)]
struct Replayed {
    declared: Option<([u8; 16], String)>,
    fact: Option<Fact>,
    states: BTreeMap<Box<[u8]>, StateOf>,
    entries: Entries,
    next_seq: u64,
    first: Option<u32>,
}

impl Replay {
    /// Applies the records of the next segment, in ascending order of segments.
    pub(super) fn segment(&mut self, segment: u32, size: u64, lines: &Lines) {
        let known = self.space.get(segment);
        (known.size, known.end) = (size, lines.end);
        self.repaired += lines.repaired;
        self.scanned_segments += u32::from(lines.sealed.is_none());
        self.gaps.extend(lines.gaps.iter().map(|&(offset, bytes)| Gap { segment, offset, bytes }));
        let mut offset = BLOCK_BYTES as u32;
        let mut take = Take::new(&lines.index);
        while let Some(line) = Line::take(&mut take) {
            match line {
                Line::Gap { bytes } => offset += bytes,
                Line::Frame { kind, flags, body_len, meta } => {
                    let len = (HEAD_BYTES + meta.len()) as u32 + body_len;
                    let place = RecordLocation { segment, offset, len };
                    if let Some(record) = Record::decode(kind, meta) {
                        self.record(place, flags & DAMAGED != 0, &record);
                    }
                    offset += padded(len as usize) as u32;
                }
            }
        }
    }

    fn record(&mut self, place: RecordLocation, damaged: bool, record: &Record<'_>) {
        let segment = place.segment;
        match *record {
            Record::Mark => {}
            Record::Declare { queue, uid, name } => {
                let queue = self.queue(queue, segment);
                queue.declared = Some((uid, name.to_owned()));
                queue.set_fact(segment, false);
            }
            Record::Drop { queue } => self.queue(queue, segment).set_fact(segment, true),
            Record::Message(targets) => {
                for target in targets {
                    let queue = self.queue(target.queue, segment);
                    queue.next_seq = queue.next_seq.max(target.seq.saturating_add(1));
                    let before = queue.entries.insert(target.seq, place, target.head, damaged);
                    if let Some(before) = before.filter(|before| before.segment != segment) {
                        self.space.get(segment).copies_from.insert(before.segment);
                    }
                }
            }
            Record::Remove(removed) => {
                for range in removed.ranges {
                    let queue = self.queues.entry(removed.queue).or_default();
                    queue.first.get_or_insert(segment);
                    queue.next_seq = queue.next_seq.max(range.last.saturating_add(1));
                    let by = self.space.get(segment);
                    queue.entries.remove(range, |place| {
                        if place.segment != segment {
                            by.removes_from.insert(place.segment);
                        }
                    });
                }
            }
            Record::State { queue, key, value } => {
                let queue = self.queue(queue, segment);
                let deleted = value.is_empty();
                match queue.states.get_mut(key) {
                    Some((known, fact)) => {
                        *known = value.into();
                        (fact.segment, fact.deleted) = (segment, deleted);
                    }
                    None => {
                        let fact = Fact { segment, first: segment, deleted };
                        queue.states.insert(key.into(), (value.into(), fact));
                    }
                }
            }
        }
    }

    /// Records the missing end of a segment that is shorter than the catalog states, unless a gap
    /// of the segment is reported already.
    pub(super) fn add_missing_end(&mut self, segment: u32, end: u32) {
        if self.gaps.iter().any(|gap| gap.segment == segment) {
            return;
        }
        let offset = self.space.segments.get(&segment).map_or(0, |known| known.end.min(end));
        if offset < end {
            self.gaps.push(Gap { segment, offset, bytes: end - offset });
        }
    }

    fn queue(&mut self, queue: u32, segment: u32) -> &mut Replayed {
        let queue = self.queues.entry(queue).or_default();
        queue.first.get_or_insert(segment);
        queue
    }

    /// Determines the live messages and the facts of the log, once all records are read.
    pub(super) fn finish(mut self, catalogued: &CatalogEntries, losses: &Losses) -> (Recovered, Space, Facts) {
        let mut facts = Facts::default();
        let lost_declarations = self.restore_declarations(catalogued, losses);
        let numbers = self.queues.keys().chain(catalogued.queues.keys());
        let mut recovered = Recovered {
            next_queue: numbers.max().map_or(0, |&last| last.saturating_add(1)),
            gaps: self.gaps,
            repaired: self.repaired,
            scanned_segments: self.scanned_segments,
            queues: Vec::new(),
        };
        for (number, queue) in self.queues {
            if let Some(fact) = queue.fact {
                facts.restore_queue(number, fact, &mut self.space);
            }
            if queue.fact.is_some_and(|fact| fact.deleted) {
                continue;
            }
            for (_, place, _, _) in queue.entries.iter() {
                let segment = self.space.get(place.segment);
                segment.messages += 1;
                segment.bytes += u64::from(place.len);
            }
            for (key, (_, fact)) in &queue.states {
                facts.restore_state(number, key, *fact, &mut self.space);
            }
            let lost = losses.queues.get(&number).into_iter().flatten();
            let lost: Vec<SeqRange> = lost.map(|(first, last)| SeqRange { first: *first, last: *last }).collect();
            let next = losses.next_seqs.get(&number).copied().unwrap_or(0);
            let states = queue.states.into_iter().filter(|(_, (_, fact))| !fact.deleted);
            recovered.queues.push(RecoveredQueue {
                queue: number,
                declared: queue.declared,
                next_seq: queue.next_seq.max(next),
                lost,
                newest_listed: losses.newest.get(&number).cloned(),
                oldest_lost: losses.oldest(number).cloned(),
                lost_declaration: lost_declarations.contains(&number),
                states: states.map(|(key, (value, _))| (key, value)).collect(),
                entries: queue.entries,
            });
        }
        recovered.queues.sort_unstable_by_key(|queue| queue.queue);
        (recovered, self.space, facts)
    }
}

impl Replay {
    /// Restores the declarations that only the catalog has. A queue without any record is restored
    /// if it has lost messages. Queues that no copy declares stay unnamed.
    fn restore_declarations(&mut self, catalogued: &CatalogEntries, losses: &Losses) -> BTreeSet<u32> {
        for (&queue, _) in losses.queues.iter().filter(|(_, lost)| !lost.is_empty()) {
            self.queues.entry(queue).or_default();
        }
        let mut restored = BTreeSet::new();
        for (&number, queue) in self.queues.iter_mut().filter(|(_, queue)| queue.fact.is_none()) {
            let Some(declared) = catalogued.queues.get(&number) else { continue };
            queue.declared = Some(declared.clone());
            restored.insert(number);
        }
        // An unnamed queue, too, keeps its removals, and a later drop must outlive its records.
        for queue in self.queues.values_mut().filter(|queue| queue.fact.is_none()) {
            queue.fact = queue.first.map(|first| Fact { segment: first, first, deleted: false });
        }
        restored
    }
}

impl Replayed {
    fn set_fact(&mut self, segment: u32, deleted: bool) {
        let first = self.first.unwrap_or(segment);
        match &mut self.fact {
            Some(fact) => (fact.segment, fact.deleted) = (segment, fact.deleted || deleted),
            None => self.fact = Some(Fact { segment, first, deleted }),
        }
    }
}

impl<D: Disk> Log<D> {
    /// Appends the declarations that were damaged and that the catalog restored, if there is space.
    pub(super) fn rewrite_declarations(&mut self, recovered: &Recovered) {
        let mut batch = WriteBatch::new();
        for queue in recovered.queues.iter().filter(|queue| queue.lost_declaration) {
            if let Some((uid, name)) = &queue.declared {
                batch.declare(queue.queue, uid, name);
            }
        }
        if !batch.is_empty() {
            // The next stored message reports a full or failing disk.
            let _ = self.append(&mut batch).and_then(|()| self.sync());
        }
    }

    /// Deletes the queues that no copy declares, so that their segments can be reclaimed.
    ///
    /// # Errors
    /// `NoRoom` on a full disk; otherwise as [`Log::append`].
    pub fn discard_unnamed(&mut self, recovered: &Recovered) -> Result<(), Refused> {
        let mut batch = WriteBatch::new();
        for queue in recovered.unnamed_queues() {
            let mut freed = Freed::default();
            queue.messages().for_each(|message| freed.add(message.place));
            batch.drop_queue(queue.queue, &freed);
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.append(&mut batch)?;
        self.sync()
    }
}
