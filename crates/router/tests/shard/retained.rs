//! Receivers of topics that request retained messages first (`docs/contracts.md` 8).

use std::sync::Arc;

use enmasse_amqp::codec::{decode_message, encode_message};
use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Attach, Body, Message, Outcome, Properties, Source, Symbol, Value, condition};
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{Config, Log};
use enmasse_journal::queue::{Full, Limits, Settings};
use enmasse_router::core::{Destination, LAST_VALUE_OF_TO, OpenQueue, OpenTopic};
use enmasse_router::shard::StoredAddressChange;

use crate::net::{ClientEvent, Net, dynamic_receiver};
use crate::topics::{ask, subscriber};
use crate::{LAYOUTS, OPEN_SPACE, pinned};

const FILTER: &str = "enmasse:retained";
const TOPICS: [&str; 2] = ["news", "else"];

/// The plan of the open space with two topics in memory and retained messages.
fn plan() -> String {
    let topics = TOPICS
        .map(|name| format!(r#"{{"uid": "{name}", "name": "{name}", "type": "topic", "durability": "memory"}},"#));
    let mqtt = r#""mqtt": {"retainedMessages": 1000, "retainedBytes": 100000000, "sessionExpiryS": 60},"#;
    OPEN_SPACE.replacen("\"addresses\": [", &format!("{mqtt} \"addresses\": [{}", topics.concat()), 1)
}

/// The layouts of clients, each with every home of the retained messages.
pub(crate) fn layouts() -> impl Iterator<Item = ((u16, u16), usize, usize)> {
    LAYOUTS
        .into_iter()
        .flat_map(|(shards, producer, consumer)| (0..shards).map(move |home| ((shards, home), producer, consumer)))
}

/// That space in memory: its topics live on shard 0, and its retained messages have this home.
pub(crate) fn with_retained(shards: (u16, u16)) -> Net {
    with_retained_in(shards, Settings::default())
}

/// The same with settings of the queue of retained messages.
fn with_retained_in((shards, home): (u16, u16), settings: Settings) -> Net {
    let mut net = Net::new(shards, &plan());
    let (log, _) = Log::open(Arc::new(SimulatedDisk::new(512, 1)), Config::default()).expect("an empty log");
    net.log = Some(log);
    let retained = net.space().mqtt().expect("it keeps retained messages").retained.clone();
    let mut changes = Vec::new();
    for name in TOPICS {
        let entry = net.entry(name);
        assert_eq!(entry.home.claim(0), 0);
        let opened = OpenTopic::new(name.into(), Settings::default(), false);
        let opened = opened.with_retained(Some(Destination { key: retained.key, home }));
        changes.push(StoredAddressChange::Topic(entry.declared(), Box::new(opened)));
    }
    assert_eq!(retained.home.claim(home), home);
    let settings = Settings { last_value: true, ..settings };
    let queue = OpenQueue::new("retained".into(), settings, None).with_last_value_key(Some(LAST_VALUE_OF_TO.into()));
    net.shards[0].change_stored_addresses(changes);
    let opened = StoredAddressChange::Open(retained.declared(), Box::new(queue));
    net.shards[usize::from(home)].change_stored_addresses(vec![opened]);
    net
}

/// Publishes a message whose body is its topic and `more`.
fn publish(net: &mut Net, client: usize, topic: &str, more: &str, retain: bool) {
    let body = Body::Data(vec![format!("{topic} {more}").into_bytes()]);
    assert_eq!(outcome(net, client, topic, body, retain), Outcome::Accepted);
}

/// The outcome of a publication.
fn outcome(net: &mut Net, client: usize, topic: &str, body: Body, retain: bool) -> Outcome {
    let message = Message {
        message_annotations: vec![(Symbol::from("x-opt-retain-message"), Value::Bool(retain))],
        properties: Some(Properties { to: Some(topic.to_owned()), ..Properties::default() }),
        body,
        ..Message::default()
    };
    let mut bytes = Vec::new();
    encode_message(&mut bytes, &message);
    let link = net.sender(client, Some(topic));
    net.send(client, link, &bytes, false);
    let outcome = net.outcomes(client).pop().map(|(_, outcome)| outcome);
    net.detach(client, link);
    outcome.expect("it is settled")
}

/// The bodies of the messages received since the last call, which are accepted.
fn texts(net: &mut Net, client: usize, link: LinkId) -> Vec<String> {
    let messages = net.messages(client);
    let text = |message: &[u8]| match decode_message(message).expect("a message").body {
        Body::Data(data) => String::from_utf8(data.concat()).expect("text"),
        other => panic!("{other:?}"),
    };
    messages.iter().for_each(|(id, _)| net.settle(client, link, *id, &Outcome::Accepted));
    messages.iter().map(|(_, message)| text(message)).collect()
}

fn with_filter(attach: Attach, value: Value) -> Attach {
    let filter = vec![(Symbol::from(FILTER), value)];
    Attach { source: attach.source.map(|source| Box::new(Source { filter, ..*source })), ..attach }
}

fn reader(address: &str) -> Attach {
    with_filter(subscriber("r", address, &[]), Value::Bool(true))
}

fn drains(net: &Net, client: usize) -> usize {
    let received = net.clients[client].received.iter();
    received.filter(|received| matches!(received, ClientEvent::Flow { drain: true, .. })).count()
}

#[test]
fn retained_messages_that_the_name_covers_come_before_live_ones() {
    for (shards, producer, consumer) in layouts() {
        for step in [1, 2, 100] {
            let mut net = with_retained(shards);
            let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
            for topic in ["news/1", "news/2", "news/3/a", "else", "news"] {
                publish(&mut net, sender, topic, "kept", true);
            }
            let (link, source) = ask(&mut net, receiver, reader("news/+"));
            assert_eq!(source.expect("a source").filter, [(Symbol::from(FILTER), Value::Bool(true))]);
            publish(&mut net, sender, "news/1", "live", false);
            let mut found = Vec::new();
            for _ in 0..5 {
                net.grant(receiver, link, step);
                found.extend(texts(&mut net, receiver, link));
            }
            assert_eq!(found, ["news/1 kept", "news/2 kept", "news/1 live"], "{step} at a time");
            publish(&mut net, sender, "news/2", "later", true);
            assert_eq!(texts(&mut net, receiver, link), ["news/2 later"], "once");
        }
    }
}

#[test]
fn receiver_without_the_filter_or_with_false_gets_none() {
    let mut net = with_retained((1, 0));
    let (sender, receiver) = (pinned(&mut net, 0), pinned(&mut net, 0));
    publish(&mut net, sender, "news", "kept", true);
    for attach in [subscriber("r", "news", &[]), with_filter(subscriber("r", "news", &[]), Value::Bool(false))] {
        let (link, source) = ask(&mut net, receiver, attach);
        assert!(source.expect("a source").filter.is_empty());
        net.grant(receiver, link, 10);
        assert!(net.messages(receiver).is_empty());
        net.detach(receiver, link);
    }
}

#[test]
fn wildcards_reach_the_retained_messages_of_several_topics() {
    for (shards, producer, consumer) in layouts() {
        let mut net = with_retained(shards);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        for topic in ["news/1", "else/1", "else/1/deeper"] {
            publish(&mut net, sender, topic, "kept", true);
        }
        let (link, _) = ask(&mut net, receiver, reader("+/1"));
        net.grant(receiver, link, 10);
        assert_eq!(texts(&mut net, receiver, link), ["news/1 kept", "else/1 kept"]);
        publish(&mut net, sender, "else/1", "live", true);
        assert_eq!(texts(&mut net, receiver, link), ["else/1 live"]);
    }
}

#[test]
fn drain_is_answered_once_after_retained_and_live_messages() {
    for (shards, producer, consumer) in layouts() {
        for credit in 1..6 {
            let mut net = with_retained(shards);
            let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
            publish(&mut net, sender, "news/1", "kept", true);
            publish(&mut net, sender, "news/2", "kept", true);
            let (link, _) = ask(&mut net, receiver, reader("news/#"));
            publish(&mut net, sender, "news/1", "live", false);
            net.at_once(|net| {
                net.grant(receiver, link, credit);
                net.drain(receiver, link);
            });
            let all = ["news/1 kept", "news/2 kept", "news/1 live"];
            let expected = &all[..all.len().min(credit as usize)];
            assert_eq!(texts(&mut net, receiver, link), expected, "credit {credit}");
            assert_eq!(drains(&net, receiver), 1, "credit {credit}");
            net.grant(receiver, link, 10);
            assert_eq!(texts(&mut net, receiver, link), all[expected.len()..], "credit {credit}");
        }
    }
}

#[test]
fn drain_of_a_link_without_credit_is_answered_during_the_read() {
    for (shards, producer, consumer) in layouts() {
        let mut net = with_retained(shards);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        publish(&mut net, sender, "news", "kept", true);
        let (link, _) = ask(&mut net, receiver, reader("news"));
        net.drain(receiver, link);
        assert_eq!((net.messages(receiver).len(), drains(&net, receiver)), (0, 1));
        net.grant(receiver, link, 10);
        assert_eq!(texts(&mut net, receiver, link), ["news kept"]);
    }
}

/// Its connection has no room for all of them: deliveries return to their home, and come again.
#[test]
fn slow_receiver_gets_every_retained_message_once_and_in_order() {
    for (shards, producer, consumer) in layouts() {
        let mut net = with_retained(shards);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let topics: Vec<String> = (0..60).map(|number| format!("news/{number}")).collect();
        let filling = "x".repeat(50_000);
        for topic in &topics {
            publish(&mut net, sender, topic, &filling, true);
        }
        let (link, _) = ask(&mut net, receiver, reader("news/#"));
        net.clients[receiver].deaf = true;
        net.grant(receiver, link, 30);
        publish(&mut net, sender, "news/live", "", false);
        net.grant(receiver, link, 100);
        net.listen(receiver);
        net.run();
        let found: Vec<String> = texts(&mut net, receiver, link)
            .iter()
            .filter_map(|text| Some(text.split_once(' ')?.0.to_owned()))
            .collect();
        assert_eq!(found, [topics, vec!["news/live".to_owned()]].concat());
    }
}

#[test]
fn filter_is_refused_where_nothing_is_retained() {
    let mut net = with_retained((1, 0));
    let client = pinned(&mut net, 0);
    let dynamic = |value| {
        let mut attach = with_filter(dynamic_receiver(), value);
        if let Some(source) = attach.source.as_deref_mut() {
            source.capabilities = vec![Symbol::from("temporary-topic")];
        }
        attach
    };
    for attach in [
        reader("anycast"),
        reader("multicast"),
        dynamic(Value::Bool(true)),
        with_filter(subscriber("r", "news", &["shared"]), Value::Bool(true)),
    ] {
        let (_, source) = ask(&mut net, client, attach);
        assert_eq!(source, None);
        let error = net.detached(client).expect("an error");
        let text = error.description.unwrap_or_default();
        assert!(error.condition == condition::NOT_IMPLEMENTED && text.contains(FILTER), "{text}");
    }
    let (_, source) = ask(&mut net, client, with_filter(subscriber("r", "news", &[]), Value::String("yes".to_owned())));
    assert_eq!(source, None);
    assert_eq!(net.detached(client).map(|error| error.condition), Some(condition::INVALID_FIELD));
    let mut net = crate::topics::with_topics(1);
    let client = pinned(&mut net, 0);
    assert_eq!(ask(&mut net, client, reader("news")).1, None, "a space that keeps none");
    assert_eq!(net.detached(client).map(|error| error.condition), Some(condition::NOT_IMPLEMENTED));
}

#[test]
fn link_ends_with_its_topic_during_the_read() {
    for (shards, producer, consumer) in layouts() {
        let mut net = with_retained(shards);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        publish(&mut net, sender, "news", "kept", true);
        let (link, _) = ask(&mut net, receiver, reader("news"));
        net.apply(&plan().replace(r#"{"uid": "news", "name": "news", "type": "topic", "durability": "memory"},"#, ""));
        net.grant(receiver, link, 10);
        assert_eq!(net.detached(receiver).map(|error| error.condition), Some(condition::RESOURCE_DELETED));
    }
}

#[test]
fn link_that_ends_during_the_read_leaves_nothing() {
    for (shards, producer, consumer) in layouts() {
        let mut net = with_retained(shards);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        publish(&mut net, sender, "news", "kept", true);
        for _ in 0..3 {
            let (link, _) = ask(&mut net, receiver, reader("news"));
            net.detach(receiver, link);
        }
        let (link, _) = ask(&mut net, receiver, reader("news"));
        net.grant(receiver, link, 10);
        assert_eq!(texts(&mut net, receiver, link), ["news kept"]);
    }
}

#[test]
fn removal_of_nothing_is_accepted_although_no_more_messages_can_be_retained() {
    for (shards, place, _) in layouts() {
        let limits = Limits { messages: 1, ..Limits::default() };
        let mut net = with_retained_in(shards, Settings { limits, full: Full::Strict, ..Settings::default() });
        let client = pinned(&mut net, place);
        publish(&mut net, client, "news", "first", true);
        let refused = outcome(&mut net, client, "else", Body::Data(vec![b"second".to_vec()]), true);
        assert!(matches!(refused, Outcome::Rejected(_)), "{refused:?}");
        let nothing = || Body::Data(vec![Vec::new()]);
        assert_eq!(outcome(&mut net, client, "else", nothing(), true), Outcome::Accepted);
        assert_eq!(outcome(&mut net, client, "news", nothing(), true), Outcome::Accepted);
    }
}
