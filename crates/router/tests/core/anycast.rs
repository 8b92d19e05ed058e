//! `docs/contracts.md` 7: credit, and anycast.

use enmasse_amqp::types::Outcome;
use enmasse_router::core::AddressKind;

use crate::bench::{Bench, CAPACITY, modified, rejected};

fn bench() -> Bench {
    Bench::new(AddressKind::Anycast)
}

#[test]
fn producer_window_opens_with_the_first_consumer_regardless_of_credit() {
    let mut bench = bench();
    bench.producer();
    assert_eq!(bench.reported(), ["p0 shut"]);
    let consumer = bench.consumer();
    assert_eq!(bench.reported(), ["p0 open"]);
    bench.producer();
    assert_eq!(bench.reported(), ["p1 open"]);
    bench.consumer_with(1);
    assert_eq!(bench.reported(), [""; 0], "one more consumer changes nothing");
    bench.detach(consumer);
    assert_eq!(bench.reported(), [""; 0], "nor does the detach of one of two");
}

#[test]
fn producer_window_closes_when_the_last_consumer_detaches() {
    let mut bench = bench();
    bench.producer();
    bench.anonymous();
    let consumer = bench.consumer();
    bench.hush();
    bench.leave(consumer);
    assert_eq!(bench.reported(), ["p0 shut"], "the anonymous producer is never notified");
}

#[test]
fn producer_window_advances_only_as_consumers_take_messages() {
    let mut bench = bench();
    let (producer, consumer) = (bench.producer(), bench.consumer_with(2));
    for id in 0..4 {
        bench.send(producer, id, "m");
    }
    bench.hush();
    bench.turn();
    assert_eq!(bench.reported(), ["p0 taken 2"]);
    bench.turn();
    assert_eq!(bench.reported(), [""; 0]);
    bench.credit(consumer, 1);
    bench.turn();
    assert_eq!(bench.reported(), ["c0<m", "p0 taken 1"]);
}

#[test]
fn messages_beyond_the_producer_window_are_released_or_dropped() {
    let mut bench = bench();
    let (producer, other, _consumer) = (bench.producer(), bench.producer(), bench.consumer());
    for id in 0..CAPACITY {
        bench.send(producer, id, "m");
    }
    bench.hush();
    bench.send(producer, 77, "beyond");
    bench.send_settled(producer, "beyond");
    bench.send(other, 1, "within its own");
    assert_eq!(bench.reported(), ["p0 77 released"]);
    bench.turn();
    assert_eq!(bench.reported(), ["p0 taken 2"]);
    assert_eq!((bench.stats().waiting, bench.stats().dropped), (u64::from(CAPACITY) + 1, 1));
}

#[test]
fn consumer_gets_no_transfer_beyond_its_credit() {
    let mut bench = bench();
    let (producer, consumer) = (bench.producer(), bench.consumer_with(2));
    bench.hush();
    for id in 0..3 {
        bench.send(producer, id, "m");
    }
    assert_eq!(bench.reported(), ["c0<m", "c0<m"]);
    bench.credit(consumer, 0);
    assert_eq!(bench.reported(), [""; 0]);
    bench.credit(consumer, 5);
    assert_eq!(bench.reported(), ["c0<m"]);
}

#[test]
fn credit_is_a_limit_unaffected_by_transfers_in_flight() {
    let mut bench = bench();
    let producer = bench.producer();
    let consumer = bench.consumer_with(3);
    bench.hush();
    bench.send(producer, 0, "a");
    bench.send(producer, 1, "b");
    // Granted before the two arrived: three in total, of which two are used.
    bench.router.credit(consumer, 3, false, &mut bench.links);
    bench.send(producer, 2, "c");
    bench.send(producer, 3, "d");
    assert_eq!(bench.reported(), ["c0<a", "c0<b", "c0<c"]);
    bench.router.credit(consumer, 1, false, &mut bench.links);
    assert_eq!(bench.reported(), [""; 0], "a limit already passed is no credit");
    bench.router.credit(consumer, 4, false, &mut bench.links);
    assert_eq!(bench.reported(), ["c0<d"]);
}

