//! Damage to a declaration or a whole segment: the lost messages, and no others, are reported by
//! queue and number.

use std::io::IoSlice;
use std::sync::Arc;

use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{Config, Disk, Log, RecordLocation, Recovered, Removal, Target, Unnamed, WriteBatch};

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
fn damaged_declaration_is_restored_from_the_catalog() {
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
    assert!(recovered.queues.iter().all(|queue| queue.declared.is_some()), "written again");
}

/// The disk of `filled` with both copies of its declarations damaged, and the messages whose
/// records are intact.
fn undeclared(log: &Log<SimulatedDisk>, places: &[RecordLocation]) -> (SimulatedDisk, Unnamed) {
    let disk = log.disk().as_seen();
    let bytes = disk.length(1).expect("it is there");
    for (segment, at, count) in [(1, 4096, 120), (1, bytes - 2000, 2000), (CATALOG, 12, 80)] {
        disk.write(segment, at, &[IoSlice::new(&vec![0xEE; count])]).expect("the disk works");
    }
    let intact = |place: &&RecordLocation| {
        place.segment > 1 || place.offset >= 4216 && u64::from(place.offset + place.len) <= bytes - 2000
    };
    let messages = places.iter().filter(intact).count() as u64;
    (disk, Unnamed { messages, segments: places[119].segment.into() })
}

#[test]
fn messages_without_any_declaration_are_counted_at_each_start() {
    let (log, places) = filled();
    let (mut disk, unnamed) = undeclared(&log, &places);
    assert!(unnamed.messages > 100);
    for _ in 0..2 {
        let (mut log, recovered) = open(disk);
        assert_eq!(recovered.unnamed(), unnamed);
        idle(&mut log);
        disk = log.disk().as_seen();
    }
    let (_, recovered) = open(log.disk().as_seen());
    assert_eq!(recovered.unnamed(), Unnamed::default(), "they are declared");
}

#[test]
fn discarded_messages_without_a_declaration_free_their_segments() {
    let (log, places) = filled();
    let (mut log, recovered) = open(undeclared(&log, &places).0);
    log.discard_unnamed(&recovered).expect("the disk works");
    idle(&mut log);
    let left = log.disk().list().expect("it works");
    assert!(left.iter().all(|segment| *segment == CATALOG || *segment > places[119].segment), "{left:?}");
    let (_, recovered) = open(log.disk().as_seen());
    assert_eq!((recovered.unnamed(), recovered.queues.len()), (Unnamed::default(), 0));
}

/// A message of another queue keeps a segment with discarded messages longer than the segment that
/// recorded the discard.
#[test]
fn discarded_messages_do_not_return_from_a_segment_that_stays() {
    let (mut log, places) = filled();
    let mut batch = WriteBatch::new();
    batch.declare(9, &[9; 16], "others");
    batch.message(&[Target { queue: 9, seq: 0, head: &[] }], b"kept");
    log.append(&mut batch).expect("there is room");
    assert_eq!(batch.place(0).segment, places[119].segment);
    log.close().expect("the disk works");
    let (mut log, recovered) = open(undeclared(&log, &places).0);
    log.discard_unnamed(&recovered).expect("the disk works");
    let first = log.disk().list().expect("it works");
    for seq in 1..100 {
        batch.clear();
        batch.message(&[Target { queue: 9, seq, head: &[] }], &[1; 700]);
        log.append(&mut batch).expect("there is room");
        let mut removal = Removal::new(9);
        removal.add(seq, batch.place(0));
        batch.clear();
        batch.remove(&mut removal);
        log.append(&mut batch).expect("there is room");
        idle(&mut log);
        let (_, recovered) = open(log.disk().as_seen());
        assert_eq!((recovered.unnamed(), found(&recovered, 9)), (Unnamed::default(), vec![0]), "{seq}");
    }
    let now = log.disk().list().expect("it works");
    assert!(now.iter().filter(|segment| first.contains(segment)).count() <= 2, "{first:?} {now:?}");
}

