//! The model's memory of earlier messages.

use std::collections::HashMap;

use enmasse_journal::queue::{Duplicates, Head, Marker};

/// Ids in slots and numbers by producer, each committed or pending.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    duplicates: Option<Duplicates>,
    ring: Vec<Option<(u128, u64, u64)>>,
    next: usize,
    /// producer, number, message, committed
    numbers: Vec<(u128, u64, u64, bool)>,
    uncommitted: HashMap<u64, Vec<Marker>>,
    journal: HashMap<Vec<u8>, Marker>,
}

impl Memory {
    pub(crate) fn new(duplicates: Option<Duplicates>) -> Self {
        let ids = duplicates.map_or(0, |duplicates| duplicates.ids as usize);
        Self { duplicates, ring: vec![None; ids], ..Self::default() }
    }

    pub(crate) fn knows(&self, now: u64, head: &Head) -> bool {
        let by_number = head.producer.is_some_and(|(name, number)| {
            self.numbers.iter().any(|(of, highest, ..)| *of == name && *highest >= number)
        });
        let window = self.duplicates.map_or(0, |duplicates| duplicates.window_ms);
        let by_id = head.message_id.is_some_and(|id| {
            let newest = self.ring.iter().flatten().filter(|(of, ..)| *of == id).max_by_key(|(_, at, seq)| (*at, *seq));
            newest.is_some_and(|(_, at, _)| window == 0 || now < at + window)
        });
        by_number || by_id
    }

    pub(crate) fn offered(&mut self, now: u64, seq: u64, head: &Head, markers: &[Option<Marker>; 2]) {
        if let Some((name, number)) = head.producer {
            self.numbers.push((name, number, seq, false));
        }
        if let Some(id) = head.message_id.filter(|_| !self.ring.is_empty()) {
            self.ring[self.next] = Some((id, now, seq));
            self.next = (self.next + 1) % self.ring.len();
        }
        self.uncommitted.insert(seq, markers.iter().flatten().copied().collect());
    }

    pub(crate) fn committed(&mut self, seq: u64) {
        self.numbers.iter_mut().filter(|(.., of, _)| *of == seq).for_each(|number| number.3 = true);
        for marker in self.uncommitted.remove(&seq).unwrap_or_default() {
            // The log is in the order of offers.
            let key = marker.key().to_vec();
            let newer = match (self.journal.get(&key), marker) {
                (Some(Marker::Producer { sequence: old, .. }), Marker::Producer { sequence, .. }) => sequence > *old,
                _ => true,
            };
            if newer {
                self.journal.insert(key, marker);
            }
        }
    }

    pub(crate) fn withdrawn(&mut self, seq: u64) {
        self.numbers.retain(|(.., of, _)| *of != seq);
        self.uncommitted.remove(&seq);
        for slot in &mut self.ring {
            *slot = slot.filter(|(.., of)| *of != seq);
        }
    }

    /// The state that the log returns after a restart, and the memory that follows from it.
    pub(crate) fn restart(&mut self) -> Vec<Marker> {
        self.numbers.retain(|(.., committed)| *committed);
        self.uncommitted.clear();
        self.ring.fill(None);
        let markers: Vec<Marker> = self.journal.values().copied().collect();
        let mut used = 0;
        for marker in &markers {
            if let Marker::MessageId { slot, id, at } = *marker {
                self.ring[slot as usize] = Some((id, at, 0));
                used = used.max(slot as usize + 1);
            }
        }
        let at = |slot: usize| self.ring[slot].map_or(0, |(_, at, _)| at);
        self.next = match self.ring.len() {
            len if used < len => used,
            len => (1..len).find(|slot| at(*slot) < at(*slot - 1)).unwrap_or(0),
        };
        markers
    }
}
