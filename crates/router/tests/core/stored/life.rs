//! The life of a message in a queue, and the bounds of a queue.

use std::sync::Arc;

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::types::{Body, Error, Header, Message, Modified, Outcome, Properties, Symbol, Value, condition};
use enmasse_journal::log::simulated::Call;
use enmasse_journal::log::{Config, Log, WriteBatch};
use enmasse_journal::queue::{Full, Limits, Redelivery, Settings, Ttl};
use enmasse_router::core::{Arrival, AttachmentId, OpenQueue, Router};

use super::{DEAD, House, PRODUCER, QUEUE, declared, failed, producer, states_on};

#[test]
fn a_message_is_accepted_when_it_is_on_disk_and_not_before() {
    let mut house = House::new(Settings::default());
    house.consumer(QUEUE, 10);
    let id = house.send("a");
    assert!(house.recorded.settled.is_empty() && house.recorded.got.is_empty());
    house.pump();
    assert_eq!(house.recorded.settled, [(id, Outcome::Accepted)]);
    assert_eq!(house.texts(), ["a"]);
}

#[test]
fn producers_have_credit_without_a_consumer() {
    let mut house = House::new(Settings::default());
    house.router.attach(PRODUCER, declared(QUEUE), producer(), &mut house.recorded);
    assert_eq!(house.recorded.open, Some(true));
}

#[test]
fn messages_wait_for_consumers_and_leave_in_order() {
    let mut house = House::new(Settings::default());
    for n in 0..20 {
        house.send(&n.to_string());
    }
    house.pump();
    let consumer = house.consumer(QUEUE, 5);
    assert_eq!(house.texts(), ["0", "1", "2", "3", "4"]);
    house.router.credit(consumer, 7, false, &mut house.recorded);
    assert_eq!(house.texts(), ["5", "6"]);
}

#[test]
fn a_released_message_returns_to_its_place() {
    let mut house = House::new(Settings::default());
    for text in ["a", "b", "c", "d"] {
        house.send(text);
    }
    house.pump();
    house.consumer(QUEUE, 2);
    let got = house.got();
    house.answer(&got[1], &Outcome::Released);
    house.answer(&got[0], &Outcome::Released);
    house.consumer(QUEUE, 4);
    assert_eq!(house.texts(), ["a", "b", "c", "d"]);
    assert!(got.iter().all(|got| got.message.header.is_none()));
}

#[test]
fn what_a_lost_consumer_held_goes_to_the_next_and_counts_as_failed() {
    let mut house = House::new(Settings::default());
    house.send("a");
    house.pump();
    let first = house.consumer(QUEUE, 1);
    let held = house.got();
    house.answer(&held[0], &failed());
    house.router.detach(first, &mut house.recorded);
    house.consumer(QUEUE, 1);
    let again = house.got();
    assert_eq!(again[0].message.header.as_ref().map(|header| header.delivery_count), Some(1));
}

#[test]
fn after_a_restart_what_was_not_accepted_is_there_and_read_from_the_disk() {
    let mut house = House::new(Settings::default());
    for n in 0..200 {
        house.send(&format!("{n:>500}"));
    }
    house.pump();
    house.consumer(QUEUE, 3);
    let got = house.got();
    house.answer(&got[0], &Outcome::Accepted);
    house.answer(&got[2], &failed());
    let mut house = house.restarted();
    house.consumer(QUEUE, 500);
    house.pump();
    let got = house.got();
    let numbers: Vec<usize> = got.iter().map(|got| got.text().trim().parse().expect("a number")).collect();
    assert_eq!(numbers, (1..200).collect::<Vec<_>>());
    assert_eq!(got[1].message.header.as_ref().map(|header| header.delivery_count), Some(1));
}

