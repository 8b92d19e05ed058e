//! Stored messages are found again, removed ones are not, and their space is reclaimed.

use std::sync::Arc;

use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{
    Config, Disk, Freed, Log, OpenError, RecordLocation, Recovered, Refused, Removal, Target, WriteBatch,
};

const QUEUE: u32 = 7;

fn config() -> Config {
    Config { segment_bytes: 16 << 10, secret: 0x5EC2E7, ..Config::default() }
}

fn new_log(disk: &Arc<SimulatedDisk>) -> Log<SimulatedDisk> {
    Log::open(Arc::clone(disk), config()).expect("an empty disk can be opened").0
}

fn reopened(disk: &SimulatedDisk) -> (Log<SimulatedDisk>, Recovered) {
    Log::open(Arc::new(disk.as_seen()), config()).expect("it can be opened again")
}

fn committed(log: &mut Log<SimulatedDisk>, batch: &mut WriteBatch) {
    log.append(batch).expect("there is room");
    log.sync().expect("the disk works");
}

fn idle(log: &mut Log<SimulatedDisk>) {
    while log.turn().expect("the disk works") {
        log.sync().expect("the disk works");
    }
}

fn body(seq: u64) -> Vec<u8> {
    (0..200 + seq % 700).map(|at| (seq * 31 + at) as u8).collect()
}

/// Messages `seqs` in one batch each, committed; returns their locations.
fn put(log: &mut Log<SimulatedDisk>, seqs: std::ops::Range<u64>) -> Vec<RecordLocation> {
    let mut places = Vec::new();
    for seq in seqs {
        let mut batch = WriteBatch::new();
        let message = batch.message(&[Target { queue: QUEUE, seq, head: &[4, seq as u8] }], &body(seq));
        committed(log, &mut batch);
        places.push(batch.place(message));
    }
    places
}

fn declared(disk: &Arc<SimulatedDisk>) -> Log<SimulatedDisk> {
    let mut log = new_log(disk);
    let mut batch = WriteBatch::new();
    batch.declare(QUEUE, &[9; 16], "orders");
    committed(&mut log, &mut batch);
    log
}

fn remove(log: &mut Log<SimulatedDisk>, seqs: impl Iterator<Item = u64>, places: &[RecordLocation]) {
    let mut removal = Removal::new(QUEUE);
    for seq in seqs {
        removal.add(seq, places[seq as usize]);
    }
    let mut batch = WriteBatch::new();
    batch.remove(&mut removal);
    committed(log, &mut batch);
}

#[test]
fn messages_are_recovered_in_order_with_their_heads() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let mut log = declared(&disk);
    let places = put(&mut log, 0..200);
    remove(&mut log, (0..200).filter(|seq| seq % 3 == 0), &places);
    let (log, recovered) = reopened(&disk);
    let [queue] = &recovered.queues[..] else { panic!("one queue") };
    assert_eq!(queue.declared, Some(([9; 16], "orders".to_owned())));
    assert_eq!(queue.next_seq, 200);
    assert_eq!(recovered.scanned_segments, 1);
    assert_eq!(recovered.gaps, []);
    let found: Vec<_> = queue.messages().collect();
    assert_eq!(
        found.iter().map(|message| message.seq).collect::<Vec<_>>(),
        (0..200).filter(|seq| seq % 3 != 0).collect::<Vec<_>>()
    );
    let mut buffer = Vec::new();
    for message in found {
        assert_eq!(message.head, [4, message.seq as u8]);
        assert_eq!(message.place, places[message.seq as usize]);
        assert_eq!(log.reader().read(message.place, &mut buffer).expect("it is there"), body(message.seq));
    }
}

#[test]
fn newest_state_wins_and_an_empty_value_deletes_it() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let mut log = declared(&disk);
    let mut batch = WriteBatch::new();
    batch.state(QUEUE, b"a", b"1");
    batch.state(QUEUE, b"b", b"1");
    batch.state(QUEUE, b"a", b"2");
    batch.state(QUEUE, b"b", b"");
    committed(&mut log, &mut batch);
    let (_, recovered) = reopened(&disk);
    let states: Vec<(&[u8], &[u8])> =
        recovered.queues[0].states.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(states, [(&b"a"[..], &b"2"[..])]);
}

#[test]
fn segments_without_live_records_are_reused() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let mut log = declared(&disk);
    let mut batch = WriteBatch::new();
    batch.state(QUEUE, b"kept", b"for good");
    committed(&mut log, &mut batch);
    for round in 0..40 {
        let places: Vec<RecordLocation> = put(&mut log, round * 50..round * 50 + 50);
        let mut removal = Removal::new(QUEUE);
        for (at, place) in places.into_iter().enumerate() {
            removal.add(round * 50 + at as u64, place);
        }
        let mut batch = WriteBatch::new();
        batch.remove(&mut removal);
        committed(&mut log, &mut batch);
        idle(&mut log);
        assert!(log.stats().segments <= 2, "{:?}", log.stats());
    }
    assert!(disk.used_bytes() <= 12 * (16 << 10));
    let (_, recovered) = reopened(&disk);
    let [queue] = &recovered.queues[..] else { panic!("one queue") };
    assert!(queue.is_empty());
    assert_eq!(queue.states.len(), 1);
    assert_eq!(queue.declared, Some(([9; 16], "orders".to_owned())));
}

