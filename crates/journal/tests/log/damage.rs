//! Damage by more than a bit, and the end of the log distinguished from it.

use std::io::IoSlice;
use std::sync::Arc;

use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{Config, Disk, Log, ReadError, RecordLocation, Recovered, Target, WriteBatch};

fn config() -> Config {
    Config { segment_bytes: 16 << 10, secret: 3, ..Config::default() }
}

fn open(disk: SimulatedDisk) -> (Log<SimulatedDisk>, Recovered) {
    Log::open(Arc::new(disk), config()).expect("reading works")
}

fn put(log: &mut Log<SimulatedDisk>, seqs: std::ops::Range<u64>, body: &[u8]) -> Vec<RecordLocation> {
    let mut batch = WriteBatch::new();
    for seq in seqs.clone() {
        batch.message(&[Target { queue: 1, seq, head: &[] }], body);
    }
    log.append(&mut batch).expect("there is room");
    seqs.enumerate().map(|(at, _)| batch.place(at)).collect()
}

/// A log with twenty messages, each committed before the next.
fn twenty() -> (Log<SimulatedDisk>, Vec<RecordLocation>) {
    let (mut log, _) = open(SimulatedDisk::new(512, 1));
    let mut batch = WriteBatch::new();
    batch.declare(1, &[1; 16], "orders");
    log.append(&mut batch).expect("there is room");
    let mut places = Vec::new();
    for seq in 0..20 {
        places.extend(put(&mut log, seq..seq + 1, &[seq as u8; 300]));
        log.sync().expect("the disk works");
    }
    (log, places)
}

/// The log as it is opened after a frame was overwritten.
fn without(log: &Log<SimulatedDisk>, place: RecordLocation) -> (Vec<u64>, Recovered) {
    let disk = log.disk().as_seen();
    disk.write(place.segment, place.offset.into(), &[IoSlice::new(&[0xEE; 200])]).expect("the disk works");
    let (_, recovered) = open(disk);
    (recovered.queues[0].messages().map(|message| message.seq).collect(), recovered)
}

#[test]
fn hole_in_the_durable_part_loses_only_its_own_record() {
    let (log, places) = twenty();
    for (hole, &place) in (0..19).zip(&places) {
        let (left, recovered) = without(&log, place);
        assert_eq!(left, (0..20).filter(|&seq| seq != hole).collect::<Vec<_>>());
        let [gap] = recovered.gaps[..] else { panic!("one gap: {:?}", recovered.gaps) };
        assert_eq!((gap.segment, gap.offset), (place.segment, place.offset));
    }
}

#[test]
fn damaged_last_record_is_an_unfinished_write_until_the_log_has_rested() {
    let (mut log, places) = twenty();
    let (left, recovered) = without(&log, places[19]);
    assert_eq!((left, recovered.gaps.len()), ((0..19).collect(), 0));
    log.rest().expect("the disk works");
    let (left, recovered) = without(&log, places[19]);
    assert_eq!((left, recovered.gaps.len()), ((0..19).collect(), 1));
}

/// A body whose last byte has one bit set, and whose last sector was never written.
#[test]
fn torn_record_that_differs_in_one_bit_is_an_unfinished_write() {
    let (mut log, _) = open(SimulatedDisk::new(512, 1));
    let mut batch = WriteBatch::new();
    batch.declare(1, &[1; 16], "orders");
    log.append(&mut batch).expect("there is room");
    log.sync().expect("the disk works");
    let place = put(&mut log, 0..1, &[&[7; 99][..], &[0x10]].concat())[0];
    let disk = log.disk().as_seen();
    let last = u64::from(place.offset + place.len - 1);
    disk.write(place.segment, last, &[IoSlice::new(&[0])]).expect("the disk works");
    let (_, recovered) = open(disk);
    assert_eq!((recovered.queues[0].len(), &recovered.gaps[..]), (0, &[][..]));
}

#[test]
fn adjacent_messages_are_read_together_and_verified_separately() {
    let (log, places) = twenty();
    let disk = log.disk();
    for broken in [Vec::new(), vec![0], vec![7, 8], vec![19]] {
        let (log, _) = open(disk.as_seen());
        for at in &broken {
            let place: RecordLocation = places[*at];
            log.disk().write(place.segment, place.offset.into(), &[IoSlice::new(&[0xEE; 200])]).expect("it works");
        }
        let mut wanted: Vec<RecordLocation> = places.iter().rev().copied().collect();
        wanted.push(places[3]);
        let mut found = vec![0; 20];
        log.reader().read_all(&mut wanted, &mut Vec::new(), |place, body| {
            let at = places.iter().position(|other| *other == place).expect("one that was asked for");
            found[at] += 1;
            let expected = if broken.contains(&at) { Err(ReadError::Damaged(place)) } else { Ok(vec![at as u8; 300]) };
            assert_eq!(body.map(<[u8]>::to_vec), expected);
        });
        assert!(found.iter().enumerate().all(|(at, times)| *times == 1 + usize::from(at == 3)), "{found:?}");
    }
    let missing = RecordLocation { segment: 99, ..places[0] };
    let mut faults = Vec::new();
    log.reader().read_all(&mut [places[0], missing, missing], &mut Vec::new(), |place, body| {
        faults.extend(body.err().map(|_| place));
    });
    assert_eq!(faults, [missing, missing]);
}

#[test]
fn record_lost_in_a_crash_never_reappears_after_later_appends() {
    let body = [7; 2000];
    let (mut log, _) = twenty();
    let mut next = 20;
    while log.stats().segments < 2 {
        log.sync().expect("the disk works");
        put(&mut log, next..next + 2, &body);
        next += 2;
    }
    for seed in 0..200 {
        let (mut after, recovered) = open(log.disk().crashed(seed));
        let found = recovered.queues[0].len() as u64;
        assert!(found == next || found == next - 1 || found == next - 2);
        put(&mut after, 1000..1001, &body);
        after.sync().expect("the disk works");
        let (_, again) = open(after.disk().as_seen());
        assert_eq!(again.queues[0].len() as u64, found + 1, "seed {seed}");
    }
}
