//! The homes of stored addresses (`docs/decisions/0083-homes-of-queues.md`).
//!
//! What is stored or removed together at the rate of messages is a unit with one home: a topic with
//! its subscriptions, a stream with its partitions, any other queue. The sessions and retained
//! messages of MQTT have a home that the space chooses, and so have its topics that clients of MQTT may
//! use. A new unit gets the home with the least weight. The order of units is that of their weights and
//! uids, so a Plan and a log lead to the same homes at each start.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::core::{AddressKey, AddressKind};
use crate::plan::Protocol;
use crate::table::{AddressEntry, Diff, Space, SpaceKey, Table};

/// The homes of units, and the sum of weights at each.
#[derive(Debug, Default)]
pub(super) struct UnitHomes {
    members: HashMap<AddressKey, Member>,
    /// the homes of topics or their subscriptions, and how many of these there are
    topics: HashMap<TopicName, (u16, u32)>,
    weights: Vec<u64>,
}

/// A topic by the name that its subscriptions have of it, whether it is declared or missing.
type TopicName = (SpaceKey, Box<str>);

/// Identifies a unit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UnitName {
    Address(AddressKey),
    Topic(TopicName),
}

/// An address of a unit, at the home of that.
#[derive(Clone, Debug)]
struct Member {
    home: u16,
    weight: u64,
    topic: Option<TopicName>,
}

/// A unit that gets a home.
#[derive(Debug, Default)]
struct Unit<'a> {
    weight: u64,
    entries: Vec<(u64, &'a Arc<AddressEntry>)>,
}

impl Unit<'_> {
    /// Whether sessions of MQTT may have subscriptions of it. Of a topic that is not declared yet they
    /// may.
    fn serves_mqtt(&self) -> bool {
        let topic = self.entries.iter().find(|(_, entry)| entry.kind == AddressKind::Topic);
        topic.is_none_or(|(_, entry)| entry.serves(Protocol::Mqtt))
    }
}

/// The changes of a Plan to the homes of units, for [`UnitHomes::settle`].
#[derive(Debug, Default)]
pub(super) struct Placements {
    added: Vec<(AddressKey, Member)>,
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
        for (key, gone) in diff.removed.iter().filter_map(|gone| self.members.get_key_value(&gone.key)) {
            weights[usize::from(gone.home)] -= gone.weight;
            placements.removed.push(*key);
        }
        let mut units: BTreeMap<UnitName, Unit<'_>> = BTreeMap::new();
        for entry in &diff.added {
            let Some(storage) = &entry.storage else { continue };
            let Some(name) = unit_of(entry, next) else {
                let _ = entry.home.claim(entry.space.stored_home(workers));
                continue;
            };
            let partitions = storage.stream.as_ref().map_or(1, |stream| stream.partitions);
            let weight = weight(partitions, messages(entry));
            let unit = units.entry(name).or_default();
            unit.weight += weight;
            unit.entries.push((weight, entry));
        }
        let mut units: Vec<(UnitName, Unit<'_>)> = units.into_iter().collect();
        units.sort_by_cached_key(|(_, unit)| {
            let uid = unit.entries.iter().map(|(_, entry)| entry.uid.clone()).min();
            (Reverse(unit.weight), uid)
        });
        for (name, unit) in units {
            let home = self.home_for(&name, &unit, next, &weights);
            weights[usize::from(home)] += unit.weight;
            let topic = if let UnitName::Topic(topic) = name { Some(topic) } else { None };
            for (weight, entry) in unit.entries {
                let claimed = entry.home.claim(home);
                debug_assert_eq!(claimed, home, "a new address has no home");
                placements.added.push((entry.key, Member { home, weight, topic: topic.clone() }));
            }
        }
        placements
    }

    /// The home of a new unit, or of new addresses of a topic that has one: `weights` are those of all
    /// homes.
    fn home_for(&self, name: &UnitName, unit: &Unit<'_>, next: &Table, weights: &[u64]) -> u16 {
        let workers = weights.len() as u16;
        if let UnitName::Topic(topic) = name {
            let known = self.topics.get(topic).map(|(home, _)| *home);
            let of_sessions = next.space(topic.0).and_then(Space::mqtt).filter(|_| unit.serves_mqtt());
            if let Some(home) = known.or(of_sessions.map(|_| topic.0.stored_home(workers))) {
                return home;
            }
        }
        let first = unit.entries.first().map_or(0, |(_, entry)| entry.space.stored_home(workers));
        let distance = |home: u16| (home + workers - first) % workers;
        let lightest = (0..workers).min_by_key(|home| (weights[usize::from(*home)], distance(*home)));
        lightest.unwrap_or(first)
    }

