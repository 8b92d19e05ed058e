//! Locations of records, and the bytes that are obsolete there.

/// Where a message lies in the log: 12 bytes, kept by the queue for each of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordLocation {
    /// The segment's number.
    pub segment: u32,
    /// Where its frame begins.
    pub offset: u32,
    /// Bytes of the whole frame.
    pub len: u32,
}

/// How much is no longer needed, segment by segment.
#[derive(Clone, Debug, Default)]
pub struct Freed {
    list: Vec<FreedIn>,
}

/// How much is no longer needed in one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreedIn {
    pub(super) segment: u32,
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl Freed {
    /// One queue no longer needs the message at this place.
    pub fn add(&mut self, place: RecordLocation) {
        self.put(FreedIn { segment: place.segment, messages: 1, bytes: place.len.into() });
    }

    /// Nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Forget all, keep the room.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Adds everything of another one.
    pub fn join(&mut self, other: &Self) {
        for &freed in &other.list {
            self.put(freed);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = FreedIn> {
        self.list.iter().copied()
    }

    /// The segments it is about.
    pub(super) fn segments(&self) -> impl Iterator<Item = u32> {
        self.list.iter().map(|freed| freed.segment)
    }

    fn put(&mut self, freed: FreedIn) {
        // Messages that go together mostly lie together: the last one is nearly always the right
        // one.
        match self.list.iter_mut().rev().find(|known| known.segment == freed.segment) {
            Some(known) => {
                known.messages += freed.messages;
                known.bytes += freed.bytes;
            }
            None => self.list.push(freed),
        }
    }
}
