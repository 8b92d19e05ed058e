//! Bounds, and the behaviour at each: transactions, outcomes, subscriptions, batches, producers
//! without credit, a full disk.

use std::sync::Arc;

use enmasse_amqp::types::{Body, Error, Message, Modified, Outcome, Value, condition};
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::queue::{Limits, Redelivery, Settings};
use enmasse_router::core::{Answer, Arrival, AttachmentId, AttachmentRole, Consuming};

use super::subscriptions::durable;
use super::transactions::{reason, transaction};
use super::{DEAD, DECLARED, Got, House, PRODUCER, PUBLISHER, QUEUE, declared, news, publisher};

const ANONYMOUS: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 90 };

fn of_messages(messages: u64) -> Settings {
    Settings { limits: Limits { messages, ..Limits::default() }, ..Settings::default() }
}

fn refusing(text: &str) -> Outcome {
    Outcome::Rejected(Some(Box::new(Error::new(condition::NOT_ALLOWED, text))))
}

#[test]
fn commit_beyond_the_room_of_a_blocking_queue_rolls_back_and_names_it() {
    let mut house = House::new(of_messages(10));
    let post = |house: &mut House, number: u64, count: usize| {
        let id = house.declare(number);
        for n in 0..count {
            house.post(id, PRODUCER, &n.to_string());
        }
        house.commit(id)
    };
    reason(post(&mut house, 1, 11), "\"orders\" has no room for all of it, and at most 10 messages");
    assert!(house.seen(QUEUE).is_empty());
    assert_eq!(post(&mut house, 2, 10), Ok(()));
    assert_eq!(house.recorded.open, Some(false), "others have no credit");
    reason(post(&mut house, 3, 1), "no room");
    house.consumer(QUEUE, 1);
    house.pump();
    let got = house.got();
    house.answer(&got[0], &Outcome::Accepted);
    assert_eq!(post(&mut house, 4, 1), Ok(()));
}

#[test]
fn single_message_may_exceed_the_byte_limit_of_an_empty_queue() {
    let limits = Limits { bytes: 1000, ..Limits::default() };
    let mut house = House::new(Settings { limits, ..Settings::default() });
    let id = house.declare(1);
    house.post(id, PRODUCER, &"x".repeat(5000));
    assert_eq!(house.commit(id), Ok(()));
    let id = house.declare(2);
    house.post(id, PRODUCER, "x");
    reason(house.commit(id), "1000 bytes");
}

#[test]
fn commit_ignores_slow_live_subscribers_and_fails_at_a_full_durable_one() {
    let disk = Arc::new(SimulatedDisk::new(512, 7));
    let mut house = House::with_topic(disk, Settings::default(), of_messages(3));
    let live = house.subscriber(None, 0);
    house.router.delete_address(DECLARED, &Error::new(condition::RESOURCE_DELETED, "deleted"), &mut house.recorded);
    let post = |house: &mut House, number: u64| {
        let id = house.declare(number);
        for n in 0..5 {
            house.post(id, PUBLISHER, &n.to_string());
        }
        house.commit(id)
    };
    assert_eq!(post(&mut house, 1), Ok(()));
    house.router.credit(live, 10, false, &mut house.recorded);
    assert_eq!(house.texts_of(live).len(), 5);
    house.subscription(durable("sub"));
    reason(post(&mut house, 2), "\"news::client/sub\" has no room");
    assert!(house.texts_of(live).is_empty(), "no consumer has any of it");
}

#[test]
fn shared_outcome_of_many_deliveries_is_counted_once() {
    let text = "x".repeat(120_000);
    for shared in [true, false] {
        let redelivery = Redelivery { attempts_max: 1, ..Redelivery::default() };
        let mut house = House::new(Settings { dead_letter: true, redelivery, ..Settings::default() });
        for n in 0..600 {
            house.send(&n.to_string());
        }
        house.consumer(QUEUE, 600);
        house.pump();
        let got = house.got();
        let id = house.declare(1);
        let once = Arc::new(refusing(&text));
        for Got { token, .. } in &got {
            let outcome = if shared { Arc::clone(&once) } else { Arc::new(refusing(&text)) };
            house.router.retire_delivery(id, *token, &outcome, false, &mut house.recorded);
        }
        let result = house.commit(id);
        if shared {
            assert_eq!(result, Ok(()));
            assert_eq!(house.seen(DEAD).len(), 600);
        } else {
            reason(result, "bytes of messages and outcomes");
        }
    }
}

