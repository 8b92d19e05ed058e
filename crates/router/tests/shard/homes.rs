//! Queues of one space with different homes: dead letters, moves and transactions between them.

use std::sync::Arc;

use enmasse_amqp::types::{Outcome, condition};
use enmasse_journal::log::simulated::SimulatedDisk;
use enmasse_journal::log::{Config, Log};
use enmasse_router::core::{Destination, Operation, Work};
use enmasse_router::shard::RecoveredQueues;
use enmasse_router::table::Table;

use crate::net::Net;
use crate::transactions::{Controller, post_to, stored_in, within};
use crate::{OPEN_SPACE, accepted, pinned, rejected};

const QUEUES: &str = r#"{"uid": "a", "name": "orders", "type": "queue", "deadletter": "dead"},
    {"uid": "b", "name": "jobs", "type": "queue", "deadletter": "dead", "limits": {"messages": 1, "onFull": "reject"}},
    {"uid": "c", "name": "dead", "type": "deadletter"},"#;

/// Two shards and a log, with the queues `orders` and `dead` on shard 0 and `jobs` on shard 1.
fn two_homes() -> Net {
    let net = with_log(2, QUEUES);
    let homes = ["orders", "jobs", "dead"].map(|name| net.entry(name).home.get());
    assert_eq!(homes, [Some(0), Some(1), Some(0)]);
    net
}

/// The open space with these addresses on shards with a log.
pub(crate) fn with_log(shards: u16, addresses: &str) -> Net {
    let plan = OPEN_SPACE.replacen("\"addresses\": [", &format!("\"addresses\": [{addresses}"), 1);
    let mut net = Net::new(shards, &plan);
    let (mut log, recovered) =
        Log::open(Arc::new(SimulatedDisk::new(512, 1)), Config::default()).expect("an empty log");
    let table = Arc::clone(net.table());
    let mut changes = RecoveredQueues::new(recovered).follow(&Table::empty([7; 32]).diff(&table), &table, shards);
    log.append(&mut changes.batch).and_then(|()| log.sync()).expect("the disk works");
    for (shard, changes) in net.shards.iter_mut().zip(changes.address_changes) {
        shard.change_stored_addresses(changes);
    }
    net.log = Some(log);
    net
}

fn message(address: &str, text: &str) -> Vec<u8> {
    crate::message_to(address, None, text.as_bytes())
}

#[test]
fn rejected_message_reaches_the_dead_letter_at_another_home() {
    for shard in [0, 1] {
        let mut net = two_homes();
        let client = pinned(&mut net, shard);
        let out = net.sender(client, Some("jobs"));
        net.send(client, out, &message("jobs", "m"), false);
        let link = net.receiver(client, "jobs", 10);
        let [(id, _)] = net.messages(client)[..] else { panic!("one message") };
        net.settle(client, link, id, &rejected());
        assert_eq!((stored_in(&mut net, "dead"), stored_in(&mut net, "jobs")), (1, 0));
    }
}

#[test]
fn operation_moves_messages_to_another_home_and_leaves_those_that_it_declines() {
    let mut net = two_homes();
    let client = pinned(&mut net, 1);
    let out = net.sender(client, Some("orders"));
    for text in ["a", "b"] {
        net.send(client, out, &message("orders", text), false);
    }
    let to = Destination { key: net.entry("jobs").key, home: 1 };
    let operation = Operation {
        id: 1,
        address: net.entry("orders").key,
        work: Work::Move(to),
        selector: None,
        names: None,
        dry_run: false,
        limit: 100,
        rest: None,
        edited: None,
    };
    net.shards[0].operate(operation);
    let mut ended = (0..10).filter_map(|_| {
        net.run();
        net.shards[0].take_operated().pop()
    });
    let (_, operated) = ended.next().expect("it has ended");
    drop(ended);
    assert_eq!(operated.messages, 1, "the other queue holds one message: {operated:?}");
    assert_eq!((stored_in(&mut net, "jobs"), stored_in(&mut net, "orders")), (1, 1));
}

#[test]
fn transaction_takes_effect_at_both_homes_or_at_none() {
    for (fail, sent, result) in [(false, 1, true), (true, 1, true), (false, 2, false)] {
        let mut net = two_homes();
        let client = pinned(&mut net, 0);
        let control = Controller::new(&mut net, client);
        let (orders, jobs) = (net.sender(client, Some("orders")), net.sender(client, Some("jobs")));
        let txn = control.declare(&mut net);
        post_to(&mut net, client, orders, &txn, &message("orders", "o"));
        for _ in 0..sent {
            post_to(&mut net, client, jobs, &txn, &message("jobs", "j"));
        }
        let outcome = control.discharge(&mut net, &txn, fail);
        match outcome {
            Outcome::Accepted => assert!(result),
            Outcome::Rejected(Some(error)) => {
                assert_eq!((result, error.condition), (false, condition::TRANSACTION_ROLLBACK));
            }
            other => panic!("{other:?}"),
        }
        let expected = usize::from(result && !fail);
        assert_eq!((stored_in(&mut net, "orders"), stored_in(&mut net, "jobs")), (expected, expected));
        // No reservation is left: the queue takes as many messages as before.
        net.send(client, jobs, &message("jobs", "later"), false);
        assert_eq!(stored_in(&mut net, "jobs"), 1);
    }
}

#[test]
fn retirement_and_posting_at_different_homes_are_one_transaction() {
    for fail in [false, true] {
        let mut net = two_homes();
        let client = pinned(&mut net, 1);
        let out = net.sender(client, Some("orders"));
        net.send(client, out, &message("orders", "m"), false);
        let link = net.receiver(client, "orders", 10);
        let [(id, _)] = net.messages(client)[..] else { panic!("one message") };
        let control = Controller::new(&mut net, client);
        let jobs = net.sender(client, Some("jobs"));
        let txn = control.declare(&mut net);
        net.settle_with(client, link, id, &within(&txn, Some(accepted())), true);
        post_to(&mut net, client, jobs, &txn, &message("jobs", "m"));
        assert_eq!(control.discharge(&mut net, &txn, fail), accepted());
        assert_eq!(stored_in(&mut net, "jobs"), usize::from(!fail));
        net.detach(client, link);
        assert_eq!(stored_in(&mut net, "orders"), usize::from(fail));
    }
}
