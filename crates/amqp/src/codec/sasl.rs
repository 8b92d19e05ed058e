//! The SASL frames (part 5, 5.3.3).

use super::descriptor;
use super::error::{DecodeError, Fault, FieldError};
use super::frame::{self, FrameKind};
use super::list::ListWriter;
use super::list::{self, ListReader};
use super::reader::Reader;
use super::writer::{put_binary, put_string, put_symbol, put_symbols, put_ubyte};
use crate::types::{SaslCode, SaslFrame, SaslInit, SaslOutcome, SaslResponse, Symbol, condition};

/// Decodes the body of a SASL frame.
///
/// # Errors
/// As `decode_performative`. No error holds a part of a response.
pub fn decode_sasl(body: &[u8]) -> Result<SaslFrame, DecodeError> {
    let mut reader = Reader::new(body);
    let descriptor = reader.descriptor().map_err(|fault| fault.on("SASL frame", ""))?;
    let frame = match descriptor.number() {
        Some(descriptor::SASL_MECHANISMS) => {
            let mut list = ListReader::open(&mut reader, "sasl-mechanisms")?;
            let mechanisms = list.required("sasl-server-mechanisms", read_mechanisms)?;
            list.finish()?;
            SaslFrame::Mechanisms(mechanisms)
        }
        Some(descriptor::SASL_INIT) => SaslFrame::Init(read_init(&mut reader)?),
        Some(descriptor::SASL_CHALLENGE) => {
            SaslFrame::Challenge(read_binary(&mut reader, "sasl-challenge", "challenge")?)
        }
        Some(descriptor::SASL_RESPONSE) => {
            SaslFrame::Response(SaslResponse(read_binary(&mut reader, "sasl-response", "response")?))
        }
        Some(descriptor::SASL_OUTCOME) => SaslFrame::Outcome(read_outcome(&mut reader)?),
        _ => {
            // Not even the descriptor is quoted: a malformed SASL frame may contain a password.
            return Err(DecodeError::new(condition::DECODE_ERROR, "SASL frame: its type is none of 0x40 to 0x44"));
        }
    };
    super::fields::no_payload(&reader, descriptor)?;
    Ok(frame)
}

/// A field that is mandatory and multiple has one value at least (part 1, 1.4).
fn read_mechanisms(reader: &mut Reader<'_>) -> Result<Vec<Symbol>, Fault> {
    let mechanisms = list::symbols(reader)?;
    if mechanisms.is_empty() { Err(Fault::Missing) } else { Ok(mechanisms) }
}

fn read_init(reader: &mut Reader<'_>) -> Result<SaslInit, DecodeError> {
    let mut list = ListReader::open(reader, "sasl-init")?;
    let init = SaslInit {
        mechanism: list.required("mechanism", Reader::symbol)?.into(),
        initial_response: list.binary("initial-response")?,
        hostname: list.string("hostname")?,
    };
    list.finish()?;
    Ok(init)
}

fn read_binary(reader: &mut Reader<'_>, owner: &'static str, field: &'static str) -> Result<Vec<u8>, DecodeError> {
    let mut list = ListReader::open(reader, owner)?;
    let bytes = list.required(field, Reader::binary)?.to_vec();
    list.finish()?;
    Ok(bytes)
}

fn read_outcome(reader: &mut Reader<'_>) -> Result<SaslOutcome, DecodeError> {
    let mut list = ListReader::open(reader, "sasl-outcome")?;
    let outcome =
        SaslOutcome { code: list.required("code", read_code)?, additional_data: list.binary("additional-data")? };
    list.finish()?;
    Ok(outcome)
}

fn read_code(reader: &mut Reader<'_>) -> Result<SaslCode, Fault> {
    match reader.ubyte()? {
        0 => Ok(SaslCode::Ok),
        1 => Ok(SaslCode::Auth),
        2 => Ok(SaslCode::Sys),
        3 => Ok(SaslCode::SysPerm),
        4 => Ok(SaslCode::SysTemp),
        _ => Err(Fault::Range("a sasl-code is 0 (ok), 1 (auth), 2 (sys), 3 (sys-perm) or 4 (sys-temp)")),
    }
}

/// Appends a whole SASL frame.
pub fn encode_sasl(out: &mut Vec<u8>, sasl: &SaslFrame) {
    frame::encode(out, FrameKind::Sasl, 0, |out| match sasl {
        SaslFrame::Mechanisms(mechanisms) => {
            ListWriter::new(out, descriptor::SASL_MECHANISMS).put(mechanisms.as_slice(), put_symbols).finish()
        }
        SaslFrame::Init(init) => ListWriter::new(out, descriptor::SASL_INIT)
            .put(&init.mechanism, put_symbol)
            .maybe(init.initial_response.as_deref(), put_binary)
            .maybe(init.hostname.as_deref(), put_string)
            .finish(),
        SaslFrame::Challenge(challenge) => {
            ListWriter::new(out, descriptor::SASL_CHALLENGE).put(challenge.as_slice(), put_binary).finish();
        }
        SaslFrame::Response(response) => {
            ListWriter::new(out, descriptor::SASL_RESPONSE).put(response.0.as_slice(), put_binary).finish();
        }
        SaslFrame::Outcome(outcome) => ListWriter::new(out, descriptor::SASL_OUTCOME)
            .put(outcome.code as u8, put_ubyte)
            .maybe(outcome.additional_data.as_deref(), put_binary)
            .finish(),
    });
}
