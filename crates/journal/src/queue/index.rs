//! The messages of a queue by number, in blocks of 64, with a bit for each available message.
//!
//! A returned message sets its bit again and so keeps its position. The bits of one priority are
//! found through four bit planes (one for each binary digit of the priority) and an ordered set of
//! the blocks with such messages. A block is the unit in which messages could be paged out.
//!
//! Memory: 40 bytes a message, and about 2 for its share of the block. Removals pack blocks with
//! mostly removed messages, so that unused slots never outnumber messages.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::entry::Entry;
use super::head::Priority;

const BLOCK: u64 = 64;
const CACHE: usize = 8;
/// Unused blocks that keep their memory for reuse.
const SPARE_BLOCKS: usize = 16;
/// Unused slots below which no block is packed.
const SLACK: usize = 4 * BLOCK as usize;
const NEVER: u64 = u64::MAX;
/// The default priority of a message (part 3, 3.2.1).
const USUAL_PRIORITY: u8 = 4;

/// The consumers that may get a waiting message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// any consumer
    Ungrouped,
    /// the consumer of its group
    Grouped,
}

#[derive(Clone, Debug, Default)]
struct Block {
    key: u64,
    /// stored messages
    live: u64,
    /// messages with a slot in `entries`, in order
    slots: u64,
    /// available messages, by class
    waiting: [u64; 2],
    /// bit `n` of each message's priority
    planes: [u64; 4],
    /// its key in `expiries`: a lower bound of the expiries in it
    expiry: u64,
    entries: Vec<Entry>,
}

impl Block {
    #[inline]
    fn of_priority(&self, priority: u8) -> u64 {
        let plane = |n: u8| if priority >> n & 1 != 0 { self.planes[n as usize] } else { !self.planes[n as usize] };
        plane(0) & plane(1) & plane(2) & plane(3)
    }

    #[inline]
    fn priority_at(&self, bit: u64) -> u8 {
        let shift = bit.trailing_zeros();
        let plane = |n: usize| (self.planes[n] >> shift & 1) as u8;
        plane(0) | plane(1) << 1 | plane(2) << 2 | plane(3) << 3
    }

    #[inline]
    fn rank(&self, bit: u64) -> usize {
        if self.slots & self.slots.wrapping_add(1) == 0 {
            // A block that was never packed has no gaps between its slots.
            return bit.trailing_zeros() as usize;
        }
        (self.slots & (bit - 1)).count_ones() as usize
    }

    /// Releases the slots of removed messages, and their memory.
    fn pack(&mut self) {
        let (mut slots, live) = (self.slots, self.live);
        self.entries.retain(|_| {
            let bit = slots & slots.wrapping_neg();
            slots ^= bit;
            live & bit != 0
        });
        self.entries.shrink_to_fit();
        self.slots = live;
    }
}

/// The blocks of one class that have waiting messages, by priority. Most queues have messages of the
/// default priority only, and many have none, so the sets of the other priorities come into being
/// with their first message.
#[derive(Clone, Debug, Default)]
struct BlockSets {
    usual: BTreeSet<u64>,
    others: Option<Box<[BTreeSet<u64>; Priority::COUNT]>>,
    /// bit `n`: there are blocks of priority `n`
    any: u16,
}

impl BlockSets {
    fn insert(&mut self, priority: u8, key: u64) {
        match priority {
            USUAL_PRIORITY => self.usual.insert(key),
            _ => self.others.get_or_insert_default()[priority as usize].insert(key),
        };
        self.any |= 1 << priority;
    }

    fn remove(&mut self, priority: u8, key: u64) {
        let blocks = match priority {
            USUAL_PRIORITY => &mut self.usual,
            _ => &mut self.others.get_or_insert_default()[priority as usize],
        };
        blocks.remove(&key);
        if blocks.is_empty() {
            self.any &= !(1 << priority);
        }
    }

