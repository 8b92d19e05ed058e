//! The rows of one body, and the conversion of values to the types of columns.

use std::fmt::Write;

use crate::column::{Column, Type};
use crate::declare::TimeUnit;
use crate::{RECORDS_MAX, text, time};

/// Bytes of the reason of one row.
const REASON_SIZE_MAX: usize = 500;

/// A scalar value of any format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Datum<'a> {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// a point in time, microseconds since 1970
    Micros(i64),
    /// text of a format without types, such as CSV
    UntypedText(&'a str),
}

impl Datum<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Signed(_) | Self::Unsigned(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Text(_) | Self::UntypedText(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::Micros(_) => "a point in time",
        }
    }
}

/// Which columns of a batch a body fills.
#[derive(Default)]
pub(crate) struct Fields {
    /// names in the body with their columns
    pub(crate) named: Vec<(String, usize)>,
    /// the column of reasons
    pub(crate) error: Option<usize>,
    /// the column that numbers the rows of a message
    pub(crate) index: Option<usize>,
}

/// See the module.
pub(crate) struct Rows<'a> {
    fields: &'a Fields,
    columns: &'a mut [Column],
    time_unit: TimeUnit,
    /// rows of the batch before this body
    first: usize,
    count: usize,
    size_before: usize,
    /// bytes that the rows may take
    size_max: usize,
    /// where the search for the next name begins, because records usually have the same order of
    /// fields
    hint: usize,
    /// the error in the current row
    reason: String,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(fields: &'a Fields, columns: &'a mut [Column], time_unit: TimeUnit, size_max: usize) -> Self {
        let first = fields.all().next().map_or(0, |column| columns[column].len());
        let size_before = fields.named.iter().map(|(_, column)| columns[*column].size()).sum();
        Self { fields, columns, time_unit, first, count: 0, size_before, size_max, hint: 0, reason: String::new() }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many fields are declared.
    pub(crate) fn width(&self) -> usize {
        self.fields.named.len()
    }

    /// The index of a field by its name.
    pub(crate) fn find(&mut self, name: &[u8]) -> Option<usize> {
        let named = &self.fields.named;
        let from = self.hint;
        let found = (from..named.len()).chain(0..from).find(|place| named[*place].0.as_bytes() == name)?;
        self.hint = found + 1;
        Some(found)
    }

    /// Ends a row: fields that were not set are null.
    ///
    /// # Errors
    /// There are more rows, or bytes of them, than one message can have.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        let rows = self.first + self.count;
        let mut size = 0;
        for (_, column) in &self.fields.named {
            let column = &mut self.columns[*column];
            if column.len() <= rows {
                column.null();
            }
            size += column.size();
        }
        if let Some(index) = self.fields.index {
            self.columns[index].integer_or_null(self.count as i64);
        }
        if let Some(error) = self.fields.error {
            match self.reason.as_str() {
                "" => self.columns[error].null(),
                reason => self.columns[error].text(reason),
            }
        }
        self.reason.clear();
        self.count += 1;
        self.hint = 0;
        if self.count > RECORDS_MAX {
            return Err(format!("the body holds more than {RECORDS_MAX} records"));
        }
        if size.saturating_sub(self.size_before) > self.size_max {
            return Err(format!("the rows of the body take more than {} KiB", self.size_max >> 10));
        }
        Ok(())
    }

    /// Adds a reason to the current row.
    pub(crate) fn add_reason(&mut self, reason: std::fmt::Arguments<'_>) {
        if self.reason.len() < REASON_SIZE_MAX {
            if !self.reason.is_empty() {
                self.reason.push_str("; ");
            }
            // a string accepts all writes
            let _ = self.reason.write_fmt(reason);
        }
    }

    /// The column of a field, without a value for the current row: of duplicate names the last
    /// counts.
    fn open(&mut self, place: usize) -> &mut Column {
        let column = &mut self.columns[self.fields.named[place].1];
        column.truncate(self.first + self.count);
        column
    }

    /// Sets a field of the current row, or null and a reason if the value has another type.
    pub(crate) fn set(&mut self, place: usize, value: Datum<'_>) {
        let unit = self.time_unit;
        let column = self.open(place);
        if put(column, value, unit).is_none() {
            let kind = column.kind.name();
            column.null();
            self.mismatch(place, value.name(), kind);
        }
    }

    fn mismatch(&mut self, place: usize, found: &str, kind: &str) {
        let name = self.fields.named[place].0.as_str();
        self.add_reason(format_args!("{name}: {found} is not of type {kind}, or does not fit into it"));
    }

    /// Sets a field to a nested value, which text columns store as JSON.
    pub(crate) fn set_compound(&mut self, place: usize, json: Option<&[u8]>) {
        let column = self.open(place);
        match json {
            Some(json) => column.bytes(json),
            None => {
                let kind = column.kind.name();
                column.null();
                self.mismatch(place, "an object or array", kind);
            }
        }
    }

    /// Whether a field accepts nested values.
    pub(crate) fn takes_compounds(&self, place: usize) -> bool {
        self.columns[self.fields.named[place].1].kind == Type::Text
    }
}

