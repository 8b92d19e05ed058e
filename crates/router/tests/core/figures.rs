//! What is counted.

use enmasse_amqp::types::Outcome;
use enmasse_router::core::{AddressKind, AddressStats};

use crate::bench::{Bench, modified, rejected};

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
            credit_stalls: 1,
        };
        assert_eq!(bench.stats(), expected);
    }
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
        bench.said()
    };
    assert_eq!(run(), run());
}