#[test]
fn what_was_accepted_by_consumers_does_not_return() {
    let mut house = House::new(Settings::default());
    house.consumer(QUEUE, 100);
    for round in 0..10 {
        house.send(&round.to_string());
        house.pump();
        for got in house.got() {
            house.answer(&got, &Outcome::Accepted);
        }
    }
    let mut house = house.restarted();
    house.consumer(QUEUE, 100);
    house.pump();
    assert!(house.got().is_empty());
}

#[test]
fn a_consumer_that_finds_no_room_gets_the_message_later_and_in_order() {
    let mut house = House::new(Settings::default());
    house.recorded.full = true;
    let consumer = house.consumer(QUEUE, 10);
    house.send("a");
    house.send("b");
    house.pump();
    house.recorded.full = false;
    house.router.credit(consumer, 10, false, &mut house.recorded);
    assert_eq!(house.texts(), ["a", "b"]);
}

#[test]
fn a_rejected_message_goes_to_the_dead_letter_with_its_cause() {
    let settings = Settings { dead_letter: true, ..Settings::default() };
    let mut house = House::new(settings);
    house.consumer(QUEUE, 1);
    house.send("bad");
    house.pump();
    let got = house.got();
    let error = Error::new(condition::DECODE_ERROR, "no json");
    house.answer(&got[0], &Outcome::Rejected(Some(Box::new(error))));
    house.consumer(DEAD, 1);
    let dead = house.got();
    assert_eq!(dead[0].text(), "bad");
    assert_eq!(dead[0].annotation("x-opt-dead-letter-cause"), Some(&Value::String("rejected".into())));
    assert_eq!(dead[0].annotation("x-opt-dead-letter-description"), Some(&Value::String("no json".into())));
    assert_eq!(dead[0].annotation("x-opt-dead-letter-origin"), Some(&Value::String("orders".into())));
    let mut house = house.restarted();
    house.consumer(QUEUE, 1);
    house.pump();
    assert!(house.got().is_empty(), "it is in one place only");
    house.consumer(DEAD, 1);
    house.pump();
    assert_eq!(house.texts(), ["bad"]);
}

#[test]
fn the_wait_for_the_next_attempt_continues_after_a_restart() {
    let redelivery = Redelivery { delay_ms: 10_000, ..Redelivery::default() };
    let mut house = House::new(Settings { redelivery, ..Settings::default() });
    for text in ["a", "b"] {
        house.send(text);
    }
    house.consumer(QUEUE, 1);
    house.pump();
    let got = house.got();
    house.answer(&got[0], &failed());
    let mut house = house.restarted().restarted();
    house.consumer(QUEUE, 10);
    house.pump();
    assert_eq!(house.texts(), ["b"]);
    house.pass(9_999);
    assert!(house.texts().is_empty());
    house.pass(1);
    let got = house.got();
    assert_eq!((got.len(), got[0].text()), (1, "a".to_owned()));
    assert_eq!(got[0].message.header.as_ref().map(|header| header.delivery_count), Some(1));
    house.answer(&got[0], &Outcome::Accepted);
    let mut house = house.restarted();
    house.consumer(QUEUE, 10);
    house.pump();
    assert_eq!(house.texts(), ["b"]);
}

#[test]
fn what_has_expired_in_the_meantime_goes_to_a_dead_letter_that_is_there_after_its_queue() {
    let settings = Settings { dead_letter: true, expiry: true, ttl: super::ttl(1000), ..Settings::default() };
    let mut house = House::new(settings.clone());
    house.send("a");
    house.pump();
    let (log, recovered) = Log::open(Arc::new(house.disk.as_seen()), Config::default()).expect("a log");
    let mut house = House { router: Router::new(0, 1), log, ..House::new(settings.clone()) };
    house.router.set_time(house.now_ms + 5000);
    let opened =
        |name: &str, number: usize, settings| OpenQueue::restored(name.into(), settings, &recovered.queues[number]);
    let orders = opened("orders", 0, settings).with_targets(Some(DEAD), None);
    house.router.open_queue(declared(QUEUE), orders, &mut house.recorded);
    house.router.open_queue(declared(DEAD), opened("dead", 1, Settings::default()), &mut house.recorded);
    house.now_ms += 5000;
    house.pump();
    house.consumer(DEAD, 1);
    house.pump();
    assert_eq!(house.texts(), ["a"]);
}

