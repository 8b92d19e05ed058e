//! `docs/contracts.md` 7: multicast.

use enmasse_amqp::types::Outcome;
use enmasse_router::core::{AddressKind, AttachmentId, BACKLOG_BYTES, BACKLOG_MESSAGES};

use crate::bench::{Bench, CAPACITY, modified, rejected};

fn bench() -> Bench {
    Bench::new(AddressKind::Multicast)
}

#[test]
fn producer_without_a_consumer_gets_no_credit() {
    let mut bench = bench();
    let producer = bench.producer();
    bench.send(producer, 0, "a");
    bench.send_settled(producer, "b");
    let consumer = bench.consumer();
    bench.leave(consumer);
    bench.turn();
    assert_eq!(bench.reported(), ["p0 shut", "p0 0 released", "p0 open", "p0 shut", "p0 taken 2"]);
    assert_eq!(bench.stats().dropped, 1);
}

#[test]
fn each_consumer_gets_a_copy() {
    let mut bench = bench();
    let producer = bench.producer();
    for _ in 0..3 {
        bench.consumer_with(1);
    }
    bench.hush();
    bench.send_settled(producer, "m");
    assert_eq!(bench.reported(), ["c0!<m", "c1!<m", "c2!<m"]);
    bench.turn();
    assert_eq!(bench.reported(), ["p0 taken 1"]);
    assert_eq!(bench.stats().delivered, 3);
}

#[test]
fn producer_gets_a_combined_outcome_once_every_consumer_settled() {
    let (accepted, released) = (Outcome::Accepted, Outcome::Released);
    for (outcomes, recorded) in [
        ([accepted.clone(), rejected(), released.clone()], "rejected with an error"),
        ([rejected(), modified(true), accepted.clone()], "rejected with an error"),
        ([released.clone(), modified(true), accepted.clone()], "accepted"),
        ([accepted.clone(), accepted.clone(), accepted], "accepted"),
        ([released.clone(), modified(false), released.clone()], "modified"),
        ([modified(true), modified(false), released.clone()], "failed"),
        ([released.clone(), released.clone(), released], "released"),
    ] {
        let mut bench = bench();
        let producer = bench.producer();
        let consumers: Vec<AttachmentId> = outcomes.iter().map(|_| bench.consumer_with(1)).collect();
        bench.send(producer, 4, "m");
        bench.hush();
        for (at, (consumer, outcome)) in consumers.into_iter().zip(&outcomes).enumerate() {
            assert_eq!(bench.reported(), [""; 0], "after {at} of three outcomes");
            bench.answer(consumer, "m", outcome);
        }
        assert_eq!(bench.reported(), [format!("p0 4 {recorded}")]);
    }
}

#[test]
fn detached_consumer_fails_its_held_copies_and_releases_waiting_ones() {
    let mut bench = bench();
    let (producer, stays, goes) = (bench.producer(), bench.consumer_with(9), bench.consumer_with(1));
    bench.send(producer, 0, "held");
    bench.send(producer, 1, "waits");
    bench.answer(stays, "held", &Outcome::Released);
    bench.answer(stays, "waits", &Outcome::Released);
    bench.hush();
    bench.leave(goes);
    assert_eq!(bench.reported(), ["p0 0 failed", "p0 1 released"]);
}

#[test]
fn a_slow_consumer_never_slows_the_others_and_keeps_its_order() {
    let mut bench = bench();
    let (producer, fast, slow) = (bench.producer(), bench.consumer_with(100), bench.consumer());
    bench.hush();
    for id in 0..3 {
        bench.send(producer, id, &id.to_string());
    }
    assert_eq!(bench.reported(), ["c0<0", "c0<1", "c0<2"]);
    bench.turn();
    assert_eq!(bench.reported(), ["p0 taken 3"], "half of the consumers have them");
    bench.credit(slow, 2);
    bench.send(producer, 3, "3");
    bench.credit(slow, 9);
    assert_eq!(bench.reported(), ["c1<0", "c1<1", "c0<3", "c1<2", "c1<3"]);
    bench.answer(fast, "0", &Outcome::Accepted);
    assert_eq!(bench.reported(), [""; 0]);
    bench.answer(slow, "0", &Outcome::Accepted);
    assert_eq!(bench.reported(), ["p0 0 accepted"]);
}

