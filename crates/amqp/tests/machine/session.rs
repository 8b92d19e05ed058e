//! Sessions: begun, ended, windows (2.5).

use enmasse_amqp::connection::{ClosedBy, Config, Event, Outgoing, SendError, SessionId, UseError};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{End, Error, Flow, Performative, Role, condition};

use crate::pair::{OwnedEvent, Pair, attach, piece};
use crate::raw::{Raw, begin, detach, flow};

fn pair() -> Pair {
    Pair::open(Config::default(), Config::default())
}

#[test]
fn section_2_5_1_either_side_begins() {
    let mut pair = pair();
    let ours = pair.client.machine.begin().unwrap();
    pair.run();
    assert_eq!(pair.client.only(), Event::Begin(ours));
    assert_eq!(pair.server.only(), Event::Begin(SessionId(0)));
    let theirs = pair.server.machine.begin().unwrap();
    assert_eq!(theirs, SessionId(1));
    pair.run();
    assert_eq!(pair.server.only(), Event::Begin(theirs));
    assert_eq!(pair.client.only(), Event::Begin(SessionId(1)));
}

#[test]
fn section_2_5_1_peer_chooses_its_own_channels() {
    let mut raw = Raw::open(Config::default());
    raw.send(77, begin());
    raw.send(5, begin());
    let written = raw.written();
    let [(0, Performative::Begin(first)), (1, Performative::Begin(second))] = &written[..] else {
        panic!("{written:?}")
    };
    assert_eq!((first.remote_channel, second.remote_channel), (Some(77), Some(5)));
    raw.send(77, Performative::End(End::default()));
    assert!(matches!(raw.written()[..], [(0, Performative::End(_))]));
    raw.send(6, begin());
    assert!(matches!(raw.written()[..], [(0, Performative::Begin(_))]), "the lowest channel is used again");
}

#[test]
fn section_2_5_2_end_detaches_the_links_of_the_session() {
    let (mut pair, session, link, theirs) = Pair::linked(Config::default(), Config::default(), Role::Sender);
    pair.server.machine.grant(theirs, 1);
    pair.run();
    pair.client.take();
    pair.client.send(link, Some(11), b"lost").unwrap();
    let error = Error::new(condition::INTERNAL_ERROR, "out of order");
    pair.server.machine.end(SessionId(0), Some(error.clone()));
    pair.run();
    let seen = pair.client.take();
    let expected = [
        OwnedEvent::Event(Event::Detach { link, closed: false, error: None, by: ClosedBy::Peer, ended: Some(session) }),
        OwnedEvent::Event(Event::End { session, error: Some(error) }),
    ];
    assert_eq!(seen, expected);
    let notified = pair.server.take();
    assert!(
        matches!(
            notified[..],
            [
                OwnedEvent::Event(Event::Detach { by: ClosedBy::Local, .. }),
                OwnedEvent::Event(Event::End { error: None, .. })
            ]
        ),
        "{notified:?}"
    );
    assert_eq!(pair.client.machine.attach(session, attach("late", Role::Sender)), Err(UseError::NotOpen));
    assert_eq!(pair.client.machine.begin(), Ok(session), "the place is free again");
    assert_eq!((pair.client.machine.links().count(), pair.server.machine.links().count()), (0, 0));
}

#[test]
fn section_2_5_2_unsettled_deliveries_remain_until_the_driver_is_notified() {
    let (mut raw, link) = Raw::attached(Config::default(), Role::Receiver);
    raw.send(0, Performative::Flow(Flow { handle: Some(0), link_credit: Some(1), ..flow() }));
    raw.side.send(link, Some(11), b"lost").unwrap();
    let mut bytes = Vec::new();
    enmasse_amqp::codec::encode_performative(&mut bytes, 0, &Performative::End(End::default()));
    let mut input = &bytes[..];
    let machine = &mut raw.side.machine;
    assert!(matches!(machine.poll_event(raw.now, &mut input), Some(Event::Detach { .. })));
    let mut tokens = Vec::new();
    machine.take_unsettled(link, |token| tokens.push(token));
    assert_eq!(tokens, [11]);
    assert!(matches!(machine.poll_event(raw.now, &mut input), Some(Event::End { .. })));
    assert!(machine.poll_event(raw.now, &mut input).is_none());
}

