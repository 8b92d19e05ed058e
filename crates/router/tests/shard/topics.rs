//! Links to topics as JMS clients attach them: the owner of the subscription, the answer, and its
//! end.

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{
    Attach, Open, Outcome, Role, Source, Symbol, Target, TerminusDurability, TerminusExpiryPolicy, Value, condition,
};
use enmasse_journal::queue::Settings;
use enmasse_router::core::OpenTopic;
use enmasse_router::shard::{Peer, StoredAddressChange};

use crate::net::{ClientEvent, Net, blank, message_to};
use crate::{LAYOUTS, OPEN_SPACE, pinned};

const SELECTOR: &str = "apache.org:selector-filter:string";

/// The open space with two topics in memory, which live on shard 0.
pub(crate) fn with_topics(shards: u16) -> Net {
    with_topics_in(shards, OPEN_SPACE)
}

fn with_topics_in(shards: u16, space: &str) -> Net {
    with_topics_at(shards, space, [0, 0])
}

/// That space with the two topics, which have these homes.
pub(crate) fn with_topics_at(shards: u16, space: &str, homes: [u16; 2]) -> Net {
    let topic =
        |name: &str| format!(r#"{{"uid": "{name}", "name": "{name}", "type": "topic", "durability": "memory"}},"#);
    let topics = topic("news") + &topic("else");
    let mut net = Net::new(shards, &space.replacen("\"addresses\": [", &format!("\"addresses\": [{topics}"), 1));
    for (name, home) in ["news", "else"].into_iter().zip(homes) {
        let entry = net.entry(name);
        assert_eq!(entry.home.claim(home), home);
        let opened = StoredAddressChange::Topic(
            entry.declared(),
            Box::new(OpenTopic::new(name.into(), Settings::default(), false)),
        );
        net.shards[usize::from(home)].change_stored_addresses(vec![opened]);
    }
    net
}

/// A client of that container that stays on its shard.
pub(crate) fn client_of(net: &mut Net, shard: usize, container: &str) -> usize {
    let client = net.plain(shard, Open { container_id: container.to_owned(), ..Open::default() });
    net.begin(client);
    net.sender(client, None);
    client
}

pub(crate) fn subscriber(link: &str, address: &str, capabilities: &[&str]) -> Attach {
    let capabilities = capabilities.iter().map(|name| Symbol::from(*name)).collect();
    let copy = Some(Symbol::from("copy"));
    let source =
        Source { address: Some(address.to_owned()), capabilities, distribution_mode: copy, ..Source::default() };
    Attach { source: Some(Box::new(source)), ..blank(Role::Receiver, link.to_owned()) }
}

pub(crate) fn durable(attach: Attach) -> Attach {
    let source = attach.source.map(|source| Source {
        durable: TerminusDurability::UnsettledState,
        expiry_policy: TerminusExpiryPolicy::Never,
        ..*source
    });
    Attach { source: source.map(Box::new), ..attach }
}

fn selecting(attach: Attach, text: &str) -> Attach {
    let value = Value::Described(Box::new((Value::Symbol(Symbol::from(SELECTOR)), Value::String(text.to_owned()))));
    let filter = vec![(Symbol::from("jms-selector"), value)];
    Attach { source: attach.source.map(|source| Box::new(Source { filter, ..*source })), ..attach }
}

pub(crate) fn by_name(link: &str) -> Attach {
    Attach { source: None, ..blank(Role::Receiver, link.to_owned()) }
}

/// Attaches; returns the link and the answer.
pub(crate) fn ask(net: &mut Net, client: usize, attach: Attach) -> (LinkId, Option<Source>) {
    net.clients[client].received.clear();
    let link = net.attach(client, attach);
    let answer = net.clients[client].received.iter().find_map(|received| match received {
        ClientEvent::Attached { attach, .. } => Some(attach.source.as_deref().cloned()),
        _ => None,
    });
    (link, answer.expect("an attach"))
}

pub(crate) fn refused(net: &mut Net, client: usize, attach: Attach) -> Symbol {
    let (_, source) = ask(net, client, attach);
    assert_eq!(source, None);
    net.detached(client).expect("a detach with an error").condition
}

pub(crate) fn publish(net: &mut Net, client: usize, to: &str) {
    let link = net.sender(client, Some(to));
    net.send(client, link, &message_to(to, None, b"x"), false);
    assert_eq!(net.outcomes(client).pop().map(|(_, outcome)| outcome), Some(Outcome::Accepted));
    net.detach(client, link);
}

/// Grants ten credits; returns the number of messages received.
pub(crate) fn received(net: &mut Net, client: usize, link: LinkId) -> usize {
    net.messages(client);
    net.grant(client, link, 10);
    let got = net.messages(client);
    got.iter().for_each(|(id, _)| net.settle(client, link, *id, &Outcome::Accepted));
    got.len()
}

fn names(source: &Source) -> Vec<&str> {
    source.capabilities.iter().map(Symbol::as_str).collect()
}

#[test]
fn durable_subscription_belongs_to_its_container_and_outlives_its_connection() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = with_topics(shards);
        let publisher = pinned(&mut net, producer);
        let client = client_of(&mut net, consumer, "me");
        let requested = || durable(subscriber("sub", "news", &["topic"]));
        let (link, source) = ask(&mut net, client, requested());
        let source = source.expect("a source");
        assert_eq!(source.durable, TerminusDurability::UnsettledState);
        assert_eq!(source.expiry_policy, TerminusExpiryPolicy::Never);
        assert_eq!((names(&source), &source.distribution_mode), (vec!["topic"], &Some(Symbol::from("copy"))));
        net.leave(client, link);
        publish(&mut net, publisher, "news");
        let (link, _) = ask(&mut net, client, requested());
        assert_eq!(received(&mut net, client, link), 1);
        publish(&mut net, publisher, "news");
        net.cut(client);
        publish(&mut net, publisher, "news");
        let other = client_of(&mut net, consumer, "other");
        let (link, _) = ask(&mut net, other, requested());
        assert_eq!(received(&mut net, other, link), 0, "another container has its own of that name");
        let client = client_of(&mut net, consumer, "me");
        let (link, _) = ask(&mut net, client, requested());
        assert_eq!(received(&mut net, client, link), 2);
        net.detach(client, link);
        publish(&mut net, publisher, "news");
        let (link, _) = ask(&mut net, client, requested());
        assert_eq!(received(&mut net, client, link), 0, "it was closed");
    }
}

