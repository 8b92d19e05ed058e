//! The order of password checks. Pure: time comes in as an argument.
//!
//! Spaces take turns, so a check waits for at most one check of each other space. Within a space
//! the order is: users who have logged in from their host within a day, then hosts without a recent
//! wrong password, then all others, each in order of arrival. If the queue is full, the last of the
//! others are refused. So a client that guesses passwords waits behind one that knows them, and
//! delays it by at most one check for each host that has not guessed before.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use enmasse_amqp::time::Time;
use enmasse_router::table::SpaceKey;

use crate::fair_quota::FairQuota;

/// The most waiting checks. At some milliseconds each the last one waits a second, which clients
/// still accept.
pub(super) const WAITING_MAX: usize = 256;
/// Hosts whose failures are remembered; one more replaces the host whose last failure is oldest.
const FAILURES_MAX: usize = 1024;
/// How long a failure counts. A correct password does not reset it: a guessing client may have an
/// account.
const FAILURE_MS: u64 = 60_000;

/// The network of a peer: the addresses that one party is likely to control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Host(Option<IpAddr>);

impl Host {
    /// The address without the port; of IPv6 the network of 64 bits. `None`: in this process.
    pub(crate) fn of(peer: Option<SocketAddr>) -> Self {
        Self(peer.map(|peer| match peer.ip().to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
            v4 @ IpAddr::V4(_) => v4,
        }))
    }
}

impl Host {
    /// The address, of IPv6 the network's.
    pub(crate) fn address(self) -> Option<IpAddr> {
        self.0
    }
}

/// The space of a login; `None`: no space has the requested name.
pub(crate) type Space = Option<SpaceKey>;

/// A check that waits.
struct Waiting<T> {
    host: Host,
    /// the user has logged in from that host within a day
    known: bool,
    check: T,
}

/// Waiting checks, and known hosts.
pub(super) struct CheckQueue<T> {
    of_space: HashMap<Space, VecDeque<Waiting<T>>>,
    /// spaces with waiting checks; the first is next, a new or just served one is last
    order: VecDeque<Space>,
    spaces: FairQuota<Space>,
    hosts: FairQuota<Host>,
    failures: HashMap<Host, Time>,
}

impl<T> CheckQueue<T> {
    pub(super) fn new() -> Self {
        Self {
            of_space: HashMap::new(),
            order: VecDeque::new(),
            spaces: FairQuota::new(WAITING_MAX),
            hosts: FairQuota::new(WAITING_MAX),
            failures: HashMap::new(),
        }
    }

    /// Queues a check. Returns the checks that are refused: this one, if its space, its host, or
    /// its host within the space has used up its share. If its host has no recent wrong password,
    /// checks of the space from hosts with one are refused instead. Within the share of a space a
    /// host may have as many places as are free.
    pub(super) fn push(&mut self, space: Space, host: Host, known: bool, check: T, now: Time) -> Vec<T> {
        let mut refused = Vec::new();
        while !self.has_room(space, host) {
            let is_clean = known || !has_failed(&self.failures, host, now);
            let guess = is_clean.then(|| self.remove_guess(space, now)).flatten();
            let Some(other) = guess.or_else(|| known.then(|| self.remove_unknown_user(space)).flatten()) else {
                refused.push(check);
                return refused;
            };
            refused.push(other);
        }
        self.spaces.take(space);
        self.hosts.take(host);
        let waiting = self.of_space.entry(space).or_default();
        if waiting.is_empty() {
            self.order.push_back(space);
        }
        waiting.push_back(Waiting { host, known, check });
        refused
    }

    fn has_room(&self, space: Space, host: Host) -> bool {
        let waiting = self.of_space.get(&space).into_iter().flatten();
        let of_host = waiting.filter(|other| other.host == host).count();
        of_host < self.spaces.room_for(&space) && self.hosts.has_room_for(&host)
    }

    /// Removes the last check of the host that has the most checks in the space, among hosts with a
    /// recent wrong password.
    fn remove_guess(&mut self, space: Space, now: Time) -> Option<T> {
        let waiting = self.of_space.get(&space)?;
        let mut counts: HashMap<Host, usize> = HashMap::new();
        let guesses = waiting.iter().filter(|one| !one.known && has_failed(&self.failures, one.host, now));
        for one in guesses {
            *counts.entry(one.host).or_default() += 1;
        }
        let host = counts.into_iter().max_by_key(|(_, count)| *count)?.0;
        let last = waiting.iter().rposition(|other| other.host == host && !other.known)?;
        Some(self.remove(space, last)?.1)
    }

    /// Removes the last check of the space for a user who has not logged in from that host.
    fn remove_unknown_user(&mut self, space: Space) -> Option<T> {
        let last = self.of_space.get(&space)?.iter().rposition(|other| !other.known)?;
        Some(self.remove(space, last)?.1)
    }

