//! Duplicates, numbered messages and partial deliveries of producers.

use enmasse_amqp::types::{Body, Error, Message, MessageId, Outcome, Properties, Symbol, Value, condition};
use enmasse_journal::log::Refused;
use enmasse_journal::queue::{Duplicates, Settings};
use enmasse_router::core::{Answer, Arrival, AttachmentId, AttachmentRole};

use super::{House, KEY, OTHER_PRODUCER, PRODUCER, QUEUE, declared, producer};

fn with_id(text: &str) -> Message {
    let properties = Properties { message_id: Some(MessageId::String(text.into())), ..Properties::default() };
    Message { properties: Some(properties), body: Body::Data(vec![text.into()]), ..Message::default() }
}

fn without_duplicates() -> Settings {
    Settings { duplicates: Some(Duplicates { ids: 100, window_ms: 0 }), ..Settings::default() }
}

#[test]
fn duplicate_is_accepted_no_earlier_than_its_original() {
    let mut house = House::new(without_duplicates());
    let (first, second) = (house.send_message(&with_id("a")), house.send_message(&with_id("a")));
    assert!(house.recorded.settled.is_empty(), "neither is on disk");
    house.pump();
    assert_eq!(house.recorded.settled, [(first, Outcome::Accepted), (second, Outcome::Accepted)]);
    let third = house.send_message(&with_id("a"));
    assert_eq!(house.recorded.settled.last(), Some(&(third, Outcome::Accepted)), "on disk already");
    house.consumer(QUEUE, 10);
    assert_eq!(house.texts(), ["a"]);
}

#[test]
fn duplicate_of_an_unstorable_message_is_rejected_and_can_be_sent_again() {
    let mut house = House::new(without_duplicates());
    let used = house.disk.used_bytes();
    house.disk.set_capacity_bytes(used);
    let text = "x".repeat(200_000);
    house.send_message(&with_id(&text));
    house.send_message(&with_id(&text));
    house.pump();
    for (_, outcome) in &house.recorded.settled {
        let Outcome::Rejected(Some(error)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
    }
    assert_eq!(house.recorded.settled.len(), 2);
    house.disk.set_capacity_bytes(used + (64 << 20));
    let again = house.send_message(&with_id(&text));
    house.pump();
    assert_eq!(house.recorded.settled.last(), Some(&(again, Outcome::Accepted)));
}

#[test]
fn an_address_may_be_deleted_while_the_log_writes_for_it() {
    let mut house = House::new(without_duplicates());
    house.send_message(&with_id("a"));
    house.send_message(&with_id("a"));
    house.router.delete_address(QUEUE, &Error::new(condition::RESOURCE_DELETED, "deleted"), &mut house.recorded);
    house.pump();
    assert_eq!((house.recorded.closed, house.recorded.settled.len()), (1, 0));
}

fn numbered(house: &mut House, name: &str) -> AttachmentId {
    let attachment = AttachmentId { shard: 0, generation: 0, index: 900 };
    let role =
        AttachmentRole::Producer { anonymous: false, name: None, producer_name: Some(name.into()), resume: None };
    house.router.attach(attachment, declared(QUEUE), role, &mut house.recorded);
    attachment
}

fn number(number: u64) -> Message {
    let message_annotations = vec![(Symbol::from("x-opt-producer-sequence"), Value::Ulong(number))];
    Message { message_annotations, body: Body::Data(vec![number.to_string().into_bytes()]), ..Message::default() }
}

#[test]
fn message_resent_by_a_numbered_producer_is_stored_once_across_restarts() {
    let mut house = House::new(Settings::default());
    let attachment = numbered(&mut house, "p");
    for n in [1, 2, 2, 5, 3] {
        house.send_from(attachment, &number(n));
    }
    house.pump();
    assert_eq!(house.recorded.settled.len(), 5);
    assert!(house.recorded.settled.iter().all(|(_, outcome)| *outcome == Outcome::Accepted));
    let mut house = house.restarted();
    let attachment = numbered(&mut house, "p");
    for n in [5, 6] {
        house.send_from(attachment, &number(n));
    }
    house.pump();
    let attachment = numbered(&mut house, "another");
    house.send_from(attachment, &number(1));
    house.pump();
    house.consumer(QUEUE, 10);
    house.pump();
    assert_eq!(house.texts(), ["1", "2", "5", "6", "1"]);
}

#[test]
fn rejection_releases_later_numbered_messages_until_the_producer_reattaches() {
    let mut house = House::new(Settings::default());
    let attachment = numbered(&mut house, "p");
    let mut broken = number(2);
    broken.message_annotations.push((Symbol::from("x-opt-delivery-delay"), Value::String("soon".to_owned())));
    house.send_from(attachment, &number(1));
    house.send_from(attachment, &broken);
    house.send_from(attachment, &number(3));
    house.send_from(attachment, &broken);
    house.pump();
    let outcomes: Vec<_> = house.recorded.settled.iter().map(|(_, outcome)| outcome.clone()).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Released).count(), 2, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Rejected(Some(_)))).count(), 1);
    house.router.detach(attachment, &mut house.recorded);
    let attachment = numbered(&mut house, "p");
    for n in [2, 3] {
        house.send_from(attachment, &number(n));
    }
    house.pump();
    house.consumer(QUEUE, 10);
    house.pump();
    assert_eq!(house.texts(), ["1", "2", "3"]);
}

