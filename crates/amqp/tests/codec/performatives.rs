//! Performatives and SASL frames, in the shapes that peers send.

use enmasse_amqp::codec::fast::{self, StateView, TransferHead};
use enmasse_amqp::codec::frame::{self, FrameKind};
use enmasse_amqp::codec::{
    DecodeError, decode_performative, decode_sasl, decode_state, decode_transaction_control, decode_value,
    encode_performative, encode_sasl, encode_state, encode_transaction_control, encode_value,
};
use enmasse_amqp::types::*;
use proptest::prelude::*;

use crate::loose::{self, Choice};
use crate::strategies;

/// The body of the one frame in `bytes`.
fn body(bytes: &[u8]) -> &[u8] {
    let (frame, consumed) = frame::split(bytes, u32::MAX).unwrap().unwrap();
    assert_eq!(consumed, bytes.len());
    frame.body
}

fn encoded(performative: &Performative) -> Vec<u8> {
    let mut out = Vec::new();
    encode_performative(&mut out, 3, performative);
    out
}

/// The same value in another legal encoding.
fn loosely(body: &[u8], seed: u64) -> Vec<u8> {
    let (value, rest) = decode_value(body).unwrap();
    assert!(rest.is_empty());
    let mut bytes = Vec::new();
    loose::encode(&mut bytes, &value, &mut Choice::new(seed));
    bytes
}

