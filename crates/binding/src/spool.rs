//! Queues through a spool: an `Intake` pulls messages into files, a `Spooled` decodes a file into
//! rows. No Python object per message.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use enmasse_client::{
    Error, Id, Kind, Packed, Packing, Queue, RecentIds, SourceOptions, identity, was_delivered_before,
};
use enmasse_columns::{Batch, Declared, Options as Columns, Origin};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use serde::Deserialize;

use crate::client::Options;
use crate::errors::{client_error, invalid};
use crate::stream::{ROWS, Rows, SIZE, parse};

/// The options of an `Intake`.
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

/// Pulls messages from a queue and removes repeated ones.
#[pyclass(module = "enmasse._native")]
pub(crate) struct Intake {
    options: SourceOptions,
    /// the address space: that of the options, else the one that the server announces
    space: Option<String>,
    /// key of the identities
    key: [u8; 16],
    queue: Option<Queue>,
    seen: RecentIds,
    /// identities of pulled messages without an outcome
    pulled: Vec<Id>,
}

#[pymethods]
impl Intake {
    #[new]
    fn new(options_json: &str, key: &str) -> PyResult<Self> {
        let source: Source = parse("intake options", options_json)?;
        let servers =
            source.urls.iter().map(|url| source.client.clone().client_options(url)).collect::<PyResult<_>>()?;
        let options = SourceOptions {
            servers,
            address: source.address,
            selector: source.selector,
            silence: Duration::from_millis(source.silence_ms),
        };
        let key = u128::from_str_radix(key, 16).map_err(|_| invalid("key: it must have 32 hexadecimal digits"))?;
        Ok(Self {
            options,
            space: source.space,
            key: key.to_be_bytes(),
            queue: None,
            seen: RecentIds::default(),
            pulled: Vec::new(),
        })
    }

    fn pull(&mut self, py: Python<'_>, first: u64, rows: u32, size: usize) -> PyResult<Segment> {
        let pulled = py.detach(|| self.take(first, rows, size));
        pulled.map_err(|error| {
            // a connection is not reused after an error; its pulled messages return to the queue
            self.queue = None;
            self.pulled.clear();
            client_error(&error)
        })
    }

    fn settle(&mut self, accepted: bool) {
        let pulled = std::mem::take(&mut self.pulled);
        if accepted {
            pulled.into_iter().for_each(|id| self.seen.add(id));
        }
        if let Some(queue) = &mut self.queue {
            queue.settle(accepted);
        }
    }

    fn know(&mut self, py: Python<'_>, file: PyBackedBytes) -> PyResult<Py<PyBytes>> {
        let found = py.detach(|| -> Result<Vec<Id>, Error> {
            let packed = Packed::open(&file)?;
            let records = packed.records(&file);
            Ok(match packed.kind {
                Kind::Messages => records.filter_map(|message| identity(message, &self.key)).collect(),
                Kind::Ids => records.filter_map(|id| id.try_into().ok()).collect(),
            })
        });
        let ids = found.map_err(|error| client_error(&error))?;
        ids.iter().for_each(|id| self.seen.add(*id));
        Ok(PyBytes::new(py, ids.as_flattened()).unbind())
    }

    fn space(&self) -> Option<&str> {
        self.space.as_deref().or_else(|| self.queue.as_ref()?.space())
    }

    fn keep(&mut self, count: usize) {
        self.seen.keep(count);
    }

    fn known(&self) -> usize {
        self.seen.count()
    }

    fn depth(&mut self, py: Python<'_>) -> PyResult<Option<u64>> {
        let depth = py.detach(|| self.queue()?.depth());
        depth.map_err(|error| {
            self.queue = None;
            client_error(&error)
        })
    }

    fn close(&mut self, py: Python<'_>) {
        py.detach(|| self.queue = None);
    }
}

impl Intake {
    fn queue(&mut self) -> Result<&mut Queue, Error> {
        match &mut self.queue {
            Some(queue) => Ok(queue),
            none => Ok(none.insert(Queue::connect(self.options.clone())?)),
        }
    }

