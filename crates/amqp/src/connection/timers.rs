//! Idle time-outs both ways (2.4.5), and the handshake time-out.

use super::state::State;
use super::{ClosedBy, Config, Connection};
use crate::codec::frame::encode_heartbeat;
use crate::time::Time;
use crate::types::{Error, condition};

/// Milliseconds: no peer may request heartbeats closer than half of this.
const IDLE_TIME_OUT_MIN: u32 = 100;

#[derive(Debug)]
pub(super) struct Timers {
    /// the latest time given by the driver
    pub(super) now: Time,
    /// when the last frame came
    pub(super) received: Time,
    /// when output was last seen at the end of a turn
    pub(super) sent: Time,
    /// the handshake, or the peer's close, must be here by then
    pub(super) deadline: Option<Time>,
    /// the driver leaves input unread on purpose
    paused: bool,
    /// milliseconds between heartbeats of ours
    beat_ms: Option<u32>,
    /// milliseconds of silence that end the connection, once it is open
    silence_ms: Option<u64>,
}

impl Timers {
    pub(super) fn new(config: &Config, now: Time) -> Self {
        Self {
            now,
            received: now,
            sent: now,
            deadline: Some(now.plus_millis(u64::from(config.handshake_ms))),
            paused: false,
            beat_ms: None,
            silence_ms: config.idle_time_out_ms.map(|ms| u64::from(ms) * 2),
        }
    }

    /// Takes note of the peer's idle-time-out; 0 is read as none.
    ///
    /// # Errors
    /// One that is too short to be kept (2.4.5).
    pub(super) fn beat(&mut self, idle_time_out: Option<u32>) -> Result<(), Error> {
        self.beat_ms = match idle_time_out {
            None | Some(0) => None,
            Some(ms) if ms < IDLE_TIME_OUT_MIN => {
                let description = format!("open.idle-time-out: {ms} ms is below the minimum of {IDLE_TIME_OUT_MIN} ms");
                return Err(Error::new(condition::NOT_ALLOWED, description));
            }
            Some(ms) => Some(ms / 2),
        };
        Ok(())
    }

    fn silent_at(&self, state: State) -> Option<Time> {
        let silence = self.silence_ms.filter(|_| state == State::Opened && !self.paused)?;
        Some(self.received.plus_millis(silence))
    }

    fn beat_at(&self, state: State) -> Option<Time> {
        let beat = self.beat_ms.filter(|_| state == State::Opened)?;
        Some(self.sent.plus_millis(u64::from(beat)))
    }
}

impl Connection {
    /// When to call `handle_timeout`, if nothing else happens.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.over {
            return None;
        }
        let timers = &self.timers;
        [timers.deadline, timers.silent_at(self.state), timers.beat_at(self.state)].into_iter().flatten().min()
    }

    /// Records whether the driver reads the peer's input. While it does not, silence is not the
    /// peer's.
    pub fn set_reading(&mut self, now: Time, reading: bool) {
        self.timers.now = now;
        self.timers.paused = !reading;
        if reading {
            self.timers.received = now;
        }
    }

    /// Sends a heartbeat that is due, or gives up on a silent peer: then `poll_event` returns
    /// `Closed`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.timers.now = now;
        if self.over {
            return;
        }
        if self.timers.deadline.is_some_and(|deadline| deadline <= now) {
            let waited = self.config.handshake_ms;
            let description = match self.state.closing() {
                true => format!("no close from the peer within {waited} ms of ours"),
                false => format!("the connection was not open within {waited} ms"),
            };
            return self.abandon(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, description), ClosedBy::Timeout);
        }
        if self.timers.silent_at(self.state).is_some_and(|silent| silent <= now) {
            let allowed = self.timers.silence_ms.unwrap_or_default();
            let description = format!("local-idle-timeout expired: no frame for {allowed} ms");
            return self.abandon(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, description), ClosedBy::Timeout);
        }
        if self.timers.beat_at(self.state).is_some_and(|beat| beat <= now) {
            // Output that waits for the socket serves as well as an empty frame after it.
            if self.output.is_empty() {
                encode_heartbeat(&mut self.output);
            }
            self.timers.sent = now;
            self.trim();
        }
    }
}
