//! The parts of AMQP part 4 that concern the machine: transactional states in both directions. The
//! driver is the coordinator.

use enmasse_amqp::codec::decode_state;
use enmasse_amqp::connection::{Config, Event, LinkId, SendError, SessionId};
use enmasse_amqp::types::{
    Declared, DeliveryState, Disposition, Error, Flow, Modified, Outcome, Performative, Role, Source, Symbol,
    TransactionalState, Transfer, Value, condition,
};

use crate::pair::{OwnedEvent, Pair, Piece, attach, piece};
use crate::raw::{Raw, disposition, flow, transfer};

const TXN: &[u8] = b"txn";

fn within(outcome: Option<Outcome>) -> DeliveryState {
    DeliveryState::Transactional(Box::new(TransactionalState { txn_id: TXN.to_vec(), outcome }))
}

/// The client sends, the server has granted 10.
fn sending(server: Config) -> (Pair, SessionId, LinkId, LinkId) {
    let (mut pair, session, link, theirs) = Pair::linked(Config::default(), server, Role::Sender);
    pair.server.machine.grant(theirs, 10);
    pair.run();
    pair.client.take();
    pair.wire.clear();
    (pair, session, link, theirs)
}

/// The server has sent three deliveries, tokens 0 to 2, to the client.
fn receiving(source: Source) -> (Pair, LinkId, LinkId, Vec<Piece>) {
    let mut pair = Pair::open(Config::default(), Config::default());
    let session = pair.client.machine.begin().unwrap();
    let attach = enmasse_amqp::types::Attach { source: Some(Box::new(source)), ..attach("link", Role::Receiver) };
    let link = pair.client.machine.attach(session, attach).unwrap();
    pair.client.machine.grant(link, 10);
    pair.run();
    let theirs = pair.server.machine.links().next().unwrap();
    for token in 0..3 {
        pair.server.send(theirs, Some(token), b"x").unwrap();
    }
    pair.run();
    pair.server.take();
    pair.wire.clear();
    let pieces = pair.client.pieces();
    (pair, link, theirs, pieces)
}

fn tokens(pair: &Pair, session: SessionId) -> Vec<u64> {
    pair.server.machine.unsettled(session, 0, 100).map(|(_, _, token)| token).collect()
}

#[test]
fn section_4_4_1_the_state_of_a_transfer_reaches_the_driver() {
    for (max_frame_size, length, frames) in [(65_536, 5, 1), (512, 2000, 5)] {
        let (mut pair, _, link, _) = sending(Config { max_frame_size, ..Config::default() });
        let payload = vec![7; length];
        pair.client.machine.transfer_with(link, piece(Some(1), &payload), &within(None)).unwrap();
        pair.client.send(link, Some(2), b"outside").unwrap();
        pair.run();
        assert!(pair.wire.iter().all(|(_, _, _, bytes)| *bytes <= 512 || max_frame_size > 512));
        let pieces = pair.server.pieces();
        assert_eq!(pieces.len(), frames + 1);
        assert_eq!(pieces.iter().map(|piece| piece.payload.len()).sum::<usize>(), length + 7);
        let state = pieces[0].state.as_deref().map(|state| decode_state(state).unwrap());
        assert_eq!(state, Some(within(None)));
        assert!(pieces[1..].iter().all(|piece| piece.state.is_none()));
    }
}

#[test]
fn section_4_4_1_frames_with_a_state_respect_max_frame_size() {
    let (mut pair, _, link, _) = sending(Config { max_frame_size: 512, ..Config::default() });
    let txn_id = vec![1; 300];
    let state = DeliveryState::Transactional(Box::new(TransactionalState { txn_id, outcome: None }));
    pair.client.machine.transfer_with(link, piece(None, &[7; 900]), &state).unwrap();
    pair.run();
    // The server closes the connection over a frame that is too long.
    assert_eq!(pair.server.pieces().iter().map(|piece| piece.payload.len()).sum::<usize>(), 900);
}

