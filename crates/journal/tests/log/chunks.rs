//! Batches too large for one commit: other batches are committed between their chunks, and after
//! any event between two chunks either all of the batch exists or none of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use enmasse_journal::log::simulated::{Call, Dice, SimulatedDisk};
use enmasse_journal::log::{
    CommitSchedule, Committed, Config, Lane, Log, RecordLocation, Recovered, Refused, Removal, Target, WriteBatch,
};

const COMMIT_BYTES: u32 = 2 << 10;
const SEGMENT_BYTES: u32 = 16 << 10;
/// The queue of small messages, and that of large ones.
const SMALL: u32 = 1;
const LARGE: u32 = 2;
const SMALL_LANE: Lane = Lane { worker: 0, part: 1 };
const LARGE_LANE: Lane = Lane { worker: 0, part: 2 };

fn config() -> Config {
    Config { segment_bytes: SEGMENT_BYTES, commit_bytes: COMMIT_BYTES, secret: 0xC0FFEE, ..Config::default() }
}

fn open(disk: Arc<SimulatedDisk>) -> (Log<SimulatedDisk>, Recovered) {
    Log::open(disk, config()).expect("reading works")
}

fn small(seq: u64, bytes: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.message(&[Target { queue: SMALL, seq, head: &[] }], &vec![seq as u8; bytes]);
    batch
}

/// A log with two queues, and one message in that for large ones.
fn begun(disk: &Arc<SimulatedDisk>) -> (Log<SimulatedDisk>, RecordLocation) {
    begun_with(disk, config())
}

fn begun_with(disk: &Arc<SimulatedDisk>, config: Config) -> (Log<SimulatedDisk>, RecordLocation) {
    let (mut log, _) = Log::open(Arc::clone(disk), config).expect("reading works");
    let mut batch = WriteBatch::new();
    batch.declare(SMALL, &[1; 16], "small");
    batch.declare(LARGE, &[2; 16], "large");
    let first = batch.message(&[Target { queue: LARGE, seq: 0, head: &[] }], b"first");
    log.append(&mut batch).expect("there is room");
    log.sync().expect("the disk works");
    (log, batch.place(first))
}

/// A transaction: a large message, a small one, a value, and the removal of the first message.
fn transaction(bytes: usize, first: RecordLocation) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.begin();
    batch.message(&[Target { queue: LARGE, seq: 1, head: &[7] }], &vec![0xAB; bytes]);
    batch.message(&[Target { queue: LARGE, seq: 2, head: &[] }], b"behind it");
    batch.state(LARGE, b"key", b"value");
    let mut removal = Removal::new(LARGE);
    removal.add(0, first);
    batch.remove(&mut removal);
    batch.end();
    batch
}

/// The records known to be on disk, and those passed on.
#[derive(Debug, Default)]
struct Notified {
    small: u64,
    handed: u64,
    large: bool,
    steps: u64,
}

/// One run of a log: small messages, with a transaction in chunks among them.
fn live(disk: &Arc<SimulatedDisk>, cut: Option<u64>, bytes: usize, small_bytes: usize) -> Notified {
    let (mut log, first) = begun(disk);
    cut.into_iter().for_each(|calls| disk.cut_after(calls));
    let mut commits = CommitSchedule::new(COMMIT_BYTES);
    let mut notified = Notified::default();
    for round in 0..100 {
        if round == 3 {
            commits.push(LARGE_LANE, transaction(bytes, first));
        }
        if round % 2 == 0 && !notified.large || round > 90 {
            commits.push(SMALL_LANE, small(notified.handed, small_bytes));
            notified.handed += 1;
        }
        let mut done = Vec::new();
        commits.step(&mut log, &mut done);
        notified.steps += 1;
        for Committed { lane, result, .. } in done {
            match (lane, result) {
                (SMALL_LANE, Ok(())) => notified.small += 1,
                (_, Ok(())) => notified.large = true,
                (_, Err(_)) => return notified,
            }
        }
        let _ = log.turn();
    }
    notified
}

fn judge(notified: &Notified, disk: Arc<SimulatedDisk>, what: &str) {
    let (mut log, recovered) = open(disk);
    assert_eq!(recovered.gaps, [], "{what}: damage is reported");
    let [small, large] = &recovered.queues[..] else { panic!("{what}: {} queues", recovered.queues.len()) };
    let found: Vec<u64> = small.messages().map(|message| message.seq).collect();
    assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>(), "{what}: the order of a queue");
    assert!((notified.small..=notified.handed).contains(&(found.len() as u64)), "{what}: {notified:?}, {found:?}");
    let found: Vec<u64> = large.messages().map(|message| message.seq).collect();
    let is_whole = found == [1, 2] && large.states.len() == 1;
    assert!(is_whole || (found == [0] && large.states.is_empty()), "{what}: half of a transaction: {found:?}");
    assert!(is_whole || !notified.large, "{what}: an acknowledged transaction is gone");
    for message in small.messages().chain(large.messages()) {
        log.reader().read(message.place, &mut Vec::new()).expect("it can be read");
    }
    assert_eq!(log.stats().alive_messages, (small.len() + large.len()) as u64, "{what}");
    // A later message is recovered, too.
    log.append(&mut self::small(500, 100)).expect("there is room");
    log.sync().expect("the disk works");
    let (_, again) = open(Arc::new(log.disk().as_seen()));
    assert_eq!((again.queues[0].len(), again.queues[1].len()), (small.len() + 1, large.len()), "{what}");
    assert_eq!(again.gaps, [], "{what}");
}