#[test]
fn subscription_in_use_is_stolen_by_an_attach_of_its_own_container() {
    for (shards, _, consumer) in LAYOUTS {
        let mut net = with_topics(shards);
        let first = client_of(&mut net, consumer, "me");
        let second = client_of(&mut net, 0, "me");
        let requested = || durable(subscriber("sub", "news", &[]));
        let (link, _) = ask(&mut net, first, requested());
        net.grant(first, link, 10);
        publish(&mut net, second, "news");
        assert_eq!(net.messages(first).len(), 1);
        // An attach without a source steals no link.
        assert_eq!(refused(&mut net, second, by_name("sub")).as_str(), condition::RESOURCE_LOCKED.as_str());
        let (link, _) = ask(&mut net, second, requested());
        assert_eq!(net.detached(first).map(|error| error.condition), Some(condition::LINK_STOLEN));
        assert_eq!(received(&mut net, second, link), 1, "it gets the message that the older link held");
    }
}

#[test]
fn shared_subscription_is_identified_by_the_link_name_before_the_bar() {
    for durability in [true, false] {
        for (shards, producer, consumer) in LAYOUTS {
            let mut net = with_topics(shards);
            let publisher = pinned(&mut net, producer);
            let (one, other) = (client_of(&mut net, consumer, "a"), client_of(&mut net, producer, "b"));
            let requested = |link: &str, capabilities: &[&str]| {
                let attach = subscriber(link, "news", capabilities);
                if durability { durable(attach) } else { attach }
            };
            let global = ["topic", "shared", "global"];
            let (first, source) = ask(&mut net, one, requested("sub|global", &global));
            assert_eq!(names(&source.expect("a source")), global);
            let (second, _) = ask(&mut net, other, requested("sub|global2", &global));
            let (own, source) = ask(&mut net, one, requested("sub|2", &["shared"]));
            assert_eq!(names(&source.expect("a source")), ["topic", "shared"]);
            net.grant(one, first, 1);
            net.grant(other, second, 1);
            for _ in 0..2 {
                publish(&mut net, publisher, "news");
            }
            assert_eq!((net.messages(one).len(), net.messages(other).len()), (1, 1), "one each");
            assert_eq!(received(&mut net, one, own), 2, "the subscription of the container has its own copies");
        }
    }
}