#[test]
fn producer_window_advances_once_half_of_the_consumers_took_the_message() {
    let mut bench = bench();
    let producer = bench.producer();
    let slow: Vec<AttachmentId> = (0..4).map(|_| bench.consumer()).collect();
    let _fast = bench.consumer_with(9);
    bench.send_settled(producer, "m");
    bench.credit(slow[0], 1);
    bench.turn();
    assert!(!bench.reported().contains(&"p0 taken 1".to_owned()), "two of five");
    bench.credit(slow[1], 1);
    bench.turn();
    assert_eq!(bench.reported(), ["c1!<m", "p0 taken 1"]);
    bench.credit(slow[2], 1);
    bench.turn();
    assert_eq!(bench.reported(), ["c2!<m"], "it counts once");
}

#[test]
fn detach_of_a_consumer_without_its_copy_advances_the_window() {
    let mut bench = bench();
    let (producer, consumer, other) = (bench.producer(), bench.consumer(), bench.consumer());
    bench.send(producer, 0, "m");
    bench.leave(consumer);
    bench.hush();
    bench.turn();
    assert_eq!(bench.reported(), ["p0 taken 1"]);
    bench.credit(other, 1);
    bench.answer(other, "m", &Outcome::Accepted);
    assert_eq!(bench.reported(), ["c1<m", "p0 0 accepted"]);
}

#[test]
fn message_beyond_the_window_is_dropped_for_consumers_without_room() {
    let mut bench = bench();
    let (producer, slow, other) = (bench.producer(), bench.consumer(), bench.consumer());
    for id in 0..CAPACITY {
        bench.send(producer, id, "m");
    }
    bench.credit(other, 11);
    bench.hush();
    bench.turn();
    assert_eq!(bench.reported(), ["p0 taken 10"]);
    bench.leave(other);
    for _ in 0..CAPACITY {
        bench.send_settled(producer, "m");
    }
    bench.send_settled(producer, "beyond");
    assert_eq!(bench.stats().dropped, 1);
    bench.credit(slow, 99);
    assert_eq!(bench.reported().iter().filter(|line| line.starts_with('c')).count(), 20);
}

#[test]
fn consumer_at_its_backlog_limit_of_messages_misses_copies() {
    let mut bench = bench();
    let (producer, _fast, slow) = (bench.producer(), bench.consumer_with(u32::MAX / 2), bench.consumer());
    for _ in 0..BACKLOG_MESSAGES + 3 {
        bench.send_settled(producer, "m");
    }
    assert_eq!((bench.stats().dropped, bench.stats().waiting), (3, BACKLOG_MESSAGES as u64));
    bench.hush();
    bench.send(producer, 5, "m");
    bench.answer(_fast, "m", &modified(false));
    assert_eq!(bench.reported(), ["c0<m", "p0 5 modified"], "and counts as released");
    bench.credit(slow, 1);
    bench.send(producer, 6, "m");
    assert_eq!(bench.stats().dropped, 4, "room for one copy again");
}

#[test]
fn consumer_at_its_backlog_limit_of_bytes_misses_copies() {
    let mut bench = bench();
    let (producer, _fast, slow) = (bench.producer(), bench.consumer_with(1000), bench.consumer());
    let text = "x".repeat(BACKLOG_BYTES / 8);
    for _ in 0..9 {
        bench.send_settled(producer, &text);
    }
    assert_eq!((bench.stats().dropped, bench.stats().waiting), (1, 8));
    bench.credit(slow, 1);
    bench.send_settled(producer, &text);
    assert_eq!((bench.stats().dropped, bench.stats().waiting), (1, 8));
}

