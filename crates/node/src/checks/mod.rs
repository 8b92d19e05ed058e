//! Passwords are checked here, away from the workers: key derivation takes milliseconds on purpose.
//!
//! One thread and a bounded queue: login floods do not slow messages of connected clients, and a
//! login without a place is refused with a temporary error. Spaces take turns, so that guesses in
//! one space do not delay the users of another.

mod line;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use self::line::Line;
pub(crate) use self::line::{Host, Space};
use crate::shared::Clock;
use crate::threads;

/// A password to check.
pub(crate) struct Check {
    /// returns whether the password is correct; takes long
    pub(crate) verify: Box<dyn FnOnce() -> bool + Send>,
    /// returns the result; `None`: not checked, for want of room
    pub(crate) tell: Box<dyn FnOnce(Option<bool>) + Send>,
}

struct State {
    line: Line<Check>,
    /// the queue is closed
    over: bool,
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
                (check.tell)(Some(right));
                state = self.lock();
                if !right {
                    state.line.failed(host, clock.now());
                }
            } else if state.over {
                return;
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// The thread that checks passwords; ends when this handle is dropped and no check waits.
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
        let checks =
            Arc::new(Checks { state: Mutex::new(State { line: Line::new(), over: false }), changed: Condvar::new() });
        let running = Arc::clone(&checks);
        threads::spawn("passwords", move || running.run(clock))?;
        Ok(Self { checks, clock })
    }

    /// Queues a check. It, or others in its place, are refused at once if the space or the host has
    /// its share of the places. `known`: its user has logged in from that host within a day.
    pub(crate) fn offer(&self, space: Space, host: Host, known: bool, check: Check) {
        let turned_away = self.checks.lock().line.push(space, host, known, check, self.clock.now());
        self.checks.changed.notify_one();
        for check in turned_away {
            (check.tell)(None);
        }
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        self.checks.lock().over = true;
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
    fn spaces_take_turns_and_who_finds_no_room_is_refused() {
        let checker = Checker::start(Clock::start()).unwrap();
        let (go, gate) = channel::<()>();
        let (started, has_started) = channel();
        let here = |port| Host::of(Some(([127, 0, 0, 1], port).into()));
        let first = move || {
            started.send(()).unwrap();
            gate.recv().unwrap();
            false
        };
        checker.offer(None, here(1), false, Check { verify: Box::new(first), tell: Box::new(|_| ()) });
        has_started.recv().unwrap();
        let (done, results) = channel();
        let knock = |space: u32, number: usize| {
            let done = done.clone();
            let tell = move |right| done.send((space, number, right)).unwrap();
            let check = Check { verify: Box::new(move || number > 0), tell: Box::new(tell) };
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
