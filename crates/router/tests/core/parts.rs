//! Partial deliveries: each part is forwarded on arrival.

use enmasse_amqp::types::Outcome;
use enmasse_router::core::{AddressKind, BACKLOG_BYTES, HOLD_BYTES};

use crate::bench::{Bench, rejected};

fn anycast() -> Bench {
    Bench::new(AddressKind::Anycast)
}

fn multicast() -> Bench {
    Bench::new(AddressKind::Multicast)
}

#[test]
fn each_part_is_forwarded_on_arrival() {
    let mut bench = anycast();
    let (producer, consumer) = (bench.producer(), bench.consumer_with(1));
    bench.hush();
    bench.arrive(producer, 0, "a", "first");
    assert_eq!(bench.reported(), ["c0<a.."]);
    bench.arrive(producer, 0, "b", "");
    assert_eq!(bench.reported(), ["c0<..b.."]);
    bench.arrive(producer, 0, "", "last");
    assert_eq!(bench.reported(), ["c0<.."]);
    bench.turn();
    bench.answer(consumer, "a", &rejected());
    assert_eq!(bench.reported(), ["p0 taken 1", "p0 0 rejected with an error"]);
    assert_eq!((bench.stats().delivered, bench.stats().bytes), (1, 2));
}

#[test]
fn link_with_a_partial_delivery_gets_no_other_message() {
    let mut bench = anycast();
    let (long, short, _consumer) = (bench.producer(), bench.producer(), bench.consumer_with(9));
    bench.arrive(long, 0, "a", "first settled");
    bench.hush();
    bench.send(short, 0, "s");
    assert_eq!(bench.reported(), [""; 0]);
    bench.arrive(long, 0, "b", "last settled");
    assert_eq!(bench.reported(), ["c0!<..b", "c0<s"]);
}

#[test]
fn another_consumer_gets_messages_during_a_partial_delivery() {
    let mut bench = anycast();
    let (long, short, _one, _two) =
        (bench.producer(), bench.producer(), bench.consumer_with(9), bench.consumer_with(9));
    bench.arrive(long, 0, "a", "first");
    bench.hush();
    bench.send(short, 0, "s");
    bench.send(short, 1, "s");
    let reported = bench.reported();
    assert_eq!(reported.len(), 2);
    assert!(reported[0].ends_with("<s") && reported[0] == reported[1]);
}

#[test]
fn waiting_partial_delivery_sends_its_received_parts_first() {
    let mut bench = anycast();
    let (long, short, consumer) = (bench.producer(), bench.producer(), bench.consumer());
    bench.hush();
    bench.arrive(long, 0, "a", "first");
    bench.send(short, 0, "s");
    bench.arrive(long, 0, "b", "");
    bench.credit(consumer, 1);
    bench.arrive(long, 0, "c", "");
    bench.arrive(long, 0, "d", "last");
    bench.credit(consumer, 1);
    assert_eq!(bench.reported(), ["c0<ab..", "c0<..c..", "c0<..d", "c0<s"]);
}

#[test]
fn delivery_complete_before_dispatch_is_sent_whole() {
    let mut bench = anycast();
    let (producer, consumer) = (bench.producer(), bench.consumer());
    bench.arrive(producer, 0, "a", "first");
    bench.arrive(producer, 0, "b", "last");
    bench.hush();
    bench.credit(consumer, 1);
    assert_eq!(bench.reported(), ["c0<ab"]);
    bench.answer(consumer, "ab", &Outcome::Accepted);
    assert_eq!(bench.reported(), ["p0 0 accepted"]);
}

#[test]
fn parts_without_room_are_kept_and_hold_the_producer() {
    let mut bench = anycast();
    let (producer, consumer) = (bench.producer(), bench.consumer_with(1));
    bench.arrive(producer, 0, "a", "first");
    bench.full(consumer, true);
    bench.hush();
    let text = "x".repeat(HOLD_BYTES);
    bench.arrive(producer, 0, &text, "");
    assert_eq!(bench.reported(), [""; 0]);
    bench.arrive(producer, 0, "y", "");
    assert_eq!(bench.reported(), ["p0 hold"]);
    bench.full(consumer, false);
    assert_eq!(bench.reported(), [format!("c0<..{text}y.."), "p0 go".to_owned()]);
    bench.full(consumer, true);
    bench.arrive(producer, 0, "z", "last");
    bench.hush();
    bench.full(consumer, false);
    assert_eq!(bench.reported(), ["c0<..z"]);
}