#[test]
fn producer_is_held_only_for_bytes_that_most_consumers_lack() {
    let mut bench = bench();
    let (producer, fast, _slow) = (bench.producer(), bench.consumer_with(3), bench.consumer());
    let text = "x".repeat(600 << 10);
    bench.hush();
    for _ in 0..5 {
        bench.send_settled(producer, &text);
    }
    let reported = bench.reported();
    assert_eq!(reported.last().map(String::as_str), Some("p0 hold"), "two of five wait for both");
    bench.credit(fast, 2);
    assert_eq!(bench.reported().last().map(String::as_str), Some("p0 go"));
}

#[test]
fn filters_select_messages_by_the_target_name() {
    let mut bench = bench();
    let (one, two) = (bench.producer_to("s/1"), bench.producer_to("s/2"));
    assert_eq!(bench.reported(), ["p0 shut", "p1 shut"]);
    let picky = bench.consumer_of("s/1");
    assert_eq!(bench.reported(), ["p0 open"]);
    bench.credit(picky, 9);
    bench.send(two, 0, "b");
    assert_eq!(bench.reported(), ["p1 0 released"]);
    let all = bench.consumer_with(9);
    assert_eq!(bench.reported(), ["p1 open"]);
    bench.send_settled(one, "a");
    bench.send_settled(two, "b");
    assert_eq!(bench.reported(), ["c0!<a", "c1!<a", "c1!<b"]);
    bench.leave(all);
    assert_eq!(bench.reported(), ["p1 shut"]);
    bench.producer_to("s/1/x");
    bench.producer();
    assert_eq!(bench.reported(), ["p2 open", "p3 shut"], "a producer without a name passes no filter");
    let second = bench.consumer_of("s");
    assert_eq!(bench.reported(), ["p1 open"]);
    bench.credit(second, 9);
    bench.send_settled(one, "c");
    assert_eq!(bench.reported(), ["c0!<c", "c2!<c"]);
    bench.leave(picky);
    assert_eq!(bench.reported(), [""; 0]);
    bench.leave(second);
    assert_eq!(bench.reported(), ["p0 shut", "p1 shut", "p2 shut"]);
}

#[test]
fn refused_copies_return_to_the_front_of_the_backlog_of_their_consumer() {
    let mut bench = bench();
    let (producer, consumer) = (bench.producer(), bench.consumer_elsewhere(2));
    for (id, text) in ["a", "b", "c"].into_iter().enumerate() {
        bench.send(producer, id as u32, text);
    }
    bench.hush();
    bench.refuse(0);
    bench.refuse(1);
    bench.credit(consumer, 1);
    assert_eq!(bench.reported(), ["c0 halted", "c0<a", "c0<b", "c0<c"]);
    for (id, text) in ["a", "b", "c"].into_iter().enumerate() {
        bench.answer(consumer, text, &Outcome::Accepted);
        assert_eq!(bench.reported(), [format!("p0 {id} accepted")]);
    }
}

#[test]
fn copy_in_flight_to_a_detached_consumer_counts_as_released() {
    let mut bench = bench();
    let (producer, gone, stays) = (bench.producer(), bench.consumer_elsewhere(1), bench.consumer_with(1));
    bench.send(producer, 0, "m");
    bench.answer(stays, "m", &Outcome::Released);
    bench.detach(gone);
    bench.hush();
    bench.refuse(0);
    assert_eq!(bench.reported(), ["p0 0 released"]);
}

#[test]
fn drain_delivers_the_backlog_up_to_the_credit() {
    let mut bench = bench();
    let (producer, consumer) = (bench.producer(), bench.consumer());
    bench.send_settled(producer, "a");
    bench.hush();
    bench.drain(consumer, 3);
    assert_eq!(bench.reported(), ["c0!<a", "c0 drained"]);
    bench.send_settled(producer, "b");
    assert_eq!(bench.reported(), [""; 0]);
}