#[test]
fn dead_letter_description_is_truncated_to_1024_bytes() {
    let mut house = House::new(Settings { dead_letter: true, ..Settings::default() });
    house.send("a");
    house.consumer(QUEUE, 1);
    house.pump();
    let got = house.got();
    house.answer(&got[0], &refusing(&"\u{e9}x".repeat(100_000)));
    house.consumer(DEAD, 1);
    house.pump();
    let dead = house.got();
    let Some(Value::String(text)) = dead[0].annotation("x-opt-dead-letter-description") else { panic!("{dead:?}") };
    assert!((1021..=1024).contains(&text.len()), "{}", text.len());
    assert!(text.starts_with("\u{e9}x\u{e9}x"));
}

#[test]
fn topic_refuses_durable_subscriptions_beyond_10000() {
    let mut house = House::new(Settings::default());
    let attach = |house: &mut House, name: &str| {
        let attachment = AttachmentId { shard: 0, generation: 0, index: 100 };
        let consuming = Consuming { subscribing: Some(Box::new(durable(name))), ..Consuming::default() };
        house.router.attach(
            attachment,
            news(),
            AttachmentRole::Consumer { filter: None, consuming },
            &mut house.recorded,
        );
        house.router.detach(attachment, &mut house.recorded);
    };
    for n in 0..10_000 {
        attach(&mut house, &format!("sub{n}"));
    }
    assert_eq!(house.recorded.refused, 0);
    attach(&mut house, "one more");
    assert_eq!(house.recorded.refused, 1);
    attach(&mut house, "sub7");
    assert_eq!(house.recorded.refused, 1, "an existing subscription");
    house.pump();
    house.publish("for all");
    house.pump();
    assert_eq!(house.recorded.settled.pop().map(|(_, outcome)| outcome), Some(Outcome::Accepted));
}

#[test]
fn records_of_a_large_turn_are_written_in_several_batches() {
    let mut house = House::new(Settings::default());
    let text = "x".repeat(1 << 20);
    let sent: Vec<u32> = (0..100).map(|_| house.send(&text)).collect();
    let id = house.declare(1);
    for _ in 0..50 {
        house.post(id, PRODUCER, &text);
    }
    house.router.discharge(id, false, 1, &mut house.recorded);
    house.router.turn(&mut house.recorded);
    let mut sizes = Vec::new();
    while let Some(mut batch) = house.router.take_journal() {
        sizes.push(batch.bytes() >> 20);
        let result = house.log.append(&mut batch).and_then(|()| house.log.sync());
        house.router.journaled(Answer { batch, result }, &mut house.recorded);
    }
    let parts = [vec![3; 33], vec![1, 50]].concat();
    assert_eq!(sizes, parts, "each is one group commit, and a transaction stays whole");
    assert_eq!(house.recorded.settled, sent.iter().map(|id| (*id, Outcome::Accepted)).collect::<Vec<_>>());
    assert_eq!(house.result(transaction(1)), Ok(()));
    assert_eq!(house.restarted().log.stats().alive_messages, 150);
}

#[test]
fn anonymous_producer_is_held_by_a_full_queue_or_subscription() {
    let disk = Arc::new(SimulatedDisk::new(512, 7));
    let mut house = House::with_topic(disk, of_messages(4), of_messages(4));
    house.subscription(durable("sub"));
    for (address, role, consumers) in
        [(declared(QUEUE), anonymous(None), [None, None]), (news(), anonymous(Some("news")), [Some(DECLARED), None])]
    {
        house.router.attach(ANONYMOUS, address, role, &mut house.recorded);
        for n in 0..4 {
            assert_ne!(house.recorded.held, Some(true));
            house.send_from(ANONYMOUS, &Message { body: Body::Data(vec![vec![n]]), ..Message::default() });
        }
        assert_eq!(house.recorded.held, Some(true));
        house.pump();
        let mut attachments = vec![match address.key {
            QUEUE => house.consumer(QUEUE, 4),
            _ => house.subscriber(Some(durable("sub")), 4),
        }];
        attachments.extend(consumers.into_iter().flatten().map(|key| house.consumer(key, 4)));
        house.pump();
        for got in house.got() {
            house.answer(&got, &Outcome::Accepted);
        }
        assert_eq!(house.recorded.held, Some(false));
        attachments.into_iter().for_each(|attachment| house.router.detach(attachment, &mut house.recorded));
    }
}

fn anonymous(name: Option<&str>) -> AttachmentRole {
    let AttachmentRole::Producer { name, .. } = publisher(name.unwrap_or_default()) else { panic!("a producer") };
    AttachmentRole::Producer { anonymous: true, name, producer_name: None, resume: None }
}

fn annotated(n: u32) -> Outcome {
    let text = Value::String("x".repeat(8000));
    let message_annotations = vec![("n".into(), Value::Uint(n)), ("text".into(), text)];
    Outcome::Modified(Box::new(Modified { message_annotations, ..Modified::default() }))
}

