//! The columns that every message has, for any body.

use enmasse_amqp::codec::decode_value;
use enmasse_amqp::codec::scan::{Broken, Elements, Scalar, scalar, sections, type_of};

use crate::column::{Column, Type};
use crate::text;

/// The origin of messages, where they do not contain it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    /// the address space
    pub space: Option<&'a str>,
    /// the address that is read
    pub address: &'a str,
    /// for messages without the annotation `x-opt-partition`
    pub partition: Option<u32>,
    /// offset of a message that was stored elsewhere; then this offset and `partition` replace its
    /// annotations
    pub offset: Option<u64>,
    /// the time of messages without a time of their own: milliseconds since 1970
    pub taken_ms: Option<i64>,
}

/// A part of a message that is a column, in the order of `ENVELOPE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Space,
    Address,
    Partition,
    Offset,
    EnqueuedTime,
    MessageId,
    CorrelationId,
    Subject,
    To,
    ReplyTo,
    ContentType,
    GroupId,
    Durable,
    Priority,
    Ttl,
    DeliveryCount,
    ApplicationProperties,
    Annotations,
    Body,
    BodyKind,
    UserId,
    ContentEncoding,
    CreationTime,
    AbsoluteExpiryTime,
    GroupSequence,
    ReplyToGroupId,
    ApplicationPropertyTypes,
}

/// All parts with their column names, in the order of a table.
pub(crate) const ENVELOPE: [(&str, Part); 27] = [
    ("space", Part::Space),
    ("address", Part::Address),
    ("partition", Part::Partition),
    ("offset", Part::Offset),
    ("enqueued_time", Part::EnqueuedTime),
    ("message_id", Part::MessageId),
    ("correlation_id", Part::CorrelationId),
    ("subject", Part::Subject),
    ("to", Part::To),
    ("reply_to", Part::ReplyTo),
    ("content_type", Part::ContentType),
    ("group_id", Part::GroupId),
    ("durable", Part::Durable),
    ("priority", Part::Priority),
    ("ttl", Part::Ttl),
    ("delivery_count", Part::DeliveryCount),
    ("application_properties", Part::ApplicationProperties),
    ("annotations", Part::Annotations),
    ("body", Part::Body),
    ("body_kind", Part::BodyKind),
    ("user_id", Part::UserId),
    ("content_encoding", Part::ContentEncoding),
    ("creation_time", Part::CreationTime),
    ("absolute_expiry_time", Part::AbsoluteExpiryTime),
    ("group_sequence", Part::GroupSequence),
    ("reply_to_group_id", Part::ReplyToGroupId),
    ("application_property_types", Part::ApplicationPropertyTypes),
];

impl Part {
    pub(crate) fn kind(self) -> Type {
        match self {
            Self::Partition | Self::Priority => Type::Int,
            Self::Offset | Self::Ttl | Self::DeliveryCount | Self::GroupSequence => Type::Long,
            Self::EnqueuedTime | Self::CreationTime | Self::AbsoluteExpiryTime => Type::Timestamp,
            Self::Durable => Type::Boolean,
            Self::ApplicationProperties | Self::Annotations | Self::ApplicationPropertyTypes => Type::Map,
            Self::Body | Self::UserId => Type::Binary,
            _ => Type::Text,
        }
    }
}

/// The body of a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Body<'a> {
    /// data sections, one or many
    Data(&'a [u8], Vec<&'a [u8]>),
    /// an amqp-value of type string
    Text(&'a str),
    /// an amqp-value of type binary
    Binary(&'a [u8]),
    /// an amqp-value of another type, encoded
    Value(&'a [u8]),
    /// amqp-sequence sections, one or many, each encoded: a list after the other
    Sequence(&'a [u8], Vec<&'a [u8]>),
    #[default]
    None,
    /// the bytes are not a message
    Malformed(&'a [u8]),
}

impl Body<'_> {
    /// Its bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Data(first, more) | Self::Sequence(first, more) => {
                first.len() + more.iter().map(|part| part.len()).sum::<usize>()
            }
            Self::Text(text) => text.len(),
            Self::Binary(bytes) | Self::Value(bytes) | Self::Malformed(bytes) => bytes.len(),
            Self::None => 0,
        }
    }
}

