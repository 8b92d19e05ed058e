//! Joint groups: what several workers write together is on disk as a whole or not at all.

use std::sync::Arc;

use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{
    CommitSchedule, Committed, Config, JointId, JointPart, Lane, Log, RecordLocation, Recovered, Refused, Removal,
    Target, WriteBatch,
};

const COMMIT_BYTES: u32 = 2 << 10;
/// The queue that a message leaves, and the one that stores it.
const FROM: u32 = 1;
const TO: u32 = 2;
const FROM_LANE: Lane = Lane { worker: 0, part: 7 };
const TO_LANE: Lane = Lane { worker: 1, part: 7 };

fn open(disk: Arc<SimulatedDisk>) -> (Log<SimulatedDisk>, Recovered) {
    let config = Config { segment_bytes: 16 << 10, commit_bytes: COMMIT_BYTES, secret: 5, ..Config::default() };
    Log::open(disk, config).expect("reading works")
}

/// A log with a message in the first queue.
fn begun(disk: &Arc<SimulatedDisk>) -> (Log<SimulatedDisk>, RecordLocation) {
    let (mut log, _) = open(Arc::clone(disk));
    let mut batch = WriteBatch::new();
    batch.declare(FROM, &[1; 16], "from");
    batch.declare(TO, &[2; 16], "to");
    let first = batch.message(&[Target { queue: FROM, seq: 0, head: &[] }], b"first");
    log.append(&mut batch).and_then(|()| log.sync()).expect("the disk works");
    (log, batch.place(first))
}

fn part(declined: Option<&str>) -> JointPart {
    let id = JointId { worker: 0, number: 1 };
    JointPart { id, parts: 2, declined: declined.map(str::to_owned), joins: Vec::new() }
}

fn removal(place: RecordLocation) -> WriteBatch {
    let mut batch = WriteBatch::new();
    let mut removal = Removal::new(FROM);
    removal.add(0, place);
    batch.remove(&mut removal);
    batch.set_joint(part(None));
    batch
}

fn message(bytes: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.begin();
    batch.message(&[Target { queue: TO, seq: 0, head: &[3] }], &vec![0xAB; bytes]);
    batch.state(TO, b"key", b"value");
    batch.end();
    batch.set_joint(part(None));
    batch
}

fn other(seq: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.message(&[Target { queue: TO, seq, head: &[] }], &[seq as u8; 200]);
    batch
}

fn steps(log: &mut Log<SimulatedDisk>, commits: &mut CommitSchedule) -> Vec<Committed> {
    let mut done = Vec::new();
    for _ in 0..100 {
        commits.step(log, &mut done);
    }
    done
}

/// Moves the message, among others of the second queue. Returns whether both workers have learned
/// that it is on disk.
fn moved(disk: &Arc<SimulatedDisk>, cut: Option<u64>, bytes: usize) -> bool {
    let (mut log, first) = begun(disk);
    cut.into_iter().for_each(|calls| disk.cut_after(calls));
    let mut commits = CommitSchedule::new(COMMIT_BYTES);
    commits.push(FROM_LANE, removal(first));
    commits.push(TO_LANE, other(10));
    commits.push(TO_LANE, message(bytes));
    commits.push(TO_LANE, other(11));
    let done = steps(&mut log, &mut commits);
    let joint = done.iter().filter(|done| done.batch.joint().is_some() && done.result.is_ok());
    joint.count() == 2
}

#[test]
fn crash_between_any_two_disk_calls_leaves_the_message_in_one_queue() {
    for bytes in [100, 9_000, 40_000] {
        let disk = Arc::new(SimulatedDisk::new(512, 1));
        assert!(moved(&disk, None, bytes));
        for cut in 0..disk.calls() {
            let disk = Arc::new(SimulatedDisk::new(512, cut));
            let is_answered = moved(&disk, Some(cut), bytes);
            let crashed = (0..8).map(|seed| disk.crashed(seed)).chain([disk.as_seen()]);
            for disk in crashed {
                let (_, recovered) = open(Arc::new(disk));
                let [from, to] = &recovered.queues[..] else { panic!("two queues: {recovered:?}") };
                let has_moved = to.messages().any(|message| message.seq == 0);
                assert_eq!(from.is_empty(), has_moved, "{bytes} bytes, cut after {cut} calls");
                assert_eq!(to.states.len(), usize::from(has_moved));
                assert!(has_moved || !is_answered, "an acknowledged move is gone");
            }
        }
    }
}

