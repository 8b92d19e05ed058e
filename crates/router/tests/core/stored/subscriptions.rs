//! Subscriptions that clients create: their consumers, their lifetime, and the reasons to refuse
//! them.

use std::sync::Arc;

use enmasse_amqp::selector::{Dialect, Selector};
use enmasse_amqp::types::condition;
use enmasse_journal::log::RecoveredQueue;
use enmasse_journal::queue::{Full, Limits, Redelivery};
use enmasse_router::core::{Filter, Subscribing, SubscriptionName, subscription_of};

use super::*;

/// Parses `name`, `name?selector`, or `name@wanted` with a wanted name of the topic.
pub(super) fn durable(description: &str) -> Subscribing {
    named(description, true, false)
}

pub(super) fn shared(description: &str) -> Subscribing {
    named(description, true, true)
}

fn volatile(description: &str) -> Subscribing {
    named(description, false, true)
}

fn named(description: &str, durable: bool, shared: bool) -> Subscribing {
    let (name, selector) = description.split_once('?').unwrap_or((description, ""));
    let name = name.split('@').next().expect("a name").into();
    Subscribing {
        no_local: None,
        name: Some(SubscriptionName { space: 0, container: Some("client".into()), name, durable }),
        shared,
        selector: Selector::compile(selector, Dialect::Jms).expect("a selector").map(Arc::new),
        description: description.as_bytes().into(),
        ..Subscribing::default()
    }
}

fn filter(description: &str) -> Option<Filter> {
    let wanted = description.split_once('@')?.1.to_owned();
    Some(Filter::new(move |name| name == wanted))
}

/// A durable subscription from its recovered queue. Shared ones are named `s` and `s2`.
pub(super) fn kept(queue: &RecoveredQueue, settings: &Settings) -> Option<OpenQueue> {
    let description = std::str::from_utf8(subscription_of(queue)?).expect("text");
    let opened = OpenQueue::restored(queue.declared.as_ref()?.1.as_str().into(), settings.clone(), queue);
    let is_shared = matches!(description.split(['?', '@']).next(), Some("s" | "s2"));
    let subscribing = named(description, true, is_shared);
    Some(opened.subscribed(TOPIC, subscribing, filter(description)))
}

impl House {
    pub(super) fn subscriber(&mut self, subscribing: Option<Subscribing>, credit: u32) -> AttachmentId {
        let description = subscribing.as_ref().map(|it| String::from_utf8(it.description.to_vec()).expect("text"));
        let filter = description.and_then(|description| filter(&description));
        let consuming = Consuming { subscribing: subscribing.map(Box::new), ..Consuming::default() };
        let attachment = AttachmentId { shard: 0, generation: 0, index: self.attachments };
        self.attachments += 1;
        self.router.attach(attachment, news(), AttachmentRole::Consumer { filter, consuming }, &mut self.recorded);
        self.pump();
        self.router.credit(attachment, credit, false, &mut self.recorded);
        attachment
    }

    /// A durable subscription without a consumer.
    pub(super) fn subscription(&mut self, subscribing: Subscribing) {
        let attachment = self.subscriber(Some(subscribing), 0);
        self.router.detach(attachment, &mut self.recorded);
    }

    pub(super) fn publish(&mut self, text: &str) -> u32 {
        self.send_from(PUBLISHER, &Message { body: Body::Data(vec![text.into()]), ..Message::default() })
    }

    pub(super) fn publish_all(&mut self, texts: impl IntoIterator<Item = impl ToString>) {
        texts.into_iter().for_each(|text| {
            self.publish(&text.to_string());
        });
        self.pump();
    }

    pub(super) fn texts_of(&mut self, attachment: AttachmentId) -> Vec<String> {
        let (mine, others) = self.got().into_iter().partition(|got| got.attachment == attachment);
        self.recorded.got = others;
        let mine: Vec<Got> = mine;
        mine.iter().map(Got::text).collect()
    }

