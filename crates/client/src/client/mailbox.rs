//! The channel between an owner and the I/O thread: commands to the thread, events to the owner,
//! and the credit of both.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::event::{Event, Handle, LinkOptions, Outcome, Reason};
use crate::ErrorKind;
use crate::error::Error;
use crate::login::Exchange;

/// The most bytes of messages that wait for the I/O thread; one message is always accepted.
const QUEUE_SIZE_MAX: usize = 4 << 20;
/// Bytes of received messages waiting for the owner at which the connection stops receiving; it
/// resumes at half of them.
pub(super) const RECEIVED_SIZE_MAX: usize = 16 << 20;

/// A command of the owner, or of a helper of the I/O thread, for a connection.
pub(super) enum Command {
    AttachSender {
        link: Handle,
        address: Option<String>,
        options: LinkOptions,
    },
    AttachReceiver {
        link: Handle,
        address: Option<String>,
        options: LinkOptions,
    },
    Send {
        link: Handle,
        messages: Vec<Vec<u8>>,
        settled: bool,
    },
    Grant {
        link: Handle,
        more: u32,
    },
    Drain {
        link: Handle,
    },
    Settle {
        link: Handle,
        first: u64,
        last: u64,
        outcome: Outcome,
    },
    Detach {
        link: Handle,
    },
    /// the owner has taken most received messages
    Resume,
    Close,
    /// the name of the server is resolved
    Resolved(Result<Vec<std::net::SocketAddr>, Error>),
    /// the answer to a challenge is computed
    Answered(Box<Exchange>, Result<Vec<u8>, Error>),
}

/// The room of a link for messages to send.
#[derive(Clone, Copy, Default)]
struct Room {
    /// credit of the server minus messages waiting to be sent; below 0 after it has reduced credit
    free: i64,
    /// `send` has accepted only some messages since the last `Credit`
    starved: bool,
}

#[derive(Default)]
struct Inner {
    commands: Vec<Command>,
    /// the I/O thread was notified of the commands
    scheduled: bool,
    events: VecDeque<Event>,
    /// the eventfd is readable
    signalled: bool,
    rooms: HashMap<Handle, Room>,
    /// bytes of messages taken by `send` and not yet sent
    queued_size: usize,
    /// bytes of messages received and not yet taken
    received_size: usize,
    /// `deliver` has reported that the bound is reached
    full: bool,
    next_link: Handle,
    /// why the connection has ended
    end_reason: Option<Error>,
}

/// Shared by a client's owner and the I/O thread.
pub(super) struct Mailbox {
    inner: Mutex<Inner>,
    signal: OwnedFd,
}

