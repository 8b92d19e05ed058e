//! What is told of segments that the disk does not give: an event when one fails first, another
//! when it can be read again, and figures.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use enmasse_journal::log::Fault;

use super::JournalFigures;
use crate::events::{EventQueue, Happening, NodeEvent};

#[derive(Debug)]
pub(super) struct ReadReports {
    figures: Arc<Mutex<JournalFigures>>,
    events: Arc<EventQueue>,
    /// segments whose last read failed
    unreadable: Mutex<BTreeSet<u32>>,
}

impl ReadReports {
    pub(super) fn new(figures: Arc<Mutex<JournalFigures>>, events: Arc<EventQueue>) -> Self {
        Self { figures, events, unreadable: Mutex::default() }
    }

    /// A read has failed.
    pub(super) fn failed(&self, segment: u32, fault: &Fault) {
        let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        self.publish(|figures| figures.read_errors += 1);
        if unreadable.insert(segment) {
            let reason = fault.to_string();
            self.events.push(NodeEvent::new(Happening::JournalUnreadable { segment, reason: reason.clone() }));
            self.publish(|figures| figures.unreadable = Some(format!("segment {segment}: {reason}")));
        }
    }

    /// A segment was read, or is not needed any more.
    pub(super) fn read(&self, segment: u32) {
        let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        if !unreadable.is_empty() && unreadable.remove(&segment) {
            self.events.push(NodeEvent::new(Happening::JournalReadable { segment }));
            if unreadable.is_empty() {
                self.publish(|figures| figures.unreadable = None);
            }
        }
    }

    fn publish(&self, change: impl FnOnce(&mut JournalFigures)) {
        change(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
