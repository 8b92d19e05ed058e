//! Incidents: their begin and end, independent of batch boundaries and of the order of rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{Field, Schema};
use enmasse_detect::{
    Change, Detector, Known, NEVER_US, Rule, Rules, State, What, follow, follow_batch, follow_silence, follow_silences,
};
use proptest::prelude::*;

const S: i64 = 1_000_000;

fn detector(rule: Rule, cooldown_s: i64) -> Detector {
    Detector { name: "d".to_owned(), cooldown_us: cooldown_s * S, rule }
}

fn above(limit: f64, clear: f64) -> Rule {
    Rule::Above { metric: "m".to_owned(), limit, clear }
}

fn below(limit: f64, clear: f64) -> Rule {
    Rule::Below { metric: "m".to_owned(), limit, clear }
}

fn rate(above: f64, per_s: i64) -> Rule {
    Rule::Rate { metric: "m".to_owned(), above, per_us: per_s * S }
}

fn ewma(deviations: f64, alpha: f64, warmup: i64) -> Rule {
    Rule::Ewma { metric: "m".to_owned(), deviations, alpha, warmup }
}

fn each_second(values: &[f64]) -> Vec<(i64, f64)> {
    (0..).zip(values).map(|(second, value)| (second * S, *value)).collect()
}

fn followed(detector: &Detector, series: &[(i64, f64)]) -> Vec<Change> {
    follow(detector, &mut State::default(), series.iter().copied())
}

fn told(changes: &[Change]) -> Vec<(What, i64)> {
    changes.iter().map(|change| (change.what, change.time_us / S)).collect()
}

use What::{Began, Ended};

#[test]
fn a_threshold_has_hysteresis() {
    let changes =
        followed(&detector(above(30.0, 28.0), 0), &each_second(&[29.0, 31.0, 29.0, 32.0, 28.0, 29.0, 30.0, 30.5]));
    assert_eq!(told(&changes), [(Began, 1), (Ended, 4), (Began, 7)]);
    assert_eq!(changes[0].reason, "31 is above 30");
    assert_eq!(changes[1].began_us, S);
    let changes = followed(&detector(below(3.0, 3.0), 0), &each_second(&[4.0, 3.0, 2.5, 3.0]));
    assert_eq!(told(&changes), [(Began, 2), (Ended, 3)]);
}

#[test]
fn no_incident_begins_during_the_cool_down() {
    let values = [31.0, 20.0, 31.0, 20.0, 31.0, 31.0, 31.0, 20.0, 31.0];
    let changes = followed(&detector(above(30.0, 30.0), 5), &each_second(&values));
    assert_eq!(told(&changes), [(Began, 0), (Ended, 1), (Began, 5), (Ended, 7)]);
}

#[test]
fn rate_detects_a_change_within_its_period_in_both_directions() {
    let jump = detector(rate(5.0, 60), 0);
    // 5 is not above the limit of 5. 19 differs from 25 by 6. After a minute 25 is too old.
    let series = [(0, 20.0), (60 * S, 25.0), (70 * S, 24.0), (80 * S, 19.0), (120 * S, 20.0), (121 * S, 20.0)];
    let changes = followed(&jump, &series);
    assert_eq!(told(&changes), [(Began, 80), (Ended, 120)]);
    assert_eq!(changes[0].reason, "changed by 6 within 20 s, more than 5 within 60 s");
}

#[test]
fn rate_detects_slow_drift_and_ignores_small_steep_steps() {
    let jump = detector(rate(5.0, 60), 0);
    let drift: Vec<_> = (0..60).map(|second| f64::from(second) * 0.2).collect();
    assert_eq!(told(&followed(&jump, &each_second(&drift))), [(Began, 26)]);
    // a tenth in a millisecond is steep, and small
    let noise: Vec<_> = (0..1000).map(|step| (step * 1000, if step % 2 == 0 { 20.0 } else { 20.1 })).collect();
    assert_eq!(followed(&jump, &noise), []);
    // readings further apart than the period do not count
    assert_eq!(followed(&jump, &[(0, 1.0), (61 * S, 100.0)]), []);
}

#[test]
fn a_rate_continues_from_a_state_without_recent_readings() {
    let jump = detector(rate(5.0, 60), 0);
    let mut state = State { time_us: 10 * S, value: 20.0, count: 3, ..State::default() };
    assert_eq!(told(&follow(&jump, &mut state, [(20 * S, 30.0)])), [(Began, 20)]);
}

#[test]
fn outlier_is_reported_after_the_warm_up() {
    let odd = detector(ewma(4.0, 0.1, 20), 0);
    let usual: Vec<_> = (0..40).map(|number| 20.0 + 0.1 * f64::from(number % 5)).collect();
    let values: Vec<_> = usual.iter().copied().chain([30.0]).chain(usual.iter().copied()).collect();
    assert_eq!(told(&followed(&odd, &each_second(&values))), [(Began, 40), (Ended, 41)]);
    let early: Vec<_> = usual[..10].iter().copied().chain([30.0]).collect();
    assert_eq!(followed(&odd, &each_second(&early)), []);
}

