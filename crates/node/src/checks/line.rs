//! The order of password checks. Pure: time comes in as an argument.
//!
//! Spaces take turns, so a check waits for one of each space that waits, however many the others
//! have. Within a space the order is: users who have logged in from their host within a day, then
//! hosts without a recent wrong password, then all others, each first come, first served. Without a
//! free place the last of the others make room. So a client that guesses passwords waits behind one
//! that knows them, and delays it by no more than one check for each host that has not guessed
//! before.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use enmasse_amqp::time::Time;
use enmasse_router::table::SpaceKey;

use crate::fair_quota::FairQuota;

/// Checks that wait. At some milliseconds each the last waits a second: as long as a client would.
pub(super) const WAITING_MAX: usize = 256;
/// Hosts whose failures are remembered; one more replaces the host whose last failure is oldest.
const FAILURES_MAX: usize = 1024;
/// How long a failure counts. A correct password in between changes nothing: a guessing client may
/// have an account.
const FAILURE_MS: u64 = 60_000;

/// The network of a peer: what one party is likely to command as a whole.
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

/// The space that a login is for; `None`: no such name.
pub(crate) type Space = Option<SpaceKey>;

/// A check that waits.
struct Waiting<T> {
    host: Host,
    /// the user has logged in from that host within a day
    known: bool,
    check: T,
}

/// Waiting checks, and known hosts.
pub(super) struct Line<T> {
    of_space: HashMap<Space, VecDeque<Waiting<T>>>,
    /// spaces of which one waits; the first is next, one that comes again or was served is last
    order: VecDeque<Space>,
    spaces: FairQuota<Space>,
    hosts: FairQuota<Host>,
    failures: HashMap<Host, Time>,
}

impl<T> Line<T> {
    pub(super) fn new() -> Self {
        Self {
            of_space: HashMap::new(),
            order: VecDeque::new(),
            spaces: FairQuota::new(WAITING_MAX),
            hosts: FairQuota::new(WAITING_MAX),
            failures: HashMap::new(),
        }
    }

    /// Queues a check. Returns those that find no place: this one, if its space, its host, or its
    /// host in its space has its share; instead of it such of the space as come from hosts with a
    /// wrong password, if this one does not. Of the places that its space may have a host gets as
    /// many as are left.
    pub(super) fn push(&mut self, space: Space, host: Host, known: bool, check: T, now: Time) -> Vec<T> {
        let mut turned_away = Vec::new();
        while !self.has_place(space, host) {
            let is_clean = known || !has_failed(&self.failures, host, now);
            let guess = is_clean.then(|| self.take_guess(space, now)).flatten();
            let Some(other) = guess.or_else(|| known.then(|| self.take_stranger(space)).flatten()) else {
                turned_away.push(check);
                return turned_away;
            };
            turned_away.push(other);
        }
        self.spaces.take(space);
        self.hosts.take(host);
        let waiting = self.of_space.entry(space).or_default();
        if waiting.is_empty() {
            self.order.push_back(space);
        }
        waiting.push_back(Waiting { host, known, check });
        turned_away
    }

    fn has_place(&self, space: Space, host: Host) -> bool {
        let waiting = self.of_space.get(&space).into_iter().flatten();
        let of_host = waiting.filter(|other| other.host == host).count();
        of_host < self.spaces.room_for(&space) && self.hosts.has_room_for(&host)
    }

