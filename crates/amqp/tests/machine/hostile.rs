//! Peers that violate the protocol: the smallest endpoint ends with the right condition, and the
//! others continue.

use enmasse_amqp::codec::frame::{Protocol, protocol_header};
use enmasse_amqp::connection::{ClosedBy, Config, Event, SaslPolicy};
use enmasse_amqp::types::{Begin, End, Flow, Open, Performative, ReceiverSettleMode, Role, Transfer, condition};

use crate::pair::{OwnedEvent, attach};
use crate::raw::{Raw, begin, detach, disposition, flow, link, open, transfer};

fn begun() -> Raw {
    Raw::begun(Config::default())
}

fn receiving() -> Raw {
    let (mut raw, link) = Raw::attached(Config::default(), Role::Sender);
    raw.side.machine.grant(link, 100);
    raw.bytes(b"");
    raw.clear();
    raw
}

fn sending() -> Raw {
    Raw::attached(Config::default(), Role::Receiver).0
}

#[test]
fn section_2_3_garbage_instead_of_a_frame_closes_the_connection() {
    for bytes in [&b"GET / HT"[..], &[0, 0, 0, 7], &[0, 0, 0, 8, 1], &[0, 0, 0, 8, 2, 9]] {
        let mut raw = begun();
        raw.bytes(bytes);
        raw.assert_closed(&condition::FRAMING_ERROR, "frame header");
    }
}

#[test]
fn section_2_7_1_frame_above_max_frame_size_closes_the_connection() {
    let mut raw = Raw::begun(Config { max_frame_size: 512, ..Config::default() });
    raw.bytes(&[0, 0, 2, 1]);
    raw.assert_closed(&condition::FRAMING_ERROR, "513 is above the max-frame-size 512");
}

#[test]
fn section_2_8_15_undecodable_frame_closes_the_connection() {
    for body in [&[0x00, 0x53, 0x14, 0xc0, 9, 1][..], &[0x00, 0x53, 0x77, 0x45], &[0x41], &[0x00, 0x53, 0x11, 0x45]] {
        let mut raw = begun();
        let size = u8::try_from(8 + body.len()).unwrap();
        raw.bytes(&[&[0, 0, 0, size, 2, 0, 0, 0], body].concat());
        let written = raw.written();
        assert!(matches!(written[..], [(0, Performative::Close(_))]), "{body:?}: {written:?}");
    }
}

#[test]
fn section_2_4_6_frame_before_open_closes_the_connection() {
    for performative in [begin(), Performative::End(End::default()), link("early", 0, Role::Sender)] {
        let mut raw = Raw::fresh(Config::default(), SaslPolicy::Optional);
        raw.bytes(&protocol_header(Protocol::Amqp));
        raw.send(0, performative);
        raw.assert_closed(&condition::ILLEGAL_STATE, "first frame must be an open");
    }
    let mut raw = Raw::fresh(Config::default(), SaslPolicy::Optional);
    raw.bytes(&protocol_header(Protocol::Amqp));
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 0))));
    let written = raw.written();
    assert!(matches!(written[..], [(0, Performative::Open(_)), (0, Performative::Close(_))]), "{written:?}");
}

#[test]
fn section_2_4_1_second_open_or_open_off_channel_0_closes_the_connection() {
    let mut raw = begun();
    raw.send(0, open("again"));
    raw.assert_closed(&condition::ILLEGAL_STATE, "second open");

    let mut raw = Raw::fresh(Config::default(), SaslPolicy::Optional);
    raw.bytes(&protocol_header(Protocol::Amqp));
    raw.send(1, open("elsewhere"));
    raw.assert_closed(&condition::FRAMING_ERROR, "channel 1");
}

