//! Notices for the I/O thread, and the signal that wakes it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use super::Setup;
use super::mailbox::Mailbox;
use crate::transport::Transport;

/// Commands for the thread.
pub(super) enum Notice {
    /// a new connection; with a stream if it is connected already
    New { key: u64, setup: Arc<Setup>, mailbox: Arc<Mailbox>, transport: Option<Transport> },
    /// the mailbox of a connection has commands
    Work(u64),
}

struct Inbox {
    notices: Vec<Notice>,
    next_key: u64,
}

/// Wakes the I/O thread.
#[derive(Clone)]
pub(super) struct Waker(Arc<Shared>);

struct Shared {
    inbox: Mutex<Inbox>,
    signal: OwnedFd,
}

impl Waker {
    /// A waker whose thread waits for `signal`, an eventfd.
    pub(super) fn new(signal: OwnedFd) -> Self {
        let inbox = Mutex::new(Inbox { notices: Vec::new(), next_key: 0 });
        Self(Arc::new(Shared { inbox, signal }))
    }

    fn notify(&self, notice: Notice) {
        let mut inbox = self.0.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        inbox.notices.push(notice);
        if inbox.notices.len() == 1 {
            // an eventfd's counter fails only at 2^64 - 2
            let _ = rustix::io::write(&self.0.signal, &1_u64.to_ne_bytes());
        }
    }

    /// Adds a connection; returns its key.
    pub(super) fn add(&self, setup: Arc<Setup>, mailbox: Arc<Mailbox>, transport: Option<Transport>) -> u64 {
        let key = {
            let mut inbox = self.0.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            inbox.next_key += 1;
            inbox.next_key
        };
        self.notify(Notice::New { key, setup, mailbox, transport });
        key
    }

    /// Notifies the thread of commands in the mailbox of a connection.
    pub(super) fn wake(&self, key: u64) {
        self.notify(Notice::Work(key));
    }

    /// The notices since the last call.
    pub(super) fn take(&self) -> Vec<Notice> {
        // read before the inbox is emptied: later input signals again
        let _ = rustix::io::read(&self.0.signal, &mut [0; 8]);
        std::mem::take(&mut self.0.inbox.lock().unwrap_or_else(PoisonError::into_inner).notices)
    }
}
