//! Whole messages (part 3, 3.2): for clients and for messages of the node itself. A router never
//! decodes a message; `scan` reads what it needs in place.

use super::MAX_DEPTH;
use super::code;
use super::descriptor::{self, Descriptor};
use super::error::{DecodeError, Fault, FieldError};
use super::list::ListWriter;
use super::list::put_fields;
use super::list::{ListReader, fields};
use super::reader::Reader;
use super::value::{list, put_list, put_value, value};
use super::writer::{
    put_binary, put_compound, put_descriptor, put_fixed, put_string, put_symbol, put_timestamp, put_ubyte, put_uint,
    put_ulong,
};
use crate::types::{Body, Fields, Header, Message, MessageId, Properties, Value, condition};

/// Decodes all of `bytes` as one message.
///
/// # Errors
/// `amqp:decode-error` for malformed bytes, fields of the wrong type, annotations with ulong keys
/// (reserved by 3.2.10) and sections out of order (3.2); `amqp:not-implemented` for a section that
/// is not of the standard.
pub fn decode_message(bytes: &[u8]) -> Result<Message, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut message = Message::default();
    let mut last = None;
    while !reader.is_empty() {
        let descriptor = reader.descriptor().map_err(|fault| fault.on("message", "section"))?;
        check_order(last, descriptor)?;
        read_section(&mut reader, descriptor, &mut message)?;
        last = Some(descriptor);
    }
    Ok(message)
}

/// Sections come in the order of their numbers. The three kinds of body share one position, where
/// data and sequence sections may repeat.
fn check_order(last: Option<Descriptor<'_>>, next: Descriptor<'_>) -> Result<(), DecodeError> {
    let (Some(last), Some(number)) = (last, next.number()) else { return Ok(()) };
    let place = |number| if number == descriptor::FOOTER { 2 } else { u64::from(number >= descriptor::DATA) };
    let repeats = matches!(number, descriptor::DATA | descriptor::AMQP_SEQUENCE) && last == next;
    let before = last.number().is_some_and(|last| match place(number) {
        0 => last < number,
        later => place(last) < later,
    });
    if before || repeats {
        return Ok(());
    }
    Err(DecodeError::new(condition::DECODE_ERROR, format!("message: the section {next} cannot come after {last}")))
}

fn read_section(reader: &mut Reader<'_>, descriptor: Descriptor<'_>, message: &mut Message) -> Result<(), DecodeError> {
    match descriptor.number() {
        Some(descriptor::HEADER) => message.header = Some(read_header(reader)?),
        Some(descriptor::DELIVERY_ANNOTATIONS) => {
            message.delivery_annotations = read_annotations(reader, "delivery-annotations")?;
        }
        Some(descriptor::MESSAGE_ANNOTATIONS) => {
            message.message_annotations = read_annotations(reader, "message-annotations")?;
        }
        Some(descriptor::PROPERTIES) => message.properties = Some(read_properties(reader)?),
        Some(descriptor::APPLICATION_PROPERTIES) => {
            let properties = read_application_properties(reader);
            message.application_properties = properties.map_err(|fault| fault.on("application-properties", ""))?;
        }
        Some(descriptor::DATA) => {
            let data = reader.binary().map_err(|fault| fault.on("data", ""))?.to_vec();
            match &mut message.body {
                Body::Data(sections) => sections.push(data),
                body => *body = Body::Data(vec![data]),
            }
        }
        Some(descriptor::AMQP_SEQUENCE) => {
            let sequence = read_sequence(reader).map_err(|fault| fault.on("amqp-sequence", ""))?;
            match &mut message.body {
                Body::Sequence(sections) => sections.push(sequence),
                body => *body = Body::Sequence(vec![sequence]),
            }
        }
        Some(descriptor::AMQP_VALUE) => {
            message.body = Body::Value(value(reader, MAX_DEPTH).map_err(|fault| fault.on("amqp-value", ""))?);
        }
        Some(descriptor::FOOTER) => message.footer = read_annotations(reader, "footer")?,
        _ => return Err(descriptor.unknown("message.section")),
    }
    Ok(())
}

pub(super) fn read_header(reader: &mut Reader<'_>) -> Result<Header, DecodeError> {
    let default = Header::default();
    let mut list = ListReader::open(reader, "header")?;
    let header = Header {
        durable: list.flag("durable")?,
        priority: list.optional("priority", Reader::ubyte)?.unwrap_or(default.priority),
        ttl: list.optional("ttl", Reader::uint)?,
        first_acquirer: list.flag("first-acquirer")?,
        delivery_count: list.optional("delivery-count", Reader::uint)?.unwrap_or(default.delivery_count),
    };
    list.finish()?;
    Ok(header)
}

fn read_annotations(reader: &mut Reader<'_>, section: &'static str) -> Result<Fields, DecodeError> {
    fields(reader).map_err(|fault| fault.on(section, ""))
}

fn read_properties(reader: &mut Reader<'_>) -> Result<Properties, DecodeError> {
    let mut list = ListReader::open(reader, "properties")?;
    let properties = Properties {
        message_id: list.optional("message-id", read_message_id)?,
        user_id: list.binary("user-id")?,
        to: list.string("to")?,
        subject: list.string("subject")?,
        reply_to: list.string("reply-to")?,
        correlation_id: list.optional("correlation-id", read_message_id)?,
        content_type: list.symbol("content-type")?,
        content_encoding: list.symbol("content-encoding")?,
        absolute_expiry_time: list.optional("absolute-expiry-time", Reader::timestamp)?,
        creation_time: list.optional("creation-time", Reader::timestamp)?,
        group_id: list.string("group-id")?,
        group_sequence: list.optional("group-sequence", Reader::uint)?,
        reply_to_group_id: list.string("reply-to-group-id")?,
    };
    list.finish()?;
    Ok(properties)
}

