//! Bounds of connections: in total, per source address, and before the end of their handshakes.
//!
//! A [`Claim`] is a connection's share of these bounds. It moves with the connection and returns
//! its share when it is dropped, on any thread.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use enmasse_amqp::time::Time;

use crate::checks::Host;
use crate::fair_quota::FairQuota;

/// Connections of one listener that have not completed AMQP's open. At the bound the listener
/// accepts no more.
pub(crate) const HALF_OPEN_MAX: usize = 1024;
/// From this number of half-open connections on, a source address with more than its share loses
/// its silent ones.
const CROWDED_COUNT: usize = HALF_OPEN_MAX / 2;
/// How long a half-open connection may be silent on a crowded listener. The peer of a connection
/// that makes progress answers within a round trip.
const SILENCE_MS: u64 = 3_000;
/// How often half-open connections are checked.
const CHECK_INTERVAL_MS: u64 = 1_000;
/// One source address may have this many times the number of free connections: 8/9 of all if it is
/// alone, so that every other address still finds room. A proxy or a load test on one machine may
/// use most of the node.
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

    /// Claims a connection of `host` (`None`: within this process) at a listener. Returns `None` if
    /// that source address has used up its share.
    pub(crate) fn claim(self: &Arc<Self>, host: Option<Host>, at: Option<(&Arc<HalfOpen>, Time)>) -> Option<Claim> {
        if host.is_some_and(|host| !lock(&self.hosts).take(host)) {
            return None;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let half_open = host.zip(at).map(|(host, (listener, now))| {
            listener.enter(host);
            (Arc::clone(listener), now.plus_millis(SILENCE_MS))
        });
        Some(Claim { of: Arc::clone(self), host, half_open })
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

    /// Whether the bound of the listener is reached.
    pub(crate) fn is_full(&self) -> bool {
        lock(&self.0).values().sum::<usize>() >= HALF_OPEN_MAX
    }

    /// Whether the listener is crowded and `host` has more than an equal share.
    fn is_crowded_by(&self, host: Host) -> bool {
        let hosts = lock(&self.0);
        let total = hosts.values().sum::<usize>();
        total >= CROWDED_COUNT && hosts.get(&host).is_some_and(|count| count * hosts.len() >= total)
    }
}

/// A connection's share of the bounds.
#[derive(Debug)]
pub(crate) struct Claim {
    of: Arc<ConnectionLimits>,
    host: Option<Host>,
    /// while half-open: its listener, and the time of the next check
    half_open: Option<(Arc<HalfOpen>, Time)>,
}

impl Claim {
    /// The connection is open: it no longer counts as half-open for its listener.
    pub(crate) fn opened(&mut self) {
        if let (Some(host), Some((listener, _))) = (self.host, self.half_open.take()) {
            listener.leave(host);
        }
    }

    /// Moves the claim to another source address, that of a proxy's client. `false`: that address
    /// has used up its share, and the claim stays where it was.
    pub(crate) fn move_to(&mut self, to: Host) -> bool {
        let Some(from) = self.host else { return true };
        if from == to {
            return true;
        }
        let mut hosts = lock(&self.of.hosts);
        if !hosts.take(to) {
            return false;
        }
        hosts.release(&from);
        drop(hosts);
        if let Some((listener, _)) = &self.half_open {
            listener.leave(from);
            listener.enter(to);
        }
        self.host = Some(to);
        true
    }

    /// When to check whether it must be closed; `None`: it is open.
    pub(crate) fn due(&self) -> Option<Time> {
        self.half_open.as_ref().map(|(_, at)| *at)
    }

    /// Whether a silent connection must be closed to make room. If not, it is checked again later.
    pub(crate) fn must_close(&mut self, now: Time, silent: bool) -> bool {
        let (Some(host), Some((listener, at))) = (self.host, &mut self.half_open) else { return false };
        *at = now.plus_millis(CHECK_INTERVAL_MS);
        silent && listener.is_crowded_by(host)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.opened();
        if let Some(host) = self.host {
            lock(&self.of.hosts).release(&host);
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
        assert!(node.claim(None, None).is_some(), "in-process sessions have no source address");
        drop((first, second, third));
        assert_eq!((node.count(), hold(1).len()), (0, 800), "every claim is returned");
    }

    #[test]
    fn small_bound_may_be_used_up_by_one_source_address() {
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
    fn client_of_a_proxy_counts_instead_of_the_proxy() {
        let (node, listener) = (ConnectionLimits::new(90), Arc::new(HalfOpen::default()));
        let proxied = |client| {
            let mut claim = node.claim(host(1), Some((&listener, Time::ZERO)))?;
            claim.move_to(host(client)?).then_some(claim)
        };
        let (busy, other): (Vec<_>, _) = (std::iter::from_fn(|| proxied(2)).collect(), proxied(3));
        assert_eq!(busy.len(), 80, "the share of one source address");
        assert!(other.is_some() && !lock(&listener.0).contains_key(&host(1).unwrap()));
        drop((busy, other));
        assert_eq!((node.count(), lock(&listener.0).len()), (0, 0), "every claim is returned");
    }

    #[test]
    fn crowded_listener_closes_idle_half_open_connections_of_the_busiest_host() {
        let (node, listener) = (ConnectionLimits::new(10_000), Arc::new(HalfOpen::default()));
        let come = |number| node.claim(host(number), Some((&listener, Time::ZERO))).unwrap();
        let mut flood: Vec<_> = (1..CROWDED_COUNT).map(|_| come(1)).collect();
        let due = flood[0].due().unwrap();
        assert_eq!(due, Time::ZERO.plus_millis(SILENCE_MS));
        assert!(!flood[0].must_close(due, true), "the listener has room");
        let mut other = come(2);
        assert!(!other.must_close(due, true), "its host holds less than its share");
        assert!(!flood[0].must_close(due, false), "it makes progress");
        assert_eq!(flood[0].due(), Some(due.plus_millis(CHECK_INTERVAL_MS)));
        assert!(flood[0].must_close(due, true));
    }
}
