//! Bodies of stored messages: in memory permanently, in memory temporarily, or being fetched from
//! disk.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use enmasse_journal::log::{self, Recent, SHARED_BYTES};
use enmasse_journal::queue::RecordLocation;

use super::super::{Links, Router};
use super::memory::Memory;
use super::reads::{Read, Retries};

/// Bytes of the newest part of the log that a shard keeps in memory.
const RECENT_BYTES: usize = 16 << 20;
/// Bytes of fetched bodies from their request until their release. Beyond, each address and each
/// selecting consumer fetches one message at a time.
const FETCHED_BYTES: u64 = 16 << 20;
/// Bytes of idle bodies that are kept for later requests: blocks of streams, and messages that were
/// fetched for a consumer without room.
const IDLE_BYTES: u64 = 16 << 20;
/// Number of idle bodies.
const IDLE_BODIES: usize = 16 << 10;
/// Stale entries of the idle list that are tolerated before it is rebuilt.
const IDLE_SLACK: usize = 1024;

/// Bodies of one shard.
#[derive(Debug)]
pub(in crate::core) struct Bodies {
    pub(in crate::core) recent: Recent,
    /// read back from the disk
    fetched: HashMap<RecordLocation, Fetched, BuildHasherDefault<LocationHasher>>,
    /// bytes of the bodies in use, counted from their request
    fetched_bytes: u64,
    /// idle bodies, least recently used first, by idle number; an entry is stale if its body has a
    /// newer number or is in use
    idle: VecDeque<(u64, RecordLocation)>,
    idle_count: usize,
    idle_bytes: u64,
    /// the last idle number
    last_idle_number: u64,
    /// locations to be read
    wanted: Vec<RecordLocation>,
    /// reads that failed
    retries: Retries,
    memory: Memory,
}

/// A body from the disk.
#[derive(Debug, Default)]
struct Fetched {
    /// number of users that have not released it
    users: u32,
    /// its idle number
    idle_number: u64,
    content: Content,
}

/// The state of a requested body.
#[derive(Debug, Default)]
enum Content {
    /// it is requested
    #[default]
    Requested,
    /// the read failed and is retried; `overdue`: for so long that other messages may overtake it
    Unreadable {
        overdue: bool,
    },
    /// it is damaged
    Damaged,
    Body(Arc<Vec<u8>>),
}

impl Fetched {
    fn body(&self) -> Option<&[u8]> {
        if let Content::Body(body) = &self.content { Some(&body[..]) } else { None }
    }
}

/// Locations are internal numbers, so clients cannot provoke collisions.
#[derive(Debug, Default)]
struct LocationHasher(u64);

impl Hasher for LocationHasher {
    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

impl Default for Bodies {
    fn default() -> Self {
        Self {
            recent: Recent::new(RECENT_BYTES),
            fetched: HashMap::default(),
            fetched_bytes: 0,
            idle: VecDeque::new(),
            idle_count: 0,
            idle_bytes: 0,
            last_idle_number: 0,
            wanted: Vec::new(),
            retries: Retries::default(),
            memory: Memory::default(),
        }
    }
}

impl Bodies {
    /// Stores a body in memory until each of its `holders` has freed it.
    pub(in crate::core) fn put(&mut self, body: &[u8], holders: u32) -> RecordLocation {
        self.memory.put(body, holders)
    }

    /// Ends the use of a body in memory by one of its holders.
    pub(in crate::core) fn free(&mut self, place: RecordLocation) {
        self.memory.free(place);
    }

    /// The body of a message, if it is in memory. `on_disk`: the location is one in the log.
    #[inline]
    pub(in crate::core) fn get(&self, place: RecordLocation, on_disk: bool) -> Option<&[u8]> {
        if !on_disk {
            return self.memory.get(place);
        }
        let recent = self.recent.body(place);
        recent.or_else(|| self.fetched.get(&place).and_then(Fetched::body))
    }

    /// The shared memory of a large fetched body, which others may keep instead of a copy.
    #[inline]
    pub(in crate::core) fn shared(&self, place: RecordLocation, on_disk: bool) -> Option<&Arc<Vec<u8>>> {
        if !on_disk || (place.len as usize) < SHARED_BYTES {
            return None;
        }
        let fetched = || match &self.fetched.get(&place)?.content {
            Content::Body(body) => Some(body),
            _ => None,
        };
        self.recent.shared(place).or_else(fetched)
    }

    /// Whether a requested body is damaged.
    #[cold]
    pub(in crate::core) fn is_damaged(&self, place: RecordLocation) -> bool {
        self.fetched.get(&place).is_some_and(|fetched| matches!(fetched.content, Content::Damaged))
    }

    /// Whether no read is needed for a message: its body is in memory, or known to be damaged.
    pub(in crate::core) fn is_known(&self, place: RecordLocation, on_disk: bool) -> bool {
        self.get(place, on_disk).is_some() || on_disk && self.is_damaged(place)
    }