fn read_message_id(reader: &mut Reader<'_>) -> Result<MessageId, Fault> {
    match reader.peek()? {
        code::ULONG_0 | code::SMALL_ULONG | code::ULONG => reader.ulong().map(MessageId::Ulong),
        code::UUID => reader.uuid().map(MessageId::Uuid),
        code::BINARY_8 | code::BINARY_32 => Ok(MessageId::Binary(reader.binary()?.to_vec())),
        code::STRING_8 | code::STRING_32 => Ok(MessageId::String(reader.string()?.to_owned())),
        found => Err(Fault::Expected { wanted: "a message id (ulong, uuid, binary or string)", found }),
    }
}

fn read_application_properties(reader: &mut Reader<'_>) -> Result<Vec<(String, Value)>, Fault> {
    let (count, mut entries) = reader.map()?;
    let mut properties = Vec::new();
    for _ in 0..count / 2 {
        let key = entries.string()?.to_owned();
        properties.push((key, value(&mut entries, MAX_DEPTH - 1)?));
    }
    if entries.is_empty() { Ok(properties) } else { Err(Fault::Leftover) }
}

fn read_sequence(reader: &mut Reader<'_>) -> Result<Vec<Value>, Fault> {
    let (count, mut elements) = reader.list()?;
    let sequence = list(&mut elements, count, MAX_DEPTH - 1)?;
    if elements.is_empty() { Ok(sequence) } else { Err(Fault::Leftover) }
}

/// Appends a message. Sections that hold nothing are omitted.
pub fn encode_message(out: &mut Vec<u8>, message: &Message) {
    if let Some(header) = &message.header {
        put_header(out, header);
    }
    put_annotations(out, descriptor::DELIVERY_ANNOTATIONS, &message.delivery_annotations);
    put_annotations(out, descriptor::MESSAGE_ANNOTATIONS, &message.message_annotations);
    if let Some(properties) = &message.properties {
        put_properties(out, properties);
    }
    if !message.application_properties.is_empty() {
        put_descriptor(out, descriptor::APPLICATION_PROPERTIES);
        put_compound(out, code::MAP_8, |out| {
            for (key, value) in &message.application_properties {
                put_string(out, key);
                put_value(out, value);
            }
            message.application_properties.len() * 2
        });
    }
    put_body(out, &message.body);
    put_annotations(out, descriptor::FOOTER, &message.footer);
}

pub(super) fn put_annotations(out: &mut Vec<u8>, descriptor: u64, annotations: &Fields) {
    if !annotations.is_empty() {
        put_descriptor(out, descriptor);
        put_fields(out, annotations);
    }
}

pub(super) fn put_header(out: &mut Vec<u8>, header: &Header) {
    let default = Header::default();
    ListWriter::new(out, descriptor::HEADER)
        .flag(header.durable)
        .maybe((header.priority != default.priority).then_some(header.priority), put_ubyte)
        .maybe(header.ttl, put_uint)
        .flag(header.first_acquirer)
        .maybe((header.delivery_count != default.delivery_count).then_some(header.delivery_count), put_uint)
        .finish();
}

fn put_properties(out: &mut Vec<u8>, properties: &Properties) {
    ListWriter::new(out, descriptor::PROPERTIES)
        .maybe(properties.message_id.as_ref(), put_message_id)
        .maybe(properties.user_id.as_deref(), put_binary)
        .maybe(properties.to.as_deref(), put_string)
        .maybe(properties.subject.as_deref(), put_string)
        .maybe(properties.reply_to.as_deref(), put_string)
        .maybe(properties.correlation_id.as_ref(), put_message_id)
        .maybe(properties.content_type.as_ref(), put_symbol)
        .maybe(properties.content_encoding.as_ref(), put_symbol)
        .maybe(properties.absolute_expiry_time, put_timestamp)
        .maybe(properties.creation_time, put_timestamp)
        .maybe(properties.group_id.as_deref(), put_string)
        .maybe(properties.group_sequence, put_uint)
        .maybe(properties.reply_to_group_id.as_deref(), put_string)
        .finish();
}

fn put_message_id(out: &mut Vec<u8>, id: &MessageId) {
    match id {
        MessageId::Ulong(number) => put_ulong(out, *number),
        MessageId::Uuid(bytes) => put_fixed(out, code::UUID, *bytes),
        MessageId::Binary(bytes) => put_binary(out, bytes),
        MessageId::String(text) => put_string(out, text),
    }
}

fn put_body(out: &mut Vec<u8>, body: &Body) {
    match body {
        Body::Data(sections) => {
            for data in sections {
                put_descriptor(out, descriptor::DATA);
                put_binary(out, data);
            }
        }
        Body::Sequence(sections) => {
            for sequence in sections {
                put_descriptor(out, descriptor::AMQP_SEQUENCE);
                put_list(out, sequence);
            }
        }
        Body::Value(value) => {
            put_descriptor(out, descriptor::AMQP_VALUE);
            put_value(out, value);
        }
        Body::Empty => {}
    }
}
