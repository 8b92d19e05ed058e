//! The memory of a message, counted by the allocator. `examples/queue_cost.rs` prints its cost in
//! time.

use enmasse_journal::queue::{Consume, ConsumerOutcome, Group, Head, Queue, Settings};

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
fn grouped_message_takes_at_most_54_bytes() {
    let mut world = World::new(Settings::default());
    for n in 0..1_000_000 {
        world.put(&Head { group: Some(Group { digest: n % 1000, sequence: 0 }), ..plain() });
    }
    assert!(bytes_each(&world) <= 54.0, "{}", bytes_each(&world));
}

#[test]
fn memory_shrinks_with_the_remaining_messages() {
    let mut world = World::new(Settings::default());
    world.fill(1_000_000);
    let consumer = world.consumer(Consume { selects: true, ..Consume::default() });
    while let Some(item) = world.next_if(consumer, |item| item.seq.0 % 100 != 0) {
        world.settle(item.seq.0, ConsumerOutcome::Accepted);
    }
    world.effects.clear();
    assert_eq!(world.queue.len(), 10_000);
    assert!(bytes_each(&world) <= 300.0, "scattered, one of a hundred: {}", bytes_each(&world));
}

#[test]
fn queue_of_a_hundred_messages_takes_less_than_10_kb() {
    let mut world = World::new(Settings::default());
    world.fill(100);
    assert!(size_of::<Queue>() + world.queue.heap_bytes() < 10_000);
}