#[test]
fn a_dead_letter_that_is_full_loses_none_in_silence() {
    for (full, kept) in [(Full::Reject, 3), (Full::Block, 3), (Full::DropOldest, 1)] {
        let mut house = House::new(Settings { dead_letter: true, ..Settings::default() });
        let limits = Limits { messages: 1, ..Limits::default() };
        house.router.reconfigure_queue(
            DEAD,
            Settings { limits, full, ..Settings::default() },
            None,
            None,
            None,
            &mut house.recorded,
        );
        house.consumer(QUEUE, 3);
        for text in ["a", "b", "c"] {
            house.send(text);
        }
        house.pump();
        for got in house.got() {
            house.answer(&got, &Outcome::Rejected(None));
        }
        house.consumer(DEAD, 10);
        assert_eq!(house.texts(), ["a", "b", "c"][3 - kept..], "{full:?}");
    }
}

#[test]
fn what_fails_for_good_at_once_leaves_nothing_in_the_log() {
    let redelivery = Redelivery { attempts_max: 2, ..Redelivery::default() };
    let mut house = House::new(Settings { dead_letter: true, redelivery, ..Settings::default() });
    house.consumer(QUEUE, 10);
    house.send("m");
    house.pump();
    // Twice, before the log learns of it.
    for _ in 0..2 {
        let got = house.got();
        house.router.outcome(got[0].token, &failed(), &mut house.recorded);
        house.router.process_dirty(&mut house.recorded);
    }
    house.pump();
    assert_eq!(states_on(&house.disk, 0x80), 0);
    house.consumer(DEAD, 1);
    assert_eq!(house.texts(), ["m"]);
}

#[test]
fn attempts_end_in_the_dead_letter() {
    let redelivery = Redelivery { attempts_max: 3, ..Redelivery::default() };
    let mut house = House::new(Settings { dead_letter: true, redelivery, ..Settings::default() });
    house.consumer(QUEUE, 10);
    house.send("m");
    house.pump();
    for attempt in 0..3 {
        let got = house.got();
        assert_eq!(got[0].message.header.as_ref().map_or(0, |header| header.delivery_count), attempt);
        house.answer(&got[0], &failed());
    }
    house.consumer(DEAD, 1);
    assert_eq!(
        house.got()[0].annotation("x-opt-dead-letter-cause"),
        Some(&Value::String("maximum-delivery-attempts".into()))
    );
}

#[test]
fn annotations_that_a_consumer_changes_are_there_the_next_time() {
    let mut house = House::new(Settings::default());
    house.consumer(QUEUE, 5);
    house.send("m");
    house.pump();
    let got = house.got();
    let message_annotations = vec![(Symbol::from("seen"), Value::Uint(1))];
    house.answer(&got[0], &Outcome::Modified(Box::new(Modified { message_annotations, ..Modified::default() })));
    assert_eq!(house.got()[0].annotation("seen"), Some(&Value::Uint(1)));
}

#[test]
fn annotations_that_consumers_change_are_there_after_a_restart_until_the_message_goes() {
    let mut house = House::new(Settings::default());
    house.send("m");
    house.send("n");
    house.pump();
    for (name, value) in [("seen", 1), ("by", 2), ("seen", 3)] {
        let consumer = house.consumer(QUEUE, 1);
        house.pump();
        let got = house.got();
        let message_annotations = vec![(Symbol::from(name), Value::Uint(value))];
        house.answer(&got[0], &Outcome::Modified(Box::new(Modified { message_annotations, ..Modified::default() })));
        house.router.detach(consumer, &mut house.recorded);
        house = house.restarted();
    }
    house.consumer(QUEUE, 1);
    house.pump();
    let got = house.got();
    assert_eq!(got[0].text(), "m");
    assert_eq!(got[0].annotation("seen"), Some(&Value::Uint(3)));
    assert_eq!(got[0].annotation("by"), Some(&Value::Uint(2)));
    house.answer(&got[0], &Outcome::Accepted);
    let (_, recovered) = Log::open(Arc::new(house.disk.as_seen()), Config::default()).expect("a log");
    assert!(recovered.queues.iter().all(|queue| queue.states.iter().all(|(_, value)| value.is_empty())));
    house.consumer(QUEUE, 1);
    house.pump();
    assert!(house.got()[0].annotation("seen").is_none());
}