#[test]
fn durable_subscription_can_be_deleted_by_its_name() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = with_topics(shards);
        let publisher = pinned(&mut net, producer);
        let client = client_of(&mut net, consumer, "me");
        assert_eq!(refused(&mut net, client, by_name("sub")).as_str(), condition::NOT_FOUND.as_str());
        for (link, capabilities) in [("sub", &[][..]), ("sub|global", &["shared", "global"])] {
            let requested = || selecting(durable(subscriber(link, "news", capabilities)), "a = 1 OR TRUE");
            let (attached, before) = ask(&mut net, client, requested());
            let another = client_of(&mut net, producer, "me");
            assert_eq!(refused(&mut net, another, by_name(link)).as_str(), condition::RESOURCE_LOCKED.as_str());
            net.leave(client, attached);
            publish(&mut net, publisher, "news");
            let (attached, source) = ask(&mut net, client, by_name(link));
            let (source, before) = (source.expect("a source"), before.expect("a source"));
            assert_eq!((&source.address, &source.filter), (&before.address, &before.filter));
            assert_eq!((source.durable, names(&source)), (before.durable, names(&before)));
            net.detach(client, attached);
            assert_eq!(refused(&mut net, client, by_name(link)).as_str(), condition::NOT_FOUND.as_str());
            let (attached, _) = ask(&mut net, client, requested());
            assert_eq!(received(&mut net, client, attached), 0);
            net.detach(client, attached);
        }
    }
}

#[test]
fn another_topic_or_selector_under_the_same_name_recreates_the_subscription() {
    let mut net = with_topics(1);
    let client = client_of(&mut net, 0, "me");
    for attach in [
        durable(subscriber("sub", "news", &[])),
        durable(subscriber("sub", "else", &[])),
        selecting(durable(subscriber("sub", "else", &[])), "TRUE"),
    ] {
        let (link, _) = ask(&mut net, client, attach.clone());
        assert_eq!(received(&mut net, client, link), 0);
        net.leave(client, link);
        publish(&mut net, client, "news");
        publish(&mut net, client, "else");
        let (link, _) = ask(&mut net, client, attach);
        assert_eq!(received(&mut net, client, link), 1);
        net.leave(client, link);
        publish(&mut net, client, "news");
        publish(&mut net, client, "else");
    }
}

