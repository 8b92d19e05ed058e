//! Stored addresses in a whole node: threads of the journal, restarts, statistics, and Plans that
//! change.

use std::path::Path;

use enmasse_amqp::types::{Modified, Outcome, condition};
use enmasse_node::ListenerKind::Amqp;
use enmasse_node::{EventKind, Node, NodeConfig, Reason};

use crate::harness::{Client, ClientEvent, Site, workers};
use crate::testing::Folder;

/// An AMQP message whose body is this text.
pub(crate) fn message(text: &str) -> Vec<u8> {
    let mut bytes = vec![0x00, 0x53, 0x75, 0xa0, text.len() as u8];
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

pub(crate) fn plan(version: u64, addresses: &str) -> String {
    format!(
        r#"{{"version": {version}, "spaces": [{{"uid": "s", "names": ["default", "default.default"],
            "authentication": {{"type": "none", "anonymous": true, "mechanisms": []}}, "addresses": [{addresses}]}}]}}"#
    )
}

pub(crate) const ORDERS: &str = r#"{"uid": "11111111-2222-3333-4444-555555555555", "name": "orders", "type": "queue"}"#;
pub(crate) const DIRECT: &str = r#"{"uid": "a", "name": "direct", "type": "anycast"}"#;

fn with_journal(count: u16, folder: &Path) -> NodeConfig {
    NodeConfig { journal: Some(folder.to_owned()), ..workers(count) }
}

pub(crate) fn site(count: u16, folder: &Folder, addresses: &str) -> Site {
    Site::new(&with_journal(count, &folder.path("journal")), &plan(1, addresses))
}

pub(crate) fn store(client: &mut Client, address: &str, texts: &[&str]) {
    let out = client.sender(Some(address));
    for text in texts {
        client.send(out, &message(text), false);
        assert_eq!(client.outcome(), Outcome::Accepted);
    }
}

#[test]
fn accepted_messages_survive_a_restart_and_consumed_ones_do_not() {
    for count in [1, 2] {
        let folder = Folder::new("stored");
        let first = site(count, &folder, ORDERS);
        store(&mut first.client(Amqp), "orders", &["a", "b", "c"]);
        let mut consumer = first.client(Amqp);
        let into = consumer.receiver("orders", 1);
        let (_, delivery_id, payload) = consumer.receive();
        assert_eq!(payload, message("a"));
        consumer.settle(into, delivery_id, &Outcome::Accepted);
        consumer.close();
        first.node.stop(std::time::Duration::from_secs(2));
        let second = site(count, &folder, ORDERS);
        assert_eq!(second.stats().addresses[0].stored, 2);
        let mut consumer = second.client(Amqp);
        consumer.receiver("orders", 10);
        assert_eq!([consumer.receive().2, consumer.receive().2], [message("b"), message("c")]);
    }
}

#[test]
fn statistics_match_the_messages_stored_and_delivered() {
    let folder = Folder::new("stored");
    let site = site(2, &folder, ORDERS);
    store(&mut site.client(Amqp), "orders", &["a", "b"]);
    let mut consumer = site.client(Amqp);
    let into = consumer.receiver("orders", 1);
    let (_, delivery_id, _) = consumer.receive();
    let line = site.stats().addresses[0].clone();
    assert_eq!((line.stored, line.in_flight, line.enqueued, line.receivers), (2, 1, 2, 1));
    assert!(line.stored_bytes >= 12 && line.oldest_ms > 0);
    let failed = Outcome::Modified(Box::new(Modified { delivery_failed: true, ..Modified::default() }));
    consumer.settle(into, delivery_id, &failed);
    consumer.close();
    assert_eq!(site.stats().addresses[0].redelivered, 1);
    assert!(site.stats().journal.is_some_and(|journal| journal.syncs > 0 && journal.stopped.is_none()));
}

#[test]
fn connection_serves_a_direct_and_a_stored_address() {
    let folder = Folder::new("stored");
    let site = site(2, &folder, &[ORDERS, DIRECT].join(","));
    let mut client = site.client(Amqp);
    store(&mut client, "orders", &["stored"]);
    let mut consumer = site.client(Amqp);
    consumer.receiver("direct", 1);
    consumer.receiver("orders", 1);
    let out = client.sender(Some("direct"));
    client.send(out, &message("direct"), true);
    let mut got = [consumer.receive().2, consumer.receive().2];
    got.sort();
    assert_eq!(got, [message("direct"), message("stored")]);
}

#[test]
fn queue_deleted_and_created_again_is_empty() {
    let folder = Folder::new("stored");
    let site = site(1, &folder, ORDERS);
    let mut client = site.client(Amqp);
    store(&mut client, "orders", &["old"]);
    site.node.apply(&serde_json::from_str(&plan(2, DIRECT)).unwrap()).unwrap();
    assert_eq!(client.detached().map(|error| error.condition), Some(condition::RESOURCE_DELETED));
    let other = ORDERS.replace("1111", "9999");
    site.node.apply(&serde_json::from_str(&plan(3, &other)).unwrap()).unwrap();
    assert_eq!(site.stats().addresses[0].stored, 0);
}

