//! `Client` for Python: commands in, batches of events out as tuples, no logic.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

use enmasse_amqp::sasl::Secret;
use enmasse_amqp::types::Value;
use enmasse_client::url::Url;
use enmasse_client::{ClientOptions, Event, LinkOptions, Outcome, Reason, StreamFilter, StreamOffset, TlsOptions};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyTuple};
use serde::Deserialize;

use crate::errors::{client_error, invalid};
use crate::value::{Classes, to_python};

/// The options of `Client`.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Options {
    url: Option<String>,
    fd: Option<RawFd>,
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    #[serde(default)]
    insecure: bool,
    sasl_mechanisms: Option<Vec<String>>,
    hostname: Option<String>,
    server_name: Option<String>,
    token: Option<String>,
    #[serde(default)]
    desired_capabilities: Vec<String>,
    container_id: Option<String>,
    #[serde(default = "default_idle_timeout")]
    idle_timeout_ms: Option<u64>,
    connect_timeout_ms: Option<u64>,
}

#[expect(clippy::unnecessary_wraps, reason = "null is a value of its own: never")]
fn default_idle_timeout() -> Option<u64> {
    Some(60_000)
}

impl Options {
    pub(crate) fn client_options(self, url: &str) -> PyResult<ClientOptions> {
        let url = Url::parse(url).map_err(|error| client_error(&error))?;
        let mut options = ClientOptions::new(url);
        options.tls = TlsOptions {
            ca: self.ca,
            certificate: self.certificate,
            key: self.key,
            server_name: self.server_name,
            insecure: self.insecure,
        };
        options.mechanisms = self.sasl_mechanisms;
        options.hostname = self.hostname;
        options.token = self.token.as_deref().map(Secret::new);
        options.desired_capabilities = self.desired_capabilities;
        options.container_id = self.container_id;
        options.idle_time_out = self.idle_timeout_ms.map(Duration::from_millis);
        if let Some(limit) = self.connect_timeout_ms {
            options.connect_time_out = Duration::from_millis(limit);
        }
        Ok(options)
    }
}

/// Options of a link.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Link {
    name: Option<String>,
    settled: bool,
    browse: bool,
    capabilities: Vec<String>,
    selector: Option<String>,
    stream: Option<Reading>,
    max_message_size: Option<u64>,
}

/// The range of a stream for a receiver.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Reading {
    from: From,
    partition: Option<u32>,
}

/// The start of the range.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum From {
    First,
    Last,
    Next,
    Offset(u64),
    TimeMs(i64),
}

impl Reading {
    fn filter(&self) -> StreamFilter {
        let offset = match self.from {
            From::First => StreamOffset::First,
            From::Last => StreamOffset::Last,
            From::Next => StreamOffset::Next,
            From::Offset(offset) => StreamOffset::Offset(offset),
            From::TimeMs(at_ms) => StreamOffset::Time(at_ms),
        };
        StreamFilter { offset, partition: self.partition }
    }
}

impl Link {
    fn parse(json: &str) -> PyResult<LinkOptions> {
        let link: Self = serde_json::from_str(json).map_err(|error| invalid(format!("link options: {error}")))?;
        Ok(LinkOptions {
            name: link.name,
            settled: link.settled,
            browse: link.browse,
            capabilities: link.capabilities,
            selector: link.selector,
            stream: link.stream.as_ref().map(Reading::filter),
            producer: None,
            max_message_size: link.max_message_size,
        })
    }
}

/// One connection to an AMQP server.
#[pyclass(frozen, module = "enmasse._native")]
pub(crate) struct Client {
    client: enmasse_client::Client,
}

#[pymethods]
impl Client {
    #[new]
    fn new(py: Python<'_>, options_json: &str) -> PyResult<Self> {
        let options: Options =
            serde_json::from_str(options_json).map_err(|error| invalid(format!("client options: {error}")))?;
        let client = match (options.fd, options.url.clone()) {
            (Some(fd), None) => {
                let socket = owned(fd)?;
                py.detach(|| enmasse_client::Client::in_process(socket, options.container_id))
            }
            (None, Some(url)) => {
                let options = options.client_options(&url)?;
                py.detach(|| enmasse_client::Client::connect(&options))
            }
            _ => return Err(invalid("client options: give either url or fd")),
        };
        Ok(Self { client: client.map_err(|error| client_error(&error))? })
    }

    fn event_fd(&self) -> RawFd {
        self.client.event_fd().as_raw_fd()
    }

