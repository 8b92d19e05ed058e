//! Whose socket is read next: spaces take turns by bytes, and within a space its sockets take turns.
//!
//! Deficit round robin (Shreedhar and Varghese, 1995). A visit to a space is worth [`QUANTUM`]; what it cost beyond that
//! is a debt, which its next visits pay. A cost is bytes read and the work they led to: links, deliveries, settlements.
//! So spaces that always have something to read get the same share, however many sockets they have, and a space alone
//! goes on as if there were no turns. Pure: no socket, no clock.

use std::collections::{HashMap, VecDeque};

use enmasse_router::table::SpaceKey;
use slab::Slab;

use super::READ_BYTES;

/// What a visit to a space is worth, in bytes read: no less than one read may take, so that each visit reads.
pub(super) const QUANTUM: i64 = READ_BYTES as i64;
/// What a read costs at least, in bytes: a system call and what follows from a small frame, 2 to 3 us.
const READ_COST: u64 = 2 * 1024;
/// The same of somebody who is not in yet: SASL and `open`, some 10 us.
const NEWCOMER_COST: u64 = 8 * 1024;
/// What a microsecond costs, by those two.
const MICRO_COST: u64 = 800;
/// Work that one read may lead to, in nanoseconds, before others have their turn: as much as a read of small messages
/// takes, so that only what costs more than its bytes is interrupted.
pub(super) const VISIT_NANOS: u64 = 1_300_000;

/// What a read costs that took so much of the processor, as a handshake does: the signature alone is 70 us of an elliptic
/// curve, 300 us of RSA with 2,048 bits, 1,500 with 4,096. A visit at most, so that no debt outlasts one.
pub(super) fn cost_of_micros(micros: u64) -> u64 {
    micros.saturating_mul(MICRO_COST).min(QUANTUM as u64)
}

/// What work in the shard costs (`Shard::input_within`).
pub(super) fn cost_of_nanos(nanos: u64) -> u64 {
    nanos.saturating_mul(MICRO_COST) / 1000
}

/// Names those who share their turns: the connections of a space, or all newcomers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Party(u32);

/// Sockets to read.
pub(super) struct Rounds {
    parties: Slab<Members>,
    of_space: HashMap<SpaceKey, Party>,
    /// parties with something to read and something left; the first one's visit has begun
    order: VecDeque<Party>,
    /// all sockets to read
    ready: usize,
    /// visits and reads that are left in this turn
    visits: usize,
    reads: usize,
}

struct Members {
    /// `None`: newcomers, whose space is not known
    space: Option<SpaceKey>,
    /// sockets of the party
    count: usize,
    ready: VecDeque<u32>,
    /// what is left of the visit; below zero: a debt
    left: i64,
}

impl Rounds {
    /// Where newcomers are until they have a space.
    pub(super) const NEWCOMERS: Party = Party(0);

    pub(super) fn new() -> Self {
        let newcomers = Members { space: None, count: 0, ready: VecDeque::new(), left: 0 };
        let parties = Slab::from_iter([(Self::NEWCOMERS.0 as usize, newcomers)]);
        Self { parties, of_space: HashMap::new(), order: VecDeque::new(), ready: 0, visits: 0, reads: 0 }
    }

    /// One more socket belongs to that space; to be taken back by `leave`.
    pub(super) fn join(&mut self, space: SpaceKey) -> Party {
        let party = *self.of_space.entry(space).or_insert_with(|| {
            let members = Members { space: Some(space), count: 0, ready: VecDeque::new(), left: 0 };
            Party(self.parties.insert(members) as u32)
        });
        self.parties[party.0 as usize].count += 1;
        party
    }

    /// A socket of the party is gone, or belongs to another. Of newcomers nobody keeps count.
    pub(super) fn leave(&mut self, party: Party) {
        let Some(space) = self.parties[party.0 as usize].space else { return };
        let members = &mut self.parties[party.0 as usize];
        members.count -= 1;
        if members.count == 0 {
            self.ready -= self.parties.remove(party.0 as usize).ready.len();
            self.of_space.remove(&space);
            self.order.retain(|one| *one != party);
        }
    }

