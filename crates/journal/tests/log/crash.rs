//! Seeded crashes: after any failure of the disk, the log equals the history up to some point at or
//! after the last acknowledgement; groups are whole; a flipped bit costs at most the body it is in.
//!
//! `ENMASSE_CRASH_RUNS` is the number of seeds, `ENMASSE_CRASH_SEED` the first one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use enmasse_journal::log::simulated::{Call, Dice, SimulatedDisk};
use enmasse_journal::log::{Config, Disk, Log, Recovered, Refused, WriteBatch};

use crate::history::{Contents, Reported};
use crate::shard::{Known, Shard, Staged};

const RUNS: u64 = 100;
const SEGMENT_BYTES: u32 = 16 << 10;

pub(crate) fn config() -> Config {
    let commit_bytes = 2 << 10;
    Config { segment_bytes: SEGMENT_BYTES, slack_segments: 3, commit_bytes, secret: 0xC0FFEE, ..Config::default() }
}

#[test]
fn acknowledged_records_survive_any_crash() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let runs = number("ENMASSE_CRASH_RUNS").unwrap_or(RUNS);
    let first = number("ENMASSE_CRASH_SEED").unwrap_or(1);
    let mut crashes = 0;
    for seed in first..first + runs {
        let notified = std::panic::catch_unwind(|| live(seed));
        match notified {
            Ok(lived) => crashes += lived,
            Err(panic) => {
                eprintln!("seed {seed}: run again with ENMASSE_CRASH_RUNS=1 ENMASSE_CRASH_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{runs} seeds, {crashes} crashes");
}

/// Runs a log through some crashes; returns their number.
fn live(seed: u64) -> u64 {
    let mut dice = Dice::new(seed);
    let sector_bytes = if dice.percent(50) { 512 } else { 4096 };
    let disk = Arc::new(SimulatedDisk::new(sector_bytes, seed));
    let mut shard = Shard::new(disk, dice.any());
    let crashes = 2 + dice.below(4);
    let mut flipped = BTreeSet::new();
    for _ in 0..crashes {
        trouble(&shard, &mut dice);
        let steps = 20 + dice.below(300);
        let alive = (0..steps).all(|_| shard.step());
        if alive {
            check_alive(&mut shard, &mut dice);
        } else {
            check_stopped(&mut shard);
        }
        if alive && dice.percent(20) {
            let closed = shard.close();
            assert!(closed.is_ok() || shard.log.stopped().is_some());
        }
        shard = crash(shard, &mut dice, &mut flipped);
    }
    crashes
}

/// Schedules a fault of the disk, or none.
fn trouble(shard: &Shard, dice: &mut Dice) {
    let disk = shard.disk();
    match dice.below(10) {
        0..3 => disk.cut_after(dice.below(150)),
        3 => disk.fail(Call::Sync, dice.below(50)),
        4 => disk.fail(Call::Write, dice.below(80)),
        5 => disk.fail(Call::Create, dice.below(4)),
        6 => disk.fail(Call::SyncFolder, dice.below(8)),
        7 => disk.set_capacity_bytes(u64::from(SEGMENT_BYTES) * (4 + dice.below(8))),
        _ => {}
    }
}

fn check_alive(shard: &mut Shard, dice: &mut Dice) {
    // A batch written in chunks may count before its completion.
    if shard.staged.is_none() {
        assert_eq!(shard.log.stats().alive_messages, shard.known.len() as u64, "alive messages");
    }
    shard.read(0, usize::MAX);
    if dice.percent(30) && shard.settle().is_ok() {
        let stats = shard.log.stats();
        let bound = stats.alive_bytes * 2 + 5 * u64::from(SEGMENT_BYTES);
        assert!(stats.used_bytes <= bound, "too much is kept: {stats:?} {:?}", shard.log);
    }
}

/// A stopped log refuses every write and still reads.
fn check_stopped(shard: &mut Shard) {
    assert!(shard.log.stopped().is_some());
    assert!(matches!(shard.log.sync(), Err(Refused::Unsure(_) | Refused::Stopped(_))));
    assert!(matches!(shard.log.append(&mut WriteBatch::new()), Err(Refused::Stopped(_))));
    assert!(matches!(shard.log.turn(), Err(Refused::Stopped(_))));
    shard.read(0, usize::MAX);
}

fn crash(shard: Shard, dice: &mut Dice, flipped: &mut BTreeSet<u32>) -> Shard {
    let killed = dice.percent(25);
    let disk = if killed { shard.disk().as_seen() } else { shard.disk().crashed(dice.any()) };
    let flips = if dice.percent(50) { flip(&disk, dice, flipped) } else { Vec::new() };
    disk.set_capacity_bytes(u64::MAX);
    let disk = Arc::new(disk);
    if dice.percent(20) {
        // Opening can fail half way too.
        disk.cut_after(dice.below(6));
        let _ = Log::open(Arc::clone(&disk), config()).expect("reading works");
        let disk = Arc::new(disk.crashed(dice.any()));
        return reopen(shard, disk, &flips);
    }
    let whole = killed && shard.log.stopped().is_none() && flips.is_empty();
    let reported = shard.pending.len();
    let contents = shard.contents.clone();
    let staged = shard.staged.clone();
    let next = reopen(shard, disk, &flips);
    let is_all = difference(&contents, &next.acknowledged, staged.as_ref()).is_none();
    assert!(!whole || is_all, "of {reported} groups that were written some are missing");
    next
}

/// Flip a bit in some segments, in each at most once in its life.
fn flip(disk: &SimulatedDisk, dice: &mut Dice, flipped: &mut BTreeSet<u32>) -> Vec<(u32, u64)> {
    let mut flips = Vec::new();
    for _ in 0..=dice.below(3) {
        let segments = disk.list().expect("the folder can be read");
        let Some(&segment) = segments.get(dice.below(segments.len() as u64) as usize) else { continue };
        let Some(bytes) = disk.bytes(segment) else { continue };
        let byte = dice.below(bytes.len() as u64);
        if !bytes.is_empty() && flipped.insert(segment) && disk.flip(segment, byte, dice.below(8) as u8) {
            flips.push((segment, byte));
        }
    }
    flips
}

/// How two contents differ, apart from a batch that was being written in chunks.
fn difference(expected: &Contents, found: &Contents, staged: Option<&Staged>) -> Option<String> {
    let without = expected.difference(found)?;
    let Some(staged) = staged else { return Some(without) };
    let mut with = expected.clone();
    // The batch may have been stored before its queue was dropped.
    if staged.group.iter().all(|reported| with.takes(reported)) {
        with.apply(&staged.group);
    }
    with.difference(found)
}

/// Opens the log and compares its content with the history.
fn reopen(before: Shard, disk: Arc<SimulatedDisk>, flips: &[(u32, u64)]) -> Shard {
    let (log, recovered) = Log::open(disk, config()).expect("reading works");
    assert_eq!(log.stopped(), None);
    let found = Contents::found(&recovered);
    let mut expected = before.acknowledged.clone();
    let staged = before.staged.as_ref();
    let mut differences = vec![difference(&expected, &found, staged)];
    for group in &before.pending {
        if differences.last() == Some(&None) {
            break;
        }
        expected.apply(group);
        differences.push(difference(&expected, &found, staged));
    }
    assert_eq!(
        differences.last(),
        Some(&None),
        "the recovered content matches no point of the history: {differences:?}, {:?}",
        recovered.gaps
    );
    assert_eq!(recovered.gaps, [], "every flipped bit is repaired or reported by message");
    assert!(recovered.queues.iter().all(|queue| queue.lost.is_empty()), "no segment is missing");
    shard_after_crash(before, log, &recovered, found, flips)
}

fn shard_after_crash(
    before: Shard,
    log: Log<SimulatedDisk>,
    recovered: &Recovered,
    found: Contents,
    flips: &[(u32, u64)],
) -> Shard {
    let mut contents: BTreeMap<(u32, u64), _> =
        before.known.iter().map(|(&target, known)| (target, known.content)).collect();
    for reported in before.pending.iter().chain(before.staged.iter().map(|staged| &staged.group)).flatten() {
        if let Reported::Message { targets, content } = reported {
            contents.extend(targets.iter().map(|(queue, seq, _)| ((*queue, *seq), *content)));
        }
    }
    contents.extend(before.contents_of_gone.iter().map(|(&target, &content)| (target, content)));
    let mut known = BTreeMap::new();
    let mut broken = before.broken;
    for queue in &recovered.queues {
        for message in queue.messages() {
            let target = (queue.queue, message.seq);
            let place = message.place;
            let within = |&&(segment, byte): &&(u32, u64)| {
                segment == place.segment && (place.offset.into()..u64::from(place.offset + place.len)).contains(&byte)
            };
            if flips.iter().any(|flip| within(&flip)) {
                broken.insert(target);
            }
            assert!(!message.damaged || broken.contains(&target), "{target:?} reported as damaged");
            assert!(message.seq < queue.next_seq);
            known.insert(target, Known { place, content: contents[&target] });
        }
        assert!(queue.queue < recovered.next_queue);
    }
    assert_eq!(log.stats().alive_messages, known.len() as u64);
    assert_eq!(found.messages(), known.len());
    let shard = Shard {
        log,
        known,
        broken,
        acknowledged: found.clone(),
        contents: found,
        pending: Vec::new(),
        staged: None,
        contents_of_gone: BTreeMap::new(),
        ..before
    };
    shard.read(0, usize::MAX);
    shard
}
