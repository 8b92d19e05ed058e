//! Retained messages of topics: they are stored in one group with the copies of the subscriptions,
//! and a receiver that requests them browses their queue.

use enmasse_amqp::types::{Fields, Header, Properties, Symbol, condition};
use enmasse_journal::queue::{Full, Limits};
use enmasse_router::core::Filter;

use super::subscriptions::durable;
use super::transactions::reason;
use super::*;

/// The attachment of a producer below the topic.
const BELOW: AttachmentId = AttachmentId { shard: 0, generation: 0, index: 70 };

/// A house that keeps so many retained messages.
fn retaining(messages: u64) -> House {
    let retained = Settings {
        limits: Limits { messages, ..Limits::default() },
        full: Full::Reject,
        last_value: true,
        ..Settings::default()
    };
    let disk = Arc::new(SimulatedDisk::new(512, 7));
    House::built(disk, Settings::default(), Settings::default(), Some(retained), u64::MAX).with_producer_below()
}

/// A message with these annotations; an empty text is no content.
fn annotated(to: Option<&str>, text: &str, annotations: Fields) -> Message {
    Message {
        message_annotations: annotations,
        properties: Some(Properties { to: to.map(str::to_owned), ..Properties::default() }),
        body: Body::Data(vec![text.into()]),
        ..Message::default()
    }
}

fn annotation(value: Value) -> Fields {
    vec![(Symbol::from("x-opt-retain-message"), value)]
}

fn retained(to: &str, text: &str) -> Message {
    annotated(Some(to), text, annotation(Value::Bool(true)))
}

impl House {
    fn with_producer_below(mut self) -> Self {
        self.router.attach(BELOW, news(), publisher("news/sports"), &mut self.recorded);
        self
    }

    fn retain(&mut self, from: AttachmentId, to: &str, text: &str) -> Outcome {
        self.outcome_of(from, &retained(to, text))
    }

    fn outcome_of(&mut self, from: AttachmentId, message: &Message) -> Outcome {
        let id = self.send_from(from, message);
        self.pump();
        let (of, outcome) = self.recorded.settled.pop().expect("an outcome");
        assert_eq!(of, id);
        outcome
    }

    fn refusal_of(&mut self, from: AttachmentId, message: &Message) -> Error {
        match self.outcome_of(from, message) {
            Outcome::Rejected(Some(error)) => *error,
            other => panic!("{other:?}"),
        }
    }

    /// A receiver of the retained messages whose topics `wanted` accepts.
    fn reader(&mut self, wanted: fn(&str) -> bool, credit: u32) -> AttachmentId {
        let retained = Some(Filter::new(wanted));
        let consuming = Consuming { browses: true, retained, ..Consuming::default() };
        let attachment = self.consumer_that(RETAINED, 0, consuming);
        self.pump();
        assert!(self.recorded.attached.contains(&attachment));
        self.router.credit(attachment, credit, true, &mut self.recorded);
        self.pump();
        attachment
    }

    /// The retained messages whose topics `wanted` accepts.
    fn kept(&mut self, wanted: fn(&str) -> bool) -> Vec<String> {
        let drained = self.recorded.drained;
        let reader = self.reader(wanted, 100);
        assert_eq!(self.recorded.drained, drained + 1, "the end is reported");
        let texts = self.texts_of(reader);
        self.router.detach(reader, &mut self.recorded);
        texts
    }
}

#[test]
fn last_retained_message_of_each_topic_is_kept_over_a_restart() {
    let mut house = retaining(10);
    for text in ["1", "2"] {
        assert_eq!(house.retain(PUBLISHER, "news", text), Outcome::Accepted);
        assert_eq!(house.retain(BELOW, "news/sports", text), Outcome::Accepted);
    }
    house.publish("not kept");
    house.outcome_of(PUBLISHER, &annotated(None, "nor this", annotation(Value::Bool(false))));
    let mut house = house.restarted();
    assert_eq!(house.kept(|_| true), ["2", "2"]);
    assert_eq!(house.kept(|topic| topic == "news/sports"), ["2"]);
    assert_eq!(house.kept(|topic| topic == "news/other"), [""; 0]);
}

#[test]
fn retained_message_is_one_record_with_the_copies_and_accepted_once_on_disk() {
    let mut house = retaining(10);
    house.subscription(durable("sub"));
    let live = house.subscriber(None, 10);
    let id = house.send_from(PUBLISHER, &retained("news", "a"));
    house.router.turn(&mut house.recorded);
    assert!(house.recorded.settled.is_empty());
    let batch = house.router.take_journal().expect("something to write");
    assert_eq!(batch.messages(), 1);
    let mut batch = batch;
    let result = house.log.append(&mut batch).and_then(|()| house.log.sync());
    house.router.journaled(Answer { batch, result }, &mut house.recorded);
    house.pump();
    assert_eq!(house.recorded.settled, [(id, Outcome::Accepted)]);
    let got = house.got();
    assert_eq!((got.len(), got[0].attachment), (1, live));
    assert_eq!(got[0].annotation("x-opt-retain-message"), Some(&Value::Bool(true)));
}

#[test]
fn message_without_content_removes_the_retained_one_and_leaves_itself() {
    let empty = [
        Body::Data(vec![]),
        Body::Data(vec![vec![], vec![]]),
        Body::Value(Value::Null),
        Body::Value(Value::String(String::new())),
        Body::Empty,
    ];
    for body in empty {
        let mut house = retaining(10);
        house.retain(PUBLISHER, "news", "a");
        house.retain(BELOW, "news/sports", "b");
        let subscriber = house.subscriber(None, 10);
        let removal = Message { body: body.clone(), ..retained("news", "") };
        assert_eq!(house.outcome_of(PUBLISHER, &removal), Outcome::Accepted, "{body:?}");
        assert_eq!(house.kept(|_| true), ["b"], "{body:?}");
        assert_eq!(house.got().len(), 1, "subscribers get it: {subscriber:?}");
        house.pass(1001);
        assert_eq!(house.seen(RETAINED), ["b"], "{body:?}");
    }
}