impl Fields {
    /// All columns that are filled.
    pub(crate) fn all(&self) -> impl Iterator<Item = usize> + '_ {
        self.named.iter().map(|(_, column)| *column).chain(self.error).chain(self.index)
    }
}

/// Appends a value to a column; `None`: it is of another type, and nothing is appended.
fn put(column: &mut Column, value: Datum<'_>, unit: TimeUnit) -> Option<()> {
    if value == Datum::Null || value == Datum::UntypedText("") {
        column.null();
        return Some(());
    }
    match column.kind {
        Type::Boolean => match value {
            Datum::Bool(value) => column.boolean(value),
            Datum::UntypedText(word) => column.boolean(boolean(word)?),
            _ => return None,
        },
        Type::Byte | Type::Short | Type::Int | Type::Long => return column.integer(integer(value)?),
        Type::Float | Type::Double => column.float(number(value)?),
        Type::Text => write_text(column, value),
        Type::Binary => match value {
            Datum::Bytes(bytes) => column.bytes(bytes),
            Datum::Text(text) | Datum::UntypedText(text) => column.text(text),
            _ => return None,
        },
        Type::Date => {
            let micros = point_in_time(value, unit)?;
            return column.integer(micros.div_euclid(86_400_000_000));
        }
        Type::Timestamp => return column.integer(point_in_time(value, unit)?),
        Type::Map => return None,
    }
    Some(())
}

fn boolean(word: &str) -> Option<bool> {
    match word.trim_ascii() {
        "true" | "TRUE" | "True" | "1" => Some(true),
        "false" | "FALSE" | "False" | "0" => Some(false),
        _ => None,
    }
}

fn integer(value: Datum<'_>) -> Option<i64> {
    match value {
        Datum::Signed(value) => Some(value),
        Datum::Unsigned(value) => value.try_into().ok(),
        Datum::Float(value) => integral(value),
        Datum::UntypedText(word) => {
            let word = word.trim_ascii();
            word.parse().ok().or_else(|| integral(word.parse().ok()?))
        }
        _ => None,
    }
}

/// A float as an integer, if it is integral.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn integral(value: f64) -> Option<i64> {
    // 2^63 is the first that does not fit
    (value.fract() == 0.0 && value.abs() < 9_223_372_036_854_775_808.0).then_some(value as i64)
}

#[expect(clippy::cast_precision_loss, reason = "a double column holds the nearest double")]
fn number(value: Datum<'_>) -> Option<f64> {
    match value {
        Datum::Signed(value) => Some(value as f64),
        Datum::Unsigned(value) => Some(value as f64),
        Datum::Float(value) => Some(value),
        Datum::Micros(micros) => Some(micros as f64 / 1e6),
        Datum::UntypedText(word) => word.trim_ascii().parse().ok(),
        _ => None,
    }
}

fn point_in_time(value: Datum<'_>, unit: TimeUnit) -> Option<i64> {
    match value {
        Datum::Micros(micros) => Some(micros),
        Datum::Signed(value) => micros(value, unit),
        Datum::Unsigned(value) => micros(value.try_into().ok()?, unit),
        Datum::Float(value) => micros_of_float(value, unit),
        Datum::Text(text) => time::parse(text),
        Datum::UntypedText(word) => match word.trim_ascii().parse::<f64>() {
            Ok(_) if word.trim_ascii().parse::<i64>().is_ok() => micros(word.trim_ascii().parse().ok()?, unit),
            Ok(value) => micros_of_float(value, unit),
            Err(_) => time::parse(word),
        },
        Datum::Null | Datum::Bool(_) | Datum::Bytes(_) => None,
    }
}

fn micros(value: i64, unit: TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Seconds => value.checked_mul(1_000_000),
        TimeUnit::Milliseconds => value.checked_mul(1000),
        TimeUnit::Microseconds => Some(value),
        TimeUnit::Nanoseconds => Some(value.div_euclid(1000)),
    }
}

fn micros_of_float(value: f64, unit: TimeUnit) -> Option<i64> {
    let scale = match unit {
        TimeUnit::Seconds => 1e6,
        TimeUnit::Milliseconds => 1e3,
        TimeUnit::Microseconds => 1.0,
        TimeUnit::Nanoseconds => 1e-3,
    };
    integral((value * scale).round())
}

fn write_text(column: &mut Column, value: Datum<'_>) {
    column.write(|out| match value {
        Datum::Null => {}
        Datum::Bool(value) => text::display(out, value),
        Datum::Signed(value) => text::display(out, value),
        Datum::Unsigned(value) => text::display(out, value),
        Datum::Float(value) => text::display(out, format_args!("{value:?}")),
        Datum::Text(value) | Datum::UntypedText(value) => out.extend_from_slice(value.as_bytes()),
        Datum::Bytes(bytes) => text::base64(out, bytes),
        Datum::Micros(micros) => time::write(out, micros),
    });
}
