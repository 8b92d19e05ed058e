//! Multicast consumers that settle nothing delay a producer's outcomes once, by the settlement
//! timeout.

use std::collections::VecDeque;

use enmasse_amqp::types::Outcome;
use enmasse_router::core::{AddressKind, AttachmentId, OVERDUE_PROBATION_MS, SETTLE_TIMEOUT_MS};

use crate::bench::{Bench, CAPACITY, modified, rejected};

const PLENTY: u32 = 1_000_000;

/// A producer, a consumer that settles on demand, and one that settles nothing.
fn bench() -> (Bench, AttachmentId, AttachmentId, AttachmentId) {
    let mut bench = Bench::new(AddressKind::Multicast);
    let producer = bench.producer();
    let (good, stuck) = (bench.consumer_with(PLENTY), bench.consumer_with(PLENTY));
    (bench, producer, good, stuck)
}

fn outcomes(bench: &mut Bench) -> Vec<String> {
    bench.reported().into_iter().filter(|line| line.starts_with("p0 ") && !line.contains("taken")).collect()
}

#[test]
fn a_copy_left_unsettled_counts_as_released_after_the_timeout() {
    let (mut bench, producer, good, _) = bench();
    bench.send(producer, 0, "a");
    bench.send(producer, 1, "b");
    bench.answer(good, "a", &Outcome::Accepted);
    bench.answer(good, "b", &modified(false));
    bench.hush();
    bench.pass(SETTLE_TIMEOUT_MS - 1);
    assert_eq!(outcomes(&mut bench), [""; 0]);
    bench.pass(1);
    assert_eq!(outcomes(&mut bench), ["p0 0 accepted", "p0 1 modified"]);
}

#[test]
fn the_timeout_is_a_setting() {
    let (mut bench, producer, good, _) = bench();
    bench.router.set_settle_timeout(100);
    bench.send(producer, 0, "a");
    bench.answer(good, "a", &Outcome::Accepted);
    bench.hush();
    bench.pass(99);
    assert_eq!(outcomes(&mut bench), [""; 0]);
    bench.pass(1);
    assert_eq!(outcomes(&mut bench), ["p0 0 accepted"]);
}

#[test]
fn later_messages_are_settled_without_the_overdue_consumer() {
    let (mut bench, producer, good, stuck) = bench();
    bench.send(producer, 0, "a");
    bench.answer(good, "a", &Outcome::Accepted);
    bench.pass(SETTLE_TIMEOUT_MS);
    bench.hush();
    bench.send(producer, 1, "b");
    assert_eq!(bench.reported(), ["c0<b", "c1<b"], "the consumer still gets its copies");
    bench.answer(good, "b", &Outcome::Accepted);
    assert_eq!(bench.reported(), ["p0 1 accepted"]);
    bench.answer(stuck, "a", &rejected());
    bench.answer(stuck, "b", &rejected());
    assert_eq!(bench.reported(), [""; 0], "later outcomes are ignored");
    assert_eq!((bench.router.in_progress(), bench.stats().accepted), (0, 2));
}

#[test]
fn early_outcome_of_an_overdue_consumer_counts() {
    let (mut bench, producer, good, stuck) = bench();
    bench.send(producer, 0, "a");
    bench.answer(good, "a", &Outcome::Accepted);
    bench.pass(SETTLE_TIMEOUT_MS);
    bench.send(producer, 1, "b");
    bench.hush();
    bench.answer(stuck, "b", &rejected());
    assert_eq!(bench.reported(), [""; 0], "the other one is waited for");
    bench.answer(good, "b", &Outcome::Accepted);
    assert_eq!(bench.reported(), ["p0 1 rejected with an error"]);
}

#[test]
fn message_without_any_outcome_is_not_settled_by_the_timeout() {
    let (mut bench, producer, good, stuck) = bench();
    bench.send(producer, 0, "a");
    bench.hush();
    bench.pass(60_000);
    assert_eq!(outcomes(&mut bench), [""; 0], "neither consumer has settled it");
    bench.answer(stuck, "a", &Outcome::Accepted);
    assert_eq!(outcomes(&mut bench), ["p0 0 accepted"]);
    bench.leave(stuck);
    bench.send(producer, 1, "b");
    bench.hush();
    bench.pass(60_000);
    assert_eq!(outcomes(&mut bench), [""; 0], "a single consumer has no timeout");
    bench.answer(good, "b", &Outcome::Accepted);
    assert_eq!(outcomes(&mut bench), ["p0 1 accepted"]);
}

#[test]
fn copies_waiting_for_credit_become_overdue_too() {
    let mut bench = Bench::new(AddressKind::Multicast);
    let (producer, good, slow) = (bench.producer(), bench.consumer_with(PLENTY), bench.consumer());
    for (id, text) in ["a", "b", "c"].into_iter().enumerate() {
        bench.send(producer, id as u32, text);
        bench.answer(good, text, &Outcome::Accepted);
    }
    bench.hush();
    bench.pass(SETTLE_TIMEOUT_MS / 2);
    bench.credit(slow, 1);
    bench.answer(slow, "a", &Outcome::Accepted);
    assert_eq!(outcomes(&mut bench), ["p0 0 accepted"]);
    bench.pass(SETTLE_TIMEOUT_MS / 2 - 1);
    assert_eq!(outcomes(&mut bench), [""; 0]);
    bench.pass(1);
    assert_eq!(outcomes(&mut bench), ["p0 1 accepted", "p0 2 accepted"]);
    bench.credit(slow, 2);
    assert_eq!(bench.reported(), ["c1<b", "c1<c"], "it still gets its copies");
    bench.leave(slow);
    assert_eq!(outcomes(&mut bench), [""; 0]);
    assert_eq!(bench.router.in_progress(), 0);
}

