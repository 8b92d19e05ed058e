//! Time, as the threads of a node read it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use enmasse_amqp::time::Time;

/// The node's only clock. Each thread reads it once per turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// A clock that begins now.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Time {
        Time::from_micros(self.0.elapsed().as_micros() as u64)
    }

    /// Milliseconds since 1970.
    pub(crate) fn time_of_day_ms() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }
}
