//! Messages that are stored as rows of a table: the envelope is copied, and bodies are decoded like
//! those of received messages.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

use crate::column::{Column, Type};
use crate::declare::Error;
use crate::envelope::{Body, ENVELOPE, Part, Parts};

/// Rows with all columns of the envelope.
pub struct Replay {
    rows: usize,
    /// in the order of `ENVELOPE`, which is that of `Part`
    columns: Vec<ArrayRef>,
}

impl Replay {
    /// Takes the columns of the envelope; others are skipped.
    ///
    /// # Errors
    /// A column is missing, or its type differs from that of a batch.
    pub fn new(batch: &RecordBatch) -> Result<Self, Error> {
        let column = |(name, part): &(&str, Part)| {
            let found = batch.column_by_name(name);
            let found = found
                .ok_or_else(|| Error(format!("{name}: this column is missing, and whole messages are required")))?;
            if is_of(part.kind(), found.data_type()) {
                return Ok(ArrayRef::clone(found));
            }
            let (kind, has) = (part.kind().name(), found.data_type());
            Err(Error(format!("{name}: it is {has}, and {kind} is required")))
        };
        let columns = ENVELOPE.iter().map(column).collect::<Result<_, _>>()?;
        Ok(Self { rows: batch.num_rows(), columns })
    }

    /// Number of messages.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the body of one message.
    #[must_use]
    pub fn size(&self, row: usize) -> usize {
        self.bytes(Part::Body, row).map_or(0, <[u8]>::len)
    }

    /// The parts of a message that decoding needs.
    pub(crate) fn parts(&self, row: usize) -> Parts<'_> {
        let body = match (self.text(Part::BodyKind, row), self.bytes(Part::Body, row)) {
            (Some(kind), Some(bytes)) => Body::named(kind, bytes),
            _ => Body::None,
        };
        let times = self.columns[Part::EnqueuedTime as usize].as_primitive::<TimestampMicrosecondType>();
        let enqueued_us = times.is_valid(row).then(|| times.value(row));
        let (content_type, content_encoding) =
            (self.text(Part::ContentType, row), self.text(Part::ContentEncoding, row));
        Parts::from_stored(content_type, content_encoding, enqueued_us, body)
    }

    /// Appends one part of a message to its column.
    pub(crate) fn put(&self, part: Part, row: usize, column: &mut Column) {
        column.append(&self.columns[part as usize], row);
    }

    fn text(&self, part: Part, row: usize) -> Option<&str> {
        let column = self.columns[part as usize].as_string::<i32>();
        column.is_valid(row).then(|| column.value(row))
    }

    fn bytes(&self, part: Part, row: usize) -> Option<&[u8]> {
        let column = self.columns[part as usize].as_binary::<i32>();
        column.is_valid(row).then(|| column.value(row))
    }
}

/// Whether an array holds values of a type. The names within a map differ from one library to
/// another.
fn is_of(kind: Type, found: &DataType) -> bool {
    match (kind, found) {
        (Type::Map, DataType::Map(entries, _)) => match entries.data_type() {
            DataType::Struct(fields) => fields.iter().all(|field| *field.data_type() == DataType::Utf8),
            _ => false,
        },
        _ => kind.arrow() == *found,
    }
}