#[test]
fn crash_between_any_two_disk_calls_keeps_a_batch_whole_or_absent() {
    // In a spare segment, in a segment of its own, and with so many other records that the spares
    // are used up.
    for (bytes, small_bytes) in [(9_000, 300), (40_000, 300), (13_000, 2_000), (40_000, 2_000), (11_900, 1_500)] {
        let disk = Arc::new(SimulatedDisk::new(512, 1));
        let notified = live(&disk, None, bytes, small_bytes);
        assert!(notified.large && notified.small > 10, "{notified:?}");
        for cut in 0..disk.calls() {
            let disk = Arc::new(SimulatedDisk::new(512, cut));
            let notified = live(&disk, Some(cut), bytes, small_bytes);
            judge(&notified, Arc::new(disk.as_seen()), &format!("{bytes} bytes, killed after {cut} calls"));
            for seed in 0..8 {
                let what = format!("{bytes} bytes, no power after {cut} calls, {seed}");
                judge(&notified, Arc::new(disk.crashed(seed)), &what);
            }
        }
    }
}

#[test]
fn small_batches_are_committed_between_the_chunks_of_a_large_one() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let config = Config { segment_bytes: 1 << 20, commit_bytes: 64 << 10, ..config() };
    let (mut log, first) = begun_with(&disk, config);
    let mut commits = CommitSchedule::new(config.commit_bytes);
    commits.push(LARGE_LANE, transaction(700_000, first));
    let (mut seq, mut steps, mut large) = (0, 0, false);
    while !large {
        commits.push(SMALL_LANE, small(seq, 100));
        let mut waited = 0;
        let mut is_back = false;
        while !is_back {
            let mut done = Vec::new();
            commits.step(&mut log, &mut done);
            for Committed { lane, batch, result } in done {
                assert_eq!(result, Ok(()));
                is_back |= lane == SMALL_LANE && batch.messages() == 1;
                large |= lane == LARGE_LANE;
            }
            waited += 1;
        }
        assert!(waited <= 2, "a small batch waits for one chunk at most, not for {waited} steps");
        steps += waited;
        seq += 1;
    }
    assert!(seq >= 10 && steps >= 20, "{seq} small ones were committed meanwhile, in {steps} steps");
}

#[test]
fn staged_batch_completes_although_the_disk_becomes_full() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let (mut log, first) = begun(&disk);
    let mut commits = CommitSchedule::new(COMMIT_BYTES);
    commits.push(LARGE_LANE, transaction(40_000, first));
    commits.step(&mut log, &mut Vec::new());
    commits.step(&mut log, &mut Vec::new());
    disk.set_capacity_bytes(disk.used_bytes());
    let (mut refused, mut stored) = (0, 0);
    let mut large = None;
    for seq in 0..200 {
        commits.push(SMALL_LANE, small(seq, 1_500));
        let mut done = Vec::new();
        commits.step(&mut log, &mut done);
        for Committed { lane, result, .. } in done {
            match (lane, result) {
                (LARGE_LANE, result) => large = Some(result),
                (_, Ok(())) => stored += 1,
                (_, Err(Refused::NoRoom(_))) => refused += 1,
                (_, Err(other)) => panic!("{other}"),
            }
        }
    }
    assert_eq!(large, Some(Ok(())), "its space was reserved when it began");
    assert!(refused > 0 && stored > 0, "{refused} refused, {stored} stored");
    commits.push(LARGE_LANE, transaction(60_000, first));
    let mut done = Vec::new();
    (0..400).for_each(|_| commits.step(&mut log, &mut done));
    let result = done.into_iter().find(|committed| committed.lane == LARGE_LANE).map(|committed| committed.result);
    assert!(matches!(result, Some(Err(Refused::NoRoom(_)))), "{result:?}");
    let (_, recovered) = open(Arc::new(disk.as_seen()));
    assert_eq!(recovered.queues[1].messages().map(|message| message.seq).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn queue_dropped_after_a_large_message_removes_that_message() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let (mut log, first) = begun(&disk);
    let mut commits = CommitSchedule::new(COMMIT_BYTES);
    commits.push(LARGE_LANE, transaction(9_000, first));
    let mut dropped = WriteBatch::new();
    dropped.drop_queue(LARGE, &enmasse_journal::log::Freed::default());
    commits.push(LARGE_LANE, dropped);
    let mut order = Vec::new();
    while !commits.is_empty() {
        commits.push(SMALL_LANE, small(order.len() as u64, 100));
        let mut done = Vec::new();
        commits.step(&mut log, &mut done);
        order.extend(done.iter().map(|committed| committed.lane));
        for Committed { lane, batch, result } in done {
            assert_eq!(result, Ok(()));
            // Its locations are known now, and its queue was removed.
            if lane == LARGE_LANE && batch.messages() == 2 {
                let mut freed = WriteBatch::new();
                let mut places = enmasse_journal::log::Freed::default();
                (0..2).for_each(|message| places.add(batch.place(message)));
                freed.free(&places);
                log.append(&mut freed).expect("it writes nothing");
            }
        }
        if order.iter().filter(|lane| **lane == LARGE_LANE).count() == 2 {
            break;
        }
    }
    let (log, recovered) = open(Arc::new(disk.as_seen()));
    assert_eq!(recovered.queues.iter().map(|queue| queue.queue).collect::<Vec<_>>(), [SMALL]);
    assert_eq!(log.stats().alive_messages, recovered.queues[0].len() as u64);
}

