//! Groups the rows of a batch by device and computes their changes.

use std::collections::HashMap;

use arrow_array::{Array, RecordBatch};

use crate::columns::{
    ChangeRows, DeviceRows, Devices, Error, Latest, Readings, SessionRows, StateRows, States, row_numbers,
};
use crate::follow::follow;
use crate::rules::{Detector, Rule, Rules};
use crate::silence::follow_silence;
use crate::state::{Change, NEVER_US, State};

/// The live state of the devices of a batch.
pub struct Known<'a> {
    /// Rows of `devices`.
    pub devices: &'a RecordBatch,
    /// Rows of `device_latest`.
    pub latest: &'a RecordBatch,
    /// Rows of `detector_states`.
    pub states: &'a RecordBatch,
}

/// The changes of a batch.
pub struct Followed {
    /// Numbers of the rows that are the newest of their device and metric.
    pub latest: RecordBatch,
    /// Rows of `devices`, to be replaced.
    pub devices: RecordBatch,
    /// Rows of `sessions`, whose readings are to be added.
    pub sessions: RecordBatch,
    /// Rows of `detector_states`, to be replaced.
    pub states: RecordBatch,
    /// Incidents that began or ended.
    pub changes: RecordBatch,
    /// Readings that detectors watch and that are older than the newest of an earlier batch.
    pub skipped: u64,
}

/// The changes caused by silence.
pub struct Silenced {
    /// Rows of `detector_states`, to be replaced.
    pub states: RecordBatch,
    /// Incidents that began.
    pub changes: RecordBatch,
}

/// Follows the readings of all devices of a batch.
///
/// # Errors
/// A column is missing, has another type, or has an invalid value.
pub fn follow_batch(rules: &Rules, readings: &RecordBatch, known: &Known<'_>) -> Result<Followed, Error> {
    let readings = Readings::new(readings)?;
    let devices = Devices::new(known.devices)?;
    let latest = Latest::new(known.latest)?;
    let states = States::new(known.states)?;
    let mut names = Names::default();
    let (order, bounds) = by_device(&readings, &mut names);
    let mut follower = Follower::new(rules, &readings);
    let before = Before::new(rules, &names, &devices, &latest, &states);
    for (number, bound) in bounds.windows(2).enumerate() {
        follower.follow(number, &mut order[bound[0]..bound[1]].to_vec(), &before)?;
    }
    Ok(follower.finish())
}

/// Follows the silence of devices up to a time.
///
/// # Errors
/// A column is missing, has another type, or has an invalid value.
pub fn follow_silences(rules: &Rules, states: &RecordBatch, now_us: i64) -> Result<Silenced, Error> {
    let states = States::new(states)?;
    let (mut rows, mut changed) = (StateRows::default(), ChangeRows::default());
    for row in 0..states.len() {
        let (name, device) = (states.detector.value(row), states.device.value(row));
        let Some(detector) = rules.detectors.iter().find(|one| one.name == name) else { continue };
        let mut state = states.state(row)?;
        let changes = follow_silence(detector, &mut state, &[], now_us);
        if !changes.is_empty() {
            rows.push(name, device, &state);
        }
        for change in &changes {
            changed.push(name, device, change);
        }
    }
    Ok(Silenced { states: rows.finish(), changes: changed.finish() })
}

/// Numbers for names, in the order of their first use.
#[derive(Default)]
struct Names<'a> {
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    fn number(&mut self, name: &'a str) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(name).or_insert(next)
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }
}

/// Row numbers sorted by device, and the start of each device among them, with the end of the last.
fn by_device<'a>(readings: &Readings<'a>, names: &mut Names<'a>) -> (Vec<usize>, Vec<usize>) {
    let device: &'a _ = readings.device;
    let numbers: Vec<usize> = (0..device.len()).map(|row| names.number(device.value(row))).collect();
    let mut bounds = vec![0; names.numbers.len() + 1];
    for number in &numbers {
        bounds[number + 1] += 1;
    }
    for number in 1..bounds.len() {
        bounds[number] += bounds[number - 1];
    }
    let (mut next, mut order) = (bounds.clone(), vec![0; numbers.len()]);
    for (row, number) in numbers.into_iter().enumerate() {
        order[next[number]] = row;
        next[number] += 1;
    }
    (order, bounds)
}

