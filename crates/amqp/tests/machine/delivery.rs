//! Deliveries: sent, received, settled (2.6.12 to 2.6.14, 2.7.5, 2.7.6).

use enmasse_amqp::connection::{AttachReply, Config, Event, LinkId, OutcomeCounts, Outgoing, SendError, SessionId};
use enmasse_amqp::types::{
    DeliveryState, Disposition, Error, Modified, Outcome, Performative, Received, ReceiverSettleMode, Role,
    SenderSettleMode, Source, Transfer, condition,
};

use crate::pair::{ACCEPTED, OwnedEvent, Pair, attach, echo, piece};
use crate::raw::{Raw, disposition, transfer};

fn config() -> Config {
    Config::default()
}

/// The client sends, and the server has granted `credit`.
fn sender(client: Config, server: Config, credit: u32) -> (Pair, SessionId, LinkId, LinkId) {
    let (mut pair, session, link, theirs) = Pair::linked(client, server, Role::Sender);
    pair.server.machine.grant(theirs, credit);
    pair.run();
    assert_eq!(pair.client.only(), Event::Credit { link, credit, drain: false });
    pair.wire.clear();
    (pair, session, link, theirs)
}

fn settled_tokens(pair: &mut Pair) -> Vec<u64> {
    let mut tokens = Vec::new();
    for seen in pair.client.take() {
        if let OwnedEvent::Event(Event::Disposition { session, first, last, settled, .. }) = seen {
            pair.client.machine.take_settled(session, first, last, settled, |_, token| tokens.push(token));
        }
    }
    tokens
}

#[test]
fn outcomes_are_counted_at_both_ends_of_a_link() {
    let (mut pair, _, link, theirs) = sender(config(), config(), 10);
    let outcomes = [ACCEPTED, ACCEPTED, Outcome::Released, Outcome::Rejected(None), Outcome::Modified(Box::default())];
    for (token, outcome) in (0..).zip(&outcomes) {
        pair.client.send(link, Some(token), b"hello").unwrap();
        pair.run();
        let id = pair.server.pieces()[0].id;
        pair.server.machine.settle(theirs, id, outcome);
        pair.run();
        let Some(OwnedEvent::Event(Event::Disposition { session, first, last, settled, outcome })) =
            pair.client.take().pop()
        else {
            panic!("no disposition");
        };
        pair.client.machine.take_answered(session, first, last, settled, &outcome, |_, of| assert_eq!(of, token));
    }
    let counted = OutcomeCounts { accepted: 2, rejected: 1, released: 1, modified: 1 };
    for summary in [pair.client.machine.link_summary(link), pair.server.machine.link_summary(theirs)] {
        assert_eq!(summary.unwrap().outcomes, Some(counted));
    }
}

#[test]
fn section_2_6_12_delivery_and_outcome_are_exchanged() {
    for first_id in [0, u32::MAX - 1] {
        let client = Config { first_id, ..config() };
        let (mut pair, _, link, theirs) = sender(client, config(), 10);
        for token in 0..4 {
            pair.client.send(link, Some(token), b"hello").unwrap();
        }
        pair.run();
        let pieces = pair.server.pieces();
        assert_eq!(pieces.len(), 4);
        for (offset, piece) in (0u32..).zip(&pieces) {
            assert_eq!((piece.link, piece.id), (theirs, first_id.wrapping_add(offset)));
            assert!(piece.first && !piece.more && !piece.settled && piece.payload == b"hello");
        }
        for piece in pieces.iter().rev() {
            pair.server.machine.settle(theirs, piece.id, &ACCEPTED);
        }
        pair.run();
        let written = pair.written(false);
        assert!(matches!(written[..], [Performative::Disposition(_)]), "one range: {written:?}");
        assert_eq!(settled_tokens(&mut pair), [0, 1, 2, 3]);
    }
}

