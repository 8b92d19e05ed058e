//! AMQP values as text, for columns and maps that hold text.
//!
//! Strings and symbols as they are, numbers in decimal, booleans `true` and `false`, timestamps in
//! RFC 3339, a uuid in its usual form, binary in base64, decimals as the hexadecimal digits of
//! their bytes, lists and maps as JSON. A nested list or map is encoded in base64, because quotes
//! within quotes would double the size at each level.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use enmasse_amqp::codec::encode_value;
use enmasse_amqp::codec::scan::Scalar;
use enmasse_amqp::types::Value;

use crate::time;

pub(crate) fn display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    // a vector accepts all writes
    let _ = write!(out, "{value}");
}

pub(crate) fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
}

fn hexadecimal(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        display(out, format_args!("{byte:02x}"));
    }
}

fn uuid(out: &mut Vec<u8>, bytes: &[u8]) {
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        display(out, format_args!("{byte:02x}"));
    }
}

fn timestamp(out: &mut Vec<u8>, millis: i64) {
    match millis.checked_mul(1000) {
        Some(micros) => time::write(out, micros),
        None => display(out, millis),
    }
}

/// Appends a scalar; nothing for a null or a compound.
pub(crate) fn scalar(out: &mut Vec<u8>, value: Scalar<'_>) {
    match value {
        Scalar::Null | Scalar::Compound => {}
        Scalar::Bool(value) => display(out, value),
        Scalar::Unsigned(value) => display(out, value),
        Scalar::Signed(value) => display(out, value),
        Scalar::Float(value) => display(out, format_args!("{value:?}")),
        Scalar::Decimal(bytes) => hexadecimal(out, bytes),
        Scalar::Char(value) => display(out, value),
        Scalar::Timestamp(millis) => timestamp(out, millis),
        Scalar::Uuid(bytes) => uuid(out, bytes),
        Scalar::Binary(bytes) => base64(out, bytes),
        Scalar::Text(text) | Scalar::Symbol(text) => out.extend_from_slice(text.as_bytes()),
    }
}

/// Appends text in quotes, as JSON has it.
pub(crate) fn quoted(out: &mut Vec<u8>, text: &str) {
    // a vector accepts all writes, and text is always JSON
    let _ = serde_json::to_writer(out, text);
}

/// Appends any value as JSON; the decoder bounds its depth.
pub(crate) fn json(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => display(out, value),
        Value::Ubyte(value) => display(out, value),
        Value::Ushort(value) => display(out, value),
        Value::Uint(value) => display(out, value),
        Value::Ulong(value) => display(out, value),
        Value::Byte(value) => display(out, value),
        Value::Short(value) => display(out, value),
        Value::Int(value) => display(out, value),
        Value::Long(value) => display(out, value),
        Value::Float(value) => float(out, f64::from(*value)),
        Value::Double(value) => float(out, *value),
        Value::Decimal32(bytes) => in_quotes(out, |out| hexadecimal(out, bytes)),
        Value::Decimal64(bytes) => in_quotes(out, |out| hexadecimal(out, bytes)),
        Value::Decimal128(bytes) => in_quotes(out, |out| hexadecimal(out, bytes)),
        Value::Char(value) => quoted(out, value.encode_utf8(&mut [0; 4])),
        Value::Timestamp(millis) => in_quotes(out, |out| timestamp(out, *millis)),
        Value::Uuid(bytes) => in_quotes(out, |out| uuid(out, bytes)),
        Value::Binary(bytes) => in_quotes(out, |out| base64(out, bytes)),
        Value::String(text) => quoted(out, text),
        Value::Symbol(symbol) => quoted(out, symbol.as_str()),
        Value::List(values) | Value::Array(values) => listed(out, values),
        Value::Map(entries) => mapped(out, entries),
        Value::Described(described) => json(out, &described.1),
    }
}

fn in_quotes(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

/// A float stays a float when it is read again: `0.0`, not `0`. JSON has neither infinities nor
/// NaN.
pub(crate) fn float(out: &mut Vec<u8>, value: f64) {
    let write = |out: &mut Vec<u8>| display(out, format_args!("{value:?}"));
    if value.is_finite() { write(out) } else { in_quotes(out, write) }
}

fn listed(out: &mut Vec<u8>, values: &[Value]) {
    out.push(b'[');
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json(out, value);
    }
    out.push(b']');
}

fn mapped(out: &mut Vec<u8>, entries: &[(Value, Value)]) {
    out.push(b'{');
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let mut name = Vec::new();
        match key {
            Value::String(text) => name.extend_from_slice(text.as_bytes()),
            Value::Symbol(symbol) => name.extend_from_slice(symbol.as_str().as_bytes()),
            Value::List(_) | Value::Array(_) | Value::Map(_) | Value::Described(_) => {
                let mut encoded = Vec::new();
                encode_value(&mut encoded, key);
                base64(&mut name, &encoded);
            }
            other => json(&mut name, other),
        }
        quoted(out, &String::from_utf8_lossy(&name));
        out.push(b':');
        json(out, value);
    }
    out.push(b'}');
}
