//! Checks passwords outside the workers, because key derivation is deliberately slow
//! (milliseconds).
//!
//! One thread and a bounded queue: login floods do not slow messages of connected clients, and a
//! login that finds the queue full is refused with a temporary error. Spaces take turns, so that
//! guesses in one space do not delay the users of another.

mod line;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use self::line::CheckQueue;
pub(crate) use self::line::{Host, Space};
use crate::clock::Clock;
use crate::threads;

/// A password to check.
pub(crate) struct Check {
    /// returns whether the password is correct; slow
    pub(crate) verify: Box<dyn FnOnce() -> bool + Send>,
    /// receives the result; `None`: not checked, because the queue is full
    pub(crate) report: Box<dyn FnOnce(Option<bool>) + Send>,
}

struct State {
    line: CheckQueue<Check>,
    /// the queue is closed
    closed: bool,
}

struct Checks {
    state: Mutex<State>,
    changed: Condvar,
}

impl Checks {
    // A poisoned lock means a thread panicked, and then the process is ending.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, clock: Clock) {
        let mut state = self.lock();
        loop {
            if let Some((host, check)) = state.line.pop(clock.now()) {
                drop(state);
                let right = (check.verify)();
                (check.report)(Some(right));
                state = self.lock();
                if !right {
                    state.line.failed(host, clock.now());
                }
            } else if state.closed {
                return;
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// The thread that checks passwords. It ends when this handle is dropped and the queue is empty.
pub(crate) struct Checker {
    checks: Arc<Checks>,
    clock: Clock,
}

impl std::fmt::Debug for Checker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Checker")
    }
}

impl Checker {
    /// Starts the thread.
    pub(crate) fn start(clock: Clock) -> io::Result<Self> {
        let checks = Arc::new(Checks {
            state: Mutex::new(State { line: CheckQueue::new(), closed: false }),
            changed: Condvar::new(),
        });
        let running = Arc::clone(&checks);
        threads::spawn("passwords", move || running.run(clock))?;
        Ok(Self { checks, clock })
    }

    /// Queues a check. If the space or the host has used up its share of the queue, this check or
    /// others in its place are refused at once. `known`: its user has logged in from that host
    /// within a day.
    pub(crate) fn offer(&self, space: Space, host: Host, known: bool, check: Check) {
        let refused = self.checks.lock().line.push(space, host, known, check, self.clock.now());
        self.checks.changed.notify_one();
        for check in refused {
            (check.report)(None);
        }
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        self.checks.lock().closed = true;
        self.checks.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use enmasse_router::table::SpaceKey;

    use super::line::WAITING_MAX;
    use super::*;

    #[test]
    fn checks_alternate_between_spaces_and_overflow_is_refused() {
        let checker = Checker::start(Clock::start()).unwrap();
        let (go, gate) = channel::<()>();
        let (started, has_started) = channel();
        let here = |port| Host::of(Some(([127, 0, 0, 1], port).into()));
        let first = move || {
            started.send(()).unwrap();
            gate.recv().unwrap();
            false
        };
        checker.offer(None, here(1), false, Check { verify: Box::new(first), report: Box::new(|_| ()) });
        has_started.recv().unwrap();
        let (done, results) = channel();
        let knock = |space: u32, number: usize| {
            let done = done.clone();
            let report = move |right| done.send((space, number, right)).unwrap();
            let check = Check { verify: Box::new(move || number > 0), report: Box::new(report) };
            let host = Host::of(Some(([127, 0, 0, space as u8], 1).into()));
            checker.offer(Some(SpaceKey(space)), host, false, check);
        };
        let room = WAITING_MAX.div_ceil(3);
        (0..1000).for_each(|number| knock(1, number));
        let refused: Vec<_> = results.try_iter().collect();
        assert_eq!(refused, (room..1000).map(|number| (1, number, None)).collect::<Vec<_>>());
        knock(2, 0);
        go.send(()).unwrap();
        drop((done, checker));
        let served: Vec<_> = results.iter().collect();
        assert_eq!(served[..3], [(1, 0, Some(false)), (2, 0, Some(false)), (1, 1, Some(true))]);
        assert_eq!(served.len(), room + 1);
    }
}