proptest! {
    #[test]
    fn performatives_round_trip(performative in strategies::performative()) {
        let bytes = encoded(&performative);
        prop_assert_eq!(decode_performative(body(&bytes)).unwrap(), (performative, &[][..]));
    }

    #[test]
    fn performatives_are_decoded_from_every_legal_encoding(
        performative in strategies::performative(),
        seed in any::<u64>(),
    ) {
        let bytes = loosely(body(&encoded(&performative)), seed);
        prop_assert_eq!(decode_performative(&bytes).unwrap().0, performative);
    }

    #[test]
    fn sasl_frames_round_trip(sasl in strategies::sasl_frame(), seed in any::<u64>()) {
        let mut bytes = Vec::new();
        encode_sasl(&mut bytes, &sasl);
        prop_assert_eq!(frame::split(&bytes, u32::MAX).unwrap().unwrap().0.kind, FrameKind::Sasl);
        prop_assert_eq!(&decode_sasl(body(&bytes)).unwrap(), &sasl);
        prop_assert_eq!(decode_sasl(&loosely(body(&bytes), seed)).unwrap(), sasl);
    }

    #[test]
    fn delivery_states_round_trip(state in strategies::state(), seed in any::<u64>()) {
        let mut bytes = Vec::new();
        encode_state(&mut bytes, &state);
        prop_assert_eq!(&decode_state(&bytes).unwrap(), &state);
        prop_assert_eq!(&decode_state(&loosely(&bytes, seed)).unwrap(), &state);
        bytes.push(0x40);
        prop_assert!(decode_state(&bytes).is_err());
    }

    #[test]
    fn fast_transfer_view_agrees_with_the_decoder(transfer in strategies::transfer(), payload in strategies::bytes(), seed in any::<u64>()) {
        let performative = Performative::Transfer(Box::new(transfer.clone()));
        let mut bytes = loosely(body(&encoded(&performative)), seed);
        bytes.extend_from_slice(&payload);
        let view = fast::transfer(&bytes).unwrap();
        prop_assert_eq!(view.payload, &payload);
        let state = view.state.map(|state| decode_state(state).unwrap());
        let seen = Transfer {
            handle: view.handle,
            delivery_id: view.delivery_id,
            delivery_tag: view.delivery_tag.map(<[u8]>::to_vec),
            message_format: view.message_format,
            settled: view.settled,
            more: view.more,
            rcv_settle_mode: view.rcv_settle_mode,
            state,
            resume: view.resume,
            aborted: view.aborted,
            batchable: view.batchable,
        };
        prop_assert_eq!(seen, transfer);
        prop_assert_eq!(decode_performative(&bytes).unwrap(), (performative, &payload[..]));
    }

    #[test]
    fn fast_disposition_view_agrees_with_the_decoder(disposition in strategies::disposition(), seed in any::<u64>()) {
        let bytes = loosely(body(&encoded(&Performative::Disposition(disposition.clone()))), seed);
        let view = fast::disposition(&bytes).unwrap();
        prop_assert_eq!(view.role, disposition.role);
        prop_assert_eq!(view.first, disposition.first);
        prop_assert_eq!(view.last, disposition.last.unwrap_or(disposition.first));
        prop_assert_eq!(view.settled, disposition.settled);
        let state = match view.state {
            StateView::None => None,
            StateView::Accepted => Some(DeliveryState::Outcome(Outcome::Accepted)),
            StateView::Released => Some(DeliveryState::Outcome(Outcome::Released)),
            StateView::Other(raw) => Some(decode_state(raw).unwrap()),
        };
        prop_assert_eq!(state, disposition.state);
    }

    #[test]
    fn fast_flow_view_agrees_with_the_decoder(flow in strategies::flow(), seed in any::<u64>()) {
        let bytes = loosely(body(&encoded(&Performative::Flow(flow.clone()))), seed);
        prop_assert_eq!(fast::flow(&bytes).unwrap(), flow);
    }

    #[test]
    fn fast_transfer_head_round_trips(
        (channel, handle, delivery_id) in (any::<u16>(), strategies::uint(), proptest::option::of(strategies::uint())),
        tag in proptest::collection::vec(any::<u8>(), 0..40),
        message_format in strategies::uint(),
        (settled, more, resume, aborted) in any::<(bool, bool, bool, bool)>(),
        payload in strategies::bytes(),
    ) {
        let head = TransferHead {
            channel, handle, delivery_id, tag: &tag, message_format, settled, more, resume, aborted,
            payload_len: payload.len(),
        };
        let mut bytes = Vec::new();
        fast::encode_transfer(&mut bytes, &head);
        prop_assert!(bytes.len() <= fast::MAX_TRANSFER_HEAD);
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(frame::split(&bytes, u32::MAX).unwrap().unwrap().0.channel, channel);
        let (performative, seen) = decode_performative(body(&bytes)).unwrap();
        prop_assert_eq!(seen, &payload);
        let first = delivery_id.is_some();
        let expected = Transfer {
            handle,
            delivery_id,
            delivery_tag: first.then(|| tag[..tag.len().min(32)].to_vec()),
            message_format: first.then_some(message_format),
            settled: Some(settled),
            more,
            resume,
            aborted,
            ..Transfer::default()
        };
        prop_assert_eq!(performative, Performative::Transfer(Box::new(expected)));
    }

    #[test]
    fn fast_transfer_head_with_a_state_round_trips(
        delivery_id in proptest::option::of(strategies::uint()),
        (settled, more, aborted) in any::<(bool, bool, bool)>(),
        state in strategies::state(),
        payload in strategies::bytes(),
    ) {
        let head = TransferHead {
            channel: 7, handle: 300, delivery_id, tag: b"tag", message_format: 0, settled, more, resume: more, aborted,
            payload_len: payload.len(),
        };
        let mut bytes = Vec::new();
        fast::encode_transfer_with(&mut bytes, &head, &state);
        bytes.extend_from_slice(&payload);
        let (performative, seen) = decode_performative(body(&bytes)).unwrap();
        prop_assert_eq!(seen, &payload);
        let Performative::Transfer(transfer) = performative else { panic!("{performative:?}") };
        prop_assert_eq!((transfer.handle, transfer.delivery_id), (300, delivery_id));
        prop_assert_eq!((transfer.settled, transfer.more, transfer.aborted), (Some(settled), more, aborted));
        prop_assert_eq!((transfer.resume, transfer.state), (more, Some(state)));
    }

    #[test]
    fn fast_disposition_round_trips(
        (channel, receiver, settled) in any::<(u16, bool, bool)>(),
        (first, last) in (strategies::uint(), strategies::uint()),
        outcome in proptest::option::of(strategies::outcome()),
    ) {
        let role = if receiver { Role::Receiver } else { Role::Sender };
        let mut bytes = Vec::new();
        fast::encode_disposition(&mut bytes, channel, role, first, last, settled, outcome.as_ref());
        prop_assert_eq!(frame::split(&bytes, u32::MAX).unwrap().unwrap().0.channel, channel);
        let expected = Disposition {
            role,
            first,
            last: (first != last).then_some(last),
            settled,
            state: outcome.map(DeliveryState::Outcome),
            batchable: false,
        };
        prop_assert_eq!(decode_performative(body(&bytes)).unwrap().0, Performative::Disposition(expected));
    }
}

#[test]
fn unknown_trailing_field_is_ignored() {
    let mut body = b"\x00\x53\x18\xc0\x05\x02\x40\xa1\x01x".to_vec();
    assert_eq!(decode_performative(&body).unwrap().0, Performative::Close(Close::default()));
    body[4] = 6;
    body.push(0x40);
    let error = decode_performative(&body).unwrap_err();
    assert_eq!(error.description, "close: bytes are left after the last element");
}

#[test]
fn string_keys_are_accepted_in_properties() {
    let body = b"\x00\x53\x11\xc0\x0f\x08\x40\x43\x43\x43\x40\x40\x40\xc1\x05\x02\xa1\x01k\x41";
    match decode_performative(body).unwrap().0 {
        Performative::Begin(begin) => assert_eq!(begin.properties, [(Symbol::from("k"), Value::Bool(true))]),
        other => panic!("{other:?}"),
    }
}

