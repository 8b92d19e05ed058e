//! Transactions (part 4) as clients see them: coordinators, postings, retirements and refusals.

use enmasse_amqp::codec::encode_transaction_control;
use enmasse_amqp::connection::LinkId;
use enmasse_amqp::types::{
    Attach, Coordinator, Declare, Declared, DeliveryState, Discharge, Error, Outcome, Role, Source, Symbol, Target,
    TransactionControl, TransactionalState, condition,
};

use crate::net::{ClientEvent, Net, blank, message_to};
use crate::stored::{plan_of, with_queue, with_queue_of};
use crate::{LAYOUTS, accepted, pinned};

/// A client with a link to the coordinator.
#[derive(Clone, Copy)]
pub(crate) struct Controller {
    pub(crate) client: usize,
    link: LinkId,
}

impl Controller {
    pub(crate) fn new(net: &mut Net, client: usize) -> Self {
        Self { client, link: net.attach(client, coordinator()) }
    }

    pub(crate) fn send(self, net: &mut Net, control: &TransactionControl, settled: bool) {
        let mut bytes = b"\0\x53\x77".to_vec();
        encode_transaction_control(&mut bytes, control);
        net.send(self.client, self.link, &bytes, settled);
    }

    pub(crate) fn declare(self, net: &mut Net) -> Vec<u8> {
        self.send(net, &TransactionControl::Declare(Declare::default()), false);
        let mut declared = None;
        net.clients[self.client].received.retain_mut(|received| match received {
            ClientEvent::Declared(txn_id) => {
                declared = Some(std::mem::take(txn_id));
                false
            }
            _ => true,
        });
        declared.expect("a transaction")
    }

    pub(crate) fn discharge(self, net: &mut Net, txn_id: &[u8], fail: bool) -> Outcome {
        self.ask(net, &TransactionControl::Discharge(Discharge { txn_id: txn_id.to_vec(), fail }))
    }

    /// A control that is answered with an outcome.
    fn ask(self, net: &mut Net, control: &TransactionControl) -> Outcome {
        net.outcomes(self.client);
        self.send(net, control, false);
        net.outcomes(self.client).pop().expect("an answer").1
    }
}

fn coordinator() -> Attach {
    let mut attach = blank(Role::Sender, "control".to_owned());
    attach.target = Some(Box::new(Target::Coordinator(Coordinator::default())));
    attach
}

pub(crate) fn within(txn_id: &[u8], outcome: Option<Outcome>) -> DeliveryState {
    DeliveryState::Transactional(Box::new(TransactionalState { txn_id: txn_id.to_vec(), outcome }))
}

fn message(text: &str) -> Vec<u8> {
    message_to("orders", None, text.as_bytes())
}

pub(crate) fn post(net: &mut Net, client: usize, link: LinkId, txn_id: &[u8], text: &str) {
    post_to(net, client, link, txn_id, &message(text));
}

/// Posts a whole message to any address.
pub(crate) fn post_to(net: &mut Net, client: usize, link: LinkId, txn_id: &[u8], message: &[u8]) {
    net.piece_with(client, link, (message, &within(txn_id, None)), false, true, false);
}

/// Provisional outcomes received since the last call.
pub(crate) fn provisional(net: &mut Net, client: usize) -> Vec<(Vec<u8>, Outcome)> {
    let mut found = Vec::new();
    net.clients[client].received.retain(|received| match received {
        ClientEvent::Provisional { first, last, txn_id, outcome } => {
            found.extend((*first..=*last).map(|_| (txn_id.clone(), outcome.clone())));
            false
        }
        _ => true,
    });
    found
}

fn failure(outcome: Outcome) -> Error {
    match outcome {
        Outcome::Rejected(Some(error)) => *error,
        other => panic!("{other:?}"),
    }
}

/// The number of messages in the queue; a separate client consumes them.
pub(crate) fn stored(net: &mut Net) -> usize {
    stored_in(net, "orders")
}

