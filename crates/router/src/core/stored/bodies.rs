//! Where the bytes of stored messages are: in memory for good, in memory for a while, or on their way from the disk.

use std::collections::{HashMap, VecDeque};

use enmasse_journal::log::Recent;
use enmasse_journal::queue::Place;

/// The newest part of the log that a shard keeps in memory, in bytes.
const RECENT_BYTES: usize = 16 << 20;
/// Bytes of a chunk of memory for messages that are not on disk; a larger message has a chunk of its own.
const CHUNK_BYTES: usize = 128 << 10;
/// Bytes of bodies from the disk, from when they are asked for until they are needed no more: beyond, an address, or a
/// consumer that looks before it takes, has one message read at a time.
const FETCHED_BYTES: u64 = 32 << 20;
/// Bytes of bodies that nobody needs now and somebody may need again, as blocks of streams are.
const IDLE_BYTES: u64 = 16 << 20;
/// How many these may be.
const IDLE_BODIES: usize = 256;
/// Emptied chunks kept for their room.
const SPARE_CHUNKS: usize = 16;

/// Bodies of one shard.
#[derive(Debug)]
pub(in crate::core) struct Bodies {
    pub(super) recent: Recent,
    /// read back from the disk
    fetched: HashMap<Place, Fetched>,
    /// bytes of those, counted from when they are asked for
    fetched_bytes: u64,
    /// those that nobody needs now, the longest unused first
    idle: VecDeque<Place>,
    idle_bytes: u64,
    /// to be read
    pub(super) wanted: Vec<Place>,
    chunks: Vec<Chunk>,
    filling: Option<u32>,
    free: Vec<u32>,
    spares: Vec<Vec<u8>>,
}

/// A body from the disk.
#[derive(Debug, Default)]
struct Fetched {
    /// how many have asked for it and need it still
    users: u32,
    /// `None` while it is being read
    body: Option<Vec<u8>>,
}

/// Memory for some messages: it goes when all of them have.
#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// and holders of the same message count each
    messages: u32,
}

impl Default for Bodies {
    fn default() -> Self {
        Self {
            recent: Recent::new(RECENT_BYTES),
            fetched: HashMap::new(),
            fetched_bytes: 0,
            idle: VecDeque::new(),
            idle_bytes: 0,
            wanted: Vec::new(),
            chunks: Vec::new(),
            filling: None,
            free: Vec::new(),
            spares: Vec::new(),
        }
    }
}

impl Bodies {
    /// Keeps a body in memory, until it is freed as often as there are `holders`.
    pub(in crate::core) fn put(&mut self, body: &[u8], holders: u32) -> Place {
        let fits = |chunk: &Chunk| chunk.bytes.len() + body.len() <= CHUNK_BYTES;
        let segment = match self.filling {
            Some(segment) if fits(&self.chunks[segment as usize]) => segment,
            _ => self.begin_chunk(body.len()),
        };
        let chunk = &mut self.chunks[segment as usize];
        let offset = chunk.bytes.len() as u32;
        chunk.bytes.extend_from_slice(body);
        chunk.messages += holders;
        Place { segment, offset, len: body.len() as u32 }
    }

    fn begin_chunk(&mut self, bytes: usize) -> u32 {
        if let Some(full) = self.filling.take()
            && self.chunks[full as usize].messages == 0
        {
            self.empty(full);
        }
        let segment = self.free.pop().unwrap_or_else(|| {
            self.chunks.push(Chunk::default());
            (self.chunks.len() - 1) as u32
        });
        let room = self.spares.pop().unwrap_or_default();
        let chunk = &mut self.chunks[segment as usize];
        chunk.bytes = room;
        chunk.bytes.reserve(bytes.max(CHUNK_BYTES));
        self.filling = Some(segment);
        segment
    }

    /// One of the holders of a body that was put in memory needs it no more.
    pub(in crate::core) fn free(&mut self, place: Place) {
        let Some(chunk) = self.chunks.get_mut(place.segment as usize) else { return };
        chunk.messages = chunk.messages.saturating_sub(1);
        if chunk.messages > 0 {
            return;
        }
        if self.filling == Some(place.segment) {
            chunk.bytes.clear();
        } else {
            self.empty(place.segment);
        }
    }

    fn empty(&mut self, segment: u32) {
        let mut bytes = std::mem::take(&mut self.chunks[segment as usize].bytes);
        bytes.clear();
        if self.spares.len() < SPARE_CHUNKS && bytes.capacity() <= 2 * CHUNK_BYTES {
            self.spares.push(bytes);
        }
        self.free.push(segment);
    }

    /// The body of a message, if it is in memory; `on_disk` says whether its place is one in the log.
    #[inline]
    pub(in crate::core) fn get(&self, place: Place, on_disk: bool) -> Option<&[u8]> {
        if !on_disk {
            let chunk = self.chunks.get(place.segment as usize)?;
            return chunk.bytes.get(place.offset as usize..)?.get(..place.len as usize);
        }
        let recent = self.recent.body(place);
        recent.or_else(|| self.fetched.get(&place).and_then(|fetched| fetched.body.as_deref()))
    }

