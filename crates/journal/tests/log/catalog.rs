//! Damage to a declaration or a whole segment: the lost messages, and no others, are reported by
//! queue and number.

use std::io::IoSlice;
use std::sync::Arc;

use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{Config, Disk, Log, RecordLocation, Recovered, Removal, Target, WriteBatch};

const CATALOG: u32 = 0;

fn open(disk: SimulatedDisk) -> (Log<SimulatedDisk>, Recovered) {
    let config = Config { segment_bytes: 16 << 10, secret: 3, ..Config::default() };
    Log::open(Arc::new(disk), config).expect("reading works")
}

fn idle(log: &mut Log<SimulatedDisk>) {
    log.sync().expect("the disk works");
    while log.turn().expect("the disk works") {
        log.sync().expect("the disk works");
    }
}

/// A log of several segments with two queues in turn, and where their messages lie: even numbers
/// are those of queue 1.
fn filled() -> (Log<SimulatedDisk>, Vec<RecordLocation>) {
    let (mut log, _) = open(SimulatedDisk::new(512, 1));
    let mut batch = WriteBatch::new();
    batch.declare(1, &[1; 16], "orders");
    batch.declare(2, &[2; 16], "bills");
    log.append(&mut batch).expect("there is room");
    let mut places = Vec::new();
    for number in 0..120u64 {
        batch.clear();
        let target = Target { queue: 1 + (number % 2) as u32, seq: number / 2, head: &[] };
        let message = batch.message(&[target], &[number as u8; 700]);
        log.append(&mut batch).expect("there is room");
        places.push(batch.place(message));
        idle(&mut log);
    }
    assert!(places[119].segment > 4);
    (log, places)
}

fn lost(recovered: &Recovered, queue: u32) -> Vec<u64> {
    let queue = recovered.queues.iter().find(|found| found.queue == queue).expect("the queue");
    queue.lost.iter().flat_map(|range| range.first..=range.last).collect()
}

fn found(recovered: &Recovered, queue: u32) -> Vec<u64> {
    let queue = recovered.queues.iter().find(|found| found.queue == queue).expect("the queue");
    queue.messages().map(|message| message.seq).collect()
}

fn seqs(places: &[RecordLocation], queue: u32, of: impl Fn(&RecordLocation) -> bool) -> Vec<u64> {
    let numbered = (0u64..).zip(places).filter(|(number, place)| 1 + (number % 2) as u32 == queue && of(place));
    numbered.map(|(number, _)| number / 2).collect()
}

#[test]
fn a_damaged_declaration_is_found_in_the_catalog_and_written_again() {
    let (log, places) = filled();
    let disk = log.disk().as_seen();
    for segment in [1, places[119].segment] {
        // The declarations, and the index of a full segment, so that its records are read one by
        // one.
        let bytes = disk.length(segment).expect("it is there");
        disk.write(segment, 4096, &[IoSlice::new(&[0xEE; 120])]).expect("the disk works");
        disk.write(segment, bytes - 2000, &[IoSlice::new(&[0xEE; 2000])]).expect("the disk works");
    }
    let (mut log, recovered) = open(disk);
    let names: Vec<_> = recovered.queues.iter().map(|queue| queue.declared.clone()).collect();
    assert_eq!(names, [Some(([1; 16], "orders".to_owned())), Some(([2; 16], "bills".to_owned()))]);
    idle(&mut log);
    let disk = log.disk().as_seen();
    disk.remove(CATALOG).expect("it is there");
    let (_, recovered) = open(disk);
    assert!(recovered.queues.iter().all(|queue| queue.declared.is_some()), "the log has them again");
}

#[test]
fn the_messages_of_a_missing_segment_are_named() {
    let (log, places) = filled();
    for gone in 1..places[119].segment {
        let disk = log.disk().as_seen();
        disk.remove(gone).expect("it is there");
        let (mut log, recovered) = open(disk);
        for queue in [1, 2] {
            assert_eq!(lost(&recovered, queue), seqs(&places, queue, |place| place.segment == gone));
            assert_eq!(found(&recovered, queue), seqs(&places, queue, |place| place.segment != gone));
        }
        assert!(recovered.queues.iter().all(|queue| queue.declared.is_some()), "declared in the first segment");
        assert_eq!(recovered.gaps.iter().filter(|gap| gap.segment == gone).count(), 1);
        idle(&mut log);
        let (_, again) = open(log.disk().as_seen());
        assert_eq!((lost(&again, 1), lost(&again, 2)), (vec![], vec![]), "it is reported once");
    }
}