#[test]
fn section_4_4_1_empty_message_carries_its_state() {
    let (mut pair, _, link, _) = sending(Config::default());
    pair.client.machine.transfer_with(link, piece(None, b""), &within(None)).unwrap();
    assert_eq!(
        pair.client.machine.transfer_with(LinkId(9), piece(None, b""), &within(None)),
        Err(SendError::NotAttached)
    );
    pair.run();
    let pieces = pair.server.pieces();
    assert!(pieces.len() == 1 && pieces[0].state.is_some() && !pieces[0].more);
}

#[test]
fn section_4_4_1_a_posting_is_answered_with_a_provisional_outcome() {
    let (mut pair, session, link, theirs) = sending(Config::default());
    for token in 0..3 {
        pair.client.machine.transfer_with(link, piece(Some(token), b"x"), &within(None)).unwrap();
    }
    pair.run();
    for piece in pair.server.pieces() {
        pair.server.machine.settle_with(theirs, piece.id, &within(Some(Outcome::Accepted)), true);
    }
    pair.run();
    assert_eq!(pair.written(false).len(), 1, "one range");
    let (txn_id, outcome) = (TXN.to_vec(), Outcome::Accepted);
    let expected = Event::Provisional { session, first: 0, last: 2, settled: true, txn_id, outcome };
    assert_eq!(pair.client.only(), expected);
}

#[test]
fn section_4_4_1_posting_on_a_detached_link_is_reported_as_refused() {
    let (mut pair, _, link, theirs) = sending(Config::default());
    pair.server.machine.detach(theirs, true, None);
    for token in [Some(1), None] {
        pair.client.machine.transfer_with(link, piece(token, b"x"), &within(None)).unwrap();
    }
    pair.client.send(link, Some(2), b"outside").unwrap();
    pair.run();
    let refused = pair.server.take().into_iter().filter_map(|seen| match seen {
        OwnedEvent::Event(Event::PostingRefused { txn_id, error }) => Some((txn_id, error.condition)),
        _ => None,
    });
    let expected = (TXN.to_vec(), condition::PRECONDITION_FAILED);
    assert_eq!(refused.collect::<Vec<_>>(), [expected.clone(), expected]);
}

#[test]
fn section_4_4_1_posting_without_credit_is_refused_before_its_link_detaches() {
    let (mut raw, link) = Raw::attached(Config::default(), Role::Sender);
    let posting = Transfer { state: Some(within(None)), ..transfer(0, 0) };
    raw.send_with(0, Performative::Transfer(Box::new(posting)), b"x");
    let seen = raw.side.take();
    let [
        OwnedEvent::Event(Event::PostingRefused { txn_id, error }),
        OwnedEvent::Event(Event::Detach { link: over, .. }),
    ] = &seen[..]
    else {
        panic!("{seen:?}")
    };
    assert_eq!((&txn_id[..], &error.condition, over), (TXN, &condition::TRANSFER_LIMIT_EXCEEDED, &link));
}

#[test]
fn section_4_5_5_a_coordinator_declares_a_transaction() {
    let (mut pair, session, link, theirs) = sending(Config::default());
    pair.client.send(link, Some(1), b"declare").unwrap();
    pair.run();
    let id = pair.server.pieces()[0].id;
    let declared = DeliveryState::Declared(Declared { txn_id: TXN.to_vec() });
    pair.server.machine.settle_with(theirs, id, &declared, true);
    pair.run();
    let expected = Event::Declared { session, first: id, last: id, settled: true, txn_id: TXN.to_vec() };
    assert_eq!(pair.client.only(), expected);
}

