//! Detection: columns and states in, states and changes out.

use enmasse_detect::{Error, Known, Rules};
use pyo3::prelude::*;

use crate::errors::invalid;
use crate::outbox::record_batch;
use crate::stream::{Rows, parse};

/// Newest rows, devices, sessions, states, changes, and how many readings were skipped.
type Followed = (Rows, Rows, Rows, Rows, Rows, u64);

/// Follows the readings of a batch.
#[pyfunction]
pub(crate) fn follow_batch(
    py: Python<'_>,
    rules_json: &str,
    readings: &Bound<'_, PyAny>,
    devices: &Bound<'_, PyAny>,
    latest: &Bound<'_, PyAny>,
    states: &Bound<'_, PyAny>,
) -> PyResult<Followed> {
    let rules: Rules = parse("rules", rules_json)?;
    let readings = record_batch(readings)?;
    let (devices, latest, states) = (record_batch(devices)?, record_batch(latest)?, record_batch(states)?);
    let known = Known { devices: &devices, latest: &latest, states: &states };
    let found = py.detach(|| enmasse_detect::follow_batch(&rules, &readings, &known)).map_err(refused)?;
    let [latest, devices, sessions, states, changes] =
        [found.latest, found.devices, found.sessions, found.states, found.changes].map(|rows| Rows::new(rows, 0, 0));
    Ok((latest, devices, sessions, states, changes, found.skipped))
}

/// Follows the silence of devices.
#[pyfunction]
pub(crate) fn follow_silences(
    py: Python<'_>,
    rules_json: &str,
    states: &Bound<'_, PyAny>,
    now_us: i64,
) -> PyResult<(Rows, Rows)> {
    let rules: Rules = parse("rules", rules_json)?;
    let states = record_batch(states)?;
    let found = py.detach(|| enmasse_detect::follow_silences(&rules, &states, now_us)).map_err(refused)?;
    Ok((Rows::new(found.states, 0, 0), Rows::new(found.changes, 0, 0)))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn refused(error: Error) -> PyErr {
    invalid(error.to_string())
}
