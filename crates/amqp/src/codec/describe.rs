//! The protocol trace: one line of text for each frame. Payloads and long values appear as their
//! lengths. SASL secrets never appear.

use std::fmt::{self, Write};

use super::descriptor::{self, Descriptor};
use super::frame::{self, Frame, FrameKind, HEADER_SIZE, Protocol};
use super::sasl::decode_sasl;
use super::value::decode_value;
use crate::types::{SaslFrame, Value};

/// Bytes of text for one frame; the rest is omitted.
const MAX_LINE: usize = 4096;
/// Bytes of a binary value, or characters of a text, that are shown.
const MAX_SHOWN: usize = 64;

/// Describes the frames and protocol headers in `bytes`, a line each; an incomplete or broken frame
/// at the end is one more line. Never fails and never shows an initial response, challenge,
/// response or additional data of SASL.
#[must_use]
pub fn describe(bytes: &[u8]) -> String {
    let mut lines = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (line, consumed) = next(rest);
        lines.push(line);
        rest = &rest[consumed..];
    }
    lines.join("\n")
}

/// The description of the frame at the front of `bytes`, and its bytes.
fn next(bytes: &[u8]) -> (String, usize) {
    if bytes.starts_with(b"AMQP") {
        return match frame::decode_protocol_header(bytes) {
            Ok(Some(Protocol::Amqp)) => ("header AMQP 1.0.0".to_owned(), HEADER_SIZE),
            Ok(Some(Protocol::Tls)) => ("header TLS 1.0.0".to_owned(), HEADER_SIZE),
            Ok(Some(Protocol::Sasl)) => ("header SASL 1.0.0".to_owned(), HEADER_SIZE),
            Ok(None) => (format!("{} bytes of a header", bytes.len()), bytes.len()),
            Err(error) => (error.description, bytes.len()),
        };
    }
    match frame::split(bytes, u32::MAX) {
        Ok(Some((frame, consumed))) => (frame_line(&frame), consumed),
        Ok(None) => (format!("{} bytes of a frame", bytes.len()), bytes.len()),
        Err(error) => (format!("{} ({} bytes)", error.description, bytes.len()), bytes.len()),
    }
}

fn frame_line(frame: &Frame<'_>) -> String {
    let mut line = Line(String::new());
    // The only possible error is a full line.
    let _ = match frame.kind {
        FrameKind::Sasl => sasl(&mut line, frame.body),
        FrameKind::Amqp => amqp(&mut line, frame),
    };
    line.0
}

