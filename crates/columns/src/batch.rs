//! A batch that grows message by message.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};

use crate::body::{self, Fields};
use crate::column::Column;
use crate::declare::{Declared, Source};
use crate::envelope::{Origin, Part, Parts};
use crate::repeated_size_max;
use crate::replay::Replay;

/// See the module.
pub struct Batch {
    declared: Arc<Declared>,
    columns: Vec<Column>,
    envelope: Vec<(usize, Part)>,
    fields: Fields,
    rows: usize,
    expanded: usize,
    marked: u64,
}

impl Batch {
    /// An empty batch of the declared columns.
    #[must_use]
    pub fn new(declared: Arc<Declared>) -> Self {
        let mut envelope = Vec::new();
        let mut fields = Fields::default();
        for (at, item) in declared.items.iter().enumerate() {
            match &item.from {
                Source::Envelope(part) => envelope.push((at, *part)),
                Source::Body(key) => fields.named.push((key.clone(), at)),
                Source::Error => fields.error = Some(at),
                Source::Index => fields.index = Some(at),
            }
        }
        let columns = declared.items.iter().map(|item| Column::new(item.kind)).collect();
        Self { declared, columns, envelope, fields, rows: 0, expanded: 0, marked: 0 }
    }

    /// Rows so far.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Approximate bytes of the columns.
    #[must_use]
    pub fn size(&self) -> usize {
        self.columns.iter().map(Column::size).sum()
    }

    /// Bytes of decompressed bodies in the batch: they may be a thousand times those received.
    #[must_use]
    pub fn expanded(&self) -> usize {
        self.expanded
    }

    /// Messages since the creation of the batch that became a single row with a reason.
    #[must_use]
    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// Appends the rows of one encoded message, at least one. Only the first row has the body.
    pub fn push(&mut self, origin: &Origin<'_>, message: &[u8]) {
        let mut parts = Parts::of(message);
        parts.enqueued_time_ms = parts.enqueued_time_ms.or(origin.taken_ms);
        self.grow(&parts, |part, column| parts.put(part, origin, column));
    }

    /// Appends the rows of one message of a table, as `push` does those of an encoded one.
    pub fn replay(&mut self, messages: &Replay, row: usize) {
        self.grow(&messages.parts(row), |part, column| messages.put(part, row, column));
    }

    fn grow(&mut self, parts: &Parts<'_>, put: impl Fn(Part, &mut Column)) {
        for (at, part) in &self.envelope {
            put(*part, &mut self.columns[*at]);
        }
        let count = self.decode(parts);
        if count > 1 {
            self.repeat(count - 1);
        }
        self.rows += count;
    }

    fn decode(&mut self, parts: &Parts<'_>) -> usize {
        let result = if self.declared.decode.is_some() {
            body::decode(&self.declared, &self.fields, &mut self.columns, parts, &mut self.expanded)
                .and_then(|count| self.fits(count, parts))
        } else if parts.is_malformed() {
            Err("the bytes are not an AMQP message".to_owned())
        } else {
            self.unmarked();
            return 1;
        };
        match result {
            Ok(count) => count,
            Err(reason) => {
                self.mark(&reason);
                1
            }
        }
    }

    /// Whether the envelope can be repeated for all rows of a message.
    fn fits(&self, count: usize, parts: &Parts<'_>) -> Result<usize, String> {
        let repeated = self.envelope.iter().filter(|(_, part)| *part != Part::Body);
        let size: usize = repeated.map(|(at, _)| self.columns[*at].last_size()).sum();
        let size_max = repeated_size_max(parts.body.size() + size);
        if size.saturating_mul(count - 1) <= size_max {
            return Ok(count);
        }
        Err(format!("its {count} rows would repeat {size} bytes of envelope each, more than {} KiB", size_max >> 10))
    }

    fn repeat(&mut self, more: usize) {
        for (at, part) in &self.envelope {
            let column = &mut self.columns[*at];
            if *part == Part::Body {
                (0..more).for_each(|_| column.null());
            } else {
                column.repeat(more);
            }
        }
    }

    fn unmarked(&mut self) {
        if let Some(error) = self.fields.error {
            self.columns[error].null();
        }
        if let Some(index) = self.fields.index {
            self.columns[index].integer_or_null(0);
        }
    }

    /// Appends one row with only a reason.
    fn mark(&mut self, reason: &str) {
        self.marked += 1;
        for at in self.fields.all() {
            self.columns[at].truncate(self.rows);
        }
        for (_, at) in &self.fields.named {
            self.columns[*at].null();
        }
        self.unmarked();
        if let Some(error) = self.fields.error {
            self.columns[error].truncate(self.rows);
            self.columns[error].text(reason);
        }
    }

    /// Returns the rows and empties the batch.
    #[must_use]
    pub fn finish(&mut self) -> RecordBatch {
        self.expanded = 0;
        let columns = self.columns.iter_mut().map(Column::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        RecordBatch::try_new_with_options(self.declared.schema(), columns, &options)
            .expect("columns have the types of the schema and a value for each row")
    }
}
