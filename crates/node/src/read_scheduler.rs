//! Chooses the next socket to read: spaces take turns by bytes, and within a space its sockets take
//! turns.
//!
//! Deficit round robin (Shreedhar and Varghese, 1995). A visit to a space may cost [`QUANTUM`];
//! excess cost is a debt, which its next visits pay. The cost counts bytes read and the work they
//! caused: links, deliveries, settlements. So busy spaces get equal shares, however many sockets
//! they have, and a single busy space is not limited. Pure: no socket, no clock.

use std::collections::{HashMap, VecDeque};

use enmasse_router::table::SpaceKey;
use slab::Slab;

/// Bytes read from one socket in one turn: it fits the second-level cache.
pub(crate) const READ_BYTES: usize = 256 * 1024;
/// The cost that a visit to a space may have, in bytes read: at least one read, so that each visit
/// reads.
pub(super) const QUANTUM: i64 = READ_BYTES as i64;
/// The least cost of a read, in bytes: a system call and the handling of a small frame, 2 to 3 us.
const READ_COST: u64 = 2 * 1024;
/// The least cost of a read of an unauthenticated connection: SASL and `open`, some 10 us.
const UNAUTHENTICATED_COST: u64 = 8 * 1024;
/// The cost of a microsecond, derived from the two constants above.
const COST_PER_MICRO: u64 = 800;
/// Work that one read may cause, in nanoseconds, before the next space is visited: the time for a
/// read of small messages, so that only unusually expensive input is interrupted.
pub(super) const VISIT_NANOS: u64 = 1_300_000;

/// The cost of a read that used this much processor time, as a handshake does: the signature alone
/// takes 70 us with an elliptic curve, 300 us with RSA of 2,048 bits, 1,500 with 4,096. At most one
/// visit, which bounds the debt.
pub(super) fn cost_of_micros(micros: u64) -> u64 {
    micros.saturating_mul(COST_PER_MICRO).min(QUANTUM as u64)
}

/// The cost of work in the shard (`Shard::input_within`).
pub(super) fn cost_of_nanos(nanos: u64) -> u64 {
    nanos.saturating_mul(COST_PER_MICRO) / 1000
}

/// Identifies the connections that share read turns: those of a space, or all unauthenticated ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadGroup(u32);

/// Sockets to read.
pub(super) struct ReadScheduler {
    groups: Slab<GroupState>,
    of_space: HashMap<SpaceKey, ReadGroup>,
    /// groups with sockets to read; the visit of the first one has begun
    order: VecDeque<ReadGroup>,
    /// all sockets to read
    ready: usize,
    /// visits and reads that remain in this turn
    visits: usize,
    reads: usize,
}

struct GroupState {
    /// `None`: unauthenticated connections, whose space is not known
    space: Option<SpaceKey>,
    /// sockets of the group
    count: usize,
    ready: VecDeque<u32>,
    /// the remaining cost of the visit; below zero: a debt
    left: i64,
}

impl ReadScheduler {
    /// The group of new connections until their space is known.
    pub(super) const UNAUTHENTICATED: ReadGroup = ReadGroup(0);

    pub(super) fn new() -> Self {
        let accepted_sockets = GroupState { space: None, count: 0, ready: VecDeque::new(), left: 0 };
        let groups = Slab::from_iter([(Self::UNAUTHENTICATED.0 as usize, accepted_sockets)]);
        Self { groups, of_space: HashMap::new(), order: VecDeque::new(), ready: 0, visits: 0, reads: 0 }
    }

    /// Adds a socket to the group of a space; `leave` undoes it.
    pub(super) fn join(&mut self, space: SpaceKey) -> ReadGroup {
        let group = *self.of_space.entry(space).or_insert_with(|| {
            let members = GroupState { space: Some(space), count: 0, ready: VecDeque::new(), left: 0 };
            ReadGroup(self.groups.insert(members) as u32)
        });
        self.groups[group.0 as usize].count += 1;
        group
    }

    /// Removes a socket from the group. Unauthenticated connections are not counted.
    pub(super) fn leave(&mut self, group: ReadGroup) {
        let Some(space) = self.groups[group.0 as usize].space else { return };
        let members = &mut self.groups[group.0 as usize];
        members.count -= 1;
        if members.count == 0 {
            self.ready -= self.groups.remove(group.0 as usize).ready.len();
            self.of_space.remove(&space);
            self.order.retain(|one| *one != group);
        }
    }

