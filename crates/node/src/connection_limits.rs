//! How many may be connected: in all, from one source address, and without having finished their
//! handshakes.
//!
//! A [`Claim`] is a connection's share of these bounds. It travels with the connection and gives
//! everything back when it is dropped, whichever thread that happens on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use enmasse_amqp::time::Time;

use crate::checks::Host;
use crate::fair_quota::FairQuota;

/// Connections of one listener that have not come as far as AMQP's open. At the bound the listener
/// accepts no more.
pub(crate) const HALF_OPEN_MAX: usize = 1024;
/// From so many on a source address with more than its share of them loses those that stay silent.
const CROWDED: usize = HALF_OPEN_MAX / 2;
/// How long a half-open connection may be silent on a crowded listener. The peer of a connection
/// that makes progress answers within a round trip.
const SILENCE_MS: u64 = 3_000;
/// How often half-open connections are checked.
const LOOK_MS: u64 = 1_000;
/// One source address may have so many times as many connections as are free: 8/9 of all if it is
/// alone, and some place is left for every other address. A proxy or a load test on one machine has
/// most of the node.
const SHARE_OF_FREE: usize = 8;

/// The connections of a node.
#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    /// the bound of all
    pub(crate) count_max: usize,
    count: AtomicUsize,
    hosts: Mutex<FairQuota<Host>>,
}

impl ConnectionLimits {
    pub(crate) fn new(count_max: usize) -> Arc<Self> {
        let hosts = Mutex::new(FairQuota::sharing(count_max, SHARE_OF_FREE));
        Arc::new(Self { count_max, count: AtomicUsize::new(0), hosts })
    }

    /// Open connections.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether there is room for one more connection from any address.
    pub(crate) fn has_room(&self) -> bool {
        self.count() < self.count_max
    }

    /// A place for a connection of `host` (`None`: within this process) at a listener; `None` if
    /// that source address has its share.
    pub(crate) fn claim(self: &Arc<Self>, host: Option<Host>, at: Option<(&Arc<HalfOpen>, Time)>) -> Option<Claim> {
        if host.is_some_and(|host| !lock(&self.hosts).take(host)) {
            return None;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let greeting = host.zip(at).map(|(host, (listener, now))| {
            listener.enter(host);
            (Arc::clone(listener), now.plus_millis(SILENCE_MS))
        });
        Some(Claim { of: Arc::clone(self), host, greeting })
    }
}

/// The half-open connections of one listener, by source address.
#[derive(Debug, Default)]
pub(crate) struct HalfOpen(Mutex<HashMap<Host, usize>>);

impl HalfOpen {
    fn enter(&self, host: Host) {
        *lock(&self.0).entry(host).or_default() += 1;
    }

    fn leave(&self, host: Host) {
        let mut hosts = lock(&self.0);
        if let Some(count) = hosts.get_mut(&host) {
            *count -= 1;
            if *count == 0 {
                hosts.remove(&host);
            }
        }
    }

    /// Whether the listener has as many as it may.
    pub(crate) fn is_full(&self) -> bool {
        lock(&self.0).values().sum::<usize>() >= HALF_OPEN_MAX
    }

    /// Whether there are many, and an equal share of them would be less than `host` has.
    fn is_crowded_by(&self, host: Host) -> bool {
        let hosts = lock(&self.0);
        let total = hosts.values().sum::<usize>();
        total >= CROWDED && hosts.get(&host).is_some_and(|count| count * hosts.len() >= total)
    }
}

/// A connection's share of the bounds.
#[derive(Debug)]
pub(crate) struct Claim {
    of: Arc<ConnectionLimits>,
    host: Option<Host>,
    /// until it is open: its listener, and when to look at it again
    greeting: Option<(Arc<HalfOpen>, Time)>,
}

impl Claim {
    /// The connection is open: it no longer counts as half-open for its listener.
    pub(crate) fn opened(&mut self) {
        if let (Some(host), Some((listener, _))) = (self.host, self.greeting.take()) {
            listener.leave(host);
        }
    }

    /// When to look whether it has to go; `None`: it is open.
    pub(crate) fn due(&self) -> Option<Time> {
        self.greeting.as_ref().map(|(_, at)| *at)
    }

    /// Whether it has to make room, if it is silent. If not, it is checked again later.
    pub(crate) fn makes_room(&mut self, now: Time, silent: bool) -> bool {
        let (Some(host), Some((listener, at))) = (self.host, &mut self.greeting) else { return false };
        *at = now.plus_millis(LOOK_MS);
        silent && listener.is_crowded_by(host)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.opened();
        if let Some(host) = self.host {
            lock(&self.of.hosts).give_back(&host);
        }
        self.of.count.fetch_sub(1, Ordering::Relaxed);
    }
}

// A poisoned lock means a thread panicked, and then the process is ending.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u32) -> Option<Host> {
        Some(Host::of(Some((std::net::Ipv4Addr::from_bits(number), 1).into())))
    }

    #[test]
    fn one_source_address_leaves_room_for_others() {
        let node = ConnectionLimits::new(900);
        let hold = |number| std::iter::from_fn(|| node.claim(host(number), None)).collect::<Vec<_>>();
        let (first, second) = (hold(1), hold(2));
        assert_eq!(first.len(), 800);
        assert!(!second.is_empty() && node.has_room(), "{}", second.len());
        let third = hold(3);
        assert!(!third.is_empty());
        assert!(node.claim(None, None).is_some(), "sessions within the process have no address");
        drop((first, second, third));
        assert_eq!((node.count(), hold(1).len()), (0, 800), "everything comes back");
    }

    #[test]
    fn a_small_bound_is_all_for_one_address() {
        let node = ConnectionLimits::new(4);
        let held: Vec<_> = (0..4).map_while(|_| node.claim(host(1), None)).collect();
        assert_eq!((held.len(), node.has_room()), (4, false));
    }

    #[test]
    fn half_open_connections_are_counted_until_they_open_or_end() {
        let (node, listener) = (ConnectionLimits::new(10_000), Arc::new(HalfOpen::default()));
        let come = |number| node.claim(host(number), Some((&listener, Time::ZERO))).unwrap();
        let mut all: Vec<_> = (0..HALF_OPEN_MAX).map(|_| come(1)).collect();
        assert!(listener.is_full());
        all[0].opened();
        all[0].opened();
        assert!(!listener.is_full() && all[0].due().is_none());
        let other = come(2);
        assert!(listener.is_full());
        drop(other);
        all.truncate(1);
        assert!(lock(&listener.0).is_empty());
    }

    #[test]
    fn on_a_crowded_listener_the_silent_ones_of_who_has_most_make_room() {
        let (node, listener) = (ConnectionLimits::new(10_000), Arc::new(HalfOpen::default()));
        let come = |number| node.claim(host(number), Some((&listener, Time::ZERO))).unwrap();
        let mut flood: Vec<_> = (1..CROWDED).map(|_| come(1)).collect();
        let due = flood[0].due().unwrap();
        assert_eq!(due, Time::ZERO.plus_millis(SILENCE_MS));
        assert!(!flood[0].makes_room(due, true), "there is room");
        let mut other = come(2);
        assert!(!other.makes_room(due, true), "it has less than its share");
        assert!(!flood[0].makes_room(due, false), "it makes progress");
        assert_eq!(flood[0].due(), Some(due.plus_millis(LOOK_MS)));
        assert!(flood[0].makes_room(due, true));
    }
}
