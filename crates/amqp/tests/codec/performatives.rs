//! Performatives in the shapes that peers send.

use enmasse_amqp::codec::{decode_performative, encode_performative, frame};
use enmasse_amqp::types::{Close, Error, Open, Performative, condition};

#[test]
fn an_open_with_trailing_fields_left_out_has_the_defaults() {
    let body = b"\x00\x53\x10\xc0\x05\x01\xa1\x02me";
    let (performative, payload) = decode_performative(body).unwrap();
    let expected = Open { container_id: "me".into(), ..Open::default() };
    assert_eq!(performative, Performative::Open(Box::new(expected)));
    assert!(payload.is_empty());
}

#[test]
fn a_close_with_an_error_survives_its_frame() {
    let close = Performative::Close(Close { error: Some(Error::new(condition::NOT_ALLOWED, "no such space")) });
    let mut out = Vec::new();
    encode_performative(&mut out, 3, &close);
    let (frame, consumed) = frame::split(&out, 512).unwrap().unwrap();
    assert_eq!((frame.channel, consumed), (3, out.len()));
    assert_eq!(decode_performative(frame.body).unwrap(), (close, &[][..]));
}