    /// Removes the next check; returns it with its host, for `failed`.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Host, T)> {
        let space = self.order.pop_front()?;
        let waiting = self.of_space.get(&space)?;
        let failures = &self.failures;
        let known = waiting.iter().position(|one| one.known);
        let clean = || waiting.iter().position(|one| !has_failed(failures, one.host, now));
        let first = known.or_else(clean).unwrap_or(0);
        self.order.push_back(space);
        self.remove(space, first)
    }

    /// Removes the check at that index of a space, and the space with its last check.
    fn remove(&mut self, space: Space, at: usize) -> Option<(Host, T)> {
        let waiting = self.of_space.get_mut(&space)?;
        let Waiting { host, check, .. } = waiting.remove(at)?;
        if waiting.is_empty() {
            self.of_space.remove(&space);
            self.order.retain(|other| *other != space);
        }
        self.spaces.release(&space);
        self.hosts.release(&host);
        Some((host, check))
    }

    /// A password from that host was wrong.
    pub(super) fn failed(&mut self, host: Host, now: Time) {
        if self.failures.len() >= FAILURES_MAX
            && !self.failures.contains_key(&host)
            && let Some(oldest) = self.failures.iter().min_by_key(|(_, at)| **at).map(|(host, _)| *host)
        {
            self.failures.remove(&oldest);
        }
        self.failures.insert(host, now);
    }
}

