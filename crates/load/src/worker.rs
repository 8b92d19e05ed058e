//! A thread's connections and the loop turn that serves them.

use std::sync::Arc;
use std::time::Duration;

use super::Plan;
use super::connection::{Connection, Traffic};
use enmasse_client::Error;
use enmasse_client::poller::{Poller, Ready};
use enmasse_client::wire::read_buffer;

/// The longest sleep of a thread before it checks the phase again.
pub(super) const TURN_MAX: Duration = Duration::from_millis(5);
/// Nanoseconds between two heartbeat checks.
const KEEP_ALIVE_INTERVAL: u64 = 200_000_000;

/// Connections of one kind, owned by one thread.
pub(super) struct Worker<T> {
    pub(super) plan: Arc<Plan>,
    pub(super) connections: Vec<Connection<T>>,
    poller: Poller,
    ready: Vec<Ready>,
    buffer: Box<[u8]>,
    kept_alive: u64,
}

impl<T: Traffic> Worker<T> {
    /// Starts to connect all of them.
    pub(super) fn start(plan: &Arc<Plan>, traffics: Vec<T>) -> Result<Self, Error> {
        let poller = Poller::new().map_err(|error| Error::io("epoll", &error))?;
        let connections = traffics
            .into_iter()
            .zip(0..)
            .map(|(traffic, key)| Connection::start(plan, traffic, key, &poller))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            plan: Arc::clone(plan),
            connections,
            poller,
            ready: Vec::new(),
            buffer: read_buffer(),
            kept_alive: 0,
        })
    }

    /// Waits for input, at most `timeout`, and handles it.
    pub(super) fn turn(&mut self, timeout: Duration) -> Result<(), Error> {
        self.ready.clear();
        self.poller.wait(Some(timeout), &mut self.ready).map_err(|error| Error::io("epoll", &error))?;
        let now = self.plan.clock.now();
        for ready in &self.ready {
            let connection = &mut self.connections[ready.key as usize];
            if ready.readable && !connection.is_closed() {
                connection.read(&mut self.buffer, now)?;
            }
            if !connection.is_closed() {
                connection.flush(&self.poller, now)?;
            }
        }
        if now - self.kept_alive > KEEP_ALIVE_INTERVAL {
            self.kept_alive = now;
            for connection in &mut self.connections {
                connection.keep_alive(now);
            }
            self.flush(now)?;
        }
        Ok(())
    }

    /// Writes the pending output of all connections.
    pub(super) fn flush(&mut self, now: u64) -> Result<(), Error> {
        for connection in &mut self.connections {
            if connection.wire.pending() > 0 && !connection.is_blocked() && !connection.is_closed() {
                connection.flush(&self.poller, now)?;
            }
        }
        Ok(())
    }

    pub(super) fn are_up(&self) -> bool {
        self.connections.iter().all(Connection::is_up)
    }

    /// Closes all connections; continues serving them until the server has answered or `timeout` is
    /// over.
    pub(super) fn close(&mut self, timeout: Duration) -> Result<(), Error> {
        self.connections.iter_mut().for_each(Connection::close);
        let end = self.plan.clock.now() + timeout.as_nanos() as u64;
        loop {
            let now = self.plan.clock.now();
            self.flush(now)?;
            if now >= end || self.connections.iter().all(Connection::is_closed) {
                return Ok(());
            }
            self.turn(TURN_MAX)?;
        }
    }
}
