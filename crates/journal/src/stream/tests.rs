//! One partition, without a log.

use super::*;

fn settings(bytes: Option<u64>, age_ms: Option<u64>) -> Settings {
    Settings { retention: Retention { bytes, age_ms }, ..Settings::default() }
}

fn place(n: u32) -> RecordLocation {
    RecordLocation { segment: 1, offset: n, len: 100 }
}

fn gather(partition: &mut Partition, now_ms: u64, bytes: usize) {
    let put = |out: &mut Vec<u8>, _| {
        let at = out.len();
        out.resize(at + 8 + bytes, 7);
        Some(at)
    };
    assert!(partition.gather(now_ms, Identity::default(), None, bytes, put).is_some());
}

/// Flushes and commits the gathered messages. Returns the blocks, as offsets of their messages.
fn commit(partition: &mut Partition, n: &mut u32) -> Vec<Vec<u64>> {
    let mut blocks = Vec::new();
    partition.flush(|block| {
        let (mut at, mut offsets) = (0, Vec::new());
        while let Some((entry, next)) = block::entry(block.body, at) {
            offsets.push(u64::from_be_bytes(entry.message[..8].try_into().expect("eight bytes")));
            at = next;
        }
        assert_eq!(at, block.body.len());
        blocks.push((offsets, block.body.len() as u64));
    });
    for (_, bytes) in &blocks {
        *n += 1;
        partition.committed(place(*n), *bytes);
    }
    blocks.into_iter().map(|(offsets, _)| offsets).collect()
}

#[test]
fn blocks_are_filled_and_offsets_are_dense() {
    let (mut partition, mut n) = (Partition::new(&settings(None, None)), 0);
    for _ in 0..100 {
        gather(&mut partition, 1, 10_000);
    }
    gather(&mut partition, 2, 2 * BLOCK_BYTES);
    gather(&mut partition, 3, 1);
    let blocks = commit(&mut partition, &mut n);
    assert_eq!(blocks.iter().map(Vec::len).collect::<Vec<_>>(), [26, 26, 26, 22, 1, 1]);
    assert_eq!(blocks.concat(), (0..102).collect::<Vec<u64>>());
    assert_eq!((partition.first(), partition.next(), partition.uncommitted()), (0, 102, 0));
    let found: Vec<u64> = partition.find(30).map(|block| block.first).collect();
    assert_eq!(found, [26, 52, 78, 100, 101]);
    assert_eq!([1, 2, 3, 4].map(|at_ms| partition.since(at_ms)), [0, 100, 101, 102]);
}

#[test]
fn offsets_of_a_refused_write_are_reused() {
    let (mut partition, mut n) = (Partition::new(&settings(None, None)), 0);
    gather(&mut partition, 1, 10);
    gather(&mut partition, 1, 10);
    partition.flush(|_| {});
    gather(&mut partition, 1, 10);
    assert!(!partition.may_flush(), "one flush at a time");
    assert_eq!((partition.refused(), partition.answered()), (2, 2));
    assert_eq!(commit(&mut partition, &mut n), [[0]]);
}

#[test]
fn message_that_fails_to_encode_leaves_no_trace() {
    let (mut partition, mut n) = (Partition::new(&settings(None, None)), 0);
    let broken = |out: &mut Vec<u8>, _| {
        out.push(1);
        None
    };
    assert_eq!(partition.gather(1, Identity::default(), Some("a/b"), 10, broken), None);
    assert!(!partition.may_flush());
    gather(&mut partition, 1, 10);
    assert_eq!(partition.gather(1, Identity::default(), None, 10, broken), None);
    assert_eq!(commit(&mut partition, &mut n), [[0]]);
}

#[test]
fn retention_removes_the_oldest_blocks_by_bytes_and_age() {
    let (mut partition, mut n) = (Partition::new(&settings(Some(50_000), Some(1000))), 0);
    for at_ms in 0..20 {
        gather(&mut partition, at_ms, 5000);
        commit(&mut partition, &mut n);
    }
    let mut gone = 0;
    while let Some(block) = partition.overdue(20) {
        assert_eq!(block.first, gone);
        gone += 1;
    }
    assert!(partition.bytes() <= 50_000 && partition.first() == gone);
    assert_eq!(partition.next_timeout(), Some(gone + 1000));
    assert_eq!(partition.ended(), None);
    while partition.overdue(2000).is_some() {}
    assert_eq!((partition.first(), partition.next(), partition.bytes()), (20, 20, 0));
    assert!(partition.ended().is_some() && partition.next_timeout().is_none());
}

#[test]
fn newest_block_is_retained_even_beyond_the_byte_limit() {
    let (mut partition, mut n) = (Partition::new(&settings(Some(1000), None)), 0);
    gather(&mut partition, 1, 10);
    commit(&mut partition, &mut n);
    gather(&mut partition, 1, 5000);
    commit(&mut partition, &mut n);
    assert_eq!(partition.overdue(1).map(|block| block.first), Some(0));
    assert_eq!(partition.overdue(1), None);
}

#[test]
fn small_blocks_are_merged_and_the_result_is_merged_again() {
    let (mut partition, mut n) = (Partition::new(&settings(None, None)), 0);
    for round in 0..4 {
        let before = partition.blocks.len();
        while partition.merge_due().is_none() {
            gather(&mut partition, n.into(), 100);
            commit(&mut partition, &mut n);
        }
        let merge = partition.merge().expect("a merge");
        assert_eq!(partition.overdue(u64::MAX), None, "nothing is removed during a merge");
        assert_eq!(merge.blocks.len(), 64);
        let head = BlockHead::decode(&merge.head).expect("a head");
        assert_eq!(u64::from(head.count), partition.next() - head.first);
        assert_eq!(head.last_ms, u64::from(n) - 1);
        gather(&mut partition, n.into(), 100);
        commit(&mut partition, &mut n);
        partition.merged(merge.record, Some(place(100_000 + round)));
        assert_eq!(partition.find(0).next().map(|block| block.first), Some(0));
        assert!(partition.blocks.len() <= before + 2, "{} blocks", partition.blocks.len());
    }
    let whole: u64 = partition.blocks.iter().map(|block| u64::from(block.count)).sum();
    assert_eq!(whole, partition.next());
}

#[test]
fn refused_merge_leaves_the_blocks_unchanged() {
    let (mut partition, mut n) = (Partition::new(&settings(None, Some(5))), 0);
    while partition.merge_due().is_none() {
        gather(&mut partition, 1, 100);
        commit(&mut partition, &mut n);
    }
    let before = partition.blocks.clone();
    let merge = partition.merge().expect("a merge");
    assert_eq!(partition.places().count(), 0, "the merge owns the locations");
    assert_eq!(partition.merged(merge.record, None), None);
    assert_eq!(partition.blocks, before);
    assert_eq!(partition.overdue(10).map(|block| block.first), Some(0));
}

#[test]
fn blocks_being_copied_are_retained_until_the_copy_is_stored() {
    let (mut partition, mut n) = (Partition::new(&settings(None, Some(5))), 0);
    gather(&mut partition, 1, 100);
    commit(&mut partition, &mut n);
    let copied = partition.copying(1, 10);
    assert_eq!(copied, [(0, place(1))]);
    assert!(partition.copying(1, 10).is_empty() && partition.overdue(100).is_none());
    assert!(partition.moved(0, Some(place(9))) && !partition.moved(0, Some(place(10))));
    assert_eq!(partition.overdue(100).map(|block| block.place), Some(place(9)));
}