/// As `sender`, but the link settles second.
fn settling_second() -> (Pair, LinkId, LinkId) {
    let mut pair = Pair::open(config(), config());
    let session = pair.client.machine.begin().unwrap();
    let wanted =
        enmasse_amqp::types::Attach { rcv_settle_mode: ReceiverSettleMode::Second, ..attach("link", Role::Sender) };
    let link = pair.client.machine.attach(session, wanted).unwrap();
    pair.run();
    let theirs = pair.server.machine.links().next().unwrap();
    pair.server.machine.grant(theirs, 10);
    pair.run();
    pair.client.take();
    pair.server.take();
    pair.wire.clear();
    (pair, link, theirs)
}

fn dispositions<'a>(pair: &'a Pair, client: bool) -> Vec<&'a Disposition> {
    let disposition = |performative: &'a Performative| match performative {
        Performative::Disposition(disposition) => Some(disposition),
        _ => None,
    };
    pair.written(client).into_iter().filter_map(disposition).collect()
}

#[test]
fn section_2_6_12_presettled_deliveries_leave_no_state() {
    let (mut pair, _, link, theirs) = sender(config(), config(), 10);
    pair.client.send(link, None, b"gone").unwrap();
    pair.client.send(link, Some(5), b"kept").unwrap();
    pair.client.send(link, None, b"gone").unwrap();
    pair.run();
    let pieces = pair.server.pieces();
    assert_eq!(pieces.iter().map(|piece| piece.settled).collect::<Vec<_>>(), [true, false, true]);
    pair.server.machine.settle(theirs, pieces[1].id, &ACCEPTED);
    pair.run();
    assert_eq!(settled_tokens(&mut pair), [5]);
}

#[test]
fn section_2_6_12_every_outcome_arrives_unchanged() {
    let rejected = Outcome::Rejected(Some(Box::new(Error::new(condition::NOT_FOUND, "no consumer"))));
    let modified = Modified { delivery_failed: true, undeliverable_here: true, ..Modified::default() };
    let outcomes = [ACCEPTED, rejected, Outcome::Released, Outcome::Modified(Box::new(modified))];
    let (mut pair, session, link, theirs) = sender(config(), config(), 10);
    for token in 0..4 {
        pair.client.send(link, Some(token), b"x").unwrap();
    }
    pair.run();
    for (piece, outcome) in pair.server.pieces().iter().zip(&outcomes) {
        pair.server.machine.settle(theirs, piece.id, outcome);
    }
    pair.run();
    for (id, (seen, expected)) in (0..).zip(pair.client.take().into_iter().zip(outcomes)) {
        let expected = Event::Disposition { session, first: id, last: id, settled: true, outcome: expected };
        assert_eq!(seen, OwnedEvent::Event(expected));
    }
}

#[test]
fn section_2_6_12_mode_second_settles_in_three_steps() {
    let (mut pair, link, theirs) = settling_second();
    for token in 0..3 {
        pair.client.send(link, Some(token), b"x").unwrap();
    }
    pair.run();
    for piece in pair.server.pieces() {
        pair.server.machine.settle(theirs, piece.id, &ACCEPTED);
    }
    pair.run();
    let reported = dispositions(&pair, false);
    assert_eq!((reported.len(), reported[0].settled, reported[0].last), (1, false, Some(2)));
    assert_eq!(settled_tokens(&mut pair), [0, 1, 2]);
    pair.run();
    let answered = dispositions(&pair, true);
    assert_eq!((answered.len(), answered[0].role, answered[0].settled), (1, Role::Sender, true));
    assert_eq!((answered[0].first, answered[0].last), (0, Some(2)));
    let Event::SenderSettled { first: 0, last: 2, .. } = pair.server.only() else { panic!() };
}

