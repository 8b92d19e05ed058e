//! Errors (2.8.14), delivery states and outcomes (3.4), and the states of transactions (4.5).

use super::code;
use super::descriptor::{self, Descriptor};
use super::error::{DecodeError, Fault, FieldError};
use super::list::ListReader;
use super::list::ListWriter;
use super::reader::Reader;
use super::writer::{put_binary, put_descriptor, put_string, put_symbol, put_uint, put_ulong};
use crate::types::{Declared, DeliveryState, Error, Modified, Outcome, Received, TransactionalState, condition};

/// Decodes a delivery state, all of `bytes`: the raw state of a transfer or disposition of the hot
/// path.
///
/// # Errors
/// As `decode_performative`; `amqp:not-implemented` for a state that is not of the standard.
pub fn decode_state(bytes: &[u8]) -> Result<DeliveryState, DecodeError> {
    let mut reader = Reader::new(bytes);
    let state = read_state(&mut reader)?;
    if reader.is_empty() { Ok(state) } else { Err(Fault::Leftover.on("delivery-state", "")) }
}

/// Appends a delivery state.
pub fn encode_state(out: &mut Vec<u8>, state: &DeliveryState) {
    put_state(out, state);
}

/// A described error.
pub(super) fn read_error(reader: &mut Reader<'_>) -> Result<Error, DecodeError> {
    let descriptor = reader.descriptor().map_err(|fault| fault.on("error", ""))?;
    if descriptor.number() != Some(descriptor::ERROR) {
        let description = format!("error: expected the type amqp:error:list, found {descriptor}");
        return Err(DecodeError::new(condition::DECODE_ERROR, description));
    }
    let mut list = ListReader::open(reader, "error")?;
    let error = Error {
        condition: list.required("condition", Reader::symbol)?.into(),
        description: list.string("description")?,
        info: list.fields("info")?,
    };
    list.finish()?;
    Ok(error)
}

pub(super) fn put_error(out: &mut Vec<u8>, error: &Error) {
    ListWriter::new(out, descriptor::ERROR)
        .put(&error.condition, put_symbol)
        .maybe(error.description.as_deref(), put_string)
        .fields(&error.info)
        .finish();
}

/// A described delivery state.
pub(super) fn read_state(reader: &mut Reader<'_>) -> Result<DeliveryState, DecodeError> {
    let descriptor = reader.descriptor().map_err(|fault| fault.on("delivery-state", ""))?;
    match descriptor.number() {
        Some(descriptor::RECEIVED) => {
            let mut list = ListReader::open(reader, "received")?;
            let received = Received {
                section_number: list.required("section-number", Reader::uint)?,
                section_offset: list.required("section-offset", Reader::ulong)?,
            };
            list.finish()?;
            Ok(DeliveryState::Received(received))
        }
        Some(descriptor::DECLARED) => {
            let mut list = ListReader::open(reader, "declared")?;
            let declared = Declared { txn_id: list.required("txn-id", Reader::binary)?.to_vec() };
            list.finish()?;
            Ok(DeliveryState::Declared(declared))
        }
        Some(descriptor::TRANSACTIONAL_STATE) => {
            let mut list = ListReader::open(reader, "transactional-state")?;
            let state = TransactionalState {
                txn_id: list.required("txn-id", Reader::binary)?.to_vec(),
                outcome: list.optional("outcome", read_outcome)?,
            };
            list.finish()?;
            Ok(DeliveryState::Transactional(Box::new(state)))
        }
        _ => outcome_body(reader, descriptor, "delivery-state").map(DeliveryState::Outcome),
    }
}

/// A described outcome.
pub(super) fn read_outcome(reader: &mut Reader<'_>) -> Result<Outcome, DecodeError> {
    let descriptor = reader.descriptor().map_err(|fault| fault.on("outcome", ""))?;
    outcome_body(reader, descriptor, "outcome")
}

fn outcome_body(
    reader: &mut Reader<'_>,
    descriptor: Descriptor<'_>,
    place: &'static str,
) -> Result<Outcome, DecodeError> {
    match descriptor.number() {
        Some(descriptor::ACCEPTED) => {
            ListReader::open(reader, "accepted")?.finish()?;
            Ok(Outcome::Accepted)
        }
        Some(descriptor::REJECTED) => {
            let mut list = ListReader::open(reader, "rejected")?;
            let error = list.optional("error", read_error)?.map(Box::new);
            list.finish()?;
            Ok(Outcome::Rejected(error))
        }
        Some(descriptor::RELEASED) => {
            ListReader::open(reader, "released")?.finish()?;
            Ok(Outcome::Released)
        }
        Some(descriptor::MODIFIED) => {
            let mut list = ListReader::open(reader, "modified")?;
            let modified = Modified {
                delivery_failed: list.flag("delivery-failed")?,
                undeliverable_here: list.flag("undeliverable-here")?,
                message_annotations: list.fields("message-annotations")?,
            };
            list.finish()?;
            Ok(Outcome::Modified(Box::new(modified)))
        }
        _ => Err(descriptor.unknown(place)),
    }
}

pub(super) fn put_state(out: &mut Vec<u8>, state: &DeliveryState) {
    match state {
        DeliveryState::Received(received) => ListWriter::new(out, descriptor::RECEIVED)
            .put(received.section_number, put_uint)
            .put(received.section_offset, put_ulong)
            .finish(),
        DeliveryState::Outcome(outcome) => put_outcome(out, outcome),
        DeliveryState::Declared(declared) => {
            ListWriter::new(out, descriptor::DECLARED).put(declared.txn_id.as_slice(), put_binary).finish();
        }
        DeliveryState::Transactional(state) => ListWriter::new(out, descriptor::TRANSACTIONAL_STATE)
            .put(state.txn_id.as_slice(), put_binary)
            .maybe(state.outcome.as_ref(), put_outcome)
            .finish(),
    }
}

pub(super) fn put_outcome(out: &mut Vec<u8>, outcome: &Outcome) {
    match outcome {
        Outcome::Accepted => put_empty(out, descriptor::ACCEPTED),
        Outcome::Released => put_empty(out, descriptor::RELEASED),
        Outcome::Rejected(error) => {
            ListWriter::new(out, descriptor::REJECTED).maybe(error.as_deref(), put_error).finish();
        }
        Outcome::Modified(modified) => ListWriter::new(out, descriptor::MODIFIED)
            .flag(modified.delivery_failed)
            .flag(modified.undeliverable_here)
            .fields(&modified.message_annotations)
            .finish(),
    }
}

fn put_empty(out: &mut Vec<u8>, descriptor: u64) {
    put_descriptor(out, descriptor);
    out.push(code::LIST_0);
}