impl Mailbox {
    pub(super) fn new() -> io::Result<Self> {
        let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { inner: Mutex::default(), signal })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // no panic occurs in the middle of a change
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readable while there are events.
    pub(super) fn signal(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// Owner: allocates the handle of a new link; `sends`: it is a sending link.
    pub(super) fn new_link(&self, sends: bool) -> Result<Handle, Error> {
        let mut inner = self.lock();
        if let Some(error) = &inner.end_reason {
            return Err(error.clone());
        }
        let link = inner.next_link;
        inner.next_link += 1;
        if sends {
            inner.rooms.insert(link, Room::default());
        }
        Ok(link)
    }

    /// Leaves a command. Returns whether the I/O thread must be notified.
    pub(super) fn command(&self, command: Command) -> bool {
        self.lock().command(command)
    }

    /// Owner: posts as many messages as there is room for, from the front. Returns their number,
    /// and whether the I/O thread must be notified.
    pub(super) fn send(
        &self,
        link: Handle,
        messages: &mut dyn ExactSizeIterator<Item = &[u8]>,
        settled: bool,
    ) -> Result<(u32, bool), Error> {
        let mut inner = self.lock();
        let mut size = inner.queued_size;
        let Some(room) = inner.rooms.get_mut(&link) else {
            return Err(Error::unavailable(format!("link {link} is detached or is not a sender")));
        };
        let mut taken: Vec<Vec<u8>> = Vec::new();
        while (taken.len() as i64) < room.free && (size == 0 || size < QUEUE_SIZE_MAX) {
            let Some(message) = messages.next() else { break };
            size += message.len();
            taken.push(message.to_vec());
        }
        let count = taken.len() as u32;
        room.free -= i64::from(count);
        room.starved = messages.len() > 0;
        inner.queued_size = size;
        if count == 0 {
            return Ok((0, false));
        }
        Ok((count, inner.command(Command::Send { link, messages: taken, settled })))
    }

    /// Owner: up to `count` events, and whether the I/O thread must be notified. The signal is
    /// reset with the last event.
    pub(super) fn take_events(&self, count: usize) -> (Vec<Event>, bool) {
        let mut inner = self.lock();
        let count = count.min(inner.events.len());
        let events: Vec<_> = inner.events.drain(..count).collect();
        inner.received_size -= events.iter().map(size_of).sum::<usize>();
        if inner.events.is_empty() && inner.signalled {
            inner.signalled = false;
            // the eventfd is readable, so this does not block; the count is not needed
            let _ = rustix::io::read(&self.signal, &mut [0; 8]);
        }
        let resumes = inner.full && inner.received_size < RECEIVED_SIZE_MAX / 2;
        if resumes {
            inner.full = false;
        }
        (events, resumes && inner.command(Command::Resume))
    }

    /// I/O thread: all commands so far.
    pub(super) fn take_commands(&self) -> Vec<Command> {
        let mut inner = self.lock();
        inner.scheduled = false;
        std::mem::take(&mut inner.commands)
    }

    /// I/O thread: notifies the owner.
    pub(super) fn notify_owner(&self, event: Event) {
        let mut inner = self.lock();
        match &event {
            Event::Refused { link, .. } | Event::Detached { link, .. } => {
                inner.rooms.remove(link);
            }
            Event::Closed { reason } => {
                inner.end_reason = Some(closing_error(reason.as_ref()));
                inner.rooms.clear();
            }
            _ => {}
        }
        self.push(&mut inner, event);
    }

    /// I/O thread: delivers a message. Returns whether receiving must stop until `Resume`.
    pub(super) fn deliver(&self, message: Event) -> bool {
        let mut inner = self.lock();
        inner.received_size += size_of(&message);
        inner.full |= inner.received_size >= RECEIVED_SIZE_MAX;
        self.push(&mut inner, message);
        inner.full
    }

    fn push(&self, inner: &mut Inner, event: Event) {
        inner.events.push_back(event);
        if !inner.signalled {
            inner.signalled = true;
            // an eventfd's counter fails only at 2^64 - 2
            let _ = rustix::io::write(&self.signal, &1_u64.to_ne_bytes());
        }
    }

    /// I/O thread: the server increases the credit of a link by this many messages, or reduces it
    /// if below 0.
    pub(super) fn grant(&self, link: Handle, more: i64) {
        let mut inner = self.lock();
        let Some(room) = inner.rooms.get_mut(&link) else { return };
        room.free += more;
        if more > 0 && room.free > 0 {
            room.starved = false;
            let credit = room.free as u32;
            self.push(&mut inner, Event::Credit { link, credit });
        }
    }

    /// I/O thread: messages of this many bytes were sent or discarded.
    pub(super) fn sent(&self, size: usize) {
        let mut inner = self.lock();
        let before = inner.queued_size;
        inner.queued_size = before.saturating_sub(size);
        if before < QUEUE_SIZE_MAX / 2 || inner.queued_size >= QUEUE_SIZE_MAX / 2 {
            return;
        }
        // links that waited for this bound, not for credit, are notified, because no flow of the
        // server will do it
        let starved: Vec<_> = inner.rooms.iter_mut().filter(|(_, room)| room.starved && room.free > 0).collect();
        let starved: Vec<_> = starved
            .into_iter()
            .map(|(link, room)| {
                room.starved = false;
                Event::Credit { link: *link, credit: room.free as u32 }
            })
            .collect();
        for event in starved {
            self.push(&mut inner, event);
        }
    }
}

impl Inner {
    /// Leaves a command. Returns whether the I/O thread must be notified.
    fn command(&mut self, command: Command) -> bool {
        self.commands.push(command);
        !std::mem::replace(&mut self.scheduled, true)
    }
}

/// Bytes of the message in an event.
fn size_of(event: &Event) -> usize {
    match event {
        Event::Message { payload, .. } => payload.len(),
        _ => 0,
    }
}

/// The error of calls after the end.
fn closing_error(reason: Option<&Reason>) -> Error {
    let Some(Reason { condition, description }) = reason else {
        return Error::unavailable("the connection is closed");
    };
    let reported = if description.is_empty() { condition } else { description };
    Error { kind: ErrorKind::of(condition), message: format!("the connection: {reported}") }
}

#[cfg(test)]
mod tests {
    use super::{Command, Mailbox, QUEUE_SIZE_MAX, RECEIVED_SIZE_MAX};
    use crate::ErrorKind;
    use crate::client::event::{Event, Reason};

    /// A mailbox with a sending link that has `credit`, and its events read.
    fn with_credit(credit: i64) -> Mailbox {
        let mailbox = Mailbox::new().unwrap();
        assert_eq!(mailbox.new_link(true).unwrap(), 0);
        mailbox.grant(0, credit);
        mailbox.take_events(10);
        mailbox
    }

