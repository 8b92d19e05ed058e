//! Transactions over real sockets, with the journal's threads: on the shard of the queues and on
//! another one.

use std::time::Duration;

use enmasse_amqp::types::{Outcome, condition};
use enmasse_node::ListenerKind::Amqp;

use crate::stored::{DIRECT, ORDERS, message, plan, site, store};
use crate::testing::Folder;

const DONE: &str = r#"{"uid": "22222222-2222-3333-4444-555555555555", "name": "done", "type": "queue"}"#;

fn addresses() -> String {
    [ORDERS, DONE, DIRECT].join(",")
}

#[test]
fn transaction_retires_from_one_queue_and_posts_to_another_atomically() {
    for count in [1, 3] {
        let folder = Folder::new("transactions");
        let first = site(count, &folder, &addresses());
        store(&mut first.client(Amqp), "orders", &["a", "b"]);
        // The first link keeps a connection on the worker that accepted it. That worker may not be
        // the home of the queues.
        let mut clients: Vec<_> = (0..count).map(|_| first.client(Amqp)).collect();
        let worker = clients.last_mut().expect("a client");
        worker.sender(None);
        let (control, out) = (worker.coordinator(), worker.sender(Some("done")));
        let into = worker.receiver("orders", 2);
        for fail in [true, false] {
            let txn = worker.declare(control);
            let (_, delivery_id, payload) = worker.receive();
            worker.retire(into, &txn, delivery_id, true);
            assert_eq!(worker.post(out, &txn, &payload), Outcome::Accepted);
            assert_eq!(worker.discharge(control, &txn, fail), Outcome::Accepted);
        }
        assert_eq!(first.stats().addresses.iter().map(|line| line.stored).sum::<u64>(), 2);
        first.node.stop(Duration::from_secs(2));
        let second = site(count, &folder, &addresses());
        let mut consumer = second.client(Amqp);
        for (address, text) in [("orders", "a"), ("done", "b")] {
            consumer.receiver(address, 10);
            assert!(consumer.receive().2.ends_with(&message(text)), "{address}");
        }
    }
}

#[test]
fn concurrent_commits_are_all_answered() {
    let folder = Folder::new("transactions");
    let site = site(2, &folder, &addresses());
    let links = |_| {
        let mut client = site.client(Amqp);
        let (control, out) = (client.coordinator(), client.sender(Some("orders")));
        (client, control, out)
    };
    let mut clients: Vec<_> = (0..4).map(links).collect();
    for _ in 0..25 {
        for (client, control, out) in &mut clients {
            let txn = client.declare(*control);
            for text in ["one", "two"] {
                client.post(*out, &txn, &message(text));
            }
            client.ask_discharge(*control, &txn, false);
        }
        for (client, ..) in &mut clients {
            assert_eq!(client.outcome(), Outcome::Accepted);
        }
    }
    assert_eq!(site.stats().addresses.iter().map(|line| line.stored).sum::<u64>(), 200);
}

#[test]
fn broken_connection_rolls_its_transaction_back() {
    let folder = Folder::new("transactions");
    let site = site(2, &folder, &addresses());
    store(&mut site.client(Amqp), "orders", &["a"]);
    let mut client = site.client(Amqp);
    let (control, out) = (client.coordinator(), client.sender(Some("orders")));
    let into = client.receiver("orders", 1);
    let txn = client.declare(control);
    let (_, delivery_id, _) = client.receive();
    client.retire(into, &txn, delivery_id, true);
    client.post(out, &txn, &message("never"));
    drop(client);
    let mut consumer = site.client(Amqp);
    consumer.receiver("orders", 10);
    assert!(consumer.receive().2.ends_with(&message("a")), "redelivered, with nothing before it");
    assert_eq!(site.stats().addresses.iter().map(|line| line.stored).sum::<u64>(), 1);
}

#[test]
fn commit_fails_if_an_address_of_the_transaction_was_deleted() {
    let folder = Folder::new("transactions");
    let site = site(2, &folder, &addresses());
    let mut client = site.client(Amqp);
    let (control, out, done) = (client.coordinator(), client.sender(Some("orders")), client.sender(Some("done")));
    let txn = client.declare(control);
    client.post(out, &txn, &message("a"));
    client.post(done, &txn, &message("b"));
    let without = plan(2, &[ORDERS, DIRECT].join(","));
    site.node.apply(&serde_json::from_str(&without).unwrap()).unwrap();
    assert_eq!(client.detached().map(|error| error.condition), Some(condition::RESOURCE_DELETED));
    let Outcome::Rejected(Some(error)) = client.discharge(control, &txn, false) else { panic!("committed") };
    assert_eq!(error.condition, condition::TRANSACTION_ROLLBACK);
    assert_eq!(site.stats().addresses.iter().map(|line| line.stored).sum::<u64>(), 0);
}