    fn take(&mut self, first: u64, rows: u32, size: usize) -> Result<Segment, Error> {
        self.queue()?;
        let Self { queue: Some(queue), seen, key, pulled, .. } = self else { unreachable!("it is connected") };
        let mut packing = Packing::default();
        let (mut fresh, mut ids) = (HashSet::new(), Vec::new());
        let mut segment = Segment::default();
        segment.more = queue.pull(rows, size, &mut |message| {
            segment.pulled += 1;
            match identity(message, key) {
                Some(id) if seen.has(&id) || !fresh.insert(id) => {
                    segment.repeated += 1;
                    return;
                }
                Some(id) => ids.push(id),
                None => {
                    segment.anonymous += 1;
                    segment.doubtful += u64::from(was_delivered_before(message));
                }
            }
            packing.push(message);
        })?;
        segment.rows = packing.count().into();
        segment.data = packing.finish(Kind::Messages, first..first + segment.rows);
        segment.ids = ids.as_flattened().to_vec();
        *pulled = ids;
        Ok(segment)
    }
}

/// Messages that were pulled, as a file of the spool.
#[pyclass(frozen, module = "enmasse._native")]
#[derive(Default)]
pub(crate) struct Segment {
    data: Vec<u8>,
    ids: Vec<u8>,
    #[pyo3(get)]
    rows: u64,
    #[pyo3(get)]
    pulled: u64,
    #[pyo3(get)]
    repeated: u64,
    #[pyo3(get)]
    anonymous: u64,
    #[pyo3(get)]
    doubtful: u64,
    #[pyo3(get)]
    more: bool,
}

#[pymethods]
impl Segment {
    #[getter]
    fn data(&self, py: Python<'_>) -> Py<PyBytes> {
        PyBytes::new(py, &self.data).unbind()
    }

    #[getter]
    fn ids(&self, py: Python<'_>) -> Py<PyBytes> {
        PyBytes::new(py, &self.ids).unbind()
    }
}

/// The file of the removed messages.
#[pyfunction]
pub(crate) fn pack_ids(py: Python<'_>, ids: &[u8], first: u64, next: u64) -> Py<PyBytes> {
    let mut packing = Packing::default();
    ids.as_chunks::<16>().0.iter().for_each(|id| packing.push(id));
    PyBytes::new(py, &packing.finish(Kind::Ids, first..next)).unbind()
}

/// The input of a `Spooled`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SpooledOptions {
    address: String,
    space: Option<String>,
    from: u64,
    to: u64,
    taken_ms: i64,
    columns: Columns,
}

/// Messages of one file as rows.
#[pyclass(module = "enmasse._native")]
pub(crate) struct Spooled {
    file: PyBackedBytes,
    packed: Packed,
    options: SpooledOptions,
    batch: Batch,
    /// records examined
    done: usize,
}

#[pymethods]
impl Spooled {
    #[new]
    fn new(py: Python<'_>, file: PyBackedBytes, wanted_json: &str) -> PyResult<Self> {
        let options: SpooledOptions = parse("spooled options", wanted_json)?;
        let declared = Declared::new(&options.columns).map_err(|error| invalid(error.to_string()))?;
        let packed = py.detach(|| Packed::open(&file)).map_err(|error| client_error(&error))?;
        if packed.kind != Kind::Messages {
            return Err(invalid("the file has no messages, only their identities"));
        }
        Ok(Self { file, packed, options, batch: Batch::new(Arc::new(declared)), done: 0 })
    }

    fn next_batch(&mut self, py: Python<'_>) -> Option<Rows> {
        py.detach(|| self.fill())
    }
}

impl Spooled {
    fn fill(&mut self) -> Option<Rows> {
        let Self { file, packed, options, batch, done } = self;
        let (mut size, mut next_offset) = (0, options.from);
        for message in packed.records(file).skip(*done) {
            let offset = packed.offsets.start + *done as u64;
            if offset >= options.to || batch.rows() >= ROWS || size + batch.expanded() >= SIZE {
                break;
            }
            *done += 1;
            if offset >= options.from {
                let origin = Origin {
                    space: options.space.as_deref(),
                    address: &options.address,
                    partition: Some(0),
                    offset: Some(offset),
                    taken_ms: Some(options.taken_ms),
                };
                batch.push(&origin, message);
                size += message.len();
                next_offset = offset + 1;
            }
        }
        (batch.rows() > 0).then(|| Rows::new(batch.finish(), next_offset, size))
    }
}
