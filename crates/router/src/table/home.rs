//! The home of an address: the shard that makes its decisions.
//!
//! A stored address has a permanent home. The home of a direct address is the shard of its first
//! link, until its last link has left: then it has no state, and the shard of the next first link is
//! its home. Addresses therefore follow their clients, and an unused one binds no shard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARD: u64 = u16::MAX as u64;
const PERMANENT: u64 = 1 << 16;
/// One attachment.
const ATTACHMENT: u64 = 1 << 32;

/// The home of an address. All entries of the address share it, so that a new table cannot assign a
/// second home. Its number has the shard in bits 0 to 15, bit 16 if it is permanent, and the number
/// of attachments from bit 32.
#[derive(Clone, Debug)]
pub struct Home(Arc<AtomicU64>);

/// An attachment to an address, which keeps its home where it is. It ends after the last command of
/// the home for the attachment.
#[derive(Debug)]
pub struct Occupancy {
    shard: u16,
    /// of a home that is not permanent
    home: Option<Home>,
}

impl Home {
    pub(super) fn none() -> Self {
        Self(Arc::default())
    }

    pub(super) fn permanent(shard: u16) -> Self {
        Self(Arc::new(AtomicU64::new(u64::from(shard) | PERMANENT)))
    }

    /// The shard, if there is one now.
    #[must_use]
    pub fn get(&self) -> Option<u16> {
        // Relaxed: no other memory depends on the number; rings order commands between shards.
        Self::shard_of(self.0.load(Ordering::Relaxed))
    }

    /// Makes the home permanent: the one in force or, if there is none, `shard`. Returns it.
    #[must_use]
    pub fn claim(&self, shard: u16) -> u16 {
        let claimed = |state| {
            let home = Self::shard_of(state).unwrap_or(shard);
            Some(state & !SHARD | u64::from(home) | PERMANENT)
        };
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, claimed) {
            Ok(before) | Err(before) => Self::shard_of(before).unwrap_or(shard),
        }
    }

    /// Attaches a link of this shard, which becomes the home if there is none.
    #[must_use]
    pub fn occupy(&self, shard: u16) -> Occupancy {
        let occupied = |state| {
            let home = Self::shard_of(state).unwrap_or(shard);
            (state & PERMANENT == 0).then(|| (state & !SHARD | u64::from(home)) + ATTACHMENT)
        };
        // Acquire: the last link has left the former home.
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, occupied) {
            Ok(before) => {
                Occupancy { shard: Self::shard_of(before).unwrap_or(shard), home: Some(Self(Arc::clone(&self.0))) }
            }
            Err(permanent) => Occupancy { shard: (permanent & SHARD) as u16, home: None },
        }
    }

    fn shard_of(state: u64) -> Option<u16> {
        (state >= PERMANENT).then_some((state & SHARD) as u16)
    }
}

impl Occupancy {
    /// The home of the address.
    #[must_use]
    pub const fn shard(&self) -> u16 {
        self.shard
    }
}

impl Drop for Occupancy {
    fn drop(&mut self) {
        if let Some(Home(state)) = &self.home {
            let before = state.fetch_sub(ATTACHMENT, Ordering::AcqRel);
            debug_assert!(before >= ATTACHMENT, "an attachment leaves once");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_home_of_its_first_link_until_its_last_has_left() {
        let home = Home::none();
        assert_eq!(home.get(), None);
        let first = home.occupy(3);
        let second = home.clone().occupy(1);
        assert_eq!([first.shard(), second.shard()], [3, 3]);
        drop(first);
        assert_eq!(home.get(), Some(3), "a link is left");
        drop(second);
        assert_eq!(home.get(), None);
        assert_eq!(home.occupy(1).shard(), 1, "the next first link takes it to its own shard");
    }

    #[test]
    fn permanent_home_stays_with_and_without_links() {
        for first in [None, Some(2)] {
            let home = Home::none();
            let link = first.map(|shard| home.occupy(shard));
            let expected = first.unwrap_or(5);
            assert_eq!(home.claim(5), expected);
            drop(link);
            assert_eq!([home.claim(1), home.occupy(1).shard()], [expected; 2]);
            assert_eq!(home.get(), Some(expected));
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "shards race for an address on their own threads")]
    fn shards_that_race_for_an_address_agree() {
        let home = Home::none();
        std::thread::scope(|threads| {
            for shard in 0..4 {
                let home = &home;
                threads.spawn(move || {
                    for _ in 0..1_000 {
                        let one = home.occupy(shard);
                        assert_eq!(home.occupy(shard ^ 1).shard(), one.shard());
                    }
                });
            }
        });
        assert_eq!(home.get(), None);
    }
}