#[test]
fn section_2_7_5_transfer_may_request_settle_mode_first() {
    let mut raw = Raw::begun(config());
    let Performative::Attach(mut wanted) = crate::raw::link("link", 0, Role::Sender) else { unreachable!() };
    wanted.rcv_settle_mode = ReceiverSettleMode::Second;
    raw.side.grants = 9;
    raw.send(0, Performative::Attach(wanted));
    let link = raw.side.machine.links().next().unwrap();
    raw.written();
    let first = Transfer { rcv_settle_mode: Some(ReceiverSettleMode::First), ..transfer(0, 0) };
    raw.send(0, Performative::Transfer(Box::new(first)));
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 1))));
    for id in [0, 1] {
        raw.side.machine.settle(link, id, &ACCEPTED);
    }
    raw.bytes(b"");
    let settled: Vec<bool> = raw
        .written()
        .into_iter()
        .map(|(_, performative)| match performative {
            Performative::Disposition(disposition) => disposition.settled,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(settled, [true, false]);
}

#[test]
fn section_2_7_5_settle_mode_of_an_aborted_delivery_is_forgotten() {
    let mut raw = Raw::begun(config());
    let Performative::Attach(mut wanted) = crate::raw::link("link", 0, Role::Sender) else { unreachable!() };
    wanted.rcv_settle_mode = ReceiverSettleMode::Second;
    raw.side.grants = 9;
    raw.send(0, Performative::Attach(wanted));
    let link = raw.side.machine.links().next().unwrap();
    raw.written();
    let asking = Transfer { rcv_settle_mode: Some(ReceiverSettleMode::First), more: true, ..transfer(0, 0) };
    raw.send(0, Performative::Transfer(Box::new(asking)));
    let abort = Transfer { delivery_id: None, delivery_tag: None, aborted: true, ..transfer(0, 0) };
    raw.send(0, Performative::Transfer(Box::new(abort)));
    raw.side.machine.settle(link, 0, &ACCEPTED);
    raw.bytes(b"");
    let written = raw.written();
    assert!(
        matches!(&written[..], [(_, Performative::Disposition(reported))] if !reported.settled),
        "the aborted delivery is forgotten: {written:?}"
    );
}

#[test]
fn section_2_6_12_outcomes_out_of_order_are_sorted_into_ranges() {
    let (mut pair, _, link, theirs) = sender(Config { first_id: u32::MAX - 3, ..config() }, config(), 100);
    for token in 0..8 {
        pair.client.send(link, Some(token), b"x").unwrap();
    }
    pair.run();
    let pieces = pair.server.pieces();
    for index in [6, 0, 3, 1, 2, 7, 4] {
        pair.server.machine.settle(theirs, pieces[index].id, &ACCEPTED);
    }
    pair.run();
    let reported = dispositions(&pair, false);
    let ranges: Vec<_> =
        reported.iter().map(|reported| (reported.first, reported.last.unwrap_or(reported.first))).collect();
    assert_eq!(ranges, [(u32::MAX - 3, 0), (2, 3)]);
    assert_eq!(settled_tokens(&mut pair), [0, 1, 2, 3, 4, 6, 7]);
}

#[test]
fn section_3_5_3_deliveries_settled_without_outcome_get_the_default() {
    let mut raw = Raw::begun(config());
    raw.side.answers = false;
    let defaults = [Some(Outcome::Accepted), None];
    for (handle, default_outcome) in (0..).zip(defaults) {
        raw.send(0, crate::raw::link(&format!("link {handle}"), handle, Role::Receiver));
        let Event::Attach { link, attach, .. } = raw.side.only() else { panic!("not asked") };
        let source = Some(Box::new(Source { default_outcome, ..Source::default() }));
        raw.side.machine.accept(link, AttachReply { source, ..echo(&attach) });
        let flow = enmasse_amqp::types::Flow { handle: Some(handle), link_credit: Some(9), ..crate::raw::flow() };
        raw.send(0, Performative::Flow(flow));
        raw.side.take();
    }
    let links: Vec<LinkId> = raw.side.machine.links().collect();
    for (token, link) in (0..).zip([links[0], links[0], links[1], links[0]]) {
        raw.side.send(link, Some(token), b"x").unwrap();
    }
    let reported = Disposition { settled: false, ..disposition(0, Some(3)) };
    raw.send(0, Performative::Disposition(reported));
    assert!(raw.side.take().is_empty(), "neither settled nor a state: no event");
    let received = Some(DeliveryState::Received(Received::default()));
    raw.send(0, Performative::Disposition(Disposition { settled: false, state: received, ..disposition(0, Some(3)) }));
    assert!(raw.side.take().is_empty(), "not an outcome");
    raw.send(0, Performative::Disposition(disposition(0, Some(3))));
    let seen: Vec<_> = raw
        .side
        .take()
        .into_iter()
        .map(|seen| match seen {
            OwnedEvent::Event(Event::Disposition { first, last, settled: true, outcome, .. }) => (first, last, outcome),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, [(0, 1, ACCEPTED), (2, 2, Outcome::Released), (3, 3, ACCEPTED)]);
}

#[test]
fn section_2_6_14_large_delivery_is_split_at_the_peers_max_frame_size() {
    for chunk in [1, 100, usize::MAX] {
        let (mut pair, _, link, theirs) = sender(config(), Config { max_frame_size: 600, ..config() }, 1);
        pair.chunk = chunk;
        let message: Vec<u8> = (0..5000u32).map(|byte| byte as u8).collect();
        pair.client.send(link, Some(1), &message).unwrap();
        pair.run();
        let pieces = pair.server.pieces();
        assert!(pieces.len() >= 9, "{}", pieces.len());
        assert!(pieces.iter().all(|piece| piece.id == pieces[0].id && piece.link == theirs));
        assert!(pieces[0].first && pieces[1..].iter().all(|piece| !piece.first));
        assert!(pieces[..pieces.len() - 1].iter().all(|piece| piece.more) && !pieces[pieces.len() - 1].more);
        assert_eq!(pieces.into_iter().flat_map(|piece| piece.payload).collect::<Vec<_>>(), message);
    }
}

#[test]
fn section_2_6_14_deliveries_of_several_links_interleave() {
    let (mut pair, session, one, their_one) = sender(config(), config(), 9);
    let two = pair.client.machine.attach(session, attach("two", Role::Sender)).unwrap();
    pair.run();
    let their_two = pair.server.machine.links().find(|link| *link != their_one).unwrap();
    pair.server.machine.grant(their_two, 9);
    pair.run();
    pair.server.take();
    let part = |first, more, payload| Outgoing { first, more, ..piece(Some(7), payload) };
    let machine = &mut pair.client.machine;
    machine.transfer(one, part(true, true, b"a1")).unwrap();
    assert_eq!((machine.sendable(one), machine.continuable(one)), (0, true));
    assert_eq!(machine.transfer(one, part(true, false, b"?")), Err(SendError::OutOfOrder));
    machine.transfer(two, part(true, true, b"b1")).unwrap();
    machine.transfer(one, part(false, true, b"a2")).unwrap();
    machine.transfer(two, part(false, false, b"b2")).unwrap();
    assert_eq!(machine.transfer(two, part(false, false, b"?")), Err(SendError::OutOfOrder));
    machine.transfer(two, part(true, false, b"c")).unwrap();
    machine.transfer(one, part(false, false, b"")).unwrap();
    pair.run();
    let pieces = pair.server.pieces();
    let of = |link| {
        pieces
            .iter()
            .filter(|piece| piece.link == link)
            .map(|piece| (piece.id, &piece.payload[..], piece.more))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(their_one), [(0, &b"a1"[..], true), (0, b"a2", true), (0, b"", false)]);
    assert_eq!(of(their_two), [(1, &b"b1"[..], true), (1, b"b2", false), (2, b"c", false)]);
}

#[test]
fn section_2_6_14_an_aborted_delivery_is_void() {
    let (mut pair, _, link, theirs) = sender(config(), config(), 9);
    let start = Outgoing { more: true, ..piece(Some(7), b"half") };
    pair.client.machine.transfer(link, start).unwrap();
    let abort = Outgoing { first: false, aborted: true, ..piece(None, b"ignored") };
    pair.client.machine.transfer(link, abort).unwrap();
    assert_eq!(pair.client.machine.transfer(link, abort), Err(SendError::OutOfOrder));
    pair.client.send(link, Some(8), b"whole").unwrap();
    pair.run();
    let pieces = pair.server.pieces();
    assert_eq!(
        pieces.iter().map(|piece| (piece.id, piece.aborted)).collect::<Vec<_>>(),
        [(0, false), (0, true), (1, false)]
    );
    assert!(pieces[1].payload.is_empty() && !pieces[1].more);
    pair.server.machine.settle(theirs, 1, &ACCEPTED);
    pair.run();
    assert_eq!(settled_tokens(&mut pair), [8]);
}

#[test]
fn section_2_6_13_resumption_of_an_unknown_delivery_is_ignored() {
    let (mut raw, link) = Raw::attached(config(), Role::Sender);
    raw.side.machine.grant(link, 2);
    raw.send(0, Performative::Transfer(Box::new(Transfer { resume: true, more: true, ..transfer(0, 0) })));
    let rest = Transfer { delivery_id: None, delivery_tag: None, ..transfer(0, 0) };
    raw.send(0, Performative::Transfer(Box::new(rest)));
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 1))));
    let pieces = raw.side.pieces();
    assert_eq!(pieces.iter().map(|piece| (piece.link, piece.id)).collect::<Vec<_>>(), [(link, 1)]);
}

