//! Converts rows to messages, for writers to addresses.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Int64Array, MapArray, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{DataType, TimeUnit};
use enmasse_amqp::codec::decode_value;
use enmasse_amqp::types::{Body, Fields, Header, Message, MessageId, Properties, Symbol, Value};

use crate::declare::Error;

/// The annotation that numbers a producer's messages.
const SEQUENCE: &str = "x-opt-producer-sequence";
/// Placeholder for a number that is not known yet: its encoding has room for any number.
const UNNUMBERED: u64 = u64::MAX;
const DELAY: &str = "x-opt-delivery-delay";
/// Annotations that servers add to a message on delivery: they are not written back.
const STAMPED: [&str; 4] = ["x-stream-offset", "x-opt-partition", "x-opt-enqueued-time", SEQUENCE];
/// Columns of a message that was read that are not written back either.
const IGNORED: [&str; 6] =
    ["space", "partition", "offset", "enqueued_time", "delivery_count", "application_property_types"];
/// The columns that a message is built from, with their possible types.
const KNOWN: [(&str, &str); 22] = [
    ("address", "string"),
    ("body", "string or binary"),
    ("body_kind", "string"),
    ("message_id", "string, binary or an integer"),
    ("correlation_id", "string, binary or an integer"),
    ("subject", "string"),
    ("to", "string"),
    ("reply_to", "string"),
    ("content_type", "string"),
    ("group_id", "string"),
    ("group_sequence", "an integer"),
    ("reply_to_group_id", "string"),
    ("user_id", "string or binary"),
    ("content_encoding", "string"),
    ("creation_time", "timestamp"),
    ("absolute_expiry_time", "timestamp"),
    ("durable", "boolean"),
    ("priority", "an integer"),
    ("ttl", "an integer"),
    ("delay", "an integer"),
    ("application_properties", "map<string, ..> of string, boolean, number, binary or timestamp"),
    ("annotations", "map<string, ..> of string, boolean, number, binary or timestamp"),
];

/// The columns of one record batch, by part of the message.
#[derive(Debug, Default)]
pub struct Outgoing {
    rows: usize,
    address: Option<StringArray>,
    body: Option<Bytes>,
    body_kind: Option<StringArray>,
    message_id: Option<Id>,
    correlation_id: Option<Id>,
    subject: Option<StringArray>,
    to: Option<StringArray>,
    reply_to: Option<StringArray>,
    content_type: Option<StringArray>,
    group_id: Option<StringArray>,
    group_sequence: Option<Int64Array>,
    reply_to_group_id: Option<StringArray>,
    user_id: Option<Bytes>,
    content_encoding: Option<StringArray>,
    creation_time: Option<TimestampMicrosecondArray>,
    absolute_expiry_time: Option<TimestampMicrosecondArray>,
    durable: Option<BooleanArray>,
    priority: Option<Int64Array>,
    ttl: Option<Int64Array>,
    delay: Option<Int64Array>,
    application_properties: Option<MapArray>,
    annotations: Option<MapArray>,
}

#[derive(Debug)]
enum Bytes {
    Text(StringArray),
    Binary(BinaryArray),
}

#[derive(Debug)]
enum Id {
    Text(StringArray),
    Binary(BinaryArray),
    Number(Int64Array),
}

impl Bytes {
    fn of(column: &ArrayRef) -> Option<Self> {
        match column.as_binary_opt::<i32>() {
            Some(binary) => Some(Self::Binary(binary.clone())),
            None => column.as_string_opt::<i32>().cloned().map(Self::Text),
        }
    }

    fn at(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Text(column) => column.is_valid(row).then(|| column.value(row).as_bytes()),
            Self::Binary(column) => column.is_valid(row).then(|| column.value(row)),
        }
    }
}

