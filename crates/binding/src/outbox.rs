//! Sends Arrow record batches as messages, without a Python object per row.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::{RecordBatch, StructArray};
use enmasse_amqp::codec::encode_message;
use enmasse_client::{Cause, ClientOptions, Error, Post, Publisher, PublisherOptions};
use enmasse_columns::{Batch, Declared, Options as Columns, Origin, Outgoing, number_message};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde::Deserialize;

use crate::client::Options;
use crate::errors::{client_error, invalid};
use crate::stream::{ARRAY, Rows, SCHEMA, parse};

/// The options of an `Outbox`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Target {
    urls: Vec<String>,
    client: Options,
    address: Option<String>,
    space: Option<String>,
    producer: Option<String>,
    silence_ms: u64,
}

/// Rejected rows: the row, the condition and its description.
type Causes = Vec<(usize, String, String)>;

/// Rows to send to addresses.
#[pyclass(module = "enmasse._native")]
pub(crate) struct Outbox {
    servers: Vec<ClientOptions>,
    silence: Duration,
    /// the address of rows that name none
    address: Option<String>,
    space: Option<String>,
    producer: Option<String>,
    post: Post,
    publisher: Option<Publisher>,
}

#[pymethods]
impl Outbox {
    #[new]
    fn new(options_json: &str) -> PyResult<Self> {
        let target: Target = parse("outbox options", options_json)?;
        let servers =
            target.urls.iter().map(|url| target.client.clone().client_options(url)).collect::<PyResult<_>>()?;
        Ok(Self {
            servers,
            silence: Duration::from_millis(target.silence_ms),
            address: target.address,
            space: target.space,
            producer: target.producer,
            post: Post::default(),
            publisher: None,
        })
    }

    fn __len__(&self) -> usize {
        self.post.len()
    }

    #[getter]
    fn size(&self) -> usize {
        self.post.size()
    }

    fn add(&mut self, py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<()> {
        let batch = record_batch(batch)?;
        py.detach(|| self.encode(&batch)).map_err(|error| invalid(error.to_string()))
    }

    fn sort(&mut self, py: Python<'_>) {
        py.detach(|| self.post.sort());
    }

    fn send(&mut self, py: Python<'_>, first: u64) -> PyResult<(bool, Causes, Rows)> {
        let done = py.detach(|| self.publish(first)).map_err(|error| client_error(&error))?;
        let (causes, rows) = py.detach(|| self.rejected(done));
        if done {
            self.post = Post::default();
        }
        Ok((done, causes, rows))
    }
}

impl Outbox {
    fn encode(&mut self, batch: &RecordBatch) -> Result<(), enmasse_columns::Error> {
        let rows = Outgoing::new(batch)?;
        let numbered = self.producer.is_some();
        for row in 0..rows.rows() {
            let (message, fault) = rows.message(row, numbered);
            let address = rows.address(row).or(self.address.as_deref());
            let fault = fault.or_else(|| address.is_none().then(|| "address: it is null".to_owned()));
            let cause = fault.map(|description| Cause { condition: "amqp:invalid-field".to_owned(), description });
            self.post.put(address.unwrap_or_default(), cause, |out| encode_message(out, &message));
        }
        Ok(())
    }

    fn publish(&mut self, first: u64) -> Result<bool, Error> {
        if self.producer.is_some() {
            self.post.each(|place, message| number_message(message, first + place as u64));
        }
        let mut publisher = match self.publisher.take() {
            Some(publisher) => publisher,
            None => Publisher::connect(PublisherOptions {
                servers: self.servers.clone(),
                producer: self.producer.clone(),
                silence: self.silence,
            })?,
        };
        let done = publisher.publish(&mut self.post)?;
        // a publisher is not reused after an error
        self.publisher = Some(publisher);
        Ok(done)
    }

    /// Rejected rows that are not yet reported: row and cause, and the messages as rows.
    fn rejected(&mut self, done: bool) -> (Causes, Rows) {
        let declared = Declared::new(&Columns::default()).expect("the whole envelope");
        let mut batch = Batch::new(Arc::new(declared));
        let mut causes = Vec::new();
        let space = self.space.as_deref();
        self.post.take_rejected(!done, |row, address, message, cause| {
            batch.push(&Origin { space, address, ..Origin::default() }, message);
            causes.push((row, cause.condition.clone(), cause.description.clone()));
        });
        (causes, Rows { batch: batch.finish(), next_offset: 0, size: 0 })
    }
}

/// Takes ownership of a record batch.
pub(crate) fn record_batch(batch: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let capsules = batch.call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = capsules.extract()?;
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names hold these structs (the Arrow C data interface); the array is
    // moved out of its capsule, which is left released.
    #[expect(unsafe_code, reason = "the Arrow C data interface is made of pointers")]
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    let mut data = data.map_err(|error| invalid(format!("record batch: {error}")))?;
    data.align_buffers();
    Ok(RecordBatch::from(StructArray::from(data)))
}
