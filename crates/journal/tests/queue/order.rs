//! First in, first out; priorities; places kept.

use enmasse_journal::queue::{Cause, Consume, ConsumerOutcome, Settings, State};

use crate::world::{World, of_priority, plain};

#[test]
fn messages_are_dispatched_in_fifo_order() {
    let mut world = World::new(Settings::default());
    world.fill(1000);
    let consumer = world.consumer(Consume::default());
    assert_eq!(world.take_all(consumer), (0..1000).collect::<Vec<_>>());
    for seq in 0..1000 {
        world.settle(seq, ConsumerOutcome::Accepted);
    }
    assert!(world.queue.is_empty());
    assert_eq!(world.removed(Cause::Accepted).len(), 1000);
}

#[test]
fn ten_priorities_are_dispatched_highest_first() {
    let mut world = World::new(Settings::default());
    for n in 0..100 {
        world.put(&of_priority((n % 10) as u8));
    }
    world.put(&of_priority(200));
    let consumer = world.consumer(Consume::default());
    let order = world.take_all(consumer);
    let mut expected: Vec<u64> = (0..100).collect();
    expected.sort_by_key(|n| (9 - n % 10, *n));
    expected.insert(10, 100);
    assert_eq!(order, expected, "above 9 counts as 9");
}

#[test]
fn released_message_returns_to_its_queue_position() {
    let mut world = World::new(Settings::default());
    world.fill(10);
    let consumer = world.consumer(Consume::default());
    for _ in 0..6 {
        world.take(consumer);
    }
    for seq in [4, 1, 3] {
        world.settle(seq, ConsumerOutcome::Released);
    }
    world.put(&of_priority(9));
    assert_eq!(world.take_all(consumer), [10, 1, 3, 4, 6, 7, 8, 9]);
}

#[test]
fn uncommitted_message_is_unavailable_and_keeps_its_position() {
    let mut world = World::new(Settings::default());
    let slow = world.store(&plain()).seq;
    world.fill(2);
    let lost = world.store(&plain()).seq;
    let consumer = world.consumer(Consume::default());
    assert_eq!(world.take(consumer), Some(1));
    world.commit(slow);
    assert!(world.queue.withdraw(lost));
    assert!(!world.queue.withdraw(slow), "too late");
    assert_eq!(world.take_all(consumer), [0, 2]);
    assert_eq!(world.queue.stats().uncommitted, 0);
}

#[test]
fn message_is_acquired_by_one_consumer_only() {
    let mut world = World::new(Settings::default());
    let seq = world.put(&plain());
    let [one, two] = [1, 2].map(|key| world.consumer(Consume { key, ..Consume::default() }));
    assert_eq!(world.queue.candidates().common.len(), 2);
    let item = world.next(one).expect("a message");
    assert_eq!((item.seq, item.state, item.place.offset), (seq, State::Acquired, 0));
    assert_eq!(world.next(two), None);
    assert!(world.queue.candidates().is_empty());
    world.settle(0, ConsumerOutcome::Accepted);
    assert!(!world.queue.settle(world.now, seq, ConsumerOutcome::Released, &mut |_| {}), "it is gone");
}

#[test]
fn queue_can_be_sent_to_another_thread() {
    fn moves<T: Send>() {}
    moves::<enmasse_journal::queue::Queue>();
}

#[test]
fn consumer_without_credit_is_no_candidate() {
    let mut world = World::new(Settings::default());
    world.fill(1);
    let consumer = world.consumer(Consume::default());
    assert_eq!(world.queue.candidates().common, [consumer]);
    world.queue.set_credit(consumer, false);
    assert!(world.queue.candidates().is_empty());
    world.queue.set_credit(consumer, true);
    world.queue.detach(consumer);
    assert!(world.queue.candidates().is_empty());
    assert_eq!(world.next(consumer), None, "the consumer is detached");
}
