//! Messages that are not on disk, in chunks of memory.
//!
//! A chunk is freed with its last message. When less than a quarter of a chunk is in use, its
//! messages are copied to the chunk that is being filled, so that messages take at most four times
//! their bytes, plus two chunks. So a message is found through a slot, whose number is in its
//! location. In the chunk, the slot number precedes the bytes of the message.

use enmasse_journal::queue::RecordLocation;

/// Bytes of a chunk; a larger message gets a larger chunk.
const CHUNK_BYTES: usize = 128 << 10;
/// Number of empty chunks that are kept for reuse.
const SPARE_CHUNKS: usize = 16;
/// A chunk is vacated when less than one part in this many is in use.
const SPARSE_PART: usize = 4;
/// Bytes before each message: its slot number and its length.
const HEAD_BYTES: usize = 8;

/// Where the bytes of one message are.
#[derive(Debug, Default)]
struct Slot {
    chunk: u32,
    start: u32,
    /// number of messages that had the slot before, so that a location identifies one of them
    generation: u32,
    /// 0: it is free
    holders: u32,
}

#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// bytes in use, heads included
    used: usize,
}

impl Chunk {
    fn is_sparse(&self) -> bool {
        self.used * SPARSE_PART < self.bytes.capacity()
    }

    /// Whether the chunk was allocated for one large message.
    fn is_large(&self) -> bool {
        self.bytes.capacity() > 2 * CHUNK_BYTES
    }
}

/// Messages of one shard that are in memory only.
#[derive(Debug, Default)]
pub(in crate::core) struct Memory {
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    chunks: Vec<Chunk>,
    free_chunks: Vec<u32>,
    filling: Option<u32>,
    spares: Vec<Vec<u8>>,
}

impl Memory {
    /// Stores a message until each of its `holders` has freed it.
    pub(in crate::core) fn put(&mut self, body: &[u8], holders: u32) -> RecordLocation {
        debug_assert!(holders > 0, "a message without holders is never freed");
        let number = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        self.slots[number as usize].holders = holders;
        self.append(number, body);
        RecordLocation { segment: number, offset: self.slots[number as usize].generation, len: body.len() as u32 }
    }

    fn append(&mut self, number: u32, body: &[u8]) {
        let bytes = body.len() + HEAD_BYTES;
        let fits = |chunk: &Chunk| chunk.bytes.len() + bytes <= CHUNK_BYTES;
        let filling = self.filling.filter(|filling| fits(&self.chunks[*filling as usize]));
        let filling = filling.unwrap_or_else(|| self.begin_chunk(bytes));
        self.append_to(filling, number, body);
    }

    fn append_to(&mut self, at: u32, number: u32, body: &[u8]) {
        let chunk = &mut self.chunks[at as usize];
        chunk.bytes.extend_from_slice(&number.to_ne_bytes());
        chunk.bytes.extend_from_slice(&(body.len() as u32).to_ne_bytes());
        let slot = &mut self.slots[number as usize];
        (slot.chunk, slot.start) = (at, chunk.bytes.len() as u32);
        chunk.bytes.extend_from_slice(body);
        chunk.used += body.len() + HEAD_BYTES;
    }

    /// Begins a chunk with room for this many bytes. If the previous one is sparse, its messages
    /// are copied into the new one.
    fn begin_chunk(&mut self, bytes: usize) -> u32 {
        let at = self.free_chunks.pop().unwrap_or_else(|| {
            self.chunks.push(Chunk::default());
            (self.chunks.len() - 1) as u32
        });
        let full = self.filling.replace(at).filter(|full| self.chunks[*full as usize].is_sparse());
        let left = full.map_or(0, |full| self.chunks[full as usize].used);
        let mut room = self.spares.pop().unwrap_or_default();
        room.reserve_exact((bytes + left).max(CHUNK_BYTES));
        self.chunks[at as usize].bytes = room;
        if let Some(full) = full {
            self.vacate(full, |memory, number, body| memory.append_to(at, number, body));
        }
        at
    }

