//! Deliveries that continue when their link attaches again (2.6.5, 2.6.13, 2.7.3).

use enmasse_amqp::connection::{AttachReply, Config, Event, LinkId, Outgoing, Tag};
use enmasse_amqp::types::{
    Attach, DeliveryState, Disposition, Outcome, Performative, ReceiverSettleMode, Role, condition,
};

use crate::pair::{OwnedEvent, Pair, Piece, attach, echo, piece};
use crate::raw::{Raw, disposition, link, transfer};

type Unsettled = Vec<(Vec<u8>, Option<DeliveryState>)>;

fn accepted() -> Option<DeliveryState> {
    Some(DeliveryState::Outcome(Outcome::Accepted))
}

/// Tags of `count` unsettled deliveries, 32 bytes each.
fn tags(count: u32) -> Unsettled {
    (0..count).map(|number| (number.to_be_bytes().repeat(8), accepted())).collect()
}

/// A client with a link of the role `role` that names `ours` as unsettled, and a server that names
/// `theirs`.
fn resumed(server: Config, role: Role, ours: Unsettled, theirs: Unsettled) -> (Pair, LinkId, LinkId) {
    let mut pair = Pair::open(Config { max_frame_size: 512, ..Config::default() }, server);
    pair.server.answers = false;
    let session = pair.client.machine.begin().unwrap();
    let wanted = Attach { unsettled: Some(ours), ..attach("link", role) };
    let link = pair.client.machine.attach(session, wanted).unwrap();
    pair.run();
    let Some(OwnedEvent::Event(Event::Attach { link: place, attach, .. })) = pair.server.take().pop() else { panic!() };
    pair.server.machine.accept(place, AttachReply { unsettled: Some(theirs), ..echo(&attach) });
    match role {
        Role::Sender => pair.server.machine.grant(place, 10),
        Role::Receiver => pair.client.machine.grant(link, 10),
    }
    pair.run();
    (pair, link, place)
}

fn names(pieces: &[Piece]) -> Vec<(&[u8], bool)> {
    pieces.iter().map(|piece| (&piece.tag[..], piece.resume)).collect()
}

fn tag(bytes: &[u8]) -> Tag<'_> {
    Tag { bytes, resume: true }
}

#[test]
fn section_2_6_13_receiver_accepts_resumption_of_named_deliveries_only() {
    let known = vec![(b"a".to_vec(), accepted()), (b"b".to_vec(), None)];
    let (mut pair, link, _) = resumed(Config::default(), Role::Sender, known.clone(), known);
    let seen = pair.client.take();
    let Some(OwnedEvent::Event(Event::Attached { attach, .. })) =
        seen.iter().find(|seen| matches!(seen, OwnedEvent::Event(Event::Attached { .. })))
    else {
        panic!("{seen:?}")
    };
    assert_eq!(
        attach.unsettled.as_deref().map(|map| (map[0].0.as_slice(), map[0].1.is_some())),
        Some((&b"a"[..], true))
    );
    for name in [&b"a"[..], b"unknown", b"a"] {
        pair.client.machine.transfer_named(link, piece(None, b"x"), tag(name)).unwrap();
    }
    pair.client.machine.transfer_named(link, piece(None, b"y"), Tag { bytes: b"new", resume: false }).unwrap();
    pair.run();
    assert_eq!(names(&pair.server.pieces()), [(&b"a"[..], true), (b"new", false)]);
}