    /// The first block of a priority.
    fn first(&self, priority: u8) -> Option<u64> {
        self.of(priority)?.first().copied()
    }

    /// The first block of a priority after this one.
    fn after(&self, priority: u8, key: u64) -> Option<u64> {
        self.of(priority)?.range(key + 1..).next().copied()
    }

    fn of(&self, priority: u8) -> Option<&BTreeSet<u64>> {
        if priority == USUAL_PRIORITY {
            return Some(&self.usual);
        }
        Some(&self.others.as_ref()?[priority as usize])
    }

    /// The number of entries.
    fn len(&self) -> usize {
        self.usual.len() + self.others.iter().flat_map(|others| others.iter()).map(BTreeSet::len).sum::<usize>()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Index {
    blocks: Vec<Block>,
    free: Vec<u32>,
    by_key: BTreeMap<u64, u32>,
    /// the blocks used last, by the low bits of their key
    cache: [Cell<(u64, u32)>; CACHE],
    sets: [BlockSets; 2],
    expiries: BTreeSet<(u64, u64)>,
    /// key of the last block, to which messages are appended
    tail: u64,
    live: usize,
    slots: usize,
    /// the block to examine next for packing
    sweep: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            free: Vec::new(),
            by_key: BTreeMap::new(),
            cache: std::array::from_fn(|_| Cell::new((NEVER, 0))),
            sets: [BlockSets::default(), BlockSets::default()],
            expiries: BTreeSet::new(),
            tail: NEVER,
            live: 0,
            slots: 0,
            sweep: 0,
        }
    }
}

