//! Messages of a topic: their subscriptions, their records on disk, and the back-pressure on
//! producers.

use enmasse_amqp::types::{Header, condition};
use enmasse_journal::queue::{Full, Limits};
use enmasse_router::core::{BACKLOG_MESSAGES, Failed, Operation, STALL_MS, Work};

use super::subscriptions::durable;
use super::*;

fn full(full: Full, messages: u64) -> House {
    let settings = Settings { limits: Limits { messages, ..Limits::default() }, full, ..Settings::default() };
    House::with_topic(Arc::new(SimulatedDisk::new(512, 7)), Settings::default(), settings)
}

/// A topic without its declared subscription.
fn undeclared() -> House {
    let mut house = House::new(Settings::default());
    house.router.move_subscription(DECLARED, None, &mut house.recorded);
    house
}

#[test]
fn message_reaches_every_subscription_and_is_accepted_once_on_disk() {
    let mut house = House::new(Settings::default());
    let attachments =
        [house.subscriber(None, 10), house.subscriber(Some(durable("sub")), 10), house.consumer(DECLARED, 10)];
    let id = house.publish("a");
    house.router.turn(&mut house.recorded);
    assert_eq!(house.texts_of(attachments[0]), ["a"], "a volatile subscription does not wait for the disk");
    assert!(house.recorded.settled.is_empty() && house.recorded.got.is_empty());
    house.pump();
    assert_eq!(house.recorded.settled, [(id, Outcome::Accepted)]);
    assert_eq!([house.texts_of(attachments[1]), house.texts_of(attachments[2])], [["a"], ["a"]]);
}

#[test]
fn message_is_written_once_for_all_subscriptions() {
    let mut house = House::new(Settings::default());
    for name in ["a", "b", "c"] {
        house.subscription(durable(name));
    }
    house.publish(&"x".repeat(10_000));
    let batch = house.router.take_journal().expect("something to write");
    assert_eq!((batch.messages(), batch.bytes() / 10_000), (1, 1));
}

#[test]
fn message_of_volatile_subscriptions_only_is_not_written() {
    let mut house = undeclared();
    let attachment = house.subscriber(None, 10);
    let id = house.publish("a");
    assert_eq!(house.recorded.settled, [(id, Outcome::Accepted)]);
    house.router.turn(&mut house.recorded);
    assert_eq!(house.texts_of(attachment), ["a"]);
    assert!(house.router.take_journal().is_none());
}

#[test]
fn message_without_a_subscription_is_accepted_and_counted_as_dropped() {
    let mut house = undeclared();
    let id = house.publish("a");
    assert_eq!((&house.recorded.settled[..], house.dropped()), (&[(id, Outcome::Accepted)][..], 1));
}

#[test]
fn topic_names_and_selectors_filter_messages_on_arrival() {
    let mut house = undeclared();
    let below = AttachmentId { shard: 0, generation: 0, index: 70 };
    house.router.attach(below, news(), publisher("news/sports"), &mut house.recorded);
    let all = house.subscriber(Some(durable("all")), 10);
    let sports = house.subscriber(Some(durable("sports@news/sports")), 10);
    let urgent = house.subscriber(Some(durable("urgent?JMSPriority > 4")), 10);
    for (attachment, priority, text) in [(PUBLISHER, 4, "a"), (PUBLISHER, 9, "b"), (below, 0, "c"), (below, 5, "d")] {
        let header = Some(Header { priority, ..Header::default() });
        let message = Message { header, body: Body::Data(vec![text.into()]), ..Message::default() };
        house.send_from(attachment, &message);
        house.pump();
    }
    assert_eq!(house.texts_of(all), ["a", "b", "c", "d"]);
    assert_eq!(house.texts_of(sports), ["c", "d"]);
    assert_eq!(house.texts_of(urgent), ["b", "d"]);
    let mut house = house.restarted();
    house.router.attach(below, news(), publisher("news/sports"), &mut house.recorded);
    let sports = house.subscriber(Some(durable("sports@news/sports")), 10);
    house.publish_all(["e"]);
    assert_eq!(house.texts_of(sports), ["d", "c"], "its name filter survives a restart");
}

#[test]
fn each_subscription_settles_its_messages_independently() {
    let mut house = House::new(Settings::default());
    for name in ["a", "b"] {
        house.subscription(durable(name));
    }
    house.publish_all(["1", "2"]);
    house.subscriber(Some(durable("a")), 1);
    let got = house.got();
    house.answer(&got[0], &Outcome::Accepted);
    let mut house = house.restarted();
    for (name, left) in [("a", &["2"][..]), ("b", &["1", "2"])] {
        house.subscriber(Some(durable(name)), 10);
        house.pump();
        assert_eq!(house.texts(), left, "{name}");
    }
}

