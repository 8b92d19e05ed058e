//! Connections: headers, the security layer, open, close, idle time-outs (2.2, 2.4, 5.3).

use std::sync::Arc;

use enmasse_amqp::codec::frame::{Protocol, protocol_header};
use enmasse_amqp::codec::{encode_performative, encode_sasl};
use enmasse_amqp::connection::{ClosedBy, Config, Connection, Event, LinkId, SaslPolicy, SessionId, UseError};
use enmasse_amqp::time::Time;
use enmasse_amqp::types::{
    Close, Error, Open, Performative, Role, SaslCode, SaslFrame, SaslInit, SaslOutcome, SaslResponse, Symbol, condition,
};

use crate::pair::{OwnedEvent, Pair};
use crate::raw::{Raw, begin, link, open, transfer};

fn encoded(channel: u16, performative: &Performative) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_performative(&mut bytes, channel, performative);
    bytes
}

fn sasl(frame: &SaslFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_sasl(&mut bytes, frame);
    bytes
}

fn init() -> SaslInit {
    SaslInit {
        mechanism: Symbol::constant("ANONYMOUS"),
        initial_response: Some(b"me".to_vec()),
        hostname: Some("host".to_owned()),
    }
}

#[test]
fn section_2_4_1_two_machines_open_at_any_read_size() {
    for sasl in [false, true] {
        for chunk in [1, 2, 7, usize::MAX] {
            let client = Config { container_id: Arc::from("left"), channel_max: 3, ..Config::default() };
            let server = Config { max_frame_size: 512, idle_time_out_ms: None, ..Config::default() };
            let mut pair = Pair::apart(client, server, sasl);
            pair.chunk = chunk;
            pair.run();
            let Some(OwnedEvent::Event(Event::Open(left))) = pair.server.take().pop() else { panic!("no open") };
            assert_eq!((&left.container_id[..], left.channel_max), ("left", 3));
            assert_eq!((left.max_frame_size, left.idle_time_out), (131_072, Some(60_000)));
            let Some(OwnedEvent::Event(Event::Open(right))) = pair.client.take().pop() else { panic!("no open") };
            assert_eq!((right.max_frame_size, right.idle_time_out), (512, None));
        }
    }
}

#[test]
fn section_2_4_1_pipelined_frames_in_one_write_are_processed() {
    let pipelined = [
        protocol_header(Protocol::Sasl).to_vec(),
        sasl(&SaslFrame::Init(init())),
        protocol_header(Protocol::Amqp).to_vec(),
        encoded(0, &open("eager")),
        encoded(0, &begin()),
        encoded(0, &link("link", 0, Role::Sender)),
        encoded(0, &Performative::Transfer(Box::new(transfer(0, 0)))),
        encoded(0, &Performative::Transfer(Box::new(transfer(0, 1)))),
    ]
    .concat();
    let mut raw = Raw::fresh(Config::default(), SaslPolicy::Required);
    raw.side.grants = 2;
    raw.bytes(&pipelined);
    let seen = raw.side.take();
    assert!(matches!(
        seen[..],
        [
            OwnedEvent::Event(Event::SaslInit(_)),
            OwnedEvent::Event(Event::Open(_)),
            OwnedEvent::Event(Event::Begin(_)),
            OwnedEvent::Event(Event::Attach { .. }),
            OwnedEvent::Piece(_),
            OwnedEvent::Piece(_),
        ]
    ));
}

#[test]
fn section_2_4_1_nothing_is_read_before_the_driver_has_answered() {
    let mut raw = Raw::fresh(Config::default(), SaslPolicy::Optional);
    raw.side.answers = false;
    raw.bytes(&protocol_header(Protocol::Amqp));
    raw.send(0, open("client"));
    raw.send(0, begin());
    assert!(matches!(raw.side.only(), Event::Open(_)));
    assert!(raw.written().is_empty() && !raw.side.unread.is_empty());

    raw.side.machine.open(Config::default().open());
    raw.send(0, link("a", 0, Role::Sender));
    raw.send(0, link("b", 1, Role::Sender));
    let seen = raw.side.take();
    assert!(matches!(seen[..], [OwnedEvent::Event(Event::Begin(_)), OwnedEvent::Event(Event::Attach { .. })]));
    assert!(matches!(raw.written()[..], [(_, Performative::Open(_)), (_, Performative::Begin(_))]));

    raw.side.machine.refuse(LinkId(0), Error::new(condition::NOT_FOUND, "no such address"));
    raw.bytes(b"");
    assert!(matches!(raw.side.only(), Event::Attach { .. }));
}