#[test]
fn consumer_outcome_reaches_the_producer_with_its_error_and_flags() {
    for (outcome, recorded) in [
        (Outcome::Accepted, "accepted"),
        (Outcome::Rejected(None), "rejected"),
        (rejected(), "rejected with an error"),
        (Outcome::Released, "released"),
        (modified(true), "failed"),
        (modified(false), "modified"),
    ] {
        let mut bench = bench();
        let (producer, consumer) = (bench.producer(), bench.consumer_with(1));
        let other = bench.consumer_with(1);
        bench.send(producer, 9, "m");
        bench.hush();
        let holder = if bench.is_holding(consumer) { consumer } else { other };
        bench.answer(holder, "m", &outcome);
        assert_eq!(bench.reported(), [format!("p0 9 {recorded}")], "and no other consumer gets it");
    }
}

#[test]
fn repeated_or_stale_outcome_is_ignored() {
    let mut bench = bench();
    let (producer, _consumer) = (bench.producer(), bench.consumer_with(1));
    bench.send(producer, 0, "m");
    let token = bench.token("m");
    bench.hush();
    bench.router.outcome(token, &Outcome::Accepted, &mut bench.links);
    bench.router.outcome(token, &Outcome::Released, &mut bench.links);
    bench.router.outcome(token ^ 1 << 48, &Outcome::Released, &mut bench.links);
    assert_eq!(bench.reported(), ["p0 0 accepted"]);
}

#[test]
fn token_identifies_the_shard_that_issued_it() {
    let mut bench = bench();
    let (producer, _consumer) = (bench.producer(), bench.consumer_with(1));
    bench.send(producer, 0, "m");
    assert_eq!(enmasse_router::core::home_of_token(bench.token("m")), 3);
}

#[test]
fn message_without_an_outcome_of_a_consumer_is_released() {
    let mut bench = bench();
    let producer = bench.producer();
    bench.send(producer, 0, "no consumer");
    let consumer = bench.consumer();
    bench.send(producer, 1, "waits");
    bench.leave(consumer);
    assert_eq!(bench.reported(), ["p0 shut", "p0 0 released", "p0 open", "p0 1 released", "p0 shut"]);
    bench.turn();
    assert_eq!(bench.reported(), ["p0 taken 2"]);
}

#[test]
fn a_settled_message_without_a_consumer_is_dropped_and_counted() {
    let mut bench = bench();
    let producer = bench.producer();
    bench.send_settled(producer, "a");
    let consumer = bench.consumer();
    bench.send_settled(producer, "b");
    bench.leave(consumer);
    bench.hush();
    bench.turn();
    assert_eq!(bench.reported(), ["p0 taken 2"]);
    assert_eq!((bench.stats().presettled, bench.stats().dropped, bench.stats().waiting), (2, 2, 0));
}

#[test]
fn detached_consumer_fails_its_messages_and_another_gets_the_waiting_ones() {
    let mut bench = bench();
    let (producer, consumer) = (bench.producer(), bench.consumer_with(1));
    bench.send(producer, 0, "held");
    bench.send(producer, 1, "waits");
    let other = bench.consumer();
    bench.hush();
    bench.leave(consumer);
    assert_eq!(bench.reported(), ["p0 0 failed"]);
    bench.credit(other, 1);
    assert_eq!(bench.reported(), ["c1<waits"]);
}

#[test]
fn messages_keep_their_order() {
    let mut bench = bench();
    let (first, second, consumer) = (bench.producer(), bench.producer(), bench.consumer_with(1));
    bench.hush();
    for (id, text) in ["a", "b", "c", "d"].into_iter().enumerate() {
        bench.send(if id % 2 == 0 { first } else { second }, id as u32, text);
    }
    bench.credit(consumer, 2);
    bench.send(first, 4, "e");
    bench.credit(consumer, 5);
    assert_eq!(bench.reported(), ["c0<a", "c0<b", "c0<c", "c0<d", "c0<e"]);
}