    /// Whether there is nothing to read.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether only one space is in use. Unauthenticated connections are never alone.
    fn is_alone(&self) -> bool {
        self.of_space.len() < 2 && self.order.len() < 2 && self.order.front() != Some(&Self::UNAUTHENTICATED)
    }

    /// Queues a socket of the group that has data to read. The caller queues it only once.
    pub(super) fn push(&mut self, group: ReadGroup, socket: u32) {
        let members = &mut self.groups[group.0 as usize];
        if members.ready.is_empty() {
            members.left = members.left.min(0) + QUANTUM;
            self.order.push_back(group);
        }
        members.ready.push_back(socket);
        self.ready += 1;
    }

    /// Begins a turn of the worker. In a turn each socket is read at most once, and each group is
    /// visited once; a single busy space has no limit of visits.
    pub(super) fn begin_turn(&mut self) {
        self.reads = self.ready;
        self.visits = if self.is_alone() { usize::MAX } else { self.order.len() };
    }

    /// The next socket, and its group; `None` once the turn's visits or reads are used up. The
    /// caller must call `spend` after it.
    pub(super) fn next(&mut self) -> Option<(ReadGroup, u32)> {
        while self.visits > 0 && self.reads > 0 {
            let group = *self.order.front()?;
            let members = &mut self.groups[group.0 as usize];
            if members.left <= 0 {
                // This visit pays a debt.
                self.end_visit(group);
                continue;
            }
            let socket = members.ready.pop_front()?;
            if members.ready.is_empty() {
                self.order.pop_front();
                self.visits -= 1;
            }
            self.ready -= 1;
            self.reads -= 1;
            return Some((group, socket));
        }
        None
    }

    /// Charges the cost of a read to the visit. Once the visit is used up, the next group is
    /// visited.
    pub(super) fn spend(&mut self, group: ReadGroup, bytes: u64) {
        let least = if group == Self::UNAUTHENTICATED { UNAUTHENTICATED_COST } else { READ_COST };
        self.charge(group, bytes.max(least));
        if self.order.front() == Some(&group) && self.groups[group.0 as usize].left <= 0 {
            self.end_visit(group);
        }
    }

    /// Charges work for the group outside its visits.
    pub(super) fn charge(&mut self, group: ReadGroup, cost: u64) {
        if let Some(members) = self.groups.get_mut(group.0 as usize) {
            members.left = members.left.saturating_sub_unsigned(cost);
        }
    }

