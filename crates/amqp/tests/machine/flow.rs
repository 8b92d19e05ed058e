//! Link credit (2.6.7): granted, used, withdrawn, drained, echoed.

use enmasse_amqp::connection::{Config, Event, LinkId, SendError};
use enmasse_amqp::types::{Flow, Performative, Role, Symbol, Value};

use crate::pair::{OwnedEvent, Pair};
use crate::raw::{Raw, flow, transfer};

fn flows(raw: &mut Raw) -> Vec<Flow> {
    let flow = |(_, performative)| match performative {
        Performative::Flow(flow) => Some(flow),
        _ => None,
    };
    raw.written().into_iter().filter_map(flow).collect()
}

fn credit(handle: u32, delivery_count: Option<u32>, credit: u32) -> Flow {
    Flow { handle: Some(handle), delivery_count, link_credit: Some(credit), ..flow() }
}

#[test]
fn section_2_6_7_a_sender_stops_when_the_credit_is_used_up() {
    for first_id in [0, u32::MAX - 1] {
        let client = Config { first_id, ..Config::default() };
        let (mut pair, _, link, theirs) = Pair::linked(client, Config::default(), Role::Sender);
        assert_eq!(pair.client.machine.sendable(link), 0);
        assert_eq!(pair.client.send(link, None, b"x"), Err(SendError::NoCredit));
        pair.server.machine.grant(theirs, 3);
        pair.run();
        assert_eq!(pair.client.only(), Event::Credit { link, credit: 3, drain: false });
        for left in [2, 1, 0] {
            pair.client.send(link, None, b"x").unwrap();
            assert_eq!(pair.client.machine.sendable(link), left);
        }
        assert_eq!(pair.client.send(link, None, b"x"), Err(SendError::NoCredit));
        pair.run();
        assert_eq!(pair.server.pieces().len(), 3);
    }
}

#[test]
fn section_2_6_7_grants_are_absolute_and_written_once_a_turn() {
    let (mut raw, link) = Raw::attached(Config::default(), Role::Sender);
    raw.side.machine.grant(link, 5);
    raw.side.machine.grant(link, 9);
    raw.bytes(b"");
    let written = flows(&mut raw);
    assert_eq!(written.len(), 1);
    assert_eq!((written[0].handle, written[0].delivery_count, written[0].link_credit), (Some(0), Some(0), Some(9)));
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 0))));
    raw.side.machine.grant(link, 8);
    raw.bytes(b"");
    assert!(flows(&mut raw).is_empty(), "the sender has eight left already");
    raw.side.machine.grant(link, 9);
    raw.bytes(b"");
    let written = flows(&mut raw);
    assert_eq!((written[0].delivery_count, written[0].link_credit), (Some(1), Some(9)));
    raw.side.machine.grant(link, 0);
    raw.bytes(b"");
    assert_eq!(flows(&mut raw)[0].link_credit, Some(0));
}

#[test]
fn section_2_6_7_a_receiver_may_grant_before_the_answer_to_its_attach() {
    let mut pair = Pair::open(Config::default(), Config::default());
    let session = pair.client.machine.begin().unwrap();
    let link = pair.client.machine.attach(session, crate::pair::attach("link", Role::Receiver)).unwrap();
    pair.client.machine.grant(link, 4);
    pair.run();
    let early = pair.written(true).into_iter().find_map(|performative| match performative {
        Performative::Flow(flow) => Some(flow),
        _ => None,
    });
    assert_eq!(early.map(|flow| (flow.next_incoming_id, flow.delivery_count)), Some((None, None)));
    let Some(OwnedEvent::Event(Event::Credit { link: theirs, credit: 4, .. })) = pair.server.take().pop() else {
        panic!("no credit")
    };
    for _ in 0..4 {
        pair.server.send(theirs, None, b"x").unwrap();
    }
    pair.run();
    assert_eq!(pair.client.pieces().len(), 4);
}

#[test]
fn section_2_6_7_credit_is_the_grant_less_the_deliveries_in_flight() {
    let (mut raw, link) = Raw::attached(Config::default(), Role::Receiver);
    raw.send(0, Performative::Flow(credit(0, None, 10)));
    for _ in 0..4 {
        raw.side.send(link, None, b"x").unwrap();
    }
    raw.send(0, Performative::Flow(credit(0, Some(1), 10)));
    raw.send(0, Performative::Flow(credit(0, Some(4), 2)));
    raw.send(0, Performative::Flow(credit(0, Some(1), 2)));
    let credit_of = |seen| match seen {
        OwnedEvent::Event(Event::Credit { credit, drain: false, .. }) => credit,
        other => panic!("{other:?}"),
    };
    let credits: Vec<u32> = raw.side.take().into_iter().map(credit_of).collect();
    assert_eq!(credits, [10, 7, 2, 0]);
    assert_eq!(raw.side.machine.sendable(link), 0);
}

