//! Counts of outcomes by link: each delivery counts once, when it is settled for good.

use enmasse_amqp::connection::OutcomeCounts;
use enmasse_amqp::types::{DeliveryState, Discharge, Outcome, TransactionControl};

use crate::stored::with_queue;
use crate::transactions::{Controller, holding, post, provisional, within};
use crate::{LAYOUTS, accepted, pinned};

const NONE: OutcomeCounts = OutcomeCounts { accepted: 0, rejected: 0, released: 0, modified: 0 };

fn accepted_times(accepted: u32) -> OutcomeCounts {
    OutcomeCounts { accepted, ..NONE }
}

#[test]
fn outcomes_of_a_transaction_count_at_its_commit() {
    for (shards, producer, consumer) in LAYOUTS {
        for fail in [false, true] {
            let (mut net, control, into, ids) = holding(shards, producer, consumer);
            let txn = control.declare(&mut net);
            let state = within(&txn, Some(accepted()));
            for (id, settled) in [(ids[0], false), (ids[0], false), (ids[0], true), (ids[1], false)] {
                net.settle_with(control.client, into, id, &state, settled);
                assert_eq!(net.counted(control.client, false), NONE, "it may be rolled back");
            }
            assert_eq!(control.discharge(&mut net, &txn, fail), accepted());
            let counts = if fail { NONE } else { accepted_times(2) };
            assert_eq!(net.counted(control.client, false), counts, "rolled back: {fail}");
        }
    }
}

#[test]
fn delivery_that_stays_with_its_receiver_after_a_rollback_counts_when_it_is_settled() {
    let (mut net, control, into, ids) = holding(1, 0, 0);
    let txn = control.declare(&mut net);
    net.settle_with(control.client, into, ids[0], &within(&txn, Some(accepted())), false);
    assert_eq!(control.discharge(&mut net, &txn, true), accepted());
    net.settle(control.client, into, ids[0], &Outcome::Released);
    assert_eq!(net.counted(control.client, false), OutcomeCounts { released: 1, ..NONE });
}

#[test]
fn outcome_counts_in_the_first_transaction_that_holds_it() {
    for (shards, producer, consumer) in LAYOUTS {
        let (mut net, control, into, ids) = holding(shards, producer, consumer);
        let [first, second] = [control.declare(&mut net), control.declare(&mut net)];
        for txn in [&first, &second] {
            net.settle_with(control.client, into, ids[0], &within(txn, Some(accepted())), false);
        }
        assert_eq!(control.discharge(&mut net, &second, false), accepted());
        assert_eq!(net.counted(control.client, false), NONE);
        assert_eq!(control.discharge(&mut net, &first, false), accepted());
        assert_eq!(net.counted(control.client, false), accepted_times(1));
    }
}

#[test]
fn outcome_outside_of_the_transaction_that_holds_one_has_no_effect() {
    for fail in [false, true] {
        let (mut net, control, into, ids) = holding(1, 0, 0);
        let txn = control.declare(&mut net);
        net.settle_with(control.client, into, ids[0], &within(&txn, Some(accepted())), false);
        net.settle(control.client, into, ids[0], &Outcome::Released);
        assert_eq!(net.counted(control.client, false), NONE);
        assert_eq!(control.discharge(&mut net, &txn, fail), accepted());
        let counts = if fail { NONE } else { accepted_times(1) };
        assert_eq!(net.counted(control.client, false), counts, "rolled back: {fail}");
    }
}

#[test]
fn outcomes_do_not_count_at_a_later_link_with_the_same_number() {
    let (mut net, control, into, ids) = holding(1, 0, 0);
    let txn = control.declare(&mut net);
    net.settle_with(control.client, into, ids[0], &within(&txn, Some(accepted())), true);
    net.detach(control.client, into);
    net.receiver(control.client, "orders", 0);
    assert_eq!(control.discharge(&mut net, &txn, false), accepted());
    assert_eq!(net.counted(control.client, false), NONE);
}

#[test]
fn postings_count_at_the_commit() {
    for (shards, producer, _) in LAYOUTS {
        for fail in [false, true] {
            let mut net = with_queue(shards);
            let sender = pinned(&mut net, producer);
            let control = Controller::new(&mut net, sender);
            let out = net.sender(sender, Some("orders"));
            let txn = control.declare(&mut net);
            post(&mut net, sender, out, &txn, "a");
            assert_eq!((provisional(&mut net, sender).len(), net.counted(sender, true)), (1, NONE));
            // Its outcome comes while the transaction is being discharged.
            net.at_once(|net| {
                post(net, sender, out, &txn, "b");
                let discharge = Discharge { txn_id: txn.clone(), fail };
                control.send(net, &TransactionControl::Discharge(discharge), false);
            });
            let counts = if fail { NONE } else { accepted_times(2) };
            assert_eq!((provisional(&mut net, sender).len(), net.counted(sender, true)), (1, counts));
        }
    }
}

#[test]
fn plain_outcomes_count_at_once() {
    let (mut net, control, into, ids) = holding(1, 0, 0);
    net.settle(control.client, into, ids[0], &accepted());
    net.settle_with(control.client, into, ids[1], &DeliveryState::Outcome(Outcome::Released), false);
    assert_eq!(net.counted(control.client, false), OutcomeCounts { accepted: 1, released: 1, ..NONE });
}