#[test]
fn message_refused_by_one_subscription_reaches_none() {
    let mut house = full(Full::Reject, 2);
    house.subscription(durable("sub"));
    let own = house.subscriber(None, 10);
    house.publish_all(["a", "b"]);
    let attachment = house.consumer(DECLARED, 1);
    let got = house.got();
    house.answer(&got[2], &Outcome::Accepted);
    house.router.detach(attachment, &mut house.recorded);
    house.recorded.settled.clear();
    house.publish_all(["c"]);
    let Outcome::Rejected(Some(error)) = &house.recorded.settled[0].1 else { panic!("{:?}", house.recorded.settled) };
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
    assert!(house.texts_of(own).is_empty());
    house.consumer(DECLARED, 10);
    assert_eq!(house.texts(), ["b"]);
}

#[test]
fn producers_wait_while_a_declared_subscription_is_full() {
    let mut house = full(Full::Block, 4);
    house.publish_all(0..4);
    assert_eq!(house.recorded.open, Some(false));
    house.pass(10 * STALL_MS);
    assert_eq!(house.recorded.open, Some(false));
    let late = AttachmentId { shard: 0, generation: 0, index: 70 };
    house.router.attach(late, news(), publisher("news"), &mut house.recorded);
    assert_eq!(house.recorded.open, Some(false), "a new producer waits too");
    house.consumer(DECLARED, 10);
    let got = house.got();
    house.answer(&got[0], &Outcome::Accepted);
    assert_eq!(house.recorded.open, Some(false), "one in four is not enough");
    house.answer(&got[1], &Outcome::Accepted);
    assert_eq!(house.recorded.open, Some(true));
}

#[test]
fn producers_continue_when_the_full_subscription_leaves_the_topic() {
    let mut house = full(Full::Block, 4);
    house.publish_all(0..4);
    assert_eq!(house.recorded.open, Some(false));
    house.router.move_subscription(DECLARED, None, &mut house.recorded);
    assert_eq!(house.recorded.open, Some(true));
    house.router.move_subscription(DECLARED, Some(TOPIC), &mut house.recorded);
    assert_eq!(house.recorded.open, Some(false));
}

#[test]
fn stuck_subscriber_delays_producers_until_the_stall_limit_then_misses_messages() {
    let mut house = undeclared();
    let (slow, fast) = (house.subscriber(None, 0), house.subscriber(None, 10_000));
    house.publish_all(0..BACKLOG_MESSAGES);
    assert_eq!((house.recorded.open, house.texts_of(fast).len()), (Some(false), BACKLOG_MESSAGES));
    house.pass(STALL_MS - 1);
    house.publish_all(["under way"]);
    assert_eq!((house.recorded.open, house.dropped()), (Some(false), 0));
    house.pass(1);
    assert_eq!(house.recorded.open, Some(true), "no producer waits for it any more");
    house.publish_all(["missed"]);
    assert_eq!((house.dropped(), house.texts_of(fast).len()), (1, 2), "its backlog holds no producer");
    house.router.credit(slow, 10_000, false, &mut house.recorded);
    assert_eq!(house.texts_of(slow).len(), BACKLOG_MESSAGES + 1);
    house.publish_all(["again"]);
    assert_eq!((house.texts_of(slow), house.dropped()), (vec!["again".to_owned()], 1));
}

#[test]
fn message_missed_by_the_only_subscription_is_counted_once() {
    let mut house = undeclared();
    house.subscriber(None, 0);
    house.publish_all(0..BACKLOG_MESSAGES);
    house.pass(STALL_MS);
    house.publish_all(["missed"]);
    assert_eq!(house.dropped(), 1);
}

#[test]
fn producers_wait_longer_for_a_subscriber_of_large_messages() {
    let mut house = undeclared();
    let slow = house.subscriber(None, 1);
    let large = "x".repeat(10 << 20);
    house.publish_all([&large; 2]);
    assert_eq!((house.recorded.open, house.texts_of(slow).len()), (Some(false), 1));
    house.pass(10 * STALL_MS);
    assert_eq!((house.recorded.open, house.dropped()), (Some(false), 0), "the time for the second message is not over");
    house.router.credit(slow, 2, false, &mut house.recorded);
    assert_eq!((house.recorded.open, house.texts_of(slow).len()), (Some(true), 1));
    house.publish_all([&large; 2]);
    house.pass(11 * STALL_MS);
    assert_eq!(house.recorded.open, Some(true), "no producer waits for it any more");
}

#[test]
fn producers_wait_for_a_slow_subscriber_that_makes_progress() {
    let mut house = undeclared();
    let slow = house.subscriber(None, 0);
    house.publish_all(0..BACKLOG_MESSAGES);
    for taken in 1..20 {
        house.router.credit(slow, taken, false, &mut house.recorded);
        let got = house.got();
        assert_eq!(got.len(), 1);
        house.pass(STALL_MS - 1);
        assert_eq!(house.recorded.open, Some(false));
    }
}