#[test]
fn persistent_level_becomes_the_new_mean() {
    let odd = detector(ewma(4.0, 0.1, 20), 0);
    let usual = (0..200).map(|number| 20.0 + 0.1 * f64::from(number % 5));
    let values: Vec<_> = usual.clone().chain(usual.map(|value| value + 5.0)).collect();
    let changes = followed(&odd, &each_second(&values));
    assert_eq!(changes[0].what, Began);
    assert_eq!(changes[changes.len() - 1].what, Ended);
}

#[test]
fn any_change_of_a_constant_series_is_an_outlier() {
    let values: Vec<_> = [7.0; 10].into_iter().chain([7.5]).collect();
    let changes = followed(&detector(ewma(4.0, 0.05, 5), 0), &each_second(&values));
    assert_eq!(told(&changes), [(Began, 10)]);
    assert_eq!(changes[0].reason, "7.5 is infinitely many deviations from the mean 7");
}

#[test]
fn readings_older_than_the_last_are_skipped() {
    let hot = detector(above(30.0, 30.0), 0);
    let mut state = State::default();
    follow(&hot, &mut state, [(10 * S, 20.0)]);
    let before = state.clone();
    assert_eq!(follow(&hot, &mut state, [(5 * S, 99.0)]), []);
    assert_eq!(state, before);
}

fn silent(cooldown_s: i64) -> Detector {
    detector(Rule::Heartbeat { timeout_us: 10 * S }, cooldown_s)
}

#[test]
fn silence_is_reported_at_its_deadline_and_ends_with_a_message() {
    let (silent, mut state) = (silent(0), State::default());
    assert_eq!(follow_silence(&silent, &mut state, &[0, 5 * S], 15 * S), []);
    let changes = follow_silence(&silent, &mut state, &[], 16 * S);
    assert_eq!(told(&changes), [(Began, 15)]);
    assert_eq!(changes[0].reason, "nothing for more than 10 s");
    assert_eq!(follow_silence(&silent, &mut state, &[], 100 * S), []);
    let changes = follow_silence(&silent, &mut state, &[120 * S], 121 * S);
    assert_eq!(told(&changes), [(Ended, 120)]);
    assert_eq!(changes[0].began_us, 15 * S);
}

#[test]
fn silence_detected_late_is_reported_with_the_same_times() {
    let silent = silent(0);
    let known = State { count: 1, time_us: 5 * S, ..State::default() };
    let (mut watched, mut alone) = (known.clone(), known);
    let mut changes = follow_silence(&silent, &mut watched, &[], 16 * S);
    changes.extend(follow_silence(&silent, &mut watched, &[120 * S], 121 * S));
    assert_eq!(follow_silence(&silent, &mut alone, &[120 * S], 121 * S), changes);
    assert_eq!(alone, watched);
}

#[test]
fn silence_beyond_the_cool_down_is_reported_when_the_cool_down_ends() {
    let (silent, mut state) = (silent(100), State::default());
    let changes = follow_silence(&silent, &mut state, &[0, 20 * S], 21 * S);
    assert_eq!(told(&changes), [(Began, 10), (Ended, 20)]);
    let before = state.clone();
    for second in 22..111 {
        assert_eq!(follow_silence(&silent, &mut state, &[], second * S), []);
    }
    assert_eq!(told(&follow_silence(&silent, &mut state, &[], 111 * S)), [(Began, 110)]);
    let (mut returned, mut early) = (before.clone(), before);
    let changes = follow_silence(&silent, &mut returned, &[300 * S], 301 * S);
    assert_eq!(told(&changes), [(Began, 110), (Ended, 300)]);
    assert_eq!(follow_silence(&silent, &mut early, &[109 * S], 112 * S), []);
}

#[test]
fn unseen_device_is_not_reported_silent() {
    let mut state = State::default();
    assert_eq!(follow_silence(&silent(0), &mut state, &[], 1_000_000_000 * S), []);
    assert_eq!(state, State::default());
}

fn rules() -> impl Strategy<Value = Detector> {
    let rule = prop_oneof![
        Just((above(1.0, -1.0), 0)),
        Just((below(0.0, 0.0), 30)),
        Just((rate(2.0, 1), 5)),
        Just((rate(3.0, 7), 0)),
        Just((ewma(1.5, 0.05, 3), 10)),
    ];
    rule.prop_map(|(rule, cooldown_s)| detector(rule, cooldown_s))
}