    pub(super) fn dropped(&self) -> u64 {
        let stats = self.router.stats().find(|(key, _)| *key == TOPIC);
        stats.expect("the topic").1.dropped
    }
}

#[test]
fn durable_subscription_keeps_messages_without_a_consumer_and_over_a_restart() {
    let mut house = House::new(Settings::default());
    let first = house.subscriber(Some(durable("sub")), 10);
    house.publish_all(0..3);
    let got = house.got();
    got.iter().for_each(|got| house.answer(got, &Outcome::Accepted));
    house.router.detach(first, &mut house.recorded);
    house.publish_all(3..12);
    let mut house = house.restarted();
    house.subscriber(Some(durable("sub")), 100);
    house.pump();
    assert_eq!(house.texts(), (3..12).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn attach_is_answered_once_the_subscription_is_on_disk() {
    let mut house = House::new(Settings::default());
    let attachment = AttachmentId { shard: 0, generation: 0, index: 70 };
    let consuming = Consuming { subscribing: Some(Box::new(durable("sub"))), ..Consuming::default() };
    house.router.attach(attachment, news(), AttachmentRole::Consumer { filter: None, consuming }, &mut house.recorded);
    assert!(house.recorded.attached.is_empty());
    house.pump();
    assert_eq!(house.recorded.attached, [attachment]);
}

#[test]
fn attach_is_refused_if_its_subscription_cannot_be_stored() {
    let mut house = House::new(Settings::default());
    house.disk.cut_after(0);
    let attachment = house.subscriber(Some(durable("sub")), 1);
    assert!(house.recorded.refused == 1 && !house.recorded.attached.contains(&attachment));
    let mut house = House::on(Arc::new(house.disk.as_seen()), Settings::default());
    house.router.recall(attachment, &[durable("sub").name.expect("a name")], &mut house.recorded);
    assert_eq!(house.recorded.refused, 1, "no state of it remains");
}

#[test]
fn unshared_subscription_accepts_one_link() {
    let mut house = House::new(Settings::default());
    let first = house.subscriber(Some(durable("sub")), 1);
    house.subscriber(Some(durable("sub")), 1);
    house.subscriber(Some(shared("sub")), 1);
    assert_eq!(house.recorded.refused, 2);
    house.router.detach(first, &mut house.recorded);
    house.subscriber(Some(durable("sub")), 1);
    assert_eq!(house.recorded.refused, 2);
}

#[test]
fn links_share_a_subscription_and_its_messages() {
    let mut house = House::new(Settings::default());
    for subscribing in [shared("s"), volatile("v")] {
        let attachments =
            [house.subscriber(Some(subscribing.clone()), 50), house.subscriber(Some(subscribing.clone()), 50)];
        house.publish_all(0..20);
        let [one, other] = attachments.map(|attachment| house.texts_of(attachment));
        assert!(one.len() == 10 && other.len() == 10, "{one:?} {other:?}");
        let mut all: Vec<u32> = one.iter().chain(&other).map(|text| text.parse().expect("a number")).collect();
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<u32>>());
        for other in ["s?n = 1", "s@elsewhere"].iter().filter(|_| subscribing.description[..] == *b"s") {
            house.subscriber(Some(shared(other)), 1);
        }
        attachments.into_iter().for_each(|attachment| house.router.detach(attachment, &mut house.recorded));
    }
    assert_eq!(house.recorded.refused, 2, "not with another selector or name while a consumer is attached");
}

#[test]
fn attach_with_another_selector_recreates_the_subscription() {
    let mut house = House::new(Settings::default());
    house.subscription(durable("sub"));
    house.publish_all(["old"]);
    let attachment = house.subscriber(Some(durable("sub?JMSPriority > 4")), 10);
    house.publish_all(["low"]);
    assert!(house.texts_of(attachment).is_empty());
    let mut house = house.restarted();
    let attachment = house.subscriber(Some(durable("sub?JMSPriority > 4")), 10);
    house.publish_all(["low"]);
    assert!(house.texts_of(attachment).is_empty(), "it has its selector after a restart");
}

#[test]
fn closing_its_only_link_deletes_a_durable_subscription() {
    let mut house = House::new(Settings::default());
    let attachment = house.subscriber(Some(durable("sub")), 0);
    house.publish_all(["a", "b"]);
    house.router.unsubscribe(attachment, &mut house.recorded);
    house.publish_all(["c"]);
    for _ in 0..2 {
        let attachment = house.subscriber(Some(durable("sub")), 10);
        assert!(house.texts_of(attachment).is_empty());
        house.router.unsubscribe(attachment, &mut house.recorded);
        house.pump();
        house = house.restarted();
    }
    let alive = house.log.stats().alive_messages;
    assert_eq!(alive, 3, "the messages of the declared subscription");
}

#[test]
fn closing_one_of_several_links_keeps_a_shared_subscription() {
    let mut house = House::new(Settings::default());
    let (first, second) = (house.subscriber(Some(shared("s")), 0), house.subscriber(Some(shared("s")), 0));
    house.publish_all(["a"]);
    house.router.unsubscribe(first, &mut house.recorded);
    house.router.credit(second, 1, false, &mut house.recorded);
    assert_eq!(house.texts_of(second), ["a"]);
}

#[test]
fn subscription_can_be_recalled_by_its_name_and_deleted() {
    let mut house = House::new(Settings::default());
    let name = durable("sub").name.expect("a name");
    let attachment = AttachmentId { shard: 0, generation: 0, index: 70 };
    house.router.recall(attachment, std::slice::from_ref(&name), &mut house.recorded);
    assert_eq!((house.recorded.refused, house.recorded.recalled.take()), (1, None));
    let consumer = house.subscriber(Some(durable("sub")), 0);
    house.router.recall(attachment, std::slice::from_ref(&name), &mut house.recorded);
    assert_eq!(house.recorded.refused, 2, "it is in use");
    house.router.detach(consumer, &mut house.recorded);
    house.router.recall(attachment, std::slice::from_ref(&name), &mut house.recorded);
    assert_eq!(house.recorded.recalled.as_deref(), Some(&b"sub"[..]));
    house.router.unsubscribe(attachment, &mut house.recorded);
    house.router.recall(attachment, &[name], &mut house.recorded);
    assert_eq!(house.recorded.refused, 3);
}

#[test]
fn volatile_subscription_ends_with_its_last_link_and_leaves_no_message() {
    let mut house = House::new(Settings::default());
    let own = house.subscriber(None, 0);
    let (one, other) = (house.subscriber(Some(volatile("v")), 0), house.subscriber(Some(volatile("v")), 0));
    house.publish_all(["a"]);
    let stored = |house: &House| {
        let stats = house.router.queue_stats().find(|(key, _)| *key == TOPIC);
        stats.expect("the topic").1
    };
    assert_eq!((stored(&house).ready, stored(&house).consumers), (2, 3));
    house.router.detach(own, &mut house.recorded);
    house.router.detach(one, &mut house.recorded);
    assert_eq!(stored(&house).ready, 1);
    house.router.detach(other, &mut house.recorded);
    assert_eq!((stored(&house).ready, stored(&house).consumers), (0, 0));
    assert_eq!(stored(&house).enqueued, 2, "the counters keep their values");
    let again = house.subscriber(Some(volatile("v")), 10);
    assert!(house.texts_of(again).is_empty());
}

#[test]
fn a_topic_has_no_more_links_than_its_limits() {
    let limits = Limits { consumers: 2, producers: 1, ..Limits::default() };
    let mut house = House::with_topic(
        Arc::new(SimulatedDisk::new(512, 7)),
        Settings::default(),
        Settings { limits, ..Settings::default() },
    );
    house.subscriber(None, 1);
    house.subscriber(Some(durable("sub")), 1);
    assert_eq!(house.recorded.refused, 0);
    house.subscriber(None, 1);
    assert_eq!(house.recorded.refused, 1);
    let attachment = AttachmentId { shard: 0, generation: 0, index: 70 };
    house.router.attach(attachment, news(), publisher("news"), &mut house.recorded);
    assert_eq!(house.recorded.refused, 2);
}

#[test]
fn declared_subscription_refuses_consumers_beyond_its_limit() {
    let limits = Limits { consumers: 2, ..Limits::default() };
    let mut house = House::with_topic(
        Arc::new(SimulatedDisk::new(512, 7)),
        Settings::default(),
        Settings { limits, ..Settings::default() },
    );
    let attachments = [house.consumer(DECLARED, 50), house.consumer(DECLARED, 50)];
    house.consumer(DECLARED, 1);
    assert_eq!(house.recorded.refused, 1);
    house.publish_all(0..20);
    assert_eq!(attachments.map(|attachment| house.texts_of(attachment).len()), [10, 10]);
}

#[test]
fn dead_letter_of_a_subscription_names_it_as_its_origin() {
    let redelivery = Redelivery { attempts_max: 1, ..Redelivery::default() };
    let topic = Settings { dead_letter: true, redelivery, ..Settings::default() };
    let mut house = House::with_topic(Arc::new(SimulatedDisk::new(512, 7)), Settings::default(), topic);
    house.subscription(durable("sub"));
    house.publish_all(["a"]);
    house.subscriber(Some(durable("sub")), 1);
    let got = house.got();
    house.answer(&got[0], &failed());
    house.consumer(DEAD, 10);
    let dead = house.got();
    assert_eq!(dead.len(), 1);
    let origin = dead[0].annotation("x-opt-dead-letter-origin");
    assert_eq!(origin, Some(&Value::String("news::client/sub".to_owned())));
    house.consumer(DECLARED, 1);
    assert_eq!(house.texts(), ["a"], "the other subscription keeps its copy");
}

#[test]
fn drop_oldest_applies_to_each_subscription() {
    let limits = Limits { messages: 2, ..Limits::default() };
    let settings = Settings { limits, full: Full::DropOldest, ..Settings::default() };
    let mut house = House::with_topic(Arc::new(SimulatedDisk::new(512, 7)), Settings::default(), settings);
    let own = house.subscriber(None, 0);
    house.subscription(durable("sub"));
    house.publish_all(0..5);
    house.router.credit(own, 10, false, &mut house.recorded);
    assert_eq!(house.texts(), ["3", "4"]);
    house.subscriber(Some(durable("sub")), 10);
    assert_eq!(house.texts(), ["3", "4"]);
}

#[test]
fn message_beyond_a_drop_oldest_limit_is_rejected_by_lasting_subscriptions() {
    let limits = Limits { bytes: 1000, ..Limits::default() };
    let settings = Settings { limits, full: Full::DropOldest, ..Settings::default() };
    let mut house = House::with_topic(Arc::new(SimulatedDisk::new(512, 7)), Settings::default(), settings.clone());
    house.publish(&"x".repeat(2000));
    house.pump();
    let (_, Outcome::Rejected(Some(error))) = &house.recorded.settled[0] else {
        panic!("{:?}", house.recorded.settled)
    };
    assert_eq!(error.condition, condition::MESSAGE_SIZE_EXCEEDED);
    // Subscriptions that live with their links have their own bound, which no single message
    // reaches.
    let ring = Settings { limits: Limits { bytes: u64::MAX, ..limits }, ..settings };
    let mut house = House::with_topic(Arc::new(SimulatedDisk::new(512, 7)), Settings::default(), ring);
    house.subscriber(None, 5);
    house.publish(&"x".repeat(5 << 20));
    house.pump();
    assert_eq!(house.texts().iter().map(String::len).collect::<Vec<_>>(), [5 << 20]);
}
