//! Locations of records, and the space that removals free.

/// The location of a message in the log: 12 bytes, which the queue keeps for each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordLocation {
    /// The segment's number.
    pub segment: u32,
    /// The offset of its frame.
    pub offset: u32,
    /// Bytes of the whole frame.
    pub len: u32,
}

/// Freed messages and bytes by segment.
#[derive(Clone, Debug, Default)]
pub struct Freed {
    list: Vec<FreedIn>,
}

/// Freed messages and bytes of one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreedIn {
    pub(super) segment: u32,
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl Freed {
    /// Frees the message at a location for one queue.
    pub fn add(&mut self, place: RecordLocation) {
        self.put(FreedIn { segment: place.segment, messages: 1, bytes: place.len.into() });
    }

    /// Whether nothing is freed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Removes all entries and keeps the allocation.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Adds all entries of another one.
    pub fn join(&mut self, other: &Self) {
        for &freed in &other.list {
            self.put(freed);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = FreedIn> {
        self.list.iter().copied()
    }

    /// The segments with freed space.
    pub(super) fn segments(&self) -> impl Iterator<Item = u32> {
        self.list.iter().map(|freed| freed.segment)
    }

    fn put(&mut self, freed: FreedIn) {
        // Messages removed together are usually in one segment, so the last entry usually matches.
        match self.list.iter_mut().rev().find(|known| known.segment == freed.segment) {
            Some(known) => {
                known.messages += freed.messages;
                known.bytes += freed.bytes;
            }
            None => self.list.push(freed),
        }
    }
}
