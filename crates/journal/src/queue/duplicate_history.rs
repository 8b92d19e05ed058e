//! Detection of duplicates: by message id within a window, and by the sequence numbers of numbered
//! producers.

use std::collections::{BTreeMap, HashMap};

use super::Queue;
use super::effect::{Admission, Refusal};
use super::entry::{Seq, State};
use super::head::Head;
use super::settings::Duplicates;
use super::state::Marker;

/// Maximum numbered producers that a queue remembers. Further ones are refused, because duplicates
/// of a forgotten producer would be stored.
pub const NUMBERED_PRODUCERS_MAX: usize = 1 << 20;

/// One remembered message id.
#[derive(Clone, Copy, Debug)]
struct Id {
    digest: u128,
    at: u64,
    /// number of the message
    seq: u64,
}

/// The newest ids, in a ring.
#[derive(Debug, Default)]
struct Ids {
    limit: u32,
    window_ms: u64,
    ring: Vec<Option<Id>>,
    slots: HashMap<u128, u32>,
    next: u32,
}

impl Ids {
    fn find(&self, now: u64, digest: u128) -> Option<&Id> {
        let id = self.ring.get(*self.slots.get(&digest)? as usize)?.as_ref()?;
        (self.window_ms == 0 || now < id.at.saturating_add(self.window_ms)).then_some(id)
    }

    /// Remembers an id in place of the oldest.
    fn insert(&mut self, id: Id) -> u32 {
        let slot = self.next;
        self.next = (slot + 1) % self.limit;
        self.put(slot, id);
        slot
    }

    fn put(&mut self, slot: u32, id: Id) {
        if self.ring.len() <= slot as usize {
            self.ring.resize(slot as usize + 1, None);
        }
        self.forget(slot);
        self.ring[slot as usize] = Some(id);
        let known = self.slots.get(&id.digest).and_then(|slot| self.ring[*slot as usize]);
        // The ring can hold an id twice, the older one outside the window. A restart adds them in
        // any order.
        if known.is_none_or(|known| known.at <= id.at) {
            self.slots.insert(id.digest, slot);
        }
    }

    fn forget(&mut self, slot: u32) {
        if let Some(old) = self.ring.get_mut(slot as usize).and_then(Option::take)
            && self.slots.get(&old.digest) == Some(&slot)
        {
            self.slots.remove(&old.digest);
        }
    }

    /// Continues the ring behind the newest id, after a restart.
    fn resume(&mut self) {
        if (self.ring.len() as u32) < self.limit {
            self.next = self.ring.len() as u32;
            return;
        }
        let at = |slot: usize| self.ring[slot].map_or(0, |id| id.at);
        // Times ascend along the ring, except at the position where it continues.
        self.next = (1..self.ring.len()).find(|slot| at(*slot) < at(*slot - 1)).unwrap_or(0) as u32;
    }
}

/// The known state of a numbered producer.
#[derive(Clone, Copy, Debug, Default)]
struct Producer {
    /// highest number committed
    stored: u64,
    /// highest number offered, or committed
    offered: u64,
    /// whether any number was committed, because 0 is a valid number
    any: bool,
    /// the message of `offered`
    seq: u64,
    /// the log refused a message and has later ones of this producer: they must not be stored,
    /// because the refused one could then never be sent again
    gap: bool,
}

/// The entries of a message that is not committed.
#[derive(Clone, Copy, Debug, Default)]
struct Trace {
    slot: Option<u32>,
    producer: Option<(u128, u64)>,
}

/// The duplicate history of a queue, or of a partition of a stream.
#[derive(Debug, Default)]
pub(crate) struct DuplicateHistory {
    ids: Ids,
    producers: HashMap<u128, Producer>,
    /// by number of the uncommitted message
    traces: BTreeMap<u64, Trace>,
}

impl DuplicateHistory {
    /// Applies new settings; keeps the newest ids that fit.
    pub(crate) fn configure(&mut self, duplicates: Option<Duplicates>) {
        let limit = duplicates.map_or(0, |duplicates| duplicates.ids);
        self.ids.window_ms = duplicates.map_or(0, |duplicates| duplicates.window_ms);
        if limit == self.ids.limit {
            return;
        }
        let mut old = std::mem::take(&mut self.ids);
        let newer = old.ring.split_off((old.next as usize).min(old.ring.len()));
        let kept: Vec<Id> = newer.into_iter().chain(old.ring).flatten().collect();
        self.ids = Ids { limit, window_ms: old.window_ms, ..Ids::default() };
        for id in kept.iter().skip(kept.len().saturating_sub(limit as usize)) {
            self.ids.insert(*id);
        }
        // Slots have changed, so ids of uncommitted messages can no longer be withdrawn.
        self.traces.values_mut().for_each(|trace| trace.slot = None);
    }

    /// The message of which this one is a duplicate.
    pub(crate) fn original(&self, now: u64, head: &Head) -> Option<Seq> {
        let by_number = head.producer.and_then(|(name, number)| {
            let producer = self.producers.get(&name)?;
            (number <= producer.offered).then_some(producer.seq)
        });
        let by_id = || head.message_id.and_then(|id| self.ids.find(now, id)).map(|id| id.seq);
        by_number.or_else(by_id).map(Seq)
    }

