//! Fuzz targets, one a decoder. Under `cargo test` each runs for a moment on random input; `cargo
//! bolero test` runs them under a coverage-guided engine for a chosen time.

use bolero::check;
use enmasse_amqp::codec::fast::{self, StateView};
use enmasse_amqp::codec::{
    DecodeError, decode_message, decode_performative, decode_sasl, decode_state, decode_transaction_control,
    decode_value, describe, encode_message, encode_performative, encode_sasl, encode_value, frame, scan,
};
use enmasse_amqp::types::{DeliveryState, Disposition, Flow, Message, Outcome, Performative, Role, Transfer};

/// `head` and then the input: random bytes alone seldom begin with a valid descriptor.
fn behind(head: &[u8], input: &[u8]) -> Vec<u8> {
    [head, input].concat()
}

/// Random bytes after `00 53 code` and the head of a list that fits them.
fn as_list(code: u8, input: &[u8]) -> Vec<u8> {
    let count = input.first().copied().unwrap_or_default() % 16;
    let fields = input.get(1..).unwrap_or_default();
    let mut bytes = vec![0x00, 0x53, code, 0xd0];
    bytes.extend((fields.len() as u32 + 4).to_be_bytes());
    bytes.extend(u32::from(count).to_be_bytes());
    bytes.extend(fields);
    bytes
}

#[test]
fn frames() {
    check!().for_each(|input: &[u8]| {
        if let Ok(Some((frame, consumed))) = frame::split(input, 4096) {
            assert!(consumed <= input.len() && consumed <= 4096);
            assert!(frame.body.len() + frame::HEADER_SIZE <= consumed);
            // A prefix of a valid frame is never an error.
            for end in 0..consumed {
                assert_eq!(frame::split(&input[..end], 4096), Ok(None));
            }
        }
        let _ = frame::decode_protocol_header(input);
        let _ = describe(input);
    });
}

#[test]
fn values() {
    check!().for_each(|input: &[u8]| {
        let Ok((value, rest)) = decode_value(input) else { return };
        assert!(rest.len() < input.len());
        let mut bytes = Vec::new();
        encode_value(&mut bytes, &value);
        let (again, rest) = decode_value(&bytes).unwrap();
        assert!(rest.is_empty());
        // Compared as bytes, since a NaN is not equal to itself.
        let mut twice = Vec::new();
        encode_value(&mut twice, &again);
        assert_eq!(bytes, twice);
    });
}

#[test]
fn performatives() {
    check!().for_each(|input: &[u8]| {
        for code in 0x10..=0x18 {
            check_performative(&as_list(code, input));
        }
        check_performative(input);
    });
}

fn check_performative(body: &[u8]) {
    let Ok((performative, payload)) = decode_performative(body) else { return };
    assert!(payload.len() < body.len());
    let mut bytes = Vec::new();
    encode_performative(&mut bytes, 1, &performative);
    let (frame, _) = frame::split(&bytes, u32::MAX).unwrap().unwrap();
    let (again, _) = decode_performative(frame.body).unwrap();
    let mut twice = Vec::new();
    encode_performative(&mut twice, 1, &again);
    assert_eq!(bytes, twice);
}

#[test]
fn sasl_frames() {
    check!().for_each(|input: &[u8]| {
        for code in 0x40..=0x44 {
            let Ok(sasl) = decode_sasl(&as_list(code, input)) else { continue };
            let mut bytes = Vec::new();
            encode_sasl(&mut bytes, &sasl);
            assert_eq!(decode_sasl(&bytes[frame::HEADER_SIZE..]).unwrap(), sasl);
        }
    });
}

#[test]
fn messages() {
    check!().for_each(|input: &[u8]| {
        for code in 0x70..=0x78 {
            check_message(&behind(&[0x00, 0x53, code], input));
            check_message(&as_list(code, input));
        }
        check_message(input);
    });
}