#[test]
fn empty_last_part_is_sent_once_there_is_room() {
    let mut bench = anycast();
    let (producer, consumer) = (bench.producer(), bench.consumer_with(2));
    bench.arrive(producer, 0, "a", "first settled");
    bench.full(consumer, true);
    bench.arrive(producer, 0, "", "last");
    bench.hush();
    bench.full(consumer, false);
    bench.send_settled(producer, "next");
    assert_eq!(bench.reported(), ["c0!<..", "c0!<next"]);
}

#[test]
fn delivery_aborted_by_its_producer_is_aborted_at_the_consumer_unsettled() {
    let mut bench = anycast();
    let (producer, consumer) = (bench.producer(), bench.consumer_with(2));
    bench.arrive(producer, 0, "a", "first");
    let token = bench.token("a");
    bench.hush();
    bench.arrive(producer, 0, "", "aborted");
    bench.router.outcome(token, &Outcome::Accepted, &mut bench.links);
    assert_eq!(bench.reported(), ["c0 void"]);
    bench.send(producer, 1, "b");
    bench.answer(consumer, "b", &Outcome::Accepted);
    assert_eq!(bench.reported(), ["c0<b", "p0 1 accepted"]);
}

#[test]
fn abort_without_room_is_sent_once_there_is_room() {
    let mut bench = anycast();
    let (producer, consumer) = (bench.producer(), bench.consumer_with(9));
    bench.arrive(producer, 0, "a", "first");
    bench.full(consumer, true);
    bench.arrive(producer, 0, "", "aborted");
    bench.send(producer, 1, "b");
    bench.hush();
    bench.full(consumer, false);
    assert_eq!(bench.reported(), ["c0 void", "c0<b"]);
}

#[test]
fn delivery_aborted_while_waiting_is_never_dispatched() {
    for mut bench in [anycast(), multicast()] {
        let (long, short, consumer) = (bench.producer(), bench.producer(), bench.consumer());
        bench.arrive(long, 0, "a", "first");
        bench.send_settled(short, "s");
        bench.arrive(long, 0, "b", "");
        bench.arrive(long, 0, "", "aborted");
        bench.hush();
        bench.turn();
        assert_eq!(bench.reported(), ["p0 taken 1"]);
        bench.credit(consumer, 9);
        assert_eq!(bench.reported(), ["c0!<s"]);
        assert_eq!(bench.stats().waiting, 0);
    }
}

#[test]
fn delivery_aborted_by_its_first_transfer_is_never_dispatched() {
    let mut bench = anycast();
    let (producer, _consumer) = (bench.producer(), bench.consumer_with(1));
    bench.hush();
    bench.arrive(producer, 0, "a", "first aborted");
    bench.turn();
    assert_eq!(bench.reported(), ["p0 taken 1"]);
}

#[test]
fn new_delivery_of_a_link_aborts_its_partial_delivery() {
    let mut bench = anycast();
    let (producer, _consumer) = (bench.producer(), bench.consumer_with(9));
    bench.arrive(producer, 0, "a", "first");
    bench.hush();
    bench.send(producer, 1, "b");
    assert_eq!(bench.reported(), ["c0 void", "c0<b"]);
}

#[test]
fn detached_producer_aborts_its_partial_delivery() {
    for mut bench in [anycast(), multicast()] {
        let (long, waits) = (bench.producer(), bench.producer());
        let consumer = bench.consumer_with(1);
        bench.arrive(long, 0, "a", "first");
        bench.arrive(waits, 0, "b", "first");
        bench.hush();
        bench.detach(waits);
        bench.detach(long);
        assert_eq!(bench.reported(), ["c0 void"]);
        bench.credit(consumer, 9);
        assert_eq!(bench.reported(), [""; 0]);
        assert_eq!(bench.stats().waiting, 0);
    }
}