#[test]
fn copy_without_room_does_not_count_as_an_outcome() {
    let (mut bench, producer, good, stuck) = bench();
    bench.send(producer, 0, "a");
    bench.answer(good, "a", &Outcome::Accepted);
    bench.pass(SETTLE_TIMEOUT_MS);
    bench.full(stuck, true);
    bench.full(good, true);
    for id in 1..=CAPACITY {
        bench.send(producer, id, "m");
    }
    // Beyond the producer's window consumers without room miss their copies.
    bench.send(producer, 99, "beyond");
    assert_eq!(outcomes(&mut bench).last().map(String::as_str), Some("p0 99 released"));
    bench.leave(stuck);
    bench.leave(good);
    assert_eq!(bench.router.in_progress(), 0);
}

#[test]
fn the_clock_of_a_delivery_in_parts_starts_with_its_last_part() {
    let (mut bench, producer, good, stuck) = bench();
    bench.arrive(producer, 0, "begin", "first");
    bench.pass(2 * SETTLE_TIMEOUT_MS);
    bench.arrive(producer, 0, "end", "last");
    bench.answer(good, "begin", &Outcome::Accepted);
    bench.hush();
    bench.pass(SETTLE_TIMEOUT_MS - 1);
    assert_eq!(outcomes(&mut bench), [""; 0]);
    bench.pass(1);
    assert_eq!(outcomes(&mut bench), ["p0 0 accepted"]);
    bench.answer(stuck, "begin", &Outcome::Accepted);
    assert_eq!(bench.router.in_progress(), 0);
}

#[test]
fn consumer_stuck_within_a_delivery_becomes_overdue_too() {
    let (mut bench, producer, good, stuck) = bench();
    bench.arrive(producer, 0, "begin", "first");
    bench.full(stuck, true);
    bench.arrive(producer, 0, "end", "last");
    bench.answer(good, "begin", &Outcome::Accepted);
    bench.hush();
    bench.pass(SETTLE_TIMEOUT_MS);
    assert_eq!(outcomes(&mut bench), ["p0 0 accepted"]);
    bench.leave(stuck);
    bench.turn();
    assert_eq!((outcomes(&mut bench), bench.router.in_progress()), (Vec::new(), 0));
}

#[test]
fn consumer_that_settles_in_time_during_probation_is_awaited_again() {
    let (mut bench, producer, good, stuck) = bench();
    bench.send(producer, 0, "a");
    bench.answer(good, "a", &Outcome::Accepted);
    bench.pass(SETTLE_TIMEOUT_MS);
    bench.answer(stuck, "a", &Outcome::Accepted);
    for id in 1..=(OVERDUE_PROBATION_MS / 500) as u32 {
        bench.send(producer, id, "m");
        bench.answer(good, "m", &Outcome::Accepted);
        bench.answer(stuck, "m", &Outcome::Accepted);
        bench.pass(500);
    }
    bench.send(producer, 90, "n");
    bench.pass(500);
    bench.send(producer, 91, "o");
    bench.hush();
    bench.answer(good, "o", &Outcome::Accepted);
    assert_eq!(bench.reported(), [""; 0], "it is waited for");
    bench.answer(stuck, "o", &Outcome::Accepted);
    assert_eq!(bench.reported(), ["p0 91 accepted"]);
}

/// Time in which the good consumer answers.
const ANSWER_MS: u64 = 10;

/// Messages that a producer with a full window sends in `seconds`, a hundred a second at most for
/// each in flight. The other consumer answers in the milliseconds that `settles` selects.
fn sent_in(seconds: u64, with_other: bool, settles: impl Fn(u64) -> bool) -> u32 {
    let mut bench = Bench::new(AddressKind::Multicast);
    let (producer, good) = (bench.producer(), bench.consumer_with(PLENTY));
    let other = with_other.then(|| bench.consumer_with(PLENTY));
    bench.hush();
    let (mut sent, mut in_flight, mut unanswered) = (0, 0, VecDeque::new());
    for ms in (0..seconds * 1_000).step_by(ANSWER_MS as usize) {
        for text in std::mem::take(&mut unanswered) {
            let text: String = text;
            bench.answer(good, &text, &Outcome::Accepted);
        }
        if let Some(other) = other.filter(|_| settles(ms)) {
            while let Some(text) = bench.first_held(other) {
                bench.answer(other, &text, &Outcome::Accepted);
            }
        }
        in_flight -= u32::try_from(outcomes(&mut bench).len()).expect("at most what is in flight");
        while in_flight < CAPACITY {
            let text = format!("m{sent}");
            bench.send(producer, sent, &text);
            unanswered.push_back(text);
            (sent, in_flight) = (sent + 1, in_flight + 1);
        }
        bench.hush();
        bench.pass(ANSWER_MS);
    }
    sent
}

#[test]
fn producer_keeps_90_percent_of_its_rate_if_one_consumer_never_settles() {
    let (alone, beside) = (sent_in(15, false, |_| false), sent_in(15, true, |_| false));
    assert!(alone > 0 && u64::from(beside) * 10 >= u64::from(alone) * 9, "{beside} of {alone}");
}

#[test]
fn producer_keeps_90_percent_of_its_rate_if_one_consumer_settles_in_bursts() {
    // It settles everything every 1.5 s, so that it is overdue each time.
    let (alone, beside) = (sent_in(24, false, |_| false), sent_in(24, true, |ms| ms % 1_500 == 0));
    assert!(alone > 0 && u64::from(beside) * 10 >= u64::from(alone) * 9, "{beside} of {alone}");
}