#[test]
fn the_messages_of_a_short_segment_are_named() {
    let (log, places) = filled();
    for bytes in [0, 100, 4096, 8000, 15_000] {
        let disk = log.disk().as_seen();
        disk.truncate(2, bytes);
        let (_, recovered) = open(disk);
        let cut = |place: &RecordLocation| place.segment == 2 && u64::from(place.offset + place.len) > bytes;
        for queue in [1, 2] {
            let expected = seqs(&places, queue, cut);
            // Without its first block nothing in it can be distinguished from the leftovers of
            // another life.
            assert_eq!(lost(&recovered, queue), expected, "{bytes} bytes are left");
        }
        assert!(recovered.gaps.iter().any(|gap| gap.segment == 2) || lost(&recovered, 1).is_empty());
    }
}

#[test]
fn damaged_records_of_a_full_segment_are_named() {
    let (log, places) = filled();
    let place = places[45];
    let disk = log.disk().as_seen();
    let bytes = disk.length(place.segment).expect("it is there");
    disk.write(place.segment, place.offset.into(), &[IoSlice::new(&[0xEE; 100])]).expect("the disk works");
    disk.write(place.segment, bytes - 3000, &[IoSlice::new(&[0xEE; 3000])]).expect("the disk works");
    let (_, recovered) = open(disk);
    assert!(lost(&recovered, 2).contains(&22), "{:?}", lost(&recovered, 2));
}

#[test]
fn what_was_removed_moved_or_dropped_is_not_missed() {
    let (mut log, places) = filled();
    let mut batch = WriteBatch::new();
    let mut removal = Removal::new(1);
    (0..30u64).filter(|seq| seq % 3 != 0).for_each(|seq| removal.add(seq, places[seq as usize * 2]));
    batch.remove(&mut removal);
    log.append(&mut batch).expect("there is room");
    idle(&mut log);
    let disk = log.disk().as_seen();
    disk.remove(2).expect("it is there");
    let (_, recovered) = open(disk);
    let mut expected = seqs(&places, 1, |place| place.segment == 2);
    expected.retain(|seq| *seq >= 30 || seq % 3 == 0);
    assert_eq!(lost(&recovered, 1), expected);

    // A queue that is dropped has lost nothing.
    let mut freed = enmasse_journal::log::Freed::default();
    (0u64..).zip(&places).filter(|(number, _)| number % 2 == 1).for_each(|(_, place)| freed.add(*place));
    batch.clear();
    batch.drop_queue(2, &freed);
    log.append(&mut batch).expect("there is room");
    idle(&mut log);
    let disk = log.disk().as_seen();
    disk.remove(2).expect("it is there");
    let (_, recovered) = open(disk);
    assert!(recovered.queues.iter().all(|queue| queue.queue != 2));
}

#[test]
fn segments_that_were_let_go_are_not_missed() {
    let (mut log, places) = filled();
    let mut batch = WriteBatch::new();
    for queue in [1, 2] {
        let mut removal = Removal::new(queue);
        let mine = (0u64..).zip(&places).filter(|(number, _)| 1 + (number % 2) as u32 == queue);
        mine.filter(|(_, place)| place.segment < 4).for_each(|(number, place)| removal.add(number / 2, *place));
        batch.remove(&mut removal);
    }
    log.append(&mut batch).expect("there is room");
    idle(&mut log);
    assert!(log.disk().list().expect("it works").iter().all(|segment| *segment == CATALOG || *segment >= 4));
    let (_, recovered) = open(log.disk().as_seen());
    assert_eq!((lost(&recovered, 1), lost(&recovered, 2), recovered.gaps.len()), (vec![], vec![], 0));
}

#[test]
fn a_damaged_or_missing_catalog_costs_nothing() {
    let (log, places) = filled();
    for damage in [None, Some(0u64), Some(20), Some(60)] {
        let disk = log.disk().as_seen();
        match damage {
            None => disk.remove(CATALOG).expect("it is there"),
            Some(at) => disk.write(CATALOG, at, &[IoSlice::new(&[0xEE; 30])]).expect("the disk works"),
        }
        let (_, recovered) = open(disk);
        assert_eq!(found(&recovered, 1), seqs(&places, 1, |_| true));
        assert_eq!((lost(&recovered, 1), recovered.gaps.len()), (vec![], 0));
    }
}

#[test]
fn a_catalog_that_grows_is_written_anew() {
    let (mut log, _) = open(SimulatedDisk::new(512, 1));
    let mut batch = WriteBatch::new();
    for queue in 1..3000 {
        batch.clear();
        batch.declare(queue, &[7; 16], &format!("queue {queue} {:>40}", ""));
        log.append(&mut batch).expect("there is room");
        if queue % 100 == 0 {
            idle(&mut log);
        }
    }
    idle(&mut log);
    assert!(log.disk().length(CATALOG).expect("it is there") > 100_000);
    let (_, recovered) = open(log.disk().as_seen());
    assert_eq!(recovered.queues.len(), 2999);
}