impl<'a> Body<'a> {
    /// The body from its stored kind and bytes.
    pub(crate) fn named(kind: &str, bytes: &'a [u8]) -> Self {
        match kind {
            "data" => Self::Data(bytes, Vec::new()),
            "string" => str::from_utf8(bytes).map_or(Self::Malformed(bytes), Self::Text),
            "binary" => Self::Binary(bytes),
            "value" => Self::Value(bytes),
            "sequence" => Self::Sequence(bytes, Vec::new()),
            "none" => Self::None,
            _ => Self::Malformed(bytes),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Data(..) => "data",
            Self::Text(_) => "string",
            Self::Binary(_) => "binary",
            Self::Value(_) => "value",
            Self::Sequence(..) => "sequence",
            Self::None => "none",
            Self::Malformed(_) => "malformed",
        }
    }
}

/// The parts of a message, borrowed from its encoding.
#[derive(Default)]
pub(crate) struct Parts<'a> {
    durable: bool,
    priority: Option<u64>,
    ttl: Option<u64>,
    delivery_count: u64,
    annotations: Option<&'a [u8]>,
    application_properties: Option<&'a [u8]>,
    message_id: Option<Scalar<'a>>,
    to: Option<&'a str>,
    subject: Option<&'a str>,
    reply_to: Option<&'a str>,
    correlation_id: Option<Scalar<'a>>,
    user_id: Option<&'a [u8]>,
    pub(crate) content_type: Option<&'a str>,
    pub(crate) content_encoding: Option<&'a str>,
    absolute_expiry_time_ms: Option<i64>,
    creation_time_ms: Option<i64>,
    group_id: Option<&'a str>,
    group_sequence: Option<u64>,
    reply_to_group_id: Option<&'a str>,
    offset: Option<u64>,
    partition: Option<u64>,
    pub(crate) enqueued_time_ms: Option<i64>,
    pub(crate) body: Body<'a>,
}