#[test]
fn each_worker_gets_its_part_with_the_locations_of_its_messages() {
    for bytes in [100, 9_000, 40_000] {
        let disk = Arc::new(SimulatedDisk::new(512, 1));
        let (mut log, first) = begun(&disk);
        let mut commits = CommitSchedule::new(COMMIT_BYTES);
        commits.push(TO_LANE, message(bytes));
        assert_eq!(steps(&mut log, &mut commits).len(), 0, "the other part is missing");
        assert!(commits.is_empty(), "nothing can be written");
        commits.push(FROM_LANE, removal(first));
        let done = steps(&mut log, &mut commits);
        let lanes: Vec<Lane> = done.iter().map(|done| done.lane).collect();
        assert_eq!(lanes, [TO_LANE, FROM_LANE]);
        let mut body = Vec::new();
        let read = log.reader().read(done[0].batch.place(0), &mut body).map(<[u8]>::to_vec);
        assert_eq!(read.expect("it can be read"), vec![0xAB; bytes]);
        assert_eq!(log.stats().alive_messages, 1);
    }
}

#[test]
fn declined_group_writes_nothing_and_tells_all_workers_why() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let (mut log, first) = begun(&disk);
    let records = log.stats().records;
    let mut commits = CommitSchedule::new(COMMIT_BYTES);
    commits.push(FROM_LANE, removal(first));
    let mut declined = WriteBatch::new();
    declined.set_joint(part(Some("the queue is full")));
    commits.push(TO_LANE, declined);
    assert!(!commits.is_empty(), "the answers wait");
    let done = steps(&mut log, &mut commits);
    let refused = Err(Refused::Declined("the queue is full".to_owned()));
    assert_eq!(
        done.iter().map(|done| (done.lane, done.result.clone())).collect::<Vec<_>>(),
        [(FROM_LANE, refused.clone()), (TO_LANE, refused)]
    );
    assert_eq!(log.stats().records, records);
}

/// A part of the group with this number: a state key of its own, or a part that joins two groups of
/// others.
fn part_of(number: u64, joins: &[u64]) -> WriteBatch {
    let id = |number| JointId { worker: 0, number };
    let mut batch = WriteBatch::new();
    batch.begin();
    batch.state(TO, &[number as u8, joins.len() as u8], b"set");
    batch.end();
    let joins = joins.iter().map(|number| (id(*number), 2)).collect();
    batch.set_joint(JointPart { id: id(number), parts: 2, declined: None, joins });
    batch
}

/// Every order in which the parts of three groups arrive that one part joins: nothing is written
/// before the last one, and after each cut all of it is on disk or nothing.
#[test]
fn groups_that_a_part_joins_are_written_as_one() {
    let parts = || [part_of(1, &[2, 3]), part_of(1, &[]), part_of(2, &[]), part_of(3, &[])];
    let orders = (0..24).map(|order| {
        let mut left: Vec<usize> = (0..4).collect();
        [order / 6, order / 2 % 3, order % 2, 0].map(|at| left.remove(at))
    });
    for order in orders {
        let push = |disk: &Arc<SimulatedDisk>, cut: Option<u64>| {
            let (mut log, _) = begun(disk);
            cut.into_iter().for_each(|calls| disk.cut_after(calls));
            let mut commits = CommitSchedule::new(COMMIT_BYTES);
            let mut parts = parts().map(Some);
            let mut done = Vec::new();
            for at in order {
                assert!(commits.is_empty() && done.is_empty(), "parts are missing: {order:?}");
                commits.push(Lane { worker: at as u16, part: 7 }, parts[at].take().expect("each comes once"));
                done = steps(&mut log, &mut commits);
            }
            done.iter().filter(|done| done.result.is_ok()).count()
        };
        let disk = Arc::new(SimulatedDisk::new(512, 1));
        assert_eq!(push(&disk, None), 4, "each worker has its answer: {order:?}");
        for cut in 0..disk.calls() {
            let disk = Arc::new(SimulatedDisk::new(512, cut));
            let answered = push(&disk, Some(cut));
            for disk in (0..4).map(|seed| disk.crashed(seed)).chain([disk.as_seen()]) {
                let (_, recovered) = open(Arc::new(disk));
                let states: usize = recovered.queues.iter().map(|queue| queue.states.len()).sum();
                assert!(states == 4 || states == 0 && answered == 0, "{states} of 4, {answered} answered: {order:?}");
            }
        }
    }
}

#[test]
fn part_that_declines_refuses_all_groups_that_are_joined() {
    let disk = Arc::new(SimulatedDisk::new(512, 1));
    let (mut log, _) = begun(&disk);
    let mut commits = CommitSchedule::new(COMMIT_BYTES);
    let mut declined = WriteBatch::new();
    let id = JointId { worker: 0, number: 2 };
    declined.set_joint(JointPart { id, parts: 2, declined: Some("no".to_owned()), joins: Vec::new() });
    for (worker, batch) in (0..).zip([declined, part_of(1, &[2]), part_of(1, &[])]) {
        assert!(commits.is_empty());
        commits.push(Lane { worker, part: 7 }, batch);
    }
    let done = steps(&mut log, &mut commits);
    assert_eq!(done.len(), 3);
    assert!(done.iter().all(|done| done.result == Err(Refused::Declined("no".to_owned()))));
}