    /// Passes the messages of a chunk to `keep`, and frees the chunk.
    fn vacate(&mut self, at: u32, mut keep: impl FnMut(&mut Self, u32, &[u8])) {
        let Chunk { bytes, .. } = std::mem::take(&mut self.chunks[at as usize]);
        let mut rest = &bytes[..];
        while let Some((head, behind)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let [a, b, c, d, e, f, g, h] = *head;
            let (number, length) = (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]) as usize);
            let start = bytes.len() - behind.len();
            let slot = &self.slots[number as usize];
            if slot.holders > 0 && (slot.chunk, slot.start as usize) == (at, start) {
                keep(self, number, &behind[..length]);
            }
            rest = &behind[length..];
        }
        self.give_up(at, bytes);
    }

    fn give_up(&mut self, at: u32, mut bytes: Vec<u8>) {
        bytes.clear();
        if self.spares.len() < SPARE_CHUNKS && bytes.capacity() <= 2 * CHUNK_BYTES {
            self.spares.push(bytes);
        }
        self.free_chunks.push(at);
    }

    /// Ends the use of a message by one of its holders.
    pub(in crate::core) fn free(&mut self, place: RecordLocation) {
        let slot = self.slots.get_mut(place.segment as usize);
        let held = slot.filter(|slot| slot.holders > 0 && slot.generation == place.offset);
        debug_assert!(held.is_some(), "a body is freed as often as there are holders: {place:?}");
        let Some(slot) = held else { return };
        slot.holders -= 1;
        if slot.holders > 0 {
            return;
        }
        slot.generation = slot.generation.wrapping_add(1);
        self.free_slots.push(place.segment);
        let at = slot.chunk;
        let chunk = &mut self.chunks[at as usize];
        chunk.used -= place.len as usize + HEAD_BYTES;
        if self.filling == Some(at) {
            if !chunk.is_large() {
                // The rest of the chunk is filled first. `begin_chunk` vacates it then.
                if chunk.used == 0 {
                    chunk.bytes.clear();
                }
                return;
            }
            self.filling = None;
        }
        if chunk.used == 0 {
            let bytes = std::mem::take(&mut chunk.bytes);
            self.give_up(at, bytes);
        } else if chunk.is_sparse() {
            self.vacate(at, Self::append);
        }
    }

    /// The bytes of a stored message.
    #[inline]
    pub(in crate::core) fn get(&self, place: RecordLocation) -> Option<&[u8]> {
        let slot = self.slots.get(place.segment as usize)?;
        if slot.holders == 0 || slot.generation != place.offset {
            return None;
        }
        let chunk = self.chunks.get(slot.chunk as usize)?;
        chunk.bytes.get(slot.start as usize..)?.get(..place.len as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Memory {
        fn allocated(&self) -> usize {
            self.chunks.iter().map(|chunk| chunk.bytes.capacity()).sum()
        }
    }

    #[test]
    fn chunks_are_reused_after_their_bodies_are_freed() {
        let mut memory = Memory::default();
        let body = vec![7; CHUNK_BYTES / 4];
        for _ in 0..50 {
            let places: Vec<RecordLocation> = (0..8).map(|_| memory.put(&body, 1)).collect();
            assert!(places.iter().all(|place| memory.get(*place) == Some(&body[..])));
            places.into_iter().for_each(|place| memory.free(place));
        }
        assert!(memory.chunks.len() <= 3, "{} chunks", memory.chunks.len());
        assert!(memory.slots.len() <= 8, "{} slots", memory.slots.len());
    }

    #[test]
    fn shared_body_is_freed_with_its_last_holder() {
        let mut memory = Memory::default();
        let shared = memory.put(b"shared", 3);
        memory.put(&vec![1; CHUNK_BYTES], 1);
        for _ in 0..2 {
            memory.free(shared);
            assert_eq!(memory.get(shared), Some(&b"shared"[..]));
        }
        memory.free(shared);
        assert_eq!(memory.get(shared), None);
        assert_ne!(memory.put(b"shared", 1), shared, "a location is not reused");
        assert_eq!(memory.get(shared), None);
    }

    #[test]
    fn body_larger_than_a_chunk_gets_a_chunk_of_its_own() {
        let mut memory = Memory::default();
        let small = memory.put(b"small", 1);
        let large = memory.put(&vec![1; 3 * CHUNK_BYTES], 1);
        let next = memory.put(b"next", 1);
        assert_eq!(memory.get(large).map(<[u8]>::len), Some(3 * CHUNK_BYTES));
        assert_eq!((memory.get(small), memory.get(next)), (Some(&b"small"[..]), Some(&b"next"[..])));
        memory.free(large);
        assert!(memory.get(large).is_none());
    }

    #[test]
    fn remaining_small_messages_do_not_keep_sparse_chunks() {
        for large in [CHUNK_BYTES / 2, 10 * CHUNK_BYTES] {
            let mut memory = Memory::default();
            let (mut kept, mut gone) = (Vec::new(), Vec::new());
            for number in 0..500_u32 {
                kept.push((number, memory.put(&number.to_be_bytes(), 1)));
                gone.push(memory.put(&vec![7; large], 1));
                if number % 3 == 0 {
                    gone.drain(..).for_each(|place| memory.free(place));
                }
            }
            gone.drain(..).for_each(|place| memory.free(place));
            assert!(memory.allocated() <= 3 * CHUNK_BYTES.max(large + CHUNK_BYTES), "{} bytes", memory.allocated());
            assert!(kept.iter().all(|(number, place)| memory.get(*place) == Some(&number.to_be_bytes()[..])));
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_list(steps in prop::collection::vec((0..3_u8, any::<u16>(), 1..3_u32), 0..400)) {
            let mut memory = Memory::default();
            let mut model = Vec::<(RecordLocation, Vec<u8>, u32)>::new();
            for (number, (kind, size, holders)) in steps.into_iter().enumerate() {
                if kind > 0 || model.is_empty() {
                    let size = if kind == 1 { usize::from(size) } else { usize::from(size % 64) };
                    let body = vec![number as u8; size];
                    model.push((memory.put(&body, holders), body, holders));
                } else {
                    let at = usize::from(size) % model.len();
                    memory.free(model[at].0);
                    model[at].2 -= 1;
                    if model[at].2 == 0 {
                        let (place, ..) = model.swap_remove(at);
                        prop_assert_eq!(memory.get(place), None);
                    }
                }
                for (place, body, _) in &model {
                    prop_assert_eq!(memory.get(*place), Some(&body[..]));
                }
                let used: usize = model.iter().map(|(_, body, _)| body.len() + HEAD_BYTES).sum();
                let filled: usize = memory.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
                prop_assert!(filled <= SPARSE_PART * used + 2 * CHUNK_BYTES, "{} bytes for {}", filled, used);
            }
        }
    }
}