#[test]
fn section_4_4_2_a_retirement_leaves_the_delivery_unsettled_until_the_discharge() {
    let (mut pair, link, _, pieces) = receiving(Source::default());
    for piece in &pieces[..2] {
        pair.client.machine.settle_with(link, piece.id, &within(Some(Outcome::Released)), false);
    }
    pair.run();
    let Event::Provisional { session, first: 0, last: 1, settled: false, txn_id, outcome } = pair.server.only() else {
        panic!("no retirement")
    };
    assert_eq!((&txn_id[..], outcome), (TXN, Outcome::Released));
    assert_eq!(tokens(&pair, session), [0, 1, 2]);
    let mut taken = Vec::new();
    pair.server.machine.take_settled(session, 0, 1, false, |_, token| taken.push(token));
    pair.run();
    assert_eq!((taken, tokens(&pair, session)), (vec![0, 1], vec![2]));
    let written = pair.written(false);
    let [Performative::Disposition(Disposition { role: Role::Sender, first: 0, last: Some(1), settled: true, .. })] =
        written[..]
    else {
        panic!("{written:?}")
    };
}

#[test]
fn section_4_4_2_a_retirement_may_settle_at_once() {
    let (mut pair, link, theirs, pieces) = receiving(Source::default());
    let modified = Outcome::Modified(Box::new(Modified { delivery_failed: true, ..Modified::default() }));
    pair.client.machine.settle_with(link, pieces[2].id, &within(Some(modified.clone())), true);
    pair.run();
    let Event::Provisional { session, first, last, settled: true, outcome, .. } = pair.server.only() else {
        panic!("no retirement")
    };
    assert_eq!(outcome, modified);
    let mut taken = Vec::new();
    pair.server.machine.take_settled(session, first, last, true, |link, token| taken.push((link, token)));
    assert_eq!(taken, [(theirs, 2)]);
    pair.run();
    assert!(!pair.written(false).iter().any(|written| matches!(written, Performative::Disposition(_))));
}

#[test]
fn section_4_4_2_retirement_without_outcome_uses_the_default_outcome() {
    let source = Source { default_outcome: Some(Outcome::Accepted), ..Source::default() };
    let (mut pair, link, _, pieces) = receiving(source);
    pair.client.machine.settle_with(link, pieces[0].id, &within(None), false);
    pair.run();
    assert!(pair.server.take().is_empty(), "no outcome yet");
    pair.client.machine.settle_with(link, pieces[0].id, &within(None), true);
    pair.run();
    let Event::Provisional { settled: true, txn_id, outcome, .. } = pair.server.only() else { panic!() };
    assert_eq!((&txn_id[..], outcome), (TXN, Outcome::Accepted));
}

#[test]
fn section_4_5_5_declared_state_from_a_receiver_is_passed_to_the_driver() {
    let (mut raw, _) = Raw::attached(Config::default(), Role::Receiver);
    let state = Some(DeliveryState::Declared(Declared { txn_id: vec![1] }));
    raw.send(0, Performative::Disposition(Disposition { state, ..disposition(0, None) }));
    let seen = raw.side.take();
    assert!(
        matches!(seen[..], [OwnedEvent::Event(Event::Declared { first: 0, last: 0, settled: true, .. })]),
        "{seen:?}"
    );
}

#[test]
fn section_4_4_3_transactional_acquisition_is_not_implemented() {
    let (mut raw, _) = Raw::attached(Config::default(), Role::Receiver);
    let properties = vec![(Symbol::from("txn-id"), Value::Binary(TXN.to_vec()))];
    let asks = Flow { handle: Some(0), link_credit: Some(1), properties, ..flow() };
    raw.send(0, Performative::Flow(asks));
    raw.assert_detached(&condition::NOT_IMPLEMENTED, "acquisition");
}

#[test]
fn section_2_7_1_long_transactional_outcome_is_truncated() {
    let (mut pair, _, link, theirs) = sending(Config::default());
    pair.client.send(link, Some(1), b"x").unwrap();
    pair.run();
    let id = pair.server.pieces()[0].id;
    let error = Error::new(condition::NOT_FOUND, "long ".repeat(100_000));
    let rejected = Outcome::Rejected(Some(Box::new(error)));
    pair.server.machine.settle_with(theirs, id, &within(Some(rejected)), true);
    pair.run();
    let Event::Provisional { txn_id, outcome: Outcome::Rejected(Some(error)), .. } = pair.client.only() else {
        panic!("no outcome")
    };
    assert_eq!(&txn_id[..], TXN);
    assert!(error.description.unwrap().starts_with("long long"));
}