#[test]
fn section_2_7_1_unacceptable_open_values_close_the_connection() {
    let cases = [
        (Open { max_frame_size: 511, ..Open::default() }, condition::INVALID_FIELD, "max-frame-size"),
        (Open { idle_time_out: Some(99), ..Open::default() }, condition::NOT_ALLOWED, "idle-time-out"),
    ];
    for (open, condition, words) in cases {
        let mut raw = Raw::fresh(Config::default(), SaslPolicy::Optional);
        raw.bytes(&protocol_header(Protocol::Amqp));
        raw.send(0, Performative::Open(Box::new(open)));
        raw.assert_closed(&condition, words);
    }
}

#[test]
fn section_2_7_2_invalid_channel_closes_the_connection() {
    let mut raw = begun();
    raw.send(256, begin());
    raw.assert_closed(&condition::FRAMING_ERROR, "channel-max is 255");

    let mut raw = begun();
    raw.send(0, begin());
    raw.assert_closed(&condition::ILLEGAL_STATE, "already has a session");

    let mut raw = begun();
    let Performative::Begin(mut answer) = begin() else { unreachable!() };
    answer.remote_channel = Some(7);
    raw.send(1, Performative::Begin(answer));
    raw.assert_closed(&condition::INVALID_FIELD, "names no session");

    let mut raw = Raw::fresh(Config::default(), SaslPolicy::Optional);
    raw.bytes(&protocol_header(Protocol::Amqp));
    raw.send(0, Performative::Open(Box::new(Open { channel_max: 0, ..Open::default() })));
    raw.send(0, begin());
    raw.send(1, begin());
    raw.assert_closed(&condition::NOT_ALLOWED, "leaves no channel");
}

#[test]
fn section_2_5_frame_on_a_channel_without_session_closes_the_connection() {
    let frames = [
        link("x", 0, Role::Sender),
        Performative::Flow(flow()),
        Performative::Transfer(Box::new(transfer(0, 0))),
        Performative::Disposition(disposition(0, None)),
        detach(0, true),
        Performative::End(End::default()),
    ];
    for performative in frames {
        let mut raw = begun();
        raw.send(5, performative);
        raw.assert_closed(&condition::ILLEGAL_STATE, "channel 5");
    }
}

#[test]
fn section_2_5_2_second_end_closes_the_connection() {
    let mut raw = begun();
    raw.send(0, Performative::End(End::default()));
    assert!(matches!(raw.written()[..], [(0, Performative::End(End { error: None }))]));
    raw.send(0, Performative::End(End::default()));
    raw.assert_closed(&condition::ILLEGAL_STATE, "without a session");
}

#[test]
fn section_2_7_3_invalid_handle_ends_the_session_or_the_connection() {
    let mut raw = begun();
    raw.send(0, link("x", 65_536, Role::Sender));
    raw.assert_closed(&condition::FRAMING_ERROR, "handle-max 65535");

    let mut raw = receiving();
    raw.send(0, link("other", 0, Role::Sender));
    raw.assert_ended(&condition::HANDLE_IN_USE, "attach.handle: 0");

    let mut raw = Raw::open(Config::default());
    let Performative::Begin(narrow) = begin() else { unreachable!() };
    raw.send(0, Performative::Begin(Box::new(Begin { handle_max: 0, ..*narrow })));
    raw.send(0, link("a", 0, Role::Sender));
    raw.send(0, link("b", 1, Role::Sender));
    raw.assert_ended(&condition::NOT_ALLOWED, "handle-max 0");
}

#[test]
fn section_2_7_unattached_handle_ends_the_session() {
    let cases = [
        (Performative::Transfer(Box::new(transfer(3, 0))), "transfer.handle: 3"),
        (Performative::Flow(Flow { handle: Some(3), ..flow() }), "flow.handle: 3"),
        (detach(3, true), "detach.handle: 3"),
    ];
    for (performative, words) in cases {
        let mut raw = receiving();
        raw.send(0, performative);
        raw.assert_ended(&condition::UNATTACHED_HANDLE, words);
    }
}

