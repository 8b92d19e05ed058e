//! Multicast consumers that take no message delay others only until the stall limit.

use enmasse_router::core::{AddressKind, AttachmentId, BACKLOG_BYTES, HOLD_BYTES, STALL_MS};

use crate::bench::{Bench, CAPACITY};

fn bench() -> Bench {
    Bench::new(AddressKind::Multicast)
}

/// A consumer with ample credit and no room.
fn stuck(bench: &mut Bench) -> AttachmentId {
    let attachment = bench.consumer_with(1_000_000);
    bench.full(attachment, true);
    attachment
}

fn count(reported: &[String], what: &str) -> usize {
    reported.iter().filter(|line| line.starts_with(what)).count()
}

fn taken(reported: &[String]) -> u32 {
    let counts = reported.iter().filter_map(|line| line.strip_prefix("p0 taken "));
    counts.map(|count| count.parse::<u32>().expect("a number")).sum()
}

#[test]
fn producer_waits_for_a_slow_consumer_that_makes_progress() {
    let mut bench = bench();
    let (producer, consumer) = (bench.producer(), bench.consumer());
    for id in 0..CAPACITY {
        bench.send(producer, id, "m");
    }
    bench.hush();
    for _ in 0..4 {
        bench.pass(STALL_MS - 50);
        bench.credit(consumer, 1);
    }
    bench.turn();
    assert_eq!(taken(&bench.reported()), 4);
}

#[test]
fn producer_waits_for_a_stuck_consumer_only_until_the_stall_limit() {
    let mut bench = bench();
    let producer = bench.producer();
    stuck(&mut bench);
    for id in 0..CAPACITY {
        bench.send(producer, id, "m");
    }
    bench.pass(STALL_MS - 1);
    assert_eq!(taken(&bench.reported()), 0);
    bench.pass(1);
    assert_eq!(taken(&bench.reported()), CAPACITY);
}

#[test]
fn fast_consumer_that_joins_a_stuck_one_gets_every_message() {
    let mut bench = bench();
    let producer = bench.producer();
    stuck(&mut bench);
    for id in 0..CAPACITY {
        bench.send(producer, id, "m");
    }
    bench.pass(STALL_MS);
    bench.consumer_with(1_000_000);
    bench.hush();
    for id in 0..5 * CAPACITY {
        bench.send(producer, id, "n");
        bench.turn();
    }
    let reported = bench.reported();
    assert_eq!(count(&reported, "c1<n"), 5 * CAPACITY as usize);
    assert_eq!(taken(&reported), 5 * CAPACITY);
}

#[test]
fn three_stuck_consumers_do_not_delay_a_fourth() {
    let mut bench = bench();
    let producer = bench.producer();
    for _ in 0..3 {
        stuck(&mut bench);
    }
    let fast = bench.consumer_with(1_000_000);
    bench.hush();
    for id in 0..CAPACITY {
        bench.send(producer, id, "m");
    }
    bench.pass(STALL_MS);
    for id in 0..3 * CAPACITY {
        bench.send(producer, id, "m");
        bench.turn();
    }
    let reported = bench.reported();
    assert_eq!(count(&reported, "c3<m"), 4 * CAPACITY as usize);
    assert_eq!(taken(&reported), 4 * CAPACITY);
    assert!(!bench.is_holding(fast) || count(&reported, "p0 hold") == 0);
}

#[test]
fn stuck_consumer_holds_its_producer_only_until_the_stall_limit() {
    let mut bench = bench();
    let producer = bench.producer();
    stuck(&mut bench);
    let text = "m".repeat(HOLD_BYTES / 4);
    for _ in 0..5 {
        bench.send_settled(producer, &text);
    }
    assert_eq!(count(&bench.reported(), "p0 hold"), 1);
    bench.pass(STALL_MS);
    assert_eq!(count(&bench.reported(), "p0 go"), 1);
    for _ in 0..4 * BACKLOG_BYTES / text.len() {
        bench.send_settled(producer, &text);
        bench.turn();
    }
    assert_eq!(count(&bench.reported(), "p0 hold"), 0);
    assert!(bench.stats().dropped > 0, "past its bound it misses copies");
}

#[test]
fn consumer_stuck_within_a_delivery_holds_it_only_until_the_stall_limit() {
    let mut bench = bench();
    let producer = bench.producer();
    let slow = bench.consumer_with(10);
    bench.arrive(producer, 0, "begin", "first settled");
    bench.full(slow, true);
    let part = "p".repeat(HOLD_BYTES / 2);
    for _ in 0..3 {
        bench.arrive(producer, 0, &part, "");
    }
    assert_eq!(count(&bench.reported(), "p0 hold"), 1);
    bench.pass(STALL_MS);
    assert_eq!(count(&bench.reported(), "p0 go"), 1);
}

#[test]
fn consumer_that_caught_up_is_awaited_again() {
    let mut bench = bench();
    let producer = bench.producer();
    let slow = stuck(&mut bench);
    for id in 0..CAPACITY {
        bench.send(producer, id, "m");
    }
    bench.pass(STALL_MS);
    bench.full(slow, false);
    bench.full(slow, true);
    bench.hush();
    for id in 0..CAPACITY {
        bench.send(producer, id, "n");
    }
    bench.turn();
    assert_eq!(taken(&bench.reported()), 0, "it is waited for again");
    bench.full(slow, false);
    bench.turn();
    let reported = bench.reported();
    assert_eq!((count(&reported, "c0<n"), taken(&reported)), (CAPACITY as usize, CAPACITY));
}
