//! The shard of a connection: decided once, at its first link, from published loads. Pure.

use std::sync::atomic::{AtomicU32, Ordering};

/// The load of a shard, published to the others.
#[derive(Debug, Default)]
pub struct Load {
    connections: AtomicU32,
    busy_permille: AtomicU32,
}

impl Load {
    /// Set by the driver: the busy share of its thread in its last interval, 0 to 1000.
    pub fn set_busy_permille(&self, busy: u32) {
        self.busy_permille.store(busy, Ordering::Relaxed);
    }

    /// The number of connections of the shard.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(super) fn set_connections(&self, count: u32) {
        self.connections.store(count, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> LoadNow {
        LoadNow { connections: self.connections(), busy_permille: self.busy_permille.load(Ordering::Relaxed) }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LoadNow {
    pub(super) connections: u32,
    pub(super) busy_permille: u32,
}

/// A shard at least this busy accepts no connection because of its addresses.
const BUSY_PERMILLE_MAX: u32 = 700;
/// A connection moves to a home that has at most this many times the connections of its own shard,
const CONNECTIONS_RATIO_MAX: u32 = 4;
/// plus this number.
const CONNECTIONS_SLACK: u32 = 16;

/// Whether a connection moves to the home of its first link's address. Messages that do not cross
/// threads are the cheapest and fastest, but a busy home gets no further connections.
pub(super) fn moves(here: LoadNow, home: LoadNow) -> bool {
    let has_time = home.busy_permille < BUSY_PERMILLE_MAX || home.busy_permille <= here.busy_permille;
    has_time && home.connections <= here.connections * CONNECTIONS_RATIO_MAX + CONNECTIONS_SLACK
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(connections: u32, busy_permille: u32) -> LoadNow {
        LoadNow { connections, busy_permille }
    }

    #[test]
    fn connection_moves_to_the_home_of_its_address() {
        assert!(moves(load(1, 0), load(1, 0)));
        assert!(moves(load(1, 0), load(16, 500)));
    }

    #[test]
    fn connection_does_not_move_to_a_home_busier_than_its_own_shard() {
        assert!(!moves(load(1, 100), load(1, 900)));
        assert!(moves(load(1, 950), load(1, 900)));
    }

    #[test]
    fn connection_does_not_move_to_a_home_with_far_more_connections() {
        assert!(!moves(load(10, 0), load(57, 0)));
        assert!(moves(load(10, 0), load(56, 0)));
    }
}