#[test]
fn section_2_6_7_drain_from_both_ends() {
    let (mut pair, _, link, theirs) = Pair::linked(Config::default(), Config::default(), Role::Receiver);
    pair.client.machine.grant(link, 10);
    pair.run();
    pair.server.take();
    pair.client.machine.drain(link);
    pair.run();
    assert_eq!(pair.server.only(), Event::Credit { link: theirs, credit: 10, drain: true });
    pair.server.send(theirs, None, b"the last one").unwrap();
    pair.server.machine.drained(theirs);
    pair.run();
    assert_eq!(pair.server.machine.sendable(theirs), 0);
    let seen = pair.client.take();
    let [OwnedEvent::Piece(_), OwnedEvent::Event(Event::Flow { credit: 0, drain: true, .. })] = &seen[..] else {
        panic!("{seen:?}")
    };
    pair.client.machine.grant(link, 2);
    pair.run();
    assert_eq!(pair.server.only(), Event::Credit { link: theirs, credit: 2, drain: false }, "the drain is over");
}

#[test]
fn section_2_6_7_drain_without_credit_is_answered() {
    let (mut raw, link) = Raw::attached(Config::default(), Role::Receiver);
    raw.send(0, Performative::Flow(Flow { drain: true, ..credit(0, Some(0), 0) }));
    assert_eq!(raw.side.only(), Event::Credit { link, credit: 0, drain: true });
    raw.side.machine.drained(link);
    raw.bytes(b"");
    let written = flows(&mut raw);
    assert_eq!((written[0].delivery_count, written[0].link_credit, written[0].drain), (Some(0), Some(0), true));
}

#[test]
fn section_2_7_4_a_link_flow_that_requests_an_echo_gets_one() {
    let (mut raw, link) = Raw::attached(Config::default(), Role::Receiver);
    raw.send(0, Performative::Flow(Flow { echo: true, ..credit(0, None, 10) }));
    raw.side.send(link, None, b"x").unwrap();
    raw.bytes(b"");
    let written = flows(&mut raw);
    assert_eq!((written[0].handle, written[0].delivery_count, written[0].link_credit), (Some(0), Some(0), Some(10)));
    assert!(!written[0].echo);

    let (mut raw, link) = Raw::attached(Config::default(), Role::Sender);
    raw.side.machine.grant(link, 7);
    raw.bytes(b"");
    flows(&mut raw);
    raw.send(0, Performative::Flow(Flow { echo: true, ..credit(0, Some(0), 7) }));
    let written = flows(&mut raw);
    assert_eq!((written[0].delivery_count, written[0].link_credit), (Some(0), Some(7)));
}

#[test]
fn section_2_7_4_flow_of_the_sender_reports_available() {
    let (mut raw, link) = Raw::attached(Config::default(), Role::Sender);
    raw.side.machine.grant(link, 7);
    raw.bytes(b"");
    let properties = vec![(Symbol::constant("lag"), Value::Uint(3))];
    let notified = Flow { available: Some(12), properties: properties.clone(), ..credit(0, Some(0), 7) };
    raw.send(0, Performative::Flow(notified));
    assert_eq!(raw.side.only(), Event::Flow { link, credit: 7, available: Some(12), drain: false, properties });
}

#[test]
fn section_2_7_4_flows_for_detached_links_change_the_session_only() {
    let (mut raw, link) = Raw::attached(Config::default(), Role::Receiver);
    raw.side.machine.detach(link, true, None);
    raw.send(0, Performative::Flow(credit(0, None, 10)));
    assert!(raw.side.take().is_empty());
    assert_eq!(raw.side.machine.sendable(link), 0);
}

#[test]
fn section_2_6_7_many_links_grant_in_one_turn() {
    let mut raw = Raw::begun(Config::default());
    for handle in 0..100 {
        raw.send(0, crate::raw::link(&format!("link {handle}"), handle, Role::Sender));
    }
    raw.written();
    for handle in 0..100 {
        raw.side.machine.grant(LinkId(handle), 1 + handle);
    }
    raw.bytes(b"");
    let mut granted: Vec<_> = flows(&mut raw).iter().map(|flow| (flow.handle, flow.link_credit)).collect();
    granted.sort_unstable();
    assert_eq!(granted, (0..100).map(|handle| (Some(handle), Some(1 + handle))).collect::<Vec<_>>());
}