impl<'a> Parts<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self::read(message).unwrap_or_else(|_| Self { body: Body::Malformed(message), ..Self::default() })
    }

    /// The stored parts of a message that decoding needs.
    pub(crate) fn from_stored(
        content_type: Option<&'a str>,
        content_encoding: Option<&'a str>,
        enqueued_us: Option<i64>,
        body: Body<'a>,
    ) -> Self {
        let enqueued_time_ms = enqueued_us.map(|micros| micros / 1000);
        Self { content_type, content_encoding, enqueued_time_ms, body, ..Self::default() }
    }

    fn read(message: &'a [u8]) -> Result<Self, Broken> {
        let mut parts = Self::default();
        for section in sections(message) {
            let section = section?;
            match section.code {
                0x70 => parts.header(section.value)?,
                0x72 => {
                    parts.annotations = Some(section.value);
                    parts.position_annotations(section.value)?;
                }
                0x73 => parts.properties(section.value)?,
                0x74 => {
                    Elements::of_map(section.value)?;
                    parts.application_properties = Some(section.value);
                }
                0x75 => parts.data(section.value)?,
                0x76 => match &mut parts.body {
                    Body::Sequence(_, more) => more.push(section.value),
                    body => *body = Body::Sequence(section.value, Vec::new()),
                },
                0x77 => parts.value(section.value)?,
                _ => {}
            }
        }
        Ok(parts)
    }

    fn header(&mut self, value: &[u8]) -> Result<(), Broken> {
        let mut fields = Elements::of_list(value)?;
        let mut next = || if fields.left() > 0 { fields.scalar() } else { Ok(Scalar::Null) };
        self.durable = next()? == Scalar::Bool(true);
        self.priority = unsigned(next()?);
        self.ttl = unsigned(next()?);
        next()?;
        self.delivery_count = unsigned(next()?).unwrap_or(0);
        Ok(())
    }

    /// The server's annotations of a message's position.
    fn position_annotations(&mut self, value: &[u8]) -> Result<(), Broken> {
        let mut entries = Elements::of_map(value)?;
        while entries.left() > 1 {
            let mut after = entries.clone();
            let known = after.key();
            match known {
                Ok(_) => entries = after,
                // a key of another type
                Err(_) => entries.skip()?,
            }
            match known {
                Ok(b"x-stream-offset") => self.offset = unsigned(entries.scalar()?),
                Ok(b"x-opt-partition") => self.partition = unsigned(entries.scalar()?),
                Ok(b"x-opt-enqueued-time") => self.enqueued_time_ms = timestamp(entries.scalar()?),
                _ => entries.skip()?,
            }
        }
        Ok(())
    }

    /// 3.2.4.
    fn properties(&mut self, value: &'a [u8]) -> Result<(), Broken> {
        let mut fields = Elements::of_list(value)?;
        let mut next = || if fields.left() > 0 { fields.scalar() } else { Ok(Scalar::Null) };
        self.message_id = some(next()?);
        self.user_id = match next()? {
            Scalar::Binary(bytes) => Some(bytes),
            _ => None,
        };
        self.to = words(next()?);
        self.subject = words(next()?);
        self.reply_to = words(next()?);
        self.correlation_id = some(next()?);
        self.content_type = words(next()?);
        self.content_encoding = words(next()?);
        self.absolute_expiry_time_ms = timestamp(next()?);
        self.creation_time_ms = timestamp(next()?);
        self.group_id = words(next()?);
        self.group_sequence = unsigned(next()?);
        self.reply_to_group_id = words(next()?);
        Ok(())
    }

    fn data(&mut self, value: &'a [u8]) -> Result<(), Broken> {
        let Scalar::Binary(bytes) = scalar(value)? else { return Err(Broken::Malformed) };
        match &mut self.body {
            Body::Data(_, more) => more.push(bytes),
            body => *body = Body::Data(bytes, Vec::new()),
        }
        Ok(())
    }

    fn value(&mut self, value: &'a [u8]) -> Result<(), Broken> {
        self.body = match scalar(value)? {
            Scalar::Text(text) => Body::Text(text),
            Scalar::Binary(bytes) => Body::Binary(bytes),
            _ => Body::Value(value),
        };
        Ok(())
    }

    pub(crate) fn is_malformed(&self) -> bool {
        matches!(self.body, Body::Malformed(_))
    }

    /// The time when the server received it, else its creation time: microseconds since 1970.
    pub(crate) fn time(&self) -> Option<i64> {
        self.enqueued_time_ms.or(self.creation_time_ms)?.checked_mul(1000)
    }

    /// Appends one part to its column.
    pub(crate) fn put(&self, part: Part, origin: &Origin<'_>, column: &mut Column) {
        match part {
            Part::Space => put_text(column, origin.space),
            Part::Address => put_text(column, Some(origin.address)),
            Part::Partition => {
                let said = self.partition.filter(|_| origin.offset.is_none());
                put_number(column, said.or(origin.partition.map(u64::from)));
            }
            Part::Offset => put_number(column, origin.offset.or(self.offset)),
            Part::EnqueuedTime => put_time(column, self.enqueued_time_ms),
            Part::MessageId => put_scalar(column, self.message_id),
            Part::CorrelationId => put_scalar(column, self.correlation_id),
            Part::Subject => put_text(column, self.subject),
            Part::To => put_text(column, self.to),
            Part::ReplyTo => put_text(column, self.reply_to),
            Part::ContentType => put_text(column, self.content_type),
            Part::GroupId => put_text(column, self.group_id),
            Part::Durable => column.boolean(self.durable),
            Part::Priority => put_number(column, Some(self.priority.unwrap_or(4))),
            Part::Ttl => put_number(column, self.ttl),
            Part::DeliveryCount => put_number(column, Some(self.delivery_count)),
            Part::ApplicationProperties => put_map(column, self.application_properties),
            Part::Annotations => put_annotations(column, self.annotations, origin),
            Part::Body => self.put_body(column),
            Part::BodyKind => column.text(self.body.name()),
            Part::UserId => match self.user_id {
                Some(bytes) => column.bytes(bytes),
                None => column.null(),
            },
            Part::ContentEncoding => put_text(column, self.content_encoding),
            Part::CreationTime => put_time(column, self.creation_time_ms),
            Part::AbsoluteExpiryTime => put_time(column, self.absolute_expiry_time_ms),
            Part::GroupSequence => put_number(column, self.group_sequence),
            Part::ReplyToGroupId => put_text(column, self.reply_to_group_id),
            Part::ApplicationPropertyTypes => put_types(column, self.application_properties),
        }
    }

    fn put_body(&self, column: &mut Column) {
        match &self.body {
            Body::Data(bytes, more) | Body::Sequence(bytes, more) => column.write(|out| {
                out.extend_from_slice(bytes);
                more.iter().for_each(|bytes| out.extend_from_slice(bytes));
            }),
            Body::Text(text) => column.text(text),
            Body::Binary(bytes) | Body::Value(bytes) | Body::Malformed(bytes) => column.bytes(bytes),
            Body::None => column.null(),
        }
    }
}