#[test]
fn externally_removed_segment_is_reclaimed_without_stopping_the_log() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let mut log = declared(&disk);
    let places = put(&mut log, 0..200);
    for segment in [places[50].segment, places[150].segment] {
        disk.remove(segment).expect("it is there");
    }
    remove(&mut log, 0..200, &places);
    idle(&mut log);
    assert_eq!(log.stopped(), None);
    assert!(log.stats().segments <= 2, "{:?}", log.stats());
    put(&mut log, 200..400);
    let (_, recovered) = reopened(&disk);
    assert_eq!(recovered.queues[0].messages().count(), 200);
}

#[test]
fn compaction_copies_live_records_and_reclaims_their_segments() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let mut log = declared(&disk);
    let mut places = put(&mut log, 0..2000);
    remove(&mut log, (0..2000).filter(|seq| seq % 100 != 50), &places);
    idle(&mut log);
    let before = log.stats().segments;
    while let Some(segment) = log.wants_compacted() {
        let mut batch = WriteBatch::new();
        let alive: Vec<u64> =
            (0..2000).filter(|&seq| seq % 100 == 50 && places[seq as usize].segment == segment).collect();
        let mut copies = Vec::new();
        for &seq in &alive {
            let head = [4, seq as u8];
            copies.push(batch.copy(places[seq as usize], &[Target { queue: QUEUE, seq, head: &head }]));
        }
        committed(&mut log, &mut batch);
        let mut freed = Freed::default();
        for (&seq, &copy) in alive.iter().zip(&copies) {
            freed.add(places[seq as usize]);
            places[seq as usize] = batch.copied(copy, QUEUE).expect("it was there");
        }
        batch.clear();
        batch.free(&freed);
        committed(&mut log, &mut batch);
        idle(&mut log);
    }
    assert!(log.stats().segments * 4 < before, "{before} then {:?}", log.stats());
    let (log, recovered) = reopened(&disk);
    let mut buffer = Vec::new();
    let found: Vec<_> = recovered.queues[0].messages().collect();
    assert_eq!(found.len(), 20);
    for message in found {
        assert_eq!(message.place, places[message.seq as usize]);
        assert_eq!(log.reader().read(message.place, &mut buffer).expect("it is there"), body(message.seq));
    }
}

#[test]
fn segment_that_is_not_compacted_does_not_block_others() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let mut log = declared(&disk);
    let places = put(&mut log, 0..2000);
    let kept = |seq: &u64| seq.is_multiple_of(10);
    remove(&mut log, (0..2000).filter(|seq| !kept(seq)), &places);
    idle(&mut log);
    let mut requested = Vec::new();
    while let Some(segment) = log.wants_compacted() {
        assert_eq!(log.wants_compacted(), Some(segment), "until it is passed over");
        assert!(!requested.contains(&segment), "{segment} again, after {requested:?}");
        log.pass_over(segment);
        requested.push(segment);
    }
    assert!(requested.len() > 10, "{requested:?}");
    let of_first = (0..2000).filter(kept).find(|seq| places[*seq as usize].segment == requested[0]);
    remove(&mut log, of_first.into_iter(), &places);
    assert_eq!(log.wants_compacted(), Some(requested[0]), "fewer of its records are live");
}

#[test]
fn copy_record_is_kept_as_long_as_its_original() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let mut log = declared(&disk);
    let places = put(&mut log, 0..2);
    // Each opening begins a new segment: the copy is in one segment, its removal in the next.
    let (mut log, _) = reopened(&disk);
    let mut batch = WriteBatch::new();
    let copy = batch.copy(places[0], &[Target { queue: QUEUE, seq: 0, head: &[4, 0] }]);
    committed(&mut log, &mut batch);
    let copied = batch.copied(copy, QUEUE).expect("it was there");
    let (mut log, _) = reopened(log.disk());
    remove(&mut log, 0..1, &[copied]);
    let fillers = put(&mut log, 2..60);
    let mut removal = Removal::new(QUEUE);
    (2..60).zip(fillers).for_each(|(seq, place)| removal.add(seq, place));
    let mut batch = WriteBatch::new();
    batch.remove(&mut removal);
    committed(&mut log, &mut batch);
    idle(&mut log);
    let (_, recovered) = reopened(log.disk());
    assert_eq!(recovered.queues[0].messages().map(|message| message.seq).collect::<Vec<_>>(), [1]);
}

