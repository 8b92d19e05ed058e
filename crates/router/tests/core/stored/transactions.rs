//! Atomicity of transactions (part 4) on stored addresses, on disk and in memory, over restarts.

use std::collections::BTreeSet;
use std::sync::Arc;

use enmasse_amqp::types::{Body, Error, Header, Message, Modified, Outcome, Value, condition};
use enmasse_journal::log::simulated::{Call, SimulatedDisk};
use enmasse_journal::queue::{Duplicates, Full, Limits, Redelivery, Settings};
use enmasse_router::core::{
    AddressKey, AddressKind, Arrival, AttachmentId, AttachmentRole, Consuming, Declared, Ending, OpenQueue,
    TRANSACTION_MESSAGES, TransactionId,
};

use super::{DEAD, Got, House, OTHER_PRODUCER, PRODUCER, QUEUE, declared, failed, producer};
use crate::whole;

/// A queue whose messages are in memory only.
pub(super) const MEMORY: AddressKey = AddressKey(30);

pub(super) fn transaction(number: u64) -> TransactionId {
    TransactionId { shard: 0, conn: 0, number }
}

impl House {
    /// A transaction with this number.
    pub(super) fn declare(&mut self, number: u64) -> TransactionId {
        self.router.declare(transaction(number));
        transaction(number)
    }

    /// An attachment that sends to an address.
    pub(super) fn producer(&mut self, address: AddressKey) -> AttachmentId {
        let attachment = AttachmentId { shard: 0, generation: 0, index: self.attachments };
        self.attachments += 1;
        self.router.attach(attachment, declared(address), producer(), &mut self.recorded);
        attachment
    }

    pub(super) fn post(&mut self, id: TransactionId, attachment: AttachmentId, text: &str) -> u32 {
        let body = Body::Data(vec![text.into()]);
        self.post_message(id, attachment, &Message { body, ..Message::default() })
    }

    pub(super) fn post_message(&mut self, id: TransactionId, attachment: AttachmentId, message: &Message) -> u32 {
        let payload = encoded(message);
        let delivery_id = self.sent;
        self.sent += 1;
        self.router.post_delivery(attachment, id, whole(delivery_id, &payload), &mut self.recorded);
        delivery_id
    }

    pub(super) fn retire(&mut self, id: TransactionId, got: &Got, outcome: &Outcome, settled: bool) {
        self.router.retire_delivery(id, got.token, &Arc::new(outcome.clone()), settled, &mut self.recorded);
    }

    pub(super) fn commit(&mut self, id: TransactionId) -> Result<(), Error> {
        self.router.discharge(id, false, 1, &mut self.recorded);
        self.pump();
        self.result(id)
    }

    pub(super) fn roll_back(&mut self, id: TransactionId) {
        self.router.discharge(id, true, 1, &mut self.recorded);
        assert_eq!(self.result(id), Ok(()), "a rollback always succeeds immediately");
        self.pump();
    }

    pub(super) fn result(&mut self, id: TransactionId) -> Result<(), Error> {
        let (of, result) = self.recorded.discharged.pop().expect("an answer");
        assert_eq!((of, self.recorded.discharged.len()), (id, 0));
        result
    }

    /// The messages that a consumer receives from an address now; they are released again.
    pub(super) fn seen(&mut self, address: AddressKey) -> Vec<String> {
        assert!(self.recorded.got.is_empty());
        let consumer = self.consumer(address, 1000);
        self.pump();
        let got = self.got();
        self.router.credit(consumer, got.len() as u32, false, &mut self.recorded);
        for one in &got {
            self.router.outcome(one.token, &Outcome::Released, &mut self.recorded);
        }
        self.router.detach(consumer, &mut self.recorded);
        self.pump();
        self.got();
        got.iter().map(Got::text).collect()
    }

    fn rejection(&self, delivery_id: u32) -> Option<&Error> {
        let refused = self.recorded.refused_postings.iter().chain(&self.recorded.settled);
        refused.into_iter().find_map(|(id, outcome)| match outcome {
            Outcome::Rejected(Some(error)) if *id == delivery_id => Some(&**error),
            _ => None,
        })
    }
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut payload = Vec::new();
    enmasse_amqp::codec::encode_message(&mut payload, message);
    payload
}

