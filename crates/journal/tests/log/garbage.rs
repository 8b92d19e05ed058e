//! With any bytes on the disk, opening the log neither fails nor panics, and the rest of it is
//! usable.

use std::io::IoSlice;
use std::sync::Arc;

use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{Config, Disk, Log, Target, WriteBatch};
use proptest::prelude::*;

const SEGMENT_BYTES: u32 = 16 << 10;

fn config() -> Config {
    Config { segment_bytes: SEGMENT_BYTES, secret: 77, ..Config::default() }
}

/// A log of some segments.
fn filled() -> SimulatedDisk {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let (mut log, _) = Log::open(Arc::clone(&disk), config()).expect("an empty disk can be opened");
    let mut batch = WriteBatch::new();
    batch.declare(1, &[1; 16], "orders");
    for seq in 0..100 {
        batch.begin();
        batch.message(&[Target { queue: 1, seq, head: &[4; 20] }], &vec![seq as u8; 400 + seq as usize * 3]);
        batch.state(1, b"last", &seq.to_le_bytes());
        batch.end();
        log.append(&mut batch).expect("there is room");
        log.sync().expect("the disk works");
        batch.clear();
    }
    disk.as_seen()
}

/// Opens the log, reads every reported message and appends one; returns how many were readable.
fn open_read_and_append(disk: SimulatedDisk) -> usize {
    let (mut log, recovered) = Log::open(Arc::new(disk), config()).expect("reading works");
    let reader = log.reader();
    let mut buffer = Vec::new();
    let mut readable = 0;
    for message in recovered.queues.iter().flat_map(|queue| queue.messages()) {
        readable += usize::from(reader.read(message.place, &mut buffer).is_ok());
    }
    let mut batch = WriteBatch::new();
    batch.message(&[Target { queue: 1, seq: 1 << 50, head: &[] }], b"one more");
    log.append(&mut batch).expect("there is room");
    log.sync().expect("the disk works");
    for _ in 0..20 {
        log.turn().expect("the disk works");
        log.sync().expect("the disk works");
    }
    readable
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn overwritten_bytes_lose_only_the_messages_they_held(
        holes in prop::collection::vec((any::<prop::sample::Index>(), 4096u64..u64::from(SEGMENT_BYTES), prop::collection::vec(any::<u8>(), 1..600)), 1..4)
    ) {
        let disk = filled();
        let segments = disk.list().expect("the folder can be read");
        for (segment, offset, bytes) in &holes {
            let kept = bytes.len().min((u64::from(SEGMENT_BYTES) - offset) as usize);
            let segment = segments[segment.index(segments.len())];
            disk.write(segment, *offset, &[IoSlice::new(&bytes[..kept])]).expect("the disk works");
        }
        // A hole is at most 600 bytes long: it touches three messages, unless it is in the last
        // segment, where it may look like the end of what was written.
        let last = 30;
        prop_assert!(open_read_and_append(disk) >= 100 - holes.len() * 3 - last);
    }

    #[test]
    fn log_opens_with_segments_of_arbitrary_bytes(
        segments in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6000), 0..3),
        after in any::<bool>(),
    ) {
        let disk = if after { filled() } else { SimulatedDisk::new(512, 1) };
        for (number, bytes) in segments.iter().enumerate() {
            let number = 900 + number as u32;
            disk.create(number, bytes.len() as u64).expect("there is room");
            disk.write(number, 0, &[IoSlice::new(bytes)]).expect("the disk works");
        }
        prop_assert_eq!(open_read_and_append(disk), if after { 100 } else { 0 });
    }
}