#[test]
fn unsettled_deliveries_of_links_that_end_together_are_taken_in_order_of_ids() {
    let (mut pair, session, first, _) = Pair::linked(Config::default(), Config::default(), Role::Sender);
    let mut links = vec![first];
    for name in ["b", "c", "d"] {
        links.push(pair.client.machine.attach(session, attach(name, Role::Sender)).unwrap());
    }
    pair.run();
    let theirs: Vec<_> = pair.server.machine.links().collect();
    theirs.iter().for_each(|link| pair.server.machine.grant(*link, 10));
    pair.run();
    for token in 0..12 {
        pair.client.send(links[token % 4], Some(token as u64), b"m").unwrap();
    }
    let machine = &mut pair.client.machine;
    let mut taken = Vec::new();
    machine.take_unsettled_of(&links[1..3], |link, token| taken.push((link, token)));
    let expected: Vec<_> = (0..12).filter(|token| matches!(token % 4, 1 | 2)).collect();
    assert_eq!(taken, expected.iter().map(|token| (links[token % 4], *token as u64)).collect::<Vec<_>>());
    taken.clear();
    machine.take_unsettled_of(&links, |link, token| taken.push((link, token)));
    assert_eq!(taken.len(), 6, "the other links keep theirs");
    assert!(taken.iter().all(|(link, _)| *link == links[0] || *link == links[3]));
}

#[test]
fn section_2_5_2_all_links_of_a_session_end_before_the_first_detach_event() {
    let mut pair = pair();
    let session = pair.client.machine.begin().unwrap();
    let names = ["one", "two", "three"];
    let links = names.map(|name| pair.client.machine.attach(session, attach(name, Role::Sender)).unwrap());
    pair.run();
    pair.server.take();
    pair.client.machine.end(session, None);
    let mut bytes = std::mem::take(pair.client.machine.output());
    pair.client.machine.flush(Time::ZERO);
    bytes.append(pair.client.machine.output());
    let server = &mut pair.server.machine;
    let mut input = &bytes[..];
    let mut notified = Vec::new();
    while let Some(event) = server.poll_event(Time::ZERO, &mut input) {
        let Event::Detach { link, by, ended: Some(session), .. } = event else { continue };
        assert_eq!((by, server.session_links(session).count()), (ClosedBy::Peer, names.len()));
        assert!(server.session_links(session).any(|other| other == link));
        notified.push(link);
    }
    assert_eq!(notified.len(), links.len());
}

#[test]
fn section_2_5_5_session_may_begin_and_end_before_any_answer() {
    let mut pair = pair();
    let session = pair.client.machine.begin().unwrap();
    pair.client.machine.end(session, None);
    pair.run();
    assert_eq!(pair.client.only(), Event::End { session, error: None });
    let seen = pair.server.take();
    assert!(matches!(seen[..], [OwnedEvent::Event(Event::Begin(_)), OwnedEvent::Event(Event::End { .. })]), "{seen:?}");
    assert_eq!(pair.client.machine.begin(), Ok(session));
}

#[test]
fn section_2_5_2_both_sides_may_end_at_once() {
    let mut pair = pair();
    let session = pair.client.machine.begin().unwrap();
    pair.run();
    pair.client.take();
    pair.server.take();
    pair.client.machine.end(session, None);
    pair.server.machine.end(SessionId(0), None);
    pair.run();
    assert_eq!(pair.client.only(), Event::End { session, error: None });
    assert_eq!(pair.server.only(), Event::End { session: SessionId(0), error: None });
}

#[test]
fn section_2_5_6_the_window_is_replenished_at_half() {
    let server = Config { session_window: 8, ..Config::default() };
    let (mut pair, _, link, theirs) = Pair::linked(Config::default(), server, Role::Sender);
    pair.server.machine.grant(theirs, 1000);
    pair.run();
    pair.wire.clear();
    for _ in 0..4 {
        pair.client.send(link, None, b"x").unwrap();
        pair.run();
    }
    let written = pair.written(false);
    let [Performative::Flow(flow)] = &written[..] else { panic!("{written:?}") };
    assert_eq!((flow.next_incoming_id, flow.incoming_window, flow.handle), (Some(4), 8, None));
}

#[test]
fn section_2_5_6_closed_window_stops_the_sender_until_it_opens() {
    let server = Config { session_window: 4, ..Config::default() };
    let (mut pair, _, link, theirs) = Pair::linked(Config::default(), server, Role::Sender);
    pair.server.machine.grant(theirs, 1000);
    pair.server.machine.set_held(theirs, true);
    pair.run();
    pair.client.take();
    assert_eq!(pair.client.machine.sendable(link), 0);
    assert_eq!(pair.client.send(link, None, b"x"), Err(SendError::WindowClosed));
    pair.server.machine.set_held(theirs, false);
    pair.run();
    assert_eq!(pair.client.only(), Event::Credit { link, credit: 1000, drain: false });
    assert_eq!(pair.client.machine.sendable(link), 1000);
}