#[test]
fn section_2_7_3_invalid_attach_field_is_refused() {
    let mut raw = begun();
    raw.send(0, Performative::Attach(Box::new(attach("x", Role::Sender))));
    raw.assert_closed(&condition::INVALID_FIELD, "attach.initial-delivery-count");

    let mut raw = begun();
    raw.send(0, link(&"n".repeat(4097), 0, Role::Receiver));
    raw.assert_refused(&condition::INVALID_FIELD, "attach.name");
}

#[test]
fn section_2_6_7_transfer_beyond_the_credit_detaches_the_link() {
    let (mut raw, link) = Raw::attached(Config::default(), Role::Sender);
    raw.side.machine.grant(link, 2);
    raw.bytes(b"");
    for id in 0..3 {
        raw.send(0, Performative::Transfer(Box::new(transfer(0, id))));
    }
    raw.assert_detached(&condition::TRANSFER_LIMIT_EXCEEDED, "beyond the credit");

    let (mut raw, _) = Raw::attached(Config::default(), Role::Sender);
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 0))));
    raw.assert_detached(&condition::TRANSFER_LIMIT_EXCEEDED, "beyond the credit");
}

#[test]
fn section_2_6_7_uncredited_transfers_are_dropped_up_to_a_bound() {
    let (mut raw, _) = Raw::attached(Config { uncredited_max: 2, ..Config::default() }, Role::Sender);
    for id in 0..3 {
        raw.send(0, Performative::Transfer(Box::new(transfer(0, id))));
    }
    raw.assert_detached(&condition::TRANSFER_LIMIT_EXCEEDED, "beyond the credit");
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 3))));
    raw.assert_ended(&condition::ERRANT_LINK, "after the link was detached");
}

#[test]
fn section_2_7_5_missing_or_unordered_delivery_id_is_refused() {
    let mut raw = receiving();
    raw.send(0, Performative::Transfer(Box::new(Transfer { delivery_id: None, ..transfer(0, 0) })));
    raw.assert_detached(&condition::INVALID_FIELD, "transfer.delivery-id: missing");

    let mut raw = receiving();
    raw.send(0, Performative::Transfer(Box::new(Transfer { delivery_tag: None, ..transfer(0, 0) })));
    raw.assert_detached(&condition::INVALID_FIELD, "transfer.delivery-tag: missing");

    let mut raw = receiving();
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 4))));
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 6))));
    raw.assert_ended(&condition::INVALID_FIELD, "6 is out of sequence, 5 is next");

    let mut raw = receiving();
    raw.send(0, Performative::Transfer(Box::new(Transfer { more: true, ..transfer(0, 4) })));
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 5))));
    raw.assert_detached(&condition::INVALID_FIELD, "5 while delivery 4");
}

#[test]
fn section_2_7_5_rcv_settle_mode_second_on_a_first_link_detaches_it() {
    let mut raw = receiving();
    let rcv_settle_mode = Some(ReceiverSettleMode::Second);
    raw.send(0, Performative::Transfer(Box::new(Transfer { rcv_settle_mode, ..transfer(0, 0) })));
    raw.assert_detached(&condition::INVALID_FIELD, "rcv-settle-mode");
}

#[test]
fn section_2_6_transfer_against_the_link_direction_detaches_the_link() {
    let mut raw = sending();
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 0))));
    raw.assert_detached(&condition::NOT_ALLOWED, "the peer receives");
}

#[test]
fn section_2_5_6_transfer_beyond_the_window_ends_the_session() {
    let config = Config { session_window: 2, ..Config::default() };
    let (mut raw, link) = Raw::attached(config, Role::Sender);
    raw.side.machine.grant(link, 9);
    raw.side.machine.set_held(link, true);
    for id in 0..3 {
        raw.send(0, Performative::Transfer(Box::new(transfer(0, id))));
    }
    raw.assert_ended(&condition::WINDOW_VIOLATION, "incoming-window");
}