#[test]
fn full_disk_fails_commits_and_stores_other_records_later_in_order() {
    let mut house = House::new(Settings::default());
    for n in 0..2000 {
        house.send(&n.to_string());
    }
    let consumer = house.consumer(QUEUE, 2000);
    house.pump();
    let used = house.disk.used_bytes();
    house.disk.set_capacity_bytes(used);
    let mut held = house.got();
    let mut first = held.remove(0);
    let mut reported = 0;
    let mut say = |house: &mut House| {
        reported += 1;
        house.router.credit(consumer, 2000 + reported, false, &mut house.recorded);
        house.answer(&first, &annotated(reported));
        first = house.got().pop().expect("it is redelivered");
        reported
    };
    while !house.refused {
        assert!(say(&mut house) < 100, "the disk takes everything");
    }
    let last = say(&mut house);
    let mut number = 0;
    let refused = loop {
        let id = house.declare(number);
        house.retire(id, &held[number as usize], &Outcome::Accepted, false);
        match house.commit(id) {
            Ok(()) => number += 1,
            refused => break refused,
        }
    };
    reason(refused, "cannot be stored");
    house.disk.set_capacity_bytes(u64::MAX);
    house.pump();
    house.pass(1000);
    let mut house = house.restarted();
    house.consumer(QUEUE, 2000);
    house.pump();
    let got = house.got();
    let left = (1 + number..2000).map(|n| n.to_string());
    assert_eq!(
        got.iter().map(Got::text).collect::<Vec<_>>(),
        ["0".to_owned()].into_iter().chain(left).collect::<Vec<_>>()
    );
    assert_eq!(got[0].annotation("n"), Some(&Value::Uint(last)), "the newest outcome");
}

#[test]
fn partial_delivery_to_a_direct_address_is_refused_once_it_is_transactional() {
    use enmasse_router::core::{AddressKey, AddressKind, Declared};
    for kind in [AddressKind::Anycast, AddressKind::Multicast] {
        let mut house = House::new(Settings::default());
        let direct = Declared { key: AddressKey(9), kind, link_capacity: 10, space: 1 };
        house.router.attach(ANONYMOUS, direct, anonymous(None), &mut house.recorded);
        let id = house.declare(1);
        let consumer = AttachmentId { shard: 0, generation: 0, index: 91 };
        let role = AttachmentRole::Consumer { filter: None, consuming: Consuming::default() };
        house.router.attach(consumer, direct, role, &mut house.recorded);
        let part = Arrival {
            delivery_id: 0,
            settled: false,
            message_format: 0,
            first: true,
            more: true,
            aborted: false,
            payload: b"\0\x53\x75",
        };
        house.router.deliver(ANONYMOUS, part, &mut house.recorded);
        let more = Arrival { first: false, payload: b"\xa0\x02", ..part };
        house.router.post_delivery(ANONYMOUS, id, more, &mut house.recorded);
        let rest = Arrival { first: false, more: false, payload: b"xy", ..part };
        house.router.post_delivery(ANONYMOUS, id, rest, &mut house.recorded);
        let recorded = std::mem::take(&mut house.recorded.refused_postings);
        let [(0, Outcome::Rejected(Some(error)))] = &recorded[..] else { panic!("{recorded:?}") };
        assert_eq!(error.condition, condition::NOT_IMPLEMENTED);
        house.router.credit(consumer, 10, false, &mut house.recorded);
        house.send_from(ANONYMOUS, &Message { body: Body::Data(vec![b"whole".to_vec()]), ..Message::default() });
        assert_eq!(house.texts(), ["whole"]);
    }
}

/// A transaction that consumes a message of a full queue and posts one to it, without its own
/// window.
#[test]
fn transaction_at_a_full_queue_may_replace_the_message_that_it_consumes() {
    let mut house = House::with_topic(Arc::new(SimulatedDisk::new(512, 7)), of_messages(2), Settings::default());
    house.send("a");
    house.send("b");
    house.consumer(QUEUE, 1);
    house.pump();
    let got = house.got();
    house.router.attach(ANONYMOUS, declared(QUEUE), anonymous(None), &mut house.recorded);
    assert_eq!(house.recorded.held, Some(true), "the queue is full");
    let id = house.declare(1);
    house.post(id, ANONYMOUS, "c");
    assert_eq!(house.recorded.held, Some(false), "a hold would block the discharge");
    house.retire(id, &got[0], &Outcome::Accepted, true);
    assert_eq!(house.commit(id), Ok(()), "one message replaces another");
    assert_eq!(house.recorded.held, Some(false));
    let id = house.declare(2);
    house.post(id, ANONYMOUS, "d");
    reason(house.commit(id), "has no room");
    house.send_from(ANONYMOUS, &Message { body: Body::Data(vec![b"e".to_vec()]), ..Message::default() });
    assert_eq!(house.recorded.held, Some(true), "outside of a transaction it is held");
    assert_eq!(house.restarted().log.stats().alive_messages, 2);
}
