//! Attach answers of links to stored addresses (2.6.3, 3.5.3).

use enmasse_amqp::types::{Attach, Role, Source, Symbol, Target, Value, condition};
use enmasse_journal::queue::{Limits, Settings};
use enmasse_journal::stream;
use enmasse_router::core::{OpenQueue, Stream};
use enmasse_router::shard::{Fact, StoredAddressChange};

use crate::net::{ClientEvent, Net, blank};
use crate::{OPEN_SPACE, pinned};

/// The open space with a queue for two consumers, which lives on shard 0 in memory.
pub(crate) fn with_queue(shards: u16) -> Net {
    with_queue_of(shards, u32::MAX)
}

/// The plan of the open space with a queue for messages of at most `message_bytes`.
pub(crate) fn plan_of(message_bytes: u32) -> String {
    let queue = format!(
        "{{\"uid\": \"q\", \"name\": \"orders\", \"type\": \"queue\", \"durability\": \"memory\", \
         \"limits\": {{\"messageSize\": {message_bytes}}}}}"
    );
    OPEN_SPACE.replacen("\"addresses\": [", &format!("\"addresses\": [{queue},"), 1)
}

/// The same queue for messages of at most `message_bytes`.
pub(crate) fn with_queue_of(shards: u16, message_bytes: u32) -> Net {
    let mut net = Net::new(shards, &plan_of(message_bytes));
    let entry = net.entry("orders");
    assert_eq!(entry.home.claim(0), 0);
    let limits = Limits { consumers: 2, message_bytes, ..Limits::default() };
    let opened = OpenQueue::new("orders".into(), Settings { limits, ..Settings::default() }, None);
    net.shards[0].change_stored_addresses(vec![StoredAddressChange::Open(entry.declared(), Box::new(opened))]);
    net
}

fn receiver(source: Source) -> Attach {
    let source = Source { address: Some("orders".to_owned()), ..source };
    Attach { source: Some(Box::new(source)), ..blank(Role::Receiver, "r".to_owned()) }
}

fn answer(net: &mut Net, client: usize, attach: Attach) -> Attach {
    net.attach(client, attach);
    let answers = net.clients[client].received.iter().rev().find_map(|received| match received {
        ClientEvent::Attached { attach, .. } => Some((**attach).clone()),
        _ => None,
    });
    answers.expect("an attach")
}

fn described(name: &str, value: Value) -> Value {
    Value::Described(Box::new((Value::Symbol(Symbol::from(name)), value)))
}

fn names(symbols: &[Symbol]) -> Vec<&str> {
    symbols.iter().map(Symbol::as_str).collect()
}

#[test]
fn receiver_attach_answer_reports_the_terms_in_force() {
    let selector = "apache.org:selector-filter:string";
    let no_local = "apache.org:no-local-filter:list";
    for shard in [0, 1] {
        let mut net = with_queue(2);
        let client = pinned(&mut net, shard);
        let source = Source {
            distribution_mode: Some(Symbol::from("copy")),
            filter: vec![
                (Symbol::from("jms-selector"), described(selector, Value::String("a = 1".to_owned()))),
                (Symbol::from("no-local"), described(no_local, Value::List(Vec::new()))),
            ],
            outcomes: ["amqp:accepted:list", "amqp:modified:list", "x:y"].map(Symbol::from).to_vec(),
            ..Source::default()
        };
        let source = answer(&mut net, client, receiver(source)).source.expect("a source");
        assert_eq!(source.distribution_mode, Some(Symbol::from("copy")));
        assert_eq!(source.filter.len(), 1);
        assert_eq!(source.filter[0].0.as_str(), "jms-selector");
        assert_eq!(names(&source.capabilities), ["queue"]);
        assert_eq!(names(&source.outcomes), ["amqp:accepted:list", "amqp:modified:list"]);
    }
}

#[test]
fn default_receiver_gets_mode_move_and_all_outcomes() {
    let mut net = with_queue(1);
    let client = pinned(&mut net, 0);
    let source = answer(&mut net, client, receiver(Source::default())).source.expect("a source");
    assert_eq!(source.distribution_mode, Some(Symbol::from("move")));
    assert_eq!(source.outcomes.len(), 4);
}