#[test]
fn consumers_cannot_make_a_message_grow_without_end() {
    let mut house = House::new(Settings::default());
    house.send("m");
    house.consumer(QUEUE, 1000);
    house.pump();
    for n in 0..40 {
        let got = house.got();
        assert!(got[0].message.message_annotations.len() <= 16);
        let message_annotations = vec![(Symbol::from(format!("a{n}")), Value::String("x".repeat(1000)))];
        house.answer(&got[0], &Outcome::Modified(Box::new(Modified { message_annotations, ..Modified::default() })));
    }
}

#[test]
fn a_message_expires_without_a_consumer() {
    let mut house = House::new(Settings::default());
    let header = Some(Header { ttl: Some(5_000), ..Header::default() });
    house.send_message(&Message { header, body: Body::Data(vec![b"old".to_vec()]), ..Message::default() });
    house.send("new");
    house.pump();
    assert!(house.router.next_timeout().is_some_and(|at| at <= house.now_ms + 6_000));
    house.pass(6_000);
    house.consumer(QUEUE, 5);
    assert_eq!(house.texts(), ["new"]);
}

#[test]
fn what_is_left_of_its_life_is_told_with_the_message() {
    let mut house =
        House::new(Settings { ttl: Ttl { minimum_ms: None, maximum_ms: Some(4_000) }, ..Settings::default() });
    let header = Some(Header { ttl: Some(60_000), ..Header::default() });
    house.send_message(&Message { header, body: Body::Data(vec![b"m".to_vec()]), ..Message::default() });
    house.pass(1_000);
    house.consumer(QUEUE, 1);
    assert_eq!(house.got()[0].message.header.as_ref().and_then(|header| header.ttl), Some(3_000));
}

#[test]
fn a_dead_letter_has_no_end_of_its_life() {
    let mut house = House::new(Settings { dead_letter: true, expiry: true, ..Settings::default() });
    let header = Some(Header { ttl: Some(5_000), ..Header::default() });
    let absolute_expiry_time = Some(house.now_ms.cast_signed() + 5_000);
    let properties = Some(Properties { absolute_expiry_time, subject: Some("s".into()), ..Properties::default() });
    house.send_message(&Message { header, properties, body: Body::Data(vec![b"m".to_vec()]), ..Message::default() });
    house.pass(6_000);
    house.consumer(DEAD, 1);
    house.pump();
    let message = house.got().remove(0).message;
    assert_eq!(message.header.and_then(|header| header.ttl), None);
    let properties = message.properties.expect("what else it had");
    assert_eq!((properties.absolute_expiry_time, properties.subject.as_deref()), (None, Some("s")));
}

#[test]
fn a_full_queue_that_blocks_takes_credit_away_and_gives_it_again() {
    let limits = Limits { messages: 4, ..Limits::default() };
    let mut house = House::new(Settings { limits, full: Full::Block, ..Settings::default() });
    for _ in 0..4 {
        house.send("m");
    }
    house.pump();
    assert_eq!(house.recorded.open, Some(false));
    house.consumer(QUEUE, 4);
    for got in house.got() {
        house.answer(&got, &Outcome::Accepted);
    }
    assert_eq!(house.recorded.open, Some(true));
}

