//! Counters.

use enmasse_amqp::types::Outcome;
use enmasse_router::core::{AddressKind, AddressStats, HOLD_BYTES};

use crate::bench::{Bench, CAPACITY, modified, rejected};

#[test]
fn every_outcome_is_counted_once() {
    for kind in [AddressKind::Anycast, AddressKind::Multicast] {
        let mut bench = Bench::new(kind);
        let (producer, consumer) = (bench.producer(), bench.consumer_with(5));
        let outcomes = [Outcome::Accepted, rejected(), Outcome::Released, modified(true), modified(false)];
        for (id, outcome) in outcomes.iter().enumerate() {
            bench.send(producer, id as u32, "four");
            bench.answer(consumer, "four", outcome);
        }
        bench.send_settled(producer, "waits");
        let expected = AddressStats {
            producers: 1,
            consumers: 1,
            delivered: 5,
            bytes: 20,
            accepted: 1,
            rejected: 1,
            released: 1,
            modified: 2,
            presettled: 1,
            dropped: 0,
            waiting: 1,
            damaged: 0,
            credit_stalls: 0,
        };
        assert_eq!(bench.stats(), expected);
    }
}

#[test]
fn credit_stall_is_counted_once_per_exhausted_window() {
    for kind in [AddressKind::Anycast, AddressKind::Multicast] {
        let mut bench = Bench::new(kind);
        let (producer, consumer) = (bench.producer(), bench.consumer());
        let stalls = |bench: &mut Bench| bench.stats().credit_stalls;
        for id in 0..CAPACITY - 1 {
            bench.send(producer, id, "m");
        }
        assert_eq!(stalls(&mut bench), 0, "its window is not used up");
        bench.send(producer, CAPACITY, "m");
        assert_eq!(stalls(&mut bench), 1);
        bench.credit(consumer, 1);
        bench.send(producer, CAPACITY + 1, "m");
        assert_eq!(stalls(&mut bench), 1, "its window was not granted again in between");
        bench.credit(consumer, CAPACITY);
        for id in 0..CAPACITY {
            bench.send(producer, 2 * CAPACITY + id, "m");
        }
        assert_eq!(stalls(&mut bench), 2);
    }
}

#[test]
fn credit_stall_is_counted_once_per_hold_for_bytes() {
    let mut bench = Bench::new(AddressKind::Anycast);
    let (producer, consumer) = (bench.producer(), bench.consumer());
    let large = "x".repeat(HOLD_BYTES / 2 + 1);
    for id in 0..3 {
        bench.send(producer, id, &large);
    }
    assert_eq!(bench.stats().credit_stalls, 1);
    bench.credit(consumer, 3);
    for id in 3..5 {
        bench.send(producer, id, &large);
    }
    assert_eq!(bench.stats().credit_stalls, 2);
}

#[test]
fn the_same_calls_with_the_same_seed_give_the_same_answers() {
    let run = || {
        let mut bench = Bench::new(AddressKind::Anycast);
        let producer = bench.producer();
        for _ in 0..20 {
            bench.consumer_with(20);
        }
        for id in 0..200 {
            bench.send(producer, id, "m");
        }
        bench.reported()
    };
    assert_eq!(run(), run());
}
