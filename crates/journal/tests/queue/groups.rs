//! Message groups: sticky to a consumer, or in order of their key.

use enmasse_journal::queue::{
    Cause, Consume, ConsumerId, ConsumerOutcome, Group, Grouping, Head, Priority, Redelivery, Seq, Settings,
};

use proptest::prelude::*;

use crate::world::{FAILED, World, plain};

fn of(digest: u64) -> Head {
    Head { group: Some(Group { digest, sequence: 1 }), ..plain() }
}

fn per_key() -> Settings {
    Settings { grouping: Grouping::PerKey, ..Settings::default() }
}

fn two(world: &mut World) -> [ConsumerId; 2] {
    [1, 2].map(|key| world.consumer(Consume { key, name: key, ..Consume::default() }))
}

#[test]
fn a_group_stays_with_its_consumer() {
    let mut world = World::new(Settings::default());
    for digest in [1, 1, 2, 1, 2, 1] {
        world.put(&of(digest));
    }
    world.put(&plain());
    let [one, two] = two(&mut world);
    assert_eq!((world.take(one), world.take(two)), (Some(0), Some(2)));
    assert_eq!(world.take_all(two), [4, 6], "its own group and the message without a group");
    assert_eq!(world.take_all(one), [1, 3, 5]);
    world.settle(3, ConsumerOutcome::Released);
    assert_eq!((world.take(two), world.queue.candidates().own), (None, [one].as_slice()));
    assert_eq!(world.take(one), Some(3));
}

#[test]
fn one_consumer_receives_all_messages_of_a_group() {
    let mut world = World::new(Settings::default());
    for n in 0..20 {
        world.put(&if n % 4 == 3 { plain() } else { of(7) });
    }
    let [one, two] = two(&mut world);
    let mut got = [Vec::new(), Vec::new()];
    for _ in 0..20 {
        for (consumer, got) in [one, two].into_iter().zip(&mut got) {
            got.extend(world.take(consumer));
        }
    }
    assert_eq!((got[0].len() + got[1].len(), got[0].iter().filter(|seq| **seq % 4 != 3).count()), (20, 15));
}

#[test]
fn groups_of_a_detached_consumer_move_to_another() {
    let mut world = World::new(Settings::default());
    for _ in 0..4 {
        world.put(&of(1));
    }
    let [one, two] = two(&mut world);
    assert_eq!((world.take(one), world.take(two)), (Some(0), None));
    world.settle(0, FAILED);
    assert!(world.queue.candidates().common.is_empty());
    world.queue.detach(one);
    assert_eq!(world.queue.candidates().common, [two]);
    assert_eq!(world.take_all(two), [0, 1, 2, 3]);
}

#[test]
fn empty_group_stays_with_its_consumer_until_it_detaches() {
    let mut world = World::new(Settings::default());
    let [one, two] = two(&mut world);
    world.put(&of(1));
    assert_eq!(world.take(one), Some(0));
    world.settle(0, ConsumerOutcome::Accepted);
    assert_eq!(world.queue.stats().groups, 0, "none has messages");
    world.put(&of(1));
    assert_eq!((world.take(two), world.take(one)), (None, Some(1)));
    world.settle(1, ConsumerOutcome::Accepted);
    world.queue.detach(one);
    world.put(&of(1));
    assert_eq!(world.take(two), Some(2));
}

#[test]
fn a_closed_group_without_messages_is_forgotten() {
    let mut world = World::new(Settings::default());
    let [one, two] = two(&mut world);
    world.put(&Head { group: Some(Group { digest: 1, sequence: Group::CLOSE }), ..plain() });
    assert_eq!(world.take(one), Some(0));
    world.settle(0, ConsumerOutcome::Accepted);
    world.put(&of(1));
    assert_eq!(world.take(two), Some(1));
}

#[test]
fn the_longest_idle_groups_are_forgotten() {
    let mut world = World::new(Settings::default());
    let [one, two] = two(&mut world);
    let last = 5_000;
    for digest in 0..=last {
        world.put(&of(digest));
        let seq = world.take(one).expect("no other consumer has it");
        world.settle(seq, ConsumerOutcome::Accepted);
    }
    world.put(&of(0));
    world.put(&of(last));
    assert_eq!(world.take_all(two), [last + 1], "the consumer of the oldest group is forgotten");
    assert_eq!(world.take_all(one), [last + 2]);
}

#[test]
fn the_last_message_of_a_group_closes_it() {
    let mut world = World::new(Settings::default());
    let close = Head { group: Some(Group { digest: 1, sequence: Group::CLOSE }), ..plain() };
    for head in [&of(1), &close, &of(1)] {
        world.put(head);
    }
    let [one, two] = two(&mut world);
    assert_eq!(world.take(one), Some(0));
    assert_eq!(world.take(two), None);
    assert_eq!(world.take(one), Some(1));
    assert_eq!(world.take(two), Some(2), "the group starts again");
}

#[test]
fn key_stays_with_one_consumer_while_it_holds_messages_of_the_key() {
    let mut world = World::new(per_key());
    for digest in [1, 2, 1, 1, 2] {
        world.put(&of(digest));
    }
    let [one, two] = two(&mut world);
    assert_eq!((world.take(one), world.take(two)), (Some(0), Some(1)));
    assert_eq!(world.take(one), Some(2), "the holder may acquire more of its key");
    world.settle(0, ConsumerOutcome::Accepted);
    assert_eq!(world.take_all(two), [4]);
    world.settle(2, ConsumerOutcome::Accepted);
    assert_eq!(world.take(two), Some(3), "no consumer holds any of it");
    assert_eq!(world.take(one), None);
}