#[inline]
const fn bit_of(at: u64) -> u64 {
    1 << (at % BLOCK)
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.live
    }

    #[inline]
    fn block(&self, key: u64) -> Option<usize> {
        let cached = &self.cache[key as usize % CACHE];
        let (known, at) = cached.get();
        if known == key {
            return Some(at as usize);
        }
        let at = *self.by_key.get(&key)?;
        cached.set((key, at));
        Some(at as usize)
    }

    #[inline]
    pub(super) fn get(&self, at: u64) -> Option<&Entry> {
        let block = &self.blocks[self.block(at / BLOCK)?];
        let bit = bit_of(at);
        if block.live & bit == 0 { None } else { block.entries.get(block.rank(bit)) }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u64) -> Option<&mut Entry> {
        let index = self.block(at / BLOCK)?;
        let block = &mut self.blocks[index];
        let bit = bit_of(at);
        if block.live & bit == 0 {
            return None;
        }
        let rank = block.rank(bit);
        block.entries.get_mut(rank)
    }

    /// Appends a message: `at` is above all numbers ever used. Returns its block.
    #[inline]
    pub(super) fn push(&mut self, at: u64, entry: Entry) -> usize {
        let (key, bit) = (at / BLOCK, bit_of(at));
        let index = if key == self.tail { self.block(key) } else { None };
        let index = index.unwrap_or_else(|| self.grow(key));
        let block = &mut self.blocks[index];
        debug_assert!(block.slots < bit, "numbers only grow");
        block.live |= bit;
        block.slots |= bit;
        for (n, plane) in block.planes.iter_mut().enumerate() {
            *plane |= if entry.priority() >> n & 1 != 0 { bit } else { 0 };
        }
        block.entries.push(entry);
        self.live += 1;
        self.slots += 1;
        index
    }

    #[cold]
    fn grow(&mut self, key: u64) -> usize {
        let before = std::mem::replace(&mut self.tail, key);
        if before != NEVER
            && let Some(index) = self.block(before).filter(|index| self.blocks[*index].live == 0)
        {
            self.discard(index);
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.blocks.push(Block::default());
            (self.blocks.len() - 1) as u32
        });
        let block = &mut self.blocks[index as usize];
        let mut entries = std::mem::take(&mut block.entries);
        entries.clear();
        if before != NEVER {
            // A queue that has filled one block will probably fill this one.
            entries.reserve_exact(BLOCK as usize);
        }
        *block = Block { key, expiry: NEVER, entries, ..Block::default() };
        self.by_key.insert(key, index);
        index as usize
    }

    /// Removes a message in any state.
    #[inline]
    pub(super) fn remove(&mut self, at: u64) -> Option<Entry> {
        let (key, bit) = (at / BLOCK, bit_of(at));
        let index = self.block(key)?;
        let block = &self.blocks[index];
        if block.live & bit == 0 {
            return None;
        }
        let entry = *block.entries.get(block.rank(bit))?;
        if (block.waiting[0] | block.waiting[1]) & bit != 0 {
            self.hide(at);
        }
        let block = &mut self.blocks[index];
        block.live &= !bit;
        let empty = block.live == 0;
        self.live -= 1;
        if empty && key != self.tail {
            self.discard(index);
        } else if self.slots > 2 * self.live + SLACK {
            self.sweep();
        }
        Some(entry)
    }

    /// Frees a block without messages.
    fn discard(&mut self, index: usize) {
        let block = &mut self.blocks[index];
        let key = block.key;
        self.slots -= block.entries.len();
        block.entries.clear();
        block.slots = 0;
        if block.expiry != NEVER {
            self.expiries.remove(&(block.expiry, key));
            block.expiry = NEVER;
        }
        if self.free.len() >= SPARE_BLOCKS {
            block.entries = Vec::new();
        }
        self.free.push(index as u32);
        self.by_key.remove(&key);
        let cached = &self.cache[key as usize % CACHE];
        if cached.get().0 == key {
            cached.set((NEVER, 0));
        }
        if self.free.len() > 4 * (self.by_key.len() + SPARE_BLOCKS) {
            self.shrink();
        }
    }

    /// Returns the memory of unused blocks, when they far outnumber the used ones.
    #[cold]
    fn shrink(&mut self) {
        let mut blocks = Vec::with_capacity(2 * self.by_key.len());
        for index in self.by_key.values_mut() {
            blocks.push(std::mem::take(&mut self.blocks[*index as usize]));
            *index = (blocks.len() - 1) as u32;
        }
        self.blocks = blocks;
        self.free = Vec::new();
        self.sweep = 0;
        self.cache.iter().for_each(|cached| cached.set((NEVER, 0)));
    }

    #[cold]
    fn sweep(&mut self) {
        self.sweep = (self.sweep + 1) % self.blocks.len();
        let block = &mut self.blocks[self.sweep];
        let (live, slots) = (block.live.count_ones() as usize, block.entries.len());
        if 2 * live <= slots && live > 0 {
            block.pack();
            self.slots -= slots - live;
        }
    }

    /// Makes a message available.
    #[inline]
    pub(super) fn show(&mut self, at: u64, class: Class) {
        if let Some(index) = self.block(at / BLOCK) {
            self.show_in(index, at, class);
        }
    }

    /// The same, for a message whose block is known.
    #[inline]
    pub(super) fn show_in(&mut self, index: usize, at: u64, class: Class) {
        let block = &mut self.blocks[index];
        let bit = bit_of(at);
        let priority = block.priority_at(bit);
        let waiting = &mut block.waiting[class as usize];
        let before = *waiting;
        *waiting |= bit;
        if before & block.of_priority(priority) == 0 {
            self.sets[class as usize].insert(priority, at / BLOCK);
        }
    }

    /// Makes a message unavailable; no effect if it is already.
    #[inline]
    pub(super) fn hide(&mut self, at: u64) {
        let Some(index) = self.block(at / BLOCK) else { return };
        let block = &mut self.blocks[index];
        let bit = bit_of(at);
        for class in [Class::Ungrouped, Class::Grouped] {
            if block.waiting[class as usize] & bit == 0 {
                continue;
            }
            block.waiting[class as usize] &= !bit;
            let priority = block.priority_at(bit);
            if block.waiting[class as usize] & block.of_priority(priority) == 0 {
                self.sets[class as usize].remove(priority, at / BLOCK);
            }
        }
    }

    /// Whether a message is available.
    #[inline]
    pub(super) fn is_shown(&self, at: u64) -> bool {
        self.block(at / BLOCK).is_some_and(|index| {
            let [ungrouped, grouped] = self.blocks[index].waiting;
            (ungrouped | grouped) & bit_of(at) != 0
        })
    }

    /// Priorities with available messages: bit `n` for priority `n`.
    #[inline]
    pub(super) fn priorities(&self, class: Class) -> u16 {
        self.sets[class as usize].any
    }

    /// The first available message of the highest priority: priority and number.
    #[inline]
    pub(super) fn first(&self, class: Class) -> Option<(u8, u64)> {
        let sets = &self.sets[class as usize];
        let priority = (sets.any.checked_ilog2()?) as u8;
        let key = sets.first(priority)?;
        Some((priority, self.first_in(class, priority, key, !0)?))
    }

    #[inline]
    fn first_in(&self, class: Class, priority: u8, key: u64, mask: u64) -> Option<u64> {
        let block = &self.blocks[self.block(key)?];
        let bits = block.waiting[class as usize] & block.of_priority(priority) & mask;
        (bits != 0).then(|| key * BLOCK + u64::from(bits.trailing_zeros()))
    }

    /// The first available message of a priority at or after `from`.
    #[inline]
    pub(super) fn next(&self, class: Class, priority: u8, from: u64) -> Option<u64> {
        let key = from / BLOCK;
        if let Some(at) = self.first_in(class, priority, key, !(bit_of(from) - 1)) {
            return Some(at);
        }
        let later = self.sets[class as usize].after(priority, key)?;
        self.first_in(class, priority, later, !0)
    }

    /// The first message in any state at or after `from`.
    pub(super) fn next_live(&self, from: u64) -> Option<u64> {
        let live_in = |key: u64, mask: u64| {
            let bits = self.blocks[self.block(key)?].live & mask;
            (bits != 0).then(|| key * BLOCK + u64::from(bits.trailing_zeros()))
        };
        let key = from / BLOCK;
        live_in(key, !(bit_of(from) - 1))
            .or_else(|| self.by_key.range(key + 1..).find_map(|(later, _)| live_in(*later, !0)))
    }

    /// Records the expiry of a message.
    #[inline]
    pub(super) fn note_expiry(&mut self, at: u64, expires: u64) {
        let Some(index) = self.block(at / BLOCK) else { return };
        let block = &mut self.blocks[index];
        if expires >= block.expiry {
            return;
        }
        if block.expiry != NEVER {
            self.expiries.remove(&(block.expiry, block.key));
        }
        block.expiry = expires;
        self.expiries.insert((expires, block.key));
    }

    /// A lower bound of all recorded expiries.
    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// Takes the first block with messages that may have expired, and returns the range of its
    /// numbers. The caller records the remaining expiries of the block again.
    pub(super) fn take_expiring(&mut self, now: u64) -> Option<std::ops::Range<u64>> {
        let (at, key) = *self.expiries.first()?;
        if at > now {
            return None;
        }
        self.expiries.pop_first();
        if let Some(index) = self.block(key) {
            self.blocks[index].expiry = NEVER;
        }
        Some(key * BLOCK..(key + 1) * BLOCK)
    }

    /// Bytes on the heap: requested from the allocator, with ordered sets estimated at 3 words a
    /// block.
    pub(super) fn heap_bytes(&self) -> usize {
        let entries: usize = self.blocks.iter().map(|block| block.entries.capacity() * size_of::<Entry>()).sum();
        let words = 3 * (self.by_key.len() + self.expiries.len());
        let sets: usize = self.sets.iter().map(BlockSets::len).sum();
        entries
            + self.blocks.capacity() * size_of::<Block>()
            + self.free.capacity() * 4
            + (words + 2 * sets) * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: u64, priority: impl Fn(u64) -> u8) -> Index {
        let mut index = Index::default();
        for at in 0..count {
            index.push(at, Entry::new(1, priority(at), at, None, 0));
            index.show(at, Class::Ungrouped);
        }
        index
    }

    #[test]
    fn messages_are_ordered_by_priority_and_then_by_number() {
        let mut index = filled(1000, |at| (at % 10) as u8);
        let mut order = Vec::new();
        while let Some((priority, at)) = index.first(Class::Ungrouped) {
            assert_eq!(u64::from(priority), at % 10);
            index.remove(at);
            order.push(at);
        }
        let mut expected: Vec<u64> = (0..1000).collect();
        expected.sort_by_key(|at| (9 - at % 10, *at));
        assert_eq!(order, expected);
        assert_eq!(index.len(), 0);
    }

    #[test]
    fn message_shown_again_returns_to_its_position() {
        let mut index = filled(300, |_| 4);
        for at in 0..200 {
            index.hide(at);
        }
        for at in [150, 7, 8] {
            index.show(at, Class::Ungrouped);
        }
        let mut order = Vec::new();
        let mut from = 0;
        while let Some(at) = index.next(Class::Ungrouped, 4, from) {
            order.push(at);
            from = at + 1;
        }
        assert_eq!(order[..5], [7, 8, 150, 200, 201]);
        assert_eq!(order.len(), 103);
    }

    #[test]
    fn each_class_is_ordered_independently() {
        let mut index = filled(10, |_| 4);
        index.hide(0);
        index.show(0, Class::Grouped);
        assert_eq!(index.first(Class::Ungrouped), Some((4, 1)));
        assert_eq!(index.first(Class::Grouped), Some((4, 0)));
        index.remove(0);
        assert_eq!(index.first(Class::Grouped), None);
    }

    #[test]
    fn queue_of_steady_length_uses_a_bounded_number_of_blocks() {
        let mut index = Index::default();
        for at in 0..100_000_u64 {
            index.push(at, Entry::new(1, 4, at, Some(at), 0));
            index.note_expiry(at, at);
            index.show(at, Class::Ungrouped);
            if at >= 500 {
                assert_eq!(index.first(Class::Ungrouped), Some((4, at - 500)));
                index.remove(at - 500);
            }
        }
        assert!(index.blocks.len() <= 12, "{}", index.blocks.len());
        assert!(index.expiries.len() <= 12);
    }

    #[test]
    fn sparse_blocks_are_packed_and_their_memory_is_returned() {
        let mut index = filled(64_000, |_| 4);
        for at in (0..64_000).filter(|at| at % 64 != 5) {
            index.remove(at);
        }
        assert_eq!(index.len(), 1000);
        assert!(index.slots <= 2 * index.len() + SLACK, "{}", index.slots);
        for at in 0..64_000 {
            assert_eq!(index.get(at).map(Entry::enqueued), (at % 64 == 5).then_some(at));
        }
        assert_eq!(index.next_live(6), Some(69));
        while let Some((_, at)) = index.first(Class::Ungrouped) {
            index.remove(at);
        }
        assert!(index.blocks.len() < 100 && index.heap_bytes() < 100_000, "the memory of a burst is returned");
    }

    #[test]
    fn expiring_blocks_are_taken_once_in_order_of_time() {
        let mut index = filled(200, |_| 4);
        for (at, expires) in [(3, 50), (70, 20), (71, 60), (130, 90)] {
            index.note_expiry(at, expires);
        }
        assert_eq!(index.next_expiry(), Some(20));
        assert_eq!(index.take_expiring(19), None);
        assert_eq!(index.take_expiring(80), Some(64..128));
        index.note_expiry(71, 60);
        assert_eq!(index.take_expiring(80), Some(0..64));
        assert_eq!(index.take_expiring(80), Some(64..128));
        assert_eq!(index.take_expiring(80), None);
        assert_eq!(index.next_expiry(), Some(90));
    }
}