    fn poll<'py>(&self, py: Python<'py>, max_count: usize) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let events = py.detach(|| self.client.poll(max_count));
        events.into_iter().map(|event| event_tuple(py, event)).collect()
    }

    #[pyo3(signature = (address, options_json="{}"))]
    fn attach_sender(&self, address: Option<String>, options_json: &str) -> PyResult<u32> {
        let options = Link::parse(options_json)?;
        self.client.attach_sender(address, options).map_err(|error| client_error(&error))
    }

    #[pyo3(signature = (address, options_json="{}"))]
    fn attach_receiver(&self, address: Option<String>, options_json: &str) -> PyResult<u32> {
        let options = Link::parse(options_json)?;
        self.client.attach_receiver(address, options).map_err(|error| client_error(&error))
    }

    #[pyo3(signature = (link, messages, settled=false))]
    fn send(&self, py: Python<'_>, link: u32, messages: Vec<PyBackedBytes>, settled: bool) -> PyResult<u32> {
        py.detach(|| self.client.send(link, &mut messages.iter().map(|message| &**message), settled))
            .map_err(|error| client_error(&error))
    }

    fn credit(&self, link: u32, count: u32) {
        self.client.credit(link, count);
    }

    fn drain(&self, link: u32) {
        self.client.drain(link);
    }

    fn settle(&self, link: u32, first: u64, last: u64, outcome: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.client.settle(link, first, last, outcome_of(outcome)?);
        Ok(())
    }

    fn detach(&self, link: u32) {
        self.client.detach(link);
    }

    fn close(&self) {
        self.client.close();
    }
}

/// Takes ownership of a descriptor.
fn owned(fd: RawFd) -> PyResult<OwnedFd> {
    if fd < 0 {
        return Err(invalid(format!("fd is {fd}: it must be the descriptor of a connected socket")));
    }
    // SAFETY: the caller passes ownership of the descriptor, as `_native.pyi` states.
    #[expect(unsafe_code, reason = "Python has no owned descriptors")]
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn event_tuple(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyTuple>> {
    match event {
        Event::Opened { properties } => {
            let properties: Vec<_> = properties.into_iter().map(|(name, value)| (Value::Symbol(name), value)).collect();
            ("opened", to_python(py, Classes::get(py)?, Value::Map(properties))?).into_pyobject(py)
        }
        Event::Attached { link, address, filters, .. } => ("attached", link, address, filters).into_pyobject(py),
        Event::Refused { link, reason } => {
            let (condition, description) = split(reason);
            ("refused", link, condition, description).into_pyobject(py)
        }
        Event::Detached { link, reason } => {
            let (condition, description) = split(reason);
            ("detached", link, condition, description).into_pyobject(py)
        }
        Event::Credit { link, credit } => ("credit", link, credit).into_pyobject(py),
        Event::Message { link, delivery, settled, payload } => {
            ("message", link, delivery, settled, PyBytes::new(py, &payload)).into_pyobject(py)
        }
        Event::Settled { link, first, last, outcome } => {
            ("settled", link, first, last, outcome_tuple(py, outcome)?).into_pyobject(py)
        }
        Event::Drained { link, .. } => ("drained", link).into_pyobject(py),
        Event::Closed { reason } => {
            let (condition, description) = split(reason);
            ("closed", condition, description).into_pyobject(py)
        }
    }
}

fn split(reason: Option<Reason>) -> (Option<String>, Option<String>) {
    reason.map_or((None, None), |reason| (Some(reason.condition), Some(reason.description)))
}

fn outcome_tuple(py: Python<'_>, outcome: Outcome) -> PyResult<Bound<'_, PyTuple>> {
    match outcome {
        Outcome::Accepted => ("accepted",).into_pyobject(py),
        Outcome::Released => ("released",).into_pyobject(py),
        Outcome::Rejected { error: None } => ("rejected", None::<String>, None::<String>).into_pyobject(py),
        Outcome::Rejected { error: Some((condition, description)) } => {
            ("rejected", condition, description).into_pyobject(py)
        }
        Outcome::Modified { delivery_failed, undeliverable_here } => {
            ("modified", delivery_failed, undeliverable_here).into_pyobject(py)
        }
    }
}

fn outcome_of(outcome: &Bound<'_, PyTuple>) -> PyResult<Outcome> {
    let name: String = outcome.get_item(0)?.extract()?;
    Ok(match name.as_str() {
        "accepted" => Outcome::Accepted,
        "released" => Outcome::Released,
        "rejected" => {
            let (_, condition, description): (String, Option<String>, Option<String>) = outcome.extract()?;
            Outcome::Rejected { error: condition.map(|condition| (condition, description)) }
        }
        "modified" => {
            let (_, delivery_failed, undeliverable_here): (String, bool, bool) = outcome.extract()?;
            Outcome::Modified { delivery_failed, undeliverable_here }
        }
        _ => return Err(invalid(format!("outcome {name:?}: it must be accepted, released, rejected or modified"))),
    })
}
