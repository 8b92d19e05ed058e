//! Messages of a table, decoded again by the decoder of streams.

use std::sync::Arc;

use enmasse_columns::{Batch, Replay as Messages};
use pyo3::prelude::*;

use crate::errors::invalid;
use crate::outbox::record_batch;
use crate::stream::{ROWS, Rows, SIZE, declared};

/// A record batch of whole messages, and its outcome.
#[pyclass(module = "enmasse._native")]
pub(crate) struct Replay {
    messages: Messages,
    batch: Batch,
    /// messages examined
    done: usize,
}

#[pymethods]
impl Replay {
    #[new]
    fn new(batch: &Bound<'_, PyAny>, columns_json: &str) -> PyResult<Self> {
        let declared = declared(columns_json)?;
        let messages = Messages::new(&record_batch(batch)?).map_err(|error| invalid(error.to_string()))?;
        Ok(Self { messages, batch: Batch::new(Arc::new(declared)), done: 0 })
    }

    fn next_batch(&mut self, py: Python<'_>) -> Option<Rows> {
        py.detach(|| self.fill())
    }
}

impl Replay {
    fn fill(&mut self) -> Option<Rows> {
        let Self { messages, batch, done } = self;
        let mut size = 0;
        while *done < messages.rows() && batch.rows() < ROWS && size + batch.expanded() < SIZE {
            batch.replay(messages, *done);
            size += messages.size(*done);
            *done += 1;
        }
        (batch.rows() > 0).then(|| Rows::new(batch.finish(), *done as u64, size))
    }
}