#[test]
fn key_waits_for_the_redelivery_of_its_failed_message() {
    let redelivery = Redelivery { delay_ms: 100, attempts_max: 2, ..Redelivery::default() };
    let mut world = World::new(Settings { redelivery, ..per_key() });
    for digest in [1, 1, 2] {
        world.put(&of(digest));
    }
    let [one, two] = two(&mut world);
    world.take(one);
    world.settle(0, FAILED);
    assert_eq!((world.take_all(two), world.take(one)), (vec![2], None));
    world.pass(100);
    assert_eq!(world.take(two), Some(0));
    world.settle(0, FAILED);
    assert_eq!(world.removed(Cause::Attempts), [0]);
    assert_eq!(world.take(one), Some(1), "the failed message is gone: the next is available");
}

#[test]
fn key_of_a_detached_consumer_waits_until_its_message_is_settled() {
    let mut world = World::new(per_key());
    world.put(&of(1));
    world.put(&of(1));
    let [one, two] = two(&mut world);
    world.take(one);
    world.queue.detach(one);
    assert_eq!(world.take(two), None);
    world.settle(0, FAILED);
    assert_eq!(world.take_all(two), [0, 1]);
}

#[test]
fn priorities_apply_within_and_between_groups() {
    let mut world = World::new(Settings::default());
    let urgent = |digest| Head { priority: Priority::new(8), ..of(digest) };
    for head in [of(1), of(2), urgent(2), plain(), urgent(1)] {
        world.put(&head);
    }
    let [one, two] = two(&mut world);
    assert_eq!((world.take(one), world.take(two)), (Some(2), Some(4)));
    assert_eq!((world.take(one), world.take(one), world.take(two)), (Some(1), Some(3), Some(0)));
}

#[test]
fn selector_examines_a_group_again_once_it_is_free() {
    let mut world = World::new(per_key());
    for digest in [1, 1, 1, 2] {
        world.put(&of(digest));
    }
    let [one, _] = two(&mut world);
    let picky = world.consumer(Consume { selects: true, ..Consume::default() });
    assert_eq!(world.take(one), Some(0));
    let even = |world: &mut World| world.next_if(picky, |item| item.seq.0 % 2 == 0).map(|item| item.seq.0);
    assert_eq!(even(&mut world), None, "another consumer holds the key of 2");
    world.settle(0, ConsumerOutcome::Accepted);
    assert_eq!(even(&mut world), Some(2));
    assert_eq!(world.take(one), Some(3), "the selector holds the key of 1 now");
}

#[test]
fn long_group_of_another_consumer_does_not_slow_dispatch() {
    let mut world = World::new(Settings::default());
    world.put(&of(1));
    let [one, two] = two(&mut world);
    world.take(one);
    for _ in 0..100_000 {
        world.put(&of(1));
    }
    for n in 0..10_000 {
        world.put(&of(2 + n));
        assert_eq!(world.take(two), Some(100_001 + n));
    }
    for seq in [0, 100_001] {
        world.settle(seq, ConsumerOutcome::Accepted);
    }
    assert_eq!(world.take_all(one).len(), 100_000);
}

proptest! {
    /// Many consumers take and settle in any order: the messages of a key are dispatched in their
    /// order, to one consumer at a time, and all of them arrive.
    #[test]
    fn the_order_of_a_key_is_kept_with_many_consumers(
        keys in prop::collection::vec(0..5_u64, 1..120),
        turns in prop::collection::vec((0..6_usize, any::<bool>(), 0..8_usize), 1..400),
    ) {
        let mut world = World::new(per_key());
        for key in &keys {
            world.put(&of(*key));
        }
        let consumers: Vec<ConsumerId> =
            (0..6).map(|key| world.consumer(Consume { key, name: key, ..Consume::default() })).collect();
        let mut held: Vec<(u64, usize)> = Vec::new();
        let mut last = [None; 5];
        let rounds = (0..2 * keys.len()).flat_map(|n| [(n % 6, true, 0), (0, false, 0)]);
        for (consumer, takes, choice) in turns.into_iter().chain(rounds) {
            if takes {
                let Some(seq) = world.take(consumers[consumer]) else { continue };
                let key = keys[seq as usize] as usize;
                prop_assert!(last[key] < Some(seq), "{seq} of {key} after {:?}", last[key]);
                last[key] = Some(seq);
                let elsewhere = held.iter().any(|(other, at)| keys[*other as usize] as usize == key && *at != consumer);
                prop_assert!(!elsewhere, "another holds messages of {key}");
                held.push((seq, consumer));
            } else if !held.is_empty() {
                let (seq, _) = held.swap_remove(choice % held.len());
                world.settle(seq, ConsumerOutcome::Accepted);
            }
        }
        prop_assert!(world.queue.is_empty());
    }
}

#[test]
fn group_waits_for_unsettled_messages_of_a_detached_consumer() {
    for grouping in [Grouping::Sticky, Grouping::PerKey] {
        let mut world = World::new(Settings { grouping, ..Settings::default() });
        for _ in 0..3 {
            world.put(&of(1));
        }
        let [one, other] = two(&mut world);
        assert_eq!(world.take(one), Some(0));
        // The link may resume.
        world.queue.detach(one);
        assert_eq!(world.take(other), None, "{grouping:?}");
        let again = world.consumer(Consume { key: 1, ..Consume::default() });
        assert!(world.queue.reassign(Seq(0), again));
        assert_eq!((world.take(other), world.take(again)), (None, Some(1)), "{grouping:?}");
        world.queue.detach(again);
        world.settle(1, ConsumerOutcome::Released);
        assert_eq!(world.take(other), None);
        world.settle(0, FAILED);
        assert_eq!(world.take_all(other), [0, 1, 2]);
    }
}
