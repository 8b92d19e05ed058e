//! Reports of unreadable segments: an event at the first failure, another when the segment is
//! readable again, and statistics.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use enmasse_journal::log::Fault;

use crate::events::{EventKind, EventQueue, NodeEvent};
use crate::stats::JournalStats;

#[derive(Debug)]
pub(super) struct ReadReports {
    stats: Arc<Mutex<JournalStats>>,
    events: Arc<EventQueue>,
    /// segments whose last read failed
    unreadable: Mutex<BTreeSet<u32>>,
}

impl ReadReports {
    pub(super) fn new(stats: Arc<Mutex<JournalStats>>, events: Arc<EventQueue>) -> Self {
        Self { stats, events, unreadable: Mutex::default() }
    }

    /// Reports a failed read.
    pub(super) fn failed(&self, segment: u32, fault: &Fault) {
        let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        self.publish(|stats| stats.read_errors += 1);
        if unreadable.insert(segment) {
            let reason = fault.to_string();
            self.events.push(NodeEvent::new(EventKind::JournalUnreadable { segment, reason: reason.clone() }));
            self.publish(|stats| stats.unreadable = Some(format!("segment {segment}: {reason}")));
        }
    }

    /// Reports that a segment was read, or is no longer needed.
    pub(super) fn read(&self, segment: u32) {
        let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        if !unreadable.is_empty() && unreadable.remove(&segment) {
            self.events.push(NodeEvent::new(EventKind::JournalReadable { segment }));
            if unreadable.is_empty() {
                self.publish(|stats| stats.unreadable = None);
            }
        }
    }

    fn publish(&self, change: impl FnOnce(&mut JournalStats)) {
        change(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