fn some(value: Scalar<'_>) -> Option<Scalar<'_>> {
    (value != Scalar::Null).then_some(value)
}

fn words(value: Scalar<'_>) -> Option<&str> {
    match value {
        Scalar::Text(text) | Scalar::Symbol(text) => Some(text),
        _ => None,
    }
}

fn unsigned(value: Scalar<'_>) -> Option<u64> {
    match value {
        Scalar::Unsigned(number) => Some(number),
        Scalar::Signed(number) => number.try_into().ok(),
        _ => None,
    }
}

fn timestamp(value: Scalar<'_>) -> Option<i64> {
    match value {
        Scalar::Timestamp(millis) | Scalar::Signed(millis) => Some(millis),
        _ => None,
    }
}

fn put_text(column: &mut Column, value: Option<&str>) {
    match value {
        Some(text) => column.text(text),
        None => column.null(),
    }
}

fn put_time(column: &mut Column, millis: Option<i64>) {
    match millis.and_then(|millis| millis.checked_mul(1000)) {
        Some(micros) => column.integer_or_null(micros),
        None => column.null(),
    }
}

fn put_scalar(column: &mut Column, value: Option<Scalar<'_>>) {
    match value {
        Some(value) => column.write(|out| text::scalar(out, value)),
        None => column.null(),
    }
}

/// Numbers of the envelope are below 2^32, except for offsets, which stay below 2^63.
fn put_number(column: &mut Column, value: Option<u64>) {
    match value.and_then(|number| i64::try_from(number).ok()) {
        Some(number) => column.integer_or_null(number),
        None => column.null(),
    }
}

fn put_map(column: &mut Column, encoded: Option<&[u8]>) {
    put_entries(column, encoded, |_, _| true, put_text_of);
}

/// Annotations apart from those that are columns of their own, which each message of a stream has;
/// null if there are no others.
fn put_annotations(column: &mut Column, encoded: Option<&[u8]>, origin: &Origin<'_>) {
    // where the origin has an offset, the annotations are of another stream
    let is_of_origin = origin.offset.is_none();
    let is_other = |key: &[u8], value: &[u8]| {
        let Ok(value) = scalar(value) else { return true };
        match scalar(key).ok().and_then(words) {
            Some("x-stream-offset" | "x-opt-partition") => !is_of_origin || unsigned(value).is_none(),
            Some("x-opt-enqueued-time") => timestamp(value).is_none(),
            _ => true,
        }
    };
    let has_others =
        |map: &[u8]| Elements::of_map(map).is_ok_and(|map| pairs(map).any(|(key, value)| is_other(key, value)));
    put_entries(column, encoded.filter(|map| has_others(map)), is_other, put_text_of);
}

fn put_text_of(column: &mut Column, value: &[u8]) {
    match scalar(value) {
        Ok(Scalar::Null) => column.null(),
        _ => column.write(|out| put_any(out, value)),
    }
}

/// The AMQP type of each application property, because its value is text in `put_map`.
fn put_types(column: &mut Column, encoded: Option<&[u8]>) {
    put_entries(column, encoded, |_, _| true, |types, value| types.text(type_of(value)));
}

/// Appends the entries of an encoded map that are wanted.
fn put_entries(
    column: &mut Column,
    encoded: Option<&[u8]>,
    is_wanted: impl Fn(&[u8], &[u8]) -> bool,
    put: impl Fn(&mut Column, &[u8]),
) {
    let Some(Ok(entries)) = encoded.map(Elements::of_map) else { return column.null() };
    column.map(|keys, values| {
        for (key, value) in pairs(entries).filter(|(key, value)| is_wanted(key, value)) {
            keys.write(|out| put_any(out, key));
            put(values, value);
        }
    });
}

/// The encoded entries of a map up to an unreadable one.
fn pairs(mut entries: Elements<'_>) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || match entries.left() {
        0 | 1 => None,
        _ => entries.encoded().ok().zip(entries.encoded().ok()),
    })
}

fn put_any(out: &mut Vec<u8>, encoded: &[u8]) {
    match scalar(encoded) {
        Ok(Scalar::Compound) => {
            if let Ok((value, _)) = decode_value(encoded) {
                text::json(out, &value);
            }
        }
        Ok(value) => text::scalar(out, value),
        Err(_) => {}
    }
}
