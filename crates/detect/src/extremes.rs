//! The highest and the lowest reading of the last span of time.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Resolution of an extreme in time, in parts of the span: a reading closer than that to a more
/// extreme one is not kept.
const GRAINS: i64 = 64;

/// A reading: time in microseconds, value.
type Reading = (i64, f64);

/// Readings that are the highest or lowest from their time on, oldest first; at most [`GRAINS`] + 2
/// on each side.
///
/// An extreme never includes a reading older than the span, and always includes all readings of the
/// last 63/64 of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Extremes {
    high: VecDeque<Reading>,
    low: VecDeque<Reading>,
}

impl Extremes {
    /// Starts with one reading, from a state without extremes.
    pub(crate) fn of(time_us: i64, value: f64) -> Self {
        Self { high: VecDeque::from([(time_us, value)]), low: VecDeque::from([(time_us, value)]) }
    }

    /// Adds a reading that is not older than the last one. Returns its largest difference from a
    /// reading of the span, and the age difference of the two.
    pub(crate) fn push(&mut self, time_us: i64, value: f64, span_us: i64) -> (f64, i64) {
        let grain_us = grain_us(span_us);
        keep(&mut self.high, time_us, value, span_us, grain_us, |one, other| one >= other);
        keep(&mut self.low, time_us, value, span_us, grain_us, |one, other| one <= other);
        let differences = [&self.high, &self.low].map(|side| {
            let (when_us, what) = side[0];
            ((value - what).abs(), time_us - when_us)
        });
        if differences[1].0 > differences[0].0 { differences[1] } else { differences[0] }
    }
}

/// At least a microsecond, to bound the readings of the same time.
fn grain_us(span_us: i64) -> i64 {
    (span_us + GRAINS - 1) / GRAINS
}

/// Drops values outside of the window and those that the new reading exceeds, and adds the reading;
/// the side is never empty then.
fn keep(
    side: &mut VecDeque<Reading>,
    time_us: i64,
    value: f64,
    span_us: i64,
    grain_us: i64,
    exceeds: impl Fn(f64, f64) -> bool,
) {
    while side.front().is_some_and(|(when_us, _)| time_us - when_us > span_us) {
        side.pop_front();
    }
    while side.back().is_some_and(|(_, what)| exceeds(value, *what)) {
        side.pop_back();
    }
    if side.back().is_none_or(|(when_us, _)| time_us - when_us >= grain_us) {
        side.push_back((time_us, value));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Extremes, GRAINS, grain_us};

    const SPAN_US: i64 = 64_000;

    /// The largest difference between the last reading and one that is at most `span_us` older.
    fn expected(series: &[(i64, f64)], span_us: i64) -> f64 {
        let (now_us, last) = series[series.len() - 1];
        let near = series.iter().filter(|(when_us, _)| now_us - when_us <= span_us);
        near.map(|(_, value)| (last - value).abs()).fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn change_is_exact_within_one_grain_of_the_span(
            steps in prop::collection::vec((0..20_000_i64, -100.0..100.0_f64), 1..60),
        ) {
            let (mut extremes, mut series, mut time_us) = (Extremes::default(), Vec::new(), 0);
            for (step, value) in steps {
                time_us += step;
                series.push((time_us, value));
                let (change, age_us) = extremes.push(time_us, value, SPAN_US);
                prop_assert!(change <= expected(&series, SPAN_US));
                prop_assert!(change >= expected(&series, SPAN_US - grain_us(SPAN_US)));
                prop_assert!((0..=SPAN_US).contains(&age_us));
            }
        }

        #[test]
        fn number_of_retained_readings_is_bounded(step_us in 0..2_000_i64, is_up: bool) {
            let mut extremes = Extremes::default();
            for number in 0..1_000_i32 {
                let value = f64::from(if is_up { number } else { -number });
                extremes.push(i64::from(number) * step_us, value, SPAN_US);
            }
            let bound = usize::try_from(GRAINS).unwrap() + 2;
            prop_assert!(extremes.high.len() <= bound && extremes.low.len() <= bound);
        }
    }
}