#[test]
fn section_2_7_3_max_message_size_applies_in_both_directions() {
    let (mut pair, _, link, theirs) = {
        let mut pair = Pair::open(config(), config());
        pair.server.answers = false;
        let session = pair.client.machine.begin().unwrap();
        let link = pair.client.machine.attach(session, attach("link", Role::Sender)).unwrap();
        pair.run();
        let Some(OwnedEvent::Event(Event::Attach { link: theirs, attach, .. })) = pair.server.take().pop() else {
            panic!()
        };
        pair.server.machine.accept(theirs, AttachReply { max_message_size: Some(4), ..echo(&attach) });
        pair.server.machine.grant(theirs, 9);
        pair.run();
        pair.client.take();
        (pair, session, link, theirs)
    };
    assert_eq!(pair.client.send(link, None, b"12345"), Err(SendError::TooLarge));
    pair.client.send(link, None, b"1234").unwrap();
    let part = |first, more, payload| Outgoing { first, more, ..piece(None, payload) };
    pair.client.machine.transfer(link, part(true, true, b"123")).unwrap();
    assert_eq!(pair.client.machine.transfer(link, part(false, false, b"45")), Err(SendError::TooLarge));
    pair.client.machine.transfer(link, Outgoing { aborted: true, ..part(false, false, b"") }).unwrap();
    pair.run();
    assert_eq!(pair.server.pieces().len(), 3);
    assert_eq!(pair.server.machine.links().next(), Some(theirs));

    let mut raw = Raw::begun(config());
    raw.side.answers = false;
    raw.send(0, crate::raw::link("link", 0, Role::Sender));
    let Event::Attach { link, attach, .. } = raw.side.only() else { panic!("not asked") };
    raw.side.machine.accept(link, AttachReply { max_message_size: Some(4), ..echo(&attach) });
    raw.side.machine.grant(link, 1);
    raw.side.answers = true;
    raw.send_with(0, Performative::Transfer(Box::new(Transfer { more: true, ..transfer(0, 0) })), b"123");
    let rest = Transfer { delivery_id: None, delivery_tag: None, ..transfer(0, 0) };
    raw.send_with(0, Performative::Transfer(Box::new(rest)), b"45");
    raw.assert_detached(&condition::MESSAGE_SIZE_EXCEEDED, "max-message-size of 4 bytes");
}