#[test]
fn section_2_5_6_frames_beyond_the_window_are_held_back() {
    let server = Config { session_window: 4, max_frame_size: 512, ..Config::default() };
    let (mut pair, session, link, theirs) = Pair::linked(Config::default(), server, Role::Sender);
    let other = pair.client.machine.attach(session, attach("other", Role::Sender)).unwrap();
    pair.run();
    let their_other = pair.server.machine.links().nth(1).unwrap();
    pair.server.machine.grant(theirs, 10);
    pair.server.machine.grant(their_other, 10);
    pair.run();
    pair.client.take();
    pair.server.take();
    pair.wire.clear();
    let message: Vec<u8> = (0..10_000u32).map(|byte| byte as u8).collect();
    pair.client.send(link, Some(1), &message).unwrap();
    pair.client.machine.flush(pair.now);
    assert!(pair.client.machine.output().len() <= 4 * 512, "no more than the window");
    assert_eq!((pair.client.machine.sendable(link), pair.client.machine.sendable(other)), (0, 0));
    assert_eq!(pair.client.send(other, None, b"later"), Err(SendError::WindowClosed));
    pair.run();
    let pieces = pair.server.pieces();
    assert!(pieces.len() > 20 && pieces[0].first && !pieces[pieces.len() - 1].more);
    assert_eq!(pieces.iter().flat_map(|piece| piece.payload.clone()).collect::<Vec<_>>(), message);
    assert_eq!(pair.client.machine.sendable(other), 10);
}

#[test]
fn section_2_5_6_held_frames_are_dropped_with_their_link() {
    let server = Config { session_window: 2, max_frame_size: 512, ..Config::default() };
    let (mut pair, session, link, theirs) = Pair::linked(Config::default(), server, Role::Sender);
    pair.server.machine.grant(theirs, 10);
    pair.run();
    pair.client.send(link, Some(1), &[7; 5000]).unwrap();
    pair.client.machine.detach(link, true, None);
    pair.run();
    let pieces = pair.server.pieces();
    assert!(pieces.len() == 2 && pieces[1].more, "the delivery stays incomplete");
    pair.client.take();
    let again = pair.client.machine.attach(session, attach("again", Role::Sender)).unwrap();
    pair.run();
    let theirs = pair.server.machine.links().next().unwrap();
    pair.server.machine.grant(theirs, 10);
    pair.run();
    pair.client.machine.transfer(again, piece(None, b"next")).unwrap();
    pair.run();
    assert_eq!(pair.server.pieces().len(), 1, "the numbers of the session continue");
}

#[test]
fn section_2_5_6_an_aborted_delivery_ends_even_while_the_window_is_closed() {
    let server = Config { session_window: 2, max_frame_size: 512, ..Config::default() };
    let (mut pair, _, link, theirs) = Pair::linked(Config::default(), server, Role::Sender);
    pair.server.machine.grant(theirs, 10);
    pair.run();
    let start = Outgoing { more: true, ..piece(Some(1), &[7; 5000]) };
    pair.client.machine.transfer(link, start).unwrap();
    let abort = Outgoing { first: false, aborted: true, ..piece(None, b"") };
    pair.client.machine.transfer(link, abort).unwrap();
    pair.run();
    let pieces = pair.server.pieces();
    assert_eq!(pieces.len(), 3, "held frames are not sent");
    assert!(pieces[2].aborted && !pieces[2].more && pieces[2].payload.is_empty());
    let mut tokens = Vec::new();
    pair.client.machine.take_unsettled(link, |token| tokens.push(token));
    assert!(tokens.is_empty(), "no outcome will come");
}

#[test]
fn section_2_5_6_a_hold_ends_with_its_link() {
    let (mut raw, link) = Raw::attached(Config::default(), Role::Sender);
    raw.side.machine.set_held(link, true);
    raw.bytes(b"");
    let written = raw.written();
    assert!(matches!(&written[..], [(_, Performative::Flow(flow))] if flow.incoming_window == 0), "{written:?}");
    raw.send(0, detach(0, true));
    let written = raw.written();
    let window = written.iter().find_map(|(_, performative)| match performative {
        Performative::Flow(flow) => Some(flow.incoming_window),
        _ => None,
    });
    assert_eq!(window, Some(4096), "{written:?}");
}

#[test]
fn section_2_7_4_a_flow_that_requests_an_echo_gets_one() {
    let mut raw = Raw::begun(Config::default());
    raw.send(0, Performative::Flow(Flow { echo: true, ..flow() }));
    let written = raw.written();
    assert!(
        matches!(&written[..], [(_, Performative::Flow(flow))] if flow.handle.is_none() && !flow.echo),
        "{written:?}"
    );
}
