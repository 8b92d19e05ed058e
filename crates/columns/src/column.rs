//! The values of one column while a batch grows. Unlike Arrow's builders it can take back its last
//! rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, MapArray, PrimitiveArray, StringArray, StructArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields, TimeUnit};

/// The type of a column: the types of Spark that a field of a message can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// true or false
    Boolean,
    /// 8 bits, signed
    Byte,
    /// 16 bits, signed
    Short,
    /// 32 bits, signed
    Int,
    /// 64 bits, signed
    Long,
    /// 32 bits
    Float,
    /// 64 bits
    Double,
    /// UTF-8
    Text,
    /// bytes
    Binary,
    /// days since 1970
    Date,
    /// microseconds since 1970, UTC
    Timestamp,
    /// text to text
    Map,
}

impl Type {
    /// Every type with its name in SQL.
    pub(crate) const ALL: [(Self, &str); 12] = [
        (Self::Boolean, "boolean"),
        (Self::Byte, "tinyint"),
        (Self::Short, "smallint"),
        (Self::Int, "int"),
        (Self::Long, "bigint"),
        (Self::Float, "float"),
        (Self::Double, "double"),
        (Self::Text, "string"),
        (Self::Binary, "binary"),
        (Self::Date, "date"),
        (Self::Timestamp, "timestamp"),
        (Self::Map, "map<string,string>"),
    ];

    /// Its name in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    /// The Arrow type that Spark expects.
    #[must_use]
    pub fn arrow(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Byte => DataType::Int8,
            Self::Short => DataType::Int16,
            Self::Int => DataType::Int32,
            Self::Long => DataType::Int64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Binary => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Map => DataType::Map(entries_field(), false),
        }
    }
}

fn entry_fields() -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)])
}

fn entries_field() -> Arc<Field> {
    Arc::new(Field::new("entries", DataType::Struct(entry_fields()), false))
}

/// Values with placeholders for nulls.
enum Values {
    Boolean(BooleanBufferBuilder),
    Byte(Vec<i8>),
    Short(Vec<i16>),
    Int(Vec<i32>),
    Long(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes { ends: Vec<i32>, bytes: Vec<u8> },
    Map { ends: Vec<i32>, keys: Box<Column>, values: Box<Column> },
}

/// See the module.
pub(crate) struct Column {
    pub(crate) kind: Type,
    values: Values,
    valid: NullBufferBuilder,
}

/// Arrow counts bytes in 31 bits. `Batch` keeps every column far below.
fn end(length: usize) -> i32 {
    length as i32
}

impl Column {
    pub(crate) fn new(kind: Type) -> Self {
        let values = match kind {
            Type::Boolean => Values::Boolean(BooleanBufferBuilder::new(0)),
            Type::Byte => Values::Byte(Vec::new()),
            Type::Short => Values::Short(Vec::new()),
            Type::Int | Type::Date => Values::Int(Vec::new()),
            Type::Long | Type::Timestamp => Values::Long(Vec::new()),
            Type::Float => Values::Float(Vec::new()),
            Type::Double => Values::Double(Vec::new()),
            Type::Text | Type::Binary => Values::Bytes { ends: vec![0], bytes: Vec::new() },
            Type::Map => Values::Map {
                ends: vec![0],
                keys: Box::new(Self::new(Type::Text)),
                values: Box::new(Self::new(Type::Text)),
            },
        };
        Self { kind, values, valid: NullBufferBuilder::new(0) }
    }

    pub(crate) fn len(&self) -> usize {
        self.valid.len()
    }

    /// Approximate bytes of its values.
    pub(crate) fn size(&self) -> usize {
        match &self.values {
            Values::Boolean(_) => self.len() / 8,
            Values::Byte(values) => values.len(),
            Values::Short(values) => values.len() * 2,
            Values::Int(values) => values.len() * 4,
            Values::Float(values) => values.len() * 4,
            Values::Long(values) => values.len() * 8,
            Values::Double(values) => values.len() * 8,
            Values::Bytes { ends, bytes } => ends.len() * 4 + bytes.len(),
            Values::Map { ends, keys, values } => ends.len() * 4 + keys.size() + values.size(),
        }
    }

