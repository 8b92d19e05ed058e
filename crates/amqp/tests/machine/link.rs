//! Links: attached, refused, detached, stolen (2.6.1 to 2.6.6).

use enmasse_amqp::connection::{AttachReply, ClosedBy, Config, Event, LinkId, SessionId, UseError};
use enmasse_amqp::types::{
    Error, Performative, ReceiverSettleMode, Role, SenderSettleMode, Source, Symbol, Target, Value, condition,
};

use crate::pair::{OwnedEvent, Pair, attach, echo};
use crate::raw::{Raw, begin, detach, link};

fn linked(role: Role) -> (Pair, SessionId, LinkId, LinkId) {
    Pair::linked(Config::default(), Config::default(), role)
}

#[test]
fn section_2_6_3_both_ends_receive_the_negotiated_attach_fields() {
    for role in [Role::Sender, Role::Receiver] {
        let mut pair = Pair::open(Config::default(), Config::default());
        pair.server.answers = false;
        let session = pair.client.machine.begin().unwrap();
        let wanted = attach("mine", role);
        let ours = pair.client.machine.attach(session, wanted.clone()).unwrap();
        pair.run();
        let mut seen = pair.server.take();
        let Some(OwnedEvent::Event(Event::Attach { link: theirs, session: at, attach })) = seen.pop() else {
            panic!("{seen:?}")
        };
        assert_eq!((at, &attach.name[..], attach.role), (SessionId(0), "mine", role));
        assert_eq!(attach.initial_delivery_count, (role == Role::Sender).then_some(0));

        let reply = AttachReply {
            rcv_settle_mode: ReceiverSettleMode::Second,
            snd_settle_mode: SenderSettleMode::Unsettled,
            max_message_size: Some(1000),
            offered_capabilities: vec![Symbol::constant("queue")],
            properties: vec![(Symbol::constant("a"), Value::Uint(1))],
            ..echo(&attach)
        };
        pair.server.machine.accept(theirs, reply);
        pair.client.take();
        pair.run();
        let Event::Attached { link, attach: answer } = pair.client.only() else { panic!("no answer") };
        assert_eq!(link, ours);
        assert_eq!((&answer.name[..], answer.role == role), ("mine", false));
        assert_eq!((answer.source, answer.target), (wanted.source, wanted.target));
        assert_eq!((answer.max_message_size, answer.unsettled), (Some(1000), None));
        assert_eq!(answer.rcv_settle_mode, ReceiverSettleMode::Second);
        assert_eq!(answer.snd_settle_mode, SenderSettleMode::Unsettled);
        assert_eq!(answer.offered_capabilities, [Symbol::constant("queue")]);
        assert_eq!(answer.properties.len(), 1);
    }
}

#[test]
fn section_2_6_3_server_can_attach_a_link() {
    let (mut pair, ..) = linked(Role::Sender);
    let theirs = pair.server.machine.attach(SessionId(0), attach("from the server", Role::Sender)).unwrap();
    pair.run();
    assert!(matches!(pair.server.only(), Event::Attached { link, .. } if link == theirs));
    assert!(matches!(pair.client.only(), Event::Attach { attach, .. } if attach.role == Role::Sender));
}

#[test]
fn section_2_6_3_a_refusal_is_a_null_terminus_and_a_detach() {
    for role in [Role::Sender, Role::Receiver] {
        let mut raw = Raw::begun(Config::default());
        raw.side.answers = false;
        raw.send(0, link("unwanted", 4, role));
        let Event::Attach { link: asked, .. } = raw.side.only() else { panic!("not asked") };
        raw.side.machine.refuse(asked, Error::new(condition::NOT_FOUND, "no such address"));
        raw.assert_refused(&condition::NOT_FOUND, "no such address");
        raw.send(0, detach(4, true));
        assert!(raw.written().is_empty() && raw.side.take().is_empty());
        raw.side.answers = true;
        raw.send(0, link("unwanted", 4, role));
        let written = raw.written();
        assert!(
            matches!(&written[..], [(0, Performative::Attach(attach))] if attach.handle == 0),
            "the handle is free: {written:?}"
        );
    }
}

