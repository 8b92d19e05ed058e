//! The index is rebuilt from the records of the log.

use std::collections::BTreeMap;

use enmasse_journal::queue::{
    Cause, Consume, ConsumerOutcome, Full, Group, Head, Limits, Queue, Record, RecordLocation, Restored, Seq, Settings,
    Stored,
};

use crate::world::{World, of_priority, plain};

/// The records that a log would have kept.
#[derive(Default)]
struct Kept(BTreeMap<Seq, [u8; enmasse_journal::queue::RECORD_BYTES]>);

impl Kept {
    fn put(&mut self, world: &mut World, head: &Head) -> Seq {
        let Stored { seq, record, .. } = world.store(head);
        self.0.insert(seq, record.encode());
        world.commit(seq);
        seq
    }

    fn restart(&self, world: &mut World) {
        let entries = self.0.iter().map(|(id, bytes)| Restored {
            id: *id,
            place: RecordLocation { segment: 9, offset: id.0 as u32, len: 1 },
            record: Record::decode(bytes).expect("a known form"),
        });
        let settings = world.queue.settings().clone();
        let next = world.queue.next_seq();
        let restored = Queue::restore(settings, next, entries, [], &mut |effect| world.effects.push(effect));
        world.queue = restored.expect("in order");
    }
}

#[test]
fn stored_messages_keep_their_order_after_a_restart() {
    let mut world = World::new(Settings::default());
    let mut kept = Kept::default();
    for n in 0..200 {
        kept.put(&mut world, &of_priority(if n % 7 == 0 { 5 } else { 4 }));
    }
    let consumer = world.consumer(Consume::default());
    for _ in 0..50 {
        let seq = world.take(consumer).expect("plenty");
        if seq.is_multiple_of(2) {
            world.settle(seq, ConsumerOutcome::Accepted);
            kept.0.remove(&Seq(seq));
        }
    }
    kept.restart(&mut world);
    let consumer = world.consumer(Consume::default());
    let mut expected: Vec<u64> = kept.0.keys().map(|seq| seq.0).collect();
    expected.sort_by_key(|seq| (*seq % 7 != 0, *seq));
    let item = world.next(consumer).expect("plenty");
    assert_eq!((item.place.segment, item.size_bytes), (9, 100));
    world.settle(item.seq.0, ConsumerOutcome::Released);
    assert_eq!(world.take_all(consumer), expected);
    assert_eq!(world.put(&plain()), Seq(200), "no number is reused");
}

#[test]
fn times_groups_and_bounds_apply_after_a_restart() {
    let limits = Limits { messages: 5, ..Limits::default() };
    let mut world = World::new(Settings { last_value: true, ..Settings::default() });
    let mut kept = Kept::default();
    kept.put(&mut world, &plain());
    let later = Head { due: Some(world.now + 500), ..plain() };
    kept.put(&mut world, &later);
    kept.put(&mut world, &Head { ttl_ms: Some(100), ..plain() });
    for n in 0..4 {
        kept.put(&mut world, &Head { group: Some(Group { digest: n % 2, sequence: 0 }), ..plain() });
    }
    for _ in 0..2 {
        kept.put(&mut world, &Head { key: Some(1), ..plain() });
    }
    world.effects.clear();
    kept.restart(&mut world);
    assert_eq!(world.removed(Cause::Replaced), [7], "its removal was not in the log yet");
    world.pass(100);
    assert_eq!(world.removed(Cause::Expired), [2]);
    let [one, two] = [1, 2].map(|key| world.consumer(Consume { key, ..Consume::default() }));
    assert_eq!([world.take(one), world.take(one), world.take(two)], [Some(0), Some(3), Some(4)]);
    assert_eq!(world.take(two), Some(6));
    assert_eq!(world.take_all(one), [5, 8]);
    world.pass(400);
    assert_eq!(world.next(one).map(|item| item.id.0), Some(1));

    world.queue.reconfigure(Settings { limits, full: Full::DropOldest, ..Settings::default() });
    kept.0.remove(&Seq(1));
    kept.0.remove(&Seq(2));
    kept.restart(&mut world);
    assert_eq!(world.removed(Cause::Overrun), [0, 3]);
}

#[test]
fn entries_out_of_order_are_refused() {
    let entry = |id| Restored {
        id: Seq(id),
        place: RecordLocation { segment: 0, offset: 0, len: 0 },
        record: Record::default(),
    };
    let restore = |ids: [u64; 2]| Queue::restore(Settings::default(), Seq(0), ids.map(entry), [], &mut |_| {});
    assert_eq!(restore([3, 8]).map(|queue| queue.next_seq()).ok(), Some(Seq(9)));
    assert!(restore([3, 3]).is_err());
    let error = restore([8, 3]).expect_err("refused").to_string();
    assert!(error.starts_with("message 3 comes after 8"), "{error}");
}
