//! A slab whose keys detect a removed value: the next value of a slot gets the next generation.

use std::ops::{Index, IndexMut};

const INDEX_BITS: u32 = 28;
const GENERATION_BITS: u32 = 20;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// The key of a value in one [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// A key without a value in any arena.
    pub(super) const NONE: Self = Self { index: u32::MAX, generation: u32::MAX };

    /// The key as the low 48 bits of a number.
    #[inline]
    pub(super) const fn pack(self) -> u64 {
        (self.generation as u64) << INDEX_BITS | self.index as u64
    }

    /// The key from the low 48 bits of `packed`, the inverse of [`Key::pack`].
    #[inline]
    pub(super) const fn unpack(packed: u64) -> Self {
        let index = packed as u32 & ((1 << INDEX_BITS) - 1);
        Self { index, generation: (packed >> INDEX_BITS) as u32 & GENERATION_MASK }
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values of one type by key. The arena allocates only while it grows beyond its previous maximum.
#[derive(Debug)]
pub(super) struct Arena<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Arena<T> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(super) fn insert(&mut self, value: T) -> Key {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.value = Some(value);
            return Key { index, generation: slot.generation };
        }
        self.grow(value)
    }

    #[cold]
    fn grow(&mut self, value: T) -> Key {
        let index = self.slots.len() as u32;
        assert!(index < 1 << INDEX_BITS, "the arena has no index left");
        self.slots.push(Slot { generation: 0, value: Some(value) });
        Key { index, generation: 0 }
    }

    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index as usize)?;
        if slot.generation == key.generation { slot.value.as_ref() } else { None }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation == key.generation { slot.value.as_mut() } else { None }
    }

    #[inline]
    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(key.index);
        Some(value)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All values, mutable, in the order of their slots.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let key = Key { index: index as u32, generation: slot.generation };
            slot.value.as_mut().map(|value| (key, value))
        })
    }

    /// All values, in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let key = Key { index: index as u32, generation: slot.generation };
            slot.value.as_ref().map(|value| (key, value))
        })
    }
}

/// Panics if the key has no value.
impl<T> Index<Key> for Arena<T> {
    type Output = T;

    #[inline]
    fn index(&self, key: Key) -> &T {
        self.get(key).expect("the value of a key that is still in use")
    }
}

impl<T> IndexMut<Key> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, key: Key) -> &mut T {
        self.get_mut(key).expect("the value of a key that is still in use")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_key_does_not_match_the_next_value_of_its_slot() {
        let mut arena = Arena::new();
        let old = arena.insert('a');
        assert_eq!(arena.remove(old), Some('a'));
        let new = arena.insert('b');
        assert_eq!(new.index, old.index);
        assert!(arena.get(old).is_none() && arena.get_mut(old).is_none());
        assert_eq!(arena.remove(old), None);
        assert_eq!(arena[new], 'b');
        assert_eq!(arena.iter().count(), 1);
    }

    #[test]
    fn generations_wrap_within_their_bits() {
        let mut arena = Arena::new();
        let first = arena.insert(0);
        arena.remove(first);
        for value in 1..=GENERATION_MASK {
            let key = arena.insert(value);
            assert_ne!(key, first);
            arena.remove(key);
        }
        assert_eq!(arena.insert(0), first);
    }

    #[test]
    fn a_packed_key_leaves_the_upper_sixteen_bits_alone() {
        let key = Key { index: (1 << INDEX_BITS) - 1, generation: GENERATION_MASK };
        assert_eq!(key.pack(), (1 << 48) - 1);
        assert_eq!(Key::unpack(0xABCD << 48 | key.pack()), key);
        let key = Key { index: 5, generation: 7 };
        assert_eq!(Key::unpack(key.pack()), key);
    }
}
