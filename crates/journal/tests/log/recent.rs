//! The newest part of the log in memory: its content, and its eviction.

use std::sync::Arc;

use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{Config, Log, Recent, RecordLocation, Target, WriteBatch};

/// A log in small segments, so that batches run over their ends.
struct Fixture {
    log: Log<SimulatedDisk>,
    recent: Recent,
    next: u64,
}

impl Fixture {
    fn new(bytes_max: usize) -> Self {
        let config = Config { segment_bytes: 16 << 10, secret: 7, ..Config::default() };
        let (mut log, _) =
            Log::open(Arc::new(SimulatedDisk::new(512, 1)), config).expect("an empty disk can be opened");
        let mut batch = WriteBatch::new();
        for queue in 1..=2 {
            batch.declare(queue, &[queue as u8; 16], "orders");
        }
        log.append(&mut batch).expect("there is room");
        Self { log, recent: Recent::new(bytes_max), next: 0 }
    }

    fn body(seq: u64) -> Vec<u8> {
        (0..500 + seq % 300).map(|at| (seq * 31 + at) as u8).collect()
    }

    /// A batch of `count` messages, each for `queues` queues, goes to the log and back.
    fn batch(&mut self, count: u64, queues: u32) -> Vec<(u64, RecordLocation)> {
        let mut batch = self.recent.spare();
        let seqs = self.next..self.next + count;
        self.next = seqs.end;
        for seq in seqs.clone() {
            let targets: Vec<_> = (1..=queues).map(|queue| Target { queue, seq, head: &[] }).collect();
            batch.message(&targets, &Self::body(seq));
        }
        self.log.append(&mut batch).expect("there is room");
        let places = seqs.enumerate().map(|(number, seq)| (seq, batch.place(number))).collect();
        self.recent.keep(batch);
        places
    }

    fn has(&self, (seq, place): (u64, RecordLocation)) -> bool {
        let found = self.recent.body(place);
        assert!(found.is_none_or(|body| body == Self::body(seq)), "{seq} is another");
        found.is_some()
    }
}

#[test]
fn every_recent_message_is_found_by_its_location() {
    let mut fixture = Fixture::new(1 << 20);
    let messages: Vec<_> = (0..8).flat_map(|_| fixture.batch(40, 1)).collect();
    assert!(messages.iter().any(|(_, place)| place.segment != messages[0].1.segment), "segments were filled");
    for step in [1, 7, 63] {
        assert!((0..messages.len()).all(|at| fixture.has(messages[at * step % messages.len()])));
    }
    let (_, place) = messages[0];
    assert_eq!(fixture.recent.body(RecordLocation { len: 1 << 20, ..place }), None);
    assert_eq!(fixture.recent.body(RecordLocation { segment: place.segment + 1000, ..place }), None);
}

#[test]
fn oldest_batches_are_evicted_first() {
    let mut fixture = Fixture::new(128 << 10);
    let messages: Vec<_> = (0..40).flat_map(|_| fixture.batch(20, 1)).collect();
    let here: Vec<bool> = messages.iter().map(|message| fixture.has(*message)).collect();
    let first = here.iter().position(|here| *here).expect("the newest is there");
    assert!(first > 0 && here[first..].iter().all(|here| *here));
}

#[test]
fn batch_is_dropped_when_its_last_message_is_forgotten() {
    let mut fixture = Fixture::new(1 << 20);
    let (one, other) = (fixture.batch(5, 1), fixture.batch(5, 2));
    for (_, place) in &one {
        assert!(fixture.has(one[4]));
        fixture.recent.forget(*place);
    }
    assert!(one.iter().all(|message| !fixture.has(*message)));
    assert!(other.iter().all(|message| fixture.has(*message)));
    // Two queues have each message: it is needed until both have forgotten it.
    other.iter().for_each(|(_, place)| fixture.recent.forget(*place));
    assert!(other.iter().all(|message| fixture.has(*message)));
    other.iter().rev().for_each(|(_, place)| fixture.recent.forget(*place));
    assert!(other.iter().all(|message| !fixture.has(*message)));
    other.iter().for_each(|(_, place)| fixture.recent.forget(*place));
    let last = fixture.batch(3, 1);
    assert!(last.iter().all(|message| fixture.has(*message)));
}

#[test]
fn batches_can_be_dropped_in_any_order() {
    let mut fixture = Fixture::new(1 << 20);
    let batches: Vec<_> = (0..5).map(|_| fixture.batch(4, 1)).collect();
    for gone in [2, 0, 1, 4, 3] {
        assert!(batches[gone].iter().all(|message| fixture.has(*message)));
        batches[gone].iter().for_each(|(_, place)| fixture.recent.forget(*place));
        assert!(batches[gone].iter().all(|message| !fixture.has(*message)));
    }
}

#[test]
fn message_that_stays_keeps_no_memory_of_the_batches_after_it() {
    let mut fixture = Fixture::new(1 << 20);
    let kept = fixture.batch(1, 1);
    for _ in 0..500 {
        let gone = fixture.batch(2, 1);
        gone.iter().for_each(|(_, place)| fixture.recent.forget(*place));
    }
    assert_eq!(fixture.recent.batches(), 1);
    assert!(fixture.has(kept[0]));
}
