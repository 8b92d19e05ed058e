//! The recursion over the readings of one device and metric.

use crate::extremes::Extremes;
use crate::rules::{Detector, Rule};
use crate::state::{Change, State, Verdict};
use crate::text::{general, seconds};

/// Follows readings (time, value) in the order of their times; returns the changes.
///
/// A reading that is older than the last one is skipped. A heartbeat does not follow readings.
pub fn follow(detector: &Detector, state: &mut State, series: impl IntoIterator<Item = (i64, f64)>) -> Vec<Change> {
    let mut changes = Vec::new();
    for (time_us, value) in series {
        if time_us < state.time_us {
            continue;
        }
        let verdict = evaluate(&detector.rule, state, time_us, value);
        state.apply(detector, verdict, time_us, Some(value), &mut changes);
        state.time_us = time_us;
        state.value = value;
        state.count += 1;
        if let Rule::Ewma { deviations, alpha, warmup, .. } = detector.rule {
            average(state, value, deviations, alpha, warmup);
        }
    }
    changes
}

fn evaluate(rule: &Rule, state: &mut State, time_us: i64, value: f64) -> Verdict {
    match *rule {
        Rule::Above { limit, clear, .. } if value > limit => {
            debug_assert!(clear <= limit);
            beyond(state, || format!("{} is above {}", general(value), general(limit)))
        }
        Rule::Below { limit, clear, .. } if value < limit => {
            debug_assert!(clear >= limit);
            beyond(state, || format!("{} is below {}", general(value), general(limit)))
        }
        Rule::Above { clear, .. } if value <= clear => Verdict::Back,
        Rule::Below { clear, .. } if value >= clear => Verdict::Back,
        Rule::Above { .. } | Rule::Below { .. } | Rule::Heartbeat { .. } => Verdict::Between,
        Rule::Rate { above, per_us, .. } => evaluate_rate(state, time_us, value, above, per_us),
        Rule::Ewma { deviations, warmup, .. } => evaluate_distance(state, value, deviations, warmup),
    }
}

/// An open incident needs no reason.
fn beyond(state: &State, reason: impl FnOnce() -> String) -> Verdict {
    Verdict::Beyond(if state.is_open { String::new() } else { reason() })
}

fn evaluate_rate(state: &mut State, time_us: i64, value: f64, above: f64, per_us: i64) -> Verdict {
    // a state of an earlier version without extremes has only its last reading
    let (count, last_us, last) = (state.count, state.time_us, state.value);
    let fresh = || if count > 0 { Extremes::of(last_us, last) } else { Extremes::default() };
    let (change, age_us) = state.recent.get_or_insert_with(fresh).push(time_us, value, per_us);
    if change <= above {
        return Verdict::Back;
    }
    beyond(state, || {
        let (change, age, limit, per) = (general(change), seconds(age_us), general(above), seconds(per_us));
        format!("changed by {change} within {age} s, more than {limit} within {per} s")
    })
}

fn evaluate_distance(state: &State, value: f64, deviations: f64, warmup: i64) -> Verdict {
    if state.count < warmup {
        return Verdict::Back;
    }
    let deviation = state.variance.sqrt();
    let distance = (value - state.mean).abs();
    if distance > deviations * deviation {
        beyond(state, || {
            let many =
                if deviation > 0.0 { format!("{:.1}", distance / deviation) } else { "infinitely many".to_owned() };
            format!("{} is {many} deviations from the mean {}", general(value), general(state.mean))
        })
    } else {
        Verdict::Back
    }
}

/// Updates mean and variance. After the warm-up an outlier is clamped to the usual deviation.
fn average(state: &mut State, value: f64, deviations: f64, alpha: f64, warmup: i64) {
    #[expect(clippy::cast_precision_loss, reason = "a count of readings is far below 2^52")]
    let weight = alpha.max(1.0 / state.count as f64);
    let reach = deviations * state.variance.sqrt();
    let usual =
        if state.count > warmup && reach > 0.0 { value.max(state.mean - reach).min(state.mean + reach) } else { value };
    let step = usual - state.mean;
    state.variance = (1.0 - weight) * (state.variance + weight * step * step);
    state.mean += weight * step;
}