/// The open space closed, with users and the names that they may use.
fn closed_space(users: &[(&str, &str)]) -> String {
    let user = |(name, pattern): &(&str, &str)| {
        format!(r#"{{"name": "{name}", "rights": [{{"pattern": "{pattern}", "operations": ["send", "recv"]}}]}}"#)
    };
    let users = users.iter().map(user).collect::<Vec<_>>().join(", ");
    let standard =
        OPEN_SPACE.replace("\"type\": \"none\", \"anonymous\": true", "\"type\": \"standard\", \"anonymous\": false");
    standard.replace("\"users\": []", &format!("\"users\": [{users}]"))
}

/// `ann` may use both topics, `bob` the second, which has this home.
fn with_users(shards: u16, home: u16) -> Net {
    with_topics_at(shards, &closed_space(&[("ann", "#"), ("bob", "else")]), [0, home])
}

fn user(net: &mut Net, shard: usize, name: &str) -> usize {
    let peer = Peer { vouched: Some(("default".into(), Some(name.into()))), ..Peer::default() };
    let client = net.client(shard, peer, None, Open { container_id: "me".into(), ..Open::default() });
    net.begin(client);
    net.sender(client, None);
    client
}

#[test]
fn subscription_of_another_user_requires_the_right_to_its_topic() {
    let with_home = |(shards, producer, consumer)| (0..shards).map(move |home| (shards, home, producer, consumer));
    for (shards, home, producer, consumer) in LAYOUTS.into_iter().flat_map(with_home) {
        let mut net = with_users(shards, home);
        let (ann, bob) = (user(&mut net, producer, "ann"), user(&mut net, consumer, "bob"));
        let requested = |topic: &str| durable(subscriber("sub", topic, &[]));
        let (link, _) = ask(&mut net, ann, requested("news"));
        let refusal = condition::UNAUTHORIZED_ACCESS;
        assert_eq!(refused(&mut net, bob, requested("else")), refusal, "bob does not learn that it is in use");
        net.leave(ann, link);
        publish(&mut net, ann, "news");
        assert_eq!(refused(&mut net, bob, requested("else")), refusal);
        assert_eq!(refused(&mut net, bob, by_name("sub")), refusal);
        let (link, _) = ask(&mut net, ann, requested("news"));
        assert_eq!(received(&mut net, ann, link), 1, "it still exists");
        net.leave(ann, link);
        let (link, _) = ask(&mut net, ann, requested("else"));
        net.leave(ann, link);
        publish(&mut net, ann, "else");
        let (link, source) = ask(&mut net, bob, requested("else"));
        assert!(source.is_some() && received(&mut net, bob, link) == 1, "the right to its topic suffices");
    }
}

#[test]
fn receiver_on_a_subscription_without_its_topic_is_told_the_full_name() {
    let declared = r#""addresses": [{"uid": "b", "name": "news::bills", "type": "subscription",
        "durability": "memory", "subscription": {"topic": "news", "maxConsumers": 1}},"#;
    let closed = closed_space(&[("ann", "#"), ("bob", "bills")]);
    let mut net = with_topics_in(1, &closed.replacen("\"addresses\": [", declared, 1));
    let mut told = |name: &str, attach: Attach| {
        let client = user(&mut net, 0, name);
        net.attach(client, attach);
        let error = net.detached(client).expect("a detach with an error");
        assert_eq!(error.condition, condition::NOT_FOUND);
        error.description.unwrap_or_default()
    };
    let wanted = || subscriber("sub", "bills", &[]);
    let text = told("ann", wanted());
    assert!(text.ends_with("receive from the subscription \"news::bills\""), "{text}");
    let text = told("bob", wanted());
    assert!(text.ends_with("declare it first"), "without the right to it: {text}");
    let target = Some(Box::new(Target::node(Some("bills".to_owned()))));
    let text = told("ann", Attach { target, ..blank(Role::Sender, "out".to_owned()) });
    assert!(text.ends_with("declare it first"), "clients cannot send to it: {text}");
}

#[test]
fn wildcard_subscribers_get_messages_to_names_below_a_topic() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = with_topics(shards);
        let publisher = pinned(&mut net, producer);
        let client = client_of(&mut net, consumer, "me");
        let wanted = [("news/#", 4), ("news/+", 2), ("news", 1), ("+/a/b", 1), ("news/a/b", 1), ("#", 5)];
        let links = wanted.map(|(name, count)| (ask(&mut net, client, subscriber(name, name, &[])).0, count));
        for to in ["news", "news/a", "news/b", "news/a/b", "else"] {
            publish(&mut net, publisher, to);
        }
        for (link, count) in links {
            assert_eq!(received(&mut net, client, link), count, "{link:?}");
        }
    }
}

#[test]
fn durable_wildcard_subscription_and_numbered_topic_producer_are_refused() {
    let mut net = with_topics(1);
    let client = client_of(&mut net, 0, "me");
    let several = durable(subscriber("sub", "#", &[]));
    assert_eq!(refused(&mut net, client, several).as_str(), condition::NOT_IMPLEMENTED.as_str());
    let mut attach = blank(Role::Sender, "p".to_owned());
    attach.target = Some(Box::new(Target::node(Some("news".to_owned()))));
    attach.properties = vec![(Symbol::from("enmasse:producer"), Value::String("p".to_owned()))];
    net.clients[client].received.clear();
    net.attach(client, attach);
    let error = net.detached(client).expect("a detach");
    assert_eq!(error.condition.as_str(), condition::NOT_IMPLEMENTED.as_str());
}

