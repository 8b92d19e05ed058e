//! Passwords are checked here, away from the workers: key derivation takes milliseconds on purpose.
//!
//! One thread and a bounded queue: however many peers knock at once, messages of those inside go on, and who comes
//! when the queue is full is told to try again.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::threads;

/// Checks that wait. At some milliseconds each the last waits a second: as long as a client would.
const WAITING_MAX: usize = 256;

/// A piece of work that takes long; it brings its result to where it is awaited.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The thread that checks passwords; ends when this handle is gone and the queue is empty.
#[derive(Debug)]
pub(crate) struct Checker {
    queue: SyncSender<Job>,
}

impl Checker {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (queue, jobs) = sync_channel::<Job>(WAITING_MAX);
        threads::spawn("passwords", move || {
            while let Ok(job) = jobs.recv() {
                job();
            }
        })?;
        Ok(Self { queue })
    }

    /// Queues a check; `false` if the queue is full.
    pub(crate) fn offer(&self, job: Job) -> bool {
        self.queue.try_send(job).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn checks_run_in_order_and_a_full_queue_refuses() {
        let checker = Checker::start().unwrap();
        let (go, gate) = channel::<()>();
        let (started, has_started) = channel();
        assert!(checker.offer(Box::new(move || {
            started.send(()).unwrap();
            gate.recv().unwrap();
        })));
        has_started.recv().unwrap();
        let (done, results) = channel();
        for number in 0..WAITING_MAX {
            let done = done.clone();
            assert!(checker.offer(Box::new(move || done.send(number).unwrap())));
        }
        assert!(!checker.offer(Box::new(|| unreachable!("was refused"))));
        go.send(()).unwrap();
        drop(done);
        assert!(results.iter().eq(0..WAITING_MAX));
    }
}
