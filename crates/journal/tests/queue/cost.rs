//! What a message costs: memory, as asked of the allocator; and, printed on request, time.
//!
//! `cargo test --release -p enmasse-journal --test queue -- --ignored --nocapture cost`

use std::time::Instant;

use enmasse_journal::queue::{Consume, Group, Head, Outcome, Place, Queue, Record, Restored, Seq, Settings};

use crate::world::{World, plain};

fn bytes_each(world: &World) -> f64 {
    world.queue.heap_bytes() as f64 / world.queue.len() as f64
}

#[test]
fn a_waiting_message_takes_at_most_48_bytes() {
    let mut world = World::new(Settings::default());
    world.fill(1_000_000);
    assert!(bytes_each(&world) <= 48.0, "{}", bytes_each(&world));
    // Time to live costs a few bytes a block, not a message.
    let mut world = World::new(Settings::default());
    for n in 0..1_000_000 {
        world.put(&Head { ttl_ms: Some(n * 7919 % 100_000), ..plain() });
    }
    assert!(bytes_each(&world) <= 48.0, "{}", bytes_each(&world));
}

#[test]
fn messages_of_groups_take_little_more() {
    let mut world = World::new(Settings::default());
    for n in 0..1_000_000 {
        world.put(&Head { group: Some(Group { digest: n % 1000, sequence: 0 }), ..plain() });
    }
    assert!(bytes_each(&world) <= 54.0, "{}", bytes_each(&world));
}

#[test]
fn memory_follows_what_is_left() {
    let mut world = World::new(Settings::default());
    world.fill(1_000_000);
    let consumer = world.consumer(Consume { selects: true, ..Consume::default() });
    while let Some(item) = world.next_if(consumer, |item| item.seq.0 % 100 != 0) {
        world.settle(item.seq.0, Outcome::Accepted);
    }
    world.effects.clear();
    assert_eq!(world.queue.len(), 10_000);
    assert!(bytes_each(&world) <= 300.0, "scattered, one of a hundred: {}", bytes_each(&world));
}

#[test]
fn a_small_queue_is_small() {
    let mut world = World::new(Settings::default());
    world.fill(100);
    assert!(size_of::<Queue>() + world.queue.heap_bytes() < 10_000);
}

/// Nanoseconds of one of `count` runs.
#[expect(clippy::disallowed_methods, reason = "figures are taken with a clock")]
fn measure(name: &str, count: u64, mut run: impl FnMut(u64)) {
    let begin = Instant::now();
    (0..count).for_each(&mut run);
    let each = begin.elapsed().as_nanos() as f64 / count as f64;
    println!("{name:60} {each:8.1} ns");
}

#[test]
#[ignore = "prints figures"]
fn cost() {
    const COUNT: u64 = 1_000_000;
    let place = Place { segment: 1, offset: 2, len: 3 };
    for (name, depth, head) in [
        ("offer, commit, next, accept; nothing waits", 0, plain()),
        ("the same, 1,000 wait", 1000, plain()),
        ("the same, 1,000,000 wait", COUNT, plain()),
        ("the same, 1,000 wait, time to live", 1000, Head { ttl_ms: Some(60_000), ..plain() }),
        ("the same, 1,000 wait, one group", 1000, Head { group: Some(Group::default()), ..plain() }),
    ] {
        let mut world = World::new(Settings::default());
        for _ in 0..depth {
            world.put(&head);
        }
        let consumer = world.consumer(Consume::default());
        measure(name, COUNT, |_| {
            let seq = world.store(&head).seq;
            world.queue.committed(seq, place, &mut |_| {});
            let item = world.next(consumer).expect("a message");
            world.queue.settle(world.now, item.seq, Outcome::Accepted, &mut |_| {});
        });
    }
    let mut world = World::new(Settings::default());
    let consumer = world.consumer(Consume::default());
    measure("offer and commit", COUNT, |_| {
        let seq = world.store(&plain()).seq;
        world.queue.committed(seq, place, &mut |_| {});
    });
    measure("next and accept", COUNT, |_| {
        let item = world.next(consumer).expect("a message");
        world.queue.settle(world.now, item.seq, Outcome::Accepted, &mut |_| {});
    });
    let selecting = world.consumer(Consume { selects: true, ..Consume::default() });
    world.fill(COUNT);
    measure("a selector passes over a message", 1, |_| assert!(world.next_if(selecting, |_| false).is_none()));
    let record = Record { size_bytes: 100, ..Record::default() };
    let entries = (0..COUNT).map(|id| Restored { id: Seq(id), place, record });
    measure("restore 1,000,000", 1, |_| {
        let restored = Queue::restore(Settings::default(), Seq(0), entries.clone(), [], &mut |_| {});
        assert_eq!(restored.map(|queue| queue.len()).ok(), Some(COUNT as usize));
    });
}