    /// The changes of a Plan are made. The parts of a topic that stay keep its home.
    pub(super) fn settle(&mut self, placements: Placements, workers: u16) {
        self.weights.resize(self.weights.len().max(usize::from(workers)), 0);
        for (key, added) in placements.added {
            self.weights[usize::from(added.home)] += added.weight;
            if let Some(topic) = &added.topic {
                self.topics.entry(topic.clone()).or_insert((added.home, 0)).1 += 1;
            }
            let before = self.members.insert(key, added);
            debug_assert!(before.is_none(), "the key of an address is never used again");
        }
        for gone in placements.removed.iter().filter_map(|key| self.members.remove(key)) {
            self.weights[usize::from(gone.home)] -= gone.weight;
            let Some(topic) = gone.topic else { continue };
            if let Some((_, members)) = self.topics.get_mut(&topic) {
                *members -= 1;
                if *members == 0 {
                    self.topics.remove(&topic);
                }
            }
        }
    }
}

/// The unit of an address; `None`: it belongs to MQTT, or is not stored.
fn unit_of(entry: &AddressEntry, table: &Table) -> Option<UnitName> {
    let store = table.space(entry.space).and_then(Space::mqtt);
    if store.is_some_and(|store| [store.retained.key, store.sessions.key].contains(&entry.key)) {
        return None;
    }
    let topic = |name: &str| UnitName::Topic((entry.space, name.into()));
    match (entry.kind, entry.storage.as_ref()?.topic.as_deref()) {
        (AddressKind::Queue, Some(name)) => Some(topic(name)),
        (AddressKind::Topic, _) => Some(topic(&entry.name)),
        (AddressKind::Queue | AddressKind::Stream, _) => Some(UnitName::Address(entry.key)),
        (AddressKind::Anycast | AddressKind::Multicast, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::Plan;

    const WORKERS: u16 = 4;

    /// A Plan with a space that has these queues, by uid, and a stream with eight partitions.
    fn table(queues: &[u32], before: &Table) -> Table {
        let queues: String =
            queues.iter().map(|uid| format!(r#"{{"uid": "q{uid:03}", "name": "q{uid}", "type": "queue"}},"#)).collect();
        let stream = r#"{"uid": "log", "name": "log", "type": "topic", "partitions": 8,
            "retention": {"bytes": 1000000}}"#;
        compiled(&format!("{queues} {stream}"), before)
    }

    /// A Plan with a space that has these addresses.
    fn compiled(addresses: &str, before: &Table) -> Table {
        with_member("", addresses, before)
    }

    /// The same with one more member of the space.
    fn with_member(member: &str, addresses: &str, before: &Table) -> Table {
        let plan = format!(
            r#"{{"version": 1, "spaces": [{{"uid": "s", "names": ["s"], {member}
            "authentication": {{"type": "none", "anonymous": true, "mechanisms": []}}, "addresses": [{addresses}]}}]}}"#
        );
        let plan: Plan = serde_json::from_str(&plan).expect("it is a Plan");
        Table::compile(&plan, before).expect("it compiles")
    }

    /// Topics in their declared order, each with as many subscriptions as it says.
    fn topics(of: &[(&str, u32)]) -> String {
        let subscription = |topic: &str, number: u32| {
            format!(
                r#", {{"uid": "{topic}-{number}", "name": "{topic}::{number}", "type": "subscription",
                "subscription": {{"topic": "{topic}", "maxConsumers": 1}}}}"#
            )
        };
        let declared = of.iter().map(|(topic, subscriptions)| {
            let subscriptions: String = (0..*subscriptions).map(|number| subscription(topic, number)).collect();
            format!(r#"{{"uid": "{topic}", "name": "{topic}", "type": "topic"}}{subscriptions}"#)
        });
        declared.collect::<Vec<_>>().join(",")
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

    #[test]
    fn topics_are_spread_and_their_subscriptions_are_where_they_are() {
        let (mut homes, empty) = (UnitHomes::default(), Table::empty([1; 32]));
        let first = compiled(&topics(&[("a", 3), ("b", 0), ("c", 1), ("d", 0)]), &empty);
        let mut weights = follow(&mut homes, &empty, &first, |_| 0);
        weights.sort_unstable();
        assert_eq!(weights, [1, 1, 2, 4]);
        for number in 0..3 {
            assert_eq!(home(&first, &format!("a::{number}")), home(&first, "a"));
        }
        assert_eq!(home(&first, "c::0"), home(&first, "c"));
    }

    #[test]
    fn topics_for_clients_of_mqtt_have_the_home_of_their_sessions() {
        let (mut homes, empty) = (UnitHomes::default(), Table::empty([1; 32]));
        let mqtt = r#""mqtt": {"retainedMessages": 10, "retainedBytes": 1000, "sessionExpiryS": 60},"#;
        let of_amqp = |number: u32| {
            format!(r#", {{"uid": "q{number}", "name": "q{number}", "type": "topic", "protocols": ["amqp"]}}"#)
        };
        let of_amqp: String = (0..WORKERS.into()).map(of_amqp).collect();
        let table = with_member(mqtt, &(topics(&[("a", 1), ("b", 0)]) + &of_amqp), &empty);
        follow(&mut homes, &empty, &table, |_| 0);
        let of_mqtt = table.spaces().next().and_then(Space::mqtt).map(|store| [&store.retained, &store.sessions]);
        let mut stored = of_mqtt.expect("it keeps sessions").map(|entry| entry.home.get()).to_vec();
        stored.extend(["a", "a::0", "b"].map(|name| Some(home(&table, name))));
        stored.dedup();
        assert_eq!(stored.len(), 1, "{stored:?}");
        let spread: BTreeSet<u16> = (0..WORKERS).map(|number| home(&table, &format!("q{number}"))).collect();
        assert!(spread.len() > 1, "topics for clients of AMQP spread");
    }

    #[test]
    fn topic_and_its_subscriptions_keep_their_home_whichever_of_them_is_declared_first_or_again() {
        let (mut homes, empty) = (UnitHomes::default(), Table::empty([1; 32]));
        let heavy = topics(&[("heavy", 20)]);
        let lonely = r#", {"uid": "s", "name": "late::s", "type": "subscription",
            "subscription": {"topic": "late", "maxConsumers": 1}}"#;
        let first = compiled(&format!("{heavy}{lonely}"), &empty);
        follow(&mut homes, &empty, &first, |_| 0);
        let its = home(&first, "late::s");
        let with_others = topics(&[("heavy", 20), ("1", 9), ("2", 9), ("3", 9), ("late", 0)]);
        let second = compiled(&format!("{with_others}{lonely}"), &first);
        follow(&mut homes, &first, &second, |_| 0);
        assert_eq!((home(&second, "late"), home(&second, "late::s")), (its, its), "the topic is declared later");
        let third = compiled(&with_others, &second);
        follow(&mut homes, &second, &third, |_| 0);
        let fourth = compiled(&format!("{heavy}{lonely}"), &third);
        let weights = follow(&mut homes, &third, &fourth, |_| 0);
        assert_eq!(home(&fourth, "late::s"), its, "the topic goes while the subscription comes");
        assert_eq!((weights.iter().sum::<u64>(), homes.topics.len()), (22, 2), "no member of former topics is left");
    }

    #[test]
    fn topics_with_many_messages_do_not_share_a_home_after_a_start() {
        let (mut homes, empty) = (UnitHomes::default(), Table::empty([1; 32]));
        let names: Vec<String> = (0..16).map(|number| format!("t{number:02}")).collect();
        let declared: Vec<(&str, u32)> = names.iter().map(|name| (&**name, 0)).collect();
        let table = compiled(&topics(&declared), &empty);
        follow(
            &mut homes,
            &empty,
            &table,
            |name| if ["t00", "t04", "t08", "t12"].contains(&name) { 1 << 20 } else { 0 },
        );
        let mut of_deep = ["t00", "t04", "t08", "t12"].map(|name| home(&table, name));
        of_deep.sort_unstable();
        assert_eq!(of_deep, [0, 1, 2, 3]);
    }
}