#[test]
fn producers_are_held_while_too_many_bytes_wait_at_a_topic() {
    let mut house = undeclared();
    let slow = house.subscriber(None, 0);
    let large = "x".repeat(1 << 20);
    house.publish_all([&large; 7]);
    assert_eq!(house.recorded.held, None);
    house.publish_all([&large; 2]);
    assert_eq!(house.recorded.held, Some(true));
    house.router.credit(slow, 10, false, &mut house.recorded);
    for got in house.got() {
        house.answer(&got, &Outcome::Accepted);
    }
    assert_eq!((house.recorded.held, house.recorded.open, house.dropped()), (Some(false), Some(true), 0));
}

#[test]
fn a_topic_that_is_deleted_takes_its_undeclared_subscriptions_with_it() {
    let mut house = House::new(Settings::default());
    house.subscription(durable("sub"));
    let own = house.subscriber(None, 10);
    house.publish_all(["a"]);
    assert_eq!(house.texts_of(own), ["a"]);
    house.router.delete_address(TOPIC, &Error::new(condition::RESOURCE_DELETED, "gone"), &mut house.recorded);
    house.pump();
    assert_eq!(house.recorded.closed, 2, "the subscriber and the producer");
    assert_eq!(house.log.stats().alive_messages, 1, "the messages of the declared subscription");
    let attachment = house.consumer(DECLARED, 10);
    assert_eq!(house.texts_of(attachment), ["a"]);
    let mut house = house.restarted();
    house.subscriber(Some(durable("sub")), 10);
    assert!(house.texts().is_empty(), "it is a new subscription");
}

#[test]
fn compaction_keeps_one_record_for_all_subscriptions() {
    let mut house = House::new(Settings::default());
    for name in ["a", "b"] {
        house.subscription(durable(name));
    }
    let body = "x".repeat(1000);
    house.publish_all((0..50).map(|n| format!("{n} {body}")));
    let before = house.log.stats();
    house.router.compact(1);
    house.pump();
    let after = house.log.stats();
    let copied = after.copied - before.copied;
    assert!((1..=50).contains(&copied), "{copied} copies");
    assert_eq!(after.alive_messages, before.alive_messages);
    assert!(after.alive_bytes.abs_diff(before.alive_bytes) < 10_000, "{before:?} {after:?}");
    let mut house = house.restarted();
    let expected: Vec<String> = (0..50).map(|n| format!("{n} {body}")).collect();
    for name in ["a", "b"] {
        house.subscriber(Some(durable(name)), 100);
        house.pump();
        assert_eq!(house.texts(), expected);
    }
}

#[test]
fn many_subscriptions_read_the_same_messages_from_disk() {
    let mut house = House::new(Settings::default());
    let names: Vec<String> = (0..5).map(|n| format!("sub{n}")).collect();
    for name in &names {
        house.subscription(durable(name));
    }
    house.publish_all((0..100).map(|n| format!("{n:>5000}")));
    let mut house = house.restarted();
    let attachments: Vec<AttachmentId> = names.iter().map(|name| house.subscriber(Some(durable(name)), 1000)).collect();
    house.pump();
    for attachment in attachments {
        let got: Vec<Got> = house.recorded.got.iter().filter(|got| got.attachment == attachment).cloned().collect();
        assert_eq!(got.len(), 100);
        got.iter().for_each(|got| house.answer(got, &Outcome::Accepted));
    }
    assert_eq!((house.router.fetched_bytes(), house.log.stats().alive_messages), (0, 100));
}

#[test]
fn message_moved_to_a_topic_enters_its_subscriptions_and_leaves_its_source() {
    let mut house = House::new(Settings::default());
    house.subscription(durable("sub"));
    house.send("a");
    house.pump();
    let operation = Operation {
        id: 1,
        address: QUEUE,
        work: Work::Move(here(TOPIC)),
        selector: None,
        names: None,
        dry_run: false,
        limit: 10,
        rest: None,
        edited: None,
    };
    house.router.operate(operation.clone());
    house.pump();
    house.pump();
    assert!(house.router.take_operated().iter().all(|(_, done)| done.messages == 1 && done.failed.is_none()));
    let mut house = house.restarted();
    house.subscriber(Some(durable("sub")), 10);
    house.consumer(DECLARED, 10);
    house.consumer(QUEUE, 10);
    house.pump();
    assert_eq!(house.texts(), ["a", "a"]);
    let mut house = undeclared();
    house.send("b");
    house.pump();
    house.router.operate(operation);
    house.pump();
    house.pump();
    let done = house.router.take_operated().remove(0).1;
    assert!(matches!(done.failed, Some(Failed::Full(_))), "no subscription accepts it: {done:?}");
    house.consumer(QUEUE, 10);
    assert_eq!(house.texts(), ["b"]);
}