fn has_failed(failures: &HashMap<Host, Time>, host: Host, now: Time) -> bool {
    failures.get(&host).is_some_and(|at| now < at.plus_millis(FAILURE_MS))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Time = Time::ZERO;

    fn space(number: u32) -> Space {
        Some(SpaceKey(number))
    }

    fn host(number: u32) -> Host {
        Host::of(Some(SocketAddr::new(IpAddr::V4((0x0a00_0000 + number).into()), 5000)))
    }

    /// Whether the check was queued and displaced no other.
    fn waits(line: &mut CheckQueue<u32>, space: Space, host: Host, check: u32) -> bool {
        line.push(space, host, false, check, NOW).is_empty()
    }

    fn drain(line: &mut CheckQueue<u32>, now: Time) -> Vec<u32> {
        std::iter::from_fn(|| line.pop(now).map(|(_, check)| check)).collect()
    }

    #[test]
    fn spaces_are_served_round_robin_and_each_space_in_fifo_order() {
        let mut line = CheckQueue::new();
        for check in [10, 11, 12] {
            assert!(waits(&mut line, space(1), host(1), check));
        }
        let others = [(space(2), 2, 20), (None, 3, 30), (space(2), 2, 21)];
        assert!(others.into_iter().all(|(of, from, check)| waits(&mut line, of, host(from), check)));
        assert_eq!(drain(&mut line, NOW), [10, 20, 30, 11, 21, 12]);
        assert!(line.of_space.is_empty() && line.order.is_empty());
    }

    #[test]
    fn space_that_rejoins_after_service_waits_its_turn() {
        let mut line = CheckQueue::new();
        (0..9).for_each(|check| assert!(waits(&mut line, space(1), host(1), check)));
        let mut served = Vec::new();
        // A space that always has just one check waiting gets every other turn.
        for _ in 0..4 {
            assert!(waits(&mut line, space(2), host(2), 99));
            served.extend([line.pop(NOW).unwrap().1, line.pop(NOW).unwrap().1]);
        }
        assert_eq!(served, [0, 99, 1, 99, 2, 99, 3, 99]);
    }

    #[test]
    fn host_with_a_failed_login_is_served_last_until_the_failure_expires() {
        let mut line = CheckQueue::new();
        let fill = |line: &mut CheckQueue<u32>| {
            for (who, check) in [(1, 10), (1, 11), (2, 20)] {
                assert!(waits(line, space(1), host(who), check));
            }
        };
        line.failed(host(1), NOW);
        fill(&mut line);
        assert_eq!(drain(&mut line, NOW), [20, 10, 11]);
        fill(&mut line);
        assert_eq!(drain(&mut line, NOW.plus_millis(FAILURE_MS)), [10, 11, 20]);
    }

    #[test]
    fn failure_memory_is_bounded_and_evicts_the_oldest_host() {
        let mut line = CheckQueue::<()>::new();
        for number in 0..=FAILURES_MAX as u32 {
            line.failed(host(number), NOW.plus_millis(u64::from(number)));
        }
        line.failed(host(5), NOW.plus_millis(5000));
        assert_eq!(line.failures.len(), FAILURES_MAX);
        assert!(!has_failed(&line.failures, host(0), NOW) && has_failed(&line.failures, host(1), NOW));
    }

    #[test]
    fn one_host_or_one_space_cannot_fill_the_check_queue() {
        let mut line = CheckQueue::new();
        let knock = |line: &mut CheckQueue<u32>, space, host| (0..1000).filter(|_| waits(line, space, host, 0)).count();
        let alone = WAITING_MAX.div_ceil(3);
        assert_eq!(knock(&mut line, space(1), host(1)), alone);
        assert!(knock(&mut line, space(1), host(2)) > WAITING_MAX / 12, "another host of the same space");
        assert!(knock(&mut line, space(2), host(2)) > WAITING_MAX / 12);
        assert!(waits(&mut line, space(3), host(3), 0));
    }

    #[test]
    fn guessing_hosts_leave_room_for_users_of_their_space() {
        let mut line = CheckQueue::new();
        for guesser in 1..=3 {
            while waits(&mut line, space(1), host(guesser), 0) {}
            assert!(waits(&mut line, space(1), host(100), 1), "{guesser} hosts hold their share");
        }
    }

    #[test]
    fn full_queue_evicts_a_guess_of_the_busiest_host_but_not_for_another_guess() {
        let mut line = CheckQueue::new();
        (1..=20).for_each(|guesser| line.failed(host(guesser), NOW));
        for guesser in 1..=20 {
            while waits(&mut line, space(1), host(guesser), guesser) {}
        }
        assert_eq!(line.push(space(1), host(5), false, 55, NOW), [55], "a guess displaces none");
        assert_eq!(line.push(space(1), host(100), false, 100, NOW), [1], "the busiest host yields");
        let later = NOW.plus_millis(FAILURE_MS);
        assert_eq!(line.push(space(1), host(101), false, 101, later), [101], "failures expired");
        let served = drain(&mut line, NOW);
        assert_eq!((served[0], served.len()), (100, WAITING_MAX / 2));
        assert!(line.of_space.is_empty() && line.order.is_empty() && line.hosts.has_room_for(&host(1)));
    }

    #[test]
    fn distributed_guessing_delays_a_user_by_one_check_per_host() {
        const GUESSERS: u32 = 60;
        let mut line = CheckQueue::new();
        let fill = |line: &mut CheckQueue<u32>| {
            for guesser in 1..=GUESSERS {
                while !line.push(space(1), host(guesser), false, guesser, NOW).contains(&guesser) {}
            }
        };
        let (mut guesses, mut waits) = (0, false);
        loop {
            // The guessers fill each free slot before the user retries.
            fill(&mut line);
            waits = waits || !line.push(space(1), host(100), false, 100, NOW).contains(&100);
            let (who, _) = line.pop(NOW).unwrap();
            if who == host(100) {
                break;
            }
            line.failed(who, NOW);
            guesses += 1;
            assert!(guesses <= GUESSERS, "{guesses} guesses were checked");
        }
    }

    #[test]
    fn user_at_a_known_host_is_served_first_even_when_the_queue_is_full() {
        let mut line = CheckQueue::new();
        for stranger in 1..=60 {
            while waits(&mut line, space(1), host(stranger), stranger) {}
        }
        line.failed(host(5), NOW);
        let refused = line.push(space(1), host(5), true, 500, NOW);
        assert!(refused.len() == 1 && refused[0] != 500, "{refused:?}");
        assert_eq!(line.pop(NOW).unwrap().1, 500);
    }

    #[test]
    fn ipv6_host_is_its_64_bit_prefix_and_a_mapped_address_is_an_ipv4_host() {
        let host = |text: &str| Host::of(Some(text.parse().unwrap()));
        assert_eq!(host("[2001:db8::1]:1"), host("[2001:db8::ffff:2]:2"));
        assert_ne!(host("[2001:db8::1]:1"), host("[2001:db8:0:1::1]:1"));
        assert_eq!(host("[::ffff:10.0.0.1]:1"), host("10.0.0.1:2"));
        assert_ne!(host("10.0.0.1:1"), host("10.0.0.2:1"));
    }

    proptest! {
        #[test]
        fn first_check_of_a_space_waits_for_at_most_one_check_of_each_other(
            knocks in prop::collection::vec((0u32..8, 0u32..20), 1..400),
            served in 0usize..200,
        ) {
            let mut line = CheckQueue::new();
            let mut accepted = 0;
            for (number, (of, from)) in knocks.iter().enumerate() {
                accepted += usize::from(line.push(space(*of), host(*from), false, number, NOW).is_empty());
            }
            prop_assert!(accepted <= WAITING_MAX);
            let served = (0..served).filter(|_| line.pop(NOW).is_some()).count();
            let others = line.order.len();
            prop_assert!(line.push(space(100), host(100), false, usize::MAX, NOW).is_empty());
            let before = std::iter::from_fn(|| line.pop(NOW)).take_while(|(_, check)| *check != usize::MAX).count();
            prop_assert_eq!(before, others);
            let left = std::iter::from_fn(|| line.pop(NOW)).count();
            prop_assert_eq!(served + before + left, accepted, "nothing is lost");
        }
    }
}
