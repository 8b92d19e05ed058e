//! Messages in, record batches out.

mod bodies;
mod envelope;
mod fuzz;
mod gzip;
mod outgoing;
mod properties;
mod replay;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use enmasse_amqp::codec::encode_message;
use enmasse_amqp::types::{Body, Message, Properties, Symbol, Value};
use enmasse_columns::{Batch, Declared, Format, Options, Origin};

const ORIGIN: Origin<'static> =
    Origin { space: Some("default"), address: "readings", partition: Some(3), offset: None, taken_ms: None };

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_message(&mut bytes, message);
    bytes
}

/// A message with one data section.
fn with_body(body: &[u8]) -> Message {
    Message { body: Body::Data(vec![body.to_vec()]), ..Message::default() }
}

fn options(columns: &str, decode: Option<Format>) -> Options {
    Options { columns: Some(columns.to_owned()), decode, ..Options::default() }
}

fn batch_of(options: &Options, messages: &[Vec<u8>]) -> RecordBatch {
    let mut batch = Batch::new(Arc::new(Declared::new(options).unwrap()));
    messages.iter().for_each(|message| batch.push(&ORIGIN, message));
    assert!(batch.rows() >= messages.len());
    batch.finish()
}

/// A value as a test writes it: text as it is, everything else as Rust shows it, `null`.
fn shown(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "null".to_owned();
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float32 => column.as_primitive::<Float32Type>().value(row).to_string(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Date32 => column.as_primitive::<Date32Type>().value(row).to_string(),
        DataType::Timestamp(..) => column.as_primitive::<TimestampMicrosecondType>().value(row).to_string(),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        DataType::Binary => format!("{:?}", String::from_utf8_lossy(column.as_binary::<i32>().value(row))),
        DataType::Map(..) => {
            let entries = column.as_map().value(row);
            let entry = |at| format!("{}={}", shown(entries.column(0), at), shown(entries.column(1), at));
            (0..entries.len()).map(entry).collect::<Vec<_>>().join(",")
        }
        other => panic!("{other}"),
    }
}

fn rows(batch: &RecordBatch) -> Vec<Vec<String>> {
    (0..batch.num_rows()).map(|row| batch.columns().iter().map(|column| shown(column, row)).collect()).collect()
}

/// The rows that one body becomes, with `_error` as the last column.
fn decoded(columns: &str, format: Format, body: &[u8]) -> Vec<Vec<String>> {
    decoded_by(&options(&format!("{columns}, _error"), Some(format)), body)
}

fn decoded_by(options: &Options, body: &[u8]) -> Vec<Vec<String>> {
    rows(&batch_of(options, &[encoded(&with_body(body))]))
}

fn with_content_type(content_type: &str, body: Body) -> Message {
    let properties = Properties { content_type: Some(Symbol::from(content_type)), ..Properties::default() };
    Message { properties: Some(properties), body, ..Message::default() }
}

fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}
