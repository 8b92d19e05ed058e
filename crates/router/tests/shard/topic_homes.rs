//! Topics of one space with different homes: names of durable subscriptions, and transactions.

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Attach, Outcome, condition};
use enmasse_journal::queue::{Limits, Settings};
use enmasse_router::core::OpenTopic;
use enmasse_router::shard::StoredAddressChange;

use crate::homes::with_log;
use crate::net::{ClientEvent, Net, message_to};
use crate::topics::{ask, by_name, client_of, durable, publish, received, refused, subscriber, with_topics_at};
use crate::transactions::{Controller, post_to, stored_in};
use crate::{LAYOUTS, OPEN_SPACE, pinned, rejected};

/// The layouts of clients, each with both orders of the homes of the two topics.
fn layouts() -> impl Iterator<Item = (Net, usize, usize)> {
    LAYOUTS.into_iter().flat_map(|(shards, one, other)| {
        let last = shards - 1;
        [[0, last], [last, 0]].map(|homes| (with_topics_at(shards, OPEN_SPACE, homes), one, other))
    })
}

fn requested(topic: &str) -> Attach {
    durable(subscriber("sub", topic, &[]))
}

fn shared(link: &str, topic: &str) -> Attach {
    durable(subscriber(link, topic, &["shared"]))
}

/// Messages in the subscriptions of both topics.
fn kept(net: &Net) -> Vec<u64> {
    let of = |name: &str| {
        let key = net.entry(name).key;
        let stats = net.shards.iter().flat_map(|shard| shard.queue_stats());
        stats.filter(|(of, _)| *of == key).map(|(_, stats)| stats.ready).sum()
    };
    ["news", "else"].map(of).to_vec()
}

#[test]
fn name_identifies_one_subscription_whatever_the_homes_of_its_topics() {
    for (mut net, producer, consumer) in layouts() {
        let publisher = pinned(&mut net, producer);
        let client = client_of(&mut net, consumer, "me");
        let (link, _) = ask(&mut net, client, requested("news"));
        net.leave(client, link);
        publish(&mut net, publisher, "news");
        assert_eq!(kept(&net), [1, 0]);
        let (link, source) = ask(&mut net, client, requested("else"));
        assert_eq!(source.expect("a source").address.as_deref(), Some("else"));
        assert_eq!(received(&mut net, client, link), 0);
        net.leave(client, link);
        publish(&mut net, publisher, "news");
        publish(&mut net, publisher, "else");
        assert_eq!(kept(&net), [0, 1], "the one of the other topic has ended with its messages");
        let other = client_of(&mut net, producer, "me");
        let (link, source) = ask(&mut net, other, by_name("sub"));
        assert_eq!(source.expect("a source").address.as_deref(), Some("else"));
        assert_eq!(received(&mut net, other, link), 1);
        net.detach(other, link);
        assert_eq!(refused(&mut net, other, by_name("sub")), condition::NOT_FOUND);
        publish(&mut net, publisher, "else");
        assert_eq!(kept(&net), [0, 0], "it was closed");
    }
}

#[test]
fn link_that_its_topic_refuses_ends_no_subscription_of_another_topic() {
    let no_consumer = Limits { consumers: 0, ..Limits::default() };
    let no_subscription = Limits { subscriptions: 0, ..Limits::default() };
    for limits in [no_consumer, no_subscription] {
        for (mut net, producer, consumer) in layouts() {
            let entry = net.entry("else");
            let settings = Settings { limits, ..Settings::default() };
            let changed = OpenTopic::new("else".into(), settings, false);
            let changed = StoredAddressChange::Topic(entry.declared(), Box::new(changed));
            let home = usize::from(entry.home.get().expect("a home"));
            net.shards[home].change_stored_addresses(vec![changed]);
            let publisher = pinned(&mut net, producer);
            let client = client_of(&mut net, consumer, "me");
            let (link, _) = ask(&mut net, client, requested("news"));
            net.leave(client, link);
            publish(&mut net, publisher, "news");
            assert_eq!(refused(&mut net, client, requested("else")), condition::RESOURCE_LIMIT_EXCEEDED);
            assert_eq!(kept(&net), [1, 0], "its message is still there");
            let (link, _) = ask(&mut net, client, requested("news"));
            assert_eq!(received(&mut net, client, link), 1);
        }
    }
}

#[test]
fn subscription_in_use_is_not_replaced_by_one_at_another_home() {
    for (mut net, producer, consumer) in layouts() {
        let (one, other) = (client_of(&mut net, consumer, "me"), client_of(&mut net, producer, "me"));
        let (link, _) = ask(&mut net, one, shared("sub|1", "news"));
        assert_eq!(refused(&mut net, other, shared("sub|2", "else")), condition::RESOURCE_LOCKED);
        assert_eq!(refused(&mut net, other, durable(subscriber("sub", "else", &[]))), condition::NOT_ALLOWED);
        publish(&mut net, other, "news");
        assert_eq!(received(&mut net, one, link), 1);
        net.leave(one, link);
        let (_, source) = ask(&mut net, other, shared("sub|2", "else"));
        assert!(source.is_some());
        assert_eq!(refused(&mut net, one, shared("sub|1", "news")), condition::RESOURCE_LOCKED);
    }
}

