//! The parts of a message that a store reads and changes: the header and the annotations (3.2.1,
//! 3.2.3). The bare message is read in place and never rewritten, but for its expiry in a dead
//! letter.

use std::ops::Range;

use super::code;
use super::descriptor;
use super::error::{DecodeError, Fault, FieldError};
use super::list::{ListReader, fields};
use super::message::{put_annotations, put_header, read_header};
use super::reader::Reader;
use super::scan::{Broken, sections};
use super::writer::{put_compound, put_descriptor, put_null};
use crate::types::{Fields, Header, condition};

/// Index of absolute-expiry-time in the properties (3.2.4).
const ABSOLUTE_EXPIRY_TIME: usize = 8;
/// Annotation: delivery time of the message, milliseconds since 1970.
const DELIVERY_TIME: &str = "x-opt-delivery-time";
/// Annotation: delay from arrival to delivery, in milliseconds.
const DELIVERY_DELAY: &str = "x-opt-delivery-delay";
/// Annotation: the sequence number that the producer assigned.
const PRODUCER_SEQUENCE: &str = "x-opt-producer-sequence";
/// Annotation: whether the message is to be kept as the retained one of its topic.
const RETAIN_MESSAGE: &str = "x-opt-retain-message";
/// Annotation: the target partition of a stream.
const PARTITION: &str = "x-opt-partition";

/// The parts of a message that a store needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Envelope<'a> {
    /// the header, or its defaults
    pub header: Header,
    /// message-id, encoded with its type: equal ids have equal bytes if their senders encode them
    /// alike
    pub message_id: Option<&'a [u8]>,
    /// the address it was sent to
    pub to: Option<&'a str>,
    /// expiry time, milliseconds since 1970
    pub absolute_expiry_ms: Option<i64>,
    /// the group it belongs to
    pub group_id: Option<&'a str>,
    /// its number in the group
    pub group_sequence: Option<u32>,
    /// earliest delivery time, milliseconds since 1970
    pub delivery_time_ms: Option<i64>,
    /// minimum delay before delivery, in milliseconds
    pub delivery_delay_ms: Option<u64>,
    /// the sequence number that its producer assigned
    pub producer_sequence: Option<u64>,
    /// the target partition
    pub partition: Option<u32>,
    /// whether it is to be kept as the retained message of its topic, encoded
    pub retain: Option<&'a [u8]>,
}

/// Reads the parts of `message`, which is complete, that a store needs.
///
/// # Errors
/// `amqp:decode-error`: the bytes are no sections, or a field that is read has another type.
pub fn envelope(message: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    let mut envelope = Envelope::default();
    for section in sections(message) {
        let section = section.map_err(broken)?;
        let mut value = Reader::new(section.value);
        match section.code {
            descriptor::HEADER => envelope.header = read_header(&mut value)?,
            descriptor::MESSAGE_ANNOTATIONS => read_annotations(&mut value, &mut envelope)?,
            descriptor::PROPERTIES => read_properties(&mut value, &mut envelope)?,
            // Later sections hold nothing for a store; the loop still checks that they are
            // complete.
            _ => {}
        }
    }
    Ok(envelope)
}

fn broken(broken: Broken) -> DecodeError {
    let what = match broken {
        Broken::Cut => "message: it ends within a section",
        Broken::Malformed => "message: it is not made of sections (3.2)",
    };
    DecodeError::new(condition::DECODE_ERROR, what.to_owned())
}

fn read_annotations<'a>(reader: &mut Reader<'a>, envelope: &mut Envelope<'a>) -> Result<(), DecodeError> {
    let faulty = |fault: Fault| fault.on("message-annotations", "");
    if reader.null() {
        return Ok(());
    }
    let (count, mut entries) = reader.map().map_err(faulty)?;
    for _ in 0..count / 2 {
        let key = match entries.peek().map_err(faulty)? {
            code::SYM_8 | code::SYM_32 => entries.symbol().map_err(faulty)?,
            _ => {
                entries.skip().map_err(faulty)?;
                ""
            }
        };
        let encoded = entries.skip().map_err(faulty)?;
        let mut value = Reader::new(encoded);
        let wrong = |fault: Fault, field| fault.on("message-annotations", field);
        match key {
            DELIVERY_TIME => {
                envelope.delivery_time_ms = Some(number(&mut value).map_err(|f| wrong(f, DELIVERY_TIME))?);
            }
            DELIVERY_DELAY => {
                let delay = number(&mut value).map_err(|f| wrong(f, DELIVERY_DELAY))?;
                envelope.delivery_delay_ms = Some(u64::try_from(delay).unwrap_or(0));
            }
            PRODUCER_SEQUENCE => {
                envelope.producer_sequence = Some(value.ulong().map_err(|f| wrong(f, PRODUCER_SEQUENCE))?);
            }
            RETAIN_MESSAGE => envelope.retain = Some(encoded),
            PARTITION => envelope.partition = Some(value.uint().map_err(|f| wrong(f, PARTITION))?),
            _ => {}
        }
    }
    Ok(())
}