    /// Whether a body has been unreadable for so long that other messages may overtake it.
    pub(in crate::core) fn is_overdue(&self, place: RecordLocation) -> bool {
        let content = self.fetched.get(&place).map(|fetched| &fetched.content);
        matches!(content, Some(Content::Unreadable { overdue: true }))
    }

    /// Requests the body of a message on disk, until [`Bodies::release_body`] or
    /// [`Bodies::release`] is called as often.
    pub(in crate::core) fn fetch(&mut self, place: RecordLocation) {
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
            match self.retries.overdue_if_paused(place) {
                Some(overdue) => fetched.content = Content::Unreadable { overdue },
                None => self.wanted.push(place),
            }
        } else {
            self.idle_count -= 1;
            self.idle_bytes -= u64::from(place.len);
        }
    }

    /// Ends one use of a body. After the last one it remains in memory as idle for the next
    /// request.
    pub(in crate::core) fn release(&mut self, place: RecordLocation) {
        // It was in memory when it was looked for, and was not requested.
        let Some(fetched) = self.fetched.get_mut(&place).filter(|fetched| fetched.users > 0) else { return };
        fetched.users -= 1;
        if fetched.users > 0 {
            return;
        }
        self.last_idle_number += 1;
        fetched.idle_number = self.last_idle_number;
        self.idle.push_back((self.last_idle_number, place));
        self.idle_count += 1;
        let bytes = u64::from(place.len);
        self.fetched_bytes -= bytes;
        self.idle_bytes += bytes;
        while self.idle_bytes > IDLE_BYTES || self.idle_count > IDLE_BODIES {
            let Some((idle_number, oldest)) = self.idle.pop_front() else { return };
            if self.is_idle_under(oldest, idle_number) {
                self.evict_idle(oldest);
            }
        }
        if self.idle.len() > 2 * self.idle_count + IDLE_SLACK {
            let mut idle = std::mem::take(&mut self.idle);
            idle.retain(|(idle_number, place)| self.is_idle_under(*place, *idle_number));
            self.idle = idle;
        }
    }

    /// Ends one use of a body that will be requested again when its consumer has room. After the
    /// last use it remains as idle, unless idle bodies have reached their bound: these will be
    /// requested before it.
    pub(in crate::core) fn retain_body(&mut self, place: RecordLocation) {
        if self.idle_bytes + u64::from(place.len) > IDLE_BYTES || self.idle_count >= IDLE_BODIES {
            self.release_body(place);
        } else {
            self.release(place);
        }
    }

    fn is_idle_under(&self, place: RecordLocation, idle_number: u64) -> bool {
        self.fetched.get(&place).is_some_and(|fetched| fetched.users == 0 && fetched.idle_number == idle_number)
    }

    fn evict_idle(&mut self, place: RecordLocation) {
        if self.is_idle(place) {
            self.fetched.remove(&place);
            self.idle_count -= 1;
            self.idle_bytes -= u64::from(place.len);
        }
    }

    /// Whether a body in memory is idle.
    pub(in crate::core) fn is_idle(&self, place: RecordLocation) -> bool {
        self.fetched.get(&place).is_some_and(|fetched| fetched.users == 0)
    }

    /// Records the result of a read.
    pub(in crate::core) fn fetched(&mut self, place: RecordLocation, read: Read) {
        let content = match read {
            Read::Body(body) => Content::Body(Arc::new(body)),
            Read::Damaged => Content::Damaged,
            Read::Unreadable => {
                let requested = &self.fetched;
                let overdue = requested.contains_key(&place)
                    && self.retries.failed(place, |place| requested.contains_key(&place));
                Content::Unreadable { overdue }
            }
        };
        if !matches!(content, Content::Unreadable { .. }) {
            self.retries.forget(place);
        }
        if let Some(fetched) = self.fetched.get_mut(&place) {
            fetched.content = content;
        }
    }

    /// Requests unreadable bodies again whose pause has passed.
    pub(in crate::core) fn retry_reads(&mut self) {
        for place in self.retries.take_due() {
            if let Some(fetched) = self.fetched.get_mut(&place)
                && matches!(fetched.content, Content::Unreadable { .. })
            {
                fetched.content = Content::Requested;
                self.wanted.push(place);
            }
        }
    }

    pub(in crate::core) fn set_time(&mut self, now_ms: u64) {
        self.retries.set_time(now_ms);
    }

    /// The time of the next retry of a read.
    pub(in crate::core) fn next_retry(&self) -> Option<u64> {
        self.retries.next_ms()
    }

    /// Whether a body was requested and is neither read nor damaged.
    pub(in crate::core) fn is_pending(&self, place: RecordLocation) -> bool {
        let content = self.fetched.get(&place).map(|fetched| &fetched.content);
        matches!(content, Some(Content::Requested | Content::Unreadable { .. }))
    }