    fn send(mailbox: &Mailbox, messages: &[Vec<u8>]) -> (u32, bool) {
        mailbox.send(0, &mut messages.iter().map(Vec::as_slice), false).unwrap()
    }

    fn is_signalled(mailbox: &Mailbox) -> bool {
        let mut polled = [rustix::event::PollFd::from_borrowed_fd(mailbox.signal(), rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn credit_bounds_the_accepted_messages() {
        let mailbox = with_credit(3);
        let messages = vec![vec![1]; 5];
        assert_eq!(send(&mailbox, &messages), (3, true));
        assert_eq!(send(&mailbox, &messages[3..]), (0, false));
        mailbox.grant(0, 1);
        assert_eq!(mailbox.take_events(10).0, [Event::Credit { link: 0, credit: 1 }]);
        // The I/O thread has not taken the first command yet: one signal is enough.
        assert_eq!(send(&mailbox, &messages[3..]), (1, false));
        assert!(matches!(mailbox.take_commands()[..], [Command::Send { .. }, Command::Send { .. }]));
    }

    #[test]
    fn withdrawn_credit_gives_no_room() {
        let mailbox = with_credit(3);
        mailbox.grant(0, -5);
        assert_eq!(send(&mailbox, &[vec![1]]), (0, false));
        mailbox.grant(0, 2);
        assert_eq!(mailbox.take_events(10).0, []);
        mailbox.grant(0, 1);
        assert_eq!(mailbox.take_events(10).0, [Event::Credit { link: 0, credit: 1 }]);
    }

    #[test]
    fn queued_bytes_are_bounded_but_one_message_is_always_accepted() {
        let mailbox = with_credit(10);
        let large = vec![vec![0; QUEUE_SIZE_MAX + 1]; 2];
        assert_eq!(send(&mailbox, &large).0, 1);
        assert_eq!(send(&mailbox, &large[1..]).0, 0);
        mailbox.sent(QUEUE_SIZE_MAX + 1);
        assert_eq!(mailbox.take_events(10).0, [Event::Credit { link: 0, credit: 9 }]);
        assert_eq!(send(&mailbox, &large[1..]).0, 1);
    }

    #[test]
    fn received_bytes_are_bounded_and_reading_resumes_at_half() {
        let mailbox = Mailbox::new().unwrap();
        let quarter =
            || Event::Message { link: 0, delivery: 0, settled: true, payload: vec![0; RECEIVED_SIZE_MAX / 4] };
        assert_eq!([(); 4].map(|()| mailbox.deliver(quarter())), [false, false, false, true]);
        assert!(mailbox.deliver(quarter()), "one more was in flight");
        assert_eq!([(); 5].map(|()| mailbox.take_events(1).1), [false, false, false, true, false]);
        assert!(matches!(mailbox.take_commands()[..], [Command::Resume]));
        assert!(!mailbox.deliver(quarter()));
    }

    #[test]
    fn signal_is_readable_while_events_wait() {
        let mailbox = Mailbox::new().unwrap();
        assert!(!is_signalled(&mailbox));
        mailbox.notify_owner(Event::Opened { properties: Vec::new() });
        mailbox.notify_owner(Event::Drained { link: 1, credit: 0 });
        assert!(is_signalled(&mailbox));
        assert_eq!(mailbox.take_events(1).0, [Event::Opened { properties: Vec::new() }]);
        assert!(is_signalled(&mailbox));
        assert_eq!(mailbox.take_events(9).0, [Event::Drained { link: 1, credit: 0 }]);
        assert!(!is_signalled(&mailbox));
        assert_eq!(mailbox.take_events(9).0, []);
    }

    #[test]
    fn send_on_a_detached_link_or_closed_connection_fails() {
        let mailbox = with_credit(3);
        mailbox.notify_owner(Event::Detached { link: 0, reason: None });
        let error = mailbox.send(0, &mut [&b"x"[..]].into_iter(), false).unwrap_err();
        assert!(error.message.contains("detached"), "{error}");
        mailbox.notify_owner(Event::Closed { reason: None });
        assert!(mailbox.new_link(false).unwrap_err().message.contains("closed"));
    }

    #[test]
    fn operation_after_a_close_reports_the_reason_of_the_close() {
        for (description, reported) in [("names no space", "the connection: names no space"), ("", "amqp:not-found")] {
            let mailbox = with_credit(0);
            let reason = Reason { condition: "amqp:not-found".to_owned(), description: description.to_owned() };
            mailbox.notify_owner(Event::Closed { reason: Some(reason) });
            let error = mailbox.new_link(true).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Missing);
            assert!(error.message.contains(reported), "{error}");
        }
    }
}