impl Outgoing {
    /// Finds the parts of messages among the columns of a batch, by their names.
    ///
    /// # Errors
    /// A column that is not part of a message, or has an unsupported type: the sentence names it
    /// and the remedy.
    pub fn new(batch: &RecordBatch) -> Result<Self, Error> {
        let mut found = Self { rows: batch.num_rows(), ..Self::default() };
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            let name = field.name().as_str();
            if IGNORED.contains(&name) {
                continue;
            }
            let Some((_, wanted)) = KNOWN.iter().find(|(known, _)| *known == name) else {
                let names: Vec<_> = KNOWN.iter().map(|(name, _)| *name).collect();
                return Err(Error(format!(
                    "column {name} is not part of a message: use {}, or put it into one of them (body by to_json)",
                    names.join(", ")
                )));
            };
            if found.take(name, column).is_none() {
                return Err(Error(format!("column {name} is {}: it must be {wanted}", column.data_type())));
            }
        }
        Ok(found)
    }

    /// Assigns a column, if its type fits.
    fn take(&mut self, name: &str, column: &ArrayRef) -> Option<()> {
        let text = || column.as_string_opt::<i32>().cloned();
        match name {
            "address" => self.address = Some(text()?),
            "body" => self.body = Some(Bytes::of(column)?),
            "body_kind" => self.body_kind = Some(text()?),
            "message_id" => self.message_id = Some(id(column)?),
            "correlation_id" => self.correlation_id = Some(id(column)?),
            "subject" => self.subject = Some(text()?),
            "to" => self.to = Some(text()?),
            "reply_to" => self.reply_to = Some(text()?),
            "content_type" => self.content_type = Some(text()?),
            "group_id" => self.group_id = Some(text()?),
            "group_sequence" => self.group_sequence = Some(integers(column)?),
            "reply_to_group_id" => self.reply_to_group_id = Some(text()?),
            "user_id" => self.user_id = Some(Bytes::of(column)?),
            "content_encoding" => self.content_encoding = Some(text()?),
            "creation_time" => self.creation_time = Some(column.as_primitive_opt()?.clone()),
            "absolute_expiry_time" => self.absolute_expiry_time = Some(column.as_primitive_opt()?.clone()),
            "durable" => self.durable = Some(column.as_boolean_opt()?.clone()),
            "priority" => self.priority = Some(integers(column)?),
            "ttl" => self.ttl = Some(integers(column)?),
            "delay" => self.delay = Some(integers(column)?),
            "application_properties" => self.application_properties = Some(entries(column)?),
            _ => self.annotations = Some(entries(column)?),
        }
        Some(())
    }

    /// Rows of the batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The address that a row names.
    #[must_use]
    pub fn address(&self, row: usize) -> Option<&str> {
        at(self.address.as_ref(), row)
    }

    /// A row as a message, or the error for values that AMQP cannot represent: a sentence that
    /// names the column. The message lacks that part then. It is durable unless a column states
    /// otherwise; `numbered`: it has room for [`number_message`].
    #[must_use]
    pub fn message(&self, row: usize, numbered: bool) -> (Message, Option<String>) {
        let mut fault = None;
        let mut or_fault = |result: Result<Option<u64>, String>| {
            result.unwrap_or_else(|text| {
                fault.get_or_insert(text);
                None
            })
        };
        let priority = or_fault(number(self.priority.as_ref(), row, "priority", 255));
        let ttl = or_fault(number(self.ttl.as_ref(), row, "ttl", u32::MAX.into()));
        let delay = or_fault(number(self.delay.as_ref(), row, "delay", u32::MAX.into()));
        let group_sequence = or_fault(number(self.group_sequence.as_ref(), row, "group_sequence", u32::MAX.into()));
        let header = Header {
            durable: self.durable.as_ref().filter(|column| column.is_valid(row)).is_none_or(|column| column.value(row)),
            priority: priority.map_or(4, |number| number as u8),
            ttl: ttl.map(|number| number as u32),
            ..Header::default()
        };
        let body = self.body(row).unwrap_or_else(|text| {
            fault.get_or_insert(text);
            Body::Empty
        });
        let message = Message {
            header: Some(header),
            message_annotations: self.annotations(row, numbered, delay),
            properties: self.properties(row, group_sequence.map(|number| number as u32)),
            application_properties: values(self.application_properties.as_ref(), row)
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
            body,
            ..Message::default()
        };
        (message, fault)
    }

    fn annotations(&self, row: usize, numbered: bool, delay: Option<u64>) -> Fields {
        let mut fields = Fields::new();
        if numbered {
            fields.push((Symbol::constant(SEQUENCE), Value::Ulong(UNNUMBERED)));
        }
        if let Some(delay) = delay {
            fields.push((Symbol::constant(DELAY), Value::Ulong(delay)));
        }
        let own = values(self.annotations.as_ref(), row).filter(|(key, _)| !STAMPED.contains(key));
        fields.extend(own.map(|(key, value)| (Symbol::from(key), value)));
        fields
    }

    fn properties(&self, row: usize, group_sequence: Option<u32>) -> Option<Properties> {
        let text = |column: &Option<StringArray>| at(column.as_ref(), row).map(str::to_owned);
        let symbol = |column: &Option<StringArray>| at(column.as_ref(), row).map(Symbol::from);
        let time = |column: &Option<TimestampMicrosecondArray>| {
            let column = column.as_ref().filter(|column| column.is_valid(row))?;
            Some(column.value(row).div_euclid(1000))
        };
        let properties = Properties {
            message_id: self.message_id.as_ref().and_then(|id| id.at(row)),
            user_id: self.user_id.as_ref().and_then(|id| id.at(row)).map(<[u8]>::to_vec),
            to: text(&self.to),
            subject: text(&self.subject),
            reply_to: text(&self.reply_to),
            correlation_id: self.correlation_id.as_ref().and_then(|id| id.at(row)),
            content_type: symbol(&self.content_type),
            content_encoding: symbol(&self.content_encoding),
            absolute_expiry_time: time(&self.absolute_expiry_time),
            creation_time: time(&self.creation_time),
            group_id: text(&self.group_id),
            group_sequence,
            reply_to_group_id: text(&self.reply_to_group_id),
        };
        (properties != Properties::default()).then_some(properties)
    }

    fn body(&self, row: usize) -> Result<Body, String> {
        let Some(bytes) = self.body.as_ref().and_then(|body| body.at(row)) else { return Ok(Body::Empty) };
        match at(self.body_kind.as_ref(), row).unwrap_or("data") {
            "data" => Ok(Body::Data(vec![bytes.to_vec()])),
            "binary" => Ok(Body::Value(Value::Binary(bytes.to_vec()))),
            "string" => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Body::Value(Value::String(text.to_owned()))),
                Err(_) => Err("body: it is not UTF-8, and body_kind is string".to_owned()),
            },
            "value" => match decode_value(bytes) {
                Ok((value, [])) => Ok(Body::Value(value)),
                _ => Err("body: it is not an encoded AMQP value, and body_kind is value".to_owned()),
            },
            "none" => Ok(Body::Empty),
            kind => Err(format!("body_kind: {kind} cannot be sent; use data, string, binary, value or none")),
        }
    }
}