/// Milliseconds in any integer type: clients use the one of their language.
fn number(reader: &mut Reader<'_>) -> Result<i64, Fault> {
    match reader.peek()? {
        code::TIMESTAMP => reader.timestamp(),
        code::UINT | code::SMALL_UINT | code::UINT_0 => reader.uint().map(i64::from),
        code::ULONG | code::SMALL_ULONG | code::ULONG_0 => reader.ulong().map(|n| i64::try_from(n).unwrap_or(i64::MAX)),
        code::LONG => reader.take(9).map(|bytes| i64::from_be_bytes(tail(bytes))),
        code::SMALL_LONG | code::SMALL_INT => reader.take(2).map(|bytes| i64::from(bytes[1].cast_signed())),
        code::INT => reader.take(5).map(|bytes| i64::from(i32::from_be_bytes(tail(bytes)))),
        found => Err(Fault::Expected { wanted: "a number of milliseconds", found }),
    }
}

/// The bytes of a fixed-width value after its constructor.
fn tail<const N: usize>(coded: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&coded[1..]);
    bytes
}

fn read_properties<'a>(reader: &mut Reader<'a>, envelope: &mut Envelope<'a>) -> Result<(), DecodeError> {
    let mut list = ListReader::open(reader, "properties")?;
    envelope.message_id = list.optional("message-id", Reader::skip)?;
    list.optional("user-id", Reader::skip)?;
    envelope.to = list.optional("to", Reader::string)?;
    for field in ["subject", "reply-to", "correlation-id", "content-type", "content-encoding"] {
        list.optional(field, Reader::skip)?;
    }
    envelope.absolute_expiry_ms = list.optional("absolute-expiry-time", Reader::timestamp)?;
    list.optional("creation-time", Reader::skip)?;
    envelope.group_id = list.optional("group-id", Reader::string)?;
    envelope.group_sequence = list.optional("group-sequence", Reader::uint)?;
    Ok(())
}

/// The fields that a store changes in a dispatched message.
#[derive(Clone, Debug, Default)]
pub struct Changes<'a> {
    /// deliveries that failed before this one
    pub delivery_count: u32,
    /// its remaining time to live in milliseconds, where the message has a ttl
    pub ttl_ms: Option<u32>,
    /// annotations to add or to replace by name; `None`: no change
    pub annotations: Option<&'a Fields>,
    /// names of annotations to omit
    pub without: &'a [&'a str],
}

/// Appends `message` with another header, and with other message annotations where `changes` has
/// some. Everything from the properties on keeps its bytes. A message that cannot be read is
/// appended as it is.
pub fn put_changed(out: &mut Vec<u8>, message: &[u8], changes: &Changes<'_>) {
    let start = out.len();
    if try_put(out, message, changes).is_none() {
        out.truncate(start);
        out.extend_from_slice(message);
    }
}

fn try_put(out: &mut Vec<u8>, message: &[u8], changes: &Changes<'_>) -> Option<()> {
    let (mut header, mut annotations) = (Header::default(), Fields::new());
    let mut delivery_annotations = 0..0;
    let mut bare = message.len();
    for section in sections(message) {
        let section = section.ok()?;
        match section.code {
            descriptor::HEADER => header = read_header(&mut Reader::new(section.value)).ok()?,
            descriptor::DELIVERY_ANNOTATIONS => delivery_annotations = section.range,
            descriptor::MESSAGE_ANNOTATIONS if changes.annotations.is_some() || !changes.without.is_empty() => {
                annotations = fields(&mut Reader::new(section.value)).ok()?;
            }
            _ => {
                bare = section.range.start;
                break;
            }
        }
    }
    header.delivery_count = changes.delivery_count;
    header.ttl = header.ttl.and(changes.ttl_ms);
    put_header(out, &header);
    out.extend_from_slice(&message[delivery_annotations]);
    for (name, value) in changes.annotations.into_iter().flatten() {
        annotations.retain(|(known, _)| known != name);
        annotations.push((name.clone(), value.clone()));
    }
    annotations.retain(|(name, _)| !changes.without.contains(&name.as_str()));
    put_annotations(out, descriptor::MESSAGE_ANNOTATIONS, &annotations);
    out.extend_from_slice(&message[bare..]);
    Some(())
}

/// Leaves the absolute-expiry-time out of a message. A dead letter does not expire; some clients
/// drop messages whose ttl has passed, and would never see it. A message that cannot be read stays
/// as it is.
pub fn forget_expiry(message: &mut Vec<u8>) {
    if let Some((range, properties)) = without_expiry(message) {
        message.splice(range, properties);
    }
}

fn without_expiry(message: &[u8]) -> Option<(Range<usize>, Vec<u8>)> {
    let section = sections(message).map_while(Result::ok).find(|section| section.code == descriptor::PROPERTIES)?;
    let (count, mut fields) = Reader::new(section.value).list().ok()?;
    if count <= ABSOLUTE_EXPIRY_TIME {
        return None;
    }
    let mut properties = Vec::with_capacity(section.range.len());
    let mut whole = Some(());
    put_descriptor(&mut properties, descriptor::PROPERTIES);
    put_compound(&mut properties, code::LIST_8, |out| {
        for number in 0..count {
            match fields.skip() {
                Ok(_) if number == ABSOLUTE_EXPIRY_TIME => put_null(out),
                Ok(field) => out.extend_from_slice(field),
                Err(_) => whole = None,
            }
        }
        count
    });
    whole.map(|()| (section.range, properties))
}
