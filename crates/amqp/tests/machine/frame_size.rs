//! Output to a peer with the smallest max-frame-size (2.7.1).

use enmasse_amqp::codec::decode_performative;
use enmasse_amqp::codec::frame::{self, FrameKind, Protocol, protocol_header};
use enmasse_amqp::connection::{Config, Event, LinkId, SaslPolicy, SessionId};
use enmasse_amqp::types::{
    DeliveryState, Error, Modified, Open, Outcome, Performative, Role, Symbol, Value, condition,
};

use crate::pair::OwnedEvent;
use crate::raw::{Raw, begin, link, transfer};

const MAX: u32 = 512;

/// A server whose peer takes the smallest frames that the standard allows, with a session on
/// channel 0.
fn small() -> Raw {
    let mut raw = Raw::fresh(Config::default(), SaslPolicy::Optional);
    raw.bytes(&protocol_header(Protocol::Amqp));
    let open = Open { container_id: "client".to_owned(), max_frame_size: MAX, ..Open::default() };
    raw.send(0, Performative::Open(Box::new(open)));
    raw.send(0, begin());
    frames(&mut raw);
    raw.side.take();
    raw
}

/// As `small`, and the peer has sent one delivery on a link of handle 0.
fn receiving() -> (Raw, LinkId) {
    let mut raw = small();
    raw.send(0, link("link", 0, Role::Sender));
    let ours = raw.side.machine.links().next().unwrap();
    raw.side.machine.grant(ours, 10);
    raw.send_with(0, Performative::Transfer(Box::new(transfer(0, 0))), b"x");
    frames(&mut raw);
    (raw, ours)
}

/// The performatives written since the last call, each in a frame that the peer takes.
fn frames(raw: &mut Raw) -> Vec<Performative> {
    raw.side.machine.flush(raw.now);
    let output = raw.output();
    let mut rest = &output[..];
    let mut written = Vec::new();
    while !rest.is_empty() {
        if rest.starts_with(b"AMQP") {
            rest = &rest[8..];
            continue;
        }
        let (frame, length) = frame::split(rest, u32::MAX).unwrap().expect("whole frames are written");
        assert!(length <= MAX as usize, "a frame of {length} bytes");
        rest = &rest[length..];
        assert_eq!(frame.kind, FrameKind::Amqp);
        written.push(decode_performative(frame.body).unwrap().0);
    }
    written
}

fn long_error() -> Error {
    let info = [(Symbol::from("details"), Value::String("d".repeat(1000)))].into_iter().collect();
    Error { info, ..Error::new(condition::NOT_FOUND, "größe ".repeat(200)) }
}

fn assert_truncated(error: Option<&Error>) {
    let error = error.expect("an error");
    assert_eq!(error.condition, condition::NOT_FOUND);
    let text = error.description.as_deref().unwrap();
    assert!(text.starts_with("größe größe") && text.len() > 300, "{text}");
}

#[test]
fn section_2_7_1_long_outcome_is_truncated() {
    let (mut raw, link) = receiving();
    raw.side.machine.settle(link, 0, &Outcome::Rejected(Some(Box::new(long_error()))));
    let Performative::Disposition(disposition) = &frames(&mut raw)[0] else { panic!("no disposition") };
    let state = disposition.state.as_ref().unwrap();
    let DeliveryState::Outcome(Outcome::Rejected(error)) = state else { panic!("{state:?}") };
    assert_truncated(error.as_deref());
}

#[test]
fn section_2_7_1_a_condition_that_does_not_fit_is_omitted() {
    let (mut raw, link) = receiving();
    let endless = Error::new(Symbol::from("c".repeat(1000)), "why");
    raw.side.machine.settle(link, 0, &Outcome::Rejected(Some(Box::new(endless))));
    let Performative::Disposition(disposition) = &frames(&mut raw)[0] else { panic!("no disposition") };
    let state = disposition.state.as_ref().unwrap();
    assert_eq!(*state, DeliveryState::Outcome(Outcome::Rejected(None)));
}

#[test]
fn section_2_7_1_truncated_modified_keeps_its_flags() {
    let (mut raw, link) = receiving();
    let annotations = [(Symbol::from("why"), Value::String("w".repeat(1000)))].into_iter().collect();
    let modified = Modified { delivery_failed: true, undeliverable_here: true, message_annotations: annotations };
    raw.side.machine.settle(link, 0, &Outcome::Modified(Box::new(modified.clone())));
    let Performative::Disposition(disposition) = &frames(&mut raw)[0] else { panic!("no disposition") };
    let state = disposition.state.as_ref().unwrap();
    let bare = Modified { message_annotations: [].into_iter().collect(), ..modified };
    assert_eq!(*state, DeliveryState::Outcome(Outcome::Modified(Box::new(bare))));
}

#[test]
fn section_2_7_1_long_error_is_truncated_in_every_frame() {
    let (mut raw, link) = receiving();
    raw.side.machine.detach(link, true, Some(long_error()));
    let Performative::Detach(detach) = &frames(&mut raw)[0] else { panic!("no detach") };
    assert_truncated(detach.error.as_ref());
    let session = SessionId(0);
    raw.side.machine.end(session, Some(long_error()));
    let Performative::End(end) = &frames(&mut raw)[0] else { panic!("no end") };
    assert_truncated(end.error.as_ref());
    raw.side.machine.close(Some(long_error()));
    let Performative::Close(close) = &frames(&mut raw)[0] else { panic!("no close") };
    assert_truncated(close.error.as_ref());
}

/// The peer's attach is within our frames, and the answer would not be within the peer's.
#[test]
fn section_2_7_1_attach_reply_above_max_frame_size_ends_the_session() {
    let mut raw = small();
    raw.send(0, link(&"n".repeat(600), 0, Role::Sender));
    raw.assert_ended(&condition::FRAME_SIZE_TOO_SMALL, "max-frame-size is 512");
}

#[test]
fn section_2_7_1_attach_refusal_above_max_frame_size_ends_the_session() {
    let mut raw = small();
    raw.side.answers = false;
    raw.send(0, link(&"n".repeat(600), 0, Role::Sender));
    let Some(OwnedEvent::Event(Event::Attach { link, .. })) = raw.side.take().pop() else { panic!("no attach") };
    raw.side.machine.refuse(link, long_error());
    raw.bytes(b"");
    assert!(raw.side.machine.links().next().is_none());
    raw.assert_ended(&condition::FRAME_SIZE_TOO_SMALL, "max-frame-size is 512");
}
