//! `bench` for Python: the load tool with options as JSON, progress as calls a few times a second.

use enmasse_load::{Options, Progress};
use pyo3::prelude::*;
use serde_json::{Map, Value};

use crate::errors::{client_error, invalid};

/// Runs a load to its end. An exception of `progress`, or of a signal handler, ends it early.
#[pyfunction]
#[pyo3(signature = (options_json, progress=None))]
pub(crate) fn bench(py: Python<'_>, options_json: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let options = options(options_json)?;
    let mut stopped: Option<PyErr> = None;
    let result = py.detach(|| {
        enmasse_load::run(&options, &mut |step| match report_progress(progress.as_ref(), step) {
            Ok(()) => true,
            Err(error) => {
                stopped = Some(error);
                false
            }
        })
    });
    match stopped {
        Some(error) => Err(error),
        None => result.map_err(|error| client_error(&error)),
    }
}

fn report_progress(progress: Option<&Py<PyAny>>, step: Progress) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        if let Some(progress) = progress {
            progress.call1(py, (step.phase, step.fraction, step.count))?;
        }
        Ok(())
    })
}

/// Every member is an option by its name; numbers and booleans are converted to text, null means no
/// value.
fn options(json: &str) -> PyResult<Options> {
    let members: Map<String, Value> =
        serde_json::from_str(json).map_err(|error| invalid(format!("load options: {error}")))?;
    let mut options = Options::default();
    for (name, value) in members {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Array(items) => {
                let texts: Vec<_> = items.iter().map(ToString::to_string).collect();
                texts.join(",")
            }
            other => other.to_string(),
        };
        options.set(&name, &text).map_err(|error| client_error(&error))?;
    }
    Ok(options)
}
