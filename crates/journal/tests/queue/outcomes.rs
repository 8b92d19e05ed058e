//! Accepted, released, modified, rejected; delivery attempts and their limit.

use enmasse_journal::queue::{Cause, Consume, ConsumerOutcome, Effect, Redelivery, Seq, Settings, State, Target};

use crate::world::{FAILED, NOT_HERE, World, plain};

fn attempts(attempts_max: u16) -> Redelivery {
    Redelivery { attempts_max, ..Redelivery::default() }
}

#[test]
fn released_adds_no_delivery_attempt_and_failed_adds_one() {
    let mut world = World::new(Settings::default());
    world.fill(1);
    let consumer = world.consumer(Consume::default());
    for (outcome, failures) in [(ConsumerOutcome::Released, 0), (FAILED, 1), (NOT_HERE, 1)] {
        world.take(consumer);
        world.settle(0, outcome);
        assert_eq!(world.queue.get(Seq(0)).map(|item| item.failures), Some(failures));
    }
    assert_eq!(world.queue.stats().redelivered, 1);
    assert!(matches!(world.effects[..], [Effect::Retry { due: None, .. }]));
}

#[test]
fn message_goes_to_the_dead_letter_address_after_its_last_attempt() {
    let mut world = World::new(Settings { redelivery: attempts(2), dead_letter: true, ..Settings::default() });
    world.fill(1);
    let consumer = world.consumer(Consume::default());
    for _ in 0..2 {
        assert_eq!(world.take(consumer), Some(0));
        world.settle(0, FAILED);
    }
    assert_eq!(world.take(consumer), None);
    assert_eq!(world.diverted(Target::DeadLetter, Cause::Attempts), [0]);
    assert_eq!(world.queue.stats().leaving, 1);
    let item = world.queue.left(Seq(0)).expect("it was here until now");
    assert_eq!((item.failures, item.state), (2, State::Leaving));
    assert!(world.queue.is_empty() && world.queue.left(Seq(0)).is_none());
}

#[test]
fn failed_message_is_dropped_at_its_limit_and_redelivered_without_limit() {
    let mut world = World::new(Settings { redelivery: attempts(1), ..Settings::default() });
    world.fill(1);
    let consumer = world.consumer(Consume::default());
    world.take(consumer);
    world.settle(0, FAILED);
    assert_eq!(world.removed(Cause::Attempts), [0]);

    let mut world = World::new(Settings { dead_letter: true, ..Settings::default() });
    world.fill(1);
    let consumer = world.consumer(Consume::default());
    for _ in 0..100 {
        assert_eq!(world.take(consumer), Some(0));
        world.settle(0, FAILED);
    }
}

#[test]
fn message_refused_by_the_dead_letter_address_keeps_its_position() {
    let mut world = World::new(Settings { dead_letter: true, ..Settings::default() });
    world.fill(2);
    let consumer = world.consumer(Consume::default());
    world.take(consumer);
    world.settle(0, ConsumerOutcome::Rejected);
    assert_eq!(world.diverted(Target::DeadLetter, Cause::Rejected), [0]);
    assert!(world.queue.stay(Seq(0)) && !world.queue.stay(Seq(0)));
    assert_eq!(world.take_all(consumer), [0, 1]);
}

#[test]
fn rejected_is_a_failed_attempt_without_dead_letter_or_if_configured() {
    let keeps = Settings { dead_letter: true, reject_is_failure: true, ..Settings::default() };
    for settings in [Settings::default(), keeps] {
        let mut world = World::new(settings);
        world.fill(1);
        let consumer = world.consumer(Consume::default());
        world.take(consumer);
        world.settle(0, ConsumerOutcome::Rejected);
        assert_eq!(world.next(consumer).map(|item| item.failures), Some(1));
    }
}

#[test]
fn message_undeliverable_here_is_not_dispatched_to_that_link_again() {
    let mut world = World::new(Settings::default());
    world.fill(3);
    let one = world.consumer(Consume { name: 1, ..Consume::default() });
    let two = world.consumer(Consume { name: 2, ..Consume::default() });
    assert_eq!(world.take(one), Some(0));
    world.settle(0, NOT_HERE);
    assert_eq!(world.take(one), Some(1));
    world.settle(1, ConsumerOutcome::Released);
    // The link attaches again under its name.
    world.queue.detach(one);
    let again = world.consumer(Consume { name: 1, ..Consume::default() });
    assert_eq!(world.take_all(again), [1, 2]);
    assert_eq!(world.take_all(two), [0]);
    world.settle(0, ConsumerOutcome::Released);
    assert_eq!(world.take(again), None);
    assert_eq!(world.take(two), Some(0));
}

#[test]
fn consumer_that_refuses_every_message_receives_each_once() {
    let mut world = World::new(Settings::default());
    world.fill(20_000);
    let picky = world.consumer(Consume { name: 1, ..Consume::default() });
    for seq in 0..20_000 {
        assert_eq!(world.take(picky), Some(seq));
        world.settle(seq, NOT_HERE);
    }
    assert_eq!(world.take(picky), None);
    let other = world.consumer(Consume { name: 2, ..Consume::default() });
    assert_eq!(world.take_all(other).len(), 20_000);
}

#[test]
fn transaction_holds_its_messages_until_the_discharge() {
    let mut world = World::new(Settings::default());
    world.fill(2);
    let consumer = world.consumer(Consume::default());
    world.take_all(consumer);
    assert!(world.queue.retire(Seq(0)) && !world.queue.retire(Seq(0)));
    assert!(world.queue.retire(Seq(1)));
    assert!(world.queue.unretire(Seq(1)), "rolled back: its consumer holds it");
    world.settle(1, ConsumerOutcome::Released);
    world.settle(0, ConsumerOutcome::Accepted);
    assert_eq!(world.take_all(consumer), [1]);
    let posted = world.store(&plain()).seq;
    assert_eq!(world.take(consumer), None, "posted, and its transaction is open");
    world.commit(posted);
    assert_eq!(world.take(consumer), Some(2));
}