#[test]
fn section_2_2_unsupported_header_is_answered_with_the_supported_one() {
    let cases = [
        (SaslPolicy::Required, &protocol_header(Protocol::Amqp)[..], Protocol::Sasl),
        (SaslPolicy::Required, &protocol_header(Protocol::Tls)[..], Protocol::Sasl),
        (SaslPolicy::Optional, &protocol_header(Protocol::Tls)[..], Protocol::Amqp),
        (SaslPolicy::Optional, b"AMQP\x00\x00\x09\x01", Protocol::Amqp),
        (SaslPolicy::Optional, b"GET /", Protocol::Amqp),
        (SaslPolicy::Required, b"\x16\x03", Protocol::Sasl),
    ];
    for (policy, bytes, wanted) in cases {
        let mut raw = Raw::fresh(Config::default(), policy);
        raw.bytes(bytes);
        assert_eq!(raw.output(), protocol_header(wanted), "{bytes:?}");
        assert!(matches!(raw.side.only(), Event::Closed { error: Some(_), by: ClosedBy::Local }));
        raw.bytes(&protocol_header(Protocol::Amqp));
        assert!(raw.output().is_empty());
    }
}

#[test]
fn section_2_2_a_second_security_layer_is_refused() {
    let mut raw = Raw::fresh(Config::default(), SaslPolicy::Required);
    raw.bytes(&protocol_header(Protocol::Sasl));
    raw.bytes(&sasl(&SaslFrame::Init(init())));
    raw.side.take();
    raw.bytes(&protocol_header(Protocol::Sasl));
    assert!(matches!(raw.side.only(), Event::Closed { error: Some(_), by: ClosedBy::Local }));
}

#[test]
fn section_5_3_2_server_runs_the_exchange_with_challenges() {
    let mut raw = Raw::fresh(Config::default(), SaslPolicy::Required);
    raw.side.answers = false;
    raw.bytes(&protocol_header(Protocol::Sasl));
    let mechanisms = SaslFrame::Mechanisms(vec![Symbol::constant("PLAIN"), Symbol::constant("ANONYMOUS")]);
    assert_eq!(raw.output(), [&protocol_header(Protocol::Sasl)[..], &sasl(&mechanisms)].concat());

    raw.bytes(&sasl(&SaslFrame::Init(init())));
    raw.bytes(&sasl(&SaslFrame::Response(SaslResponse(b"too early".to_vec()))));
    assert_eq!(raw.side.only(), Event::SaslInit(init()), "the driver has not answered");
    raw.side.unread.clear();

    raw.side.machine.sasl_challenge(b"why".to_vec());
    assert_eq!(raw.output(), sasl(&SaslFrame::Challenge(b"why".to_vec())));
    raw.bytes(&sasl(&SaslFrame::Response(SaslResponse(b"because".to_vec()))));
    assert_eq!(raw.side.only(), Event::SaslResponse(SaslResponse(b"because".to_vec())));

    raw.side.machine.sasl_outcome(SaslCode::Ok, Some(b"bye".to_vec()));
    let outcome = SaslOutcome { code: SaslCode::Ok, additional_data: Some(b"bye".to_vec()) };
    assert_eq!(raw.output(), sasl(&SaslFrame::Outcome(outcome)));
    raw.bytes(&protocol_header(Protocol::Amqp));
    assert_eq!(raw.output(), protocol_header(Protocol::Amqp));
}