pub(super) fn reason(result: Result<(), Error>, words: &str) {
    let error = result.expect_err("a roll-back");
    assert_eq!(error.condition, condition::TRANSACTION_ROLLBACK, "{error:?}");
    let text = error.description.unwrap_or_default();
    assert!(text.contains(words), "{text}");
}

/// A house with a queue in memory and the two on disk.
pub(super) fn house(settings: Settings) -> House {
    let mut house = House::new(settings);
    with_memory(&mut house);
    house
}

fn with_memory(house: &mut House) {
    house.router.open_queue(
        declared(MEMORY),
        OpenQueue::new("memory".into(), Settings::default(), None),
        &mut house.recorded,
    );
}

#[test]
fn postings_become_visible_together_at_the_commit_and_survive_a_restart() {
    let mut house = house(Settings::default());
    let (dead, memory) = (house.producer(DEAD), house.producer(MEMORY));
    for address in [QUEUE, DEAD, MEMORY] {
        house.consumer(address, 10);
        house.consumer_that(address, 10, Consuming { browses: true, ..Consuming::default() });
    }
    let id = house.declare(1);
    for (attachment, text) in [(PRODUCER, "a"), (dead, "b"), (memory, "c"), (PRODUCER, "d")] {
        let delivery = house.post(id, attachment, text);
        assert_eq!(house.recorded.provisional.pop(), Some(delivery));
    }
    house.pump();
    assert!(house.got().is_empty() && house.recorded.settled.is_empty(), "uncommitted messages are invisible");
    assert_eq!(house.commit(id), Ok(()));
    let texts: BTreeSet<String> = house.texts().into_iter().collect();
    assert_eq!(texts.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    assert!(house.recorded.settled.is_empty(), "no outcome follows the provisional one");
    let mut house = house.restarted();
    assert_eq!(house.seen(QUEUE), ["a", "d"]);
    assert_eq!(house.seen(DEAD), ["b"]);
}

#[test]
fn commit_is_answered_only_once_it_is_on_disk() {
    let mut house = house(Settings::default());
    house.consumer(QUEUE, 10);
    let id = house.declare(1);
    house.post(id, PRODUCER, "a");
    house.router.discharge(id, false, 1, &mut house.recorded);
    house.router.turn(&mut house.recorded);
    assert!(house.recorded.discharged.is_empty() && house.got().is_empty());
    house.pump();
    assert_eq!((house.result(id), house.texts()), (Ok(()), vec!["a".to_owned()]));
}

#[test]
fn rollback_discards_every_posting_and_ends_the_transaction() {
    let mut house = house(Settings::default());
    let memory = house.producer(MEMORY);
    let id = house.declare(1);
    house.post(id, PRODUCER, "a");
    house.post(id, memory, "b");
    house.roll_back(id);
    assert!(house.seen(QUEUE).is_empty() && house.seen(MEMORY).is_empty());
    let late = house.post(id, PRODUCER, "c");
    assert_eq!(house.rejection(late).map(|error| &error.condition), Some(&condition::TRANSACTION_UNKNOWN_ID));
    let result = house.commit(id).map_err(|error| error.condition);
    assert_eq!(result, Err(condition::TRANSACTION_UNKNOWN_ID));
    assert!(house.restarted().seen(QUEUE).is_empty());
}

#[test]
fn an_empty_transaction_is_discharged_at_once() {
    let mut house = house(Settings::default());
    let (one, other) = (house.declare(1), house.declare(2));
    assert_eq!(house.commit(one), Ok(()));
    house.roll_back(other);
    house.router.discharge(transaction(9), true, 1, &mut house.recorded);
    assert_eq!(house.result(transaction(9)), Ok(()), "there is nothing to roll back");
}

#[test]
fn retired_messages_are_removed_at_the_commit() {
    for (address, settled) in [(QUEUE, true), (QUEUE, false), (MEMORY, true), (MEMORY, false)] {
        let mut house = house(Settings::default());
        let attachment = house.producer(address);
        for text in ["a", "b", "c"] {
            let message = Message { body: Body::Data(vec![text.into()]), ..Message::default() };
            house.send_from(attachment, &message);
        }
        let consumer = house.consumer(address, 2);
        house.pump();
        let got = house.got();
        let id = house.declare(1);
        for one in &got {
            house.retire(id, one, &Outcome::Accepted, settled);
        }
        house.pump();
        assert!(house.got().is_empty());
        assert_eq!(house.commit(id), Ok(()));
        house.router.detach(consumer, &mut house.recorded);
        assert_eq!(house.seen(address), ["c"]);
        if address == QUEUE {
            assert_eq!(house.log.stats().alive_messages, 1);
            assert_eq!(house.restarted().seen(address), ["c"]);
        }
    }
}

#[test]
fn rollback_keeps_unsettled_deliveries_with_their_consumer() {
    let mut house = house(Settings::default());
    house.send("a");
    house.send("b");
    house.consumer(QUEUE, 2);
    house.pump();
    let got = house.got();
    let id = house.declare(1);
    house.retire(id, &got[0], &Outcome::Accepted, false);
    house.retire(id, &got[1], &Outcome::Accepted, true);
    house.roll_back(id);
    let mut house = {
        let again = house.seen(QUEUE);
        assert_eq!(again, ["b"], "the other is still held");
        house
    };
    house.answer(&got[0], &Outcome::Accepted);
    house.consumer(QUEUE, 1);
    let again = house.got();
    assert_eq!((again.len(), again[0].text()), (1, "b".to_owned()));
    assert_eq!(again[0].message.header.as_ref().map(|header| header.delivery_count), Some(1));
    assert_eq!(house.restarted().seen(QUEUE), ["b"]);
}

#[test]
fn rollback_counts_attempts_of_retired_deliveries_by_how_their_link_ended() {
    let cases =
        [(Ending::ByClient, true, 0), (Ending::ByNode, true, 0), (Ending::Lost, true, 1), (Ending::Lost, false, 0)];
    for (ending, oldest, failures) in cases {
        for commits in [false, true] {
            let mut house = house(Settings::default());
            house.send("a");
            let consumer = house.consumer(QUEUE, 1);
            house.pump();
            let got = house.got();
            let id = house.declare(1);
            house.retire(id, &got[0], &Outcome::Accepted, false);
            house.router.stall(consumer);
            house.router.relinquish(&[got[0].token], ending, oldest, &mut house.recorded);
            house.router.depart(consumer, ending, &mut house.recorded);
            house.consumer(QUEUE, 1);
            house.pump();
            assert!(house.got().is_empty(), "the transaction still holds it");
            if commits {
                assert_eq!(house.commit(id), Ok(()));
                assert!(house.got().is_empty());
                continue;
            }
            house.roll_back(id);
            let got = house.got();
            let counts: Vec<u32> =
                got.iter().map(|got| got.message.header.as_ref().map_or(0, |header| header.delivery_count)).collect();
            assert_eq!(counts, [failures], "{ending:?}, oldest: {oldest}");
        }
    }
}

#[test]
fn every_outcome_takes_effect_at_the_commit() {
    let redelivery = Redelivery { attempts_max: 5, ..Redelivery::default() };
    let mut house = house(Settings { dead_letter: true, redelivery, ..Settings::default() });
    for text in ["released", "modified", "rejected", "accepted"] {
        house.send(text);
    }
    let consumer = house.consumer(QUEUE, 4);
    house.pump();
    let got = house.got();
    let id = house.declare(1);
    let error = Error::new(condition::DECODE_ERROR, "broken");
    let outcomes = [Outcome::Released, failed(), Outcome::Rejected(Some(Box::new(error))), Outcome::Accepted];
    for (one, outcome) in got.iter().zip(&outcomes) {
        house.retire(id, one, outcome, true);
    }
    house.router.detach(consumer, &mut house.recorded);
    assert!(house.seen(QUEUE).is_empty() && house.seen(DEAD).is_empty());
    assert_eq!(house.commit(id), Ok(()));
    let mut house = house.restarted();
    assert_eq!(house.seen(QUEUE), ["released", "modified"]);
    house.consumer(DEAD, 1);
    house.pump();
    let got = house.got();
    assert_eq!(got[0].annotation("x-opt-dead-letter-cause"), Some(&Value::String("rejected".to_owned())));
    house.consumer(QUEUE, 2);
    house.pump();
    let counts =
        house.got().into_iter().map(|one| one.message.header.as_ref().map_or(0, |header| header.delivery_count));
    assert_eq!(counts.collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn queue_that_refuses_one_posting_fails_the_whole_transaction() {
    let limits = Limits { messages: 2, ..Limits::default() };
    let mut house = house(Settings { limits, full: Full::Reject, ..Settings::default() });
    let (dead, memory) = (house.producer(DEAD), house.producer(MEMORY));
    house.send("here");
    house.consumer(QUEUE, 1);
    house.pump();
    let got = house.got();
    let id = house.declare(1);
    house.post(id, dead, "x");
    house.post(id, memory, "y");
    house.post(id, PRODUCER, "a");
    house.post(id, PRODUCER, "b");
    house.retire(id, &got[0], &Outcome::Accepted, true);
    reason(house.commit(id), "holds 2 messages");
    assert!(house.seen(DEAD).is_empty() && house.seen(MEMORY).is_empty());
    let again = house.got();
    assert!(again.is_empty());
    let mut house = house.restarted();
    assert_eq!(house.seen(QUEUE), ["here"]);
    let id = house.declare(2);
    house.post(id, PRODUCER, "a");
    assert_eq!(house.commit(id), Ok(()), "there is room for one");
    assert_eq!(house.seen(QUEUE), ["here", "a"]);
}

#[test]
fn deleted_queue_fails_postings_to_it_and_drops_retirements_from_it() {
    let error = Error::new(condition::RESOURCE_DELETED, "deleted");
    for address in [DEAD, MEMORY] {
        let mut house = house(Settings::default());
        let attachment = house.producer(address);
        house.send_from(attachment, &Message { body: Body::Data(vec![b"old".to_vec()]), ..Message::default() });
        house.consumer(address, 1);
        house.pump();
        let got = house.got();
        let (sends, takes) = (house.declare(1), house.declare(2));
        house.post(sends, PRODUCER, "a");
        house.post(sends, attachment, "b");
        house.post(takes, PRODUCER, "c");
        house.retire(takes, &got[0], &Outcome::Accepted, false);
        house.router.delete_address(address, &error, &mut house.recorded);
        reason(house.commit(sends), "deleted");
        assert_eq!(house.commit(takes), Ok(()));
        assert_eq!(house.seen(QUEUE), ["c"]);
        assert_eq!(house.router.in_progress(), 0);
        assert_eq!(house.restarted().seen(QUEUE), ["c"]);
    }
}

#[test]
fn queue_deleted_during_the_write_keeps_the_rest_of_the_commit() {
    let error = Error::new(condition::RESOURCE_DELETED, "deleted");
    for address in [DEAD, MEMORY] {
        let mut house = house(Settings::default());
        let attachment = house.producer(address);
        let kept = house.producer(MEMORY);
        house.send_from(attachment, &Message { body: Body::Data(vec![b"old".to_vec()]), ..Message::default() });
        house.consumer(address, 1);
        house.pump();
        let got = house.got();
        let id = house.declare(1);
        house.post(id, PRODUCER, "a");
        house.post(id, attachment, "b");
        house.post(id, kept, "m");
        house.retire(id, &got[0], &Outcome::Accepted, true);
        house.router.discharge(id, false, 1, &mut house.recorded);
        house.router.delete_address(address, &error, &mut house.recorded);
        house.pump();
        assert_eq!(house.result(id), Ok(()));
        assert_eq!(house.seen(QUEUE), ["a"]);
        if address == DEAD {
            assert_eq!(house.seen(MEMORY), ["m"]);
        }
        assert_eq!(house.router.in_progress(), 0);
    }
}

#[test]
fn commit_with_a_failed_sync_changes_no_visible_message() {
    let mut house = house(Settings::default());
    let memory = house.producer(MEMORY);
    house.send("here");
    house.consumer(QUEUE, 1);
    house.pump();
    let got = house.got();
    let id = house.declare(1);
    house.post(id, PRODUCER, "a");
    house.post(id, memory, "b");
    house.retire(id, &got[0], &Outcome::Accepted, false);
    house.disk.fail(Call::Sync, 0);
    reason(house.commit(id), "may or may not be stored");
    assert!(house.seen(QUEUE).is_empty() && house.seen(MEMORY).is_empty());
    house.router.outcome(got[0].token, &Outcome::Released, &mut house.recorded);
    house.consumer(QUEUE, 1);
    assert_eq!(house.texts(), ["here"]);
}

#[test]
fn full_disk_refuses_postings_and_stores_retirements() {
    let mut house = house(Settings::default());
    for n in 0..6 {
        house.send(&n.to_string());
    }
    house.consumer(QUEUE, 6);
    house.pump();
    let got = house.got();
    house.disk.set_capacity_bytes(house.disk.used_bytes());
    let long = "x".repeat(40_000);
    let mut refused = false;
    for (number, one) in (1..).zip(&got) {
        let id = house.declare(number);
        house.post(id, PRODUCER, &long);
        house.retire(id, one, &Outcome::Accepted, false);
        let result = house.commit(id);
        if let Err(error) = result {
            assert_eq!(error.condition, condition::TRANSACTION_ROLLBACK);
            refused = true;
            let id = house.declare(100);
            house.retire(id, one, &Outcome::Accepted, true);
            assert_eq!(house.commit(id), Ok(()));
            break;
        }
    }
    assert!(refused, "the disk is never full");
}

#[test]
fn retired_delivery_belongs_to_its_first_transaction_only() {
    let mut house = house(Settings::default());
    house.send("a");
    let consumer = house.consumer(QUEUE, 1);
    house.pump();
    let got = house.got();
    let (one, other) = (house.declare(1), house.declare(2));
    house.retire(one, &got[0], &Outcome::Accepted, false);
    house.retire(other, &got[0], &Outcome::Released, false);
    house.retire(one, &got[0], &Outcome::Released, false);
    house.answer(&got[0], &failed());
    // Its link ends: outcomes of the transaction stay valid.
    house.router.outcome(got[0].token, &failed(), &mut house.recorded);
    house.router.detach(consumer, &mut house.recorded);
    assert_eq!(house.commit(other), Ok(()));
    assert!(house.seen(QUEUE).is_empty());
    assert_eq!(house.commit(one), Ok(()));
    assert!(house.restarted().seen(QUEUE).is_empty());
}

#[test]
fn retirement_in_an_unknown_transaction_acts_like_a_rollback() {
    let mut house = house(Settings::default());
    house.send("a");
    house.send("b");
    house.consumer(QUEUE, 2);
    house.pump();
    let got = house.got();
    house.retire(transaction(5), &got[0], &Outcome::Accepted, true);
    house.retire(transaction(5), &got[1], &Outcome::Accepted, false);
    house.consumer(QUEUE, 2);
    house.pump();
    let again = house.got();
    assert_eq!(again.iter().map(Got::text).collect::<Vec<_>>(), ["a"]);
    house.answer(&got[1], &Outcome::Accepted);
    house.answer(&again[0], &Outcome::Accepted);
    assert!(house.restarted().seen(QUEUE).is_empty());
}

#[test]
fn retirement_by_a_browser_has_no_effect() {
    let mut house = house(Settings::default());
    house.send("a");
    house.consumer_that(QUEUE, 1, Consuming { browses: true, ..Consuming::default() });
    house.pump();
    let got = house.got();
    let id = house.declare(1);
    house.retire(id, &got[0], &Outcome::Accepted, true);
    assert_eq!(house.commit(id), Ok(()));
    assert_eq!(house.seen(QUEUE), ["a"]);
}

#[test]
fn idle_transaction_is_rolled_back() {
    let mut house = house(Settings::default());
    house.send("a");
    house.consumer(QUEUE, 1);
    house.pump();
    let got = house.got();
    let (idle, used) = (house.declare(1), house.declare(2));
    house.post(idle, PRODUCER, "never");
    house.retire(idle, &got[0], &Outcome::Accepted, true);
    house.pass(200_000);
    house.post(used, PRODUCER, "b");
    let at = house.router.next_timeout().expect("a timeout of the idle transaction");
    assert!(at <= house.now_ms + 100_000, "{} ms", at - house.now_ms);
    house.pass(101_000);
    assert_eq!(house.seen(QUEUE), ["a"]);
    let late = house.post(idle, PRODUCER, "late");
    assert_eq!(house.rejection(late).map(|error| &error.condition), Some(&condition::TRANSACTION_UNKNOWN_ID));
    assert_eq!(house.commit(idle).map_err(|error| error.condition), Err(condition::TRANSACTION_UNKNOWN_ID));
    assert_eq!(house.commit(used), Ok(()));
    assert_eq!(house.router.next_timeout(), None, "no transaction is open");
}

#[test]
fn transaction_is_bounded_in_messages_and_bytes() {
    let mut house = house(Settings::default());
    let long = "x".repeat(1 << 20);
    let (big, many) = (house.declare(1), house.declare(2));
    let mut refused = None;
    for _ in 0..80 {
        let delivery = house.post(big, PRODUCER, &long);
        if house.rejection(delivery).is_some() {
            refused = Some(delivery);
            break;
        }
    }
    assert_eq!(house.recorded.provisional.len(), 63, "64 MiB, with the encoding around each body");
    let error = house.rejection(refused.expect("a bound")).expect("a rejection");
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
    let next = house.post(big, PRODUCER, "more");
    assert_eq!(house.rejection(next).map(|error| &error.condition), Some(&condition::TRANSACTION_ROLLBACK));
    reason(house.commit(big), "commit more often");
    house.recorded.refused_postings.clear();
    for _ in 0..=TRANSACTION_MESSAGES {
        house.post(many, PRODUCER, "m");
    }
    assert_eq!((house.recorded.refused_postings.len(), house.recorded.settled.len()), (1, 0));
    reason(house.commit(many), "100000 messages");
    assert!(house.seen(QUEUE).is_empty());
}

#[test]
fn transactions_of_one_space_leave_others_their_share_of_the_budget() {
    let mut house = House::with_budget(256 << 20);
    let long = "x".repeat(60 << 20);
    let post = |house: &mut House, number: u64, attachment: AttachmentId| {
        let id = house.declare(number);
        house.post(id, attachment, &long)
    };
    post(&mut house, 1, PRODUCER);
    post(&mut house, 2, PRODUCER);
    assert_eq!(house.recorded.provisional.len(), 2);
    let refused = post(&mut house, 3, PRODUCER);
    let error = house.rejection(refused).expect("a bound");
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
    assert!(error.description.as_deref().is_some_and(|text| text.contains("open transactions")), "{error:?}");
    post(&mut house, 4, OTHER_PRODUCER);
    assert_eq!(house.recorded.provisional.len(), 3, "the other space has held nothing");
    house.roll_back(transaction(1));
    post(&mut house, 5, PRODUCER);
    assert_eq!(house.recorded.provisional.len(), 4, "there is room again");
}

#[test]
fn duplicate_detection_takes_effect_at_the_commit() {
    let duplicates = Some(Duplicates { ids: 100, window_ms: 0 });
    let mut house = house(Settings { duplicates, ..Settings::default() });
    let message = |id: &str| Message {
        properties: Some(enmasse_amqp::types::Properties {
            message_id: Some(enmasse_amqp::types::MessageId::String(id.to_owned())),
            ..Default::default()
        }),
        body: Body::Data(vec![id.into()]),
        ..Message::default()
    };
    let (rolled, first, second) = (house.declare(1), house.declare(2), house.declare(3));
    house.post_message(rolled, PRODUCER, &message("a"));
    house.roll_back(rolled);
    house.post_message(first, PRODUCER, &message("a"));
    house.post_message(first, PRODUCER, &message("a"));
    assert_eq!(house.commit(first), Ok(()));
    house.post_message(second, PRODUCER, &message("a"));
    house.post_message(second, PRODUCER, &message("b"));
    assert_eq!(house.commit(second), Ok(()));
    assert_eq!(house.seen(QUEUE), ["a", "b"]);
    house.send_message(&message("c"));
    let id = house.declare(4);
    house.post_message(id, PRODUCER, &message("c"));
    house.router.discharge(id, false, 1, &mut house.recorded);
    reason(house.result(id), "being stored");
    let mut house = house.restarted();
    assert_eq!(house.seen(QUEUE), ["a", "b"], "an unwritten message does not return");
    let id = house.declare(5);
    house.post_message(id, PRODUCER, &message("b"));
    house.post_message(id, PRODUCER, &message("c"));
    assert_eq!(house.commit(id), Ok(()));
    assert_eq!(house.seen(QUEUE), ["a", "b", "c"]);
}

#[test]
fn rolled_back_producer_numbers_can_be_sent_again() {
    let mut house = house(Settings::default());
    let attachment = AttachmentId { shard: 0, generation: 0, index: 90 };
    let role = AttachmentRole::Producer { anonymous: false, name: None, producer_name: Some("p".into()), resume: None };
    house.router.attach(attachment, declared(QUEUE), role, &mut house.recorded);
    let numbered = |number: u64| Message {
        message_annotations: vec![("x-opt-producer-sequence".into(), Value::Ulong(number))],
        body: Body::Data(vec![number.to_string().into_bytes()]),
        ..Message::default()
    };
    for (number, commit) in [(1, false), (2, true)] {
        let id = house.declare(number);
        for sequence in [1, 2, 2, 3] {
            house.post_message(id, attachment, &numbered(sequence));
        }
        if commit {
            assert_eq!(house.commit(id), Ok(()));
        } else {
            house.roll_back(id);
        }
    }
    house.send_from(attachment, &numbered(3));
    house.pump();
    assert_eq!(house.restarted().seen(QUEUE), ["1", "2", "3"]);
}

#[test]
fn delivery_belongs_to_the_transaction_named_by_any_of_its_transfers() {
    let payload = encoded(&Message { body: Body::Data(vec![b"long message".to_vec()]), ..Message::default() });
    for named in 0..3 {
        let mut house = house(Settings::default());
        let id = house.declare(1);
        let parts: Vec<&[u8]> = payload.chunks(payload.len().div_ceil(3)).collect();
        for (at, part) in parts.iter().enumerate() {
            let arrival = Arrival { first: at == 0, more: at < 2, ..whole(0, part) };
            if at == named {
                house.router.post_delivery(PRODUCER, id, arrival, &mut house.recorded);
            } else {
                house.router.deliver(PRODUCER, arrival, &mut house.recorded);
            }
        }
        house.pump();
        assert_eq!(house.recorded.provisional, [0]);
        assert!(house.seen(QUEUE).is_empty());
        assert_eq!(house.commit(id), Ok(()));
        assert_eq!(house.seen(QUEUE), ["long message"]);
    }
}

#[test]
fn aborted_delivery_does_not_affect_its_transaction() {
    let mut house = house(Settings::default());
    let id = house.declare(1);
    let begins = Arrival { more: true, ..whole(0, b"\0\x53\x75") };
    house.router.post_delivery(PRODUCER, id, begins, &mut house.recorded);
    house.router.post_delivery(
        PRODUCER,
        id,
        Arrival { first: false, aborted: true, ..whole(0, &[]) },
        &mut house.recorded,
    );
    house.router.post_delivery(PRODUCER, id, Arrival { aborted: true, ..whole(1, &[]) }, &mut house.recorded);
    house.send("outside");
    assert_eq!(house.commit(id), Ok(()));
    assert_eq!(house.seen(QUEUE), ["outside"]);
}

#[test]
fn a_settled_message_is_part_of_its_transaction_like_any_other() {
    let mut house = house(Settings::default());
    let id = house.declare(1);
    let payload = encoded(&Message { body: Body::Data(vec![b"a".to_vec()]), ..Message::default() });
    let arrival = Arrival { settled: true, ..whole(0, &payload) };
    house.router.post_delivery(PRODUCER, id, arrival, &mut house.recorded);
    assert!(house.recorded.provisional.is_empty() && house.seen(QUEUE).is_empty());
    assert_eq!(house.commit(id), Ok(()));
    assert_eq!(house.seen(QUEUE), ["a"]);
}

#[test]
fn posting_to_a_direct_address_is_rejected_as_not_implemented() {
    for kind in [AddressKind::Anycast, AddressKind::Multicast] {
        let mut house = house(Settings::default());
        let direct = Declared { key: AddressKey(9), kind, link_capacity: 10, space: 1 };
        let attachment = AttachmentId { shard: 0, generation: 0, index: 60 };
        house.router.attach(attachment, direct, producer(), &mut house.recorded);
        let consuming = Consuming::default();
        let consumer = AttachmentId { index: 61, ..attachment };
        house.router.attach(
            consumer,
            direct,
            AttachmentRole::Consumer { filter: None, consuming },
            &mut house.recorded,
        );
        house.router.credit(consumer, 10, false, &mut house.recorded);
        let id = house.declare(1);
        let long = Arrival { more: true, ..whole(0, b"\0\x53\x75") };
        house.router.post_delivery(attachment, id, long, &mut house.recorded);
        let rest = Arrival { first: false, ..whole(0, b"\xa0\x01x") };
        house.router.post_delivery(attachment, id, rest, &mut house.recorded);
        house.sent = 1;
        house.post(id, attachment, "short");
        for delivery in [0, 1] {
            assert_eq!(house.rejection(delivery).map(|error| &error.condition), Some(&condition::NOT_IMPLEMENTED));
        }
        house.send_from(attachment, &Message { body: Body::Data(vec![b"outside".to_vec()]), ..Message::default() });
        assert_eq!(house.texts(), ["outside"]);
        reason(house.commit(id), "amqp:not-implemented");
    }
}

#[test]
fn compaction_and_commit_of_the_same_message_do_not_conflict() {
    // The segment of a message is compacted just before, and just after, a commit that retires it.
    for compact_first in [true, false] {
        let mut house = house(Settings::default());
        for text in ["a", "b", "c"] {
            house.send(text);
        }
        let consumer = house.consumer(QUEUE, 1);
        house.pump();
        let got = house.got();
        let id = house.declare(1);
        house.post(id, PRODUCER, "d");
        house.retire(id, &got[0], &Outcome::Accepted, true);
        let compact = |house: &mut House| (0..8).for_each(|segment| house.router.compact(segment));
        if compact_first {
            compact(&mut house);
        }
        house.router.discharge(id, false, 1, &mut house.recorded);
        if !compact_first {
            compact(&mut house);
        }
        let next = house.declare(2);
        house.post(next, PRODUCER, "e");
        house.router.discharge(next, false, 1, &mut house.recorded);
        house.pump();
        assert_eq!(house.recorded.discharged.drain(..).filter(|(_, result)| result.is_ok()).count(), 2);
        house.router.detach(consumer, &mut house.recorded);
        assert_eq!(house.seen(QUEUE), ["b", "c", "d", "e"]);
        assert_eq!(house.log.stats().alive_messages, 4, "each is counted once");
        assert_eq!(house.restarted().seen(QUEUE), ["b", "c", "d", "e"]);
    }
}

#[test]
fn state_of_a_message_is_removed_by_its_retirement() {
    let mut house = house(Settings::default());
    house.send("a");
    let consumer = house.consumer(QUEUE, 2);
    house.pump();
    let got = house.got();
    let message_annotations = vec![("seen".into(), Value::Uint(1))];
    let modified = Modified { delivery_failed: true, message_annotations, ..Modified::default() };
    house.answer(&got[0], &Outcome::Modified(Box::new(modified)));
    let got = house.got();
    let id = house.declare(1);
    house.retire(id, &got[0], &Outcome::Accepted, true);
    assert_eq!(house.commit(id), Ok(()));
    house.router.detach(consumer, &mut house.recorded);
    let config = enmasse_journal::log::Config::default();
    let (_, recovered) = enmasse_journal::log::Log::open(Arc::new(house.disk.as_seen()), config).expect("a log");
    assert!(recovered.queues.iter().all(|queue| queue.states.iter().all(|(_, value)| value.is_empty())));
}

#[test]
fn time_to_live_of_a_posting_starts_at_the_commit() {
    let mut house = house(Settings::default());
    let header = Some(Header { ttl: Some(10_000), ..Header::default() });
    let id = house.declare(1);
    let message = Message { header, body: Body::Data(vec![b"m".to_vec()]), ..Message::default() };
    house.post_message(id, PRODUCER, &message);
    house.pass(20_000);
    assert_eq!(house.commit(id), Ok(()));
    assert_eq!(house.seen(QUEUE), ["m"]);
    house.pass(11_000);
    assert!(house.seen(QUEUE).is_empty());
}

#[test]
fn commit_larger_than_a_segment_is_stored_on_large_sectors() {
    let mut house = House::on(Arc::new(SimulatedDisk::new(4096, 3)), Settings::default());
    let id = house.declare(1);
    for n in 0..500 {
        house.post(id, PRODUCER, &format!("{n:>300}"));
    }
    assert_eq!(house.commit(id), Ok(()));
    assert_eq!(house.restarted().seen(QUEUE).len(), 500, "a group larger than a segment");
}