    /// Adds an offered message, and returns the markers to journal with it.
    #[inline]
    pub(crate) fn add(&mut self, now: u64, at: u64, head: &Head) -> [Option<Marker>; 2] {
        if head.producer.is_none() && (head.message_id.is_none() || self.ids.limit == 0) {
            return [None, None];
        }
        self.add_traced(now, at, head)
    }

    fn add_traced(&mut self, now: u64, at: u64, head: &Head) -> [Option<Marker>; 2] {
        let mut trace = Trace { slot: None, producer: head.producer };
        let by_id = head.message_id.filter(|_| self.ids.limit > 0).map(|id| {
            let slot = self.ids.insert(Id { digest: id, at: now, seq: at });
            trace.slot = Some(slot);
            Marker::MessageId { slot, id, at: now }
        });
        let by_number = head.producer.map(|(name, sequence)| {
            let producer = self.producers.entry(name).or_default();
            (producer.offered, producer.seq) = (sequence, at);
            Marker::Producer { name, sequence }
        });
        self.traces.insert(at, trace);
        [by_number, by_id]
    }

    #[inline]
    pub(crate) fn commit(&mut self, at: u64) {
        // Usually no message is traced, so the look-up is skipped.
        if !self.traces.is_empty() {
            self.commit_traced(at);
        }
    }

    fn commit_traced(&mut self, at: u64) {
        if let Some(Trace { producer: Some((name, number)), .. }) = self.traces.remove(&at)
            && let Some(producer) = self.producers.get_mut(&name)
        {
            producer.stored = producer.stored.max(number);
            producer.any = true;
        }
    }

    /// Whether the log has refused an earlier message of the numbered producer of this one.
    #[inline]
    pub(crate) fn is_behind_gap(&self, at: u64) -> bool {
        !self.traces.is_empty() && self.traces.get(&at).is_some_and(|trace| self.has_gap(trace))
    }

    /// Whether any uncommitted message is behind such a gap.
    pub(crate) fn has_gaps(&self) -> bool {
        self.traces.values().any(|trace| self.has_gap(trace))
    }

    fn has_gap(&self, trace: &Trace) -> bool {
        trace.producer.is_some_and(|(name, _)| self.producers.get(&name).is_some_and(|producer| producer.gap))
    }

    /// Removes an offered message that will not be stored, so that it can be sent again.
    pub(crate) fn withdraw(&mut self, at: u64) {
        let Some(trace) = self.traces.remove(&at) else { return };
        if let Some(slot) = trace.slot
            && self.ids.ring.get(slot as usize).is_some_and(|id| id.is_some_and(|id| id.seq == at))
        {
            self.ids.forget(slot);
        }
        let Some((name, refused)) = trace.producer else { return };
        let of_producer = |(seq, trace): (&u64, &Trace)| {
            trace.producer.filter(|(of, _)| *of == name).map(|(_, number)| (number, *seq))
        };
        // Sequence numbers ascend with message numbers, so the last is the highest.
        let highest = self.traces.iter().rev().find_map(of_producer);
        let Some(producer) = self.producers.get_mut(&name) else { return };
        match highest {
            Some((number, seq)) if !producer.any || number > producer.stored => {
                (producer.offered, producer.seq) = (number, seq);
                producer.gap |= number > refused;
            }
            _ if producer.any => (producer.offered, producer.gap) = (producer.stored, false),
            _ => {
                self.producers.remove(&name);
            }
        }
    }

    /// Restores a journaled marker after a restart.
    pub(crate) fn restore(&mut self, marker: Marker) {
        match marker {
            Marker::Producer { name, sequence } => {
                let producer = Producer { stored: sequence, offered: sequence, any: true, seq: u64::MAX, gap: false };
                self.producers.insert(name, producer);
            }
            Marker::MessageId { slot, id, at } if slot < self.ids.limit => {
                self.ids.put(slot, Id { digest: id, at, seq: u64::MAX });
            }
            Marker::MessageId { .. } | Marker::Tag { .. } => {}
        }
    }

    pub(crate) fn resume(&mut self) {
        self.ids.resume();
    }

    /// Whether a numbered producer is remembered, or is within a maximum of `most` producers.
    pub(crate) fn accepts_producer(&self, name: u128, most: usize) -> bool {
        self.producers.len() < most || self.producers.contains_key(&name)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.ids.ring.capacity() * size_of::<Option<Id>>()
            + self.ids.slots.capacity() * 33
            + self.producers.capacity() * 49
            + self.traces.len() * 72
    }
}

impl Queue {
    /// The admission of a duplicate, or of a message of a numbered producer beyond the limit;
    /// `None` for other messages.
    pub(super) fn check_duplicate(&mut self, now: u64, head: &Head) -> Option<Admission> {
        if head.message_id.is_none() && head.producer.is_none() {
            return None;
        }
        if let Some(original) = self.duplicate_history.original(now, head) {
            self.stats.duplicates += 1;
            let pending = self.index.get(original.0).is_some_and(|entry| entry.state() == State::Offered);
            return Some(Admission::Duplicate { of: pending.then_some(original) });
        }
        let (name, _) = head.producer?;
        if self.duplicate_history.accepts_producer(name, NUMBERED_PRODUCERS_MAX) {
            return None;
        }
        self.stats.refused += 1;
        Some(Admission::Refuse(Refusal::NumberedProducers))
    }
}
