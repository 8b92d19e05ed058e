//! The homes of stored addresses (`docs/decisions/0083-homes-of-queues.md`).
//!
//! What is stored or removed together at the rate of messages has one home, chosen by the space:
//! topics with their subscriptions, and the sessions and retained messages of MQTT. Every other
//! queue, and every stream with its partitions, is a unit. A new unit gets the home with the least
//! weight. The order of units is that of their weights and uids, so a Plan and a log lead to the same
//! homes at each start.

use std::collections::HashMap;
use std::sync::Arc;

use crate::core::{AddressKey, AddressKind};
use crate::table::{AddressEntry, Diff, Space, Table};

/// The homes of units, and the sum of weights at each.
#[derive(Debug, Default)]
pub(super) struct UnitHomes {
    units: HashMap<AddressKey, Placed>,
    weights: Vec<u64>,
}

/// A unit at its home.
#[derive(Clone, Copy, Debug)]
struct Placed {
    home: u16,
    weight: u64,
}

/// The changes of a Plan to the homes of units, for [`UnitHomes::settle`].
#[derive(Debug, Default)]
pub(super) struct Placements {
    added: Vec<(AddressKey, Placed)>,
    removed: Vec<AddressKey>,
}

/// The weight of a unit with these partitions, which hold this many messages. A unit with many
/// messages is likely to have more work; how much more is not known, so its weight grows slowly.
fn weight(partitions: u32, messages: usize) -> u64 {
    u64::from(partitions.max(1)) * u64::from(1 + (messages as u64 + 1).ilog2())
}

impl UnitHomes {
    /// Gives the new stored addresses of a Plan their homes. `messages`: the number of messages that
    /// an address has at the start. Looks at the addresses of the Plan that are new or removed only.
    pub(super) fn place(
        &self,
        diff: &Diff,
        next: &Table,
        workers: u16,
        messages: impl Fn(&AddressEntry) -> usize,
    ) -> Placements {
        let mut placements = Placements::default();
        let mut weights = self.weights.clone();
        weights.resize(usize::from(workers.max(1)), 0);
        for (key, placed) in diff.removed.iter().filter_map(|gone| self.units.get_key_value(&gone.key)) {
            weights[usize::from(placed.home)] -= placed.weight;
            placements.removed.push(*key);
        }
        let mut units: Vec<(u64, &Arc<AddressEntry>)> = Vec::new();
        for entry in &diff.added {
            let Some(storage) = &entry.storage else { continue };
            if is_unit(entry, next) {
                let partitions = storage.stream.as_ref().map_or(1, |stream| stream.partitions);
                units.push((weight(partitions, messages(entry)), entry));
            } else {
                let _ = entry.home.claim(entry.space.stored_home(workers));
            }
        }
        units.sort_unstable_by(|(one, first), (other, second)| other.cmp(one).then_with(|| first.uid.cmp(&second.uid)));
        for (weight, entry) in units {
            let first = entry.space.stored_home(workers);
            let distance = |home: u16| (home + workers - first) % workers;
            let lightest = (0..workers).min_by_key(|home| (weights[usize::from(*home)], distance(*home)));
            let home = entry.home.claim(lightest.unwrap_or(first));
            weights[usize::from(home)] += weight;
            placements.added.push((entry.key, Placed { home, weight }));
        }
        placements
    }

    /// The changes of a Plan are made.
    pub(super) fn settle(&mut self, placements: Placements, workers: u16) {
        self.weights.resize(self.weights.len().max(usize::from(workers)), 0);
        for gone in placements.removed.iter().filter_map(|key| self.units.remove(key)) {
            self.weights[usize::from(gone.home)] -= gone.weight;
        }
        for (key, placed) in placements.added {
            self.weights[usize::from(placed.home)] += placed.weight;
            let before = self.units.insert(key, placed);
            debug_assert!(before.is_none(), "the key of an address is never used again");
        }
    }
}

