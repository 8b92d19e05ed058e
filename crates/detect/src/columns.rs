//! Converts record batches to typed columns and back.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, PrimitiveArray, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use thiserror::Error;

use crate::extremes::Extremes;
use crate::state::{Change, State, What};

/// A column is missing, has another type, or has an invalid value.
#[derive(Debug, Error)]
#[error("column {column}: {problem}")]
pub struct Error {
    column: &'static str,
    problem: String,
}

impl Error {
    fn new(column: &'static str, problem: impl Into<String>) -> Self {
        Self { column, problem: problem.into() }
    }
}

fn column<'a>(batch: &'a RecordBatch, name: &'static str, kind: &DataType) -> Result<&'a ArrayRef, Error> {
    let found = batch.column_by_name(name).ok_or_else(|| Error::new(name, "is missing"))?;
    let is_time = |kind: &DataType| matches!(kind, DataType::Timestamp(TimeUnit::Microsecond, _));
    if found.data_type() != kind && !(is_time(kind) && is_time(found.data_type())) {
        return Err(Error::new(name, format!("is {}, and must be {kind}", found.data_type())));
    }
    Ok(found)
}

fn filled<'a>(batch: &'a RecordBatch, name: &'static str, kind: &DataType) -> Result<&'a ArrayRef, Error> {
    let found = column(batch, name, kind)?;
    if found.null_count() > 0 { Err(Error::new(name, "has nulls")) } else { Ok(found) }
}

fn texts<'a>(batch: &'a RecordBatch, name: &'static str) -> Result<&'a StringArray, Error> {
    Ok(filled(batch, name, &DataType::Utf8)?.as_string())
}

fn longs<'a>(batch: &'a RecordBatch, name: &'static str) -> Result<&'a [i64], Error> {
    Ok(filled(batch, name, &DataType::Int64)?.as_primitive::<Int64Type>().values())
}

fn ints<'a>(batch: &'a RecordBatch, name: &'static str) -> Result<&'a [i32], Error> {
    Ok(filled(batch, name, &DataType::Int32)?.as_primitive::<Int32Type>().values())
}

fn doubles<'a>(batch: &'a RecordBatch, name: &'static str) -> Result<&'a [f64], Error> {
    Ok(filled(batch, name, &DataType::Float64)?.as_primitive::<Float64Type>().values())
}

fn times<'a>(batch: &'a RecordBatch, name: &'static str) -> Result<&'a [i64], Error> {
    let kind = DataType::Timestamp(TimeUnit::Microsecond, None);
    let found: &PrimitiveArray<TimestampMicrosecondType> = filled(batch, name, &kind)?.as_primitive();
    Ok(found.values())
}

/// Readings of silver.
pub(crate) struct Readings<'a> {
    pub(crate) device: &'a StringArray,
    pub(crate) metric: &'a StringArray,
    /// null where a reading is text
    pub(crate) value: &'a Float64Array,
    pub(crate) event_us: &'a [i64],
    pub(crate) enqueued_us: &'a [i64],
    pub(crate) partition: &'a [i32],
    pub(crate) offset: &'a [i64],
    pub(crate) index: &'a [i32],
}

impl<'a> Readings<'a> {
    pub(crate) fn new(batch: &'a RecordBatch) -> Result<Self, Error> {
        Ok(Self {
            device: texts(batch, "device")?,
            metric: texts(batch, "metric")?,
            value: column(batch, "value", &DataType::Float64)?.as_primitive(),
            event_us: times(batch, "event_time")?,
            enqueued_us: times(batch, "enqueued_time")?,
            partition: ints(batch, "partition")?,
            offset: longs(batch, "offset")?,
            index: ints(batch, "index")?,
        })
    }
}

/// Rows of `devices`.
pub(crate) struct Devices<'a> {
    pub(crate) device: &'a StringArray,
    pub(crate) first_us: &'a [i64],
    pub(crate) last_us: &'a [i64],
    pub(crate) session_us: &'a [i64],
    pub(crate) readings: &'a [i64],
}

impl<'a> Devices<'a> {
    pub(crate) fn new(batch: &'a RecordBatch) -> Result<Self, Error> {
        Ok(Self {
            device: texts(batch, "device")?,
            first_us: longs(batch, "first_seen_us")?,
            last_us: longs(batch, "last_seen_us")?,
            session_us: longs(batch, "session_began_us")?,
            readings: longs(batch, "readings")?,
        })
    }
}

/// Times of the newest readings.
pub(crate) struct Latest<'a> {
    pub(crate) device: &'a StringArray,
    pub(crate) metric: &'a StringArray,
    pub(crate) event_us: &'a [i64],
}

impl<'a> Latest<'a> {
    pub(crate) fn new(batch: &'a RecordBatch) -> Result<Self, Error> {
        Ok(Self {
            device: texts(batch, "device")?,
            metric: texts(batch, "metric")?,
            event_us: longs(batch, "event_time_us")?,
        })
    }
}

/// Rows of `detector_states`.
pub(crate) struct States<'a> {
    pub(crate) detector: &'a StringArray,
    pub(crate) device: &'a StringArray,
    time_us: &'a [i64],
    value: &'a [f64],
    is_open: &'a BooleanArray,
    began_us: &'a [i64],
    count: &'a [i64],
    mean: &'a [f64],
    variance: &'a [f64],
    recent: &'a StringArray,
}