/// Whether the last attach of a client was accepted.
fn is_attached(net: &Net, client: usize) -> bool {
    let attached = net.clients[client].received.iter().rev().find_map(|received| match received {
        ClientEvent::Attached { attach, .. } => Some(attach.source.is_some()),
        _ => None,
    });
    attached.expect("an answer")
}

#[test]
fn two_links_that_race_for_a_name_get_one_subscription() {
    for first_leaves in [false, true] {
        for (mut net, producer, consumer) in layouts() {
            let clients = [client_of(&mut net, consumer, "me"), client_of(&mut net, producer, "me")];
            let (link, _) = ask(&mut net, clients[0], shared("sub|0", "news"));
            if !first_leaves {
                net.detach(clients[0], link);
            }
            clients.iter().for_each(|client| net.clients[*client].received.clear());
            let mut links = [LinkId(0); 2];
            net.at_once(|net| {
                if first_leaves {
                    net.leave(clients[0], link);
                }
                for (number, topic) in ["news", "else"].into_iter().enumerate() {
                    let name = format!("sub|{}", number + 1);
                    links[number] = net.attach(clients[number], shared(&name, topic));
                }
            });
            let attached = clients.map(|client| is_attached(&net, client));
            assert_ne!(attached[0], attached[1], "one of them");
            let winner = usize::from(attached[1]);
            net.leave(clients[winner], links[winner]);
            publish(&mut net, clients[0], "news");
            publish(&mut net, clients[0], "else");
            assert_eq!(kept(&net), if winner == 0 { [1, 0] } else { [0, 1] });
            let (link, _) = ask(&mut net, clients[1 - winner], by_name("sub|9"));
            assert_eq!(received(&mut net, clients[1 - winner], link), 1);
        }
    }
}

#[test]
fn link_that_ends_while_it_waits_for_a_name_leaves_no_subscription() {
    for (mut net, producer, consumer) in layouts() {
        let (one, other) = (client_of(&mut net, consumer, "me"), client_of(&mut net, producer, "me"));
        let (link, _) = ask(&mut net, one, requested("news"));
        net.leave(one, link);
        net.at_once(|net| {
            let link = net.attach(other, requested("else"));
            net.leave(other, link);
        });
        let (link, source) = ask(&mut net, one, requested("news"));
        assert!(source.is_some());
        net.leave(one, link);
        publish(&mut net, one, "news");
        publish(&mut net, one, "else");
        assert_eq!(kept(&net), [1, 0]);
    }
}

const TOPICS: &str = r#"{"uid": "a", "name": "news", "type": "topic", "deadletter": "dead"},
    {"uid": "b", "name": "else", "type": "topic", "deadletter": "dead"},
    {"uid": "c", "name": "dead", "type": "deadletter"}, {"uid": "d", "name": "orders", "type": "queue"},"#;

/// Two shards with a log and topics with different homes.
fn logged() -> Net {
    let net = with_log(2, TOPICS);
    let homes = ["news", "else"].map(|name| net.entry(name).home.get());
    assert_ne!(homes[0], homes[1]);
    net
}

#[test]
fn transaction_with_messages_for_several_topics_takes_effect_at_all_homes_or_at_none() {
    for shard in [0, 1] {
        for fail in [false, true] {
            let mut net = logged();
            let client = client_of(&mut net, shard, "me");
            for topic in ["news", "else"] {
                let (link, _) = ask(&mut net, client, durable(subscriber(topic, topic, &[])));
                net.leave(client, link);
            }
            let control = Controller::new(&mut net, client);
            let outs = ["news", "else", "orders"].map(|name| (name, net.sender(client, Some(name))));
            let txn = control.declare(&mut net);
            for (name, out) in outs {
                post_to(&mut net, client, out, &txn, &message_to(name, None, b"m"));
            }
            assert_eq!(kept(&net), [0, 0], "nothing is there before the commit");
            assert_eq!(control.discharge(&mut net, &txn, fail), Outcome::Accepted);
            let expected = u64::from(!fail);
            assert_eq!((kept(&net), stored_in(&mut net, "orders")), (vec![expected; 2], usize::from(!fail)));
            let (link, _) = ask(&mut net, client, by_name("else"));
            assert_eq!(received(&mut net, client, link), usize::from(!fail));
        }
    }
}

#[test]
fn rejected_messages_of_subscriptions_at_all_homes_reach_the_dead_letter() {
    let mut net = logged();
    let client = client_of(&mut net, 0, "me");
    for topic in ["news", "else"] {
        let (link, _) = ask(&mut net, client, durable(subscriber(topic, topic, &[])));
        publish(&mut net, client, topic);
        net.messages(client);
        net.grant(client, link, 10);
        let [(id, _)] = net.messages(client)[..] else { panic!("one message") };
        net.settle(client, link, id, &rejected());
    }
    assert_eq!((stored_in(&mut net, "dead"), kept(&net)), (2, vec![0, 0]));
}
