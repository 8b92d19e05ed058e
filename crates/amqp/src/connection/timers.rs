//! Idle time-outs in both directions (2.4.5), and the handshake time-out.

use super::state::State;
use super::{ClosedBy, Config, Connection};
use crate::codec::frame::encode_heartbeat;
use crate::time::Time;
use crate::types::{Error, condition};

/// Milliseconds. A peer may request heartbeats at intervals of half of this, and no shorter.
const IDLE_TIME_OUT_MIN: u32 = 100;

#[derive(Debug)]
pub(super) struct Timers {
    /// the latest time given by the driver
    pub(super) now: Time,
    /// when the last frame was received
    pub(super) received: Time,
    /// when output was last seen at the end of a turn
    pub(super) sent: Time,
    /// when the handshake must be complete, or the peer's close received
    pub(super) deadline: Option<Time>,
    /// the driver has paused reading
    paused: bool,
    /// milliseconds between heartbeats of ours
    heartbeat_ms: Option<u32>,
    /// milliseconds of silence that end the connection, once it is open
    idle_limit_ms: Option<u64>,
}

impl Timers {
    pub(super) fn new(config: &Config, now: Time) -> Self {
        Self {
            now,
            received: now,
            sent: now,
            deadline: Some(now.plus_millis(u64::from(config.handshake_ms))),
            paused: false,
            heartbeat_ms: None,
            idle_limit_ms: config.idle_time_out_ms.map(|ms| u64::from(ms) * 2),
        }
    }

    /// Records the peer's idle-time-out; 0 means none.
    ///
    /// # Errors
    /// The idle-time-out is too short to comply with (2.4.5).
    pub(super) fn heartbeat(&mut self, idle_time_out: Option<u32>) -> Result<(), Error> {
        self.heartbeat_ms = match idle_time_out {
            None | Some(0) => None,
            Some(ms) if ms < IDLE_TIME_OUT_MIN => {
                let description = format!("open.idle-time-out: {ms} ms is below the minimum of {IDLE_TIME_OUT_MIN} ms");
                return Err(Error::new(condition::NOT_ALLOWED, description));
            }
            Some(ms) => Some(ms / 2),
        };
        Ok(())
    }

    fn idle_deadline(&self, state: State) -> Option<Time> {
        let silence = self.idle_limit_ms.filter(|_| state == State::Opened && !self.paused)?;
        Some(self.received.plus_millis(silence))
    }

    fn heartbeat_at(&self, state: State) -> Option<Time> {
        let heartbeat = self.heartbeat_ms.filter(|_| state == State::Opened)?;
        Some(self.sent.plus_millis(u64::from(heartbeat)))
    }
}

impl Connection {
    /// When to call `handle_timeout`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.closed_reported {
            return None;
        }
        let timers = &self.timers;
        [timers.deadline, timers.idle_deadline(self.state), timers.heartbeat_at(self.state)].into_iter().flatten().min()
    }

    /// Records whether the driver reads the peer's input. A connection whose input is paused is
    /// exempt from the idle time-out.
    pub fn set_reading(&mut self, now: Time, reading: bool) {
        self.timers.now = now;
        self.timers.paused = !reading;
        if reading {
            self.timers.received = now;
        }
    }

    /// Sends a heartbeat that is due, or ends the connection to a silent peer: then `poll_event`
    /// returns `Closed`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.timers.now = now;
        if self.closed_reported {
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
        if self.timers.idle_deadline(self.state).is_some_and(|silent| silent <= now) {
            let allowed = self.timers.idle_limit_ms.unwrap_or_default();
            let description = format!("local-idle-timeout expired: no frame for {allowed} ms");
            return self.abandon(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, description), ClosedBy::Timeout);
        }
        if self.timers.heartbeat_at(self.state).is_some_and(|heartbeat| heartbeat <= now) {
            // Pending output serves as a heartbeat: no empty frame is needed.
            if self.output.is_empty() {
                encode_heartbeat(&mut self.output);
            }
            self.timers.sent = now;
            self.trim();
        }
    }
}
