//! Lines of CSV (RFC 4180), by csv-core, which buffers only the current line.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::Reason;
use super::rows::{Datum, Rows};
use crate::COLUMNS_MAX;

/// A reader with room for one record, which is never larger than the body.
struct Lines<'b> {
    reader: Reader,
    rest: &'b [u8],
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Lines<'_> {
    /// The number of fields of the next record; 0: there is none.
    fn next(&mut self) -> Result<usize, Reason> {
        let (mut written, mut fields) = (0, 0);
        loop {
            let (result, read, out, ends) =
                self.reader.read_record(self.rest, &mut self.text[written..], &mut self.ends[fields..]);
            self.rest = &self.rest[read..];
            written += out;
            fields += ends;
            match result {
                // the end of the input is detected by reading nothing
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.text.resize(self.text.len() * 2 + 64, 0),
                ReadRecordResult::OutputEndsFull => {
                    return Err(format!("CSV: a line has more than {COLUMNS_MAX} fields"));
                }
                ReadRecordResult::Record => return Ok(fields),
                ReadRecordResult::End => return Ok(0),
            }
        }
    }

    fn field(&self, place: usize) -> &[u8] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.text[start..self.ends[place]]
    }
}

/// Reads all lines; with `header` the first has the names, else fields come in the order in which
/// they are declared.
pub(super) fn read(bytes: &[u8], rows: &mut Rows<'_>, delimiter: u8, header: bool) -> Result<(), Reason> {
    let mut lines = Lines {
        reader: ReaderBuilder::new().delimiter(delimiter).build(),
        rest: bytes,
        text: vec![0; bytes.len().min(4096)],
        ends: vec![0; COLUMNS_MAX],
    };
    let width = rows.width();
    let places: Vec<Option<usize>> = if header {
        let count = lines.next()?;
        (0..count).map(|place| rows.find(lines.field(place).trim_ascii())).collect()
    } else {
        (0..width).map(Some).collect()
    };
    loop {
        let count = lines.next()?;
        if count == 0 {
            return Ok(());
        }
        if count != places.len() {
            rows.add_reason(format_args!("the line has {count} fields, and {} are expected", places.len()));
        }
        for (field, place) in places.iter().enumerate().take(count) {
            let Some(place) = *place else { continue };
            match std::str::from_utf8(lines.field(field)) {
                Ok(word) => rows.set(place, Datum::UntypedText(word)),
                Err(_) => rows.add_reason(format_args!("field {} is not UTF-8", field + 1)),
            }
        }
        rows.end()?;
    }
}