/// The state before the batch, by the numbers of its devices.
struct Before<'a> {
    devices: &'a Devices<'a>,
    states: &'a States<'a>,
    device_rows: Vec<Option<usize>>,
    /// of each detector
    state_rows: Vec<Vec<Option<usize>>>,
    /// by device and metric
    latest_us: HashMap<(usize, &'a str), i64>,
}

impl<'a> Before<'a> {
    fn new(
        rules: &Rules,
        names: &Names<'_>,
        devices: &'a Devices<'a>,
        latest: &'a Latest<'a>,
        states: &'a States<'a>,
    ) -> Self {
        let count = names.numbers.len();
        let mut device_rows = vec![None; count];
        for row in 0..devices.device.len() {
            if let Some(number) = names.find(devices.device.value(row)) {
                device_rows[number] = Some(row);
            }
        }
        let detectors: HashMap<&str, usize> =
            rules.detectors.iter().enumerate().map(|(number, one)| (one.name.as_str(), number)).collect();
        let mut state_rows = vec![vec![None; count]; detectors.len()];
        for row in 0..states.len() {
            let found = (detectors.get(states.detector.value(row)), names.find(states.device.value(row)));
            if let (Some(&detector), Some(number)) = found {
                state_rows[detector][number] = Some(row);
            }
        }
        let latest_us = (0..latest.device.len())
            .filter_map(|row| {
                let number = names.find(latest.device.value(row))?;
                Some(((number, latest.metric.value(row)), latest.event_us[row]))
            })
            .collect();
        Self { devices, states, device_rows, state_rows, latest_us }
    }

    fn state(&self, detector: usize, device: usize) -> Result<State, Error> {
        self.state_rows[detector][device].map_or_else(|| Ok(State::default()), |row| self.states.state(row))
    }
}

/// Collects the changes of the devices of a batch.
struct Follower<'a> {
    rules: &'a Rules,
    readings: &'a Readings<'a>,
    latest: Vec<u64>,
    devices: DeviceRows,
    sessions: SessionRows,
    states: StateRows,
    changes: ChangeRows,
    skipped: u64,
}

impl<'a> Follower<'a> {
    fn new(rules: &'a Rules, readings: &'a Readings<'a>) -> Self {
        Self {
            rules,
            readings,
            latest: Vec::new(),
            devices: DeviceRows::default(),
            sessions: SessionRows::default(),
            states: StateRows::default(),
            changes: ChangeRows::default(),
            skipped: 0,
        }
    }

    fn finish(self) -> Followed {
        Followed {
            latest: row_numbers(self.latest),
            devices: self.devices.finish(),
            sessions: self.sessions.finish(),
            states: self.states.finish(),
            changes: self.changes.finish(),
            skipped: self.skipped,
        }
    }