#[test]
fn an_address_deleted_while_the_node_was_down_loses_its_messages() {
    let folder = Folder::new("stored");
    let first = site(1, &folder, ORDERS);
    store(&mut first.client(Amqp), "orders", &["old"]);
    first.node.stop(std::time::Duration::from_secs(2));
    site(1, &folder, DIRECT).node.stop(std::time::Duration::from_secs(2));
    assert_eq!(site(1, &folder, ORDERS).stats().addresses[0].stored, 0);
}

#[test]
fn rejected_message_goes_to_the_dead_letter_address_of_the_plan() {
    let folder = Folder::new("stored");
    let site = site(2, &folder, ORDERS);
    let dead = r#"{"uid": "d", "name": "dlq", "type": "deadletter"}"#;
    let orders = ORDERS.replace("}", r#", "deadletter": "dlq"}"#);
    site.node.apply(&serde_json::from_str(&plan(2, &[&orders[..], dead].join(","))).unwrap()).unwrap();
    let mut client = site.client(Amqp);
    store(&mut client, "orders", &["bad"]);
    let into = client.receiver("orders", 1);
    let (_, delivery_id, _) = client.receive();
    client.settle(into, delivery_id, &Outcome::Rejected(None));
    client.write_pending();
    let mut reader = site.client(Amqp);
    reader.receiver("dlq", 1);
    let payload = reader.receive().2;
    assert!(payload.ends_with(&message("bad")), "{payload:?}");
}

#[test]
fn recreated_dead_letter_address_receives_rejected_messages() {
    let folder = Folder::new("stored");
    let orders = ORDERS.replace("}", r#", "deadletter": "dlq"}"#);
    let with = |uid: &str| format!(r#"{orders}, {{"uid": "{uid}", "name": "dlq", "type": "deadletter"}}"#);
    let site = site(2, &folder, &with("one"));
    site.node.apply(&serde_json::from_str(&plan(2, &with("two"))).unwrap()).unwrap();
    let mut client = site.client(Amqp);
    store(&mut client, "orders", &["bad"]);
    let into = client.receiver("orders", 1);
    let (_, delivery_id, _) = client.receive();
    client.settle(into, delivery_id, &Outcome::Rejected(None));
    client.write_pending();
    let mut reader = site.client(Amqp);
    reader.receiver("dlq", 1);
    assert!(reader.receive().2.ends_with(&message("bad")));
}

#[test]
fn damaged_message_is_reported_and_the_others_are_delivered() {
    let folder = Folder::new("stored");
    let first = site(1, &folder, ORDERS);
    store(&mut first.client(Amqp), "orders", &["whole", "flipped", "whole too"]);
    first.node.stop(std::time::Duration::from_secs(2));
    flip(&folder.path("journal"), b"flipped");
    let second = site(1, &folder, ORDERS);
    let mut consumer = second.client(Amqp);
    consumer.receiver("orders", 10);
    assert_eq!([consumer.receive().2, consumer.receive().2], [message("whole"), message("whole too")]);
    let named = second.event(|event| match &event.what {
        EventKind::MessageDamaged { address, space, message, .. } => Some((address.clone(), space.clone(), *message)),
        _ => None,
    });
    assert_eq!(named, ("orders".to_owned(), "default.default".to_owned(), 1));
    let line = second.stats().addresses[0].clone();
    assert_eq!((line.damaged, line.stored), (1, 2));
}

/// Flips a bit in the first occurrence of these bytes in the files of the folder.
fn flip(folder: &Path, bytes: &[u8]) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut held = std::fs::read(&path).unwrap();
        if let Some(at) = held.windows(bytes.len()).position(|window| window == bytes) {
            held[at] ^= 4;
            return std::fs::write(&path, held).unwrap();
        }
    }
    panic!("no file contains the bytes");
}

#[test]
fn memory_queue_needs_no_journal_and_a_disk_queue_does() {
    let memory = ORDERS.replace("}", r#", "durability": "memory"}"#);
    let site = Site::new(&workers(2), &plan(1, &memory));
    store(&mut site.client(Amqp), "orders", &["a"]);
    let node = Node::start(&workers(1)).unwrap();
    let addresses = format!("{ORDERS}, {DIRECT}");
    let proof = node.apply(&serde_json::from_str(&plan(1, &addresses)).unwrap()).unwrap().proof;
    assert_eq!(proof.active, ["a"]);
    assert_eq!(proof.failed[0].reason, Reason::NotOpened);
}

#[test]
fn shutdown_settles_every_stored_message_before_closing_its_connection() {
    for count in [1, 3] {
        let folder = Folder::new("stored");
        let first = site(count, &folder, ORDERS);
        let mut clients: Vec<_> = (0..4).map(|_| first.client(Amqp)).collect();
        for client in &mut clients {
            let out = client.sender(Some("orders"));
            client.wait_for_credit(out);
            (0..500).for_each(|number| client.queue(out, &message(&format!("{number}")), false));
            client.write_pending();
        }
        // Some are stored and most are on their way.
        assert_eq!(clients[0].outcome(), Outcome::Accepted);
        let mut accepted = 1;
        std::thread::scope(|scope| {
            scope.spawn(|| first.node.stop(std::time::Duration::from_secs(20)));
            for client in &mut clients {
                let answered = |received: &mut ClientEvent| match received {
                    ClientEvent::Outcome(outcome) => Some(Some(outcome.clone())),
                    ClientEvent::Closed(_) => Some(None),
                    _ => None,
                };
                while let Some(outcome) = client.wait(answered) {
                    accepted += u64::from(outcome == Outcome::Accepted);
                }
            }
        });
        assert_eq!(site(count, &folder, ORDERS).stats().addresses[0].stored, accepted, "{count} workers");
    }
}

#[test]
fn missing_journal_segment_is_reported_by_address_and_message_count() {
    let folder = Folder::new("stored");
    let small =
        |folder: &Folder| NodeConfig { journal_segment_bytes: 64 << 10, ..with_journal(1, &folder.path("journal")) };
    let first = Site::new(&small(&folder), &plan(1, ORDERS));
    let text = "x".repeat(200);
    let texts = vec![&text[..]; 600];
    store(&mut first.client(Amqp), "orders", &texts);
    first.node.stop(std::time::Duration::from_secs(5));
    std::fs::remove_file(folder.path("journal").join("0000000001.log")).unwrap();
    let second = Site::new(&small(&folder), &plan(1, ORDERS));
    let (address, count) = second.event(|event| match &event.what {
        EventKind::MessageDamaged { address, count, .. } => Some((address.clone(), *count)),
        _ => None,
    });
    assert_eq!(address, "orders");
    let stats = second.stats();
    assert_eq!((stats.addresses[0].stored + count, stats.addresses[0].damaged), (600, count));
    let damaged = stats.journal.unwrap().damaged;
    assert_eq!(damaged.into_iter().collect::<Vec<_>>(), [("11111111-2222-3333-4444-555555555555".to_owned(), count)]);
}

#[test]
fn the_messages_of_the_file_in_use_at_a_stop_are_told_by_address_and_count() {
    for left in [None, Some(20_000)] {
        let folder = Folder::new("stored");
        let first = site(2, &folder, ORDERS);
        let text = "x".repeat(200);
        store(&mut first.client(Amqp), "orders", &vec![&text[..]; 300]);
        let mut consumer = first.client(Amqp);
        let into = consumer.receiver("orders", 10);
        for _ in 0..10 {
            let (_, delivery_id, _) = consumer.receive();
            consumer.settle(into, delivery_id, &Outcome::Accepted);
        }
        consumer.close();
        first.node.stop(std::time::Duration::from_secs(5));
        shorten(&folder.path("journal").join("0000000001.log"), left);
        let second = site(2, &folder, ORDERS);
        let (address, count) = second.event(|event| match &event.what {
            EventKind::MessageDamaged { address, count, .. } => Some((address.clone(), *count)),
            _ => None,
        });
        let stats = second.stats();
        let line = &stats.addresses[0];
        assert_eq!((&address[..], line.damaged), ("orders", count), "{left:?}");
        match left {
            // What consumers accepted is not lost with the file.
            None => assert_eq!((count, line.stored), (290, 0)),
            // The removals were at the end of the file: those messages come again.
            Some(_) => assert_eq!((count + line.stored, line.stored > 10), (300, true)),
        }
    }
}

/// Removes a file, or its end.
pub(crate) fn shorten(path: &Path, left: Option<u64>) {
    match left {
        None => std::fs::remove_file(path).unwrap(),
        Some(bytes) => std::fs::File::options().write(true).open(path).unwrap().set_len(bytes).unwrap(),
    }
}

#[test]
fn message_without_sections_is_delivered_unchanged() {
    let folder = Folder::new("stored");
    let site = site(1, &folder, &[ORDERS, DIRECT].join(","));
    let mut consumer = site.client(Amqp);
    for address in ["orders", "direct"] {
        consumer.receiver(address, 1);
        let mut client = site.client(Amqp);
        let out = client.sender(Some(address));
        client.send(out, b"", true);
        assert_eq!(consumer.receive().2, b"");
    }
    assert_eq!(site.stats().addresses.iter().map(|line| line.damaged).sum::<u64>(), 0);
}