#[test]
fn section_2_6_13_sender_resumes_under_the_original_tag() {
    let known = vec![(b"a".to_vec(), None)];
    let (mut pair, link, theirs) = resumed(Config::default(), Role::Receiver, known.clone(), known);
    let long = [7; 1500];
    pair.client.take();
    let machine = &mut pair.server.machine;
    machine.transfer_named(theirs, piece(Some(1), &long), tag(b"a")).unwrap();
    machine.transfer_named(theirs, piece(Some(2), b"next"), Tag { bytes: b"c", resume: false }).unwrap();
    machine.transfer(theirs, piece(Some(3), b"last")).unwrap();
    pair.run();
    let pieces = pair.client.pieces();
    let bytes: Vec<u8> = pieces.iter().filter(|piece| piece.resume).flat_map(|piece| piece.payload.clone()).collect();
    assert_eq!((bytes, pieces[0].tag.as_slice()), (long.to_vec(), &b"a"[..]), "in frames of 512 bytes");
    let first: Vec<&Piece> = pieces.iter().filter(|piece| piece.first).collect();
    assert_eq!(first.iter().map(|piece| piece.resume).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!((&first[1].tag[..], &first[2].tag[..]), (&b"c"[..], &first[2].id.to_be_bytes()[..]));
    for id in first.iter().map(|piece| piece.id) {
        pair.client.machine.settle(link, id, &Outcome::Accepted);
    }
    pair.server.take();
    pair.run();
    let Event::Disposition { first: 0, last: 2, outcome: Outcome::Accepted, .. } = pair.server.only() else { panic!() };
}

#[test]
fn section_2_6_13_a_resumed_delivery_may_be_aborted() {
    let known = vec![(b"a".to_vec(), None)];
    let (mut pair, link, _) = resumed(Config::default(), Role::Sender, known.clone(), known);
    pair.client.machine.transfer_named(link, Outgoing { more: true, ..piece(Some(1), b"x") }, tag(b"a")).unwrap();
    let void = Outgoing { first: false, aborted: true, ..piece(None, b"") };
    pair.client.machine.transfer(link, void).unwrap();
    pair.run();
    let pieces = pair.server.pieces();
    assert!(matches!(&pieces[..], [Piece { resume: true, more: true, .. }, Piece { aborted: true, .. }]), "{pieces:?}");
}

#[test]
fn section_2_7_3_unsettled_map_too_long_for_a_frame_is_sent_incomplete() {
    for (count, whole) in [(8, true), (100, false)] {
        let (mut pair, link, _) = resumed(Config::default(), Role::Sender, Vec::new(), tags(count));
        let seen = pair.client.take();
        let answer = seen.into_iter().find_map(|seen| match seen {
            OwnedEvent::Event(Event::Attached { attach, .. }) => Some(attach),
            _ => None,
        });
        let answer = answer.expect("an answer of less than 512 bytes");
        let notified = answer.unsettled.clone().unwrap_or_default();
        assert_eq!((answer.incomplete_unsettled, notified.len() == count as usize), (!whole, whole));
        assert!(!notified.is_empty());
        for (name, _) in &notified {
            pair.client.machine.transfer_named(link, piece(None, b"x"), tag(name)).unwrap();
        }
        pair.run();
        assert_eq!(pair.server.pieces().len(), notified.len(), "all reported deliveries can be resumed");
        pair.client.send(link, Some(1), b"new").unwrap();
        pair.run();
        if whole {
            assert_eq!(names(&pair.server.pieces()).len(), 1);
        } else {
            let Event::Detach { error: Some(error), closed: true, .. } = pair.server.only() else { panic!() };
            assert_eq!(error.condition, condition::NOT_ALLOWED);
        }
    }
}

#[test]
fn section_2_6_12_settlement_by_the_sender_is_reported() {
    let mut raw = Raw::begun(Config::default());
    let second = match link("link", 0, Role::Sender) {
        Performative::Attach(attach) => {
            Performative::Attach(Box::new(Attach { rcv_settle_mode: ReceiverSettleMode::Second, ..*attach }))
        }
        other => other,
    };
    raw.send(0, second);
    let place = raw.side.machine.links().next().unwrap();
    raw.side.machine.grant(place, 10);
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 0))));
    raw.side.take();
    let reported = |settled| Disposition { role: Role::Sender, settled, ..disposition(0, Some(3)) };
    raw.send(0, Performative::Disposition(reported(false)));
    assert!(raw.side.take().is_empty(), "nothing is settled");
    raw.send(0, Performative::Disposition(reported(true)));
    let Event::SenderSettled { first: 0, last: 3, .. } = raw.side.only() else { panic!() };
}