/// The same for any queue.
pub(crate) fn stored_in(net: &mut Net, address: &str) -> usize {
    let client = net.simple(0);
    let link = net.receiver(client, address, 100);
    let messages = net.messages(client);
    for (id, _) in &messages {
        net.settle(client, link, *id, &accepted());
    }
    net.detach(client, link);
    messages.len()
}

#[test]
fn postings_are_available_at_the_commit() {
    for (shards, producer, consumer) in LAYOUTS {
        for address in [Some("orders"), None] {
            let mut net = with_queue(shards);
            let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
            let control = Controller::new(&mut net, sender);
            let out = net.sender(sender, address);
            net.receiver(receiver, "orders", 10);
            let txn = control.declare(&mut net);
            for text in ["a", "b"] {
                post(&mut net, sender, out, &txn, text);
            }
            let outcomes = provisional(&mut net, sender);
            assert_eq!(outcomes, [(txn.clone(), accepted()), (txn.clone(), accepted())]);
            assert_eq!(net.messages(receiver), []);
            assert_eq!(control.discharge(&mut net, &txn, false), accepted());
            assert_eq!(net.messages(receiver).len(), 2);
            let again = control.discharge(&mut net, &txn, false);
            assert_eq!(failure(again).condition, condition::TRANSACTION_UNKNOWN_ID);
        }
    }
}

#[test]
fn rollback_discards_postings_and_empty_transactions_can_be_discharged() {
    for (shards, producer, _) in LAYOUTS {
        let mut net = with_queue(shards);
        let sender = pinned(&mut net, producer);
        let control = Controller::new(&mut net, sender);
        let out = net.sender(sender, Some("orders"));
        let (txn, empty, other) = (control.declare(&mut net), control.declare(&mut net), control.declare(&mut net));
        post(&mut net, sender, out, &txn, "a");
        assert_eq!(control.discharge(&mut net, &txn, true), accepted());
        assert_eq!(control.discharge(&mut net, &empty, false), accepted());
        assert_eq!(control.discharge(&mut net, &other, true), accepted());
        assert_eq!(stored(&mut net), 0);
    }
}

