//! Time to live, time of delivery, and the wait before the next attempt.

use enmasse_journal::queue::{Cause, Consume, ConsumerOutcome, Effect, Head, Redelivery, Seq, Settings, Target, Ttl};

use crate::world::{FAILED, World, plain};

fn living(ttl_ms: u64) -> Head {
    Head { ttl_ms: Some(ttl_ms), ..plain() }
}

fn due_in(world: &World, ms: u64) -> Head {
    Head { due: Some(world.now + ms), ..plain() }
}

#[test]
fn idle_queue_expires_messages_at_their_ttl() {
    let mut world = World::new(Settings::default());
    world.put(&living(500));
    world.put(&plain());
    world.put(&living(200));
    assert_eq!(world.queue.next_timeout(), Some(world.now + 200));
    world.pass(200);
    assert_eq!(world.removed(Cause::Expired), [2]);
    assert_eq!(world.queue.next_timeout(), Some(world.now + 300));
    world.pass(299);
    assert_eq!(world.removed(Cause::Expired), []);
    world.pass(1);
    assert_eq!(world.removed(Cause::Expired), [0]);
    assert_eq!((world.queue.next_timeout(), world.queue.len()), (None, 1));
}

#[test]
fn expired_messages_go_to_the_expiry_address() {
    let ttl = Ttl { minimum_ms: None, maximum_ms: Some(1000) };
    let mut world = World::new(Settings { expiry: true, ttl, ..Settings::default() });
    world.put(&plain());
    world.pass(1000);
    assert_eq!(world.diverted(Target::Expiry, Cause::Expired), [0]);
    assert!(world.queue.left(Seq(0)).is_some());
    assert_eq!(world.queue.stats().diverted[Cause::Expired as usize], 1);
}

#[test]
fn expired_message_is_not_dispatched_even_before_the_timer() {
    let mut world = World::new(Settings::default());
    world.put(&living(10));
    world.fill(1);
    let consumer = world.consumer(Consume::default());
    world.now += 10;
    assert_eq!(world.take(consumer), Some(1));
    world.pass(0);
    assert_eq!(world.removed(Cause::Expired), [0]);
}

#[test]
fn acquired_message_expires_only_when_it_is_returned() {
    let mut world = World::new(Settings::default());
    world.put(&living(10));
    world.put(&living(10));
    let consumer = world.consumer(Consume::default());
    world.take_all(consumer);
    world.pass(20);
    assert_eq!((world.queue.len(), world.queue.next_timeout()), (2, None));
    world.settle(0, ConsumerOutcome::Accepted);
    world.settle(1, FAILED);
    assert_eq!(world.removed(Cause::Expired), [1]);
}

#[test]
fn message_committed_after_its_expiry_expires_at_once() {
    let mut world = World::new(Settings::default());
    let seq = world.store(&living(10)).seq;
    world.pass(20);
    world.commit(seq);
    world.pass(0);
    assert_eq!(world.removed(Cause::Expired), [0]);
}

#[test]
fn scheduled_messages_become_available_when_due_behind_waiting_ones() {
    let mut world = World::new(Settings::default());
    let heads = [3000, 1000, 1000, 2000].map(|ms| due_in(&world, ms));
    heads.iter().for_each(|head| assert!(world.put(head).0 < 4));
    world.put(&plain());
    let consumer = world.consumer(Consume::default());
    assert_eq!(world.take_all(consumer), [4]);
    world.pass(2500);
    let items: Vec<_> = std::iter::from_fn(|| world.next(consumer)).collect();
    assert_eq!(items.iter().map(|item| item.id.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(items.iter().all(|item| item.seq.0 > 4));
    world.settle(items[1].seq.0, ConsumerOutcome::Released);
    assert_eq!(world.next(consumer).map(|item| item.id.0), Some(2), "its id in the log stays");
    for item in &items {
        world.settle(item.seq.0, ConsumerOutcome::Accepted);
    }
    let ids = world.effects.iter().map(|effect| match effect {
        Effect::Remove { item, .. } => item.id.0,
        other => panic!("{other:?}"),
    });
    assert_eq!(ids.collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(world.queue.next_timeout(), Some(world.now + 500));
}

#[test]
fn delivery_time_that_passes_before_the_commit_is_ignored() {
    let mut world = World::new(Settings::default());
    let head = due_in(&world, 100);
    let seq = world.store(&head).seq;
    world.pass(100);
    world.commit(seq);
    let consumer = world.consumer(Consume::default());
    assert_eq!(world.take(consumer), Some(0));
    let past = Head { due: Some(world.now), ..plain() };
    world.put(&past);
    assert_eq!(world.take(consumer), Some(1));
}

#[test]
fn a_scheduled_message_may_expire_before_it_is_due() {
    let mut world = World::new(Settings::default());
    let head = Head { ttl_ms: Some(500), ..due_in(&world, 1000) };
    world.put(&head);
    world.pass(500);
    assert_eq!(world.removed(Cause::Expired), [0]);
    world.pass(1000);
    assert!(world.queue.is_empty() && world.queue.next_timeout().is_none());
}

#[test]
fn failed_message_waits_longer_after_each_attempt_and_keeps_its_position() {
    let redelivery = Redelivery { attempts_max: 0, delay_ms: 100, multiplier: 3.0, delay_max_ms: 500 };
    let mut world = World::new(Settings { redelivery, ..Settings::default() });
    world.fill(2);
    let consumer = world.consumer(Consume::default());
    for delay in [100, 300, 500, 500] {
        assert_eq!(world.take(consumer), Some(0));
        world.settle(0, FAILED);
        assert_eq!(world.queue.stats().scheduled, 1);
        assert_eq!(world.take(consumer), Some(1), "others do not wait for it");
        world.settle(1, ConsumerOutcome::Released);
        world.pass(delay - 1);
        assert_eq!(world.take(consumer), Some(1));
        world.settle(1, ConsumerOutcome::Released);
        world.pass(1);
    }
    assert_eq!(world.take_all(consumer), [0, 1]);
}

#[test]
fn mass_expiry_is_split_into_bounded_turns() {
    let mut world = World::new(Settings::default());
    for _ in 0..100_000 {
        world.put(&living(5));
    }
    world.now += 5;
    let mut gone = 0;
    let mut turns = 0;
    while world.queue.next_timeout().is_some_and(|at| at <= world.now) {
        let mut share = 0;
        world.queue.timeout(world.now, &mut |_| share += 1);
        assert!(share <= 1024, "{share} in one turn");
        gone += share;
        turns += 1;
    }
    assert_eq!(gone, 100_000);
    assert!(turns > 100);
}