/// Writes the sequence number, which is the first annotation, into a message that was encoded with
/// `numbered`.
pub fn number_message(message: &mut [u8], sequence: u64) {
    let name = SEQUENCE.as_bytes();
    if let Some(at) = message.windows(name.len()).position(|bytes| bytes == name) {
        // behind the constructor of a ulong in eight bytes
        let place = at + name.len() + 1;
        if let Some(bytes) = message.get_mut(place..place + 8) {
            bytes.copy_from_slice(&sequence.to_be_bytes());
        }
    }
}

impl Id {
    fn at(&self, row: usize) -> Option<MessageId> {
        match self {
            Self::Text(column) => at(Some(column), row).map(|text| MessageId::String(text.to_owned())),
            Self::Binary(column) => column.is_valid(row).then(|| MessageId::Binary(column.value(row).to_vec())),
            Self::Number(column) => column.is_valid(row).then(|| MessageId::Ulong(column.value(row).cast_unsigned())),
        }
    }
}

fn at(column: Option<&StringArray>, row: usize) -> Option<&str> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row))
}

fn id(column: &ArrayRef) -> Option<Id> {
    if let Some(text) = column.as_string_opt::<i32>() {
        return Some(Id::Text(text.clone()));
    }
    match column.as_binary_opt::<i32>() {
        Some(binary) => Some(Id::Binary(binary.clone())),
        None => integers(column).map(Id::Number),
    }
}

/// A column of integers, widened.
fn integers(column: &ArrayRef) -> Option<Int64Array> {
    Some(match column.data_type() {
        DataType::Int8 => column.as_primitive::<Int8Type>().unary(i64::from),
        DataType::Int16 => column.as_primitive::<Int16Type>().unary(i64::from),
        DataType::Int32 => column.as_primitive::<Int32Type>().unary(i64::from),
        DataType::Int64 => column.as_primitive::<Int64Type>().clone(),
        _ => return None,
    })
}

fn number(column: Option<&Int64Array>, row: usize, name: &str, most: u64) -> Result<Option<u64>, String> {
    let Some(value) = column.filter(|column| column.is_valid(row)).map(|column| column.value(row)) else {
        return Ok(None);
    };
    match u64::try_from(value) {
        Ok(value) if value <= most => Ok(Some(value)),
        _ => Err(format!("{name}: {value} is not from 0 to {most}")),
    }
}

/// A map from text to values that AMQP can represent.
fn entries(column: &ArrayRef) -> Option<MapArray> {
    let map = column.as_map_opt()?;
    map.keys().as_string_opt::<i32>()?;
    let fits = matches!(
        map.values().data_type(),
        DataType::Utf8
            | DataType::Binary
            | DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Timestamp(TimeUnit::Microsecond, _)
    );
    fits.then(|| map.clone())
}

/// The entries of a row's map; none where the map is null.
fn values(map: Option<&MapArray>, row: usize) -> impl Iterator<Item = (&str, Value)> {
    let map = map.filter(|map| map.is_valid(row));
    let range = map.map_or(0..0, |map| {
        let offsets = map.value_offsets();
        offsets[row] as usize..offsets[row + 1] as usize
    });
    range.filter_map(move |at| {
        let entries: &StructArray = map?.entries();
        Some((entries.column(0).as_string::<i32>().value(at), value(entries.column(1), at)))
    })
}

fn value(column: &ArrayRef, at: usize) -> Value {
    if column.is_null(at) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Boolean => Value::Bool(column.as_boolean().value(at)),
        DataType::Int8 => Value::Byte(column.as_primitive::<Int8Type>().value(at)),
        DataType::Int16 => Value::Short(column.as_primitive::<Int16Type>().value(at)),
        DataType::Int32 => Value::Int(column.as_primitive::<Int32Type>().value(at)),
        DataType::Int64 => Value::Long(column.as_primitive::<Int64Type>().value(at)),
        DataType::Float32 => Value::Float(column.as_primitive::<Float32Type>().value(at)),
        DataType::Float64 => Value::Double(column.as_primitive::<Float64Type>().value(at)),
        DataType::Timestamp(..) => {
            Value::Timestamp(column.as_primitive::<TimestampMicrosecondType>().value(at).div_euclid(1000))
        }
        DataType::Binary => Value::Binary(column.as_binary::<i32>().value(at).to_vec()),
        _ => Value::String(column.as_string::<i32>().value(at).to_owned()),
    }
}
