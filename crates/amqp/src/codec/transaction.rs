//! The requests of a client to a coordinator (part 4, 4.5.2 and 4.5.3): the value of an amqp-value
//! section.

use super::descriptor;
use super::error::{DecodeError, Fault, FieldError};
use super::list::ListReader;
use super::list::ListWriter;
use super::reader::Reader;
use super::writer::put_binary;
use crate::types::{Declare, Discharge, TransactionControl};

/// Decodes the value of a message sent to a coordinator, all of `value`.
///
/// # Errors
/// As `decode_performative`; `amqp:not-implemented` for another type than declare and discharge.
pub fn decode_transaction_control(value: &[u8]) -> Result<TransactionControl, DecodeError> {
    let mut reader = Reader::new(value);
    let descriptor = reader.descriptor().map_err(|fault| fault.on("transaction control", ""))?;
    let control = match descriptor.number() {
        Some(descriptor::DECLARE) => {
            let mut list = ListReader::open(&mut reader, "declare")?;
            let declare = Declare { global_id: list.binary("global-id")? };
            list.finish()?;
            TransactionControl::Declare(declare)
        }
        Some(descriptor::DISCHARGE) => {
            let mut list = ListReader::open(&mut reader, "discharge")?;
            let discharge =
                Discharge { txn_id: list.required("txn-id", Reader::binary)?.to_vec(), fail: list.flag("fail")? };
            list.finish()?;
            TransactionControl::Discharge(discharge)
        }
        _ => return Err(descriptor.unknown("transaction control")),
    };
    if reader.is_empty() { Ok(control) } else { Err(Fault::Leftover.on("transaction control", "")) }
}

/// Appends the value of a message to a coordinator.
pub fn encode_transaction_control(out: &mut Vec<u8>, control: &TransactionControl) {
    match control {
        TransactionControl::Declare(declare) => {
            ListWriter::new(out, descriptor::DECLARE).maybe(declare.global_id.as_deref(), put_binary).finish();
        }
        TransactionControl::Discharge(discharge) => ListWriter::new(out, descriptor::DISCHARGE)
            .put(discharge.txn_id.as_slice(), put_binary)
            .flag(discharge.fail)
            .finish(),
    }
}