#[test]
fn full_store_refuses_a_further_topic_but_takes_a_newer_message_and_a_removal() {
    let mut house = retaining(1);
    house.subscription(durable("sub"));
    let live = house.subscriber(None, 10);
    house.retain(PUBLISHER, "news", "a");
    let refusal = house.refusal_of(BELOW, &retained("news/sports", "b"));
    assert_eq!(refusal.condition, condition::RESOURCE_LIMIT_EXCEEDED);
    assert_eq!(house.texts_of(live), ["a"], "no subscription has the refused message");
    assert_eq!(house.retain(PUBLISHER, "news", "c"), Outcome::Accepted);
    assert_eq!(house.kept(|_| true), ["c"]);
    assert_eq!(house.retain(PUBLISHER, "news", ""), Outcome::Accepted);
    house.pass(1001);
    assert_eq!(house.retain(BELOW, "news/sports", "d"), Outcome::Accepted);
    assert_eq!(house.kept(|_| true), ["d"]);
}

#[test]
fn retained_message_names_its_topic() {
    let mut house = retaining(10);
    let live = house.subscriber(None, 10);
    for (message, words) in [
        (retained("news/sports", "a"), "\"news/sports\": set \"news\""),
        (annotated(None, "a", annotation(Value::Bool(true))), "missing: set \"news\""),
        (annotated(Some("news"), "a", annotation(Value::String("true".into()))), "x-opt-retain-message"),
    ] {
        let refusal = house.refusal_of(PUBLISHER, &message);
        let text = refusal.description.unwrap_or_default();
        assert!(refusal.condition == condition::INVALID_FIELD && text.contains(words), "{text}");
    }
    assert!(house.texts_of(live).is_empty() && house.kept(|_| true).is_empty());
}

#[test]
fn space_without_retained_messages_ignores_the_annotation() {
    let mut house = House::new(Settings::default());
    let live = house.subscriber(None, 10);
    let message = annotated(None, "a", annotation(Value::Bool(true)));
    assert_eq!(house.outcome_of(PUBLISHER, &message), Outcome::Accepted);
    assert_eq!(house.texts_of(live), ["a"]);
}

#[test]
fn expiry_of_a_retained_message_is_that_of_the_message() {
    let mut house = retaining(10);
    let header = Some(Header { ttl: Some(500), ..Header::default() });
    house.outcome_of(PUBLISHER, &Message { header, ..retained("news", "a") });
    assert_eq!(house.kept(|_| true), ["a"]);
    house.pass(501);
    assert_eq!(house.kept(|_| true), [""; 0]);
}

#[test]
fn retained_messages_of_a_transaction_take_effect_with_its_commit() {
    let mut house = retaining(10);
    house.retain(PUBLISHER, "news", "before");
    let id = house.declare(1);
    house.post_message(id, PUBLISHER, &retained("news", ""));
    house.post_message(id, BELOW, &retained("news/sports", "a"));
    house.pump();
    assert_eq!(house.kept(|_| true), ["before"]);
    assert_eq!(house.commit(id), Ok(()));
    assert_eq!(house.kept(|_| true), ["a"]);
    let id = house.declare(2);
    house.post_message(id, BELOW, &retained("news/sports", "b"));
    house.roll_back(id);
    let mut house = house.restarted();
    assert_eq!(house.kept(|_| true), ["a"]);
}

#[test]
fn transaction_with_a_retained_message_too_many_is_rolled_back() {
    let mut house = retaining(1);
    let live = house.subscriber(None, 10);
    let id = house.declare(1);
    house.post_message(id, PUBLISHER, &retained("news", "a"));
    house.post_message(id, BELOW, &retained("news/sports", "b"));
    reason(house.commit(id), "holds 1 messages");
    assert!(house.texts_of(live).is_empty() && house.kept(|_| true).is_empty());
    let id = house.declare(2);
    house.post_message(id, PUBLISHER, &annotated(None, "c", annotation(Value::Bool(true))));
    reason(house.commit(id), "properties.to");
}

#[test]
fn attach_for_retained_messages_is_answered_once_earlier_ones_are_on_disk() {
    let mut house = retaining(10);
    house.send_from(PUBLISHER, &retained("news", "a"));
    let consuming = Consuming { browses: true, retained: Some(Filter::new(|_| true)), ..Consuming::default() };
    let attachment = house.consumer_that(RETAINED, 0, consuming);
    let answers = house.written();
    assert!(!house.recorded.attached.contains(&attachment));
    house.answered(answers);
    assert!(house.recorded.attached.contains(&attachment));
    house.router.credit(attachment, 10, true, &mut house.recorded);
    house.pump();
    assert_eq!(house.texts_of(attachment), ["a"]);
}

#[test]
fn reader_of_retained_messages_gets_none_that_came_after_it() {
    let mut house = retaining(10);
    house.retain(PUBLISHER, "news", "a");
    let reader = house.reader(|_| true, 0);
    house.retain(BELOW, "news/sports", "b");
    house.router.credit(reader, 10, true, &mut house.recorded);
    house.pump();
    assert_eq!(house.texts_of(reader), ["a"]);
}
