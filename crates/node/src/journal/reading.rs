//! The thread that reads messages for the workers.
//!
//! A read that fails is the worker's to repeat, which knows how long others should wait for it. Here it becomes an event
//! and a figure, once for each segment until that can be read again.

use std::collections::BTreeSet;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use enmasse_journal::log::{Place, ReadError, Reader};
use enmasse_router::core::Read;

use super::{JournalFigures, Mailboxes, Wanted};
use crate::disk::FolderDisk;
use crate::events::{EventQueue, Happening, NodeEvent};
use crate::worker::Command;

pub(super) struct Reading {
    pub(super) reader: Reader<FolderDisk>,
    pub(super) mailboxes: Mailboxes,
    pub(super) figures: Arc<Mutex<JournalFigures>>,
    pub(super) events: Arc<EventQueue>,
    /// segments whose last read failed
    pub(super) unreadable: BTreeSet<u32>,
}

impl Reading {
    pub(super) fn run(mut self, orders: &Receiver<Wanted>) {
        let mut buffer = Vec::new();
        while let Ok(Wanted::Bodies(worker, mut places)) = orders.recv() {
            let mut reads = Vec::with_capacity(places.len());
            let reader = self.reader.clone();
            reader.read_all(&mut places, &mut buffer, |place, read| {
                self.note(place, read.as_ref().err());
                reads.push((place, Read::from(read)));
            });
            self.mailboxes[usize::from(worker)].post([Command::Fetched(reads)]);
        }
    }

    /// Tells of a segment that cannot be read, and of one that can be read again.
    fn note(&mut self, place: Place, error: Option<&ReadError>) {
        let segment = place.segment;
        if let Some(ReadError::Disk { fault, .. }) = error {
            self.publish(|figures| figures.read_errors += 1);
            if self.unreadable.insert(segment) {
                let reason = fault.to_string();
                self.events.push(NodeEvent::new(Happening::JournalUnreadable { segment, reason: reason.clone() }));
                self.publish(|figures| figures.unreadable = Some(format!("segment {segment}: {reason}")));
            }
        } else if !self.unreadable.is_empty() && self.unreadable.remove(&segment) {
            self.events.push(NodeEvent::new(Happening::JournalReadable { segment }));
            if self.unreadable.is_empty() {
                self.publish(|figures| figures.unreadable = None);
            }
        }
    }

    fn publish(&self, change: impl FnOnce(&mut JournalFigures)) {
        change(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
