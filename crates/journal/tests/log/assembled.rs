//! Messages that were received in parts are stored as others are.

use std::sync::Arc;

use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{
    AssembledBody, CommitSchedule, Config, HEAD_BYTES_MAX, Lane, Log, Recent, SHARED_BYTES, Target, WriteBatch,
};

fn config() -> Config {
    Config { segment_bytes: 1 << 20, commit_bytes: 64 << 10, secret: 5, ..Config::default() }
}

fn body(bytes: usize) -> (Vec<u8>, AssembledBody) {
    let whole: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 250) as u8).collect();
    let mut assembled = AssembledBody::default();
    whole.chunks(10_000).for_each(|part| assembled.push(part));
    assert_eq!(assembled.body(), whole);
    (whole, assembled)
}

#[test]
fn a_message_in_parts_is_read_from_memory_and_from_disk() {
    // Of the longest meta, alone in its batch and behind another message, copied and taken over.
    let (queue, seq, head) = (u32::MAX - 1, u64::MAX - 9, [7; HEAD_BYTES_MAX]);
    for bytes in [0, 1, 100_000, (256 << 10) - 1, 256 << 10, 300_001, 3_000_000] {
        for first in [false, true] {
            let disk = Arc::new(SimulatedDisk::new(512, 1));
            let (mut log, _) = Log::open(Arc::clone(&disk), config()).expect("an empty disk can be opened");
            let mut batch = WriteBatch::new();
            batch.declare(queue, &[1; 16], "orders");
            log.append(&mut batch).expect("there is room");
            let mut batch = WriteBatch::new();
            let (whole, assembled) = body(bytes);
            if first {
                batch.message(&[Target { queue, seq: seq - 1, head: &[] }], b"first");
            }
            batch.begin();
            let number = batch.assembled(Target { queue, seq, head: &head }, assembled);
            batch.state(queue, b"key", b"value");
            batch.end();
            assert_eq!(batch.body(number), whole);
            let mut commits = CommitSchedule::new(config().commit_bytes);
            commits.push(Lane::default(), batch);
            let mut done = Vec::new();
            while done.is_empty() {
                commits.step(&mut log, &mut done);
            }
            let committed = done.remove(0);
            committed.result.expect("it is on disk");
            let place = committed.batch.place(number);
            let mut recent = Recent::new(1 << 20);
            recent.keep(committed.batch);
            assert_eq!(recent.body(place), Some(&whole[..]));
            assert_eq!(recent.shared(place).is_some(), bytes >= SHARED_BYTES, "{bytes} bytes");
            let (log, recovered) = Log::open(Arc::new(disk.as_seen()), config()).expect("it can be opened again");
            let found: Vec<_> = recovered.queues[0].messages().map(|it| (it.seq, it.place, it.head.to_vec())).collect();
            assert_eq!(found.last(), Some(&(seq, place, head.to_vec())), "{bytes} bytes");
            assert_eq!(found.len(), 1 + usize::from(first));
            assert_eq!(recovered.queues[0].states.len(), 1);
            assert_eq!(log.reader().read(place, &mut Vec::new()).expect("it is whole"), whole);
        }
    }
}