#[test]
fn section_2_6_3_client_receives_the_refusal() {
    let mut pair = Pair::open(Config::default(), Config::default());
    pair.server.answers = false;
    let session = pair.client.machine.begin().unwrap();
    let link = pair.client.machine.attach(session, attach("unwanted", Role::Receiver)).unwrap();
    pair.run();
    let Some(OwnedEvent::Event(Event::Attach { link: asked, .. })) = pair.server.take().pop() else {
        panic!("not asked")
    };
    let error = Error::new(condition::UNAUTHORIZED_ACCESS, "not yours");
    pair.server.machine.refuse(asked, error.clone());
    pair.client.take();
    pair.run();
    let seen = pair.client.take();
    let [
        OwnedEvent::Event(Event::Attached { attach, .. }),
        OwnedEvent::Event(Event::Detach { link: gone, closed, error: why, .. }),
    ] = &seen[..]
    else {
        panic!("{seen:?}")
    };
    assert!(attach.source.is_none() && attach.target.is_none());
    assert_eq!((*gone, *closed, why), (link, true, &Some(error)));
    assert!(pair.server.take().is_empty(), "the server's driver has nothing to do");
    assert_eq!(pair.client.machine.links().count(), 0);
}

#[test]
fn section_2_6_5_detach_from_either_side() {
    for closed in [false, true] {
        let (mut pair, _, link, theirs) = linked(Role::Sender);
        let error = Some(Error::new(condition::DETACH_FORCED, "enough"));
        pair.server.machine.detach(theirs, closed, error.clone());
        pair.run();
        let (ended, by) = (None, ClosedBy::Peer);
        assert_eq!(pair.client.only(), Event::Detach { link, closed, error, by, ended });
        let by = ClosedBy::Local;
        assert_eq!(pair.server.only(), Event::Detach { link: theirs, closed, error: None, by, ended });
        assert_eq!(pair.wire.len(), 2, "a detach each");

        let (mut pair, _, link, theirs) = linked(Role::Receiver);
        pair.client.machine.detach(link, closed, None);
        pair.server.machine.detach(theirs, closed, None);
        pair.run();
        assert_eq!(pair.client.only(), Event::Detach { link, closed, error: None, by, ended });
        assert_eq!(pair.server.only(), Event::Detach { link: theirs, closed, error: None, by, ended });
    }
}

#[test]
fn section_2_6_5_link_may_be_detached_before_it_is_attached() {
    let mut pair = Pair::open(Config::default(), Config::default());
    let session = pair.client.machine.begin().unwrap();
    let link = pair.client.machine.attach(session, attach("brief", Role::Sender)).unwrap();
    pair.client.machine.detach(link, true, None);
    pair.run();
    let seen = pair.client.take();
    assert!(
        matches!(seen[..], [OwnedEvent::Event(Event::Begin(_)), OwnedEvent::Event(Event::Detach { closed: true, .. })]),
        "{seen:?}"
    );
    let seen = pair.server.take();
    assert!(matches!(seen.last(), Some(OwnedEvent::Event(Event::Detach { closed: true, .. }))), "{seen:?}");
    assert_eq!((pair.client.machine.links().count(), pair.server.machine.links().count()), (0, 0));
}

#[test]
fn section_2_6_4_link_can_be_reattached() {
    let (mut pair, session, link, theirs) = linked(Role::Receiver);
    for _ in 0..3 {
        pair.client.machine.detach(link, false, None);
        pair.run();
        assert!(matches!(pair.server.only(), Event::Detach { link, closed: false, .. } if link == theirs));
        pair.client.take();
        let again = pair.client.machine.attach(session, attach("link", Role::Receiver)).unwrap();
        pair.run();
        assert_eq!(again, link, "the ids of the old link are reused");
        assert!(matches!(pair.client.only(), Event::Attached { .. }));
        assert!(matches!(pair.server.only(), Event::Attach { link, .. } if link == theirs));
    }
}

#[test]
fn section_2_6_1_attach_of_a_name_in_use_steals_the_link() {
    for (session, handle) in [(0, 1), (1, 0)] {
        let (mut raw, old) = Raw::attached(Config::default(), Role::Sender);
        raw.send(1, begin());
        raw.written();
        raw.side.take();
        raw.send(session, link("link", handle, Role::Sender));
        let seen = raw.side.take();
        let [
            OwnedEvent::Event(Event::Detach {
                link: gone, closed: false, error: Some(error), by: ClosedBy::Peer, ..
            }),
            OwnedEvent::Event(new),
        ] = &seen[..]
        else {
            panic!("{seen:?}")
        };
        assert_eq!((*gone, &error.condition), (old, &condition::LINK_STOLEN));
        assert!(matches!(new, Event::Attach { link, .. } if *link != old), "{new:?}");
        let written = raw.written();
        assert!(matches!(written[..], [(0, Performative::Detach(_)), (_, Performative::Attach(_))]), "{written:?}");
        raw.send(0, detach(0, false));
        assert!(raw.written().is_empty() && raw.side.take().is_empty());
        assert_eq!(raw.side.machine.links().count(), 1);
    }
}

