//! Transactions (part 4) over temporary queues: several homes commit together, or none does.

use std::sync::Arc;

use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{Discharge, Outcome, TransactionControl, condition};
use enmasse_journal::log::simulated::{Call, SimulatedDisk};

use crate::net::{Net, message_to};
use crate::resuming::on_disk;
use crate::stored::with_queue;
use crate::temporary::{Making, made};
use crate::transactions::{Controller, provisional, rolls_back, stored, within};
use crate::{LAYOUTS, accepted, pinned};

/// A requester with two temporary queues, a responder with a link to the anonymous terminus and one
/// to the coordinator, and the queue `orders` on shard 0.
struct Scene {
    net: Net,
    requester: usize,
    nodes: [(LinkId, String); 2],
    responder: usize,
    out: LinkId,
    control: Controller,
}

impl Scene {
    fn new(mut net: Net, responder: usize, requester: usize) -> Self {
        let (requester, responder) = (pinned(&mut net, requester), pinned(&mut net, responder));
        let node = |net: &mut Net| made(net, requester, Making::Sender, &["temporary-queue"]);
        let nodes = [node(&mut net), node(&mut net)];
        let control = Controller::new(&mut net, responder);
        let out = net.sender(responder, None);
        Self { net, requester, nodes, responder, out, control }
    }

    fn all() -> impl Iterator<Item = Self> {
        LAYOUTS.into_iter().map(|(shards, responder, requester)| Self::new(with_queue(shards), responder, requester))
    }

    fn post(&mut self, txn: &[u8], to: &str) {
        let body = message_to(to, None, b"in a transaction");
        self.net.piece_with(self.responder, self.out, (&body, &within(txn, None)), false, true, false);
    }

    /// Messages that the requester receives from its nodes now, and accepts.
    fn received(&mut self) -> [usize; 2] {
        self.nodes.clone().map(|(_, name)| {
            let link = self.net.receiver(self.requester, &name, 100);
            let messages = self.net.messages(self.requester);
            for (id, _) in &messages {
                self.net.settle(self.requester, link, *id, &accepted());
            }
            self.net.detach(self.requester, link);
            messages.len()
        })
    }
}

#[test]
fn a_posting_to_a_temporary_queue_is_available_with_the_commit() {
    for mut scene in Scene::all() {
        for (targets, in_orders) in [(&[0][..], 0), (&[0, 1, 2, 0], 1), (&[2, 1, 0, 0], 1)] {
            let names = [scene.nodes[0].1.clone(), scene.nodes[1].1.clone(), "orders".to_owned()];
            let wanted = [0, 1].map(|node| targets.iter().filter(|target| **target == node).count());
            for fail in [true, false] {
                let txn = scene.control.declare(&mut scene.net);
                targets.iter().for_each(|target| scene.post(&txn, &names[*target]));
                let outcomes = provisional(&mut scene.net, scene.responder);
                assert_eq!(outcomes, vec![(txn.clone(), accepted()); targets.len()]);
                assert_eq!((scene.received(), stored(&mut scene.net)), ([0, 0], 0), "before the discharge");
                assert_eq!(scene.control.discharge(&mut scene.net, &txn, fail), accepted());
                let expected = if fail { ([0, 0], 0) } else { (wanted, in_orders) };
                assert_eq!((scene.received(), stored(&mut scene.net)), expected);
            }
        }
    }
}

#[test]
fn full_temporary_queue_rolls_back_the_whole_transaction() {
    for mut scene in Scene::all() {
        let (full, other) = (scene.nodes[0].1.clone(), scene.nodes[1].1.clone());
        for _ in 0..1000 {
            scene.net.send(scene.responder, scene.out, &message_to(&full, None, b"x"), true);
        }
        for order in [[&full, &other, "orders"], ["orders", &other, &full]] {
            let txn = scene.control.declare(&mut scene.net);
            order.iter().for_each(|to| scene.post(&txn, to));
            rolls_back(&mut scene.net, scene.control, &txn, &condition::RESOURCE_LIMIT_EXCEEDED);
            assert_eq!(stored(&mut scene.net), 0);
        }
        assert_eq!(scene.received()[1], 0);
    }
}