    /// Asks for the body of a message on disk, until [`Bodies::unfetch`] or [`Bodies::release`] is said as often.
    pub(in crate::core) fn fetch(&mut self, place: Place) {
        let mut new = false;
        let fetched = self.fetched.entry(place).or_insert_with(|| {
            new = true;
            Fetched::default()
        });
        fetched.users += 1;
        if fetched.users > 1 {
            return;
        }
        self.fetched_bytes += u64::from(place.len);
        if new {
            self.wanted.push(place);
        } else if let Some(at) = self.idle.iter().position(|idle| *idle == place) {
            self.idle.remove(at);
            self.idle_bytes -= u64::from(place.len);
        }
    }

    /// One less waits for that body; if it was the last the body stays for a while, for whoever asks next.
    pub(in crate::core) fn release(&mut self, place: Place) {
        let Some(fetched) = self.fetched.get_mut(&place).filter(|fetched| fetched.users > 0) else { return };
        fetched.users -= 1;
        if fetched.users > 0 {
            return;
        }
        let bytes = u64::from(place.len);
        self.fetched_bytes -= bytes;
        self.idle_bytes += bytes;
        self.idle.push_back(place);
        while self.idle_bytes > IDLE_BYTES || self.idle.len() > IDLE_BODIES {
            let Some(oldest) = self.idle.pop_front() else { return };
            self.idle_bytes -= u64::from(oldest.len);
            self.fetched.remove(&oldest);
        }
    }

    /// Whether nobody needs a body that is here still.
    pub(in crate::core) fn is_idle(&self, place: Place) -> bool {
        self.fetched.get(&place).is_some_and(|fetched| fetched.users == 0)
    }

    /// A body that was asked for has come.
    pub(super) fn fetched(&mut self, place: Place, body: Vec<u8>) {
        if let Some(fetched) = self.fetched.get_mut(&place) {
            fetched.body = Some(body);
        }
    }

    /// Whether a body was asked for and has not come.
    pub(super) fn is_pending(&self, place: Place) -> bool {
        self.fetched.get(&place).is_some_and(|fetched| fetched.body.is_none())
    }

    /// As much was asked for as may be.
    pub(in crate::core) fn is_full(&self) -> bool {
        self.fetched_bytes >= FETCHED_BYTES
    }

    pub(super) fn fetched_bytes(&self) -> u64 {
        self.fetched_bytes
    }

    /// Its message has gone from a queue: nobody of it asks for the body again.
    #[inline]
    pub(super) fn forget(&mut self, place: Place) {
        self.recent.forget(place);
    }

    /// One less waits for that body.
    pub(super) fn unfetch(&mut self, place: Place) {
        let Some(fetched) = self.fetched.get_mut(&place) else { return };
        if fetched.users == 1 {
            self.fetched.remove(&place);
            self.fetched_bytes -= u64::from(place.len);
        } else {
            fetched.users = fetched.users.saturating_sub(1);
        }
    }

    /// What lay at a place is needed no more: nobody asks for it again.
    pub(in crate::core) fn forget_idle(&mut self, place: Place) {
        self.recent.forget(place);
        if self.is_idle(place) {
            self.fetched.remove(&place);
            self.idle.retain(|idle| *idle != place);
            self.idle_bytes -= u64::from(place.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_when_its_messages_have_gone() {
        let mut bodies = Bodies::default();
        let body = vec![7; CHUNK_BYTES / 4];
        for _ in 0..50 {
            let places: Vec<Place> = (0..8).map(|_| bodies.put(&body, 1)).collect();
            assert!(places.iter().all(|place| bodies.get(*place, false) == Some(&body[..])));
            places.into_iter().for_each(|place| bodies.free(place));
        }
        assert!(bodies.chunks.len() <= 3, "{} chunks", bodies.chunks.len());
    }

    #[test]
    fn a_shared_body_stays_for_the_last_of_its_holders() {
        let mut bodies = Bodies::default();
        let shared = bodies.put(b"shared", 3);
        bodies.put(&vec![1; CHUNK_BYTES], 1);
        for _ in 0..2 {
            bodies.free(shared);
            assert_eq!(bodies.get(shared, false), Some(&b"shared"[..]));
        }
        bodies.free(shared);
        assert_eq!(bodies.get(shared, false), None);
    }

    #[test]
    fn a_message_larger_than_a_chunk_has_its_own() {
        let mut bodies = Bodies::default();
        let small = bodies.put(b"small", 1);
        let large = bodies.put(&vec![1; 3 * CHUNK_BYTES], 1);
        let next = bodies.put(b"next", 1);
        assert_eq!(bodies.get(large, false).map(<[u8]>::len), Some(3 * CHUNK_BYTES));
        assert_eq!((bodies.get(small, false), bodies.get(next, false)), (Some(&b"small"[..]), Some(&b"next"[..])));
        bodies.free(large);
        assert!(bodies.get(large, false).is_none());
    }
}