#[test]
fn messages_of_a_missing_segment_are_reported_lost() {
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
fn messages_cut_off_a_short_segment_are_reported_lost() {
    let (log, places) = filled();
    for bytes in [0, 100, 4096, 8000, 15_000] {
        let disk = log.disk().as_seen();
        disk.truncate(2, bytes);
        let (_, recovered) = open(disk);
        let cut = |place: &RecordLocation| place.segment == 2 && u64::from(place.offset + place.len) > bytes;
        for queue in [1, 2] {
            let expected = seqs(&places, queue, cut);
            // Without the header block, its records cannot be distinguished from those of an
            // earlier use of the file.
            assert_eq!(lost(&recovered, queue), expected, "{bytes} bytes are left");
        }
        assert!(recovered.gaps.iter().any(|gap| gap.segment == 2) || lost(&recovered, 1).is_empty());
    }
}

#[test]
fn damaged_records_of_a_full_segment_are_reported_lost() {
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
fn removed_moved_or_dropped_messages_are_not_reported_lost() {
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
fn reclaimed_segments_are_not_reported_missing() {
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

/// Changes to the file in use, by the bytes that are left of it; `None`: it is removed.
const LEFT: [Option<u64>; 6] = [None, Some(0), Some(100), Some(4096), Some(5000), Some(8000)];

/// The disk after the file that held the last message has lost its end.
fn shortened(log: &Log<SimulatedDisk>, last: u32, left: Option<u64>) -> SimulatedDisk {
    let disk = log.disk().as_seen();
    match left {
        None => disk.remove(last).expect("it is there"),
        Some(bytes) => disk.truncate(last, bytes),
    }
    disk
}

#[test]
fn the_messages_of_the_file_in_use_are_named_after_a_close() {
    let (mut log, places) = filled();
    let last = places[119].segment;
    log.close().expect("the disk works");
    for left in LEFT {
        let (mut log, recovered) = open(shortened(&log, last, left));
        let cut = |place: &RecordLocation| {
            place.segment == last && left.is_none_or(|bytes| u64::from(place.offset + place.len) > bytes)
        };
        assert!(places.iter().any(cut), "{left:?}");
        for queue in [1, 2] {
            assert_eq!(lost(&recovered, queue), seqs(&places, queue, cut), "{left:?} bytes are left");
            assert_eq!(found(&recovered, queue), seqs(&places, queue, |place| !cut(place)));
        }
        assert!(recovered.queues.iter().all(|queue| queue.next_seq == 60), "no number is used again");
        assert_eq!(recovered.gaps.iter().filter(|gap| gap.segment == last).count(), 1);
        idle(&mut log);
        let (_, again) = open(log.disk().as_seen());
        assert_eq!((lost(&again, 1), lost(&again, 2)), (vec![], vec![]), "it is reported once");
    }
}

#[test]
fn after_a_crash_the_messages_up_to_the_last_rest_are_named() {
    let (mut log, places) = filled();
    let last = places[119].segment;
    log.rest().expect("the disk works");
    let mut batch = WriteBatch::new();
    batch.message(&[Target { queue: 1, seq: 60, head: &[] }], &[1; 200]);
    log.append(&mut batch).expect("there is room");
    log.sync().expect("the disk works");
    assert_eq!(batch.place(0).segment, last);
    for left in LEFT {
        let (_, recovered) = open(shortened(&log, last, left));
        let cut = |place: &RecordLocation| {
            place.segment == last && left.is_none_or(|bytes| u64::from(place.offset + place.len) > bytes)
        };
        for queue in [1, 2] {
            assert_eq!(lost(&recovered, queue), seqs(&places, queue, cut), "{left:?} bytes are left");
        }
    }
    let (_, whole) = open(log.disk().as_seen());
    assert_eq!((lost(&whole, 1), found(&whole, 1).len(), whole.gaps.len()), (vec![], 61, 0));
}

#[test]
fn a_quarter_of_a_segment_is_listed_without_a_rest() {
    let (log, places) = filled();
    let last = places[119].segment;
    let disk = log.disk().as_seen();
    disk.remove(last).expect("it is there");
    let (_, recovered) = open(disk);
    let missing = seqs(&places, 1, |place| place.segment == last);
    let named = lost(&recovered, 1);
    assert!(!named.is_empty() && missing.starts_with(&named), "{named:?} of {missing:?}");
    assert!(missing.len() - named.len() <= 3, "{named:?} of {missing:?}");
}

#[test]
fn what_the_file_in_use_removed_or_dropped_is_not_missed() {
    let (mut log, _) = open(SimulatedDisk::new(512, 1));
    let mut batch = WriteBatch::new();
    for queue in [1, 2] {
        batch.declare(queue, &[queue as u8; 16], "orders");
        for seq in 0..10 {
            batch.message(&[Target { queue, seq, head: &[seq as u8] }], b"body");
        }
    }
    log.append(&mut batch).expect("there is room");
    log.rest().expect("nothing to do");
    log.sync().expect("the disk works");
    log.rest().expect("the disk works");
    let mut removal = Removal::new(1);
    (3..10).for_each(|seq| removal.add(seq, batch.place(seq as usize)));
    let mut later = WriteBatch::new();
    later.remove(&mut removal);
    let mut freed = enmasse_journal::log::Freed::default();
    (10..20).for_each(|number| freed.add(batch.place(number)));
    later.drop_queue(2, &freed);
    log.append(&mut later).expect("there is room");
    let segment = batch.place(0).segment;
    log.close().expect("the disk works");
    let disk = log.disk().as_seen();
    disk.remove(segment).expect("it is there");
    let (_, recovered) = open(disk);
    assert_eq!(lost(&recovered, 1), [0, 1, 2]);
    let queue = &recovered.queues[0];
    assert_eq!((queue.queue, queue.next_seq), (1, 10));
    assert_eq!((queue.oldest_lost.as_deref(), queue.newest_listed.as_deref()), (Some(&[0][..]), Some(&[9][..])));
    assert_eq!(recovered.queues.len(), 1, "a queue that was dropped has lost nothing");
}

#[test]
fn records_that_the_catalog_lists_are_damaged_and_no_unfinished_end() {
    for close in [false, true] {
        let (mut log, places) = filled();
        if close { log.close() } else { log.rest() }.expect("the disk works");
        let disk = log.disk().as_seen();
        let place = places[119];
        disk.write(place.segment, place.offset.into(), &[IoSlice::new(&[0xEE; 600])]).expect("the disk works");
        // Without the index of the closed segment, and the mark of one at rest.
        disk.truncate(place.segment, u64::from(place.offset + place.len) + 4);
        let (_, recovered) = open(disk);
        assert_eq!((lost(&recovered, 1), lost(&recovered, 2)), (vec![], vec![59]), "{close}");
        assert_eq!(recovered.gaps.len(), 1);
    }
}

#[test]
fn damaged_or_missing_catalog_loses_no_messages() {
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
fn growing_catalog_is_rewritten() {
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