#[test]
fn a_failing_chunk_stops_the_log_and_leaves_nothing_of_the_batch() {
    for (call, after) in [(Call::Write, 0), (Call::Write, 2), (Call::Sync, 1), (Call::Sync, 3)] {
        let disk = Arc::new(SimulatedDisk::new(512, 1));
        let (mut log, first) = begun(&disk);
        let mut batch = transaction(9_000, first);
        assert!(log.stages(&batch));
        log.stage(&mut batch).expect("there is room");
        disk.fail(call, after);
        let result = loop {
            if let Some((batch, result)) = log.write_chunk() {
                assert_eq!(batch.messages(), 2, "the batch comes back");
                break result;
            }
        };
        assert!(matches!(result, Err(Refused::Stopped(_))), "{result:?}");
        assert!(log.stopped().is_some() && log.write_chunk().is_none());
        let (_, recovered) = open(Arc::new(disk.as_seen()));
        assert_eq!(recovered.queues[1].messages().map(|message| message.seq).collect::<Vec<_>>(), [0]);
    }
}

/// Batches of random sizes over some lanes, passed on in random order.
#[test]
fn lanes_keep_their_order() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let disk = Arc::new(SimulatedDisk::new(512, seed));
        let (mut log, _) = begun(&disk);
        let mut commits = CommitSchedule::new(COMMIT_BYTES);
        let (mut sent, mut back): (BTreeMap<Lane, u64>, BTreeMap<Lane, u64>) = Default::default();
        let mut seq = 0;
        while seq < 120 || !commits.is_empty() {
            if seq < 120 && dice.percent(60) {
                let lane = Lane { worker: dice.below(2) as u16, part: dice.below(3) as u32 };
                let bytes = 8 + if dice.percent(10) { dice.below(30_000) } else { dice.below(900) };
                let number = sent.entry(lane).or_default();
                let mut body = vec![0; bytes as usize];
                body[..8].copy_from_slice(&number.to_le_bytes());
                let mut batch = WriteBatch::new();
                batch.message(&[Target { queue: SMALL, seq, head: &[] }], &body);
                *number += 1;
                commits.push(lane, batch);
                seq += 1;
            }
            let mut done = Vec::new();
            commits.step(&mut log, &mut done);
            for Committed { lane, batch, result } in done {
                assert_eq!(result, Ok(()));
                let number = back.entry(lane).or_default();
                assert_eq!(batch.body(0)[..8], number.to_le_bytes(), "seed {seed}: the order of a lane");
                *number += 1;
            }
        }
        assert_eq!(sent, back, "seed {seed}: every batch comes back");
        let (_, recovered) = open(Arc::new(disk.as_seen()));
        assert_eq!(recovered.queues[0].len(), 120);
    }
}

/// A space whose addresses are spread over two workers, and has joint groups, gets the share of one.
#[test]
fn space_has_one_share_on_all_its_workers() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let (mut log, _) = begun(&disk);
    let mut commits = CommitSchedule::new(COMMIT_BYTES);
    let spread = [0, 1, 2].map(|worker| Lane { worker, part: 2 });
    for seq in 0..60 {
        for lane in spread {
            let mut batch = WriteBatch::new();
            batch.message(&[Target { queue: LARGE, seq: 1 + seq * 3 + u64::from(lane.worker), head: &[] }], &[7; 100]);
            commits.push(lane, batch);
        }
        commits.push(SMALL_LANE, small(seq, 100));
    }
    let mut done = Vec::new();
    while done.len() < 80 {
        commits.step(&mut log, &mut done);
    }
    let of_others = done.iter().filter(|done| done.lane == SMALL_LANE).count();
    assert!(of_others.abs_diff(done.len() / 2) <= 2, "{of_others} of {}", done.len());
    for lane in spread {
        let of_lane = done.iter().filter(|done| done.lane == lane).count();
        assert!(of_lane.abs_diff(done.len() / 6) <= 2, "{of_lane} of {lane:?}");
    }
}