#[test]
fn section_2_6_1_the_same_name_in_the_other_direction_is_another_link() {
    let (mut raw, _) = Raw::attached(Config::default(), Role::Sender);
    raw.send(0, link("link", 1, Role::Receiver));
    assert!(matches!(raw.side.only(), Event::Attach { .. }));
    assert_eq!(raw.side.machine.links().count(), 2);
}

#[test]
fn section_2_6_2_handles_of_the_two_ends_are_independent() {
    let mut raw = Raw::begun(Config::default());
    for (ours, theirs) in [(0, 900), (1, 16_383), (2, 3)] {
        raw.send(0, link(&format!("link {ours}"), theirs, Role::Receiver));
        let written = raw.written();
        assert!(matches!(&written[..], [(0, Performative::Attach(attach))] if attach.handle == ours), "{written:?}");
    }
    raw.send(0, detach(16_383, true));
    let written = raw.written();
    assert!(matches!(&written[..], [(0, Performative::Detach(detach))] if detach.handle == 1), "{written:?}");
}

#[test]
fn section_2_7_2_handle_max_of_the_peer_bounds_our_links() {
    let mut pair = Pair::open(Config::default(), Config { handle_max: 1, ..Config::default() });
    let session = pair.client.machine.begin().unwrap();
    pair.run();
    for name in ["a", "b"] {
        pair.client.machine.attach(session, attach(name, Role::Sender)).unwrap();
    }
    assert_eq!(pair.client.machine.attach(session, attach("c", Role::Sender)), Err(UseError::Limit));
    pair.run();
    assert_eq!(pair.server.machine.links().count(), 2);
}

#[test]
fn section_3_5_1_dynamic_nodes_and_null_addresses_pass_through() {
    let mut raw = Raw::begun(Config::default());
    raw.side.answers = false;
    let Performative::Attach(mut wanted) = link("reply", 0, Role::Receiver) else { unreachable!() };
    wanted.source = Some(Box::new(Source { dynamic: true, ..Source::default() }));
    wanted.target = Some(Box::new(Target::node(None)));
    raw.send(0, Performative::Attach(wanted.clone()));
    let Event::Attach { link, attach, .. } = raw.side.only() else { panic!("not asked") };
    assert_eq!((&attach.source, &attach.target), (&wanted.source, &wanted.target));
    let made = Source { address: Some("temp/1".to_owned()), ..Source::default() };
    raw.side.machine.accept(link, AttachReply { source: Some(Box::new(made.clone())), ..echo(&attach) });
    let written = raw.written();
    assert!(
        matches!(&written[..], [(0, Performative::Attach(answer))] if answer.source.as_deref() == Some(&made)),
        "{written:?}"
    );
}

#[test]
fn operations_on_unknown_links_do_nothing() {
    let (mut raw, known) = Raw::attached(Config::default(), Role::Sender);
    let unknown = LinkId(77);
    let machine = &mut raw.side.machine;
    for link in [unknown, known] {
        machine.accept(link, AttachReply::default());
        machine.refuse(link, Error::default());
        machine.drained(link);
        assert_eq!((machine.sendable(link), machine.continuable(link)), (0, false));
        assert!(machine.transfer(link, crate::pair::piece(None, b"x")).is_err());
    }
    machine.grant(unknown, 5);
    machine.drain(unknown);
    machine.set_held(unknown, true);
    machine.settle(unknown, 0, &crate::pair::ACCEPTED);
    machine.detach(unknown, true, None);
    machine.end(SessionId(9), None);
    machine.take_settled(SessionId(9), 0, 9, true, |_, _| panic!("nothing to take"));
    machine.take_unsettled(unknown, |_| panic!("nothing to take"));
    machine.flush(raw.now);
    assert!(machine.output().is_empty());
}