/// A no-local filter in the forms that clients use: the descriptor's name, its number, or no
/// descriptor.
fn without_local(attach: Attach, way: usize) -> Attach {
    let described = |descriptor, value| Value::Described(Box::new((descriptor, value)));
    let name = Symbol::from("apache.org:no-local-filter:list");
    let filter = match way {
        0 => (Symbol::from("x"), described(Value::Symbol(name), Value::List(Vec::new()))),
        1 => {
            let text = Value::String("NoLocalFilter{}".to_owned());
            (Symbol::from("no-local"), described(Value::Ulong(0x0000_468C_0000_0003), text))
        }
        _ => (Symbol::from("jms-no-local"), Value::Bool(true)),
    };
    let source = attach.source.map(|source| Box::new(Source { filter: vec![filter], ..*source }));
    Attach { source, ..attach }
}

#[test]
fn no_local_subscription_gets_only_messages_of_other_connections() {
    for (shards, producer, consumer) in LAYOUTS {
        for way in 0..3 {
            let mut net = with_topics(shards);
            let (own, other) = (client_of(&mut net, consumer, "me"), client_of(&mut net, producer, "me"));
            let (link, answer) = ask(&mut net, own, without_local(subscriber("r", "news", &[]), way));
            assert_eq!(answer.expect("a source").filter.len(), 1, "it is in force");
            let (wide, _) = ask(&mut net, own, without_local(subscriber("w", "#", &[]), way));
            let (all, _) = ask(&mut net, own, subscriber("a", "news", &[]));
            publish(&mut net, own, "news");
            let out = net.sender(own, Some("news"));
            net.send(own, out, &message_to("news", None, b"by a link of its own"), false);
            assert_eq!(received(&mut net, own, link), 0);
            assert_eq!(received(&mut net, own, all), 2);
            publish(&mut net, other, "news");
            let links = |received: &ClientEvent| {
                if let ClientEvent::Message { link, .. } = received { Some(*link) } else { None }
            };
            let mut came: Vec<LinkId> = net.clients[own].received.iter().filter_map(links).collect();
            came.sort_unstable_by_key(|link| link.0);
            assert_eq!(came, [link, all], "both had credit left");
            assert_eq!(received(&mut net, own, wide), 1);
        }
    }
}

#[test]
fn durable_no_local_subscription_gets_no_message_of_its_container() {
    let mut net = with_topics(1);
    let (one, same) = (client_of(&mut net, 0, "me"), client_of(&mut net, 0, "me"));
    let other = client_of(&mut net, 0, "other");
    let requested = || without_local(durable(subscriber("sub", "news", &[])), 1);
    let (link, _) = ask(&mut net, one, requested());
    net.leave(one, link);
    for client in [one, same, other] {
        publish(&mut net, client, "news");
    }
    let (link, _) = ask(&mut net, one, requested());
    assert_eq!(received(&mut net, one, link), 1);
    net.leave(one, link);
    let (link, _) = ask(&mut net, one, durable(subscriber("sub", "news", &[])));
    publish(&mut net, one, "news");
    assert_eq!(received(&mut net, one, link), 1, "without the filter it is a new subscription");
}

#[test]
fn shared_subscription_ignores_the_no_local_filter() {
    let mut net = with_topics(1);
    let client = client_of(&mut net, 0, "me");
    let (link, answer) = ask(&mut net, client, without_local(subscriber("sub", "news", &["shared"]), 1));
    assert_eq!(answer.expect("a source").filter, []);
    publish(&mut net, client, "news");
    assert_eq!(received(&mut net, client, link), 1);
}

/// Its home on another shard must not send deliveries again and again that its connection returns.
#[test]
fn full_connection_waits_until_its_client_reads() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = with_topics(shards);
        let (publisher, client) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let (link, _) = ask(&mut net, client, subscriber("r", "news", &[]));
        let out = net.sender(publisher, Some("news"));
        for _ in 0..40 {
            net.send(publisher, out, &message_to("news", None, &[7; 50_000]), true);
        }
        net.clients[client].deaf = true;
        net.grant(client, link, 30);
        net.listen(client);
        assert_eq!(net.messages(client).len(), 30);
    }
}
