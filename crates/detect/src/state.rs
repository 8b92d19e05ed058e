//! The state of a detector for one device, and its changes.

use crate::extremes::Extremes;
use crate::rules::Detector;

/// A time before all others.
pub const NEVER_US: i64 = -(1 << 62);

/// The state of a detector for one device.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Time of the newest reading; for a heartbeat, of the newest message.
    pub time_us: i64,
    /// The value of that reading.
    pub value: f64,
    /// Whether an incident is open.
    pub is_open: bool,
    /// When the last incident began.
    pub began_us: i64,
    /// Number of followed readings.
    pub count: i64,
    /// The exponentially weighted mean.
    pub mean: f64,
    /// The exponentially weighted variance.
    pub variance: f64,
    /// Of a rate: the readings that the next one is compared with.
    pub recent: Option<Extremes>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            time_us: NEVER_US,
            value: 0.0,
            is_open: false,
            began_us: NEVER_US,
            count: 0,
            mean: 0.0,
            variance: 0.0,
            recent: None,
        }
    }
}

/// Whether an incident begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An incident opens.
    Began,
    /// The open incident closes.
    Ended,
}

/// An incident begins or ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Whether it begins or ends.
    pub what: What,
    /// When.
    pub time_us: i64,
    /// The value that was measured; `None` for silence.
    pub value: Option<f64>,
    /// When the incident began.
    pub began_us: i64,
    /// The description of the incident; empty when it ends.
    pub reason: String,
}

/// The evaluation of a reading by a detector.
pub(crate) enum Verdict {
    /// An incident opens for this reason, unless one is open or the cool-down lasts.
    Beyond(String),
    /// The open incident ends.
    Back,
    /// Neither.
    Between,
}

impl State {
    /// Opens or closes an incident.
    pub(crate) fn apply(
        &mut self,
        detector: &Detector,
        verdict: Verdict,
        time_us: i64,
        value: Option<f64>,
        changes: &mut Vec<Change>,
    ) {
        match verdict {
            Verdict::Back if self.is_open => {
                self.is_open = false;
                let began_us = self.began_us;
                changes.push(Change { what: What::Ended, time_us, value, began_us, reason: String::new() });
            }
            Verdict::Beyond(reason) if !self.is_open && self.is_cool(detector, time_us) => {
                self.is_open = true;
                self.began_us = time_us;
                changes.push(Change { what: What::Began, time_us, value, began_us: time_us, reason });
            }
            _ => {}
        }
    }

    /// Whether the cool-down of the last incident is over.
    fn is_cool(&self, detector: &Detector, time_us: i64) -> bool {
        self.began_us == NEVER_US || (time_us - self.began_us >= detector.cooldown_us && time_us > self.began_us)
    }
}
