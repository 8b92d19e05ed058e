//! The live messages of one queue during recovery, ordered by number.
//!
//! Messages are usually added and removed in ascending order. They are in a sorted list with holes,
//! which is packed when half of it is holes. A number out of order (a message that compaction
//! copied) is kept in a tree.

use std::collections::BTreeMap;

use super::place::RecordLocation;
use super::record::SeqRange;

const HOLES_MIN: usize = 1024;

/// One message. Its head lies in the list's heads: a byte of length, then the head.
#[derive(Clone, Copy, Debug)]
struct Entry {
    seq: u64,
    place: RecordLocation,
    head: u32,
    damaged: bool,
    removed: bool,
}

/// All messages of one queue.
#[derive(Debug, Default)]
pub(super) struct Entries {
    list: Vec<Entry>,
    out_of_order: BTreeMap<u64, Entry>,
    heads: Vec<u8>,
    /// Offset of the last head: most heads equal the one before.
    last_head: Option<u32>,
    holes: usize,
    /// End of the last removal: the next one usually begins there.
    hint: usize,
}

impl Entries {
    /// Adds a message. Returns its former location if it is known already.
    pub(super) fn insert(
        &mut self,
        seq: u64,
        place: RecordLocation,
        head: &[u8],
        damaged: bool,
    ) -> Option<RecordLocation> {
        let entry = Entry { seq, place, head: self.put_head(head), damaged, removed: false };
        if self.list.last().is_none_or(|last| last.seq < seq) {
            self.list.push(entry);
            return None;
        }
        match self.list.binary_search_by_key(&seq, |entry| entry.seq) {
            Ok(at) if !self.list[at].removed => Some(std::mem::replace(&mut self.list[at], entry).place),
            Ok(at) => {
                self.holes -= 1;
                self.list[at] = entry;
                None
            }
            Err(_) => self.out_of_order.insert(seq, entry).map(|before| before.place),
        }
    }

    /// Removes messages and calls `on_removed` with the location of each.
    pub(super) fn remove(&mut self, range: SeqRange, mut on_removed: impl FnMut(RecordLocation)) {
        let mut at = self.first_from(range.first);
        while let Some(entry) = self.list.get_mut(at).filter(|entry| entry.seq <= range.last) {
            if !entry.removed {
                entry.removed = true;
                self.holes += 1;
                on_removed(entry.place);
            }
            at += 1;
        }
        self.hint = at;
        while let Some((&seq, _)) = self.out_of_order.range(range.first..=range.last).next() {
            if let Some(entry) = self.out_of_order.remove(&seq) {
                on_removed(entry.place);
            }
        }
        if self.holes >= HOLES_MIN && self.holes * 2 > self.list.len() {
            self.pack();
        }
    }

    /// The number of live messages.
    pub(super) fn len(&self) -> usize {
        self.list.len() - self.holes + self.out_of_order.len()
    }

    /// The live messages in order: number, location, head, damaged.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, RecordLocation, &[u8], bool)> {
        let mut out_of_order = self.out_of_order.values().peekable();
        let mut list = self.list.iter().filter(|entry| !entry.removed).peekable();
        std::iter::from_fn(move || {
            let out_of_order_first = match (out_of_order.peek(), list.peek()) {
                (Some(out_of_order), Some(listed)) => out_of_order.seq < listed.seq,
                (out_of_order, _) => out_of_order.is_some(),
            };
            if out_of_order_first { out_of_order.next() } else { list.next() }
        })
        .map(|entry| (entry.seq, entry.place, self.head(entry.head), entry.damaged))
    }

    fn first_from(&self, seq: u64) -> usize {
        let before = |at: usize| at == 0 || self.list.get(at - 1).is_some_and(|entry| entry.seq < seq);
        if before(self.hint) && self.list.get(self.hint).is_none_or(|entry| entry.seq >= seq) {
            return self.hint;
        }
        self.list.partition_point(|entry| entry.seq < seq)
    }

    fn head(&self, at: u32) -> &[u8] {
        let at = at as usize;
        let len = usize::from(self.heads[at]);
        &self.heads[at + 1..at + 1 + len]
    }

    fn put_head(&mut self, head: &[u8]) -> u32 {
        if let Some(last) = self.last_head
            && self.head(last) == head
        {
            return last;
        }
        // 4 GiB are more than 60 million different heads of maximum size in one queue.
        let at = u32::try_from(self.heads.len()).expect("heads of one queue have at most 4 GiB");
        self.heads.push(head.len() as u8);
        self.heads.extend_from_slice(head);
        self.last_head = Some(at);
        at
    }

    fn pack(&mut self) {
        let heads = std::mem::take(&mut self.heads);
        let mut list = std::mem::take(&mut self.list);
        list.retain(|entry| !entry.removed);
        let head = |at: u32| &heads[at as usize + 1..][..usize::from(heads[at as usize])];
        self.last_head = None;
        for entry in &mut list {
            entry.head = self.put_head(head(entry.head));
        }
        let mut out_of_order = std::mem::take(&mut self.out_of_order);
        for entry in out_of_order.values_mut() {
            entry.head = self.put_head(head(entry.head));
        }
        self.out_of_order = out_of_order;
        self.list = list;
        self.holes = 0;
        self.hint = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(n: u32) -> RecordLocation {
        RecordLocation { segment: n, offset: n, len: n }
    }

    proptest! {
        #[test]
        fn entries_match_an_ordered_map(steps in prop::collection::vec((any::<bool>(), 0u64..4000, 0u64..900, 0u8..3), 1..120)) {
            let mut entries = Entries::default();
            let mut model: BTreeMap<u64, (RecordLocation, Vec<u8>)> = BTreeMap::new();
            let mut next = 0;
            for (n, (add, seq, len, head)) in steps.into_iter().enumerate() {
                if add {
                    // Usually some new numbers, sometimes a known one.
                    let count = if len % 5 == 0 { 1 } else { len };
                    for offset in 0..count {
                        let seq = if len % 5 == 0 { seq } else { next + offset };
                        let head = vec![head; usize::from(head)];
                        let before = entries.insert(seq, place(n as u32), &head, false);
                        prop_assert_eq!(before, model.insert(seq, (place(n as u32), head)).map(|(place, _)| place));
                        next = next.max(seq);
                    }
                    next += 1;
                } else {
                    let mut freed = Vec::new();
                    entries.remove(SeqRange { first: seq, last: seq + len }, |place| freed.push(place));
                    let expected: Vec<u64> = model.range(seq..=seq + len).map(|(&seq, _)| seq).collect();
                    prop_assert_eq!(freed.len(), expected.len());
                    for seq in expected {
                        model.remove(&seq);
                    }
                }
                prop_assert_eq!(entries.len(), model.len());
            }
            let found: Vec<_> = entries.iter().map(|(seq, place, head, _)| (seq, place, head.to_vec())).collect();
            let expected: Vec<_> = model.into_iter().map(|(seq, (place, head))| (seq, place, head)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
