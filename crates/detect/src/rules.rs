//! The conditions of detectors.

use serde::Deserialize;

/// The part of the pipeline document that a task needs.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rules {
    /// A session ends when its device has sent nothing for longer.
    pub offline_after_us: i64,
    /// The detectors of one source.
    pub detectors: Vec<Detector>,
}

/// One rule, and how often it may open an incident.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Detector {
    /// Names its states and incidents.
    pub name: String,
    /// Minimum time between the beginnings of two incidents of a device.
    pub cooldown_us: i64,
    /// The condition to detect.
    pub rule: Rule,
}

/// The four kinds of conditions; a threshold has two sides.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Rule {
    /// A value above a limit, until one is at or below `clear`.
    Above {
        /// The metric that is watched.
        metric: String,
        /// The highest value without an incident.
        limit: f64,
        /// The highest value that ends one.
        clear: f64,
    },
    /// A value below a limit, until one is at or above `clear`.
    Below {
        /// The metric that is watched.
        metric: String,
        /// The lowest value without an incident.
        limit: f64,
        /// The lowest value that ends one.
        clear: f64,
    },
    /// A value that differs by more than `above` from one at most `per_us` older.
    Rate {
        /// The metric that is watched.
        metric: String,
        /// The largest change without an incident.
        above: f64,
        /// The time within which readings are compared.
        per_us: i64,
    },
    /// A value far from the exponentially weighted mean.
    Ewma {
        /// The metric that is watched.
        metric: String,
        /// Standard deviations from the mean at which an incident begins.
        deviations: f64,
        /// Weight of the newest reading.
        alpha: f64,
        /// Readings before the first evaluation.
        warmup: i64,
    },
    /// A device has sent nothing for longer than a time.
    Heartbeat {
        /// The longest silence without an incident.
        timeout_us: i64,
    },
}

impl Rule {
    /// The metric that is watched; `None` for a heartbeat, which watches the device.
    #[must_use]
    pub fn metric(&self) -> Option<&str> {
        match self {
            Self::Above { metric, .. }
            | Self::Below { metric, .. }
            | Self::Rate { metric, .. }
            | Self::Ewma { metric, .. } => Some(metric),
            Self::Heartbeat { .. } => None,
        }
    }
}
