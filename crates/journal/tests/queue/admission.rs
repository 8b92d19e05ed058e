//! Admission: bounds, duplicates, last values, rings.

use enmasse_journal::queue::{
    Admission, Cause, Consume, ConsumerOutcome, Duplicates, Full, Head, Limits, Marker, Queue, Refusal, Seq, Settings,
};

use crate::world::{World, of_priority, plain};

fn limited(messages: u64, bytes: u64, full: Full) -> Settings {
    Settings {
        limits: Limits { messages, bytes, message_bytes: 1000, ..Limits::default() },
        full,
        ..Settings::default()
    }
}

fn with_id(id: u128) -> Head {
    Head { message_id: Some(id), ..plain() }
}

fn numbered(name: u128, number: u64) -> Head {
    Head { producer: Some((name, number)), ..plain() }
}

#[test]
fn each_bound_has_its_refusal() {
    let mut world = World::new(limited(3, 250, Full::Reject));
    let big = Head { size_bytes: 1001, ..plain() };
    let refusal = |world: &mut World, head: &Head| match world.queue.offer(world.now, head) {
        Admission::Refuse(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(&mut world, &big), Refusal::MessageSize(1000));
    world.fill(2);
    assert_eq!(refusal(&mut world, &plain()), Refusal::Bytes(250));
    world.put(&Head { size_bytes: 50, ..plain() });
    assert_eq!(refusal(&mut world, &plain()), Refusal::Messages(3));
    assert_eq!(world.queue.stats().refused, 3);
    let consumer = world.consumer(Consume::default());
    world.take(consumer);
    world.settle(0, ConsumerOutcome::Accepted);
    world.put(&plain());
}

#[test]
fn full_blocking_queue_grants_no_credit_and_honours_granted_credit() {
    let mut world = World::new(limited(10, u64::MAX, Full::Block));
    assert_eq!((world.queue.room(0), world.queue.room(4)), (10, 6));
    world.fill(9);
    assert_eq!((world.queue.room(0), world.queue.room(4)), (1, 0));
    world.fill(4);
    assert_eq!((world.queue.room(0), world.queue.len()), (0, 13));
    let mut world = World::new(limited(u64::MAX, 1000, Full::Block));
    world.fill(4);
    assert_eq!(world.queue.room(1), 5, "of the mean size");
    assert_eq!(World::new(Settings::default()).queue.room(7), u64::MAX - 7);
}

#[test]
fn ring_drops_its_oldest_available_message() {
    let mut world = World::new(limited(3, u64::MAX, Full::DropOldest));
    world.put(&of_priority(9));
    world.fill(2);
    let consumer = world.consumer(Consume::default());
    assert_eq!(world.take(consumer), Some(0));
    world.fill(2);
    assert_eq!(world.removed(Cause::Overrun), [1, 2], "what a consumer holds is not dropped");
    world.settle(0, ConsumerOutcome::Released);
    world.fill(1);
    assert_eq!(world.removed(Cause::Overrun), [0]);
    assert_eq!(world.queue.stats().removed[Cause::Overrun as usize], 3);
    let mut world = World::new(limited(u64::MAX, 250, Full::DropOldest));
    world.fill(4);
    assert_eq!(world.removed(Cause::Overrun), [0, 1]);
}

#[test]
fn ring_keeps_the_newest_messages_although_consumers_hold_others() {
    let mut world = World::new(limited(2, u64::MAX, Full::DropOldest));
    world.fill(2);
    let consumer = world.consumer(Consume::default());
    assert_eq!(world.take_all(consumer), [0, 1]);
    world.queue.set_credit(consumer, false);
    world.fill(1);
    assert_eq!(world.removed(Cause::Overrun), []);
    world.fill(2);
    assert_eq!(world.removed(Cause::Overrun), [2, 3]);
    world.settle(0, ConsumerOutcome::Accepted);
    world.settle(1, ConsumerOutcome::Accepted);
    world.fill(1);
    world.queue.set_credit(consumer, true);
    assert_eq!(world.take_all(consumer), [4, 5]);
}

#[test]
fn message_larger_than_the_queue_limit_is_refused_unless_the_queue_blocks() {
    let large = Head { size_bytes: 251, ..plain() };
    for (full, expected) in [(Full::Reject, true), (Full::DropOldest, true), (Full::Block, false)] {
        let mut world = World::new(limited(u64::MAX, 250, full));
        world.fill(2);
        let answer = world.queue.offer(world.now, &large);
        assert_eq!(answer == Admission::Refuse(Refusal::LargerThanQueue(250)), expected, "{full:?}");
        assert_eq!(world.removed(Cause::Overrun), []);
    }
    // A dead-letter address refuses no message.
    let mut world = World::new(limited(u64::MAX, 250, Full::DropOldest));
    world.fill(1);
    let seq = world.queue.admit(world.now, &large).seq;
    world.commit(seq);
    assert_eq!((world.removed(Cause::Overrun), world.queue.len()), (vec![0], 1));
}

#[test]
fn ring_makes_room_for_committed_messages_only() {
    let mut world = World::new(limited(u64::MAX, 250, Full::DropOldest));
    world.fill(2);
    let offered = [(); 3].map(|()| world.store(&plain()).seq);
    world.commit(offered[0]);
    assert_eq!(world.removed(Cause::Overrun), [0]);
    offered[1..].iter().for_each(|seq| assert!(world.queue.withdraw(*seq)));
    world.fill(1);
    assert_eq!(world.removed(Cause::Overrun), [1]);
    assert_eq!((world.queue.len(), world.queue.bytes()), (2, 200));
}

#[test]
fn a_last_value_queue_keeps_the_newest_of_each_key() {
    let mut world = World::new(Settings { last_value: true, ..Settings::default() });
    let of_key = |key| Head { key: Some(key), ..plain() };
    for key in [1, 2, 1, 3] {
        world.put(&of_key(key));
    }
    world.put(&plain());
    assert_eq!(world.removed(Cause::Replaced), [0]);
    let consumer = world.consumer(Consume::default());
    assert_eq!(world.take(consumer), Some(1));
    world.put(&of_key(2));
    assert_eq!(world.removed(Cause::Replaced), [], "a consumer holds it");
    world.settle(1, ConsumerOutcome::Released);
    assert_eq!(world.removed(Cause::Replaced), [1], "a newer one of its key waits");
    assert_eq!(world.take_all(consumer), [2, 3, 4, 5]);
    for seq in [2, 3, 4, 5] {
        world.settle(seq, ConsumerOutcome::Accepted);
    }
    world.put(&of_key(2));
    assert_eq!(world.removed(Cause::Replaced), []);
}

#[test]
fn full_last_value_queue_takes_a_message_that_replaces_another() {
    let mut world = World::new(Settings { last_value: true, ..limited(2, 250, Full::Reject) });
    let of_key = |key| Head { key: Some(key), ..plain() };
    for key in [1, 2] {
        world.put(&of_key(key));
    }
    assert_eq!(world.queue.refusal(&of_key(3)), Some(Refusal::Messages(2)));
    world.put(&of_key(1));
    assert_eq!((world.removed(Cause::Replaced), world.queue.len()), (vec![0], 2));
    let larger = Head { size_bytes: 151, ..of_key(1) };
    assert_eq!(world.queue.refusal(&larger), Some(Refusal::Bytes(250)), "both together are too large");
    let later = Head { due: Some(world.now + 1000), ..of_key(1) };
    assert_eq!(world.queue.refusal(&later), Some(Refusal::Messages(2)), "the other one stays until then");
    let consumer = world.consumer(Consume::default());
    assert_eq!(world.take(consumer), Some(1));
    assert_eq!(world.queue.refusal(&of_key(2)), Some(Refusal::Messages(2)), "a consumer holds the other one");
}

#[test]
fn last_offered_message_of_a_key_replaces_the_others() {
    let mut world = World::new(Settings { last_value: true, ..Settings::default() });
    let head = Head { key: Some(1), ..plain() };
    let slow = world.store(&head).seq;
    world.put(&head);
    world.commit(slow);
    assert_eq!(world.removed(Cause::Replaced), [0]);
}

#[test]
fn a_message_id_seen_before_is_a_duplicate_within_the_window() {
    let duplicates = Some(Duplicates { ids: 3, window_ms: 1000 });
    let mut world = World::new(Settings { duplicates, ..Settings::default() });
    let first = world.store(&with_id(1));
    assert!(matches!(first.markers, [None, Some(Marker::MessageId { slot: 0, id: 1, .. })]));
    assert_eq!(world.queue.offer(world.now, &with_id(1)), Admission::Duplicate { of: Some(first.seq) });
    world.commit(first.seq);
    assert_eq!(world.queue.offer(world.now, &with_id(1)), Admission::Duplicate { of: None });
    world.now += 1000;
    world.put(&with_id(1));
    for id in [2, 3] {
        world.put(&with_id(id));
    }
    assert_eq!(world.queue.offer(world.now, &with_id(1)), Admission::Duplicate { of: None });
    world.put(&with_id(4));
    world.put(&with_id(1));
    assert_eq!(world.queue.stats().duplicates, 3);
    world.put(&plain());
    world.put(&plain());
}

#[test]
fn withdrawn_message_is_no_duplicate_when_sent_again() {
    let duplicates = Some(Duplicates { ids: 3, window_ms: 0 });
    let mut world = World::new(Settings { duplicates, ..Settings::default() });
    let head = Head { message_id: Some(1), ..numbered(7, 0) };
    for _ in 0..2 {
        let seq = world.store(&head).seq;
        assert!(world.queue.withdraw(seq));
    }
    world.put(&head);
    let numbers = [5, 6, 7].map(|number| world.store(&numbered(7, number)).seq);
    for seq in numbers {
        world.queue.withdraw(seq);
    }
    world.put(&numbered(7, 1));
    assert_eq!(world.queue.offer(world.now, &numbered(7, 1)), Admission::Duplicate { of: None });
}

#[test]
fn sequence_not_above_the_last_of_its_producer_is_a_duplicate() {
    let mut world = World::new(Settings::default());
    let stored = world.store(&numbered(1, 10));
    assert_eq!(stored.markers, [Some(Marker::Producer { name: 1, sequence: 10 }), None]);
    assert_eq!(world.queue.offer(world.now, &numbered(1, 10)), Admission::Duplicate { of: Some(stored.seq) });
    world.commit(stored.seq);
    for number in [0, 9, 10] {
        assert_eq!(world.queue.offer(world.now, &numbered(1, number)), Admission::Duplicate { of: None });
    }
    world.put(&numbered(2, 0));
    world.put(&numbered(1, 12));
    world.now += 1 << 40;
    assert_eq!(world.queue.offer(world.now, &numbered(1, 11)), Admission::Duplicate { of: None });
}

#[test]
fn duplicate_is_detected_in_a_full_queue() {
    let mut world = World::new(limited(1, u64::MAX, Full::Reject));
    world.put(&numbered(1, 1));
    assert_eq!(world.queue.offer(world.now, &numbered(1, 1)), Admission::Duplicate { of: None });
    assert!(matches!(world.queue.offer(world.now, &numbered(1, 2)), Admission::Refuse(Refusal::Messages(1))));
}

#[test]
fn duplicate_detection_survives_a_restart() {
    let settings = Settings { duplicates: Some(Duplicates { ids: 4, window_ms: 0 }), ..Settings::default() };
    let mut world = World::new(settings.clone());
    let mut kept = std::collections::HashMap::new();
    for id in 0..6 {
        world.now += 1;
        let stored = world.store(&Head { message_id: Some(id), ..numbered(1, 100 + id as u64) });
        world.commit(stored.seq);
        for marker in stored.markers.into_iter().flatten() {
            kept.insert(marker.key(), marker.value());
        }
    }
    assert_eq!(kept.len(), 5, "a marker key is reused");
    let markers = kept.iter().map(|(key, value)| Marker::decode(key, value).expect("a known form"));
    world.queue = Queue::restore(settings, Seq(6), [], markers, &mut |_| {}).expect("in order");
    let is_duplicate = |world: &mut World, head: &Head| {
        matches!(world.queue.offer(world.now, head), Admission::Duplicate { of: None })
    };
    assert!(is_duplicate(&mut world, &numbered(1, 105)) && !is_duplicate(&mut world, &numbered(1, 106)));
    assert!(is_duplicate(&mut world, &with_id(2)) && is_duplicate(&mut world, &with_id(5)));
    assert!(!is_duplicate(&mut world, &with_id(6)), "takes the place of the oldest");
    assert!(is_duplicate(&mut world, &with_id(3)) && !is_duplicate(&mut world, &with_id(2)));
}

#[test]
fn a_smaller_window_keeps_the_newest_ids() {
    let settings = |ids| Settings { duplicates: Some(Duplicates { ids, window_ms: 0 }), ..Settings::default() };
    let mut world = World::new(settings(4));
    for id in 0..6 {
        world.put(&with_id(id));
    }
    world.queue.reconfigure(settings(2));
    for (id, known) in [(4, true), (5, true), (3, false)] {
        let answer = world.queue.offer(world.now, &with_id(id));
        assert_eq!(matches!(answer, Admission::Duplicate { .. }), known, "{id}");
    }
}