#[test]
fn concurrent_transactions_of_a_session_are_independent() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = with_queue(shards);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let control = Controller::new(&mut net, sender);
        let out = net.sender(sender, Some("orders"));
        net.receiver(receiver, "orders", 100);
        let txns: Vec<Vec<u8>> = (0..5).map(|_| control.declare(&mut net)).collect();
        for round in 0..3 {
            for (number, txn) in txns.iter().enumerate() {
                post(&mut net, sender, out, txn, &format!("{number} {round}"));
            }
        }
        net.send(sender, out, &message("outside"), false);
        assert_eq!(net.messages(receiver).len(), 1);
        for (number, txn) in txns.iter().enumerate().rev() {
            assert_eq!(control.discharge(&mut net, txn, number % 2 == 0), accepted());
        }
        let texts: Vec<Vec<u8>> = net.messages(receiver).into_iter().map(|(_, payload)| payload).collect();
        let expected = [3, 1].iter().flat_map(|number| (0..3).map(move |round| message(&format!("{number} {round}"))));
        assert_eq!(texts, expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_credit_window_does_not_bound_a_transaction() {
    let mut net = with_queue(2);
    let sender = pinned(&mut net, 1);
    let control = Controller::new(&mut net, sender);
    let out = net.sender(sender, Some("orders"));
    let txn = control.declare(&mut net);
    for _ in 0..3000 {
        post(&mut net, sender, out, &txn, "m");
    }
    assert_eq!(provisional(&mut net, sender).len(), 3000);
    assert_eq!(control.discharge(&mut net, &txn, true), accepted());
}

#[test]
fn a_transaction_of_another_connection_is_not_known() {
    let mut net = with_queue(1);
    let (one, other) = (pinned(&mut net, 0), pinned(&mut net, 0));
    let (ours, theirs) = (Controller::new(&mut net, one), Controller::new(&mut net, other));
    let txn = ours.declare(&mut net);
    let out = net.sender(other, Some("orders"));
    for txn_id in [&txn[..], b"", b"nonsense", &[0; 8], &[7; 32]] {
        post(&mut net, other, out, txn_id, "a");
        let outcome = net.outcomes(other).pop().expect("an outcome").1;
        assert_eq!(failure(outcome).condition, condition::TRANSACTION_UNKNOWN_ID);
        let outcome = theirs.discharge(&mut net, txn_id, true);
        assert_eq!(failure(outcome).condition, condition::TRANSACTION_UNKNOWN_ID);
    }
    assert_eq!(ours.discharge(&mut net, &txn, false), accepted());
    assert_eq!(stored(&mut net), 0);
}

/// A receiver that holds two messages of the queue, and controls transactions.
pub(crate) fn holding(shards: u16, producer: usize, consumer: usize) -> (Net, Controller, LinkId, Vec<u32>) {
    let mut net = with_queue(shards);
    let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
    let out = net.sender(sender, Some("orders"));
    for text in ["a", "b"] {
        net.send(sender, out, &message(text), false);
    }
    let control = Controller::new(&mut net, receiver);
    let into = net.receiver(receiver, "orders", 2);
    let ids = net.messages(receiver).into_iter().map(|(id, _)| id).collect();
    (net, control, into, ids)
}

#[test]
fn retired_deliveries_are_removed_at_the_commit() {
    for (shards, producer, consumer) in LAYOUTS {
        for settled in [false, true] {
            let (mut net, control, into, ids) = holding(shards, producer, consumer);
            let txn = control.declare(&mut net);
            for id in ids {
                net.settle_with(control.client, into, id, &within(&txn, Some(accepted())), settled);
            }
            assert_eq!(control.discharge(&mut net, &txn, false), accepted());
            net.detach(control.client, into);
            assert_eq!(stored(&mut net), 0);
        }
    }
}

#[test]
fn delivery_retired_as_settled_is_redelivered_after_a_rollback() {
    for (shards, producer, consumer) in LAYOUTS {
        let (mut net, control, into, ids) = holding(shards, producer, consumer);
        let txn = control.declare(&mut net);
        net.settle_with(control.client, into, ids[0], &within(&txn, Some(accepted())), true);
        net.settle_with(control.client, into, ids[1], &within(&txn, Some(accepted())), false);
        assert_eq!(control.discharge(&mut net, &txn, true), accepted());
        net.grant(control.client, into, 5);
        let again = net.messages(control.client);
        assert_eq!(again.len(), 1, "the other is still held");
        net.settle(control.client, into, ids[1], &accepted());
        net.detach(control.client, into);
        assert_eq!(stored(&mut net), 1);
    }
}

#[test]
fn commit_settles_retired_deliveries_that_the_receiver_left_unsettled() {
    let (mut net, control, into, ids) = holding(1, 0, 0);
    let txn = control.declare(&mut net);
    net.settle_with(control.client, into, ids[0], &within(&txn, Some(accepted())), false);
    net.clients[control.client].frames.clear();
    assert_eq!(control.discharge(&mut net, &txn, false), accepted());
    let settled = net.clients[control.client].frames.iter().filter(|frame| frame.contains("receiver=false")).count();
    assert_eq!(settled, 1, "{:?}", net.clients[control.client].frames);
}

#[test]
fn transactions_end_with_the_link_that_declared_them() {
    for (shards, producer, consumer) in LAYOUTS {
        for how in ["detach", "end", "cut"] {
            let (mut net, control, into, ids) = holding(shards, producer, consumer);
            let client = control.client;
            let out = net.sender(client, Some("orders"));
            let txn = control.declare(&mut net);
            post(&mut net, client, out, &txn, "never");
            net.settle_with(client, into, ids[0], &within(&txn, Some(accepted())), true);
            match how {
                "detach" => {
                    net.detach(client, control.link);
                    post(&mut net, client, out, &txn, "late");
                    let outcome = net.outcomes(client).pop().expect("an outcome").1;
                    assert_eq!(failure(outcome).condition, condition::TRANSACTION_UNKNOWN_ID);
                    net.detach(client, into);
                }
                "end" => net.end(client),
                _ => net.cut(client),
            }
            assert_eq!(stored(&mut net), 2, "{how}");
        }
    }
}

/// Checks that the only posting of a transaction was refused with `cause` in a transactional state,
/// and that its discharge fails with that cause.
fn refuses(net: &mut Net, control: Controller, txn: &[u8], settled: bool, cause: &Symbol) {
    let client = control.client;
    let (within, bare) = (provisional(net, client), net.outcomes(client));
    assert_eq!(bare, [], "an outcome outside of the transaction");
    if settled {
        assert_eq!(within, []);
    } else {
        let [(txn_id, outcome)] = &within[..] else { panic!("{within:?}") };
        assert_eq!((&txn_id[..], &failure(outcome.clone()).condition), (txn, cause));
    }
    rolls_back(net, control, txn, cause);
}

pub(crate) fn rolls_back(net: &mut Net, control: Controller, txn: &[u8], cause: &Symbol) {
    let error = failure(control.discharge(net, txn, false));
    assert_eq!(error.condition, condition::TRANSACTION_ROLLBACK);
    let text = error.description.unwrap_or_default();
    assert!(text.contains(cause.as_str()), "{text} does not name {cause:?}");
}

#[test]
fn a_posting_to_a_direct_address_fails_the_commit() {
    for (shards, producer, consumer) in LAYOUTS {
        for (name, settled) in [(Some("anycast"), true), (Some("anycast"), false), (None, true), (None, false)] {
            let mut net = with_queue(shards);
            let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
            let control = Controller::new(&mut net, sender);
            let into = net.receiver(receiver, "anycast", 10);
            let (out, queue) = (net.sender(sender, name), net.sender(sender, Some("orders")));
            let txn = control.declare(&mut net);
            let body = message_to("anycast", None, b"x");
            net.piece_with(sender, out, (&body, &within(&txn, None)), settled, true, false);
            assert_eq!(net.messages(receiver), []);
            refuses(&mut net, control, &txn, settled, &condition::NOT_IMPLEMENTED);
            let txn = control.declare(&mut net);
            post(&mut net, sender, queue, &txn, "never");
            net.piece_with(sender, out, (&body, &within(&txn, None)), settled, true, false);
            rolls_back(&mut net, control, &txn, &condition::NOT_IMPLEMENTED);
            net.send(sender, out, &body, false);
            let (id, _) = net.messages(receiver).pop().expect("a message outside of transactions");
            net.settle(receiver, into, id, &accepted());
            assert_eq!(stored(&mut net), 0);
        }
    }
}

#[test]
fn a_retirement_from_a_direct_address_fails_the_commit() {
    for (shards, producer, consumer) in LAYOUTS {
        let mut net = with_queue(shards);
        let (sender, receiver) = (pinned(&mut net, producer), pinned(&mut net, consumer));
        let control = Controller::new(&mut net, receiver);
        let into = net.receiver(receiver, "anycast", 10);
        let out = net.sender(sender, Some("anycast"));
        net.send(sender, out, b"x", false);
        let (id, _) = net.messages(receiver).pop().expect("a message");
        let txn = control.declare(&mut net);
        net.settle_with(receiver, into, id, &within(&txn, Some(accepted())), true);
        assert_eq!(net.detached(receiver).map(|error| error.condition), Some(condition::NOT_IMPLEMENTED));
        rolls_back(&mut net, control, &txn, &condition::NOT_IMPLEMENTED);
    }
}

#[test]
fn posting_to_an_unknown_address_fails_the_commit_with_the_first_cause() {
    for (shards, producer, _) in LAYOUTS {
        for settled in [true, false] {
            for in_parts in [true, false] {
                let mut net = with_queue(shards);
                let sender = pinned(&mut net, producer);
                let control = Controller::new(&mut net, sender);
                let (out, queue) = (net.sender(sender, None), net.sender(sender, Some("orders")));
                let txn = control.declare(&mut net);
                let body = message_to("nowhere", None, b"x");
                if in_parts {
                    let (front, rest) = body.split_at(5);
                    net.piece_with(sender, out, (front, &within(&txn, None)), settled, true, true);
                    net.piece(sender, out, rest, settled, false, false);
                } else {
                    net.piece_with(sender, out, (&body, &within(&txn, None)), settled, true, false);
                }
                refuses(&mut net, control, &txn, settled, &condition::NOT_FOUND);
                // The first refusal counts, in either order.
                let causes = [(&body[..], out, condition::NOT_FOUND), (b"no message", queue, condition::DECODE_ERROR)];
                for order in [[0, 1], [1, 0]] {
                    let txn = control.declare(&mut net);
                    post(&mut net, sender, queue, &txn, "never");
                    for at in order {
                        let (body, link, _) = &causes[at];
                        net.piece_with(sender, *link, (body, &within(&txn, None)), settled, true, false);
                    }
                    rolls_back(&mut net, control, &txn, &causes[order[0]].2);
                }
                assert_eq!(stored(&mut net), 0);
            }
        }
    }
}

#[test]
fn a_posting_larger_than_its_address_allows_fails_the_commit() {
    for (shards, producer, _) in LAYOUTS {
        for settled in [true, false] {
            let mut net = with_queue_of(shards, 100);
            let sender = pinned(&mut net, producer);
            let control = Controller::new(&mut net, sender);
            let (out, queue) = (net.sender(sender, None), net.sender(sender, Some("orders")));
            let txn = control.declare(&mut net);
            post(&mut net, sender, queue, &txn, "never");
            let large = message(&"x".repeat(1000));
            net.piece_with(sender, out, (&large, &within(&txn, None)), settled, true, false);
            rolls_back(&mut net, control, &txn, &condition::MESSAGE_SIZE_EXCEEDED);
            assert_eq!(stored(&mut net), 0);
        }
    }
}

#[test]
fn posting_on_a_link_detached_by_the_node_fails_the_commit() {
    for (shards, producer, _) in LAYOUTS {
        let mut net = with_queue(shards);
        let sender = pinned(&mut net, producer);
        let control = Controller::new(&mut net, sender);
        let (out, direct) = (net.sender(sender, Some("orders")), net.sender(sender, Some("anycast")));
        net.receiver(sender, "anycast", 10);
        let txn = control.declare(&mut net);
        post(&mut net, sender, out, &txn, "never");
        net.at_once(|net| {
            net.apply(
                &plan_of(u32::MAX)
                    .replace("\"name\": \"anycast\"", "\"name\": \"another\"")
                    .replace("address-1", "address-9"),
            );
            net.piece_with(sender, direct, (b"late", &within(&txn, None)), true, true, false);
        });
        let error = failure(control.discharge(&mut net, &txn, false));
        assert_eq!(error.condition, condition::TRANSACTION_ROLLBACK);
    }
}

#[test]
fn transactional_management_request_is_refused_and_fails_the_commit() {
    for settled in [true, false] {
        let mut net = with_queue(1);
        let client = pinned(&mut net, 0);
        let control = Controller::new(&mut net, client);
        let out = net.sender(client, Some("$management"));
        let txn = control.declare(&mut net);
        net.piece_with(client, out, (&message("READ"), &within(&txn, None)), settled, true, false);
        refuses(&mut net, control, &txn, settled, &condition::NOT_IMPLEMENTED);
    }
}

#[test]
fn retirement_in_an_unknown_transaction_ends_the_session() {
    for (shards, producer, consumer) in LAYOUTS {
        for settled in [true, false] {
            let (mut net, control, into, ids) = holding(shards, producer, consumer);
            net.settle_with(control.client, into, ids[0], &within(b"\0\0\0\0\0\0\0\x09", Some(accepted())), settled);
            let error = net.clients[control.client].received.iter().find_map(|received| match received {
                ClientEvent::Ended(error) => error.clone(),
                _ => None,
            });
            assert_eq!(error.expect("the end of the session").condition, condition::TRANSACTION_UNKNOWN_ID);
            assert_eq!(stored(&mut net), 2, "nothing was settled");
        }
    }
}

#[test]
fn coordinator_reports_its_capabilities() {
    let mut net = with_queue(1);
    let client = net.simple(0);
    net.attach(client, coordinator());
    let answered = net.clients[client].received.iter().find_map(|received| match received {
        ClientEvent::Attached { attach, .. } => attach.target.as_deref().cloned(),
        _ => None,
    });
    let Some(Target::Coordinator(Coordinator { capabilities })) = answered else { panic!("{answered:?}") };
    let names: Vec<&str> = capabilities.iter().map(Symbol::as_str).collect();
    assert_eq!(names, ["amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"]);
}

#[test]
fn coordinator_refuses_invalid_controls_and_too_many_transactions() {
    let mut net = with_queue(1);
    let client = net.simple(0);
    let control = Controller::new(&mut net, client);
    let global = TransactionControl::Declare(Declare { global_id: Some(vec![1]) });
    assert_eq!(failure(control.ask(&mut net, &global)).condition, condition::NOT_IMPLEMENTED);
    for (bytes, expected) in [
        (&b"\0\x53\x75\xa0\x01x"[..], condition::INVALID_FIELD),
        (b"\0\x53\x77\x45", condition::DECODE_ERROR),
        (b"\0\x53\x77", condition::DECODE_ERROR),
        (b"\0\x53\x77\0\x53\x33\x45", condition::NOT_IMPLEMENTED),
        (b"", condition::INVALID_FIELD),
    ] {
        net.send(client, control.link, bytes, false);
        let outcome = net.outcomes(client).pop().expect("an outcome").1;
        assert_eq!(failure(outcome).condition, expected, "{bytes:?}");
    }
    let txns: Vec<Vec<u8>> = (0..1000).map(|_| control.declare(&mut net)).collect();
    let declare = TransactionControl::Declare(Declare::default());
    assert_eq!(failure(control.ask(&mut net, &declare)).condition, condition::RESOURCE_LIMIT_EXCEEDED);
    assert_eq!(control.discharge(&mut net, &txns[500], false), accepted());
    control.declare(&mut net);
}

#[test]
fn control_message_may_be_partial_and_have_other_sections() {
    let mut net = with_queue(1);
    let client = net.simple(0);
    let control = Controller::new(&mut net, client);
    let mut bytes = b"\0\x53\x70\xc0\x02\x01\x41\0\x53\x77".to_vec();
    encode_transaction_control(&mut bytes, &TransactionControl::Declare(Declare::default()));
    let (front, rest) = bytes.split_at(7);
    net.piece(client, control.link, front, false, true, true);
    net.piece(client, control.link, rest, false, false, false);
    assert!(matches!(net.clients[client].received.back(), Some(ClientEvent::Declared(_))));
}

#[test]
fn a_control_that_is_settled_ends_its_link() {
    let mut net = with_queue(1);
    let client = net.simple(0);
    let control = Controller::new(&mut net, client);
    let out = net.sender(client, Some("orders"));
    let txn = control.declare(&mut net);
    post(&mut net, client, out, &txn, "never");
    control.send(&mut net, &TransactionControl::Discharge(Discharge { txn_id: txn, fail: false }), true);
    assert_eq!(net.detached(client).map(|error| error.condition), Some(condition::NOT_ALLOWED));
    assert_eq!(stored(&mut net), 0);
    net.clients[client].received.clear();
    let control = Controller::new(&mut net, client);
    control.declare(&mut net);
}

#[test]
fn coordinator_link_without_the_rejected_outcome_is_detached_with_the_error() {
    let mut net = with_queue(1);
    let client = net.simple(0);
    let outcomes = vec![Symbol::from("amqp:accepted:list"), Symbol::from("amqp:declared:list")];
    let source = Some(Box::new(Source { outcomes, ..Source::default() }));
    let link = net.attach(client, Attach { source, ..coordinator() });
    let control = Controller { client, link };
    control.declare(&mut net);
    let unknown = TransactionControl::Discharge(Discharge { txn_id: vec![1], fail: false });
    control.send(&mut net, &unknown, false);
    assert_eq!(net.detached(client).map(|error| error.condition), Some(condition::TRANSACTION_UNKNOWN_ID));
}

#[test]
fn anonymous_terminus_keeps_the_transaction_of_a_partial_delivery() {
    for (shards, producer, _) in LAYOUTS {
        let mut net = with_queue(shards);
        let sender = pinned(&mut net, producer);
        let control = Controller::new(&mut net, sender);
        let out = net.sender(sender, None);
        let txn = control.declare(&mut net);
        let body = message("in parts");
        let (front, rest) = body.split_at(5);
        net.piece_with(sender, out, (front, &within(&txn, None)), false, true, true);
        net.piece(sender, out, rest, false, false, false);
        assert_eq!(provisional(&mut net, sender), [(txn.clone(), accepted())]);
        assert_eq!(stored(&mut net), 0);
        let lost = control.declare(&mut net);
        let nowhere = message_to("nowhere", None, b"x");
        net.piece_with(sender, out, (&nowhere, &within(&lost, None)), true, true, false);
        let outcome = control.discharge(&mut net, &lost, false);
        assert_eq!(failure(outcome).condition, condition::TRANSACTION_ROLLBACK);
        assert_eq!(control.discharge(&mut net, &txn, false), accepted());
        assert_eq!(stored(&mut net), 1);
    }
}

#[test]
fn connection_with_a_coordinator_first_moves_to_the_shard_of_stored_addresses() {
    let mut net = with_queue(3);
    let client = net.simple(2);
    let control = Controller::new(&mut net, client);
    let txn = control.declare(&mut net);
    assert_eq!([0, 1, 2].map(|shard: usize| net.shards[shard].connection_count()), [1, 0, 0]);
    let out = net.sender(client, Some("orders"));
    post(&mut net, client, out, &txn, "a");
    assert_eq!(control.discharge(&mut net, &txn, false), accepted());
    assert_eq!(stored(&mut net), 1);
}

#[test]
fn declared_state_from_a_receiver_ends_its_session() {
    let (mut net, control, into, ids) = holding(2, 0, 1);
    let declared = DeliveryState::Declared(Declared { txn_id: vec![1] });
    net.settle_with(control.client, into, ids[0], &declared, true);
    let ended = net.clients[control.client].received.iter().find_map(|received| match received {
        ClientEvent::Ended(Some(error)) => Some(error.condition.clone()),
        _ => None,
    });
    assert_eq!(ended, Some(condition::NOT_ALLOWED));
    assert_eq!(stored(&mut net), 2);
}

#[test]
fn transfer_with_a_received_state_is_stored_outside_of_transactions() {
    let mut net = with_queue(1);
    let sender = pinned(&mut net, 0);
    let out = net.sender(sender, Some("orders"));
    let received = DeliveryState::Received(enmasse_amqp::types::Received::default());
    net.piece_with(sender, out, (&message("kept"), &received), false, true, false);
    assert_eq!(net.outcomes(sender).pop().map(|(_, outcome)| outcome), Some(accepted()));
    assert_eq!(stored(&mut net), 1);
}
