//! Streams as Arrow record batches, which Python receives without a copy and without an object per
//! message.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::{Array, RecordBatch, StructArray};
use enmasse_client::{Range, SourceOptions};
use enmasse_columns::{Batch, Declared, Options as Columns, Origin};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde::Deserialize;
use serde_json::json;

use crate::client::Options;
use crate::errors::{client_error, invalid};

/// Rows of one batch. Its last message may exceed this, because a message may have many rows.
pub(crate) const ROWS: usize = 32_768;
/// Bytes of messages of one batch, without its last message.
pub(crate) const SIZE: usize = 16 << 20;

/// The options of a `Stream`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Source {
    urls: Vec<String>,
    client: Options,
    address: String,
    space: Option<String>,
    selector: Option<String>,
    silence_ms: u64,
}

/// The next range.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RangeOptions {
    partition: u32,
    from: u64,
    to: u64,
    uid: Option<String>,
    #[serde(default)]
    tolerant: bool,
}

/// One connection that reads a stream.
#[pyclass(module = "enmasse._native")]
pub(crate) struct Stream {
    stream: enmasse_client::Stream,
    space: Option<String>,
    address: String,
    partition: u32,
    batch: Option<Batch>,
    /// batches that are full
    full: VecDeque<Rows>,
}

#[pymethods]
impl Stream {
    #[new]
    fn new(py: Python<'_>, options_json: &str) -> PyResult<Self> {
        let source: Source = parse("stream options", options_json)?;
        let servers =
            source.urls.iter().map(|url| source.client.clone().client_options(url)).collect::<PyResult<_>>()?;
        let options = SourceOptions {
            servers,
            address: source.address.clone(),
            selector: source.selector,
            silence: Duration::from_millis(source.silence_ms),
        };
        let stream = py.detach(|| enmasse_client::Stream::connect(options)).map_err(|error| client_error(&error))?;
        // the space that the server announces, unless an option names it
        let space = source.space.or_else(|| stream.space().map(str::to_owned));
        let address = source.address;
        Ok(Self { stream, space, address, partition: 0, batch: None, full: VecDeque::new() })
    }

    fn state(&mut self, py: Python<'_>) -> PyResult<String> {
        let state = py.detach(|| self.stream.state()).map_err(|error| client_error(&error))?;
        let partitions: Vec<_> = state
            .partitions
            .iter()
            .map(|part| json!({"partition": part.partition, "first": part.first, "next": part.next}))
            .collect();
        Ok(json!({"uid": state.uid, "partitions": partitions}).to_string())
    }

    fn offset_at(&mut self, py: Python<'_>, partition: u32, time_ms: i64) -> PyResult<Option<u64>> {
        py.detach(|| self.stream.offset_at(partition, time_ms)).map_err(|error| client_error(&error))
    }

    fn begin(&mut self, py: Python<'_>, range_json: &str, columns_json: &str) -> PyResult<()> {
        let RangeOptions { partition, from, to, uid, tolerant } = parse("range", range_json)?;
        self.batch = Some(Batch::new(Arc::new(declared(columns_json)?)));
        self.full.clear();
        self.partition = partition;
        let range = Range { partition, from, to, uid, tolerant };
        py.detach(|| self.stream.begin(range)).map_err(|error| client_error(&error))
    }

    fn next_batch(&mut self, py: Python<'_>) -> PyResult<Option<Rows>> {
        py.detach(|| self.fill()).map_err(|error| client_error(&error))
    }

    fn space(&self) -> Option<&str> {
        self.space.as_deref()
    }

    fn missing(&self) -> u64 {
        self.stream.missing()
    }

    fn marked(&self) -> u64 {
        self.batch.as_ref().map_or(0, Batch::marked)
    }
}

impl Stream {
    fn fill(&mut self) -> Result<Option<Rows>, enmasse_client::Error> {
        let Self { stream, space, address, partition, batch: Some(batch), full } = self else { return Ok(None) };
        let origin = Origin { space: space.as_deref(), address, partition: Some(*partition), ..Origin::default() };
        // size and next offset of the current batch: it has all its messages when this function
        // returns
        let (mut size, mut next_offset) = (0, 0);
        while full.is_empty() {
            let more = stream.receive(&mut |offset, message| {
                batch.push(&origin, message);
                size += message.len();
                next_offset = offset + 1;
                if batch.rows() >= ROWS || size + batch.expanded() >= SIZE {
                    full.push_back(Rows { batch: batch.finish(), next_offset, size: std::mem::take(&mut size) });
                }
            })?;
            if !more && batch.rows() == 0 {
                break;
            }
            if batch.rows() > 0 && (!more || !full.is_empty()) {
                full.push_back(Rows { batch: batch.finish(), next_offset, size: std::mem::take(&mut size) });
            }
        }
        Ok(full.pop_front())
    }
}

/// A record batch that other libraries take over by the Arrow C data interface.
#[pyclass(frozen, module = "enmasse._native")]
pub(crate) struct Rows {
    pub(crate) batch: RecordBatch,
    pub(crate) next_offset: u64,
    pub(crate) size: usize,
}

pub(crate) const ARRAY: &CStr = c"arrow_array";
pub(crate) const SCHEMA: &CStr = c"arrow_schema";

impl Rows {
    pub(crate) fn new(batch: RecordBatch, next_offset: u64, size: usize) -> Self {
        Self { batch, next_offset, size }
    }
}

#[pymethods]
impl Rows {
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    #[getter]
    fn next_offset(&self) -> u64 {
        self.next_offset
    }

    #[getter]
    fn size(&self) -> usize {
        self.size
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // a producer may use its own schema regardless of the requested one: the consumer casts
        drop(requested_schema);
        let array: StructArray = self.batch.clone().into();
        let (array, schema): (FFI_ArrowArray, FFI_ArrowSchema) =
            to_ffi(&array.to_data()).map_err(|error| invalid(format!("record batch: {error}")))?;
        Ok((PyCapsule::new_with_value(py, schema, SCHEMA)?, PyCapsule::new_with_value(py, array, ARRAY)?))
    }
}

/// Checks a declaration of columns; returns it in SQL with all names and types.
#[pyfunction]
pub(crate) fn declare_columns(columns_json: &str) -> PyResult<String> {
    Ok(declared(columns_json)?.sql())
}

pub(crate) fn declared(columns_json: &str) -> PyResult<Declared> {
    let columns: Columns = parse("columns", columns_json)?;
    Declared::new(&columns).map_err(|error| invalid(error.to_string()))
}

pub(crate) fn parse<'de, T: Deserialize<'de>>(what: &str, json: &'de str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| invalid(format!("{what}: {error}")))
}