#[test]
fn detached_consumer_fails_its_partial_delivery_and_later_parts_are_dropped() {
    let mut bench = anycast();
    let (producer, consumer, other) = (bench.producer(), bench.consumer_with(1), bench.consumer());
    bench.arrive(producer, 0, "a", "first");
    bench.links_are_gone(consumer);
    bench.hush();
    bench.leave(consumer);
    assert_eq!(bench.reported(), ["p0 0 failed"]);
    bench.credit(other, 1);
    bench.arrive(producer, 0, "b", "");
    bench.arrive(producer, 0, "c", "last");
    assert_eq!(bench.reported(), [""; 0]);
    bench.send(producer, 1, "d");
    assert_eq!(bench.reported(), ["c1<d"]);
}

#[test]
fn settled_partial_delivery_is_dropped_and_counted_if_its_consumer_detaches() {
    let mut bench = anycast();
    let (producer, consumer, _other) = (bench.producer(), bench.consumer_with(1), bench.consumer());
    bench.arrive(producer, 0, "a", "first settled");
    bench.leave(consumer);
    bench.hush();
    bench.arrive(producer, 0, "b", "last settled");
    assert_eq!(bench.reported(), [""; 0]);
    assert_eq!(bench.stats().dropped, 1);
}

#[test]
fn waiting_partial_delivery_is_released_when_the_last_consumer_detaches() {
    let mut bench = anycast();
    let (producer, consumer) = (bench.producer(), bench.consumer());
    bench.arrive(producer, 0, "a", "first");
    bench.hush();
    bench.leave(consumer);
    assert_eq!(bench.reported(), ["p0 0 released", "p0 shut"]);
    let next = bench.consumer_with(9);
    bench.arrive(producer, 0, "b", "last");
    bench.send(producer, 1, "c");
    bench.answer(next, "c", &Outcome::Accepted);
    assert_eq!(bench.reported(), ["p0 open", "c1<c", "p0 1 accepted"]);
}

#[test]
fn partial_delivery_without_a_consumer_is_released_at_its_first_part() {
    for mut bench in [anycast(), multicast()] {
        let producer = bench.anonymous();
        bench.arrive(producer, 0, "a", "first");
        assert_eq!(bench.reported(), ["p0 0 released"]);
        bench.arrive(producer, 0, "b", "last");
        bench.turn();
        assert_eq!(bench.reported(), ["p0 taken 1"]);
    }
}

#[test]
fn consumer_that_settles_a_partial_delivery_gets_no_more_of_its_parts() {
    let mut bench = anycast();
    let (producer, consumer) = (bench.producer(), bench.consumer_with(2));
    bench.arrive(producer, 0, "a", "first");
    bench.hush();
    bench.answer(consumer, "a", &rejected());
    assert_eq!(bench.reported(), ["p0 0 rejected with an error", "c0 void"]);
    bench.arrive(producer, 0, "b", "last");
    bench.send(producer, 1, "c");
    assert_eq!(bench.reported(), ["c0<c"]);
}

#[test]
fn drain_during_a_partial_delivery_completes_when_no_other_message_waits() {
    let mut bench = anycast();
    let (producer, other, consumer) = (bench.producer(), bench.producer(), bench.consumer_with(9));
    bench.arrive(producer, 0, "a", "first");
    bench.hush();
    bench.send(other, 0, "b");
    bench.drain(consumer, 0);
    assert_eq!(bench.reported(), [""; 0], "b is still to come");
    bench.arrive(producer, 0, "c", "last");
    assert_eq!(bench.reported(), ["c0<..c", "c0<b", "c0 drained"]);
    bench.credit(consumer, 9);
    bench.arrive(producer, 1, "d", "first");
    bench.drain(consumer, 0);
    assert_eq!(bench.reported(), ["c0<d..", "c0 drained"]);
}

