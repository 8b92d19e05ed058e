//! The keep-alive (3.1.2.10) and the handshake time-out.

use super::state::State;
use super::{Closed, ClosedBy, Config, Connection};
use crate::codec::ReasonCode;
use crate::time::Time;

#[derive(Debug)]
pub(super) struct Timers {
    /// the latest time given by the driver
    pub(super) now: Time,
    /// when the last packet was received, or reading began again
    pub(super) received: Time,
    /// when CONNECT must be answered
    handshake: Option<Time>,
    /// when a re-authentication must have ended
    reauthentication: Option<Time>,
    /// seconds between two packets of the client; 0: no limit
    keep_alive_s: u16,
    /// the driver has paused reading
    paused: bool,
    /// nothing is read because the driver owes an answer; as of the last call with a time
    owed: bool,
}

impl Timers {
    pub(super) fn new(config: &Config, now: Time) -> Self {
        let handshake = Some(now.plus_millis(u64::from(config.handshake_ms)));
        Self { now, received: now, handshake, reauthentication: None, keep_alive_s: 0, paused: false, owed: false }
    }

    /// The keep-alive that CONNECT asks for.
    pub(super) fn ask(&mut self, keep_alive_s: u16) {
        self.keep_alive_s = keep_alive_s;
    }

    pub(super) const fn asked_keep_alive_s(&self) -> u16 {
        self.keep_alive_s
    }

    /// The handshake has ended; the server's keep-alive replaces the client's [5: 3.1.2-21].
    pub(super) fn open(&mut self, server_keep_alive_s: Option<u16>) {
        (self.handshake, self.owed) = (None, false);
        self.keep_alive_s = server_keep_alive_s.unwrap_or(self.keep_alive_s);
        self.received = self.now;
    }

    /// A re-authentication begins, and may take as long as a handshake.
    pub(super) fn begin_reauthentication(&mut self, handshake_ms: u32) {
        self.reauthentication = Some(self.now.plus_millis(u64::from(handshake_ms)));
    }

    pub(super) fn end_reauthentication(&mut self) {
        self.reauthentication = None;
    }

    /// Records whether the machine reads; when it reads again, the keep-alive begins again.
    #[inline]
    pub(super) fn set_owed(&mut self, owed: bool) {
        if self.owed != owed {
            self.owed = owed;
            self.received = self.now;
        }
    }

    /// When a silent client is disconnected: after one and a half times the keep-alive
    /// [5: 3.1.2-22].
    fn silent_at(&self) -> Option<Time> {
        let runs = self.keep_alive_s > 0 && !self.paused;
        match self.owed {
            // The driver has answered since: the keep-alive begins with the next call.
            true => runs.then_some(self.now),
            false => runs.then(|| self.received.plus_millis(u64::from(self.keep_alive_s) * 1500)),
        }
    }
}

impl Connection {
    /// When to call `handle_timeout`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Ended => None,
            State::Open => {
                let silent = if self.owes_answer() { None } else { self.timers.silent_at() };
                [silent, self.timers.reauthentication].into_iter().flatten().min()
            }
            _ => self.timers.handshake,
        }
    }

    /// Ends the connection of a client that is silent or too slow: then `poll_event` returns
    /// `Closed`. Input that has arrived is to be polled before.
    pub fn handle_timeout(&mut self, now: Time) {
        self.timers.now = now;
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        if self.state == State::Open && self.timers.reauthentication.is_some_and(|due| due <= now) {
            let text = format!("the re-authentication was not complete within {} ms", self.config.handshake_ms);
            return self.end_with_disconnect(ClosedBy::Timeout, ReasonCode::NotAuthorized, text);
        }
        if self.timers.owed && self.state == State::Open {
            return self.timers.set_owed(false);
        }
        match self.state {
            State::Open => {
                let text = format!("no packet within 1.5 times the keep-alive of {} s", self.timers.keep_alive_s);
                self.end_with_disconnect(ClosedBy::Timeout, ReasonCode::KeepAliveTimeout, text);
            }
            state => {
                let waited = self.config.handshake_ms;
                let text = match state {
                    State::Deciding => format!("CONNECT was not answered within {waited} ms"),
                    _ => format!("the handshake was not complete within {waited} ms"),
                };
                if state != State::AwaitConnect {
                    self.put_refusal(ReasonCode::ServerBusy, "", None);
                }
                let code = ReasonCode::UnspecifiedError;
                let (by, publish_will, session_expiry_s) = (ClosedBy::Timeout, false, None);
                self.end(Closed { by, code, text, publish_will, session_expiry_s });
            }
        }
    }

    /// Records whether the driver reads the client's input. The keep-alive of a connection whose
    /// input is paused does not run, and begins again when reading does.
    pub fn set_reading(&mut self, now: Time, reading: bool) {
        self.timers.now = now;
        self.timers.paused = !reading;
        if reading {
            self.timers.received = now;
        }
    }
}