fn series() -> impl Strategy<Value = Vec<(i64, f64)>> {
    prop::collection::vec((0..4_i64, -3.0..3.0_f64), 0..40).prop_map(|steps| {
        let mut time_us = 0;
        let add = |(step, value)| {
            time_us += step * S;
            (time_us, value)
        };
        steps.into_iter().map(add).collect()
    })
}

proptest! {
    #[test]
    fn incidents_do_not_depend_on_batch_boundaries(detector in rules(), series in series(), cut in 0..40_usize) {
        let (mut whole, mut parts) = (State::default(), State::default());
        let changes = follow(&detector, &mut whole, series.iter().copied());
        let (first, second) = series.split_at(cut.min(series.len()));
        let mut found = follow(&detector, &mut parts, first.iter().copied());
        found.extend(follow(&detector, &mut parts, second.iter().copied()));
        prop_assert_eq!(&found, &changes);
        prop_assert_eq!(&parts, &whole);
        // Begins and ends alternate, and begins are at least one cool-down apart.
        let expected = [Began, Ended].into_iter().cycle();
        prop_assert!(changes.iter().map(|change| change.what).eq(expected.take(changes.len())));
        let began: Vec<_> = changes.iter().filter(|one| one.what == Began).map(|one| one.time_us).collect();
        prop_assert!(began.windows(2).all(|pair| pair[1] > pair[0] && pair[1] - pair[0] >= detector.cooldown_us));
        prop_assert_eq!(whole.is_open, changes.last().is_some_and(|last| last.what == Began));
    }
}

/// A reading: device, metric, value, second of the event, second of the arrival; its offset is its
/// place.
type Row = (&'static str, &'static str, Option<f64>, i64, i64);

fn table<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn readings(rows: &[(i64, Row)]) -> RecordBatch {
    let times = |of: fn(&Row) -> i64| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, row)| Some(of(row) * S)).collect::<TimestampMicrosecondArray>())
    };
    table([
        ("device", Arc::new(rows.iter().map(|(_, row)| Some(row.0)).collect::<StringArray>())),
        ("metric", Arc::new(rows.iter().map(|(_, row)| Some(row.1)).collect::<StringArray>())),
        ("value", Arc::new(rows.iter().map(|(_, row)| row.2).collect::<Float64Array>())),
        ("event_time", times(|row| row.3)),
        ("enqueued_time", times(|row| row.4)),
        ("partition", Arc::new(rows.iter().map(|_| Some(0)).collect::<Int32Array>())),
        ("offset", Arc::new(rows.iter().map(|(offset, _)| Some(*offset)).collect::<Int64Array>())),
        ("index", Arc::new(rows.iter().map(|_| Some(0)).collect::<Int32Array>())),
    ])
}