    /// Whether the bound of fetched bytes is reached.
    pub(in crate::core) fn is_full(&self) -> bool {
        self.fetched_bytes >= FETCHED_BYTES
    }

    pub(in crate::core) fn fetched_bytes(&self) -> u64 {
        self.fetched_bytes
    }

    /// Forgets a location whose record was removed from its queue or stream.
    #[inline]
    pub(in crate::core) fn forget(&mut self, place: RecordLocation) {
        self.recent.forget(place);
        self.retries.forget(place);
        if self.idle_count > 0 {
            self.evict_idle(place);
        }
    }

    /// Ends one use of a body, and drops it after the last one.
    pub(in crate::core) fn release_body(&mut self, place: RecordLocation) {
        let Some(fetched) = self.fetched.get_mut(&place) else { return };
        if fetched.users == 1 {
            self.fetched.remove(&place);
            self.fetched_bytes -= u64::from(place.len);
        } else {
            fetched.users = fetched.users.saturating_sub(1);
        }
    }
}

impl Router {
    /// Passes results of the reads of [`Router::take_wanted`]. A damaged message is counted and
    /// removed at its turn; one that cannot be read now is requested again after a pause.
    pub fn fetched(&mut self, reads: impl IntoIterator<Item = (log::RecordLocation, Read)>, links: &mut impl Links) {
        for (place, read) in reads {
            self.storage.bodies.fetched(place, read);
        }
        self.operations_read();
        self.divert_fetched(links);
        for key in std::mem::take(&mut self.schedule.awaiting) {
            let Some(address) = self.addresses.get_mut(key) else { continue };
            address.treatment.end_wait();
            self.process(key, links);
        }
    }

    /// Takes the locations to read. Their bodies are passed to [`Router::fetched`].
    pub fn take_wanted(&mut self) -> Vec<log::RecordLocation> {
        std::mem::take(&mut self.storage.bodies.wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_disk(number: u32, len: u32) -> RecordLocation {
        RecordLocation { segment: 1 + number % 3, offset: number, len }
    }

    fn fetch(bodies: &mut Bodies, place: RecordLocation) {
        bodies.fetch(place);
        if bodies.is_pending(place) {
            bodies.fetched(place, Read::Body(vec![7; place.len as usize]));
        }
    }

    #[test]
    fn retained_body_is_not_fetched_again() {
        let mut bodies = Bodies::default();
        let places: Vec<RecordLocation> = (0..3).map(|number| on_disk(number, 1000)).collect();
        places.iter().for_each(|place| fetch(&mut bodies, *place));
        assert_eq!(std::mem::take(&mut bodies.wanted).len(), 3);
        places.iter().for_each(|place| bodies.retain_body(*place));
        assert_eq!((bodies.fetched_bytes(), bodies.idle_bytes, bodies.idle_count), (0, 3000, 3));
        fetch(&mut bodies, places[1]);
        assert!(bodies.wanted.is_empty() && bodies.get(places[1], true).is_some());
        bodies.release_body(places[1]);
        assert!(bodies.get(places[1], true).is_none(), "a released body is dropped");
        bodies.forget(places[0]);
        assert!(bodies.get(places[0], true).is_none() && bodies.get(places[2], true).is_some());
        assert_eq!((bodies.fetched.len(), bodies.idle_bytes, bodies.idle_count), (1, 1000, 1));
    }

    #[test]
    fn bodies_that_are_idle_are_bounded() {
        let mut bodies = Bodies::default();
        let big = (IDLE_BYTES / 4) as u32;
        for number in 0..6 {
            fetch(&mut bodies, on_disk(number, big));
            bodies.retain_body(on_disk(number, big));
        }
        let kept = |bodies: &Bodies| -> Vec<bool> {
            (0..6).map(|number| bodies.get(on_disk(number, big), true).is_some()).collect()
        };
        assert_eq!(kept(&bodies), [true, true, true, true, false, false], "the first ones retained stay");
        fetch(&mut bodies, on_disk(5, big));
        bodies.release(on_disk(5, big));
        assert_eq!(kept(&bodies), [false, true, true, true, false, true], "the least recently used one is evicted");
        for number in 0..100 * IDLE_SLACK as u32 {
            fetch(&mut bodies, on_disk(number, 1));
            bodies.release(on_disk(number, 1));
            fetch(&mut bodies, on_disk(number, 1));
            bodies.retain_body(on_disk(number, 1));
        }
        assert!(bodies.idle_count <= IDLE_BODIES && bodies.idle_bytes <= IDLE_BYTES);
        assert!(
            bodies.idle.len() <= 2 * bodies.idle_count + IDLE_SLACK + 1 && bodies.fetched.len() == bodies.idle_count
        );
    }
}
