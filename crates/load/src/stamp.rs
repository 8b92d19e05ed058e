//! The first bytes of every body: magic, run, sender, sequence number, and due time.

use std::time::Instant;

/// Bytes of a stamp.
pub(super) const SIZE: usize = 28;
const MAGIC: [u8; 4] = *b"BENC";

/// The stamp of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// distinguishes this run's messages from those left by another
    pub(super) run: u32,
    /// number of the sending link
    pub(super) sender: u32,
    /// from 0 for each sender
    pub(super) sequence: u64,
    /// nanoseconds of the run's `Clock`
    pub(super) due: u64,
}

impl Stamp {
    #[inline]
    pub(super) fn put(&self, body: &mut [u8]) {
        body[..4].copy_from_slice(&MAGIC);
        body[4..8].copy_from_slice(&self.run.to_be_bytes());
        body[8..12].copy_from_slice(&self.sender.to_be_bytes());
        body[12..20].copy_from_slice(&self.sequence.to_be_bytes());
        body[20..28].copy_from_slice(&self.due.to_be_bytes());
    }

    /// `None`: not a message of the load tool.
    #[inline]
    pub(super) fn of(body: &[u8]) -> Option<Self> {
        let stamp = body.first_chunk::<SIZE>()?;
        if stamp[..4] != MAGIC {
            return None;
        }
        let word = |at: usize| u32::from_be_bytes([stamp[at], stamp[at + 1], stamp[at + 2], stamp[at + 3]]);
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        Some(Self { run: word(4), sender: word(8), sequence: long(12), due: long(20) })
    }
}

/// Nanoseconds since the run began; never 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    #[inline]
    pub(super) fn now(self) -> u64 {
        self.origin.elapsed().as_nanos() as u64 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::{SIZE, Stamp};

    #[test]
    fn load_stamp_round_trips() {
        let stamp = Stamp { run: 7, sender: u32::MAX, sequence: 1 << 40, due: u64::MAX - 1 };
        let mut body = [9; SIZE + 1];
        stamp.put(&mut body);
        assert_eq!(Stamp::of(&body), Some(stamp));
        assert_eq!(Stamp::of(&body[..SIZE - 1]), None);
        body[0] = 0;
        assert_eq!(Stamp::of(&body), None);
    }
}
