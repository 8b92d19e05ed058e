//! Events of the node for an observer: a bounded queue, and a descriptor that is readable while the
//! queue has events. No event occurs once per message.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::event::{EventfdFlags, eventfd};
use serde::Serialize;

/// Events kept for a slow observer; further ones are dropped and counted.
const EVENTS_MAX: usize = 10_000;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeEvent {
    /// milliseconds since the Unix epoch
    pub at_ms: u64,
    /// its connection
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
    /// its peer's address and port
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// the kind of the event, with its fields
    #[serde(flatten)]
    pub what: EventKind,
}

impl NodeEvent {
    pub(crate) fn new(what: EventKind) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { at_ms: since.as_millis() as u64, connection: None, peer: None, what }
    }
}

impl EventKind {
    /// The end of a connection whose source address has too many.
    pub(crate) fn crowded() -> Self {
        Self::SourceCrowded { reason: "its source address has used up its share of all connections".to_owned() }
    }
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum EventKind {
    /// a peer has opened its connection
    Opened {
        /// its container id
        container: String,
        /// the address space it belongs to
        space: String,
        /// the user; `None`: anonymous
        user: Option<String>,
        /// the SASL mechanism of its login; `None`: without SASL
        mechanism: Option<&'static str>,
        /// `amqp`, `amqps`, `mqtt`, `mqtts`, `mqtt-unix`, `ws`, `wss` or `local`
        transport: &'static str,
    },
    /// a peer was not admitted
    LoginRefused {
        /// why, for operators only: the peer gets less detail
        reason: String,
        /// the claimed user name, if one was sent
        user: Option<String>,
        /// the full name of the requested address space, if it exists
        space: Option<String>,
        /// the SASL mechanism; `None`: without SASL, or an unknown mechanism
        mechanism: Option<&'static str>,
    },
    /// a link was refused
    AttachRefused {
        /// the address requested
        address: String,
        /// the error condition
        condition: String,
        /// why
        reason: String,
        /// the address space
        space: String,
        /// the user; `None`: anonymous
        user: Option<String>,
    },
    /// a connection has ended
    Closed {
        /// the error condition; `None`: closed without an error
        condition: Option<String>,
        /// the error's description
        description: Option<String>,
    },
    /// a connection failed before its AMQP open
    HandshakeFailed {
        /// why
        reason: String,
    },
    /// a connection was closed because its peer reads too slowly
    CutOff {
        /// bytes that waited to be written
        waiting_bytes: usize,
    },
    /// new connections wait because a bound is reached
    AcceptPaused {
        /// which bound
        reason: String,
    },
    /// a new connection was closed at once because its source address has too many connections
    SourceCrowded {
        /// which bound
        reason: String,
    },
    /// changed certificate files cannot be used: the former ones stay in force
    CertificateUnusable {
        /// which file, why, and the remedy
        reason: String,
    },
    /// stored messages, one or several consecutive ones, cannot be read back from the disk
    MessageDamaged {
        /// the address that had them
        address: String,
        /// its address space
        space: String,
        /// the number of the first message in its queue, as `peek` shows it; of a stream its offset
        message: u64,
        /// the partition, of a stream
        #[serde(skip_serializing_if = "Option::is_none")]
        partition: Option<u32>,
        /// number of messages
        count: u64,
    },
    /// durable bytes of a segment are damaged; the lost messages are reported by their addresses
    /// where known
    JournalDamaged {
        /// number of the segment's file
        segment: u32,
        /// offset of the first damaged byte
        offset: u32,
        /// number of damaged bytes
        bytes: u32,
    },
    /// the journal has messages whose address is unknown: its declaration is lost
    JournalUnnamed {
        /// the number of the address in the journal
        queue: u32,
        /// number of messages
        messages: u64,
        /// whether they are deleted now
        discarded: bool,
    },
    /// records of the journal with one flipped bit were corrected without loss
    JournalMended {
        /// number of records
        records: u64,
    },
    /// a segment of the journal cannot be read: its messages wait until it can
    JournalUnreadable {
        /// number of the segment's file
        segment: u32,
        /// the error of the system
        reason: String,
    },
    /// a segment of the journal can be read again
    JournalReadable {
        /// number of the segment's file
        segment: u32,
    },
    /// frames of a connection that is traced
    Trace {
        /// `in` or `out`
        direction: &'static str,
        /// one line per frame, without payloads and secrets
        frames: String,
    },
    /// events were dropped because the observer did not read them in time
    Lost {
        /// number of dropped events
        count: u64,
    },
}

/// The queue between the node's threads and the observer.
#[derive(Debug)]
pub(crate) struct EventQueue {
    queue: Mutex<Queue>,
    readable: OwnedFd,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<NodeEvent>,
    lost: u64,
}

impl EventQueue {
    /// An empty queue.
    pub(crate) fn new() -> io::Result<Self> {
        let readable = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { queue: Mutex::default(), readable })
    }