#[test]
fn section_5_3_2_client_runs_the_exchange_with_challenges() {
    let mut client = Connection::client(Arc::new(Config::default()), Time::ZERO, true, Open::default());
    assert_eq!(client.begin(), Err(UseError::NotOpen));
    assert_eq!(std::mem::take(client.output()), protocol_header(Protocol::Sasl));
    let see = |client: &mut Connection, frame: &SaslFrame, before: &[u8]| {
        let bytes = [before, &sasl(frame)].concat();
        let mut input = &bytes[..];
        client.poll_event(Time::ZERO, &mut input).map(OwnedEvent::own)
    };
    let offered = vec![Symbol::constant("SCRAM-SHA-256")];
    let seen = see(&mut client, &SaslFrame::Mechanisms(offered.clone()), &protocol_header(Protocol::Sasl));
    assert_eq!(seen, Some(OwnedEvent::Event(Event::SaslMechanisms(offered))));
    client.sasl_response(b"not now".to_vec());
    client.sasl_init(init());
    assert_eq!(std::mem::take(client.output()), sasl(&SaslFrame::Init(init())));
    let seen = see(&mut client, &SaslFrame::Challenge(b"why".to_vec()), b"");
    assert_eq!(seen, Some(OwnedEvent::Event(Event::SaslChallenge(b"why".to_vec()))));
    client.sasl_response(b"because".to_vec());
    assert_eq!(std::mem::take(client.output()), sasl(&SaslFrame::Response(SaslResponse(b"because".to_vec()))));
    let ok = SaslOutcome { code: SaslCode::Ok, additional_data: None };
    assert_eq!(see(&mut client, &SaslFrame::Outcome(ok.clone()), b""), Some(OwnedEvent::Event(Event::SaslOutcome(ok))));
    assert!(client.output().starts_with(&protocol_header(Protocol::Amqp)), "header and open follow at once");
    assert_eq!(client.begin(), Ok(SessionId(0)));
}

#[test]
fn section_5_3_3_6_an_outcome_that_is_not_ok_ends_the_connection() {
    let mut raw = Raw::fresh(Config::default(), SaslPolicy::Required);
    raw.side.answers = false;
    raw.bytes(&protocol_header(Protocol::Sasl));
    raw.bytes(&sasl(&SaslFrame::Init(init())));
    raw.side.take();
    raw.side.machine.sasl_outcome(SaslCode::Auth, None);
    raw.bytes(&protocol_header(Protocol::Amqp));
    let Event::Closed { error: Some(error), by: ClosedBy::Local } = raw.side.only() else { panic!("not closed") };
    assert_eq!(error.condition, condition::UNAUTHORIZED_ACCESS);

    let mut client = Connection::client(Arc::new(Config::default()), Time::ZERO, true, Open::default());
    let failed = SaslFrame::Outcome(SaslOutcome { code: SaslCode::SysTemp, additional_data: None });
    let offered = SaslFrame::Mechanisms(vec![Symbol::constant("PLAIN")]);
    let bytes = [protocol_header(Protocol::Sasl).to_vec(), sasl(&offered)].concat();
    assert!(client.poll_event(Time::ZERO, &mut &bytes[..]).is_some());
    client.sasl_init(init());
    let bytes = sasl(&failed);
    let mut input = &bytes[..];
    assert!(matches!(client.poll_event(Time::ZERO, &mut input), Some(Event::SaslOutcome(_))));
    assert!(matches!(client.poll_event(Time::ZERO, &mut input), Some(Event::Closed { by: ClosedBy::Peer, .. })));
}

#[test]
fn section_5_3_2_sasl_frame_out_of_order_closes_the_connection() {
    let out_of_turn = [
        SaslFrame::Mechanisms(vec![Symbol::constant("PLAIN")]),
        SaslFrame::Challenge(Vec::new()),
        SaslFrame::Response(SaslResponse(Vec::new())),
        SaslFrame::Outcome(SaslOutcome { code: SaslCode::Ok, additional_data: None }),
    ];
    for frame in out_of_turn {
        let mut raw = Raw::fresh(Config::default(), SaslPolicy::Required);
        raw.bytes(&protocol_header(Protocol::Sasl));
        raw.output();
        raw.bytes(&sasl(&frame));
        let Event::Closed { error: Some(error), by: ClosedBy::Local } = raw.side.only() else { panic!("{frame:?}") };
        assert_eq!(error.condition, condition::ILLEGAL_STATE);
        assert!(raw.output().is_empty());
    }
}

#[test]
fn section_2_4_3_close_from_either_side() {
    let mut pair = Pair::open(Config::default(), Config::default());
    let error = Error::new(condition::CONNECTION_FORCED, "going down");
    pair.server.machine.close(Some(error.clone()));
    pair.server.machine.close(None);
    pair.run();
    assert_eq!(pair.client.only(), Event::Closed { error: Some(error), by: ClosedBy::Peer });
    assert_eq!(pair.server.only(), Event::Closed { error: None, by: ClosedBy::Local });
    assert_eq!(pair.wire.len(), 2, "a close each");

    let mut pair = Pair::open(Config::default(), Config::default());
    pair.client.machine.close(None);
    pair.server.machine.close(None);
    pair.run();
    assert_eq!(pair.client.only(), Event::Closed { error: None, by: ClosedBy::Local });
    assert_eq!(pair.server.only(), Event::Closed { error: None, by: ClosedBy::Local });
}