#[test]
fn dynamic_node_deleted_before_the_commit_rolls_it_back() {
    for mut scene in Scene::all() {
        let txn = scene.control.declare(&mut scene.net);
        let [(link, gone), (_, stays)] = scene.nodes.clone();
        for to in [&gone, &stays, "orders"] {
            scene.post(&txn, to);
        }
        scene.net.detach(scene.requester, link);
        rolls_back(&mut scene.net, scene.control, &txn, &condition::RESOURCE_DELETED);
        assert_eq!(stored(&mut scene.net), 0);
        let into = scene.net.receiver(scene.requester, &stays, 1);
        assert_eq!(scene.net.messages(scene.requester), []);
        scene.net.detach(scene.requester, into);
        let unknown = scene.control.declare(&mut scene.net);
        scene.post(&unknown, &stays);
        scene.post(&unknown, &gone);
        rolls_back(&mut scene.net, scene.control, &unknown, &condition::NOT_FOUND);
    }
}

#[test]
fn a_delivery_of_a_temporary_queue_is_retired_with_the_commit() {
    for mut scene in Scene::all() {
        let name = scene.nodes[0].1.clone();
        for body in [b"one", b"two"] {
            scene.net.send(scene.responder, scene.out, &message_to(&name, None, body), true);
        }
        let (net, client) = (&mut scene.net, scene.requester);
        let (control, out) = (Controller::new(net, client), net.sender(client, Some("orders")));
        let into = net.receiver(client, &name, 2);
        let ids: Vec<u32> = net.messages(client).into_iter().map(|(id, _)| id).collect();
        for (id, fail) in [(ids[0], true), (ids[0], false), (ids[1], false)] {
            let txn = control.declare(net);
            net.settle_with(client, into, id, &within(&txn, Some(accepted())), false);
            net.piece_with(client, out, (&message_to("orders", None, b"x"), &within(&txn, None)), false, true, false);
            assert_eq!(control.discharge(net, &txn, fail), accepted());
        }
        net.detach(client, into);
        assert_eq!((stored(net), scene.received()), (2, [0, 0]));
    }
}

#[test]
fn temporary_queue_postings_are_available_only_once_the_commit_is_on_disk() {
    for (shards, responder, requester) in LAYOUTS {
        for cut in [false, true] {
            let net = on_disk(shards, Arc::new(SimulatedDisk::new(512, 7)));
            let mut scene = Scene::new(net, responder, requester);
            let names = scene.nodes.clone().map(|(_, name)| name);
            let txn = scene.control.declare(&mut scene.net);
            for to in [&names[0], "orders", &names[1]] {
                scene.post(&txn, to);
            }
            // The journal is stalled.
            let log = scene.net.log.take();
            let commit = TransactionControl::Discharge(Discharge { txn_id: txn, fail: false });
            scene.net.outcomes(scene.responder);
            scene.control.send(&mut scene.net, &commit, false);
            assert_eq!(scene.net.outcomes(scene.responder), []);
            assert_eq!(scene.received(), [0, 0]);
            if cut {
                scene.net.cut(scene.responder);
            }
            scene.net.log = log;
            scene.net.run();
            if !cut {
                assert_eq!(scene.net.outcomes(scene.responder).pop().map(|(_, outcome)| outcome), Some(accepted()));
            }
            assert_eq!((scene.received(), stored(&mut scene.net)), ([1, 1], 1));
        }
    }
}

#[test]
fn failed_write_of_a_commit_leaves_temporary_queues_empty() {
    for (shards, responder, requester) in LAYOUTS {
        let disk = Arc::new(SimulatedDisk::new(512, 7));
        let mut scene = Scene::new(on_disk(shards, Arc::clone(&disk)), responder, requester);
        let name = scene.nodes[0].1.clone();
        let txn = scene.control.declare(&mut scene.net);
        scene.post(&txn, &name);
        scene.post(&txn, "orders");
        disk.fail(Call::Sync, 0);
        let outcome = scene.control.discharge(&mut scene.net, &txn, false);
        let Outcome::Rejected(Some(error)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.condition, condition::TRANSACTION_ROLLBACK);
        assert_eq!(scene.received(), [0, 0]);
    }
}

#[test]
fn activity_at_one_home_keeps_a_transaction_open_at_all_its_homes() {
    let mut scene = Scene::new(with_queue(3), 1, 2);
    let name = scene.nodes[0].1.clone();
    let txn = scene.control.declare(&mut scene.net);
    scene.post(&txn, &name);
    for step in 1..=60 {
        for shard in &mut scene.net.shards {
            shard.set_time_of_day(step * 10_000);
        }
        // The requester sends frames, so that its connection stays open.
        assert_eq!(scene.received(), [0, 0]);
        scene.net.pass(10_000);
        scene.post(&txn, "orders");
    }
    assert_eq!(scene.control.discharge(&mut scene.net, &txn, false), accepted());
    assert_eq!((scene.received(), stored(&mut scene.net)), ([1, 0], 60));
}