    /// Adds an event, or counts it as lost.
    pub(crate) fn push(&self, event: NodeEvent) {
        let mut queue = self.lock();
        if queue.events.len() >= EVENTS_MAX {
            queue.lost += 1;
            return;
        }
        queue.events.push_back(event);
        if queue.events.len() == 1 {
            // The write fails only for a counter near 2^64.
            let _ = rustix::io::write(&self.readable, &1u64.to_ne_bytes());
        }
    }

    /// Takes up to `max` events, oldest first; the count of lost events comes last.
    pub(crate) fn take(&self, max: usize) -> Vec<NodeEvent> {
        let mut queue = self.lock();
        let count = queue.events.len().min(max);
        let mut taken: Vec<NodeEvent> = queue.events.drain(..count).collect();
        if queue.events.is_empty() {
            if queue.lost > 0 && taken.len() < max {
                taken.push(NodeEvent::new(EventKind::Lost { count: std::mem::take(&mut queue.lost) }));
            }
            // A failed read means that the counter was already zero.
            let _ = rustix::io::read(&self.readable, &mut [0; 8]);
        }
        taken
    }

    /// Readable while there are events.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }

    // A poisoned lock means a thread panicked, and then the process is ending.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(queue: &EventQueue) -> bool {
        let mut set = [PollFd::from_borrowed_fd(queue.readable(), PollFlags::IN)];
        poll(&mut set, Some(&Timespec::default())).unwrap() == 1
    }

    fn event(reason: &str) -> NodeEvent {
        NodeEvent::new(EventKind::HandshakeFailed { reason: reason.to_owned() })
    }

    #[test]
    fn the_descriptor_is_readable_exactly_while_there_are_events() {
        let queue = EventQueue::new().unwrap();
        assert!(!is_readable(&queue));
        queue.push(event("a"));
        queue.push(event("b"));
        assert!(is_readable(&queue));
        assert_eq!(queue.take(1).len(), 1);
        assert!(is_readable(&queue));
        assert_eq!(queue.take(10).len(), 1);
        assert!(!is_readable(&queue));
        queue.push(event("c"));
        assert!(is_readable(&queue));
    }

    #[test]
    fn unread_event_queue_is_bounded_and_counts_lost_events() {
        let queue = EventQueue::new().unwrap();
        for _ in 0..EVENTS_MAX + 5 {
            queue.push(event("again"));
        }
        let taken = queue.take(EVENTS_MAX + 5);
        assert_eq!(taken.len(), EVENTS_MAX + 1);
        assert_eq!(taken[EVENTS_MAX].what, EventKind::Lost { count: 5 });
        assert!(queue.take(10).is_empty());
    }

    #[test]
    fn an_event_is_flat_json() {
        let mut event = NodeEvent::new(EventKind::CutOff { waiting_bytes: 9 });
        event.at_ms = 1;
        event.connection = Some(4);
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(json, r#"{"atMs":1,"connection":4,"event":"cut-off","waitingBytes":9}"#);
    }
}