    /// Whether there is nothing to read.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether nobody else could want to be read soon: newcomers never are alone.
    fn is_alone(&self) -> bool {
        self.of_space.len() < 2 && self.order.len() < 2 && self.order.front() != Some(&Self::NEWCOMERS)
    }

    /// A socket of the party has something to read. It is to be queued once.
    pub(super) fn push(&mut self, party: Party, socket: u32) {
        let members = &mut self.parties[party.0 as usize];
        if members.ready.is_empty() {
            members.left = members.left.min(0) + QUANTUM;
            self.order.push_back(party);
        }
        members.ready.push_back(socket);
        self.ready += 1;
    }

    /// A turn of the worker begins. In it each socket is read once at most and each party visited once, a space that is
    /// alone as often as it likes.
    pub(super) fn begin_turn(&mut self) {
        self.reads = self.ready;
        self.visits = if self.is_alone() { usize::MAX } else { self.order.len() };
    }

    /// The next socket, and to whom it belongs; `None` once the turn's visits or reads are over. To be followed by
    /// `spend`.
    pub(super) fn next(&mut self) -> Option<(Party, u32)> {
        while self.visits > 0 && self.reads > 0 {
            let party = *self.order.front()?;
            let members = &mut self.parties[party.0 as usize];
            if members.left <= 0 {
                // This visit pays a debt.
                self.pass_by(party);
                continue;
            }
            let socket = members.ready.pop_front()?;
            if members.ready.is_empty() {
                self.order.pop_front();
                self.visits -= 1;
            }
            self.ready -= 1;
            self.reads -= 1;
            return Some((party, socket));
        }
        None
    }

    /// A read of a socket of the party took so many bytes, or cost as much. Once a visit is spent the next party is
    /// visited.
    pub(super) fn spend(&mut self, party: Party, bytes: u64) {
        let least = if party == Self::NEWCOMERS { NEWCOMER_COST } else { READ_COST };
        self.charge(party, bytes.max(least));
        if self.order.front() == Some(&party) && self.parties[party.0 as usize].left <= 0 {
            self.pass_by(party);
        }
    }

    /// Work was done for the party outside of its visits.
    pub(super) fn charge(&mut self, party: Party, cost: u64) {
        if let Some(members) = self.parties.get_mut(party.0 as usize) {
            members.left = members.left.saturating_sub_unsigned(cost);
        }
    }

