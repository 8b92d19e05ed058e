//! The protocol trace shows every field except secrets.

use enmasse_amqp::codec::frame::{self, Protocol};
use enmasse_amqp::codec::{describe, encode_performative, encode_sasl, fast};
use enmasse_amqp::types::{
    Attach, Begin, Close, DeliveryState, Disposition, Error, Open, Outcome, Performative, Role, SaslCode, SaslFrame,
    SaslInit, SaslOutcome, SaslResponse, Source, Symbol, Target, Value, condition,
};

fn line(performative: Performative) -> String {
    let mut out = Vec::new();
    encode_performative(&mut out, 2, &performative);
    describe(&out)
}

#[test]
fn performatives_are_traced_with_field_names() {
    let open = Open {
        container_id: "me".into(),
        channel_max: 9,
        properties: vec![(Symbol::from("product"), Value::String("p".into()))],
        ..Open::default()
    };
    assert_eq!(
        line(Performative::Open(Box::new(open))),
        r#"ch 2 open [container-id="me", channel-max=9, properties={:"product"="p"}]"#
    );
    let disposition = Disposition {
        role: Role::Receiver,
        first: 3,
        last: Some(4),
        settled: true,
        state: Some(DeliveryState::Outcome(Outcome::Accepted)),
        batchable: false,
    };
    assert_eq!(
        line(Performative::Disposition(disposition)),
        "ch 2 disposition [receiver=true, first=3, last=4, settled=true, state=accepted []]"
    );
    let close = Close { error: Some(Error::new(condition::NOT_FOUND, "gone")) };
    assert_eq!(
        line(Performative::Close(close)),
        r#"ch 2 close [error=error [condition=:"amqp:not-found", description="gone"]]"#
    );
}

#[test]
fn source_and_target_are_traced() {
    let attach = Attach {
        name: "l".into(),
        handle: 0,
        role: Role::Receiver,
        snd_settle_mode: Default::default(),
        rcv_settle_mode: Default::default(),
        source: Some(Box::new(Source { address: Some("a".into()), ..Source::default() })),
        target: Some(Box::new(Target::node(None))),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: vec![Symbol::from("x")],
        desired_capabilities: vec![],
        properties: vec![],
    };
    assert_eq!(
        line(Performative::Attach(Box::new(attach))),
        r#"ch 2 attach [name="l", handle=0, receiver=true, source=source [address="a"], target=target [], offered-capabilities=(:"x")]"#
    );
}

#[test]
fn payload_is_traced_as_its_length() {
    let head = fast::TransferHead {
        channel: 1,
        handle: 5,
        delivery_id: Some(6),
        tag: b"\x01\x02",
        message_format: 0,
        settled: false,
        more: false,
        resume: false,
        aborted: false,
        payload_len: 6,
    };
    let mut out = Vec::new();
    fast::encode_transfer(&mut out, &head);
    out.extend_from_slice(b"secret");
    frame::encode_heartbeat(&mut out);
    assert_eq!(
        describe(&out),
        "ch 1 transfer [handle=5, delivery-id=6, delivery-tag=0x0102, message-format=0, settled=false] payload 6 bytes\n\
         ch 0 heartbeat"
    );
}

#[test]
fn sasl_secrets_are_never_shown() {
    let secret = b"\0alice\0hunter2".to_vec();
    let frames = [
        SaslFrame::Mechanisms(vec![Symbol::from("PLAIN"), Symbol::from("EXTERNAL")]),
        SaslFrame::Init(SaslInit {
            mechanism: Symbol::from("PLAIN"),
            initial_response: Some(secret.clone()),
            hostname: Some("space".into()),
        }),
        SaslFrame::Challenge(secret.clone()),
        SaslFrame::Response(SaslResponse(secret.clone())),
        SaslFrame::Outcome(SaslOutcome { code: SaslCode::Auth, additional_data: Some(secret.clone()) }),
    ];
    let mut out = frame::protocol_header(Protocol::Sasl).to_vec();
    frames.iter().for_each(|frame| encode_sasl(&mut out, frame));
    let text = describe(&out);
    assert_eq!(
        text,
        "header SASL 1.0.0\n\
         sasl mechanisms [:PLAIN, :EXTERNAL]\n\
         sasl init [mechanism=:PLAIN, initial-response=(14 bytes), hostname=\"space\"]\n\
         sasl challenge (14 bytes)\n\
         sasl response (14 bytes)\n\
         sasl outcome [code=Auth, additional-data=(14 bytes)]"
    );
}

#[test]
fn undecodable_sasl_frame_is_traced_without_its_bytes() {
    // The response comes as a string, in a field of the wrong type, and without a descriptor.
    for body in [
        &b"\x00\x53\x41\xc0\x13\x02\xa3\x05PLAIN\xa1\x08hunter22"[..],
        b"\x00\x53\x43\xc0\x0b\x01\xa1\x08hunter22",
        b"\x00\xa3\x08hunter22\x45",
        b"hunter22",
    ] {
        let mut bytes = vec![0, 0, 0, 8 + body.len() as u8, 2, 1, 0, 0];
        bytes.extend_from_slice(body);
        let text = describe(&bytes);
        assert!(text.starts_with("sasl undecodable"), "{text}");
        assert!(!text.contains("hunter"), "{text}");
    }
}

#[test]
fn sasl_type_in_an_amqp_frame_is_not_traced() {
    let mut bytes = Vec::new();
    encode_sasl(&mut bytes, &SaslFrame::Response(SaslResponse(b"hunter2".to_vec())));
    bytes[5] = 0;
    assert_eq!(describe(&bytes), "ch 0 (a SASL type, not shown)");
}

#[test]
fn trace_line_is_bounded() {
    let open = Open {
        container_id: "x".repeat(100_000),
        offered_capabilities: (0..10_000).map(|number| Symbol::from(format!("capability-{number}"))).collect(),
        ..Open::default()
    };
    let text = line(Performative::Open(Box::new(open)));
    assert!(text.contains("..(100000 bytes)"), "{text}");
    assert!(text.ends_with(" .."), "{text}");
    assert!(text.len() < 5000);
}

#[test]
fn incomplete_or_invalid_input_is_described() {
    assert_eq!(describe(b""), "");
    assert_eq!(describe(b"AMQ"), "3 bytes of a frame");
    assert_eq!(describe(b"AMQP\0\x01"), "6 bytes of a header");
    assert!(describe(b"AMQP\0\x09\x01\0").contains("is not AMQP 1.0.0"));
    assert_eq!(describe(&[0, 0, 0, 20, 2, 0, 0, 0]), "8 bytes of a frame");
    assert!(describe(&[0, 0, 0, 2, 2, 0, 0, 0]).contains("size 2 is below 8 (8 bytes)"));
    assert!(describe(&[0, 0, 0, 9, 2, 0, 0, 4, 0x99]).starts_with("ch 4 undecodable, 1 bytes: value: "));
}

#[test]
fn non_standard_described_types_are_traced_by_descriptor() {
    let filter = Value::Described(Box::new((Value::Ulong(0x468c_0000_0004), Value::String("a = 1".into()))));
    let source = Source { filter: vec![(Symbol::from("selector"), filter)], ..Source::default() };
    let begin = Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 1,
        outgoing_window: 1,
        handle_max: u32::MAX,
        offered_capabilities: vec![],
        desired_capabilities: vec![],
        properties: source.filter,
    };
    let text = line(Performative::Begin(Box::new(begin)));
    assert!(text.contains(r#"{:"selector"=@77567109365764 "a = 1"}"#), "{text}");
}