#[test]
fn section_2_4_6_close_before_the_connection_is_open() {
    let mut raw = Raw::fresh(Config::default(), SaslPolicy::Optional);
    raw.side.answers = false;
    raw.bytes(&protocol_header(Protocol::Amqp));
    raw.send(0, open("unwanted"));
    raw.side.take();
    raw.side.machine.close(Some(Error::new(condition::NOT_ALLOWED, "no such space")));
    let written = raw.written();
    assert!(matches!(written[..], [(0, Performative::Open(_)), (0, Performative::Close(_))]), "{written:?}");
    raw.send(0, Performative::Close(Close::default()));
    assert_eq!(raw.side.only(), Event::Closed { error: None, by: ClosedBy::Local });

    let mut pair = Pair::apart(Config::default(), Config::default(), false);
    pair.client.machine.close(None);
    pair.run();
    assert_eq!(pair.client.only(), Event::Closed { error: None, by: ClosedBy::Local });
    let seen = pair.server.take();
    assert!(matches!(
        seen[..],
        [OwnedEvent::Event(Event::Open(_)), OwnedEvent::Event(Event::Closed { by: ClosedBy::Peer, .. })]
    ));

    let mut untouched = Raw::fresh(Config::default(), SaslPolicy::Optional);
    untouched.side.machine.close(None);
    untouched.bytes(b"");
    assert_eq!(untouched.side.only(), Event::Closed { error: None, by: ClosedBy::Local });
    assert!(untouched.output().is_empty());
}

#[test]
fn section_2_4_3_a_close_does_not_wait_for_the_driver_to_answer_an_attach() {
    let mut raw = Raw::begun(Config::default());
    raw.side.answers = false;
    raw.send(0, link("unanswered", 0, Role::Sender));
    raw.side.take();
    raw.side.machine.close(None);
    raw.send(0, Performative::Close(Close::default()));
    assert_eq!(raw.side.only(), Event::Closed { error: None, by: ClosedBy::Local });
}

#[test]
fn section_2_4_1_frames_are_limited_to_16_kib_before_open() {
    let mut raw = Raw::fresh(Config::default(), SaslPolicy::Optional);
    raw.bytes(&protocol_header(Protocol::Amqp));
    raw.bytes(&[0, 0, 0x40, 1]);
    raw.assert_closed(&condition::FRAMING_ERROR, "16385 is above the max-frame-size 16384");

    let mut raw = Raw::begun(Config::default());
    raw.bytes(&[0, 2, 0, 0]);
    assert!(raw.side.take().is_empty(), "131072 bytes are accepted now");
}

#[test]
fn section_2_4_3_frames_in_flight_after_our_close_are_dropped() {
    let (mut raw, _) = Raw::attached(Config::default(), Role::Sender);
    raw.side.machine.close(None);
    raw.written();
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 0))));
    raw.send(0, link("late", 1, Role::Sender));
    raw.send(3, begin());
    assert!(raw.written().is_empty() && raw.side.take().is_empty());
    raw.send(0, Performative::Close(Close::default()));
    assert_eq!(raw.side.only(), Event::Closed { error: None, by: ClosedBy::Local });
}

#[test]
fn section_2_4_5_heartbeat_is_sent_at_half_of_the_peers_time_out() {
    let client = Config { idle_time_out_ms: Some(1000), ..Config::default() };
    let mut pair = Pair::open(client, Config { idle_time_out_ms: None, ..Config::default() });
    let server = &mut pair.server.machine;
    assert_eq!(server.poll_timeout(), Some(Time::from_micros(500_000)));
    server.handle_timeout(Time::from_micros(499_999));
    assert!(server.output().is_empty());
    server.handle_timeout(Time::from_micros(500_000));
    assert_eq!(std::mem::take(server.output()), [0, 0, 0, 8, 2, 0, 0, 0]);
    assert_eq!(server.poll_timeout(), Some(Time::from_micros(1_000_000)));

    pair.now = Time::from_micros(700_000);
    pair.server.machine.close(None);
    pair.run();
    assert_eq!(pair.server.machine.poll_timeout(), None);
}