#[test]
fn a_full_queue_that_rejects_says_so() {
    let limits = Limits { messages: 1, ..Limits::default() };
    let mut house = House::new(Settings { limits, full: Full::Reject, ..Settings::default() });
    house.send("a");
    house.send("b");
    house.pump();
    let [(0, Outcome::Accepted) | (1, _), ..] = &house.recorded.settled[..] else {
        panic!("{:?}", house.recorded.settled)
    };
    let refused = house.recorded.settled.iter().find(|(id, _)| *id == 1).expect("an answer");
    let Outcome::Rejected(Some(error)) = &refused.1 else { panic!("{refused:?}") };
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
}

#[test]
fn a_full_disk_refuses_and_removals_continue() {
    let mut house = House::new(Settings::default());
    house.consumer(QUEUE, 1000);
    house.disk.set_capacity_bytes(house.disk.used_bytes() + (256 << 10));
    let text = "x".repeat(30_000);
    let mut refused = None;
    for _ in 0..40 {
        let id = house.send(&text);
        house.pump();
        if let Some((_, Outcome::Rejected(Some(error)))) = house.recorded.settled.iter().find(|settled| settled.0 == id)
        {
            refused = Some(error.condition.clone());
            break;
        }
    }
    assert_eq!(refused, Some(condition::RESOURCE_LIMIT_EXCEEDED));
    for got in house.got() {
        house.answer(&got, &Outcome::Accepted);
    }
    for _ in 0..8 {
        house.log.turn().expect("the disk works");
        house.pump();
    }
    let id = house.send("after");
    house.pump();
    assert!(house.recorded.settled.contains(&(id, Outcome::Accepted)), "space has come back");
}

#[test]
fn a_failing_disk_is_an_internal_error_that_says_what_is_known() {
    let mut house = House::new(Settings::default());
    house.disk.fail(Call::Sync, 0);
    let mut recorded = Vec::new();
    for text in ["unsure", "refused"] {
        house.send(text);
        house.pump();
        let Some((_, Outcome::Rejected(Some(error)))) = house.recorded.settled.pop() else { panic!("no answer") };
        assert_eq!(error.condition, condition::INTERNAL_ERROR);
        recorded.push(error.description.unwrap_or_default());
    }
    assert!(recorded[0].starts_with("the message may or may not be stored"), "{recorded:?}");
    assert!(recorded[1].starts_with("the message cannot be stored"), "{recorded:?}");
}

#[test]
fn what_the_log_keeps_of_messages_that_are_gone_goes_at_the_next_start() {
    let mut house = House::new(Settings::default());
    let mut batch = WriteBatch::new();
    for kind in [0x80, 0x81] {
        batch.state(1, &[kind, 7, 0, 0, 0, 0, 0, 0, 0], &[2, 0]);
    }
    house.log.append(&mut batch).expect("room");
    let states = |house: &House| {
        let config = Config { segment_bytes: 64 << 10, secret: 1, ..Config::default() };
        let (_, recovered) = Log::open(Arc::new(house.disk.as_seen()), config).expect("a log");
        recovered.queues.iter().map(|queue| queue.states.len()).sum::<usize>()
    };
    let before = states(&house);
    let mut house = house.restarted();
    house.pump();
    assert_eq!((before, states(&house)), (2, 0));
}

#[test]
fn bytes_that_are_no_message_are_rejected() {
    let mut house = House::new(Settings::default());
    let arrival = Arrival {
        delivery_id: 9,
        settled: false,
        message_format: 0,
        first: true,
        more: false,
        aborted: false,
        payload: b"hello",
    };
    house.router.deliver(PRODUCER, arrival, &mut house.recorded);
    let [(9, Outcome::Rejected(Some(error)))] = &house.recorded.settled[..] else {
        panic!("{:?}", house.recorded.settled)
    };
    assert_eq!(error.condition, condition::DECODE_ERROR);
}