#[test]
fn section_2_8_2_settled_link_refuses_unsettled_deliveries() {
    let mut pair = Pair::open(config(), config());
    let session = pair.client.machine.begin().unwrap();
    let wanted =
        enmasse_amqp::types::Attach { snd_settle_mode: SenderSettleMode::Settled, ..attach("link", Role::Sender) };
    let link = pair.client.machine.attach(session, wanted).unwrap();
    pair.run();
    let theirs = pair.server.machine.links().next().unwrap();
    pair.server.machine.grant(theirs, 9);
    pair.run();
    assert!(pair.client.machine.sends_settled(link) && !pair.server.machine.sends_settled(LinkId(9)));
    assert_eq!(pair.client.send(link, Some(1), b"x"), Err(SendError::SettledOnly));
    pair.client.send(link, None, b"x").unwrap();
    pair.run();
    let pieces = pair.server.pieces();
    assert!(pieces.len() == 1 && pieces[0].settled);
}

#[test]
fn section_2_8_2_an_unsettled_link_sends_nothing_settled() {
    for (rcv_settle_mode, settled) in [(ReceiverSettleMode::First, false), (ReceiverSettleMode::Second, true)] {
        let mut pair = Pair::open(config(), config());
        let session = pair.client.machine.begin().unwrap();
        let snd_settle_mode = SenderSettleMode::Unsettled;
        let wanted = enmasse_amqp::types::Attach { snd_settle_mode, rcv_settle_mode, ..attach("link", Role::Sender) };
        let link = pair.client.machine.attach(session, wanted).unwrap();
        pair.run();
        let theirs = pair.server.machine.links().next().unwrap();
        pair.server.machine.grant(theirs, 9);
        pair.run();
        pair.client.send(link, None, b"unrequested").unwrap();
        pair.client.send(link, Some(4), b"requested").unwrap();
        pair.run();
        let pieces = pair.server.pieces();
        assert_eq!(pieces.iter().map(|piece| piece.settled).collect::<Vec<_>>(), [settled, false]);
        for piece in pieces {
            pair.server.machine.settle(theirs, piece.id, &ACCEPTED);
        }
        pair.run();
        assert_eq!(settled_tokens(&mut pair), [4]);
    }
}