#[test]
fn consumers_are_balanced_by_their_unsettled_messages() {
    let mut bench = bench();
    let (producer, busy, idle) = (bench.producer(), bench.consumer_with(20), bench.consumer());
    for id in 0..6 {
        bench.send(producer, id, "m");
    }
    bench.credit(idle, 20);
    bench.hush();
    for id in 6..12 {
        bench.send(producer, id, "m");
    }
    assert_eq!(bench.reported(), ["c1<m"; 6]);
    for _ in 0..3 {
        bench.answer(busy, "m", &Outcome::Accepted);
    }
    bench.hush();
    for id in 12..15 {
        bench.send(producer, id, "m");
    }
    assert_eq!(bench.reported(), ["c0<m"; 3]);
}

#[test]
fn settled_messages_go_to_consumers_in_turn() {
    let mut bench = bench();
    let (producer, _, _) = (bench.producer(), bench.consumer_with(9), bench.consumer_with(9));
    bench.hush();
    for _ in 0..6 {
        bench.send_settled(producer, "m");
    }
    let reported = bench.reported();
    assert_eq!(reported.iter().filter(|line| *line == "c0!<m").count(), 3);
    assert_eq!(reported.iter().filter(|line| *line == "c1!<m").count(), 3);
}

#[test]
fn full_consumer_counts_as_without_credit_until_it_reports_room() {
    let mut bench = bench();
    let (producer, consumer, other) = (bench.producer(), bench.consumer_with(5), bench.consumer());
    bench.full(consumer, true);
    bench.hush();
    bench.send(producer, 0, "a");
    assert_eq!(bench.reported(), [""; 0]);
    bench.credit(other, 1);
    assert_eq!(bench.reported(), ["c1<a"], "another takes it");
    bench.send(producer, 1, "b");
    bench.full(consumer, false);
    assert_eq!(bench.reported(), ["c0<b"]);
    bench.answer(consumer, "b", &Outcome::Accepted);
    assert_eq!(bench.reported(), ["p0 1 accepted"]);
}

#[test]
fn messages_refused_for_lack_of_room_return_to_the_front_in_order() {
    let mut bench = bench();
    let (producer, consumer, other) = (bench.producer(), bench.consumer_elsewhere(3), bench.consumer());
    for (id, text) in ["a", "b", "c", "d"].into_iter().enumerate() {
        bench.send(producer, id as u32, text);
    }
    bench.turn();
    bench.hush();
    bench.refuse(1);
    bench.refuse(2);
    bench.credit(other, 9);
    assert_eq!(bench.reported(), ["c0 halted", "c1<b", "c1<c", "c1<d"], "reported once");
    bench.turn();
    assert_eq!(bench.reported(), ["p0 taken 1"], "two of the three had been counted before");
    bench.answer(consumer, "a", &Outcome::Accepted);
    bench.answer(other, "b", &Outcome::Accepted);
    assert_eq!(bench.reported(), ["p0 0 accepted", "p0 1 accepted"]);
    assert_eq!(bench.stats().delivered, 4);
}

#[test]
fn refused_delivery_returns_its_credit() {
    let mut bench = bench();
    let (producer, consumer) = (bench.producer(), bench.consumer_elsewhere(2));
    bench.send_settled(producer, "a");
    bench.send_settled(producer, "b");
    bench.hush();
    bench.refuse(0);
    bench.refuse(1);
    assert_eq!(bench.reported(), ["c0 halted"], "no room before it states its credit again");
    bench.credit(consumer, 0);
    assert_eq!(bench.reported(), ["c0!<a", "c0!<b"]);
}