/// Text of bounded length.
struct Line(String);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_LINE {
            self.0.push_str(" ..");
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Only the fields named here are shown; a frame that cannot be decoded shows nothing of its bytes.
fn sasl(line: &mut Line, body: &[u8]) -> fmt::Result {
    line.write_str("sasl ")?;
    match decode_sasl(body) {
        Ok(SaslFrame::Mechanisms(mechanisms)) => write!(line, "mechanisms {mechanisms:?}"),
        Ok(SaslFrame::Init(init)) => {
            write!(line, "init [mechanism={:?}, initial-response=", init.mechanism)?;
            hidden(line, init.initial_response.as_deref())?;
            match init.hostname {
                Some(hostname) => write!(line, ", hostname={hostname:?}]"),
                None => line.write_str("]"),
            }
        }
        Ok(SaslFrame::Challenge(bytes)) => {
            line.write_str("challenge ")?;
            hidden(line, Some(&bytes))
        }
        Ok(SaslFrame::Response(response)) => {
            line.write_str("response ")?;
            hidden(line, Some(&response.0))
        }
        Ok(SaslFrame::Outcome(outcome)) => {
            write!(line, "outcome [code={:?}, additional-data=", outcome.code)?;
            hidden(line, outcome.additional_data.as_deref())?;
            line.write_str("]")
        }
        Err(error) => write!(line, "undecodable, {} bytes: {}", body.len(), error.description),
    }
}

fn hidden(line: &mut Line, bytes: Option<&[u8]>) -> fmt::Result {
    match bytes {
        Some(bytes) => write!(line, "({} bytes)", bytes.len()),
        None => line.write_str("null"),
    }
}

fn amqp(line: &mut Line, frame: &Frame<'_>) -> fmt::Result {
    write!(line, "ch {} ", frame.channel)?;
    if frame.body.is_empty() {
        return line.write_str("heartbeat");
    }
    match decode_value(frame.body) {
        Ok((performative, payload)) => {
            show(line, &performative)?;
            if payload.is_empty() { Ok(()) } else { write!(line, " payload {} bytes", payload.len()) }
        }
        Err(error) => write!(line, "undecodable, {} bytes: {}", frame.body.len(), error.description),
    }
}

fn show(line: &mut Line, value: &Value) -> fmt::Result {
    match value {
        Value::Null => line.write_str("null"),
        Value::Bool(value) => write!(line, "{value}"),
        Value::Ubyte(value) => write!(line, "{value}"),
        Value::Ushort(value) => write!(line, "{value}"),
        Value::Uint(value) => write!(line, "{value}"),
        Value::Ulong(value) => write!(line, "{value}"),
        Value::Byte(value) => write!(line, "{value}"),
        Value::Short(value) => write!(line, "{value}"),
        Value::Int(value) => write!(line, "{value}"),
        Value::Long(value) => write!(line, "{value}"),
        Value::Float(value) => write!(line, "{value}"),
        Value::Double(value) => write!(line, "{value}"),
        Value::Decimal32(bytes) => hex(line, bytes),
        Value::Decimal64(bytes) => hex(line, bytes),
        Value::Decimal128(bytes) | Value::Uuid(bytes) => hex(line, bytes),
        Value::Char(value) => write!(line, "{value:?}"),
        Value::Timestamp(value) => write!(line, "{value} ms"),
        Value::Binary(bytes) if bytes.len() > MAX_SHOWN => hidden(line, Some(bytes)),
        Value::Binary(bytes) => hex(line, bytes),
        Value::String(text) => show_text(line, "", text),
        Value::Symbol(symbol) => show_text(line, ":", symbol.as_str()),
        Value::List(list) => show_all(line, ('[', ']'), list),
        Value::Array(array) => show_all(line, ('(', ')'), array),
        Value::Map(map) => {
            line.write_str("{")?;
            for (number, (key, value)) in map.iter().enumerate() {
                line.write_str(if number == 0 { "" } else { ", " })?;
                show(line, key)?;
                line.write_str("=")?;
                show(line, value)?;
            }
            line.write_str("}")
        }
        Value::Described(pair) => show_described(line, &pair.0, &pair.1),
    }
}

fn hex(line: &mut Line, bytes: &[u8]) -> fmt::Result {
    line.write_str("0x")?;
    bytes.iter().try_for_each(|byte| write!(line, "{byte:02x}"))
}

fn show_text(line: &mut Line, prefix: &str, text: &str) -> fmt::Result {
    let shown = text.char_indices().nth(MAX_SHOWN).map_or(text, |(end, _)| &text[..end]);
    write!(line, "{prefix}{shown:?}")?;
    if shown.len() < text.len() { write!(line, "..({} bytes)", text.len()) } else { Ok(()) }
}

fn show_all(line: &mut Line, (open, close): (char, char), values: &[Value]) -> fmt::Result {
    line.write_char(open)?;
    for (number, value) in values.iter().enumerate() {
        line.write_str(if number == 0 { "" } else { ", " })?;
        show(line, value)?;
    }
    line.write_char(close)
}

/// A type of the standard with its name and those of its fields; fields that are null are omitted.
fn show_described(line: &mut Line, descriptor: &Value, value: &Value) -> fmt::Result {
    let number = match descriptor {
        Value::Ulong(number) => Some(*number),
        Value::Symbol(symbol) => Descriptor::named(symbol.as_str()).number(),
        _ => None,
    };
    if number.is_some_and(|number| (descriptor::SASL_MECHANISMS..=descriptor::SASL_OUTCOME).contains(&number)) {
        return line.write_str("(a SASL type, not shown)"); // it came in a frame of the wrong kind
    }
    let known = TYPES.iter().find(|(known, ..)| Some(*known) == number);
    let (Some((_, name, fields)), Value::List(list)) = (known, value) else {
        line.write_str("@")?;
        show(line, descriptor)?;
        line.write_str(" ")?;
        return show(line, value);
    };
    write!(line, "{name} [")?;
    let mut separator = "";
    for (number, value) in list.iter().enumerate().filter(|(_, value)| **value != Value::Null) {
        match fields.get(number) {
            Some(field) => write!(line, "{separator}{field}=")?,
            None => write!(line, "{separator}{number}=")?,
        }
        show(line, value)?;
        separator = ", ";
    }
    line.write_str("]")
}

/// Descriptor, name and fields of each composite type that a frame of part 2 can hold.
const TYPES: &[(u64, &str, &[&str])] = &[
    (
        descriptor::OPEN,
        "open",
        &[
            "container-id",
            "hostname",
            "max-frame-size",
            "channel-max",
            "idle-time-out",
            "outgoing-locales",
            "incoming-locales",
            "offered-capabilities",
            "desired-capabilities",
            "properties",
        ],
    ),
    (
        descriptor::BEGIN,
        "begin",
        &[
            "remote-channel",
            "next-outgoing-id",
            "incoming-window",
            "outgoing-window",
            "handle-max",
            "offered-capabilities",
            "desired-capabilities",
            "properties",
        ],
    ),
    (
        descriptor::ATTACH,
        "attach",
        &[
            "name",
            "handle",
            "receiver",
            "snd-settle-mode",
            "rcv-settle-mode",
            "source",
            "target",
            "unsettled",
            "incomplete-unsettled",
            "initial-delivery-count",
            "max-message-size",
            "offered-capabilities",
            "desired-capabilities",
            "properties",
        ],
    ),
    (
        descriptor::FLOW,
        "flow",
        &[
            "next-incoming-id",
            "incoming-window",
            "next-outgoing-id",
            "outgoing-window",
            "handle",
            "delivery-count",
            "link-credit",
            "available",
            "drain",
            "echo",
            "properties",
        ],
    ),
    (
        descriptor::TRANSFER,
        "transfer",
        &[
            "handle",
            "delivery-id",
            "delivery-tag",
            "message-format",
            "settled",
            "more",
            "rcv-settle-mode",
            "state",
            "resume",
            "aborted",
            "batchable",
        ],
    ),
    (descriptor::DISPOSITION, "disposition", &["receiver", "first", "last", "settled", "state", "batchable"]),
    (descriptor::DETACH, "detach", &["handle", "closed", "error"]),
    (descriptor::END, "end", &["error"]),
    (descriptor::CLOSE, "close", &["error"]),
    (descriptor::ERROR, "error", &["condition", "description", "info"]),
    (descriptor::RECEIVED, "received", &["section-number", "section-offset"]),
    (descriptor::ACCEPTED, "accepted", &[]),
    (descriptor::REJECTED, "rejected", &["error"]),
    (descriptor::RELEASED, "released", &[]),
    (descriptor::MODIFIED, "modified", &["delivery-failed", "undeliverable-here", "message-annotations"]),
    (
        descriptor::SOURCE,
        "source",
        &[
            "address",
            "durable",
            "expiry-policy",
            "timeout",
            "dynamic",
            "dynamic-node-properties",
            "distribution-mode",
            "filter",
            "default-outcome",
            "outcomes",
            "capabilities",
        ],
    ),
    (
        descriptor::TARGET,
        "target",
        &["address", "durable", "expiry-policy", "timeout", "dynamic", "dynamic-node-properties", "capabilities"],
    ),
    (descriptor::DELETE_ON_CLOSE, "delete-on-close", &[]),
    (descriptor::DELETE_ON_NO_LINKS, "delete-on-no-links", &[]),
    (descriptor::DELETE_ON_NO_MESSAGES, "delete-on-no-messages", &[]),
    (descriptor::DELETE_ON_NO_LINKS_OR_MESSAGES, "delete-on-no-links-or-messages", &[]),
    (descriptor::COORDINATOR, "coordinator", &["capabilities"]),
    (descriptor::DECLARED, "declared", &["txn-id"]),
    (descriptor::TRANSACTIONAL_STATE, "transactional-state", &["txn-id", "outcome"]),
];