#[test]
fn section_2_6_12_unsettled_deliveries_have_a_bound() {
    let (mut pair, session, link, theirs) = sender(Config { unsettled_max: 3, ..config() }, config(), 10);
    assert_eq!(pair.client.machine.sendable(link), 3);
    for token in 0..3 {
        pair.client.send(link, Some(token), b"x").unwrap();
    }
    assert_eq!(pair.client.machine.sendable(link), 0);
    assert_eq!(pair.client.send(link, Some(3), b"x"), Err(SendError::Unsettled));
    pair.run();
    pair.server.machine.settle(theirs, 1, &ACCEPTED);
    pair.run();
    assert_eq!(settled_tokens(&mut pair), [1]);
    assert_eq!(pair.client.machine.sendable(link), 1);
    pair.client.machine.take_settled(session, 0, 9, true, |_, _| {});
    assert_eq!(pair.client.machine.sendable(link), 3);
}

#[test]
fn section_2_6_12_deliveries_of_a_lost_link_are_returned_once() {
    let (mut pair, session, link, theirs) = sender(config(), config(), 10);
    let other = pair.client.machine.attach(session, attach("other", Role::Sender)).unwrap();
    pair.run();
    let their_other = pair.server.machine.links().find(|link| *link != theirs).unwrap();
    pair.server.machine.grant(their_other, 10);
    pair.run();
    pair.client.take();
    for (token, link) in (0..).zip([link, other, link, other]) {
        pair.client.send(link, Some(token), b"x").unwrap();
    }
    let mut tokens = Vec::new();
    pair.client.machine.take_unsettled(link, |token| tokens.push(token));
    assert_eq!(tokens, [0, 2]);
    pair.client.machine.take_unsettled(link, |token| tokens.push(token));
    assert_eq!(tokens, [0, 2], "once");
    pair.run();
    for id in 0..4 {
        pair.server.machine.settle(theirs, id, &ACCEPTED);
    }
    pair.run();
    assert_eq!(settled_tokens(&mut pair), [1, 3]);
}

#[test]
fn section_2_6_12_dispositions_are_sent_before_the_detach() {
    let (mut pair, _, link, theirs) = sender(config(), config(), 10);
    pair.client.send(link, Some(1), b"x").unwrap();
    pair.run();
    pair.server.machine.settle(theirs, 0, &ACCEPTED);
    pair.server.machine.detach(theirs, true, None);
    pair.run();
    let written = pair.written(false);
    assert!(matches!(written[..], [Performative::Disposition(_), Performative::Detach(_)]), "{written:?}");
}