#[test]
fn sender_attach_answer_reports_the_queue_capability() {
    let mut net = with_queue(1);
    let client = pinned(&mut net, 0);
    let mut target = Target::node(Some("orders".to_owned()));
    if let Target::Node { capabilities, .. } = &mut target {
        *capabilities = ["queue", "topic"].map(Symbol::from).to_vec();
    }
    let target = Some(Box::new(target));
    let properties = vec![(Symbol::from("enmasse:producer"), Value::String("p".to_owned()))];
    let attach = Attach { target, properties, ..blank(Role::Sender, "s".to_owned()) };
    let target = answer(&mut net, client, attach).target.expect("a target");
    let Target::Node { capabilities, .. } = *target else { panic!("{target:?}") };
    assert_eq!(names(&capabilities), ["queue"]);
}

#[test]
fn invalid_selector_or_priority_refuses_the_link() {
    let filter = |text: &str| Source {
        filter: vec![(Symbol::from("jms-selector"), Value::String(text.to_owned()))],
        ..Source::default()
    };
    let property = |name: &str| vec![(Symbol::from(name), Value::Null), (Symbol::from("priority"), Value::Bool(true))];
    let wrong_priority = Attach { properties: property("x"), ..receiver(Source::default()) };
    for attach in [receiver(filter("a = = 1")), wrong_priority] {
        let mut net = with_queue(1);
        let client = pinned(&mut net, 0);
        net.attach(client, attach);
        assert_eq!(net.detached(client).map(|error| error.condition), Some(condition::INVALID_FIELD));
    }
}

#[test]
fn browser_and_receiver_work_across_shards() {
    for (shards, at) in [(1, 0), (2, 1)] {
        let mut net = with_queue(shards);
        let (sender, client) = (pinned(&mut net, 0), pinned(&mut net, at));
        let out = net.sender(sender, Some("orders"));
        for body in [&b"one"[..], b"two"] {
            net.send(sender, out, &crate::message_to("orders", None, body), false);
        }
        let mut browser = receiver(Source { distribution_mode: Some(Symbol::from("copy")), ..Source::default() });
        browser.name = "b".to_owned();
        for (attach, expected) in [(browser, 2), (receiver(Source::default()), 2)] {
            let link = net.attach(client, attach);
            net.grant(client, link, 10);
            assert_eq!(net.messages(client).len(), expected);
        }
    }
}

#[test]
fn link_refused_by_a_queue_is_detached_and_its_connection_continues() {
    for shard in [0, 1] {
        let mut net = with_queue(2);
        let client = pinned(&mut net, shard);
        net.receiver(client, "orders", 1);
        net.attach(client, Attach { name: "second".to_owned(), ..receiver(Source::default()) });
        net.clients[client].received.clear();
        let third = answer(&mut net, client, Attach { name: "third".to_owned(), ..receiver(Source::default()) });
        assert_eq!(third.source, None);
        assert_eq!(net.detached(client).map(|error| error.condition), Some(condition::RESOURCE_LIMIT_EXCEEDED));
        assert!(matches!(&net.facts[..], [.., Fact::AttachRefused { address, .. }] if address == "orders"));
        let sender = net.sender(client, Some("orders"));
        assert!(net.sendable(client, sender) > 0, "the connection continues");
    }
}

/// The open space with a stream of two partitions, which lives on shard 0 in memory.
pub(crate) fn with_stream(shards: u16) -> Net {
    let stream = "{\"uid\": \"s\", \"name\": \"events\", \"type\": \"topic\", \"durability\": \"memory\", \
                  \"retention\": {\"bytes\": 1000000}, \"partitions\": 2}";
    let plan = OPEN_SPACE.replacen("\"addresses\": [", &format!("\"addresses\": [{stream},"), 1);
    let mut net = Net::new(shards, &plan);
    let entry = net.entry("events");
    assert_eq!(entry.home.claim(0), 0);
    let streaming = entry.storage.as_ref().and_then(|storage| storage.stream.as_ref()).expect("a stream");
    assert_eq!(streaming.settings.retention, stream::Retention { bytes: Some(1_000_000), age_ms: None });
    let stream = (0..streaming.partitions)
        .fold(Stream::new("events".into(), "s", streaming.settings.clone()), |stream, _| stream.with_partition(None));
    net.shards[0].change_stored_addresses(vec![StoredAddressChange::OpenStream(entry.declared(), Box::new(stream))]);
    net
}