    pub(crate) fn null(&mut self) {
        match &mut self.values {
            Values::Boolean(values) => values.append(false),
            Values::Byte(values) => values.push(0),
            Values::Short(values) => values.push(0),
            Values::Int(values) => values.push(0),
            Values::Long(values) => values.push(0),
            Values::Float(values) => values.push(0.0),
            Values::Double(values) => values.push(0.0),
            Values::Bytes { ends, bytes } => ends.push(end(bytes.len())),
            Values::Map { ends, keys, .. } => ends.push(end(keys.len())),
        }
        self.valid.append_null();
    }

    pub(crate) fn boolean(&mut self, value: bool) {
        if let Values::Boolean(values) = &mut self.values {
            values.append(value);
            self.valid.append_non_null();
        }
    }

    /// Appends an integer, if it fits into the type.
    pub(crate) fn integer(&mut self, value: i64) -> Option<()> {
        match &mut self.values {
            Values::Byte(values) => values.push(value.try_into().ok()?),
            Values::Short(values) => values.push(value.try_into().ok()?),
            Values::Int(values) => values.push(value.try_into().ok()?),
            Values::Long(values) => values.push(value),
            _ => return None,
        }
        self.valid.append_non_null();
        Some(())
    }

    /// Appends an integer, or null where it does not fit into the type.
    pub(crate) fn integer_or_null(&mut self, value: i64) {
        if self.integer(value).is_none() {
            self.null();
        }
    }

    /// Appends to a column of `Float` or `Double`.
    #[expect(clippy::cast_possible_truncation, reason = "a float column holds the nearest float")]
    pub(crate) fn float(&mut self, value: f64) {
        match &mut self.values {
            Values::Float(values) => values.push(value as f32),
            Values::Double(values) => values.push(value),
            _ => return,
        }
        self.valid.append_non_null();
    }

