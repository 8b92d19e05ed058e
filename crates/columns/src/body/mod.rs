//! Decodes bodies into typed columns: one file per format, all of which fill `rows`.

mod cbor;
mod csv;
mod gzip;
mod record;
mod rows;
pub(crate) mod senml;

use serde::de::DeserializeSeed;

use crate::column::Column;
use crate::declare::{Declared, Format};
use crate::envelope::{Body, Parts};
use crate::{ROWS_SIZE_MAX, repeated_size_max};
pub(crate) use rows::{Fields, Rows};

/// Why a body gave no rows.
pub(crate) type Reason = String;

/// Decodes the body of a message into the rows of `columns`, at least one. On an error the columns
/// hold some of them. Adds the bytes of a decompressed body to `expanded`.
pub(crate) fn decode(
    declared: &Declared,
    fields: &Fields,
    columns: &mut [Column],
    parts: &Parts<'_>,
    expanded: &mut usize,
) -> Result<usize, Reason> {
    let format = match declared.decode {
        Some(Format::Auto) => {
            let content_type = parts.content_type.ok_or("the message has no content-type, which names its format")?;
            Format::of_content_type(content_type)
                .ok_or_else(|| format!("content-type {content_type:?} is not a supported format"))?
        }
        Some(format) => format,
        None => return Err("no format is declared".to_owned()),
    };
    let joined;
    let bytes = match &parts.body {
        Body::Data(first, more) if more.is_empty() => *first,
        Body::Data(first, more) => {
            joined = [&[*first], more.as_slice()].concat().concat();
            &joined
        }
        Body::Text(text) => text.as_bytes(),
        Body::Binary(bytes) => *bytes,
        Body::Value(_) => return Err("the body is an amqp-value that is neither string nor binary".to_owned()),
        Body::Sequence(..) => {
            return Err("the body is an amqp-sequence; data, a string or binary can be decoded".to_owned());
        }
        Body::None => return Err("the message has no body".to_owned()),
        Body::Malformed(_) => return Err("the bytes are not an AMQP message".to_owned()),
    };
    let decompressed;
    let bytes = match parts.content_encoding {
        Some(name) if gzip::is_named(name) => {
            decompressed = gzip::decompress(bytes)?;
            *expanded += decompressed.len();
            &decompressed
        }
        // other names are decoded as they are: some clients put a character set here
        _ => bytes,
    };
    // Each record of a pack has the base name of all.
    let is_pack = matches!(format, Format::SenmlJson | Format::SenmlCbor);
    let size_max = if is_pack { repeated_size_max(bytes.len()) } else { ROWS_SIZE_MAX };
    let mut rows = Rows::new(fields, columns, declared.time_unit, size_max);
    match format {
        Format::Json => json(bytes, record::Body(&mut rows))?,
        Format::Cbor => cbor(bytes, record::Body(&mut rows))?,
        Format::SenmlJson => json(bytes, senml::Pack::new(&mut rows, parts.time()))?,
        Format::SenmlCbor => cbor(bytes, senml::Pack::new(&mut rows, parts.time()))?,
        Format::Csv => csv::read(bytes, &mut rows, declared.csv_delimiter, declared.csv_header)?,
        Format::Auto => {}
    }
    match rows.count() {
        0 => Err("the body holds no record".to_owned()),
        count => Ok(count),
    }
}

fn json<'de>(bytes: &'de [u8], seed: impl DeserializeSeed<'de>) -> Result<(), Reason> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    seed.deserialize(&mut deserializer).map_err(|error| format!("JSON: {error}"))?;
    deserializer.end().map_err(|error| format!("JSON: {error}"))
}

fn cbor<'de>(bytes: &'de [u8], seed: impl DeserializeSeed<'de>) -> Result<(), Reason> {
    let mut deserializer = cbor::Deserializer::new(bytes);
    seed.deserialize(&mut deserializer).map_err(|error| format!("CBOR: {error}"))?;
    deserializer.end().map_err(|error| format!("CBOR: {error}"))
}

/// The error of a deserializer that accepts any value.
fn any<'de, D: serde::Deserializer<'de>, V: serde::de::Visitor<'de>>(
    from: D,
    visitor: V,
) -> Result<V::Value, D::Error> {
    from.deserialize_any(visitor)
}
