//! Topics in a whole node: what their subscriptions keep over restarts, and Plans that change.

use std::time::Duration;

use enmasse_amqp::types::{Outcome, condition};
use enmasse_node::ListenerKind::Amqp;

use crate::harness::{Client, Site};
use crate::stored::{message, plan, site, store};
use crate::testing::Folder;

const NEWS: &str = r#"{"uid": "11111111-2222-3333-4444-555555555555", "name": "news", "type": "topic"}"#;
const OTHER: &str = r#"{"uid": "11111111-2222-3333-4444-666666666666", "name": "other", "type": "queue"}"#;
const DECLARED: &str = r#"{"uid": "11111111-2222-3333-4444-777777777777", "name": "news::all", "type": "subscription",
    "subscription": {"topic": "news", "maxConsumers": 1}}"#;

/// The last letters of the messages: texts of one letter are distinguishable, whatever the headers.
fn texts(client: &mut Client, count: usize) -> Vec<char> {
    let last = |message: Vec<u8>| char::from(*message.last().expect("a body"));
    (0..count).map(|_| last(client.receive().2)).collect()
}

fn stop(site: &Site) {
    site.node.stop(Duration::from_secs(2));
}

fn apply(site: &Site, version: u64, addresses: &str) {
    site.node.apply(&serde_json::from_str(&plan(version, addresses)).unwrap()).unwrap();
}

#[test]
fn durable_and_declared_subscriptions_keep_their_messages_over_a_restart() {
    for count in [1, 2] {
        let folder = Folder::new("topics");
        let first = site(count, &folder, &[NEWS, DECLARED].join(","));
        let mut client = first.client(Amqp);
        let link = client.durable("sub", "news", 10);
        client.receiver("news", 10);
        store(&mut client, "news", &["a", "b"]);
        for _ in 0..4 {
            let (from, delivery_id, payload) = client.receive();
            if from == link && payload == message("a") {
                client.settle(link, delivery_id, &Outcome::Accepted);
            }
        }
        client.close();
        stop(&first);
        let second = site(count, &folder, &[NEWS, DECLARED].join(","));
        let stored = |site: &Site| site.stats().addresses.iter().map(|line| line.stored).collect::<Vec<_>>();
        assert_eq!(stored(&second), [1, 2], "the topic's own, and the declared one");
        store(&mut second.client(Amqp), "news", &["c"]);
        let mut client = second.client(Amqp);
        client.durable("sub", "news", 10);
        assert_eq!(texts(&mut client, 2), ['b', 'c']);
        client.receiver("news::all", 10);
        assert_eq!(texts(&mut client, 3), ['a', 'b', 'c']);
    }
}

#[test]
fn closed_durable_subscription_is_absent_after_a_restart() {
    let folder = Folder::new("topics");
    let first = site(2, &folder, NEWS);
    let mut client = first.client(Amqp);
    let link = client.durable("sub", "news", 0);
    store(&mut client, "news", &["a"]);
    client.detach(link, true);
    assert_eq!(first.stats().addresses[0].stored, 0);
    client.close();
    stop(&first);
    let second = site(2, &folder, NEWS);
    assert_eq!(second.stats().journal.map(|journal| journal.alive_bytes), Some(0));
}

#[test]
fn recreated_topic_delivers_to_its_declared_subscription_again() {
    let folder = Folder::new("topics");
    let site = site(2, &folder, &[NEWS, DECLARED].join(","));
    let mut client = site.client(Amqp);
    let link = client.durable("sub", "news", 0);
    store(&mut client, "news", &["old"]);
    client.detach(link, false);
    apply(&site, 2, &[OTHER, DECLARED].join(","));
    assert_eq!(client.detached().map(|error| error.condition), Some(condition::RESOURCE_DELETED), "the sender");
    apply(&site, 3, &[&NEWS.replace("1111-2222", "9999-2222"), OTHER, DECLARED].join(","));
    let mut client = site.client(Amqp);
    client.durable("sub", "news", 10);
    client.receiver("news::all", 10);
    store(&mut client, "news", &["new"]);
    let mut got = texts(&mut client, 3);
    got.sort_unstable();
    assert_eq!(got, ['d', 'w', 'w']);
}

#[test]
fn subscriptions_of_a_topic_deleted_while_the_node_was_down_are_removed() {
    let folder = Folder::new("topics");
    let first = site(1, &folder, NEWS);
    let mut client = first.client(Amqp);
    client.durable("sub", "news", 0);
    store(&mut client, "news", &["old"]);
    client.close();
    stop(&first);
    stop(&site(1, &folder, OTHER));
    assert_eq!(site(1, &folder, NEWS).stats().addresses[0].stored, 0);
}

#[test]
fn changed_topic_settings_apply_to_existing_subscriptions() {
    let folder = Folder::new("topics");
    let site = site(1, &folder, NEWS);
    let mut client = site.client(Amqp);
    client.durable("sub", "news", 0);
    store(&mut client, "news", &["a", "b", "c"]);
    let ring = r#""limits": {"messages": 1, "onFull": "dropOldest"}, "name""#;
    apply(&site, 2, &NEWS.replace(r#""name""#, ring));
    store(&mut client, "news", &["d"]);
    let stats = site.stats();
    assert_eq!((stats.addresses[0].stored, stats.addresses[0].overrun), (1, 3));
}