#[test]
fn section_2_4_5_output_postpones_the_heartbeat() {
    let client = Config { idle_time_out_ms: Some(1000), ..Config::default() };
    let (mut pair, _, link, theirs) = Pair::linked(client, Config::default(), Role::Sender);
    pair.now = Time::from_micros(300_000);
    pair.server.machine.grant(theirs, 1);
    pair.run();
    assert_eq!(pair.client.only(), Event::Credit { link, credit: 1, drain: false });
    assert_eq!(pair.server.machine.poll_timeout(), Some(Time::from_micros(800_000)));
}

#[test]
fn section_2_4_5_silence_of_twice_our_time_out_ends_the_connection() {
    let client = Config { idle_time_out_ms: Some(1000), ..Config::default() };
    let mut pair = Pair::open(client, Config { idle_time_out_ms: None, ..Config::default() });
    let client = &mut pair.client.machine;
    assert_eq!(client.poll_timeout(), Some(Time::from_micros(2_000_000)));
    let mut heartbeat = &[0, 0, 0, 8, 2, 0, 0, 0][..];
    assert!(client.poll_event(Time::from_micros(1_500_000), &mut heartbeat).is_none());
    client.handle_timeout(Time::from_micros(2_000_000));
    assert_eq!(client.poll_timeout(), Some(Time::from_micros(3_500_000)));
    client.handle_timeout(Time::from_micros(3_500_000));
    client.handle_timeout(Time::from_micros(9_000_000));
    assert_eq!(client.poll_timeout(), None);
    pair.client.read(pair.now);
    let Event::Closed { error: Some(error), by: ClosedBy::Timeout } = pair.client.only() else { panic!() };
    assert_eq!(error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
    pair.run();
    assert_eq!(
        pair.server.only(),
        Event::Closed { error: Some(error), by: ClosedBy::Peer },
        "the peer gets the reason"
    );
}

#[test]
fn section_2_4_5_idle_time_out_is_suspended_while_the_driver_does_not_read() {
    let client = Config { idle_time_out_ms: Some(1000), ..Config::default() };
    let mut pair = Pair::open(client, Config { idle_time_out_ms: None, ..Config::default() });
    let client = &mut pair.client.machine;
    client.set_reading(Time::ZERO, false);
    assert_eq!(client.poll_timeout(), None);
    client.handle_timeout(Time::from_micros(9_000_000));
    client.set_reading(Time::from_micros(10_000_000), true);
    assert_eq!(client.poll_timeout(), Some(Time::from_micros(12_000_000)));
    pair.client.read(Time::from_micros(10_000_000));
    assert!(pair.client.take().is_empty());
}

#[test]
fn section_2_4_5_handshake_and_close_have_a_time_limit() {
    let mut raw = Raw::fresh(Config { handshake_ms: 100, ..Config::default() }, SaslPolicy::Optional);
    assert_eq!(raw.side.machine.poll_timeout(), Some(Time::from_micros(100_000)));
    raw.bytes(b"AMQP");
    raw.side.machine.handle_timeout(Time::from_micros(100_000));
    raw.bytes(b"");
    assert!(matches!(raw.side.only(), Event::Closed { error: Some(_), by: ClosedBy::Timeout }));
    assert!(raw.output().is_empty());

    let mut raw = Raw::fresh(Config { handshake_ms: 100, ..Config::default() }, SaslPolicy::Optional);
    raw.bytes(&protocol_header(Protocol::Amqp));
    raw.side.machine.handle_timeout(Time::from_micros(100_000));
    assert!(matches!(raw.written()[..], [(_, Performative::Open(_)), (_, Performative::Close(_))]));

    let mut raw = Raw::begun(Config { handshake_ms: 100, ..Config::default() });
    raw.now = Time::from_micros(1_000_000);
    raw.bytes(b"");
    raw.side.machine.close(None);
    assert_eq!(raw.side.machine.poll_timeout(), Some(Time::from_micros(1_100_000)));
    raw.side.machine.handle_timeout(Time::from_micros(1_100_000));
    raw.bytes(b"");
    assert!(matches!(raw.side.only(), Event::Closed { error: Some(_), by: ClosedBy::Timeout }));
}

#[test]
fn section_2_7_1_channel_max_of_the_peer_bounds_our_sessions() {
    let mut pair = Pair::open(Config::default(), Config { channel_max: 1, ..Config::default() });
    assert_eq!(pair.client.machine.begin(), Ok(SessionId(0)));
    assert_eq!(pair.client.machine.begin(), Ok(SessionId(1)));
    assert_eq!(pair.client.machine.begin(), Err(UseError::Limit));
}