    /// Takes out the last check of the host that has the most in the space, of those with a wrong
    /// password lately.
    fn take_guess(&mut self, space: Space, now: Time) -> Option<T> {
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
    fn take_stranger(&mut self, space: Space) -> Option<T> {
        let last = self.of_space.get(&space)?.iter().rposition(|other| !other.known)?;
        Some(self.remove(space, last)?.1)
    }

    /// Takes the next check, and the host whose result is to be reported.
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

    /// Takes the check at that place of a space out of the line; with its last one the space.
    fn remove(&mut self, space: Space, at: usize) -> Option<(Host, T)> {
        let waiting = self.of_space.get_mut(&space)?;
        let Waiting { host, check, .. } = waiting.remove(at)?;
        if waiting.is_empty() {
            self.of_space.remove(&space);
            self.order.retain(|other| *other != space);
        }
        self.spaces.give_back(&space);
        self.hosts.give_back(&host);
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

    /// Whether it was queued without displacing another.
    fn waits(line: &mut Line<u32>, space: Space, host: Host, check: u32) -> bool {
        line.push(space, host, false, check, NOW).is_empty()
    }

    fn drain(line: &mut Line<u32>, now: Time) -> Vec<u32> {
        std::iter::from_fn(|| line.pop(now).map(|(_, check)| check)).collect()
    }

    #[test]
    fn spaces_take_turns_and_within_one_the_first_comes_first() {
        let mut line = Line::new();
        for check in [10, 11, 12] {
            assert!(waits(&mut line, space(1), host(1), check));
        }
        let others = [(space(2), 2, 20), (None, 3, 30), (space(2), 2, 21)];
        assert!(others.into_iter().all(|(of, from, check)| waits(&mut line, of, host(from), check)));
        assert_eq!(drain(&mut line, NOW), [10, 20, 30, 11, 21, 12]);
        assert!(line.of_space.is_empty() && line.order.is_empty());
    }

    #[test]
    fn a_space_that_was_served_and_returns_waits_for_the_others() {
        let mut line = Line::new();
        (0..9).for_each(|check| assert!(waits(&mut line, space(1), host(1), check)));
        let mut served = Vec::new();
        // A key that always has just one waiting gets every other turn, no more.
        for _ in 0..4 {
            assert!(waits(&mut line, space(2), host(2), 99));
            served.extend([line.pop(NOW).unwrap().1, line.pop(NOW).unwrap().1]);
        }
        assert_eq!(served, [0, 99, 1, 99, 2, 99, 3, 99]);
    }

    #[test]
    fn hosts_with_a_wrong_password_wait_behind_the_others_until_it_is_forgotten() {
        let mut line = Line::new();
        let fill = |line: &mut Line<u32>| {
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
    fn failures_are_remembered_of_so_many_hosts_and_the_oldest_goes() {
        let mut line = Line::<()>::new();
        for number in 0..=FAILURES_MAX as u32 {
            line.failed(host(number), NOW.plus_millis(u64::from(number)));
        }
        line.failed(host(5), NOW.plus_millis(5000));
        assert_eq!(line.failures.len(), FAILURES_MAX);
        assert!(!has_failed(&line.failures, host(0), NOW) && has_failed(&line.failures, host(1), NOW));
    }

    #[test]
    fn one_host_or_one_space_leaves_room_for_others() {
        let mut line = Line::new();
        let knock = |line: &mut Line<u32>, space, host| (0..1000).filter(|_| waits(line, space, host, 0)).count();
        let alone = WAITING_MAX.div_ceil(3);
        assert_eq!(knock(&mut line, space(1), host(1)), alone);
        assert!(knock(&mut line, space(1), host(2)) > WAITING_MAX / 12, "another host of the same space");
        assert!(knock(&mut line, space(2), host(2)) > WAITING_MAX / 12);
        assert!(waits(&mut line, space(3), host(3), 0));
    }

    #[test]
    fn whoever_guesses_leaves_places_of_the_space_to_its_users() {
        let mut line = Line::new();
        for guesser in 1..=3 {
            while waits(&mut line, space(1), host(guesser), 0) {}
            assert!(waits(&mut line, space(1), host(100), 1), "{guesser} take all they get");
        }
    }

    #[test]
    fn where_no_place_is_left_a_guess_of_who_has_the_most_makes_room_but_for_no_other_guess() {
        let mut line = Line::new();
        (1..=20).for_each(|guesser| line.failed(host(guesser), NOW));
        for guesser in 1..=20 {
            while waits(&mut line, space(1), host(guesser), guesser) {}
        }
        assert_eq!(line.push(space(1), host(5), false, 55, NOW), [55], "five hosts have all");
        assert_eq!(line.push(space(1), host(100), false, 100, NOW), [1], "the first has most of them");
        let later = NOW.plus_millis(FAILURE_MS);
        assert_eq!(line.push(space(1), host(101), false, 101, later), [101], "forgotten is forgotten");
        let served = drain(&mut line, NOW);
        assert_eq!((served[0], served.len()), (100, WAITING_MAX / 2));
        assert!(line.of_space.is_empty() && line.order.is_empty() && line.hosts.has_room_for(&host(1)));
    }

    #[test]
    fn who_guesses_from_many_hosts_keeps_a_user_out_for_one_check_of_each_at_most() {
        const GUESSERS: u32 = 60;
        let mut line = Line::new();
        let fill = |line: &mut Line<u32>| {
            for guesser in 1..=GUESSERS {
                while !line.push(space(1), host(guesser), false, guesser, NOW).contains(&guesser) {}
            }
        };
        let (mut guesses, mut waits) = (0, false);
        loop {
            // They fill each free place before the user retries.
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
    fn a_user_at_a_known_host_goes_before_all_others_and_finds_a_place() {
        let mut line = Line::new();
        for stranger in 1..=60 {
            while waits(&mut line, space(1), host(stranger), stranger) {}
        }
        line.failed(host(5), NOW);
        let turned_away = line.push(space(1), host(5), true, 500, NOW);
        assert!(turned_away.len() == 1 && turned_away[0] != 500, "{turned_away:?}");
        assert_eq!(line.pop(NOW).unwrap().1, 500);
    }

    #[test]
    fn an_ipv6_host_is_its_network_and_a_mapped_address_is_what_it_maps() {
        let host = |text: &str| Host::of(Some(text.parse().unwrap()));
        assert_eq!(host("[2001:db8::1]:1"), host("[2001:db8::ffff:2]:2"));
        assert_ne!(host("[2001:db8::1]:1"), host("[2001:db8:0:1::1]:1"));
        assert_eq!(host("[::ffff:10.0.0.1]:1"), host("10.0.0.1:2"));
        assert_ne!(host("10.0.0.1:1"), host("10.0.0.2:1"));
    }

    proptest! {
        #[test]
        fn whoever_is_first_in_a_space_waits_for_one_of_each_other_space(
            knocks in prop::collection::vec((0u32..8, 0u32..20), 1..400),
            served in 0usize..200,
        ) {
            let mut line = Line::new();
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