    /// Follows the rows of one device.
    fn follow(&mut self, number: usize, rows: &mut [usize], before: &Before<'_>) -> Result<(), Error> {
        let Readings { device, metric, value, event_us, enqueued_us, partition, offset, index } = *self.readings;
        let name = device.value(rows[0]);
        let mut arrivals: Vec<i64> = rows.iter().map(|&row| enqueued_us[row]).collect();
        arrivals.sort_unstable();
        self.record_arrivals(name, &arrivals, before.device_rows[number].map(|row| (before.devices, row)));
        for (detector, one) in self.rules.detectors.iter().enumerate() {
            if matches!(one.rule, Rule::Heartbeat { .. }) {
                let mut state = before.state(detector, number)?;
                let changes = follow_silence(one, &mut state, &arrivals, NEVER_US);
                self.record(&one.name, name, &state, &changes);
            }
        }
        // rows that differ only in their values have no natural order, so they are ordered by value
        rows.sort_by(|&a, &b| {
            let place = |row: usize| (event_us[row], partition[row], offset[row], index[row]);
            metric
                .value(a)
                .cmp(metric.value(b))
                .then_with(|| place(a).cmp(&place(b)))
                .then_with(|| value.value(a).total_cmp(&value.value(b)))
        });
        for series in rows.chunk_by(|&a, &b| metric.value(a) == metric.value(b)) {
            self.latest.push(series[series.len() - 1] as u64);
            self.watch(number, metric.value(series[0]), series, before)?;
        }
        Ok(())
    }

    /// Records the arrivals of a device, in order.
    fn record_arrivals(&mut self, name: &str, arrivals: &[i64], before: Option<(&Devices<'_>, usize)>) {
        let gap_us = self.rules.offline_after_us;
        let (first_us, last_us) = (arrivals[0], arrivals[arrivals.len() - 1]);
        let mut session_us = first_us;
        for (place, span) in arrivals.chunk_by(|a, b| b - a <= gap_us).enumerate() {
            let (begin_us, mut end_us) = (span[0], span[span.len() - 1]);
            session_us = begin_us;
            if let Some((devices, row)) = before
                && place == 0
                && first_us - devices.last_us[row] <= gap_us
            {
                // the session of an earlier batch continues
                session_us = devices.session_us[row];
                end_us = end_us.max(devices.last_us[row]);
            }
            self.sessions.push(name, session_us, end_us, length(span));
        }
        let known = before.map(|(devices, row)| (devices.first_us[row], devices.last_us[row], devices.readings[row]));
        let (was_first_us, was_last_us, readings) = known.unwrap_or((first_us, last_us, 0));
        let (first_us, last_us) = (first_us.min(was_first_us), last_us.max(was_last_us));
        self.devices.push(name, first_us, last_us, session_us, readings + length(arrivals));
    }

    /// Follows the rows of one metric of a device, in order.
    fn watch(&mut self, number: usize, metric: &str, rows: &[usize], before: &Before<'_>) -> Result<(), Error> {
        let Readings { device, value, event_us, .. } = *self.readings;
        let series = || rows.iter().filter(|&&row| value.is_valid(row)).map(|&row| (event_us[row], value.value(row)));
        let name = device.value(rows[0]);
        let watching = |one: &&Detector| one.rule.metric() == Some(metric);
        if series().next().is_none() || !self.rules.detectors.iter().any(|one| watching(&one)) {
            return Ok(());
        }
        let mut newest_us = before.latest_us.get(&(number, metric)).copied().unwrap_or(NEVER_US);
        let mut states = Vec::new();
        for (detector, one) in self.rules.detectors.iter().enumerate().filter(|(_, one)| watching(one)) {
            let state = before.state(detector, number)?;
            newest_us = newest_us.max(state.time_us);
            states.push((one, state));
        }
        for (detector, mut state) in states {
            // threshold states are stored only when an incident begins or ends, so their time may
            // be old
            state.time_us = newest_us;
            let changes = follow(detector, &mut state, series());
            let is_threshold = matches!(detector.rule, Rule::Above { .. } | Rule::Below { .. });
            if !is_threshold || !changes.is_empty() {
                self.record(&detector.name, name, &state, &changes);
            }
        }
        self.skipped += series().filter(|(time_us, _)| *time_us < newest_us).count() as u64;
        Ok(())
    }

    fn record(&mut self, detector: &str, device: &str, state: &State, changes: &[Change]) {
        self.states.push(detector, device, state);
        for change in changes {
            self.changes.push(detector, device, change);
        }
    }
}

fn length(times: &[i64]) -> i64 {
    i64::try_from(times.len()).unwrap_or(i64::MAX)
}
