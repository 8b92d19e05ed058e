//! The meaning of identifiers: the JMS headers and properties as the AMQP JMS mapping places them
//! (OASIS AMQP Bindings and Mappings, JMS mapping 1.0, 3.2), and the fields of the sections of a
//! message by the names of AMQP Filter Expressions 1.0 (6.4.4.4).

use super::error::{Problem, quote};
use super::value::Value;

/// A value of a message that a selector names.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) place: FieldSource,
    pub(super) form: Form,
    /// its value if the message does not have it
    pub(super) absent: Value<'static>,
}

/// Where the value is in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldSource {
    /// field of 3.2.1, from 0
    Header(u8),
    /// field of 3.2.4, from 0
    Properties(u8),
    /// key of 3.2.5
    Application(Box<str>),
    /// key of 3.2.3
    Annotation(Box<str>),
}

/// The form in which the value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// unchanged
    Plain,
    /// a message id as the text that JMS shows: the prefix `ID:`, and the type of an id that is no
    /// string
    MessageId,
    /// as [`Self::MessageId`], but plain strings stay as they are
    CorrelationId,
    /// a binary as text
    Utf8,
    /// durable as `PERSISTENT` or `NON_PERSISTENT`
    DeliveryMode,
    /// failed deliveries as the number of this attempt
    Attempt,
    /// failed deliveries as whether there were any
    Redelivered,
}

/// Index of the delivery count in the header.
pub(super) const DELIVERY_COUNT: u8 = 4;

const HEADER: [(&str, Value<'static>); 5] = [
    ("durable", Value::Bool(false)),
    ("priority", Value::Int(4)),
    ("ttl", Value::Null),
    ("first_acquirer", Value::Bool(false)),
    ("delivery_count", Value::Int(0)),
];

const PROPERTIES: [&str; 13] = [
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
];

/// The header fields that 3.8.1.1 lets selectors name, and the JMS-defined properties of 3.5.9 that
/// are not kept as application properties.
const JMS: [(&str, FieldSource, Form, Value<'static>); 12] = [
    ("JMSDeliveryMode", FieldSource::Header(0), Form::DeliveryMode, Value::Text("NON_PERSISTENT")),
    ("JMSPriority", FieldSource::Header(1), Form::Plain, Value::Int(4)),
    ("JMSMessageID", FieldSource::Properties(0), Form::MessageId, Value::Null),
    // Not among the headers that may be null: a producer that disables it leaves 0 (3.4.4).
    ("JMSTimestamp", FieldSource::Properties(9), Form::Plain, Value::Int(0)),
    ("JMSCorrelationID", FieldSource::Properties(5), Form::CorrelationId, Value::Null),
    ("JMSType", FieldSource::Properties(3), Form::Plain, Value::Null),
    ("JMSXUserID", FieldSource::Properties(1), Form::Utf8, Value::Null),
    ("JMSXGroupID", FieldSource::Properties(10), Form::Plain, Value::Null),
    ("JMSXGroupSeq", FieldSource::Properties(11), Form::Plain, Value::Null),
    ("JMSXDeliveryCount", FieldSource::Header(DELIVERY_COUNT), Form::Attempt, Value::Int(1)),
    ("JMS_AMQP_TTL", FieldSource::Header(2), Form::Plain, Value::Null),
    ("JMS_AMQP_REPLY_TO_GROUP_ID", FieldSource::Properties(12), Form::Plain, Value::Null),
];

/// An identifier of a JMS selector that begins at byte `at`.
pub(super) fn jms(name: &str, at: usize) -> Result<Field, Problem> {
    if let Some((_, place, form, absent)) = JMS.iter().find(|(known, ..)| *known == name) {
        return Ok(Field { place: place.clone(), form: *form, absent: *absent });
    }
    if let Some(field) = name.strip_prefix("amqp.") {
        return apache(field, at);
    }
    // JMSX names that are not above, and vendors' JMS_ names, are kept as application properties.
    if name.starts_with("JMS") && !name.starts_with("JMSX") && !name.starts_with("JMS_") {
        return Err(Problem::new(
            at,
            format!("selectors cannot name the header '{}'", quote(name)),
            "the headers are JMSDeliveryMode, JMSPriority, JMSMessageID, JMSTimestamp, JMSCorrelationID and JMSType",
        ));
    }
    Ok(application(name))
}

/// `amqp.` and a field of the header or the properties, as the registered definition of
/// `apache.org:selector-filter:string` writes the JMS headers.
fn apache(name: &str, at: usize) -> Result<Field, Problem> {
    match name {
        "delivery_mode" => jms("JMSDeliveryMode", at),
        "redelivered" => Ok(Field {
            place: FieldSource::Header(DELIVERY_COUNT),
            form: Form::Redelivered,
            absent: Value::Bool(false),
        }),
        _ => header(name).or_else(|| properties(name)).ok_or_else(|| unknown_field("amqp", name, at)),
    }
}

/// `section.name` of an SQL filter; `at` is where it begins.
pub(super) fn sql(section: &str, name: &str, at: usize) -> Result<Field, Problem> {
    let known = match section {
        "h" | "header" => header(name),
        "p" | "properties" => properties(name),
        "a" | "application_properties" => Some(application(name)),
        "m" | "message_annotations" => {
            Some(Field { place: FieldSource::Annotation(name.into()), form: Form::Plain, absent: Value::Null })
        }
        "d" | "delivery_annotations" | "f" | "footer" => {
            return Err(Problem::new(
                at,
                format!("filters cannot read the section '{section}'"),
                "the sections are header (h), properties (p), application_properties (a) and message_annotations (m)",
            ));
        }
        _ => {
            return Err(Problem::new(
                at,
                format!("no section is called '{}'", quote(section)),
                "the sections are header (h), properties (p), application_properties (a) and message_annotations (m); \
                 write an application property with a point in its name like [a.b]",
            ));
        }
    };
    known.ok_or_else(|| unknown_field(section, name, at))
}

/// The application property called `name`.
pub(super) fn application(name: &str) -> Field {
    Field { place: FieldSource::Application(name.into()), form: Form::Plain, absent: Value::Null }
}

fn header(name: &str) -> Option<Field> {
    let index = HEADER.iter().position(|(known, _)| *known == name)?;
    Some(Field { place: FieldSource::Header(index as u8), form: Form::Plain, absent: HEADER[index].1 })
}

fn properties(name: &str) -> Option<Field> {
    let index = PROPERTIES.iter().position(|known| *known == name)?;
    Some(Field { place: FieldSource::Properties(index as u8), form: Form::Plain, absent: Value::Null })
}

#[cold]
fn unknown_field(section: &str, name: &str, at: usize) -> Problem {
    let header: Vec<_> = HEADER.iter().map(|(name, _)| *name).collect();
    let fields = match section {
        "h" | "header" => header.join(", "),
        "p" | "properties" => PROPERTIES.join(", "),
        _ => format!("{}, {}", header.join(", "), PROPERTIES.join(", ")),
    };
    Problem::new(at, format!("{section} has no field '{}'", quote(name)), format!("its fields are {fields}"))
}