#[test]
fn dropped_queue_is_removed_with_its_messages() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let mut log = declared(&disk);
    let places = put(&mut log, 0..100);
    let mut freed = Freed::default();
    places.iter().for_each(|&place| freed.add(place));
    let mut batch = WriteBatch::new();
    batch.drop_queue(QUEUE, &freed);
    batch.declare(8, &[8; 16], "other");
    committed(&mut log, &mut batch);
    idle(&mut log);
    let (_, recovered) = reopened(&disk);
    assert_eq!(recovered.queues.iter().map(|queue| queue.queue).collect::<Vec<_>>(), [8]);
    assert_eq!(recovered.next_queue, 9);
}

#[test]
fn message_larger_than_a_segment_gets_a_segment_of_its_own() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let mut log = declared(&disk);
    let large = vec![0xAB; 100 << 10];
    let mut batch = WriteBatch::new();
    let message = batch.message(&[Target { queue: QUEUE, seq: 0, head: &[] }], &large);
    committed(&mut log, &mut batch);
    let place = batch.place(message);
    put(&mut log, 1..60);
    assert_eq!(log.reader().read(place, &mut Vec::new()).expect("it is there"), large);
    let (log, recovered) = reopened(&disk);
    assert_eq!(recovered.queues[0].len(), 60);
    assert_eq!(log.reader().read(place, &mut Vec::new()).expect("it is there"), large);
}

#[test]
fn full_disk_refuses_messages_and_accepts_removals() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    disk.set_capacity_bytes(10 * (16 << 10));
    let mut log = declared(&disk);
    let mut places = Vec::new();
    let refused = loop {
        let seq = places.len() as u64;
        let mut batch = WriteBatch::new();
        let message = batch.message(&[Target { queue: QUEUE, seq, head: &[] }], &body(seq));
        match log.append(&mut batch) {
            Ok(()) => places.push(batch.place(message)),
            Err(refused) => break refused,
        }
        log.sync().expect("the disk works");
    };
    assert!(matches!(refused, Refused::NoRoom(_)), "{refused}");
    for seq in 0..places.len() as u64 {
        remove(&mut log, seq..=seq, &places);
        let mut batch = WriteBatch::new();
        batch.state(QUEUE, b"taken", &seq.to_le_bytes());
        committed(&mut log, &mut batch);
        idle(&mut log);
    }
    let next = places.len() as u64;
    put(&mut log, next..next + 20);
    assert_eq!(reopened(&disk).1.queues[0].len(), 20);
}

#[test]
fn segment_of_another_format_version_is_refused() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let log = declared(&disk);
    let segment = 1;
    assert_eq!(log.stats().segments, 1);
    // Both copies of the header contain version 3.
    assert!(disk.flip(segment, 8, 1) && disk.flip(segment, 2048 + 8, 1));
    let refused = Log::open(disk, config()).expect_err("it is refused");
    assert_eq!(refused, OpenError::Version { segment, found: 3, known: 1 });
}

#[test]
fn unreadable_segment_is_kept_until_it_can_be_read_and_then_reclaimed() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let mut log = declared(&disk);
    let mut batch = WriteBatch::new();
    batch.state(QUEUE, b"kept", b"for good");
    committed(&mut log, &mut batch);
    let first = 1;
    disk.set_unreadable(first, true);
    let mut next = 0;
    let mut fill = |log: &mut Log<SimulatedDisk>| {
        for _ in 0..4 {
            let places = put(log, next..next + 50);
            let mut removal = Removal::new(QUEUE);
            (next..).zip(places).for_each(|(seq, place)| removal.add(seq, place));
            let mut batch = WriteBatch::new();
            batch.remove(&mut removal);
            committed(log, &mut batch);
            next += 50;
            idle(log);
        }
    };
    fill(&mut log);
    let (segment, fault) = log.take_read_fault().expect("it is reported");
    assert_eq!((segment, fault.to_string()), (first, "Input/output error".to_owned()));
    assert_eq!(log.stopped(), None);
    assert_eq!(log.unreadable().collect::<Vec<_>>(), [first]);
    assert!(log.stats().segments <= 3, "others are reclaimed meanwhile: {:?}", log.stats());
    fill(&mut log);
    assert_eq!(log.take_read_fault(), None, "the log does not retry before retry_reads");

    log.retry_reads();
    idle(&mut log);
    assert_eq!(log.take_read_fault().map(|(segment, _)| segment), Some(first), "it fails again");
    assert_eq!(log.unreadable().collect::<Vec<_>>(), [first]);

    disk.set_unreadable(first, false);
    log.retry_reads();
    fill(&mut log);
    assert_eq!((log.take_read_fault(), log.unreadable().count()), (None, 0));
    assert!(log.stats().segments <= 2, "{:?}", log.stats());
    let (_, recovered) = reopened(&disk);
    assert_eq!(recovered.queues[0].states.len(), 1, "its state is recovered");
}