fn described(descriptor: Value, list: Vec<Value>) -> Value {
    Value::Described(Box::new((descriptor, Value::List(list))))
}

fn error_of(value: &Value) -> DecodeError {
    let mut body = Vec::new();
    encode_value(&mut body, value);
    decode_performative(&body).unwrap_err()
}

fn attach_with_target(target: Value) -> Value {
    let symbol = Value::Ulong(0x12);
    described(
        symbol,
        vec![
            Value::String("l".into()),
            Value::Uint(0),
            Value::Bool(true),
            Value::Null,
            Value::Null,
            Value::Null,
            target,
        ],
    )
}

#[test]
fn unknown_terminus_or_state_is_refused_as_not_implemented() {
    let unknown = described(Value::Symbol(Symbol::from("acme:sink:list")), vec![]);
    let error = error_of(&attach_with_target(unknown.clone()));
    assert_eq!(error.condition, condition::NOT_IMPLEMENTED);
    assert_eq!(error.description, "attach.target: target: the type acme:sink:list is unknown");
    let transfer = vec![Value::Uint(0), Value::Null, Value::Null, Value::Null, Value::Null, Value::Null, Value::Null];
    let error = error_of(&described(Value::Ulong(0x14), [transfer, vec![unknown]].concat()));
    assert_eq!(error.condition, condition::NOT_IMPLEMENTED);
    assert_eq!(error.description, "transfer.state: delivery-state: the type acme:sink:list is unknown");
}

#[test]
fn coordinator_is_decoded_as_a_target() {
    let coordinator = described(Value::Ulong(0x30), vec![Value::Symbol(Symbol::from("amqp:local-transactions"))]);
    let mut body = Vec::new();
    encode_value(&mut body, &attach_with_target(coordinator));
    let capabilities = vec![Symbol::from("amqp:local-transactions")];
    match decode_performative(&body).unwrap().0 {
        Performative::Attach(attach) => {
            assert_eq!(*attach.target.unwrap(), Target::Coordinator(Coordinator { capabilities }));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn transaction_controls_round_trip() {
    let controls = [
        TransactionControl::Declare(Declare { global_id: None }),
        TransactionControl::Declare(Declare { global_id: Some(vec![1]) }),
        TransactionControl::Discharge(Discharge { txn_id: vec![1, 2], fail: true }),
        TransactionControl::Discharge(Discharge { txn_id: vec![], fail: false }),
    ];
    for control in controls {
        let mut bytes = Vec::new();
        encode_transaction_control(&mut bytes, &control);
        assert_eq!(decode_transaction_control(&bytes).unwrap(), control);
    }
    assert_eq!(decode_transaction_control(b"\x00\x53\x33\x45").unwrap_err().condition, condition::NOT_IMPLEMENTED);
    let error = decode_transaction_control(b"\x00\x53\x32\x45").unwrap_err();
    assert_eq!(error.description, "discharge.txn-id: this mandatory field is missing");
}

#[test]
fn lifetime_policies_are_read_by_number_and_by_name() {
    let policies = [
        (Lifetime::OnClose, 0x2b, "amqp:delete-on-close:list"),
        (Lifetime::OnNoLinks, 0x2c, "amqp:delete-on-no-links:list"),
        (Lifetime::OnNoMessages, 0x2d, "amqp:delete-on-no-messages:list"),
        (Lifetime::OnNoLinksOrMessages, 0x2e, "amqp:delete-on-no-links-or-messages:list"),
    ];
    for (lifetime, number, name) in policies {
        assert_eq!(lifetime.to_value(), described(Value::Ulong(number), vec![]));
        assert_eq!(Lifetime::from_value(&lifetime.to_value()), Some(lifetime));
        assert_eq!(Lifetime::from_value(&described(Value::Symbol(Symbol::from(name)), vec![])), Some(lifetime));
    }
    assert_eq!(Lifetime::from_value(&described(Value::Ulong(0x2f), vec![])), None);
    assert_eq!(Lifetime::from_value(&Value::Ulong(0x2b)), None);
}

#[test]
fn described_and_plain_filters_are_found() {
    let plain = Value::String("a = 1".into());
    let selector = Value::Described(Box::new((Value::Ulong(0x468c_0000_0004), plain.clone())));
    let source = Source {
        filter: vec![(Symbol::from("described"), selector), (Symbol::from("plain"), plain.clone())],
        ..Source::default()
    };
    assert_eq!(source.filter_value("described"), Some(&plain));
    assert_eq!(source.filter_value("plain"), Some(&plain));
    assert_eq!(source.filter_value("none"), None);
}