fn check_message(bytes: &[u8]) {
    let sections = scan::sections(bytes).collect::<Result<Vec<_>, _>>();
    let found = scan::find_to(bytes);
    let Ok(message) = decode_message(bytes) else { return };
    let sections = sections.expect("what decodes has sections");
    assert_eq!(sections.iter().map(|section| section.range.len()).sum::<usize>(), bytes.len());
    let Message { properties, .. } = &message;
    assert_eq!(found, Ok(properties.as_ref().and_then(|properties| properties.to.as_deref())));
    let mut again = Vec::new();
    encode_message(&mut again, &message);
    let mut twice = Vec::new();
    encode_message(&mut twice, &decode_message(&again).unwrap());
    assert_eq!(again, twice);
}

#[test]
fn delivery_states_and_transaction_controls() {
    check!().for_each(|input: &[u8]| {
        for code in 0x23..=0x34 {
            let bytes = as_list(code, input);
            let _ = decode_state(&bytes);
            let _ = decode_transaction_control(&bytes);
        }
    });
}

#[test]
fn fast_views() {
    check!().for_each(|input: &[u8]| {
        check_views(input);
        check_views(&as_list(0x13, input));
        check_views(&as_list(0x14, input));
        check_views(&as_list(0x15, input));
        check_views(&behind(&as_list(0x14, input), input));
    });
}

/// The fast views and the full decoder give the same result for every body.
pub(crate) fn check_views(body: &[u8]) {
    assert_eq!(slow_transfer(body), seen_transfer(body), "{body:02x?}");
    assert_eq!(slow_disposition(body), seen_disposition(body), "{body:02x?}");
    assert_eq!(text(slow_flow(body)), text(fast::flow(body)), "{body:02x?}");
}

/// The result as text, in which a NaN equals itself. All errors are equal.
fn text<T: std::fmt::Debug>(result: Result<T, impl std::fmt::Debug>) -> Option<String> {
    result.ok().map(|value| format!("{value:?}"))
}

fn slow_transfer(body: &[u8]) -> Option<String> {
    match decode_performative(body) {
        Ok((Performative::Transfer(transfer), payload)) => Some(format!("{transfer:?} {payload:?}")),
        _ => None,
    }
}

fn seen_transfer(body: &[u8]) -> Option<String> {
    let view = fast::transfer(body).ok()?;
    let transfer = Transfer {
        handle: view.handle,
        delivery_id: view.delivery_id,
        delivery_tag: view.delivery_tag.map(<[u8]>::to_vec),
        message_format: view.message_format,
        settled: view.settled,
        more: view.more,
        rcv_settle_mode: view.rcv_settle_mode,
        state: view.state.map(decode_state).transpose().ok()?,
        resume: view.resume,
        aborted: view.aborted,
        batchable: view.batchable,
    };
    Some(format!("{transfer:?} {:?}", view.payload))
}

type Settled = (Role, u32, u32, bool, Option<String>);

fn slow_disposition(body: &[u8]) -> Option<Settled> {
    match decode_performative(body) {
        Ok((Performative::Disposition(Disposition { role, first, last, settled, state, .. }), _)) => {
            Some((role, first, last.unwrap_or(first), settled, state.map(|state| format!("{state:?}"))))
        }
        _ => None,
    }
}

fn seen_disposition(body: &[u8]) -> Option<Settled> {
    let view = fast::disposition(body).ok()?;
    let state = match view.state {
        StateView::None => None,
        StateView::Accepted => Some(DeliveryState::Outcome(Outcome::Accepted)),
        StateView::Released => Some(DeliveryState::Outcome(Outcome::Released)),
        StateView::Other(raw) => Some(decode_state(raw).ok()?),
    };
    Some((view.role, view.first, view.last, view.settled, state.map(|state| format!("{state:?}"))))
}

fn slow_flow(body: &[u8]) -> Result<Flow, Option<DecodeError>> {
    match decode_performative(body) {
        Ok((Performative::Flow(flow), _)) => Ok(flow),
        Ok(_) => Err(None),
        Err(error) => Err(Some(error)),
    }
}