#[test]
fn remote_consumer_gets_later_parts_once_it_took_the_first_part() {
    let mut bench = anycast();
    let (producer, consumer) = (bench.producer(), bench.consumer_elsewhere(9));
    bench.hush();
    bench.arrive(producer, 0, "a", "first");
    bench.arrive(producer, 0, "b", "");
    bench.credit(consumer, 0);
    assert_eq!(bench.reported(), ["c0<a.."], "its credit sends no further part");
    bench.begun(consumer);
    bench.arrive(producer, 0, "c", "");
    bench.arrive(producer, 0, "d", "last");
    assert_eq!(bench.reported(), ["c0<..b..", "c0<..c..", "c0<..d"]);
    bench.answer(consumer, "a", &Outcome::Accepted);
    assert_eq!(bench.reported(), ["p0 0 accepted"]);
}

#[test]
fn delivery_with_a_refused_first_part_waits_again_whole() {
    for settled in ["", " settled"] {
        let mut bench = anycast();
        let (producer, consumer, other) = (bench.producer(), bench.consumer_elsewhere(9), bench.consumer());
        bench.arrive(producer, 0, "a", &format!("first{settled}"));
        bench.turn();
        bench.arrive(producer, 0, "b", "");
        let next = bench.producer();
        bench.send_settled(next, "next");
        bench.hush();
        bench.refuse(0);
        bench.arrive(producer, 0, "c", "last");
        bench.credit(other, 1);
        let mark = if settled.is_empty() { "" } else { "!" };
        assert_eq!(bench.reported(), ["c0 halted".to_owned(), format!("c1{mark}<abc")]);
        bench.credit(consumer, 0);
        assert_eq!(bench.reported(), ["c0!<next"]);
        assert_eq!((bench.stats().dropped, bench.stats().delivered), (0, 2));
    }
}

#[test]
fn delivery_aborted_with_its_first_part_in_flight_is_aborted_on_arrival() {
    let mut bench = anycast();
    let (producer, consumer) = (bench.producer(), bench.consumer_elsewhere(9));
    bench.arrive(producer, 0, "a", "first settled");
    bench.arrive(producer, 0, "", "aborted");
    bench.hush();
    bench.send_settled(producer, "next");
    assert_eq!(bench.reported(), [""; 0]);
    bench.begun(consumer);
    assert_eq!(bench.reported(), ["c0 void", "c0!<next"]);
}

#[test]
fn delivery_aborted_before_its_refused_first_part_returns_is_discarded() {
    let mut bench = anycast();
    let (producer, consumer) = (bench.producer(), bench.consumer_elsewhere(9));
    bench.arrive(producer, 0, "a", "first");
    bench.arrive(producer, 0, "", "aborted");
    bench.hush();
    bench.refuse(0);
    bench.credit(consumer, 0);
    bench.send_settled(producer, "next");
    assert_eq!(bench.reported(), ["c0 halted", "c0!<next"]);
    assert_eq!(bench.router.in_progress(), 0);
}

#[test]
fn multicast_copy_with_a_refused_first_part_waits_with_all_its_parts() {
    let mut bench = multicast();
    let (producer, fast, consumer) = (bench.producer(), bench.consumer_with(9), bench.consumer_elsewhere(9));
    bench.arrive(producer, 0, "a", "first");
    bench.arrive(producer, 0, "b", "");
    bench.hush();
    bench.refuse(1);
    bench.arrive(producer, 0, "c", "last");
    bench.send(producer, 1, "next");
    bench.credit(consumer, 0);
    assert_eq!(bench.reported(), ["c1 halted", "c0<..c", "c0<next", "c1<abc", "c1<next"]);
    bench.answer(fast, "a", &Outcome::Released);
    bench.answer(consumer, "abc", &Outcome::Accepted);
    assert_eq!(bench.reported(), ["p0 0 accepted"]);
}

#[test]
fn stalled_remote_consumer_gets_no_part_until_it_reports_its_credit() {
    let mut bench = anycast();
    let (producer, other, consumer) = (bench.producer(), bench.producer(), bench.consumer_elsewhere(9));
    bench.arrive(producer, 0, "a", "first");
    bench.begun(consumer);
    bench.router.stall(consumer);
    bench.hush();
    bench.arrive(producer, 0, "b", "");
    bench.send(other, 0, "s");
    bench.arrive(producer, 0, "c", "last");
    assert_eq!(bench.reported(), [""; 0]);
    bench.credit(consumer, 0);
    assert_eq!(bench.reported(), ["c0<..bc", "c0<s"]);
    bench.router.stall(producer);
}

