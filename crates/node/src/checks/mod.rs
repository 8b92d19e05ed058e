//! Passwords are checked here, away from the workers: key derivation takes milliseconds on purpose.
//!
//! One thread and a bounded line: however many peers knock at once, messages of those inside go on, and who finds
//! no room is told to try again. Spaces take turns, so nobody's guesses keep the users of another space waiting.

mod line;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use self::line::Line;
pub(crate) use self::line::{Host, Space};
use crate::shared::Clock;
use crate::threads;

/// A check: it brings its result to where it is awaited, and tells whether the password was right.
pub(crate) type Job = Box<dyn FnOnce() -> bool + Send>;

struct State {
    line: Line<Job>,
    /// nobody can add to the line any more
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
            if let Some((host, job)) = state.line.pop(clock.now()) {
                drop(state);
                let right = job();
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

/// The thread that checks passwords; ends when this handle is gone and nobody waits.
pub(crate) struct Checker(Arc<Checks>);

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
        Ok(Self(checks))
    }

    /// Queues a check; `false` if the space or the host has its share of the places.
    pub(crate) fn offer(&self, space: Space, host: Host, job: Job) -> bool {
        let taken = self.0.lock().line.push(space, host, job);
        self.0.changed.notify_one();
        taken
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        self.0.lock().over = true;
        self.0.changed.notify_one();
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
        assert!(checker.offer(None, here(1), Box::new(first)));
        has_started.recv().unwrap();
        let (done, results) = channel();
        let knock = |space: u32, number: usize| {
            let done = done.clone();
            let job = move || {
                done.send((space, number)).unwrap();
                true
            };
            checker.offer(Some(SpaceKey(space)), Host::of(Some(([127, 0, 0, space as u8], 1).into())), Box::new(job))
        };
        assert_eq!((0..1000).filter(|number| knock(1, *number)).count(), WAITING_MAX.div_ceil(3));
        assert!(knock(2, 0));
        go.send(()).unwrap();
        drop((done, checker));
        let served: Vec<_> = results.iter().collect();
        assert_eq!(served[..3], [(1, 0), (2, 0), (1, 1)]);
        assert_eq!(served.len(), WAITING_MAX.div_ceil(3) + 1);
    }
}