impl<'a> States<'a> {
    pub(crate) fn new(batch: &'a RecordBatch) -> Result<Self, Error> {
        Ok(Self {
            detector: texts(batch, "detector")?,
            device: texts(batch, "device")?,
            time_us: longs(batch, "time_us")?,
            value: doubles(batch, "value")?,
            is_open: filled(batch, "is_open", &DataType::Boolean)?.as_boolean(),
            began_us: longs(batch, "began_us")?,
            count: longs(batch, "count")?,
            mean: doubles(batch, "mean")?,
            variance: doubles(batch, "variance")?,
            recent: column(batch, "recent", &DataType::Utf8)?.as_string(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.time_us.len()
    }

    pub(crate) fn state(&self, row: usize) -> Result<State, Error> {
        let read = |text: &str| serde_json::from_str(text).map_err(|error| Error::new("recent", error.to_string()));
        let recent: Option<Extremes> = self.recent.is_valid(row).then(|| read(self.recent.value(row))).transpose()?;
        Ok(State {
            time_us: self.time_us[row],
            value: self.value[row],
            is_open: self.is_open.value(row),
            began_us: self.began_us[row],
            count: self.count[row],
            mean: self.mean[row],
            variance: self.variance[row],
            recent,
        })
    }
}

fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns of one length")
}

/// Rows of the input, by their numbers.
pub(crate) fn row_numbers(rows: Vec<u64>) -> RecordBatch {
    batch([("row", Arc::new(UInt64Array::from(rows)))])
}

/// The current state of devices with readings.
#[derive(Default)]
pub(crate) struct DeviceRows {
    device: StringBuilder,
    times: [Int64Builder; 3],
    readings: Int64Builder,
}

impl DeviceRows {
    pub(crate) fn push(&mut self, device: &str, first_us: i64, last_us: i64, session_us: i64, readings: i64) {
        self.device.append_value(device);
        for (column, time_us) in self.times.iter_mut().zip([first_us, last_us, session_us]) {
            column.append_value(time_us);
        }
        self.readings.append_value(readings);
    }

    pub(crate) fn finish(mut self) -> RecordBatch {
        let [first, last, session] = self.times.each_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
        batch([
            ("device", Arc::new(self.device.finish())),
            ("first_seen_us", first),
            ("last_seen_us", last),
            ("session_began_us", session),
            ("readings", Arc::new(self.readings.finish())),
        ])
    }
}

/// Sessions that began or continued.
#[derive(Default)]
pub(crate) struct SessionRows {
    device: StringBuilder,
    began_us: Int64Builder,
    last_us: Int64Builder,
    readings: Int64Builder,
}

impl SessionRows {
    pub(crate) fn push(&mut self, device: &str, began_us: i64, last_us: i64, readings: i64) {
        self.device.append_value(device);
        self.began_us.append_value(began_us);
        self.last_us.append_value(last_us);
        self.readings.append_value(readings);
    }

    pub(crate) fn finish(mut self) -> RecordBatch {
        batch([
            ("device", Arc::new(self.device.finish())),
            ("began_us", Arc::new(self.began_us.finish())),
            ("last_us", Arc::new(self.last_us.finish())),
            ("readings", Arc::new(self.readings.finish())),
        ])
    }
}

/// States that changed.
#[derive(Default)]
pub(crate) struct StateRows {
    detector: StringBuilder,
    device: StringBuilder,
    time_us: Int64Builder,
    value: Float64Builder,
    is_open: BooleanBuilder,
    began_us: Int64Builder,
    count: Int64Builder,
    mean: Float64Builder,
    variance: Float64Builder,
    recent: StringBuilder,
}

impl StateRows {
    pub(crate) fn push(&mut self, detector: &str, device: &str, state: &State) {
        self.detector.append_value(detector);
        self.device.append_value(device);
        self.time_us.append_value(state.time_us);
        self.value.append_value(state.value);
        self.is_open.append_value(state.is_open);
        self.began_us.append_value(state.began_us);
        self.count.append_value(state.count);
        self.mean.append_value(state.mean);
        self.variance.append_value(state.variance);
        let recent = state.recent.as_ref();
        self.recent.append_option(recent.map(|one| serde_json::to_string(one).expect("numbers are JSON")));
    }

    pub(crate) fn finish(mut self) -> RecordBatch {
        batch([
            ("detector", Arc::new(self.detector.finish())),
            ("device", Arc::new(self.device.finish())),
            ("time_us", Arc::new(self.time_us.finish())),
            ("value", Arc::new(self.value.finish())),
            ("is_open", Arc::new(self.is_open.finish())),
            ("began_us", Arc::new(self.began_us.finish())),
            ("count", Arc::new(self.count.finish())),
            ("mean", Arc::new(self.mean.finish())),
            ("variance", Arc::new(self.variance.finish())),
            ("recent", Arc::new(self.recent.finish())),
        ])
    }
}

/// Incidents that began or ended.
#[derive(Default)]
pub(crate) struct ChangeRows {
    detector: StringBuilder,
    device: StringBuilder,
    is_open: BooleanBuilder,
    time_us: Int64Builder,
    value: Float64Builder,
    began_us: Int64Builder,
    reason: StringBuilder,
}

impl ChangeRows {
    pub(crate) fn push(&mut self, detector: &str, device: &str, change: &Change) {
        self.detector.append_value(detector);
        self.device.append_value(device);
        self.is_open.append_value(change.what == What::Began);
        self.time_us.append_value(change.time_us);
        self.value.append_option(change.value);
        self.began_us.append_value(change.began_us);
        self.reason.append_value(&change.reason);
    }

    pub(crate) fn finish(mut self) -> RecordBatch {
        batch([
            ("detector", Arc::new(self.detector.finish())),
            ("device", Arc::new(self.device.finish())),
            ("is_open", Arc::new(self.is_open.finish())),
            ("time_us", Arc::new(self.time_us.finish())),
            ("value", Arc::new(self.value.finish())),
            ("began_us", Arc::new(self.began_us.finish())),
            ("reason", Arc::new(self.reason.finish())),
        ])
    }
}