fn reader(filters: &[(&str, Value)]) -> Attach {
    let filter = filters.iter().map(|(name, value)| (Symbol::from(*name), described(name, value.clone()))).collect();
    let source = Source { address: Some("events".to_owned()), filter, ..Source::default() };
    Attach { source: Some(Box::new(source)), ..blank(Role::Receiver, "r".to_owned()) }
}

const SPEC: &str = "rabbitmq:stream-offset-spec";
const PARTITION: &str = "enmasse:stream-partition";

#[test]
fn stream_reader_starts_at_the_position_of_its_filter_across_shards() {
    for (shards, at) in [(1, 0), (2, 1)] {
        let mut net = with_stream(shards);
        let (sender, client) = (pinned(&mut net, 0), pinned(&mut net, at));
        let out = net.sender(sender, Some("events"));
        for body in [&b"one"[..], b"two", b"three"] {
            net.send(sender, out, &crate::message_to("events", None, body), false);
        }
        let text = |text: &str| Value::String(text.to_owned());
        let cases = [
            (vec![(SPEC, text("first"))], 3),
            (vec![(SPEC, text("last"))], 2),
            (vec![], 0),
            (vec![(SPEC, Value::Ulong(0)), (PARTITION, Value::Uint(1))], 2),
            (vec![(SPEC, Value::Timestamp(0)), (PARTITION, Value::Int(0))], 1),
        ];
        for (number, (filters, expected)) in cases.into_iter().enumerate() {
            let attach = Attach { name: format!("r{number}"), ..reader(&filters) };
            let link = net.attach(client, attach);
            net.grant(client, link, 10);
            assert_eq!(net.messages(client).len(), expected, "{filters:?}");
        }
    }
}

#[test]
fn stream_reader_attach_answer_reports_partitions_and_terms() {
    for shard in [0, 1] {
        let mut net = with_stream(2);
        let client = pinned(&mut net, shard);
        let attach = answer(&mut net, client, reader(&[(SPEC, Value::String("first".to_owned()))]));
        let source = attach.source.expect("a source");
        assert_eq!(source.distribution_mode, Some(Symbol::from("copy")));
        assert_eq!((names(&source.capabilities), source.filter.len()), (vec!["topic"], 1));
        let property = attach.properties.iter().find(|(name, _)| name.as_str() == "enmasse:stream");
        let Some((_, Value::Map(reported))) = property else { panic!("{:?}", attach.properties) };
        assert_eq!(reported[0].1, Value::String("s".to_owned()));
        let Value::List(partitions) = &reported[1].1 else { panic!("{reported:?}") };
        assert_eq!(partitions.len(), 2);
    }
}

#[test]
fn invalid_stream_position_refuses_the_link() {
    let cases = [
        (vec![(SPEC, Value::Ulong(0))], condition::INVALID_FIELD),
        (vec![(SPEC, Value::String("middle".to_owned()))], condition::INVALID_FIELD),
        (vec![(SPEC, Value::Long(-1))], condition::INVALID_FIELD),
        (vec![(PARTITION, Value::Uint(2))], condition::INVALID_FIELD),
        (vec![(PARTITION, Value::Bool(true))], condition::INVALID_FIELD),
    ];
    for (filters, expected) in cases {
        for shard in [0, 1] {
            let mut net = with_stream(2);
            let client = pinned(&mut net, shard);
            net.attach(client, reader(&filters));
            assert_eq!(net.detached(client).map(|error| error.condition), Some(expected.clone()), "{filters:?}");
        }
    }
}
