//! The life of a message in a queue, and the bounds of a queue.

use std::sync::Arc;

use enmasse_amqp::codec::encode_message;
use enmasse_amqp::types::{Body, Error, Header, Message, Modified, Outcome, Properties, Symbol, Value, condition};
use enmasse_journal::log::simulated::Call;
use enmasse_journal::log::{Config, Log, WriteBatch};
use enmasse_journal::queue::{Full, Limits, Redelivery, Settings, Ttl};
use enmasse_router::core::{Arrival, AttachmentId, OpenQueue, Router};

use super::{DEAD, House, PRODUCER, QUEUE, declared, failed, here, producer, states_on};

#[test]
fn message_is_accepted_only_once_it_is_on_disk() {
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
fn released_message_returns_to_its_position() {
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
fn message_of_a_lost_consumer_is_redelivered_with_a_higher_delivery_count() {
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
fn unaccepted_messages_are_delivered_from_disk_after_a_restart() {
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
fn consumed_messages_do_not_return_after_a_restart() {
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
fn consumer_without_room_gets_its_messages_later_in_order() {
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
    assert!(house.got().is_empty(), "it is in one queue only");
    house.consumer(DEAD, 1);
    house.pump();
    assert_eq!(house.texts(), ["bad"]);
}

#[test]
fn redelivery_delay_continues_after_a_restart() {
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
fn expired_message_reaches_a_dead_letter_that_opens_after_its_queue() {
    let settings = Settings { dead_letter: true, expiry: true, ttl: super::ttl(1000), ..Settings::default() };
    let mut house = House::new(settings.clone());
    house.send("a");
    house.pump();
    let (log, recovered) = Log::open(Arc::new(house.disk.as_seen()), Config::default()).expect("a log");
    let mut house = House { router: Router::new(0, 1), log, ..House::new(settings.clone()) };
    house.router.set_time(house.now_ms + 5000);
    let opened =
        |name: &str, number: usize, settings| OpenQueue::restored(name.into(), settings, &recovered.queues[number]);
    let orders = opened("orders", 0, settings).with_targets(Some(here(DEAD)), None);
    house.router.open_queue(declared(QUEUE), orders, &mut house.recorded);
    house.router.open_queue(declared(DEAD), opened("dead", 1, Settings::default()), &mut house.recorded);
    house.now_ms += 5000;
    house.pump();
    house.consumer(DEAD, 1);
    house.pump();
    assert_eq!(house.texts(), ["a"]);
}

#[test]
fn full_dead_letter_address_exceeds_its_limit_unless_it_drops_the_oldest() {
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
fn attempts_exhausted_within_one_turn_leave_no_state_records() {
    let redelivery = Redelivery { attempts_max: 2, ..Redelivery::default() };
    let mut house = House::new(Settings { dead_letter: true, redelivery, ..Settings::default() });
    house.consumer(QUEUE, 10);
    house.send("m");
    house.pump();
    // Both attempts fail before the log gets a record of them.
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
fn message_is_dead_lettered_after_its_maximum_delivery_attempts() {
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
fn annotations_set_by_a_consumer_are_redelivered() {
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
fn annotations_set_by_consumers_survive_restarts_until_the_message_is_removed() {
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
fn annotations_set_by_consumers_are_bounded() {
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
fn delivered_message_carries_its_remaining_ttl() {
    let mut house =
        House::new(Settings { ttl: Ttl { minimum_ms: None, maximum_ms: Some(4_000) }, ..Settings::default() });
    let header = Some(Header { ttl: Some(60_000), ..Header::default() });
    house.send_message(&Message { header, body: Body::Data(vec![b"m".to_vec()]), ..Message::default() });
    house.pass(1_000);
    house.consumer(QUEUE, 1);
    assert_eq!(house.got()[0].message.header.as_ref().and_then(|header| header.ttl), Some(3_000));
}

#[test]
fn dead_letter_has_no_expiry() {
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
    let properties = message.properties.expect("its other properties");
    assert_eq!((properties.absolute_expiry_time, properties.subject.as_deref()), (None, Some("s")));
}

#[test]
fn full_blocking_queue_revokes_credit_and_grants_it_again() {
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
fn full_rejecting_queue_answers_resource_limit_exceeded() {
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
fn full_disk_refuses_messages_and_still_stores_removals() {
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
    assert!(house.recorded.settled.contains(&(id, Outcome::Accepted)), "removals freed space");
}

#[test]
fn failing_disk_yields_internal_errors_that_state_what_was_stored() {
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
fn states_of_removed_messages_are_dropped_at_the_next_start() {
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
fn undecodable_message_is_rejected_with_decode_error() {
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
fn partial_delivery_is_stored_whole_and_an_aborted_one_not_at_all() {
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
fn consumer_beyond_the_limit_is_refused() {
    let limits = Limits { consumers: 1, ..Limits::default() };
    let mut house = House::new(Settings { limits, ..Settings::default() });
    house.consumer(QUEUE, 1);
    assert_eq!(house.recorded.refused, 0);
    house.consumer(QUEUE, 1);
    assert_eq!(house.recorded.refused, 1);
}

#[test]
fn producer_beyond_the_limit_is_refused() {
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
fn queue_full_by_bytes_grants_credit_again_once_emptied() {
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
fn message_settled_before_its_queue_is_deleted_is_freed_once() {
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
