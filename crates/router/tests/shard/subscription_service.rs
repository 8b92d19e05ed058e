//! The subscription service for AMQP clients (`docs/contracts.md` 10), over several shards.

use enmasse_amqp::codec::{decode_message, encode_message};
use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Body, Error, Message, MessageId, Outcome, Properties, Value};
use enmasse_journal::queue::Settings;
use enmasse_router::core::OpenTopic;
use enmasse_router::shard::StoredAddressChange;

use crate::net::{ClientEvent, Net, dynamic_receiver};
use crate::topics::ask;
use crate::{LAYOUTS, OPEN_SPACE, pinned};

const SERVICE: &str = "$subctrl";
const TOPICS: [&str; 2] = ["news", "else"];

/// The open space with two topics and sessions in memory, which live on shard 0.
fn with_sessions(shards: u16) -> Net {
    let topics = TOPICS
        .map(|name| format!(r#"{{"uid": "{name}", "name": "{name}", "type": "topic", "durability": "memory"}},"#));
    let mqtt = r#""mqtt": {"retainedMessages": 1000, "retainedBytes": 100000000, "sessionExpiryS": 60},"#;
    let plan = OPEN_SPACE.replacen("\"addresses\": [", &format!("{mqtt} \"addresses\": [{}", topics.concat()), 1);
    let mut net = Net::new(shards, &plan);
    let sessions = net.space().mqtt().expect("it keeps sessions").sessions.clone();
    for entry in TOPICS.map(|name| net.entry(name)).into_iter().chain([sessions]) {
        assert_eq!(entry.home.claim(0), 0);
        let opened = OpenTopic::new((&*entry.name).into(), Settings::default(), false);
        net.shards[0].change_stored_addresses(vec![StoredAddressChange::Topic(entry.declared(), Box::new(opened))]);
    }
    net
}

fn map(filters: &[(&str, u8)]) -> Body {
    let entries = filters.iter().map(|(filter, qos)| (Value::String((*filter).to_owned()), Value::Ubyte(*qos)));
    Body::Value(Value::Map(entries.collect()))
}

/// A request about a subscription.
fn encoded(name: &str, subject: &str, body: Body, reply_to: Option<String>) -> Vec<u8> {
    let message = Message {
        properties: Some(Properties {
            subject: Some(subject.to_owned()),
            correlation_id: Some(MessageId::String(name.to_owned())),
            reply_to,
            ..Properties::default()
        }),
        body,
        ..Message::default()
    };
    let mut bytes = Vec::new();
    encode_message(&mut bytes, &message);
    bytes
}

/// Sends a request about the subscription `s`, and waits for its outcome.
fn request(net: &mut Net, client: usize, subject: &str, body: Body, reply_to: Option<String>) -> Outcome {
    let bytes = encoded("s", subject, body, reply_to);
    let link = net.sender(client, Some(SERVICE));
    net.send(client, link, &bytes, false);
    net.pass(20);
    let outcome = net.outcomes(client).pop().map(|(_, outcome)| outcome);
    net.detach(client, link);
    net.pass(20);
    outcome.expect("it is settled")
}

fn subscribe(net: &mut Net, client: usize, filter: &str) {
    assert_eq!(request(net, client, "subscribe", map(&[(filter, 1)]), None), Outcome::Accepted);
}

/// The filters of the subscription.
fn list(net: &mut Net, client: usize) -> Body {
    let (link, source) = ask(net, client, dynamic_receiver());
    net.grant(client, link, 1);
    let reply_to = source.and_then(|source| source.address);
    assert_eq!(request(net, client, "list", Body::Empty, reply_to), Outcome::Accepted);
    let (_, answer) = net.messages(client).pop().expect("the answer");
    net.detach(client, link);
    let answer = decode_message(&answer).expect("a message");
    let subject = answer.properties.and_then(|properties| properties.subject);
    assert_eq!(subject.as_deref(), Some("subscriptions"));
    answer.body
}

fn publish(net: &mut Net, client: usize, topic: &str, body: &str) {
    let message = Message {
        properties: Some(Properties { to: Some(topic.to_owned()), ..Properties::default() }),
        body: Body::Data(vec![body.as_bytes().to_vec()]),
        ..Message::default()
    };
    let mut bytes = Vec::new();
    encode_message(&mut bytes, &message);
    let link = net.sender(client, Some(topic));
    net.send(client, link, &bytes, false);
    assert_eq!(net.outcomes(client).pop().map(|(_, outcome)| outcome), Some(Outcome::Accepted));
    net.detach(client, link);
}

/// The bodies of the messages received since the last call, with their delivery ids.
fn texts(net: &mut Net, client: usize) -> Vec<(u32, String)> {
    let text = |message: &[u8]| match decode_message(message).expect("a message").body {
        Body::Data(data) => String::from_utf8(data.concat()).expect("text"),
        other => panic!("{other:?}"),
    };
    net.messages(client).iter().map(|(id, message)| (*id, text(message))).collect()
}

/// The same, accepted.
fn accepted_texts(net: &mut Net, client: usize, link: LinkId) -> Vec<String> {
    let found = texts(net, client);
    found.iter().for_each(|(id, _)| net.settle(client, link, *id, &Outcome::Accepted));
    found.into_iter().map(|(_, text)| text).collect()
}

fn ended_by(net: &mut Net, client: usize) -> String {
    let error: Option<Error> = net.detached(client);
    error.expect("the link has ended").condition.as_str().to_owned()
}

#[test]
fn requests_of_another_connection_leave_the_receiver_where_it_is() {
    for (shards, one, other) in LAYOUTS {
        let mut net = with_sessions(shards);
        let (manager, receiver) = (pinned(&mut net, one), pinned(&mut net, other));
        subscribe(&mut net, manager, "news/+");
        publish(&mut net, manager, "news/1", "kept");
        let link = net.receiver(receiver, "s", 100);
        assert_eq!(accepted_texts(&mut net, receiver, link), ["kept"]);
        subscribe(&mut net, manager, "else");
        assert_eq!(list(&mut net, manager), map(&[("else", 1), ("news/+", 1)]));
        publish(&mut net, manager, "else", "added");
        publish(&mut net, manager, "news/2", "known");
        assert_eq!(accepted_texts(&mut net, receiver, link), ["added", "known"]);
        let removed = Body::Value(Value::List(vec![Value::String("else".to_owned())]));
        assert_eq!(request(&mut net, manager, "unsubscribe", removed, None), Outcome::Accepted);
        publish(&mut net, manager, "news/3", "still");
        assert_eq!(accepted_texts(&mut net, receiver, link), ["still"]);
        assert_eq!(request(&mut net, manager, "close", Body::Empty, None), Outcome::Accepted);
        assert_eq!(ended_by(&mut net, receiver), "amqp:resource-deleted");
        assert_eq!(list(&mut net, manager), map(&[]));
    }
}

#[test]
fn messages_that_a_receiver_has_not_settled_go_to_the_next_one() {
    for (shards, one, other) in LAYOUTS {
        for breaks in [true, false] {
            let mut net = with_sessions(shards);
            let (first, second) = (pinned(&mut net, one), pinned(&mut net, other));
            subscribe(&mut net, first, "news");
            net.receiver(first, "s", 100);
            let third = pinned(&mut net, other);
            for body in ["a", "b", "c"] {
                publish(&mut net, third, "news", body);
            }
            assert_eq!(texts(&mut net, first).len(), 3);
            if breaks {
                net.cut(first);
            }
            let link = net.receiver(second, "s", 100);
            net.pass(20);
            assert_eq!(accepted_texts(&mut net, second, link), ["a", "b", "c"]);
            if !breaks {
                assert_eq!(ended_by(&mut net, first), "amqp:link:stolen");
            }
            publish(&mut net, third, "news", "d");
            assert_eq!(accepted_texts(&mut net, second, link), ["d"]);
        }
    }
}

#[test]
fn request_that_takes_the_session_over_returns_what_is_unsettled() {
    for (shards, one, other) in LAYOUTS {
        let mut net = with_sessions(shards);
        let (manager, receiver) = (pinned(&mut net, one), pinned(&mut net, other));
        subscribe(&mut net, manager, "news");
        let link = net.receiver(receiver, "s", 100);
        publish(&mut net, manager, "news", "again");
        let first = texts(&mut net, receiver);
        assert_eq!(list(&mut net, manager), map(&[("news", 1)]));
        net.settle(receiver, link, first[0].0, &Outcome::Accepted);
        assert_eq!(accepted_texts(&mut net, receiver, link), ["again"], "at least once");
        publish(&mut net, manager, "news", "next");
        assert_eq!(accepted_texts(&mut net, receiver, link), ["next"]);
    }
}

#[test]
fn filter_that_ends_takes_its_unsettled_messages_along() {
    for (shards, one, _) in LAYOUTS {
        let mut net = with_sessions(shards);
        let client = pinned(&mut net, one);
        subscribe(&mut net, client, "news");
        subscribe(&mut net, client, "else");
        let link = net.receiver(client, "s", 2);
        let sender = pinned(&mut net, one);
        publish(&mut net, sender, "news", "gone");
        publish(&mut net, sender, "else", "stays");
        let found = texts(&mut net, client);
        let removed = Body::Value(Value::List(vec![Value::String("news".to_owned())]));
        assert_eq!(request(&mut net, client, "unsubscribe", removed, None), Outcome::Accepted);
        found.iter().for_each(|(id, _)| net.settle(client, link, *id, &Outcome::Accepted));
        net.grant(client, link, 2);
        publish(&mut net, sender, "else", "later");
        assert_eq!(accepted_texts(&mut net, client, link), ["later"]);
    }
}

#[test]
fn drain_is_answered_while_the_session_is_elsewhere() {
    let mut net = with_sessions(1);
    let client = pinned(&mut net, 0);
    subscribe(&mut net, client, "news");
    let link = net.receiver(client, "s", 10);
    let removed = Body::Value(Value::List(vec![Value::String("news".to_owned())]));
    assert_eq!(request(&mut net, client, "unsubscribe", removed, None), Outcome::Accepted);
    net.drain(client, link);
    let drains =
        net.clients[client].received.iter().filter(|event| matches!(event, ClientEvent::Flow { drain: true, .. }));
    assert_eq!(drains.count(), 1);
}

#[test]
fn receiver_of_an_unknown_name_gets_the_error_of_the_name() {
    for (shards, one, _) in LAYOUTS {
        let mut net = with_sessions(shards);
        let client = pinned(&mut net, one);
        net.receiver(client, "unknown", 10);
        net.pass(20);
        assert_eq!(ended_by(&mut net, client), "amqp:not-found");
    }
}

#[test]
fn request_beyond_the_sessions_of_a_space_is_refused_until_one_has_ended() {
    const SESSIONS_MAX: usize = 10_000;
    const TOGETHER: usize = 100;
    let mut net = with_sessions(1);
    let client = pinned(&mut net, 0);
    let link = net.sender(client, Some(SERVICE));
    let mut ask = |names: std::ops::Range<usize>, subject: &str, body: Body| {
        for name in names {
            net.send(client, link, &encoded(&name.to_string(), subject, body.clone(), None), false);
        }
        net.pass(20);
        net.outcomes(client).into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>()
    };
    let filters = || map(&[("news", 1)]);
    for begin in (0..SESSIONS_MAX).step_by(TOGETHER) {
        assert_eq!(ask(begin..begin + TOGETHER, "subscribe", filters()), [const { Outcome::Accepted }; TOGETHER]);
    }
    let refused = ask(SESSIONS_MAX..SESSIONS_MAX + 1, "subscribe", filters());
    let [Outcome::Rejected(Some(error))] = &*refused else { panic!("{refused:?}") };
    assert_eq!(error.condition.as_str(), "amqp:resource-limit-exceeded");
    assert_eq!(ask(0..1, "close", Body::Empty), [Outcome::Accepted]);
    assert_eq!(ask(SESSIONS_MAX..SESSIONS_MAX + 1, "subscribe", filters()), [Outcome::Accepted]);
}
