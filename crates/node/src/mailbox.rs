//! Communication with a worker thread: a mailbox for rare messages, and a waker that acts only if
//! the worker sleeps.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use mio::{Registry, Token, Waker};

/// Wakes one sleeping thread; costs one load when it is awake.
#[derive(Debug)]
pub(crate) struct ThreadWaker {
    waker: Waker,
    asleep: AtomicBool,
}

impl ThreadWaker {
    /// A waker for the poll behind `registry`, with an event for `token`.
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        Ok(Self { waker: Waker::new(registry, token)?, asleep: AtomicBool::new(false) })
    }

    /// Other threads call this *after* they have posted an item.
    pub(crate) fn wake(&self) {
        // Pairs with the fence in `park`: either the sleeper sees the item, or we see that it
        // sleeps.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            // Single steps cannot overflow an eventfd's counter, so this cannot fail.
            let _ = self.waker.wake();
        }
    }

    /// The owner calls this before its last check for work and the sleep after it.
    pub(crate) fn park(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The owner calls this when it is awake again.
    pub(crate) fn unpark(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}

/// Items for one thread. Bounded by its input: accepted sockets (bounded by the connection limit)
/// and requests whose callers wait for the answer.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    /// `None`: closed
    items: Mutex<Option<Vec<T>>>,
    filled: AtomicBool,
    thread_waker: ThreadWaker,
}

impl<T> Mailbox<T> {
    /// An empty mailbox whose owner sleeps in the poll behind `registry`.
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        Ok(Self {
            items: Mutex::new(Some(Vec::new())),
            filled: AtomicBool::new(false),
            thread_waker: ThreadWaker::new(registry, token)?,
        })
    }

    /// The owner's waker.
    pub(crate) fn thread_waker(&self) -> &ThreadWaker {
        &self.thread_waker
    }

    /// Posts items and wakes the owner once. A closed mailbox drops them.
    pub(crate) fn post(&self, items: impl IntoIterator<Item = T>) {
        let mut guard = self.lock();
        let Some(box_) = guard.as_mut() else { return };
        box_.extend(items);
        self.filled.store(!box_.is_empty(), Ordering::Relaxed);
        drop(guard);
        self.thread_waker.wake();
    }

    /// Whether an item is pending; costs one load.
    pub(crate) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Relaxed)
    }

    /// Takes everything, in order.
    pub(crate) fn take(&self, into: &mut Vec<T>) {
        let mut guard = self.lock();
        if let Some(box_) = guard.as_mut() {
            into.append(box_);
        }
        // Cleared before the lock is released: an item posted right after it must set the flag
        // again.
        self.filled.store(false, Ordering::Relaxed);
    }

    /// The owner ends: pending and later items are dropped, so that no caller waits for an answer.
    pub(crate) fn close(&self) {
        let left = self.lock().take();
        self.filled.store(false, Ordering::Relaxed);
        drop(left);
    }

    // A poisoned lock means a thread panicked, and then the process is ending.
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Vec<T>>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    /// Parking races with posting. A lost command shows as a poll that times out.
    #[test]
    fn command_posted_while_the_owner_parks_wakes_it() {
        const ITEMS: u32 = 20_000;
        let mut poll = mio::Poll::new().unwrap();
        let mailbox = Arc::new(Mailbox::new(poll.registry(), Token(0)).unwrap());
        let poster = Arc::clone(&mailbox);
        let thread = std::thread::spawn(move || (0..ITEMS).for_each(|item| poster.post([item])));
        let (mut got, mut events) = (Vec::new(), mio::Events::with_capacity(4));
        while got.len() < ITEMS as usize {
            mailbox.thread_waker().park();
            if !mailbox.is_filled() {
                poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
                assert!(!events.is_empty() || mailbox.is_filled(), "missed a command");
            }
            mailbox.thread_waker().unpark();
            mailbox.take(&mut got);
        }
        thread.join().unwrap();
        assert!(got.iter().copied().eq(0..ITEMS));
    }

    /// Threads that post while the owner takes race for the lock: an item posted after the owner
    /// took must not count as taken.
    #[test]
    fn commands_posted_while_the_owner_takes_are_not_lost() {
        const POSTERS: usize = 4;
        const ITEMS: usize = 50;
        let poll = mio::Poll::new().unwrap();
        let mailbox = Mailbox::new(poll.registry(), Token(0)).unwrap();
        for round in 0..300 {
            let mut got = Vec::new();
            std::thread::scope(|scope| {
                let post = || (0..ITEMS).for_each(|item| mailbox.post([item]));
                let posters: Vec<_> = (0..POSTERS).map(|_| scope.spawn(post)).collect();
                while !posters.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                    mailbox.take(&mut got);
                }
            });
            if mailbox.is_filled() {
                mailbox.take(&mut got);
            }
            assert_eq!(got.len(), POSTERS * ITEMS, "round {round}");
        }
    }

    #[test]
    fn thread_waker_is_not_signalled_while_the_owner_is_awake() {
        let mut poll = mio::Poll::new().unwrap();
        let mailbox = Mailbox::new(poll.registry(), Token(0)).unwrap();
        mailbox.post([1]);
        let mut events = mio::Events::with_capacity(4);
        poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty());
        assert!(mailbox.is_filled());
    }
}
