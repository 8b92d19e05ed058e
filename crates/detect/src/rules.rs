//! The conditions of detectors.

use serde::Deserialize;

/// All that a task has to know of the pipeline document.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rules {
    /// A session ends when nothing came from its device for longer.
    pub offline_after_us: i64,
    /// Those of one source.
    pub detectors: Vec<Detector>,
}

/// One rule, and how often it may open an incident.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Detector {
    /// Names its states and incidents.
    pub name: String,
    /// For so long after an incident of a device began no other one begins.
    pub cooldown_us: i64,
    /// The condition to detect.
    pub rule: Rule,
}

/// The four ways to judge a device; a threshold has two sides.
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
        /// Readings before the first judgement.
        warmup: i64,
    },
    /// Nothing came from a device for longer than a time.
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
