//! Operations of administrators.

use enmasse_journal::queue::{
    Cause, Consume, Head, Item, Operation, Progress, Queue, RecordLocation, Seq, Settings, Slice, Target, Verdict,
};

use crate::world::{World, plain};

fn slice(queue: &Queue, operation: Operation, share: usize) -> Slice {
    Slice { operation, from: Seq(0), until: queue.next_seq(), share }
}

fn run(world: &mut World, operation: Operation, matches: impl Fn(&Item) -> bool) -> (usize, usize) {
    let mut slice = slice(&world.queue, operation, 10);
    let (mut slices, mut matched) = (0, 0);
    loop {
        let verdict = |item: &Item| if matches(item) { Verdict::Yes } else { Verdict::No };
        let progress = world.queue.administer(slice, verdict, &mut |effect| world.effects.push(effect));
        assert!(progress.looked <= 10);
        slices += 1;
        matched += progress.matched;
        match progress.next {
            Some(next) => slice.from = next,
            None => return (slices, matched),
        }
    }
}

#[test]
fn purge_runs_in_slices_and_skips_acquired_messages() {
    let mut world = World::new(Settings::default());
    world.fill(100);
    world.put(&Head { due: Some(world.now + 1000), ..plain() });
    let consumer = world.consumer(Consume::default());
    world.take(consumer);
    assert_eq!(run(&mut world, Operation::Look, |_| true), (11, 100), "dry");
    assert_eq!(world.queue.len(), 101);
    assert_eq!(run(&mut world, Operation::Purge, |item| item.seq.0 % 2 == 0), (11, 50));
    assert_eq!(world.removed(Cause::Purged).len(), 50);
    assert_eq!(run(&mut world, Operation::Purge, |_| true).1, 50);
    assert_eq!((world.queue.len(), world.queue.stats().acquired), (1, 1));
}

#[test]
fn moved_message_leaves_once_the_other_address_has_stored_it() {
    let mut world = World::new(Settings::default());
    world.fill(3);
    assert_eq!(run(&mut world, Operation::Move, |item| item.seq.0 != 1).1, 2);
    assert_eq!(world.diverted(Target::Elsewhere, Cause::Moved), [0, 2]);
    assert!(world.queue.left(Seq(0)).is_some() && world.queue.stay(Seq(2)));
    let consumer = world.consumer(Consume::default());
    assert_eq!(world.take_all(consumer), [1, 2]);
    assert!(!world.queue.divert(Seq(1), &mut |_| {}), "a consumer holds it");
}

#[test]
fn purge_with_a_selector_reads_unread_bodies_first() {
    let mut world = World::new(Settings::default());
    world.fill(3);
    let first = slice(&world.queue, Operation::Purge, 10);
    let unread = world.queue.administer(first, |_| Verdict::Unread, &mut |_| {});
    assert_eq!((unread.next, unread.unread.map(|item| item.seq)), (Some(Seq(0)), Some(Seq(0))));
    let done = world.queue.administer(first, |_| Verdict::Yes, &mut |_| {});
    assert_eq!(done, Progress { looked: 3, matched: 3, next: None, unread: None });
}

#[test]
fn body_copied_by_compaction_is_found_at_its_new_location() {
    let mut world = World::new(Settings::default());
    world.fill(1);
    let place = RecordLocation { segment: 7, offset: 7, len: 7 };
    assert!(world.queue.moved(Seq(0), place) && !world.queue.moved(Seq(1), place));
    world.fill(200);
    let there = world.queue.iter(Seq(0)).filter(|item| item.place.segment == 7);
    assert_eq!(there.map(|item| item.seq).collect::<Vec<_>>(), [Seq(0)]);
    assert_eq!(world.queue.iter(Seq(150)).count(), 51);
    assert_eq!(world.queue.get(Seq(0)).map(|item| item.place), Some(place));
}

#[test]
fn statistics_count_messages_by_state() {
    let mut world = World::new(Settings::default());
    let before = world.now;
    world.fill(2);
    world.now += 500;
    world.put(&Head { due: Some(world.now + 1000), size_bytes: 7, ..plain() });
    world.store(&plain());
    let consumer = world.consumer(Consume::default());
    assert_eq!(world.queue.stats().oldest, Some(before));
    world.take(consumer);
    let stats = world.queue.stats();
    assert_eq!((stats.ready, stats.scheduled, stats.acquired, stats.uncommitted, stats.bytes), (1, 1, 1, 1, 307));
    assert_eq!((stats.enqueued, stats.delivered, stats.consumers), (3, 1, 1));
}