    /// Ends the visit of the first group.
    fn end_visit(&mut self, group: ReadGroup) {
        self.groups[group.0 as usize].left += QUANTUM;
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

    /// Runs turns in which each read takes `bytes_of` the socket and leaves more; returns the bytes
    /// read by group.
    fn serve(read_scheduler: &mut ReadScheduler, turns: usize, bytes_of: impl Fn(u32) -> u64) -> BTreeMap<u32, u64> {
        let mut had = BTreeMap::new();
        for _ in 0..turns {
            read_scheduler.begin_turn();
            while let Some((group, socket)) = read_scheduler.next() {
                read_scheduler.spend(group, bytes_of(socket));
                *had.entry(group.0).or_default() += bytes_of(socket);
                read_scheduler.push(group, socket);
            }
        }
        had
    }

    #[test]
    fn space_with_a_hundred_sockets_is_read_no_more_than_one_with_one() {
        let mut read_scheduler = ReadScheduler::new();
        let (many, one) = (read_scheduler.join(SpaceKey(1)), read_scheduler.join(SpaceKey(2)));
        (0..100).for_each(|socket| read_scheduler.push(many, socket));
        read_scheduler.push(one, 100);
        let had = serve(&mut read_scheduler, 100, |_| FULL);
        assert_eq!((had[&many.0], had[&one.0]), (100 * FULL, 100 * FULL));
    }

    #[test]
    fn visit_ends_at_its_quantum_and_an_overrun_is_charged_to_the_next_visit() {
        let mut read_scheduler = ReadScheduler::new();
        let (many, one) = (read_scheduler.join(SpaceKey(1)), read_scheduler.join(SpaceKey(2)));
        (0..1000).for_each(|socket| read_scheduler.push(many, socket));
        read_scheduler.push(one, 1000);
        let mut before = 0;
        read_scheduler.begin_turn();
        while read_scheduler.next().is_some_and(|(group, _)| group == many) {
            read_scheduler.spend(many, 100);
            before += 1;
        }
        assert_eq!(before, QUANTUM as u64 / READ_COST);
        // One byte short of a quantum, then a full read: one byte is left of the next visit.
        for bytes in [FULL - 1, FULL] {
            let (group, _) = read_scheduler.next().unwrap_or_else(|| {
                read_scheduler.begin_turn();
                read_scheduler.next().unwrap()
            });
            read_scheduler.spend(group, bytes);
        }
        assert_eq!(read_scheduler.groups[many.0 as usize].left, 1, "all but a byte of the next visit is spent");
    }

    #[test]
    fn cost_beyond_a_visit_is_charged_to_the_following_visits() {
        let mut read_scheduler = ReadScheduler::new();
        let (heavy, light) = (read_scheduler.join(SpaceKey(1)), read_scheduler.join(SpaceKey(2)));
        read_scheduler.push(heavy, 0);
        read_scheduler.push(light, 1);
        let cost = |socket: u32| if socket == 0 { 5 * FULL } else { FULL };
        let had = serve(&mut read_scheduler, 500, cost);
        assert_eq!((had[&heavy.0], had[&light.0]), (100 * 5 * FULL, 500 * FULL));
        read_scheduler.charge(heavy, 10 * FULL);
        let had = serve(&mut read_scheduler, 10, cost);
        assert_eq!((had.get(&heavy.0), had[&light.0]), (None, 10 * FULL), "cost charged outside of visits counts, too");
    }

    #[test]
    fn debt_is_paid_in_idle_turns_and_waived_for_a_space_alone() {
        let mut read_scheduler = ReadScheduler::new();
        let (heavy, light) = (read_scheduler.join(SpaceKey(1)), read_scheduler.join(SpaceKey(2)));
        read_scheduler.push(heavy, 0);
        read_scheduler.charge(heavy, 8 * FULL);
        let turns = (1..100).find(|_| serve(&mut read_scheduler, 1, |_| FULL).contains_key(&heavy.0));
        assert!(turns.is_some_and(|turns| turns <= 9), "{turns:?} empty turns");
        read_scheduler.leave(light);
        read_scheduler.charge(heavy, 8 * FULL);
        assert_eq!(serve(&mut read_scheduler, 1, |_| FULL)[&heavy.0], FULL, "no debt when alone");
    }

    #[test]
    fn turn_reads_each_socket_of_a_lone_space_once_and_bounds_handshakes() {
        let mut read_scheduler = ReadScheduler::new();
        let inside = read_scheduler.join(SpaceKey(1));
        (0..40).for_each(|socket| read_scheduler.push(inside, socket));
        assert_eq!(serve(&mut read_scheduler, 1, |_| FULL)[&inside.0], 40 * FULL);
        (0..40).for_each(|socket| read_scheduler.push(ReadScheduler::UNAUTHENTICATED, 100 + socket));
        for (micros, handshakes) in [(10, 32), (100, 4), (300, 2), (1500, 1)] {
            let cost = cost_of_micros(micros).max(UNAUTHENTICATED_COST);
            let had = serve(&mut read_scheduler, 1, |socket| if socket < 100 { FULL } else { cost });
            let (ours, theirs) = (had[&inside.0], had[&ReadScheduler::UNAUTHENTICATED.0]);
            assert_eq!((ours, theirs), (FULL, handshakes * cost), "{micros} us each");
            read_scheduler.groups[ReadScheduler::UNAUTHENTICATED.0 as usize].left = QUANTUM;
        }
    }

    #[test]
    fn handshake_costs_at_most_one_visit() {
        assert_eq!([0, 1, 1_000, u64::MAX].map(cost_of_micros), [0, COST_PER_MICRO, FULL, FULL]);
    }

    #[test]
    fn space_is_removed_when_its_last_socket_leaves() {
        let mut read_scheduler = ReadScheduler::new();
        let (gone, stays) = (read_scheduler.join(SpaceKey(1)), read_scheduler.join(SpaceKey(2)));
        assert_eq!(read_scheduler.join(SpaceKey(1)), gone);
        read_scheduler.push(gone, 1);
        read_scheduler.push(stays, 2);
        read_scheduler.leave(gone);
        assert!(read_scheduler.of_space.contains_key(&SpaceKey(1)));
        read_scheduler.leave(gone);
        read_scheduler.begin_turn();
        assert_eq!(
            (read_scheduler.next(), read_scheduler.next(), read_scheduler.is_empty()),
            (Some((stays, 2)), None, true)
        );
        assert_eq!((read_scheduler.ready, read_scheduler.groups.len(), read_scheduler.of_space.len()), (0, 2, 1));
    }

    proptest! {
        #[test]
        fn busy_spaces_are_read_equally(
            sockets in prop::collection::vec(200u32..300, 2..8),
            sizes in prop::collection::vec(READ_COST..=FULL, 30),
            turns in 20usize..60,
        ) {
            let mut read_scheduler = ReadScheduler::new();
            for (space, count) in sockets.iter().enumerate() {
                let group = read_scheduler.join(SpaceKey(space as u32));
                (0..*count).for_each(|socket| read_scheduler.push(group, socket));
            }
            let had = serve(&mut read_scheduler, turns, |socket| sizes[socket as usize % sizes.len()]);
            let (least, most) = (had.values().min().unwrap(), had.values().max().unwrap());
            prop_assert!(most - least <= 2 * FULL, "{had:?}");
        }

        #[test]
        fn space_waits_for_at_most_one_visit_of_each_other_space(
            pushes in prop::collection::vec((0u32..6, 1u64..=FULL), 1..200),
        ) {
            let mut read_scheduler = ReadScheduler::new();
            let groups: Vec<_> = (0..7).map(|space| read_scheduler.join(SpaceKey(space))).collect();
            for (number, (space, _)) in pushes.iter().enumerate() {
                read_scheduler.push(groups[*space as usize], number as u32);
            }
            let late = groups[6];
            read_scheduler.push(late, u32::MAX);
            read_scheduler.begin_turn();
            let mut spent: BTreeMap<u32, i64> = BTreeMap::new();
            loop {
                let (group, socket) = read_scheduler.next().expect("its visit is part of the turn");
                if group == late {
                    break;
                }
                read_scheduler.spend(group, pushes[socket as usize].1);
                *spent.entry(group.0).or_default() += pushes[socket as usize].1 as i64;
            }
            prop_assert!(spent.values().all(|bytes| *bytes < 2 * QUANTUM), "{spent:?}");
        }

        #[test]
        fn every_ready_socket_is_read_while_spaces_join_and_leave(
            steps in prop::collection::vec((0u8..5, 0u32..5, 1u64..=FULL), 1..300),
        ) {
            let mut read_scheduler = ReadScheduler::new();
            let mut inside: Vec<(ReadGroup, u32)> = Vec::new();
            let mut waiting: Vec<(ReadGroup, u32)> = Vec::new();
            for (number, (what, space, bytes)) in (0u32..).zip(steps) {
                match what {
                    0 => inside.push((read_scheduler.join(SpaceKey(space)), number)),
                    1 if !inside.is_empty() => {
                        // Its entry in the queue stays unless it was the last socket of its space.
                        let (group, _) = inside.swap_remove(space as usize % inside.len());
                        read_scheduler.leave(group);
                        if inside.iter().all(|(other, _)| *other != group) {
                            waiting.retain(|(other, _)| *other != group);
                        }
                    }
                    2 => {
                        read_scheduler.push(ReadScheduler::UNAUTHENTICATED, number);
                        waiting.push((ReadScheduler::UNAUTHENTICATED, number));
                    }
                    3 if !inside.is_empty() => {
                        let (group, socket) = inside[space as usize % inside.len()];
                        read_scheduler.push(group, socket);
                        waiting.push((group, socket));
                    }
                    _ => {
                        read_scheduler.begin_turn();
                        while let Some(read) = read_scheduler.next() {
                            read_scheduler.spend(read.0, bytes);
                            let place = waiting.iter().position(|one| *one == read);
                            waiting.swap_remove(place.expect("the socket is queued"));
                        }
                    }
                }
                prop_assert_eq!(read_scheduler.ready, waiting.len());
                prop_assert_eq!(read_scheduler.is_empty(), waiting.is_empty());
                prop_assert!(read_scheduler.groups.iter().all(|(_, members)| members.left.abs() <= QUANTUM));
            }
            for _ in 0..=waiting.len() {
                read_scheduler.begin_turn();
                while let Some((group, _)) = read_scheduler.next() {
                    read_scheduler.spend(group, FULL);
                }
            }
            prop_assert!(read_scheduler.is_empty() && read_scheduler.ready == 0);
        }
    }
}