#[test]
fn section_2_5_6_flow_for_unsent_transfers_ends_the_session() {
    let mut raw = begun();
    raw.send(0, Performative::Flow(Flow { next_incoming_id: Some(1), ..flow() }));
    raw.assert_ended(&condition::INVALID_FIELD, "next-incoming-id: 1");
}

#[test]
fn section_2_7_6_disposition_of_unknown_deliveries_is_ignored() {
    let mut raw = sending();
    for (first, last) in [(0, None), (7, Some(9)), (u32::MAX, Some(3)), (0, Some(0x7fff_ffff))] {
        raw.send(0, Performative::Disposition(disposition(first, last)));
        assert!(raw.written().is_empty() && raw.side.take().is_empty());
    }
    raw.send(0, Performative::Disposition(disposition(5, Some(4))));
    raw.assert_ended(&condition::INVALID_FIELD, "before first");
}

#[test]
fn section_2_6_5_transfers_in_flight_to_a_detached_link_are_dropped() {
    let (mut raw, link) = Raw::attached(Config { uncredited_max: 0, ..Config::default() }, Role::Sender);
    raw.side.machine.grant(link, 3);
    raw.side.machine.detach(link, true, None);
    raw.written();
    for id in 0..3 {
        raw.send(0, Performative::Transfer(Box::new(transfer(0, id))));
    }
    assert!(raw.written().is_empty() && raw.side.take().is_empty());
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 3))));
    raw.assert_ended(&condition::ERRANT_LINK, "after the link was detached");
}

#[test]
fn section_2_5_5_frames_after_an_end_with_error_are_dropped() {
    let mut raw = receiving();
    raw.send(0, Performative::Transfer(Box::new(transfer(3, 0))));
    raw.written();
    let notified = raw.side.take();
    assert!(matches!(
        notified[..],
        [
            OwnedEvent::Event(Event::Detach { closed: false, error: None, .. }),
            OwnedEvent::Event(Event::End { error: Some(_), .. })
        ]
    ));
    raw.send(0, Performative::Transfer(Box::new(transfer(0, 0))));
    raw.send(0, link("late", 4, Role::Sender));
    raw.send(0, detach(0, true));
    raw.send(0, Performative::Flow(flow()));
    raw.send(0, Performative::End(End::default()));
    assert!(raw.written().is_empty() && raw.side.take().is_empty());
    raw.send(0, begin());
    assert!(matches!(raw.written()[..], [(0, Performative::Begin(_))]), "the channel is free again");
    assert_eq!(raw.side.machine.links().count(), 0);
}

#[test]
fn section_2_4_6_input_after_a_close_with_error_is_dropped() {
    let mut raw = begun();
    raw.send(5, detach(0, true));
    raw.assert_closed(&condition::ILLEGAL_STATE, "channel 5");
    raw.send(0, link("late", 0, Role::Sender));
    raw.bytes(b"anything at all");
    assert!(raw.output().is_empty() && raw.side.take().is_empty() && raw.side.unread.is_empty());
    assert_eq!(raw.side.machine.poll_timeout(), None);
}

#[test]
fn section_5_3_frame_of_the_wrong_layer_closes_the_connection() {
    let sasl_frame = [0, 0, 0, 16, 2, 1, 0, 0, 0x00, 0x53, 0x44, 0xc0, 3, 1, 0x50, 0];
    let mut raw = begun();
    raw.bytes(&sasl_frame);
    raw.assert_closed(&condition::FRAMING_ERROR, "outside of its layer");

    let mut raw = Raw::fresh(Config::default(), SaslPolicy::Optional);
    raw.bytes(&protocol_header(Protocol::Sasl));
    raw.send(0, open("impatient"));
    assert!(raw.written().is_empty(), "no close without an open, no open within SASL");
    assert!(matches!(raw.side.only(), Event::Closed { error: Some(_), by: ClosedBy::Local }));
}