#[test]
fn partial_delivery_in_flight_to_a_detached_consumer_is_released() {
    let mut bench = anycast();
    let (producer, gone, _other) = (bench.producer(), bench.consumer_elsewhere(9), bench.consumer());
    bench.arrive(producer, 0, "a", "first");
    bench.detach(gone);
    bench.hush();
    bench.refuse(0);
    bench.arrive(producer, 0, "b", "last");
    assert_eq!(bench.reported(), ["p0 0 released"]);
}

#[test]
fn multicast_parts_reach_each_consumer_at_its_own_rate() {
    let mut bench = multicast();
    let (producer, one, two) = (bench.producer(), bench.consumer_with(9), bench.consumer_with(9));
    let three = bench.consumer();
    bench.hush();
    bench.arrive(producer, 0, "a", "first");
    bench.full(one, true);
    bench.arrive(producer, 0, "b", "");
    bench.arrive(producer, 0, "c", "");
    assert_eq!(bench.reported(), ["c0<a..", "c1<a..", "c1<..b..", "c1<..c.."]);
    bench.full(one, false);
    bench.credit(three, 1);
    bench.arrive(producer, 0, "d", "last");
    assert_eq!(bench.reported(), ["c0<..bc..", "c2<abc..", "c0<..d", "c1<..d", "c2<..d"]);
    for consumer in [one, two] {
        bench.answer(consumer, "a", &Outcome::Accepted);
    }
    assert_eq!(bench.reported(), [""; 0]);
    bench.answer(three, "abc", &Outcome::Released);
    assert_eq!(bench.reported(), ["p0 0 accepted"]);
}

#[test]
fn multicast_consumer_past_its_backlog_limit_misses_the_partial_delivery() {
    let mut bench = multicast();
    let (producer, fast, stuck, _unready) =
        (bench.producer(), bench.consumer_with(9), bench.consumer_with(9), bench.consumer());
    let text = "x".repeat(BACKLOG_BYTES / 4);
    bench.arrive(producer, 0, "a", "first");
    bench.full(stuck, true);
    for _ in 0..4 {
        bench.arrive(producer, 0, &text, "");
    }
    assert_eq!(bench.stats().dropped, 1, "the first part exceeds the bound of the consumer without credit");
    bench.arrive(producer, 0, "y", "");
    assert_eq!((bench.stats().dropped, bench.stats().waiting), (2, 0));
    bench.hush();
    bench.full(stuck, false);
    assert_eq!(bench.reported(), ["c1 void"]);
    bench.arrive(producer, 0, "z", "last");
    bench.answer(fast, "a", &Outcome::Accepted);
    assert_eq!(bench.reported(), ["c0<..z", "p0 0 accepted"]);
}

#[test]
fn multicast_partial_delivery_continues_until_its_last_consumer_detaches() {
    let mut bench = multicast();
    let (producer, one, two) = (bench.producer(), bench.consumer_with(9), bench.consumer_with(9));
    bench.arrive(producer, 0, "a", "first");
    bench.links_are_gone(one);
    bench.leave(one);
    bench.hush();
    bench.arrive(producer, 0, "b", "");
    assert_eq!(bench.reported(), ["c1<..b.."]);
    bench.links_are_gone(two);
    bench.leave(two);
    bench.arrive(producer, 0, "c", "last");
    assert_eq!(bench.reported(), ["p0 0 failed", "p0 shut"]);
}

#[test]
fn producer_is_held_only_while_most_receiving_consumers_are_full() {
    let mut bench = multicast();
    let (producer, one, two) = (bench.producer(), bench.consumer_with(9), bench.consumer_with(9));
    bench.arrive(producer, 0, "a", "first");
    bench.full(one, true);
    bench.hush();
    let text = "x".repeat(HOLD_BYTES + 1);
    bench.arrive(producer, 0, &text, "");
    assert!(!bench.reported().contains(&"p0 hold".to_owned()), "one of two is not stuck");
    bench.full(two, true);
    bench.arrive(producer, 0, &text, "");
    assert_eq!(bench.reported(), ["p0 hold"]);
    bench.full(two, false);
    assert!(bench.reported().contains(&"p0 go".to_owned()));
}