    /// Ends the visit of the first party: what it is worth is for the next one.
    fn pass_by(&mut self, party: Party) {
        self.parties[party.0 as usize].left += QUANTUM;
        self.order.rotate_left(1);
        self.visits -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const FULL: u64 = READ_BYTES as u64;

    /// Takes turns in which each read of a socket takes `bytes_of` it and leaves more; what each party had.
    fn serve(rounds: &mut Rounds, turns: usize, bytes_of: impl Fn(u32) -> u64) -> BTreeMap<u32, u64> {
        let mut had = BTreeMap::new();
        for _ in 0..turns {
            rounds.begin_turn();
            while let Some((party, socket)) = rounds.next() {
                rounds.spend(party, bytes_of(socket));
                *had.entry(party.0).or_default() += bytes_of(socket);
                rounds.push(party, socket);
            }
        }
        had
    }

    #[test]
    fn a_hundred_sockets_of_one_space_get_no_more_than_one_of_another() {
        let mut rounds = Rounds::new();
        let (many, one) = (rounds.join(SpaceKey(1)), rounds.join(SpaceKey(2)));
        (0..100).for_each(|socket| rounds.push(many, socket));
        rounds.push(one, 100);
        let had = serve(&mut rounds, 100, |_| FULL);
        assert_eq!((had[&many.0], had[&one.0]), (100 * FULL, 100 * FULL));
    }

    #[test]
    fn a_visit_of_small_reads_has_an_end_and_what_was_read_beyond_is_a_debt() {
        let mut rounds = Rounds::new();
        let (many, one) = (rounds.join(SpaceKey(1)), rounds.join(SpaceKey(2)));
        (0..1000).for_each(|socket| rounds.push(many, socket));
        rounds.push(one, 1000);
        let mut before = 0;
        rounds.begin_turn();
        while rounds.next().is_some_and(|(party, _)| party == many) {
            rounds.spend(many, 100);
            before += 1;
        }
        assert_eq!(before, QUANTUM as u64 / READ_COST);
        // One byte short of a visit, then a full read: the next visit is one of a byte.
        for bytes in [FULL - 1, FULL] {
            let (party, _) = rounds.next().unwrap_or_else(|| {
                rounds.begin_turn();
                rounds.next().unwrap()
            });
            rounds.spend(party, bytes);
        }
        assert_eq!(rounds.parties[many.0 as usize].left, 1, "all but a byte of the next visit is spent");
    }

    #[test]
    fn a_visit_that_led_to_much_work_is_paid_for_by_the_next_ones() {
        let mut rounds = Rounds::new();
        let (heavy, light) = (rounds.join(SpaceKey(1)), rounds.join(SpaceKey(2)));
        rounds.push(heavy, 0);
        rounds.push(light, 1);
        let cost = |socket: u32| if socket == 0 { 5 * FULL } else { FULL };
        let had = serve(&mut rounds, 500, cost);
        assert_eq!((had[&heavy.0], had[&light.0]), (100 * 5 * FULL, 500 * FULL));
        rounds.charge(heavy, 10 * FULL);
        let had = serve(&mut rounds, 10, cost);
        assert_eq!(
            (had.get(&heavy.0), had[&light.0]),
            (None, 10 * FULL),
            "work done outside of its visits counts, too"
        );
    }

    #[test]
    fn a_debt_holds_a_space_up_only_while_others_have_something_to_read() {
        let mut rounds = Rounds::new();
        let (heavy, light) = (rounds.join(SpaceKey(1)), rounds.join(SpaceKey(2)));
        rounds.push(heavy, 0);
        rounds.charge(heavy, 8 * FULL);
        let turns = (1..100).find(|_| serve(&mut rounds, 1, |_| FULL).contains_key(&heavy.0));
        assert!(turns.is_some_and(|turns| turns <= 9), "{turns:?} empty turns");
        rounds.leave(light);
        rounds.charge(heavy, 8 * FULL);
        assert_eq!(serve(&mut rounds, 1, |_| FULL)[&heavy.0], FULL, "alone it has no debts");
    }

    #[test]
    fn in_a_turn_a_space_alone_reads_each_socket_once_and_newcomers_a_few_handshakes() {
        let mut rounds = Rounds::new();
        let inside = rounds.join(SpaceKey(1));
        (0..40).for_each(|socket| rounds.push(inside, socket));
        assert_eq!(serve(&mut rounds, 1, |_| FULL)[&inside.0], 40 * FULL);
        (0..40).for_each(|socket| rounds.push(Rounds::NEWCOMERS, 100 + socket));
        for (micros, handshakes) in [(10, 32), (100, 4), (300, 2), (1500, 1)] {
            let cost = cost_of_micros(micros).max(NEWCOMER_COST);
            let had = serve(&mut rounds, 1, |socket| if socket < 100 { FULL } else { cost });
            let (ours, theirs) = (had[&inside.0], had[&Rounds::NEWCOMERS.0]);
            assert_eq!((ours, theirs), (FULL, handshakes * cost), "{micros} us each");
            rounds.parties[Rounds::NEWCOMERS.0 as usize].left = QUANTUM;
        }
    }

    #[test]
    fn whatever_a_handshake_took_it_costs_a_visit_at_most() {
        assert_eq!([0, 1, 1_000, u64::MAX].map(cost_of_micros), [0, MICRO_COST, FULL, FULL]);
    }

    #[test]
    fn a_space_whose_last_socket_goes_leaves_nothing_behind() {
        let mut rounds = Rounds::new();
        let (gone, stays) = (rounds.join(SpaceKey(1)), rounds.join(SpaceKey(2)));
        assert_eq!(rounds.join(SpaceKey(1)), gone);
        rounds.push(gone, 1);
        rounds.push(stays, 2);
        rounds.leave(gone);
        assert!(rounds.of_space.contains_key(&SpaceKey(1)));
        rounds.leave(gone);
        rounds.begin_turn();
        assert_eq!((rounds.next(), rounds.next(), rounds.is_empty()), (Some((stays, 2)), None, true));
        assert_eq!((rounds.ready, rounds.parties.len(), rounds.of_space.len()), (0, 2, 1));
    }

    proptest! {
        #[test]
        fn spaces_that_always_have_more_get_the_same(
            sockets in prop::collection::vec(200u32..300, 2..8),
            sizes in prop::collection::vec(READ_COST..=FULL, 30),
            turns in 20usize..60,
        ) {
            let mut rounds = Rounds::new();
            for (space, count) in sockets.iter().enumerate() {
                let party = rounds.join(SpaceKey(space as u32));
                (0..*count).for_each(|socket| rounds.push(party, socket));
            }
            let had = serve(&mut rounds, turns, |socket| sizes[socket as usize % sizes.len()]);
            let (least, most) = (had.values().min().unwrap(), had.values().max().unwrap());
            prop_assert!(most - least <= 2 * FULL, "{had:?}");
        }

        #[test]
        fn nobody_waits_for_more_than_a_visit_of_each_other(
            pushes in prop::collection::vec((0u32..6, 1u64..=FULL), 1..200),
        ) {
            let mut rounds = Rounds::new();
            let parties: Vec<_> = (0..7).map(|space| rounds.join(SpaceKey(space))).collect();
            for (number, (space, _)) in pushes.iter().enumerate() {
                rounds.push(parties[*space as usize], number as u32);
            }
            let late = parties[6];
            rounds.push(late, u32::MAX);
            rounds.begin_turn();
            let mut spent: BTreeMap<u32, i64> = BTreeMap::new();
            loop {
                let (party, socket) = rounds.next().expect("its visit is part of the turn");
                if party == late {
                    break;
                }
                rounds.spend(party, pushes[socket as usize].1);
                *spent.entry(party.0).or_default() += pushes[socket as usize].1 as i64;
            }
            prop_assert!(spent.values().all(|bytes| *bytes < 2 * QUANTUM), "{spent:?}");
        }

        #[test]
        fn whoever_comes_and_goes_all_that_is_ready_is_read_in_the_end(
            steps in prop::collection::vec((0u8..5, 0u32..5, 1u64..=FULL), 1..300),
        ) {
            let mut rounds = Rounds::new();
            let mut inside: Vec<(Party, u32)> = Vec::new();
            let mut waiting: Vec<(Party, u32)> = Vec::new();
            for (number, (what, space, bytes)) in (0u32..).zip(steps) {
                match what {
                    0 => inside.push((rounds.join(SpaceKey(space)), number)),
                    1 if !inside.is_empty() => {
                        // Its place in the line stays, unless it was the last of its space.
                        let (party, _) = inside.swap_remove(space as usize % inside.len());
                        rounds.leave(party);
                        if inside.iter().all(|(other, _)| *other != party) {
                            waiting.retain(|(other, _)| *other != party);
                        }
                    }
                    2 => {
                        rounds.push(Rounds::NEWCOMERS, number);
                        waiting.push((Rounds::NEWCOMERS, number));
                    }
                    3 if !inside.is_empty() => {
                        let (party, socket) = inside[space as usize % inside.len()];
                        rounds.push(party, socket);
                        waiting.push((party, socket));
                    }
                    _ => {
                        rounds.begin_turn();
                        while let Some(read) = rounds.next() {
                            rounds.spend(read.0, bytes);
                            let place = waiting.iter().position(|one| *one == read);
                            waiting.swap_remove(place.expect("it waits"));
                        }
                    }
                }
                prop_assert_eq!(rounds.ready, waiting.len());
                prop_assert_eq!(rounds.is_empty(), waiting.is_empty());
                prop_assert!(rounds.parties.iter().all(|(_, members)| members.left.abs() <= QUANTUM));
            }
            for _ in 0..=waiting.len() {
                rounds.begin_turn();
                while let Some((party, _)) = rounds.next() {
                    rounds.spend(party, FULL);
                }
            }
            prop_assert!(rounds.is_empty() && rounds.ready == 0);
        }
    }
}