/// Whether an address is a unit of its own: a queue that belongs neither to a topic nor to MQTT, or a
/// stream.
fn is_unit(entry: &AddressEntry, table: &Table) -> bool {
    let is_of_mqtt = || {
        let store = table.space(entry.space).and_then(Space::mqtt);
        store.is_some_and(|store| [store.retained.key, store.sessions.key].contains(&entry.key))
    };
    let storage = entry.storage.as_ref();
    let is_subscription = storage.is_none_or(|storage| storage.topic.is_some());
    match entry.kind {
        AddressKind::Queue => !is_subscription && !is_of_mqtt(),
        AddressKind::Stream => true,
        AddressKind::Topic | AddressKind::Anycast | AddressKind::Multicast => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    const WORKERS: u16 = 4;

    /// A Plan with a space that has these queues, by uid, and a stream with eight partitions.
    fn table(queues: &[u32], before: &Table) -> Table {
        let queues: String =
            queues.iter().map(|uid| format!(r#"{{"uid": "q{uid:03}", "name": "q{uid}", "type": "queue"}},"#)).collect();
        let plan = format!(
            r#"{{"version": 1, "spaces": [{{"uid": "s", "names": ["s"],
            "authentication": {{"type": "none", "anonymous": true, "mechanisms": []}},
            "addresses": [{queues} {{"uid": "log", "name": "log", "type": "topic", "partitions": 8,
            "retention": {{"bytes": 1000000}}}}]}}]}}"#
        );
        let plan: Plan = serde_json::from_str(&plan).expect("it is a Plan");
        Table::compile(&plan, before).expect("it compiles")
    }

    fn home(table: &Table, name: &str) -> u16 {
        let space = table.spaces().next().expect("one space");
        space.resolve(name).and_then(|entry| entry.home.get()).expect("it has a home")
    }

    /// The sums of weights.
    fn follow(homes: &mut UnitHomes, before: &Table, next: &Table, messages: impl Fn(&str) -> usize) -> Vec<u64> {
        let placements = homes.place(&before.diff(next), next, WORKERS, |entry| messages(&entry.name));
        homes.settle(placements, WORKERS);
        homes.weights.clone()
    }

    #[test]
    fn units_are_spread_by_weight_and_plans_add_and_remove_their_own() {
        let (mut homes, empty) = (UnitHomes::default(), Table::empty([1; 32]));
        let all: Vec<u32> = (0..24).collect();
        let first = table(&all, &empty);
        assert_eq!(follow(&mut homes, &empty, &first, |_| 0), [8; 4], "the stream weighs as much as eight queues");
        let of_stream = home(&first, "log");
        let kept: Vec<u32> = all.into_iter().filter(|uid| home(&first, &format!("q{uid}")) != 0).collect();
        let second = table(&kept, &first);
        let left = if of_stream == 0 { 8 } else { 0 };
        assert_eq!(follow(&mut homes, &first, &second, |_| 0)[0], left);
        let third = table(&[&kept[..], &[100, 101]].concat(), &second);
        assert_eq!(follow(&mut homes, &second, &third, |_| 0).iter().sum::<u64>(), 8 + kept.len() as u64 + 2);
        assert!(left > 0 || [home(&third, "q100"), home(&third, "q101")] == [0, 0], "the lightest home gets them");
        assert_eq!(home(&third, "log"), of_stream, "homes stay");
    }

    #[test]
    fn deep_queues_do_not_share_a_home_after_a_start_and_each_start_leads_to_the_same_homes() {
        let deep = |name: &str| if ["q0", "q4", "q8", "q12"].contains(&name) { 1 << 20 } else { 0 };
        let starts = [(); 2].map(|()| {
            let (mut homes, empty) = (UnitHomes::default(), Table::empty([1; 32]));
            let table = table(&(0..16).collect::<Vec<_>>(), &empty);
            follow(&mut homes, &empty, &table, deep);
            (0..16).map(|uid| home(&table, &format!("q{uid}"))).collect::<Vec<u16>>()
        });
        assert_eq!(starts[0], starts[1]);
        let mut of_deep = [0, 4, 8, 12].map(|uid: usize| starts[0][uid]);
        of_deep.sort_unstable();
        assert_eq!(of_deep, [0, 1, 2, 3]);
    }
}
