//! Messages that came before: by message id within a window, and by the number their producer gave
//! them.

use std::collections::{BTreeMap, HashMap};

use super::Queue;
use super::effect::{Admission, Refusal};
use super::entry::{Seq, State};
use super::head::Head;
use super::settings::Duplicates;
use super::state::Marker;

/// Numbered producers that a queue remembers; one more is refused, as forgetting one would let its
/// duplicates in.
pub const NUMBERED_PRODUCERS_MAX: usize = 1 << 20;

/// One remembered message id.
#[derive(Clone, Copy, Debug)]
struct Id {
    digest: u128,
    at: u64,
    /// the message, as long as it is not committed
    seq: u64,
}

/// The ids seen last, in a ring.
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
        // An id can be here twice, the older one outside the window; a restart puts them in any
        // order.
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

    /// After a restart the ring continues behind the newest id.
    fn resume(&mut self) {
        if (self.ring.len() as u32) < self.limit {
            self.next = self.ring.len() as u32;
            return;
        }
        let at = |slot: usize| self.ring[slot].map_or(0, |id| id.at);
        // Times grow along the ring but for one step back, which is where it stopped.
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
    /// whether any was committed: 0 is a number too
    any: bool,
    /// the message of `offered`
    seq: u64,
    /// one was refused while the log had others behind it: they are not to be stored, or it could
    /// never come again
    gap: bool,
}

/// The traces of a message that is not committed.
#[derive(Clone, Copy, Debug, Default)]
struct Trace {
    slot: Option<u32>,
    producer: Option<(u128, u64)>,
}

/// The duplicate history of a queue, or of a partition of a stream.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    ids: Ids,
    producers: HashMap<u128, Producer>,
    /// by message not committed
    traces: BTreeMap<u64, Trace>,
}

impl Seen {
    /// Applies new settings; keeps as many of the remembered ids as fit.
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
        // Slots have changed: uncommitted ids are remembered and cannot be withdrawn.
        self.traces.values_mut().for_each(|trace| trace.slot = None);
    }

    /// The message that this one repeats.
    pub(crate) fn original(&self, now: u64, head: &Head) -> Option<Seq> {
        let by_number = head.producer.and_then(|(name, number)| {
            let producer = self.producers.get(&name)?;
            (number <= producer.offered).then_some(producer.seq)
        });
        let by_id = || head.message_id.and_then(|id| self.ids.find(now, id)).map(|id| id.seq);
        by_number.or_else(by_id).map(Seq)
    }

    /// A new message is offered: returns what has to be journaled with it.
    #[inline]
    pub(crate) fn note(&mut self, now: u64, at: u64, head: &Head) -> [Option<Marker>; 2] {
        if head.producer.is_none() && (head.message_id.is_none() || self.ids.limit == 0) {
            return [None, None];
        }
        self.note_traced(now, at, head)
    }

    fn note_traced(&mut self, now: u64, at: u64, head: &Head) -> [Option<Marker>; 2] {
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
        // As a rule nothing is traced, and then not even a hash is worth its time.
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

    /// Whether a message that the log has is of a numbered producer of which it refused an earlier
    /// one.
    #[inline]
    pub(crate) fn is_behind_gap(&self, at: u64) -> bool {
        !self.traces.is_empty() && self.traces.get(&at).is_some_and(|trace| self.has_gap(trace))
    }

    /// Whether any message that was offered is behind such a gap.
    pub(crate) fn has_gaps(&self) -> bool {
        self.traces.values().any(|trace| self.has_gap(trace))
    }

    fn has_gap(&self, trace: &Trace) -> bool {
        trace.producer.is_some_and(|(name, _)| self.producers.get(&name).is_some_and(|producer| producer.gap))
    }

    /// A message that was offered will not be stored: it may come again.
    pub(crate) fn withdraw(&mut self, at: u64) {
        let Some(trace) = self.traces.remove(&at) else { return };
        if let Some(slot) = trace.slot
            && self.ids.ring.get(slot as usize).is_some_and(|id| id.is_some_and(|id| id.seq == at))
        {
            self.ids.forget(slot);
        }
        let Some((name, refused)) = trace.producer else { return };
        let of_it = |(seq, trace): (&u64, &Trace)| {
            trace.producer.filter(|(of, _)| *of == name).map(|(_, number)| (number, *seq))
        };
        // Its numbers grow with those of its messages: the last is the highest.
        let highest = self.traces.iter().rev().find_map(of_it);
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

    /// After a restart.
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

    /// Whether a numbered producer is one of those remembered, or there is room for it among
    /// `most`.
    pub(crate) fn may_know(&self, name: u128, most: usize) -> bool {
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
    /// The answer to a message that came before, or that comes from one numbered producer too many.
    pub(super) fn known(&mut self, now: u64, head: &Head) -> Option<Admission> {
        if head.message_id.is_none() && head.producer.is_none() {
            return None;
        }
        if let Some(original) = self.seen.original(now, head) {
            self.stats.duplicates += 1;
            let pending = self.index.get(original.0).is_some_and(|entry| entry.state() == State::Offered);
            return Some(Admission::Duplicate { of: pending.then_some(original) });
        }
        let (name, _) = head.producer?;
        if self.seen.may_know(name, NUMBERED_PRODUCERS_MAX) {
            return None;
        }
        self.stats.refused += 1;
        Some(Admission::Refuse(Refusal::NumberedProducers))
    }
}