#[test]
fn returned_messages_do_not_reduce_the_producer_window() {
    let mut bench = bench();
    let (producer, consumer) = (bench.producer(), bench.consumer_elsewhere(CAPACITY));
    for id in 0..CAPACITY {
        bench.send(producer, id, "handed over");
    }
    bench.turn();
    bench.hush();
    for at in 0..CAPACITY {
        bench.refuse(at as usize);
        bench.send(producer, CAPACITY + at, "within the window it was given");
    }
    assert_eq!(bench.reported(), ["c0 halted"]);
    bench.send(producer, 2 * CAPACITY, "beyond");
    assert_eq!(bench.reported(), ["p0 20 released"]);
    bench.credit(consumer, CAPACITY);
    assert_eq!(bench.reported().len(), 2 * CAPACITY as usize);
}

#[test]
fn message_in_flight_to_a_detached_consumer_is_redispatched_or_released() {
    let mut bench = bench();
    let (producer, gone, other) = (bench.producer(), bench.consumer_elsewhere(4), bench.consumer());
    for (id, text) in ["a", "b"].into_iter().enumerate() {
        bench.send(producer, id as u32, text);
    }
    bench.send_settled(producer, "c");
    bench.detach(gone);
    bench.hush();
    bench.credit(other, 1);
    bench.refuse(0);
    assert_eq!(bench.reported(), ["c1<a"]);
    bench.detach(other);
    bench.hush();
    bench.refuse(1);
    bench.refuse(2);
    assert_eq!(bench.reported(), ["p0 1 released"]);
    assert_eq!(bench.stats().dropped, 1);
}

#[test]
fn drain_delivers_waiting_messages_up_to_the_credit() {
    let mut bench = bench();
    let (producer, consumer) = (bench.producer(), bench.consumer());
    for (id, text) in ["a", "b", "c"].into_iter().enumerate() {
        bench.send(producer, id as u32, text);
    }
    bench.hush();
    bench.drain(consumer, 2);
    assert_eq!(bench.reported(), ["c0<a", "c0<b", "c0 drained"]);
    bench.drain(consumer, 9);
    assert_eq!(bench.reported(), ["c0<c", "c0 drained"]);
    bench.send(producer, 3, "d");
    assert_eq!(bench.reported(), [""; 0], "drained credit is gone");
}

#[test]
fn a_drain_waits_for_room() {
    let mut bench = bench();
    let (producer, consumer) = (bench.producer(), bench.consumer());
    bench.send(producer, 0, "a");
    bench.full(consumer, true);
    bench.hush();
    bench.drain(consumer, 2);
    assert_eq!(bench.reported(), [""; 0]);
    bench.full(consumer, false);
    assert_eq!(bench.reported(), ["c0<a", "c0 drained"]);
}

#[test]
fn outcome_for_a_detached_producer_is_discarded() {
    let mut bench = bench();
    let (producer, consumer) = (bench.producer(), bench.consumer_with(1));
    bench.send(producer, 0, "held");
    bench.send(producer, 1, "waits");
    bench.hush();
    bench.detach(producer);
    bench.credit(consumer, 1);
    bench.answer(consumer, "held", &Outcome::Accepted);
    bench.answer(consumer, "waits", &Outcome::Accepted);
    bench.turn();
    assert_eq!(bench.reported(), ["c0<waits"]);
    assert_eq!(bench.stats().accepted, 2);
}

#[test]
fn producer_is_held_while_a_mebibyte_of_its_payload_waits() {
    let mut bench = bench();
    let (producer, other, consumer) = (bench.producer(), bench.producer(), bench.consumer());
    let text = "x".repeat(300 << 10);
    bench.hush();
    for id in 0..3 {
        bench.send(producer, id, &text);
        bench.send(other, id, "small");
    }
    assert_eq!(bench.reported(), [""; 0]);
    bench.send(producer, 3, &text);
    assert_eq!(bench.reported(), ["p0 hold"]);
    bench.credit(consumer, 4);
    assert!(!bench.reported().iter().any(|line| line == "p0 go"), "600 KiB still wait");
    bench.credit(consumer, 1);
    assert!(bench.reported().iter().any(|line| line == "p0 go"));
}