#[test]
fn a_message_in_parts_is_stored_whole_and_a_void_one_not_at_all() {
    let mut house = House::new(Settings::default());
    house.consumer(QUEUE, 5);
    let mut payload = Vec::new();
    encode_message(&mut payload, &Message { body: Body::Data(vec![vec![b'p'; 1000]]), ..Message::default() });
    let mut part = |from: usize, to: usize, more: bool, aborted: bool| {
        let payload = &payload[from..to];
        let first = from == 0;
        let arrival = Arrival { delivery_id: 3, settled: false, message_format: 0, first, more, aborted, payload };
        house.router.deliver(PRODUCER, arrival, &mut house.recorded);
    };
    part(0, 400, true, false);
    part(400, 500, false, true);
    part(0, 400, true, false);
    part(400, 700, true, false);
    part(700, payload.len(), false, false);
    house.pump();
    assert_eq!(house.texts(), ["p".repeat(1000)]);
    assert_eq!(house.recorded.settled, [(3, Outcome::Accepted)]);
}

#[test]
fn a_deleted_address_loses_its_messages_for_good() {
    let mut house = House::new(Settings::default());
    house.send("m");
    house.pump();
    house.router.delete_address(QUEUE, &Error::new(condition::RESOURCE_DELETED, "deleted"), &mut house.recorded);
    house.pump();
    assert_eq!(house.recorded.closed, 1);
    let (_, recovered) = Log::open(Arc::new(house.disk.as_seen()), Config::default()).expect("a log");
    assert!(recovered.queues.iter().all(|queue| queue.queue != 1));
}

#[test]
fn one_consumer_more_than_the_limit_is_turned_away() {
    let limits = Limits { consumers: 1, ..Limits::default() };
    let mut house = House::new(Settings { limits, ..Settings::default() });
    house.consumer(QUEUE, 1);
    assert_eq!(house.recorded.refused, 0);
    house.consumer(QUEUE, 1);
    assert_eq!(house.recorded.refused, 1);
}

#[test]
fn one_producer_more_than_the_limit_is_turned_away() {
    let limits = Limits { producers: 1, ..Limits::default() };
    let mut house = House::new(Settings { limits, ..Settings::default() });
    let attachment = AttachmentId { shard: 0, generation: 0, index: 77 };
    house.router.attach(attachment, declared(QUEUE), producer(), &mut house.recorded);
    assert_eq!(house.recorded.refused, 1);
    house.router.detach(PRODUCER, &mut house.recorded);
    house.router.attach(attachment, declared(QUEUE), producer(), &mut house.recorded);
    assert_eq!(house.recorded.refused, 1);
}

#[test]
fn a_queue_bounded_by_bytes_opens_again_when_it_has_been_emptied() {
    let limits = Limits { bytes: 2_000, ..Limits::default() };
    let mut house = House::new(Settings { limits, full: Full::Block, ..Settings::default() });
    for _ in 0..4 {
        house.send(&"m".repeat(600));
    }
    house.pump();
    assert_eq!(house.recorded.open, Some(false));
    house.consumer(QUEUE, 4);
    for got in house.got() {
        house.answer(&got, &Outcome::Accepted);
    }
    assert_eq!(house.recorded.open, Some(true));
}

#[test]
fn what_leaves_or_was_accepted_when_its_queue_is_deleted_is_freed_once() {
    for (outcome, left) in [(Outcome::Rejected(None), 1), (Outcome::Accepted, 0)] {
        let mut house = House::new(Settings { dead_letter: true, ..Settings::default() });
        house.send("m");
        house.send("n");
        house.pump();
        house.consumer(QUEUE, 1);
        let got = house.got();
        house.answer(&got[0], &outcome);
        house.router.delete_address(QUEUE, &Error::new(condition::RESOURCE_DELETED, "deleted"), &mut house.recorded);
        house.pump();
        assert_eq!(house.log.stats().alive_messages, left, "{outcome:?}");
    }
}
