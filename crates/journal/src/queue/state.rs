//! State that outlives the messages: the history by which duplicates are detected.

/// A key and its value, journaled with a message; the last value of a key applies. Passed to
/// [`restore`](super::Queue::restore), markers let the queue detect duplicates after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// the highest sequence number of a numbered producer
    Producer {
        /// digest of its name
        name: u128,
        /// highest number stored
        sequence: u64,
    },
    /// a remembered message id
    MessageId {
        /// below `duplicates.ids`: slots are reused in turn, which bounds their number
        slot: u32,
        /// digest
        id: u128,
        /// milliseconds since 1970
        at: u64,
    },
    /// the tag of a delivery that its sender has not settled; the caller uses and removes it
    Tag {
        /// digest of the tag and its link
        tag: u128,
        /// digest of its link
        link: u64,
        /// seconds for which it is kept after the link has detached
        keep_s: u32,
    },
}

/// Bytes of the key of a [`Marker`].
pub const MARKER_KEY_BYTES: usize = 17;
/// Bytes of the value of a [`Marker`].
pub const MARKER_VALUE_BYTES: usize = 24;

const PRODUCER: u8 = 1;
const MESSAGE_ID: u8 = 2;
const TAG: u8 = 3;

impl Marker {
    /// Its key: a letter for the kind, then the producer's digest, the slot, or the tag's digest,
    /// little-endian.
    #[must_use]
    pub fn key(&self) -> [u8; MARKER_KEY_BYTES] {
        let (kind, number) = match self {
            Self::Producer { name, .. } => (PRODUCER, *name),
            Self::MessageId { slot, .. } => (MESSAGE_ID, u128::from(*slot)),
            Self::Tag { tag, .. } => (TAG, *tag),
        };
        let mut key = [kind; MARKER_KEY_BYTES];
        key[1..].copy_from_slice(&number.to_le_bytes());
        key
    }

    /// Its value: the sequence, time and digest, or seconds and link, little-endian.
    #[must_use]
    pub fn value(&self) -> [u8; MARKER_VALUE_BYTES] {
        let (number, digest) = match self {
            Self::Producer { sequence, .. } => (*sequence, 0),
            Self::MessageId { id, at, .. } => (*at, *id),
            Self::Tag { link, keep_s, .. } => (u64::from(*keep_s), u128::from(*link)),
        };
        let mut value = [0; MARKER_VALUE_BYTES];
        value[..8].copy_from_slice(&number.to_le_bytes());
        value[8..].copy_from_slice(&digest.to_le_bytes());
        value
    }

    /// The marker of a key and its value; `None` for an unknown kind or length.
    #[must_use]
    pub fn decode(key: &[u8], value: &[u8]) -> Option<Self> {
        if (key.len(), value.len()) != (MARKER_KEY_BYTES, MARKER_VALUE_BYTES) {
            return None;
        }
        let wide = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte));
        let (number, digest) = (wide(&value[..8]) as u64, wide(&value[8..]));
        match key[0] {
            PRODUCER => Some(Self::Producer { name: wide(&key[1..]), sequence: number }),
            MESSAGE_ID => Some(Self::MessageId { slot: wide(&key[1..]) as u32, id: digest, at: number }),
            TAG => Some(Self::Tag { tag: wide(&key[1..]), link: digest as u64, keep_s: number as u32 }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_round_trip() {
        let producer = Marker::Producer { name: u128::MAX - 5, sequence: u64::MAX };
        let id = Marker::MessageId { slot: 70_000, id: 1 << 99, at: 1_760_000_000_000 };
        let tag = Marker::Tag { tag: u128::MAX / 3, link: u64::MAX - 1, keep_s: 300 };
        for marker in [producer, id, tag] {
            assert_eq!(Marker::decode(&marker.key(), &marker.value()), Some(marker));
        }
        assert_eq!(Marker::decode(&[9; MARKER_KEY_BYTES], &id.value()), None);
        assert_eq!(Marker::decode(&[], &[]), None);
        assert_ne!(producer.key(), id.key());
    }
}