#[test]
fn numbered_messages_behind_a_refused_write_are_released_and_can_be_resent() {
    let mut house = House::new(Settings::default());
    let attachment = numbered(&mut house, "p");
    house.send_from(attachment, &number(1));
    house.pump();
    house.recorded.settled.clear();
    // The log refuses the first of two batches; another message waits behind them.
    let mut answers = Vec::new();
    for n in [2, 3] {
        house.send_from(attachment, &number(n));
        house.router.turn(&mut house.recorded);
        let mut batch = house.router.take_journal().expect("a batch");
        let result = match n {
            2 => Err(Refused::TooLarge { bytes: 1 }),
            _ => house.log.append(&mut batch).and_then(|()| house.log.sync()),
        };
        answers.push(Answer { batch, result });
    }
    house.send_from(attachment, &number(4));
    for answer in answers {
        house.router.journaled(answer, &mut house.recorded);
    }
    house.send_from(attachment, &number(5));
    house.pump();
    let mut outcomes: Vec<Outcome> = house.recorded.settled.iter().map(|(_, outcome)| outcome.clone()).collect();
    assert!(matches!(outcomes.remove(0), Outcome::Rejected(Some(_))));
    assert_eq!(outcomes, [Outcome::Released, Outcome::Released, Outcome::Released]);
    house.router.detach(attachment, &mut house.recorded);
    let attachment = numbered(&mut house, "p");
    for n in [2, 3, 4, 5] {
        house.send_from(attachment, &number(n));
    }
    house.pump();
    let mut house = house.restarted();
    let attachment = numbered(&mut house, "p");
    house.send_from(attachment, &number(5));
    house.pump();
    house.consumer(QUEUE, 10);
    house.pump();
    assert_eq!(house.texts(), ["1", "2", "3", "4", "5"]);
}

fn keyed(key: Value, text: &str) -> Message {
    let application_properties = vec![("other".to_owned(), Value::Uint(1)), (KEY.to_owned(), key)];
    Message { application_properties, body: Body::Data(vec![text.into()]), ..Message::default() }
}

#[test]
fn last_value_queue_keeps_the_last_message_of_each_key() {
    let mut house = House::new(Settings { last_value: true, ..Settings::default() });
    let text = |text: &str| Value::String(text.to_owned());
    house.send_message(&keyed(text("a"), "a1"));
    house.send_message(&keyed(Value::Int(7), "seven"));
    house.send("without");
    house.send_message(&keyed(text("b"), "b1"));
    house.send_message(&keyed(text("a"), "a2"));
    house.pump();
    let mut house = house.restarted();
    house.send_message(&keyed(text("b"), "b2"));
    house.send_message(&keyed(Value::Ulong(7), "eight less one"));
    house.send("without, too");
    house.pump();
    house.consumer(QUEUE, 10);
    house.pump();
    assert_eq!(house.texts(), ["without", "a2", "b2", "eight less one", "without, too"]);
}

/// A part of a message, of which more parts will follow.
fn part(house: &mut House, attachment: AttachmentId, delivery_id: u32, first: bool, payload: &[u8]) {
    let arrival =
        Arrival { delivery_id, settled: false, message_format: 0, first, more: true, aborted: false, payload };
    house.router.deliver(attachment, arrival, &mut house.recorded);
}

#[test]
fn incomplete_messages_of_one_space_leave_others_their_share_of_the_budget() {
    const MIB: usize = 1 << 20;
    let mut house = House::with_budget(64 << 20);
    let attachments: Vec<AttachmentId> =
        (0..3).map(|n| AttachmentId { shard: 0, generation: 0, index: 500 + n }).collect();
    for attachment in &attachments {
        house.router.attach(*attachment, declared(QUEUE), producer(), &mut house.recorded);
    }
    let third = vec![0; 20 * MIB];
    for (id, attachment) in (0..).zip(&attachments) {
        part(&mut house, *attachment, id, true, &third);
    }
    let [(2, Outcome::Rejected(Some(error)))] = &house.recorded.settled[..] else {
        panic!("{:?}", house.recorded.settled)
    };
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
    part(&mut house, OTHER_PRODUCER, 3, true, &third);
    assert_eq!(house.recorded.settled.len(), 1, "the other space has held nothing");
    house.router.detach(attachments[0], &mut house.recorded);
    part(&mut house, attachments[1], 1, false, &third);
    assert_eq!(house.recorded.settled.len(), 1, "the bytes of a link are released when it detaches");
    part(&mut house, attachments[2], 2, false, &third);
    part(&mut house, attachments[2], 4, true, b"void from here on");
    assert_eq!(house.recorded.settled.len(), 2);
}

#[test]
fn one_partial_delivery_may_use_the_budget_and_leaves_other_spaces_a_mebibyte() {
    const MIB: usize = 1 << 20;
    let mut house = House::with_budget(64 << 20);
    part(&mut house, PRODUCER, 0, true, &vec![0; 64 * MIB]);
    part(&mut house, OTHER_PRODUCER, 1, true, &vec![0; MIB]);
    assert!(house.recorded.settled.is_empty());
    part(&mut house, OTHER_PRODUCER, 1, false, b"more");
    let [(1, Outcome::Rejected(Some(_)))] = &house.recorded.settled[..] else { panic!("{:?}", house.recorded.settled) };
}
