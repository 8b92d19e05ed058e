//! The checks of stored addresses: each with a history that violates it, and one that does not.

use enmasse_router::core::AddressKind;

use super::*;
use crate::message;

fn terms() -> impl Iterator<Item = (String, Terms)> {
    let failing = Terms { attempts: 2, dead_letter: true, ttl_ms: None };
    let terms = [("orders", failing), ("dead", Terms::default()), ("events", Terms::default())];
    terms.into_iter().map(|(name, terms)| (name.to_owned(), terms))
}

fn route(name: &str, kind: AddressKind) -> Route {
    Route { space: 0, name: name.to_owned(), kind: Some(kind), may_be_deleted: false, temporary: None }
}

/// A ledger with a sender, link 0, and consumers of a queue, links 1 to 3 of clients of their own.
fn ledger() -> Ledger {
    let mut ledger = Ledger::new(terms());
    ledger.declare(1);
    ledger.attached(0, route("orders", AddressKind::Queue), None);
    for client in 1..=3 {
        let source = Some(Source::Queue("orders".to_owned()));
        ledger.attached(client, route("orders", AddressKind::Queue), source);
    }
    ledger
}

fn send(ledger: &mut Ledger, transaction: Option<TransactionNumber>) -> MessageNumber {
    let message = ledger.sends(0, route("orders", AddressKind::Queue), false, transaction);
    ledger.contains(message, message::write(message, "orders", None, 10));
    ledger.progress(message, Progress::Sent);
    ledger.sender_outcome(message, OutcomeKind::Accepted, transaction.is_some());
    message
}

fn receive(ledger: &mut Ledger, to: LinkNumber, message: MessageNumber) {
    let bytes = message::write(message, "orders", None, 10);
    let content = Content::read(&bytes).expect("a message");
    ledger.received(to, &content, false, &bytes);
}

fn consume(ledger: &mut Ledger, to: LinkNumber, message: MessageNumber, outcome: OutcomeKind) {
    receive(ledger, to, message);
    ledger.consumer_outcome(to, message, outcome, None);
}

fn is_violated(ledger: &Ledger) -> bool {
    ledger.first_violation().is_some()
}

#[test]
fn accepted_message_that_is_never_delivered_is_a_violation() {
    let mut ledger = ledger();
    let message = send(&mut ledger, None);
    consume(&mut ledger, 1, message, OutcomeKind::Released);
    consume(&mut ledger, 2, message, OutcomeKind::Accepted);
    ledger.check_stored();
    assert!(!is_violated(&ledger), "{:?}", ledger.first_violation());
    send(&mut ledger, None);
    ledger.check_stored();
    assert!(is_violated(&ledger), "the second was never delivered");
}

#[test]
fn message_held_or_accepted_by_one_link_must_not_reach_another() {
    for settles in [false, true] {
        let mut ledger = ledger();
        let message = send(&mut ledger, None);
        receive(&mut ledger, 1, message);
        if settles {
            ledger.consumer_outcome(1, message, OutcomeKind::Accepted, None);
        }
        receive(&mut ledger, 2, message);
        assert!(is_violated(&ledger), "settled: {settles}");
    }
}

#[test]
fn outcome_may_be_lost_with_a_connection_but_not_with_a_detach() {
    for (lost, violated) in [(true, false), (false, true)] {
        let mut ledger = ledger();
        let message = send(&mut ledger, None);
        consume(&mut ledger, 1, message, OutcomeKind::Accepted);
        if lost {
            ledger.disconnected(1, false);
        } else {
            ledger.detaching(1, true);
            ledger.detached(1);
        }
        receive(&mut ledger, 2, message);
        assert_eq!(is_violated(&ledger), violated, "lost: {lost}");
    }
}