    /// Appends what `write` writes to a column of `Text` or `Binary`; for `Text` it must be UTF-8.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if let Values::Bytes { ends, bytes } = &mut self.values {
            write(bytes);
            ends.push(end(bytes.len()));
            self.valid.append_non_null();
        }
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.write(|bytes| bytes.extend_from_slice(value));
    }

    pub(crate) fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    /// Appends a map whose entries `write` adds to the columns of keys and values.
    pub(crate) fn map(&mut self, write: impl FnOnce(&mut Self, &mut Self)) {
        if let Values::Map { ends, keys, values } = &mut self.values {
            write(keys, values);
            ends.push(end(keys.len()));
            self.valid.append_non_null();
        }
    }

    /// Appends a value of an array of this type; null for types that the envelope does not use.
    pub(crate) fn append(&mut self, array: &dyn Array, row: usize) {
        if array.is_null(row) {
            return self.null();
        }
        match self.kind {
            Type::Boolean => self.boolean(array.as_boolean().value(row)),
            Type::Int => self.integer_or_null(array.as_primitive::<Int32Type>().value(row).into()),
            Type::Long => self.integer_or_null(array.as_primitive::<Int64Type>().value(row)),
            Type::Timestamp => self.integer_or_null(array.as_primitive::<TimestampMicrosecondType>().value(row)),
            Type::Text => self.text(array.as_string::<i32>().value(row)),
            Type::Binary => self.bytes(array.as_binary::<i32>().value(row)),
            Type::Map => {
                let entries = array.as_map().value(row);
                self.map(|keys, values| {
                    for entry in 0..entries.len() {
                        keys.append(entries.column(0), entry);
                        values.append(entries.column(1), entry);
                    }
                });
            }
            _ => self.null(),
        }
    }

    /// Removes all rows from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        if rows >= self.len() {
            return;
        }
        match &mut self.values {
            Values::Boolean(values) => values.truncate(rows),
            Values::Byte(values) => values.truncate(rows),
            Values::Short(values) => values.truncate(rows),
            Values::Int(values) => values.truncate(rows),
            Values::Long(values) => values.truncate(rows),
            Values::Float(values) => values.truncate(rows),
            Values::Double(values) => values.truncate(rows),
            Values::Bytes { ends, bytes } => {
                ends.truncate(rows + 1);
                bytes.truncate(ends[rows] as usize);
            }
            Values::Map { ends, keys, values } => {
                ends.truncate(rows + 1);
                keys.truncate(ends[rows] as usize);
                values.truncate(ends[rows] as usize);
            }
        }
        self.valid.truncate(rows);
    }

    /// Bytes of variable width that the last row takes.
    pub(crate) fn last_size(&self) -> usize {
        let last = |ends: &[i32]| match ends {
            [.., before, end] => (*before as usize, *end as usize),
            _ => (0, 0),
        };
        match &self.values {
            Values::Bytes { ends, .. } => {
                let (start, end) = last(ends);
                end - start
            }
            Values::Map { ends, keys, values } => {
                let (start, end) = last(ends);
                keys.range_size(start, end) + values.range_size(start, end)
            }
            _ => 0,
        }
    }

    fn range_size(&self, start: usize, end: usize) -> usize {
        match &self.values {
            Values::Bytes { ends, .. } => (ends[end] - ends[start]) as usize + 8 * (end - start),
            _ => 0,
        }
    }

    /// Appends the last row `times` more.
    pub(crate) fn repeat(&mut self, times: usize) {
        let Some(row) = self.len().checked_sub(1) else { return };
        for _ in 0..times {
            self.copy(row);
        }
    }

    fn copy(&mut self, row: usize) {
        if !self.valid.is_valid(row) {
            return self.null();
        }
        match &mut self.values {
            Values::Boolean(values) => values.append(values.get_bit(row)),
            Values::Byte(values) => values.push(values[row]),
            Values::Short(values) => values.push(values[row]),
            Values::Int(values) => values.push(values[row]),
            Values::Long(values) => values.push(values[row]),
            Values::Float(values) => values.push(values[row]),
            Values::Double(values) => values.push(values[row]),
            Values::Bytes { ends, bytes } => {
                bytes.extend_from_within(ends[row] as usize..ends[row + 1] as usize);
                ends.push(end(bytes.len()));
            }
            Values::Map { ends, keys, values } => {
                for entry in ends[row] as usize..ends[row + 1] as usize {
                    keys.copy(entry);
                    values.copy(entry);
                }
                ends.push(end(keys.len()));
            }
        }
        self.valid.append_non_null();
    }

    /// Returns the column as an Arrow array and empties it.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        let Self { kind, values, mut valid } = std::mem::replace(self, Self::new(self.kind));
        let nulls = valid.finish();
        match values {
            Values::Boolean(mut values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Byte(values) => primitive::<Int8Type>(values, nulls),
            Values::Short(values) => primitive::<Int16Type>(values, nulls),
            Values::Int(values) if kind == Type::Date => primitive::<Date32Type>(values, nulls),
            Values::Int(values) => primitive::<Int32Type>(values, nulls),
            Values::Long(values) if kind == Type::Timestamp => Arc::new(
                PrimitiveArray::<TimestampMicrosecondType>::new(ScalarBuffer::from(values), nulls).with_timezone("UTC"),
            ),
            Values::Long(values) => primitive::<Int64Type>(values, nulls),
            Values::Float(values) => primitive::<Float32Type>(values, nulls),
            Values::Double(values) => primitive::<Float64Type>(values, nulls),
            Values::Bytes { ends, bytes } => {
                let (ends, bytes) = (OffsetBuffer::new(ScalarBuffer::from(ends)), Buffer::from_vec(bytes));
                if kind == Type::Text {
                    Arc::new(StringArray::new(ends, bytes, nulls))
                } else {
                    Arc::new(BinaryArray::new(ends, bytes, nulls))
                }
            }
            Values::Map { ends, mut keys, mut values } => {
                let entries = StructArray::new(entry_fields(), vec![keys.finish(), values.finish()], None);
                let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
                Arc::new(MapArray::new(entries_field(), ends, entries, nulls, false))
            }
        }
    }
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<arrow_buffer::NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
}