fn longs(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn strings(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn no_devices() -> RecordBatch {
    let columns = ["first_seen_us", "last_seen_us", "session_began_us", "readings"].map(|name| (name, longs(&[])));
    let [first, last, session, readings] = columns;
    table([("device", strings(&[])), first, last, session, readings])
}

fn no_latest() -> RecordBatch {
    table([("device", strings(&[])), ("metric", strings(&[])), ("event_time_us", longs(&[]))])
}

fn states(devices: &[&str], time_us: i64) -> RecordBatch {
    let count = devices.len();
    let zeros = || -> ArrayRef { Arc::new(Float64Array::from(vec![0.0; count])) };
    table([
        ("detector", strings(&vec!["d"; count])),
        ("device", strings(devices)),
        ("time_us", longs(&vec![time_us; count])),
        ("value", zeros()),
        ("is_open", Arc::new(BooleanArray::from(vec![false; count]))),
        ("began_us", longs(&vec![NEVER_US; count])),
        ("count", longs(&vec![1; count])),
        ("mean", zeros()),
        ("variance", zeros()),
        ("recent", Arc::new(StringArray::from(vec![None::<&str>; count]))),
    ])
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Vec<&'a str> {
    batch[name].as_string::<i32>().iter().flatten().collect()
}

fn numbers(batch: &RecordBatch, name: &str) -> Vec<i64> {
    batch[name].as_primitive::<Int64Type>().values().to_vec()
}

fn numbered(rows: &[Row]) -> Vec<(i64, Row)> {
    (0..).zip(rows.iter().copied()).collect()
}

#[test]
fn a_batch_gives_the_newest_rows_devices_sessions_and_incidents() {
    let rules = Rules { offline_after_us: 100 * S, detectors: vec![detector(above(30.0, 30.0), 0)] };
    let rows = [
        ("b", "m", Some(31.0), 7, 9),
        ("a", "m", Some(40.0), 2, 3),
        ("a", "n", None, 1, 3),
        ("a", "m", Some(20.0), 5, 300),
        ("b", "m", Some(1.0), 6, 8),
    ];
    let (devices, latest, known) = (no_devices(), no_latest(), states(&[], 0));
    let known = Known { devices: &devices, latest: &latest, states: &known };
    let found = follow_batch(&rules, &readings(&numbered(&rows)), &known).unwrap();
    assert_eq!(found.latest["row"].as_primitive::<UInt64Type>().values(), &[0, 3, 2]);
    assert_eq!(column(&found.devices, "device"), ["b", "a"]);
    assert_eq!(numbers(&found.devices, "first_seen_us"), [8 * S, 3 * S]);
    assert_eq!(numbers(&found.devices, "last_seen_us"), [9 * S, 300 * S]);
    assert_eq!(numbers(&found.devices, "session_began_us"), [8 * S, 300 * S]);
    assert_eq!(numbers(&found.devices, "readings"), [2, 3]);
    assert_eq!(column(&found.sessions, "device"), ["b", "a", "a"]);
    assert_eq!(numbers(&found.sessions, "began_us"), [8 * S, 3 * S, 300 * S]);
    assert_eq!(numbers(&found.sessions, "readings"), [2, 2, 1]);
    assert_eq!(column(&found.changes, "device"), ["b", "a", "a"]);
    assert_eq!(numbers(&found.changes, "time_us"), [7 * S, 2 * S, 5 * S]);
    assert_eq!(column(&found.states, "device"), ["b", "a"]);
    assert_eq!(found.skipped, 0);
}

#[test]
fn readings_older_than_earlier_batches_are_counted_as_skipped() {
    let rules = Rules { offline_after_us: S, detectors: vec![detector(above(30.0, 30.0), 0)] };
    let rows = [
        ("a", "m", Some(99.0), 4, 9),
        ("a", "m", Some(99.0), 3, 9),
        ("a", "m", Some(1.0), 5, 9),
        ("a", "n", Some(99.0), 1, 9),
    ];
    let latest = table([("device", strings(&["a"])), ("metric", strings(&["m"])), ("event_time_us", longs(&[5 * S]))]);
    let (devices, known) = (no_devices(), states(&["a"], 2 * S));
    let known = Known { devices: &devices, latest: &latest, states: &known };
    let found = follow_batch(&rules, &readings(&numbered(&rows)), &known).unwrap();
    assert_eq!(found.skipped, 2);
    assert_eq!(found.changes.num_rows(), 0);
}

#[test]
fn silence_of_several_devices_is_reported_together() {
    let rules = Rules { offline_after_us: S, detectors: vec![silent(0)] };
    let found = follow_silences(&rules, &states(&["a", "b"], 5 * S), 15 * S).unwrap();
    assert_eq!(found.states.num_rows(), 0);
    let found = follow_silences(&rules, &states(&["a", "b"], 5 * S), 16 * S).unwrap();
    assert_eq!(column(&found.changes, "device"), ["a", "b"]);
    assert_eq!(column(&found.states, "device"), ["a", "b"]);
}

#[test]
fn missing_column_is_named_in_the_error() {
    let rules = Rules { offline_after_us: S, detectors: Vec::new() };
    let error = follow_silences(&rules, &no_latest(), 0).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "column detector: is missing");
}

proptest! {
    #[test]
    fn incidents_do_not_depend_on_row_order(
        rows in prop::collection::vec((0..3_usize, 0..2_usize, -3.0..3.0_f64, 0..20_i64, 0..20_i64), 1..40),
        seed: u64,
    ) {
        let rows: Vec<Row> = rows
            .into_iter()
            .map(|(device, metric, value, event_s, arrival_s)| {
                (["a", "b", "c"][device], ["m", "n"][metric], Some(value), event_s, arrival_s)
            })
            .collect();
        let rules = Rules { offline_after_us: 3 * S, detectors: vec![detector(rate(2.0, 5), 0)] };
        let mut shuffled = numbered(&rows);
        let mut random = seed | 1;
        for place in (1..shuffled.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(place, usize::try_from(random >> 33).unwrap() % (place + 1));
        }
        let (devices, latest, known) = (no_devices(), no_latest(), states(&[], 0));
        let known = Known { devices: &devices, latest: &latest, states: &known };
        let one = follow_batch(&rules, &readings(&numbered(&rows)), &known).unwrap();
        let other = follow_batch(&rules, &readings(&shuffled), &known).unwrap();
        prop_assert_eq!(in_order(&one.devices), in_order(&other.devices));
        prop_assert_eq!(in_order(&one.sessions), in_order(&other.sessions));
        prop_assert_eq!(in_order(&one.states), in_order(&other.states));
        prop_assert_eq!(in_order(&one.changes), in_order(&other.changes));
    }
}

/// Rows as text, sorted.
fn in_order(batch: &RecordBatch) -> Vec<String> {
    let mut rows: Vec<_> = (0..batch.num_rows()).map(|row| format!("{:?}", batch.slice(row, 1).columns())).collect();
    rows.sort();
    rows
}