#[test]
fn removal_may_be_lost_in_a_kill_unless_it_was_on_disk() {
    for (barrier, violated) in [(false, false), (true, true)] {
        let mut ledger = ledger();
        let message = send(&mut ledger, None);
        consume(&mut ledger, 1, message, OutcomeKind::Accepted);
        if barrier {
            ledger.barrier();
        }
        ledger.restarted();
        ledger.attached(2, route("orders", AddressKind::Queue), Some(Source::Queue("orders".to_owned())));
        receive(&mut ledger, 4, message);
        assert_eq!(is_violated(&ledger), violated, "barrier: {barrier}");
    }
}

#[test]
fn oldest_delivery_of_a_lost_connection_may_count_as_an_attempt() {
    let mut ledger = ledger();
    let (oldest, next) = (send(&mut ledger, None), send(&mut ledger, None));
    receive(&mut ledger, 1, oldest);
    receive(&mut ledger, 1, next);
    ledger.disconnected(1, false);
    let queue = ledger.queue_numbers[&(0, "orders".to_owned())];
    assert_eq!([oldest, next].map(|message| ledger.attempts_bound(message, queue)), [1, 0]);
    // The link had settled everything. Its oldest delivery was in flight.
    consume(&mut ledger, 2, next, OutcomeKind::Released);
    ledger.disconnected(2, false);
    let later = send(&mut ledger, None);
    assert_eq!([oldest, later].map(|message| ledger.attempts_bound(message, queue)), [2, 0]);
}

#[test]
fn dead_letter_before_the_attempt_limit_is_a_violation() {
    for (failures, violated) in [(1, true), (2, false)] {
        let mut ledger = ledger();
        let message = send(&mut ledger, None);
        for to in 1..=failures {
            consume(&mut ledger, to, message, OutcomeKind::Failed);
        }
        let queue = ledger.queue_numbers[&(0, "orders".to_owned())];
        let result = ledger.check_dead_letter(message, queue, "maximum-delivery-attempts");
        assert_eq!(result.is_err(), violated, "{failures}: {result:?}");
        assert!(ledger.check_dead_letter(message, queue, "expired").is_err());
    }
}

#[test]
fn posting_received_before_commit_or_after_rollback_is_a_violation() {
    for (commit, answered, violated) in [(true, true, false), (true, false, false), (false, true, true)] {
        let mut ledger = ledger();
        let transaction = ledger.declared(0);
        let message = send(&mut ledger, Some(transaction));
        ledger.discharges(transaction, commit);
        if answered {
            ledger.discharged(transaction, true);
        } else {
            ledger.transaction_lost(transaction);
        }
        receive(&mut ledger, 1, message);
        assert_eq!(is_violated(&ledger), violated, "commit: {commit}, answered: {answered}");
    }
    let mut ledger = ledger();
    let transaction = ledger.declared(0);
    let message = send(&mut ledger, Some(transaction));
    receive(&mut ledger, 1, message);
    assert!(is_violated(&ledger), "the transaction is open");
}

#[test]
fn transaction_without_an_answer_is_whole_or_absent() {
    let mut ledger = ledger();
    let transaction = ledger.declared(0);
    let messages = [0; 2].map(|_| send(&mut ledger, Some(transaction)));
    ledger.discharges(transaction, true);
    ledger.transaction_lost(transaction);
    ledger.check_stored();
    assert!(!is_violated(&ledger), "it was rolled back");
    consume(&mut ledger, 1, messages[0], OutcomeKind::Accepted);
    ledger.check_stored();
    assert!(is_violated(&ledger), "half of it is missing");
}

#[test]
fn commit_despite_a_refused_posting_is_a_violation() {
    for (outcome, violated) in [(OutcomeKind::Accepted, false), (OutcomeKind::Refused, true)] {
        let mut ledger = ledger();
        let transaction = ledger.declared(0);
        let message = ledger.sends(0, route("orders", AddressKind::Queue), false, Some(transaction));
        ledger.progress(message, Progress::Sent);
        ledger.sender_outcome(message, outcome, true);
        ledger.discharges(transaction, true);
        ledger.discharged(transaction, true);
        assert_eq!(is_violated(&ledger), violated, "{outcome:?}");
    }
}
